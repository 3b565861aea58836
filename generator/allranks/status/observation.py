"""An observation of a release at one moment, as the API server tells it.

The objects stay plain JSON: whoever fills this in (a few lists, the operator's cache, a test) needs
no types of ours, and a field that a newer Kubernetes adds passes through untouched.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from allranks.k8s.manifest import Manifest


@dataclass(frozen=True, slots=True)
class Observation:
    """The objects of one release, as observed.

    Attributes:
        release: the release's name.
        namespace: its namespace.
        objects: its Jobs and StatefulSets and, where they were asked for, Kueue Workloads,
            PodGroups, PersistentVolumeClaims and Helm's record of the release (a Secret, of which
            only the metadata is read). Each has its `kind`; what else is there is ignored.
        pods: its pods, those that were replaced too.
        events: Events about any of them; those about others are ignored.
        now: the time of the observation, in seconds since the epoch.
        notes: sentences about what could not be observed.
    """

    release: str
    namespace: str
    objects: tuple[Manifest, ...] = ()
    pods: tuple[Manifest, ...] = ()
    events: tuple[Manifest, ...] = ()
    now: float = 0.0
    notes: tuple[str, ...] = ()
