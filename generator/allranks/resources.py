"""Where the charts, schemas and presets are: in the wheel, or in the checkout beside us."""

from __future__ import annotations

import os
from pathlib import Path

from allranks import names
from allranks.errors import InputError

_PACKAGED = Path(__file__).parent / "_data"
_CHECKOUT = Path(__file__).parents[2]


def folder(kind: str) -> Path:
    """The folder that holds our files of a kind: ``charts``, ``schemas``, ``values``, ``plugins``.

    Args:
        kind: the folder's name, as at the top of the repository.

    Raises:
        InputError: neither the wheel nor a checkout has it, or ``ALLRANKS_CHARTS`` names no folder.
    """
    override = os.environ.get(names.ENV_CHARTS, "") if kind == "charts" else ""
    if override:
        path = Path(override)
        if not path.is_dir():
            raise InputError(
                f"{names.ENV_CHARTS} names {override!r}, which is not a folder",
                hint="unset it, or point it at a copy of charts/",
            )
        return path
    for base in (_PACKAGED, _CHECKOUT):
        if (base / kind).is_dir():
            return base / kind
    raise InputError(
        f"this installation of allranks has no {kind}/ folder", hint="reinstall allranks"
    )
