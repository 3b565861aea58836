"""What the command line asks of an elastic job that goes on: another size, a pause, an end of it.

Each is a file in the folder that the job's supervisor looks at (`board`). To scale is to make a
plan, as a master does, and the same rules hold for it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from allranks import names
from allranks.elastic import answer
from allranks.elastic.wish import asked, check
from allranks.errors import InputError, NotFoundError, RunError
from allranks.local import records
from allranks.local.elastic import board
from allranks.model.status import Phase

if TYPE_CHECKING:
    from pathlib import Path

    from allranks.elastic.answer import Answer
    from allranks.elastic.wish import Wish
    from allranks.model.manifest import Manifest


def scale(name: str, namespace: str, wish: Wish) -> str:
    """Ask an elastic run for another number of pods, or for pods of another size.

    Args:
        name: the run.
        namespace: its namespace.
        wish: the size.

    Returns:
        The name of the plan that was made.

    Raises:
        InputError: there is no such run, it is not elastic, or its values do not allow it.
    """
    folder = _folder(name, namespace)
    job = json.loads((folder / board.JOB).read_text())
    check(job, wish)
    return _plan(folder, job, wish)


def plan_answer(name: str, namespace: str, plan: str) -> Answer:
    """What is said of a plan of an elastic run now.

    Args:
        name: the run.
        namespace: its namespace.
        plan: the plan.

    Raises:
        InputError: there is no such run.
        NotFoundError: the plan is not there any more.
        RunError: the run has ended without it.
    """
    folder = records.existing(name, namespace)
    path = folder.path / board.FOLDER / board.PLANS / f"{plan}.json"
    alive = folder.alive()  # before reading: what was written until its end is seen
    try:
        found = answer.read(json.loads(path.read_text()))
    except FileNotFoundError:
        raise NotFoundError(f"plan {plan} of run {name!r} is not there any more") from None
    if not alive and not found.over:
        raise RunError(f"run {name!r} ended before plan {plan} was carried out")
    return found


def check_changes(name: str, namespace: str) -> None:
    """Make sure that a run can change while it runs.

    Raises:
        InputError: there is no such run, it is not elastic, or it has ended.
    """
    _folder(name, namespace)


def suspend(name: str, namespace: str) -> bool:
    """Take all pods away from an elastic run, and keep it; whether it had not been asked before.

    Raises:
        InputError: there is no such run, or it is not elastic.
    """
    path = _folder(name, namespace) / board.SUSPENDED
    asked = path.exists()
    path.touch()
    return not asked


def resume(name: str, namespace: str) -> bool:
    """Give a suspended elastic run its pods again; whether it was suspended.

    Raises:
        InputError: there is no such run, or it is not elastic.
    """
    path = _folder(name, namespace) / board.SUSPENDED
    was = path.exists()
    path.unlink(missing_ok=True)
    return was


def _folder(name: str, namespace: str) -> Path:
    folder = records.existing(name, namespace)
    path = folder.path / board.FOLDER
    if not (path / board.JOB).is_file():
        if records.read_status(folder).phase is Phase.SUSPENDED:
            raise InputError(
                f"the local run {name!r} was suspended from its start: no process of it is here",
                hint="run it again without runPolicy.suspend",
            )
        raise InputError(
            f"the local run {name!r} is as it was started: it cannot be scaled or suspended",
            hint="on this machine only an elastic job of mode auto can change while it runs",
        )
    if not folder.alive():
        raise InputError(
            f"the local run {name!r} has ended",
            hint=f"`{names.CLI} run` with its values and this name starts it again",
        )
    return path


def _plan(folder: Path, job: Manifest, wish: Wish) -> str:
    """Write a plan under the first name that nobody has."""
    owner, namespace = str(job["metadata"]["name"]), str(job["metadata"]["namespace"])
    number = 0
    while True:
        name = f"{owner}-scale-{number}"
        document: Manifest = {
            "apiVersion": names.ELASTIC_API_VERSION,
            "kind": names.SCALE_PLAN,
            "metadata": {
                "name": name,
                "namespace": namespace,
                "labels": {names.SCALE_TYPE: "manual", names.EDL_NAME: owner},
            },
            "spec": {"ownerJob": owner, "replicaResourceSpecs": asked(job, wish)},
        }
        if board.make_file(folder / board.PLANS / f"{name}.json", json.dumps(document)):
            return name
        number += 1
