"""The pods of an AppWrapper (v1beta1 and v1beta2): those of the job that it wraps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks.convert import original
from allranks.k8s import fields as k8s

if TYPE_CHECKING:
    from allranks.convert.documents.document import Manifest
    from allranks.convert.original import OriginalPod


def pods(manifest: Manifest) -> list[OriginalPod] | None:
    """The pods of the first component that is a job; None where none is one that is known.

    Args:
        manifest: the object.
    """
    components = k8s.items(manifest, "spec", "components")
    manifests = [dict(k8s.mapping(item, "template")) for item in components]
    generic_items = k8s.items(manifest, "spec", "resources", "GenericItems")  # v1beta1
    manifests += [dict(k8s.mapping(item, "generictemplate")) for item in generic_items]
    pod_lists = (original.pods(component, manifests) for component in manifests)
    return next((result for result in pod_lists if result is not None), None)
