"""Values paths: as keys and indices inside, as ``torchrun.elastic.minNodes`` for people."""

from __future__ import annotations

import json
import re

ValuesPath = tuple[str | int, ...]

_PLAIN = re.compile(r"[A-Za-z0-9_-]+")


def show(path: ValuesPath) -> str:
    """The path as a person writes it.

    Args:
        path: keys and list indices from the root.

    Returns:
        ``args[2]``, ``torchrun.port``, ``labels["my.org/team"]``; "" for the root.
    """
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif _PLAIN.fullmatch(part):
            text += f".{part}" if text else part
        else:
            text += f"[{json.dumps(part, ensure_ascii=False)}]"
    return text
