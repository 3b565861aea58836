"""What an AppDef of TorchX's is called: it has no metadata, as objects of Kubernetes' have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks.k8s.fields import items, text

if TYPE_CHECKING:
    from allranks.k8s.manifest import Manifest


def name_of(manifest: Manifest) -> str:
    """The name of an AppDef, which is that of its first role where it has none.

    Args:
        manifest: the object.
    """
    roles = items(manifest, "roles")
    return text(manifest, "name") or (text(roles[0], "name") if roles else "")
