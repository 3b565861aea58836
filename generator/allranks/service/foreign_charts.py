"""Render charts of other people, whose jobs are converted."""

from __future__ import annotations

import bisect
import gzip
import re
import zlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.convert.documents.document import documents_of
from allranks.errors import InputError, InvalidValues, TemplateError
from allranks.values import files, merge, strvals
from allranks.values.rules.names import nearest_name
from allranks.yamlio import load

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from allranks.convert.documents.document import Document

_CHART = "Chart.yaml"
# How a file that gzip has compressed begins.
GZIP = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class ChartInput:
    """The input with which a chart is rendered.

    Attributes:
        values: values files.
        assignments: what is set of them: ``a.b=x``.
        helm: the helm to use; "" for the one on PATH.
    """

    values: tuple[str, ...] = ()
    assignments: tuple[str, ...] = ()
    helm: str = ""

    def refuse_without(self, paths: Iterable[str]) -> None:
        """Refuse values that no chart gets.

        Args:
            paths: the files of the input.

        Raises:
            InputError: there are values, and none of the files is a chart.
        """
        if (self.values or self.assignments) and not any(is_chart(Path(path)) for path in paths):
            option = "--chart-values" if self.values else "--chart-set"
            raise InputError(
                f"{option} is for a chart, and no file is one",
                hint="leave it out, or name the chart: a folder with Chart.yaml, or its archive",
            )


def is_chart(path: Path) -> bool:
    """Whether a path is a chart: a folder with Chart.yaml, or an archive, however it is called.

    Args:
        path: the path.
    """
    try:
        is_file = path.is_file()
        return (path / _CHART).is_file() or (is_file and (path.suffix == ".tgz" or _is_tar(path)))
    except OSError:
        return False  # reading it says why


# Where the first header of an archive says that it is one.
_TAR, _TAR_AT = b"ustar", 257


def _is_tar(path: Path) -> bool:
    """Whether a file is a compressed archive, however it is called."""
    with path.open("rb") as stream:
        if stream.read(len(GZIP)) != GZIP:
            return False
    try:
        with gzip.open(path) as content:
            return content.read(_TAR_AT + len(_TAR)).endswith(_TAR)
    except (EOFError, zlib.error):
        return False


def documents(path: str, chart: ChartInput, namespace: str) -> Iterator[Document]:
    """The objects of a chart, each with the template that it is made by for its file.

    Their lines are those of what `helm template` prints.

    Args:
        path: the chart's folder or archive.
        chart: with what it is rendered.
        namespace: the namespace of the release; "" for helm's own default.

    Raises:
        InputError: it is no chart, or its templates fail with these values.
    """
    rendered = _rendered(Path(path), chart, namespace)
    lines = [0]
    templates = [path]
    for number, line in enumerate(rendered.split("\n"), 1):
        if match := _TEMPLATE.match(line):
            lines.append(number)
            templates.append(f"{path.rstrip('/')}/{match['template']} (rendered)")
    for document in documents_of(load.load_objects(rendered, path)):
        template = templates[bisect.bisect_right(lines, document.line) - 1]
        yield replace(document, source=template)


# Above each object helm writes the template, behind the name that the chart gives itself.
_TEMPLATE = re.compile(r"# Source: [^/]+/(?P<template>.+)")


def _rendered(path: Path, chart: ChartInput, namespace: str) -> str:
    """The manifests of a chart.

    Raises:
        InputError: it is no chart, or its templates fail with these values.
    """
    from allranks.helm import binary, driver

    values: dict[str, Any] = {}
    for name in chart.values:
        data = load.load(files.read_text(name), name).data
        values = merge.overlay(values, data)
    for assignment in chart.assignments:
        strvals.apply("set", assignment, values)
    stem = re.sub(r"\.(tgz|tar\.gz)$", "", path.name)
    name = nearest_name(stem, names.HELM_RELEASE_NAME_MAX)
    try:
        return driver.template(binary.find(chart.helm or None), name, namespace, path, values)
    except TemplateError as error:
        raise InvalidValues([error.problem.at(hint=_CHART_HINT, source=str(path))]) from error
    except InvalidValues as error:
        raise InvalidValues(
            [
                problem.at(
                    hint="; ".join(filter(None, (problem.hint, _CHART_HINT))),
                    source=problem.source or str(path),
                )
                for problem in error.problems
            ]
        ) from error


_CHART_HINT = (
    "give the values that it is installed with, by --chart-values FILE or --chart-set KEY=VALUE"
)
