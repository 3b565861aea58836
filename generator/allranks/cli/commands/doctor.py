"""`allranks doctor`: check this machine, and name the fix for each problem.

A check fails only if rendering or a local run would not work. Checks for clusters (a cluster,
kubectl, the plugin) only warn: a laptop without a cluster is healthy.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

import allranks
from allranks import names, resources
from allranks.cli import options
from allranks.cli.commands.plugin import display_path
from allranks.cli.target import Target, cluster_options
from allranks.cluster.client import KubeCluster
from allranks.errors import EXIT_FAILED, AllranksError, unwritable
from allranks.helm import binary as helm_binary
from allranks.helm import plugins
from allranks.local.state import store

if TYPE_CHECKING:
    from allranks.cli.console import Console

OLDEST_PYTHON = (3, 11)
_SECONDS = 4.0
_PROBE_BYTES = 64 * 1024  # more than the record of a run needs


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the list: `status` is ok, warn or fail."""

    name: str
    status: str
    detail: str
    fix: str = ""


@click.command("doctor", short_help="Check helm, kubectl, plugin, cluster and Python.")
@options.helm_option
@cluster_options
@options.output_option("text", "json")
@options.pass_console
@click.pass_context
def doctor_command(
    ctx: click.Context,
    console: Console,
    *,
    helm: str | None,
    context: str,
    kubeconfig: str,
    namespace: str,
    output: str,
) -> None:
    """Check what allranks needs on this machine, and say what to do.

    `fail` is what rendering and local runs need, and makes the exit code 1. `warn` is what only a
    cluster needs.

    \b
    Example:
      allranks doctor -n research
    """
    checks = examine(helm, Target("", namespace, context, kubeconfig))
    failed = any(check.status == "fail" for check in checks)
    if output == "json":
        console.json({"ok": not failed, "checks": [asdict(check) for check in checks]})
    else:
        width = max(len(check.name) for check in checks)
        for check in checks:
            console.check(check.status, check.name, check.detail, check.fix, width)
    ctx.exit(EXIT_FAILED if failed else 0)


def examine(helm: str | None, target: Target) -> list[Check]:
    """Return every check, in the order of fixing them."""
    checks = [_python(), _files()]
    try:
        binary = helm_binary.find(helm)
    except AllranksError as error:
        problem = error.problem
        checks.append(Check("helm", "fail", problem.message, problem.hint))
    else:
        checks.append(Check("helm", "ok", f"{binary.version} ({binary.path})"))
        checks.append(_postrenderer(binary))
    checks += [_torchrun(), _state()]
    return [*checks, _kubectl(), *_cluster(target)]


def _python() -> Check:
    message = f"{platform.python_version()} ({sys.executable}), allranks {allranks.__version__}"
    if sys.version_info < OLDEST_PYTHON:  # pragma: no cover - pip refuses to install there
        return Check("python", "fail", message, "use Python 3.11 or newer")
    return Check("python", "ok", message)


def _files() -> Check:
    try:
        charts = resources.folder("charts")
        missing = [name for name in names.WORKLOADS if not (charts / name / "Chart.yaml").is_file()]
    except AllranksError as error:
        return Check("charts", "fail", error.problem.message, error.problem.hint)
    if missing:
        return Check("charts", "fail", f"no chart {', '.join(missing)} in {charts}", "reinstall")
    return Check("charts", "ok", f"{', '.join(names.WORKLOADS)} ({charts})")


def _postrenderer(binary: helm_binary.HelmBinary) -> Check:
    name = "post-renderer"
    try:
        program = plugins.executable()
        has_plugins = binary.major >= plugins.HELM_WITH_PLUGINS
        installed = plugins.list_installed(binary) if has_plugins else ()
    except AllranksError as error:
        return Check(name, "warn", error.problem.message, error.problem.hint)
    if not has_plugins:
        message = (
            f"Helm {binary.major} takes the executable: --post-renderer {display_path(program)}"
        )
        return Check(name, "ok", message)
    matches = [plugin for plugin in installed if plugin.name == names.POSTRENDER]
    if not matches:
        return Check(name, "warn", "not installed for this helm", "allranks plugin install")
    plugin = matches[0]
    if not plugin.works:
        message = f"the plugin starts {plugin.interpreter or 'no Python'}, which is not there"
        return Check(name, "warn", message, "allranks plugin install")
    if plugin.interpreter != sys.executable:
        message = f"the plugin starts another Python: {plugin.interpreter}"
        return Check(name, "warn", message, "allranks plugin install, to use this one")
    return Check(name, "ok", f"plugin {plugin.version} ({plugin.path})")


def _torchrun() -> Check:
    beside = Path(sys.executable).parent
    executable = shutil.which("torchrun", path=f"{beside}{os.pathsep}{os.environ.get('PATH', '')}")
    if executable is None:
        return Check(
            "torchrun",
            "warn",
            "not on PATH: local runs of torchrun jobs will not start",
            "pip install torch, in this Python or in one that is on PATH",
        )
    return Check("torchrun", "ok", executable)


def _state() -> Check:
    try:
        path = store.root()
    except AllranksError as error:
        return Check("state folder", "fail", error.problem.message, error.problem.hint)
    existing = path
    while not existing.exists() and existing != existing.parent:
        existing = existing.parent
    try:
        with tempfile.TemporaryFile(dir=existing) as probe:
            probe.write(bytes(_PROBE_BYTES))  # a full disk still takes the name of a file
            probe.flush()
    except OSError as error:
        return Check(
            "state folder",
            "fail",
            f"{path}: {error.strerror or error}",
            unwritable(
                error.errno,
                str(existing),
                f"set {names.ENV_STATE} to a folder that can be written to",
            ),
        )
    return Check("state folder", "ok", str(path))


def _kubectl() -> Check:
    executable = shutil.which("kubectl")
    if executable is None:
        message = "not on PATH; `allranks render … | kubectl apply -f -` needs it"
        return Check("kubectl", "warn", message, "install kubectl")
    try:
        process = subprocess.run(  # noqa: S603 - kubectl from PATH, our own words
            [executable, "version", "--client", "-o", "json"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=_SECONDS,
        )
        version = json.loads(process.stdout)["clientVersion"]["gitVersion"]
    except (OSError, ValueError, LookupError, TypeError, subprocess.TimeoutExpired):
        message = f"{executable} does not say its version"
        return Check("kubectl", "warn", message, "reinstall kubectl")
    return Check("kubectl", "ok", f"{version} ({executable})")


def _cluster(target: Target) -> list[Check]:
    cluster = KubeCluster(target.kubeconfig or None, target.context or None, timeout=_SECONDS)
    try:
        namespace = target.namespace or cluster.namespace
        version = cluster.version()
        checks = [Check("cluster", "ok", f"Kubernetes {version}, {cluster.where}")]
    except AllranksError as error:
        return [Check("cluster", "warn", error.problem.message, error.problem.hint)]
    try:
        allowed = cluster.may("create", "jobs", group="batch", namespace=namespace)
    except AllranksError as error:
        return [*checks, Check("rights", "warn", error.problem.message, error.problem.hint)]
    if allowed:
        return [*checks, Check("rights", "ok", f"may create jobs in namespace {namespace}")]
    message = f"may not create jobs in namespace {namespace}"
    return [
        *checks,
        Check("rights", "warn", message, "ask for it, or pass another namespace with -n"),
    ]
