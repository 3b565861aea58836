"""The release of a runner inside the cluster: install it, start it again, remove it.

The whole sweep is checked before its runner is installed, as for a sweep that runs from this
machine. The rights of the runner follow from the manifests of the trials as this machine renders
them.
"""

from __future__ import annotations

import tempfile
from base64 import b64encode
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from allranks import names, postrender, resources
from allranks.cluster import crds, paths, permissions
from allranks.errors import AllranksError, InputError, NameTakenError, ReleaseTakenError
from allranks.helm import driver, releases
from allranks.k8s import restarts
from allranks.k8s.fields import condition, holds, items, text
from allranks.sweep import naming
from allranks.sweep.model import TERMINATION, Trial
from allranks.sweep.spec import prepare
from allranks.sweep.storage import segments
from allranks.values.merge import merge
from allranks.yamlio import load

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from allranks.cluster.interface import KubeClient, Rules
    from allranks.helm.releases import ReleaseRef
    from allranks.k8s.manifest import Manifest
    from allranks.sweep.model import Assignment, SweepSpec
    from allranks.sweep.records import Record
    from allranks.sweep.spec.prepare import PreparedSweep
    from allranks.sweep.storage.secrets import SecretsBackend


# How many different trials are rendered at most to see what kinds of objects they have.
_SAMPLES = 64
_AT_ONCE = 4
# Kinds that no Role of a namespace can give a right to.
_OF_THE_CLUSTER = frozenset(
    {
        *("ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition", "IngressClass"),
        *("Namespace", "Node", "PersistentVolume", "PriorityClass", "RuntimeClass", "StorageClass"),
        *("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"),
    }
)
_AUTO = "auto"


@dataclass(frozen=True, slots=True)
class TrialParts:
    """The objects of the trials of a sweep.

    Attributes:
        objects: manifests with every kind that a trial may have.
        has_status: trials have a TrainingRun if the cluster serves that kind.
    """

    objects: tuple[Manifest, ...]
    has_status: bool


def settle(prepared: PreparedSweep, cluster: KubeClient) -> PreparedSweep:
    """Return the sweep with `status.enabled` decided for all trials, if the values leave it open.

    A runner gets the rights that its trials need when it is installed. If each trial asked the
    cluster again, it would lack a right as soon as somebody installs the kind TrainingRun.

    Args:
        prepared: the sweep.
        cluster: the cluster that may serve TrainingRuns.

    Raises:
        ToolError: the cluster does not answer.
    """
    trial = prepared.spec.trial
    if not _asks(prepared, trial.values) or crds.serves(cluster, paths.TRAINING_RUNS):
        return prepared
    fixed = merge(trial.values, {"status": {"enabled": False}})
    return replace(prepared, spec=replace(prepared.spec, trial=replace(trial, values=fixed)))


def _asks(prepared: PreparedSweep, values: Mapping[str, Any]) -> bool:
    """Whether trials with these values have a TrainingRun if the cluster serves that kind."""
    status = merge(prepared.defaults, values).get("status") or {}
    return bool(prepared.workload) and status.get("enabled") == _AUTO


def render_samples(prepared: PreparedSweep, home: ReleaseRef) -> TrialParts:
    """Render trials in which every choice of every parameter that matters appears once.

    Raises:
        InputError: the trials cannot run from inside: they need rights outside of the namespace.
        AllranksError: helm or the post-renderer refused.
    """
    assignments = list(islice(prepare.samples(prepared.spec), _SAMPLES))
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        rendered = list(
            pool.map(lambda assignment: _render(prepared, home, assignment), assignments)
        )
    objects = tuple(manifest for manifests, _ in rendered for manifest in manifests)
    for manifest in objects:
        kind = manifest.get("kind")
        elsewhere = manifest.get("metadata", {}).get("namespace") not in (None, "", home.namespace)
        if kind in _OF_THE_CLUSTER or elsewhere:
            raise InputError(
                f"a trial makes a {kind} outside of namespace {home.namespace}; inside "
                "the cluster a sweep has rights in its own namespace alone",
                path="--in-cluster",
                hint="leave --in-cluster out, or have the chart do without it",
            )
    return TrialParts(objects, any(asks_status for _, asks_status in rendered))


def _render(
    prepared: PreparedSweep, home: ReleaseRef, assignment: Assignment
) -> tuple[list[Manifest], bool]:
    name = naming.trial_name(prepared.spec.name, assignment)
    values = prepared.values(Trial(0, name, assignment))
    text = driver.template(home.binary, name, home.namespace, prepared.chart, values)
    if f"\nkind: {names.SENTINEL_KIND}\n" in text:
        text = postrender.process(text)
    return [manifest for manifest in load.load_all(text) if manifest], _asks(prepared, values)


def values(
    prepared: PreparedSweep, head: Record, trials: TrialParts, home: ReleaseRef
) -> dict[str, Any]:
    """Return the `sweep` section of the values of the runner's chart.

    Args:
        prepared: the sweep, after `settle`.
        head: the first record of its journal.
        trials: of `render_samples`.
        home: the runner's release.

    Raises:
        InputError: the chart of the trials, or the sweep itself, is too big for a release.
        AllranksError: helm refused.
    """
    rules = runner_rules(
        prepared.spec, prepared.workload, trials.objects, has_status=trials.has_status
    )
    packed = segments.pack_head(head)
    chart = b64encode(_chart(prepared, home)).decode("ascii")
    size = (len(packed) + len(chart)) * 3 // 4
    if size > segments.PACKED_MAX:
        large = "the chart" if len(chart) > len(packed) else "the values"
        raise InputError(
            f"the chart of the trials and the sweep's values have {size >> 10} KiB packed, most of "
            f"it {large}, and {segments.PACKED_MAX >> 10} KiB fit into a release",
            path="--in-cluster",
            hint="name the chart by an oci:// reference, take out what is not needed with "
            ".helmignore, or leave --in-cluster out",
        )
    return {"head": packed, "round": 1, "rules": rules, "chart": chart}


def _chart(prepared: PreparedSweep, home: ReleaseRef) -> bytes:
    """Return a chart of this machine as an archive; empty for our charts and for references."""
    if prepared.workload:
        return b""
    chart = prepared.chart
    if not isinstance(chart, Path):
        if "://" not in chart:
            raise InputError(
                f"{chart} is of a repository that this machine knows, and a pod does not",
                path="--in-cluster",
                hint="name the chart by an oci:// or https:// address, or `helm pull` it and name "
                "the archive",
            )
        return b""
    if chart.is_file():
        return chart.read_bytes()
    with tempfile.TemporaryDirectory(prefix="allranks-") as folder:
        driver.call(
            driver.HelmCommand(home.binary).run(["package", str(chart), "--destination", folder])
        )
        (packed,) = Path(folder).glob("*.tgz")
        return packed.read_bytes()


def install(cluster: KubeClient, home: ReleaseRef, chart_values: Mapping[str, Any]) -> None:
    """Install the runner's release; after a failure its remains are removed.

    Args:
        cluster: where the user's rights are checked.
        home: the release; its name is the sweep's.
        chart_values: the values of its chart.

    Raises:
        InputError: a release of this name exists.
        AllranksError: helm or the cluster refused, or a right is missing.
    """
    _check_rights(cluster, home, chart_values)
    try:
        releases.install(home, _folder(), chart_values, post_render=False)
    except AllranksError as error:
        if isinstance(error, ReleaseTakenError):
            raise InputError(
                f"namespace {home.namespace} has a release {home.name} already, and the sweep's "
                "runner would be one of this name",
                hint="give the sweep another name; if nobody needs that release, `helm uninstall "
                f"{home.name} -n {home.namespace}` removes it",
            ) from error
        if not isinstance(error, NameTakenError):
            with suppress(AllranksError):  # the first failure is the one to tell
                releases.uninstall(home)
        raise


def _check_rights(cluster: KubeClient, home: ReleaseRef, chart_values: Mapping[str, Any]) -> None:
    """Refuse a Role with rights that the user does not have, before anything is sent."""
    text = driver.template(home.binary, home.name, home.namespace, _folder(), chart_values)
    rules = cluster.rules(home.namespace)
    if rules is None:
        return
    objects = [manifest for manifest in load.load_all(text) if manifest]
    needs = permissions.install_needs(objects, follow=False)
    missing = permissions.missing(rules, needs)
    if missing:
        raise permissions.refusal("the cluster", home.namespace, missing)


def start_again(home: ReleaseRef) -> None:
    """Go on with the sweep in a new Job; a Job that has ended is never started again.

    Raises:
        InputError: there is no such release.
        AllranksError: helm or the cluster refused.
    """
    release = releases.find(home)
    if release is None:
        raise InputError(
            f"there is no release {home.name} in namespace {home.namespace}",
            hint="its runner was uninstalled; start the sweep again",
        )
    sweep = release.values["sweep"]
    chart_values = {**release.values, "sweep": {**sweep, "round": int(sweep["round"]) + 1}}
    releases.upgrade(home, _folder(), chart_values, post_render=False)


def remove(home: ReleaseRef) -> None:
    """Uninstall the release: the runner, its rights, and the journal's head.

    Raises:
        AllranksError: helm or the cluster refused.
    """
    releases.uninstall(home)


def _folder() -> Path:
    return resources.folder("charts") / names.SWEEP_RUNNER


# Reasons of a container that was not tried yet.
_ON_ITS_WAY = frozenset({"ContainerCreating", "PodInitializing", ""})


@dataclass(frozen=True, slots=True)
class RunnerProblem:
    """The reason why the runner of a sweep does not run.

    Attributes:
        message: for a person; "" if nothing is wrong.
        job: the runner's newest Job.
        is_final: the Job starts no more pods.
    """

    message: str = ""
    job: str = ""
    is_final: bool = False


def runner_problem(store: SecretsBackend) -> RunnerProblem:
    """Return what is wrong with the Job and the pods of a sweep's runner.

    Raises:
        AllranksError: the cluster does not answer, or forbids it.
    """
    jobs = sorted(store.jobs(), key=lambda job: str(job["metadata"]["creationTimestamp"]))
    if not jobs:
        return RunnerProblem("its runner was uninstalled", is_final=True)
    job = jobs[-1]
    name = str(job["metadata"]["name"])
    states = items(job, "status", "conditions")
    if holds(states, "Failed"):
        message = text(condition(states, "Failed"), "message") or "it failed"
        return RunnerProblem(message, name, is_final=True)
    pods = store.cluster.list(
        paths.PODS, namespace=store.namespace, label_selector=f"{names.JOB_NAME}={name}"
    )
    messages = [message for message in map(_pod_problem, pods) if message]
    return RunnerProblem(messages[-1] if messages else "", name)


def _pod_problem(pod: Manifest) -> str:
    name = str(pod["metadata"]["name"])
    scheduled = condition(items(pod, "status", "conditions"), "PodScheduled")
    if text(scheduled, "status") == "False":
        return f"the runner's pod {name} waits for a node: {text(scheduled, 'message')}"
    is_active = text(pod, "status", "phase") in {"Pending", "Running"}
    for container in items(pod, "status", "containerStatuses"):
        if is_active and restarts.backs_off(pod["spec"], container):
            code = container["state"]["terminated"]["exitCode"]
            return f"the runner's pod {name} ended with exit code {code}, and is started again"
        waiting = (container.get("state") or {}).get("waiting") or {}
        if str(waiting.get("reason") or "") not in _ON_ITS_WAY:
            message = str(waiting.get("message") or "")
            return f"the runner's pod {name} does not start: {waiting['reason']}: {message}".rstrip(
                ": "
            )
    return ""


# Helm keeps the record of a release in Secrets; removing one needs no helm most of the time.
_RECORDS = ("create", "delete", "get", "list", "update")
# Helm, and `trials.releases`.
_OBJECTS = ("create", "delete", "get", "patch")
_ROLE = "Role"


def runner_rules(
    spec: SweepSpec, workload: str, objects: Iterable[Manifest], *, has_status: bool
) -> Rules:
    """Return the rules of the runner's Role.

    Args:
        spec: the sweep.
        workload: which of our charts its trials use; "" for an external chart.
        objects: manifests of its trials, with every kind that they may have.
        has_status: the cluster serves TrainingRuns, and our charts make one.
    """
    objects = list(objects)
    needs: defaultdict[str, set[str]] = defaultdict(set)
    needs[paths.SECRETS].update(_RECORDS)
    for manifest in objects:
        needs[paths.manifest_path(manifest)].update(_OBJECTS)
    if workload and has_status:
        needs[paths.TRAINING_RUNS].update(_OBJECTS)
    for path in _listed_resources(workload):
        needs[path].add("list")
    if spec.objective.metric and spec.metrics.source != TERMINATION:
        needs[f"{paths.PODS}/log"].add("get")
    rules = [_rule(path, verbs) for path, verbs in sorted(needs.items())]
    return rules + _journal(spec.name) + _granted_rules(objects)


def _listed_resources(workload: str) -> tuple[str, ...]:
    """Return the resources that `trials.cluster` lists to observe trials."""
    if workload == names.ELASTIC:
        return (paths.JOBS, paths.STATEFUL_SETS, paths.ELASTIC_JOBS, paths.PODS)
    if workload == "mpi":
        return (paths.JOBS, paths.STATEFUL_SETS, paths.PODS)
    return (paths.JOBS, paths.PODS)


def _journal(sweep: str) -> Rules:
    """Return the rules for appending to the journal; creating and reading Secrets is helm's."""
    head = segments.head_name(sweep)
    parts = [segments.segment_name(sweep, index) for index in range(segments.MOST)]
    return [
        {**_rule(paths.SECRETS, {"patch"}), "resourceNames": parts},
        {**_rule(paths.LEASES, {"get", "patch"}), "resourceNames": [head]},
    ]


def _granted_rules(objects: Iterable[Manifest]) -> Rules:
    """Return the rules of Roles of the trials: a runner can grant only rights that it has."""
    return [
        {
            key: list(rule[key])
            for key in ("apiGroups", "resources", "resourceNames", "verbs")
            if rule.get(key)
        }
        for manifest in objects
        if manifest.get("kind") == _ROLE
        for rule in manifest.get("rules") or ()
    ]


def _rule(resource_path: str, verbs: Iterable[str]) -> dict[str, list[str]]:
    return {
        "apiGroups": [paths.group(resource_path)],
        "resources": [paths.plural(resource_path)],
        "verbs": sorted(verbs),
    }
