"""Where a value comes from: every source that says something of it, and which of them wins.

The sources are laid over each other once more, one by one, so that what is said of a key is what
the merge made of it, whatever its sources do: replace a list, remove a default, write one item.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from allranks import names, resources
from allranks.errors import InputError
from allranks.schema import paths
from allranks.values import files, sources, strvals
from allranks.values.merge import merge, overlay
from allranks.yamlio.document import ValuesDocument
from allranks.yamlio.load import load as load_yaml

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from allranks.schema.paths import ValuesPath
    from allranks.values.sources import Flag, Loaded

_ABSENT = object()
_PRESET = "preset"


@dataclass(frozen=True, slots=True)
class Contribution:
    """The value that one source gives a key.

    Attributes:
        source: ``file:line``, ``queue h100 imposed:2`` or the flag.
        value: the value once this source is laid over the earlier ones; None where it is unset.
        wins: it is the last source of the key.
    """

    source: str
    value: Any
    wins: bool = False

    def as_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {"source": self.source, "value": self.value, "wins": self.wins}


@dataclass(frozen=True, slots=True)
class Explanation:
    """A key of the values.

    Attributes:
        path: the values path.
        value: the value; None where it is unset.
        sources: what has a part in it, the earliest first.
        below: of a mapping, its leaves with the source of each.
    """

    path: ValuesPath
    value: Any
    sources: tuple[Contribution, ...]
    below: tuple[tuple[ValuesPath, Contribution], ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """The JSON form."""
        below = [{"key": paths.show(path), **item.as_dict()} for path, item in self.below]
        return {
            "key": paths.show(self.path),
            "value": self.value,
            "sources": [source.as_dict() for source in self.sources],
            **({"below": below} if self.below else {}),
        }


def parse(key: str) -> ValuesPath:
    r"""The path of a key as the ``--set`` family writes it: ``args[0]``, ``labels.my\.org/team``.

    Raises:
        InputError: it is no key.
    """
    set_paths: list[sources.Path] = []
    strvals.apply("set-literal", f"{key}=", {}, set_paths=set_paths)
    return set_paths[0]


def explain(loaded: Loaded, path: ValuesPath) -> Explanation:
    """Say where the value at a path comes from.

    Args:
        loaded: the values with their sources.
        path: the values path.

    Raises:
        InputError: neither the chart nor a source has such a key.
    """
    steps = list(_steps(loaded))
    contributions = _contributions(loaded, steps, path)
    # Helm gets the presets' values and not their names.
    is_preset = path[:1] == (_PRESET,) and contributions
    value = contributions[-1].value if is_preset else _at(loaded.values, path)
    if not contributions:
        raise InputError(
            "no source has such a key, and the chart has none",
            path=paths.show(path),
            hint=_nearest(loaded.values, path),
        )
    below: list[tuple[ValuesPath, Contribution]] = []
    if isinstance(value, dict):
        for leaf in _leaves(value, path):
            of_leaf = _contributions(loaded, steps, leaf)
            below += [(leaf, of_leaf[-1])] if of_leaf else []
    return Explanation(
        path, None if value is _ABSENT else value, tuple(contributions), tuple(below)
    )


@dataclass(frozen=True, slots=True)
class _Step:
    """A source, and the user's values once it is laid over the earlier ones."""

    layer: ValuesDocument | Flag
    user: Mapping[str, Any]


def _steps(loaded: Loaded) -> Iterator[_Step]:
    user: dict[str, Any] = {}
    imposed = None if loaded.queue is None else loaded.queue.imposed
    for layer in loaded.layers:
        if isinstance(layer, ValuesDocument):
            user = overlay(user, layer.data)
            if layer is imposed:
                user = sources.impose_on_trials(user, imposed.data)
        else:
            user = overlay({}, user)
            strvals.apply(layer.kind, layer.text, user)
        yield _Step(layer, dict(user))


def _contributions(loaded: Loaded, steps: list[_Step], path: ValuesPath) -> list[Contribution]:
    defaults = _defaults(loaded.workload)
    out: list[Contribution] = []
    if _touches(defaults, path):
        out.append(_contribution(defaults.where(path), _at(defaults.data, path)))
    before: Any = _at(defaults.data, path)
    imposed = None if loaded.queue is None else loaded.queue.imposed
    for step in steps:
        after = _at(merge(defaults.data, step.user), path)
        if _says(step.layer, path):
            out.append(_contribution(_source(step.layer, path), after))
        elif step.layer is imposed and after != before:
            # What is imposed is laid over the values of a sweep's trials as well.
            own = path[len(sources.TRIAL_VALUES) :]
            out.append(_contribution(imposed.where(own), after))
        before = after
    if out:
        out[-1] = Contribution(out[-1].source, out[-1].value, wins=True)
    return out


def _source(layer: ValuesDocument | Flag, path: ValuesPath) -> str:
    return layer.where(path) if isinstance(layer, ValuesDocument) else str(layer)


def _contribution(source: str, value: Any) -> Contribution:
    return Contribution(source, None if value is _ABSENT else value)


def _says(layer: ValuesDocument | Flag, path: ValuesPath) -> bool:
    """Whether a source says something of a path, of what is above it or of what is below."""
    if isinstance(layer, ValuesDocument):
        return _touches(layer, path)
    return any(
        all(part == other for part, other in zip(path, set_path, strict=False))
        for set_path in layer.paths
    )


def _touches(document: ValuesDocument, path: ValuesPath) -> bool:
    node: Any = document.data
    for step in path:
        if not isinstance(node, dict):
            return True  # a text, a list or a null stands where the key would be
        if step not in node:
            return False
        node = node[step]
    return True


def _at(values: Any, path: ValuesPath) -> Any:
    node = values
    for step in path:
        if isinstance(node, list) and isinstance(step, int):
            node = node[step] if 0 <= step < len(node) else _ABSENT
        elif isinstance(node, dict):
            node = node.get(step, _ABSENT)
        else:
            return _ABSENT
    return node


def _leaves(value: Any, path: ValuesPath) -> Iterator[ValuesPath]:
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _leaves(item, (*path, key))
    else:
        yield path


def _defaults(workload: str) -> ValuesDocument:
    path = resources.folder("charts") / workload / "values.yaml"
    return load_yaml(files.read(str(path)), f"charts/{workload}/values.yaml")


def _nearest(values: Mapping[str, Any], path: ValuesPath) -> str:
    # Imported only here: a miss may take a moment longer.
    from difflib import get_close_matches

    above = {leaf[:end] for leaf in _leaves(values, ()) for end in range(1, len(leaf) + 1)}
    near = get_close_matches(paths.show(path), sorted(map(paths.show, above)), n=1)
    return (
        f"did you mean {near[0]}?"
        if near
        else f"`{names.CLI} values` without --explain shows all keys"
    )
