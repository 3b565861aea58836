"""Send a snapshot to a registry as an image, and get it back.

What is there is not sent again: the image's digest is known before. Its parts go first and the
index last, so that a reference by digest never leads to half of an image.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from allranks.errors import InputError, MissingToolError
from allranks.workspace import image as images
from allranks.workspace.repository import Repository, credentials, repository

if TYPE_CHECKING:
    from allranks.cluster.interface import KubeClient
    from allranks.workspace.image import Image
    from allranks.workspace.model import Archive
    from allranks.workspace.registry_client import RegistryClient

# The first Kubernetes that mounts images without a feature gate.
_OLDEST = (1, 35)


def check_version(cluster: KubeClient) -> None:
    """Refuse a cluster whose pods cannot mount an image.

    Raises:
        InputError: its version is too old.
        AllranksError: it does not answer.
    """
    version = cluster.version()
    numbers = re.match(r"v?(\d+)\.(\d+)", version)
    if numbers and (int(numbers[1]), int(numbers[2])) < _OLDEST:
        raise InputError(
            f"{cluster.where} is Kubernetes {version}, whose pods cannot mount an image; "
            f"{_OLDEST[0]}.{_OLDEST[1]} and newer can",
            path="workspace.via",
            hint="set workspace.via: pvc and workspace.claim, or leave files out with "
            ".allranksignore until the rest fits into ConfigMaps",
        )


def push(name: str, image: Image) -> bool:
    """Push an image where it is not there; return whether it was pushed.

    Args:
        name: the repository.
        image: what is pushed.

    Raises:
        MissingToolError: what speaks to registries is not installed.
        InputError: the name is none of a repository.
        RunError: the registry refuses, or does not answer.
    """
    client = _client(repository(name))
    if client.has(image.index.digest):
        return False
    for blob in image.blobs:
        client.push_blob(blob)
    for manifest in image.manifests:
        client.push_manifest(manifest)
    client.push_manifest(image.index, image.tag)
    return True


def pull(reference: str) -> tuple[Archive, str]:
    """The archive that an image holds, and the digest of its snapshot.

    Args:
        reference: the image, by its digest.

    Raises:
        MissingToolError: what speaks to registries is not installed.
        RunError: the registry refuses or does not answer, or has something else.
    """
    client = _client(repository(reference))
    return images.read(reference.rpartition("@")[2], client.manifest, client.blob)


def _client(place: Repository) -> RegistryClient:
    try:
        from allranks.workspace.registry_client import RegistryClient
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in {"oras", "requests"}:
            raise
        raise MissingToolError(
            "workspace.via: image needs oras, which is not installed",
            hint="pip install 'allranks[registry]'",
        ) from error
    return RegistryClient(place, credentials(place.host, os.environ))
