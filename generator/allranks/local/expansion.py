"""``$(NAME)`` and ``$$`` in env values, command and args, exactly as the kubelet reads them.

``$(NAME)`` is replaced when NAME is known and stays as typed when it is not; ``$$`` is one ``$``;
an open ``$(`` and any other ``$x`` stay as typed. The text that comes in is not scanned again.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

# A `$` at the very end, before anything but `$` and `(`, or before an unclosed `(` matches nothing
# here and so stays; `.` must match newlines, since a name runs up to the next `)` wherever it is.
_REFERENCE = re.compile(r"\$(?:(?P<escaped>\$)|\((?P<name>[^)]*)\))")


def expand(text: str, *scopes: Mapping[str, str]) -> str:
    """`text` with its references replaced.

    Args:
        text: an env value, or a word of a command.
        scopes: known names; the first scope that has one wins.
    """

    def value(match: re.Match[str]) -> str:
        if match["escaped"]:
            return "$"
        name = match["name"]
        return next((scope[name] for scope in scopes if name in scope), match[0])

    return _REFERENCE.sub(value, text)
