"""AppWrappers: the job that is wrapped, as values.

An AppWrapper hands other objects to Kueue as one workload, and starts them anew when they fail. The
job among them is converted as it would be by itself; the others are named. In v1beta1 MCAD's own
dispatcher held them back, and they stand elsewhere: spec.resources.GenericItems.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks.convert import registry
from allranks.convert.chart_values import finish
from allranks.convert.inputs import related_objects
from allranks.convert.jobs import run_policy
from allranks.convert.jobs.rewrite import Rewrite
from allranks.convert.kinds import job
from allranks.convert.pods import pod_values
from allranks.convert.verdicts import (
    MANAGED_BY,
    METADATA,
    Beside,
    Fields,
    Outcome,
    Rule,
    Rules,
    carried,
    changed,
    dotted,
    lost,
)
from allranks.errors import InputError
from allranks.humanize import plural
from allranks.k8s import fields as k8s
from allranks.values.merge import copy

if TYPE_CHECKING:
    from allranks.convert.documents.context import Context
    from allranks.convert.documents.document import Manifest
    from allranks.convert.verdicts import Conversion, FieldPath

KIND = "AppWrapper"
_COMPONENTS: FieldPath = ("spec", "components")
_GENERIC_ITEMS: FieldPath = ("spec", "resources", "GenericItems")
_GANG = "set it for a gang, which has all pods"
_GANG_OF_MPI = "set it for a gang, which has the workers; the launcher is outside of it"
_SETTINGS = "workload.codeflare.dev.appwrapper/"
_TTL = f"{_SETTINGS}successTTLDuration"
_AFTER_FAILURE = "what has failed is deleted after it as well"
_TERMINAL = f"{_SETTINGS}terminalExitCodes"
_RETRYABLE = f"{_SETTINGS}retryableExitCodes"
_OTHERS_FAIL = "all other codes fail the run at once"
_OWN_RETRIES = "the job tries again by itself what fails, whatever its exit code is"
_RETRIES = "runPolicy says what becomes of a job that fails"
_LIMIT = f"{_SETTINGS}retryLimit"
_TIMES = 3  # as often the wrapper's controller tries again where nothing says how often
_AGAIN = "a pod that fails is replaced so often, and the ranks start anew"
_UNSAID = (
    f"an AppWrapper without a retryLimit has its job start anew {_TIMES} times; so often a pod "
    "that fails is replaced here"
)
_JOB_ALONE = (
    "the AppWrapper had the job start anew after its own retries; here runPolicy.backoffLimit "
    "counts alone"
)
_RUN_STAYS = (
    "a run that is done is kept; runPolicy.ttlSecondsAfterFinished deletes its pods after a time"
)
FIELDS: tuple[Rule, ...] = (
    *METADATA,
    changed(f"metadata.annotations.{_TTL}", "runPolicy.ttlSecondsAfterFinished", _AFTER_FAILURE),
    changed(f"metadata.annotations.{_LIMIT}", "runPolicy.backoffLimit", _AGAIN),
    carried(f"metadata.annotations.{_TERMINAL}", "runPolicy.fatalExitCodes"),
    changed(f"metadata.annotations.{_RETRYABLE}", "runPolicy.fatalExitCodes", _OTHERS_FAIL),
    lost(f"metadata.annotations.{_SETTINGS}*", _RETRIES),
    carried("spec.suspend", "runPolicy.suspend"),
    MANAGED_BY.below("spec"),
    changed(
        "spec.components[].podSets[].**", "", "Kueue reads the pods of the chart's own objects"
    ),
    changed("spec.components[].podSetInfos[].**", "", "Kueue writes it itself"),
    changed("spec.components[].annotations.**", "", "the wrapper's own"),
    carried("spec.components[].template.**", "the job"),
    changed("spec.schedulingSpec.minAvailable", "scheduling.dialect", _GANG),
    changed("spec.resources.GenericItems[].custompodresources.**", "", "the pods say it"),
    changed("spec.resources.GenericItems[].metadata.**", "", "the wrapper's own"),
    carried("spec.resources.GenericItems[].replicas", "there is one run"),
    carried("spec.resources.GenericItems[].generictemplate.**", "the job"),
)
_RULES = Rules(FIELDS)


def convert(manifest: Manifest, context: Context) -> Conversion:
    """An AppWrapper as the values of the job in it.

    Args:
        manifest: the object.
        context: what else is known.

    Raises:
        InputError: there is no job in it, or several.
    """
    fields = Fields(manifest, rules=_RULES, unknown=f"an {KIND} has no such field")
    components, template = _COMPONENTS, "template"
    if not fields.items(*_COMPONENTS) and fields.get(*_GENERIC_ITEMS) is not None:
        components, template = _GENERIC_ITEMS, "generictemplate"
    index, key = _job(fields, components, template)
    path: FieldPath = (*components, index, template)
    target = Rewrite(fields, copy(fields.mapping(*path)))
    target.also(path, ())
    target.name_after(fields)
    inner = target.convert(key, context)
    fields.change((*path, "metadata", "name"), "the release has the name of the wrapper")
    for other, _ in fields.items(*components):
        if other != index:
            _beside(fields, (*components, other, template))
    if fields.number(*components, index, "replicas") == 1:
        fields.keep((*components, index, "replicas"), "there is one run")
    if run_policy.has_idle_launcher(fields.values):
        gang: FieldPath = ("spec", "schedulingSpec", "minAvailable")
        fields.change(gang, _GANG_OF_MPI, "scheduling.dialect")
    pod_values.labels(fields, ("metadata",), ())
    for annotation in fields.mapping("metadata", "annotations"):
        if str(annotation).startswith(_SETTINGS):
            fields.values.get("annotations", {}).pop(annotation, None)
            here: FieldPath = ("metadata", "annotations", annotation)
            if annotation in (_LIMIT, _TERMINAL, _RETRYABLE):
                continue
            if annotation != _TTL or not _carry_ttl(fields, here):
                fields.leave(here, _RUN_STAYS if annotation == _TTL else _RETRIES)
    if components == _COMPONENTS:
        _carry_exit_codes(fields)
        _carry_retries(fields)
    if fields.get("spec", "suspend") is True:
        fields.put(("runPolicy", "suspend"), value=True, source=("spec", "suspend"))
    if isinstance(fields.get("spec", "suspend"), bool):
        fields.keep(("spec", "suspend"), "runPolicy.suspend")
    return finish.conversion(fields, queue=inner.queue)


def _carry_exit_codes(fields: Fields) -> None:
    """Carry which exit codes fail the wrapper at once, where the job itself tries nothing again."""
    tries = fields.values.get("runPolicy", {}).get("backoffLimit") != 0
    fatal: set[int] = set()
    for annotation in (_TERMINAL, _RETRYABLE):
        here: FieldPath = ("metadata", "annotations", annotation)
        words = (word.strip() for word in fields.text(*here).split(","))
        codes = {int(word) for word in words if word.isdecimal()}.intersection(job.EXIT_CODES)
        if tries:
            fields.leave(here, _OWN_RETRIES)
        elif codes and annotation == _TERMINAL:
            fatal |= codes
            fields.say(here, Outcome.CARRIED, "runPolicy.fatalExitCodes")
        elif codes:
            fatal |= set(job.EXIT_CODES) - codes
            fields.say(here, Outcome.CHANGED, "runPolicy.fatalExitCodes", _OTHERS_FAIL)
        else:
            fields.leave(here, "its controller reads no exit code in it")
    if fatal:
        fields.put(("runPolicy", "fatalExitCodes"), sorted(fatal))


def _carry_retries(fields: Fields) -> None:
    """Carry how often the wrapper's job starts anew, where the job itself tries nothing again."""
    here: FieldPath = ("metadata", "annotations", _LIMIT)
    text = fields.text(*here)
    times = int(text) if text.isdecimal() else _TIMES
    to: FieldPath = ("runPolicy", "backoffLimit")
    if fields.values.get("runPolicy", {}).get("backoffLimit") != 0:
        if times:
            fields.leave(here, _JOB_ALONE)
        if times and not text:
            fields.note(_JOB_ALONE)
        return
    job.retry(fields, times, here)
    fields.say(here, Outcome.CHANGED, dotted(to), _AGAIN)
    if not text:
        fields.note(_UNSAID)


def _carry_ttl(fields: Fields, path: FieldPath) -> bool:
    """Carry how long a wrapper stays that has succeeded; whether it says so in a form of Go's."""
    text = fields.text(*path)
    if not _DURATION.fullmatch(text) or "ttlSecondsAfterFinished" in fields.values.get(
        "runPolicy", {}
    ):
        return False
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in _AMOUNT.findall(text))
    to: FieldPath = ("runPolicy", "ttlSecondsAfterFinished")
    fields.carry(path, to, max(1, round(seconds)), _AFTER_FAILURE)
    return True


_AMOUNT = re.compile(r"([0-9]+(?:\.[0-9]+)?)(h|ms|m|s)")
_DURATION = re.compile(rf"(?:{_AMOUNT.pattern})+")
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}


def _job(fields: Fields, components: FieldPath, template: str) -> tuple[int, tuple[str, str]]:
    """The component that is a job, and its API group and kind.

    Args:
        fields: the object.
        components: the list of what is wrapped.
        template: the key of each item that has the wrapped object.
    """
    jobs: list[tuple[int, tuple[str, str]]] = []
    for index, item in fields.items(*components):
        group = k8s.text(item, template, "apiVersion").rpartition("/")[0]
        key = (group, k8s.text(item, template, "kind"))
        if key in registry.REFUSED:
            why, hint = registry.REFUSED[key]
            path = dotted((*components, index, template, "kind"))
            raise InputError(f"a {key[1]} is not converted: {why}", path=path, hint=hint)
        if key in registry.KINDS:
            jobs.append((index, key))
    if len(jobs) != 1:
        raise InputError(
            f"it wraps {plural(len(jobs), 'job')}, and values are of one"
            if jobs
            else "it wraps no job",
            path=dotted(components),
            hint="give each of its components by itself",
        )
    return jobs[0]


def _beside(fields: Fields, path: FieldPath) -> None:
    kind, name = fields.text(*path, "kind"), fields.text(*path, "metadata", "name")
    if kind == "PodGroup":
        group = related_objects.pod_group(fields.mapping(*path), [fields.values])
        fields.beside.append(group)
        fields.change(path, f"apply it yourself: {group.why}" if group.is_needed else group.why)
        return
    why = "it was wrapped beside the job"
    fields.beside.append(Beside(kind or "an object without a kind", name, True, why))
    fields.say(path, Outcome.CHANGED, "", "apply it yourself: it is no part of the values")
