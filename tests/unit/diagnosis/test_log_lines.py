"""Errors of NCCL, gloo and the rendezvous in words."""

from __future__ import annotations

import pytest

from allranks.diagnosis.log_lines import findings


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
            "did not end within NCCL's timeout",
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
        ("torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError", "did not all meet"),
        ("OSError: [Errno 98] Address already in use", "a port is taken"),
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
