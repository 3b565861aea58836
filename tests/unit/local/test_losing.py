"""What is said of a run whose supervisor was lost."""

from __future__ import annotations

from allranks.local.losing import lost
from allranks.model.status import ContainerStatus, Phase, PodPhase, PodStatus, RunStatus


def test_a_run_whose_supervisor_is_lost_says_so_of_each_pod() -> None:
    """What ran does not run any more; what had ended stays, and what was never made."""
    main = ContainerStatus("trainer", "running")
    ended = ContainerStatus("trainer", "terminated", "Completed", exit_code=0)
    pods = (
        PodStatus("j-0", "node", 0, PodPhase.RUNNING, containers=(main,), ready=True),
        PodStatus("j-1", "node", 1, PodPhase.SUCCEEDED, finished_at=5.0, containers=(ended,)),
        PodStatus("j-2", "node", 2, PodPhase.PENDING),
    )
    last = RunStatus("j", "lab", Phase.RUNNING, waiting_for="more", pods=pods)
    found = lost(last, "it was killed", at=9.0)
    assert (Phase.FAILED, 1, 9.0, "") == (
        *(found.phase, found.exit_code, found.finished_at, found.waiting_for),
    )
    assert [PodPhase.FAILED, PodPhase.SUCCEEDED, PodPhase.PENDING] == [
        one.phase for one in found.pods
    ]
    assert ("Lost", 9.0, False) == (
        *(found.pods[0].reason, found.pods[0].finished_at, found.pods[0].ready),
    )
    assert ("terminated", "Lost") == (
        *(found.pods[0].containers[0].state, found.pods[0].containers[0].reason),
    )
    assert pods[1:] == found.pods[1:]
    (role,) = found.roles
    assert (0, 0, 1, 1, 1) == (
        *(role.running, role.ready, role.pending, role.succeeded, role.failed),
    )
