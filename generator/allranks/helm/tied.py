"""A helm that ends when we do.

Whoever installs releases for hours may be killed at any moment. A helm that went on alone would
make a release after the next one has looked which there are, and nobody would ever remove it. So
the kernel is asked to kill it with us; a signal of the terminal's, which is meant for us, does not
reach it.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_PR_SET_PDEATHSIG = 1
_PRCTL = ctypes.CDLL(None, use_errno=True).prctl if sys.platform == "linux" else None


def environment(env: Mapping[str, str]) -> dict[str, str]:
    """The environment of such a helm.

    It lives for a fraction of a second, of which its garbage collector would take a third, and has
    some 60 MiB at its end. So nothing is collected before there is more than that, and little; a
    person's own setting stays.
    """
    return {"GOGC": "off", "GOMEMLIMIT": "192MiB", **env}


def options() -> dict[str, Any]:
    """What to start a child with, for `subprocess` and `asyncio` alike.

    The child ends with the thread that starts it, so that thread has to wait for it.
    """
    return {"start_new_session": True, "preexec_fn": _bound(os.getpid())}


def _bound(parent: int) -> Callable[[], None]:
    def bind() -> None:  # pragma: no cover - runs in the child, before helm
        if _PRCTL is None:
            return
        _PRCTL(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it was killed in between
            os._exit(1)

    return bind
