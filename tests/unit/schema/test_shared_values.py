"""What all workloads share is the same in each chart's values.yaml, word for word."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from allranks import names
from allranks.values.sources import defaults

CHARTS = Path(__file__).parents[3] / "charts"
FIRST, *OTHERS = names.WORKLOADS
# Where every pod has a name anyway there is no switch for it, and it is another one that waits.
OWN = {"network.serviceAllPods", "network.waitSeconds"}


def entries(workload: str) -> dict[str, str]:
    """Each key above the workload's own section, with the comment and the default it has.

    Keys are dotted; a key of the workload's name is that of every workload.
    """
    result: dict[str, str] = {}
    above: list[tuple[int, str]] = []
    comment: list[str] = []
    text = (CHARTS / workload / "values.yaml").read_text("utf-8")
    for line in text.split(f"\n{workload}:\n", 1)[0].splitlines():
        key = re.match(r"( *)([\w./]+):(.*)", line)
        if not key:
            comment = [*comment, line.strip()] if line.strip() else []
            continue
        above = [entry for entry in above if entry[0] < len(key[1])] + [(len(key[1]), key[2])]
        result[".".join(name for _, name in above)] = "\n".join([*comment, key[3].strip()])
        comment = []
    return result


@pytest.mark.parametrize("workload", OTHERS)
def test_shared_keys_have_the_same_comments_and_defaults(workload: str) -> None:
    """Whoever knows one chart's file knows the shared part of the others."""
    first, other = entries(FIRST), entries(workload)
    assert len(first) > 80
    ours = {key: text for key, text in other.items() if key not in OWN}
    theirs = {key: text for key, text in first.items() if key not in OWN}
    assert theirs | {"workload": ""} == ours | {"workload": ""}
    assert list(theirs) == list(ours)


@pytest.mark.parametrize("workload", names.WORKLOADS)
def test_the_sections_are_the_shared_ones_and_its_own(workload: str) -> None:
    """A chart has no key at the root that the others lack, but for its own section."""
    shared = set(defaults(FIRST)) - {FIRST}
    assert shared | {workload} == set(defaults(workload))
