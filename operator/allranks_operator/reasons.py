"""The reasons of all Events that the watcher says, and what each means: one table.

docs/guides/watcher.md shows it; a test holds the two together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks.elastic import reasons
from allranks.status import creating

if TYPE_CHECKING:
    from collections.abc import Mapping

FAILED_CREATE = creating.FAILED_CREATE
PODS_CREATED = "PodsCreated"
ACTION_REFUSED = "ActionRefused"
NAME_TAKEN = "NameTaken"
NOT_READ = "NotRead"
RUN_SUCCEEDED = "RunSucceeded"
RUN_FAILED = "RunFailed"

TABLE: Mapping[str, str] = {
    **reasons.TABLE,
    RUN_SUCCEEDED: "a run has ended well",
    RUN_FAILED: "a run has failed; with the end of the failed rank's log where it may be read",
    FAILED_CREATE: "pods cannot be made; it has the API server's words, and it is tried again",
    PODS_CREATED: "pods can be created again, after they could not be",
    ACTION_REFUSED: "the API server does not take what the job needs; it is tried again rarely",
    NAME_TAKEN: "a Service that the job needs is somebody else's, and is used as it stands; or the "
    "ConfigMap of its history is, and is left alone",
    NOT_READ: "an object is nested too deep or too large, and nothing is done for it",
}
