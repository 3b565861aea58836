"""`allranks sweep` from a values file to the best values, with real processes as trials."""

from __future__ import annotations

import ast
import csv
import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from allranks import names
from allranks.yamlio.load import load
from tests.local.conftest import until

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAM = Path(sys.executable).parent / names.CLI
# Tells its parameters exactly as it got them, and the square of what it was given as its value.
# On this machine no image is needed.
SWEEP = """\
workload: sweep
runPolicy: {backoffLimit: 0}
script: |
  import json, os, pathlib, sys, time
  print(json.dumps({"argv": sys.argv[1:], "seed": os.environ.get("SEED")}), flush=True)
  if "HOLD" in os.environ:
      while not pathlib.Path(os.environ["HOLD"]).exists():
          time.sleep(0.02)
  lr = float(sys.argv[2])
  for step in (1, 2):
      print(json.dumps({"step": step, "accuracy": 1 - (lr - 0.1) ** 2 - 0.1 / step}), flush=True)
  sys.exit(int(os.environ.get("CODE", "0")))
sweep:
  parameters:
    lr: {values: [1e-5, 0.10, "08"], arg: --lr}
    seed: {range: {min: 1, max: 2}, env: SEED}
  objective: {metric: accuracy}
  parallel: 2
"""


class Laptop:
    """The program with a state folder of its own."""

    def __init__(self, folder: Path, helm: Path) -> None:
        self.folder = folder
        self.state = folder / "state"
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith("HELM_")
        }
        self.env = {
            **environment,
            names.ENV_STATE: str(self.state),
            names.ENV_HELM: str(helm),
            "KUBECONFIG": str(folder / "no-kubeconfig"),
        }
        (folder / "sweep.yaml").write_text(SWEEP)

    def __call__(self, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        """Call `allranks sweep`; another exit code than this fails the test."""
        process = subprocess.run(
            [PROGRAM, "sweep", *words],
            cwd=self.folder,
            env=self.env,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert code == process.returncode, process.stdout + process.stderr
        return process

    def run(self, *options: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        """Run the sweep to its end."""
        return self("run", "s", "-f", "sweep.yaml", "--on", "local", *options, code=code)

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start `allranks sweep`, and go on."""
        return subprocess.Popen(
            [PROGRAM, "sweep", *words],
            cwd=self.folder,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def json(self, *words: str) -> Any:
        """What a command says of the sweep."""
        return json.loads(self(*words, "-o", "json").stdout)

    @property
    def runs(self) -> list[str]:
        """The releases that are there."""
        return sorted(path.name for path in (self.state / "runs").glob("*/[!.]*"))


@pytest.fixture
def laptop(tmp_path: Path, helm4: Any) -> Iterator[Laptop]:
    """This machine; at the end nothing of the sweep may be left."""
    machine = Laptop(tmp_path, helm4.path)
    yield machine
    if list(machine.state.glob("sweeps/*")):
        machine("delete", "s")
    assert [] == machine.runs


def test_a_grid_to_its_end(laptop: Laptop) -> None:
    """Every trial gets its parameters as typed; trials are told as they end, the best first."""
    process = laptop.run()
    lines = process.stdout.splitlines()
    assert sorted(line.split()[0] for line in lines[:6]) == [f"[{number}]" for number in range(6)]
    assert "s  Completed, 6 of 6 trials ended, 6 succeeded, took" in process.stdout
    table = [line.split() for line in lines[lines.index("") + 2 :]]
    assert ["TRIAL", "STATE", "accuracy", "lr", "seed"] == table[0][:5]
    assert ["succeeded", "0.95", "0.10"] == table[1][1:4]
    assert [] == laptop.runs


def test_what_is_typed_arrives_as_typed(laptop: Laptop) -> None:
    """In the argv of a real process and in its environment; 08 and 1e-5 are no other numbers."""
    choices = ["1e-5", "0.10", "1e6", "true", "08", "yes", "0o17", "1_000", "a b", "it's", "$(A)$$"]
    plain = ", ".join(choices[:4])
    quoted = ", ".join(json.dumps(choice) for choice in choices[4:])
    head = SWEEP[: SWEEP.index("script:")]
    (laptop.folder / "sweep.yaml").write_text(
        f"{head}command: [python3, -c]\n"
        'args: [\'import os, sys; open(os.environ["OUT"], "a").write(repr(('
        'sys.argv[1], os.environ["X"], os.environ["Z"])) + chr(10))\', \'${sweep.x}\']\n'
        f"env: {{OUT: {laptop.folder}/out, Z: 'x=${{sweep.x}}'}}\n"
        f"sweep: {{parameters: {{x: {{values: [{plain}, {quoted}], env: X}}}}, parallel: 4}}\n"
    )
    laptop.run()
    outputs = [ast.literal_eval(line) for line in (laptop.folder / "out").read_text().splitlines()]
    assert sorted((choice, choice, f"x={choice}") for choice in choices) == sorted(outputs)


def test_results_in_every_form(laptop: Laptop) -> None:
    """Table, JSON, CSV, pictures, a report, and one trial with all that it was."""
    results = json.loads(laptop.run("-o", "json").stdout)
    assert 6 == len(results["trials"]) == results["counts"]["succeeded"]
    assert results == laptop.json("results", "s")
    rows = list(csv.DictReader(io.StringIO(laptop("results", "s", "-o", "csv").stdout)))
    assert ["0.10", "0.10", "1e-5", "1e-5", "08", "08"] == [row["lr"] for row in rows]
    top = laptop("results", "s", "--top", "1").stdout.splitlines()
    assert "… 5 more; `allranks sweep results s` shows all" == top[-1]

    laptop("results", "s", "--report", "s.html", "--plot", "pictures")
    assert (laptop.folder / "s.html").read_text().startswith("<!DOCTYPE html>")
    assert {f"{kind}.{form}" for kind in ("history", "parallel", "importance", "curves")
            for form in ("png", "svg")} == {
        path.name for path in (laptop.folder / "pictures").iterdir()
    }  # fmt: skip

    first = results["trials"][-1]
    number, name = str(first["number"]), first["name"]
    assert first == laptop.json("results", "s", "--trial", name)
    assert f"trial     {number}, {name}" in laptop("results", "s", "--trial", number).stdout
    values = load(laptop("results", "s", "--trial", number, "--values").stdout, "values").data
    assert ["--lr", first["parameters"]["lr"]] == values["args"]
    manifest = laptop("results", "s", "--trial", number, "--manifest").stdout
    assert f"  name: {name}\n" in manifest
    assert "kind: Job\n" in manifest


def test_the_best_is_a_values_file_to_run(laptop: Laptop) -> None:
    """`--best -o yaml` runs as any values file does, with the parameters of the best trial."""
    laptop.run()
    (laptop.folder / "best.yaml").write_text(laptop("results", "s", "--best", "-o", "yaml").stdout)
    process = subprocess.run(
        [PROGRAM, "run", "best", "-f", "best.yaml", "--on", "local"],
        cwd=laptop.folder,
        env=laptop.env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stdout + process.stderr
    assert '{"argv": ["--lr", "0.10"], "seed": "1"}' in process.stdout
    subprocess.run([PROGRAM, "delete", "best", "--on", "local"], env=laptop.env, check=True)


def test_a_goal_ends_it(laptop: Laptop) -> None:
    """The first trial that reaches it is the last; exit code 0."""
    process = laptop.run("--goal", "0.945", "--parallel", "1")
    status = laptop.json("status", "s")
    assert "GoalReached" == status["phase"]
    assert 3 == status["trials"]["ended"], process.stdout


def test_all_trials_fail(laptop: Laptop) -> None:
    """It ends after as many as it may lose, with the commonest reason; exit code 1."""
    process = laptop.run(
        "--set-string", "env.CODE=3", "--max-failed", "1", "--parallel", "1", code=1
    )
    status = laptop.json("status", "s")
    assert ("Failed", {"failed": 2}) == (status["phase"], status["counts"])
    assert "exit code 3" in status["reason"]
    assert status["reason"] in process.stdout
    assert 1 == laptop("results", "s", "--best", code=1).returncode


def test_an_objective_that_never_appears(laptop: Laptop) -> None:
    """Says so, and does not go on for ever; a trial without it is unmeasured and not failed."""
    process = laptop.run("--metric", "loss", "--parallel", "1", code=1)
    status = laptop.json("status", "s")
    assert {"unmeasured"} == set(status["counts"])
    assert "loss" in status["reason"]
    assert "accuracy" in process.stdout


def held_runner(laptop: Laptop, *options: str) -> subprocess.Popen[str]:
    """A sweep whose trials wait; the first two of them run."""
    runner = laptop.start(
        *("run", "s", "-f", "sweep.yaml", "--on", "local"),
        *("--set-string", f"env.HOLD={laptop.folder}/go", *options),
    )
    until(lambda: len(laptop.runs) == 2 or runner.poll() is not None, "two trials to run")
    return runner


def test_resume_after_a_kill(laptop: Laptop) -> None:
    """Killed within its work, a sweep goes on: no trial is repeated and none is lost."""
    runner = held_runner(laptop)
    before = laptop.runs
    runner.kill()
    runner.communicate()
    assert "Interrupted" == laptop.json("status", "s")["phase"]
    (laptop.folder / "sweep.yaml").unlink()
    (laptop.folder / "go").touch()
    results = json.loads(laptop("resume", "s", "-o", "json").stdout)
    assert {"succeeded": 6} == results["counts"]
    assert {1} == {trial["attempts"] for trial in results["trials"]}
    assert set(before) < {trial["name"] for trial in results["trials"]}


def test_an_interrupt_ends_it_in_order(laptop: Laptop) -> None:
    """Exit code 130, no release is left, and `resume` runs what was cancelled.

    A terminal sends Ctrl-C to all that it started, so also to whatever helm renders just then.
    """
    runner = held_runner(laptop)
    os.killpg(runner.pid, signal.SIGINT)
    out, err = runner.communicate(timeout=240)
    assert 130 == runner.returncode, out + err
    assert {"cancelled"} == set(laptop.json("status", "s")["counts"])
    assert [] == laptop.runs
    assert "Stopped" == laptop.json("status", "s")["phase"]
    (laptop.folder / "go").touch()
    laptop("resume", "s")
    assert {"succeeded": 6} == laptop.json("status", "s")["counts"]


def test_sigterm_ends_it_in_order(laptop: Laptop) -> None:
    """As Ctrl-C does; the exit code is that of SIGTERM, and the message names it."""
    runner = held_runner(laptop)
    runner.terminate()
    out, err = runner.communicate(timeout=240)
    assert 143 == runner.returncode, out + err
    note = "interrupted by SIGTERM: ending its trials; another SIGTERM leaves at once"
    assert f"note: {note}" in err.splitlines()
    assert [] == laptop.runs


def test_stop_and_delete_from_another_process(laptop: Laptop) -> None:
    """Who runs it is asked to end; nothing is left after a delete, the journal neither."""
    runner = held_runner(laptop)
    assert "s  Running" in laptop("status", "s").stdout
    assert 2 == laptop("resume", "s", code=2).returncode
    assert "s  Stopped" in laptop("stop", "s").stdout
    runner.communicate(timeout=240)
    assert 130 == runner.returncode
    assert "deleted s" in laptop("delete", "s").stdout
    assert not list(laptop.state.glob("sweeps/*"))


def test_delete_of_a_sweep_whose_runner_was_killed(laptop: Laptop) -> None:
    """What it has left running is ended and removed, also where its helm is gone.

    That of `helm sweep` is kept with the sweep, as one that a person names.
    """
    helm = laptop.folder / "helm"
    helm.symlink_to(laptop.env[names.ENV_HELM])
    runner = held_runner(laptop, "--helm", str(helm))
    runner.kill()
    runner.communicate()
    helm.unlink()
    laptop.env[names.ENV_HELM] = str(helm)
    laptop("delete", "s")
    assert [] == laptop.runs
    laptop("status", "s", code=2)


def test_a_name_is_taken_until_it_is_replaced(laptop: Laptop) -> None:
    """A second sweep of the name is refused; with --replace the first is removed."""
    laptop.run()
    assert "was begun already" in laptop.run(code=2).stderr
    laptop.run("--replace", "--trials", "1")
    assert {"succeeded": 1} == laptop.json("status", "s")["counts"]


def test_more_trials_of_the_same(laptop: Laptop) -> None:
    """`resume --trials` goes on where the sweep had ended; more than there are is refused."""
    laptop.run("--trials", "2")
    assert "there are only 6 combinations" in laptop("resume", "s", "--trials", "7", code=2).stderr
    laptop("resume", "s", "--trials", "5", "--parallel", "1")
    assert {"succeeded": 5} == laptop.json("status", "s")["counts"]


def test_choices_from_files(laptop: Laptop) -> None:
    """Each item of a list in a file is laid over the values of all trials."""
    (laptop.folder / "how.yaml").write_text("- env: {SEED: a}\n- env: {SEED: b}\n")
    text = SWEEP.replace("    seed: {range: {min: 1, max: 2}, env: SEED}\n", "")
    (laptop.folder / "sweep.yaml").write_text(text)
    results = json.loads(laptop.run("--over", "how=how.yaml", "-o", "json").stdout)
    choices = {trial["number"]: trial["parameters"]["how"] for trial in results["trials"]}
    assert ["how[0]"] * 3 + ["how[1]"] * 3 == sorted(choices.values())
    for number, seed in ((0, "a"), (5, "b")):
        text = laptop("results", "s", "--trial", str(number), "--values").stdout
        assert {"SEED": seed} == load(text, "values").data["env"]


def test_two_sweeps_of_one_name(laptop: Laptop) -> None:
    """The second is refused while the first has releases; later it runs, and takes none away."""
    laptop.run("--keep", "all", "--trials", "2")
    runs = laptop.runs
    elsewhere = ["run", "s", "-f", "sweep.yaml", "--on", "local", "--journal", "other.jsonl"]
    process = laptop(*elsewhere, code=2)
    assert "in namespace default are releases of another sweep s, begun by" in process.stderr
    assert f"{runs[0]}, {runs[1]}" in process.stderr
    assert not (laptop.folder / "other.jsonl").exists()
    assert runs == laptop.runs
    laptop("resume", "s", "--trials", "3")
    laptop("delete", "s")
    assert [] == laptop.runs


def test_a_local_run_that_has_a_trials_name(laptop: Laptop) -> None:
    """Is left alone; the trial fails with that reason, and the others run."""
    plan = json.loads(laptop.run("--dry-run", "-o", "json").stdout)["first"][0]
    (laptop.folder / "own.yaml").write_text(
        "workload: torchrun\nscript: |\n  #!/bin/sh\n  exit 0\n"
    )
    program = [PROGRAM, "run", plan["name"], "-f", "own.yaml", "--on", "local"]
    subprocess.run(program, cwd=laptop.folder, env=laptop.env, check=True, capture_output=True)
    process = laptop.run("--trials", "2", "-o", "json")
    first, second = sorted(json.loads(process.stdout)["trials"], key=lambda trial: trial["number"])
    assert ("failed", "succeeded") == (first["state"], second["state"])
    assert "its name is taken by another local run" in first["reason"]
    laptop("delete", "s")
    assert [plan["name"]] == laptop.runs
    subprocess.run(
        [PROGRAM, "delete", plan["name"], "--on", "local"], env=laptop.env, check=True, timeout=60
    )


@pytest.mark.parametrize("trials", [2, 5])
def test_volumes_that_stay_are_named(laptop: Laptop, trials: int) -> None:
    """At the sweep's removal, in few words where they are many; the command removes them all."""
    laptop.run("--trials", str(trials), "--set", "storage.checkpoints.size=1Gi")
    volumes = laptop.state / "volumes" / "default"
    folders = sorted(volumes.glob("s-*-checkpoints"))
    assert trials == len(folders)
    (volumes / "s-other").mkdir()
    lines = laptop("delete", "s").stdout.splitlines()
    volume_lines = [f"  kept PersistentVolumeClaim/{path.name} ({path})" for path in folders]
    if trials == 2:
        assert ["deleted s", *volume_lines] == lines[:-1]
    else:
        assert (3, f"  kept 5 volumes: {volume_lines[0][7:]}") == (
            len(lines),
            lines[1].split(", ")[0],
        )
        assert lines[1].endswith(" and 3 more")
    _, command = lines[-1].split("  remove them with: ")
    subprocess.run(["/bin/sh", "-c", command], check=True)
    assert ["s-other"] == [path.name for path in volumes.iterdir()]
