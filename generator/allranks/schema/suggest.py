"""The nearest key: what a person meant who wrote one that does not exist.

A key is looked for, in this order: spelled otherwise beside it (``gpus_per_node``), as an amount or
a role's setting that stands elsewhere, under a name that other tools use for it (``nnodes``,
``replicas``), nearly the same beside it, the same elsewhere in the file (``minNodes`` at the root),
as a field of a pod (``volumes``), roughly the same beside it. The first that is found is the hint.
"""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING

from allranks import names
from allranks.schema import paths
from allranks.schema.foreign import (
    CONTAINER_FIELDS,
    ELSEWHERE,
    ELSEWHERE_OF,
    POD_FIELDS,
    REMARKS,
    REMARKS_OF,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allranks.schema.engine import Engine, Schema
    from allranks.schema.paths import ValuesPath

_AMOUNTS = frozenset({"cpu", "memory", "ephemeralstorage"})
_CLOSE = 0.84  # one slip of the keyboard in a key of six letters
_ROUGH = 0.6
_LONGEST = 200  # letters; a longer text is like no key
_FEW = 12  # keys that a person can take in at a glance


def hint(engine: Engine, path: ValuesPath) -> str:
    """What to do about an unknown key.

    Args:
        engine: the chart's schema.
        path: where the unknown key stands; its last part is the key.

    Returns:
        An imperative sentence; never empty.
    """
    key = str(path[-1])
    parent = path[:-1]
    siblings = sorted(engine.at(parent).get("properties", {}))
    return (
        _respelled(parent, key, siblings)
        or _of_resources(parent, key, siblings)
        or _of_role(path)
        or _foreign(engine.workload or names.OPERATOR, path)  # whose values name no workload
        or _near(parent, key, siblings, _CLOSE)
        or _elsewhere(engine, path)
        or _of_a_pod(path)
        or _near(parent, key, siblings, _ROUGH)
        or _list(siblings)
    )


def nearest(text: str, choices: list[str]) -> str:
    """The choice most like a text, whatever its case; "" where none is near."""
    folded = {_fold(choice): choice for choice in reversed(choices) if choice}
    if _fold(text) in folded:
        return folded[_fold(text)]
    if len(text) > _LONGEST:
        return ""
    found = difflib.get_close_matches(_fold(text), list(folded), n=1, cutoff=_ROUGH)
    return folded[found[0]] if found else ""


# What people write for true and false, in YAML and elsewhere.
_FLAGS = {
    **dict.fromkeys(["true", "yes", "y", "on", "1", "enable", "enabled", "t"], True),
    **dict.fromkeys(["false", "no", "n", "off", "0", "disable", "disabled", "f", "none"], False),
}


def flag(text: str) -> bool | None:
    """The boolean that a text means: ``ture`` and ``yes`` are true; None for neither."""
    word = _fold(text[:_LONGEST])
    if word in _FLAGS:
        return _FLAGS[word]
    found = difflib.get_close_matches(word, ["true", "false"], n=1, cutoff=_ROUGH)
    return _FLAGS[found[0]] if found else None


def _fold(key: str) -> str:
    return re.sub(r"[^a-z0-9]", "", key.lower())


def _respelled(parent: ValuesPath, key: str, siblings: list[str]) -> str:
    for sibling in siblings:
        if _fold(sibling) == _fold(key):
            return f"write {paths.show((*parent, sibling))}"
    return ""


def _of_resources(parent: ValuesPath, key: str, siblings: list[str]) -> str:
    """An amount beside `requests` and `limits` is one of the requests."""
    if {"requests", "limits"} <= set(siblings) and _fold(key) in _AMOUNTS:
        return f"write {paths.show((*parent, 'requests', key))}"
    return ""


def _of_role(path: ValuesPath) -> str:
    """What people write for a role of an elastic job."""
    if path[:2] != ("elastic", "roles") or len(path) < 4:  # noqa: PLR2004 - roles, role, key
        return ""
    role, key = path[:3], _fold(str(path[-1]))
    if key in ("gpu", "gpus", "gpuspernode", "nvidiacomgpu"):
        return f"write {paths.show((*role, 'gpusPerPod'))}"
    if key in ("count", "pods", "number", "nodes", "size"):
        return f"write {paths.show((*role, 'replicas'))}"
    if key == "script":
        return f"write {paths.show((*role, 'command'))}; the script is what all roles share"
    if key == "image":
        containers = paths.show((*role, "podTemplate", "spec", "containers"))
        return f"move it to {containers}, as [{{name: trainer, image: …}}]"
    return ""


def _near(parent: ValuesPath, key: str, siblings: list[str], cutoff: float) -> str:
    if len(key) > _LONGEST:
        return ""
    folded = {_fold(sibling): sibling for sibling in siblings}
    found = difflib.get_close_matches(_fold(key), list(folded), n=1, cutoff=cutoff)
    return f"write {paths.show((*parent, folded[found[0]]))}" if found else ""


def _foreign(workload: str, path: ValuesPath) -> str:
    folded = [_fold(str(part)) for part in path]
    tables = (
        (REMARKS_OF.get(workload, {}), ELSEWHERE_OF.get(workload, {})),
        (REMARKS, ELSEWHERE),
    )
    # The whole path, its last two parts, and the key alone: the most certain first.
    for name in dict.fromkeys(".".join(folded[-count:]) for count in (len(folded), 2, 1)):
        for remarks, elsewhere in tables:
            if name in remarks:
                return remarks[name]
            if name in elsewhere:
                return f"write {elsewhere[name]}"
    return ""


def _elsewhere(engine: Engine, path: ValuesPath) -> str:
    """The same key at another place: under the same parent, else the one nearest to the root."""
    key = _fold(str(path[-1]))
    found = [known for known in _known(engine) if _fold(str(known[-1])) == key]
    tail = [_fold(str(part)) for part in path[-2:]]
    alike = [known for known in found if [_fold(str(part)) for part in known[-2:]] == tail]
    best = alike if len(path) > 1 and alike else found
    best = [known for known in best if len(known) == min(map(len, best))]
    return f"move it to {paths.show(best[0])}" if len(best) == 1 else ""


def _known(engine: Engine) -> Iterator[ValuesPath]:
    """Every fixed path of the schema, without what the generator writes."""
    pending: list[tuple[ValuesPath, Schema]] = [((), engine.schema)]
    while pending:
        path, node = pending.pop()
        for key, value in node.get("properties", {}).items():
            if path or key not in ("layout", "podTemplate", "global"):
                yield (*path, key)
                pending.append(((*path, key), engine.resolve(value)))


def _of_a_pod(path: ValuesPath) -> str:
    key = str(path[-1])
    if key in POD_FIELDS and path[0] != "storage":
        return f"move it to podTemplate.spec.{key}"
    if key in CONTAINER_FIELDS:
        return (
            f"move it to podTemplate.spec.containers, as [{{name: trainer, {key}: …}}], "
            "which is merged into the trainer's container"
        )
    return ""


def _list(siblings: list[str]) -> str:
    if 0 < len(siblings) <= _FEW:
        return f"use one of {', '.join(siblings)}"
    return "remove it; the chart's README lists every key"
