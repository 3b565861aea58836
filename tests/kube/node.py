"""A real node beside the control plane: containerd and runc, a bridge, kubelet, kube-proxy, DNS.

It lives in a place of its own (`node_place`). The API server listens on this machine; pods reach it
by `Run.node_ip`, which is this machine's end of the wire between the two; the node's own address is
the next one. Images are the ones of `image_recipe`; claims are served by `node_volumes`.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import socket
import sys
from typing import TYPE_CHECKING

from tests.kube import binaries, control_plane, image, node_config, node_place, node_volumes
from tests.kube.processes import Identity

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kube.api import Api
    from tests.kube.node_place import Place
    from tests.kube.processes import Processes
    from tests.kube.runs import Run

_SECONDS = 60.0


@contextlib.contextmanager
def running(run: Run, processes: Processes, api: Api) -> Iterator[None]:
    """Run a node until the end of the ``with`` block; it is ready at its beginning.

    Args:
        run: a run whose control plane is up.
        processes: what starts and later ends the programs.
        api: its API server.

    Raises:
        BenchError: a program is missing, ends, or the node does not become ready.
    """
    image.ensure()
    place = _place(run, processes)
    first = Identity.of(place.pid)
    try:
        commands = _commands(run, place)
        # A kubelet that finds nobody at containerd's socket ends, and does not try again.
        processes.start("containerd", *place.command(*commands.pop("containerd")))
        processes.wait(lambda: _answers(socket_of(place)), "containerd's start", _SECONDS)
        for name, command in commands.items():
            processes.start(name, *place.command(*command))
        _serve_claims(run, processes, api, place)
        processes.wait(lambda: _ready(api), "the node's start", _SECONDS)
        yield
    finally:
        # It is gone only when every process in the place is.
        if first is not None:
            first.end()
        node_place.leave(place)


def address(run: Run) -> str:
    """The node's own address; `Run.node_ip` is this machine's, as the node sees it."""
    return str(ipaddress.ip_address(run.node_ip) + 1)


def socket_of(place: Place) -> Path:
    """The socket of containerd, as this machine sees it."""
    return place.host_path(node_config.SOCKET)


def _place(run: Run, processes: Processes) -> Place:
    folder = run.folder / "node"
    holder = processes.start("node", *node_place.command(folder))
    processes.wait(lambda: node_place.ready(folder), "the node's namespaces", _SECONDS)
    place = node_place.enter(run.device("node"), holder, folder)
    node_place.connect(place, run.node_ip, address(run), run.pod_cidr)
    return place


def _commands(run: Run, place: Place) -> dict[str, list[str]]:
    """The parts of a node, with their configuration written."""
    folder, mine = place.folder, address(run)
    programs = binaries.find("containerd").parent
    image.take_over(folder / "containerd")
    (folder / "cni").mkdir()
    configs = {
        "cni/10-pods.conflist": node_config.network(run.pod_cidr),
        "containerd.toml": node_config.containerd(folder, programs),
        "kubelet.json": node_config.kubelet(place, mine),
        "kube-proxy.json": node_config.proxy(_kubeconfig(run, "kube-proxy"), run.pod_cidr),
        "Corefile": node_config.dns(_kubeconfig(run, "dns"), mine),
    }
    for name, text in configs.items():
        (folder / name).write_text(text, encoding="utf-8")
    # Debian keeps iptables and runc where a user's own PATH may not look.
    path = f"PATH={programs}:{os.environ['PATH']}:/usr/sbin:/sbin"
    kubelet = [
        str(binaries.find("kubelet")),
        f"--config={folder}/kubelet.json",
        f"--kubeconfig={_kubeconfig(run, 'kubelet')}",
        f"--root-dir={folder}/kubelet",
        f"--hostname-override={node_config.NAME}",
        f"--node-ip={mine}",
    ]
    proxy = [str(binaries.find("kube-proxy")), f"--config={folder}/kube-proxy.json"]
    return {
        "containerd": ["env", path, "containerd", f"--config={folder}/containerd.toml"],
        "kubelet": ["env", path, *kubelet],
        "kube-proxy": ["env", path, *proxy],
        "coredns": [str(binaries.find("coredns")), f"-conf={folder}/Corefile"],
    }


def _serve_claims(run: Run, processes: Processes, api: Api, place: Place) -> None:
    """On this machine rather than in the place: it needs no network of the node's."""
    node_volumes.install(api)
    processes.start(
        "volumes",
        *(sys.executable, "-m", "tests.kube.node_volumes"),
        control_plane.kubeconfig_of(run, "kubelet"),
        str(place.pid),
        place.folder / "volumes",
        env={"PYTHONPATH": str(binaries.REPO)},
    )


def _kubeconfig(run: Run, user: str) -> Path:
    """A component's kubeconfig, with the API server's address as the node sees it."""
    config = control_plane.kubeconfig_of(run, user)
    here = f"https://127.0.0.1:{run.port('api')}"
    there = f"https://{run.node_ip}:{run.port('api')}"
    copy = run.folder / "node" / f"kubeconfig.{user}"
    copy.write_text(config.read_text(encoding="utf-8").replace(here, there), encoding="utf-8")
    copy.chmod(0o600)
    return copy


def _answers(path: Path) -> bool:
    """Whether a program takes connections on a unix socket."""
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0


def _ready(api: Api) -> bool:
    nodes = api.request("GET", "/api/v1/nodes").body["items"]
    return any(
        condition["type"] == "Ready" and condition["status"] == "True"
        for node in nodes
        if node["metadata"]["name"] == node_config.NAME
        for condition in node.get("status", {}).get("conditions", [])
    )
