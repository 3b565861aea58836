"""What is used of the kubernetes library: kubeconfigs, credentials and sockets.

All of it takes 0.2 s to import: a client that knows each kind, with pydantic; one that discovers
them; web sockets; `requests` with OAuth for kubeconfigs that renew a token. Here these are imported
when somebody asks for them, which the library itself does for such a kubeconfig.
"""

from __future__ import annotations

from allranks import libraries

for package in ("kubernetes", "kubernetes.utils", "oauthlib", "oauthlib.oauth2"):
    libraries.defer(package)
libraries.import_without(
    "kubernetes.config.kube_config",
    "kubernetes.client.ApiClient",
    "requests_oauthlib.OAuth2Session",
)

from kubernetes.client.configuration import Configuration  # noqa: E402 - after what is deferred
from kubernetes.client.rest import RESTClientObject  # noqa: E402
from kubernetes.config import (  # noqa: E402
    ConfigException,
    load_incluster_config,
    load_kube_config,
)

__all__ = [
    "ConfigException",
    "Configuration",
    "RESTClientObject",
    "load_incluster_config",
    "load_kube_config",
]
