"""The stacks of a process, as faulthandler and py-spy write them."""

from __future__ import annotations

import re
from dataclasses import dataclass

_THREAD = re.compile(r"(?:Current thread|Thread) (?:0x(?P<hex>[0-9a-f]+)|(?P<number>\d+))\b")
_FRAME = re.compile(r'  File "(?P<file>.*)", line (?P<line>\d+) in (?P<function>.*)')
_SPY_FRAME = re.compile(r"\s+(?P<function>\S.*) \((?P<file>.*):(?P<line>\d+)\)")
# Not of the program: Python's own modules and what was installed.
_FOREIGN = re.compile(r"<frozen |/site-packages/|/dist-packages/|/lib(?:64)?/python3?[.\d]*/")
_DISTRIBUTED = re.compile(r"/torch/distributed/")
_OWN = "sitecustomize.py"


@dataclass(frozen=True, slots=True)
class Frame:
    """A call.

    Attributes:
        file: the path of its source.
        line: the line in it.
        function: the function.
    """

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        """The call as a sentence has it."""
        return f"{self.file.rpartition('/')[2]}:{self.line} in {self.function}"


@dataclass(frozen=True, slots=True)
class Thread:
    """A thread of a process.

    Attributes:
        ident: its id in Python, or the system's where py-spy has seen it.
        frames: its calls, the innermost first.
    """

    ident: int
    frames: tuple[Frame, ...]

    @property
    def own(self) -> Frame | None:
        """The innermost call of the program's own; None for none."""
        return next((frame for frame in self.frames if not _FOREIGN.search(frame.file)), None)

    @property
    def is_in_collective(self) -> bool:
        """Whether it is in a call of torch.distributed."""
        return any(_DISTRIBUTED.search(frame.file) for frame in self.frames[:4])

    def __str__(self) -> str:
        """Where it is: the innermost call, and the program's own where that is another."""
        if not self.frames:
            return "no Python frame"
        inner, own = self.frames[0], self.own
        return str(inner) if own in {None, inner} else f"{inner}, from {own}"


def parse(text: str) -> tuple[Thread, ...]:
    """The threads of a dump, without the one that waits to be asked for it.

    Args:
        text: what faulthandler or py-spy wrote; lines of neither are left out.
    """
    threads: list[tuple[int, list[Frame]]] = []
    for line in text.splitlines():
        head = _THREAD.match(line)
        if head is not None:
            threads.append((int(head["hex"], 16) if head["hex"] else int(head["number"]), []))
            continue
        match = _FRAME.fullmatch(line) or _SPY_FRAME.fullmatch(line)
        if match is not None and threads:
            frame = Frame(match["file"], int(match["line"]), match["function"])
            threads[-1][1].append(frame)
    return tuple(
        Thread(ident, tuple(frames))
        for ident, frames in threads
        if not (frames and frames[0].file.endswith(_OWN) and frames[0].function == "answer")
    )
