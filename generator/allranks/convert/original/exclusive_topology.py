"""Pods that have a domain of the cluster for themselves, by an annotation of their set.

The first pod has affinities by which it stands where no other set does, and the others select the
domain of its node: pkg/webhooks/pod_mutating_webhook.go of kubernetes-sigs/jobset, and
pkg/webhooks/pod_webhook.go and pkg/controllers/pod_controller.go of kubernetes-sigs/lws.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from allranks.k8s.fields import items, mapping

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from allranks.convert.original import OriginalPod

# What the cluster alone knows, in words that all sets have alike.
_OWN = "its own"
_OF_FIRST = "that of the first pod"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def placed(
    pods: Sequence[OriginalPod], domain: str, label: str, scope: Mapping[str, Any]
) -> Iterator[OriginalPod]:
    """The pods of a set that has a domain for itself.

    Args:
        pods: the pods, the first of them first.
        domain: the label of nodes whose value is a domain.
        label: the label of pods that says which set they are of, by a hash.
        scope: what the terms of the affinities have besides, such as a namespaceSelector.
    """
    own = {"key": label, "operator": "In", "values": [_OWN]}
    others = ({"key": label, "operator": "Exists"}, {**own, "operator": "NotIn"})
    terms = {"podAffinity": (own,), "podAntiAffinity": others}
    followers: dict[int, Mapping[str, Any]] = {}  # the pods of a set share their template
    for index, pod in enumerate(pods):
        spec, template = pod.spec, id(pod.template)
        if not index:
            affinity = dict(mapping(spec, "affinity"))
            for kind, expressions in terms.items():
                selector = {"labelSelector": {"matchExpressions": list(expressions)}}
                term = {**selector, "topologyKey": domain, **scope}
                before = mapping(affinity, kind)
                affinity[kind] = {**before, _REQUIRED: [*items(before, _REQUIRED), term]}
            yield pod.with_spec({**spec, "affinity": affinity})
            continue
        if template not in followers:
            selected = {**mapping(spec, "nodeSelector"), domain: _OF_FIRST}
            followers[template] = {**pod.template, "spec": {**spec, "nodeSelector": selected}}
        yield replace(pod, template=followers[template])
