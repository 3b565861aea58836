"""Write files atomically, so that a failure leaves the old content."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import re
import shlex
import stat
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from allranks import atomic
from allranks.errors import FULL, AllranksError, InputError, RunError, unwritable
from allranks.yamlio import load

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


STDOUT = "-"


def write(path: Path, text: str | bytes) -> bool:
    """Write a file atomically; a file with the same content is left as it is.

    ``-`` is standard output. A link is followed, and its target is replaced. The mode and the owner
    of a file that is replaced are kept. A pipe or a device is written to, and not replaced.

    Args:
        path: the file; its folder must be there.
        text: its content.

    Returns:
        Whether the file was written.

    Raises:
        InputError: the path cannot be written to, or its mode says that it can only be read.
        RunError: the disk is full.
    """
    body = text.encode() if isinstance(text, str) else text
    try:
        if str(path) == STDOUT:
            sys.stdout.flush()
            sys.stdout.buffer.write(body)
            sys.stdout.buffer.flush()
            return True
        if path.is_dir():
            raise InputError("is a folder", path=str(path), hint="name a file")
        if _special(path):
            with path.open("wb") as stream:
                stream.write(body)
            return True
        return _replace(Path(os.path.realpath(path)), body)
    except OSError as error:
        raise refusal(error, path) from error


def write_all(texts: Mapping[Path, str]) -> None:
    """Write files as `write` does; none where one of them can only be read.

    Args:
        texts: what each is to have.

    Raises:
        InputError: one cannot be written to.
        RunError: the disk is full.
    """
    for path, text in texts.items():
        try:
            if path.is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            if path.is_file() and path.read_bytes() != text.encode():
                _refuse_read_only(path)
        except OSError as error:
            raise refusal(error, path) from error
    for path, text in texts.items():
        write(path, text)


def is_folder(path: Path) -> bool:
    """Whether a path is a folder; False where nobody may look, too, which `Path.is_dir` raises."""
    try:
        return path.is_dir()
    except OSError:
        return False


def make_folder(path: Path) -> None:
    """Make a folder and those above it, where they are not there.

    Raises:
        InputError: it cannot be made.
        RunError: the disk is full.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise refusal(error, path, "made") from error


def refuse_inputs(files: Iterable[Path], inputs: Iterable[str]) -> None:
    """Refuse to write over what the same command reads.

    Args:
        files: the files that would be written.
        inputs: what is read: files, charts (folders), and ``-``.

    Raises:
        InputError: one of the files is an input, or a part of one.
    """
    places: set[Path] = set()
    for path in (Path(os.path.realpath(name)) for name in inputs if name != STDOUT):
        parts = _PARTS_OF_A_CHART if is_folder(path) else ("",)
        places |= {path / part for part in parts}
    for file in files:
        place = Path(os.path.realpath(file))
        if not places.isdisjoint({place, *place.parents}):
            raise InputError(
                "it is read here, and would be replaced",
                path=str(file),
                hint="name another file or folder",
            )


_PARTS_OF_A_CHART = ("Chart.yaml", "values.yaml", "templates", "charts")


class PartlyWrittenError(RunError):
    """Some of several files were replaced, and then one could not be.

    Attributes:
        written: the files that were.
    """

    def __init__(self, written: list[Path], missing: list[Path], reason: str, hint: str) -> None:
        first, rest = (", ".join(map(str, paths)) for paths in (written, missing))
        super().__init__(
            f"cannot be written: {reason}. Written: {first}. Not written: {rest}",
            path=str(missing[0]),
            hint=f"{hint}; then run the same command again for the rest",
        )
        self.written = tuple(written)


def rewrite(contents: Mapping[Path, tuple[bytes, bytes]]) -> None:
    """Replace the contents of a person's own files, each atomically; modes and owners are kept.

    All are prepared before the first is replaced, so that a folder without rights or a full disk
    leaves every one of them as it was. A link is followed, and its target is replaced.

    Args:
        contents: by file, what it had when it was read, and what it is to have.

    Raises:
        InputError: one has been changed since, or cannot be written to, or its mode says that it
            can only be read; none is written.
        PartlyWrittenError: one cannot be replaced after others were.
        RunError: the disk is full; none is written.
    """
    with contextlib.ExitStack() as stack:
        partials: dict[Path, Path] = {}
        for path, (_, after) in contents.items():
            try:
                _refuse_read_only(path)
                status = os.stat(path)  # noqa: PTH116 - links followed
                real = Path(os.path.realpath(path))
                partials[path] = stack.enter_context(atomic.stage(real, after, like=status))
            except OSError as error:
                raise refusal(error, path) from error
        _refuse_changed(contents)
        written: list[Path] = []
        for path, partial in partials.items():
            try:
                partial.replace(os.path.realpath(path))
            except OSError as error:
                if not written:
                    raise refusal(error, path) from error
                missing = [other for other in contents if other not in written]
                reason = error.strerror or str(error)
                raise PartlyWrittenError(written, missing, reason, fix(error, path)) from error
            written.append(path)


def _refuse_changed(contents: Mapping[Path, tuple[bytes, bytes]]) -> None:
    """Refuse files that do not hold any more what was read.

    Raises:
        InputError: one does not, or cannot be read.
    """
    for path, (before, _) in contents.items():
        try:
            is_same = path.read_bytes() == before
        except OSError as error:
            raise refusal(error, path, "read") from error
        if not is_same:
            raise InputError(
                "has changed since it was read, and nothing is written",
                path=str(path),
                hint="run the same command again",
            )


def fix(error: OSError, path: Path) -> str:
    """Return the fix for a path that cannot be written to.

    Args:
        error: the failure.
        path: the path.
    """
    return unwritable(error.errno, str(path if is_folder(path) else path.parent))


def refusal(error: OSError, path: Path, operation: str = "written") -> AllranksError:
    """Return the error for a path that cannot be written to.

    A wrong path is invalid input; a full disk is a failure.

    Args:
        error: the failure.
        path: the path.
        operation: what cannot be done with it, as a participle.
    """
    kind = RunError if error.errno in FULL else InputError
    message = f"cannot be {operation}: {error.strerror or error}"
    return kind(message, path=str(path), hint=fix(error, path))


def _special(path: Path) -> bool:
    """Whether a path is not a regular file, or is an alias such as ``/dev/stdout``."""
    inside = path.absolute().parts[1:2]
    return inside in (("dev",), ("proc",)) or (path.exists() and not path.is_file())


def _replace(path: Path, body: bytes) -> bool:
    if path.is_symlink():  # the path was resolved, so that these are links in a circle
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    if not path.is_file():
        atomic.write(path, body)
        return True
    if path.read_bytes() == body:
        return False
    _refuse_read_only(path)
    atomic.write(path, body, like=path.stat())
    return True


def _refuse_read_only(path: Path) -> None:
    """Refuse to replace a file that its owner, or this user, may only read.

    To replace a file is to write its folder, so that the system would let it happen; and for root
    `os.access` allows all, so that the mode is looked at as well.

    Raises:
        InputError: it can only be read.
    """
    mode = stat.S_IMODE(path.stat().st_mode)
    if not mode & stat.S_IWUSR or not os.access(path, os.W_OK):
        raise InputError(
            f"it can only be read (its mode is {mode:04o}), and is not replaced",
            path=str(path),
            hint=f"`chmod u+w {shlex.quote(str(path))}` first, if it may be replaced",
        )


@contextlib.contextmanager
def stdout_to(path: Path) -> Iterator[None]:
    """Write what the body prints to a file; nothing is written if the body fails."""
    buffer = io.StringIO()
    with contextlib.redirect_stdout(buffer):
        yield
    write(path, buffer.getvalue())


LIST = ".allranks"
_DOCUMENT = re.compile(r"^---[ \t]*(?:#.*)?\n", re.MULTILINE)
_UNSAFE = re.compile(r"[^a-z0-9.-]+")


@dataclass(frozen=True, slots=True)
class FolderChanges:
    """The changes that a render made to a folder, as file names."""

    written: tuple[str, ...]
    same: tuple[str, ...]
    removed: tuple[str, ...]


def write_folder(target: Path, owner: str, text: str) -> FolderChanges:
    """Write a release's manifests into a folder, and remove its old ones.

    Args:
        target: the folder; it is made where it is missing.
        owner: the release, as namespace/name.
        text: the manifests.

    Raises:
        InputError: the path is not a folder, or a file of someone else is in the way.
    """
    documents = split(text)
    if target.exists() and not target.is_dir():
        raise InputError("is a file, not a folder", path=str(target), hint="name a folder")
    owners = _read_list(target)
    mine = set(owners.get(owner, ()))
    others = {name: who for who, names in owners.items() if who != owner for name in names}
    for name in documents:
        _refuse_foreign(target, name, mine, others)
    make_folder(target)
    # The list first: after a crash half-way every file of ours is known to be ours.
    owners[owner] = sorted(mine | set(documents))
    _write_list(target, owners)
    changed = tuple(name for name in documents if write(target / name, documents[name]))
    removed = tuple(name for name in sorted(mine - set(documents)) if _remove(target / name))
    owners[owner] = sorted(documents)
    _write_list(target, owners)
    return FolderChanges(changed, tuple(name for name in documents if name not in changed), removed)


def split(text: str) -> dict[str, str]:
    """Return the documents of a stream by file name (kind and name), in the order of the stream."""
    documents: dict[str, str] = {}
    for chunk in _DOCUMENT.split(text):
        for manifest in load.load_all(chunk):
            if isinstance(manifest, dict) and manifest.get("kind"):
                documents[_free_name(manifest, documents)] = chunk
    return documents


def _free_name(manifest: dict[str, Any], documents: dict[str, str]) -> str:
    metadata = manifest.get("metadata") or {}
    parts = [str(manifest["kind"]), str(metadata.get("name") or "unnamed")]
    stem = "-".join(_UNSAFE.sub("-", part.lower()).strip("-.") for part in parts)
    name, number = f"{stem}.yaml", 2
    while name in documents:
        name, number = f"{stem}-{number}.yaml", number + 1
    return name


def _refuse_foreign(target: Path, name: str, mine: set[str], others: dict[str, str]) -> None:
    path = target / name
    if not path.is_symlink() and (name in mine or not path.exists()):
        return
    whose = f"the release {others[name]}" if name in others else "you"
    raise InputError(
        f"is there already and belongs to {whose}, so it is not overwritten",
        path=str(path),
        hint="render into another folder, or move the file away",
    )


def _read_list(target: Path) -> dict[str, list[str]]:
    path = target / LIST
    if not path.exists():
        return {}
    try:
        data = json.loads(path.read_text("utf-8"))
        owners = {str(who): [str(name) for name in names] for who, names in data["files"].items()}
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise InputError(
            "is not a list that allranks wrote",
            path=str(path),
            hint="render into another folder, or remove this file",
        ) from error
    for name in (name for names in owners.values() for name in names):
        if "/" in name or name.startswith("."):
            raise InputError(
                f"lists {name!r}, which is no file of a render",
                path=str(path),
                hint="remove this file, and render into an empty folder",
            )
    return owners


def _write_list(target: Path, owners: dict[str, list[str]]) -> None:
    data = {
        "about": "Files that `allranks render` wrote here, by release. It replaces only these.",
        "files": {who: names for who, names in sorted(owners.items()) if names},
    }
    write(target / LIST, json.dumps(data, indent=2) + "\n")


def _remove(path: Path) -> bool:
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    return True
