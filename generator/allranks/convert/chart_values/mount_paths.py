"""Mounts of a manifest over folders of the chart, which its pods need.

The chart's own mount gives way to one at the same path, and a launcher without the chart's file of
hosts starts nothing. What a person mounts there is seldom meant for it, so it stays, and is named.
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from allranks.convert.pods.pod_template import TRAINER, templates_of
from allranks.k8s import fields as k8s
from allranks.values.rules.storage import clash, taken_paths

if TYPE_CHECKING:
    from allranks.convert.verdicts import Fields

# Folders of the kernel: devices are mounted below /dev, and that hides nothing.
_OF_KERNEL = ("/dev", "/proc", "/sys")


def note_hidden(fields: Fields) -> None:
    """Say which mounts of the manifest hide a folder that the chart's pods need.

    Args:
        fields: the object, converted.
    """
    workload = str(fields.values.get("workload") or "")
    folders = [path for path in taken_paths(workload) if path not in _OF_KERNEL]
    for template in templates_of(fields.values):
        for container in k8s.items(template, "spec", "containers"):
            if container.get("name") != TRAINER:
                continue
            for mount in k8s.items(container, "volumeMounts"):
                path = str(mount.get("mountPath") or "")
                folder = posixpath.normpath("/" + path.lstrip("/"))
                hidden = next((other for other in folders if clash(folder, other)), "")
                if path and hidden:
                    fields.note(
                        f"what is mounted at {path} hides {hidden} of the chart, which the pods "
                        "need: mount it elsewhere"
                    )
