"""`allranks upgrade`: change the values of a run, or report the fields that cannot change."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from allranks import names
from allranks.cli import options
from allranks.cli.target import run_argument, target_options
from allranks.errors import PROBLEMS_MAX, InputError, InvalidValues, Problem, RunError
from allranks.humanize import list_some
from allranks.k8s.fields import mapping
from allranks.service import prepare
from allranks.values import queue
from allranks.workspace import config_maps

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from allranks.cli.console import Console
    from allranks.cli.target import Target
    from allranks.cluster.interface import KubeClient
    from allranks.cluster.upgrade import Obstacle
    from allranks.helm.releases import ReleaseRef
    from allranks.k8s.manifest import Manifest
    from allranks.service.prepare import PreparedJob
    from allranks.service.render import Rendered
    from allranks.values.sources import Sources

_RECREATE_SECONDS = 300.0
_THERE = "cannot change while it is there"


@click.command("upgrade", short_help="Bring a run to new values.")
@run_argument
@options.values_options
@target_options
@options.helm_option
@click.option(
    "--recreate",
    is_flag=True,
    help="Replace all pods of the run where a change needs it. Volumes stay.",
)
@options.timeout_option("How long to wait until the old pods are gone.", _RECREATE_SECONDS)
@click.option("--dry-run", is_flag=True, help="Only say what would happen.")
@options.output_option("text", "json")
@options.queue_options
@options.pass_console
def upgrade_command(
    console: Console,
    *,
    name: str,
    sources: Sources,
    target: Target,
    recreate: bool,
    timeout: float,
    dry_run: bool,
    output: str,
) -> None:
    """Bring run NAME to new values.

    What Kubernetes changes on objects that are there is applied. What it does not (most of a Job)
    is named field by field before anything is sent, and so is another pod template of an elastic
    job that runs; --recreate then replaces workers, launcher and master, and the training starts
    again from its last checkpoint. A run on this machine is not changed: the error says how it is
    started anew.

    The code of a workspace stays that which was sent; `allranks submit --replace` sends it anew.

    A run of a queue keeps to what the queue said when the run was made, whatever it says now; -q
    takes the queue's present state.

    \b
    Example:
      allranks upgrade demo -f values.yaml --set runPolicy.ttlSecondsAfterFinished=3600
      allranks upgrade demo -f values.yaml --recreate
    """
    cluster_target = target.cluster_target(console)
    if cluster_target is None:
        raise _not_here(name, target, sources)
    from allranks.cli.commands import runs
    from allranks.cluster import crds, upgrade
    from allranks.helm import releases
    from allranks.service import render

    home = cluster_target.home(name)
    release = releases.find(home) if sources.queue is None else None
    if release is not None:
        sources = _of_record(console, sources, release.values)
    prepared = prepare.prepare(sources, release=name, namespace=cluster_target.namespace)
    release = release or releases.find(home)
    if release is None:
        raise runs.missing(cluster_target.cluster, home)
    snapshot = mapping(release.values, "workspace", "snapshot")
    if snapshot and not mapping(prepared.loaded.user, "workspace", "snapshot"):
        prepared = replace(prepared, snapshot=snapshot)
    prepared = _keep_off(console, prepared, release.values)
    rendered = render.for_cluster(prepared, home)
    _check_kinds(name, crds.unserved(cluster_target.cluster, release.manifests))
    outlook = upgrade.preview(
        cluster_target.cluster, cluster_target.namespace, rendered.objects, release.manifests
    )
    for note in prepared.notes:
        console.note(note)
    for missing in outlook.missing:
        console.note(f"{missing} is gone (it has ended): the upgrade starts it anew")
    stuck = [obstacle for obstacle in outlook.obstacles if not (recreate and obstacle.replaceable)]
    if stuck:
        raise refusal(name, stuck)
    if dry_run:
        doomed = [f"{obstacle.kind}/{obstacle.name}" for obstacle in outlook.obstacles]
        _report(console, name, doomed, output, would=True)
        return
    replaced = apply(cluster_target.cluster, home, rendered, outlook.obstacles, timeout=timeout)
    _report(console, name, replaced, output, would=False)


def apply(
    cluster: KubeClient,
    home: ReleaseRef,
    rendered: Rendered,
    obstacles: Sequence[Obstacle],
    *,
    timeout: float,
) -> list[str]:
    """Bring a release to what was rendered; return what was replaced for it.

    Args:
        cluster: the cluster.
        home: the release.
        rendered: its new state.
        obstacles: what is deleted first, with all that runs.
        timeout: seconds to wait until it is gone.

    Raises:
        NotFoundError: the code of its workspace is no longer there.
        AllranksError: helm or the cluster refused.
    """
    from allranks.cluster import upgrade
    from allranks.helm import releases

    snapshot = mapping(rendered.values, "workspace", "snapshot")
    code = _code(cluster, snapshot, home.namespace)
    replaced: list[str] = []
    if obstacles:
        upgrade.recreate(
            cluster, home.name, home.namespace, obstacles, timeout=timeout, tell=replaced.append
        )
    releases.upgrade(home, rendered.chart, rendered.values, post_render=rendered.post_render)
    if code:
        # It goes with the objects that were replaced, and is sent again for the new ones.
        controllers = config_maps.controllers(cluster, rendered.objects, home.namespace)
        config_maps.own(cluster, code, home.namespace, controllers)
    return replaced


def _code(cluster: KubeClient, snapshot: Mapping[str, Any], namespace: str) -> list[Manifest]:
    """Return the parts of a run's workspace; [] where it has none in ConfigMaps.

    Raises:
        NotFoundError: they are no longer there, and pods that start could not have them.
    """
    if snapshot.get("via") != "configMap":
        return []
    return config_maps.find(cluster, namespace, str(snapshot.get("digest")))


def _of_record(console: Console, sources: Sources, values: Mapping[str, Any]) -> Sources:
    """Return the sources with the queue that the run was made with, and say so."""
    record = queue.recorded(values)
    if record is not None:
        revision = f", revision {record.revision}" if record.revision else ""
        console.note(
            f"{record.label} is taken as it was when the run was made{revision}; "
            f"-q {record.name} takes its present state"
        )
    return replace(sources, queue=record)


def _keep_off(console: Console, prepared: PreparedJob, recorded: Mapping[str, Any]) -> PreparedJob:
    """Return the job with the nodes that the run avoids already, where its values name none."""
    avoided = mapping(recorded, "scheduling").get("avoidNodes")
    scheduling = mapping(prepared.loaded.user, "scheduling")
    if not avoided or "avoidNodes" in scheduling:
        return prepared
    console.note(f"it still avoids {list_some(list(map(str, avoided)))}, as before")
    user = {**prepared.loaded.user, "scheduling": {**scheduling, "avoidNodes": avoided}}
    return replace(prepared, loaded=replace(prepared.loaded, user=user))


def _check_kinds(name: str, kinds: Sequence[str]) -> None:
    """Refuse a release with objects whose kinds the cluster no longer serves, as helm would.

    Raises:
        RunError: there are some.
    """
    if kinds:
        raise RunError(
            f"the cluster no longer has the kind of {', '.join(kinds)}, which release {name} "
            "holds: helm cannot upgrade it",
            hint=f"`{names.CLI} operator install --crds-only` brings the kinds of {names.CLI} "
            f"back; or `{names.CLI} delete {name}`, and run it anew",
        )


def _not_here(name: str, target: Target, sources: Sources) -> InputError:
    """Return the error for a run on this machine, with the command that runs it with new values.

    Raises:
        InputError: there is no such run.
    """
    from allranks.local import runs as local_runs

    local_runs.status(name, target.local_namespace)
    words = [names.CLI, "run", name]
    words += [word for file in sources.files for word in ("-f", file)]
    words += [word for kind, text in sources.sets for word in (f"--{kind}", text)]
    words += ["-q", sources.queue.name] if sources.queue is not None else []
    words += ["-n", target.namespace] if target.namespace else []
    again = shlex.join([*words, "--on", "local", "--replace"])
    return InputError(
        "a run on this machine keeps the values that it was started with",
        path="--on",
        hint=f"`{again}` ends it and starts it anew, from its last checkpoint where it writes one",
    )


def refusal(name: str, obstacles: Sequence[Obstacle], again: str = "") -> InvalidValues:
    """Return the error for fields that cannot change, with their old and new values.

    Args:
        name: the run.
        obstacles: what cannot change.
        again: the command that replaces it; "" for `upgrade --recreate`.
    """
    again = again or f"{names.CLI} upgrade {name} --recreate"
    problems: list[Problem] = []
    for obstacle in obstacles:
        hint = (
            f"`{again}` replaces it"
            if obstacle.replaceable
            else "leave it as it is, or use a claim of your own (existingClaim): it is never "
            "replaced, because its data would be lost"
        )
        where = f"{obstacle.kind}/{obstacle.name}"
        reason = f"cannot change while it runs: {obstacle.keeps}" if obstacle.keeps else _THERE
        for change in obstacle.changes:
            path = f"{where} {change.path}"
            problems.append(Problem(path, f"{reason}: {change}", hint))
        if obstacle.message and (obstacle.keeps or not obstacle.changes):
            problems.append(Problem(where, f"cannot change as asked: {obstacle.message}", hint))
    # A fix that is the same for many fields is said once, with the last of them.
    last = {problem.hint: index for index, problem in enumerate(problems[:PROBLEMS_MAX])}
    return InvalidValues(
        [
            problem if last.get(problem.hint, index) == index else problem.at(hint="")
            for index, problem in enumerate(problems)
        ]
    )


def _report(
    console: Console, name: str, replaced: Sequence[str], output: str, *, would: bool
) -> None:
    if output == "json":
        console.json({"name": name, "replaced": list(replaced), "dryRun": would})
        return
    console.text(f"{'would upgrade' if would else 'upgraded'} {name}")
    for item in replaced:
        console.text(f"  {'would replace' if would else 'replaced'} {item}")
