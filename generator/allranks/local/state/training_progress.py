"""Read how far a training is from the logs of its pods."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from allranks.local.state import logs
from allranks.status import progress

if TYPE_CHECKING:
    from allranks.local.state.store import RunFolder
    from allranks.model.status import RunStatus

_FILES_MAX = 3  # of a run: the newest of the pod that reports, and what was before it
_TAIL_BYTES = 1 << 17


def add_progress(folder: RunFolder, status: RunStatus) -> RunStatus:
    """The status of a run with the progress of its training, where it reports any.

    Args:
        folder: of the run.
        status: what its record says.
    """
    files = sorted(
        logs.files(folder.logs),
        key=lambda file: (progress.role_order(file.role, file.rank), -file.attempt, -file.start),
    )
    for file in files[:_FILES_MAX]:
        path = folder.logs / file.name
        if not path.exists():  # not yet, or deleted
            continue
        report = progress.last_progress(logs.tail(path, _TAIL_BYTES, size=_TAIL_BYTES))
        if report is not None:
            return replace(status, progress=report)
    return status
