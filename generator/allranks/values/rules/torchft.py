"""Rules about replica groups of torchft, of which each node is one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks import names
from allranks.values.rules.base import Finding, ValuesRule, View, path

if TYPE_CHECKING:
    from collections.abc import Iterator

_WHERE = "torchrun.torchft.lighthouse"
_OWN_VARIABLES = (names.ENV_LIGHTHOUSE, names.ENV_REPLICA_GROUP, names.ENV_REPLICA_GROUPS)


def _groups(view: View) -> Iterator[Finding]:
    if not view[_WHERE]:
        return
    if view["torchrun.controller"] == "StatefulSet":
        yield Finding(
            path(_WHERE),
            "a StatefulSet never ends, and groups do",
            "set torchrun.controller: Job, or remove torchrun.torchft",
        )
    if (backend := view["torchrun.rdzvBackend"]) not in {"", "c10d"}:
        yield Finding(
            path(_WHERE),
            f"each group is one node, and meets nobody by {backend}",
            "remove torchrun.rdzvBackend",
        )
    if view["torchrun.spares"]:
        yield Finding(
            path(_WHERE),
            "torchrun.spares is set too, and the groups that are left go on without the one that "
            "is lost",
            "remove torchrun.spares",
        )
    if view["torchrun.localAddr"]:
        yield Finding(
            path(_WHERE),
            "torchrun.localAddr gives all groups one address",
            "remove torchrun.localAddr",
        )
    if view["compat"]:
        yield Finding(
            path(_WHERE),
            "compat is set too, and each group counts its ranks from 0, which Slurm's variables "
            "could not say",
            "leave one of the two out",
        )
    for name in _OWN_VARIABLES:
        if name in view["env"]:
            yield Finding(
                path("env", name), f"with {_WHERE} each group is told its own", "remove it"
            )


RULES = (
    ValuesRule(
        "torchft",
        "Replica groups (`torchrun.torchft.lighthouse`) are the pods of an Indexed Job that meet "
        "at the lighthouse alone, without spares, `compat` and `torchrun.localAddr`; `env` does "
        "not say which group a pod is.",
        ("torchrun", "compat", "env"),
        _groups,
        workload="torchrun",
    ),
)
