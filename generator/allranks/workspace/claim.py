"""Put a snapshot on a claim that exists, through a pod that lives as long as that takes.

The archive goes over the pod's exec, is checked there, and gets its name last: whoever is killed
leaves no half of it under that name. The pod ends by itself where nobody ends it, and the next who
sends the same snapshot takes its place.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.cluster import paths
from allranks.cluster.permissions import Need
from allranks.errors import (
    ApiError,
    BusyError,
    ExistsError,
    InputError,
    NotFoundError,
    RunError,
)
from allranks.humanize import list_some
from allranks.k8s.fields import at, clause, items, mapping, text, when
from allranks.schema.suggestions import nearest
from allranks.workspace import image as images

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allranks.cluster.interface import KubeClient
    from allranks.k8s.manifest import Manifest
    from allranks.workspace.model import Archive, Destination, Snapshot

NEEDS = (
    Need("get", paths.CLAIMS),
    *(Need(verb, paths.PODS) for verb in ("get", "create", "delete")),
    *(Need(verb, f"{paths.PODS}/exec") for verb in ("get", "create")),
)

_ONE_NODE = frozenset({"ReadWriteOnce", "ReadWriteOncePod"})
_WRITABLE = _ONE_NODE | {"ReadWriteMany"}
_CONTAINER = "fill"
_FOLDER = "/claim"
END = "allranks-end-of-answer"
# The pod ends after so long, whoever forgets it.
_POD_SECONDS = 1800
# So long it may take to start: an image may have to be pulled.
_START_SECONDS = 600.0
# A pod of another sender is shared while it is so young; an older one was left behind.
_SHARED_SECONDS = 300.0
_GONE_SECONDS = 60.0
_ASK_SECONDS = 60.0
_BYTES_PER_SECOND = 256 << 10
_PAUSE = 0.5
_TRIES = 3
_STUCK = frozenset(
    {
        *("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"),
        *("CreateContainerConfigError", "CreateContainerError", "RunContainerError"),
    }
)
_SHOWN = 6

# Takes what to do, the folder, the size and the digest. It has an image's Python, or its coreutils.
_PROGRAM = r"""
set -u
what=$1 folder=$2 size=$3 digest=$4
file=$folder/archive.0 part=$folder/.archive.$$.part
newline='
'
answer() { printf '%s\n%s\n' "${1##*"$newline"}" 'allranks-end-of-answer'; exit 0; }
python=''
for program in python3 python; do
  [ -n "$python" ] || ! "$program" -I -S -c 'import sys; sys.exit(sys.version_info < (3,))' \
    </dev/null >/dev/null 2>&1 || python=$program
done
sum() {
  if [ -n "$python" ]; then
    "$python" -I -S -c 'import hashlib, sys
digest = hashlib.sha256()
with open(sys.argv[1], "rb") as file:
    for chunk in iter(lambda: file.read(1 << 20), b""):
        digest.update(chunk)
print(digest.hexdigest())' "$1" </dev/null
  else
    line=$(sha256sum "$1" </dev/null) && printf '%s\n' "${line%% *}"
  fi
}
take() {
  if [ -n "$python" ]; then
    "$python" -I -S -c 'import os, sys
left = int(sys.argv[1])
with open(sys.argv[2], "wb") as file:
    while left:
        chunk = sys.stdin.buffer.read(min(left, 1 << 20))
        if not chunk:
            sys.exit("the connection was lost")
        file.write(chunk)
        left -= len(chunk)
    file.flush()
    os.fsync(file.fileno())' "$size" "$part"
  else
    head -c "$size" >"$part"
  fi
}
if [ "$what" = look ]; then
  [ -f "$file" ] && [ "$(sum "$file" 2>/dev/null)" = "$digest" ] && answer there
  rm -f "$folder"/.archive.*.part
  answer absent
fi
umask 022
trap 'rm -f "$part"' EXIT
trap 'exit 1' HUP INT TERM
words=$(mkdir -p "$folder" 2>&1) || answer "failed: $words"
words=$(take 2>&1) || answer "failed: ${words##*"$newline"}"
words=$(sum "$part" 2>&1) || answer "failed: ${words##*"$newline"}"
[ "$words" = "$digest" ] || answer "differs: $words"
words=$(mv -f "$part" "$file" 2>&1) || answer "failed: ${words##*"$newline"}"
answer there
"""


def folder(snapshot: Snapshot, archive: Archive) -> str:
    """The folder of the claim that has an archive, and no other one."""
    return images.tag(snapshot, archive).removeprefix(names.WORKSPACE_PREFIX)


def pod_name(snapshot: Snapshot) -> str:
    """The name of the pod that fills a claim."""
    return f"{snapshot.name}-fill"


def fill(
    cluster: KubeClient,
    namespace: str,
    snapshot: Snapshot,
    archive: Archive,
    destination: Destination,
    *,
    nodes: int = 1,
) -> bool:
    """Put an archive on a claim where it is not there; return whether it was put there.

    Args:
        cluster: where the claim is.
        namespace: its namespace.
        snapshot: what is sent.
        archive: the same, packed.
        destination: the claim, and what the pod is made of.
        nodes: how many nodes will mount it at the same time.

    Raises:
        InputError: there is no such claim, or it cannot be mounted as the job needs it.
        AllranksError: the cluster does not answer, forbids it, or the pod does not do its work.
    """
    check(cluster, namespace, destination.claim, nodes)
    body = pod(snapshot, archive, destination)
    filling = _Filling(cluster, namespace, body, destination.claim)
    try:
        for number in range(1, _TRIES + 1):
            try:
                return filling.fill(folder(snapshot, archive), archive)
            except NotFoundError:
                # Another sender of the same snapshot has ended the pod, with its own work done.
                if number == _TRIES:
                    raise
    finally:
        filling.end()
    raise AssertionError  # the loop returns or raises


def check(cluster: KubeClient, namespace: str, claim: str, nodes: int) -> None:
    """Refuse a claim that pods on so many nodes cannot read, or that nobody can write.

    Raises:
        InputError: it is not there, or cannot be used for this.
        AllranksError: the cluster does not answer, or forbids it.
    """
    try:
        manifest = cluster.get(paths.CLAIMS, claim, namespace=namespace)
    except NotFoundError as error:
        raise _missing(cluster, namespace, claim) from error
    modes = at(manifest, "status", "accessModes") or at(manifest, "spec", "accessModes") or []
    modes = list(map(str, modes))
    if nodes > 1 and _ONE_NODE.issuperset(modes):
        raise InputError(
            f"claim {claim} is {' and '.join(modes)}: one node mounts it, and the job runs on "
            f"{nodes} at a time",
            path="workspace.claim",
            hint="name a ReadWriteMany claim, or set workspace.registry in its place",
        )
    if not _WRITABLE.intersection(modes):
        raise InputError(
            f"claim {claim} is {' and '.join(modes)}: nothing can be written to it",
            path="workspace.claim",
            hint="name a ReadWriteMany claim",
        )


def _missing(cluster: KubeClient, namespace: str, claim: str) -> InputError:
    claims: list[str] = []
    with suppress(ApiError):
        listed = cluster.list(paths.CLAIMS, namespace=namespace, metadata_only=True)
        claims = sorted(text(item, "metadata", "name") for item in listed)
    near = nearest(claim, claims)
    if near:
        hint = f"did you mean {near}?"
    elif claims:
        hint = f"there is {list_some(claims, _SHOWN)}"
    else:
        hint = "create it first: a ReadWriteMany claim that the job's nodes can mount"
    return InputError(
        f"there is no claim {claim} in namespace {namespace}", path="workspace.claim", hint=hint
    )


# --- the pod --------------------------------------------------------------------------------------


def pod(snapshot: Snapshot, archive: Archive, destination: Destination) -> Manifest:
    """The pod that fills a claim: the job's own image, and no right to anything.

    Args:
        snapshot: what is sent.
        archive: the same, packed.
        destination: the claim, and the values that the job's pods are made of.
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
                "volumeMounts": [{"name": "claim", "mountPath": _FOLDER}],
            }
        ],
        "volumes": [{"name": "claim", "persistentVolumeClaim": {"claimName": destination.claim}}],
    }
    secrets = [{"name": str(name)} for name in values.get("imagePullSecrets") or ()]
    tolerations = items(values, "scheduling", "tolerations")
    spec |= {"imagePullSecrets": secrets} if secrets else {}
    spec |= {"tolerations": tolerations} if tolerations else {}
    metadata = {
        "name": pod_name(snapshot),
        "labels": {
            names.APP_MANAGED_BY: names.CLI,
            names.APP_PART_OF: names.PART_OF,
            names.WORKSPACE: snapshot.name.removeprefix(names.WORKSPACE_PREFIX),
        },
        "annotations": {
            names.WORKSPACE_DIGEST: snapshot.digest,
            names.WORKSPACE_ARCHIVE: archive.digest,
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
class _Filling:
    """A pod that fills a claim, from its start to its end.

    Attributes:
        cluster: where it runs.
        namespace: its namespace.
        body: the pod.
        claim: what it fills.
        is_begun: whether there may be a pod of ours.
    """

    cluster: KubeClient
    namespace: str
    body: Manifest
    claim: str
    is_begun: bool = False

    @property
    def name(self) -> str:
        """The pod's name."""
        return text(self.body, "metadata", "name")

    def fill(self, place: str, archive: Archive) -> bool:
        """See `fill`, above."""
        deadline = time.monotonic() + _START_SECONDS
        self._start(deadline)
        self._wait(deadline)
        words = (f"{_FOLDER}/{place}", str(len(archive.data)))
        digest = archive.digest.removeprefix("sha256:")
        if self._ask(("look", *words, digest), b"") == "there":
            return False
        answer = self._ask(("fill", *words, digest), archive.data)
        if answer != "there":
            raise self._refusal(answer)
        return True

    def end(self) -> None:
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
        """Whether a pod of this name is as good as our own.

        Raises:
            InputError: somebody else made it, for something else.
        """
        metadata = mapping(present, "metadata")
        wanted = mapping(self.body, "metadata", "annotations")
        if text(metadata, "annotations", names.WORKSPACE_DIGEST) != wanted[names.WORKSPACE_DIGEST]:
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
        deadline = min(deadline, time.monotonic() + _GONE_SECONDS)
        while text(self._get(), "metadata", "uid") == uid:
            if time.monotonic() > deadline:
                raise BusyError(
                    f"pod {self.name} in namespace {self.namespace} is being deleted, and does "
                    "not go",
                    hint=f"kubectl delete pod {self.name} -n {self.namespace} --force, where its "
                    "node is gone",
                )
            time.sleep(_PAUSE)

    def _wait(self, deadline: float) -> None:
        """Wait until the pod runs.

        Raises:
            RunError: it cannot, or not in time.
        """
        while True:
            present = self._get()
            phase = text(present, "status", "phase")
            if phase == "Running":
                return
            state = next(iter(items(present, "status", "containerStatuses")), {})
            reason = text(state, "state", "waiting", "reason")
            words = text(state, "state", "waiting", "message") or _unscheduled(present)
            if phase in {"Succeeded", "Failed"} or reason in _STUCK:
                words = words or text(state, "state", "terminated", "message")
                words = words or text(present, "status", "message") or reason or phase
                raise RunError(
                    f"the pod that fills claim {self.claim} cannot start: {clause(words)}",
                    hint="it has the job's image, its pull secrets and its podSecurityContext; "
                    "the image needs sh",
                )
            if time.monotonic() > deadline:
                raise RunError(
                    f"the pod that fills claim {self.claim} has not started within "
                    f"{_START_SECONDS:.0f} s: {clause(words) or phase or 'no node has it'}",
                    hint=f"can a node mount the claim? kubectl describe pvc {self.claim} "
                    f"-n {self.namespace}",
                )
            time.sleep(_PAUSE)

    def _ask(self, words: tuple[str, ...], data: bytes) -> str:
        """What the program in the pod answers: one line."""
        try:
            answer = self.cluster.ask(
                self.name,
                ["sh", "-c", _PROGRAM, "fill", *words],
                data,
                namespace=self.namespace,
                container=_CONTAINER,
                end=END.encode(),
                seconds=_ASK_SECONDS + int(words[2]) / _BYTES_PER_SECOND,
            )
        except ApiError:
            raise
        except RunError as error:
            self._get()  # NotFoundError where another has ended the pod meanwhile
            raise RunError(
                f"claim {self.claim} could not be filled: {error.problem.message}",
                hint=error.problem.hint or "submit again",
            ) from error
        return answer.decode(errors="replace").strip()

    def _refusal(self, answer: str) -> RunError:
        """The error for an answer of the program."""
        place = f"claim {self.claim}"
        words = clause(answer.removeprefix("failed: "))
        if any(part in words for part in ("No space left", "quota exceeded")):
            return RunError(f"{place} is full", hint="make room there, or name a larger claim")
        if any(part in words for part in ("Permission denied", "not permitted", "Read-only")):
            return RunError(
                f"the job's user may not write to {place}: {words}",
                hint="give it a group that may: security.podSecurityContext.fsGroup",
            )
        if answer.startswith("differs"):
            words = "what arrived is not what was sent"
        return RunError(f"{place} could not be filled: {words}", hint="submit again")


def _claim_of(manifest: Manifest) -> str:
    volumes = items(manifest, "spec", "volumes")
    return next((text(volume, "persistentVolumeClaim", "claimName") for volume in volumes), "")


def _unscheduled(present: Manifest) -> str:
    """Why no node takes a pod, in the scheduler's words; "" where one does."""
    return next(
        (
            text(condition, "message")
            for condition in items(present, "status", "conditions")
            if condition.get("type") == "PodScheduled" and condition.get("status") == "False"
        ),
        "",
    )
