"""Fields of pod templates that no pod has: ``hostPath: {path: /data, readOnly: true}``.

An operator whose resource has no schema of a template drops them when it reads it. The API server
refuses a pod with one, where who sends it asks for that, as kubectl and Helm 4 do.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from allranks.convert import near_words
from allranks.convert.inputs import pod_fields
from allranks.convert.verdicts import Outcome, Verdict, dotted, leaf_paths

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allranks.convert.inputs.pod_fields import Tree
    from allranks.convert.verdicts import Conversion, FieldPath

_WHY = "a pod has no such field, and nothing read it"


def without(manifest: dict[str, Any]) -> dict[str, Any]:
    """An object without such fields in its pod templates; itself where it has none.

    Args:
        manifest: the object, which stays as it is.
    """
    own: Any = manifest
    for path, _, _ in _unknown(manifest):
        own = _without(own, path)
    return own  # type: ignore[no-any-return]  # a mapping stays one


def checked(conversion: Conversion, manifest: dict[str, Any]) -> Conversion:
    """A conversion whose report has such fields as well.

    Args:
        conversion: that of the object without them.
        manifest: the object with them.
    """
    unknown = [*_unknown(manifest)]
    if not unknown:
        return conversion
    emptied = {path[:-1] for path, _, _ in unknown}  # which have other fields below them there
    places = {leaf: place for place, leaf in enumerate(leaf_paths(manifest, ()))}
    leaves = {
        leaf: f"{_WHY}: did you mean {near}?" if near else _WHY
        for path, value, near in unknown
        for leaf in leaf_paths(value, path)
    }
    verdicts = [verdict for verdict in conversion.verdicts if verdict.keys not in emptied]
    verdicts += [
        Verdict(dotted(leaf), Outcome.NOT_CARRIED, "", why, keys=leaf)
        for leaf, why in leaves.items()
    ]
    verdicts.sort(key=lambda verdict: places.get(verdict.keys, len(places)))
    return replace(conversion, verdicts=tuple(verdicts))


def _unknown(manifest: dict[str, Any]) -> Iterator[tuple[FieldPath, Any, str]]:
    """The unknown fields in the templates of an object, with what they have and may be meant."""
    for path, spec in pod_fields.pod_specs(manifest):
        yield from _unknown_in(spec, pod_fields.tree()["spec"], path)


def _unknown_in(node: Any, tree: Tree, path: FieldPath) -> Iterator[tuple[FieldPath, Any, str]]:
    if isinstance(node, list) and "[]" in tree:
        for index, item in enumerate(node):
            yield from _unknown_in(item, tree["[]"], (*path, index))
    elif isinstance(node, dict) and tree and "[]" not in tree and "*" not in tree:
        for key, value in node.items():
            if key in tree:
                yield from _unknown_in(value, tree[key], (*path, key))
            else:
                others = [name for name in tree if name not in node]
                yield (*path, key), value, near_words.nearest_word(str(key), others)


def _without(node: Any, path: FieldPath) -> Any:
    """A copy of an object, as far as it is another, without a field."""
    step, rest = path[0], path[1:]
    if isinstance(node, list):
        return [_without(item, rest) if n == step else item for n, item in enumerate(node)]
    if not rest:
        return {key: value for key, value in node.items() if key != step}
    return {key: _without(value, rest) if key == step else value for key, value in node.items()}
