"""What `torchx run --dryrun` prints: the application, and the request of its scheduler.

The application is an AppDef between two headings: as Python writes it, or as YAML. The request is
what a scheduler would have been sent for it, and so the same job once more.
"""

from __future__ import annotations

import ast
import json
import re

_HEADINGS = re.compile(
    r"^=== APPLICATION ===[ \t\r]*\n(?P<application>.*?)(?:^=== SCHEDULER REQUEST ===|\Z)",
    re.MULTILINE | re.DOTALL,
)
# How Python writes a member of an enumeration, as that of retry_policy.
_MEMBER = re.compile(r"<\w+\.\w+: ('[^'\n]*')>")


def application(text: str) -> str | None:
    """The application of such a text, as YAML; each of its lines is where it was, or above.

    Args:
        text: a file's content.

    Returns:
        None where the text has no such headings.
    """
    match = _HEADINGS.search(text)
    if match is None:
        return None
    content = match["application"]
    before = "\n" * text.count("\n", 0, match.start("application"))
    return before + (_of_python(content.strip()) or content)


def _of_python(text: str) -> str:
    """What Python has written, as YAML; "" for other text, which the reader of YAML judges."""
    if not text.startswith("{"):
        return ""
    try:
        return json.dumps(ast.literal_eval(_MEMBER.sub(r"\1", text)), default=str)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return ""
