"""The program that renders for the tests gives what the real helm gives."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests import template_server
from tests.amounts import amount

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Helm

_HOOK = """apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-hook
  annotations: {"helm.sh/hook": pre-install}
data:
  helm: {{ .Capabilities.HelmVersion.Version }}
  kube: {{ .Capabilities.KubeVersion.Version }}
  apis: {{ .Capabilities.APIVersions.Has "example.com/v1" | quote }}
  upgrade: {{ .Release.IsUpgrade | quote }}
  namespace: {{ .Release.Namespace }}
"""
# charts/mpi makes a key for each render.
_KEYS = re.compile(r"^  ssh-.*$|^ *allranks.dev/[a-z-]*(key|digest|checksum).*$", re.MULTILINE)
_IMAGE = {"image": {"repository": "trainer"}, "script": "print(1)"}


def _both(
    helm: Helm, *words: str | Path, values: dict[str, Any] | None = None, stdin: str = ""
) -> None:
    """Compare code, text and the error's own line: other lines have the time in them."""
    assert helm.server is not None
    path = [] if values is None else ["--values", "-"]
    stdin = stdin if values is None else json.dumps(values)
    arguments = [*map(str, words), *path]
    served = template_server.server(helm.server).run(arguments, stdin)
    assert served is not None, "the server does not know these options"
    real = replace(helm, server=None).run("template", *arguments, stdin=stdin, check=False)
    assert real.returncode == served.returncode
    assert _KEYS.sub("", real.stdout) == _KEYS.sub("", served.stdout)
    error = real.stderr[real.stderr.find("Error: ") :] if real.returncode else ""
    assert error == (served.stderr[served.stderr.find("Error: ") :] if error else "")


@pytest.mark.parametrize("chart", ["torchrun", "mpi", "elastic", "sweep", "operator"])
def test_each_chart_is_rendered_as_by_helm(repo: Path, helm: Helm, chart: str) -> None:
    """With its defaults, with a job's values, with all that its folder tries, and twice."""
    folder = repo / "charts" / chart
    _both(helm, "demo", folder)
    for values in (_IMAGE, _IMAGE):
        _both(helm, "demo", folder, values=values)
    files = sorted((folder / "ci").glob("*values.yaml"))
    for file in files[:: amount(1, ci=6)]:  # what differed would differ for most
        _both(helm, "demo", folder, "-f", file)
    schema = ("--skip-schema-validation", "--set", "nodes=-1,wrong=true")
    _both(helm, "demo", folder, *schema, values=_IMAGE)


@pytest.mark.parametrize(
    "options",
    [
        ["--namespace", "lab"],
        ["-n", "lab", "--set", "nodes=2,procsPerNode=2"],
        ["--set-string", "script=1"],
        ["--set-json", 'env=[{"name":"A","value":"1"}]'],
        ["--set-literal", "script=a,b\\c"],
        ["--set", "nodes=[1"],
        ["--set", "nosuch=1"],
        ["--api-versions", "example.com/v1"],
        ["--kube-version", "1.31"],
        ["-f", "/no/such/file"],
    ],
    ids=" ".join,
)
def test_options_mean_the_same(repo: Path, helm: Helm, options: list[str]) -> None:
    """Values by each way, and what Helm says of those that it cannot read."""
    _both(helm, "demo", repo / "charts/torchrun", *options, values=_IMAGE)


def test_what_a_chart_sees_of_helm_is_the_same(tmp_path: Path, helm: Helm) -> None:
    """Versions, the release, hooks after the rest; and a chart that is none, or has no YAML."""
    (tmp_path / "templates").mkdir()
    (tmp_path / "Chart.yaml").write_text("apiVersion: v2\nname: small\nversion: 1.0.0\n")
    (tmp_path / "templates/hook.yaml").write_text(_HOOK)
    (tmp_path / "templates/plain.yaml").write_text("kind: ConfigMap\napiVersion: v1\n")
    for options in ([], ["-a", "example.com/v1"], ["--kube-version", "v1.31.2"], ["--is-upgrade"]):
        _both(helm, "demo", tmp_path, *options)
    (tmp_path / "templates/plain.yaml").write_text("a: b: c\n")
    _both(helm, "demo", tmp_path)
    (tmp_path / "templates/plain.yaml").write_text('{{ fail "no" }}')
    _both(helm, "demo", tmp_path)
    _both(helm, "Not_A_Name", tmp_path)
    _both(helm, "demo", tmp_path / "nothing")
    _both(helm, "demo")


def test_options_that_the_server_does_not_know_are_left_to_helm(repo: Path, helm: Helm) -> None:
    """The text comes all the same, from the real one."""
    assert helm.server is not None
    words = ["demo", str(repo / "charts/torchrun"), "--show-only", "templates/job.yaml"]
    assert template_server.server(helm.server).run(words, "") is None
    process = helm.run("template", *words, "--values", "-", stdin=json.dumps(_IMAGE))
    assert "kind: Job" in process.stdout
    assert "kind: Service" not in process.stdout


def test_an_answer_that_a_test_did_not_wait_for_is_not_the_next_ones(
    repo: Path, helm: Helm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A test whose time is up ends while the server renders, and those behind it are not hurt."""
    assert helm.server is not None
    fresh = template_server.TemplateServer(helm.server)
    words = ["demo", str(repo / "charts/torchrun"), "--values", "-"]

    def without_waiting(request: str) -> bytes:
        stdin = fresh._process.stdin
        assert stdin is not None
        stdin.write(request.encode() + b"\n")
        stdin.flush()
        raise TimeoutError

    with monkeypatch.context() as patched:
        patched.setattr(fresh, "_answer", without_waiting)
        with pytest.raises(TimeoutError):
            fresh.run(["unread", *words[1:]], json.dumps(_IMAGE))
    answer = fresh.run(words, json.dumps(_IMAGE))
    fresh.close()
    assert answer is not None
    assert "demo" in answer.stdout
    assert "unread" not in answer.stdout
