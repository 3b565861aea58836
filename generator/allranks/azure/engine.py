"""Carry a plan out: look, do what can be done, and look again, until nothing is left to do.

What is there is read anew in each round, and each action is a request that may be sent twice. So it
makes no difference whether this program began an operation or another that was killed, nor whether
two do it at once: an operation that goes on is waited for, by `provisioningState`.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from allranks.azure import diff, naming
from allranks.azure.actions import ResourceKind, Verb
from allranks.azure.desired import (
    DesiredAccount,
    DesiredCluster,
    DesiredGroup,
    DesiredPool,
    desired,
)
from allranks.azure.observe import PROVIDERS, add_named, observe
from allranks.azure.observed import Observed
from allranks.errors import (
    ConflictError,
    InvalidValues,
    NotFoundError,
    RunError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from allranks.azure.actions import Action, Plan
    from allranks.azure.pace import Pace
    from allranks.azure.ports import Arm
    from allranks.azure.settings import Settings

# More would be no failure but somebody else, who wants it otherwise.
_REPETITIONS_MAX = 3
# So many looks in a row do not show what has gone: Azure may forget for one what is there.
_ABSENT_LOOKS = 3
Key = tuple[ResourceKind, str]


@dataclass(slots=True)
class _Rounds:
    """The actions that this program has done so far, by resource.

    Attributes:
        looks: how often was waited between two looks.
        done: after how many of them each was last asked for.
        counts: how often it was.
        busy: what was seen going on since.
        refused: after how many looks each was first put off by something else.
    """

    looks: int = 0
    done: dict[Key, int] = field(default_factory=dict)
    counts: dict[Key, int] = field(default_factory=dict)
    busy: set[Key] = field(default_factory=set)
    refused: dict[Key, int] = field(default_factory=dict)


class Engine:
    """Brings the observed state to the desired one.

    Args:
        arm: Azure Resource Manager, patient with what it puts off.
        pace: how long to wait.
        tell: gets a sentence for each thing that is done.
        timeout: seconds in all.
    """

    def __init__(
        self, arm: Arm, pace: Pace, tell: Callable[[str], None], timeout: float = 5400.0
    ) -> None:
        self._arm = arm
        self._pace = pace
        self._tell = tell
        self._timeout = timeout
        self._start = time.monotonic()
        self._line = ""

    def line(self) -> str:
        """A line on what is waited for now."""
        passed = int(time.monotonic() - self._start)
        return f"{self._line or 'asking Azure'} · {passed // 60}m{passed % 60:02d}s"

    # --- up ---------------------------------------------------------------------------------------

    def up(self, settings: Settings) -> Observed:
        """Make what is not there, change what differs, and wait until all is done.

        Args:
            settings: what is to be there.

        Returns:
            What is there then.

        Raises:
            InvalidValues: something that is there cannot be brought to it.
            RunError: Azure could not make something, or it took too long.
            AllranksError: Azure does not answer, or refuses.
        """
        rounds = _Rounds()
        unregistered: tuple[str, ...] = PROVIDERS
        while True:
            observed = observe(self._arm, settings, unregistered)
            unregistered = observed.unregistered
            plan = diff.plan(desired(settings, observed.group, observed.now), observed)
            if plan.refusals:
                raise InvalidValues(plan.refusals)
            if not plan.actions:
                return observed
            self._round(plan, rounds, lambda action: self._do(action, settings))

    def _round(self, plan: Plan, rounds: _Rounds, do: Callable[[Action], None]) -> None:
        """Do what can be done now; wait where that is nothing."""
        acted = False
        for action in plan.actions:
            if action.verb is Verb.WAIT:
                rounds.busy.add(action.key)
            elif action.is_ready and self._is_due(action, rounds):
                acted = self._try(action, rounds, do) or acted
        if acted:
            return
        waiting = [action for action in plan.actions if action.verb is Verb.WAIT]
        self._line = ", ".join(
            f"{action.kind} {action.name}: {action.detail}" for action in waiting or plan.actions
        )
        if time.monotonic() - self._start > self._timeout:
            raise RunError(
                f"not done after {self._timeout / 60:.0f} minutes: {self._line}",
                hint="Azure goes on with it; give the same command again to wait for it",
            )
        rounds.looks += 1
        self._pace.sleep(self._pace.poll)

    def _is_due(self, action: Action, rounds: _Rounds) -> bool:
        """Whether to ask for it now: not again before what was asked for can be seen.

        Raises:
            RunError: Azure could not make it, or somebody else undoes it each time.
        """
        since = rounds.done.get(action.key)
        if since is None:
            return True
        is_settled = action.key in rounds.busy or rounds.looks - since > self._pace.looks
        if not is_settled:
            return False
        if action.failure is not None:
            raise _failed(action)
        if rounds.counts[action.key] >= _REPETITIONS_MAX:
            raise RunError(
                f"{action.kind} {action.name} does not stay as it was made: {action.detail}",
                hint="somebody else, or a policy of the subscription, changes it; write it so in "
                "azure.yaml",
            )
        return True

    def _try(self, action: Action, rounds: _Rounds, do: Callable[[Action], None]) -> bool:
        """Do it; return whether Azure took it."""
        try:
            do(action)
        except (ConflictError, NotFoundError) as error:
            # Something else goes on with it, or what it stands in is not known everywhere yet.
            most = self._pace.conflicts if isinstance(error, ConflictError) else self._pace.looks
            if rounds.looks - rounds.refused.setdefault(action.key, rounds.looks) > most:
                raise
            self._line = error.problem.message
            return False
        self._tell(f"{MARK[action.verb]} {action.kind} {action.name}{_tail(action)}")
        rounds.done[action.key] = rounds.looks
        rounds.counts[action.key] = rounds.counts.get(action.key, 0) + 1
        rounds.busy.discard(action.key)
        rounds.refused.pop(action.key, None)
        return True

    def _do(self, action: Action, settings: Settings) -> None:
        arm, group, account = self._arm, settings.group, settings.account
        body = action.body
        if action.kind is ResourceKind.PROVIDER:
            arm.register(action.name)
        elif isinstance(body, DesiredGroup):
            arm.put_group(body)
        elif isinstance(body, DesiredCluster):
            if action.is_alone:
                arm.tag_cluster(group, body.name, dict(body.tags))
            else:
                arm.put_cluster(group, body)
        elif isinstance(body, DesiredPool):
            arm.put_pool(group, settings.cluster, body)
        elif isinstance(body, DesiredAccount):
            arm.put_account(group, body)
        elif action.kind is ResourceKind.POOL:
            arm.delete_pool(group, settings.cluster, action.name)
        elif action.kind is ResourceKind.SOFT_DELETE:
            arm.put_soft_delete(group, account, int(body or 0), blobs=action.name == "blobs")
        elif action.kind is ResourceKind.SHARE:
            is_new = action.verb is Verb.MAKE
            arm.put_share(group, account, action.name, int(body or 0), is_new=is_new)
        else:
            arm.put_container(group, account, action.name)

    # --- down -------------------------------------------------------------------------------------

    def find(self, look: Callable[[], Observed], is_there: Callable[[Observed], bool]) -> Observed:
        """Look until something is there, as long as Azure may not show yet what was made.

        Resource Manager is copied from region to region, and answers 404 for a while after
        something was made, also after it was once shown: one look proves nothing.

        Args:
            look: gives what is there.
            is_there: whether that is something.

        Returns:
            What is there; nothing, where none of the looks has shown something.

        Raises:
            AllranksError: Azure does not answer, or refuses.
        """
        for number in range(self._pace.looks):
            observed = look()
            if is_there(observed) or time.monotonic() - self._start > self._timeout:
                return observed
            if not number:
                minutes = self._pace.looks * self._pace.poll / 60
                self._tell(
                    "Azure shows nothing to remove; it may not show yet what an `up` has begun a "
                    f"moment ago, so it is asked again for {minutes:.0f} minutes"
                )
                self._line = "asks again, as Azure may not show yet what was begun a moment ago"
            self._pace.sleep(self._pace.poll)
        return look()

    def down(
        self,
        name: str,
        look: Callable[[], Observed],
        *,
        keep_storage: bool = False,
        wait: bool = True,
        is_begun: bool = False,
    ) -> None:
        """Remove what is ours and was seen there, and wait until it is gone.

        Args:
            name: what the whole is called.
            look: gives what is there.
            keep_storage: whether the storage account stays.
            wait: whether to wait; else it goes on in Azure.
            is_begun: whether its removal has begun already.

        Raises:
            InvalidValues: the group is not ours.
            RunError: it took too long.
            AllranksError: Azure does not answer, or refuses.
        """
        rounds = _Rounds()
        unseen = 0
        while True:
            observed = look()
            plan = diff.removal(name, observed, keep_storage=keep_storage)
            if plan.refusals:
                raise InvalidValues(plan.refusals)
            if not plan.actions:
                unseen += 1
                is_going = is_begun or rounds.done or rounds.busy
                is_confirmed = is_going and not rounds.refused
                if unseen >= (_ABSENT_LOOKS if is_confirmed else self._pace.looks):
                    return
                self._pace.sleep(self._pace.poll)
                continue
            unseen = 0
            if not wait and not any(
                action.verb is Verb.REMOVE and action.is_ready and action.key not in rounds.done
                for action in plan.actions
            ):
                return
            group = observed.group
            assert group is not None  # noqa: S101 - else there would be nothing to do
            self._round(plan, rounds, partial(self._remove, group.name))

    def _remove(self, group: str, action: Action) -> None:
        if action.kind is ResourceKind.GROUP:
            self._arm.delete_group(group)
        elif action.kind is ResourceKind.CLUSTER:
            self._arm.delete_cluster(group, action.name)
        else:
            self._arm.delete_account(group, action.name)

    def wait_for_node_group(self, name: str) -> None:
        """Wait until the group that AKS made for the machines has gone.

        Args:
            name: the group.

        Raises:
            RunError: it stays, and what is in it is paid for.
        """
        looks = unseen = 0
        while unseen < _ABSENT_LOOKS:
            unseen = unseen + 1 if self._arm.group(name) is None else 0
            if looks > self._pace.conflicts:
                raise RunError(
                    f"resource group {name}, which AKS has made for the machines, is still there, "
                    "and what is in it is paid for",
                    hint=f"look at it in the portal, or `az group delete --name {name}`",
                )
            looks += 1
            self._line = f"resource group {name}, of the cluster's machines, goes"
            if unseen < _ABSENT_LOOKS:
                self._pace.sleep(self._pace.poll)


MARK = {Verb.MAKE: "makes", Verb.CHANGE: "changes", Verb.REMOVE: "removes"}


def _tail(action: Action) -> str:
    return f": {action.detail}" if action.detail else ""


def _failed(action: Action) -> RunError:
    """The error of what Azure could not make."""
    reason = action.failure or "Azure does not say why"
    return RunError(
        f"Azure could not make {action.kind} {action.name}: {reason}",
        hint=_fix(reason),
    )


def _fix(reason: str) -> str:
    """The fix for a reason of Azure's."""
    text = reason.lower()
    for words, fix in _FIXES:
        if any(word in text for word in words):
            return fix
    return (
        "give `allranks azure up` again, which tries it once more; `allranks azure down` removes "
        "what was made"
    )


_FIXES = (
    (
        ("quota", "cores", "exceeding"),
        (
            "ask for more vCPUs of the family in the portal, Quotas > Compute, or choose another "
            "size; then give `allranks azure up` again"
        ),
    ),
    (
        ("capacity", "allocationfailed", "skunotavailable", "not available"),
        (
            "Azure has no such machines free now: choose another size or region, or give "
            "`allranks azure up` again later"
        ),
    ),
    (
        ("subnet", "address"),
        "the network has no addresses left; use fewer nodes, and give `allranks azure up` again",
    ),
    (
        ("policy", "disallowed"),
        (
            "a policy of the subscription forbids it: ask its owner, or write what the policy "
            "asks for"
        ),
    ),
)


def look_by_group(arm: Arm, name: str) -> Observed:
    """The observed state of a group of ours, without an azure.yaml.

    Args:
        arm: Azure Resource Manager.
        name: the group.
    """
    group = arm.group(name)
    if group is None:
        return Observed(arm.now())
    clusters = arm.clusters(name)
    resources = add_named(arm.resources(name), clusters)
    return Observed(arm.now(), group, clusters[0] if clusters else None, resources=resources)


def node_group_of(observed: Observed, settings: Settings) -> str:
    """The group that AKS made for the machines, as the cluster says it, or as it calls them."""
    if observed.cluster is not None and observed.cluster.node_group:
        return observed.cluster.node_group
    return naming.node_group(settings.group, settings.cluster, settings.region)
