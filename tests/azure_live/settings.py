"""A cluster that is small enough to be tried."""

from __future__ import annotations

import os


def small_cluster(name: str) -> str:
    """An azure.yaml of one machine, a share and a container, with an hour to live.

    Args:
        name: what the whole is called.
    """
    region = os.environ.get("ALLRANKS_AZURE_REGION", "westeurope")
    size = os.environ.get("ALLRANKS_AZURE_SIZE", "Standard_D2s_v5")
    return (
        f"name: {name}\nregion: {region}\nmaxHours: 1\n"
        f"cluster: {{systemPool: {{vmSize: {size}}}}}\n"
        f"pools: [{{name: cpu, vmSize: {size}, maxNodes: 1}}]\n"
        "storage: {shares: [{name: datasets, quotaGiB: 1}], containers: [blobs]}\n"
    )
