"""How much of a thing a test takes, where more of it looks for what is rare."""

from __future__ import annotations

import os


def amount(full: int, *, ci: int) -> int:
    """The full amount; in CI, which runs all tests each time, what shows the behaviour.

    Args:
        full: as `make test-cluster` and the like take it.
        ci: where the variable CI is set, as `.ci/run` does.
    """
    return ci if os.environ.get("CI") else full
