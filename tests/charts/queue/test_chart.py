"""A team's queue: what helm makes of the values, and what it refuses."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

import allranks
from allranks import names
from allranks.schema import bundle
from allranks.schema.validate import validate
from allranks.yamlio.load import load
from tests.charts.shared import packaging
from tests.charts.shared.api import check_no_nulls
from tests.charts.shared.parity import Parity
from tests.charts.shared.rendered import Manifests, by_name, joined, reviewable

if TYPE_CHECKING:
    from collections.abc import Callable

    from syrupy.assertion import SnapshotAssertion

CHART = Path(__file__).parents[3] / "charts" / names.QUEUE_CHART
_CONFIG = f"ConfigMap/{names.QUEUE_PREFIX}demo"
_JOBS = "ValidatingAdmissionPolicy/allranks-queue-default-demo-jobs"
_OWN = "ValidatingAdmissionPolicy/allranks-queue-default-demo-own"
_SCALE = "ValidatingAdmissionPolicy/allranks-queue-default-demo-scale"


def _scheduler(dialect: str) -> dict[str, Any]:
    """Values with a queue of a scheduler, which jobs name."""
    own: dict[str, Any] = {"enabled": True}
    if dialect == "kueue":
        own |= {"admin": True, "cohort": "c", "resources": {"cpu": {"nominal": 1}}}
    return {dialect: own, "defaults": {"queue": "demo", "scheduling": {"dialect": dialect}}}


def _renamed(dialect: str) -> dict[str, Any]:
    """The same where the jobs name another queue."""
    queue = {"kueue": "team-h100-local"}.get(dialect, "research")
    return {
        **_scheduler(dialect),
        "defaults": {"queue": queue, "scheduling": {"dialect": dialect}},
    }


_POLICY = {"policy": {"enabled": True}}
QUEUE = Parity(
    chart=CHART,
    base={},
    fitting={
        "rules.allowHostPath": _POLICY,
        "policy": _POLICY,
        "policy.enabled": {},
        "gpuResource": {"rules": {"maxGpusInAll": 8}},
        "networkPolicy.from": {"networkPolicy": {"enabled": True}},
        "storage.datasets": {"storage": {"datasets": {"size": "1Gi"}}},
        "storage.checkpoints": {"storage": {"checkpoints": {"size": "1Gi"}}},
        "kueue": _scheduler("kueue"),
        "kai": _scheduler("kai"),
        "volcano": _scheduler("volcano"),
        "kueue.enabled": {},
        "kai.enabled": {},
        "volcano.enabled": {},
        "kueue.topology": {**_scheduler("kueue")},
    },
    other={
        "storage.datasets.size": "10Ti",
        **{
            f"storage.{volume}.{key}": {"protocol": "nfs"}
            for volume in ("datasets", "checkpoints")
            for key in ("azureFile", "azureBlob")
        },
        "kueue.flavor.name": "h100",
        "policy.forAll": False,
        "kai.queue": "demo2",
        "kai.parentQueue": "department",
        "kai.priority": 100,
        "volcano.queue": "demo2",
        "volcano.parent": "root",
        "volcano.weight": 4,
        "volcano.reclaimable": False,
        "volcano.capability": {"cpu": 1},
        "volcano.deserved": {"cpu": 1},
        "volcano.guarantee": {"cpu": 1},
        **{
            f"kai.resources.{resource}.{part}": 7
            for resource in ("gpu", "cpu", "memory")
            for part in ("quota", "limit", "overQuotaWeight")
        },
    },
    # Each of these is only right together with another value; a test of its own has it.
    elsewhere={
        "kueue.enabled": "jobs have to name the LocalQueue",
        "kueue.localQueue": "jobs have to name the LocalQueue",
        "kueue.clusterQueue": "of an administrator's",
        "kueue.admin": "needs quota",
        "kueue.topology": "needs the labels of the flavor",
        "kai.enabled": "jobs have to name the Queue",
        "kai.queue": "jobs have to name the Queue",
        "volcano.enabled": "jobs have to name the Queue",
        "volcano.queue": "jobs have to name the Queue",
    },
)


@pytest.fixture(scope="session")
def render(template: Any) -> Callable[..., dict[str, Any]]:
    """Render values; manifests by ``Kind/name``."""
    return lambda name="demo", **values: by_name(template(CHART, values=values, name=name))


@pytest.mark.parametrize("key", QUEUE.changing)
def test_every_value_changes_the_render(key: str, helm4: Any) -> None:
    """A value that differs from its default makes other manifests."""
    QUEUE.check_change(key, helm4)


def test_full_values_say_every_key() -> None:
    """full-values.yaml and the tables cover each key of values.yaml."""
    assert not QUEUE.missing()


@pytest.mark.parametrize(
    ("key", "values", "kind"),
    [
        ("kueue.localQueue", {"kueue": {"localQueue": "team-h100-local"}}, "LocalQueue"),
        ("kai.queue", {"kai": {"queue": "research"}}, "Queue"),
        ("volcano.queue", {"volcano": {"queue": "research"}}, "Queue"),
    ],
)
def test_a_schedulers_queue_is_what_jobs_name(
    key: str, values: dict[str, Any], kind: str, render: Callable[..., Any]
) -> None:
    """A name of its own, which the value `queue` of the jobs has."""
    dialect = key.split(".", maxsplit=1)[0]
    dialect_values = _renamed(dialect)
    dialect_values[dialect] |= values[dialect]
    assert f"{kind}/{dialect_values['defaults']['queue']}" in render(**dialect_values)
    assert f"{kind}/demo" in render(**_scheduler(dialect))


def test_an_administrator_makes_what_a_queue_stands_on(render: Callable[..., Any]) -> None:
    """ClusterQueue, flavor and topology, by one name; without admin the LocalQueue alone."""
    values = _scheduler("kueue")
    values["kueue"] |= {"flavor": {"nodeLabels": {"pool": "a"}}, "topology": ["host"]}
    manifests = render(**values)
    kinds = ("ClusterQueue", "ResourceFlavor", "Topology")
    assert {f"{kind}/default-demo" for kind in kinds} <= set(manifests)
    assert "default-demo" == manifests["LocalQueue/demo"]["spec"]["clusterQueue"]
    assert "default-demo" == manifests["ResourceFlavor/default-demo"]["spec"]["topologyName"]
    own = {"enabled": True, "clusterQueue": "shared"}
    less = render(**{**_scheduler("kueue"), "kueue": own})
    assert not [name for name in less if name.split("/")[0] in kinds]
    assert "shared" == less["LocalQueue/demo"]["spec"]["clusterQueue"]


def test_render_is_as_recorded(ci_text: str, snapshot: SnapshotAssertion) -> None:
    """A ci file renders to what was reviewed (`pytest --snapshot-update` records anew)."""
    assert snapshot(extension_class=Manifests) == reviewable(ci_text)


def test_both_majors_render_the_same(ci_file: Path, ci_text: str, helm: Any) -> None:
    """Helm 3 and Helm 4 print the same objects."""
    assert joined(ci_text) == joined(helm.render(CHART, "-f", ci_file))


def test_lint_passes(ci_file: Path, helm: Any) -> None:
    """`helm lint --strict` has nothing to say about any ci file."""
    packaging.check_lint(helm, CHART, ci_file)


def test_package_renders_the_same(helm: Any, tmp_path: Path) -> None:
    """A packaged chart has the library inside."""
    packaging.check_package(helm, CHART, CHART / "ci/full-values.yaml", tmp_path)


def test_the_committed_schema_and_version_are_current() -> None:
    """The schema follows from its sources; chart and package are released together."""
    committed = (CHART / "values.schema.json").read_text("utf-8")
    assert bundle.render(bundle.bundle(names.QUEUE_CHART)) == committed
    about = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))
    assert {allranks.__version__} == {about["version"], about["appVersion"]}


def test_the_release_is_no_run(ci: dict[str, Any]) -> None:
    """Nothing of it has the label by which runs are found, and all of it says whose it is."""
    check_no_nulls(ci)
    for manifest in ci.values():
        labels = manifest["metadata"]["labels"]
        assert names.APP_PART_OF not in labels
        assert labels[names.QUEUE]


def test_the_blocks_arrive_as_they_were_written(
    ci_values: dict[str, Any], ci: dict[str, Any]
) -> None:
    """Each is YAML that reads as the values did, with the defaults of the rules."""
    (config,) = (manifest for manifest in ci.values() if manifest["kind"] == "ConfigMap")
    data = config["data"]
    for key in ("defaults", "imposed"):
        assert ci_values.get(key, {}) == load(data[f"{key}.yaml"].encode(), key).data
    rules = load(data[names.QUEUE_RULES].encode(), "rules").data
    values = load((CHART / "values.yaml").read_bytes(), "values.yaml").data
    assert {**values["rules"], **ci_values.get("rules", {})} == rules


def test_the_revision_is_that_of_the_texts(ci: dict[str, Any]) -> None:
    """Twelve digits of the SHA-256 of what jobs get, in the file and on the object."""
    (config,) = (manifest for manifest in ci.values() if manifest["kind"] == "ConfigMap")
    keys = (names.QUEUE_DEFAULTS, names.QUEUE_RULES, names.QUEUE_IMPOSED)
    text = "---\n".join(config["data"][key] for key in keys)
    revision = hashlib.sha256(text.encode()).hexdigest()[:12]
    assert revision == config["metadata"]["annotations"][names.QUEUE_REVISION]
    about = load(config["data"][names.QUEUE_FILE].encode(), "queue").data
    assert {"name": config["metadata"]["labels"][names.QUEUE], "revision": revision} == about


def test_only_what_jobs_get_changes_the_revision(render: Callable[..., Any]) -> None:
    """A label, a quota or a team does not."""

    def revision(**values: Any) -> str:
        return str(render(**values)[_CONFIG]["metadata"]["annotations"][names.QUEUE_REVISION])

    plain = revision()
    assert plain == revision(labels={"a": "b"}, quota={"pods": 1}, team={"users": ["ada"]})
    changes = [
        revision(defaults={"gpus": 8}),
        revision(imposed={"gpus": 8}),
        revision(rules={"maxGpusPerJob": 8}),
    ]
    assert 4 == len({plain, *changes})


def test_a_typo_in_a_fragment_names_the_nearest_key() -> None:
    """The fragments are held against the keys that all workloads share."""
    defaults = load((CHART / "values.yaml").read_bytes(), "values.yaml").data
    for block in ("defaults", "imposed"):
        values = {**defaults, block: {"imgae": {"tag": "1"}, "runPolicy": {"backofLimit": 1}}}
        problems = validate(names.QUEUE_CHART, values, lambda _: "")
        paths = {problem.path for problem in problems}
        assert {f"{block}.imgae", f"{block}.runPolicy.backofLimit"} == paths
        hints = " ".join(problem.hint for problem in problems)
        assert "image" in hints
        assert "backoffLimit" in hints


@pytest.mark.parametrize("key", ["workload", "layout", "queueRef", "torchrun", "snapshot"])
def test_what_is_a_jobs_own_is_in_no_fragment(key: str, helm: Any) -> None:
    """Which chart, and what the command line writes."""
    block = {"workspace": {key: {}}} if key == "snapshot" else {key: {}}
    assert key in helm.refusal(CHART, values={"defaults": block})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"labels": {names.APP_NAME: "x"}}, f"ERROR: labels.{names.APP_NAME}: this label"),
        ({"labels": {names.APP_PART_OF: "x"}}, f"ERROR: labels.{names.APP_PART_OF}"),
        ({"imposed": {"preset": "h100-8x"}}, "ERROR: imposed.preset: a preset lies below"),
        ({"defaults": {"preset": "H100"}}, "defaults/preset"),
        ({"kai": {"enabled": True}}, "ERROR: kai.enabled: no job of the queue waits there"),
        ({"volcano": {"enabled": True}}, "set defaults: {queue: demo, scheduling: {dialect: vol"),
        (
            {**_scheduler("kueue"), "kueue": {"enabled": True}},
            "ERROR: kueue.clusterQueue: empty; name the ClusterQueue",
        ),
        ({"kueue": {"admin": True}}, "ERROR: kueue.admin: nothing is made of Kueue"),
        (
            {**_scheduler("kueue"), "kueue": {"enabled": True, "admin": True}},
            "ERROR: kueue.resources: empty, and a ClusterQueue without quota",
        ),
        (
            {"kueue": {"resources": {"cpu": {"nominal": 1, "borrow": 1, "lend": 1}}}},
            "ERROR: kueue.resources.cpu.lend: nobody borrows without a cohort",
        ),
        (
            {"kueue": {"flavor": {"name": "a", "nodeLabels": {"a": "b"}}}},
            "ERROR: kueue.flavor.name: a flavor that is there",
        ),
        ({"kueue": {"topology": ["host"]}}, "ERROR: kueue.flavor.nodeLabels: empty"),
        (
            {"kueue": {"topology": ["kubernetes.io/hostname", "rack"]}},
            "ERROR: kueue.topology: kubernetes.io/hostname is not the last level",
        ),
        (
            {"policy": {"forAll": False, "otherQueues": ["a"]}},
            "ERROR: policy.otherQueues: without policy.forAll",
        ),
        ({"policy": {"otherQueues": ["demo"]}}, "ERROR: policy.otherQueues: demo is this queue"),
        ({"networkPolicy": {"from": [{"podSelector": {}}]}}, "ERROR: networkPolicy.from: there"),
        (
            {"rules": {"maxGpusInAll": 8}, "quota": {"requests.nvidia.com/gpu": 8}},
            "ERROR: quota.requests.nvidia.com/gpu: rules.maxGpusInAll says the same",
        ),
        ({"rules": {"images": ["a'b"]}}, "rules/images/0"),
        ({"rule": {}}, "rule"),
    ],
)
def test_what_does_not_fit_is_refused(values: dict[str, Any], message: str, helm: Any) -> None:
    """Each with the fix."""
    assert message in helm.refusal(CHART, values=values)


def test_a_name_that_no_label_has_is_refused(helm: Any) -> None:
    """A release may have a point in its name; a queue may not."""
    assert 'ERROR: name: "a.b" is no name of a queue' in helm.refusal(CHART, values={}, name="a.b")


def test_a_policy_is_made_where_the_cluster_has_the_kind(helm: Any) -> None:
    """By default; who may not make one says so."""
    api = ("--api-versions", "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy")
    kind = "kind: ValidatingAdmissionPolicy\n"
    assert kind in helm.render(CHART, *api)
    assert kind not in helm.render(CHART)
    assert kind not in helm.render(CHART, *api, "--set", "policy.enabled=false")


def test_scale_is_held_where_something_is_counted(render: Callable[..., Any]) -> None:
    """And only where the policy is for all: a request for scale bears no label."""
    policy = {"enabled": True}
    assert _SCALE in render(policy=policy, rules={"maxGpusPerJob": 1})
    assert _SCALE in render(policy=policy, rules={"maxNodesPerJob": 1})
    assert _SCALE not in render(policy=policy)
    assert _SCALE not in render(policy=policy | {"forAll": False}, rules={"maxNodesPerJob": 1})


def test_a_queue_s_own_objects_are_held_by_a_policy(render: Callable[..., Any]) -> None:
    """Wherever there is a policy at all, and by the names of this release."""
    for values in ({}, {"forAll": False}):
        manifests = render(policy={"enabled": True} | values)
        (condition, _) = manifests[_OWN]["spec"]["matchConditions"]
        assert "sh.helm.release.v1.demo.v" in condition["expression"]
    assert _OWN not in render(policy={"enabled": False})


def test_a_policy_fails_closed_in_its_own_namespace(render: Callable[..., Any]) -> None:
    """What cannot be judged is refused, and no other namespace is judged."""
    manifests = render(policy={"enabled": True}, rules={"maxGpusPerJob": 1})
    for name in (_JOBS, _SCALE, _OWN):
        spec = manifests[name]["spec"]
        assert "Fail" == spec["failurePolicy"]
        selector = spec["matchConstraints"]["namespaceSelector"]
        assert {"matchLabels": {"kubernetes.io/metadata.name": "default"}} == selector
        binding = manifests[name.replace("Policy/", "PolicyBinding/")]["spec"]
        assert ["Deny"] == binding["validationActions"]
        assert name.split("/")[1] == binding["policyName"]


def test_claims_stay_when_the_release_goes(render: Callable[..., Any]) -> None:
    """They hold what a team has trained."""
    manifests = render(storage={"checkpoints": {"size": "1Gi"}})
    claim = manifests["PersistentVolumeClaim/demo-checkpoints"]
    assert "keep" == claim["metadata"]["annotations"][names.HELM_RESOURCE_POLICY]


def test_a_team_has_no_right_by_a_star(render: Callable[..., Any]) -> None:
    """And nobody has any where nobody is named."""
    assert not [name for name in render() if name.startswith("Role")]
    role = render(team={"users": ["ada"]})[f"Role/{names.QUEUE_PREFIX}demo"]
    for rule in role["rules"]:
        words = {*rule["verbs"], *rule["resources"], *rule["apiGroups"]}
        assert not words & {"*", "escalate", "bind", "impersonate"}


def test_notes_say_what_to_do(ci_file: Path, helm4: Any) -> None:
    """How the queue is used, and who is held to its rules."""
    output = helm4.run("install", "demo", CHART, "-f", ci_file, "--dry-run=client").stdout
    notes = output.partition("NOTES:")[2]
    assert "allranks submit -q " in notes
    held = "The API server holds" in notes
    assert held != ("Have a cluster administrator install this release" in notes)
