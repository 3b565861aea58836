"""A cluster as a test holds it: `with start(name="mine", kwok=True) as cluster: ...`."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tests.kube import binaries, runs
from tests.kube.api import Answer, Api
from tests.kube.audit import Audit
from tests.kube.control_plane import GUEST, kubeconfig_of
from tests.kube.errors import BenchError
from tests.kube.runs import FAILED, READY, Options, Record, Run

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_START_SECONDS = 180.0
_STOP_SECONDS = 60.0
_POLL = 0.01


@dataclass(frozen=True, slots=True)
class Cluster:
    """A running cluster.

    Attributes:
        run: its folder, its ports, what it was asked to be.
        admin: its API, as a user who may do everything.
        audit: the requests it has answered.
    """

    run: Run
    admin: Api
    audit: Audit = field(repr=False)

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig; its only context is named after the run."""
        return self.run.kubeconfig

    @property
    def guest_kubeconfig(self) -> Path:
        """The kubeconfig of the user `guest`, who has no rights but those a test gives it."""
        return kubeconfig_of(self.run, GUEST)

    @property
    def data(self) -> Path:
        """The run's folder, with `logs/` in it."""
        return self.run.folder

    def kubectl(self, *args: str | Path, stdin: str = "", namespace: str = "") -> str:
        """What kubectl prints.

        Args:
            args: the command line.
            stdin: what it reads.
            namespace: where it works; "" is `default`.

        Raises:
            BenchError: kubectl failed; with its own words.
        """
        where = ("--namespace", namespace) if namespace else ()
        process = subprocess.run(
            (binaries.find("kubectl"), *where, *map(str, args)),
            input=stdin,
            env={
                "PATH": os.environ.get("PATH", os.defpath),
                "HOME": str(self.data),
                "KUBECONFIG": str(self.kubeconfig),
            },
            capture_output=True,
            text=True,
            check=False,
        )
        if process.returncode:
            message = process.stderr.strip() or process.stdout.strip()
            raise BenchError(f"kubectl {' '.join(map(str, args))} failed:\n{message}")
        return process.stdout

    def api(
        self, method: str, path: str, body: Mapping[str, Any] | str | None = None
    ) -> dict[str, Any]:
        """Ask the API server, as the administrator; see `Api.request`."""
        return self.admin.request(method, path, body).body

    def answer(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Answer:
        """Ask the API server, as the administrator; the answer with its warnings."""
        return self.admin.request(method, path, body)

    def items(self, path: str) -> list[dict[str, Any]]:
        """The objects of a list."""
        items: list[dict[str, Any]] = self.api("GET", path)["items"]
        return items

    def requests(self, *, user: str = "", agent: str = "", namespace: str = "") -> int:
        """How many requests the API server has answered since its start, but for leases.

        Args:
            user: only this user's: `admin` is whoever uses this kubeconfig, the components have
                names of their own (`kube-controller-manager`, `kube-scheduler`, `kwok`).
            agent: only those of a program whose user agent begins so.
            namespace: only those about this namespace or something in it.
        """
        return self.audit.count(user=user, agent=agent, namespace=namespace)


@contextlib.contextmanager
def start(
    *, name: str, kwok: bool = False, node: bool = False, controller_qps: int | None = None
) -> Iterator[Cluster]:
    """A cluster of one's own; it ends with the block, and with the process, however that ends.

    Args:
        name: part of the run's name; two of the same name do not meet.
        kwok: with KWOK, for fake nodes.
        node: with one real node.
        controller_qps: requests per second that kube-controller-manager may make; None is its own
            default of 20.

    Raises:
        BenchError: it does not start; with the reason.
    """
    options = Options(kwok=kwok, node=node, controller_qps=controller_qps or 0)
    run = Run(f"{name}-{secrets.token_hex(3)}", options)
    binaries.build_all()
    runs.sweep()
    run.folder.mkdir(mode=0o700)
    hold = _hold(run)
    guardian = _spawn(run)
    try:
        yield _ready(run, guardian)
    finally:
        os.close(hold)
        _end(guardian)


@contextlib.contextmanager
def share(
    key: str, *, kwok: bool = False, node: bool = False, controller_qps: int | None = None
) -> Iterator[Cluster]:
    """One cluster for all processes that ask with the same key; it ends with the last of them.

    Args:
        key: the run's name, such as a word and the id of one test run.
        kwok: with KWOK, for fake nodes; as all options, decided by who comes first.
        node: with one real node.
        controller_qps: requests per second that kube-controller-manager may make.

    Raises:
        BenchError: it does not start; with the reason.
    """
    options = Options(kwok=kwok, node=node, controller_qps=controller_qps or 0)
    run = Run(key, options)
    binaries.build_all()
    guardian = None
    with runs.locked():
        runs.sweep()
        if run.ending.exists():
            _until_gone(run)
        if not run.folder.exists():
            run.folder.mkdir(mode=0o700)
            hold = _hold(run)
            guardian = _spawn(run)
            # It may outlive this block: its end is waited for beside what else goes on.
            threading.Thread(target=guardian.wait, daemon=True).start()
        else:
            hold = _hold(run)
    try:
        yield _ready(run, guardian)
    finally:
        os.close(hold)


def start_detached(name: str, options: Options) -> Cluster:
    """A cluster that stays until `stop`; for a person at a terminal.

    Args:
        name: the run's whole name.
        options: what it is to be.

    Raises:
        BenchError: it runs already, or does not start.
    """
    run = Run(name, replace(options, held=False))
    binaries.build_all()
    with runs.locked():
        runs.sweep()
        if run.folder.exists():
            raise BenchError(
                f"the cluster {name} is there already", f"python -m tests.kube down --name {name}"
            )
        run.folder.mkdir(mode=0o700)
    guardian = _spawn(run)
    try:
        return _ready(run, guardian)
    except BaseException:
        guardian.terminate()
        _end(guardian)
        raise


def stop(record: Record) -> None:
    """End a run that was started by `start_detached`, or by a process that should be gone."""
    record.guardian.end(grace=_STOP_SECONDS)
    runs.sweep()


def _hold(run: Run) -> int:
    """Hold a run: it lives as long as this file is open, in whatever process."""
    if not run.hold.exists():
        os.mkfifo(run.hold, 0o600)
    return os.open(run.hold, os.O_RDWR | os.O_CLOEXEC)


def _spawn(run: Run) -> subprocess.Popen[bytes]:
    (run.folder / "logs").mkdir()
    options = json.dumps(asdict(run.options))
    with (run.folder / "logs/guardian.log").open("wb") as log:
        return subprocess.Popen(
            (sys.executable, "-m", "tests.kube.guardian", run.name, options),
            cwd=binaries.REPO,
            env={**os.environ, "ALLRANKS_KUBE_RUNS": str(runs.home())},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _ready(run: Run, guardian: subprocess.Popen[bytes] | None) -> Cluster:
    """Wait until a run is there."""
    deadline = time.monotonic() + _START_SECONDS
    while True:
        record = runs.read(run.name)
        if record is not None and record.state == READY:
            break
        if record is not None and record.state == FAILED:
            raise BenchError(f"the cluster {run.name} did not start: {record.message}")
        if guardian is not None and guardian.poll() is not None:
            log = run.folder / "logs/guardian.log"
            message = log.read_text(encoding="utf-8") if log.exists() else ""
            raise BenchError(f"the guardian of {run.name} ended:\n{message}")
        if time.monotonic() > deadline:
            raise BenchError(f"the cluster {run.name} did not start in {_START_SECONDS:g} s")
        time.sleep(_POLL)
    return _cluster(record.run)


def _cluster(run: Run) -> Cluster:
    config = json.loads(run.kubeconfig.read_text(encoding="utf-8"))
    token = config["users"][0]["user"]["token"]
    api = Api(run.port("api"), token, run.folder / "certs/apiserver.crt")
    return Cluster(run, api, Audit(run.audit_log, api))


def _end(guardian: subprocess.Popen[bytes]) -> None:
    """Wait for the end of a run that nobody holds any more."""
    try:
        guardian.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        guardian.kill()  # and the kernel kills its children
        guardian.wait()
        runs.sweep()


def _until_gone(run: Run) -> None:
    deadline = time.monotonic() + _STOP_SECONDS
    while run.folder.exists():
        if time.monotonic() > deadline:
            raise BenchError(f"the last cluster {run.name} does not end")
        time.sleep(_POLL)
