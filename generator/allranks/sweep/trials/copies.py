"""The lean copy of a chart that a sweep's releases are made from, in the folder for such files.

It goes with its sweep. A runner that is killed leaves it, so the next one that makes a copy removes
those whose runner is gone: each keeps a lock in its own, which the kernel lets go of.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path

from allranks.helm import lean
from allranks.local import store

_PREFIX = "allranks-chart-"
_LOCK = ".lock"
# What a helm of the killed runner still reads, or a runner has made and not locked yet, is younger.
_AGE_SECONDS = 60.0


class ChartCopy:
    """One copy.

    Attributes:
        chart: its folder.
    """

    def __init__(self, chart: Path) -> None:
        """Make it, and remove those that nobody uses.

        Args:
            chart: the chart's folder.

        Raises:
            OSError: there is no room for it.
        """
        _sweep()
        self._folder = tempfile.TemporaryDirectory(prefix=_PREFIX)
        folder = Path(self._folder.name)
        self._lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        try:
            self.chart = lean.copy(chart, folder)
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        """Remove it; where nobody calls this, it goes when the process ends."""
        self._folder.cleanup()
        os.close(self._lock)


def _sweep() -> None:
    """Remove copies whose runner is gone, of this user's."""
    young = time.time() - _AGE_SECONDS
    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        try:
            found = path.lstat()
            if found.st_uid != os.geteuid() or found.st_mtime > young:
                continue
            if not store.is_locked(path / _LOCK):
                shutil.rmtree(path, ignore_errors=True)
        except OSError:  # another has removed it, or it is none of ours
            continue
