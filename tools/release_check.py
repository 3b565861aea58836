"""Whether this checkout can be released: one line for each thing that has to hold.

Usage: release_check.py
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parents[1]
VERSION = re.compile(r"\d+\.\d+\.\d+(?:-(?:alpha|beta|rc)\.\d+)?")


class NotReadyError(Exception):
    """Why this checkout cannot be released."""


def versions(root: Path) -> Iterator[tuple[str, str]]:
    """Each place that says the version, and the version that it says.

    Args:
        root: the checkout.
    """
    package = (root / "generator/allranks/__init__.py").read_text(encoding="utf-8")
    match = re.search(r'^__version__ = "(.+)"$', package, re.MULTILINE)
    yield "generator/allranks/__init__.py", match[1] if match else ""
    for path in sorted(root.glob("charts/*/Chart.yaml")):
        chart = yaml.safe_load(path.read_text(encoding="utf-8"))
        place = path.relative_to(root).as_posix()
        yield f"{place}: version", str(chart["version"])
        if chart.get("type") != "library":
            yield f"{place}: appVersion", str(chart.get("appVersion", ""))
        for dependency in chart.get("dependencies", ()):
            yield f"{place}: {dependency['name']}", str(dependency["version"])
    for path in sorted(root.glob("plugins/**/plugin.yaml")):
        plugin = yaml.safe_load(path.read_text(encoding="utf-8"))
        yield path.relative_to(root).as_posix(), str(plugin["version"])


def one_version(root: Path) -> str:
    """The version that all places say.

    Raises:
        NotReadyError: they differ, or it is no version.
    """
    places = list(versions(root))
    version = places[0][1]
    others = [f"{place} says {other or 'nothing'}" for place, other in places if other != version]
    if others:
        raise NotReadyError(f"{places[0][0]} says {version}, and {'; '.join(others)}")
    if not VERSION.fullmatch(version):
        raise NotReadyError(f"{version} is no version of the form 1.2.3 or 1.2.3-rc.1")
    return version


def changelog(text: str, version: str) -> None:
    """Hold that the changelog has a dated section of the version, and nothing that waits.

    Args:
        text: CHANGELOG.md.
        version: what is to be released.

    Raises:
        NotReadyError: it has not.
    """
    sections = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    titles = [section.splitlines()[0] for section in sections]
    if not any(re.fullmatch(rf"\[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d", t) for t in titles):
        raise NotReadyError(f"has no section `## [{version}] - YEAR-MONTH-DAY`")
    unreleased = next((s for s in sections if s.startswith("[Unreleased]")), "")
    if re.search(r"^- ", unreleased, re.MULTILINE):
        raise NotReadyError(f"[Unreleased] is not empty: move its lines below [{version}]")


def clean(root: Path) -> None:
    """Hold that what is released is what is committed."""
    if changed := output("git", "status", "--porcelain", folder=root).splitlines():
        raise NotReadyError(f"{len(changed)} changed files, such as {changed[0][3:]}")


def wheel(root: Path, version: str) -> None:
    """Hold that the wheel installs into an empty environment and says its version there."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        output(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", name, folder=root)
        (file,) = folder.glob("*.whl")
        venv.create(folder / "env", with_pip=True)
        output(folder / "env/bin/pip", "install", "-q", file, folder=folder)
        shown = output(folder / "env/bin/allranks", "--version", folder=folder).split()[-1]
        if shown != version:
            raise NotReadyError(f"the installed command says {shown}")


def charts(root: Path) -> None:
    """Hold that both majors of helm lint and package every chart."""
    helms = sorted(root.glob(".tools/helm/*/helm"))
    if len(helms) < 2:  # noqa: PLR2004 - one of each major
        raise NotReadyError("needs helm 3 and helm 4: run `make setup-test`")
    with tempfile.TemporaryDirectory() as folder:
        for helm in helms:
            for chart in sorted(root.glob("charts/*/Chart.yaml")):
                output(helm, "package", chart.parent, "-d", folder, folder=root)


def output(*command: str | Path, folder: Path) -> str:
    """What a command prints; where it fails, its last line is raised."""
    process = subprocess.run(  # noqa: S603 - our own commands
        list(map(str, command)), cwd=folder, capture_output=True, text=True, check=False
    )
    if process.returncode:
        words = (process.stderr or process.stdout).strip().splitlines()
        raise NotReadyError(f"{Path(command[0]).name} failed: {words[-1] if words else '?'}")
    return process.stdout


def main() -> int:
    """Try all; print a line for each; the exit code is 1 where one does not hold."""
    version = ""
    failed = False

    def hold(name: str, check: Callable[[], object]) -> None:
        nonlocal failed
        try:
            check()
        except NotReadyError as error:
            failed = True
            print(f"no  {name}: {error}")
        else:
            print(f"ok  {name}")

    def same() -> None:
        nonlocal version
        version = one_version(ROOT)

    hold("one version everywhere", same)
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    hold("CHANGELOG.md", lambda: changelog(text, version))
    hold("nothing is uncommitted", lambda: clean(ROOT))
    hold("the charts are packaged by both helms", lambda: charts(ROOT))
    hold("the wheel installs and runs", lambda: wheel(ROOT, version))
    print(f"{'not ' if failed else ''}ready to release {version or 'anything'}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
