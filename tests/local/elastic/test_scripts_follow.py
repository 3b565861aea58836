"""The wrapper of charts/elastic: pods end with their leads, and say why they do not."""

from __future__ import annotations

import json
import select
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Protocol

import psutil
import pytest

from allranks.local.host import addresses
from tests.local.conftest import port_base, until

from .cast import FOR_EVER, Cast, Pod

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.local

BACK_SECONDS = 10.0  # of the meeting, for a pod whose connection was closed
LOST, TRAINING_LOST, STOPPED = 215, 216, 128 + signal.SIGTERM


class MakeCast(Protocol):
    """Makes the pods of a job."""

    def __call__(self, **options: Any) -> Cast:
        """With options of `Cast`."""


@pytest.fixture
def cast(tmp_path: Path) -> Iterator[MakeCast]:
    """Makes jobs; at the test's end nothing of them runs."""
    casts: list[Cast] = []

    def make(**options: Any) -> Cast:
        port = addresses.free_port(port_base() + 400)
        casts.append(Cast(tmp_path, port, **options))
        return casts[-1]

    yield make
    for member in casts:
        member.close()


def test_the_lead_tells_the_others_that_it_is_done(cast: MakeCast) -> None:
    """Servers and workers that never end by themselves end well when the chief has."""
    job = cast()
    others = [job.start("ps", 0, "echo up;" + FOR_EVER), job.start("worker", 0, "echo up")]
    for pod in others:
        pod.says("up")
    chief = job.start("chief", 0, "echo trained")
    assert [0, 0, 0] == [pod.code() for pod in (chief, *others)]
    assert "the training is done; ending" in others[0].log
    assert "" == others[0].reason
    assert "trained" in chief.log


def test_a_server_may_come_late_and_start_again(cast: MakeCast) -> None:
    """A server that is lost while the chief trains comes back and is told as well."""
    job = cast()
    first = job.start("ps", 0, "echo up;" + FOR_EVER)
    chief = job.start("chief", 0, "while [ ! -e end ]; do sleep 0.02; done")
    job.start("worker", 0, "exit 0").code()
    first.says("up")
    first.kill()
    second = job.start("ps", 0, "echo up;" + FOR_EVER)
    second.says("up")
    (chief.folder / "end").touch()
    assert [0, 0] == [chief.code(), second.code()]


def test_a_chief_that_starts_again_is_found(cast: MakeCast) -> None:
    """Followers keep their programs while a lost lead's next pod comes up, and hear of its end."""
    job = cast(counts={"chief": 1, "ps": 1})
    server = job.start("ps", 0, "echo up;" + FOR_EVER)
    first = job.start("chief", 0, FOR_EVER)
    server.says("up")
    until(lambda: _connected(first), "the server's connection to the chief")
    first.kill()
    server.says("chief-0 is away")
    assert 0 == job.start("chief", 0, "exit 0", ALLRANKS_FAILURES="1").code()
    assert 0 == server.code()
    assert 1 == server.log.count("up")


def _connected(pod: Pod) -> bool:
    return any(
        connection.status == psutil.CONN_ESTABLISHED
        for connection in psutil.Process(pod.process.pid).net_connections("tcp")
    )


@pytest.mark.parametrize("code", [0, 9])
def test_a_server_that_starts_after_the_end_ends_too(code: int, cast: MakeCast) -> None:
    """A lead that has ended waits for a pod that has an address and is still starting.

    Else the server would wait for a lead that is gone, fail, and be tried again.
    """
    job = cast(counts={"chief": 1, "ps": 1}, lost=3600)
    plan = {"hosts": {"chief": [f"{job.address('chief', 0)}:2222"], "ps": ["localhost:2222"]}}
    chief = job.start("chief", 0, f"exit {code}", plan=plan, ALLRANKS_FAILURES="2")
    chief.says("staying until ps-0 has heard of it")
    assert None is chief.process.poll()
    server = job.start("ps", 0, "echo up;" + FOR_EVER, plan=plan)
    assert [0, code] == [server.code(), chief.code()]


def test_a_lead_that_has_ended_waits_no_longer_than_pods_do(cast: MakeCast) -> None:
    """A server that never comes keeps a lead for elastic.leadLostSeconds, and no longer."""
    job = cast(counts={"chief": 1, "ps": 1}, lost=11)
    plan = {"hosts": {"chief": [f"{job.address('chief', 0)}:2222"], "ps": ["localhost:2222"]}}
    assert 0 == job.start("chief", 0, "exit 0", plan=plan).code(60)


def test_a_lead_that_has_ended_and_is_told_to_stop_has_ended_well(cast: MakeCast) -> None:
    """A drain of the node on which it waits for others costs no training."""
    job = cast(counts={"chief": 1, "ps": 1}, lost=3600)
    plan = {"hosts": {"chief": [f"{job.address('chief', 0)}:2222"], "ps": ["localhost:2222"]}}
    chief = job.start("chief", 0, "exit 0", plan=plan)
    chief.says("staying until ps-0 has heard of it")
    chief.process.terminate()
    assert 0 == chief.code()


def test_a_lead_lost_for_too_long_ends_the_others(cast: MakeCast) -> None:
    """Without a lead they end with a code of their own, and say for whom they waited."""
    job = cast(lost=1.0)
    server = job.start("ps", 0, "trap 'echo stopped; exit 0' TERM; echo up;" + FOR_EVER)
    assert LOST == server.code()
    assert "chief-0 has not been seen for 1 s (elastic.leadLostSeconds)" in server.reason
    assert "stopped" in server.log


def test_all_workers_must_be_done(cast: MakeCast) -> None:
    """With the policy allWorkers the first worker waits for the others, and so do the servers."""
    job = cast(framework="pytorch", counts={"ps": 1, "worker": 3}, leads=[("worker", 3)])
    server = job.start("ps", 0, FOR_EVER)
    first, second = job.start("worker", 0, "exit 0"), job.start("worker", 1, "exit 0")
    third = job.start("worker", 2, "while [ ! -e end ]; do sleep 0.02; done")
    first.says("done; waiting here for the other leads")
    assert 0 == second.code()
    assert None is first.process.poll() is server.process.poll()
    (third.folder / "end").touch()
    # PyTorch's servers end by themselves; this one is given the time, and does not.
    assert [0, 0] == [third.code(), first.code()]
    server.says("the training is done; ending")


@pytest.mark.parametrize("leaves", ["hangs up", "has heard"])
def test_a_lead_that_is_done_is_told_before_the_meeting_ends(leaves: str, cast: MakeCast) -> None:
    """Both leads are done at once: the one that keeps the meeting stays until the other knows.

    Else the other would look for a meeting that is gone, for as long as a lost lead is looked for.
    """
    job = cast(framework="pytorch", counts={"worker": 2}, leads=(("worker", 2),))
    keeper = job.start("worker", 0, "exit 0")
    keeper.says("waiting here for the other leads")
    with socket.create_connection((job.address("worker", 0), job.port)) as other:
        for word in ({"pod": "worker-1", "known": []}, {"ended": 0}):
            other.sendall((json.dumps(word) + "\n").encode())
        with other.makefile("rb") as lines:
            assert "done" in (json.loads(line)["over"] for line in lines)
        with pytest.raises(subprocess.TimeoutExpired):
            keeper.process.wait(2)
        if leaves == "has heard":
            other.sendall(b'{"heard": true}\n')
            assert 0 == keeper.code()
    assert 0 == keeper.code()


def test_a_meeting_that_starts_anew_is_told_what_was_known(cast: MakeCast) -> None:
    """A worker whose end was heard needs not end again when the first worker is replaced."""
    job = cast(framework="pytorch", counts={"ps": 1, "worker": 2}, leads=[("worker", 2)])
    server = job.start("ps", 0, "trap 'exit 0' TERM;" + FOR_EVER, plan={"endsItself": []})
    first = job.start("worker", 0, FOR_EVER)
    assert 0 == job.start("worker", 1, "exit 0").code()
    until(lambda: _connected(first), "the server's connection to the first worker")
    first.kill()
    assert 0 == job.start("worker", 0, "exit 0").code()
    assert 0 == server.code()


def test_a_failure_is_the_programs_own(cast: MakeCast) -> None:
    """A failed chief that is tried again leaves the others alone; its code is its program's."""
    job = cast(counts={"chief": 1, "ps": 1})
    server = job.start("ps", 0, "echo up;" + FOR_EVER)
    server.says("up")
    assert 7 == job.start("chief", 0, "exit 7", ALLRANKS_FAILURES="1").code()
    assert 0 == job.start("chief", 0, "exit 0", ALLRANKS_FAILURES="2").code()
    assert 0 == server.code()


@pytest.mark.parametrize(
    "how", [{"ALLRANKS_FAILURES": "2"}, {"ALLRANKS_FATAL_EXIT_CODES": "3,9"}], ids=["last", "fatal"]
)
def test_a_lead_that_fails_for_good_lets_the_others_go(how: dict[str, str], cast: MakeCast) -> None:
    """The others end well at once: the verdict is the lead's, and there is nothing to wait for."""
    job = cast(counts={"chief": 1, "ps": 1})
    server = job.start("ps", 0, "echo up;" + FOR_EVER)
    server.says("up")
    assert 9 == job.start("chief", 0, "exit 9", **how).code()
    assert 0 == server.code()
    assert "chief-0 failed for good; ending" in server.log


def test_a_server_that_fails_for_good_ends_the_training(cast: MakeCast) -> None:
    """The chief could only hang without it: it ends with a code that its Job does not try again."""
    job = cast(counts={"chief": 1, "ps": 1})
    chief = job.start("chief", 0, "echo up;" + FOR_EVER)
    chief.says("up")
    assert 5 == job.start("ps", 0, "exit 5", ALLRANKS_FAILURES="2").code()
    assert TRAINING_LOST == chief.code()
    assert "ps-0 failed for good" == chief.reason


def test_an_evaluator_may_fail(cast: MakeCast) -> None:
    """The training does not need it."""
    job = cast(counts={"chief": 1, "evaluator": 1})
    chief = job.start("chief", 0, "while [ ! -e end ]; do sleep 0.02; done")
    assert 5 == job.start("evaluator", 0, "exit 5", ALLRANKS_FAILURES="2").code()
    (chief.folder / "end").touch()
    assert 0 == chief.code()


def test_a_follower_that_fails_because_the_lead_is_done(cast: MakeCast) -> None:
    """A connection that breaks at the end makes many a program fail; the pod ends well."""
    job = cast(counts={"chief": 1, "worker": 1}, leads=[("chief", 1)])
    worker = job.start("worker", 0, "while [ ! -e end ]; do sleep 0.02; done; exit 4")
    chief = job.start("chief", 0, "sleep 0.3")
    until(lambda: chief.process.poll() is not None or _connected(chief), "the connection")
    (worker.folder / "end").touch()
    assert [0, 0] == [worker.code(), chief.code()]


@pytest.mark.parametrize("role", ["chief", "ps"])
@pytest.mark.parametrize("action", ["exit 0", "exit 5", ":"])
def test_told_to_stop_it_is_not_done(role: str, action: str, cast: MakeCast) -> None:
    """After SIGTERM the program may save, and even end well: the pod has not done its part."""
    job = cast(counts={"chief": 1, "ps": 1})
    pod = job.start(role, 0, f"trap 'echo saved; {action}' TERM; echo up; {FOR_EVER}")
    pod.says("up")
    pod.process.terminate()
    if action == ":":  # it goes on, until it is killed
        pod.says("saved")
        pod.kill()
        return
    assert (5 if action == "exit 5" else STOPPED) == pod.code()
    assert "saved" in pod.log


def test_a_program_behind_a_shell_has_the_time_to_save(cast: MakeCast) -> None:
    """The signal ends the shell at once, and the pod waits for the program."""
    save = "import os, signal, sys, time\n"
    save += "def save(*_):\n    time.sleep(2)\n    open('saved', 'w').close()\n    sys.exit(0)\n"
    save += "signal.signal(signal.SIGTERM, save)\nprint('up', flush=True)\n"
    save += "while True: time.sleep(0.01)"
    pod = cast(counts={"chief": 1}).start(
        "chief", 0, "sh", "-c", '"$0" -c "$1"; true', sys.executable, save
    )
    pod.says("up")
    pod.process.send_signal(signal.SIGTERM)
    assert STOPPED == pod.code(60)
    assert (pod.folder / "saved").exists()


def test_told_to_stop_before_the_program_starts(cast: MakeCast) -> None:
    """Also while it waits for names."""
    job = cast(counts={"chief": 1, "ps": 1})
    pod = job.start("ps", 0, "echo up", plan={"needs": ["x"], "hosts": _hosts(job, "no.invalid:1")})
    pod.says("waiting for the name no.invalid to have an address (")
    pod.process.terminate()
    assert STOPPED == pod.code()
    assert "up" not in pod.log


def _hosts(job: Cast, other: str) -> dict[str, list[str]]:
    hosts: dict[str, list[str]] = job.plan()["hosts"]
    return hosts | {"x": [other]}


def test_names_are_waited_for_and_named(cast: MakeCast) -> None:
    """A name that nobody has ends the pod, with the name in the reason; it is then tried again."""
    job = cast(counts={"chief": 1, "ps": 1}, waits=0.5)
    plan = {"needs": ["x"], "hosts": _hosts(job, "no.invalid:1")}
    pod = job.start("ps", 0, "echo up", plan=plan)
    assert 1 == pod.code()
    assert "the name no.invalid had no address within" in pod.reason
    assert "up" not in pod.log


def test_the_environment_of_each_framework(cast: MakeCast) -> None:
    """Each pod gets what its framework reads, from the plan and its own index."""
    cases = {
        "tensorflow": ({"chief": 1, "worker": 2, "ps": 1, "evaluator": 1}, "worker", 1),
        "mxnet": ({"scheduler": 1, "server": 1, "worker": 2}, "server", 0),
        "pytorch": ({"ps": 2, "worker": 2}, "worker", 1),
    }
    environments = {}
    for framework, (counts, role, index) in cases.items():
        job = cast(framework=framework, counts=counts, leads=[(role, 1)], waits=20)
        pod = job.start(role, index, "env; exit 3", ALLRANKS_BACKOFF_LIMIT=9, plan={})
        assert 3 == pod.code()
        environments[framework] = dict(
            line.split("=", 1) for line in pod.log.splitlines() if "=" in line
        )
    flow = environments["tensorflow"]
    assert {"type": "worker", "index": 1} == json.loads(flow["TF_CONFIG"])["task"]
    cluster = json.loads(flow["TF_CONFIG"])["cluster"]
    assert ["chief", "ps", "worker"] == sorted(cluster)
    assert ["127.77.4.1:2222", "127.77.4.2:2222"] == cluster["worker"]
    assert "127.77.4.1:2222,127.77.4.2:2222" == flow["ALLRANKS_WORKER_HOSTS"]
    assert ("worker", "1") == (flow["ALLRANKS_ROLE"], flow["ALLRANKS_ROLE_RANK"])
    net = environments["mxnet"]
    assert ("server", "127.77.1.1", "2222", "127.77.2.1", "2", "1") == tuple(
        net[f"DMLC_{key}"]
        for key in ("ROLE", "PS_ROOT_URI", "PS_ROOT_PORT", "NODE_HOST", "NUM_WORKER", "NUM_SERVER")
    )
    torch = environments["pytorch"]
    assert ("127.77.1.1", "2222", "3", "4") == tuple(
        torch[key] for key in ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE")
    )


def test_what_cannot_run_says_why(cast: MakeCast) -> None:
    """No such program, no such pod, a port that is taken: a code, and a sentence."""
    job = cast(counts={"chief": 1})
    missing = job.start("chief", 0, "/no/such/program", "x", ALLRANKS_FAILURES="2")
    assert 127 == missing.code()
    assert "cannot run /no/such/program: No such file or directory" == missing.reason
    stranger = job.start("chief", 3, "true")
    assert 1 == stranger.code()
    assert "this pod is chief 3, and the job has chief (1)" == stranger.reason
    holder = job.start("chief", 0, "echo up;" + FOR_EVER)
    holder.says("up")
    second = job.start("chief", 0, "true")
    assert 1 == second.code()
    assert f"cannot listen on 127.77.1.1:{job.port} (elastic.followPort)" in second.reason


@pytest.mark.attack
def test_strangers_at_the_meeting_are_ignored(cast: MakeCast) -> None:
    """Whoever is no pod of the job ends nothing, whatever it sends."""
    job = cast(counts={"chief": 1, "ps": 1})
    chief = job.start("chief", 0, "echo up;" + FOR_EVER)
    chief.says("up")
    for words in (
        b"hello\n",
        b"[]\n",
        b'{"pod": "x-1", "ended": 1}\n',
        b'{"ended": 1}\n',
        b"1" * 99,
    ):
        with socket.create_connection((job.address("chief", 0), job.port), timeout=5) as connection:
            connection.sendall(words)
            connection.shutdown(socket.SHUT_WR)
            assert b"" == connection.recv(100)
    assert None is chief.process.poll()


def _answer(job: Cast, words: bytes) -> bytes:
    """The first that the meeting answers to a line; nothing where it closes the connection."""
    with socket.create_connection((job.address("chief", 0), job.port), timeout=60) as connection:
        connection.sendall(words)
        try:
            return connection.recv(100)
        except ConnectionResetError:
            return b""


@pytest.mark.attack
def test_without_the_jobs_token_nobody_is_a_pod_of_it(cast: MakeCast) -> None:
    """Who guesses the name of a pod ends nothing; the pods themselves meet as ever."""
    job = cast(counts={"chief": 1, "ps": 1})
    token = {"ALLRANKS_FOLLOW_TOKEN": "a" * 64}
    program = "echo up; while [ ! -e end ]; do sleep 0.02; done"
    chief = job.start("chief", 0, program, **token)
    chief.says("up")
    for credential in (
        {},
        {"token": ""},
        {"token": "a" * 63},
        {"token": None},
        {"token": "\ud800"},
    ):
        for flag in (0, 1):
            word = {"pod": "ps-0", "known": ["chief-0"], "ended": flag, **credential}
            assert b"" == _answer(job, json.dumps(word).encode() + b"\n")
    assert None is chief.process.poll()
    server = job.start("ps", 0, "echo up;" + FOR_EVER, **token)
    server.says("up")
    until(lambda: _connected(server), "the server at the meeting")
    (chief.folder / "end").touch()
    assert [0, 0] == [chief.code(), server.code()]


@pytest.mark.attack
def test_one_address_does_not_take_all_places(cast: MakeCast) -> None:
    """Whoever says nothing there keeps nobody out, and a line is as long as all names at most."""
    job = cast(counts={"chief": 1, "ps": 1})
    chief = job.start("chief", 0, "echo up; while [ ! -e end ]; do sleep 0.02; done")
    chief.says("up")
    assert b"" == _answer(job, b"1" * 20_000 + b"\n")
    silent: list[socket.socket] = []
    try:
        where = job.address("chief", 0), job.port
        silent.extend(socket.create_connection(where, timeout=60) for _ in range(300))
        # All come from one address, which may have so many: those beyond are closed.
        too_many = len(silent) - 256
        until(lambda: _closed(silent) >= too_many, "the end of those that are too many")
        hello = b'{"pod": "ps-0"}\n'
        address = ("127.77.9.9", 0)
        with socket.create_connection(where, timeout=60, source_address=address) as connection:
            connection.sendall(hello)
            assert connection.recv(100).startswith(b'{"ended"')
    finally:
        for stranger in silent:
            stranger.close()
    server = job.start("ps", 0, "echo up;" + FOR_EVER)
    server.says("up")
    (chief.folder / "end").touch()
    assert [0, 0] == [chief.code(), server.code()]


def _closed(connections: list[socket.socket]) -> int:
    """How many of them the other side has closed."""
    ready, _, _ = select.select(connections, [], [], 0)
    return len(ready)


# ---------------------------------------------------------------- who was first, and who is gone

_LAST = {"ALLRANKS_BACKOFF_LIMIT": "0"}


def test_a_lead_that_breaks_off_behind_a_server_is_not_the_first(cast: MakeCast) -> None:
    """A worker that loses its server fails at once: the server is at fault, and ends before it."""
    job = cast(framework="pytorch", counts={"ps": 1, "worker": 1}, leads=[("worker", 1)])
    worker = job.start("worker", 0, "while [ ! -e end ]; do sleep 0.02; done; exit 1", **_LAST)
    server = job.start("ps", 0, "echo up; while [ ! -e end ]; do sleep 0.02; done; exit 5", **_LAST)
    server.says("up")
    until(lambda: _connected(worker), "the server's connection to the worker")
    (server.folder / "end").touch()
    until(lambda: not psutil.Process(server.process.pid).children(), "the end of the server")
    (worker.folder / "end").touch()
    assert TRAINING_LOST == worker.code()
    assert 5 == server.code()
    assert "ps-0 failed for good" == worker.reason


def test_a_server_that_breaks_off_behind_the_lead_is_not_the_first(cast: MakeCast) -> None:
    """The other way round the verdict is the lead's."""
    job = cast(framework="pytorch", counts={"ps": 1, "worker": 1}, leads=[("worker", 1)])
    worker = job.start("worker", 0, "while [ ! -e end ]; do sleep 0.02; done; exit 7", **_LAST)
    server = job.start("ps", 0, "echo up; while [ ! -e end ]; do sleep 0.02; done; exit 5", **_LAST)
    server.says("up")
    until(lambda: _connected(worker), "the server's connection to the worker")
    (worker.folder / "end").touch()
    until(lambda: not psutil.Process(worker.process.pid).children(), "the end of the worker")
    (server.folder / "end").touch()
    assert [7, 0] == [worker.code(), server.code()]


def test_a_server_that_is_killed_on_its_last_try_ends_the_training(cast: MakeCast) -> None:
    """It cannot say a word, and nobody replaces it: its closed connection is word enough."""
    job = cast(counts={"chief": 1, "ps": 1})
    chief = job.start("chief", 0, FOR_EVER)
    server = job.start("ps", 0, "echo up;" + FOR_EVER, **_LAST)
    server.says("up")
    until(lambda: _connected(chief), "the server's connection to the chief")
    server.kill()
    assert TRAINING_LOST == chief.code(60)
    assert "ps-0 is gone without a word, and was on its last try (out of memory?)" == chief.reason


def test_a_lead_that_is_killed_on_its_last_try_is_not_waited_for(cast: MakeCast) -> None:
    """The others end long before elastic.leadLostSeconds."""
    job = cast(counts={"chief": 1, "ps": 1}, lost=3600)
    chief = job.start("chief", 0, FOR_EVER, **_LAST)
    server = job.start("ps", 0, "echo up;" + FOR_EVER)
    server.says("up")
    until(lambda: _connected(chief), "the server's connection to the chief")
    chief.kill()
    assert LOST == server.code(60)
    assert "chief-0 is gone without a word, and was on its last try" in server.reason


def test_who_was_told_to_stop_will_be_replaced(cast: MakeCast) -> None:
    """A pod that is drained is waited for, on its last try too."""
    job = cast(counts={"chief": 1, "ps": 1})
    chief = job.start("chief", 0, "while [ ! -e end ]; do sleep 0.02; done")
    first = job.start("ps", 0, "trap 'echo saved' TERM; echo up;" + FOR_EVER, **_LAST)
    first.says("up")
    until(lambda: _connected(chief), "the server's connection to the chief")
    first.process.terminate()
    first.says("saved")
    first.kill()
    with pytest.raises(subprocess.TimeoutExpired):
        chief.process.wait(BACK_SECONDS + 4)
    second = job.start("ps", 0, "echo up;" + FOR_EVER, **_LAST)
    second.says("up")
    (chief.folder / "end").touch()
    assert [0, 0] == [chief.code(), second.code()]


def test_a_single_lead_waits_for_nobody(cast: MakeCast) -> None:
    """No other leads are spoken of where there are none."""
    chief = cast(counts={"chief": 1}).start("chief", 0, "exit 0")
    assert 0 == chief.code()
    assert "the other leads" not in chief.log
