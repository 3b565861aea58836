"""An MXJob as values of the elastic chart: Kubeflow's, and those of two older operators.

fioravanzo.org has a list `replicaSpecs` whose items name their type; in mpba.fbk.eu the spec is
that list itself, of MXJobs and of TFJobs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks.convert.chart_values import end_of_run, finish
from allranks.convert.jobs import roles, run_policy
from allranks.convert.pods import pod_values
from allranks.convert.verdicts import (
    METADATA,
    Conversion,
    Fields,
    Outcome,
    Rule,
    Rules,
    carried,
    changed,
    dotted,
    lost,
)
from allranks.errors import InputError

if TYPE_CHECKING:
    from allranks.convert.documents.context import Context
    from allranks.convert.documents.document import Manifest
    from allranks.convert.verdicts import FieldPath

_SPECS = "spec.mxReplicaSpecs"
_NAMES = {"Scheduler": "scheduler", "Server": "server", "Worker": "worker"}
_TF_NAMES = {
    "CHIEF": "chief",
    "MASTER": "chief",
    "WORKER": "worker",
    "PS": "ps",
    "EVALUATOR": "evaluator",
}
FIELDS: tuple[Rule, ...] = (
    *METADATA,
    carried(f"{_SPECS}.*.replicas", "elastic.roles.*.replicas, or nodes for the workers"),
    changed(f"{_SPECS}.*.restartPolicy", "runPolicy.backoffLimit", "a pod that fails is replaced"),
    lost(f"{_SPECS}.*.label", "only MXTune reads it"),
    *pod_values.fields_at(f"{_SPECS}.*.template"),
    carried("spec.jobMode", "elastic.framework"),
    *run_policy.run_policy_at("spec.runPolicy"),
    *run_policy.run_policy_at("spec"),
    carried("spec.successPolicy", "elastic.successPolicy"),
)
_ITEM = "spec.replicaSpecs[]"
# The fields of fioravanzo.org.
FIELDS_OF_LIST: tuple[Rule, ...] = (
    *METADATA,
    changed("spec.RuntimeId", "", "the operator counted its jobs by it"),
    changed("spec.runtimeId", "", "the operator counted its jobs by it"),
    carried(f"{_ITEM}.replicas", "elastic.roles.*.replicas, or nodes for the workers"),
    carried(f"{_ITEM}.mxReplicaType", "elastic.roles"),
    carried(f"{_ITEM}.mxPort", "elastic.port"),
    *pod_values.fields_at(f"{_ITEM}.template"),
    changed("spec.mxImage", "image", "each template names its image"),
    changed("spec.terminationPolicy.**", "elastic.successPolicy", "all workers, unless it is one"),
    carried("spec.schedulerName", "scheduling.dialect, or scheduling.schedulerName"),
)
_BARE = "spec[]"
# The fields of mpba.fbk.eu.
FIELDS_OF_BARE_LIST: tuple[Rule, ...] = (
    *METADATA,
    carried(f"{_BARE}.replicas", "elastic.roles.*.replicas, or nodes for the workers"),
    carried(f"{_BARE}.replicaType", "elastic.roles"),
    *pod_values.fields_at(f"{_BARE}.template"),
)
_RULES, _RULES_OF_LIST = Rules(FIELDS), Rules(FIELDS_OF_LIST)
_RULES_OF_BARE_LIST = Rules(FIELDS_OF_BARE_LIST)
_UNKNOWN = "an MXJob has no such field"


def convert(manifest: Manifest, context: Context) -> Conversion:
    """An MXJob of Kubeflow as values.

    Args:
        manifest: the object.
        context: what else is known.

    Raises:
        InputError: it tunes, or has no pods.
    """
    fields = Fields(manifest, {}, _RULES, _UNKNOWN)
    if fields.get("spec", "jobMode") == "MXTune":
        raise InputError(
            "an MXJob of mode MXTune compiles operators with TVM's tuner, and trains nothing",
            path="spec.jobMode",
            hint="keep it where it is; only jobMode: MXTrain is converted",
        )
    if fields.get("spec", "jobMode") == "MXTrain":
        fields.say(("spec", "jobMode"), Outcome.CARRIED, "elastic.framework")
    pod_values.labels(fields, ("metadata",), ())
    own_roles = roles.of_specs(fields, ("spec", "mxReplicaSpecs"), _NAMES)
    roles.refuse_without(fields, own_roles, _SPECS, "Scheduler, Server or Worker")
    _need_worker(own_roles)
    templates = roles.put(fields, "mxnet", own_roles, context, ("mxnet",))
    roles.leave_unset(fields, templates, ("MX_CONFIG",))
    _alone(fields, own_roles)
    if fields.get("spec", "successPolicy") == "AllWorkers":
        fields.carry(("spec", "successPolicy"), ("elastic", "successPolicy"), "allWorkers")
    run_policy.run_policy(fields, ("spec",))
    run_policy.run_policy(fields, ("spec", "runPolicy"))
    if run_policy.leaves_pods(fields):
        end_of_run.note(fields, end_of_run.OF_OPERATOR)
    policies: list[FieldPath] = [(*role.replicas[:-1], "restartPolicy") for role in own_roles]
    run_policy.restart_policies(fields, policies, is_never=True)
    return finish.conversion(fields)


def convert_list(manifest: Manifest, context: Context) -> Conversion:
    """An MXJob of fioravanzo.org as values.

    Args:
        manifest: the object.
        context: what else is known.

    Raises:
        InputError: it has no pods.
    """
    fields = Fields(manifest, {}, _RULES_OF_LIST, _UNKNOWN)
    pod_values.labels(fields, ("metadata",), ())
    own_roles = _listed(fields, ("spec", "replicaSpecs"), "mxReplicaType", _NAMES)
    roles.refuse_without(fields, own_roles, "spec.replicaSpecs", "SCHEDULER, SERVER or WORKER")
    _need_worker(own_roles)
    roles.put(fields, "mxnet", own_roles, context, ("mxnet",))
    _alone(fields, own_roles)
    for role in own_roles:
        port = fields.number(*role.replicas[:-1], "mxPort")
        here: FieldPath = (*role.replicas[:-1], "mxPort")
        if port and role.name == "scheduler":
            fields.carry(here, ("elastic", "port"), port)
        else:
            fields.change(here, "the pods of a job listen on the scheduler's", "elastic.port")
    _termination(fields)
    scheduler = fields.get("spec", "schedulerName")
    dialect = pod_values.SCHEDULERS.get(str(scheduler)) if scheduler else ""
    if dialect:
        fields.carry(("spec", "schedulerName"), ("scheduling", "dialect"), dialect)
    elif dialect is None:
        fields.carry(("spec", "schedulerName"), ("scheduling", "schedulerName"))
    return finish.conversion(fields)


def convert_bare_list(manifest: Manifest, context: Context) -> Conversion:
    """An MXJob or a TFJob of mpba.fbk.eu as values.

    Args:
        manifest: the object.
        context: what else is known.

    Raises:
        InputError: it has no pods.
    """
    fields = Fields(manifest, {}, _RULES_OF_BARE_LIST, "the operator has no such field")
    pod_values.labels(fields, ("metadata",), ())
    is_mxnet = manifest.get("kind") == "MXJob"
    own_roles = _listed(fields, ("spec",), "replicaType", _NAMES if is_mxnet else _TF_NAMES)
    roles.refuse_without(fields, own_roles, "spec", "replica of a type that is known")
    _need_worker(own_roles)
    framework = "mxnet" if is_mxnet else "tensorflow"
    roles.put(fields, framework, own_roles, context, (framework,))
    if is_mxnet:
        _alone(fields, own_roles)
    return finish.conversion(fields)


def _listed(fields: Fields, path: FieldPath, key: str, names: dict[str, str]) -> list[roles.Role]:
    own_roles: list[roles.Role] = []
    lower = {name.lower(): role for name, role in names.items()}
    for index, item in fields.items(*path):
        role = lower.get(str(item.get(key) or "").lower())
        here: FieldPath = (*path, index)
        first = next((other for other in own_roles if other.name == role), None)
        if first is not None:
            why = f"a second {item[key]}: the role {role} is that of {dotted(first.template[:-1])}"
            fields.leave(here, f"{why}, and has one template")
        if role is None or first is not None:
            continue
        count = fields.number(*here, "replicas")
        count = 1 if count is None else count
        fields.say((*here, key), Outcome.CARRIED, f"elastic.roles.{role}")
        if count > 0:
            own_roles.append(roles.Role(role, (*here, "template"), (*here, "replicas"), count))
    return own_roles


def _need_worker(own_roles: list[roles.Role]) -> None:
    if not any(role.name == roles.WORKER for role in own_roles):
        raise InputError(
            "the job has no workers",
            path="spec",
            hint="add the replicas that train, of type worker",
        )


def _alone(fields: Fields, own_roles: list[roles.Role]) -> None:
    """Say what the chart adds to a job without all of MXNet's roles."""
    names = {role.name for role in own_roles}
    for role in ("scheduler", "server"):
        if role not in names:
            fields.note(f"MXNet does not train without a {role}: the chart adds one")


def _termination(fields: Fields) -> None:
    path: FieldPath = ("spec", "terminationPolicy", "chief")
    is_worker = str(fields.get(*path, "replicaName")).lower() == "worker"
    if is_worker and fields.number(*path, "replicaIndex") in (None, 0):
        fields.carry((*path, "replicaName"), ("elastic", "successPolicy"), "lead")
        fields.say((*path, "replicaIndex"), Outcome.CARRIED, "elastic.successPolicy")
