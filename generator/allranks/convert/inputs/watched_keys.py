"""Labels and annotations of an object by which another project's controller may look for it.

The run has them on objects of its own, of other kinds. What such a controller did for the job,
such as filling in a ConfigMap, it does not do for the run, and nothing here can know what it was.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks import names
from allranks.humanize import list_some
from allranks.k8s import fields as k8s

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

# Domains of those that look at pods, or at objects of every kind, or that the charts serve.
_READ_EVERYWHERE = re.compile(
    r"(?:^|\.)(?:kubernetes\.io|(?:x-)?k8s\.io|volcano\.sh|kubeflow\.org|helm\.sh|argoproj\.io|istio\.io"
    r"|prometheus\.io|ksonnet\.io)$|^(?:kai\.scheduler|runai)$"
)
# Kinds that a run has itself.
_OWN_KINDS = (("batch", "Job"), ("apps", "StatefulSet"), (names.ELASTIC_GROUP, names.ELASTIC_JOB))


def notes(
    group: str, kind: str, manifest: Mapping[str, Any], values: Mapping[str, Any]
) -> Iterator[str]:
    """What to say of the labels and annotations that a run has on objects of another kind.

    Args:
        group: the object's API group.
        kind: its kind.
        manifest: the object.
        values: what has been made of it.
    """
    if (group, kind) in _OWN_KINDS:
        return
    keys = [
        str(key)
        for section in ("labels", "annotations")
        for key in k8s.mapping(manifest, "metadata", section)
        if key in k8s.mapping(values, section) and _is_foreign(str(key))
    ]
    if keys:
        objects = f"{kind}s of {group}"
        yield (
            f"a controller that looks for {list_some(keys)} on {objects} does not see this run, "
            "whose objects are of other kinds: see what it did for the job, such as filling in a "
            "ConfigMap"
        )


def _is_foreign(key: str) -> bool:
    """Whether a key has the domain of another project's controller."""
    domain = key.partition("/")[0]
    return "." in domain and _READ_EVERYWHERE.search(domain) is None
