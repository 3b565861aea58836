"""How often a Job tries its pods again, and what is said when no try is left.

The cluster's Jobs and those of this machine end in the same words.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Retries:
    """What a Job allows its pods.

    Attributes:
        limit: failed pods in all.
        per_index: failed pods of one index; None where the Job has no such limit.
        max_failed: indexes that may fail; None for any number.
        pods: how many pods the Job is made of.
        without_retry: whether an exit code fails an index that has retries left.
    """

    limit: int
    per_index: int | None = None
    max_failed: int | None = None
    pods: int = 0
    without_retry: bool = False


def out_of_retries(reason: str, retries: Retries, failed: int) -> str:
    """Why a Job has failed, for the reasons that are about retries; "" for another reason.

    Where each index has retries for itself, and the first index that has none left fails the Job,
    the sentence is the same as for a Job with one limit: nobody asked for indexes.

    Args:
        reason: of the Job's condition.
        retries: what the Job allows.
        failed: how many of its indexes have failed for good.
    """
    if reason == "BackoffLimitExceeded":
        return f"no retry is left (backoffLimit {retries.limit})"
    alone = retries.pods == 1 and retries.per_index is not None
    if reason == "MaxFailedIndexesExceeded":
        if retries.max_failed == 0 and retries.per_index is not None:
            if alone or not retries.without_retry:
                return f"no retry is left (backoffLimit {retries.per_index})"
            return "an index failed for good"
        most = retries.max_failed
        return f"more than {most} indexes failed" if most is not None else ""
    if reason == "FailedIndexes":
        if alone:
            return f"no retry is left (backoffLimit {retries.per_index})"
        noun = "index" if failed == 1 else "indexes"
        return f"{failed} {noun} failed for good" if failed else ""
    return ""
