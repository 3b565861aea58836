"""The release that stays with a sweep inside the cluster: made, started again, removed.

Whoever makes it checks all of the sweep first, as for a run from here. What the runner may do there
follows from the trials as this machine renders them.
"""

from __future__ import annotations

import tempfile
from base64 import b64encode
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from allranks import names, postrender, resources
from allranks.cluster import definitions, paths, rights
from allranks.errors import AllranksError, InputError, ReleaseTakenError, TakenError
from allranks.helm import driver, releases
from allranks.model.manifest import Manifest  # noqa: TC001 - a field's type
from allranks.sweep import naming
from allranks.sweep.inside import runnerrights
from allranks.sweep.model import Trial
from allranks.sweep.storage import segments
from allranks.sweep.values import prepare
from allranks.values.merge import merge
from allranks.yamlio import load

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allranks.cluster.port import Cluster
    from allranks.helm.releases import Home
    from allranks.sweep.model import Assignment
    from allranks.sweep.records import Record
    from allranks.sweep.values.prepare import Prepared

# So many different trials are rendered to see what kinds of objects they have.
_SAMPLES = 64
_AT_ONCE = 4
# Kinds that no Role of a namespace can give a right to.
_OF_THE_CLUSTER = frozenset(
    {
        *("ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition", "IngressClass"),
        *("Namespace", "Node", "PersistentVolume", "PriorityClass", "RuntimeClass", "StorageClass"),
    }
)
_AUTO = "auto"


@dataclass(frozen=True, slots=True)
class Trials:
    """What the trials of a sweep consist of.

    Attributes:
        objects: all kinds that they may have.
        has_status: they ask for a TrainingRun where the cluster has such.
    """

    objects: tuple[Manifest, ...]
    has_status: bool


def settle(prepared: Prepared, cluster: Cluster) -> Prepared:
    """Decide for all trials whether they have a TrainingRun, where the values leave it open.

    A runner has the rights that its trials need when it is made. Trials that asked the cluster anew
    would fail for want of a right as soon as somebody installs the kind.

    Args:
        prepared: the sweep.
        cluster: asked whether it has TrainingRuns.

    Raises:
        ToolError: the cluster does not answer.
    """
    trial = prepared.spec.trial
    if not _asks(prepared, trial.values) or definitions.serves(cluster, paths.TRAINING_RUNS):
        return prepared
    fixed = merge(trial.values, {"status": {"enabled": False}})
    return replace(prepared, spec=replace(prepared.spec, trial=replace(trial, values=fixed)))


def _asks(prepared: Prepared, values: Mapping[str, Any]) -> bool:
    """Whether trials with these values make a TrainingRun where the cluster has such."""
    status = merge(prepared.defaults, values).get("status") or {}
    return bool(prepared.workload) and status.get("enabled") == _AUTO


def look(prepared: Prepared, home: Home) -> Trials:
    """Render trials in which every choice of every parameter that matters appears once.

    Raises:
        InputError: they cannot run inside: they need more than rights in a namespace.
        AllranksError: helm or the post-renderer refused.
    """
    some = list(islice(prepare.samples(prepared.spec), _SAMPLES))
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        found = list(pool.map(lambda one: _render(prepared, home, one), some))
    objects = tuple(one for each, _ in found for one in each)
    for one in objects:
        elsewhere = one.get("metadata", {}).get("namespace") not in (None, "", home.namespace)
        if one.get("kind") in _OF_THE_CLUSTER or elsewhere:
            raise InputError(
                f"a trial makes a {one.get('kind')} outside of namespace {home.namespace}; inside "
                "the cluster a sweep has rights in its own namespace alone",
                path="--in-cluster",
                hint="leave --in-cluster out, or have the chart do without it",
            )
    return Trials(objects, any(asked for _, asked in found))


def _render(prepared: Prepared, home: Home, assignment: Assignment) -> tuple[list[Manifest], bool]:
    name = naming.trial_name(prepared.spec.name, assignment)
    values = prepared.values(Trial(0, name, assignment))
    text = driver.template(home.binary, name, home.namespace, prepared.chart, values)
    if f"\nkind: {names.SENTINEL_KIND}\n" in text:
        text = postrender.process(text)
    return [one for one in load.load_all(text) if one], _asks(prepared, values)


def values(prepared: Prepared, head: Record, trials: Trials, home: Home) -> dict[str, Any]:
    """What the chart of the runner is given of a sweep.

    Args:
        prepared: the sweep, settled.
        head: its journal's first record.
        trials: of `look`.
        home: its release.

    Raises:
        InputError: the chart of the trials, or the sweep itself, is too big for a release.
        AllranksError: helm refused.
    """
    rules = runnerrights.rules(
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


def _chart(prepared: Prepared, home: Home) -> bytes:
    """A chart that is a file or a folder here, packed; nothing of ours, and of a reference."""
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
            driver.Command(home.binary).run(["package", str(chart), "--destination", folder])
        )
        (packed,) = Path(folder).glob("*.tgz")
        return packed.read_bytes()


def install(cluster: Cluster, home: Home, given: Mapping[str, Any]) -> None:
    """Make the release; what a failure has left is taken back.

    Args:
        cluster: asked whether the user may do it.
        home: the release; its name is the sweep's.
        given: the values of its chart.

    Raises:
        InputError: there is a release of this name.
        AllranksError: helm or the cluster refused, or a right is missing.
    """
    _check_rights(cluster, home, given)
    try:
        releases.install(home, _folder(), given, post_render=False)
    except AllranksError as error:
        if isinstance(error, ReleaseTakenError):
            raise InputError(
                f"namespace {home.namespace} has a release {home.name} already, and the sweep's "
                "runner would be one of this name",
                hint="give the sweep another name; if nobody needs that release, `helm uninstall "
                f"{home.name} -n {home.namespace}` removes it",
            ) from error
        if not isinstance(error, TakenError):
            with suppress(AllranksError):  # the first failure is the one to tell
                releases.uninstall(home)
        raise


def _check_rights(cluster: Cluster, home: Home, given: Mapping[str, Any]) -> None:
    """Refuse before anything is sent: nobody can give a Role what they do not have."""
    text = driver.template(home.binary, home.name, home.namespace, _folder(), given)
    known = cluster.rules(home.namespace)
    if known is None:
        return
    objects = [one for one in load.load_all(text) if one]
    needs = rights.to_run(objects, follow=False)
    lacking = rights.missing(known, needs)
    if lacking:
        raise rights.refusal("the cluster", home.namespace, lacking)


def start_again(home: Home) -> None:
    """Have another Job go on with the sweep: a Job that has ended is never started again.

    Raises:
        InputError: there is no such release.
        AllranksError: helm or the cluster refused.
    """
    found = releases.find(home)
    if found is None:
        raise InputError(
            f"there is no release {home.name} in namespace {home.namespace}",
            hint="its runner was uninstalled; begin the sweep anew",
        )
    sweep = found.given["sweep"]
    given = {**found.given, "sweep": {**sweep, "round": int(sweep["round"]) + 1}}
    releases.upgrade(home, _folder(), given, post_render=False)


def remove(home: Home) -> None:
    """Remove the release: the runner, its rights, and the journal's head.

    Raises:
        AllranksError: helm or the cluster refused.
    """
    releases.uninstall(home)


def _folder() -> Path:
    return resources.folder("charts") / names.SWEEP_RUNNER
