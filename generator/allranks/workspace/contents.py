"""What of a workspace is sent, asked for a path: before anything is packed, or read.

A conversion of a batch script asks it which of the script's data a pod would not find.
"""

from __future__ import annotations

import stat
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from allranks.errors import AllranksError
from allranks.workspace import git, ignore

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Contents:
    """The paths of a workspace, and which of them stay out.

    Attributes:
        paths: files and folders that are sent, below the workspace; without links, whose targets
            nobody has looked at.
        rules: what stays out, and the rule that keeps it out as a person finds it:
            ``{"data": ".gitignore:3 data/"}``. What lies in such a folder is not listed.
    """

    paths: frozenset[str] = frozenset()
    rules: Mapping[str, str] = field(default_factory=dict)

    def has(self, path: str) -> bool:
        """Whether a file or a folder is sent.

        Args:
            path: its path below the workspace, without ``.`` and ``..`` in it.
        """
        return path in self.paths

    def rule(self, path: str) -> str:
        """The rule of a person's that keeps a path out, or a folder it lies in; "" for none.

        Args:
            path: its path below the workspace, without ``.`` and ``..`` in it.
        """
        rules = (self.rules.get(own, "") for own in _with_parents(path))
        return next((rule for rule in rules if rule and not rule.startswith(ignore.DEFAULT)), "")

    def ignored(self) -> list[str]:
        """What stays out by a person's rules, as they would type it, sorted."""
        return sorted(
            path for path, rule in self.rules.items() if not rule.startswith(ignore.DEFAULT)
        )


def of(folder: Path, include: Sequence[str] = ()) -> Contents | None:
    """What is sent of a folder; None where it is no project of git's, or cannot be looked through.

    Args:
        folder: the folder.
        include: paths below it that go whatever a rule says.
    """
    try:
        root = folder.resolve(strict=True)
        if git.work_tree(root) is None:
            return None
        with ExitStack() as stack:
            tree = ignore.walk(root, include, stack)
    except (AllranksError, OSError):
        return None  # who sends the folder is told why
    links = {item.path for item in tree.paths if _is_link(item)}
    return Contents(
        frozenset(item.path for item in tree.paths) - links,
        {excluded.path.rstrip("/"): excluded.rule for excluded in tree.excluded},
    )


def _is_link(item: ignore.Item) -> bool:
    return stat.S_ISLNK(item.status.st_mode)


def _with_parents(path: str) -> Iterator[str]:
    """A path, and each folder that it lies in."""
    while path:
        yield path
        path = path.rpartition("/")[0]
