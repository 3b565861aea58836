"""The real operator as processes that start in no time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.kube.processes import Identity
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.kube.cluster import Cluster

_ZYGOTE = Path(__file__).with_name("zygote.py")
_GRACE = 20.0
PATIENCE = 90.0


class Zygote:
    """Starts operators; see `tests/cluster/zygote.py`."""

    def __init__(self, kubeconfig: Path) -> None:
        """Start it; the operators are users of this kubeconfig."""
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, _ZYGOTE],
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(kubeconfig.parent),
                "KUBECONFIG": str(kubeconfig),
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def start(self, words: list[str], log: Path) -> Identity:
        """Start an operator."""
        log.touch()
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        with self._lock:
            process.stdin.write(json.dumps({"words": words, "log": str(log)}) + "\n")
            process.stdin.flush()
            number = process.stdout.readline()
        if not number:
            pytest.fail("the operator cannot be started", pytrace=False)
        identity = Identity.of(int(number))
        assert identity is not None, log.read_text(encoding="utf-8")
        return identity

    def close(self) -> None:
        """End it, and every operator with it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


@dataclass(slots=True)
class OperatorProcess:
    """One process of the operator.

    Attributes:
        process: the process.
        log_file: where its lines go.
    """

    process: Identity
    log_file: Path

    def kill(self) -> None:
        """End it as a lost node would."""
        self.process.end()

    def stop(self) -> None:
        """Ask it to end, as Kubernetes does."""
        self.process.end(_GRACE)

    def lines(self) -> list[dict[str, Any]]:
        """What it has logged."""
        text = self.log_file.read_text(encoding="utf-8", errors="replace")
        return [json.loads(line) for line in text.splitlines() if line.startswith("{")]

    def log_lines(self, event: str) -> list[dict[str, Any]]:
        """Its lines about one event."""
        return [line for line in self.lines() if line["event"] == event]

    @property
    def port(self) -> int:
        """Where it answers probes."""
        lines = until(lambda: self.log_lines("started"), "the operator's start")
        return int(lines[-1]["port"])

    def acts(self) -> OperatorProcess:
        """Wait until it acts."""
        until(lambda: self.log_lines("acting"), f"the first action of {self.log_file}", PATIENCE)
        return self

    def sound(self) -> None:
        """Fail the test where a fault of the operator's own is in its log."""
        text = self.log_file.read_text(encoding="utf-8", errors="replace")
        assert "Traceback" not in text
        assert [] == self.log_lines("a look failed")


@contextmanager
def zygote(cluster: Cluster) -> Iterator[Zygote]:
    """What starts operators of a cluster, while the block runs."""
    new_zygote = Zygote(cluster.kubeconfig)
    try:
        yield new_zygote
    finally:
        new_zygote.close()
