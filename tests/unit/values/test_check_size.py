"""The rules about size agree with the layout: what one refuses, the other does."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from allranks.errors import InputError
from allranks.layout.compute import compute
from allranks.model.job_spec import JobSpec
from allranks.values.merge import merge
from allranks.values.rules import elastic as check_elastic
from allranks.values.rules import size as check_size
from allranks.values.rules import torchrun as check_torchrun
from allranks.values.rules.base import View
from allranks.values.rules.size import SIZE
from allranks.values.sources import defaults

RULES = [*check_size.RULES, *check_elastic.RULES, *check_torchrun.RULES]
COUNT = st.integers(0, 12)


@st.composite
def sizes(draw: st.DrawFn) -> dict[str, Any]:
    """Values of either workload with any size, elastic or not."""
    workload = draw(st.sampled_from(["torchrun", "mpi"]))
    least, extra = draw(st.tuples(st.integers(1, 4), st.integers(0, 4)))
    elastic = draw(st.booleans())
    return merge(
        defaults(workload),
        {
            "command": ["horovodrun"],
            "gpus": draw(st.integers(0, 40)),
            "nodes": draw(COUNT),
            "gpusPerNode": draw(COUNT),
            "nodeShape": {"gpus": draw(COUNT)},
            workload: {
                "elastic": {"minNodes": least, "maxNodes": least + extra}
                if elastic
                else {"minNodes": 0, "maxNodes": 0}
            }
            | ({"numWorkers": draw(COUNT)} if workload == "mpi" else {}),
        },
    )


@given(sizes())
def test_rules_and_layout_agree(values: dict[str, Any]) -> None:
    """The rules accept exactly the sizes that the layout computes, and compute the same."""
    rules = [rule for rule in RULES if rule.workload in ("", values["workload"])]
    findings = [f for rule in rules for f in rule.find(View(values, rule.reads))]
    try:
        computed = compute(JobSpec.from_values(values))
    except InputError as error:
        computed, refusal = None, str(error)
    if computed is None:
        assert findings, f"only the layout refuses: {refusal}"
        return
    assert [] == findings
    size = check_size.size(View(values, SIZE))
    assert size is not None
    assert (computed.nodes, computed.gpus_per_node) == (size.nodes, size.gpus)


@given(st.integers(1, 10_000))
def test_divisors_divide(number: int) -> None:
    """All of them, and nothing else."""
    assert check_size.divisors(number) == {
        part for part in range(1, number + 1) if not number % part
    }


@given(sizes())
def test_a_fix_for_the_total_works(values: dict[str, Any]) -> None:
    """Every total that a hint names is accepted where it is put in."""
    rule = next(rule for rule in check_size.RULES if rule.id == "gpus-divide")
    for finding in rule.find(View(values, rule.reads)):
        totals = finding.hint.removeprefix("ask for ").split(" GPUs", 1)[0].split(" or ")
        for total in totals:
            fixed = merge(values, {"gpus": int(total)})
            assert [] == list(rule.find(View(fixed, rule.reads)))
