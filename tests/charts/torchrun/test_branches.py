"""Every branch of every template is rendered by a ci file, or by values that are refused.

Each branch gets a `fail` with a number of its own. A render stops at the first one it meets, which
is then known to be reached and is taken out; when nothing stops it any more the next values follow.
What is left at the end no test ever renders.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import yaml

from allranks.yamlio.dump import dump
from allranks.yamlio.load import load

HERE = Path(__file__).parent
_BRANCH = re.compile(r"\{\{-?\s*(?:if|else|with|range|define)\b.*?\}\}", re.DOTALL)

# Values that only other tests give, for branches that no job needs in CI.
_MORE: list[dict[str, Any]] = [
    {"nodes": 2, "storage": {"datasets": {"size": "1Gi", "accessModes": ["ReadWriteOnce"]}}},
    {"script": "x", "setup": "y" * 1_048_576, "command": []},
    {"torchrun": {"rdzvBackend": "static"}, "nodes": 2},
    {"torchrun": {"rdzvBackend": "static", "controller": "StatefulSet"}, "nodes": 2},
    {"gpus": 1, "resources": {"perGpu": {"memory": "lots"}}},
    {"gpus": 1, "resources": {"perGpu": {"memory": "1234567890123"}}},
    {"podTemplate": {"spec": {"$retainKeys": []}}},
    {"podTemplate": {"spec": {"affinity": {"$patch": "drop"}}}},
    {"podTemplate": {"spec": {"securityContext": {"$patch": "delete"}, "containers": [None]}}},
    {
        "podTemplate": {
            "spec": {
                "securityContext": {"$patch": "replace", "runAsUser": 7},
                "volumes": [{"$patch": "replace"}],
                "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "x"}],
                "resourceClaims": [{"name": "gpu"}],
                "containers": [
                    {
                        "name": "trainer",
                        "volumeDevices": [{"name": "x", "devicePath": "/dev/x"}],
                        "ports": [{"containerPort": 1}],
                        "readinessGates": [{"conditionType": "a"}],
                    }
                ],
            },
            "metadata": {"ownerReferences": [{"uid": "1"}]},
        }
    },
]


class Instrumented:
    """A copy of the charts with a `fail` in each branch that was not reached yet."""

    def __init__(self, charts: Path, folder: Path) -> None:
        for name in ("library", "torchrun"):
            shutil.copytree(charts / name, folder / name, symlinks=True)
        self.chart = folder / "torchrun"
        self.sources: dict[Path, str] = {}
        self.left: dict[int, tuple[Path, int]] = {}
        for path in sorted(folder.glob("*/templates/*")):
            text = path.read_text(encoding="utf-8")
            self.sources[path] = text
            for found in _BRANCH.finditer(text):
                self.left[len(self.left)] = (path, found.end())
        for path in self.sources:
            self.write(path)

    def write(self, path: Path) -> None:
        """The template with the branches that are left."""
        text = self.sources[path]
        marks = [(end, number) for number, (where, end) in self.left.items() if where == path]
        for end, number in sorted(marks, reverse=True):
            text = f'{text[:end]}{{{{- fail "REACHED {number}." }}}}{text[end:]}'
        path.write_text(text, encoding="utf-8")

    def reach(self, helm: Any, values: dict[str, Any], name: str = "demo") -> None:
        """Take out every branch that these values reach."""
        stdin = dump(values)
        while True:
            done = helm.run(
                *("template", name, self.chart, "--skip-schema-validation", "-f", "-"),
                stdin=stdin,
                check=False,
            )
            found = re.search(r"REACHED (\d+)\.", done.stderr)
            if found is None:
                return
            path, _ = self.left.pop(int(found[1]))
            self.write(path)

    def where(self) -> list[str]:
        """File, line and text of what is left."""
        found = []
        for path, end in self.left.values():
            before = self.sources[path][:end]
            line = before.count("\n") + 1
            found.append(f"{path.parent.parent.name}/{path.name}:{line} {before.splitlines()[-1]}")
        return found


def test_every_branch_is_rendered(repo: Path, helm4: Any, tmp_path: Path) -> None:
    """No template has a branch that no test renders."""
    charts = Instrumented(repo / "charts", tmp_path)
    assert len(charts.left) > 200
    minimal = {"image": {"repository": "x"}, "command": ["x"]}
    for path in sorted((repo / "charts/torchrun/ci").glob("*-values.yaml")):
        charts.reach(helm4, load(path.read_bytes(), path.name).data)
    refused = yaml.safe_load((HERE / "refused.yaml").read_text(encoding="utf-8"))
    for values in [*(case["values"] for case in refused), *_MORE]:
        charts.reach(helm4, minimal | values)
    charts.reach(helm4, minimal, name="1x")
    charts.reach(helm4, minimal | {"torchrun": {"controller": "StatefulSet"}}, name="a" * 53)
    assert not charts.where()
