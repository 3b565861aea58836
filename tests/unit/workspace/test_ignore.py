"""Which paths of a workspace stay out: the person's rules, ours, and git's own to the letter."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from allranks.workspace import snapshot as snapshots

_NAMES = ["a", "b.pt", "data", "src", "x.py", "log", "out", "é", "dà"]
_PATHS = st.lists(st.sampled_from(_NAMES), min_size=1, max_size=4).map("/".join)
_PATTERNS = st.one_of(
    st.sampled_from(
        ["*.pt", "data", "data/", "/data", "src/*.py", "**/log", "out/**", "a/**/x.py", "!x.py"]
    ),
    st.sampled_from(
        ["# data", r"\!x", "*", "!src/", "!src", "l?g", "[ab]*", " ", "x.py  ", "/*/a"]
    ),
    st.sampled_from(["?", "[!a]", "?à", "d??", "*/", "**/", "a/**/", "!*/", "src/**/ "]),
    st.builds(
        "{}{}{}".format, st.sampled_from(["", "!", "/"]), _PATHS, st.sampled_from(["", "/", "/*"])
    ),
)
_RULES = st.dictionaries(
    st.sampled_from(["", "src/", "data/", "src/a/"]), st.lists(_PATTERNS, max_size=5), max_size=3
)


def _make(folder: Path, paths: list[str], rules: dict[str, list[str]]) -> None:
    files = {path for path in paths if not any(other.startswith(f"{path}/") for other in paths)}
    for path in sorted(files):
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(path)
    for base, lines in rules.items():
        if (folder / base).is_dir():
            (folder / base / ".gitignore").write_text("".join(f"{line}\n" for line in lines))


def _git(folder: Path, *words: str) -> str:
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    command = ["git", "-C", folder, "-c", "user.name=a", "-c", "user.email=a@b.c", *words]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout


def _files(folder: Path) -> set[str]:
    entries = snapshots.take(folder).entries
    return {entry.path for entry in entries if entry.kind != "folder"}


@settings(max_examples=80, suppress_health_check=[HealthCheck.too_slow])
@given(paths=st.lists(_PATHS, min_size=1, max_size=12), rules=_RULES)
@example(paths=["é/x.py", "dà/a"], rules={"": ["?", "d?à", "dà"]})
@example(paths=["src/a/x.py", "a/src/log/x.py"], rules={"": ["a/**/"]})
@example(paths=["src/a/x.py"], rules={"": ["*/", "!src/"]})
@example(paths=["src/a/x.py", "src/b.pt"], rules={"": ["src/*", "!src/a"], "src/": ["*.pt"]})
def test_what_git_would_not_add_stays_out(paths: list[str], rules: dict[str, list[str]]) -> None:
    """In a repository, and outside of git with the same files, it is what git itself says."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "code")
        folder.mkdir()
        _make(folder, paths, rules)
        (folder / "always.txt").write_text("")
        plain = Path(name, "plain")
        shutil.copytree(folder, plain)
        _git(folder, "init", "-q")
        listed = _git(folder, "ls-files", "-co", "--exclude-standard", "-z").split("\0")
        expected = {path for path in listed if path}
        if not expected:
            return
        assert expected == _files(folder)
        assert expected == _files(plain)


def test_what_git_tracks_goes_although_a_rule_excludes_it(tmp_path: Path) -> None:
    """A tracked file is never ignored by git, and neither here."""
    _git(tmp_path, "init", "-q")
    (tmp_path / "model.pt").write_text("")
    _git(tmp_path, "add", "model.pt")
    (tmp_path / ".gitignore").write_text("*.pt\n")
    (tmp_path / "other.pt").write_text("")
    assert {".gitignore", "model.pt"} == _files(tmp_path)


def test_the_repositorys_own_excludes_hold(tmp_path: Path) -> None:
    """`.git/info/exclude` and rules above a folder of the repository count as well."""
    _git(tmp_path, "init", "-q")
    (tmp_path / ".git/info").mkdir(exist_ok=True)
    (tmp_path / ".git/info/exclude").write_text("secret-plans\n")
    (tmp_path / ".gitignore").write_text("*.tmp\n")
    code = tmp_path / "code"
    code.mkdir()
    for name in ("train.py", "x.tmp", "secret-plans"):
        (code / name).write_text("")
    assert {"train.py"} == _files(code)
    excluded = {item.path: item.rule for item in snapshots.take(code).excluded}
    assert {"x.tmp", "secret-plans"} == set(excluded)
    assert "*.tmp" in excluded["x.tmp"]


def test_a_persons_own_rules_win(tmp_path: Path) -> None:
    """`.allranksignore` keeps out what git has, and takes back what git and we keep out."""
    _git(tmp_path, "init", "-q")
    (tmp_path / ".gitignore").write_text("data/\n")
    (tmp_path / ".allranksignore").write_text("notes\n!data/\n!wandb/\n")
    for path in ("train.py", "notes", "data/small.csv", "wandb/run", "mlruns/run"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text("")
    files = _files(tmp_path)
    assert {"train.py", "data/small.csv", "wandb/run"} <= files
    assert not files & {"notes", "mlruns/run"}


@pytest.mark.parametrize(
    "path",
    [
        ".git/config",
        ".hg/store",
        ".venv/bin/python",
        "env/pyvenv.cfg",
        "__pycache__/x.pyc",
        "src/__pycache__/x.pyc",
        "x.pyc",
        ".mypy_cache/x",
        ".ipynb_checkpoints/x",
        "node_modules/x/index.js",
        "wandb/run",
        "mlruns/0/meta.yaml",
        "checkpoints/last.pt",
        ".DS_Store",
        "x.py~",
    ],
)
def test_what_is_never_code_stays_out(tmp_path: Path, path: str) -> None:
    """Folders and files of tools, with a rule that names them; they are not looked into."""
    (tmp_path / "train.py").write_text("")
    (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / path).write_text("")
    snapshot = snapshots.take(tmp_path)
    files = {entry.path for entry in snapshot.entries if entry.kind != "folder"}
    assert {"train.py"} == files
    assert all(item.rule.startswith("default ") for item in snapshot.excluded)
    assert snapshot.excluded


@pytest.mark.parametrize("name", ["venv", "wandb", "mlruns", "checkpoints"])
def test_a_package_of_such_a_name_goes(tmp_path: Path, name: str) -> None:
    """A package of Python is code, whatever it is called."""
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").write_text("")
    assert {f"{name}/__init__.py"} == _files(tmp_path)


def test_a_named_path_goes_whatever_a_rule_says(tmp_path: Path) -> None:
    """`--include` takes what was named, and nothing beside it."""
    (tmp_path / ".gitignore").write_text("data/\n")
    (tmp_path / "data").mkdir()
    for name in ("wanted.csv", "other.csv"):
        (tmp_path / "data" / name).write_text("")
    entries = snapshots.take(tmp_path, include=["data/wanted.csv"]).entries
    assert {".gitignore", "data/wanted.csv"} == {
        entry.path for entry in entries if entry.kind == "file"
    }


@pytest.mark.parametrize(
    ("folder", "marker"),
    [("venv", "x"), ("env", "pyvenv.cfg"), ("checkpoints", "x"), (".venv", "x")],
)
def test_a_named_file_goes_from_a_folder_that_tools_make(
    folder: str, marker: str, tmp_path: Path
) -> None:
    """`--include venv/activate.sh` takes it, and nothing beside it."""
    for path in (f"{folder}/{marker}", f"{folder}/activate.sh", f"{folder}/lib/a", "train.py"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("1\n")
    entries = snapshots.take(tmp_path, include=[f"{folder}/activate.sh"]).entries
    files = {entry.path for entry in entries if entry.kind == "file"}
    assert files == {"train.py", f"{folder}/activate.sh"}
