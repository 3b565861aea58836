"""Is the rank that failed first the one that every pod names, however often it is asked?

    make blame    or    .venv/bin/python -m tests.bench.blame [--runs 50] [--only N,N] [--at-once 2]

Each of the situations in tests/local/blaming.py is run so often, as a job of two nodes with two
processes. A run counts where both pods end with the exit code of the rank that failed first, and
both termination messages name it. Ends with 1 where one does not; its logs are then kept.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.local import blaming


def _start(index: int, folder: Path, seed: int) -> int:
    pid = os.fork()
    if pid:
        return pid
    wrong = "the harness failed"
    try:
        folder.mkdir()
        wrong = blaming.run(blaming.SITUATIONS[index], folder, seed)
        (folder / "wrong").write_text(wrong)
    finally:
        os._exit(1 if wrong else 0)


def main() -> int:
    """Run them all, and print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--first", type=int, default=0, help="number of the first run: its seed")
    parser.add_argument("--only", default="", help="numbers of situations, from 1")
    parser.add_argument("--at-once", type=int, default=2)
    options = parser.parse_args()
    numbers = [int(word) - 1 for word in options.only.split(",") if word]
    indexes = numbers or range(len(blaming.SITUATIONS))
    folder = Path(tempfile.mkdtemp(prefix="allranks-blame-"))
    waiting = [
        (index, run)
        for run in range(options.first, options.first + options.runs)
        for index in indexes
    ]
    running: dict[int, tuple[int, int, Path]] = {}
    right: Counter[int] = Counter()
    failed = 0
    while waiting or running:
        while waiting and len(running) < options.at_once:
            index, run = waiting.pop(0)
            place = folder / f"{index + 1}-{run}"
            pid = _start(index, place, run * len(blaming.SITUATIONS) + index)
            running[pid] = (index, run, place)
        pid, status = os.wait()
        index, run, place = running.pop(pid)
        if os.waitstatus_to_exitcode(status):
            failed += 1
            path = place / "wrong"
            words = path.read_text() if path.exists() else "no result"
            print(f"wrong: situation {index + 1}, run {run}: {words}\n  {place}", flush=True)
        else:
            right[index] += 1
            shutil.rmtree(place)
    for index in indexes:
        name, how = blaming.SITUATIONS[index].name, blaming.SITUATIONS[index].how
        print(f"{right[index]:4} of {options.runs}  {index + 1:2}. {name} ({how})")
    print(f"{sum(right.values())} of {options.runs * len(indexes)} right")
    if not failed:
        shutil.rmtree(folder)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
