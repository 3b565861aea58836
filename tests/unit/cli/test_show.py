"""What `show` says of the code of a run, and of code that is not there."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from allranks.cli.commands import show
from allranks.cli.main import main
from allranks.errors import NotFoundError
from allranks.service import workspace
from allranks.sweep import records
from allranks.sweep import workspace as sweep_workspace
from allranks.sweep.search import space
from allranks.sweep.storage import catalog
from allranks.sweep.storage.journal import Journal
from allranks.workspace.record import CodeRecord
from tests.unit.sweep.simulation import spec

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (CodeRecord(), "from outside of git"),
        (CodeRecord(commit="c1"), "is that of commit c1"),
        (CodeRecord(commit="c1", is_dirty=True, via="image"), "an image has the code alone"),
        (CodeRecord(commit="c1", is_dirty=True, via="pvc"), "a claim has the code alone"),
        (CodeRecord(commit="c1", is_dirty=True, via="configMap"), "it was too long"),
    ],
)
def test_why_there_is_no_difference_is_said(code: CodeRecord, words: str) -> None:
    """Nothing has to be fetched to know it, but whether a ConfigMap has one."""
    assert words in show._no_difference(code)


@pytest.mark.parametrize(
    ("is_there", "words"),
    [(True, "submit` of the same folder"), (False, "it went with the last run")],
)
def test_code_that_is_gone_is_said_with_why(is_there: bool, words: str) -> None:
    """Somebody has deleted it, where the run is there; else it went with its last run."""
    cluster: Any = SimpleNamespace(list=lambda *_, **__: [])
    code = CodeRecord(digest="sha256:12", via="configMap", parts=("ws-12-0",))
    run = show._RunCode(code, "lab", cluster, (), is_there)
    with pytest.raises(NotFoundError) as caught:
        run.stored_code(needed=True)
    assert words in caught.value.problem.hint
    assert is_there == ("somebody has deleted it" in caught.value.problem.message)
    assert ("ws-12-0",) == run.gone


@pytest.mark.parametrize(
    ("words", "message"),
    [("--code x --diff", "--code writes the code"), ("--first", "which code --code writes")],
)
def test_options_that_do_nothing_together_are_refused(
    capsys: pytest.CaptureFixture[str], words: str, message: str
) -> None:
    """None of them is left out in silence."""
    assert 2 == main(["show", "demo", *words.split()])
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("name", ["s", "s-0", "s-0123456789ab"])
def test_the_code_of_a_sweep_of_this_machine_and_of_its_trials_is_given_back(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
) -> None:
    """The runs of trials are gone when they have ended; the sweep keeps the code of all."""
    monkeypatch.setenv("ALLRANKS_STATE", str(tmp_path / "state"))
    (tmp_path / "code").mkdir()
    (tmp_path / "code/train.py").write_text("print(1)\n", encoding="utf-8")
    packed = workspace.pack(str(tmp_path / "code"), (), {}, is_local=True)
    sweep_workspace.keep(packed.transport.manifests("default"))
    values = {"workspace": {"snapshot": packed.transport.values()}, "command": ["python", "t.py"]}
    of_trials = replace(spec().trial, workload="torchrun", values=values)
    sweep = replace(spec(), trial=of_trials)
    assignment = space.assignment(sweep.parameters, 0)
    with Journal.create(catalog.locate("s"), records.head(sweep, 1.0)) as journal:
        journal.append(records.trial(0, "s-0123456789ab", assignment, 2.0))
    assert 0 == main(["show", name, "--on", "local"])
    out = capsys.readouterr().out
    assert f"code      {packed.snapshot.digest}" in out
    assert "a copy in the run's folder" in out
    assert 0 == main(["show", name, "--on", "local", "--code", str(tmp_path / "ran")])
    assert "print(1)\n" == (tmp_path / "ran/train.py").read_text(encoding="utf-8")
    assert 2 == main(["show", "s-1", "--on", "local"])
