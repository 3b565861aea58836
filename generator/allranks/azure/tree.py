"""The files of a folder that is uploaded, in an order that is the same each time."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from allranks.azure import upload
from allranks.errors import PROBLEMS_MAX, InputError, InvalidValues, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allranks.azure.upload import Destination


@dataclass(frozen=True, slots=True)
class Stamp:
    """The size and times by which a change of a file is noticed.

    Attributes:
        size: its bytes.
        modified: when it was changed last, in nanoseconds.
        inode: which file it is.
    """

    size: int
    modified: int
    inode: int

    @classmethod
    def of(cls, status: os.stat_result) -> Stamp:
        """The stamp of a file's status."""
        return cls(status.st_size, status.st_mtime_ns, status.st_ino)


@dataclass(frozen=True, slots=True)
class UploadFile:
    """A file to send.

    Attributes:
        name: its name in its folder.
        stamp: as it was when the folder was read.
    """

    name: str
    stamp: Stamp


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder with its own files.

    Attributes:
        path: below the root; "" is the root.
        files: its files.
        folders: the names of the folders in it.
    """

    path: str
    files: tuple[UploadFile, ...]
    folders: tuple[str, ...]

    def name(self, entry: str) -> str:
        """The path of something in it."""
        return f"{self.path}/{entry}" if self.path else entry


@dataclass(slots=True)
class Extent:
    """The extent of an upload: files, bytes and folders.

    Attributes:
        files: how many.
        size: their bytes.
        folders: how many folders.
        folder_links: links to folders, whose files are sent by their own names alone.
    """

    files: int = 0
    size: int = 0
    folders: int = 0
    folder_links: list[str] = field(default_factory=list)


class UploadSource:
    """A folder, or one file, on this machine.

    A link to a file in the folder is sent as the file: neither a share nor a blob is a link. One to
    a folder in it is left out, since those files are sent anyway. One that leads out is refused.
    """

    def __init__(self, source: str) -> None:
        path = Path(source)
        try:
            status = path.stat()
        except OSError as error:
            raise InputError(
                f"{source!r} cannot be read: {(error.strerror or 'no such file').lower()}",
                path="SOURCE",
                hint="name a folder or a file of this machine",
            ) from error
        if not (stat.S_ISDIR(status.st_mode) or stat.S_ISREG(status.st_mode)):
            raise InputError(
                f"{source!r} is neither a folder nor a file", path="SOURCE", hint="name one of them"
            )
        self._single = "" if stat.S_ISDIR(status.st_mode) else path.name
        self.root = os.path.realpath(path.parent if self._single else path)
        self._real = self.root.rstrip("/") + "/"

    def file(self, name: str) -> str:
        """The path on this machine of a file below the root."""
        return f"{self._real}{name}"

    def check(self, destination: Destination) -> Extent:
        """Look at all of it before anything is sent.

        Args:
            destination: whose rules the names keep.

        Raises:
            InvalidValues: something in it cannot be sent.
        """
        extent = Extent()
        problems: list[Problem] = []
        share = destination.place is upload.StorageKind.SHARE
        for folder in self.folders(problems, extent.folder_links):
            extent.folders += 1
            extent.files += len(folder.files)
            extent.size += sum(entry.stamp.size for entry in folder.files)
            names = [*folder.folders, *(entry.name for entry in folder.files)]
            problems += upload.check_names(destination, map(folder.name, names)) if names else ()
            if share:
                problems += _same_but_for_case(folder, names)
            if len(problems) >= PROBLEMS_MAX:
                break
        if problems:
            raise InvalidValues(problems[:PROBLEMS_MAX])
        return extent

    def folders(
        self, problems: list[Problem] | None = None, folder_links: list[str] | None = None
    ) -> Iterator[Folder]:
        """All folders, each before those that are in it.

        Args:
            problems: gets what cannot be sent.
            folder_links: gets the links to folders.
        """
        problems = [] if problems is None else problems
        folder_links = [] if folder_links is None else folder_links
        if self._single:
            entry = UploadFile(self._single, Stamp.of(Path(self.file(self._single)).stat()))
            yield Folder("", (entry,), ())
            return
        stack = [""]
        while stack:
            folder = self._folder(stack.pop(), problems, folder_links)
            yield folder
            stack += [folder.name(name) for name in reversed(folder.folders)]

    def _folder(self, path: str, problems: list[Problem], folder_links: list[str]) -> Folder:
        files: list[UploadFile] = []
        folders: list[str] = []
        try:
            with os.scandir(self.file(path)) as entries:
                for entry in sorted(entries, key=lambda entry: entry.name):
                    name = f"{path}/{entry.name}" if path else entry.name
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.name)
                        continue
                    problem = self._problem(name, entry, folder_links)
                    if problem is not None:
                        problems.append(problem)
                    elif entry.is_file():
                        files.append(UploadFile(entry.name, Stamp.of(entry.stat())))
        except OSError as error:
            problems.append(
                Problem(
                    path or ".", f"cannot be read: {error.strerror}", "get the right to read it"
                )
            )
        return Folder(path, tuple(files), tuple(folders))

    def _problem(
        self, name: str, entry: os.DirEntry[str], folder_links: list[str]
    ) -> Problem | None:
        """The reason why a file or a link cannot be sent."""
        if entry.is_symlink():
            target = os.path.realpath(entry.path)
            if not f"{target}/".startswith(self._real):
                return Problem(
                    name,
                    f"is a link out of the folder, to {target}",
                    "put what it leads to in its place, or remove it",
                )
            if not os.path.lexists(target):
                return Problem(name, "is a link to nothing", "remove it")
            if entry.is_dir():
                folder_links.append(name)
                return None
        if not entry.is_file():
            return Problem(name, "is no file, but a pipe, a socket or a device", "move it out")
        if not os.access(entry.path, os.R_OK):
            return Problem(name, "cannot be read", "get the right to read it, or move it out")
        return None


def _same_but_for_case(folder: Folder, names: list[str]) -> Iterator[Problem]:
    folded: dict[str, str] = {}
    for name in names:
        other = folded.setdefault(name.casefold(), name)
        if other != name:
            yield Problem(
                folder.name(name),
                f"is {other} to a file share, which knows no case",
                "rename one of them, or send them as blobs",
            )
