"""Errors of NCCL, gloo, the rendezvous and CUDA in a log, and what they mean in plain words."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_LINE_MAX = 160


@dataclass(frozen=True, slots=True)
class LogFinding:
    """An error that pods have written.

    Attributes:
        meaning: what it means, and what to do.
        line: the first line that has it.
        pods: whose logs have it, in order.
    """

    meaning: str
    line: str
    pods: tuple[str, ...]


_MEANINGS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), meaning)
    for pattern, meaning in (
        (
            r"duplicate gpu detected|multiple ranks are using the same gpu",
            (
                "two ranks use one GPU: have each take cuda:$LOCAL_RANK, and ask for as many "
                "GPUs as procsPerNode"
            ),
        ),
        (
            r"watchdog caught collective operation timeout|watchdog.{0,60}ran for \d+ milliseconds",
            (
                "a collective did not end within NCCL's timeout: a rank did not come to it, or the "
                "network between two nodes is broken"
            ),
        ),
        (
            r"received data size doesn't match expected size",
            "the ranks gave tensors of different sizes to one collective, or are in different ones",
        ),
        (
            (
                r"no space left on device.*?/dev/shm|/dev/shm.*?no space left"
                r"|unable to (?:mmap|write to file).{0,60}(?:torch_|/dev/shm|nccl)"
                r"|error while creating shared memory segment|dataloader worker.{0,40}bus error"
            ),
            "shared memory is full: set shm.size",
        ),
        (
            (
                r"nccl warn.{0,80}(?:call to connect|connect to).{0,80}(?:failed|refused|timed out)"
                r"|socketstartconnect|net/ib.{0,60}(?:error|timeout|got completion.{0,40}error)"
            ),
            (
                "NCCL cannot reach a peer: NCCL_SOCKET_IFNAME or NCCL_IB_HCA names the wrong "
                "interface, or a network policy stands between the pods"
            ),
        ),
        (
            r"xid .{0,40}(?:79|fallen off the bus)|gpu has fallen off the bus",
            "a GPU has fallen off the bus: its node needs a restart",
        ),
        (
            r"uncorrectable ecc|cudaerrorecc|ecc error",
            "a GPU has a memory error (ECC): leave its node out",
        ),
        (r"cuda (?:error: )?out of memory|cudaerrormemoryallocation", "a GPU's memory is full"),
        (
            r"cuda error: (?:an illegal memory access|device-side assert)",
            "a CUDA kernel failed on its rank: CUDA_LAUNCH_BLOCKING=1 shows which",
        ),
        (
            (
                r"remote process (?:has )?exited or there was a network error"
                r"|connection (?:closed|reset) by (?:remote )?peer"
            ),
            "a peer is gone, or the network to it",
        ),
        (
            r"rendezvous(?:timeout|connection|closed)error|rdzv.{0,60}timed? ?out",
            "the nodes did not all meet in time: `status` says which pods do not run",
        ),
        (
            r"address already in use|eaddrinuse",
            "a port is taken on the node: set torchrun.port, above all with hostNetwork",
        ),
        (
            r"too many open files",
            "a process has no descriptors left: close files, or raise the limit",
        ),
    )
)


def findings(logs: Iterable[tuple[str, Iterable[str]]]) -> tuple[LogFinding, ...]:
    """The known errors in logs, in the order of their first appearance.

    Args:
        logs: the pods, each with its lines.
    """
    lines: dict[str, str] = {}
    pods: dict[str, dict[str, None]] = {}
    for pod, text in logs:
        for line in text:
            for pattern, meaning in _MEANINGS:
                if pattern.search(line):
                    lines.setdefault(meaning, " ".join(line.split())[:_LINE_MAX])
                    pods.setdefault(meaning, {})[pod] = None
                    break
    return tuple(LogFinding(meaning, lines[meaning], tuple(pods[meaning])) for meaning in lines)
