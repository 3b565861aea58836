"""Suggest the nearest key for one that does not exist.

A key is looked for, in this order: spelled otherwise beside it (``gpus_per_node``), as an amount or
a role's setting that stands elsewhere, under a name that other tools use for it (``nnodes``,
``replicas``), nearly the same beside it, the same elsewhere in the file (``minNodes`` at the root),
as a field of a pod (``volumes``), roughly the same beside it. The first that is found is the hint.

Nothing is offered that is not near: a key of a map whose keys a person makes up (``env``) stands
nowhere else, nor does one that says nothing without what it is of (``value``).
"""

from __future__ import annotations

import difflib
import json
import re
from os.path import commonprefix
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.schema import paths
from allranks.schema.aliases import (
    CONTAINER_FIELDS,
    ELSEWHERE,
    ELSEWHERE_OF,
    POD_FIELDS,
    REMARKS,
    REMARKS_OF,
)
from allranks.schema.fixes import use_key, write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from allranks.schema.paths import ValuesPath
    from allranks.schema.validator import ChartSchema, Schema


_AMOUNTS = frozenset({"cpu", "memory", "ephemeralstorage"})
_CLOSE = 0.84  # one slip of the keyboard in a key of six letters
_ROUGH = 0.6
_SHORTEST = 3  # letters; a shorter one is like many
_TELLING = 8  # letters of a key that means the same wherever it stands
# Keys that say nothing without what they are of.
_BARE = frozenset({"key", "name", "type", "value", "values"})
_CUT = 3  # letters of a word that was cut short
_LONGEST = 200  # letters; a longer text is like no key
_FEW = 12  # keys that a person can take in at a glance


def nearest_fix(engine: ChartSchema, path: ValuesPath) -> str:
    """The fix for an unknown key.

    Args:
        engine: the chart's schema.
        path: where the unknown key stands; its last part is the key.

    Returns:
        An imperative sentence; never empty.
    """
    key = str(path[-1])
    parent = path[:-1]
    siblings = sorted(engine.at(parent).get("properties", {}))
    if not engine.is_of_chart:  # the tables below are of values
        return (
            _respell(parent, key, siblings)
            or _near(parent, key, siblings, _CLOSE)
            or _elsewhere(engine, path)
            or _near(parent, key, siblings, _ROUGH)
            or _list(siblings)
        )
    return (
        _respell(parent, key, siblings)
        or _of_resources(parent, key, siblings)
        or _of_role(path)
        or _of_env(path)
        or _foreign(engine, path, siblings)
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
    # What all of them begin with says nothing: SIGKILL is no SIGIO.
    shared = commonprefix(list(folded)) if len(folded) > 1 else ""  # noqa: RUF071 - no paths
    if not _fold(text).startswith(shared):
        shared = ""
    rests = {choice.removeprefix(shared): choice for choice in folded}
    rest = _fold(text).removeprefix(shared)
    matches = difflib.get_close_matches(rest, list(rests), n=1, cutoff=_ROUGH)
    if matches:
        return folded[rests[matches[0]]]
    # A word that was cut short: `max` of `maximize`.
    longer = [word for word in folded if len(_fold(text)) >= _CUT and word.startswith(_fold(text))]
    return folded[longer[0]] if len(longer) == 1 else ""


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
    matches = difflib.get_close_matches(word, ["true", "false"], n=1, cutoff=_ROUGH)
    return _FLAGS[matches[0]] if matches else None


def is_flag(text: str) -> bool:
    """Whether a text is a word for true or false, and not only like one."""
    return _fold(text) in _FLAGS


def _fold(key: str) -> str:
    return re.sub(r"[^a-z0-9]", "", key.lower())


def _respell(parent: ValuesPath, key: str, siblings: list[str]) -> str:
    for sibling in siblings:
        if _fold(sibling) == _fold(key):
            return use_key(paths.show((*parent, sibling)), is_safe=True)
    return ""


def _of_resources(parent: ValuesPath, key: str, siblings: list[str]) -> str:
    """The fix for an amount beside `requests` and `limits`: it belongs to the requests."""
    if {"requests", "limits"} <= set(siblings) and _fold(key) in _AMOUNTS:
        return use_key(paths.show((*parent, "requests", key)))
    return ""


def _of_role(path: ValuesPath) -> str:
    """The fix for common mistakes in a role of an elastic job."""
    if path[:2] != ("elastic", "roles") or len(path) < 4:  # noqa: PLR2004 - roles, role, key
        return ""
    role, key = path[:3], _fold(str(path[-1]))
    if key in ("gpu", "gpus", "gpuspernode", "nvidiacomgpu"):
        return use_key(paths.show((*role, "gpusPerPod")), is_safe=True)
    if key in ("count", "pods", "number", "nodes", "size"):
        return use_key(paths.show((*role, "replicas")), is_safe=True)
    if key == "script":
        return f"write {paths.show((*role, 'command'))}; the script is what all roles share"
    if key == "image":
        containers = paths.show((*role, "podTemplate", "spec", "containers"))
        return f"move it to {containers}, as [{{name: trainer, image: …}}]"
    return ""


def _of_env(path: ValuesPath) -> str:
    """The fix for a variable written as a container has it."""
    if path[:1] != ("env",) or len(path) != 3:  # noqa: PLR2004 - env, the variable, key
        return ""
    if difflib.get_close_matches(_fold(str(path[-1])[:_LONGEST]), ["value"], cutoff=_CLOSE):
        return f"write the value itself: {paths.show(path[:2])}: …"
    return ""


def _near(parent: ValuesPath, key: str, siblings: list[str], cutoff: float) -> str:
    if len(key) > _LONGEST or len(_fold(key)) < _SHORTEST:
        return ""
    folded = {_fold(sibling): sibling for sibling in siblings}
    matches = difflib.get_close_matches(_fold(key), list(folded), n=2, cutoff=cutoff)
    if not matches:
        return ""
    is_safe = len(matches) == 1 and cutoff >= _CLOSE
    return use_key(paths.show((*parent, folded[matches[0]])), is_safe=is_safe)


def _foreign(engine: ChartSchema, path: ValuesPath, siblings: list[str]) -> str:
    workload = engine.workload or names.OPERATOR  # whose values name none
    folded = [_fold(str(part)) for part in path]
    tables = (
        (REMARKS_OF.get(workload, {}), ELSEWHERE_OF.get(workload, {})),
        (REMARKS, ELSEWHERE),
    )
    # The whole path, its last two parts, and the key alone: the most certain first.
    for count in dict.fromkeys((len(folded), min(2, len(folded)), 1)):
        name = ".".join(folded[-count:])
        for remarks, elsewhere in tables:
            if name in remarks:
                return remarks[name]
            if name in elsewhere and (fix := _use(elsewhere[name], path, siblings, count)):
                return fix
    if path[:-1] == (workload,):  # its launcher's options are written there, and are the job's
        target = ELSEWHERE.get(folded[-1], "")
        if target in engine.at(()).get("properties", {}):
            return use_key(target, form="write {}, at the root of the values")
    return ""


def _use(target: str, path: ValuesPath, siblings: list[str], count: int) -> str:
    """The fix of a table's entry, where it means the same at the place of the key.

    Args:
        target: the entry: a path, or words that begin with one.
        path: where the unknown key stands.
        siblings: the keys that there are beside it.
        count: how many parts of the path the entry has.
    """
    parent, parts = path[:-1], tuple(target.split("."))
    if not parent:
        return use_key(target, is_safe=True)
    if count > 1:
        return use_key(target, is_safe=parts[:1] == path[:1])
    # A key alone says nothing of its section: the job's timeout is not the network's.
    if parts[-1] in siblings:
        return use_key(paths.show((*parent, parts[-1])))
    return use_key(target) if parts[: len(parent)] == parent else ""


def _elsewhere(engine: ChartSchema, path: ValuesPath) -> str:
    """The same key at another place: under the same parent, else the one nearest to the root."""
    key = _fold(str(path[-1]))
    if key in _BARE or _is_in_free_map(engine, path):
        return ""
    matches = [
        candidate
        for candidate in _known_paths(engine)
        if _fold(str(candidate[-1])) == key
        and (len(key) >= _TELLING or _are_in_line(path, candidate))
        # What is one role's is not the whole job's.
        and (path[:2] != ("elastic", "roles") or candidate[:3] == path[:3])
    ]
    tail = [_fold(str(part)) for part in path[-2:]]
    alike = [
        candidate for candidate in matches if [_fold(str(part)) for part in candidate[-2:]] == tail
    ]
    best = alike if len(path) > 1 and alike else matches
    best = [candidate for candidate in best if len(candidate) == min(map(len, best))]
    if len(best) != 1:
        return ""
    is_below = best[0][: len(path) - 1] == path[:-1]
    return use_key(
        paths.show(best[0]), form="move it to {}", is_safe=len(matches) == 1 and is_below
    )


def _are_in_line(path: ValuesPath, other: ValuesPath) -> bool:
    """Whether the parent of one key contains the parent of the other."""
    above, below = sorted((path[:-1], other[:-1]), key=len)
    return below[: len(above)] == above


def _is_in_free_map(engine: ChartSchema, path: ValuesPath) -> bool:
    """Whether a key is in a map with free keys, or below one."""
    fixed = [engine.at(path[:end]).get("properties", {}) for end in range(len(path) - 1)]
    return any(key not in keys for key, keys in zip(path[:-1], fixed, strict=True))


def _known_paths(engine: ChartSchema) -> Iterator[ValuesPath]:
    """All fixed paths of the schema but those that the generator writes."""
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
        return use_key(f"podTemplate.spec.{key}", form="move it to {}", is_safe=True)
    if key in CONTAINER_FIELDS:
        return (
            f"move it to podTemplate.spec.containers, as [{{name: trainer, {key}: …}}], "
            "which is merged into the trainer's container"
        )
    return ""


def _list(siblings: list[str]) -> str:
    if len(siblings) == 1:
        return f"use {siblings[0]}, the only key here"
    if 0 < len(siblings) <= _FEW:
        return f"use one of {', '.join(siblings)}"
    return "remove it; the chart's README lists every key"


_UNITS = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "k", "M", "G", "T", "P", "E")
# What people call a choice elsewhere.
_ALIASES = {
    "tf": "tensorflow",
    "keras": "tensorflow",
    "torch": "pytorch",
    "fixed": "static",
    "dynamic": "auto",
    "elastic": "auto",
    "all": "allWorkers",
    "chief": "lead",
    "ps": "ParameterServerStrategy",
    "ring": "AllreduceStrategy",
    "allreduce": "AllreduceStrategy",
    "parameterserver": "ParameterServerStrategy",
    "workers": "allWorkers",
}
_ETCD_PORT = 2379
_SHORT = 60


def quoted(value: Any) -> str:
    """A value in the notation that YAML and JSON share."""
    return json.dumps(value, ensure_ascii=False)


def value_fix(engine: ChartSchema, node: Schema, value: Any) -> str:
    """The fix for a refused value, where a repaired one is accepted; "" otherwise.

    Args:
        engine: the chart's schema.
        node: the schema node that refused.
        value: the value.
    """
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        return ""
    if node.get("enum"):
        choices = [str(choice) for choice in node["enum"]]
        flag_value = _ALIASES.get(value.strip().lower(), "")
        if flag_value in choices and flag_value:
            return write(flag_value, flag_value, is_safe=True)
        choice = nearest(value, choices)
        return write(choice, choice, is_safe=_is_near(value, choices)) if choice else ""
    pattern = node.get("pattern", "")
    # A name with slashes is of something that is there: words are not glued together.
    is_reference = _REFERENCE in pattern
    for repair, needed in _REPAIRS:
        if needed not in pattern or (is_reference and repair in _GLUING):
            continue
        guesses = _host(value, _example_port(node)) if repair is _host else repair(value)
        for guess in guesses:
            is_new = guess != value and any(char.isalnum() for char in guess)
            if is_new and engine.accepts(node, guess):
                return write(guess, _plain(guess), is_safe=repair in _CERTAIN)
    return ""


def _is_near(text: str, choices: list[str]) -> bool:
    """Whether one choice alone is a slip of the keyboard away from a text."""
    folded = [_fold(choice) for choice in choices if choice]
    word = _fold(text[:_LONGEST])
    return word in folded or len(difflib.get_close_matches(word, folded, n=2, cutoff=_CLOSE)) == 1


def image(text: str) -> str:
    """The fix for a full image name: the map in values."""
    name, _, digest = text.partition("@")
    head, slash, last = name.rpartition("/")
    last, _, tag = last.partition(":")
    parts = {"repository": head + slash + last, "tag": tag, "digest": digest}
    inner = ", ".join(
        f"{key}: {quoted(part) if key == 'tag' else part}" for key, part in parts.items() if part
    )
    image_parts = {key: part for key, part in parts.items() if part}
    return (
        write(image_parts, f"{{{inner}}}", is_safe=True)
        if parts["repository"]
        else f"write {{{inner}}}"
    )


def _plain(text: str) -> str:
    return text if re.fullmatch(r"[A-Za-z/][A-Za-z0-9/._-]*", text) else quoted(text)


def _strip(text: str) -> Iterator[str]:
    yield text.strip()
    yield text.strip().rstrip("/")


def _unit(text: str) -> Iterator[str]:
    match = re.fullmatch(r"\s*([0-9.]+)\s*([A-Za-z]*)\s*", text)
    if match is None:
        return
    number, unit = match.groups()
    folded = re.sub(r"b(yte)?s?$", "", unit.lower())
    for suffix in _UNITS:
        if folded == suffix.lower():
            yield number + suffix
    if unit.lower() in ("cpu", "cpus", "core", "cores", "vcpu", "vcpus"):
        yield number


def _lower(text: str) -> Iterator[str]:
    yield text.lower()
    yield re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-.")


def _upper(text: str) -> Iterator[str]:
    yield text.upper()


def _underscores(text: str) -> Iterator[str]:
    if text.isascii():  # of other letters nothing would be left
        yield re.sub(r"[^A-Za-z0-9_]+", "_", text.strip())


def _absolute(text: str) -> Iterator[str]:
    yield "/" + text.strip().lstrip("./")


def _relative(text: str) -> Iterator[str]:
    yield text.lstrip("/")


def _dots(text: str) -> Iterator[str]:
    if "/" not in text:
        yield re.sub(r"[.]+", ".", text.strip()).strip(".")


def _example_port(node: Schema) -> int:
    """The port in the example that a title ends with, or etcd's."""
    match = re.search(r":(\d+)$", node.get("title", ""))
    return int(match[1]) if match else _ETCD_PORT


def _host(text: str, port: int = _ETCD_PORT) -> Iterator[str]:
    bare = re.sub(r"^[a-z0-9+]+://", "", text.strip()).split("/", 1)[0]
    yield bare
    if bare and ":" not in bare:
        yield f"{bare}:{port}"


def _digest(text: str) -> Iterator[str]:
    if re.fullmatch(r"[0-9a-f]{64}", digits := text.strip().lower()):
        yield f"sha256:{digits}"


def _repository(text: str) -> Iterator[str]:
    """A URL as a registry's repository, without scheme and tag."""
    bare = re.sub(r"^[a-z0-9+]+://", "", text.strip().lower()).rstrip("/")
    yield bare
    head, slash, last = bare.rpartition("/")
    if slash:
        yield f"{head}/{last.partition('@')[0].partition(':')[0]}"


def _commas(text: str) -> Iterator[str]:
    yield re.sub(r"[\s,;]+", ",", text.strip())


# Each with what a pattern has that asks for such a text; one that takes nearly all has none of it.
_REPAIRS: tuple[tuple[Callable[[str], Iterator[str]], str], ...] = (
    (_strip, ""),
    (_unit, ""),
    (_dots, "[.]"),
    (_host, ":([1-9]"),
    (_digest, "sha256"),
    (_repository, "(/"),
    (_absolute, "^/"),
    (_relative, ""),
    (_underscores, "_"),
    (_lower, "a-z"),
    (_upper, "A-Z"),
    (_commas, ","),
)


# What an image and its repository have, and nothing else.
_REFERENCE = "(/"
_GLUING = (_underscores, _lower, _commas)
# What these make of a text is the same thing, spelled as it must be.
_CERTAIN = (_strip, _unit, _digest)


def short(value: Any) -> str:
    """A value in a message: as YAML writes it, cut where it is long."""
    text = quoted(value)
    return text if len(text) <= _SHORT else f"{text[: _SHORT - 1]}…"
