"""Files that values, or a person, name: what they may do to whoever reads them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
import yaml

from allranks.errors import AllranksError, InputError
from allranks.sweep.spec.prepare import PreparedSweep, SweepFlags, prepare
from allranks.values import files, sources
from allranks.values.sources import Sources

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.attack

_SWEEP = {
    "workload": "sweep",
    "image": {"repository": "any"},
    "command": ["train"],
    "sweep": {"parameters": {"lr": {"values": [1e-3, 1e-4], "arg": "--lr"}}},
}


def _sweep(folder: Path, file: str, *sets: tuple[str, str]) -> PreparedSweep:
    """The sweep of a values file that names a file for its trials."""
    folder.mkdir(exist_ok=True)
    values = {**_SWEEP, "sweep": {**_SWEEP["sweep"], "trial": {"file": file}}}
    (folder / "values.yaml").write_text(yaml.safe_dump(values))
    return prepare(SweepFlags("s", Sources(files=(str(folder / "values.yaml"),), sets=sets)))


@pytest.mark.parametrize("form", ["../mine.yaml", "{}/mine.yaml", "link.yaml", "linked/mine.yaml"])
def test_a_values_file_reads_nothing_outside_its_folder(tmp_path: Path, form: str) -> None:
    """Its author would have a file of its user's, such as a kubeconfig, in a release."""
    (tmp_path / "mine.yaml").write_text("env: {TOKEN: secret}\n")
    folder = tmp_path / "sent"
    folder.mkdir()
    (folder / "link.yaml").symlink_to(tmp_path / "mine.yaml")
    (folder / "linked").symlink_to(tmp_path)
    with pytest.raises(InputError, match="leads out of") as excinfo:
        _sweep(folder, form.format(tmp_path))
    assert "sweep.trial.file" == excinfo.value.problem.path
    assert "secret" not in str(excinfo.value)


@pytest.mark.parametrize("workload", ["../../x", "/etc", "operator", "sweep-runner", "library"])
@pytest.mark.parametrize("path", ["workload", "sweep.trial.workload"])
def test_a_workload_is_no_path(tmp_path: Path, path: str, workload: str) -> None:
    """It is the name of a chart of ours that trains, in values and in those of a trial."""
    with pytest.raises(InputError) as excinfo:
        _sweep(tmp_path / "sent", "", ("set", f"{path}={workload}"))
    assert path == excinfo.value.problem.path


def test_what_a_person_names_on_the_command_line_is_theirs(tmp_path: Path) -> None:
    """Wherever it is; and a values file names one below its folder."""
    (tmp_path / "mine.yaml").write_text("env: {A: b}\n")
    flag = ("set", f"sweep.trial.file={tmp_path}/mine.yaml")
    assert {"A": "b"} == _sweep(tmp_path / "sent", "", flag).spec.trial.values["env"]
    (tmp_path / "sent" / "more").mkdir()
    (tmp_path / "sent" / "more" / "own.yaml").write_text("env: {C: d}\n")
    assert {"C": "d"} == _sweep(tmp_path / "sent", "more/own.yaml").spec.trial.values["env"]


def test_a_values_file_keeps_nobody_waiting_at_a_pipe(tmp_path: Path) -> None:
    """Nor does it have a device read."""
    folder = tmp_path / "sent"
    folder.mkdir()
    os.mkfifo(folder / "pipe")
    with pytest.raises(InputError, match="is a pipe or a device"):
        _sweep(folder, "pipe")
    for odd, message in (("/dev/zero", "leads out of"), ("a\0b", "cannot be read|NUL|null")):
        with pytest.raises(AllranksError, match=message):
            _sweep(folder, odd)


@pytest.mark.parametrize("kind", ["-f", "set-file"])
@pytest.mark.parametrize("name", ["/dev/zero", "huge"])
def test_a_file_without_end_is_read_to_a_bound(tmp_path: Path, kind: str, name: str) -> None:
    """All of it in memory would end the program, or the machine."""
    path = name
    if name == "huge":
        path = str(tmp_path / "huge")
        with open(path, "wb") as file:  # noqa: PTH123 - a hole of a file
            file.truncate(1 << 40)
    job_sources = (
        Sources(files=(path,)) if kind == "-f" else Sources(sets=((kind, f"env.A={path}"),))
    )
    with pytest.raises(InputError, match="has more than 16 MiB"):
        sources.load_sources(job_sources, "torchrun")


def test_a_binary_file_is_no_value(tmp_path: Path) -> None:
    """The byte and its line are named, and nothing of what stands there is shown."""
    path = tmp_path / "key"
    path.write_bytes(b"ab\n\xff\xfesecret")
    with pytest.raises(InputError, match="byte 0xff is not UTF-8") as excinfo:
        sources.load_sources(Sources(sets=(("set-file", f"env.A={path}"),)), "torchrun")
    assert "secret" not in str(excinfo.value)


def test_a_pipe_that_a_person_names_is_read(tmp_path: Path) -> None:
    """A shell's ``<(command)`` is one."""
    reader, write = os.pipe()
    os.write(write, b"env: {A: b}\n")
    os.close(write)
    try:
        assert b"env: {A: b}\n" == files.read(f"/dev/fd/{reader}")
    finally:
        os.close(reader)
    assert not list(tmp_path.iterdir())
