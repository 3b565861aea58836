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
from allranks.cli import options
from allranks.cli.commands.sweep import options as sweep_options
from allranks.cli.commands.sweep import outcome, view
from allranks.cli.commands.sweep.sweep_target import SweepTarget, journal_option
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
from allranks.sweep.storage.journal import JournalReader, read_state

if TYPE_CHECKING:
    from collections.abc import Callable

    from allranks.cli.console import Console
    from allranks.service.workspace import PackedWorkspace
    from allranks.sweep.spec.prepare import PreparedSweep
    from allranks.sweep.state import SweepState
    from allranks.sweep.storage.base import Backend
    from allranks.sweep.storage.secrets import SecretsBackend

_LOOK_SECONDS = 1.0
_PROBLEM_SECONDS = 5.0


def inside_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a sweep inside the cluster."""
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


def check(*, in_cluster: bool, flags: dict[str, Any], place: SweepTarget | None = None) -> None:
    """Refuse flags that exclude each other.

    Raises:
        InputError: there are such flags.
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


def backend_of(name: str, place: SweepTarget) -> SecretsBackend:
    """Return the store of a sweep inside a cluster."""
    from allranks.sweep.storage.secrets import Address, SecretsBackend

    address = Address(name, place.namespace, place.context, place.kubeconfig)
    return SecretsBackend(address, name)


def is_inside(store: Backend) -> TypeGuard[SecretsBackend]:
    """Whether a pod runs the sweep, or should."""
    from allranks.sweep.storage.secrets import PREFIX

    return store.where.startswith(PREFIX) and bool(read_state(store).place.get("inside"))


def run(
    console: Console,
    prepared: PreparedSweep,
    place: SweepTarget,
    flags: dict[str, Any],
    *,
    output: str,
    workspace: PackedWorkspace | None = None,
) -> int:
    """Install a sweep inside the cluster, and follow it; return the exit code.

    Args:
        console: where to show it.
        prepared: the sweep.
        place: where its trials run.
        flags: of `inside_options`.
        output: text, json or csv.
        workspace: the folder of code that was sent for its trials; None for none.
    """
    from allranks.sweep import in_cluster as in_cluster_sweep
    from allranks.sweep import name_conflicts, records
    from allranks.sweep.storage import catalog

    store = backend_of(prepared.spec.name, place)
    if store.exists():
        raise name_conflicts.begun_already(store, store.name)
    place.refuse_others(prepared)
    home = place.home(store.name)
    chart_values = _values(flags)
    prepared = in_cluster_sweep.settle(prepared, store.cluster)
    trials = in_cluster_sweep.render_samples(prepared, home)
    head = records.head(
        prepared.spec, time.time(), prepared.defaults, place.as_dict_inside(), prepared.owner
    )
    sweep = in_cluster_sweep.values(prepared, head, trials, home)
    in_cluster_sweep.install(store.cluster, home, {**chart_values, "sweep": sweep})
    catalog.register(store, place.as_dict_inside(), prepared.owner)
    if workspace is not None:
        # It stays as long as the sweep does, whatever becomes of trials and of the runner's Jobs.
        workspace.transport.own(store.cluster, home.namespace, [store.head()])
    if flags["detach"]:
        return _show_detached(console, store, output)
    return follow(console, store, output)


def _values(flags: dict[str, Any]) -> dict[str, Any]:
    """Return the user's values of the runner's chart."""
    from allranks.values import charts
    from allranks.values.sources import Sources

    files = (flags["runner"],) if flags["runner"] else ()
    image = {key: text for key, text in options.image_values(flags["image"]).items() if text}
    return charts.resolve(Sources(files=files), names.SWEEP_RUNNER, {"image": image})


def _show_detached(console: Console, store: SecretsBackend, output: str) -> int:
    from allranks.sweep.storage import catalog
    from allranks.sweep.storage.secrets import PREFIX

    if output == "json":
        console.json({"name": store.name, "journal": store.where})
        return EXIT_OK
    console.text(f"the sweep {store.name} goes on in the cluster, namespace {store.namespace}")
    journal = f"--journal {PREFIX}{store.namespace}/{store.name}"
    # The name may be that of a sweep of this machine's own.
    more = "" if catalog.is_registered(store) else f" {journal}"
    for word in ("status", "results", "stop", "delete"):
        console.command(f"{names.CLI} sweep {word} {store.name}{more}")
    console.note(f"from another machine: add {journal}")
    return EXIT_OK


def follow(console: Console, store: SecretsBackend, output: str) -> int:
    """Show a sweep inside the cluster until it ends; return the exit code.

    Ctrl-C stops following; the sweep goes on.
    """
    try:
        state = _follow(console, store, output)
    except KeyboardInterrupt:
        word = f"`{names.CLI} sweep"
        console.note(
            f"{store.name} goes on in the cluster: {word} resume {store.name}` follows it again, "
            f"{word} stop {store.name}` ends it"
        )
        return EXIT_INTERRUPTED
    outcome.show_end(console, state, output)
    return outcome.exit_code(state)


def _follow(console: Console, store: SecretsBackend, output: str) -> SweepState:
    reading = JournalReader(store)
    state = reading.state
    progress = view.SweepProgress(state, state.started)
    reported: set[str] = set()
    next_look = time.monotonic() + _PROBLEM_SECONDS
    with console.progress(lambda room: progress.line(time.time(), room)):
        while not state.outcome:
            time.sleep(_LOOK_SECONDS)
            try:
                reading.refresh()
                if time.monotonic() > next_look:
                    _report_problem(console, store, reported)
                    next_look = time.monotonic() + _PROBLEM_SECONDS
            except (InputError, _FailedError):
                raise
            except AllranksError as error:  # a laptop may lose its network for a while
                if error.problem.message not in reported:
                    console.note(f"{error.problem.message}; trying again")
                    reported.add(error.problem.message)
            view.news(console, progress, result=output == "text")
    return state


class _FailedError(RunError):
    """The runner's Job has given up."""


def runner_problem(store: Backend, state: SweepState) -> str:
    """Return why no pod runs a sweep inside the cluster; "" if nothing is wrong.

    Args:
        store: the store of the sweep.
        state: the state of the sweep.
    """
    if state.outcome or not state.place.get("inside"):
        return ""
    from allranks.sweep import in_cluster as in_cluster_sweep
    from allranks.sweep.storage.secrets import SecretsBackend

    if not isinstance(store, SecretsBackend) or store.is_held():
        return ""
    try:
        problem = in_cluster_sweep.runner_problem(store)
    except ForbiddenError:  # a user who can read the journal may not see the pods
        return ""
    return f"its runner has given up: {problem.message}" if problem.is_final else problem.message


def _report_problem(console: Console, store: SecretsBackend, reported: set[str]) -> None:
    """Show once why no pod runs the sweep.

    Raises:
        _FailedError: the runner's Job has given up.
    """
    from allranks.sweep import in_cluster as in_cluster_sweep

    if store.is_held():
        return
    problem = in_cluster_sweep.runner_problem(store)
    if problem.is_final:
        raise _FailedError(
            f"the runner of {store.name} has given up: {problem.message}",
            hint=f"`kubectl logs -n {store.namespace} job/{problem.job}` may say why; "
            f"`{names.CLI} sweep resume {store.name}` starts another",
        )
    if problem.message and problem.message not in reported:
        reported.add(problem.message)
        console.note(problem.message)


def resume(
    console: Console, store: SecretsBackend, flags: dict[str, Any], helm: str | None, output: str
) -> int:
    """Resume a sweep inside the cluster, or follow it if it runs.

    Args:
        console: where to show it.
        store: the store of the sweep.
        flags: of `options.new_bounds_options`.
        helm: the path of --helm; None for none.
        output: text, json or csv.
    """
    from allranks.sweep import in_cluster as in_cluster_sweep
    from allranks.sweep import runner

    has_changes = any(value is not None for value in flags.values())
    if not read_state(store).outcome and store.is_run():
        if has_changes:
            raise InputError(
                f"the sweep {store.name} goes on in the cluster, as it was begun",
                hint=f"`{names.CLI} sweep stop {store.name}` ends it; then it may be resumed so",
            )
        return follow(console, store, output)
    prepared, open_journal = runner.open_sweep(store)
    with open_journal:
        spec = sweep_options.apply_new_bounds(prepared.spec, flags, len(open_journal.state.trials))
        if outcome.is_done(open_journal.state, spec):
            return outcome.show_done(console, open_journal.state, output)
        place = SweepTarget.of(open_journal.state.place, helm, store.where)
        place.refuse_others(prepared)
        if spec != prepared.spec or open_journal.state.outcome or open_journal.state.requested:
            runner.resume(open_journal, spec)
    in_cluster_sweep.start_again(place.home(store.name))
    return follow(console, store, output)


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
    from allranks.sweep import runner
    from allranks.sweep.storage.secrets import Address, SecretsBackend

    # The kernel ignores SIGTERM for the first process of a container without a handler.
    signal.signal(signal.SIGTERM, _terminate)
    store = SecretsBackend(Address.parse(journal), name, waits=True)
    prepared, open_journal = runner.open_sweep(store)
    with open_journal:
        if not open_journal.state.outcome:
            if chart:
                prepared = replace(prepared, chart=Path(chart))
            trials = SweepTarget.of(open_journal.state.place, helm).trials(prepared)
            progress = view.SweepProgress(open_journal.state, time.time())

            def report(_state: SweepState) -> None:
                view.news(console, progress)

            runner.run(
                prepared, trials, open_journal, report, notify=console.note, is_relieved=True
            )
        state = open_journal.state
        console.text(view.headline(state, time.time(), running=False))
    if not state.outcome:
        raise click.exceptions.Exit(EXIT_TERMINATED)


def _terminate(*_: object) -> None:
    raise SystemExit(EXIT_TERMINATED)
