"""How the values of a sweep were written, where they were merged from several files and flags."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks.yamlio.document import Document

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allranks.schema.paths import ValuesPath
    from allranks.sweep.values.reading import TokenOf
    from allranks.values.sources import Flag


def finder(layers: Sequence[Document | Flag]) -> TokenOf:
    """Gives how the value at a path was written; None where no file says so.

    Args:
        layers: the sources of the values, the earliest first, as `values.sources` has them. The
            last that has a path wins; who asks compares the token with the value, so that a flag
            that changed it since does no harm.
    """
    documents = [layer for layer in reversed(layers) if isinstance(layer, Document)]

    def token(path: ValuesPath) -> str | None:
        found = (document for document in documents if document.line(path) is not None)
        last = next(found, None)
        return None if last is None else last.token(path)

    return token
