"""The pods of a job by role, and what all of them ask together.

A layout is about the pods that train, one on each node. An elastic job has others beside them, and
who asks how large a job is means them too.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from allranks.model import quantity
from allranks.model.layout import RoleShare, Share

if TYPE_CHECKING:
    from allranks.layout.sizing import Split
    from allranks.model.jobspec import JobSpec


def shares(spec: JobSpec, split: Split) -> tuple[tuple[RoleShare, ...], Share]:
    """The pods of each role, its own first, and what all ask; nothing for a job without roles.

    Args:
        spec: the job.
        split: the sizes of its own pods.
    """
    if not spec.role:
        return (), Share()
    own = (spec, split.nodes, split.gpus)
    others = ((role, role.nodes, role.gpus_per_node) for role in spec.beside)
    found, together = [], Counter[str]()
    for role, pods, gpus in (own, *others):
        asked = Counter({name: units * pods for name, units in role.requests(gpus).items()})
        together += asked
        found.append(RoleShare(role.role, pods, gpus, role.share(gpus), _total(asked)))
    return tuple(found), _total(together)


def _total(asked: Counter[str]) -> Share:
    return Share(*(_show(name, asked[name]) for name in ("cpu", "memory")))


def _show(name: str, units: int) -> str:
    return quantity.format_units(name, units) if units else ""
