"""What became of a fault."""

from __future__ import annotations

from dataclasses import dataclass

SERVER, BINARY = "template server", "helm binary"


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one fault.

    Attributes:
        area: the part of allranks that the fault is in.
        name: the fault's name.
        helm: what rendered the charts, `SERVER` or `BINARY`; "" where the fault is in no template.
        caught_by: the first test that failed; "" where none did.
        seconds: how long the tests ran.
    """

    area: str
    name: str
    helm: str
    caught_by: str
    seconds: float
