"""The report: whole, safe, the same each time, and readable in every state of a sweep."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from allranks.sweep.model import FAILED, RUNNING, STOPPED, Choice, LogUniform, Parameter, Reach
from allranks.sweep.reporting import report
from allranks.sweep.reporting.results import Results, collect
from tests.unit.sweep.sweeps import digits, spec_of, trial_of

# These have no end tag.
VOID = {"meta", "link"}
# What HTML itself closes.
ANY_TEXT = st.text(max_size=30)
HOSTILE = "</script><img src=x onerror=alert(1)>\"'&<!--]]>"


class Page(HTMLParser):
    """A page taken apart: its tags, their attributes, its text, its scripts."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.raw: dict[str, list[str]] = {"script": [], "style": []}
        self.text = ""
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert [] == self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Remember a tag."""
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Remember an SVG element without content."""
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        """Every tag ends where it should."""
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Remember text."""
        if self._open and self._open[-1] in self.raw:
            self.raw[self._open[-1]].append(data)
        else:
            self.text += data

    def cells(self, attribute: str) -> list[str]:
        """All values of an attribute."""
        return [value for _, name, value in self.attributes if name == attribute]


def hostile(text: str) -> Results:
    """A sweep in which a user wrote the same text wherever users write."""
    trials = [
        trial_of(0, 0.5, assignment={text: Choice(text, text)}, curve=[0.4, 0.5]),
        trial_of(1, None, FAILED, assignment={text: Choice("x", "x")}, reason=text),
        trial_of(2, 0.4, STOPPED, assignment={text: Choice("x", "x")}, reason=text),
    ]
    return collect(spec_of(text, metric=text, name=text, goal=0.5), trials)


def test_the_same_results_give_the_same_bytes() -> None:
    """No clock, no chance."""
    assert report.html(digits()) == report.html(digits())


def test_the_page_asks_for_nothing() -> None:
    """Nothing is loaded from anywhere, and nothing would be allowed to."""
    text = report.html(digits())
    page = Page(text)
    # The one address is the empty icon, for which browsers would ask otherwise.
    addresses = [
        value for _, name, value in page.attributes if name in ("href", "src", "xlink:href")
    ]
    assert ["data:,"] == addresses
    assert not re.search(r"https?:|@import|url\(", text)
    assert not [name for _, name, _ in page.attributes if name.startswith("on")]
    assert "style" not in [name for _, name, _ in page.attributes]


def test_only_its_own_script_and_style_have_an_effect() -> None:
    """The policy names them by their digests, which are those of what stands in the page."""
    page = Page(report.html(digits()))
    policy = next(value for value in page.cells("content") if value.startswith("default-src"))
    _, script = page.raw["script"]
    (style,) = page.raw["style"]
    for directive, content in (("script-src", script), ("style-src", style)):
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}';" in policy
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


@example(text=HOSTILE)
@example(text="{{ x }} ${y} $1")
@given(text=ANY_TEXT)
def test_no_text_of_a_user_becomes_markup(text: str) -> None:
    """Names, values, metrics and reasons of any characters change text alone, never tags."""
    plain, page = Page(report.html(hostile("x"))), Page(report.html(hostile(text)))

    def kinds_of_tags(tags: list[str]) -> list[str]:
        # Clipped names have a title, and axes of other values have other ticks.
        return sorted({tag for tag in tags if tag != "title"})

    assert kinds_of_tags(plain.tags) == kinds_of_tags(page.tags)
    assert {name for _, name, _ in plain.attributes} >= {
        name for _, name, _ in page.attributes if name != "title"
    }
    tips = dict(json.loads(page.raw["script"][0]))
    if text.isprintable() and text:
        assert text in page.text
        assert f"{text} {text}" in tips[0]


def test_rows_carry_what_they_are_sorted_by() -> None:
    """Numbers as numbers, however they are shown; nothing where there is nothing."""
    assignment = {"lr": Choice("0.08435482518710148", 0.08435482518710148)}
    parameter = Parameter("lr", LogUniform(1e-4, 1.0), (Reach("arg", "--lr"),))
    spec = replace(spec_of("lr"), parameters=(parameter,))
    page = Page(report.html(collect(spec, [trial_of(0, 0.5, assignment=assignment)])))
    assert ["0.0", "0.5", "0.08435482518710148", "10.0"] == page.cells("data-k")
    # A number that was drawn is short in the table, and whole above it and as the cell's title.
    assert "0.0843548" in page.text
    assert assignment["lr"].text in page.text
    assert assignment["lr"].text in page.cells("title")
    assert 3 == len(page.cells("data-none"))


def test_what_was_typed_is_shown_as_typed() -> None:
    """Every digit of a choice stands in its row, and a line end in it leaves the row one line."""
    assignment = {
        "lr": Choice("0.1234567890123456789", 0.12345678901234568),
        "text": Choice("line1\nline2\n", "line1\nline2\n"),
    }
    text = report.html(collect(spec_of("lr", "text"), [trial_of(0, 0.5, assignment=assignment)]))
    assert '<td class="num" data-k="0.12345678901234568">0.1234567890123456789</td>' in text
    assert r">line1\nline2\n</td>" in text


@pytest.mark.parametrize(
    ("results", "message"),
    [
        (collect(spec_of("lr"), []), "No trial has ended with a value yet"),
        (collect(spec_of("lr"), [trial_of(0, None, FAILED, reason="no disk")]), "no disk"),
        (collect(spec_of("lr"), [trial_of(0, 0.5, RUNNING, curve=[0.5])]), "still running"),
        (collect(spec_of("lr", goal=0.4), [trial_of(0, 0.5)]), "goal 0.4 reached"),
        (collect(spec_of("lr", goal=0.6), [trial_of(0, 0.5)]), "goal 0.6 not reached"),
        (collect(spec_of("lr"), [trial_of(0, 0.5)]), "n/a: 1 trial with a value, 10 needed"),
        (collect(spec_of("lr"), [trial_of(0, 0.5)]), "No trial reported a value with a step"),
    ],
)
def test_every_state_of_a_sweep_can_be_shown(results: Results, message: str) -> None:
    """Also before its first trial, and when all went wrong; what is missing is said."""
    full = [
        trial_of(
            trial.number,
            trial.value,
            trial.state,
            assignment={"lr": Choice("1", 1)},
            reason=trial.reason,
            curve=[measure.value for measure in trial.measures],
        )
        for trial in results.trials
    ]
    assert message in Page(report.html(collect(results.spec, full))).text


def test_ten_thousand_trials_are_a_page_that_opens() -> None:
    """Rows and marks have bounds, and what is left out is said."""
    trials = [
        trial_of(
            number,
            number / 10_000,
            assignment={"lr": Choice(str(number), number)},
            curve=[0.1, 0.2, 0.3],
        )
        for number in range(10_000)
    ]
    text = report.html(collect(spec_of("lr"), trials))
    page = Page(text)
    assert report.MOST_ROWS + 1 == page.tags.count("tr") - 1
    assert "and 9000 more, which come after these; the CSV has all." in page.text
    assert "300 of 10000 trials" in page.text
    assert len(text) < 2_000_000


def test_marks_and_rows_of_a_trial_find_each_other() -> None:
    """Each mark carries a trial's number, of which the page knows what to say."""
    results = digits()
    page = Page(report.html(results))
    tips = dict(json.loads(page.raw["script"][0]))
    assert {str(number) for number in tips} == set(page.cells("data-t"))
    assert set(tips) == {trial.number for trial in results.trials}
    assert ["trial 7, failed", "exit code 1: loss is nan"] == [tips[7][0], tips[7][-1]]
