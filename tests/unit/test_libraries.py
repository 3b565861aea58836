"""Libraries of which only what is used is imported."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest

from allranks import libraries

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NAME = "library_of_others"
# A package as they are: it imports its modules, some define names of its own, and all of it counts
# how often its code has run.
FILES = {
    "__init__.py": (
        "import builtins\n"
        "builtins.runs_of_the_package = getattr(builtins, 'runs_of_the_package', 0) + 1\n"
        "from .large import *\nfrom .small import number\nVERSION = '1'\n"
        "def __getattr__(name):\n"
        "    if name == 'made':\n        return 'made when asked'\n"
        "    raise AttributeError(f'no {name}')\n"
    ),
    "large.py": "class Error(Exception):\n    pass\n",
    "small.py": "number = 5\n",
    "user.py": f"from {NAME}.large import Error\ndef fail(text):\n    raise Error(text)\n",
    "broken.py": f"from {NAME}.large import Error\nraise OSError('it does not work')\n",
}


@pytest.fixture(autouse=True)
def _library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    folder = tmp_path / NAME
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("builtins.runs_of_the_package", 0, raising=False)
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == NAME]:
        del sys.modules[name]


def runs() -> int:
    """How often the package's own code has run."""
    count: int = import_module("builtins").__dict__["runs_of_the_package"]
    return count


def imported() -> Any:
    """The package, as somebody else in the process imports it."""
    return import_module(NAME)


def test_a_deferred_package_runs_when_it_is_asked_for_something() -> None:
    """Importing it, or a module of it, is not asking; after that it is what it always was."""
    libraries.defer(NAME)
    package = imported()
    small = import_module(f"{NAME}.small")
    assert (5, 0) == (small.number, runs())
    assert package.__file__.endswith("__init__.py")
    assert runs() == 0

    assert ("1", 5, 1) == (package.VERSION, package.number, runs())
    assert package.small is small
    assert package.Error is import_module(f"{NAME}.large").Error


def test_names_that_a_package_makes_itself_are_still_made() -> None:
    """A `__getattr__` of the package's own answers, also with its own error."""
    libraries.defer(NAME)
    assert imported().made == "made when asked"
    with pytest.raises(AttributeError, match="no other"):
        imported().other  # noqa: B018
    assert runs() == 1


def test_a_deferred_module_stands_in_its_package() -> None:
    """Others get it by any way of importing it."""
    libraries.defer(NAME)
    libraries.defer(f"{NAME}.small")
    assert imported().small.number == 5
    assert import_module(f"{NAME}.small") is imported().small
    assert runs() == 0


def test_what_is_there_already_stays() -> None:
    """A library that somebody has imported is not touched."""
    package = imported()
    libraries.defer(NAME)
    assert imported() is package
    assert runs() == 1


def test_a_library_that_is_missing_is_named() -> None:
    """As Python itself names it."""
    with pytest.raises(ModuleNotFoundError, match="No module named 'no_such_library'") as excinfo:
        libraries.defer("no_such_library")
    assert excinfo.value.name == "no_such_library"


def test_threads_that_ask_at_once_all_find_it() -> None:
    """One of them runs the code, and the others wait."""
    libraries.defer(NAME)
    start = threading.Barrier(8)

    def ask(_: int) -> str:
        start.wait(60)
        version: str = imported().VERSION
        return version

    with ThreadPoolExecutor(8) as pool:
        assert ["1"] * 8 == list(pool.map(ask, range(8)))
    assert runs() == 1


def test_a_class_that_is_only_called_is_imported_when_it_is() -> None:
    """What it makes is of the class itself, which everybody else finds in its place."""
    libraries.defer(NAME)
    libraries.import_without(f"{NAME}.user", f"{NAME}.large.Error")
    large = sys.modules[f"{NAME}.large"]
    assert "Error" not in vars(large)

    user = import_module(f"{NAME}.user")
    with pytest.raises(Exception, match="so") as excinfo:
        user.fail("so")
    assert "Error" in vars(large)
    assert excinfo.type is large.Error
    assert imported().Error is large.Error


def test_a_class_that_is_there_already_is_given_as_it_is() -> None:
    """Nothing stands in for it."""
    large = import_module(f"{NAME}.large")
    libraries.import_without(f"{NAME}.user", f"{NAME}.large.Error")
    assert import_module(f"{NAME}.user").Error is large.Error


def test_nothing_stands_in_for_a_class_after_an_import_that_failed() -> None:
    """Who imports it next gets the class itself."""
    libraries.defer(NAME)
    with pytest.raises(OSError, match="it does not work"):
        libraries.import_without(f"{NAME}.broken", f"{NAME}.large.Error")
    assert issubclass(import_module(f"{NAME}.large").Error, Exception)
