"""Which trial comes next: the port that searches stand behind, and the two that need no library.

A proposal follows from the sweep, the trial's number and what has been found so far. Nothing else
is remembered, so a search that is asked again after a restart says the same.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Protocol

from allranks.errors import InputError, MissingToolError
from allranks.sweep import naming, space
from allranks.sweep.model import GRID, RANDOM

if TYPE_CHECKING:
    from allranks.errors import Problem
    from allranks.sweep.model import Assignment, SweepSpec
    from allranks.sweep.state import SweepState

# So often a search may draw what was tried before, until the next free combination is taken.
DRAWS = 32


class Search(Protocol):
    """Proposes trials."""

    def propose(self, number: int, state: SweepState) -> Assignment | None:
        """The parameters of the trial of a number, which no trial has had before.

        Args:
            number: the trial's.
            state: the sweep so far.

        Returns:
            None where every combination has been proposed.
        """


def make(spec: SweepSpec) -> Search:
    """The search that a sweep asks for.

    Raises:
        InputError: it needs Optuna, which is not installed, or there is none of its name.
    """
    if spec.search == GRID:
        return GridSearch(spec)
    if spec.search == RANDOM:
        return RandomSearch(spec)
    try:
        # Half a second, and most sweeps do without it.
        from allranks.sweep.search import OptunaSearch  # noqa: PLC0415
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
    """What is wrong with the name of a search that is not ours; None where nothing is.

    Nor is anything where Optuna is not installed: that is to be said first.
    """
    try:
        from allranks.sweep import samplers  # noqa: PLC0415 - as in `make`
    except ModuleNotFoundError as error:
        if error.name != "optuna":
            raise
        return None
    try:
        samplers.resolve(search)
    except InputError as error:
        return error.problem
    return None


class GridSearch:
    """Every combination, in their order."""

    def __init__(self, spec: SweepSpec) -> None:
        self._parameters = spec.parameters
        self._size = space.grid_size(spec.parameters)

    def propose(self, number: int, state: SweepState) -> Assignment | None:
        """The combination of that index."""
        del state
        return space.assignment(self._parameters, number) if number < self._size else None


class RandomSearch:
    """Combinations by chance, none of them twice."""

    def __init__(self, spec: SweepSpec) -> None:
        self._spec = spec

    def propose(self, number: int, state: SweepState) -> Assignment | None:
        """A combination drawn from the seed and the number alone, but for repetitions."""
        for draw in range(DRAWS):
            found = self._draw(number, draw)
            if naming.canonical(found) not in state.known:
                return found
        return free(self._spec, number, state)

    def _draw(self, number: int, draw: int) -> Assignment:
        chance = random.Random(f"{self._spec.seed}/{number}/{draw}")  # noqa: S311 - no secret
        # By name, so that parameters in another order are the same sweep.
        parts = {name: chance.random() for name in sorted(p.name for p in self._spec.parameters)}
        return {
            parameter.name: space.at(parameter.space, parts[parameter.name])
            for parameter in self._spec.parameters
        }


def free(spec: SweepSpec, number: int, state: SweepState) -> Assignment | None:
    """The first combination not tried yet, from a random one on; None where all were tried.

    At most one more is looked at than there are trials. Where combinations cannot be counted, a
    search that draws only what was tried has nothing new to say, and None is right, too.
    """
    total = space.combinations(spec.parameters)
    if total is None:
        return None
    start = random.Random(f"{spec.seed}/{number}/free").randrange(total)  # noqa: S311 - no secret
    for step in range(min(total, len(state.known) + 1)):
        found = space.assignment(spec.parameters, (start + step) % total)
        if naming.canonical(found) not in state.known:
            return found
    return None
