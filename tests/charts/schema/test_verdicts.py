"""Helm and we judge a values file alike: what one refuses the other refuses."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

CORPUS = Path(__file__).parents[2] / "data/values"
CHARTS = Path(__file__).parents[3] / "charts"
# Two at a time: the suite is made for two cores.
WORKERS = 2

# Refused by us alone: the chart has no equal for the rule, or Helm reads over the fault.
MARK = "# check-only"


def verdicts(helm: Any, files: list[Path]) -> dict[str, str]:
    """Helm's complaint about each file; "" where it renders."""

    def judge(file: Path) -> tuple[str, str]:
        process = helm.run("template", "demo", chart(file), "-f", file, check=False)
        return file.name, process.stderr if process.returncode else ""

    with ThreadPoolExecutor(WORKERS) as pool:
        return dict(pool.map(judge, files))


def chart(file: Path) -> Path:
    """The chart that a file is for; torchrun's where it names none."""
    match = re.search(
        r"^workload: (elastic|mpi|sweep)$", file.read_text(encoding="utf-8"), re.MULTILINE
    )
    return CHARTS / (match[1] if match else "torchrun")


def marked(file: Path) -> bool:
    """Whether a bad file is marked as one that Helm accepts."""
    head = file.read_text(encoding="utf-8").split("\n")[:3]
    return MARK in head


def test_helm_renders_every_good_file(helm: Any) -> None:
    """What our validator accepts, both majors render."""
    refusals = verdicts(helm, sorted((CORPUS / "good").glob("*.yaml")))
    assert {} == {name: message for name, message in refusals.items() if message}


def test_helm_refuses_every_bad_file_that_is_not_marked(helm: Any) -> None:
    """What our schema refuses, or a rule that the chart has too, both majors refuse."""
    files = [file for file in sorted((CORPUS / "bad").glob("*.yaml")) if not marked(file)]
    refusals = verdicts(helm, files)
    assert [] == [name for name, message in refusals.items() if not message]


def test_a_mark_is_only_on_what_helm_accepts(helm: Any) -> None:
    """A file is marked as ours alone only while Helm does render it."""
    files = [file for file in sorted((CORPUS / "bad").glob("*.yaml")) if marked(file)]
    refusals = verdicts(helm, files)
    assert {} == {name: message for name, message in refusals.items() if message}


def test_a_refusal_names_the_value(helm: Any, torchrun: Path) -> None:
    """Helm's own message names the path of what the schema refuses, and the kind of fault."""
    values = {"image": {"repository": "a/b"}, "command": ["x"], "torchrun": {"port": 70000}}
    assert re.search(r"'?/torchrun/port'?: maximum", helm.refusal(torchrun, values=values))


def test_null_is_refused_by_helm_too(helm: Any, torchrun: Path) -> None:
    """A default that null removes is missed by name, instead of breaking a template."""
    values = {"image": {"repository": "a/b"}, "command": ["x"], "runPolicy": None}
    assert "missing property 'runPolicy'" in helm.refusal(torchrun, values=values)


def test_what_helm_adds_is_allowed(helm: Any, torchrun: Path) -> None:
    """`global` and the library's own key, which Helm puts into the values, are no unknown keys."""
    values = {"image": {"repository": "a/b"}, "command": ["x"], "global": {"team": "vision"}}
    assert "kind: Job" in helm.render(torchrun, values=values)


def test_no_preset_may_be_null(helm: Any, torchrun: Path) -> None:
    """`preset:` with nothing behind it names none, as on the command line."""
    values = {"image": {"repository": "a/b"}, "command": ["x"], "preset": None}
    assert "kind: Job" in helm.render(torchrun, values=values)
