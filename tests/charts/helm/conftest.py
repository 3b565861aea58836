"""The real helms: every test of this folder runs on both majors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import pytest

from allranks.helm import binary as helm_binary

if TYPE_CHECKING:
    from pathlib import Path

    from allranks.helm.binary import HelmBinary


class Pinned(Protocol):
    """A helm as the fixture `helm` of all tests gives it."""

    path: Path


@pytest.fixture
def binary(helm: Pinned, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> HelmBinary:
    """Each pinned helm as our own code finds it, with a home of its own."""
    for kind in ("DATA", "CACHE", "CONFIG"):
        monkeypatch.setenv(f"HELM_{kind}_HOME", str(tmp_path / "home" / kind.lower()))
    return helm_binary.inspect(helm.path)


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
