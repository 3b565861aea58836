"""How many pods of a workload start together, and the PodGroup that says so.

Shared by the dialects, which differ only in where they write it.
"""

from __future__ import annotations

from allranks import names
from allranks.postrender.edit import clone
from allranks.postrender.workloads import GANGS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from allranks.postrender.asks import Scheduling
    from allranks.postrender.workloads import Workload

_LABEL_MAX = names.DNS_LABEL_MAX


def size(workload: Workload, ask: Scheduling) -> int:
    """The pods that must start together; 0 where the workload is no gang.

    A Deployment, a ReplicaSet or a bare Pod is none: its pods are of use one by one.

    Raises:
        InputError: more are asked for than there are, or their number is not known.
    """
    if workload.kind not in GANGS:
        return 0
    pods = workload.pods
    if ask.gang_min:
        if pods is not None and ask.gang_min > pods:
            workload.edit.refuse(
                ("gang", "minMember"),
                f"{ask.gang_min} pods must start together, but only {pods} are made; "
                "the job would wait for ever",
                f"ask for {pods} at most",
            )
        return ask.gang_min
    if pods is None:
        workload.edit.refuse(
            ("gang", "minMember"),
            "the number of pods cannot be read from the manifest",
            "give it: --gang-min N",
        )
    return pods


def group(workload: Workload, api_version: str, spec: dict[str, Any]) -> dict[str, Any]:
    """The workload's PodGroup: its name, its namespace and its release's labels."""
    metadata: dict[str, Any] = {"name": label_value(workload, workload.name, "the PodGroup's name")}
    for key in ("namespace", "labels"):
        value = workload.edit.get(("metadata", key))
        if value:
            metadata[key] = clone(value)
    annotations = {
        key: value
        for key in (names.HELM_POSTRENDER_FILENAME, names.VALUES_DIGEST)
        if (value := workload.edit.get(("metadata", "annotations", key))) is not None
    }
    if annotations:
        metadata["annotations"] = annotations
    return {"apiVersion": api_version, "kind": "PodGroup", "metadata": metadata, "spec": spec}


def label_value(workload: Workload, text: str, what: str) -> str:
    """A text that is written as a label's value, if Kubernetes takes it as one.

    Raises:
        InputError: the API server would refuse it.
    """
    inner = text.replace("-", "").replace("_", "").replace(".", "")
    plain = inner.isascii() and inner.isalnum() and text[0].isalnum() and text[-1].isalnum()
    if not plain or len(text) > _LABEL_MAX:
        workload.edit.refuse(
            ("metadata", "labels"),
            f"{what} is written as a label, and {text!r} cannot be one",
            f"use letters, digits and - _ . inside, at most {_LABEL_MAX}",
        )
    return text
