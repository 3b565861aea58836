"""Add our version to an object without parsing its YAML.

Most releases of our charts ask nothing of the post-renderer but this one line, and reading YAML is
most of what it costs, starting with the import. A manifest as Helm prints it opens with lines of
the simplest form; where these lead to the digest of the values, a line is added after it, and
every comment of the chart's author stays. Anything else is left to the parser.
"""

from __future__ import annotations

from allranks import __version__, names

_LINE = "\n"
# A key with nothing, or with a scalar that ends on its line and means no more than it shows.
_ENTRY = r"""(?P<indent>[ ]*)(?P<key>[A-Za-z0-9./_-]+):(?:[ ](?P<value>
        [A-Za-z0-9][A-Za-z0-9./_+-]*(?::[A-Za-z0-9./_+-]+)*
        | "[^"\\]*"
        | '[^']*'
    ))?[ ]*"""
_DIGEST = names.VALUES_DIGEST
# Objects of these the passes treat as a whole, or not at all.
_NOT_SIMPLE = (names.HELM_HOOK, names.GENERATOR_VERSION, "\nmetadata: ", "\t", "\r")


def stamp(body: str) -> str | None:
    """Add our version after the digest of the values.

    Args:
        body: a document, from behind its marker on.

    Returns:
        The document with the line added; None where only a parser can tell where it belongs.
    """
    if any(mark in body for mark in _NOT_SIMPLE) or body.count("\nmetadata:") != 1:
        return None
    lines = body.split(_LINE)
    at = _digest_line(lines)
    if at is None:
        return None
    indent = lines[at][: -len(lines[at].lstrip(" "))]
    if at + 1 < len(lines) and lines[at + 1].startswith(f"{indent} "):
        return None
    lines.insert(at + 1, f'{indent}{names.GENERATOR_VERSION}: "{__version__}"')
    return _LINE.join(lines)


def _digest_line(lines: list[str]) -> int | None:
    """The line of ``metadata.annotations[digest]``; None where a line before it is not simple."""
    # The keys that lead to the line, and the indentation of each.
    path: list[tuple[int, str]] = []
    import re

    pattern = re.compile(_ENTRY, re.VERBOSE | re.ASCII)
    for index, line in enumerate(lines):
        if not line or line.startswith("#"):
            continue
        entry = pattern.fullmatch(line)
        if entry is None:
            return None
        indent, key, value = len(entry["indent"]), entry["key"], entry["value"]
        while path and path[-1][0] >= indent:
            path.pop()
        if not path and (indent or (key == "kind" and value == "List")):
            return None
        path.append((indent, key))
        if key == _DIGEST and value:
            keys = [name for _, name in path]
            return index if keys == ["metadata", "annotations", _DIGEST] else None
    return None
