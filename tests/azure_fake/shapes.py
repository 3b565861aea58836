"""The shapes of requests and answers, held to the models of Azure's own SDKs.

A fake that invents keys proves nothing. So every body that it is sent, and every one that it
answers, is walked beside the SDK's model of it, and a key that the model does not have is named.
"""

from __future__ import annotations

import functools
from typing import Any


def unknown_keys(model: type, data: Any, path: str = "") -> list[str]:
    """The keys of a body that an SDK's model does not have.

    Args:
        model: the model's class.
        data: the body, as JSON.
        path: where it stands.
    """
    if not isinstance(data, dict):
        return []
    fields = _fields(model)
    wrong: list[str] = []
    for key, value in data.items():
        here = f"{path}.{key}" if path else key
        if key not in fields:
            wrong.append(f"{model.__name__}: {here}")
            continue
        inner, is_map = _model_of(fields[key]._type)
        if inner is None:
            continue
        items = value.values() if is_map and isinstance(value, dict) else value
        for item in items if isinstance(value, list) or is_map else [value]:
            wrong += unknown_keys(inner, item, here)
    return wrong


@functools.cache
def _fields(model: Any) -> dict[str, Any]:
    model()  # its fields are worked out with its first object
    return {field._rest_name: field for field in model._attr_to_rest_field.values()}


def _model_of(deserializer: Any) -> tuple[type | None, bool]:
    """The model behind a field of an SDK, and whether it is the value of a map."""
    is_map = False
    stack = [deserializer]
    while stack:
        item = stack.pop()
        if isinstance(item, type) and any(base.__name__ == "Model" for base in item.__mro__):
            return item, is_map
        if isinstance(item, functools.partial):
            is_map = is_map or "dict" in getattr(item.func, "__name__", "")
            stack += [*item.args, *item.keywords.values()]
    return None, is_map
