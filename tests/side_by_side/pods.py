"""The pods of rendered manifests as a side: their variables and files, up to the charts' launchers.

A pod begins with its chart's own entry, and ends where that would hand over to its launcher: there
a stand-in of the sandbox starts the ranks.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from allranks.convert.slurm import hostlist
from tests.side_by_side.filesystem import ENVIRONMENT, SUBMIT_FOLDER, Command, Side
from tests.side_by_side.inside.program import CHART_LAUNCHER, HOME, NODE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from allranks.k8s.manifest import Manifest

SCRIPT = "/etc/allranks/script"
_HOSTFILE = "/etc/mpi/hostfile"
_REFERENCE = re.compile(r"\$\$|\$\(([\w.-]+)\)")
_OWN_HALF = re.compile(r"^# --- (?:torchrun|mpi):.*", re.MULTILINE | re.DOTALL)
_HANDOVER = f"""
allranks_setup
case ${{ALLRANKS_ROLE:-}} in
  worker)
    env -0 >{HOME}/log/worker.${NODE}
    exit 0
    ;;
  launcher)
    allranks_option_count=$1
    shift
    [ "${{ALLRANKS_MPI_WRAP:-}}" != 1 ] || exec mpirun -np "$ALLRANKS_MPI_NP" "$@"
    shift "$allranks_option_count"
    exec "$@"
    ;;
esac
exec /stub/{CHART_LAUNCHER} "$@"
"""


def side(manifests: Sequence[Manifest]) -> Side:
    """The pods of a release, in the order of their start: the workers of MPI, then its launcher."""
    pods = sorted(_pods(manifests), key=lambda pod: "launcher" in pod[0])
    files = _files(manifests)
    hosts = [line.split()[0] for line in files.get(_HOSTFILE, "").splitlines() if line.strip()]
    if not hosts:
        subdomains = [f".{pod[2]['subdomain']}" if "subdomain" in pod[2] else "" for pod in pods]
        hosts = [f"{pod[0]}{domain}" for pod, domain in zip(pods, subdomains, strict=True)]
    names = [host.partition(".")[0] for host in hosts]
    commands, environments = [], []
    for name, index, spec in pods:
        container = spec["containers"][0]
        variables = _variables(container, name, index)
        environments.append(variables)
        words = (*container.get("command", ()), *container.get("args", ()))
        node = names.index(name) if name in names else 0
        environment = {**ENVIRONMENT, **variables, "HOSTNAME": name, NODE: str(node)}
        environment["JOB_COMPLETION_INDEX"] = str(index)
        folder = container.get("workingDir") or SUBMIT_FOLDER
        commands.append(Command(tuple(_expand(w, variables) for w in words), environment, folder))
    shared = environments[-1]
    nodes_text = shared.get("SLURM_JOB_NODELIST") or hostlist.compress(hosts)
    return Side(
        commands=tuple(commands),
        files=files,
        hosts=tuple(hosts),
        hostlists={nodes_text: hosts},
        slots=int(shared.get("SLURM_NTASKS_PER_NODE", "1")),
        gpus=int(shared.get("SLURM_GPUS_ON_NODE", "0")),
        cpus=shared.get("SLURM_CPUS_ON_NODE", "8"),
    )


def with_nodes(pods: Side, number: int) -> Side:
    """A side with so many nodes, where pods are fewer or more than the nodes of a job."""
    hosts = list(pods.hosts[:number])
    hosts += [f"other-{index}" for index in range(len(hosts), number)]
    lists = {hostlist.compress(hosts): hosts} if hosts != list(pods.hosts) else pods.hostlists
    return replace(pods, hosts=tuple(hosts), hostlists=lists)


def _pods(manifests: Sequence[Manifest]) -> Iterator[tuple[str, int, Manifest]]:
    """The name, the index and the spec of each pod."""
    for manifest in manifests:
        if manifest["kind"] not in ("Job", "StatefulSet"):
            continue
        spec = manifest["spec"]
        for index in range(spec.get("completions") or spec.get("replicas") or 1):
            yield f"{manifest['metadata']['name']}-{index}", index, spec["template"]["spec"]


def _files(manifests: Sequence[Manifest]) -> dict[str, str]:
    """What ConfigMaps have, by the path in a container."""
    texts: dict[str, Mapping[str, str]] = {
        manifest["metadata"]["name"]: manifest.get("data") or {}
        for manifest in manifests
        if manifest["kind"] == "ConfigMap"
    }
    files = {}
    for _, _, spec in _pods(manifests):
        sources = {volume["name"]: _config_maps(volume) for volume in spec.get("volumes", ())}
        for mount in spec["containers"][0].get("volumeMounts", ()):
            for config_map in sources[mount["name"]]:
                data = texts.get(config_map["name"], {})
                items = {item["key"]: item["path"] for item in config_map.get("items", ())}
                for key, path in (items or dict(zip(data, data, strict=True))).items():
                    files[f"{mount['mountPath']}/{path}"] = _without_launcher(key, data[key])
    return files


def _config_maps(volume: Manifest) -> list[dict[str, Any]]:
    projected = volume.get("projected", {}).get("sources", ())
    return [source["configMap"] for source in (volume, *projected) if "configMap" in source]


def _without_launcher(key: str, text: str) -> str:
    """An entry that hands over to the stand-in; in a sweep torchrun's half is a file of its own."""
    return _OWN_HALF.sub(_HANDOVER, text) if key in ("entry.sh", "torchrun.sh") else text


def _variables(container: Manifest, name: str, index: int) -> dict[str, str]:
    """The variables of a container, as the kubelet makes them."""
    variables: dict[str, str] = {}
    for variable in container.get("env", ()):
        path = variable.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath", "")
        if "index" in path and "count" not in path:
            text = str(index)
        elif path:
            text = {"metadata.name": name, "metadata.namespace": "default"}.get(path, "0")
        else:
            text = _expand(variable.get("value") or "", variables)
        variables[variable["name"]] = text
    return variables


def _expand(text: str, variables: Mapping[str, str]) -> str:
    """A text with its ``$(NAME)``, as the kubelet reads it."""
    return _REFERENCE.sub(
        lambda match: "$" if match[0] == "$$" else variables.get(match[1], match[0]), text
    )
