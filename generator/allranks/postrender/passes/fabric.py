"""Add the shared memory and RDMA that collective libraries need to pods.

/dev/shm is memory-backed in every container that has not mounted something there. RDMA devices
are extended resources of the main containers, which may then lock memory (IPC_LOCK) for them.
"""

from __future__ import annotations

from allranks.postrender.edit import get, show_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from allranks.postrender.edit import Edit, Path
    from allranks.postrender.requests import Fabric
    from allranks.postrender.workloads import Workload

SHM_VOLUME = "allranks-shm"
SHM_PATH = "/dev/shm"  # noqa: S108 - the mount point that POSIX shared memory is made in
IPC_LOCK = "IPC_LOCK"


def apply(workload: Workload, ask: Fabric) -> None:
    """Add shared memory, extended resources and the capability.

    Args:
        workload: the object.
        ask: what it asks.
    """
    for template in workload.trainers:
        if ask.shm_size:
            _shared_memory(workload.edit, template.spec, ask.shm_size)
        if ask.rdma:
            for container in _main_containers(workload.edit, template.spec, ask.containers):
                _rdma(workload.edit, container, ask.resources)


def _shared_memory(edit: Edit, spec: Path, size: str) -> None:
    mounted = False
    for path in _containers(edit, spec, "containers"):
        mounts = edit.items((*path, "volumeMounts"))
        if not any(_is_shm(get(mount, ("mountPath",))) for mount in mounts):
            mount = {"name": SHM_VOLUME, "mountPath": SHM_PATH}
            edit.append((*path, "volumeMounts"), mount)
            mounted = True
    volumes = edit.items((*spec, "volumes"))
    if mounted and not any(get(volume, ("name",)) == SHM_VOLUME for volume in volumes):
        volume = {"name": SHM_VOLUME, "emptyDir": {"medium": "Memory", "sizeLimit": size}}
        edit.append((*spec, "volumes"), volume)


def _is_shm(path: Any) -> bool:
    return isinstance(path, str) and path.rstrip("/") == SHM_PATH


def _rdma(edit: Edit, container: Path, resources: tuple[tuple[str, int | str], ...]) -> None:
    for name, amount in resources:
        explicit = edit.get((*container, "resources", "limits", name))
        # An extended resource must be requested as it is limited.
        for side in ("limits", "requests"):
            # As text, which is how the API server stores an amount.
            value = str(amount) if explicit is None else explicit
            edit.default((*container, "resources", side, name), value)
    capabilities = (*container, "securityContext", "capabilities", "add")
    if not {"ALL", IPC_LOCK} & set(map(str, edit.items(capabilities))):
        edit.append(capabilities, IPC_LOCK)


def _main_containers(edit: Edit, spec: Path, container_names: tuple[str, ...]) -> list[Path]:
    """The containers named; else those with a GPU; else the first."""
    paths = _containers(edit, spec, "containers")
    if container_names:
        return [path for path in paths if edit.get((*path, "name")) in container_names]
    with_gpu = [path for path in paths if _has_gpu(edit, path)]
    return with_gpu or paths[:1]


def _has_gpu(edit: Edit, container: Path) -> bool:
    limits = edit.get((*container, "resources", "limits"))
    if not isinstance(limits, dict):
        return False
    return any(
        "/" in name and ("gpu" in name or name.startswith("nvidia.com/mig-")) for name in limits
    )


def _containers(edit: Edit, spec: Path, field: str) -> list[Path]:
    paths: list[Path] = []
    for index, container in enumerate(edit.items((*spec, field))):
        path = (*spec, field, index)
        if not isinstance(container, dict):
            edit.refuse(path, f"{show_path(path)} is not a container")
        paths.append(path)
    return paths
