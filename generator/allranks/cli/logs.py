"""`allranks logs | attach | events | exec`: a look into the pods of a run."""

from __future__ import annotations

import json
import sys
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from allranks import names
from allranks.cli import durations, options, statusview
from allranks.cli.target import only_cluster_options, run_argument, target_options
from allranks.errors import (
    EXIT_INTERRUPTED,
    ForbiddenError,
    InputError,
    NotFoundError,
    RunError,
)
from allranks.status import fields

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from allranks.cli.console import Console
    from allranks.cli.following import How
    from allranks.cli.target import Site, Target
    from allranks.cluster.pods import Identity, Ranks
    from allranks.model.manifest import Manifest
    from allranks.model.ranklines import Wanted, Writers
    from allranks.status.observation import Observation

_RANK = click.option(
    "--rank", type=click.IntRange(min=0), help="Only this process of the training, or its pod."
)
_NODE = click.option(
    "--node", type=click.IntRange(min=0), help="Only this node: the pod of this number."
)
_ROLE = click.option(
    "--role",
    default="",
    metavar="ROLE",
    help="Only this role: node, launcher, worker, and of an elastic job chief, ps, master, ...",
)


@click.command("logs", short_help="Show the logs of a run.")
@run_argument
@target_options
@click.option("-f", "--follow", is_flag=True, help="Go on until the run has ended.")
@_RANK
@_NODE
@_ROLE
@click.option(
    "--tail",
    type=click.IntRange(min=0),
    help="Of what is there, only so many last lines of each pod.",
)
@options.output_option("text", "json")
@options.pass_console
def logs_command(
    console: Console,
    *,
    name: str,
    target: Target,
    follow: bool,
    rank: int | None,
    node: int | None,
    role: str,
    tail: int | None,
    output: str,
) -> None:
    """Show what the pods of run NAME wrote, each line with its rank.

    Where a pod has several processes, what it says besides theirs is the node's. mpirun prints the
    lines of all its ranks, so those are the launcher's. With -o json each line is an object of its
    own.

    \b
    Example:
      allranks logs demo --follow
      allranks logs demo --rank 1 --tail 100
      allranks logs demo --role launcher
    """  # noqa: D301 - \b is click's mark for text that is not re-wrapped
    from allranks.model.ranklines import Wanted  # noqa: PLC0415 - not for a shell's completion

    wanted = checked(Wanted(rank, node, role))
    site = target.site(console)
    unread: list[str] = []
    if site is None:
        lines = _local_lines(name, target, wanted, follow=follow, tail=tail)
    elif follow:
        from allranks.cli.following import How  # noqa: PLC0415 - only for a cluster

        how = How(logs="all", wanted=wanted, quiet=True, as_json=output == "json")
        _follow(console, name, site, replace(how, tail=tail))
        return
    else:
        lines = _cluster_lines(name, site, unread, wanted, tail=tail)
    is_empty = True
    for data in lines:
        is_empty = False
        if output == "json":
            console.raw(json.dumps(data, ensure_ascii=False) + "\n")
        else:
            console.log(data["who"], data["text"])
    for one in unread:
        console.note(one)
    if unread:
        raise RunError(
            f"{len(unread)} of the logs cannot be read",
            hint=f"`{names.CLI} status {name}` shows whether their pods and nodes are well",
        )
    if is_empty:
        console.note(f"no such line is there: `{names.CLI} status {name}` shows how its pods are")


def _local_lines(
    name: str, target: Target, wanted: Wanted, *, follow: bool, tail: int | None
) -> Iterator[dict[str, Any]]:
    from allranks.cluster.pods import Identity  # noqa: PLC0415 - not for a shell's completion
    from allranks.cluster.tails import Line  # noqa: PLC0415
    from allranks.local import control  # noqa: PLC0415 - only for this machine

    lines = control.logs(
        name,
        target.local_namespace,
        wanted.rank,
        node=wanted.node,
        role=wanted.role or None,
        follow=follow,
        tail=tail,
    )
    for line in lines:
        where = (line.pod, Identity(line.role, line.rank), line.container, line.attempt)
        yield Line(*where, line.text, line.writers, line.process).as_dict()


def _cluster_lines(
    name: str, site: Site, unread: list[str], wanted: Wanted, *, tail: int | None
) -> Iterator[dict[str, Any]]:
    """The lines that are there, pod by pod, in the order of roles, numbers and attempts.

    Args:
        name: the run.
        site: where it is.
        unread: gets a sentence on each log that cannot be read.
        wanted: whose lines.
        tail: only so many last lines of each start of a container.
    """
    from allranks.cluster import pods as podset  # noqa: PLC0415 - only for a cluster

    attempts: dict[Identity, int] = {}
    found, ranks = chosen_pods(name, site, wanted, by_line=True)
    for pod in found:
        who = ranks.of(pod)
        # Where a container was started again, the log of the start before it comes first.
        for previous in (True, False) if podset.was_restarted(pod) else (False,):
            attempt = attempts[who] = attempts.get(who, -1) + 1
            if not podset.has_started(pod):
                continue
            try:
                lines = _Start(pod, who, attempt, previous).lines(site, wanted, tail)
            except (RunError, NotFoundError) as error:
                # One node that does not answer must not hide what the others have to say; and of a
                # start before the last one nothing may be left.
                if not previous:
                    pod_name = pod["metadata"]["name"]
                    unread.append(f"the log of pod {pod_name}: {error.problem.message}")
                continue
            yield from lines


@dataclass(frozen=True, slots=True)
class _Start:
    """One start of the container that trains: its pod, who that is, and which start it is."""

    pod: Manifest
    who: Identity
    attempt: int
    previous: bool

    def lines(self, site: Site, wanted: Wanted, tail: int | None) -> Iterable[dict[str, Any]]:
        """Its lines that are wanted; of these only so many last ones.

        Raises:
            RunError: it cannot be read; a NotFoundError where it is not there.
        """
        from allranks.cluster import pods as podset  # noqa: PLC0415 - only for a cluster

        name, container = self.pod["metadata"]["name"], podset.main_container(self.pod)
        writers = podset.writers(self.pod)
        # The last lines of one of several processes are not the last lines of its pod.
        mixed = wanted.rank is not None and writers.prefixed
        stream = site.cluster.logs(
            name,
            namespace=site.namespace,
            container=container,
            previous=self.previous,
            tail=None if mixed else tail,
        )
        found = self._read(stream, wanted, writers)
        return deque(found, maxlen=tail) if mixed and tail is not None else found

    def _read(
        self, stream: Iterable[str], wanted: Wanted, writers: Writers
    ) -> Iterator[dict[str, Any]]:
        from allranks.cluster import pods as podset  # noqa: PLC0415 - only for a cluster
        from allranks.cluster.tails import Line  # noqa: PLC0415

        name, container = self.pod["metadata"]["name"], podset.main_container(self.pod)
        for text in stream:
            process, rest = writers.split(text)
            if wanted.has_line(self.who.role, writers, process):
                where = (name, self.who, container, self.attempt)
                yield Line(*where, rest, writers, process).as_dict()


def chosen_pods(
    name: str, site: Site, wanted: Wanted, *, by_line: bool = False
) -> tuple[list[Manifest], Ranks]:
    """The pods of a run that are wanted, by role, number and age; and who they are.

    See `located` for `by_line`.

    Raises:
        NotFoundError: there is no such run.
        InputError: it has no such pods.
    """
    from allranks.cluster.observe import observe  # noqa: PLC0415 - only for a cluster
    from allranks.cluster.pods import Ranks  # noqa: PLC0415

    seen = observe(site.cluster, name, site.namespace)
    ranks = Ranks(seen.objects)
    asked = _asked(wanted, ranks)
    wanted = located(site, seen, wanted, by_line=by_line)
    found = ranks.chosen(seen.pods, wanted)
    if found:
        return found, ranks
    if seen.pods and ranks.expects(wanted, seen.pods):
        raise InputError(
            f"{asked} of run {name!r} has no pod now: it has not begun, or its pod is gone",
            hint=f"`{names.CLI} status {name}` shows which it is",
        )
    known = sorted({str(ranks.of(pod)) for pod in seen.pods}, key=_number)
    raise InputError(
        f"run {name!r} has no {asked}" + ("" if known else ": it has none yet"),
        hint=f"its pods are {', '.join(known[:20])}{', …' * (len(known) > 20)}"  # noqa: PLR2004
        if known
        else f"`{names.CLI} status {name}` says what it waits for",
    )


def _asked(wanted: Wanted, ranks: Ranks) -> str:
    """What was asked for, in words."""
    if wanted.rank is not None:
        return f"rank {wanted.rank}"
    if wanted.node is not None:
        return f"{ranks.word(wanted.role)} {wanted.node}"
    return f"pod {wanted.role}".rstrip()


def checked(wanted: Wanted) -> Wanted:
    """The same, where it does not contradict itself.

    Raises:
        InputError: a rank, and something else that says which pod it is in.
    """
    if wanted.rank is not None and (wanted.node is not None or wanted.role):
        raise InputError(
            "--rank names one process of the whole job, and "
            f"{'--role' if wanted.role else '--node'} may name pods that it is not in",
            path="--rank",
            hint="leave --rank out, and name the pod by --role and --node"
            if wanted.role
            else "leave one of the two out",
        )
    return wanted


def located(site: Site, seen: Observation, wanted: Wanted, *, by_line: bool) -> Wanted:
    """The same with the pod that a rank runs in.

    Args:
        site: where the run is.
        seen: the run.
        wanted: what is wanted.
        by_line: whether a line that bears its rank is enough, wherever it was written.

    Raises:
        InputError: there is no such rank, or nothing says which pod it is in.
    """
    if wanted.rank is None:
        return wanted
    from allranks.cluster import paths, pods  # noqa: PLC0415 - only for a cluster

    hostfile, plan = "", ""
    roles = {fields.text(one, "metadata", "labels", names.ROLE) for one in seen.objects}
    if roles - {"", names.ROLE_NODE}:
        with suppress(NotFoundError, ForbiddenError):
            found = site.cluster.get(paths.CONFIG_MAPS, seen.release, namespace=seen.namespace)
            hostfile = fields.text(found, "data", "hostfile")
            plan = fields.text(found, "data", "plan.json")
    try:
        who = pods.with_rank(wanted.rank, seen.release, seen.objects, hostfile, plan)
    except InputError:
        if by_line and any(not one.fixed for one in map(pods.writers, seen.pods) if one.prefixed):
            return wanted
        raise
    # mpirun's ranks are not those of torchrun's lines.
    rank = wanted.rank if who.role == names.ROLE_NODE else None
    return replace(wanted, rank=rank, node=who.rank, role=who.role)


def _number(text: str) -> tuple[int, str]:
    digits = "".join(character for character in text if character.isdecimal())
    return int(digits or 0), text


@click.command("attach", short_help="Follow a run that goes on.")
@run_argument
@only_cluster_options
@_RANK
@_NODE
@_ROLE
@durations.timeout_option("Stop following after this time; the job goes on.")
@options.output_option("text", "json")
@options.pass_console
def attach_command(
    console: Console,
    *,
    name: str,
    target: Target,
    rank: int | None,
    node: int | None,
    role: str,
    timeout: float | None,
    output: str,
) -> None:
    """Follow run NAME to its end, as `run` does: its state, and the log of one rank.

    The log is rank 0's or the launcher's unless a rank, a node or a role is named. Ctrl-C leaves
    the job as it is. The exit code is the job's own.

    \b
    Example:
      allranks attach demo
      allranks attach demo --rank 3
    """  # noqa: D301 - \b is click's mark for text that is not re-wrapped
    from allranks.cli.following import How  # noqa: PLC0415 - its libraries cost 0.2 s
    from allranks.model.ranklines import Wanted  # noqa: PLC0415 - not for a shell's completion

    wanted = checked(Wanted(rank, node, role))
    how = How(wanted=wanted, timeout=timeout, json=output == "json")
    status = _follow(console, name, target.on_cluster(), how)
    if output == "json":
        console.json(status.as_dict())
    else:
        console.text("")
        statusview.show(console, status, time.time())
    raise click.exceptions.Exit(statusview.exit_code(status))


def _follow(console: Console, name: str, site: Site, how: How) -> Any:
    from allranks.cli import following  # noqa: PLC0415 - its libraries cost 0.2 s
    from allranks.cluster.observe import observe  # noqa: PLC0415

    # A run that is not there is told at once.
    seen = observe(site.cluster, name, site.namespace)
    how = replace(how.of(seen), wanted=located(site, seen, how.wanted, by_line=True))
    try:
        return following.follow(console, site.cluster, name, site.namespace, how)
    except KeyboardInterrupt:
        raise click.exceptions.Exit(EXIT_INTERRUPTED) from None


@click.command("events", short_help="Show what happened to a run.")
@run_argument
@target_options
@options.output_option("table", "json")
@options.pass_console
def events_command(console: Console, *, name: str, target: Target, output: str) -> None:
    """Show the events of run NAME's objects, the newest last.

    On a cluster they are what Kubernetes and the watcher say, on this machine what its supervisor
    has written down.

    \b
    Example:
      allranks events demo
      allranks events demo -o json
      allranks events demo --on local
    """  # noqa: D301 - \b is click's mark for text that is not re-wrapped
    from allranks.status import events as reading  # noqa: PLC0415 - not for a shell's completion

    site = target.site(console)
    found = _local_events(name, target) if site is None else _cluster_events(name, site)
    found = sorted(found, key=lambda event: reading.time(event) or 0.0)
    if output == "json":
        console.json(found)
        return
    if not found:
        why = "nothing has happened yet" if site is None else "the cluster forgets them in an hour"
        console.note(f"there are no events; {why}")
        return
    now = time.time()
    console.table(
        ["LAST SEEN", "TYPE", "REASON", "OBJECT", "COUNT", "MESSAGE"],
        [_event_row(event, reading.time(event), now) for event in found],
        right=["COUNT"],
        wrap="MESSAGE",
    )


def _cluster_events(name: str, site: Site) -> list[Manifest]:
    from allranks.cluster import occurrences  # noqa: PLC0415 - its libraries cost 0.2 s
    from allranks.cluster.observe import observe  # noqa: PLC0415

    return list(occurrences.of_run(site.cluster, observe(site.cluster, name, site.namespace)))


def _local_events(name: str, target: Target) -> list[Manifest]:
    from allranks.local import control  # noqa: PLC0415 - only for this machine

    return control.events(name, target.local_namespace)


def _event_row(event: Manifest, seen: float | None, now: float) -> tuple[object, ...]:
    about = event.get("involvedObject") or {}
    return (
        statusview.duration(seen, None, now) or "-",
        event.get("type") or "",
        event.get("reason") or "",
        f"{about.get('kind', '')}/{about.get('name', '')}",
        event.get("count") or (event.get("series") or {}).get("count") or 1,
        in_a_row(str(event.get("message") or "")),
    )


def in_a_row(message: str) -> str:
    """A message in one line: what stood in lines of its own is set off."""
    lines = (" ".join(line.split()) for line in message.splitlines())
    return " | ".join(line for line in lines if line)


@click.command(
    "exec",
    short_help="Run a program in a pod of a run.",
    context_settings={"ignore_unknown_options": False, "allow_interspersed_args": True},
)
@run_argument
@click.argument("command", nargs=-1, required=True)
@only_cluster_options
@_RANK
@_NODE
@_ROLE
@click.option("-c", "--container", default="", help="The container. Default: the trainer.")
@click.option("-i", "--stdin", is_flag=True, help="Pass this program's input on.")
@click.option("-t", "--tty", is_flag=True, help="Give it this terminal.")
@options.pass_console
def exec_command(
    console: Console,
    *,
    name: str,
    command: tuple[str, ...],
    target: Target,
    rank: int | None,
    node: int | None,
    role: str,
    container: str,
    stdin: bool,
    tty: bool,
) -> None:
    """Run COMMAND in a pod of run NAME; its exit code is this program's.

    The pod is rank 0's or the launcher's unless a rank, a node or a role is named.

    \b
    Example:
      allranks exec demo -- nvidia-smi
      allranks exec demo --rank 1 -it -- sh
    """  # noqa: D301 - \b is click's mark for text that is not re-wrapped
    from allranks.cluster import pods as podset  # noqa: PLC0415 - its libraries cost 0.2 s
    from allranks.model.ranklines import ALL, Wanted  # noqa: PLC0415 - not for completion

    site = target.on_cluster()
    wanted = checked(Wanted(rank, node, role))
    found, ranks = chosen_pods(name, site, wanted)
    if wanted == ALL:
        found = ranks.leading(found)
    running = [pod for pod in found if podset.is_running(pod)]
    if not running:
        raise NotFoundError(
            f"no pod of run {name!r} that was asked for is running",
            hint=f"`{names.CLI} status {name} -n {site.namespace}` shows them",
        )
    pod = running[-1]
    if tty and not (sys.stdin.isatty() and sys.stdout.isatty()):
        console.note("there is no terminal here; going on without one")
        tty = False
    code = site.cluster.exec(
        pod["metadata"]["name"],
        command,
        namespace=site.namespace,
        container=container or podset.main_container(pod),
        stdin=stdin,
        terminal=tty,
    )
    raise click.exceptions.Exit(code)
