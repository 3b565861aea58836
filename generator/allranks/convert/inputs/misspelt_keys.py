"""Keys that are meant to be others: a container with ``imagee`` is refused, as it has no image."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from allranks.convert import near_words
from allranks.convert.documents import document
from allranks.convert.inputs import pod_fields
from allranks.convert.verdicts import dotted
from allranks.errors import InputError
from allranks.schema.suggestions import nearest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from allranks.convert.verdicts import FieldPath
    from allranks.errors import Problem

# What stands beside other keys of an object, and is none of them misspelt.
_OF_OBJECTS = {
    *("apiVersion", "kind", "metadata", "spec", "status", "namespace", "generateName"),
    *("maxFailedTrialCount", "parallelTrialCount"),
}


def question(node: Any, *missing: str) -> str:
    """What is asked of a mapping that lacks all of some keys, and has one that is like them.

    Args:
        node: the mapping; of what is none, nothing is asked.
        missing: the keys that it may have.

    Returns:
        The question; "" where no key of it is like them.
    """
    return _question_of(*_slip(node, missing))


def refuse_other_roles(
    kind: str, specs: Any, path: FieldPath, roles: Sequence[str], *, any_case: bool = False
) -> None:
    """Refuse a role that is no role of a kind, and like one: ``Workr``.

    Args:
        kind: the kind.
        specs: the roles of an object, by their names.
        path: where they stand.
        roles: the names that roles of the kind have.
        any_case: whether these are read without regard to case.

    Raises:
        InputError: there is one.
    """
    own = specs if isinstance(specs, dict) else {}
    role_names = {*roles, *(role.lower() for role in roles if any_case)}
    names = {str(key): str(key).lower() if any_case else str(key) for key in own}
    absent = [
        role for role in roles if (role.lower() if any_case else role) not in {*names.values()}
    ]
    for key, name in names.items():
        near = "" if name in role_names else near_words.nearest_word(key, absent)
        if near:
            raise InputError(
                f"{key} is no role of a {kind}",
                path=dotted((*path, key)),
                hint=_question_of(str(key), near),
            )


def nearest_or_all(word: Any, allowed: Sequence[str]) -> str:
    """What to write in the place of a word that is none of those that are allowed.

    Args:
        word: what is given; None for nothing.
        allowed: the words, of which there are few, and two at least.
    """
    near = nearest(word, [*allowed]) if isinstance(word, str) else ""
    return f"did you mean {near}?" if near else f"write {', '.join(allowed[:-1])} or {allowed[-1]}"


def with_question(problem: Problem, data: Mapping[str, Any], keys: Sequence[str | int]) -> Problem:
    """A problem that asks the same of the first key of its path that an object lacks.

    Args:
        problem: the problem; it stays as it is where its hint is about the key that is there.
        data: the object.
        keys: the keys of the problem's path that the object has.
    """
    steps = document.steps_of(problem.path)
    node: Any = data
    for key in keys:
        node = node[key]
    slip, near = _slip(node, steps[len(keys) : len(keys) + 1])
    if not near or re.search(rf"\b{re.escape(slip)}\b", problem.hint):
        return problem
    return problem.at(hint=_question_of(slip, near))


def _question_of(slip: str, near: str) -> str:
    return f"there is {slip}: did you mean {near}?" if near else ""


def _slip(node: Any, missing: Sequence[str]) -> tuple[str, str]:
    """The key of a mapping that is like a missing one, and that; two empty texts for none."""
    if not isinstance(node, dict) or any(key in node for key in missing):
        return "", ""
    known_keys = pod_fields.names() | _OF_OBJECTS
    slips = []
    for key in node:
        near = "" if key in known_keys else nearest(str(key), [*missing])
        likeness = near_words.likeness(str(key), near) if near else 0.0
        if likeness >= near_words.LIKE:
            slips.append((likeness, str(key), near))
    _, slip, near = max(slips, default=(0.0, "", ""), key=lambda item: item[0])
    return slip, near
