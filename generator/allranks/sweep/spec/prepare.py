"""Prepare a sweep: from flags and values files to everything that is the same for all trials.

The chart is located, and its values are read, validated and laid out once for all trials; only the
parameters are put in for each trial.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from allranks import humanize, names, resources
from allranks.errors import AllranksError, InputError, InvalidValues, MissingToolError, Problem
from allranks.humanize import flow
from allranks.layout.compute import compute
from allranks.model.job_spec import JobSpec
from allranks.schema import paths
from allranks.schema.validate import find_problems as schema_problems
from allranks.schema.validate import in_file_order
from allranks.sweep import naming
from allranks.sweep.model import (
    ARG,
    ENV,
    OVERLAY,
    PATH,
    Objective,
    SweepSpec,
    Trial,
    TrialSpec,
    Values,
)
from allranks.sweep.ownership import UNOWNED, OwnerMark
from allranks.sweep.search import factory, space
from allranks.sweep.spec import apply, external_chart
from allranks.sweep.spec import parse as reading
from allranks.sweep.spec import request as spec_request
from allranks.sweep.spec.request import SweepFlags
from allranks.values import check
from allranks.values import sources as gathering
from allranks.values.merge import merge
from allranks.values.queue import overridden
from allranks.values.resolve import typed
from allranks.values.rules.azure import exists

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from allranks.model.layout import Layout
    from allranks.schema.paths import ValuesPath
    from allranks.sweep.model import Assignment, Reach
    from allranks.sweep.spec.request import SweepRequest
    from allranks.sweep.state import SweepState
    from allranks.values.queue import Queue


__all__ = [
    "PreparedSweep",
    "SweepFlags",
    "check_job",
    "prepare",
    "restore",
    "samples",
    "sweep_without_journal",
]

SWEEP = "sweep"
# The workload whose layout and rules apply to a trial that runs its command alone.
_PLAIN = "torchrun"
# How many different trials are validated before the first one starts.
_SAMPLES = 64
# How many trials of an external chart are rendered to find a Job; the first one has it, as a rule.
_RENDERED = 4
# Keys that only the program of a trial reads; the layout does not depend on them.
_PROGRAM = frozenset({"command", "args", "script", "setup", "env"})
# The name of the only parameter of a trial that charts/sweep runs alone; nothing depends on it.
_ALONE = "name"

_Fault = tuple["ValuesPath", str, str]  # path, message, fix


@dataclass(frozen=True, slots=True)
class PreparedSweep:
    """A sweep that is ready to run.

    Attributes:
        spec: the sweep, bound to its chart.
        defaults: the values of the trials' chart.
        chart: its folder, or its reference for helm.
        workload: which of our charts it is; "" for an external one.
        layout: the layout of all trials; None if each has its own, or the chart is external.
        notes: sentences that the user should read.
        owner: the mark of its releases.
    """

    spec: SweepSpec
    defaults: Mapping[str, Any]
    chart: Path | str
    workload: str
    layout: Layout | None = None
    notes: tuple[str, ...] = ()
    owner: OwnerMark = UNOWNED

    def values(self, trial: Trial) -> dict[str, Any]:
        """Return the complete values of a trial for helm.

        Raises:
            InputError: its parameters give a job that cannot be laid out.
        """
        own = apply.trial_values(self.spec, trial.assignment, self.defaults, trial.name)
        if not self.workload:
            return own
        layout = self.layout or _layout(self, own)
        identity = {"sweep": self.spec.name, "number": trial.number, "name": trial.name}
        laid_out = {**layout.to_values(), "trial": identity}
        values = {**own, "workload": self.workload, "layout": laid_out}
        if self.workload == SWEEP:
            parameters = {_ALONE: {"values": [trial.name], "env": names.ENV_TRIAL_NAME}}
            values[SWEEP] = {"parameters": parameters}
        return values


def prepare(request: SweepFlags) -> PreparedSweep:
    """Read, validate, bind and lay out a sweep.

    Raises:
        InputError: the input is not valid; it lists every problem.
        MissingToolError: there is no helm, or Optuna is needed and missing.
    """
    merged = spec_request.read_request(request)
    spec = reading.parse(request.name, merged.section, merged.token, merged.where, merged.more)
    spec = _with_trial(spec, merged)
    if request.check_only and merged.chart and not Path(merged.chart).exists():
        # The values of such a chart are unknown until helm fetches it.
        return PreparedSweep(
            spec, {}, merged.chart, "", notes=tuple(reading.unused_settings(merged.section))
        )
    defaults = _defaults(merged.workload, merged.chart, request.helm)
    bound = apply.bind(spec, defaults, merged.shorthand, merged.where, merged.trial_path)
    _make_search(bound.spec, request)
    notes = [*reading.unused_settings(merged.section), *_odd_choices(merged), *bound.notes]
    if not request.check_only:
        notes += merged.notes
    if request.parallel and not merged.section.get("parallel") and spec.trials > request.parallel:
        bound = replace(bound, spec=replace(bound.spec, parallel=request.parallel))
        trials = humanize.plural(request.parallel, "trial")
        runs = "runs" if request.parallel == 1 else "run"
        notes.append(f"{trials} {runs} at a time; sweep.parallel says how many")
    prepared = _complete(bound.spec, defaults, tuple(notes))
    if prepared.workload:
        _validate(prepared, merged, request)
        if not request.check_only:
            notes += shared_values_notes(merged.section, _first(prepared))
        prepared = replace(prepared, notes=tuple(notes))
    return replace(_laid_out(prepared), owner=OwnerMark.new())


def _make_search(spec: SweepSpec, request: SweepFlags) -> None:
    """Create the search once, to fail now and not with the first trial.

    Raises:
        MissingToolError: Optuna is not installed; ignored if the values are only checked.
    """
    with suppress(*(MissingToolError,) if request.check_only else ()):
        factory.make(spec)


def first_job(prepared: PreparedSweep) -> dict[str, Any]:
    """Return the complete values of a first trial, as those of the workload whose rules apply.

    Args:
        prepared: a sweep of a chart of ours.
    """
    own = apply.trial_values(prepared.spec, next(samples(prepared.spec)), prepared.defaults)
    return _job(prepared, own)


def _odd_choices(request: SweepRequest) -> list[str]:
    """Return notes about choices of flags that may be mistakes, as sentences."""
    notes = []
    for parameter in request.more:
        if parameter.overlays or not isinstance(parameter.space, Values):
            continue
        texts = [choice.text for choice in parameter.space.choices]
        if "" in texts:
            notes.append(f"{parameter.name}: choice {texts.index('') + 1} is the empty text")
        notes += [
            f"{parameter.name}: {text} is taken as one text; a range has two numbers, as in 1..10"
            for text in texts
            if ".." in text
        ]
    return notes


def restore(state: SweepState) -> PreparedSweep:
    """Return a prepared sweep from its journal alone, without its values files."""
    return replace(_laid_out(_complete(state.spec, state.defaults, ())), owner=state.owner)


def sweep_without_journal(name: str, owner: OwnerMark) -> PreparedSweep:
    """Return a sweep whose journal is gone, with just enough to find its releases.

    Args:
        name: the sweep's name.
        owner: the mark of its releases.
    """
    spec = SweepSpec(name, (), Objective(""), TrialSpec())
    return PreparedSweep(spec, {}, "", "", owner=owner)


def check_job(prepared: PreparedSweep, namespace: str, helm: str = "") -> None:
    """Refuse a chart without a Job before anything starts: a trial ends when its Jobs do.

    A chart that cannot be rendered passes; its trials report why.

    Args:
        prepared: the sweep.
        namespace: where its trials will run.
        helm: the path of helm; "" to find it.

    Raises:
        InputError: none of the first trials would have a Job.
        MissingToolError: there is no helm.
    """
    if prepared.workload:
        return
    from allranks.helm import binary as helm_binary
    from allranks.helm import driver

    binary = helm_binary.find(helm or None)
    for assignment in islice(samples(prepared.spec), _RENDERED):
        name = naming.trial_name(prepared.spec.name, assignment)
        values = prepared.values(Trial(0, name, assignment))
        try:
            text = driver.template(binary, name, namespace, prepared.chart, values)
        except AllranksError:
            return
        if external_chart.makes_job(text):
            return
    raise InputError(
        f"the chart {prepared.chart} makes no Job, and a trial ends when its Jobs have ended",
        hint="name a chart with a Job in it: nothing says when a Deployment is done",
    )


def _with_trial(spec: SweepSpec, request: SweepRequest) -> SweepSpec:
    trial = replace(
        spec.trial, workload=request.workload, chart=request.chart, values=request.shared, file=""
    )
    return replace(spec, trial=trial)


def _defaults(workload: str, chart: str, helm: str) -> Mapping[str, Any]:
    if chart:
        from allranks.helm import binary as helm_binary

        return external_chart.defaults(chart, helm_binary.find(helm or None) if helm else None)
    chart_defaults = gathering.defaults(workload or SWEEP)
    return {key: value for key, value in chart_defaults.items() if key not in ("workload", SWEEP)}


def _complete(
    spec: SweepSpec, defaults: Mapping[str, Any], notes: tuple[str, ...]
) -> PreparedSweep:
    if spec.trial.chart:
        folder = Path(spec.trial.chart)
        return PreparedSweep(
            spec, defaults, folder if folder.exists() else spec.trial.chart, "", notes=notes
        )
    workload = spec.trial.workload or SWEEP
    return PreparedSweep(
        spec, defaults, resources.folder("charts") / workload, workload, notes=notes
    )


def _laid_out(prepared: PreparedSweep) -> PreparedSweep:
    """Return the sweep with a layout, if it is the same for all trials."""
    if not prepared.workload:
        return prepared
    spec = prepared.spec
    reaches = [reach for parameter in spec.parameters for reach in parameter.reaches]
    if not all(_is_program(reach) for reach in reaches):
        return prepared
    first = next(samples(spec))
    own = apply.trial_values(spec, first, prepared.defaults)
    layout = _layout(prepared, own)
    return PreparedSweep(
        spec,
        prepared.defaults,
        prepared.chart,
        prepared.workload,
        layout,
        (*prepared.notes, *layout.notes),
    )


def _first(prepared: PreparedSweep) -> dict[str, Any]:
    """Return the values of a first trial, over its chart's defaults."""
    own = apply.trial_values(prepared.spec, next(samples(prepared.spec)), prepared.defaults)
    return merge(prepared.defaults, own)


def _is_program(reach: Reach) -> bool:
    """Whether a parameter reaches only the program of a trial."""
    if reach.kind in (ARG, ENV):
        return True
    return reach.kind != OVERLAY and apply.parse(reach.to)[0] in _PROGRAM


def _layout(prepared: PreparedSweep, own: Mapping[str, Any]) -> Layout:
    return compute(JobSpec.from_values(_job(prepared, own)))


def _job(prepared: PreparedSweep, own: Mapping[str, Any]) -> dict[str, Any]:
    """Return a trial's values over the defaults of the chart whose rules apply."""
    if prepared.workload == SWEEP:
        return {**merge(gathering.defaults(_PLAIN), own), "workload": _PLAIN}
    return {**merge(prepared.defaults, own), "workload": prepared.workload}


def _validate(prepared: PreparedSweep, request: SweepRequest, flags: SweepFlags) -> None:
    """Refuse values that the chart of the trials would refuse, before anything starts."""
    faults = {
        (path, message): Problem(
            paths.show(request.trial_path(path)), message, hint, request.trial_where(path)
        )
        for path, message, hint in _misplaced(request)
    }
    values: Mapping[str, Any] = {}
    set_by = {
        apply.parse(reach.to): parameter.name
        for parameter in prepared.spec.parameters
        for reach in parameter.reaches
        if reach.kind == PATH
    }
    for assignment in islice(samples(prepared.spec), _SAMPLES):
        own = apply.trial_values(prepared.spec, assignment, prepared.defaults)
        values = _job(prepared, own)
        faults |= {
            (path, message): Problem(paths.show(path), message, hint, request.trial_where(path))
            for path, message, hint in _imposed(flags.queue, own)
        }
        for path, problem in _problems(prepared, values, request.trial_where, flags):
            if path in set_by and request.trial_path(path) == path:
                place: ValuesPath = (SWEEP, "parameters", set_by[path])
                located = problem.at(source=request.where(place))
                if set_by[path] != located.path:
                    message = f"at {located.path}: {located.message}"
                    located = located.at(paths.show(place), message=message)
                elif set_by[path] not in request.shorthand:
                    located = located.at(paths.show(place))
            else:
                located = problem.at(paths.show(request.trial_path(path)))
            faults.setdefault((path, problem.message), located)
    if faults:
        ordered = in_file_order(values, [(path, problem) for (path, _), problem in faults.items()])
        raise InvalidValues([problem for _, problem in ordered])


def _imposed(queue: Queue | None, own: Mapping[str, Any]) -> Iterator[_Fault]:
    """Yield values that a parameter sets and a queue imposes, as path, message and fix."""
    if queue is None:
        return
    for path, value, imposed in overridden(own, queue.imposed.data):
        yield (
            path,
            f"a trial would have {flow(value)}, and the queue imposes {flow(imposed)}",
            "leave it out of the parameters",
        )


def _misplaced(request: SweepRequest) -> Iterator[_Fault]:
    """Yield values that a trial cannot have, as path, message and fix."""
    for key in ("preset", "layout"):
        if request.shared.get(key):
            yield (key,), "is about the whole sweep, not about a trial", "write it at the root"
    if not request.workload and "torchrun" in request.shared:
        yield (
            ("torchrun",),
            "the trial does not run torchrun",
            "set sweep.trial.workload to torchrun, or remove it",
        )


def _trial_faults(prepared: PreparedSweep, values: Mapping[str, Any]) -> Iterator[_Fault]:
    """Yield reasons why a valid job cannot be a trial."""
    if prepared.workload == _PLAIN and values[_PLAIN]["controller"] == "StatefulSet":
        yield (
            (_PLAIN, "controller"),
            "a StatefulSet never ends, and a trial must",
            "write Job, or leave it out",
        )
    if prepared.workload == _PLAIN and values[_PLAIN]["torchft"]["lighthouse"]:
        yield (
            (_PLAIN, "torchft", "lighthouse"),
            "a lighthouse does not tell jobs apart, and the trials of a sweep would share it",
            "remove it",
        )
    if prepared.workload != SWEEP:
        return
    layout = compute(JobSpec.from_values(values))
    if layout.nodes > 1 or layout.max_nodes > 1:
        yield (
            ("nodes",),
            f"a trial of {layout.nodes} pods needs something that runs it",
            "set sweep.trial.workload to torchrun, or use one node",
        )


def _problems(
    prepared: PreparedSweep,
    values: Mapping[str, Any],
    where: Callable[[ValuesPath], str],
    flags: SweepFlags,
) -> list[tuple[ValuesPath, Problem]]:
    schema_findings = schema_problems(str(values["workload"]), values, where, typed(where))
    broken = tuple(path for path, _ in schema_findings)
    problems = schema_findings + check.find_problems(
        values,
        where,
        flags.release,
        flags.namespace,
        broken,
        is_local=flags.is_local,
        queue=flags.queue,
    )
    if problems:
        return problems
    return [
        (path, Problem(paths.show(path), message, hint, where(path)))
        for path, message, hint in _trial_faults(prepared, values)
    ]


def samples(spec: SweepSpec) -> Iterator[Assignment]:
    """Yield trials in which every choice appears once, the other parameters at their first choice.

    A parameter that only the program reads is not checked by the chart: one choice is enough.
    """
    first = {item.name: space.choice_at(item.space, 0.0) for item in spec.parameters}
    yield first
    for item in spec.parameters:
        if all(_is_program(reach) for reach in item.reaches):
            continue
        count = space.size(item.space)
        if count is None:
            yield {**first, item.name: space.choice_at(item.space, 1.0 - 2**-53)}
            continue
        for index in range(1, min(count, _SAMPLES)):
            yield {**first, item.name: space.choice(item.space, index)}


def shared_values_notes(section: Mapping[str, Any], values: Mapping[str, Any]) -> list[str]:
    """Return notes about storage and TensorBoard, which each trial would have for itself.

    Args:
        section: the values under `sweep`.
        values: those of a trial, over the defaults of its chart.
    """
    return [*_tensorboard(section), *_volumes(values)]


def _tensorboard(section: Mapping[str, Any]) -> Iterator[str]:
    board = section.get("tensorboard")
    if isinstance(board, dict) and board.get("enabled"):
        yield (
            "sweep.tensorboard is made by plain Helm alone, so there will be none here; "
            "run one of your own on a volume that all trials share"
        )


def _volumes(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield a note about each volume that every trial has for itself, and its end."""
    for name, volume in (values.get("storage") or {}).items():
        if not isinstance(volume, dict) or volume.get("existingClaim") or exists(volume):
            continue
        if not (volume.get("size") or volume.get("sizePerGpu")):
            continue
        if volume.get("keep"):
            end = "which stays when the trial is removed (keep: true)"
        else:
            end = "which goes when the trial is removed, with all that it wrote there"
        yield (
            f"storage.{name}: each trial has a volume of its own, {end}; "
            f"storage.{name}.existingClaim names one that all share"
        )
