"""Words that are meant to be others: ``shmm`` beside ``shmem``, ``Workr`` beside ``Worker``."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from allranks.schema.suggestions import nearest

if TYPE_CHECKING:
    from collections.abc import Sequence

# parallelTrialCount is no misspelt maxTrialCount, of which it has 0.71.
LIKE = 0.75


def nearest_word(word: str, words: Sequence[str]) -> str:
    """The word that another is meant to be, of which most is the same; "" for none."""
    near = nearest(word, [*words])
    return near if near and likeness(word, near) >= LIKE else ""


def likeness(key: str, near: str) -> float:
    """How much of two keys is the same, from 0 to 1; all of it, where one was cut short."""
    first, second = key.lower(), near.lower()
    if second.startswith(first):
        return 1.0
    return difflib.SequenceMatcher(None, first, second).ratio()
