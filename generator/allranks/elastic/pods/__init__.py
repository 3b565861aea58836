"""The pods and Services of an elastic job, as manifests.

Pure: the same job, member and target give the same manifest, to the byte, so that a create that is
repeated collides with the first one and changes nothing. Parts of a template that are not changed
are shared with it, not copied; a manifest is read and sent, never written to.

    naming     what pods and Services are called, and where they are reached
    labels     what is written on them, and who owns them
    processes  how many a worker has, where a plan changes its GPUs
    resources  what they ask for: the template's own amounts, a plan's, or small ones of ours
    templates  the template of a replica type, and what is filled in where it says nothing
    env        what the processes are told; tfconfig: TF_CONFIG, dense and sparse
    trainer    a trainer's pod; services: a Service per rank
    master     the master's pod and its Service; account: who it runs as
"""

from allranks.elastic.pods.account import account, is_history_of
from allranks.elastic.pods.master import master, token
from allranks.elastic.pods.naming import (
    master_name,
    master_service_name,
    pod_name,
    service_name,
)
from allranks.elastic.pods.services import master_service, needs_services, service
from allranks.elastic.pods.templates import template_of
from allranks.elastic.pods.trainer import build

__all__ = [
    "account",
    "build",
    "is_history_of",
    "master",
    "master_name",
    "master_service",
    "master_service_name",
    "needs_services",
    "pod_name",
    "service",
    "service_name",
    "template_of",
    "token",
]
