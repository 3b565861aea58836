"""Finding helm: who wins, what is supported, and what a person is told."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from allranks import resources
from allranks.errors import MissingToolError
from allranks.helm import binary as helm_binary

if TYPE_CHECKING:
    from pathlib import Path

EMPTY = {"PATH": "/nonexistent"}


def fake_helm(folder: Path, says: str, code: int = 0) -> Path:
    """A program called helm that prints one line."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "helm"
    path.write_text(f"#!/bin/sh\nprintf '%s' '{says}'\nexit {code}\n")
    path.chmod(0o755)
    return path


@pytest.fixture(autouse=True)
def _no_checkout(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Hide this checkout's own pinned helms."""
    monkeypatch.setattr(resources, "__file__", str(tmp_path / "root/generator/allranks/x.py"))


@pytest.mark.parametrize(
    ("says", "version", "major", "supported"),
    [
        ("v4.3.1", "4.3.1", 4, True),
        ("v4.3", "4.3", 4, True),
        ("v4.0.0-rc.1+g1234", "4.0.0-rc.1+g1234", 4, True),
        ("v3.22.0", "3.22.0", 3, True),
        ("v3.18.5", "3.18.5", 3, True),
        ("v3.18.4", "3.18.4", 3, False),
        ("v3.2.0", "3.2.0", 3, False),
        ("v5.0.0", "5.0.0", 5, False),
    ],
)
def test_inspect_reads_every_form_of_version(
    tmp_path: Path, says: str, version: str, major: int, supported: bool
) -> None:
    """A version is read whatever its form, and judged by what Helm 3.18.5 brought."""
    binary = helm_binary.inspect(fake_helm(tmp_path, says))
    assert (version, major, supported) == (binary.version, binary.major, binary.supported)


def test_explicit_wins_over_environment_and_path(tmp_path: Path) -> None:
    """--helm, then ALLRANKS_HELM, then PATH."""
    on_path = fake_helm(tmp_path / "path", "v4.1.0")
    in_env = fake_helm(tmp_path / "env", "v4.2.0")
    program = fake_helm(tmp_path / "named", "v4.3.0")
    env = {"PATH": str(on_path.parent), "ALLRANKS_HELM": str(in_env)}
    assert program == helm_binary.find(str(program), env).path
    assert in_env == helm_binary.find(None, env).path
    assert on_path == helm_binary.find(None, {"PATH": str(on_path.parent)}).path


def test_a_pinned_helm_serves_where_path_has_none(tmp_path: Path) -> None:
    """Without a helm on PATH the newest of the checkout's own is taken, by number."""
    for version in ("v3.22.0", "v4.9.0", "v4.10.0"):
        fake_helm(tmp_path / "root/.tools/helm" / version, version)
    assert helm_binary.find(None, EMPTY).version == "4.10.0"


HELM_2 = "Error: unknown flag: --template"


def test_a_helm_that_cannot_be_asked_gives_way_to_a_pinned_one(tmp_path: Path) -> None:
    """A Helm 2, or a script of that name, fails where its version is asked; so may any program."""
    old = fake_helm(tmp_path / "path", HELM_2, code=1)
    env = {"PATH": str(old.parent)}
    with pytest.raises(MissingToolError, match="is not a Helm we know"):
        helm_binary.find(None, env)
    with pytest.raises(MissingToolError, match="is not a Helm we know"):
        helm_binary.find(str(old), env)
    fake_helm(tmp_path / "root/.tools/helm/v4.3.1", "v4.3.1")
    assert helm_binary.find(None, env).version == "4.3.1"
    with pytest.raises(MissingToolError, match="is not a Helm we know"):
        helm_binary.find(str(old), env)


def test_an_unsupported_helm_on_path_gives_way_to_a_pinned_one(tmp_path: Path) -> None:
    """An old helm on PATH does not stop a checkout that has built its own."""
    old = fake_helm(tmp_path / "path", "v3.10.0")
    fake_helm(tmp_path / "root/.tools/helm/v4.3.1", "v4.3.1")
    assert helm_binary.find(None, {"PATH": str(old.parent)}).version == "4.3.1"


def test_an_unsupported_helm_is_named(tmp_path: Path) -> None:
    """The message has the path, the version and what is supported."""
    old = fake_helm(tmp_path, "v3.10.0")
    with pytest.raises(MissingToolError) as excinfo:
        helm_binary.find(None, {"PATH": str(tmp_path)})
    assert excinfo.value.exit_code == 2
    assert (
        f"{old} is Helm 3.10.0, which is not supported (Helm 4, or Helm 3 from 3.18.5 is)"
        == excinfo.value.problem.message
    )


def test_a_named_helm_is_never_replaced(tmp_path: Path) -> None:
    """A person who names an old helm is told so; another one is not taken silently."""
    old = fake_helm(tmp_path / "old", "v3.10.0")
    good = fake_helm(tmp_path / "path", "v4.3.1")
    with pytest.raises(MissingToolError, match=r"Helm 3\.10\.0"):
        helm_binary.find(str(old), {"PATH": str(good.parent)})


def test_no_helm_says_what_to_do() -> None:
    """Nothing anywhere: the error says how to get or name one."""
    with pytest.raises(MissingToolError) as excinfo:
        helm_binary.find(None, EMPTY)
    assert excinfo.value.problem.message == "there is no helm on PATH"
    assert "--helm" in excinfo.value.problem.hint
    assert "ALLRANKS_HELM" in excinfo.value.problem.hint


@pytest.mark.parametrize(
    ("prepare", "reason"),
    [
        (lambda path: path.mkdir(), "is a folder"),
        (lambda path: path.write_text("#!/bin/sh\n"), "is not executable"),
        (lambda _: None, "is not there"),
    ],
)
def test_a_named_helm_that_is_none(tmp_path: Path, prepare: object, reason: str) -> None:
    """A folder, a plain file and a missing file are told apart."""
    path = tmp_path / "helm"
    prepare(path)  # type: ignore[operator]
    with pytest.raises(MissingToolError) as excinfo:
        helm_binary.find(str(path), EMPTY)
    assert f"--helm names {str(path)!r}, which {reason}" == excinfo.value.problem.message


@pytest.mark.parametrize(
    ("says", "code"), [("hello", 0), ("", 0), ("v4.3.1", 1), ("Client: v2.17.0", 0)]
)
def test_a_program_that_is_not_helm(tmp_path: Path, says: str, code: int) -> None:
    """What answers otherwise than helm is refused with what it said."""
    with pytest.raises(MissingToolError, match="is not a Helm we know"):
        helm_binary.inspect(fake_helm(tmp_path, says, code))


def test_a_program_that_does_not_start(tmp_path: Path) -> None:
    """A file the system cannot execute is named with the system's reason."""
    path = tmp_path / "helm"
    path.write_bytes(b"\x00\x01\x02")
    path.chmod(0o755)
    with pytest.raises(MissingToolError, match="does not start: Exec format error"):
        helm_binary.inspect(path)


def test_a_helm_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A helm that never answers is given up on."""

    def never(*_: object, **__: object) -> None:
        raise subprocess.TimeoutExpired("helm", 30)

    monkeypatch.setattr(subprocess, "run", never)
    with pytest.raises(MissingToolError, match="did not say its version in 30 seconds"):
        helm_binary.inspect(tmp_path / "helm")


def test_environment_hides_what_would_reach_the_output() -> None:
    """HELM_DEBUG and a person's plugins do not change what we read from helm."""
    env = {"HELM_DEBUG": "1", "HELM_PLUGINS": "/mine", "HOME": "/home/me"}
    assert {"HELM_PLUGINS": os.devnull, "HOME": "/home/me"} == helm_binary.environment(env)
    assert helm_binary.environment(env, plugins=True) == {
        "HELM_PLUGINS": "/mine",
        "HOME": "/home/me",
    }
