"""Which files and folders can be believed to be as this user has left them.

On a machine of several people, what stands in a folder that all may write to is anybody's.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def is_own_file(path: Path) -> bool:
    """Whether a file is this user's or the system's, and nobody else may write to it."""
    try:
        seen = path.stat()
    except (OSError, ValueError):
        return False
    others = stat.S_IWGRP | stat.S_IWOTH
    is_plain = stat.S_ISREG(seen.st_mode) and not seen.st_mode & others
    return is_plain and seen.st_uid in (0, os.geteuid())


def is_own_folder(path: Path) -> bool:
    """Whether a folder is this user's, so that what is in it can be believed.

    The system's own may be used by all. root may use another's, as in a container with a folder of
    the user's mounted, where that one was not made ahead in a folder that all may write to.

    Args:
        path: a folder that is there.
    """
    seen, above = path.stat(), path.resolve().parent.stat()
    if seen.st_mode & stat.S_IWOTH:
        return False
    if seen.st_uid == os.geteuid():
        return True
    if os.geteuid() == 0:
        return not above.st_mode & stat.S_IWOTH
    return seen.st_uid == 0
