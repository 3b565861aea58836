"""What is told to who may not install the operator."""

from __future__ import annotations

import pytest

from allranks.cli.commands import operator
from allranks.errors import ForbiddenError


@pytest.mark.parametrize(
    ("kind", "fix"),
    [
        ("clusterroles.rbac.authorization.k8s.io", "--set rbac.aggregate=false"),
        (
            "validatingadmissionpolicies.admissionregistration.k8s.io",
            "--set master.admissionPolicy=false",
        ),
    ],
)
def test_the_value_that_asks_for_the_right_is_named(kind: str, fix: str) -> None:
    """Where the cluster refuses an object of the whole cluster, the chart can do without it."""
    with pytest.raises(ForbiddenError) as excinfo, operator.rights():
        raise ForbiddenError(f"user 'ada' may not create {kind}")
    assert excinfo.value.problem.hint.endswith(fix)
