"""Options of sbatch's that stand in variables of who submits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from allranks.convert.slurm import input_variables, job, options

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allranks.convert.verdicts import Conversion

_SCRIPT = "#!/bin/bash\n#SBATCH -N 1 -t 10\npython a.py\n"


def _convert(environment: Mapping[str, str], *words: str) -> Conversion:
    return job.convert(_SCRIPT.encode(), "job.sbatch", words=words, environment=environment)


def _limit(conversion: Conversion) -> int:
    return conversion.values["runPolicy"]["activeDeadlineSeconds"]


def test_the_command_line_wins_over_a_variable_and_that_over_the_script() -> None:
    """As sbatch reads them."""
    assert 600 == _limit(_convert({}))
    assert 1200 == _limit(_convert({"SBATCH_TIMELIMIT": "20"}))
    assert 1800 == _limit(_convert({"SBATCH_TIMELIMIT": "20"}, "-t", "30"))


@pytest.mark.parametrize(
    ("variable", "value", "path"),
    [
        ("SBATCH_PARTITION", "gpu", "SBATCH_PARTITION"),
        ("SBATCH_ACCOUNT", "me", "SBATCH_ACCOUNT"),
        ("SBATCH_RESERVATION", "x", "SBATCH_RESERVATION"),
        ("SBATCH_ARRAY_INX", "1-3", "SBATCH_ARRAY_INX"),
        ("SLURM_HINT", "nomultithread", "SLURM_HINT"),
    ],
)
def test_the_report_names_the_variable(variable: str, value: str, path: str) -> None:
    """No line of the script has it, nor the command line."""
    conversion = _convert({variable: value})
    assert path in {verdict.path for verdict in conversion.verdicts}
    assert any(f"{variable} (--" in note for note in conversion.notes)


def test_a_line_of_the_script_is_said_to_give_way_to_the_variable() -> None:
    """Another day it would be the one that counts."""
    verdicts = _convert({"SBATCH_TIMELIMIT": "20"}).verdicts
    assert "SBATCH_TIMELIMIT stands in its place" in {verdict.why for verdict in verdicts}


def test_a_flag_is_set_whatever_its_variable_has() -> None:
    """Whether it is there is all that is asked."""
    assert 0 == _convert({}).values["runPolicy"]["backoffLimit"]
    assert "backoffLimit" not in _convert({"SBATCH_REQUEUE": ""}).values["runPolicy"]


@pytest.mark.parametrize(
    ("variable", "sentence"),
    [
        ("SBATCH_TIME", "did you mean SBATCH_TIMELIMIT?"),
        ("SBATCH_WAIT4SWITCH", "is not read: "),
        ("SBATCH_XYZ", "is no variable of sbatch's, and is not read"),
    ],
)
def test_a_variable_that_stands_for_no_option_is_named(variable: str, sentence: str) -> None:
    """Who has set it counts on it."""
    assert any(
        note.startswith(variable) and sentence in note for note in _convert({variable: "1"}).notes
    )


def test_other_variables_are_nothing() -> None:
    """Those of a job that submits another, and of the shell."""
    environment = {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "4", "HOME": "/h", "SBATCH": "1"}
    assert _convert({}) == _convert(environment)


def test_each_variable_has_an_option_of_sbatchs() -> None:
    """A name that is misspelt in the table would end with a traceback, or be of srun's."""
    assert {*input_variables.OPTIONS.values()} <= {own.name for own in options.of("sbatch")}
