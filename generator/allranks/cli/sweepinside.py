"""`allranks sweep run --in-cluster`: a sweep whose process is a pod, so that a laptop can close.

This machine checks the sweep, installs its runner and follows the journal. What runs in the pod is
`allranks sweep stay`, which nobody calls by hand.
"""

from __future__ import annotations

import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

import click

from allranks import names
from allranks.cli import options, sweepview
from allranks.cli.sweepplace import Place, journal_option
from allranks.cli.target import CLUSTER
from allranks.errors import (
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_TERMINATED,
    AllranksError,
    ForbiddenError,
    InputError,
    RunError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from allranks.cli.console import Console
    from allranks.sweep.state import SweepState
    from allranks.sweep.storage.journals import Keeper
    from allranks.sweep.storage.secretkeeper import SecretKeeper
    from allranks.sweep.values.prepare import Prepared

_LOOK_SECONDS = 1.0
_TROUBLE_SECONDS = 5.0


def inside_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add what a sweep inside the cluster may be told."""
    for add in (
        click.option(
            "--detach", is_flag=True, help="With --in-cluster: return, and let the sweep go on."
        ),
        click.option(
            "--runner",
            metavar="FILE",
            type=click.Path(),
            help="With --in-cluster: values of charts/sweep-runner, such as its resources.",
        ),
        click.option(
            "--image",
            default="",
            metavar="IMAGE",
            help="With --in-cluster: the image that runs the sweep. Default: that of this version.",
        ),
        click.option(
            "--in-cluster",
            is_flag=True,
            help="Run the sweep from a pod inside the cluster, so that this machine can go away.",
        ),
    ):
        function = add(function)
    return function


def check(*, in_cluster: bool, flags: dict[str, Any], place: Place | None = None) -> None:
    """Refuse flags that do not fit.

    Raises:
        InputError: they do not.
    """
    for name in ("detach", "runner", "image"):
        if flags.get(name) and not in_cluster:
            raise InputError(
                "is for a sweep inside the cluster", path=f"--{name}", hint="add --in-cluster"
            )
    if in_cluster and flags.get("journal"):
        raise InputError(
            "is for a sweep of this machine's; inside the cluster it is in Secrets there",
            path="--journal",
            hint="leave it out",
        )
    if in_cluster and place is not None and place.on != CLUSTER:
        raise InputError(
            "needs a cluster, and this machine is meant",
            path="--in-cluster",
            hint="leave --on local out, or name a kubeconfig",
        )


def keeper(name: str, place: Place) -> SecretKeeper:
    """Where a sweep inside a cluster is kept."""
    from allranks.sweep.storage.secretkeeper import Address, SecretKeeper  # noqa: PLC0415 - as in the commands

    address = Address(name, place.namespace, place.context, place.kubeconfig)
    return SecretKeeper(address, name)


def is_inside(kept: Keeper) -> TypeGuard[SecretKeeper]:
    """Whether a pod runs a sweep, or is to."""
    from allranks.sweep.storage.secretkeeper import PREFIX  # noqa: PLC0415 - as in the commands

    return kept.where.startswith(PREFIX) and bool(kept.read().place.get("inside"))


def run(
    console: Console, prepared: Prepared, place: Place, flags: dict[str, Any], output: str
) -> int:
    """Begin a sweep inside the cluster, and follow it; return the exit code.

    Args:
        console: where to show it.
        prepared: the sweep.
        place: where its trials run.
        flags: of `inside_options`.
        output: text, json or csv.
    """
    from allranks.sweep import records, taken  # noqa: PLC0415 - helm costs 0.2 s
    from allranks.sweep.inside import incluster  # noqa: PLC0415 - helm costs 0.2 s
    from allranks.sweep.storage import shelf  # noqa: PLC0415 - helm costs 0.2 s

    kept = keeper(prepared.spec.name, place)
    if kept.exists():
        raise taken.begun_already(kept, kept.name)
    place.refuse_others(prepared)
    home = place.home(kept.name)
    given = _values(flags)
    prepared = incluster.settle(prepared, kept.cluster)
    trials = incluster.look(prepared, home)
    head = records.head(
        prepared.spec, time.time(), prepared.defaults, place.kept_inside(), prepared.owner
    )
    sweep = incluster.values(prepared, head, trials, home)
    incluster.install(kept.cluster, home, {**given, "sweep": sweep})
    shelf.note(kept, place.kept_inside(), prepared.owner)
    if flags["detach"]:
        return _detached(console, kept, output)
    return follow(console, kept, output)


def _values(flags: dict[str, Any]) -> dict[str, Any]:
    """A person's own values of the runner's chart."""
    from allranks.values import charts  # noqa: PLC0415 - YAML, only where it is asked
    from allranks.values.sources import Sources  # noqa: PLC0415

    files = (flags["runner"],) if flags["runner"] else ()
    return charts.resolve(
        Sources(files=files), names.SWEEP_RUNNER, {"image": _image(flags["image"])}
    )


def _image(named: str) -> dict[str, str]:
    """The chart's way of naming an image."""
    rest, _, digest = named.partition("@")
    folder, slash, last = rest.rpartition("/")
    base, _, tag = last.partition(":")
    found = {"repository": f"{folder}{slash}{base}", "tag": tag, "digest": digest}
    return {key: text for key, text in found.items() if text}


def _detached(console: Console, kept: SecretKeeper, output: str) -> int:
    from allranks.sweep.storage import shelf  # noqa: PLC0415 - as in the commands
    from allranks.sweep.storage.secretkeeper import PREFIX  # noqa: PLC0415 - as in the commands

    if output == "json":
        console.json({"name": kept.name, "journal": kept.where})
        return EXIT_OK
    console.text(f"the sweep {kept.name} goes on in the cluster, namespace {kept.namespace}")
    journal = f"--journal {PREFIX}{kept.namespace}/{kept.name}"
    # The name may be that of a sweep of this machine's own.
    more = "" if shelf.is_known(kept) else f" {journal}"
    for word in ("status", "results", "stop", "delete"):
        console.command(f"{names.CLI} sweep {word} {kept.name}{more}")
    console.note(f"from another machine: add {journal}")
    return EXIT_OK


def follow(console: Console, kept: SecretKeeper, output: str) -> int:
    """Show a sweep inside the cluster until it ends; return the exit code.

    Ctrl-C ends the following and nothing else.
    """
    from allranks.cli import sweeprun  # noqa: PLC0415 - it imports this module

    try:
        state = _follow(console, kept, output)
    except KeyboardInterrupt:
        word = f"`{names.CLI} sweep"
        console.note(
            f"{kept.name} goes on in the cluster: {word} resume {kept.name}` follows it again, "
            f"{word} stop {kept.name}` ends it"
        )
        return EXIT_INTERRUPTED
    sweeprun.show_end(console, state, output)
    return sweeprun.exit_code(state)


def _follow(console: Console, kept: SecretKeeper, output: str) -> SweepState:
    reading = kept.reading()
    state = reading.state
    progress = sweepview.Progress(state, state.started)
    told: set[str] = set()
    next_look = time.monotonic() + _TROUBLE_SECONDS
    with console.progress(lambda room: progress.line(time.time(), room)):
        while not state.outcome:
            time.sleep(_LOOK_SECONDS)
            try:
                reading.refresh()
                if time.monotonic() > next_look:
                    _tell_trouble(console, kept, told)
                    next_look = time.monotonic() + _TROUBLE_SECONDS
            except (InputError, _FailedError):
                raise
            except AllranksError as error:  # a laptop may lose its network for a while
                if error.problem.message not in told:
                    console.note(f"{error.problem.message}; trying again")
                    told.add(error.problem.message)
            sweepview.news(console, progress, result=output == "text")
    return state


class _FailedError(RunError):
    """The runner's Job has given up."""


def trouble(kept: Keeper, state: SweepState) -> str:
    """Why no pod runs a sweep that is to run inside the cluster; "" where nothing is wrong.

    Args:
        kept: where it is kept.
        state: how it does.
    """
    if state.outcome or not state.place.get("inside"):
        return ""
    from allranks.sweep.inside import runnerpods  # noqa: PLC0415 - as in the commands
    from allranks.sweep.storage.secretkeeper import SecretKeeper  # noqa: PLC0415 - as in the commands

    if not isinstance(kept, SecretKeeper) or kept.is_held():
        return ""
    try:
        found = runnerpods.trouble(kept)
    except ForbiddenError:  # who may see the journal may not see the pods
        return ""
    return f"its runner has given up: {found.why}" if found.is_final else found.why


def _tell_trouble(console: Console, kept: SecretKeeper, told: set[str]) -> None:
    """Say once why no pod runs the sweep.

    Raises:
        _FailedError: none will.
    """
    from allranks.sweep.inside import runnerpods  # noqa: PLC0415 - as in the commands

    if kept.is_held():
        return
    found = runnerpods.trouble(kept)
    if found.is_final:
        raise _FailedError(
            f"the runner of {kept.name} has given up: {found.why}",
            hint=f"`kubectl logs -n {kept.namespace} job/{found.job}` may say why; "
            f"`{names.CLI} sweep resume {kept.name}` starts another",
        )
    if found.why and found.why not in told:
        told.add(found.why)
        console.note(found.why)


def resume(
    console: Console, kept: SecretKeeper, flags: dict[str, Any], helm: str | None, output: str
) -> int:
    """Go on with a sweep inside the cluster, or follow it where it goes on already.

    Args:
        console: where to show it.
        kept: where it is kept.
        flags: of `sweepoptions.new_bounds_options`.
        helm: the helm that was named.
        output: text, json or csv.
    """
    from allranks.cli import sweeprun  # noqa: PLC0415 - it imports this module
    from allranks.sweep import runner  # noqa: PLC0415 - helm costs 0.2 s
    from allranks.sweep.inside import incluster  # noqa: PLC0415 - helm costs 0.2 s

    asked = any(value is not None for value in flags.values())
    if not kept.read().outcome and kept.is_run():
        if asked:
            raise InputError(
                f"the sweep {kept.name} goes on in the cluster, as it was begun",
                hint=f"`{names.CLI} sweep stop {kept.name}` ends it; then it may be resumed so",
            )
        return follow(console, kept, output)
    prepared, opened = runner.open_sweep(kept)
    with opened:
        spec = sweeprun.changed(prepared.spec, flags, len(opened.state.trials))
        if sweeprun.is_done(opened.state, spec):
            return sweeprun.show_done(console, opened.state, output)
        place = Place.of(opened.state.place, helm, kept.where)
        place.refuse_others(prepared)
        if spec != prepared.spec or opened.state.outcome or opened.state.requested:
            runner.resume(opened, spec)
    incluster.start_again(place.home(kept.name))
    return follow(console, kept, output)


@click.command("stay", hidden=True)
@click.argument("name")
@click.option(
    "--chart", default="", type=click.Path(), help="The chart of the trials, if not ours."
)
@options.helm_option
@journal_option
@options.pass_console
def stay_command(
    console: Console, *, name: str, chart: str, helm: str | None, journal: str
) -> None:
    """Go on with a sweep, in a pod that may end at any moment.

    A signal ends this process and not the sweep: what runs goes on, and the next pod finds it.
    """
    from allranks.sweep import runner  # noqa: PLC0415 - `--help` does not need it
    from allranks.sweep.storage.secretkeeper import Address, SecretKeeper  # noqa: PLC0415 - as above

    # The first process of a container has no handlers but its own.
    signal.signal(signal.SIGTERM, _terminated)
    kept = SecretKeeper(Address.parse(journal), name, waits=True)
    prepared, opened = runner.open_sweep(kept)
    with opened:
        if not opened.state.outcome:
            if chart:
                prepared = replace(prepared, chart=Path(chart))
            trials = Place.of(opened.state.place, helm).trials(prepared)
            progress = sweepview.Progress(opened.state, time.time())

            def tell(_state: SweepState) -> None:
                sweepview.news(console, progress)

            runner.run(prepared, trials, opened, tell, tell=console.note, is_relieved=True)
        state = opened.state
        console.text(sweepview.headline(state, time.time(), running=False))
    if not state.outcome:
        raise click.exceptions.Exit(EXIT_TERMINATED)


def _terminated(*_: object) -> None:
    raise SystemExit(EXIT_TERMINATED)
