"""Names of trials: the same parameters, the same name, on every machine and in every order.

The name is a hash of the texts, as Helm's own templates can compute it too
(``toRawJson | sha256sum``): the canonical JSON has sorted keys, no spaces and no escapes beyond
those that JSON demands.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING

from allranks import names

if TYPE_CHECKING:
    from collections.abc import Container

    from allranks.sweep.model import Assignment

DIGITS = 8
# Two of ten thousand trials share eight digits once in a hundred sweeps; twelve make it never.
MORE_DIGITS = 12
# Names of sweeps and of trials, which are names of releases, of objects and of folders.
NAME = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?", re.ASCII)
# So much of a release's name is the trial's own: a dash and eight digits, or twelve of them.
NAME_MAX = names.HELM_RELEASE_NAME_MAX - 1 - MORE_DIGITS


def canonical(assignment: Assignment) -> str:
    """The texts of a trial's parameters as one JSON object: what tells trials apart."""
    texts = {name: choice.text for name, choice in assignment.items()}
    return json.dumps(texts, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def trial_name(sweep: str, assignment: Assignment, taken: Container[str] = ()) -> str:
    """The name of a trial, and of its release.

    Args:
        sweep: the sweep's name.
        assignment: the trial's parameters.
        taken: names of trials with other parameters; almost never one that would collide.
    """
    text = canonical(assignment).encode("utf-8", "surrogatepass")
    digest = hashlib.sha256(text).hexdigest()
    short = f"{sweep}-{digest[:DIGITS]}"
    return f"{sweep}-{digest[:MORE_DIGITS]}" if short in taken else short


def is_trial(name: str, sweep: str) -> bool:
    """Whether a name is one of those that trials of a sweep have."""
    own = name.startswith(f"{sweep}-") and len(name) <= names.HELM_RELEASE_NAME_MAX
    return own and NAME.fullmatch(name) is not None
