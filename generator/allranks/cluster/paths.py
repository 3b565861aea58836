"""The API server's paths of kinds and objects, and their queries; pure.

What we ask for is known beforehand, so nothing is discovered: the kinds that a release of ours is
made of stand here, and a kind that a person added through `podTemplate` neighbours or a chart of
their own follows Kubernetes' rule for plurals.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks import names

if TYPE_CHECKING:
    from allranks.k8s.manifest import Manifest

PODS = "api/v1/pods"
EVENTS = "api/v1/events"
SERVICES = "api/v1/services"
CONFIG_MAPS = "api/v1/configmaps"
SECRETS = "api/v1/secrets"
CLAIMS = "api/v1/persistentvolumeclaims"
SERVICE_ACCOUNTS = "api/v1/serviceaccounts"
QUOTAS = "api/v1/resourcequotas"
NAMESPACES = "api/v1/namespaces"
NODES = "api/v1/nodes"
JOBS = "apis/batch/v1/jobs"
STATEFUL_SETS = "apis/apps/v1/statefulsets"
POD_GROUPS = (
    "apis/scheduling.volcano.sh/v1beta1/podgroups",
    "apis/scheduling.x-k8s.io/v1alpha1/podgroups",
    "apis/scheduling.run.ai/v2alpha2/podgroups",
)
TRAINING_RUNS = f"apis/{names.API_VERSION}/{names.TRAINING_RUNS}"
ELASTIC_JOBS = f"apis/{names.ELASTIC_API_VERSION}/{names.ELASTIC_JOBS}"
SCALE_PLANS = f"apis/{names.ELASTIC_API_VERSION}/{names.SCALE_PLANS}"
DEPLOYMENTS = "apis/apps/v1/deployments"
LEASES = "apis/coordination.k8s.io/v1/leases"
DEFINITIONS = "apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NETWORK_POLICIES = "apis/networking.k8s.io/v1/networkpolicies"
ROLES = "apis/rbac.authorization.k8s.io/v1/roles"
ROLE_BINDINGS = "apis/rbac.authorization.k8s.io/v1/rolebindings"
VOLUMES = "api/v1/persistentvolumes"
STORAGE_CLASSES = "apis/storage.k8s.io/v1/storageclasses"
# Of what a run may have, the kinds that are in no namespace.
OF_CLUSTER = frozenset({VOLUMES, STORAGE_CLASSES})


def url(resource_path: str, namespace: str = "", name: str = "") -> str:
    """The path of a list, of an object, or of a subresource on the server.

    Args:
        resource_path: group, version and plural; a subresource follows: ``api/v1/pods/log``.
        namespace: "" is the whole cluster.
        name: the object; "" is the list.
    """
    parts = resource_path.strip("/").split("/")
    root, rest = (parts[:3], parts[3:]) if parts[0] == "apis" else (parts[:2], parts[2:])
    if not rest:  # no resource, but /version, or a version of a group
        return "/" + "/".join(filter(None, (*parts, name)))
    if namespace:
        root = [*root, "namespaces", namespace]
    return "/" + "/".join(filter(None, (*root, rest[0], name, *rest[1:])))


def pairs(**parameters: str) -> list[tuple[str, str]]:
    """The query parameters that are not empty."""
    return [(name, value) for name, value in parameters.items() if value]


def selector(release: str) -> str:
    """The label selector of all objects of a release."""
    return f"{names.APP_INSTANCE}={release},{names.APP_PART_OF}={names.PART_OF}"


def plural(resource_path: str) -> str:
    """The resource as permissions name it: ``jobs``, ``pods/log``."""
    parts = resource_path.strip("/").split("/")
    return "/".join(parts[3:] if parts[0] == "apis" else parts[2:]) or resource_path


def group(resource_path: str) -> str:
    """The API group of a path: ``batch``; "" is the core group."""
    parts = resource_path.strip("/").split("/")
    return parts[1] if parts[0] == "apis" else ""


def kubectl_name(resource_path: str) -> str:
    """The resource as kubectl names it: ``pods``, ``jobs.batch``, ``jobs.batch/status``."""
    resource, slash, part = plural(resource_path).partition("/")
    return ".".join(filter(None, (resource, group(resource_path)))) + slash + part


def scope(resource_path: str, namespace: str) -> str:
    """The namespace that an object of a kind is in; "" for objects of the whole cluster."""
    return "" if resource_path in OF_CLUSTER else namespace


def manifest_path(manifest: Manifest) -> str:
    """The path of a manifest's kind."""
    version, kind = str(manifest.get("apiVersion") or "v1"), str(manifest.get("kind") or "")
    root = "apis" if "/" in version else "api"
    return f"{root}/{version}/{_plural(kind.lower())}"


def _plural(kind: str) -> str:
    if kind.endswith(("s", "x", "ch", "sh")):
        return f"{kind}es"
    if kind.endswith("y") and kind[-2:-1] not in "aeiou":
        return f"{kind[:-1]}ies"
    return f"{kind}s"
