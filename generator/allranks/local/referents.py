"""What pods refer to by name: Services, ConfigMaps, Secrets and claims."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING

from allranks import names
from allranks.errors import InputError
from allranks.local.plan import Claim, ServicePlan

if TYPE_CHECKING:
    from allranks.model.manifest import Manifest


def service(document: Manifest) -> ServicePlan:
    """A Service. Its ports are those that the pods behind it listen on."""
    spec = document.get("spec") or {}
    ports = []
    for port in spec.get("ports") or ():
        target = port.get("targetPort")
        number = target if isinstance(target, int) else port["port"]
        ports.append((str(port.get("name") or ""), int(number)))
    return ServicePlan(
        name=_name(document),
        headless=spec.get("clusterIP") == "None",
        selector=dict(spec.get("selector") or {}),
        ports=tuple(ports),
    )


def configmap(document: Manifest) -> dict[str, bytes]:
    """The files of a ConfigMap.

    Raises:
        InputError: its ``binaryData`` is not base64.
    """
    data = {key: str(text).encode() for key, text in (document.get("data") or {}).items()}
    return {**data, **_decode(document, "binaryData")}


def secret(document: Manifest) -> dict[str, bytes]:
    """The files of a Secret; ``stringData`` wins over ``data``, as in the API server.

    Raises:
        InputError: its ``data`` is not base64.
    """
    strings = {key: str(text).encode() for key, text in (document.get("stringData") or {}).items()}
    return {**_decode(document, "data"), **strings}


def claim(document: Manifest) -> Claim:
    """A PersistentVolumeClaim."""
    annotations = (document.get("metadata") or {}).get("annotations") or {}
    return Claim(_name(document), keep=annotations.get(names.HELM_RESOURCE_POLICY) == "keep")


def _name(document: Manifest) -> str:
    return str((document.get("metadata") or {}).get("name", ""))


def _decode(document: Manifest, field: str) -> dict[str, bytes]:
    decoded = {}
    for key, text in (document.get(field) or {}).items():
        try:
            # Line breaks are allowed inside, as the API server allows them.
            decoded[key] = base64.b64decode("".join(str(text).split()), validate=True)
        except (binascii.Error, ValueError) as error:
            raise InputError(
                f"{key!r} is not base64",
                path=f"{document.get('kind')}/{_name(document)}.{field}",
                hint="encode it, or put it under stringData",
            ) from error
    return decoded
