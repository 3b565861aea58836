"""Rules about names: of the release, and of the charts' own labels."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks import names
from allranks.k8s.object_names import has_dns_1035_form, is_dns_1123_label
from allranks.values import frameworks
from allranks.values.rules.base import Finding, ValuesRule, View, path
from allranks.values.rules.size import SIZE, size, uneven

if TYPE_CHECKING:
    from collections.abc import Iterator

# What a StatefulSet's name has behind it in the label controller-revision-hash, which may have 63.
_REVISION = "-" + 10 * "x"

# Labels by which controllers, Services and status find the pods.
_OURS = (
    names.APP_NAME,
    names.APP_INSTANCE,
    names.APP_MANAGED_BY,
    names.APP_PART_OF,
    names.HELM_CHART,
    names.POD_INDEX,
    names.STATEFULSET_POD_NAME,
    "controller-revision-hash",
    "job-name",
    "controller-uid",
)
_OUR_PREFIXES = (f"{names.DOMAIN}/", "batch.kubernetes.io/", "meta.helm.sh/")


def nearest_name(name: str, limit: int) -> str:
    """A valid Service name (DNS-1035), as near to `name` as possible."""
    text = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    if not text or not text[0].isalpha():
        text = f"job-{text}".rstrip("-")
    return text[:limit].rstrip("-")


def is_reserved(key: str) -> bool:
    """Whether a label or annotation belongs to the charts."""
    return key in _OURS or key.startswith(_OUR_PREFIXES)


def _limit(view: View) -> tuple[int, str]:
    """The longest release name, and what takes the rest of a host name or label."""
    if view.workload == "elastic":
        return _limit_of_roles(view)
    stateful = view["own.controller"] == "StatefulSet"
    if view.workload != "mpi":
        suffix = _REVISION if stateful else ""
    else:
        stateful = stateful or (not view["own.controller"] and view["own.transport"] == "exec")
        requested = size(view)
        workers = max(1, requested.nodes if requested else 1, int(view["own.elastic.maxNodes"]))
        gpus, per_node = int(view["gpus"]), int(view["gpusPerNode"])
        last = uneven(view) and per_node and gpus > per_node and gpus % per_node
        indices = [f"-worker-{workers - 1}", "-worker-last-0"][: 2 if last else 1]
        if stateful:
            indices = [index.rpartition("-")[0] + _REVISION for index in indices]
        suffix = max(["-launcher-0", *indices], key=len)
    limit = min(names.HELM_RELEASE_NAME_MAX, names.DNS_LABEL_MAX - len(suffix))
    if limit == names.HELM_RELEASE_NAME_MAX:
        return limit, ""
    return limit, " with a StatefulSet" if stateful else " with the pods' names behind it"


def _limit_of_roles(view: View) -> tuple[int, str]:
    """The same for an elastic job, whose pods have a role and an index in their names."""
    suffix = "elasticjob--dlrover-master"
    if view["own.mode"] != "auto":
        requested = size(view)
        counts = {
            role: max(int(view["own.roles"][role]["replicas"]), about.least)
            for role, about in frameworks.recipe(view["elastic.framework"]).roles.items()
        } | {"worker": requested.nodes if requested else 1}
        suffix = max((f"-{role}-{count - 1}" for role, count in counts.items() if count), key=len)
    limit = min(names.HELM_RELEASE_NAME_MAX, names.DNS_LABEL_MAX - len(suffix))
    if limit == names.HELM_RELEASE_NAME_MAX:
        return limit, ""
    return limit, " with the pods' names behind it"


def _release_name(view: View) -> Iterator[Finding]:
    name = view.release
    if name and not has_dns_1035_form(name):
        yield Finding(
            (),
            f"the release name {name!r} is no name for a Service: it needs lower-case letters, "
            'digits and "-", a letter first and no "-" last',
            f"name it {nearest_name(name, names.HELM_RELEASE_NAME_MAX)}",
        )


def _release_length(view: View) -> Iterator[Finding]:
    name = view.release
    limit, reason = _limit(view)
    if has_dns_1035_form(name) and len(name) > limit:
        yield Finding(
            (),
            f"the release name is {len(name)} characters long; at most {limit} are allowed{reason}",
            f"name it {nearest_name(name, limit)}",
        )


def _namespace(view: View) -> Iterator[Finding]:
    name = view.namespace
    if name and not is_dns_1123_label(name):
        yield Finding(
            (),
            f"the namespace {name!r} is no name for a namespace: it needs lower-case letters, "
            f'digits and "-", at most {names.DNS_LABEL_MAX}',
            f"name it {nearest_name(name, names.DNS_LABEL_MAX)}",
        )


def _own_labels(view: View) -> Iterator[Finding]:
    for dotted in ("labels", "annotations"):
        for key in view[dotted]:
            if is_reserved(key):
                yield Finding(path(dotted, key), "the charts set this key themselves", "remove it")
    for dotted in ("podTemplate.metadata.labels", "podTemplate.metadata.annotations"):
        template = view["podTemplate"].get("metadata", {}).get(dotted.rsplit(".", 1)[1], {})
        for key in template:
            if is_reserved(key):
                yield Finding(
                    path(dotted, key),
                    "the charts find the job's pods by this key, so it cannot be changed",
                    "remove it, or use a key of your own",
                )


def _no_hooks(view: View) -> Iterator[Finding]:
    for key in view["annotations"]:
        if key.startswith(names.HELM_HOOK):
            yield Finding(
                path("annotations", key),
                "would turn the job's own objects into Helm hooks, which belong to no release",
                "remove it",
            )


def _account(view: View) -> Iterator[Finding]:
    if view["serviceAccount.annotations"] and not view["serviceAccount.create"]:
        yield Finding(
            path("serviceAccount.annotations"),
            "annotations are for an account that the chart makes, and create is false",
            "set serviceAccount.create: true, or annotate the existing account itself",
        )


def _queue_revision(view: View) -> Iterator[Finding]:
    if view["queueRef.revision"] and not view["queueRef.name"]:
        yield Finding(
            path("queueRef.name"),
            "empty, and a revision is given",
            "name the queue that has it, or leave both out",
        )


def _network_policy(view: View) -> Iterator[Finding]:
    enabled = view["networkPolicy.enabled"]
    if view["networkPolicy.from"] and not enabled:
        yield Finding(
            path("networkPolicy.from"),
            "others are let in by a NetworkPolicy, and enabled is false",
            "set networkPolicy.enabled: true, or leave it out",
        )
    if enabled and view["network.hostNetwork"]:
        yield Finding(
            path("networkPolicy.enabled"),
            "no NetworkPolicy holds for pods in the node's own network",
            "leave out one of networkPolicy.enabled and network.hostNetwork",
        )


RULES = (
    ValuesRule(
        "release-name",
        "The release's name is the name of a Service: lower-case letters, digits and `-`, a "
        "letter first.",
        (),
        _release_name,
    ),
    ValuesRule(
        "release-length",
        "The release's name has at most 53 characters; fewer with a StatefulSet and with MPI, "
        "whose pods are named after it.",
        (*SIZE, "own.controller", "own.transport", "own.roles"),
        _release_length,
    ),
    ValuesRule(
        "namespace",
        "The namespace has lower-case letters, digits and `-`, at most 63.",
        (),
        _namespace,
    ),
    ValuesRule(
        "own-labels",
        "Labels and annotations that the charts set themselves are not set by the user.",
        ("labels", "annotations", "podTemplate"),
        _own_labels,
    ),
    ValuesRule(
        "no-hooks",
        "`annotations` do not make Helm hooks of the job's objects.",
        ("annotations",),
        _no_hooks,
    ),
    ValuesRule(
        "service-account",
        "`serviceAccount.annotations` need `serviceAccount.create`.",
        ("serviceAccount",),
        _account,
    ),
    ValuesRule(
        "queue-revision",
        "`queueRef.revision` comes with `queueRef.name`.",
        ("queueRef",),
        _queue_revision,
    ),
    ValuesRule(
        "network-policy",
        "`networkPolicy.from` needs `networkPolicy.enabled`, which excludes `network.hostNetwork`.",
        ("networkPolicy", "network.hostNetwork"),
        _network_policy,
    ),
)
