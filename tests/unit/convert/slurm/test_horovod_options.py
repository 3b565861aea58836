"""The options of a horovodrun: which words are their values, and where its hosts are said."""

from __future__ import annotations

import pytest

from allranks.convert.slurm import job

_HOSTFILE = ["--hostfile", "/etc/mpi/hostfile"]


def _command(line: str) -> list[str]:
    options = "#SBATCH -N2 --ntasks-per-node=4 --gpus-per-node=4 -c8"
    text = f"#!/bin/bash\n{options}\n{line}\n"
    return list(job.convert(text.encode(), "train.sbatch").values["command"])


@pytest.mark.parametrize(
    "option",
    [
        "--fusion-threshold-mb 32",
        "--log-level INFO",
        "--log-lev INFO",
        "--gloo-timeout-seconds 60",
        "--timeline-filename tl.json",
        "--cycle-time-ms=5",
        "--blacklist-cooldown-range 60 300",
        "--autotune",
        "--mpi-args=--oversubscribe",
    ],
)
@pytest.mark.parametrize("hosts", ["-H a:4,b:4", "--hostfile h.txt", "--hosts=a:4,b:4"])
def test_the_chart_s_hosts_stand_where_those_of_the_script_did(hosts: str, option: str) -> None:
    """An option keeps its value behind it, and hosts behind an option with a value are hosts."""
    behind = _command(f"horovodrun -np 8 {hosts} {option} python a.py --log-level x")
    program = ["python", "a.py", "--log-level", "x"]
    assert behind == ["horovodrun", "-np", "8", *_HOSTFILE, *option.split(), *program]
    before = _command(f"horovodrun {option} -np 8 {hosts} python a.py")
    assert before == ["horovodrun", *option.split(), "-np", "8", *_HOSTFILE, "python", "a.py"]


def test_a_horovodrun_has_one_list_of_hosts() -> None:
    """Where a script says two, the chart's is said once."""
    command = _command("horovodrun -np 8 -H a:4 --log-level INFO -H b:4 python a.py")
    assert command == [
        "horovodrun",
        "-np",
        "8",
        *_HOSTFILE,
        "--log-level",
        "INFO",
        "python",
        "a.py",
    ]


def test_a_horovodrun_without_hosts_is_told_of_the_charts() -> None:
    """It starts its ranks in its own pod else, the launcher's, which has no GPU."""
    command = _command("horovodrun -np 2 python a.py")
    assert command == ["horovodrun", *_HOSTFILE, "-np", "2", "python", "a.py"]
