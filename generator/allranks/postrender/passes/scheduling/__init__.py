"""Gang, queue, priority and topology, in the dialect of the cluster's scheduler.

One module per dialect, imported when it is asked for. A dialect writes onto the workload and may
return objects that have to be there with it: PodGroups.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from allranks.postrender.requests import Scheduling
    from allranks.postrender.workloads import Workload


def apply(workload: Workload, ask: Scheduling) -> list[dict[str, Any]]:
    """Write the scheduling requests of a workload.

    Args:
        workload: the object; a DaemonSet is left alone, its pods belong to their nodes.
        ask: what it asks.

    Returns:
        The objects to add to the release, in front of the workload.
    """
    if workload.kind == "DaemonSet":
        return []
    if ask.dialect == "kueue":
        from allranks.postrender.passes.scheduling import kueue

        kueue.apply(workload, ask)
        return []
    if ask.dialect == "kai":
        from allranks.postrender.passes.scheduling import kai

        return kai.apply(workload, ask)
    if ask.dialect == "volcano":
        from allranks.postrender.passes.scheduling import volcano

        return volcano.apply(workload, ask)
    from allranks.postrender.passes.scheduling import native

    return native.apply(workload, ask)
