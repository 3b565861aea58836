"""Libraries of others, of which only what is used is imported.

The packages of libraries import all of their modules: PyYAML readers and writers in Python, pyhelm3
pydantic, the kubernetes library a second client and web sockets. That takes longer than what a
short command does. Here such a module is deferred: it is there at once, and its code runs when
somebody asks it for something, ours or another library in the same process. So does
`importlib.util.LazyLoader`, whose own import costs the post-renderer a fifth of its time.
"""

from __future__ import annotations

import sys
from _thread import RLock  # `threading` takes longer to import

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any
else:
    ModuleType = type(sys)


class _Deferred(ModuleType):
    """A module whose code runs when somebody asks for what it does not have yet."""

    def __init__(self, spec: ModuleSpec) -> None:
        super().__init__(spec.name)
        self.__spec__ = spec
        self.__package__ = spec.parent
        self.__file__ = spec.origin
        self.__loader__ = self._loader_to_run = spec.loader
        if spec.submodule_search_locations is not None:
            self.__path__ = spec.submodule_search_locations
        self._lock = RLock()  # another thread waits until all of it is there

    def __getattr__(self, name: str) -> Any:
        """What is not there yet."""
        if name == "__path__":  # each import asks for it, and only a package has it
            raise AttributeError(f"module {self.__name__!r} is no package")
        attributes = self.__dict__
        with attributes["_lock"]:
            loader = attributes.pop("_loader_to_run", None)
            if loader is not None:
                loader.exec_module(self)
            return super().__getattribute__(name)  # also by a `__getattr__` of the module's own


def defer(name: str) -> None:
    """Import a module, but for its code; nothing where it is there already.

    Args:
        name: a module or a package; those above it are imported as they are, deferred or not.

    Raises:
        ModuleNotFoundError: there is none of that name.
    """
    if name in sys.modules:
        return
    above, _, own_name = name.rpartition(".")
    path = None
    if above:
        __import__(above)
        path = sys.modules[above].__path__
    specs = (finder.find_spec(name, path) for finder in sys.meta_path)
    spec = next(filter(None, specs), None)
    if spec is None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    sys.modules[name] = module = _Deferred(spec)
    if above:
        setattr(sys.modules[above], own_name, module)


def import_without(name: str, *classes: str) -> None:
    """Import a module that takes classes of others, and makes objects of them in rare cases alone.

    Args:
        name: the module.
        classes: what it only calls, as ``module.Class``; it gets functions in their place, which
            import the module when they are called. The module itself is deferred.
    """
    stand_ins: list[tuple[ModuleType, str, object]] = []
    for path in classes:
        module, _, own_name = path.rpartition(".")
        defer(module)
        owner = sys.modules[module]
        if own_name not in vars(owner):
            stand_ins.append((owner, own_name, _constructor(owner, own_name)))
    for owner, own_name, stand_in in stand_ins:
        setattr(owner, own_name, stand_in)
    try:
        __import__(name)
    finally:
        for owner, own_name, stand_in in stand_ins:
            if vars(owner).get(own_name) is stand_in:
                delattr(owner, own_name)


def _constructor(owner: ModuleType, name: str) -> Callable[..., object]:
    def construct(*arguments: Any, **options: Any) -> object:
        instance: object = getattr(owner, name)(*arguments, **options)
        return instance

    return construct
