"""Ports of a manifest that have the name of the chart's own port.

A container with two ports of one name is refused by the API server. So the manifest's port keeps
its number and loses its name, and the probes and hooks that asked for it by name ask by number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from allranks.convert.pods.pod_template import OF_TRAINER, PROBES, TRAINER
from allranks.k8s import fields as k8s
from allranks.values.sources import defaults

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from allranks.convert.verdicts import FieldPath, Fields

# What the charts call the port that their pods listen on.
_PORT_NAMES = {"elastic": "training", "mpi": "ssh", "torchrun": "rendezvous"}
_HOOKS = ("postStart", "preStop")
_ACTIONS = ("httpGet", "tcpSocket")


def take_over(fields: Fields) -> None:
    """Take the chart's name from ports of the manifest that have another number.

    Args:
        fields: the object, converted.
    """
    workload = str(fields.values.get("workload") or "")
    name = _PORT_NAMES.get(workload)
    if name is None or k8s.text(fields.values, "mpi", "transport") == "exec":
        return
    for above, template in _templates(fields.values):
        for container in k8s.items(template, "podTemplate", "spec", "containers"):
            if container.get("name") != TRAINER:
                continue
            for port in k8s.items(container, "ports"):
                number = port.get("containerPort")
                # Of one number, the two are one port to the chart.
                if port.get("name") != name or number == _own_number(fields.values, workload):
                    continue
                del port["name"]
                _ask_by_number(container, name, number)
                _report(fields, (*above, *OF_TRAINER, "ports"), name, number)


def _templates(values: Mapping[str, Any]) -> Iterator[tuple[FieldPath, Mapping[str, Any]]]:
    """The templates of all pods that have a port of the chart, and where they stand."""
    yield (), values
    yield ("mpi", "worker"), k8s.mapping(values, "mpi", "worker")
    for role in k8s.mapping(values, "elastic", "roles"):
        yield ("elastic", "roles", role), k8s.mapping(values, "elastic", "roles", role)


def _own_number(values: Mapping[str, Any], workload: str) -> int | None:
    if workload != "mpi":
        return None
    ssh = k8s.mapping(values, "mpi", "ssh")
    number = ssh.get("port", defaults("mpi")["mpi"]["ssh"]["port"])
    return number if isinstance(number, int) else None


def _ask_by_number(container: Mapping[str, Any], name: str, number: object) -> None:
    handlers = [k8s.mapping(container, key) for key in PROBES]
    handlers += [k8s.mapping(container, "lifecycle", hook) for hook in _HOOKS]
    for handler in handlers:
        for key in _ACTIONS:
            action = handler.get(key)
            if isinstance(action, dict) and action.get("port") == name:
                action["port"] = number


def _report(fields: Fields, to: FieldPath, name: str, number: object) -> None:
    source = fields.origins.get(to, ())
    for index, port in fields.items(*source) if source else ():
        if port.get("name") == name and port.get("containerPort") == number:
            fields.change(
                (*source, index, "name"),
                "the chart's own port has this name, and a container has no two of it",
            )
