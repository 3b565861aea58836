"""Pod Security "restricted", enforced by a real API server, on all that ships with values.

The defaults of every chart, every preset with every workload, and every example are admitted. What
asks for more than "restricted" is a test file of a chart, and is listed here with its reason.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest
import yaml

from allranks import names, postrender
from allranks.cli import main
from allranks.helm import binary as helm_binary
from allranks.helm import driver
from allranks.sweep.model import Trial
from allranks.sweep.spec.prepare import SweepFlags, prepare, samples
from allranks.values.sources import Sources
from allranks.yamlio.load import load_all

from .test_dry_run import CASES, CHARTS, complaints, level_of, namespaces, objects, pods

if TYPE_CHECKING:
    from allranks.k8s.manifest import Manifest

pytestmark = [pytest.mark.attack, pytest.mark.timeout(600)]

__all__ = ["namespaces", "objects"]  # fixtures

REPO = Path(__file__).parents[2]
PRESETS = sorted(
    str(path.relative_to(REPO / "values").with_suffix(""))
    for path in (REPO / "values").rglob("*.yaml")
)
# Each file of values of the examples, but what is no job: nodes to plan for.
EXAMPLES = sorted(
    path
    for path in (REPO / "examples").rglob("*.yaml")
    if "workload" in (yaml.safe_load(path.read_text("utf-8")) or {})
)
_NETWORK = "hostNetwork: the host's network is the host's, also under \"baseline\""
_RDMA = 'rdma pins memory: the capability IPC_LOCK, which "baseline" does not let a pod add'
_ROOT = "security.restricted: false, for an image that must run as root"
_HOST = "a volume of the host's in podTemplate"
# The test files of charts that ask for more, and why nothing less would do.
BEYOND = {
    "elastic/ci/full-values.yaml": ("privileged", _RDMA),
    "elastic/ci/kueue-values.yaml": ("privileged", _RDMA),
    "elastic/ci/root-values.yaml": ("baseline", _ROOT),
    "mpi/ci/full-values.yaml": ("privileged", _RDMA),
    "mpi/ci/hostnetwork-values.yaml": ("privileged", _NETWORK),
    "mpi/ci/launcher-as-worker-values.yaml": ("privileged", _RDMA),
    "mpi/ci/root-values.yaml": ("baseline", _ROOT),
    "sweep/ci/full-values.yaml": ("privileged", _RDMA),
    "torchrun/ci/full-values.yaml": ("privileged", _RDMA),
    "torchrun/ci/hostnetwork-values.yaml": ("privileged", _NETWORK),
    "torchrun/ci/pod-template-values.yaml": ("privileged", _HOST),
    "torchrun/ci/rdma-values.yaml": ("privileged", _RDMA),
    "torchrun/ci/unrestricted-values.yaml": ("privileged", _ROOT),
}
# The least that a job of each workload says.
_LEAST: dict[str, dict[str, Any]] = {
    "torchrun": {"command": ["train"]},
    "mpi": {"command": ["train"]},
    "elastic": {"command": ["train"], "elastic": {"framework": "pytorch"}},
    "sweep": {
        "command": ["train"],
        "sweep": {"parameters": {"lr": {"values": [1], "arg": "--lr"}}},
    },
}


class Restricted(Protocol):
    """Says what the server has against a file of values, under "restricted"."""

    def __call__(self, file: Path) -> list[str]:
        """Every refusal and every warning."""


@pytest.fixture
def restricted(
    capfd: pytest.CaptureFixture[str],
    helm4: Any,
    monkeypatch: pytest.MonkeyPatch,
    namespaces: dict[str, str],
    request: pytest.FixtureRequest,
) -> Restricted:
    """Renders as a person would, in a queue that lies beside; of a sweep its first trial."""
    monkeypatch.setenv(names.ENV_HELM, str(helm4.path))
    where = namespaces["restricted"]
    server = request.getfixturevalue("objects")

    def judge(file: Path) -> list[str]:
        if yaml.safe_load(file.read_text("utf-8"))["workload"] == "sweep":
            prepared = prepare(SweepFlags("s", Sources(files=(str(file),))))
            values = prepared.values(Trial(0, "s-0", next(samples(prepared.spec))))
            binary = helm_binary.inspect(helm4.path)
            text = driver.template(binary, "s-0", where, prepared.chart, values)
            text = postrender.process(text)
        else:
            queue = file.with_name("queue.yaml")
            words = ["-q", "demo", "--queue-file", str(queue)] if queue.is_file() else []
            code = main.main(["render", "demo", "-f", str(file), "-n", where, *words])
            text, warnings = capfd.readouterr()
            assert 0 == code, warnings
        manifests: list[Manifest] = [manifest for manifest in load_all(text) if manifest]
        assert list(pods(manifests)), "there is no pod to judge"
        return complaints(server, manifests, where)

    return judge


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("workload", _LEAST)
def test_every_preset_is_restricted(
    restricted: Restricted, preset: str, tmp_path: Path, workload: str
) -> None:
    """With each workload."""
    own = yaml.safe_load((REPO / f"values/{preset}.yaml").read_text("utf-8"))
    gpus = own.get("nodeShape", {}).get("gpus", 0)
    values = {
        "workload": workload,
        "preset": preset,
        "image": {"repository": "my/trainer", "tag": "1"},
        **({"gpus": gpus} if gpus else {"nodes": 1}),
        **_LEAST[workload],
    }
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    assert [] == restricted(file)


@pytest.mark.parametrize("file", EXAMPLES, ids=[str(path.relative_to(REPO)) for path in EXAMPLES])
def test_every_example_is_restricted(restricted: Restricted, file: Path) -> None:
    """As it stands."""
    assert [] == restricted(file)


def test_what_asks_for_more_is_listed_with_its_reason() -> None:
    """Each such test file of a chart, and nothing else; `test_dry_run` shows that it must."""
    levels = {
        str(path.relative_to(CHARTS)): level_of(yaml.safe_load(path.read_text("utf-8")) or {})
        for path in CASES
    }
    beyond = {name: level for name, level in levels.items() if level != "restricted"}
    assert beyond == {name: level for name, (level, _) in BEYOND.items()}
