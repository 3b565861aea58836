"""Why no node takes a pod: the scheduler's message in plain words.

kube-scheduler writes ``0/5 nodes are available: 3 Insufficient nvidia.com/gpu, 2 node(s) had
untolerated taint(s). preemption: 0/5 nodes are available: …``. The counts are kept, the jargon and
what is said about preemption are not. A node that fails for two reasons is counted in both.
"""

from __future__ import annotations

import re
from functools import lru_cache

from allranks.status.cause import Cause, Order
from allranks.status.fields import said
from allranks.words import plural

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
UNBOUND = Cause(Order.ERROR, "ClaimUnbound", "a volume for the claims of")
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
    """Why the scheduler found no node.

    Args:
        message: of the pod's condition PodScheduled.
    """
    if _NO_NODES in message:
        return Cause(Order.NODE, UNSCHEDULABLE, "a node for", ": the cluster has none")
    claim = _CLAIM.search(message)
    if claim:
        why = "it does not exist" if claim[2] == "not found" else "it is being deleted"
        return Cause(Order.ERROR, "ClaimMissing", f"claim {claim[1]} for", f": {why}")
    if _UNBOUND in message:
        return UNBOUND
    found = _AVAILABLE.search(message)
    body = _PREEMPTION.sub("", found[2]) if found else message
    clauses = [_clause(part) for part in _SPLIT.split(body.strip().rstrip(".")) if part]
    if not found or not clauses:
        why = f": {said(message)}" if message else ""
        return Cause(Order.NODE, UNSCHEDULABLE, "a node for", why)
    nodes = plural(int(found[1]), "node")
    return Cause(Order.NODE, UNSCHEDULABLE, "a node for", f": of {nodes}, {_joined(clauses)}")


def _clause(part: str) -> str:
    counted = _COUNTED.fullmatch(part)
    if not counted:
        return said(part)
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
    return f"say: {said(reason.removeprefix('node(s) '))}"


def _taint(reason: str) -> str:
    found = _TAINT.search(reason)
    if not found:
        return "a taint"
    key, value = found[1].strip(), found[2].strip()
    return f"the taint {key}={value}" if value else f"the taint {key}"


def _agree(number: int, meaning: str) -> str:
    """The verb of one node."""
    if number != 1:
        return meaning
    verb, _, rest = meaning.partition(" ")
    singular = {"have": "has", "are": "is", "do": "does", "hold": "holds", "say:": "says:"}
    return f"{singular.get(verb, verb)} {rest}"


def _joined(clauses: list[str]) -> str:
    return clauses[0] if len(clauses) == 1 else f"{', '.join(clauses[:-1])} and {clauses[-1]}"
