"""The interface of searches, which propose trials, and the two searches that need no library.

A proposal follows from the sweep, the trial's number and the results so far. A search has no other
state, so that it proposes the same again after a restart.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Protocol

from allranks.sweep import naming
from allranks.sweep.search import space

if TYPE_CHECKING:
    from allranks.sweep.model import Assignment, SweepSpec
    from allranks.sweep.state import SweepState

# How often a search may draw a combination that was tried before the next free one is taken.
DRAWS = 32


class Search(Protocol):
    """Proposes trials."""

    def propose(self, number: int, state: SweepState) -> Assignment | None:
        """Return the parameters of a new trial, which no trial has had before.

        Args:
            number: the trial's.
            state: the sweep so far.

        Returns:
            The parameters; None if every combination has been proposed.
        """


class GridSearch:
    """Proposes every combination, in order."""

    def __init__(self, spec: SweepSpec) -> None:
        self._parameters = spec.parameters
        self._size = space.grid_size(spec.parameters)

    def propose(self, number: int, state: SweepState) -> Assignment | None:
        """Return the combination with this index."""
        del state
        return space.assignment(self._parameters, number) if number < self._size else None


class RandomSearch:
    """Proposes random combinations, none of them twice."""

    def __init__(self, spec: SweepSpec) -> None:
        self._spec = spec

    def propose(self, number: int, state: SweepState) -> Assignment | None:
        """Return a combination drawn from the seed and the number; other draws if it was tried."""
        for draw in range(DRAWS):
            assignment = self._draw(number, draw)
            if naming.canonical(assignment) not in state.by_parameters:
                return assignment
        return free(self._spec, number, state)

    def _draw(self, number: int, draw: int) -> Assignment:
        chance = random.Random(f"{self._spec.seed}/{number}/{draw}")  # noqa: S311 - no secret
        # By name, so that parameters in another order are the same sweep.
        parts = {name: chance.random() for name in sorted(p.name for p in self._spec.parameters)}
        return {
            parameter.name: space.choice_at(parameter.space, parts[parameter.name])
            for parameter in self._spec.parameters
        }


def free(spec: SweepSpec, number: int, state: SweepState) -> Assignment | None:
    """Return the next combination not tried yet, from a random one on; None if all were tried.

    It checks at most one combination more than there are trials. Also None if combinations cannot
    be
    counted: a search that draws only what was tried has nothing new to propose.
    """
    total = space.combinations(spec.parameters)
    if total is None:
        return None
    start = random.Random(f"{spec.seed}/{number}/free").randrange(total)  # noqa: S311 - no secret
    for step in range(min(total, len(state.by_parameters) + 1)):
        assignment = space.assignment(spec.parameters, (start + step) % total)
        if naming.canonical(assignment) not in state.by_parameters:
            return assignment
    return None
