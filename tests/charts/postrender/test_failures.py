"""A failing post-renderer: its message reaches the person, on both majors."""

from __future__ import annotations

import os
import shutil
import sysconfig
from typing import TYPE_CHECKING

import pytest

from allranks import __version__
from allranks.yamlio.load import load

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Helm

HELM_3 = 3
MESSAGE = "Kueue needs a queue"


def test_the_message_is_seen_once(helm: Helm, foreign: Path) -> None:
    """Helm 3 shows stderr itself; Helm 4 swallows it, and is told through its own."""
    process = helm.post_rendered(foreign, "--dialect=kueue")

    assert 0 != process.returncode
    assert 1 == process.stderr.count(MESSAGE)
    assert "fix: name a LocalQueue" in process.stderr
    assert "Traceback" not in process.stderr
    assert MESSAGE not in process.stdout


def test_a_wrong_option_is_seen(helm: Helm, foreign: Path) -> None:
    """Options are refused before any manifest is read."""
    process = helm.post_rendered(foreign, "--dialekt=kueue")

    assert "unrecognized arguments: --dialekt=kueue" in process.stderr


def test_the_message_is_in_the_report(helm: Helm, foreign: Path, tmp_path: Path) -> None:
    """Named by an option or by the environment."""
    by_option, by_environment = tmp_path / "option", tmp_path / "environment"
    helm.post_rendered(foreign, "--dialect=kueue", f"--report={by_option}")
    helm.post_rendered(foreign, "--dialect=kueue", ALLRANKS_REPORT=str(by_environment))

    assert MESSAGE in by_option.read_text()
    assert MESSAGE in by_environment.read_text()


def plugin_with(python: str, helm: Helm, path: Path) -> dict[str, str]:
    """The environment of a Helm 4 whose plugin has another Python recorded; of Helm 3, nothing."""
    plugins = path / "plugins"
    shutil.copytree(helm.plugins, plugins)
    if helm.major > HELM_3:
        (plugins / "allranks-postrender" / "python").write_text(f"{python}\n")
    return {"HELM_PLUGINS": str(plugins)}


@pytest.mark.parametrize("python", ["", "/no/such/python", "bare"])
def test_the_program_on_path_is_found(
    helm: Helm, bare_python: Path, foreign: Path, tmp_path: Path, python: str
) -> None:
    """By its name: with Helm 3, and by the plugin whose Python is gone or has lost allranks."""
    env = plugin_with(str(bare_python) if python == "bare" else python, helm, tmp_path)
    path = f"{sysconfig.get_path('scripts')}{os.pathsep}{os.environ['PATH']}"
    process = helm.run(
        "template", "demo", str(foreign), "--post-renderer", "allranks-postrender",
        "--post-renderer-args", "--dialect=kai", PATH=path, **env,
    )  # fmt: skip

    assert 0 == process.returncode, process.stderr
    assert "kai-scheduler" in process.stdout


@pytest.mark.parametrize("python", ["", "/no/such/python", "bare"])
def test_no_python_at_all_is_said(
    helm: Helm, bare_python: Path, foreign: Path, tmp_path: Path, python: str
) -> None:
    """With the way out, through Helm 4 as well; Helm 3 says itself that there is no program."""
    env = plugin_with(str(bare_python) if python == "bare" else python, helm, tmp_path)
    report = tmp_path / "report"
    process = helm.run(
        "template", "demo", str(foreign), "--post-renderer", "allranks-postrender",
        PATH="/usr/bin:/bin", ALLRANKS_REPORT=str(report), **env,
    )  # fmt: skip

    assert 0 != process.returncode
    if helm.major > HELM_3:
        assert "no Python with allranks was found" in process.stderr
        assert "allranks plugin install" in report.read_text()
    else:
        assert "allranks-postrender" in process.stderr


def test_the_plugin_has_our_version(plugin: Path) -> None:
    """Helm shows the plugin's version; it must be the program's."""
    about = load((plugin / "plugin.yaml").read_text(), "plugin.yaml").data

    assert __version__ == about["version"]
    assert "allranks-postrender" == about["name"]
