"""PyYAML's C parser, without the cost of its Python one.

PyYAML compiles the patterns of its Python reader and resolver as it is imported, of which the C
parser uses none: that took a seventh of what the post-renderer adds to Helm. Here each is compiled
when somebody first uses it, as the libraries of others may that are in the same process.
"""

from __future__ import annotations

import re
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class _Later:
    """A pattern of PyYAML that is compiled when it is first used."""

    def __init__(self, pattern: str, flags: int) -> None:
        self._pattern, self._flags = pattern, flags

    def __getattr__(self, name: str) -> Any:
        return getattr(re.compile(self._pattern, self._flags), name)


def _import() -> Any:
    """The C parser's class."""
    if "yaml" not in sys.modules:
        compile_now = re.compile

        def compile_later(pattern: Any, flags: Any = 0) -> Any:
            importer = sys._getframe(1).f_globals.get("__name__", "")  # noqa: SLF001
            # PyYAML imports modules of the standard library, whose patterns stay as they are.
            return (_Later if importer.startswith("yaml.") else compile_now)(pattern, flags)

        re.compile = compile_later
        try:
            import yaml
        finally:
            re.compile = compile_now
        del yaml
    from yaml._yaml import CParser

    return CParser


CParser = _import()
