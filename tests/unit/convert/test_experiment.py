from __future__ import annotations

import pytest

from tests.converted import lost, refusal, sample


def test_an_experiment_is_a_sweep() -> None:
    """The search, its bounds and what a trial is judged by are the sweep's."""
    sweep = sample("experiment.yaml", "rates").values["sweep"]
    assert ("tpe", 10, 8, 2, "all") == tuple(
        sweep[key] for key in ("search", "seed", "trials", "parallel", "keep")
    )
    assert {"metric": "accuracy", "direction": "maximize", "goal": 0.98} == sweep["objective"]
    assert {"kind": "median", "warmupTrials": 3, "minSteps": 5} == sweep["earlyStopping"]


def test_one_failed_trial_less() -> None:
    """Katib ends with the third failed trial, and a sweep with one more than it may have."""
    assert 2 == sample("experiment.yaml", "rates").values["sweep"]["maxFailedTrials"]


def test_the_parameters_have_their_spaces() -> None:
    """Each kind of space has its form; what no trial reads is left out, and that is said."""
    conversion = sample("experiment.yaml", "rates")
    assert {
        "lr": {"logUniform": {"min": 0.001, "max": 0.1}},
        "momentum": {"uniform": {"min": 0.5, "max": 0.9}},
        "layers": {"range": {"min": 2, "max": 8, "step": 2}},
        "width": {"intUniform": {"min": 16, "max": 64}},
        "optimizer": {"values": ["sgd", "adam"]},
    } == conversion.values["sweep"]["parameters"]
    assert "spec.parameters[5].name" in lost(conversion)


def test_placeholders_stand_where_they_stood() -> None:
    """A parameter is put in where the trial's job has it, and so is the trial's own name."""
    values = sample("experiment.yaml", "rates").values
    assert ["python", "train.py", "--lr=${sweep.lr}", "--momentum=${sweep.momentum}"] == values[
        "command"
    ][:4]
    assert {"WIDTH": "${sweep.width}", "TRIAL": "${sweep.trial}"} == values["env"]


def test_the_primary_container_runs_the_program() -> None:
    """The container that the Experiment names is the trainer, wherever it stands."""
    assert (
        "example.org/team/trainer"
        == sample("experiment.yaml", "rates").values["image"]["repository"]
    )


def test_a_pattern_of_lines_has_a_named_group() -> None:
    """Katib's pattern, whose groups are name and value, has the metric's name and a named group."""
    metrics = sample("experiment.yaml", "rates").values["sweep"]["metrics"]
    assert {"from": "stdout", "regex": r"{name: accuracy, value: (?P<accuracy>[0-9.]+)}"} == metrics


def test_a_trial_of_ranks_runs_under_torchrun() -> None:
    """A trial that is a PyTorchJob has its workload, and a grid its steps."""
    values = sample("experiment.yaml", "ranks").values
    trial = {"workload": "torchrun", "values": {"torchrun": {"maxRestarts": 0}}}
    assert (trial, 2) == (values["sweep"]["trial"], values["nodes"])
    assert {"range": {"min": 0.01, "max": 0.03, "step": 0.01}} == values["sweep"]["parameters"][
        "lr"
    ]


def test_an_optimization_job_is_a_sweep_too() -> None:
    """Trainer's OptimizationJob puts its parameters in by another sign."""
    conversion = sample("experiment.yaml", "rates-of-trainer")
    values = conversion.values
    assert ["--lr=${sweep.lr}", "--batch=${sweep.batch}"] == values["command"][3:5]
    assert {"min": 8, "max": 64} == values["sweep"]["parameters"]["batch"]["intUniform"]
    assert ({"team": "vision"}, set()) == (values["labels"], lost(conversion))


@pytest.mark.parametrize("algorithm", ["enas", "darts", "pbt"])
def test_a_search_that_there_is_not_is_refused(algorithm: str) -> None:
    """A search of architectures, or of populations, is refused in a sentence."""
    problem = refusal(
        "apiVersion: kubeflow.org/v1beta1\nkind: Experiment\nmetadata: {name: a}\n"
        f"spec: {{algorithm: {{algorithmName: {algorithm}}}}}\n"
    )
    assert problem.message.startswith(f"{algorithm} is not converted")
    assert "keep Katib for it" in problem.hint
