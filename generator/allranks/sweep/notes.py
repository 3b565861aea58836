"""What a sweep of releases does otherwise than the same file in plain Helm; said when it begins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def of(section: Mapping[str, Any], values: Mapping[str, Any]) -> list[str]:
    """Sentences for a person.

    Args:
        section: what stands under `sweep`.
        values: those of a trial, over the defaults of its chart.
    """
    return [*_tensorboard(section), *_volumes(values)]


def _tensorboard(section: Mapping[str, Any]) -> Iterator[str]:
    board = section.get("tensorboard")
    if isinstance(board, dict) and board.get("enabled"):
        yield (
            "sweep.tensorboard is made by plain Helm alone, so there will be none here; "
            "run one of your own on a volume that all trials share"
        )


def _volumes(values: Mapping[str, Any]) -> Iterator[str]:
    """Each volume that every trial would have for itself, and what becomes of it."""
    for name, volume in (values.get("storage") or {}).items():
        if not isinstance(volume, dict) or volume.get("existingClaim"):
            continue
        if not (volume.get("size") or volume.get("sizePerGpu")):
            continue
        if volume.get("keep"):
            end = "which stays when the trial is removed (keep: true)"
        else:
            end = "which goes when the trial is removed, with all that it wrote there"
        yield (
            f"storage.{name}: each trial has a volume of its own, {end}; "
            f"storage.{name}.existingClaim names one that all share"
        )
