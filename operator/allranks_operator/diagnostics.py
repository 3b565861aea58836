"""Objects that explain a run that does not get on: events, queues, claims.

They are listed, not watched: only while a run is stuck, and once in some seconds for all runs of a
namespace. A list that is forbidden is not requested again for a minute.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, NamedTuple

from allranks.cluster import observe, paths
from allranks.cluster.paths import pairs
from allranks.errors import ExpiredError, ForbiddenError, NotFoundError, RefusedError, RunError
from allranks_operator.kube.client import metadata
from allranks_operator.missing_permissions import ignore_result

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from allranks.cluster.interface import Manifests
    from allranks.k8s.manifest import Manifest
    from allranks_operator.kube.client import Api
    from allranks_operator.missing_permissions import ResultCallback

_PAGE = 500
_PAGES_MAX = 20
_SECONDS = 20.0
# How long an answer is reused, and a refusal.
FRESH_SECONDS = 5.0
_REFUSED_SECONDS = 60.0
_ANSWERS_MAX = 1000


class _Question(NamedTuple):
    path: str
    namespace: str
    labels: str
    fields: str


class Explainer:
    """Lists the objects that explain a run; an `ObjectLister` for `cluster.observe`."""

    def __init__(self, api: Api, on_result: ResultCallback = ignore_result) -> None:
        """Create it; nothing is requested yet.

        Args:
            api: the API server.
            on_result: called with the result of each request.
        """
        self._api = api
        self._on_result = on_result
        self._lock = threading.Lock()
        self._answers: dict[
            _Question, tuple[float, Manifests | NotFoundError | ForbiddenError]
        ] = {}

    def explain(
        self, namespace: str, controllers: Sequence[Manifest], pods: Sequence[Manifest]
    ) -> tuple[tuple[Manifest, ...], tuple[Manifest, ...], tuple[str, ...]]:
        """The objects and events that explain a run, and notes on what could not be read.

        Args:
            namespace: its namespace.
            controllers: its Jobs and StatefulSets.
            pods: its pods.
        """
        try:
            objects, events, notes = observe.explain(self, namespace, controllers, pods)
        except RunError:
            return (), (), ()  # the cluster does not answer: a later look will tell
        return tuple(objects), tuple(events), notes

    def ends(self, namespace: str) -> tuple[tuple[Manifest, ...], tuple[str, ...]] | None:
        """The events about Jobs, deleted ones too, and notes on what could not be read.

        Args:
            namespace: their namespace.

        Returns:
            None where the cluster does not answer: a later look will tell.
        """
        try:
            events, notes = observe.ends(self, namespace)
        except RunError:
            return None
        return tuple(events), notes

    def list(
        self,
        resource_path: str,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        metadata_only: bool = False,
        unread: Callable[[str], None] | None = None,
    ) -> Manifests:
        """All objects of a list, at most some seconds old.

        Raises:
            ForbiddenError: it may not be read.
            NotFoundError: the cluster has no such kind.
            RunError: the cluster does not answer.
        """
        del metadata_only, unread  # nothing listed here is large or deep
        key = _Question(resource_path, namespace or "", label_selector, field_selector)
        now = time.monotonic()
        with self._lock:
            until, answer = self._answers.get(key, (0.0, []))
        if until <= now:
            answer = self._fetch(key)
            seconds = _REFUSED_SECONDS if isinstance(answer, Exception) else FRESH_SECONDS
            with self._lock:
                if len(self._answers) >= _ANSWERS_MAX:
                    self._answers.clear()
                self._answers[key] = (now + seconds, answer)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _fetch(self, question: _Question) -> Manifests | NotFoundError | ForbiddenError:
        objects: Manifests = []
        token = ""
        action = f"list_{paths.plural(question.path)}"
        try:
            for _ in range(_PAGES_MAX):
                query = pairs(
                    limit=str(_PAGE),
                    labelSelector=question.labels,
                    fieldSelector=question.fields,
                    **{"continue": token},
                )
                page = self._api.page(question.path, question.namespace, query, seconds=_SECONDS)
                objects += page.get("items") or ()
                token = str(metadata(page).get("continue") or "")
                if not token:
                    break
        except ExpiredError:
            return objects
        except NotFoundError as error:
            return error
        except RefusedError as error:
            self._on_result(question.namespace, action, error)
            return ForbiddenError(error.problem.message)
        self._on_result(question.namespace, action, None)
        return objects
