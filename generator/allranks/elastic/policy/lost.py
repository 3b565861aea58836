"""Workers that are lost though their pods run: frozen, cut off, or stuck in what nobody can end.

The watcher replaces pods that have ended, and of these it sees nothing wrong. Without others in
their place a job that needs all of its workers would wait for ever, so each is taken away by a plan
that keeps the number: what is removed is made up with a pod that is new.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from allranks.elastic.plan import parse_pod_name
from allranks.elastic.policy.seen import WORKER, Decision
from allranks.words import plural, some

if TYPE_CHECKING:
    from allranks.elastic.policy.seen import Seen
    from allranks.elastic.policy.state import State

# A pod that is still there after so long is asked for again: another's plan was newer than ours.
_AGAIN_SECONDS = 60.0
_NEVER = float("-inf")
_NAMED_MAX = 3


def judge(state: State, seen: Seen, now: float) -> tuple[State, Decision | None]:
    """Have the pods of lost workers replaced, each once."""
    asked = {pod: at for pod, at in state.replaced.items() if pod in seen.lost}
    gone = sorted(pod for pod in seen.lost if now - asked.get(pod, _NEVER) >= _AGAIN_SECONDS)
    state = replace(state, replaced={**asked, **dict.fromkeys(gone, now)})
    if not gone:
        return state, None
    kinds = {found[0] if (found := parse_pod_name(pod)) else WORKER for pod in gone}
    counts = {kind: seen.replicas[kind] for kind in sorted(kinds) if seen.replicas.get(kind)}
    shown = some([f"{pod} {seen.lost[pod]}" for pod in gone], _NAMED_MAX, "; ")
    message = (
        f"{shown}: though {'it runs' if len(gone) == 1 else 'they run'}, "
        f"{plural(len(gone), 'new pod')} {'takes its' if len(gone) == 1 else 'take their'} place"
    )
    return state, Decision("WorkerLost", message, replicas=counts, remove=tuple(gone), warning=True)
