"""Elastic training with fixed roles, on real pods: every framework trains, and all of it ends."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.kube import image_recipe

from .conftest import until

if TYPE_CHECKING:
    from .conftest import Lab

pytestmark = [pytest.mark.timeout(900)]

_TRAINS = 150.0  # TensorFlow alone is loaded by four pods at a time
_SMALL = {"requests": {"cpu": "20m", "memory": "64Mi"}, "limits": {"memory": "2Gi"}}
# Example -> its image, and the role that says how well the model has become.
_EXAMPLES = {
    "elastic-ps": (image_recipe.TRAINER, "worker"),
    "elastic-tf": (image_recipe.TENSORFLOW, "chief"),
    "elastic-mxnet": (image_recipe.MXNET, "worker"),
}


def _values(lab: Lab, name: str, image: str) -> dict[str, Any]:
    """An example's values, for small pods of an image."""
    values = lab.example(name)
    repository, tag = image.rsplit(":", 1)
    for role in values["elastic"]["roles"].values():
        role["resources"] = _SMALL
    return {**values, "image": {"repository": repository, "tag": tag}}


def _final(lab: Lab, release: str, role: str) -> dict[str, Any]:
    """The last line of the one pod that says how well the model has become, as data.

    MXNet numbers its workers as they come, so that it may be any of them.
    """
    logs = [lab.log(pod["metadata"]["name"]) for pod in lab.pods(release, role)]
    lines = [json.loads(line) for log in logs for line in log.splitlines() if line.startswith("{")]
    (final,) = [line for line in lines if line.get("final")]
    return final


def _completed(lab: Lab, release: str, role: str) -> bool:
    conditions = lab.job(f"{release}-{role}")["status"].get("conditions", [])
    return any(
        condition["type"] == "Complete" and condition["status"] == "True"
        for condition in conditions
    )


@pytest.mark.parametrize("name", _EXAMPLES)
def test_every_framework_trains(lab: Lab, name: str) -> None:
    """The example's model is good, and servers that never end by themselves end well with it."""
    image, role = _EXAMPLES[name]
    values = _values(lab, name, image)
    lab.install("el", "elastic", **values)
    lab.completes("el", role, seconds=_TRAINS)
    final = _final(lab, "el", role)
    assert final["accuracy"] >= 0.9, lab.logs("el")
    for other in values["elastic"]["roles"]:
        until(
            lambda other=other: _completed(lab, "el", other),
            lambda other=other: f"the end of {other}\n{lab.logs('el')}",
        )


_SERVES = """
import os
import time

while os.environ["ALLRANKS_ROLE"] != "chief":
    time.sleep(60)
print("trained")
"""


def test_a_server_that_starts_after_the_chief_has_ended_ends_well(lab: Lab) -> None:
    """The chief stays until the server has heard of the end; nothing is left to hold resources."""
    repository, tag = image_recipe.TRAINER.rsplit(":", 1)
    wait = {
        "name": "late",
        "image": f"{repository}:{tag}",
        "command": ["sh", "-c", "until [ -e /dev/shm/go ]; do sleep 0.1; done"],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    late = {"replicas": 1, "podTemplate": {"spec": {"initContainers": [wait]}}}
    roles = {"chief": {"replicas": 1}, "ps": late}
    elastic = {"framework": "tensorflow", "roles": roles}
    lab.install("late", "elastic", nodes=1, script=_SERVES, elastic=elastic)
    lab.line("late", "staying until ps-0 has heard of it", role="chief", seconds=120)
    server = lab.pod("late", role="ps")["metadata"]["name"]
    lab.let_go(server, "/dev/shm/go", container="late")
    for role in ("chief", "ps", "worker"):
        lab.completes("late", role, seconds=300)
    assert 1 == len(lab.pods("late", "ps"))
