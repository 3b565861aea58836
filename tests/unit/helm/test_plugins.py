"""The plugin folder: installing again, over a broken one, and taking it away."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from allranks import resources
from allranks.errors import InputError, MissingToolError, RunError
from allranks.helm import plugins
from allranks.helm.binary import HelmBinary

if TYPE_CHECKING:
    from pathlib import Path

NAME = "allranks-postrender"


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A plugin tree to install from."""
    source = tmp_path / "plugins" / "helm4" / NAME
    source.mkdir(parents=True)
    (source / "plugin.yaml").write_text(f"apiVersion: v1\nname: {NAME}\nversion: 0.2.0\n")
    (source / "run.sh").write_text("#!/bin/sh\n")
    (source / "run.sh").chmod(0o755)
    monkeypatch.setattr(resources, "folder", lambda kind: tmp_path / kind)
    return source


@pytest.fixture
def helm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HelmBinary:
    """A helm 4 whose plugin folder is two folders deep and not there yet."""
    path = tmp_path / "helm"
    path.write_text('#!/bin/sh\n[ "$1" = env ] && printf \'%s\\n\' "$HELM_PLUGINS"\n')
    path.chmod(0o755)
    monkeypatch.setenv("HELM_PLUGINS", f"{tmp_path}/data/installed:/other")
    return HelmBinary(path, "4.3.1", 4, supported=True)


@pytest.mark.usefixtures("tree")
def test_install_copies_the_tree_and_names_our_python(helm: HelmBinary) -> None:
    """The copy is complete, executable, and knows which Python has allranks."""
    path = plugins.install(helm)
    assert path == helm.path.parent / "data" / "installed" / NAME
    assert os.access(path / "run.sh", os.X_OK)
    assert f"{sys.executable}\n" == (path / plugins.INTERPRETER).read_text()
    (plugin,) = plugins.list_installed(helm)
    assert ("0.2.0", sys.executable, True) == (plugin.version, plugin.interpreter, plugin.works)


@pytest.mark.usefixtures("tree")
def test_installing_again_replaces(helm: HelmBinary) -> None:
    """What an older version left is gone; nothing else is left in the folder."""
    path = plugins.install(helm)
    (path / "old-file").write_text("x")
    (path / "plugin.yaml").write_text(f"name: {NAME}\nversion: 0.0.1\n")
    assert path == plugins.install(helm)
    assert not (path / "old-file").exists()
    assert plugins.list_installed(helm)[0].version == "0.2.0"
    assert [entry.name for entry in path.parent.iterdir()] == [NAME]


@pytest.mark.usefixtures("tree")
@pytest.mark.parametrize("manifest", ["name: other\n", None])
def test_what_is_not_ours_is_left_alone(helm: HelmBinary, manifest: str | None) -> None:
    """A folder of someone else at our plugin's place is refused, and keeps every file."""
    target = plugins.folder(helm) / NAME
    target.mkdir(parents=True)
    (target / "notes.txt").write_text("mine")
    if manifest is not None:
        (target / "plugin.yaml").write_text(manifest)
    with pytest.raises(InputError, match="not the plugin of allranks"):
        plugins.install(helm)
    assert plugins.uninstall(helm) == []
    assert "mine" == (target / "notes.txt").read_text()


def test_installing_over_a_link_leaves_its_target(helm: HelmBinary, tree: Path) -> None:
    """`helm plugin install` makes a link; replacing it does not touch what it points to."""
    target = plugins.folder(helm)
    target.mkdir(parents=True)
    (target / NAME).symlink_to(tree)
    path = plugins.install(helm)
    assert not path.is_symlink()
    assert {"plugin.yaml", "run.sh"} == {entry.name for entry in tree.iterdir()}


def test_two_majors_do_not_share_a_folder(helm: HelmBinary, tree: Path) -> None:
    """The second is refused, whichever it is, with the way out; any helm takes away the first."""
    for major, form in ((3, ""), (4, "apiVersion: v1\n")):
        source = tree.parents[1] / f"helm{major}" / "sweep"
        source.mkdir(parents=True)
        (source / "plugin.yaml").write_text(f"{form}name: sweep\nversion: 0.2.0\n# allranks\n")
    three = replace(helm, version="3.22.0", major=3)
    for first, second in ((helm, three), (three, helm)):
        path = plugins.install(first, "sweep")
        before = (path / "plugin.yaml").read_text()
        with pytest.raises(InputError, match=f"holds sweep for Helm {first.major}") as excinfo:
            plugins.install(second, "sweep")
        assert f"a folder of its own for Helm {second.major}" in excinfo.value.problem.hint
        assert before == (path / "plugin.yaml").read_text()
        assert path == plugins.install(first, "sweep")
        assert [path] == plugins.uninstall(second)
    plugins.install(helm)
    with pytest.raises(InputError, match="holds allranks-postrender for Helm 4"):
        plugins.install(three, "sweep")


@pytest.mark.usefixtures("tree")
def test_uninstall_takes_away_only_ours(helm: HelmBinary) -> None:
    """Other plugins stay; a second time there is nothing to remove."""
    path = plugins.install(helm)
    (path.parent / "other").mkdir()
    assert [path] == plugins.uninstall(helm)
    assert plugins.uninstall(helm) == []
    assert [entry.name for entry in path.parent.iterdir()] == ["other"]


@pytest.mark.usefixtures("tree")
def test_a_moved_python_is_noticed(helm: HelmBinary) -> None:
    """A plugin whose Python has gone, or that names none, does not work."""
    path = plugins.install(helm)
    (path / plugins.INTERPRETER).write_text("/gone/python\n")
    assert not plugins.list_installed(helm)[0].works
    (path / plugins.INTERPRETER).unlink()
    assert not plugins.list_installed(helm)[0].works


@pytest.mark.usefixtures("tree")
def test_a_folder_that_cannot_be_written(helm: HelmBinary) -> None:
    """The error names the folder and what to set."""
    (helm.path.parent / "data").write_text("a file where the folder should be")
    with pytest.raises(RunError) as excinfo:
        plugins.install(helm)
    assert excinfo.value.problem.path.endswith(NAME)
    assert "HELM_PLUGINS" in excinfo.value.problem.hint


def test_a_helm_that_does_not_say(helm: HelmBinary, monkeypatch: pytest.MonkeyPatch) -> None:
    """A helm that names no plugin folder is told, not guessed."""
    monkeypatch.setenv("HELM_PLUGINS", "")
    with pytest.raises(InputError, match="does not say where its plugins are"):
        plugins.folder(helm)


@pytest.mark.parametrize(
    ("failure", "words"),
    [
        (subprocess.TimeoutExpired("helm", 30), "did not say in 30 seconds"),
        (OSError(8, "Exec format error"), "does not start: Exec format error"),
    ],
)
def test_a_helm_that_does_not_answer(
    helm: HelmBinary, monkeypatch: pytest.MonkeyPatch, failure: Exception, words: str
) -> None:
    """It is told, and no bug of ours."""

    def fail(*_: object, **_options: object) -> None:
        raise failure

    monkeypatch.setattr(subprocess, "run", fail)
    with pytest.raises(InputError, match=words) as excinfo:
        plugins.folder(helm)
    assert "HELM_PLUGINS" in excinfo.value.problem.hint


def test_helm_3_is_given_an_executable(
    helm: HelmBinary, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Helm 3 takes a program as its post-renderer: of this Python, or the one on PATH."""
    three = replace(helm, version="3.22.0", major=3)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    monkeypatch.setenv("PATH", str(tmp_path / "other"))
    with pytest.raises(MissingToolError):
        plugins.install(three)
    for folder in ("other", "bin"):
        program = tmp_path / folder / NAME
        program.parent.mkdir()
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
        assert program == plugins.install(three)
    assert plugins.list_installed(three) == []
    assert plugins.uninstall(three) == []


@pytest.mark.parametrize("major", [3, 4])
def test_helm_sweep_is_a_plugin_of_both(
    helm: HelmBinary, monkeypatch: pytest.MonkeyPatch, major: int
) -> None:
    """Each major gets the tree that it can read, and somebody else's plugin `sweep` stays."""
    monkeypatch.undo()
    monkeypatch.setenv("HELM_PLUGINS", f"{helm.path.parent}/plugins")
    binary = replace(helm, major=major)
    path = plugins.install(binary, "sweep")
    assert (path / "plugin.yaml").read_bytes() == (
        resources.folder("plugins") / f"helm{major}" / "sweep" / "plugin.yaml"
    ).read_bytes()
    assert ["sweep"] == [plugin.name for plugin in plugins.list_installed(binary) if plugin.works]
    assert [path] == plugins.uninstall(binary)
    path.mkdir()
    (path / "plugin.yaml").write_text("name: sweep\nversion: 1.0.0\ncommand: another\n")
    with pytest.raises(InputError, match="not the plugin of allranks"):
        plugins.install(binary, "sweep")


def test_both_trees_start_helm_sweep_in_the_same_way() -> None:
    """A plugin stands alone, so that each tree has a copy of the script."""
    for name in ("run.sh", "plugin.complete"):
        three, four = (resources.folder("plugins") / f"helm{n}" / "sweep" / name for n in (3, 4))
        assert three.read_bytes() == four.read_bytes()
        assert os.access(three, os.X_OK)
        assert os.access(four, os.X_OK)


@pytest.mark.attack
@pytest.mark.usefixtures("tree")
def test_install_writes_through_no_link(helm: HelmBinary, tmp_path: Path) -> None:
    """A link in the plugin's place, or within an older copy, is taken away; its target stays."""
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "plugin.yaml").write_text(f"name: {NAME}\nversion: 9.9.9\n")
    (mine / plugins.INTERPRETER).write_text("precious\n")
    within = tmp_path / "data" / "installed"
    within.mkdir(parents=True)
    (within / NAME).symlink_to(mine)
    path = plugins.install(helm)
    assert not path.is_symlink()
    assert "precious\n" == (mine / plugins.INTERPRETER).read_text()
    for name in (plugins.INTERPRETER, "plugin.yaml", "run.sh"):
        text = (path / name).read_text()
        (path / name).unlink()
        (mine / name).write_text(text + "precious\n")
        (path / name).symlink_to(mine / name)
    assert path == plugins.install(helm)
    assert not any(entry.is_symlink() for entry in path.iterdir())
    assert (mine / plugins.INTERPRETER).read_text().endswith("precious\n")
    # Taking it away takes a link away, too, and not what it points to.
    plugins.uninstall(helm)
    (within / NAME).symlink_to(mine)
    plugins.uninstall(helm)
    assert (mine / "plugin.yaml").exists()


@pytest.mark.attack
@pytest.mark.usefixtures("tree")
def test_install_puts_no_program_where_all_may_write(helm: HelmBinary, tmp_path: Path) -> None:
    """Another user would put theirs in its place, and helm would start it."""
    within = tmp_path / "data" / "installed"
    within.mkdir(parents=True)
    within.chmod(0o777)
    with pytest.raises(InputError, match="any user may write to it") as excinfo:
        plugins.install(helm)
    assert f"chmod o-w {within}" in str(excinfo.value.problem.hint)
    assert [] == list(within.iterdir())
