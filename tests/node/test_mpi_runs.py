"""MPI on real pods: every MPI, both transports, both kinds of user, and the examples."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from .conftest import until

if TYPE_CHECKING:
    from .conftest import Lab, MakeLab

# Ranks of an MPI wait by spinning: two such jobs at once leave a node of two cores nothing.
pytestmark = [pytest.mark.timeout(900), pytest.mark.xdist_group("mpi")]

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_GPU = "bench.allranks.dev/gpu"


def _in_folder(name: str) -> dict[str, str]:
    """The variables that choose an MPI of the trainer's image; Debian's is there without any."""
    folder = f"/opt/mpi/{name}"
    return {"PATH": f"{folder}/bin:{_PATH}", "LD_LIBRARY_PATH": f"{folder}/lib"}


# Name -> implementation, variables, how its library calls itself.
_MPIS: dict[str, tuple[str, dict[str, str], str]] = {
    "openmpi4": ("OpenMPI", {}, "Open MPI v4."),
    "openmpi5": ("OpenMPI", _in_folder("openmpi"), "Open MPI v5."),
    "mpich": ("MPICH", _in_folder("mpich"), "MPICH Version"),
    "intel": ("Intel", _in_folder("intel"), "Intel(R) MPI Library 2021"),
}


def _pi(lab: Lab, mpi: str = "openmpi4", **settings: Any) -> dict[str, Any]:
    """The values of examples/mpi-pi for one MPI; `settings` are of `mpi:`."""
    implementation, env, _ = _MPIS[mpi]
    values = lab.example("mpi-pi")
    values["mpi"] = {**values["mpi"], "implementation": implementation, **settings}
    return {**values, "env": env}


def _result(lab: Lab, release: str) -> dict[str, Any]:
    """What the ranks have computed, once the launcher is done."""
    lab.completes(release, "launcher", seconds=120)
    log = lab.log(lab.pod(release, role="launcher")["metadata"]["name"])
    result: dict[str, Any] = next(
        json.loads(line) for line in log.splitlines() if line.startswith("{")
    )
    assert result["error"] < 1e-6
    return result


@pytest.mark.parametrize("mpi", _MPIS)
def test_every_mpi_computes_pi_over_ssh(lab: Lab, mpi: str) -> None:
    """Two workers of two ranks, as a user without rights, under Pod Security "restricted"."""
    lab.install("pi", "mpi", **_pi(lab, mpi))
    result = _result(lab, "pi")
    assert (4, 2) == (result["ranks"], result["hosts"])
    assert result["library"].startswith(_MPIS[mpi][2])
    # No operator runs here: the launcher itself told the workers to stop.
    lab.completes("pi", "worker")


@pytest.mark.parametrize("mpi", ["openmpi4", "openmpi5"])
def test_open_mpi_starts_its_daemons_through_the_api(lab: Lab, mpi: str) -> None:
    """With transport exec no sshd runs; at the end the StatefulSet is scaled to nothing."""
    lab.install("pi", "mpi", **_pi(lab, mpi, transport="exec"))
    result = _result(lab, "pi")
    assert (4, 2) == (result["ranks"], result["hosts"])
    until(lambda: not lab.pods("pi", "worker"), lambda: f"no workers\n{lab.logs('pi')}")


def test_root_runs_over_ssh_on_the_usual_port(make_lab: MakeLab) -> None:
    """An image whose user is root works as it is, with sshd on port 22."""
    lab = make_lab("baseline")
    security = {"restricted": False, "podSecurityContext": {"runAsUser": 0}}
    lab.install("pi", "mpi", **_pi(lab, ssh={"port": 22}), security=security)
    assert 2 == _result(lab, "pi")["hosts"]
    lab.completes("pi", "worker")


def test_the_launcher_has_ranks_too(lab: Lab) -> None:
    """With runLauncherAsWorker the launcher is a host, and resolves its own name."""
    lab.install("pi", "mpi", **_pi(lab, numWorkers=1, runLauncherAsWorker=True))
    result = _result(lab, "pi")
    assert (4, 2) == (result["ranks"], result["hosts"])
    log = lab.log(lab.pod("pi", role="launcher")["metadata"]["name"])
    assert "2 ranks on pi-launcher-0" in log


def test_fewer_ranks_than_slots(lab: Lab) -> None:
    """`mpi.np` is what mpirun is told."""
    lab.install("pi", "mpi", **_pi(lab, np=3))
    assert 3 == _result(lab, "pi")["ranks"]


def test_the_last_worker_may_have_fewer_slots(lab: Lab) -> None:
    """Three GPUs at two per node are two hosts, the last with one slot and one GPU."""
    status = {"status": {"capacity": {_GPU: "64"}}}
    lab.cluster.api("PATCH", "/api/v1/nodes/node-0/status", status)
    values = _pi(lab, numWorkers=0)
    del values["procsPerNode"]
    lab.install("pi", "mpi", **values, gpus=3, gpusPerNode=2, gpuResource=_GPU)
    result = _result(lab, "pi")
    assert (3, 2) == (result["ranks"], result["hosts"])
    log = lab.log(lab.pod("pi", role="launcher")["metadata"]["name"])
    assert "2 ranks on pi-worker-0" in log
    assert "1 ranks on pi-worker-last-0" in log
    lab.completes("pi", "worker-last")


def test_an_mpirun_of_the_users_own(lab: Lab) -> None:
    """A command that is an mpirun runs as it is; agent and hosts come from the environment."""
    values = _pi(lab)
    values["command"] = ["mpirun", "-np", "2", "--map-by", "node", "python3", "pi.py"]
    lab.install("pi", "mpi", **values)
    result = _result(lab, "pi")
    assert (2, 2) == (result["ranks"], result["hosts"])


def test_torch_trains_under_mpirun(lab: Lab) -> None:
    """examples/mpi-ddp reaches its accuracy on two pods of two ranks."""
    digits = lab.charts.parent / "examples/torchrun-digits/train.py"
    lab.install("ddp", "mpi", **lab.example("mpi-ddp", digits))
    lab.completes("ddp", "launcher", seconds=180)
    log = lab.log(lab.pod("ddp", role="launcher")["metadata"]["name"])
    final = next(json.loads(line) for line in log.splitlines() if '"final": true' in line)
    assert 4 == final["world_size"]
    assert final["accuracy"] >= 0.95
