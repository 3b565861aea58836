"""The flags for the parameters, the search and the limits of a sweep, for `run` and `resume`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from allranks import names
from allranks.errors import AllranksError, InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from allranks.sweep.model import SweepSpec


# The flags with a key of the sweep section, as in the values.
_SETTINGS = {
    "search": "search",
    "trials": "trials",
    "parallel": "parallel",
    "seed": "seed",
    "max_failed": "maxFailedTrials",
    "retries": "retries",
    "keep": "keep",
}
# As `model.RETRIES_MAX`, which `--help` does not import.
_RETRIES_MAX = 1000


def _count(flag: str, text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    least = 1 if flag == "--trials" else 0
    most = _RETRIES_MAX if flag == "--retries" else None
    return click.option(flag, type=click.IntRange(least, most), metavar="COUNT", help=text)


def bounds_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the limits of a new sweep."""
    for add in (
        _count("--retries", "How often a failed trial starts again."),
        _count(
            "--max-failed",
            "Failed trials that the sweep may have; one more ends it, so that 0 allows none. "
            "Default: any number, unless the first 10 all fail alike.",
        ),
        _count("--parallel", "How many trials run at the same time."),
        _count("--trials", "How many trials. Default: the whole grid."),
    ):
        function = add(function)
    return function


def new_bounds_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the limits of a sweep that is resumed; without a flag a limit stays as it was."""
    for add in (
        _count("--retries", "How often a failed trial starts again. Default: as before."),
        _count(
            "--max-failed",
            "Failed trials that the sweep may have, those of before included; one more ends it, so "
            "that 0 allows none. Default: as before.",
        ),
        _count("--parallel", "How many trials run at the same time. Default: as before."),
        _count(
            "--trials",
            "How many trials in all, those of before included, which it cannot fall short of. "
            "Default: as before.",
        ),
    ):
        function = add(function)
    return function


def search_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the flags for the parameters, the search and the objective."""
    for add in (
        click.option(
            "--keep",
            type=click.Choice(["none", "failed", "all"]),
            help="Whose releases stay after their end.",
        ),
        click.option(
            "--goal",
            type=float,
            metavar="NUMBER",
            help="The value of the metric that ends the sweep.",
        ),
        click.option(
            "--minimize", is_flag=True, help="Less of the metric is better. Default: more is."
        ),
        click.option(
            "--metric",
            metavar="NAME",
            shell_complete=metric,
            help="What trials are compared by, as they call it.",
        ),
        click.option(
            "--seed",
            type=click.IntRange(0),
            metavar="NUMBER",
            help="The same seed, the same trials.",
        ),
        click.option(
            "--search",
            metavar="NAME",
            shell_complete=search,
            help="grid, random, tpe, or a sampler of Optuna's. Default: grid.",
        ),
        click.option(
            "--over",
            "overs",
            multiple=True,
            metavar="NAME=FILES",
            help="A parameter whose choices are values files, or the items of a list in a file: "
            "learning=lr.yaml, model=a.yaml,b.yaml, model='models/*.yaml'. May be repeated.",
        ),
        click.option(
            "--set-range",
            "ranges",
            multiple=True,
            metavar="NAME=VALUES",
            help="A parameter and its choices: lr=1e-5,1e-4, seed=1..10 or x=0.1..0.5..0.1. It is "
            "a value of the chart, or else the option --NAME of the command. May be repeated.",
        ),
    ):
        function = add(function)
    return function


def section_of(flags: dict[str, Any]) -> dict[str, Any]:
    """Return the flags as a sweep section of the values."""
    section = {key: flags[name] for name, key in _SETTINGS.items() if flags.get(name) is not None}
    objective: dict[str, Any] = {}
    if flags.get("metric") is not None:
        objective["metric"] = flags["metric"]
    if flags.get("minimize"):
        objective["direction"] = "minimize"
    if flags.get("goal") is not None:
        objective["goal"] = flags["goal"]
    return {**section, "objective": objective} if objective else section


def flags_by_path(flags: dict[str, Any]) -> dict[str, str]:
    """Return the flag of each path in the section, for messages."""
    paths = {**_SETTINGS, "metric": "objective.metric", "goal": "objective.goal"}
    return {
        path: f"--{name.replace('_', '-')} {flags[name]}"
        for name, path in paths.items()
        if flags.get(name) is not None
    }


def search(_: click.Context, __: click.Parameter, start: str) -> list[str]:
    """Return our searches, else the matching samplers of Optuna, whose import takes a second."""
    from allranks.sweep.model import GRID, RANDOM, TPE

    matches = [name for name in (GRID, RANDOM, TPE) if name.startswith(start)]
    if matches or not start:
        return matches
    try:
        from allranks.sweep.search.samplers import names as usable
    except ModuleNotFoundError:
        return []
    return [name for name in usable() if name.lower().startswith(start.lower())]


def metric(_: click.Context, __: click.Parameter, start: str) -> list[str]:
    """Return the metrics of the sweeps of this machine, for shell completion."""
    from allranks.sweep.storage import catalog

    try:
        return [name for name in catalog.metrics() if name.startswith(start)]
    except AllranksError:
        return []


def apply_new_bounds(spec: SweepSpec, flags: dict[str, Any], begun: int = 0) -> SweepSpec:
    """Return a sweep with the new limits of `new_bounds_options`.

    Args:
        spec: the sweep as it was.
        flags: by name; None for a flag that was not given.
        begun: how many trials there are already.

    Raises:
        InputError: there are not so many trials, or more have begun already.
    """
    from allranks.sweep.search import space

    settings = {key: value for key, value in flags.items() if value is not None}
    total = space.combinations(spec.parameters)
    if total is not None and settings.get("trials", 0) > total:
        raise InputError(
            f"there {'is' if total == 1 else 'are'} only {total:,} combination{'s' * (total != 1)}",
            path="--trials",
            hint=f"give at most {total}",
        )
    if "trials" in settings and settings["trials"] < begun:
        raise InputError(
            f"{begun:,} trial{'s' * (begun != 1)} of the sweep {'have' if begun != 1 else 'has'} "
            "begun already",
            path="--trials",
            hint=f"give at least {begun}; `{names.CLI} sweep stop {spec.name}` ends it as it is",
        )
    if settings.get("parallel") == 0:
        settings["parallel"] = settings.get("trials", spec.trials)
    return replace(spec, **settings)
