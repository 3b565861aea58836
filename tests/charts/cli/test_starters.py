"""The values files that `init` prints: as they are, and with each part that stands as a comment."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import pytest

from allranks import names

pytestmark = pytest.mark.usefixtures("forked")

_COMMENT = re.compile(r"^( *)# ?(.*)$")
_INSTEAD = re.compile(r"instead of ((?:`\w+`(?:, | and )?)+)")


@dataclass(frozen=True)
class Part:
    """A part of a starter that stands as a comment.

    Attributes:
        first: its first line.
        end: the line after its last.
        instead: the top-level keys that it stands instead of.
    """

    first: int
    end: int
    instead: tuple[str, ...]


def starter(workload: str) -> list[str]:
    """The lines of a starter."""
    return files("allranks.cli").joinpath("starters", f"{workload}.yaml").read_text().splitlines()


def parts(lines: list[str]) -> list[Part]:
    """Of each comment what stands behind a colon at the end of a line."""
    result: list[Part] = []
    begin = 0
    for number, line in enumerate([*lines, ""]):
        if _COMMENT.match(line):
            continue
        bare = [_COMMENT.sub(r"\2", line) for line in lines[begin:number]]
        colons = [place for place, text in enumerate(bare) if re.search(r"\S\S:$", text)]
        prose = [place for place in colons if " " in bare[place].strip()]
        if prose and prose[-1] + 1 < len(bare):
            instead = _INSTEAD.search(" ".join(bare[: prose[-1] + 1]))
            keys = re.findall(r"\w+", instead[1].replace(" and ", " ")) if instead else []
            result.append(Part(begin + prose[-1] + 1, number, tuple(keys)))
        begin = number + 1
    return result


def uncommented(lines: list[str], part: Part) -> str:
    """A starter with one of its parts, without what that stands instead of."""
    result, removing = [], False
    for number, line in enumerate(lines):
        if part.first <= number < part.end:
            result.append(_COMMENT.sub(r"\1\2", line))
            continue
        if re.match(r"\w|#", line):
            removing = line.split(":")[0] in part.instead
        if not removing:
            result.append(line)
    return "\n".join(result) + "\n"


CASES = [
    pytest.param(workload, part, id=f"{workload}-{part.first + 1}")
    for workload in names.WORKLOADS
    for part in parts(starter(workload))
]


@pytest.mark.parametrize(("workload", "part"), CASES)
def test_every_part_can_be_uncommented(cli: Any, workload: str, part: Part) -> None:
    """The file is valid as its comments say it may be changed, without a word, and renders."""
    text = uncommented(starter(workload), part)
    process = cli("validate", "-f", "-", stdin=text)
    assert (0, "") == (process.returncode, process.stderr)
    cli.write(text)
    assert 0 == cli("render", "demo", "-f", "values.yaml").returncode


def test_there_are_parts_for_what_people_change() -> None:
    """CPUs in all starters; roots, secrets and each framework and mode of the elastic one."""
    elastic, mpi, torchrun = (starter(name) for name in ("elastic", "mpi", "torchrun"))
    assert (9, 6, 3) == tuple(len(parts(lines)) for lines in (elastic, mpi, torchrun))
    texts = [uncommented(elastic, part) for part in parts(elastic)]
    for mode, framework in (
        ("static", "mxnet"),
        ("static", "pytorch"),
        ("auto", "pytorch"),
        ("auto", "tensorflow"),
    ):
        assert any(f"\n  mode: {mode}\n  framework: {framework}\n" in text for text in texts)
