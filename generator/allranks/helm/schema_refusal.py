"""What helm prints where values do not match a chart's values.schema.json, as our own problems.

Helm gives a JSON pointer and the validator's words, one line per keyword and one per branch of a
`oneOf`. Here each becomes a values path and one plain sentence.
"""

from __future__ import annotations

import re

from allranks.errors import AllranksError, InputError, InvalidValues, Problem

_SCHEMA_HEAD = "values don't meet the specifications of the schema"
_AT = re.compile(r"^(?P<indent> *)- at '(?P<pointer>(?:[^'\\]|\\.)*)': (?P<text>.*)$")
_SCHEMA_WORDS = (
    (r"^got (.*), want (.*)$", r"must be \2, not \1"),
    (r"^minimum: got (.*), want (.*)$", r"must be at least \2, not \1"),
    (r"^maximum: got (.*), want (.*)$", r"must be at most \2, not \1"),
    (r"^exclusiveMinimum: got (.*), want (.*)$", r"must be more than \2, not \1"),
    (r"^exclusiveMaximum: got (.*), want (.*)$", r"must be less than \2, not \1"),
    (r"^minLength: got (.*), want (.*)$", r"must have at least \2 characters, not \1"),
    (r"^maxLength: got (.*), want (.*)$", r"must have at most \2 characters, not \1"),
    (r"^minItems: got (.*), want (.*)$", r"must have at least \2 entries, not \1"),
    (r"^maxItems: got (.*), want (.*)$", r"must have at most \2 entries, not \1"),
    (r"^minProperties: got (.*), want (.*)$", r"must have at least \2 keys, not \1"),
    (r"^maxProperties: got (.*), want (.*)$", r"must have at most \2 keys, not \1"),
    (r"^value must be one of (.*)$", r"must be one of \1"),
    (r"^value must be (.*)$", r"must be \1"),
    (r"^(.*) does not match pattern (.*)$", r"\1 does not match \2"),
)


def parse(text: str) -> AllranksError | None:
    """The problems that a refusal by a chart's schema names.

    Args:
        text: helm's error, without what it printed before.

    Returns:
        None where the error is not about the schema.
    """
    if _SCHEMA_HEAD not in text:
        return None
    rows = [match for line in text.splitlines() if (match := _AT.match(line))]
    problems: list[Problem] = []
    skip_deeper: int | None = None
    for row in rows:
        depth = len(row["indent"])
        if skip_deeper is not None and depth > skip_deeper:
            continue
        skip_deeper = None
        said = row["text"]
        if said == "validation failed":
            continue
        if said.startswith(("'oneOf' failed", "'anyOf' failed")):
            # The branches below say what each would have allowed; one line says it for all.
            skip_deeper = depth
            said = _branches(rows, row)
        problems.extend(_problems(_values_path(row["pointer"]), said))
    if not problems:
        return InputError("the values do not match the chart's schema", hint=text)
    return InvalidValues(problems)


def _branches(rows: list[re.Match[str]], head: re.Match[str]) -> str:
    depth = len(head["indent"])
    wants: list[str] = []
    for row in rows[rows.index(head) + 1 :]:
        if len(row["indent"]) <= depth:
            break
        if match := re.match(r"^got (.*), want (.*)$", row["text"]):
            wants.append(match[2])
            got = match[1]
    if not wants:
        return "matches none of the forms that are allowed here"
    return f"got {got}, want {' or '.join(dict.fromkeys(wants))}"


def _values_path(pointer: str) -> str:
    path = ""
    for token in pointer.split("/")[1:]:
        key = token.replace("~1", "/").replace("~0", "~")
        if key.isdigit():
            path += f"[{key}]"
        else:
            path += f".{key}" if path else key
    return path


def _problems(path: str, said: str) -> list[Problem]:
    """One or more problems from one line of helm; unknown keys each get their own."""
    if match := re.match(r"^additional propert(?:y|ies) (.*) not allowed$", said):
        return [
            Problem(f"{path}.{key}" if path else key, "unknown key", "remove it, or correct it")
            for key in re.findall(r"'((?:[^'\\]|\\.)*)'", match[1])
        ]
    if match := re.match(r"^missing propert(?:y|ies) (.*)$", said):
        return [
            Problem(f"{path}.{key}" if path else key, "is required", "set it")
            for key in re.findall(r"'((?:[^'\\]|\\.)*)'", match[1])
        ]
    for pattern, message in _SCHEMA_WORDS:
        if match := re.match(pattern, said):
            return [Problem(path, match.expand(message))]
    return [Problem(path, said)]
