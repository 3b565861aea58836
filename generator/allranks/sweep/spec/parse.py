"""Parse the `sweep` section of values into a `SweepSpec`, or report all that is wrong with it.

The chart's values.yaml has the defaults; a field that is left out, zero or empty is not set. Checks
that need the chart of the trials (does a parameter reach anything?) are in `apply`.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.errors import InputError, MissingToolError
from allranks.humanize import number_of
from allranks.k8s.object_names import has_dns_1035_form
from allranks.sweep import metrics as sweep_metrics
from allranks.sweep import model, naming
from allranks.sweep.model import (
    EarlyStopping,
    MetricsSpec,
    Objective,
    SweepSpec,
    TrialSpec,
)
from allranks.sweep.search import factory, space
from allranks.sweep.spec import parameters as spec_parameters
from allranks.sweep.spec.parameters import ParameterReader

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from allranks.schema.paths import ValuesPath
    from allranks.sweep.model import Parameter
    from allranks.sweep.spec.parameters import TokenOf, Where

SECTION = "sweep"

# A grid larger than this needs `trials`: nobody means ten million trials.
UNBOUNDED_MAX = 10_000
_COUNTED = 10**12  # a larger count is shown as "10^12 or more", as by the chart
# Searches that need no metric, and "" for an invalid one.
_PLAIN = ("", model.GRID, model.RANDOM)

_KEYS = (
    "parameters",
    "search",
    "seed",
    "objective",
    "trials",
    "parallel",
    "maxFailedTrials",
    "retries",
    "earlyStopping",
    "metrics",
    "trial",
    "order",
    "keep",
    "tensorboard",  # the chart's business alone
)
_ROW_MAJOR = "row-major"
_NUMBER = re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?", re.ASCII)
_SAMPLER = re.compile(r"[A-Za-z][A-Za-z0-9]*", re.ASCII)


def parse(
    name: str,
    section: Mapping[str, Any] | None,
    token: TokenOf | None = None,
    where: Where | None = None,
    more: Sequence[Parameter] = (),
) -> SweepSpec:
    """Parse the `sweep` section of values.

    Args:
        name: the sweep's name.
        section: the values under ``sweep``, over the chart's defaults.
        token: returns how a number or a boolean at a path (from the root: ``("sweep", …)``) was
            written.
        where: returns ``file:line`` of a path.
        more: parameters of flags, which replace those of the section with their names.

    Raises:
        InvalidValues: it lists every problem, in the order of the fields.
    """
    reading = ParameterReader(token or (lambda _path: None), where or (lambda _path: ""))
    path: ValuesPath = (SECTION,)
    _check_name(reading, name)
    fields = reading.mapping(path, section, _KEYS) or {}
    parameters, whole = _parameters(reading, (*path, "parameters"), fields.get("parameters"), more)
    objective = _objective(reading, (*path, "objective"), fields.get("objective"))
    needs_check = not fields.get("trials") or not objective.metric
    search = _search(reading, (*path, "search"), fields.get("search"), check_name=needs_check)
    counts = {
        key: reading.integer((*path, key), fields[key], 0) if fields.get(key) is not None else 0
        for key in ("trials", "parallel", "retries", "seed")
    }
    if (counts["retries"] or 0) > model.RETRIES_MAX:
        reading.refuse(
            (*path, "retries"),
            f"must be at most {model.RETRIES_MAX}, not {fields['retries']}",
            f"write {model.RETRIES_MAX}, or fewer",
        )
    failed = fields.get("maxFailedTrials")
    unset = failed is None or failed == ""
    may_fail = None if unset else reading.integer((*path, "maxFailedTrials"), failed, 0)
    # The number of trials is meaningless if a parameter was refused.
    trials = _trials(reading, parameters, search, counts["trials"] or 0) if whole else 0
    early = _early(reading, (*path, "earlyStopping"), fields.get("earlyStopping"))
    metrics = _metrics(reading, (*path, "metrics"), fields.get("metrics"))
    trial = _trial(reading, (*path, "trial"), fields.get("trial"))
    reading.text((*path, "order"), fields.get("order"), ("", _ROW_MAJOR))
    keep = reading.text((*path, "keep"), fields.get("keep"), ("", *model.KEEP))
    if not objective.metric and (early is not None or search not in _PLAIN):
        user = "earlyStopping" if early is not None else f"search: {search}"
        reading.refuse(
            (*path, "objective", "metric"),
            f"{user} needs a metric to compare trials by",
            "name what the trials report, such as `metric: accuracy`",
        )
    reading.done()
    return SweepSpec(
        name=name,
        parameters=parameters,
        objective=objective,
        trial=trial,
        search=search,
        seed=counts["seed"] or 0,
        trials=trials,
        parallel=counts["parallel"] or trials,
        max_failed=may_fail,
        retries=counts["retries"] or 0,
        early=early,
        metrics=metrics,
        keep=keep or model.KEEP[0],
    )


def _check_name(reading: ParameterReader, name: str) -> None:
    if not has_dns_1035_form(name):
        reading.refuse(
            (),
            f"{name!r} is no name of a sweep: its trials could not be named after it",
            "use lower-case letters, digits and -, a letter first",
        )
    elif len(name) > naming.NAME_MAX:
        reading.refuse(
            (),
            f"the sweep's name is {len(name)} characters long; with what its trials add, at most "
            f"{naming.NAME_MAX} are allowed",
            "shorten it",
        )


def _parameters(
    reading: ParameterReader, path: ValuesPath, section: Any, more: Sequence[Parameter]
) -> tuple[tuple[Parameter, ...], bool]:
    """Return the valid parameters, and whether these are all of them."""
    own: tuple[Parameter, ...] = ()
    if section or not more:
        own = spec_parameters.parameters(reading, path, section)
    whole = isinstance(section, dict) and len(own) == len(section) if section else bool(more)
    names_ = {item.name for item in more}
    return (*(item for item in own if item.name not in names_), *more), whole


def _search(reading: ParameterReader, path: ValuesPath, content: Any, *, check_name: bool) -> str:
    """Return the search, in lower case if it is one of ours; "" if the name is not valid.

    The name of a sampler is checked when it is created, or here if its settings are incomplete.
    """
    search = reading.text(path, content) or model.GRID
    if search.lower() in (model.GRID, model.RANDOM, model.TPE):
        return search.lower()
    if not _SAMPLER.fullmatch(search):
        reading.refuse(
            path,
            f"{search!r} is no search",
            "use grid, random, tpe, or a sampler of Optuna's such as CmaEsSampler",
        )
        return ""
    unknown = factory.unknown(search) if check_name else None
    if unknown is not None:
        reading.refuse(path, unknown.message, unknown.hint)
        return ""
    return search


def _objective(reading: ParameterReader, path: ValuesPath, content: Any) -> Objective:
    fields = reading.mapping(path, content, ("metric", "direction", "goal", "missedExitCode")) or {}
    metric = reading.text((*path, "metric"), fields.get("metric")) or ""
    direction = reading.text(
        (*path, "direction"), fields.get("direction"), ("", model.MAXIMIZE, model.MINIMIZE)
    )
    goal = None
    if fields.get("goal") not in (None, ""):
        goal = _goal(reading, (*path, "goal"), fields["goal"])
        if not metric:
            reading.refuse((*path, "goal"), "a goal needs a metric", "name it: `metric: accuracy`")
    return Objective(metric, direction or model.MAXIMIZE, goal)


def _goal(reading: ParameterReader, path: ValuesPath, content: Any) -> float | None:
    """Return a number, which may also be text, as the default is the empty text."""
    if isinstance(content, str) and _NUMBER.fullmatch(content) and math.isfinite(float(content)):
        return float(content)
    exact = reading.decimal(path, content)
    return None if exact is None else float(exact)


def _trials(
    reading: ParameterReader, parameters: tuple[Parameter, ...], search: str, trials: int
) -> int:
    """Return how many trials to run; 0 if that is not valid, with a problem."""
    path: ValuesPath = (SECTION, "trials")
    if search == model.GRID:
        loose = [item for item in parameters if not space.is_enumerable(item.space)]
        for item in loose:
            reading.refuse(
                (SECTION, "parameters", item.name),
                "a grid goes through values one by one, and a distribution has none",
                "write values or range, or use `search: random`",
            )
        if loose:
            return 0
    total = space.combinations(parameters)
    if trials > model.TRIALS_MAX:
        reading.refuse(path, f"at most {model.TRIALS_MAX:,} trials are possible", "set fewer")
    elif total is not None and trials > total:
        reading.refuse(
            path,
            f"{trials:,} trials are asked for, and there {_combinations(total)}",
            f"set trials to {total}, or leave it out" if search == model.GRID else f"set {total}",
        )
    elif not trials and search == model.GRID and total is not None and total > UNBOUNDED_MAX:
        reading.refuse(
            path,
            f"the grid has {_count(total)}",
            "set trials to how many of them to run, or use `search: random` or `search: tpe` "
            "with a number of trials",
        )
    elif not trials and search not in ("", model.GRID):
        reading.refuse(
            path, f"search: {search} needs a number of trials", "write how many, such as trials: 40"
        )
    else:
        return trials or total or 0
    return 0


def _count(count: int) -> str:
    number = f"{count:,}" if count < _COUNTED else "10^12 or more"
    return f"{number} {number_of(count, 'trial', 'trials')}"


def _combinations(count: int) -> str:
    return "is only one combination" if count == 1 else f"are only {count:,} combinations"


def unused_settings(section: Mapping[str, Any]) -> list[str]:
    """Return notes about settings of a section that have no effect, as sentences.

    They are not errors: a flag may turn off what a file configures.

    Args:
        section: the values under ``sweep``, over the chart's defaults.
    """
    notes = []
    early, objective = section.get("earlyStopping") or {}, section.get("objective") or {}
    unset = EarlyStopping("")
    if not early.get("kind"):
        plain = {
            "minSteps": unset.min_steps,
            "reductionFactor": unset.reduction_factor,
            "warmupTrials": unset.warmup_trials,
        }
        keys = [key for key, value in plain.items() if early.get(key, value) != value]
        if keys:
            kinds = f"{model.HALVING} or {model.MEDIAN}"
            notes.append(
                f"sweep.earlyStopping: without a kind ({kinds}) {' and '.join(keys)} "
                f"{'have' if len(keys) > 1 else 'has'} no effect"
            )
    if not objective.get("metric") and objective.get("direction") == model.MINIMIZE:
        notes.append("sweep.objective.direction has no effect without a metric")
    if not objective.get("metric") and any(
        (section.get("metrics") or {}).get(key) for key in ("regex",)
    ):
        notes.append("sweep.metrics.regex has no effect without sweep.objective.metric")
    return notes


def _early(reading: ParameterReader, path: ValuesPath, content: Any) -> EarlyStopping | None:
    fields = reading.mapping(path, content, ("kind", "minSteps", "reductionFactor", "warmupTrials"))
    kind = reading.text(
        (*path, "kind"), (fields or {}).get("kind"), ("", model.HALVING, model.MEDIAN)
    )
    if not fields or not kind:
        return None
    defaults = EarlyStopping(kind)
    least = {"minSteps": 1, "reductionFactor": 2, "warmupTrials": 0}
    unset = {
        "minSteps": defaults.min_steps,
        "reductionFactor": defaults.reduction_factor,
        "warmupTrials": defaults.warmup_trials,
    }
    settings = dict(unset)
    for key, low in least.items():
        setting = fields.get(key)
        whole = None if setting is None else reading.integer((*path, key), setting, low)
        settings[key] = unset[key] if whole is None else whole
    return EarlyStopping(
        kind, settings["minSteps"], settings["reductionFactor"], settings["warmupTrials"]
    )


def _metrics(reading: ParameterReader, path: ValuesPath, content: Any) -> MetricsSpec:
    fields = reading.mapping(path, content, ("from", "regex", "step")) or {}
    sources = ("", model.AUTO, model.TERMINATION, model.STDOUT)
    source = reading.text((*path, "from"), fields.get("from"), sources)
    regex = reading.text((*path, "regex"), fields.get("regex")) or ""
    step = reading.text((*path, "step"), fields.get("step"))
    if regex:
        _check_regex(reading, (*path, "regex"), regex)
    return MetricsSpec(source or model.AUTO, regex, step or MetricsSpec().step)


def _check_regex(reading: ParameterReader, path: ValuesPath, regex: str) -> None:
    try:
        groups = sweep_metrics.load(regex).groupindex
    except MissingToolError:
        raise
    except InputError as error:
        reading.refuse(path, error.problem.message, error.problem.hint)
        return
    if not set(groups) - {"step", "name"}:
        reading.refuse(
            path,
            "has no named group that holds a value",
            f"name it after the metric, or `value`, {sweep_metrics.EXAMPLE}",
        )


def _trial(reading: ParameterReader, path: ValuesPath, content: Any) -> TrialSpec:
    fields = reading.mapping(path, content, ("workload", "chart", "values", "file")) or {}
    charts = [name for name in names.WORKLOADS if name != SECTION]
    workload = reading.text((*path, "workload"), fields.get("workload"), ("", *charts)) or ""
    chart = reading.text((*path, "chart"), fields.get("chart")) or ""
    file = reading.text((*path, "file"), fields.get("file")) or ""
    values = fields.get("values")
    if values is None:
        values = {}
    if not isinstance(values, dict):
        reading.refuse((*path, "values"), "must be a mapping", "write the trial's values into it")
        values = {}
    if workload and chart:
        reading.refuse(path, "has both a workload and a chart", 'set one of the two to ""')
    return TrialSpec(workload, chart, values, file)
