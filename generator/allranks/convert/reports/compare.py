"""Whether a rendered release runs the pods that another project's controller makes of its object.

Pods are compared by what they are for: image, command, ranks, environment, devices and amounts,
volumes by where they are mounted, and where they may run. What controllers add for themselves to
find each other is not compared, because that is what differs by design.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.convert.jobs import mpi_agents, mpi_hosts, outside_variables, pod_names
from allranks.convert.pods import container_names, containers
from allranks.convert.pods.pod_template import is_of_person
from allranks.convert.pods.pod_values import TRAINER, is_set_by_job
from allranks.convert.programs import (
    commands,
    entrypoints,
    local_ranks,
    mpi_workers,
    rank_variables,
    references,
    shell,
    shell_arguments,
)
from allranks.convert.reports.pod_facets import container_of, gpus, of_both, of_pod
from allranks.humanize import list_some
from allranks.k8s.fields import as_text, count, items, mapping, text, texts

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from allranks.convert import original
    from allranks.k8s.manifest import Manifest

_NONE = "nothing"
# The key of mpirun's list of hosts in the mpi chart's ConfigMap.
_HOSTFILE_KEY = "hostfile"
# The first word of a pod of the elastic chart: how it is started.
_STARTERS = ("follow", "exec", "elastic_worker")
_ALIKE = {names.ROLE_NODE, names.ROLE_TRIAL}


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
    originals = _each_kind(
        originals, lambda pod: pod.with_spec(_with_own_claims(pod.spec, pod.claims))
    )
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
        kinds = _kinds(pods)
        result += _ranks(role, kinds, template, world)
        result += _variables_of_ranks(role, pods, world)
        result += _of_pods(role, kinds, template)
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


def changed_settings(before: Iterable[Manifest], after: Iterable[Manifest]) -> frozenset[str]:
    """The settings in which the pods of two releases are not the same.

    Args:
        before: the rendered manifests of the one.
        after: those of the other.
    """
    old, new = _by_role(before), _by_role(after)
    result: set[str] = set()
    for role in {**old, **new}:
        first, second = (_settings_of(roles[role]) if role in roles else {} for roles in (old, new))
        result |= {key for key in {**first, **second} if first.get(key) != second.get(key)}
    return frozenset(result)


def _settings_of(pods: tuple[int, Mapping[str, Any], int]) -> dict[str, Any]:
    """All that a role of a release has, by its setting."""
    number, template, world = pods
    container = _main_of(template)
    settings = of_pod(mapping(template, "spec"), TRAINER)
    settings |= {
        f"{kind} {key}": value
        for kind in ("label", "annotation")
        for key, value in mapping(template, "metadata", f"{kind}s").items()
    }
    settings["command"] = [*_words(container), *_exports(texts(container.get("args")))]
    nodes = _plain_env(container).get(names.ENV_NODES)
    return {**settings, "pods": number, "ranks of a training": world, _NODES: nodes}


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


def _kinds(pods: Iterable[original.OriginalPod]) -> list[list[original.OriginalPod]]:
    """Pods by their templates: those that are alike are looked at once."""
    texts_of: dict[int, str] = {}  # the pods of a role share their template
    kinds: dict[str, list[original.OriginalPod]] = {}
    for pod in pods:
        key = id(pod.template)
        if key not in texts_of:
            texts_of[key] = repr(pod.template)
        kinds.setdefault(texts_of[key], []).append(pod)
    return list(kinds.values())


def _each_kind(
    pods: Iterable[original.OriginalPod],
    change: Callable[[original.OriginalPod], original.OriginalPod],
) -> list[original.OriginalPod]:
    """Pods with a change of their template, made once of those that share theirs.

    Args:
        pods: the pods.
        change: gives a pod another template, by its own, its role and its claims.
    """
    templates: dict[tuple[int, str, tuple[str, ...]], Mapping[str, Any]] = {}
    result = []
    for pod in pods:
        key = (id(pod.template), pod.role, pod.claims)
        if key not in templates:
            templates[key] = change(pod).template
        result.append(replace(pod, template=templates[key]))
    return result


def _of_pods(
    role: str, kinds: Sequence[Sequence[original.OriginalPod]], template: Mapping[str, Any]
) -> Iterator[Difference]:
    """What pods of a role have otherwise, and which of them where they are not all alike."""
    names_of: dict[Difference, list[str]] = {}
    for alike in kinds:
        for difference in dict.fromkeys(_of_templates(role, alike[0], template)):
            names_of.setdefault(difference, []).extend(pod.name for pod in alike)
    total = sum(map(len, kinds))
    for difference, own in names_of.items():
        yield difference if len(own) == total else replace(difference, pods=list_some(own, 1))


def _with_entrypoint(
    pods: Sequence[original.OriginalPod], entrypoint: Sequence[str]
) -> list[original.OriginalPod]:
    """Pods whose containers that train have a command; the workers of an MPI job have sshd's."""
    has_launcher = any(pod.role == names.ROLE_LAUNCHER for pod in pods)

    def started(pod: original.OriginalPod) -> original.OriginalPod:
        is_sshd = has_launcher and pod.role != names.ROLE_LAUNCHER
        has_command = bool(pod.main.get("command"))
        return pod if has_command or is_sshd else pod.with_main(command=list(entrypoint))

    return _each_kind(pods, started)


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


def _ranks(
    role: str,
    kinds: Sequence[Sequence[original.OriginalPod]],
    template: Mapping[str, Any],
    world: int,
) -> Iterator[Difference]:
    """The number of processes, and of nodes where one side has a range; where both say it."""
    shares = [_ranks_of(pods[0]) for pods in kinds]
    first, pods = shares[0], sum(map(len, kinds))
    ends = references.ends(_plain_env(_main_of(template)).get(names.ENV_NODES, ""))
    least, most = (int(end) if end.isdigit() else 0 for end in ends)
    if least < most and _has_fixed_nodes(kinds[0][0]):
        yield Difference(role, _NODES, str(pods), _range(least, most))
    if first is None or not world or None in shares:
        return
    total = first.nodes * first.per_pod
    if first.nodes == pods:  # each has its own
        total = sum(
            share.per_pod * len(alike)
            for share, alike in zip(shares, kinds, strict=True)
            if share is not None
        )
    if total and total != world:
        yield Difference(role, "ranks of a training", str(total), str(world))
    has_range = least < most or first.least < first.nodes
    if has_range and first.least and least and first.least != least:
        theirs, ours = _range(first.least, first.nodes), _range(least, most)
        yield Difference(role, _NODES, theirs, ours)


_NODES = "nodes of a training"


def _has_fixed_nodes(pod: original.OriginalPod) -> bool:
    """Whether neither a torchrun nor a controller of an original pod says a range of nodes."""
    variables = _plain_env(pod.main) | dict(pod.env)
    program = commands.read(_words(pod.main), (), variables)
    is_torchrun = program.runner is commands.Runner.TORCHRUN
    return not is_torchrun and ":" not in variables.get(names.ENV_NODES, "")


def _range(least: int, most: int) -> str:
    return str(most) if least == most else f"{least} to {most}"


@dataclass(frozen=True, slots=True)
class _Share:
    """What a pod says of its training.

    Attributes:
        nodes: how many pods train together.
        least: with how few it goes on; as many as there are where no range is said.
        per_pod: the processes of each.
    """

    nodes: int
    least: int
    per_pod: int


def _ranks_of(pod: original.OriginalPod) -> _Share | None:
    """What a pod's torchrun is told; None where nobody here can say it."""
    container = pod.main
    variables = _plain_env(container) | dict(pod.env)
    program = commands.read(_words(container), (), variables)
    if program.runner is not commands.Runner.TORCHRUN:
        return None
    option = program.options.get("nproc-per-node") or variables.get(names.ENV_PROCESSES, "1")
    if outside_variables.decide(container, option):
        return None
    per_pod = references.number(option, variables) or pod.ranks or gpus(container) or 1
    nodes = pod.world // max(pod.ranks, 1) if pod.ranks else pod.world
    # What the command says of the nodes wins over the controller; torchrun's own default is one.
    nnodes = program.options.get("nnodes", variables.get(names.ENV_NODES, "1"))
    nnodes = "1" if "standalone" in program.options or program.is_alone else nnodes
    least, most = (references.number(end, variables) for end in references.ends(nnodes))
    if most and not (least and least <= nodes < most):  # of a range, those that there are
        nodes = most
    return _Share(nodes, min(least, nodes) if least and most else 0, per_pod)


def _variables_of_ranks(
    role: str, pods: Sequence[original.OriginalPod], world: int
) -> Iterator[Difference]:
    """What programs are told of each other, where no torchrun of theirs tells it.

    A controller that says how many ranks a job has is one of whose variables all are known.
    """
    pod, container = pods[0], pods[0].main
    program = commands.read(_words(container), (), _plain_env(container) | dict(pod.env))
    if program.runner is not commands.Runner.PLAIN or not world:
        return
    ranks = pod.env.get("WORLD_SIZE", str(world))
    texts = (*program.command, *program.scripts)
    if ranks != str(world) and references.reads(texts, "WORLD_SIZE"):
        yield Difference(role, "env WORLD_SIZE", ranks, str(world))
    variables = {text(entry, "name") for entry in items(container, "env")} | set(pod.env)
    has_others = min(world, len(pods), pod.world) > 1
    if has_others and not rank_variables.are_set(variables, (*texts, program.setup)):
        yield Difference(role, "RANK, WORLD_SIZE and MASTER_ADDR", _NONE, "those of each rank")


def _by_role(objects: Iterable[Manifest]) -> dict[str, tuple[int, Mapping[str, Any], int]]:
    """By role: the number of pods, their template, and the processes of the whole job."""
    roles: dict[str, tuple[int, Mapping[str, Any], int]] = {}
    for manifest in objects:
        for role, number, template in _templates(manifest):
            before = roles.get(role, (0, template, 0))
            env = _plain_env(_main_of(template))
            per_pod = env.get(names.ENV_PROCESSES, "")
            most = env.get(names.ENV_NODES, "").rpartition(":")[2]
            world = int(per_pod) * int(most) if per_pod.isdigit() and most.isdigit() else 0
            roles[role] = (before[0] + number, before[1], world)
    return roles


def _main_of(template: Mapping[str, Any]) -> Mapping[str, Any]:
    """The container of a release's template that trains."""
    return container_of(mapping(template, "spec"), TRAINER)


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
    spec, new_names = _with_names_here(pod, ours)
    pod = pod.with_spec(spec)
    theirs_main, ours_main = pod.main, container_of(ours, TRAINER)
    theirs, own = of_both(pod.spec, pod.container, ours)
    variables = _plain_env(theirs_main) | dict(pod.env)
    folder = commands.read(_words(theirs_main), (), variables).working_dir
    if folder and own.get("workingDir") == folder:
        theirs["workingDir"] = folder
    for kind, key, value in _labels(pod.template):
        theirs[f"{kind} {key}"] = value
        own_key = container_names.renamed_key(key, new_names)
        own[f"{kind} {key}"] = mapping(template, "metadata", f"{kind}s").get(own_key)
    workload = "mpi" if role == names.ROLE_LAUNCHER else "torchrun"
    for name, value in _exports(texts(ours_main.get("args"))):
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
    if role != "worker" or not _waits(_words(theirs_main)):
        yield from _command(role, pod, theirs_main, ours_main)


def _with_names_here(
    pod: original.OriginalPod, ours: Mapping[str, Any]
) -> tuple[Mapping[str, Any], dict[str, str]]:
    """An original PodSpec with the names that its containers have here, and these by the old ones.

    The one that trains is the trainer here, and another that had this name has one that begins
    with it.
    """
    main = text(pod.main, "name")
    new_names = {main: TRAINER} if main not in ("", TRAINER) else {}
    of_kinds = {}
    for key in containers.KINDS if new_names else ():
        before, after = (
            {text(item, "name") for item in items(spec, key)} for spec in (pod.spec, ours)
        )
        others = sorted(name for name in after - before if name.startswith(f"{TRAINER}-"))
        is_gone = TRAINER in before and (key == "containers" or TRAINER not in after)
        if is_gone and others:
            of_kinds[key] = new_names[TRAINER] = others[0]
    renamed: dict[str, Any] = container_names.renamed(pod.spec, new_names)
    for key, name in of_kinds.items():
        for item in items(renamed, key):
            if item.get("name") == TRAINER:
                item["name"] = name
    return renamed, new_names


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
    command = local_ranks.of_image(program.command, str(theirs.get("image") or ""))
    own = tuple(references.put_in(word, {}) for word in command)
    their_words = own if program.runner is commands.Runner.TORCHRUN else words
    # Where a chart has a setup, a script may be one and its last command; a role has none.
    is_split = program.setup or program.working_dir or own != words
    forms = (their_words, own) if is_split else (their_words,)
    first = f"{pod.name.rpartition('-')[0]}-0"
    forms = (*forms, tuple(pod_names.with_address(their_words, first)))
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
        shown = (commands.as_shell(side) or _NONE for side in (their_words, args))
        yield Difference(role, "command", *shown)


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


def _plain_env(container: Mapping[str, Any]) -> dict[str, str]:
    """The variables whose text is known, as the container gets them."""
    values: dict[str, str] = {}
    for entry in items(container, "env"):
        if "valueFrom" not in entry:
            value = as_text(entry.get("value"))
            values[str(entry.get("name"))] = references.put_in(value, values)
    return values


def _shown(value: Any) -> str:
    """A value as a person reads it: maps and lists as JSON, parts that are there one by one."""
    if value is None:
        return _NONE
    if isinstance(value, tuple):
        return ", ".join(_shown(part) for part in value if part) or _NONE
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value)
