"""`helm sweep` on a real control plane, as a person calls it, with each major of helm."""

from __future__ import annotations

import json
import os
import subprocess
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from allranks import names
from allranks.helm import binary as helm_binary
from allranks.helm import plugins

from .conftest import until
from .sweeping import Field, fake

if TYPE_CHECKING:
    from tests.kube.cluster import Cluster

    from .conftest import MakeNodes

pytestmark = pytest.mark.timeout(600)

# Seconds for what takes a few of them where the machine has little else to do.
_PATIENCE = 240
_PROGRAM = Path(sysconfig.get_path("scripts")) / names.CLI


class Person:
    """Somebody with a kubeconfig, helm and its plugin."""

    def __init__(self, field: Field) -> None:
        self.field = field
        self.env = {name: text for name, text in os.environ.items() if name != "KUBECONFIG"} | {
            names.ENV_STATE: str(field.folder / "state"),
            "HELM_PLUGINS": os.environ["HELM_PLUGINS"],
        }

    def helm(self, *words: str) -> list[str]:
        """A command line of helm's, in the test's namespace."""
        where = ["-n", self.field.namespace, "--kubeconfig", str(self.field.cluster.kubeconfig)]
        return [str(self.field.helm), "sweep", *words, *where]

    def __call__(self, *words: str, code: int = 0) -> str:
        """What `allranks sweep` prints, without a word on where the cluster is."""
        return self.call([str(_PROGRAM), "sweep", *words], code)

    def call(self, line: list[str], code: int = 0) -> str:
        """What a command prints; another exit code than this fails the test."""
        process = subprocess.run(
            line, env=self.env, capture_output=True, text=True, check=False, timeout=_PATIENCE
        )
        assert code == process.returncode, process.stdout + process.stderr
        return process.stdout


@pytest.fixture(autouse=True)
def _node(make_nodes: MakeNodes) -> None:
    """One fake node runs the pods."""
    make_nodes(1)


@pytest.fixture
def person(
    cluster: Cluster, namespace: str, helm: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Person:
    """With the plugin in a folder of the test's own."""
    monkeypatch.setenv("HELM_PLUGINS", str(tmp_path / "plugins"))
    monkeypatch.setenv(names.ENV_STATE, str(tmp_path / "state"))
    plugins.install(helm_binary.inspect(helm.path), names.SWEEP_PLUGIN)
    return Person(Field(cluster, namespace, helm.path, tmp_path))


def test_a_sweep_from_its_start_to_its_removal(person: Person) -> None:
    """Killed in its midst, it goes on where it ran, though nobody says again where that was."""
    # The first three run until they are told to end, however late who runs them is killed.
    choices = [
        fake(n, ends="" if n < 3 else "0.2s", says=f'{{"accuracy": {n / 10}}}') for n in range(6)
    ]
    values, over = person.field.write(
        choices, objective={"metric": "accuracy"}, parallel=3, keep="all"
    )
    line = person.helm("s", "-f", str(values), "--over", over)
    runner = subprocess.Popen(line, env=person.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    until(lambda: len(person.field.items("v1/pods")) == 3, "three trials' pods")
    # Helm is the parent; what runs the sweep is its child.
    status = json.loads(person("status", "s", "-o", "json"))
    assert "Running" == status["phase"]
    _kill_child(runner.pid)
    runner.communicate(timeout=_PATIENCE)
    assert "s  Interrupted" in person("status", "s")
    person.field.end_pods()

    assert "s  Completed, 6 of 6 trials ended, 6 succeeded" in person("resume", "s")
    results = json.loads(person("results", "s", "-o", "json"))
    assert [0.5, 0.4, 0.3, 0.2, 0.1, 0.0] == [trial["value"] for trial in results["trials"]]
    assert {1} == {trial["attempts"] for trial in results["trials"]}
    best = results["trials"][0]
    manifest = person("results", "s", "--best", "--manifest")
    assert f"  namespace: {person.field.namespace}\n" in manifest
    assert f"  name: {best['name']}\n" in manifest
    assert sorted(trial["name"] for trial in results["trials"]) == person.field.releases()

    deleted = person("delete", "s", "-o", "json")
    assert 6 == len(json.loads(deleted)["removed"])
    assert [] == person.field.releases()
    assert [] == person.field.items("batch/v1/jobs")
    assert "there is no sweep" in _refusal(person)


def _kill_child(pid: int) -> None:
    # Of whichever of its threads: helm's runtime starts a program from the one it is in.
    children = psutil.Process(pid).children()
    assert children, "helm has not started its plugin"
    for child in children:
        child.kill()


def _refusal(person: Person) -> str:
    line = person.helm("results", "s")
    process = subprocess.run(line, env=person.env, capture_output=True, text=True, check=False)
    assert 2 == process.returncode
    return process.stderr


def test_a_namespace_that_is_not_there(person: Person) -> None:
    """Is said at once, and nothing is begun that would have to be removed."""
    values, over = person.field.write([fake(0), fake(1)], parallel=2)
    line = [word if word != person.field.namespace else "nowhere" for word in person.helm("s")]
    process = subprocess.run(
        [*line, "-f", str(values), "--over", over],
        env=person.env,
        capture_output=True,
        text=True,
        check=False,
        timeout=_PATIENCE,
    )
    assert process.returncode in {1, 2}, process.stdout + process.stderr
    assert "nowhere" in process.stdout + process.stderr
