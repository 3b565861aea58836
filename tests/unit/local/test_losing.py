"""What is said of a run whose supervisor was lost."""

from __future__ import annotations

from allranks.local.state.store import lost_status
from allranks.model.status import ContainerStatus, Phase, PodPhase, PodStatus, RunStatus


def test_a_run_whose_supervisor_is_lost_says_so_of_each_pod() -> None:
    """What ran does not run any more; what had ended stays, and what was never made."""
    main = ContainerStatus("trainer", "running")
    terminated = ContainerStatus("trainer", "terminated", "Completed", exit_code=0)
    pods = (
        PodStatus("j-0", "node", 0, PodPhase.RUNNING, containers=(main,), ready=True),
        PodStatus("j-1", "node", 1, PodPhase.SUCCEEDED, finished_at=5.0, containers=(terminated,)),
        PodStatus("j-2", "node", 2, PodPhase.PENDING),
    )
    last = RunStatus("j", "lab", Phase.RUNNING, waiting_for="more", pods=pods)
    status = lost_status(last, "it was killed", at=9.0)
    assert (Phase.FAILED, 1, 9.0, "") == (
        *(status.phase, status.exit_code, status.finished_at, status.waiting_for),
    )
    assert [PodPhase.FAILED, PodPhase.SUCCEEDED, PodPhase.PENDING] == [
        pod.phase for pod in status.pods
    ]
    assert ("Lost", 9.0, False) == (
        *(status.pods[0].reason, status.pods[0].finished_at, status.pods[0].ready),
    )
    assert ("terminated", "Lost") == (
        *(status.pods[0].containers[0].state, status.pods[0].containers[0].reason),
    )
    assert pods[1:] == status.pods[1:]
    (role,) = status.roles
    assert (0, 0, 1, 1, 1) == (
        *(role.running, role.ready, role.pending, role.succeeded, role.failed),
    )
