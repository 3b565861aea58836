"""What a rule between values is made of.

A rule is a small pure function with an id, a sentence for the documentation, and the values it
reads. It sees nothing else, so that a value the schema has refused silences exactly the rules that
would trip over it, and all other problems are still reported in the same run.
"""

from __future__ import annotations

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
    """What a rule has to say about one place."""

    path: ValuesPath
    message: str
    hint: str


@dataclass(frozen=True, slots=True)
class View:
    """The values as one rule may see them.

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
        """The workload; its section of the values is what ``own`` stands for."""
        return str(self.values.get("workload") or "")

    def __getitem__(self, dotted: str) -> Any:
        """The value at a dotted path; a rule that has not declared it may not read it."""
        keys = self.path(dotted)
        declared = (self.path(read) for read in self.reads)
        if not any(read == keys[: len(read)] for read in declared):
            raise KeyError(f"a rule reads {dotted} without declaring it")
        found: Any = self.values
        for key in keys:
            found = found[key]
        return found

    def get(self, dotted: str, default: Any) -> Any:
        """The same, for what not every workload has."""
        try:
            return self[dotted]
        except KeyError:
            return default

    def path(self, dotted: str, *more: str | int) -> ValuesPath:
        """A path as `path` makes it, with the section's name in place of ``own``."""
        return resolved((*dotted.split("."), *more), self.workload)


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule.

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


def resolved(keys: ValuesPath, workload: str) -> ValuesPath:
    """A path with the name of a workload's section in place of ``own``."""
    return (workload, *keys[1:]) if keys[:1] == (OWN,) else keys


def path(dotted: str, *more: str | int) -> ValuesPath:
    """A path from a dotted one, and further keys that may hold dots themselves."""
    return (*dotted.split("."), *more)
