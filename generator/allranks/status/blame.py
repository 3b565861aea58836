"""Which bad end is the one that a run failed of; one rule for a cluster and for this machine.

When one rank dies, others lose their connection and die after it, are told to stop, or end with a
code that only says that another pod has failed. A person needs the first that failed by itself, and
a script its exit code. A rank that failed, was replaced and went on has nothing to do with an end
that came much later.
"""

from __future__ import annotations

import re
import signal
from dataclasses import replace
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from allranks import names

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from allranks.model.status import Failure

_TERMINATED = 128 + signal.SIGTERM
# A rank may be replaced before its peers, or the master, have died of its loss.
_AFTERSHOCK_SECONDS = 5.0
_NAMED = re.compile(
    re.escape(names.FAILED_FIRST) + r"(rank \d+) in pod (\S+) ended with exit code (\d+)"
)


class Part(IntEnum):
    """What a pod does in its run; those that come first are blamed first."""

    TRAINS = 0
    DECIDES = 1  # an elastic job's master: it fails because the others did
    OPTIONAL = 2  # the training goes on without it


PARTS = {names.ROLE_MASTER: Part.DECIDES, names.ROLE_EVALUATOR: Part.OPTIONAL}


class Suspect(NamedTuple):
    """One bad end of a container.

    Attributes:
        at: when, in seconds since the epoch.
        rank: the rank of its pod.
        pod: the pod.
        container: the container.
        code: its exit code.
        place: which of the run's pods it was: those that replaced it have the same.
        replaced: whether a pod, or a container, has begun in its place since.
        mended: whether that one has done its work.
        part: what the pod does in the run.
        follows: whether it only says that another pod has failed; see `is_told`.
        names: whether it says which.
    """

    at: float
    rank: int
    pod: str
    container: str
    code: int
    place: Hashable
    replaced: bool = False
    mended: bool = False
    part: Part = Part.TRAINS
    follows: bool = False
    names: bool = False


def is_told(code: int, message: str, pod: str, *, static: bool) -> bool:
    """Whether a pod has ended because it was told of another one's failure.

    Args:
        code: its exit code.
        message: its termination message.
        pod: its name.
        static: whether it is of an elastic job of fixed size, whose leads have a code for it; those
            of other elastic jobs all end with the code of the one that failed.
    """
    if message.startswith((names.FAILED_FIRST, names.PEER_LOST)):
        return True
    if static:
        return code == names.EXIT_TRAINING_LOST
    return message.startswith(names.JOB_HAS_FAILED) and f"{pod}:" not in message


def is_named(message: str) -> bool:
    """Whether a termination message says which rank of another pod failed first."""
    return _NAMED.match(message) is not None


def culprit(failure: Failure) -> Failure:
    """The failure of the pod that a message names, in place of the one that bears the message."""
    found = _NAMED.match(failure.message)
    if found is None:
        return failure
    rank, pod, code = found.groups()
    lines = failure.message[found.end() :]
    number = pod.rpartition("-")[2]
    return replace(
        failure,
        pod=pod,
        rank=int(number) if number.isdecimal() else None,
        exit_code=int(code),
        reason="Error",
        message=f"{rank} ended with exit code {code}{lines}",
        log=(),
    )


def first(suspects: Iterable[Suspect], ended_at: float | None) -> Suspect | None:
    """The end to blame; None where every rank that failed has recovered.

    Args:
        suspects: all bad ends of a run, but those of pods that somebody else ended.
        ended_at: when the run failed; None where it goes on, which has something to tell of ranks
            that recovered, too.
    """
    found = list(suspects)
    # A place that fell with another one in its last try is not blamed for the try before.
    ends = _newest(one for one in found if one.names or not _by_others(one))
    own = [one for one in ends if not _by_others(one)]
    last = max((one.at for one in found), default=0.0)
    lasting = [one for one in own if not _recovered(one, last, ended_at)]
    if lasting:
        return min(lasting, key=_order)
    others = [one for one in found if _by_others(one) and not one.replaced]
    if others:
        return min(others, key=lambda one: (not one.names, not one.follows, _order(one)))
    return min(own, key=_order, default=None) if ended_at is None else None


def _by_others(one: Suspect) -> bool:
    return one.follows or one.code == _TERMINATED


def _newest(suspects: Iterable[Suspect]) -> list[Suspect]:
    """The last end of each place: its tries before that cost no more than time."""
    found: dict[tuple[Hashable, str], Suspect] = {}
    for one in sorted(suspects, key=lambda one: (one.at, not one.replaced, one.pod)):
        found[one.place, one.container] = one
    return list(found.values())


def _recovered(one: Suspect, last: float, ended_at: float | None) -> bool:
    """Whether its place was filled again, long enough before the end.

    Args:
        one: the suspect.
        last: when the last container of the run ended badly.
        ended_at: when the run failed; None where it goes on.
    """
    if one.mended or not one.replaced or ended_at is None:
        return one.replaced
    over = min(last, ended_at) if last > one.at else ended_at
    return over - one.at > _AFTERSHOCK_SECONDS


def _order(one: Suspect) -> tuple[Part, float, int, str, str]:
    return one.part, one.at, one.rank, one.pod, one.container


def sentence(message: str, code: int | None, failure: Failure | None) -> str:
    """The sentence for a run's end, where its lead has only heard of another pod's failure.

    Args:
        message: what the end of its controller says.
        code: the exit code that decided it; None where it was not one alone.
        failure: what is to blame.
    """
    if code != names.EXIT_TRAINING_LOST or failure is None or failure.exit_code == code:
        return message
    return f"{failure.pod} failed for good, and the training with it"
