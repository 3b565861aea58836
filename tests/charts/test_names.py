"""The strings that charts and Python share are written down once on each side, and are the same."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
import yaml

import allranks
from allranks import names

if TYPE_CHECKING:
    from pathlib import Path


def _text(repo: Path, *charts: str) -> str:
    files = [path for chart in charts for path in (repo / "charts" / chart).glob("templates/*")]
    return "\n".join(path.read_text() for path in sorted(files))


def test_strings_are_those_of_names(repo: Path) -> None:
    """The charts' labels and annotations are those in allranks.names, and no other is made up."""
    text = _text(repo, "library", "queue", *names.WORKLOADS)
    strings = {value for key, value in vars(names).items() if key.isupper() and type(value) is str}
    used_keys = set(re.findall(r'"(allranks\.dev/[a-z-]+)"', text))
    used_keys |= {f"{names.DOMAIN}/{key}" for key in ("scheduling", "placement", "fabric")}
    assert used_keys <= strings


@pytest.mark.parametrize(
    ("chart", "reserved", "prefixes"),
    [
        ("torchrun", names.RESERVED_ENV, names.RESERVED_ENV_PREFIXES),
        ("mpi", names.RESERVED_ENV_MPI, names.RESERVED_ENV_PREFIXES_MPI),
    ],
)
def test_reserved_variables(
    chart: str, reserved: tuple[str, ...], prefixes: tuple[str, ...], repo: Path
) -> None:
    """A chart refuses the variables that the command line refuses."""
    text = _text(repo, chart)
    for key, expected in (("reserved", reserved), ("reservedPrefixes", prefixes)):
        match = re.search(rf'"{key}" \(list ([^)]*)\)', text)
        assert match is not None
        assert set(expected) == set(json.loads(f"[{match[1].replace(' ', ',')}]"))


def test_reserved_variables_of_an_elastic_job(repo: Path) -> None:
    """The same for what the operator sets; a framework's own stand in its recipe, for both."""
    match = re.search(r"\$reserved := list ([^}]*?) -", _text(repo, "elastic"))
    assert match is not None
    assert set(names.RESERVED_ENV_ELASTIC_JOB) == set(json.loads(f"[{match[1].replace(' ', ',')}]"))


def test_versions_agree(repo: Path) -> None:
    """The charts, the library and the Python package are released together."""
    about = {
        name: yaml.safe_load((repo / f"charts/{name}/Chart.yaml").read_text())
        for name in ("library", "queue", *names.WORKLOADS)
    }
    versions = {chart["version"] for chart in about.values()}
    for name in names.WORKLOADS:
        versions |= {dependency["version"] for dependency in about[name]["dependencies"]}
        versions.add(about[name]["appVersion"])
    assert {allranks.__version__} == versions
