"""`allranks scale`: another number of nodes, or of pods of a role, for a run that is elastic."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import click

from allranks import names
from allranks.cli import durations, options, statusview
from allranks.cli.target import run_argument, target_options
from allranks.elastic.wish import Wish
from allranks.errors import EXIT_INTERRUPTED, InputError, NotFoundError, RunError
from allranks.words import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from allranks.cli.console import Console
    from allranks.cli.target import Site, Target
    from allranks.elastic.answer import Answer
    from allranks.model.manifest import Manifest

_MOST_PODS = 100_000
# Pods wait for images, and for nodes that are made for them.
_PLAN_SECONDS = 300.0
_SEEN_SECONDS = 30.0
_LOOK_SECONDS = 0.3
# Between two notes on what is waited for, where no line at the foot shows it.
_NOTE_SECONDS = 5.0
_ROLES = (names.ROLE_WORKER, names.ROLE_PS, names.ROLE_CHIEF, names.ROLE_EVALUATOR)
_MEMORY = "memory"
_SPOKEN = {names.ROLE_PS: "parameter servers", names.ROLE_CHIEF: "chiefs"}


@dataclass(frozen=True, slots=True)
class _Asked:
    """A plan that was made.

    Attributes:
        plan: its name.
        look: tells what has become of it.
        watch: the command that shows it.
        unseen: what to do where nobody sees it.
    """

    plan: str
    look: Callable[[], Answer]
    watch: str
    unseen: str


def _role_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for role in reversed(_ROLES):
        function = click.option(
            f"--{role}",
            type=click.IntRange(min=0, max=_MOST_PODS),
            metavar="N",
            help=f"How many {_SPOKEN.get(role, f'{role}s')} an elastic job is to have.",
        )(function)
    return function


def _quantity(_: click.Context, parameter: click.Parameter, value: str) -> str:
    """Refuse what is no quantity, before anything is sent."""
    from allranks.model import quantity  # noqa: PLC0415 - only where one is given

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
    told, fix = quantity.lacks_unit(value) if parameter.name == _MEMORY else ("", "")
    if told:
        raise InputError(told, path=where, hint=fix)
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
@durations.timeout_option(
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
    the watcher carries out, pod by pod, and a plan of its master's may change it again. The command
    ends when the pods run, and tells what the job did not allow. A later `helm upgrade` sets what
    its values say.

    \b
    Example:
      allranks scale demo --nodes 4
      allranks scale demo --worker 8 --memory 16Gi
      allranks scale demo --worker 4 --ps 2
    """  # noqa: D301 - \b is click's mark for text that is not re-wrapped
    replicas = {role: count for role, count in roles.items() if count is not None}
    gpu = "" if gpus is None else str(gpus)
    each = {"cpu": cpu, "memory": memory, "gpu": gpu}
    resource = {key: value for key, value in each.items() if value}
    if nodes is not None and (replicas or resource):
        given = {**replicas, **resource}
        other = "gpus" if "gpu" in given else next(iter(given))
        raise InputError(
            f"--nodes and --{other} exclude each other",
            hint="a torchrun or MPI job has nodes, an elastic job has roles",
        )
    if nodes is None and not replicas and not resource:
        raise InputError(
            "no size was given",
            hint=f"`{names.CLI} scale {name} --nodes 4`, or --worker 4 for an elastic job",
        )
    site = target.site(console)
    wish = Wish(replicas, resource)
    if site is None:
        if nodes is not None:
            _refuse_nodes(name, target, nodes)
        asked = _here(name, target, wish)
    elif nodes is not None:
        _nodes(console, name, site, nodes, output)
        return
    else:
        asked = _on_cluster(name, site, wish)
    if output == "text":
        spoken = _spoken(wish.roles, wish.replicas, wish.resource)
        console.text(f"asked for {spoken} (plan {asked.plan})")
    _told(console, _carried(console, asked, timeout), asked, wish, output)


# --- nodes of a torchrun or MPI job --------------------------------------------------------------


def _nodes(console: Console, name: str, site: Site, nodes: int, output: str) -> None:
    from allranks.cli.controls import about_queue, controllers, layout  # noqa: PLC0415
    from allranks.cluster import sizing  # noqa: PLC0415 - its libraries cost 0.2 s

    found = controllers(name, site)
    if found.elastic_jobs:
        raise InputError(
            f"run {name!r} is an elastic job: it has roles, not nodes",
            path="--nodes",
            hint=f"`{names.CLI} scale {name} --worker {nodes}`",
        )
    planned, launcher_works = layout(name, site)
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
        one
        for one in (*found.jobs, *found.stateful_sets)
        if one["metadata"]["labels"].get(names.ROLE) != names.ROLE_LAUNCHER
    ]
    if len(resized) != 1:
        raise InputError(
            f"run {name!r} has {len(resized) or 'no'} groups of workers; one can be scaled",
            hint=f"set the number in the values, and `{names.CLI} upgrade {name}`",
        )
    sizing.resize(site.cluster, site.namespace, resized[0], nodes - launcher_works)
    item = f"{resized[0]['kind']}/{resized[0]['metadata']['name']}"
    if output == "json":
        console.json({"name": name, "nodes": nodes, "changed": [item]})
    else:
        console.text(f"{name} has {plural(nodes, 'node')} now ({item})")
    about_queue(console, found, "the queue must have room for more")


# --- pods of an elastic job ----------------------------------------------------------------------


def _elastic_job(name: str, site: Site) -> Manifest:
    """The elastic job of a run, or one of that name that is of no release.

    Raises:
        InputError: the run has no elastic job.
        NotFoundError: there is no such run.
    """
    from allranks.cli.controls import controllers  # noqa: PLC0415 - its libraries cost 0.2 s
    from allranks.cluster import paths  # noqa: PLC0415

    try:
        return site.cluster.get(paths.ELASTIC_JOBS, name, namespace=site.namespace)
    except NotFoundError:
        found = controllers(name, site)
    if len(found.elastic_jobs) == 1:
        return found.elastic_jobs[0]
    raise InputError(
        f"run {name!r} has no roles that can be scaled: it is no elastic job",
        hint=f"`{names.CLI} scale {name} --nodes N` is for torchrun and MPI jobs that are elastic",
    )


def _on_cluster(name: str, site: Site, wish: Wish) -> _Asked:
    from allranks.cluster import scaling  # noqa: PLC0415 - its libraries cost 0.2 s

    cluster, namespace = site.cluster, site.namespace
    made = scaling.ask(cluster, namespace, _elastic_job(name, site), wish)
    return _Asked(
        made,
        lambda: scaling.look(cluster, namespace, made),
        f"`kubectl get scaleplan {made} -n {namespace} -w`",
        f"`{names.CLI} operator status -n NAMESPACE` (the watcher's) shows whether it runs",
    )


def _refuse_nodes(name: str, target: Target, nodes: int) -> NoReturn:
    from allranks.local import control  # noqa: PLC0415 - only where this machine is meant

    control.check_changes(name, target.local_namespace)
    where = f" -n {target.namespace}" if target.namespace else ""
    raise InputError(
        f"run {name!r} is an elastic job: it has roles, not nodes",
        path="--nodes",
        hint=f"`{names.CLI} scale {name}{where} --worker {nodes} --on local`",
    )


def _here(name: str, target: Target, wish: Wish) -> _Asked:
    from allranks.local import control  # noqa: PLC0415 - only where this machine is meant

    namespace = target.local_namespace
    made = control.scale(name, namespace, wish)
    where = f" -n {target.namespace}" if target.namespace else ""
    events = f"`{names.CLI} events {name}{where} --on local`"
    return _Asked(made, lambda: control.plan_answer(name, namespace, made), events, f"see {events}")


class _Notes:
    """Tells what a plan waits for when that changes, but not each pod of many that come at once."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._last, self._next = "", 0.0

    def tell(self, found: Answer, waited: float) -> None:
        """Tell what is new.

        Args:
            found: what is said of the plan.
            waited: seconds since it was made.
        """
        if self._console.live or found.message == self._last or waited < self._next:
            return
        self._last, self._next = found.message, waited + _NOTE_SECONDS
        self._console.note(f"plan {found.plan}: {found.message}")


def _carried(console: Console, asked: _Asked, timeout: float) -> Answer:
    """Wait until a plan is carried out, or held because its job is suspended.

    Args:
        console: shows how far it is.
        asked: the plan.
        timeout: seconds to wait; 0 is to ask and leave.

    Raises:
        RunError: it was refused or superseded, or is not carried out yet.
        Exit: Ctrl-C; the plan goes on.
    """
    began, told = time.monotonic(), _Notes(console)
    found = asked.look()
    try:
        with console.progress(lambda _: found.message or "waiting for the plan to be seen"):
            while not found.over and not found.held:
                waited = time.monotonic() - began
                if waited >= timeout or (not found.phase and waited >= _SEEN_SECONDS):
                    break
                told.tell(found, waited)
                time.sleep(_LOOK_SECONDS)
                found = asked.look()
    except KeyboardInterrupt:
        console.note(f"plan {asked.plan} goes on: {asked.watch} shows how")
        raise click.exceptions.Exit(EXIT_INTERRUPTED) from None
    if found.refused:
        why = found.message or f"it is {found.phase}"
        raise RunError(f"plan {asked.plan} was not carried out: {why}")
    if found.over or found.held or not timeout:
        return found
    after = statusview.length(time.monotonic() - began)
    if not found.phase:
        raise RunError(
            f"no watcher or master has seen plan {asked.plan} in {after}; "
            "one that comes carries it out",
            hint=asked.unseen,
        )
    raise RunError(
        f"plan {asked.plan} is not carried out after {after}: {found.message}",
        hint=f"it goes on: {asked.watch} shows how; --timeout waits longer",
    )


def _told(console: Console, after: Answer, asked: _Asked, wish: Wish, output: str) -> None:
    if output == "json":
        console.json(
            {
                "plan": after.plan,
                "replicas": dict(wish.replicas),
                "resource": dict(wish.resource),
                "phase": after.phase,
                "message": after.message,
            }
        )
        return
    if after.message:
        console.text(f"  {after.message}")
    if not after.over and not after.held:
        console.note(f"the plan goes on: {asked.watch} shows how")


def _spoken(
    roles: tuple[str, ...], replicas: Mapping[str, int], resource: Mapping[str, str]
) -> str:
    pods = ", ".join(f"{role} {replicas[role]}" if role in replicas else role for role in roles)
    each = ", ".join(f"{key} {value}" for key, value in resource.items())
    return f"{pods}: {each} each" if each else pods
