"""A sweep on a real node: its trials really train, and their logs say how well."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from allranks import names

from .conftest import small

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import Lab

pytestmark = [pytest.mark.timeout(600)]

_CLI = (sys.executable, "-c", "import sys; from allranks.cli.main import main; sys.exit(main())")
_TRIALS, _AT_A_TIME = 8, 2


def _values(lab: Lab) -> dict[str, Any]:
    """The example's program for two epochs, with four rates and two momenta."""
    program = lab.code(lab.charts.parent / "examples/sweep-digits/train.py")
    return {
        "workload": "sweep",
        **small(program),
        "command": ["python3", "train.py"],
        "args": ["--epochs", "2"],
        "sweep": {
            "parameters": {
                "lr": {"values": ["3e-3", "1e-2", "3e-2", "1e-1"], "arg": "--lr"},
                "momentum": {"values": ["0.5", "0.90"], "arg": "--momentum"},
            },
            "parallel": _AT_A_TIME,
            "objective": {"metric": "accuracy"},
            "metrics": {"from": "stdout", "step": "step"},
            "keep": "all",
        },
    }


def _most_at_once(pods: list[dict[str, Any]]) -> int:
    """How many containers ran at the same time, at most; a whole second is the clock's step."""
    ran = [
        container_status["state"]["terminated"]
        for pod in pods
        for container_status in pod["status"]["containerStatuses"]
    ]
    return max(
        sum(other["startedAt"] <= end["startedAt"] < other["finishedAt"] for other in ran)
        for end in ran
    )


def _measures(log: str) -> list[str]:
    return [line for line in log.splitlines() if line.startswith("{")]


def test_eight_trials_two_at_a_time(lab: Lab, helm4: Any, tmp_path: Path) -> None:
    """The best one is the one whose log says so; afterwards nothing of the sweep is left."""
    values = tmp_path / "values.yaml"
    values.write_text(json.dumps(_values(lab)), encoding="utf-8")
    env = {**os.environ, names.ENV_HELM: str(helm4.path), names.ENV_STATE: str(tmp_path)}

    def allranks(*words: str | Path) -> str:
        process = subprocess.run(
            [*_CLI, "sweep", *words], env=env, capture_output=True, text=True, check=False
        )
        assert 0 == process.returncode, process.stdout + process.stderr
        return process.stdout

    where = ("--kubeconfig", lab.cluster.kubeconfig, "--namespace", lab.namespace)
    allranks("run", "digits", "-f", values, *where)
    pods = lab.cluster.items(lab.path("pods"))
    assert _TRIALS == len(pods)
    assert _most_at_once(pods) <= _AT_A_TIME

    results = json.loads(allranks("results", "digits", "-o", "json"))
    measures = {
        pod["metadata"]["labels"][names.APP_INSTANCE]: [
            (line["step"], line["accuracy"])
            for line in map(json.loads, _measures(lab.log(pod["metadata"]["name"])))
        ]
        for pod in pods
    }
    measured = {
        trial["name"]: [(measure["step"], measure["value"]) for measure in trial["measures"]]
        for trial in results["trials"]
    }
    assert measures == measured
    best = max(measures, key=lambda name: measures[name][-1][1])
    assert (measures[best][-1][1], 1) == (
        results["trials"][0]["value"],
        results["trials"][0]["attempts"],
    )
    assert {"succeeded": _TRIALS} == results["counts"]
    choices = {trial["parameters"]["momentum"] for trial in results["trials"]}
    assert {"0.5", "0.90"} == choices

    allranks("delete", "digits")
    assert [] == lab.cluster.items(lab.path("secrets") + "?labelSelector=owner%3Dhelm")
    assert [] == lab.cluster.items(lab.path("batch/v1/jobs"))
