"""Kubeflow Trainer's OptimizationJobs as sweeps.

An OptimizationJob runs a TrainJob for each of its trials, with the trial's parameters in the place
of ``{{.NAME}}``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.convert.chart_values import finish, trials
from allranks.convert.jobs.rewrite import Rewrite
from allranks.convert.kinds import optimization_spaces, runtimes, trainjob
from allranks.convert.pods import pod_values
from allranks.convert.verdicts import METADATA, Fields, Outcome, Rule, Rules, carried, changed, lost
from allranks.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from allranks.convert.documents.context import Context
    from allranks.convert.documents.document import Manifest
    from allranks.convert.verdicts import Conversion, FieldPath

KIND = "OptimizationJob"
_TEMPLATE: FieldPath = ("spec", "trainJobTemplate")
_P = "spec.parameters[]"
# The searches that there are here as well; the first has no seed.
_SEARCHES = ("grid", "random", "tpe")
FIELDS: tuple[Rule, ...] = (
    *METADATA,
    carried("spec.numTrials", "sweep.trials"),
    carried("spec.parallelTrials", "sweep.parallel"),
    carried("spec.objectives[].metric", "sweep.objective.metric"),
    carried("spec.objectives[].direction", "sweep.objective.direction"),
    carried("spec.objectives[].goal", "sweep.objective.goal"),
    *(carried(f"spec.searchAlgorithm.{name}", "sweep.search") for name in _SEARCHES),
    *(carried(f"spec.searchAlgorithm.{name}.seed", "sweep.seed") for name in _SEARCHES[1:]),
    lost(
        "spec.searchAlgorithm.tpe.nStartupTrials",
        "a sweep's tpe chooses itself how many trials it draws at random first",
    ),
    carried(f"{_P}.name", "sweep.parameters.NAME"),
    *(rule.below(f"{_P}.searchSpace") for rule in optimization_spaces.FIELDS),
    changed("spec.trainJobTemplate.metadata.**", "labels, annotations", "a trial's own"),
    *(
        rule.below("spec.trainJobTemplate")
        for rule in trainjob.FIELDS
        if rule.path.startswith("spec.")
    ),
)
_RULES = Rules(FIELDS)
_HOLDER = re.compile(r"\{\{\s*\.\s*([A-Za-z_][\w.-]*)\s*\}\}")
_SEEDS = 2**32


def convert(manifest: Manifest, context: Context) -> Conversion:
    """An OptimizationJob as the values of a sweep.

    Args:
        manifest: the object.
        context: what else is known; its documents and runtimes may have the runtime.

    Raises:
        InputError: its search or its TrainJob has no form here.
    """
    fields = Fields(manifest, rules=_RULES, unknown=f"an {KIND} has no such field")
    search = _search(fields)
    parameters = _parameters(fields, search)
    target = Rewrite(fields, _job(fields, parameters))
    target.also(_TEMPLATE, ())
    target.name_after(fields)
    inner = target.convert((runtimes.GROUP, trainjob.KIND), context)
    names_in_values = trials.reached(inner.values)
    own: dict[str, Any] = {}
    for name, (index, space) in parameters.items():
        short = trials.parameter_name(name)
        if short in names_in_values:
            own[short] = space
        else:
            fields.leave(
                ("spec", "parameters", index),
                "no trial reads it, so that it would make no difference",
            )
    if not own:
        raise InputError(
            "no trial reads any of the parameters",
            path="spec.parameters",
            hint="use them in trainJobTemplate, as {{.NAME}}",
        )
    spaces: dict[str, FieldPath] = {
        trials.parameter_name(name): ("spec", "parameters", index, "searchSpace")
        for name, (index, _) in parameters.items()
    }
    section = {"parameters": own, **_section(fields, search)}
    section = trials.bounded(fields, section, spaces, ("spec", "numTrials"))
    fields.origins["sweep", "search"] = ("spec", "searchAlgorithm")
    trials.put(fields, inner.values, section, spaces)
    pod_values.labels(fields, ("metadata",), ())
    _note_unnamed(fields, parameters)
    fields.note(
        f"start it with `{names.CLI} sweep run NAME -f FILE`: plain Helm has no search but a grid"
    )
    return finish.conversion(fields, queue=inner.queue)


def trial(manifest: Manifest, _context: Context) -> Manifest:
    """The TrainJob of an OptimizationJob's trial, with ${sweep.NAME} for its parameters.

    Args:
        manifest: the OptimizationJob.
        _context: what else is known.
    """
    fields = Fields(manifest)
    job = _job(fields, _parameters(fields, _search(fields)))
    kind = {"apiVersion": f"{runtimes.GROUP}/v1alpha1", "kind": trainjob.KIND}
    return trials.named({**kind, **job}, fields.text("metadata", "name"))


def _note_unnamed(fields: Fields, parameters: Iterable[str]) -> None:
    """Say which holders of the template name no parameter."""
    texts = trials.texts(fields.mapping(*_TEMPLATE))
    holders = {match[1]: match[0] for text in texts for match in _HOLDER.finditer(text)}
    for name in sorted(holders.keys() - set(parameters)):
        fields.note(f"{holders[name]} stands in the trials as it is: no parameter is called {name}")


def _job(fields: Fields, parameters: Iterable[str]) -> Manifest:
    """The TrainJob of its trials, with what a sweep has in the place of parameters."""
    held = {name: trials.holder(trials.parameter_name(name)) for name in parameters}

    def put(text: str) -> str:
        return _HOLDER.sub(lambda match: held.get(match[1], match[0]), text)

    template: Manifest = trials.replaced(fields.mapping(*_TEMPLATE), put)
    return template


def _search(fields: Fields) -> str:
    """The search."""
    algorithms = list(fields.mapping("spec", "searchAlgorithm"))
    unknown = [name for name in algorithms if name not in _SEARCHES]
    if unknown or len(algorithms) > 1:
        raise InputError(
            f"{unknown[0]} is no search that is known here"
            if unknown
            else f"it names {len(algorithms)} searches, {' and '.join(algorithms)}",
            path="spec.searchAlgorithm",
            hint=f"write one of {', '.join(_SEARCHES)}",
        )
    for name in algorithms:
        if fields.get("spec", "searchAlgorithm", name) in ({}, None):
            fields.say(("spec", "searchAlgorithm", name), Outcome.CARRIED, "sweep.search")
    return algorithms[0] if algorithms else "random"


def _parameters(fields: Fields, search: str) -> dict[str, tuple[int, dict[str, Any]]]:
    """The parameters by their names: their places, and their spaces."""
    parameters: dict[str, tuple[int, dict[str, Any]]] = {}
    places: dict[str, int] = {}
    for index, item in fields.items("spec", "parameters"):
        here: FieldPath = ("spec", "parameters", index)
        name = str(item.get("name") or "")
        short = trials.parameter_name(name)
        trials.refuse_twice(short, index, places)
        to = f"sweep.parameters.{short}"
        fields.keep((*here, "name"), to)
        parameters[name] = (index, optimization_spaces.of(fields, here, search, to))
    return parameters


def _section(fields: Fields, search: str) -> dict[str, Any]:
    """How it is searched."""
    section: dict[str, Any] = {
        "search": search,
        "trials": fields.number("spec", "numTrials") or 1,
        "parallel": fields.number("spec", "parallelTrials") or 1,
    }
    for key, to in (("numTrials", "sweep.trials"), ("parallelTrials", "sweep.parallel")):
        if fields.number("spec", key) is not None:
            fields.keep(("spec", key), to)
    path: FieldPath = ("spec", "searchAlgorithm", search, "seed")
    seed = fields.number(*path) if search in _SEARCHES[1:] else None
    if seed is not None:
        section["seed"] = seed % _SEEDS
        if section["seed"] != seed:
            fields.change(path, "a seed has 32 bits", "sweep.seed")
        else:
            fields.keep(path, "sweep.seed")
    return {**section, "objective": _objective(fields)}


def _objective(fields: Fields) -> dict[str, Any]:
    """What its trials are judged by."""
    here: FieldPath = ("spec", "objectives", 0)
    metric = fields.text(*here, "metric")
    if not metric:
        raise InputError(
            "it has no objective", path="spec.objectives", hint="write objectives: [{metric: loss}]"
        )
    direction = fields.get(*here, "direction") or "Minimize"
    if str(direction).lower() not in ("minimize", "maximize"):
        raise InputError(
            f"{direction!r} is no direction",
            path="spec.objectives[0].direction",
            hint="write Minimize or Maximize",
        )
    objective: dict[str, Any] = {"metric": metric, "direction": str(direction).lower()}
    fields.origins["sweep", "objective"] = here
    for key in ("metric", "direction"):
        fields.keep((*here, key), f"sweep.objective.{key}")
    goal = trials.number(fields.get(*here, "goal"))
    if goal is not None:
        objective["goal"] = goal
        fields.keep((*here, "goal"), "sweep.objective.goal")
    for index, _ in fields.items("spec", "objectives")[1:]:
        fields.leave(("spec", "objectives", index), "a sweep has one objective, which is the first")
    return objective
