"""From what a person typed to a sweep that can run: everything that is the same for all trials.

The chart is found, and its values are read, validated and laid out once for all trials; what is
left for each of them is to put its parameters in.
"""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - a field's type
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from allranks import names, resources, words
from allranks.errors import AllranksError, InputError, InvalidValues, MissingToolError, Problem
from allranks.layout.compute import compute
from allranks.model.jobspec import JobSpec
from allranks.model.layout import Layout  # noqa: TC001 - a field's type
from allranks.schema import paths
from allranks.schema.validate import in_file_order
from allranks.schema.validate import located as schema_problems
from allranks.sweep import naming, notes, sampling, space
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
from allranks.sweep.owner import NOBODY, Owner
from allranks.sweep.values import apply, asking, foreign, places
from allranks.sweep.values import spec as reading
from allranks.sweep.values.asking import Request
from allranks.values import check
from allranks.values import sources as gathering
from allranks.values.merge import merge
from allranks.values.resolve import typed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from allranks.schema.paths import ValuesPath
    from allranks.sweep.model import Assignment, Reach
    from allranks.sweep.state import SweepState
    from allranks.sweep.values.asking import Asked

__all__ = ["Prepared", "Request", "check_job", "of_lost", "prepare", "restore", "samples"]

SWEEP = "sweep"
# What a trial that runs its command alone is laid out and judged as.
_PLAIN = "torchrun"
# So many different trials are validated before the first one starts.
_SAMPLES = 64
# So many trials of a foreign chart are rendered to find a Job; the first one has it, as a rule.
_RENDERED = 4
# What only the program of a trial reads: whatever stands there, the layout is the same.
_PROGRAM = frozenset({"command", "args", "script", "setup", "env"})
# The one parameter of a trial that charts/sweep runs alone: its name, which nothing depends on.
_ALONE = "name"

_Fault = tuple["ValuesPath", str, str]  # path, message, fix


@dataclass(frozen=True, slots=True)
class Prepared:
    """A sweep that can run.

    Attributes:
        spec: the sweep, bound to its chart.
        defaults: the values of the trials' chart.
        chart: its folder, or the reference that helm finds it by.
        workload: which of our charts it is; "" for a foreign one.
        layout: that of all trials; None where each has its own, or none of ours.
        notes: what a person should know.
        owner: what marks its releases.
    """

    spec: SweepSpec
    defaults: Mapping[str, Any]
    chart: Path | str
    workload: str
    layout: Layout | None = None
    notes: tuple[str, ...] = ()
    owner: Owner = NOBODY

    def values(self, trial: Trial) -> dict[str, Any]:
        """The values of a trial, as helm is given them: exactly what it runs with.

        Raises:
            InputError: its parameters give a job that cannot be laid out.
        """
        own = apply.trial_values(self.spec, trial.assignment, self.defaults, trial.name)
        if not self.workload:
            return own
        layout = self.layout or _layout(self, own)
        told = {"sweep": self.spec.name, "number": trial.number, "name": trial.name}
        laid_out = {**layout.to_values(), "trial": told}
        made = {**own, "workload": self.workload, "layout": laid_out}
        if self.workload == SWEEP:
            alone = {_ALONE: {"values": [trial.name], "env": names.ENV_TRIAL_NAME}}
            made[SWEEP] = {"parameters": alone}
        return made


def prepare(request: Request) -> Prepared:
    """Read, validate, bind and lay out a sweep.

    Raises:
        InputError: something is wrong; every problem is in it.
        MissingToolError: there is no helm, or Optuna is needed and missing.
    """
    asked = asking.ask(request)
    spec = reading.parse(request.name, asked.section, asked.token, asked.where, asked.more)
    spec = _with_trial(spec, asked)
    if request.check_only and asked.chart and not Path(asked.chart).exists():
        # What such a chart has, only helm can say, and only by fetching it.
        return Prepared(spec, {}, asked.chart, "", notes=tuple(reading.idle(asked.section)))
    defaults = _defaults(asked.workload, asked.chart, request.helm)
    bound = apply.bind(spec, defaults, asked.shorthand, asked.where, asked.trial_path)
    _make_search(bound.spec, request)
    told = [*reading.idle(asked.section), *_odd_choices(asked), *bound.notes]
    if request.parallel and not asked.section.get("parallel") and spec.trials > request.parallel:
        bound = replace(bound, spec=replace(bound.spec, parallel=request.parallel))
        trials = words.plural(request.parallel, "trial")
        runs = "runs" if request.parallel == 1 else "run"
        told.append(f"{trials} {runs} at a time; sweep.parallel says how many")
    prepared = _complete(bound.spec, defaults, tuple(told))
    if prepared.workload:
        _validate(prepared, asked, request)
        if not request.check_only:
            told += notes.of(asked.section, _first(prepared))
        prepared = replace(prepared, notes=tuple(told))
    return replace(_laid_out(prepared), owner=Owner.new())


def _make_search(spec: SweepSpec, request: Request) -> None:
    """Miss what the search needs now, and not with the first trial.

    Raises:
        MissingToolError: Optuna is not installed; no fault of the values, where they are checked.
    """
    with suppress(*(MissingToolError,) if request.check_only else ()):
        sampling.make(spec)


def first_job(prepared: Prepared) -> dict[str, Any]:
    """The complete values of a first trial, as those of the workload whose rules it follows.

    Args:
        prepared: a sweep of a chart of ours.
    """
    own = apply.trial_values(prepared.spec, next(samples(prepared.spec)), prepared.defaults)
    return _job(prepared, own)


def _odd_choices(asked: Asked) -> list[str]:
    """What flags may have said otherwise than they were meant, as sentences."""
    said = []
    for parameter in asked.more:
        if parameter.overlays or not isinstance(parameter.space, Values):
            continue
        texts = [choice.text for choice in parameter.space.choices]
        if "" in texts:
            said.append(f"{parameter.name}: choice {texts.index('') + 1} is the empty text")
        said += [
            f"{parameter.name}: {text} is taken as one text; a range has two numbers, as in 1..10"
            for text in texts
            if ".." in text
        ]
    return said


def restore(state: SweepState) -> Prepared:
    """A sweep that was begun before, from its journal alone; its values files are not read."""
    return replace(_laid_out(_complete(state.spec, state.defaults, ())), owner=state.owner)


def of_lost(name: str, owner: Owner) -> Prepared:
    """What is known of a sweep whose journal is gone: enough to find its releases.

    Args:
        name: the sweep's name.
        owner: what marks them.
    """
    spec = SweepSpec(name, (), Objective(""), TrialSpec())
    return Prepared(spec, {}, "", "", owner=owner)


def check_job(prepared: Prepared, namespace: str, helm: str = "") -> None:
    """Refuse a chart that makes no Job, before anything is begun: a trial ends when its Jobs do.

    A chart that cannot be rendered is not judged here; its trials say why.

    Args:
        prepared: the sweep.
        namespace: where its trials are to be.
        helm: the helm that a person named; "" for the one that is found.

    Raises:
        InputError: none of the first trials would have a Job.
        MissingToolError: there is no helm.
    """
    if prepared.workload:
        return
    from allranks.helm import driver, locate  # noqa: PLC0415 - only a foreign chart is rendered

    binary = locate.find(helm or None)
    for assignment in islice(samples(prepared.spec), _RENDERED):
        name = naming.trial_name(prepared.spec.name, assignment)
        values = prepared.values(Trial(0, name, assignment))
        try:
            text = driver.template(binary, name, namespace, prepared.chart, values)
        except AllranksError:
            return
        if foreign.makes_job(text):
            return
    raise InputError(
        f"the chart {prepared.chart} makes no Job, and a trial ends when its Jobs have ended",
        hint="name a chart with a Job in it: nothing says when a Deployment is done",
    )


def _with_trial(spec: SweepSpec, asked: Asked) -> SweepSpec:
    trial = replace(
        spec.trial, workload=asked.workload, chart=asked.chart, values=asked.shared, file=""
    )
    return replace(spec, trial=trial)


def _defaults(workload: str, chart: str, helm: str) -> Mapping[str, Any]:
    if chart:
        from allranks.helm import locate  # noqa: PLC0415 - only a reference needs helm

        return foreign.defaults(chart, locate.find(helm or None) if helm else None)
    found = gathering.defaults(workload or SWEEP)
    return {key: value for key, value in found.items() if key not in ("workload", SWEEP)}


def _complete(spec: SweepSpec, defaults: Mapping[str, Any], notes: tuple[str, ...]) -> Prepared:
    if spec.trial.chart:
        folder = Path(spec.trial.chart)
        return Prepared(
            spec, defaults, folder if folder.exists() else spec.trial.chart, "", notes=notes
        )
    workload = spec.trial.workload or SWEEP
    return Prepared(spec, defaults, resources.folder("charts") / workload, workload, notes=notes)


def _laid_out(prepared: Prepared) -> Prepared:
    """With the layout of all trials, where it is the same for all."""
    if not prepared.workload:
        return prepared
    spec = prepared.spec
    reaches = [reach for parameter in spec.parameters for reach in parameter.reaches]
    if not all(_is_program(reach) for reach in reaches):
        return prepared
    first = next(samples(spec))
    own = apply.trial_values(spec, first, prepared.defaults)
    layout = _layout(prepared, own)
    return Prepared(
        spec,
        prepared.defaults,
        prepared.chart,
        prepared.workload,
        layout,
        (*prepared.notes, *layout.notes),
    )


def _first(prepared: Prepared) -> dict[str, Any]:
    """The values of a first trial, over its chart's defaults."""
    own = apply.trial_values(prepared.spec, next(samples(prepared.spec)), prepared.defaults)
    return merge(prepared.defaults, own)


def _is_program(reach: Reach) -> bool:
    """Whether a parameter reaches only what a program reads."""
    if reach.kind in (ARG, ENV):
        return True
    return reach.kind != OVERLAY and places.parse(reach.to)[0] in _PROGRAM


def _layout(prepared: Prepared, own: Mapping[str, Any]) -> Layout:
    return compute(JobSpec.from_values(_job(prepared, own)))


def _job(prepared: Prepared, own: Mapping[str, Any]) -> dict[str, Any]:
    """A trial's values over the defaults of the chart whose rules they follow."""
    if prepared.workload == SWEEP:
        return {**merge(gathering.defaults(_PLAIN), own), "workload": _PLAIN}
    return {**merge(prepared.defaults, own), "workload": prepared.workload}


def _validate(prepared: Prepared, asked: Asked, request: Request) -> None:
    """Refuse values that the chart of the trials would refuse, before anything is begun."""
    found = {
        (path, message): Problem(
            paths.show(asked.trial_path(path)), message, hint, asked.trial_where(path)
        )
        for path, message, hint in _misplaced(asked)
    }
    values: Mapping[str, Any] = {}
    set_by = {
        places.parse(reach.to): parameter.name
        for parameter in prepared.spec.parameters
        for reach in parameter.reaches
        if reach.kind == PATH
    }
    for assignment in islice(samples(prepared.spec), _SAMPLES):
        own = apply.trial_values(prepared.spec, assignment, prepared.defaults)
        values = _job(prepared, own)
        for path, problem in _problems(prepared, values, asked.trial_where, request):
            if path in set_by and asked.trial_path(path) == path:
                place: ValuesPath = (SWEEP, "parameters", set_by[path])
                shown = problem.at(source=asked.where(place))
                if set_by[path] != shown.path:
                    message = f"at {shown.path}: {shown.message}"
                    shown = shown.at(paths.show(place), message=message)
            else:
                shown = problem.at(paths.show(asked.trial_path(path)))
            found.setdefault((path, problem.message), shown)
    if found:
        ordered = in_file_order(values, [(path, problem) for (path, _), problem in found.items()])
        raise InvalidValues([problem for _, problem in ordered])


def _misplaced(asked: Asked) -> Iterator[_Fault]:
    """Values of a trial's own that none can have, as path, message and fix."""
    for key in ("preset", "layout"):
        if asked.shared.get(key):
            yield (key,), "is about the whole sweep, not about a trial", "write it at the root"
    if not asked.workload and "torchrun" in asked.shared:
        yield (
            ("torchrun",),
            "the trial does not run torchrun",
            "set sweep.trial.workload to torchrun, or remove it",
        )


def _of_a_trial(prepared: Prepared, values: Mapping[str, Any]) -> Iterator[_Fault]:
    """What would keep a job of these values, good as it may be, from being a trial."""
    if prepared.workload == _PLAIN and values[_PLAIN]["controller"] == "StatefulSet":
        yield (
            (_PLAIN, "controller"),
            "a StatefulSet never ends, and a trial must",
            "write Job, or leave it out",
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
    prepared: Prepared,
    values: Mapping[str, Any],
    where: Callable[[ValuesPath], str],
    request: Request,
) -> list[tuple[ValuesPath, Problem]]:
    refused = schema_problems(str(values["workload"]), values, where, typed(where))
    broken = tuple(path for path, _ in refused)
    found = refused + check.located(
        values, where, request.release, request.namespace, broken, is_local=request.is_local
    )
    if found:
        return found
    return [
        (path, Problem(paths.show(path), message, hint, where(path)))
        for path, message, hint in _of_a_trial(prepared, values)
    ]


def samples(spec: SweepSpec) -> Iterator[Assignment]:
    """Trials in which every choice of every parameter appears once, the others being the first.

    What only the program reads, its chart does not judge: of such a parameter one is enough.
    """
    first = {item.name: space.at(item.space, 0.0) for item in spec.parameters}
    yield first
    for item in spec.parameters:
        if all(_is_program(reach) for reach in item.reaches):
            continue
        count = space.size(item.space)
        if count is None:
            yield {**first, item.name: space.at(item.space, 1.0 - 2**-53)}
            continue
        for index in range(1, min(count, _SAMPLES)):
            yield {**first, item.name: space.choice(item.space, index)}
