"""Texts where Kubernetes takes a boolean: ``hostNetwork: "true"``, which would be read as false."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from allranks.convert import template_blanks
from allranks.convert.inputs import pod_fields
from allranks.convert.verdicts import dotted
from allranks.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

_BOOLEANS = frozenset(
    (
        *("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "setHostnameAsFQDN"),
        *("automountServiceAccountToken", "enableServiceLinks", "readOnly", "optional", "tty"),
        *("stdin", "privileged", "allowPrivilegeEscalation", "runAsNonRoot"),
        *("readOnlyRootFilesystem", "suspend", "enableDNSHostnames", "publishNotReadyAddresses"),
        *("runLauncherAsNode", "runLauncherAsWorker", "autoScale", "enableElasticScheduling"),
        *("enableDynamicSharding", "retain"),
    )
)


def refuse(manifest: Mapping[str, Any]) -> None:
    """Refuse an object with such a text.

    Args:
        manifest: the object.

    Raises:
        InputError: it has one.
    """
    for path, text in pod_fields.texts(manifest):
        if path[-1] not in _BOOLEANS or template_blanks.in_number(text):
            continue
        is_no = text.lower() in ("false", "no", "off", "n", "0", "")
        raise InputError(
            f'"{text}" is a text, and a boolean stands here',
            path=dotted(path),
            hint=f"write {'false' if is_no else 'true'}, without quotes",
        )
