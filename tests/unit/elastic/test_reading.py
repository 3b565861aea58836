"""Elastic jobs and plans as anybody may have written them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allranks import names
from allranks.elastic import resources
from allranks.elastic.api import job as jobs
from allranks.elastic.api import plan as plans
from allranks.elastic.decide import decide, orphan
from allranks.elastic.resources import ResourceAmounts
from allranks.elastic.snapshot import JobView
from allranks.status import controllers
from tests.unit.elastic.simcluster import MASTER, NAME, NAMESPACE, START, UID, SimCluster, job

_WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=10)
_FIELDS = (
    "worker ps chief name id type rankIndex replicas resource cpu memory nvidia.com/gpu template "
    "spec containers resources requests minReplicas maxReplicas restartCount phase members groups "
    "target"
)
_KEYS = st.one_of(st.sampled_from(_FIELDS.split()), _WORDS)
_LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False),
    _WORDS,
    st.sampled_from(["1", "-1", "4Gi", "worker", f"{NAME}-edljob-worker-0", "0-3"]),
)
_JSON = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(_KEYS, inner, max_size=5)),
    max_leaves=16,
)
_PLAN_SPECS = st.fixed_dictionaries(
    {},
    optional={
        "replicaResourceSpecs": st.one_of(_JSON, st.dictionaries(_KEYS, _JSON, max_size=3)),
        "createPods": st.one_of(_JSON, st.lists(st.dictionaries(_KEYS, _JSON), max_size=3)),
        "removePods": st.one_of(_JSON, st.lists(st.dictionaries(_KEYS, _JSON), max_size=3)),
        "migratePods": st.one_of(_JSON, st.lists(st.dictionaries(_KEYS, _JSON), max_size=3)),
        "psHosts": _JSON,
    },
)


# ---------------------------------------------------------------- another master's words


@pytest.mark.parametrize(
    ("words", "values"),
    [
        (["python", "-m", "master", "--job_name", NAME, "--namespace", NAMESPACE], []),
        (["/bin/bash", "-c", f"python -m master --job_name={NAME} --port 50001"], []),
        (["sh", "-c", "python -m master --job_name $ELASTIC_JOB_NAME"], []),
        (["sh", "-c", "echo 'unfinished"], []),
        (["python", "--job_name", "demo", "--namespace=lab2"], ["demo", "lab2"]),
        (["/bin/bash", "-c", "python -m master --job_name demo"], ["demo"]),
    ],
)
def test_a_master_that_would_lead_another_job_is_told(words: list[str], values: list[str]) -> None:
    """Its command names the job; a copied one names that of before."""
    spec = {"containers": [{"name": "main", "image": "dlrover:1", "command": words}]}
    problems = jobs.read(job({MASTER: {"template": {"spec": spec}}, "worker": {}})).problems
    assert len(values) == len(problems)
    for value, problem in zip(values, problems, strict=True):
        assert f" {value}, and this job's is" in problem


# ---------------------------------------------------------------- garbage


@settings(max_examples=200)
@given(spec=_PLAN_SPECS, labels=_JSON, status=_JSON)
def test_any_plan_ends(spec: dict[str, Any], labels: Any, status: Any) -> None:
    """Whatever stands in it: it is done or refused, and the job's pods agree with its target."""
    cluster = SimCluster(job({"worker": {"maxReplicas": 9}, "ps": {"maxReplicas": 9}}))
    cluster.plan("p-0", worker=1)
    cluster.settle()
    cluster.wait(1)
    cluster.put_plan(
        {
            "metadata": {"name": "p-1", "labels": labels},
            "spec": {"ownerJob": NAME, **spec},
            "status": status,
        }
    )
    cluster.settle()
    phase = cluster.plan_phases().get("p-1", "Succeeded")
    assert phase in plans.FINAL
    for kind, group in cluster.target.groups.items():
        assert [member.id for member in group.members] == cluster.ids(kind)


@settings(max_examples=150)
@given(spec=_JSON, status=_JSON, annotations=_JSON, pods=st.lists(_JSON, max_size=3))
def test_any_job_is_looked_at(spec: Any, status: Any, annotations: Any, pods: list[Any]) -> None:
    """Whatever stands in it, in its status, and in the pods beside it."""
    manifest = {
        "metadata": {
            "name": NAME,
            "namespace": NAMESPACE,
            "uid": UID,
            "annotations": annotations,
        },
        "spec": spec if isinstance(spec, dict) else {"replicaSpecs": spec},
        "status": status if isinstance(status, dict) else {"target": status},
    }
    manifests = tuple(pod for pod in pods if isinstance(pod, dict))
    view = JobView(job=manifest, pods=manifests, now=START)
    assert decide(view).commit is not None


@settings(max_examples=100)
@given(st.dictionaries(_KEYS, _JSON))
def test_any_object_is_read_as_a_plan(garbage: dict[str, Any]) -> None:
    """Also one without metadata, and with nothing that is known."""
    plans.read(garbage)
    orphan(garbage, START)


# ---------------------------------------------------------------- jobs


def test_a_job_is_read_whole() -> None:
    """Every field that the jobs of this kind have."""
    worker = {
        "replicas": 4,
        "minReplicas": 2,
        "maxReplicas": 8,
        "restartCount": 5,
        "restartPolicy": "ExitCode",
        "restartTimeout": 60,
        "autoScale": False,
        "priority": "0.5",
        "BatchScheduler": "volcano",
    }
    manifest = job(
        {"worker": worker},
        optimizeMode="single-job",
        brainService="brain:50001",
        resourceLimits={"cpu": "100", "memory": "400Gi", "gpu": "8"},
        envs={"K": {"name": "K", "value": "V"}},
    )
    elastic_job = jobs.read(manifest)
    spec = elastic_job.replicas["worker"]
    assert (4, 2, 8, 5) == (spec.replicas, spec.min, spec.max, spec.restart_count)
    assert ("ExitCode", 60, False) == (spec.restart_policy, spec.restart_timeout, spec.auto_scale)
    assert ("0.5", "volcano") == (spec.priority, spec.batch_scheduler)
    assert ResourceAmounts(100_000, 400 * 2**30, 8) == elastic_job.limits
    assert {"K": {"name": "K", "value": "V"}} == elastic_job.envs
    assert ("single-job", "brain:50001") == (elastic_job.optimize_mode, elastic_job.brain_service)
    assert () == elastic_job.problems


@pytest.mark.parametrize(
    ("envs", "expected"),
    [
        ({"K": {"value": "V"}}, {"K": {"name": "K", "value": "V"}}),
        ({"other": {"name": "K", "value": "V"}}, {"K": {"name": "K", "value": "V"}}),
        ([{"name": "K", "value": "V"}], {"K": {"name": "K", "value": "V"}}),
        ({"K": "V"}, {"K": {"name": "K", "value": "V"}}),
        (None, {}),
    ],
)
def test_environment_is_read_in_every_form(envs: Any, expected: dict[str, Any]) -> None:
    """A map of EnvVars is what there should be; lists and plain maps are what people write."""
    assert expected == jobs.read(job(envs=envs)).envs


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"replicaSpecs": 7}, "replicaSpecs is 7, not an object"),
        ({"replicaSpecs": {"worker": 4}}, "replicaSpecs.worker is 4, not an object"),
        ({"replicaSpecs": {"worker": {"replicas": "4"}}}, "worker.replicas is '4', not a whole"),
        ({"replicaSpecs": {"worker": {"replicas": -4}}}, "replicas is -4; 0 to 100000 is allowed"),
        (
            {"replicaSpecs": {"worker": {}, "Worker": {}}},
            "has worker in 2 spellings, of which worker alone counts; put all of it into one",
        ),
        (
            {"replicaSpecs": {"worker": {"minReplicas": 4, "maxReplicas": 2}}},
            "minReplicas 4 is above maxReplicas 2; 2 holds",
        ),
        ({"distributionStrategy": "Magic"}, "distributionStrategy 'Magic' is not known here"),
        ({"resourceLimits": {"cpu": "many"}}, "resourceLimits.cpu is 'many', not a quantity"),
        ({"resourceLimits": "8"}, "resourceLimits is '8', not a map"),
        ({"envs": {"K": 7}}, "envs.K is 7, not an environment variable"),
    ],
)
def test_what_cannot_be_read_is_said(spec: dict[str, Any], message: str) -> None:
    """And is ignored."""
    manifest = job()
    manifest["spec"].update(spec)
    (problem,) = jobs.read(manifest).problems
    assert message in problem


@pytest.mark.parametrize("strategy", ["allreducestrategy", "AllreduceStrategy"])
def test_a_strategy_is_known_in_any_case(strategy: str) -> None:
    """Samples spell it in several ways."""
    assert "AllreduceStrategy" == jobs.read(job(distributionStrategy=strategy)).strategy


@pytest.mark.parametrize(
    ("annotation", "template", "master", "relaunch"),
    [
        ("", False, "own", "watcher"),
        ("", True, "given", "master"),
        ("own", True, "own", "watcher"),
        ("external", False, "external", "master"),
        ("given", False, "given", "master"),
        ("nonsense", False, "own", "watcher"),
    ],
)
def test_who_leads_and_who_replaces_pods(
    annotation: str, template: bool, master: str, relaunch: str
) -> None:
    """By annotation; else a template for the master says that it is given."""
    specs: dict[str, Any] = {"worker": {}}
    if template:
        specs[MASTER] = {"template": {"spec": {"containers": [{"name": "main"}]}}}
    elastic_job = jobs.read(job(specs, master=annotation))
    assert (master, relaunch) == (elastic_job.master, elastic_job.relaunch)


@pytest.mark.parametrize(
    ("text", "code", "problems"), [("0", 0, 0), ("137", 137, 0), ("-9", 9, 0), ("bad", None, 1)]
)
def test_the_exit_code_of_an_external_master(text: str, code: int | None, problems: int) -> None:
    """A number, whatever its sign; anything else is no end."""
    elastic_job = jobs.read(job(annotations={names.MASTER_EXIT_CODE: text}))
    assert (code, problems) == (elastic_job.exit_code, len(elastic_job.problems))


# ---------------------------------------------------------------- plans


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("jar-edljob-worker-3", ("worker", 3, None)),
        ("jar-edljob-worker-3-7", ("worker", 7, 3)),
        ("a-edljob-b-edljob-ps-0", ("ps", 0, None)),
        ("jar-edljob-worker", None),
        ("jar-worker-3", None),
        ("", None),
    ],
)
def test_a_pods_name_tells_type_id_and_rank(
    name: str, expected: tuple[str, int, int | None] | None
) -> None:
    """As DLRover writes them, and as a vendor does."""
    assert expected == plans.parse_pod_name(name)


@pytest.mark.parametrize(
    ("labels", "scale", "problems"),
    [
        ({}, "manual", 0),
        ({"scale-type": "auto"}, "auto", 0),
        ({"scale-type": "manual"}, "manual", 0),
        ({"scale-type": "Auto"}, "manual", 1),
    ],
)
def test_who_made_a_plan(labels: dict[str, str], scale: str, problems: int) -> None:
    """A master labels its plans; a plan without the label is a person's."""
    plan = plans.read({"metadata": {"labels": labels}})
    assert (scale, problems) == (plan.scale_type, len(plan.problems))


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ({"cpu": "8", "memory": "10240Mi", "nvidia.com/gpu": "1"}, (8000, 10 * 2**30, 1)),
        ({"cpu": 0.5, "memory": 1024}, (500, 1024, None)),
        ({"cpu": "0.0", "memory": "0Mi", "nvidia.com/gpu": "0"}, None),
        ({"a.com/gpu": "0", "b.com/npu": 2}, (None, None, 2)),
        ({"gpu": "3"}, (None, None, 3)),
        ({"ephemeral-storage": "1Gi"}, None),
        ({}, None),
        (None, None),
    ],
)
def test_resources_are_whole_units(raw: Any, expected: tuple[int | None, ...] | None) -> None:
    """Millicores, bytes and devices; a zero is not set."""
    problems: list[str] = []
    resource = resources.read(raw, "resource", problems)
    amounts = (
        None if resource is None else (resource.cpu_millis, resource.memory_bytes, resource.gpus)
    )
    assert (expected, []) == (amounts, problems)


def test_what_kubectl_scale_writes_beside_another_spelling_is_the_edit() -> None:
    """It writes the number of `worker`; the rest of what is meant stands in `Worker`."""
    cluster = SimCluster(job({"Worker": {"replicas": 2, "maxReplicas": 8}}, master="external"))
    cluster.wait(40)
    cluster.settle()
    assert [0, 1] == cluster.ids()
    cluster.scale("worker", 4)
    cluster.settle()
    assert [0, 1, 2, 3] == cluster.ids()
    assert "JobOdd" in cluster.event_reasons()
    worker = jobs.read(cluster.job).replicas["worker"]
    assert (4, 8, True) == (worker.replicas, worker.max, worker.template is not None)
    (role,) = controllers.read_elastic_job({**cluster.job, "status": {}})
    assert ("worker", 4) == (role.role, role.expected)
