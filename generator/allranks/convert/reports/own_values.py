"""Why a value is there that no field of the source has: the converter puts it in.

A chart's default would have the run do something else than it did before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from allranks.convert.programs import rank_variables

if TYPE_CHECKING:
    from allranks.convert.verdicts import FieldPath

_OF_COMMAND = "as its command says"
_NO_RESTARTS = "torchrun starts no ranks again within a pod"
# The place of a value, what it says there where that matters, and why; the first that fits counts.
_REASONS: tuple[tuple[FieldPath, Any, str], ...] = (
    (("trackers", "mode"), "none", "no tracker is told of the run"),
    (("torchrun", "maxRestarts"), 0, _NO_RESTARTS),
    (
        ("torchrun", "port"),
        rank_variables.OTHER_PORT,
        "where the chart's rendezvous is in nobody's way",
    ),
    (("torchrun", "port"), None, _OF_COMMAND),
    (("torchrun", "rdzvBackend"), None, _OF_COMMAND),
    (("torchrun", "tee"), None, _OF_COMMAND),
    (("torchrun", "controller"), None, "which made the pods before"),
    (("sweep", "trial", "values", "torchrun", "maxRestarts"), 0, _NO_RESTARTS),
    (("sweep", "trial", "values", "torchrun", "rdzvBackend"), None, _OF_COMMAND),
    (("sweep", "trial", "workload"), None, "what each trial is"),
    (("mpi", "ownMpirun"), True, "what it runs calls mpirun itself"),
    (("elastic", "framework"), None, "by which the pods are told of each other"),
    (("compat",), "slurm", "for the variables that Slurm sets"),
    (("slurm", "unset"), None, "variables that Slurm does not set for such a job"),
    (("runPolicy", "backoffLimit"), 0, "a run that fails does not start again"),
    (("security", "restricted"), False, "pods run as the image's own user, which may be root"),
    (
        ("security", "podSecurityContext", "runAsUser"),
        None,
        "not root, as nobody who submits to Slurm is",
    ),
    (("shm", "size"), None, "as a node has it: a container has 64 MiB"),
    (("network", "waitSeconds"), None, "pods waited for each other without a limit"),
    (("procsPerNode",), None, "the processes of each pod"),
    (("nodes",), 1, "one, as nothing says more"),
    (("image", "repository"), "pytorch/pytorch", "it has PyTorch alone: name your own"),
)
PLACES = tuple(dict.fromkeys(place for place, _, _ in _REASONS))


def reason(place: FieldPath, value: Any) -> str:
    """Why a value without a field of the source is there; "" where that is not known.

    Args:
        place: the value's place.
        value: the value.
    """
    return next(
        (
            words
            for own, expected, words in _REASONS
            if own == place and (expected is None or value == expected)
        ),
        "",
    )
