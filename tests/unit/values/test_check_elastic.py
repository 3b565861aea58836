"""The rules between an elastic job's values, and the recipes of the frameworks they read."""

from __future__ import annotations

from typing import Any

import pytest

from allranks import names
from allranks.model.job_spec import JobSpec
from allranks.values import check, frameworks
from allranks.values.merge import merge, overlay
from allranks.values.sources import defaults
from allranks.yamlio.load import load

BASE = {"workload": "elastic", "image": {"repository": "x"}, "command": ["python", "train.py"]}
AUTO = "elastic: {mode: auto, framework: pytorch, auto: {maxWorkers: 4}"
RING = "elastic: {mode: auto, framework: pytorch, "
START = "elastic.auto.policy.startWorkers"
ASKS = "resources: {perPod: {requests: {cpu: 100m, memory: 1Gi}}}"

REFUSED = [
    ("elastic-choice", "elastic: {strategy: AllreduceStrategy}", "elastic.strategy"),
    ("elastic-choice", "elastic: {mode: auto, framework: mxnet}", "elastic.framework"),
    ("elastic-choice", AUTO + ", successPolicy: lead}", "elastic.successPolicy"),
    ("elastic-choice", AUTO + ", port: 5000}", "elastic.port"),
    ("elastic-follow-port", "elastic: {followPort: 2222}", "elastic.followPort"),
    ("elastic-follow-port", "elastic: {port: 65535, followPort: 65535}", "elastic.followPort"),
    ("elastic-roles", "elastic: {roles: {server: {replicas: 1}}}", "elastic.roles.server.replicas"),
    ("elastic-roles", "elastic: {roles: {chief: {replicas: 2}}}", "elastic.roles.chief.replicas"),
    ("elastic-lead", "nodes: 1\nelastic: {mode: auto}", "nodes"),
    (
        "elastic-lead",
        "elastic: {mode: auto, roles: {worker: {replicas: 1}}}",
        "elastic.roles.worker.replicas",
    ),
    (
        "elastic-lead",
        "elastic: {mode: auto, auto: {maxWorkers: 1}}",
        "elastic.auto.maxWorkers",
    ),
    ("elastic-roles", AUTO + ", roles: {ps: {replicas: 1}}}", "elastic.roles.ps.replicas"),
    (
        "elastic-roles",
        "elastic: {roles: {ps: {resources: {limits: {nvidia.com/gpu: 1}}}}}",
        'elastic.roles.ps.resources.limits["nvidia.com/gpu"]',
    ),
    (
        "own-units",
        "elastic: {roles: {worker: {resources: {requests: {memory: 16}}}}}",
        "elastic.roles.worker.resources.requests.memory",
    ),
    (
        "own-units",
        "elastic: {mode: auto, framework: pytorch, auto: {limits: {memory: 64}}}",
        "elastic.auto.limits.memory",
    ),
    (
        "elastic-workers",
        "{nodes: 2, elastic: {roles: {worker: {replicas: 3}}}}",
        "elastic.roles.worker.replicas",
    ),
    (
        "elastic-workers",
        "{gpusPerNode: 2, elastic: {roles: {worker: {gpusPerPod: 1}}}}",
        "elastic.roles.worker.gpusPerPod",
    ),
    ("elastic-processes", "procsPerNode: 2", "procsPerNode"),
    (
        "elastic-processes",
        "{procsPerNode: 2, elastic: {mode: auto, auto: {maxWorkers: 2}}}",
        "procsPerNode",
    ),
    (
        "elastic-auto",
        "elastic: {mode: auto, framework: pytorch, auto: {minWorkers: 3, maxWorkers: 2}}",
        "elastic.auto.minWorkers",
    ),
    *(
        ("elastic-auto", f"{{{AUTO}}}, runPolicy: {{{key}: {value}}}}}", f"runPolicy.{key}")
        for key, value in [
            ("activeDeadlineSeconds", 1),
            ("ttlSecondsAfterFinished", 1),
        ]
    ),
    (
        "elastic-auto",
        (
            "{elastic: {mode: auto, framework: pytorch, auto: {master: {image: x, command: [y]}}}, "
            "runPolicy: {fatalExitCodes: [1]}}"
        ),
        "runPolicy.fatalExitCodes",
    ),
    (
        "elastic-auto",
        "elastic: {mode: auto, framework: pytorch, auto: {master: {command: [x]}}}",
        "elastic.auto.master.image",
    ),
    (
        "elastic-auto",
        (
            "elastic: {mode: auto, framework: pytorch, auto: {master: {podTemplate: {spec: "
            "{containers: [{name: log}, {name: trainer}]}}}}}"
        ),
        "elastic.auto.master.podTemplate.spec.containers[1].name",
    ),
    ("elastic-start", RING + "auto: {maxWorkers: 4, policy: {startWorkers: 5}}}", START),
    ("elastic-start", RING + "auto: {minWorkers: 2, policy: {startWorkers: 1}}}", START),
    (
        "elastic-start",
        f"{{nodes: 2, {RING}auto: {{maxWorkers: 4, policy: {{startWorkers: 3}}}}}}}}",
        START,
    ),
    (
        "elastic-limits",
        f"{{{ASKS}, {RING}auto: {{maxWorkers: 4, limits: {{cpu: 50m}}}}}}}}",
        "elastic.auto.limits.cpu",
    ),
    (
        "elastic-limits",
        f"{{{ASKS}, {RING}auto: {{minWorkers: 3, limits: {{memory: 2Gi}}}}}}}}",
        "elastic.auto.limits.memory",
    ),
    (
        "elastic-limits",
        f"{{gpusPerNode: 4, {RING}auto: {{minWorkers: 2, limits: {{gpu: 7}}}}}}}}",
        "elastic.auto.limits.gpu",
    ),
    (
        "elastic-limits",
        f"{{nodes: 3, {ASKS}, {RING}auto: {{limits: {{cpu: 200m}}}}}}}}",
        "elastic.auto.limits.cpu",
    ),
    ("elastic-names", "nodes: 9000", "nodes"),
    (
        "elastic-names",
        "elastic: {roles: {worker: {replicas: 9000}}}",
        "elastic.roles.worker.replicas",
    ),
    ("elastic-names", f"{{nodes: 2000, setup: {'x' * 760_000}}}", "setup"),
    # rules of all workloads, where an elastic job's values are others
    ("reserved-env", 'env: {TF_CONFIG: "{}"}', "env.TF_CONFIG"),
    ("reserved-env", 'elastic: {roles: {ps: {env: {ALLRANKS_X: ""}}}}', "elastic.roles.ps.env"),
    ("reserved-env", f'{{{AUTO}}}, env: {{RANK: "1"}}}}', "env.RANK"),
    (
        "pod-template",
        "elastic: {roles: {ps: {podTemplate: {spec: {hostname: x}}}}}",
        "elastic.roles.ps.podTemplate.spec.hostname",
    ),
    ("elastic-nodes", f"{{nodes: 5, {AUTO}}}}}", "nodes"),
    ("gpus-divide", "{gpus: 3, elastic: {roles: {worker: {replicas: 2}}}}", "gpus"),
    ("gpus-agree", "{gpus: 8, elastic: {roles: {worker: {replicas: 3, gpusPerPod: 4}}}}", "gpus"),
    ("node-shape-gpus", "{nodeShape: {gpus: 4}, gpusPerNode: 8}", "gpusPerNode"),
]

ACCEPTED = [
    "{}",
    AUTO + "}",
    f"{{runPolicy: {{fatalExitCodes: [3]}}, {AUTO}}}}}",
    f"{{nodes: 4, procsPerNode: 2, {AUTO}}}}}",
    "elastic: {mode: auto, auto: {limits: {cpu: 8}}, roles: {chief: {replicas: 1}}}",
    "elastic: {mode: auto, auto: {minWorkers: 3}, framework: pytorch, strategy: AllreduceStrategy}",
    f"{{{ASKS}, {RING}auto: {{minWorkers: 2, limits: {{cpu: 200m}}}}}}}}",
    f"{{gpusPerNode: 4, {RING}auto: {{minWorkers: 2, limits: {{gpu: 8}}}}}}}}",
    RING + "auto: {maxWorkers: 4, policy: {startWorkers: 4}}}",
    f"{{nodes: 2, {RING}auto: {{maxWorkers: 4, policy: {{startWorkers: 2}}}}}}}}",
    "elastic: {roles: {chief: {replicas: 1}, ps: {replicas: 9}, evaluator: {replicas: 1}}}",
    "elastic: {framework: mxnet, roles: {scheduler: {replicas: 1}, server: {replicas: 4}}}",
    "{gpus: 8, elastic: {roles: {worker: {replicas: 2, gpusPerPod: 4}}}}",
    "{nodes: 2000, elastic: {roles: {ps: {replicas: 100}}}}",
    'env: {RANK: "1", DMLC_ROLE: x}',
    "{storage: {datasets: {size: 1Gi, accessModes: [ReadWriteOnce]}}, nodes: 1}",
]


def values(text: str) -> dict[str, Any]:
    """The chart's defaults with some values over them."""
    return merge(defaults("elastic"), overlay(BASE, load(text, "values").data or {}))


@pytest.mark.parametrize(("rule", "text", "where"), REFUSED)
def test_a_rule_refuses_its_values(rule: str, text: str, where: str) -> None:
    """Each is refused at its path, by that rule, with a way out."""
    problems = check.check(values(text), lambda _: "")
    assert any(problem.path.startswith(where) and problem.hint for problem in problems), problems
    others = [other for other in check.rules() if other.id == rule]
    assert others, f"there is no rule {rule}"


@pytest.mark.parametrize("text", ACCEPTED)
def test_what_is_right_is_accepted(text: str) -> None:
    """Neighbours of what is refused are not."""
    assert [] == check.check(values(text), lambda _: "", "demo", "lab")


def test_every_rule_has_a_case() -> None:
    """A new rule comes with values that it refuses."""
    own = [rule for rule in check.rules() if rule.workload == "elastic"]
    judging = {rule.id for rule in own if not rule.warning}
    assert judging <= {rule for rule, _, _ in REFUSED}


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("elastic: {mode: auto, framework: pytorch}", ["elastic.auto"]),
        (AUTO + "}", []),
        ("elastic: {mode: auto, auto: {limits: {gpu: 8}}}", ["elastic.auto.limits.gpu"]),
        ("{gpusPerNode: 2, elastic: {mode: auto, auto: {limits: {gpu: 8}}}}", []),
        ("elastic: {roles: {ps: {gpusPerPod: 1}}}", ["elastic.roles.ps.gpusPerPod"]),
        ("elastic: {roles: {worker: {env: {A: b}}}}", []),
        (AUTO + ", strategy: ParameterServerStrategy, roles: {ps: {env: {A: b}}}}", []),
        (AUTO + ", roles: {ps: {env: {A: b}}}}", ["elastic.roles.ps.env"]),
        *(
            (f"elastic: {{auto: {{{policy}}}}}", [f"elastic.auto.{where}"])
            for policy, where in [
                ("minWorkers: 1", "minWorkers"),
                ("maxWorkers: 4", "maxWorkers"),
                ("limits: {cpu: 4}", "limits.cpu"),
                ("relaunch: master", "relaunch"),
                ("policy: {startWorkers: 2}", "policy.startWorkers"),
                ("master: {image: x}", "master.image"),
                ("master: {podTemplate: {spec: {hostUsers: false}}}", "master.podTemplate"),
            ]
        ),
        ("{nodeShape: {gpus: 2}, elastic: {mode: auto, auto: {limits: {gpu: 8}}}}", []),
        (
            f"{{{ASKS}, {RING}auto: {{maxWorkers: 8, limits: {{cpu: 500m}}}}}}}}",
            ["elastic.auto.maxWorkers"],
        ),
        ("elastic: {mode: auto, auto: {master: {image: x, command: [y]}}}", []),
        ("{}", []),
    ],
)
def test_what_does_nothing_is_worth_a_word(text: str, paths: list[str]) -> None:
    """None, a limit of GPUs where no pod has any, one below the most, those of a static job."""
    assert paths == [problem.path for problem in check.warnings(values(text), lambda _: "")]


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        (
            f"{{nodes: 9, {RING}auto: {{maxWorkers: 8}}}}}}",
            "the size is 9 nodes, outside the elastic range 1 to 8",
            "write 8, or leave nodes out to start with the fewest, or widen the range",
        ),
        (
            RING + "roles: {worker: {replicas: 9}}, auto: {maxWorkers: 8}}",
            "the size is 9 nodes, outside the elastic range 1 to 8",
            "write 8, or leave it out, or widen the range",
        ),
        (
            "elastic: {roles: {server: {replicas: 1}}}",
            "the job has no server; tensorflow has chief, worker, ps, evaluator",
            "remove it, or set elastic.framework: mxnet",
        ),
        (
            RING + "roles: {ps: {replicas: 1}}}",
            "the job has no ps: with AllreduceStrategy there are workers alone",
            "remove it, or set elastic.strategy: ParameterServerStrategy",
        ),
        (
            RING + "auto: {minWorkers: 3, maxWorkers: 2}}",
            "3 is more than elastic.auto.maxWorkers, which is 2",
            "write 2 or less, or raise maxWorkers to 3",
        ),
        (
            RING + "auto: {maxWorkers: 8, policy: {startWorkers: 9}}}",
            "9 is outside the range of workers, 1 to 8",
            "write 8, or raise what bounds it: elastic.auto.maxWorkers is 8",
        ),
        (
            (
                f"{{gpusPerNode: 4, {RING}auto: "
                "{limits: {gpu: 9}, policy: {startWorkers: 3}}}}"
            ),
            "3 is outside the range of workers, 1 to 2",
            "write 2, or raise what bounds it: elastic.auto.limits.gpu 9 holds 2",
        ),
        (
            f"{{{ASKS}, {RING}auto: {{maxWorkers: 4, limits: {{cpu: 50m}}}}}}}}",
            "50m is all that the pods may ask; one worker asks 100m",
            "raise it to at least 100m, or let a pod ask less",
        ),
        (
            (
                f"{{{ASKS}, elastic: {{mode: auto, "
                "auto: {minWorkers: 3, limits: {memory: 4Gi}}, "
                "roles: {ps: {replicas: 1, resources: {requests: {memory: 2Gi}}}}}}"
            ),
            (
                "4Gi is all that the pods may ask; 3 workers (elastic.auto.minWorkers) ask 3Gi, "
                "and the other roles 2Gi"
            ),
            "raise it to 5Gi, or write elastic.auto.minWorkers: 2",
        ),
    ],
)
def test_advice_that_can_be_followed(text: str, message: str, hint: str) -> None:
    """What is said of the size of an elastic job: what was given, what is allowed, and a fix."""
    assert [(message, hint)] == [
        (problem.message, problem.hint) for problem in check.check(values(text), lambda _: "")
    ]


def test_advice_minds_every_bound() -> None:
    """What the limits would hold is no advice where maxWorkers forbids it."""
    text = f"{{{ASKS}, {RING}auto: {{minWorkers: 9, maxWorkers: 6, limits: {{cpu: 800m}}}}}}}}"
    assert [
        "write 6 or less, or raise maxWorkers to 9",
        "raise it to 900m, or write elastic.auto.minWorkers: 6",
    ] == [problem.hint for problem in check.check(values(text), lambda _: "")]


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("{}", 53),
        ("{nodes: 101}", 52),
        ("elastic: {roles: {evaluator: {replicas: 1}}}", 51),
        (AUTO + "}", 37),
    ],
)
def test_names_leave_room_for_the_pods(text: str, limit: int) -> None:
    """The longest name of a pod, and of a master's Service, has at most 63 characters."""
    assert [] == check.check(values(text), lambda _: "", "a" * limit)
    (problem,) = check.check(values(text), lambda _: "", "a" * (limit + 1))
    assert f"at most {limit} are allowed" in problem.message


def test_every_framework_is_a_choice() -> None:
    """The recipes and the schema's list are the same, and each recipe can run."""
    recipes = frameworks.recipes()
    assert {"tensorflow", "mxnet", "pytorch"} == set(recipes)
    for name, recipe in recipes.items():
        assert "worker" in recipe.roles, name
        assert set(recipe.roles) <= set(defaults("elastic")["elastic"]["roles"])
        assert recipe.env
        assert recipe.strategy in ("", "AllreduceStrategy", "ParameterServerStrategy")
        assert 0 < recipe.port < 65536


@pytest.mark.parametrize("framework", ["tensorflow", "mxnet", "pytorch"])
def test_who_has_several_processes_is_the_recipes_word(framework: str) -> None:
    """The layout and the recipes agree on which jobs run torchrun by default."""
    own = {"mode": "auto", "framework": framework, "strategy": ""}
    rings = frameworks.recipes()[framework].strategy == "AllreduceStrategy"
    job_values = values(f"{{procsPerNode: 3, elastic: {own}}}".replace("'", '"'))
    assert (3 if rings else 1) == JobSpec.from_values(job_values).procs_per_node


def test_reserved_names_of_an_elastic_job_are_known() -> None:
    """What the operator sets in the pods, nobody else may."""
    assert {"TF_CONFIG", "POD_NAME", "NODE_RANK"} <= set(names.RESERVED_ENV_ELASTIC_JOB)
