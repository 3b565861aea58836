"""Newer code in pods that run, on this machine: their ranks end, and go on with it."""

from __future__ import annotations

import json
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from torch._C._distributed_c10d import TCPStore

from allranks import names
from allranks.cli.main import main
from allranks.errors import RunError
from allranks.local import runs as local_runs
from allranks.workspace import archive as archives
from allranks.workspace import objects, sync
from allranks.workspace import snapshot as snapshots
from allranks.workspace.local_sync import LocalRun
from allranks.workspace.model import Archive
from allranks.workspace.sync import Offer
from allranks.yamlio.load import load_all
from tests import workspaces
from tests.workspaces import Sent

from .conftest import port_base, until

if TYPE_CHECKING:
    from pathlib import Path

    from allranks.local.runs import Handle

    from .conftest import Machine

pytestmark = [
    pytest.mark.local,
    pytest.mark.timeout(600),
    pytest.mark.usefixtures("warm_ranks"),
]


def _code(number: int, last: int = 2) -> Sent:
    files = {"train.py": workspaces.training(last), "code_version.py": f"NUMBER = {number}\n"}
    return Sent(workspaces.pack(files), parts=1)


def _start(
    machine: Machine,
    helm4: Any,
    repo: Path,
    workspace: dict[str, Any],
    sent: list[dict[str, Any]],
    **torchrun: Any,
) -> Handle:
    settings = {
        "image": {"repository": "any"},
        "command": ["python", "train.py"],
        "nodes": 2,
        "runPolicy": {"backoffLimit": 1},
        "torchrun": {"port": local_runs.free_port(port_base()), **torchrun},
        **workspace,
    }
    text = helm4.render(repo / "charts" / "torchrun", values=settings, name="run")
    manifests = [document for document in load_all(text) if document]
    return machine.start(*manifests, *sent)


def _send(machine: Machine, helm4: Any, repo: Path, code: Sent, restarts: int = 0) -> Handle:
    return _start(machine, helm4, repo, code.values(), code.manifests(), maxRestarts=restarts)


def _offer(sent: Sent, generation: int = 1) -> Offer:
    return Offer(generation, sent.digest, Archive(sent.data, "gzip", sent.digest))


def _deliver(sent: Sent, generation: int = 1) -> int:
    run = LocalRun.find("run", "lab")
    return sync.deliver(run, _offer(sent, generation), seconds=120, say=lambda _: None)


def _lose(machine: Machine, pod: str) -> None:
    """Kill all processes of a pod."""
    (attempt,) = (machine.folder().pods / pod).iterdir()
    for process in machine.processes():
        with suppress(psutil.Error):  # it has ended since it was listed
            if process.environ().get(names.ENV_POD_UID) == attempt.name:
                process.kill()


def _launchers(machine: Machine) -> dict[int, int]:
    """The launcher of each pod by the process that has forked it, a child of no launcher."""
    launchers = {}
    for process in machine.processes():
        with suppress(psutil.Error):  # it has ended since it was listed
            first, second, third = (process, *process.parents())[:3]
            if _is_launcher(first) and _is_launcher(second) and not _is_launcher(third):
                launchers[second.pid] = first.pid
    return launchers


def _is_launcher(process: psutil.Process) -> bool:
    return any(word.endswith("launch.py") for word in process.cmdline())


def _has_joined(machine: Machine, code: Sent) -> bool:
    """Whether a pod that has this code waits for its peers at rank 0, whatever code that has."""
    launcher = next(iter(_launchers(machine)), None)
    if launcher is None:
        return False
    try:
        env = psutil.Process(launcher).environ()
    except psutil.Error:
        return False  # it has ended since
    host, port = env["PET_RDZV_ENDPOINT"].rsplit(":", 1)
    store = TCPStore(host, int(port), is_master=False)
    digest = code.digest.removeprefix("sha256:")[:12]
    return bool(store.check([f"torch.rendezvous.{env['PET_RDZV_ID']}-{digest}"]))


def _lines() -> set[str]:
    return {line.text for line in local_runs.logs("run", "lab")}


def test_ranks_go_on_with_newer_code_in_the_same_pods(
    machine: Machine, helm4: Any, repo: Path
) -> None:
    """Ranks get their last save, and train on with the new code in the same pods, with no retry.

    The process that has imported torch stays, and forks another launcher.
    """
    handle = _send(machine, helm4, repo, _code(1))
    for rank in range(2):
        machine.line(f"rank {rank} of 2 trains [1]")
    before = _launchers(machine)

    assert _deliver(_code(2)) == 2

    for rank in range(2):
        machine.line(f"rank {rank} of 2 trains [2]")
    after = _launchers(machine)
    assert (2, 2) == (len(before), len(after))
    assert before.keys() == after.keys()
    assert not set(before.values()) & set(after.values())
    status = handle.wait()
    assert {f"rank {rank} saves code 1" for rank in range(2)} <= _lines()
    assert {f"rank {rank} of 2 trains [2]" for rank in range(2)} <= _lines()
    assert ("Succeeded", 0) == (status.phase.value, sum(pod.restarts for pod in status.pods))


def test_newer_code_that_comes_while_pods_start_over_costs_no_retry(
    machine: Machine, helm4: Any, repo: Path
) -> None:
    """Offers that come one right after the other end with the last code, and no pod fails.

    Rank 0's pod ends last here: the other has joined its store with the newer code by then, loses
    it, and joins the one of the next launcher, which listens at once.
    """
    joined, last = machine.workdir / "joined", 7
    ends = "while not dist.get_rank() and not os.path.exists(PATH): time.sleep(0.05)\nos._exit(0)"
    script = workspaces.training(last).replace(
        "os._exit(0)", ends.replace("PATH", repr(str(joined)))
    )
    codes = {
        number: Sent(
            workspaces.pack({"train.py": script, "code_version.py": f"NUMBER = {number}\n"}),
            parts=1,
        )
        for number in range(1, last + 1)
    }
    handle = _send(machine, helm4, repo, codes[1])
    for rank in range(2):
        machine.line(f"rank {rank} of 2 trains [1]")

    with ThreadPoolExecutor(1) as thread:
        first = thread.submit(_deliver, codes[2])
        try:
            until(lambda: _has_joined(machine, codes[2]), "the other pod at rank 0's old store")
        finally:
            joined.touch()
        pods = [first.result()]
    pods += [_deliver(codes[number], generation=number - 1) for number in range(3, last + 1)]

    assert [2] * (last - 1) == pods
    status = handle.wait()
    restarts = sum(pod.restarts for pod in status.pods)
    assert ("Succeeded", 0) == (status.phase.value, restarts), (status, _lines())
    assert {f"rank {rank} of 2 trains [{last}]" for rank in range(2)} <= _lines()
    log = [line.text for line in local_runs.logs("run", "lab")]
    assert not [line for line in log if "SignalException" in line], "\n".join(log)


def test_code_that_cannot_be_unpacked_changes_nothing(
    machine: Machine, helm4: Any, repo: Path
) -> None:
    """A broken archive is taken by no pod: the ranks train on, and the next sync is taken."""
    handle = _send(machine, helm4, repo, _code(1))
    for rank in range(2):
        machine.line(f"rank {rank} of 2 trains [1]")
    broken = Sent(b"no archive", parts=1)

    with pytest.raises(RunError) as error:
        _deliver(broken)

    assert "nothing was changed: run-0: the workspace in" in error.value.problem.message
    assert not {line for line in _lines() if "saves code" in line}
    assert LocalRun.find("run", "lab").published().generation == 0
    assert _deliver(_code(2)) == 2
    assert handle.wait().phase.value == "Succeeded"


def test_a_pod_that_is_made_later_has_the_newer_code(
    machine: Machine, helm4: Any, repo: Path
) -> None:
    """A pod that is lost after a sync comes back with that code, and trains with its peers."""
    handle = _send(machine, helm4, repo, _code(1, last=3), restarts=3)
    for rank in range(2):
        machine.line(f"rank {rank} of 2 trains [1]")
    assert _deliver(_code(2, last=3)) == 2
    for rank in range(2):
        machine.line(f"rank {rank} of 2 trains [2]")

    _lose(machine, "run-1")
    until(
        lambda: sum("of 2 trains [2]" in log.text for log in local_runs.logs("run", "lab")) >= 4,
        "training with the lost pod's successor",
    )

    assert _deliver(_code(3, last=3), generation=2) == 2
    status = handle.wait()
    assert status.phase.value == "Succeeded", (status, _lines())
    assert {line for line in _lines() if "trains" in line} == {
        f"rank {rank} of 2 trains [{number}]" for rank in range(2) for number in (1, 2, 3)
    }


def test_newer_code_while_a_pod_is_replaced_ends_with_one_code(
    machine: Machine, helm4: Any, repo: Path
) -> None:
    """A sync in the middle of a pod's replacement ends with the newer code in all pods."""
    handle = _send(machine, helm4, repo, _code(1), restarts=3)
    for rank in range(2):
        machine.line(f"rank {rank} of 2 trains [1]")

    _lose(machine, "run-1")
    _deliver(_code(2))

    assert handle.wait().phase.value == "Succeeded"
    trained = {line for line in _lines() if "trains" in line}
    assert {f"rank {rank} of 2 trains [2]" for rank in range(2)} <= trained
    assert not {line for line in trained if "[1, 2]" in line}


def test_the_command_brings_what_a_folder_has(
    machine: Machine, helm4: Any, repo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`allranks sync` brings the folder's code once, and `show` gives back that and the first.

    It does so into the pods of a StatefulSet as well. With --watch it goes on until Ctrl-C, which
    leaves the run as it is.
    """
    folder = machine.workdir / "code"
    folder.mkdir()
    (folder / "train.py").write_text(workspaces.training(last=3))
    (folder / "code_version.py").write_text("NUMBER = 1\n")
    snapshot = snapshots.take(folder)
    archive = archives.pack(snapshot)
    manifests = objects.config_maps(snapshot, archive, "lab")
    values = objects.values(snapshot, archive)
    handle = _start(machine, helm4, repo, values, manifests, controller="StatefulSet")
    for rank in range(2):
        machine.line(f"rank {rank} of 2 trains [1]")
    (folder / "code_version.py").write_text("NUMBER = 2\n")
    words = ["sync", "run", "--on", "local", "-n", "lab", "--workspace", str(folder), "-o", "json"]

    watch = machine.script(
        "import sys; from allranks import start; sys.exit(start.cli())", *words, "--watch"
    )
    assert watch.stdout is not None
    first = json.loads("".join(iter(watch.stdout.readline, "}\n")) + "}")

    assert (True, 2, 1) == (first["changed"], first["pods"], first["generation"])
    watch.send_signal(signal.SIGINT)
    assert 130 == watch.wait()
    for rank in range(2):
        machine.line(f"rank {rank} of 2 trains [2]")
    assert main(words) == 0
    second = json.loads(capsys.readouterr().out)
    assert (False, 0, 1) == (second["changed"], second["pods"], second["generation"])
    assert first["digest"] == second["digest"]
    where = ["--on", "local", "-n", "lab", "--code"]
    assert main(["show", "run", *where, str(machine.workdir / "last")]) == 0
    assert main(["show", "run", *where, str(machine.workdir / "first"), "--first"]) == 0
    numbers = [machine.workdir / which / "code_version.py" for which in ("first", "last")]
    assert ["NUMBER = 1\n", "NUMBER = 2\n"] == [path.read_text() for path in numbers]
    handle.stop()
    assert handle.wait().phase.value != "Succeeded"
    assert main(words) == 2
    assert "no pod of the run is running" in capsys.readouterr().out
