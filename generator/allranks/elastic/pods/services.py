"""The Services of an elastic job: one for its master, and one for each rank that others connect to.

They have no address of their own: a name leads straight to the pod of the rank, also before it is
ready, because the pods of a job find one another before any of them is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks import names
from allranks.elastic.pods import metadata as pod_metadata

if TYPE_CHECKING:
    from allranks.elastic.api.job import ElasticJob
    from allranks.k8s.manifest import Manifest


def needs_services(job: ElasticJob) -> bool:
    """Whether each rank of a job has a Service.

    Workers of an all-reduce find one another through their master, and a thousand Services would
    cost as much as a thousand pods.
    """
    return job.parameter_servers


def service(job: ElasticJob, group_type: str, rank: int) -> Manifest:
    """Return the Service of a rank, whichever pod has it.

    Args:
        job: the job.
        group_type: the replica type.
        rank: the rank.
    """
    selector = {
        names.EDL_NAME: job.name,
        names.EDL_TYPE: group_type,
        names.EDL_RANK: str(rank),
    }
    name = pod_metadata.service_name(job.name, group_type, rank)
    return _service(job, name, group_type, selector, pod_metadata.port(group_type))


def master_service(job: ElasticJob) -> Manifest:
    """Return the Service of the master."""
    selector = {names.EDL_NAME: job.name, names.EDL_TYPE: names.EDL_MASTER}
    name = pod_metadata.master_service_name(job.name)
    return _service(job, name, names.EDL_MASTER, selector, pod_metadata.MASTER_PORT)


def _service(
    job: ElasticJob, name: str, group_type: str, selector: dict[str, str], port: int
) -> Manifest:
    own = {**pod_metadata.common(job), names.ROLE: pod_metadata.role(group_type), **selector}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": pod_metadata.metadata(job, name, own),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": selector,
            "ports": [{"name": "job", "port": port, "targetPort": port, "protocol": "TCP"}],
        },
    }
