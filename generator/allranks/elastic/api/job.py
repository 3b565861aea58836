"""Reading an ElasticJob, whatever program wrote it.

Jobs come from charts, from kubectl and from years of samples: fields are missing, spelled in two
ways, or hold what their names do not say. Nothing here raises: what cannot be read is as good as
absent, and a sentence in `problems` says so.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

from allranks import names
from allranks.elastic import resources
from allranks.elastic.api import unknown_fields
from allranks.elastic.target import DesiredState
from allranks.humanize import shorten
from allranks.k8s import ranges
from allranks.k8s.fields import count, digits, items, mapping, number, text, when
from allranks.status.replica_specs import replica_specs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from allranks.elastic.resources import ResourceAmounts
    from allranks.k8s.manifest import Manifest

ALLREDUCE_STRATEGY, PS_STRATEGY = "AllreduceStrategy", "ParameterServerStrategy"
_STRATEGIES = {
    kind.lower(): kind for kind in (ALLREDUCE_STRATEGY, PS_STRATEGY, "CustomStrategy", "Local")
}
_MAIN = ("main", "trainer")  # names of the container that trains
_RESTARTS = 3  # what a job gets that does not say how often its pods are replaced

MasterKind = Literal["own", "given", "external"]
RelaunchBy = Literal["watcher", "master"]
_MASTERS: Mapping[str, MasterKind] = {"own": "own", "given": "given", "external": "external"}
_RELAUNCHERS: Mapping[str, RelaunchBy] = {"watcher": "watcher", "master": "master"}


@dataclass(frozen=True, slots=True)
class ReplicaSpec:
    """The specification of one replica type.

    Attributes:
        type: ``worker``, ``ps``, ``chief``, ``evaluator``, ``dlrover-master``, ...
        replicas: how many pods; None where the master decides.
        min: the fewest; None for no bound (`minReplicas`).
        max: the most; None for no bound (`maxReplicas`).
        restart_count: how often the pod of a rank is replaced after failures.
        restart_policy: ``Always``, ``OnFailure``, ``Never`` or ``ExitCode``; "" for none given.
        restart_timeout: seconds a pod may stay pending; 0 for no limit.
        auto_scale: whether the master may change the number.
        priority: ``high``, ``low`` or a share of pods that is high, such as ``0.5``.
        batch_scheduler: ``default`` or ``volcano``; "" for none given.
        template: the pod template; None where there is none.
    """

    type: str
    replicas: int | None = None
    min: int | None = None
    max: int | None = None
    restart_count: int = _RESTARTS
    restart_policy: str = ""
    restart_timeout: int = 0
    auto_scale: bool = True
    priority: str = ""
    batch_scheduler: str = ""
    template: Manifest | None = None


@dataclass(frozen=True, slots=True)
class ElasticJob:
    """A job whose pods come and go by plans.

    Attributes:
        name: its name.
        namespace: its namespace.
        uid: its uid.
        generation: of its spec; goes up with each edit.
        resource_version: of the whole object.
        strategy: how its pods train together; "" for none given.
        optimize_mode: ``manual``, ``single-job`` or ``cluster``; "" for none given.
        brain_service: the address of a service that advises the master; "" for none.
        limits: the most of each resource that all trainers together get.
        envs: environment of all pods, by name: Kubernetes' EnvVar objects.
        suspend: whether it is to have no pods.
        replicas: by replica type, the master's own among them.
        labels: its labels.
        annotations: its annotations.
        deleting: whether it is being deleted.
        created_at: seconds since the epoch.
        master: who leads: ``own`` is `allranks-master`, ``given`` the job's own template,
            ``external`` a process elsewhere, for which no pod is made.
        relaunch: who replaces failed pods.
        exit_code: how an external master ended; None while it has not.
        status: its whole status.
        target: read from the status.
        observed: the `replicas` of the spec that were last applied, by type; None for never.
        problems: what could not be read, in sentences.
    """

    name: str
    namespace: str
    uid: str
    generation: int = 0
    resource_version: str = ""
    strategy: str = ""
    optimize_mode: str = ""
    brain_service: str = ""
    limits: ResourceAmounts | None = None
    envs: Mapping[str, Manifest] = field(default_factory=dict)
    suspend: bool = False
    replicas: Mapping[str, ReplicaSpec] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    deleting: bool = False
    created_at: float = 0.0
    master: MasterKind = "own"
    relaunch: RelaunchBy = "watcher"
    exit_code: int | None = None
    status: Mapping[str, Any] = field(default_factory=dict)
    target: DesiredState = field(default_factory=DesiredState)
    observed: Mapping[str, int] | None = None
    problems: tuple[str, ...] = ()

    @property
    def trainers(self) -> Mapping[str, ReplicaSpec]:
        """The replica types other than the master."""
        return {kind: spec for kind, spec in self.replicas.items() if kind != names.EDL_MASTER}

    @property
    def requested(self) -> dict[str, int]:
        """The number of pods that the spec asks for, by type, where it sets one."""
        return {
            kind: spec.replicas for kind, spec in self.trainers.items() if spec.replicas is not None
        }

    @property
    def workers_alone(self) -> bool:
        """Whether all pods are equal workers: none of them is a chief or an evaluator."""
        return self.strategy == ALLREDUCE_STRATEGY

    @property
    def parameter_servers(self) -> bool:
        """Whether it trains with parameter servers."""
        return self.strategy == PS_STRATEGY


def read(job: Manifest) -> ElasticJob:
    """Read an ElasticJob.

    Args:
        job: the object, as the API server gives it.
    """
    problems: list[str] = []
    metadata, spec, status = mapping(job, "metadata"), mapping(job, "spec"), mapping(job, "status")
    annotations = _strings(metadata.get("annotations"))
    problems.extend(unknown_fields.fields(spec, unknown_fields.JOB))
    replicas = _replicas(spec.get("replicaSpecs"), problems)
    master = _master(annotations, replicas, problems)
    if master == "given" and names.EDL_MASTER in replicas:
        where = (text(metadata, "name"), text(metadata, "namespace"))
        template = replicas[names.EDL_MASTER].template
        problems.extend(contradictions(template, *where))
    return ElasticJob(
        name=text(metadata, "name"),
        namespace=text(metadata, "namespace"),
        uid=text(metadata, "uid"),
        generation=count(metadata, "generation"),
        resource_version=text(metadata, "resourceVersion"),
        strategy=_strategy(spec.get("distributionStrategy"), problems),
        optimize_mode=text(spec, "optimizeMode"),
        brain_service=text(spec, "brainService"),
        limits=resources.read(spec.get("resourceLimits"), "resourceLimits", problems),
        envs=_envs(spec.get("envs"), problems),
        # One path of the master that these jobs were made for reads "suspended".
        suspend=spec.get("suspend") is True or spec.get("suspended") is True,
        replicas=replicas,
        labels=_strings(metadata.get("labels")),
        annotations=annotations,
        deleting=bool(metadata.get("deletionTimestamp")),
        created_at=when(metadata, "creationTimestamp") or 0.0,
        master=master,
        relaunch=_relaunch(annotations, master, problems),
        exit_code=_exit_code(annotations, problems),
        status=status,
        target=DesiredState.read(status.get("target")),
        observed=_observed_counts(status),
        problems=tuple(problems),
    )


def _replicas(data: Any, problems: list[str]) -> dict[str, ReplicaSpec]:
    specs: dict[str, ReplicaSpec] = {}
    for kind, (value, keys) in replica_specs(data).items():
        if len(keys) > 1:
            problems.append(
                f"replicaSpecs has {kind} in {len(keys)} spellings, of which {keys[0]} alone "
                f"counts; put all of it into one that is called {kind}"
            )
        if not isinstance(value, dict):
            problems.append(f"replicaSpecs.{keys[0]} is {shorten(value)}, not an object")
        else:
            specs[kind] = _spec(kind, value, problems)
    if data is not None and not isinstance(data, dict):
        problems.append(f"replicaSpecs is {shorten(data)}, not an object")
    return specs


def _spec(kind: str, data: Mapping[str, Any], problems: list[str]) -> ReplicaSpec:
    where = f"replicaSpecs.{kind}"
    problems.extend(unknown_fields.fields(data, unknown_fields.REPLICA, where))
    # Zero is Go's word for a bound that is not set.
    least = _number(data, "minReplicas", where, problems) or None
    most = _number(data, "maxReplicas", where, problems) or None
    if least is not None and most is not None and least > most:
        problems.append(f"{where}: minReplicas {least} is above maxReplicas {most}; {most} holds")
        least = most
    restarts = _number(data, "restartCount", where, problems)
    template = data.get("template")
    return ReplicaSpec(
        type=kind,
        replicas=_number(data, "replicas", where, problems),
        min=least,
        max=most,
        restart_count=_RESTARTS if restarts is None else restarts,
        restart_policy=text(data, "restartPolicy"),
        restart_timeout=_number(data, "restartTimeout", where, problems) or 0,
        auto_scale=data.get("autoScale") is not False,
        priority=str(data.get("priority") or ""),
        batch_scheduler=text(data, "BatchScheduler") or text(data, "batchScheduler"),
        template=template if isinstance(template, dict) and template else None,
    )


def _number(data: Mapping[str, Any], key: str, where: str, problems: list[str]) -> int | None:
    value = data.get(key)
    whole = number(value)
    if whole is None:
        if value is not None:
            problems.append(f"{where}.{key} is {shorten(value)}, not a whole number")
        return None
    if not 0 <= whole <= ranges.LIMIT:
        problems.append(f"{where}.{key} is {whole}; 0 to {ranges.LIMIT} is allowed")
        return None
    return whole


def _strategy(value: Any, problems: list[str]) -> str:
    if not isinstance(value, str) or not value:
        return ""
    strategy = _STRATEGIES.get(value.lower())
    if strategy is None:
        problems.append(f"distributionStrategy {shorten(value)} is not known here")
    return strategy or value


def _envs(data: Any, problems: list[str]) -> dict[str, Manifest]:
    """Return EnvVars by name, from a list as pods have it or from a plain map."""
    pairs: list[tuple[str, Any]] = []
    if isinstance(data, dict):
        pairs = [(str(key), value) for key, value in data.items()]
    elif isinstance(data, list):
        pairs = [(text(entry, "name"), entry) for entry in data if isinstance(entry, dict)]
    envs: dict[str, Manifest] = {}
    for key, value in pairs:
        if isinstance(value, dict) and (text(value, "name") or key):
            name = text(value, "name") or key
            envs[name] = {**value, "name": name}
        elif isinstance(value, str) and key:
            envs[key] = {"name": key, "value": value}
        else:
            problems.append(f"envs.{key} is {shorten(value)}, not an environment variable")
    return envs


def _master(
    annotations: Mapping[str, str], replicas: Mapping[str, ReplicaSpec], problems: list[str]
) -> MasterKind:
    spec = replicas.get(names.EDL_MASTER)
    default: MasterKind = "given" if spec is not None and spec.template is not None else "own"
    value = annotations.get(names.MASTER, "")
    if value in _MASTERS:
        return _MASTERS[value]
    if value:
        problems.append(
            f"annotation {names.MASTER} is {shorten(value)}; own, given and external are allowed"
        )
    return default


def _relaunch(
    annotations: Mapping[str, str], master: MasterKind, problems: list[str]
) -> RelaunchBy:
    value = annotations.get(names.RELAUNCH, "")
    if value in _RELAUNCHERS:
        return _RELAUNCHERS[value]
    if value:
        problems.append(
            f"annotation {names.RELAUNCH} is {shorten(value)}; watcher and master are allowed"
        )
    return "watcher" if master == "own" else "master"


def _exit_code(annotations: Mapping[str, str], problems: list[str]) -> int | None:
    value = annotations.get(names.MASTER_EXIT_CODE)
    if value is None:
        return None
    code = digits(value.removeprefix("-"))
    if code is None:
        problems.append(f"annotation {names.MASTER_EXIT_CODE} is {shorten(value)}, not a number")
    return code


def _observed_counts(status: Mapping[str, Any]) -> dict[str, int] | None:
    # An empty map is not stored: a job that was looked at before had no counts then.
    if not isinstance(status.get("observedReplicas"), dict) and "observedGeneration" not in status:
        return None
    return {
        key: value
        for key, value in mapping(status, "observedReplicas").items()
        if isinstance(value, int) and not isinstance(value, bool)
    }


def _strings(value: Any) -> dict[str, str]:
    return {key: entry for key, entry in mapping(value).items() if isinstance(entry, str)}


_NAME, _NAMESPACE = "--job_name", "--namespace"
# What the shell, or the kubelet, fills in is not known here.
_FILLED_IN = "$"


def contradictions(template: Any, name: str, namespace: str) -> Iterator[str]:
    """Yield a sentence for each option of the master's command that names another job.

    Args:
        template: of the master's pod.
        name: the job's.
        namespace: the job's; "" where it is not known.
    """
    options = dict(_options(_words(template)))
    for option, own in ((_NAME, name), (_NAMESPACE, namespace)):
        value = options.get(option, "")
        if own and value and _FILLED_IN not in value and value != own:
            yield (
                f"the master's command says {option} {value}, and this job's is {own}: "
                f"it would lead another job; write {option} {own}"
            )


def _words(template: Any) -> list[str]:
    """Return the words of a master's command, including those of a shell script in it."""
    containers = items(mapping(template, "spec"), "containers")
    if not containers:
        return []
    container = containers[main_index(containers)]
    words: list[str] = []
    for key in ("command", "args"):
        command = container.get(key)
        for word in command if isinstance(command, list) else ():
            words += _split(word) if isinstance(word, str) else []
    return words


def _split(word: str) -> list[str]:
    try:
        return shlex.split(word)
    except ValueError:  # no script that a shell could read either
        return [word]


def _options(words: list[str]) -> Iterator[tuple[str, str]]:
    for word, after in pairwise([*words, ""]):
        option, equals, value = word.partition("=")
        yield (option, value) if equals else (word, after)


def main_index(containers: Sequence[Mapping[str, Any]]) -> int:
    """Return the index of the container that trains: by its name, or else the first."""
    if len(containers) < 2:  # noqa: PLR2004 - nothing to choose from
        return 0
    called = [text(container, "name") for container in containers]
    return next((called.index(name) for name in _MAIN if name in called), 0)
