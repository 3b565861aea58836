"""The port at which a probe or a hook of MPI workers looks for their sshd.

The chart's sshd has a port of its own. A hook that waits for port 22 would hold a worker back for
ever, and a probe of it would never call one ready; so sshd gets the port that they ask for.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from allranks.convert.pods.pod_template import PROBES, TRAINER
from allranks.k8s import fields as k8s
from allranks.values.sources import defaults

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from allranks.convert.verdicts import Fields

# What a line of a shell asks whether a port of its own pod is open by.
_PROBED_PORT = re.compile(
    r"(?:/dev/tcp/(?:localhost|127\.0\.0\.1)/|\bnc\s[^\n;&|]*?(?:localhost|127\.0\.0\.1)\s+)"
    r"([0-9]{1,5})(?![0-9])"
)


def take_over(fields: Fields) -> None:
    """Give the workers' sshd the port that their probes and hooks look for it at.

    Args:
        fields: the object, converted.
    """
    values = fields.values
    if values.get("workload") != "mpi" or k8s.text(values, "mpi", "transport") == "exec":
        return
    templates = (values, k8s.mapping(values, "mpi", "worker"))
    ports = {
        port
        for template in templates
        for container in k8s.items(template, "podTemplate", "spec", "containers")
        if container.get("name") == TRAINER
        for port in _ports(container)
    }
    own = defaults("mpi")["mpi"]["ssh"]["port"]
    if len(ports) == 1 and ports != {own}:
        port = ports.pop()
        fields.put(("mpi", "ssh", "port"), port)
        fields.note(
            f"a probe or a hook of the workers looks for sshd at port {port}, so mpi.ssh.port is it"
        )


def _ports(container: Mapping[str, Any]) -> Iterator[int]:
    """The ports of its own pod that a container's probes and hooks ask for."""
    named_ports = {
        k8s.text(port, "name"): port.get("containerPort") for port in k8s.items(container, "ports")
    }
    for key in PROBES:
        port = k8s.mapping(container, key, "tcpSocket").get("port")
        number = named_ports.get(port, port) if isinstance(port, str) else port
        if isinstance(number, int) and not isinstance(number, bool):
            yield number
    handlers = [k8s.mapping(container, key) for key in PROBES]
    handlers += [k8s.mapping(container, "lifecycle", "postStart")]
    for handler in handlers:
        for word in k8s.texts(k8s.mapping(handler, "exec").get("command")):
            yield from (int(port) for port in _PROBED_PORT.findall(word))
