"""What is said of the volumes that a deleted sweep leaves."""

from __future__ import annotations

import re
import subprocess

from allranks.cli import sweepcontrol
from allranks.cli.sweepplace import Place

_CLAIMS = [f"persistentvolumeclaims/s-{number:08x}-checkpoints" for number in range(5)]


def test_few_claims_are_named_in_the_command() -> None:
    """As `allranks delete` does it."""
    place = Place("cluster", "lab")
    assert "" == sweepcontrol._how_to_remove("s", place, [])
    command = f"kubectl delete -n lab {_CLAIMS[0]} {_CLAIMS[1]}"
    assert command == sweepcontrol._how_to_remove("s", place, _CLAIMS[:2])


def test_many_claims_are_found_by_the_command() -> None:
    """By a pattern that finds them and no others; where there is none, each is named."""
    place = Place("cluster", "lab")
    command = sweepcontrol._how_to_remove("s", place, _CLAIMS)
    found = re.search(r"grep -E '([^']*)'", command)
    assert found is not None
    others = ["persistentvolumeclaims/s-data", "persistentvolumeclaims/as-00000001-data"]
    done = subprocess.run(
        ["grep", "-E", found[1]],
        input="\n".join([*_CLAIMS, *others]),
        capture_output=True,
        text=True,
        check=True,
    )
    assert _CLAIMS == done.stdout.split()
    assert command.endswith(" | xargs kubectl delete -n lab")
    odd = [*_CLAIMS, others[0]]
    assert f"kubectl delete -n lab {' '.join(odd)}" == sweepcontrol._how_to_remove("s", place, odd)
