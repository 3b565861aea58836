"""Workers of an MPIJob that its operator never makes anew, and a run does.

Source: pkg/apis/kubeflow/v2beta1/default.go and pkg/controller/mpi_job_controller.go of
kubeflow/mpi-operator, and those of v1. The workers of v1alpha2 are a StatefulSet's.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from allranks.k8s import fields as k8s

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allranks.convert.verdicts import Conversion

_VERSIONS = ("kubeflow.org/v1", "kubeflow.org/v2beta1")
_NOTE = (
    "a worker without a restartPolicy in its replica spec (that of its template counts for "
    "nothing) is one that the operator never makes anew, and one that is evicted fails the job; "
    "here a worker that fails, or that its node has lost, is replaced"
)


def noted(conversion: Conversion, source: Mapping[str, Any]) -> Conversion:
    """A conversion that says so of an MPIJob whose workers have no restart policy.

    Args:
        conversion: the conversion.
        source: the object that was converted.
    """
    is_mpi = source.get("kind") == "MPIJob" and source.get("apiVersion") in _VERSIONS
    worker = k8s.mapping(source, "spec", "mpiReplicaSpecs", "Worker")
    if not is_mpi or not worker or worker.get("restartPolicy") is not None:
        return conversion
    return replace(conversion, notes=(*conversion.notes, _NOTE))
