"""`python -m tests.fuzz`: many mutated values files, judged by all; a table, and what differs."""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import sys
import tempfile
import time
from collections import Counter
from functools import partial
from pathlib import Path

from tests.conftest import find_helm
from tests.fuzz import mutations, verdicts


def _judge(seed: int, helm: Path, number: int) -> tuple[int, str, str]:
    """Judge the case of a number; gives its verdicts in short, and a report where they differ."""
    case = mutations.case(seed, number, _bases())
    with tempfile.TemporaryDirectory() as folder:
        verdict = verdicts.judge(case, helm, Path(folder))
    short = f"validate {verdict.validate}, render {verdict.render}, helm {verdict.helm}"
    if not verdict.fault:
        return number, short, ""
    case, verdict = verdicts.minimal(case, helm)
    lines = [f"{verdict.fault}: seed {seed}, case {number}, of {case.base}, with"]
    lines += [f"  {change}" for change in case.changes]
    lines += [f"validate {verdict.validate}: {verdict.message[:600].strip()}"]
    helm_end = verdict.helm_message[-600:].strip()
    lines += [f"helm {verdict.helm}, render {verdict.render}: {helm_end}"]
    return number, short, "\n".join(lines)


_BASES: list[tuple[str, dict[str, object]]] = []


def _bases() -> list[tuple[str, dict[str, object]]]:
    if not _BASES:
        _BASES.extend(mutations.bases())
    return _BASES


def main() -> int:
    """Judge the cases that the command line asks for; 1 where verdicts differ."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--start", type=int, default=0, help="the first case")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    helm = find_helm(4).path
    last = arguments.start + arguments.count - 1
    print(f"seed {arguments.seed}, cases {arguments.start} to {last}", flush=True)
    start, counts, differences = time.monotonic(), Counter[str](), 0
    numbers = range(arguments.start, arguments.start + arguments.count)
    judge = partial(_judge, arguments.seed, helm)
    with multiprocessing.get_context("fork").Pool(arguments.jobs) as pool:
        for number, (_, short, report) in zip(
            itertools.count(1), pool.imap_unordered(judge, numbers, chunksize=4), strict=False
        ):
            counts[short] += 1
            if report:
                differences += 1
                print(f"\n{report}", flush=True)
            if number % 500 == 0:
                print(f"{number} judged, {differences} differ", flush=True)
    print(f"\n{arguments.count} judged in {time.monotonic() - start:.0f} s, {differences} differ")
    for short, count in counts.most_common():
        print(f"{count:7}  {short}")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
