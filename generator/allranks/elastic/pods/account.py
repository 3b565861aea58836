"""The account of a job's own that its master runs as, and the history that it may change.

Who names the image of a master has its rights, so these are of one job: that ElasticJob and that
history by name. What cannot be given by name (to list pods, to create plans and Events) is as for
every job of the namespace. A right to create cannot be given by name either, which is why the
history is made by the watcher, before there is a master.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from allranks import names
from allranks.elastic.pods import labels, naming
from allranks.status.fields import mapping

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allranks.elastic.job import ElasticJob
    from allranks.model.manifest import Manifest

_RBAC = "rbac.authorization.k8s.io"
_HISTORY_RESOURCE = "configmaps"


@dataclass(frozen=True, slots=True)
class Account:
    """What is made before the pod of a master that has an account of its job's own.

    Attributes:
        account: the ServiceAccount.
        history: the ConfigMap that outlives the job, for the next one of its name.
        role: what the account may do.
        binding: of the two.
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
    """The account of a job's master, owned by the job; its name is no earlier job's.

    Args:
        job: the job.
    """
    name = naming.account_name(job)
    metadata = labels.metadata(job, name, labels.common(job))
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


def is_history_of(found: Manifest, name: str) -> bool:
    """Whether a ConfigMap is the history of jobs of a name: the watcher's, a master's or a chart's.

    A ConfigMap `NAME-history` may be anybody's, and who creates a job chooses its name.

    Args:
        found: the ConfigMap, under the name of that history.
        name: the job's.
    """
    own: Mapping[str, object] = mapping(found, "metadata", "labels")
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
    """As charts/elastic gives them to the masters of its releases; a test holds the two equal."""
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
