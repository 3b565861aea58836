"""The user's folder of local runs: what is there, which of it is alive, and locks around it.

::

    <root>/lock                             held while a run is created or removed
    <root>/volumes/<namespace>/<claim>/     persistent volumes, which outlive runs
    <root>/runs/<namespace>/<name>/
        lock                                held by the supervisor as long as it lives
        run.json                            what was asked: manifests and options
        state.json                          the status, replaced as a whole at each change
        supervisor.log
        hosts, map, enter                   see `allranks.local.mpi`
        elastic/…                           see `allranks.local.elastic.board`
        logs/index, logs/…                  see `allranks.local.logfiles`
        pods/<pod>/<uid>/                   volumes of a pod that lives

A run is alive exactly as long as its lock is held. The kernel drops it with the last process that
has it, whatever killed them, so nothing has to be guessed from process ids.

``<root>`` is ``$ALLRANKS_STATE``, else ``$XDG_STATE_HOME/allranks``, else
``~/.local/state/allranks``.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from allranks import names, trust
from allranks.errors import FULL, InputError, RunError, unwritable
from allranks.local.addresses import Block
from allranks.local.mpi import Arrangement
from allranks.model.status import RunStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from allranks.model.manifest import Manifest

# The paths of a run are written into scripts and lists of paths, where these need no quotes.
_PLAIN_PATH = re.compile(r"[A-Za-z0-9_./@+=-]+")
_DNS_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?")
_POLL = 0.02
_PARTIAL = ".new"  # ends the hidden name of a folder that is being made

T = TypeVar("T")


def root() -> Path:
    """The folder that holds all runs of this user.

    Raises:
        InputError: its path has characters that a shell would need quotes for, is a file, or is a
            folder that another user owns or can write to.
    """
    path = Path(os.environ.get(names.ENV_STATE) or _home() / names.CLI).absolute()
    if not _PLAIN_PATH.fullmatch(str(path)):
        raise InputError(
            f"the folder for local runs, {str(path)!r}, has characters that scripts would break on",
            hint=f"set {names.ENV_STATE} to a path of letters, digits and ._/@+=-",
        )
    if path.exists() and not path.is_dir():
        raise InputError(
            f"the place of local runs, {str(path)!r}, is not a folder",
            hint=f"set {names.ENV_STATE} to a folder",
        )
    if path.exists() and not trust.is_own_folder(path):
        raise InputError(
            f"the folder for local runs, {str(path)!r}, is another user's, or any user may write "
            "to it: they could put a run of theirs in place of yours",
            hint=f"set {names.ENV_STATE} to a folder of your own, or `chmod go-w {path}`",
        )
    return path


def make_root() -> Path:
    """The folder of `root`, made for this user alone where it is not there.

    Raises:
        InputError: as `root`.
        OSError: it cannot be made.
    """
    path = root()
    path.mkdir(0o700, parents=True, exist_ok=True)
    return path


def _home() -> Path:
    """The folder for the state of a person's programs.

    Raises:
        InputError: nothing says where their files are.
    """
    state = os.environ.get("XDG_STATE_HOME")
    if state:
        return Path(state)
    try:
        return Path.home() / ".local" / "state"
    except RuntimeError as error:
        raise InputError(
            "there is no home folder for what local runs leave: HOME is not set, and the system "
            "knows none for this user",
            hint=f"set HOME, or set {names.ENV_STATE} to a folder",
        ) from error


@dataclass(frozen=True, slots=True)
class Spec:
    """What a run was asked for.

    Attributes:
        name: the release.
        namespace: its namespace.
        manifests: its manifests.
        workdir: where containers start that name no folder.
        block: its addresses.
        ports: the ports that it listens on, on whatever address.
        backoff_scale: see `allranks.local.backoff`.
        grace: the longest time that one of its pods may take to end, in seconds.
        ttl: after how many seconds its record may be forgotten; None for never.
        notes: what a person should know about it.
        arrangement: how its pods see each other; see `allranks.local.mpi`.
        own_ports: what stands for a port of a pod; see `allranks.local.addresses`.
        labels: on its record, as on helm's of a release: whose it is, if it is somebody's.
        withheld: variables of the caller's that its containers do not inherit.
    """

    name: str
    namespace: str
    manifests: list[Manifest]
    workdir: str
    block: Block
    ports: tuple[int, ...]
    backoff_scale: float
    grace: float
    ttl: float | None
    notes: tuple[str, ...]
    arrangement: Arrangement = field(default_factory=Arrangement)
    own_ports: Mapping[tuple[str, int], int] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    withheld: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "name": self.name,
            "namespace": self.namespace,
            "manifests": self.manifests,
            "workdir": self.workdir,
            "block": [self.block.first, self.block.count],
            "ports": list(self.ports),
            "backoffScale": self.backoff_scale,
            "grace": self.grace,
            "ttl": self.ttl,
            "notes": list(self.notes),
            "arrangement": self.arrangement.as_dict(),
            "ownPorts": [[pod, port, own] for (pod, port), own in self.own_ports.items()],
            "labels": dict(self.labels),
            "withheld": list(self.withheld),
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Spec:
        """Read `as_dict` back."""
        return cls(
            name=data["name"],
            namespace=data["namespace"],
            manifests=data["manifests"],
            workdir=data["workdir"],
            block=Block(*data["block"]),
            ports=tuple(data["ports"]),
            backoff_scale=data["backoffScale"],
            grace=data["grace"],
            ttl=data["ttl"],
            notes=tuple(data["notes"]),
            arrangement=Arrangement.from_dict(data.get("arrangement") or {}),
            own_ports={(pod, port): own for pod, port, own in data.get("ownPorts") or ()},
            labels=data.get("labels") or {},
            withheld=tuple(data.get("withheld") or ()),
        )


# Where a run on this machine is that names no namespace.
NAMESPACE = "default"


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The folder of one run."""

    path: Path

    @property
    def logs(self) -> Path:
        """Where the pods' logs are."""
        return self.path / "logs"

    @property
    def events(self) -> Path:
        """What happened in it; see `allranks.local.happenings`."""
        return self.path / "events.jsonl"

    @property
    def pods(self) -> Path:
        """Where the living pods' volumes are."""
        return self.path / "pods"

    @property
    def claims(self) -> Path:
        """Where the claims of the run's namespace are."""
        return self.path.parents[2] / "volumes" / self.path.parent.name

    @property
    def supervisor_log(self) -> Path:
        """What the supervisor itself has to say."""
        return self.path / "supervisor.log"

    def exists(self) -> bool:
        """Whether there is such a run."""
        return (self.path / "state.json").is_file()

    def create(self, spec: Spec, status: RunStatus) -> None:
        """Make the folder, in place of one that an ended run has left.

        It is there as a whole or not at all, also where this process is killed within it.
        """
        made = RunFolder(self.path.with_name(f".{self.path.name}{_PARTIAL}"))
        shutil.rmtree(made.path, ignore_errors=True)
        made.logs.mkdir(parents=True)
        made.path.chmod(0o700)  # Secrets stand in the manifests
        _replace(made.path / "run.json", spec.as_dict())
        made.write_status(status)
        shutil.rmtree(self.path, ignore_errors=True)
        made.path.rename(self.path)

    def spec(self) -> Spec:
        """What was asked for.

        Raises:
            RunError: the record is broken.
            FileNotFoundError: the run was deleted meanwhile.
        """
        return self._read("run.json", Spec.from_dict)

    def write_status(self, status: RunStatus) -> None:
        """Record the status; a reader sees the old one or the new one."""
        _replace(self.path / "state.json", status.as_dict())

    def status(self) -> RunStatus:
        """The status as last recorded.

        Raises:
            RunError: the record is broken.
            FileNotFoundError: the run was deleted meanwhile.
        """
        return self._read("state.json", RunStatus.from_dict)

    def told_at(self) -> float:
        """When the status was last recorded, in seconds since the epoch.

        Raises:
            FileNotFoundError: the run was deleted meanwhile.
        """
        return (self.path / "state.json").stat().st_mtime

    def _read(self, name: str, parse: Callable[[dict[str, Any]], T]) -> T:
        text = (self.path / name).read_text()
        try:
            return parse(json.loads(text))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise RunError(
                f"the record of the local run {self.path.name!r} is broken: {self.path / name}",
                hint=f"`{names.CLI} delete {self.path.name} --on local` removes it",
            ) from error

    def lock(self) -> int:
        """Take the lock of the run, for the supervisor to hold.

        Only who holds `registry` and has found the run dead may ask: then nobody else holds it
        for longer than `alive` takes to look.
        """
        descriptor = _open_lock(self.path / "lock")
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        return descriptor

    def alive(self) -> bool:
        """Whether its supervisor lives."""
        return is_locked(self.path / "lock")

    def wait_dead(self, timeout: float | None) -> bool:
        """Wait for the supervisor's end.

        Args:
            timeout: how many seconds; None for as long as it takes.

        Returns:
            Whether it has ended.
        """
        give_up = None if timeout is None else time.monotonic() + timeout
        while self.alive():
            if give_up is not None and time.monotonic() >= give_up:
                return False
            time.sleep(_POLL)
        return True

    def remove(self) -> None:
        """Delete the folder, and the namespace's folder when it was the last."""
        shutil.rmtree(self.path, ignore_errors=True)
        with suppress(OSError):  # it has others, or is gone
            self.path.parent.rmdir()


def run_folder(name: str, namespace: str) -> RunFolder:
    """The folder of a run, whether there is such a run or not.

    Raises:
        InputError: the name or the namespace is none that Kubernetes would take.
    """
    for what, text in (("name", name), ("namespace", namespace)):
        if not _DNS_NAME.fullmatch(text):
            raise InputError(
                f"{text!r} is not a {what} that Kubernetes takes",
                hint="use lower-case letters, digits and '-'",
            )
    return RunFolder(root() / "runs" / namespace / name)


def run_folders() -> Iterator[RunFolder]:
    """The folders of all runs, by namespace and name."""
    for namespace in entries(root() / "runs"):
        for path in entries(namespace):
            folder = RunFolder(path)
            if not path.name.startswith(".") and folder.exists():
                yield folder


def entries(folder: Path) -> list[Path]:
    """What is in a folder, by name; nothing where it is none, or is removed just now."""
    try:
        return sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []


@contextmanager
def registry() -> Iterator[None]:
    """Held while runs are created or removed, so that two commands do not meet."""
    path = root()
    try:
        make_root()
        descriptor = _open_lock(path / "lock")
    except OSError as error:
        raise InputError(
            f"cannot use the folder for local runs, {path}: {error.strerror}",
            hint=unwritable(
                error.errno, str(path), f"set {names.ENV_STATE} to a folder that you may write to"
            ),
        ) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        # Nobody else makes a folder now: who was making these was killed.
        for one in (path / "runs").glob(f"*/.*{_PARTIAL}"):
            shutil.rmtree(one, ignore_errors=True)
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise RunError(
            f"cannot write to the folder for local runs, {path}: {error.strerror}",
            hint=unwritable(error.errno, str(path), f"set {names.ENV_STATE} to another folder"),
        ) from error
    finally:
        os.close(descriptor)


def is_locked(path: Path) -> bool:
    """Whether another process, or another handle of this one, holds a file's lock for itself."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except FileNotFoundError:
        return False
    try:
        # Shared, so that two who look at the same time do not take each other for the holder.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _open_lock(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)


def _replace(path: Path, data: object) -> None:
    partial = path.with_name(f".{path.name}.new")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(partial, flags, 0o600), "w", encoding="utf-8") as stream:
        json.dump(data, stream)
    partial.replace(path)


def remove_tree(path: Path) -> None:
    """Delete a folder; a link to one is only unlinked, what it points to is the user's."""
    if path.is_symlink():
        path.unlink()
    else:
        shutil.rmtree(path, ignore_errors=True)
