"""A converter's last step: values that the chart takes, whatever the object said.

An object may say what no chart takes: an amount without a unit, a label that is none, what the old
controller has never checked. Such a value is taken out again, and its field is said not to be
carried, with the problem as the reason. So what comes out is valid, always.
"""

from __future__ import annotations

import functools
import math
import re
from collections import deque
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.convert.chart_values import (
    image_demands,
    literal_variables,
    mount_paths,
    port_names,
    program_path,
    queue_and_scheduler,
    sshd_port,
)
from allranks.convert.chart_values.item_paths import place_of, same_place
from allranks.convert.pods import affinities, downward
from allranks.convert.verdicts import (
    Conversion,
    FieldPath,
    Fields,
    Outcome,
    dotted,
)
from allranks.errors import InputError, Problem
from allranks.k8s import fields as k8s
from allranks.schema.validate import find_problems as schema_problems
from allranks.values import check
from allranks.values.merge import merge
from allranks.values.rules.names import nearest_name
from allranks.values.sources import defaults as chart_defaults
from allranks.yamlio.load import MAX_EXACT_INT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# So often values may be taken out, each time all that is wrong.
_ROUNDS = 12
# What was accepted last. An object that is written as one of another kind has its values, as a
# rule, and their check is the most of a conversion's time.
_accepted: deque[tuple[str, str, str]] = deque(maxlen=4)


def conversion(fields: Fields, *, queue: str = "", chart: str = "", name: str = "") -> Conversion:
    """What has been made of an object, with all that the chart refuses taken out.

    Args:
        fields: the object, converted.
        queue: the queue that it names for `-q`.
        chart: the chart that the values are for, where they have no `workload`.
        name: the object's name, where it is not in its metadata.

    Raises:
        InputError: what is left is no job.
    """
    name = nearest_name(name, names.HELM_RELEASE_NAME_MAX) if name else _name(fields)
    literal_variables.take_out(fields)
    program_path.complete(fields)
    affinities.take_out(fields)
    downward.take_out(fields)
    _share_devices(fields)
    _without_deadline(fields)
    sshd_port.take_over(fields)
    port_names.take_over(fields)
    mount_paths.note_hidden(fields)
    queue_and_scheduler.settle(fields)
    queue_and_scheduler.keep_pod_group(fields)
    queue_and_scheduler.note_gang(fields)
    queue_and_scheduler.keep_pod_priority(fields)
    queue_and_scheduler.note_workloads(fields)
    image_demands.note(fields)
    chart = chart or str(fields.values.get("workload") or "")
    settle(fields, chart, name)
    namespace = _namespace(fields)
    return Conversion(
        kind=_text(fields.get("kind")),
        name=name,
        namespace=namespace,
        values=written(fields.values),
        verdicts=fields.verdicts(),
        queue=queue,
        notes=tuple(fields.notes),
        beside=tuple(fields.beside),
        origins=fields.origins,
        runtime=fields.runtime,
    )


# The charts tell an experiment tracker that a job is one run, which the next attempt goes on with.
# Nobody told it so before: each process that logs began a run of its own, with a name of its own.
_TRACKERS = {"mode": "none"}


def written(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values as their file has them: nothing empty, what people look for first, and trackers.

    Args:
        values: the values of a job or of a queue.
    """
    own = _without_empty(values)
    if "workload" in own:
        own.setdefault("trackers", {**_TRACKERS})
    return _ordered(own)


def _without_deadline(fields: Fields) -> None:
    """Say of a deadline of no seconds, with which Kubernetes ends a Job, that it is none here."""
    to = ("runPolicy", "activeDeadlineSeconds")
    if k8s.at(fields.values, *to) == 0:
        for path in fields.sources_of(dotted(to)):
            fields.change(path, "0 is no deadline here", dotted(to))


# Devices with several cores each, of which a process may have one.
_OF_CORES = ("aws.amazon.com/neuron", "aws.amazon.com/neurondevice")


def _share_devices(fields: Fields) -> None:
    """Ask for devices of several cores as for any other where more processes share them.

    The ranks of MPI may share any device.
    """
    values = fields.values
    if values.get("workload") == "mpi":
        return
    devices, processes = values.get("gpusPerNode"), values.get("procsPerNode")
    resource = values.get("gpuResource")
    if resource not in _OF_CORES or not isinstance(devices, int) or not isinstance(processes, int):
        return
    if processes <= devices:
        return
    del values["gpusPerNode"], values["gpuResource"]
    to: FieldPath = ("resources", "perPod", "limits", resource)
    fields.put(to, str(devices))
    source = fields.origins.get(("gpuResource",))
    if source:
        fields.origins[to] = source
        fields.say(source, Outcome.CARRIED, dotted(to))


def settle(fields: Fields, chart: str, name: str) -> None:
    """Take out of the values what the chart refuses.

    Args:
        fields: the object, converted.
        chart: the chart.
        name: the release's name.

    Raises:
        InputError: a problem cannot be solved by leaving something out.
    """
    for _ in range(_ROUNDS):
        judged = (chart, name, repr(written(fields.values)))
        if judged in _accepted:
            return
        problems = problems_of(fields.values, chart, name)
        if not problems:
            _accepted.append(judged)
            return
        # A limit goes first: what is more than it allows may be right without it.
        limits = [item for item in problems if item[0][:3] == ("elastic", "auto", "limits")]
        # Of a list the last item goes first, so that the others are where they were.
        for path, problem in sorted(limits or problems, key=_indexes, reverse=True):
            _take_out(fields, path, problem)
    problems = problems_of(fields.values, chart, name)
    if problems:
        raise _refusal(problems[0][1])


def _indexes(item: tuple[FieldPath, Problem]) -> list[int]:
    """The indexes in a problem's path."""
    return [step for step in item[0] if isinstance(step, int)]


def problems_of(
    values: Mapping[str, Any], chart: str, name: str = ""
) -> list[tuple[FieldPath, Problem]]:
    """What the schema and the rules of a chart find in values.

    Args:
        values: the values, without the chart's defaults.
        chart: the chart.
        name: the release's name; "" where it is not to be judged.
    """
    if unheld := unheld_numbers(values):
        return unheld
    all_values = merge(_defaults(chart), values)

    def counts(path: FieldPath) -> bool:
        # The defaults are of the right shape: what is missing here and is among them is there.
        return _existing(values, path) == path or _existing(all_values, path) != path

    findings = schema_problems(chart, values, _nowhere, counts=counts)
    if chart in names.WORKLOADS:
        unreadable = tuple(path for path, _ in findings)
        findings = [*findings, *check.find_problems(all_values, _nowhere, name, "", unreadable)]
    return findings


def unheld_numbers(values: Mapping[str, Any]) -> list[tuple[FieldPath, Problem]]:
    """The numbers that Helm does not hold as they are written."""
    return list(_unheld_numbers(values, ()))


def _unheld_numbers(node: Any, path: FieldPath) -> Iterator[tuple[FieldPath, Problem]]:
    if isinstance(node, dict):
        for key, value in node.items():
            yield from _unheld_numbers(value, (*path, key))
    elif isinstance(node, list):
        for index, value in enumerate(node):
            yield from _unheld_numbers(value, (*path, index))
    elif isinstance(node, int | float) and not isinstance(node, bool):
        is_held = abs(node) <= MAX_EXACT_INT if isinstance(node, int) else math.isfinite(node)
        if not is_held:
            yield (
                path,
                Problem(dotted(path), "Helm does not hold such a number", "write a smaller one"),
            )


def _nowhere(_: object) -> str:
    return ""


@functools.cache
def _defaults(chart: str) -> dict[str, Any]:
    return chart_defaults(chart)


def _refusal(problem: Problem) -> InputError:
    return InputError(problem.message, path=problem.path, hint=problem.hint)


def _take_out(fields: Fields, path: FieldPath, problem: Problem) -> None:
    """Take the value at a path out, and say so of the fields that it was made of."""
    own = _whole_item(_whole_condition(_existing(fields.values, path)))
    if not own or own == ("workload",):
        raise _refusal(problem)
    places = {place_of(fields.values, to): source for to, source in fields.origins.items()}
    sources = [source for to, source in places.items() if to and to[: len(own)] == own]
    above = [(len(to), source) for to, source in places.items() if to and own[: len(to)] == to]
    if not sources and above:
        length, source = max(above)
        value = Fields(fields.values).get(*own[:length])
        within = same_place(value, fields.get(*source), own[length:])
        sources = [source if within is None else (*source, *within)]
    repeats = [
        source
        for to, others in fields.repeats.items()
        if place_of(fields.values, to)[: len(own)] == own
        for source in others
    ]
    _remove(fields.values, own)
    present = [source for source in sources if fields.has(*source)]
    why = f"{problem.path or 'it'}: {problem.message}"
    if own == _PROCESSES:
        present = [_count_of_processes(fields, source) for source in present]
        why += "; it is left out, and each GPU has one"
    for source in (*present, *repeats):
        fields.leave(source, why)
    if not present:
        fields.note(f"{dotted(own)} is left out: {problem.message}")


_PROCESSES: FieldPath = ("procsPerNode",)


def _count_of_processes(fields: Fields, source: FieldPath) -> FieldPath:
    """The word of a command that says how many processes a node has; the field itself for none."""
    words = fields.words(*source)
    counts = [index for index, word in enumerate(words) if _COUNT_OF_PROCESSES.search(word)]
    return (*source, counts[0]) if counts else source


_COUNT_OF_PROCESSES = re.compile(r"--nproc[-_]per[-_]node\b")


def _whole_condition(path: FieldPath) -> FieldPath:
    """A path, up to the condition of a node's labels that it is in: without values it is none."""
    for depth in range(2, len(path)):
        if path[depth] == "values" and path[depth - 2] in ("matchExpressions", "matchFields"):
            return path[:depth]
    return path


def _whole_item(path: FieldPath) -> FieldPath:
    """A path, up to the item whose name it is: but for ports, none is merged without one."""
    is_name = len(path) > 2 and path[-1] == "name" and isinstance(path[-2], int)  # noqa: PLR2004
    return path[:-1] if is_name and path[-3] != "ports" else path


def _existing(values: Mapping[str, Any], path: FieldPath) -> FieldPath:
    """The path as far as the values have it."""
    node: Any = values
    for depth, step in enumerate(path):
        if isinstance(node, list):
            has = isinstance(step, int) and step < len(node)
        else:
            has = isinstance(node, dict) and step in node
        if not has:
            return path[:depth]
        holder: Any = node
        node = holder[step]
    return path


def _remove(values: dict[str, Any], path: FieldPath) -> None:
    node: Any = values
    for step in path[:-1]:
        node = node[step]
    del node[path[-1]]


def _without_empty(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values without the sections that are empty, as what was taken out leaves them."""
    sections: dict[str, Any] = {}
    for key, value in values.items():
        below = _without_empty(value) if isinstance(value, dict) and key in _SECTIONS else value
        if below not in ({}, []):
            sections[key] = below
    return sections


_SECTIONS = frozenset(
    (
        *("image", "resources", "perPod", "requests", "limits", "shm", "scheduling", "runPolicy"),
        *("network", "security", "serviceAccount", "torchrun", "elastic", "mpi", "podTemplate"),
        *("metadata", "spec", "env", "labels", "annotations", "nodeSelector", "roles", "launcher"),
        *("worker", "ps", "chief", "evaluator", "scheduler", "server"),
    )
)
# The order of a values file, as the charts' own have it.
_ORDER = (
    *("workload", "preset", "image", "imagePullSecrets", "command", "args", "script", "setup"),
    *(
        "workingDir",
        "compat",
        "slurm",
        "env",
        "envFrom",
        "gpus",
        "nodes",
        "gpusPerNode",
        "procsPerNode",
    ),
    *("nodeShape", "gpuResource", "gpuType", "resources", "shm", "workspace", "storage", "queue"),
    *("scheduling", "runPolicy", "network", "networkPolicy", "security", "serviceAccount"),
    *("status", "trackers", "labels", "annotations", "podTemplate"),
)


def _ordered(values: Mapping[str, Any]) -> dict[str, Any]:
    first = {key: values[key] for key in _ORDER if key in values}
    return {**first, **{key: value for key, value in values.items() if key not in first}}


def _name(fields: Fields) -> str:
    """The release's name: the object's own, or the nearest that a release may have."""
    for key in ("name", "generateName"):
        own = fields.text("metadata", key)
        if own:
            limit = names.HELM_RELEASE_NAME_MAX
            near = nearest_name(own, limit)
            if near != own and key == "name":
                fields.change(("metadata", key), "a release's name is a Service's", near)
            else:
                fields.say(("metadata", key), Outcome.CARRIED, "NAME, the release")
            return near
    raise InputError(
        f"{_text(fields.get('kind')) or 'the object'} has no name",
        path="metadata.name",
        hint="give it a name",
    )


def _namespace(fields: Fields) -> str:
    fields.say(("metadata", "namespace"), Outcome.CARRIED, "-n")
    return fields.text("metadata", "namespace")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
