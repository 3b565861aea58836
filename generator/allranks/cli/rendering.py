"""Final manifests from checked values: helm, then the post-renderer in this process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from allranks import names, postrender, resources
from allranks.helm import driver
from allranks.sweep.values import plain
from allranks.values import trials
from allranks.yamlio import load

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from allranks.cli.pipeline import Prepared
    from allranks.helm.locate import HelmBinary
    from allranks.helm.releases import Home
    from allranks.model.manifest import Manifest


@dataclass(frozen=True, slots=True)
class Rendered:
    """A release as it would be applied.

    Attributes:
        chart: the chart's folder.
        values: what helm is given.
        post_render: whether the manifests ask for the post-renderer.
        objects: the manifests, as they would be applied.
    """

    chart: Path
    values: dict[str, Any]
    post_render: bool
    objects: tuple[Manifest, ...]


def manifests(
    prepared: Prepared,
    binary: HelmBinary,
    release: str,
    namespace: str,
    user: Mapping[str, Any] | None = None,
) -> str:
    """The manifests of a release, post-rendered; the same text for helm 3 and helm 4.

    Args:
        prepared: checked values and their layout.
        binary: the helm to call.
        release: the release's name.
        namespace: its namespace.
        user: the person's values, where they are not those of `prepared`.

    Raises:
        AllranksError: helm or the post-renderer refused.
    """
    values = chart_values(prepared, user)
    return postrender.process(driver.template(binary, release, namespace, _chart(prepared), values))


def for_cluster(prepared: Prepared, home: Home) -> Rendered:
    """A release as helm would apply it to a cluster.

    It goes through the post-renderer where its manifests ask for it, and only there: a run that
    plain helm can install can be upgraded by plain helm as well.

    Raises:
        AllranksError: helm or the post-renderer refused.
    """
    values, chart = chart_values(prepared), _chart(prepared)
    text = driver.template(home.binary, home.name, home.namespace, chart, values)
    needed = f"\nkind: {names.SENTINEL_KIND}\n" in text
    if needed:
        text = postrender.process(text)
    return Rendered(chart, values, needed, tuple(one for one in load.load_all(text) if one))


def chart_values(prepared: Prepared, user: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """What helm is given: the person's own values, and the layout.

    Not the merged ones: a null of theirs must reach helm, which removes the chart's default for it.
    """
    given = prepared.loaded.user if user is None else user
    if prepared.loaded.workload == trials.SWEEP:
        given = plain.as_typed(given, prepared.loaded.token)
    layout = prepared.layout.to_values()
    # A trial of a sweep, as helm was given it, says here that it is one, and what it was told.
    typed = given.get("layout")
    if isinstance(typed, dict) and typed.get("trial"):
        layout["trial"] = typed["trial"]
    return {**given, "layout": layout}


def _chart(prepared: Prepared) -> Path:
    return resources.folder("charts") / prepared.loaded.workload
