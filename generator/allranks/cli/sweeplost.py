"""A sweep whose journal is gone, and what other hands have left of it: its releases.

`helm uninstall` of a runner takes the journal and leaves the trials' releases; so does whoever
removes a file or a database. A note on this machine may know their mark.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from allranks import names
from allranks.cli.sweepplace import INSIDE, Place
from allranks.cli.target import CLUSTER, LOCAL
from allranks.errors import RunError
from allranks.sweep.owner import Owner
from allranks.words import some

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allranks.sweep.storage.journals import Keeper

_NAMED = 20


def clear(
    kept: Keeper, told: Mapping[str, str], owner: Owner | None, helm: str | None
) -> tuple[Place, list[str], list[str]]:
    """Remove what is left of a sweep whose journal is gone.

    Args:
        kept: where the journal was.
        told: where its releases are, as a note has it; empty where none says so.
        owner: what marks them; None where that is not known.
        helm: the helm that was named.

    Returns:
        Where they were, the releases that are removed, and volumes that stay.

    Raises:
        RunError: releases stay, as nothing here says whose they are; they are named.
        AllranksError: they cannot be seen.
    """
    from allranks.sweep import runner  # noqa: PLC0415 - helm costs 0.2 s
    from allranks.sweep.values import prepare  # noqa: PLC0415 - as above

    place = _place(kept, told, helm)
    # A mark that nothing has, where the sweep's is not known: nothing is removed then.
    trials = place.trials(prepare.of_lost(kept.name, owner or Owner.new()), starts=False)
    try:
        others = trials.others()
        if owner is None and others:
            raise _unknown(kept, place, others)
        removed = list(runner.clear(trials))
        stay = list(trials.claims(removed).values())
    finally:
        trials.close()
    if owner is not None and place.inside and _has_runner(kept):
        from allranks.sweep.inside import incluster  # noqa: PLC0415 - for these alone

        incluster.remove(place.home(kept.name))
    return place, removed, stay


def _place(kept: Keeper, told: Mapping[str, str], helm: str | None) -> Place:
    """Where its releases are; as the note says, or where the journal was."""
    from allranks.sweep.storage.secretkeeper import SecretKeeper  # noqa: PLC0415 - as above

    if not told and isinstance(kept, SecretKeeper):
        told = {"on": CLUSTER, "inside": INSIDE, "namespace": kept.namespace}
    return Place.of(told, helm, kept.where)


def _has_runner(kept: Keeper) -> bool:
    """Whether the release of the sweep's name is still its runner, and not somebody's job."""
    from allranks.sweep.storage.secretkeeper import SecretKeeper  # noqa: PLC0415 - as above

    return isinstance(kept, SecretKeeper) and bool(kept.jobs())


def _unknown(kept: Keeper, place: Place, others: Mapping[str, str]) -> RunError:
    """Releases of the name, of which only a person can say whether they are the sweep's."""
    found = list(others)
    whose = ", or ".join(dict.fromkeys(others.values()))
    named = some(found, _NAMED)
    if place.on == LOCAL:
        command = f"`{names.CLI} delete NAME --on local` of each removes them"
    elif len(found) > _NAMED:
        command = (
            f"`helm list -n {place.namespace} -q -l {names.SWEEP}={kept.name} | "
            f"xargs helm uninstall -n {place.namespace}` removes them"
        )
    else:
        words = shlex.join(["helm", "uninstall", "-n", place.namespace, *found])
        command = f"`{words}` removes them"
    return RunError(
        f"the journal of the sweep {kept.name} is gone ({kept.where}), and in namespace "
        f"{place.namespace} are releases of {whose}: {named}; nothing here says whether they are "
        "this sweep's",
        hint=f"if they are, {command}; nothing was deleted",
    )
