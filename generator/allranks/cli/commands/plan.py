"""`allranks plan`: the layout as a table, as JSON, or as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from allranks.cli import files, options
from allranks.cli.console import facts
from allranks.humanize import plural
from allranks.layout import render
from allranks.service import prepare

if TYPE_CHECKING:
    from allranks.cli.console import Console
    from allranks.model.layout import Layout
    from allranks.values.sources import Sources

_ROWS = 40


@click.command("plan", short_help="Show the node layout that the values give.")
@click.argument("name", required=False, default="")
@options.values_options
@options.inventory_options
@options.output_option("table", "json", "svg")
@click.option(
    "-O",
    "--output-file",
    metavar="FILE",
    type=click.Path(),
    help="Write there; '-' is standard output, as is no -O.",
)
@options.queue_options
@options.pass_console
def plan_command(
    console: Console,
    *,
    name: str,
    sources: Sources,
    inventory: str | None,
    nodes_from_cluster: bool,
    context: str,
    output: str,
    output_file: str | None,
) -> None:
    """Show how many pods the job has, what each gets, and where each would run.

    Without an inventory the layout is what the values say. With one, the job is fitted to the free
    nodes: the fewest nodes, in the smallest topology domain; what does not fit is refused, with
    the largest that would. Where a job has several roles, a table of its own counts their pods.

    \b
    Example:
      allranks plan -f values.yaml
      allranks plan -f values.yaml --inventory nodes.yaml -o svg -O plan.svg
    """
    if output_file:
        files.refuse_inputs([Path(output_file)], (*sources.files, *filter(None, [inventory])))
    fit = prepare.FitTarget(inventory or "", nodes_from_cluster, context)
    prepared = prepare.prepare(sources, release=name, fit=fit, by_helm=False)
    layout = prepared.layout
    if output == "svg":
        title = name or prepare.command(prepared.loaded.values)
        text = render.svg(layout, prepared.inventory, title)
        if output_file:
            files.write(Path(output_file), text)
        else:
            console.raw(text if text.endswith("\n") else text + "\n")
        return
    if output_file:
        with files.stdout_to(Path(output_file)):
            _show(console, prepared, layout, output)
        return
    _show(console, prepared, layout, output)


def _show(console: Console, prepared: prepare.PreparedJob, layout: Layout, output: str) -> None:
    if output == "json":
        trials = prepared.trials.as_dict() if prepared.trials is not None else {}
        job = prepare.trial_values(prepared)
        blocks = {"preflight": prepare.preflight(job), "lighthouse": prepare.lighthouse(job)}
        of_torchrun = {key: value for key, value in blocks.items() if value}
        console.json({**layout.as_dict(), **of_torchrun, **trials})
        return
    console.text(facts(_head(prepared)))
    rows = render.rows(layout)
    if prepare.lighthouse(prepare.trial_values(prepared)):
        rows = [{**row, "ranks": rows[0]["ranks"]} for row in rows]
    for some in (render.role_rows(layout), rows[:_ROWS]):
        if some:
            console.text("")
            console.table(
                [column.upper() for column in some[0]], [list(row.values()) for row in some]
            )
    if len(rows) > _ROWS:
        console.text(f"… {len(rows) - _ROWS} more; -o json shows all")
    for note in prepared.notes:
        console.note(note)


def _head(prepared: prepare.PreparedJob) -> dict[str, str]:
    layout = prepared.layout
    job = prepare.trial_values(prepared)
    nodes = str(layout.nodes)
    lighthouse = prepare.lighthouse(job)
    if lighthouse:
        nodes += f", each a replica group of torchft; at least {layout.min_nodes} must remain"
    elif layout.max_nodes > layout.min_nodes:
        nodes += f" (elastic, {layout.min_nodes} to {layout.max_nodes})"
    if layout.spares:
        nodes += f", and {plural(layout.spares, 'spare')} of the same size"
    head = {
        "job": f"{prepared.loaded.workload}: {prepare.command(prepared.loaded.values)}",
        "nodes": nodes,
        "processes": _amount(layout.procs_per_node, layout.last_procs_per_node, layout.world_size),
    }
    if layout.started:
        head["processes"] = (
            f"{layout.started} in all (mpi.np), on {plural(layout.world_size, 'slot')}"
        )
    if prepared.trials is not None:
        head = {"sweep": f"{prepared.trials}; each of them has:", **head}
    if layout.gpus_per_node:
        head["gpus"] = _amount(layout.gpus_per_node, layout.last_gpus_per_node, layout.gpus)
        head["gpus"] += f" ({layout.gpu_resource})"
    share = {"cpu": layout.share.cpu, "memory": layout.share.memory, "shm": layout.share.shm}
    if any(share.values()):
        head["per pod"] = ", ".join(f"{name} {text}" for name, text in share.items() if text)
    if layout.placement is not None:
        where = ", ".join(layout.placement.values)
        head["placement"] = f"{layout.placement.mode}: {layout.placement.key} in {where}"
    if lighthouse:
        head["lighthouse"] = lighthouse
    if words := prepare.preflight_words(job, layout.nodes + layout.spares):
        head["preflight"] = words
    return head


def _amount(per_node: int, last: int, total: int) -> str:
    on_the_last = f" ({last} on the last)" if last else ""
    return f"{per_node} per node{on_the_last}, {total} in all"
