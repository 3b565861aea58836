"""The pod through which a claim is filled and read: it mounts it, waits, and runs what it is asked.

It has the job's image and security and no right to anything, lives as long as the work takes, and
ends by itself where nobody ends it. The next who does the same work takes the place of what was
left behind, and shares what is new.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from allranks import names, retry
from allranks.cluster import paths
from allranks.errors import (
    ApiError,
    BusyError,
    ExistsError,
    InputError,
    NotFoundError,
    RunError,
)
from allranks.k8s.fields import at, clause, items, mapping, text, when

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from allranks.cluster.interface import KubeClient
    from allranks.k8s.manifest import Manifest
    from allranks.workspace.model import SnapshotDestination

FOLDER = "/claim"
END = "allranks-end-of-answer"
# So long it may take to start: an image may have to be pulled.
START_SECONDS = 600.0
# The pod ends after so long, whoever forgets it.
_POD_SECONDS = 1800
_CONTAINER = "fill"
# A pod of another sender is shared while it is so young; an older one was left behind.
_SHARED_SECONDS = 300.0
_GONE_SECONDS = 60.0
_ASK_SECONDS = 60.0
_PAUSE = 0.5
_TRIES = 3
_STUCK = frozenset(
    {
        *("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"),
        *("CreateContainerConfigError", "CreateContainerError", "RunContainerError"),
    }
)
_Result = TypeVar("_Result")


def digits(digest: str) -> str:
    """The digits of a digest that stand in names and labels."""
    return digest.removeprefix("sha256:")[:12]


def values_of(pod: Mapping[str, Any]) -> dict[str, Any]:
    """The values that a pod was made of."""
    container = next(iter(items(pod, "containers")), {})
    pull = [text(secret, "name") for secret in items(pod, "imagePullSecrets")]
    return {
        "image": {
            "repository": text(container, "image"),
            "pullPolicy": text(container, "imagePullPolicy"),
        },
        "imagePullSecrets": pull,
        "security": {
            "restricted": at(pod, "securityContext", "runAsNonRoot") is True,
            "podSecurityContext": mapping(pod, "securityContext"),
        },
        "scheduling": {"tolerations": items(pod, "tolerations")},
    }


def body(
    name: str,
    digests: tuple[str, str],
    destination: SnapshotDestination,
    *,
    is_read_only: bool = False,
) -> Manifest:
    """A pod that mounts a claim and waits: the job's own image, and no right to anything.

    Args:
        name: its name.
        digests: of the snapshot, and of its archive.
        destination: the claim, and the values that the job's pods are made of.
        is_read_only: whether it only reads the claim.
    """
    values = destination.pod
    is_restricted = at(values, "security", "restricted") is not False
    security: dict[str, Any] = {"seccompProfile": {"type": "RuntimeDefault"}}
    if is_restricted:
        security["runAsNonRoot"] = True
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "activeDeadlineSeconds": _POD_SECONDS,
        "terminationGracePeriodSeconds": 1,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {**security, **mapping(values, "security", "podSecurityContext")},
        "containers": [
            {
                "name": _CONTAINER,
                "image": _image(mapping(values, "image")),
                "imagePullPolicy": text(values, "image", "pullPolicy") or "IfNotPresent",
                "command": ["sh", "-c", f"exec sleep {_POD_SECONDS}"],
                "resources": {
                    "requests": {"cpu": "50m", "memory": "64Mi"},
                    "limits": {"cpu": "1", "memory": "256Mi"},
                },
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "capabilities": {"drop": ["ALL"]},
                    "readOnlyRootFilesystem": True,
                },
                "volumeMounts": [
                    {"name": "claim", "mountPath": FOLDER}
                    | ({"readOnly": True} if is_read_only else {})
                ],
            }
        ],
        "volumes": [{"name": "claim", "persistentVolumeClaim": {"claimName": destination.claim}}],
    }
    secrets = [{"name": str(name)} for name in values.get("imagePullSecrets") or ()]
    tolerations = items(values, "scheduling", "tolerations")
    spec |= {"imagePullSecrets": secrets} if secrets else {}
    spec |= {"tolerations": tolerations} if tolerations else {}
    metadata = {
        "name": name,
        "labels": {
            names.APP_MANAGED_BY: names.CLI,
            names.APP_PART_OF: names.PART_OF,
            names.WORKSPACE: digits(digests[0]),
        },
        "annotations": {
            names.WORKSPACE_DIGEST: digests[0],
            names.WORKSPACE_ARCHIVE: digests[1],
        },
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _image(image: Mapping[str, Any]) -> str:
    """The reference of an image, as the charts have it."""
    repository, digest, tag = (str(image.get(key) or "") for key in ("repository", "digest", "tag"))
    if digest:
        return f"{repository}@{digest}"
    return f"{repository}:{tag}" if tag else repository


@dataclass(slots=True)
class ClaimPod:
    """A pod that fills or reads a claim, from its start to its end.

    Attributes:
        cluster: where it runs.
        namespace: its namespace.
        body: the pod.
        claim: the claim.
        work: what it does with that, as a verb: fills, reads.
        is_begun: whether there may be a pod of ours.
    """

    cluster: KubeClient
    namespace: str
    body: Manifest
    claim: str
    work: str = "fills"
    is_begun: bool = False

    @property
    def name(self) -> str:
        """The pod's name."""
        return text(self.body, "metadata", "name")

    def complete(self, work: Callable[[], _Result]) -> _Result:
        """Do some work in the pod, and end it.

        Args:
            work: what to do with the pod that runs; once more where another who does the same
                has ended it, with their own work done.

        Raises:
            AllranksError: the cluster does not answer, forbids it, or the pod does not start; or
                what the work raises.
        """
        try:
            for number in range(1, _TRIES + 1):
                try:
                    deadline = time.monotonic() + START_SECONDS
                    self._start(deadline)
                    self._wait(deadline)
                    return work()
                except NotFoundError:
                    if number == _TRIES:
                        raise
        finally:
            self._end()
        raise AssertionError  # the loop returns or raises

    def ask(
        self, program: str, words: Sequence[str], data: bytes = b"", *, seconds: float = 0.0
    ) -> bytes:
        """The answer of a program in the pod.

        Args:
            program: a script for sh.
            words: its arguments.
            data: what it reads from its input.
            seconds: how long it may take besides the usual.

        Raises:
            NotFoundError: the pod is gone.
            RunError: it gives no whole answer in time.
            AllranksError: the cluster does not answer, or forbids it.
        """
        try:
            return self.cluster.ask(
                self.name,
                ["sh", "-c", program, "claim", *words],
                data,
                namespace=self.namespace,
                container=_CONTAINER,
                end=END.encode(),
                seconds=_ASK_SECONDS + seconds,
            )
        except ApiError:
            raise
        except RunError as error:
            self._get()  # NotFoundError where another has ended the pod meanwhile
            verb = {"fills": "filled", "reads": "read"}[self.work]
            raise RunError(
                f"claim {self.claim} could not be {verb}: {error.problem.message}",
                hint=error.problem.hint or "try again",
            ) from error

    def _end(self) -> None:
        """Delete the pod."""
        if self.is_begun:
            with suppress(ApiError):
                self.cluster.delete(paths.PODS, self.name, namespace=self.namespace)

    def _get(self) -> Manifest:
        return self.cluster.get(paths.PODS, self.name, namespace=self.namespace)

    def _start(self, deadline: float) -> None:
        """Have the pod: a new one, or that of another who sends the same now."""
        while True:
            # Set before: whoever is interrupted in the request may have made it.
            self.is_begun = True
            try:
                self.cluster.create(paths.PODS, self.body, namespace=self.namespace)
            except ExistsError:
                pass
            else:
                return
            with suppress(NotFoundError):
                if self._is_shared(present := self._get()):
                    return
                self._remove(present, deadline)

    def _is_shared(self, present: Manifest) -> bool:
        """Whether an existing pod of this name can be used.

        Raises:
            InputError: somebody else made it, for something else.
        """
        metadata = mapping(present, "metadata")
        annotations = mapping(self.body, "metadata", "annotations")
        digest = annotations[names.WORKSPACE_DIGEST]
        if text(metadata, "annotations", names.WORKSPACE_DIGEST) != digest:
            self.is_begun = False
            raise InputError(
                f"pod {self.name} in namespace {self.namespace} was made for something else",
                hint=f"look at it, and remove it: kubectl delete pod {self.name} "
                f"-n {self.namespace}",
            )
        ours, theirs = items(self.body, "spec", "containers"), items(present, "spec", "containers")
        created = when(metadata, "creationTimestamp")
        is_young = created is not None and time.time() - created < _SHARED_SECONDS
        is_alive = text(present, "status", "phase") in {"Pending", "Running", ""}
        return (
            is_young
            and is_alive
            and not metadata.get("deletionTimestamp")
            and text(ours[0], "image") == text(theirs[0] if theirs else {}, "image")
            and _claim_of(self.body) == _claim_of(present)
        )

    def _remove(self, present: Manifest, deadline: float) -> None:
        """Remove what was left behind, and wait until its name is free."""
        uid = text(present, "metadata", "uid")
        if not at(present, "metadata", "deletionTimestamp"):
            self.cluster.delete(paths.PODS, self.name, namespace=self.namespace)
        seconds = min(deadline - time.monotonic(), _GONE_SECONDS)
        if not retry.poll(lambda: text(self._get(), "metadata", "uid") != uid, seconds, _PAUSE):
            raise BusyError(
                f"pod {self.name} in namespace {self.namespace} is being deleted, and does not go",
                hint=f"kubectl delete pod {self.name} -n {self.namespace} --force, where its "
                "node is gone",
            )

    def _wait(self, deadline: float) -> None:
        """Wait until the pod runs.

        Raises:
            RunError: it cannot, or not in time.
        """
        seconds = deadline - time.monotonic()
        present = retry.poll(self._get, seconds, _PAUSE, until=self._is_running)
        phase = text(present, "status", "phase")
        if phase != "Running":
            obstacle = clause(_waits_for(present)) or phase or "no node has it"
            raise RunError(
                f"the pod that {self.work} claim {self.claim} has not started within "
                f"{START_SECONDS:.0f} s: {obstacle}",
                hint=f"can a node mount the claim? kubectl describe pvc {self.claim} "
                f"-n {self.namespace}",
            )

    def _is_running(self, present: Manifest) -> bool:
        """Whether the pod runs.

        Raises:
            RunError: it cannot.
        """
        phase = text(present, "status", "phase")
        if phase == "Running":
            return True
        state = _state(present)
        reason = text(state, "waiting", "reason")
        if phase in {"Succeeded", "Failed"} or reason in _STUCK:
            message = _waits_for(present) or text(state, "terminated", "message")
            message = message or text(present, "status", "message") or reason or phase
            raise RunError(
                f"the pod that {self.work} claim {self.claim} cannot start: {clause(message)}",
                hint="it has the job's image, its pull secrets and its podSecurityContext; "
                "the image needs sh",
            )
        return False


def _state(present: Manifest) -> Any:
    """The state of a pod's only container; {} where the kubelet has not written it."""
    status = next(iter(items(present, "status", "containerStatuses")), {})
    return at(status, "state")


def _waits_for(present: Manifest) -> str:
    """The kubelet's or the scheduler's message on why a pod waits; "" for none."""
    return text(_state(present), "waiting", "message") or _unscheduled(present)


def _claim_of(manifest: Manifest) -> str:
    volumes = items(manifest, "spec", "volumes")
    return next((text(volume, "persistentVolumeClaim", "claimName") for volume in volumes), "")


def _unscheduled(present: Manifest) -> str:
    """The scheduler's words on why no node takes a pod; "" where one does."""
    return next(
        (
            text(condition, "message")
            for condition in items(present, "status", "conditions")
            if condition.get("type") == "PodScheduled" and condition.get("status") == "False"
        ),
        "",
    )
