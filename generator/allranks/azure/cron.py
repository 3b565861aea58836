"""The reaper inside a cluster: a CronJob with a workload identity, and no key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.yamlio.dump import dump

if TYPE_CHECKING:
    from allranks.azure.observed import Cluster
    from allranks.azure.settings import Settings

_NAME = "allranks-azure-reap"
_SCHEDULE = "*/15 * * * *"
_USER = 65532


def manifests(
    settings: Settings, cluster: Cluster | None, image: str, client: str, namespace: str
) -> str:
    """The ServiceAccount and the CronJob, with what has to be done in Azure above them.

    Args:
        settings: the azure.yaml.
        cluster: the cluster, for its OIDC issuer; None where it is not asked.
        image: with allranks and its extra `azure` in it.
        client: the client id of the identity; "" leaves its place to the person.
        namespace: where it runs.
    """
    head = _head(settings, cluster.issuer if cluster is not None else "", namespace)
    client = client or "CLIENT_ID"
    documents = [_account(client, namespace), _job(settings, image, namespace)]
    return head + "".join(f"---\n{dump(document)}" for document in documents)


def _head(settings: Settings, issuer: str, namespace: str) -> str:
    issuer = issuer or (
        f"$(az aks show {_group_flags(settings)} -n {settings.cluster} "
        "--query oidcIssuerProfile.issuerUrl -o tsv)"
    )
    return f"""\
# Removes resource group {settings.group} when its time is over, asked every 15 minutes. It needs an
# identity that may do so, made once by somebody who may give roles (Owner of the group):
#   az identity create {_group_flags(settings)} -n {_NAME} --tags allranks-name={settings.name}
#   az role assignment create --role Contributor --assignee-object-id \\
#     "$(az identity show {_group_flags(settings)} -n {_NAME} --query principalId -o tsv)" \\
#     --assignee-principal-type ServicePrincipal \\
#     --scope '/subscriptions/{settings.subscription}/resourceGroups/{settings.group}'
#   az identity federated-credential create {_group_flags(settings)} \\
#     --identity-name {_NAME} -n reap --issuer "{issuer}" \\
#     --subject system:serviceaccount:{namespace}:{_NAME} --audiences api://AzureADTokenExchange
# The client id: az identity show {_group_flags(settings)} -n {_NAME} --query clientId -o tsv
"""


def _group_flags(settings: Settings) -> str:
    return f"--subscription {settings.subscription} -g '{settings.group}'"


def _labels() -> dict[str, str]:
    return {names.APP_NAME: _NAME, names.APP_PART_OF: names.PART_OF}


def _account(client: str, namespace: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {
            "name": _NAME,
            "namespace": namespace,
            "labels": _labels(),
            "annotations": {"azure.workload.identity/client-id": client},
        },
    }


def _job(settings: Settings, image: str, namespace: str) -> dict[str, Any]:
    container = {
        "name": "reap",
        "image": image,
        "command": [names.CLI, "azure", "reap", "--yes", "--no-wait"],
        "args": [
            f"--subscription={settings.subscription}",
            f"--cloud={settings.cloud}",
            "--login=workloadIdentity",
            f"--only={settings.name}",
        ],
        "resources": {
            "requests": {"cpu": "50m", "memory": "256Mi"},
            "limits": {"memory": "512Mi"},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    pod = {
        "metadata": {"labels": {**_labels(), "azure.workload.identity/use": "true"}},
        "spec": {
            "serviceAccountName": _NAME,
            "restartPolicy": "Never",
            # Beside Kubernetes' own pods: no other machine is started for it.
            "nodeSelector": {"kubernetes.azure.com/mode": "system"},
            "tolerations": [
                {"key": "CriticalAddonsOnly", "operator": "Exists", "effect": "NoSchedule"}
            ],
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": _USER,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [container],
        },
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": _NAME, "namespace": namespace, "labels": _labels()},
        "spec": {
            "schedule": _SCHEDULE,
            "concurrencyPolicy": "Forbid",
            "successfulJobsHistoryLimit": 1,
            "failedJobsHistoryLimit": 3,
            "jobTemplate": {"spec": {"backoffLimit": 0, "template": pod}},
        },
    }
