"""The corpus of good and bad values files, judged by load, schema and rules together."""

from __future__ import annotations

from pathlib import Path

import pytest

from allranks import names
from allranks.errors import InputError
from allranks.values.resolve import resolve
from allranks.values.sources import Sources

CORPUS = Path(__file__).parents[2] / "data/values"
EXPECT = "# expect: "


def names_of(folder: str) -> list[str]:
    """The files of a folder of the corpus."""
    return sorted(path.name for path in (CORPUS / folder).glob("*.yaml"))


@pytest.mark.parametrize("name", names_of("good"))
def test_a_good_file_is_accepted(name: str) -> None:
    """Nothing is wrong with it, whatever characters are in its strings."""
    assert resolve(Sources((str(CORPUS / "good" / name),))).workload in names.WORKLOADS


@pytest.mark.parametrize("name", names_of("bad"))
def test_a_bad_file_is_refused_for_its_reason(name: str) -> None:
    """The one thing that is wrong is named, at its path, and nothing else is."""
    file = CORPUS / "bad" / name
    first = file.read_text(encoding="utf-8").split("\n", 1)[0]
    assert first.startswith(EXPECT)
    path, _, words = first.removeprefix(EXPECT).partition(": ")
    with pytest.raises(InputError) as excinfo:
        resolve(Sources((str(file),)))
    problems = excinfo.value.problems
    assert [path] == [problem.path for problem in problems]
    assert words.strip() in problems[0].message
    assert problems[0].source.startswith(str(file))


def test_the_corpus_is_broad() -> None:
    """It does not shrink by accident."""
    assert len(names_of("good")) >= 40
    assert len(names_of("bad")) >= 148
