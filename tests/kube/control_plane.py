"""etcd, the API server, the controllers and the scheduler, as real as anywhere."""

from __future__ import annotations

import json
import secrets
import shutil
import subprocess
from typing import TYPE_CHECKING

from tests.kube import binaries
from tests.kube.api import Api, ApiError
from tests.kube.errors import BenchError
from tests.kube.runs import listens

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kube.processes import Processes
    from tests.kube.runs import Run

ADMIN = "admin"
# A user without any rights: a test gives it those that the test is about.
GUEST = "guest"
_COMPONENTS = ("kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "kwok", "dns")
_MASTERS = "system:masters"
_SECONDS = 90.0
_BURST = 1.5  # of the rate, as Kubernetes' own defaults of 20 and 30

_AUDIT = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "omitManagedFields": True,
    "rules": [
        # What goes on without anybody asking for it is not counted.
        {"level": "None", "resources": [{"group": "coordination.k8s.io"}]},
        {"level": "None", "nonResourceURLs": ["/readyz*", "/livez*", "/healthz*", "/metrics"]},
        # A watch is answered when it begins; its end may be minutes away.
        {"level": "Metadata", "verbs": ["watch"], "omitStages": ["ResponseComplete"]},
        {"level": "Metadata", "omitStages": ["ResponseStarted"]},
    ],
}


def start(run: Run, processes: Processes) -> Api:
    """Start a control plane and wait until pods can be made in it.

    Args:
        run: the run, with its slot.
        processes: what starts and later ends the programs.

    Returns:
        Its API, as the administrator.

    Raises:
        BenchError: a program is missing, ends, or takes too long.
    """
    tokens = _write_files(run)
    etcd = f"http://127.0.0.1:{run.port('etcd')}"
    _start_etcd(run, processes, etcd)
    processes.wait(lambda: listens(run.port("etcd")), "etcd's start", _SECONDS)
    _start_api_server(run, processes, etcd)
    authority = run.folder / "certs/apiserver.crt"
    processes.wait(
        lambda: authority.exists() and _ready(Api(run.port("api"), tokens[ADMIN], authority)),
        "the API server's start",
        _SECONDS,
    )
    for user, token in tokens.items():
        write_kubeconfig(run, kubeconfig_of(run, user), token)
    _start_controllers(run, processes)
    _start_scheduler(run, processes)
    api = Api(run.port("api"), tokens[ADMIN], authority)
    account = "/api/v1/namespaces/default/serviceaccounts/default"
    processes.wait(lambda: _there(api, account), "the controllers' start", _SECONDS)
    return api


def kubeconfig_of(run: Run, user: str) -> Path:
    """The kubeconfig of a user or a component."""
    return run.kubeconfig if user == ADMIN else run.folder / f"kubeconfig.{user}"


def write_kubeconfig(run: Run, path: Path, token: str, namespace: str = "default") -> None:
    """Write a kubeconfig with one context, named after the run.

    Args:
        run: a run whose API server has started.
        path: the file.
        token: the user's.
        namespace: the context's.
    """
    server = {
        "server": f"https://127.0.0.1:{run.port('api')}",
        "certificate-authority": str(run.folder / "certs/apiserver.crt"),
        "tls-server-name": "kubernetes.default.svc",
    }
    context = {"cluster": run.name, "user": run.name, "namespace": namespace}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": run.name, "cluster": server}],
        "users": [{"name": run.name, "user": {"token": token}}],
        "contexts": [{"name": run.name, "context": context}],
        "current-context": run.name,
    }
    path.write_text(json.dumps(config, indent=1), encoding="utf-8")
    path.chmod(0o600)


def _write_files(run: Run) -> dict[str, str]:
    """The key of service accounts, the users' tokens, the audit policy."""
    openssl = shutil.which("openssl")
    if openssl is None:
        raise BenchError("openssl is not on PATH", "install the package openssl")
    command = (openssl, "ecparam", "-genkey", "-name", "prime256v1", "-noout")
    subprocess.run((*command, "-out", run.folder / "sa.key"), check=True, capture_output=True)
    tokens = {user: secrets.token_hex(16) for user in (ADMIN, GUEST, *_COMPONENTS)}
    lines = [
        f'{token},{_user_name(user)},{user},"{"" if user == GUEST else _MASTERS}"\n'
        for user, token in tokens.items()
    ]
    (run.folder / "tokens.csv").write_text("".join(lines), encoding="utf-8")
    (run.folder / "audit.json").write_text(json.dumps(_AUDIT), encoding="utf-8")
    return tokens


def _user_name(user: str) -> str:
    """What the API server calls a user: its own controllers as in every cluster."""
    return f"system:{user}" if user == "kube-controller-manager" else user


def _start_etcd(run: Run, processes: Processes, client: str) -> None:
    peer = f"http://127.0.0.1:{run.port('etcd-peer')}"
    processes.start(
        "etcd",
        binaries.find("etcd"),
        f"--data-dir={run.folder}/etcd",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--unsafe-no-fsync",  # the data is thrown away
        "--log-level=warn",
    )


def _start_api_server(run: Run, processes: Processes, etcd: str) -> None:
    # A fake node is ready when it is made: a thousand of them need not be found so one by one.
    trusting = () if run.options.node else ("--disable-admission-plugins=TaintNodesByCondition",)
    processes.start(
        "kube-apiserver",
        binaries.find("kube-apiserver"),
        f"--etcd-servers={etcd}",
        f"--secure-port={run.port('api')}",
        # Pods of a real node reach it by the node's address.
        f"--bind-address={'0.0.0.0' if run.options.node else '127.0.0.1'}",  # noqa: S104
        f"--advertise-address={run.node_ip}",
        f"--cert-dir={run.folder}/certs",
        f"--service-account-key-file={run.folder}/sa.key",
        f"--service-account-signing-key-file={run.folder}/sa.key",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-cluster-ip-range={run.service_cidr}",
        "--authorization-mode=Node,RBAC",
        f"--token-auth-file={run.folder}/tokens.csv",
        "--anonymous-auth=false",
        "--allow-privileged=true",  # Pod Security decides, namespace by namespace
        # `kubectl logs` finds the kubelet by its address, so /etc/hosts stays as it is.
        "--kubelet-preferred-address-types=InternalIP",
        f"--audit-policy-file={run.folder}/audit.json",
        f"--audit-log-path={run.audit_log}",
        "--audit-log-maxsize=10240",  # MiB: one file, never rotated
        "--profiling=false",
        *trusting,
    )


def _start_controllers(run: Run, processes: Processes) -> None:
    options = run.options
    config = kubeconfig_of(run, "kube-controller-manager")
    limits: tuple[str, ...] = ()
    if options.controller_qps:
        burst = int(options.controller_qps * _BURST)
        limits = (f"--kube-api-qps={options.controller_qps}", f"--kube-api-burst={burst}")
    # Fake nodes send no heartbeats: a thousand of them would be a hundred requests each second.
    patience = () if options.node else ("--node-monitor-grace-period=24h",)
    processes.start(
        "kube-controller-manager",
        binaries.find("kube-controller-manager"),
        f"--kubeconfig={config}",
        f"--authentication-kubeconfig={config}",
        f"--authorization-kubeconfig={config}",
        f"--service-account-private-key-file={run.folder}/sa.key",
        f"--root-ca-file={run.folder}/certs/apiserver.crt",
        "--leader-elect=false",
        "--secure-port=0",
        "--controllers=*,-ttl-controller",  # an annotation per node that only kubelets read
        *limits,
        *patience,
    )


def _start_scheduler(run: Run, processes: Processes) -> None:
    config = kubeconfig_of(run, "kube-scheduler")
    client = {"kubeconfig": str(config), "qps": 1000, "burst": 1500}
    settings = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": client,
    }
    path = run.folder / "scheduler.json"
    path.write_text(json.dumps(settings), encoding="utf-8")
    processes.start(
        "kube-scheduler",
        binaries.find("kube-scheduler"),
        f"--config={path}",
        f"--authentication-kubeconfig={config}",
        f"--authorization-kubeconfig={config}",
        "--secure-port=0",
    )


def _ready(api: Api) -> bool:
    return _there(api, "/readyz")


def _there(api: Api, path: str) -> bool:
    try:
        api.request("GET", path)
    except (ApiError, OSError):
        return False
    return True
