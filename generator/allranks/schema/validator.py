"""Validate values against the bundled JSON Schema, as Helm does.

Helm judges with Go's RE2 and Python's `re` is another dialect, so the patterns keep to what both
know and two differences are levelled here: ``$`` is the very end of the text, not the place before
a last newline, and classes are ASCII. Unknown, missing and ill-named keys are reported one by one,
each at its own path, which is what a person looks for.

jsonschema costs 60 ms to import, so that happens at the first use.
"""

from __future__ import annotations

import functools
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from allranks import resources
from allranks.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from jsonschema.exceptions import ValidationError
    from jsonschema.protocols import Validator

    from allranks.schema.paths import ValuesPath

Schema = dict[str, Any]

# The keyword of a violation that stands for many: its instance is how many more there are.
MORE = "more"
# So many bad entries of one list or map are judged whole.
_JUDGED = 400
# Keywords that a glance at a text understands: those of texts, and those of nothing but texts.
_REMARKS = frozenset({"title", "$comment", "description", "default"})
_OF_TEXT = _REMARKS | {"type", "pattern", "minLength", "maxLength", "enum"}
_OF_TEXT |= {"minimum", "maximum", "exclusiveMinimum", "properties", "additionalProperties"}
_OF_TEXT |= {"required", "minProperties", "maxProperties", "items", "minItems", "uniqueItems"}


@dataclass(frozen=True, slots=True)
class Violation:
    """A keyword of the schema that a value does not satisfy.

    Attributes:
        path: where the value is.
        keyword: the JSON Schema keyword, such as ``pattern``.
        expected: the keyword's value in the schema.
        instance: the value; for an unknown or ill-named key, what stands under it.
        schema: the schema node that holds the keyword.
    """

    path: ValuesPath
    keyword: str
    expected: Any
    instance: Any
    schema: Schema


@dataclass(frozen=True, slots=True)
class ChartSchema:
    """A chart's schema, ready to validate."""

    schema: Schema
    validator: Validator

    @property
    def workload(self) -> str:
        """The workload of the schema."""
        return str(self.at(("workload",)).get("const", ""))

    @property
    def is_of_chart(self) -> bool:
        """Whether it is of a chart's values, and of no other file."""
        return "global" in self.schema.get("properties", {})

    def violations(self, values: Mapping[str, Any]) -> Iterator[Violation]:
        """All violations in the values."""
        for error in self.validator.iter_errors(values):
            yield Violation(
                path=tuple(error.absolute_path),
                keyword=str(error.validator),
                expected=error.validator_value,
                instance=error.instance,
                schema=error.schema if isinstance(error.schema, dict) else {},
            )

    def accepts(self, node: Schema, instance: Any) -> bool:
        """Whether a value satisfies one node of the schema."""
        return self.validator.evolve(schema=node).is_valid(instance)

    def resolve(self, node: Schema) -> Schema:
        """The node behind a reference; the node itself otherwise."""
        while "$ref" in node:
            node = self.schema["$defs"][node["$ref"].removeprefix("#/$defs/")]
        return node

    def at(self, path: ValuesPath) -> Schema:
        """The node that judges the value at a path; empty where none does."""
        node = self.schema
        for part in path:
            node = self.resolve(self._step(node, part))
        return node

    def _step(self, node: Schema, part: str | int) -> Schema:
        if isinstance(part, int):
            child = node.get("items", {})
        else:
            # What a condition adds says more than the node itself.
            more = node.get("then", {}).get("properties", {}).get(part)
            by_name = node.get("properties", {}).get(part, node.get("additionalProperties", {}))
            child = more or by_name
        return child if isinstance(child, dict) else {}


def engine(workload: str) -> ChartSchema:
    """The engine of a workload's chart.

    Raises:
        InputError: there is no such chart, or it has no schema.
    """
    path = resources.folder("charts") / workload / "values.schema.json"
    if not path.is_file():
        raise InputError(
            f"the chart {workload!r} has no values.schema.json", hint="reinstall allranks"
        )
    return _compile(path.read_text(encoding="utf-8"))


def engine_of_file(name: str) -> ChartSchema:
    """The engine of a hand-written schema that stands alone, and is no chart's.

    Args:
        name: the file's name in ``schemas/``.
    """
    from allranks.yamlio import load

    path = resources.folder("schemas") / name
    schema = load.load(path.read_bytes(), name).data
    return _compile(json.dumps(schema, sort_keys=True))


@functools.lru_cache(maxsize=8)
def _compile(text: str) -> ChartSchema:
    schema: Schema = json.loads(text)
    return ChartSchema(schema, _validator_class(schema)(schema))


def _validator_class(schema: Schema) -> Any:
    """A validator whose keywords judge as Helm does, and which knows the schema's definitions."""
    from jsonschema import Draft202012Validator, validators

    extend: Any = validators.extend  # untyped in jsonschema's stubs
    validator_class = extend(
        Draft202012Validator,
        {
            "$ref": _ref,
            "items": _items,
            "pattern": _pattern,
            "patternProperties": _pattern_properties,
            "additionalProperties": _additional_properties,
            "propertyNames": _property_names,
            "required": _check_required,
            "uniqueItems": _unique_items,
        },
    )
    validator_class.definitions = schema.get("$defs", {})
    return validator_class


def _definition(validator: Any, reference: str) -> Schema:
    """The node that a reference means: each is to a definition of the schema itself."""
    definition: Schema = validator.definitions[reference.removeprefix("#/$defs/")]
    return definition


@functools.cache
def regex(pattern: str) -> re.Pattern[str]:
    """A pattern of a schema, compiled with the meaning of RE2."""
    text, in_class, escaped = "", False, False
    for char in pattern:
        if char == "$" and not (in_class or escaped):
            text += r"\Z"
        else:
            text += char
        if not escaped and char in "[]":
            in_class = char == "["
        escaped = char == "\\" and not escaped
    return re.compile(text, re.ASCII)


def _ref(validator: Any, reference: str, instance: Any, _: Schema) -> Iterator[ValidationError]:
    """Without jsonschema's search for the node, which is a quarter of all its work."""
    yield from validator.descend(instance, _definition(validator, reference))


def _items(validator: Any, node: Any, instance: Any, _: Schema) -> Iterator[ValidationError]:
    if isinstance(instance, list) and isinstance(node, dict):
        yield from _judge(validator, node, enumerate(instance))


def _judge(
    validator: Any, node: Schema, entries: Iterable[tuple[str | int, Any]]
) -> Iterator[ValidationError]:
    """The errors of entries that share a schema node.

    A whole judgement costs 0.1 ms. So what a glance can tell is told by a glance; and of more bad
    entries than anybody reads only the number is given, as far as it can be had at once.
    """
    bad = more = looked = 0
    is_cut = False
    last: str | int = 0
    rest = validator.evolve(schema=node)
    for key, value in entries:
        verdict = _quick(validator, node, value)
        if verdict:
            continue
        if bad < _JUDGED:
            errors = list(validator.descend(value, node, path=key))
            bad += bool(errors)
            yield from errors
        elif verdict is False:
            more, last = more + 1, key
        elif looked < _JUDGED:
            looked += 1
            more, last = more + (not rest.is_valid(value)), key
        else:
            is_cut = True
    if more:
        yield _error("more", path=[last], validator=MORE, validator_value=is_cut, instance=more)


def _quick(validator: Any, node: Schema, value: Any) -> bool | None:
    """Whether a node accepts a value, where that is obvious; None where it is not."""
    while "$ref" in node:
        if len(node.keys() - _REMARKS) > 1:
            return None
        node = _definition(validator, node["$ref"])
    kinds = node.get("type", ())
    kinds = (kinds,) if isinstance(kinds, str) else kinds
    if kinds and not any(validator.is_type(value, kind) for kind in kinds):
        return False
    if not isinstance(value, str) or node.keys() - _OF_TEXT:
        return None
    choices = node.get("enum", (value,))
    if value not in choices or not regex(node.get("pattern", "")).search(value):
        return False
    return bool(node.get("minLength", 0) <= len(value) <= node.get("maxLength", len(value)))


def _error(message: str, **fields: Any) -> ValidationError:
    from jsonschema.exceptions import ValidationError

    return ValidationError(message, **fields)


def _pattern(_: Any, pattern: str, instance: Any, __: Schema) -> Iterator[ValidationError]:
    if isinstance(instance, str) and not regex(pattern).search(instance):
        yield _error("does not match")


def _pattern_properties(
    validator: Any, patterns: Schema, instance: Any, _: Schema
) -> Iterator[ValidationError]:
    if isinstance(instance, dict):
        for pattern, node in patterns.items():
            for key, value in instance.items():
                if regex(pattern).search(key):
                    yield from validator.descend(value, node, path=key, schema_path=pattern)


def _additional_properties(
    validator: Any, allowed: Any, instance: Any, schema: Schema
) -> Iterator[ValidationError]:
    if not isinstance(instance, dict):
        return
    properties = schema.get("properties", {})
    patterns = [regex(pattern) for pattern in schema.get("patternProperties", ())]
    siblings = (
        (key, value)
        for key, value in instance.items()
        if key not in properties and not any(pattern.search(key) for pattern in patterns)
    )
    if isinstance(allowed, dict):
        yield from _judge(validator, allowed, siblings)
    elif not allowed:
        for count, (key, value) in enumerate(siblings):
            if count == _JUDGED:
                rest = 1 + sum(1 for _ in siblings)
                yield _error("more", path=[key], validator=MORE, instance=rest)
                return
            yield _error("unknown key", path=[key], instance=value)


def _property_names(
    validator: Any, node: Schema, instance: Any, _: Schema
) -> Iterator[ValidationError]:
    if isinstance(instance, dict):
        names = validator.evolve(schema=node)
        count = 0
        for key, value in instance.items():
            verdict = _quick(validator, node, key) if count < _JUDGED else True
            if verdict is None:
                verdict = names.is_valid(key)
            if not verdict:
                count += 1
                yield _error("bad key", path=[key], instance=value)


def first_duplicate(items: list[Any]) -> int:
    """The index of the first item that equals one before it; -1 where all differ."""
    keys: set[str] = set()
    for index, item in enumerate(items):
        text = json.dumps(_plain(item), sort_keys=True)
        if text in keys:
            return index
        keys.add(text)
    return -1


def _plain(value: Any) -> Any:
    """A value with equal numbers written alike: 1.0 as 1."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _unique_items(_: Any, unique: bool, instance: Any, __: Schema) -> Iterator[ValidationError]:  # noqa: FBT001 - jsonschema's signature
    if unique and isinstance(instance, list) and first_duplicate(instance) >= 0:
        yield _error("not unique")


def _check_required(
    _: Any, keys: list[str], instance: Any, __: Schema
) -> Iterator[ValidationError]:
    if isinstance(instance, dict):
        for key in keys:
            if key not in instance:
                yield _error("missing", path=[key], instance=None)
