"""Amounts of CPU, memory and GPUs, of one pod or of a whole job.

Masters write these as quantities in plans and users in jobs, and both write zero for "not set".
Numbers are whole: millicores, bytes, devices; a memory size never passes through a float.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any

from allranks.errors import InputError
from allranks.humanize import shorten
from allranks.k8s import quantity

if TYPE_CHECKING:
    from collections.abc import Mapping

CPU, MEMORY, GPU = "cpu", "memory", "gpu"
# Beyond this a number is a slip of the keyboard, and JSON's readers round it.
_MOST = 2**53


@dataclass(frozen=True, slots=True)
class ResourceAmounts:
    """An amount of each resource; None where it is not set, never 0.

    Attributes:
        cpu_millis: thousandths of a core.
        memory_bytes: bytes.
        gpus: devices.
        gpu_key: the resource the devices are asked by (``nvidia.com/gpu``); "" where only their
            number was given.
    """

    cpu_millis: int | None = None
    memory_bytes: int | None = None
    gpus: int | None = None
    gpu_key: str = ""

    def __bool__(self) -> bool:
        """Whether anything is set."""
        return not (self.cpu_millis is None and self.memory_bytes is None and self.gpus is None)

    def over(self, under: ResourceAmounts | None) -> ResourceAmounts:
        """Return these amounts, completed by those of another where they are not set."""
        if under is None:
            return self
        return ResourceAmounts(
            cpu_millis=under.cpu_millis if self.cpu_millis is None else self.cpu_millis,
            memory_bytes=under.memory_bytes if self.memory_bytes is None else self.memory_bytes,
            gpus=under.gpus if self.gpus is None else self.gpus,
            gpu_key=self.gpu_key or under.gpu_key,
        )

    def as_dict(self) -> dict[str, str]:
        """Return quantities as a pod's requests and a plan's `resource` write them."""
        amounts: dict[str, str] = {}
        if self.cpu_millis is not None:
            amounts[CPU] = quantity.format_cpu(self.cpu_millis)
        if self.memory_bytes is not None:
            amounts[MEMORY] = quantity.format_bytes(self.memory_bytes)
        if self.gpus is not None:
            amounts[self.gpu_key or GPU] = str(self.gpus)
        return amounts


def read(data: Any, where: str, problems: list[str]) -> ResourceAmounts | None:
    """Read quantities.

    Args:
        data: a mapping of resource names to quantities; ``gpu`` and any name with a slash count
            devices, and other names are not ours to read.
        where: what the mapping is, for `problems`.
        problems: gets a sentence for each invalid quantity.

    Returns:
        The amounts that are set; None where there are none.
    """
    if not isinstance(data, dict):
        if data is not None:
            problems.append(f"{where} is {shorten(data)}, not a map of resources")
        return None
    cpu = _units(data, CPU, where, problems)
    memory = _units(data, MEMORY, where, problems)
    gpus, gpu_key = _gpus(data, where, problems)
    return ResourceAmounts(cpu, memory, gpus, gpu_key) or None


def _gpus(data: Mapping[Any, Any], where: str, problems: list[str]) -> tuple[int | None, str]:
    """Return the first GPU resource with an amount; a master may write zeros for others."""
    for key in sorted(key for key in data if isinstance(key, str) and (key == GPU or "/" in key)):
        count = _units(data, key, where, problems)
        if count is not None:
            return count, "" if key == GPU else key
    return None, ""


def _units(data: Mapping[Any, Any], key: str, where: str, problems: list[str]) -> int | None:
    value = data.get(key)
    if value is None or value == "":
        return None
    try:
        exact = quantity.parse(value)
    except InputError:
        problems.append(f"{where}.{key} is {shorten(value)}, not a quantity such as 500m or 16Gi")
        return None
    units = ceil(exact * 1000) if key == CPU else ceil(exact)
    if units < 0:
        problems.append(f"{where}.{key} is {shorten(value)}; it cannot be less than 0")
        return None
    if units > _MOST:
        problems.append(f"{where}.{key} is {shorten(value)}, which no node has")
        return None
    return units or None
