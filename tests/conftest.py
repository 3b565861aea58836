"""What every tier shares: the repository, and both majors of helm as they really are.

A missing helm fails the tests that need one; nothing is skipped, because a skipped check is a check
that nobody makes.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest
from _pytest.nodeid import NodeId
from hypothesis import settings

from allranks.yamlio.load import load_all
from tests import template_server

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allranks.k8s.manifest import Manifest

REPO = Path(__file__).parents[1]

# No example is judged by its time: the machine may be busy. CI looks at the same examples each
# time, so that a run that fails there fails anywhere; elsewhere each run looks at new ones.
settings.register_profile("allranks", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("allranks")

# What a person has set for themselves would change what the programs print and where they look.
_TEST_VARIABLES = ("ALLRANKS_TEST_", "ALLRANKS_TIER_LOG", "ALLRANKS_KUBE_RUNS")
_PERSONAL = ("ALLRANKS_", "HELM_", "XDG_", "KUBECONFIG", "KUBERNETES_", "NO_COLOR", "FORCE_COLOR")
for _name in list(os.environ):
    if _name.startswith((*_PERSONAL, "COLUMNS", "LINES", "TERM")) and not _name.startswith(
        _TEST_VARIABLES
    ):
        del os.environ[_name]

# Where no program keeps what it has compiled, each of hundreds compiles all of ours once more: half
# of what a supervisor costs.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A shell that runs a command in the background has it ignore Ctrl-C, and so all its children; tests
# that press it would then wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark what is tried by somebody who means harm: `make attack` runs these alone.

    All of a file that is called so are attacks; other tests carry the mark themselves.
    """
    if item.path.name.startswith(("test_attacks", "test_hostile")):
        item.add_marker(pytest.mark.attack)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep tests of one `xdist_group` on one worker.

    xdist 3.8 writes the group into a field that pytest 9.2 has no more, and so forgets it in
    silence (pytest-xdist issue 1386). The name after the "@" is what its scheduler reads.
    """
    if not config.getoption("loadgroup", default=False):
        return
    for item in items:
        group = item.get_closest_marker("xdist_group")
        if group is not None and not item.nodeid.endswith(f"@{group.args[0]}"):
            item._id = NodeId.parse(f"{item.nodeid}@{group.args[0]}")


@dataclass(frozen=True, slots=True)
class Helm:
    """One helm binary.

    Attributes:
        major: 3 or 4.
        path: the binary.
        server: the program that renders in its place; None where each render is the binary's own.
    """

    major: int
    path: Path
    server: Path | None = None

    def run(
        self, *args: str | Path, stdin: str = "", check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run helm, apart from the user's own settings and plugins.

        Args:
            args: the command line.
            stdin: what it reads.
            check: fail the test, with helm's own words, where helm fails.
        """
        process = None
        if self.server is not None and args[0] == "template":
            process = template_server.server(self.server).run([*map(str, args[1:])], stdin)
        if process is None:
            process = self._start(*args, stdin=stdin)
        if check and process.returncode:
            pytest.fail(f"helm {' '.join(map(str, args))} failed:\n{process.stderr}", pytrace=False)
        return process

    def _start(self, *args: str | Path, stdin: str) -> subprocess.CompletedProcess[str]:
        env = {name: value for name, value in os.environ.items() if not name.startswith("HELM_")}
        env["HELM_PLUGINS"] = os.devnull
        # A helm lives for a moment: a third of it would go into collecting garbage.
        env |= {"GOGC": "off", "GOMEMLIMIT": "1GiB"}
        return subprocess.run(
            [self.path, *map(str, args)],
            input=stdin,
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )

    def render(
        self,
        chart: Path,
        *args: str | Path,
        values: Mapping[str, Any] | None = None,
        name: str = "demo",
    ) -> str:
        """The text of ``helm template``.

        Args:
            chart: the chart's folder or archive.
            args: further options.
            values: given last, exactly, as JSON on standard input.
            name: the release.
        """
        flags = [] if values is None else ["--values", "-"]
        stdin = "" if values is None else exact(values)
        return self.run("template", name, chart, *args, *flags, stdin=stdin).stdout

    def refusal(
        self, chart: Path, *args: str | Path, values: Mapping[str, Any], name: str = "demo"
    ) -> str:
        """What helm says when it refuses to render; fails the test where it renders."""
        process = self.run(
            *("template", name, chart, *args, "--values", "-"),
            stdin=exact(values),
            check=False,
        )
        if process.returncode == 0:
            pytest.fail(f"helm rendered what it should refuse: {values}", pytrace=False)
        return process.stderr


def exact(values: object) -> str:
    """JSON that is the same value as YAML, which has no surrogate pairs but eight digits."""

    def pair(match: re.Match[str]) -> str:
        if match[1] is None:
            return match[0]
        return f"\\U{ord(json.loads(chr(34) + match[0] + chr(34))):08x}"

    surrogates = r"\\\\|(\\ud[89ab][0-9a-f]{2})\\ud[c-f][0-9a-f]{2}"
    return re.sub(surrogates, pair, json.dumps(values))


class Template(Protocol):
    """Renders a chart into manifests."""

    def __call__(
        self,
        chart: Path,
        *args: str | Path,
        values: Mapping[str, Any] | None = None,
        name: str = "demo",
    ) -> list[Manifest]:
        """The manifests of ``helm template``, in its order."""


def _binary(major: int) -> Path:
    override = os.environ.get(f"ALLRANKS_TEST_HELM{major}")
    if override:
        return Path(override)
    pins = (REPO / f"tools/helm{major}/go.mod").read_text(encoding="utf-8")
    version = re.search(rf"helm\.sh/helm/v{major} (\S+)", pins)
    assert version is not None, f"tools/helm{major}/go.mod pins no helm {major}"
    return REPO / ".tools/helm" / version[1] / "helm"


def find_helm(major: int) -> Helm:
    """The helm of a major version; fails the test where it is missing."""
    path = _binary(major)
    if not os.access(path, os.X_OK):
        pytest.fail(
            f"helm {major} is not at {path}: run `make setup-test`, "
            f"or name one with ALLRANKS_TEST_HELM{major}",
            pytrace=False,
        )
    if os.environ.get(f"ALLRANKS_TEST_HELM{major}"):
        return Helm(major, path)
    server = path.with_name("template")
    if not os.access(server, os.X_OK):
        pytest.fail(f"{server} is missing: run `make setup-test`", pytrace=False)
    # Fixtures of the session come before a test's own HOME, with which it would serve no other.
    template_server.server(server)
    return Helm(major, path, server)


@pytest.fixture(scope="session")
def repo() -> Path:
    """The repository's root."""
    return REPO


@pytest.fixture(scope="session", params=[4, 3], ids=["helm4", "helm3"])
def helm(request: pytest.FixtureRequest) -> Helm:
    """Each major of helm in turn."""
    return find_helm(request.param)


@pytest.fixture(scope="session")
def helm4() -> Helm:
    """Helm 4 alone, for what both majors are shown elsewhere to agree on."""
    return find_helm(4)


@pytest.fixture(scope="session")
def template(helm: Helm) -> Template:
    """Render a chart into manifests, with each major of helm in turn."""

    def render(
        chart: Path,
        *args: str | Path,
        values: Mapping[str, Any] | None = None,
        name: str = "demo",
    ) -> list[Manifest]:
        manifests = load_all(helm.render(chart, *args, values=values, name=name))
        return [manifest for manifest in manifests if manifest]

    return render
