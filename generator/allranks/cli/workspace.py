"""The options of commands that send a folder of code, and what they print about it."""

from __future__ import annotations

import functools
import sys
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from allranks.errors import InputError, InvalidValues

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from allranks.cli.console import Console
    from allranks.schema.paths import ValuesPath
    from allranks.service.workspace import PackedWorkspace


@dataclass(frozen=True, slots=True)
class WorkspaceFlags:
    """The flags about the workspace.

    Attributes:
        folder: of --workspace; "" for none.
        include: of --include: paths that are sent although a rule keeps them out.
    """

    folder: str = ""
    include: tuple[str, ...] = ()

    def pack(
        self,
        values: Mapping[str, Any],
        *,
        where: Callable[[ValuesPath], str] | None = None,
        is_local: bool = False,
        console: Console | None = None,
    ) -> PackedWorkspace | None:
        """Take and pack the snapshot; None where there is no workspace.

        Args:
            values: the values of the job, with its chart's defaults; they are valid.
            where: gives the place that a value came from; None where nobody knows.
            is_local: it is for a run on this machine.
            console: where somebody at a terminal is told that it takes a while; None for nowhere.

        Raises:
            InputError: the folder cannot be sent as it is, or not by the way that was asked for.
        """
        if not self.folder:
            if self.include:
                raise InputError(
                    "is about a workspace, and there is none",
                    path="--include",
                    hint="name the folder with --workspace",
                )
            return None
        from allranks.service import workspace
        from allranks.values import check

        problems = check.mount_problems(values, where or (lambda _: ""))
        if problems:
            raise InvalidValues(problems)
        with _patience(console, f"packing {self.folder} …"):
            return workspace.pack(self.folder, self.include, values, is_local=is_local)


_SILENT_SECONDS = 1.0


@contextmanager
def _patience(console: Console | None, words: str) -> Iterator[None]:
    """Say what takes long, where somebody waits for it at a terminal."""
    if console is None or not sys.stderr.isatty():
        yield
        return
    timer = threading.Timer(_SILENT_SECONDS, console.note, [words])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def workspace_options(default: str = "") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add --workspace and --include; the command gets them as `workspace`.

    Args:
        default: the folder where none is named; "" is no workspace.
    """
    usual = "Default: the current folder." if default else "Default: none; the image has the code."

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def with_workspace(*args: Any, **options: Any) -> Any:
            folder, include = options.pop("workspace"), options.pop("include")
            if folder == "":
                raise InputError("is empty", path="--workspace", hint="name a folder, such as .")
            flags = WorkspaceFlags(folder or default, include)
            return function(*args, workspace=flags, **options)

        command = click.option(
            "--include",
            multiple=True,
            metavar="PATH",
            help="Send this path of the workspace whatever rule keeps it out. May be repeated.",
        )(with_workspace)
        return click.option(
            "--workspace",
            metavar="DIR",
            type=click.Path(),
            help=f"The folder of code to send along; each pod gets a copy. {usual}",
        )(command)

    return decorate


_PATHS_SHOWN = 5


def show(console: Console, packed: PackedWorkspace) -> None:
    """Show what goes, its largest files, and what stays out because of which rule.

    Args:
        console: where to show it.
        packed: the workspace.
    """
    from allranks.humanize import list_some, plural
    from allranks.service.workspace import size

    report = packed.report
    console.text("")
    console.text(f"workspace {report.folder}")
    counts = [plural(report.files, "file"), plural(report.folders, "folder")]
    if report.links:
        counts.append(plural(report.links, "link"))
    console.text(
        f"  goes      {', '.join(counts)}; {size(report.size)}, {size(report.packed)} as "
        f"{report.compression}"
    )
    console.text(f"  by        {report.way.via}: {report.way.reason}")
    if report.way.place:
        verb = "pushed" if report.way.via == "image" else "written"
        console.text(
            f"  to        {report.way.place}: it would be {verb} there, unless it is there"
        )
    console.text(f"  digest    {report.digest}")
    if report.revision is not None:
        on = f" on {report.revision.branch}" if report.revision.branch else ""
        differs = ", and the folder differs from it" if report.revision.is_dirty else ""
        console.text(f"  commit    {report.revision.commit}{on}{differs}")
    for path, other in report.look_alikes:
        console.text(
            f"  names     {path} and {other} differ in what macOS and Windows do not tell apart; "
            "pods do"
        )
    console.text("")
    console.text("the largest files")
    console.table(
        ["SIZE", "PATH"],
        [(size(file.size), file.path) for file in report.largest_files],
        right=["SIZE"],
    )
    if report.largest_folders:
        console.text("")
        console.text("the largest folders")
        console.table(
            ["SIZE", "FILES", "PATH"],
            [(size(item.size), str(item.files), item.path) for item in report.largest_folders],
            right=["SIZE", "FILES"],
        )
    if not report.excluded:
        return
    console.text("")
    console.text("stays out")
    console.table(
        ["RULE", "PATHS"],
        [(rule, list_some(paths, _PATHS_SHOWN)) for rule, paths in report.excluded.items()],
        wrap="PATHS",
    )
