"""The layout for people: rows of a table, and a picture.

Both show the plan and nothing else; what is rendered comes from `Layout.to_values` alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from allranks.layout import drawing, picture

if TYPE_CHECKING:
    from allranks.model.inventory import Inventory
    from allranks.model.layout import Layout

_WAITING = "(waits for a free node)"


def rows(layout: Layout) -> list[dict[str, Any]]:
    """One row per pod, in rank order; all rows have the same keys.

    Args:
        layout: the layout.

    Returns:
        Rows with ``ranks`` (of processes), ``pod``, the planned ``node``, ``rack`` and ``block``
        where they are known, ``procs``, and what else the pod has.
    """
    found = []
    for rank in range(layout.nodes):
        place, share = picture.share_of(layout, rank), layout.share_of(rank)
        found.append(
            {
                "ranks": picture.rank_text(layout.ranks(rank)),
                "pod": layout.pod(rank) if layout.hosts else rank,
                "node": place.node if place else _WAITING if layout.assignment else "",
                "rack": place.rack if place else "",
                "block": place.block if place else "",
                "procs": len(layout.ranks(rank)),
                "gpus": layout.gpus_of(rank),
                "cpu": share.cpu,
                "memory": share.memory,
                "shm": share.shm,
            }
        )
    used = {key for row in found for key, value in row.items() if value not in ("", 0)}
    shown = [key for key in found[0] if key in used or key in ("pod", "ranks")]
    return [{key: row[key] for key in shown} for row in found]


def role_rows(layout: Layout) -> list[dict[str, Any]]:
    """One row per role, and one for all of them; () where there are no pods but the layout's own.

    Args:
        layout: the layout.

    Returns:
        Rows with ``role``, ``pods``, and what its pods ask: each of them, and together.
    """
    if len(layout.roles) < 2:  # noqa: PLR2004 - one role is the table of pods
        return []
    found = [
        {
            "role": role.role,
            "pods": role.pods,
            "gpus": role.gpus,
            "cpu per pod": role.share.cpu,
            "memory per pod": role.share.memory,
            "cpu": role.total.cpu,
            "memory": role.total.memory,
        }
        for role in layout.roles
    ]
    whole = layout.of_roles()["inAll"]
    found.append(dict.fromkeys(found[0], "") | {"role": "all"} | whole)
    used = {key for row in found for key, value in row.items() if value not in ("", 0)}
    return [{key: row[key] for key in found[0] if key in used} for row in found]


def svg(layout: Layout, inventory: Inventory | None, title: str) -> str:
    """A picture of the job in its cluster, or of its pods alone.

    Args:
        layout: the layout.
        inventory: the nodes it was fitted to; None where there were none.
        title: the heading, such as the release's name.

    Returns:
        An SVG document, the same bytes for the same input.
    """
    return drawing.render(layout, picture.build(layout, inventory), title)
