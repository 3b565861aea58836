"""A PodTemplateSpec as values, whatever controller it belongs to.

`read` takes a template apart into pieces: each is a value at the path that it has for a job whose
pods are all alike. `put` puts them there. A job with roles puts what its templates share there by
`share`, and the rest where the role has its own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from allranks.convert.pods import container_names
from allranks.convert.pods.image_names import PULLED_ONCE
from allranks.convert.pods.pod_template import (
    CONTAINER_FIELDS,
    MOVED,
    NAMED_BY_RANK,
    OF_TRAINER,
    POD_FIELDS,
    QUEUES,
    SCHEDULERS,
    SPEC,
    TRAINER,
    WHO_FAILS,
    Piece,
    PodTemplate,
    is_gpu,
    labels,
    read,
)
from allranks.convert.verdicts import (
    FieldPath,
    Fields,
    Named,
    Outcome,
    Rule,
    carried,
    changed,
    dotted,
    lost,
)
from allranks.k8s import fields as k8s
from allranks.values import reserved_env

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = [
    "FIELDS",
    "QUEUES",
    "SCHEDULERS",
    "SECURITY_NOTE",
    "TRAINER",
    "Piece",
    "PodTemplate",
    "at_role",
    "fields_at",
    "is_gpu",
    "is_set_by_job",
    "labels",
    "put",
    "read",
    "share",
]

_PULL_POLICY: FieldPath = ("image", "pullPolicy")

_C = "spec.containers[]"
# What a template's metadata may have besides labels and annotations.
_OF_CONTROLLERS = (
    *("creationTimestamp", "generateName", "namespace", "uid", "resourceVersion", "generation"),
    *("managedFields", "selfLink", "ownerReferences", "finalizers", "deletionTimestamp"),
    "deletionGracePeriodSeconds",
)
# What becomes of a pod template's fields; read with the path of the template in front.
FIELDS: tuple[Rule, ...] = (
    carried("metadata.labels.*", "podTemplate.metadata.labels"),
    carried("metadata.annotations.*", "podTemplate.metadata.annotations"),
    changed("metadata.name", "", NAMED_BY_RANK),
    *(changed(f"metadata.{key}.**", "", "the controller writes it") for key in _OF_CONTROLLERS),
    changed("apiVersion", "", "a template has none"),
    changed("kind", "", "a template has none"),
    carried(f"{_C}.image", "image"),
    carried(f"{_C}.imagePullPolicy", "image.pullPolicy"),
    changed(f"{_C}.name", "podTemplate.spec.containers[trainer]", "it is called trainer here"),
    carried(f"{_C}.command.**", "command"),
    carried(f"{_C}.args.**", "command"),
    carried(f"{_C}.workingDir", "workingDir"),
    carried(f"{_C}.env.**", "env"),
    carried(f"{_C}.envFrom.**", "envFrom"),
    changed(f"{_C}.ports.**", "", "the chart opens the ports by which its pods meet"),
    carried(f"{_C}.resources.claims.**", "podTemplate.spec.containers[trainer].resources.claims"),
    *(
        carried(f"{_C}.resources.{key}.**", "gpusPerNode, gpuResource, resources.perPod")
        for key in ("limits", "requests")
    ),
    carried(f"{_C}.volumeMounts.**", "podTemplate.spec.containers[trainer].volumeMounts"),
    carried(f"{_C}.securityContext.**", "security.containerSecurityContext"),
    *(carried(f"{_C}.{key}.**", f"podTemplate.{_C}.{key}") for key in CONTAINER_FIELDS),
    carried("spec.initContainers.**", "podTemplate.spec.initContainers"),
    carried("spec.volumes.**", "podTemplate.spec.volumes, or shm.size"),
    carried("spec.nodeSelector.**", "scheduling.nodeSelector"),
    *(carried(f"spec.{key}.**", dotted(to)) for key, to in MOVED.items()),
    carried("spec.imagePullSecrets.**", "imagePullSecrets"),
    carried("spec.hostNetwork", "network.hostNetwork"),
    carried("spec.dnsPolicy", "network.dnsPolicy"),
    carried("spec.terminationGracePeriodSeconds", "runPolicy.terminationGracePeriodSeconds"),
    carried("spec.serviceAccountName", "serviceAccount.name"),
    carried("spec.serviceAccount", "serviceAccount.name"),
    carried("spec.automountServiceAccountToken", "serviceAccount.automountToken"),
    carried("spec.schedulerName", "scheduling.dialect, or scheduling.schedulerName"),
    changed("spec.restartPolicy", "runPolicy.backoffLimit", WHO_FAILS),
    changed("spec.hostname", "", NAMED_BY_RANK),
    changed("spec.subdomain", "", "the pods are named by the release's Service"),
    changed("spec.priority", "", "the cluster writes it, from the priority class"),
    *(carried(f"spec.{key}.**", f"podTemplate.spec.{key}") for key in POD_FIELDS),
    lost("spec.ephemeralContainers.**", "a template may not have any"),
)


def fields_at(prefix: str) -> tuple[Rule, ...]:
    """`FIELDS` for a template at a path: ``spec.template``."""
    return tuple(rule.below(prefix) for rule in FIELDS)


def put(fields: Fields, pod: PodTemplate, workload: str) -> None:
    """Put a template's pieces where they are for a job whose pods are all alike.

    Args:
        fields: the object.
        pod: its template.
        workload: the chart; what it sets itself is left out.
    """
    for piece in pod.pieces:
        if not _is_ours(fields, piece, workload):
            _put(fields, piece, piece.to)
    _unrestricted(fields, [pod])


def share(fields: Fields, pods: Mapping[FieldPath, PodTemplate], workload: str) -> None:
    """Put what several templates share where it is for all pods, and the rest at their roles.

    Args:
        fields: the object.
        pods: the templates, by the path of the role's own settings: ``("mpi", "launcher")``; the
            first is the one whose resources, image and the like are the job's.
        workload: the chart; what it sets itself is left out.
    """
    first = next(iter(pods))
    shared = _shared(pods, first)
    for prefix, pod in pods.items():
        for piece in pod.pieces:
            if _is_ours(fields, piece, workload):
                continue
            is_own = prefix != first and _is_for_ranks(piece.to) and not pod.gpus
            is_shared = piece.to in shared and shared[piece.to] == piece.value and not is_own
            if is_shared and prefix != first:
                _say(fields, piece, piece.to)
            elif is_shared or (prefix == first and not _has_own(piece.to)):
                _put(fields, piece, piece.to)
                if not is_shared:
                    _note_heirs(fields, piece, pods)
            else:
                _put_at_role(fields, piece, prefix)
        _pull_as_before(fields, pod, pods[first], prefix)
    _unrestricted(fields, pods.values())


def _pull_as_before(
    fields: Fields, pod: PodTemplate, first: PodTemplate, prefix: FieldPath
) -> None:
    """Have a role's image pulled when it was, where its container leaves that to Kubernetes.

    What the job's image has would be the role's, too.
    """
    policy, image = pod.piece(_PULL_POLICY), pod.piece(("image", "repository"))
    if image is None or (policy is not None and policy.source != image.source):
        return
    own, of_first = (
        PULLED_ONCE if piece is None else piece.value
        for piece in (policy, first.piece(_PULL_POLICY))
    )
    if own != of_first:
        fields.put((*prefix, *OF_TRAINER, "imagePullPolicy"), own, image.source)


def _shared(pods: Mapping[FieldPath, PodTemplate], first: FieldPath) -> dict[FieldPath, Any]:
    shared = {piece.to: piece.value for piece in pods[first].pieces}
    for pod in pods.values():
        own = {piece.to: piece.value for piece in pod.pieces}
        shared = {to: value for to, value in shared.items() if own.get(to) == value}
    return shared


def _is_for_ranks(to: FieldPath) -> bool:
    """Whether the value that all pods share is only for those with ranks, or GPUs."""
    return to[0] in ("resources", "shm")


def _has_own(to: FieldPath) -> bool:
    """Whether each role has such a value of its own, which no other role's pods inherit."""
    return to[0] in ("env", "podTemplate") or any(to[:depth] in _OWN for depth in (1, 2))


def _note_heirs(fields: Fields, piece: Piece, pods: Mapping[FieldPath, PodTemplate]) -> None:
    """Say which roles have a value besides the one whose it was: all pods share it."""
    if piece.to[0] not in ("scheduling", "network", "imagePullSecrets"):
        return
    heirs = [
        prefix[-1]
        for prefix, pod in pods.items()
        if all(other.to != piece.to for other in pod.pieces)
    ]
    if heirs:
        fields.note(
            f"all pods of a job share {dotted(piece.to)}, so those of "
            f"{', '.join(map(str, heirs))} have it too"
        )


def _put_at_role(fields: Fields, piece: Piece, prefix: FieldPath) -> None:
    to = at_role(prefix, piece.to)
    if to is not None:
        _put(fields, piece, to)
    elif piece.to == _PULL_POLICY:
        if fields.get(*piece.source) == piece.value:
            _put(fields, piece, (*prefix, *OF_TRAINER, "imagePullPolicy"))
    elif piece.to[0] == "image":
        image = fields.get(*piece.source)
        _put(fields, replace(piece, value=image), (*prefix, *OF_TRAINER, "image"))
    elif piece.to == ("shm", "size"):
        fields.leave(piece.source, "shared memory is the workers' alone")
    else:
        fields.leave(piece.source, f"all pods of a job share {dotted(piece.to)}")


def at_role(prefix: FieldPath, to: FieldPath) -> FieldPath | None:
    """Where a role's own value stands; None where a role has none of its own.

    Args:
        prefix: the role's settings: ``("elastic", "roles", "ps")``.
        to: the path for a job whose pods are all alike.
    """
    own = _OF_ROLES.get(to[:2]) or _OF_ROLES.get(to[:1])
    if to[0] in ("env", "podTemplate"):
        return (*prefix, *to)
    if to[:2] == ("resources", "perPod"):
        return (*prefix, "resources", *to[2:])
    if own is None:
        return None
    depth = 2 if to[:2] in _OF_ROLES else 1
    return (*prefix, *own, *to[depth:])


_OF_ROLES: dict[FieldPath, FieldPath] = {
    ("scheduling", "nodeSelector"): (*SPEC, "nodeSelector"),
    **{to: (*SPEC, key) for key, to in MOVED.items()},
    ("scheduling", "schedulerName"): (*SPEC, "schedulerName"),
    ("security", "containerSecurityContext"): (*OF_TRAINER, "securityContext"),
    ("serviceAccount", "name"): (*SPEC, "serviceAccountName"),
    ("serviceAccount", "automountToken"): (*SPEC, "automountServiceAccountToken"),
    ("runPolicy", "terminationGracePeriodSeconds"): (*SPEC, "terminationGracePeriodSeconds"),
    ("workingDir",): (*OF_TRAINER, "workingDir"),
    ("envFrom",): (*OF_TRAINER, "envFrom"),
}
# Those of which a role's pods would inherit another role's: where they run, and what they may.
# A scheduler is the whole job's, and so is the priority, which the gang has.
_OWN = frozenset(_OF_ROLES) - {
    ("scheduling", "priorityClassName"),
    ("scheduling", "schedulerName"),
}


def _put(fields: Fields, piece: Piece, to: FieldPath) -> None:
    # The items of a list have a piece each, of which each has the whole list.
    is_item = isinstance(piece.value, list) and isinstance(piece.source[-1], int)
    fields.put(to, piece.value, piece.source[:-1] if is_item else piece.source)
    _say(fields, piece, to)


def _say(fields: Fields, piece: Piece, to: FieldPath) -> None:
    outcome = Outcome.CHANGED if piece.why else Outcome.CARRIED
    fields.say(piece.source, outcome, dotted(to), piece.why)
    for path in piece.names:
        fields.change(path, container_names.REASON, dotted(to))


def _is_ours(fields: Fields, piece: Piece, workload: str) -> bool:
    """Say of a variable that the job sets itself that it is left to the job."""
    name = ""
    if piece.to[:1] == ("env",) or (
        piece.to[:-1] == (*OF_TRAINER, "env") and isinstance(piece.to[-1], Named)
    ):
        name = str(piece.to[-1])
    if not name or not is_set_by_job(name, workload, k8s.mapping(fields.values, "elastic")):
        return False
    fields.change(piece.source, f"the job sets {name} itself, for each process")
    return True


def is_set_by_job(name: str, workload: str, elastic: Mapping[str, Any] | None = None) -> bool:
    """Whether a chart, or what it starts, sets a variable itself, so that nobody else may.

    Args:
        name: the variable.
        workload: the chart.
        elastic: of an elastic job, its own values.
    """
    own = elastic or {}
    mode, framework = str(own.get("mode", "")), str(own.get("framework", ""))
    is_of_agent = mode == "auto" and name in _OF_AGENT
    return is_of_agent or reserved_env.is_reserved(name, workload, mode, framework)


# What the agent of an elastic worker tells each of its processes.
_OF_AGENT = ("MASTER_ADDR", "MASTER_PORT", "LOCAL_RANK", "JOB_COMPLETION_INDEX")


def _unrestricted(fields: Fields, pods: Iterable[PodTemplate]) -> None:
    """Leave pods the rights that they have, where one does not ask for fewer; say who they are."""
    users = {_user(pod) for pod in pods if not pod.is_restricted}
    if not users:
        return
    fields.put(("security", "restricted"), value=False)
    if 0 in users:
        fields.note(_ROOT)
    elif None in users:
        fields.note(SECURITY_NOTE)
    else:
        fields.note(_NO_ROOT.format(" and ".join(map(str, sorted(filter(None, users))))))


def _user(pod: PodTemplate) -> int | None:
    """The user that a template's main container is to run as; None for the image's own."""
    for key in ("containerSecurityContext", "podSecurityContext"):
        piece = pod.piece(("security", key))
        user = k8s.at(piece.value, "runAsUser") if piece is not None else None
        if isinstance(user, int):
            return user
    return None


_ROOT = "security.restricted is false, because the manifest runs its containers as root, user 0"
_NO_ROOT = (
    "security.restricted is false, because the manifest does not ask for all that it sets "
    "(runAsNonRoot, no escalation of privileges, no capabilities, a seccompProfile); its "
    "containers run as user {}: set it to true where they need no other rights"
)
SECURITY_NOTE = (
    "security.restricted is false, because the manifest lets its containers run as the image's own "
    "user; set it to true where that is not root"
)
