"""A sweep whose process is a pod: the real image, real trials, and a laptop that is away."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.kube import image_recipe

from .conftest import small, until

if TYPE_CHECKING:
    from .conftest import Lab

pytestmark = [pytest.mark.timeout(600)]

_CLI = Path(sys.executable).parent / "allranks"
# It says what it was given, as it was given.
_TRAINS = """
import sys, time
time.sleep(1)
print("given", *sys.argv[1:])
print(f"accuracy={float(sys.argv[-1])}", flush=True)
"""
# The search is Optuna's, in the image; a choice is given as it stands here.
_SWEEP = """
  search: tpe
  trials: 4
  parallel: 2
  keep: all
  objective: {metric: accuracy}
  parameters:
    decay: {values: [1e-5, 0.10, 2e-1], arg: --decay}
    lr: {uniform: {min: 0.1, max: 0.9}, arg: --lr}
"""


def test_a_sweep_outlives_the_pod_that_runs_it(lab: Lab, helm4: Any, tmp_path: Path) -> None:
    """Its pod is deleted half-way; another goes on, and each of four trials is tried once."""
    job = {"workload": "sweep", **small({"script": _TRAINS})}
    (tmp_path / "v.yaml").write_text(json.dumps(job), "utf-8")
    (tmp_path / "sweep.yaml").write_text(f"sweep:{_SWEEP}", "utf-8")
    runner = {"resources": {"requests": {"cpu": "50m", "memory": "128Mi"}}}
    (tmp_path / "runner.yaml").write_text(json.dumps(runner), "utf-8")

    def sweep(*words: str | Path, state: str = "laptop") -> str:
        env = {
            **os.environ,
            "ALLRANKS_HELM": str(helm4.path),
            "ALLRANKS_STATE": str(tmp_path / state),
            "KUBECONFIG": str(lab.cluster.kubeconfig),
        }
        process = subprocess.run(
            [_CLI, "sweep", *words], env=env, capture_output=True, text=True, check=False
        )
        assert 0 == process.returncode, process.stdout + process.stderr + lab.logs("s")
        return process.stdout

    files = ("-f", tmp_path / "v.yaml", "-f", tmp_path / "sweep.yaml")
    how = ("--image", image_recipe.OPERATOR, "--runner", tmp_path / "runner.yaml", "--detach")
    sweep("run", "s", *files, "--namespace", lab.namespace, "--in-cluster", *how)

    def sweep_status() -> dict[str, Any]:
        status: dict[str, Any] = json.loads(sweep("status", "s", "-o", "json"))
        return status

    until(
        lambda: sweep_status()["counts"].get("succeeded"), lambda: f"a trial's end\n{lab.logs('s')}"
    )
    (pod,) = lab.pods("s")
    lab.delete("pods", pod["metadata"]["name"])
    until(
        lambda: sweep_status()["phase"] == "Completed",
        lambda: f"its end\n{sweep_status()}\n{lab.logs('s')}",
    )
    assert pod["metadata"]["uid"] not in {other["metadata"]["uid"] for other in lab.pods("s")}

    journal = f"secret:{lab.namespace}/s"
    results = json.loads(sweep("results", "s", "--journal", journal, "-o", "json", state="other"))
    assert {1} == {trial["attempts"] for trial in results["trials"]}
    assert 4 == len(results["trials"])
    for trial in results["trials"]:
        decay, rate = trial["parameters"]["decay"], trial["parameters"]["lr"]
        assert decay in {"1e-5", "0.10", "2e-1"}
        assert float(rate) == trial["value"]
        pods = lab.pods(trial["name"])
        assert 1 == len(pods), f"{trial}\n{lab.logs('s')}"
        manifest = pods[0]
        assert f"given --decay {decay} --lr {rate}\n" in lab.log(manifest["metadata"]["name"])
    sweep("delete", "s")
    assert [] == lab.cluster.items(lab.path("secrets"))
