"""Messages for what the schema refuses.

A message says what was given and what is allowed; the hint is the nearest fix. What is allowed
comes from the schema node's ``title``, which completes the sentence "… is not …".
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from allranks.schema import paths, suggestions
from allranks.schema.fixes import NOTHING, Fix, write
from allranks.schema.suggestions import quoted, short
from allranks.schema.validator import first_duplicate
from allranks.yamlio import scalars

if TYPE_CHECKING:
    from allranks.schema.paths import ValuesPath
    from allranks.schema.validator import ChartSchema, Violation

TypedText = Callable[["ValuesPath", Any], str]
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
NUMBER = Fix("write a number, without quotes", in_flag="write a number")
_WHOLE_NUMBER = Fix("write a whole number, without quotes", in_flag="write a whole number")
_TIME = re.compile(r"([0-9]{1,9}) *(s|sec|m|min|h|d)")
_HEXADECIMAL = re.compile(r"0[xX][0-9a-fA-F]{1,12}")
_FRACTION = re.compile(r"-?[0-9]{1,16}(?:\.[0-9]{1,16})?(?:[eE]\+?[0-9]{1,2})?")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_SHELL = frozenset("|&;<>()$`*?[]{}~#!\n")
_NUMBER_MAX = 2.0**53  # above it a float has no fractions
_LONG_NUMBER = 16  # digits; a float64, which Helm keeps numbers in, holds fewer exactly


def explain(engine: ChartSchema, violation: Violation, token_of: TypedText) -> _Words:
    """The message and the fix for one violation.

    Args:
        engine: the chart's schema.
        violation: what it refused.
        token_of: gives the text of a scalar at a path as it was typed; "" where it is not known.
    """
    special = _SPECIAL.get(violation.keyword)
    if special is None:
        message, hint = f"{short(violation.instance)} is not {_expectation(violation)}", ""
    else:
        message, hint = special(engine, violation, token_of)
    return message, hint or f"write {_one_of_choices(violation) or _expectation(violation)}"


def _one_of_choices(violation: Violation) -> str:
    """The choices of an enumeration, where the value has another type."""
    choices = [_choice(choice) for choice in violation.schema.get("enum", ())]
    return f"one of {', '.join(choices)}" if choices else ""


def beside_args(fix: Fix) -> str:
    """The fix of a command with arguments: those behind `sh -c TEXT` are the shell's alone."""
    words = fix.value
    if not isinstance(words, list) or words[:2] != ["sh", "-c"]:
        return fix
    example = short([*words, "sh"])
    return f'write it as a list: {example}, with "$@" in the text where the args belong'


def _expectation(violation: Violation) -> str:
    title = violation.schema.get("title")
    if title:
        return str(title)
    types = violation.schema.get("type", [])
    kinds = types if isinstance(types, list) else [types]
    return " or ".join(_KINDS[name] for name in kinds if name in _KINDS) or "what the schema allows"


def _actual(violation: Violation, token_of: TypedText) -> str:
    """The value as the user typed it, where that is known: 1e-5, not 1e-05."""
    value = violation.instance
    if isinstance(value, (bool, int, float)):
        return token_of(violation.path, value) or quoted(value)
    return short(value)


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "a truth value"
    if isinstance(value, (int, float)):
        return "a number"
    return _KINDS["string" if isinstance(value, str) else _container(value)]


def _container(value: Any) -> str:
    return "array" if isinstance(value, list) else "object"


def _type(engine: ChartSchema, violation: Violation, token_of: TypedText) -> _Words:
    value, actual = violation.instance, _actual(violation, token_of)
    types = violation.expected if isinstance(violation.expected, list) else [violation.expected]
    expected = _expectation(violation)
    if value is None:
        fix = 'write "" for an empty string, or remove the key'
        return f"is empty (null), not {expected}", fix if "string" in types else "remove the key"
    if isinstance(value, float) and "integer" in types:
        fix = _quoted(actual) if "string" in types else _whole(value)
        return f"{actual} is a fraction, not {expected}", fix
    hint = _type_hint(engine, violation, actual, types)
    if isinstance(value, str) and isinstance(hint, Fix) and token_of(violation.path, value):
        hint = _unquoted(hint, value)
    if isinstance(value, (dict, list)):
        return f"{_kind(value)} is given, {actual}, not {expected}", hint
    return f"{actual} is {_kind(value)}, not {expected}", hint


def _unquoted(fix: Fix, text: str) -> Fix:
    """The fix of a text that has no quotes to remove, as one after a `|` has none."""
    if "quotes" not in fix:
        return fix
    if fix.value is NOTHING:
        return fix.worded(fix.in_flag)
    if scalars.resolve(text.strip()) != fix.value:  # a word that is misspelt
        return fix.worded(f"write {quoted(fix.value)}")
    return fix.worded(f"write it on the line of its key: {quoted(fix.value)}")


def _whole(value: float) -> str:
    if not 0 <= value < _NUMBER_MAX:  # neither is nan
        return "write a whole number"
    low = int(value)
    return f"write {low} or {low + 1}"


def _type_hint(  # noqa: PLR0911 - one for each pair of types
    engine: ChartSchema, violation: Violation, actual: str, types: list[str]
) -> str:
    value = violation.instance
    if isinstance(value, str):
        return _string_hint(engine, violation, value, types)
    if isinstance(value, (dict, list)):
        return _container_hint(engine, violation, types)
    if "string" in types:
        if _expectation(violation).startswith("a size") and not isinstance(value, bool):
            # A guess: whoever leaves the unit out may mean another.
            return write(f"{actual}Gi", f"{actual}Gi", form="name the unit: {}")
        return _quoted(actual) if engine.accepts(violation.schema, actual) else ""
    if "array" in types:
        item = engine.resolve(violation.schema.get("items", {}))
        # A list of texts gets what was typed as a text; one of numbers too keeps the number.
        is_text = not engine.accepts(item, value)
        return _list([actual if is_text else value], quoted(actual) if is_text else actual)
    if "boolean" in types and value in (0, 1):
        return write(bool(value), quoted(bool(value)), is_safe=True)
    return _map_hint(violation) if "object" in types else ""


def _quoted(text: str) -> Fix:
    return write(text, quoted(text), form="quote it: {}", is_safe=True)


def _list(items: list[Any], text: str) -> Fix:
    return Fix(f"write it as a list: [{text}]", value=items, is_safe=True)


def _truth(value: bool, text: str) -> Fix:  # noqa: FBT001 - it is what is written
    is_safe = suggestions.is_flag(text)
    return write(value, quoted(value), form="write {} without quotes", is_safe=is_safe)


def _container_hint(engine: ChartSchema, violation: Violation, types: list[str]) -> str:
    """The fix for a list or map in place of another type."""
    value = violation.instance
    if violation.path[-1:] == ("env",) and "object" in types:
        return 'write it as a map: {NAME: "value"}'
    if "string" in types and isinstance(value, dict) and set(value) == {"name"}:
        return f"write the name alone: {value['name']}"
    for guess in _inside(value):
        if engine.accepts(violation.schema, guess):
            return write(guess, quoted(guess))
    if "array" in types:
        return "write it as a list, each item after a dash"
    if "string" in types and violation.path and isinstance(violation.path[-1], int):
        return "write its texts as items of the list that it stands in"
    return _map_hint(violation) if "object" in types else ""


def _inside(value: dict[str, Any] | list[Any]) -> list[Any]:
    """The value inside a list or map that was put around it by mistake."""
    if isinstance(value, dict):
        items = list(value.values()) if value.keys() <= {"name", "value"} else []
    else:
        items = value
    if len(items) == 1 and not isinstance(items[0], dict | list):
        return [items[0], str(items[0])] if isinstance(items[0], int | float) else items
    return []


def _string_hint(  # noqa: PLR0911 - one for each type
    engine: ChartSchema, violation: Violation, value: str, types: list[str]
) -> str:
    """The fix for a string in place of another type."""
    bare = value.strip()
    if "integer" in types and bare.lstrip("-").isdecimal() and len(bare) < _LONG_NUMBER:
        if not bare.isascii():
            return _number(_decimal(bare), "write {}, in the digits 0 to 9")
        return _number(_decimal(bare), "remove the quotes: {}")
    if "integer" in types:
        return _seconds(violation, bare) or _digits(bare) or _WHOLE_NUMBER
    if "number" in types:
        return _seconds(violation, bare) or _bare_number(bare)
    if "boolean" in types:
        flag = suggestions.flag(value)
        return "write true or false" if flag is None else _truth(flag, value)
    if "array" in types:
        return _words_hint(engine, violation, value)
    if violation.path == ("image",):
        return suggestions.image(value)
    return _map_hint(violation) if "object" in types else ""


def _decimal(text: str) -> str:
    """A whole number as YAML reads it: ASCII digits, and no leading zeros."""
    try:
        return str(int(text))
    except ValueError:  # several signs
        return text.lstrip("-")


def _number(digits: str, form: str) -> Fix:
    """The fix for a whole number."""
    try:
        return write(int(digits), digits, form=form, is_safe=True)
    except ValueError:
        return Fix(form.format(digits))


def _bare_number(text: str) -> Fix:
    """The fix for a text in place of a number: the number in it, where it is one."""
    value = scalars.resolve(text)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value):
        return NUMBER
    return Fix(NUMBER, value=value, in_flag=NUMBER.in_flag, is_safe=True)


def _digits(text: str) -> str:
    """The fix for a whole number in another notation: 0x10, 1e3, 2.0."""
    if _HEXADECIMAL.fullmatch(text):
        number = float(int(text, 16))
    elif _FRACTION.fullmatch(text):
        number = float(text)
    else:
        return ""
    whole = number.is_integer() and abs(number) < 10**_LONG_NUMBER
    return _number(str(int(number)), "write {}, in digits alone") if whole else ""


def _seconds(violation: Violation, bare: str) -> str:
    """The fix for a time with a unit where seconds are expected."""
    time = _TIME.fullmatch(bare.lower())
    if time is None or "Seconds" not in str(violation.path[-1]):
        return ""
    return _number(str(int(time[1]) * _SECONDS[time[2][0]]), "write {}, in seconds")


def _map_hint(violation: Violation) -> str:
    if violation.path[:1] == ("layout",):
        return "remove it: it is computed from the other values"
    keys = ", ".join(sorted(violation.schema.get("properties", ())))
    return f"write a map with {keys}" if keys else ""


def _words_hint(engine: ChartSchema, violation: Violation, text: str) -> str:
    """The fix for a text in place of a list: its words, as a shell splits it."""
    form, is_safe = "write it as a list: {}", True
    try:
        words = shlex.split(text)
    except ValueError:
        if len(text.split()) > 1:
            return "write it as a list of words; a quote in it is not closed"
        words, is_safe = text.split(), False
    if words and _ASSIGNMENT.match(words[0]):
        name = words[0].partition("=")[0]
        return f"write it as a list of words, and {name} under env"
    if _SHELL & set(text) and len(words) > 1:
        # Only a shell makes more of these than words; arguments are given to none.
        if violation.path[-1] != "command":
            return f"write it as a list of words: {short(words)}"
        words, is_safe = ["sh", "-c", text], False
    # "1,2" may be meant as two.
    has_numbers = engine.accepts(engine.resolve(violation.schema.get("items", {})), 1)
    is_safe = is_safe and not _SHELL & set(text) and not (has_numbers and "," in text)
    fits = engine.accepts(violation.schema, words)
    return write(words, short(words), form=form, is_safe=is_safe) if fits else ""


def _unknown(engine: ChartSchema, violation: Violation, _: TypedText) -> _Words:
    return "unknown key", suggestions.nearest_fix(engine, violation.path)


def _missing(engine: ChartSchema, violation: Violation, __: TypedText) -> _Words:
    path = violation.path
    own = path[0] in _OWN or any(isinstance(part, int) for part in path)
    if own:
        return "is missing", f"add it: {path[-1]}: …"
    fix = "leave the key out to keep its default"
    if engine.at(path).get("type") == "array":
        fix += f"; --set-json '{paths.show(path)}=[]' is an empty list"
    return "is missing: null removes a default that the chart needs", fix


def _bad_key(engine: ChartSchema, violation: Violation, _: TypedText) -> _Words:
    key, node = str(violation.path[-1]), engine.resolve(violation.expected)
    fix = suggestions.value_fix(engine, node, key)
    if isinstance(fix, Fix):
        fix = Fix(fix, key=(*violation.path[:-1], str(fix.value)))
    return f"the key {short(key)} is not {node.get('title', 'allowed')}", fix


def _pattern(engine: ChartSchema, violation: Violation, _: TypedText) -> _Words:
    value = str(violation.instance)
    if "\0" in value:
        return "the text has a NUL character, which no program can be given", "remove it"
    hint = suggestions.value_fix(engine, violation.schema, value)
    if violation.path == ("image", "repository") and ({":", "@"} & set(value)):
        hint = suggestions.image(value).replace("write ", "write image: ", 1)
    expected = _expectation(violation)
    return f"{short(value)} is not {expected}", hint or f"write {expected}"


def _enum(engine: ChartSchema, violation: Violation, _: TypedText) -> _Words:
    choices = ", ".join(_choice(choice) for choice in violation.expected)
    hint = _flag_hint(violation) or suggestions.value_fix(
        engine, violation.schema, violation.instance
    )
    return f"{short(violation.instance)} is not one of {choices}", hint or "write one of these"


def _choice(choice: Any) -> str:
    """One of the values of an enumeration, as YAML has it."""
    return choice or '""' if isinstance(choice, str) else quoted(choice)


def _flag_hint(violation: Violation) -> str:
    """The fix for text where true or false is a choice."""
    flags = [choice for choice in violation.expected if isinstance(choice, bool)]
    value = violation.instance
    flag = suggestions.flag(value) if flags and isinstance(value, str) else None
    if flag is None or flag not in flags:
        return ""
    return _truth(flag, value)


def _const(_: ChartSchema, violation: Violation, __: TypedText) -> _Words:
    if violation.path == ("workload",):
        return (
            f"this file is for {short(violation.instance)}, and the chart is {violation.expected}",
            f"write {violation.expected}, or use the chart of that workload",
        )
    expected = short(violation.expected)
    return f"{short(violation.instance)} is not {expected}", write(violation.expected, expected)


def _minimum(_: ChartSchema, violation: Violation, token_of: TypedText) -> _Words:
    least = violation.expected
    message = f"{_actual(violation, token_of)} is less than the least allowed, {least}"
    return message, Fix(f"write {least} or more")


def _maximum(_: ChartSchema, violation: Violation, token_of: TypedText) -> _Words:
    most = violation.expected
    message = f"{_actual(violation, token_of)} is more than the most allowed, {most}"
    return message, Fix(f"write {most} or less")


def _unique(_: ChartSchema, violation: Violation, __: TypedText) -> _Words:
    twice = violation.instance[first_duplicate(violation.instance)]
    return f"{short(twice)} is listed twice", "remove one"


def _long(_: ChartSchema, violation: Violation, __: TypedText) -> _Words:
    size = len(violation.instance)
    return f"is {size} characters long; at most {violation.expected} are allowed", "shorten it"


def _few(_: ChartSchema, violation: Violation, __: TypedText) -> _Words:
    return f"is empty, not {_expectation(violation)}", "give at least one"


def _one_source(_: ChartSchema, violation: Violation, __: TypedText) -> _Words:
    sources = ", ".join(sorted(violation.schema.get("properties", {})))
    count = len(violation.instance)
    return f"has {count or 'no'} keys; exactly one is allowed", f"keep one of {sources}"


def _one_of(_: ChartSchema, violation: Violation, __: TypedText) -> _Words:
    keys = " and ".join(key for branch in violation.expected for key in branch["required"])
    return f"needs exactly one of {keys}", "write each one as an item of its own"


def _any_of(_: ChartSchema, violation: Violation, __: TypedText) -> _Words:
    key = violation.expected[0]["required"][0]
    return f"has no {key}, and items are merged by it", f"add {key}: …"


_SPECIAL: dict[str, Callable[[ChartSchema, Violation, TypedText], _Words]] = {
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
