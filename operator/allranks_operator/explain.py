"""What lies beside a run that does not get on: events, its place in a queue, its claims.

It is listed, not watched: only while a run is stuck, and once in some seconds for all runs of a
namespace. What may not be read is not asked for again and again.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, NamedTuple

from allranks.cluster import observe, paths
from allranks.errors import ForbiddenError, NotFoundError, RunError
from allranks_operator.kube.api import metadata, pairs
from allranks_operator.kube.errors import ExpiredError, GoneError, RefusedError
from allranks_operator.lacking import unheard

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allranks.cluster.port import Manifests
    from allranks.model.manifest import Manifest
    from allranks_operator.kube.api import Api
    from allranks_operator.lacking import Heard

_PAGE = 500
_PAGES_MAX = 20
_SECONDS = 20.0
# How long an answer is good for, and a refusal.
FRESH_SECONDS = 5.0
_REFUSED_SECONDS = 60.0
_KEPT = 1000


class _Question(NamedTuple):
    path: str
    namespace: str
    labels: str
    fields: str


class Explainer:
    """Asks for what explains a run; as `allranks.cluster.port.Lister` for `observe`."""

    def __init__(self, api: Api, heard: Heard = unheard) -> None:
        """Nothing is asked yet.

        Args:
            api: the API server.
            heard: told how each question ended.
        """
        self._api = api
        self._heard = heard
        self._lock = threading.Lock()
        self._known: dict[_Question, tuple[float, Manifests | NotFoundError | ForbiddenError]] = {}

    def explain(
        self, namespace: str, controllers: Sequence[Manifest], pods: Sequence[Manifest]
    ) -> tuple[tuple[Manifest, ...], tuple[Manifest, ...], tuple[str, ...]]:
        """Objects and events about a run, and what could not be seen.

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
        """What events tell of Jobs, those that are gone too, and what could not be seen.

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
    ) -> Manifests:
        """All objects of a list, as they were some seconds ago at the most.

        Raises:
            ForbiddenError: it may not be read.
            NotFoundError: the cluster has no such kind.
            RunError: the cluster does not answer.
        """
        del metadata_only  # nothing that is asked for here is big
        key = _Question(resource_path, namespace or "", label_selector, field_selector)
        now = time.monotonic()
        with self._lock:
            until, known = self._known.get(key, (0.0, []))
        if until <= now:
            known = self._ask(key)
            seconds = _REFUSED_SECONDS if isinstance(known, Exception) else FRESH_SECONDS
            with self._lock:
                if len(self._known) >= _KEPT:
                    self._known.clear()
                self._known[key] = (now + seconds, known)
        if isinstance(known, Exception):
            raise known
        return known

    def _ask(self, asked: _Question) -> Manifests | NotFoundError | ForbiddenError:
        found: Manifests = []
        token = ""
        action = f"list_{paths.plural(asked.path)}"
        try:
            for _ in range(_PAGES_MAX):
                query = pairs(
                    limit=str(_PAGE),
                    labelSelector=asked.labels,
                    fieldSelector=asked.fields,
                    **{"continue": token},
                )
                page = self._api.page(asked.path, asked.namespace, query, seconds=_SECONDS)
                found += page.get("items") or ()
                token = str(metadata(page).get("continue") or "")
                if not token:
                    break
        except ExpiredError:
            return found
        except GoneError as error:
            return NotFoundError(error.problem.message)
        except RefusedError as error:
            self._heard(asked.namespace, action, error)
            return ForbiddenError(error.problem.message)
        self._heard(asked.namespace, action, None)
        return found
