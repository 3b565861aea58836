"""An object written as one of another kind, which is converted in its place.

Several kinds describe pods that another kind has as well: the master and the workers of a Volcano
Job with the plugin ``pytorch`` are those of a PyTorchJob. Such an object is written as that one,
converted, and what is said of each field is said of the field that it came from.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from allranks.convert import registry
from allranks.convert.chart_values import end_of_run
from allranks.convert.documents.document import keys_of
from allranks.convert.verdicts import dotted
from allranks.errors import InputError, InvalidValues, Problem
from allranks.values.merge import copy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from allranks.convert.documents.context import Context
    from allranks.convert.verdicts import Conversion, FieldPath, Fields

Manifest = dict[str, Any]

# Of a kind that is no other in all versions, that which reaches its pods by ssh.
_VERSIONS = {"MPIJob": "v2beta1"}


@dataclass(slots=True)
class Rewrite:
    """An object that is made of another one's fields.

    Attributes:
        fields: the object that it is made of.
        manifest: the object so far.
        of_runtime: by a field of it, the field of a runtime that it is a copy of.
    """

    fields: Fields
    manifest: Manifest = field(default_factory=dict)
    of_runtime: dict[FieldPath, FieldPath] = field(default_factory=dict)
    _origins: dict[FieldPath, list[FieldPath]] = field(default_factory=dict)

    def put(self, to: FieldPath, value: Any) -> None:
        """Set a field that comes from nowhere: the old controller's own."""
        node: Any = self.manifest
        for step, after in itertools.pairwise(to):
            node = _below(node, step, [] if isinstance(after, int) else {})
        _set(node, to[-1], value)

    def put_of_runtime(self, to: FieldPath, value: Any, source: FieldPath) -> None:
        """Put a field that comes from a runtime."""
        self.put(to, value)
        self.of_runtime[to] = source

    def get(self, path: FieldPath) -> Any:
        """What stands at a path of the object; None for nothing."""
        node: Any = self.manifest
        for step in path:
            if isinstance(node, list) and isinstance(step, int):
                node = node[step] if step < len(node) else None
            elif isinstance(node, dict):
                node = node.get(step)
            else:
                return None
        return node

    def copy(self, source: FieldPath, to: FieldPath) -> bool:
        """Copy a field, if it is there; whether it is."""
        value = self.fields.get(*source)
        if value is None:
            return False
        self.put(to, copy(value))
        self.also(source, to)
        return True

    def also(self, source: FieldPath, to: FieldPath) -> None:
        """Say that a field of the object stands for this one, too."""
        self._origins.setdefault(to, []).append(source)

    def keep(self, source: FieldPath, to: FieldPath, test: Callable[[Any], bool]) -> list[int]:
        """Keep of a list that was copied the items that pass a test; the places of the others."""
        items = self.fields.get(*source)
        if not isinstance(items, list):
            return []
        indexes = [index for index, item in enumerate(items) if test(item)]
        others = [index for index in range(len(items)) if index not in indexes]
        if others:
            self.put(to, [copy(items[index]) for index in indexes])
            for place, index in enumerate(indexes):
                self.also((*source, index), (*to, place))
        return others

    def name_after(self, fields: Fields) -> None:
        """Give the object the name of another one, where it has none."""
        metadata = self.manifest.get("metadata")
        if not isinstance(metadata, dict):
            metadata = self.manifest["metadata"] = {}
        for key in ("name", "generateName"):
            if fields.text("metadata", key):
                metadata.setdefault(key, fields.text("metadata", key))

    def sources(self, path: FieldPath) -> Iterator[FieldPath]:
        """The fields that a field of the object stands for; none for one that was put there."""
        for end in range(len(path), -1, -1):
            origins = self._origins.get(path[:end])
            if origins is not None:
                yield from ((*origin, *path[end:]) for origin in origins)
                return

    def runtime_field(self, path: FieldPath) -> FieldPath | None:
        """The field of a runtime that a field of the object is a copy of; None for another's."""
        if any(self.fields.has(*source) for source in self.sources(path)):
            return None
        for end in range(len(path), 0, -1):
            if path[:end] in self.of_runtime:
                return (*self.of_runtime[path[:end]], *path[end:])
        return None

    def convert_as(self, key: tuple[str, str], context: Context) -> Conversion:
        """Convert an object of another controller than that of the kind it is written as.

        That controller says itself what becomes of pods that are left when the run is over, and has
        no cleanPodPolicy, of which the kind's conversion would say what its operator does.

        Args:
            key: the API group and the kind that it is written as.
            context: what else is known.

        Returns:
            The conversion of the object, as of `convert`.

        Raises:
            InputError: as of `convert`.
        """
        self.put(("spec", "runPolicy", "cleanPodPolicy"), "Running")
        inner = self.convert(key, context)
        end_of_run.take_back(self.fields)
        self.fields.values.get("mpi", {}).pop("cleanPodPolicy", None)  # the chart's own default
        return inner

    def convert(self, key: tuple[str, str], context: Context) -> Conversion:
        """Convert the object, and take over what is said of its fields.

        Args:
            key: the API group and the kind that it is written as.
            context: what else is known.

        Returns:
            The conversion of the object; its verdicts are with `fields` now.

        Raises:
            InputError: it cannot be converted; the path is that in the object it is made of.
        """
        group, kind = key
        version = f"{group}/{_VERSIONS.get(kind, 'v1')}"
        self.manifest = {"apiVersion": version, "kind": kind, **self.manifest}
        try:
            inner = registry.converter(key)(self.manifest, context)
        except InvalidValues as error:
            raise InvalidValues([self._problem(problem) for problem in error.problems]) from error
        except InputError as error:
            raise InvalidValues([self._problem(error.problem)]) from error
        for verdict in inner.verdicts:
            for source in self.sources(verdict.keys):
                self.fields.say(source, verdict.outcome, verdict.to, verdict.why)
        for note in inner.notes:
            self.fields.note(note)
        self.fields.beside += inner.beside
        self.fields.values = inner.values
        self.fields.runtime = inner.runtime
        for to, origin in inner.origins.items():
            for source in self.sources(origin):
                self.fields.origins[to] = source
                break
        return inner

    def _problem(self, problem: Problem) -> Problem:
        """A problem with the path in the object that this one is made of."""
        keys = keys_of(problem.path, self.manifest)
        source = next(self.sources(keys), None) if problem.path else None
        if source is None or dotted(keys) != problem.path:
            return Problem("", problem.message, problem.hint, problem.source)
        return Problem(dotted(source), problem.message, problem.hint, problem.source)


def _below(node: Any, step: str | int, empty: Any) -> Any:
    """What stands below a step of the object; what is of another form there is replaced."""
    if isinstance(step, int):
        while len(node) <= step:
            node.append(copy(empty))
        if not isinstance(node[step], type(empty)):
            node[step] = copy(empty)
        return node[step]
    if not isinstance(node.get(step), type(empty)):
        node[step] = empty
    return node[step]


def _set(node: Any, step: str | int, value: Any) -> None:
    if isinstance(step, int):
        while len(node) <= step:
            node.append(None)
    node[step] = value
