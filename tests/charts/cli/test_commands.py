"""What each command prints and writes when all is well."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from allranks.cli import main
from allranks.yamlio import dump, load
from tests.conftest import find_helm

if TYPE_CHECKING:
    from collections.abc import Callable

CI = sorted((Path(__file__).parents[3] / "charts/torchrun/ci").glob("*-values.yaml"))
NASTY = [
    "$(id) `id` $HOME $$",
    "a\nb",
    "'\"\\",
    "{{ .Values }}",
    "1e-5",
    "y",
    "\U0001f600\u2028\x85",
]


def wait_for(condition: Callable[[], object], event: str) -> None:
    """Wait until something holds; fail the test after a while."""
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {event}"
        time.sleep(0.02)


def test_validate_says_what_would_run(cli: Any, values: Path) -> None:
    """One line: the workload, the size and the command."""
    process = cli("validate", "-f", values)
    assert (0, "") == (process.returncode, process.stderr)
    assert process.stdout == "ok  torchrun: 2 nodes, 2 processes: python train.py\n"


def test_validate_json(cli: Any, values: Path) -> None:
    """The same as data, with the layout."""
    data = json.loads(cli("validate", "demo", "-f", values, "-o", "json").stdout)
    assert (True, [], "torchrun", 2) == (
        data["ok"],
        data["problems"],
        data["workload"],
        data["layout"]["nodes"],
    )


def test_advice_does_not_refuse(cli: Any, values: Path) -> None:
    """What is valid but not wise is a note, also as data, and the exit code stays 0."""
    flags = ["--set", "torchrun.rdzvBackend=etcd,torchrun.rdzvEndpoint=etcd:2379"]
    process = cli("validate", "-f", values, *flags)
    assert 0 == process.returncode
    assert process.stderr.startswith(
        "note: torchrun.rdzvBackend: etcd needs python-etcd in the image"
    )
    (warning,) = json.loads(cli("validate", "-f", values, *flags, "-o", "json").stdout)["warnings"]
    assert "torchrun.rdzvBackend" == warning["path"]


def test_values_come_from_stdin_files_and_flags(cli: Any, values: Path) -> None:
    """Files in order, then the flags; standard input is a file too."""
    process = cli(
        "plan", "-f", values, "-f", "-", "--set", "procsPerNode=3", "-o", "json", stdin="nodes: 5"
    )
    layout = json.loads(process.stdout)
    assert (5, 15) == (layout["nodes"], layout["worldSize"])


def test_a_preset_from_the_command_line(cli: Any, values: Path) -> None:
    """--preset is as a preset in the file, and the file wins over it."""
    shape = json.loads(cli("presets", "h100-8x", "-o", "json").stdout)
    assert shape["nodeShape"]["gpus"] == 8
    process = cli(
        "plan", "-f", values, "--preset", "h100-8x", "--set", "nodes=0,gpus=16", "-o", "json"
    )
    assert (2, 8) == tuple(json.loads(process.stdout)[key] for key in ("nodes", "gpusPerNode"))


def test_plan_shows_a_table_and_a_picture(cli: Any, values: Path) -> None:
    """The table has a line per pod; -O writes the picture to a file and nothing else."""
    cli.write(
        "nodes:\n  - {name: a, gpus: 8, rack: r1}\n  - {name: b, gpus: 8, rack: r1}\n", "n.yaml"
    )
    flags = ["--inventory", "n.yaml", "--set", "nodes=0,gpus=16"]
    lines = cli("plan", "-f", values, *flags).stdout.splitlines()
    assert lines[1] == "nodes      2"
    assert lines[-2].split()[:5] == ["0-7", "0", "a", "r1", "8"]
    process = cli("plan", "-f", values, *flags, "-o", "svg", "-O", "plan.svg")
    assert (0, "", "") == (process.returncode, process.stdout, process.stderr)
    assert (cli.cwd / "plan.svg").read_text().startswith("<svg")
    assert cli("plan", "-f", values, *flags, "-o", "svg").stdout.startswith("<svg")
    cli("plan", "-f", values, *flags, "-o", "json", "-O", "plan.json")
    assert json.loads((cli.cwd / "plan.json").read_text())["nodes"] == 2


def test_a_long_plan_is_cut_where_a_person_reads_it(cli: Any, values: Path) -> None:
    """Of a hundred pods the table shows the first and says how many there are more."""
    out = cli("plan", "-f", values, "--set", "nodes=100").stdout
    assert out.endswith("… 60 more; -o json shows all\n")


def test_render_is_the_same_in_a_folder_and_on_stdout(cli: Any, values: Path) -> None:
    """The folder has the stream's documents, one per object; again nothing is written."""
    stream = cli("render", "demo", "-f", values, "-n", "ml").stdout
    process = cli("render", "demo", "-f", values, "-n", "ml", "-o", "out/demo")
    assert process.stdout.splitlines()[0].endswith(" written, 0 unchanged, 0 removed")
    files = sorted((cli.cwd / "out/demo").glob("*.yaml"))
    assert {
        (cli.cwd / "out/demo" / name).name for name in ("job-demo.yaml", "service-demo.yaml")
    } <= {path.name for path in files}
    for path in files:
        assert path.read_text() in stream
    kinds = {document["kind"] for document in load.load_all(stream)}
    assert len(kinds) == len(files)
    again = cli("render", "demo", "-f", values, "-n", "ml", "-o", "out/demo").stdout
    assert " 0 written" in again


def test_render_is_the_same_anywhere(cli: Any, values: Path, tmp_path: Path) -> None:
    """Another folder, locale, hash seed, time zone or HELM_* variable changes no byte."""
    first = cli("render", "demo", "-f", values)
    assert (0, "") == (first.returncode, first.stderr)
    other = {
        "LC_ALL": "C",
        "PYTHONHASHSEED": "7",
        "TZ": "Asia/Tokyo",
        "HELM_DEBUG": "true",
        "HELM_NAMESPACE": "else",
        "HOME": str(tmp_path),
    }
    (cli.cwd / "deeper").mkdir()
    cli.cwd /= "deeper"
    assert first.stdout == cli("render", "demo", "-f", values, env=other).stdout


@pytest.mark.parametrize("values_file", CI, ids=lambda path: path.name.removesuffix("-values.yaml"))
def test_helm_3_and_helm_4_render_the_same(
    values_file: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """Every scenario of the chart gives the same bytes with both majors."""
    texts = []
    for binary in (find_helm(3), find_helm(4)):
        code = main.main(["render", "demo", "-f", str(values_file), "--helm", str(binary.path)])
        assert code == 0
        texts.append(capfdbinary.readouterr().out)
    assert texts[0] == texts[1]
    assert b"PostRendererRequired" not in texts[0]


def test_every_string_arrives_as_typed(cli: Any, values: Path) -> None:
    """Shell and template characters, numbers and emoji come out of a render as they went in."""
    cli.write(dump.dump({"args": NASTY, "env": {"X": NASTY[0]}}), "more.yaml")
    process = cli("render", "demo", "-f", values, "-f", "more.yaml")
    assert process.returncode == 0, process.stderr
    (job,) = [document for document in load.load_all(process.stdout) if document["kind"] == "Job"]
    (container,) = job["spec"]["template"]["spec"]["containers"]
    # The kubelet turns `$$` into `$`.
    assert [text.replace("$", "$$") for text in NASTY] == container["args"][-len(NASTY) :]
    assert {"name": "X", "value": NASTY[0].replace("$", "$$")} in container["env"]


def test_the_starter_is_right(cli: Any) -> None:
    """What `init` prints passes every check, renders, and says how big it is."""
    starter = cli("init", "torchrun").stdout
    cli.write(starter)
    assert "2 nodes x 8 nvidia.com/gpu, 16 processes" in cli("validate", "-f", "values.yaml").stdout
    assert cli("render", "demo", "-f", "values.yaml").returncode == 0


def test_presets_are_listed(cli: Any) -> None:
    """Every preset has a name and says what it is for; each can be printed."""
    presets = json.loads(cli("presets", "-o", "json").stdout)
    assert "h100-8x" in {preset["name"] for preset in presets}
    assert all(preset["description"] for preset in presets)
    assert cli("presets").stdout.splitlines()[0].split() == ["NAME", "FOR"]
    assert "nodeShape" in cli("presets", "h100-8x").stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(cli: Any, shell: str) -> None:
    """Each shell's script asks this program; bash's is read by bash."""
    process = cli("completion", shell)
    assert f"_ALLRANKS_COMPLETE={shell}_complete" in process.stdout
    if shell == "bash":
        subprocess.run(["bash", "-n"], input=process.stdout, text=True, check=True)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("allranks va", "plain,validate"),
        ("allranks render --names", "plain,--namespace"),
        ("allranks validate --preset h100", "plain,h100-8x"),
        ("allranks plan -o s", "plain,svg"),
        ("allranks plugin in", "plain,install"),
    ],
)
def test_completion_answers(cli: Any, words: str, expected: str) -> None:
    """Commands, options, choices and presets are completed."""
    count = len(words.split()) - 1
    env = {"_ALLRANKS_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(count)}
    assert expected in cli(env=env).stdout.splitlines()


def test_kubectl_calls_it_by_its_own_name(cli: Any) -> None:
    """As kubectl's plugin the program shows the name that was typed."""
    program = Path(sys.executable).parent / "kubectl-allranks"
    process = subprocess.run(
        [program, "statsu"], capture_output=True, text=True, check=False, cwd=cli.cwd
    )
    assert "did you mean `kubectl allranks status`?" in process.stderr


def test_help_and_version(cli: Any) -> None:
    """Without a command the help is shown, and it is an error; with --help it is not."""
    bare, help_page = cli(), cli("--help")
    assert (2, "", 0, "") == (bare.returncode, bare.stdout, help_page.returncode, help_page.stderr)
    assert bare.stderr == help_page.stdout
    assert cli("--version").stdout.startswith("allranks 0.")


def test_a_reader_that_leaves_is_no_error(cli: Any, values: Path) -> None:
    """A closed pipe ends the program without a word."""
    reader, writer = os.pipe()
    os.close(reader)
    with subprocess.Popen(
        [Path(sys.executable).parent / "allranks", "render", "demo", "-f", values],
        cwd=cli.cwd,
        env=cli.environment(None),
        stdout=writer,
        stderr=subprocess.PIPE,
    ) as process:
        os.close(writer)
        _, stderr = process.communicate(timeout=100)
    assert (1, b"") == (process.returncode, stderr)


def test_an_interrupt_ends_helm_too(cli: Any, values: Path, tmp_path: Path) -> None:
    """Ctrl-C during a render: exit code 130, no message, no helm left, nothing written."""
    helm, pid = tmp_path / "helm", tmp_path / "pid"
    helm.write_text(
        '#!/bin/sh\n[ "$1" = version ] && { printf v4.3.1; exit; }\n'
        f"cat >/dev/null\necho $$ > {pid}.new; mv {pid}.new {pid}\nexec sleep 100\n"
    )
    helm.chmod(0o755)
    before = cli.tree()
    process = cli.start("render", "demo", "-f", values, "--helm", helm, "-o", "out")
    wait_for(pid.exists, "helm to start")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=100)
    assert (130, "", "") == (process.returncode, out, err.strip())
    wait_for(lambda: not Path(f"/proc/{pid.read_text().strip()}").exists(), "helm to end")
    assert before == cli.tree()


def test_doctor(cli: Any) -> None:
    """On a machine with helm but no cluster all is well, and what is missing is a warning."""
    process = cli("doctor", "-o", "json")
    assert process.returncode == 0, process.stdout
    checks = {check["name"]: check for check in json.loads(process.stdout)["checks"]}
    assert {"python": "ok", "charts": "ok", "helm": "ok", "state folder": "ok"}.items() <= {
        name: check["status"] for name, check in checks.items()
    }.items()
    assert ("warn", "warn") == (checks["cluster"]["status"], checks["post-renderer"]["status"])
    assert all(check["fix"] for check in checks.values() if check["status"] != "ok")
    assert "  fix: allranks plugin install" in cli("doctor").stdout


def test_doctor_fails_without_helm(cli: Any) -> None:
    """Without helm nothing can be rendered: that is a failure, with what to do."""
    process = cli("doctor", "--helm", "/nonexistent/helm")
    assert process.returncode == 1
    assert "fail  helm" in process.stdout
    assert "fix: install Helm 4" in process.stdout


def test_doctor_reports_a_cluster_that_does_not_answer(cli: Any) -> None:
    """A cluster that is down is told, and no wait for it goes on for ever."""
    cli.write(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
        "contexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {}}]\n"
        "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\n",
        "kubeconfig",
    )
    process = cli("doctor", "-o", "json", env={"KUBECONFIG": str(cli.cwd / "kubeconfig")})
    (cluster,) = [
        check for check in json.loads(process.stdout)["checks"] if check["name"] == "cluster"
    ]
    assert cluster["status"] == "warn"
    assert "127.0.0.1:1" in cluster["detail"]


def test_plugin_install_list_uninstall(cli: Any, helm: Any, values: Path) -> None:
    """The whole life of the plugins, and a real render through one, with both majors."""
    cli.env |= {"ALLRANKS_HELM": str(helm.path), "HELM_PLUGINS": str(cli.cwd / "plugins")}
    process = cli("plugin", "install")
    assert process.returncode == 0, process.stderr
    name = process.stdout.strip().rpartition(" ")[2]
    assert cli("plugin", "install").returncode == 0
    plugins = json.loads(cli("plugin", "list", "-o", "json").stdout)
    expected = ["allranks-postrender", "sweep"] if helm.major == 4 else ["sweep"]
    assert [(name, True) for name in expected] == [
        (plugin["name"], plugin["works"]) for plugin in plugins
    ]
    chart = Path(__file__).parents[3] / "charts" / "torchrun"
    flags = ["--set", "scheduling.dialect=kueue,queue=q", "--post-renderer", name]
    rendered = subprocess.run(
        [helm.path, "template", "demo", chart, "-f", values, *flags],
        env=cli.environment(None),
        capture_output=True,
        text=True,
        check=False,
    )
    assert rendered.returncode == 0, rendered.stderr
    assert "kueue.x-k8s.io/queue-name: q" in rendered.stdout
    doctor = json.loads(cli("doctor", "-o", "json").stdout)["checks"]
    assert {"post-renderer": "ok"}.items() <= {
        check["name"]: check["status"] for check in doctor
    }.items()
    assert cli("plugin", "uninstall").returncode == 0
    assert cli("plugin", "list", "-o", "json").stdout == "[]\n"
    assert cli("plugin", "uninstall").stdout == "nothing to remove\n"


def test_doctor_goes_on_where_helm_does_not_know_its_plugins(cli: Any) -> None:
    """Without HOME helm names no full path; that is one line of the list, with its fix."""
    process = cli("doctor", "-o", "json", env={"HOME": "", "ALLRANKS_STATE": str(cli.cwd)})
    assert 0 == process.returncode, process.stderr
    checks = {check["name"]: check for check in json.loads(process.stdout)["checks"]}
    assert {"python", "helm", "state folder", "cluster"} <= set(checks)
    assert "set HOME, or set HELM_PLUGINS to a folder" == checks["post-renderer"]["fix"]


def test_plan_keeps_the_values_that_it_reads(cli: Any) -> None:
    """-O with the values file itself is refused, and the file stays as it is."""
    cli.write("command: [python, t.py]\nimage: {repository: a/b}\n")
    process = cli("plan", "-f", "values.yaml", "-O", "values.yaml")
    assert (2, True) == (process.returncode, "it is read here" in process.stderr)
    assert "command" in (cli.cwd / "values.yaml").read_text(encoding="utf-8")
