"""`python -m tests.mutations`: the test that catches each fault; exit code 1 where one survives."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from allranks.errors import EXIT_FAILED, EXIT_INPUT, EXIT_INTERRUPTED, EXIT_OK, EXIT_TERMINATED
from tests.conftest import find_helm
from tests.mutations import faults, readme
from tests.mutations.copies import RepositoryCopy, RunFailedError
from tests.mutations.results import BINARY, SERVER, Result

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.mutations.faults import Fault

REPO = Path(__file__).parents[2]


def main(words: Sequence[str] | None = None) -> int:
    """Try the faults that the command line asks for."""
    arguments = _arguments(words)
    every = faults.read()
    unknown = set(arguments.only) - {fault.name for fault in every}
    if unknown:
        _say(f"error: there is no fault {', '.join(sorted(unknown))}")
        return EXIT_INPUT
    chosen = [fault for fault in every if not arguments.only or fault.name in arguments.only]
    signal.signal(signal.SIGTERM, _terminate)
    start = time.monotonic()
    try:
        results = _try_all(chosen, real_helm=arguments.real_helm)
        if arguments.write:
            templates = [fault for fault in chosen if fault.is_template]
            results += _try_all(templates, real_helm=True)
    except RunFailedError as error:
        _say(f"error: {error}")
        return EXIT_FAILED
    except KeyboardInterrupt:
        _say("interrupted")
        return EXIT_INTERRUPTED
    survivors = [result for result in results if not result.caught_by]
    if arguments.write:
        readme.write(every, results)
    if arguments.output == "json":
        print(json.dumps([asdict(result) for result in results], indent=2))
    else:
        print("\n".join(_table(results)))
    caught, seconds = len(results) - len(survivors), time.monotonic() - start
    _say(f"{caught} of {len(results)} caught in {seconds:.0f} s")
    return EXIT_FAILED if survivors else EXIT_OK


def _arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutations", description=__doc__)
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="these faults alone")
    parser.add_argument("-o", dest="output", choices=["json"], help="print JSON and no table")
    how = parser.add_mutually_exclusive_group()
    how.add_argument(
        "--real-helm",
        action="store_true",
        help="render each chart with the helm binary, and not with the template server",
    )
    how.add_argument(
        "--write",
        action="store_true",
        help="try templates with both, and write the table of tests/mutations/README.md",
    )
    arguments = parser.parse_args(words)
    if arguments.write and arguments.only:
        parser.error("--write is for all faults")
    return arguments


def _try_all(chosen: Sequence[Fault], *, real_helm: bool) -> list[Result]:
    """Try faults one after another, in a copy that is removed at the end."""
    helms = {f"ALLRANKS_TEST_HELM{major}": find_helm(major).path for major in (3, 4)}
    environment = {name: str(path) for name, path in helms.items()} if real_helm else {}
    results = []
    with tempfile.TemporaryDirectory(prefix="allranks-mutations-") as folder:
        copy = RepositoryCopy(REPO, Path(folder), environment)
        copy.check_imports()
        tests = sorted({path for fault in chosen for path in fault.tests})
        _say(f"the tests of {len(chosen)} faults, without any fault")
        failure = copy.first_failure(tests)
        if failure:
            raise RunFailedError(f"without any fault {failure} fails")
        for number, fault in enumerate(chosen, 1):
            start = time.monotonic()
            with copy.with_fault(fault):
                caught_by = copy.first_failure(fault.tests)
            seconds = round(time.monotonic() - start, 1)
            helm = (BINARY if real_helm else SERVER) if fault.is_template else ""
            results.append(Result(fault.area, fault.name, helm, caught_by, seconds))
            end = f"caught by {caught_by}" if caught_by else "SURVIVED"
            _say(f"[{number}/{len(chosen)}] {fault.name}: {end} ({seconds} s)")
    return results


def _table(results: Sequence[Result]) -> list[str]:
    width = max(len(result.name) for result in results)
    return [f"{result.name:{width}}  {result.caught_by or 'survived'}" for result in results]


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _terminate(number: int, frame: object) -> NoReturn:
    """End as with Ctrl-C: children first, then the copy."""
    del number, frame
    raise SystemExit(EXIT_TERMINATED)


if __name__ == "__main__":
    sys.exit(main())
