"""`allranks queue`: install, list, show, check, delete and import the queues of teams.

It is longer than most: six commands share what they print.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from allranks import names, resources
from allranks.cli import options, status_view
from allranks.cli.target import only_cluster_options
from allranks.errors import EXIT_INPUT, AllranksError, InputError, NotFoundError, RunError
from allranks.humanize import list_some, plural
from allranks.k8s.fields import text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allranks.cli.console import Console
    from allranks.cli.target import ClusterTarget, Target
    from allranks.cluster.client import KubeCluster
    from allranks.cluster.queues import Remains
    from allranks.errors import Problem
    from allranks.helm.releases import Release, ReleaseRef
    from allranks.k8s.manifest import Manifest
    from allranks.status.observation import Observation
    from allranks.status.queue_usage import QueueUsage
    from allranks.values.queue import Queue
    from allranks.values.rules.base import ValuesRule
    from allranks.values.sources import Sources

_RUNS_SHOWN = 20


@click.group(
    "queue",
    short_help="Give a team shared settings and rules, and look at them.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
def queue_command() -> None:
    """Give a team a queue: settings that its jobs share, rules that hold them, and its rights.

    A queue is a release of charts/queue in the team's namespace; jobs take it with -q.

    \b
    Example:
      allranks queue install h100 -f queue.yaml -n research
      allranks queue show h100 -n research
      allranks run demo -f values.yaml -q h100 -n research
    """


def _queue_argument(function: Any) -> Any:
    return click.argument("name", shell_complete=options.complete_queue)(function)


@queue_command.command("install", short_help="Install a queue, or bring it to new values.")
@_queue_argument
@options.some_values_options
@only_cluster_options
@options.helm_option
@options.output_option("text", "json")
@options.pass_console
def install_command(
    console: Console, /, *, name: str, sources: Sources, target: Target, output: str
) -> None:
    """Install queue NAME as a Helm release, or bring it to new values.

    The values are those of charts/queue: defaults, rules, imposed and more. A job that runs is not
    touched: it keeps the revision that it was made with.

    \b
    Example:
      allranks queue install h100 -f queue.yaml -n research
      allranks queue install h100 -f queue.yaml -n research --set rules.maxGpusPerJob=32
    """
    from allranks.helm import releases
    from allranks.service import queues

    values = queues.values_of(sources, name)
    cluster_target = target.on_cluster()
    home = cluster_target.home(name)
    chart = resources.folder("charts") / names.QUEUE_CHART
    before = releases.find(home)
    if before is not None and _config_map(before, name) is None:
        raise InputError(
            f"release {name!r} in namespace {home.namespace} is no queue",
            hint="give the queue another name",
        )
    if before is None:
        try:
            releases.install(home, chart, values, post_render=False)
        except (AllranksError, KeyboardInterrupt):
            releases.take_back(home)
            raise
    else:
        releases.upgrade(home, chart, values, post_render=False)
    after = _installed(home, name)
    old = "" if before is None else _revision(_config_map(before, name) or {})
    new = _revision(after)
    if output == "json":
        console.json(
            {"name": name, "namespace": home.namespace, "revision": new, "previous": old or None}
        )
        return
    word = "installed" if before is None else "upgraded"
    console.text(f"{word} queue {name} in namespace {home.namespace}, revision {new}")
    if old and old != new:
        console.text(f"  before: {old}; runs that were made with it are not changed")
    _note_overlaps(console, cluster_target, name, values)
    console.command(f"{names.CLI} queue show {name} -n {home.namespace}")


def _note_overlaps(
    console: Console, cluster_target: ClusterTarget, name: str, values: Mapping[str, Any]
) -> None:
    """Say where the rules of two queues of a namespace hold the same jobs."""
    from allranks.cluster import queues as cluster_queues
    from allranks.helm import releases
    from allranks.values.merge import merge
    from allranks.values.sources import defaults

    ours = merge(defaults(names.QUEUE_CHART), values)
    try:
        for manifest in cluster_queues.list_all(cluster_target.cluster, cluster_target.namespace):
            other = cluster_queues.name_of(manifest)
            release_name = text(manifest, "metadata", "annotations", names.HELM_RELEASE)
            if other == name or not release_name:
                continue
            release = releases.find(cluster_target.home(release_name))
            if release is None:
                continue
            theirs = merge(defaults(names.QUEUE_CHART), release.values)
            for holder, policy, held, of_held in (
                (other, theirs["policy"], name, ours["policy"]),
                (name, ours["policy"], other, theirs["policy"]),
            ):
                if not _holds(policy, held):
                    continue
                if holder in of_held["otherQueues"]:
                    fix = f"give {holder} policy.forAll: false"
                else:
                    fix = f"give {holder} policy.otherQueues: [{held}]"
                    if _holds(of_held, holder):
                        fix += f", and {held} policy.forAll: false"
                console.note(
                    f"queue {holder} holds every job of namespace {cluster_target.namespace}, "
                    f"also those of queue {held}: {fix}"
                )
                break  # what ends it the other way round is in it
    except AllranksError:
        return  # the queue is there; who may not look at the others is told nothing


def _holds(policy: Mapping[str, Any], queue: str) -> bool:
    """Whether the rules of one queue hold the jobs of another."""
    is_on = policy["enabled"] is not False and str(policy["enabled"]) != "false"
    return bool(is_on and policy["forAll"] and queue not in policy["otherQueues"])


def _installed(home: ReleaseRef, name: str) -> Manifest:
    from allranks.helm import releases

    release = releases.find(home)
    manifest = None if release is None else _config_map(release, name)
    if manifest is None:
        raise RunError(
            f"queue {name} is gone: somebody has removed its release meanwhile",
            hint="run the same command again",
        )
    return manifest


def _config_map(release: Release, name: str) -> Manifest | None:
    from allranks.cluster import queues

    return next((item for item in release.manifests if queues.name_of(item) == name), None)


def _revision(manifest: Manifest) -> str:
    annotations = (manifest.get("metadata") or {}).get("annotations") or {}
    return str(annotations.get(names.QUEUE_REVISION) or "")


@queue_command.command("list", short_help="List the queues.")
@only_cluster_options
@click.option("-A", "--all-namespaces", is_flag=True, help="Of every namespace of the cluster.")
@options.output_option("table", "json")
@options.pass_console
def list_command(console: Console, /, *, target: Target, all_namespaces: bool, output: str) -> None:
    """List the queues of a namespace.

    \b
    Example:
      allranks queue list
      allranks queue list -A -o json
    """
    from allranks.cluster import queues as cluster_queues

    cluster_target = target.on_cluster()
    space = None if all_namespaces else cluster_target.namespace
    items = cluster_queues.list_all(cluster_target.cluster, space)
    rows = sorted(
        (_entry(item, console) for item in items),
        key=lambda entry: (entry["namespace"], entry["name"]),
    )
    if output == "json":
        console.json(rows)
    elif rows:
        console.table(
            ["NAME", "NAMESPACE", "REVISION", "GPUS/JOB", "GPUS", "WORKLOADS"],
            [_row(entry) for entry in rows],
            right=["GPUS/JOB", "GPUS"],
            spare=["REVISION", "WORKLOADS"],
        )
    else:
        if space is not None:
            cluster_queues.check_namespace(cluster_target.cluster, space)
        console.note("there are no queues")


def _entry(manifest: Manifest, console: Console) -> dict[str, Any]:
    from allranks.cluster import queues as cluster_queues
    from allranks.values import queue as values_queue

    entry: dict[str, Any] = {
        "name": cluster_queues.name_of(manifest),
        "namespace": str(manifest["metadata"].get("namespace") or ""),
        "revision": _revision(manifest),
        "rules": None,
    }
    try:
        entry["rules"] = values_queue.from_config_map(manifest).rules.as_dict()
    except InputError as error:
        console.note(str(error))
    return entry


def _row(entry: dict[str, Any]) -> tuple[str, ...]:
    rules = entry["rules"]
    if rules is None:
        return entry["name"], entry["namespace"], entry["revision"], "?", "?", "cannot be read"
    return (
        entry["name"],
        entry["namespace"],
        entry["revision"],
        str(rules["maxGpusPerJob"] or "-"),
        str(rules["maxGpusInAll"] or "-"),
        ", ".join(rules["workloads"]) or "all",
    )


@queue_command.command("show", short_help="Show a queue: its settings, its GPUs, what waits.")
@_queue_argument
@only_cluster_options
@options.output_option("text", "json")
@options.pass_console
def show_command(console: Console, /, *, name: str, target: Target, output: str) -> None:
    """Show queue NAME: its blocks, the GPUs that are used and free, the runs that wait and why.

    \b
    Example:
      allranks queue show h100
      allranks queue show h100 -n research -o json
    """
    from allranks.service import queues

    cluster_target = target.on_cluster()
    queue = queues.from_cluster(cluster_target.cluster, name, cluster_target.namespace)
    usage, notes = _usage(console, cluster_target, queue)
    if output == "json":
        console.json({**queue.as_dict(), "namespace": cluster_target.namespace, **usage.as_dict()})
        return
    from allranks.cli.console import facts
    from allranks.yamlio import dump

    console.text(
        facts(
            {
                "queue": f"{name} in namespace {cluster_target.namespace}",
                "revision": queue.revision,
                "gpus": _gpus(usage),
                "runs": f"{len(usage.running)} running, {len(usage.waiting)} waiting, "
                f"{usage.finished} over",
            }
        )
    )
    for note in notes:
        console.note(note)
    if usage.waiting:
        console.text("")
        console.table(["WAITING", "FOR", "SINCE"], _waiting(usage), wrap="FOR")
    for block, data in (
        ("defaults", queue.defaults.data),
        ("rules", {key: value for key, value in queue.rules.as_dict().items() if value}),
        ("imposed", queue.imposed.data),
    ):
        console.text("")
        console.text(f"{block}:" if data else f"{block}: none")
        if data:
            console.raw("".join(f"  {line}\n" for line in dump.dump(data).splitlines()))


def _waiting(usage: QueueUsage) -> list[tuple[str, str, str]]:
    from allranks.status import queue_usage

    now = time.time()
    rows = [
        (run.name, queue_usage.why(run), status_view.duration(run.started_at, None, now))
        for run in usage.waiting[:_RUNS_SHOWN]
    ]
    more = len(usage.waiting) - _RUNS_SHOWN
    return [*rows, (f"… {more} more", "", "")] if more > 0 else rows


def _gpus(usage: QueueUsage) -> str:
    text = f"{usage.gpus} used"
    if usage.free is None:
        return f"{text}; nothing bounds them"
    bounds = [f"{bound.source} has {bound.used_gpus} of {bound.limit}" for bound in usage.bounds]
    return f"{text}, {usage.free} free ({'; '.join(bounds)})"


def _usage(
    console: Console, cluster_target: ClusterTarget, queue: Queue
) -> tuple[QueueUsage, list[str]]:
    from allranks.cluster import queues as cluster_queues
    from allranks.status import queue_usage

    def value(key: str) -> Any:
        return queue.imposed.data.get(key) or queue.defaults.data.get(key)

    objects, notes = cluster_queues.bounds(
        cluster_target.cluster, cluster_target.namespace, str(value("queue") or "")
    )
    resource = value("gpuResource") or _gpu_resource()
    return queue_usage.usage(_runs(console, cluster_target, queue.name), resource, objects), notes


def _runs(console: Console, cluster_target: ClusterTarget, name: str) -> list[Observation]:
    """Return the runs of a queue."""
    from allranks.cluster.observe import observe_all
    from allranks.status import queue_usage

    observations = observe_all(
        cluster_target.cluster, cluster_target.namespace, unread=console.note
    )
    return [item for item in observations if queue_usage.is_of(item, name)]


def _gpu_resource() -> str:
    from allranks.values.sources import defaults

    return str(defaults(names.WORKLOADS[0])["gpuResource"])


@queue_command.command("check", short_help="Say whether a queue would take a job.")
@options.values_options
@only_cluster_options
@options.output_option("text", "json")
@options.queue_options
@options.pass_console
def check_command(
    console: Console,
    /,
    *,
    sources: Sources,
    target: Target,
    output: str,
) -> None:
    """Say whether the queue of -q would take the job of these values: each rule, with its verdict.

    Nothing is sent. Exit code 2 means that a rule refuses the job. Where the cluster says how many
    GPUs are free, that is said too: a job that has to wait is taken all the same.

    \b
    Example:
      allranks queue check -f values.yaml -q h100
      allranks queue check -f values.yaml --queue-file queue.yaml
    """
    from allranks.values import check, resolve
    from allranks.values import sources as gathering

    queue = sources.queue
    if queue is None:
        raise InputError("no queue was named", hint="name it with -q NAME, or --queue-file FILE")
    loaded = gathering.load_sources(sources)
    # The queue's rules are told one by one below; what else is wrong comes first.
    resolve.refuse(replace(loaded, queue=None))
    verdicts = check.verdicts(loaded.values, loaded.where, queue)
    refused = [problem for _, problems in verdicts for problem in problems]
    gpus, free = check.gpus(loaded.values), _free(console, target, queue)
    if output == "json":
        console.json(
            {
                "ok": not refused,
                "exitCode": EXIT_INPUT if refused else 0,
                "queue": queue.name,
                "revision": queue.revision,
                "rules": [_verdict(queue, rule, problems) for rule, problems in verdicts],
                "problems": [problem.as_dict() for problem in refused],
                "gpus": {"job": gpus, "free": free},
                "overridden": [str(item) for item in loaded.overridden],
            }
        )
    else:
        for note in loaded.overridden:
            console.note(str(note))
        _show_verdicts(console, queue, verdicts)
        if free is not None:
            starts = "the quota lets it start" if gpus <= free else "it would wait"
            console.note(
                f"{plural(free, 'GPU')} of the quota free now, and the job has {gpus}: {starts}; "
                f"`{names.CLI} plan -f FILE --nodes-from-cluster` says whether nodes have them"
            )
    if refused:
        raise click.exceptions.Exit(EXIT_INPUT)


def _free(console: Console, target: Target, queue: Queue) -> int | None:
    """Return the GPUs that are free now; None where nothing says it, or a file is the queue."""
    if click.get_current_context().params.get("queue_file"):
        return None
    try:
        return _usage(console, target.on_cluster(), queue)[0].free
    except AllranksError:
        return None  # who may submit need not see what others run


def _verdict(queue: Queue, rule: ValuesRule, problems: tuple[Problem, ...]) -> dict[str, Any]:
    key = rule.id.removeprefix("queue-")
    return {
        "rule": key,
        "allowed": queue.rules.as_dict()[key],
        "ok": not problems,
        "problems": [problem.as_dict() for problem in problems],
    }


def _show_verdicts(
    console: Console, queue: Queue, verdicts: list[tuple[ValuesRule, tuple[Problem, ...]]]
) -> None:
    width = max(len(rule.id.removeprefix("queue-")) for rule, _ in verdicts)
    for rule, problems in verdicts:
        key = rule.id.removeprefix("queue-")
        if not problems:
            detail = _allowed(queue.rules.as_dict()[key])
            if key == "maxGpusInAll" and queue.rules.max_gpus_in_all:
                detail += " of all jobs together, which the namespace's quota holds"
            console.check("ok", key, detail, "", width)
        for problem in problems:
            place = f" ({problem.source})" if problem.source else ""
            detail = f"{problem.path}: {problem.message}{place}"
            console.check("fail", key, detail, problem.hint, width)
    refused = sum(bool(problems) for _, problems in verdicts)
    console.text(
        f"queue {queue.name} refuses the job by {plural(refused, 'rule')}"
        if refused
        else f"queue {queue.name} takes the job (revision {queue.revision})"
    )


def _allowed(value: Any) -> str:
    if isinstance(value, bool):
        return "allowed" if value else "not allowed, and not asked for"
    if isinstance(value, list):
        return ", ".join(value) or "no rule"
    return f"at most {value}" if value else "no rule"


@queue_command.command("delete", short_help="Remove a queue; its volumes stay.")
@_queue_argument
@only_cluster_options
@options.helm_option
@click.option("--force", "--yes", "force", is_flag=True, help="Also where runs use it; they go on.")
@options.output_option("text", "json")
@options.pass_console
def delete_command(
    console: Console, /, *, name: str, target: Target, force: bool, output: str
) -> None:
    """Remove queue NAME. Its shared volumes stay, and are named.

    Where runs use it that are not over, nothing is removed without --force. Such runs go on with
    what they were made with; the team's rights and the rules go with the queue.

    \b
    Example:
      allranks queue delete h100
      allranks queue delete h100 --force
    """
    from allranks.cluster import queues as cluster_queues
    from allranks.helm import releases
    from allranks.status.reduce import reduce

    cluster_target = target.on_cluster()
    cluster, namespace = cluster_target.cluster, cluster_target.namespace
    remaining = cluster_queues.remains(cluster, name, namespace)
    release_name = _release_of(console, cluster, name, namespace, remaining)
    runs = map(reduce, _runs(console, cluster_target, name))
    going = [run.name for run in runs if not run.finished]
    if going and not force:
        raise InputError(
            f"{plural(len(going), 'run')} of queue {name} {'goes' if len(going) == 1 else 'go'} "
            f"on: {list_some(going)}",
            hint=f"wait for them, or `{names.CLI} queue delete {name} --force`",
        )
    home = cluster_target.home(release_name)
    release = releases.find(home)
    if release is not None and _config_map(release, name) is None:
        release = None  # another one that has the name
    _check_rights(cluster, namespace, release, remaining)
    claims = sorted({*_remaining_claims(release), *(_word(claim) for claim in remaining.claims)})
    if release is not None:
        releases.uninstall(home)
    # Helm is done when it has removed what it may, and knows nothing without its record.
    cluster_queues.remove(cluster, cluster_queues.remains(cluster, name, namespace))
    if output == "json":
        console.json({"name": name, "kept": claims, "runs": going})
        return
    console.text(f"deleted queue {name}")
    for claim in claims:
        console.text(f"  kept {claim}")
    if claims:
        console.text(f"  remove it with: kubectl delete -n {home.namespace} {' '.join(claims)}")


def _release_of(
    console: Console, cluster: KubeCluster, name: str, namespace: str, remaining: Remains
) -> str:
    """The release of a queue, of which a part may be gone.

    Raises:
        NotFoundError: there is nothing of the queue; the nearest is named.
        InputError: no Helm release has made it.
    """
    from allranks.cluster import queues as cluster_queues

    try:
        manifest = cluster_queues.get(cluster, name, namespace)
    except NotFoundError:
        if not remaining.objects:
            raise
        console.note(f"of queue {name} only a part is left, which is removed")
        return next(iter(remaining.releases), name)
    release_name = text(manifest, "metadata", "annotations", names.HELM_RELEASE)
    if not release_name:
        raise InputError(
            f"queue {name} is of no Helm release",
            hint="remove it with what made it; `kubectl delete -f` for manifests",
        )
    return release_name


def _check_rights(
    cluster: KubeCluster, namespace: str, release: Release | None, remaining: Remains
) -> None:
    """Refuse before anything is removed.

    Raises:
        ForbiddenError: a right is missing; each is named.
    """
    from allranks.cluster import cleanup
    from allranks.cluster import queues as cluster_queues

    if release is None:  # nothing else says what there is
        cluster_queues.check_rights(cluster, remaining.objects, namespace, remaining.unseen)
        return
    manifests = [
        manifest for manifest in release.manifests if not cleanup.outlives_release(manifest)
    ]
    cluster_queues.check_rights(cluster, (*manifests, *remaining.objects), namespace)


def _word(manifest: Manifest) -> str:
    return f"{text(manifest, 'kind').lower()}/{text(manifest, 'metadata', 'name')}"


def _remaining_claims(release: Release | None) -> list[str]:
    """Return the claims of a release that helm leaves."""
    from allranks.cluster import cleanup

    return [
        _word(item)
        for item in (release.manifests if release is not None else ())
        if item.get("kind") == "PersistentVolumeClaim" and cleanup.outlives_release(item)
    ]


@queue_command.command("import", short_help="Make values of TorchrunQueue objects.")
@click.argument("files", nargs=-1, required=True, metavar="FILE…", type=click.Path(allow_dash=True))
@click.option(
    "-O",
    "--output-dir",
    metavar="DIR",
    type=click.Path(),
    help="Write NAME.yaml for each queue there, in place of printing one.",
)
@options.output_option("yaml", "json")
@options.pass_console
def import_command(
    console: Console, /, *, files: tuple[str, ...], output_dir: str | None, output: str
) -> None:
    """Make values for charts/queue of TorchrunQueue objects, and say what became of each field.

    All dialects of torchrun.ai are read. What is changed or not carried stands in the head of the
    values, with the reason; -o json has every field.

    \b
    Example:
      allranks queue import torchrunqueue.yaml > queue.yaml
      kubectl get torchrunqueues -o yaml | allranks queue import - -O queues
    """
    from allranks.cli import files as writing
    from allranks.service import torchrun_objects

    conversions = torchrun_objects.queues(files)
    if output == "json":
        console.json([conversion.as_dict() for conversion in conversions])
        return
    if output_dir is None and len(conversions) > 1:
        names_of = ", ".join(conversion.name for conversion in conversions)
        raise InputError(
            f"there are {len(conversions)} queues: {names_of}",
            path="-O",
            hint="name a folder with -O, for a file of each",
        )
    folder = Path(output_dir or ".")
    if output_dir is not None:
        writing.refuse_inputs((folder / f"{item.name}.yaml" for item in conversions), files)
        writing.make_folder(folder)
    for conversion in conversions:
        text = torchrun_objects.as_file(conversion)
        if output_dir is None:
            console.raw(text)
        else:
            file = folder / f"{conversion.name}.yaml"
            writing.write(file, text)
            console.text(str(file))
        console.note(conversion.summary())
