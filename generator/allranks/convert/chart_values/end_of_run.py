"""With whose end a run is over, where the old controller let other pods go on.

A run of ranks is over with the pod of rank 0, whose torchrun waits a few minutes for the others,
and a job of roles with those that lead it. A Job of Kubernetes waits for all of its pods, and the
training operator leaves pods that still work where nobody says that they end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks import names
from allranks.k8s import fields as k8s

if TYPE_CHECKING:
    from allranks.convert.verdicts import Fields

_BESIDE_WORKERS = (names.ROLE_CHIEF, names.ROLE_PS, names.ROLE_EVALUATOR, "scheduler", "server")
_WORKER = "worker"
# What the training operator does where the object has no policy.
OF_OPERATOR = "the operator lets them go on without a cleanPodPolicy"
OF_TFJOB = f"{OF_OPERATOR} (tf-operator, which was before it, ended them as well)"
# A cleanPodPolicy then finds no pod that still works.
OF_WORKERS = "without a Master a PyTorchJob is done when all of its workers are"
OF_JOB = "a Job is done when all of its pods are"


_BEFORE = "are ended, which they were not before"


def note(fields: Fields, before: str) -> None:
    """Note with whose end the run is over, where pods may be left then.

    Args:
        fields: the object, converted.
        before: what the old controller did with them.
    """
    workload = fields.values.get("workload")
    backend = k8s.text(fields.values, "torchrun", "rdzvBackend")
    # With a backend that is not the chart's own the run's Job waits for all of its pods, unless
    # their number may change (charts/torchrun/templates/job.yaml).
    is_own = backend in ("", "c10d") or k8s.at(fields.values, "torchrun", "elastic", "maxNodes")
    if workload == "torchrun" and fields.values.get("nodes", 1) != 1 and is_own:
        fields.note(
            "the run is over when rank 0's pod is done, whose torchrun waits some minutes for the "
            f"others, and pods that still work then {_BEFORE}: {before}"
        )
    elif workload == "elastic" and (end := _of_roles(fields)):
        fields.note(
            f"the run is over with {end}, and pods that still work then {_BEFORE}: {before}"
        )


def take_back(fields: Fields) -> None:
    """Take the note back, of a job that somebody else ends and deletes with its first end."""
    fields.notes[:] = [note for note in fields.notes if _BEFORE not in note]


def _of_roles(fields: Fields) -> str:
    """The pods with whose end a job of roles is over; "" where there are no others."""
    own = k8s.mapping(fields.values, "elastic")
    counts = {role: k8s.at(own, "roles", role, "replicas") or 0 for role in _BESIDE_WORKERS}
    counts[_WORKER] = fields.values.get("nodes", 1)
    has_lead = own.get("framework") == "tensorflow" and own.get("successPolicy") != "allWorkers"
    has_lead |= own.get("successPolicy") == "lead"
    if has_lead and counts[names.ROLE_CHIEF]:
        end, ending = "its chief", counts[names.ROLE_CHIEF]
    elif has_lead and counts[_WORKER] > 1:
        end, ending = "its first worker", 1
    else:
        end, ending = "its workers", counts[_WORKER]
    return end if ending < sum(counts.values()) else ""
