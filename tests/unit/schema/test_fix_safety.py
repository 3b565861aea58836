"""Which fixes are certain, so that `validate --fix` writes them unasked."""

from __future__ import annotations

import pytest

from allranks.schema.validate import validate
from allranks.values.merge import merge
from allranks.values.sources import defaults
from allranks.yamlio.load import load

_BASE = "workload: torchrun\nimage: {repository: a/b}\n"


@pytest.mark.parametrize(
    ("text", "is_safe"),
    [
        ("command: python t.py", True),
        ("command: FOO=1 python t.py", False),
        ("command: python 'a", False),
        ("command: python t.py && echo done", False),
        ("command: [a]\nretries: 3", True),
        ("command: [a]\ntimeout: 30", True),
        ("command: [a]\nnetwork: {timeout: 10}", False),
        ("command: [a]\nscheduling: {timeout: 10}", False),
        ("command: [a]\nstorage: {checkpoints: {pvc: mine}}", False),
        ("command: [a]\nnetwork: {retries: 10}", False),
    ],
)
def test_a_fix_is_certain_only_where_nothing_else_can_be_meant(text: str, is_safe: bool) -> None:
    """A key below another may be of that one: a timeout of the network is none of the job."""
    document = load(_BASE + text, "v.yaml")
    (problem,) = validate("torchrun", merge(defaults("torchrun"), document.data), document.where)
    assert is_safe is getattr(problem.hint, "is_safe", False), problem
