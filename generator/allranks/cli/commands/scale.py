"""`allranks scale | suspend | resume`: change the size of a run, or pause it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import click

from allranks import names
from allranks.cli import options, status_view
from allranks.cli.target import run_argument, target_options
from allranks.elastic.scale_request import ScaleRequest
from allranks.errors import EXIT_INTERRUPTED, InputError, NotFoundError, RunError
from allranks.humanize import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from allranks.cli.console import Console
    from allranks.cli.target import ClusterTarget, Target
    from allranks.cluster.scale import Controllers
    from allranks.elastic.plans.status import Answer
    from allranks.k8s.manifest import Manifest
    from allranks.model.layout import Layout


_MOST_PODS = 100_000
# Pods wait for images, and for nodes that are made for them.
_PLAN_SECONDS = 300.0
_SEEN_SECONDS = 30.0
_LOOK_SECONDS = 0.3
# Between two notes on what the plan waits for, without a progress line.
_NOTE_SECONDS = 5.0
_ROLES = (names.ROLE_WORKER, names.ROLE_PS, names.ROLE_CHIEF, names.ROLE_EVALUATOR)
_MEMORY = "memory"
_ROLE_NAMES = {names.ROLE_PS: "parameter servers", names.ROLE_CHIEF: "chiefs"}


@dataclass(frozen=True, slots=True)
class _PendingPlan:
    """A ScalePlan that was requested.

    Attributes:
        plan: its name.
        read: returns its status.
        watch: the command that shows it.
        unseen: the fix if no operator picks it up.
    """

    plan: str
    read: Callable[[], Answer]
    watch: str
    unseen: str


def _role_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for role in reversed(_ROLES):
        function = click.option(
            f"--{role}",
            type=click.IntRange(min=0, max=_MOST_PODS),
            metavar="N",
            help=f"How many {_ROLE_NAMES.get(role, f'{role}s')} an elastic job is to have.",
        )(function)
    return function


def _quantity(_: click.Context, parameter: click.Parameter, value: str) -> str:
    """Refuse an invalid quantity, before anything is sent."""
    from allranks.k8s import quantity

    if not value:
        return value
    where = f"--{parameter.name}"
    try:
        positive = quantity.parse(value) > 0
    except InputError as error:
        problem = error.problem
        raise InputError(problem.message, path=where, hint=problem.hint) from error
    if not positive:
        raise InputError(f"{value} asks for nothing", path=where, hint="leave it out to keep it")
    message, fix = quantity.lacks_unit(value) if parameter.name == _MEMORY else ("", "")
    if message:
        raise InputError(message, path=where, hint=fix)
    return value


@click.command("scale", short_help="Give an elastic run another size.")
@run_argument
@target_options
@options.helm_option
@click.option(
    "--nodes", type=click.IntRange(min=1), metavar="N", help="How many nodes it is to have."
)
@_role_options
@click.option(
    "--cpu",
    default="",
    metavar="QUANTITY",
    callback=_quantity,
    help="CPUs of each pod of the roles that are named, else of each worker.",
)
@click.option(
    "--memory", default="", metavar="QUANTITY", callback=_quantity, help="Likewise, memory."
)
@click.option("--gpus", type=click.IntRange(min=1, max=64), metavar="N", help="Likewise, GPUs.")
@options.timeout_option(
    "How long to wait for pods of an elastic job, 5m where not said; 0 is not at all.",
    _PLAN_SECONDS,
)
@options.output_option("text", "json")
@options.pass_console
def scale_command(
    console: Console,
    /,
    *,
    name: str,
    target: Target,
    nodes: int | None,
    cpu: str,
    memory: str,
    gpus: int | None,
    timeout: float,
    output: str,
    **roles: int | None,
) -> None:
    """Give the elastic run NAME another size, within what its values allow.

    A torchrun or MPI job has nodes. The pods of an elastic job have roles; its size is a plan that
    the operator carries out, pod by pod, and a plan of its master's may change it again. The
    command ends when the pods run, and tells what the job did not allow. A later `helm upgrade`
    sets what its values say.

    \b
    Example:
      allranks scale demo --nodes 4
      allranks scale demo --worker 8 --memory 16Gi
      allranks scale demo --worker 4 --ps 2
    """
    replicas = {role: count for role, count in roles.items() if count is not None}
    gpu = "" if gpus is None else str(gpus)
    quantities = {"cpu": cpu, "memory": memory, "gpu": gpu}
    resource = {key: value for key, value in quantities.items() if value}
    if nodes is not None and (replicas or resource):
        settings = {**replicas, **resource}
        other = "gpus" if "gpu" in settings else next(iter(settings))
        raise InputError(
            f"--nodes and --{other} exclude each other",
            hint="a torchrun or MPI job has nodes, an elastic job has roles",
        )
    if nodes is None and not replicas and not resource:
        raise InputError(
            "no size was given",
            hint=f"`{names.CLI} scale {name} --nodes 4`, or --worker 4 for an elastic job",
        )
    cluster_target = target.cluster_target(console)
    scale_request = ScaleRequest(replicas, resource)
    if cluster_target is None:
        if nodes is not None:
            _refuse_nodes(name, target, nodes)
        plan = _here(name, target, scale_request)
    elif nodes is not None:
        _nodes(console, name, cluster_target, nodes, output)
        return
    else:
        plan = _on_cluster(name, cluster_target, scale_request)
    if output == "text":
        request = _describe(scale_request.roles, scale_request.replicas, scale_request.resource)
        console.text(f"asked for {request} (plan {plan.plan})")
    _report(console, _wait_for_plan(console, plan, timeout), plan, scale_request, output)


# --- nodes of a torchrun or MPI job --------------------------------------------------------------


def _nodes(
    console: Console, name: str, cluster_target: ClusterTarget, nodes: int, output: str
) -> None:
    from allranks.cluster import scale

    workloads = controllers(name, cluster_target)
    if workloads.elastic_jobs:
        raise InputError(
            f"run {name!r} is an elastic job: it has roles, not nodes",
            path="--nodes",
            hint=f"`{names.CLI} scale {name} --worker {nodes}`",
        )
    planned, launcher_works = layout(name, cluster_target)
    if planned.max_nodes <= planned.min_nodes:
        raise InputError(
            f"run {name!r} is not elastic: it keeps its {plural(planned.nodes, 'node')}",
            hint="set elastic.minNodes and elastic.maxNodes under its workload in the values, and "
            f"`{names.CLI} upgrade {name} --recreate`",
        )
    if not planned.min_nodes <= nodes <= planned.max_nodes:
        raise InputError(
            f"{nodes} is outside of {planned.min_nodes} to {planned.max_nodes}",
            path="--nodes",
            hint=f"take a number from {planned.min_nodes} to {planned.max_nodes}",
        )
    resized = [
        manifest
        for manifest in (*workloads.jobs, *workloads.stateful_sets)
        if manifest["metadata"]["labels"].get(names.ROLE) != names.ROLE_LAUNCHER
    ]
    if len(resized) != 1:
        raise InputError(
            f"run {name!r} has {len(resized) or 'no'} groups of workers; one can be scaled",
            hint=f"set the number in the values, and `{names.CLI} upgrade {name}`",
        )
    scale.resize(
        cluster_target.cluster, cluster_target.namespace, resized[0], nodes - launcher_works
    )
    item = f"{resized[0]['kind']}/{resized[0]['metadata']['name']}"
    if output == "json":
        console.json({"name": name, "nodes": nodes, "changed": [item]})
    else:
        console.text(f"{name} has {plural(nodes, 'node')} now ({item})")
    about_queue(console, workloads, "the queue must have room for more")


# --- pods of an elastic job ----------------------------------------------------------------------


def _elastic_job(name: str, cluster_target: ClusterTarget) -> Manifest:
    """Return the ElasticJob of a run, or the one of that name without a release.

    Raises:
        InputError: the run has no elastic job.
        NotFoundError: there is no such run.
    """
    from allranks.cluster import paths

    try:
        return cluster_target.cluster.get(
            paths.ELASTIC_JOBS, name, namespace=cluster_target.namespace
        )
    except NotFoundError:
        workloads = controllers(name, cluster_target)
    if len(workloads.elastic_jobs) == 1:
        return workloads.elastic_jobs[0]
    raise InputError(
        f"run {name!r} has no roles that can be scaled: it is no elastic job",
        hint=f"`{names.CLI} scale {name} --nodes N` is for torchrun and MPI jobs that are elastic",
    )


def _on_cluster(
    name: str, cluster_target: ClusterTarget, scale_request: ScaleRequest
) -> _PendingPlan:
    from allranks.cluster import scale

    cluster, namespace = cluster_target.cluster, cluster_target.namespace
    plan = scale.create_plan(cluster, namespace, _elastic_job(name, cluster_target), scale_request)
    return _PendingPlan(
        plan,
        lambda: scale.plan_answer(cluster, namespace, plan),
        f"`kubectl get scaleplan {plan} -n {namespace} -w`",
        f"`{names.CLI} operator status -n NAMESPACE` (the operator's) shows whether it runs",
    )


def _refuse_nodes(name: str, target: Target, nodes: int) -> NoReturn:
    from allranks.local import runs as local_runs

    local_runs.check_changes(name, target.local_namespace)
    where = f" -n {target.namespace}" if target.namespace else ""
    raise InputError(
        f"run {name!r} is an elastic job: it has roles, not nodes",
        path="--nodes",
        hint=f"`{names.CLI} scale {name}{where} --worker {nodes} --on local`",
    )


def _here(name: str, target: Target, scale_request: ScaleRequest) -> _PendingPlan:
    from allranks.local import runs as local_runs

    namespace = target.local_namespace
    plan = local_runs.scale(name, namespace, scale_request)
    where = f" -n {target.namespace}" if target.namespace else ""
    events = f"`{names.CLI} events {name}{where} --on local`"
    return _PendingPlan(
        plan, lambda: local_runs.plan_answer(name, namespace, plan), events, f"see {events}"
    )


class _PlanNotes:
    """Writes notes on what a plan waits for, with a pause between two of them."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._last, self._next = "", 0.0

    def note(self, answer: Answer, waited: float) -> None:
        """Write a note if the message is new.

        Args:
            answer: the status of the plan.
            waited: seconds since it was created.
        """
        if self._console.live or answer.message == self._last or waited < self._next:
            return
        self._last, self._next = answer.message, waited + _NOTE_SECONDS
        self._console.note(f"plan {answer.plan}: {answer.message}")


def _wait_for_plan(console: Console, plan: _PendingPlan, timeout: float) -> Answer:
    """Wait until a plan is carried out, or held because its job is suspended.

    Args:
        console: shows the progress.
        plan: the plan.
        timeout: seconds to wait; 0 is not to wait.

    Raises:
        RunError: it was refused or superseded, or is not carried out yet.
        Exit: Ctrl-C; the plan goes on.
    """
    began, notes = time.monotonic(), _PlanNotes(console)
    answer = plan.read()
    try:
        with console.progress(lambda _: answer.message or "waiting for the plan to be seen"):
            while not answer.over and not answer.held:
                waited = time.monotonic() - began
                if waited >= timeout or (not answer.phase and waited >= _SEEN_SECONDS):
                    break
                notes.note(answer, waited)
                time.sleep(_LOOK_SECONDS)
                answer = plan.read()
    except KeyboardInterrupt:
        console.note(f"plan {plan.plan} goes on: {plan.watch} shows how")
        raise click.exceptions.Exit(EXIT_INTERRUPTED) from None
    if answer.refused:
        reason = answer.message or f"it is {answer.phase}"
        raise RunError(f"plan {plan.plan} was not carried out: {reason}")
    if answer.over or answer.held or not timeout:
        return answer
    after = status_view.length(time.monotonic() - began)
    if not answer.phase:
        raise RunError(
            f"no operator or master has seen plan {plan.plan} in {after}; "
            "one that comes carries it out",
            hint=plan.unseen,
        )
    raise RunError(
        f"plan {plan.plan} is not carried out after {after}: {answer.message}",
        hint=f"it goes on: {plan.watch} shows how; --timeout waits longer",
    )


def _report(
    console: Console, answer: Answer, plan: _PendingPlan, scale_request: ScaleRequest, output: str
) -> None:
    if output == "json":
        console.json(
            {
                "plan": answer.plan,
                "replicas": dict(scale_request.replicas),
                "resource": dict(scale_request.resource),
                "phase": answer.phase,
                "message": answer.message,
            }
        )
        return
    if answer.message:
        console.text(f"  {answer.message}")
    if not answer.over and not answer.held:
        console.note(f"the plan goes on: {plan.watch} shows how")


def _describe(
    roles: tuple[str, ...], replicas: Mapping[str, int], resource: Mapping[str, str]
) -> str:
    pods = ", ".join(f"{role} {replicas[role]}" if role in replicas else role for role in roles)
    per_pod = ", ".join(f"{key} {value}" for key, value in resource.items())
    return f"{pods}: {per_pod} each" if per_pod else pods


@click.command("suspend", short_help="Stop a run's pods and keep the run.")
@run_argument
@target_options
@options.output_option("text", "json")
@options.pass_console
def suspend_command(console: Console, *, name: str, target: Target, output: str) -> None:
    """Stop the pods of run NAME; `resume` starts them again.

    What the pods had in memory is lost: a training goes on from its last checkpoint. A later `helm
    upgrade` sets what its values say: `runPolicy.suspend: true` keeps the run suspended.

    \b
    Example:
      allranks suspend demo
    """
    cluster_target = target.cluster_target(console)
    if cluster_target is None:
        from allranks.local import runs as local_runs

        is_changed = local_runs.suspend(name, target.local_namespace)
        _tell_controls(
            console,
            name,
            "suspended",
            [f"{names.ELASTIC_JOB}/{name}"] if is_changed else [],
            output,
        )
        return
    from allranks.cluster import scale

    workloads = controllers(name, cluster_target)
    changed = scale.suspend(cluster_target.cluster, cluster_target.namespace, workloads)
    _tell_controls(console, name, "suspended", changed, output)
    about_queue(console, workloads, "the queue may start it again as soon as it has room")


@click.command("resume", short_help="Let a suspended run go on.")
@run_argument
@target_options
@options.helm_option
@options.output_option("text", "json")
@options.pass_console
def resume_command(console: Console, *, name: str, target: Target, output: str) -> None:
    """Start the pods of run NAME again.

    \b
    Example:
      allranks resume demo
    """
    cluster_target = target.cluster_target(console)
    if cluster_target is None:
        from allranks.local import runs as local_runs

        is_changed = local_runs.resume(name, target.local_namespace)
        _tell_controls(
            console, name, "resumed", [f"{names.ELASTIC_JOB}/{name}"] if is_changed else [], output
        )
        return
    from allranks.cluster import scale

    workloads = controllers(name, cluster_target)
    sizes = _sizes(name, cluster_target, workloads) if scale.needs_sizes(workloads) else {}
    changed = scale.resume(cluster_target.cluster, cluster_target.namespace, workloads, sizes)
    _tell_controls(console, name, "resumed", changed, output)
    about_queue(console, workloads, "the queue decides when it starts")


def controllers(name: str, cluster_target: ClusterTarget) -> Controllers:
    """Return the workload objects of a run.

    Raises:
        NotFoundError: there are none, or there is no such namespace.
        AllranksError: the cluster does not answer, or forbids it.
    """
    from allranks.cli.commands import runs
    from allranks.cluster import scale
    from allranks.cluster.errors import namespace_missing

    try:
        return scale.controllers(cluster_target.cluster, name, cluster_target.namespace)
    except NotFoundError:
        if not runs.namespace_there(cluster_target.cluster, cluster_target.namespace):
            raise namespace_missing(cluster_target.namespace) from None
        raise


def layout(name: str, cluster_target: ClusterTarget) -> tuple[Layout, bool]:
    """Return the layout of a release's values, and whether its launcher is one of the nodes.

    Raises:
        NotFoundError: helm knows no such release.
    """
    from allranks.helm import releases
    from allranks.layout.compute import compute
    from allranks.model.job_spec import JobSpec

    home = cluster_target.home(name)
    if releases.find(home) is None:
        raise NotFoundError(
            f"helm knows no release {name!r} in namespace {cluster_target.namespace}, so nothing "
            "says how many nodes it may have",
            hint="change the objects the way they were applied",
        )
    values = releases.values(home)
    launcher_works = bool((values.get("mpi") or {}).get("runLauncherAsWorker"))
    return compute(JobSpec.from_values(values)), launcher_works


def _sizes(name: str, cluster_target: ClusterTarget, workloads: Controllers) -> dict[str, int]:
    """Return the number of pods of each StatefulSet, by the release's values."""
    size, launcher_works = layout(name, cluster_target)
    last = sum(
        manifest["metadata"]["name"].endswith("-last") for manifest in workloads.stateful_sets
    )
    return {
        manifest["metadata"]["name"]: 1
        if manifest["metadata"]["name"].endswith("-last")
        else size.nodes - launcher_works - last
        for manifest in workloads.stateful_sets
    }


def _tell_controls(
    console: Console, name: str, state: str, changed: Sequence[str], output: str
) -> None:
    if output == "json":
        console.json({"name": name, "changed": list(changed)})
    elif changed:
        console.text(f"{state} {name} ({', '.join(changed)})")
    else:
        console.text(f"{name} is {state} already")


def about_queue(console: Console, workloads: Controllers, effect: str) -> None:
    """Note that a queue decides over the run, too."""
    if workloads.queue:
        console.note(f"queue {workloads.queue} (Kueue) decides over this run: {effect}")
