"""What the chart tests share: the charts, their ci files, and a chart to try the library in."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Protocol

import pytest
import yaml

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


class Probe(Protocol):
    """Evaluates a template with the library's defines."""

    def __call__(self, text: str, values: Mapping[str, Any]) -> Any:
        """The JSON that `text` prints, with `values` as .Values."""


@pytest.fixture(scope="session")
def torchrun(repo: Path) -> Path:
    """The torchrun chart."""
    return repo / "charts/torchrun"


@pytest.fixture
def probe(helm: Any, repo: Path, tmp_path: Path) -> Probe:
    """A chart around a template that uses the library, with each major of helm in turn."""

    def evaluate(text: str, values: Mapping[str, Any]) -> Any:
        chart = tmp_path / "probe"
        (chart / "templates").mkdir(parents=True, exist_ok=True)
        (chart / "charts").mkdir(exist_ok=True)
        link = chart / "charts/allranks-library"
        if not link.is_symlink():
            link.symlink_to(repo / "charts/library")
        dependency = {"name": "allranks-library", "version": ">=0.0.0"}
        about = {
            "apiVersion": "v2",
            "name": "probe",
            "version": "1.0.0",
            "dependencies": [dependency],
        }
        (chart / "Chart.yaml").write_text(json.dumps(about))
        (chart / "templates/probe.yaml").write_text(
            '{{ define "probe" }}' + text + "{{ end }}\n"
            'kind: Probe\nresult: {{ include "probe" . | trim | quote }}\n'
        )
        rendered = helm.render(chart, values=values)
        return json.loads(yaml.safe_load(rendered)["result"])

    return evaluate
