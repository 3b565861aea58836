"""The pods and Services of an elastic job, as manifests.

The same job, member and target give the same manifest, to the byte, so that a repeated create
collides with the first one and changes nothing. Unchanged parts of a template are shared with it,
not copied; nobody changes a manifest after it is built.

    build      the pods of trainers and of the master, from their templates
    metadata   names, addresses, labels and owner references
    resources  requests and limits: the template's, a plan's, or small ones of ours
    env        the environment of the processes, and TF_CONFIG
    services   the Service of the master, and those of the ranks
    account    the account of a master
"""

from allranks.elastic.pods.account import account, is_history_of
from allranks.elastic.pods.build import build_pod, master, template_of, token
from allranks.elastic.pods.metadata import master_name, master_service_name, pod_name, service_name
from allranks.elastic.pods.services import master_service, needs_services, service

__all__ = [
    "account",
    "build_pod",
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
