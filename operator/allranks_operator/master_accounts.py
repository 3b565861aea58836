"""Create the ServiceAccount of an elastic job's master; existing objects stay as they are.

The right to a history is given by name, and the name is the job's. So whose the ConfigMap of that
name is, is looked at first: one that is no history is nobody's to change.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from allranks.elastic.pods import is_history_of
from allranks.errors import ExistsError
from allranks_operator.kube import resources

if TYPE_CHECKING:
    from allranks.elastic.pods.account import Account
    from allranks.k8s.manifest import Manifest
    from allranks_operator.kube.client import Api


def make(api: Api, job: Manifest, account: Account) -> bool:
    """Create the account and its rights, in an order that can be resumed at any point.

    Args:
        api: the API server.
        job: the ElasticJob.
        account: what is to be made.

    Returns:
        Whether the master may keep a history; not where its name is taken.

    Raises:
        ApiError: see `allranks.errors`.
    """
    namespace: str = job["metadata"]["namespace"]
    keeps = _has_history(api, namespace, job["metadata"]["name"], account.history)
    role = account.role if keeps else account.role_without_history
    for path, manifest in (
        (resources.SERVICE_ACCOUNTS, account.account),
        (resources.ROLES, role),
        (resources.ROLE_BINDINGS, account.binding),
    ):
        with suppress(ExistsError):
            api.create(path, namespace, manifest, metadata_only=True)
    return keeps


def _has_history(api: Api, namespace: str, job: str, history: Manifest) -> bool:
    try:
        api.create(resources.CONFIG_MAPS, namespace, history, metadata_only=True)
    except ExistsError:
        name = history["metadata"]["name"]
        return is_history_of(api.get(resources.CONFIG_MAPS, namespace, name), job)
    return True
