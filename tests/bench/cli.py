"""How long the program takes: start-up, validate, plan and render, each as a process of its own.

    .venv/bin/python tests/bench/cli.py [--runs N]

Prints a table. The bounds are the project's own: `validate` at most 0.3 s, `render` of a small job
at most 0.6 s. They are held against the fastest run, which is what the program takes on a machine
that does nothing else; the exit code is 1 where one is passed.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

PROGRAM = Path(sys.executable).parent / "allranks"
VALUES = Path(__file__).parents[2] / "examples" / "torchrun-digits" / "values.yaml"


@dataclass(frozen=True, slots=True)
class Case:
    """One line of the table.

    Attributes:
        name: what is measured.
        command: the process.
        bound: the most seconds it may take; 0 is no bound.
        code: the exit code it must have.
    """

    name: str
    command: tuple[str, ...]
    bound: float = 0.0
    code: int = 0


def cases(folder: Path) -> list[Case]:
    """What is measured, from the floor up."""
    program, values = str(PROGRAM), ("-f", str(VALUES))
    render = ("render", "digits", *values)
    wrong = ("--set", "nodez=1", "--set", "torchrun.port=0", "--set-json", "args=[1]")
    return [
        Case("python, nothing imported", (sys.executable, "-I", "-S", "-c", "")),
        Case("allranks --version", (program, "--version")),
        Case("allranks --help", (program, "--help")),
        Case("allranks validate", (program, "validate", *values), 0.3),
        Case("allranks validate, 3 mistakes", (program, "validate", *values, *wrong), 0.3, 2),
        Case("allranks plan, 1,000 nodes", (program, "plan", *values, "--set", "nodes=1000")),
        Case("allranks render, 2 nodes", (program, *render), 0.6),
        Case("allranks render, 8 nodes", (program, *render, "--set", "nodes=8"), 0.6),
        Case("allranks render -o DIR", (program, *render, "-o", str(folder / "out")), 0.6),
        Case("allranks list --on local", (program, "list", "--on", "local")),
    ]


def seconds(case: Case, runs: int) -> list[float]:
    """The wall time of each run."""
    times = []
    for _ in range(runs + 1):
        start = time.perf_counter()
        process = subprocess.run(case.command, capture_output=True, check=False)
        times.append(time.perf_counter() - start)
        if process.returncode != case.code:
            sys.exit(f"{case.name}: exit code {process.returncode}\n{process.stderr.decode()}")
    return times[1:]  # the first one fills the caches


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=7)
    runs = parser.parse_args().runs
    late = 0
    print(f"{'':<32}{'median':>9}{'fastest':>9}{'bound':>8}")
    with tempfile.TemporaryDirectory() as folder:
        for case in cases(Path(folder)):
            times = seconds(case, runs)
            median = statistics.median(times)
            bound = f"{case.bound:.1f} s" if case.bound else "-"
            passed = bool(case.bound) and min(times) > case.bound
            late += passed
            mark = "  over" if passed else ""
            print(f"{case.name:<32}{median:>7.3f} s{min(times):>7.3f} s{bound:>8}{mark}")
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main())
