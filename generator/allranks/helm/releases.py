"""Releases on a cluster: install, upgrade, uninstall, and read their records.

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

from allranks import names
from allranks.errors import AllranksError, ForbiddenError, ToolError, UnknownKindError
from allranks.helm import errors, plugins
from allranks.helm.driver import HelmCommand, PostRenderer, call
from allranks.helm.pyhelm import ReleaseNotFoundError
from allranks.yamlio.load import load_all

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from allranks.helm.binary import HelmBinary
    from allranks.k8s.manifest import Manifest

# What helm prints above the objects that an uninstall has left.
REMAINDER_HEADING = "were not deleted because their ownership could not be verified:"


@dataclass(frozen=True, slots=True)
class ReleaseRef:
    """The name and namespace of a release, and the helm to use.

    Attributes:
        binary: the helm.
        name: the release.
        namespace: its namespace.
        kubeconfig: the file; "" is helm's own search, which is kubectl's.
        context: its context; "" inside a pod.
        is_tied: helm ends with this process; see `allranks.helm.driver`.
    """

    binary: HelmBinary
    name: str
    namespace: str
    kubeconfig: str = ""
    context: str = ""
    is_tied: bool = False

    def command(self, post_renderer: PostRenderer | None = None) -> HelmCommand:
        """The command runner for the release."""
        return HelmCommand(
            self.binary,
            post_renderer=post_renderer,
            is_tied=self.is_tied,
            kubeconfig=self.kubeconfig or None,
            kubecontext=self.context or None,
        )


@dataclass(frozen=True, slots=True)
class Release:
    """A release as helm records it.

    Attributes:
        revision: counts from 1.
        status: helm's word: ``deployed``, ``failed``, ``pending-install``, ...
        values: the values it was given, without the chart's defaults.
        manifests: what was applied.
    """

    revision: int
    status: str
    values: Mapping[str, Any]
    manifests: tuple[Manifest, ...]

    @property
    def ours(self) -> bool:
        """Whether the release is of one of our charts."""
        labels = (manifest["metadata"].get("labels") or {} for manifest in self.manifests)
        return any(label_map.get(names.APP_PART_OF) == names.PART_OF for label_map in labels)


def install(
    home: ReleaseRef,
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


def upgrade(home: ReleaseRef, chart: Path, values: Mapping[str, Any], *, post_render: bool) -> None:
    """Upgrade a release to new values; values that are no longer set are dropped.

    Fields that something else has set since (``suspend``, a replica count) are set as the values
    say: they are the last word.

    Raises:
        InputError: an object that is there forbids the change.
        AllranksError: helm or the cluster refused, in our words.
    """
    words = ["upgrade", home.name, str(chart), "--skip-crds", "--reset-values", "--values", "-"]
    if home.binary.major >= plugins.HELM_WITH_PLUGINS and _is_server_applied(home):
        words.append("--force-conflicts")
    _apply(home, words, values, post_render=post_render)


def uninstall(home: ReleaseRef) -> bool:
    """Uninstall a release, whatever its state; False where helm knows none.

    Helm 4 leaves an object that it may not look at, forgets the release, and says that it is done.

    Raises:
        ForbiddenError: an object may not be looked at, and is left.
        AllranksError: helm or the cluster refused, in our words.
    """
    try:
        output = _call(home, ["uninstall", home.name]).decode("utf-8", "replace")
    except _GoneError:
        return False
    _, mark, objects = output.partition(REMAINDER_HEADING)
    if mark:
        problem = errors.parse(f"Error: {objects.strip()}").problem
        raise ForbiddenError(
            f"{problem.message}; helm has left such objects, and forgotten release {home.name}",
            hint=f"ask somebody who may to remove what is left of it: {problem.hint}",
        )
    return True


def find(home: ReleaseRef) -> Release | None:
    """The current release; None where helm knows none.

    Raises:
        AllranksError: helm or the cluster refused, in our words.
    """
    try:
        data = _status(home)
    except UnknownKindError:  # Helm 4 also looks at the objects
        return _from_record(home)
    if data is None:
        return None
    return Release(
        revision=int(data.get("version") or 0),
        status=str((data.get("info") or {}).get("status") or ""),
        values=data.get("config") or {},
        manifests=tuple(manifest for manifest in load_all(data.get("manifest") or "") if manifest),
    )


def values(home: ReleaseRef) -> dict[str, Any]:
    """The values of the release, over the chart's defaults.

    Raises:
        AllranksError: helm or the cluster refused, in our words.
    """
    return _record(home, ["get", "values", home.name, "--all"])


class _GoneError(ToolError):
    """The error where helm knows no release of this name."""


def _status(home: ReleaseRef) -> dict[str, Any] | None:
    try:
        return _record(home, ["status", home.name])
    except _GoneError:
        return None


def _from_record(home: ReleaseRef) -> Release:
    """The release from its record alone, where the cluster has lost one of its kinds."""
    data = _record(home, ["get", "metadata", home.name])
    manifests = _call(home, ["get", "manifest", home.name])
    return Release(
        revision=int(data.get("revision") or 0),
        status=str(data.get("status") or ""),
        values=_record(home, ["get", "values", home.name]),
        manifests=tuple(manifest for manifest in load_all(manifests) if manifest),
    )


def take_back(home: ReleaseRef) -> None:
    """Remove what a failed first install has left; the install's error is the one to show."""
    with suppress(AllranksError):
        release = find(home)
        if release is not None and release.revision == 1 and release.status != "deployed":
            uninstall(home)


def _is_server_applied(home: ReleaseRef) -> bool:
    """Whether the release was last applied server-side; only then helm takes --force-conflicts."""
    return (_status(home) or {}).get("apply_method") == "ssa"


def _apply(
    home: ReleaseRef, words: Sequence[str], supplied: Mapping[str, Any], *, post_render: bool
) -> None:
    body = json.dumps(supplied, allow_nan=False).encode()
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
    """Our post-renderer, in the form that this helm supports."""
    if binary.major < plugins.HELM_WITH_PLUGINS:
        yield PostRenderer(str(plugins.executable()))
        return
    with plugins.own_folder() as folder:
        yield PostRenderer(plugins=folder)


def _record(home: ReleaseRef, words: Sequence[str]) -> dict[str, Any]:
    """The record that helm answers in JSON; `null`, as of no values, is empty.

    Raises:
        ToolError: it answers something else, as a program around helm does.
    """
    words = [*words, "--output", "json"]
    answer = _call(home, words)
    try:
        record = json.loads(answer)
    except ValueError:  # no JSON, or not UTF-8
        record = answer
    if record is None:
        return {}
    if not isinstance(record, dict):
        start = answer[:60].decode("utf-8", "replace")
        command = " ".join(("helm", *words, "-n", home.namespace))
        raise ToolError(
            f"{home.binary.path} answers {start!r}, which is no record of a release",
            hint=f"see what `{command}` prints; nothing but JSON may be there",
        )
    return record


def _call(home: ReleaseRef, words: Sequence[str]) -> bytes:
    try:
        return call(home.command().run([*words, "--namespace", home.namespace]))
    except ToolError as error:
        if isinstance(error.__cause__, ReleaseNotFoundError):
            raise _GoneError(str(error)) from error
        raise
