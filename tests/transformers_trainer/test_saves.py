"""The real Trainer of transformers in a run: its progress, and the callback that saves on demand.

Apart from the local tier, because transformers and what it needs are 300 MB (`make
test-transformers` installs them). torch is the tests' own.
"""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from allranks import names
from allranks.local import runs as local_runs
from allranks.local.host import addresses
from tests.local.conftest import (
    CommandLine,
    command_line,  # noqa: F401 - a fixture
    port_base,
    progress_of,
    until,
)

pytestmark = [pytest.mark.local, pytest.mark.timeout(600)]

REPO = Path(__file__).parents[2]

# A model of four numbers that is trained until it is told to stop; only the callback has it saved.
TRAIN = """
import sys, time
import torch
from transformers import Trainer, TrainingArguments
import allranks_progress

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.line = torch.nn.Linear(4, 1)

    def forward(self, x, labels):
        time.sleep(0.02)
        return {"loss": ((self.line(x) - labels) ** 2).mean()}

data = [{"x": torch.randn(4), "labels": torch.zeros(1)} for _ in range(64)]
args = TrainingArguments(
    output_dir=sys.argv[1], max_steps=100_000, save_strategy="no", logging_steps=5, report_to=[],
    use_cpu=True, disable_tqdm=True, per_device_train_batch_size=4,
)
trainer = Trainer(
    model=Model(), args=args, train_dataset=data, callbacks=[allranks_progress.callback()]
)
trainer.train()
print("trained to step", trainer.state.global_step, flush=True)
"""


def test_a_trainer_saves_when_it_is_asked_and_before_its_pod_ends(
    command_line: CommandLine,  # noqa: F811 - the fixture
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`checkpoint` makes it save and go on; a stop makes it save once more, and end by itself."""
    words = [sys.executable, REPO / "tools/env.py", "transformers"]
    folder = subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    (packages,) = Path(folder).glob("lib/python*/site-packages")
    saves = tmp_path / "saves"
    values = {
        "workload": "torchrun",
        "script": TRAIN,
        "args": [str(saves)],
        "nodes": 1,
        "procsPerNode": 1,
        "env": {"PYTHONPATH": str(packages)},
        "runPolicy": {"backoffLimit": 0, "terminationGracePeriodSeconds": 60},
        "torchrun": {"port": addresses.free_port(port_base() + 400)},
    }
    (tmp_path / "values.yaml").write_text(json.dumps(values))
    on = ("--on", "local")
    command_line("run", "demo", "-f", tmp_path / "values.yaml", *on, "--detach")

    progress = partial(progress_of, command_line, "demo")
    until(lambda: progress().get("step"), "a first report of Trainer's own", 120)
    answer = json.loads(command_line("checkpoint", "demo", *on, "-o", "json").stdout)
    assert (1, 1, []) == tuple(answer[key] for key in ("pods", "ranks", "problems"))
    step = until(lambda: progress().get("saved"), "the save that was asked for", 60)
    assert (saves / f"checkpoint-{step}" / "trainer_state.json").is_file()

    monkeypatch.setenv(names.ENV_STATE, str(tmp_path))
    local_runs.stop("demo", "default")
    until(lambda: not local_runs.goes_on("demo", "default"), "the end", 60)
    last = progress()["saved"]
    assert last > step
    assert (saves / f"checkpoint-{last}" / "trainer_state.json").is_file()
    assert f"trained to step {last}" in [line.text for line in local_runs.logs("demo", "default")]
    status = command_line("status", "demo", *on).stdout
    assert f"saved at step {last} before it was told to stop" in status
