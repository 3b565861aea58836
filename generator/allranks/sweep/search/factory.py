"""The search that a sweep asks for, by its name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks.errors import InputError, MissingToolError
from allranks.sweep.model import GRID, RANDOM
from allranks.sweep.search.base import GridSearch, RandomSearch

if TYPE_CHECKING:
    from allranks.errors import Problem
    from allranks.sweep.model import SweepSpec
    from allranks.sweep.search.base import Search


def make(spec: SweepSpec) -> Search:
    """Create the search that a sweep asks for.

    Raises:
        InputError: it needs Optuna, which is not installed, or there is no such search.
    """
    if spec.search == GRID:
        return GridSearch(spec)
    if spec.search == RANDOM:
        return RandomSearch(spec)
    try:
        # Half a second, and most sweeps do without it.
        from allranks.sweep.search.optuna import OptunaSearch
    except ModuleNotFoundError as error:
        if error.name != "optuna":
            raise
        raise MissingToolError(
            f"search: {spec.search} needs Optuna, which is not installed",
            path="sweep.search",
            hint="pip install 'allranks[search]', or use `search: random`",
        ) from error
    return OptunaSearch(spec)


def unknown(search: str) -> Problem | None:
    """Return the problem with the name of a sampler of Optuna's; None if it is valid.

    Also None if Optuna is not installed, which is reported first elsewhere.
    """
    try:
        from allranks.sweep.search import samplers
    except ModuleNotFoundError as error:
        if error.name != "optuna":
            raise
        return None
    try:
        samplers.resolve(search)
    except InputError as error:
        return error.problem
    return None
