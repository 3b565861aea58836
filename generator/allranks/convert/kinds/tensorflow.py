"""A TFJob of Kubeflow v1 as values of the elastic chart, or of torchrun where that is what runs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from allranks.convert.chart_values import end_of_run, finish
from allranks.convert.jobs import job_program, roles, run_policy
from allranks.convert.pods import pod_values
from allranks.convert.programs import commands, references
from allranks.convert.verdicts import (
    METADATA,
    Conversion,
    Fields,
    Rule,
    Rules,
    carried,
    changed,
    lost,
)

if TYPE_CHECKING:
    from allranks.convert.documents.context import Context
    from allranks.convert.documents.document import Manifest
    from allranks.convert.verdicts import FieldPath

_SPECS = "spec.tfReplicaSpecs"
_NAMES = {
    "Chief": "chief",
    "Master": "chief",
    "Worker": "worker",
    "PS": "ps",
    "Evaluator": "evaluator",
    "Eval": "evaluator",
}
FIELDS: tuple[Rule, ...] = (
    *METADATA,
    carried(f"{_SPECS}.*.replicas", "elastic.roles.*.replicas, or nodes for the workers"),
    changed(f"{_SPECS}.*.restartPolicy", "runPolicy.backoffLimit", "a pod that fails is replaced"),
    *pod_values.fields_at(f"{_SPECS}.*.template"),
    *run_policy.run_policy_at("spec.runPolicy"),
    *run_policy.run_policy_at("spec"),
    carried("spec.successPolicy", "elastic.successPolicy"),
    lost("spec.enableDynamicWorker", "TF_CONFIG lists all workers, always"),
)
_RULES = Rules(FIELDS)


def convert(manifest: Manifest, context: Context) -> Conversion:
    """A TFJob as values.

    Args:
        manifest: the object.
        context: what else is known.

    Raises:
        InputError: it is none, or has no pods.
    """
    fields = Fields(manifest, {}, _RULES, "a TFJob has no such field")
    pod_values.labels(fields, ("metadata",), ())
    path: FieldPath = ("spec", "tfReplicaSpecs")
    own_roles = roles.of_specs(fields, path, _NAMES)
    roles.refuse_without(fields, own_roles, _SPECS, "Chief, Master, PS, Worker or Evaluator")
    own_roles = _with_worker(fields, [_with_new_type(role) for role in own_roles])
    if not _torchrun(fields, own_roles, context):
        roles.put(fields, "tensorflow", own_roles, context, ("tensorflow",))
        if sum(role.count for role in own_roles) == 1:
            fields.note(_TOLD_ALONE)
        policy = fields.get("spec", "successPolicy")
        if policy == "AllWorkers":
            fields.carry(("spec", "successPolicy"), ("elastic", "successPolicy"), "allWorkers")
    if fields.get("spec", "enableDynamicWorker") is False:
        fields.change(("spec", "enableDynamicWorker"), "it is false")
    run_policy.run_policy(fields, ("spec",))
    run_policy.run_policy(fields, ("spec", "runPolicy"))
    if run_policy.leaves_pods(fields):
        end_of_run.note(fields, end_of_run.OF_TFJOB)
    policies: list[FieldPath] = [(*role.replicas[:-1], "restartPolicy") for role in own_roles]
    run_policy.restart_policies(fields, policies, is_never=True)
    return finish.conversion(fields)


_TOLD_ALONE = (
    "its one pod has TF_CONFIG here, which the old operator set for several pods only: a program "
    "that asks whether it is set finds a cluster of one worker"
)


def _with_new_type(role: roles.Role) -> roles.Role:
    """A role of an old type, which TF_CONFIG calls otherwise here."""
    if str(role.replicas[-2]).lower() != "master":
        return role
    why = "TF_CONFIG calls it chief, and not master: let the program look for the task chief"
    return replace(role, why=why)


def _with_worker(fields: Fields, own_roles: list[roles.Role]) -> list[roles.Role]:
    """The roles with at least one worker: a chief alone is the only worker here."""
    names = [role.name for role in own_roles]
    if "worker" in names:
        return own_roles
    lead = next((role for role in own_roles if role.name == "chief"), own_roles[0])
    why = f"TF_CONFIG calls it worker 0, and not {lead.name}: the chart has at least one worker"
    fields.note(why)
    return [replace(role, name="worker", why=why) if role is lead else role for role in own_roles]


def _torchrun(fields: Fields, own_roles: list[roles.Role], context: Context) -> bool:
    """Convert a job of alike workers that run torchrun; return whether it was one."""
    if len(own_roles) != 1:
        return False
    path = own_roles[0].template
    containers = fields.items(*path, "spec", "containers")
    words = [
        str(word)
        for _, container in containers[:1]
        for key in ("command", "args")
        for word in _list(container.get(key))
    ]
    if commands.read(words).runner is not commands.Runner.TORCHRUN:
        return False
    pod = pod_values.read(fields, path, ("tensorflow",))
    program = job_program.program(fields, pod, context)
    job_program.put(fields, pod, program)
    fields.carry(own_roles[0].replicas, ("nodes",), own_roles[0].count)
    fields.put(("nodes",), own_roles[0].count)
    if pod.gpus:
        fields.put(("gpusPerNode",), pod.gpus, pod.gpu_source)
    if "PET_NNODES" not in pod.variables:
        count = own_roles[0].count
        job_program.check_nodes(fields, pod.container, program.options, pod.variables, (count, "1"))
    words_nproc = program.options.get("nproc-per-node", "1")
    job_program.processes(fields, pod, program, references.number(words_nproc, pod.variables))
    return True


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
