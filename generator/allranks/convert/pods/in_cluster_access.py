"""What programs in pods ask of their cluster: its API server, with a token, and its Services.

Kubernetes gives each pod the token of its account and the variables of the Services of its
namespace (``REDIS_SERVICE_HOST``); the charts give these to a pod that says so.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks.convert.pods import containers
from allranks.convert.programs import shell_comments
from allranks.k8s import fields as k8s

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from allranks.convert.verdicts import FieldPath, Fields
    from allranks.k8s.manifest import Manifest

TOKEN = ("serviceAccount", "automountToken")
LINKS = ("podTemplate", "spec", "enableServiceLinks")
_ASKS_API = re.compile(
    r"(?<![\w/.-])(?:\S*/)?kubectl\s+(?!version\s+--client)[a-z-]"
    r"|/var/run/secrets/kubernetes\.io/serviceaccount|://kubernetes\.default\b"
    r"|\bKUBERNETES_SERVICE_HOST\b|\bload_incluster_config\b"
)
# Those of the API server itself, which all pods have, are none that a pod has to ask for.
_OF_SERVICE = re.compile(r"\b(?!KUBERNETES_)[A-Z][A-Z0-9_]*_SERVICE_(?:HOST|PORT)\b")
_IMAGE_OF_KUBECTL = re.compile(r"(?:^|/)kubectl(?:[:@]|$)")


def put(fields: Fields, spec: FieldPath) -> None:
    """Give pods what their words ask of the cluster, where their template does not decide on it.

    Args:
        fields: the object.
        spec: where the spec of its pods stands.
    """
    pod = fields.mapping(*spec)
    own = [item for kind in containers.KINDS for item in k8s.items(pod, kind)]
    names_account = k8s.text(pod, "serviceAccountName") not in ("", "default")
    is_decided = pod.get("automountServiceAccountToken") is not None or names_account
    if not is_decided and any(_is_kubectl(item) or asks_api(_text(item)) for item in own):
        # The default account's token, too, was in each pod.
        fields.put(TOKEN, value=True)
        fields.note(note_of_token("a command of the pods"))
    variable = next((name for item in own for name in _of_services(item)), "")
    if variable and pod.get("enableServiceLinks") is None:
        fields.put(LINKS, value=True)
        fields.note(note_of_links("a command of the pods", variable))


def note_of_token(reader: str) -> str:
    """What is said of pods that have a token, as something in them asks the API server."""
    return (
        f"{reader} asks the API server: the pods have their account's token, by {'.'.join(TOKEN)}"
    )


def note_of_links(reader: str, variable: str) -> str:
    """What is said of pods that have the variables of Services, as something in them reads one."""
    return (
        f"{reader} reads {variable}: the pods have the variables of Services, by {'.'.join(LINKS)}"
    )


def asks_api(text: str) -> bool:
    """Whether a script asks the API server with the token of its pod's account."""
    return _ASKS_API.search(shell_comments.without(text)) is not None


def service_variable(text: str, set_names: Collection[str] = ()) -> str:
    """The first variable of a Service that a script reads; "" for none.

    Args:
        text: the script.
        set_names: variables that its container sets.
    """
    code = shell_comments.without(text)
    names = (match[0] for match in _OF_SERVICE.finditer(code))
    return next((name for name in names if name not in set_names and f"{name}=" not in code), "")


def _of_services(container: Manifest) -> Iterator[str]:
    """The variables of Services that the words, or the variables, of a container read."""
    env = k8s.items(container, "env")
    set_names = {k8s.text(entry, "name") for entry in env}
    for text in (_text(container), *(k8s.text(entry, "value") for entry in env)):
        if name := service_variable(text, set_names):
            yield name


def _text(container: Manifest) -> str:
    """What the words of a container are, as a text."""
    own = [*k8s.texts(container.get("command")), *k8s.texts(container.get("args"))]
    return "\n".join(map(shell_comments.without, own))


def _is_kubectl(container: Manifest) -> bool:
    """Whether a container runs kubectl as its image does."""
    is_of_image = bool(container.get("args")) and not container.get("command")
    return is_of_image and _IMAGE_OF_KUBECTL.search(k8s.text(container, "image")) is not None
