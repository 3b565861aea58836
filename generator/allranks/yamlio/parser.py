"""PyYAML's C parser, without the cost of the rest of PyYAML.

`import yaml` also imports a parser, a dumper and constructors in Python, and `re`, `datetime` and
`base64` for them: a third of what the post-renderer adds to Helm, which uses none of it. Here the
C parser is imported with the events that it makes, and PyYAML itself when somebody first asks for
more of it, as the libraries of others may that are in the same process.
"""

from __future__ import annotations

import sys
from _thread import RLock  # `threading` costs more than the parser

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from importlib.machinery import ModuleSpec
    from typing import Any

_YAML = "yaml"
# The modules whose errors the C parser may raise, and of which it uses nothing else.
_OF_ERRORS = (
    *("composer", "constructor", "emitter", "parser"),
    *("reader", "representer", "scanner", "serializer"),
)


class _Package(type(sys)):  # type: ignore[misc] # types.ModuleType, without importing it
    """PyYAML, of which a module is there when it is imported, and the rest when it is asked for."""

    def __init__(self, spec: ModuleSpec) -> None:
        super().__init__(spec.name)
        self.__spec__ = spec
        self.__package__ = spec.name
        self.__path__ = spec.submodule_search_locations
        self.__file__ = spec.origin
        self.__loader__ = self._unused_loader = spec.loader
        self._lock = RLock()  # another thread waits until all of it is there

    def __getattr__(self, name: str) -> Any:
        """What is not there yet."""
        attributes = self.__dict__
        with attributes["_lock"]:
            loader = attributes.pop("_unused_loader", None)
            if loader is not None:
                loader.exec_module(self)
            if name not in attributes:
                raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
            return attributes[name]


class _Errors:
    """Stands for a module of PyYAML while the C parser takes its errors from there.

    Args:
        module: is imported when the C parser raises one.
    """

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Callable[..., BaseException]:
        """What makes an error."""

        def error(*arguments: Any) -> BaseException:
            __import__(self._module)
            made: BaseException = getattr(sys.modules[self._module], name)(*arguments)
            return made

        return error


def _import() -> Any:
    """The C parser's class."""
    if _YAML not in sys.modules:
        specs = (finder.find_spec(_YAML, None) for finder in sys.meta_path)
        if spec := next(filter(None, specs), None):
            sys.modules[_YAML] = package = _Package(spec)
            import yaml.error
            import yaml.events
            import yaml.nodes
            import yaml.tokens

            for module in _OF_ERRORS:
                setattr(package, module, _Errors(f"{_YAML}.{module}"))
            try:
                import yaml._yaml  # noqa: F401 - it takes all of these as it is imported
            finally:
                for module in _OF_ERRORS:
                    delattr(package, module)
    from yaml._yaml import CParser

    return CParser


CParser = _import()
