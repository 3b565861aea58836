"""Filter the output of pods for a terminal: text and its colours pass, all else is made visible.

A terminal obeys control sequences in its output: set the title or the clipboard (OSC), move and
clear (CSI), answer as if typed. A log is written by any program in a pod. Nor may it hide text: by
the attribute "concealed", by a colour on the same colour, or by overwriting. Pure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TypeAlias

ESCAPE = "\x1b"
_RESET = f"{ESCAPE}[0m"
# Colours and other attributes (SGR), up to the length of any sequence in use.
_COLOUR = re.compile(rf"{ESCAPE}\[[0-9;:]{{0,64}}m")
_COLOUR_BEGUN = re.compile(rf"{ESCAPE}(?:\[[0-9;:]{{0,64}})?\Z")
# Control characters, line separators of Unicode, and characters that change the reading direction.
_ODD = re.compile(
    rf"(?P<colour>{_COLOUR.pattern})"
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]"
)
_NARROW = 0x100
_CONCEALED = 8
# Colours that differ by less in red, in green and in blue cannot be told apart, of 255.
_ALIKE = 24
_CUBE = (0, 95, 135, 175, 215, 255)
# The sixteen that have names, as xterm shows them.
_NAMED = (
    *((0, 0, 0), (205, 0, 0), (0, 205, 0), (205, 205, 0)),
    *((0, 0, 238), (205, 0, 205), (0, 205, 205), (229, 229, 229)),
    *((127, 127, 127), (255, 0, 0), (0, 255, 0), (255, 255, 0)),
    *((92, 92, 255), (255, 0, 255), (0, 255, 255), (255, 255, 255)),
)
_BYTE = 256
_WORD = re.compile(r"[^\W\d_]+")
# The words of a progress bar that change with its numbers.
_UNITS = frozenset(
    {"b", "k", "m", "g", "t", "kb", "mb", "gb", "tb", "kib", "mib", "gib", "tib"}
    | {"h", "min", "s", "ms", "us", "ns", "it", "eta"}
)

_Rgb: TypeAlias = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class _Colours:
    """The colours of text and ground; None is the terminal's default, which is unknown."""

    text: _Rgb | None = None
    ground: _Rgb | None = None

    @property
    def hides(self) -> bool:
        """Whether text in these colours cannot be read."""
        if self.text is None or self.ground is None:
            return False
        return all(abs(a - b) < _ALIKE for a, b in zip(self.text, self.ground, strict=True))

    def after(self, sequence: str) -> _Colours | None:
        """Return the colours after a sequence; None if it conceals text, or is not valid.

        Args:
            sequence: of `_COLOUR`.
        """
        colours = self
        parts = [part.split(":") for part in sequence[2:-1].split(";")]
        while parts:
            first, *rest = parts.pop(0)
            code = int(first or 0)
            if code == _CONCEALED:
                return None
            if code in (38, 48, 58):  # of the text, the ground, and the line below
                codes = _extended_colour(rest or [word for (word, *_) in parts[:4]])
                if codes is None:
                    return None
                colour, length = codes
                del parts[: 0 if rest else length]
                if code != 58:  # noqa: PLR2004 - see above
                    colours = replace(colours, **{"text" if code == 38 else "ground": colour})  # noqa: PLR2004
            else:
                colours = colours.with_code(code)
        return colours

    def with_code(self, code: int) -> _Colours:
        """Return the colours after a code of one number."""
        match code:
            case 0:
                return _Colours()
            case 39:
                return replace(self, text=None)
            case 49:
                return replace(self, ground=None)
        for start, offset in ((30, 0), (90, 8)):
            if start <= code < start + 8:
                return replace(self, text=_NAMED[code - start + offset])
            if start + 10 <= code < start + 18:
                return replace(self, ground=_NAMED[code - start - 10 + offset])
        return self


def _extended_colour(words: list[str]) -> tuple[_Rgb, int] | None:
    """Return the colour of `5;N` or `2;R;G;B`, and its number of words; None if not valid."""
    kind, *numbers = [int(word or 0) for word in words] or [0]
    if kind == 5 and numbers and numbers[0] < _BYTE:  # noqa: PLR2004 - as terminals have it
        return _of_palette(numbers[0]), 2
    rgb = numbers[-3:]  # with colons a colour space may stand before them
    if kind == 2 and len(rgb) == 3 and max(rgb) < _BYTE:  # noqa: PLR2004 - as terminals have it
        return (rgb[0], rgb[1], rgb[2]), 4
    return None


def _of_palette(number: int) -> _Rgb:
    """Return a colour of the 256: those with names, a cube of six by six by six, and greys."""
    if number < len(_NAMED):
        return _NAMED[number]
    if number >= 232:  # noqa: PLR2004 - the greys
        grey = 8 + 10 * (number - 232)
        return grey, grey, grey
    place = number - 16
    return _CUBE[place // 36], _CUBE[place // 6 % 6], _CUBE[place % 6]


class Filter:
    """Filters a stream of text, in parts that may end anywhere."""

    def __init__(self) -> None:
        """Create a filter for a new stream."""
        self._rest = ""
        self._coloured = False
        self._colours = _Colours()

    def feed(self, text: str) -> str:
        """Return the next part, filtered; an incomplete colour sequence waits for the next call."""
        whole = self._rest + text
        match = _COLOUR_BEGUN.search(whole)
        self._rest = whole[match.start() :] if match else ""
        return _ODD.sub(self._visible, whole[: len(whole) - len(self._rest)])

    def end(self) -> str:
        """Return the rest, filtered, and reset the colours."""
        rest, self._rest = self._rest, ""
        visible = _ODD.sub(self._visible, rest)
        coloured, self._coloured = self._coloured, False
        self._colours = _Colours()
        return visible + _RESET if coloured else visible

    def _visible(self, match: re.Match[str]) -> str:
        if match["colour"]:
            after = self._colours.after(match[0])
            if after is None or after.hides:
                return match[0].replace(ESCAPE, "\\x1b")
            self._coloured, self._colours = True, after
            return match[0]
        code = ord(match[0])
        return f"\\x{code:02x}" if code < _NARROW else f"\\u{code:04x}"


def line(text: str) -> str:
    """Return one line of a pod's log, filtered."""
    filter_ = Filter()
    return filter_.feed(text) + filter_.end()


def rows(text: str) -> list[str]:
    r"""Split a line of a pod's log that was overwritten with ``\r``.

    The overwritten states of a progress bar are left out: those without any word that the last
    state lacks. A state with such a word is a line of its own, so that overwriting cannot hide
    text.
    """
    *over, last = [part for part in text.split("\r") if part] or [""]
    words = _words(last)
    return [*(part for part in over if not _words(part) <= words), last]


def _words(text: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(_COLOUR.sub("", text))} - _UNITS
