"""The flags that say what a sweep tries and how far it goes, for `run` and for `resume`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from allranks.cli import sweepcompletion

if TYPE_CHECKING:
    from collections.abc import Callable

# What flags say of a sweep, and the key of its section; the same as in the values.
_SETTINGS = {
    "search": "search",
    "trials": "trials",
    "parallel": "parallel",
    "seed": "seed",
    "max_failed": "maxFailedTrials",
    "retries": "retries",
    "keep": "keep",
}
# As in `values.spec`, which `--help` does not load.
_RETRIES_MAX = 1000


def _count(flag: str, text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    least = 1 if flag == "--trials" else 0
    most = _RETRIES_MAX if flag == "--retries" else None
    return click.option(flag, type=click.IntRange(least, most), metavar="COUNT", help=text)


def bounds_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add what bounds a sweep that is begun."""
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
    """Add the same for a sweep that goes on: what is not given stays as it was."""
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
    """Add what says how a sweep is searched, and by what."""
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
            shell_complete=sweepcompletion.metric,
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
            shell_complete=sweepcompletion.search,
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
    """What flags say of a sweep, as its section of the values would."""
    section = {key: flags[name] for name, key in _SETTINGS.items() if flags.get(name) is not None}
    objective: dict[str, Any] = {}
    if flags.get("metric") is not None:
        objective["metric"] = flags["metric"]
    if flags.get("minimize"):
        objective["direction"] = "minimize"
    if flags.get("goal") is not None:
        objective["goal"] = flags["goal"]
    return {**section, "objective": objective} if objective else section


def typed(flags: dict[str, Any]) -> dict[str, str]:
    """By the path in the section, the flag that gave it, for messages."""
    paths = {**_SETTINGS, "metric": "objective.metric", "goal": "objective.goal"}
    return {
        path: f"--{name.replace('_', '-')} {flags[name]}"
        for name, path in paths.items()
        if flags.get(name) is not None
    }
