from __future__ import annotations

from pathlib import Path

import pytest

from allranks.convert import (
    appwrapper,
    experiment,
    job,
    jobset,
    leaderworkerset,
    optimizationjob,
    statefulset,
    trainjob,
    volcano,
)
from allranks.convert.verdicts import Outcome, Rule, Rules

FIELDS = Path(__file__).parents[2] / "data" / "convert" / "fields"
TABLES: dict[str, tuple[Rule, ...]] = {
    "AppWrapper": appwrapper.FIELDS,
    "Experiment": experiment.FIELDS,
    "Job": job.FIELDS,
    "JobSet": jobset.FIELDS,
    "LeaderWorkerSet": leaderworkerset.FIELDS,
    "OptimizationJob": optimizationjob.FIELDS,
    "StatefulSet": statefulset.FIELDS,
    "TrainJob": trainjob.FIELDS,
    "VolcanoJob": volcano.FIELDS,
}


@pytest.mark.parametrize("kind", sorted(TABLES))
def test_every_field_of_a_kind_has_a_rule(kind: str) -> None:
    """No field that a project's own schema has is met without a word for it."""
    rules = Rules(TABLES[kind])
    paths = (FIELDS / f"{kind}.txt").read_text().split()
    assert [] == [path for path in paths if rules.of(_keys(path)) is None]


@pytest.mark.parametrize("kind", sorted(TABLES))
def test_a_rule_says_where_or_why(kind: str) -> None:
    """What is carried has a place, and what is not carried as it is has a reason."""
    silent = [
        rule.path
        for rule in TABLES[kind]
        if not (rule.to if rule.outcome is Outcome.CARRIED else rule.why)
    ]
    assert [] == silent


def _keys(path: str) -> tuple[str | int, ...]:
    steps = path.replace("[]", ".[]").split(".")
    return tuple(0 if step == "[]" else "key" if step == "*" else step for step in steps)
