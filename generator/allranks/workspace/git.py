"""What git knows of a folder: what is tracked, what is ignored by which rule, the commit.

Git itself is asked, because its rules are its own: the files of each folder, `.git/info/exclude`,
the user's excludes, what is tracked all the same. It is only read from: no lock is taken, no index
is written (`git diff` has a copy of it), and nothing that a repository's configuration names is run
to show a difference.
"""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING

from allranks.errors import ToolError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from types import TracebackType
    from typing import Self

GIT_FOLDER = ".git"
# No answer of git takes so long, but from a file system that hangs.
SECONDS = 60.0
# So many bytes of questions are under way at once. They fit into a pipe, so that git never waits
# for us to read while we wait for it to read.
_BATCH_BYTES = 8192
_SUBMODULE_MODE = b"160000"
_COMMAND = ("-c", "core.fsmonitor=false", "-c", "core.quotePath=false")


def work_tree(folder: Path) -> Path | None:
    """The top of the git work tree that a folder lies in; None outside of any."""
    return next((top for top in (folder, *folder.parents) if is_top(top)), None)


def is_top(folder: Path) -> bool:
    """Whether a folder is the top of a work tree; `.git` is a file in submodules and worktrees."""
    return os.path.lexists(folder / GIT_FOLDER)


def _git_folder(top: Path) -> Path:
    """The folder of git's own of a work tree; raises OSError where `.git` names none."""
    entry = top / GIT_FOLDER
    if entry.is_dir():
        return entry
    # A submodule or a linked work tree: https://git-scm.com/docs/gitrepository-layout
    return top / entry.read_text(encoding="utf-8", errors="surrogateescape")[8:].strip()


def _environment() -> dict[str, str]:
    """Our environment, without what would point git elsewhere (a repository's hooks have such)."""
    variables = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith("GIT_") or key.startswith(("GIT_CONFIG_", "GIT_CEILING"))
    }
    return variables | {
        "GIT_FLUSH": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "LC_ALL": "C",
    }


@dataclass(frozen=True, slots=True)
class Pattern:
    """The line of a file of rules that decides about a path.

    Attributes:
        source: the file, as a person finds it from the workspace; the user's own with `~`.
        line: its number, from 1.
        text: the line.
    """

    source: str
    line: int
    text: str

    def __str__(self) -> str:
        """The pattern as a rule of exclusion: ``.gitignore:3 *.pt``."""
        return f"{self.source}:{self.line} {self.text}"


@dataclass(slots=True)
class WorkTree:
    """A git work tree, or the part of it below a folder, read through git's own programs.

    It is a context manager: its processes end with it.

    Attributes:
        folder: where git is asked; paths are relative to it.
        top: the top of the work tree.
        home: the workspace, from which files of rules are named.
        tracked: paths of tracked files and links.
        tracked_folders: folders that hold one.
        submodules: paths that git has a commit for instead of files.
    """

    folder: Path
    top: Path
    home: Path
    tracked: frozenset[str] = frozenset()
    tracked_folders: frozenset[str] = frozenset()
    submodules: frozenset[str] = frozenset()
    _program: str = ""
    _processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    _copy: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> Self:
        """Nothing: it is open already."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End what is still running."""
        self.close()

    def close(self) -> None:
        """End git's processes."""
        for process in self._processes.values():
            process.kill()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    with suppress(OSError):
                        stream.close()
            process.wait()
        self._processes.clear()
        if self._copy is not None:
            self._copy.cleanup()
            self._copy = None

    def start(self) -> bool:
        """Ask what is tracked, and begin to ask for the commit.

        Returns:
            Whether git works here: it does not where the folder belongs to somebody whom it does
            not trust, or `.git` is something else.

        Raises:
            ToolError: git gives no answer.
        """
        self._spawn("tracked", "ls-files", "-z", "--stage")
        self._spawn("head", "rev-parse", "HEAD", "--abbrev-ref", "HEAD")
        self._spawn_diff("changed", "--name-only", "-z", "HEAD", "--", ".")
        output = self._output("tracked")
        if output is None:
            self.close()
            return False
        tracked, folders, submodules = set(), set(), set()
        for line in output.split(b"\0")[:-1]:
            facts, _, name = line.partition(b"\t")
            path = os.fsdecode(name)
            tracked.add(path)
            if facts.startswith(_SUBMODULE_MODE):
                submodules.add(path)
            parent = path.rpartition("/")[0]
            while parent and parent not in folders:
                folders.add(parent)
                parent = parent.rpartition("/")[0]
        self.tracked = frozenset(tracked - submodules)
        self.tracked_folders = frozenset(folders | submodules)
        self.submodules = frozenset(submodules)
        return True

    def ignored(self, paths: Sequence[str]) -> dict[str, Pattern]:
        """Which of some untracked paths git ignores, and the rule of each.

        Args:
            paths: below the folder, none of them below an ignored one, a link or a submodule.

        Raises:
            ToolError: git gives no answer.
        """
        if not paths:
            return {}
        process = self._processes.get("ignored") or self._spawn(
            # Without the index, which it would go through for every single path.
            *("ignored", "check-ignore", "--no-index", "-v", "-n", "-z", "--stdin"),
            stdin=subprocess.PIPE,
        )
        return {
            path: pattern
            for batch in _batches(paths)
            for path, pattern in self._ask(process, batch)
            if pattern is not None
        }

    def ignores_itself(self) -> bool:
        """Whether git ignores the folder as such, or one that it lies in."""
        return self.folder != self.top and bool(self.ignored(["."]))

    def head(self) -> tuple[str, str]:
        """The commit and the branch that are checked out; "" each where there is none.

        Raises:
            ToolError: git gives no answer.
        """
        output = self._output("head")
        if output is None:
            return "", ""
        commit, _, branch = output.decode(errors="replace").strip().partition("\n")
        return commit, "" if branch == "HEAD" else branch

    def changed(self) -> list[str]:
        """Tracked paths below the folder that differ from the commit.

        Raises:
            ToolError: git gives no answer.
        """
        output = self._output("changed") or b""
        return [os.fsdecode(name) for name in output.split(b"\0") if name]

    def diff(self, paths: Sequence[str]) -> str:
        """The difference of some paths from the commit.

        Raises:
            ToolError: git gives no answer.
        """
        listed = "".join(f":(literal){path}\0" for path in paths)
        self._spawn_diff("diff", "HEAD", "--", *listed.split("\0")[:-1])
        return (self._output("diff") or b"").decode(errors="replace")

    def _spawn_diff(self, name: str, *arguments: str) -> None:
        """Run `git diff` on a copy of the index, which it writes where a file was only touched.

        No option keeps it from that, and one that was killed meanwhile would leave a lock behind.
        """
        if self._copy is None:
            self._copy = tempfile.TemporaryDirectory(prefix="allranks-")
            # With its time, by which git knows what may have changed since. A new one has none.
            with suppress(OSError):
                shutil.copy2(_git_folder(self.top) / "index", Path(self._copy.name, "index"))
        self._spawn(name, "diff", *_DIFF, *arguments, index=Path(self._copy.name, "index"))

    def _spawn(
        self,
        name: str,
        *arguments: str,
        stdin: int = subprocess.DEVNULL,
        index: Path | None = None,
    ) -> _Process:
        process = subprocess.Popen(  # noqa: S603 - git, by its full path, and paths after `--`
            [self._program, *_COMMAND, *arguments],
            cwd=self.folder,
            env=_environment() | ({} if index is None else {"GIT_INDEX_FILE": str(index)}),
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._processes[name] = process
        return process

    def _output(self, name: str) -> bytes | None:
        """The output of a process; None where it fails."""
        process = self._processes.pop(name)
        try:
            output, _ = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise self._silence() from None
        except BaseException:
            process.kill()
            process.communicate()
            raise
        return None if process.returncode else output

    def _ask(self, process: _Process, batch: Sequence[str]) -> Iterator[tuple[str, Pattern | None]]:
        stdin, stdout = process.stdin, process.stdout
        if stdin is None or stdout is None:  # pragma: no cover - both are pipes
            return
        # Without the dot a name that begins with a colon would be read as a pathspec.
        questions = b"".join(b"./" + os.fsencode(path) + b"\0" for path in batch)
        try:
            stdin.write(questions)
            stdin.flush()
        except OSError as error:
            raise self._silence() from error
        fields = self._fields(stdout, 4 * len(batch))
        for number, path in enumerate(batch):
            source, line, text, _ = fields[4 * number : 4 * number + 4]
            words = os.fsdecode(text)
            is_ignored = bool(source) and not words.startswith("!")
            pattern = Pattern(self._name(os.fsdecode(source)), int(line or 0), words)
            yield path, pattern if is_ignored else None

    def _fields(self, stream: IO[bytes], count: int) -> list[bytes]:
        output = b""
        while output.count(b"\0") < count:
            ready, _, _ = select.select([stream], [], [], SECONDS)
            more = os.read(stream.fileno(), 1 << 16) if ready else b""
            if not more:
                raise self._silence()
            output += more
        return output.split(b"\0")

    def _name(self, source: str) -> str:
        """A file of rules as a person finds it from the workspace."""
        if not source:
            return ""
        path = Path(os.path.normpath(self.top / source))
        if path.is_relative_to(self.top):
            return os.path.relpath(path, self.home)
        with suppress(ValueError, RuntimeError):
            return f"~/{path.relative_to(Path.home())}"
        return str(path)

    def _silence(self) -> ToolError:
        return ToolError(
            "git does not say which files are ignored",
            path=str(self.folder),
            hint="run `git status` there, and repair what it complains of",
        )


_DIFF = ("--no-ext-diff", "--no-textconv", "--no-color", "--no-renames", "--relative")
_Process = subprocess.Popen[bytes]


def _batches(paths: Iterable[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    size = 0
    for path in paths:
        length = len(os.fsencode(path)) + 3
        if batch and size + length > _BATCH_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(path)
        size += length
    if batch:
        yield batch


def repository(folder: Path, home: Path) -> WorkTree | None:
    """The work tree that a folder lies in, as git reads it.

    Args:
        folder: where paths are relative to.
        home: the workspace.

    Returns:
        None where there is none, no git is installed, or git does not work there.

    Raises:
        ToolError: git gives no answer.
    """
    top = work_tree(folder)
    program = shutil.which("git") if top is not None else None
    if top is None or program is None:
        return None
    opened = WorkTree(folder, top, home, _program=program)
    try:
        return opened if opened.start() else None
    except BaseException:
        opened.close()
        raise
