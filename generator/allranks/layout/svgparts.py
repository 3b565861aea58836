"""SVG, the little of it that a diagram needs: boxes, text, colours.

Colours are attributes, so that every viewer shows the light picture on its own background;
a style sheet for dark screens stands beside them for the viewers that know it.
"""

from __future__ import annotations

import html
import re

# Name: light, dark. Chosen to stay apart for colour-blind eyes and in grey print.
COLOURS = {
    "page": ("#ffffff", "#0f172a"),
    "card": ("#f8fafc", "#16213a"),
    "frame": ("#f1f5f9", "#131c31"),
    "line": ("#cbd5e1", "#334155"),
    "ink": ("#0f172a", "#e2e8f0"),
    "dim": ("#64748b", "#94a3b8"),
    "job": ("#1d4ed8", "#3b82f6"),
    "onjob": ("#ffffff", "#ffffff"),
    "busy": ("#94a3b8", "#64748b"),
    "free": ("#d1fae5", "#134e3a"),
    "edge": ("#10b981", "#10b981"),
    "off": ("#e2e8f0", "#273449"),
}
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', Arial, sans-serif"
# What XML 1.0 has no way to write, lone surrogates included.
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# Width of a character in parts of the font's size: on the safe side for the fonts above.
_WIDE = 0.6


def escape(text: str) -> str:
    """Text as it may stand in XML; characters that XML cannot hold become a mark."""
    return html.escape(_FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", text))


def clipped(text: str, width: float, size: float) -> str:
    """Text cut to a width, with a mark where it was cut; the end stays, as numbers stand there."""
    most = max(1, int(width / (size * _WIDE)))
    if len(text) <= most:
        return text
    head = (most - 1) // 3
    return f"{text[:head]}\N{HORIZONTAL ELLIPSIS}{text[len(text) - (most - 1 - head) :]}"


def wrapped(text: str, width: float, size: float) -> list[str]:
    """Text in lines of a width, broken at spaces."""
    most = max(1, int(width / (size * _WIDE)))
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > most:
            lines.append("")
        lines[-1] += f" {word}" if lines[-1] else word
    return lines


class Canvas:
    """Collects elements in drawing order; coordinates are pixels."""

    def __init__(self) -> None:
        self._parts: list[str] = []

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        *,
        fill: str,
        stroke: str = "",
        radius: float = 0,
    ) -> None:
        """A rectangle in colours of `COLOURS`."""
        attributes = f'x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="{_n(height)}"'
        if radius:
            attributes += f' rx="{_n(radius)}"'
        classes = f"f-{fill}"
        attributes += f' fill="{COLOURS[fill][0]}"'
        if stroke:
            classes += f" s-{stroke}"
            attributes += f' stroke="{COLOURS[stroke][0]}"'
        self._parts.append(f'<rect class="{classes}" {attributes}/>')

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        size: float = 12,
        fill: str = "ink",
        bold: bool = False,
        anchor: str = "",
    ) -> None:
        """One line of text, its baseline at `y`."""
        attributes = f'x="{_n(x)}" y="{_n(y)}" font-size="{_n(size)}" fill="{COLOURS[fill][0]}"'
        if bold:
            attributes += ' font-weight="600"'
        if anchor:
            attributes += f' text-anchor="{anchor}"'
        self._parts.append(f'<text class="f-{fill}" {attributes}>{escape(text)}</text>')

    def open(self, tip: str) -> None:
        """Begin a group that viewers explain when pointed at."""
        self._parts.append(f"<g><title>{escape(tip)}</title>")

    def close(self) -> None:
        """End the group."""
        self._parts.append("</g>")

    def document(self, width: float, height: float, title: str, description: str) -> str:
        """The whole picture on its own background.

        Args:
            width: of the picture.
            height: of the picture.
            title: what screen readers and tabs call it.
            description: what it shows, in words.
        """
        dark = "".join(
            f".f-{name}{{fill:{colours[1]}}}.s-{name}{{stroke:{colours[1]}}}"
            for name, colours in COLOURS.items()
        )
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{_n(width)}" height="{_n(height)}" '
            f'viewBox="0 0 {_n(width)} {_n(height)}" role="img" font-family="{FONT}">\n'
            f"<title>{escape(title)}</title>\n<desc>{escape(description)}</desc>\n"
            f"<style>@media (prefers-color-scheme: dark) {{{dark}}}</style>\n"
            f'<rect class="f-page" width="{_n(width)}" height="{_n(height)}" '
            f'fill="{COLOURS["page"][0]}"/>\n'
        )
        return head + "\n".join(self._parts) + "\n</svg>\n"


def _n(value: float) -> str:
    """A coordinate, without digits that nobody sees."""
    return f"{value:.1f}".removesuffix(".0")
