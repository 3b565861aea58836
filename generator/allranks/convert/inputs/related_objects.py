"""What to do about the objects that stand beside a job: apply them as well, or leave them away."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from allranks.convert.chart_values import queue_and_scheduler, trials
from allranks.convert.documents import namespaces
from allranks.convert.pods import affinities
from allranks.convert.pods.pod_template import templates_of
from allranks.convert.verdicts import Beside
from allranks.k8s import fields as k8s

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from allranks.convert.documents.document import Document
    from allranks.convert.verdicts import Conversion

# What each kind of object is to a job.
_PURPOSES = {
    "ConfigMap": "the job may read it",
    "Secret": "the job may read it",
    "PersistentVolumeClaim": "the job may mount it",
    "PersistentVolume": "a claim may be bound to it",
    "StorageClass": "a claim may name it",
    "ServiceAccount": "the job may run as it",
    "Role": "the job's account may need it",
    "RoleBinding": "the job's account may need it",
    "ClusterRole": "the job's account may need it",
    "ClusterRoleBinding": "the job's account may need it",
    "Namespace": "the job lives in it",
    "NetworkPolicy": "it says who reaches the pods; networkPolicy does it for a release's own",
    "Service": "others may reach the job's pods by it",
    "PriorityClass": "the job may name it",
    "ResourceQuota": "it limits the namespace",
    "LimitRange": "it limits the namespace",
    "LocalQueue": "the job may wait in it",
    "ClusterQueue": "a LocalQueue may name it",
    "ResourceFlavor": "a ClusterQueue may name it",
    "Queue": "the job may wait in it",
    "PodGroup": "pods of the job may be in its gang",
    "ScalePlan": "it asks for another size of an ElasticJob",
    "CustomResourceDefinition": "it belongs to an operator",
    "Job": "nothing in it that is known here starts ranks",
    "CronJob": "it starts jobs at times, and allranks starts one: give the job in its template",
    "StatefulSet": "nothing in it that is known here starts ranks",
    "LeaderWorkerSet": "nothing in it that is known here starts ranks",
    "Deployment": "it is no job",
    "Pod": "it is no job: nothing starts it again",
    "DaemonSet": "it is no job",
}


# Of those that a pod names: what the job does with the object.
_USES = {
    "ConfigMap": "the job reads it",
    "Secret": "the job reads it",
    "PersistentVolumeClaim": "the job mounts it",
    "ServiceAccount": "the job runs as it",
    "PriorityClass": "the job has its priority",
}
_OF_OTHER_PODS = "it selects none of the job's pods, which may call others by it"
# What may call a job's pods by the name of a Service.
_CALLERS = (
    *("Job", "CronJob", "StatefulSet", "LeaderWorkerSet", "Deployment", "DaemonSet", "Pod"),
    "Ingress",
)
# What may name an account of another namespace.
_BINDINGS = ("RoleBinding", "ClusterRoleBinding")
# Kinds of which the charts make one with the release's name.
_OF_CHARTS = ("ConfigMap", "Service")
# Labels whose value is the job's name, or begins so: that of a Job of a JobSet.
_NAME_OF_JOB = re.compile(r"(?<![a-z])(?:job|jobset|trainjob|elasticjob)[-_]name$")
# Keys under which a text is no host.
_LABELS = ("labels", "matchLabels", "selector")


def of(
    others: Sequence[Document], conversions: Sequence[Conversion], reasons: Mapping[int, str]
) -> tuple[tuple[Beside, ...], tuple[Document, ...]]:
    """What to do about the objects that are no job, and those that nobody knows.

    Args:
        others: the objects of the input that are not converted.
        conversions: the jobs.
        reasons: why an object that might have been a job is not converted, by the id of its data.
    """
    related: list[Beside] = []
    unknown: list[Document] = []
    for document in others:
        by_converters = {
            (item.kind, item.name): item
            for conversion in _near(document, conversions)
            for item in conversion.beside
        }
        own = by_converters.get((document.kind, document.name))
        if own is None or document.kind == "Service":
            own = _generic(document, others, conversions)
            if id(document.data) in reasons:
                own = replace(own, why=f"it is not converted: {reasons[id(document.data)]}")
            if document.kind not in _PURPOSES:
                unknown.append(document)
        if own.is_needed and document.kind in _OF_CHARTS:
            own = _with_other_name(own, _near(document, conversions))
        related.append(replace(own, namespace=document.namespace, source=document.where))
    return tuple(related), tuple(unknown)


def _near(document: Document, conversions: Sequence[Conversion]) -> list[Conversion]:
    """The jobs that were in the namespace of an object, where both name one."""
    home = namespaces.of(document.data)
    return [item for item in conversions if namespaces.match(home, namespaces.of(item.manifest))]


def _with_other_name(own: Beside, conversions: Sequence[Conversion]) -> Beside:
    """What to do about an object, which may have the name of one that a chart makes."""
    if own.name not in {conversion.name for conversion in conversions} or "call the" in own.why:
        return own
    advice = f"call the release otherwise than {own.name}, because its chart makes one of that name"
    return replace(own, why=f"{own.why}; {advice}")


def _generic(
    document: Document, others: Sequence[Document], conversions: Sequence[Conversion]
) -> Beside:
    if document.kind == "Service":
        return _service(document, others, conversions)
    near = _near(document, conversions)
    if document.kind == "PodGroup" and document.group != "scheduling.k8s.io":
        return pod_group(document.data, [conversion.values for conversion in near])
    if document.kind in _USES:
        own = _of_reference(document, others, near)
        if not near and (job := _reader_elsewhere(document, others, conversions)):
            why = f"{own.why}; the job {job.name} reads one of this name in {job.namespace}, which "
            return replace(own, why=f"{why}the input does not have")
        return own
    why = _PURPOSES.get(document.kind, "no kind of job that is known here")
    return Beside(document.kind or "an object without a kind", document.name, True, why)


def _reader_elsewhere(
    document: Document, others: Sequence[Document], conversions: Sequence[Conversion]
) -> Conversion | None:
    """The job of another namespace that reads an object of this name, and has none; or None."""
    for item in conversions:
        home = namespaces.of(item.manifest)
        has_own = any(
            (other.kind, other.name) == (document.kind, document.name)
            and namespaces.match(home, namespaces.of(other.data))
            for other in others
        )
        if item.namespace and not has_own and document.name in trials.texts(item.values):
            return item
    return None


def _of_reference(
    document: Document, others: Sequence[Document], conversions: Sequence[Conversion]
) -> Beside:
    """What to do about an object that a pod has by its name alone."""
    kind, name = document.kind, document.name
    if any(name in trials.texts(conversion.values) for conversion in conversions):
        return Beside(kind, name, True, _USES[kind])
    for other in others:
        is_near = namespaces.match(namespaces.of(document.data), namespaces.of(other.data))
        is_near |= other.kind in _BINDINGS
        if other is not document and is_near and name in trials.texts(other.data):
            return Beside(kind, name, True, f"{other.kind} {other.name} names it")
    if any(conversion.queue for conversion in conversions):
        return Beside(kind, name, True, _PURPOSES[kind])  # by the queue's template
    if not conversions:
        why = f"no job is in its namespace, {document.namespace}, and a job has none of another"
        return Beside(kind, name, False, why)
    return Beside(
        kind, name, False, "nothing that is carried of the job names it, nor what is beside it"
    )


def pod_group(group: Mapping[str, Any], jobs: Sequence[Mapping[str, Any]]) -> Beside:
    """What to do about a PodGroup.

    Args:
        group: the PodGroup.
        jobs: the values of the jobs.
    """
    name = k8s.text(group, "metadata", "name")
    for kind, key in queue_and_scheduler.POD_GROUPS:
        if any((key, name) in queue_and_scheduler.pod_groups(values) for values in jobs):
            why = f"the pods are in it by their {kind.removesuffix('s')} {key}"
            return Beside("PodGroup", name, True, why)
    if any(k8s.text(values, "scheduling", "dialect") not in ("", "none") for values in jobs):
        return Beside("PodGroup", name, False, "the scheduling dialect makes the job's own")
    why = "no pod of the job is in it; for a gang set scheduling.dialect"
    return Beside("PodGroup", name, False, why)


def with_pod_groups(conversion: Conversion, others: Sequence[Document]) -> Conversion:
    """A conversion that says which PodGroup its pods wait for, where the input has none of it.

    Args:
        conversion: the job.
        others: the objects of the input that are not converted.
    """
    there = _names("PodGroup", conversion, others)
    notes = [
        f"the pods are in the PodGroup {name}, by {key}, and wait for ever where there is none"
        f"{_where_scheduled(conversion)}: "
        "apply it yourself, or set scheduling.dialect for a gang of the chart's own in its place"
        for key, name in sorted(queue_and_scheduler.pod_groups(conversion.values))
        if name not in there and key != queue_and_scheduler.GANG_OF_LABELS
    ]
    return conversion.with_notes(notes)


def with_unseen_hosts(conversion: Conversion, others: Sequence[Document]) -> Conversion:
    """A conversion that says at which host its own launcher meets, where no object has its name.

    Args:
        conversion: the job.
        others: the objects of the input that are not converted.
    """
    there = {document.name for document in others if document.kind == "Service"}
    there |= _names("Service", conversion, others)
    there |= {conversion.name, "localhost"}
    if conversion.values.get("workload") != "torchrun":
        return conversion
    command = conversion.values.get("command", ())
    hosts = {match["name"] for word in command for match in _MEETING.finditer(str(word))}
    notes = [
        f"the command meets at {name}, which no Service of the input is: where that is one of the "
        "old job's pods, it finds none of these; write $MASTER_ADDR, the first pod, in its place"
        for name in sorted(hosts - there)
    ]
    return conversion.with_notes(notes)


def _names(kind: str, conversion: Conversion, others: Sequence[Document]) -> set[str]:
    """The names of the objects of a kind, those that a converter has looked at among them."""
    home = namespaces.of(conversion.manifest)
    names = {
        document.name
        for document in others
        if document.kind == kind and namespaces.match(home, namespaces.of(document.data))
    }
    return names | {item.name for item in conversion.beside if item.kind == kind}


# The place at which a torchrun of the job's own meets, by the name of a Service in the cluster.
_MEETING = re.compile(
    r"--(?:rdzv[_-]endpoint|master[_-]addr)[= ][\"']?(?P<name>[A-Za-z][A-Za-z0-9-]*(?<!-[0-9]))"
    r"(?=(?:\.[a-z0-9-]+)?(?:\.svc[a-z.]*)?(?:[:\s\"';]|$))"
)


def _where_scheduled(conversion: Conversion) -> str:
    """Where pods wait for their PodGroup: a scheduler that knows no such groups looks for none."""
    is_named = k8s.text(conversion.values, "scheduling", "schedulerName") != ""
    is_named |= k8s.text(conversion.values, "scheduling", "dialect") not in ("", "none")
    is_named |= any(
        k8s.text(template, "spec", "schedulerName") for template in templates_of(conversion.values)
    )
    return "" if is_named else " (if the cluster's own scheduler looks for it)"


def _service(
    document: Document, others: Sequence[Document], conversions: Sequence[Conversion]
) -> Beside:
    """What to do about a Service: the charts of jobs with ranks make one that has no address."""
    selector = set(_text_pairs(k8s.mapping(document.data, "spec", "selector")))
    home = namespaces.of(document.data)
    for other in others:
        if not namespaces.match(home, namespaces.of(other.data)):
            continue
        is_pod = other.kind == "Pod"
        path = ("metadata", "labels") if is_pod else ("spec", "template", "metadata", "labels")
        if selector and selector <= set(_text_pairs(k8s.mapping(other.data, *path))):
            whose = (
                f"Pod {other.name} is" if is_pod else f"the pods of {other.kind} {other.name} are"
            )
            return Beside("Service", document.name, True, f"{whose} reached by it")
    job = next((item for item in _near(document, conversions) if _is_for(document, item)), None)
    if job is None:
        why = _OF_OTHER_PODS if selector else _PURPOSES["Service"]
        return Beside("Service", document.name, True, why)
    missing_labels = sorted(
        str(key) for key, value in selector if (key, value) not in _labels(job.values)
    )
    advice = ""
    if missing_labels:
        advice = f"; it selects pods by {', '.join(missing_labels)}, which no pod has here: "
        advice += "have it select app.kubernetes.io/instance, the release"
    caller = _caller(document, job, others, conversions)
    if caller:
        why = f"{caller} reaches the job's pods by it{advice}"
        return Beside("Service", document.name, True, why)
    is_headless = k8s.text(document.data, "spec", "clusterIP") == "None"
    has_own = job.values.get("workload") != "sweep" or "trial" in job.values.get("sweep", {})
    if is_headless and has_own and _is_of_first_pod(document, job):
        return Beside("Service", document.name, True, _FIRST_POD)
    if is_headless and has_own:
        return Beside("Service", document.name, False, _of_own_pods(document.name, job))
    return Beside("Service", document.name, True, f"{_PURPOSES['Service']}{advice}")


def _is_of_first_pod(document: Document, job: Conversion) -> bool:
    """Whether a Service that the words of a job's several pods name is that of its first pod.

    The release's own has the addresses of all pods, and each of them would be told that it is
    where a rendezvous at that name is: newer versions of torch look the name up.
    """
    selector = k8s.mapping(document.data, "spec", "selector")
    is_first = any(selector.get(key) == value for key, value in _OF_FIRST_POD)
    is_first |= str(selector.get("statefulset.kubernetes.io/pod-name", "")).endswith("-0")
    has_several = job.values.get("workload") == "torchrun" and job.values.get("nodes", 1) != 1
    return is_first and has_several and _is_named(document.name, job)


# Labels that only the pod of rank 0 has, of Jobs, StatefulSets and the training operator.
_OF_FIRST_POD = (
    ("batch.kubernetes.io/job-completion-index", "0"),
    ("apps.kubernetes.io/pod-index", "0"),
    ("training.kubeflow.org/job-role", "master"),
    ("training.kubeflow.org/replica-type", "master"),
)
_FIRST_POD = (
    "the job's own words find its first pod by it, and the release's own Service has the addresses "
    "of all pods: have it select app.kubernetes.io/instance, the release, and "
    'batch.kubernetes.io/job-completion-index "0"'
)


def _of_own_pods(name: str, job: Conversion) -> str:
    """Why a job needs no headless Service of its own, and what its words that name it need."""
    is_named = _is_named(name, job)
    if job.values.get("workload") == "torchrun" and job.values.get("nodes") == 1:
        where = f": where its words name {name}, write localhost" if is_named else ""
        return f"the run has one pod, and the chart makes no Service for it{where}"
    why = "the chart makes a headless Service for the job's own pods"
    if not is_named:
        return why
    if name != job.name and any(own == job.name for own in _words(job.values)):
        why += ", which has the release's name, as its pods have (NAME-0.NAME): where the job's "
        return f"{why}words put {job.name} and {name} together, write the release's name for both"
    why += f", which has the release's name: call the release {name}, because the "
    return f"{why}job's own words name this Service"


def _caller(
    document: Document,
    job: Conversion,
    others: Sequence[Document],
    conversions: Sequence[Conversion],
) -> str:
    """The object that reaches a job's pods by a Service, and is not the job; "" for none."""
    for item in conversions:
        if item is not job and _names_host(document.name, item.name, item.namespace, item.values):
            return f"{item.kind} {item.name}"
    for other in others:
        is_named = _names_host(document.name, other.name, other.namespace, other.data)
        if other.kind in _CALLERS and is_named:
            return f"{other.kind} {other.name}"
    return ""


def _is_for(document: Document, job: Conversion) -> bool:
    """Whether a Service selects the pods of a job, or has the job's name."""
    selector = k8s.mapping(document.data, "spec", "selector")
    pairs = set(_text_pairs(selector))
    if job.name in selector.values() or (pairs and pairs <= _labels(job.values)):
        return True
    own = set(_labels_there(job.manifest))
    if pairs and all(pair in own or _is_of_controller(*pair, job.name) for pair in pairs):
        return True
    if any((item.kind, item.name) == ("Service", document.name) for item in job.beside):
        return True  # the object names it as the Service of its pods
    is_headless = k8s.text(document.data, "spec", "clusterIP") == "None"
    return is_headless and document.name == job.name


def _labels_there(node: Any) -> Iterator[tuple[str, Any]]:
    """The labels of the pod templates of an object."""
    if isinstance(node, dict):
        if "containers" in k8s.mapping(node, "spec"):
            yield from _text_pairs(k8s.mapping(node, "metadata", "labels"))
        for value in node.values():
            yield from _labels_there(value)
    elif isinstance(node, list):
        for item in node:
            yield from _labels_there(item)


def _is_of_controller(key: str, value: Any, job: str) -> bool:
    """Whether a label is one that the old controller gave the pods of a job of this name."""
    if _NAME_OF_JOB.search(key):
        return str(value) == job or str(value).startswith(f"{job}-")
    return affinities.is_of_controller(key)


def _is_named(name: str, job: Conversion) -> bool:
    """Whether a job's commands and variables name a Service that a release could be called after.

    A pod of another name by this Service is there in no release, whatever that is called.
    """
    own = re.escape(name)
    other_pod = re.compile(rf"(?<![\w.-])(?!{own}-\d)[A-Za-z][\w-]*-\d+\.{own}(?![\w-])[\w.-]*")
    texts = [other_pod.sub("", text) for text in _words(job.values)]
    return _names_host(name, job.name, job.namespace, texts)


def _names_host(name: str, owner: str, namespace: str, data: Any) -> bool:
    """Whether texts of an object name a Service.

    A word that is the object's own name as well, or that has no hyphen, is a Service only where it
    is all of a text, or part of a host's name.
    """
    own = re.escape(name)
    domain = rf"\.(?:svc|default|{re.escape(namespace or 'default')}|[$])"
    start = r"(?:(?<![\w./-])|(?<=://))"
    patterns = [rf"{start}{own}(?:{domain}|:[0-9])", rf"(?:-[0-9]+|[)}}])\.{own}(?![\w-])"]
    if name != owner and "-" in name:
        patterns.append(rf"{start}{own}(?![\w.-])")
    host = re.compile("|".join(patterns), re.ASCII)
    every_text = list(_words(data))
    return any(map(host.search, every_text)) or (name != owner and name in every_text)


def _words(node: Any) -> Iterator[str]:
    """Every text of an object but those of labels."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key not in _LABELS:
                yield from _words(value)
    elif isinstance(node, list):
        for value in node:
            yield from _words(value)
    elif isinstance(node, str):
        yield node


def _text_pairs(labels: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The labels whose values are texts; Kubernetes takes no other."""
    return ((key, value) for key, value in labels.items() if isinstance(value, str))


def _labels(values: Mapping[str, Any]) -> set[tuple[str, Any]]:
    """The labels that pods of a job have from its values."""
    own = _text_pairs(k8s.mapping(values, "labels"))
    of_pods = (k8s.mapping(template, "metadata", "labels") for template in templates_of(values))
    return {*own, *(pair for labels in of_pods for pair in _text_pairs(labels))}
