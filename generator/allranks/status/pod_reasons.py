"""The scheduler's and the kubelet's messages in plain words: no node, image, volume or Secret.

kube-scheduler writes ``0/5 nodes are available: 3 Insufficient nvidia.com/gpu, 2 node(s) had
untolerated taint(s). preemption: 0/5 nodes are available: …``. The counts are kept, the jargon and
what is said about preemption are not. A node that fails for two reasons is counted in both.
"""

from __future__ import annotations

import re
from functools import lru_cache

from allranks import names
from allranks.humanize import plural
from allranks.k8s.fields import clause
from allranks.status.cause import Cause, Priority

UNSCHEDULABLE = "Unschedulable"

_AVAILABLE = re.compile(r"0/(\d+) nodes are available:?\s*(.*)", re.DOTALL)
# What follows is about other pods that might be ended in favour of this one.
_PREEMPTION = re.compile(
    r"(?:\.|,)?\s*(?:preemption:|no new claims to deallocate|still not schedulable).*", re.DOTALL
)
_COUNTED = re.compile(r"(\d+) (.+)", re.DOTALL)
_SPLIT = re.compile(r",\s+(?=\d+ )")
_TAINT = re.compile(r"\{([^:}]+):\s*([^}]*)\}")
_CLAIM = re.compile(r'persistentvolumeclaim "([^"]+)" (not found|is being deleted)')
UNBOUND = Cause(Priority.ERROR, "ClaimUnbound", "a volume for the claims of")
_UNBOUND = "unbound immediate PersistentVolumeClaims"
_NO_NODES = "no nodes available to schedule pods"
# Amounts that are measured; all else is counted.
_MEASURED = ("cpu", "memory", "ephemeral-storage", "storage")

# What the message of a plugin contains, and what it means for `n` nodes, in the plural.
_PLAIN = (
    ("Too many pods", "are full (too many pods)"),
    ("were unschedulable", "are cordoned"),
    ("node affinity/selector", "do not match the node selector or affinity"),
    ("pod anti-affinity rules", "hold a pod that it must not share a node with"),
    ("existing pods anti-affinity", "hold a pod that does not share its node"),
    ("pod affinity rules", "are outside of where its affinity wants it"),
    ("topology spread constraints", "would break the topology spread constraints"),
    ("free ports", "have the host port in use"),
    ("available persistent volumes to bind", "have no persistent volume to bind"),
    ("PersistentVolume's node affinity", "cannot reach its volume"),
    ("volume node affinity conflict", "cannot reach its volume"),
    ("max volume count", "have as many volumes as they can take"),
    ("no available volume zone", "are in another zone than its volume"),
    ("enough free storage", "have too little storage free for its volume"),
    ("ReadWriteOncePod", "cannot use its claim, which another pod uses alone"),
    ("cannot allocate all claims", "cannot allocate the devices it claims"),
    ("requested node name", "are not the node that it names"),
)


@lru_cache(maxsize=1024)
def unschedulable(message: str) -> Cause:
    """Return the cause in the scheduler's message.

    Args:
        message: of the pod's condition PodScheduled.
    """
    if _NO_NODES in message:
        return Cause(Priority.NODE, UNSCHEDULABLE, "a node for", ": the cluster has none")
    claim = _CLAIM.search(message)
    if claim:
        reason = "it does not exist" if claim[2] == "not found" else "it is being deleted"
        return Cause(Priority.ERROR, "ClaimMissing", f"claim {claim[1]} for", f": {reason}")
    if _UNBOUND in message:
        return UNBOUND
    match = _AVAILABLE.search(message)
    body = _PREEMPTION.sub("", match[2]) if match else message
    clauses = [_clause(part) for part in _SPLIT.split(body.strip().rstrip(".")) if part]
    if not match or not clauses:
        reason = f": {clause(message)}" if message else ""
        return Cause(Priority.NODE, UNSCHEDULABLE, "a node for", reason)
    nodes = plural(int(match[1]), "node")
    return Cause(Priority.NODE, UNSCHEDULABLE, "a node for", f": of {nodes}, {_join(clauses)}")


def _clause(part: str) -> str:
    counted = _COUNTED.fullmatch(part)
    if not counted:
        return clause(part)
    number, reason = int(counted[1]), counted[2]
    return f"{number} {_agree(number, _meaning(reason))}"


def _meaning(reason: str) -> str:
    if reason.startswith("Insufficient "):
        resource = reason.removeprefix("Insufficient ").strip()
        much = "little" if resource.startswith((*_MEASURED, "hugepages-")) else "few"
        return f"have too {much} {resource} free"
    if "untolerated taint" in reason or "taints that the pod didn't tolerate" in reason:
        return f"have {_taint(reason)} that is not tolerated"
    for words, meaning in _PLAIN:
        if words in reason:
            return meaning
    return f"say: {clause(reason.removeprefix('node(s) '))}"


def _taint(reason: str) -> str:
    match = _TAINT.search(reason)
    if not match:
        return "a taint"
    key, value = match[1].strip(), match[2].strip()
    return f"the taint {key}={value}" if value else f"the taint {key}"


def _agree(number: int, meaning: str) -> str:
    """Return the verb for one node."""
    if number != 1:
        return meaning
    verb, _, rest = meaning.partition(" ")
    singular = {"have": "has", "are": "is", "do": "does", "hold": "holds", "say:": "says:"}
    return f"{singular.get(verb, verb)} {rest}"


def _join(clauses: list[str]) -> str:
    return clauses[0] if len(clauses) == 1 else f"{', '.join(clauses[:-1])} and {clauses[-1]}"


CRASH_LOOP = "CrashLoopBackOff"
# What every start passes through.
_ON_ITS_WAY = ("", "ContainerCreating", "PodInitializing")
_PULL_FAILURES = (
    "ErrImagePull",
    "ImagePullBackOff",
    "ImageInspectError",
    "RegistryUnavailable",
    "SignatureValidationFailed",
)
# Events of a pod that say why it does not start, where its containers only say that they do not.
EVENTS = (
    "FailedMount",
    "FailedAttachVolume",
    "FailedMapVolume",
    "FailedCreatePodSandBox",
    "FailedPrepareDynamicResources",
    "NetworkNotReady",
    "Failed",
)

_REFERENT = re.compile(r'(?i)\b(secret|configmap)s? "(?:[^"/]+/)?([^"]+)" not found')
_KEY = re.compile(r"(?i)couldn't find key (\S+) in (Secret|ConfigMap) (?:[^/\s]+/)?(\S+)")
_NO_KEY = re.compile(r"references non-existent (?:config|secret) key: (\S+)")
_VOLUME = re.compile(r'for volume "([^"]+)"\s*:?\s*(.*)', re.DOTALL)
_ROOT = "runAsNonRoot"
_KINDS = {"secret": "Secret", "configmap": "ConfigMap"}
# Older kubelets say why an image cannot be pulled in an event alone.
PULL_FAILED_UNEXPLAINED = ": it cannot be pulled"
_PULLING = "Failed to pull image"
# A part of a workspace's snapshot; who sends the same folder again makes it anew.
_SNAPSHOT = re.compile(rf"{names.WORKSPACE_PREFIX}[0-9a-f]{{12}}-[0-9a-f]{{6}}-[0-9]+")
_CODE_IS_GONE = ": the code that was sent was deleted; submit the same folder again"
_BACK_OFF = re.compile(r'^Back-off pulling image "[^"]*"(?:: )?')

# What a registry's refusal contains, and what it means.
_PULL_MEANINGS = (
    ("no space left on device", "the node's disk is full"),
    ("toomanyrequests", "the registry has had too many requests; it is tried again"),
    ("too many requests", "the registry has had too many requests; it is tried again"),
    ("unauthorized", "the registry refuses access; see imagePullSecrets"),
    ("authentication required", "the registry refuses access; see imagePullSecrets"),
    ("authorization failed", "the registry refuses access, or has no such image"),
    ("denied", "the registry refuses access, or has no such image"),
    ("no match for platform", "it is not built for the node's kind of processor"),
    ("no matching manifest", "it is not built for the node's kind of processor"),
    ("x509", "the node does not trust the registry's certificate"),
    ("no such host", "the registry's name does not resolve on the node"),
    ("connection refused", "the registry does not answer"),
    ("i/o timeout", "the registry does not answer"),
    ("deadline exceeded", "the registry does not answer in time"),
    ("not found", "the registry does not have it"),
    ("manifest unknown", "the registry does not have it"),
)


@lru_cache(maxsize=1024)
def waiting(reason: str, message: str, container: str, image: str) -> Cause:
    """Return the cause for which a container has not started.

    Args:
        reason: the kubelet's word.
        message: the kubelet's sentence.
        container: the container's name.
        image: its image.
    """
    if reason in _ON_ITS_WAY:
        return Cause(Priority.START, reason or "ContainerCreating", "the start of")
    if reason == CRASH_LOOP:
        return Cause(Priority.BACK_OFF, reason, f"back-off of container {container} in")
    if reason == "InvalidImageName":
        return Cause(Priority.ERROR, reason, f"image {image} for", ": this is no image's name")
    if reason == "ErrImageNeverPull":
        detail = ": the node does not have it, and image.pullPolicy is Never"
        return Cause(Priority.ERROR, reason, f"image {image} for", detail)
    if reason in _PULL_FAILURES:
        return _image_pull(reason, message, image)
    return _referent(reason, message) or _other(reason, message, container)


def _image_pull(reason: str, message: str, image: str) -> Cause:
    """Return the cause of an image that cannot be pulled; its back-off is the same cause."""
    text = _BACK_OFF.sub("", message)
    lower = text.lower()
    explanation = next((means for words, means in _PULL_MEANINGS if words in lower), "")
    explanation = explanation or clause(text.rsplit(": ", maxsplit=1)[-1])
    return Cause(
        Priority.ERROR,
        reason,
        f"image {image} for",
        f": {explanation}" if explanation else PULL_FAILED_UNEXPLAINED,
    )


def _other(reason: str, message: str, container: str) -> Cause:
    if _ROOT in message:
        detail = ": the image runs as root, or as a user that has a name and no number; see "
        detail += "security.podSecurityContext"
        return Cause(Priority.ERROR, reason, "a user other than root for", detail)
    detail = f": {reason}, {clause(message)}" if message else f": {reason}"
    return Cause(Priority.ERROR, reason, f"container {container} of", detail)


def _referent(reason: str, message: str) -> Cause | None:
    """Return the cause of a missing Secret or ConfigMap, or of a missing key of one."""
    match = _REFERENT.search(message)
    if match:
        subject = f"{_KINDS[match[1].lower()]} {match[2]} for"
        detail = _CODE_IS_GONE if _SNAPSHOT.fullmatch(match[2]) else ": it does not exist"
        return Cause(Priority.ERROR, reason, subject, detail)
    key = _KEY.search(message)
    if key:
        subject = f"key {key[1]} of {_KINDS[key[2].lower()]} {key[3]} for"
        return Cause(Priority.ERROR, reason, subject, ": there is no such key")
    return None


@lru_cache(maxsize=1024)
def event(reason: str, message: str, image: str) -> Cause | None:
    """Return the cause in an event about a pod that does not start; None where there is none.

    Args:
        reason: one of `EVENTS`.
        message: the event's sentence.
        image: the pod's image.
    """
    if reason == "Failed":
        return _image_pull("ErrImagePull", message, image) if message.startswith(_PULLING) else None
    cause = _referent(reason, message)
    if cause:
        return cause
    volume = _VOLUME.search(message)
    if volume:
        key = _NO_KEY.search(volume[2])
        explanation = f"there is no key {key[1]}" if key else clause(volume[2])
        return Cause(
            Priority.ERROR,
            reason,
            f"volume {volume[1]} for",
            f": {explanation}" if explanation else "",
        )
    return Cause(Priority.ERROR, reason, "the start of", f": {reason}, {clause(message)}")
