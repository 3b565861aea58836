"""End a run, whatever state it is in, and remove what goes with it."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from allranks import names
from allranks.errors import RunError
from allranks.local import store, tree
from allranks.local.elastic import board
from allranks.local.expand import expand

if TYPE_CHECKING:
    from pathlib import Path

# How long a supervisor may take to end its pods, beyond their grace period.
STOP_MARGIN = 10.0


def end(folder: store.RunFolder) -> int:
    """End a run in order where its supervisor lives, and by force where it does not.

    Returns:
        How many processes had to be killed from outside.
    """
    if folder.alive():
        signal_supervisor(folder, signal.SIGTERM)
        folder.wait_dead(_grace(folder) + STOP_MARGIN)
    path = [str(folder.path)]
    return tree.kill(names.ENV_SUPERVISOR, path) + tree.kill(names.ENV_RUN, path)


def _grace(folder: store.RunFolder) -> float:
    try:
        return folder.spec().grace
    except RunError:
        return 0.0


def remove_claims(folder: store.RunFolder) -> tuple[list[str], dict[str, Path]]:
    """Remove the claims that go with a release; of a broken record all stay.

    Returns:
        The release's objects without what stays, and that with its folder: claims, and what a
        master remembers.
    """
    try:
        spec = folder.spec()
    except RunError:
        return [], {"volumes": folder.claims}
    release = expand(spec.manifests, name=spec.name, namespace=spec.namespace)
    removed = list(release.objects)
    kept: dict[str, Path] = {}
    for claim in release.claims:
        path = folder.claims / claim.name
        if claim.keep:
            removed.remove(f"PersistentVolumeClaim/{claim.name}")
            kept[f"PersistentVolumeClaim/{claim.name}"] = path
        else:
            store.remove_tree(path)
    if release.elastic is not None and (memory := board.memory(folder, spec.name)).is_dir():
        removed = [one for one in removed if one != f"ConfigMap/{memory.name}"]
        kept[f"ConfigMap/{memory.name}"] = memory
    return removed, kept


def signal_supervisor(folder: store.RunFolder, number: signal.Signals) -> None:
    """Send a signal to who runs a release: the guardian where it lives, else the supervisor.

    That is the one whose parent does not carry the mark.
    """
    processes = tree.marked(names.ENV_SUPERVISOR, [str(folder.path)])
    pids = {one.pid for one in processes}
    tree.send([one for one in processes if tree.parent(one) not in pids], number)
