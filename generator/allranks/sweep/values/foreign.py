"""Charts that are not ours: where one is, and what its values are when nothing is given."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from allranks.errors import AllranksError, InputError, RunError, ToolError
from allranks.yamlio import load as yaml

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allranks.helm.locate import HelmBinary

_VALUES = "values.yaml"


def absolute(named: str, folder: Path) -> str:
    """The chart's path, wherever it is asked for from; a reference stays as it is.

    Args:
        named: a folder, an archive, or a reference such as ``repo/chart`` or ``oci://…``.
        folder: what a relative path is relative to.

    Raises:
        InputError: it is neither there nor like a reference.
    """
    for base in (folder, Path.cwd()):
        found = base / named
        if found.exists():
            return str(found.resolve())
    is_path = named.startswith((".", "/", "~"))
    if not is_path and ("://" in named or named.count("/") == 1):
        return named
    raise InputError(
        f"there is no chart {named!r}", hint="name a folder with a Chart.yaml in it, or repo/chart"
    )


def defaults(chart: str, binary: HelmBinary | None = None) -> Mapping[str, Any]:
    """The chart's own values.

    Args:
        chart: of `absolute`.
        binary: asked for what is no folder.

    Raises:
        InputError: it is no chart, or its values cannot be read.
        AllranksError: helm cannot get it.
    """
    folder = Path(chart)
    if folder.is_dir():
        if not (folder / "Chart.yaml").is_file():
            raise InputError(f"{chart} is no chart", hint="name a folder with a Chart.yaml in it")
        file = folder / _VALUES
        return _mapping(file.read_bytes(), str(file)) if file.is_file() else {}
    from allranks.helm import locate  # noqa: PLC0415 - a folder needs no helm
    from allranks.helm.driver import Command, call  # noqa: PLC0415

    found = binary or locate.find()
    try:
        text = call(Command(found).run(["show", "values", chart]))
    except (RunError, ToolError) as error:
        raise unfetched(error, chart) from error
    return _mapping(text, chart)


def unfetched(error: AllranksError, chart: str) -> AllranksError:
    """What a failure of helm's means where nothing but a chart was asked for."""
    why = error.problem.message
    for words in ("the cluster does not answer: ", "helm failed: "):
        why = why.removeprefix(words)
    return RunError(
        f"the chart {chart} cannot be fetched: {why}",
        hint=f"check its address and the network; `helm show chart {chart}` asks for it alone",
    )


def fetched(error: AllranksError, chart: str) -> AllranksError:
    """What a failure of an install means whose chart is a reference: it may be about the chart."""
    host = urlsplit(chart).hostname
    about = "does not answer" in error.problem.message and host and host in error.problem.message
    return unfetched(error, chart) if about else error


def makes_job(text: str) -> bool:
    """Whether a chart's manifests have a Job that belongs to its release: a hook does not."""
    for one in yaml.load_all(text):
        if isinstance(one, dict) and one.get("kind") == "Job":
            annotations = (one.get("metadata") or {}).get("annotations") or {}
            if "helm.sh/hook" not in annotations:
                return True
    return False


def _mapping(text: bytes, source: str) -> Mapping[str, Any]:
    """What a values file holds; one of comments alone holds nothing."""
    data = [item for item in yaml.load_all(text, source) if item is not None]
    if data and not isinstance(data[0], dict):
        raise InputError("holds no mapping of values", source=source)
    return data[0] if data else {}
