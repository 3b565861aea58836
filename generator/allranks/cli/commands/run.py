"""`allranks run`: a job from its values file to its end, on a cluster or on this machine.

The exit code is the job's own, so that a script can go on from it.
"""

from __future__ import annotations

import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from allranks import names
from allranks.cli import options, status_view
from allranks.cli.commands import runs
from allranks.cli.run_options import RunOptions, job_options
from allranks.cli.target import target_options
from allranks.cluster import crds, paths, permissions
from allranks.cluster.pod_selection import RankIdentity
from allranks.errors import (
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_TERMINATED,
    AllranksError,
    InputError,
    NameTakenError,
    ReleaseTakenError,
)
from allranks.helm import binary as helm_binary
from allranks.helm import releases
from allranks.humanize import list_some
from allranks.model import rank_lines
from allranks.model.status import Phase
from allranks.service import prepare, render
from allranks.status.failures import unfit_nodes
from allranks.yamlio import load

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allranks.cli.console import Console
    from allranks.cli.target import ClusterTarget, Target
    from allranks.cli.workspace import WorkspaceFlags
    from allranks.cluster.interface import KubeClient, Rules
    from allranks.helm.releases import ReleaseRef
    from allranks.local import runs as local_runs
    from allranks.model.status import RunStatus
    from allranks.service.prepare import PreparedJob
    from allranks.service.render import Rendered
    from allranks.service.workspace import PackedWorkspace
    from allranks.values.sources import Sources


@click.command("run", short_help="Run a job and follow it to its end.")
@job_options(target_options)
@click.option("--nodes-from-cluster", is_flag=True, help="Fit the job to the cluster's free nodes.")
@click.option(
    "--workdir",
    metavar="DIR",
    type=click.Path(),
    help="Where the programs start, with --on local. Default: the first values file's folder.",
)
@options.queue_options
@options.pass_console
def run_command(
    console: Console,
    *,
    name: str,
    sources: Sources,
    workspace: WorkspaceFlags,
    target: Target,
    run_options: RunOptions,
    nodes_from_cluster: bool,
    workdir: str | None,
    dry_run: bool,
) -> None:
    """Run the job NAME and follow it to its end.

    On a cluster it is a Helm release of this name. Ctrl-C leaves the job there and ends the
    following only; `allranks delete` ends the job.

    With --on local its pods are processes of this machine, with real torchrun or mpirun, and the
    image is not used. Ctrl-C stops the job.

    With --workspace the folder of code is sent along as it is now, and each pod starts in a copy of
    it; `allranks show` gives it back.

    Where a preflight names a node that is not fit to train, the run is started anew without that
    node, up to three times, while it is followed. On a cluster.

    Each line of the log starts with its rank. The exit code is the job's own: 0, or that of the
    rank that failed first; 130 after Ctrl-C.

    \b
    Example:
      allranks run demo -f values.yaml
      allranks run demo -f values.yaml -n research --detach
      allranks run demo -f values.yaml --on local
      allranks run demo -f values.yaml --workspace .
    """
    cluster_target = target.cluster_target(console)
    if cluster_target is None:
        if nodes_from_cluster:
            raise InputError("is for a cluster", path="--nodes-from-cluster", hint="leave it out")
        folder = working_folder(workdir, sources)
        prepared = prepare.prepare(
            sources, release=name, namespace=target.local_namespace, is_local=True
        )
        packed = workspace.pack(
            prepared.loaded.values, where=prepared.loaded.where, is_local=True, console=console
        )
        if dry_run:
            show_dry_run(
                console,
                prepared,
                packed,
                name=name,
                namespace=target.local_namespace,
                output=run_options.output,
            )
            return
        raise click.exceptions.Exit(
            run_here(
                console, prepared, name, target, folder, run_options=run_options, workspace=packed
            )
        )

    if workdir is not None:
        raise InputError(
            "is for --on local: a pod starts in its image's folder",
            path="--workdir",
            hint="set workingDir in the values",
        )
    fit = prepare.FitTarget("", nodes_from_cluster, target.context, target.kubeconfig)
    prepared = prepare.prepare(sources, release=name, namespace=cluster_target.namespace, fit=fit)
    loaded = prepared.loaded
    packed = workspace.pack(loaded.values, where=loaded.where, console=console)
    if dry_run:
        show_dry_run(
            console,
            prepared,
            packed,
            name=name,
            namespace=cluster_target.namespace,
            output=run_options.output,
        )
        return
    raise click.exceptions.Exit(
        run_on_cluster(
            console,
            prepared,
            name,
            cluster_target,
            run_options,
            workspace=packed,
        )
    )


_STATUS_SECONDS = 1.0
_UNFIT_NODES = 3  # how often a run is started anew because a preflight has named nodes
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True, slots=True)
class PreparedLocalRun:
    """A run of this machine that is ready to start."""

    manifests: list[Any]
    name: str
    namespace: str
    folder: Path

    def start(self, *, foreground: bool) -> local_runs.Handle:
        """Start it as processes of this machine."""
        from allranks.local import runs as local_runs

        return local_runs.start(
            self.manifests,
            name=self.name,
            namespace=self.namespace,
            workdir=self.folder,
            foreground=foreground,
        )


def run_here(
    console: Console,
    prepared: PreparedJob,
    name: str,
    target: Target,
    folder: Path,
    *,
    run_options: RunOptions,
    workspace: PackedWorkspace | None = None,
) -> int:
    """Start a job here and follow it; return the exit code.

    Args:
        console: where to show it.
        prepared: its checked values.
        name: the run.
        target: its namespace, and the helm to use.
        folder: where its programs start.
        run_options: how to run it.
        workspace: the folder of code that its pods get a copy of; None for none.
    """
    from allranks.local import values as local_values

    namespace = target.local_namespace
    binary = helm_binary.find(target.helm)
    if workspace is not None:
        prepared = workspace.into(prepared)
    if run_options.replace:
        _remove(name, namespace)
    local = local_values.values_for_this_machine(prepared.loaded.user, prepared.loaded.values)
    text = render.manifests(prepared, binary, name, namespace, local.values)
    for note in (*prepared.notes, *local.notes):
        console.note(note)
    manifests = load.load_all(text)
    if workspace is not None:
        console.note(workspace.sentence)
        manifests = [*workspace.transport.manifests(namespace), *manifests]
    job = PreparedLocalRun(manifests, name, namespace, folder)
    if run_options.detach:
        _started(console, job.start(foreground=False), run_options.output)
        return 0
    return _to_its_end(console, job, run_options.output)


def working_folder(workdir: str | None, sources: Sources) -> Path:
    """Return the working folder of a run: `workdir`, else the folder of the first values file.

    Raises:
        InputError: there is no such folder.
    """
    if workdir is not None:
        folder = Path(workdir)
        if not folder.is_dir():
            raise InputError(f"{workdir!r} is not a folder", path="--workdir", hint="name a folder")
        return folder.absolute()
    first = next((file for file in sources.files if file != "-"), "")
    return Path(first).absolute().parent if first else Path.cwd()


def _remove(name: str, namespace: str) -> None:
    from allranks.local import runs as local_runs

    if any((run.name, run.namespace) == (name, namespace) for run in local_runs.list_runs()):
        local_runs.delete(name, namespace)


def _to_its_end(console: Console, job: PreparedLocalRun, output: str) -> int:
    with _stopping(console) as interrupted, job.start(foreground=True) as handle:
        interrupted.handle = handle
        status = _follow_here(console, handle, output)
    if output == "json":
        console.json(status.as_dict())
    else:
        console.text("")
        status_view.show(console, status, time.time(), here=True)
    return interrupted.code or status_view.exit_code(status)


def _started(console: Console, handle: local_runs.Handle, output: str) -> None:
    status = handle.status()
    if output == "json":
        console.json(status.as_dict())
        return
    for note in handle.notes:
        console.note(note)
    console.text(f"started {status.name}")
    console.command(f"{names.CLI} logs {status.name} --on local --follow")
    console.command(f"{names.CLI} status {status.name} --on local")


def _follow_here(console: Console, handle: local_runs.Handle, output: str) -> RunStatus:
    training = status_view.TrainingProgress()
    last_note: tuple[float, str] = (0.0, "")

    def line() -> str:
        nonlocal last_note
        if time.monotonic() - last_note[0] > _STATUS_SECONDS:
            status = handle.status()
            took = status_view.duration(status.started_at, None, time.time())
            last_note = (time.monotonic(), f"{status.phase}: {status_view.counts(status)}, {took}")
        return ", ".join(part for part in (last_note[1], training.text) if part)

    for note in handle.notes:
        console.note(note)
    with console.progress(lambda _: line()):
        for entry in handle.follow():
            training.read(entry.text)
            pod = str(RankIdentity(entry.role, entry.rank))
            who = rank_lines.who(pod, entry.role, entry.writers, entry.process)
            console.log(who, entry.text, result=output != "json")
    return handle.wait()


@dataclass(slots=True)
class _Interrupted:
    """The state of Ctrl-C and SIGTERM handling.

    Attributes:
        handle: the run, once it is started.
        times: how many signals came.
        code: the exit code of the first of them; 0 before.
    """

    handle: local_runs.Handle | None = None
    times: int = 0
    code: int = 0


@contextmanager
def _stopping(console: Console) -> Iterator[_Interrupted]:
    """Stop the run in order on Ctrl-C and SIGTERM, and at once on a second one.

    The log is followed until the run has ended: a trainer may log its last checkpoint.
    """
    state = _Interrupted()

    def interrupt(number: int, _frame: object) -> None:
        terminated = number == signal.SIGTERM
        if state.handle is None:
            if terminated:
                raise SystemExit(EXIT_TERMINATED)
            raise KeyboardInterrupt
        state.times += 1
        if state.times == 1:
            state.code = EXIT_TERMINATED if terminated else EXIT_INTERRUPTED
            again = "SIGTERM" if terminated else "Ctrl-C"
            console.note(f"stopping; a second {again} stops at once")
        state.handle.stop(at_once=state.times > 1, terminated=terminated)

    before = {number: signal.signal(number, interrupt) for number in _STOP_SIGNALS}
    try:
        yield state
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run_on_cluster(
    console: Console,
    prepared: PreparedJob,
    name: str,
    cluster_target: ClusterTarget,
    run_options: RunOptions,
    *,
    workspace: PackedWorkspace | None = None,
) -> int:
    """Install a job and follow it; return the exit code.

    Args:
        console: where to show it.
        prepared: its checked values.
        name: the release.
        cluster_target: the cluster and namespace.
        run_options: how to run it.
        workspace: the folder of code that is sent along; None for none.

    Raises:
        InputError: the name is taken, or the namespace is not there.
        AllranksError: the cluster does not answer, or forbids it; nothing is left of the run.
    """
    home = cluster_target.home(name)
    if workspace is not None:
        prepared = workspace.into(prepared)
    suspended = bool((prepared.loaded.values.get("runPolicy") or {}).get("suspend"))
    detach = run_options.detach or suspended
    # Helm renders in a process of its own, while the cluster is asked here.
    with ThreadPoolExecutor(1) as beside:
        rendering_ = beside.submit(render.for_cluster, prepared, home)
        rules = cluster_target.cluster.rules(home.namespace)
        rendered = rendering_.result()
    if rules is not None:
        needs = permissions.install_needs(rendered.objects, follow=not detach)
        if workspace is not None:
            needs += workspace.transport.needs
        missing = permissions.missing(rules, needs)
        if missing:
            raise permissions.refusal(cluster_target.cluster.where, home.namespace, missing)
        _check_status(prepared, home, cluster_target, rules)
    for note in prepared.notes:
        console.note(note)
    if run_options.replace:
        runs.remove(cluster_target.cluster, home)
    if workspace is None:
        install(console, rendered, home)
    else:
        nodes = prepared.layout.max_nodes + prepared.layout.spares
        _send_and_install(console, rendered, home, cluster_target.cluster, workspace, nodes=nodes)
    if not detach:
        kinds = tuple({str(manifest.get("kind")) for manifest in rendered.objects})
        return _follow_on_cluster(console, home, cluster_target, run_options, kinds)
    if run_options.output == "json":
        console.json({"name": home.name, "namespace": home.namespace})
        return EXIT_OK
    console.text(f"started {home.name}{' (suspended)' if suspended else ''}")
    for line in ("resume" if suspended else "attach", "status", "delete"):
        console.command(f"{names.CLI} {line} {home.name}{_where(home)}")
    return EXIT_OK


def _check_status(
    prepared: PreparedJob, home: ReleaseRef, cluster_target: ClusterTarget, rules: Rules
) -> None:
    """Refuse if the chart would render a TrainingRun that the user may not create.

    The chart decides by the kinds that the cluster serves, so that the TrainingRun is not among the
    rendered manifests. The cluster is asked for its kinds only if the right is missing.
    """
    if (prepared.loaded.values.get("status") or {}).get("enabled") != "auto":
        return  # what the values say was rendered, and looked at
    missing = permissions.missing(rules, permissions.TO_HAVE_A_STATUS)
    if missing and crds.serves(cluster_target.cluster, paths.TRAINING_RUNS):
        refusal = permissions.refusal(cluster_target.cluster.where, home.namespace, missing)
        raise type(refusal)(
            refusal.problem.message,
            hint=f"{refusal.problem.hint}; or do without its status: --set status.enabled=false",
        )


def _send_and_install(
    console: Console,
    rendered: Rendered,
    home: ReleaseRef,
    cluster: KubeClient,
    workspace: PackedWorkspace,
    *,
    nodes: int,
) -> None:
    """Send a snapshot, install the release, and make it the snapshot's owner.

    Nothing starts before all of the snapshot is there. Where the release does not come, what was
    sent for it goes again.

    Raises:
        AllranksError: helm or the cluster refused, in our words.
    """
    from allranks.workspace import config_maps

    parts = workspace.transport.send(cluster, home.namespace, nodes=nodes)
    console.note(workspace.sentence if parts.created else f"{workspace.sentence}: sent before")
    try:
        install(console, rendered, home)
    except AllranksError:
        workspace.transport.withdraw(cluster, home.namespace, parts)
        raise
    try:
        controllers = config_maps.controllers(cluster, rendered.objects, home.namespace)
        workspace.transport.own(cluster, home.namespace, controllers)
        config_maps.collect(cluster, home.namespace, owned=parts.names)
    except AllranksError as error:
        console.note(
            f"the snapshot has no owner yet: {error.problem.message}; the next submit in namespace "
            f"{home.namespace} sees to it"
        )


def show_dry_run(
    console: Console,
    prepared: PreparedJob,
    workspace: PackedWorkspace | None,
    *,
    name: str,
    namespace: str,
    output: str,
) -> None:
    """Show what would run and what would be sent; nothing is started.

    Args:
        console: where to show it.
        prepared: the checked values of the job.
        workspace: the folder of code; None for none.
        name: the run's name.
        namespace: its namespace.
        output: text or json.
    """
    if output == "json":
        data = {
            "name": name,
            "namespace": namespace,
            "workload": prepared.loaded.workload,
            "layout": prepared.layout.as_dict(),
        }
        if workspace is not None:
            data["workspace"] = workspace.as_dict()
        console.json(data)
        return
    for note in prepared.notes:
        console.note(note)
    console.text(f"{name}  {prepare.summary(prepared)}; nothing was started")
    if workspace is not None:
        from allranks.cli import workspace as workspace_view

        workspace_view.show(console, workspace)


def install(console: Console, rendered: Rendered, home: ReleaseRef) -> None:
    """Install a release; after a failure its remains are removed.

    Raises:
        AllranksError: helm or the cluster refused, in our words.
    """
    try:
        releases.install(home, rendered.chart, rendered.values, post_render=rendered.post_render)
    except KeyboardInterrupt:
        console.note(
            f"interrupted during the install; remove it with `{names.CLI} delete {home.name}`"
        )
        raise
    except ReleaseTakenError as error:
        raise _unfinished(home) or error from error
    except AllranksError as error:
        if not isinstance(error, NameTakenError):
            releases.take_back(home)
        raise


def _unfinished(home: ReleaseRef) -> ReleaseTakenError | None:
    """The error for a name whose release was begun and not finished; None for a finished one."""
    with suppress(AllranksError):
        release = releases.find(home)
        if release is not None and release.status.startswith("pending"):
            return ReleaseTakenError(
                f"release {home.name!r} was begun and is not finished ({release.status}): another "
                "command is at work on it, or was killed",
                hint="wait for that command; where it was killed, the same with --replace removes "
                "what it has left and begins anew",
            )
    return None


def _follow_on_cluster(
    console: Console,
    home: ReleaseRef,
    cluster_target: ClusterTarget,
    run_options: RunOptions,
    kinds: tuple[str, ...],
) -> int:
    # Who only starts a job does not wait for what reads its status.
    from allranks.cli import follow, status_view

    how = follow.FollowOptions(
        logs=run_options.logs,
        timeout=run_options.timeout,
        json=run_options.output == "json",
        kinds=kinds,
    )
    try:
        status = follow.follow(console, cluster_target.cluster, home.name, home.namespace, how)
        for _ in range(_UNFIT_NODES):
            unfit = unfit_nodes(status.failure) if status.phase is Phase.FAILED else ()
            if not unfit or not _start_off(console, cluster_target, status, unfit):
                break
            status = follow.follow(console, cluster_target.cluster, home.name, home.namespace, how)
    except KeyboardInterrupt:
        where = _where(home)
        console.note(
            f"{home.name} goes on in the cluster: `{names.CLI} attach {home.name}{where}` follows "
            f"it again, `{names.CLI} delete {home.name}{where}` ends it"
        )
        return EXIT_INTERRUPTED
    if run_options.output == "json":
        console.json(status.as_dict())
    else:
        console.text("")
        status_view.show(console, status, time.time())
    return status_view.exit_code(status)


def _start_off(
    console: Console, cluster_target: ClusterTarget, status: RunStatus, unfit: tuple[str, ...]
) -> bool:
    """Start a run anew that a preflight has ended, off the nodes that it named; whether it is."""
    from allranks.cli.commands import avoid

    words = status.failure.message.split("\n", 1)[0] if status.failure is not None else ""
    console.note(f"{words}; starting {status.name} anew without {list_some(unfit)}")
    try:
        _, is_changed, _ = avoid.keep_off(console, cluster_target, status.name, unfit)
    except AllranksError as error:
        console.note(f"{status.name} is not started anew: {error.problem.message}")
        return False
    if not is_changed:
        console.note(f"{status.name} is not started anew: it avoids {list_some(unfit)} already")
    return is_changed


def _where(home: ReleaseRef) -> str:
    """Return the flags that select a run."""
    return f" -n {home.namespace}"
