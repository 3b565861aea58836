"""`allranks sweep status | stop | delete`: the status of sweeps, and their end."""

from __future__ import annotations

import re
import shlex
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import click

from allranks import names, retry
from allranks.cli import options
from allranks.cli.commands.sweep import in_cluster, view
from allranks.cli.commands.sweep.sweep_target import (
    INSIDE,
    SweepTarget,
    find,
    journal_of,
    journal_option,
    sweep_argument,
)
from allranks.cli.target import CLUSTER, LOCAL
from allranks.errors import AllranksError, InputError, RunError
from allranks.humanize import list_some, plural
from allranks.sweep.ownership import OwnerMark
from allranks.sweep.reporting import results
from allranks.sweep.storage.journal import read_state

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allranks.cli.console import Console
    from allranks.sweep.storage.base import Backend


_STOP_SECONDS = 120.0
_POLL_SECONDS = 0.2
# Up to so many remaining volumes are named one by one.
_NAMED = 4


@click.command("status", short_help="Show how a sweep is doing, or list all.")
@sweep_argument(required=False)
@journal_option
@options.output_option("text", "json")
@options.pass_console
def status_command(console: Console, *, name: str | None, journal: str, output: str) -> None:
    """Show how far the sweep NAME is; without a name, list the sweeps of this machine.

    A sweep is `Interrupted` when it has not ended and no process of this machine runs it.

    \b
    Example:
      allranks sweep status
      allranks sweep status digits -o json
    """
    if name is None and not journal:
        _list(console, output)
        return
    store = find(name or "", journal)
    running = store.is_run()
    state = read_state(store)
    now = time.time()
    trouble = in_cluster.runner_problem(store, state)
    if output == "json":
        console.json({**view.as_dict(state, now, running=running), "trouble": trouble})
        return
    journal = journal_of(state.spec.name, store.where)
    console.text(view.headline(state, now, running=running, journal=journal))
    if trouble:
        console.text(f"  {trouble}")
    progress = view.SweepProgress(state, state.started)
    if running and not state.outcome:
        console.text(f"  {progress.line(now)}")
    console.text(view.plan(state.spec))
    if state.trials:
        console.text("")
        sweep_results = results.collect(state.spec, state.trials.values(), journal)
        view.show(console, sweep_results, most=view.ROWS)


def _list(console: Console, output: str) -> None:
    from allranks.sweep.storage import catalog

    now = time.time()
    sweeps = []
    for store in catalog.backends():
        try:
            running = store.is_run()
            sweeps.append((store.name, read_state(store), running))
        except AllranksError as error:
            console.note(f"{store.name}: {error.problem.message}")
    if output == "json":
        console.json(
            [
                {**view.as_dict(state, now, running=running), "name": name}
                for name, state, running in sweeps
            ]
        )
    elif sweeps:
        view.listing(console, sweeps, now)
    else:
        console.note("there are no sweeps")


@click.command("stop", short_help="End a sweep; what it has found stays.")
@sweep_argument()
@click.option("--wait/--no-wait", default=True, show_default=True, help="Wait until it has ended.")
@options.timeout_option("How long to wait.", _STOP_SECONDS)
@options.helm_option
@journal_option
@options.output_option("text", "json")
@options.pass_console
def stop_command(
    console: Console,
    *,
    name: str,
    wait: bool,
    timeout: float,
    helm: str | None,
    journal: str,
    output: str,
) -> None:
    """End the sweep NAME in order: its trials are cancelled and their releases removed.

    Whatever it has found stays, and `allranks sweep resume` goes on with it. Where the process that
    ran it is gone, this one removes what it has left behind.

    \b
    Example:
      allranks sweep stop digits
    """
    store = find(name, journal)
    if read_state(store).outcome:
        command = results.command("results", name, journal_of(name, store.where))
        raise InputError(
            f"the sweep {name} has ended already", hint=f"`{command}` shows what it found"
        )
    _end(store, timeout if wait else 0.0, helm, wait=wait)
    state = read_state(store)
    now, running = time.time(), store.is_run()
    if output == "json":
        console.json(view.as_dict(state, now, running=running))
    else:
        headline = view.headline(state, now, running=running, journal=journal_of(name, store.where))
        console.text(headline)


def _end(
    store: Backend,
    timeout: float,
    helm: str | None,
    *,
    wait: bool = True,
    is_measured: bool = True,
) -> None:
    """Ask a sweep to end; end it here if no process runs it.

    Args:
        store: the store of the sweep.
        timeout: how many seconds to wait for its end.
        helm: the path of --helm; None for none.
        wait: wait until it has ended.
        is_measured: read the output of trials that have succeeded meanwhile.

    Raises:
        RunError: it has not ended after `timeout`.
    """
    from allranks.sweep import runner

    if not runner.request_stop(store, "a person stopped it"):
        prepared, open_journal = runner.open_sweep(store)
        with open_journal:
            place = SweepTarget.of(open_journal.state.place, helm, open_journal.where)
            trials = place.trials(prepared, starts=False)
            runner.run(prepared, trials, open_journal, is_measured=is_measured)
        return
    if wait and not retry.poll(lambda: not store.is_run(), timeout, _POLL_SECONDS):
        command = results.command("status", store.name, journal_of(store.name, store.where))
        raise RunError(
            f"the sweep {store.name} has not ended after {timeout:.0f} s; it was asked to",
            hint=f"`{command}` shows how it does",
        )
    if wait and not read_state(store).outcome:
        # Its process was killed meanwhile: end it here.
        _end(store, timeout, helm, is_measured=is_measured)


@click.command("delete", short_help="Remove a sweep and all that is left of it.")
@sweep_argument()
@options.timeout_option("How long to wait for its end.", _STOP_SECONDS)
@options.helm_option
@journal_option
@options.output_option("text", "json")
@options.pass_console
def delete_command(
    console: Console, *, name: str, timeout: float, helm: str | None, journal: str, output: str
) -> None:
    """Stop the sweep NAME, if it goes on, and remove its releases and its journal.

    Volumes of trials whose values say `keep: true` stay; what stays is named, with how to remove
    it.

    \b
    Example:
      allranks sweep delete digits
    """
    removed = remove(name, journal, timeout=timeout, helm=helm)
    if output == "json":
        console.json({"name": name, "removed": removed.releases, "kept": removed.volumes})
        return
    remark = "; its journal was gone already" if removed.was_lost else ""
    console.text(f"deleted {name}{remark}")
    for item in removed.releases:
        console.text(f"  removed the release {item}")
    if len(removed.volumes) > _NAMED:
        console.text(
            f"  kept {plural(len(removed.volumes), 'volume')}: {list_some(removed.volumes, 2)}"
        )
    else:
        for item in removed.volumes:
            console.text(f"  kept {item}")
    if removed.hint:
        console.text(
            f"  remove {'it' if len(removed.volumes) == 1 else 'them'} with: {removed.hint}"
        )


@dataclass(frozen=True, slots=True)
class DeletedSweep:
    """The result of `remove`.

    Attributes:
        releases: the removed releases.
        volumes: volumes of trials that stay, as their values say.
        hint: the command that removes these; "" if there are none.
        was_lost: the journal was gone already.
    """

    releases: list[str] = field(default_factory=list)
    volumes: list[str] = field(default_factory=list)
    hint: str = ""
    was_lost: bool = False


def remove(
    name: str,
    journal: str = "",
    *,
    timeout: float = _STOP_SECONDS,
    helm: str | None = None,
    missing_ok: bool = False,
) -> DeletedSweep:
    """End a sweep, and remove its releases and its journal.

    Args:
        name: the sweep's name.
        journal: the value of ``--journal``; "" for the journal of its name.
        timeout: how many seconds to wait for its end.
        helm: the path of --helm; None for none.
        missing_ok: a sweep that does not exist is no error.

    Returns:
        The removed releases, and the volumes that stay.

    Raises:
        InputError: there is no such sweep, or its journal cannot be read.
        RunError: it has not ended after `timeout`, or its journal is gone and releases stay.
    """
    from allranks.sweep import runner
    from allranks.sweep.storage import catalog

    store = catalog.locate(name, journal)
    if not store.exists():
        if catalog.is_registered(store) and not catalog.is_default(name, store.where):
            return _remove_lost(store, helm)
        if missing_ok:
            return DeletedSweep()
        if journal:
            _name_lost(store, helm)
    store = find(name, journal)
    if not read_state(store).outcome:
        _end(store, timeout, helm, is_measured=False)
    prepared, open_journal = runner.open_sweep(store)
    with open_journal:
        place = SweepTarget.of(open_journal.state.place, helm, open_journal.where)
        trials = place.trials(prepared, starts=False)
        try:
            removed = runner.clear(trials)
            volumes = trials.claims(open_journal.state.names())
        finally:
            trials.close()
        if place.inside:
            from allranks.sweep import in_cluster as in_cluster_sweep

            in_cluster_sweep.remove(place.home(prepared.spec.name))
        catalog.forget(store)
    return DeletedSweep(
        list(removed), list(volumes), _how_to_remove(name, place, list(volumes.values()))
    )


def _remove_lost(store: Backend, helm: str | None) -> DeletedSweep:
    """Remove the remains of a sweep whose journal is gone, by the catalog of this machine."""
    from allranks.sweep.storage import catalog
    from allranks.sweep.storage.secrets import PREFIX

    target, owner = catalog.ownership(store)
    if not target and not store.where.startswith(PREFIX):
        catalog.forget(store)  # it is unknown where its releases would be
        return DeletedSweep(was_lost=True)
    place, releases, volumes = remove_orphaned_releases(store, target, owner, helm)
    catalog.forget(store)
    return DeletedSweep(
        releases, volumes, _how_to_remove(store.name, place, volumes), was_lost=True
    )


def _name_lost(store: Backend, helm: str | None) -> None:
    """Name the releases of a sweep whose journal is gone, and which this machine does not know.

    Raises:
        RunError: there are some.
    """
    from allranks.sweep.storage.secrets import PREFIX

    if store.where.startswith(PREFIX):  # nothing else says where they would be
        remove_orphaned_releases(store, {}, None, helm)


def _how_to_remove(name: str, place: SweepTarget, volumes: list[str]) -> str:
    """Return the command that removes volumes; many of them by a pattern of their names."""
    if not volumes:
        return ""
    many = len(volumes) > _NAMED
    if place.on == LOCAL:
        folder = Path(volumes[0]).parent
        return f"rm -r {folder}/{name}-????????-*" if many else shlex.join(["rm", "-r", *volumes])
    delete = f"kubectl delete -n {place.namespace}"
    pattern = rf"/{name}-([0-9a-f]{{8}}|[0-9a-f]{{12}})-"
    if not many or not all(re.search(pattern, volume) for volume in volumes):
        return f"{delete} {' '.join(volumes)}"
    return (
        f"kubectl get -n {place.namespace} persistentvolumeclaims -o name | grep -E '{pattern}' | "
        f"xargs {delete}"
    )


_RELEASES_NAMED_MAX = 20


def remove_orphaned_releases(
    store: Backend, target: Mapping[str, str], owner: OwnerMark | None, helm: str | None
) -> tuple[SweepTarget, list[str], list[str]]:
    """Remove the releases of a sweep whose journal is gone.

    Args:
        store: the store of the lost journal.
        target: where its releases are, by the catalog; empty if that is unknown.
        owner: the mark of its releases; None if that is unknown.
        helm: the path of --helm; None for none.

    Returns:
        The place of the releases, the removed ones, and the volumes that stay.

    Raises:
        RunError: releases stay, as their owner is unknown; they are named.
        AllranksError: they cannot be listed.
    """
    from allranks.sweep import runner
    from allranks.sweep.spec import prepare

    place = _place(store, target, helm)
    # With an unknown owner a new mark, which no release has: nothing is removed.
    prepared = prepare.sweep_without_journal(store.name, owner or OwnerMark.new())
    trials = place.trials(prepared, starts=False)
    try:
        others = trials.foreign_releases()
        if owner is None and others:
            raise _unknown(store, place, others)
        removed = list(runner.clear(trials))
        volumes = list(trials.claims(removed).values())
    finally:
        trials.close()
    if owner is not None and place.inside and _has_runner(store):
        from allranks.sweep import in_cluster

        in_cluster.remove(place.home(store.name))
    return place, removed, volumes


def _place(store: Backend, target: Mapping[str, str], helm: str | None) -> SweepTarget:
    """Return where its releases are: by the catalog, or beside the journal."""
    from allranks.sweep.storage.secrets import SecretsBackend

    if not target and isinstance(store, SecretsBackend):
        target = {"on": CLUSTER, "inside": INSIDE, "namespace": store.namespace}
    return SweepTarget.of(target, helm, store.where)


def _has_runner(store: Backend) -> bool:
    """Whether the release of the sweep's name is still its runner, and not another job."""
    from allranks.sweep.storage.secrets import SecretsBackend

    return isinstance(store, SecretsBackend) and bool(store.jobs())


def _unknown(store: Backend, place: SweepTarget, others: Mapping[str, str]) -> RunError:
    """Return the error for releases of the name whose owner is unknown."""
    releases = list(others)
    whose = ", or ".join(dict.fromkeys(others.values()))
    listing = list_some(releases, _RELEASES_NAMED_MAX)
    if place.on == LOCAL:
        command = f"`{names.CLI} delete NAME --on local` of each removes them"
    elif len(releases) > _RELEASES_NAMED_MAX:
        command = (
            f"`helm list -n {place.namespace} -q -l {names.SWEEP}={store.name} | "
            f"xargs helm uninstall -n {place.namespace}` removes them"
        )
    else:
        words = shlex.join(["helm", "uninstall", "-n", place.namespace, *releases])
        command = f"`{words}` removes them"
    return RunError(
        f"the journal of the sweep {store.name} is gone ({store.where}), and in namespace "
        f"{place.namespace} are releases of {whose}: {listing}; nothing here says whether they are "
        "this sweep's",
        hint=f"if they are, {command}; nothing was deleted",
    )
