"""`managedBy`: which controller carries an object out, its own or that of another cluster.

All kinds that have the field mean the same by it. Its own controller is what carries it out where
the field is not there, and a release is no worse without it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from allranks.convert.verdicts import MANAGED_BY, Fields, Outcome

if TYPE_CHECKING:
    from allranks.convert.verdicts import Conversion

# Sources: the API of each kind: RunPolicy.managedBy of the Training Operator and the MPI Operator,
# and spec.managedBy of Trainer, JobSet, Job and AppWrapper.
_OWN_CONTROLLERS = (
    "kubeflow.org/training-operator",
    "kubeflow.org/mpi-operator",
    "trainer.kubeflow.org/trainjob-controller",
    "jobset.sigs.k8s.io/jobset-controller",
    "kubernetes.io/job-controller",
    "workload.codeflare.dev/appwrapper",
)


def checked(conversion: Conversion, source: dict[str, Any]) -> Conversion:
    """A conversion in whose report an object's own controller is no loss.

    Args:
        conversion: the conversion.
        source: the object that was converted.
    """
    fields = Fields(source)
    verdicts = tuple(
        replace(verdict, outcome=Outcome.CARRIED, to="its own controller", why="")
        if verdict.why == MANAGED_BY.why and fields.get(*verdict.keys) in _OWN_CONTROLLERS
        else verdict
        for verdict in conversion.verdicts
    )
    return replace(conversion, verdicts=verdicts)
