"""A copy of the repository that a fault can be put into, and pytest in it.

Nothing of the repository itself is written to. By PYTHONPATH, Python finds the copy's packages
before those that are installed; `RepositoryCopy.check_imports` makes sure of it before any test.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tests.mutations.faults import Fault

_PACKAGES = ("generator", "operator")
_PRINT_FILES = """
import allranks, allranks_operator
print(allranks.__file__, allranks_operator.__file__, sep="\\n")
"""
# A fault may have made a loop endless.
_TEST_SECONDS = 120
_PYTEST = ("-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:randomly", "-p", "no:cacheprovider")
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+::.*?)(?: - .*)?$", re.MULTILINE)
_PASSED_CODE, _FAILED_CODE = 0, 1
_END_SECONDS = 10.0


class RunFailedError(Exception):
    """The tests could not be run, or fail without a fault."""


class RepositoryCopy:
    """A copy of a repository's files, as its work tree has them."""

    def __init__(
        self, repository: Path, folder: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        """Copy the files.

        Args:
            repository: the repository's root; what git ignores is left out, but for the tools.
            folder: where the copy is made; empty.
            environment: variables of the tests, besides those of this process.
        """
        self.folder = folder
        paths = os.pathsep.join(str(folder / package) for package in _PACKAGES)
        # CI's property tests look at the same examples each time.
        self._environment = {**os.environ, **(environment or {}), "PYTHONPATH": paths, "CI": "true"}
        self._changes = 0
        listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(listing, cwd=repository, check=True, capture_output=True, text=True)
        for name in filter(None, names.stdout.split("\0")):
            source, target = repository / name, folder / name
            if source.is_symlink() or source.is_file():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target, follow_symlinks=False)
        if (repository / ".tools").exists():
            (folder / ".tools").symlink_to((repository / ".tools").resolve())

    def check_imports(self) -> None:
        """Make sure that Python in the copy imports the copy's packages.

        Raises:
            RunFailedError: it imports others.
        """
        files = self._run("-c", _PRINT_FILES).stdout.splitlines()
        root = self.folder.resolve()
        if not files or not all(Path(file).resolve().is_relative_to(root) for file in files):
            raise RunFailedError(f"the copy in {root} imports {', '.join(files) or 'nothing'}")

    @contextlib.contextmanager
    def with_fault(self, fault: Fault) -> Iterator[None]:
        """Put a fault into the copy, and take it out again.

        Args:
            fault: the fault; what it replaces stands in its file once.
        """
        path = self.folder / fault.file
        text, times = path.read_text(encoding="utf-8"), path.stat()
        if text.count(fault.old) != 1:
            raise RunFailedError(f"{fault.name}: {fault.file} has its old text not exactly once")
        path.write_text(text.replace(fault.old, fault.new), encoding="utf-8")
        # Python knows a compiled file by the second and the size of its source; each fault has a
        # second of its own, in the past of everything that is written now.
        self._changes += 1
        os.utime(path, (times.st_atime, int(times.st_mtime) - self._changes))
        try:
            yield
        finally:
            path.write_text(text, encoding="utf-8")
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))

    def first_failure(self, tests: Sequence[str]) -> str:
        """The first test that fails; "" where all pass.

        Args:
            tests: the paths that pytest is given.

        Raises:
            RunFailedError: pytest itself failed, as with a file that cannot be imported.
        """
        process = self._run(*_PYTEST, f"--timeout={_TEST_SECONDS}", *tests)
        failure = _FAILED.search(process.stdout)
        if process.returncode == _PASSED_CODE:
            return ""
        if process.returncode != _FAILED_CODE or failure is None:
            end = f"{process.stdout}{process.stderr}"[-2000:]
            raise RunFailedError(f"pytest ended with {process.returncode}:\n{end}")
        return failure[1]

    def _run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run Python in the copy, in a session of its own, so that its children end with it."""
        process = subprocess.Popen(
            [sys.executable, *words],
            cwd=self.folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            stdout, stderr = process.communicate()
        finally:
            _end(process)
        return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)


def _end(process: subprocess.Popen[str]) -> None:
    """End a process and what is left of its session."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_END_SECONDS)
