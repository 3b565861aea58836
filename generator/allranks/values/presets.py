"""Presets: named values files that ship with the generator.

A preset is a values file under `values/`; its name is its path there without the ending
(`h100-8x`, `sites/aks`), and its first line is a comment that says what it is for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from allranks import resources
from allranks.errors import InputError
from allranks.yamlio.load import load as load_yaml

if TYPE_CHECKING:
    from pathlib import Path

    from allranks.yamlio.document import ValuesDocument

_SUFFIX = ".yaml"


@dataclass(frozen=True, slots=True)
class Preset:
    """One preset that ships.

    Attributes:
        name: what a values file says in `preset:`.
        description: what it is for, in one line.
        path: its file.
    """

    name: str
    description: str
    path: Path


def list() -> tuple[Preset, ...]:  # noqa: A001
    """All presets, by name; those of sites after those of hardware."""
    folder = resources.folder("values")
    files = sorted(folder.rglob(f"*{_SUFFIX}"), key=lambda path: (len(path.parts), path))
    return tuple(
        Preset(_name(folder, path), _description(path.read_text(encoding="utf-8")), path)
        for path in files
    )


def load(name: str, source: str = "", path: str = "preset") -> ValuesDocument:
    """The values of a preset, with their lines.

    Args:
        name: the preset's name.
        source: where the name was given, for messages.
        path: the values path of the name, for messages.

    Raises:
        InputError: there is no such preset; the nearest name is in the hint.
    """
    folder = resources.folder("values")
    names = {_name(folder, path): path for path in folder.rglob(f"*{_SUFFIX}")}
    file = names.get(name)
    if file is None:
        raise InputError(
            f"there is no preset {name!r}", path=path, hint=_hint(name, names), source=source
        )
    document = load_yaml(file.read_bytes(), f"preset {name}")
    for key in ("preset", "workload"):
        if key in document.data:
            raise InputError(
                f"a preset may not set `{key}`",
                path=key,
                hint="set it in your values file",
                source=document.where((key,)),
            )
    return document


def _name(folder: Path, path: Path) -> str:
    return path.relative_to(folder).as_posix().removesuffix(_SUFFIX)


def _description(text: str) -> str:
    first = text.partition("\n")[0]
    return first.removeprefix("#").strip() if first.startswith("#") else ""


def _hint(name: str, names: dict[str, Path]) -> str:
    # Imported only here: a miss may take a moment longer.
    from difflib import get_close_matches

    # The last part alone is what people remember of `sites/aks`.
    near = get_close_matches(name, names, n=1) or [
        preset for preset in sorted(names) if preset.rpartition("/")[2] == name
    ]
    available = ", ".join(sorted(names))
    return (
        f"did you mean {near[0]!r}? The presets are {available}"
        if near
        else f"use one of {available}"
    )
