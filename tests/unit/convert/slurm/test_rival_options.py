"""Options of sbatch's of which a job has one alone: the last, the command line's behind all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from allranks.convert.slurm import job
from allranks.convert.verdicts import Outcome

if TYPE_CHECKING:
    from allranks.convert.verdicts import Conversion


def _convert(directives: str, *words: str) -> Conversion:
    text = f"#!/bin/bash\n#SBATCH {directives}\nsrun python train.py\n"
    return job.convert(text.encode(), "job.sbatch", words=words)


@pytest.mark.parametrize(
    ("directives", "words"),
    [("-N 1 --requeue", ["--no-requeue"]), ("-N 1 --requeue --no-requeue", [])],
)
def test_the_last_word_about_a_new_start_holds(directives: str, words: list[str]) -> None:
    """A run that is told not to start again does not."""
    conversion = _convert(directives, *words)
    assert 0 == conversion.values["runPolicy"]["backoffLimit"]
    reasons = {verdict.path: verdict.why for verdict in conversion.verdicts}
    assert reasons["--requeue"].startswith("--no-requeue stands in its place")


def test_a_job_that_is_told_to_start_again_does() -> None:
    """Where the command line says so, too."""
    assert "runPolicy" not in _convert("-N 1 --no-requeue", "--requeue").values


@pytest.mark.parametrize(
    ("directives", "words", "memory"),
    [
        ("-n 2 --mem=10G", ["--mem-per-cpu=1G"], "2Gi"),
        ("-n 2 --mem-per-cpu=1G", ["--mem=10G"], "10Gi"),
        ("-n 2 --mem=10G --mem-per-cpu=1G", [], "2Gi"),
        ("-n 2 --mem-per-cpu=1G --mem=10G", [], "10Gi"),
        ("-N 1 --gpus-per-node=2 --mem=10G", ["--mem-per-gpu=3G"], "6Gi"),
    ],
)
def test_the_last_amount_of_memory_holds(directives: str, words: list[str], memory: str) -> None:
    """Whether it is that of a node, of a CPU or of a GPU; the other is said to be replaced."""
    conversion = _convert(directives, *words)
    assert memory == conversion.values["resources"]["perPod"]["limits"]["memory"]
    replaced = [item for item in conversion.verdicts if "stands in its place" in item.why]
    assert [(Outcome.CHANGED, "")] == [(item.outcome, item.to) for item in replaced]


@pytest.mark.parametrize("replaced", ["--mem=10G", "--mem=10G --mem-per-cpu=2G"])
def test_an_option_between_its_rivals_is_said_to_be_replaced(replaced: str) -> None:
    """Each of those before the last has a field of its own in the report."""
    conversion = _convert(f"-n 2 {replaced} --mem-per-gpu=1G --mem=4G")
    assert "4Gi" == conversion.values["resources"]["perPod"]["limits"]["memory"]
    fields = {verdict.path: verdict.outcome for verdict in conversion.verdicts}
    assert Outcome.CARRIED == fields["--mem"]
    assert Outcome.CHANGED == fields["--mem-per-gpu"]


@pytest.mark.parametrize(
    ("directives", "words", "key", "value"),
    [
        ("-N 1 --ntasks-per-node=4", ["--tasks-per-node=2"], "procsPerNode", 2),
        ("-N 1 --tasks-per-node=4", ["--ntasks-per-node=2"], "procsPerNode", 2),
        ("-N 2 --ntasks-per-node=2 --workdir=/a", ["--chdir=/b"], "workingDir", "/b"),
        ("-N 2 --ntasks-per-node=2 --chdir=/a", ["--workdir=/b"], "workingDir", "/b"),
    ],
)
def test_the_last_of_two_names_of_an_option_holds(
    directives: str, words: list[str], key: str, value: object
) -> None:
    """An old name of an option is the option."""
    assert value == _convert(directives, *words).values[key]


def test_the_last_number_of_cpus_holds() -> None:
    """For a task, or for a GPU."""
    options = "-N 1 --gpus-per-node=2 --ntasks-per-node=2"
    for directives, words, cpus in (
        (f"{options} -c 4", ["--cpus-per-gpu=3"], "6"),
        (f"{options} --cpus-per-gpu=3", ["-c", "4"], "8"),
    ):
        values = _convert(directives, *words).values
        assert cpus == values["resources"]["perPod"]["requests"]["cpu"]
