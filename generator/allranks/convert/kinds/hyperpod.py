"""A HyperPodPyTorchJob of SageMaker's training operator as values.

It is a PyTorchJob whose replicas are a list. Its fields are those of HyperPodPytorchJob in
https://github.com/aws/sagemaker-hyperpod-cli,
src/sagemaker/hyperpod/training/config/hyperpod_pytorch_job_unified_config.py, and those of elastic
training in SageMaker's documentation (sagemaker-eks-elastic-training).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks.convert.chart_values import finish
from allranks.convert.jobs import pod_jobs
from allranks.convert.kinds import job
from allranks.convert.pods import pod_values, podsets
from allranks.convert.programs import references
from allranks.convert.programs.commands import Runner
from allranks.convert.verdicts import METADATA, Fields, Rule, Rules, carried, changed, lost
from allranks.errors import InputError

if TYPE_CHECKING:
    from allranks.convert.documents.context import Context
    from allranks.convert.documents.document import Manifest
    from allranks.convert.pods.podsets import PodSet
    from allranks.convert.verdicts import Conversion, FieldPath

KIND = "HyperPodPyTorchJob"
_SPECS: FieldPath = ("spec", "replicaSpecs")
_S = "spec.replicaSpecs[]"
_R = "spec.runPolicy"
_RETRIES: FieldPath = ("spec", "runPolicy", "jobMaxRetryCount")
_TTL: FieldPath = ("spec", "runPolicy", "ttlSecondsAfterFinished")
_LOG = f"{_R}.logMonitoringConfiguration"
_WAITS = ("expectedRecurringFrequencyInSeconds", "expectedStartCutOffInSeconds")
_PROGRESS = "any line of output and any collective is progress, and no pattern is looked for"
_NO_NUMBERS = "nothing looks for numbers in the log"
_FULL = "a pod that fails is replaced, and the ranks of all start anew"
_FIXED_SIZE = "a run keeps its size: set torchrun.elastic where the program goes on at another one"
FIELDS: tuple[Rule, ...] = (
    *METADATA,
    carried("spec.nprocPerNode", "procsPerNode"),
    changed(f"{_S}.name", "", "a job's pods have the roles of their workload"),
    carried(f"{_S}.replicas", "nodes"),
    carried(f"{_S}.spares", "torchrun.spares"),
    *pod_values.fields_at(f"{_S}.template"),
    carried(f"{_R}.activeDeadlineSeconds", "runPolicy.activeDeadlineSeconds"),
    carried(f"{_R}.suspend", "runPolicy.suspend"),
    carried(f"{_R}.ttlSecondsAfterFinished", "runPolicy.ttlSecondsAfterFinished"),
    changed(f"{_R}.cleanPodPolicy", "", "what has finished stays with its Job, and holds nothing"),
    changed(f"{_R}.jobMaxRetryCount", "runPolicy.backoffLimit", "it counts for each pod"),
    changed(f"{_R}.restartPolicy.**", "runPolicy.backoffLimit", _FULL),
    *(
        changed(f"{_LOG}[].{key}", "runPolicy.stallSeconds", _PROGRESS)
        for key in ("name", "logPattern", *_WAITS)
    ),
    lost("spec.elasticPolicy.**", _FIXED_SIZE),
    lost(f"{_S}.maxReplicas", _FIXED_SIZE),
    lost(f"{_LOG}[].**", _NO_NUMBERS),
    lost(f"{_R}.faultDeadlineSeconds", "runPolicy.activeDeadlineSeconds is the only deadline"),
    lost(f"{_R}.startupDeadlineSeconds", "runPolicy.activeDeadlineSeconds is the only deadline"),
)
_RULES = Rules(FIELDS)


def convert(manifest: Manifest, context: Context) -> Conversion:
    """A HyperPodPyTorchJob as values.

    Args:
        manifest: the object.
        context: what else is known.

    Raises:
        InputError: it has no pods, or they are of no form here.
    """
    fields = Fields(manifest, rules=_RULES, unknown=f"a {KIND} has no such field")
    sets = _sets(fields)
    shape = podsets.Shape(podsets.PYTORCH, podsets.ranks(sets, KIND))
    target = pod_jobs.rewrite(fields, shape)
    target.copy(("spec", "nprocPerNode"), ("spec", "nprocPerNode"))
    for key in ("activeDeadlineSeconds", "suspend"):
        target.copy(("spec", "runPolicy", key), ("spec", "runPolicy", key))
    if (fields.number(*_TTL) or 0) < 0:
        fields.change(_TTL, "it is for ever")
    else:
        target.copy(_TTL, ("spec", "runPolicy", "ttlSecondsAfterFinished"))
    queue = target.convert_as(podsets.PYTORCH, context).queue
    retries = fields.number(*_RETRIES)
    if retries is not None:
        job.retry(fields, retries, _RETRIES)
    for podset in sets:
        _launcher(fields, podset, context)
    _spares(fields)
    _stall(fields)
    return finish.conversion(fields, queue=queue)


def _launcher(fields: Fields, podset: PodSet, context: Context) -> None:
    """Say of a command that starts hyperpodrun, or may, that its operator is not there."""
    program = podset.program(context.entrypoint)
    here: FieldPath = (*podset.path, "spec", "containers", podset.index)
    if program.runner is Runner.PLAIN:
        fields.note(
            "a script that calls hyperpodrun, or reads NNODES and NPROC_PER_NODE, finds neither "
            "HyperPod's operator nor these here: have it call torchrun, which is told all it needs"
        )
    elif program.is_nested and references.mentions(program.command, ("hyperpodrun",)):
        for key in ("command", "args"):
            fields.leave(
                (*here, key),
                "its hyperpodrun asks HyperPod's operator, which is not there: call torchrun",
            )


def _spares(fields: Fields) -> None:
    """Convert the number of spare pods."""
    spares = 0
    for index, _ in fields.items(*_SPECS):
        here: FieldPath = (*_SPECS, index, "spares")
        count = fields.number(*here)
        if count is not None and count >= 0:
            spares += count
            fields.keep(here, "torchrun.spares")
            if count:
                fields.put(("torchrun", "spares"), spares, here)


def _stall(fields: Fields) -> None:
    """Carry how long a log may be without a line that is expected again and again.

    A rule that expects its line once says nothing of a job that stands still.
    """
    here: FieldPath = ("spec", "runPolicy", "logMonitoringConfiguration")
    waits: list[tuple[int, FieldPath]] = []
    for index, _ in fields.items(*here):
        period, start = (fields.number(*here, index, key) for key in _WAITS)
        if period is None or period <= 0:
            is_of_metric = fields.has(*here, index, "metricThreshold")
            why = _NO_NUMBERS if is_of_metric else "no line is expected in the log at a time"
            fields.leave((*here, index), why)
            continue
        # Until its start a rule waits for longer than afterwards, and the ranks start here as well.
        waits.append((max(period, start or 0), (*here, index, _WAITS[0])))
    if waits:
        seconds, source = min(waits)
        fields.put(("runPolicy", "stallSeconds"), seconds, source)
        fields.put(("runPolicy", "onStall"), "end", source)


def _sets(fields: Fields) -> list[PodSet]:
    sets = []
    for index, _ in fields.items(*_SPECS):
        here: FieldPath = (*_SPECS, index)
        name = fields.text(*here, "name") or f"number {index + 1}"
        sets.append(job.replicas_of(fields, here, name))
    if not sets:
        raise InputError(
            "there are no replicas", path="spec.replicaSpecs", hint="write the whole object"
        )
    return sets
