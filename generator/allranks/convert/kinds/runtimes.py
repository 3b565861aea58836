"""Trainer's runtimes: those that a TrainJob may name without bringing them along.

What is here of each is what Trainer's own manifests have in common from version to version; images
move on, and a cluster's own runtime says which it has.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from allranks.convert.verdicts import Conversion, Fields
from allranks.k8s.fields import mapping, texts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from allranks.convert.documents.document import Document
    from allranks.convert.jobs.rewrite import Rewrite
    from allranks.convert.verdicts import FieldPath, Verdict
    from allranks.k8s.manifest import Manifest

GROUP = "trainer.kubeflow.org"
KINDS = ("TrainingRuntime", "ClusterTrainingRuntime")
CLUSTER = "ClusterTrainingRuntime"
NODE = "node"
LAUNCHER = "launcher"
_TRAINER = "trainer"  # what Trainer called its container before
# The label that says over which replicated job Trainer lays a TrainJob's spec.trainer.
STEP = "trainer.kubeflow.org/trainjob-ancestor-step"

_TORCH_IMAGE = "pytorch/pytorch"
_OF_TRAINER = "ghcr.io/kubeflow/trainer"


def labelled(jobs: Iterable[Manifest]) -> Manifest | None:
    """The replicated job that is labelled as the one that trains; None for none."""
    return next(
        (
            job
            for job in jobs
            if mapping(job, "template", "metadata", "labels").get(STEP) == "trainer"
        ),
        None,
    )


def main_container(names: Sequence[str]) -> str:
    """The name of the container over which a TrainJob's spec.trainer is laid.

    Trainer lays it over the container node, which it called trainer before.

    Args:
        names: the names of a template's containers.
    """
    return next((name for name in (NODE, _TRAINER) if name in names), [*names, NODE][0])


def knows_others(trainjob: Mapping[str, Any], container: Mapping[str, Any]) -> bool:
    """Whether the torchrun of a TrainJob's pods is told of the other pods.

    Trainer sets its variables in the container node, which it called trainer before, of a TrainJob
    with spec.trainer. A command may say it itself.

    Args:
        trainjob: the object.
        container: the container that trains, with what the TrainJob lays over it.
    """
    own_words = " ".join(word for key in ("command", "args") for word in texts(container.get(key)))
    is_laid = mapping(trainjob, "spec").get("trainer") is not None
    return (is_laid and container.get("name") in (NODE, _TRAINER)) or "nnodes" in own_words


def origins(
    document: Document,
    target: Rewrite,
    origins_of: Mapping[FieldPath, FieldPath],
    verdicts: Iterable[Verdict],
) -> Conversion:
    """What the values of a TrainJob have of its runtime, as a conversion without values.

    Args:
        document: the runtime.
        target: the object that the two are written as.
        origins_of: by the path of a value, the path of the field of that object.
        verdicts: what became of each of the runtime's fields.
    """
    fields = Fields(document.data)
    places = {to: target.runtime_field(path) for to, path in origins_of.items()}
    return Conversion(
        kind=document.kind,
        name=document.name,
        namespace=document.namespace,
        values={},
        verdicts=tuple(
            replace(verdict, line=document.line_of(verdict.keys)) for verdict in verdicts
        ),
        source=document.source,
        line=document.line,
        origins={to: path for to, path in places.items() if path and fields.has(*path)},
        manifest=document.data,
        lines=document.field_lines(),
    )


def _pods(name: str, image: str, container: Mapping[str, Any] | None = None) -> dict[str, Any]:
    own = {"name": NODE, "image": image, **(container or {})}
    return {"name": name, "template": {"spec": {"template": {"spec": {"containers": [own]}}}}}


def _runtime(policy: Mapping[str, Any], *jobs: Mapping[str, Any]) -> dict[str, Any]:
    spec = {
        "mlPolicy": {"numNodes": 1, **policy},
        "template": {"spec": {"replicatedJobs": [*jobs]}},
    }
    return {"spec": spec}


def _mpi(image: str) -> dict[str, Any]:
    user = {"securityContext": {"runAsUser": 1000}}
    sshd = {"command": ["/usr/sbin/sshd"], "args": ["-De", "-f", "/home/mpiuser/.sshd_config"]}
    policy = {
        "mpi": {
            "numProcPerNode": 1,
            "mpiImplementation": "OpenMPI",
            "sshAuthMountPath": "/home/mpiuser/.ssh",
            "runLauncherAsNode": True,
        }
    }
    return _runtime(policy, _pods(NODE, image, {**user, **sshd}), _pods(LAUNCHER, image, user))


# The runtimes of Trainer's own manifests, by name.
BUILT_IN: dict[str, dict[str, Any]] = {
    "torch-distributed": _runtime({"torch": {}}, _pods(NODE, _TORCH_IMAGE)),
    "deepspeed-distributed": _mpi(f"{_OF_TRAINER}/deepspeed-runtime"),
    "mlx-distributed": _mpi(f"{_OF_TRAINER}/mlx-runtime"),
    "jax-distributed": _runtime({"jax": {}}, _pods(NODE, "nvcr.io/nvidia/jax")),
    "xgboost-distributed": _runtime({"xgboost": {}}, _pods(NODE, f"{_OF_TRAINER}/xgboost-runtime")),
}
# Of these the command is what matters, and it differs from version to version.
TORCHTUNE_PREFIX = "torchtune-"
