"""`helm sweep`, through each major of helm as it really is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

JOB = """\
workload: torchrun
image: {repository: my/trainer}
command: [python, train.py]
nodes: 1
"""


@pytest.fixture
def helm_sweep(cli: Any, helm: Any) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Calls helm with the plugin that `allranks plugin install` has put there."""
    cli.env |= {"ALLRANKS_HELM": str(helm.path), "HELM_PLUGINS": str(cli.cwd / "plugins")}
    installed = cli("plugin", "install")
    assert installed.returncode == 0, installed.stderr
    cli.write(JOB)

    def call(*words: str | Path, env: dict[str, str] | None = None) -> Any:
        return subprocess.run(
            [helm.path, *words],
            cwd=cli.cwd,
            env=cli.environment(env),
            capture_output=True,
            text=True,
            check=False,
        )

    return call


def test_without_a_command_a_sweep_is_run(helm_sweep: Any) -> None:
    """`helm sweep NAME CHART …`; helm's own -n is taken, and --set stays as typed."""
    flags = ["-f", "values.yaml", "--set-range", "lr=1e-5,0.10", "--set-string", "env.A=1e6"]
    local = ["--on", "local", "--dry-run", "-o", "json"]
    process = helm_sweep("sweep", "-n", "lab", "s", "torchrun", *flags, *local)
    assert process.returncode == 0, process.stderr
    report = json.loads(process.stdout)
    assert ["1e-5", "0.10"] == [trial["parameters"]["lr"] for trial in report["first"]]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["s", "nowhere", "--set-range", "a=1", "--on", "local"], 2, "there is no chart 'nowhere'"),
        (["results", "nope"], 2, "there is no sweep 'nope'"),
        (["s", "torchrun", "--frobnicate"], 2, "no such option"),
        ([], 2, "Usage: helm sweep [OPTIONS] COMMAND"),
    ],
)
def test_exit_codes_are_passed_on(
    helm_sweep: Any, words: list[str], code: int, message: str
) -> None:
    """What went wrong is said, and helm ends with our code."""
    process = helm_sweep("sweep", *words)
    assert code == process.returncode
    assert message in process.stderr


def test_its_help(helm_sweep: Any) -> None:
    """Says `helm sweep`, as it was typed."""
    process = helm_sweep("sweep", "run", "--help")
    assert (0, "") == (process.returncode, process.stderr)
    assert process.stdout.startswith("Usage: helm sweep run [OPTIONS] NAME [CHART]\n")
    assert "sweep" in helm_sweep("--help").stdout


def test_helms_context_is_used(helm_sweep: Any, cli: Any) -> None:
    """A context that helm was given is the one that is asked for."""
    flags = ["-f", "values.yaml", "--set-range", "lr=1,2"]
    cli.write("apiVersion: v1\nkind: Config\ncontexts: []\n", "config")
    env = {"KUBECONFIG": str(cli.cwd / "config")}
    process = helm_sweep("sweep", "s", "torchrun", *flags, "--kube-context", "prod", env=env)
    assert 2 == process.returncode
    assert "prod" in process.stderr


def test_the_python_that_it_was_installed_with(helm_sweep: Any, cli: Any) -> None:
    """Is recorded; where that has gone, the program on PATH is used, and else it is said."""
    recorded = cli.cwd / "plugins" / "sweep" / "python"
    assert f"{sys.executable}\n" == recorded.read_text()
    recorded.write_text("/gone/python\n")
    process = helm_sweep("sweep", "status", env={"PATH": "/usr/bin:/bin"})
    assert 2 == process.returncode
    assert "fix: run `allranks plugin install`" in process.stderr
    programs = cli.cwd / "bin"
    programs.mkdir()
    program = programs / "allranks-sweep"
    program.write_text('#!/bin/sh\necho "called with $*"\n')
    program.chmod(0o755)
    env = {"PATH": f"{programs}{os.pathsep}/usr/bin{os.pathsep}/bin"}
    assert "called with status\n" == helm_sweep("sweep", "status", env=env).stdout


def test_helm_completes_it(helm_sweep: Any, cli: Any) -> None:
    """Commands, options, and the names of sweeps."""
    folder = cli.cwd / "state" / "sweeps" / "digits"
    folder.mkdir(parents=True)
    (folder / "journal.jsonl").touch()
    env = {"ALLRANKS_STATE": str(cli.cwd / "state")}
    for words, line in (
        (["res"], "resume"),
        (["results", "s", "--be"], "--best"),
        (["results", ""], "digits"),
    ):
        process = helm_sweep("__complete", "sweep", *words, env=env)
        assert line in process.stdout.splitlines(), process.stdout + process.stderr
