"""The faults: what is changed in which file, which tests have to catch it, and why it matters."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from allranks.yamlio.load import load

FAULTS = Path(__file__).with_name("faults.yaml")


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault that a person could have made.

    Attributes:
        area: the part of allranks that it is in.
        name: its name, which no other fault has.
        file: the file, from the repository's root.
        old: what stands there, once.
        new: what the fault makes of it.
        tests: the paths that pytest is given, from the repository's root.
        breaks: what a user would notice.
    """

    area: str
    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    breaks: str

    @property
    def is_template(self) -> bool:
        """Whether Helm is what reads the file."""
        return self.file.startswith("charts/")


def read(path: Path = FAULTS) -> tuple[Fault, ...]:
    """The faults of a file, in its order.

    Args:
        path: maps of faults, by area and name.

    Raises:
        InvalidValues: a name stands there twice.
    """
    areas = load(path.read_bytes(), str(path)).data
    return tuple(
        Fault(
            area=area,
            name=name,
            file=fault["file"],
            old=fault["old"],
            new=fault["new"],
            tests=tuple(fault["tests"]),
            breaks=fault["breaks"],
        )
        for area, faults in areas.items()
        for name, fault in faults.items()
    )
