"""Add the command line's labels to built-in objects and their pods.

Never on selectors (they are immutable) and never over a label that is there.
"""

from __future__ import annotations

from allranks.postrender.workloads import is_built_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from allranks.postrender.edit import Edit
    from allranks.postrender.options import PostrenderOptions
    from allranks.postrender.workloads import Workload


def apply(edit: Edit, workload: Workload | None, options: PostrenderOptions) -> None:
    """Add the labels where they are absent.

    Args:
        edit: the object.
        workload: the same object, if it makes pods.
        options: `labels` is read.
    """
    if workload is None and not is_built_in(edit.manifest):
        return
    for key, value in options.labels:
        edit.default(("metadata", "labels", key), value)
        for template in workload.templates if workload else ():
            edit.default((*template.labels, key), value)
