"""Finding processes by what they were started with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psutil
import pytest

from allranks.local.host import process_tree

if TYPE_CHECKING:
    from collections.abc import Sequence

PARENT, KERNEL = 4711, 2


class Process(psutil.Process):
    """A process whose environment is given, look by look; an error is raised."""

    def __init__(
        self,
        looks: Sequence[dict[str, str] | Exception],
        parent: int = PARENT,
        state: str = psutil.STATUS_RUNNING,
    ) -> None:
        super().__init__()
        self.looks = list(looks)
        self.given_parent = parent
        self.state = state

    def environ(self) -> dict[str, str]:
        """The next look."""
        answer = self.looks.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def ppid(self) -> int:
        """As given."""
        return self.given_parent

    def status(self) -> str:
        """As given."""
        return self.state


MARKED = {"MARK": "mine"}


@pytest.mark.parametrize(
    ("looks", "expected"),
    [
        ([MARKED], "mine"),
        ([{"OTHER": "x"}], None),
        # It becomes another program: for an instant it has no environment.
        ([{}, MARKED], "mine"),
        ([{}, {}, {}], None),
        ([{}, psutil.NoSuchProcess(1)], None),
        ([OSError(5, "of /proc")], None),
    ],
)
def test_a_mark_is_found(
    monkeypatch: pytest.MonkeyPatch,
    looks: Sequence[dict[str, str] | Exception],
    expected: str | None,
) -> None:
    """However a process looks when it is looked at first, and whatever becomes of it."""
    process = Process(looks)
    monkeypatch.setattr(psutil, "process_iter", lambda: [process])
    assert {expected} - {None} == process_tree.living("MARK", ["mine", "another"])
    assert [] == process.looks


@pytest.mark.parametrize(
    ("parent", "state"), [(KERNEL, psutil.STATUS_SLEEPING), (PARENT, psutil.STATUS_ZOMBIE)]
)
def test_what_never_has_an_environment_is_looked_at_once(
    monkeypatch: pytest.MonkeyPatch, parent: int, state: str
) -> None:
    """Threads of the kernel and what has ended; there may be hundreds."""
    process = Process([{}, MARKED], parent, state)
    monkeypatch.setattr(psutil, "process_iter", lambda: [process])
    assert [] == process_tree.find_marked("MARK", ["mine"])
    assert [MARKED] == process.looks
