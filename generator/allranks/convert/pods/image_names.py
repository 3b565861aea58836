"""The names of images: what a registry takes for one, and its parts."""

from __future__ import annotations

import re

# Without tag or digest, with a registry or without: ``gcr.io/team/trainer``. The values' own schema
# (schemas/defs/image.schema.yaml) takes the same.
_PART = r"[a-z0-9]+(?:[._-]+[a-z0-9]+)*"
_REPOSITORY = re.compile(
    rf"(?:[A-Za-z0-9](?:[-A-Za-z0-9.]*[A-Za-z0-9])?(?::[0-9]+)?/)?{_PART}(?:/{_PART})*"
)


# What a file with an image of Apptainer's or Enroot's ends in.
ENDING_OF_FILE = r"\.(?:sif|simg|sqsh|squashfs)"


def is_repository(name: str) -> bool:
    """Whether a name without tag and digest is one that a registry may have."""
    return _REPOSITORY.fullmatch(name) is not None


# When Kubernetes pulls an image whose container names no policy.
PULLED_ONCE, PULLED_ALWAYS = "IfNotPresent", "Always"


def pull_policy(image: str) -> str:
    """The policy of a container that names none: the latest is pulled each time.

    Args:
        image: ``registry:5000/team/name:tag@sha256:…``.
    """
    parts = image_parts(image)
    is_latest = parts.get("tag", "latest") == "latest" and "digest" not in parts
    return PULLED_ALWAYS if is_latest else PULLED_ONCE


def image_parts(image: str) -> dict[str, str]:
    """An image's name as `image` has it: repository, tag, digest, as far as it has them.

    Args:
        image: ``registry:5000/team/name:tag@sha256:…``.
    """
    rest, _, digest = image.partition("@")
    head, slash, last = rest.rpartition("/")
    name, _, tag = last.partition(":")
    parts = {"repository": f"{head}{slash}{name}", "tag": tag, "digest": digest}
    return {key: value for key, value in parts.items() if value}
