"""Real helms with our post-renderer: Helm 3 by the executable, Helm 4 by the plugin."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
PLUGIN = ROOT / "plugins" / "helm4" / "allranks-postrender"
PROGRAM = Path(sysconfig.get_path("scripts")) / "allranks-postrender"
HELM_3 = 3
# A post-renderer that changes nothing: what Helm itself does to a stream, and no more.
UNCHANGED = """\
apiVersion: v1
type: postrenderer/v1
name: pass-through
version: 1.0.0
runtime: subprocess
runtimeConfig:
  platformCommand:
    - command: cat
"""


@dataclass(frozen=True, slots=True)
class Helm:
    """One helm, with a home and a plugin folder of its own.

    Attributes:
        path: the binary.
        major: 3 or 4.
        plugins: its plugin folder.
        env: further environment of each run.
    """

    path: Path
    major: int
    plugins: Path
    env: dict[str, str] = field(default_factory=dict)

    @property
    def renderer(self) -> str:
        """What names our post-renderer after --post-renderer."""
        return str(PROGRAM) if self.major == HELM_3 else "allranks-postrender"

    def run(self, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Run helm, and return whatever comes of it."""
        environment = {**os.environ, **self.env, **env}
        return subprocess.run(
            [self.path, *arguments],
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="surrogateescape",
            env=environment,
            check=False,
            timeout=100,
        )

    def post_rendered(
        self, chart: Path, *options: str, values: tuple[str, ...] = (), **env: str
    ) -> subprocess.CompletedProcess[str]:
        """`helm template` with our post-renderer and its options."""
        arguments = [text for option in options for text in ("--post-renderer-args", option)]
        sets = [text for value in values for text in ("--set-json", value)]
        return self.run(
            "template", "demo", str(chart), "--namespace=lab", *arguments, *sets,
            "--post-renderer", self.renderer, **env,
        )  # fmt: skip

    def passed_through(self, chart: Path, *values: str) -> str:
        """`helm template` with a post-renderer that changes nothing."""
        sets = [text for value in values for text in ("--set-json", value)]
        name = "cat" if self.major == HELM_3 else "pass-through"
        process = self.run(
            "template", "demo", str(chart), "--namespace=lab", "--post-renderer", name, *sets
        )
        assert 0 == process.returncode, process.stderr
        return process.stdout


@pytest.fixture(scope="session")
def helm(helm: Any, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """Each helm of the whole suite, with our plugin in place for Helm 4."""
    folder = tmp_path_factory.mktemp("helm")
    plugins = folder / "plugins"
    plugins.mkdir()
    if helm.major > HELM_3:
        installed = plugins / "allranks-postrender"
        shutil.copytree(PLUGIN, installed)
        (installed / "python").write_text(f"{sys.executable}\n")
        (plugins / "pass-through").mkdir()
        (plugins / "pass-through" / "plugin.yaml").write_text(UNCHANGED)
    home = {f"HELM_{part}_HOME": str(folder / part.lower()) for part in ("CACHE", "CONFIG", "DATA")}
    return Helm(helm.path, helm.major, plugins, {**home, "HELM_PLUGINS": str(plugins)})


@pytest.fixture
def foreign() -> Path:
    """A chart that knows nothing of us."""
    return ROOT / "tests" / "data" / "charts" / "foreign"


@pytest.fixture(scope="session")
def plugin() -> Path:
    """The source of our Helm 4 plugin."""
    return PLUGIN


@pytest.fixture(scope="session")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python that works and has no allranks."""
    folder = tmp_path_factory.mktemp("venv")
    venv.create(folder, with_pip=False)
    return folder / "bin" / "python"
