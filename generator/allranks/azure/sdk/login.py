"""Who asks Azure: a credential of azure-identity, or a token for a test."""

from __future__ import annotations

import logging
import os
import sys
import time
from typing import TYPE_CHECKING, Any

from allranks.errors import InputError

if TYPE_CHECKING:
    from azure.core.credentials import AccessToken, TokenCredential

# A fake that speaks Azure's protocol on this machine, and its token; nothing else uses them.
ENV_ENDPOINT = "ALLRANKS_AZURE_ENDPOINT"
ENV_TOKEN = "ALLRANKS_AZURE_TOKEN"  # noqa: S105 - the name of a variable
_LIFE = 3600
# azure-identity logs each way to log in that fails; all of it is in the error that we show.
logging.getLogger("azure").addHandler(logging.NullHandler())

# Azure's clouds: where ARM is, where one logs in, and how the names of stores end.
CLOUDS = {
    "public": (
        "https://management.azure.com",
        "login.microsoftonline.com",
        "core.windows.net",
    ),
    "usGovernment": (
        "https://management.usgovcloudapi.net",
        "login.microsoftonline.us",
        "core.usgovcloudapi.net",
    ),
    "china": (
        "https://management.chinacloudapi.cn",
        "login.chinacloudapi.cn",
        "core.chinacloudapi.cn",
    ),
}


class StaticCredential:
    """A token that somebody has given."""

    def __init__(self, token: str) -> None:
        self._token = token

    def get_token(self, *_scopes: str, **_: Any) -> AccessToken:
        """The token, as one that is good for an hour."""
        from azure.core.credentials import AccessToken

        return AccessToken(self._token, int(time.time()) + _LIFE)


def endpoint(cloud: str) -> str:
    """The address of a cloud's ARM, or of the fake that a test names."""
    return os.environ[ENV_ENDPOINT] if is_fake() else CLOUDS[cloud][0]


def is_fake() -> bool:
    """Whether a test has named another endpoint, with a token for it.

    No login of a person's ever goes there.
    """
    return bool(os.environ.get(ENV_ENDPOINT) and os.environ.get(ENV_TOKEN))


def credential(login: str, cloud: str) -> TokenCredential:  # noqa: PLR0911 - a way each
    """The credential with which Azure is asked.

    Args:
        login: the way, as in azure.yaml.
        cloud: which Azure.

    Raises:
        InputError: the way lacks something of this machine.
    """
    if is_fake():
        return StaticCredential(os.environ[ENV_TOKEN])
    from azure import identity

    authority = CLOUDS[cloud][1]
    try:
        if login == "environment":
            return identity.EnvironmentCredential(authority=authority)
        if login == "workloadIdentity":
            return identity.WorkloadIdentityCredential(authority=authority)
        if login == "managedIdentity":
            return identity.ManagedIdentityCredential(client_id=os.environ.get("AZURE_CLIENT_ID"))
        if login == "cli":
            return identity.AzureCliCredential()
        if login == "deviceCode":
            return identity.DeviceCodeCredential(authority=authority, prompt_callback=_prompt)
        return identity.DefaultAzureCredential(authority=authority)
    except ValueError as error:
        raise InputError(
            f"the login {login!r} lacks something: {' '.join(str(error).split())}",
            path="login",
            hint="set what is missing, or write login: auto",
        ) from error


def _prompt(uri: str, code: str, _: object) -> None:
    sys.stderr.write(f"open {uri} in a browser, and enter the code {code}\n")
    sys.stderr.flush()
