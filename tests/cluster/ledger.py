"""Every pod of a namespace that there ever was."""

from __future__ import annotations

import subprocess
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from tests.kube import binaries

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .watching import Lab


class Ledger:
    """The pods that there were, as a watch of the test's own tells."""

    def __init__(self) -> None:
        """Nothing is seen yet."""
        self.uids: dict[str, set[str]] = {}

    @property
    def count(self) -> int:
        """How many pods there were."""
        return sum(len(uids) for uids in self.uids.values())

    @property
    def twice(self) -> list[str]:
        """Names that more than one pod had."""
        return sorted(name for name, uids in self.uids.items() if len(uids) > 1)


@contextmanager
def note(lab: Lab) -> Iterator[Ledger]:
    """Note every pod while the block runs."""
    ledger = Ledger()
    format_ = "{.metadata.name} {.metadata.uid}{'\\n'}"
    process = subprocess.Popen(
        (
            binaries.find("kubectl"),
            "--kubeconfig",
            lab.cluster.kubeconfig,
            "--namespace",
            lab.namespace,
            *("get", "pods", "--watch", "-o", f"jsonpath={format_}"),
        ),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            name, _, uid = line.strip().partition(" ")
            if uid:
                ledger.uids.setdefault(name, set()).add(uid)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield ledger
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        process.wait()
        reader.join()
