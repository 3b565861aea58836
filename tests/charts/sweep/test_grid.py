"""What a grid is made of: one Job with a pod for each trial, or a set of objects for each."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from allranks import names
from allranks.sweep.search import space
from allranks.sweep.spec import parameters as spec_parameters
from allranks.sweep.spec.parameters import ParameterReader
from tests.charts.shared.rendered import templates, variables

if TYPE_CHECKING:
    from pathlib import Path

    from tests.charts.shared.rendered import Refusal, Render

LR = {"values": [0.1, 0.01, 0.001], "arg": "--lr"}
TORCHRUN = {"trial": {"workload": "torchrun"}}


def job(manifests: dict[str, Any], name: str = "demo") -> dict[str, Any]:
    """The spec of a Job."""
    spec: dict[str, Any] = manifests[f"Job/{name}"]["spec"]
    return spec


def jobs(manifests: dict[str, Any]) -> list[str]:
    """The names of all Jobs."""
    return [
        manifest["metadata"]["name"] for manifest in manifests.values() if manifest["kind"] == "Job"
    ]


def policies(spec: dict[str, Any]) -> list[tuple[str, list[int]]]:
    """What a Job does at which exit codes."""
    rules = spec["podFailurePolicy"]["rules"]
    return [
        (rule["action"], rule["onExitCodes"]["values"]) for rule in rules if "onExitCodes" in rule
    ]


# --- one Job -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("parallel", "at_once"), [(0, 3), (2, 2), (8, 3)])
def test_so_many_run_at_a_time(parallel: int, at_once: int, render: Render) -> None:
    """Each trial is an index of one Job, of which as many run at a time as was asked."""
    spec = job(render(sweep={"parameters": {"lr": LR}, "parallel": parallel}))
    assert ("Indexed", 3, at_once) == (
        spec["completionMode"],
        spec["completions"],
        spec["parallelism"],
    )


@pytest.mark.parametrize(
    ("limit", "retries", "expected"), [(0, 0, 0), (3, 0, 3), (0, 2, 2), (3, 1, 7)]
)
def test_retries_are_each_trials_own(
    limit: int, retries: int, expected: int, render: Render
) -> None:
    """A trial that fails costs the others nothing; each start of it may lose so many pods."""
    spec = job(
        render(
            runPolicy={"backoffLimit": limit},
            sweep={"parameters": {"lr": LR}, "retries": retries},
        )
    )
    assert expected == spec["backoffLimitPerIndex"]
    assert "backoffLimit" not in spec


@pytest.mark.parametrize(("limit", "expected"), [("", None), (0, 0), (1, 1), (50, 3)])
def test_failed_trials_end_the_sweep(
    limit: int | str, expected: int | None, render: Render
) -> None:
    """The Job has failed with one more failed trial than it may have; no more than there are."""
    spec = job(render(sweep={"parameters": {"lr": LR}, "maxFailedTrials": limit}))
    assert expected == spec.get("maxFailedIndexes")


def test_a_trial_that_reaches_the_goal_ends_the_sweep(render: Render) -> None:
    """An exit code says that the goal was missed: 0 ends the Job, and what missed stays so."""
    objective = {"goal": 0.98, "metric": "accuracy", "missedExitCode": 3}
    spec = job(render(sweep={"parameters": {"lr": LR}, "objective": objective}))
    assert {"rules": [{"succeededCount": 1}]} == spec["successPolicy"]
    assert [("FailIndex", [3])] == policies(spec)
    assert "successPolicy" not in job(render(sweep={"parameters": {"lr": LR}}))


def test_fatal_codes_fail_their_trial_alone(render: Render) -> None:
    """What no restart can mend fails the trial, and the other trials go on."""
    spec = job(render(runPolicy={"fatalExitCodes": [42, 13]}, sweep={"parameters": {"lr": LR}}))
    assert [("FailIndex", [13, 42])] == policies(spec)


def test_the_first_trials_of_a_grid(render: Render) -> None:
    """`trials` takes the first of a grid that may be far too large as a whole."""
    seed = {"range": {"min": 1, "max": 1_000_000_000}, "env": "SEED"}
    manifests = render(sweep={"parameters": {"lr": LR, "seed": seed}, "trials": 4})
    assert 4 == job(manifests)["completions"]
    lines = manifests["ConfigMap/demo-trials-0"]["data"]["0"].splitlines()
    assert ["0 0.1 1", "1 0.1 2", "2 0.1 3", "3 0.1 4"] == lines[1:]


def test_the_table_is_readable(render: Render) -> None:
    """Which trial tries what is a text that a person can read."""
    manifests = render(sweep={"parameters": {"lr": LR, "opt": {"values": ["sgd"], "env": "OPT"}}})
    table = manifests["ConfigMap/demo-trials-0"]["data"]["0"]
    assert "# index lr opt\n0 0.1 sgd\n1 0.01 sgd\n2 0.001 sgd\n" == table


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    parts=st.lists(
        st.tuples(st.integers(-50, 50), st.integers(0, 12), st.sampled_from([1, 2, 3, 7])),
        min_size=1,
        max_size=3,
    ),
    places=st.integers(0, 3),
)
def test_the_grid_is_that_of_python(
    parts: list[tuple[int, int, int]], places: int, render: Render
) -> None:
    """The chart counts ranges and the grid as the command line does, without noise of floats."""
    unit = 10**places
    section = {
        f"p{index}": {
            "range": {"min": low / unit, "max": (low + span) / unit, "step": step / unit},
            "arg": f"--p{index}",
        }
        for index, (low, span, step) in enumerate(parts)
    }
    manifests = render(sweep={"parameters": section})
    parameters = spec_parameters.parameters(ParameterReader(), (), section)
    total = space.grid_size(parameters)
    assert total == job(manifests)["completions"]
    lines = manifests["ConfigMap/demo-trials-0"]["data"]["0"].splitlines()[1:]
    assert total == len(lines)
    for index in {0, total // 2, total - 1}:
        number, *words = lines[index].split(" ")
        assert str(index) == number
        choices = space.assignment(parameters, index)
        assert [float(choices[name].text) for name in sorted(section)] == [float(w) for w in words]


def test_a_thousand_trials_are_small(helm4: Any, sweep: Path) -> None:
    """The objects of 1,000 trials stay far below what a release holds."""
    parameters = {
        "learningRate": {"values": [0.1 / 2**n for n in range(10)], "arg": "--learning-rate"},
        "optimizer": {"values": [f"optimizer-{n}" for n in range(10)], "arg": "--optimizer"},
        "seed": {"range": {"min": 1, "max": 10}, "env": "SEED"},
    }
    image = {"repository": "my/trainer"}
    values = {"image": image, "command": ["x"], "sweep": {"parameters": parameters}}
    text = helm4.render(sweep, values=values)
    assert "completions: 1000" in text
    assert len(text.encode()) < 200 * 1024


def test_a_table_beyond_a_release_is_refused(refusal: Refusal) -> None:
    """It is said how large it is, and what to do, before Helm meets its limit of 1 MiB."""
    words = {"values": [f"{n}" + "x" * 1500 for n in range(500)], "env": "W"}
    message = refusal(sweep={"parameters": {"word": words}})
    assert (
        "ERROR: sweep.parameters: the table of 500 trials with script and setup has 75" in message
    )
    assert "a release has room for 716800; set sweep.trials to less" in message


def test_long_choices_first_are_refused_all_the_same(refusal: Refusal) -> None:
    """The first trials may be longer than the grid is on average; what is rendered is counted."""
    words = {"values": ["x" * 9000, *"abcdefghij"], "env": "W"}
    seed = {"range": {"min": 1, "max": 100}, "env": "SEED"}
    message = refusal(sweep={"parameters": {"a": words, "seed": seed}, "trials": 100})
    assert "ERROR: sweep.parameters: the table of the trials has 9" in message


# --- a set of objects for each trial -------------------------------------------------------------


def test_trials_of_several_nodes(render: Render) -> None:
    """Each trial is a torchrun job of its own, with a Service of its own, over shared files."""
    manifests = render(
        nodes=2,
        sweep={"parameters": {"lr": LR}, **TORCHRUN},
        storage={"workspace": {"size": "1Gi"}},
    )
    assert ["demo-0", "demo-1", "demo-2"] == jobs(manifests)
    for index in range(3):
        name = f"demo-{index}"
        assert 2 == job(manifests, name)["completions"]
        selector = manifests[f"Service/{name}"]["spec"]["selector"]
        template = job(manifests, name)["template"]
        labels = template["metadata"]["labels"]
        assert selector.pop(names.JOB_COMPLETION_INDEX) == "0"
        assert selector.items() <= labels.items()
        assert f"trial-{index}" == labels[names.GROUP]
        env = variables(template)
        assert f"{name}-0.{name}:29500" == env["PET_RDZV_ENDPOINT"]
        assert (str(index), "2") == (env["ALLRANKS_TRIAL"], env["PET_NNODES"])
        assert name == template["spec"]["subdomain"]
        volumes = {volume["name"]: volume for volume in template["spec"]["volumes"]}
        assert "demo" == volumes["entry"]["configMap"]["name"]
        claim = volumes["workspace"]["persistentVolumeClaim"]["claimName"]
        assert "demo-workspace" == claim
    assert 1 == sum(name.startswith("PersistentVolumeClaim") for name in manifests)


def test_one_node_of_torchrun_is_one_job(render: Render) -> None:
    """A trial that fits one pod is a pod of one Job, and runs torchrun in it."""
    manifests = render(gpus=8, sweep={"parameters": {"lr": LR}, **TORCHRUN})
    env = variables(job(manifests)["template"])
    assert ("1", "8") == (env["PET_STANDALONE"], env["PET_NPROC_PER_NODE"])
    assert "ALLRANKS_NODE_RANK" not in env
    assert "launch.py" in manifests["ConfigMap/demo"]["data"]
    assert "launch.py" not in render(sweep={"parameters": {"lr": LR}})["ConfigMap/demo"]["data"]


@pytest.mark.parametrize(("nodes", "action"), [(1, "FailIndex"), (2, "FailJob")])
def test_a_trial_has_a_preflight(render: Render, nodes: int, action: str) -> None:
    """Its pods have the program that looks at their nodes; an unfit one fails that trial alone."""
    trial = {"workload": "torchrun", "values": {"torchrun": {"preflight": {"level": "quick"}}}}
    manifests = render(nodes=nodes, sweep={"parameters": {"lr": LR}, "trial": trial})
    assert {"preflight.py", "preflight_checks.py"} <= manifests["ConfigMap/demo"]["data"].keys()
    for name in jobs(manifests):
        rule = job(manifests, name)["podFailurePolicy"]["rules"][-1]
        assert (action, [names.EXIT_PREFLIGHT]) == (rule["action"], rule["onExitCodes"]["values"])


def test_a_value_of_the_chart_is_a_parameter(render: Render) -> None:
    """A path reaches any value of the trial: a number where there is one, else the text."""
    manifests = render(
        sweep={
            "parameters": {
                "nodes": {"values": [1, "2"]},
                "image.tag": {"values": [1.5]},
                "who": {"values": ["a"], "path": ["labels.team", "annotations.team"]},
            },
            **TORCHRUN,
        }
    )
    assert [1, 2] == [job(manifests, name)["completions"] for name in jobs(manifests)]
    for template in templates(manifests).values():
        assert "my/trainer:1.5" == template["spec"]["containers"][0]["image"]
        assert "a" == template["metadata"]["labels"]["team"]
        assert "a" == template["metadata"]["annotations"]["team"]


def test_placeholders_outside_of_the_program(render: Render) -> None:
    """Where a string of the trial is not its program's, each trial has a pod of its own kind."""
    manifests = render(
        workingDir="/opt/cuda-${sweep.cuda}",
        annotations={"example.com/trial": '${sweep.trial}: "${sweep.cuda}"'},
        args=["${sweep.cuda}"],
        sweep={"parameters": {"cuda": {"values": ["11", "12"]}}},
    )
    assert ["demo-0", "demo-1"] == jobs(manifests)
    template = job(manifests, "demo-1")["template"]
    container = template["spec"]["containers"][0]
    assert "/opt/cuda-12" == container["workingDir"]
    assert 'demo-1: "12"' == template["metadata"]["annotations"]["example.com/trial"]
    assert "$${sweep.cuda}" == container["args"][-1]


def test_values_of_the_trial_win(render: Render) -> None:
    """`sweep.trial.values` is laid over the values at the root, empty ones too."""
    manifests = render(
        setup="echo",
        env={"A": "1", "B": "1"},
        sweep={
            "parameters": {"lr": LR},
            "trial": {
                "workload": "torchrun",
                "values": {"setup": "", "env": {"B": "2"}, "torchrun": {"maxRestarts": 0}},
            },
        },
    )
    env = variables(job(manifests)["template"])
    assert ("1", "2", "0") == (env["A"], env["B"], env["PET_MAX_RESTARTS"])
    assert "setup.sh" not in manifests["ConfigMap/demo"]["data"]


def test_a_hundred_sets(render: Render) -> None:
    """So many trials of several pods have room in one release."""
    seed = {"range": {"min": 1, "max": 100}, "env": "SEED"}
    manifests = render(nodes=2, sweep={"parameters": {"seed": seed}, **TORCHRUN})
    assert 100 == len(jobs(manifests))


# --- what both have ------------------------------------------------------------------------------


@pytest.mark.parametrize(("nodes", "name"), [(1, "demo"), (2, "demo-0")])
def test_what_the_sweep_is_stands_on_its_jobs(nodes: int, name: str, render: Render) -> None:
    """Who reads the results in a cluster finds the metric, and the parameters in their order."""
    manifests = render(
        nodes=nodes,
        sweep={
            "parameters": {"b": LR, "a": {"values": [1], "arg": "--a"}},
            "objective": {"metric": "loss", "direction": "minimize"},
            **TORCHRUN,
        },
    )
    about = json.loads(manifests[f"Job/{name}"]["metadata"]["annotations"][names.SWEEP])
    assert (["a", "b"], 3) == (about["parameters"], about["trials"])
    assert {"metric": "loss", "direction": "minimize", "goal": ""} == about["objective"]


@pytest.mark.parametrize("nodes", [1, 1000])
def test_longest_name(nodes: int, render: Render) -> None:
    """The longest release name that Helm allows renders, and every pod can be named after it."""
    seed = {"range": {"min": 1, "max": 100}, "env": "S"}
    manifests = render(name="a" * 53, nodes=nodes, sweep={"parameters": {"s": seed}, **TORCHRUN})
    for manifest in manifests.values():
        assert len(manifest["metadata"]["name"]) <= 63
        if manifest["kind"] == "Job":
            last = manifest["spec"]["completions"] - 1
            assert len(f"{manifest['metadata']['name']}-{last}") <= 63


def test_longest_name_of_what_shows_the_logs(render: Render, refusal: Refusal) -> None:
    """The Service of TensorBoard has the longest name of all."""
    values: dict[str, Any] = {
        "storage": {"workspace": {"size": "1Gi"}},
        "sweep": {"parameters": {"lr": LR}, "tensorboard": {"enabled": True}},
    }
    manifests = render(name="a" * 51, **values)
    assert 63 == max(len(manifest["metadata"]["name"]) for manifest in manifests.values())
    assert "is named after it; use at most 51" in refusal(name="a" * 52, **values)


def test_logs_are_shown_by_the_trials_image(render: Render) -> None:
    """Without an image of its own TensorBoard runs in that of the trials, and only reads."""
    manifests = render(
        storage={"checkpoints": {"existingClaim": "logs", "subPath": "team"}},
        sweep={
            "parameters": {"lr": LR},
            "tensorboard": {"enabled": True, "volume": "checkpoints", "path": "runs"},
        },
    )
    spec = manifests["Deployment/demo-tensorboard"]["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert "my/trainer:1.4" == container["image"]
    logs = {"name": "checkpoints", "mountPath": "/logs", "readOnly": True, "subPath": "team/runs"}
    assert logs in container["volumeMounts"]
    service = manifests["Service/demo-tensorboard"]["spec"]
    assert [80] == [port["port"] for port in service["ports"]]
    assert "http" == service["ports"][0]["targetPort"]
