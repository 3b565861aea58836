"""What is written fits the resources that the operator's chart brings."""

from __future__ import annotations

import json
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
import yaml

from allranks import names
from tests.unit.elastic.simcluster import MASTER, NAME, SimCluster, job, pod_meta, template

if TYPE_CHECKING:
    from collections.abc import Iterator

CRDS = Path(__file__).parents[3] / "charts/operator/crds"


@cache
def validator(plural: str) -> jsonschema.Draft202012Validator:
    """The schema of a resource, as JSON Schema: what is nullable may be null, times are times."""
    crd = yaml.safe_load((CRDS / f"{plural}.yaml").read_text())
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    checker = jsonschema.FormatChecker(formats=())
    checker.checks("date-time", raises=ValueError)(
        lambda value: not isinstance(value, str) or bool(datetime.fromisoformat(value))
    )
    return jsonschema.Draft202012Validator(_plain(schema), format_checker=checker)


def _plain(node: Any) -> Any:
    if isinstance(node, list):
        return [_plain(item) for item in node]
    if not isinstance(node, dict):
        return node
    plain = {key: _plain(value) for key, value in node.items()}
    if plain.get("nullable") is True and isinstance(plain.get("type"), str):
        plain["type"] = [plain["type"], "null"]
    return plain


def check(cluster: SimCluster) -> None:
    """Everything that stands in a cluster is what its resource allows."""
    validator(names.ELASTIC_JOBS).validate(cluster.job)
    for plan in cluster.plans.values():
        validator(names.SCALE_PLANS).validate(json.loads(json.dumps(plan)))


@pytest.mark.parametrize("master", ["own", "given", "external"])
def test_every_status_fits_its_resource(master: str) -> None:
    """From the first look to the end: plans of all kinds, failures, suspension."""
    specs: dict[str, Any] = {"worker": {"replicas": 2, "maxReplicas": 4, "restartCount": 1}}
    if master == "given":
        specs[MASTER] = {"template": template("dlrover:1")}
    cluster = SimCluster(job({**specs, "ps": {}}, master=master))
    steps = (
        lambda: cluster.plan("p-0", worker=9, ps=1),
        lambda: cluster.plan("p-1", worker=-1),
        lambda: cluster.plan("p-2"),
        lambda: cluster.plan("p-3", spec={"createPods": [pod_meta("worker", 9, 1)]}),
        lambda: cluster.plan("p-4", spec={"migratePods": [pod_meta("ps", 0)]}),
        lambda: cluster.finish(f"{NAME}-edljob-worker-0", code=137, reason="OOMKilled"),
        lambda: cluster.scale(replicas=3),
        lambda: cluster.edit(suspend=True),
        lambda: cluster.edit(suspend=False),
        lambda: cluster.annotate(names.MASTER_EXIT_CODE, "1"),
    )
    for step in steps:
        step()
        cluster.look()
        check(cluster)
        cluster.settle()
        check(cluster)
        cluster.wait(3)


def test_a_job_that_was_never_looked_at_fits() -> None:
    """The samples of these tests are jobs that an API server takes."""
    check(SimCluster())


def _properties(node: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every field of a schema, with its path as `kubectl explain` takes it."""
    for key, value in (node.get("properties") or {}).items():
        yield f"{path}.{key}", value
        yield from _properties(value, f"{path}.{key}")
    for inner in (node.get("items"), node.get("additionalProperties")):
        if isinstance(inner, dict):
            yield from _properties(inner, path)


@pytest.mark.parametrize(
    "plural", [names.ELASTIC_JOBS, names.SCALE_PLANS, names.TRAINING_RUNS], ids=str
)
def test_kubectl_explain_explains(plural: str) -> None:
    """Every field says what it is; Kubernetes describes the three that all objects have."""
    crd = yaml.safe_load((CRDS / f"{plural}.yaml").read_text())
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    common = {".apiVersion", ".kind", ".metadata"}
    fields = dict(_properties(schema))
    assert {".spec", ".status"} <= fields.keys()
    assert [] == [path for path in fields.keys() - common if not fields[path].get("description")]
    # YAML would take a comma in a flow mapping for the end of a description.
    assert [] == [
        path for path in fields.keys() - common if not fields[path]["description"].endswith(".")
    ]


def test_the_columns_of_a_plan_show_what_it_asks() -> None:
    """How many workers and servers, what became of it, and what it was not given."""
    crd = yaml.safe_load((CRDS / "scaleplans.yaml").read_text())
    columns = crd["spec"]["versions"][0]["additionalPrinterColumns"]
    paths = {column["name"]: column["jsonPath"] for column in columns if not column.get("priority")}
    assert ".spec.replicaResourceSpecs.worker.replicas" == paths["Workers"]
    assert ".spec.replicaResourceSpecs.ps.replicas" == paths["PS"]
    assert (".status.phase", ".status.message") == (paths["Phase"], paths["Why"])
