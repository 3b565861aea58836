"""A sample of `make fuzz`: mutated values files, judged by validate, render and Helm alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.amounts import amount
from tests.fuzz import mutations, verdicts

if TYPE_CHECKING:
    from pathlib import Path

SEED = 5
SAMPLE = amount(120, ci=60)
PARTS = 6  # so that two workers share the work


@pytest.mark.parametrize("part", range(PARTS))
def test_mutated_values_have_one_verdict(
    part: int, helm4: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 0 or 2, no traceback, a fix for each problem, and no verdict unlike another."""
    monkeypatch.setenv("ALLRANKS_HELM", str(helm4.path))
    bases = mutations.bases()
    for number in range(part, SAMPLE, PARTS):
        verdict = verdicts.judge(mutations.case(SEED, number, bases), helm4.path, tmp_path)
        if verdict.fault:
            case, verdict = verdicts.minimal(mutations.case(SEED, number, bases), helm4.path)
            changes = "\n  ".join(map(str, case.changes))
            pytest.fail(
                f"{verdict.fault}: seed {SEED}, case {number} of {case.base}:\n  {changes}\n"
                f"validate {verdict.validate}: {verdict.message}\n"
                f"helm {verdict.helm}, render {verdict.render}: {verdict.helm_message}",
                pytrace=False,
            )


def test_a_case_follows_from_its_seed_and_number() -> None:
    """The same two give the same file, and other numbers give others."""
    bases = mutations.bases()
    first, again, other = (mutations.case(SEED, number, bases) for number in (7, 7, 8))
    assert first == again
    assert first.mutated() != other.mutated()
    assert {case.workload for case in (mutations.case(1, n, bases) for n in range(len(bases)))} == {
        "torchrun",
        "mpi",
        "elastic",
        "sweep",
    }
