"""A repository of a registry, and the credentials in docker's configuration for it."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import json
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from allranks.errors import InputError, RunError
from allranks.k8s.fields import mapping, text

if TYPE_CHECKING:
    from collections.abc import Mapping

_DOCKER_HUB = frozenset({"docker.io", "index.docker.io", "registry-1.docker.io"})
_HELPER_SECONDS = 60.0
_NOT_A_PASSWORD = "<token>"  # noqa: S105 - how a credential helper marks an identity token


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository of a registry.

    Attributes:
        host: the registry, with its port, as an image is named after it.
        path: the repository there.
    """

    host: str
    path: str

    def __str__(self) -> str:
        """Both, as in the name of an image."""
        return f"{self.host}/{self.path}"

    @property
    def api_host(self) -> str:
        """The host of its API."""
        return "registry-1.docker.io" if self.host in _DOCKER_HUB else self.host

    @property
    def is_plain(self) -> bool:
        """Whether it is asked without TLS: a registry of this machine is."""
        name = self.host.rpartition(":")[0] if re.search(r":\d+$", self.host) else self.host
        if name == "localhost":
            return True
        try:
            return ipaddress.ip_address(name.strip("[]")).is_loopback
        except ValueError:
            return False


@dataclass(frozen=True, slots=True)
class Credentials:
    """The credentials for a registry.

    Attributes:
        user: the name.
        password: a password, or a token in its place.
    """

    user: str
    password: str = field(repr=False)


def repository(name: str) -> Repository:
    """The repository that a name such as `registry.example.com/team/code` stands for.

    Raises:
        InputError: it names a registry, and no repository there.
    """
    host, _, path = name.rpartition("@")[0].partition("/") if "@" in name else name.partition("/")
    if host != "localhost" and not re.search(r"[.:]", host):
        host, path = "docker.io", f"{host}/{path}".strip("/")
    if not path:
        raise InputError(
            f"{name!r} names no repository",
            path="workspace.registry",
            hint=f"name one of that registry, such as {host}/team/code",
        )
    return Repository(host, path)


def credentials(host: str, env: Mapping[str, str]) -> Credentials | None:
    """The credentials in docker's configuration for a registry; None for none.

    Args:
        host: the registry.
        env: the environment; DOCKER_CONFIG names the folder of the configuration.

    Raises:
        RunError: the configuration cannot be read, or names a program that does not work.
    """
    home = Path(env.get("HOME") or "~").expanduser()
    path = Path(env.get("DOCKER_CONFIG") or home / ".docker") / "config.json"
    try:
        config = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        words = error.strerror if isinstance(error, OSError) else "it is no JSON"
        raise RunError(
            f"the credentials for {host} cannot be read: {words}",
            path=str(path),
            hint=f"mend the file, or remove it and `docker login {host}`",
        ) from error
    if host in _DOCKER_HUB:
        keys = ["https://index.docker.io/v1/", *sorted(_DOCKER_HUB)]
    else:
        keys = [host, f"https://{host}", f"https://{host}/", f"http://{host}"]
    for key in keys:
        entry = mapping(config, "auths", key)
        if plain := _plain(entry):
            return plain
        helper = text(config, "credHelpers", key) or text(config, "credsStore")
        if helper and (stored := _stored(helper, key, host)):
            return stored
        if text(entry, "identitytoken"):
            raise _unusable(host)
    return None


def _plain(entry: Any) -> Credentials | None:
    """The credentials in the file itself."""
    user, password = text(entry, "username"), text(entry, "password")
    try:
        joined = base64.b64decode(text(entry, "auth")).decode()
    except (binascii.Error, UnicodeDecodeError, ValueError):
        joined = ""
    if ":" in joined:
        user, _, password = joined.partition(":")
    return Credentials(user, password) if user and password else None


def _stored(helper: str, key: str, host: str) -> Credentials | None:
    """The credentials that a credential helper answers.

    Raises:
        RunError: it is not there, or has an identity token alone.
    """
    program = f"docker-credential-{helper}"
    path = shutil.which(program) if "/" not in helper else None
    if path is None:
        raise RunError(
            f"{program}, which docker's configuration names for {host}, is not on PATH",
            hint=f"put it there, or `docker login {host}` without a credential helper",
        )
    try:
        result = subprocess.run(  # noqa: S603 - the program that the user's own configuration names
            [path, "get"],
            input=key.encode(),
            capture_output=True,
            check=False,
            timeout=_HELPER_SECONDS,
        )
        answer = json.loads(result.stdout) if not result.returncode else {}
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise RunError(
            f"{program} gives no credentials for {host}",
            hint=f"try it: echo {key} | {program} get",
        ) from error
    user, password = text(answer, "Username"), text(answer, "Secret")
    if user == _NOT_A_PASSWORD:
        raise _unusable(host)
    return Credentials(user, password) if user and password else None


def _unusable(host: str) -> RunError:
    return RunError(
        f"docker's configuration has an identity token for {host}, which only docker can use",
        hint=f"`docker login {host}` with a name and an access token",
    )
