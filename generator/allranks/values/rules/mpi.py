"""Rules about the settings of an MPI job."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Any

from allranks.humanize import plural
from allranks.model.layout import processes_of_last
from allranks.values.rules.base import Finding, ValuesRule, View, path
from allranks.values.rules.command import CONFIG_MAP_MAX, ENTRY_RESERVE
from allranks.values.rules.size import SIZE, RequestedSize, devices, hosts, size

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# Programs that start the ranks themselves; the chart puts no mpirun in front of these.
LAUNCHERS = (
    *("mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun", "prun"),
    *("horovodrun", "srun"),
)
# The exit code by which the launcher says that a worker was lost; its Job tries that again.
LOST_WORKER = 214
_SLOTS = ("procsPerNode", "mpi.slotsPerWorker")
_PRIVILEGED_PORTS = 1024
_SSH = 22
# What Intel's mpirun ends with when a rank has failed.
_INTEL_FAILED = 255
_DISCOVERY = "--host-discovery-script"


def starts_its_ranks(values: Mapping[str, Any]) -> bool:
    """Whether an MPI job's command is an mpirun itself, which says how many ranks it starts.

    Args:
        values: the job's values, with the chart's defaults.
    """
    command = [] if values["script"] else values["command"]
    own = values["mpi"]["ownMpirun"]
    return bool(own or (command and posixpath.basename(str(command[0])) in LAUNCHERS))


def _workers(view: View) -> Iterator[Finding]:
    expected, nodes = hosts(view), int(view["nodes"])
    if expected and nodes and expected != nodes:
        workers = int(view["mpi.numWorkers"])
        also = " and a launcher with ranks" if view["mpi.runLauncherAsWorker"] else ""
        yield Finding(
            path("mpi.numWorkers"),
            f"{plural(workers, 'worker')}{also} make {plural(expected, 'node')}, "
            f"and nodes is {nodes}",
            "leave one of the two out",
        )


def _slots(view: View) -> Iterator[Finding]:
    slots, procs, requested = int(view["mpi.slotsPerWorker"]), int(view["procsPerNode"]), size(view)
    if not slots:
        return
    if procs and procs != slots:
        yield Finding(
            path("mpi.slotsPerWorker"),
            f"{slots} contradicts procsPerNode, which is {procs}",
            "leave one of the two out",
        )
    elif not procs and requested is not None and requested.gpus and requested.gpus != slots:
        yield Finding(
            path("mpi.slotsPerWorker"),
            f"{slots} contradicts {devices(view, requested.gpus)} per node, one for each rank",
            f"leave it out for {requested.gpus}, or set procsPerNode for fewer ranks, or for ranks "
            "that share a GPU",
        )


def _np(view: View) -> Iterator[Finding]:
    ranks, slots = int(view["mpi.np"]), _all_slots(view)
    if slots is not None and ranks > slots:
        yield Finding(
            path("mpi.np"),
            f"{plural(ranks, 'rank')} do not fit the {plural(slots, 'slot')} of all hosts",
            f"use at most {slots}, or leave it out for all of them",
        )


def _all_slots(view: View) -> int | None:
    """The slots of all hosts; None where the size contradicts itself."""
    requested = size(view)
    if requested is None:
        return None
    most = max(requested.nodes, int(view["mpi.elastic.maxNodes"]))
    slots = _slots_of_one(view, requested)
    rest = int(view["gpus"]) % requested.gpus if requested.gpus and view["gpusPerNode"] else 0
    return most * slots - (slots - processes_of_last(slots, requested.gpus, rest) if rest else 0)


def _slots_of_one(view: View, requested: RequestedSize) -> int:
    return int(view["procsPerNode"]) or int(view["mpi.slotsPerWorker"]) or requested.gpus or 1


def _launcher_gpus(view: View) -> Iterator[Finding]:
    for side in ("requests", "limits"):
        if view["gpuResource"] in view["mpi.launcher.resources"][side]:
            yield Finding(
                path(f"mpi.launcher.resources.{side}", view["gpuResource"]),
                "follows from the size of the job",
                "remove it; set mpi.runLauncherAsWorker for a launcher with ranks",
            )


def _program(view: View) -> Iterator[Finding]:
    first = posixpath.basename(view["command"][0]) if view["command"] else ""
    own = view["mpi.ownMpirun"] or (not view["script"] and first in LAUNCHERS)
    if own and view["mpi.mpirunArgs"]:
        yield Finding(
            path("mpi.mpirunArgs"),
            f"command is {first}, which runs as it is"
            if first in LAUNCHERS
            else "with mpi.ownMpirun, the command runs as it is",
            "put the words into command",
        )
    elif not own and view["mpi.elastic.maxNodes"]:
        yield Finding(
            path("mpi.elastic"),
            "a range of hosts is for a program that finds them; mpirun starts a fixed number",
            "use horovodrun with --host-discovery-script /etc/mpi/discover_hosts.sh as command, "
            "or leave the range out",
        )


def _fatal(view: View) -> Iterator[Finding]:
    codes = view["runPolicy.fatalExitCodes"]
    if LOST_WORKER in codes:
        yield Finding(
            path("runPolicy.fatalExitCodes", codes.index(LOST_WORKER)),
            f"by {LOST_WORKER} the launcher says that a worker was lost, which is tried again",
            "remove it",
        )


def _transport(view: View) -> Iterator[Finding]:
    port = view["mpi.ssh.port"]
    if view["mpi.transport"] == "exec":
        if view["mpi.controller"] == "Job":
            yield Finding(
                path("mpi.controller"),
                "the transport exec reaches pods by names that are known before; a Job's are not",
                "use StatefulSet or leave it out, or set mpi.transport: ssh",
            )
        if view["mpi.ssh.existingSecret"]:
            yield Finding(
                path("mpi.ssh.existingSecret"),
                "the transport exec needs no key",
                "remove it, or set mpi.transport: ssh",
            )
    elif port < _PRIVILEGED_PORTS and view["security.restricted"]:
        yield Finding(
            path("mpi.ssh.port"),
            f"port {port} is for root, and security.restricted is true",
            f"use a port from {_PRIVILEGED_PORTS} to 65535, such as 2222",
        )


def _hostfile(view: View) -> Iterator[Finding]:
    requested = size(view)
    if requested is None:
        return
    count = max(requested.nodes, int(view["mpi.elastic.maxNodes"]))
    texts = [view[key].encode("utf-8", "replace") for key in ("script", "setup")]
    allowed = CONFIG_MAP_MAX - ENTRY_RESERVE - sum(map(len, texts))
    needed = host_bytes(view, count, _slots_of_one(view, requested))
    if needed <= allowed or allowed <= 0:
        return
    key = "nodes" if view["nodes"] else "mpi.numWorkers" if hosts(view) else "gpus"
    yield Finding(
        path("mpi.elastic.maxNodes" if count > requested.nodes else key),
        f"the names of {count} hosts have {needed} bytes, and the ConfigMap has room for {allowed}",
        "use fewer and larger hosts, or a shorter name for the release",
    )


def host_bytes(view: View, count: int, slots: int) -> int:
    """The size of the host file, with the shortest names where none are given yet."""
    release, namespace = view.release or "a", view.namespace or "a"
    mark = " slots=" if view["mpi.implementation"] == "OpenMPI" else ":"
    line = f"{release}-worker-.{release}.{namespace}.svc{mark}{slots}\n"
    digits = count + sum(count - least for least in (10, 100, 1_000, 10_000) if count > least)
    return count * len(line) + digits


def _host_port(view: View) -> Iterator[Finding]:
    if (
        view["network.hostNetwork"]
        and view["mpi.transport"] == "ssh"
        and view["mpi.ssh.port"] == _SSH
    ):
        yield Finding(
            path("mpi.ssh.port"),
            f"on the host's network {_SSH} is the port of the node's own sshd, where it has one",
            "use another, such as 2222",
        )


def _intel_codes(view: View) -> Iterator[Finding]:
    codes = view["runPolicy.fatalExitCodes"]
    if codes and view["mpi.implementation"] == "Intel" and _INTEL_FAILED not in codes:
        yield Finding(
            path("runPolicy.fatalExitCodes"),
            f"Intel's mpirun ends with {_INTEL_FAILED} whatever the ranks ended with",
            f"use {_INTEL_FAILED} where every failure is fatal, else remove it",
        )


def _discovery(view: View) -> Iterator[Finding]:
    command = view["command"]
    if not view["mpi.elastic.maxNodes"] or not command:
        return
    words = [*command, *view["args"]]
    if posixpath.basename(command[0]) == "horovodrun" and not any(
        word.startswith(_DISCOVERY) for word in words
    ):
        yield Finding(
            path("command"),
            f"horovodrun without {_DISCOVERY} starts on a fixed list of hosts",
            f"add {_DISCOVERY} /etc/mpi/discover_hosts.sh",
        )


RULES = (
    ValuesRule(
        "mpi-workers",
        "`mpi.numWorkers` and `nodes` agree; a launcher with ranks is one of the `nodes`.",
        (*SIZE, "mpi.numWorkers", "mpi.runLauncherAsWorker"),
        _workers,
        workload="mpi",
    ),
    ValuesRule(
        "mpi-slots",
        "`mpi.slotsPerWorker` agrees with `procsPerNode`, and without it with the GPUs of a node.",
        (*SIZE, *_SLOTS),
        _slots,
        workload="mpi",
    ),
    ValuesRule(
        "mpi-np",
        "`mpi.np` is at most the slots of all hosts.",
        (*SIZE, *_SLOTS, "mpi.elastic", "mpi.np"),
        _np,
        workload="mpi",
    ),
    ValuesRule(
        "mpi-launcher-gpus",
        "`mpi.launcher.resources` asks for no GPUs.",
        ("gpuResource", "mpi.launcher"),
        _launcher_gpus,
        workload="mpi",
    ),
    ValuesRule(
        "mpi-program",
        "`mpi.mpirunArgs` are for a `command` that is no mpirun itself, `mpi.elastic` for one "
        "that finds its hosts.",
        ("command", "script", "mpi.mpirunArgs", "mpi.ownMpirun", "mpi.elastic"),
        _program,
        workload="mpi",
    ),
    ValuesRule(
        "mpi-fatal",
        f"`runPolicy.fatalExitCodes` does not hold {LOST_WORKER}, by which the launcher reports a "
        "lost worker.",
        ("runPolicy",),
        _fatal,
        workload="mpi",
    ),
    ValuesRule(
        "mpi-transport",
        "The transport `exec` goes with a StatefulSet and without a key, `ssh` with a port that "
        "the pods' user may open.",
        ("mpi.transport", "mpi.controller", "mpi.ssh", "security.restricted"),
        _transport,
        workload="mpi",
    ),
    ValuesRule(
        "mpi-hostfile",
        "The host file fits into the ConfigMap of 1 MiB, beside `script`, `setup` and the entry "
        "scripts: some 20000 hosts.",
        (*SIZE, *_SLOTS, "mpi.elastic", "mpi.implementation", "script", "setup"),
        _hostfile,
        workload="mpi",
    ),
    ValuesRule(
        "mpi-host-port",
        "With `network.hostNetwork`, port 22 is the node's own.",
        ("network.hostNetwork", "mpi.transport", "mpi.ssh"),
        _host_port,
        warning=True,
        workload="mpi",
    ),
    ValuesRule(
        "mpi-intel-codes",
        "Intel's mpirun does not pass the ranks' exit codes on, so `runPolicy.fatalExitCodes` "
        "cannot tell them apart.",
        ("runPolicy", "mpi.implementation"),
        _intel_codes,
        warning=True,
        workload="mpi",
    ),
    ValuesRule(
        "mpi-discovery",
        "An elastic `horovodrun` is given `--host-discovery-script`.",
        ("command", "args", "mpi.elastic"),
        _discovery,
        warning=True,
        workload="mpi",
    ),
)
