"""TorchrunJob and TorchrunQueue objects as values.

Both have been written in four dialects that do not agree: that of the project's README, that of its
chart, and two of its CRDs. A field means the same wherever it stands, so that all four are read at
once, and an object may mix them. What the controller did with a field is the meaning, where it did
something.

Not repeated of it: a c10d rendezvous at an etcd's address, a job whose name no DNS has, GPUs that
count as none, a pod group of one. It is longer than most: each field is read once for all dialects.
"""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.convert.chart_values import finish, waits
from allranks.convert.jobs import job_program
from allranks.convert.kinds.dialects import Dialects, overruled
from allranks.convert.pods import podsets
from allranks.convert.pods.pod_values import SECURITY_NOTE
from allranks.convert.programs import commands, preparation, references
from allranks.convert.verdicts import Conversion, Fields, Outcome
from allranks.errors import InputError
from allranks.k8s import fields as k8s
from allranks.values.merge import merge

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allranks.convert.documents.context import Context
    from allranks.convert.verdicts import FieldPath

GROUP = names.TORCHRUN_GROUP
JOB_KINDS = ("TorchrunJob",)
QUEUE_KINDS = ("TorchrunQueue", "JobQueue")
TRAINER = "trainer"

_GPU = "nvidia.com/gpu"
_DEFAULT_PORT = 29500
_KAI = "kai"
_DIALECTS = {
    "kai": _KAI,
    "kai-scheduler": _KAI,
    "kueue": "kueue",
    "volcano": "volcano",
    "coscheduling": "coscheduling",
    "default-scheduler": "none",
    "none": "none",
}
# Shell that a list of words cannot say.
_SHELL = frozenset("|&;<>()$`\\*?[]#~=%!{}\n")
_ITS_OWN = "the cluster writes it itself"
_STATUS = "it is the state of the old run"
_CODE = (
    f"code is sent with `{names.CLI} submit`, or `--workspace DIR`, and unpacked in each pod: "
    "there is no claim and no pod for it"
)
_ANY_BACKEND = "the program chooses it, in init_process_group; the controller did not pass it on"


def is_torchrun(manifest: Mapping[str, Any]) -> bool:
    """Whether an object is of this project."""
    group = str(manifest.get("apiVersion") or "").partition("/")[0]
    return group == GROUP and manifest.get("kind") in (*JOB_KINDS, *QUEUE_KINDS)


def convert(manifest: Mapping[str, Any], context: Context) -> Conversion:
    """A TorchrunJob as values of the torchrun chart that are valid by themselves.

    Args:
        manifest: the object.
        context: what else is known, such as its TorchrunQueue, whose image it may have.

    Raises:
        InputError: it is none, or its image or command is nowhere.
    """
    fields, queue_name = _job(manifest)
    _of_queue(fields, queue_name, context)
    fields.put(("security", "restricted"), value=False)
    fields.note(SECURITY_NOTE)
    conversion = finish.conversion(fields, queue=queue_name)
    defaults = _defaults_of(queue_name, context)
    if defaults is None:
        return conversion
    return conversion.with_notes(waits.notes(merge(defaults, conversion.values)))


def convert_queue(manifest: Mapping[str, Any], _context: Context) -> Conversion:
    """A TorchrunQueue as values of charts/queue.

    Args:
        manifest: the object.
        _context: what else is known.

    Raises:
        InputError: it is none.
    """
    return finish.conversion(_queue(manifest), chart=names.QUEUE_CHART)


def _of_queue(fields: Fields, queue_name: str, context: Context) -> None:
    """Take the image and the GPUs of a job's queue, where the job names none."""
    defaults, values = _defaults_of(queue_name, context) or {}, fields.values
    if not values.get("image") and defaults.get("image"):
        fields.put(("image",), defaults["image"])
        fields.note(f"the image is the queue's, {queue_name}")
    if not values.get("image") and not defaults.get("image"):
        raise _without_image(queue_name)
    gpus, shape = defaults.get("gpusPerNode"), k8s.at(defaults, "nodeShape", "gpus")
    if gpus and not values.get("gpus") and not values.get("gpusPerNode"):
        fields.put(("gpusPerNode",), gpus)
        fields.note(f"the GPUs of a pod are the queue's, {queue_name}: gpusPerNode is {gpus}")
    elif shape and values.get("gpus") and not values.get("nodes"):
        fields.put(("nodeShape", "gpus"), shape)
        fields.note(f"a node has the queue's GPUs, {queue_name}: nodeShape.gpus is {shape}")


def _defaults_of(queue_name: str, context: Context) -> Mapping[str, Any] | None:
    """What the jobs of a queue have of it; None where the input has no such queue."""
    for document in context.objects(*QUEUE_KINDS, group=GROUP):
        if document.name == queue_name:
            defaults: Mapping[str, Any] = _queue(document.data).values["defaults"]
            return defaults
    return None


def _without_image(queue_name: str) -> InputError:
    return InputError(
        "the job names no image: its queue does" if queue_name else "the job names no image",
        path="spec.image",
        hint=f"give the object of the queue {queue_name} as well; with -q {queue_name}, "
        f"`{names.CLI} run` takes the job as it is"
        if queue_name
        else "add the image",
    )


def job(manifest: Mapping[str, Any]) -> Conversion:
    """A TorchrunJob as values of the torchrun chart.

    Args:
        manifest: the object.

    Raises:
        InputError: it is none.
    """
    return _done(*_job(manifest))


def _job(manifest: Mapping[str, Any]) -> tuple[Fields, str]:
    """A job taken apart, and the queue that it names."""
    _check(manifest, JOB_KINDS)
    fields = Dialects(manifest, {"workload": "torchrun"})
    _about(fields)
    _labels(fields, ())
    queue = _queue_of_job(fields)
    _size(fields)
    _image(fields, ("spec", "image"), ("image",))
    _resources(fields, ("spec", "resources"), ())
    _distributed(fields, is_queue=False)
    fields.carry(("spec", "workingDir"), ("workingDir",))
    _command(fields)
    _reliability(fields)
    _env(fields, ("spec", "env"), ("env",))
    _volumes(fields)
    _workspace(fields)
    fields.carry(("spec", "suspend"), ("runPolicy", "suspend"))
    return fields, queue


def queue(manifest: Mapping[str, Any]) -> Conversion:
    """A TorchrunQueue as values of charts/queue.

    Args:
        manifest: the object.

    Raises:
        InputError: it is none.
    """
    return _done(_queue(manifest), "")


def _queue(manifest: Mapping[str, Any]) -> Fields:
    """A queue taken apart."""
    _check(manifest, QUEUE_KINDS)
    fields = Dialects(manifest)
    fields.put(("name",), _name(manifest), ("metadata", "name"))
    fields.put(("defaults",), {})
    _about(fields)
    for key in ("labels", "annotations"):
        _texts(fields, ("metadata", key), (key,))
    _kai(fields)
    _node(fields)
    _image(fields, ("spec", "image"), ("defaults", "image"))
    _storage(fields)
    _scheduling(fields)
    _distributed(fields, is_queue=True)
    _template(fields)
    _workspace(fields)
    account = fields.get("spec", "serviceAccountName")
    if account == "default":
        fields.say(("spec", "serviceAccountName"), Outcome.CARRIED, "every pod's, if none is named")
    else:
        fields.carry(("spec", "serviceAccountName"), ("defaults", "serviceAccount", "name"))
    fields.leave(
        ("spec", "resources"),
        "an object beside the queue: apply it as a manifest of its own, or with another release",
    )
    return fields


def _check(manifest: Mapping[str, Any], kinds: tuple[str, ...]) -> None:
    kind = manifest.get("kind")
    if not is_torchrun(manifest) or kind not in kinds:
        raise InputError(
            f"is {kind or 'an object without a kind'} of {manifest.get('apiVersion') or 'no API'}, "
            f"and not a {kinds[0]} of {GROUP}",
            path="kind",
            hint=f"give an object with apiVersion: {GROUP}/v1alpha1 and kind: {kinds[0]}",
        )
    for path in (("metadata",), ("spec",)):
        value = manifest.get(path[0])
        if not isinstance(value, dict):
            raise InputError(
                f"{kind} has no {path[0]}", path=path[0], hint="write the whole object"
            )
    if not _name(manifest):
        raise InputError(f"{kind} has no name", path="metadata.name", hint="give it a name")


def _name(manifest: Mapping[str, Any]) -> str:
    return str((manifest.get("metadata") or {}).get("name") or "")


def _done(fields: Fields, queue_name: str) -> Conversion:
    metadata = fields.get("metadata")
    return Conversion(
        kind=str(fields.get("kind")),
        name=str(metadata["name"]),
        namespace=str(metadata.get("namespace") or ""),
        values=fields.values,
        verdicts=fields.verdicts(),
        queue=queue_name,
        origins=fields.origins,
    )


def _about(fields: Fields) -> None:
    """What every object has."""
    for key in ("apiVersion", "kind"):
        fields.say((key,), Outcome.CARRIED, "which chart it is for")
    metadata = fields.get("metadata")
    for key in metadata:
        fields.change(("metadata", key), _ITS_OWN)
    fields.say(("metadata", "name"), Outcome.CARRIED, "NAME, the release")
    fields.say(("metadata", "namespace"), Outcome.CARRIED, "-n")
    fields.change(("status",), _STATUS)


def _labels(fields: Fields, prefix: FieldPath) -> None:
    for above in ("metadata", "spec"):
        for key in ("labels", "annotations"):
            for name, value in fields.mapping(above, key).items():
                path: FieldPath = (above, key, name)
                if str(name).startswith(
                    (f"{GROUP}/", f"{names.DOMAIN}/", "kubectl.kubernetes.io/")
                ):
                    fields.change(path, "a controller or kubectl writes it")
                else:
                    fields.carry(path, (*prefix, key, str(name)), k8s.as_text(value))


def _texts(fields: Fields, path: FieldPath, to: FieldPath) -> None:
    """Carry a mapping of texts, also where YAML has made a boolean or a number of one."""
    value = fields.get(*path)
    if isinstance(value, dict):
        value = {key: k8s.as_text(item) for key, item in value.items()}
    fields.carry(path, to, value)


def _queue_of_job(fields: Fields) -> str:
    name = str(fields.get("spec", "queue") or fields.get("spec", "jobQueue") or "")
    for key in ("queue", "jobQueue"):
        path: FieldPath = ("spec", key)
        if str(fields.get(*path) or name) == name:
            fields.change(path, "a queue is named on the command line", f"-q {name}")
        else:
            fields.leave(path, overruled(("spec", "queue"), ("queue",)))
    fields.say(
        ("spec", "jobName"), Outcome.CHANGED, "NAME, the release", "a run is named by its release"
    )
    fields.change(("spec", "jobID"), "a run is named by its release, and has no other number")
    return name


def _size(fields: Fields) -> None:
    fields.carry(("spec", "numGPUs"), ("gpus",))
    for key in ("workers", "numNodes"):  # the controller read the latter
        if fields.number("spec", key) == 0:
            raise InputError(
                f"it has no pods: {key} is 0",
                path=f"spec.{key}",
                hint="write how many pods it is to have",
            )
        fields.carry(("spec", key), ("nodes",))
    fields.carry(("spec", "minNodes"), ("torchrun", "elastic", "minNodes"))
    fields.carry(("spec", "maxNodes"), ("torchrun", "elastic", "maxNodes"))


def _command(fields: Fields) -> None:
    script = fields.get("spec", "script")
    if isinstance(script, str) and "\n" not in script:
        why = "a script is a file here: python runs it"
        fields.carry(("spec", "script"), ("command",), ["python", script], why)
    elif isinstance(script, str) and fields.get("spec", "command"):
        fields.leave(("spec", "script"), overruled(("spec", "command"), ("command",)))
    elif isinstance(script, str):
        fields.carry(("spec", "script"), ("script",))
    _setup(fields)
    _shell(fields, ("spec", "command"))
    args = fields.get("spec", "args")
    if isinstance(args, str):
        fields.carry(("spec", "args"), ("args",), _arguments(args), "a list of words")
    elif isinstance(args, list):
        fields.carry(("spec", "args"), ("args",), k8s.texts(args))


def _arguments(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        raise InputError(
            f"{text!r} has a quote that is not closed, so that nobody knows its words",
            path="spec.args",
            hint=f"close the quote, or write a list: args: {json.dumps(text.split())}",
        ) from None


def _setup(fields: Fields) -> None:
    """Carry what ran in bash before torchrun, chained to it by &&, as the chart's sh reads it."""
    path: FieldPath = ("spec", "setupCommand")
    command = fields.get(*path)
    if not isinstance(command, str):
        fields.carry(path, ("setup",))
        return
    text = preparation.going_on(command, is_chained=True)
    posix = preparation.lines_for_shells(text)
    if posix is None and preparation.lasts(command):
        fields.leave(path, "bash alone reads it, and what it exports would not reach the program")
        return
    text = f"#!/bin/bash\n{text}" if posix is None else posix
    why = "" if text == command else "the chart's shell reads it as bash did"
    fields.carry(path, ("setup",), text, why)


def _shell(fields: Fields, path: FieldPath) -> None:
    command = fields.get(*path)
    if not isinstance(command, list | str) or not command:
        fields.leave(path, "it is no command")
        return
    words = ["bash", "-c", command] if isinstance(command, str) else k8s.texts(command)
    variables = {
        k8s.text(entry, "name"): k8s.as_text(entry.get("value"))
        for _, entry in fields.items("spec", "env")
        if "valueFrom" not in entry
    }
    program = commands.read(words, (), variables)
    if program.runner is commands.Runner.TORCHRUN:
        _torchrun(fields, path, program, variables)
    elif isinstance(command, list):
        fields.carry(path, ("command",), words)
    elif _SHELL & set(command) or not _words(command):
        why = "it has shell in it, which each process runs for itself"
        fields.carry(path, ("command",), words, why)
    else:
        fields.carry(path, ("command",), _words(command))
    if program.is_nested:
        fields.note(
            "the command starts a launcher of its own, and each process runs it, as before: set "
            "procsPerNode to 1 where that launcher starts the processes of a pod"
        )


def _torchrun(
    fields: Fields, path: FieldPath, program: commands.Program, variables: Mapping[str, str]
) -> None:
    """Take a torchrun of the command's own off: the controller's, and the chart's, is one as well.

    Args:
        fields: the job, with its size.
        path: the command.
        program: what it runs.
        variables: those whose text is known.
    """
    fields.carry(path, ("command",), list(program.command), "; ".join(program.changes))
    if program.setup:
        before = Fields(fields.values).text("setup")
        fields.put(("setup",), f"{before}\n{program.setup}" if before else program.setup)
    if program.working_dir:
        fields.put(("workingDir",), program.working_dir, path)
    for key, value in program.values.items():
        fields.put(("torchrun", key), value, path)
    nodes = k8s.count(fields.values.get("nodes")) or 1
    job_program.check_nodes(fields, path[:-1], program.options, variables, (nodes, "1"))
    option = program.options.get("nproc-per-node", "")
    processes = references.number(option, variables)
    gpus = fields.values.get("gpusPerNode") or k8s.count(fields.values.get("gpus")) // nodes
    if processes and processes != gpus:
        fields.put(("procsPerNode",), processes, path)
    elif processes is None and option not in ("", "auto", "gpu"):
        fields.note(
            f"how many --nproc-per-node {option} is, is not known here: each pod has one process "
            "for each of its GPUs; set procsPerNode for another number"
        )
    if program.lost:
        fields.leave(path, "; ".join(program.lost))
    for note in program.notes:
        fields.note(note)


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return []


def _image(fields: Fields, path: FieldPath, to: FieldPath) -> None:
    image = fields.get(*path)
    if not isinstance(image, str):
        return
    rest, _, digest = image.partition("@")
    head, slash, last = rest.rpartition("/")
    name, _, tag = last.partition(":")
    parts = {"repository": f"{head}{slash}{name}", "tag": tag, "digest": digest}
    fields.carry(path, to, {key: value for key, value in parts.items() if value})
    own = Fields(fields.values).mapping(*to)
    for key in [key for key in own if not parts.get(key, key)]:
        del own[key]  # of another field's image


def _resources(fields: Fields, path: FieldPath, prefix: FieldPath) -> None:
    """A container's requests and limits; its GPUs are the size of a node."""
    resources = fields.get(*path)
    if not isinstance(resources, dict):
        return
    kinds = ("requests", "limits") if {"requests", "limits"} & set(resources) else ("",)
    places: list[FieldPath] = [(*path, kind) if kind else path for kind in kinds]
    amounts = [(*place, name) for place in places for name in fields.mapping(*place)]
    # The device that Kubernetes has counts more than a short name of it: the last one is put.
    for here in sorted(amounts, key=lambda here: here[-1] == _GPU):
        name, amount = here[-1], fields.get(*here)
        if name in (_GPU, "gpu", "gpus"):
            # A container without any was torchrun with no processes.
            number = int(amount) if str(amount).isdigit() else 0
            if number:
                fields.carry(here, (*prefix, "gpusPerNode"), number)
            else:
                fields.leave(here, "a node without GPUs trains on CPUs, with a process")
        else:
            kind = "limits" if len(kinds) == 1 else str(here[-2])
            fields.carry(here, (*prefix, "resources", "perPod", kind, str(name)), str(amount))


def _distributed(fields: Fields, *, is_queue: bool) -> None:
    above: FieldPath = ("spec", "distributed")
    fields.change((*above, "backend"), _ANY_BACKEND)
    backend = fields.get(*above, "rdzvBackend") or "c10d"
    to: FieldPath = ("torchrun",)
    if is_queue:
        why = (
            "a queue has settings that all workloads share: the job's own file says "
            "torchrun.{}, where it is not the default"
        )
        for key, default, own in (
            ("rdzvBackend", "c10d", "rdzvBackend"),
            ("port", _DEFAULT_PORT, "port"),
        ):
            if fields.get(*above, key) == default:
                fields.say((*above, key), Outcome.CARRIED, f"the default of torchrun.{own}")
            else:
                fields.leave((*above, key), why.format(own))
        if backend == "c10d":
            fields.leave(
                (*above, "rdzvEndpoint"), "a c10d rendezvous is at rank 0, and has its name"
            )
        else:
            fields.leave((*above, "rdzvEndpoint"), why.format("rdzvEndpoint"))
        return
    is_etcd = str(backend).startswith("etcd")
    if is_etcd and not fields.has(*above, "rdzvEndpoint"):
        why = f"{backend} without an address was c10d to its controller, too"
        fields.carry((*above, "rdzvBackend"), (*to, "rdzvBackend"), "c10d", why)
    else:
        fields.carry((*above, "rdzvBackend"), (*to, "rdzvBackend"))
    fields.carry((*above, "port"), (*to, "port"))
    if is_etcd:
        fields.carry((*above, "rdzvEndpoint"), (*to, "rdzvEndpoint"))
    else:
        fields.leave(
            (*above, "rdzvEndpoint"),
            f"a rendezvous of {backend} is at rank 0, whose name the chart makes",
        )


def _reliability(fields: Fields) -> None:
    above: FieldPath = ("spec", "reliability")
    fields.carry(
        (*above, "maxRestarts"),
        ("runPolicy", "backoffLimit"),
        why="each pod may fail so often, and not all of them together",
    )
    policy = fields.get(*above, "restartPolicy")
    fields.say(
        (*above, "restartPolicy"),
        Outcome.CARRIED if policy == "Never" else Outcome.CHANGED,
        "runPolicy.backoffLimit",
        "" if policy == "Never" else "a pod that fails is replaced, and no container is restarted",
    )
    seconds = fields.get(*above, "ttlSecondsAfterFinished")
    fields.carry(
        (*above, "ttlSecondsAfterFinished"),
        ("runPolicy", "ttlSecondsAfterFinished"),
        1 if seconds == 0 else None,
        "0 keeps a job here; after one second is the least" if seconds == 0 else "",
    )
    fields.carry((*above, "activeDeadlineSeconds"), ("runPolicy", "activeDeadlineSeconds"))


def _env(fields: Fields, path: FieldPath, to: FieldPath) -> None:
    entries = fields.get(*path)
    if not isinstance(entries, list):
        return
    last = {
        str(entry.get("name")): at for at, entry in enumerate(entries) if isinstance(entry, dict)
    }
    for index, entry in enumerate(entries):
        if not isinstance(entry, dict) or not entry.get("name"):
            continue
        name, here = str(entry["name"]), (*path, index)
        if last[name] != index:
            fields.change(here, f"a later entry sets {name} again")
        elif name in names.RESERVED_ENV or name.startswith(names.RESERVED_ENV_PREFIXES):
            fields.change(here, f"torchrun sets {name} itself")
        else:
            value: Any = k8s.as_text(entry.get("value"))
            is_twofold = bool(value) and isinstance(entry.get("valueFrom"), dict)
            if isinstance(entry.get("valueFrom"), dict):
                value = {"valueFrom": entry["valueFrom"]}
            is_reference = isinstance(value, str) and "$(" in value
            why = "$(VAR) arrives as it is typed: the chart expands none" if is_reference else ""
            fields.put((*to, name), value)
            outcome = Outcome.CHANGED if why else Outcome.CARRIED
            fields.say(here, outcome, ".".join(map(str, (*to, name))), why)
            if is_twofold:
                fields.leave((*here, "value"), overruled((*here, "valueFrom"), (*to, name)))


def _volumes(fields: Fields) -> None:
    why = "where its queue has a podTemplate with such a list, this one takes its place"
    volumes = fields.get("spec", "volumes", "additionalVolumes")
    if isinstance(volumes, list):
        to: FieldPath = ("podTemplate", "spec", "volumes")
        fields.carry(("spec", "volumes", "additionalVolumes"), to, volumes, why)
    mounts = fields.get("spec", "volumes", "additionalMounts")
    if isinstance(mounts, list):
        fields.carry(
            ("spec", "volumes", "additionalMounts"),
            ("podTemplate", "spec", "containers"),
            [{"name": TRAINER, "volumeMounts": mounts}],
            why,
        )


def _workspace(fields: Fields) -> None:
    fields.leave(("spec", "workspaceStorage"), _CODE)
    fields.leave(("spec", "workspace"), _CODE)


def _kai(fields: Fields) -> None:
    places: tuple[FieldPath, ...] = (("spec", "kaiQueue"), ("spec", "queue", "name"))
    names_of_queue = [str(fields.get(*path)) for path in places if fields.get(*path)]
    if not names_of_queue:
        return
    fields.put(("kai",), {"enabled": True})
    queue_name = names_of_queue[-1]
    fields.put(("defaults",), {"queue": queue_name, "scheduling": {"dialect": _KAI}})
    for path in places:
        fields.carry(path, ("kai", "queue"), str(fields.get(*path) or queue_name))
    for path in (("spec", "parentKaiQueue"), ("spec", "queue", "parentQueue")):
        fields.carry(path, ("kai", "parentQueue"))
    for resource in ("gpu", "cpu", "memory"):
        for key in ("quota", "limit", "overQuotaWeight"):
            amount: FieldPath = ("spec", "queue", "resources", resource, key)
            fields.carry(amount, ("kai", "resources", resource, key))


def _node(fields: Fields) -> None:
    above: FieldPath = ("spec", "nodeResources")
    shape: FieldPath = ("defaults", "nodeShape")
    why = "says what a node has; a job that needs less asks for less"
    fields.carry((*above, "gpus"), (*shape, "gpus"), why="GPUs are split evenly over the nodes")
    for key, to in (("cpus", "cpu"), ("memory", "memory")):
        amount = fields.get(*above, key)
        fields.carry((*above, key), (*shape, to), None if amount is None else str(amount), why)
    fields.carry((*above, "gpuType"), ("defaults", "gpuType", "value"))


def _storage(fields: Fields) -> None:
    above: FieldPath = ("spec", "storage")
    to: FieldPath = ("defaults", "storage")
    fields.carry((*above, "shmSizePerGPU"), ("defaults", "shm", "sizePerGpu"))
    for name in ("workspace", "checkpoints", "datasets"):
        own = fields.get(*above, name)
        if isinstance(own, str):
            fields.carry((*above, name), (*to, name, "existingClaim"))
        elif isinstance(own, dict):
            is_off = own.get("enabled") is False
            for key, path in (
                ("sizePerGPU", "sizePerGpu"),
                ("size", "size"),
                ("storageClass", "storageClassName"),
                ("existingClaim", "existingClaim"),
                ("claimName", "existingClaim"),
                ("mountPath", "mountPath"),
            ):
                if is_off:
                    fields.leave((*above, name, key), f"{name} is not enabled")
                else:
                    fields.carry((*above, name, key), (*to, name, path))
            off = "a volume is off until it has a size" if is_off else ""
            fields.say(
                (*above, name, "enabled"),
                Outcome.CARRIED,
                off or f"{'.'.join(map(str, to))}.{name}",
            )


def _scheduling(fields: Fields) -> None:
    above: FieldPath = ("spec", "scheduling")
    to: FieldPath = ("defaults", "scheduling")
    for key in ("priorityClassName", "affinity", "tolerations"):
        fields.carry((*above, key), (*to, key))
    _texts(fields, (*above, "nodeSelector"), (*to, "nodeSelector"))
    _scheduler(fields)


def _scheduler(fields: Fields) -> None:
    """Carry who places the pods: KAI, where the queue is one of KAI's, else what a pod said."""
    to: FieldPath = ("defaults", "scheduling")
    places: list[FieldPath] = [path for path in _SCHEDULERS if fields.has(*path)]
    dialects = {path: _DIALECTS.get(str(fields.get(*path))) for path in places}
    queue_name = Fields(fields.values).text("kai", "queue")
    for path in places if queue_name else ():
        if dialects[path] not in (None, _KAI):
            why = f"the queue {queue_name} is KAI's, and KAI places the pods of its jobs"
            fields.leave(path, why)
            del dialects[path]
    for path, dialect in dialects.items():
        last = list(dialects)[-1]
        if dialect != dialects[last]:
            fields.leave(path, overruled(last, to))
        elif dialect is None:
            fields.carry(path, (*to, "schedulerName"))
        else:
            fields.carry(path, (*to, "dialect"), dialect)


# Who places the pods; the last one counts.
_SCHEDULERS: tuple[FieldPath, ...] = (
    ("spec", "scheduling", "scheduler"),
    ("spec", "podTemplate", "spec", "schedulerName"),
)
# What a PodSpec says and our values say elsewhere.
_OF_SPEC: dict[str, FieldPath] = {
    "nodeSelector": ("scheduling", "nodeSelector"),
    "affinity": ("scheduling", "affinity"),
    "tolerations": ("scheduling", "tolerations"),
    "topologySpreadConstraints": ("scheduling", "topologySpreadConstraints"),
    "priorityClassName": ("scheduling", "priorityClassName"),
    "runtimeClassName": ("scheduling", "runtimeClassName"),
    "hostNetwork": ("network", "hostNetwork"),
    "dnsPolicy": ("network", "dnsPolicy"),
    "terminationGracePeriodSeconds": ("runPolicy", "terminationGracePeriodSeconds"),
    "serviceAccountName": ("serviceAccount", "name"),
    "securityContext": ("security", "podSecurityContext"),
    "imagePullSecrets": ("imagePullSecrets",),
}
# What a container says and our values say elsewhere, and what the chart writes itself.
_OF_TRAINER = ("name", "image", "imagePullPolicy", "command", "args", "env", "envFrom")
_OF_TRAINER_TOO = ("resources", "workingDir", "securityContext")
_FIXED = ("restartPolicy", "hostname", "subdomain")


def _template(fields: Fields) -> None:
    above: FieldPath = ("spec", "podTemplate")
    for key in ("labels", "annotations"):
        _texts(fields, (*above, "metadata", key), ("defaults", "podTemplate", "metadata", key))
    spec = fields.get(*above, "spec")
    if not isinstance(spec, dict):
        return
    for key in spec:
        here: FieldPath = (*above, "spec", key)
        if key == "nodeSelector":
            _texts(fields, here, ("defaults", *_OF_SPEC[key]))
        elif key in _OF_SPEC:
            fields.carry(here, ("defaults", *_OF_SPEC[key]))
        elif key in _FIXED:
            fields.leave(here, "the chart decides it: runPolicy says what becomes of a failed pod")
        elif key not in ("containers", "schedulerName"):
            fields.carry(here, ("defaults", "podTemplate", "spec", str(key)))
    _containers(fields, (*above, "spec", "containers"))
    _allow(fields, (*above, "spec"))


def _allow(fields: Fields, spec: FieldPath) -> None:
    """Allow by a rule what the queue's own pods have: every job would be refused else."""
    why = "rules.{} is true, as no job could run else"
    fields.carry(
        (*spec, "hostNetwork"),
        ("defaults", "network", "hostNetwork"),
        why=why.format("allowHostNetwork") if fields.get(*spec, "hostNetwork") is True else "",
    )
    if fields.get(*spec, "hostNetwork") is True:
        fields.put(("rules", "allowHostNetwork"), True)
    for index, _ in fields.items(*spec, "containers"):
        own: FieldPath = (*spec, "containers", index, "securityContext", "privileged")
        if fields.get(*own) is True:
            fields.put(("rules", "allowPrivileged"), True)
            rule = "rules.allowPrivileged"
            fields.say(own, Outcome.CHANGED, rule, why.format("allowPrivileged"))
    for index, volume in fields.items(*spec, "volumes"):
        if volume.get("hostPath"):
            fields.put(("rules", "allowHostPath"), True)
            path: FieldPath = (*spec, "volumes", index, "hostPath")
            fields.say(path, Outcome.CHANGED, "rules.allowHostPath", why.format("allowHostPath"))


def _containers(fields: Fields, path: FieldPath) -> None:
    containers = fields.get(*path)
    if not isinstance(containers, list):
        return
    remaining: list[dict[str, Any]] = []
    to = "defaults.podTemplate.spec.containers"
    main = _main_container(fields.mapping(*path[:-2]))
    for index, container in enumerate(containers):
        if not isinstance(container, dict):
            continue
        here: FieldPath = (*path, index)
        if index != main:
            remaining.append(container)
            fields.say(here, Outcome.CARRIED, to)
            continue
        _trainer(fields, here)
        rest = {
            key: value
            for key, value in container.items()
            if key not in (*_OF_TRAINER, *_OF_TRAINER_TOO)
        }
        if rest:
            remaining.append({"name": TRAINER, **rest})
            for key in rest:
                fields.say((*here, key), Outcome.CARRIED, to)
    if remaining:
        fields.put(("defaults", "podTemplate", "spec"), {"containers": remaining})


def _main_container(template: Mapping[str, Any]) -> int:
    """The place of the container that trains: the one called so, else the likeliest."""
    containers = enumerate(template["spec"]["containers"])
    named = (index for index, item in containers if k8s.text(item, "name") == TRAINER)
    return next(named, podsets.main_container(template))


def _trainer(fields: Fields, here: FieldPath) -> None:
    to: FieldPath = ("defaults",)
    fields.say((*here, "name"), Outcome.CARRIED, f"the container {TRAINER}")
    _image(fields, (*here, "image"), (*to, "image"))
    fields.carry((*here, "imagePullPolicy"), (*to, "image", "pullPolicy"))
    fields.carry((*here, "workingDir"), (*to, "workingDir"))
    fields.carry((*here, "securityContext"), (*to, "security", "containerSecurityContext"))
    fields.carry((*here, "envFrom"), (*to, "envFrom"))
    for key in ("command", "args"):
        fields.leave((*here, key), "what runs is the job's own; the controller replaced it as well")
    _env(fields, (*here, "env"), (*to, "env"))
    _resources(fields, (*here, "resources"), to)
