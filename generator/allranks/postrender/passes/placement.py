"""Topology without a special scheduler: affinities of the pods.

Where the domains are known (the layout chose them from an inventory) the pods are bound to their
nodes; where they are not, to each other. What the pods ask already is kept: a required term is
added to each alternative of theirs, since alternatives are OR-ed.
"""

from __future__ import annotations

from allranks import names
from allranks.postrender.edit import clone, same

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from allranks.postrender.edit import Edit, Path
    from allranks.postrender.requests import Scheduling, TopologyRequest
    from allranks.postrender.workloads import Template, Workload

# Dialects that place the pods of a gang themselves, from the topology they are given.
_OWN_TOPOLOGY = ("kueue", "kai", "volcano")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_WEIGHT = 100
# A domain has no meaning for these: one pod, or one pod on each node.
_ALONE = ("Pod", "DaemonSet")


def apply(workload: Workload, ask: Scheduling) -> None:
    """Add the affinity that keeps the pods in one domain, or in the domains chosen.

    Args:
        workload: the object.
        ask: what it asks of its scheduler.
    """
    topology = ask.topology
    if not topology.is_set or ask.dialect in _OWN_TOPOLOGY:
        return
    for template in workload.trainers:
        affinity = (*template.spec, "affinity")
        if topology.values:
            _nodes(workload.edit, (*affinity, "nodeAffinity"), topology)
        elif workload.kind not in _ALONE:
            selector = _selector(workload, template, topology)
            if selector:
                _pods(workload.edit, (*affinity, "podAffinity"), topology, selector)


def _nodes(edit: Edit, affinity: Path, topology: TopologyRequest) -> None:
    requirement = {"key": topology.key, "operator": "In", "values": list(topology.values)}
    if topology.mode == "preferred":
        _prefer(edit, (*affinity, _PREFERRED), "preference", {"matchExpressions": [requirement]})
        return
    terms = (*affinity, _REQUIRED, "nodeSelectorTerms")
    existing = edit.items(terms)
    if not existing:
        edit.put(terms, [{"matchExpressions": [requirement]}])
    for index, term in enumerate(existing):
        # An empty term selects no node; with our condition it would begin to select some.
        if term:
            edit.append((*terms, index, "matchExpressions"), requirement)


def _pods(edit: Edit, affinity: Path, topology: TopologyRequest, selector: dict[str, Any]) -> None:
    term = {**selector, "topologyKey": topology.key}
    if topology.mode == "required":
        edit.append((*affinity, _REQUIRED), term)
        return
    _prefer(edit, (*affinity, _PREFERRED), "podAffinityTerm", term)


def _prefer(edit: Edit, path: Path, key: str, term: dict[str, Any]) -> None:
    """Add a weighted term, unless the same one is there with whatever weight."""
    items = edit.items(path)
    if not any(isinstance(item, dict) and same(item.get(key), term) for item in items):
        edit.append(path, {"weight": _WEIGHT, key: term})


def _selector(workload: Workload, template: Template, topology: TopologyRequest) -> dict[str, Any]:
    """The labels that select the workload's pods; {} where there are none."""
    if topology.pods:
        return {"labelSelector": {"matchLabels": dict(topology.pods)}}
    if workload.kind == "JobSet":
        label = "jobset.sigs.k8s.io/jobset-name"
        return {"labelSelector": {"matchLabels": {label: workload.name}}} if workload.name else {}
    if workload.kind == names.ELASTIC_JOB and workload.name:
        return {"labelSelector": {"matchLabels": {names.EDL_NAME: workload.name}}}
    if workload.kind == "Job" and workload.name:
        return {"labelSelector": {"matchLabels": {names.JOB_NAME: workload.name}}}
    if workload.kind in ("Job", "CronJob"):
        # The name is made at run time: pods of the same name as this pod's.
        exists = {"key": names.JOB_NAME, "operator": "Exists"}
        return {
            "labelSelector": {"matchExpressions": [exists]},
            "matchLabelKeys": [names.JOB_NAME],
        }
    selector = workload.edit.get(("spec", "selector"))
    labels = clone(selector or {"matchLabels": workload.edit.get(template.labels) or {}})
    return {"labelSelector": labels} if labels != {"matchLabels": {}} else {}
