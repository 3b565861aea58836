"""Load, check and lay out values, for every command."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from allranks.errors import InputError, InvalidValues, Problem
from allranks.humanize import plural
from allranks.layout.compute import compute
from allranks.model.job_spec import JobSpec
from allranks.schema.validate import in_file_order
from allranks.values import check, frameworks, resolve, sweep_trial
from allranks.values.rules.mpi import starts_its_ranks
from allranks.values.sources import Sources, defaults, load_sources

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allranks.model.inventory import Inventory
    from allranks.model.layout import Layout
    from allranks.schema.paths import ValuesPath
    from allranks.sweep.model import SweepSpec
    from allranks.values.sources import Loaded


@dataclass(frozen=True, slots=True)
class TrialCounts:
    """The number of trials of a sweep, and how many of them run at a time.

    Attributes:
        number: how many there are.
        parallel: how many run at a time.
        here: how many run at a time with `--on local`, if the cores of this machine limit them;
            0 if they do not.
    """

    number: int
    parallel: int
    here: int = 0

    def __str__(self) -> str:
        """Describe both in words."""
        trials = plural(self.number, "trial")
        if self.number == 1:
            return trials
        together = "all at once" if self.parallel >= self.number else f"{self.parallel} at a time"
        here = f" on a cluster and {self.here} at a time on this machine" if self.here else ""
        return f"{trials}, {together}{here}"

    def as_dict(self) -> dict[str, int]:
        """Return both as JSON-ready data."""
        here = self.here or self.parallel
        return {"trials": self.number, "parallel": self.parallel, "parallelLocal": here}


@dataclass(frozen=True, slots=True)
class PreparedJob:
    """Values that passed every check, and the layout they give.

    Attributes:
        loaded: the values.
        layout: the layout of the job, or of one trial of a sweep.
        inventory: the nodes that it was fitted to; None for none.
        warnings: problems that do not prevent a run.
        of_sweep: notes about a sweep, as sentences.
        trials: the number of trials of a sweep; None for other jobs.
        of_target: notes about where it runs, as sentences.
        snapshot: the workspace that is sent along, as `workspace.snapshot` of the values has it;
            None for none.
    """

    loaded: Loaded
    layout: Layout
    inventory: Inventory | None = None
    warnings: tuple[Problem, ...] = ()
    of_sweep: tuple[str, ...] = ()
    trials: TrialCounts | None = None
    of_target: tuple[str, ...] = ()
    snapshot: Mapping[str, Any] | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes about valid values, as sentences."""
        return (
            *map(str, self.loaded.overridden),
            *(f"{warning.path}: {warning.message}; {warning.hint}" for warning in self.warnings),
            *self.of_sweep,
            *self.of_target,
            *self.layout.notes,
        )


@dataclass(frozen=True, slots=True)
class FitTarget:
    """The nodes to fit the job to.

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
    fit: FitTarget | None = None,
    is_local: bool = False,
    by_helm: bool = True,
) -> PreparedJob:
    """Load, validate, check and lay out.

    Args:
        sources: the files and flags.
        release: the release's name; "" if there is none yet.
        namespace: its namespace; "" if there is none yet.
        fit: the nodes to fit the job to.
        is_local: it is for a run on this machine.
        by_helm: plain Helm will run it, so that a sweep beyond plain Helm is an error; otherwise a
            warning.

    Raises:
        InputError: the values are not valid, or the job does not fit; it lists every problem.
        RunError: the cluster was asked for its nodes and does not answer.
    """
    loaded = load_sources(sources)
    notes: list[str] = []
    warnings: list[Problem] = []
    count: TrialCounts | None = None
    if loaded.workload == sweep_trial.SWEEP and not _is_trial(loaded):
        job, notes, warnings, count = _sweep(
            loaded, release, namespace, is_local=is_local, by_helm=by_helm
        )
    else:
        resolve.refuse(loaded, release, namespace, is_local=is_local)
        job = sweep_trial.of(loaded.values, defaults)
    spec = JobSpec.from_values(job, frameworks.fewest(job))
    inventory = _inventory(fit or FitTarget(), spec.gpu_resource)
    warnings += check.warnings(loaded.values, loaded.where, is_local=is_local)
    layout = compute(spec, inventory)
    of_target: tuple[str, ...] = ()
    if is_local and loaded.queue is not None:
        queue = loaded.queue.label
        rules = f"the rules of {queue} are about a cluster: a run of this machine is held to none"
        of_target = (f"{rules} of them",)
    return PreparedJob(loaded, layout, inventory, tuple(warnings), tuple(notes), count, of_target)


def _is_trial(loaded: Loaded) -> bool:
    """Whether these are the complete values of one trial."""
    from allranks.sweep.spec import export

    return export.is_for_helm(loaded.values)


def _sweep(
    loaded: Loaded, release: str, namespace: str, *, is_local: bool, by_helm: bool
) -> tuple[Mapping[str, Any], list[str], list[Problem], TrialCounts]:
    """Check a sweep as `sweep run` does; and as charts/sweep does, if plain Helm runs it.

    Returns:
        The values of one of its trials, as those of a job; notes; warnings; the counts of trials.

    Raises:
        InvalidValues: it cannot run; it lists every problem.
    """
    from allranks.sweep.spec import plain_helm
    from allranks.sweep.spec import prepare as spec_prepare

    request = spec_prepare.SweepFlags(
        name=sweep_trial.SWEEP,
        sources=Sources(),
        loaded=loaded,
        release=release,
        namespace=namespace,
        is_local=is_local,
        check_only=True,
    )
    try:
        ready = spec_prepare.prepare(request)
    except InvalidValues as error:
        if error.more:
            raise
        # Report the problems of the other values in the same run.
        located = resolve.find_problems(loaded, release, namespace, is_local=is_local)
        more = [problem for _, problem in located]
        raise InvalidValues(_in_file_order(loaded, [*error.problems, *more])) from error
    reasons = plain_helm.limits(loaded, ready, release, namespace, is_local=is_local)
    limits = [problem for _, problem in reasons]
    if limits and by_helm:
        raise InvalidValues(_in_file_order(loaded, limits))
    job = sweep_trial.of(loaded.values, defaults)
    if limits and ready.workload:
        job = spec_prepare.first_job(ready)
    return job, [*ready.notes], _in_file_order(loaded, limits), _count(loaded, ready.spec)


def _count(loaded: Loaded, spec: SweepSpec) -> TrialCounts:
    """Return how many trials there are, and how many run at a time here and elsewhere."""
    from allranks.local import cores

    parallel = (loaded.values.get(sweep_trial.SWEEP) or {}).get("parallel")
    here = cores.usable()
    is_limit = not parallel and here < spec.parallel_max
    return TrialCounts(spec.trials, spec.parallel_max, here if is_limit else 0)


def _in_file_order(loaded: Loaded, problems: list[Problem]) -> list[Problem]:
    """Return problems in the order of the files, one for each place."""
    first: dict[tuple[str, str], Problem] = {}
    for problem in problems:
        first.setdefault((problem.path, problem.source), problem)
    located: list[tuple[ValuesPath, Problem]] = [((), problem) for problem in first.values()]
    return [problem for _, problem in in_file_order(loaded.values, located)]


def summary(prepared: PreparedJob) -> str:
    """Describe the job in one line."""
    layout = prepared.layout
    job = trial_values(prepared)
    node = "replica group" if lighthouse(job) else "node"
    nodes = plural(layout.nodes, node)
    is_elastic = layout.max_nodes > layout.min_nodes
    if is_elastic:
        nodes = f"{layout.min_nodes} to {layout.max_nodes} {node}s"
    if layout.spares:
        nodes += f" and {plural(layout.spares, 'spare')}"
    gpus = f" x {layout.gpus_per_node} {layout.gpu_resource}" if layout.gpus_per_node else ""
    if layout.last_gpus_per_node:
        gpus += f" ({layout.last_gpus_per_node} on the last)"
    processes = plural(layout.processes, "process")
    if is_elastic:
        grows = layout.nodes < layout.max_nodes
        processes = f"{processes} at first" if grows else f"up to {processes}"
    if prepared.loaded.workload == "mpi" and starts_its_ranks(job):
        processes = f"room for {processes}"
    processes += "".join(f", {role.pods} {role.role}" for role in layout.roles[1:])
    command_line = command(job)
    size = f"{nodes}{gpus}, {processes}"
    if prepared.trials is not None:
        joint = " with" if prepared.trials.number == 1 else ", each with"
        size = f"{prepared.trials}{joint} {size}"
    return f"{prepared.loaded.workload}: {size}: {command_line}"


def trial_values(prepared: PreparedJob) -> Mapping[str, Any]:
    """Return the values of the job, or of each trial of a sweep."""
    return sweep_trial.of(prepared.loaded.values, defaults)


def lighthouse(job: Mapping[str, Any]) -> str:
    """Return where the nodes of a job meet as replica groups of torchft; "" where they are none."""
    address: str = _of_torchrun(job, "torchft", "lighthouse")
    return address


def preflight(job: Mapping[str, Any]) -> str:
    """Return how closely the nodes of a job are looked at before it trains; "" for not at all."""
    level: str = _of_torchrun(job, "preflight", "level")
    return "" if level == "none" else level


def preflight_words(job: Mapping[str, Any], pods: int) -> str:
    """Say what a preflight looks at; "" where there is none.

    Args:
        job: the values of a job, or of a trial.
        pods: how many it has, spares among them.
    """
    level = preflight(job)
    if not level:
        return ""
    torchrun = job["torchrun"]
    # Pods of a fixed number alone know who is to come, and where to meet (files/preflight.py).
    apart = pods == 1 or lighthouse(job) or torchrun["elastic"]["maxNodes"]
    apart = apart or torchrun["rdzvBackend"].startswith("etcd")
    looked_at = "each pod by itself" if apart else "each pod, pairs of pods, and all together"
    return f"{level}: {looked_at}, before the training starts"


def _of_torchrun(job: Mapping[str, Any], section: str, key: str) -> Any:
    return job["torchrun"][section][key] if job["workload"] == "torchrun" else ""


def command(values: Mapping[str, Any]) -> str:
    """Return the command of each process, quoted for a shell."""
    args = [str(arg) for arg in values.get("args") or ()]
    if script := str(values.get("script") or ""):
        lines = script.count("\n") + (not script.endswith("\n"))
        return shlex.join([f"script of {plural(lines, 'line')}", *args]).replace("'", "")
    return " ".join(
        shlex.quote(word).replace("\n", "\\n") for word in [*(values.get("command") or ()), *args]
    )


def _inventory(fit: FitTarget, gpu_resource: str) -> Inventory | None:
    if fit.inventory and fit.from_cluster:
        raise InputError(
            "--inventory and --nodes-from-cluster exclude each other", hint="give one of them"
        )
    if fit.inventory:
        from allranks.layout import inventory_file

        return inventory_file.load(fit.inventory, gpu_resource)
    if fit.from_cluster:
        from allranks.cluster.client import KubeCluster

        return KubeCluster(fit.kubeconfig or None, fit.context or None).inventory(gpu_resource)
    return None
