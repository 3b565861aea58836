"""Put a snapshot on a claim that exists, and read it again, through a pod (`claim_pod`).

The archive goes over the pod's exec, is checked there, and gets its name last: whoever is killed
leaves no half of it under that name. The pod ends by itself where nobody ends it, and the next who
sends the same snapshot takes its place.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.cluster import paths
from allranks.cluster.permissions import Need
from allranks.errors import (
    ApiError,
    ForbiddenError,
    InputError,
    NotFoundError,
    RunError,
    TerminatingError,
)
from allranks.humanize import list_some
from allranks.k8s.fields import at, clause, text
from allranks.schema.suggestions import nearest
from allranks.workspace import archive as archives
from allranks.workspace import claim_pod
from allranks.workspace import image as images
from allranks.workspace import snapshot as snapshots
from allranks.workspace.model import SnapshotDestination

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allranks.cluster.interface import KubeClient
    from allranks.k8s.manifest import Manifest
    from allranks.workspace.claim_pod import ClaimPod
    from allranks.workspace.model import Archive, Snapshot
    from allranks.workspace.record import CodeRecord

NEEDS = (
    Need("get", paths.CLAIMS),
    *(Need(verb, paths.PODS) for verb in ("get", "create", "delete")),
    *(Need(verb, f"{paths.PODS}/exec") for verb in ("get", "create")),
)

_ONE_NODE = frozenset({"ReadWriteOnce", "ReadWriteOncePod"})
_WRITABLE = _ONE_NODE | {"ReadWriteMany"}
_BYTES_PER_SECOND = 256 << 10
# So many bytes of an archive are asked for at a time.
_PIECE_BYTES = 2 << 20
_DIGITS_MAX = 12  # of the size of an archive
_SHOWN = 6
_ARCHIVE = "/etc/allranks-workspace/archive.0"  # where the pods of a run have it

# The programs have an image's Python, or its coreutils.
_HEAD = r"""
set -u
newline='
'
answer() { printf '%s\n%s\n' "${1##*"$newline"}" 'allranks-end-of-answer'; exit 0; }
python=''
for program in python3 python; do
  [ -n "$python" ] || ! "$program" -I -S -c 'import sys; sys.exit(sys.version_info < (3,))' \
    </dev/null >/dev/null 2>&1 || python=$program
done
"""
# Takes what to do, the folder, the size and the digest.
_PROGRAM = (
    _HEAD
    + r"""
what=$1 folder=$2 size=$3 digest=$4
file=$folder/archive.0 part=$folder/.archive.$$.part
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
)
# Takes what to do, the folder, and which bytes: from where, and how many.
_READER = (
    _HEAD
    + r"""
what=$1 file=$2/archive.0 begin=$3 count=$4
[ -f "$file" ] || answer absent
if [ "$what" = size ]; then
  if [ -n "$python" ]; then
    size=$("$python" -I -S -c 'import os, sys; print(os.path.getsize(sys.argv[1]))' "$file")
  else
    size=$(wc -c <"$file")
  fi || answer unreadable
  answer "$((size))"
fi
if [ -n "$python" ]; then
  "$python" -I -S -c 'import sys
with open(sys.argv[1], "rb") as file:
    file.seek(int(sys.argv[2]))
    sys.stdout.buffer.write(file.read(int(sys.argv[3])))' "$file" "$begin" "$count"
else
  tail -c "+$((begin + 1))" "$file" | head -c "$count"
fi
printf '\n%s\n' 'allranks-end-of-answer'
"""
)


def folder(snapshot: Snapshot, archive: Archive) -> str:
    """The folder of the claim that has an archive, and no other one."""
    return images.tag(snapshot, archive).removeprefix(names.WORKSPACE_PREFIX)


def pod_name(snapshot: Snapshot) -> str:
    """The name of the pod that fills a claim."""
    return f"{snapshot.name}-fill"


def pod(snapshot: Snapshot, archive: Archive, destination: SnapshotDestination) -> Manifest:
    """The pod that fills a claim.

    Args:
        snapshot: what is sent.
        archive: the same, packed.
        destination: the claim, and the values that the job's pods are made of.
    """
    return claim_pod.body(pod_name(snapshot), (snapshot.digest, archive.digest), destination)


def fill(
    cluster: KubeClient,
    namespace: str,
    snapshot: Snapshot,
    archive: Archive,
    destination: SnapshotDestination,
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
    worker = claim_pod.ClaimPod(cluster, namespace, body, destination.claim)
    return worker.complete(lambda: _fill(worker, folder(snapshot, archive), archive))


def _fill(worker: ClaimPod, place: str, archive: Archive) -> bool:
    """Put an archive into a folder of the claim; return whether it was not there."""
    digest = archive.digest.removeprefix("sha256:")
    words = (f"{claim_pod.FOLDER}/{place}", str(len(archive.data)), digest)
    seconds = len(archive.data) / _BYTES_PER_SECOND
    if _line(worker.ask(_PROGRAM, ("look", *words), seconds=seconds)) == "there":
        return False
    answer = _line(worker.ask(_PROGRAM, ("fill", *words), archive.data, seconds=seconds))
    if answer != "there":
        raise _refusal(worker.claim, answer)
    return True


def _line(answer: bytes) -> str:
    return answer.decode(errors="replace").strip()


def read(
    cluster: KubeClient, namespace: str, code: CodeRecord, template: Mapping[str, Any]
) -> Archive:
    """Read the archive of a run from its claim.

    Args:
        cluster: where the claim is.
        namespace: its namespace.
        code: what the run's objects record.
        template: the spec of its pods, from which the reading one has its image and security.

    Raises:
        RunError: the claim or the archive is not there any more, it is another one, or the pod
            does not do its work.
        AllranksError: the cluster does not answer, or forbids it.
    """
    (claim,) = code.parts
    try:
        cluster.get(paths.CLAIMS, claim, namespace=namespace)
    except NotFoundError as error:
        raise _lost(f"claim {claim} is no longer in namespace {namespace}") from error
    destination = SnapshotDestination(claim=claim, pod=claim_pod.values_of(template))
    name = f"{names.WORKSPACE_PREFIX}{claim_pod.digits(code.digest)}-read"
    digests = code.digest, code.archive_digest
    body = claim_pod.body(name, digests, destination, is_read_only=True)
    worker = claim_pod.ClaimPod(cluster, namespace, body, claim, work="reads")
    try:
        data = worker.complete(lambda: _read(worker, code.path))
    except TerminatingError:
        raise
    except ForbiddenError as error:
        raise ForbiddenError(
            f"the code on claim {claim} cannot be read by a pod: {error.problem.message}",
            hint=f"ask for create and delete on pods in namespace {namespace}; or read it from a "
            f"pod of the run, while it runs: kubectl exec -n {namespace} POD -- "
            f"cat {_ARCHIVE} > {Path(_ARCHIVE).name}",
            status=error.status,
        ) from error
    return archives.join([data], "xz" if code.compression == "xz" else "gzip", code.archive_digest)


def _read(worker: ClaimPod, place: str) -> bytes:
    """The archive in a folder of the claim."""
    folder = f"{claim_pod.FOLDER}/{place}"
    size = _line(worker.ask(_READER, ("size", folder, "0", "0")))
    if size == "absent":
        raise _lost(f"the code is no longer in folder {place} of claim {worker.claim}")
    if not size.isdecimal() or len(size) > _DIGITS_MAX or int(size) > 2 * snapshots.BYTES_MAX:
        raise RunError(
            f"folder {place} of claim {worker.claim} holds no archive that can be read",
            hint="look at it: somebody has changed it since it was sent",
        )
    pieces = []
    for begin in range(0, int(size), _PIECE_BYTES):
        piece = worker.ask(_READER, ("read", folder, str(begin), str(_PIECE_BYTES)))
        pieces.append(piece[:-1])  # without the break before the end
    return b"".join(pieces)


def _lost(words: str) -> RunError:
    return RunError(
        words, hint="somebody has removed it; the digest and the commit are still recorded"
    )


def _refusal(claim: str, answer: str) -> RunError:
    """The error for an answer of the program."""
    place = f"claim {claim}"
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
