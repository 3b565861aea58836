"""Final manifests from checked values: helm, then the post-renderer in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from allranks import postrender, resources
from allranks.helm import driver

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allranks.cli.pipeline import Prepared
    from allranks.helm.locate import HelmBinary


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
    chart = resources.folder("charts") / prepared.loaded.workload
    # The user's own values, not the merged ones: a null of theirs must reach helm, which removes
    # the chart's default for it.
    given = prepared.loaded.user if user is None else user
    values: dict[str, Any] = {**given, "layout": prepared.layout.to_values()}
    return postrender.process(driver.template(binary, release, namespace, chart, values))
