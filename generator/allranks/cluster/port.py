"""What the rest of the package may ask of a cluster, whatever library answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from allranks.model.inventory import Inventory


class Cluster(Protocol):
    """A cluster that can be asked; it is never changed through this port.

    Every method raises InputError where the kubeconfig is at fault, and ToolError where the cluster
    does not answer or does not allow it.
    """

    @property
    def where(self) -> str:
        """The context and the server's address, for messages."""

    def inventory(self, gpu_resource: str) -> Inventory:
        """All nodes with what is free on them now."""

    def version(self) -> str:
        """The API server's version, as in ``v1.34.1``."""

    def may(self, verb: str, resource: str, *, group: str = "", namespace: str = "") -> bool:
        """Whether the user may do this; "" as namespace is the whole cluster."""
