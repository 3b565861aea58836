"""What a machine lacks is said in words, with what is then not tested and what mends it."""

from __future__ import annotations

import ctypes.util
import os
import shutil
from typing import TYPE_CHECKING

import pytest

from tests.kube import binaries, host
from tests.kube.errors import BenchError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine with nothing on PATH, and a user who is not root."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(host, "_SYSTEM", str(tmp_path))
    monkeypatch.setattr(ctypes.util, "find_library", lambda _: None)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)


@pytest.mark.usefixtures("bare")
def test_every_tier_that_cannot_run_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """Each with all of its reasons, and one line that installs what is missing."""
    assert 1 == host.report()
    output = capsys.readouterr().out
    assert "test-cluster cannot run here: openssl is missing (Debian's openssl)" in output
    assert "test-node cannot run here: a real node needs root; " in output
    packages = sorted({need.package for need in host.NEEDS})
    assert output.endswith(f"  fix: apt-get install {' '.join(packages)}\n")


@pytest.mark.usefixtures("bare")
def test_one_tier_is_judged_alone(capsys: pytest.CaptureFixture[str]) -> None:
    """Only what this tier needs is named."""
    assert 1 == host.report("test-mpi")
    output = capsys.readouterr().out
    assert "sshd is missing" in output
    assert "runc" not in output


@pytest.mark.usefixtures("bare")
def test_a_real_node_needs_no_browser(capsys: pytest.CaptureFixture[str]) -> None:
    """`make cluster-up NODE=1` names all that it needs, and one command for it."""
    assert 1 == host.report("test-node")
    fix = capsys.readouterr().out.splitlines()[-1]
    assert {"debootstrap", "runc", "iptables", "conntrack"} <= set(fix.split())
    assert "chromium" not in fix


@pytest.mark.usefixtures("bare")
def test_nobody_but_root_installs() -> None:
    """Without root nothing is tried."""
    assert not host.install_missing()


def test_a_machine_that_has_all_says_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No word and code 0 where every tier can run."""
    monkeypatch.setattr(shutil, "which", lambda program, **_: f"/usr/bin/{program}")
    monkeypatch.setattr(ctypes.util, "find_library", lambda name: f"lib{name}.so.0")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(host, "_may_make_namespaces", lambda: True)
    assert (0, "") == (host.report(), capsys.readouterr().out)


@pytest.mark.usefixtures("bare")
def test_without_go_and_programs_the_build_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The programs that are there are used without go; the ones that are not need it."""
    assert binaries.find("kubectl").is_file()
    monkeypatch.setattr(binaries, "CACHE", tmp_path)
    with pytest.raises(BenchError, match="go, which builds them, is not on PATH") as excinfo:
        binaries.build(binaries.MODULES[0])
    assert "install Go 1.26 or newer" == excinfo.value.hint


def test_an_unknown_program_is_refused() -> None:
    """With all that are pinned named."""
    with pytest.raises(BenchError, match="no program 'kubecontrol' is pinned") as excinfo:
        binaries.find("kubecontrol")
    assert "kube-apiserver, kube-controller-manager" in excinfo.value.hint
