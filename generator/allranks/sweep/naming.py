"""Names of trials: equal parameters give equal names, on every machine and in any order.

The name is a hash of the texts of the parameters, which Helm's templates can compute as well
(``toRawJson | sha256sum``): the canonical JSON has sorted keys, no spaces and no escapes beyond
those that JSON demands.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from allranks import names
from allranks.k8s.object_names import has_dns_1035_form

if TYPE_CHECKING:
    from collections.abc import Container

    from allranks.sweep.model import Assignment

DIGITS = 8
# Two of ten thousand trials share eight digits in one of a hundred sweeps; twelve digits do not.
MORE_DIGITS = 12
# The suffix of a trial's name is a dash and eight digits, or twelve.
NAME_MAX = names.HELM_RELEASE_NAME_MAX - 1 - MORE_DIGITS


def canonical(assignment: Assignment) -> str:
    """Return the texts of a trial's parameters as one JSON object, which identifies the trial."""
    texts = {name: choice.text for name, choice in assignment.items()}
    return json.dumps(texts, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def trial_name(sweep: str, assignment: Assignment, other_names: Container[str] = ()) -> str:
    """Return the name of a trial, which is also that of its release.

    Args:
        sweep: the sweep's name.
        assignment: the trial's parameters.
        other_names: names of trials with other parameters, to avoid a collision.
    """
    text = canonical(assignment).encode("utf-8", "surrogatepass")
    digest = hashlib.sha256(text).hexdigest()
    short = f"{sweep}-{digest[:DIGITS]}"
    return f"{sweep}-{digest[:MORE_DIGITS]}" if short in other_names else short


def is_trial(name: str, sweep: str) -> bool:
    """Whether a trial of a sweep could have this name."""
    own = name.startswith(f"{sweep}-") and len(name) <= names.HELM_RELEASE_NAME_MAX
    return own and has_dns_1035_form(name)
