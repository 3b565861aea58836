"""How numbers and long lists are said."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from allranks import words


def test_a_number_and_its_noun() -> None:
    """One is alone, none and many are not."""
    assert ["0 pods", "1 pod", "2 pods"] == [words.plural(number, "pod") for number in range(3)]


@pytest.mark.parametrize(
    ("noun", "many"),
    [
        ("process", "processes"),
        ("index", "indexes"),
        ("retry", "retries"),
        ("key", "keys"),
        ("batch", "batches"),
    ],
)
def test_nouns_whose_plural_is_no_bare_s(noun: str, many: str) -> None:
    """As English has them."""
    assert [f"1 {noun}", f"2 {many}"] == [words.plural(number, noun) for number in (1, 2)]


def test_a_verb_goes_with_its_number() -> None:
    """One is, none and many are."""
    assert ["are", "is", "are"] == [words.number_of(number, "is", "are") for number in range(3)]


# A number in braces, and then a noun that is always in the plural.
_NUMBERS = "count|size|total|number|left|ended|failed|done|wanted|len"
_NOUNS = "pods|nodes|workers|processes|ranks|trials|indexes|watchers|jobs|names|runs"
_ALWAYS_MANY = re.compile(
    r"\{(?!plural|some|number_of)[a-z_.()\[\] -]*"
    rf"({_NUMBERS})[a-z_.()]*(:,)?\}} (more )?({_NOUNS})\b"
    # The size of a run, where it is no range: "has {nodes} nodes", "keeps {planned.nodes} nodes".
    r"|(?:has|keeps|have) \{[a-z_.]*(?:nodes|workers|pods|ranks|hosts)\} "
)


def test_no_message_counts_one_in_the_plural() -> None:
    """A number that may be 1 is said with its noun by `words.plural`, in every message there is."""
    root = Path(words.__file__).parent
    found = [
        f"{path.name}: {match[0]}"
        for folder in (root, root.parents[1] / "operator")
        for path in sorted(folder.rglob("*.py"))
        for match in _ALWAYS_MANY.finditer(path.read_text())
    ]
    assert [] == found


@pytest.mark.parametrize(
    ("count", "joint", "told"),
    [
        (0, ", ", ""),
        (1, ", ", "n0"),
        (3, ", ", "n0, n1, n2"),
        (4, ", ", "n0, n1, n2 and 1 more"),
        (4, "; ", "n0; n1; n2; and 1 more"),
        (2003, ", ", "n0, n1, n2 and 2,000 more"),
    ],
)
def test_the_first_of_many(count: int, joint: str, told: str) -> None:
    """Three are shown, and the others are counted."""
    assert told == words.some([f"n{number}" for number in range(count)], joint=joint)


# What a template prints of a number, and then a noun that is always in the plural.
_PRINTED_MANY = re.compile(
    r"%d (?:GPUs|nodes|processes|ranks|workers|trials|slots|pods|hosts|are|have)\b|\}\} trials\b"
)


def test_no_template_counts_one_in_the_plural() -> None:
    """Charts say numbers with their nouns by `allranks.words.count`, in refusals and in notes."""
    charts = Path(__file__).parents[2] / "charts"
    found = [
        f"{path.relative_to(charts)}: {match[0]}"
        for path in sorted(charts.glob("*/templates/*"))
        for match in _PRINTED_MANY.finditer(path.read_text())
        if not match[0].startswith("}}") or path.name == "NOTES.txt"
    ]
    assert [] == found


# The same in what runs in the pods, which has no library of ours.
_SAID_MANY = re.compile(
    r"%d (?:more )?names\b|(?:%d|\$\{?[a-z_]+\}?) (?:more )?"
    r"(?:hosts|leads|pods|nodes|processes|ranks|workers|trials|slots)\b"
)


def test_no_script_counts_one_in_the_plural() -> None:
    """Also what a pod says of itself has numbers with their nouns."""
    charts = Path(__file__).parents[2] / "charts"
    found = [
        f"{path.relative_to(charts)}: {match[0]}"
        for path in sorted(charts.glob("*/files/*"))
        for match in _SAID_MANY.finditer(path.read_text())
    ]
    assert [] == found
