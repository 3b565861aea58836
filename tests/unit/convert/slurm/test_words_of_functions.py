"""`$1` in a function is the word that the script gives the function."""

from __future__ import annotations

import pytest

from allranks.convert.slurm import job
from allranks.convert.verdicts import Outcome

_STEP = 'srun python a.py --lr "$lr" "$@"'


def _outcomes(*rows: str) -> dict[str, Outcome]:
    text = "\n".join(("#!/bin/bash", "#SBATCH -N 2 --ntasks-per-node=2", *rows, ""))
    verdicts = job.convert(text.encode(), "train.sbatch").verdicts
    return {own.path: own.outcome for own in verdicts if own.path in ("$1 …", "$@")}


@pytest.mark.parametrize("call", ['main 1e-4 --wd 0.1 "$@"', 'main 1e-4 "$@"'])
def test_a_word_that_the_script_gives_its_function_is_not_missing(call: str) -> None:
    """Without words behind the script's name its "$@" is none, with Slurm as here."""
    rows = ("main() {", "  local lr=$1; shift", f"  {_STEP}", "}", call)
    assert _outcomes(*rows) == {"$@": Outcome.CHANGED}


@pytest.mark.parametrize("call", ['main "$@"', 'main "$1" b', 'main 1e-4 "$2"'])
def test_a_word_of_the_scripts_own_is_missing(call: str) -> None:
    """Where the call itself reads it, or hands all on."""
    rows = ("main() {", "  local lr=$1 wd=$2; shift", f"  {_STEP}", "}", call)
    assert _outcomes(*rows) == {"$1 …": Outcome.NOT_CARRIED}
