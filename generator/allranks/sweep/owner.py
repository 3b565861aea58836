"""Whose a release is: a mark on each, so that two sweeps of one name leave each other's alone.

A sweep is kept where it was begun, and its releases where all can see them. So two people may give
one name to two sweeps, and their trials then have the same names, too. The mark is made when a
sweep begins, is kept in its journal, and stands on the record of every release: what has another
one, or none, is none of ours, whatever it is called.
"""

from __future__ import annotations

import getpass
import re
import secrets
import socket
from collections.abc import Mapping  # noqa: TC003 - a parameter's type, which tools read
from dataclasses import dataclass

from allranks import names

_DIGITS = 8  # bytes of chance
_LABEL_MAX = 63
_NOT_IN_LABELS = re.compile(r"[^A-Za-z0-9_.-]+")


@dataclass(frozen=True, slots=True)
class Owner:
    """A sweep as its releases name it.

    Attributes:
        identity: unlike that of any other sweep; "" in a journal that has none.
        by: who began it, and on which machine, as a label can say it: ``jo.laptop``.
    """

    identity: str = ""
    by: str = ""

    @classmethod
    def new(cls) -> Owner:
        """That of a sweep which begins now."""
        try:
            user = getpass.getuser()
        except (OSError, KeyError):  # a container's user may have no name
            user = ""
        said = ".".join(part for part in (user, socket.gethostname()) if part)
        by = _NOT_IN_LABELS.sub("-", said)[:_LABEL_MAX].strip("_.-")
        return cls(secrets.token_hex(_DIGITS), by)

    @classmethod
    def of(cls, kept: Mapping[str, str] | None) -> Owner:
        """That of a journal's head."""
        known = kept or {}
        return cls(str(known.get("id") or ""), str(known.get("by") or ""))

    def as_dict(self) -> dict[str, str]:
        """For a journal's head."""
        return {"id": self.identity, "by": self.by}

    def labels(self, sweep: str, trial: int) -> dict[str, str]:
        """What stands on the record of a trial's release."""
        found = {names.SWEEP: sweep, names.TRIAL: str(trial)}
        marks = {names.SWEEP_ID: self.identity, names.SWEEP_BY: self.by}
        return found | {key: text for key, text in marks.items() if text}

    def owns(self, labels: Mapping[str, str], sweep: str) -> bool:
        """Whether a release with these labels is of this sweep."""
        same = (labels.get(names.SWEEP_ID) or "") == self.identity
        return same and labels.get(names.SWEEP) == sweep


# Of a journal that says nothing of it.
NOBODY = Owner()


def told(labels: Mapping[str, str], chart: str = "") -> str:
    """Whose a release is that has another mark, for a person.

    Args:
        labels: of its record.
        chart: the chart that it is of; "" where that is not known.
    """
    sweep, by = labels.get(names.SWEEP), labels.get(names.SWEEP_BY)
    if sweep:
        return f"another sweep {sweep}" + (f", begun by {by}" if by else "")
    return f"a release of chart {chart}" if chart else "something that is no trial"
