"""From the `sweep` section of values to a `SweepSpec`, or to everything that is wrong with it.

The chart's values.yaml holds the defaults; a field that is left out, zero or empty is not set. What
needs the chart of the trials (does a parameter reach anything?) is asked in `apply`.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.errors import InputError, MissingToolError
from allranks.sweep import model, naming, pattern, sampling, space
from allranks.sweep.model import (
    EarlyStopping,
    MetricsSpec,
    Objective,
    SweepSpec,
    TrialSpec,
)
from allranks.sweep.values import forms
from allranks.sweep.values.reading import Reading
from allranks.words import number_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from allranks.schema.paths import ValuesPath
    from allranks.sweep.model import Parameter
    from allranks.sweep.values.reading import TokenOf, Where

SECTION = "sweep"

# A grid larger than this must be bounded by `trials`: nobody means ten million by accident.
UNBOUNDED_MAX = 10_000
_COUNTED = 10**12  # where a count is no more than "very many"; the chart says the same
# Searches that go by no metric, and what stands for one that there is not.
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
    """The sweep that a section of values describes.

    Args:
        name: the sweep's name.
        section: what stands under ``sweep``, over the chart's defaults.
        token: how a number or a boolean at a path (from the root: ``("sweep", …)``) was written.
        where: ``file:line`` of a path.
        more: parameters that flags gave; they replace those of the section that have their names.

    Raises:
        InvalidValues: something is wrong; every problem is in it, in the order of the fields.
    """
    reading = Reading(token or (lambda _path: None), where or (lambda _path: ""))
    path: ValuesPath = (SECTION,)
    _check_name(reading, name)
    given = reading.mapping(path, section, _KEYS) or {}
    found, whole = _parameters(reading, (*path, "parameters"), given.get("parameters"), more)
    objective = _objective(reading, (*path, "objective"), given.get("objective"))
    lacking = not given.get("trials") or not objective.metric
    search = _search(reading, (*path, "search"), given.get("search"), look=lacking)
    counts = {
        key: reading.whole((*path, key), given[key], 0) if given.get(key) is not None else 0
        for key in ("trials", "parallel", "retries", "seed")
    }
    if (counts["retries"] or 0) > model.RETRIES_MAX:
        reading.refuse(
            (*path, "retries"),
            f"must be at most {model.RETRIES_MAX}, not {given['retries']}",
            f"write {model.RETRIES_MAX}, or fewer",
        )
    failed = given.get("maxFailedTrials")
    unset = failed is None or failed == ""
    may_fail = None if unset else reading.whole((*path, "maxFailedTrials"), failed, 0)
    # Where a parameter was refused, what the others are worth says nothing.
    trials = _trials(reading, found, search, counts["trials"] or 0) if whole else 0
    early = _early(reading, (*path, "earlyStopping"), given.get("earlyStopping"))
    metrics = _metrics(reading, (*path, "metrics"), given.get("metrics"))
    trial = _trial(reading, (*path, "trial"), given.get("trial"))
    reading.text((*path, "order"), given.get("order"), ("", _ROW_MAJOR))
    keep = reading.text((*path, "keep"), given.get("keep"), ("", *model.KEEP))
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
        parameters=found,
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


def _check_name(reading: Reading, name: str) -> None:
    if not naming.NAME.fullmatch(name):
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
    reading: Reading, path: ValuesPath, section: Any, more: Sequence[Parameter]
) -> tuple[tuple[Parameter, ...], bool]:
    """The parameters, and whether all that were meant are among them."""
    own: tuple[Parameter, ...] = ()
    if section or not more:
        own = forms.parameters(reading, path, section)
    whole = isinstance(section, dict) and len(own) == len(section) if section else bool(more)
    names_ = {item.name for item in more}
    return (*(item for item in own if item.name not in names_), *more), whole


def _search(reading: Reading, path: ValuesPath, given: Any, *, look: bool) -> str:
    """The search, in lower case where it is one of ours; "" where there is none of that name.

    A sampler's name is checked when it is used, or now where something is said of what it needs.
    """
    found = reading.text(path, given) or model.GRID
    if found.lower() in (model.GRID, model.RANDOM, model.TPE):
        return found.lower()
    if not _SAMPLER.fullmatch(found):
        reading.refuse(
            path,
            f"{found!r} is no search",
            "use grid, random, tpe, or a sampler of Optuna's such as CmaEsSampler",
        )
        return ""
    unknown = sampling.unknown(found) if look else None
    if unknown is not None:
        reading.refuse(path, unknown.message, unknown.hint)
        return ""
    return found


def _objective(reading: Reading, path: ValuesPath, given: Any) -> Objective:
    fields = reading.mapping(path, given, ("metric", "direction", "goal", "missedExitCode")) or {}
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


def _goal(reading: Reading, path: ValuesPath, given: Any) -> float | None:
    """A number, which may be given as text: where nothing is the empty text, that is at hand."""
    if isinstance(given, str) and _NUMBER.fullmatch(given) and math.isfinite(float(given)):
        return float(given)
    exact = reading.decimal(path, given)
    return None if exact is None else float(exact)


def _trials(reading: Reading, parameters: tuple[Parameter, ...], search: str, trials: int) -> int:
    """How many trials there are to be; 0 where that cannot be said, and why is written down."""
    path: ValuesPath = (SECTION, "trials")
    if search == model.GRID:
        loose = [item for item in parameters if not space.in_grid(item.space)]
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


def idle(section: Mapping[str, Any]) -> list[str]:
    """Settings of a section that have no effect as it is, as sentences.

    They are no mistakes: a flag may have turned off what a file sets up.

    Args:
        section: what stands under ``sweep``, over the chart's defaults.
    """
    said = []
    early, objective = section.get("earlyStopping") or {}, section.get("objective") or {}
    unset = EarlyStopping("")
    if not early.get("kind"):
        plain = {
            "minSteps": unset.min_steps,
            "reductionFactor": unset.reduction_factor,
            "warmupTrials": unset.warmup_trials,
        }
        found = [key for key, value in plain.items() if early.get(key, value) != value]
        if found:
            kinds = f"{model.HALVING} or {model.MEDIAN}"
            said.append(
                f"sweep.earlyStopping: without a kind ({kinds}) {' and '.join(found)} "
                f"{'have' if len(found) > 1 else 'has'} no effect"
            )
    if not objective.get("metric") and objective.get("direction") == model.MINIMIZE:
        said.append("sweep.objective.direction has no effect without a metric")
    if not objective.get("metric") and any(
        (section.get("metrics") or {}).get(key) for key in ("regex",)
    ):
        said.append("sweep.metrics.regex has no effect without sweep.objective.metric")
    return said


def _early(reading: Reading, path: ValuesPath, given: Any) -> EarlyStopping | None:
    fields = reading.mapping(path, given, ("kind", "minSteps", "reductionFactor", "warmupTrials"))
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
    found = dict(unset)
    for key, low in least.items():
        asked = fields.get(key)
        whole = None if asked is None else reading.whole((*path, key), asked, low)
        found[key] = unset[key] if whole is None else whole
    return EarlyStopping(kind, found["minSteps"], found["reductionFactor"], found["warmupTrials"])


def _metrics(reading: Reading, path: ValuesPath, given: Any) -> MetricsSpec:
    fields = reading.mapping(path, given, ("from", "regex", "step")) or {}
    sources = ("", model.AUTO, model.TERMINATION, model.STDOUT)
    source = reading.text((*path, "from"), fields.get("from"), sources)
    regex = reading.text((*path, "regex"), fields.get("regex")) or ""
    step = reading.text((*path, "step"), fields.get("step"))
    if regex:
        _check_regex(reading, (*path, "regex"), regex)
    return MetricsSpec(source or model.AUTO, regex, step or MetricsSpec().step)


def _check_regex(reading: Reading, path: ValuesPath, regex: str) -> None:
    try:
        groups = pattern.load(regex).groupindex
    except MissingToolError:
        raise
    except InputError as error:
        reading.refuse(path, error.problem.message, error.problem.hint)
        return
    if not set(groups) - {"step", "name"}:
        reading.refuse(
            path,
            "has no named group that holds a value",
            f"name it after the metric, or `value`, {pattern.EXAMPLE}",
        )


def _trial(reading: Reading, path: ValuesPath, given: Any) -> TrialSpec:
    fields = reading.mapping(path, given, ("workload", "chart", "values", "file")) or {}
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
