"""Wrong input, over the whole program: a clear error, exit 2, and nothing left behind."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

pytestmark = pytest.mark.usefixtures("forked")

HEAD = "workload: torchrun\nimage: {repository: my/trainer}\n"
RUN = f"{HEAD}command: [python, train.py]\n"
INVENTORY = "nodes:\n  - {name: a, gpus: 8}\n  - {name: b, gpus: 8}\n"


def refusal(cli: Any, *args: str | bytes | Path, stdin: str = "") -> str:
    """What the program says when it refuses; it must leave everything as it was."""
    before = cli.tree()
    process = cli(*args, stdin=stdin)
    assert (2, "") == (process.returncode, process.stdout)
    assert before == cli.tree()
    assert process.stderr.startswith("error: ")
    assert "Traceback" not in process.stderr
    assert "bug" not in process.stderr
    return str(process.stderr)


@pytest.mark.parametrize(
    ("text", "says", "fix"),
    [
        (RUN + "gpusPerNod: 8\n", "error: gpusPerNod: unknown key (values.yaml:4)", "gpusPerNode"),
        (
            RUN + "torchrun: {prot: 1}\n",
            "error: torchrun.prot: unknown key (values.yaml:4)",
            "port",
        ),
        (RUN + "nodes: two\n", "error: nodes: ", ""),
        (RUN + "command2: x\n", "error: command2: unknown key", "command"),
        (RUN + "gpus: -1\n", "error: gpus: ", ""),
        (RUN + "gpus: 1.5\n", "error: gpus: ", ""),
        (RUN + "gpus: 12\ngpusPerNode: 8\n", "error: gpus: ", "8 or 16"),
        (RUN + "gpus: 9\nnodes: 2\n", "error: gpus: ", ""),
        (RUN + "procsPerNode: -1\n", "error: procsPerNode: ", ""),
        (
            RUN + "torchrun: {elastic: {minNodes: 4, maxNodes: 2}}\n",
            "error: torchrun.elastic",
            "",
        ),
        (RUN + 'env: {RANK: "0"}\n', "error: env.RANK: ", ""),
        (RUN + 'env: {PET_NNODES: "2"}\n', "error: env.PET_NNODES: ", ""),
        (RUN + "torchrun: {port: 0}\n", "error: torchrun.port: ", ""),
        (RUN + "torchrun: {port: 65536}\n", "error: torchrun.port: ", ""),
        (RUN + "nodes: 2\ntorchrun: {rdzvBackend: etcd}\n", "error: torchrun.rdzvEndpoint: ", ""),
        (RUN + "args: [1e-5]\n", "error: args[0]: 1e-5 is a number", 'quote it: "1e-5"'),
        (RUN + "env: {SEED: 1}\n", "error: env.SEED: ", 'quote it: "1"'),
        (RUN + "env: {DEBUG: yes}\n", "error: env.DEBUG: ", "quote it"),
        (RUN + "nodes: 2\nnodes: 3\n", "values.yaml:5", ""),
        (RUN + "nodes: .inf\n", "values.yaml:4", ""),
        (RUN + "nodes:\t2\n\tx: 1\n", "values.yaml:5", ""),
        (HEAD, "error: ", "command"),
        (RUN + "script: |\n  print(1)\n", "error: ", ""),
        ("", "values.yaml", ""),
        ("# only a comment\n", "values.yaml", ""),
        ("- a\n- b\n", "values.yaml", ""),
        ("just text\n", "values.yaml", ""),
        (RUN + "---\n" + RUN, "values.yaml", ""),
        (
            "workload: elastik\n",
            "error: workload: 'elastik' is not a workload (values.yaml:1)",
            "torchrun",
        ),
        ("command: [a]\n", "error: workload: ", "workload: torchrun"),
        (RUN + "preset: h100-8\n", "error: preset: there is no preset 'h100-8'", "h100-8x"),
        (RUN + "preset: nothing-like-it\n", "there is no preset 'nothing-like-it'", ""),
        (RUN.encode() + b'args: ["\xff\xfe"]\n', "values.yaml", "UTF-8"),
        (RUN.encode("utf-16"), "values.yaml", ""),
        (RUN.encode() + b'args: ["\x00"]\n', "values.yaml", ""),
        (RUN + "x: &a [*a]\n", "error: ", ""),
        (RUN + 'args: ["\x07"]\n', "values.yaml", ""),
    ],
)
def test_wrong_values(cli: Any, text: str | bytes, says: str, fix: str) -> None:
    """Each kind of mistake is named with its place and its fix, before helm is called."""
    cli.write(text)
    cli.env["ALLRANKS_HELM"] = "/bin/false"
    stderr = refusal(cli, "render", "demo", "-f", "values.yaml", "-o", "out")
    assert says in stderr
    assert fix in stderr


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("a" * 54, "53"),
        ("1abc", "letter"),
        ("Abc", "lower-case"),
        ("a_b", "'a_b'"),
        ("a.b", "'a.b'"),
        ("a-", "'a-'"),
        ("", "release name"),
        ("$(id)", "'$(id)'"),
        ("a\nb", "error: "),
    ],
)
@pytest.mark.parametrize("command", ["render", "run"])
def test_wrong_release_names(cli: Any, values: Path, command: str, name: str, says: str) -> None:
    """A name that no Service may have is refused with what is wrong about it."""
    where = ["--on", "local"] if command == "run" else ["-o", "out"]
    assert says in refusal(cli, command, name, "-f", values, *where)


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["-f", "missing.yaml"], "error: there is no file missing.yaml"),
        (["-f", "."], "error: "),
        ([], "error: no values were given"),
        (["-f", "values.yaml", "--set", "nodes=x"], "(--set nodes=x)"),
        (["-f", "values.yaml", "--set", "a[=1"], "a[=1"),
        (["-f", "values.yaml", "--set", "nodez=1"], "nodes"),
        (["-f", "values.yaml", "--set-json", "args=[1"], "args=[1"),
        (["-f", "values.yaml", "--set-file", "script=missing.py"], "missing.py"),
        (["-f", "values.yaml", "--preset", "h100-8"], "h100-8x"),
        (["-f", "values.yaml", "-n", "Bad_NS"], "Bad_NS"),
        (["-f", "values.yaml", "--inventory", "missing.yaml"], "missing.yaml"),
        (["-f", "values.yaml", "--inventory", "nodes.yaml", "--set", "gpus=32"], "16"),
        (["-f", "values.yaml", "--inventory", "nodes.yaml", "--nodes-from-cluster"], "exclude"),
        (["-f", "values.yaml", "--nodes-from-cluster"], "kubeconfig"),
        (["-f", "values.yaml", "--values.yaml"], "--values.yaml"),
        (["-f", "values.yaml", "extra"], "extra"),
        (["-f", b"\xff.yaml"], "UTF-8"),
        (["-f", "values.yaml", "--set", b"args[0]=\xff"], "UTF-8"),
    ],
)
def test_wrong_arguments(cli: Any, values: Path, args: list[str | bytes], says: str) -> None:
    """Each wrong option is named; a value given by a flag is named with its flag."""
    assert values.is_file()
    cli.write(INVENTORY, "nodes.yaml")
    assert says in refusal(cli, "render", "demo", *args, "-o", "out")


def test_a_values_file_in_place_of_the_name_is_given_with_f(cli: Any) -> None:
    """The fix names the file that was typed."""
    cli.write(RUN, "my job.yaml")
    fix = "fix: name a values file with -f 'my job.yaml'"
    assert fix in refusal(cli, "validate", "my job.yaml")
    assert "with -f values.yaml" in refusal(cli, "validate", "missing.yaml")


def test_every_problem_at_once(cli: Any) -> None:
    """All mistakes of all files are shown in one go, in the order of the file, as text and JSON."""
    cli.write(RUN + "args: [1]\ngpuss: 3\ntorchrun:\n  port: 70000\n")
    stderr = refusal(cli, "validate", "-f", "values.yaml")
    places = [line.split(" (")[-1] for line in stderr.splitlines() if line.startswith("error")]
    assert places == ["values.yaml:4)", "values.yaml:5)", "values.yaml:7)"]
    assert stderr.endswith("3 problems\n")
    process = cli("validate", "-f", "values.yaml", "-o", "json")
    data = json.loads(process.stdout)
    assert (2, 2, False, "") == (process.returncode, data["exitCode"], data["ok"], process.stderr)
    assert [problem["path"] for problem in data["problems"]] == [
        "args[0]",
        "gpuss",
        "torchrun.port",
    ]


def test_no_helm(cli: Any, values: Path, tmp_path: Path) -> None:
    """Without any helm the error says how to get one; a checkout's own is hidden for this."""
    cli.env |= {"PATH": str(tmp_path), "ALLRANKS_HELM": str(tmp_path / "helm")}
    stderr = refusal(cli, "render", "demo", "-f", values, "-o", "out")
    assert "ALLRANKS_HELM names" in stderr
    assert "install Helm 4" in stderr


@pytest.mark.parametrize("version", ["v3.10.0", "v2.17.0", "v5.0.0"])
def test_an_unsupported_helm(cli: Any, values: Path, tmp_path: Path, version: str) -> None:
    """A helm that is too old or too new is named with its version and what is supported."""
    helm = tmp_path / "helm"
    helm.write_text(f"#!/bin/sh\nprintf {version}\n")
    helm.chmod(0o755)
    stderr = refusal(cli, "render", "demo", "-f", values, "--helm", helm, "-o", "out")
    assert f"is Helm {version[1:]}, which is not supported" in stderr
    assert "Helm 4, or Helm 3 from 3.18.5" in stderr


def test_a_helm_that_fails_leaves_nothing(cli: Any, values: Path, tmp_path: Path) -> None:
    """A helm that breaks after the checks is a failure (1), and the folder is not made."""
    helm = tmp_path / "helm"
    helm.write_text(
        '#!/bin/sh\n[ "$1" = version ] && { printf v4.3.1; exit; }\n'
        'echo "Error: boom" >&2\nexit 1\n'
    )
    helm.chmod(0o755)
    before = cli.tree()
    process = cli("render", "demo", "-f", values, "--helm", helm, "-o", "out")
    assert (1, "", "error: helm failed: boom\n") == (
        process.returncode,
        process.stdout,
        process.stderr,
    )
    assert before == cli.tree()


def test_a_folder_with_someones_file(cli: Any, values: Path) -> None:
    """A render never overwrites what it did not write."""
    (cli.cwd / "out").mkdir()
    cli.write("mine\n", "out/job-demo.yaml")
    assert "belongs to you" in refusal(cli, "render", "demo", "-f", values, "-o", "out")


def test_a_folder_that_is_a_file(cli: Any, values: Path) -> None:
    """A file in the place of the output folder is refused."""
    assert "is a file" in refusal(cli, "render", "demo", "-f", values, "-o", values)


def test_a_folder_that_cannot_be_made(cli: Any, values: Path) -> None:
    """A place where no folder can be is named with the system's reason."""
    stderr = refusal(cli, "render", "demo", "-f", values, "-o", "/dev/null/out")
    assert "/dev/null/out: cannot be made: Not a directory" in stderr


def test_a_state_folder_that_is_a_file(cli: Any, values: Path) -> None:
    """A file in the place of the state folder is refused, and does not look like "no runs"."""
    process = cli("list", "--on", "local", env={"ALLRANKS_STATE": str(values)})
    assert 2 == process.returncode
    assert "is not a folder" in process.stderr


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["status", "demo", "--on", "local"], "there is no local run 'demo'"),
        (["logs", "demo", "--on", "local"], "there is no local run 'demo'"),
        (["delete", "demo", "--on", "local"], "there is no local run 'demo'"),
        (["logs", "demo", "--on", "local", "--rank", "-1"], "--rank"),
        (["status", "demo", "--on", "cluster"], "there is no kubeconfig at"),
        (["list", "--on", "local", "--context", "lab"], "--context: is for a cluster"),
        (["run", "demo", "-f", "values.yaml", "--on", "cluster"], "add"),
        (["suspend", "demo", "--on", "local"], "there is no local run 'demo'"),
        (["attach", "demo"], "there is no kubeconfig at"),
        (["wait", "demo", "--timeout", "soon"], "write 90s, 10m or 1h30m"),
        (["exec", "demo"], "command"),
        (["render", "demo", "-f", "values.yaml", "-o", ""], "--output: is empty"),
        (["validate", "-f", "values.yaml", "--set", "gpus=1.5"], "fix: write a whole number"),
        (["validate", "-f", "values.yaml", "--set", "scheduling.dialect=kueue"], "queue: empty"),
        (["run", "demo", "-f", "values.yaml", "--on", "moon"], "moon"),
        (["run", "demo", "-f", "values.yaml", "--on", "local", "--workdir", "x"], "--workdir"),
        (["init", "horovod"], "horovod"),
        (["init"], "workload"),
        (["presets", "nothing"], "there is no preset 'nothing'"),
        (["completion", "tcsh"], "tcsh"),
        (["statsu"], "did you mean `allranks status`?"),
        (["--nope"], "--nope"),
    ],
)
def test_wrong_commands(cli: Any, values: Path, args: list[str], says: str) -> None:
    """Every command says what it does not know, in the same form."""
    assert values.is_file()
    assert says.lower() in refusal(cli, *args).lower()
