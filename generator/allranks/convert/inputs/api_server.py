"""What the API server refuses, or the pods' own controller, whatever was meant by it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from allranks.convert.inputs import (
    enumerations,
    missing_claims,
    pod_counts,
    pod_shapes,
    quoted_booleans,
    slash_comments,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

_CHECKS = (
    slash_comments,
    pod_counts,
    pod_shapes,
    enumerations,
    quoted_booleans,
    missing_claims,
)


def refuse(manifest: Mapping[str, Any]) -> None:
    """Refuse an object with numbers below zero, or with shapes and words that nobody takes.

    Args:
        manifest: the object.

    Raises:
        InputError: it is one.
    """
    for check in _CHECKS:
        check.refuse(manifest)
