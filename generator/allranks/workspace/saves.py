"""Ask the pods of a run to save a checkpoint, all at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from allranks.errors import AllranksError, NotFoundError, RunError

if TYPE_CHECKING:
    from collections.abc import Sequence

END = "allranks-save-done"  # the last line of charts/library/files/save.sh
_AT_ONCE = 64
_NUMBERS = 2
_UNWRITTEN = "unwritten "  # before a file that could not be written


class SavingPod(Protocol):
    """A pod whose ranks can be asked."""

    @property
    def name(self) -> str:
        """Its name."""

    def ask_to_save(self, request: int, seconds: float) -> bytes:
        """Run save.sh in it; return what that says before its last line.

        Raises:
            NotFoundError: it has ended.
            AllranksError: it cannot be asked.
        """


@dataclass(frozen=True, slots=True)
class SaveAnswer:
    """The answer of a pod.

    Attributes:
        pod: its name.
        ranks: how many of its ranks were asked.
        signalled: how many of them by the signal, too.
        problem: why it could not be asked; "" where it was.
    """

    pod: str
    ranks: int = 0
    signalled: int = 0
    problem: str = ""


def ask_all(pods: Sequence[SavingPod], request: int, *, seconds: float) -> list[SaveAnswer]:
    """Ask every pod; one that has ended meanwhile counts as one without ranks.

    Args:
        pods: the pods.
        request: the number of the request, larger than that of any before.
        seconds: how long each may take.
    """

    def ask(pod: SavingPod) -> SaveAnswer:
        try:
            return _read(pod.name, pod.ask_to_save(request, seconds))
        except NotFoundError:
            return SaveAnswer(pod.name)
        except AllranksError as error:
            return SaveAnswer(pod.name, problem=error.problem.message)

    with ThreadPoolExecutor(_AT_ONCE) as threads:
        return list(threads.map(ask, pods))


def _read(pod: str, answer: bytes) -> SaveAnswer:
    text = answer.decode("utf-8", "replace")
    numbers = text.split()[-_NUMBERS:]
    if len(numbers) != _NUMBERS or not all(number.isdecimal() for number in numbers):
        raise RunError(f"pod {pod} gave no answer that can be read")
    lines = text.splitlines()
    files = [line.removeprefix(_UNWRITTEN) for line in lines if line.startswith(_UNWRITTEN)]
    problem = f"{files[0]}, which its ranks look at, cannot be written" if files else ""
    return SaveAnswer(pod, int(numbers[0]), int(numbers[1]), problem)
