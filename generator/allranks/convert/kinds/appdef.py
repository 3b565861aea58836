"""TorchX's AppDefs as values.

`torchx run --dryrun` shows an AppDef: roles, each with an image, a program and how many replicas.
One of a single role that runs torchrun, as the component ``dist.ddp`` makes it, is a torchrun job.
Macros such as ``${replica_id}`` are what a launcher of TorchX puts in.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from allranks.convert.chart_values import finish, trials
from allranks.convert.documents import appdef_names
from allranks.convert.jobs.rewrite import Rewrite
from allranks.convert.pods import podsets
from allranks.convert.pods.podsets import PodSet
from allranks.convert.verdicts import Fields, Rule, Rules, carried, changed, lost
from allranks.errors import InputError

if TYPE_CHECKING:
    from allranks.convert.documents.context import Context
    from allranks.convert.documents.document import Manifest
    from allranks.convert.verdicts import Conversion, FieldPath

KIND = "AppDef"
_R = "roles[]"
_CODE = "code is sent with `allranks submit`, or `--workspace DIR`"
FIELDS: tuple[Rule, ...] = (
    changed("apiVersion", "workload", "says which chart it is for"),
    changed("kind", "workload", "says which chart it is for"),
    carried("name", "NAME, the release"),
    lost("metadata.**", "it is of a scheduler of TorchX"),
    changed(f"{_R}.name", "", "a job's pods have the roles of their workload"),
    carried(f"{_R}.image", "image"),
    lost(f"{_R}.base_image", _CODE),
    changed(f"{_R}.entrypoint", "command", "what starts the ranks is the chart's"),
    changed(f"{_R}.args[]", "command", "what starts the ranks is the chart's"),
    carried(f"{_R}.env.*", "env"),
    carried(f"{_R}.num_replicas", "nodes"),
    carried(f"{_R}.min_replicas", "torchrun.elastic.minNodes"),
    changed(f"{_R}.max_retries", "runPolicy.backoffLimit", "it counts for each pod"),
    changed(f"{_R}.retry_policy", "", "a pod that fails is replaced, and the ranks start anew"),
    carried(f"{_R}.resource.cpu", "resources.perPod"),
    carried(f"{_R}.resource.gpu", "gpusPerNode"),
    carried(f"{_R}.resource.memMB", "resources.perPod"),
    carried(f"{_R}.resource.devices.*", "resources.perPod"),
    lost(f"{_R}.resource.capabilities.**", "name the nodes in scheduling.nodeSelector"),
    changed(f"{_R}.resource.tags.**", "", "nothing reads it"),
    changed(f"{_R}.port_map.*", "", "pods of a job reach each other's ports without their names"),
    lost(f"{_R}.metadata.**", "it is of a scheduler of TorchX"),
    lost(f"{_R}.mounts[].**", "mount it by storage, or by podTemplate"),
    lost(f"{_R}.workspace.**", _CODE),
    lost(f"{_R}.overrides.**", "they are known to the program that made it alone"),
)
_RULES = Rules(FIELDS)
# What a replica asks for by these words, and the unit that stands behind the number.
AMOUNTS = {"cpu": ("cpu", ""), "memMB": ("memory", "M"), "gpu": ("nvidia.com/gpu", "")}
# What TorchX puts in: where the image is, which replica it is, and what names rank 0.
_MACROS = {"img_root": "", "replica_id": "$(JOB_COMPLETION_INDEX)", "rank0_env": "MASTER_ADDR"}
_MACRO = re.compile(r"\$?\$\{(img_root|replica_id|rank0_env|app_id)\}")


def convert(manifest: Manifest, context: Context) -> Conversion:
    """An AppDef as values.

    Args:
        manifest: the object.
        context: what else is known.

    Raises:
        InputError: it has several roles, or starts no ranks.
    """
    fields = Fields(manifest, rules=_RULES, unknown=f"an {KIND} has no such field")
    roles = fields.items("roles")
    if len(roles) != 1:
        names = ", ".join(str(role.get("name")) for _, role in roles)
        raise InputError(
            f"it has the roles {names}, and a torchrun job has one" if roles else "it has no roles",
            path="roles",
            hint="give each role by itself",
        )
    name = appdef_names.name_of(manifest)
    target = _rewritten(fields, name)
    template = target.manifest["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]
    podset = PodSet("role", 1, (), template)
    podsets.shape([podset], KIND, context.entrypoint)
    target.convert_as(podsets.PYTORCH, context)
    retries = fields.number("roles", 0, "max_retries")
    fields.put(("runPolicy", "backoffLimit"), retries or 0, ("roles", 0, "max_retries"))
    fields.keep(("name",), "NAME, the release")
    return finish.conversion(fields, name=name)


def _rewritten(fields: Fields, name: str) -> Rewrite:
    """The AppDef as a PyTorchJob of workers alone."""
    role: FieldPath = ("roles", 0)
    target = Rewrite(fields)
    target.put(("metadata", "name"), name)
    worker: FieldPath = ("spec", "pytorchReplicaSpecs", "Worker")
    if not target.copy((*role, "num_replicas"), (*worker, "replicas")):
        target.put((*worker, "replicas"), 1)
    target.put((*worker, "restartPolicy"), "OnFailure")  # how often, max_retries says
    container: FieldPath = (*worker, "template", "spec", "containers", 0)
    target.put((*container, "name"), "pytorch")
    target.copy((*role, "image"), (*container, "image"))
    target.put((*container, "command"), [filled(fields.get(*role, "entrypoint"), name)])
    target.also((*role, "entrypoint"), (*container, "command", 0))
    args = fields.get(*role, "args")
    for index, word in enumerate(args if isinstance(args, list) else ()):
        target.put((*container, "args", index), filled(word, name))
        target.also((*role, "args", index), (*container, "args", index))
    for index, (key, value) in enumerate(fields.mapping(*role, "env").items()):
        target.put((*container, "env", index), {"name": key, "value": filled(value, name)})
        target.also((*role, "env", key), (*container, "env", index, "value"))
    _resources(target, role, container)
    least, most = (fields.number(*role, key) for key in ("min_replicas", "num_replicas"))
    if least is not None and most is not None and least < most:
        target.copy((*role, "min_replicas"), ("spec", "elasticPolicy", "minReplicas"))
        target.put(("spec", "elasticPolicy", "maxReplicas"), most)
    return target


def _resources(target: Rewrite, role: FieldPath, container: FieldPath) -> None:
    """What a replica asks for; less than nothing is what TorchX says for no word about it."""
    fields, resource = target.fields, (*role, "resource")
    for key, (name, unit) in AMOUNTS.items():
        amount = trials.number(fields.get(*resource, key))
        to: FieldPath = (*container, "resources", "limits", name)
        if amount is not None and amount > 0:
            target.put(to, f"{amount}{unit}")
            target.also((*resource, key), to)
        else:
            fields.change((*resource, key), "it asks for none")
    for key in fields.mapping(*resource, "devices"):
        target.copy((*resource, "devices", key), (*container, "resources", "limits", str(key)))


def filled(text: Any, name: str) -> str:
    """A text with what TorchX puts in for its macros.

    Args:
        text: a word of a role's, or a variable's value.
        name: that of the AppDef.
    """
    return _MACRO.sub(lambda match: _MACROS.get(match[1], name), str(text))
