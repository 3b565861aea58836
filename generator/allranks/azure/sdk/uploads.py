"""Connects an upload to the store that it goes to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks.azure.sdk import access
from allranks.azure.sdk.stores import BlobStore, ShareStore
from allranks.azure.sdk.wire import Wire
from allranks.azure.upload import Place

if TYPE_CHECKING:
    import threading

    from allranks.azure.upload import Destination


def connect(
    destination: Destination, account: str, *, cloud: str, way: str, stop: threading.Event
) -> BlobStore | ShareStore:
    """The store of a destination.

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
    wire = Wire(entrance.endpoint, entrance.access, stop)
    kind = BlobStore if destination.place is Place.BLOB else ShareStore
    return kind(wire, destination, entrance.account)
