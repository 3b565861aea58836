"""A sweep's report in a real browser: how it looks at two widths, and what a pointer does to it."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from PIL import Image

from allranks.sweep.model import FAILED, STOPPED, SUCCEEDED, Choice
from allranks.sweep.reporting import report
from allranks.sweep.reporting.results import Results, collect
from allranks.timeline import goodput
from allranks.timeline import page as timeline_page
from tests.browser.chromium import Browser, Page, chromium
from tests.unit.sweep.sweeps import digits, spec_of, trial_of
from tests.unit.timeline.stories import LENGTH, trained

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WIDE, NARROW = 1280, 420
HOSTILE = "</script><img src=x onerror=alert(1)><script>alert(1)</script>\"'&<!--"

FIRST_ROWS = "[...document.querySelectorAll('#rows tr')].map((row) => row.dataset.t)"
# What stands out of the window, or out of its own picture.
OUTSIDE = """[...document.querySelectorAll('main > *, .card, .card > *')]
  .filter((each) => each.getBoundingClientRect().right > innerWidth + 1)
  .map((each) => each.className || each.tagName)
"""
CUT = """[...document.querySelectorAll('svg.plot text')].filter((text) => {
  const box = text.getBBox(), view = text.ownerSVGElement.viewBox.baseVal;
  return box.x < -1 || box.y < -1 || box.x + box.width > view.width + 1
    || box.y + box.height > view.height + 1;
}).map((text) => text.textContent)
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One browser for all tests."""
    with chromium(tmp_path_factory.mktemp("profile")) as running:
        yield running


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A tab of its own for each test, which had nothing to complain of and asked for one file."""
    opened = Page(browser)
    yield opened
    assert [] == opened.complaints
    assert [] == [url for url in opened.requests if not url.startswith(("file:", "data:,"))]
    opened.close()


def report_page(folder: Path, results: Results) -> Path:
    """The report as a file."""
    path = folder / "report.html"
    path.write_text(report.html(results), encoding="utf-8")
    return path


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_the_report_fits_its_window(page: Page, tmp_path: Path, width: int, dark: bool) -> None:
    """Nothing stands out of the window or of its picture; light is light and dark is dark."""
    page.open(report_page(tmp_path, digits()), width, dark=dark)
    assert width == page.run("document.documentElement.scrollWidth")
    assert [] == page.run(OUTSIDE)
    assert [] == page.run(CUT)
    # The smallest text in a picture is one that a person can read.
    assert (
        page.run(
            "Math.min(...[...document.querySelectorAll('svg.plot text')].map((text) =>"
            " parseFloat(getComputedStyle(text).fontSize) * text.ownerSVGElement.getScreenCTM().a))"
        )
        >= 9.5
    )
    shot = page.screenshot()
    (tmp_path / f"report-{width}-{'dark' if dark else 'light'}.png").write_bytes(shot)
    image = Image.open(io.BytesIO(shot)).convert("L")
    corner = image.getpixel((1, 1))
    assert isinstance(corner, int)
    assert (corner < 60) if dark else (corner > 240)
    # Something is drawn in every part of it.
    assert len(image.getcolors(256) or range(257)) > 100


def test_a_heading_sorts_its_column_both_ways(page: Page, tmp_path: Path) -> None:
    """By number where it has numbers; trials without a value stay last; the address keeps it."""
    results = digits()
    page.open(report_page(tmp_path, results), WIDE)
    assert [str(trial.number) for trial in results.trials] == page.run(FIRST_ROWS)
    values = {str(trial.number): trial.value for trial in results.trials}
    for down in (True, False):
        page.click("#table th:nth-child(3) button")
        order = page.run(FIRST_ROWS)
        assert {"7", "12"} == set(order[-2:])
        ranked = [values[number] or 0.0 for number in order[:-2]]
        assert sorted(ranked, reverse=down) == ranked
        fragment = page.run("location.hash")
        assert ("#sort=2-down" if down else "#sort=2") == fragment
    other = Page(page._browser)
    other.open(tmp_path / "report.html", WIDE, fragment=fragment)
    assert page.run(FIRST_ROWS) == other.run(FIRST_ROWS)
    other.close()


def test_the_pointer_finds_a_trial_everywhere(page: Page, tmp_path: Path) -> None:
    """A mark says whose it is and lights up the trial in every picture; a click keeps it."""
    results = digits()
    best = results.require_best().number
    page.open(report_page(tmp_path, results), WIDE)
    page.point(f'svg.history [data-t="{best}"]')
    assert page.run("document.getElementById('tip').textContent").startswith(f"trial {best}, ended")
    assert not page.run("document.getElementById('tip').hidden")
    lit = "[...document.querySelectorAll('.on')].map((each) => each.dataset.t)"
    assert [str(best)] * 4 == page.run(lit)
    page.point("h1")
    assert [] == page.run(lit)
    assert page.run("document.getElementById('tip').hidden")

    page.click('#rows tr[data-t="7"]')
    page.point("h1")
    assert ["7", "7"] == page.run(lit)
    assert "#trial=7" == page.run("location.hash")
    page.press("Escape")
    assert [] == page.run(lit)


def test_a_finger_finds_a_trial_too(page: Page, tmp_path: Path) -> None:
    """A tap on a mark says whose it is and shows its row; another one lets go."""
    page.open(report_page(tmp_path, digits()), NARROW)
    page.tap('svg.history [data-t="7"]')
    tip = page.run("document.getElementById('tip').textContent")
    assert tip.startswith("trial 7, failed")
    script = """(() => {
      const row = document.querySelector('#rows tr.on').getBoundingClientRect();
      const frame = document.querySelector('.rows').getBoundingClientRect();
      return row.top >= frame.top && row.bottom <= frame.bottom;
    })()"""
    assert page.run(script)
    page.tap('svg.history [data-t="7"]')
    assert page.run("document.getElementById('tip').hidden")
    assert 0 == page.run("document.querySelectorAll('.on').length")


LONG = 'a very long choice with <b>html</b> & "quotes" indeed, that would wrap'
HEIGHTS = "[...document.querySelectorAll('#rows tr')].map((row) => row.offsetHeight)"
SCROLLS = (
    "document.querySelector('.rows').scrollHeight > document.querySelector('.rows').clientHeight"
)
SWIPE = "getComputedStyle(document.querySelector('.swipe')).display != 'none'"


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_rows_are_low_whatever_they_hold(page: Page, tmp_path: Path, width: int) -> None:
    """A long choice is cut until its row is clicked; notes have room; nothing scrolls inside."""
    reason = "stopped at step 3: accuracy 0.8808 is not among the best third of 7 trials there"
    trials = [
        trial_of(at, at / 90, STOPPED if at else SUCCEEDED, assignment={"opt": Choice(LONG, LONG)})
        for at in range(90)
    ]
    trials = [replace(trial, reason=reason if trial.number else "") for trial in trials]
    page.open(report_page(tmp_path, collect(spec_of("opt"), trials)), width)
    heights = page.run(HEIGHTS)
    assert heights[0] <= 40
    assert max(heights) <= (70 if width == WIDE else 40)
    assert not page.run(SCROLLS)
    assert (width == NARROW) == page.run(SWIPE)
    room = page.run("document.querySelector('#rows tr:last-child td.note').offsetWidth")
    assert room >= 160
    page.click('#rows tr[data-t="1"] td:first-child')
    height = page.run("document.querySelector('#rows tr.on').offsetHeight")
    assert height > max(heights)


def test_a_state_can_be_left_out(page: Page, tmp_path: Path) -> None:
    """Its chip takes the rows away, and brings them back."""
    page.open(report_page(tmp_path, digits()), NARROW)
    script = "[...document.querySelectorAll('#rows tr')].filter((row) => !row.hidden).length"
    assert 40 == page.run(script)
    page.click('.chips [data-state="failed"]')
    assert 39 == page.run(script)
    page.click('.chips [data-state="failed"]')
    assert 40 == page.run(script)


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_what_users_wrote_stays_text(page: Page, tmp_path: Path, width: int) -> None:
    """Markup in names, values and reasons neither runs nor breaks the page, however long it is."""
    parameters = {HOSTILE: Choice(HOSTILE, HOSTILE), "x" * 200: Choice("y" * 2000, "y" * 2000)}
    trials = [
        trial_of(0, 0.5, assignment=parameters, curve=[0.4, 0.5]),
        trial_of(1, None, FAILED, assignment=parameters, reason=HOSTILE + "z" * 5000),
    ]
    spec = spec_of(*parameters, metric=HOSTILE, name=HOSTILE, goal=0.5)
    page.open(report_page(tmp_path, collect(spec, trials)), width)
    assert (0, 2) == (page.run("document.images.length"), page.run("document.scripts.length"))
    assert HOSTILE == page.run("document.querySelector('h1').textContent")
    assert width == page.run("document.documentElement.scrollWidth")
    assert [] == page.run(OUTSIDE)
    assert [] == page.run(CUT)
    page.point('svg.history [data-t="0"]')
    assert page.run("document.getElementById('tip').textContent").startswith("trial 0")
    box = page.run("document.getElementById('tip').getBoundingClientRect().toJSON()")
    assert box["left"] >= 0
    assert box["right"] <= width


def test_a_large_sweep_answers_at_once(page: Page, tmp_path: Path) -> None:
    """Ten thousand trials: sorting all rows takes less than a second, on any machine.

    Of some clicks the fastest counts: in another the browser may have been without a core.
    """
    trials = [
        trial_of(at, at / 10_000, assignment={"lr": Choice(str(at), at)}, curve=[0.1, at / 10_000])
        for at in range(10_000)
    ]
    page.open(report_page(tmp_path, collect(spec_of("lr"), trials)), WIDE)
    assert report.MOST_ROWS == page.run("document.querySelectorAll('#rows tr').length")
    click = (
        "(() => { const before = performance.now();"
        " document.querySelector('#table th:nth-child(1) button').click();"
        " document.body.offsetHeight; return performance.now() - before; })()"
    )
    assert any(page.run(click) < 1000 for _ in range(5))


def test_a_timeline_fits_its_window(page: Page, tmp_path: Path) -> None:
    """Wide and narrow; text of users is text, and each pod has a bar with its states."""
    run = replace(trained(), name=HOSTILE, notes=(HOSTILE,))
    path = tmp_path / "timeline.html"
    path.write_text(timeline_page.html(run, goodput.of(run), LENGTH), encoding="utf-8")
    for width in (WIDE, NARROW):
        page.open(path, width, dark=width == NARROW)
        assert width == page.run("document.documentElement.scrollWidth")
    assert HOSTILE == page.run("document.querySelector('h1').textContent")
    assert 0 == page.run("document.querySelectorAll('script, img').length")
    bars = "[...document.querySelectorAll('svg.bar')].map((bar) => bar.childElementCount)"
    assert [3, 4, 3] == page.run(bars)
    fills = "[...document.querySelectorAll('svg.bar rect')].map((r) => getComputedStyle(r).fill)"
    assert 4 == page.run(f"new Set({fills}).size")
