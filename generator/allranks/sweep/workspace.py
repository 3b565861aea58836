"""The code of a sweep: one snapshot, kept on this machine for all of its trials.

A trial's values say which snapshot it runs. Its parts are sent once and are there for each trial; a
part that went with the last trial that used it is sent again before the next. So they are kept in
the state folder, where `resume` finds them: `<root>/workspaces/DIGEST12.json`.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from allranks import atomic, names
from allranks.errors import ApiError, RunError
from allranks.k8s.fields import text
from allranks.local.state import store
from allranks.workspace import config_maps

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from allranks.cluster.interface import KubeClient
    from allranks.k8s.manifest import Manifest

# A sweep that nobody has run or resumed for so long has its code from the cluster, or not at all.
_KEPT_SECONDS = 30 * 86_400.0


def digest_of(values: Mapping[str, Any]) -> str:
    """The digest of the snapshot in a job's values; "" for none."""
    return text(values, "workspace", "snapshot", "digest")


def keep(parts: Sequence[Manifest]) -> None:
    """Keep the parts of a snapshot on this machine, and drop those that are long out of use.

    Raises:
        RunError: the state folder cannot be written.
    """
    digest = str(parts[0]["metadata"]["annotations"][names.WORKSPACE_DIGEST])
    store.make_root()
    path = _path(digest)
    try:
        path.parent.mkdir(0o700, exist_ok=True)
        for old in path.parent.iterdir():
            if time.time() - old.stat().st_mtime > _KEPT_SECONDS:
                old.unlink(missing_ok=True)
        atomic.write(path, json.dumps(list(parts)), mode=0o600)
    except OSError as error:
        raise RunError(
            f"the code of the sweep cannot be kept: {error.strerror}",
            path=str(path),
            hint=f"make room there, or name another folder with {names.ENV_STATE}",
        ) from error


def stored_parts(digest: str, namespace: str) -> list[Manifest]:
    """The parts of a snapshot that this machine keeps; [] where it has none.

    Args:
        digest: of the snapshot.
        namespace: where they will be.
    """
    path = _path(digest)
    try:
        parts = json.loads(path.read_text("utf-8"))
        with suppress(OSError):
            os.utime(path)
        return [
            {**part, "metadata": {**part["metadata"], "namespace": namespace}} for part in parts
        ]
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return []


def local_parts(values: Mapping[str, Any], namespace: str) -> list[Manifest]:
    """The parts that a trial of this machine needs; [] where it has no workspace.

    Raises:
        RunError: they are not kept here.
    """
    digest = digest_of(values)
    if not digest:
        return []
    parts = stored_parts(digest, namespace)
    if not parts:
        raise _lost(digest)
    return parts


class ClusterCode:
    """The code of a sweep whose trials run on a cluster: there before each, and owned by all."""

    def __init__(self, cluster: KubeClient, namespace: str, *, is_inside: bool = False) -> None:
        """Create it; nothing is read or sent before the first trial.

        Args:
            cluster: where the trials run.
            namespace: their namespace.
            is_inside: a pod runs the sweep: its journal owns the code for as long as the sweep is
                there, and its account may not look at ConfigMaps.
        """
        self._is_inside = is_inside
        self._cluster = cluster
        self._namespace = namespace
        self._parts: dict[str, list[Manifest]] = {}

    def send(self, values: Mapping[str, Any]) -> None:
        """See to it that the code of a trial is there before it is installed.

        Raises:
            AllranksError: the cluster does not answer, forbids it, or has no room for it.
        """
        if parts := self._of(values):
            config_maps.send(self._cluster, parts, self._namespace)

    def own(self, values: Mapping[str, Any], release: str) -> None:
        """Make the controllers of a trial owners of its code.

        Raises:
            AllranksError: the cluster does not answer, or forbids it.
        """
        if parts := self._of(values):
            controllers = config_maps.of_release(self._cluster, release, self._namespace)
            config_maps.own(self._cluster, parts, self._namespace, controllers)

    def close(self) -> None:
        """Remove what no run uses any more."""
        for digest in self._parts:
            config_maps.collect(self._cluster, self._namespace, digest=digest)

    def _of(self, values: Mapping[str, Any]) -> list[Manifest]:
        digest = digest_of(values)
        if not digest or self._is_inside:
            return []
        if text(values, "workspace", "snapshot", "via") not in {"", "configMap"}:
            return []  # an image or a file of a claim stays where it is
        if digest not in self._parts:
            parts = stored_parts(digest, self._namespace)
            if not parts:
                with suppress(ApiError):  # it may be forbidden to look
                    parts = config_maps.find(self._cluster, self._namespace, digest)
            self._parts[digest] = parts
        return self._parts[digest]


def _path(digest: str) -> Path:
    return store.root() / "workspaces" / f"{config_maps.label(digest)}.json"


def _lost(digest: str) -> RunError:
    return RunError(
        f"the code of the sweep, {config_maps.label(digest)}, is no longer kept on this machine",
        hint="start the sweep again from the folder: --workspace DIR --replace",
    )
