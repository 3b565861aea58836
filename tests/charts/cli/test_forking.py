"""A forked call is as good as a process of its own; see `zygote.py`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.charts.cli.forking import Zygote


@pytest.mark.parametrize(
    ("words", "stdin", "env"),
    [
        (["--version"], "", {}),
        (["--help"], "", {}),
        (["validat"], "", {}),
        (["validate", "-f", "values.yaml"], "", {}),
        (["validate", "-f", "-", "-o", "json"], "workload: torchrun\nnodes: {\n", {}),
        (["validate", "-f", "-"], "workload: torchrun\nargs: [\u00e9, 1e-5]\n", {}),
        (["plan", "-f", "values.yaml"], "", {}),
        (["plan", "-f", "values.yaml"], "", {"COLUMNS": "40", "FORCE_COLOR": "1"}),
        (["validate", "-f", b"\xff.yaml"], "", {}),
        (["validate", "-f", "values.yaml"], "", {"LC_ALL": "POSIX"}),
        (["render", "demo", "-f", "values.yaml", "-o", "-"], "", {}),
        (["status", "demo", "--on", "local"], "", {}),
    ],
)
@pytest.mark.usefixtures("values")
def test_a_forked_call_says_the_same(
    cli: Any, zygote: Zygote, words: list[str | bytes], stdin: str, env: dict[str, str]
) -> None:
    """Exit code, output and errors are those of a process that Python has started."""
    real = cli(*words, stdin=stdin, env=env)
    forked = replace(cli, zygote=zygote)(*words, stdin=stdin, env=env)
    assert (real.returncode, real.stdout, real.stderr) == (
        forked.returncode,
        forked.stdout,
        forked.stderr,
    )


def test_a_forked_call_has_nothing_of_the_one_before(
    cli: Any, zygote: Zygote, values: Path, tmp_path: Path
) -> None:
    """Neither its environment nor its folder."""
    cli.zygote = zygote
    assert 0 == cli("validate", "-f", values.name, env={"ALLRANKS_HELM": "no"}).returncode
    cli.cwd = tmp_path
    assert "there is no file values.yaml" in cli("validate", "-f", values.name).stderr
    assert 0 == cli("render", "demo", "-f", values, "-o", "-").returncode
