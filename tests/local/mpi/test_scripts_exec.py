"""The way through the Kubernetes API: exec.py against a fake API server, and MPI jobs over it."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from .implementations import FAMILIES
from .pods import RANKS, REPO, SHELLS, SWITCH_ADDRESS, make_folder, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .conftest import MakeLab
    from .pods import Lab

pytestmark = [pytest.mark.local, pytest.mark.timeout(600)]

_EXEC = REPO / "charts" / "mpi" / "files" / "exec.py"
_SERVER = Path(__file__).with_name("fake_api.py")
_POD = "job-worker-0"
_KILLED = """
import os
from mpi4py import MPI
world = MPI.COMM_WORLD
world.Barrier()
if world.rank == 2:
    os.kill(os.getpid(), 9)
while True:
    world.Barrier()
"""


@dataclass(slots=True)
class Api:
    """The fake API server, and the service account that a pod would have."""

    folder: Path
    process: subprocess.Popen[bytes]
    address: str

    @property
    def env(self) -> dict[str, str]:
        """What a pod finds of it in its environment."""
        return {
            "KUBERNETES_SERVICE_HOST": self.address,
            "KUBERNETES_SERVICE_PORT": (self.folder / "port").read_text(),
            "ALLRANKS_SERVICE_ACCOUNT": str(self.folder),
            "ALLRANKS_NAMESPACE": "lab",
        }

    def pod(self, name: str = _POD, **fields: Any) -> None:
        """Let there be a pod."""
        path = self.folder / "pods.json"
        pods = json.loads(path.read_text())
        pods[name] = {"words": [], "env": {"PATH": os.environ["PATH"]}, **fields}
        path.write_text(json.dumps(pods))

    def close(self) -> None:
        """End the server, and leave nothing of it."""
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def requests(self) -> list[dict[str, Any]]:
        """What came in."""
        path = self.folder / "requests"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _serve(address: str, enter: tuple[str, ...] = ()) -> Api:
    """Start the server, in the network that `enter` leads into."""
    folder = make_folder()
    folder.chmod(0o755)
    key, certificate = folder / "key.pem", folder / "ca.crt"
    names = ["-subj", "/CN=kubernetes", "-addext", f"subjectAltName=IP:{address}"]
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command = ["openssl", "req", "-x509", *curve, *names, "-days", "2"]
    subprocess.run([*command, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    (folder / "tls.pem").write_text(key.read_text() + certificate.read_text())
    (folder / "token").write_text("a-token")
    (folder / "pods.json").write_text("{}")
    process = subprocess.Popen([*enter, sys.executable, str(_SERVER), str(folder), address])
    until((folder / "port").exists, "the fake API server to listen")
    return Api(folder, process, address)


@pytest.fixture
def api() -> Iterator[Api]:
    """A fake API server on loopback."""
    server = _serve("127.0.0.1")
    try:
        yield server
    finally:
        server.close()


@pytest.fixture
def remote(tmp_path: Path) -> Path:
    """A stand-in for the ConfigMap in the pod: a remote.sh that runs its argument."""
    (tmp_path / "remote.sh").write_text('exec /bin/sh -c "$1"\n')
    return tmp_path


def _run(
    api: Api, remote: Path, *args: str, stdin: bytes | None = None, **env: str
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, str(_EXEC), *args],
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        check=False,
        timeout=60,
        env={"PATH": os.environ["PATH"], **api.env, "ALLRANKS_FILES": str(remote), **env},
    )


def test_runs_on_old_pythons() -> None:
    """exec.py has no syntax that Python 3.6 does not read."""
    ast.parse(_EXEC.read_text(), feature_version=(3, 6))


@pytest.mark.parametrize("protocol", ["v5.channel.k8s.io", "v4.channel.k8s.io"])
def test_streams_and_code(api: Api, remote: Path, protocol: str) -> None:
    """Both outputs come back apart, the exit code is the command's, the words are as given."""
    api.pod(protocols=[protocol])
    script = (
        "printf 'out\\000\\377'; printf 'err ' >&2; printf '%s' \"it's \\$x → 🚂\" >&2; exit 42"
    )
    process = _run(api, remote, f"{_POD}.job.lab.svc", script)
    assert (42, b"out\0\xff") == (process.returncode, process.stdout)
    assert "err it's $x → 🚂" == process.stderr.decode()
    (request,) = api.requests()
    assert ("GET", f"/api/v1/namespaces/lab/pods/{_POD}/exec") == (
        request["method"],
        request["path"],
    )
    expected = {
        "command": ["/bin/sh", f"{remote}/remote.sh", script],
        "container": ["trainer"],
        "stdin": ["false"],
        "stdout": ["true"],
        "stderr": ["true"],
    }
    assert expected == request["query"]


def test_success_is_zero(api: Api, remote: Path) -> None:
    """A command that succeeds."""
    api.pod()
    assert _run(api, remote, _POD, "true").returncode == 0


def test_stdin_and_its_end(api: Api, remote: Path) -> None:
    """All of stdin arrives, however much, and its end ends a command that waits for it."""
    api.pod()
    data = os.urandom(3_000_000)
    process = _run(api, remote, _POD, "cat", stdin=data)
    assert process.returncode == 0, process.stderr
    assert process.stdout == data


def test_stdin_of_a_command_that_does_not_read(api: Api, remote: Path) -> None:
    """A command that leaves its stdin alone ends when it ends."""
    api.pod()
    assert _run(api, remote, _POD, "exit 5", stdin=b"x" * 1_000_000).returncode == 5


def test_messages_in_pieces(api: Api, remote: Path) -> None:
    """A message may come in several frames, with pings between them."""
    api.pod(fault="fragments")
    process = _run(api, remote, _POD, "seq 20000; exit 3")
    assert (3, b"".join(b"%d\n" % number for number in range(1, 20001))) == (
        process.returncode,
        process.stdout,
    )


@pytest.mark.parametrize(
    ("pod", "words"),
    [
        (None, 'no such pod: pods "job-worker-0" not found'),
        ({"fault": "forbidden"}, 'forbidden: pods "job-worker-0" is forbidden: User'),
        ({"fault": "starting"}, "the pod is not ready: unable to upgrade connection: container"),
        ({"fault": "drop"}, "the connection was closed before the command ended"),
    ],
)
def test_refusals_are_said(api: Api, remote: Path, pod: dict[str, Any] | None, words: str) -> None:
    """What the API server refuses, or breaks off, is 255 and one sentence of its own words."""
    if pod is not None:
        api.pod(**pod)
    process = _run(api, remote, _POD, "echo hello; sleep 1")
    assert process.returncode == 255
    assert process.stderr.decode().startswith(f"allranks: {_POD}: ")
    assert words in process.stderr.decode() or "the connection failed" in process.stderr.decode()
    assert process.stderr.count(b"\n") == 1


def test_silent_server_is_noticed(api: Api, remote: Path) -> None:
    """A server that answers no ping is given up after a while; 20 s, here less."""
    api.pod(fault="silent")
    text = _EXEC.read_text().replace("LOST_SECONDS = 20.0", "LOST_SECONDS = 3.0")
    brief = remote / "exec.py"
    brief.write_text(text.replace("PING_SECONDS = 5.0", "PING_SECONDS = 1.0"))
    process = subprocess.run(
        [sys.executable, str(brief), _POD, "true"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
        env={**api.env, "ALLRANKS_FILES": str(remote)},
    )
    assert process.returncode == 255
    assert "timed out: nothing was heard of the pod for 3 s" in process.stderr


def test_quiet_command_is_not_given_up(api: Api, remote: Path) -> None:
    """Pings keep a connection on which nothing is said."""
    api.pod()
    brief = remote / "exec.py"
    text = _EXEC.read_text().replace("LOST_SECONDS = 20.0", "LOST_SECONDS = 8.0")
    brief.write_text(text.replace("PING_SECONDS = 5.0", "PING_SECONDS = 0.5"))
    process = subprocess.run(
        [sys.executable, str(brief), _POD, "sleep 10; exit 6"],
        stdin=subprocess.DEVNULL,
        check=False,
        timeout=60,
        env={**api.env, "ALLRANKS_FILES": str(remote)},
    )
    assert process.returncode == 6


def test_outside_of_a_pod(tmp_path: Path) -> None:
    """Without a service account there is one sentence, and no traceback."""
    process = subprocess.run(
        [sys.executable, str(_EXEC), _POD, "true"],
        capture_output=True,
        text=True,
        check=False,
        env={"KUBERNETES_SERVICE_HOST": "127.0.0.1", "ALLRANKS_SERVICE_ACCOUNT": str(tmp_path)},
    )
    assert process.returncode == 255
    expected = f"no service account is mounted at {tmp_path}: No such file or directory"
    assert f"allranks: {_POD}: {expected}\n" == process.stderr


def test_scale_to_zero(api: Api, remote: Path) -> None:
    """A StatefulSet's workers end by its scale."""
    assert _run(api, remote, "--scale-to-zero", "job-worker", "job-worker-last").returncode == 0
    base = "/apis/apps/v1/namespaces/lab/statefulsets"
    assert [
        ("PATCH", f"{base}/job-worker/scale", '{"spec":{"replicas":0}}'),
        ("PATCH", f"{base}/job-worker-last/scale", '{"spec":{"replicas":0}}'),
    ] == [(request["method"], request["path"], request["body"]) for request in api.requests()]


# --- jobs -----------------------------------------------------------------------------------------


@pytest.fixture
def cluster(lab: MakeLab) -> Iterator[Any]:
    """Makes a lab whose launcher reaches its workers through the API only."""
    apis: list[Api] = []

    def make(family: str, **options: Any) -> tuple[Lab, Api]:
        job = lab(family, **options)
        assert job.switch is not None
        enter = ("nsenter", "-t", str(job.switch.pid), "-n")
        subprocess.run([*enter, "ip", "addr", "add", "10.99.0.1/24", "dev", "br0"], check=True)
        new_api = _serve("10.99.0.1", enter)
        apis.append(new_api)
        job.env |= {"ALLRANKS_MPI_TRANSPORT": "exec", **new_api.env}
        return job, new_api

    yield make
    for used_api in apis:
        used_api.close()


def test_the_api_server_keeps_its_hardware_address(cluster: Any) -> None:
    """Pods that come and go do not move the API server, which the others would ask in vain."""
    job, _ = cluster("openmpi5")

    def address() -> str:
        command = ["nsenter", "-t", str(job.switch.pid), "-n", "ip", "-br", "link", "show", "br0"]
        return subprocess.check_output(command, text=True).split()[2]

    addresses = [address()]
    worker = job.worker(0)
    addresses.append(address())
    worker.kill()
    addresses.append(address())
    assert [SWITCH_ADDRESS] * 3 == addresses


def _register_workers(job: Lab, api: Api) -> None:
    """Let the API server know the workers that run."""
    for name, pod in job.pods.items():
        if name.startswith("job-worker"):
            env = job.environment("worker", pod.folder)
            api.pod(name, words=["nsenter", "-t", str(pod.pid), "-a"], env=env)


@pytest.mark.parametrize("family", FAMILIES)
def test_ranks_run_without_sshd(cluster: Any, family: str) -> None:
    """The same job over the API: no sshd, no kubectl, and the workers stop at the end."""
    job, api = cluster(family)
    workers = job.all_workers()
    _register_workers(job, api)
    launcher = job.launcher(str(job.mpi.python), "-c", RANKS)
    assert launcher.end() == 0, launcher.log
    assert [0, 0, 1, 1] == [int(index) for index in re.findall(r"on job-worker-(\d)", launcher.log)]
    assert [0, 0] == [worker.end() for worker in workers]


@pytest.mark.parametrize("shell", SHELLS)
def test_the_rank_that_failed_first_over_the_api(cluster: Any, shell: str) -> None:
    """Its report takes the connection that its daemon was started by; mpirun names no rank here."""
    job, api = cluster("mpich", shell=shell)
    job.all_workers()
    _register_workers(job, api)
    launcher = job.launcher(str(job.mpi.python), "-c", _KILLED)
    code = launcher.end()
    assert 137 == code, f"{(launcher.state / 'ends').read_text()}\n{launcher.log}"
    first = "failed first: rank 2 in pod job-worker-1 ended with exit code 137"
    assert launcher.message.startswith(first)
    assert "allranks-end" not in launcher.log


@pytest.mark.parametrize("shell", SHELLS)
def test_lost_worker_over_the_api(cluster: Any, shell: str) -> None:
    """A worker that dies ends the launcher with 214; the name of the lost one is said."""
    job, api = cluster("openmpi4", shell=shell)
    workers = job.all_workers()
    _register_workers(job, api)
    launcher = job.launcher("sh", "-c", "echo up; sleep 100")
    launcher.says("up")
    workers[1].kill()
    assert launcher.end() == 214, launcher.log
    assert "job-worker-1.job.lab.svc" in launcher.message


def test_rights_that_are_missing_end_the_wait(cluster: Any) -> None:
    """Without the Role waiting does not help: the API server's words say which right it is."""
    job, api = cluster("openmpi4", workers=1)
    job.all_workers()
    api.pod(fault="forbidden")
    launcher = job.launcher("true", ALLRANKS_WAIT_SECONDS="600")
    assert launcher.end() == 1
    assert 'cannot get resource "pods/exec"' in launcher.message


def test_an_api_server_that_is_not_reached_is_named(cluster: Any) -> None:
    """The wait ends with what was asked and where: no port of a worker's plays a part here."""
    job, _ = cluster("openmpi4", workers=1)
    job.all_workers()
    closed = {"KUBERNETES_SERVICE_HOST": "10.99.0.10", "KUBERNETES_SERVICE_PORT": "443"}
    launcher = job.launcher("true", ALLRANKS_WAIT_SECONDS="5", **closed)
    assert launcher.end() == 1
    reason = "job-worker-0.job.lab.svc: the API server at 10.99.0.10:443 is not reached: "
    assert reason in launcher.message
    assert "port 2222" not in launcher.message


def test_a_worker_that_is_not_told_to_stop_is_named(cluster: Any) -> None:
    """The launcher says which worker stays, why, and for how long."""
    job, api = cluster("openmpi4")
    workers = job.all_workers()
    _register_workers(job, api)
    api.pod("job-worker-1", fault="forbidden")
    launcher = job.launcher("true", ALLRANKS_MPI_MIN_HOSTS="1", ALLRANKS_MPI_WRAP="0")
    assert launcher.end() == 0, launcher.log
    stay = "one that was not ends by itself after 600 s without a launcher"
    reason = "job-worker-1.job.lab.svc: forbidden: "
    assert f"1 of 2 workers was told to stop; {stay} ({reason}" in launcher.log
    assert workers[0].end() == 0


def test_statefulset_is_scaled_to_zero(cluster: Any) -> None:
    """A StatefulSet's workers would be started again: the launcher scales it down instead."""
    job, api = cluster("openmpi4", env={"ALLRANKS_MPI_CONTROLLER": "StatefulSet"})
    workers = job.all_workers()
    _register_workers(job, api)
    launcher = job.launcher("true")
    assert launcher.end() == 0, launcher.log
    scaled = [request["path"] for request in api.requests() if request["method"] == "PATCH"]
    assert ["/apis/apps/v1/namespaces/lab/statefulsets/job-worker/scale"] == scaled
    assert [None, None] == [worker.outer.poll() for worker in workers]


def test_image_without_python_and_kubectl(cluster: Any) -> None:
    """The launcher says what the exec transport needs."""
    job, _ = cluster("openmpi4", workers=1)
    for name in ("python3", "python", "kubectl"):
        for folder in ("/usr/bin", "/usr/local/bin"):
            if (path := Path(folder, name)).exists():
                job.lay_over(str(path), "")
    launcher = job.launcher("true")
    assert launcher.end() == 127
    assert "needs Python 3.6 or newer, or kubectl" in launcher.message
