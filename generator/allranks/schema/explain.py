"""Wording what the schema refuses, for the person who wrote it.

A message says what was given and what is allowed; the hint is the nearest fix. What is allowed
comes from the schema node's ``title``, which completes the sentence "… is not …".
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from allranks.schema import paths, repair, suggest
from allranks.schema.engine import doubled
from allranks.schema.repair import quoted, short

if TYPE_CHECKING:
    from allranks.schema.engine import Engine, Violation
    from allranks.schema.paths import ValuesPath

Typed = Callable[["ValuesPath", Any], str]
_Words = tuple[str, str]

_KINDS = {
    "string": "a string",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "a map",
}
# Maps of a user's own keys, where a missing key is the user's and not a default removed by null.
_OWN = ("env", "envFrom", "podTemplate", "layout")
_UNQUOTED = ", without quotes"
NUMBER = f"write a number{_UNQUOTED}"
_WHOLE_NUMBER = f"write a whole number{_UNQUOTED}"
_TIME = re.compile(r"([0-9]{1,9}) *(s|sec|m|min|h|d)")
_HEXADECIMAL = re.compile(r"0[xX][0-9a-fA-F]{1,12}")
_FRACTION = re.compile(r"-?[0-9]{1,16}(?:\.[0-9]{1,16})?(?:[eE]\+?[0-9]{1,2})?")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_LONG_NUMBER = 16  # digits; a float64, which Helm keeps numbers in, holds fewer exactly


def explain(engine: Engine, violation: Violation, typed: Typed) -> _Words:
    """Message and hint for one violation.

    Args:
        engine: the chart's schema.
        violation: what it refused.
        typed: gives the text of a scalar at a path as it was typed; "" where it is not known.
    """
    special = _SPECIAL.get(violation.keyword)
    if special is None:
        message, hint = f"{short(violation.instance)} is not {_wanted(violation)}", ""
    else:
        message, hint = special(engine, violation, typed)
    return message, hint or f"write {_one_of_choices(violation) or _wanted(violation)}"


def without_quotes(hint: str) -> str:
    """A fix for where there are no quotes to leave out, as in a flag."""
    return hint.removesuffix(_UNQUOTED)


def _one_of_choices(violation: Violation) -> str:
    """What an enumeration allows, where the value is of another type than all of it."""
    choices = [_choice(choice) for choice in violation.schema.get("enum", ())]
    return f"one of {', '.join(choices)}" if choices else ""


def _wanted(violation: Violation) -> str:
    title = violation.schema.get("title")
    if title:
        return str(title)
    types = violation.schema.get("type", [])
    listed = types if isinstance(types, list) else [types]
    return (
        " or ".join(_KINDS[name] for name in listed if name in _KINDS) or "what the schema allows"
    )


def _given(violation: Violation, typed: Typed) -> str:
    """The value as it was typed where that is known: 1e-5, not 1e-05."""
    value = violation.instance
    if isinstance(value, (bool, int, float)):
        return typed(violation.path, value) or quoted(value)
    return short(value)


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "a truth value"
    if isinstance(value, (int, float)):
        return "a number"
    return _KINDS["string" if isinstance(value, str) else _container(value)]


def _container(value: Any) -> str:
    return "array" if isinstance(value, list) else "object"


def _type(engine: Engine, violation: Violation, typed: Typed) -> _Words:
    value, given = violation.instance, _given(violation, typed)
    types = violation.expected if isinstance(violation.expected, list) else [violation.expected]
    wanted = _wanted(violation)
    if value is None:
        fix = 'write "" for an empty string, or remove the key'
        return f"is empty (null), not {wanted}", fix if "string" in types else "remove the key"
    if isinstance(value, float) and "integer" in types:
        fix = f"quote it: {quoted(given)}" if "string" in types else _whole(value)
        return f"{given} is a fraction, not {wanted}", fix
    hint = _type_hint(engine, violation, given, types)
    if isinstance(value, (dict, list)):
        return f"{_kind(value)} is given, {given}, not {wanted}", hint
    return f"{given} is {_kind(value)}, not {wanted}", hint


def _whole(value: float) -> str:
    low = int(value // 1)
    return f"write {low} or {low + 1}" if low >= 0 else "write a whole number"


def _type_hint(  # noqa: PLR0911 - one for each pair of types
    engine: Engine, violation: Violation, given: str, types: list[str]
) -> str:
    value = violation.instance
    if isinstance(value, str):
        return _string_hint(engine, violation, value, types)
    if isinstance(value, (dict, list)):
        return _container_hint(engine, violation, types)
    if "string" in types:
        if _wanted(violation).startswith("a size") and not isinstance(value, bool):
            return f"name the unit: {given}Gi"
        return f"quote it: {quoted(given)}" if engine.accepts(violation.schema, given) else ""
    if "array" in types:
        item = engine.resolve(violation.schema.get("items", {}))
        text = quoted(given) if "string" in item.get("type", ()) else given
        return f"write it as a list: [{text}]"
    if "boolean" in types and value in (0, 1):
        return f"write {quoted(bool(value))}"
    return _map_hint(violation) if "object" in types else ""


def _container_hint(engine: Engine, violation: Violation, types: list[str]) -> str:
    """A list or a map where something else is meant."""
    value = violation.instance
    if violation.path[-1:] == ("env",) and "object" in types:
        return 'write it as a map: {NAME: "value"}'
    if "string" in types and isinstance(value, dict) and set(value) == {"name"}:
        return f"write the name alone: {value['name']}"
    for guess in _inside(value):
        if engine.accepts(violation.schema, guess):
            return f"write {quoted(guess)}"
    if "array" in types:
        return "write it as a list, each item after a dash"
    if "string" in types and violation.path and isinstance(violation.path[-1], int):
        return "write its texts as items of the list that it stands in"
    return _map_hint(violation) if "object" in types else ""


def _inside(value: dict[str, Any] | list[Any]) -> list[Any]:
    """What a list or a map may have been put around by mistake."""
    if isinstance(value, dict):
        items = list(value.values()) if value.keys() <= {"name", "value"} else []
    else:
        items = value
    if len(items) == 1 and not isinstance(items[0], dict | list):
        return [items[0], str(items[0])] if isinstance(items[0], int | float) else items
    return []


def _string_hint(  # noqa: PLR0911 - one for each type
    engine: Engine, violation: Violation, value: str, types: list[str]
) -> str:
    """A string where something else is meant."""
    bare = value.strip()
    if "integer" in types and bare.lstrip("-").isdecimal() and len(bare) < _LONG_NUMBER:
        if not bare.isascii():
            return f"write {_decimal(bare)}, in the digits 0 to 9"
        return f"remove the quotes: {_decimal(bare)}"
    if "integer" in types:
        return _seconds(violation, bare) or _digits(bare) or _WHOLE_NUMBER
    if "number" in types:
        return _seconds(violation, bare) or NUMBER
    if "boolean" in types:
        meant = suggest.flag(value)
        return "write true or false" if meant is None else f"write {quoted(meant)} without quotes"
    if "array" in types:
        words = _split(value)
        fits = engine.accepts(violation.schema, words)
        return f"write it as a list: {short(words)}" if fits else ""
    if violation.path == ("image",):
        return f"write {repair.image(value)}"
    return _map_hint(violation) if "object" in types else ""


def _decimal(text: str) -> str:
    """A whole number as YAML reads it: ASCII digits, and no leading zeros."""
    try:
        return str(int(text))
    except ValueError:  # several signs
        return text.lstrip("-")


def _digits(text: str) -> str:
    """How to write a whole number that was given in another way: 0x10, 1e3, 2.0."""
    if _HEXADECIMAL.fullmatch(text):
        number = float(int(text, 16))
    elif _FRACTION.fullmatch(text):
        number = float(text)
    else:
        return ""
    whole = number.is_integer() and abs(number) < 10**_LONG_NUMBER
    return f"write {int(number)}, in digits alone" if whole else ""


def _seconds(violation: Violation, bare: str) -> str:
    """How to write a time with a unit where a number of seconds is meant."""
    time = _TIME.fullmatch(bare.lower())
    if time is None or not str(violation.path[-1]).endswith("Seconds"):
        return ""
    return f"write {int(time[1]) * _SECONDS[time[2][0]]}, in seconds"


def _map_hint(violation: Violation) -> str:
    if violation.path[:1] == ("layout",):
        return "remove it: it is computed from the other values"
    keys = ", ".join(sorted(violation.schema.get("properties", ())))
    return f"write a map with {keys}" if keys else ""


def _split(text: str) -> list[str]:
    """A text as the words that a shell makes of it."""
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _unknown(engine: Engine, violation: Violation, _: Typed) -> _Words:
    return "unknown key", suggest.hint(engine, violation.path)


def _missing(engine: Engine, violation: Violation, __: Typed) -> _Words:
    path = violation.path
    own = path[0] in _OWN or any(isinstance(part, int) for part in path)
    if own:
        return "is missing", f"add it: {path[-1]}: …"
    fix = "leave the key out to keep its default"
    if engine.at(path).get("type") == "array":
        fix += f"; --set-json '{paths.show(path)}=[]' is an empty list"
    return "is missing: null removes a default that the chart needs", fix


def _bad_key(engine: Engine, violation: Violation, _: Typed) -> _Words:
    key, node = str(violation.path[-1]), engine.resolve(violation.expected)
    fix = repair.hint(engine, node, key)
    return f"the key {short(key)} is not {node.get('title', 'allowed')}", fix


def _pattern(engine: Engine, violation: Violation, _: Typed) -> _Words:
    value = str(violation.instance)
    if "\0" in value:
        return "the text has a NUL character, which no program can be given", "remove it"
    hint = repair.hint(engine, violation.schema, value)
    if violation.path == ("image", "repository") and ({":", "@"} & set(value)):
        hint = f"write image: {repair.image(value)}"
    wanted = _wanted(violation)
    return f"{short(value)} is not {wanted}", hint or f"write {wanted}"


def _enum(engine: Engine, violation: Violation, _: Typed) -> _Words:
    choices = ", ".join(_choice(choice) for choice in violation.expected)
    hint = _flag_hint(violation) or repair.hint(engine, violation.schema, violation.instance)
    return f"{short(violation.instance)} is not one of {choices}", hint or "write one of these"


def _choice(choice: Any) -> str:
    """One of the values of an enumeration, as YAML has it."""
    return choice or '""' if isinstance(choice, str) else quoted(choice)


def _flag_hint(violation: Violation) -> str:
    """How to write true or false, where they are among the choices and text was given."""
    flags = [choice for choice in violation.expected if isinstance(choice, bool)]
    value = violation.instance
    meant = suggest.flag(value) if flags and isinstance(value, str) else None
    if meant not in flags:
        return ""
    return f"write {quoted(meant)} without quotes"


def _const(_: Engine, violation: Violation, __: Typed) -> _Words:
    if violation.path == ("workload",):
        return (
            f"this file is for {short(violation.instance)}, and the chart is {violation.expected}",
            f"write {violation.expected}, or use the chart of that workload",
        )
    wanted = short(violation.expected)
    return f"{short(violation.instance)} is not {wanted}", f"write {wanted}"


def _minimum(_: Engine, violation: Violation, typed: Typed) -> _Words:
    least = violation.expected
    message = f"{_given(violation, typed)} is less than the least allowed, {least}"
    return message, f"write {least} or more"


def _maximum(_: Engine, violation: Violation, typed: Typed) -> _Words:
    most = violation.expected
    message = f"{_given(violation, typed)} is more than the most allowed, {most}"
    return message, f"write {most} or less"


def _unique(_: Engine, violation: Violation, __: Typed) -> _Words:
    twice = violation.instance[doubled(violation.instance)]
    return f"{short(twice)} is listed twice", "remove one"


def _long(_: Engine, violation: Violation, __: Typed) -> _Words:
    size = len(violation.instance)
    return f"is {size} characters long; at most {violation.expected} are allowed", "shorten it"


def _few(_: Engine, violation: Violation, __: Typed) -> _Words:
    return f"is empty, not {_wanted(violation)}", "give at least one"


def _one_source(_: Engine, violation: Violation, __: Typed) -> _Words:
    known = ", ".join(sorted(violation.schema.get("properties", {})))
    count = len(violation.instance)
    return f"has {count or 'no'} keys; exactly one is allowed", f"keep one of {known}"


def _one_of(_: Engine, violation: Violation, __: Typed) -> _Words:
    known = " and ".join(key for branch in violation.expected for key in branch["required"])
    return f"needs exactly one of {known}", "write each one as an item of its own"


def _any_of(_: Engine, violation: Violation, __: Typed) -> _Words:
    key = violation.expected[0]["required"][0]
    return f"has no {key}, and items are merged by it", f"add {key}: …"


_SPECIAL: dict[str, Callable[[Engine, Violation, Typed], _Words]] = {
    "additionalProperties": _unknown,
    "anyOf": _any_of,
    "const": _const,
    "enum": _enum,
    "maxLength": _long,
    "maxProperties": _one_source,
    "maximum": _maximum,
    "minItems": _few,
    "minProperties": _one_source,
    "minimum": _minimum,
    "oneOf": _one_of,
    "pattern": _pattern,
    "propertyNames": _bad_key,
    "required": _missing,
    "type": _type,
    "uniqueItems": _unique,
}
