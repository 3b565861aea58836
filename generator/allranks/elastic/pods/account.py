"""The account that a job's own master runs as, and the history that it may change.

Anybody who names the image of a master has the master's rights, so that these are limited to one
job: its ElasticJob and its history, by name. Rights that cannot be limited by name (to list pods,
to create plans and Events) hold for the namespace. A right to create cannot be limited by name
either, which is why the operator creates the history before there is a master.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from allranks import names
from allranks.elastic.pods import metadata as pod_metadata
from allranks.k8s.fields import mapping

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allranks.elastic.api.job import ElasticJob
    from allranks.k8s.manifest import Manifest

_RBAC = "rbac.authorization.k8s.io"
_HISTORY_RESOURCE = "configmaps"


@dataclass(frozen=True, slots=True)
class Account:
    """The objects that give a master's pod an account of its own.

    Attributes:
        account: the ServiceAccount.
        history: the ConfigMap that outlives the job, for the next one of its name.
        role: the Role with the account's rights.
        binding: the RoleBinding of account and role.
    """

    account: Manifest
    history: Manifest
    role: Manifest
    binding: Manifest

    @property
    def role_without_history(self) -> Manifest:
        """The role where the name of the history is somebody else's: that stays unseen."""
        rules = [rule for rule in self.role["rules"] if _HISTORY_RESOURCE not in rule["resources"]]
        return {**self.role, "rules": rules}


def account(job: ElasticJob) -> Account:
    """Return the account of a job's master, owned by the job and named after its uid.

    Args:
        job: the job.
    """
    name = pod_metadata.account_name(job)
    metadata = pod_metadata.metadata(job, name, pod_metadata.common(job))
    return Account(
        account={
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": metadata,
            "automountServiceAccountToken": False,
        },
        history=_history(job),
        role={
            "apiVersion": f"{_RBAC}/v1",
            "kind": "Role",
            "metadata": metadata,
            "rules": _rules(job),
        },
        binding={
            "apiVersion": f"{_RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": _RBAC, "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": job.namespace}],
        },
    )


def is_history_of(secret: Manifest, name: str) -> bool:
    """Whether a ConfigMap is the history of jobs of a name, whoever created it.

    A ConfigMap `NAME-history` may belong to anybody, and the creator of a job chooses its name.

    Args:
        secret: the ConfigMap, under the name of that history.
        name: the job's.
    """
    own: Mapping[str, object] = mapping(secret, "metadata", "labels")
    owners = (own.get(names.EDL_NAME), own.get(names.APP_INSTANCE))
    return own.get(names.APP_PART_OF) == names.PART_OF and name in owners


def _history(job: ElasticJob) -> Manifest:
    own = {names.APP_PART_OF: names.PART_OF, names.EDL_NAME: job.name}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": _history_name(job), "namespace": job.namespace, "labels": own},
    }


def _history_name(job: ElasticJob) -> str:
    return f"{job.name}{names.HISTORY_SUFFIX}"


def _rules(job: ElasticJob) -> list[Manifest]:
    """Return the rules that charts/elastic gives to masters; a test holds the two equal."""
    return [
        {
            "apiGroups": [names.ELASTIC_GROUP],
            "resources": [names.ELASTIC_JOBS],
            "resourceNames": [job.name],
            "verbs": ["get"],
        },
        {
            "apiGroups": [names.ELASTIC_GROUP],
            "resources": [names.SCALE_PLANS],
            "verbs": ["get", "list", "create"],
        },
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
        {"apiGroups": [""], "resources": ["events"], "verbs": ["create"]},
        {
            "apiGroups": [""],
            "resources": [_HISTORY_RESOURCE],
            "resourceNames": [_history_name(job)],
            "verbs": ["get", "patch"],
        },
    ]
