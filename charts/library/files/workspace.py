"""Unpack the workspace: the folder of code that was sent with the job.

workspace.sh starts this, in the image's own Python (3.8 or newer, standard library alone), before
the user's setup. The archive is a compressed tar in parts, archive.0, archive.1 and so on. It is
read twice: once for its digest, and then into a staging folder, out of which all of it is moved to
its place. The marker of the digest comes last, so that a container that ends in between starts
anew.

The digest says that the archive is what was sent. All the same nothing is written outside of the
staging folder: who could have an archive sent must not reach the rest of the pod by it.

What is wrong is one sentence on stdout. The exit code is 217 where no restart would help, and 1
where another node, or more room, might.
"""

import errno
import hashlib
import io
import os
import shutil
import stat
import sys
import tarfile
from pathlib import Path

EXIT_BROKEN = 217
# Far above any code; what a few bytes of an archive may grow to is far above these.
MAX_ENTRIES = 1000000
MAX_BYTES = 16 << 30
CHUNK = 1 << 20


class BrokenError(Exception):
    """What was sent cannot be unpacked, wherever it is tried."""


class Parts:
    """The parts of an archive, read as one file.

    Args:
        folder: the folder that has them.

    Raises:
        BrokenError: there is none.
    """

    def __init__(self, folder):
        self._paths = []
        while Path(folder, "archive.%d" % len(self._paths)).exists():
            self._paths.append(Path(folder, "archive.%d" % len(self._paths)))
        if not self._paths:
            raise BrokenError("there is no workspace in %s: archive.0 is missing" % folder)
        self._next = 0
        self._stream = None

    def read(self, size):
        """At most so many bytes; none at the end."""
        while True:
            if self._stream is None:
                if self._next == len(self._paths):
                    return b""
                self._stream = self._paths[self._next].open("rb")
                self._next += 1
            data = self._stream.read(size)
            if data:
                return data
            self._stream.close()
            self._stream = None


def check_digest(folder, expected):
    """Raise BrokenError unless the archive has a digest, `sha256:` and 64 hex digits."""
    parts, digest = Parts(folder), hashlib.sha256()
    while True:
        data = parts.read(CHUNK)
        if not data:
            break
        digest.update(data)
    actual = "sha256:" + digest.hexdigest()
    if actual != expected:
        raise BrokenError(
            "the workspace in %s is not what was sent: it has the digest %s, not %s; send it again"
            % (folder, actual, expected)
        )


def path_inside(name, kind):
    """The path of an entry below the workspace, in parts.

    Args:
        name: the path as the archive has it.
        kind: what it is, for the sentence.

    Raises:
        BrokenError: it leads out of the workspace.
    """
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/") or ".." in parts or "\0" in name:
        raise BrokenError("the workspace has a %s %r, which is not inside of it" % (kind, name))
    return parts


def extract(parts, compression, staging, older=None):
    """Write the entries of an archive below a new folder.

    Args:
        parts: the archive.
        compression: gzip | xz.
        staging: the folder, empty.
        older: a folder of the same file system with older code; None for none. A file that is the
            same there is linked and not written anew, which takes a tenth of the time.

    Raises:
        BrokenError: it is no such archive, or has what no workspace has.
        OSError: the entries cannot be written.
    """
    mode = "r|gz" if compression == "gzip" else "r|xz"
    entries, size, written_keys, folders = {}, 0, set(), {staging}
    older = older and Path(os.path.realpath(older))
    with tarfile.open(fileobj=parts, mode=mode, encoding="utf-8") as archive:
        for member in archive:
            path = path_inside(member.name, "path")
            if not path:
                continue
            key = "/".join(path)
            if key in entries:
                raise BrokenError("the workspace has %r twice" % key)
            if any(entries.get("/".join(path[:end]), "d") != "d" for end in range(1, len(path))):
                raise BrokenError("the workspace has %r below what is no folder" % key)
            size += member.size
            if len(entries) >= MAX_ENTRIES or size > MAX_BYTES:
                raise BrokenError(
                    "the workspace has more than %d entries, or %d GiB; leave data out of it"
                    % (MAX_ENTRIES, MAX_BYTES >> 30)
                )
            for end in range(1, len(path) + 1):
                make_room(staging, "/".join(path[:end]), written_keys)
            target, same = staging.joinpath(*path), older and older.joinpath(*path)
            entries[key] = write(archive, member, key, target, folders=folders, older=same)
    check_links([key for key, kind in entries.items() if kind == "l"], staging)


def make_room(staging, key, written_keys):
    """Raise BrokenError where a path is there that has another name.

    Args:
        staging: the folder that is written to.
        key: the path below it.
        written_keys: the paths that were written, to which this one is added.
    """
    if key not in written_keys and exists(staging / key):
        raise BrokenError(
            "the workspace has %r and another name that the file system here does not tell apart "
            "from it; rename one of them" % key
        )
    written_keys.add(key)


def exists(path):
    """Whether the file system has a path, by this name or by one that it takes for the same."""
    return os.path.lexists(path)


def extract_all(folder, compression, staging, older=None):
    """Write all that an archive in a folder has below another, new folder; as `extract`."""
    try:
        extract(Parts(folder), compression, staging, older)
    except (tarfile.TarError, EOFError, ValueError) as error:
        raise BrokenError(
            "the workspace in %s is no archive that can be read: %s" % (folder, error)
        ) from error


def write(archive, member, key, target, *, folders, older):
    """Write one entry; the letter of its kind: d, l or -.

    Args:
        archive: has it.
        member: the entry.
        key: its path, for messages.
        target: where it goes.
        folders: those that are there.
        older: a file that may be the same; None for none.
    """
    if member.isdir():
        target.mkdir(parents=True, exist_ok=True)
        target.chmod(0o755)
        folders.add(target)
        return "d"
    if target.parent not in folders:
        target.parent.mkdir(parents=True, exist_ok=True)
        folders.add(target.parent)
    if member.issym():
        if member.linkname.startswith("/") or "\0" in member.linkname:
            raise BrokenError(
                "the workspace has the link %r to %r, which is not inside of it"
                % (key, member.linkname)
            )
        target.symlink_to(member.linkname)
        return "l"
    if not member.isfile():
        raise BrokenError("the workspace has %r, which is no file, folder or link" % key)
    # As few calls as can be: a thousand files are what a pod's start waits for.
    mode = 0o755 if member.mode & stat.S_IXUSR else 0o644
    data = archive.extractfile(member)
    if older is not None and member.size <= CHUNK:
        content = data.read()
        if link_same(older, target, mode, content):
            return "-"
        data = io.BytesIO(content)
    descriptor = os.open(str(target), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with open(descriptor, "wb") as stream:  # noqa: PTH123 - of a descriptor
        shutil.copyfileobj(data, stream, CHUNK)
    return "-"


def link_same(older, target, mode, content):
    """Link a file that has this mode and content already; whether it has, and is no other's."""
    if os.path.realpath(older.parent) != str(older.parent):
        return False
    try:
        status = older.lstat()
        if not stat.S_ISREG(status.st_mode) or stat.S_IMODE(status.st_mode) != mode:
            return False
        if status.st_size != len(content) or older.read_bytes() != content:
            return False
        os.link(str(older), str(target))
    except OSError:
        return False  # it is not there, or another user's
    return True


def check_links(links, staging):
    """Raise BrokenError where a link leads out of the folder, directly or through others."""
    root = Path(os.path.realpath(staging))
    for key in links:
        target = Path(os.path.realpath(root / key))  # a link to itself is no error
        if root != target and root not in target.parents:
            raise BrokenError(
                "the workspace has the link %r to %r, which is not inside of it"
                % (key, os.readlink(root / key))  # noqa: PTH115 (Path has it from 3.9 on)
            )


def move(source, target, shown):
    """Move what is in a folder into another, which may have some of it already.

    A file that is the same there stays, with its time, so that what Python has compiled of it
    holds; that of another one goes, because the new file may have the old one's size and second.

    Args:
        source: the folder, which is empty afterwards.
        target: the other one, in the same file system.
        shown: the path at which people and programs see it.

    Raises:
        BrokenError: a volume is mounted at, or a folder stands in place of, what was sent.
        OSError: it cannot be moved.
    """
    for old in sorted(source.iterdir()):
        new, visible_path = target / old.name, shown / old.name
        if is_hidden(new, visible_path):
            raise BrokenError(
                "the workspace has %s, and a volume is mounted at %s; mount it elsewhere, or leave "
                "%s out of the workspace" % (old.name, visible_path, old.name)
            )
        if is_folder(old) and is_folder(new):
            move(old, new, visible_path)
            old.rmdir()
            continue
        if is_same(old, new):
            old.unlink()
            continue
        remove_compiled(new)
        try:
            old.replace(new)
        except OSError as error:
            if error.errno not in (errno.EISDIR, errno.ENOTDIR, errno.EBUSY):
                raise
            raise BrokenError(
                "the workspace has %s, and something else is at %s" % (old.name, visible_path)
            ) from error


def is_hidden(path, visible_path):
    """Whether something is mounted over a path, at the place where it is seen.

    Two folders of one disk are no mount for `os.path.ismount`, but are never one and the same.
    """
    if not os.path.lexists(path):
        return False
    ours, theirs = path.lstat(), visible_path.lstat()
    return (ours.st_dev, ours.st_ino) != (theirs.st_dev, theirs.st_ino)


def is_same(path, other):
    """Whether two paths are files with the same mode and content."""
    try:
        ours, theirs = path.lstat(), other.lstat()
        if (ours.st_mode, ours.st_size) != (theirs.st_mode, theirs.st_size):
            return False
        if not stat.S_ISREG(ours.st_mode):
            return False
        if os.path.samestat(ours, theirs):
            return True
        with path.open("rb") as stream, other.open("rb") as others:
            while True:
                data = stream.read(CHUNK)
                if data != others.read(CHUNK):
                    return False
                if not data:
                    return True
    except OSError:
        return False  # one is not there, or cannot be read


def is_folder(path):
    """Whether a path is a folder itself, and no link to one."""
    return path.is_dir() and not path.is_symlink()


def paths_of(tree):
    """The paths of all that is in a folder, sorted; folders end with a slash."""
    paths, folders = [], [""]
    while folders:
        folder = folders.pop()
        with os.scandir(str(Path(tree, folder))) as items:
            for item in items:
                path = folder + item.name
                if item.is_dir(follow_symlinks=False):
                    path += "/"
                    folders.append(path)
                paths.append(path)
    return sorted(paths)


def write_entries(state, paths):
    """Keep what of the code was sent: what else is there is the program's own."""
    new = Path(state, "entries.new")
    new.write_bytes("\0".join(paths).encode("utf-8", "surrogateescape"))
    new.replace(Path(state, "entries"))


def remove_entries(state, code, paths):
    """Remove what was sent before and is not sent again; nothing where nothing was.

    Args:
        state: the folder that keeps what was sent.
        code: where it is.
        paths: what is sent now.
    """
    try:
        text = Path(state, "entries").read_bytes().decode("utf-8", "surrogateescape")
    except OSError:
        return
    gone = set(filter(None, text.split("\0"))).difference(paths)
    for entry in sorted(gone, reverse=True):  # contents before folders
        target = Path(code, entry)
        try:
            if entry.endswith("/"):
                target.rmdir()
            else:
                remove_compiled(target)
                target.unlink()
        except OSError:
            continue  # gone, or the program keeps something there


def remove_compiled(source):
    """Remove what Python has compiled of a file."""
    cache = source.parent / "__pycache__"
    if source.suffix != ".py" or not cache.is_dir():
        return
    try:
        for compiled in list(cache.iterdir()):
            if compiled.name.startswith(source.stem + "."):
                compiled.unlink()
    except OSError:
        return


def unpack(env):
    """Have the workspace at its place.

    Args:
        env: the ALLRANKS_WORKSPACE_* variables, which workspace.sh describes.

    Raises:
        BrokenError: it cannot be unpacked, wherever it is tried.
        OSError: it cannot be read or written here.
    """
    folder = env["ALLRANKS_WORKSPACE_ARCHIVE"]
    state = Path(env["ALLRANKS_WORKSPACE_STATE"])
    staging, code = state / "staging", state / "code"
    check_digest(folder, env["ALLRANKS_WORKSPACE_ARCHIVE_DIGEST"])
    os.umask(0o022)
    if staging.exists():
        shutil.rmtree(staging)
    staging.mkdir(parents=True)
    code.mkdir(exist_ok=True)
    extract_all(folder, env["ALLRANKS_WORKSPACE_COMPRESSION"], staging)
    paths = paths_of(staging)
    remove_entries(state, code, paths)
    move(staging, code, Path(env["ALLRANKS_WORKSPACE_FOLDER"]))
    staging.rmdir()
    write_entries(state, paths)
    marker = state / "digest.new"
    marker.write_text(env["ALLRANKS_WORKSPACE_DIGEST"] + "\n", encoding="utf-8")
    marker.replace(state / "digest")


def main(env):
    """Unpack; the exit code."""
    try:
        unpack(env)
    except BrokenError as error:
        print(error)
        return EXIT_BROKEN
    except OSError as error:
        where = env["ALLRANKS_WORKSPACE_FOLDER"]
        print("the workspace cannot be unpacked into %s: %s" % (where, error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(os.environ))
