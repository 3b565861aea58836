"""What is said of the volumes that a deleted sweep leaves."""

from __future__ import annotations

import re
import subprocess

from allranks.cli.commands.sweep import control
from allranks.cli.commands.sweep.sweep_target import SweepTarget

_CLAIMS = [f"persistentvolumeclaims/s-{number:08x}-checkpoints" for number in range(5)]


def test_few_claims_are_named_in_the_command() -> None:
    """As `allranks delete` does it."""
    place = SweepTarget("cluster", "lab")
    assert "" == control._how_to_remove("s", place, [])
    command = f"kubectl delete -n lab {_CLAIMS[0]} {_CLAIMS[1]}"
    assert command == control._how_to_remove("s", place, _CLAIMS[:2])


def test_many_claims_are_found_by_the_command() -> None:
    """By a pattern that finds them and no others; where there is none, each is named."""
    place = SweepTarget("cluster", "lab")
    command = control._how_to_remove("s", place, _CLAIMS)
    match = re.search(r"grep -E '([^']*)'", command)
    assert match is not None
    others = ["persistentvolumeclaims/s-data", "persistentvolumeclaims/as-00000001-data"]
    process = subprocess.run(
        ["grep", "-E", match[1]],
        input="\n".join([*_CLAIMS, *others]),
        capture_output=True,
        text=True,
        check=True,
    )
    assert _CLAIMS == process.stdout.split()
    assert command.endswith(" | xargs kubectl delete -n lab")
    odd = [*_CLAIMS, others[0]]
    assert f"kubectl delete -n lab {' '.join(odd)}" == control._how_to_remove("s", place, odd)
