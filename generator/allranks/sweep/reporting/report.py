"""The report: one self-contained HTML file, which opens from a disk and needs no network.

Pictures and table are complete without any script; a small script sorts, filters, and highlights
one trial in all pictures. All text of users (names, values, reasons) is escaped, and the page's
content security policy allows only its style sheet and its script, by their digests: even text that
was not escaped could neither run nor load anything.

The same results give the same bytes: there is no clock in here.
"""

from __future__ import annotations

import base64
import hashlib
import json
from importlib import resources
from typing import TYPE_CHECKING

from allranks.humanize import plural
from allranks.layout.svg import escape
from allranks.sweep.model import FAILED, MAXIMIZE, RUNNING, STOPPED, SUCCEEDED, UNMEASURED
from allranks.sweep.reporting import describe, svg
from allranks.sweep.reporting.figures import figures
from allranks.sweep.reporting.importance import FEWEST
from allranks.sweep.reporting.results import one_line, state_of
from allranks.sweep.reporting.tables import NONE, duration, note, short, summary, table, value_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from allranks.sweep.model import SweepSpec, Trial
    from allranks.sweep.reporting.figures import Curves, Figures, History, Parallel
    from allranks.sweep.reporting.importance import Importance
    from allranks.sweep.reporting.results import Results
    from allranks.sweep.reporting.tables import Table

# Rows beyond these would make the page slow; the CSV has all.
MOST_ROWS = 1000
_RAMP = '<span class="ramp">' + "".join(f'<i class="q{at}"></i>' for at in range(8)) + "</span>"


def html(results: Results) -> str:
    """Return the whole page.

    Args:
        results: the sweep, also while it runs.
    """
    data = figures(results)
    rows = table(results, most=MOST_ROWS)
    script = _asset("report.js")
    style = _asset("report.css") + _sizes(data.parallel)
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    name = escape(results.spec.name)
    return "\n".join(
        (
            "<!DOCTYPE html>",
            '<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            f'<title>{name}: sweep results</title><link rel="icon" href="data:,">',
            f"<style>{style}</style></head><body><main>",
            *_head(results),
            *_tiles(results),
            '<div class="grid2">',
            *_best(results),
            *_importance(data.importance),
            *_history(data.history),
            *_curves(data.curves, results),
            *_parallel(data.parallel, results),
            *_table(results, rows),
            "</div>",
            *_foot(results),
            '</main><div id="tip" role="status" hidden></div>',
            f'<script id="trials" type="application/json">{_island(results, data, rows)}</script>',
            f"<script>{script}</script></body></html>",
            "",
        )
    )


def _asset(name: str) -> str:
    return (
        resources.files("allranks.sweep.reporting")
        .joinpath("page", name)
        .read_text(encoding="utf-8")
    )


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _sizes(figure: Parallel) -> str:
    """Return the style of the widest picture: the width below which it scrolls, for its axes."""
    least = max(640, 118 * len(figure.axes))
    narrow = 10.5 * svg.parallel_width(figure) / least
    return (
        f"svg.parallel {{ min-width: {least}px; }}\n"
        f"@media (max-width: 760px) {{ svg.parallel text {{ font-size: {narrow:.1f}px; }} }}\n"
    )


def _head(results: Results) -> Iterable[str]:
    spec = results.spec
    yield f"<header><h1>{escape(spec.name)}</h1>"
    yield f'<p class="dim">{escape(describe.search(spec))}</p></header>'


def _tiles(results: Results) -> Iterable[str]:
    objective = results.spec.objective
    value = value_text(results.best.value) if results.best else NONE
    goal = "" if objective.goal is None else f", goal {objective.goal:.6g}"
    if goal:
        goal += " reached" if results.goal_reached else " not reached"
    counts = results.counts
    parts = ", ".join(f"{count} {state}" for state, count in counts.items())
    early = counts.get(STOPPED, 0)
    spent = results.cpu_seconds
    cpu = "processor time of all trials"
    if spent is None:
        cpu = "processor time is not known"
    elif early:
        cpu += f", {early} of them stopped early"
    elapsed = results.elapsed
    yield '<section class="tiles">'
    if objective.metric:
        yield _tile(value, f"best {objective.metric} ({objective.direction}{goal})", first=True)
    yield _tile(str(len(results.trials)), f"trials: {parts}" if parts else "trials")
    yield _tile(NONE if spent is None else duration(spent), cpu)
    state = "from the first start to the last end" if results.over else "so far: still running"
    yield _tile(NONE if elapsed is None else duration(elapsed), state)
    yield "</section>"


def _tile(value: str, text: str, *, first: bool = False) -> str:
    style = "card tile first" if first else "card tile"
    return f'<div class="{style}"><b>{escape(value)}</b><span>{escape(text)}</span></div>'


def _best(results: Results) -> Iterable[str]:
    best = results.best
    yield '<section class="card">'
    if best is None:
        reason = results.commonest_reason
        yield "<h2>No trial has ended with a value yet</h2>"
        yield f'<p class="dim">{escape(f"Most often: {reason}" if reason else "")}</p></section>'
        return
    yield f"<h2>Best: trial {best.number}</h2>"
    yield f'<p class="dim">{escape(best.name)}</p><dl class="best">'
    for name, choice in best.assignment.items():
        yield f"<div><dt>{escape(name)}</dt><dd>{escape(one_line(choice.text))}</dd></div>"
    command = results.command("--best", "-o", "yaml")
    yield f'</dl><p class="dim">Its values file: <code>{escape(command)}</code></p></section>'


def _history(figure: History) -> Iterable[str]:
    keys = [
        '<span class="key blue"><i></i>ended</span>',
        '<span class="key blue"><i class="ring"></i>stopped early</span>',
        '<span class="key top"><i class="bar"></i>best so far</span>',
    ]
    if figure.failed:
        keys.append('<span class="key red">\N{MULTIPLICATION SIGN} failed or unmeasured</span>')
    if any(point.outside for point in figure.points):
        keys.append(_past(up=not figure.maximize))
    yield '<section class="card"><h2>Optimization history</h2>'
    yield f'<p class="dim">{"".join(keys)}{_part(len(figure.points), figure.total)}</p>'
    if figure.points or figure.failed:
        yield svg.history(figure)
    else:
        yield _empty("No trial has reported a value yet.")
    yield "</section>"


def _importance(data: Sequence[Importance]) -> Iterable[str]:
    yield '<section class="card"><h2>Parameter importance</h2>'
    yield '<p class="dim">Share of the differences that each parameter explains alone.</p>'
    yield '<div class="bars">'
    for importance in data:
        yield f"<span>{escape(importance.name)}</span>"
        if importance.share is None:
            yield f'<span class="none">n/a: {escape(importance.reason)}</span>'
            continue
        bar = f'<rect class="bar" width="{100 * importance.share:.1f}" height="10" rx="1"/>'
        track = '<rect class="track" width="100" height="10" rx="1"/>'
        yield '<svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">'
        yield f'{track}{bar}</svg><span class="share">{100 * importance.share:.0f} %</span>'
    yield "</div>"
    shares = [importance.share for importance in data if importance.share is not None]
    if shares and max(shares) < 0.05:  # noqa: PLR2004 - five in a hundred is chance
        yield '<p class="dim">None explains much alone.</p>'
    yield "</section>"


def _parallel(figure: Parallel, results: Results) -> Iterable[str]:
    yield '<section class="card wide"><h2>Parallel coordinates</h2>'
    outside_key = ""
    if any(line.outside for line in figure.lines):
        outside_key = _past(up=results.spec.objective.direction != MAXIMIZE)
    swipe = '<span class="key swipe">swipe for more \N{RIGHTWARDS ARROW}</span>'
    part = _part(len(figure.lines), figure.total)
    yield f'<p class="dim">{_shade_key()}{outside_key}{part}{swipe if figure.lines else ""}</p>'
    if figure.lines:
        best = results.best.number if results.best else None
        yield f'<div class="scroll">{svg.parallel(figure, best)}</div>'
    else:
        yield _empty("No trial has reported a value yet.")
    yield "</section>"


def _curves(figure: Curves, results: Results) -> Iterable[str]:
    yield '<section class="card"><h2>Intermediate values</h2>'
    yield f'<p class="dim">{_shade_key()}{_part(len(figure.curves), figure.total)}</p>'
    if figure.curves:
        yield svg.curves(figure, results.best.number if results.best else None)
    else:
        field = results.spec.metrics.step
        yield _empty(f"No trial reported a value with a step (the field {field}).")
    yield "</section>"


def _past(*, up: bool) -> str:
    """Return the key of the mark for values outside of a scale."""
    mark = "\N{BLACK UP-POINTING TRIANGLE}" if up else "\N{BLACK DOWN-POINTING TRIANGLE}"
    return f'<span class="key blue">{mark} off the scale</span>'


def _shade_key() -> str:
    best = '<span class="key top"><i class="bar"></i>best trial</span>'
    return f'<span class="key">worse {_RAMP} better</span>{best}'


def _part(count: int, total: int) -> str:
    if count == total:
        return ""
    trials = plural(total, "trial")
    return f'<span class="key">{count} of {trials}: the best, and a sample of the others</span>'


def _empty(text: str) -> str:
    return f'<p class="empty">{escape(text)}</p>'


def _table(results: Results, rows: Table) -> Iterable[str]:
    yield '<section class="card wide"><h2>Trials</h2>'
    yield f'<p class="dim">{escape(summary(results))}</p><div class="chips">'
    for state, count in results.counts.items():
        dot = f'<i class="dot {state}"></i>'
        yield f'<button type="button" aria-pressed="true" data-state="{state}">{dot}{state} {count}'
        yield "</button>"
    # Some pages of rows are read with the page; more of them get a box that keeps the headings.
    box = "rows tall" if len(rows.rows) > _OPEN_ROWS else "rows"
    yield f'</div><div class="{box}"><table id="table"><thead><tr>'
    objective = results.spec.objective
    down = bool(objective.metric) and objective.direction == "maximize"
    for at, column in enumerate(rows.columns):
        style = ' class="num"' if column.numeric else ""
        first = ' data-first="down"' if at == _VALUE and down else ""
        yield f'<th scope="col"{style}{first}><button type="button">{escape(column.title)}</button>'
        yield "</th>"
    yield '</tr></thead><tbody id="rows">'
    best = results.best.number if results.best else None
    for trial, cells, keys in zip(rows.trials, rows.rows, rows.keys, strict=True):
        style = ' class="best"' if trial.number == best else ""
        yield f'<tr{style} data-t="{trial.number}" data-state="{state_of(trial)}">'
        yield "".join(_cells(results.spec, trial, rows, cells, keys)) + "</tr>"
    yield "</tbody></table></div>"
    rest = len(results.trials) - len(rows.trials)
    if rest:
        yield f'<p class="dim">and {rest} more, which come after these; the CSV has all.</p>'
    yield "</section>"


_STATE, _VALUE = 1, 2
_OPEN_ROWS = 200


def _cells(
    spec: SweepSpec,
    trial: Trial,
    rows: Table,
    cells: Sequence[str],
    keys: Sequence[float | str | None],
) -> Iterable[str]:
    last = len(cells) - 1
    for at, (column, text, key) in enumerate(zip(rows.columns, cells, keys, strict=True)):
        label, attributes = text, ""
        style = "num" if column.numeric else "text" if column.parameter else ""
        if at == last:
            style = "note"
        if column.parameter and column.title in trial.assignment:
            label = one_line(short(spec, column.title, trial.assignment[column.title]))
        if style:
            attributes += f' class="{style}"'
        if text and (label != text or style in ("text", "note")):
            attributes += f' title="{escape(text)}"'
        if key is None:
            attributes += " data-none"
        elif not isinstance(key, str):
            attributes += f' data-k="{float(key)!r}"'
        dot = f'<i class="dot {text}"></i>' if at == _STATE else ""
        inside = f"{dot}{escape(label)}"
        # A cell of a table has no height of its own that its text could be cut at.
        yield f"<td{attributes}>{f'<div>{inside}</div>' if at == last else inside}</td>"


def _foot(results: Results) -> Iterable[str]:
    spec = results.spec
    yield '<footer><details><summary>What was searched</summary><table class="plain"><tbody>'
    for parameter in spec.parameters:
        cells = (parameter.name, describe.space(parameter.space), describe.reaches(parameter))
        yield "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"
    yield "</tbody></table></details>"
    yield f"<p>Importance needs {FEWEST} trials with a value, and sees each parameter alone.</p>"
    yield "</footer>"


def _island(results: Results, data: Figures, rows: Table) -> str:
    """Return the tooltips of trials as JSON, escaped so that it cannot end its element."""
    trials: dict[int, Trial] = {trial.number: trial for trial in rows.trials}
    in_pictures = (
        *(point.trial for point in data.history.points),
        *data.history.failed,
        *(line.trial for line in data.parallel.lines),
        *(curve.trial for curve in data.curves.curves),
    )
    trials.update((trial.number, trial) for trial in in_pictures)
    metric = results.spec.objective.metric
    tips = [[number, _tooltip(trial, metric)] for number, trial in sorted(trials.items())]
    text = json.dumps(tips, ensure_ascii=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


_STATES = {
    SUCCEEDED: "ended well",
    STOPPED: "stopped early",
    RUNNING: "running",
    FAILED: "failed",
    UNMEASURED: "unmeasured",
}


def _tooltip(trial: Trial, metric: str) -> list[str]:
    """Return the lines of a trial's tooltip: a heading, its value, its parameters, a note."""
    lines = [f"trial {trial.number}, {_STATES.get(state_of(trial), state_of(trial))}"]
    if trial.value is not None:
        lines.append(f"{metric} {value_text(trial.value)}")
    lines += [one_line(f"{name} {choice.text}") for name, choice in trial.assignment.items()]
    if remark := note(trial):
        lines.append(remark)
    return lines
