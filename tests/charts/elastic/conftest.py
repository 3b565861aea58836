"""Renders of the elastic chart, and ways to ask about them."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from allranks.yamlio.load import load_all
from tests.charts.shared.rendered import Refusal, Render, refuser, renderer
from tests.conftest import find_helm

if TYPE_CHECKING:
    from pathlib import Path

    from tests.charts.conftest import Probe


@pytest.fixture(scope="session")
def render(helm4: Any, elastic: Path) -> Render:
    """Render the least values with more over them; manifests by ``Kind/name``.

    Helm 3 prints the same (test_ci_files): what is asked of a render is asked once.
    """

    def template(chart: Path, **options: Any) -> list[Any]:
        return [manifest for manifest in load_all(helm4.render(chart, **options)) if manifest]

    return renderer(template, elastic)


@pytest.fixture(scope="session")
def helm3() -> Any:
    """Helm 3 alone."""
    return find_helm(3)


@pytest.fixture
def size_probe(helm4: Any, elastic: Path, tmp_path: Path) -> Probe:
    """Evaluates a template with the chart's own defines and recipes."""

    def evaluate(text: str, values: Any) -> Any:
        chart = tmp_path / "elastic"
        if not chart.is_dir():
            shutil.copytree(elastic, chart, symlinks=True, ignore=shutil.ignore_patterns("*.yaml"))
            for name in ("Chart.yaml", "frameworks.yaml"):
                shutil.copy(elastic / name, chart)
            (chart / "values.schema.json").unlink()
            (chart / "templates/NOTES.txt").unlink()
            library = chart / "charts/allranks-library"
            library.unlink()
            library.symlink_to(elastic.parent / "library")
            for link in chart.glob("files/*"):
                if link.is_symlink():
                    link.unlink()
                    shutil.copy(elastic / "files" / link.name, link)
        (chart / "templates/probe.yaml").write_text(
            '{{ define "probe" }}' + text + "{{ end }}\n"
            'kind: Probe\nresult: {{ include "probe" . | trim | quote }}\n'
        )
        return json.loads(yaml.safe_load(helm4.render(chart, values=values))["result"])

    return evaluate


@pytest.fixture(scope="session")
def refusal(helm: Any, elastic: Path) -> Refusal:
    """What the templates say when they refuse the least values with more over them."""
    return refuser(helm, elastic)
