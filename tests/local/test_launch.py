"""The launcher inside a torchrun pod, with real torchrun agents on loopback.

Each "node" is one process of charts/torchrun/files/launch.py, as a pod would run it.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from allranks.local import runs as local_runs

from .conftest import port_base, until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.local, pytest.mark.timeout(600)]

LAUNCH = Path(__file__).parents[2] / "charts/torchrun/files/launch.py"
RANK0 = "127.0.0.9"

# Writes who it is at each start, then all-reduces until the file "go" appears.
STEADY = """
import os, sys, time, torch, torch.distributed as dist
dist.init_process_group("gloo")
with open("starts", "a") as out:
    out.write("%s:%d " % (os.environ["ALLRANKS_NODE_RANK"], dist.get_rank()))
while True:
    go = torch.tensor([float(os.path.exists("go"))])
    dist.all_reduce(go)
    if go.item() == dist.get_world_size():
        break
    time.sleep(0.05)
dist.barrier()
dist.destroy_process_group()
os._exit(0)  # without torch's teardown, which may abort on a busy machine
"""


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        port: int = probe.getsockname()[1]
        return port


class Nodes:
    """Launchers of one job, each with its log and its termination message."""

    def __init__(self, folder: Path, count: int) -> None:
        self.folder = folder
        self.count = count
        self.port = _free_port()
        self.running: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, index: int, script: str, **extra: str) -> subprocess.Popen[bytes]:
        """Start (or replace) the node of an index."""
        (self.folder / "train.py").write_text(script)
        env = {
            **os.environ,
            "ALLRANKS_NODE_RANK": str(index),
            "ALLRANKS_RANK0_HOST": RANK0,
            "ALLRANKS_RANK0_PORT": str(self.port),
            "ALLRANKS_WAIT_SECONDS": "60",
            "ALLRANKS_TERMINATION_LOG": str(self.folder / f"message.{index}"),
            "GLOO_SOCKET_IFNAME": "lo",
            "PET_MAX_RESTARTS": "3",
            "PET_NNODES": str(self.count),
            "PET_NPROC_PER_NODE": "1",
            "PET_RDZV_BACKEND": "c10d",
            "PET_RDZV_ENDPOINT": f"{RANK0}:{self.port}",
            "PET_RDZV_ID": "test",
            **extra,
        }
        with (self.folder / f"log.{index}").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-u", LAUNCH, "train.py"],
                cwd=self.folder,
                env=env,
                stdout=log,
                stderr=log,
            )
        self.running[index] = process
        return process

    def kill(self, index: int) -> None:
        """End a node as a lost machine ends it: all its processes at once, unasked."""
        process = psutil.Process(self.running[index].pid)
        for victim in [*process.children(recursive=True), process]:
            victim.kill()
        self.running[index].wait()

    def starts(self) -> list[str]:
        """``node index:rank`` of each training process that has joined the group so far."""
        path = self.folder / "starts"
        return path.read_text().split() if path.exists() else []

    def log(self, index: int) -> str:
        """All that a node printed."""
        return (self.folder / f"log.{index}").read_text()

    def message(self, index: int) -> str:
        """The termination message a node left."""
        return (self.folder / f"message.{index}").read_text()


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    """Three nodes with one process each, ended with all their children at the end."""
    three_nodes = Nodes(tmp_path, 3)
    yield three_nodes
    for index, process in three_nodes.running.items():
        if process.poll() is None:
            three_nodes.kill(index)


@pytest.mark.usefixtures("warm_ranks")
def test_node_rank_is_the_pods_index(nodes: Nodes) -> None:
    """With c10d the ranks follow the pods' indices, whatever pod comes first."""
    (nodes.folder / "go").touch()
    for index in (2, 1, 0):
        nodes.start(index, STEADY)
    assert [0, 0, 0] == [nodes.running[index].wait(120) for index in range(3)]
    assert ["0:0", "1:1", "2:2"] == sorted(nodes.starts())


@pytest.mark.usefixtures("warm_ranks")
@pytest.mark.parametrize("node", [2, 0])
def test_lost_node_is_replaced_and_training_goes_on(nodes: Nodes, node: int) -> None:
    """A node that vanishes, even rank 0's, is replaced once; all others go on with it and end 0."""
    for index in range(3):
        nodes.start(index, STEADY)
    until(lambda: len(nodes.starts()) == 3, "the first start of three ranks", 90)
    nodes.kill(node)
    nodes.start(node, STEADY)
    until(lambda: len(nodes.starts()) >= 6, "the second start of three ranks", 100)
    (nodes.folder / "go").touch()
    assert [0, 0, 0] == [nodes.running[index].wait(120) for index in range(3)], nodes.log(1)
    assert {"0:0", "1:1", "2:2"} == set(nodes.starts())


def test_node_that_waits_for_the_others_can_be_stopped(nodes: Nodes) -> None:
    """A node whose ranks are done ends soon after SIGTERM, although torch waits for its peers."""
    nodes.count = 2
    script = 'import os, time; open("at." + os.environ["ALLRANKS_NODE_RANK"], "w")\n'
    script += 'time.sleep(0 if os.environ["ALLRANKS_NODE_RANK"] == "0" else 100)'
    for index in range(2):
        nodes.start(index, script)
    until((nodes.folder / "at.0").exists, "the start of rank 0", 90)
    agent = psutil.Process(nodes.running[0].pid)
    until(lambda: not agent.children(), "the end of rank 0's training", 90)
    agent.terminate()
    assert 143 == nodes.running[0].wait(90)


# Notes each start, and does as files say: `hold.NODE` has it wait, `fail.NODE` end with 7, once.
APART = """
import os, sys, time
node = os.environ["ALLRANKS_NODE_RANK"]
with open("starts", "a") as out:
    out.write(node + " ")
while os.path.exists("hold." + node):
    time.sleep(0.05)
try:
    os.remove("fail." + node)
    sys.exit(7)
except FileNotFoundError:
    pass
"""


def _apart(nodes: Nodes, held: int, restarts: int) -> None:
    """Start two nodes; all ranks have ended well but those of the one that is held."""
    nodes.count = 2
    hold = nodes.folder / f"hold.{held}"
    hold.touch()
    for index in range(2):
        nodes.start(index, APART, PET_MAX_RESTARTS=str(restarts))
    until(lambda: len(nodes.starts()) == 2, "the start of both ranks", 90)
    agent = psutil.Process(nodes.running[1 - held].pid)
    until(lambda: not agent.children(), "the end of one rank", 90)


def test_a_node_whose_ranks_are_done_ends_with_one_that_fails(nodes: Nodes) -> None:
    """A job fails as a whole: what is done already does not end with 0, nor waits for minutes."""
    _apart(nodes, 1, restarts=0)
    (nodes.folder / "fail.1").touch()
    (nodes.folder / "hold.1").unlink()
    assert [7, 7] == [nodes.running[index].wait(120) for index in range(2)], nodes.log(0)
    assert "failed first: rank 1 in pod" in nodes.message(0)


def test_a_node_whose_ranks_are_done_starts_again_with_one_that_fails(nodes: Nodes) -> None:
    """A restart is the whole job's, also where some of its ranks have ended well before."""
    _apart(nodes, 1, restarts=1)
    (nodes.folder / "fail.1").touch()
    (nodes.folder / "hold.1").unlink()
    assert [0, 0] == [nodes.running[index].wait(120) for index in range(2)], nodes.log(0)
    assert ["0", "0", "1", "1"] == sorted(nodes.starts())


@pytest.mark.parametrize("lost", [1, 0])
def test_a_node_whose_ranks_are_done_starts_again_with_one_that_is_lost(
    nodes: Nodes, lost: int
) -> None:
    """A lost node cannot train alone: the others, also those that are done, begin again with it."""
    _apart(nodes, lost, restarts=3)
    nodes.kill(lost)
    nodes.start(lost, APART)
    until(lambda: len(nodes.starts()) == 4, "the second start of both ranks", 100)
    (nodes.folder / f"hold.{lost}").unlink()
    assert [0, 0] == [nodes.running[index].wait(120) for index in range(2)], nodes.log(0)


def test_exit_code_and_reason_of_the_failed_rank(nodes: Nodes) -> None:
    """The node ends with its rank's own exit code and leaves the reason in its message."""
    nodes.count = 1
    script = 'import sys; open("tries", "a").write("x"); sys.exit(7)'
    process = nodes.start(0, script, PET_MAX_RESTARTS="1")
    assert 7 == process.wait(90)
    assert "xx" == (nodes.folder / "tries").read_text()
    assert "rank 0 ended with exit code 7" == nodes.message(0)


def test_signal_of_a_rank_becomes_128_plus_its_number(nodes: Nodes) -> None:
    """A rank that is killed (out of memory, say) gives 137, as a shell would."""
    nodes.count = 1
    script = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    assert 137 == nodes.start(0, script, PET_MAX_RESTARTS="0").wait(90)


def test_fatal_exit_code_is_not_retried(nodes: Nodes) -> None:
    """A fatal exit code ends the node at once although restarts are left."""
    nodes.count = 1
    script = 'import sys; open("tries", "a").write("x"); sys.exit(13)'
    assert 13 == nodes.start(0, script, ALLRANKS_FATAL_EXIT_CODES="3,13").wait(90)
    assert "x" == (nodes.folder / "tries").read_text()


@pytest.mark.parametrize(("mode", "code"), [(None, 127), (0o644, 126)])
def test_a_program_that_cannot_be_started_is_named(
    nodes: Nodes, mode: int | None, code: int
) -> None:
    """It ends with the code of a shell, and is not tried again from here."""
    program = nodes.folder / "trainer"
    if mode is not None:
        program.write_text("#!/bin/sh\n")
        program.chmod(mode)
    env = {
        **os.environ,
        "ALLRANKS_TERMINATION_LOG": str(nodes.folder / "message.0"),
        "PET_STANDALONE": "1",
        "PET_NPROC_PER_NODE": "1",
        "PET_NO_PYTHON": "1",
    }
    process = subprocess.run([sys.executable, LAUNCH, program], env=env, check=False, timeout=90)
    assert code == process.returncode
    assert nodes.message(0).startswith(f"cannot start '{program}': ")


def test_arguments_arrive_as_typed(nodes: Nodes) -> None:
    """No word is expanded on its way to the ranks, neither torchrun's macros nor `$$`."""
    nodes.count = 1
    script = 'import json, sys; json.dump(sys.argv[1:], open("argv", "w"))'
    (nodes.folder / "train.py").write_text(script)
    words = ["${local_rank}", "$$", "$(HOME)", "--", "-m", "a b", "", "1e-5", "{{ x }}", "\n'\""]
    env = {**os.environ, "PET_STANDALONE": "1", "PET_NPROC_PER_NODE": "1"}
    command = [sys.executable, LAUNCH, "train.py", *words]
    subprocess.run(command, cwd=nodes.folder, env=env, check=True, timeout=90)
    assert words == json.loads((nodes.folder / "argv").read_text())


def test_rank_0_that_never_comes_is_named(nodes: Nodes) -> None:
    """A node gives up after the bounded wait and says which address did not answer."""
    assert 1 == nodes.start(1, STEADY, ALLRANKS_WAIT_SECONDS="1").wait(90)
    assert f"rank 0 at {RANK0}:{nodes.port} did not listen within 1 s" in nodes.log(1)
    assert "did not listen" in nodes.message(1)


def test_name_that_does_not_resolve_is_named(nodes: Nodes) -> None:
    """A name without an address is told apart from a rank 0 that does not listen."""
    extra = {"ALLRANKS_RANK0_HOST": "job-0.invalid", "ALLRANKS_WAIT_SECONDS": "1"}
    assert 1 == nodes.start(0, STEADY, **extra).wait(90)
    assert "the name of rank 0, job-0.invalid, did not resolve within 1 s" in nodes.log(0)


def test_image_without_torch_is_told(tmp_path: Path) -> None:
    """A Python that cannot import torch ends with 127 and says so, without a traceback."""
    env = {"PATH": os.environ["PATH"], "PET_STANDALONE": "1"}
    command = [sys.executable, "-S", "-E", LAUNCH, "train.py"]
    process = subprocess.run(
        command, check=False, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=90
    )
    assert 127 == process.returncode
    assert "cannot load torch" in process.stderr
    assert "Traceback" not in process.stderr


# Saves for longer than a shell takes to end, once it is told to.
SAVES = """
import signal, sys, time
def save(*_):
    time.sleep(3)
    open("saved", "w").close()
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
signal.signal(signal.SIGUSR1, save)
open("ready", "w").close()
while True:
    time.sleep(0.01)
"""


@pytest.mark.parametrize("number", ["", "SIGUSR1"])
def test_a_program_behind_a_shell_has_the_time_of_a_rank(tmp_path: Path, number: str) -> None:
    """The signal ends a shell at once; its program saves before the pod's first process ends."""
    env = {**os.environ, "PET_NO_PYTHON": "1", "PET_STANDALONE": "1"}
    env |= {"ALLRANKS_CHECKPOINT_SIGNAL": number, "ALLRANKS_GRACE_SECONDS": "60"}
    shell = ["bash", "-c", '"$0" -c "$1"; touch never', sys.executable, SAVES]
    process = subprocess.Popen([sys.executable, "-u", LAUNCH, *shell], cwd=tmp_path, env=env)
    until((tmp_path / "ready").exists, "the program's handler", 90)
    process.send_signal(signal.SIGTERM)
    assert 128 + signal.SIGTERM == process.wait(90)
    assert (tmp_path / "saved").exists()
    assert not (tmp_path / "never").exists()


def test_a_program_behind_a_launcher_of_its_own_gets_the_signal(tmp_path: Path) -> None:
    """A torchrun in a rank starts its own in sessions, and has no handler for it itself."""
    env = {**os.environ, "PET_NO_PYTHON": "1", "PET_STANDALONE": "1"}
    env |= {"ALLRANKS_CHECKPOINT_SIGNAL": "SIGUSR1", "ALLRANKS_GRACE_SECONDS": "60"}
    own = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--no-python"]
    words = ["bash", "-c", f'{shlex.join(own)} "$0" -c "$1"; touch never', sys.executable, SAVES]
    process = subprocess.Popen([sys.executable, "-u", LAUNCH, *words], cwd=tmp_path, env=env)
    until((tmp_path / "ready").exists, "the program's handler", 90)
    process.send_signal(signal.SIGTERM)
    assert 128 + signal.SIGTERM == process.wait(90)
    assert (tmp_path / "saved").exists()


def test_a_program_behind_a_shell_that_does_not_end_is_killed(tmp_path: Path) -> None:
    """It has the grace period of its pod, less a little, and not more."""
    env = {**os.environ, "PET_NO_PYTHON": "1", "PET_STANDALONE": "1", "ALLRANKS_GRACE_SECONDS": "4"}
    deaf = "import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    deaf += "open('pid', 'w').write(str(os.getpid())); os.rename('pid', 'ready'); time.sleep(90)"
    shell = ["bash", "-c", '"$0" -c "$1"; true', sys.executable, deaf]
    process = subprocess.Popen([sys.executable, "-u", LAUNCH, *shell], cwd=tmp_path, env=env)
    until((tmp_path / "ready").exists, "the program", 90)
    process.send_signal(signal.SIGTERM)
    assert 128 + signal.SIGTERM == process.wait(90)
    program = int((tmp_path / "ready").read_text())
    until(lambda: not psutil.pid_exists(program) or _is_dead(program), "the program's end", 20)


def _is_dead(pid: int) -> bool:
    """Whether a process has ended, and nobody has asked how."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_finished_rank_idles_until_it_is_told_to_stop(nodes: Nodes) -> None:
    """Under a StatefulSet a finished pod does not train again, and stops with 0 when asked."""
    nodes.count = 1
    extra = {"ALLRANKS_FINISHED_MARKER": str(nodes.folder / "finished"), "PET_STANDALONE": "1"}
    extra["ALLRANKS_RANK0_HOST"] = ""
    assert 0 == nodes.start(0, 'open("tries", "a").write("x")', **extra).wait(90)
    again = nodes.start(0, 'open("tries", "a").write("x")', **extra)
    until(lambda: "finished its training" in nodes.log(0), "the idle message", 90)
    again.send_signal(signal.SIGTERM)
    assert 0 == again.wait(90)
    assert "x" == (nodes.folder / "tries").read_text()


# Notes each try; the first ends with 7, the second is killed together with its launcher.
FAILING = """
import os, signal, sys
with open("tries", "a+") as out:
    out.write("x")
    out.seek(0)
    number = len(out.read())
if number == 2:
    os.kill(os.getppid(), signal.SIGKILL)
sys.exit(7)
"""


def _in_place(nodes: Nodes) -> dict[str, str]:
    """Two restarts in place, counted in `starts-of-pod`, and none by torchrun."""
    return {
        "ALLRANKS_RESTARTS_IN_PLACE": "2",
        "ALLRANKS_STARTS_FILE": str(nodes.folder / "starts-of-pod"),
        "PET_MAX_RESTARTS": "0",
    }


def test_containers_start_again_in_their_pod_as_often_as_asked(nodes: Nodes) -> None:
    """The launcher counts over its ends, also that by the kernel; then the rank's own code ends it.

    The termination message is the failure's each time.
    """
    nodes.count = 1
    extra = _in_place(nodes)
    codes = [nodes.start(0, FAILING, **extra).wait(90) for _ in range(3)]
    assert [220, -signal.SIGKILL, 7] == codes, nodes.log(0)
    assert "rank 0 ended with exit code 7" == nodes.message(0)
    assert "this is restart 2 of 2 in place" in nodes.log(0)


def test_a_container_that_is_killed_after_its_last_restart_says_so(nodes: Nodes) -> None:
    """It would start again for ever: 137 is one of the codes after which Kubernetes does that."""
    nodes.count = 1
    (nodes.folder / "starts-of-pod").write_text("3")
    extra = _in_place(nodes)
    assert 221 == nodes.start(0, FAILING, **extra).wait(90)
    assert nodes.message(0).startswith("the container was killed (exit code 137) after its last")
    assert not (nodes.folder / "tries").exists()


@pytest.mark.parametrize("code", [220, 137])
def test_a_rank_that_asks_for_one_more_start_gets_none(nodes: Nodes, code: int) -> None:
    """Its exit code is one after which Kubernetes starts the container again: none is left."""
    nodes.count = 1
    (nodes.folder / "starts-of-pod").write_text("2")
    extra = _in_place(nodes)
    assert 221 == nodes.start(0, f"import sys; sys.exit({code})", **extra).wait(90)
    assert f"rank 0 ended with exit code {code}" == nodes.message(0)


@pytest.mark.parametrize("count", ["-100000", "zzz\n", ""])
def test_a_count_that_a_program_has_spoilt_ends_the_pod(nodes: Nodes, count: str) -> None:
    """Nothing else would limit its starts."""
    nodes.count = 1
    (nodes.folder / "starts-of-pod").write_text(count)
    extra = _in_place(nodes)
    assert 221 == nodes.start(0, "pass", **extra).wait(90)
    assert f"cannot be counted: {nodes.folder}/starts-of-pod has {count!r}" in nodes.message(0)


@pytest.mark.parametrize(("code", "fatal"), [(13, "13"), (219, ""), (126, "")])
def test_what_another_start_cannot_mend_ends_the_pod(nodes: Nodes, code: int, fatal: str) -> None:
    """A fatal exit code, an unfit node, a program that cannot be started: as without restarts."""
    nodes.count = 1
    extra = _in_place(nodes) | {"ALLRANKS_FATAL_EXIT_CODES": fatal}
    assert code == nodes.start(0, f"import sys; sys.exit({code})", **extra).wait(90)


_WAITING = """
import json, os, sys, threading, time
sys.path.insert(0, sys.argv[1])
import launch
from torch.distributed.elastic.rendezvous import RendezvousParameters, dynamic_rendezvous
from torch.distributed.elastic.rendezvous.c10d_rendezvous_backend import create_backend
parameters = {"backend": "c10d", "endpoint": "127.0.0.1:" + sys.argv[2], "run_id": "r"}
parameters.update(min_nodes=2, max_nodes=2)
reads, pauses, looked = [], [], threading.Event()
pause = dynamic_rendezvous._delay
def delay(seconds):
    pauses.append(seconds)
    pause(seconds)
dynamic_rendezvous._delay = delay
launch.look_sooner({"PET_NNODES": sys.argv[3]})
backend, store = create_backend(RendezvousParameters(is_host="1", **parameters))
read = backend.get_state
def get_state():
    reads.append(len(pauses))
    if len(set(reads)) > 4:
        looked.set()
    return read()
backend.get_state = get_state
handler = dynamic_rendezvous.DynamicRendezvousHandler.from_backend(
    "r", store, backend, 2, 2, local_addr="127.0.0.1"
)
threading.Thread(target=handler.next_rendezvous, daemon=True).start()
assert looked.wait(60), (reads, pauses)
print(json.dumps([pauses, reads]), flush=True)
os._exit(0)  # the thread is in torch's C++, where Python's own end may abort
"""


_LOGGING = """
import logging, os, signal, sys
sys.path.insert(0, sys.argv[1])
import failures
from torch.distributed.elastic.multiprocessing import api

class Handler(logging.StreamHandler):
    def format(self, record):
        os.kill(os.getpid(), signal.SIGTERM)
        return super().format(record)

failures.AttemptWatch("big-0").hook()
signal.signal(signal.SIGTERM, api._terminate_process_handler)
logger = logging.Logger("agent")
logger.addHandler(Handler())
try:
    logger.warning("a line")
except api.SignalException as error:
    print(int(error.sigval), flush=True)
os._exit(0)
"""


def test_a_signal_that_comes_while_a_line_is_logged_is_not_lost(repo: Path, tmp_path: Path) -> None:
    """A handler of torch's raises there, and `logging` would print the exception and go on."""
    program = [sys.executable, "-B", "-c", _LOGGING, str(repo / "charts/torchrun/files")]
    process = subprocess.run(
        program, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=90
    )
    assert (str(int(signal.SIGTERM)), "") == (process.stdout.strip(), process.stderr)


@pytest.mark.parametrize(("nodes", "least"), [("2", 0.1), ("1:100", 0.2)])
def test_a_node_that_waits_for_its_peers_reads_anew_at_each_look(
    repo: Path, tmp_path: Path, nodes: str, least: float
) -> None:
    """Not what torch has kept for a second; how soon it looks depends on how many look."""
    program = [sys.executable, "-B", "-c", _WAITING, str(repo / "charts/torchrun/files")]
    port = str(local_runs.free_port(port_base()))
    process = subprocess.run(
        [*program, port, nodes],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=90,
    )
    pauses, reads = json.loads(process.stdout)
    waits = [seconds for seconds in pauses if not isinstance(seconds, list)]
    assert least == min(waits)
    assert len(waits) <= len(set(reads)) + 1
