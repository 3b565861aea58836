"""Where a command works, by its flags and by what the machine has."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

import click
import pytest

from allranks.cli import target as module
from allranks.cli.console import Console
from allranks.cli.main import main
from allranks.cli.options import Duration
from allranks.cli.target import Target
from allranks.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path


def kubeconfig(folder: Path, namespace: str = "research", current: str = "lab") -> str:
    """A kubeconfig of a cluster that is not there."""
    context = {"cluster": "c", "user": "u", "namespace": namespace}
    config: dict[str, Any] = {
        "current-context": current,
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "lab", "context": context}, {"name": "other", "context": {}}],
    }
    path = folder / "config"
    path.write_text(json.dumps(config))
    return str(path)


@pytest.fixture(autouse=True)
def _bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without a cluster."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)


def test_a_context_makes_the_cluster_the_target(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """With the context's own namespace, unless another is named."""
    monkeypatch.setenv("KUBECONFIG", kubeconfig(tmp_path))
    cluster_target = Target().cluster_target()
    assert cluster_target is not None
    assert ("research", "lab") == (cluster_target.namespace, cluster_target.cluster.context)
    cluster_site = Target(namespace="mine", context="other").cluster_target()
    assert cluster_site is not None
    assert ("mine", "other") == (cluster_site.namespace, cluster_site.cluster.context)
    assert Target("local").cluster_target() is None


def test_a_machine_without_a_cluster_is_its_own_target(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And is told so, where nobody asked for it."""
    assert Target().cluster_target(Console()) is None
    assert "this machine is meant" in capsys.readouterr().err
    assert Target("local").cluster_target(Console()) is None
    assert "" == capsys.readouterr().err
    with pytest.raises(InputError, match="no kubeconfig"):
        Target("cluster").cluster_target()
    assert Target(kubeconfig=kubeconfig(tmp_path, current="")).kubeconfig


def test_a_kubeconfig_without_a_current_context_names_no_cluster(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A named context does, and a broken file is an error and not a local run."""
    monkeypatch.setenv("KUBECONFIG", kubeconfig(tmp_path, current=""))
    assert Target().cluster_target() is None
    cluster_target = Target(context="lab").cluster_target()
    assert cluster_target is not None
    assert "research" == cluster_target.namespace
    (tmp_path / "config").write_text("a: [")
    with pytest.raises(InputError, match="not valid YAML"):
        Target().cluster_target()


def test_flags_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    """A context is a cluster's; a verb that only a cluster has is not local."""
    with pytest.raises(InputError, match="--on local is this machine"):
        Target("local", context="lab").cluster_target()
    with pytest.raises(InputError, match="runs on a cluster"):
        Target("local").on_cluster()
    assert "research" == Target(kubeconfig=kubeconfig(tmp_path)).on_cluster().namespace


@pytest.mark.parametrize(
    ("words", "fix"),
    [
        (["attach", "demo"], "allranks logs demo --on local --follow"),
        (["exec", "demo", "--", "ls"], "allranks logs demo --on local --follow"),
        (["operator", "status"], "leave it out"),
    ],
)
def test_what_only_a_cluster_has_says_so(
    words: list[str], fix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--on local` is no unknown option: who gives it hears what there is for this machine."""
    at = 2 if words[0] == "operator" else 1
    assert 2 == main([*words[:at], "--on", "local", *words[at:]])
    output = capsys.readouterr().err
    assert "--on: " in output
    assert "is for what runs on a cluster" in output
    assert fix in output


def test_completion_never_waits_for_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a second the shell gets what there is: nothing."""
    monkeypatch.setattr(module, "_COMPLETION_SECONDS", 0.05)
    answers = threading.Event()
    monkeypatch.setattr(module, "_cluster_names", lambda _: answers.wait(60) and ["demo"])
    monkeypatch.setattr(module, "_is_here", lambda _: False)
    context = click.Context(click.Command("status"))
    assert [] == module.complete_run(context, click.Argument(["name"]), "de")
    answers.set()
    monkeypatch.setattr(module, "_cluster_names", lambda _: ["demo", "other", "demo"])
    monkeypatch.setattr(module, "_COMPLETION_SECONDS", 60.0)
    assert ["demo"] == module.complete_run(context, click.Argument(["name"]), "de")


def test_completion_waits_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow it is; where half-typed flags name no cluster its runs are meant, too."""
    monkeypatch.setattr(module, "_COMPLETION_SECONDS", 0.0)
    monkeypatch.setattr(module, "_local_names", lambda: ["demo", "other"])
    for params in ({"on": "local"}, {"on": "local", "context": "lab"}):
        context = click.Context(click.Command("status"))
        context.params = params
        assert ["demo"] == module.complete_run(context, click.Argument(["name"]), "de")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90.0), ("90s", 90.0), ("10m", 600.0), ("1h30m", 5400.0), ("1d", 86400.0), ("1.5", 1.5)],
)
def test_times_are_read_as_people_type_them(text: str, seconds: float) -> None:
    """As kubectl and helm have them."""
    assert seconds == Duration().convert(text, None, None)


@pytest.mark.parametrize("text", ["", "soon", "-5", "1x", "m"])
def test_what_is_no_time_is_refused(text: str) -> None:
    """With what would be one."""
    with pytest.raises(click.BadParameter, match="write 90s, 10m or 1h30m"):
        Duration().convert(text, None, None)
