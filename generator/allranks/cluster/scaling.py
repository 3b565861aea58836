"""Another size for an elastic job: a manual ScalePlan, which the watcher carries out.

The plan is one object more, so nothing that helm applied is changed, and a later `helm upgrade`
meets no conflict. What the job allows is looked at before anything is sent; the watcher has the
last word, and says in the plan's status what it did.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks import names
from allranks.cluster import paths
from allranks.elastic import answer
from allranks.elastic.wish import asked, check

if TYPE_CHECKING:
    from allranks.cluster.port import Cluster
    from allranks.elastic.answer import Answer
    from allranks.elastic.wish import Wish
    from allranks.model.manifest import Manifest


def plan(job: Manifest, wish: Wish) -> Manifest:
    """The plan for a wish; the server completes its name."""
    metadata = job["metadata"]
    labels = {
        key: value
        for key, value in (metadata.get("labels") or {}).items()
        if key in {names.APP_NAME, names.APP_INSTANCE, names.APP_PART_OF, names.WORKLOAD}
    }
    owner = {
        "apiVersion": names.ELASTIC_API_VERSION,
        "kind": names.ELASTIC_JOB,
        "name": metadata["name"],
        "uid": metadata["uid"],
    }
    return {
        "apiVersion": names.ELASTIC_API_VERSION,
        "kind": names.SCALE_PLAN,
        "metadata": {
            "generateName": f"{metadata['name']}-scale-",
            "labels": {**labels, names.EDL_NAME: metadata["name"], names.SCALE_TYPE: "manual"},
            "ownerReferences": [owner],
        },
        "spec": {"ownerJob": metadata["name"], "replicaResourceSpecs": asked(job, wish)},
    }


def ask(cluster: Cluster, namespace: str, job: Manifest, wish: Wish) -> str:
    """Create the plan; return its name.

    Raises:
        InputError: the job does not allow it.
        ToolError: the cluster does not answer, or forbids it.
    """
    check(job, wish)
    made = cluster.create(paths.SCALE_PLANS, plan(job, wish), namespace=namespace)
    return str(made["metadata"]["name"])


def look(cluster: Cluster, namespace: str, name: str) -> Answer:
    """What is said of a plan now.

    Raises:
        NotFoundError: it was deleted meanwhile.
        ToolError: the cluster does not answer, or forbids it.
    """
    return answer.read(cluster.get(paths.SCALE_PLANS, name, namespace=namespace))
