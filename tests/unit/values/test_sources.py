from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING

import pytest

from allranks.errors import InputError
from allranks.values.files import read
from allranks.values.sources import Sources, defaults, load_sources

if TYPE_CHECKING:
    from pathlib import Path

FIRST = """\
workload: torchrun
preset: [h100-8x, sites/aks]
image:
  repository: my/trainer
  tag: "1"
gpus: 16
args: [a, b]
env:
  A: "1"
  B: "2"
"""
SECOND = """\
# Over the first.
image: {tag: "2"}
args:
  - x
env:
  B: null
"""
FLAGS = (
    ("set", "env.C=3,gpus=8"),
    ("set-json", 'network={"rdma":{"enabled":true}}'),
    ("set-string", "env.D=4"),
)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """Two values files in the current folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.yaml").write_text(FIRST, encoding="utf-8")
    (tmp_path / "b.yaml").write_text(SECOND, encoding="utf-8")
    return "a.yaml", "b.yaml"


def test_every_source_has_its_place(files: tuple[str, str]) -> None:
    """Presets below files below flags, all over the chart's defaults."""
    loaded = load_sources(Sources(files, FLAGS))
    values = loaded.values
    assert loaded.workload == "torchrun"
    assert loaded.presets == ("h100-8x", "sites/aks")
    image = {**defaults("torchrun")["image"], "repository": "my/trainer", "tag": "2"}
    assert image == values["image"]
    assert values["args"] == ["x"]
    assert values["gpus"] == 8
    assert values["env"] == {"A": "1", "B": None, "C": 3, "D": "4"}
    assert values["nodeShape"]["gpus"] == 8
    assert [taint["key"] for taint in values["scheduling"]["tolerations"]][-1] == "sku"
    assert values["network"]["rdma"] == {"enabled": True, "resources": {}}
    assert values["torchrun"]["port"] == 29500


def test_the_presets_are_resolved(files: tuple[str, str]) -> None:
    """The chart, which cannot resolve a preset, does not see one any more."""
    loaded = load_sources(Sources(files))
    assert loaded.values["preset"] == ""
    assert "preset" not in loaded.user


WHERE = [
    (("gpus",), "--set env.C=3,gpus=8"),
    (("image", "repository"), "a.yaml:4"),
    (("image", "tag"), "b.yaml:2"),
    (("image",), "b.yaml:2"),
    (("image", "digest"), "b.yaml:2"),
    (("args", 0), "b.yaml:4"),
    (("args",), "b.yaml:3"),
    (("args", 7), "b.yaml:3"),
    (("env",), "b.yaml:5"),
    (("env", "A"), "a.yaml:9"),
    (("env", "B"), "b.yaml:6"),
    (("env", "C"), "--set env.C=3,gpus=8"),
    (("env", "D", "valueFrom"), "--set-string env.D=4"),
    (("network", "rdma", "enabled"), '--set-json network={"rdma":{"enabled":true}}'),
    (("network",), '--set-json network={"rdma":{"enabled":true}}'),
    (("shm", "sizePerGpu"), "preset h100-8x:22"),
    (("scheduling", "tolerations", 2, "key"), "preset sites/aks:18"),
    (("preset", 1), "a.yaml:2"),
    (("torchrun", "port"), "b.yaml"),
    ((), "b.yaml"),
]


@pytest.mark.parametrize(("path", "expected"), WHERE)
def test_every_value_tells_where_it_came_from(
    files: tuple[str, str], path: tuple[str | int, ...], expected: str
) -> None:
    """The latest source that gave a value, else the nearest thing above it."""
    assert expected == load_sources(Sources(files, FLAGS)).where(path)


def test_a_flag_below_a_path_is_named_where_no_file_has_it() -> None:
    """A mapping that only flags have made is theirs."""
    loaded = load_sources(Sources((), (("set", "workload=torchrun,env.A=1,args[1]=x"),)))
    assert loaded.where(("env",)) == "--set workload=torchrun,env.A=1,args[1]=x"
    assert loaded.where(("args", 0)) == "--set workload=torchrun,env.A=1,args[1]=x"
    assert loaded.where(("image",)) == ""


def test_flags_apply_by_kind_and_not_by_position() -> None:
    """As in Helm: --set-json, then --set, --set-string, --set-file, --set-literal."""
    flags = (
        *(("set-literal", "script=literal"), ("set-string", "script=string"), ("set", "script=s")),
        *(("set-json", 'script="json"'), ("set", "script=s2,workload=torchrun")),
    )
    assert load_sources(Sources((), flags)).values["script"] == "literal"
    assert load_sources(Sources((), flags[1:])).values["script"] == "string"
    assert load_sources(Sources((), flags[2:])).values["script"] == "s2"


@pytest.mark.parametrize("preset", ["h100-8x", "{h100-8x}", "{sites/eks,h100-8x}"])
def test_a_preset_can_be_given_with_a_flag(preset: str) -> None:
    """One name or a list, from any source."""
    loaded = load_sources(Sources((), (("set", f"workload=torchrun,preset={preset}"),)))
    assert loaded.presets[-1] == "h100-8x"
    assert loaded.values["gpuType"]["value"] == "NVIDIA-H100-80GB-HBM3"


def test_a_user_can_take_back_what_a_preset_says() -> None:
    """A null over a preset's value brings the chart's own absence, as -f after -f in Helm."""
    flags = (("set", "workload=torchrun,preset=h100-8x,nodeShape=null,gpuType.value="),)
    values = load_sources(Sources((), flags)).values
    assert "nodeShape" not in values
    assert values["gpuType"] == {"label": "nvidia.com/gpu.product", "value": ""}


def test_standard_input_is_a_file_called_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    """`-f -` reads standard input, once."""
    data = b"workload: torchrun\ngpus: 2\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    loaded = load_sources(Sources(("-",)))
    assert loaded.values["gpus"] == 2
    assert loaded.where(("gpus",)) == "stdin:2"
    with pytest.raises(InputError, match="once"):
        load_sources(Sources(("-", "-")))


def test_a_pipe_is_a_file(tmp_path: Path) -> None:
    """A values file may be a pipe, as the shell's <(…) makes one."""
    reader, writer = os.pipe()
    os.write(writer, b"workload: torchrun\n")
    os.close(writer)
    try:
        assert load_sources(Sources((f"/dev/fd/{reader}",))).workload == "torchrun"
    finally:
        os.close(reader)
    assert tmp_path.is_dir()


MISSING = [
    ("a.yml", "there is no file a.yml", "did you mean a.yaml?"),
    ("no/where.yaml", "there is no folder no", "check the path"),
    (".", ". is a folder", "name a file in it"),
    ("", "is empty", "standard input"),
    ("https://example.com/v.yaml", "is a URL", "download it"),
    ("a\x00b", "cannot be read", "check the path"),
]


@pytest.mark.parametrize(("name", "message", "hint"), MISSING)
@pytest.mark.usefixtures("files")
def test_a_file_that_cannot_be_read_is_named(name: str, message: str, hint: str) -> None:
    """Missing, a folder, empty, a URL: what is wrong and what to do."""
    with pytest.raises(InputError) as excinfo:
        load_sources(Sources((name,)))
    assert message in excinfo.value.problem.message
    assert hint in excinfo.value.problem.hint
    assert excinfo.value.exit_code == 2


def test_a_mistake_in_a_file_has_its_line(files: tuple[str, str], tmp_path: Path) -> None:
    """The second file's mistake names the second file."""
    (tmp_path / "b.yaml").write_text("a: 1\nb: [\n", encoding="utf-8")
    with pytest.raises(InputError) as excinfo:
        load_sources(Sources(files))
    assert excinfo.value.problem.source.startswith("b.yaml:")


WORKLOADS = [
    ("gpus: 1\n", "do not say which workload", "add `workload: torchrun`", "a.yaml"),
    ("workload:\n", "do not say which workload", "add `workload: torchrun`", "a.yaml"),
    ("# c\nworkload: torchrn\n", "'torchrn' is not", "did you mean 'torchrun'?", "a.yaml:2"),
    ("workload: 3\n", "3 is not a workload", "use one of torchrun", "a.yaml:1"),
    ("workload: [torchrun]\n", "is not a workload", "", "a.yaml:1"),
    ("workload: torchrun\npreset: h100\n", "no preset 'h100'", "'h100-8x'", "a.yaml:2"),
    ("workload: torchrun\npreset: [cpu, 3]\n", "3 is not", "give a name", "a.yaml:2"),
    ("workload: torchrun\npreset: {a: 1}\n", "is not the name", "give a name", "a.yaml:2"),
]


@pytest.mark.parametrize(("text", "message", "hint", "source"), WORKLOADS)
@pytest.mark.usefixtures("files")
def test_values_for_no_chart_or_another_are_refused(
    tmp_path: Path, text: str, message: str, hint: str, source: str
) -> None:
    """A file without a workload, with a misspelt one, or with an unknown preset."""
    (tmp_path / "a.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as excinfo:
        load_sources(Sources(("a.yaml",)))
    assert message in excinfo.value.problem.message
    assert hint in excinfo.value.problem.hint
    assert source == excinfo.value.problem.source


def test_values_for_another_chart_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command for one workload does not take the values of another."""
    monkeypatch.setattr("allranks.names.WORKLOADS", ("torchrun", "mpi"))
    with pytest.raises(InputError, match="for the workload torchrun, not mpi") as excinfo:
        load_sources(Sources((), (("set", "workload=torchrun"),)), "mpi")
    assert excinfo.value.problem.source == "--set workload=torchrun"
    with pytest.raises(InputError, match="there is no workload 'elastic'"):
        load_sources(Sources(), "elastic")


def test_a_command_for_a_workload_needs_no_workload_in_the_values() -> None:
    """Flags alone are enough where the command itself says which chart."""
    loaded = load_sources(Sources((), (("set", "gpus=1"),)), "torchrun")
    assert loaded.workload == "torchrun"
    assert load_sources(Sources(), "torchrun").values == defaults("torchrun")


def test_an_unknown_kind_of_flag_is_a_mistake_of_the_caller() -> None:
    """Only Helm's kinds exist."""
    with pytest.raises(ValueError, match="set-yaml"):
        load_sources(Sources((), (("set-yaml", "a=1"),)), "torchrun")


def test_no_default_is_null() -> None:
    """Helm 3 and Helm 4 differ on null defaults, so there are none."""
    assert "None" not in repr(defaults("torchrun"))


@pytest.mark.parametrize(
    ("name", "near"),
    [("valeus.yaml", True), ("Values.yml", True), ("missing.yaml", False), ("train.yaml", False)],
)
def test_only_a_file_that_is_near_is_meant(tmp_path: Path, name: str, near: bool) -> None:
    """All values files end alike; that alone makes none the one that was meant."""
    (tmp_path / "values.yaml").write_text("a: 1\n")
    with pytest.raises(InputError) as excinfo:
        read(str(tmp_path / name))
    nearest = f"did you mean {tmp_path / 'values.yaml'}?"
    assert (nearest if near else "check the path") == excinfo.value.problem.hint


def test_a_link_that_leads_nowhere_is_named_as_one(tmp_path: Path) -> None:
    """It is no file, so it is never the one that was meant."""
    (tmp_path / "dang.yaml").symlink_to("gone.yaml")
    with pytest.raises(InputError) as excinfo:
        read(str(tmp_path / "dang.yaml"))
    assert excinfo.value.problem.message == (
        f"{tmp_path / 'dang.yaml'} is a link to gone.yaml, which is not there"
    )
    assert "make that file, or name another one" == excinfo.value.problem.hint
    with pytest.raises(InputError) as excinfo:
        read(str(tmp_path / "dan.yaml"))
    assert "check the path" == excinfo.value.problem.hint
