"""`allranks sweep status | stop | delete`: how sweeps do, and their end."""

from __future__ import annotations

import re
import shlex
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import click

from allranks.cli import durations, options, sweepinside, sweepview
from allranks.cli.sweepplace import Place, find, journal_of, journal_option, sweep_argument
from allranks.cli.target import LOCAL
from allranks.errors import AllranksError, InputError, RunError
from allranks.sweep.reporting import results
from allranks.words import some

if TYPE_CHECKING:
    from allranks.cli.console import Console
    from allranks.sweep.storage.journals import Keeper

_STOP_SECONDS = 120.0
_POLL_SECONDS = 0.2
# Volumes that stay are named one by one, up to so many.
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
    """  # noqa: D301 - \b is click's mark for text that is not re-wrapped
    if name is None and not journal:
        _list(console, output)
        return
    kept = find(name or "", journal)
    running = kept.is_run()
    state = kept.read()
    now = time.time()
    trouble = sweepinside.trouble(kept, state)
    if output == "json":
        console.json({**sweepview.as_dict(state, now, running=running), "trouble": trouble})
        return
    journal = journal_of(state.spec.name, kept.where)
    console.text(sweepview.headline(state, now, running=running, journal=journal))
    if trouble:
        console.text(f"  {trouble}")
    progress = sweepview.Progress(state, state.started)
    if running and not state.outcome:
        console.text(f"  {progress.line(now)}")
    console.text(sweepview.plan(state.spec))
    if state.trials:
        console.text("")
        found = results.collect(state.spec, state.trials.values(), journal)
        sweepview.show(console, found, most=sweepview.ROWS)


def _list(console: Console, output: str) -> None:
    from allranks.sweep.storage import shelf  # noqa: PLC0415 - only where it is asked

    now = time.time()
    found = []
    for kept in shelf.every():
        try:
            running = kept.is_run()
            found.append((kept.read(), running))
        except AllranksError as error:
            console.note(f"{kept.name}: {error.problem.message}")
    if output == "json":
        console.json([sweepview.as_dict(state, now, running=running) for state, running in found])
    elif found:
        sweepview.listing(console, found, now)
    else:
        console.note("there are no sweeps")


@click.command("stop", short_help="End a sweep; what it has found stays.")
@sweep_argument()
@click.option("--wait/--no-wait", default=True, show_default=True, help="Wait until it has ended.")
@durations.timeout_option("How long to wait.", _STOP_SECONDS)
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
    """  # noqa: D301 - \b is click's mark for text that is not re-wrapped
    kept = find(name, journal)
    if kept.read().outcome:
        command = results.command("results", name, journal_of(name, kept.where))
        raise InputError(
            f"the sweep {name} has ended already", hint=f"`{command}` shows what it found"
        )
    _end(kept, timeout if wait else 0.0, helm, wait=wait)
    state = kept.read()
    now, running = time.time(), kept.is_run()
    if output == "json":
        console.json(sweepview.as_dict(state, now, running=running))
    else:
        shown = sweepview.headline(
            state, now, running=running, journal=journal_of(name, kept.where)
        )
        console.text(shown)


def _end(
    kept: Keeper,
    timeout: float,
    helm: str | None,
    *,
    wait: bool = True,
    is_measured: bool = True,
) -> None:
    """Ask for the end of a sweep; carry it out where nobody else does.

    Args:
        kept: where it is.
        timeout: how many seconds to wait for its end.
        helm: the helm that was named.
        wait: until it has ended.
        is_measured: read what trials said that have ended well meanwhile.

    Raises:
        RunError: it goes on after the time.
    """
    from allranks.sweep import runner  # noqa: PLC0415 - as in the commands

    if not runner.request_stop(kept, "a person stopped it"):
        prepared, opened = runner.open_sweep(kept)
        with opened:
            place = Place.of(opened.state.place, helm, opened.where)
            trials = place.trials(prepared, starts=False)
            runner.run(prepared, trials, opened, is_measured=is_measured)
        return
    give_up = time.monotonic() + timeout
    while wait and kept.is_run():
        if time.monotonic() > give_up:
            command = results.command("status", kept.name, journal_of(kept.name, kept.where))
            raise RunError(
                f"the sweep {kept.name} has not ended after {timeout:.0f} s; it was asked to",
                hint=f"`{command}` shows how it does",
            )
        time.sleep(_POLL_SECONDS)
    if wait and not kept.read().outcome:
        # Its process was killed meanwhile: then it is ours to end.
        _end(kept, timeout, helm, is_measured=is_measured)


@click.command("delete", short_help="Remove a sweep and all that is left of it.")
@sweep_argument()
@durations.timeout_option("How long to wait for its end.", _STOP_SECONDS)
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
    """  # noqa: D301 - \b is click's mark for text that is not re-wrapped
    removed = remove(name, journal, timeout=timeout, helm=helm)
    if output == "json":
        console.json({"name": name, "removed": removed.releases, "kept": removed.kept})
        return
    gone = "; its journal was gone already" if removed.was_lost else ""
    console.text(f"deleted {name}{gone}")
    for one in removed.releases:
        console.text(f"  removed the release {one}")
    if len(removed.kept) > _NAMED:
        console.text(f"  kept {len(removed.kept):,} volumes: {some(removed.kept, 2)}")
    else:
        for one in removed.kept:
            console.text(f"  kept {one}")
    if removed.hint:
        console.text(f"  remove {'it' if len(removed.kept) == 1 else 'them'} with: {removed.hint}")


@dataclass(frozen=True, slots=True)
class Removed:
    """What `remove` did.

    Attributes:
        releases: those that it removed.
        kept: volumes of trials that stay, as they were asked to.
        hint: the command that removes these; "" where there is none.
        was_lost: other hands had removed the journal.
    """

    releases: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    hint: str = ""
    was_lost: bool = False


def remove(
    name: str,
    journal: str = "",
    *,
    timeout: float = _STOP_SECONDS,
    helm: str | None = None,
    missing_ok: bool = False,
) -> Removed:
    """Remove a sweep: its end, its releases, its journal.

    Args:
        name: the sweep's name.
        journal: what ``--journal`` was given; "" for the journal of its name.
        timeout: how many seconds to wait for its end.
        helm: the helm that was named.
        missing_ok: nothing to remove is well, too.

    Returns:
        What was removed, and what stays.

    Raises:
        InputError: there is no such sweep, or its journal cannot be read.
        RunError: it goes on after the time, or its journal is gone and releases stay.
    """
    from allranks.sweep import runner  # noqa: PLC0415 - as in the commands
    from allranks.sweep.storage import shelf  # noqa: PLC0415 - as in the commands

    kept = shelf.locate(name, journal)
    if not kept.exists():
        if shelf.is_known(kept) and not shelf.is_own(name, kept.where):
            return _remove_lost(kept, helm)
        if missing_ok:
            return Removed()
        if journal:
            _name_lost(kept, helm)
    kept = find(name, journal)
    if not kept.read().outcome:
        _end(kept, timeout, helm, is_measured=False)
    prepared, opened = runner.open_sweep(kept)
    with opened:
        place = Place.of(opened.state.place, helm, opened.where)
        trials = place.trials(prepared, starts=False)
        try:
            removed = runner.clear(trials)
            stay = trials.claims(opened.state.names())
        finally:
            trials.close()
        if place.inside:
            from allranks.sweep.inside import incluster  # noqa: PLC0415 - for these alone

            incluster.remove(place.home(prepared.spec.name))
        shelf.forget(kept)
    return Removed(list(removed), list(stay), _how_to_remove(name, place, list(stay.values())))


def _remove_lost(kept: Keeper, helm: str | None) -> Removed:
    """Remove what is left of a sweep of which there is a note and no journal."""
    from allranks.cli import sweeplost  # noqa: PLC0415 - it is seldom asked
    from allranks.sweep.storage import shelf  # noqa: PLC0415 - as in the commands
    from allranks.sweep.storage.secretkeeper import PREFIX  # noqa: PLC0415 - as in the commands

    told, owner = shelf.marks(kept)
    if not told and not kept.where.startswith(PREFIX):
        shelf.forget(kept)  # nothing says where its releases would be
        return Removed(was_lost=True)
    place, releases, stay = sweeplost.clear(kept, told, owner, helm)
    shelf.forget(kept)
    return Removed(releases, stay, _how_to_remove(kept.name, place, stay), was_lost=True)


def _name_lost(kept: Keeper, helm: str | None) -> None:
    """Name the releases of a sweep of which there is neither a journal nor a note.

    Raises:
        RunError: there are some.
    """
    from allranks.cli import sweeplost  # noqa: PLC0415 - it is seldom asked
    from allranks.sweep.storage.secretkeeper import PREFIX  # noqa: PLC0415 - as in the commands

    if kept.where.startswith(PREFIX):  # nothing else says where they would be
        sweeplost.clear(kept, {}, None, helm)


def _how_to_remove(name: str, place: Place, kept: list[str]) -> str:
    """The command that removes volumes; of many by what their names have in common."""
    if not kept:
        return ""
    many = len(kept) > _NAMED
    if place.on == LOCAL:
        folder = Path(kept[0]).parent
        return f"rm -r {folder}/{name}-????????-*" if many else shlex.join(["rm", "-r", *kept])
    delete = f"kubectl delete -n {place.namespace}"
    pattern = rf"/{name}-([0-9a-f]{{8}}|[0-9a-f]{{12}})-"
    if not many or not all(re.search(pattern, one) for one in kept):
        return f"{delete} {' '.join(kept)}"
    return (
        f"kubectl get -n {place.namespace} persistentvolumeclaims -o name | grep -E '{pattern}' | "
        f"xargs {delete}"
    )
