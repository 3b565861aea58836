"""The ci files of the torchrun chart, rendered once each, and ways to ask about the result."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from allranks.yamlio.load import load, load_all

CI = sorted((Path(__file__).parents[3] / "charts/torchrun/ci").glob("*-values.yaml"))

Render = Callable[..., dict[str, Any]]

# The least a job needs; each test says what it adds.
MINIMAL: dict[str, Any] = {
    "image": {"repository": "my/trainer", "tag": "1.4"},
    "command": ["python", "train.py"],
}


def by_name(manifests: list[Any]) -> dict[str, Any]:
    """Manifests by ``Kind/name``."""
    return {f"{each['kind']}/{each['metadata']['name']}": each for each in manifests if each}


@pytest.fixture(scope="session", params=CI, ids=lambda path: path.stem.removesuffix("-values"))
def ci_file(request: pytest.FixtureRequest) -> Path:
    """Each values file of ci/ in turn."""
    path: Path = request.param
    return path


@pytest.fixture(scope="session")
def ci_values(ci_file: Path) -> dict[str, Any]:
    """What the ci file says."""
    return load(ci_file.read_bytes(), str(ci_file)).data


@pytest.fixture(scope="session")
def ci_text(ci_file: Path, torchrun: Path, helm4: Any) -> str:
    """What helm 4 renders of the ci file."""
    text: str = helm4.render(torchrun, "-f", ci_file)
    return text


@pytest.fixture
def ci(ci_text: str) -> dict[str, Any]:
    """The manifests of the ci file, by ``Kind/name``."""
    return by_name(load_all(ci_text))


@pytest.fixture(scope="session")
def render(template: Any, torchrun: Path) -> Render:
    """Render `MINIMAL` with more values over it; manifests by ``Kind/name``."""

    def evaluate(name: str = "demo", **values: Any) -> dict[str, Any]:
        given = MINIMAL | values
        if "script" in values:
            given.pop("command")
        return by_name(template(torchrun, values=given, name=name))

    return evaluate


@pytest.fixture(scope="session")
def refusal(helm: Any, torchrun: Path) -> Callable[..., str]:
    """What the templates say when they refuse `MINIMAL` with more values over it."""

    def evaluate(name: str = "demo", **values: Any) -> str:
        # The schema refuses much of this before a template runs; both are to be right alone.
        said: str = helm.refusal(
            torchrun, "--skip-schema-validation", values=MINIMAL | values, name=name
        )
        return said

    return evaluate


def pod_template(manifests: dict[str, Any]) -> dict[str, Any]:
    """The pod template of the release's Job or StatefulSet."""
    (controller,) = (each for each in manifests.values() if each["kind"] in ("Job", "StatefulSet"))
    template: dict[str, Any] = controller["spec"]["template"]
    return template


@pytest.fixture(scope="session")
def pod() -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Takes the pod template out of the manifests."""
    return pod_template


@pytest.fixture(scope="session")
def env() -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Takes the trainer's variables out of the manifests: a text, or what `valueFrom` says."""

    def variables(manifests: dict[str, Any]) -> dict[str, Any]:
        trainer = pod_template(manifests)["spec"]["containers"][0]
        return {each["name"]: each.get("value", each.get("valueFrom")) for each in trainer["env"]}

    return variables
