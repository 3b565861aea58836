"""The replica specs of an ElasticJob, whose types stand in any case, each read as one.

`kubectl scale` and a HorizontalPodAutoscaler write the number of `worker`. Where a job has it as
`Worker`, the API server puts a second entry beside the first, and both together are what is meant.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from allranks.status.fields import mapping


class Spelled(NamedTuple):
    """What a job says of a replica type.

    Attributes:
        said: the entry; of several the one that is spelt in lower case holds, and else the first,
            and each gives what those before it do not say.
        keys: how the type is spelt, what holds most first.
    """

    said: Any
    keys: tuple[str, ...]


def replica_specs(data: Any) -> dict[str, Spelled]:
    """What a job says of each replica type, in order.

    Args:
        data: its `replicaSpecs`.
    """
    found: dict[str, Spelled] = {}
    for key, value in sorted(mapping(data).items(), key=lambda one: str(one[0]) != _kind(one[0])):
        kind, known = _kind(key), found.get(_kind(key))
        if known is None:
            found[kind] = Spelled(value, (str(key),))
        else:
            found[kind] = Spelled(_joined(known.said, value), (*known.keys, str(key)))
    return {kind: found[kind] for kind in map(_kind, mapping(data))}


def _kind(key: Any) -> str:
    return str(key).strip().lower()


def _joined(first: Any, second: Any) -> Any:
    if not isinstance(first, dict) or not isinstance(second, dict):
        return first if isinstance(first, dict) else second
    return {**second, **{key: value for key, value in first.items() if value is not None}}
