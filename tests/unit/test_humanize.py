"""How numbers and long lists are said, and what the program in the cluster is called."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from allranks import humanize
from allranks_operator import settings as operator_settings


def test_a_number_and_its_noun() -> None:
    """One is alone, none and many are not."""
    assert ["0 pods", "1 pod", "2 pods"] == [humanize.plural(number, "pod") for number in range(3)]


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
    assert [f"1 {noun}", f"2 {many}"] == [humanize.plural(number, noun) for number in (1, 2)]


def test_a_verb_goes_with_its_number() -> None:
    """One is, none and many are."""
    assert ["are", "is", "are"] == [humanize.number_of(number, "is", "are") for number in range(3)]


# A number in braces, and then a noun that is always in the plural.
_NUMBERS = "count|size|total|number|left|ended|failed|done|wanted|len"
_NOUNS = "pods|nodes|workers|processes|ranks|trials|indexes|replicas|jobs|names|runs"
_ALWAYS_MANY = re.compile(
    r"\{(?!plural|some|number_of)[a-z_.()\[\] -]*"
    rf"({_NUMBERS})[a-z_.()]*(:,)?\}} (more )?({_NOUNS})\b"
    # The size of a run, where it is no range: "has {nodes} nodes", "keeps {planned.nodes} nodes".
    r"|(?:has|keeps|have) \{[a-z_.]*(?:nodes|workers|pods|ranks|hosts)\} "
)


def test_no_message_counts_one_in_the_plural() -> None:
    """A number that may be 1 is said with its noun by `words.plural`, in every message there is."""
    root = Path(humanize.__file__).parent
    matches = [
        f"{path.name}: {match[0]}"
        for folder in (root, root.parents[1] / "operator")
        for path in sorted(folder.rglob("*.py"))
        for match in _ALWAYS_MANY.finditer(path.read_text())
    ]
    assert [] == matches


@pytest.mark.parametrize(
    ("count", "joint", "expected"),
    [
        (0, ", ", ""),
        (1, ", ", "n0"),
        (3, ", ", "n0, n1, n2"),
        (4, ", ", "n0, n1, n2 and 1 more"),
        (4, "; ", "n0; n1; n2; and 1 more"),
        (2003, ", ", "n0, n1, n2 and 2,000 more"),
    ],
)
def test_the_first_of_many(count: int, joint: str, expected: str) -> None:
    """Three are shown, and the others are counted."""
    assert expected == humanize.list_some([f"n{number}" for number in range(count)], joint=joint)


# What a template prints of a number, and then a noun that is always in the plural.
_PRINTED_MANY = re.compile(
    r"%d (?:GPUs|nodes|processes|ranks|workers|trials|slots|pods|hosts|are|have)\b|\}\} trials\b"
)


def test_no_template_counts_one_in_the_plural() -> None:
    """Charts say numbers with their nouns by `allranks.words.count`, in refusals and in notes."""
    charts = Path(__file__).parents[2] / "charts"
    matches = [
        f"{path.relative_to(charts)}: {match[0]}"
        for path in sorted(charts.glob("*/templates/*"))
        for match in _PRINTED_MANY.finditer(path.read_text())
        if not match[0].startswith("}}") or path.name == "NOTES.txt"
    ]
    assert [] == matches


# The same in what runs in the pods, which has no library of ours.
_SAID_MANY = re.compile(
    r"%d (?:more )?names\b|(?:%d|\$\{?[a-z_]+\}?) (?:more )?"
    r"(?:hosts|leads|pods|nodes|processes|ranks|workers|trials|slots)\b"
)


def test_no_script_counts_one_in_the_plural() -> None:
    """Also what a pod says of itself has numbers with their nouns."""
    charts = Path(__file__).parents[2] / "charts"
    matches = [
        f"{path.relative_to(charts)}: {match[0]}"
        for path in sorted(charts.glob("*/files/*"))
        if path.is_file()  # Python keeps what it compiles in a folder there
        for match in _SAID_MANY.finditer(path.read_text())
    ]
    assert [] == matches


# Where the operator's old name is a name of an interface: a program, an object, a reason, a value.
_OLD_NAMES = re.compile(
    r"allranks-watcher|NoWatcher|-watcher\b"
    r"|watcher \(its old name"
    r"|relaunch: watcher|watcher \| master|watcher and master are allowed|`watcher`, `master`"
    r"|\['', watcher, master\]"  # the schema's
    r'|[a-zA-Z]*"watcher"|"watchers"|- name: watcher|role: watcher|name: watcher'
    r"|COMPONENT\}=watcher"
)
_READ = (
    "*.md",
    "docs/*.md",
    "docs/guides/*.md",
    "docs/reference/*.md",
    "examples/**/*.md",
    "examples/**/*.yaml",
    "charts/**/*.md",
    "charts/**/*.txt",
    "charts/**/*.tpl",
    "charts/**/*.yaml",
    "schemas/**/*.yaml",
    "generator/**/*.py",
    "generator/**/*.yaml",
    "operator/**/*.py",
    "operator/Containerfile",
    "Makefile",
)


@pytest.mark.parametrize("pattern", _READ)
def test_the_program_in_the_cluster_is_the_operator(repo: Path, pattern: str) -> None:
    """Nobody reads of a watcher: in no page, message, help or chart, but where it is a name."""
    paths = [path for path in sorted(repo.glob(pattern)) if path.name != "CHANGELOG.md"]
    assert paths
    matches = [
        f"{path.relative_to(repo)}:{number}: {line.strip()}"
        for path in paths
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if "watcher" in _OLD_NAMES.sub("", line).lower()
    ]
    assert [] == matches


def test_its_own_help_says_operator(capsys: pytest.CaptureFixture[str]) -> None:
    """Also where it was started by its old name, which stays for one release."""
    with pytest.raises(SystemExit):
        operator_settings.read(["--help"], {})
    text = capsys.readouterr().out
    assert text.startswith("usage: allranks-operator ")
    assert "watcher" not in text
