"""Kubeflow Trainer's OptimizationJobs as sweeps.

An OptimizationJob runs a TrainJob for each of its trials, with the trial's parameters in the place
of ``{{.NAME}}``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.convert import finish, pods, runtimes, search_spaces, trainjob, trials
from allranks.convert.rewrite import Rewrite
from allranks.convert.verdicts import METADATA, Fields, Outcome, Rule, Rules, carried, changed
from allranks.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from allranks.convert.registry import Context, Manifest
    from allranks.convert.verdicts import Conversion, FieldPath

KIND = "OptimizationJob"
_TEMPLATE: FieldPath = ("spec", "trainJobTemplate")
_P = "spec.parameters[]"
FIELDS: tuple[Rule, ...] = (
    *METADATA,
    carried("spec.numTrials", "sweep.trials"),
    carried("spec.parallelTrials", "sweep.parallel"),
    carried("spec.objectives[].metric", "sweep.objective.metric"),
    carried("spec.objectives[].direction", "sweep.objective.direction"),
    carried("spec.searchAlgorithm.random.seed", "sweep.seed"),
    carried("spec.searchAlgorithm.**", "sweep.search"),
    carried(f"{_P}.name", "sweep.parameters.NAME"),
    carried(f"{_P}.searchSpace.**", "sweep.parameters.NAME"),
    changed(f"{'spec.trainJobTemplate'}.metadata.**", "labels, annotations", "a trial's own"),
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
    parameters = _parameters(fields)
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
    section = {"parameters": own, **_section(fields)}
    section = trials.bounded(fields, section, spaces, ("spec", "numTrials"))
    fields.origins["sweep", "search"] = ("spec", "searchAlgorithm")
    trials.put(fields, inner.values, section, spaces)
    pods.labels(fields, ("metadata",), ())
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
    job = _job(fields, _parameters(fields))
    kind = {"apiVersion": f"{runtimes.GROUP}/v1alpha1", "kind": trainjob.KIND}
    return trials.named({**kind, **job}, fields.text("metadata", "name"))


def _job(fields: Fields, parameters: Iterable[str]) -> Manifest:
    """The TrainJob of its trials, with what a sweep has in the place of parameters."""
    held = {name: trials.holder(trials.parameter_name(name)) for name in parameters}

    def put(text: str) -> str:
        return _HOLDER.sub(lambda match: held.get(match[1], match[0]), text)

    template: Manifest = trials.replaced(fields.mapping(*_TEMPLATE), put)
    return template


def _parameters(fields: Fields) -> dict[str, tuple[int, dict[str, Any]]]:
    """The parameters by their names: their places, and their spaces."""
    is_grid = fields.has("spec", "searchAlgorithm", "grid")
    parameters: dict[str, tuple[int, dict[str, Any]]] = {}
    for index, item in fields.items("spec", "parameters"):
        here: FieldPath = ("spec", "parameters", index, "searchSpace")
        choices = fields.get(*here, "categorical", "choices")
        name = str(item.get("name") or "")
        fields.keep(
            ("spec", "parameters", index), f"sweep.parameters.{trials.parameter_name(name)}"
        )
        if isinstance(choices, list) and choices:
            parameters[name] = (index, {"values": list(dict.fromkeys(map(str, choices)))})
            continue
        kind = "logUniform" if fields.has(*here, "logUniform") else "uniform"
        ends = {key: trials.number(fields.get(*here, kind, key)) for key in ("min", "max")}
        if None in ends.values():
            raise InputError(
                "its space has no numbers as min and max",
                path=f"spec.parameters[{index}].searchSpace",
                hint='write uniform: {min: "0.1", max: "0.9"}, or categorical',
            )
        is_whole = fields.text(*here, kind, "type") == "Int"
        if is_whole:
            ends = dict(
                search_spaces.whole_ends(ends, f"spec.parameters[{index}].searchSpace.{kind}")
            )
        if is_grid and not is_whole:
            raise InputError(
                "a grid over numbers that are not whole needs a step",
                path=f"spec.parameters[{index}].searchSpace",
                hint="write categorical with the numbers to try, or search at random",
            )
        if is_whole and kind == "logUniform":
            fields.change((*here, kind), "whole numbers are drawn evenly", "sweep.parameters")
        form = "range" if is_grid else "intUniform" if is_whole else kind
        parameters[name] = (index, {form: ends})
    return parameters


def _section(fields: Fields) -> dict[str, Any]:
    """How it is searched."""
    section: dict[str, Any] = {
        "search": "grid" if fields.has("spec", "searchAlgorithm", "grid") else "random",
        "trials": fields.number("spec", "numTrials") or 1,
        "parallel": fields.number("spec", "parallelTrials") or 1,
    }
    for key, to in (("numTrials", "sweep.trials"), ("parallelTrials", "sweep.parallel")):
        if fields.number("spec", key) is not None:
            fields.keep(("spec", key), to)
    fields.keep(("spec", "searchAlgorithm"), "sweep.search")
    seed = fields.number("spec", "searchAlgorithm", "random", "seed")
    if seed is not None:
        section["seed"] = seed % _SEEDS
        if section["seed"] != seed:
            why = "a seed has 32 bits"
            fields.change(("spec", "searchAlgorithm", "random", "seed"), why, "sweep.seed")
        else:
            fields.say(("spec", "searchAlgorithm", "random", "seed"), Outcome.CARRIED, "sweep.seed")
    metric = fields.text("spec", "objectives", 0, "metric")
    if not metric:
        raise InputError(
            "it has no objective", path="spec.objectives", hint="write objectives: [{metric: loss}]"
        )
    direction = fields.text("spec", "objectives", 0, "direction") or "Minimize"
    fields.keep(("spec", "objectives", 0), "sweep.objective")
    for index, _ in fields.items("spec", "objectives")[1:]:
        fields.leave(("spec", "objectives", index), "a sweep has one objective, which is the first")
    section["objective"] = {"metric": metric, "direction": direction.lower()}
    return section
