"""`python -m tests.side_by_side SCRIPTS`: batch scripts beside their pods, and what differs.

SCRIPTS are batch scripts of Slurm's, and folders of them, which are fetched for this and never kept
in the repository. Exit code 0 where nothing differs without a word in the report of `allranks
convert`, 1 where something does, 2 where the input is wrong or this machine lets no sandbox be.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import track

from allranks.convert.slurm import job
from allranks.errors import EXIT_FAILED, EXIT_INPUT, EXIT_INTERRUPTED, EXIT_OK
from allranks.helm.binary import inspect
from tests.conftest import find_helm
from tests.side_by_side import report, sandbox
from tests.side_by_side.comparison import compare
from tests.side_by_side.sandbox import SandboxError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.side_by_side.comparison import Comparison


def main(words: Sequence[str] | None = None) -> int:
    """Run the scripts that the command line names, each beside its pods."""
    arguments = _arguments(words)
    try:
        sandbox.check()
        scripts = _scripts(arguments.scripts)
    except SandboxError as error:
        return _refuse(str(error))
    except OSError as error:
        return _refuse(f"{error.filename} cannot be read: {error.strerror}")
    if not scripts:
        return _refuse(f"there is no batch script in {' '.join(map(str, arguments.scripts))}")
    try:
        comparisons = _compare_all(scripts, arguments.jobs)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    if arguments.output == "json":
        print(json.dumps(report.as_data(comparisons), indent=2))
    else:
        print("\n".join(report.table(comparisons)))
    return EXIT_FAILED if any(comparison.silent for comparison in comparisons) else EXIT_OK


def _arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.side_by_side", description=__doc__)
    parser.add_argument("scripts", nargs="+", type=Path, metavar="SCRIPTS")
    parser.add_argument("-o", dest="output", choices=["json"], help="print JSON and no table")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="scripts at a time")
    return parser.parse_args(words)


def _refuse(sentence: str) -> int:
    print(f"error: {sentence}", file=sys.stderr)
    return EXIT_INPUT


def _scripts(paths: Sequence[Path]) -> list[Path]:
    """The batch scripts among files, and in folders and what is below them.

    Raises:
        OSError: a path is not there, or cannot be read.
    """
    scripts = []
    for path in paths:
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        scripts += [file for file in files if file.is_file() or file == path]
    return [script for script in scripts if job.is_script(script.read_bytes())]


def _compare_all(scripts: Sequence[Path], jobs: int) -> list[Comparison]:
    helm = inspect(find_helm(4).path)
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        results = pool.imap(partial(compare, helm=helm), scripts)
        console = Console(stderr=True)
        shown = track(
            results, "side by side", len(scripts), console=console, disable=not console.is_terminal
        )
        return list(shown)


if __name__ == "__main__":
    sys.exit(main())
