"""Which kinds can be converted, and by what; the others of an input are named.

The converter of a kind is imported when an object of that kind is met. It is a function of the
object and of the `Context`, which has the other objects of the input: a job may be described by
several of them.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from allranks.convert import near_words
from allranks.convert.chart_values import retry_limits, waits
from allranks.convert.documents import namespaces
from allranks.convert.documents.document import Document, Manifest, keys_of
from allranks.convert.inputs import (
    api_server,
    configmap_files,
    host_ports,
    label_selectors,
    managed_by,
    master_services,
    misspelt_keys,
    operator_containers,
    quoted_numbers,
    related_objects,
    same_names,
    slash_comments,
    unknown_fields,
    unquoted_names,
    unquoted_texts,
    untried_workers,
    watched_keys,
)
from allranks.convert.pods import kubeflow_pod_names, missing_volumes
from allranks.errors import InputError, InvalidValues, Problem
from allranks.humanize import plural
from allranks.k8s.object_names import is_dns_1123_label

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from allranks.convert.documents.context import Context
    from allranks.convert.verdicts import Beside, Conversion

_KINDS_FOLDER = "allranks.convert.kinds"
# The converter of each kind: by API group and kind, "module:function".
KINDS: dict[tuple[str, str], str] = {
    ("jobset.x-k8s.io", "JobSet"): "jobset:convert",
    ("batch", "Job"): "job:convert",
    ("apps", "StatefulSet"): "statefulset:convert",
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): "leaderworkerset:convert",
    ("batch.volcano.sh", "Job"): "volcano:convert",
    ("trainer.kubeflow.org", "TrainJob"): "trainjob:convert",
    ("trainer.kubeflow.org", "OptimizationJob"): "optimizationjob:convert",
    ("kubeflow.org", "Experiment"): "experiment:convert",
    ("workload.codeflare.dev", "AppWrapper"): "appwrapper:convert",
    ("torchx.pytorch.org", "AppDef"): "appdef:convert",
    ("kubeflow.org", "PyTorchJob"): "pytorch:convert",
    ("kubeflow.org", "TFJob"): "tensorflow:convert",
    ("kubeflow.org", "MPIJob"): "mpi:convert",
    ("kubeflow.org", "MXJob"): "mxnet:convert",
    ("kubeflow.org", "XGBoostJob"): "ranked:convert",
    ("kubeflow.org", "PaddleJob"): "ranked:convert",
    ("kubeflow.org", "JAXJob"): "ranked:convert",
    ("elastic.iml.github.io", "ElasticJob"): "dlrover:convert",
    ("fioravanzo.org", "MXJob"): "mxnet:convert_list",
    ("mpba.fbk.eu", "MXJob"): "mxnet:convert_bare_list",
    ("mpba.fbk.eu", "TFJob"): "mxnet:convert_bare_list",
    ("batch.test.bdap.com", "MPIJob"): "mpi:convert",
    ("sagemaker.amazonaws.com", "HyperPodPyTorchJob"): "hyperpod:convert",
    ("sagemaker.amazonaws.com", "HyperPodPytorchJob"): "hyperpod:convert",
    ("torchrun.ai", "TorchrunJob"): "torchrun:convert",
    ("torchrun.ai", "TorchrunQueue"): "torchrun:convert_queue",
    ("torchrun.ai", "JobQueue"): "torchrun:convert_queue",
}
_RAY = "allranks starts ranks, and no Ray cluster"
_KEEP_RAY = "keep KubeRay for it, or run its training script with torchrun"
_SERVES = "it serves a model, and allranks runs jobs that end"
_STEPS = "it is a graph of steps, and a release of allranks is one job"
_STEP_HINT = "give the manifest of the step that trains, and have the graph call `allranks run`"
_TIMED = "it starts jobs at times, and allranks starts one"
_TIMED_HINT = "give the job in its template, and have a CronJob call `allranks run`"
_SPARK = "allranks starts ranks, and no Spark driver"
# Kinds of jobs that have no form here: by API group and kind, why, and what to use.
REFUSED: dict[tuple[str, str], tuple[str, str]] = {
    ("ray.io", "RayJob"): (_RAY, _KEEP_RAY),
    ("ray.io", "RayCluster"): (_RAY, _KEEP_RAY),
    ("ray.io", "RayCronJob"): (_RAY, _KEEP_RAY),
    ("ray.io", "RayService"): (_SERVES, "keep KubeRay for it"),
    ("serving.kserve.io", "InferenceService"): (_SERVES, "keep KServe for it"),
    ("sparkoperator.k8s.io", "SparkApplication"): (_SPARK, "keep the Spark operator for it"),
    ("sparkoperator.k8s.io", "ScheduledSparkApplication"): (
        _SPARK,
        "keep the Spark operator for it",
    ),
    ("flink.apache.org", "FlinkDeployment"): (_SERVES, "keep the Flink operator for it"),
    ("argoproj.io", "Workflow"): (_STEPS, _STEP_HINT),
    ("argoproj.io", "WorkflowTemplate"): (_STEPS, _STEP_HINT),
    ("argoproj.io", "CronWorkflow"): (_STEPS, _STEP_HINT),
    ("tekton.dev", "Pipeline"): (_STEPS, _STEP_HINT),
    ("tekton.dev", "PipelineRun"): (_STEPS, _STEP_HINT),
    ("tekton.dev", "TaskRun"): (_STEPS, _STEP_HINT),
    ("flow.volcano.sh", "JobFlow"): (_STEPS, _STEP_HINT),
    ("flow.volcano.sh", "JobTemplate"): (_STEPS, _STEP_HINT),
    ("batch", "CronJob"): (_TIMED, _TIMED_HINT),
    ("batch.volcano.sh", "CronJob"): (_TIMED, _TIMED_HINT),
}
# Kinds that may be a job, and may as well serve or prepare something beside a job.
_MAYBE = (
    ("batch", "Job"),
    ("apps", "StatefulSet"),
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"),
    ("batch", "CronJob"),
    ("batch.volcano.sh", "CronJob"),
)


@dataclass(frozen=True, slots=True)
class Result:
    """What became of an input.

    Attributes:
        conversions: the jobs, as values, in their order.
        beside: the objects beside them, and what to do about each.
        unknown: the objects among these whose kind says nothing to anybody here.
    """

    conversions: tuple[Conversion, ...]
    beside: tuple[Beside, ...] = ()
    unknown: tuple[Document, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether nothing is lost."""
        return not any(conversion.lost for conversion in self.conversions)


def is_job(document: Document) -> bool:
    """Whether an object is one that is converted, or refused for what it is."""
    key = (document.group, document.kind)
    return key in KINDS or key in REFUSED


def convert_all(
    documents: Iterable[Document],
    context: Context,
    watch: Callable[[str], None] = lambda _line: None,
) -> Result:
    """Convert all jobs of an input.

    Args:
        documents: the objects of the input.
        context: what else is known; its `documents` are filled in here.
        watch: is told how far it is, in words.

    Raises:
        InvalidValues: some of them cannot be converted; every problem is in it.
        InputError: there is no job among them.
    """
    context = replace(context, documents=tuple(documents))
    conversions: list[Conversion] = []
    certain: list[tuple[Document, Sequence[Problem]]] = []
    uncertain: list[tuple[Document, Sequence[Problem]]] = []
    others: list[Document] = []
    part_ids = _parts(context)
    split = master_services.refusals([document.data for document in context.documents])
    for number, document in enumerate(context.documents):
        watch(f"{number:,} of {plural(len(context.documents), 'object')} converted")
        if not is_job(document):
            others.append(document)
            continue
        if id(document.data) in part_ids:
            continue
        try:
            if id(document.data) in split and (document.group, document.kind) not in REFUSED:
                raise split[id(document.data)]
            conversions.append(convert_document(document, context))
        except InputError as error:
            own = error.problems if isinstance(error, InvalidValues) else (error.problem,)
            (uncertain if _is_maybe(document) else certain).append((document, own))
    if certain or not conversions:
        problems = [
            _located(problem, document)
            for document, own in (*certain, *uncertain)
            for problem in own
        ]
        if problems:
            raise InvalidValues(problems)
    others += [document for document, _ in uncertain]
    if not conversions:
        place = f"{others[0].source}:{others[0].line}" if others else ""
        raise InputError(_nothing(others), hint=_hint(others), source=place)
    reasons = {
        id(document.data): own[0].message
        for document, own in uncertain
        if (document.group, document.kind) not in REFUSED
    }
    neighbours, unknown = related_objects.of(others, conversions, reasons)
    jobs = tuple(
        related_objects.with_unseen_hosts(related_objects.with_pod_groups(item, others), others)
        for item in same_names.noted(conversions)
    )
    return Result(jobs, neighbours, unknown)


def _is_maybe(document: Document) -> bool:
    """Whether an object may as well be no job, but something beside one."""
    return (document.group, document.kind) in _MAYBE


def convert_document(document: Document, context: Context) -> Conversion:
    """Convert one job.

    Args:
        document: the job.
        context: what else is known.

    Raises:
        InputError: it cannot be converted.
    """
    context = context.seen_from(document)
    key = (document.group, document.kind)
    if key in REFUSED:
        why, instead = REFUSED[key]
        raise InputError(f"a {document.kind} is not converted: {why}", path="kind", hint=instead)
    unquoted_names.refuse(document.data)
    api_server.refuse(document.data)
    manifest = unknown_fields.without(document.data)
    conversion = missing_volumes.checked(converter(key)(manifest, context), manifest)
    conversion = unknown_fields.checked(conversion, document.data)
    conversion = kubeflow_pod_names.checked(conversion, document.data)
    conversion = waits.noted(retry_limits.noted(conversion))
    conversion = configmap_files.checked(conversion, document.data, context.texts_of)
    conversion = label_selectors.checked(conversion, document.data)
    conversion = managed_by.checked(conversion, document.data)
    conversion = untried_workers.noted(host_ports.noted(conversion), document.data)
    conversion = operator_containers.noted(conversion, document.group, document.data)
    verdicts = tuple(
        replace(verdict, line=document.line_of(verdict.keys)) for verdict in conversion.verdicts
    )
    namespace = context.namespace or conversion.namespace
    return replace(
        conversion,
        verdicts=verdicts,
        notes=(
            *document.repeated(),
            *conversion.notes,
            *_notes_on_texts(document),
            *namespace_notes(namespace, is_chosen=bool(context.namespace)),
            *watched_keys.notes(document.group, document.kind, document.data, conversion.values),
        ),
        source=document.source,
        line=document.line,
        manifest=document.data,
        lines=document.field_lines(),
        namespace=namespace,
    )


def _notes_on_texts(document: Document) -> Iterator[str]:
    if document.kind != "AppDef":  # which no Kubernetes reads
        yield from unquoted_texts.notes(document.data, document.token_of, document.place_of)
        yield from quoted_numbers.notes(document.data, document.place_of)


def namespace_notes(namespace: str, *, is_chosen: bool) -> Iterator[str]:
    """What is said of a run's namespace: that no cluster has it, or that no value does.

    Args:
        namespace: the namespace; "" for none.
        is_chosen: whether a person has named it, and not the object.
    """
    if namespace and not is_dns_1123_label(namespace):
        yield f"{namespace!r} is no name of a namespace: name another with -n"
    elif namespace:
        where = "" if is_chosen else ", where it was"
        yield f"values name no namespace: start it with `-n {namespace}`{where}"


def converter(key: tuple[str, str]) -> Callable[[Manifest, Context], Conversion]:
    """The converter of a kind, imported.

    Args:
        key: the API group and the kind; one of `KINDS`.
    """
    module, _, name = KINDS[key].partition(":")
    function: Callable[[Manifest, Context], Conversion] = getattr(
        importlib.import_module(f"{_KINDS_FOLDER}.{module}"), name
    )
    return function


def _parts(context: Context) -> set[int]:
    """The objects that are part of another job of the input, and no job of their own."""
    owners: dict[tuple[str, str], list[str]] = {}
    for document in context.documents:
        owners.setdefault((document.kind, document.name), []).append(namespaces.of(document.data))
    parts: set[int] = set()
    for document in context.documents:
        references = (document.data.get("metadata") or {}) if is_job(document) else {}
        own = references.get("ownerReferences") if isinstance(references, dict) else None
        for reference in own if isinstance(own, list) else ():
            if isinstance(reference, dict):
                key = (str(reference.get("kind")), str(reference.get("name")))
                is_there = any(
                    namespaces.match(namespace, namespaces.of(document.data))
                    for namespace in owners.get(key, ())
                )
                if is_there and key != (document.kind, document.name):
                    parts.add(id(document.data))
    return parts


def _located(problem: Problem, document: Document) -> Problem:
    """A problem with the place of its field."""
    if problem.source:
        return problem
    keys = keys_of(problem.path, document.data)
    line = document.line_of(keys) or document.line
    problem = misspelt_keys.with_question(problem, document.data, keys)
    if repeated := "; ".join(document.repeated()):
        # What is missing may stand in the first of the two, such as a role's command.
        hint = f"{repeated}; {problem.hint}".removesuffix("; ")
        problem = Problem(problem.path, problem.message, hint, problem.source)
    return problem.at(source=f"{document.source}:{line}" if line else document.source)


def _nothing(others: list[Document]) -> str:
    if not others:
        return "there is no object to convert"
    kinds = ", ".join(sorted({_kind(document) for document in others}))
    return f"there is no job to convert, only: {kinds}"


def _kind(document: Document) -> str:
    """A kind as a person knows it; with its group where another group's kind is converted."""
    kind = document.kind or "an object without a kind"
    if any(name == document.kind for _, name in KINDS):
        return f"{kind} of {document.data.get('apiVersion') or 'no API'}"
    return kind


# What has become of kinds whose controllers are no longer kept.
_SUCCESSORS = {
    ("elastic.pytorch.org", "ElasticJob"): "TorchElastic's ElasticJob has become the elasticPolicy "
    "of a PyTorchJob: write it as one, or start with `allranks init torchrun` and torchrun.elastic",
}


def _with_article(kind: str) -> str:
    """A kind with its article: an MPIJob, a TFJob, an XGBoostJob."""
    return f"{'an' if kind.startswith(_SPOKEN_AS_VOWELS) else 'a'} {kind}"


# How names begin before which `an` stands, as they are spoken.
_SPOKEN_AS_VOWELS = ("A", "E", "I", "O", "MPI", "MX", "XGB")
# Groups of other projects, whose objects have a kind that is known here, and other fields.
_OTHER_FORMS = ("batch.paddlepaddle.org",)


def _hint(others: list[Document]) -> str:
    for document in others:
        if any(slash_comments.is_in(text) for text in (document.kind, document.group)):
            return slash_comments.HINT
        successor = _SUCCESSORS.get((document.group, document.kind))
        if successor:
            return successor
        groups = sorted(group for group, kind in KINDS if kind == document.kind)
        if groups:
            converted_kind = f"{_with_article(document.kind)} of {' or '.join(groups)}"
            if document.group in _OTHER_FORMS:
                return f"write it as {converted_kind}, whose fields are others"
            return (
                f"{converted_kind} is known: correct the apiVersion if this is such an object, or "
                "write it as one"
            )
    kinds = sorted({kind for _, kind in KINDS})
    slips = ((document.kind, near_words.nearest_word(document.kind, kinds)) for document in others)
    for kind, near in slips:
        if near:
            return f"there is {kind}: did you mean {near}?"
    return f"give a manifest with one of: {', '.join(kinds)}"
