"""What a program for templates, such as envsubst, is to fill in before Kubernetes takes a manifest.

Kubernetes puts variables into ``$(NAME)`` alone. A number that is ``${WORKERS}`` is none, and a
variable that is ``${WORKERS}`` has these very letters.
"""

from __future__ import annotations

import re

HINT = "fill in what stands in its place first, as with envsubst"
# What has a point in it is a parameter of a search, which Katib fills in for each trial.
_IN_NUMBERS = re.compile(r"[${}<>]|^(?:__\w+__|@\w+@|%\w+%)$")
_PARAMETER = re.compile(r"\$\{\w+\.")
_VARIABLE = re.compile(r"\$\{[A-Z_][A-Z0-9_]*(?::?-[^{}]*)?\}")


def has_parameter(text: str) -> bool:
    """Whether a text has a parameter of a search in it: ``${sweep.lr}``."""
    return "${sweep." in text


def in_number(number: str) -> bool:
    """Whether a text in the place of a number is still to be filled in.

    Args:
        number: ``${WORKERS}``, ``{{ workers }}``, ``<workers>``, ``__WORKERS__``.
    """
    return _IN_NUMBERS.search(number) is not None and _PARAMETER.search(number) is None


def is_variable(value: str) -> bool:
    """Whether a variable's text is still to be filled in, as a whole.

    Args:
        value: ``${WORKERS}``; a path that goes on may have its use as it is.
    """
    return _VARIABLE.fullmatch(value) is not None
