"""Where a sweep's trials run, and how a sweep is named to a person."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from allranks import names
from allranks.cli.sweepplace import Place, journal_of
from allranks.errors import InputError
from allranks.sweep import records, taken
from allranks.sweep.model import Objective, SweepSpec, TrialSpec
from allranks.sweep.owner import Owner
from allranks.sweep.storage import journals, shelf

if TYPE_CHECKING:
    from allranks.sweep.storage.journals import Keeper

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
    mine = tmp_path / "journal"
    mine.touch(0o600)
    assert str(helm) == Place.of(kept, where=str(mine)).helm
    helm.unlink()
    assert "" == Place.of(kept, where=str(mine)).helm
    assert "/named" == Place.of(kept, "/named", str(mine)).helm


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
    kept = {"on": "cluster", "namespace": "lab", "helm": str(program)}
    assert "" == Place.of(kept, where=where).helm
    # A kubeconfig has programs in it that make its tokens.
    with pytest.raises(InputError, match="not a file of yours alone"):
        Place.of({**kept, "kubeconfig": str(config)}, where=where)
    config.chmod(0o600)
    assert str(config) == Place.of({**kept, "kubeconfig": str(config)}, where=where).kubeconfig


def test_a_sweep_that_its_name_finds_needs_no_journal() -> None:
    """One inside a cluster that this machine has begun is noted here; from another it is not."""
    kept = journals.keeper(INSIDE, "rates")
    assert journal_of("rates", kept.where).startswith("secret:lab/rates")
    shelf.note(kept, {"on": "cluster", "namespace": "lab", "inside": "yes"}, Owner.new())
    assert "" == journal_of("rates", kept.where)
    assert journal_of("others", kept.where)


HERE = {"on": "local", "namespace": "default", "workdir": "/w"}
THERE = {"on": "cluster", "namespace": "lab", "context": "big"}


def begun(place: dict[str, str]) -> Keeper:
    """A sweep named rates that has begun in a place."""
    kept = shelf.begin("rates", place=place)
    spec = SweepSpec("rates", (), Objective(""), TrialSpec("torchrun"))
    kept.create(records.head(spec, 1.0, {}, place, Owner.new())).close()
    return kept


def test_a_name_may_be_that_of_a_sweep_in_another_place() -> None:
    """Each is found by a name of its own, and one goes without the other."""
    here = begun(HERE)
    assert here.where == shelf.begin("rates", place={**HERE, "namespace": "other"}).where
    there = begun(THERE)
    assert here.where == shelf.locate("rates").where
    assert there.name.startswith("rates@")
    assert there.where == shelf.locate(there.name).where
    assert there.where == shelf.begin("rates", place=THERE).where
    assert there.name != shelf.begin("rates", place={**THERE, "namespace": "other"}).name
    assert [here.name, there.name] == [kept.name for kept in shelf.every()]
    hint = taken.begun_already(there, "rates").problem.hint
    assert f"`allranks sweep resume {there.name}` goes on with it" in hint
    shelf.forget(here)
    assert "rates" == there.read().spec.name
    shelf.forget(journals.keeper(there.where, "rates"))
    assert [] == shelf.every()
    assert not Path(there.where).parent.exists()
