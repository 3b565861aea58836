"""Where a sweep's trials run, and how a sweep is named to a person."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from allranks import names
from allranks.cli.commands.sweep.sweep_target import SweepTarget, journal_of
from allranks.errors import InputError
from allranks.sweep import name_conflicts, records
from allranks.sweep.model import Objective, SweepSpec, TrialSpec
from allranks.sweep.ownership import OwnerMark
from allranks.sweep.storage import catalog
from allranks.sweep.storage.catalog import backend_of
from allranks.sweep.storage.journal import Journal, read_state

if TYPE_CHECKING:
    from allranks.sweep.storage.base import Backend

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
    place = {"on": "cluster", "namespace": "lab", "helm": str(helm)}
    mine = tmp_path / "journal"
    mine.touch(0o600)
    assert str(helm) == SweepTarget.of(place, where=str(mine)).helm
    helm.unlink()
    assert "" == SweepTarget.of(place, where=str(mine)).helm
    assert "/named" == SweepTarget.of(place, "/named", str(mine)).helm


@pytest.mark.attack
@pytest.mark.parametrize("place", ["sqlite:///{}/s.db", "postgresql://db/s", "secret:a/b", "{}/j"])
def test_a_journal_of_others_names_no_program(tmp_path: Path, place: str) -> None:
    """Who can write it would have it started here, by whoever looks at the sweep."""
    (tmp_path / "j").touch()
    (tmp_path / "j").chmod(0o666)
    program, config = tmp_path / "helm", tmp_path / "config"
    for file in (program, config):
        file.write_text("#!/bin/sh\n")
        file.chmod(0o777)
    where = place.format(tmp_path)
    recorded_place = {"on": "cluster", "namespace": "lab", "helm": str(program)}
    assert "" == SweepTarget.of(recorded_place, where=where).helm
    # A kubeconfig has programs in it that make its tokens.
    with pytest.raises(InputError, match="not a file of yours alone"):
        SweepTarget.of({**recorded_place, "kubeconfig": str(config)}, where=where)
    config.chmod(0o600)
    assert (
        str(config)
        == SweepTarget.of({**recorded_place, "kubeconfig": str(config)}, where=where).kubeconfig
    )


def test_a_sweep_that_its_name_finds_needs_no_journal() -> None:
    """One inside a cluster that this machine has begun is noted here; from another it is not."""
    backend = backend_of(INSIDE, "rates")
    assert journal_of("rates", backend.where).startswith("secret:lab/rates")
    catalog.register(
        backend, {"on": "cluster", "namespace": "lab", "inside": "yes"}, OwnerMark.new()
    )
    assert "" == journal_of("rates", backend.where)
    assert journal_of("others", backend.where)


HERE = {"on": "local", "namespace": "default", "workdir": "/w"}
THERE = {"on": "cluster", "namespace": "lab", "context": "big"}


def begin_sweep(place: dict[str, str]) -> Backend:
    """A sweep named rates that has begun in a place."""
    backend = catalog.begin("rates", place=place)
    spec = SweepSpec("rates", (), Objective(""), TrialSpec("torchrun"))
    Journal.create(backend, records.head(spec, 1.0, {}, place, OwnerMark.new())).close()
    return backend


def test_a_name_may_be_that_of_a_sweep_in_another_place() -> None:
    """Each is found by a name of its own, and one goes without the other."""
    here = begin_sweep(HERE)
    assert here.where == catalog.begin("rates", place={**HERE, "namespace": "other"}).where
    there = begin_sweep(THERE)
    assert here.where == catalog.locate("rates").where
    assert there.name.startswith("rates@")
    assert there.where == catalog.locate(there.name).where
    assert there.where == catalog.begin("rates", place=THERE).where
    assert there.name != catalog.begin("rates", place={**THERE, "namespace": "other"}).name
    assert [here.name, there.name] == [backend.name for backend in catalog.backends()]
    hint = name_conflicts.begun_already(there, "rates").problem.hint
    assert f"`allranks sweep resume {there.name}` goes on with it" in hint
    catalog.forget(here)
    assert "rates" == read_state(there).spec.name
    catalog.forget(backend_of(there.where, "rates"))
    assert [] == catalog.backends()
    assert not Path(there.where).parent.exists()
