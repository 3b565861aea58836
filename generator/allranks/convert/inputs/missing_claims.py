"""Claims of devices that a container names and its pod does not have: a slip in one of the two."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from allranks.convert import near_words
from allranks.convert.inputs import pod_fields
from allranks.convert.verdicts import dotted
from allranks.errors import InputError
from allranks.k8s import fields as k8s

if TYPE_CHECKING:
    from collections.abc import Mapping


def refuse(manifest: Mapping[str, Any]) -> None:
    """Refuse an object whose containers name such a claim: no API server takes its pods.

    Args:
        manifest: the object.

    Raises:
        InputError: it has one.
    """
    for path, spec in pod_fields.pod_specs(manifest):
        of_pod = [k8s.text(claim, "name") for claim in k8s.items(spec, "resourceClaims")]
        for kind in ("initContainers", "containers"):
            for index, container in enumerate(k8s.items(spec, kind)):
                claims = k8s.items(container, "resources", "claims")
                for place, claim in enumerate(claims):
                    name = k8s.text(claim, "name")
                    if name and name not in of_pod:
                        near = near_words.nearest_word(name, of_pod)
                        raise InputError(
                            f"the pod has no resourceClaim {name}",
                            path=dotted((*path, kind, index, "resources", "claims", place)),
                            hint=f"did you mean {near}?" if near else "name one of resourceClaims",
                        )
