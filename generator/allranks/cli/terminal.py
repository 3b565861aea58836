"""What a pod's program may say to a terminal: text and its colours; all else is shown, not obeyed.

A terminal takes orders from what is printed on it: set the title or the clipboard (OSC), move and
clear (CSI), answer as if typed. A log is written by whoever runs in a pod. Pure.
"""

from __future__ import annotations

import re

ESCAPE = "\x1b"
_RESET = f"{ESCAPE}[0m"
# Colours and their like (SGR), as long as any that a program means.
_COLOUR = re.compile(rf"{ESCAPE}\[[0-9;:]{{0,64}}m")
_COLOUR_BEGUN = re.compile(rf"{ESCAPE}(?:\[[0-9;:]{{0,64}})?\Z")
# Control characters of either width, what some end a line at, and what turns the order of reading.
_ODD = re.compile(
    rf"(?P<colour>{_COLOUR.pattern})"
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]"
)
_NARROW = 0x100


class Filter:
    """A stream of text, in parts that end anywhere."""

    def __init__(self) -> None:
        """Nothing has come yet."""
        self._rest = ""
        self._coloured = False

    def feed(self, text: str) -> str:
        """What may be shown of the next part; what may become a colour waits for the part after."""
        whole = self._rest + text
        begun = _COLOUR_BEGUN.search(whole)
        self._rest = whole[begun.start() :] if begun else ""
        return _ODD.sub(self._shown, whole[: len(whole) - len(self._rest)])

    def end(self) -> str:
        """What is left to show; the colours end with it."""
        rest, self._rest = self._rest, ""
        shown = _ODD.sub(self._shown, rest)
        coloured, self._coloured = self._coloured, False
        return shown + _RESET if coloured else shown

    def _shown(self, match: re.Match[str]) -> str:
        if match["colour"]:
            self._coloured = True
            return match[0]
        code = ord(match[0])
        return f"\\x{code:02x}" if code < _NARROW else f"\\u{code:04x}"


def line(text: str) -> str:
    """One line of a pod's log, as it may be shown."""
    found = Filter()
    return found.feed(text) + found.end()
