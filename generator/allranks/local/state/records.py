"""The records of runs: find, read and expire them.

A record says what its supervisor last wrote. Where the supervisor is gone and did not write an end,
the run has failed, and the status says so without anyone having written it.
"""

from __future__ import annotations

import time
from difflib import get_close_matches

from allranks import names
from allranks.errors import EXIT_FAILED, InputError, RunError
from allranks.local.state import store
from allranks.model.status import Phase, RunStatus


def existing(name: str, namespace: str) -> store.RunFolder:
    """The folder of an existing run.

    Raises:
        InputError: there is no such run; the hint names the nearest.
    """
    forget_expired()
    folder = store.run_folder(name, namespace)
    if folder.exists():
        return folder
    runs = [run.path.name for run in store.run_folders() if run.path.parent.name == namespace]
    near = get_close_matches(name, runs, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"`{names.CLI} list --on local` shows them all"
    raise InputError(f"there is no local run {name!r} in namespace {namespace!r}", hint=hint)


def forget_expired() -> None:
    """Remove the records of runs whose ttlSecondsAfterFinished has passed; their claims stay."""
    if not any(_is_expired(folder) for folder in store.run_folders()):
        return
    with store.registry():
        for folder in list(store.run_folders()):
            if _is_expired(folder):
                folder.remove()


def _is_expired(folder: store.RunFolder) -> bool:
    try:
        finished_at, ttl = folder.status().finished_at, folder.spec().ttl
    except (FileNotFoundError, RunError):
        return False
    if finished_at is None or ttl is None or folder.alive():
        return False
    return time.time() >= finished_at + ttl


def read_status(folder: store.RunFolder) -> RunStatus:
    """The status of a run, however it ended.

    Raises:
        FileNotFoundError: the run was deleted meanwhile.
    """
    try:
        last = folder.status()
    except RunError as error:
        name, namespace = folder.path.name, folder.path.parent.name
        return RunStatus(
            name,
            namespace,
            Phase.FAILED,
            reason="RecordLost",
            message=str(error),
            exit_code=EXIT_FAILED,
        )
    if is_over(folder, last) or folder.alive():
        return last
    # Read again: it may have ended between the two looks.
    last, at = folder.status(), folder.status_written_at()
    if is_over(folder, last):
        return last
    message = (
        "its supervisor was killed; what it left behind is ended by "
        f"`{names.CLI} delete {last.name} --on local`"
    )
    return store.lost_status(last, message, at)


def is_over(folder: store.RunFolder, last: RunStatus) -> bool:
    """Whether a run no longer needs a supervisor.

    A suspended run has ended here, too; an elastic one is still there, and can be resumed.
    """
    return last.finished or (last.phase is Phase.SUSPENDED and not folder.is_elastic)
