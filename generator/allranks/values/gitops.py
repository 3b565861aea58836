"""Values for manifests in files, such as those of a Git repository.

An MPI job over ssh has a private key. Where helm installs the chart, the chart makes the key once
and keeps it in the cluster. In files it would be another key after each render, and known to all
who read them; so files name a Secret that somebody makes once, beside them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from allranks.values.merge import overlay

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class RenderedKey:
    """The values to render into files.

    Attributes:
        values: the person's values, without anything that makes a secret.
        notes: what has to be there before the files are applied, as sentences.
    """

    values: Mapping[str, Any]
    notes: tuple[str, ...] = ()


def without_private_key(
    values: Mapping[str, Any], user: Mapping[str, Any], release: str, namespace: str
) -> RenderedKey:
    """A person's values, with the name of a Secret where the chart would make a private key.

    Args:
        values: the chart's defaults with the person's values over them, checked.
        user: the person's values alone.
        release: the release's name; the Secret is called as the chart would call it.
        namespace: its namespace.

    Returns:
        The same values and no notes where the job has no key, or names its Secret itself.
    """
    mpi = values.get("mpi") or {}
    if mpi.get("transport") != "ssh" or mpi["ssh"]["existingSecret"]:
        return RenderedKey(user)
    name = f"{release}-ssh"
    note = (
        f"the manifests have no private key; they name the Secret {name}, which is made once with: "
        f"ssh-keygen -q -t ecdsa -N '' -f ssh-key && "
        f"kubectl create secret generic {name} --namespace {namespace} "
        "--type kubernetes.io/ssh-auth --from-file ssh-privatekey=ssh-key && "
        "rm ssh-key ssh-key.pub"
    )
    return RenderedKey(overlay(user, {"mpi": {"ssh": {"existingSecret": name}}}), (note,))
