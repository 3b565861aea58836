"""The chart's own layout: that the generator computes the same for any size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.charts.shared.layout import PROBE, SIZES, charted, generated, sized
from tests.charts.shared.parity import read

if TYPE_CHECKING:
    from pathlib import Path

_CASES = st.fixed_dictionaries(
    SIZES
    | {
        "numWorkers": st.sampled_from([0, 0, 0, 1, 2, 3, 12]),
        "slotsPerWorker": st.sampled_from([0, 0, 0, 1, 2, 8]),
        "runLauncherAsWorker": st.booleans(),
    }
)


def _values(defaults: dict[str, Any], case: dict[str, Any]) -> dict[str, Any]:
    values = sized(defaults, "mpi", case)
    for key in ("numWorkers", "slotsPerWorker", "runLauncherAsWorker"):
        values["mpi"][key] = case[key]
    return values


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(cases=st.lists(_CASES, min_size=40, max_size=60))
def test_chart_and_generator_agree(cases: list[dict[str, Any]], probe: Any, mpi: Path) -> None:
    """For any sizes the chart computes what the generator does, smaller last nodes included."""
    defaults = read(mpi / "values.yaml")
    given_values = [_values(defaults, case) for case in cases]
    for values, answer in zip(given_values, probe(PROBE, {"cases": given_values}), strict=True):
        assert generated(values) == charted(answer), answer["problems"]
