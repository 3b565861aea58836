"""LeaderWorkerSets that train, as values.

A group of a LeaderWorkerSet is a leader with its workers, which know each other by ``LWS_*``
variables. Most serve a model; one whose pods run torchrun, or whose leader runs mpirun, is a job.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks.convert.chart_values import finish
from allranks.convert.jobs import configmap_scripts, pod_jobs, roles
from allranks.convert.kinds import job
from allranks.convert.pods import claims, pod_values, podsets
from allranks.convert.pods.podsets import PodSet
from allranks.convert.programs import commands, references
from allranks.convert.verdicts import METADATA, Fields, Rule, Rules, carried, changed, lost
from allranks.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allranks.convert.documents.context import Context
    from allranks.convert.documents.document import Manifest
    from allranks.convert.verdicts import Conversion, FieldPath

KIND = "LeaderWorkerSet"
EXCLUSIVE = "leaderworkerset.sigs.k8s.io/exclusive-topology"
_GROUP: FieldPath = ("spec", "leaderWorkerTemplate")
_L = "spec.leaderWorkerTemplate"
FIELDS: tuple[Rule, ...] = (
    *METADATA,
    lost("spec.replicas", "each group is a job of its own: start the values once for each"),
    carried(f"{_L}.size", "nodes"),
    changed(f"{_L}.restartPolicy", "runPolicy.backoffLimit", "the ranks of all pods start anew"),
    lost(f"{_L}.subGroupPolicy.**", "scheduling.topology keeps all pods together"),
    *claims.rules_of_pod_claims(_L),
    *pod_values.fields_at(f"{_L}.leaderTemplate"),
    *pod_values.fields_at(f"{_L}.workerTemplate"),
    changed("spec.rolloutStrategy.**", "", "a job is not rolled out"),
    changed("spec.startupPolicy", "", "each pod waits for the names that it must know"),
    changed(
        "spec.networkConfig.**", "", "the chart makes the names by which the pods find each other"
    ),
)
_RULES = Rules(FIELDS)


def convert(manifest: Manifest, context: Context) -> Conversion:
    """A LeaderWorkerSet as values.

    Args:
        manifest: the object.
        context: what else is known.

    Raises:
        InputError: its pods are no job.
    """
    fields = Fields(manifest, rules=_RULES, unknown=f"a {KIND} has no such field")
    size = fields.number(*_GROUP, "size")
    size = 1 if size is None else size
    leader: FieldPath = (*_GROUP, "leaderTemplate")
    worker: FieldPath = (*_GROUP, "workerTemplate")
    sets = []
    if fields.has(*leader):
        job.check_containers(fields, leader)
        sets.append(PodSet("leader", 1, leader, fields.mapping(*leader)))
        size -= 1
    if size > 0 or not sets:
        job.check_containers(fields, worker)
        sizes: tuple[FieldPath, ...] = ((*_GROUP, "size"),)
        sets.append(PodSet("worker", max(size, 1), worker, fields.mapping(*worker), sizes=sizes))
    podsets.check_ends(sets, KIND)
    try:
        shape = podsets.shape(sets, KIND, context.entrypoint)
    except InputError:
        shape = podsets.Shape(None, {})
    if shape.key is None:
        configmap_scripts.refuse_with_ranks(fields, sets, KIND, context)
        raise podsets.without_ranks(sets, KIND, "spec.leaderWorkerTemplate", context.entrypoint)
    queue = pod_jobs.convert(
        fields, context, shape, {}, claim_templates=(*_GROUP, "volumeClaimTemplates")
    )
    fields.note(job.FOR_EVER)
    if fields.number("spec", "replicas") in (None, 1):
        fields.change(("spec", "replicas"), "a group is a job")
    pod_jobs.exclusive_topology(fields, ("metadata", "annotations", EXCLUSIVE), is_alone=True)
    runners = {podset.program(context.entrypoint).runner for podset in sets}
    is_plain = commands.Runner.PLAIN in runners
    _tell_of_group(fields, sets, is_torchrun=shape.key == podsets.PYTORCH, is_plain=is_plain)
    return finish.conversion(fields, queue=queue)


# What the variables of a group are to each process of a torchrun.
_VARIABLES = {
    "LWS_LEADER_ADDRESS": "MASTER_ADDR",
    "LWS_GROUP_SIZE": "GROUP_WORLD_SIZE",
    "LWS_WORKER_INDEX": "GROUP_RANK",
}


def _tell_of_group(
    fields: Fields, sets: Sequence[PodSet], *, is_torchrun: bool, is_plain: bool
) -> None:
    """Give programs the variables of their group, or say that they are not there.

    Args:
        fields: the object, converted.
        sets: its pods.
        is_torchrun: whether its processes are those of a torchrun.
        is_plain: whether a program is started by itself, which may read the variables where no
            manifest shows it.
    """
    command = fields.values.get("command", [])
    variables = references.mentions(command, ("LWS_*",))
    in_setup = references.mentions([str(fields.values.get("setup", ""))], ("LWS_*",))
    if is_torchrun and (variables or is_plain):
        exports = " ".join(f'{name}="${own}"' for name, own in _VARIABLES.items())
        fields.values["command"] = roles.wrapped(command, exports)
        variables = [name for name in variables if name not in _VARIABLES]
    for podset in sets:
        for key in ("command", "args"):
            here: FieldPath = (*podset.path, "spec", "containers", podset.index, key)
            names = ", ".join(dict.fromkeys((*variables, *in_setup)))
            if names:
                fields.leave(
                    here, f"it reads {names}, which is not there: read MASTER_ADDR and RANK"
                )
