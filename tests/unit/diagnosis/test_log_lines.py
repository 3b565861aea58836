"""Errors of NCCL, gloo and the rendezvous in words."""

from __future__ import annotations

import pytest

from allranks.diagnosis.log_lines import findings, last_words, of_now


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (
            "ncclInvalidUsage: Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1b0",
            "two ranks use one GPU",
        ),
        ("Multiple Ranks are using the same GPU/Partition", "two ranks use one GPU"),
        (
            (
                "[rank0]: Watchdog caught collective operation timeout: WorkNCCL(SeqNum=4711, "
                "OpType=ALLREDUCE, NumelIn=1, Timeout(ms)=600000) ran for 600002 milliseconds"
            ),
            "did not end within its timeout",
        ),
        (
            "Error while creating shared memory segment /dev/shm/nccl-UY1k (size 9637888)",
            "shared memory is full",
        ),
        (
            (
                "op.preamble.length <= op.nbytes. 33336 vs 4. Received data size doesn't match "
                "expected size. Is there a distributed collective mismatch in your code?"
            ),
            "tensors of different sizes",
        ),
        ("RuntimeError: CUDA error: uncorrectable ECC error encountered", "memory error (ECC)"),
        (
            "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError",
            "not all nodes joined in time",
        ),
        ("OSError: [Errno 98] Address already in use", "a port is taken"),
        (
            (
                "a100-22:183006:183181 [1] misc/socket.cc:49 NCCL WARN socketProgress: Connection "
                "closed by remote peer gpu004.ds-a4-r02.example.com<55693>"
            ),
            "a peer is gone",
        ),
        (
            (
                "ncclRemoteError: A call failed possibly due to a network error or a remote "
                "process exiting prematurely."
            ),
            "a peer is gone",
        ),
        (
            (
                "NET/IB : Got completion from peer 10.0.35.1<49189> with error 4, opcode 5327, "
                "len 5327, vendor err 81 (Send)"
            ),
            "InfiniBand or RoCE has failed",
        ),
        (
            (
                "NCCL WARN NET/IB: Got completion from peer 10.0.35.1<49189> with status="
                "IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_SEND(0) vendor_err=129 hca mlx5_0"
            ),
            "InfiniBand or RoCE has failed",
        ),
        ("NET/IB : mlx5_0:1 async fatal event: port error", "InfiniBand or RoCE has failed"),
        (
            (
                "misc/ibvwrap.cc:284 NCCL WARN Call to ibv_modify_qp failed with 110 Connection "
                "timed out, on dev mlx5_0:1, local GID ::, remote GID ::"
            ),
            "InfiniBand or RoCE has failed",
        ),
        (
            (
                "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:2251, "
                "unhandled system error (run with NCCL_DEBUG=INFO for details), NCCL version 2.27.5"
            ),
            "a system call of NCCL failed",
        ),
        (
            (
                "node0:13571:13571 [0] bootstrap.cc:45 NCCL WARN Bootstrap : no socket interface "
                "found"
            ),
            "no interface of the name",
        ),
        ("NCCL WARN Cuda failure 2 'out of memory'", "a GPU's memory is full"),
        (
            (
                "[PG ID 0 PG GUID 0(default_pg) Rank 1] ProcessGroupNCCL's watchdog got stuck for "
                "480 seconds without making progress in monitoring enqueued collectives."
            ),
            "does not return on its rank",
        ),
        (
            (
                "[rank3]: Some NCCL operations have failed or timed out. Due to the asynchronous "
                "nature of CUDA kernels, subsequent GPU operations might run on corrupted data."
            ),
            "did not end within its timeout",
        ),
        (
            (
                "RuntimeError: [gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting "
                "1800000ms for recv operation to complete"
            ),
            "did not end within its timeout",
        ),
        (
            "RuntimeError: Gloo connectFullMesh failed with [gloo/transport/tcp/pair.cc:144] out",
            "cannot reach a peer",
        ),
        (
            (
                "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for "
                "clients. 1/4 clients joined."
            ),
            "not all nodes joined in time",
        ),
        (
            (
                "torch.distributed.DistNetworkError: The client socket has timed out after 60000ms "
                "while trying to connect to (big-0.big, 29500)."
            ),
            "not all nodes joined in time",
        ),
        (
            (
                "[12.3] Memory cgroup out of memory: Killed process 4711 (python3) "
                "total-vm:123kB, anon-rss:45kB"
            ),
            "killed, most likely by the kernel for lack of memory",
        ),
        ("traceback : Signal 9 (SIGKILL) received by PID 71", "killed, most likely by the kernel"),
        (
            "RuntimeError: DataLoader worker (pid 9) is killed by signal: Killed.",
            "killed, most likely",
        ),
        ("RuntimeError: CUDA error: invalid device ordinal", "a GPU that its pod does not have"),
    ],
)
def test_a_known_error_is_put_into_words(line: str, words: str) -> None:
    """The meaning, the first line that has it, and the pods."""
    (finding,) = findings([("a-0", ["step 1", line]), ("a-1", [line])])
    assert words in finding.meaning
    assert ("a-0", "a-1") == finding.pods
    assert finding.line == " ".join(line.split())[:160]


def test_plain_lines_are_none() -> None:
    """A step is no error."""
    assert () == findings([("a-0", ["step 1 loss 0.3", "saved /checkpoints/1.pt"])])


def test_the_last_words_of_a_launcher_are_those_before_its_progress() -> None:
    """They tell what a pod waits for in which no rank runs."""
    lines = ["allranks: waiting for  rank 0", "step 3", 'allranks: progress {"step": 3}']
    assert {"a-0": "waiting for rank 0"} == last_words([("a-0", lines), ("a-1", ["step 1"])])


def test_the_last_words_of_a_launcher_are_no_line_for_programs() -> None:
    """A preflight of long ago is JSON, and the wait before it is over: nothing is said then."""
    preflight = 'allranks: preflight {"passed": true, "node": "b2"}'
    assert {} == last_words([("a-0", ["allranks: waiting for rank 0", preflight])])
    spare = [preflight, "allranks: standing by: all 2 places are taken", 'allranks: other {"a": 1}']
    assert {"a-0": "standing by: all 2 places are taken"} == last_words([("a-0", spare)])


_GONE = "RuntimeError: [gloo/transport/tcp/pair.cc:547] Connection closed by peer [10.0.0.2]:4711"


def test_an_end_without_a_rendezvous_is_no_cause() -> None:
    """A torch writes it as it ends, where rank 0's pod has ended first: all nodes had joined."""
    line = (
        "W1126 torch/distributed/elastic/rendezvous/dynamic_rendezvous.py:1313] The node "
        "'big-1_71_0' has failed to shutdown the rendezvous 'big' due to an error of type "
        "RendezvousConnectionError."
    )
    assert () == findings([("a-1", [line])])
    (finding,) = findings([("a-1", [line.replace("shutdown", "send a keep-alive heartbeat to")])])
    assert finding.meaning.startswith("the rendezvous is gone, or the network to it")


@pytest.mark.parametrize(
    "line",
    [
        "allranks: this is restart 1 of 3 in place",
        "allranks: rank 0 at big-0.big:29500 is gone; waiting for it and joining again",
        "allranks: a place is free: this pod trains now",
        "allranks: taking workspace sha256:0123, generation 2",
        "allranks: generation 2: rank 0 of 2, rank 0 at 10.0.0.1:29500",
        "I1126 torch/distributed/elastic/agent/server/api.py:714] [default] Starting worker group",
    ],
)
def test_an_error_before_a_start_of_the_ranks_is_of_an_earlier_attempt(line: str) -> None:
    """Unless the attempt after it has the same error, or another pod's has."""
    (finding,) = findings([("a-0", [_GONE, line])])
    assert finding.is_earlier
    (finding,) = findings([("a-0", [_GONE, line, f"{_GONE} again"])])
    assert (False, f"{_GONE} again") == (finding.is_earlier, finding.line)
    (finding,) = findings([("a-0", [_GONE, line]), ("a-1", [f"{_GONE} now"])])
    assert (False, f"{_GONE} now", ("a-1",)) == (finding.is_earlier, finding.line, finding.pods)
    (finding,) = findings([("a-0", [_GONE, line]), ("a-1", [_GONE, line])])
    assert (True, ("a-0", "a-1")) == (finding.is_earlier, finding.pods)


@pytest.mark.parametrize(
    ("line", "after", "expected"),
    [
        (_GONE, [], 0),
        ("oom-kill: out", [], 1),
        ("oom-kill: out", ["allranks: this is restart 1 of 3 in place"], 0),
        ("oom-kill: out", ['allranks: progress {"step": 3}'], 0),
        ("oom-kill: out", ["W1126 api.py:1028] Sending process 71 closing signal SIGTERM"], 0),
        ("oom-kill: out", ["E1126 api.py:1002] failed (exitcode: -9) local_rank: 0 (pid: 7)"], 0),
        ("oom-kill: out", ['allranks: progress {"standstill": "rank 1 has not come"}'], 1),
        ("oom-kill: out", ["allranks: waiting for rank 0"], 1),
    ],
)
def test_a_run_that_makes_steps_has_outlived_errors(
    line: str, after: list[str], expected: int
) -> None:
    """No peer of it is gone, and what its log goes on after is over; all else is still told."""
    assert expected == len(of_now(findings([("a-0", [line, *after])])))


def test_progress_alone_does_not_make_an_error_an_earlier_one() -> None:
    """It is written late, so that a step before the error may be told after it."""
    (finding,) = findings([("a-0", [_GONE, 'allranks: progress {"step": 3}'])])
    assert not finding.is_earlier
