"""The configuration files of a node's parts, as text.

Every setting that is not Kubernetes' own default is here, with its reason.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.kube import image_recipe

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kube.node_place import Place

NAME = "node-0"
DOMAIN = "cluster.local"
# In the place's own /run. (A unix socket's path may have 107 characters: not in the run's folder.)
SOCKET = "/run/containerd/containerd.sock"


def containerd(folder: Path, programs: Path) -> str:
    """containerd's: its CRI plugin, the sandbox image, the network plugins."""
    cri = "plugins.'io.containerd.cri.v1"
    settings: dict[str, dict[str, Any]] = {
        "grpc": {"address": SOCKET},
        f"{cri}.images'": {"snapshotter": "overlayfs", "discard_unpacked_layers": True},
        f"{cri}.images'.pinned_images": {"sandbox": image_recipe.PAUSE},
        # Read at each pull: `registry` writes there where a registry of a test is.
        f"{cri}.images'.registry": {"config_path": str(folder / "certs.d")},
        # Containers of high priority ask for a lower score than containerd itself has, which takes
        # a capability that containers and small virtual machines often lack.
        f"{cri}.runtime'": {"restrict_oom_score_adj": True},
        f"{cri}.runtime'.cni": {"bin_dirs": [str(programs)], "conf_dir": str(folder / "cni")},
        f"{cri}.runtime'.containerd.runtimes.runc": {"runtime_type": "io.containerd.runc.v2"},
        f"{cri}.runtime'.containerd.runtimes.runc.options": {"SystemdCgroup": False},
    }
    lines = ["version = 3", f"root = {json.dumps(str(folder / 'containerd'))}"]
    for table, values in settings.items():
        lines.append(f"[{table}]")
        lines.extend(f"{key} = {json.dumps(value)}" for key, value in values.items())
    return "\n".join(lines) + "\n"


def network(pods: str) -> str:
    """The pods' network: one bridge, addresses from the range `pods`, all else by the node."""
    bridge = {
        "type": "bridge",
        "bridge": "pods",
        "isGateway": True,
        "hairpinMode": True,
        "ipam": {
            "type": "host-local",
            "ranges": [[{"subnet": pods}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    }
    return json.dumps({"cniVersion": "1.0.0", "name": "pods", "plugins": [bridge]})


def kubelet(place: Place, address: str) -> str:
    """The kubelet's; `address` is the node's. JSON is YAML."""
    return json.dumps(
        {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": address,
            # Only this machine reaches the address, and it runs as root anyhow.
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"},
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{place.cgroup}",
            "enforceNodeAllocatable": [],
            "failCgroupV1": False,
            "failSwapOn": False,
            "clusterDNS": [address],
            "clusterDomain": DOMAIN,
            "resolvConf": "/dev/null",
            "containerRuntimeEndpoint": f"unix://{SOCKET}",
            "volumePluginDir": str(place.folder / "volume-plugins"),
            # The disk is the machine's: its fullness is not this node's business.
            "evictionHard": {"memory.available": "100Mi", "nodefs.available": "200Mi"},
            "imageGCHighThresholdPercent": 100,
            # How soon a full emptyDir is noticed; else a minute.
            "volumeStatsAggPeriod": "5s",
            # A test bench has no neighbours to be polite to.
            "eventRecordQPS": 0,
            "kubeAPIQPS": 200,
            "kubeAPIBurst": 400,
            "serializeImagePulls": False,
        }
    )


def proxy(kubeconfig: Path, pods: str) -> str:
    """kube-proxy's: iptables, and none of the machine's own connection tracking settings."""
    return json.dumps(
        {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "mode": "iptables",
            "clusterCIDR": pods,
            "hostnameOverride": NAME,
            "clientConnection": {"kubeconfig": str(kubeconfig)},
            "conntrack": {
                "maxPerCore": 0,
                "min": 0,
                "tcpEstablishedTimeout": "0s",
                "tcpCloseWaitTimeout": "0s",
            },
            "iptables": {"minSyncPeriod": "0s"},
        }
    )


def dns(kubeconfig: Path, address: str) -> str:
    """CoreDNS' Corefile: the cluster's names and no others."""
    return f"""
.:53 {{
  bind {address}
  kubernetes {DOMAIN} in-addr.arpa {{
    kubeconfig {kubeconfig}
    ttl 5
  }}
}}
"""
