"""The pods of an elastic job: names, labels, requests, security, and where they run."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allranks.elastic import pods
from allranks.elastic.members import Member, MemberGroup
from allranks.elastic.resources import ResourceAmounts
from allranks.elastic.target import DesiredState
from allranks.errors import InputError
from tests.unit.elastic.podsamples import CONTAINER, job, manifest, target, template

GIB, MIB = 1024**3, 1024**2
LABELS = {
    "app": "dlrover",
    "elasticjob.dlrover/name": "jar",
    "elasticjob.dlrover/replica-type": "worker",
    "elasticjob.dlrover/replica-index": "5",
    "elasticjob.dlrover/rank-index": "2",
    "elasticjob.dlrover/relaunch-count": "1",
    "app.kubernetes.io/part-of": "allranks",
    "app.kubernetes.io/instance": "jar",
    "allranks.dev/workload": "elastic",
    "allranks.dev/role": "worker",
    "allranks.dev/rank": "2",
}


def worker(container: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """The pod of rank 2, the sixth that was made."""
    elastic_job = job(specs={"worker": {"template": template(container, **spec)}})
    return pods.build_pod(elastic_job, "worker", Member(5, 2, relaunches=1), target(worker=3))


def test_a_pod_has_its_name_its_labels_and_its_owner() -> None:
    """The name is by id, the labels are all that a DLRover master and ours read."""
    pod = worker()
    assert "jar-edljob-worker-5" == pod["metadata"]["name"]
    assert "lab" == pod["metadata"]["namespace"]
    assert LABELS.items() <= pod["metadata"]["labels"].items()
    (owner,) = pod["metadata"]["ownerReferences"]
    assert ("ElasticJob", "jar", "uid-jar", True) == tuple(
        owner[key] for key in ("kind", "name", "uid", "controller")
    )
    assert "elastic.iml.github.io/v1alpha1" == owner["apiVersion"]


@pytest.mark.attack
def test_labels_of_a_release_are_on_its_pods_and_a_templates_never_replace_ours() -> None:
    """A chart's labels make the pods those of its release; a user's own stay beside them."""
    pod_template = {
        "metadata": {
            "labels": {"app": "mine", "team": "nlp", "elasticjob.dlrover/rank-index": "9"},
            "annotations": {"note": "x"},
        },
        **template(),
    }
    elastic_job = job(
        specs={"worker": {"template": pod_template}},
        labels={
            "app.kubernetes.io/instance": "demo",
            "app.kubernetes.io/managed-by": "Helm",
            "helm.sh/chart": "elastic-1",
            "team": "other",
        },
    )
    metadata = pods.build_pod(elastic_job, "worker", Member(5, 2, 1), target(worker=3))["metadata"]
    expected = LABELS | {
        "app.kubernetes.io/instance": "demo",
        "app.kubernetes.io/managed-by": "Helm",
        "helm.sh/chart": "elastic-1",
        "team": "nlp",
    }
    assert expected.items() <= metadata["labels"].items()
    assert {"note": "x"} == metadata["annotations"]


def test_the_same_member_gives_the_same_pod_and_the_template_stays() -> None:
    """A create that is repeated collides; what was read is not written to."""
    source = manifest()
    before = copy.deepcopy(source)
    elastic_job = job()
    first, other = (
        pods.build_pod(elastic_job, "worker", Member(0, 0), target(worker=1)) for _ in range(2)
    )
    assert json.dumps(first) == json.dumps(other)
    assert before == source


@pytest.mark.parametrize("kind", ["chief", "evaluator"])
def test_a_chief_without_a_template_has_the_workers(kind: str) -> None:
    """A plan may carve a chief out of the workers, for which a job has no template."""
    pod = pods.build_pod(job(), kind, Member(0, 0), target(worker=1))
    assert f"jar-edljob-{kind}-0" == pod["metadata"]["name"]
    assert "my/trainer:1.4" == pod["spec"]["containers"][0]["image"]


@pytest.mark.parametrize(
    "specs",
    [
        {},
        {"worker": {"template": template()}},
        {"ps": {"template": {}}},
        {"ps": {"template": {"spec": {"containers": []}}}},
        {"ps": {"template": {"spec": {"containers": "main"}}}},
    ],
)
def test_without_a_template_no_pod_can_be_made(specs: dict[str, Any]) -> None:
    """It is said beforehand, and by an error that names the field."""
    elastic_job = job(specs=specs)
    assert pods.template_of(elastic_job, "ps") is None
    with pytest.raises(InputError, match="no pod of type 'ps' can be made"):
        pods.build_pod(elastic_job, "ps", Member(0, 0), DesiredState())


def test_a_pod_is_never_restarted_in_place() -> None:
    """A master counts pods: one that is restarted in place would be lost and there at once."""
    assert "Never" == worker(restartPolicy="Always")["spec"]["restartPolicy"]


# ---------------------------------------------------------------- resources


@pytest.mark.parametrize(
    ("container_resources", "plan", "requests", "limits"),
    [
        ({}, None, {"cpu": "100m", "memory": "128Mi"}, None),
        ({"requests": {"cpu": "2"}}, None, {"cpu": "2", "memory": "128Mi"}, None),
        (
            {"limits": {"cpu": "2", "memory": "1Gi"}},
            None,
            {"cpu": "2", "memory": "1Gi"},
            {"cpu": "2", "memory": "1Gi"},
        ),
        ({}, ResourceAmounts(500, GIB), {"cpu": "500m", "memory": "1Gi"}, None),
        # What a master has rounded is the template's own amount.
        (
            {"requests": {"cpu": "50m", "memory": "32Mi"}},
            ResourceAmounts(100, 32 * MIB),
            {"cpu": "50m", "memory": "32Mi"},
            None,
        ),
        (
            {"requests": {"cpu": "1.25", "memory": "1000M"}},
            ResourceAmounts(1200, 953 * MIB),
            {"cpu": "1.25", "memory": "1000M"},
            None,
        ),
        (
            {"requests": {"cpu": "1", "memory": "1Gi"}},
            ResourceAmounts(4000, 2 * GIB),
            {"cpu": "4", "memory": "2Gi"},
            None,
        ),
        # A limit rises with its request, and sinks with it where both were one.
        (
            {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "1536Mi"}},
            ResourceAmounts(None, 2 * GIB),
            {"cpu": "1", "memory": "2Gi"},
            {"memory": "2Gi"},
        ),
        (
            {"requests": {"cpu": "1", "memory": "4Gi"}, "limits": {"memory": "4Gi", "cpu": "3"}},
            ResourceAmounts(2000, 2 * GIB),
            {"cpu": "2", "memory": "2Gi"},
            {"memory": "2Gi", "cpu": "3"},
        ),
        (
            {"requests": {"cpu": "1", "memory": "1Gi"}},
            ResourceAmounts(None, None, 2, "amd.com/gpu"),
            {"cpu": "1", "memory": "1Gi", "amd.com/gpu": "2"},
            {"amd.com/gpu": "2"},
        ),
        (
            {"limits": {"amd.com/gpu": "8"}},
            ResourceAmounts(None, None, 4),
            {"cpu": "100m", "memory": "128Mi", "amd.com/gpu": "4"},
            {"amd.com/gpu": "4"},
        ),
        (
            {},
            ResourceAmounts(None, None, 4),
            {"cpu": "100m", "memory": "128Mi", "nvidia.com/gpu": "4"},
            {"nvidia.com/gpu": "4"},
        ),
        # A quantity that is none is for the API server to refuse, by its name.
        ({"requests": {"cpu": "lots"}}, None, {"cpu": "lots", "memory": "128Mi"}, None),
    ],
)
def test_what_a_container_asks_for(
    container_resources: dict[str, Any],
    plan: ResourceAmounts | None,
    requests: dict[str, str],
    limits: dict[str, str] | None,
) -> None:
    """CPU and memory always: the template's, a plan's where it says something else, or small."""
    elastic_job = job(specs={"worker": {"template": template({"resources": container_resources})}})
    group = MemberGroup("worker", 1, (Member(0, 0),), 1, resource=plan)
    pod = pods.build_pod(
        elastic_job, "worker", Member(0, 0), DesiredState(groups={"worker": group})
    )
    result = pod["spec"]["containers"][0]["resources"]
    assert (requests, limits) == (result["requests"], result.get("limits"))


def test_a_members_own_amounts_go_before_its_groups() -> None:
    """One that ran out of memory has more than the others."""
    member = Member(1, 0, resource=ResourceAmounts(memory_bytes=3 * GIB))
    group = MemberGroup("worker", 1, (member,), 2, resource=ResourceAmounts(4000, GIB))
    pod = pods.build_pod(job(), "worker", member, DesiredState(groups={"worker": group}))
    amounts = pod["spec"]["containers"][0]["resources"]["requests"]
    assert {"cpu": "4", "memory": "3Gi"} == amounts


def test_a_plan_is_for_the_container_that_trains() -> None:
    """Beside it, one without requests gets small ones; environment and amounts stay its own."""
    beside = {"name": "log", "image": "busybox", "env": [{"name": "A", "value": "b"}]}
    pod_template = {"spec": {"containers": [beside, CONTAINER]}}
    member = Member(0, 0, resource=ResourceAmounts(8000, GIB))
    pod = pods.build_pod(
        job(specs={"worker": {"template": pod_template}}), "worker", member, DesiredState()
    )
    first, main = pod["spec"]["containers"]
    assert {"cpu": "100m", "memory": "128Mi"} == first["resources"]["requests"]
    assert beside["env"] == first["env"]
    assert {"cpu": "8", "memory": "1Gi"} == main["resources"]["requests"]


@pytest.mark.parametrize(
    ("called", "main"), [(["a", "main"], 1), (["a", "trainer"], 1), (["a", "b"], 0)]
)
def test_which_container_trains(called: list[str], main: int) -> None:
    """The one that is called so, or else the first."""
    spec = {"spec": {"containers": [{"name": name, "image": "i"} for name in called]}}
    pod = pods.build_pod(
        job(specs={"worker": {"template": spec}}), "worker", Member(0, 0), DesiredState()
    )
    assert [index == main for index in range(2)] == [
        "env" in container for container in pod["spec"]["containers"]
    ]


# ---------------------------------------------------------------- security, scheduling


def test_what_a_template_does_not_say_is_safe() -> None:
    """No privilege escalation, no token, no variables of Services; whose user is the image's."""
    spec = worker()["spec"]
    assert {"seccompProfile": {"type": "RuntimeDefault"}} == spec["securityContext"]
    assert {"allowPrivilegeEscalation": False} == spec["containers"][0]["securityContext"]
    assert (False, False) == (spec["enableServiceLinks"], spec["automountServiceAccountToken"])


def test_what_a_template_says_stays() -> None:
    """Nothing of it is replaced by a default of ours."""
    fields = {
        "securityContext": {"seccompProfile": {"type": "Unconfined"}, "runAsUser": 7},
        "enableServiceLinks": True,
        "serviceAccountName": "mine",
        "tolerations": [{"operator": "Exists"}],
        "schedulerName": "kai",
    }
    context = {"allowPrivilegeEscalation": True, "capabilities": {"add": ["IPC_LOCK"]}}
    spec = worker({"securityContext": context}, **fields)["spec"]
    assert fields.items() <= spec.items()
    assert "automountServiceAccountToken" not in spec
    assert context == spec["containers"][0]["securityContext"]


@pytest.mark.parametrize(
    "context", [{"privileged": True}, {"capabilities": {"add": ["SYS_ADMIN"]}}]
)
def test_a_privileged_container_stays_so(context: dict[str, Any]) -> None:
    """The API server refuses it together with our default."""
    spec = worker({"securityContext": context})["spec"]
    assert context == spec["containers"][0]["securityContext"]


def test_a_pod_of_another_system_has_no_seccomp() -> None:
    """The API server refuses it there."""
    assert "securityContext" not in worker(os={"name": "windows"})["spec"]


@pytest.mark.parametrize(
    ("fields", "pod_fields", "rank", "scheduler", "priority"),
    [
        ({}, {}, 0, None, None),
        ({"BatchScheduler": "volcano"}, {}, 0, "volcano", None),
        ({"BatchScheduler": "volcano"}, {"schedulerName": "kai"}, 0, "kai", None),
        ({"BatchScheduler": "default"}, {}, 0, None, None),
        ({"priority": "high"}, {}, 0, None, "high"),
        ({"priority": "low"}, {"priorityClassName": "mine"}, 0, None, "mine"),
        ({"priority": 0.5, "replicas": 4}, {}, 1, None, "high"),
        ({"priority": "0.5", "replicas": 4}, {}, 2, None, "low"),
        ({"priority": "odd"}, {}, 0, None, None),
    ],
)
def test_scheduler_and_priority_of_a_replica_type(
    fields: dict[str, Any], pod_fields: dict[str, Any], rank: int, scheduler: str, priority: str
) -> None:
    """They are those of its spec, where its template names none."""
    elastic_job = job(specs={"worker": {"template": template(**pod_fields), **fields}})
    spec = pods.build_pod(elastic_job, "worker", Member(rank, rank), DesiredState())["spec"]
    assert (scheduler, priority) == (spec.get("schedulerName"), spec.get("priorityClassName"))


def test_a_member_keeps_off_nodes_whatever_else_its_affinity_asks() -> None:
    """Each of several terms, of which one must hold, is given the nodes to avoid."""
    terms: list[dict[str, Any]] = [
        {"matchExpressions": [{"key": "a", "operator": "Exists"}]},
        {"matchFields": []},
    ]
    near = {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms},
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}],
    }
    spec_fields = {"affinity": {"podAffinity": {"a": 1}, "nodeAffinity": near}}
    elastic_job = job(specs={"worker": {"template": template(**spec_fields)}})
    pod = pods.build_pod(elastic_job, "worker", Member(0, 0, avoid=("n1", "n2")), DesiredState())
    affinity = pod["spec"]["affinity"]
    off = [{"key": "metadata.name", "operator": "NotIn", "values": [node]} for node in ("n1", "n2")]
    assert [{**terms[0], "matchFields": off}, {"matchFields": off}] == affinity["nodeAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]["nodeSelectorTerms"]
    assert [{"weight": 1}] == affinity["nodeAffinity"][
        "preferredDuringSchedulingIgnoredDuringExecution"
    ]
    assert {"a": 1} == affinity["podAffinity"]


def test_a_member_without_an_affinity_keeps_off_nodes_too() -> None:
    """One term is made for it."""
    pod = pods.build_pod(job(), "worker", Member(0, 0, avoid=("n1",)), DesiredState())
    required = pod["spec"]["affinity"]["nodeAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]
    field = {"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}
    assert [{"matchFields": [field]}] == required["nodeSelectorTerms"]


_JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 10**12) | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=4,
)
_FIELDS = ("resources", "env", "securityContext", "command", "name", "image")
_PARTS = ("securityContext", "affinity", "containers", "restartPolicy", "serviceAccountName", "os")


@settings(max_examples=100)
@given(
    st.dictionaries(st.sampled_from(_FIELDS), _JUNK),
    st.dictionaries(st.sampled_from(_PARTS), _JUNK),
    st.booleans(),
)
def test_whatever_a_template_holds_there_is_a_pod_or_a_sentence(
    container: dict[str, Any], spec: dict[str, Any], parameter_servers: bool
) -> None:
    """A field of another type is for the API server to refuse, and never our own failure."""
    strategy = "ParameterServerStrategy" if parameter_servers else ""
    specs = {"worker": {"template": template(container, **spec)}}
    elastic_job = job(specs=specs, distributionStrategy=strategy)
    member = Member(0, 0, resource=ResourceAmounts(1, 1, 1), avoid=("n",))
    if pods.template_of(elastic_job, "worker") is None:
        return
    pod = pods.build_pod(elastic_job, "worker", member, target(worker=2, ps=1))
    json.dumps(pod)
    assert all(
        {"cpu", "memory"} <= container["resources"]["requests"].keys()
        for container in pod["spec"]["containers"]
    )


def test_names_follow_from_type_and_number() -> None:
    """Pods by id, Services by rank, masters by attempt."""
    assert "jar-edljob-ps-7" == pods.pod_name("jar", "ps", 7)
    assert "jar-edljob-ps-1" == pods.service_name("jar", "ps", 1)
    assert "elasticjob-jar-dlrover-master" == pods.master_service_name("jar")
    assert "elasticjob-jar-dlrover-master-2" == pods.master_name("jar", 2)


# ---------------------------------------------------------------- Services


def test_a_rank_is_found_whichever_pod_has_it() -> None:
    """The Service selects by rank, and leads to a pod before it is ready."""
    service = pods.service(job(), "ps", 1)
    assert "jar-edljob-ps-1" == service["metadata"]["name"]
    spec = service["spec"]
    pod = pods.build_pod(
        job(specs={"ps": {"template": template()}}), "ps", Member(9, 1), target(ps=2)
    )
    assert spec["selector"].items() <= pod["metadata"]["labels"].items()
    assert ("None", True, 2222) == (
        spec["clusterIP"],
        spec["publishNotReadyAddresses"],
        spec["ports"][0]["port"],
    )
    assert "uid-jar" == service["metadata"]["ownerReferences"][0]["uid"]
    assert 3333 == pods.service(job(), "worker", 0)["spec"]["ports"][0]["port"]


def test_only_ranks_that_others_must_find_have_services() -> None:
    """Workers of an all-reduce meet at their master."""
    assert pods.needs_services(job(distributionStrategy="ParameterServerStrategy"))
    assert not pods.needs_services(job())


def test_the_masters_service_selects_the_master() -> None:
    """Whichever attempt it is."""
    service = pods.master_service(job())
    assert "elasticjob-jar-dlrover-master" == service["metadata"]["name"]
    assert 50001 == service["spec"]["ports"][0]["port"]
    labels = pods.master(job(), 3)["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()


def test_a_member_may_be_told_apart_by_its_relaunches_alone() -> None:
    """The label counts what was before it."""
    variants = [
        pods.build_pod(job(), "worker", replace(Member(0, 0), relaunches=count), DesiredState())
        for count in (0, 2)
    ]
    assert ["0", "2"] == [
        pod["metadata"]["labels"]["elasticjob.dlrover/relaunch-count"] for pod in variants
    ]
