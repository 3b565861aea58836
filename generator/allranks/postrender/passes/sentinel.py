"""The sentinel: a document that fails a plain `helm install` without the post-renderer.

No cluster serves its kind, so that a release that went past us is refused as a whole. We take it
out, if we know all that it requires: a chart newer than this program may ask for more.
"""

from __future__ import annotations

from allranks import names
from allranks.postrender.workloads import group_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from allranks.postrender.edit import Edit

# What a sentinel may require, and the annotation that carries the request itself.
REQUIREMENTS = {
    "scheduling": names.SCHEDULING,
    "topology": names.SCHEDULING,
    "placement": names.PLACEMENT,
    "fabric": names.FABRIC,
    "rdma": names.FABRIC,
}
_REQUIRES = ("requires",)


def is_sentinel(edit: Edit) -> bool:
    """Whether the object is the sentinel of one of our charts."""
    manifest = edit.manifest
    return manifest.get("kind") == names.SENTINEL_KIND and group_of(manifest) == names.DOMAIN


def requirements(edit: Edit) -> list[str]:
    """The chart's requirements; each needs the annotation in `REQUIREMENTS`.

    Args:
        edit: the sentinel.

    Raises:
        InputError: it requires what this version cannot do.
    """
    required = edit.items(_REQUIRES)
    if edit.manifest.get("apiVersion") != names.SENTINEL_API_VERSION:
        version = edit.manifest.get("apiVersion")
        edit.refuse(("apiVersion",), f"{version!r} is newer than this program", _UPDATE)
    for index, name in enumerate(required):
        if not isinstance(name, str) or name not in REQUIREMENTS:
            edit.refuse(
                (*_REQUIRES, index),
                f"the chart requires {name!r} of the post-renderer, which this version cannot do "
                f"(it can: {', '.join(REQUIREMENTS)})",
                _UPDATE,
            )
    return required


_UPDATE = "update allranks to the version the chart was made for"
