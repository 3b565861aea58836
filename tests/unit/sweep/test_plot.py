"""Pictures as files: the same bytes each time, whatever the names and the user's own settings."""

from __future__ import annotations

import subprocess
import sys
from xml.etree import ElementTree as ET

import matplotlib as mpl
import pytest

from allranks.errors import InputError, MissingToolError
from allranks.sweep.model import FAILED, MINIMIZE, Choice
from allranks.sweep.reporting.plot import FORMATS, KINDS, pictures
from allranks.sweep.reporting.results import collect
from tests.unit.sweep.sweeps import digits, spec_of, trial_of

# What drawing warns of; garbage that is collected meanwhile may be another test's.
pytestmark = pytest.mark.filterwarnings("error", "ignore::ResourceWarning")


def test_every_picture_in_every_format_is_the_same_each_time() -> None:
    """Drawn twice, with other settings of the user in between: the same bytes."""
    first = pictures(digits())
    with mpl.rc_context({"font.size": 30, "axes.facecolor": "pink", "svg.hashsalt": "other"}):
        second = pictures(digits())
        assert (30, "pink") == (mpl.rcParams["font.size"], mpl.rcParams["axes.facecolor"])
    assert first == second
    assert [f"{kind}.{form}" for kind in KINDS for form in FORMATS] == [
        picture.name for picture in first
    ]
    for picture in first:
        if picture.name.endswith(".png"):
            assert picture.content.startswith(b"\x89PNG\r\n")
        else:
            assert ET.fromstring(picture.content).tag.endswith("svg")  # noqa: S314 - our own
            assert b"date" not in picture.content


def test_names_are_text() -> None:
    """No mathematics, no markup, no end: a name of any characters is drawn."""
    name = "$\\frac{a}<b>&\n\x00" + "x" * 300
    assignments = [{name: Choice(f"${at}_", f"${at}_")} for at in range(12)]
    trials = [
        trial_of(at, at / 10, assignment=assignment, curve=[0.1, at / 10])
        for at, assignment in enumerate(assignments)
    ]
    results = collect(spec_of(name, metric="$\\alpha", goal=0.5), trials)
    for picture in pictures(results, formats=["svg"]):
        ET.fromstring(picture.content)  # noqa: S314 - our own


def test_a_sweep_without_values_has_pictures_that_say_so() -> None:
    """Nothing yet, only failures, one value, and values past the edge are drawn all the same."""
    failed = trial_of(0, None, FAILED, assignment={"lr": Choice("1", 1)})
    trial = trial_of(1, 0.5, assignment={"lr": Choice("1", 1)}, curve=[0.5])
    losses = [
        trial_of(at, value, assignment={"lr": Choice("1", 1)}, curve=[value])
        for at, value in enumerate((0.1, 0.11, 0.12, 0.2, 50.0))
    ]
    for results in (
        collect(spec_of("lr"), []),
        collect(spec_of("lr"), [failed]),
        collect(spec_of("lr", goal=1.0), [failed, trial]),
        collect(spec_of("lr", direction=MINIMIZE), losses),
    ):
        assert len(KINDS) == len(pictures(results, formats=["svg"]))


def test_an_unknown_picture_or_format_is_refused() -> None:
    """Before anything is drawn, with what there is."""
    with pytest.raises(InputError, match="no picture 'pie'") as error:
        pictures(digits(), kinds=["pie"])
    assert "history, parallel, importance, curves" in str(error.value)
    with pytest.raises(InputError, match="no format 'gif'"):
        pictures(digits(), formats=["gif"])


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """And that the report needs none."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingToolError, match="pictures need matplotlib") as error:
        pictures(digits())
    assert "pip install 'allranks[plot]'" in str(error.value)


def test_results_and_report_load_no_library() -> None:
    """Only drawing does, and only when asked."""
    code = (
        "import sys, allranks.cli.main; from allranks.sweep.reporting import plot, report;"
        "print([name for name in ('matplotlib', 'optuna', 'numpy') if name in sys.modules])"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    )
    assert "[]\n" == process.stdout
