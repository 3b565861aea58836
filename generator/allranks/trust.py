"""Which files and folders can be believed to be as this user has left them.

On a machine of several people, what stands in a folder that all may write to is anybody's. As with
ssh and sudo, a file is as good as each folder above it, and as each link on the way to it.
"""

from __future__ import annotations

import grp
import os
import pwd
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_LINKS = 40  # as many as the system follows


@dataclass(frozen=True, slots=True)
class Exposure:
    """A permission that lets another user change a file, or put another one in its place.

    Attributes:
        path: a file, a link or a folder on the way to it.
        why: what is wrong with it, as the rest of a sentence about `path`.
        fix: what ends it; "" where only another place does.
        is_theirs: whether what stands there may be another user's already; else it is this user's,
            and others could only take it away.
    """

    path: Path
    why: str
    fix: str = ""
    is_theirs: bool = False


def is_own_file(path: Path) -> bool:
    """Whether a file is this user's or the system's, and nobody else may write to it."""
    try:
        stat_result = path.stat()
    except (OSError, ValueError):
        return False
    is_plain = stat.S_ISREG(stat_result.st_mode) and not stat_result.st_mode & _OTHERS
    return is_plain and stat_result.st_uid in (0, os.geteuid())


def is_own_folder(path: Path) -> bool:
    """Whether a folder is this user's, so that what is in it can be believed.

    The system's own may be used by all. root may use another's, as in a container with a folder of
    the user's mounted, where that one was not made ahead in a folder that all may write to.

    Args:
        path: a folder that is there.
    """
    stat_result, above = path.stat(), path.resolve().parent.stat()
    if stat_result.st_mode & stat.S_IWOTH:
        return False
    if stat_result.st_uid == os.geteuid():
        return True
    if os.geteuid() == 0:
        return not above.st_mode & stat.S_IWOTH
    return stat_result.st_uid == 0


def is_for_all(folder: Path) -> bool:
    """Whether all users may make files in a folder, as in /tmp."""
    try:
        return bool(folder.stat().st_mode & stat.S_IWOTH)
    except OSError:
        return False


def exposures(path: Path) -> Iterator[Exposure]:
    """The permissions that let other users at a file, from the root of the file system down to it.

    Nothing is wrong with a folder that the group may write whose only member is its owner, as many
    systems give each user; nor with one such as /tmp, in which nobody takes away what is another's.
    root may use what is another user's, as in a container with a folder of theirs mounted, but not
    what somebody has made in a folder that all may write to.

    Args:
        path: absolute; what of it is not there yet is nobody's.
    """
    above = 0o755
    for place, stat_result in _way(path):
        is_foreign = stat_result.st_uid not in (0, os.geteuid())
        if is_foreign and above & stat.S_IWOTH:
            yield Exposure(
                place, "is another user's, in a folder that all may write to", is_theirs=True
            )
        elif stat.S_ISREG(stat_result.st_mode):
            yield from _of_file(place, stat_result, is_foreign=is_foreign)
        elif stat.S_ISDIR(stat_result.st_mode):
            yield from _of_folder(place, stat_result, is_foreign=is_foreign)
        if not stat.S_ISLNK(stat_result.st_mode):
            above = stat_result.st_mode


def _of_file(place: Path, stat_result: os.stat_result, *, is_foreign: bool) -> Iterator[Exposure]:
    if is_foreign and os.geteuid() != 0:
        yield Exposure(place, "is another user's file", is_theirs=True)
    elif who := writers(stat_result):
        yield Exposure(place, f"can be written by {who}", f"chmod go-w {place}", is_theirs=True)


def _of_folder(place: Path, stat_result: os.stat_result, *, is_foreign: bool) -> Iterator[Exposure]:
    if is_foreign and os.geteuid() != 0:
        yield Exposure(place, "is another user's folder")
    elif not stat_result.st_mode & stat.S_ISVTX and (who := writers(stat_result)):
        which = "o" if stat_result.st_mode & stat.S_IWOTH else "g"
        yield Exposure(place, f"can be written by {who}", f"chmod {which}-w {place}")


def writers(stat_result: os.stat_result) -> str:
    """The other users who may write something; "" where nobody may."""
    if stat_result.st_mode & stat.S_IWOTH:
        return "all users"
    if stat_result.st_mode & stat.S_IWGRP and not _is_private(
        stat_result.st_gid, stat_result.st_uid
    ):
        return f"the group {_group(stat_result.st_gid)}"
    return ""


def _is_private(group: int, user: int) -> bool:
    """Whether a group is one user's alone, or the system's own."""
    if group == 0:
        return True
    try:
        owner, members = pwd.getpwuid(user), grp.getgrgid(group)
    except KeyError:  # as in a container that knows no names
        return group == user
    is_theirs = owner.pw_gid == group and members.gr_name == owner.pw_name
    return is_theirs and set(members.gr_mem) <= {owner.pw_name}


def _group(group: int) -> str:
    try:
        return grp.getgrgid(group).gr_name
    except KeyError:
        return str(group)


def _way(path: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """The paths that lead to a file, with links and their targets."""
    here, links = Path("/"), 0
    ahead = list(reversed(path.parts[1:]))
    try:
        yield here, here.lstat()
        while ahead:
            name = ahead.pop()
            if name == "..":
                here = here.parent
                continue
            place = here / name
            stat_result = place.lstat()
            yield place, stat_result
            if not stat.S_ISLNK(stat_result.st_mode):
                here = place
                continue
            links += 1
            target = place.readlink()
            if links > _LINKS:
                return
            if target.is_absolute():
                here = Path("/")
            ahead += reversed(target.parts[target.is_absolute() :])
    except (OSError, ValueError):
        return  # it is not there, and neither is what is below it
