"""Bring newer code into the pods of a run that goes on, all of them or none.

In two steps. Each pod gets the archive, checks it and unpacks it beside its code; where one cannot,
all forget it, and nothing has changed. Then it is published where pods that are made later find it,
and from then on it is what the run runs: the pods are told to take it, those that came meanwhile
get it too, until none is left that has older code. What the pods do is in the library chart's
files/sync.py; nodes with different code never train together, because the digest is part of the
rendezvous' id.
"""

from __future__ import annotations

import hashlib
import json
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from allranks import names
from allranks.errors import AllranksError, InputError, NotFoundError, RunError
from allranks.humanize import list_some, plural
from allranks.k8s.fields import items, mapping, text
from allranks.workspace import archive as archives
from allranks.workspace import record, sizes
from allranks.workspace.model import Archive, Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from allranks.k8s.manifest import Manifest

# The volume that newer code is published in; only pods that can take any have it.
VOLUME = "workspace-sync"
SUFFIX = "-sync"
TRAINER = "trainer"
END = "allranks-sync-done"  # the last line of a pod's answer
OFFER, ARCHIVE = "offer.json", "archive.0"  # the keys of what is published
SEND_SECONDS = 60.0  # for one pod to take the archive
_AT_ONCE = 16
_PAUSE = 0.2


@dataclass(frozen=True, slots=True)
class Offer:
    """A snapshot with which a run is to go on.

    Attributes:
        generation: its number, from 1; what the run was started with is 0.
        digest: of the snapshot.
        archive: the snapshot, packed.
    """

    generation: int
    digest: str
    archive: Archive

    def text(self) -> str:
        """The offer without its archive, as JSON."""
        fields = {
            "generation": self.generation,
            "digest": self.digest,
            "archiveDigest": self.archive.digest,
            "compression": self.archive.compression,
        }
        return json.dumps(fields)

    def message(self) -> bytes:
        """The message that a pod reads: a line of JSON, then the archive."""
        fields = {**json.loads(self.text()), "size": len(self.archive.data)}
        return json.dumps(fields).encode() + b"\n" + self.archive.data


@dataclass(frozen=True, slots=True)
class Published:
    """The code that a run's pods are to have.

    Attributes:
        generation: 0 where nothing was synced yet.
        digest: of the snapshot.
        archive_digest: of the snapshot, packed; "" where that is not recorded.
    """

    generation: int
    digest: str
    archive_digest: str

    def delivers(self, archive: Archive) -> bool:
        """Whether an archive brings what the pods have.

        The digest of a snapshot has the rules of what stays out in it, too, so that it differs as
        soon as a first file stays out by a rule; the archive has what goes alone.
        """
        return self.archive_digest == archive.digest


def check_takes_code(name: str, objects: Iterable[Manifest]) -> Published:
    """The code that a run was started with.

    Args:
        name: the run.
        objects: its controllers.

    Raises:
        InputError: it takes no code, with the reason.
    """
    controllers = list(objects)
    code = record.of_objects(controllers)
    if not code.digest:
        raise InputError(
            f"run {name!r} was started without a workspace: its code is in its image",
            hint=f"`{names.CLI} submit {name} --replace` removes it, and runs it with a folder",
        )
    if not any(has_volume(manifest) for manifest in controllers):
        reason = (
            "a static rendezvous cannot keep nodes with different code apart"
            if code.workload == "torchrun"
            else f"only torchrun runs take code while they run, and this is {code.workload}"
        )
        raise InputError(
            f"run {name!r} takes no newer code: {reason}",
            hint=f"`{names.CLI} submit {name} --replace` removes it, and runs what the folder has",
        )
    return Published(0, code.digest, code.archive_digest)


def has_volume(manifest: Manifest) -> bool:
    """Whether a controller's pods have the volume in which newer code is published."""
    pod = mapping(manifest, "spec", "template", "spec")
    return any(text(volume, "name") == VOLUME for volume in items(pod, "volumes"))


def published_in(offer: str) -> Published:
    """The record of an offer, for the pods.

    Raises:
        RunError: it is none.
    """
    try:
        fields = json.loads(offer)
        digests = str(fields["digest"]), str(fields["archiveDigest"])
        return Published(int(fields["generation"]), *digests)
    except (ValueError, KeyError, TypeError) as error:
        raise RunError(
            f"what was synced before is no offer: {offer[:100]!r}",
            hint=f"delete the ConfigMap NAME{SUFFIX}, and sync again",
        ) from error


def last_offer(name: str, offer: str, data: bytes) -> Offer:
    """The offer that was synced last into a run, as it is kept.

    Args:
        name: the run.
        offer: the offer, as JSON.
        data: its archive.

    Raises:
        RunError: it is broken.
    """
    published, fields = published_in(offer), json.loads(offer)
    archive = Archive(data, fields.get("compression", ""), published.archive_digest)
    if f"sha256:{hashlib.sha256(data).hexdigest()}" != archive.digest:
        raise RunError(
            f"what was synced last into {name!r} is broken: it has not the digest {archive.digest}",
            hint="sync again",
        )
    return Offer(published.generation, published.digest, archive)


def overtaken() -> RunError:
    """The error of a sync that another one was faster than."""
    return RunError(
        "another sync of this run came first; nothing was changed by this one",
        hint="sync again: it brings what the folder has now",
    )


class SyncPod(Protocol):
    """A pod that runs, and takes code."""

    @property
    def name(self) -> str:
        """The pod's name."""

    def call(self, words: tuple[str, ...], data: bytes, seconds: float) -> bytes:
        """Call sync.py in the pod; return its answer.

        Raises:
            NotFoundError: the pod is gone.
            AllranksError: it cannot be called, or does not answer in time.
        """


class SyncTarget(Protocol):
    """A run whose pods take code, on a cluster or on this machine."""

    def pods(self) -> Mapping[str, SyncPod]:
        """The pods that run now, by their uid.

        Raises:
            AllranksError: they cannot be listed.
        """

    def published(self) -> Published:
        """The code that pods made from now on get.

        Raises:
            AllranksError: it cannot be read.
        """

    def publish(self, offer: Offer) -> None:
        """Let pods made from now on get an offer.

        Raises:
            AllranksError: it cannot be written, or another sync has written meanwhile.
        """


def pack(snapshot: Snapshot) -> Archive:
    """Pack a snapshot for a sync.

    Raises:
        InputError: no ConfigMap holds it, or a file has changed meanwhile.
    """
    try:
        archive = archives.pack(snapshot, archives.PART_BYTES)
    except archives.TooLargeError as error:
        raise _too_large(f"more than {error.size:,}", snapshot) from error
    if len(archive.data) > archives.PART_BYTES:
        raise _too_large(f"{len(archive.data):,}", snapshot)
    return archive


def _too_large(size: str, snapshot: Snapshot) -> InputError:
    files = sizes.files_of(snapshot.entries)
    return InputError(
        f"the workspace has {size} bytes when packed; a sync brings at most "
        f"{archives.PART_BYTES:,}{sizes.words(files)}",
        path="--workspace",
        hint=f"{sizes.exclusion(files)}, or submit it anew",
    )


def running_pods(target: SyncTarget) -> Mapping[str, SyncPod]:
    """The pods of a run that goes on, by their uid.

    Raises:
        InputError: no pod runs.
        AllranksError: they cannot be listed.
    """
    pods = target.pods()
    if not pods:
        raise InputError("no pod of the run is running", hint="a sync is for a run that goes on")
    return pods


def deliver(target: SyncTarget, offer: Offer, *, seconds: float, say: Callable[[str], None]) -> int:
    """Bring an offer into all pods; return how many have it.

    Args:
        target: the run.
        offer: the code.
        seconds: how long the ranks may take to end, and their pods to go on.
        say: gets a sentence at each step.

    Raises:
        InputError: no pod runs.
        RunError: a pod cannot take the code (nothing has changed), or has not done so in time.
        AllranksError: the cluster does not answer, or forbids it.
    """
    pods = running_pods(target)
    say(f"sending to {plural(len(pods), 'pod')}")
    problems = _all(pods, lambda pod: _receive(pod, offer))
    if problems:
        living = target.pods()  # one that ended meanwhile is no problem; its successor comes later
        problems = {uid: problem for uid, problem in problems.items() if uid in living}
    try:
        if problems:
            raise RunError(
                f"nothing was changed: {_shown(problems)}",
                hint="mend it, and sync again; where it is a right that is missing, ask for a Role "
                "with get and create on pods/exec",
            )
        target.publish(offer)
    except AllranksError:
        _all(pods, lambda pod: _call(pod, "drop", str(offer.generation), offer.digest))
        raise
    say("ending the ranks")
    return _activate_all(target, offer, pods, seconds)


def _activate_all(
    target: SyncTarget, offer: Offer, staged: Mapping[str, SyncPod], seconds: float
) -> int:
    """Have every pod take a published offer; also those that were made meanwhile."""
    deadline = time.monotonic() + seconds
    active: set[str] = set()
    pods = staged
    while True:
        remaining = {uid: pod for uid, pod in pods.items() if uid not in active}
        problems = _all(remaining, lambda pod: _activate(pod, offer, deadline))
        active |= remaining.keys() - problems.keys()
        pods = target.pods()
        if pods.keys() <= active:
            return len(pods.keys() & active)
        if time.monotonic() > deadline:
            late = problems or {
                uid: (pod.name, "it is new, and has not taken it")
                for uid, pod in pods.items()
                if uid not in active
            }
            raise RunError(
                f"{plural(len(late), 'pod')} of {len(pods)} did not apply the new code in time: "
                f"{_shown(late)}",
                hint="each takes it from the ConfigMap within two minutes; no pods with different "
                "code train together",
            )
        time.sleep(_PAUSE)


_Problems = dict[str, tuple[str, str]]


def _all(pods: Mapping[str, SyncPod], work: Callable[[SyncPod], str]) -> _Problems:
    """Do the same with all pods; return the pod and its problem, by uid, where there is one."""

    def attempt(pod: SyncPod) -> str:
        try:
            return work(pod)
        except NotFoundError:
            return ""  # it ended meanwhile; the one in its place is looked at later
        except AllranksError as error:
            return error.problem.message

    with ThreadPoolExecutor(_AT_ONCE) as threads:
        results = zip(pods, threads.map(attempt, pods.values()), strict=True)
        return {uid: (pods[uid].name, problem) for uid, problem in results if problem}


def _receive(pod: SyncPod, offer: Offer) -> str:
    return _problem(pod, pod.call(("receive",), offer.message(), SEND_SECONDS))


def _activate(pod: SyncPod, offer: Offer, deadline: float) -> str:
    seconds_left = max(1.0, deadline - time.monotonic())
    words = ("activate", str(offer.generation), offer.digest, f"{seconds_left:.0f}")
    problem = _problem(pod, pod.call(words, b"", seconds_left + SEND_SECONDS))
    if not problem.endswith("was not received here"):
        return problem
    # It was made after the others had got it; it may have found what was published by itself.
    received = _receive(pod, offer)
    if received and not received.endswith("is here already"):
        return received
    return _problem(pod, pod.call(words, b"", seconds_left + SEND_SECONDS))


def _call(pod: SyncPod, *words: str) -> str:
    return _problem(pod, pod.call(words, b"", SEND_SECONDS))


def _problem(pod: SyncPod, answer: bytes) -> str:
    """The problem that a pod's answer tells of; "" for none."""
    try:
        fields = json.loads(answer)
        return str(fields["problem"])
    except (ValueError, KeyError, TypeError) as error:
        raise RunError(
            f"pod {pod.name} gave an answer that is none: {answer[:200]!r}",
            hint="its charts may be of another version: submit the run anew",
        ) from error


def _shown(problems: Mapping[str, tuple[str, str]]) -> str:
    sentences: Iterable[str] = sorted(f"{pod}: {problem}" for pod, problem in problems.values())
    return list_some(list(sentences), 3)
