"""Texts where Kubernetes takes a boolean: ``hostNetwork: "true"``, which would be read as false."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from allranks.convert import template_blanks
from allranks.convert.inputs import pod_fields
from allranks.convert.verdicts import dotted
from allranks.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from allranks.convert.verdicts import FieldPath

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
# What a person makes up the keys of.
_OWN_KEYS = (*pod_fields.OWN_KEYS, "matchLabels")


def refuse(manifest: Mapping[str, Any]) -> None:
    """Refuse an object with such a text.

    Args:
        manifest: the object.

    Raises:
        InputError: it has one.
    """
    for path, text in _texts(manifest, ()):
        is_no = text.lower() in ("false", "no", "off", "n", "0", "")
        raise InputError(
            f'"{text}" is a text, and a boolean stands here',
            path=dotted(path),
            hint=f"write {'false' if is_no else 'true'}, without quotes",
        )


def _texts(node: Any, path: FieldPath) -> Iterator[tuple[FieldPath, str]]:
    if isinstance(node, list):
        for index, item in enumerate(node):
            yield from _texts(item, (*path, index))
    for key, value in node.items() if isinstance(node, dict) else ():
        if key in _BOOLEANS and isinstance(value, str):
            if not template_blanks.in_number(value):
                yield (*path, key), value
        elif key not in _OWN_KEYS:
            yield from _texts(value, (*path, key))
