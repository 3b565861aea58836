"""Values of manifests that are kept in files: no private key is among them."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from allranks.values import gitops
from allranks.values.merge import merge
from allranks.values.sources import defaults


def key_for(user: dict[str, Any], workload: str = "mpi") -> gitops.RenderedKey:
    """What is rendered of a person's values, as release demo in namespace ml."""
    return gitops.without_private_key(merge(defaults(workload), user), user, "demo", "ml")


@pytest.mark.parametrize("mpi", [{}, {"np": 2}, {"ssh": {"port": 2022}}])
def test_the_key_is_a_secret_by_name(mpi: dict[str, Any]) -> None:
    """The Secret has the chart's own name for it; all else stays, and the note makes the Secret."""
    user = {"workload": "mpi", "args": ["x"], "mpi": mpi}
    before = copy.deepcopy(user)
    rendered_key = key_for(user)
    ssh = {**mpi.get("ssh", {}), "existingSecret": "demo-ssh"}
    assert {**before, "mpi": {**mpi, "ssh": ssh}} == rendered_key.values
    assert before == user
    (note,) = rendered_key.notes
    assert "kubectl create secret generic demo-ssh --namespace ml --type" in note


def test_values_that_say_nothing_of_mpi_get_the_name_too() -> None:
    """The chart's own defaults are ssh with a key of its own."""
    assert {"workload": "mpi", "mpi": {"ssh": {"existingSecret": "demo-ssh"}}} == key_for(
        {"workload": "mpi"}
    ).values


@pytest.mark.parametrize(
    ("workload", "own"),
    [("torchrun", {}), ("mpi", {"transport": "exec"}), ("mpi", {"ssh": {"existingSecret": "k"}})],
)
def test_what_has_no_key_of_the_charts_stays(workload: str, own: dict[str, Any]) -> None:
    """Another workload, the exec transport, and a Secret that the person names."""
    user = {"workload": workload, workload: own}
    assert gitops.RenderedKey(user) == key_for(user, workload)
