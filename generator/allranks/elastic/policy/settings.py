"""The settings of the policy, and how they are read.

They arrive as the JSON object of ``ALLRANKS_MASTER_OPTIONS``, which the chart writes from
``elastic.auto.policy``. The defaults here are for an ElasticJob that somebody wrote by hand; the
chart's are held equal to them by a test.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from allranks.elastic.resources import ResourceAmounts
from allranks.errors import InputError
from allranks.k8s import quantity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

SOURCE = "ALLRANKS_MASTER_OPTIONS"
# Window after window is as long as this many measureSeconds at most, however slow the steps are.
_SECONDS_MAX = 7 * 86400.0
_COUNT_MAX = 100_000
_UNKNOWN = ResourceAmounts()


@dataclass(frozen=True, slots=True)
class PolicySettings:
    """The settings of the policy. Times are seconds.

    Attributes:
        start_workers: how many a job begins with; 0 is what an earlier run settled at, else the
            fewest allowed.
        grow_threshold: the share of a worker's speed that each added worker must bring.
        hysteresis: a size that misses the threshold by less than this is kept, and none is added.
        grow_factor: by how much a size is multiplied at each trial.
        cool_down_seconds: between two changes of size.
        measure_seconds: how long one measurement of the speed lasts.
        measure_steps: steps that every worker has done in it at least.
        pending_seconds: how long pods may wait for room before the job goes on without them.
        retry_seconds: after a size was refused by the cluster or by its speed, when one more worker
            is tried again; twice as long after each refusal. 0 is never.
        straggler_factor: a worker that needs so many times the others' time for a sample is slow.
        straggler_windows: measurements in a row in which it is, before it goes. 0 is never.
        memory_factor: by how much memory is multiplied after a worker ran out of it. 1 is never.
        node_shape: what one node has.
    """

    start_workers: int = 0
    grow_threshold: float = 0.7
    hysteresis: float = 0.1
    grow_factor: float = 2.0
    cool_down_seconds: float = 60.0
    measure_seconds: float = 30.0
    measure_steps: int = 5
    pending_seconds: float = 300.0
    retry_seconds: float = 3600.0
    straggler_factor: float = 2.0
    straggler_windows: int = 3
    memory_factor: float = 1.5
    node_shape: ResourceAmounts = _UNKNOWN


# The least and the most of each number.
_RANGES: dict[str, tuple[float, float]] = {
    "start_workers": (0, _COUNT_MAX),
    "grow_threshold": (0, 1),
    "hysteresis": (0, 1),
    "grow_factor": (1, 100),
    "cool_down_seconds": (0, _SECONDS_MAX),
    "measure_seconds": (0.1, _SECONDS_MAX),
    "measure_steps": (1, _COUNT_MAX),
    "pending_seconds": (1, _SECONDS_MAX),
    "retry_seconds": (0, _SECONDS_MAX),
    "straggler_factor": (1, 1000),
    "straggler_windows": (0, _COUNT_MAX),
    "memory_factor": (1, 10),
}


def camel(name: str) -> str:
    """Return a field's name as values files write it: ``grow_threshold`` is ``growThreshold``."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


NAMES = tuple(camel(field.name) for field in fields(PolicySettings))


def read(options: Mapping[str, Any]) -> PolicySettings:
    """Return the settings of a JSON object, with defaults for what it does not name.

    Raises:
        InputError: a setting is no number, or out of its range.
    """
    values: dict[str, Any] = {}
    for name, (minimum, maximum) in _RANGES.items():
        if camel(name) in options:
            whole = isinstance(getattr(_DEFAULTS, name), int)
            values[name] = number(options, camel(name), minimum, maximum, whole=whole)
    if "nodeShape" in options:
        values["node_shape"] = _node_shape(options["nodeShape"])
    return PolicySettings(**values)


def check_names(options: Mapping[str, Any], allowed: Iterable[str]) -> None:
    """Refuse a setting of an unknown name, which would silently change nothing.

    Raises:
        InputError: a name is unknown; the hint has the nearest name.
    """
    allowed = list(allowed)
    for name in options:
        if name not in allowed:
            near = difflib.get_close_matches(name, allowed, n=1)
            raise InputError(
                "there is no such setting",
                path=name,
                hint=f"write {near[0]}" if near else f"the settings are {', '.join(allowed)}",
                source=SOURCE,
            )


def number(
    options: Mapping[str, Any], name: str, minimum: float, maximum: float, *, whole: bool
) -> float:
    """Return a number of the options.

    Raises:
        InputError: it is no number, or out of its range.
    """
    value = options[name]
    kind = "a whole number" if whole else "a number"
    good = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not good or (whole and value != int(value)) or not minimum <= value <= maximum:
        raise InputError(
            f"{value!r} is not {kind} from {minimum:g} to {maximum:g}",
            path=name,
            hint=f"write {kind} in this range, or leave it out",
            source=SOURCE,
        )
    return int(value) if whole else float(value)


def _node_shape(value: Any) -> ResourceAmounts:
    if not isinstance(value, dict):
        raise InputError(
            f"{value!r} is not an object",
            path="nodeShape",
            hint='write {"gpus": 8, "cpu": "96", "memory": "1Ti"}; each may be left out',
            source=SOURCE,
        )
    check_names({f"nodeShape.{key}": None for key in value}, _SHAPE_NAMES)
    return ResourceAmounts(
        cpu_millis=_amount("cpu", value.get("cpu")),
        memory_bytes=_amount("memory", value.get("memory")),
        gpus=_amount("gpus", value.get("gpus")),
    )


def _amount(resource: str, text: Any) -> int | None:
    """Return an amount in the scheduler's units; None where it is not set (0 or empty)."""
    try:
        return quantity.capacity_units(resource, text or 0) or None
    except InputError as error:
        problem = error.problem
        path = f"nodeShape.{resource}"
        raise InputError(problem.message, path=path, hint=problem.hint, source=SOURCE) from error


_DEFAULTS = PolicySettings()
_SHAPE_NAMES = ("nodeShape.cpu", "nodeShape.memory", "nodeShape.gpus")
