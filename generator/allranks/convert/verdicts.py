"""What became of each field of a converted object.

A converter takes the fields that it understands, one by one, and says of each what became of it.
What it says of a kind's fields in general stands in a table of rules, which the documentation and
the test that walks a kind's schema read as well. What neither has a word for is not carried, and
said: nothing is dropped in silence.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from allranks.convert import template_blanks
from allranks.errors import InputError
from allranks.humanize import plural
from allranks.k8s.fields import digits, texts
from allranks.values.merge import copy, overlay

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

FieldPath = tuple[str | int, ...]
# By line of a file, the comments above that line, and the one behind it; "" for none.
Comments = dict[int, tuple[tuple[str, ...], str]]

_UNKNOWN = "no dialect has such a field"
NOT_UNDERSTOOD = "its value is none that this field may have"
_NO_NUMBER = "{!r} is no whole number"
# Numbers that may be words as well.
_OR_WORDS = ("nprocPerNode", "nProcPerNode", "numProcPerNode")


class Outcome(StrEnum):
    """What became of a field."""

    CARRIED = "carried"
    CHANGED = "changed"
    NOT_CARRIED = "not carried"


class Named(str):
    """A step of a values path: the item of a list that has this name."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Rule:
    """What becomes of a field of a kind, wherever nothing else is said of it.

    Attributes:
        path: the field: ``spec.replicas``. A step ``*`` is any key, ``[]`` any item of a list, and
            a last step ``**`` the field itself and all below it.
        outcome: carried, changed or not carried.
        to: the value or flag that has it; "" for none.
        why: the reason, where it is not carried as it is.
    """

    path: str
    outcome: Outcome
    to: str = ""
    why: str = ""

    @property
    def steps(self) -> tuple[str, ...]:
        """The path's steps."""
        return tuple(step for step in self.path.replace("[]", ".[]").split(".") if step)

    def below(self, prefix: str) -> Rule:
        """The same rule for a field that stands below another."""
        return Rule(f"{prefix}.{self.path}", self.outcome, self.to, self.why)


def carried(path: str, to: str) -> Rule:
    """A rule for what is carried as it is."""
    return Rule(path, Outcome.CARRIED, to)


def changed(path: str, to: str, why: str) -> Rule:
    """A rule for what is carried in another form."""
    return Rule(path, Outcome.CHANGED, to, why)


def lost(path: str, why: str) -> Rule:
    """A rule for what is not carried."""
    return Rule(path, Outcome.NOT_CARRIED, "", why)


ITS_OWN = "the cluster writes it itself"
# What every object of a cluster has, besides its labels and annotations.
METADATA = (
    changed("apiVersion", "workload", "says which chart it is for"),
    changed("kind", "workload", "says which chart it is for"),
    carried("metadata.name", "NAME, the release"),
    carried("metadata.namespace", "-n"),
    changed("metadata.generateName", "NAME, the release", "a run has the name that you give it"),
    changed("metadata.labels.*", "labels", "the charts and controllers write it themselves"),
    changed("metadata.annotations.*", "annotations", "a controller or kubectl wrote it"),
    changed("metadata.finalizers.**", "", "the old controller's own"),
    changed("metadata.ownerReferences.**", "", "it belongs to an object of the old controller"),
    *(
        changed(f"metadata.{key}.**", "", ITS_OWN)
        for key in (
            *("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"),
            *("selfLink", "deletionTimestamp", "deletionGracePeriodSeconds", "clusterName"),
        )
    ),
    changed("status.**", "", "it is the state of the old run"),
)
# Which controller carries an object out; one of the object's own is no loss (managed_by.py).
MANAGED_BY = lost(
    "managedBy",
    "another controller carried it out, as Kueue's does in another cluster: start the run in the "
    "cluster that has the nodes (--context)",
)


class Rules:
    """A table of rules, by the paths that they are for.

    Args:
        rules: the rules; the first that fits a path decides.
    """

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.rules = tuple(rules)
        self._tree: dict[str, Any] = {}
        for rule in self.rules:
            node = self._tree
            for step in rule.steps:
                node = node.setdefault(step, {})
            node.setdefault("", rule)

    def of(self, path: FieldPath) -> Rule | None:
        """The rule for a field; None for none."""
        return _rule(self._tree, path)


def _rule(node: dict[str, Any], path: FieldPath) -> Rule | None:
    rest: Rule | None = node.get("**", {}).get("")
    if not path:
        own: Rule | None = node.get("")
        return own or rest
    step = path[0]
    names = ("[]",) if isinstance(step, int) else (step, "*")
    for name in names:
        below = node.get(name) if name else None
        if below is not None and (rule := _rule(below, path[1:])) is not None:
            return rule
    return rest


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one field.

    Attributes:
        path: the field in its object: ``spec.reliability.maxRestarts``.
        outcome: carried, changed or not carried.
        to: the value or flag that has it; "" for none.
        why: the reason, where it is not carried as it is.
        line: the field's line in its file; 0 where it is not known.
        keys: the path as keys and indices.
    """

    path: str
    outcome: Outcome
    to: str = ""
    why: str = ""
    line: int = 0
    keys: FieldPath = ()

    def __str__(self) -> str:
        """The verdict as a sentence."""
        arrow = f" -> {self.to}" if self.to else ""
        reason = f": {self.why}" if self.why else ""
        return f"{self.path}{arrow} {self.outcome}{reason}"

    def as_dict(self) -> dict[str, Any]:
        """The JSON form."""
        data = {"path": self.path, "outcome": str(self.outcome), "to": self.to, "why": self.why}
        return {**data, "line": self.line} if self.line else data


@dataclass(frozen=True, slots=True)
class Beside:
    """An object beside a job.

    Attributes:
        kind: its kind.
        name: its name.
        is_needed: whether it is to be applied as well.
        why: what it is for, or what makes it superfluous.
        namespace: its namespace; "" for none.
        source: the file that it stands in, with its line.
    """

    kind: str
    name: str
    is_needed: bool
    why: str
    namespace: str = ""
    source: str = ""

    def __str__(self) -> str:
        """What to do about it, as a sentence."""
        advice = "apply this yourself" if self.is_needed else "not needed"
        source = f" ({self.source})" if self.source else ""
        return f"{self.kind} {self.name}: {advice}: {self.why}{source}"

    def as_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "kind": self.kind,
            "name": self.name,
            "namespace": self.namespace,
            "needed": self.is_needed,
            "why": self.why,
            "source": self.source,
        }


@dataclass(frozen=True, slots=True)
class Conversion:
    """An object as values.

    Attributes:
        kind: the object's kind.
        name: its name.
        namespace: its namespace; "" for none.
        values: the values.
        verdicts: what became of each of its fields, in their order.
        queue: the queue that it names; "" for none.
        source: the file that it stands in; "" where it is not known.
        line: the line that it begins on; 0 where it is not known.
        notes: what a person should know besides, as sentences.
        general: those of them that are the same for most objects of the kind.
        beside: objects of the input that the converter has looked at.
        origins: by the path of a value, the path of the field that it was made of.
        comments: by line of its file, the comments above that line, and the one behind it.
        manifest: the object; nothing for a batch script.
        lines: the line of each of its fields, and of all that they stand in.
        runtime: the object over which this one is laid, with verdicts, origins and comments of its
            own; None for none.
    """

    kind: str
    name: str
    namespace: str
    values: dict[str, Any]
    verdicts: tuple[Verdict, ...]
    queue: str = ""
    source: str = ""
    line: int = 0
    notes: tuple[str, ...] = ()
    beside: tuple[Beside, ...] = ()
    origins: Mapping[FieldPath, FieldPath] = field(default_factory=dict)
    comments: Comments = field(default_factory=dict, repr=False)
    manifest: Mapping[str, Any] = field(default_factory=dict, repr=False)
    lines: Mapping[FieldPath, int] = field(default_factory=dict, repr=False)
    runtime: Conversion | None = field(default=None, repr=False)

    def of(self, *outcomes: Outcome) -> tuple[Verdict, ...]:
        """The verdicts with one of these outcomes."""
        return tuple(verdict for verdict in self.verdicts if verdict.outcome in outcomes)

    @property
    def lost(self) -> tuple[Verdict, ...]:
        """The verdicts of what is not carried."""
        return self.of(Outcome.NOT_CARRIED)

    def summary(self) -> str:
        """The counts in a sentence."""
        counts = Counter(verdict.outcome for verdict in self.verdicts)
        parts = ", ".join(f"{counts[outcome]} {outcome}" for outcome in Outcome)
        return f"{self.kind} {self.name}: {plural(len(self.verdicts), 'field')}: {parts}"

    def with_notes(self, notes: Iterable[str]) -> Conversion:
        """The conversion with more of what a person should know, behind its own."""
        return replace(self, notes=(*self.notes, *notes))

    def where(self, verdict: Verdict) -> str:
        """The file and line of a field; "" where neither is known."""
        if not self.source or not verdict.line:
            return self.source
        return f"{self.source}:{verdict.line}"

    def as_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "kind": self.kind,
            "name": self.name,
            "namespace": self.namespace,
            "queue": self.queue,
            "source": self.source,
            "values": self.values,
            "fields": [verdict.as_dict() for verdict in self.verdicts],
            "notes": list(self.notes),
            "beside": [item.as_dict() for item in self.beside],
            **({} if self.runtime is None else {"runtime": self.runtime.fields_as_dict()}),
        }

    def fields_as_dict(self) -> dict[str, Any]:
        """The JSON form of an object that has no values of its own: what became of its fields."""
        return {
            "kind": self.kind,
            "name": self.name,
            "source": self.source,
            "fields": [verdict.as_dict() for verdict in self.verdicts],
        }


@dataclass(slots=True)
class Fields:
    """An object whose fields are taken one by one.

    Attributes:
        source: the object.
        values: what has been made of it so far.
        rules: what is said of a field where nothing else is; what a rule says to be carried has to
            be carried, or it is not.
        unknown: what is said of a field for which there is no rule either.
        notes: what a person should know besides, as sentences.
        general: those of them that are the same for most objects of the kind.
        beside: objects of the input that the converter has looked at.
        origins: by the path of a value, the path of the field that it was made of.
        repeats: by the path of a value, fields of other pods that say the same.
        runtime: the object over which this one is laid, with the origins of its own; None for none.
    """

    source: Mapping[str, Any]
    values: dict[str, Any] = field(default_factory=dict)
    rules: Rules | None = None
    unknown: str = _UNKNOWN
    notes: list[str] = field(default_factory=list)
    general: set[str] = field(default_factory=set)
    beside: list[Beside] = field(default_factory=list)
    origins: dict[FieldPath, FieldPath] = field(default_factory=dict)
    repeats: dict[FieldPath, list[FieldPath]] = field(default_factory=dict)
    runtime: Conversion | None = None
    _verdicts: dict[FieldPath, Verdict] = field(default_factory=dict)
    _no_numbers: set[FieldPath] = field(default_factory=set)

    def get(self, *path: str | int) -> Any:
        """What stands at a path; None for nothing. It counts as taken once a verdict is given."""
        node: Any = self.source
        for step in path:
            if isinstance(node, list) and isinstance(step, int):
                node = node[step] if step < len(node) else None
            elif isinstance(node, dict):
                node = node.get(step)
            else:
                return None
        return node

    def lacks(self, to: str) -> bool:
        """Whether a field that belongs into a value was not carried."""
        return any(
            verdict.to == to and verdict.outcome is Outcome.NOT_CARRIED
            for verdict in self._verdicts.values()
        )

    def sources_of(self, to: str) -> list[FieldPath]:
        """The fields of which a verdict says that they are in a value."""
        return [verdict.keys for verdict in self.verdicts() if verdict.to == to]

    def has(self, *path: str | int) -> bool:
        """Whether something stands at a path."""
        return self.get(*path) is not None

    def text(self, *path: str | int) -> str:
        """The text at a path; "" where there is none."""
        value = self.get(*path)
        return value if isinstance(value, str) else ""

    def number(self, *path: str | int) -> int | None:
        """The whole number at a path, also where it is text; None where there is none.

        Raises:
            InputError: a program for templates is still to fill it in.
        """
        value = self.get(*path)
        if isinstance(value, str) and (parsed := digits(value)) is not None:
            return parsed
        if isinstance(value, float) and value.is_integer():
            return int(value)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        if isinstance(value, str) and template_blanks.in_number(value):
            raise InputError(
                f"{value!r} is no number", path=dotted(path), hint=template_blanks.HINT
            )
        if value is not None and path[-1] not in _OR_WORDS:
            self._no_numbers.add(path)
        return None

    def mapping(self, *path: str | int) -> dict[str, Any]:
        """The mapping at a path; an empty one where there is none."""
        value = self.get(*path)
        return value if isinstance(value, dict) else {}

    def items(self, *path: str | int) -> list[tuple[int, dict[str, Any]]]:
        """The mappings of the list at a path, with their places in it."""
        value = self.get(*path)
        if not isinstance(value, list):
            return []
        return [(index, item) for index, item in enumerate(value) if isinstance(item, dict)]

    def words(self, *path: str | int) -> list[str]:
        """The items of the list at a path, as texts; none where there is no list."""
        value = self.get(*path)
        return texts(value)

    def carry(self, path: FieldPath, to: FieldPath, value: Any = None, why: str = "") -> None:
        """Carry a field, if it is there.

        Args:
            path: the field.
            to: the path of the value.
            value: the value; None for the field's own.
            why: what is changed about it; "" where it is carried as it is.
        """
        own = self.get(*path)
        if own is None:
            return
        self.put(to, own if value is None else value, path)
        outcome = Outcome.CHANGED if why else Outcome.CARRIED
        self.say(path, outcome, dotted(to), why)

    def put(self, to: FieldPath, value: Any, source: FieldPath = ()) -> None:
        """Set a value; mappings are merged, named items of a list too, all else is replaced.

        Args:
            to: the path of the value.
            value: the value.
            source: the field that it is made of; () where there is none.
        """
        if source:
            self.origins[to] = source
        value = copy(value)
        if any(isinstance(step, Named) for step in to):
            put_named(self.values, to, value)
            return
        nested: Any = value
        for step in reversed(to):
            nested = {step: nested}
        self.values = overlay(self.values, nested)

    def say(self, path: FieldPath, outcome: Outcome, to: str = "", why: str = "") -> None:
        """Say what became of a field and of all below it, if it is there."""
        own = self.get(*path)
        if own is None:
            return
        for leaf in leaf_paths(own, path):
            self._verdicts[leaf] = Verdict(dotted(leaf), outcome, to, why, keys=leaf)

    def change(self, path: FieldPath, why: str, to: str = "") -> None:
        """Say that a field has another form here, if it is there."""
        self.say(path, Outcome.CHANGED, to, why)

    def keep(self, path: FieldPath, to: str) -> None:
        """Say that a field is carried as it is, if it is there."""
        self.say(path, Outcome.CARRIED, to)

    def leave(self, path: FieldPath, why: str) -> None:
        """Say that a field is not carried, if it is there."""
        self.say(path, Outcome.NOT_CARRIED, "", why)

    def note(self, sentence: str, *, is_general: bool = False) -> None:
        """Have a sentence in the report, once; behind the others where most objects have it."""
        if sentence not in self.notes:
            self.notes.append(sentence)
        if is_general:
            self.general.add(sentence)

    def ordered_notes(self) -> tuple[str, ...]:
        """The sentences, what is of this object first."""
        return tuple(sorted(self.notes, key=self.general.__contains__))

    def verdicts(self) -> tuple[Verdict, ...]:
        """A verdict for every field, in the order of the object."""
        for path in self._no_numbers:
            if all(
                self._verdicts[leaf].outcome is not Outcome.NOT_CARRIED
                for leaf in leaf_paths(self.get(*path), path)
                if leaf in self._verdicts
            ):
                self.leave(path, _NO_NUMBER.format(self.get(*path)))
        return tuple(
            self._verdicts.get(leaf) or self._untaken(leaf) for leaf in leaf_paths(self.source, ())
        )

    def _untaken(self, leaf: FieldPath) -> Verdict:
        path = dotted(leaf)
        rule = self.rules.of(leaf) if self.rules is not None else None
        is_of_cluster = rule is not None and rule.why == ITS_OWN
        if self.get(*leaf) in (None, {}, []) and not is_of_cluster:
            return Verdict(path, Outcome.CARRIED, "", "it is empty", keys=leaf)
        if rule is None:
            return Verdict(path, Outcome.NOT_CARRIED, "", self.unknown, keys=leaf)
        if rule.outcome is Outcome.CARRIED:
            # Whoever carries a field says so: what is left over is not what such a field has.
            return Verdict(path, Outcome.NOT_CARRIED, "", NOT_UNDERSTOOD, keys=leaf)
        return Verdict(path, rule.outcome, rule.to, rule.why, keys=leaf)


def put_named(values: dict[str, Any], to: FieldPath, value: Any) -> None:
    """Set a value at a path with steps into lists of named items, which are made where needed.

    Args:
        values: the values; they are changed.
        to: the path.
        value: the value; a mapping is laid over one that is there.
    """
    node: Any = values
    for step, after in zip(to, (*to[1:], None), strict=True):
        if isinstance(step, Named):
            item = next((item for item in node if item.get("name") == step), None)
            if item is None:
                item = {"name": str(step)}
                node.append(item)
            if after is None:
                item.update(value)
            node = item
        elif after is None:
            own = node.get(step)
            merges = isinstance(own, dict) and isinstance(value, dict)
            node[step] = overlay(own, value) if merges else value
        else:
            node = node.setdefault(step, [] if isinstance(after, Named) else {})


def leaves(source: Mapping[str, Any]) -> Iterable[str]:
    """The paths of all fields of an object, as verdicts name them."""
    return (dotted(leaf) for leaf in leaf_paths(source, ()))


def leaf_paths(node: Any, path: FieldPath) -> Iterator[FieldPath]:
    """The paths of the fields at a place that have no others below them.

    Args:
        node: what stands there.
        path: the place.
    """
    if isinstance(node, dict) and node:
        for key, value in node.items():
            yield from leaf_paths(value, (*path, key))
    elif isinstance(node, list) and node:
        for index, value in enumerate(node):
            yield from leaf_paths(value, (*path, index))
    else:
        yield path


def dotted(path: FieldPath) -> str:
    """A path as a person reads it: ``spec.template.containers[0].image``."""
    text = ""
    for step in path:
        if isinstance(step, int | Named):
            text += f"[{step}]"
        else:
            text += f".{step}" if text else str(step)
    return text
