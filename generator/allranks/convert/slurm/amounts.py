"""Slurm's forms of times, amounts of memory, numbers of nodes, GPUs, arrays and signals.

Each of these functions gives None for what is none of its form, and never fails.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

MOST_TASKS = 100_000  # of an array, as many as a sweep may have

_TIME = re.compile(r"(?:([0-9]+)-)?([0-9]+)(?::([0-9]+))?(?::([0-9]+))?", re.ASCII)
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([kKmMgGtT]?)(?:[iI]?[bB])?", re.ASCII)
# Numbers that are none of GPUs, and no type either.
_OTHER_NUMBER = re.compile(r"[+-].*|0x[0-9a-f]+|[0-9]+\.[0-9]+", re.ASCII | re.IGNORECASE)
_NODES = re.compile(r"([0-9]+)([kKmM]?)(?:-([0-9]+)([kKmM]?))?(?::[0-9]+)?", re.ASCII)
_ARRAY_PART = re.compile(r"([0-9]+)(?:-([0-9]+)(?::([0-9]+))?)?", re.ASCII)
_SIGNAL = re.compile(r"(?:([RB]+):)?([A-Za-z0-9]+)(?:@([0-9]{1,9}))?", re.ASCII)
_MEBIBYTES = {"k": 1 / 1024, "": 1, "m": 1, "g": 1024, "t": 1024 * 1024}
_LONGEST = 2_147_483_647
_MOST_BEFORE_END = 65_535  # seconds. Source: sbatch(1), --signal


def seconds_of_timeout(text: str) -> int:
    """The seconds of ``timeout 4h``; 0 for one that has options, or is known in the pod alone."""
    match = re.fullmatch(r"(?:\S*/)?timeout ([0-9]{1,7}(?:\.[0-9]+)?)([smhd]?)", text, re.ASCII)
    units = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
    return round(float(match[1]) * units[match[2]]) if match is not None else 0


def seconds(text: str) -> int | None:
    """A time limit in seconds, of whole minutes as Slurm rounds it up; 0 for none at all.

    ``90`` (minutes), ``90:30`` (minutes and seconds), ``1:30:00``, ``2-12`` (days and hours),
    ``2-12:30``, ``2-12:30:00``; UNLIMITED and INFINITE.
    """
    text = text.strip()
    if text.upper() in ("UNLIMITED", "INFINITE", "-1"):
        return 0
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    days, *rest = match.groups()
    parts = [int(part) for part in rest if part is not None]
    if days is not None:
        hours, minutes, secs = [*parts, 0, 0][:3]
        total = ((int(days) * 24 + hours) * 60 + minutes) * 60 + secs
    elif len(parts) == 1:
        total = parts[0] * 60
    elif len(parts) == 2:  # noqa: PLR2004 - minutes and seconds
        total = parts[0] * 60 + parts[1]
    else:
        total = (parts[0] * 60 + parts[1]) * 60 + parts[2]
    return min(-(-total // 60) * 60, _LONGEST // 60 * 60)


def mebibytes(text: str) -> float | None:
    """An amount of memory in MiB, which is Slurm's unit where none is named."""
    match = _SIZE.fullmatch(text.strip())
    return None if match is None else float(match[1]) * _MEBIBYTES[match[2].lower()]


def memory(amount: float) -> str:
    """MiB as Kubernetes writes them: whole Gi where it is that."""
    amount = max(1, round(amount))
    return f"{amount // 1024}Gi" if amount % 1024 == 0 else f"{amount}Mi"


def number(text: str) -> int | None:
    """A whole number of something, from 0; ``2k`` is 2048 in Slurm, too."""
    text = text.strip()
    match = re.fullmatch(r"([0-9]{1,9})([kK]?)", text, re.ASCII)
    return None if match is None else int(match[1]) * (1024 if match[2] else 1)


def nodes(text: str) -> tuple[int, int] | None:
    """The fewest and the most nodes: ``4``, ``2-4``, ``4,8`` (one of these)."""
    least, most = _LONGEST, 0
    for part in text.strip().split(","):
        match = _NODES.fullmatch(part.strip())
        if match is None or len(match[0]) > 30:  # noqa: PLR2004 - longer than any number of nodes
            return None
        factor = {"": 1, "k": 1024, "m": 1024 * 1024}
        low = int(match[1]) * factor[match[2].lower()]
        high = int(match[3]) * factor[match[4].lower()] if match[3] else low
        least, most = min(least, low), max(most, high)
    return (least, most) if least <= most else None


@dataclass(frozen=True, slots=True)
class Gpus:
    """GPUs that are asked for.

    Attributes:
        count: how many.
        types: their types, "" where none is named.
        others: what else the text asks for, as written.
    """

    count: int
    types: tuple[str, ...]
    others: tuple[str, ...] = ()


def gpus(text: str) -> Gpus | None:
    """The GPUs of ``--gpus`` and its like: ``4``, ``a100:4``, ``a100:2,v100:2``, ``a100``."""
    count, types = 0, list[str]()
    for part in text.strip().split(","):
        pieces = [piece.strip() for piece in re.split("[:=]", part)]
        if pieces[:1] in (["gpu"], ["gres/gpu"]):
            pieces = pieces[1:] or ["1"]
        amount = number(pieces[-1])
        kind = pieces[0] if len(pieces) > 1 or amount is None else ""
        # Slurm refuses a name that ends with its colon: `gpu:`.
        if not all(pieces) or len(pieces) > 2 or (len(pieces) == 2 and amount is None):  # noqa: PLR2004
            return None
        if kind and (_OTHER_NUMBER.fullmatch(kind) or not re.fullmatch(r"[\w.+-]+", kind)):
            return None
        count += 1 if amount is None else amount
        types.append(kind.lower())
    return Gpus(count, tuple(dict.fromkeys(types)))


def gres(text: str) -> Gpus | None:
    """The GPUs of ``--gres``, with what else it asks for: ``gpu:a100:4,nvme:1``; ``none``."""
    count, types, others = 0, list[str](), list[str]()
    for part in re.split(r",(?![^(]*\))", text.strip()):
        name, sign, rest = part.strip().removeprefix("gres/").removeprefix("gres:").partition(":")
        if "=" in name and not rest:
            name, sign, rest = name.partition("=")
        if name.lower() in ("gpu", "gpus"):
            parsed = gpus(re.sub(r"\(.*?\)", "", rest) if sign else "1")
            if parsed is None:
                return None
            count += parsed.count
            types += parsed.types
        elif name and name.lower() != "none":
            others.append(part.strip())
    return Gpus(count, tuple(dict.fromkeys(types)), tuple(others))


@dataclass(frozen=True, slots=True)
class Array:
    """The tasks of a job array.

    Attributes:
        indexes: their numbers, in order.
        step: between them, where they are one range; 0 where they are not.
        parallel: how many run at the same time; 0 for all.
    """

    indexes: tuple[int, ...]
    step: int
    parallel: int


def array(text: str) -> Array | None:
    """The tasks of ``--array``: ``0-15``, ``0,6,16-32``, ``0-15:4``, ``0-15%4``."""
    tasks, percent, limit = text.strip().strip("[]").partition("%")
    parallel = number(limit) if percent else 0
    if parallel is None:
        return None
    indexes: list[int] = []
    parts = tasks.split(",")
    step = 0
    for part in parts:
        match = _ARRAY_PART.fullmatch(part.strip())
        if match is None or len(match[0]) > 30:  # noqa: PLR2004 - longer than any index
            return None
        first, last = int(match[1]), int(match[2] or match[1])
        step = int(match[3] or 1)
        if step < 1 or last < first or (last - first) // step >= MOST_TASKS:
            return None
        indexes += range(first, last + 1, step)
    if len(indexes) > MOST_TASKS:
        return None
    unique = tuple(dict.fromkeys(indexes))
    return Array(unique, step if len(parts) == 1 and len(unique) > 1 else 0, parallel)


@dataclass(frozen=True, slots=True)
class Signal:
    """What ``--signal`` asks for.

    Attributes:
        name: the signal, without SIG: ``USR1``.
        seconds: how long before the end of the time limit.
        to_script: whether the script alone gets it.
    """

    name: str
    seconds: int
    to_script: bool


def no_time(text: str) -> str:
    """Why a text is no time of ``--time``."""
    return f"{text!r} is no time such as 90, 12:00:00 or 2-12"


def no_signal(text: str) -> str:
    """Why a text is no signal of ``--signal``."""
    if _SIGNAL.fullmatch(text.strip()):
        return (
            f"{text!r} is more than the {_MOST_BEFORE_END} seconds before the end that Slurm takes"
        )
    return f"{text!r} is no signal such as USR1@120"


def signal(text: str) -> Signal | None:
    """The signal of ``--signal``: ``USR1`` (a minute before the end), ``B:USR1@120``."""
    match = _SIGNAL.fullmatch(text.strip())
    if match is None or int(match[3] or 0) > _MOST_BEFORE_END:
        return None
    name = match[2].upper().removeprefix("SIG")
    numbers = {
        "1": "HUP",
        "2": "INT",
        "10": "USR1",
        "12": "USR2",
        "15": "TERM",
        "3": "QUIT",
        "9": "KILL",
    }
    return Signal(numbers.get(name, name), int(match[3] or 60), "B" in (match[1] or ""))
