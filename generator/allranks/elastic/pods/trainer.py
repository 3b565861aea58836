"""A trainer's pod: its template, made the pod of one member of a job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks.elastic.pods import env, labels, naming, processes, resources, templates
from allranks.errors import InputError
from allranks.status.fields import items, mapping

if TYPE_CHECKING:
    from allranks.elastic.job import ElasticJob
    from allranks.elastic.target import Member, Target
    from allranks.model.manifest import Manifest


def build(job: ElasticJob, group_type: str, member: Member, target: Target) -> Manifest:
    """The pod of a member.

    Args:
        job: the job.
        group_type: its replica type.
        member: the member.
        target: which pods there are; they are told of one another.

    Raises:
        InputError: the job has no template for it; `template_of` says so beforehand.
    """
    template = templates.template_of(job, group_type)
    if template is None:
        raise InputError(
            f"no pod of type {group_type!r} can be made: it has no template",
            path=f"spec.replicaSpecs.{group_type}.template.spec.containers",
            hint="give it a template with a container",
        )
    said = mapping(template, "spec")
    found = items(said, "containers")
    group = target.groups.get(group_type)
    resource = group.resource_of(member) if group is not None else member.resource
    main = processes.per_gpu(found[templates.main_index(found)], resource)
    told = env.of_trainer(job, group_type, member, target, main)
    spec = templates.filled(said)
    spec["containers"] = templates.containers(found, told, resource, resources.SMALL)
    spec = templates.scheduled(spec, job, group_type, member.rank)
    own = labels.of_pod(
        job, group_type, number=member.id, rank=member.rank, relaunches=member.relaunches
    )
    name = naming.pod_name(job.name, group_type, member.id)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": labels.metadata(job, name, own, mapping(template, "metadata")),
        "spec": templates.avoiding(spec, member.avoid),
    }
