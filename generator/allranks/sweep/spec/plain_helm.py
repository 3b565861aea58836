"""Reasons why plain Helm, with charts/sweep, cannot run a sweep that `allranks sweep run` can.

The chart (`charts/sweep/templates/_checks.tpl`) has the same checks. They are repeated here so that
`validate` and `plan` report in advance what `render`, `run` and `helm install` will refuse.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.errors import Problem
from allranks.schema import paths
from allranks.sweep.model import ENV, GRID, PATH, PLACEHOLDER, Range, Values
from allranks.sweep.search import space
from allranks.sweep.spec import apply
from allranks.values import resolve, sweep_trial
from allranks.values.rules.storage import is_on
from allranks.values.sources import defaults
from allranks.yamlio.load import MAX_EXACT_INT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import TypeGuard

    from allranks.schema.paths import ValuesPath
    from allranks.sweep.model import Parameter, SweepSpec
    from allranks.sweep.spec.prepare import PreparedSweep
    from allranks.values.sources import Loaded

_RUN = f"run it with `{names.CLI} sweep run`"
# The most trials, bytes of their table, and sets of objects of one release.
TRIALS_MAX = 10_000
TABLE_MAX = 716_800
SETS_MAX = 100
_SERVICE_NAME_MAX = 51
_PROGRAM = ("command", "args", "env", "script", "setup")
# Keys that all trials of a release share, or that are lists: plain Helm cannot set them per trial.
_SHARED = ("workload", "preset", "layout", "command", "args", "script", "setup")

_Limit = tuple["ValuesPath", str, str]


def limits(
    loaded: Loaded,
    prepared: PreparedSweep,
    release: str = "",
    namespace: str = "",
    *,
    is_local: bool = False,
) -> list[tuple[ValuesPath, Problem]]:
    """Return the reasons why plain Helm cannot run a sweep.

    Args:
        loaded: the sweep's values.
        prepared: the sweep, which is valid in itself.
        release: the release's name; "" if there is none yet.
        namespace: its namespace; "" if there is none yet.
        is_local: the chart is rendered for a run on this machine.
    """
    section = loaded.values[sweep_trial.SWEEP]
    reasons = [*_search_limits(loaded.values, section), *_trial_limits(section["trial"])]
    if not any(path[1:2] == ("trial",) for path, _, _ in reasons):
        reasons += _parameter_limits(loaded, prepared.spec)
        reasons += _number_limits(section["parameters"])
        reasons += _size_limits(loaded, prepared)
    reasons += _tensorboard_limits(loaded.values, release)
    out = [
        (path, Problem(paths.show(path), message, hint, loaded.where(path)))
        for path, message, hint in reasons
    ]
    if not section["trial"]["chart"] and not section["trial"]["file"]:
        # The chart checks the values that all trials share before it applies any parameter.
        out += resolve.find_problems(loaded, release, namespace, is_local=is_local)
    return out


def _search_limits(values: Mapping[str, Any], section: Mapping[str, Any]) -> Iterator[_Limit]:
    missed = int(section["objective"]["missedExitCode"])
    if section["search"].lower() != GRID:
        yield ("sweep", "search"), f"plain Helm knows grid only, not {section['search']}", _RUN
    if section["earlyStopping"]["kind"]:
        yield (
            ("sweep", "earlyStopping", "kind"),
            "plain Helm does not read what trials say, so it can end none early",
            f"{_RUN}, or leave it empty",
        )
    if section["objective"]["goal"] != "" and not missed:
        yield (
            ("sweep", "objective", "goal"),
            "plain Helm does not read what trials say",
            (
                f"{_RUN}, or name the exit code of a trial that misses the goal in "
                "sweep.objective.missedExitCode"
            ),
        )
    if missed and section["maxFailedTrials"] != "":
        yield (
            ("sweep", "maxFailedTrials"),
            "with objective.missedExitCode every trial but the last fails in plain Helm",
            "leave one of the two out",
        )
    if missed and missed in values["runPolicy"]["fatalExitCodes"]:
        yield (
            ("sweep", "objective", "missedExitCode"),
            f"{missed} is one of runPolicy.fatalExitCodes",
            "use another exit code",
        )


def _trial_limits(trial: Mapping[str, Any]) -> Iterator[_Limit]:
    if trial["workload"] not in ("", "torchrun"):
        yield (
            ("sweep", "trial", "workload"),
            (
                "plain Helm has trials of one program or of torchrun, and "
                f"{trial['workload']} is neither"
            ),
            _RUN,
        )
    if trial["chart"]:
        yield ("sweep", "trial", "chart"), "plain Helm runs no other chart inside of one", _RUN
    if trial["file"]:
        yield (
            ("sweep", "trial", "file"),
            "plain Helm reads no such file",
            f"{_RUN}, or write its values under sweep.trial.values",
        )


def _parameter_limits(loaded: Loaded, spec: SweepSpec) -> Iterator[_Limit]:
    shared = sweep_trial.of(loaded.values, defaults)
    for parameter in spec.parameters:
        place: ValuesPath = ("sweep", "parameters", parameter.name)
        for reach in parameter.reaches:
            keys = tuple(reach.to.split("."))
            if reach.kind == PATH and not _reachable(shared, keys):
                yield (*place, PATH), f"plain Helm cannot set {reach.to}", _RUN
            if reach.kind == ENV and reach.to in shared["env"]:
                yield (*place, ENV), f"{reach.to} is set by env, too", "use another name"


def _number_limits(parameters: Mapping[str, Mapping[str, Any]]) -> Iterator[_Limit]:
    for name, parameter in parameters.items():
        for kind, content in parameter.items():
            if not isinstance(content, dict | list):
                continue
            pairs = content.items() if isinstance(content, dict) else enumerate(content)
            for key, number in pairs:
                if _is_number(number) and abs(number) > MAX_EXACT_INT:
                    yield (
                        ("sweep", "parameters", name, kind, key),
                        f"plain Helm holds whole numbers below {MAX_EXACT_INT + 1} exactly",
                        "give such numbers as values, in quotes",
                    )


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _reachable(shared: Mapping[str, Any], keys: tuple[str, ...]) -> bool:
    """Whether the chart can set a value, by its keys, for each trial on its own."""
    if keys[0] in _SHARED or keys[0] == "storage":
        return False
    node: Any = shared
    for key in keys:
        if not isinstance(node, dict):
            return False
        if key not in node:
            return not node
        node = node[key]
    return True


def _size_limits(loaded: Loaded, prepared: PreparedSweep) -> Iterator[_Limit]:
    section, spec = loaded.values[sweep_trial.SWEEP], prepared.spec
    place = ("sweep", "trials")
    if spec.trials > TRIALS_MAX:
        yield place, f"plain Helm has at most {TRIALS_MAX:,} trials, not {spec.trials:,}", _RUN
        return
    shared = sweep_trial.of(loaded.values, defaults)
    size = _table_bytes(spec) + len((shared["script"] + shared["setup"]).encode())
    if size > TABLE_MAX:
        yield (
            place,
            (
                f"the table of {spec.trials:,} trials has {size:,} bytes, and a release of plain "
                f"Helm's has room for {TABLE_MAX:,}"
            ),
            f"{_RUN}, or set fewer trials",
        )
    elif _sets(prepared, shared):
        yield from _object_limits(section, spec)


def _table_bytes(spec: SweepSpec) -> int:
    """Return the approximate size of the trials' table in bytes, computed as in the chart."""
    size: float = spec.trials * (1 + len(str(spec.trials)))
    for parameter in spec.parameters:
        size += spec.trials + spec.trials * _width(parameter)
    return int(size)


def _width(parameter: Parameter) -> float:
    """Return the mean length of a choice's text, in bytes."""
    if isinstance(parameter.space, Values):
        texts = [choice.text for choice in parameter.space.choices]
        return sum(len(text.encode()) for text in texts) / len(texts)
    if isinstance(parameter.space, Range):
        count = space.size(parameter.space) or 1
        ends = (space.choice(parameter.space, 0), space.choice(parameter.space, count - 1))
        return max(len(end.text) for end in ends)
    return 0


def _sets(prepared: PreparedSweep, shared: Mapping[str, Any]) -> bool:
    """Whether each trial has objects of its own, instead of a pod of one Job."""
    reaches = [reach for parameter in prepared.spec.parameters for reach in parameter.reaches]
    if any(reach.kind == PATH for reach in reaches):
        return True
    rest = {key: value for key, value in shared.items() if key not in _PROGRAM}
    has_placeholders = any(
        reach.kind == PLACEHOLDER for reach in reaches
    ) or "${sweep.trial}" in str(rest)
    if has_placeholders and any("${sweep." in text for _, text, _ in apply.strings(rest)):
        return True
    layout = prepared.layout
    return layout is not None and (layout.nodes > 1 or layout.max_nodes > 1)


def _object_limits(section: Mapping[str, Any], spec: SweepSpec) -> Iterator[_Limit]:
    reason = "plain Helm gives each of these trials objects of its own"
    if spec.trials > SETS_MAX:
        yield ("sweep", "trials"), f"{reason}, and a release has room for {SETS_MAX}", _RUN
    if 0 < section["parallel"] < spec.trials:
        yield ("sweep", "parallel"), f"{reason}, and starts all at once", f"{_RUN}, or write 0"
    if section["maxFailedTrials"] != "":
        yield (
            ("sweep", "maxFailedTrials"),
            f"{reason}, and counts no failed ones",
            f'{_RUN}, or write ""',
        )
    if section["objective"]["missedExitCode"]:
        yield (
            ("sweep", "objective", "missedExitCode"),
            f"{reason}, and counts no failed ones",
            f"{_RUN}, or write 0",
        )


def _tensorboard_limits(values: Mapping[str, Any], release: str) -> Iterator[_Limit]:
    board = values[sweep_trial.SWEEP]["tensorboard"]
    if not board["enabled"]:
        return
    volume = values["storage"][board["volume"]]
    if not is_on(volume):
        yield (
            ("sweep", "tensorboard", "volume"),
            f"storage.{board['volume']} is off, where the TensorBoard of plain Helm reads",
            "give it a size or an existingClaim, or name another volume",
        )
    if len(release) > _SERVICE_NAME_MAX:
        yield (
            (),
            (
                f"the release's name has {len(release)} characters; with sweep.tensorboard, whose "
                f"Service plain Helm names after it, at most {_SERVICE_NAME_MAX} are allowed"
            ),
            "shorten it",
        )
