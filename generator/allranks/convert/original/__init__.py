"""The pods that another project's controller makes of its object, as plain data.

They are what a conversion is held against: `allranks convert --check`, and the tests that a
converted job runs the same pods.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from allranks.convert.documents import namespaces
from allranks.convert.original import templates
from allranks.k8s.fields import items, mapping, text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from allranks.convert.documents.document import Manifest


@dataclass(frozen=True, slots=True)
class OriginalPod:
    """A pod that a controller makes.

    Attributes:
        name: its name.
        role: the role that such a pod has here: node, launcher, worker, ps, …
        index: its number in its role.
        template: its labels, annotations and PodSpec, with what the controller adds to the latter.
        container: the name of the container that trains.
        env: the variables that the controller adds to that container.
        files: the text of each file that it mounts, by path.
        world: how many ranks the job has; 0 where the controller does not say.
        ranks: how many of them the pod starts; 0 where the command says it alone.
        claims: the names of the claims that the controller makes for the job.
    """

    name: str
    role: str
    index: int
    template: Mapping[str, Any]
    container: str
    env: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    world: int = 0
    ranks: int = 0
    claims: tuple[str, ...] = ()

    @property
    def spec(self) -> Mapping[str, Any]:
        """Its PodSpec."""
        return mapping(self.template, "spec")

    def with_spec(self, spec: Mapping[str, Any]) -> OriginalPod:
        """The pod with another PodSpec."""
        return replace(self, template={**self.template, "spec": spec})

    @property
    def main(self) -> Mapping[str, Any]:
        """The container that trains; an empty one where there is none."""
        own = (item for item in items(self.spec, "containers") if self._is_main(item))
        return next(own, {})

    def with_main(self, **changes: Any) -> OriginalPod:
        """The pod with other fields of the container that trains."""
        containers = [
            {**item, **changes} if self._is_main(item) else item
            for item in items(self.spec, "containers")
        ]
        return self.with_spec({**self.spec, "containers": containers})

    def _is_main(self, container: Mapping[str, Any]) -> bool:
        return text(container, "name") == self.container


# The module of each kind, by API group and kind: "module:function".
ORIGINALS: dict[tuple[str, str], str] = {
    ("kubeflow.org", "PyTorchJob"): "pytorch:pods",
    ("kubeflow.org", "TFJob"): "tensorflow:pods",
    ("kubeflow.org", "MPIJob"): "mpi:pods",
    ("batch.test.bdap.com", "MPIJob"): "mpi:pods_of_seed",
    ("kubeflow.org", "MXJob"): "mxnet:pods",
    ("fioravanzo.org", "MXJob"): "mxnet:pods_of_list",
    ("mpba.fbk.eu", "MXJob"): "mxnet:pods_of_bare_list",
    ("mpba.fbk.eu", "TFJob"): "tensorflow:pods_of_bare_list",
    ("kubeflow.org", "XGBoostJob"): "ranked:pods",
    ("kubeflow.org", "PaddleJob"): "ranked:pods",
    ("kubeflow.org", "JAXJob"): "ranked:pods",
    ("elastic.iml.github.io", "ElasticJob"): "dlrover:pods",
    ("torchrun.ai", "TorchrunJob"): "torchrun:pods",
    ("sagemaker.amazonaws.com", "HyperPodPyTorchJob"): "sets:pods_of_hyperpod",
    ("sagemaker.amazonaws.com", "HyperPodPytorchJob"): "sets:pods_of_hyperpod",
    ("jobset.x-k8s.io", "JobSet"): "sets:pods_of_jobset",
    ("batch", "Job"): "sets:pods_of_job",
    ("apps", "StatefulSet"): "sets:pods_of_statefulset",
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): "sets:pods_of_leaderworkerset",
    ("batch.volcano.sh", "Job"): "sets:pods_of_volcano",
    ("trainer.kubeflow.org", "TrainJob"): "trainjob:pods",
    ("workload.codeflare.dev", "AppWrapper"): "appwrapper:pods",
    ("torchx.pytorch.org", "AppDef"): "appdef:pods",
}


# Kinds whose pods are described by another object as well.
_WITH_OTHERS = ("TrainJob", "TorchrunJob")


def pods(manifest: Manifest, others: Iterable[Manifest] = ()) -> list[OriginalPod] | None:
    """The pods of an object.

    Args:
        manifest: the object.
        others: the objects beside it.

    Returns:
        None where nobody here knows what its controller makes.

    Raises:
        InputError: they are more than values may have.
    """
    group = str(manifest.get("apiVersion") or "").partition("/")[0]
    name = ORIGINALS.get((group, str(manifest.get("kind"))))
    if name is None:
        return None
    module, _, function = name.partition(":")
    make = getattr(importlib.import_module(f"{__name__}.{module}"), function)
    is_described = manifest.get("kind") in _WITH_OTHERS
    result: list[OriginalPod] | None
    if is_described:
        result = make(manifest, namespaces.nearest_first(others, namespaces.of(manifest)))
    else:
        result = make(manifest)
    templates.check_count(len(result or ()))
    return result
