"""How each of our programs starts: its own streams first, then its module, and Ctrl-C is quiet.

Nothing is imported here that a bare Python has not loaded already, because the programs' modules
take most of their start: a Ctrl-C meanwhile ends the process with 130 and without a traceback, from
the import of this module on. Only what is a program imports it.

Before this module is there, Python itself starts, for some hundredths of a second: its own handler
answers a Ctrl-C then, with a traceback of `KeyboardInterrupt`. Nothing has been done by then. Of
Ctrl-Cs spread evenly over the first 0.15 s of `allranks --version` (300 of each, two busy cores)
109 met it where pip 23 had written the script, which imports `re` first, 38 with the script of
pip 26 and uv, and 37 with one of our own that begins with the handler: what is left is Python
itself. Such a script, whose first line pip writes, would not start in a folder with a blank either.

Only whoever starts Python could keep the rest back: a `.pth` file, which all programs of that
Python would run; a shell that ignores the Ctrl-C, and loses it; or GNU's `env --block-signal=INT`
(none of 300), which other systems do not have, and which needs a second program on PATH for each.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found] # `signal` without its enums
import os

_FAILED, _INTERRUPTED = 1, 130
_OBJECTS_BETWEEN_LOOKS = 200_000
_IS_DEFAULT = _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler
if _IS_DEFAULT:  # and not ignored, as behind a shell's "&"
    # No exception: an import may catch one, and go on.
    _signal.signal(_signal.SIGINT, lambda *_: os._exit(_INTERRUPTED))

import gc  # noqa: E402 - whatever may wait for a file comes after the handler
import sys  # noqa: E402

from allranks import streams  # noqa: E402

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn


def program(module: str) -> Callable[[], int]:
    """A program, ready to run: its module is loaded, and its streams stand.

    Args:
        module: has the function `main`, which gives the exit code.
    """
    _be_utf8()
    streams.give()
    __import__(module)
    main: Callable[[], int] = sys.modules[module].main

    def run() -> int:
        try:
            if _IS_DEFAULT:
                _signal.signal(_signal.SIGINT, _signal.default_int_handler)
            try:
                return main()
            finally:
                sys.stdout.flush()
        except KeyboardInterrupt:
            return _INTERRUPTED
        except streams.NoReaderError:
            return _FAILED
        except streams.OutputError as error:
            sys.stderr.write(f"error: the output could not be written: {error.strerror}\n")
            return _FAILED
        finally:
            if _IS_DEFAULT:  # the interpreter's own end says nothing either
                _signal.signal(_signal.SIGINT, _signal.SIG_DFL)

    return run


def _be_utf8() -> None:
    """Start anew in Python's UTF-8 mode, in a locale of another encoding.

    Values, manifests and pods are UTF-8 wherever they are read; Python would take words of the
    command line, variables and what is printed for the locale's, and fail. Helm and kubectl do not
    look at it either.
    """
    encoding = sys.getfilesystemencoding().lower()
    if encoding != "utf-8" and not sys.flags.utf8_mode and sys.executable:
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])  # noqa: S606 - no shell


def cli() -> int:
    """`allranks`, and `kubectl allranks`."""
    # What a command reads of a large run has no cycles; looking for some each 700 objects takes a
    # twentieth of its time.
    gc.set_threshold(_OBJECTS_BETWEEN_LOOKS)
    try:
        return program("allranks.cli.main")()
    finally:
        gc.freeze()  # Python looks once more as it ends


def kubectl_torchrun() -> int:
    """`kubectl torchrun`."""
    return program("allranks.cli.kubectl_torchrun")()


def postrender() -> NoReturn:
    """`allranks-postrender`."""
    end(program("allranks.postrender.__main__"))


def end(main: Callable[[], int]) -> NoReturn:
    """Run a program that somebody waits for, and end with its exit code.

    All is written by then: freeing each module in turn, as Python does at its end, would take a
    sixth of the post-renderer's whole time.

    Args:
        main: gives the exit code.
    """
    # What it makes has no cycles, and it ends soon: looking for some takes a twentieth of its time.
    gc.disable()
    code = main()
    sys.stderr.flush()
    os._exit(code)


def sweep() -> int:
    """`allranks-sweep`, which is `helm sweep`."""
    return program("allranks.cli.commands.sweep.helm_plugin")()
