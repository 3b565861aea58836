"""The runtimes that TrainJobs name and no file has, read from a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from allranks.convert.documents.context import Context
from allranks.convert.documents.document import Document
from allranks.convert.kinds import runtimes
from allranks.errors import AllranksError, InputError
from allranks.k8s.fields import mapping, text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from allranks.cluster.interface import KubeClient

_PLURALS = {
    "ClusterTrainingRuntime": "clustertrainingruntimes",
    "TrainingRuntime": "trainingruntimes",
}


def missing(
    documents: Sequence[Document], runtime_documents: Sequence[Document]
) -> list[tuple[Document, str, str]]:
    """The runtimes that TrainJobs name and that neither the input nor Trainer itself has.

    Args:
        documents: the objects of the input.
        runtime_documents: those of --runtime.

    Returns:
        For each the first object that names it, its kind and its name.
    """
    context = Context(tuple(documents), tuple(runtime_documents))
    absent: dict[tuple[str, str], Document] = {}
    for document in documents:
        if document.group != runtimes.GROUP:
            continue
        own_context = context.seen_from(document)
        for spec in _train_job_specs(document):
            reference = mapping(spec, "runtimeRef")
            kind = text(reference, "kind") or runtimes.CLUSTER
            key = (kind, text(reference, "name"))
            if (
                key[1]
                and kind in _PLURALS
                and own_context.find(*key) is None
                and key[1] not in runtimes.BUILT_IN
            ):
                absent.setdefault(key, document)
    return [(document, *key) for key, document in absent.items()]


def _train_job_specs(document: Document) -> Iterator[Any]:
    if document.kind == "TrainJob":
        yield mapping(document.data, "spec")
    elif document.kind == "OptimizationJob":
        yield mapping(document.data, "spec", "trainJobTemplate", "spec")


def read(
    cluster: KubeClient, references: Iterable[tuple[Document, str, str]], namespace: str = ""
) -> list[Document]:
    """Runtimes as a cluster has them: one request for each.

    Args:
        cluster: the cluster.
        references: the runtimes that are missing.
        namespace: the namespace of the runs; "" for the objects' own, or the cluster's.

    Raises:
        InputError: the cluster does not answer, forbids it, or has none of that name.
    """
    result = []
    for document, kind, name in references:
        version = str(document.data.get("apiVersion")).rpartition("/")[2]
        path = f"apis/{runtimes.GROUP}/{version}/{_PLURALS[kind]}"
        is_of_cluster = kind == runtimes.CLUSTER
        place = "" if is_of_cluster else namespace or document.namespace or cluster.namespace
        try:
            data = cluster.get(path, name, namespace=place)
        except AllranksError as error:
            reason = str(error).partition("\n")[0]
            raise InputError(
                f"the runtime {name} is not in the input, and the cluster does not give it: "
                f"{reason}",
                path="spec.runtimeRef.name",
                source=document.where,
                hint=f"give it with --runtime FILE: kubectl get {kind.lower()} {name} -o yaml "
                "> FILE",
            ) from error
        result.append(Document({"kind": kind, **data}, f"{kind} {name} of {cluster.where}"))
    return result
