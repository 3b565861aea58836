"""`allranks show`: the code that a run runs, as it was sent, and what is recorded of it."""

from __future__ import annotations

import shlex
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

import click

from allranks import names
from allranks.cli import options
from allranks.cli.target import run_argument, target_options
from allranks.errors import InputError, NotFoundError
from allranks.humanize import list_some

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allranks.cli.console import Console
    from allranks.cli.target import ClusterTarget, Target
    from allranks.cluster.interface import KubeClient
    from allranks.k8s.manifest import Manifest
    from allranks.workspace.model import Archive
    from allranks.workspace.record import CodeRecord
    from allranks.workspace.sync import Offer


# The ways by which a snapshot goes outside of the namespace's ConfigMaps.
_ELSEWHERE = {"image": "an image", "pvc": "a claim"}
_LOCAL = "local"


@click.command("show", short_help="Show the code that a run runs.")
@run_argument
@target_options
@options.helm_option
@click.option(
    "--code",
    metavar="DIR",
    type=click.Path(),
    help="Write the code into this folder, exactly as it ran. It must be empty or not there.",
)
@click.option(
    "--first",
    is_flag=True,
    help="With --code: what the run was started with, where newer code was synced since.",
)
@click.option("--diff", is_flag=True, help="Print how the code differs from its commit.")
@options.output_option("text", "json")
@options.pass_console
def show_command(
    console: Console,
    *,
    name: str,
    target: Target,
    code: str | None,
    first: bool,
    diff: bool,
    output: str,
) -> None:
    """Show what run NAME runs: the command, the digest of its code, and the commit.

    With --code the code itself is written into a folder, from the cluster or from the run of this
    machine: what was sent, or what `allranks sync` brought last, whatever was edited since.

    \b
    Example:
      allranks show train-3f2a
      allranks show train-3f2a --code what-ran
      allranks show train-3f2a --diff | git apply
    """
    if code == "":
        raise InputError("is empty", path="--code", hint="name a folder")
    if code and diff:
        raise InputError(
            "--code writes the code, and --diff prints its difference",
            path="--diff",
            hint="give one of the two, and then the other",
        )
    if first and not code:
        raise InputError(
            "says which code --code writes",
            path="--first",
            hint=f"add --code DIR, or leave it out: `{names.CLI} show` names both",
        )
    cluster_target = target.cluster_target(console)
    run = _RunCode.find(name, target, cluster_target)
    needed = bool(code) or diff
    if needed and not run.code.digest:
        raise InputError(
            f"run {name!r} was started without a workspace: its code is in the image "
            f"{run.code.image}".rstrip(),
            path="--code" if code else "--diff",
            hint=f"`{names.CLI} submit` and `{names.CLI} run --workspace` send a folder along",
        )
    if diff and run.code.via in _ELSEWHERE:  # nothing has to be fetched to say so
        console.note(_no_difference(run.code))
        return
    synced = run.synced(name) if run.code.digest else None
    newest = synced if code and not first and not diff else None
    stored_code = (
        run.stored_code(needed=needed and not newest) if needed or output == "json" else None
    )
    if diff:
        assert stored_code is not None  # noqa: S101 - it was read, or refused
        console.raw(stored_code.diff)
        if not stored_code.diff:
            console.note(_no_difference(run.code, stored_code))
        return
    if code:
        source = newest or stored_code
        assert source is not None  # noqa: S101 - see above
        _write(source.archive, Path(code))
    if output == "json":
        from allranks.service.workspace import camel

        data = {"name": name, "namespace": run.namespace, **camel(asdict(run.code))}
        more = {"diff": stored_code.diff if stored_code else "", "isKept": stored_code is not None}
        more["synced"] = (
            {"digest": synced.digest, "generation": synced.generation} if synced else None
        )
        console.json(data | more)
    elif code:
        digest = newest.digest if newest else run.code.digest
        console.text(f"{code}: the code of {name}, {_short(digest)}")
    else:
        _show(console, name, run, synced)


@dataclass(frozen=True, slots=True)
class _StoredCode:
    """The parts of the code that are kept.

    Attributes:
        archive: the code.
        diff: how it differs from its commit; "" where that is not kept.
        is_of_run: whether the difference is to the commit of this run.
    """

    archive: Archive
    diff: str
    is_of_run: bool


@dataclass(frozen=True, slots=True)
class _RunCode:
    """A run, as far as its code goes.

    Attributes:
        code: what its objects record.
        namespace: its namespace.
        cluster: where it is; None is this machine.
        objects: its objects, of a run of this machine.
        is_there: whether its controllers are; False where only helm's record is left.
    """

    code: CodeRecord
    namespace: str
    cluster: KubeClient | None
    objects: Sequence[Manifest]
    is_there: bool = True

    @classmethod
    def find(cls, name: str, target: Target, cluster_target: ClusterTarget | None) -> Self:
        """The run.

        Raises:
            InputError: there is no such run.
            AllranksError: the cluster does not answer, or forbids it.
        """
        from allranks.workspace import record

        if cluster_target is None:
            from allranks.local import runs as local_runs

            try:
                manifests = local_runs.manifests(name, target.local_namespace)
            except InputError:
                of_sweep = _of_sweep(name, target.local_namespace)
                if of_sweep is None:
                    raise
                return cls(of_sweep[0], target.local_namespace, None, of_sweep[1])
            # No image is used here, and no ConfigMap.
            code = replace(record.of_objects(manifests), image="")
            if code.via:
                code = replace(code, via=_LOCAL, parts=())
            return cls(code, target.local_namespace, None, manifests)
        objects, is_there = _cluster_objects(name, cluster_target)
        code = record.of_objects(objects)
        cluster, namespace = cluster_target.cluster, cluster_target.namespace
        return cls(code, namespace, cluster, objects, is_there)

    @property
    def gone(self) -> tuple[str, ...]:
        """The ConfigMaps of its code that are not there."""
        from allranks.workspace import config_maps

        if self.cluster is None or self.code.via in _ELSEWHERE:
            return ()
        code = self.code
        return config_maps.missing(self.cluster, self.namespace, code.digest, code.parts)

    def synced(self, name: str) -> Offer | None:
        """The code that was synced last into the run; None where none was."""
        if self.cluster is None:
            from allranks.workspace import local_sync

            return local_sync.synced(name, self.namespace)
        from allranks.workspace import cluster_sync

        return cluster_sync.synced(self.cluster, self.namespace, name)

    def stored_code(self, *, needed: bool) -> _StoredCode | None:
        """What is kept of its code; None where nothing is.

        Args:
            needed: nothing is an error.

        Raises:
            RunError: what is there is broken, or somebody has removed it.
            NotFoundError: nothing is there, and it is needed.
        """
        from allranks.workspace import claim, config_maps, objects, record, registry

        if not self.code.digest:
            return None
        if self.code.via in _ELSEWHERE:
            if not needed:
                return None
            if self.code.via == "image":
                archive, _ = registry.pull(self.code.parts[0])
            else:
                assert self.cluster is not None  # noqa: S101 - claims are of clusters
                pod = record.pod_of(self.objects)
                archive = claim.read(self.cluster, self.namespace, self.code, pod)
            return _StoredCode(archive, "", is_of_run=True)
        parts: list[Manifest] = list(filter(_is_part, self.objects))
        if self.cluster is not None:
            try:
                parts = config_maps.find(self.cluster, self.namespace, self.code.digest)
            except NotFoundError as error:
                if not needed:
                    return None
                if not self.is_there:
                    raise
                raise NotFoundError(
                    f"{error.problem.message}: somebody has deleted it",
                    hint=f"`{names.CLI} submit` of the same folder puts it there again, and a run "
                    "that waits for it goes on",
                ) from error
        archive, about = objects.read(parts)
        # Two runs of one digest share what was sent; the difference is to the commit of the first.
        is_of_run = not self.code.commit or about["commit"] == self.code.commit
        return _StoredCode(archive, str(about["diff"]) if is_of_run else "", is_of_run)


def _show(console: Console, name: str, run: _RunCode, synced: Offer | None) -> None:
    code = run.code
    console.text(f"{name}  {code.workload or 'a run'} in namespace {run.namespace}")
    differs = ", and the code differs from it" if code.is_dirty else ""
    branch = f" on {code.branch}" if code.branch else ""
    lines = {
        "command": shlex.join(code.command) or "the script of its values",
        "image": code.image,
        "code": code.digest or "in the image",
        "commit": f"{code.commit}{branch}{differs}" if code.commit else "",
        "synced": f"{synced.digest}, generation {synced.generation}" if synced else "",
        "way": _way(code),
        "queue": ", revision ".join(filter(None, (code.queue, code.queue_revision))),
    }
    for key, text in lines.items():
        if text:
            console.text(f"  {key:<9} {text}")
    if not code.digest:
        return
    if gone := run.gone:
        how = "was deleted" if run.is_there else "went with the last run that used it"
        console.text(f"  {'kept':<9} no longer: ConfigMap {list_some(gone)} {how}")
    else:
        console.command(f"{names.CLI} show {name} --code DIR")


def _way(code: CodeRecord) -> str:
    if code.via == _LOCAL:
        return "a copy in the run's folder"
    return f"{code.via}: {', '.join(code.parts)}" if code.via else ""


def _no_difference(code: CodeRecord, stored_code: _StoredCode | None = None) -> str:
    if not code.commit:
        return "the code was sent from outside of git: there is no commit to compare it with"
    if not code.is_dirty:
        return f"the code is that of commit {code.commit}"
    if code.via in _ELSEWHERE:
        return f"the difference is not kept: {_ELSEWHERE[code.via]} has the code alone"
    if stored_code is not None and not stored_code.is_of_run:
        return "the difference is not kept: the same code was sent before, on another commit"
    return "the difference is not kept: it was too long, or it has new files only"


def _short(digest: str) -> str:
    return digest.removeprefix("sha256:")[:12]


def _write(archive: Archive, folder: Path) -> None:
    """Unpack into a folder that is empty or not there.

    Raises:
        InputError: it is something else.
    """
    from allranks.workspace import archive as archives

    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(
            f"{str(folder)!r} is not empty" if folder.is_dir() else f"{str(folder)!r} is a file",
            path="--code",
            hint="name a folder that is empty or not there",
        )
    folder.mkdir(parents=True, exist_ok=True)
    archives.unpack(archive, folder)


# --- where it is ----------------------------------------------------------------------------------


def _is_part(manifest: Manifest) -> bool:
    labels = manifest["metadata"].get("labels") or {}
    return manifest.get("kind") == "ConfigMap" and names.WORKSPACE in labels


def _of_sweep(name: str, namespace: str) -> tuple[CodeRecord, Sequence[Manifest]] | None:
    """The code of a sweep of this machine, or of a trial of one, and what is kept of it.

    The runs of trials go when they have ended; their code is that of the sweep.

    Args:
        name: of the sweep or the trial.
        namespace: where its trials run.
    """
    from allranks.k8s.fields import at, text
    from allranks.sweep import workspace as sweep_workspace
    from allranks.sweep.storage import catalog
    from allranks.sweep.storage.journal import read_state
    from allranks.workspace.record import CodeRecord

    for sweep in (name, name.rpartition("-")[0]):
        store = catalog.locate(sweep) if sweep else None
        if store is None or not store.exists():
            continue
        state = read_state(store)
        numbers = (f"{sweep}-{number}" for number in state.trials)
        if name not in {sweep, *state.by_name, *numbers}:
            continue
        trial, snapshot = state.spec.trial, ("workspace", "snapshot")
        digest = sweep_workspace.digest_of(trial.values)
        code = CodeRecord(
            workload="sweep" if name == sweep else trial.workload,
            command=tuple(map(str, trial.values.get("command") or ())),
            digest=digest,
            archive_digest=text(trial.values, *snapshot, "archiveDigest"),
            commit=text(trial.values, *snapshot, "commit"),
            branch=text(trial.values, *snapshot, "branch"),
            is_dirty=at(trial.values, *snapshot, "dirty") is True,
            via=_LOCAL if digest else "",
            compression=text(trial.values, *snapshot, "compression"),
        )
        return code, sweep_workspace.stored_parts(digest, namespace) if digest else []
    return None


def _cluster_objects(name: str, cluster_target: ClusterTarget) -> tuple[Sequence[Manifest], bool]:
    """The controllers of a run; as helm recorded them where they have ended and were removed.

    Returns:
        The controllers, and whether they are there.

    Raises:
        NotFoundError: there is no such run.
    """
    from allranks.cluster import scale
    from allranks.helm import releases

    cluster, namespace = cluster_target.cluster, cluster_target.namespace
    try:
        run = scale.controllers(cluster, name, namespace)
    except NotFoundError:
        release = releases.find(cluster_target.home(name))
        if release is None or not release.ours:
            raise
        return release.manifests, False
    return run.objects, True
