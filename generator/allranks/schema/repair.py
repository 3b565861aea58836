"""The nearest right spelling of a value that its schema refuses.

Each repair is a guess at one common slip (a unit written as ``GB``, upper case in a name, a scheme
before a host). A guess becomes a hint only where the schema accepts it, so that no hint of ours
leads to the next error.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from allranks.schema.suggest import nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from allranks.schema.engine import Engine, Schema

_UNITS = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "k", "M", "G", "T", "P", "E")
# What people call a choice elsewhere.
_ALIASES = {
    "tf": "tensorflow",
    "keras": "tensorflow",
    "torch": "pytorch",
    "fixed": "static",
    "dynamic": "auto",
    "elastic": "auto",
    "all": "allWorkers",
    "chief": "lead",
    "ps": "ParameterServerStrategy",
    "ring": "AllreduceStrategy",
    "allreduce": "AllreduceStrategy",
    "parameterserver": "ParameterServerStrategy",
    "workers": "allWorkers",
}
_ETCD_PORT = 2379
_SHORT = 60


def quoted(value: Any) -> str:
    """A value as YAML and JSON both write it."""
    return json.dumps(value, ensure_ascii=False)


def hint(engine: Engine, node: Schema, value: Any) -> str:
    """How to write a refused value, where a repair of it is accepted; "" otherwise.

    Args:
        engine: the chart's schema.
        node: the schema node that refused.
        value: the value.
    """
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        return ""
    if node.get("enum"):
        choices = [str(choice) for choice in node["enum"]]
        meant = _ALIASES.get(value.strip().lower(), "")
        choice = meant if meant and meant in choices else nearest(value, choices)
        return f"write {choice}" if choice else ""
    for repair in _REPAIRS:
        for guess in repair(value):
            if guess and guess != value and engine.accepts(node, guess):
                return f"write {_plain(guess)}"
    return ""


def image(text: str) -> str:
    """An image's full name, as the map that the values want."""
    name, _, digest = text.partition("@")
    head, slash, last = name.rpartition("/")
    last, _, tag = last.partition(":")
    parts = {"repository": head + slash + last, "tag": tag, "digest": digest}
    inner = ", ".join(
        f"{key}: {quoted(part) if key == 'tag' else part}" for key, part in parts.items() if part
    )
    return f"{{{inner}}}"


def _plain(text: str) -> str:
    return text if re.fullmatch(r"[A-Za-z/][A-Za-z0-9/._-]*", text) else quoted(text)


def _strip(text: str) -> Iterator[str]:
    yield text.strip()
    yield text.strip().rstrip("/")


def _unit(text: str) -> Iterator[str]:
    match = re.fullmatch(r"\s*([0-9.]+)\s*([A-Za-z]*)\s*", text)
    if match is None:
        return
    number, unit = match.groups()
    folded = re.sub(r"b(yte)?s?$", "", unit.lower())
    for suffix in _UNITS:
        if folded == suffix.lower():
            yield number + suffix
    if unit.lower() in ("cpu", "cpus", "core", "cores", "vcpu", "vcpus"):
        yield number


def _lower(text: str) -> Iterator[str]:
    yield text.lower()
    yield re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-.")


def _upper(text: str) -> Iterator[str]:
    yield text.upper()


def _underscores(text: str) -> Iterator[str]:
    yield re.sub(r"[^A-Za-z0-9_]+", "_", text.strip())


def _slash(text: str) -> Iterator[str]:
    yield "/" + text.strip().lstrip("./")
    yield text.lstrip("/")


def _host(text: str) -> Iterator[str]:
    bare = re.sub(r"^[a-z0-9+]+://", "", text.strip()).split("/", 1)[0]
    yield bare
    if bare and ":" not in bare:
        yield f"{bare}:{_ETCD_PORT}"


def _digest(text: str) -> Iterator[str]:
    yield f"sha256:{text.strip().lower()}"


def _commas(text: str) -> Iterator[str]:
    yield re.sub(r"[\s,;]+", ",", text.strip())


_REPAIRS: tuple[Callable[[str], Iterator[str]], ...] = (
    _strip,
    _unit,
    _host,
    _digest,
    _slash,
    _underscores,
    _lower,
    _upper,
    _commas,
)


def short(value: Any) -> str:
    """A value in a message: as YAML writes it, cut where it is long."""
    text = quoted(value)
    return text if len(text) <= _SHORT else f"{text[: _SHORT - 1]}…"
