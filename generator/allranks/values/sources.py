"""Gather the values of a run from all their sources, and remember where each came from.

The order is Helm's: the chart's defaults, then presets, then `-f` files in their order, then the
`--set` family by kind (--set-json, --set, --set-string, --set-file, --set-literal) and only within
a kind in the order of the command line. Later wins.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from allranks import names, resources
from allranks.errors import InputError
from allranks.values import files, presets, strvals
from allranks.values.merge import merge, overlay
from allranks.yamlio.document import Document
from allranks.yamlio.load import load as load_yaml

if TYPE_CHECKING:
    from collections.abc import Sequence

Path = tuple[str | int, ...]

STDIN_NAME = "stdin"


@dataclass(frozen=True, slots=True)
class Sources:
    """What the user named on the command line.

    Attributes:
        files: values files, in order; ``-`` is standard input.
        sets: ``(kind, text)`` of each flag of the ``--set`` family, in order.
    """

    files: tuple[str, ...] = ()
    sets: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag of the ``--set`` family, and what it wrote.

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
    """The values of a run.

    Attributes:
        workload: which chart they are for.
        user: all that was given, presets included, without `preset` itself: what Helm gets.
        values: the same over the chart's defaults: what the templates see.
        presets: the names of the presets used.
        layers: the sources, the earliest first.
    """

    workload: str
    user: dict[str, Any]
    values: dict[str, Any]
    presets: tuple[str, ...] = ()
    layers: tuple[Document | Flag, ...] = field(default=(), repr=False)

    def where(self, path: Sequence[str | int]) -> str:
        """Where a value came from: ``file:line``, or the flag; "" where nobody gave it.

        For a path that nobody gave, the nearest thing above it that somebody did.
        """
        return find(self.layers, path)

    def token(self, path: Sequence[str | int]) -> str | None:
        """How a number, or true or false, was written; None where it was text, or by a flag."""
        for layer in reversed(self.layers):
            if isinstance(layer, Document):
                if layer.line(path) is not None:
                    return layer.token(path)
            elif any(tuple(path[: len(given)]) == given for given in layer.paths):
                return None
        return None


def load(sources: Sources, workload: str | None = None) -> Loaded:
    """Read and merge everything.

    Args:
        sources: the files and flags.
        workload: the chart that is asked for; None takes `workload` from the values.

    Raises:
        InputError: a source cannot be read or is not YAML, a preset does not exist, or the values
            do not say which workload they are for, or say another.
    """
    layers, user = read(sources)
    wanted = _presets(user.pop("preset", None), layers)
    below: dict[str, Any] = {}
    for document in wanted.values():
        below = overlay(below, document.data)
    user = overlay(below, user)
    layers = (*wanted.values(), *layers)
    chosen = _workload(user, workload, layers)
    return Loaded(chosen, user, merge(defaults(chosen), user), tuple(wanted), layers)


def defaults(workload: str) -> dict[str, Any]:
    """The defaults of a workload's chart.

    Args:
        workload: one of `names.WORKLOADS`.
    """
    path = resources.folder("charts") / workload / "values.yaml"
    return load_yaml(files.read(str(path)), f"charts/{workload}/values.yaml").data


def find(layers: Sequence[Document | Flag], path: Sequence[str | int]) -> str:
    """What in the layers gave a path: the latest that has it, or the nearest above it.

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
                if isinstance(layer, Flag) and any(given[:end] == here for given in layer.paths)
            ),
            "",
        )
        if place or below:
            return place or below
    named = [layer.source for layer in layers if isinstance(layer, Document)]
    return named[-1] if named else ""


def _place(layer: Document | Flag, path: Path) -> str:
    if isinstance(layer, Flag):
        covers = any(path[: len(given)] == given for given in layer.paths)
        return str(layer) if covers else ""
    line = layer.line(path)
    return f"{layer.source}:{line}" if line is not None else ""


def read(sources: Sources) -> tuple[tuple[Document | Flag, ...], dict[str, Any]]:
    """The user's own files and flags, in the order in which they win, and what they give.

    Raises:
        InputError: a source cannot be read, or is not YAML.
    """
    layers: list[Document | Flag] = []
    user: dict[str, Any] = {}
    if sum(name.strip() == files.STDIN for name in sources.files) > 1:
        raise InputError("standard input can be read once only", hint="give one -f - at most")
    for name in sources.files:
        data = files.read(name)
        document = load_yaml(data, STDIN_NAME if name.strip() == files.STDIN else name)
        layers.append(document)
        user = overlay(user, document.data)
    for kind in strvals.KINDS:
        for text in (text for given, text in sources.sets if given == kind):
            written: list[Path] = []
            strvals.apply(kind, text, user, written=written)
            layers.append(Flag(kind, text, tuple(written)))
    unknown = [kind for kind, _ in sources.sets if kind not in strvals.KINDS]
    if unknown:
        raise ValueError(f"unknown kinds of flags: {unknown}")
    return tuple(layers), user


def _presets(given: Any, layers: Sequence[Document | Flag]) -> dict[str, Document]:
    """What `preset` names: one text, or a list of texts; empty and null mean none."""
    if given is None or given in ("", []):
        return {}
    found: dict[str, Document] = {}
    for index, name in enumerate(given if isinstance(given, list) else [given]):
        source = find(layers, ("preset", index) if isinstance(given, list) else ("preset",))
        if not isinstance(name, str) or not name:
            raise InputError(
                f"{name!r} is not the name of a preset",
                path="preset",
                hint="give a name, or a list of names; `allranks presets` lists them",
                source=source,
            )
        found[name] = presets.load(name, source)
    return found


def _workload(user: dict[str, Any], asked: str | None, layers: Sequence[Document | Flag]) -> str:
    """Which chart the values are for: what they say, else what the command is for."""
    known = ", ".join(names.WORKLOADS)
    if asked is not None and asked not in names.WORKLOADS:
        raise InputError(f"there is no workload {asked!r}", hint=f"use one of {known}")
    if user.get("workload") in (None, ""):
        if asked is not None:
            return asked
        raise InputError(
            "the values do not say which workload they are for",
            path="workload",
            hint=f"add `workload: {names.WORKLOADS[0]}` to a file given with -f (one of {known})",
            source=find(layers, ()),
        )
    given = user["workload"]
    if given not in names.WORKLOADS:
        raise InputError(
            f"{given!r} is not a workload",
            path="workload",
            hint=_nearest(str(given)),
            source=find(layers, ("workload",)),
        )
    if asked is not None and given != asked:
        raise InputError(
            f"the values are for the workload {given}, not {asked}",
            path="workload",
            hint=f"use the command for {given}, or a values file for {asked}",
            source=find(layers, ("workload",)),
        )
    return str(given)


def _nearest(given: str) -> str:
    # Imported only here: a miss may take a moment longer.
    from difflib import get_close_matches  # noqa: PLC0415

    near = get_close_matches(given.lower(), names.WORKLOADS, n=1)
    known = ", ".join(names.WORKLOADS)
    return f"did you mean {near[0]!r}? The workloads are {known}" if near else f"use one of {known}"
