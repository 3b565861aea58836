"""The replica specs of an ElasticJob, merged where a type is written in several cases.

`kubectl scale` and a HorizontalPodAutoscaler write the number of `worker`. Where a job has it as
`Worker`, the API server puts a second entry beside the first, and both together are what is meant.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from allranks.k8s.fields import mapping


class MergedReplicaSpec(NamedTuple):
    """The specification of a replica type.

    Attributes:
        spec: the merged entry: the one in lower case wins over the others, and the first over later
            ones.
        keys: the spellings of the type, the strongest first.
    """

    spec: Any
    keys: tuple[str, ...]


def replica_specs(data: Any) -> dict[str, MergedReplicaSpec]:
    """Return the specification of each replica type, in order.

    Args:
        data: its `replicaSpecs`.
    """
    specs: dict[str, MergedReplicaSpec] = {}
    for key, value in sorted(
        mapping(data).items(), key=lambda item: str(item[0]) != _kind(item[0])
    ):
        kind, before = _kind(key), specs.get(_kind(key))
        if before is None:
            specs[kind] = MergedReplicaSpec(value, (str(key),))
        else:
            specs[kind] = MergedReplicaSpec(_join(before.spec, value), (*before.keys, str(key)))
    return {kind: specs[kind] for kind in map(_kind, mapping(data))}


def _kind(key: Any) -> str:
    return str(key).strip().lower()


def _join(first: Any, second: Any) -> Any:
    if not isinstance(first, dict) or not isinstance(second, dict):
        return first if isinstance(first, dict) else second
    return {**second, **{key: value for key, value in first.items() if value is not None}}
