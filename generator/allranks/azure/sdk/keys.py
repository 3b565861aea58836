"""The key of a storage account, for a Secret of a cluster; it is kept and shown nowhere else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from allranks.azure.sdk.arm import SdkArm
from allranks.azure.sdk.errors import translated
from allranks.errors import RefusedError

if TYPE_CHECKING:
    from allranks.azure.settings import Subscription


def account_key(where: Subscription, group: str, account: str) -> str:
    """A key of a storage account.

    Args:
        where: whose Azure is asked.
        group: the account's resource group.
        account: its name.

    Raises:
        ForbiddenError: the role is missing that lets somebody read keys.
        RefusedError: the account takes no keys.
    """
    with translated(f"read a key of storage account {account}"):
        accounts = SdkArm(where)._storage.storage_accounts  # noqa: SLF001 - the client of this package
        answer: Any = accounts.list_keys(group, account)
    key = next((item.value for item in answer.keys_property or () if item.value), "")
    if not key:
        raise RefusedError(
            f"storage account {account} has no key",
            hint="give the volume a clientID instead, whose identity has a role on the account",
        )
    return str(key)
