"""`allranks plugin`: install our post-renderer and `helm sweep` into helm."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import click
from click.shell_completion import get_completion_class

from allranks import names
from allranks.cli import main, options
from allranks.helm import binary as helm_binary
from allranks.helm import plugins

if TYPE_CHECKING:
    from pathlib import Path

    from allranks.cli.console import Console


@click.group(
    "plugin",
    short_help="Give helm the post-renderer and `helm sweep`.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
def plugin_command() -> None:
    """Give helm our post-renderer, which scheduling, topology and RDMA settings need, and sweeps.

    \b
    Example:
      allranks plugin install
      helm sweep rates charts/torchrun -f values.yaml --set-range lr=1e-5,1e-4
      helm install demo charts/torchrun -f values.yaml --post-renderer allranks-postrender
    """


@plugin_command.command("install")
@options.helm_option
@options.pass_console
def install_command(console: Console, helm: str | None) -> None:
    """Install the post-renderer and `helm sweep` for the helm on PATH, replacing older ones.

    Helm 4 gets two plugins. Helm 3 takes an executable for the post-renderer, so that one plugin is
    installed and the path of the executable is shown.

    \b
    Example:
      allranks plugin install
      allranks plugin install --helm ~/bin/helm4
    """
    binary = helm_binary.find(helm)
    sweep = plugins.install(binary, names.SWEEP_PLUGIN)
    console.text(f"installed helm {names.SWEEP_PLUGIN} for Helm {binary.version}: {sweep}")
    console.text(
        f"use: helm {names.SWEEP_PLUGIN} NAME CHART -f values.yaml --set-range lr=1e-5,1e-4"
    )
    path = plugins.install(binary)
    if binary.major < plugins.HELM_WITH_PLUGINS:
        console.text(f"Helm {binary.version} takes an executable as its post-renderer")
        console.text(f"use: helm install NAME CHART --post-renderer {display_path(path)}")
        return
    version = plugins.list_installed(binary)[0].version
    console.text(f"installed {names.POSTRENDER} {version} for Helm {binary.version}: {path}")
    console.text(f"use: helm install NAME CHART --post-renderer {names.POSTRENDER}")
    if not os.environ.get("HELM_PLUGINS"):
        console.note(
            "a Helm 3 that shares this folder warns that it cannot load the plugins; "
            "where you use both, set HELM_PLUGINS for one of them"
        )


@plugin_command.command("list")
@options.helm_option
@options.output_option("table", "json")
@options.pass_console
def list_command(console: Console, helm: str | None, output: str) -> None:
    """Show what is installed for the helm on PATH.

    \b
    Example:
      allranks plugin list -o json
    """
    plugin_list = plugins.list_installed(helm_binary.find(helm))
    if output == "json":
        console.json(
            [
                {
                    "name": plugin.name,
                    "version": plugin.version,
                    "path": str(plugin.path),
                    "interpreter": plugin.interpreter,
                    "works": plugin.works,
                }
                for plugin in plugin_list
            ]
        )
        return
    if not plugin_list:
        console.note("no plugin of ours is installed for this helm")
        return
    console.table(
        ["NAME", "VERSION", "WORKS", "PATH"],
        [
            (plugin.name, plugin.version, "yes" if plugin.works else "no", plugin.path)
            for plugin in plugin_list
        ],
        wrap="PATH",
    )


@plugin_command.command("uninstall")
@options.helm_option
@options.pass_console
def uninstall_command(console: Console, helm: str | None) -> None:
    """Remove our plugins from the helm on PATH.

    \b
    Example:
      allranks plugin uninstall
    """
    removed = plugins.uninstall(helm_binary.find(helm))
    for path in removed:
        console.text(f"removed {path}")
    if not removed:
        console.text("nothing to remove")


def display_path(path: Path) -> str:
    """Return a program's name if PATH finds this very file, else its path."""
    on_path = shutil.which(path.name)
    return path.name if on_path and os.path.samefile(on_path, path) else str(path)  # noqa: PTH121


@click.command("completion", short_help="Print a completion script for your shell.")
@click.argument("shell", metavar="SHELL", type=click.Choice(["bash", "zsh", "fish"]))
@options.pass_console
def completion_command(console: Console, shell: str) -> None:
    """Print the script that makes SHELL complete allranks.

    \b
    Example:
      allranks completion bash > ~/.local/share/bash-completion/completions/allranks
      allranks completion zsh  > ~/.zfunc/_allranks      (~/.zfunc on $fpath)
      allranks completion fish > ~/.config/fish/completions/allranks.fish
    """
    kind = get_completion_class(shell)
    if kind is None:  # pragma: no cover - the choices are click's own three
        raise AssertionError(shell)
    console.text(kind(main.cli, {}, names.CLI, main.COMPLETE_VARIABLE).source())
