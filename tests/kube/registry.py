"""A registry of images on this machine, for what is pushed to one and pulled by the node.

It keeps everything in memory and ends with the test. It speaks plain http: clients of this machine
name it by its loopback address, and the node is told where that is, as seen from there.
"""

from __future__ import annotations

import contextlib
import re
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.kube import binaries
from tests.kube.errors import BenchError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.kube.runs import Run


@dataclass(frozen=True, slots=True)
class Registry:
    """A registry that runs.

    Attributes:
        port: where it listens, on all addresses of this machine.
    """

    port: int

    @property
    def host(self) -> str:
        """Its name in references."""
        return f"127.0.0.1:{self.port}"

    def let_in(self, run: Run) -> None:
        """Tell a node's containerd, whose own loopback address is another, where it is."""
        folder = run.folder / "node" / "certs.d" / self.host
        folder.mkdir(parents=True, exist_ok=True)
        there = f"http://{run.node_ip}:{self.port}"
        text = f'server = "{there}"\n[host."{there}"]\n  capabilities = ["pull", "resolve"]\n'
        (folder / "hosts.toml").write_text(text, encoding="utf-8")

    def crane(self, *words: str) -> str:
        """What crane, another client than ours, prints."""
        command = [str(binaries.find("crane")), *words]
        process = subprocess.run(command, capture_output=True, text=True, check=False)
        if process.returncode:
            raise BenchError(f"crane {words[0]}: {process.stderr}")
        return process.stdout


@contextlib.contextmanager
def running() -> Iterator[Registry]:
    """Run a registry until the end of the ``with`` block.

    Raises:
        BenchError: it is not built and cannot be, or it does not start.
    """
    command = [str(binaries.find("crane")), "registry", "serve", "--address", ":0"]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    ) as process:
        try:
            assert process.stderr is not None
            lines = []
            for line in process.stderr:
                lines.append(line)
                if match := re.search(r"serving on port (\d+)", line):
                    yield Registry(int(match[1]))
                    break
            else:
                raise BenchError(f"the registry does not start: {''.join(lines)}")
        finally:
            process.kill()
