"""The parts of a rule between values.

A rule is a small pure function with an id, a sentence for the documentation, and the values it
reads. It sees nothing else, so that a value the schema has refused silences exactly the rules that
would trip over it, and all other problems are still reported in the same run.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from allranks.schema.paths import ValuesPath

# Stands in `reads` of a rule that looks at the values as they are, whatever their shape.
EVERYTHING = "*"
# The first key of a path to what the workload's own section has, whatever its name.
OWN = "own"


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem that a rule finds at a path."""

    path: ValuesPath
    message: str
    hint: str


@dataclass(frozen=True, slots=True)
class View:
    """The values as a rule may read them.

    Attributes:
        values: the merged values.
        reads: the dotted paths that the rule declares.
        release: the release's name; "" where none is given.
        namespace: its namespace; "" where none is given.
    """

    values: Mapping[str, Any]
    reads: tuple[str, ...]
    release: str = ""
    namespace: str = ""

    @property
    def workload(self) -> str:
        """The workload, whose section of the values is ``own``."""
        return str(self.values.get("workload") or "")

    def __getitem__(self, dotted: str) -> Any:
        """The value at a dotted path; a rule that has not declared it may not read it."""
        keys = _keys(dotted, self.workload)
        if not _is_declared(keys, self.reads, self.workload):
            raise KeyError(f"a rule reads {dotted} without declaring it")
        value: Any = self.values
        for key in keys:
            value = value[key]
        return value

    def get(self, dotted: str, default: Any) -> Any:
        """The value at a dotted path that not every workload has; None without it."""
        try:
            return self[dotted]
        except KeyError:
            return default

    def path(self, dotted: str, *more: str | int) -> ValuesPath:
        """A path as `path` makes it, with the section's name in place of ``own``."""
        return resolved((*dotted.split("."), *more), self.workload)


@dataclass(frozen=True, slots=True)
class ValuesRule:
    """A rule between values.

    Attributes:
        id: a short name that does not change.
        doc: what must hold, as a sentence.
        reads: the dotted paths of the values it looks at.
        find: yields a finding for each place where it does not hold.
        workload: the only workload it is about; "" is all.
        warning: whether a finding is a word of advice only.
        cluster: whether it is about a cluster alone, and not about a run on this machine.
    """

    id: str
    doc: str
    reads: tuple[str, ...]
    find: Callable[[View], Iterable[Finding]]
    warning: bool = False
    workload: str = ""
    cluster: bool = False


@functools.lru_cache(maxsize=4096)
def _keys(dotted: str, workload: str) -> ValuesPath:
    return resolved(path(dotted), workload)


@functools.lru_cache(maxsize=4096)
def _is_declared(keys: ValuesPath, reads: tuple[str, ...], workload: str) -> bool:
    """Whether a rule that reads these paths may read there."""
    declared = (_keys(read, workload) for read in reads)
    return any(read == keys[: len(read)] for read in declared)


def resolved(keys: ValuesPath, workload: str) -> ValuesPath:
    """A path with the name of a workload's section in place of ``own``."""
    return (workload, *keys[1:]) if keys[:1] == (OWN,) else keys


def path(dotted: str, *more: str | int) -> ValuesPath:
    """A path from a dotted one, with further keys that may contain dots."""
    return (*dotted.split("."), *more)
