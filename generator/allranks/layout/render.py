"""Show a layout: rows of a table, and a picture.

Both show the plan and nothing else; what is rendered comes from `Layout.to_values` alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from allranks.layout import diagram
from allranks.layout import svg as layout_svg

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
    rows = []
    for rank in range(layout.nodes + layout.spares):
        place, share = diagram.share_of(layout, rank), layout.share_of(rank)
        rows.append(
            {
                "ranks": diagram.rank_text(layout.ranks(rank)) or layout.standing(rank),
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
    filled = {key for row in rows for key, value in row.items() if value not in ("", 0)}
    columns = [key for key in rows[0] if key in filled or key in ("pod", "ranks")]
    return [{key: row[key] for key in columns} for row in rows]


def role_rows(layout: Layout) -> list[dict[str, Any]]:
    """A row per role and one for the total; () where all pods belong to the layout.

    Args:
        layout: the layout.

    Returns:
        Rows with ``role``, ``pods``, and what its pods ask: each of them, and together.
    """
    if len(layout.roles) < 2:  # noqa: PLR2004 - one role is the table of pods
        return []
    rows = [
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
    rows.append(dict.fromkeys(rows[0], "") | {"role": "all"} | whole)
    filled = {key for row in rows for key, value in row.items() if value not in ("", 0)}
    return [{key: row[key] for key in rows[0] if key in filled} for row in rows]


def svg(layout: Layout, inventory: Inventory | None, title: str) -> str:
    """A picture of the job in its cluster, or of its pods alone.

    Args:
        layout: the layout.
        inventory: the nodes it was fitted to; None where there were none.
        title: the heading, such as the release's name.

    Returns:
        An SVG document, the same bytes for the same input.
    """
    return layout_svg.render(layout, diagram.build(layout, inventory), title)
