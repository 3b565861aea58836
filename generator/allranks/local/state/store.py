"""The user's folder of local runs: its records, their locks, and which are alive.

::

    <root>/lock                             held while a run is created or removed
    <root>/volumes/<namespace>/<claim>/     persistent volumes, which outlive runs
    <root>/workspaces/<digest>.json         the code of sweeps; see `allranks.sweep.workspace`
    <root>/runs/<namespace>/<name>/
        lock                                held by the supervisor as long as it lives
        run.json                            what was asked: manifests and options
        state.json                          the status, replaced as a whole at each change
        supervisor.log
        hosts, map, enter                   see `allranks.local.mpi`
        elastic/…                           see `allranks.local.elastic.shared_folder`
        logs/index, logs/…                  see `allranks.local.state.logs`
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
import stat
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from allranks import atomic, names, retry, trust
from allranks.errors import EXIT_FAILED, FULL, InputError, RunError, unwritable
from allranks.k8s.object_names import is_dns_1123_subdomain
from allranks.local.host.addresses import Block
from allranks.local.mpi import Arrangement
from allranks.model.status import Phase, PodPhase, RunStatus, count_roles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from allranks.k8s.manifest import Manifest
    from allranks.model.status import ContainerStatus, PodStatus


# The paths of a run are written into scripts and lists of paths, where these need no quotes.
ELASTIC = "elastic"  # the folder of an elastic job in that of its run
_PLAIN_PATH = re.compile(r"[A-Za-z0-9_./@+=-]+")
_OURS = frozenset({"lock", "runs", "sweeps", "volumes", "workspaces"})
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
    for exposure in trust.exposures(path):
        if exposure.is_theirs:
            raise InputError(
                f"the folder for local runs, {str(path)!r}, is not safe: {exposure.path} "
                f"{exposure.why}, who could put a run of theirs in place of yours",
                hint=f"set {names.ENV_STATE} to a folder of your own",
            )
    return path


def make_root() -> Path:
    """The folder of `root`, created for this user alone.

    Raises:
        InputError: as `root`.
        OSError: it cannot be made.
    """
    path = root()
    path.mkdir(0o700, parents=True, exist_ok=True)
    stat_result = path.stat()
    is_open = (
        stat_result.st_mode & (stat.S_IROTH | stat.S_IXOTH) and stat_result.st_uid == os.geteuid()
    )
    # As an earlier version has left it. A folder that is other things besides is let be.
    if is_open and {entry.name for entry in entries(path)} <= _OURS:
        path.chmod(0o700)
    return path


def _home() -> Path:
    """The folder for the state of the user's programs.

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
    """The options that a run was started with.

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
        own_ports: what stands for a port of a pod; see `allranks.local.host.addresses`.
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
        """The folder of the pods' logs."""
        return self.path / "logs"

    @property
    def events(self) -> Path:
        """The file of the run's Events; see `allranks.local.run_events`."""
        return self.path / "events.jsonl"

    @property
    def pods(self) -> Path:
        """The folder of the living pods' volumes."""
        return self.path / "pods"

    @property
    def claims(self) -> Path:
        """The folder of the claims of the run's namespace."""
        return self.path.parents[2] / "volumes" / self.path.parent.name

    @property
    def config_maps(self) -> Path:
        """The folder of ConfigMaps that were made after the run's start, a folder each."""
        return self.path / "configmaps"

    @property
    def is_elastic(self) -> bool:
        """Whether the run is an elastic job, whose pods come and go."""
        return (self.path / ELASTIC).is_dir()

    @property
    def supervisor_log(self) -> Path:
        """The supervisor's own log."""
        return self.path / "supervisor.log"

    def exists(self) -> bool:
        """Whether the run exists."""
        return (self.path / "state.json").is_file()

    def create(self, spec: Spec, status: RunStatus) -> None:
        """Create the folder, in place of that of an ended run.

        It is there as a whole or not at all, also where this process is killed within it.
        """
        partial = RunFolder(self.path.with_name(f".{self.path.name}{_PARTIAL}"))
        shutil.rmtree(partial.path, ignore_errors=True)
        partial.logs.mkdir(parents=True)
        partial.path.chmod(0o700)  # Secrets stand in the manifests
        atomic.write(partial.path / "run.json", json.dumps(spec.as_dict()), mode=0o600)
        partial.write_status(status)
        shutil.rmtree(self.path, ignore_errors=True)
        partial.path.rename(self.path)

    def spec(self) -> Spec:
        """The options that the run was started with.

        Raises:
            RunError: the record is broken.
            FileNotFoundError: the run was deleted meanwhile.
        """
        return self._read("run.json", Spec.from_dict)

    def write_status(self, status: RunStatus) -> None:
        """Write the status; readers see the old one or the new one."""
        atomic.write(self.path / "state.json", json.dumps(status.as_dict()), mode=0o600)

    def status(self) -> RunStatus:
        """The last written status.

        Raises:
            RunError: the record is broken.
            FileNotFoundError: the run was deleted meanwhile.
        """
        return self._read("state.json", RunStatus.from_dict)

    def status_written_at(self) -> float:
        """The time of the last written status, in seconds since the epoch.

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
        """Take the run's lock, which its supervisor holds.

        Only who holds `registry` and has found the run dead may ask: then nobody else holds it
        for longer than `alive` takes to look.
        """
        descriptor = _open_lock(self.path / "lock")
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        return descriptor

    def alive(self) -> bool:
        """Whether the run's supervisor lives."""
        return is_locked(self.path / "lock")

    def wait_dead(self, timeout: float | None) -> bool:
        """Wait for the supervisor's end.

        Args:
            timeout: how many seconds; None for as long as it takes.

        Returns:
            Whether it has ended.
        """
        return retry.poll(lambda: not self.alive(), timeout, _POLL)

    def remove(self) -> None:
        """Delete the folder, and the namespace's folder when it was the last."""
        shutil.rmtree(self.path, ignore_errors=True)
        with suppress(OSError):  # it has others, or is gone
            self.path.parent.rmdir()


def run_folder(name: str, namespace: str) -> RunFolder:
    """The folder of a run, whether it exists or not.

    Raises:
        InputError: the name or the namespace is none that Kubernetes would take.
    """
    for noun, text in (("name", name), ("namespace", namespace)):
        if not is_dns_1123_subdomain(text):
            raise InputError(
                f"{text!r} is not a {noun} that Kubernetes takes",
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
    """The names in a folder; () where it is none, or is being removed."""
    try:
        return sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []


@contextmanager
def registry() -> Iterator[None]:
    """Lock the list of runs while one is created or removed."""
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
        for partial in (path / "runs").glob(f"*/.*{_PARTIAL}"):
            shutil.rmtree(partial, ignore_errors=True)
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
    """Whether another process or handle holds a file's exclusive lock."""
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


def remove_tree(path: Path) -> None:
    """Delete a folder; of a link only the link."""
    if path.is_symlink():
        path.unlink()
    else:
        shutil.rmtree(path, ignore_errors=True)


def lost_status(last: RunStatus, message: str, at: float) -> RunStatus:
    """The status of a run whose supervisor died: nothing of it runs any more.

    Args:
        last: what the supervisor wrote last.
        message: what became of it.
        at: when that was, or when the supervisor was last heard of, in seconds since the epoch.
    """
    pods = tuple(_as_lost_pod(pod, at) for pod in last.pods)
    return replace(
        last,
        phase=Phase.FAILED,
        reason="SupervisorLost",
        message=message,
        waiting_for="",
        finished_at=at,
        exit_code=EXIT_FAILED,
        roles=count_roles(pods),
        pods=pods,
    )


def _as_lost_pod(pod: PodStatus, at: float) -> PodStatus:
    """A pod after its supervisor's death; one that was never created is unchanged."""
    if pod.finished_at is not None or not pod.containers:
        return pod
    return replace(
        pod,
        phase=PodPhase.FAILED,
        reason="Lost",
        message="",
        finished_at=at,
        containers=tuple(_as_lost_container(container) for container in pod.containers),
        ready=False,
    )


def _as_lost_container(container: ContainerStatus) -> ContainerStatus:
    if container.state == "terminated":
        return container
    return replace(container, state="terminated", reason="Lost")
