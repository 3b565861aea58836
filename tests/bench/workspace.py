"""How long a snapshot of a workspace takes: 1,000 files and 5 MiB, in a repository of git.

    make bench-workspace    or    .venv/bin/python -m tests.bench.workspace [--runs N]

Take: what goes, its digests, git's rules, the commit; an unchanged folder costs no more than that.
Pack: the archive. The best of all runs counts, so that a busy machine does not speak for the code.
The exit code is 1 where a goal is missed.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from allranks.workspace import archive as archives
from allranks.workspace import snapshot as snapshots

TAKE_GOAL, BOTH_GOAL = 0.2, 0.5
FILES, BYTES = 1000, 5 << 20


def main() -> int:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=7)
    runs = parser.parse_args().runs
    take_seconds, both = [], []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_tree(folder, seed=0)
        git = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b.c"]
        for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "x"]):
            subprocess.run([*git, *words], check=True)
        for _ in range(runs):
            began = time.perf_counter()
            snapshot = snapshots.take(folder)
            take_seconds.append(time.perf_counter() - began)
            archive = archives.pack(snapshot)
            both.append(time.perf_counter() - began)
    print(
        f"{FILES:,} files, {snapshot.size:,} bytes; {len(archive.data):,} as {archive.compression}"
    )
    print(f"{'':<14} {'best':>7} {'goal':>7}")
    print(f"{'take':<14} {min(take_seconds):>6.3f}s {TAKE_GOAL:>6.1f}s")
    print(f"{'take and pack':<14} {min(both):>6.3f}s {BOTH_GOAL:>6.1f}s")
    return int(min(take_seconds) > TAKE_GOAL or min(both) > BOTH_GOAL)


def make_tree(folder: Path, seed: int) -> None:
    """Write files as research code has them; as compressible, and other ones for each seed."""
    source = random.Random(seed)  # noqa: S311 - no secrets, but the same files each time
    words = [f"{source.getrandbits(40):x}" for _ in range(150)]
    for number in range(FILES):
        path = folder / f"package_{number % 40}" / f"module_{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        text = " ".join(source.choices(words, k=BYTES // FILES // 11))
        path.write_text(f"# {text}\n")


if __name__ == "__main__":
    sys.exit(main())
