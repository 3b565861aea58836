"""What becomes of the fields of a runtime of Trainer's, over which a TrainJob is laid.

Its pods are those of the object that the two are written as, whose verdicts are the runtime's where
a field came from there. What a runtime says besides is read here: policies, the JobSet, its Jobs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks.convert.chart_values import end_of_run
from allranks.convert.kinds import job
from allranks.convert.pods import pod_values
from allranks.convert.verdict_groups import grouped, with_whole_losses
from allranks.convert.verdicts import (
    Outcome,
    Rules,
    carried,
    changed,
    dotted,
    leaf_paths,
    lost,
)
from allranks.humanize import list_some
from allranks.k8s import fields as k8s

if TYPE_CHECKING:
    from allranks.convert.jobs.rewrite import Rewrite
    from allranks.convert.verdicts import Conversion, FieldPath, Fields, Rule

POLICY: FieldPath = ("spec", "mlPolicy")
_GANG: FieldPath = ("spec", "podGroupPolicy")
_JOB_SET: FieldPath = ("spec", "template", "spec")
JOBS: FieldPath = (*_JOB_SET, "replicatedJobs")
_SET = "spec.template.spec"
_JOB = f"{_SET}.replicatedJobs[].template"
_IN_VALUES = "the runtime is part of the values"
_WROTE = "Trainer writes it itself, by the number of nodes"
_NO_VALUE = "a run has no such value"
REPLACED = "the TrainJob's own stands in its place"
_OF_POLICY = "how the ranks are started follows from it"

FIELDS: tuple[Rule, ...] = (
    changed("apiVersion", "workload", _IN_VALUES),
    changed("kind", "workload", _IN_VALUES),
    changed("metadata.name", "workload", _IN_VALUES),
    changed("metadata.namespace", "workload", _IN_VALUES),
    changed("metadata.**", "", "it is the runtime's own, and none of its jobs has it"),
    carried(f"{dotted(POLICY)}.numNodes", "nodes"),
    carried(f"{dotted(POLICY)}.torch.numProcPerNode", "procsPerNode"),
    changed(
        f"{dotted(POLICY)}.torch.elasticPolicy.**",
        "",
        "no release of Trainer acts on it: for nodes that come and go set torchrun.elastic",
    ),
    carried(f"{dotted(POLICY)}.mpi.numProcPerNode", "mpi.slotsPerWorker"),
    changed(f"{dotted(POLICY)}.**", "", _OF_POLICY),
    carried(
        f"{dotted(_GANG)}.coscheduling.scheduleTimeoutSeconds", "scheduling.gangTimeoutSeconds"
    ),
    lost(f"{dotted(_GANG)}.**", "scheduling.topology keeps the pods of a run near each other"),
    carried("spec.template.metadata.labels.*", "labels"),
    carried("spec.template.metadata.annotations.*", "annotations"),
    changed("spec.template.metadata.**", "", "the release names its objects itself"),
    changed(f"{_SET}.replicatedJobs[].name", "", "the pods that train are all of them"),
    changed(f"{_SET}.replicatedJobs[].replicas", "", _WROTE),
    carried(f"{_JOB}.metadata.labels.*", "labels"),
    carried(f"{_JOB}.metadata.annotations.*", "annotations"),
    changed(f"{_JOB}.metadata.**", "", "the release names its objects itself"),
    *pod_values.fields_at(f"{_JOB}.spec.template"),
    changed(f"{_JOB}.spec.backoffLimit", "runPolicy.backoffLimit", "with its JobSet's restarts"),
    changed(
        f"{_JOB}.spec.activeDeadlineSeconds",
        "runPolicy.activeDeadlineSeconds",
        "it is that of the run",
    ),
    *(
        changed(f"{_JOB}.spec.{key}", "", _WROTE)
        for key in ("parallelism", "completions", "completionMode", "suspend")
    ),
    lost(
        f"{_JOB}.spec.podFailurePolicy.**",
        "write the exit codes that fail the run into runPolicy.fatalExitCodes",
    ),
    lost(f"{_JOB}.spec.**", _NO_VALUE),
    changed(f"{_SET}.network.**", "", "the chart has a Service of its own for its pods"),
    changed(
        f"{_SET}.failurePolicy.maxRestarts",
        "runPolicy.backoffLimit",
        "it counts the failures of all pods together, and here those of each pod count",
    ),
    changed(f"{_SET}.ttlSecondsAfterFinished", "runPolicy.ttlSecondsAfterFinished", _IN_VALUES),
    changed(f"{_SET}.suspend", "", "the TrainJob says whether it waits"),
    lost(f"{_SET}.**", _NO_VALUE),
)
RULES = Rules(FIELDS)
_GANGS = ("coscheduling", "volcano")
_EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"


def put_metadata(target: Rewrite, own: Fields) -> None:
    """Put the labels and annotations that a runtime gives its JobSet.

    Args:
        target: what the TrainJob is written as, with the TrainJob's own.
        own: the runtime.
    """
    for kind in ("labels", "annotations"):
        for key, value in own.mapping("spec", "template", "metadata", kind).items():
            to: FieldPath = ("metadata", kind, key)
            if target.get(to) is None and key != _EXCLUSIVE:
                target.put_of_runtime(to, value, ("spec", "template", *to))


def put_gang(fields: Fields, own: Fields, title: str) -> None:
    """Put the scheduler that the runtime's pods are a gang of.

    Args:
        fields: the TrainJob, converted.
        own: the runtime.
        title: how it is called in messages.
    """
    for name in own.mapping(*_GANG):
        if name not in _GANGS:
            own.leave((*_GANG, name), "it is no scheduler of gangs that is known here")
            continue
        dialect = k8s.text(fields.values, "scheduling", "dialect")
        if dialect not in ("", "none", name):
            why = f"makes a gang of {name}, and a run has {dialect} alone"
            fields.note(f"{title} {why}")
            own.leave((*_GANG, name), f"it {why}")
            continue
        fields.put(("scheduling", "dialect"), name)
        timeout: FieldPath = (*_GANG, name, "scheduleTimeoutSeconds")
        if seconds := own.number(*timeout):
            fields.put(("scheduling", "gangTimeoutSeconds"), seconds)
            own.keep(timeout, "scheduling.gangTimeoutSeconds")


def put_job_set(fields: Fields, own: Fields, title: str, main: FieldPath) -> None:
    """Put how often and how long the pods may run, as the runtime's JobSet says.

    Args:
        fields: the TrainJob, converted.
        own: the runtime.
        title: how it is called in messages.
        main: the replicated job with whose limits the run is.
    """
    spec: FieldPath = (*main, "template", "spec")
    limit = own.number(*spec, "backoffLimit")
    times = own.number(*_JOB_SET, "failurePolicy", "maxRestarts") or 0
    job.retry(fields, (times + 1) * ((job.BACKOFF_LIMIT if limit is None else limit) + 1) - 1)
    if times or limit is not None:
        fields.note(
            f"{title} counts the failures of all pods together, and runPolicy.backoffLimit those "
            "of each pod, without disruptions"
        )
    end_of_run.note(fields, "a TrainJob is done when all pods of its trainer are")
    policy = fields.values["runPolicy"]
    for key, above in (("ttlSecondsAfterFinished", _JOB_SET), ("activeDeadlineSeconds", spec)):
        seconds = own.number(*above, key)
        if seconds is not None and key not in policy:
            policy[key] = max(seconds, 1)
        elif seconds is not None:
            own.change((*above, key), REPLACED, f"runPolicy.{key}")
    targets = own.words(*_JOB_SET, "successPolicy", "targetReplicatedJobs")
    if targets == [own.text(*main, "name")]:
        own.change((*_JOB_SET, "successPolicy"), "a run is done with the same pods")


def take_over(own: Fields, target: Rewrite, inner: Conversion) -> None:
    """Say of a runtime's fields what is said of the object that they and the TrainJob make.

    Args:
        own: the runtime.
        target: the object.
        inner: the object, converted.
    """
    for verdict in inner.verdicts:
        if path := target.runtime_field(verdict.keys):
            own.say(path, verdict.outcome, verdict.to, verdict.why)
    places = {path: to for to, path in target.of_runtime.items()}
    for leaf in leaf_paths(own.source, ()):
        ends = range(len(leaf), 0, -1)
        above = next((leaf[:end] for end in ends if leaf[:end] in places), ())
        to: FieldPath = (*places.get(above, ()), *leaf[len(above) :])
        if above and any(target.fields.has(*source) for source in target.sources(to)):
            own.change(leaf, REPLACED)


def losses(own: Fields, title: str) -> str:
    """A sentence that names what of a runtime is not carried; "" for nothing.

    Args:
        own: the runtime.
        title: how it is called in messages.
    """
    verdicts = with_whole_losses(own.verdicts())
    losses_of = [verdict for verdict in verdicts if verdict.outcome is Outcome.NOT_CARRIED]
    paths = [verdict.path for verdict in grouped(losses_of)]
    return f"of {title} is not carried: {list_some(paths)}" if paths else ""
