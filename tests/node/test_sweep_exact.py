"""What is typed for a sweep is what the kubelet starts a trial's program with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from allranks import names
from tests.conftest import exact

from .conftest import small

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import Lab

pytestmark = [pytest.mark.timeout(300)]

_CLI = (sys.executable, "-c", "import sys; from allranks.cli.main import main; sys.exit(main())")
# Numbers and words that YAML or a Go template rewrites; texts that a shell or the kubelet expands.
_BARE = ("1e-5", "0.10", "1e6", "true", "08", "1_000", "0x1F", "12:30", "-0.0", "1e400")
_TEXTS = ("it's", 'a "b"', "$(HOME)", "$$HOME `id`", "a\nb\\n", "{{ .Values }}", "é 😀", "", "~")
_TELL = """\
import json, os, sys
told = {name: text for name, text in os.environ.items() if name.startswith("P_")}
print("told " + json.dumps([sys.argv[1:], told]))
print("accuracy=1")
"""


def _values(*, quoted: bool) -> str:
    """A sweep of one trial, with a parameter for each thing to type, as word and as variable."""
    head = small({"command": ["python3", "-c", _TELL], "env": {}, "workload": "sweep"})
    lines = [f"{key}: {exact(value)}" for key, value in head.items()]
    lines += ["sweep:", "  objective: {metric: accuracy}", "  metrics: {from: stdout}"]
    lines += ["  keep: all", "  parameters:"]
    scalars = [exact(word) if quoted else word for word in _BARE]
    # Helm orders keys by their text.
    for at, value in enumerate([*scalars, *map(exact, _TEXTS)]):
        lines.append(f"    p{at:02}: {{values: [{value}], arg: --p{at}, env: P_{at}}}")
    return "\n".join(lines) + "\n"


def _check(line: str) -> None:
    """Compare what a trial's program has told with what was typed."""
    args, env = json.loads(line.removeprefix("told "))
    texts = [*_BARE, *_TEXTS]
    assert [word for at, text in enumerate(texts) for word in (f"--p{at}", text)] == args
    assert {f"P_{at}": text for at, text in enumerate(texts)} == env


def test_a_grid_of_plain_helm(lab: Lab) -> None:
    """Quoted, so that Helm does not read them as numbers, all arrive in a real container."""
    lab.run_helm(
        "install", "typed", lab.charts / "sweep", "--values", "-", stdin=_values(quoted=True)
    )
    _check(lab.line("typed", "told "))
    lab.completes("typed")


def test_a_trial_that_is_a_release(lab: Lab, helm4: Any, tmp_path: Path) -> None:
    """With quotes or without, all arrive under `allranks sweep run`."""
    file = tmp_path / "values.yaml"
    file.write_text(_values(quoted=False), encoding="utf-8")
    env = {**os.environ, names.ENV_HELM: str(helm4.path), names.ENV_STATE: str(tmp_path)}
    where = ("--kubeconfig", lab.cluster.kubeconfig, "--namespace", lab.namespace)
    process = subprocess.run(
        [*_CLI, "sweep", "run", "typed", "-f", file, *where],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert 0 == process.returncode, process.stdout + process.stderr
    (pod,) = lab.cluster.items(lab.path("pods"))
    (line,) = [line for line in lab.log(pod["metadata"]["name"]).splitlines() if "told " in line]
    _check(line)
