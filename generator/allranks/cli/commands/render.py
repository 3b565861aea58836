"""`allranks render`: write the final manifests, byte-identical for identical input."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from allranks import names
from allranks.cli import files, options
from allranks.cli.workspace import workspace_options
from allranks.errors import InputError
from allranks.helm import binary as helm_binary
from allranks.service import prepare, render
from allranks.values import gitops
from allranks.yamlio import dump

if TYPE_CHECKING:
    from allranks.cli.console import Console
    from allranks.cli.workspace import WorkspaceFlags
    from allranks.values.sources import Sources


@click.command("render", short_help="Write the final Kubernetes manifests.")
@options.release_argument
@options.values_options
@workspace_options()
@options.namespace_option
@options.inventory_options
@options.helm_option
@click.option(
    "-o",
    "--output",
    default="-",
    show_default=True,
    metavar="DIR|-",
    help="A folder, for one file per object, or '-' for standard output.",
)
@options.queue_options
@options.pass_console
def render_command(
    console: Console,
    *,
    name: str,
    sources: Sources,
    workspace: WorkspaceFlags,
    namespace: str,
    inventory: str | None,
    nodes_from_cluster: bool,
    context: str,
    helm: str | None,
    output: str,
) -> None:
    """Write the manifests of release NAME, as they would be applied.

    Helm renders the chart and the post-renderer finishes it; identical input gives identical
    bytes, with helm 3 and helm 4. In a folder each object gets a file of its own. Files there that
    are not ours are never touched; ours that are no longer rendered are removed. No private key is
    among them: an MPI job names a Secret instead, and a note says how to make it.

    With --workspace the snapshot of the folder comes first, in ConfigMaps of its own.

    \b
    Example:
      allranks render demo -f values.yaml | kubectl apply -f -
      allranks render demo -f values.yaml -n research -o out/demo
    """
    if not output:
        raise InputError("is empty", path="--output", hint="name a folder, or leave it out")
    fit = prepare.FitTarget(inventory or "", nodes_from_cluster, context)
    prepared = prepare.prepare(sources, release=name, namespace=namespace, fit=fit)
    binary = helm_binary.find(helm)
    loaded = prepared.loaded
    values = gitops.without_private_key(loaded.values, loaded.user, name, namespace)
    packed = workspace.pack(loaded.values, where=loaded.where, console=console)
    if packed is not None:
        if packed.report.way.place:
            raise InputError(
                f"manifests hold no code that goes by {packed.report.way.via}, and this command "
                "sends nothing",
                path="--workspace",
                hint=f"`{names.CLI} submit` sends it; or leave files out until they fit into "
                "ConfigMaps",
            )
        prepared = packed.into(prepared)
    text = render.manifests(prepared, binary, name, namespace, values.values)
    if packed is not None:
        parts = packed.transport.manifests(namespace)
        text = "".join(f"---\n{dump.dump(part)}" for part in parts) + text
    for note in (*prepared.notes, *values.notes):
        console.note(note)
    if output == "-":
        console.raw(text)
        return
    changes = files.write_folder(Path(output), f"{namespace}/{name}", text)
    console.text(
        f"{output}: {len(changes.written)} written, {len(changes.same)} unchanged, "
        f"{len(changes.removed)} removed"
    )
    for file in changes.written:
        console.text(f"  {file}")
    for file in changes.removed:
        console.text(f"  {file} (removed)")
