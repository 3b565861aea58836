"""An MPIJob as values of the mpi chart: Kubeflow's v1 and v2beta1, and that of batch.test.bdap.com.

v1 and the last reach their workers through the Kubernetes API, v2beta1 by ssh. The launcher's
command stays as it is, because mpirun is called there as here; only an agent of its own, which has
neither the chart's port nor its key, is taken out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from allranks.convert.chart_values import finish
from allranks.convert.inputs import misspelt_keys
from allranks.convert.jobs import job_program, mpi_agents, mpi_hosts, run_policy
from allranks.convert.kinds import job, mpi_v1alpha1
from allranks.convert.pods import pod_values
from allranks.convert.programs import (
    commands,
    deepspeed_words,
    mpi_workers,
    preparation,
    shell_comments,
)
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
)
from allranks.errors import InputError
from allranks.humanize import list_some
from allranks.k8s import fields as k8s
from allranks.values.rules.mpi import LAUNCHERS

if TYPE_CHECKING:
    from allranks.convert.documents.context import Context
    from allranks.convert.documents.document import Manifest
    from allranks.convert.pods.pod_values import PodTemplate
    from allranks.convert.verdicts import FieldPath

_SPECS = "spec.mpiReplicaSpecs"
_ROLES = ("Launcher", "Worker")
_LAUNCHER: FieldPath = ("mpi", "launcher")
_WORKER: FieldPath = ("mpi", "worker")
_SSHD = "the chart starts sshd in the workers itself"
_STAYS = "the chart keeps the workers' containers itself"
_WAITS = "the launcher waits for its workers itself"
_NOT_IN_A_TEMPLATE = (
    "it stands beside spec, where Kubernetes has dropped it: it never had an effect"
)
_SHARED: tuple[Rule, ...] = (
    *METADATA,
    carried("spec.slotsPerWorker", "mpi.slotsPerWorker, or procsPerNode"),
    carried("spec.runLauncherAsWorker", "mpi.runLauncherAsWorker"),
    carried("spec.mpiImplementation", "mpi.implementation"),
    carried("spec.cleanPodPolicy", "mpi.cleanPodPolicy"),
    carried("spec.runPolicy.cleanPodPolicy", "mpi.cleanPodPolicy"),
    *run_policy.run_policy_at("spec.runPolicy"),
    carried("spec.suspend", "runPolicy.suspend"),
    changed("spec.launcherCreationPolicy", "", _WAITS),
    changed("spec.sshAuthMountPath", "", "the chart puts the key where ssh looks for it"),
    changed("spec.mainContainer", "", "the container that runs is called trainer here"),
    carried(f"{_SPECS}.*.replicas", "mpi.numWorkers"),
    changed(f"{_SPECS}.*.restartPolicy", "runPolicy.backoffLimit", "a pod that fails is replaced"),
)
FIELDS: tuple[Rule, ...] = (*_SHARED, *pod_values.fields_at(f"{_SPECS}.*.template"))
# The fields of batch.test.bdap.com.
FIELDS_OF_SEED: tuple[Rule, ...] = (
    *METADATA,
    carried("spec.numWorkers", "mpi.numWorkers"),
    *pod_values.fields_at("spec.launcherTemplate"),
    *pod_values.fields_at("spec.workerTemplate"),
    changed("spec.launcherTemplate.*.**", "", _NOT_IN_A_TEMPLATE),
    changed("spec.workerTemplate.*.**", "", _NOT_IN_A_TEMPLATE),
)
# What v1alpha2 has in its spec, and v1 has not.
_OF_V1ALPHA2 = ("backoffLimit", "activeDeadlineSeconds")
_RULES = Rules(FIELDS)
_RULES_OF_V1ALPHA2 = Rules(
    (*FIELDS, *(carried(f"spec.{key}", f"runPolicy.{key}") for key in _OF_V1ALPHA2))
)
_RULES_OF_SEED = Rules(FIELDS_OF_SEED)
_IMPLEMENTATIONS = {"openmpi": "OpenMPI", "intel": "Intel", "intelmpi": "Intel", "mpich": "MPICH"}
# Source: kubeflow/mpi-operator, pull request 379, and pkg/apis/kubeflow/v2beta1/types.go of 0.4.
_OLD_PLACE = (
    "mpi-operator up to 0.3 reads cleanPodPolicy under spec, as here; a later one reads runPolicy "
    "alone, and took no notice"
)
_CLEAN = ("None", "Running", "All")


@dataclass(frozen=True, slots=True)
class _Dialect:
    """Where an MPIJob keeps what it has.

    Attributes:
        launcher: the launcher's template.
        worker: the workers' template.
        replicas: their number.
        by_api: whether mpirun reaches the workers through the Kubernetes API.
        main: the name of the container that runs; "" for the first.
    """

    launcher: FieldPath
    worker: FieldPath
    replicas: FieldPath
    by_api: bool
    main: str = ""


def convert(manifest: Manifest, context: Context) -> Conversion:
    """An MPIJob as values.

    Args:
        manifest: the object.
        context: what else is known.

    Raises:
        InputError: it has no launcher.
    """
    if mpi_v1alpha1.is_of_it(manifest):
        return mpi_v1alpha1.convert(manifest, context)
    version = str(manifest.get("apiVersion") or "")
    is_seed = not version.startswith("kubeflow.org/")
    rules = _RULES_OF_SEED if is_seed else _RULES
    if version == "kubeflow.org/v1alpha2":
        rules = _RULES_OF_V1ALPHA2
    fields = Fields(manifest, {"workload": "mpi"}, rules, "an MPIJob has no such field")
    dialect = _seed() if is_seed else _kubeflow(fields, is_v2=version.startswith("kubeflow.org/v2"))
    pod_values.labels(fields, ("metadata",), ())
    launcher = pod_values.read(fields, dialect.launcher, (dialect.main,))
    if not launcher.container:
        raise InputError(
            "the MPIJob has no launcher with a container",
            path=dotted((*dialect.launcher, "spec", "containers")),
            hint="write the whole object",
        )
    has_workers = fields.number(*dialect.replicas) != 0
    worker = pod_values.read(fields, dialect.worker if has_workers else _NOWHERE, (dialect.main,))
    if worker.container:
        job_program.check_image(fields, worker)
    _templates(fields, launcher, worker)
    keys = "" if dialect.by_api else fields.text("spec", "sshAuthMountPath") or "/root/.ssh"
    _command(fields, launcher, context, keys, has_workers=bool(worker.container))
    _worker_command(fields, worker, _STAYS if dialect.by_api else _SSHD, keys)
    for pod in (launcher, worker):
        mpi_agents.leave_out(fields, pod)
        mpi_agents.say_keys(fields, pod, keys)
    for pod in (launcher, worker):
        _names(fields, pod)
    _note_binding(fields, launcher)
    if not dialect.by_api:
        _note_sessions(fields, launcher, worker)
    _size(fields, dialect, launcher, worker, is_seed=is_seed)
    if fields.get(*_POLICY_OF_SEED) == "Never":
        fields.put(("runPolicy", "backoffLimit"), 0, _POLICY_OF_SEED)
    _settings(fields, dialect)
    is_created_last = fields.get("spec", "launcherCreationPolicy") == "WaitForWorkersReady"
    if dialect.by_api or is_created_last:
        _wait_as_before(fields)
    if is_seed:
        fields.note(_WORKERS_STAY)
        _beside_spec(fields, dialect)
    elif "cleanPodPolicy" not in fields.values.get("mpi", {}):
        fields.note(_WORKERS_OF_NO_POLICY)
    return finish.conversion(fields)


def _note_binding(fields: Fields, launcher: PodTemplate) -> None:
    """Say that ranks are bound to no core, where nothing in the object says how they are.

    The chart says so to each MPI, because the pods of a node would bind to the same cores; and so
    does horovodrun itself (horovod/runner/mpi_run.py).
    """
    texts = (*launcher.words, *launcher.variables)
    if any(_HOROVODRUN.search(text) for text in texts):
        return
    is_intel = fields.text("spec", "mpiImplementation").startswith("Intel")
    how = "set I_MPI_PIN" if is_intel else "write --bind-to core or numa into the command"
    if not any(_BINDING.search(text) for text in texts):
        fields.note(
            "ranks are bound to no core here, as several pods of a node would bind to the same: "
            f"{how} where each node has one pod"
        )


def _note_sessions(fields: Fields, launcher: PodTemplate, worker: PodTemplate) -> None:
    """Say that ranks have the variables of their worker's container, which an sshd hands to none.

    charts/mpi/files/worker.sh of the chart keeps them for its agent.
    """
    texts = (*launcher.words, *worker.words)
    if not worker.container or any(_FOR_SESSIONS.search(text) for text in texts):
        return
    launcher_text = " ".join((*launcher.words, *launcher.variables))
    names_of = [
        str(entry.get("name"))
        for _, entry in fields.items(*worker.container, "env")
        if not re.search(rf"\b{re.escape(str(entry.get('name')))}\b", launcher_text)
    ]
    names_of += ["those of envFrom"] if fields.items(*worker.container, "envFrom") else []
    if names_of:
        fields.note(
            "over ssh a rank had of its worker's container what mpirun passed on (-x) alone; here "
            f"it has all of its variables: {list_some(names_of, 6)}"
        )


# What hands a container's variables to the sessions of its sshd.
_FOR_SESSIONS = re.compile(
    r"/etc/environment|SetEnv|PermitUserEnvironment|\.ssh/environment|/etc/profile|bashrc"
)
_HOROVODRUN = re.compile(r"(?<![\w.-])horovodrun\s|(?:^|/)horovodrun$")
# Options and variables of Open MPI, Intel MPI and MPICH that bind ranks, or bind none.
_BINDING = re.compile(r"bind-to|bind_to|binding|I_MPI_PIN|map-by[= ]\S*:PE=|--cpu-set|--rankfile")


def _wait_as_before(fields: Fields) -> None:
    """Have the launcher wait a day for its workers, where it waited without an end.

    With a dialect of a scheduler's it waits for their pods as long as that holds them back.
    Source: kubeflow/mpi-operator, pkg/controllers/kubectl_delivery/controller.go, which returns
    when all workers run; docs of launcherCreationPolicy.
    """
    if k8s.text(fields.values, "scheduling", "dialect") in ("", "none"):
        fields.put(("network", "waitSeconds"), _DAY)
        fields.note(
            "the launcher waited for its workers without an end, and waits a day here: "
            "network.waitSeconds"
        )


_DAY = 24 * 60 * 60  # in seconds
_NOWHERE: FieldPath = ("no template",)


def _seed() -> _Dialect:
    return _Dialect(
        ("spec", "launcherTemplate"),
        ("spec", "workerTemplate"),
        ("spec", "numWorkers"),
        by_api=True,
    )


def _kubeflow(fields: Fields, *, is_v2: bool) -> _Dialect:
    specs: FieldPath = ("spec", "mpiReplicaSpecs")
    misspelt_keys.refuse_other_roles("MPIJob", fields.mapping(*specs), specs, _ROLES)
    if not fields.mapping(*specs, "Launcher"):
        raise InputError(
            "the MPIJob has no launcher",
            path=dotted((*specs, "Launcher")),
            hint="write the whole object"
            if fields.mapping(*specs)
            else "give one of kubeflow.org/v1 or v2beta1, or the template of one of v1alpha1",
        )
    return _Dialect(
        (*specs, "Launcher", "template"),
        (*specs, "Worker", "template"),
        (*specs, "Worker", "replicas"),
        by_api=not is_v2,
        main=fields.text("spec", "mainContainer"),
    )


def _templates(fields: Fields, launcher: PodTemplate, worker: PodTemplate) -> None:
    if worker.container:
        pod_values.share(fields, {_WORKER: worker, _LAUNCHER: launcher}, "mpi")
    else:
        pod_values.put(fields, launcher, "mpi")


def _refuse_deepspeed(
    fields: Fields, own: tuple[str, ...], launcher: PodTemplate, *, has_workers: bool
) -> None:
    """Refuse a deepspeed that finds none of the workers here.

    With --launcher openmpi it calls mpirun, and names its hosts by a file of the form of Open MPI,
    which is that of the chart (OpenMPIRunner in deepspeed/launcher/multinode_runner.py).
    """
    if not has_workers or commands.starters(own) & _OF_MPI:
        return
    path = dotted((*launcher.container, "command" if launcher.command else "args"))
    is_open_mpi = fields.text("spec", "mpiImplementation").lower() in ("", "openmpi")
    for words in commands.deepspeeds(own):
        name, file = deepspeed_words.own_launcher(words)
        if name == "openmpi" and is_open_mpi and file == mpi_hosts.HOSTFILE:
            continue
        why, hint = "reaches the workers by pdsh and a file of hosts, and not by MPI", _BY_TORCHRUN
        if name == "openmpi" and is_open_mpi:
            why = f"finds its hosts in {file}, and here they are in {mpi_hosts.HOSTFILE}"
            hint = f"write --hostfile {mpi_hosts.HOSTFILE}"
        elif name in ("openmpi", "mpich", "impi"):
            why = "reads hosts in the form HOST slots=N of Open MPI alone, and calls an mpirun of "
            why += f"{name}: only with Open MPI, and --launcher openmpi, are the two one"
        elif name == "slurm":
            why = "starts its ranks by srun, and there is no Slurm"
        raise InputError(f"its launcher calls deepspeed, which {why}", path=path, hint=hint)


_BY_TORCHRUN = (
    "write it as a PyTorchJob whose workers run the same line, and convert that: torchrun starts "
    "the ranks then"
)
_OF_MPI = {commands.Runner.MPIRUN, commands.Runner.HOROVODRUN}


def _command(
    fields: Fields, launcher: PodTemplate, context: Context, keys: str, *, has_workers: bool
) -> None:
    own = job_program.command_of(fields, launcher, context)
    _refuse_deepspeed(fields, own, launcher, has_workers=has_workers)
    launched = mpi_agents.put_right(own, keys)
    words, is_changed = commands.arriving(launched.words, launcher.variables)
    source: FieldPath = (*launcher.container, "command" if launcher.command else "args")
    fields.put(("command",), list(words), source)
    if words[0].rpartition("/")[2] not in LAUNCHERS:
        fields.put(("mpi", "ownMpirun"), value=True)
    program = commands.read(own)
    for note in program.notes if program.runner is commands.Runner.MPIRUN else ():
        fields.note(note)  # that the pod is kept after mpirun
    reasons = ["Kubernetes put $(NAME) in; a shell does it here"] if is_changed else []
    reasons += launched.reasons
    why = "; ".join(reasons)
    for key in ("command", "args"):
        outcome = Outcome.CHANGED if why else Outcome.CARRIED
        fields.say((*launcher.container, key), outcome, "command", why)
    if launched.problem:
        fields.leave(source, launched.problem)


# How many ranks an mpirun is told to start.
_RANKS = re.compile(r"\b(?:mpirun|mpiexec)\b[^\n;&|]*?\s--?(?:np|n|c)[\s=]+(?P<count>\d+)\b")


def _slots_alone(fields: Fields, launcher: PodTemplate, slots: int) -> tuple[int, FieldPath]:
    """The slots of a launcher without workers, and the field that says it.

    The operator writes a file without hosts then, and mpirun has the cores of its own node.

    Args:
        fields: the object.
        launcher: its template.
        slots: what the object says of a worker.
    """
    source: FieldPath = (*launcher.container, "command" if launcher.command else "args")
    counts = [int(match["count"]) for match in _RANKS.finditer(" ".join(launcher.words))]
    if counts:
        return max(counts), source
    if not any("-hosts" in word or word in ("-H", "--host", "-host") for word in launcher.words):
        fields.note(
            "the launcher is alone, and its mpirun started a rank for each core of the node where "
            "no -np says how many; here mpi.slotsPerWorker says it"
        )
    return slots, ("spec", "slotsPerWorker")


# The number of a pod, as a name has it or as a shell puts it in.
_INDEX = r"(?:\d+|\$\w+|\$?\{[^}\s]*\}|\$\([^)\s]*\))"


def _names(fields: Fields, pod: PodTemplate) -> None:
    """Say of names of the old controller's pods whether they are names here.

    A pod's name and the Service of the job are as they were where the release has the job's name;
    an older operator's Service, and a name without a Service, are not there.
    """
    job = fields.text("metadata", "name")
    if not job or not pod.container:
        return
    name = re.compile(
        rf"(?:(?<![\w/.-])|(?<=//)){re.escape(job)}-(?:worker-{_INDEX}|launcher)(?![\w-])"
        r"((?:\.[\w-]+)*)"
    )
    paths: list[FieldPath] = [
        (*pod.container, key, index)
        for key in ("command", "args")
        for index, _ in enumerate(fields.words(*pod.container, key))
    ]
    variables = fields.items(*pod.container, "env")
    paths += [(*pod.container, "env", index, "value") for index, _ in variables]
    for path in paths:
        matches = list(name.finditer(shell_comments.without(str(fields.get(*path) or ""))))
        if any(match[1].split(".")[1:2] != [job] for match in matches):
            fields.leave(path, f"{matches[0][0]} is no name here: read /etc/mpi/hostfile")
        elif matches:
            fields.note(
                f"{matches[0][0]} is a pod of the release {job}: give the release this name"
            )


def _worker_command(fields: Fields, worker: PodTemplate, why: str, keys: str) -> None:
    """Say of what the workers run that the chart runs it, after a setup of theirs.

    Args:
        fields: the object.
        worker: the workers' template.
        why: what the chart does where they do no more than wait for mpirun.
        keys: where mpi-operator mounts the job's key; "" for nowhere.
    """
    if not worker.container or not worker.words:
        return
    words = [word for word in worker.words if word]
    script = mpi_workers.script(words)
    has_setup = script.waits and script.prepares
    source: FieldPath = (*worker.container, "command" if worker.command else "args")
    if has_setup:
        own, is_chained = preparation.unjoined(script.text[: script.commands[-1].start])
        if script.has_shell and not preparation.stops(words, script.commands):
            own = preparation.going_on(own, is_chained=is_chained)
            own += "" if is_chained or not own.startswith(preparation.GOES_ON) else "\ntrue"
        elif not is_chained and preparation.may_end_false(own):
            own += "\ntrue"
        own = mpi_agents.with_our_key(own, keys)
        fields.put(("setup",), _of_workers(own, words[0] if script.has_shell else "sh"), source)
    for key in ("command", "args"):
        here: FieldPath = (*worker.container, key)
        if has_setup:
            fields.change(here, "what the workers do before they wait is setup", "setup")
        elif script.commands and not script.prepares:
            fields.change(here, why)
        else:
            fields.leave(here, "workers wait for mpirun alone, after setup")


def _of_workers(text: str, program: str) -> str:
    """What workers do before they wait, as a setup of theirs alone, in the shell that ran it."""
    shebang = ""
    if program.rpartition("/")[2] != "sh":
        posix = None if "pipefail" in text else preparation.lines_for_shells(text)
        path = program if program.startswith("/") else f"/bin/{program}"
        shebang, text = (f"#!{path}\n", text) if posix is None else ("", posix)
    return f'{shebang}if [ "$K_MPI_JOB_ROLE" = worker ]; then\n{text}\nfi\n'


def _worker_count(fields: Fields, dialect: _Dialect) -> int:
    """How many workers an object has; one where it does not say it."""
    replicas = fields.number(*dialect.replicas)
    if replicas is None and fields.text("apiVersion").endswith("/v2beta1"):
        fields.note(_NO_REPLICAS)
    return 1 if replicas is None else replicas


# Source: pkg/apis/validation of kubeflow/mpi-operator, v2beta1.
_NO_REPLICAS = "its Worker says no replicas, for which the operator refuses it; here it has one"


def _size(
    fields: Fields, dialect: _Dialect, launcher: PodTemplate, worker: PodTemplate, *, is_seed: bool
) -> None:
    workers = _worker_count(fields, dialect) if worker.container else 0
    as_worker = fields.get("spec", "runLauncherAsWorker") is True or not workers
    if as_worker:
        fields.put(("mpi", "runLauncherAsWorker"), value=True)
        why = ""
        if worker.gpus and not launcher.gpus:
            why = f"the launcher has ranks, and so the {worker.gpus} GPUs that each host has"
            fields.note(why)
        outcome = Outcome.CHANGED if why else Outcome.CARRIED
        fields.say(("spec", "runLauncherAsWorker"), outcome, "mpi.runLauncherAsWorker", why)
    else:
        fields.change(("spec", "runLauncherAsWorker"), "it is false", "mpi.runLauncherAsWorker")
    if workers:
        fields.carry(dialect.replicas, ("mpi", "numWorkers"), workers)
        fields.put(("mpi", "numWorkers"), workers)
    else:
        fields.put(("nodes",), 1)
        for path in (dialect.worker, dialect.replicas):
            fields.change(path, "there are no workers: the launcher has the ranks", "nodes")
    gpus = worker.gpus if worker.container else launcher.gpus
    pod = worker if worker.container else launcher
    if gpus:
        fields.put(("gpusPerNode",), gpus, pod.gpu_source)
    if launcher.gpus and worker.container and (not as_worker or launcher.gpus != gpus):
        _launcher_gpus(fields, launcher, gpus, as_worker=as_worker)
    slots = fields.number("spec", "slotsPerWorker")
    slots = 1 if slots is None or is_seed else slots
    source: FieldPath = ("spec", "slotsPerWorker")
    if not workers and not gpus:
        slots, source = _slots_alone(fields, launcher, slots)
    if gpus and slots != gpus:
        fields.put(("procsPerNode",), slots, source)
        fields.say(source, Outcome.CARRIED, "procsPerNode")
    elif not gpus and slots != 1:
        fields.put(("mpi", "slotsPerWorker"), slots, source)
        fields.say(source, Outcome.CARRIED, "mpi.slotsPerWorker")
    else:
        fields.say(source, Outcome.CARRIED, "gpusPerNode" if gpus else "mpi.slotsPerWorker")


def _launcher_gpus(fields: Fields, launcher: PodTemplate, gpus: int, *, as_worker: bool) -> None:
    why = f"each host has {gpus}" if as_worker else "a launcher without ranks has none"
    for kind in ("requests", "limits"):
        for name in fields.mapping(*launcher.container, "resources", kind):
            if pod_values.is_gpu(name):
                fields.leave((*launcher.container, "resources", kind, name), why)


# The launcher's of batch.test.bdap.com, whose operator makes it once.
_POLICY_OF_SEED: FieldPath = ("spec", "launcherTemplate", "spec", "restartPolicy")
_WORKERS_STAY = (
    "that operator never ended its workers: here they end with the run, with their logs and what "
    "they have written; mpi.cleanPodPolicy: None keeps them"
)


_WORKERS_OF_NO_POLICY = (
    "without a cleanPodPolicy the operator leaves its workers as they are, with their GPUs: here "
    "they end with the run; mpi.cleanPodPolicy: None keeps them"
)


def _settings(fields: Fields, dialect: _Dialect) -> None:
    if dialect.by_api:
        fields.put(("mpi", "transport"), "exec")
        fields.note(
            "mpirun reaches the workers through the Kubernetes API, as this version did, and the "
            "launcher's image needs Python 3.6 or newer, or kubectl, for it; where the image has "
            "sshd, mpi.transport: ssh scales better"
        )
    implementation = _IMPLEMENTATIONS.get(fields.text("spec", "mpiImplementation").lower())
    if implementation:
        path: FieldPath = ("spec", "mpiImplementation")
        fields.carry(path, ("mpi", "implementation"), implementation)
        if fields.text(*path) != implementation:
            why = f"the operator takes it as {implementation} alone, and refuses this word"
            fields.change(path, why, "mpi.implementation")
    for key in ("suspend",):
        if isinstance(fields.get("spec", key), bool):
            fields.carry(("spec", key), ("runPolicy", key))
    run_policy.run_policy(fields, ("spec", "runPolicy"))
    for place in (("spec", "cleanPodPolicy"), ("spec", "runPolicy", "cleanPodPolicy")):
        policy = fields.text(*place)
        if policy in _CLEAN:
            fields.carry(place, ("mpi", "cleanPodPolicy"), policy)
    if fields.has("spec", "cleanPodPolicy") and fields.text("apiVersion").endswith("/v2beta1"):
        fields.note(_OLD_PLACE)
    _limits_of_v1alpha2(fields)
    for role in fields.mapping("spec", "mpiReplicaSpecs"):
        _settings_of_role(fields, role)


def _settings_of_role(fields: Fields, role: str) -> None:
    """Say what becomes of a role's own settings, besides its pods."""
    path: FieldPath = ("spec", "mpiReplicaSpecs", role)
    if role == "Worker":
        why = "a worker that is lost is replaced with the run"
        fields.change((*path, "restartPolicy"), why, "runPolicy.backoffLimit")
    elif role != "Launcher":
        fields.leave(path, "an MPIJob has no such role, nor its pods")
    else:
        is_v1 = fields.text("apiVersion") == "kubeflow.org/v1"  # in v2beta1 it is OnFailure
        # By v1 the launcher is a pod; by the others a Job's, which replaces it also with Never.
        run_policy.restart_policy(fields, (*path, "restartPolicy"), gives_up=is_v1, is_never=is_v1)
        if "backoffLimit" not in fields.values.get("runPolicy", {}):
            fields.put(("runPolicy", "backoffLimit"), job.BACKOFF_LIMIT)  # the launcher's Job
        replicas: FieldPath = (*path, "replicas")
        if fields.number(*replicas) in (None, 1):
            fields.say(replicas, Outcome.CARRIED, "there is one launcher")
        else:
            fields.leave(replicas, "there is one launcher, always")


def _limits_of_v1alpha2(fields: Fields) -> None:
    if not fields.text("apiVersion").endswith("/v1alpha2"):
        return
    for key in _OF_V1ALPHA2:
        amount = fields.number("spec", key)
        if amount is not None and amount >= 0:
            fields.carry(("spec", key), ("runPolicy", key), amount)


def _beside_spec(fields: Fields, dialect: _Dialect) -> None:
    for path in (dialect.launcher, dialect.worker):
        for key in fields.mapping(*path):
            if key not in ("metadata", "spec"):
                fields.change((*path, key), _NOT_IN_A_TEMPLATE)
                fields.note(
                    f"{dotted((*path, key))} stands beside spec, where it has no effect; "
                    "say it among the values where it is wanted"
                )
