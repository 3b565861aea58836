"""Pod Security "restricted", where the manifest sets nothing.

A namespace that enforces the level refuses pods without these fields. What a chart says itself is
never changed: a container that is privileged on purpose stays so, and the namespace refuses it.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from allranks.postrender.edit import Edit, Path
    from allranks.postrender.workloads import Workload

_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")
# These are refused by the API server together with allowPrivilegeEscalation: false.
_ESCALATING = ("SYS_ADMIN", "CAP_SYS_ADMIN", "ALL")


def apply(workload: Workload) -> None:
    """Add what the level requires to a pod and each of its containers.

    Args:
        workload: the object.
    """
    edit = workload.edit
    for template in workload.templates:
        if edit.get((*template.spec, "os", "name")) == "windows":
            # The API server refuses these fields there.
            continue
        paths = [
            (*template.spec, field, index, "securityContext")
            for field in _CONTAINERS
            for index, _ in enumerate(edit.items((*template.spec, field)))
        ]
        _pod(edit, (*template.spec, "securityContext"), paths)
        for path in paths:
            _container(edit, path)


def _pod(edit: Edit, context: Path, containers: list[Path]) -> None:
    edit.default((*context, "seccompProfile"), {"type": "RuntimeDefault"})
    if edit.get((*context, "runAsUser")) == 0:
        return
    if any(_is_root(edit, path) for path in containers):
        # One container is root on purpose: the pod's own field would keep it from starting.
        if edit.get((*context, "runAsNonRoot")) is None:
            for path in containers:
                if not _is_root(edit, path):
                    edit.default((*path, "runAsNonRoot"), value=True)
        return
    edit.default((*context, "runAsNonRoot"), value=True)


def _is_root(edit: Edit, context: Path) -> bool:
    return edit.get((*context, "runAsUser")) == 0 and edit.get((*context, "runAsNonRoot")) is None


def _container(edit: Edit, context: Path) -> None:
    capabilities = {str(item) for item in edit.items((*context, "capabilities", "add"))}
    if edit.get((*context, "privileged")) is not True and not capabilities & set(_ESCALATING):
        edit.default((*context, "allowPrivilegeEscalation"), value=False)
    edit.default((*context, "capabilities", "drop"), ["ALL"])
