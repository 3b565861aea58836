"""A workspace in each place that git knows: below the top, in a worktree, a submodule, a clone."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from allranks.workspace import snapshot as snapshots

if TYPE_CHECKING:
    from pathlib import Path

    from allranks.workspace.model import GitRevision


def _git(folder: Path, *words: str) -> None:
    settings = ("user.name=a", "user.email=a@b.c", "protocol.file.allow=always")
    options = [word for setting in settings for word in ("-c", setting)]
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    command = ["git", "-C", folder, *options, *words]
    subprocess.run(command, env=env, check=True, capture_output=True)


def _commit(folder: Path) -> None:
    _git(folder, "add", ".")
    _git(folder, "commit", "-q", "-m", "x")


def _files(folder: Path) -> set[str]:
    return {entry.path for entry in snapshots.take(folder).entries if entry.kind != "folder"}


def _rules(folder: Path) -> dict[str, str]:
    return {item.path: item.rule for item in snapshots.take(folder).excluded}


def _revision(folder: Path) -> GitRevision:
    revision = snapshots.take(folder).revision
    assert revision is not None
    return revision


_OF_GIT = {".git/": "default .git/"}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with a commit: two programs and a rule."""
    folder = tmp_path / "repository"
    (folder / "code").mkdir(parents=True)
    (folder / "train.py").write_text("1\n")
    (folder / "code/model.py").write_text("2\n")
    (folder / ".gitignore").write_text("*.log\n/scratch/\n")
    _git(folder, "init", "-q", "-b", "main")
    _commit(folder)
    return folder


def test_a_folder_of_a_repository_differs_by_what_is_in_it(repository: Path) -> None:
    """A change elsewhere in the repository is none of the workspace."""
    (repository / "train.py").write_text("changed\n")
    assert not _revision(repository / "code").is_dirty
    assert _revision(repository).is_dirty
    (repository / "code/model.py").write_text("3\n")
    assert "--- a/model.py\n+++ b/model.py\n" in _revision(repository / "code").diff


def test_a_file_that_git_has_not_makes_a_difference(repository: Path) -> None:
    """It goes, so that what runs is not the commit; an ignored file changes nothing."""
    (repository / "run.log").write_text("")
    assert not _revision(repository).is_dirty
    (repository / "new.py").write_text("")
    assert _revision(repository).is_dirty


def test_a_worktree_and_a_detached_head(repository: Path, tmp_path: Path) -> None:
    """Both have the commit; without a branch there is none to name."""
    other = tmp_path / "other"
    _git(repository, "worktree", "add", "-q", str(other))
    assert ("other", _files(repository)) == (_revision(other).branch, _files(other))
    _git(other, "checkout", "-q", "--detach")
    assert (_revision(repository).commit, "") == (_revision(other).commit, _revision(other).branch)


def test_a_folder_that_git_ignores_may_be_named(repository: Path) -> None:
    """Who names it wants it: the rules of the repository that holds it are not asked."""
    folder = repository / "scratch"
    folder.mkdir()
    (folder / "try.py").write_text("")
    assert {"try.py"} == _files(folder)
    assert snapshots.take(folder).revision is None


def test_submodules_and_clones_have_their_own_rules(repository: Path, tmp_path: Path) -> None:
    """Their files go, and what they ignore themselves does not."""
    library = tmp_path / "library"
    library.mkdir()
    (library / "lib.py").write_text("")
    (library / ".gitignore").write_text("*.o\n")
    _git(library, "init", "-q")
    _commit(library)
    _git(repository, "submodule", "add", "-q", str(library), "module")
    _git(repository, "clone", "-q", str(library), "clone")
    for place in ("module", "clone"):
        (repository / place / "x.o").write_text("")
        (repository / place / "kept.log").write_text("")
    files = _files(repository)
    for place in ("module", "clone"):
        assert {f"{place}/lib.py", f"{place}/kept.log"} <= files
        assert f"{place}/.gitignore:1 *.o" == _rules(repository)[f"{place}/x.o"]


def test_an_empty_submodule_holds_what_lies_in_it(repository: Path, tmp_path: Path) -> None:
    """A clone without its submodules has an empty folder; a file in it is a file."""
    _git(repository, "clone", "-q", str(repository), str(repository / "module"))
    _git(repository, "add", "module")
    _git(repository, "commit", "-q", "-m", "y")
    _git(tmp_path, "clone", "-q", str(repository), "clone")
    (tmp_path / "clone/module/stray.py").write_text("")
    assert "module/stray.py" in _files(tmp_path / "clone")


def test_what_stays_out_is_not_in_the_difference(repository: Path) -> None:
    """Neither a tracked file that is excluded, nor a deleted secret, nor a token in a line."""
    (repository / "hidden").write_text("before\n")
    (repository / ".env").write_text("A=before\n")
    _commit(repository)
    (repository / ".allranksignore").write_text("hidden\n")
    (repository / "hidden").write_text("after\n")
    (repository / ".env").unlink()
    (repository / "train.py").write_text("shown\n")
    revision = _revision(repository)
    assert revision.is_dirty
    assert "+shown\n" in revision.diff
    assert all(word not in revision.diff for word in ("before", "after"))
    token = "hf_" + "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zLqw"
    (repository / "train.py").write_text(f"{token}\n")
    _git(repository, "add", "train.py")
    _git(repository, "commit", "-q", "-m", "z")
    (repository / "train.py").write_text("no token\n")
    assert (True, "") == (_revision(repository).is_dirty, _revision(repository).diff)


def test_a_hooks_variables_point_nowhere_else(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a hook of another repository git would read that one."""
    before = snapshots.take(repository)
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    assert before == snapshots.take(repository)


def test_names_that_git_could_take_for_options(repository: Path) -> None:
    """A dash, the magic of a pathspec, a bracket, a line that ends in an ignored name."""
    for name in ("-x", ":(top)y", "[z]", "é ü", "a\n.log"):
        (repository / name).write_text("")
    assert {"-x", ":(top)y", "[z]", "é ü"} <= _files(repository)
    assert ".gitignore:1 *.log" == _rules(repository)["a\n.log"]


def test_what_is_no_repository_is_a_folder(tmp_path: Path) -> None:
    """Where git does not work, the files of rules hold all the same."""
    (tmp_path / ".git").write_text("nonsense")
    (tmp_path / "train.py").write_text("")
    (tmp_path / "x.log").write_text("")
    (tmp_path / ".gitignore").write_text("*.log\n")
    assert {".gitignore", "train.py"} == _files(tmp_path)
    assert snapshots.take(tmp_path).revision is None


def test_a_file_named_below_an_excluded_folder_goes_alone(repository: Path) -> None:
    """What lies beside it stays out, by the folder's rule."""
    (repository / "scratch/deep").mkdir(parents=True)
    for name in ("scratch/deep/wanted.csv", "scratch/other.csv"):
        (repository / name).write_text("")
    snapshot = snapshots.take(repository, include=["scratch/deep/wanted.csv"])
    paths = {entry.path for entry in snapshot.entries}
    assert "scratch/deep/wanted.csv" in paths
    assert "scratch/other.csv" not in paths


@pytest.mark.parametrize("place", ["excludesFile", "XDG_CONFIG_HOME", "~/.config"])
def test_a_persons_own_excludes_hold(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """Of `core.excludesFile`, or where git looks without it; each rule is named with its file."""
    home = tmp_path / "home"
    files = {
        "excludesFile": home / "rules/mine",
        "XDG_CONFIG_HOME": tmp_path / "xdg/git/ignore",
        "~/.config": home / ".config/git/ignore",
    }
    file = files[place]
    file.parent.mkdir(parents=True)
    file.write_text("# of mine\n*.scratch\n")
    home.mkdir(exist_ok=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    if place == "excludesFile":
        (home / ".gitconfig").write_text("[core]\n\texcludesFile = ~/rules/mine\n")
    elif place == "XDG_CONFIG_HOME":
        monkeypatch.setenv(place, str(tmp_path / "xdg"))
    (repository / "x.scratch").write_text("")
    (repository / "code/y.scratch").write_text("")
    name = f"~/{file.relative_to(home)}" if file.is_relative_to(home) else str(file)
    rule = f"{name}:2 *.scratch"
    assert {"x.scratch": rule, "code/y.scratch": rule, **_OF_GIT} == _rules(repository)
    # What is tracked goes, and what a deeper file of rules takes in.
    (repository / "code/.gitignore").write_text("!y.scratch\n")
    assert {"x.scratch", *_OF_GIT} == set(_rules(repository))
    _git(repository, "add", "-f", "x.scratch")
    assert _OF_GIT == _rules(repository)


def test_the_excludes_of_a_clone_hold_below_the_rules_of_its_folders(repository: Path) -> None:
    """`.git/info/exclude` keeps out; `.gitignore` takes back, and so does `.allranksignore`."""
    (repository / ".git/info").mkdir(exist_ok=True)
    (repository / ".git/info/exclude").write_text("a\nb\nc\n")
    for name in "abc":
        (repository / name).write_text("")
    assert {".git/info/exclude:1 a"} == {_rules(repository)["a"]}
    (repository / ".gitignore").write_text("!b\n")
    (repository / ".allranksignore").write_text("!c\n")
    assert {"a", *_OF_GIT} == set(_rules(repository))


def test_nothing_is_written_to_the_repository(repository: Path) -> None:
    """Not even the index, which git itself would refresh."""
    (repository / "train.py").touch()
    index = (repository / ".git/index").stat().st_mtime_ns
    snapshots.take(repository)
    assert index == (repository / ".git/index").stat().st_mtime_ns
