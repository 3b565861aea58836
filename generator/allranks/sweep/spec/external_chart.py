"""External charts: find one, and read its default values."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from allranks.errors import AllranksError, InputError, RunError, ToolError
from allranks.yamlio import load as yaml

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allranks.helm.binary import HelmBinary

_VALUES = "values.yaml"
_CHART = "Chart.yaml"
_IS_CHART = f"name a folder with a {_CHART} in it"


def absolute(chart: str, folder: Path, path: str = "", source: str = "") -> str:
    """Return the absolute path of a chart; a reference stays as it is.

    Args:
        chart: a folder, an archive, or a reference such as ``repo/chart`` or ``oci://…``.
        folder: the base of a relative path; then the working folder.
        path: the values path that names it, for the message; "" for none.
        source: where that stands.

    Raises:
        InputError: it does not exist and does not look like a reference, or is no chart.
    """
    for base in (folder, Path.cwd()):
        candidate = base / chart
        if candidate.is_dir() and not (candidate / _CHART).is_file():
            raise InputError(f"{chart!r} is no chart", path=path, hint=_IS_CHART, source=source)
        if candidate.exists():
            return str(candidate.resolve())
    is_path = chart.startswith((".", "/", "~"))
    if not is_path and ("://" in chart or chart.count("/") == 1):
        return chart
    raise InputError(
        f"there is no chart {chart!r}", path=path, hint=f"{_IS_CHART}, or repo/chart", source=source
    )


def defaults(chart: str, binary: HelmBinary | None = None) -> Mapping[str, Any]:
    """Return the chart's default values.

    Args:
        chart: of `absolute`.
        binary: the helm that reads a chart that is not a folder; None to find one.

    Raises:
        InputError: it is not a chart, or its values cannot be read.
        AllranksError: helm cannot fetch it.
    """
    folder = Path(chart)
    if folder.is_dir():
        if not (folder / _CHART).is_file():
            raise InputError(f"{chart} is no chart", hint=_IS_CHART)
        file = folder / _VALUES
        return _mapping(file.read_bytes(), str(file)) if file.is_file() else {}
    from allranks.helm import binary as helm_binary
    from allranks.helm.driver import HelmCommand, call

    helm = binary or helm_binary.find()
    try:
        text = call(HelmCommand(helm).run(["show", "values", chart]))
    except (RunError, ToolError) as error:
        raise fetch_error(error, chart) from error
    return _mapping(text, chart)


def fetch_error(error: AllranksError, chart: str) -> AllranksError:
    """Return the error for a helm command that did nothing but fetch a chart."""
    message = error.problem.message
    for words in ("the cluster does not answer: ", "helm failed: "):
        message = message.removeprefix(words)
    return RunError(
        f"the chart {chart} cannot be fetched: {message}",
        hint=f"check its address and the network; `helm show chart {chart}` asks for it alone",
    )


def install_error(error: AllranksError, chart: str) -> AllranksError:
    """Return the error for a failed install of a chart reference, perhaps about its registry."""
    host = urlsplit(chart).hostname
    about = "does not answer" in error.problem.message and host and host in error.problem.message
    return fetch_error(error, chart) if about else error


def makes_job(text: str) -> bool:
    """Whether a chart's manifests have a Job that is not a hook."""
    for manifest in yaml.load_all(text):
        if isinstance(manifest, dict) and manifest.get("kind") == "Job":
            annotations = (manifest.get("metadata") or {}).get("annotations") or {}
            if "helm.sh/hook" not in annotations:
                return True
    return False


def _mapping(text: bytes, source: str) -> Mapping[str, Any]:
    """Return the mapping in a values file; empty for a file of comments alone."""
    data = [item for item in yaml.load_all(text, source) if item is not None]
    if data and not isinstance(data[0], dict):
        raise InputError("holds no mapping of values", source=source)
    return data[0] if data else {}
