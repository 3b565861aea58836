"""Rules about queues, gangs, topology and node selection."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks.names import HOSTNAME, KAI_TOPOLOGY, VOLCANO_TIERS
from allranks.values.rules.base import Finding, ValuesRule, View, path

if TYPE_CHECKING:
    from collections.abc import Iterator

_QUEUES = ("kueue", "kai", "volcano")
# Schedulers that know nothing of a dialect's gangs.
_STRANGERS = {
    "kai": ("default-scheduler", "volcano"),
    "volcano": ("default-scheduler", "kai-scheduler"),
    "coscheduling": ("kai-scheduler", "volcano"),
}
_OWN = {"kai": "kai-scheduler", "volcano": "volcano"}


def _queue(view: View) -> Iterator[Finding]:
    dialect = view["scheduling.dialect"]
    if view["queue"] and dialect not in _QUEUES:
        yield Finding(
            path("queue"),
            f"a queue is given, and scheduling.dialect {dialect} has no queues",
            f"set scheduling.dialect to {', '.join(_QUEUES[:-1])} or {_QUEUES[-1]}, or remove it",
        )


def _dialect(view: View) -> Iterator[Finding]:
    """Find names of a dialect that are missing, which the post-renderer would refuse."""
    dialect, topology = view["scheduling.dialect"], view["scheduling.topology"]
    if dialect == "kueue" and not view["queue"]:
        yield Finding(
            path("queue"),
            "empty, and Kueue admits a job through its queue only",
            "name a LocalQueue of the namespace",
        )
    if (
        dialect == "kai"
        and topology["mode"] != "none"
        and not view["annotations"].get(KAI_TOPOLOGY)
    ):
        yield Finding(
            path("scheduling.topology.mode"),
            f"{topology['mode']} needs the name of KAI's Topology object",
            f"set annotations: {{{KAI_TOPOLOGY}: NAME}}",
        )
    required = dialect == "volcano" and topology["mode"] == "required"
    if required and topology["level"] not in VOLCANO_TIERS:
        yield Finding(
            path("scheduling.topology.level"),
            f"Volcano places by tiers of HyperNodes, and {topology['level']} is none that we know",
            f"use {' or '.join(VOLCANO_TIERS)}, or mode: preferred",
        )


def _scheduler(view: View) -> Iterator[Finding]:
    dialect, name = view["scheduling.dialect"], view["scheduling.schedulerName"]
    if name in _STRANGERS.get(dialect, ()):
        own = _OWN.get(dialect)
        yield Finding(
            path("scheduling.schedulerName"),
            f"{name} does not schedule the gangs of scheduling.dialect {dialect}",
            f"leave it out, which means {own}" if own else "name the scheduler that has the plugin",
        )


def _gang_timeout(view: View) -> Iterator[Finding]:
    if view["scheduling.gangTimeoutSeconds"] and view["scheduling.dialect"] == "none":
        yield Finding(
            path("scheduling.gangTimeoutSeconds"),
            "is about a gang, and scheduling.dialect is none",
            "set scheduling.dialect, or remove it",
        )


def _level(view: View) -> Iterator[Finding]:
    topology = view["scheduling.topology"]
    if topology["mode"] != "none" and topology["level"] not in topology["labels"]:
        labels = ", ".join(topology["labels"]) or "none yet"
        yield Finding(
            path("scheduling.topology.level"),
            f"{topology['level']} has no label in scheduling.topology.labels, which names {labels}",
            f"use one of them, or add {topology['level']}: <node label>",
        )


def _gpu_type(view: View) -> Iterator[Finding]:
    label, value = view["gpuType.label"], view["gpuType.value"]
    selected = view["scheduling.nodeSelector"].get(label)
    if value and selected is not None and selected != value:
        yield Finding(
            path("scheduling.nodeSelector", label),
            f"selects {selected}, and gpuType.value selects {value}; no node is both",
            "remove one of them",
        )


def _avoid_nodes(view: View) -> Iterator[Finding]:
    selected = view["scheduling.nodeSelector"].get(HOSTNAME)
    if selected in view["scheduling.avoidNodes"]:
        yield Finding(
            path("scheduling.nodeSelector", HOSTNAME),
            f"selects {selected}, which scheduling.avoidNodes names; no node is left for the pods",
            "select another node, or take it out of scheduling.avoidNodes",
        )


def _tolerations(view: View) -> Iterator[Finding]:
    for index, toleration in enumerate(view["scheduling.tolerations"]):
        location = path("scheduling.tolerations", index)
        operator = toleration.get("operator", "Equal")
        if operator == "Exists" and toleration.get("value"):
            yield Finding(
                (*location, "value"), "operator Exists takes no value", "remove it, or use Equal"
            )
        if not toleration.get("key") and operator != "Exists":
            yield Finding(
                location,
                "without a key the operator must be Exists",
                "add a key, or operator: Exists",
            )
        if "tolerationSeconds" in toleration and toleration.get("effect") != "NoExecute":
            yield Finding(
                (*location, "tolerationSeconds"),
                "is for the effect NoExecute alone",
                "add effect: NoExecute, or remove it",
            )


RULES = (
    ValuesRule(
        "queue",
        "`queue` needs a scheduling dialect that has queues: kueue, kai or volcano.",
        ("queue", "scheduling.dialect"),
        _queue,
    ),
    ValuesRule(
        "dialect",
        "A dialect has what it needs: Kueue a `queue`, KAI's topology the annotation "
        f"`{KAI_TOPOLOGY}`, Volcano's required topology the level rack or block.",
        ("queue", "annotations", "scheduling.dialect", "scheduling.topology"),
        _dialect,
    ),
    ValuesRule(
        "scheduler",
        "`scheduling.schedulerName` works with the dialect: not, say, default-scheduler with kai.",
        ("scheduling.dialect", "scheduling.schedulerName"),
        _scheduler,
    ),
    ValuesRule(
        "gang-timeout",
        "`scheduling.gangTimeoutSeconds` needs a scheduling dialect.",
        ("scheduling.dialect", "scheduling.gangTimeoutSeconds"),
        _gang_timeout,
    ),
    ValuesRule(
        "topology-level",
        "`scheduling.topology.level` is a key of `scheduling.topology.labels` where a mode is set.",
        ("scheduling.topology",),
        _level,
    ),
    ValuesRule(
        "gpu-type",
        "`scheduling.nodeSelector` does not contradict `gpuType`.",
        ("gpuType", "scheduling.nodeSelector"),
        _gpu_type,
    ),
    ValuesRule(
        "avoid-nodes",
        f"`scheduling.nodeSelector` does not select, by `{HOSTNAME}`, a node that "
        "`scheduling.avoidNodes` names.",
        ("scheduling.avoidNodes", "scheduling.nodeSelector"),
        _avoid_nodes,
    ),
    ValuesRule(
        "tolerations",
        "A toleration is one that Kubernetes accepts: `Exists` without a value, a key with all "
        "else, seconds with `NoExecute`.",
        ("scheduling.tolerations",),
        _tolerations,
    ),
)
