"""Plans, each read once: a plan of ten thousand pods is looked at with each pod that starts.

Nothing of an object that the world knows is ever changed in its place, so that the same object says
what it said before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks.elastic import plan

if TYPE_CHECKING:
    from collections.abc import Callable

    from allranks.elastic.plan import ScalePlan
    from allranks.model.manifest import Manifest
    from allranks_operator.world.keys import Key


class PlansRead:
    """The plans of each key that were read at its last look, and no others."""

    def __init__(self) -> None:
        """None was read yet."""
        self._known: dict[Key, dict[str, ScalePlan]] = {}

    def reader(self, key: Key) -> Callable[[Manifest], ScalePlan]:
        """What reads the plans of a key during one look at it."""
        before = self._known.get(key, {})
        now = self._known[key] = {}

        def read(found: Manifest) -> ScalePlan:
            uid = str(found["metadata"].get("uid") or "")
            known = before.get(uid)
            now[uid] = known if known is not None and known.raw is found else plan.read(found)
            return now[uid]

        return read

    def forget(self, key: Key) -> None:
        """It is no more."""
        self._known.pop(key, None)
