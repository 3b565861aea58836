"""The real helms: every test of this folder runs on both majors."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from allranks.helm import locate

if TYPE_CHECKING:
    from allranks.helm.locate import HelmBinary

TOOLS = Path(__file__).parents[3] / ".tools" / "helm"


@pytest.fixture(params=["v3", "v4"])
def helm(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> HelmBinary:
    """A pinned helm, built by `make setup-test`, with a home of its own."""
    home = request.getfixturevalue("tmp_path") / "home"
    monkeypatch.setenv("HELM_DATA_HOME", str(home / "data"))
    monkeypatch.setenv("HELM_CACHE_HOME", str(home / "cache"))
    monkeypatch.setenv("HELM_CONFIG_HOME", str(home / "config"))
    (path,) = TOOLS.glob(f"{request.param}.*/helm")
    return locate.inspect(path)


@pytest.fixture
def chart(tmp_path: Path) -> Path:
    """A chart that prints a string back and fails in every way a chart can."""
    folder = tmp_path / "chart"
    (folder / "templates").mkdir(parents=True)
    (folder / "Chart.yaml").write_text("apiVersion: v2\nname: probe\nversion: 0.1.0\n")
    (folder / "values.yaml").write_text('mode: ""\ntext: ""\ngpus: 0\nmap: {}\n')
    (folder / "values.schema.json").write_text(
        '{"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",'
        ' "additionalProperties": false, "properties": {"mode": {"type": "string"},'
        ' "text": {"type": "string"}, "gpus": {"type": "integer", "minimum": 0},'
        ' "map": {"oneOf": [{"type": "string"}, {"type": "object"}]}}}'
    )
    (folder / "templates" / "probe.yaml").write_text(
        '{{- if eq .Values.mode "fail" }}'
        '{{ fail "ERROR: torchrun.port: 70000 is above 65535\\n  fix: use 29500" }}{{ end }}\n'
        '{{- if eq .Values.mode "nil" }}{{ .Values.absent.deep }}{{ end }}\n'
        '{{- if eq .Values.mode "yaml" }}\n a: [\nb\n{{- end }}\n'
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}\n"
        "  namespace: {{ .Release.Namespace }}\ndata:\n  text: {{ .Values.text | quote }}\n"
    )
    return folder
