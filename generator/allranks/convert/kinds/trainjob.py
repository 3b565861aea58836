"""Kubeflow Trainer's TrainJobs as values.

A TrainJob is a runtime with some fields laid over it. The runtime is an object of its own: one of
the input, one of ``--runtime``, or one of those that Trainer brings along. Laid together the two
are a PyTorchJob, or with the policy ``mpi`` an MPIJob.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from typing import TYPE_CHECKING, Any

from allranks.convert import near_words
from allranks.convert.chart_values import finish
from allranks.convert.inputs import api_server
from allranks.convert.jobs import job_program, roles
from allranks.convert.jobs.rewrite import Rewrite
from allranks.convert.kinds import (
    ranked,
    runtime_fields,
    runtimes,
    trainjob_names,
    trainjob_patches,
)
from allranks.convert.pods import pod_values, podsets
from allranks.convert.programs import commands
from allranks.convert.verdicts import (
    MANAGED_BY,
    METADATA,
    Beside,
    Fields,
    Outcome,
    Rule,
    Rules,
    carried,
    changed,
    dotted,
    lost,
)
from allranks.errors import InputError, InvalidValues, Problem
from allranks.humanize import list_some, plural
from allranks.k8s import fields as k8s
from allranks.k8s import quantity
from allranks.values.merge import copy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allranks.convert.documents.context import Context
    from allranks.convert.documents.document import Document, Manifest
    from allranks.convert.verdicts import Conversion, FieldPath

KIND = "TrainJob"
_TRAINER: FieldPath = ("spec", "trainer")
_FIRST = "a run begins with its training: fetch it in setup, or with a Job of its own before"
# Of a runtime.
_POLICY, _JOBS = runtime_fields.POLICY, runtime_fields.JOBS
_P = "spec.runtimePatches[].trainingRuntimeSpec.template"
_POD = f"{_P}.spec.replicatedJobs[].template.spec.template"
_O = "spec.podTemplateOverrides[]"
# As Trainer 2.0 had it: the fields of a PodSpec beside its target jobs.
_OLD_OVERRIDES: FieldPath = ("spec", "podSpecOverrides")
_OLD = "spec.podSpecOverrides[]"

FIELDS: tuple[Rule, ...] = (
    *METADATA,
    changed("spec.runtimeRef.**", "", "the runtime is part of the values"),
    lost("spec.initializer.**", _FIRST),
    carried("spec.trainer.image", "image"),
    changed("spec.trainer.command.**", "command", "what starts the ranks is the chart's"),
    changed("spec.trainer.args.**", "command", "what starts the ranks is the chart's"),
    carried("spec.trainer.env.**", "env"),
    carried("spec.trainer.numNodes", "nodes"),
    carried("spec.trainer.resourcesPerNode.**", "gpusPerNode, gpuResource, resources.perPod"),
    carried("spec.trainer.numProcPerNode", "procsPerNode, or mpi.slotsPerWorker"),
    changed("spec.runtimePatches[].manager", "", "whoever wrote it, the value is the same"),
    changed("spec.runtimePatches[].time", "", "the cluster writes it itself"),
    carried(f"{_P}.metadata.labels.*", "labels"),
    carried(f"{_P}.metadata.annotations.*", "annotations"),
    changed(f"{_P}.spec.replicatedJobs[].name", "", "the pods that train are all of them"),
    carried(f"{_P}.spec.replicatedJobs[].template.metadata.labels.*", "labels"),
    carried(f"{_P}.spec.replicatedJobs[].template.metadata.annotations.*", "annotations"),
    changed(f"{_P}.metadata.**", "", "the release names its objects itself"),
    changed(
        f"{_P}.spec.replicatedJobs[].template.metadata.**", "", "the release names its objects"
    ),
    *pod_values.fields_at(_POD),
    changed(f"{_O}.targetJobs[].**", "", "the pods that train are all of them"),
    *pod_values.fields_at(_O),
    changed(f"{_OLD}.targetJobs[].**", "", "the pods that train are all of them"),
    *(
        replace(rule, path=f"{_OLD}.{rule.path.removeprefix('spec.')}")
        for rule in pod_values.FIELDS
        if rule.path.startswith("spec.")
    ),
    carried("spec.labels.*", "labels"),
    carried("spec.annotations.*", "annotations"),
    carried("spec.suspend", "runPolicy.suspend"),
    carried("spec.activeDeadlineSeconds", "runPolicy.activeDeadlineSeconds"),
    MANAGED_BY.below("spec"),
)
_RULES = Rules(FIELDS)
_REFUSED = {
    "flux": (
        "its runtime is Flux, which allranks does not start",
        "keep Trainer for it, or run it with mpirun",
    ),
}
# Of the policies of other frameworks, what their job is written as, and the variables of Trainer's.
_FRAMEWORKS = {
    "jax": (
        "JAXJob",
        "jaxReplicaSpecs",
        (
            'JAX_COORDINATOR_ADDRESS="$MASTER_ADDR:$MASTER_PORT" JAX_NUM_PROCESSES="$WORLD_SIZE" '
            'JAX_PROCESS_ID="$RANK"'
        ),
    ),
    "xgboost": (
        "XGBoostJob",
        "xgbReplicaSpecs",
        (
            'DMLC_TRACKER_URI="$MASTER_ADDR" DMLC_TRACKER_PORT="$MASTER_PORT" '
            'DMLC_TASK_ID="$RANK" DMLC_NUM_WORKER="$WORLD_SIZE"'
        ),
    ),
}


@dataclass(frozen=True, slots=True)
class _Runtime:
    """A runtime.

    Attributes:
        title: how it is called in messages.
        fields: its fields.
        document: where its file has it; None for one of Trainer's own, which no file has.
    """

    title: str
    fields: Fields
    document: Document | None

    @property
    def spec(self) -> Mapping[str, Any]:
        """Its spec."""
        return self.fields.mapping("spec")

    @property
    def policy(self) -> Mapping[str, Any]:
        """How its ranks are started."""
        return k8s.mapping(self.spec, "mlPolicy")

    @property
    def jobs(self) -> list[Manifest]:
        """Its replicated jobs."""
        return k8s.items(self.spec, "template", "spec", "replicatedJobs")

    def job(self, name: str) -> Manifest | None:
        """A replicated job."""
        return next((job for job in self.jobs if job.get("name") == name), None)

    @property
    def trainer(self) -> Manifest | None:
        """The replicated job over whose pods Trainer lays spec.trainer; None where no label says.

        Those of Trainer's own runtimes are labelled: of MPI's the launcher.
        """
        if self.document is None:
            return self.job(runtimes.LAUNCHER) or self.job(runtimes.NODE)
        return runtimes.labelled(self.jobs)

    @property
    def main(self) -> FieldPath:
        """The replicated job with which a run is done; Trainer's launcher, or what it lays over."""
        own = self.job(runtimes.LAUNCHER) or self.trainer
        return (*_JOBS, self.jobs.index(own) if own is not None else 0)


def convert(manifest: Manifest, context: Context) -> Conversion:
    """A TrainJob as values.

    Args:
        manifest: the object.
        context: what else is known; its documents and runtimes may have the runtime.

    Raises:
        InputError: its runtime is not known, or starts what has no form here.
    """
    fields = Fields(manifest, rules=_RULES, unknown=f"a {KIND} has no such field")
    runtime = _runtime(fields, context)
    for name, (why, hint) in _REFUSED.items():
        if name in runtime.policy:
            raise InputError(why, path="spec.runtimeRef.name", hint=hint)
    target = Rewrite(fields)
    target.copy(("metadata",), ("metadata",))
    runtime_fields.put_metadata(target, runtime.fields)
    for step in ("suspend", "activeDeadlineSeconds"):
        target.copy(("spec", step), ("spec", "runPolicy", step))
    exports = ""
    framework = next((name for name in _FRAMEWORKS if name in runtime.policy), "")
    if framework:
        kind, specs, exports = _FRAMEWORKS[framework]
        key = (podsets.KUBEFLOW, kind)
        _workers(target, runtime, specs)
    elif "mpi" in runtime.policy:
        key = _mpi(target, runtime)
    else:
        key = _torch(target, runtime)
    try:
        inner = target.convert_as(key, context)
    except InvalidValues as error:
        raise InvalidValues([_in_trainer(problem) for problem in error.problems]) from error
    if exports:
        roles.wrap(fields, _of_workers(fields, exports))
    if key == podsets.PYTORCH and "torch" not in runtime.policy:
        _of_plain(target, inner, runtime)
    _metadata(fields)
    own = runtime.fields
    _names(fields, runtime)
    runtime_fields.put_gang(fields, own, runtime.title)
    runtime_fields.put_job_set(fields, own, runtime.title, runtime.main)
    runtime_fields.take_over(own, target, inner)
    if runtime.document is not None:
        fields.runtime = runtimes.origins(runtime.document, target, inner.origins, own.verdicts())
    if why := runtime_fields.losses(own, runtime.title):
        fields.leave(("spec", "runtimeRef", "name"), why)
    return finish.conversion(fields, queue=inner.queue)


def _in_trainer(problem: Problem) -> Problem:
    """A problem with the path of the trainer's command, where that is what is missing."""
    is_command = not problem.path and problem.message.startswith(job_program.NO_COMMAND)
    path = f"{dotted(_TRAINER)}.command" if is_command else problem.path
    return Problem(path, problem.message, problem.hint, problem.source)


def _names(fields: Fields, runtime: _Runtime) -> None:
    """Say what the program is told of the TrainJob's pods and their Service."""
    jobs = [str(job.get("name") or "") for job in runtime.jobs]
    subdomain = k8s.text(runtime.spec, "template", "spec", "network", "subdomain")
    trainjob_names.put_right(fields, jobs, jobs[int(runtime.main[-1])] if jobs else "", subdomain)


def _of_workers(fields: Fields, exports: str) -> str:
    """The variables of a policy, where it counts a worker for each GPU of a pod.

    Source: pkg/runtime/framework/plugins/xgboost/xgboost.go of kubeflow/trainer, totalWorkers.
    """
    gpus = fields.values.get("gpusPerNode") or 1
    if "DMLC_NUM_WORKER" not in exports:
        return exports
    fields.notes[:] = [note for note in fields.notes if note != ranked.OF_LIGHTGBM]
    if gpus == 1:
        return exports
    fields.note(
        f"DMLC_NUM_WORKER counts a worker for each of the {plural(gpus, 'GPU')} of a pod, as "
        "Trainer's policy does; each pod runs the command once, with its own DMLC_TASK_ID"
    )
    return exports.replace('"$WORLD_SIZE"', f'"$((WORLD_SIZE * {gpus}))"')


def _runtime(fields: Fields, context: Context) -> _Runtime:
    """The runtime that a TrainJob names."""
    reference: FieldPath = ("spec", "runtimeRef")
    name = fields.text(*reference, "name")
    kind = fields.text(*reference, "kind") or runtimes.CLUSTER
    if not name:
        raise InputError("it names no runtime", path="spec.runtimeRef.name", hint="name one")
    document = context.find(kind, name, runtimes.GROUP)
    title = f"{kind} {name}"
    if document is not None:
        _check_runtime(document, title)
        why = "the runtime is part of the values"
        if " of context " in document.source:
            fields.note(f"its runtime is {document.source}, as it is there now")
        fields.beside.append(Beside(kind, name, False, why))
        return _Runtime(title, Fields(document.data, rules=runtime_fields.RULES), document)
    if name in runtimes.BUILT_IN:
        of_image = ", and for the tag of its image, which the values do not have"
        fields.note(
            f"{title} is taken for that of Trainer's own manifests: give the cluster's with "
            f"--runtime for more{'' if fields.has(*_TRAINER, 'image') else of_image} "
            f"(kubectl get {kind.lower()} {name} -o yaml)"
        )
        fields.change(reference, "what Trainer's own manifests have of it is part of the values")
        built_in = Fields(runtimes.BUILT_IN[name], rules=runtime_fields.RULES)
        return _Runtime(title, built_in, None)
    elsewhere = sorted(
        {
            item.namespace
            for item in context.documents
            if (item.kind, item.name, item.group) == (kind, name, runtimes.GROUP)
        }
    )
    for other in runtimes.KINDS:  # none is there of its own kind
        if context.find(other, name, runtimes.GROUP) is not None:
            raise InputError(
                f"{title} is not in the input, which has a {other} of that name",
                path="spec.runtimeRef.name",
                hint=f"write runtimeRef.kind: {other} and runtimeRef.apiGroup: {runtimes.GROUP}",
            )
    why = f"the runtime {name} is not in the input"
    if elsewhere:
        places = " or ".join(elsewhere)
        why += f" for the namespace {context.home}: a job takes none of the namespace {places}"
    elif context.runtimes:
        own = list_some([f"{item.kind} {item.name}" for item in context.runtimes])
        why += f"; --runtime has {own}"
    others = [*runtimes.BUILT_IN] if kind == runtimes.CLUSTER else []
    others += [item.name for item in context.runtimes]
    near = near_words.nearest_word(name, others)
    give = f"give it with --runtime FILE: kubectl get {kind.lower()} {name} -o yaml > FILE"
    hint = f"did you mean {near}? If not, {give}" if near else give
    raise InputError(why, path="spec.runtimeRef.name", hint=hint)


def _check_runtime(document: Document, title: str) -> None:
    """Refuse a runtime that no API server takes, at the place that names it."""
    try:
        api_server.refuse(document.data)
    except InputError as error:
        problem = error.problem
        raise InputError(
            f"of {title} {problem.path}: {problem.message}",
            path="spec.runtimeRef.name",
            hint=problem.hint,
        ) from error


def _template(target: Rewrite, runtime: _Runtime, name: str, to: FieldPath) -> None:
    """The pod template of a replicated job, with what the TrainJob lays over it."""
    fields = target.fields
    own = runtime.job(name) or runtime.trainer
    template = k8s.mapping(own, "template", "spec", "template")
    job: FieldPath = (*_JOBS, runtime.jobs.index(own) if own is not None else 0, "template")
    target.put_of_runtime(to, copy(dict(template)), (*job, "spec", "template"))
    containers = target.get((*to, "spec", "containers"))
    if isinstance(containers, list):
        main = runtimes.main_container([k8s.text(item, "name") for item in containers])
        # The first of a template's containers is the one that trains, in what this is written as.
        order = sorted(enumerate(containers), key=lambda item: k8s.text(item[1], "name") != main)
        containers[:] = [item for _, item in order]
        for place, (index, _) in enumerate(order):
            path: FieldPath = ("spec", "containers")
            target.of_runtime[*to, *path, place] = (*job, "spec", "template", *path, index)
    labels = k8s.mapping(own, "template", "metadata")
    for kind in ("labels", "annotations"):
        for key, value in k8s.mapping(labels, kind).items():
            path = ("metadata", kind, key)
            if key == runtimes.STEP:
                runtime.fields.change((*job, *path), "Trainer knows by it which pods train")
            else:
                target.put_of_runtime((*to, *path), value, (*job, *path))
    for source, names in trainjob_patches.patches(fields):
        if name in names:
            trainjob_patches.lay(target, source, to)
    for source, names in trainjob_patches.overrides(fields, _OLD_OVERRIDES):
        if name in names:
            for key in sorted(fields.mapping(*source).keys() - {"targetJobs"}):
                trainjob_patches.over(target, (*source, key), (*to, "spec", key))


def _container(target: Rewrite, to: FieldPath) -> FieldPath:
    """The container of a template that trains."""
    containers = target.get((*to, "spec", "containers"))
    names = [k8s.text(own, "name") for own in containers] if isinstance(containers, list) else []
    if not names:
        target.put((*to, "spec", "containers", 0, "name"), runtimes.NODE)
        names = [runtimes.NODE]
    return (*to, "spec", "containers", names.index(runtimes.main_container(names)))


def _trainer(target: Rewrite, runtime: _Runtime, to: FieldPath, *, is_whole: bool = True) -> None:
    """Lay a TrainJob's trainer over the container that trains.

    Args:
        target: what the TrainJob is written as.
        runtime: whose template it is.
        to: the template.
        is_whole: whether all of it is laid over, or its environment and resources alone.
    """
    fields, container = target.fields, _container(target, to)
    main = target.get((*container, "name"))
    if main != runtimes.NODE and any(fields.has(*_TRAINER, key) for key in _LAID):
        fields.note(
            f"Trainer lays spec.trainer over the container {runtimes.NODE}, and {runtime.title} "
            f"has none; here it is laid over {main}"
        )
    for key in _PROGRAM if is_whole else ():
        target.copy((*_TRAINER, key), (*container, key))
    trainjob_patches.over(target, (*_TRAINER, "resourcesPerNode"), (*container, "resources"))
    for index, item in fields.items(*_TRAINER, "env"):
        trainjob_patches.over_item(target, (*_TRAINER, "env", index), (*container, "env"), item)


_PROGRAM = ("image", "command", "args")
_LAID = (*_PROGRAM, "env", "resourcesPerNode")


def _not_laid(fields: Fields, runtime: _Runtime) -> None:
    """Say what of spec.trainer no pods of MPI have, because no label of their runtime says so."""
    is_node = k8s.mapping(runtime.policy, "mpi").get("runLauncherAsNode") is True
    keys = (*_PROGRAM, *(() if is_node else ("env", "resourcesPerNode")))
    for key in keys if runtime.trainer is None else ():
        if fields.has(*_TRAINER, key):
            fields.leave(
                (*_TRAINER, key),
                f"no replicated job of {runtime.title} has the label {runtimes.STEP}: trainer, so "
                "Trainer lays it over none",
            )


def _workers(target: Rewrite, runtime: _Runtime, specs: str) -> FieldPath:
    """Write its pods as the workers of another kind; where their template stands there."""
    if runtime.trainer is None:
        raise InputError(
            f"none of the replicated jobs of {runtime.title} is said to train, so Trainer lays "
            "nothing of spec.trainer over its pods, and tells them nothing of each other",
            path="spec.runtimeRef.name",
            hint=f"label the template of the one that does with {runtimes.STEP}: trainer",
        )
    worker: FieldPath = ("spec", specs, "Worker")
    target.put((*worker, "restartPolicy"), "OnFailure")  # how often, the runtime says
    template: FieldPath = (*worker, "template")
    name = str(runtime.trainer.get("name"))
    _template(target, runtime, name, template)
    _trainer(target, runtime, template)
    replicas: FieldPath = (*worker, "replicas")
    if runtime.spec.get("mlPolicy") is None:
        # Source: pkg/runtime/core/trainingruntime.go of kubeflow/trainer.
        path: FieldPath = (*runtime.main, "template", "spec", "parallelism")
        count = k8s.number(runtime.trainer, "template", "spec", "parallelism") or 1
        target.put_of_runtime(replicas, count, path)
        runtime.fields.say(path, Outcome.CARRIED, "nodes")
        target.fields.change((*_TRAINER, "numNodes"), _NO_POLICY)
    else:
        count = k8s.number(runtime.policy, "numNodes") or 1
        target.put_of_runtime(replicas, count, (*_POLICY, "numNodes"))
        target.copy((*_TRAINER, "numNodes"), replicas)
    _initializers(target.fields, runtime, {name})
    return template


_NO_POLICY = "Trainer reads it where its runtime has an mlPolicy alone"


def _of_plain(target: Rewrite, inner: Conversion, runtime: _Runtime) -> None:
    """Say what the pods of a runtime that tells them nothing of each other are here."""
    template: FieldPath = ("spec", "pytorchReplicaSpecs", "Worker", "template")
    container = target.get(_container(target, template))
    words = tuple(word for key in ("command", "args") for word in k8s.texts(k8s.at(container, key)))
    if commands.read(words, (), {}).runner is not commands.Runner.PLAIN:
        return
    target.fields.note(job_program.NO_TORCHRUN)
    if inner.values.get("nodes", 1) > 1:
        target.fields.note(
            f"{runtime.title} tells its pods nothing of each other; here they are the ranks of one "
            "job"
        )


def _torch(target: Rewrite, runtime: _Runtime) -> tuple[str, str]:
    """Write it as a PyTorchJob of workers alone."""
    template = _workers(target, runtime, "pytorchReplicaSpecs")
    path: FieldPath = (*_POLICY, "torch", "numProcPerNode")
    if target.copy((*_TRAINER, "numProcPerNode"), ("spec", "nprocPerNode")):
        runtime.fields.change(path, runtime_fields.REPLACED)
    else:
        option = str(k8s.mapping(runtime.policy, "torch").get("numProcPerNode") or "auto")
        count = _cpus(target.get(_container(target, template)))
        runtime.fields.change(path, "a pod's GPUs are counted here, or its CPUs", "procsPerNode")
        if option not in ("auto", "cpu"):
            target.put_of_runtime(("spec", "nprocPerNode"), option, path)
        elif "torch" in runtime.policy and count:
            target.put(("spec", "nprocPerNode"), str(count))
    if "torch" in runtime.policy:
        _say_alone(target, runtime, template)
    return podsets.PYTORCH


def _say_alone(target: Rewrite, runtime: _Runtime, template: FieldPath) -> None:
    """Say of pods that Trainer told nothing of each other that they train together here.

    Source: pkg/runtime/framework/plugins/torch/torch.go of kubeflow/trainer, EnforceMLPolicy.
    """
    fields, container = target.fields, target.get(_container(target, template))
    if runtimes.knows_others(fields.source, container):
        return
    why = (
        f"without the container {runtimes.NODE} in {runtime.title}"
        if fields.has(*_TRAINER)
        else "without spec.trainer"
    )
    fields.note(
        f"{why} Trainer sets none of its variables for torchrun, which starts one process in each "
        "pod then, and no pod trains with another; here all of them train together, with the "
        "processes that the runtime says"
    )


def _cpus(container: Any) -> int:
    """How many ranks a pod without GPUs has: one for each CPU that it asks for; 0 with GPUs.

    To Trainer each resource with ``gpu`` in its name is one. Source: pkg/runtime/runtime.go of
    kubeflow/trainer, GetNumGPUPerNode.
    """
    resources = k8s.mapping(container, "resources")
    amounts = {**k8s.mapping(resources, "limits"), **k8s.mapping(resources, "requests")}
    if any(pod_values.is_gpu(str(name)) or "gpu" in str(name).lower() for name in amounts):
        return 0
    try:
        return max(1, ceil(quantity.parse(str(amounts.get("cpu") or "1"))))
    except InputError:
        return 1


def _mpi(target: Rewrite, runtime: _Runtime) -> tuple[str, str]:
    """Write it as an MPIJob."""
    policy = k8s.mapping(runtime.policy, "mpi")
    missing_jobs = [
        name for name in (runtimes.LAUNCHER, runtimes.NODE) if runtime.job(name) is None
    ]
    if missing_jobs:
        raise InputError(
            f"{runtime.title} has no replicated job {missing_jobs[0]}, by which Trainer knows the "
            "pods of MPI",
            path="spec.runtimeRef.name",
            hint=f"call those {missing_jobs[0]} that are, or write it as an MPIJob",
        )
    specs: FieldPath = ("spec", "mpiReplicaSpecs")
    is_node = policy.get("runLauncherAsNode") is True
    for name, role in ((runtimes.LAUNCHER, "Launcher"), (runtimes.NODE, "Worker")):
        template: FieldPath = (*specs, role, "template")
        _template(target, runtime, name, template)
        is_trainer = runtime.trainer is not None and runtime.trainer.get("name") == name
        if is_trainer or (is_node and name == runtimes.NODE):
            _trainer(target, runtime, template, is_whole=is_trainer)
    _not_laid(target.fields, runtime)
    nodes = (
        target.fields.number(*_TRAINER, "numNodes") or k8s.number(runtime.policy, "numNodes") or 1
    )
    replicas: FieldPath = (*specs, "Worker", "replicas")
    target.put((*specs, "Launcher", "replicas"), 1)
    # With the launcher a node itself, Trainer never makes fewer than one other.
    nodes = max(nodes - 1, 1) if is_node else nodes
    target.put_of_runtime(replicas, nodes, (*_POLICY, "numNodes"))
    target.also((*_TRAINER, "numNodes"), replicas)
    target.put(("spec", "runLauncherAsWorker"), is_node)
    target.put(("spec", "mpiImplementation"), str(policy.get("mpiImplementation") or "OpenMPI"))
    if policy.get("sshAuthMountPath"):
        target.put(("spec", "sshAuthMountPath"), policy["sshAuthMountPath"])
    slots_path: FieldPath = (*_POLICY, "mpi", "numProcPerNode")
    worker = target.get(_container(target, (*specs, "Worker", "template")))
    slots = k8s.number(policy, "numProcPerNode") or 1
    slots = max(slots, _gpus(worker)) if slots == 1 else slots
    target.put_of_runtime(("spec", "slotsPerWorker"), slots, slots_path)
    target.copy((*_TRAINER, "numProcPerNode"), ("spec", "slotsPerWorker"))
    _initializers(target.fields, runtime, {runtimes.LAUNCHER, runtimes.NODE})
    return podsets.MPI


def _gpus(container: Any) -> int:
    resources = k8s.mapping(container, "resources")
    amounts = {**k8s.mapping(resources, "requests"), **k8s.mapping(resources, "limits")}
    counts = [str(amount) for name, amount in amounts.items() if pod_values.is_gpu(str(name))]
    return next((int(count) for count in counts if count.isdigit()), 0)


def _initializers(fields: Fields, runtime: _Runtime, names: set[str]) -> None:
    """Say of what runs before the training that it does not."""
    for index, own in enumerate(runtime.jobs):
        if str(own.get("name")) not in names:
            fields.note(
                f"{runtime.title} runs {own.get('name')} before the training, which is no part of "
                "the values: run it first, as a Job of its own, or do the same in setup"
            )
            runtime.fields.leave((*_JOBS, index), f"its {own.get('name')} is no part of the values")
    for source, targets in (
        *trainjob_patches.patches(fields),
        *trainjob_patches.overrides(fields, _OLD_OVERRIDES),
    ):
        if targets and not targets & names:
            others = " and ".join(sorted(targets))
            fields.leave(
                source, f"it is for the pods of {others} alone, which are no part of the run"
            )


def _metadata(fields: Fields) -> None:
    """Labels and annotations that the TrainJob lays over its JobSet."""
    places: list[FieldPath] = [("spec",)]
    for index, _ in fields.items(*trainjob_patches.PATCHES):
        template: FieldPath = (*trainjob_patches.PATCHES, index, "trainingRuntimeSpec", "template")
        places.append((*template, "metadata"))
        jobs: FieldPath = (*template, "spec", "replicatedJobs")
        places += [(*jobs, number, "template", "metadata") for number, _ in fields.items(*jobs)]
    for place in places:
        pod_values.labels(fields, place, ())
