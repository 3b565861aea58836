"""The owner mark of a release, by which two sweeps of one name leave each other's releases alone.

The journal of a sweep is where it was begun, but its releases are where everybody sees them. So two
people may give one name to two sweeps, whose trials then have the same names, too. The mark is
created when a sweep begins, and is part of its journal and of the labels of every release record: a
release with another mark, or with none, is not ours, whatever its name.
"""

from __future__ import annotations

import getpass
import re
import secrets
import socket
from collections.abc import Mapping  # noqa: TC003 - a parameter's type, which tools read
from dataclasses import dataclass

from allranks import names

_DIGITS = 8  # random bytes
_LABEL_MAX = 63
_NOT_IN_LABELS = re.compile(r"[^A-Za-z0-9_.-]+")


@dataclass(frozen=True, slots=True)
class OwnerMark:
    """The mark of a sweep on its releases.

    Attributes:
        identity: unique to the sweep; "" for a journal without a mark.
        created_by: who began it, and on which machine, as a label can say it: ``jo.laptop``.
    """

    identity: str = ""
    created_by: str = ""

    @classmethod
    def new(cls) -> OwnerMark:
        """Create the mark of a new sweep."""
        try:
            user = getpass.getuser()
        except (OSError, KeyError):  # a container's user may have no name
            user = ""
        account = ".".join(part for part in (user, socket.gethostname()) if part)
        by = _NOT_IN_LABELS.sub("-", account)[:_LABEL_MAX].strip("_.-")
        return cls(secrets.token_hex(_DIGITS), by)

    @classmethod
    def of(cls, record: Mapping[str, str] | None) -> OwnerMark:
        """Return the mark in a journal's head; an empty one if it has none."""
        mark = record or {}
        return cls(str(mark.get("id") or ""), str(mark.get("by") or ""))

    def as_dict(self) -> dict[str, str]:
        """Return the mark as the journal's head stores it."""
        return {"id": self.identity, "by": self.created_by}

    def labels(self, sweep: str, trial: int) -> dict[str, str]:
        """Return the labels of the release record of a trial."""
        labels = {names.SWEEP: sweep, names.TRIAL: str(trial)}
        marks = {names.SWEEP_ID: self.identity, names.SWEEP_BY: self.created_by}
        return labels | {key: text for key, text in marks.items() if text}

    def owns(self, labels: Mapping[str, str], sweep: str) -> bool:
        """Whether a release with these labels belongs to this sweep."""
        same = (labels.get(names.SWEEP_ID) or "") == self.identity
        return same and labels.get(names.SWEEP) == sweep


# The mark of a journal without one.
UNOWNED = OwnerMark()


def describe(labels: Mapping[str, str], chart: str = "") -> str:
    """Describe the owner of a release with another mark, for a person.

    Args:
        labels: those of its record.
        chart: the name of its chart; "" if it is unknown.
    """
    sweep, by = labels.get(names.SWEEP), labels.get(names.SWEEP_BY)
    if sweep:
        return f"another sweep {sweep}" + (f", begun by {by}" if by else "")
    return f"a release of chart {chart}" if chart else "something that is no trial"
