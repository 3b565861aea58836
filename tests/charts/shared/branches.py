"""Which branches of which templates a render reaches.

Each branch gets a `fail` with a number of its own. Where helm lints, a `fail` is a line of its log
and stops nothing: one run says all that values reach which render. Where it renders, it stops at
the first, which is then taken out; values that a chart refuses are followed up to its own `fail`.
"""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING, Any

from allranks.yamlio.dump import dump

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_BRANCH = re.compile(r"\{\{-?\s*(?:if|else|with|range|define)\b.*?\}\}", re.DOTALL)
_MET = re.compile(r'funcMap fail" message="?REACHED (\d+)\.')
_STOPPED = re.compile(r"REACHED (\d+)\.")


class Instrumented:
    """A copy of all charts, with a `fail` in each branch of some that was not reached yet."""

    def __init__(self, charts: Path, folder: Path, judged: Iterable[str]) -> None:
        shutil.copytree(charts, folder / "charts", symlinks=True)
        self.charts = folder / "charts"
        self.sources: dict[Path, str] = {}
        self.unreached: dict[int, tuple[Path, int]] = {}
        # A template that another chart's links to is judged where it is.
        paths = [
            path
            for name in judged
            for path in self.charts.glob(f"{name}/templates/*")
            if not path.is_symlink()
        ]
        for path in sorted(paths):
            text = path.read_text(encoding="utf-8")
            self.sources[path] = text
            for branch in _BRANCH.finditer(text):
                self.unreached[len(self.unreached)] = (path, branch.end())
        self.write(set(self.sources))

    def write(self, paths: set[Path]) -> None:
        """Templates with the branches that are left; what they print stays the same."""
        for path in paths:
            text = self.sources[path]
            marks = [
                (end, number) for number, (where, end) in self.unreached.items() if where == path
            ]
            for end, number in sorted(marks, reverse=True):
                close = "-}}" if text.endswith("-}}", 0, end) else "}}"
                text = f'{text[:end]}{{{{ fail "REACHED {number}." {close}{text[end:]}'
            path.write_text(text, encoding="utf-8")

    def reach_all(self, helm: Any, chart: str, values: dict[str, Any]) -> None:
        """Take out every branch that values reach which render, in one run."""
        if self._nothing_left(chart):
            return
        flags = ("--skip-schema-validation", "-f", "-")
        output = helm.run("lint", self.charts / chart, *flags, stdin=dump(values)).stderr
        self._take({int(number) for number in _MET.findall(output)})

    def reach(self, helm: Any, chart: str, values: dict[str, Any], name: str = "demo") -> None:
        """Take out every branch that values reach, up to where they are refused."""
        flags = ("--skip-schema-validation", "-f", "-")
        while not self._nothing_left(chart):
            words = ("template", name, self.charts / chart, *flags)
            match = _STOPPED.search(helm.run(*words, stdin=dump(values), check=False).stderr)
            if match is None:
                return
            self._take({int(match[1])})

    def _nothing_left(self, chart: str) -> bool:
        return not any(path.parts[-3] in (chart, "library") for path, _ in self.unreached.values())

    def _take(self, reached: set[int]) -> None:
        branches = [self.unreached.pop(number) for number in reached if number in self.unreached]
        self.write({path for path, _ in branches})

    def where(self) -> list[str]:
        """File, line and text of what is left."""
        places = []
        for path, end in self.unreached.values():
            before = self.sources[path][:end]
            line = before.count("\n") + 1
            places.append(f"{path.parent.parent.name}/{path.name}:{line} {before.splitlines()[-1]}")
        return places
