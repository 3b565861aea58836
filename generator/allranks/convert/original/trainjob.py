"""The pods of Kubeflow Trainer for a TrainJob: its runtime's, with what the job lays over them.

What is relied on, read in kubeflow/trainer on GitHub: pkg/runtime/framework/plugins/torch/torch.go,
for the number of nodes, the container that is changed and the variables. How patches are laid over
templates, and that an MPI launcher may be a node, is as the TrainJob's own schema describes it.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Any

from allranks.convert.kinds import runtimes
from allranks.convert.original import OriginalPod
from allranks.convert.original.templates import check_count, name_of, pod_template
from allranks.k8s import quantity
from allranks.k8s.fields import items, mapping, number, text
from allranks.values.merge import copy

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from allranks.convert.documents.document import Manifest

_PORT = "29500"
_BY_NAME = ("volumes", "initContainers", "containers", "env", "volumeMounts", "imagePullSecrets")


def pods(manifest: Manifest, others: Iterable[Manifest] = ()) -> list[OriginalPod] | None:
    """The pods of a TrainJob.

    Args:
        manifest: the object.
        others: objects beside it, among which its runtime may be.

    Returns:
        None where its runtime is not known.
    """
    others = list(others)
    runtime = _runtime(manifest, others)
    if runtime is None:
        return None
    name, trainer = name_of(manifest), mapping(manifest, "spec", "trainer")
    policy = mapping(runtime, "mlPolicy")
    jobs = items(runtime, "template", "spec", "replicatedJobs")
    nodes = number(trainer, "numNodes") or number(policy, "numNodes") or 1
    if runtime.get("mlPolicy") is None:  # then the pods are those that the runtime counts
        labelled = runtimes.labelled(jobs) or {}
        nodes = number(labelled, "template", "spec", "parallelism") or 1
    check_count(nodes)
    option = mapping(policy, "torch").get("numProcPerNode") or "auto"
    processes = str(trainer.get("numProcPerNode") or option)
    is_mpi = "mpi" in policy
    as_node = mapping(policy, "mpi").get("runLauncherAsNode") is True
    # In Trainer's own runtimes of MPI, it is the launcher that is labelled.
    trains = text(runtimes.labelled(jobs) or {}, "name") or (
        runtimes.LAUNCHER if is_mpi and _is_built_in(manifest, others) else ""
    )
    laid = {
        runtimes.NODE: not is_mpi or trains == runtimes.NODE,
        runtimes.LAUNCHER: trains == runtimes.LAUNCHER,
    }
    node = runtimes.NODE if is_mpi else trains or runtimes.NODE
    worker = _template(manifest, runtime, node, whole=laid[runtimes.NODE], rest=as_node)
    env = {}
    knows_others = runtimes.knows_others(manifest, _main_container(worker["spec"]))
    if "torch" in policy and not knows_others:
        processes = "1"  # torchrun's own; nothing tells it of the other pods
    elif "torch" in policy:
        processes = _processes(processes, worker["spec"])
        first = f"{name}-{node}-0-0.{name}"
        env = {"PET_NNODES": str(nodes), "PET_NPROC_PER_NODE": processes}
        env |= {"PET_MASTER_ADDR": first, "PET_MASTER_PORT": _PORT}
    ranks = int(processes) if processes.isdigit() else 0
    own_main = _main(worker["spec"])
    result = [
        OriginalPod(
            f"{name}-{node}-0-{index}",
            "worker",
            index,
            worker,
            own_main,
            env={**env, "PET_NODE_RANK": str(index)} if env else {},
            world=(nodes if knows_others else 1) * (ranks or 1),
            ranks=ranks,
        )
        for index in range(max(nodes - 1, 1) if as_node else nodes)
    ]
    if is_mpi:
        launcher = _template(manifest, runtime, runtimes.LAUNCHER, whole=laid[runtimes.LAUNCHER])
        main = _main(launcher["spec"])
        result.append(OriginalPod(f"{name}-launcher-0-0", "launcher", 0, launcher, main))
    return result


def _processes(option: str, spec: Mapping[str, Any]) -> str:
    """What torchrun is told: for "auto" without GPUs, a process for each CPU that is asked for."""
    container = _main_container(spec)
    requests, limits = (mapping(container, "resources", key) for key in ("requests", "limits"))
    has_gpus = any("gpu" in str(name).lower() for name in (*requests, *limits))
    if has_gpus or option not in ("auto", "cpu"):
        return option
    cpus = quantity.parse(str(requests.get("cpu") or limits.get("cpu") or 1))
    return str(max(1, ceil(cpus)))


def _main(spec: Mapping[str, Any]) -> str:
    """The name of the container that trains."""
    return runtimes.main_container([text(own, "name") for own in items(spec, "containers")])


def _main_container(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """The container that trains."""
    main = _main(spec)
    return next((own for own in items(spec, "containers") if own.get("name") == main), {})


def _is_built_in(manifest: Manifest, others: Iterable[Manifest]) -> bool:
    """Whether its runtime is one of Trainer's own that no object beside it is."""
    reference = mapping(manifest, "spec", "runtimeRef")
    return text(reference, "name") not in {name_of(other) for other in others}


def _runtime(manifest: Manifest, others: Iterable[Manifest]) -> Mapping[str, Any] | None:
    reference = mapping(manifest, "spec", "runtimeRef")
    name, kind = text(reference, "name"), text(reference, "kind") or runtimes.CLUSTER
    for other in others:
        if (other.get("kind"), name_of(other)) == (kind, name):
            return mapping(other, "spec")
    built_in = runtimes.BUILT_IN.get(name)
    return None if built_in is None else mapping(built_in, "spec")


def _template(
    manifest: Manifest,
    runtime: Mapping[str, Any],
    name: str,
    *,
    whole: bool,
    rest: bool = False,
) -> dict[str, Any]:
    """The template of a replicated job, with the trainer and the patches laid over it."""
    jobs = items(runtime, "template", "spec", "replicatedJobs")
    job = next((job for job in jobs if job.get("name") == name), {})
    template = pod_template(mapping(job, "template", "spec"))
    trainer = mapping(manifest, "spec", "trainer")
    own = {key: trainer[key] for key in ("image", "command", "args") if whole and key in trainer}
    has_rest = whole or rest
    own |= {key: trainer[key] for key in ("env",) if has_rest and key in trainer}
    if has_rest and "resourcesPerNode" in trainer:
        own["resources"] = trainer["resourcesPerNode"]
    laid: dict[str, Any] = _over(
        template, {"spec": {"containers": [{"name": _main(template["spec"]), **own}]}}
    )
    for item in items(manifest, "spec", "podTemplateOverrides"):
        if name in [entry.get("name") for entry in items(item, "targetJobs")]:
            laid = _over(laid, {key: item[key] for key in ("metadata", "spec") if key in item})
    for item in items(manifest, "spec", "podSpecOverrides"):
        if name in [entry.get("name") for entry in items(item, "targetJobs")]:
            own = {key: item[key] for key in item if key != "targetJobs"}
            laid = _over(laid, {"spec": own})
    for item in items(manifest, "spec", "runtimePatches"):
        jobs = items(item, "trainingRuntimeSpec", "template", "spec", "replicatedJobs")
        for job in jobs:
            if job.get("name") == name:
                laid = _over(laid, pod_template(mapping(job, "template", "spec")))
    return laid


def _over(base: Any, patch: Any, key: str = "") -> Any:
    """A strategic merge: mappings and lists of named things by their names, all else replaced."""
    if isinstance(base, dict) and isinstance(patch, dict):
        result = dict(base)
        for step, value in patch.items():
            result[step] = _over(base[step], value, step) if step in base else copy(value)
        return result
    if key in _BY_NAME and isinstance(base, list) and isinstance(patch, list):
        patch_by_name = {item["name"]: item for item in patch}
        own = [item["name"] for item in base]
        return [
            *(_over(item, patch_by_name.get(item["name"], {})) for item in base),
            *(item for item in patch if item["name"] not in own),
        ]
    return copy(patch)
