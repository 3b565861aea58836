"""Connects an upload to the store that it goes to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks.azure.sdk import access
from allranks.azure.sdk.keys import account_key
from allranks.azure.sdk.stores import BlobStore, ShareStore
from allranks.azure.sdk.wire import Wire
from allranks.azure.upload import StorageKind

if TYPE_CHECKING:
    import threading

    from allranks.azure.sdk.access import Entrance
    from allranks.azure.settings import Subscription
    from allranks.azure.upload import Destination


def connect(
    destination: Destination, account: str, *, cloud: str, way: str, stop: threading.Event
) -> BlobStore | ShareStore:
    """The store of a destination, by a login or by a connection string.

    Args:
        destination: which.
        account: the storage account; "" where a connection string names it.
        cloud: which Azure.
        way: how to log in.
        stop: ends all waiting when it is set.

    Raises:
        InputError: there is no way to log in.
    """
    entrance = access.entrance(destination.place, account, cloud=cloud, way=way)
    return _store(destination, entrance, stop)


def connect_by_key(
    destination: Destination,
    account: str,
    *,
    group: str,
    where: Subscription,
    stop: threading.Event,
) -> BlobStore | ShareStore:
    """The store of a destination, by a key that is read from Azure.

    Args:
        destination: which.
        account: the storage account.
        group: its resource group.
        where: whose Azure is asked.
        stop: ends all waiting when it is set.

    Raises:
        ForbiddenError: the role is missing that lets somebody read keys.
    """
    key = account_key(where, group, account)
    entrance = access.by_key(destination.place, account, key, cloud=where.cloud)
    return _store(destination, entrance, stop)


def _store(
    destination: Destination, entrance: Entrance, stop: threading.Event
) -> BlobStore | ShareStore:
    wire = Wire(entrance.endpoint, entrance.access, stop)
    kind = BlobStore if destination.place is StorageKind.BLOB else ShareStore
    return kind(wire, destination, entrance.account)
