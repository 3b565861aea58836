"""Making and removing the releases of trials: several helm processes at a time, each beside us.

What helm says when it fails decides what becomes of a trial. A full quota and a cluster that does
not answer are waited for; values that the chart refuses are wrong for ever. Whatever a failed
install has left is removed before the failure is told, so that nothing of it is there.
"""

from __future__ import annotations

import os
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from allranks.errors import AllranksError, ForbiddenError, InputError, ReleaseTakenError, RunError
from allranks.helm import releases
from allranks.sweep import actions, owner
from allranks.sweep.actions import Observed
from allranks.sweep.trials import removing
from allranks.sweep.trials.copies import ChartCopy
from allranks.sweep.values import foreign

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from allranks.cluster.port import Cluster, Manifests
    from allranks.helm.releases import Home
    from allranks.sweep.model import Trial
    from allranks.sweep.values.prepare import Prepared

# How many helm processes run at a time: each needs a core for most of its life, and some memory; a
# container that may use two cores of many sees all of them here.
AT_ONCE = min(16, max(4, 2 * (os.cpu_count() or 1)))
# So often the removal of a release may fail.
_REMOVALS = 10
# Words of failures that pass, in our own messages (`allranks.helm.failures`).
_PASSING = (
    *("quota forbids", "does not answer", "exceeded quota", "too many requests"),
    "cannot be fetched",
)
# Of failures that do not, whatever is tried.
_LASTING = ("is invalid", "is forbidden", "unknown field", "cluster refuses", "Kubernetes refuses")
_NEEDS_POST_RENDERER = "need the post-renderer"


class Releasing:
    """The helm work of one sweep.

    Attributes:
        failed: releases that could not be made, until they are removed or tried again.
    """

    def __init__(
        self, prepared: Prepared, cluster: Cluster, home: Home, wake: Callable[[], None]
    ) -> None:
        """Nothing is started.

        Args:
            prepared: the sweep.
            cluster: where its releases are.
            home: where its releases are to be; the name is of no matter.
            wake: called when something is done, by any thread.
        """
        self.failed: dict[str, Observed] = {}
        self._prepared = prepared
        self._cluster = cluster
        self._home = replace(home, is_tied=True)
        self._wake = wake
        self._pool = ThreadPoolExecutor(AT_ONCE, "sweep-helm")
        self._making: dict[str, Future[Observed | None]] = {}
        self._removing: dict[str, Future[str]] = {}
        self._troubles: dict[str, int] = {}
        # Found out by the first trial: whether the manifests ask for the post-renderer.
        self._post_render = False
        self._is_checked = prepared.layout is not None
        self._copy: ChartCopy | None = None
        self._chart = prepared.chart

    def take_in(self) -> None:
        """Take in what is done; until then it counts as under way.

        Raises:
            RunError: a release cannot be removed, however often that is tried.
        """
        for name in [name for name, future in self._making.items() if future.done()]:
            future = self._making.pop(name)
            refused = None if future.cancelled() else future.result()
            if refused is not None:
                self.failed[name] = refused
        for name in [name for name, future in self._removing.items() if future.done()]:
            removal = self._removing.pop(name)
            self._count(name, "" if removal.cancelled() else removal.result())

    def under_way(self) -> dict[str, Observed]:
        """What is being made and removed."""
        now = time.time()
        return {
            **dict.fromkeys(self._making, Observed(actions.STARTING, since=now)),
            **dict.fromkeys(self._removing, Observed(actions.REMOVING, since=now)),
        }

    def start(self, trial: Trial, values: Mapping[str, Any]) -> None:
        """Begin to make a release."""
        if trial.name not in self._making and trial.name not in self._removing:
            self.failed.pop(trial.name, None)
            self._prepare_chart()
            self._making[trial.name] = self._submit(self._make, trial, dict(values))

    def remove(self, name: str) -> None:
        """Begin to remove a release, or forget that it could not be made."""
        if name not in self._removing and name not in self._making:
            self.failed.pop(name, None)
            self._removing[name] = self._submit(self._remove, name)

    def close(self, *, at_once: bool) -> None:
        """Give up what has not begun; wait for the rest, unless it is to be at once."""
        self._pool.shutdown(wait=not at_once, cancel_futures=True)
        # Else the folder goes when the process ends, as does the last helm that reads in it.
        if self._copy is not None and not at_once:
            self._copy.close()

    def _prepare_chart(self) -> None:
        """Before the first install: the chart without what was looked at once for all trials."""
        chart = self._prepared.chart
        if self._copy is not None or not self._is_checked or not isinstance(chart, Path):
            return
        with suppress(OSError):  # no room for a copy: the chart itself does as well
            self._copy = ChartCopy(chart)
            self._chart = self._copy.chart

    def _count(self, name: str, trouble: str) -> None:
        """Count the removals of a release that failed; it is still there, and tried again."""
        self._troubles[name] = self._troubles.get(name, 0) + 1 if trouble else 0
        if not trouble:
            del self._troubles[name]
        elif self._troubles[name] >= _REMOVALS:
            raise RunError(f"the release {name} cannot be removed: {trouble}")

    def _submit(self, call: Any, *arguments: Any) -> Future[Any]:
        future = self._pool.submit(call, *arguments)
        future.add_done_callback(lambda _: self._wake())
        return future

    def _make(self, trial: Trial, values: Mapping[str, Any]) -> Observed | None:
        """Install a release; why it is not there, where it is not."""
        home = replace(self._home, name=trial.name)
        try:
            self._install(home, trial, values)
        except AllranksError as error:
            return self._refused(error, home)
        return None

    def _refused(self, error: AllranksError, home: Home) -> Observed | None:
        """What a failed install means; what it has left of ours is removed."""
        try:
            there = removing.records(self._cluster, home.namespace, home.name)
        except AllranksError:  # whose it is cannot be seen: nothing is removed
            return _refusal(error, home.name)
        if there and not self._is_ours(there):
            whose = owner.told(removing.labels(there[0]), removing.chart(there[0]))
            why = (
                f"its name is taken by {whose}; remove that release, or give the sweep another name"
            )
            return Observed(actions.FAILED, why, time.time(), retryable=False)
        if there and isinstance(error, ReleaseTakenError):
            return None
        if isinstance(self._chart, str):
            error = foreign.fetched(error, self._chart)
        if there:
            with suppress(AllranksError):  # the first failure is the one to tell
                releases.uninstall(home)
        return _refusal(error, home.name)

    def _is_ours(self, found: Manifests) -> bool:
        own = self._prepared.owner
        return all(own.owns(removing.labels(one), self._prepared.spec.name) for one in found)

    def _install(self, home: Home, trial: Trial, values: Mapping[str, Any]) -> None:
        labels = self._prepared.owner.labels(self._prepared.spec.name, trial.number)
        while True:
            post_render = self._post_render
            try:
                releases.install(
                    home,
                    self._chart,
                    values,
                    post_render=post_render,
                    labels=labels,
                    is_checked=self._is_checked,
                )
            except InputError as error:
                if post_render or _NEEDS_POST_RENDERER not in error.problem.message:
                    raise
                self._post_render = True
            else:
                return

    def _remove(self, name: str) -> str:
        """Remove a release that is ours; why it is still there, where it is."""
        namespace = self._home.namespace
        try:
            there = removing.records(self._cluster, namespace, name)
            if not self._is_ours(there):
                return ""
            if not removing.remove(self._cluster, namespace, there):
                releases.uninstall(replace(self._home, name=name))
        except AllranksError as error:
            return error.problem.message
        return ""


def _refusal(error: AllranksError, name: str) -> Observed:
    """What a failed install means; in words that are the same for trials that failed alike."""
    why = "; ".join(problem.message for problem in error.problems).replace(name, "<trial>")
    now = time.time()
    if any(words in why for words in _PASSING):
        return Observed(actions.BLOCKED, why, now)
    wrong = isinstance(error, InputError | ForbiddenError) or any(w in why for w in _LASTING)
    return Observed(actions.FAILED, why, now, retryable=not wrong)
