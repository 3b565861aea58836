"""Which paths of a workspace stay out, and because of which rule.

For each path the first of these that says anything decides: the person's own `.allranksignore`
files, the deepest first; what is named here, which is never code; git's rules, or, where git does
not work, the `.gitignore` files. What is below a folder that stays out is never looked at, so that
a data set beside the code costs nothing.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from allranks.errors import InputError, Problem
from allranks.humanize import plural
from allranks.workspace import git
from allranks.workspace.git import Pattern
from allranks.workspace.model import Excluded

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable
    from contextlib import ExitStack
    from pathlib import Path

    from allranks.workspace.git import WorkTree

IGNORE_FILE = ".allranksignore"
_GITIGNORE = ".gitignore"
# What a rule of ours begins with; those of a person begin with the file that they stand in.
DEFAULT = "default "

# Folders (or files, or links) that are made by tools and never code, wherever they lie.
_NEVER = frozenset(
    (
        *(git.GIT_FOLDER, ".hg", ".svn", ".bzr", ".jj", "CVS"),
        *("__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis"),
        *(".ipynb_checkpoints", ".tox", ".nox", ".venv", "node_modules", ".DS_Store", "Thumbs.db"),
    )
)
# Folders that are made by tools, unless they are packages of Python of the same name.
_UNLESS_PACKAGE = frozenset(("venv", "wandb", "mlruns", "checkpoints"))
_PACKAGE = "__init__.py"
# What lies at the top of an environment of Python, and of one of conda.
_ENVIRONMENT = ("pyvenv.cfg", "conda-meta")
# Beginnings and endings of files that are made by tools.
_STARTS = ("._", ".#")
_ENDS = (".pyc", ".pyo", ".swp", "~")

# Deeper or more than this is no code. Both bound what a mistaken --workspace / costs.
DEPTH_MAX = 100
ENTRIES_MAX = 200_000
# A file of rules is never larger; git has no bound, but what is larger is no list of rules.
_RULES_BYTES_MAX = 1 << 20
# The group of pathspec's regular expressions that matches the slash behind a folder.
_FOLDER_GROUP = "ps_d"


def is_of_tools(folder: str) -> bool:
    """Whether a folder of a name is one that tools make, which is not sent by itself.

    Args:
        folder: the name, without a path.
    """
    return folder in _NEVER or folder in _UNLESS_PACKAGE


@dataclass(frozen=True, slots=True)
class Item:
    """A path that goes.

    Attributes:
        path: below the workspace.
        status: as `lstat` gives it.
        is_tracked: whether git has it; True outside of git.
    """

    path: str
    status: os.stat_result
    is_tracked: bool = True


@dataclass(slots=True)
class Tree:
    """The paths and problems that a walk over a workspace finds.

    Attributes:
        paths: what goes, in no order.
        excluded: what stays out, in no order.
        problems: what could not be looked at.
        repository: the work tree of the workspace itself; None where git is not asked.
    """

    paths: list[Item] = field(default_factory=list)
    excluded: list[Excluded] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    repository: WorkTree | None = None


@dataclass(frozen=True, slots=True)
class _Folder:
    """A folder that is to be read, and the rules that hold in it.

    Attributes:
        path: below the workspace, with a slash at its end; "" for the workspace.
        depth: how many folders it lies in.
        status: as `lstat` gives it; None for the workspace.
        own: `.allranksignore` files, the deepest last.
        repository: the work tree that it lies in; None where git is not asked.
        base: that one's folder, below the workspace and with a slash at its end.
        files: `.gitignore` files where git is not asked, the deepest last.
        rule: why it stays out but for what is named in it; "" where it does not.
        is_named: whether the person named it, or a folder that it lies in.
        is_included: whether the person's own rules take it in.
        unless_package: whether it stays out unless it is a package.
    """

    path: str
    depth: int = 0
    status: os.stat_result | None = None
    own: tuple[PatternFile, ...] = ()
    repository: WorkTree | None = None
    base: str = ""
    files: tuple[PatternFile, ...] = ()
    rule: str = ""
    is_named: bool = False
    is_included: bool = False
    unless_package: bool = False


def default_rule(name: str, *, is_folder: bool) -> str:
    """The rule by which a name stays out wherever it lies; "" where there is none."""
    if name in _NEVER:
        return f"{DEFAULT}{name}{'/' if is_folder else ''}"
    if not is_folder:
        for end in _ENDS:
            if name.endswith(end) and name != end:
                return f"{DEFAULT}*{end}"
        for start in _STARTS:
            if name.startswith(start):
                return f"{DEFAULT}{start}*"
    return ""


def walk(folder: Path, named: Iterable[str], stack: ExitStack) -> Tree:
    """Look through a workspace.

    Args:
        folder: the workspace, resolved.
        named: paths below it that go whatever a rule says, as the person named them.
        stack: what ends git's processes.

    Raises:
        InputError: a file of rules cannot be read, or there is no end of files.
        ToolError: git gives no answer.
    """
    return _Walk(folder, frozenset(named), stack).run()


class _Walk:
    """One walk, level by level, so that git is asked about many paths at once."""

    def __init__(self, folder: Path, named: frozenset[str], stack: ExitStack) -> None:
        self.folder = folder
        self.named = named
        self.above_named = frozenset(
            path[:end] for path in named for end in range(len(path)) if path[end] == "/"
        )
        self.stack = stack
        self.tree = Tree()

    def run(self) -> Tree:
        level = [self._root()]
        self.tree.repository = level[0].repository
        while level:
            questions: list[_PathCheck] = []
            for folder in level:
                questions += self._read(folder)
            level = self._settle(questions)
        return self.tree

    def _root(self) -> _Folder:
        repository = self._repository(self.folder)
        if repository is not None and repository.ignores_itself():
            repository = None  # the person names a folder that git ignores: then its own rules hold
        files: tuple[PatternFile, ...] = ()
        if repository is None:
            files = self._rules_above(git.work_tree(self.folder))
        return _Folder("", repository=repository, files=files)

    def _repository(self, folder: Path) -> WorkTree | None:
        repository = git.repository(folder, self.folder)
        if repository is not None:
            self.stack.enter_context(repository)
        return repository

    def _rules_above(self, top: Path | None) -> tuple[PatternFile, ...]:
        """The files of rules above a workspace that lies in a work tree, the top's first."""
        if top is None:
            return ()
        places = [(top / git.GIT_FOLDER / "info" / "exclude", top)]
        parents = [folder for folder in self.folder.parents if folder.is_relative_to(top)]
        places += [(folder / _GITIGNORE, folder) for folder in reversed(parents)]
        files = tuple(
            _read_rules(
                path,
                name=os.path.relpath(path, self.folder),
                lead="".join(f"{part}/" for part in self.folder.relative_to(base).parts),
            )
            for path, base in places
            if path.is_file()
        )
        return () if _is_excluded(files, self.folder.relative_to(top).parts) else files

    def _read(self, folder: _Folder) -> list[_PathCheck]:
        """The entries of a folder, once it is sure that it goes."""
        try:
            with os.scandir(self.folder / folder.path) as entries:
                listed = list(entries)
        except OSError as error:
            self._complain(folder.path, error)
            return []
        names = {entry.name for entry in listed}
        if folder.path and not folder.is_named:
            rule = _default_of_contents(folder, names)
            is_out = bool(rule) and not folder.is_included
            if is_out and folder.path[:-1] not in self.above_named:
                self.tree.excluded.append(Excluded(folder.path, rule))
                return []
            rest_rule = rule if is_out else folder.rule
            folder = replace(folder, rule=rest_rule, is_named=bool(rule) and not is_out)
        if folder.status is not None:
            self.tree.paths.append(Item(folder.path[:-1], folder.status))
        if folder.depth >= DEPTH_MAX and listed:
            self.tree.problems.append(
                Problem(
                    folder.path,
                    f"is nested too deep: code lies in at most {DEPTH_MAX} folders",
                    f"exclude it in {IGNORE_FILE}",
                )
            )
            return []
        folder = self._with_rules(folder, names)
        questions = []
        for entry in listed:
            try:
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue  # gone since the folder was listed, as editors do with their own files
            except OSError as error:
                self._complain(folder.path + entry.name, error)
                continue
            questions.append(_PathCheck(folder, entry.name, status))
        return questions

    def _with_rules(self, folder: _Folder, names: set[str]) -> _Folder:
        """A folder with the files of rules that lie in it."""
        if IGNORE_FILE in names:
            folder = replace(folder, own=(*folder.own, self._file(folder, IGNORE_FILE)))
        if folder.path and git.GIT_FOLDER in names:  # a submodule, or a clone within
            inner = self._repository(self.folder / folder.path)
            folder = replace(folder, repository=inner, base=folder.path, files=())
        elif folder.repository is not None and folder.path[len(folder.base) : -1] in (
            folder.repository.submodules
        ):
            folder = replace(folder, repository=None)  # git has nothing to say about its contents
        if folder.repository is None and _GITIGNORE in names:
            folder = replace(folder, files=(*folder.files, self._file(folder, _GITIGNORE)))
        return folder

    def _file(self, folder: _Folder, name: str) -> PatternFile:
        path = folder.path + name
        return _read_rules(self.folder / path, name=path, base=folder.path)

    def _settle(self, questions: list[_PathCheck]) -> list[_Folder]:
        """Decide about paths; the folders among those that go are the next level."""
        for_git: dict[int, tuple[WorkTree, list[_PathCheck]]] = {}
        for question in questions:
            question.decide(self.named)
            repository = question.folder.repository
            if question.is_open and repository is not None:
                for_git.setdefault(id(repository), (repository, []))[1].append(question)
        for repository, open_questions in for_git.values():
            rules = repository.ignored([question.inner_path for question in open_questions])
            for question in open_questions:
                question.settle(str(rules.get(question.inner_path, "")))
        level = []
        for question in questions:
            if question.rule and question.path not in self.above_named:
                slash = "/" if question.is_folder else ""
                self.tree.excluded.append(Excluded(question.path + slash, question.rule))
            elif question.is_folder:
                level.append(question.as_folder())
            else:
                self.tree.paths.append(Item(question.path, question.status, question.is_tracked))
        if len(self.tree.paths) + len(level) > ENTRIES_MAX:
            raise self._endless()
        return level

    def _endless(self) -> InputError:
        counts: dict[str, int] = {}
        for path in self.tree.paths:
            top = path.path.partition("/")[0]
            counts[top] = counts.get(top, 0) + 1
        largest = max(counts, key=lambda top: counts[top])
        return InputError(
            f"holds more than {plural(ENTRIES_MAX, 'file')} that would go; most of them lie in "
            f"{largest}",
            path=str(self.folder),
            hint=f"exclude what is no code in {IGNORE_FILE}, or name the folder of the code",
        )

    def _complain(self, path: str, error: OSError) -> None:
        words = error.strerror or str(error)
        self.tree.problems.append(
            Problem(
                path or str(self.folder),
                f"cannot be read: {words}",
                f"make it readable, or exclude it in {IGNORE_FILE}",
            )
        )


@dataclass(slots=True)
class _PathCheck:
    """The question whether a path is sent.

    Attributes:
        folder: where it lies.
        name: its name.
        status: as `lstat` gives it.
        rule: why it stays out; "" where it does not.
        is_open: whether git is to be asked.
        is_named: as of `_Folder`.
        is_included: see there.
        unless_package: see there.
    """

    folder: _Folder
    name: str
    status: os.stat_result
    rule: str = ""
    is_open: bool = False
    is_named: bool = False
    is_included: bool = False
    unless_package: bool = False

    @property
    def path(self) -> str:
        return self.folder.path + self.name

    @property
    def inner_path(self) -> str:
        """The path as the repository has it."""
        return self.path[len(self.folder.base) :]

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.status.st_mode)

    @property
    def is_tracked(self) -> bool:
        repository = self.folder.repository
        if repository is None:
            return True
        paths = repository.tracked_folders if self.is_folder else repository.tracked
        return self.inner_path in paths

    def decide(self, named: frozenset[str]) -> None:
        """Decide, as far as it goes without git."""
        if self.path in named:
            self.is_named = True
            return
        if self.folder.rule:
            self.rule = self.folder.rule
            return
        verdict = _verdict(self.folder.own, self.path, is_folder=self.is_folder)
        if verdict:
            self.rule = verdict
            return
        self.is_included = verdict is not None
        self.is_named = self.folder.is_named
        self.unless_package = self.is_folder and self.name in _UNLESS_PACKAGE
        self.settle(default_rule(self.name, is_folder=self.is_folder))
        if self.rule or self.is_named:
            return
        if self.folder.repository is not None:
            self.is_open = not self.is_tracked
        else:
            self.settle(_verdict(self.folder.files, self.path, is_folder=self.is_folder) or "")

    def settle(self, rule: str) -> None:
        """Let a rule hold, unless the person's own rules take the path in."""
        if rule and self.is_included:
            self.is_named = True
        else:
            self.rule = rule

    def as_folder(self) -> _Folder:
        return replace(
            self.folder,
            path=f"{self.path}/",
            depth=self.folder.depth + 1,
            status=self.status,
            rule=self.rule,
            is_named=self.is_named,
            is_included=self.is_included,
            unless_package=self.unless_package,
        )


def _verdict(files: tuple[PatternFile, ...], path: str, *, is_folder: bool) -> str | None:
    """The rule by which a path stays out; "" where one takes it in, None where none fits."""
    for file in reversed(files):
        match = file.match(path, is_folder=is_folder)
        if match is not None:
            return str(match[1]) if match[0] else ""
    return None


def _default_of_contents(folder: _Folder, names: set[str]) -> str:
    """The rule by which a folder stays out for what lies in it."""
    name = folder.path[:-1].rpartition("/")[2]
    if folder.unless_package and _PACKAGE not in names:
        return f"{DEFAULT}{name}/"
    marker = next((marker for marker in _ENVIRONMENT if marker in names), "")
    return f"{DEFAULT}{marker}" if marker else ""


def _is_excluded(files: tuple[PatternFile, ...], parts: tuple[str, ...]) -> bool:
    """Whether files of rules above a workspace exclude it, or a folder that it lies in.

    Args:
        files: the files, the top's first.
        parts: the names of the folders from the top of the work tree to the workspace.
    """
    for end in range(1, len(parts) + 1):
        for file in reversed(files):
            begin = len(parts) - file.lead.count("/")
            match = file.match_text("/".join((*parts[begin:end], ""))) if begin < end else None
            if match is not None:
                if match[0]:
                    return True
                break
    return False


@dataclass(frozen=True, slots=True)
class _Line:
    pattern: Pattern
    regex: re.Pattern[str]
    is_excluding: bool


@dataclass(frozen=True, slots=True)
class PatternFile:
    """The rules of one file.

    Attributes:
        base: the folder that they are relative to, below the workspace and with a slash at its end;
            "" for the workspace itself. Above it where `lead` is not empty.
        lead: what stands before a path of the workspace, seen from a folder above it.
    """

    base: str
    lead: str
    lines: tuple[_Line, ...]

    def match(self, path: str, *, is_folder: bool) -> tuple[bool, Pattern] | None:
        """The last rule that fits a path, and whether it excludes; None where none does.

        The folders that the path lies in are not looked at: who walks the tree has done so.

        Args:
            path: below the workspace.
            is_folder: whether it is a folder; a link to one is none.
        """
        return self.match_text(self.lead + path[len(self.base) :] + ("/" if is_folder else ""))

    def match_text(self, text: str) -> tuple[bool, Pattern] | None:
        """The same of a path as this file has it: with a slash at its end where it is a folder."""
        letters = _letters(text)
        for line in reversed(self.lines):
            match = line.regex.search(letters)
            if match is None:
                continue
            # A rule for a folder fits all that is below it, too; that was decided at the folder.
            # One for what is below a folder, `a/**`, is made to fit the folder itself.
            has_group = _FOLDER_GROUP in line.regex.groupindex
            slash = match.start(_FOLDER_GROUP) if has_group else -1
            is_itself = (
                not has_group and match.group().endswith("/") and match.end() == len(letters)
            )
            if slash in {-1, len(letters) - 1} and not is_itself:
                return line.is_excluding, line.pattern
        return None


def _letters(text: str) -> str:
    """A text with a letter for each of its bytes, because git's `?` stands for a byte.

    Bytes above 127 become surrogates: none of those is a space, which pathspec would strip.
    """
    return os.fsencode(text).decode("ascii", "surrogateescape")


def _below(pattern: str) -> str:
    """A pattern for all folders below another, `a/**/`, as pathspec reads it right.

    It takes `a/**/` for `a/` itself, and `*/` for the folders at the top alone.
    """
    mark, pattern = ("!", pattern[1:]) if pattern.startswith("!") else ("", pattern)
    text = pattern.rstrip(" ")
    if text in {"*/", "**/"}:
        return f"{mark}**/?*/"
    return f"{mark}{text[:-1]}/?*/" if text.endswith("/**/") else mark + pattern


def _read_rules(path: Path, *, name: str, base: str = "", lead: str = "") -> PatternFile:
    """Read a file of rules.

    Args:
        path: the file.
        name: what it is called in a rule.
        base: as of `PatternFile`.
        lead: see there.

    Raises:
        InputError: it cannot be read, or a line of it is no pattern.
    """
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

    try:
        with path.open("rb") as stream:
            data = stream.read(_RULES_BYTES_MAX + 1)
    except OSError as error:
        words = error.strerror or str(error)
        raise InputError(
            f"cannot be read: {words}", path=name, hint="make it readable, or remove it"
        ) from error
    if len(data) > _RULES_BYTES_MAX:
        raise InputError(
            f"is larger than {_RULES_BYTES_MAX:,} bytes",
            path=name,
            hint="write a rule for a whole folder",
        )
    lines = []
    for number, line in enumerate(os.fsdecode(data.removeprefix(b"\xef\xbb\xbf")).split("\n"), 1):
        text = line.removesuffix("\r")
        try:
            pattern = GitIgnoreSpecPattern(_below(_letters(text)))
        except ValueError:
            continue  # git, too, lets such a line match nothing
        if pattern.regex is not None and pattern.include is not None:
            lines.append(_Line(Pattern(name, number, text), pattern.regex, pattern.include))
    return PatternFile(base, lead, tuple(lines))
