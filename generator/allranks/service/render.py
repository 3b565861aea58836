"""Render checked values into final manifests: helm, then the post-renderer in this process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from allranks import names, postrender, resources
from allranks.helm import driver
from allranks.sweep.spec import export
from allranks.values import sweep_trial
from allranks.yamlio import load

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from allranks.helm.binary import HelmBinary
    from allranks.helm.releases import ReleaseRef
    from allranks.k8s.manifest import Manifest
    from allranks.service.prepare import PreparedJob


@dataclass(frozen=True, slots=True)
class Rendered:
    """A release as it would be applied.

    Attributes:
        chart: the chart's folder.
        values: the values for helm.
        post_render: whether the manifests need the post-renderer.
        objects: the manifests, as they would be applied.
    """

    chart: Path
    values: dict[str, Any]
    post_render: bool
    objects: tuple[Manifest, ...]


def manifests(
    prepared: PreparedJob,
    binary: HelmBinary,
    release: str,
    namespace: str,
    user: Mapping[str, Any] | None = None,
) -> str:
    """Return the post-rendered manifests of a release; the same text for helm 3 and helm 4.

    Args:
        prepared: checked values and their layout.
        binary: the helm to call.
        release: the release's name.
        namespace: its namespace.
        user: the user's values; None for those of `prepared`.

    Raises:
        AllranksError: helm or the post-renderer refused.
    """
    values = chart_values(prepared, user)
    return postrender.process(driver.template(binary, release, namespace, _chart(prepared), values))


def for_cluster(prepared: PreparedJob, home: ReleaseRef) -> Rendered:
    """Render a release as helm would apply it to a cluster.

    It goes through the post-renderer only if its manifests need it: a run that plain helm can
    install can be upgraded by plain helm as well.

    Raises:
        AllranksError: helm or the post-renderer refused.
    """
    return of_values(chart_values(prepared), prepared.loaded.workload, home)


def of_values(values: dict[str, Any], workload: str, home: ReleaseRef) -> Rendered:
    """Render a release of values that a release has already.

    Args:
        values: the values for helm.
        workload: the workload, which names the chart.
        home: the release.

    Raises:
        AllranksError: helm or the post-renderer refused.
    """
    chart = resources.folder("charts") / workload
    text = driver.template(home.binary, home.name, home.namespace, chart, values)
    needed = f"\nkind: {names.SENTINEL_KIND}\n" in text
    if needed:
        text = postrender.process(text)
    return Rendered(
        chart, values, needed, tuple(manifest for manifest in load.load_all(text) if manifest)
    )


def chart_values(prepared: PreparedJob, user: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the values for helm: the user's own values, the layout, and what was sent.

    They are not merged with the defaults: a null must reach helm, which removes the chart's
    default.
    """
    values = prepared.loaded.user if user is None else user
    if prepared.loaded.workload == sweep_trial.SWEEP:
        values = export.as_typed(values, prepared.loaded.token)
    layout = prepared.layout.to_values()
    # The exported values of a trial have its name and number here.
    user_layout = values.get("layout")
    if isinstance(user_layout, dict) and user_layout.get("trial"):
        layout["trial"] = user_layout["trial"]
    if prepared.loaded.queue is not None:
        layout["queue"] = prepared.loaded.queue.as_json()
    values = {**values, "layout": layout}
    if prepared.snapshot is not None:
        workspace = values.get("workspace") or {}
        values["workspace"] = {**workspace, "snapshot": dict(prepared.snapshot)}
    return values


def _chart(prepared: PreparedJob) -> Path:
    return resources.folder("charts") / prepared.loaded.workload
