"""Distribute this machine's GPUs among pods.

Where the machine has as many as the run asks for, they are dealt out in the order of the pods, and
a pod that asks for none sees none, as in a cluster. Where it has fewer, no pod sees any: all ranks
then train on the CPU together, rather than some of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from allranks.local.plan.model import PodPlan, gpu_request

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

VARIABLE = "CUDA_VISIBLE_DEVICES"
_DRIVER = Path("/proc/driver/nvidia/gpus")


def present(inherited: Mapping[str, str], driver: Path = _DRIVER) -> tuple[str, ...]:
    """The GPUs that the user may use, by their ``CUDA_VISIBLE_DEVICES`` names.

    Args:
        inherited: the caller's environment, which may itself be limited to some.
        driver: where the driver lists its GPUs.
    """
    count = len(list(driver.iterdir())) if driver.is_dir() else 0
    if not count:
        return ()
    if VARIABLE in inherited:
        return tuple(part.strip() for part in inherited[VARIABLE].split(",") if part.strip())
    return tuple(str(index) for index in range(count))


def share(pods: Sequence[PodPlan], gpus: Sequence[str]) -> tuple[dict[str, str], str]:
    """The GPUs of each pod.

    Args:
        pods: the pods of the run, in order.
        gpus: the GPUs of the machine.

    Returns:
        The value of ``CUDA_VISIBLE_DEVICES`` by pod (empty where there is no GPU to hide), and a
        note for people, "" when there is nothing to say.
    """
    total = sum(gpu_request(pod) for pod in pods)
    if not gpus:
        return {}, "no GPU on this machine: training on the CPU" if total else ""
    if total > len(gpus):
        note = f"the run asks for {total} GPUs and this machine has {len(gpus)}"
        return {pod.name: "" for pod in pods}, f"{note}: training on the CPU"
    visible, position = {}, 0
    for pod in pods:
        count = gpu_request(pod)
        visible[pod.name] = ",".join(gpus[position : position + count])
        position += count
    return visible, ""


def rest(pod: PodPlan, gpus: Sequence[str], allocated: Iterable[str]) -> str | None:
    """The GPUs of one more pod, in a run whose pods come and go.

    Args:
        pod: the pod.
        gpus: the GPUs of the machine.
        allocated: what the pods see that live.

    Returns:
        The value of ``CUDA_VISIBLE_DEVICES``; none of them where there are not as many left; None
        where there is no GPU to hide.
    """
    if not gpus:
        return None
    occupied = {gpu for text in allocated for gpu in text.split(",")}
    free = [gpu for gpu in gpus if gpu not in occupied]
    requested = gpu_request(pod)
    return ",".join(free[:requested]) if requested <= len(free) else ""
