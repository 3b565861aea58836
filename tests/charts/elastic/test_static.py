"""Mode static: a Job for each role, who leads, and what the pods are told."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from allranks import names
from tests.charts.shared.rendered import templates, variables

if TYPE_CHECKING:
    from tests.charts.shared.rendered import Render

FLOW = {"roles": {"chief": {"replicas": 1}, "ps": {"replicas": 2}, "evaluator": {"replicas": 1}}}


def plan(manifests: dict[str, Any]) -> dict[str, Any]:
    """What the pods read."""
    content: dict[str, Any] = json.loads(manifests["ConfigMap/demo"]["data"]["plan.json"])
    return content


def leading(manifests: dict[str, Any]) -> set[str]:
    """The Jobs that decide over the run."""
    return {
        manifest["metadata"]["name"]
        for manifest in manifests.values()
        if manifest["metadata"].get("annotations", {}).get(names.LEAD) == "true"
    }


def request(manifests: dict[str, Any], name: str, annotation: str) -> Any:
    """What a controller asks of the post-renderer; None where it asks nothing."""
    text = manifests[name]["metadata"]["annotations"].get(annotation)
    return None if text is None else json.loads(text)


def test_each_role_is_a_job(render: Render) -> None:
    """Indexed, with tries of its own for each pod, and one Service that names all pods."""
    manifests = render(nodes=3, elastic=FLOW, runPolicy={"backoffLimit": 2})
    assert {"chief": 1, "worker": 3, "ps": 2, "evaluator": 1} == {
        name.removeprefix("Job/demo-"): manifest["spec"]["completions"]
        for name, manifest in manifests.items()
        if manifest["kind"] == "Job"
    }
    for name, template in templates(manifests).items():
        spec = manifests[name]["spec"]
        assert {
            "completionMode": "Indexed",
            "parallelism": spec["completions"],
            "backoffLimitPerIndex": 2,
            "podReplacementPolicy": "Failed",
        }.items() <= spec.items()
        # The training goes on without an evaluator, and without nobody else.
        assert (None if "evaluator" in name else 0) == spec.get("maxFailedIndexes")
        assert "demo" == template["spec"]["subdomain"]
        labels = template["metadata"]["labels"]
        assert manifests["Service/demo"]["spec"]["selector"].items() <= labels.items()
    assert [2222] == [port["port"] for port in manifests["Service/demo"]["spec"]["ports"]]


@pytest.mark.parametrize(
    ("own", "leads", "pods", "rank_zero_ends"),
    [
        (FLOW, {"demo-chief"}, [["chief", 1]], False),
        ({}, {"demo-worker"}, [["worker", 1]], True),
        ({"framework": "mxnet"}, {"demo-worker"}, [["worker", 3]], False),
        ({"framework": "mxnet", "successPolicy": "lead"}, {"demo-worker"}, [["worker", 1]], True),
        (
            FLOW | {"successPolicy": "allWorkers"},
            {"demo-chief", "demo-worker"},
            [["chief", 1], ["worker", 3]],
            False,
        ),
    ],
)
def test_who_leads(
    own: dict[str, Any],
    leads: set[str],
    pods: list[Any],
    rank_zero_ends: bool,
    render: Render,
) -> None:
    """The chief, else worker 0, or all workers: in the Jobs and in what the pods are told."""
    manifests = render(nodes=3, elastic=own)
    assert leads == leading(manifests)
    assert pods == plan(manifests)["leads"]
    ends = {name for name in templates(manifests) if "successPolicy" in manifests[name]["spec"]}
    assert ({"Job/demo-worker"} if rank_zero_ends else set()) == ends


def test_ends_that_are_not_tried_again(render: Render) -> None:
    """A lost lead, a training that another pod lost, and the user's fatal codes fail a Job."""
    manifests = render(elastic=FLOW, runPolicy={"fatalExitCodes": [42, 3]})
    for name in templates(manifests):
        rules = manifests[name]["spec"]["podFailurePolicy"]["rules"]
        assert ["Ignore", "FailJob", "FailJob", "FailJob"] == [rule["action"] for rule in rules]
        codes = [rule["onExitCodes"]["values"] for rule in rules[1:]]
        assert [[215], [216], [3, 42]] == codes


def test_the_leads_deadline_decides(render: Render) -> None:
    """The others' comes later, so that they end as well; all are removed after the same time."""
    policy = {"activeDeadlineSeconds": 100, "ttlSecondsAfterFinished": 9, "suspend": True}
    manifests = render(elastic=FLOW, runPolicy=policy)
    for name in templates(manifests):
        spec = manifests[name]["spec"]
        assert (100 if "chief" in name else 160) == spec["activeDeadlineSeconds"]
        assert (9, True) == (spec["ttlSecondsAfterFinished"], spec["suspend"])


def test_plan(render: Render) -> None:
    """All pods by role, each with its full name and its port."""
    manifests = render(nodes=2, elastic=FLOW | {"port": 5000})
    content = plan(manifests)
    assert {
        "chief": ["demo-chief-0.demo.default.svc:5000"],
        "evaluator": ["demo-evaluator-0.demo.default.svc:5000"],
        "ps": [f"demo-ps-{index}.demo.default.svc:5000" for index in range(2)],
        "worker": [f"demo-worker-{index}.demo.default.svc:5000" for index in range(2)],
    } == content["hosts"]
    assert (["evaluator"], ["TF_CONFIG"]) == (content["optional"], list(content["env"]))


@pytest.mark.parametrize(
    ("framework", "port", "env"),
    [("tensorflow", 2222, "TF_CONFIG"), ("mxnet", 9091, "DMLC_ROLE"), ("pytorch", 29500, "RANK")],
)
def test_recipes(framework: str, port: int, env: str, render: Render) -> None:
    """What a framework asks stands in its recipe: ports, variables, roles it cannot do without."""
    manifests = render(elastic={"framework": framework})
    assert env in plan(manifests)["env"]
    (container,) = manifests["Job/demo-worker"]["spec"]["template"]["spec"]["containers"]
    assert [port] == [entry["containerPort"] for entry in container["ports"]]
    assert (framework == "mxnet") == ("Job/demo-scheduler" in manifests)


def test_what_the_wrapper_is_told(render: Render) -> None:
    """Its role, its tries, whom to ask and for how long."""
    manifests = render(
        elastic={"leadLostSeconds": 90, "followPort": 7000},
        runPolicy={"backoffLimit": 5, "fatalExitCodes": [3]},
        network={"waitSeconds": 7},
    )
    env = variables(manifests["Job/demo-worker"]["spec"]["template"])
    failures = f"metadata.annotations['{names.JOB_INDEX_FAILURE_COUNT}']"
    assert {
        "ALLRANKS_ROLE": "worker",
        "ALLRANKS_PLAN": "/etc/allranks/plan.json",
        "ALLRANKS_POD_IP": {"fieldRef": {"fieldPath": "status.podIP"}},
        "ALLRANKS_FAILURES": {"fieldRef": {"fieldPath": failures}},
        "ALLRANKS_BACKOFF_LIMIT": "5",
        "ALLRANKS_FATAL_EXIT_CODES": "3",
        "ALLRANKS_WAIT_SECONDS": "7",
        "ALLRANKS_FOLLOW_PORT": "7000",
        "ALLRANKS_LOST_SECONDS": "90",
    }.items() <= env.items()


def test_each_role_asks_for_its_own(render: Render) -> None:
    """Shares, shared memory and the GPU type are the workers', and of roles with GPUs."""
    manifests = render(
        gpusPerNode=4,
        gpuType={"value": "A100"},
        resources={"perGpu": {"cpu": 2}},
        shm={"sizePerGpu": "1Gi"},
        elastic={
            "roles": {
                "chief": {"replicas": 1},
                "worker": {"resources": {"requests": {"cpu": 7}}},
                "ps": {"replicas": 1, "resources": {"limits": {"memory": "2Gi"}}},
                "evaluator": {"replicas": 1, "gpusPerPod": 1},
            }
        },
    )
    gpu = "nvidia.com/gpu"
    assert {
        "chief": None,
        "worker": {"requests": {"cpu": "7", gpu: "4"}, "limits": {"cpu": "8", gpu: "4"}},
        "ps": {"limits": {"memory": "2Gi"}},
        "evaluator": {"requests": {"cpu": "2", gpu: "1"}, "limits": {"cpu": "2", gpu: "1"}},
    } == {
        name.removeprefix("Job/demo-"): template["spec"]["containers"][0].get("resources")
        for name, template in templates(manifests).items()
    }
    for name, template in templates(manifests).items():
        heavy = name.endswith(("worker", "evaluator"))
        spec = template["spec"]
        assert heavy == ("nodeSelector" in spec) == any(v["name"] == "shm" for v in spec["volumes"])
        assert heavy == ("NVIDIA_VISIBLE_DEVICES" not in variables(template))


def test_roles_have_settings_of_their_own(render: Render) -> None:
    """Variables and pod templates of a role come over the shared ones."""
    own = {"env": {"A": "ps"}, "podTemplate": {"spec": {"nodeSelector": {"pool": "cpu"}}}}
    manifests = render(
        env={"A": "all", "B": "all"},
        podTemplate={"spec": {"nodeSelector": {"zone": "a"}}},
        elastic={"roles": {"ps": own | {"replicas": 1}}},
    )
    pods = templates(manifests)
    for role, own_a, selected in (("ps", "ps", {"pool": "cpu"}), ("worker", "all", {})):
        template = pods[f"Job/demo-{role}"]
        assert (own_a, "all") == (variables(template)["A"], variables(template)["B"])
        assert {"zone": "a"} | selected == template["spec"]["nodeSelector"]


def test_a_role_has_the_grace_period_of_its_own_pod(render: Render) -> None:
    """A role's program is killed a little before its own pod, whoever set the pod's time."""
    own = {"podTemplate": {"spec": {"terminationGracePeriodSeconds": 300}}}
    manifests = render(
        runPolicy={"terminationGracePeriodSeconds": 60},
        elastic={"roles": {"ps": own | {"replicas": 1}}},
    )
    graces = {
        name.removeprefix("Job/demo-"): (
            template["spec"]["terminationGracePeriodSeconds"],
            variables(template)["ALLRANKS_GRACE_SECONDS"],
        )
        for name, template in templates(manifests).items()
    }
    assert {"ps": (300, "295"), "worker": (60, "55")} == graces


def test_one_gang_of_all_roles(render: Render) -> None:
    """They start together or not at all, and stay in one domain; only GPUs have a fabric."""
    manifests = render(
        nodes=2,
        gpusPerNode=1,
        queue="q",
        scheduling={"dialect": "volcano", "topology": {"mode": "required"}},
        network={"rdma": {"enabled": True}},
        elastic=FLOW,
    )
    gang = {"name": "demo", "minMember": 6}
    for name, own in (("chief", 1), ("worker", 2), ("ps", 2), ("evaluator", 1)):
        scheduling = request(manifests, f"Job/demo-{name}", names.SCHEDULING)
        assert gang | {"own": own} == scheduling["gang"]
        labels = manifests[f"Job/demo-{name}"]["spec"]["template"]["metadata"]["labels"]
        assert scheduling["topology"]["pods"].items() <= labels.items()
        fabric = request(manifests, f"Job/demo-{name}", names.FABRIC)
        assert ({"rdma": True} if name == "worker" else None) == fabric


def test_the_generators_placement_is_the_workers(template: Any, elastic: Any) -> None:
    """Nodes were chosen for workers; the others may run wherever there is room."""
    manifests = template(elastic, "-f", elastic / "ci/layout-given-values.yaml")
    placed = {
        manifest["metadata"]["name"]
        for manifest in manifests
        if names.PLACEMENT in manifest["metadata"].get("annotations", {})
    }
    assert {"demo-worker"} == placed


def test_the_programs_of_roles(render: Render) -> None:
    """A role's command replaces command, script and args; its args alone replace args."""
    roles = {
        "chief": {"replicas": 1, "args": ["--lead"]},
        "ps": {"replicas": 1, "command": ["serve"], "args": ["-v"]},
        "evaluator": {"replicas": 1, "command": ["judge"]},
    }
    manifests = render(script="print(1)", args=["-x"], elastic={"roles": roles})
    script = "/etc/allranks/script"
    assert {
        "chief": ["follow", "python3", script, "--lead"],
        "worker": ["follow", "python3", script, "-x"],
        "ps": ["follow", "serve", "-v"],
        "evaluator": ["follow", "judge"],
    } == {
        name.removeprefix("Job/demo-"): template["spec"]["containers"][0]["args"]
        for name, template in templates(manifests).items()
    }
