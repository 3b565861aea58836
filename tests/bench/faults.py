"""Faults in numbers: seconds to the next training step, and steps lost, for each way of training.

    make bench-faults    or    .venv/bin/python -m tests.bench.faults [--fault NAME] [--way NAME]

One real node with real pods. Each way is a job of two pods with a rank each, which makes ten steps
a second and saves every twenty; five steps before the next save, a fault meets rank 1's pod (of a
job with a parameter server, the server's), or rank 0's where the fault says so. Rank 0 writes each
step and its time into the volume of the checkpoints, which the bench reads on the machine itself.
Seconds are from the fault to the first step after the pause or the restart that it caused; steps
lost are those that rank 0 had made and made again. A job is used again as long as its pods are the
first ones, so that no back-off of Kubernetes' grows from fault to fault.

    --write       put the table into docs/guides/faults.md
    --keep FILE   go on with the cells of an earlier run, and write each into this file
    --no-run      measure nothing: show and write what --keep has
    -o json       print the cells as JSON; progress goes to the standard error
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.bench.fault_jobs import EVERY, MANY, SURVIVORS, WAYS, FaultError, Job, until
from tests.kube import cluster as kube
from tests.kube import faults as control_plane
from tests.kube.api import ApiError
from tests.kube.binaries import REPO

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.kube.cluster import Cluster

GUIDE = REPO / "docs/guides/faults.md"
BEGIN, END = "<!-- make bench-faults: begin -->", "<!-- make bench-faults: end -->"
OUTAGE = 20.0
_AT = 15  # of EVERY: how many steps since the last save
_PAUSE = 2.0  # a longer one between two steps is the fault's, and no busy machine's
_SETTLE = 15.0  # for a fault to show
_PATIENCE, _FROZEN_PATIENCE, _MANY_PATIENCE = 90.0, 45.0, 240.0


def _delete(job: Job, pod: str, grace: int | None = None) -> None:
    job.lab.delete("pods", pod, grace)


def _lose_node(job: Job) -> None:
    subprocess.run((*job.link(), "down"), check=True)
    _delete(job, job.victim, 0)


def _cut_network(job: Job) -> None:
    link = job.link()
    subprocess.run((*link, "down"), check=True)
    # Of a pod that has gone meanwhile there is no link any more.
    up = threading.Timer(OUTAGE, subprocess.run, ((*link, "up"),), {"capture_output": True})
    up.daemon = True
    up.start()


def _evict_most(job: Job) -> None:
    for pod in job.many:
        job.lab.evict(pod)


@dataclass(frozen=True, slots=True)
class Fault:
    """What goes wrong.

    Attributes:
        title: how the table calls it.
        act: does it; None is what meets the whole cluster.
        outage: for how many seconds it lasts.
        patience: how long it is waited for the next step.
    """

    title: str
    act: Callable[[Job], object] | None
    outage: float = 0.0
    patience: float = _PATIENCE


# Those that leave the pods alone come first: the next one meets the same job.
FAULTS = {
    "api-down": Fault("API server down for 20 s", None, OUTAGE),
    "network-cut": Fault("network cut for 20 s", _cut_network, OUTAGE),
    "killed": Fault("rank killed", lambda job: os.kill(job.process(), signal.SIGKILL)),
    "oom": Fault("out of memory", Job.ask_to_fill_memory),
    "frozen": Fault(
        "rank frozen",
        lambda job: os.kill(job.process(), signal.SIGSTOP),
        patience=_FROZEN_PATIENCE,
    ),
    "deleted": Fault("pod deleted", lambda job: _delete(job, job.victim)),
    "node-lost": Fault("node lost", _lose_node),
    "rank0-lost": Fault("rank 0's pod lost", lambda job: _delete(job, job.lead, 0)),
    "evicted": Fault("rank 0's pod evicted, with grace", lambda job: job.lab.evict(job.lead)),
    "many-evicted": Fault(
        f"{MANY - SURVIVORS} of {MANY} pods evicted", _evict_most, patience=_MANY_PATIENCE
    ),
}
ORDER = (
    *("deleted", "many-evicted", "node-lost", "rank0-lost", "killed", "frozen", "oom"),
    *("network-cut", "api-down", "evicted"),
)
# torch is loaded once by each pod, which takes two cores minutes.
WITHOUT_MANY = {"elastic", "spares", "servers"}


@dataclass(frozen=True, slots=True)
class Cell:
    """What a fault did to a job.

    Attributes:
        fault: its name.
        way: the job's.
        seconds: to the next step; 0 where no step was late, None where none came.
        lost: steps.
        note: why there is no number.
    """

    fault: str
    way: str
    seconds: float | None
    lost: int | None
    note: str = ""

    @property
    def text(self) -> str:
        """As the table shows it."""
        if self.seconds is None:
            return self.note
        return f"{self.seconds:.0f} s, {self.lost}" if self.seconds else "not disturbed"


def measure(job: Job, name: str, way: str) -> Cell:
    """Do a fault to a job, and see what comes of it."""
    fault = FAULTS[name]
    until(lambda: _AT <= _step(job) % EVERY <= _AT + 2, "steps", 60)
    began = time.time()
    if fault.act is not None:
        fault.act(job)
    return follow(job, name, way, began)


def follow(job: Job, name: str, way: str, began: float) -> Cell:
    """The cell of a fault that began at a time."""
    fault = FAULTS[name]
    deadline = began + fault.outage + fault.patience
    settled = began + fault.outage + _SETTLE
    while True:
        lines = job.steps()
        cell = verdict(lines, began, name, way)
        if cell is not None:
            return cell
        now = time.time()
        if now > settled and now - lines[-1]["at"] < _PAUSE and "step" in lines[-1]:
            return Cell(name, way, 0.0, 0)
        if now > deadline:
            return Cell(name, way, None, None, f"did not go on in {deadline - began:.0f} s")
        time.sleep(0.1)


def verdict(lines: list[dict[str, Any]], began: float, name: str, way: str) -> Cell | None:
    """The cell, from what rank 0 has written down; None as long as training has not gone on.

    Args:
        lines: its starts and its steps, in order of time.
        began: when the fault was.
        name: the fault's.
        way: the job's.
    """
    reached, last_at, restart = 0, began, None
    for line in lines:
        if "start" in line:
            if line["at"] > began and restart is None:
                restart = line["start"]
            continue
        if line["at"] > began:
            if restart is not None:
                return Cell(name, way, line["at"] - began, max(0, reached - restart))
            if line["at"] - last_at > _PAUSE:
                return Cell(name, way, line["at"] - began, 0)
            last_at = line["at"]
        reached = line["step"]
    return None


def _step(job: Job) -> int:
    """The last step of rank 0, where it is no older than a moment."""
    line = job.steps()[-1]
    return int(line.get("step", 0)) if time.time() - line["at"] < 0.5 else 0


class Bench:
    """All cells."""

    def __init__(self, faults: list[str], ways: list[str], keep: str) -> None:
        self._faults, self._ways = faults, ways
        self._keep = Path(keep) if keep else None
        self._lock = threading.Lock()
        self._about: dict[str, Any] = {
            "date": dt.datetime.now(tz=dt.UTC).date().isoformat(),
            "cores": os.cpu_count() or 1,
            "loads": [],  # before each run that has cells here
        }
        self.cells: dict[tuple[str, str], Cell] = {}
        if self._keep is not None and self._keep.exists():
            self._about = json.loads(self._keep.read_text(encoding="utf-8"))
            for words in self._about.pop("cells"):
                self.cells[words["fault"], words["way"]] = Cell(**words)

    def run(self, cluster: Cluster) -> None:
        """Measure them. What needs no framework runs beside what does, and costs it little."""
        self._cluster = cluster
        self._about["loads"].append(round(os.getloadavg()[0], 1))
        if "api-down" in self._faults:
            self._stop_api_server()
        light = [way for way in self._ways if WAYS[way].group != "gloo"]
        heavy = [way for way in self._ways if WAYS[way].group == "gloo"]
        lanes = [threading.Thread(target=self._lane, args=(lane,)) for lane in (light, heavy)]
        for lane in lanes:
            lane.start()
        for lane in lanes:
            lane.join()
        if "many-evicted" in self._faults:
            for way in self._ways:
                self._evict_most(way)

    def _note(self, cell: Cell) -> None:
        with self._lock:
            self.cells[cell.fault, cell.way] = cell
            print(
                f"{FAULTS[cell.fault].title}, {WAYS[cell.way].title}: {cell.text}", file=sys.stderr
            )
            if self._keep is not None:
                self._keep.write_text(json.dumps(self.data()), encoding="utf-8")

    def _fail(self, fault: str, way: str, error: Exception) -> None:
        print(f"{fault}, {way}: {error}", file=sys.stderr)
        self._note(Cell(fault, way, None, None, "failed: " + str(error).split("\n")[0][:60]))

    def _stop_api_server(self) -> None:
        """All ways at once: nothing is started meanwhile, so that none slows another."""
        jobs = {}
        for way in self._ways:
            try:
                jobs[way] = Job(self._cluster, WAYS[way])
            except (FaultError, ApiError, OSError) as error:
                self._fail("api-down", way, error)
        began = time.time()
        with control_plane.paused(self._cluster, "kube-apiserver"):
            threading.Event().wait(OUTAGE)
        for way, job in jobs.items():
            self._note(follow(job, "api-down", way, began))
        for job in jobs.values():
            job.delete()

    def _lane(self, ways: list[str]) -> None:
        """Some ways, one after the other."""
        faults = [name for name in self._faults if name not in {"api-down", "many-evicted"}]
        for way in ways:
            job = None
            for fault in faults:
                try:
                    if job is None:
                        job = Job(self._cluster, WAYS[way])
                    cell = measure(job, fault, way)
                    self._note(cell)
                    if cell.seconds is not None and job.is_as_new:
                        continue
                except (FaultError, ApiError, OSError, LookupError, StopIteration) as error:
                    self._fail(fault, way, error)
                    if job is None:  # it does not start, and would not for the next fault
                        break
                job.delete()
                job = None
            if job is not None:
                job.delete()

    def _evict_most(self, way: str) -> None:
        if way in WITHOUT_MANY:
            self._note(Cell("many-evicted", way, None, None, "-"))
            return
        try:
            job = Job(self._cluster, WAYS[way], many=True)
        except (FaultError, ApiError, OSError) as error:
            self._fail("many-evicted", way, error)
            return
        try:
            self._note(measure(job, "many-evicted", way))
        except (FaultError, ApiError, OSError, LookupError) as error:
            self._fail("many-evicted", way, error)
        finally:
            job.delete()

    def data(self) -> dict[str, Any]:
        """All of it, for programs."""
        return {**self._about, "cells": [asdict(cell) for cell in self.cells.values()]}

    def table(self) -> str:
        """The cells as Markdown, with what they are of."""
        day, cores, loads = self._about["date"], self._about["cores"], self._about["loads"]
        worst = max(loads, default=0)
        state = "quiet" if worst < cores / 2 else f"busy with other work (a load of {worst:.0f})"
        if len(loads) > 1:
            state += f", in {len(loads)} runs, which do not compare where the load was another"
        rows = [
            f"{day}, {cores} cores, {state}, each fault once:",
            "",
            f"| | {' | '.join(way.title for way in WAYS.values())} |",
            f"| --- {'| --- ' * len(WAYS)}|",
        ]
        for fault in ORDER:
            texts = [
                self.cells[fault, way].text
                if (fault, way) in self.cells
                else "-"
                if fault == "many-evicted" and way in WITHOUT_MANY
                else "not measured"
                for way in WAYS
            ]
            rows.append(f"| {FAULTS[fault].title} | {' | '.join(texts)} |")
        return "\n".join(rows)


def main() -> int:
    """Measure, print, and write what is asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--fault", action="append", choices=list(FAULTS), help="only this one")
    parser.add_argument("--way", action="append", choices=list(WAYS), help="only this one")
    parser.add_argument("--write", action="store_true", help=f"write {GUIDE.name}")
    parser.add_argument("--keep", default="", help="a file of cells, read and written")
    parser.add_argument("--no-run", action="store_true", help="measure nothing, show what is kept")
    parser.add_argument("-o", "--output", choices=["table", "json"], default="table")
    arguments = parser.parse_args()
    began = time.monotonic()
    faults = [name for name in FAULTS if name in (arguments.fault or FAULTS)]
    ways = [name for name in WAYS if name in (arguments.way or WAYS)]
    bench = Bench(faults, ways, arguments.keep)
    if not arguments.no_run:
        with kube.start(name="bench-faults", node=True) as cluster:
            bench.run(cluster)
        print(f"in {time.monotonic() - began:.0f} s", file=sys.stderr)
    text = bench.table()
    print(json.dumps(bench.data(), indent=2) if arguments.output == "json" else text)
    if arguments.write:
        guide = GUIDE.read_text(encoding="utf-8")
        head, _, rest = guide.partition(BEGIN)
        GUIDE.write_text(f"{head}{BEGIN}\n{text}\n{END}{rest.partition(END)[2]}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
