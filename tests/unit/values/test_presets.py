from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from allranks import names, resources
from allranks.errors import InputError
from allranks.k8s import quantity
from allranks.layout.compute import compute
from allranks.model.job_spec import JobSpec
from allranks.values import presets
from allranks.values.resolve import resolve
from allranks.values.sources import Sources
from allranks.yamlio.load import load

if TYPE_CHECKING:
    from pathlib import Path

NAMES = [preset.name for preset in presets.list()]


def test_the_presets_that_ship() -> None:
    """Hardware first, sites after it, each by its path without the ending."""
    assert NAMES == [
        *("a100-8x", "cpu", "h100-8x", "h200-8x", "l4-1x", "mi300x-8x"),
        *("sites/aks", "sites/eks", "sites/gke"),
    ]


@pytest.mark.parametrize("preset", presets.list(), ids=NAMES)
def test_a_preset_says_what_it_is_for(preset: presets.Preset) -> None:
    """Its first line is a sentence that fits a line of a terminal."""
    assert preset.description.endswith(".")
    assert 20 < len(preset.description) <= 100


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", ["one node", "two nodes"])
@pytest.mark.parametrize("workload", names.WORKLOADS)
def test_a_job_on_a_preset_is_valid(name: str, size: str, workload: str) -> None:
    """A minimal job of any workload on any preset, of one node or of two, has no problem."""
    flags = [
        *(("set", f"workload={workload},preset={name}"), ("set", "image.repository=my/trainer")),
        ("set", "command={python,train.py}"),
    ]
    nodes = 1 if size == "one node" else 2
    per_node = presets.load(name).data.get("nodeShape", {}).get("gpus", 0)
    if name == "cpu":
        flags.append(("set", f"nodes={nodes}"))
    elif per_node:
        flags.append(("set", f"gpus={per_node * nodes}"))
    else:
        flags.append(("set", f"nodes={nodes},gpusPerNode=4"))
    loaded = resolve(Sources((), tuple(flags)), release="job")
    assert loaded.presets == (name,)


@pytest.mark.parametrize("name", [name for name in NAMES if name.endswith("8x")])
def test_an_mpi_job_of_half_a_node_more_has_a_smaller_last_node(name: str) -> None:
    """Twelve GPUs at eight per node are eight and four, with the shares of each."""
    flags = (
        ("set", f"workload=mpi,preset={name},image.repository=my/trainer,command={{train}}"),
        ("set", "gpus=12,gpusPerNode=8"),
    )
    layout = compute(JobSpec.from_values(resolve(Sources((), flags)).values))
    assert (2, 4, 12) == (layout.nodes, layout.last_procs_per_node, layout.world_size)
    whole, half = layout.share_of(0), layout.share_of(1)
    for amount in ("cpu", "memory", "shm"):
        assert quantity.parse(getattr(whole, amount)) == 2 * quantity.parse(getattr(half, amount))


@pytest.mark.parametrize("name", [name for name in NAMES if name.endswith("x")])
def test_the_shares_of_hardware_fit_its_node(name: str) -> None:
    """All GPUs' shares of CPU and memory fit the node, and shared memory fits the pod's."""
    data = presets.load(name).data
    shape, share = data["nodeShape"], data["resources"]["perGpu"]
    for resource in ("cpu", "memory"):
        amount = quantity.parse(quantity.multiply(share[resource], shape["gpus"]))
        have = quantity.parse(shape[resource])
        assert 0.8 * have <= amount <= have
    shared = quantity.parse(data["shm"]["sizePerGpu"])
    assert shared < quantity.parse(share["memory"]) / 2
    assert data["gpuType"]["value"]
    assert data["gpuType"]["label"].startswith(data["gpuResource"].partition("/")[0])
    assert [taint["key"] for taint in data["scheduling"]["tolerations"]] == [data["gpuResource"]]


def test_a_wrong_name_gets_the_nearest_and_the_list() -> None:
    """A misspelt preset, or the last part of a name, is answered with the right one."""
    for wrong, right in (("h100-x8", "h100-8x"), ("aks", "sites/aks"), ("H100-8x", "h100-8x")):
        with pytest.raises(InputError) as excinfo:
            presets.load(wrong)
        assert excinfo.value.problem.path == "preset"
        assert excinfo.value.problem.hint.startswith(f"did you mean '{right}'?")
        assert all(name in excinfo.value.problem.hint for name in NAMES)


@pytest.mark.attack
@pytest.mark.parametrize("name", ["../charts/torchrun/values", "/etc/passwd", "", "sites", "\x00"])
def test_only_what_ships_is_a_preset(name: str) -> None:
    """No name reaches a file outside the folder of presets."""
    with pytest.raises(InputError, match="there is no preset"):
        presets.load(name)


def test_a_preset_may_not_choose_for_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A preset that names a workload or another preset is refused at its line."""
    (tmp_path / "own.yaml").write_text("# Own.\ngpus: 1\npreset: cpu\n", encoding="utf-8")
    monkeypatch.setattr(resources, "folder", lambda _: tmp_path)
    assert [preset.description for preset in presets.list()] == ["Own."]
    with pytest.raises(InputError, match="may not set `preset`") as excinfo:
        presets.load("own")
    assert excinfo.value.problem.source == "preset own:3"


@pytest.mark.parametrize("name", NAMES)
def test_a_preset_can_be_given_to_plain_helm(name: str, repo: Path) -> None:
    """Every key of a preset is one of the chart's own, so that -f with its file works."""
    defaults = load((repo / "charts/torchrun/values.yaml").read_bytes(), "values.yaml").data
    for key, value in presets.load(name).data.items():
        assert key in defaults
        if isinstance(value, dict):
            assert set(value) <= set(defaults[key])
