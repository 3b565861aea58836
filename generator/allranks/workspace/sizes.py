"""What takes most of a workspace, so that a person sees what to leave out of it.

Pure: paths and their sizes in, the largest and sentences about them out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from allranks.humanize import list_some, plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from allranks.workspace.model import SnapshotEntry

LARGEST = 10


@dataclass(frozen=True, slots=True)
class Sized:
    """A file or a folder, and what it takes.

    Attributes:
        path: below the workspace; with a slash at its end where it is a folder.
        size: bytes before they are packed; of a folder, of all that is below it.
        files: how many files that is.
    """

    path: str
    size: int
    files: int = 1

    def __str__(self) -> str:
        """Its path, and what it takes."""
        count = f" in {plural(self.files, 'file')}" if self.path.endswith("/") else ""
        return f"{self.path} ({self.size:,} bytes{count})"


def files_of(entries: Iterable[SnapshotEntry]) -> list[Sized]:
    """The files of a snapshot."""
    return [Sized(entry.path, entry.size) for entry in entries if entry.kind == "file"]


def largest_files(files: Iterable[Sized], most: int = LARGEST) -> tuple[Sized, ...]:
    """The largest files, the largest first."""
    return tuple(sorted(files, key=lambda file: (-file.size, file.path))[:most])


def largest_folders(files: Iterable[Sized], most: int = LARGEST) -> tuple[Sized, ...]:
    """The folders with most in them, at any depth, the fullest first."""
    return tuple(_folders(files)[:most])


def words(files: Sequence[Sized]) -> str:
    """The ten largest files and folders, as the end of a sentence."""
    text = f"; the largest files: {list_some([*map(str, largest_files(files))], LARGEST)}"
    folders = largest_folders(files)
    if folders:
        text += f"; the largest folders: {list_some([*map(str, folders)], LARGEST)}"
    return text


def exclusion(files: Sequence[Sized]) -> str:
    """The lines to write into .allranksignore: the largest folders, whose files may be no code."""
    total = sum(file.size for file in files)
    half = [folder for folder in _folders(files) if 2 * folder.size >= total]
    # The innermost of them: what is above it holds the code as well.
    largest = half[-1:] or largest_files(files, 1)
    example = f", as with the line `/{largest[0].path}`" if largest else ""
    return f"exclude in .allranksignore what is no code{example}"


def _folders(files: Iterable[Sized]) -> list[Sized]:
    """All folders, the fullest first, and the outer one first of two that hold the same."""
    sizes: dict[str, list[int]] = {}
    for file in files:
        for end, char in enumerate(file.path):
            if char == "/":
                total = sizes.setdefault(file.path[: end + 1], [0, 0])
                total[0] += file.size
                total[1] += 1
    ordered = sorted(sizes.items(), key=lambda item: (-item[1][0], item[0]))
    return [Sized(path, size, count) for path, (size, count) in ordered]
