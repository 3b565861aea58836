"""The provenance of an object: the digest of its values, and the generator's version.

On an object's own metadata only: on a pod template it would restart every pod with each release of
ours.
"""

from __future__ import annotations

from allranks import __version__, names
from allranks.postrender.workloads import is_built_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from allranks.postrender.edit import Edit
    from allranks.postrender.options import PostrenderOptions

_ANNOTATIONS = ("metadata", "annotations")


def apply(edit: Edit, options: PostrenderOptions) -> None:
    """Add the digest where it is requested, and the version beside each digest.

    Args:
        edit: the object.
        options: `values_digest` is read.
    """
    if options.values_digest and is_built_in(edit.manifest):
        edit.default((*_ANNOTATIONS, names.VALUES_DIGEST), options.values_digest)
    if edit.get((*_ANNOTATIONS, names.VALUES_DIGEST)) is not None:
        edit.put((*_ANNOTATIONS, names.GENERATOR_VERSION), __version__)
