"""Ask the pods of a run what their ranks do, all at once."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from allranks.cluster.logs import MOST
from allranks.errors import AllranksError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from allranks.cluster.interface import KubeClient

CONTAINER = "trainer"
END = "allranks-why-done"  # the last line of a pod's answer
_FILES = "/etc/allranks"
PROGRAM = "why.py"
STARTING_SECONDS = 15.0  # for a pod to start a Python, on a busy node
OLDER = "its charts are older than this command, or runPolicy.diagnose is off"
LINES = 200  # of a log that are read
_PER_SECOND = 16  # pods that can be asked, where each takes as long as it may look at its ranks
# In a container the image's own Python runs it, whatever it is called there.
_SHELL = (
    f"test -e {_FILES}/{PROGRAM} || {{ echo {OLDER} >&2; exit 1; }}; "
    "for python in python3 python; do command -v $python >/dev/null && "
    f'exec $python -I -S -B -X utf8 {_FILES}/{PROGRAM} "$@"; done; '
    "echo no python3 and no python is on PATH >&2; exit 127"
)


class PodSource(Protocol):
    """A source of pods' answers: a cluster, or this machine."""

    def ask(self, pod: str, seconds: float) -> bytes:
        """The answer of a pod about its ranks, as JSON.

        Raises:
            NotFoundError: the pod is gone.
            AllranksError: it cannot be asked, or does not answer in time.
        """

    def log(self, pod: str) -> Iterator[str]:
        """The last lines of a pod's log.

        Raises:
            AllranksError: they cannot be read.
        """


@dataclass(frozen=True, slots=True)
class ClusterPods:
    """The pods of a run on a cluster, asked through the API server."""

    cluster: KubeClient
    namespace: str

    def ask(self, pod: str, seconds: float) -> bytes:
        """See `PodSource`."""
        return self.cluster.ask(
            pod,
            ("/bin/sh", "-c", _SHELL, "why", f"{seconds:g}"),
            b"",
            namespace=self.namespace,
            container=CONTAINER,
            end=END.encode(),
            seconds=seconds + STARTING_SECONDS,
        )

    def log(self, pod: str) -> Iterator[str]:
        """See `PodSource`."""
        return iter(
            self.cluster.logs(pod, namespace=self.namespace, container=CONTAINER, tail=LINES)
        )


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers of pods, and those that gave none.

    Attributes:
        texts: the JSON of each pod that answered.
        silent: why each of the others did not.
        logs: the last lines of logs that were read.
        skipped_pods: the pods that were not asked, because the time was over.
    """

    texts: Mapping[str, bytes]
    silent: Mapping[str, str]
    logs: Mapping[str, tuple[str, ...]]
    skipped_pods: frozenset[str] = frozenset()


def spread(pods: Sequence[str]) -> list[str]:
    """Order pods so that however few of them are asked are from all over the run.

    The first stays the first: it is rank 0's, or the launcher's.
    """
    numbered = sorted(
        enumerate(pods), key=lambda pod: -(pod[0] & -pod[0]) if pod[0] else -len(pods)
    )
    return [pod for _, pod in numbered]


def ask(
    source: PodSource, pods: Sequence[str], *, seconds: float, limit: float, logs: Iterable[str]
) -> Answers:
    """Ask pods, and read logs, at once.

    Args:
        source: where they are.
        pods: the pods, in the order in which they are asked.
        seconds: how long each may look at its ranks.
        limit: after how many seconds no further pod is asked; nor are more pods asked than that
            time is enough for, where they refuse at once.
        logs: the pods whose logs are read as well.
    """
    deadline = time.monotonic() + limit
    texts: dict[str, bytes] = {}
    silent: dict[str, str] = {}
    most = max(MOST, int(_PER_SECOND * limit))
    skipped_pods = set(pods[most:])

    def question(pod: str) -> None:
        if time.monotonic() > deadline:
            skipped_pods.add(pod)
            return
        try:
            texts[pod] = source.ask(pod, seconds)
        except NotFoundError:
            silent[pod] = "it has ended"
        except AllranksError as error:
            silent[pod] = error.problem.message

    def lines(pod: str) -> tuple[str, tuple[str, ...]]:
        try:
            return pod, tuple(source.log(pod))
        except AllranksError:
            return pod, ()  # the stacks say more than a log that is not there

    with ThreadPoolExecutor(MOST) as threads:
        log_lines = threads.map(lines, logs)
        list(threads.map(question, pods[:most]))
        return Answers(
            texts, dict(sorted(silent.items())), dict(log_lines), frozenset(skipped_pods)
        )
