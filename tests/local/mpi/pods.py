"""Pods made of namespaces: what the MPI scripts meet in a cluster, on one machine.

Each pod has its own network, host name, processes, shared memory and mounts, as a container has, on
a switch of this machine's own making; the entry script is process 1 in it. Files are the machine's,
but for what a test lays over them. The fake DNS is each pod's /etc/hosts. Needs root.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from tests import waiting

if TYPE_CHECKING:
    from .implementations import Mpi

REPO = Path(__file__).parents[3]
# Ranks that save for longer than any MPI waits by itself, and end together.
SAVES = """
import signal, sys, time
from mpi4py import MPI
world, signals = MPI.COMM_WORLD, []
signal.signal(signal.SIGTERM, lambda *_: signals.append(1))
world.Barrier()
if world.rank == 0:
    print("all ranks are up", flush=True)
while not world.allreduce(len(signals)):
    time.sleep(0.05)
while not signals:
    time.sleep(0.05)
time.sleep(5)
open(sys.argv[1] + "/saved.%d.%d" % (world.rank, len(signals)), "w").close()
"""
SHELLS = {"dash": "/usr/bin/dash", "bash": "/usr/bin/bash", "busybox": "/usr/bin/busybox"}
DOMAIN = "job.lab.svc"
PORT = 2222
# A program for ranks: rank 0 says where each is.
RANKS = """
import socket
from mpi4py import MPI
world = MPI.COMM_WORLD
places = world.gather((socket.gethostname(), world.rank))
if world.rank == 0:
    for host, rank in places:
        print("rank", rank, "of", world.size, "on", host, flush=True)
"""
_PATIENCE = 180.0  # seconds
SWITCH_ADDRESS = "02:00:00:00:00:01"  # as hardware; pods have those from 02 on
# Process 1 waits here for its network, then becomes the container.
_INIT = """
set -eu
hostname "$1"; shift
for pair in $1; do mount --bind "${pair#*=}" "${pair%%=*}"; done; shift
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /run
read -r _
exec "$@" </dev/null
"""


until = partial(waiting.until, poll=0.02)


def _batch(pid: int, *lines: str) -> None:
    """Run `ip` commands in a process's network."""
    command = ["nsenter", "-t", str(pid), "-n", "ip", "-batch", "-"]
    subprocess.run(command, input="\n".join(lines), text=True, check=True, capture_output=True)


@dataclass(slots=True)
class Pod:
    """A running pod.

    Attributes:
        name: of the pod, and its host name.
        address: its IP address.
        folder: what it writes, outside of its namespaces.
        outer: the process that holds the namespaces.
        pid: its process 1, as this machine counts.
        domain: what is behind its name in the DNS.
    """

    name: str
    address: str
    folder: Path
    outer: subprocess.Popen[bytes]
    pid: int
    domain: str = DOMAIN

    @property
    def host(self) -> str:
        """The name that other pods know it by."""
        return f"{self.name}.{self.domain}"

    @property
    def state(self) -> Path:
        """ALLRANKS_STATE."""
        return self.folder / "state"

    @property
    def log(self) -> str:
        """What its container wrote."""
        return (self.folder / "log").read_text(errors="replace")

    @property
    def message(self) -> str:
        """Its termination message."""
        path = self.folder / "message"
        return path.read_text() if path.exists() else ""

    def says(self, text: str, seconds: float = _PATIENCE) -> None:
        """Wait for text in its log."""
        deadline = time.monotonic() + seconds
        while text not in self.log:
            if self.outer.poll() is not None and text not in self.log:
                pytest.fail(f"{self.name} ended without {text!r}:\n{self.log}")
            if time.monotonic() > deadline:
                pytest.fail(f"{self.name} did not say {text!r} in {seconds:g} s:\n{self.log}")
            time.sleep(0.02)

    def end(self, seconds: float = _PATIENCE) -> int:
        """Wait for its end; the exit code as Kubernetes shows it."""
        try:
            code = self.outer.wait(seconds)
        except subprocess.TimeoutExpired:
            pytest.fail(f"{self.name} did not end in {seconds:g} s:\n{self.log}")
        return code if code >= 0 else 128 - code

    def signal(self, number: int = signal.SIGTERM) -> None:
        """Send its process 1 a signal, as the kubelet does."""
        os.kill(self.pid, number)

    def kill(self) -> None:
        """Lose it, as with its node or by the kernel's OOM killer.

        Its process 1 itself: the death signal that should follow from the outer process's end is
        dropped by the kernel when a pod changes its user.
        """
        if self.outer.poll() is None:  # until then nobody else can have the process id
            # It may have ended a moment ago, and the outer process not yet.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        self.outer.wait()

    def run(self, *command: str, env: dict[str, str] | None = None) -> str:
        """Run something beside its container, as `kubectl exec` does; its stdout."""
        enter = ["nsenter", "-t", str(self.pid), "-a", *command]
        process = subprocess.run(
            enter, capture_output=True, text=True, check=False, env={**os.environ, **(env or {})}
        )
        assert process.returncode == 0, f"{command}: {process.stdout}{process.stderr}"
        return process.stdout

    def processes(self) -> list[str]:
        """Names of the living processes in it."""
        names = []
        try:
            children = psutil.Process(self.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []
        for child in children:
            try:
                if child.status() != psutil.STATUS_ZOMBIE:
                    names.append(child.name())
            except psutil.NoSuchProcess:
                continue
        return names


@dataclass(slots=True)
class Lab:
    """A job's pods, its key, its host file, and the switch that they are on.

    Attributes:
        mpi: what the launcher and the workers have.
        shell: what /bin/sh is in the pods.
        user: 0, or the id of the user that all run as, without any capability.
        workers: how many hosts the host file has.
        slots: of each host.
        leads: the launcher has ranks too, as the first host.
        drop: pods have no capability; always so where the user is not root.
        release: the job's name.
        domain: what is behind a pod's name in the DNS.
        env: more environment, of both roles.
    """

    folder: Path
    mpi: Mpi
    shell: str = "dash"
    user: int = 0
    workers: int = 2
    slots: int = 2
    leads: bool = False
    drop: bool = False
    release: str = "job"
    domain: str = DOMAIN
    env: dict[str, str] = field(default_factory=dict)
    overlays: dict[str, Path] = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)
    addresses: dict[str, str] = field(default_factory=dict)
    switch: subprocess.Popen[bytes] | None = None

    # --- making it ---------------------------------------------------------------------------

    def open(self) -> None:
        """Lay the ConfigMap and the Secret out, and make the switch."""
        if os.geteuid() != 0:
            pytest.fail("these tests make pods out of namespaces, which needs root")
        self.folder.chmod(0o755)
        self.mount.mkdir()
        for path in filter(Path.is_file, (REPO / "charts" / "mpi" / "files").iterdir()):
            shutil.copy(path, self.mount)
        library = REPO / "charts" / "library" / "files" / "entry.sh"
        entry = library.read_text() + (REPO / "charts" / "mpi" / "files" / "entry.sh").read_text()
        (self.mount / "entry.sh").write_text(entry)
        for path in self.mount.iterdir():
            path.chmod(0o555)
        self.new_key(self.key)
        self._write_hostfile()
        if self.user:
            self._write_users()
        # sshd starts the user's shell, whose settings on this machine are nothing to a pod.
        for path in (Path(pwd.getpwuid(0).pw_dir, ".bashrc"), Path("/etc/bash.bashrc")):
            if path.exists():
                self.overlays[str(path)] = Path("/dev/null")
        self.switch = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])
        mine = Path("/proc/self/ns/net").readlink()
        pid = self.switch.pid
        until(lambda: Path(f"/proc/{pid}/ns/net").readlink() != mine, "a network of its own")
        # A bridge without an address of its own has the lowest of its cables': it would change with
        # a pod that goes, and who knows the old one would send into the void for half a minute.
        _batch(pid, f"link add br0 address {SWITCH_ADDRESS} type bridge", "link set br0 up")

    def new_key(self, path: Path) -> None:
        """A key as the chart's genPrivateKey makes it: a private half in PEM."""
        path.unlink(missing_ok=True)
        command = ["ssh-keygen", "-q", "-t", "ecdsa", "-m", "PEM", "-N", "", "-C", "", "-f"]
        subprocess.run([*command, path], check=True)
        path.chmod(0o444)  # as a Secret's volume: readable, and for ssh too openly so

    def _write_hostfile(self) -> None:
        names = [f"{self.release}-worker-{index}" for index in range(self.workers)]
        if self.leads:
            names.insert(0, f"{self.release}-launcher-0")
        form = "{}.{} slots={}\n" if self.mpi.implementation == "OpenMPI" else "{}.{}:{}\n"
        text = "".join(form.format(name, self.domain, self.slots) for name in names)
        self.hostfile.write_text(text)

    def _write_users(self) -> None:
        """Lay files with one more user over the machine's."""
        for name, line in {
            "passwd": f"trainer:x:{self.user}:{self.user}::/home/none:/bin/sh",
            "group": f"trainer:x:{self.user}:",
        }.items():
            path = self.folder / name
            path.write_text(Path("/etc", name).read_text() + line + "\n")
            self.overlays.setdefault(f"/etc/{name}", path)

    def lay_over(self, path: str, text: str) -> None:
        """Put a file that cannot be run in a file's place, in pods that start from now on."""
        own = self.folder / path.strip("/").replace("/", "-")
        own.write_text(text)
        own.chmod(0o644)
        self.overlays[path] = own

    @property
    def mount(self) -> Path:
        """Where the ConfigMap is."""
        return self.folder / "mount"

    @property
    def key(self) -> Path:
        """The Secret's private key."""
        return self.folder / "ssh-privatekey"

    @property
    def hostfile(self) -> Path:
        """The host file."""
        return self.folder / "hostfile"

    # --- pods --------------------------------------------------------------------------------

    def environment(self, role: str, folder: Path) -> dict[str, str]:
        """What the chart gives a pod."""
        agent, hosts = str(self.mount / "rsh.sh"), str(self.hostfile)
        families = {
            "OMPI_MCA_plm_rsh_agent": agent,
            "OMPI_MCA_orte_default_hostfile": hosts,
            "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
            "OMPI_MCA_plm_rsh_no_tree_spawn": "1",
            "OMPI_MCA_plm_rsh_num_concurrent": "65536",
            "OMPI_MCA_orte_leave_session_attached": "1",
            "OMPI_MCA_hwloc_base_binding_policy": "none",
            "PRTE_MCA_plm_ssh_agent": agent,
            "PRTE_MCA_prte_default_hostfile": hosts,
            "PRTE_MCA_plm_ssh_no_tree_spawn": "1",
            "PRTE_MCA_plm_ssh_num_concurrent": "65536",
            "PRTE_MCA_hwloc_default_binding_policy": "none",
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "HYDRA_LAUNCHER": "ssh",
            "HYDRA_LAUNCHER_EXEC": agent,
            "HYDRA_HOST_FILE": hosts,
            "I_MPI_HYDRA_BOOTSTRAP": "ssh",
            "I_MPI_HYDRA_BOOTSTRAP_EXEC": agent,
            "I_MPI_HYDRA_HOST_FILE": hosts,
            "I_MPI_PERHOST": str(self.slots),
            "I_MPI_HYDRA_BRANCH_COUNT": "65536",
            "I_MPI_PIN": "0",
        }
        hosts_count = self.workers + self.leads
        return {
            **families,
            "PATH": self.mpi.path,
            "HOME": "/root" if self.user == 0 else "/",
            "TMPDIR": str(folder / "tmp"),
            "HOSTNAME": folder.name,
            "ALLRANKS_ROLE": role,
            "ALLRANKS_STATE": str(folder / "state"),
            "ALLRANKS_TERMINATION_LOG": str(folder / "message"),
            "ALLRANKS_WAIT_SECONDS": "30",
            "ALLRANKS_NAMESPACE": "lab",
            "ALLRANKS_RELEASE": self.release,
            "ALLRANKS_MPI_TRANSPORT": "ssh",
            "ALLRANKS_MPI_IMPLEMENTATION": self.mpi.implementation,
            "ALLRANKS_MPI_PORT": str(PORT),
            "ALLRANKS_MPI_HOSTFILE": hosts,
            "ALLRANKS_MPI_KEY": str(self.key),
            "ALLRANKS_MPI_LAUNCHER": f"{self.release}-launcher-0.{self.domain}",
            "ALLRANKS_MPI_LOST_SECONDS": "600",
            "ALLRANKS_MPI_CLEAN": "Running",
            "ALLRANKS_MPI_CONTROLLER": "Job",
            "ALLRANKS_MPI_WAIT_FOR_PODS": "bounded",
            "ALLRANKS_MPI_NP": str(self.slots * hosts_count),
            "ALLRANKS_MPI_MIN_HOSTS": str(hosts_count),
            "ALLRANKS_MPI_WRAP": "1",
            "ALLRANKS_MPI_FAILURES": "0",
            "ALLRANKS_MPI_BACKOFF_LIMIT": "0",
            **self.env,
        }

    def start(self, name: str, role: str, *args: str, **env: str) -> Pod:
        """Start a pod; one that ran under the name before must have ended."""
        number = 2 if role == "launcher" else 10 + int(name.rpartition("-")[2])
        address = f"10.99.0.{number}"
        folder = self._pod_folder(name)
        overlays = {"/etc/hosts": folder / "hosts", **self.overlays}
        if self.shell != "dash":
            overlays["/usr/bin/dash"] = Path(SHELLS[self.shell])
        who = [f"--reuid={self.user}", f"--regid={self.user}", "--clear-groups"]
        limits = [*who, "--bounding-set=-all", "--no-new-privs"]
        drop = ["setpriv", *limits] if self.user or self.drop else []
        namespaces = ["--net", "--ipc", "--uts", "--mount", "--pid", "--fork", "--kill-child"]
        pairs = " ".join(f"{inside}={outside}" for inside, outside in overlays.items())
        self.addresses[name] = address
        self._write_names()
        with (folder / "log").open("wb") as log:
            unshare = [
                "/usr/bin/unshare",
                *namespaces,
                "--mount-proc",
                "/usr/bin/bash",
                "-c",
                _INIT,
            ]
            outer = subprocess.Popen(
                [*unshare, "init", name, pairs, *drop, "/bin/sh", self.mount / "entry.sh", *args],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**self.environment(role, folder), **env},
                cwd=folder,
            )
        children = Path(f"/proc/{outer.pid}/task/{outer.pid}/children")
        pid = int(until(lambda: children.read_text().split(), "its first process")[0])
        pod = Pod(name, address, folder, outer, pid, self.domain)
        self.pods[name] = pod
        self._plug(pod, number)
        assert outer.stdin is not None
        outer.stdin.write(b"go\n")
        outer.stdin.close()
        return pod

    def _pod_folder(self, name: str) -> Path:
        folder = self.folder / name
        shutil.rmtree(folder, ignore_errors=True)
        for path in (folder, folder / "state", folder / "tmp"):
            path.mkdir()
            path.chmod(0o777)
        for path in (folder / "message", folder / "hosts"):
            path.touch()
            path.chmod(0o666)
        return folder

    def _plug(self, pod: Pod, number: int) -> None:
        """Give a pod its cable to the switch; one of a pod before goes with its network."""
        assert self.switch is not None
        cable = f"v{number}"
        devices = ["nsenter", "-t", str(self.switch.pid), "-n", "ip", "-br", "link"]

        def free() -> bool:
            return f"{cable}@" not in subprocess.check_output(devices, text=True)

        until(free, f"the cable {cable} to be free")
        # Always the same hardware address: nobody shall miss a pod that comes back under its IP.
        ether = f"02:00:00:00:00:{number:02x}"
        add = f"link add {cable} type veth peer name eth0 address {ether} netns {pod.pid}"
        _batch(self.switch.pid, add, f"link set {cable} master br0 up")
        address = f"addr add {pod.address}/24 dev eth0"
        _batch(pod.pid, "link set lo up", address, "link set eth0 up")

    def unplug(self, pod: Pod) -> None:
        """Cut a pod off without a word to anyone, as when a node loses power."""
        assert self.switch is not None
        _batch(self.switch.pid, f"link set v{pod.address.rpartition('.')[2]} down")

    def forget(self, name: str) -> None:
        """Take a pod's name out of the DNS, as when it has ended."""
        del self.addresses[name]
        self._write_names()

    def remember(self, pod: Pod) -> None:
        """Give a pod its name in the DNS back."""
        self.addresses[pod.name] = pod.address
        self._write_names()

    def _write_names(self) -> None:
        """Write each pod's /etc/hosts in place: it is mounted there."""
        shared = "".join(f"{ip} {name}.{self.domain}\n" for name, ip in self.addresses.items())
        for name, ip in self.addresses.items():
            own = f"127.0.0.1 localhost\n{ip} {name}.{self.domain}.cluster.local {name}\n"
            with (self.folder / name / "hosts").open("r+") as file:
                file.write(own + shared)  # at once: somebody may be reading
                file.truncate()

    def worker(self, index: int, **env: str) -> Pod:
        """Start a worker."""
        return self.start(f"{self.release}-worker-{index}", "worker", **env)

    def all_workers(self, **env: str) -> list[Pod]:
        """Start all workers, and wait until they are ready."""
        workers = [self.worker(index, **env) for index in range(self.workers)]
        for pod in workers:
            pod.says("this worker is ready")
        return workers

    def launcher(self, *command: str, mpirun_args: tuple[str, ...] = (), **env: str) -> Pod:
        """Start the launcher."""
        args = (str(len(mpirun_args)), *mpirun_args, *command)
        return self.start(f"{self.release}-launcher-0", "launcher", *args, **env)

    def close(self) -> None:
        """End all that was started."""
        for pod in self.pods.values():
            pod.kill()
        if self.switch is not None:
            self.switch.kill()
            self.switch.wait()


def make_folder() -> Path:
    """A folder that any user may walk into (pytest's own are the runner's alone)."""
    return Path(tempfile.mkdtemp(prefix="allranks-pods-"))
