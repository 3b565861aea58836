"""XGBoostJob, PaddleJob and JAXJob of Kubeflow v1: pods with one process each, and a rank.

The elastic chart's framework `pytorch` tells each pod MASTER_ADDR, MASTER_PORT, RANK and
WORLD_SIZE, which is what XGBoost's programs read; Paddle and JAX are told the same by other names
(kubeflow/training-operator, pkg/controller.v1/paddlepaddle/envvar.go and jax/envvar.go).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from allranks.convert.chart_values import end_of_run, finish
from allranks.convert.jobs import roles, run_policy
from allranks.convert.pods import pod_values
from allranks.convert.programs import shell
from allranks.convert.verdicts import METADATA, Conversion, Fields, Rule, Rules, carried, changed
from allranks.errors import InputError

if TYPE_CHECKING:
    from allranks.convert.documents.context import Context
    from allranks.convert.documents.document import Manifest
    from allranks.convert.verdicts import FieldPath

_NAMES = {"Master": "ps", "Worker": "worker"}


def _fields(specs: str) -> tuple[Rule, ...]:
    return (
        *METADATA,
        carried(f"{specs}.*.replicas", "nodes"),
        changed(
            f"{specs}.*.restartPolicy", "runPolicy.backoffLimit", "a pod that fails is replaced"
        ),
        *pod_values.fields_at(f"{specs}.*.template"),
        *run_policy.run_policy_at("spec.runPolicy"),
        changed("spec.elasticPolicy.**", "nodes", "the number of pods is fixed"),
    )


# The key of the replica specs of each kind, and the variables that its programs read.
_SPECS = {
    "XGBoostJob": "xgbReplicaSpecs",
    "PaddleJob": "paddleReplicaSpecs",
    "JAXJob": "jaxReplicaSpecs",
}
_EXPORTS = {
    "XGBoostJob": "",
    # Its launcher serves the rendezvous where the address is its own, and knows no name for that.
    "PaddleJob": 'PADDLE_MASTER="$([ "$RANK" = 0 ] && echo "$ALLRANKS_POD_IP" || '
    'echo "$MASTER_ADDR"):$MASTER_PORT" PADDLE_NNODES="$WORLD_SIZE"',
    "JAXJob": 'COORDINATOR_ADDRESS="$MASTER_ADDR" COORDINATOR_PORT="$MASTER_PORT" '
    'NUM_PROCESSES="$WORLD_SIZE" PROCESS_ID="$RANK"',
}
# A master of Paddle's has a server, and a worker a trainer: that makes the launcher start both.
_EXPORTS_OF_SERVERS = {"ps": "PADDLE_SERVER_NUM=1", "worker": "PADDLE_TRAINER_NUM=1"}
_CONTAINERS = {"XGBoostJob": "xgboost", "PaddleJob": "paddle", "JAXJob": "jax"}
FIELDS: dict[str, tuple[Rule, ...]] = {
    kind: _fields(f"spec.{specs}") for kind, specs in _SPECS.items()
}
OF_LIGHTGBM = (
    "WORKER_ADDRS and WORKER_PORT, which LightGBM reads, are not set: only MASTER_ADDR, "
    "MASTER_PORT, RANK and WORLD_SIZE are"
)
# The seconds are those of follow.py.
_ENDED_BY_WORKERS = (
    "the run is done when its workers are: the master, which is role ps here, has 30 seconds more "
    "for what it does then, such as to save the model"
)
_RULES = {kind: Rules(rules) for kind, rules in FIELDS.items()}


def convert(manifest: Manifest, context: Context) -> Conversion:
    """One of these jobs as values.

    Args:
        manifest: the object.
        context: what else is known.

    Raises:
        InputError: it is none, or has no pods.
    """
    kind = str(manifest.get("kind"))
    fields = Fields(manifest, {}, _RULES[kind], f"a {kind} has no such field")
    pod_values.labels(fields, ("metadata",), ())
    path: FieldPath = ("spec", _SPECS[kind])
    if kind == "XGBoostJob":
        run_policy.refuse_more_masters(fields, (*path, "Master"))
    own_roles = roles.of_specs(fields, path, _NAMES)
    roles.refuse_without(fields, own_roles, f"spec.{_SPECS[kind]}", "Master or Worker")
    has_master = any(role.name == "ps" for role in own_roles)
    policies: list[FieldPath] = [(*role.replicas[:-1], "restartPolicy") for role in own_roles]
    own_roles = _alike(fields, own_roles, has_servers=kind == "PaddleJob")
    serving = ("ps",) if kind == "PaddleJob" else ()  # the master of the others trains, as rank 0
    templates = roles.put(
        fields, "pytorch", own_roles, context, (_CONTAINERS[kind],), serving=serving
    )
    if kind == "PaddleJob":
        name = shell.quote(fields.text("metadata", "name"))
        has_servers = any(role.name == "ps" for role in own_roles)
        of_roles = _EXPORTS_OF_SERVERS if has_servers else None
        roles.wrap(fields, f"PADDLE_JOB_ID={name} {_EXPORTS[kind]}", of_roles)
    elif _EXPORTS[kind]:
        roles.wrap(fields, _EXPORTS[kind])
    if _EXPORTS[kind]:
        fields.note(
            "the variables of the old operator are made of MASTER_ADDR, RANK and WORLD_SIZE"
        )
    if kind == "XGBoostJob":
        fields.note(OF_LIGHTGBM)
        roles.leave_unset(fields, templates, ("WORKER_ADDRS", "WORKER_PORT"))
    if any(role.name == "ps" for role in own_roles):
        fields.note(_ENDED_BY_WORKERS)
    elif kind == "XGBoostJob" and has_master and fields.values.get("nodes", 1) > 1:
        # Source: pkg/controller.v1/xgboost/xgboostjob_controller.go of kubeflow/training-operator.
        fields.put(("elastic", "successPolicy"), "lead")
        if run_policy.leaves_pods(fields):
            end_of_run.note(fields, end_of_run.OF_OPERATOR)
    run_policy.run_policy(fields, ("spec", "runPolicy"))
    run_policy.restart_policies(fields, policies, is_never=kind != "PaddleJob")  # that: OnFailure
    return finish.conversion(fields)


def _alike(fields: Fields, own_roles: list[roles.Role], *, has_servers: bool) -> list[roles.Role]:
    """The roles; a master that has the workers' template, and serves nothing, is their first."""
    by_name = {role.name: role for role in own_roles}
    master, worker = by_name.get("ps"), by_name.get("worker")
    if worker is None:
        if master is None:
            raise InputError("the job has no pods", path="spec", hint="write the whole object")
        return [replace(master, name="worker")]
    if master is None:
        return [worker]
    if has_servers:
        return own_roles
    if fields.get(*master.template) == fields.get(*worker.template):
        fields.change(master.template, "it is the workers' template, which stands for both")
        why = "the master is the first of the workers"
        fields.change(master.replicas, why, "nodes")
        return [replace(worker, count=worker.count + master.count, why=why)]
    return own_roles
