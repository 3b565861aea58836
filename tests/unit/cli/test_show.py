"""What `show --diff` says where there is no difference to print."""

from __future__ import annotations

import pytest

from allranks.cli.commands import show
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
