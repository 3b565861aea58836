"""The hosts that a batch script names, all of which its job has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from allranks.convert.slurm import job
from allranks.convert.verdicts import Outcome

if TYPE_CHECKING:
    from allranks.convert.verdicts import Conversion


def _convert(directives: str) -> Conversion:
    text = f"#!/bin/bash\n#SBATCH {directives}\nsrun python a.py\n"
    return job.convert(text.encode(), "job.sbatch")


@pytest.mark.parametrize(
    ("directives", "nodes", "ranks"),
    [
        ("--nodelist=node[1-3] --ntasks-per-node=2", 3, 2),
        ("-w a,b,a --ntasks-per-node=2", 2, 2),
        ("-w a,b -N 1 --ntasks-per-node=2", 2, 2),
        ("-w a,b -N 4 --ntasks-per-node=2", 4, 2),
        ("-w a,b -n 8", 2, 4),
        ("-w a -n 2", 1, 2),
        ("-w ./hosts.txt -n 2", 1, 2),
        ("-w a[1- -n 2", 1, 2),
    ],
)
def test_a_job_has_all_hosts_that_it_names(directives: str, nodes: int, ranks: int) -> None:
    """And more, where --nodes is larger; a file, or one host, says nothing of their number."""
    values = _convert(directives).values
    assert (nodes, ranks) == (values["nodes"], values["procsPerNode"])


def test_fewer_nodes_than_hosts_are_said_to_be_more() -> None:
    """The line of --nodes has another number than the run."""
    verdicts = {own.path: own for own in _convert("-N 1 -w a,b --ntasks-per-node=2").verdicts}
    assert Outcome.CHANGED == verdicts["--nodes"].outcome
    assert "names 2 hosts" in verdicts["--nodes"].why


def test_hosts_are_where_the_nodes_come_from() -> None:
    """Where no line has their number."""
    verdicts = {own.path: own for own in _convert("-w a,b --ntasks-per-node=2").verdicts}
    assert "nodes, scheduling.affinity" == verdicts["--nodelist"].to
