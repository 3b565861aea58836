"""An MPIJob of kubeflow.org/v1alpha1, which has one template, as one of v1, which has two.

The launcher ran the template without its amounts, and the workers slept with them, so many that
they had the processing units that the job asks for. Shown by its controller's own sources:
pkg/controllers/v1alpha1/mpi_job_controller.go of kubeflow/mpi-operator (allocateProcessingUnits,
newConfigMap, newWorker, newLauncher).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from allranks.convert.chart_values import finish
from allranks.convert.jobs.rewrite import Rewrite
from allranks.convert.pods import pod_values
from allranks.convert.verdicts import METADATA, Conversion, Fields, Rules, carried, changed, lost
from allranks.errors import InputError
from allranks.k8s import fields as k8s

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allranks.convert.documents.context import Context
    from allranks.convert.documents.document import Manifest
    from allranks.convert.verdicts import FieldPath

VERSION = "kubeflow.org/v1alpha1"
_KIND = ("kubeflow.org", "MPIJob")
_GPU = "nvidia.com/gpu"
_BACKOFF_LIMIT = 6  # of the launcher's Job, which tries again whatever its restartPolicy is
SLEEP = ("sleep", "365d")  # what the operator has the workers run
_FOR_SPACE = "the launcher ran on a control plane's node; say so in mpi.launcher.podTemplate"
_LIMITS: FieldPath = ("spec", "template", "spec", "containers", 0, "resources", "limits")
# The fields of a number of units, and of those that a node has.
_TOTALS = (("gpus", "gpusPerNode"), ("processingUnits", "processingUnitsPerNode"))
_POLICY = ("backoffLimit", "activeDeadlineSeconds")
_RULES = Rules(
    (
        *METADATA,
        carried("spec.replicas", "mpi.numWorkers"),
        *(carried(f"spec.{total}", "mpi.numWorkers, gpusPerNode") for total, _ in _TOTALS),
        *(changed(f"spec.{node}", "gpusPerNode", "a worker has them all") for _, node in _TOTALS),
        changed("spec.processingResourceType", "gpusPerNode", "it says what the units are"),
        carried("spec.slotsPerWorker", "mpi.slotsPerWorker, or procsPerNode"),
        lost("spec.launcherOnMaster", _FOR_SPACE),
        *(carried(f"spec.{key}", f"runPolicy.{key}") for key in _POLICY),
        *pod_values.fields_at("spec.template"),
    )
)


@dataclass(frozen=True, slots=True)
class Allocation:
    """The workers that the operator makes.

    Attributes:
        workers: their number.
        units: how many processing units of the job each has; 0 where nothing says it.
        resource: the units' resource.
        source: the field that says how many there are in all.
    """

    workers: int
    units: int
    resource: str
    source: FieldPath

    @property
    def slots(self) -> int:
        """The slots of a worker, where the job does not say them."""
        return self.units or 1


def is_of_it(manifest: Mapping[str, Any]) -> bool:
    """Whether an object is such an MPIJob.

    Args:
        manifest: the object.
    """
    spec = k8s.mapping(manifest, "spec")
    return manifest.get("apiVersion") == VERSION and "template" in spec


def allocation(fields: Fields) -> Allocation:
    """The workers of an object.

    Args:
        fields: the object.

    Raises:
        InputError: a flag of the operator decides how many there are, or it makes none.
    """
    is_cpu = fields.text("spec", "processingResourceType") == "cpu"
    resource = "cpu" if is_cpu else _GPU
    for total_key, node_key in _TOTALS:
        total, per_node = (fields.number("spec", key) for key in (total_key, node_key))
        if total is None:
            continue
        if not per_node or total <= 0:
            raise InputError(
                "how many of them a node has is a flag of the old operator's",
                path=f"spec.{total_key}",
                hint=f"say it in the job, as {node_key}: 8",
            )
        if total % per_node and total > per_node:
            raise InputError(
                f"{total} is no multiple of {node_key}, which is {per_node}: the old operator "
                "makes no workers of it",
                path=f"spec.{total_key}",
                hint=f"make it a multiple of {per_node}",
            )
        workers = max(1, total // per_node)
        return Allocation(workers, min(total, per_node), resource, ("spec", total_key))
    units = fields.number(*_LIMITS, resource) or 0
    count = fields.number("spec", "replicas")
    if count is None and fields.has("spec", "replicas"):
        raise InputError(
            f"{fields.get('spec', 'replicas')!r} is no number of workers",
            path="spec.replicas",
            hint="write a whole number, as in replicas: 2",
        )
    return Allocation(count or 0, units, resource, ("spec", "replicas"))


def convert(manifest: Manifest, context: Context) -> Conversion:
    """Such an MPIJob as values.

    Args:
        manifest: the object.
        context: what else is known.

    Raises:
        InputError: nobody here knows how many workers it has, or it is none.
    """
    fields = Fields(manifest, rules=_RULES, unknown="an MPIJob of v1alpha1 has no such field")
    own = allocation(fields)
    target = Rewrite(fields)
    target.put(("apiVersion",), "kubeflow.org/v1")  # which reaches the workers by the API as well
    target.copy(("metadata",), ("metadata",))
    target.put(("spec", "runPolicy", "backoffLimit"), _BACKOFF_LIMIT)
    for key in _POLICY:
        target.copy(("spec", key), ("spec", "runPolicy", key))
    if not target.copy(("spec", "slotsPerWorker"), ("spec", "slotsPerWorker")):
        target.put(("spec", "slotsPerWorker"), own.slots)
    # Its controller took the workers away with the end of the launcher.
    target.put(("spec", "cleanPodPolicy"), "Running")
    specs: FieldPath = ("spec", "mpiReplicaSpecs")
    # The launcher comes last: of a field that both have, what became of it there is said.
    for role in ("Worker", "Launcher") if own.workers else ("Launcher",):
        to: FieldPath = (*specs, role, "template")
        target.copy(("spec", "template"), to)
        target.put((*specs, role, "restartPolicy"), "OnFailure")
        main: FieldPath = (*to, "spec", "containers", 0)
        container = target.get(main)
        if not isinstance(container, dict):
            continue
        for key in ("resources",) if role == "Launcher" else ("args",):
            container.pop(key, None)
        if role == "Worker":
            target.put((*main, "command"), list(SLEEP))
            if own.units and own.source[-1] != "replicas":  # where the template says it itself
                target.put((*main, "resources", "limits", own.resource), str(own.units))
                target.also(own.source, (*main, "resources", "limits", own.resource))
                target.also((*_LIMITS, own.resource), (*main, "resources", "limits", own.resource))
    if own.workers:
        target.put((*specs, "Worker", "replicas"), own.workers)
        target.also(own.source, (*specs, "Worker", "replicas"))
    queue = target.convert(_KIND, context).queue
    if own.source[-1] != "replicas" and str(fields.get(*_LIMITS, own.resource)) != str(own.units):
        fields.change((*_LIMITS, own.resource), f"the old operator wrote {own.units} in its place")
    return finish.conversion(fields, queue=queue)
