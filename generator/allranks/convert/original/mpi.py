"""The pods of mpi-operator for an MPIJob (v1alpha1, v1, v2beta1), and of batch.test.bdap.com's.

The host file is what pkg/controller/mpi_job_controller.go writes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks.convert.jobs.mpi_agents import KEY_FILE
from allranks.convert.jobs.mpi_hosts import HOSTFILE
from allranks.convert.kinds import mpi_v1alpha1
from allranks.convert.original import OriginalPod
from allranks.convert.original.templates import (
    check_count,
    main,
    name_of,
    namespace_of,
    pod_count,
    pod_template,
    replica_count,
    replica_specs,
)
from allranks.convert.verdicts import Fields
from allranks.k8s.fields import count, items, mapping

if TYPE_CHECKING:
    from allranks.convert.documents.document import Manifest


def pods(manifest: Manifest) -> list[OriginalPod]:
    """The pods of Kubeflow's MPIJob.

    Args:
        manifest: the object.
    """
    if mpi_v1alpha1.is_of_it(manifest):
        return _of_one_template(manifest)
    name, namespace = name_of(manifest), namespace_of(manifest)
    spec = mapping(manifest.get("spec"))
    by_role = {role: (number, own) for role, number, own in replica_specs(manifest, _KEY)}
    workers, worker = by_role.get("Worker", (0, {}))
    _, launcher = by_role.get("Launcher", (1, {}))
    slots_field = spec.get("slotsPerWorker")
    slots = 1 if slots_field is None else replica_count(slots_field)
    keys: dict[str, str] = {}
    if str(manifest.get("apiVersion")).startswith("kubeflow.org/v2"):
        folder = str(spec.get("sshAuthMountPath") or "/root/.ssh")
        keys[f"{folder.rstrip('/')}{KEY_FILE}"] = "the job's key"
    else:  # it reaches pods by the API
        launcher["spec"]["serviceAccountName"] = f"{name}-launcher"
    as_worker = spec.get("runLauncherAsWorker") is True
    hosts = [f"{name}-launcher"] if as_worker else []
    hosts += [f"{name}-worker-{index}" for index in range(workers)]
    # Both other MPIs read `host:slots`; what is none of them was never taken.
    sign = ":" if str(spec.get("mpiImplementation")) in ("Intel", "MPICH") else " slots="
    lines = "".join(f"{host}.{name}.{namespace}.svc{sign}{slots}\n" for host in hosts)
    container = str(spec.get("mainContainer") or "")
    result = [
        OriginalPod(
            f"{name}-launcher",
            "launcher",
            0,
            launcher,
            main(launcher, container),
            env={"K_MPI_JOB_ROLE": "launcher"},
            files={HOSTFILE: lines, **keys},
            world=len(hosts) * slots,
            ranks=slots if as_worker else 0,
        )
    ]
    result += [
        OriginalPod(
            f"{name}-worker-{index}",
            "worker",
            index,
            worker,
            main(worker, container),
            env={"K_MPI_JOB_ROLE": "worker"},
            world=len(hosts) * slots,
            ranks=slots,
        )
        for index in range(workers)
    ]
    return result


_KEY = "mpiReplicaSpecs"


def _of_one_template(manifest: Manifest) -> list[OriginalPod]:
    """The pods of v1alpha1, whose workers sleep with the amounts of its template."""
    name, own = name_of(manifest), mpi_v1alpha1.allocation(Fields(manifest))
    check_count(own.workers)
    slots = count(mapping(manifest.get("spec")).get("slotsPerWorker", own.slots))
    launcher, worker = pod_template(manifest.get("spec")), pod_template(manifest.get("spec"))
    launcher["spec"]["serviceAccountName"] = f"{name}-launcher"
    for container in items(launcher, "spec", "containers")[:1]:
        container.pop("resources", None)
    for container in items(worker, "spec", "containers")[:1]:
        container.pop("args", None)
        container["command"] = list(mpi_v1alpha1.SLEEP)
        if own.units:
            limits = {**mapping(container, "resources", "limits"), own.resource: str(own.units)}
            container["resources"] = {**mapping(container, "resources"), "limits": limits}
    hosts = [f"{name}-worker-{index}" for index in range(own.workers)]
    lines = "".join(f"{host} slots={slots}\n" for host in hosts)
    files, world = {HOSTFILE: lines}, len(hosts) * slots
    result = [
        OriginalPod(
            f"{name}-launcher", "launcher", 0, launcher, main(launcher), files=files, world=world
        )
    ]
    result += [
        OriginalPod(host, "worker", index, worker, main(worker), world=world, ranks=slots)
        for index, host in enumerate(hosts)
    ]
    return result


def pods_of_seed(manifest: Manifest) -> list[OriginalPod]:
    """The pods of an MPIJob of batch.test.bdap.com: each worker has a slot, whatever it asks for.

    Args:
        manifest: the object.
    """
    name, spec = name_of(manifest), mapping(manifest.get("spec"))
    workers = pod_count(spec.get("numWorkers"))
    launcher, worker = pod_template(spec, "launcherTemplate"), pod_template(spec, "workerTemplate")
    launcher["spec"]["serviceAccountName"] = f"{name}-launcher"
    lines = "".join(f"{name}-worker-{index} slots=1\n" for index in range(workers))
    result = [
        OriginalPod(
            f"{name}-launcher",
            "launcher",
            0,
            launcher,
            main(launcher),
            files={HOSTFILE: lines},
            world=workers,
        )
    ]
    result += [
        OriginalPod(
            f"{name}-worker-{index}", "worker", index, worker, main(worker), world=workers, ranks=1
        )
        for index in range(workers)
    ]
    return result
