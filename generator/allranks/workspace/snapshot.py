"""Take a snapshot of a workspace: what goes, with the digest of each file and of the whole.

Nothing is written and nothing is sent. All that is wrong with a workspace is told at once.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import unicodedata
from contextlib import ExitStack
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from allranks.errors import InputError, InvalidValues, Problem
from allranks.humanize import list_some, plural
from allranks.workspace import ignore, secrets, sizes
from allranks.workspace.model import GitRevision, Snapshot, SnapshotEntry

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from allranks.workspace.ignore import Item, Tree
    from allranks.workspace.model import Excluded

# All files together, before they are packed. Above it a workspace holds data, which belongs on
# storage that the pods mount; and it is packed in memory.
BYTES_MAX = 1 << 30
# The difference to the commit is kept up to here.
DIFF_BYTES_MAX = 256 << 10
# Linux takes 4,095 bytes, and the pods put the folder before it that they unpack into.
PATH_BYTES_MAX = 3072
_READ_BYTES = 1 << 20
_EXCLUDE = f"exclude it in {ignore.IGNORE_FILE}"
# A folder, a link and a file as they arrive; git keeps of a mode whether the owner may execute.
MODE_FOLDER, MODE_LINK, MODE_PROGRAM, MODE_FILE = 0o755, 0o777, 0o755, 0o644
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_SPECIAL = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class ChangedError(InputError):
    """A file was changed while it was read."""


def take(folder: Path, *, include: Sequence[str] = ()) -> Snapshot:
    """Take a snapshot of a workspace.

    Args:
        folder: the workspace.
        include: paths, relative to it, that go although they look like secrets or a rule excludes
            them; a folder stands for all that is below it.

    Raises:
        InputError: it is no folder, nothing of it goes, or something that would go cannot; all
            that is wrong is carried at once.
        ToolError: git gives no answer.
    """
    root = _resolve(folder)
    files = [_named(root, text) for text in include]
    with ExitStack() as stack:
        tree = ignore.walk(root, files, stack)
        problems = list(tree.problems)
        _refuse_size(root, tree.paths)
        items = sorted(tree.paths, key=lambda item: item.path)
        reader = _SnapshotReader(root, frozenset(files), problems)
        entries = tuple(entry for item in items if (entry := reader.entry(item)) is not None)
        if problems:
            raise InvalidValues(sorted(problems, key=lambda problem: problem.path))
        excluded = tuple(sorted(tree.excluded, key=lambda path: path.path))
        if not any(entry.kind != "folder" for entry in entries):
            raise _emptiness(root, excluded)
        revision = _revision(tree, entries)
    return Snapshot(root, digest(entries, excluded), entries, excluded, revision)


def digest(entries: Iterable[SnapshotEntry], excluded: Iterable[Excluded]) -> str:
    """The digest of a snapshot: `sha256:` and 64 hex digits.

    Args:
        entries: what goes, sorted by path.
        excluded: what stays out. The rules of a person count by their text; ours are the same
            everywhere, and a cache that appears changes nothing.
    """
    total = hashlib.sha256(b"allranks workspace 1\0")
    for entry in entries:
        words = (entry.kind, f"{entry.mode:o}", entry.digest, entry.path)
        total.update("\0".join((*words, "")).encode())
    rules = {
        path.rule.partition(" ")[2] for path in excluded if not path.rule.startswith(ignore.DEFAULT)
    }
    for rule in sorted(rules):
        total.update(f"rule\0{rule}\0".encode(errors="surrogateescape"))
    return f"sha256:{total.hexdigest()}"


def read_file(path: Path, *, most: int = 0) -> tuple[str, int, bytes | None, os.stat_result]:
    """Read a file that must not change meanwhile.

    Args:
        path: the file; a link is not followed.
        most: so many bytes of it are given back, where it has no more; 0 for all.

    Returns:
        Its SHA-256 in hex, its length, its contents, None where they are more, and what `fstat`
        gave.

    Raises:
        ChangedError: it was written to while it was read.
        OSError: it cannot be read.
    """
    descriptor = os.open(path, _OPEN)
    try:
        before = os.fstat(descriptor)
        if not stat.S_ISREG(before.st_mode):
            raise ChangedError("is no file any more")
        total, size, chunks = hashlib.sha256(), 0, []
        while chunk := os.read(descriptor, min(before.st_size + 1, _READ_BYTES)):
            total.update(chunk)
            size += len(chunk)
            if not most or before.st_size <= most:
                chunks.append(chunk)
            if size > before.st_size:
                break
        after = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    if size != before.st_size or _moment(before) != _moment(after):
        raise ChangedError("has changed while it was read")
    data = b"".join(chunks) if not most or size <= most else None
    return total.hexdigest(), size, data, before


def _moment(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def file_mode(status: os.stat_result) -> int:
    """The mode that a file arrives with."""
    return MODE_PROGRAM if status.st_mode & stat.S_IXUSR else MODE_FILE


class _SnapshotReader:
    """Makes entries of what goes, and gathers what cannot."""

    def __init__(self, root: Path, named: frozenset[str], problems: list[Problem]) -> None:
        self.root = root
        self.named = named
        self.problems = problems

    def entry(self, item: Item) -> SnapshotEntry | None:  # noqa: PLR0911 - one for each kind of file
        """An entry; None where it cannot go, and the problem is noted."""
        wrong = _wrong_name(item.path)
        if wrong:
            self.problems.append(Problem(shown_path(item.path), wrong, f"rename it, or {_EXCLUDE}"))
            return None
        mode = item.status.st_mode
        try:
            if stat.S_ISDIR(mode):
                return SnapshotEntry(item.path, "folder", MODE_FOLDER)
            if stat.S_ISLNK(mode):
                return self._link(item.path)
            if stat.S_ISREG(mode):
                return self._file(item.path)
        except ChangedError as error:
            hint = f"try again when nothing writes to it, or {_EXCLUDE}"
            self.problems.append(Problem(item.path, error.problem.message, hint))
            return None
        except OSError as error:
            self.problems.append(_unreadable(item.path, error))
            return None
        kind = _SPECIAL.get(stat.S_IFMT(mode), "no file")
        self.problems.append(
            Problem(item.path, f"is {kind}; only files, folders and links are sent", _EXCLUDE)
        )
        return None

    def _link(self, path: str) -> SnapshotEntry | None:
        target = os.readlink(self.root / path)  # noqa: PTH115 - to the letter; Path would tidy it
        wrong = _wrong_target(self.root, path, target)
        if wrong:
            hint = f"copy what it leads to into the workspace, or {_EXCLUDE}"
            self.problems.append(Problem(path, wrong, hint))
            return None
        total = hashlib.sha256(target.encode()).hexdigest()
        return SnapshotEntry(path, "link", MODE_LINK, digest=total, target=target)

    def _file(self, path: str) -> SnapshotEntry:
        total, size, data, status = read_file(self.root / path, most=secrets.SCANNED_BYTES_MAX)
        if not self._is_named(path):
            secret = secrets.by_name(path, data)
            if secret is not None:
                self._refuse(path, secret)
            elif data is not None:
                for inside in secrets.by_content(path, data):
                    self._refuse(path, inside)
        return SnapshotEntry(path, "file", file_mode(status), size, total)

    def _refuse(self, path: str, secret: secrets.Secret) -> None:
        where = f"{path}:{secret.line}" if secret.line else path
        verb = "holds what looks like" if secret.line else "looks like"
        self.problems.append(
            Problem(
                where,
                f"{verb} {secret.rule}, and all who may read the namespace could read it",
                f"{_EXCLUDE}, or send it all the same with --include {path}",
            )
        )

    def _is_named(self, path: str) -> bool:
        return any(path == name or path.startswith(f"{name}/") for name in self.named)


def look_alikes(paths: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Pairs of paths that differ only in case, or in how Unicode writes the same letters.

    The file systems of Linux tell them apart; those of macOS and Windows hold one of the two.

    Args:
        paths: all that a folder holds, folders too. Of a pair of folders, what they hold is not
            listed as well.
    """
    first: dict[str, str] = {}
    pairs = []
    for path in sorted(paths):
        other = first.setdefault(_folded(path), path)
        above = path.rpartition("/")[0]
        if other != path and first.get(_folded(above), above) == above:
            pairs.append((other, path))
    return tuple(pairs)


def _folded(path: str) -> str:
    """A path as a file system sees it that does not tell case or normalization apart."""
    if path.isascii():
        return path.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", path).casefold())


def shown_path(path: str) -> str:
    """A path as it can be printed: what is no text is written as an escape."""
    text = os.fsencode(path).decode(errors="backslashreplace")
    return "".join(
        char.encode("unicode_escape").decode() if unicodedata.category(char) == "Cc" else char
        for char in text
    )


def _wrong_name(path: str) -> str:
    """The problem with a path; "" for none."""
    try:
        length = len(path.encode())
    except UnicodeEncodeError:
        return "has a name that is not UTF-8"
    if not path.isprintable() and any(unicodedata.category(char) == "Cc" for char in path):
        return "has a name with a control character in it"
    if length > PATH_BYTES_MAX:
        return f"has a path of {length:,} bytes; at most {PATH_BYTES_MAX:,} can be unpacked"
    return ""


def _wrong_target(root: Path, path: str, target: str) -> str:
    """The problem with the target of a link; "" for none."""
    text = shown_path(target)
    if target.startswith("/"):
        return f"is a link to an absolute path ({text}), which is not there in the pods"
    wrong = _wrong_name(target)
    if wrong:
        return f"is a link to what {wrong}"
    lexical = os.path.normpath(PurePosixPath(path).parent / target)
    real = os.path.realpath(root / path)
    is_out = lexical == ".." or lexical.startswith("../")
    if is_out or not Path(real).is_relative_to(root):
        return f"is a link that leads out of the workspace ({text})"
    return ""


def _resolve(folder: Path) -> Path:
    try:
        root = folder.resolve(strict=True)
        is_folder = root.is_dir()
    except (OSError, RuntimeError, ValueError) as error:
        is_missing = isinstance(error, OSError) and error.errno == errno.ENOENT
        words = "is not there" if is_missing else f"cannot be read: {_words(error)}"
        raise InputError(
            words, path=shown_path(str(folder)), hint="name the folder that your code is in"
        ) from error
    if not is_folder:
        raise InputError(
            "is not a folder",
            path=shown_path(str(folder)),
            hint=f"name the folder that it is in: {shown_path(str(root.parent))}",
        )
    return root


def _words(error: Exception) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)


def _unreadable(path: str, error: OSError) -> Problem:
    if error.errno in (errno.ENOENT, errno.ELOOP):
        hint = f"try again when nothing writes to it, or {_EXCLUDE}"
        return Problem(path, "has changed while it was read", hint)
    return Problem(path, f"cannot be read: {_words(error)}", f"make it readable, or {_EXCLUDE}")


def _named(root: Path, text: str) -> str:
    """A path that a person names, as it is below the workspace."""
    path = os.path.normpath(root / text)
    if path != str(root) and not path.startswith(f"{root}/"):
        raise InputError(
            f"{shown_path(text)} is not in the workspace",
            path="--include",
            hint=f"name a path relative to {root}",
        )
    if path == str(root):
        raise InputError(
            f"{shown_path(text)} is the whole workspace",
            path="--include",
            hint="name the files that are to go although they look like secrets",
        )
    if not os.path.lexists(path):
        raise InputError(
            f"{shown_path(text)} is not there",
            path="--include",
            hint=f"name a path relative to {root}",
        )
    return os.path.relpath(path, root)


def _refuse_size(root: Path, paths: Sequence[Item]) -> None:
    files = [item for item in paths if stat.S_ISREG(item.status.st_mode)]
    size = sum(item.status.st_size for item in files)
    if size <= BYTES_MAX:
        return
    sized = [sizes.Sized(shown_path(item.path), item.status.st_size) for item in files]
    raise InputError(
        f"holds {size:,} bytes that would go, of at most {BYTES_MAX:,}{sizes.words(sized)}",
        path=str(root),
        hint=f"{sizes.exclusion(sized)}, and mount data from storage",
    )


def _emptiness(root: Path, excluded: Sequence[Excluded]) -> InputError:
    if not excluded:
        return InputError("is empty", path=str(root), hint="name the folder that your code is in")
    rules = list(dict.fromkeys(path.rule for path in excluded))
    return InputError(
        f"has nothing that goes: {plural(len(excluded), 'path')} excluded, by {list_some(rules)}",
        path=str(root),
        hint=f"take something in with `!NAME` in {ignore.IGNORE_FILE}, or name another folder",
    )


def _revision(tree: Tree, entries: Sequence[SnapshotEntry]) -> GitRevision | None:
    """The commit that a workspace stands on, and how it differs."""
    repository = tree.repository
    if repository is None:
        return None
    commit, branch = repository.head()
    if not commit:
        return None
    changed = repository.changed()
    untracked = any(
        not item.is_tracked for item in tree.paths if not stat.S_ISDIR(item.status.st_mode)
    )
    going = {entry.path for entry in entries}
    # What stays out of the snapshot stays out of the difference, too.
    paths = [path for path in changed if path in going or not _stays_out(path, tree)]
    diff = repository.diff(paths) if paths else ""
    data = diff.encode(errors="replace")
    if len(data) > DIFF_BYTES_MAX or any(secrets.by_content("diff", data)):
        diff = ""
    return GitRevision(commit, branch, bool(changed) or untracked, diff)


def _stays_out(path: str, tree: Tree) -> bool:
    """Whether a path that is not there, or not sent, must not be shown."""
    if secrets.by_name(path, None) is not None:
        return True
    return any(
        path == excluded.path or (excluded.path.endswith("/") and path.startswith(excluded.path))
        for excluded in tree.excluded
    )
