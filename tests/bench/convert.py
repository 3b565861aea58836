"""How long it takes to make values files of 1,000 manifests.

    make bench-convert    or    .venv/bin/python -m tests.bench.convert [--runs N]

They are our own samples, each under many names, in one file; `allranks convert` reads them,
converts them, checks what comes out, and writes a file for each. The best of all runs counts. The
exit code is 1 where the goal is missed.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.fuzz import manifests

GOAL = 10.0  # seconds
COUNT = 1000
PROGRAM = Path(sys.executable).parent / "allranks"


def main() -> int:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        jobs = [base for base in manifests.bases() if "Queue" not in base["kind"]]
        documents = [json.dumps(runtime.data) for runtime in manifests.runtimes()]
        for number, base in zip(range(COUNT), itertools.cycle(jobs), strict=False):
            manifest = copy.deepcopy(base)
            manifest["metadata"]["name"] = f"job-{number}"
            documents.append(json.dumps(manifest))
        (folder / "jobs.yaml").write_text("\n---\n".join(documents), encoding="utf-8")
        seconds = []
        for run in range(runs):
            began = time.perf_counter()
            output = folder / f"out-{run}"
            words = (PROGRAM, "convert", folder / "jobs.yaml", "-o", output, "--lossy")
            subprocess.run(words, check=True, capture_output=True)
            seconds.append(time.perf_counter() - began)
        written = len(list((folder / "out-0").iterdir()))
    best = min(seconds)
    print(
        f"{written} manifests: {best:.1f} s, {best / COUNT * 1000:.1f} ms each (goal {GOAL:.0f} s)"
    )
    return 0 if best <= GOAL and written == COUNT else 1


if __name__ == "__main__":
    sys.exit(main())
