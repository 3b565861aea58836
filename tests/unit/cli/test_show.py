"""What `show` says of the code of a run, and of code that is not there."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from allranks.cli.commands import show
from allranks.cli.main import main
from allranks.errors import NotFoundError
from allranks.workspace.record import CodeRecord


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
    run = show._Run(code, "lab", cluster, (), is_there)
    with pytest.raises(NotFoundError) as caught:
        run.kept(needed=True)
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
