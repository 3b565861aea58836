"""A run on a cluster: one Helm release, followed to its end.

Everything that can be found out before is found out before: the values, the manifests, the rights.
What fails half-way is taken back, so that the same command can be given again.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from allranks import names
from allranks.cli import ending, rendering
from allranks.cluster import definitions, paths, rights
from allranks.errors import EXIT_INTERRUPTED, EXIT_OK, AllranksError, TakenError
from allranks.helm import releases

if TYPE_CHECKING:
    from allranks.cli.console import Console
    from allranks.cli.pipeline import Prepared
    from allranks.cli.rendering import Rendered
    from allranks.cli.target import Site
    from allranks.cluster.port import Rules
    from allranks.helm.releases import Home


@dataclass(frozen=True, slots=True)
class Plan:
    """How a run goes.

    Attributes:
        detach: return when it has started.
        replace: remove a run of the same name first.
        logs: lead, all or none.
        timeout: seconds to follow it; None is to its end.
        output: text or json.
    """

    detach: bool = False
    replace: bool = False
    logs: str = "lead"
    timeout: float | None = None
    output: str = "text"


def run(console: Console, prepared: Prepared, home: Home, site: Site, plan: Plan) -> int:
    """Install a job and follow it; return the exit code.

    Raises:
        InputError: the name is taken, or the namespace is not there.
        AllranksError: the cluster does not answer, or forbids it; nothing is left of the run.
    """
    suspended = bool((prepared.loaded.values.get("runPolicy") or {}).get("suspend"))
    detach = plan.detach or suspended
    # Helm renders in a process of its own, while the cluster is asked here.
    with ThreadPoolExecutor(1) as beside:
        rendering_ = beside.submit(rendering.for_cluster, prepared, home)
        rules = site.cluster.rules(home.namespace)
        rendered = rendering_.result()
    if rules is not None:
        lacking = rights.missing(rules, rights.to_run(rendered.objects, follow=not detach))
        if lacking:
            raise rights.refusal(site.cluster.where, home.namespace, lacking)
        _check_status(prepared, home, site, rules)
    for note in prepared.notes:
        console.note(note)
    if plan.replace:
        ending.remove(site.cluster, home)
    install(console, rendered, home)
    if not detach:
        kinds = tuple({str(one.get("kind")) for one in rendered.objects})
        return _follow(console, home, site, plan, kinds)
    if plan.output == "json":
        console.json({"name": home.name, "namespace": home.namespace})
        return EXIT_OK
    console.text(f"started {home.name}{' (suspended)' if suspended else ''}")
    for line in ("resume" if suspended else "attach", "status", "delete"):
        console.command(f"{names.CLI} {line} {home.name}{_where(home)}")
    return EXIT_OK


def _check_status(prepared: Prepared, home: Home, site: Site, rules: Rules) -> None:
    """Refuse where the chart would render a TrainingRun that the user may not create.

    The chart decides by the kinds that the cluster has, so nothing of it was rendered here. The
    cluster is only asked for its kinds where the right is missing.
    """
    if (prepared.loaded.values.get("status") or {}).get("enabled") != "auto":
        return  # what the values say was rendered, and looked at
    lacking = rights.missing(rules, rights.TO_HAVE_A_STATUS)
    if lacking and definitions.serves(site.cluster, paths.TRAINING_RUNS):
        refusal = rights.refusal(site.cluster.where, home.namespace, lacking)
        raise type(refusal)(
            refusal.problem.message,
            hint=f"{refusal.problem.hint}; or do without its status: --set status.enabled=false",
        )


def install(console: Console, rendered: Rendered, home: Home) -> None:
    """Install a release; take back what a failure has left.

    Raises:
        AllranksError: helm or the cluster refused, in our words.
    """
    try:
        releases.install(home, rendered.chart, rendered.values, post_render=rendered.post_render)
    except KeyboardInterrupt:
        console.note(f"interrupted while it was installed: `{names.CLI} delete {home.name}`")
        raise
    except AllranksError as error:
        if not isinstance(error, TakenError):
            releases.take_back(home)
        raise


def _follow(console: Console, home: Home, site: Site, plan: Plan, kinds: tuple[str, ...]) -> int:
    # Who only starts a job does not wait for what reads its status.
    from allranks.cli import following, statusview  # noqa: PLC0415 - 30 ms

    how = following.How(
        logs=plan.logs, timeout=plan.timeout, json=plan.output == "json", kinds=kinds
    )
    try:
        status = following.follow(console, site.cluster, home.name, home.namespace, how)
    except KeyboardInterrupt:
        where = _where(home)
        console.note(
            f"{home.name} goes on in the cluster: `{names.CLI} attach {home.name}{where}` follows "
            f"it again, `{names.CLI} delete {home.name}{where}` ends it"
        )
        return EXIT_INTERRUPTED
    if plan.output == "json":
        console.json(status.as_dict())
    else:
        console.text("")
        statusview.show(console, status, time.time())
    return statusview.exit_code(status)


def _where(home: Home) -> str:
    """The flags that lead to a run again."""
    return f" -n {home.namespace}"
