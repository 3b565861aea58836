"""The retries of a Job's pods, and the sentences for when none is left.

The cluster's Jobs and those of this machine end in the same words.
"""

from __future__ import annotations

from dataclasses import dataclass

from allranks.humanize import plural


@dataclass(frozen=True, slots=True)
class Retries:
    """The retries that a Job allows its pods.

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


def fails_at_once(container: str, pod: str, code: int | None) -> str:
    """Return the sentence for an exit code that the podFailurePolicy answers with FailJob."""
    return (
        f"container {container} of {pod} ended with exit code {code}, which fails the job at once"
    )


def out_of_retries(reason: str, retries: Retries, failed: int) -> str:
    """Return why a Job ran out of retries; "" where it failed for another reason.

    Where each index has retries for itself, and the first index that has none left fails the Job,
    the sentence is the same as for a Job with one limit: nobody asked for indexes.

    Args:
        reason: of the Job's condition.
        retries: what the Job allows.
        failed: how many of its indexes have failed for good.
    """
    alone = retries.pods == 1 or not retries.without_retry
    none_left = f"no retry is left (backoffLimit {retries.per_index})"
    if reason == "BackoffLimitExceeded":
        sentence = f"no retry is left (backoffLimit {retries.limit})"
    elif reason == "MaxFailedIndexesExceeded" and retries.max_failed == 0:
        counted = alone and retries.per_index is not None
        sentence = none_left if counted else "an index failed for good"
    elif reason == "MaxFailedIndexesExceeded" and retries.max_failed is not None:
        sentence = f"more than {plural(retries.max_failed, 'index')} failed"
    elif reason == "FailedIndexes" and retries.pods == 1 and retries.per_index is not None:
        sentence = none_left
    elif reason == "FailedIndexes" and failed:
        sentence = f"{plural(failed, 'index')} failed for good"
    else:
        sentence = ""
    return sentence
