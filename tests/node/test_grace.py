"""The time that a pod has for a last checkpoint, on real pods: all of it, however it goes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from . import watching
from .conftest import small, until

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .conftest import Lab

pytestmark = [pytest.mark.timeout(900)]

# More than torchrun's own and Kubernetes' 30 s; what it is over the save is for a busy machine.
_GRACE = 90
# Saves for longer than torchrun's own 30 s, and has nothing left to do where it has saved before.
_SAVES = """
import os, signal, sys, time
name = os.environ["RANK"]
if os.path.exists("/checkpoints/saved." + name):
    sys.exit(0)
def save(*_):
    time.sleep(45)
    open("/checkpoints/saved." + name, "w").close()
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
open("/checkpoints/ready." + name, "w").close()
while not os.path.exists("/checkpoints/trained." + name):
    time.sleep(1)
"""


def _folder(lab: Lab, release: str) -> Path:
    """Where the node keeps the volume of a release's checkpoints."""

    def look() -> Any:
        claim = lab.get("persistentvolumeclaims", f"{release}-checkpoints")
        return claim and claim["spec"].get("volumeName")

    volume = until(look, f"the volume of {release}", 120)
    spec = lab.cluster.api("GET", f"/api/v1/persistentvolumes/{volume}")["spec"]
    return Path(spec["local"]["path"])


def test_a_long_save_is_finished_however_the_pod_goes(lab: Lab) -> None:
    """Uninstalled, evicted, suspended, over its deadline: the 45 s of a save are there."""
    ways = ("uninstalled", "evicted", "suspended", "late")
    for name in ways:
        lab.install(
            name,
            nodes=1,
            procsPerNode=2,
            script=_SAVES,
            storage={"checkpoints": {"size": "1Mi"}},
            runPolicy={"terminationGracePeriodSeconds": _GRACE},
        )
    folders = {name: _folder(lab, name) for name in ways}
    for name, folder in folders.items():
        _wait_for(folder, "ready", ("0", "1"), name, 180)

    lab.run_helm("uninstall", "uninstalled")
    lab.evict(lab.pod("evicted")["metadata"]["name"])
    lab.patch("batch/v1/jobs", "suspended", {"spec": {"suspend": True}})
    lab.patch("batch/v1/jobs", "late", {"spec": {"activeDeadlineSeconds": 1}})

    for name, folder in folders.items():
        _wait_for(folder, "saved", ("0", "1"), name, 120)
    until(lambda: not lab.pods("uninstalled"), "the pod to end", 60)
    lab.completes("evicted", seconds=120)


_ROLES = ("chief", "ps", "worker")


def test_a_long_save_of_a_role_is_finished_however_its_pod_goes(lab: Lab) -> None:
    """Also of a server that is ended because the chief has trained, with a time of its own."""
    ways = ("uninstalled", "evicted", "suspended", "late", "trained")
    own = {"podTemplate": {"spec": {"terminationGracePeriodSeconds": _GRACE}}}
    for name in ways:
        lab.install(
            name,
            "elastic",
            nodes=1,
            script=_SAVES.replace("RANK", "ALLRANKS_ROLE"),
            storage={"checkpoints": {"size": "1Mi"}},
            # Less than the save takes: the time is the roles' own.
            runPolicy={"terminationGracePeriodSeconds": 10},
            elastic={
                "framework": "tensorflow",
                "roles": {"chief": {"replicas": 1, **own}, "ps": {"replicas": 1, **own}}
                | {"worker": own},
            },
        )
    folders = {name: _folder(lab, name) for name in ways}
    for name, folder in folders.items():
        _wait_for(folder, "ready", _ROLES, name, 240)

    lab.run_helm("uninstall", "uninstalled")
    for role in _ROLES:
        lab.evict(lab.pod("evicted", role=role)["metadata"]["name"])
        lab.patch("batch/v1/jobs", f"suspended-{role}", {"spec": {"suspend": True}})
        lab.patch("batch/v1/jobs", f"late-{role}", {"spec": {"activeDeadlineSeconds": 1}})
    (folders["trained"] / "trained.chief").touch()

    for name, folder in folders.items():
        roles = ("ps", "worker") if name == "trained" else _ROLES
        _wait_for(folder, "saved", roles, name, 180)
    until(lambda: not lab.pods("uninstalled"), "the pods to end", 60)
    for role in _ROLES:
        lab.completes("trained", role, seconds=120)
        lab.completes("evicted", role, seconds=180)


def test_a_long_save_of_an_elastic_worker_is_finished(lab: Lab) -> None:
    """When its pod is drained, when the others meet anew without it, and when the job goes."""
    watching.install(lab, replicas=1)
    values = {
        "nodes": 2,
        "script": _SAVES.replace(
            'os.environ["RANK"]', 'os.environ["POD_NAME"] + "." + os.environ["ALLRANKS_GENERATION"]'
        ),
        "storage": {"checkpoints": {"size": "1Mi"}},
        "runPolicy": {"terminationGracePeriodSeconds": _GRACE},
        "elastic": {"mode": "auto", "framework": "pytorch"},
    }
    lab.install("auto", "elastic", **small(values))
    folder = _folder(lab, "auto")

    def generation(least: int) -> list[str]:
        """Two ranks of one generation that is no older than `least`, when they have begun."""

        def look() -> list[str] | None:
            names = [path.name.partition(".")[2] for path in folder.glob("ready.*")]
            newest = max((int(name.rpartition(".")[2]) for name in names), default=0)
            ranks = [name for name in names if name.endswith(f".{newest}")]
            return ranks if len(ranks) == 2 and newest >= least else None

        ranks: list[str] = until(look, lambda: f"generation {least}\n{lab.logs('auto')}", 240)
        return ranks

    first = generation(0)
    lab.evict(first[1].partition(".")[0])
    _wait_for(folder, "saved", first, "auto", 180)
    second = generation(1 + int(first[0].rpartition(".")[2]))
    lab.run_helm("uninstall", "auto")
    _wait_for(folder, "saved", second, "auto", 180)


def _wait_for(folder: Path, phase: str, programs: Sequence[str], run: str, seconds: float) -> None:
    """Wait until each program has left a file of its own."""
    files = [folder / f"{phase}.{program}" for program in programs]
    until(
        lambda: all(file.exists() for file in files),
        lambda: f"{run}: {phase}.{programs}; there is {sorted(folder.iterdir())}",
        seconds,
    )
