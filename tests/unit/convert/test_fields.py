"""Every field of a kind's schema has a verdict: the tables are walked with the schemas' fields."""

from __future__ import annotations

from pathlib import Path

import pytest

from allranks.convert.inputs import pod_fields
from allranks.convert.kinds import (
    appdef,
    appwrapper,
    dlrover,
    experiment,
    hyperpod,
    job,
    jobset,
    leaderworkerset,
    mpi,
    mxnet,
    optimizationjob,
    pytorch,
    ranked,
    runtime_fields,
    statefulset,
    tensorflow,
    trainjob,
    volcano,
)
from allranks.convert.pods import pod_values
from allranks.convert.verdicts import FieldPath, Outcome, Rule, Rules

FOLDER = Path(__file__).parents[2] / "data/convert/fields"
POD_FIELDS = Path(pod_fields.__file__).with_name("pod_fields.txt")
TABLES: dict[str, tuple[Rule, ...]] = {
    "PyTorchJob": pytorch.FIELDS,
    "TFJob": tensorflow.FIELDS,
    "MPIJob.v1": mpi.FIELDS,
    "MPIJob.v2beta1": mpi.FIELDS,
    "MPIJob.batch.test.bdap.com": mpi.FIELDS_OF_SEED,
    "MXJob": mxnet.FIELDS,
    "XGBoostJob": ranked.FIELDS["XGBoostJob"],
    "PaddleJob": ranked.FIELDS["PaddleJob"],
    "JAXJob": ranked.FIELDS["JAXJob"],
    "ElasticJob": dlrover.FIELDS,
    "AppDef": appdef.FIELDS,
    "AppWrapper": appwrapper.FIELDS,
    "Experiment": experiment.FIELDS,
    "HyperPodPyTorchJob": hyperpod.FIELDS,
    "Job": job.FIELDS,
    "JobSet": jobset.FIELDS,
    "LeaderWorkerSet": leaderworkerset.FIELDS,
    "OptimizationJob": optimizationjob.FIELDS,
    "StatefulSet": statefulset.FIELDS,
    "TrainJob": trainjob.FIELDS,
    "TrainingRuntime": runtime_fields.FIELDS,
    "VolcanoJob": volcano.FIELDS,
    "PodTemplateSpec": pod_values.FIELDS,
}
# Fields that a template below another field has; the table of templates itself is walked whole.
OF_TEMPLATE = ("metadata.labels.x", "spec.containers[].image", "spec.volumes[].name")


def keys(path: str) -> FieldPath:
    """A path of a schema as keys of an object."""
    steps = path.replace("[]", ".[]").split(".")
    return tuple(0 if step == "[]" else step.replace("*", "x") for step in steps if step)


def fields(name: str) -> list[str]:
    """The fields of a schema, with a few of each pod template that stands in it."""
    file = POD_FIELDS if name == "PodTemplateSpec" else FOLDER / f"{name}.txt"
    rows = file.read_text(encoding="utf-8").split()
    paths = []
    for path in rows:
        head, mark, _ = path.partition("<PodTemplateSpec>")
        paths += [f"{head}{field}" for field in OF_TEMPLATE] if mark else [path]
    return [path for path in paths if path not in ("metadata", "status")]


@pytest.mark.parametrize("name", TABLES)
def test_every_field_of_a_schema_has_a_rule(name: str) -> None:
    """The table of a kind knows each field that the kind's own schema has."""
    rules = Rules(TABLES[name])
    assert [] == [path for path in fields(name) if rules.of(keys(path)) is None]


@pytest.mark.parametrize("name", TABLES)
def test_what_is_not_carried_as_it_is_says_why(name: str) -> None:
    """A rule for what is changed or lost has a reason."""
    changed = [rule for rule in TABLES[name] if rule.outcome is not Outcome.CARRIED]
    assert [] == [
        rule.path for rule in changed if not rule.why and rule.path not in ("apiVersion", "kind")
    ]


def test_there_is_a_table_for_each_list_of_fields() -> None:
    """No list of fields is left out of the walk."""
    names = [path.stem for path in FOLDER.glob("*.txt")]
    assert sorted(TABLES) == sorted([*names, "PodTemplateSpec"])
