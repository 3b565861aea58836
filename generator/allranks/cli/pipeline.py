"""From what a person typed to checked values and a layout: the way every command shares."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from allranks.errors import InputError, InvalidValues, Problem
from allranks.layout.compute import compute
from allranks.model.jobspec import JobSpec
from allranks.schema.validate import in_file_order
from allranks.values import check, frameworks, resolve, trials
from allranks.values.sources import Sources, defaults, load
from allranks.words import plural

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allranks.model.inventory import Inventory
    from allranks.model.layout import Layout
    from allranks.schema.paths import ValuesPath
    from allranks.values.sources import Loaded


@dataclass(frozen=True, slots=True)
class Trials:
    """How many trials a sweep has, and how many of them run at a time."""

    number: int
    parallel: int

    def __str__(self) -> str:
        """Both, in words."""
        trials = plural(self.number, "trial")
        if self.number == 1:
            return trials
        together = "all at once" if self.parallel >= self.number else f"{self.parallel} at a time"
        return f"{trials}, {together}"

    def as_dict(self) -> dict[str, int]:
        """The same as data."""
        return {"trials": self.number, "parallel": self.parallel}


@dataclass(frozen=True, slots=True)
class Prepared:
    """Values that passed every check, and the layout they give.

    Attributes:
        loaded: the values.
        layout: that of the job; of a sweep, of one of its trials.
        inventory: the nodes that it was fitted to; None for none.
        warnings: what is worth a word, and stops nothing.
        of_sweep: notes about a sweep, as sentences.
        trials: how many trials a sweep has; None of any other job.
    """

    loaded: Loaded
    layout: Layout
    inventory: Inventory | None = None
    warnings: tuple[Problem, ...] = ()
    of_sweep: tuple[str, ...] = ()
    trials: Trials | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know about values that are valid all the same."""
        return (
            *(f"{one.path}: {one.message}; {one.hint}" for one in self.warnings),
            *self.of_sweep,
            *self.layout.notes,
        )


@dataclass(frozen=True, slots=True)
class Fit:
    """What to fit the job to.

    Attributes:
        inventory: a file that lists nodes; "" for none.
        from_cluster: ask the cluster for its free nodes.
        context: the kubeconfig context of that cluster; "" is the current one.
        kubeconfig: the file that has it; "" is found as kubectl does.
    """

    inventory: str = ""
    from_cluster: bool = False
    context: str = ""
    kubeconfig: str = ""


def prepare(
    sources: Sources,
    *,
    release: str = "",
    namespace: str = "",
    fit: Fit | None = None,
    is_local: bool = False,
    by_helm: bool = True,
) -> Prepared:
    """Load, validate, check and lay out.

    Args:
        sources: the files and flags.
        release: the release's name, where one is given.
        namespace: its namespace, where one is given.
        fit: what to fit the job to.
        is_local: it is for a run on this machine.
        by_helm: plain Helm is to run it, which cannot run every sweep; else that is a warning.

    Raises:
        InputError: the values are wrong, or the job does not fit; every problem is in it.
        RunError: the cluster was asked for its nodes and does not answer.
    """
    loaded = load(sources)
    notes: list[str] = []
    warnings: list[Problem] = []
    count: Trials | None = None
    if loaded.workload == trials.SWEEP and not _is_trial(loaded):
        job, notes, warnings, count = _sweep(
            loaded, release, namespace, is_local=is_local, by_helm=by_helm
        )
    else:
        resolve.refuse(loaded, release, namespace, is_local=is_local)
        job = trials.of(loaded.values, defaults)
    spec = JobSpec.from_values(job, frameworks.fewest(job))
    inventory = _inventory(fit or Fit(), spec.gpu_resource)
    warnings += check.warnings(loaded.values, loaded.where)
    layout = compute(spec, inventory)
    return Prepared(loaded, layout, inventory, tuple(warnings), tuple(notes), count)


def _is_trial(loaded: Loaded) -> bool:
    """Whether these are the finished values of one trial, in which nothing is left to fill in."""
    from allranks.sweep.values import again  # noqa: PLC0415 - only a sweep needs it

    return again.is_made(loaded.values)


def _sweep(
    loaded: Loaded, release: str, namespace: str, *, is_local: bool, by_helm: bool
) -> tuple[Mapping[str, Any], list[str], list[Problem], Trials]:
    """Judge a sweep as `sweep run` does; and as charts/sweep does, where plain Helm runs it.

    Returns:
        The values of one of its trials, as those of a job; notes; warnings; how many there are.

    Raises:
        InvalidValues: it cannot be run; every problem is in it.
    """
    from allranks.sweep.values import plainhelm, prepare  # noqa: PLC0415 - only a sweep needs them

    request = prepare.Request(
        name=trials.SWEEP,
        sources=Sources(),
        loaded=loaded,
        release=release,
        namespace=namespace,
        is_local=is_local,
        check_only=True,
    )
    try:
        ready = prepare.prepare(request)
    except InvalidValues as error:
        if error.more:
            raise
        # What the sweep's own reading did not come to is told in the same run.
        located = resolve.located(loaded, release, namespace, is_local=is_local)
        more = [problem for _, problem in located]
        raise InvalidValues(_ordered(loaded, [*error.problems, *more])) from error
    reasons = plainhelm.limits(loaded, ready, release, namespace, is_local=is_local)
    limits = [problem for _, problem in reasons]
    if limits and by_helm:
        raise InvalidValues(_ordered(loaded, limits))
    job = trials.of(loaded.values, defaults)
    if limits and ready.workload:
        job = prepare.first_job(ready)
    count = Trials(ready.spec.trials, ready.spec.parallel)
    return job, [*ready.notes], _ordered(loaded, limits), count


def _ordered(loaded: Loaded, problems: list[Problem]) -> list[Problem]:
    """Problems in the order of the files, one for each place."""
    first: dict[tuple[str, str], Problem] = {}
    for problem in problems:
        first.setdefault((problem.path, problem.source), problem)
    located: list[tuple[ValuesPath, Problem]] = [((), problem) for problem in first.values()]
    return [problem for _, problem in in_file_order(loaded.values, located)]


def summary(prepared: Prepared) -> str:
    """What would run, in one line."""
    layout = prepared.layout
    nodes = plural(layout.nodes, "node")
    most = ""
    if layout.max_nodes > layout.min_nodes:
        nodes, most = f"{layout.min_nodes} to {layout.max_nodes} nodes", "up to "
    gpus = f" x {layout.gpus_per_node} {layout.gpu_resource}" if layout.gpus_per_node else ""
    if layout.last_gpus_per_node:
        gpus += f" ({layout.last_gpus_per_node} on the last)"
    processes = f"{most}{plural(layout.processes, 'process')}"
    processes += "".join(f", {role.pods} {role.role}" for role in layout.roles[1:])
    what = command(trials.of(prepared.loaded.values, defaults))
    each = f"{nodes}{gpus}, {processes}"
    if prepared.trials is not None:
        joint = " with" if prepared.trials.number == 1 else ", each with"
        each = f"{prepared.trials}{joint} {each}"
    return f"{prepared.loaded.workload}: {each}: {what}"


def command(values: Mapping[str, Any]) -> str:
    """What each process runs, as a person would type it."""
    args = [str(arg) for arg in values.get("args") or ()]
    if script := str(values.get("script") or ""):
        lines = script.count("\n") + (not script.endswith("\n"))
        return shlex.join([f"script of {plural(lines, 'line')}", *args]).replace("'", "")
    return " ".join(
        shlex.quote(word).replace("\n", "\\n") for word in [*(values.get("command") or ()), *args]
    )


def _inventory(fit: Fit, gpu_resource: str) -> Inventory | None:
    if fit.inventory and fit.from_cluster:
        raise InputError(
            "--inventory and --nodes-from-cluster exclude each other", hint="give one of them"
        )
    if fit.inventory:
        from allranks.layout import inventory_file  # noqa: PLC0415 - only where it is asked

        return inventory_file.load(fit.inventory, gpu_resource)
    if fit.from_cluster:
        from allranks.cluster.kube import KubeCluster  # noqa: PLC0415 - kubernetes costs 0.2 s

        return KubeCluster(fit.kubeconfig or None, fit.context or None).inventory(gpu_resource)
    return None
