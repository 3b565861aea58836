"""Fix values files: write what a problem's fix says into the file that has the problem.

Everything is computed in memory, so that it can be shown before it is written; nothing here writes.
One pass writes the fixes that do not touch each other; as long as a pass has changed something,
what the texts then say is checked again, because a corrected key shows what stands below it.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from allranks.errors import PROBLEMS_MAX, InputError
from allranks.humanize import list_some
from allranks.schema import paths
from allranks.schema.fixes import NOTHING, Fix
from allranks.schema.validator import engine
from allranks.values import files, resolve
from allranks.values.merge import merge
from allranks.values.queue import QueueBlock
from allranks.values.sources import CONVERTED, Flag, defaults, load_sources
from allranks.yamlio import edit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from allranks.errors import Problem
    from allranks.schema.paths import ValuesPath
    from allranks.schema.validator import ChartSchema
    from allranks.values.sources import Loaded, Sources
    from allranks.yamlio.document import ValuesDocument

# A file is corrected from the outside in; nobody's values are nested this deep.
_PASSES_MAX = 50
# About so many at a time, of very many: a pass reads the whole file, and finds 400.
_FIXES_MAX = 1_000
_LINKS_MAX = 40  # as the kernel follows


@dataclass(frozen=True, slots=True)
class FixNote:
    """The fate of one fix, in words.

    Attributes:
        problem: the problem, with its place.
        fix: what its fix writes, and where.
        reason: why it was left out; "" for a fix that is in the new text.
    """

    problem: Problem
    fix: Fix
    reason: str = ""

    def as_dict(self) -> dict[str, Any]:
        """The same as JSON-ready data."""
        data: dict[str, Any] = self.problem.as_dict() | {"safe": self.fix.is_safe}
        if self.fix.value is not NOTHING:
            data["value"] = self.fix.value
        else:
            data["key"] = paths.show(self.fix.key)
        return data | ({"reason": self.reason} if self.reason else {})


@dataclass(frozen=True, slots=True)
class FixedFile:
    """A values file before and after its fixes.

    Attributes:
        name: its name as the person gave it.
        before: its content as it was read.
        after: its content with the fixes.
        other_names: how many other names (hard links) the same file has.
    """

    name: str
    before: bytes
    after: bytes
    other_names: int = 0


@dataclass(frozen=True, slots=True)
class FixPlan:
    """All fixes that values can have.

    Attributes:
        files: the files that change, in the order of the command line.
        applied: the fixes that are in them, in the order in which they were made.
        omissions: the fixes that are not, each with its reason, in the order of the files.
        before: the sources with the contents that were read.
        after: the sources with the fixed contents.
    """

    files: tuple[FixedFile, ...]
    applied: tuple[FixNote, ...]
    omissions: tuple[FixNote, ...]
    before: Sources
    after: Sources


class _LeftOutError(Exception):
    """A fix cannot be written; the text says why."""


def plan(
    sources: Sources, *, release: str = "", namespace: str = "", with_unsafe: bool = False
) -> FixPlan:
    """Fix the values files that a person named, in memory.

    Args:
        sources: the files and flags; only the files are fixed.
        release: the release's name; "" if there is none yet.
        namespace: its namespace; "" if there is none yet.
        with_unsafe: write fixes too of which it is not certain that they are what was meant.

    Returns:
        The fixes. Of very many problems some are left for the next time.

    Raises:
        InputError: a source cannot be read, or is not YAML.
    """
    read = {
        name: sources.contents[name] if name in sources.contents else files.read(name)
        for name in dict.fromkeys(sources.files)
    }
    contents = dict(read)
    applied: list[FixNote] = []
    omissions: list[FixNote] = []
    written_fixes: set[tuple[str, ValuesPath, str]] = set()
    refused_fixes: dict[tuple[str, ValuesPath, str], str] = {}
    for _ in range(_PASSES_MAX):
        refused_before = len(refused_fixes)
        loaded = load_sources(replace(sources, contents=contents))
        one_pass = _Pass(
            sources,
            loaded,
            contents,
            (release, namespace),
            with_unsafe=with_unsafe,
            written_fixes=written_fixes,
            refused_fixes=refused_fixes,
        )
        one_pass.run()
        applied += one_pass.applied
        omissions = one_pass.omissions
        if len(applied) >= _FIXES_MAX:
            break
        if one_pass.applied:
            refused_fixes.clear()  # what was wrong then may be right now
        elif not one_pass.is_deferred or len(refused_fixes) == refused_before:
            break
    return FixPlan(
        files=_changed_files(read, contents),
        applied=tuple(applied),
        omissions=tuple(omissions),
        before=replace(sources, contents=read),
        after=replace(sources, contents=contents),
    )


def _changed_files(
    read: Mapping[str, bytes], contents: Mapping[str, bytes]
) -> tuple[FixedFile, ...]:
    """The files that change; two names of one file, by a link, are one file."""
    changed: dict[str, FixedFile] = {}
    for name, content in read.items():
        if content != contents[name]:
            file = FixedFile(name, content, contents[name], _status(name).st_nlink - 1)
            changed.setdefault(os.path.realpath(name), file)
    return tuple(changed.values())


@dataclass(frozen=True, slots=True)
class _PendingFix:
    """A fix that nothing speaks against so far.

    Attributes:
        place: the real path of the file that it changes.
        name: that file's name as the person gave it.
        path: the path of the problem as keys.
        problem: the problem.
        fix: its fix.
    """

    place: str
    name: str
    path: ValuesPath
    problem: Problem
    fix: Fix

    @property
    def is_move(self) -> bool:
        """Whether it brings a value to another place."""
        return bool(self.fix.key) and self.path[:-1] != self.fix.key[:-1]

    @property
    def is_checked(self) -> bool:
        """Whether it is written only if it brings about no other problem."""
        return self.is_move or not self.fix.is_safe

    @property
    def mark(self) -> tuple[str, ValuesPath, str]:
        """The key by which every pass knows it."""
        return self.place, self.path, str(self.fix)

    @property
    def change(self) -> edit.ValueChange:
        """The fix as a change of a text; not for a move."""
        if self.fix.key:
            return edit.ValueChange(self.path, name=str(self.fix.key[-1]))
        return edit.ValueChange(self.path, value=self.fix.value)


class _Paths:
    """Paths, and whether another one is among them, above one or below one."""

    def __init__(self) -> None:
        self._paths: set[ValuesPath] = set()
        self._above: set[ValuesPath] = set()

    def add(self, path: ValuesPath) -> None:
        """Add a path."""
        self._paths.add(path)
        self._above.update(path[:end] for end in range(len(path) + 1))

    def overlap(self, path: ValuesPath) -> bool:
        """Whether a path is one of them, or stands above or below one."""
        return path in self._above or any(path[:end] in self._paths for end in range(len(path) + 1))


class _Pass:
    """One look at all problems, and the fixes that do not touch each other.

    A file is parsed once for all its values and keys that stay where they are, and the whole is
    checked once for all guesses and moves: 1,600 fixes take about as long per fix as 200. A value
    that moves costs a look at its file; of these there are at most as many as the chart has keys.
    """

    def __init__(
        self,
        sources: Sources,
        loaded: Loaded,
        contents: dict[str, bytes],
        release: tuple[str, str],
        *,
        with_unsafe: bool,
        written_fixes: set[tuple[str, ValuesPath, str]],
        refused_fixes: dict[tuple[str, ValuesPath, str], str],
    ) -> None:
        self.applied: list[FixNote] = []
        self.omissions: list[FixNote] = []
        # Whether a fix waits for what becomes of another one that it touches.
        self.is_deferred = False
        self._sources = sources
        self._loaded = loaded
        self._contents = contents
        self._release = release
        self._with_unsafe = with_unsafe
        # By file, path and sentence; what did not help once is not written again.
        self._written = written_fixes
        # Likewise, and why: what was tried since something was written last.
        self._refused = refused_fixes
        self._judge: ChartSchema = engine(loaded.workload)
        self._defaults = defaults(loaded.workload)
        # What was changed in each file, because what stands there is now known no more.
        self._touched: dict[str, _Paths] = {}
        # The order of the problems, for the notes.
        self._order: dict[int, int] = {}
        # Where something is wrong with the contents as they are now, as far as that is known.
        self._problem_paths: set[ValuesPath] = set()
        self._is_cut = False

    def run(self) -> None:
        """Write the fixes into the contents."""
        problems = list(resolve.find_problems(self._loaded, *self._release))
        self._order = {id(problem): index for index, (_, problem) in enumerate(problems)}
        rivals = _rivals(problems)
        candidates: list[_PendingFix] = []
        for path, problem in problems:
            fix = problem.hint
            if not isinstance(fix, Fix) or not fix.is_data:
                continue
            try:
                candidates += self._candidates(path, problem, fix, rivals.get(path, ""))
            except (_LeftOutError, InputError) as error:
                self._leave_out(problem, fix, error)
        for here in _by_place([item for item in candidates if not item.is_checked]):
            self._write(here)
        checked = [item for item in candidates if item.is_checked]
        if checked:
            loaded = load_sources(replace(self._sources, contents=self._contents))
            self._know(resolve.find_problems(loaded, *self._release))
            self._write_checked(checked)
        self.applied.sort(key=lambda note: self._order[id(note.problem)])
        self.omissions.sort(key=lambda note: self._order[id(note.problem)])

    def _leave_out(self, problem: Problem, fix: Fix, error: Exception) -> None:
        reason = error.problem.message if isinstance(error, InputError) else str(error)
        self.omissions.append(FixNote(problem, fix, reason))

    def _refuse(self, item: _PendingFix, reason: str) -> None:
        """Leave out a fix that was tried."""
        self.omissions.append(FixNote(item.problem, item.fix, reason))
        self._refused[item.mark] = reason

    def _candidates(
        self, path: ValuesPath, problem: Problem, fix: Fix, rival: str
    ) -> list[_PendingFix]:
        """A fix that can be written; none where another one of this pass comes first.

        Raises:
            _LeftOutError: it is not to be written, and why.
        """
        name, document = self._origin(path)
        if rival:
            raise _LeftOutError(rival)
        if not (fix.is_safe or self._with_unsafe):
            raise _LeftOutError("it is not certain that this was meant: --unsafe-fixes writes it")
        place = os.path.realpath(name)
        mark = (place, path, str(fix))
        if mark in self._written:
            raise _LeftOutError("it was written, and the problem is still there")
        if mark in self._refused:
            raise _LeftOutError(self._refused[mark])
        touched = self._touched.setdefault(place, _Paths())
        ours = [path, *([fix.key] if fix.key else [])]
        if any(touched.overlap(mine) for mine in ours):
            self.is_deferred = True
            return []
        if fix.value is not NOTHING and not fix.key:
            self._refuse_value(path, fix)
        else:
            self._refuse_key(document, path, fix)
        for mine in ours:
            touched.add(mine)
        return [_PendingFix(place, name, path, problem, fix)]

    def _write(self, items: list[_PendingFix]) -> None:
        """Write fixes of one file that stay where they are."""
        name = items[0].name
        try:
            text, errors = edit.change_values(
                _text(self._contents[name]), [item.change for item in items], name
            )
        except InputError as refusal:  # the file as a whole cannot be edited
            for item in items:
                self._refuse(item, refusal.problem.message)
            return
        self._put(items[0].place, text)
        for item, error in zip(items, errors, strict=True):
            if error is None:
                self._note(item)
            else:
                self._refuse(item, error.problem.message)

    def _write_checked(self, items: list[_PendingFix]) -> None:
        """Write guesses and moves, but those that bring about another problem.

        They are tried together, because two of them may be right together alone: both ends of a
        range. Where that does not do, those go first at whose place a problem is.
        """
        while items:
            before, applied_count, omission_count = (
                dict(self._contents),
                len(self.applied),
                len(self.omissions),
            )
            for here in _by_place([item for item in items if not item.is_move]):
                self._write(here)
            for item in items:
                if item.is_move:
                    self._move(item)
            applied_ids = {id(note.problem) for note in self.applied[applied_count:]}
            tried = [item for item in items if id(item.problem) in applied_ids]
            new = self._new_problems(tried)
            if not new:
                return
            self._contents.update(before)
            del self.applied[applied_count:], self.omissions[omission_count:]
            for item in tried:
                self._written.discard(item.mark)
            blamed = _fixes_to_blame(tried, new) if tried[1:] else tried
            for item in blamed:
                self._refuse(item, _instead(item, new))
            if not blamed:
                middle = len(items) // 2
                self._write_checked(items[:middle])
                items = items[middle:]
            blamed_ids = {id(item) for item in blamed}
            items = [item for item in items if id(item) not in blamed_ids]

    def _move(self, item: _PendingFix) -> None:
        """Bring a value to another place."""
        try:
            text = edit.move_value(
                _text(self._contents[item.name]), item.path, item.fix.key, item.name
            )
        except InputError as error:
            self._refuse(item, error.problem.message)
            return
        self._put(item.place, text)
        self._note(item)

    def _note(self, item: _PendingFix) -> None:
        self.applied.append(FixNote(item.problem, item.fix))
        self._written.add(item.mark)

    def _put(self, place: str, text: str) -> None:
        """Give a file another text, by all its names."""
        for name in self._contents:
            if os.path.realpath(name) == place:
                self._contents[name] = text.encode()

    def _origin(self, path: ValuesPath) -> tuple[str, ValuesDocument]:
        """The file that gives a value, by the name that the person gave, and what stands in it.

        Raises:
            _LeftOutError: it comes from elsewhere, or the file is none that can be written.
        """
        loaded = self._loaded
        # Layers are presets, the queue's defaults, files, flags, and what the queue imposes.
        first = len(loaded.presets) + (loaded.queue is not None)
        for index in reversed(range(len(loaded.layers))):
            layer = loaded.layers[index]
            if isinstance(layer, Flag):
                if any(_overlap(path, layer_path) for layer_path in layer.paths):
                    raise _LeftOutError(f"it comes from {layer}, and no file is changed for it")
            elif layer.line(path) is not None:
                if isinstance(layer, QueueBlock):
                    raise _LeftOutError(f"it comes from {layer.source}")
                if index < first:
                    raise _LeftOutError(f"it comes from the preset {loaded.presets[index]}")
                name = self._sources.files[index - first]
                _refuse_file(name)
                return name, layer
        raise _LeftOutError("no file has it")

    def _refuse_value(self, path: ValuesPath, fix: Fix) -> None:
        if not self._accepts(path, fix.value):
            raise _LeftOutError("what it says would be refused as well")

    def _accepts(self, path: ValuesPath, value: Any) -> bool:
        """Whether the schema takes a value at a path, over the chart's defaults."""
        node = self._judge.at(path)
        default: Any = self._defaults
        for step in path:
            default = default.get(step) if isinstance(default, dict) else None
        if isinstance(value, dict) and isinstance(default, dict):
            value = merge(default, value)
        return not node or self._judge.accepts(node, value)

    def _refuse_key(self, document: ValuesDocument, path: ValuesPath, fix: Fix) -> None:
        parent, node = self._judge.at(fix.key[:-1]), self._judge.at(fix.key)
        is_free = bool(parent) and parent.get("additionalProperties", True) is not False
        value: Any = document.data
        for step in path:
            value = value[step]
        if not (node or is_free):
            raise _LeftOutError(f"there is no key {paths.show(fix.key)}")
        if document.line(fix.key) is not None:
            raise _LeftOutError(f"the file has {paths.show(fix.key)} already")
        # A key that was only misspelt is corrected whatever stands there; a value that goes
        # elsewhere has to be one for there.
        is_map = isinstance(value, dict) and "object" in node.get("type", ())
        if path[:-1] != fix.key[:-1] and not (is_map or self._accepts(fix.key, value)):
            raise _LeftOutError(f"{paths.show(fix.key)} does not take what stands there")

    def _new_problems(self, items: list[_PendingFix]) -> list[tuple[ValuesPath, Problem]]:
        """The problems that these fixes have brought about; where there are none, they are kept.

        A problem below a map that has got another key was there before, unseen; but below a key
        that is a guess it says that the guess is wrong.
        """
        try:
            loaded = load_sources(replace(self._sources, contents=self._contents))
        except InputError as error:
            return [((), error.problem)]
        problems = resolve.find_problems(loaded, *self._release)
        ours = {item.fix.key or item.path for item in items}
        renamed = [item.fix.key for item in items if item.fix.key and item.fix.is_safe]

        def is_ours(path: ValuesPath) -> bool:
            if self._is_cut or path in self._problem_paths:
                return False
            return not any(path[: len(key)] == key for key in renamed)

        new = [(path, problem) for path, problem in problems if path in ours or is_ours(path)]
        if not new:
            self._know(problems)
        return new

    def _know(self, problems: Sequence[tuple[ValuesPath, Problem]]) -> None:
        """Keep what is wrong now, to tell it from what comes later."""
        self._problem_paths = {path for path, _ in problems}
        # Of very many problems some are only counted, and come up later.
        self._is_cut = len(problems) > PROBLEMS_MAX


def _fixes_to_blame(
    items: Sequence[_PendingFix], new: Sequence[tuple[ValuesPath, Problem]]
) -> list[_PendingFix]:
    """The fixes at whose place a new problem is, or else those beside one."""
    targets = [(item, item.fix.key or item.path) for item in items]
    at_place = [item for item, target in targets if any(path == target for path, _ in new)]
    return at_place or [
        item
        for item, target in targets
        if len(target) > 1 and any(path[:-1] == target[:-1] for path, _ in new)
    ]


def _instead(item: _PendingFix, new: Sequence[tuple[ValuesPath, Problem]]) -> str:
    """Why a fix is not written that brings about other problems."""
    if any(path == item.fix.key for path, _ in new):
        return f"it would be refused as {paths.show(item.fix.key)} as well"
    path, problem = next((pair for pair in new if pair[0] == item.path), new[0])
    return f"then {paths.show(path)} would be refused: {problem.message}"


def _rivals(problems: Sequence[tuple[ValuesPath, Problem]]) -> dict[ValuesPath, str]:
    """Why a fix is not written whose key is that of another one's fix, too.

    Returns:
        The reasons by the paths of the problems. Where one fix alone is certain, it has none.
    """
    fixes_by_key: dict[ValuesPath, dict[ValuesPath, Fix]] = {}
    for path, problem in problems:
        if isinstance(problem.hint, Fix) and problem.hint.key:
            fixes_by_key.setdefault(problem.hint.key, {})[path] = problem.hint
    reasons: dict[ValuesPath, str] = {}
    for key, fixes in fixes_by_key.items():
        certain = [path for path, fix in fixes.items() if fix.is_safe]
        for path in fixes:
            others = [paths.show(other) for other in fixes if other != path]
            if [path] == certain or not others:
                continue
            target = paths.show(key)
            reasons[path] = (
                f"{paths.show(certain[0])} is certain to be {target}, and this is not"
                if len(certain) == 1
                else f"it is not certain that it is {target}: {list_some(others)} may be that, too"
            )
    return reasons


def _by_place(items: Sequence[_PendingFix]) -> list[list[_PendingFix]]:
    """Fixes by the file that they change."""
    places: dict[str, list[_PendingFix]] = {}
    for item in items:
        places.setdefault(item.place, []).append(item)
    return list(places.values())


def _refuse_file(name: str) -> None:
    """Refuse what is no file of the person's own to be written.

    Raises:
        _LeftOutError: it is standard input, an open file, a pipe or read-only.
    """
    if name.strip() == files.STDIN:
        raise _LeftOutError("it comes from standard input")
    if name.endswith(CONVERTED):
        raise _LeftOutError(f"{name.removesuffix(CONVERTED)} is no values file")
    if _is_descriptor(name):
        raise _LeftOutError(f"{name} is an open file and not its name")
    mode = _status(name).st_mode
    if not stat.S_ISREG(mode):
        raise _LeftOutError(f"{name} is a pipe or a device")
    if not mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH):
        raise _LeftOutError(f"{name} is read-only")


def _is_descriptor(name: str) -> bool:
    """Whether a name leads to what a process has open: ``/dev/stdin``, ``/dev/fd/3``."""
    path = os.path.abspath(name)  # noqa: PTH100 - links are followed one by one
    for _ in range(_LINKS_MAX):
        folder = os.path.realpath(os.path.dirname(path))  # noqa: PTH120 - likewise
        if folder in ("/dev", "/dev/fd") or folder.startswith("/proc/"):
            return True
        if not os.path.islink(path):  # noqa: PTH114 - likewise
            return False
        path = os.path.join(folder, os.readlink(path))  # noqa: PTH115, PTH118 - likewise
    return True


def _status(name: str) -> os.stat_result:
    return os.stat(name)  # noqa: PTH116 - the name as it was given, links followed


def _text(content: bytes) -> str:
    # It was read as UTF-8 before, or there would be no values.
    return content.decode("utf-8")


def _overlap(path: ValuesPath, other: ValuesPath) -> bool:
    """Whether one path is the other's, or stands above it."""
    return all(part == other_part for part, other_part in zip(path, other, strict=False))
