"""Keys that are meant to be others: a container with ``imagee`` is refused, as it has no image."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from allranks.convert.inputs import unknown_fields
from allranks.schema.suggestions import nearest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from allranks.errors import Problem

# What stands beside other keys of an object, and is none of them misspelt.
_OF_OBJECTS = {"apiVersion", "kind", "metadata", "spec", "status", "namespace", "generateName"}


def question(node: Any, *missing: str) -> str:
    """What is asked of a mapping that lacks all of some keys, and has one that is like them.

    Args:
        node: the mapping; of what is none, nothing is asked.
        missing: the keys that it may have.

    Returns:
        The question; "" where no key of it is like them.
    """
    return _question_of(*_slip(node, missing))


def with_question(problem: Problem, data: Mapping[str, Any], keys: Sequence[str | int]) -> Problem:
    """A problem that asks the same of the first key of its path that an object lacks.

    Args:
        problem: the problem; it stays as it is where its hint is about the key that is there.
        data: the object.
        keys: the keys of the problem's path that the object has.
    """
    steps = problem.path.replace("[", ".").replace("]", "").split(".")
    node: Any = data
    for key in keys:
        node = node[key]
    slip, near = _slip(node, steps[len(keys) : len(keys) + 1])
    return (
        problem.at(hint=_question_of(slip, near)) if near and slip not in problem.hint else problem
    )


def _question_of(slip: str, near: str) -> str:
    return f"there is {slip}: did you mean {near}?" if near else ""


def _slip(node: Any, missing: Sequence[str]) -> tuple[str, str]:
    """The key of a mapping that is like a missing one, and that; two empty texts for none."""
    if not isinstance(node, dict) or any(key in node for key in missing):
        return "", ""
    known_keys = unknown_fields.of_pods() | _OF_OBJECTS
    for key in node:
        near = "" if key in known_keys else nearest(str(key), [*missing])
        if near:
            return str(key), near
    return "", ""
