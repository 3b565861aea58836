"""What the kinds of Kubeflow v1 share: the run policy, and how often a pod may fail."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from allranks.convert.verdicts import MANAGED_BY, Outcome, Rule, carried, changed, dotted
from allranks.errors import InputError
from allranks.humanize import list_some
from allranks.k8s import fields as k8s

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from allranks.convert.verdicts import FieldPath, Fields

_CLEAN = "what has finished stays with its Job, holds nothing, and goes with it"
_CLEAN_NONE = f"{_CLEAN}; a pod that still works when the run is done is ended"
# A priority that the old controller gave to the PodGroup, which is where Volcano looks for it.
OF_PODS_TOO = "the pods have it, and not their PodGroup alone"
# What a gang has, whose least number of pods the object said.
_GANG = "a gang has all pods of the job"
_GANG_OF_MPI = "a gang has the workers; the launcher is outside of it"
# What becomes of a `runPolicy`; read with its path in front.
RUN_POLICY: tuple[Rule, ...] = (
    changed("cleanPodPolicy", "", _CLEAN),
    carried("ttlSecondsAfterFinished", "runPolicy.ttlSecondsAfterFinished"),
    carried("activeDeadlineSeconds", "runPolicy.activeDeadlineSeconds"),
    carried("backoffLimit", "runPolicy.backoffLimit"),
    carried("suspend", "runPolicy.suspend"),
    MANAGED_BY,
    changed("schedulingPolicy.minAvailable", "scheduling.dialect", _GANG),
    carried("schedulingPolicy.queue", "queue"),
    changed("schedulingPolicy.minResources.**", "", "the scheduler adds up what the pods ask"),
    changed("schedulingPolicy.priorityClass", "scheduling.priorityClassName", OF_PODS_TOO),
    carried("schedulingPolicy.scheduleTimeoutSeconds", "scheduling.gangTimeoutSeconds"),
)
# Exit codes that were no reason to try again, under the restart policy ExitCode.
PERMANENT = tuple(range(1, 128))
_NEVER = (
    "without a restartPolicy in a replica spec (that of its template counts for nothing) it is "
    "Never to the old operator: the job fails with its first pod that does, as it did; set "
    "runPolicy.backoffLimit to try again"
)
_FOR_EVER = (
    "no replica spec gives a restartPolicy (that of a template counts for nothing), which the old "
    "operator takes for OnFailure: containers were "
    "restarted for ever; here a pod that fails is replaced, at most runPolicy.backoffLimit times"
)
_ALL = "runPolicy.backoffLimit is for the pods of all roles, and those of another are tried again"
_SECONDS = ("activeDeadlineSeconds", "backoffLimit")
_OF_SPEC = ("cleanPodPolicy", "ttlSecondsAfterFinished", *_SECONDS)
# Source: pkg/apis/pytorch/v1/types.go of kubeflow/pytorch-operator, and
# pkg/apis/kubeflow.org/v1/pytorch_types.go of kubeflow/training-operator.
_OLD_PLACE = (
    "the first operators of Kubeflow read {} under spec, as here; the training operator reads "
    "runPolicy alone, and took no notice"
)


def run_policy_at(prefix: str) -> tuple[Rule, ...]:
    """`RUN_POLICY` at a path."""
    return tuple(rule.below(prefix) for rule in RUN_POLICY)


def run_policy(fields: Fields, path: FieldPath) -> None:
    """Carry a run policy.

    Args:
        fields: the object.
        path: where it stands.
    """
    old_keys = [key for key in _OF_SPEC if path == ("spec",) and fields.has(*path, key)]
    if old_keys and fields.text("apiVersion").endswith("/v1"):
        fields.note(_OLD_PLACE.format(list_some(old_keys, len(_OF_SPEC))))
    for key in (*_SECONDS, "ttlSecondsAfterFinished"):
        amount = fields.number(*path, key)
        if amount is not None and amount < 0:
            fields.leave((*path, key), f"it is {amount}, and 0 is the least that it may be")
        elif amount is not None and key in _SECONDS:
            fields.carry((*path, key), ("runPolicy", key), amount)
    if fields.get(*path, "cleanPodPolicy") == "None":
        fields.change((*path, "cleanPodPolicy"), _CLEAN_NONE)
    ttl = fields.number(*path, "ttlSecondsAfterFinished")
    if ttl is not None and ttl >= 0:
        why = "" if ttl else "0 keeps a job here; after one second is the least"
        fields.carry(
            (*path, "ttlSecondsAfterFinished"),
            ("runPolicy", "ttlSecondsAfterFinished"),
            ttl or 1,
            why,
        )
    if isinstance(fields.get(*path, "suspend"), bool):
        fields.carry((*path, "suspend"), ("runPolicy", "suspend"))
    scheduling: FieldPath = (*path, "schedulingPolicy")
    queue = fields.values.get("queue")
    if queue and fields.text(*scheduling, "queue") not in ("", queue):
        dialect = fields.values.get("scheduling", {}).get("dialect", "none")
        fields.leave(
            (*scheduling, "queue"), f"the label's queue {queue}, of {dialect}, is the run's"
        )
    elif fields.text(*scheduling, "queue"):
        if fields.values.get("scheduling", {}).get("dialect", "none") == "none":
            fields.put(("scheduling", "dialect"), "volcano")
            fields.note(_GUESS)
        fields.carry((*scheduling, "queue"), ("queue",))
    gang_of_workers(fields, (*scheduling, "minAvailable"))
    to = ("scheduling", "priorityClassName")
    fields.carry((*scheduling, "priorityClass"), to, why=OF_PODS_TOO)
    seconds: FieldPath = (*scheduling, "scheduleTimeoutSeconds")
    if fields.values.get("scheduling", {}).get("dialect", "none") == "none":
        why = "without a scheduling dialect nothing waits for a gang"
        fields.change(seconds, why, "scheduling.gangTimeoutSeconds")
    else:
        fields.carry(seconds, ("scheduling", "gangTimeoutSeconds"))


_GUESS = (
    "a schedulingPolicy names no scheduler: that its queue is one of Volcano's, as "
    "scheduling.dialect says here, is a guess; set the dialect that the cluster has"
)


def leaves_pods(fields: Fields) -> bool:
    """Whether nothing says what becomes of the pods that still work when the job is done.

    The training operator leaves them; the older operator of TFJobs alone ended them.

    Args:
        fields: the object.
    """
    places = (("spec", "cleanPodPolicy"), ("spec", "runPolicy", "cleanPodPolicy"))
    if any(fields.text(*place) for place in places):
        return False
    # Source: pkg/apis/tensorflow/v1alpha2/defaults.go and v1beta1, v1beta2 of tf-operator.
    is_old = fields.text("apiVersion").rpartition("/")[2] not in ("", "v1")
    return not (is_old and fields.text("kind") == "TFJob")


def has_idle_launcher(values: Mapping[str, Any]) -> bool:
    """Whether a job is a launcher without ranks beside workers, which alone are a gang.

    Args:
        values: the values of the job.
    """
    own = k8s.mapping(values, "mpi")
    return bool(own.get("numWorkers")) and not own.get("runLauncherAsWorker")


def gang_of_workers(fields: Fields, *paths: FieldPath) -> None:
    """Say of how many pods a gang needs that a launcher without ranks is none of them.

    Args:
        fields: the object, converted.
        paths: the fields that say how many.
    """
    if has_idle_launcher(fields.values):
        for path in paths:
            fields.change(path, _GANG_OF_MPI, "scheduling.dialect")


def restart_policies(fields: Fields, paths: Sequence[FieldPath], *, is_never: bool = False) -> None:
    """Carry the restart policies of all roles, of which a run has one.

    Where the pods of one role are tried again and those of another are not, all are tried again.

    Args:
        fields: the object.
        paths: the policies.
        is_never: whether the operator takes a policy that is not there for Never.
    """
    never = [
        path
        for path in paths
        if (policy := fields.get(*path)) == "Never" or (policy is None and is_never)
    ]
    is_mixed = 0 < len(never) < len(paths)
    has_limit = "backoffLimit" in fields.values.get("runPolicy", {})
    if not is_never and not has_limit and all(fields.get(*path) is None for path in paths):
        fields.note(_FOR_EVER)
    for path in paths:
        if not is_mixed or path not in never:
            restart_policy(fields, path, is_never=is_never)
        elif fields.get(*path) is None:
            fields.note(f"{dotted(path)} is not there, which is Never to the old operator: {_ALL}")
        else:
            fields.leave(path, _ALL)


def restart_policy(
    fields: Fields, path: FieldPath, *, gives_up: bool = True, is_never: bool = False
) -> None:
    """Carry a replica spec's restart policy, which says whether a pod that failed is tried again.

    Args:
        fields: the object.
        path: the policy.
        gives_up: whether Never means that the job fails with the pod.
        is_never: whether the operator takes a policy that is not there for Never.
    """
    policy = fields.get(*path)
    limit = fields.values.get("runPolicy", {}).get("backoffLimit")
    if policy == "Never":
        fields.say(path, Outcome.CARRIED, "runPolicy.backoffLimit")
        if gives_up:
            _give_up(fields, path)
    elif policy is None and is_never:
        _give_up(fields)
        if limit is None:
            fields.note(_NEVER)
    elif policy == "ExitCode":
        fields.put(("runPolicy", "fatalExitCodes"), list(PERMANENT), path)
        why = "codes from 1 to 127 are not tried again"
        if limit is None:
            why += ", and others as often as runPolicy.backoffLimit says, which was for ever"
        fields.change(path, why, "runPolicy.fatalExitCodes")
    elif policy is not None:
        why = "a pod that fails is replaced, at most so many times; the old operator restarted its "
        why += "container" + (", without a limit" if limit is None and gives_up else "")
        fields.change(path, why, "runPolicy.backoffLimit")


def _give_up(fields: Fields, path: FieldPath = ()) -> None:
    """Have the job fail with its first pod that does.

    The operator looks at its limit only where it makes a pod anew, which it does not with Never.

    Args:
        fields: the object.
        path: the policy; () where it is not there.
    """
    for limit in fields.sources_of(_LIMIT):
        if limit[-1] == "backoffLimit" and fields.number(*limit):
            fields.change(limit, _GIVES_UP, _LIMIT)
    fields.put(("runPolicy", "backoffLimit"), 0, path)


_LIMIT = "runPolicy.backoffLimit"
_GIVES_UP = (
    "with restartPolicy Never the job fails with its first pod that does, whatever this says"
)


def refuse_more_masters(fields: Fields, path: FieldPath) -> None:
    """Refuse a job of several masters, as its operator does.

    Source: pkg/webhooks of the training operator, "There must be only 1 master replica".

    Args:
        fields: the object.
        path: the master's spec.

    Raises:
        InputError: it has several.
    """
    count = fields.number(*path, "replicas") if fields.mapping(*path) else None
    if count is not None and count > 1:
        raise InputError(
            f"it has {count} masters, and its operator refuses more than one",
            path=dotted((*path, "replicas")),
            hint="write 1 here, and the others as workers",
        )


def refuse_old(fields: Fields) -> None:
    """Refuse an object of a version whose roles were a list.

    Args:
        fields: the object.

    Raises:
        InputError: it is one.
    """
    if isinstance(fields.get("spec", "replicaSpecs"), list):
        raise InputError(
            f"replicaSpecs is a list, as it was in kubeflow.org/v1alpha1 of {fields.text('kind')}",
            path="spec.replicaSpecs",
            hint="write the object as one of kubeflow.org/v1, where each role has a key of its own",
        )
