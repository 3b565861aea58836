"""The elasticPolicy of a PyTorchJob: where its ranks meet, and how often they start again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks.convert.programs import commands, references
from allranks.convert.verdicts import Outcome

if TYPE_CHECKING:
    from allranks.convert.verdicts import FieldPath, Fields

_ETCD = ("etcd", "etcd-v2")
NESTED = (
    "the command calls a launcher of its own (torchrun, accelerate), which is told of a fixed "
    "number of nodes here: call torchrun as the container's command for a run that changes its size"
)
_PORT = 23456  # which it opens where no container has one of its name


def put(fields: Fields, program: commands.Program, containers: FieldPath) -> None:
    """Put the rendezvous and the restarts of a PyTorchJob.

    Args:
        fields: the object.
        program: what its pods run.
        containers: those of its workers.
    """
    path: FieldPath = ("spec", "elasticPolicy")
    if program.is_nested:
        for key in ("rdzvBackend", "rdzvHost", "rdzvPort", "rdzvConf", "maxRestarts"):
            fields.leave((*path, key), NESTED)
        return
    if fields.values.get("nodes") == 1 and "elastic" not in fields.values.get("torchrun", {}):
        for key in ("rdzvBackend", "rdzvHost", "rdzvPort", "rdzvConf"):
            fields.change((*path, key), "a run of one node meets there, without a rendezvous")
        _restarts(fields, (*path, "maxRestarts"), program)
        return
    _put_rendezvous(fields, program, containers)
    _restarts(fields, (*path, "maxRestarts"), program)


def _put_rendezvous(fields: Fields, program: commands.Program, containers: FieldPath) -> None:
    """Put where the ranks of several nodes meet."""
    path: FieldPath = ("spec", "elasticPolicy")
    own = {
        name: text
        for name, text in program.options.items()
        if not references.mentions((text,), ("PET_*",))
    }
    backend = own.get("rdzv-backend") or fields.text(*path, "rdzvBackend")
    host, port = fields.text(*path, "rdzvHost"), fields.number(*path, "rdzvPort")
    if "rdzv-backend" in own:
        fields.change(
            (*path, "rdzvBackend"), "the command's --rdzv-backend wins", "torchrun.rdzvBackend"
        )
    elif backend in _ETCD and not (host or "rdzv-endpoint" in own):
        fields.leave((*path, "rdzvBackend"), _NO_ETCD)
        backend = ""
    elif backend in ("c10d", *_ETCD):
        fields.carry((*path, "rdzvBackend"), ("torchrun", "rdzvBackend"))
    elif backend:
        fields.change((*path, "rdzvBackend"), "torchrun's own is c10d here", "torchrun.rdzvBackend")
    if backend in _ETCD and "rdzv-endpoint" in own:
        for key in ("rdzvHost", "rdzvPort"):
            why = "the command's --rdzv-endpoint wins"
            fields.change((*path, key), why, "torchrun.rdzvEndpoint")
    elif backend in _ETCD:
        if host:
            endpoint = f"{host}:{port or _port(fields, containers)}"
            fields.carry((*path, "rdzvHost"), ("torchrun", "rdzvEndpoint"), endpoint)
            fields.say((*path, "rdzvPort"), Outcome.CARRIED, "torchrun.rdzvEndpoint")
    elif port:
        fields.carry((*path, "rdzvPort"), ("torchrun", "port"), port)
    _rendezvous_settings(fields, (*path, "rdzvConf"), is_own="rdzv-conf" in own)


_NO_ETCD = (
    "no rdzvHost names the host of an etcd, and the operator took the first worker for it, which "
    "is none: the ranks meet at rank 0 here; for an etcd write torchrun.rdzvBackend and "
    "torchrun.rdzvEndpoint"
)


def _rendezvous_settings(fields: Fields, path: FieldPath, *, is_own: bool) -> None:
    """Put the settings of a rendezvous, which a command's own replace as a whole."""
    if is_own:
        fields.change(path, "the command's --rdzv-conf wins", "torchrun.rdzvConf")
        return
    pairs = {
        str(item["key"]): str(item["value"])
        for _, item in fields.items(*path)
        if "key" in item and "value" in item
    }
    if pairs:
        fields.carry(path, ("torchrun", "rdzvConf"), pairs)


def _port(fields: Fields, containers: FieldPath) -> int:
    """The port of the workers' container that the operator takes for rdzvPort, or gives them.

    pkg/controller.v1/pytorch/elastic.go (generateEnvRDZVEndpoint) of kubeflow/training-operator.
    """
    ports = (
        fields.number(*containers, index, "ports", place, "containerPort")
        for index, _ in fields.items(*containers)
        for place, port in fields.items(*containers, index, "ports")
        if port.get("name") == "pytorchjob-port"
    )
    return next((port for port in ports if port), _PORT)


def _restarts(fields: Fields, path: FieldPath, program: commands.Program) -> None:
    if program.runner is not commands.Runner.TORCHRUN:
        fields.change(path, "the command runs no torchrun that would read it")
    elif "max-restarts" in program.options:
        fields.change(path, "the command's --max-restarts wins", "torchrun.maxRestarts")
    elif (restarts := fields.number(*path)) is not None:
        fields.carry(path, ("torchrun", "maxRestarts"), restarts)
