"""Volcano's Jobs as values.

A Volcano Job is a gang of tasks, each with a pod template and a number of pods. What tells its pods
of each other are plugins: ``svc`` names and host files, ``ssh`` keys, ``env`` indices, and
``pytorch``, ``tensorflow`` and ``mpi`` the variables of their frameworks. The charts do all of this
themselves.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from allranks.convert import near_words
from allranks.convert.chart_values import end_of_run, finish
from allranks.convert.jobs import configmap_scripts, pod_jobs, pod_names, run_policy
from allranks.convert.kinds import job, volcano_flags
from allranks.convert.pods import claims, pod_values, podsets
from allranks.convert.pods.claims import Claim
from allranks.convert.pods.podsets import PodSet, Shape
from allranks.convert.verdicts import (
    METADATA,
    Fields,
    Outcome,
    Rule,
    Rules,
    carried,
    changed,
    dotted,
    lost,
)
from allranks.errors import InputError
from allranks.k8s import fields as k8s

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from allranks.convert.documents.context import Context
    from allranks.convert.documents.document import Manifest
    from allranks.convert.kinds.volcano_flags import Arguments
    from allranks.convert.verdicts import Conversion, FieldPath

KIND = "Job of Volcano"
_TASKS: FieldPath = ("spec", "tasks")
_PLUGINS: FieldPath = ("spec", "plugins")
_FAILURE = (
    "a pod that fails is replaced as often as runPolicy.backoffLimit says, and the ranks start anew"
)
_OF_TRIALS = (
    "the pod of a trial that fails is replaced, as often as runPolicy.backoffLimit says, and the "
    "other trials go on"
)
_ENDS = "the job is done when its launcher, its lead or its first rank is"
_TRIALS_END = "the run is done when all of its trials are"
_GANG = "the gang has all pods of the job"
_NAMES = "the chart makes the names by which the pods find each other"
_KEYS = "the mpi chart makes the keys, and runs sshd itself"
_NO_KEYS = "its ranks meet without ssh: a program of the job's that calls it finds no key"
_RANKS = "the launcher tells each process of its rank"
_ROLES = "the chart tells each pod of the others: TF_CONFIG"
_T = "spec.tasks[]"

FIELDS: tuple[Rule, ...] = (
    *METADATA,
    carried("spec.schedulerName", "scheduling.dialect"),
    changed("spec.minAvailable", "scheduling.dialect", _GANG),
    carried("spec.volumes[].mountPath", "storage.*.mountPath"),
    carried("spec.volumes[].volumeClaimName", "storage.*.existingClaim"),
    *(rule.below("spec.volumes[].volumeClaim") for rule in claims.SPEC),
    changed(f"{_T}.name", "", "a job's pods have the roles of their workload"),
    carried(f"{_T}.replicas", "nodes, or the replicas of a role"),
    changed(f"{_T}.minAvailable", "scheduling.dialect", _GANG),
    *pod_values.fields_at(f"{_T}.template"),
    changed(f"{_T}.policies[].**", "runPolicy.backoffLimit", _FAILURE),
    lost(f"{_T}.topologyPolicy", "set the kubelet's topology manager for the nodes"),
    changed(f"{_T}.maxRetry", "runPolicy.backoffLimit", _FAILURE),
    changed(f"{_T}.dependsOn.**", "", "each pod waits for the names that it must know"),
    lost(
        f"{_T}.partitionPolicy.**",
        "scheduling.topology keeps all pods together, and no groups of them",
    ),
    changed("spec.policies[].**", "runPolicy.backoffLimit", _FAILURE),
    changed("spec.plugins.svc.**", "", _NAMES),
    changed("spec.plugins.ssh.**", "", _KEYS),
    changed("spec.plugins.env.**", "", _RANKS),
    changed("spec.plugins.pytorch.**", "", _RANKS),
    changed("spec.plugins.tensorflow.**", "", _ROLES),
    changed("spec.plugins.mpi.**", "", _KEYS),
    lost("spec.plugins.*.**", "there is no such plugin here"),
    lost("spec.runningEstimate", "no scheduler of ours is told how long a job may take"),
    carried("spec.queue", "queue"),
    changed("spec.maxRetry", "runPolicy.backoffLimit", "it counts for each pod"),
    carried("spec.ttlSecondsAfterFinished", "runPolicy.ttlSecondsAfterFinished"),
    changed("spec.priorityClassName", "scheduling.priorityClassName", run_policy.OF_PODS_TOO),
    lost("spec.minSuccess", "a job is done when its launcher is, or all of its ranks are"),
    lost(
        "spec.networkTopology.**",
        "scheduling.topology keeps the pods together, at a label of nodes",
    ),
)
_RULES = Rules(FIELDS)

# What Volcano takes where a Job does not say.
_MAX_RETRY = 3
_DEFAULT_QUEUE = "default"
_ENDING = ("CompleteJob",)
_NO_RETRY = (
    "no policy of it starts anything anew when a pod fails, and its pods' restartPolicy is Never: "
    "Volcano makes no pod anew that failed, and nor does the run{}; set runPolicy.backoffLimit to "
    "try again"
)
_FAILS_WITH_IT = (
    ", which fails with it and ends the pods that still work, where Volcano let them go on"
)
_ALWAYS = (
    "with the restartPolicy Always, which it is without one, containers were started anew for "
    "ever, those that had succeeded too; here a pod that succeeds is done, and "
    "runPolicy.backoffLimit says how often one that fails is replaced"
)
_ON_FAILURE = (
    "with the restartPolicy OnFailure a container that failed was started anew in its pod, without "
    "a limit; here the pod is replaced, at most runPolicy.backoffLimit times"
)
_EVICTED = "an evicted pod is replaced, and counts for nothing"
_EVICTED_ALONE = f"a pod that fails ends the run; {_EVICTED}, where it ended the job as well"
_IN_PLACE = (
    "its pods' restartPolicy has a container that fails started anew in its pod, so that it was no "
    "pod that failed; here the pod is replaced, at most runPolicy.backoffLimit times"
)
_NO_EVENT = "no pod has failed then, and nothing starts anew here"
# Events at which no pod has failed: what takes an evicted pod away counts nowhere here either.
_NO_FAILURE = {"PodEvicted", "PodPending", "PodRunning", "TaskCompleted", "OutOfSync"}
_GIVING_UP = ("AbortJob", "TerminateJob")
# Roles by the flags of the plugins, and how a task of each is called where no flag says.
_OF_PYTORCH = {"master": "Master", "worker": "Worker"}
_OF_MPI = {"master": "Launcher", "worker": "Worker"}
_OF_TENSORFLOW = {"chief": "Chief", "worker": "Worker", "ps": "PS", "evaluator": "Evaluator"}
_PLUGIN_ROLES = {
    "pytorch": (podsets.PYTORCH, _OF_PYTORCH),
    "mpi": (podsets.MPI, _OF_MPI),
    "tensorflow": (podsets.TENSORFLOW, _OF_TENSORFLOW),
}
_NO_MASTER = (
    "no task is called {}, as the master of the plugin pytorch is: Volcano told no pod of the "
    "others, and here the launcher tells each"
)
_UNTOLD = (
    "the pods are trials of a sweep, and are not told of each other: VC_TASK_INDEX, VC_*_HOSTS and "
    "/etc/volcano are not there for a program that reads them; start its ranks with torchrun"
)
_HOSTS = re.compile(r"/etc/volcano/|\bVC_\w+_(?:HOSTS|NUM)\b|\bMPI_HOST\b")
_TASK_INDEX = re.compile(r"\bV[CK]_TASK_INDEX\b")


def convert(manifest: Manifest, context: Context) -> Conversion:
    """A Volcano Job as values.

    Args:
        manifest: the object.
        context: what else is known.

    Raises:
        InputError: its tasks are no job that has a form here.
    """
    fields = Fields(manifest, rules=_RULES, unknown=f"a {KIND} has no such field")
    sets = _tasks(fields)
    if fields.has(*_PLUGINS, "ray"):
        raise InputError(
            "its plugin is ray: allranks starts ranks, and no Ray cluster",
            path="spec.plugins.ray",
            hint="keep Volcano for it, or run its training script with torchrun",
        )
    shape = _shape(fields, sets, context)
    policy: dict[str, FieldPath] = {"ttlSecondsAfterFinished": ("spec", "ttlSecondsAfterFinished")}
    queue = pod_jobs.convert(fields, context, shape, policy, _claims(fields))
    _scheduling(fields)
    for plugin in volcano_flags.PLUGINS:
        for place, why in _arguments(fields, plugin).ignored.items():
            fields.change((*_PLUGINS, plugin, place), why)
    gangs: list[FieldPath] = [
        ("spec", "minAvailable"),
        *((*podset.path[:-1], "minAvailable") for podset in sets),
    ]
    run_policy.gang_of_workers(fields, *gangs)
    if shape.key is None and sum(podset.replicas for podset in sets) > 1:
        _without_gang(fields, gangs)
    elif shape.key is None and fields.has(*_PLUGINS, "env"):
        for index in ("VC_TASK_INDEX", "VK_TASK_INDEX"):
            fields.put(("env", index), "0", (*_PLUGINS, "env"))
        fields.say((*_PLUGINS, "env"), Outcome.CARRIED, "env")
    deciding = shape.roles.get("Launcher", sets) if shape.key == podsets.MPI else sets
    keys = _KEYS if shape.key == podsets.MPI else _NO_KEYS
    for plugin, why in (("svc", _NAMES), ("ssh", keys), ("env", _RANKS)):
        is_bare = fields.get(*_PLUGINS, plugin) == []  # without options it is there as well
        if shape.key is not None and (is_bare or plugin == "ssh"):
            fields.change((*_PLUGINS, plugin), why)
    _policies(fields, sets, deciding)
    _check_files(fields, sets, shape)
    name = fields.text("metadata", "name")
    pod_names.put_right(
        fields, sets, [f"{name}-{podset.name}" for podset in sets], f"{name}-{sets[0].name}-0"
    )
    pod_names.note_service(fields, name)
    return finish.conversion(fields, queue=queue)


def _tasks(fields: Fields) -> list[PodSet]:
    sets: list[PodSet] = []
    for index, _ in fields.items(*_TASKS):
        here: FieldPath = (*_TASKS, index)
        if any(podset.name == fields.text(*here, "name") for podset in sets):
            raise InputError(
                "a second task has this name, and Volcano refuses it",
                path=dotted((*here, "name")),
                hint="give each task a name of its own",
            )
        podset = job.replicas_of(fields, here, fields.text(*here, "name") or f"default{index}")
        if podset.replicas == 0:
            fields.change(here, "it has no pods")
        else:
            sets.append(podset)
    if isinstance(fields.get("spec", "tasks"), dict):
        raise InputError(
            "a mapping stands there, and Volcano takes a list of tasks",
            path="spec.tasks",
            hint="begin each task with a -",
        )
    if not sets:
        raise InputError("there are no tasks", path="spec.tasks", hint="write the whole object")
    return sets


def _shape(fields: Fields, sets: Sequence[PodSet], context: Context) -> Shape:
    """What the plugins say that the job is, else what its tasks run."""
    for plugin, (key, flags) in _PLUGIN_ROLES.items():
        if not isinstance(fields.get(*_PLUGINS, plugin), list):
            continue
        values = _arguments(fields, plugin).values
        role_by_task = {values.get(flag, flag): role for flag, role in flags.items()}
        roles = {
            role_by_task[podset.name]: (podset,) for podset in sets if podset.name in role_by_task
        }
        others = [podset.name for podset in sets if podset.name not in role_by_task]
        if others:
            raise InputError(
                f"the plugin {plugin} does not know the task {others[0]}",
                path="spec.tasks",
                hint=f"name it one of {', '.join(sorted(role_by_task))}, or leave it out",
            )
        if "Worker" in roles or "Master" in roles:
            port = values.get("port", "")
            if port and plugin != "mpi":
                fields.note(f"the plugin {plugin} had port {port}; the chart has its own")
            if plugin == "pytorch" and "Master" not in roles:
                fields.note(_NO_MASTER.format(values.get("master", "master")))
            return Shape(key, roles)
    return configmap_scripts.shape(fields, sets, KIND, context)


def _arguments(fields: Fields, plugin: str) -> Arguments:
    """What Volcano reads of the arguments of a plugin."""
    return volcano_flags.read(plugin, fields.words(*_PLUGINS, plugin))


def _claims(fields: Fields) -> list[Claim]:
    result = []
    for index, volume in fields.items("spec", "volumes"):
        here: FieldPath = ("spec", "volumes", index)
        claim_name = (
            ""
            if isinstance(volume.get("volumeClaim"), dict)
            else fields.text(*here, "volumeClaimName")
        )
        claim = Claim(
            claim_name or f"volume {index + 1}",
            here if claim_name else (*here, "volumeClaim"),
            existing=claim_name,
            mount_path=fields.text(*here, "mountPath"),
        )
        result.append(claim)
    return claims.movable(fields, result)


def _scheduling(fields: Fields) -> None:
    scheduler = fields.text("spec", "schedulerName")
    fields.keep(("spec", "schedulerName"), "scheduling.dialect")
    if scheduler in ("", "volcano"):
        fields.put(("scheduling", "dialect"), "volcano", ("spec", "schedulerName"))
    elif pod_values.SCHEDULERS.get(scheduler) is not None:
        fields.put(("scheduling", "dialect"), pod_values.SCHEDULERS[scheduler] or "none")
    else:
        fields.carry(("spec", "schedulerName"), ("scheduling", "schedulerName"))
    fields.carry(("spec", "queue"), ("queue",))
    to = ("scheduling", "priorityClassName")
    fields.carry(("spec", "priorityClassName"), to, why=run_policy.OF_PODS_TOO)


def _without_gang(fields: Fields, gangs: Sequence[FieldPath]) -> None:
    """Say of the trials of a sweep that none waits for the others, nor is told of them."""
    for plugin in ("env", "ssh", "svc"):
        fields.leave((*_PLUGINS, plugin), _UNTOLD)
    for path in gangs:
        if (fields.number(*path) or 0) > 1:
            fields.leave(path, "the pods are trials of a sweep, and each starts where it has room")


def _is_sweep(fields: Fields) -> bool:
    return bool(fields.values.get("workload") == "sweep")


def _say_of_restart(
    fields: Fields, policy: FieldPath, events: Collection[str], *, is_of_failure: bool
) -> None:
    """Say what becomes of a policy that restarts tasks or the job."""
    if not is_of_failure:
        fields.change(policy, _EVICTED if "PodEvicted" in events else _NO_EVENT)
    elif _is_sweep(fields):
        fields.change(policy, _OF_TRIALS, "runPolicy.backoffLimit")


def _policies(fields: Fields, sets: Sequence[PodSet], deciding: Sequence[PodSet]) -> None:
    """What becomes of a job when a pod of it fails or ends.

    Args:
        fields: the object.
        sets: its tasks.
        deciding: those whose failed pods fail the job: an MPI job's launcher, or all.
    """
    retries = fields.number("spec", "maxRetry")
    times = _MAX_RETRY if retries is None else retries
    fatal = []
    starts_anew = gives_up = ends_early = False
    places: list[tuple[FieldPath, Sequence[PodSet]]] = [(("spec", "policies"), deciding)]
    places += [((*podset.path[:-1], "policies"), [podset]) for podset in sets]
    for place, ruled in places:
        for index, policy in fields.items(*place):
            events = {*fields.words(*place, index, "events"), str(policy.get("event") or "")} - {""}
            action, code = policy.get("action"), policy.get("exitCode")
            here: FieldPath = (*place, index)
            _check_words(here, policy)
            is_of_failure = not events or not events <= _NO_FAILURE
            restarts_something = str(action).startswith("Restart")
            starts_anew |= restarts_something and is_of_failure
            if restarts_something:
                _say_of_restart(fields, here, events, is_of_failure=is_of_failure)
            if isinstance(code, int) and action in _GIVING_UP and code in job.EXIT_CODES:
                fatal.append(code)
                fields.say(here, Outcome.CARRIED, "runPolicy.fatalExitCodes")
            elif events & {"PodFailed", "*"} and action in _GIVING_UP:
                gives_up |= _gives_up(fields, here, events, ruled)
            elif "TaskCompleted" in events and action in _ENDING:
                ends_early = True
                fields.change(here, _TRIALS_END if _is_sweep(fields) else _ENDS)
            elif policy.get("timeout"):
                fields.leave((*here, "timeout"), "no event waits here")
    if not ends_early:
        end_of_run.note(fields, "no policy of the Job ends it before all of its pods have")
    restarts = _restart_policies(fields, deciding)
    if restarts - {"Never"}:
        fields.note(_ALWAYS if restarts & {"", "Always"} else _ON_FAILURE)
    is_unanswered = restarts <= {"Never"} and not starts_anew
    if is_unanswered and times and not gives_up:
        fields.note(_NO_RETRY.format("" if _is_sweep(fields) else _FAILS_WITH_IT))
    if is_unanswered or gives_up:
        times = 0
        fields.change(("spec", "maxRetry"), "nothing is tried again that it would count")
    job.retry(fields, times, ("spec", "maxRetry"))
    if fatal:
        fields.put(("runPolicy", "fatalExitCodes"), sorted(set(fatal)))


# Source: pkg/apis/bus/v1alpha1 of volcano.sh/apis, and its admission, which refuses others.
_EVENTS = (
    *("*", "PodFailed", "PodEvicted", "PodPending", "PodRunning", "Unknown", "TaskCompleted"),
    *("TaskFailed", "OutOfSync", "CommandIssued", "JobUpdated", "JobUnknown"),
)
_ACTIONS = (
    *("AbortJob", "RestartJob", "RestartTask", "RestartPod", "RestartPartition", "TerminateJob"),
    *("CompleteJob", "ResumeJob", "SyncJob", "EnqueueJob", "SyncQueue", "OpenQueue", "CloseQueue"),
)


def _check_words(here: FieldPath, policy: Mapping[str, Any]) -> None:
    """Refuse a policy whose event or action Volcano does not know."""
    entries: list[tuple[FieldPath, Any, tuple[str, ...]]] = [
        (("events", index), event, _EVENTS)
        for index, event in enumerate(k8s.texts(policy.get("events")))
    ]
    entries += [(("event",), policy.get("event"), _EVENTS)]
    entries += [(("action",), policy.get("action"), _ACTIONS)]
    for place, word, allowed in entries:
        if isinstance(word, str) and word and word not in allowed:
            near = near_words.nearest_word(word, allowed)
            kind = str(place[0]).removesuffix("s")
            raise InputError(
                f"{word!r} is no {kind} of Volcano's policies, and it refuses the Job",
                path=dotted((*here, *place)),
                hint=f"did you mean {near}?" if near else f"write one of {', '.join(allowed)}",
            )


def _gives_up(
    fields: Fields, policy: FieldPath, events: Collection[str], ruled: Sequence[PodSet]
) -> bool:
    """Whether a policy ends the job with the first program that fails; say what becomes of it."""
    if "Never" not in _restart_policies(fields, ruled):
        why = f"{_IN_PLACE}; {_EVICTED}" if "PodEvicted" in events else _IN_PLACE
        fields.change(policy, why, "runPolicy.backoffLimit")
        return False
    fields.say(policy, Outcome.CARRIED, "runPolicy.backoffLimit")
    if "PodEvicted" in events:
        fields.change(policy, _EVICTED_ALONE, "runPolicy.backoffLimit")
    return True


def _restart_policies(fields: Fields, sets: Sequence[PodSet]) -> set[str]:
    """The restart policies of pods; "" where a template has none, which is Always."""
    return {fields.text(*podset.path, "spec", "restartPolicy") for podset in sets}


def _check_files(fields: Fields, sets: Sequence[PodSet], shape: Shape) -> None:
    """Say of a program that reads what the plugins write, where nothing writes it here."""
    for podset in sets:
        for key in ("command", "args"):
            here: FieldPath = (*podset.path, "spec", "containers", podset.index, key)
            text = "\n".join(fields.words(*here))
            if shape.key == podsets.PYTORCH:  # what torchrun was told is taken off
                values = fields.values
                text = "\n".join((*values.get("command", ()), values.get("setup", "")))
            has_hosts = shape.key is None or shape.key == podsets.MPI
            reasons = [_OF_SVC] if _HOSTS.search(text) and not has_hosts else []
            is_set = "VC_TASK_INDEX" in fields.values.get("env", {})
            reasons += [_index_of(fields)] if _TASK_INDEX.search(text) and not is_set else []
            if reasons:
                fields.leave(here, "; ".join(reasons))


_OF_SVC = (
    "it reads the files or variables of the plugin svc, which are not there: read TF_CONFIG, or "
    "MASTER_ADDR and RANK"
)
_OF_ENV = "it reads the index of the plugin env, which is not there: read {}"
_INDICES = {"sweep": "COMPLETION_INDEX", "elastic": "ALLRANKS_ROLE_RANK"}


def _index_of(fields: Fields) -> str:
    """What is said of a task's index, which is the trial's, the role's or the run's here."""
    return _OF_ENV.format(_INDICES.get(str(fields.values.get("workload")), "RANK"))
