"""Checks of the whole stream, after the passes."""

from __future__ import annotations

from allranks import names
from allranks.postrender.passes import sentinel
from allranks.postrender.stream import split

TYPE_CHECKING = False
if TYPE_CHECKING:
    from allranks.postrender.edit import Edit


def sentinels(edits: list[Edit], requests: set[str], output: str) -> None:
    """Check that the sentinels were rightly removed.

    Args:
        edits: the sentinels that were taken out.
        requests: the annotations by which objects of the stream asked for something.
        output: what is left of the stream.

    Raises:
        InputError: a sentinel requires what no object asks for, or nothing is left: Helm 3 would
            take an empty release for a good one and, on an upgrade, delete everything.
    """
    for edit in edits:
        for name in sentinel.requirements(edit):
            if sentinel.REQUIREMENTS[name] not in requests:
                edit.refuse(
                    ("requires",),
                    f"{name!r} is required, but no object carries {sentinel.REQUIREMENTS[name]!r}",
                    "keep the annotations that the chart writes",
                )
        if not requests:
            edit.refuse(
                (),
                f"the chart asks for the post-renderer, but no object says what for: "
                f"none carries {names.SCHEDULING}, {names.PLACEMENT} or {names.FABRIC}",
                "keep the annotations that the chart writes",
            )
    if not any(document.has_content for document in split(output)):
        edits[0].refuse((), f"there is nothing in the stream but {names.SENTINEL_KIND}")
