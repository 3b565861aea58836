"""Whether a rendered release runs the pods that another project's controller makes of its object.

Pods are compared by what they are for: image, command, ranks, environment, devices and amounts,
volumes by where they are mounted, and where they may run. What controllers add for themselves to
find each other is not compared, because that is what differs by design.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.convert.jobs import mpi_agents, mpi_hosts, outside_variables
from allranks.convert.pods import container_names
from allranks.convert.pods.image_names import pull_policy
from allranks.convert.pods.pod_template import is_of_person
from allranks.convert.pods.pod_values import TRAINER, is_set_by_job
from allranks.convert.programs import (
    commands,
    entrypoints,
    mpi_workers,
    rank_variables,
    references,
    shell,
    shell_arguments,
)
from allranks.errors import InputError
from allranks.humanize import list_some
from allranks.k8s import quantity
from allranks.k8s.fields import as_text, count, items, mapping, text, texts

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from allranks.convert import original
    from allranks.k8s.manifest import Manifest

_NONE = "nothing"
# What the pods of ours have for themselves.
_OUR_FOLDERS = ("/etc/allranks", "/var/run/allranks", "/etc/mpi", "/etc/ssh/allranks", "/run/sshd")
_OUR_ENV = re.compile(
    r"ALLRANKS_.*|PET_.*|OMPI_.*|I_MPI_.*|HYDRA_.*|PRTE_.*|PMIX_.*|UCX_.*|TORCH_.*|PYTHONUNBUFFERED"
    r"|WANDB_(?:RUN_ID|RESUME|RUN_GROUP|NAME)|MLFLOW_RUN_NAME"
    r"|K_MPI_JOB_ROLE|TF_CONFIG|DMLC_.*|MASTER_.*|RANK|WORLD_SIZE|NVIDIA_VISIBLE_DEVICES"
    r"|NVIDIA_DRIVER_CAPABILITIES|JOB_COMPLETION_INDEX|LOCAL_RANK|MPI_.*"
)
# The key of mpirun's list of hosts in the mpi chart's ConfigMap.
_HOSTFILE_KEY = "hostfile"
# The first word of a pod of the elastic chart: how it is started.
_STARTERS = ("follow", "exec", "elastic_worker")
_ALIKE = {names.ROLE_NODE, names.ROLE_TRIAL}
_GRACE = 30  # seconds; Kubernetes' own
_SCHEDULER = "default-scheduler"
_OF_POD = (
    *("nodeSelector", "affinity", "tolerations", "topologySpreadConstraints", "hostIPC", "hostPID"),
    *("priorityClassName", "runtimeClassName", "hostNetwork", "imagePullSecrets", "hostAliases"),
    *("dnsConfig", "shareProcessNamespace", "nodeName", "resourceClaims", "preemptionPolicy"),
)
_OF_CONTAINER = (
    *("livenessProbe", "startupProbe", "lifecycle", "workingDir", "envFrom", "volumeDevices"),
    *("stdin", "tty"),
)


@dataclass(frozen=True, slots=True)
class Difference:
    """Something that two kinds of pods do not have alike.

    Attributes:
        role: the role of the pods, as it is called here; "" for all of the run's.
        setting: what differs: ``image``, ``env EPOCHS``, ``mount /data``.
        theirs: what the original's pods have.
        ours: what the release's pods have.
        pods: which of the original's pods have it; "" for all of the role.
    """

    role: str
    setting: str
    theirs: str
    ours: str
    pods: str = ""

    def __str__(self) -> str:
        """The difference as a sentence."""
        there = f"there in {self.pods}" if self.pods else "there"
        head = ": ".join(filter(None, (self.role, self.setting)))
        return f"{head}: {self.theirs} {there}, {self.ours} here"

    def as_dict(self) -> dict[str, str]:
        """The JSON form."""
        return {
            "role": self.role,
            "what": self.setting,
            "theirs": self.theirs,
            "ours": self.ours,
            **({"pods": self.pods} if self.pods else {}),
        }


@dataclass(frozen=True, slots=True)
class _Amount:
    """An amount, which is the same however it is written: ``1Gi``, ``1024Mi``."""

    number: float
    text: str = field(compare=False)

    def __str__(self) -> str:
        return self.text


def differences(
    originals: Sequence[original.OriginalPod],
    objects: Iterable[Manifest],
    entrypoint: Sequence[str] = (),
) -> list[Difference]:
    """What the pods of a release have otherwise than the original ones.

    Args:
        originals: the pods that the old controller makes.
        objects: the rendered manifests of the release.
        entrypoint: what the image runs where a container that trains has no command.
    """
    objects = list(objects)
    if entrypoint:
        originals = _with_entrypoint(originals, entrypoint)
    claims = {text(item, "metadata", "name") for item in objects if item.get("kind") == _CLAIM}
    ours = {
        role: (number, {**own, "spec": _with_own_claims(mapping(own, "spec"), claims)}, world)
        for role, (number, own, world) in _by_role(objects).items()
    }
    originals = [pod.with_spec(_with_own_claims(pod.spec, pod.claims)) for pod in originals]
    theirs: dict[str, list[original.OriginalPod]] = {}
    # Where all pods of the release are alike, so are these, whatever they were called.
    is_single = set(ours) <= _ALIKE or len({pod.role for pod in originals}) == 1
    own = next(iter(ours)) if len(ours) == 1 and is_single else ""
    for pod in originals:
        theirs.setdefault(own or pod.role, []).append(pod)
    result: list[Difference] = []
    for role in (*theirs, *(role for role in ours if role not in theirs)):
        number, template, world = ours.get(role, (0, {}, 0))
        pods = theirs.get(role, [])
        if len(pods) != number:
            result.append(Difference(role, "pods", str(len(pods)), str(number)))
        if not pods or not number:
            continue
        result += _ranks(role, pods[0], world)
        result += _ranks_here_alone(role, pods, world)
        result += _of_pods(role, pods, template)
    return [*result, *_hostfiles(originals, objects)]


def setups(theirs: str, ours: str) -> list[Difference]:
    """What runs before the command has otherwise, as far as texts say it.

    Args:
        theirs: the setup that is made of the original's command.
        ours: the release's.
    """
    pair = [setup.strip() for setup in (theirs, ours)]
    shown = [commands.as_shell([setup]) if setup else _NONE for setup in pair]
    return [] if pair[0] == pair[1] else [Difference("", "setup", *shown)]


def _hostfiles(
    originals: Sequence[original.OriginalPod], objects: Iterable[Manifest]
) -> Iterator[Difference]:
    """The slots of mpirun's hosts, and how they are written: each MPI reads its own form."""
    theirs = next(
        (pod.files[mpi_hosts.HOSTFILE] for pod in originals if mpi_hosts.HOSTFILE in pod.files), ""
    )
    ours = next((own for item in objects if (own := text(item, "data", _HOSTFILE_KEY))), "")
    forms = [_slots(lines) for lines in (theirs, ours)]
    if theirs and ours and forms[0] != forms[1]:
        yield Difference(names.ROLE_LAUNCHER, mpi_hosts.HOSTFILE, *forms)


def _slots(lines: str) -> str:
    """What a file of hosts says of each, without its name."""
    return ", ".join(re.sub(r"^[^\s:]+", "HOST", line) for line in lines.splitlines() if line)


def _of_pods(
    role: str, pods: Sequence[original.OriginalPod], template: Mapping[str, Any]
) -> Iterator[Difference]:
    """What pods of a role have otherwise, and which of them where they are not all alike."""
    kinds: dict[str, list[original.OriginalPod]] = {}
    for pod in pods:
        kinds.setdefault(repr(pod.template), []).append(pod)
    names_of: dict[Difference, list[str]] = {}
    for alike in kinds.values():
        for difference in dict.fromkeys(_of_templates(role, alike[0], template)):
            names_of.setdefault(difference, []).extend(pod.name for pod in alike)
    for difference, own in names_of.items():
        yield difference if len(own) == len(pods) else replace(difference, pods=list_some(own, 1))


def _with_entrypoint(
    pods: Sequence[original.OriginalPod], entrypoint: Sequence[str]
) -> list[original.OriginalPod]:
    """Pods whose containers that train have a command; the workers of an MPI job have sshd's."""
    has_launcher = any(pod.role == names.ROLE_LAUNCHER for pod in pods)
    return [
        pod
        if pod.main.get("command") or (has_launcher and pod.role != names.ROLE_LAUNCHER)
        else pod.with_main(command=list(entrypoint))
        for pod in pods
    ]


_CLAIM = "PersistentVolumeClaim"


def _with_own_claims(spec: Mapping[str, Any], claims: Collection[str]) -> Mapping[str, Any]:
    """A PodSpec in which the claims that come with the job have no names of their own."""
    if not claims:
        return spec
    volumes = [
        {**volume, "persistentVolumeClaim": {"claimName": "of the job"}}
        if text(volume, "persistentVolumeClaim", "claimName") in claims
        else volume
        for volume in items(spec, "volumes")
    ]
    return {**spec, "volumes": volumes}


def _ranks(role: str, pod: original.OriginalPod, world: int) -> Iterator[Difference]:
    """The number of processes, where both sides say it."""
    container = _container(pod.spec, pod.container)
    variables = _plain_env(container) | dict(pod.env)
    program = commands.read(_words(container), (), variables)
    if program.runner is not commands.Runner.TORCHRUN or not world:
        return
    option = program.options.get("nproc-per-node") or variables.get(names.ENV_PROCESSES, "1")
    if outside_variables.decide(container, option):
        return
    per_pod = references.number(option, variables) or pod.ranks or _gpus(container) or 1
    nodes = pod.world // max(pod.ranks, 1) if pod.ranks else pod.world
    # What the command says of the nodes wins over the controller; torchrun's own default is one.
    nnodes = program.options.get("nnodes", variables.get(names.ENV_NODES, "1"))
    nnodes = "1" if "standalone" in program.options or program.is_alone else nnodes
    least, most = (references.number(end, variables) for end in references.ends(nnodes))
    if most and not (least and least <= nodes < most):  # of a range, those that there are
        nodes = most
    if nodes and nodes * per_pod != world:
        yield Difference(role, "ranks of a training", str(nodes * per_pod), str(world))


def _ranks_here_alone(
    role: str, pods: Sequence[original.OriginalPod], world: int
) -> Iterator[Difference]:
    """Whether programs are told here of each other that nothing there told, where none says it.

    A controller that says how many ranks a job has is one of whose variables all are known.
    """
    container = _container(pods[0].spec, pods[0].container)
    program = commands.read(_words(container), (), _plain_env(container) | dict(pods[0].env))
    has_others = min(world, len(pods), pods[0].world) > 1
    if program.runner is not commands.Runner.PLAIN or not has_others:
        return
    variables = {text(entry, "name") for entry in items(container, "env")} | set(pods[0].env)
    texts = (*program.command, program.setup, *program.scripts)
    if not rank_variables.are_set(variables, texts):
        yield Difference(role, "RANK, WORLD_SIZE and MASTER_ADDR", _NONE, "those of each rank")


def _by_role(objects: Iterable[Manifest]) -> dict[str, tuple[int, Mapping[str, Any], int]]:
    """By role: the number of pods, their template, and the processes of the whole job."""
    roles: dict[str, tuple[int, Mapping[str, Any], int]] = {}
    for manifest in objects:
        for role, number, template in _templates(manifest):
            spec = mapping(template, "spec")
            before = roles.get(role, (0, template, 0))
            env = _plain_env(_container(spec, TRAINER))
            per_pod = env.get(names.ENV_PROCESSES, "")
            most = env.get(names.ENV_NODES, "").rpartition(":")[2]
            world = int(per_pod) * int(most) if per_pod.isdigit() and most.isdigit() else 0
            roles[role] = (before[0] + number, before[1], world)
    return roles


def _templates(manifest: Manifest) -> Iterator[tuple[str, int, Mapping[str, Any]]]:
    """The pod templates of an object, with their role and the number of pods."""
    spec, kind = mapping(manifest, "spec"), manifest.get("kind")
    if kind == names.ELASTIC_JOB:
        for role, own in mapping(spec, "replicaSpecs").items():
            if role != names.EDL_MASTER:
                replicas = 1 if own.get("replicas") is None else count(own, "replicas")
                yield role, replicas, mapping(own, "template")
        return
    if kind not in ("Job", "StatefulSet"):
        return
    template = mapping(spec, "template")
    role = text(template, "metadata", "labels", names.ROLE) or names.ROLE_NODE
    key = "completions" if kind == "Job" else "replicas"
    yield role, count(spec, key), template


def _of_templates(
    role: str, pod: original.OriginalPod, template: Mapping[str, Any]
) -> Iterator[Difference]:
    ours = mapping(template, "spec")
    main = text(_container(pod.spec, pod.container), "name")
    pod = pod.with_spec(container_names.renamed(pod.spec, {main: TRAINER} if main else {}))
    their_container = _container(pod.spec, pod.container)
    our_container = _container(ours, TRAINER)
    theirs = {**_pod_facets(pod.spec), **_facets(pod.spec, their_container)}
    own = {**_pod_facets(ours), **_facets(ours, our_container)}
    variables = _plain_env(their_container) | dict(pod.env)
    folder = commands.read(_words(their_container), (), variables).working_dir
    if folder and own.get("workingDir") == folder:
        theirs["workingDir"] = folder
    theirs |= _others(pod.spec, pod.container)
    own |= _others(ours, TRAINER)
    for kind, key, value in _labels(pod.template):
        theirs[f"{kind} {key}"] = value
        own[f"{kind} {key}"] = mapping(template, "metadata", f"{kind}s").get(key)
    workload = "mpi" if role == names.ROLE_LAUNCHER else "torchrun"
    for name, value in _exports(texts(our_container.get("args"))):
        their_text = theirs.get(f"env {name}")
        if isinstance(their_text, str):
            # What the job sets for each process has no text to compare.
            is_of_job = value[:1] == "$" and is_set_by_job(value[1:], workload)
            own[f"env {name}"] = their_text if is_of_job else value
    for setting in (*theirs, *(setting for setting in own if setting not in theirs)):
        if setting.startswith("env ") and is_set_by_job(setting[4:], workload):
            continue
        their_value, our_value = theirs.get(setting), own.get(setting)
        if their_value != our_value:
            yield Difference(role, setting, _shown(their_value), _shown(our_value))
    if role != "worker" or not _waits(_words(their_container)):
        yield from _command(role, pod, their_container, our_container)


def _labels(template: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """The labels and annotations of a template that a person wrote."""
    for kind in ("label", "annotation"):
        for key, value in mapping(template, "metadata", f"{kind}s").items():
            if value is not None and is_of_person(str(key)):
                yield kind, str(key), as_text(value)


def _exports(words: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The variables that a shell sets before it becomes the command, as `wrapped` does."""
    for word in words:
        script = word.replace("$$", "$")  # as the shell gets it
        if script.startswith("export ") and script.endswith('; exec "$@"'):
            for command in (shell.parse(script) or ())[:1]:
                for assignment in command.words[1:]:
                    name, _, value = (assignment.value or assignment.text).partition("=")
                    yield name, value if assignment.value else value.strip('"')


def _waits(words: Sequence[str]) -> bool:
    """Whether a worker waits for mpirun, after a setup of its own or without any."""
    return not words or mpi_workers.script(words).waits or any("sshd" in word for word in words)


def _command(
    role: str, pod: original.OriginalPod, theirs: Mapping[str, Any], ours: Mapping[str, Any]
) -> Iterator[Difference]:
    """What the processes run: torchrun taken off there, our entry taken off here."""
    # What the job sets for each process has no text before: MASTER_ADDR is where it is read.
    workload = "mpi" if role == names.ROLE_LAUNCHER else "torchrun"
    variables = _plain_env(theirs) | dict(pod.env)
    before, after = (
        {name: value for name, value in env.items() if not is_set_by_job(name, workload)}
        for env in (variables, _plain_env(ours) | dict(pod.env))
    )
    others = {str(entry.get("name")) for entry in items(theirs, "env")}
    words = tuple(references.filled(word, before, others) for word in _words(theirs))
    if not theirs.get("command"):
        words = (*entrypoints.of(str(theirs.get("image") or "")), *words)
    as_typed = tuple(word.replace("$", "$$") for word in words)  # Kubernetes has put all in
    program = commands.read(as_typed, (), variables)
    own = tuple(references.put_in(word, {}) for word in program.command)
    their_words = own if program.runner is commands.Runner.TORCHRUN else words
    # Where a chart has a setup, a script may be one and its last command; a role has none.
    is_split = program.setup or program.working_dir or own != words
    forms = (their_words, own) if is_split else (their_words,)
    if role == names.ROLE_LAUNCHER:  # whose list of hosts may be the chart's
        own_list = mpi_hosts.words_without_hosts(words)
        no_pods = mpi_hosts.without_pods(own_list, pod.name.rpartition("-")[0])
        key = next((path for path in pod.files if path.endswith(mpi_agents.KEY_FILE)), "")
        launched = mpi_agents.put_right(words, key.removesuffix(mpi_agents.KEY_FILE))
        forms = (*forms, tuple(own_list), tuple(no_pods), launched.words)
    args = texts(ours.get("args"))
    if role == names.ROLE_LAUNCHER and args and args[0].isdigit():
        args = args[1 + int(args[0]) :]
    if args and args[0] in _STARTERS:
        args = args[1:]
    args = [word.replace("$$", "$") for word in args]
    if _run_words(args, after) not in [_run_words(form, before) for form in forms]:
        yield Difference(role, "command", commands.as_shell(their_words), commands.as_shell(args))


# A variable that the shell puts in where Kubernetes did, also between single quotes.
_PUT_IN = re.compile(r"'\"\$\{([A-Za-z_]\w*)\}\"'|\$\{([A-Za-z_]\w*)\}")


# A variable that is $(NAME), as it is typed, where the container has none of the name.
_OR_TEXT = re.compile(r"\$\{([A-Za-z_]\w*)-\\\$\(\1\)\}")


def _run_words(words: Sequence[str], variables: Mapping[str, str]) -> tuple[str, ...]:
    """Words as they are run: without the shell that only puts a variable in or sets one up."""
    run_words = [_OR_TEXT.sub(r"${\1}", word) for word in words]
    while run_words[:2] == ["sh", "-c"] and len(run_words) > 4 and run_words[3] == "sh":  # noqa: PLR2004
        run_words = run_words[4:]
    profile: tuple[str, ...] = ()
    script = shell_arguments.script_of(run_words)
    if script is not None and run_words[0] == script[0] and not script[2]:
        flags = shell_arguments.profile_flags(run_words)
        profile = tuple(letter for letter in "li" if letter in flags)
        lines = (line.rstrip() for line in run_words[-1].strip().splitlines())
        run_words[-1] = _PUT_IN.sub(
            lambda match: variables.get(match[1] or match[2], match[0]), "\n".join(lines)
        )
        body = run_words[-1].strip().removeprefix("exec ")
        parsed = shell.parse(body)
        if parsed and len(parsed) == 1 and not parsed[0].assignments:
            texts = [_filled(word, variables) for word in parsed[0].words]
            return (*profile, *texts)
    return tuple(run_words)


def _filled(word: shell.Word, variables: Mapping[str, str]) -> str:
    """A word of a shell with the variables that are known, and without its quotes."""
    if word.value is not None:
        return word.value
    result = re.sub(
        r"\$\{?([A-Za-z_][A-Za-z0-9_]*)\}?",
        lambda match: variables.get(match[1], match[0]),
        word.text,
    )
    parsed = shell.split(result)
    if parsed and len(parsed) == 1:
        return parsed[0]
    # What the cluster alone has stays in it.
    return re.sub(r"'([^']*)'|\"([^\"\\`]*)\"", lambda match: match[1] or match[2] or "", result)


def _words(container: Mapping[str, Any]) -> tuple[str, ...]:
    return (*texts(container.get("command")), *texts(container.get("args")))


def _container(spec: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    result = [item for item in items(spec, "containers") if text(item, "name") == name]
    return result[0] if result else {}


def _plain_env(container: Mapping[str, Any]) -> dict[str, str]:
    """The variables whose text is known, as the container gets them."""
    values: dict[str, str] = {}
    for entry in items(container, "env"):
        if "valueFrom" not in entry:
            value = as_text(entry.get("value"))
            values[str(entry.get("name"))] = references.put_in(value, values)
    return values


def _pod_facets(spec: Mapping[str, Any]) -> dict[str, Any]:
    facets = {key: spec[key] for key in _OF_POD if spec.get(key)}
    grace = spec.get("terminationGracePeriodSeconds")
    facets["grace"] = _GRACE if grace is None else grace
    account = spec.get("serviceAccountName") or spec.get("serviceAccount") or "default"
    facets["service account"] = account
    facets["scheduler"] = spec.get("schedulerName") or _SCHEDULER
    return facets


def _facets(spec: Mapping[str, Any], container: Mapping[str, Any]) -> dict[str, Any]:
    facets: dict[str, Any] = {key: container[key] for key in _OF_CONTAINER if container.get(key)}
    image = str(container.get("image") or "")
    facets["image"] = _image(image)
    facets["image pulled"] = container.get("imagePullPolicy") or pull_policy(image)
    for entry in items(container, "env"):
        name = str(entry.get("name"))
        if not _OUR_ENV.fullmatch(name):
            value = entry.get("valueFrom") or as_text(entry.get("value"))
            facets[f"env {name}"] = value.replace("$$", "$") if isinstance(value, str) else value
    facets |= _amounts(container)
    facets |= _mounts(spec, container)
    context = {**mapping(spec, "securityContext"), **mapping(container, "securityContext")}
    for key, value in context.items():
        facets[f"security {key}"] = value
    return facets


def _image(image: str) -> str:
    """An image's name as it is pulled: what has a digest is not asked for by its tag."""
    rest, at, digest = image.partition("@")
    head, slash, last = rest.rpartition("/")
    return f"{head}{slash}{last.partition(':')[0]}{at}{digest}" if at else image


def _amounts(container: Mapping[str, Any]) -> dict[str, Any]:
    requests = dict(mapping(container, "resources", "requests"))
    limits = mapping(container, "resources", "limits")
    facets: dict[str, Any] = {}
    for kind, amounts in (("request", {**limits, **requests}), ("limit", limits)):
        for name, amount in amounts.items():
            if amount is None:  # as if it were not there, to Kubernetes
                continue
            try:
                number = float(quantity.parse(amount))
            except (InputError, TypeError):
                facets[f"{kind} {name}"] = str(amount)
                continue
            if number or "/" not in str(name):  # no device is as none
                facets[f"{kind} {name}"] = _Amount(number, str(amount))
    return facets


def _gpus(container: Mapping[str, Any]) -> int:
    from allranks.convert.pods.pod_values import is_gpu

    limits = mapping(container, "resources", "limits")
    return sum(
        int(str(amount))
        for name, amount in limits.items()
        if is_gpu(name) and str(amount).isdigit()
    )


def _mounts(spec: Mapping[str, Any], container: Mapping[str, Any]) -> dict[str, Any]:
    volumes = {
        str(volume.get("name")): {key: value for key, value in volume.items() if key != "name"}
        for volume in items(spec, "volumes")
    }
    facets: dict[str, Any] = {}
    for mount in items(container, "volumeMounts"):
        path = str(mount.get("mountPath")).rstrip("/") or "/"
        if path.startswith(_OUR_FOLDERS):
            continue
        rest = {key: value for key, value in mount.items() if key not in ("name", "mountPath")}
        facets[f"mount {path}"] = (volumes.get(str(mount.get("name"))), rest)
    return facets


def _others(spec: Mapping[str, Any], main: str) -> dict[str, Any]:
    """Init containers and sidecars, by name, with the volumes that they mount."""
    facets: dict[str, Any] = {}
    for key, word in (("initContainers", "init container"), ("containers", "container")):
        for container in items(spec, key):
            name = text(container, "name")
            if name != main:
                rest = {
                    part: value
                    for part, value in container.items()
                    if part not in ("name", "volumeMounts")
                }
                facets[f"{word} {name}"] = (_stored(rest), _mounts(spec, container))
    return facets


def _stored(value: Any) -> Any:
    """Plain data as Kubernetes stores it: amounts are text."""
    if isinstance(value, dict):
        return {
            key: {name: str(amount) for name, amount in item.items()}
            if key in ("limits", "requests") and isinstance(item, dict)
            else _stored(item)
            for key, item in value.items()
        }
    return [_stored(item) for item in value] if isinstance(value, list) else value


def _shown(value: Any) -> str:
    """A value as a person reads it: maps and lists as JSON, parts that are there one by one."""
    if value is None:
        return _NONE
    if isinstance(value, tuple):
        return ", ".join(_shown(part) for part in value if part) or _NONE
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value)
