"""Gather values from all their sources, and track where each comes from.

The order is Helm's: the chart's defaults, then presets, then a queue's defaults, then `-f` files in
their order, then the command's own options such as `--gpus`, then the `--set` family by kind
(--set-json, --set, --set-string, --set-file, --set-literal) and only within a kind in the order of
the command line, then what the queue imposes, then the marks that a queue leaves. Later wins.
"""

from __future__ import annotations

import functools
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from allranks import names, resources
from allranks.errors import InputError
from allranks.values import files, presets, strvals
from allranks.values.merge import copy, merge, overlay
from allranks.values.queue import Overridden, QueueBlock, overridden
from allranks.yamlio.document import ValuesDocument
from allranks.yamlio.load import load as load_yaml

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from allranks.values.queue import Queue

Path = tuple[str | int, ...]

STDIN_NAME = "stdin"
CONVERTED = ", as values"  # at the end of the name of an object that is read as values


@dataclass(frozen=True, slots=True)
class ValueOption:
    """An option of a command that stands for a value: ``--gpus 16``.

    Attributes:
        name: the option without its dashes; "" for the words after ``--``.
        text: its value, as typed.
        path: the value that it sets.
        value: what it sets it to.
    """

    name: str
    text: str
    path: tuple[str, ...]
    value: Any


@dataclass(frozen=True, slots=True)
class Sources:
    """The sources that the command line names.

    Attributes:
        files: values files, in order; ``-`` is standard input.
        sets: ``(kind, text)`` of each flag of the ``--set`` family, in order.
        contents: by a file's name, its content where that is known already and not to be read.
        options: the command's own options that stand for values.
        workload: the workload where nothing names one; "" where something has to.
        queue: the queue whose job it is; None for none.
    """

    files: tuple[str, ...] = ()
    sets: tuple[tuple[str, str], ...] = ()
    contents: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    options: tuple[ValueOption, ...] = ()
    workload: str = ""
    queue: Queue | None = field(default=None, repr=False)

    def with_contents(self) -> Sources:
        """The same with the content of each file, which standard input and a pipe give once.

        A file that cannot be read stays without; who reads the values says it.
        """
        contents = dict(self.contents)
        for path in self.files:
            if path not in contents:
                with suppress(InputError):
                    contents[path] = files.read(path)
        return replace(self, contents=contents)


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag of the ``--set`` family or another that stands for a value, and the paths it set.

    Attributes:
        kind: the flag without its dashes.
        text: its value, as typed.
        paths: the path of every value it set.
    """

    kind: str
    text: str
    paths: tuple[Path, ...]

    def __str__(self) -> str:
        """The flag as it was typed."""
        return strvals.shown(self.kind, self.text)


@dataclass(frozen=True, slots=True)
class Loaded:
    """The merged values of a run, and their sources.

    Attributes:
        workload: which chart they are for.
        user: all that was given, presets included, without `preset` itself: what Helm gets.
        values: the same over the chart's defaults: what the templates see.
        presets: the names of the presets used.
        layers: the sources, the earliest first.
        queue: the queue whose job it is; None for none.
        overridden: the person's own values that the queue has imposed others on.
    """

    workload: str
    user: dict[str, Any]
    values: dict[str, Any]
    presets: tuple[str, ...] = ()
    layers: tuple[ValuesDocument | Flag, ...] = field(default=(), repr=False)
    queue: Queue | None = field(default=None, repr=False)
    overridden: tuple[Overridden, ...] = ()

    def where(self, path: Sequence[str | int]) -> str:
        """The source of a value: ``file:line``, or the flag; "" for none.

        For a path that nobody gave, the nearest thing above it that somebody did.
        """
        return find(self.layers, path)

    def token(self, path: Sequence[str | int]) -> str | None:
        """The spelling of a number or boolean; None for text, or a value from a flag."""
        for layer in reversed(self.layers):
            if isinstance(layer, ValuesDocument):
                if layer.line(path) is not None:
                    return layer.token(path)
            elif any(tuple(path[: len(prefix)]) == prefix for prefix in layer.paths):
                return None
        return None


def load_sources(sources: Sources, workload: str | None = None) -> Loaded:
    """Read and merge all sources.

    Args:
        sources: the files and flags.
        workload: the chart that is asked for; None takes `workload` from the values.

    Raises:
        InputError: a source cannot be read or is not YAML, a preset does not exist, or the values
            do not say which workload they are for, or say another.
    """
    own_layers, own = read(sources)
    queue = sources.queue
    layers = own_layers if queue is None else (queue.defaults, *own_layers)
    user = own if queue is None else overlay(queue.defaults.data, own)
    preset_names = _presets(user.pop("preset", None), layers, is_own="preset" in own)
    below: dict[str, Any] = {}
    for document in preset_names.values():
        below = overlay(below, document.data)
    user = overlay(below, user)
    layers = (*preset_names.values(), *layers)
    if not user.get("workload"):
        workload = workload or sources.workload or None
    workload_name = _workload(user, workload, layers)
    replaced: tuple[Overridden, ...] = ()
    if queue is not None:
        replaced = _overridden(queue, own_layers, own)
        for imposed in (queue.imposed, queue.marks):
            user = overlay(user, imposed.data)
            layers = (*layers, imposed)
        user = impose_on_trials(user, queue.imposed.data)
    values = merge(defaults(workload_name), user)
    return Loaded(workload_name, user, values, tuple(preset_names), layers, queue, replaced)


TRIAL_VALUES = ("sweep", "trial", "values")


def _trial_values(user: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a sweep for its trials alone, which lie over its other values."""
    node: Any = user
    for key in TRIAL_VALUES:
        node = node.get(key) if isinstance(node, dict) else None
    return node if isinstance(node, dict) else {}


def impose_on_trials(user: dict[str, Any], imposed: Mapping[str, Any]) -> dict[str, Any]:
    """The values with what is imposed on a sweep's trials as well, where these have their own.

    Args:
        user: the values.
        imposed: what a queue imposes.
    """
    own = _trial_values(user)
    if not own or not imposed:
        return user
    return overlay(user, {"sweep": {"trial": {"values": overlay(own, imposed)}}})


def _overridden(
    queue: Queue, own_layers: Sequence[ValuesDocument | Flag], own: Mapping[str, Any]
) -> tuple[Overridden, ...]:
    """The person's own values that the queue imposes others on, with both their places."""
    return tuple(
        Overridden(
            (*above, *path), mine, theirs, find(own_layers, (*above, *path)), block.where(path)
        )
        for block, above, values in (
            (queue.imposed, (), own),
            (queue.imposed, TRIAL_VALUES, _trial_values(own)),
            (queue.marks, (), own),
        )
        for path, mine, theirs in overridden(values, block.data)
    )


def defaults(workload: str) -> dict[str, Any]:
    """The defaults of a workload's chart.

    Args:
        workload: one of `names.WORKLOADS`.
    """
    path = resources.folder("charts") / workload / "values.yaml"
    data = _parsed(files.read(str(path)), f"charts/{workload}/values.yaml")
    return {key: copy(value) for key, value in data.items()}


@functools.lru_cache(maxsize=16)
def _parsed(data: bytes, name: str) -> dict[str, Any]:
    """A chart's values file; a sweep asks for that of its trials again and again."""
    return load_yaml(data, name).data


def find(layers: Sequence[ValuesDocument | Flag], path: Sequence[str | int]) -> str:
    """The source of a path: the last that sets it, or the nearest path above it.

    Args:
        layers: the sources, the earliest first.
        path: a values path.
    """
    for end in range(len(path), 0, -1):
        here = tuple(path[:end])
        place = next(filter(None, (_place(layer, here) for layer in reversed(layers))), "")
        # A flag that wrote only below the path is the last resort: it made no more than a part.
        below = next(
            (
                str(layer)
                for layer in reversed(layers)
                if isinstance(layer, Flag) and any(prefix[:end] == here for prefix in layer.paths)
            ),
            "",
        )
        if place or below:
            return place or below
    # What nobody gave is missing from the person's own file, and not from the queue.
    documents = [layer for layer in layers if isinstance(layer, ValuesDocument)]
    own = [layer.source for layer in documents if not isinstance(layer, QueueBlock)]
    return own[-1] if own else documents[-1].source if documents else ""


def _place(layer: ValuesDocument | Flag, path: Path) -> str:
    if isinstance(layer, Flag):
        covers = any(path[: len(prefix)] == prefix for prefix in layer.paths)
        return str(layer) if covers else ""
    line = layer.line(path)
    return f"{layer.source}:{line}" if line is not None else ""


def read(sources: Sources) -> tuple[tuple[ValuesDocument | Flag, ...], dict[str, Any]]:
    """The user's files and flags in order of precedence, and their merged values.

    Raises:
        InputError: a source cannot be read, or is not YAML.
    """
    layers: list[ValuesDocument | Flag] = []
    user: dict[str, Any] = {}
    if sum(name.strip() == files.STDIN for name in sources.files) > 1:
        raise InputError("standard input can be read once only", hint="give one -f - at most")
    for name in sources.files:
        data = sources.contents[name] if name in sources.contents else files.read(name)
        document = load_yaml(data, STDIN_NAME if name.strip() == files.STDIN else name)
        layers.append(document)
        user = overlay(user, document.data)
    for option in sources.options:
        value = option.value
        for key in reversed(option.path):
            value = {key: value}
        user = overlay(user, value)
        layers.append(Flag(option.name, option.text, (option.path,)))
    for kind in strvals.KINDS:
        for text in (text for flag, text in sources.sets if flag == kind):
            set_paths: list[Path] = []
            strvals.apply(kind, text, user, set_paths=set_paths)
            layers.append(Flag(kind, text, tuple(set_paths)))
    unknown = [kind for kind, _ in sources.sets if kind not in strvals.KINDS]
    if unknown:
        raise ValueError(f"unknown kinds of flags: {unknown}")
    return tuple(layers), user


def read_once(sources: Sources) -> Sources:
    """The same sources with standard input read, for who loads them more than once.

    Raises:
        InputError: it cannot be read.
    """
    piped = [name for name in sources.files if name.strip() == files.STDIN]
    if len(piped) != 1 or piped[0] in sources.contents:
        return sources
    return replace(sources, contents={**sources.contents, piped[0]: files.read(piped[0])})


def _presets(
    value: Any, layers: Sequence[ValuesDocument | Flag], *, is_own: bool
) -> dict[str, ValuesDocument]:
    """The presets of a job; where the person names none, they are the queue's."""
    try:
        return presets_of(value, layers)
    except InputError as error:
        if is_own:
            raise
        problem = error.problem
        raise InputError(
            f"{problem.message}, which is the queue's for jobs that name none",
            path=problem.path,
            hint=f"set preset in a file of your own ([] is none), or have whoever keeps the queue "
            f"mend it: {problem.hint}",
            source=problem.source,
        ) from error


def presets_of(
    value: Any, layers: Sequence[ValuesDocument | Flag], path: tuple[str, ...] = ("preset",)
) -> dict[str, ValuesDocument]:
    """The presets that a value names, in their order.

    Args:
        value: a text or a list of texts; empty and null mean none.
        layers: the sources of the value.
        path: where it stands.

    Raises:
        InputError: there is no such preset; the nearest is named.
    """
    if value is None or value in ("", []):
        return {}
    loaded: dict[str, ValuesDocument] = {}
    for index, name in enumerate(value if isinstance(value, list) else [value]):
        source = find(layers, (*path, index) if isinstance(value, list) else path)
        if not isinstance(name, str) or not name:
            raise InputError(
                f"{name!r} is not the name of a preset",
                path=".".join(path),
                hint="give a name, or a list of names; `allranks presets` lists them",
                source=source,
            )
        loaded[name] = presets.load(name, source, ".".join(path))
    return loaded


def _workload(
    user: dict[str, Any], requested: str | None, layers: Sequence[ValuesDocument | Flag]
) -> str:
    """The workload of the values: as they name it, else that of the command."""
    available = ", ".join(names.WORKLOADS)
    if requested is not None and requested not in names.WORKLOADS:
        raise InputError(f"there is no workload {requested!r}", hint=f"use one of {available}")
    if user.get("workload") in (None, ""):
        if requested is not None:
            return requested
        raise InputError(
            "the values do not say which workload they are for",
            path="workload",
            hint=f"add `workload: {names.WORKLOADS[0]}` to a file given with -f "
            f"(one of {available})",
            source=find(layers, ()),
        )
    workload = user["workload"]
    if workload not in names.WORKLOADS:
        raise InputError(
            f"{workload!r} is not a workload",
            path="workload",
            hint=_nearest(str(workload)),
            source=find(layers, ("workload",)),
        )
    if requested is not None and workload != requested:
        raise InputError(
            f"the values are for the workload {workload}, not {requested}",
            path="workload",
            hint=f"use the command for {workload}, or a values file for {requested}",
            source=find(layers, ("workload",)),
        )
    return str(workload)


def _nearest(workload: str) -> str:
    # Imported only here: a miss may take a moment longer.
    from difflib import get_close_matches

    near = get_close_matches(workload.lower(), names.WORKLOADS, n=1)
    available = ", ".join(names.WORKLOADS)
    return (
        f"did you mean {near[0]!r}? The workloads are {available}"
        if near
        else f"use one of {available}"
    )
