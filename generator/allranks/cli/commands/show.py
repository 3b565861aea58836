"""`allranks show`: the code that a run runs, as it was sent, and what is recorded of it."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from allranks import names
from allranks.cli import options
from allranks.cli.target import run_argument, target_options
from allranks.errors import InputError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allranks.cli.console import Console
    from allranks.cli.target import ClusterTarget, Target
    from allranks.k8s.manifest import Manifest
    from allranks.workspace.model import Archive
    from allranks.workspace.record import CodeRecord


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
@click.option("--diff", is_flag=True, help="Print how the code differs from its commit.")
@options.output_option("text", "json")
@options.pass_console
def show_command(
    console: Console, *, name: str, target: Target, code: str | None, diff: bool, output: str
) -> None:
    """Show what run NAME runs: the command, the digest of its code, and the commit.

    With --code the code itself is written into a folder, from the cluster or from the run of this
    machine: what was sent when the run was started, whatever has been edited since.

    \b
    Example:
      allranks show train-3f2a
      allranks show train-3f2a --code what-ran
      allranks show train-3f2a --diff | git apply
    """
    from allranks.workspace import record

    if code == "":
        raise InputError("is empty", path="--code", hint="name a folder")
    cluster_target = target.cluster_target(console)
    if cluster_target is None:
        objects: Sequence[Manifest] = _local_objects(name, target)
        parts = _parts_among(objects)
        namespace = target.local_namespace
    else:
        objects = _cluster_objects(name, cluster_target)
        namespace = cluster_target.namespace
        parts = None
    code_record = record.of_objects(objects)
    archive: Archive | None = None
    kept: dict[str, Any] = {}
    if code_record.digest and (code or diff or output == "json"):
        try:
            archive, kept = _read(code_record, cluster_target, parts)
        except NotFoundError:
            if code or diff:
                raise
    elif code or diff:
        raise InputError(
            f"run {name!r} was started without a workspace: its code is in the image "
            f"{code_record.image or 'that it runs'}",
            path="--code" if code else "--diff",
            hint=f"`{names.CLI} submit` and `{names.CLI} run --workspace` send a folder along",
        )
    # Two runs of one digest share what was sent; the difference is to the commit of the first.
    same_commit = kept.get("commit", "") == code_record.commit or not code_record.commit
    difference = str(kept.get("diff") or "") if same_commit else ""
    if diff:
        console.raw(difference)
        if not difference:
            console.note(_no_difference(code_record, same_commit=same_commit))
        return
    if code:
        assert archive is not None  # noqa: S101 - it was read, or refused
        _write(archive, Path(code))
    if output == "json":
        data = asdict(code_record) | {"diff": difference, "isKept": archive is not None}
        console.json({"name": name, "namespace": namespace, **data, "code": code or ""})
        return
    if code:
        console.text(f"{code}: the code of {name}, {_short(code_record.digest)}")
    else:
        _show(console, name, namespace, code_record)


def _show(console: Console, name: str, namespace: str, code: CodeRecord) -> None:
    console.text(f"{name}  {code.workload or 'a run'} in namespace {namespace}")
    differs = ", and the code differs from it" if code.is_dirty else ""
    branch = f" on {code.branch}" if code.branch else ""
    lines = {
        "command": shlex.join(code.command) or "the script of its values",
        "image": code.image,
        "code": code.digest or "in the image",
        "commit": f"{code.commit}{branch}{differs}" if code.commit else "",
        "way": f"{code.via}: {', '.join(code.parts)}" if code.via else "",
        **code.queue,
    }
    for key, text in lines.items():
        if text:
            console.text(f"  {key:<9} {text}")
    if code.digest:
        console.command(f"{names.CLI} show {name} --code DIR")


def _no_difference(code: CodeRecord, *, same_commit: bool) -> str:
    if not code.commit:
        return "the code was sent from outside of git: there is no commit to compare it with"
    if not code.is_dirty:
        return f"the code is that of commit {code.commit}"
    if not same_commit:
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


def _read(
    code: CodeRecord, cluster_target: ClusterTarget | None, parts: Sequence[Manifest] | None
) -> tuple[Archive, dict[str, Any]]:
    from allranks.workspace import objects, transport

    if code.via not in {"", "configMap"}:
        raise InputError(
            f"the code was sent by {code.via}: {', '.join(code.parts)}",
            hint="fetch it from there; this command reads ConfigMaps",
        )
    if cluster_target is not None:
        parts = transport.find(cluster_target.cluster, cluster_target.namespace, code.digest)
    return objects.read(list(parts or ()))


def _local_objects(name: str, target: Target) -> Sequence[Manifest]:
    from allranks.local import runs as local_runs

    return local_runs.manifests(name, target.local_namespace)


def _parts_among(objects: Sequence[Manifest]) -> list[Manifest]:
    return [
        manifest
        for manifest in objects
        if manifest.get("kind") == "ConfigMap"
        and names.WORKSPACE in (manifest["metadata"].get("labels") or {})
    ]


def _cluster_objects(name: str, cluster_target: ClusterTarget) -> Sequence[Manifest]:
    """The controllers of a run; as helm recorded them where they have ended and were removed.

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
        return release.manifests
    kinds = (
        ("Job", run.jobs),
        ("StatefulSet", run.stateful_sets),
        (names.ELASTIC_JOB, run.elastic_jobs),
    )
    # A list of the API server does not repeat the kind in each of its items.
    return [{**item, "kind": kind} for kind, items in kinds for item in items]
