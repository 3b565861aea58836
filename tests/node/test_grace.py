"""The time that a pod is given for a last checkpoint, on real pods: all of it, however the pod goes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from .conftest import until

if TYPE_CHECKING:
    from .conftest import Lab

pytestmark = [pytest.mark.timeout(900)]

# Saves for longer than torchrun's own 30 s, and has nothing left to do where it has saved before.
_SAVES = """
import os, signal, sys, time
rank = os.environ["RANK"]
if os.path.exists("/checkpoints/saved." + rank):
    sys.exit(0)
def save(*_):
    time.sleep(45)
    open("/checkpoints/saved." + rank, "w").close()
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
open("/checkpoints/ready." + rank, "w").close()
while True:
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
    """Uninstalled, evicted, suspended, over its deadline: 45 s of a grace of 60 s are there."""
    ways = ("uninstalled", "evicted", "suspended", "late")
    for name in ways:
        lab.install(
            name,
            nodes=1,
            procsPerNode=2,
            script=_SAVES,
            storage={"checkpoints": {"size": "1Mi"}},
            runPolicy={"terminationGracePeriodSeconds": 60},
        )
    folders = {name: _folder(lab, name) for name in ways}
    for name, folder in folders.items():
        ready = [folder / f"ready.{rank}" for rank in range(2)]
        until(lambda ready=ready: all(one.exists() for one in ready), f"{name} to train", 180)

    lab.run_helm("uninstall", "uninstalled")
    lab.evict(lab.pod("evicted")["metadata"]["name"])
    lab.patch("batch/v1/jobs", "suspended", {"spec": {"suspend": True}})
    lab.patch("batch/v1/jobs", "late", {"spec": {"activeDeadlineSeconds": 1}})

    for name, folder in folders.items():
        saved = [folder / f"saved.{rank}" for rank in range(2)]
        until(lambda saved=saved: all(one.exists() for one in saved), f"the save of {name}", 120)
    until(lambda: not lab.pods("uninstalled"), "the pod to end", 60)
    lab.completes("evicted", seconds=120)
