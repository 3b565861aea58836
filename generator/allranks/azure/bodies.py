"""What is sent to make something, as Azure's API has it: of the requests and of the Bicep file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from allranks.azure.desired import DesiredAccount, DesiredCluster, DesiredPool


def cluster_body(cluster: DesiredCluster) -> Any:
    """The request for a new cluster, as the API has it."""
    return {
        "location": cluster.region,
        "tags": dict(cluster.tags),
        "sku": {"name": "Base", "tier": cluster.tier},
        "identity": {"type": "SystemAssigned"},
        "properties": {
            "dnsPrefix": cluster.dns_prefix,
            **({"kubernetesVersion": cluster.kubernetes} if cluster.kubernetes else {}),
            "enableRBAC": True,
            "agentPoolProfiles": [{"name": cluster.system.name, **pool_body(cluster.system)}],
            "networkProfile": {"networkPlugin": "azure", "networkPluginMode": "overlay"},
            "oidcIssuerProfile": {"enabled": True},
            "securityProfile": {"workloadIdentity": {"enabled": True}},
            "storageProfile": {
                "fileCSIDriver": {"enabled": True},
                "blobCSIDriver": {"enabled": True},
                "diskCSIDriver": {"enabled": True},
            },
            # A pool of GPUs is empty again ten minutes after the last run.
            "autoScalerProfile": {"scale-down-unneeded-time": "10m"},
        },
    }


def pool_body(pool: DesiredPool) -> dict[str, Any]:
    """The properties of a node pool, as the API has them."""
    is_scaled = pool.max_nodes is not None
    return {
        "mode": pool.mode,
        "type": "VirtualMachineScaleSets",
        "osType": "Linux",
        "vmSize": pool.vm_size,
        "count": pool.nodes,
        "enableAutoScaling": is_scaled,
        **({"minCount": pool.min_nodes, "maxCount": pool.max_nodes} if is_scaled else {}),
        **(
            {
                "scaleSetPriority": "Spot",
                "scaleSetEvictionPolicy": "Delete",
                "spotMaxPrice": -1,
            }
            if pool.spot
            else {}
        ),
        **({} if pool.gpu_driver else {"gpuProfile": {"driver": "None"}}),
        "nodeLabels": dict(pool.labels),
        "nodeTaints": list(pool.taints),
        "tags": dict(pool.tags),
    }


def account_body(account: DesiredAccount) -> Any:
    """The request for a storage account, as the API has it."""
    return {
        "location": account.region,
        "tags": dict(account.tags),
        "sku": {"name": account.sku},
        "kind": "FileStorage" if account.sku.startswith("Premium") else "StorageV2",
        "properties": {
            "minimumTlsVersion": "TLS1_2",
            "supportsHttpsTrafficOnly": True,
            "allowBlobPublicAccess": False,
        },
    }
