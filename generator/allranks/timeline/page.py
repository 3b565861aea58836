"""A timeline as one self-contained HTML file, which opens from a disk and needs no network.

There is no script in it, and its content security policy allows nothing but its style sheet, by the
digest: text of users is escaped, and text that was not could neither run nor load anything. The
same timeline gives the same bytes.
"""

from __future__ import annotations

import base64
import hashlib
from html import escape
from importlib import resources
from typing import TYPE_CHECKING

from allranks.model.status import timestamp
from allranks.timeline import rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from allranks.timeline.goodput import Goodput
    from allranks.timeline.model import PodBar, Timeline

MOST_ROWS = 300
_MOST_MOMENTS = 500
_WIDTH, _COLUMNS = 1000, 200
_KEY = (
    ("scheduling", "waits for a node"),
    ("preparing", "pulls images and starts"),
    ("running", "runs"),
    ("bad", "ended badly"),
)


def html(timeline: Timeline, goodput: Goodput, length: Callable[[float], str]) -> str:
    """Return the whole page.

    Args:
        timeline: the run.
        goodput: how its time was spent.
        length: shows a number of seconds.
    """
    style = resources.files(__package__).joinpath("page.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )
    name = escape(timeline.name)
    took = length(timeline.last - timeline.start)
    created = timestamp(timeline.start)
    where = f"{timeline.workload or 'run'} in {timeline.namespace}"
    return "\n".join(
        (
            "<!DOCTYPE html>",
            '<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            f'<title>{name}: timeline</title><link rel="icon" href="data:,">',
            f"<style>{style}</style></head><body><main>",
            f"<h1>{name}</h1>",
            f"<p>{escape(timeline.phase)}, {escape(where)}, {took}; created {created}</p>",
            *_goodput(goodput, length),
            *_bars(timeline, length),
            *_moments(timeline, length),
            *(f"<p class=note>{escape(note)}</p>" for note in timeline.notes),
            "</main></body></html>",
            "",
        )
    )


def _goodput(goodput: Goodput, length: Callable[[float], str]) -> Iterator[str]:
    share = "not known" if goodput.share is None else f"{goodput.share:.1%}"
    yield f"<section><h2>Goodput: {share}</h2><table>"
    for words, seconds in goodput.parts:
        part = seconds / (goodput.seconds or 1.0)
        yield (
            f"<tr><td>{escape(words)}</td><td class=n>{length(seconds)}</td>"
            f"<td class=n>{part:.1%}</td></tr>"
        )
    yield "</table></section>"


def _bars(timeline: Timeline, length: Callable[[float], str]) -> Iterator[str]:
    if not timeline.pods:
        return
    yield "<section><h2>Pods</h2><p>"
    yield " ".join(f'<span class="key {name}"></span> {words}' for name, words in _KEY)
    yield '</p><div class="bars">'
    for row in rows.choose(timeline, MOST_ROWS):
        yield f'<div class="label" title="{escape(row.label)}">{escape(row.label)}</div>'
        drawn = (
            _of_pod(row.pods[0], timeline, length)
            if len(row.pods) == 1
            else _of_group(row, timeline)
        )
        yield (
            f'<svg class="bar" viewBox="0 0 {_WIDTH} 10" preserveAspectRatio="none" role="img" '
            f'aria-label="{escape(row.label)}">{"".join(drawn)}</svg>'
        )
        yield f'<div class="node">{escape(row.detail)}</div>'
    took = length(timeline.last - timeline.start)
    yield f'<div></div><div class="axis"><span>0s</span><span>{took}</span></div><div></div>'
    yield "</div></section>"


def _of_pod(pod: PodBar, timeline: Timeline, length: Callable[[float], str]) -> Iterator[str]:
    whole = (timeline.last - timeline.start) or 1.0
    for span in pod.spans:
        end = timeline.last if span.end is None else span.end
        x = max(0.0, (span.start - timeline.start) / whole * _WIDTH)
        wide = max(1.5, (end - span.start) / whole * _WIDTH)
        words = f"{pod.name}: {span.name} {length(end - span.start)}"
        words += f", {span.failure}" if span.failure else ""
        yield (
            f'<rect class="{span.name}" x="{x:.1f}" y="0" width="{wide:.1f}" height="10">'
            f"<title>{escape(words)}</title></rect>"
        )
        if span.failure:
            yield f'<rect class="bad" x="{x + wide - 4:.1f}" y="0" width="4" height="10"/>'


def _of_group(row: rows.Row, timeline: Timeline) -> Iterator[str]:
    states = rows.states(row.pods, timeline.start, timeline.last, _COLUMNS)
    wide = _WIDTH / _COLUMNS
    for column, state in enumerate(states):
        if state:
            yield (
                f'<rect class="{state}" x="{column * wide:.1f}" y="0" width="{wide + 0.2:.1f}" '
                'height="10"/>'
            )


def _moments(timeline: Timeline, length: Callable[[float], str]) -> Iterator[str]:
    yield "<section><h2>What happened</h2><table>"
    for moment in timeline.moments[:_MOST_MOMENTS]:
        yield (
            f"<tr><td class=n>+{length(moment.at - timeline.start)}</td>"
            f"<td>{escape(moment.name)}</td><td>{escape(moment.pod)}</td>"
            f"<td>{escape(moment.detail)}</td></tr>"
        )
    yield "</table>"
    if len(timeline.moments) > _MOST_MOMENTS:
        yield f"<p>{len(timeline.moments) - _MOST_MOMENTS:,} more: -o json has all</p>"
    yield "</section>"
