"""The programs that the charts put into pods: the files of the charts, without their docstrings."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from allranks.yamlio.load import load_all
from tests.conftest import REPO

CHARTS = REPO / "charts"
# What the API server takes of an object's annotations together; `kubectl apply` keeps all of a
# ConfigMap in one (https://kubernetes.io/docs/concepts/overview/working-with-objects/annotations).
_ANNOTATIONS_MAX = 256 << 10
# All programs that a pod of torchrun can have at once, over ci/spares-values.yaml.
_EVERYTHING = {
    "workspace": {
        "mountPath": "/code",
        "snapshot": {
            "digest": "sha256:" + "0" * 64,
            "archiveDigest": "sha256:" + "1" * 64,
            "compression": "gzip",
            "via": "configMap",
            "configMaps": ["code-0"],
        },
    },
    "runPolicy": {"diagnose": True, "stallSeconds": 900},
    "torchrun": {"restartsInPlace": 3, "preflight": {"level": "full"}},
}


def _config_map(helm: Any, chart: str) -> dict[str, Any]:
    """The ConfigMap of a chart's pods with as many programs as they can have."""
    case, values = ("spares", _EVERYTHING) if chart == "torchrun" else ("full", {})
    file = CHARTS / chart / f"ci/{case}-values.yaml"
    (config_map,) = (
        manifest
        for manifest in load_all(helm.render(CHARTS / chart, "-f", file, values=values))
        if manifest["kind"] == "ConfigMap" and "entry.sh" in manifest["data"]
    )
    return dict(config_map)


def _code(text: str) -> str:
    """What a program does: its syntax without docstrings."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        match node:
            case ast.Module() | ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                if ast.get_docstring(node, clean=False) is not None:
                    node.body.pop(0)
            case _:
                pass
    return ast.dump(tree)


@pytest.mark.parametrize("chart", ["elastic", "mpi", "torchrun"])
def test_a_pod_runs_the_programs_of_its_chart(chart: str, helm: Any) -> None:
    """Line for line the same code; the docstrings alone are empty, which take a fifth of it."""
    contents = _config_map(helm, chart)["data"]
    programs = {name: text for name, text in contents.items() if name.endswith(".py")}
    assert programs
    for name, text in programs.items():
        folder = chart if (CHARTS / chart / "files" / name).exists() else "library"
        source = (CHARTS / folder / "files" / name).read_text(encoding="utf-8")
        assert _code(source) == _code(text), name
        assert '"""' not in text
        assert len(text) < len(source)


def test_all_programs_at_once_can_be_applied(helm4: Any) -> None:
    """`kubectl apply` and Argo CD write the whole ConfigMap into an annotation of 256 KiB."""
    config_map = _config_map(helm4, "torchrun")
    folder = CHARTS / "torchrun/files"
    assert {path.name for path in Path(folder).glob("*.py")} <= set(config_map["data"])
    # As Go writes JSON: each of these characters becomes six.
    text = json.dumps(config_map, ensure_ascii=False)
    size = len(text.encode()) + 5 * sum(text.count(character) for character in "<>&")
    assert size < _ANNOTATIONS_MAX - (8 << 10), "there is no room left for a script"
