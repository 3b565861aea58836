"""The runs of this machine that take newer code: their pods are processes and folders."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from allranks import atomic
from allranks.errors import NotFoundError, RunError
from allranks.local import runs as local_runs
from allranks.local.state import store
from allranks.model.status import PodPhase
from allranks.workspace.sync import (
    ARCHIVE,
    END,
    OFFER,
    SUFFIX,
    TRAINER,
    VOLUME,
    Offer,
    Published,
    check_takes_code,
    last_offer,
    overtaken,
    published_in,
)

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class LocalPod:
    """A pod of this machine."""

    name: str
    folder: Path

    def call(self, words: tuple[str, ...], data: bytes, seconds: float) -> bytes:
        """See `SyncPod`."""
        code = self.folder / "volumes/workspace-code"
        mounts = self.folder / "mounts" / TRAINER
        env = {
            "ALLRANKS_WORKSPACE_STATE": str(code),
            "ALLRANKS_WORKSPACE_FOLDER": str(code / "code"),
            "ALLRANKS_WORKSPACE_SYNC": str(mounts / VOLUME),
        }
        program = mounts / "entry/sync.py"
        if not program.exists():
            raise NotFoundError(f"pod {self.name} has ended")
        command = [sys.executable, "-I", "-S", "-B", "-X", "utf8", str(program), *words]
        try:
            result = subprocess.run(  # noqa: S603 - our own program, in the folder of the run
                command, input=data, capture_output=True, check=False, env=env, timeout=seconds
            )
        except subprocess.TimeoutExpired as error:
            raise RunError(f"pod {self.name} has not answered within {seconds:.0f} s") from error
        answer, _, rest = result.stdout.partition(END.encode())
        if not rest:
            if not self.folder.exists():
                raise NotFoundError(f"pod {self.name} has ended")
            lines = result.stderr.decode(errors="replace").strip().splitlines()
            raise RunError(f"pod {self.name} cannot take code: {(lines or ['no answer'])[-1]}")
        return answer


@dataclass(frozen=True, slots=True)
class LocalRun:
    """A run of this machine."""

    name: str
    namespace: str
    code: Published

    @classmethod
    def find(cls, name: str, namespace: str) -> LocalRun:
        """The run of a name.

        Raises:
            NotFoundError: there is none.
            InputError: it takes no newer code.
        """
        objects = local_runs.manifests(name, namespace)
        return cls(name, namespace, check_takes_code(name, objects))

    @property
    def _folder(self) -> store.RunFolder:
        return store.run_folder(self.name, self.namespace)

    def pods(self) -> dict[str, LocalPod]:
        """See `SyncTarget`."""
        status = local_runs.status(self.name, self.namespace)
        running = [pod.name for pod in status.pods if pod.phase == PodPhase.RUNNING]
        pods = {}
        for name in running:
            with suppress(FileNotFoundError):  # it has ended since
                for attempt in (self._folder.pods / name).iterdir():
                    pods[attempt.name] = LocalPod(name, attempt)
        return pods

    @property
    def _config_map(self) -> Path:
        return self._folder.config_maps / (self.name + SUFFIX)

    def published(self) -> Published:
        """See `SyncTarget`."""
        try:
            return published_in((self._config_map / OFFER).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return self.code

    def publish(self, offer: Offer) -> None:
        """See `SyncTarget`; the archive comes first, because a pod reads the offer first."""
        if self.published().generation != offer.generation - 1:
            raise overtaken()
        self._config_map.mkdir(parents=True, exist_ok=True)
        atomic.write(self._config_map / ARCHIVE, offer.archive.data)
        atomic.write(self._config_map / OFFER, offer.text())


def synced(name: str, namespace: str) -> Offer | None:
    """The offer that was synced last into a run; None where none was.

    Raises:
        RunError: what is kept of it is broken.
    """
    folder = store.run_folder(name, namespace).config_maps / (name + SUFFIX)
    try:
        offer, data = (folder / OFFER).read_text("utf-8"), (folder / ARCHIVE).read_bytes()
    except FileNotFoundError:
        return None
    return last_offer(name, offer, data)
