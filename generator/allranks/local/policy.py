"""A Job's podFailurePolicy and successPolicy, rule by rule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from allranks.local.plan import FailureRule, SuccessRule

FAIL_JOB = "FailJob"
IGNORE = "Ignore"
COUNT = "Count"
FAIL_INDEX = "FailIndex"


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a failure policy makes of a failed pod, and the container it looked at."""

    action: str
    container: str = ""
    exit_code: int | None = None


def judge(rules: Sequence[FailureRule], exits: Sequence[tuple[str, int]]) -> Judgement:
    """The first rule that matches decides; without one, the failure counts.

    Rules on pod conditions match nothing here: no one drains or preempts a local pod.

    Args:
        rules: of the Job.
        exits: (container, exit code) of the failed pod, main containers first.
    """
    for rule in rules:
        for container, code in exits:
            if _matches(rule, container, code):
                return Judgement(rule.action, container, code)
    return Judgement(COUNT)


def _matches(rule: FailureRule, container: str, code: int) -> bool:
    if code == 0 or not rule.operator or rule.container not in {"", container}:
        return False
    return (code in rule.values) == (rule.operator == "In")


def is_met(rules: Sequence[SuccessRule], succeeded: Collection[int]) -> bool:
    """Whether the indexes that have succeeded are enough for one of the rules."""
    return any(_is_rule_met(rule, frozenset(succeeded)) for rule in rules)


def _is_rule_met(rule: SuccessRule, succeeded: frozenset[int]) -> bool:
    if rule.indexes is None:
        return rule.count is not None and len(succeeded) >= rule.count
    needed = len(rule.indexes) if rule.count is None else rule.count
    return len(succeeded & rule.indexes) >= needed
