"""What a master tells of itself, under ``/v1/status`` and of a generation; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from allranks.words import plural

if TYPE_CHECKING:
    from collections.abc import Iterable

    from allranks.elastic.policy.seen import Decision
    from allranks.elastic.policy.state import State
    from allranks_operator.master.membership import Membership, World


def workers(membership: Membership | None, now: float) -> dict[str, Any]:
    """Who trains with whom.

    Args:
        membership: what is known of it.
        now: seconds of the master's clock.
    """
    if membership is None:
        return {"generation": 0, "forming": False, "why": "", "workers": []}
    world = membership.world
    return {
        "generation": world.generation,
        "forming": membership.forming is not None,
        "why": membership.why,
        "workers": [
            {
                "pod": pod,
                "state": member.state,
                "rank": world.rank(pod),
                "address": member.node.address,
                "silentSeconds": round(now - member.heard, 1),
            }
            for pod, member in sorted(membership.members.items())
        ],
    }


def size(state: State | None, decisions: Iterable[Decision]) -> dict[str, Any]:
    """How many workers are wanted, and why."""
    told = [{"reason": one.reason, "message": one.message} for one in decisions]
    if state is None:
        return {"decisions": told}
    return {
        "wanted": state.wish,
        "least": state.least,
        "most": state.most,
        "fixed": state.fixed,
        "speeds": {str(count): speed for count, speed in sorted(state.speeds.items())},
        "decisions": told,
    }


def begun(world: World, why: str) -> str:
    """That a generation begins.

    Args:
        world: the generation.
        why: it does.
    """
    size = len(world.nodes)
    return f"generation {world.generation} of {plural(size, 'worker')} begins: {why}"


def done(membership: Membership) -> str:
    """That the training has ended well."""
    size, lost = len(membership.world.nodes), len(membership.broken)
    if lost:
        return f"{size - lost} of {plural(size, 'worker')} finished, and the others are gone"
    return f"all {plural(size, 'worker')} are done" if size > 1 else "the worker is done"
