"""How requests to a storage account are let in: a token, or a signature that a key gives.

A key is never written, printed or sent: it signs on this machine, for an hour.
"""

from __future__ import annotations

import datetime as dt
import os
import threading
import time
import urllib.parse
from dataclasses import dataclass
from typing import TYPE_CHECKING

from azure.core.exceptions import AzureError

from allranks.azure.sdk import errors, login
from allranks.azure.sdk.wire import ENV_CONNECTION
from allranks.azure.upload import StorageKind
from allranks.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from azure.core.credentials import TokenCredential

# A fake that a test has named, beside that of Resource Manager; nothing else uses it.
ENV_STORAGE = "ALLRANKS_AZURE_STORAGE_ENDPOINT"
_SCOPE = "https://storage.azure.com/.default"
_HOUR = 3600
_EARLY = 300  # seconds before its end, something new takes its place
_SERVICES = {StorageKind.BLOB: "blob", StorageKind.SHARE: "file"}
_ENDPOINTS = {StorageKind.BLOB: "BlobEndpoint", StorageKind.SHARE: "FileEndpoint"}


class TokenAccess:
    """A token of azure-identity, fetched anew before it expires."""

    origin = ""

    def __init__(self, credential: TokenCredential, place: StorageKind) -> None:
        self._credential = credential
        # Without this, Azure Files looks for a person's own rights on each file.
        self._more = {"x-ms-file-request-intent": "backup"} if place is StorageKind.SHARE else {}
        self._lock = threading.Lock()
        self._headers: Mapping[str, str] = {}
        self._until = 0.0

    def query(self) -> str:
        """What a request's address has behind `?`: nothing, the token is in a header."""
        return ""

    def headers(self) -> Mapping[str, str]:
        """The token.

        Raises:
            InputError: nobody is logged in.
        """
        with self._lock:
            if time.time() >= self._until:
                try:
                    token = self._credential.get_token(_SCOPE)
                except AzureError as error:
                    raise errors.login_error(str(error.message)) from error
                self._headers = {"Authorization": f"Bearer {token.token}", **self._more}
                self._until = token.expires_on - _EARLY
            return self._headers

    def renew(self) -> None:
        """Fetch another token for the next request."""
        with self._lock:
            self._until = 0.0


class SignedAccess:
    """A signature (SAS) that somebody has given, or that a key gives each hour.

    Args:
        sign: gives the signature.
        origin: where it comes from, for messages.
    """

    def __init__(self, sign: Callable[[], str], origin: str) -> None:
        self._sign, self.origin = sign, origin
        self._lock = threading.Lock()
        self._query = ""
        self._until = 0.0

    def query(self) -> str:
        """The signature."""
        with self._lock:
            if time.time() >= self._until:
                self._query = self._sign().lstrip("?")
                self._until = time.time() + _HOUR - _EARLY
            return self._query

    def headers(self) -> Mapping[str, str]:
        """The headers of a request: none, the signature is in its address."""
        return {}

    def renew(self) -> None:
        """Sign anew for the next request."""
        with self._lock:
            self._until = 0.0


@dataclass(frozen=True, slots=True)
class Entrance:
    """The address of a storage account's service, and how requests to it are authorized.

    Attributes:
        account: the account's name.
        endpoint: its address.
        access: how.
    """

    account: str
    endpoint: str
    access: TokenAccess | SignedAccess


def entrance(place: StorageKind, account: str, *, cloud: str, way: str) -> Entrance:
    """The entrance to an account.

    Args:
        place: which service of it.
        account: its name; "" where the connection string alone says it.
        cloud: which Azure, as in azure.yaml.
        way: how to log in, as in azure.yaml.

    Raises:
        InputError: the connection string is none, or is another account's.
    """
    text = os.environ.get(ENV_CONNECTION, "").strip()
    if text:
        return _connection_entrance(place, account, text)
    return Entrance(
        account, _endpoint(place, account, cloud), TokenAccess(login.credential(way, cloud), place)
    )


def key_entrance(place: StorageKind, account: str, key: str, *, cloud: str) -> Entrance:
    """The entrance to an account whose key is at hand.

    Args:
        place: which service of it.
        account: its name.
        key: its key.
        cloud: which Azure.
    """
    access = SignedAccess(lambda: _sign(place, account, key), f"account {account}")
    return Entrance(account, _endpoint(place, account, cloud), access)


def _endpoint(place: StorageKind, account: str, cloud: str) -> str:
    if login.is_fake() and os.environ.get(ENV_STORAGE):
        return os.environ[ENV_STORAGE]
    return f"https://{account}.{_SERVICES[place]}.{login.CLOUDS[cloud][2]}"


def _connection_entrance(place: StorageKind, account: str, text: str) -> Entrance:
    pairs = dict(part.partition("=")[::2] for part in text.split(";") if part)
    endpoint = pairs.get(_ENDPOINTS[place], "").rstrip("/")
    name = pairs.get("AccountName") or urllib.parse.urlsplit(endpoint).netloc.partition(".")[0]
    if not endpoint:
        suffix = pairs.get("EndpointSuffix", login.CLOUDS["public"][2])
        scheme = pairs.get("DefaultEndpointsProtocol", "https")
        endpoint = f"{scheme}://{name}.{_SERVICES[place]}.{suffix}"
    key, signature = pairs.get("AccountKey", ""), pairs.get("SharedAccessSignature", "")
    if not (name and (key or signature)):
        raise InputError(
            "is no connection string: it has no AccountName, or neither AccountKey nor "
            "SharedAccessSignature",
            path=ENV_CONNECTION,
            hint="`az storage account show-connection-string` prints one; or unset it",
        )
    if account and name != account:
        raise InputError(
            f"is of account {name!r}, and {account!r} is asked for",
            path=ENV_CONNECTION,
            hint=f"unset it to log in as azure.yaml says, or name {name} with --account",
        )
    if signature:
        return Entrance(name, endpoint, SignedAccess(lambda: signature, ENV_CONNECTION))
    access = SignedAccess(lambda: _sign(place, name, key), ENV_CONNECTION)
    return Entrance(name, endpoint, access)


def _sign(place: StorageKind, account: str, key: str) -> str:
    """A signature for one service of an account, which may do what an upload does."""
    until = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=_HOUR)
    try:
        if place is StorageKind.BLOB:
            from azure.storage import blob

            return blob.generate_account_sas(
                account,
                key,
                blob.ResourceTypes(container=True, object=True),
                blob.AccountSasPermissions(read=True, write=True, list=True, create=True),
                until,
            )
        from azure.storage import fileshare

        return fileshare.generate_account_sas(
            account,
            key,
            fileshare.ResourceTypes(container=True, object=True),
            fileshare.AccountSasPermissions(read=True, write=True, list=True, create=True),
            until,
        )
    except (AzureError, ValueError) as error:
        raise InputError(
            "has an AccountKey that is not base64",
            path=ENV_CONNECTION,
            hint="`az storage account show-connection-string` prints one; or unset it",
        ) from error
