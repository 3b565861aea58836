"""Releases on a cluster: install, upgrade, uninstall, and what a release was installed with.

helm applies and keeps the record, so that `helm list`, `helm history` and a later `helm upgrade`
of a person's own see what we did. It never waits for pods here: who follows a run watches it
through `allranks.cluster`, which costs less and says more.
"""

from __future__ import annotations

import json
import tempfile
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyhelm3.errors

from allranks import names
from allranks.errors import AllranksError, ToolError, UnknownKindError
from allranks.helm import plugins
from allranks.helm.driver import Command, PostRenderer, call
from allranks.yamlio.load import load_all

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from allranks.helm.locate import HelmBinary
    from allranks.model.manifest import Manifest


@dataclass(frozen=True, slots=True)
class Home:
    """Where a release is, and the helm that looks after it.

    Attributes:
        binary: the helm.
        name: the release.
        namespace: its namespace.
        kubeconfig: the file; "" is helm's own search, which is kubectl's.
        context: its context; "" inside a pod.
        is_tied: helm ends with this process; see `allranks.helm.tied`.
    """

    binary: HelmBinary
    name: str
    namespace: str
    kubeconfig: str = ""
    context: str = ""
    is_tied: bool = False

    def command(self, post_renderer: PostRenderer | None = None) -> Command:
        """The command runner for it."""
        return Command(
            self.binary,
            post_renderer=post_renderer,
            is_tied=self.is_tied,
            kubeconfig=self.kubeconfig or None,
            kubecontext=self.context or None,
        )


@dataclass(frozen=True, slots=True)
class Release:
    """A release as helm has it.

    Attributes:
        revision: counts from 1.
        status: helm's word: ``deployed``, ``failed``, ``pending-install``, ...
        given: the values it was given, without the chart's defaults.
        manifests: what was applied.
    """

    revision: int
    status: str
    given: Mapping[str, Any]
    manifests: tuple[Manifest, ...]

    @property
    def ours(self) -> bool:
        """Whether it is of a chart of ours."""
        labels = (one["metadata"].get("labels") or {} for one in self.manifests)
        return any(each.get(names.APP_PART_OF) == names.PART_OF for each in labels)


def install(
    home: Home,
    chart: Path | str,
    values: Mapping[str, Any],
    *,
    post_render: bool,
    labels: Mapping[str, str] | None = None,
    is_checked: bool = False,
) -> None:
    """Install a chart as a new release.

    Args:
        home: where to.
        chart: the chart's folder.
        values: the values, as one document over the chart's defaults.
        post_render: pipe the manifests through our post-renderer.
        labels: on helm's record of the release, to find it by.
        is_checked: the values are known to match the chart's schema.

    Raises:
        InputError: a release of this name is there, or the namespace is not.
        AllranksError: helm or the cluster refused, in our words.
    """
    words = ["install", home.name, str(chart), "--skip-crds", "--values", "-"]
    if labels:
        words += ["--labels", ",".join(f"{key}={value}" for key, value in labels.items())]
    if is_checked:
        words.append("--skip-schema-validation")
    # With server-side apply the server itself refuses an unknown field; helm's own look at the
    # whole OpenAPI document beforehand costs three requests.
    if is_checked or home.binary.major >= plugins.HELM_WITH_PLUGINS:
        words.append("--disable-openapi-validation")
    _apply(home, words, values, post_render=post_render)


def upgrade(home: Home, chart: Path, values: Mapping[str, Any], *, post_render: bool) -> None:
    """Bring a release to new values; what only the old ones had is removed.

    Fields that something else has set since (``suspend``, a replica count) are set as the values
    say: they are the last word.

    Raises:
        InputError: an object that is there forbids the change.
        AllranksError: helm or the cluster refused, in our words.
    """
    words = ["upgrade", home.name, str(chart), "--skip-crds", "--reset-values", "--values", "-"]
    if home.binary.major >= plugins.HELM_WITH_PLUGINS and _applied_by_server(home):
        words.append("--force-conflicts")
    _apply(home, words, values, post_render=post_render)


def uninstall(home: Home) -> bool:
    """Remove a release, in whatever state it is; False where helm knows none.

    Raises:
        AllranksError: helm or the cluster refused, in our words.
    """
    try:
        _call(home, ["uninstall", home.name])
    except _GoneError:
        return False
    return True


def find(home: Home) -> Release | None:
    """The release as it is now; None where helm knows none.

    Raises:
        AllranksError: helm or the cluster refused, in our words.
    """
    try:
        data = _status(home)
    except UnknownKindError:  # Helm 4 also looks at the objects
        return _recorded(home)
    if data is None:
        return None
    return Release(
        revision=int(data.get("version") or 0),
        status=str((data.get("info") or {}).get("status") or ""),
        given=data.get("config") or {},
        manifests=tuple(one for one in load_all(data.get("manifest") or "") if one),
    )


def values(home: Home) -> dict[str, Any]:
    """The values of the release, over the chart's defaults.

    Raises:
        AllranksError: helm or the cluster refused, in our words.
    """
    answer = _call(home, ["get", "values", home.name, "--all", "--output", "json"])
    return dict(json.loads(answer) or {})


class _GoneError(ToolError):
    """Helm knows no release of this name."""


def _status(home: Home) -> dict[str, Any] | None:
    try:
        answer = _call(home, ["status", home.name, "--output", "json"])
    except _GoneError:
        return None
    return dict(json.loads(answer))


def _recorded(home: Home) -> Release:
    """The release by its record alone, where the cluster has lost a kind of it."""

    def get(what: str, *flags: str) -> bytes:
        return _call(home, ["get", what, home.name, *flags])

    data = json.loads(get("metadata", "--output", "json"))
    return Release(
        revision=int(data.get("revision") or 0),
        status=str(data.get("status") or ""),
        given=json.loads(get("values", "--output", "json")) or {},
        manifests=tuple(one for one in load_all(get("manifest")) if one),
    )


def take_back(home: Home) -> None:
    """Remove what a failed first install has left; the failure itself is the one to tell."""
    with suppress(AllranksError):
        release = find(home)
        if release is not None and release.revision == 1 and release.status != "deployed":
            uninstall(home)


def _applied_by_server(home: Home) -> bool:
    """Whether the release was last applied server-side; only then helm takes --force-conflicts."""
    return (_status(home) or {}).get("apply_method") == "ssa"


def _apply(
    home: Home, words: Sequence[str], given: Mapping[str, Any], *, post_render: bool
) -> None:
    body = json.dumps(given, allow_nan=False).encode()
    words = [*words, "--namespace", home.namespace]
    if not post_render:
        call(home.command().run(words, body))
        return
    with (
        tempfile.TemporaryDirectory(prefix="allranks-") as folder,
        _post_renderer(home.binary) as renderer,
    ):
        # Helm 4 hides a post-renderer's standard error; ours also writes to this file.
        report = Path(folder) / "report"
        reporting = replace(renderer, args=(f"--report={report}",))
        call(home.command(reporting).run(words, body), report)


@contextmanager
def _post_renderer(binary: HelmBinary) -> Iterator[PostRenderer]:
    """Our post-renderer as this helm takes it."""
    if binary.major < plugins.HELM_WITH_PLUGINS:
        yield PostRenderer(str(plugins.executable()))
        return
    with plugins.own_folder() as folder:
        yield PostRenderer(plugins=folder)


def _call(home: Home, words: Sequence[str]) -> bytes:
    try:
        return call(home.command().run([*words, "--namespace", home.namespace]))
    except ToolError as error:
        if isinstance(error.__cause__, pyhelm3.errors.ReleaseNotFoundError):
            raise _GoneError(str(error)) from error
        raise
