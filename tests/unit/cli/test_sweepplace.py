"""Where a sweep's trials run, and how a sweep is named to a person."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from allranks import names
from allranks.cli.sweepplace import Place, journal_of
from allranks.sweep.owner import Owner
from allranks.sweep.storage import journals, shelf

if TYPE_CHECKING:
    from pathlib import Path

INSIDE = "secret:lab/rates?context=a%2Fb&kubeconfig=%2Fhome%2Fme%2F.kube%2Fconfig"


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A state folder of the test's own."""
    monkeypatch.setenv(names.ENV_STATE, str(tmp_path / "state"))


def test_a_helm_that_is_gone_is_not_asked_for(tmp_path: Path) -> None:
    """`helm sweep` names its own helm; where that is gone, the one that is found serves."""
    helm = tmp_path / "helm"
    helm.write_text("#!/bin/sh\n")
    helm.chmod(0o755)
    kept = {"on": "cluster", "namespace": "lab", "helm": str(helm)}
    assert str(helm) == Place.of(kept).helm
    helm.unlink()
    assert "" == Place.of(kept).helm
    assert "/named" == Place.of(kept, "/named").helm


def test_a_sweep_that_its_name_finds_needs_no_journal() -> None:
    """One inside a cluster that this machine has begun is noted here; from another it is not."""
    kept = journals.keeper(INSIDE, "rates")
    assert journal_of("rates", kept.where).startswith("secret:lab/rates")
    shelf.note(kept, {"on": "cluster", "namespace": "lab", "inside": "yes"}, Owner.new())
    assert "" == journal_of("rates", kept.where)
    assert journal_of("others", kept.where)
