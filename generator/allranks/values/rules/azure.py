"""Rules about volumes on Azure: shares of Azure Files, and containers of Blob Storage."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from allranks.values.rules.base import Finding, ValuesRule, View, path

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from allranks.schema.paths import ValuesPath

FILE, BLOB = "azureFile", "azureBlob"
# How the values name what exists, in the words of the drivers.
NAMES = {FILE: "shareName", BLOB: "containerName"}
_SIZES = ("size", "sizePerGpu")
_PASSWORD = re.compile(r"(^|[\s,])pass(word2?)?=", re.IGNORECASE)
_STANDARD = "Standard_"
_NFS = "nfs"


@dataclass(frozen=True, slots=True)
class _Volume:
    """A volume on Azure.

    Attributes:
        name: the volume's: datasets.
        key: azureFile or azureBlob.
        values: those of the volume.
    """

    name: str
    key: str
    values: Mapping[str, Any]

    @property
    def settings(self) -> Mapping[str, Any]:
        """The settings that are given of it."""
        settings: Mapping[str, Any] = self.values[self.key]
        return settings

    @property
    def name_key(self) -> str:
        """The key that names what exists."""
        return NAMES[self.key]

    @property
    def existing(self) -> str:
        """The share or container that exists; "" where a new one is asked for."""
        return str(self.settings.get(self.name_key) or "")

    @property
    def is_nfs(self) -> bool:
        """Whether it is mounted by NFS, as a file system with all that Linux knows."""
        return bool(self.settings.get("protocol") == _NFS)

    def path(self, *keys: str | int) -> ValuesPath:
        """The path of its settings, or of what is in them."""
        return path(f"storage.{self.name}.{self.key}", *keys)


def exists(volume: Mapping[str, Any]) -> bool:
    """Whether a volume is a share or a container that exists."""
    return any((volume.get(key) or {}).get(name_key) for key, name_key in NAMES.items())


def _volumes(view: View) -> Iterator[_Volume]:
    for name, volume in view["storage"].items():
        for key in NAMES:
            if volume[key]:
                yield _Volume(name, key, volume)


def _one_volume(view: View) -> Iterator[Finding]:
    for volume in _volumes(view):
        at = path(f"storage.{volume.name}")
        size = next((key for key in _SIZES if volume.values[key]), "")
        if volume.key == BLOB and volume.values[FILE]:
            yield Finding(volume.path(), f"{FILE} is set too", "remove one of them")
        elif volume.values["existingClaim"]:
            yield Finding(
                volume.path(),
                "existingClaim is set, and a claim has its volume already",
                "remove one of them",
            )
        elif volume.existing and size:
            yield Finding(
                (*at, size),
                f"{volume.existing} exists and has its size already",
                f"remove it, or remove {volume.key}.{volume.name_key} for a new one",
            )
        elif not (volume.existing or size):
            yield Finding(
                volume.path(),
                f"neither {volume.name_key} nor a size is given",
                f"name what exists in {volume.name_key}, or set storage.{volume.name}.size",
            )
        if volume.values["storageClassName"]:
            yield Finding(
                (*at, "storageClassName"),
                f"is for claims of another class, and {volume.key} has its own",
                "remove one of them",
            )


def _account(view: View) -> Iterator[Finding]:
    for volume in _volumes(view):
        settings = volume.settings
        by_secret = settings.get("secretName") and not volume.is_nfs
        if volume.existing and not (settings.get("storageAccount") or by_secret):
            yield Finding(
                volume.path("storageAccount"),
                f"is missing, and no driver finds {volume.existing} without its account",
                "name the storage account",
            )
        if volume.existing and settings.get("skuName"):
            yield Finding(
                volume.path("skuName"),
                f"{volume.existing} exists, and its account is what it is",
                "remove it",
            )
        elif (
            volume.key == FILE
            and volume.is_nfs
            and settings.get("skuName", "").startswith(_STANDARD)
        ):
            yield Finding(
                volume.path("skuName"),
                f"a share in an account of {settings['skuName']} cannot be mounted by nfs",
                "use Premium_LRS, or protocol: smb",
            )


def _credentials(view: View) -> Iterator[Finding]:
    for volume in _volumes(view):
        settings = volume.settings
        credentials = [key for key in ("secretName", "clientID") if settings.get(key)]
        if volume.is_nfs:
            for key in credentials:
                yield Finding(
                    volume.path(key),
                    "nfs asks for no credentials, only for a network that may reach the account",
                    "remove it, or use another protocol",
                )
        elif len(credentials) > 1:
            yield Finding(volume.path("clientID"), "secretName is set too", "remove one of them")
        for index, option in enumerate(settings.get("mountOptions") or ()):
            if _PASSWORD.search(option):
                yield Finding(
                    volume.path("mountOptions", index),
                    "is a key, and values are for everybody to read",
                    "remove it, change the key, and name a Secret that has it in secretName",
                )


def _limits(view: View) -> Iterator[Finding]:
    for volume in _volumes(view):
        if volume.name == "workspace" and not volume.is_nfs:
            kind = "SMB" if volume.key == FILE else "blobfuse"
            yield Finding(
                volume.path("protocol"),
                f"{kind} has no hard links and no permissions of single files, which conda "
                "environments, pip and git need; datasets and checkpoints are fine there",
                "use protocol: nfs, or send the code with `allranks submit`",
            )


RULES = (
    ValuesRule(
        "azure-volume",
        "A volume on Azure is one of `azureFile` and `azureBlob`, and either exists, by its name, "
        "or is new, with a size.",
        ("storage",),
        _one_volume,
    ),
    ValuesRule(
        "azure-account",
        "What exists on Azure is in an account that is named; what is mounted by NFS from Azure "
        "Files is in a Premium one.",
        ("storage",),
        _account,
    ),
    ValuesRule(
        "azure-credentials",
        "A volume on Azure has at most one of `secretName` and `clientID`, and no key in its "
        "values.",
        ("storage",),
        _credentials,
    ),
    ValuesRule(
        "azure-limits",
        "`storage.workspace` is on no SMB share and no blobfuse mount, where code that needs hard "
        "links or permissions breaks.",
        ("storage",),
        _limits,
        warning=True,
        cluster=True,
    ),
)
