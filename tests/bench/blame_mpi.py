"""Is the rank that failed first the one that an MPI job's launcher names, with each MPI?

    make blame-mpi    or    .venv/bin/python -m tests.bench.blame_mpi [--runs 10] [--only N,N]
                            [--mpi openmpi4,openmpi5,mpich,intel]

Each of the situations in tests/local/mpi/blaming.py is run so often with each MPI, on two pods made
of namespaces (which needs root). A run counts where the launcher ends with the exit code of the
rank that failed first, and its termination message names it. Ends with 1 where one does not.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections import Counter

from tests.local.mpi import blaming, implementations


def _measure(family: str, indexes: list[int], runs: range) -> int:
    """Run the situations with an MPI, print what came of it, and return how many were right."""
    right: Counter[int] = Counter()
    seconds = dict.fromkeys(indexes, 0.0)
    job = blaming.make_lab(family)
    try:
        for run in runs:
            for index in indexes:
                began = time.monotonic()
                seed = run * len(blaming.SITUATIONS) + index
                wrong = blaming.run(job, blaming.SITUATIONS[index], seed)
                seconds[index] += time.monotonic() - began
                right[index] += not wrong
                if wrong:
                    print(f"wrong: {family}, situation {index + 1}, run {run}: {wrong}", flush=True)
                    log = job.pods["job-launcher-0"].folder / "log"
                    shutil.copy(log, f"{job.folder}-{family}-{index + 1}-{run}.log")
    finally:
        job.close()
        shutil.rmtree(job.folder, ignore_errors=True)
    for index in indexes:
        name, how = blaming.SITUATIONS[index].name, blaming.SITUATIONS[index].how
        mean = f"{seconds[index] / len(runs):.1f} s"
        count = f"{right[index]:4} of {len(runs)}"
        print(f"{count}  {family:9} {index + 1:2}. {name} ({how}), {mean}")
    total = sum(right.values())
    print(f"{family}: {total} of {len(runs) * len(indexes)} right", flush=True)
    return total


def main() -> int:
    """Run them all, and print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="number of the first run: its seed")
    parser.add_argument("--only", default="", help="numbers of situations, from 1")
    parser.add_argument("--mpi", default=",".join(implementations.FAMILIES))
    options = parser.parse_args()
    numbers = [int(word) - 1 for word in options.only.split(",") if word]
    indexes = numbers or list(range(len(blaming.SITUATIONS)))
    runs = range(options.first, options.first + options.runs)
    families = options.mpi.split(",")
    right = sum(_measure(family, indexes, runs) for family in families)
    total = len(runs) * len(indexes) * len(families)
    print(f"{right} of {total} right")
    return 0 if right == total else 1


if __name__ == "__main__":
    sys.exit(main())
