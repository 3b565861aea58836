"""Requests of the command line to a running elastic job: resize, suspend, resume.

Each is a file in the folder that the job's supervisor looks at (`board`). To scale is to make a
plan, as a master does, and the same rules hold for it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from allranks import atomic, names
from allranks.elastic.plans import status as plan_status
from allranks.elastic.scale_request import check, replica_resource_specs
from allranks.errors import InputError, NotFoundError, RunError
from allranks.local.elastic import shared_folder
from allranks.local.state import records
from allranks.model.status import Phase

if TYPE_CHECKING:
    from pathlib import Path

    from allranks.elastic.plans.status import Answer
    from allranks.elastic.scale_request import ScaleRequest
    from allranks.k8s.manifest import Manifest


def scale(name: str, namespace: str, scale_request: ScaleRequest) -> str:
    """Request another number of pods, or pods of another size.

    Args:
        name: the run.
        namespace: its namespace.
        scale_request: the size.

    Returns:
        The name of the plan that was made.

    Raises:
        InputError: there is no such run, it is not elastic, or its values do not allow it.
    """
    folder = _folder(name, namespace)
    job = json.loads((folder / shared_folder.JOB).read_text())
    check(job, scale_request)
    return _plan(folder, job, scale_request)


def plan_answer(name: str, namespace: str, plan: str) -> Answer:
    """The current status of a plan.

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
    path = folder.path / shared_folder.FOLDER / shared_folder.PLANS / f"{plan}.json"
    alive = folder.alive()  # before reading: what was written until its end is seen
    try:
        status = plan_status.read(json.loads(path.read_text()))
    except FileNotFoundError:
        raise NotFoundError(f"plan {plan} of run {name!r} is not there any more") from None
    if not alive and not status.over:
        raise RunError(f"run {name!r} ended before plan {plan} was carried out")
    return status


def check_changes(name: str, namespace: str) -> None:
    """Refuse a run whose size cannot change while it runs.

    Raises:
        InputError: there is no such run, it is not elastic, or it has ended.
    """
    _folder(name, namespace)


def suspend(name: str, namespace: str) -> bool:
    """Suspend an elastic run; return whether it was not suspended before.

    Raises:
        InputError: there is no such run, or it is not elastic.
    """
    path = _folder(name, namespace) / shared_folder.SUSPENDED
    is_requested = path.exists()
    path.touch()
    return not is_requested


def resume(name: str, namespace: str) -> bool:
    """Resume an elastic run; return whether it was suspended.

    Raises:
        InputError: there is no such run, or it is not elastic.
    """
    path = _folder(name, namespace) / shared_folder.SUSPENDED
    was = path.exists()
    path.unlink(missing_ok=True)
    return was


def _folder(name: str, namespace: str) -> Path:
    folder = records.existing(name, namespace)
    path = folder.path / shared_folder.FOLDER
    if not (path / shared_folder.JOB).is_file():
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


def _plan(folder: Path, job: Manifest, scale_request: ScaleRequest) -> str:
    """Write a plan under the first free name."""
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
            "spec": {
                "ownerJob": owner,
                "replicaResourceSpecs": replica_resource_specs(job, scale_request),
            },
        }
        if atomic.create(folder / shared_folder.PLANS / f"{name}.json", json.dumps(document)):
            return name
        number += 1
