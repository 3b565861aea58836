"""What sweeps cost, and how fast they are: a grid, a thousand releases, memory, a search.

    make bench-sweep    or    .venv/bin/python -m tests.bench.sweep [--only WHAT] [--rounds N]

Four measurements, each held against the project's own bound; the exit code is 1 where one is
passed.

grid: a values file with 1,000 trials, validated and rendered by `allranks render` as one Indexed
Job and its tables: the fastest of some processes, and the bytes of all objects together.

releases: 1,000 one-pod releases through `helm sweep`, beside a shell loop of `helm install`; see
`sweep_releases`. What is compared are two programs on one machine, so cores that are busy with
something else change both, but not alike: the loop waits for one helm at a time, the sweep works
on all cores.

memory: the runner with 10,000 trials; see `sweep_memory`.

search: examples/sweep-digits on two cores of this machine: the processor time of all trials that
the search has begun until one of them has the best objective of the grid, beside the grid's.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from allranks import names
from tests.bench import sweep_releases
from tests.kube import cluster as kube

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

REPO = Path(__file__).parents[2]
# Of this interpreter's own tree, whatever else is installed.
PROGRAM = (sys.executable, "-c", "import sys; from allranks.cli.main import main; sys.exit(main())")
GRID, GRID_SECONDS, GRID_KIB = 1000, 1.5, 200.0
RATIO = 3.0
MANY, MANY_MIB = 10_000, 250.0
SHARE = 0.6
_RUNS = 5
# Requests per second that the controllers may make: what is measured is not their limiter.
_FAST = 2000


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table.

    Attributes:
        subject: what was measured.
        value: what it is.
        bound: what it may be; "" is no bound.
        in_bounds: whether it is.
    """

    subject: str
    value: str
    bound: str = ""
    in_bounds: bool = True


def grid() -> list[Row]:
    """A grid of 1,000 trials, from its values file to its objects."""
    rates = [f"{number}e-5" for number in range(1, 41)]
    content = {
        "workload": "sweep",
        "image": {"repository": "my/trainer", "tag": "1"},
        "command": ["python", "train.py"],
        "sweep": {
            "parameters": {
                "lr": {"values": rates, "arg": "--lr"},
                "batchSize": {"range": {"min": 16, "max": 400, "step": 16}, "env": "BATCH_SIZE"},
            },
            "parallel": 8,
        },
    }
    with tempfile.TemporaryDirectory() as folder:
        values = Path(folder) / "values.yaml"
        values.write_text(yaml.safe_dump(content), encoding="utf-8")
        line = (*PROGRAM, "render", "s", "-f", str(values))
        times = []
        for _ in range(_RUNS):
            start = time.perf_counter()
            process = subprocess.run(line, check=True, capture_output=True)
            times.append(time.perf_counter() - start)
    jobs = [
        document
        for document in yaml.safe_load_all(process.stdout)
        if document and document["kind"] == "Job"
    ]
    if [GRID] != [job["spec"]["completions"] for job in jobs]:
        sys.exit("the grid is not one Job of 1,000 trials")
    best, size = min(times), len(process.stdout) / 1024
    return [
        Row("grid of 1,000: validated, rendered", f"{best:.2f} s", "1.5 s", best <= GRID_SECONDS),
        Row("grid of 1,000: all its objects", f"{size:.0f} KiB", "200 KiB", size < GRID_KIB),
    ]


def releases(rounds: int) -> list[Row]:
    """1,000 releases by a sweep, and some by a loop."""
    rates_of_rounds = []
    with (
        tempfile.TemporaryDirectory() as folder,
        kube.start(name="bench-sweep", kwok=True, controller_qps=_FAST) as cluster,
    ):
        place = sweep_releases.Releases(cluster, Path(folder))
        place.round(0, trials=20, loop=4)  # for nothing but a warm API server
        for number in range(1, rounds + 1):
            rates = place.round(number)
            rates_of_rounds.append(rates)
            print(_line(number, rates), flush=True)
    best = max(rates_of_rounds, key=lambda rates: rates.sweep / rates.loop)
    ratio = best.sweep / best.loop
    return [
        Row(f"shell loop, {sweep_releases.LOOP} releases", f"{best.loop:.0f} a minute"),
        Row(f"helm sweep, {sweep_releases.TRIALS} releases", f"{best.sweep:.0f} a minute"),
        Row("helm sweep beside the loop", f"{ratio:.2f} x", "3 x", ratio >= RATIO),
    ]


def _line(number: int, rates: sweep_releases.Rates) -> str:
    cpu = ", ".join(f"{name} {spent:.0f}" for name, spent in rates.cpu.items())
    return (
        f"round {number}: loop {rates.loop:.0f} a minute, sweep {rates.sweep:.0f}; processor "
        f"milliseconds per trial: {cpu}; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    )


def memory() -> list[Row]:
    """The runner with 10,000 trials."""
    line = (sys.executable, "-m", "tests.bench.sweep_memory", str(MANY))
    process = subprocess.run(line, cwd=REPO, check=True, capture_output=True, text=True)
    count, most = process.stdout.split()
    if int(count) != MANY:
        sys.exit(f"{count} of {MANY} trials have ended")
    peak = float(most)
    return [Row("runner, 10,000 trials", f"{peak:.0f} MiB", "250 MiB", peak < MANY_MIB)]


def search() -> list[Row]:
    """The search's way to the grid's best, beside the grid."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(cores)[-2:])
    with tempfile.TemporaryDirectory() as folder:
        whole = _swept("grid", Path(folder))
        results = _swept("tpe", Path(folder))
    os.sched_setaffinity(0, cores)
    best = max(trial["value"] for trial in whole["trials"])
    reached = [trial for trial in results["trials"] if trial["state"] == "succeeded"]
    ends = [trial["ended"] for trial in reached if trial["value"] >= best]
    spent = float("inf")
    if ends:
        early_trials = [trial for trial in results["trials"] if trial["started"] <= min(ends)]
        spent = sum(trial["cpuSeconds"] for trial in early_trials)
    share = spent / whole["cpuSeconds"]
    return [
        Row("grid of digits: best accuracy", f"{best:.4f}"),
        Row("grid of digits: processor time", f"{whole['cpuSeconds']:.0f} s"),
        Row("search: all of it", f"{results['cpuSeconds']:.0f} s"),
        Row("search: until it has the grid's best", f"{100 * share:.0f} %", "60 %", share <= SHARE),
    ]


def _swept(name: str, folder: Path) -> Mapping[str, Any]:
    """Run a sweep of the example here; what it has found."""
    values = REPO / f"examples/sweep-digits/{name}.yaml"
    env = {**os.environ, names.ENV_STATE: str(folder)}
    words = ("sweep", "run", name, "-f", str(values), "--on", "local")
    subprocess.run((*PROGRAM, *words), env=env, check=True, stdout=subprocess.DEVNULL)
    query = (*PROGRAM, "sweep", "results", name, "-o", "json")
    process = subprocess.run(query, env=env, check=True, capture_output=True)
    content: dict[str, Any] = json.loads(process.stdout)
    return content


def main() -> None:
    """Measure, print, and say by the exit code whether all bounds hold."""
    words = argparse.ArgumentParser(description="Measure sweeps.")
    words.add_argument("--rounds", type=int, default=2, help="of the 1,000 releases")
    words.add_argument("--only", choices=("grid", "releases", "memory", "search"), action="append")
    arguments = words.parse_args()
    measures: Mapping[str, Callable[[], Sequence[Row]]] = {
        "grid": grid,
        "memory": memory,
        "search": search,
        "releases": lambda: releases(arguments.rounds),
    }
    rows = [
        row
        for name, measure in measures.items()
        if name in (arguments.only or measures)
        for row in measure()
    ]
    print()
    for row in rows:
        print(
            f"{row.subject:40} {row.value:>14} {row.bound:>10} {'' if row.in_bounds else 'MISSED'}"
        )
    sys.exit(not all(row.in_bounds for row in rows))


if __name__ == "__main__":
    main()
