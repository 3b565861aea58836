"""Errors of NCCL, gloo, the rendezvous and CUDA in a log, and what they mean in plain words."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from allranks import names

if TYPE_CHECKING:
    from collections.abc import Iterable

_LINE_MAX = 160


class Since(StrEnum):
    """What follows an error in a log; the further the run went on, the less the error matters.

    An attempt that has ended, or a step, is told by other lines than a start, and may still belong
    to the attempt of the error: only a run that makes steps proves that the error is over.
    """

    NOTHING = ""
    ENDED = "ended"  # torch has ended the ranks, or the training has said how far it is
    STARTED = "started"  # the launcher or torch has started the ranks again


_ORDER = {since: number for number, since in enumerate(Since)}


@dataclass(frozen=True, slots=True)
class LogFinding:
    """An error that pods have written.

    Attributes:
        meaning: what it means, and what to do.
        line: the first line that has it.
        pods: whose logs have it, in order.
        since: what came after it, in each of these logs at least.
        ends_attempt: whether no rank makes a step in the attempt that has it.
    """

    meaning: str
    line: str
    pods: tuple[str, ...]
    since: Since = Since.NOTHING
    ends_attempt: bool = False

    @property
    def is_earlier(self) -> bool:
        """Whether it is of an attempt before the present one."""
        return self.since is Since.STARTED


_NOT_ENDED = (
    "a collective did not end within its timeout: a rank did not come to it, or the "
    "network between two nodes is broken"
)
_NOT_REACHED = (
    "a rank cannot reach a peer: NCCL_SOCKET_IFNAME, GLOO_SOCKET_IFNAME or NCCL_IB_HCA "
    "names the wrong interface, or a network policy stands between the pods"
)
_PEER_GONE = "a peer is gone, or the network to it"
_STORE_GONE = (
    "the rendezvous is gone, or the network to it: `status` says whether rank 0's pod runs"
)
_NOT_JOINED = "not all nodes joined in time: `status` says which pods do not run"
# A run that makes steps has all of its ranks: these are of an attempt before.
_END_AN_ATTEMPT = frozenset({_NOT_ENDED, _NOT_REACHED, _PEER_GONE, _STORE_GONE, _NOT_JOINED})

# What torch's agent writes as it ends: of an orderly end too, where rank 0's pod was the first.
_NO_CAUSE = re.compile(r"has failed to shutdown the rendezvous", re.IGNORECASE)
_STARTED = re.compile(
    rf"^{re.escape(names.LAUNCHER_LINE)}(?:this is restart \d+ of \d+ in place|"
    r"rank 0 at .* joining again|a place is free: this pod trains now|"
    r"taking workspace .*, generation \d+|generation \d+: rank \d+ of \d+)"
    r"|\] (?:Starting worker group|Rendezvous'ing worker group|starting workers for entrypoint)"
)
_ENDED = re.compile(r"Sending process \d+ closing signal|\bfailed \(exitcode: -?\d+\) local_rank")
_FOR_PROGRAMS = re.compile(rf"{re.escape(names.LAUNCHER_LINE)}(?:\w+ )?[\[{{]")
_STALLED = re.compile(r'"standstill": "[^"]')

# The words are those of NCCL 2.30, PyTorch 2.15, gloo, the CUDA runtime and the kernel, and of
# earlier releases where they were others. The first that fits a line is taken.
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
            r"cuda error: invalid device ordinal|cuda failure .{0,8}'invalid device ordinal'",
            "a rank asks for a GPU that its pod does not have: procsPerNode is more than its GPUs",
        ),
        (
            (
                r"watchdog caught collective operation timeout"
                r"|watchdog.{0,60}ran for \d+ milliseconds"
                r"|some nccl operations have failed or timed out"
                r"|timed out in monitoredbarrier|timed out waiting \d+ms for (?:send|recv)"
            ),
            _NOT_ENDED,
        ),
        (
            r"watchdog got stuck for",
            (
                "a call of CUDA or NCCL does not return on its rank: look at that node's GPU, or "
                "raise TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC where such a wait is intended"
            ),
        ),
        (
            r"received data size doesn't match expected size|message truncated : receiv",
            "the ranks gave tensors of different sizes to one collective, or are in different ones",
        ),
        (
            (
                r"no space left on device.*?/dev/shm|/dev/shm.*?no space left"
                r"|unable to (?:mmap|write to file).{0,60}(?:torch_|/dev/shm|nccl)"
                r"|error while \w+ shared memory segment|dataloader worker.{0,40}bus error"
                r"|workers are out of shared memory"
            ),
            "shared memory is full: set shm.size",
        ),
        (
            (
                r"oom-kill:|out of memory: killed process|dataloader worker.{0,40}killed by signal"
                r"|signal 9 \(sigkill\) received by pid"
            ),
            (
                "a process was killed, most likely by the kernel for lack of memory: give the pods "
                "more (resources.perPod), or load less at once"
            ),
        ),
        (
            r"no socket interface found|unable to find (?:interface|address) for",
            (
                "the pod has no interface of the name in NCCL_SOCKET_IFNAME or GLOO_SOCKET_IFNAME"
                ": leave it out, or name one that `ip link` shows in the pod"
            ),
        ),
        (
            (
                r"net/ib.{0,80}(?:got completion .{0,60}(?:error|status)|async fatal event|timeout)"
                r"|call to ibv_\w+ failed|net/ib.{0,60}error"
            ),
            (
                "InfiniBand or RoCE has failed on a node: a port is down, a peer does not answer "
                "(status 12), or NCCL_IB_HCA or NCCL_IB_GID_INDEX names one that does not work"
            ),
        ),
        (
            (
                r"nccl warn.{0,80}(?:call to connect|connect to).{0,80}(?:failed|refused|timed out)"
                r"|socketstartconnect|pollconnect to .{0,60}failed|gloo connectfullmesh failed"
                r"|connection attempt timed out after"
            ),
            _NOT_REACHED,
        ),
        (
            r"nccl version mismatch with remote peer",
            "the pods have different versions of NCCL: give all of them one image",
        ),
        (
            r"xid .{0,40}(?:79|fallen off the bus)|gpu has fallen off the bus",
            "a GPU has fallen off the bus: its node needs a restart",
        ),
        (
            r"uncorrectable ecc|cudaerrorecc|ecc error",
            "a GPU has a memory error (ECC): leave its node out",
        ),
        (
            r"configuration error in the fabric manager|cuda error: system not yet initialized",
            "the fabric manager of a node does not run, or is of another version than its driver",
        ),
        (
            (
                r"cuda (?:error: )?out of memory|cudaerrormemoryallocation"
                r"|cuda failure .{0,8}'out of memory'"
            ),
            "a GPU's memory is full",
        ),
        (
            r"cuda error: (?:an illegal memory access|device-side assert)",
            "a CUDA kernel failed on its rank: CUDA_LAUNCH_BLOCKING=1 shows which",
        ),
        (
            r"no kernel image is available for execution",
            "the image's torch is not built for this type of GPU",
        ),
        (
            r"cuda driver version is insufficient",
            "the node's driver is older than the image's CUDA asks for",
        ),
        (
            r"no cuda-capable device is detected|found no nvidia driver on your system",
            "the pod has no GPU: ask for some (gpusPerNode)",
        ),
        (
            (
                r"remote process (?:has )?exited or there was a network error|ncclremoteerror"
                r"|connection (?:closed|reset) by (?:remote )?peer"
            ),
            _PEER_GONE,
        ),
        (
            r"ncclsystemerror|unhandled system error",
            "a system call of NCCL failed: with env NCCL_DEBUG=WARN its log names it",
        ),
        (
            r"ncclunhandledcudaerror|unhandled cuda error|ncclinternalerror",
            "CUDA failed within NCCL: with env NCCL_DEBUG=WARN its log names the call",
        ),
        (
            r"rendezvousconnectionerror|connection to the c10d store has failed",
            _STORE_GONE,
        ),
        (
            (
                r"rendezvoustimeouterror|rdzv.{0,60}timed? ?out"
                r"|seconds waiting for clients\. \d+/\d+ clients joined"
                r"|client socket has timed out after"
                r"|tcp client failed to connect.{0,80} - timed out"
                r"|wait timeout after \d+ms, keys:"
            ),
            _NOT_JOINED,
        ),
        (
            r"rendezvousclosederror",
            "a node came to join when the run had ended on the others already",
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
    merged: dict[str, LogFinding] = {}
    for pod, text in logs:
        for finding in _in_a_log(pod, text):
            before = merged.get(finding.meaning)
            if before is None:
                merged[finding.meaning] = finding
                continue
            newer, older = finding, before
            if _ORDER[before.since] <= _ORDER[finding.since]:
                newer, older = before, finding
            pods = before.pods + finding.pods
            if newer.is_earlier != older.is_earlier:
                pods = newer.pods  # what the other logs have is of an attempt before
            merged[finding.meaning] = replace(newer, pods=pods)
    return tuple(merged.values())


def of_now(logs: Iterable[LogFinding]) -> tuple[LogFinding, ...]:
    """The errors that matter to a run that makes steps; what it has outlived is left out."""
    return tuple(entry for entry in logs if not entry.since and not entry.ends_attempt)


def _in_a_log(pod: str, text: Iterable[str]) -> Iterable[LogFinding]:
    """The errors in the log of a pod: of each the first line of the newest attempt that has it."""
    own: dict[str, LogFinding] = {}
    for line in text:
        since = _tells(line)
        if since:
            for meaning, finding in own.items():
                if _ORDER[finding.since] < _ORDER[since]:
                    own[meaning] = replace(finding, since=since)
            continue
        meaning = _meaning(line)
        if meaning and (meaning not in own or own[meaning].since):
            first = " ".join(line.split())[:_LINE_MAX]
            ends = meaning in _END_AN_ATTEMPT
            own[meaning] = LogFinding(meaning, first, (pod,), ends_attempt=ends)
    return own.values()


def _tells(line: str) -> Since:
    if _STARTED.search(line):
        return Since.STARTED
    goes_on = line.startswith(names.PROGRESS_LINE) and not _STALLED.search(line)
    return Since.ENDED if goes_on or _ENDED.search(line) else Since.NOTHING


def _meaning(line: str) -> str:
    if _NO_CAUSE.search(line):
        return ""
    return next((meaning for pattern, meaning in _MEANINGS if pattern.search(line)), "")


def last_words(logs: Iterable[tuple[str, Iterable[str]]]) -> dict[str, str]:
    """The last message of each pod's launcher, by pod; {} where there is none.

    Lines for programs (progress, a preflight: a word and JSON) are no sentences, and what stands
    before a preflight is of a wait that is over.

    Args:
        logs: the pods, each with its lines.
    """
    words: dict[str, str] = {}
    for pod, text in logs:
        for line in text:
            if line.startswith(names.PREFLIGHT_LINE):
                words.pop(pod, None)
            if line.startswith(names.LAUNCHER_LINE) and not _FOR_PROGRAMS.match(line):
                words[pod] = " ".join(line.split()[1:])[:_LINE_MAX]
    return words
