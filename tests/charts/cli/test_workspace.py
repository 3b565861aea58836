"""What a workspace adds to manifests and dry runs, with both helms."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from allranks import names
from allranks.yamlio import load

from .conftest import MINIMAL

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A workspace with a program, an environment and a rule."""
    code = tmp_path / "code"
    (code / ".venv").mkdir(parents=True)
    (code / ".venv/pyvenv.cfg").write_text("home = /usr\n", encoding="utf-8")
    (code / "train.py").write_text("print(1)\n", encoding="utf-8")
    (code / "data.bin").write_bytes(b"x" * 4000)
    (code / ".allranksignore").write_text("*.bin\n", encoding="utf-8")
    return code


def test_a_snapshot_is_rendered_before_the_job(cli: Any, values: Path, folder: Path) -> None:
    """In a ConfigMap of its own that the pods mount; the same bytes each time."""
    words = ("render", "demo", "-f", values, "-n", "lab", "--workspace", folder)
    process = cli(*words)
    assert 0 == process.returncode, process.stderr
    assert process.stdout == cli(*words).stdout
    part, *rest = (item for item in load.load_all(process.stdout) if item)
    assert ("ConfigMap", "lab", True) == (
        part["kind"],
        part["metadata"]["namespace"],
        part["immutable"],
    )
    (job,) = (item for item in rest if item["kind"] == "Job")
    digest = part["metadata"]["annotations"][names.WORKSPACE_DIGEST]
    assert digest == job["metadata"]["annotations"][names.WORKSPACE_DIGEST]
    assert part["metadata"]["name"] in json.dumps(job["spec"]["template"]["spec"]["volumes"])


def test_an_edit_changes_the_render_and_a_touch_does_not(
    cli: Any, values: Path, folder: Path
) -> None:
    """The digest is of the contents; times and what stays out are not in it."""
    words = ("render", "demo", "-f", values, "--workspace", folder)
    first = cli(*words).stdout
    (folder / "train.py").touch()
    (folder / "data.bin").write_bytes(b"y" * 5000)
    assert first == cli(*words).stdout
    (folder / "train.py").write_text("print(2)\n", encoding="utf-8")
    assert first != cli(*words).stdout


def test_a_dry_run_shows_what_goes_and_what_stays_out(cli: Any, folder: Path) -> None:
    """The largest files, the rules, the way and the size; nothing is started."""
    values = cli.write(MINIMAL)
    words = ("submit", "--dry-run", "--on", "local", "-f", values, "--workspace", folder)
    process = cli(*words, "--", "python", "train.py")
    assert 0 == process.returncode, process.stderr
    for text in (
        "nothing was started",
        "train.py",
        "*.bin",
        "data.bin",
        "in the folder of the run",
        "sha256:",
    ):
        assert text in process.stdout
    data = json.loads(cli(*words, "-o", "json", "--", "python", "train.py").stdout)
    report = data["workspace"]
    assert ("local", 0) == (report["way"]["via"], report["way"]["parts"])
    assert {".allranksignore", "train.py"} == {file["path"] for file in report["largestFiles"]}
    assert ["data.bin"] == next(
        paths for rule, paths in report["excluded"].items() if rule.endswith("*.bin")
    )


@pytest.mark.usefixtures("forked")
@pytest.mark.parametrize("output", ["text", "json"])
@pytest.mark.parametrize(
    "words",
    [
        ("submit", "--gpus", "16", "--dry-run", "--", "python", "train.py"),
        ("run", "demo", "--workspace", "code", "--dry-run"),
    ],
    ids=["submit", "run"],
)
def test_a_dry_run_touches_nothing_and_says_the_same_again(
    cli: Any, tmp_path: Path, folder: Path, words: tuple[str, ...], output: str
) -> None:
    """No request to the cluster that it is for, and no file: of the code, the state or caches."""
    folder.rename(cli.cwd / "code")
    with socket.create_server(("127.0.0.1", 0)) as server:
        cli.write(_kubeconfig(server.getsockname()[1]), "k")
        cli.write(MINIMAL)
        name, *more = words
        flags = ("--kubeconfig", "k", "-f", "values.yaml", "-o", output)
        flags += ("--workspace", "code") if name == "submit" else ()
        before = _times(tmp_path)
        answers = [cli(name, *flags, *more) for _ in range(2)]
        assert before == _times(tmp_path)
        server.setblocking(False)
        with pytest.raises(BlockingIOError):  # nobody is waiting to be let in
            server.accept()
    assert [0, 0] == [process.returncode for process in answers], answers[0].stderr
    assert answers[0].stdout == answers[1].stdout
    assert "sha256:" in answers[0].stdout


def _times(folder: Path) -> dict[str, tuple[int, int]]:
    """When each path below a folder was changed, in itself or in what it holds."""
    return {
        str(path): (path.lstat().st_mtime_ns, path.lstat().st_size)
        for path in (folder, *folder.rglob("*"))
    }


def _kubeconfig(port: int) -> str:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "lab",
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "contexts": [{"name": "lab", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {}}],
    }
    return json.dumps(config)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("submit", "--on", "local"), "the command is missing"),
        (("submit", "--on", "local", "--workspace", "/none", "--", "x"), "is not there"),
        (("submit", "--on", "local", "--workspace", "", "--", "x"), "is empty"),
        (("submit", "--on", "cluster", "--kubeconfig", "k", "--", "x"), "no image is named"),
        (("submit", "a", "--name", "b", "--on", "local", "--", "x"), "called a and b"),
        (
            (
                "run",
                "a",
                "--on",
                "local",
                "--set",
                "workload=torchrun,nodes=1,command={x}",
                "--include",
                "y",
            ),
            "--include",
        ),
        (
            ("submit", "--on", "local", "--workspace", ".", "--set", "workload=sweep", "--", "x"),
            "describe a sweep",
        ),
    ],
)
def test_wrong_input_ends_with_a_sentence(cli: Any, words: tuple[str, ...], error: str) -> None:
    """Exit code 2, and nothing was started."""
    cli.write(_kubeconfig(1), "k")
    process = cli(*words)
    assert (2, "") == (process.returncode, process.stdout)
    assert error in process.stderr
    assert "fix: " in process.stderr


def test_a_way_that_is_not_there_is_refused(cli: Any, values: Path, folder: Path) -> None:
    """With what to do instead."""
    sets = ("--set", "workspace.via=image,workspace.registry=registry.example.com/team")
    process = cli("render", "demo", "-f", values, "--workspace", folder, *sets)
    assert 2 == process.returncode
    assert "workspace.via" in process.stderr


def test_a_secret_in_the_folder_is_refused_unless_it_is_named(
    cli: Any, values: Path, folder: Path
) -> None:
    """It would be readable by all who may read the namespace."""
    (folder / ".env").write_text("PASSWORD=hunter2hunter2\n", encoding="utf-8")
    words = ("render", "demo", "-f", values, "--workspace", folder)
    process = cli(*words)
    assert (2, "") == (process.returncode, process.stdout)
    assert ".env" in process.stderr
    assert "--include" in process.stderr
    assert 0 == cli(*words, "--include", ".env").returncode


def test_kubectl_torchrun_is_the_same_engine(cli: Any, folder: Path) -> None:
    """Its words give the same job; a command that needs a shell gets one."""
    program = "import sys; from allranks import start; sys.exit(start.kubectl_torchrun())"
    words = ("submit", "--num-nodes", "2", "--on", "local", "--dry-run", "-o", "json")
    process = subprocess.run(
        [sys.executable, "-c", program, *words, "--workspace", folder, "cd src && python train.py"],
        env=cli.environment(None),
        cwd=cli.cwd,
        capture_output=True,
        text=True,
        check=False,
    )
    assert 0 == process.returncode, process.stderr
    data = json.loads(process.stdout)
    assert ("train", 2) == (data["name"].rpartition("-")[0], data["layout"]["nodes"])
