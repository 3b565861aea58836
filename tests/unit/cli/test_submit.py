"""What `submit` makes of a command line: the command, the values, and a name."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest

from allranks.cli import kubectl_torchrun, pasteable
from allranks.cli import main as main_module
from allranks.cli.commands import run, submit
from allranks.cli.console import Console
from allranks.cli.main import main
from allranks.cli.workspace import WorkspaceFlags
from allranks.errors import InputError, NameTakenError
from allranks.service import workspace
from allranks.values.sources import Sources, load_sources


def parse(*words: str) -> dict[str, Any]:
    """The parameters of a command line of `submit`."""
    context = submit.submit_command.make_context("submit", list(words))
    return context.params


@pytest.mark.parametrize(
    ("words", "name", "command"),
    [
        (["--", "python", "train.py"], "", ("python", "train.py")),
        (["demo", "--", "python", "-c", "a b"], "demo", ("python", "-c", "a b")),
        (
            ["--gpus", "2", "demo", "--", "x", "--", "--gpus", "3"],
            "demo",
            ("x", "--", "--gpus", "3"),
        ),
        (["demo"], "demo", ()),
    ],
)
def test_all_after_the_dashes_is_the_command(
    words: list[str], name: str, command: tuple[str, ...]
) -> None:
    """Word for word, whatever options it has itself; the name stands before."""
    params = parse(*words)
    assert (name, command) == (params["name"], params["command"])


def test_a_command_without_dashes_is_refused_with_how_to_write_it() -> None:
    """Its first word would be the name of the run."""
    with pytest.raises(InputError, match=r"'train.py' is neither an option") as caught:
        parse("python", "train.py")
    assert "write the command after --" in caught.value.problem.hint


def values(job: submit.Job, *sets: str, workload: str = "torchrun") -> dict[str, Any]:
    """The merged values of a job."""
    sources = Sources(
        files=("f.yaml",),
        contents={"f.yaml": b"image: {repository: a, digest: x}\nargs: [--old]\ngpus: 1\n"},
        sets=tuple(("set", text) for text in sets),
    )
    return load_sources(replace(sources, options=job.value_options(), workload=workload)).values


def test_options_come_on_top_of_the_files() -> None:
    """The command replaces the words of the file; an image replaces all parts of the other."""
    job = submit.Job(("python", "train.py"), 16, None, ("A=b=c",), "reg:5000/my/trainer:1.0")
    merged = values(job)
    assert (["python", "train.py"], [], 16, "torchrun") == (
        merged["command"],
        merged["args"],
        merged["gpus"],
        merged["workload"],
    )
    assert {"A": "b=c"} == merged["env"]
    image = {key: merged["image"][key] for key in ("repository", "tag", "digest")}
    assert {"repository": "reg:5000/my/trainer", "tag": "1.0", "digest": ""} == image
    assert 4 == values(job, "gpus=4")["gpus"]


def test_a_value_says_which_option_it_came_from() -> None:
    """Problems name what was typed."""
    sources = Sources(options=submit.Job(("python",), 3).value_options(), workload="torchrun")
    loaded = load_sources(sources)
    assert ("--gpus 3", "-- python") == (loaded.where(("gpus",)), loaded.where(("command", 0)))


def test_values_may_name_another_workload() -> None:
    """Torchrun is what nobody has to name."""
    sources = Sources(sets=(("set", "workload=mpi"),), workload="torchrun")
    assert "mpi" == load_sources(sources).workload


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1A=b", "begins with a digit"),
        ("A", "'A' has no value"),
        ("=b", "nothing stands before the ="),
        ("", "nothing stands before the ="),
    ],
)
def test_a_variable_has_a_name_and_a_value(text: str, words: str) -> None:
    """Anything else is refused, with how it is written."""
    with pytest.raises(InputError, match=words) as caught:
        submit.Job(env=(text,)).value_options()
    assert "--env" in caught.value.problem.hint


def test_a_token_is_refused_and_not_repeated() -> None:
    """It belongs in a Secret; the message does not show it."""
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2
    with pytest.raises(InputError, match="looks like") as caught:
        submit.Job(env=(f"TOKEN={token[:40]}",)).value_options()
    assert "secretKeyRef" in caught.value.problem.hint
    assert token[:20] not in str(caught.value)


@pytest.mark.parametrize("form", ["{}", "--token={}", "python t.py --token {}"])
def test_a_token_in_the_command_is_refused_and_not_repeated(form: str) -> None:
    """As in --env: whoever reads the run's objects would read it."""
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2
    command = ("python", "train.py", form.format(token[:40]))
    with pytest.raises(InputError, match="word 3 of the command looks like") as caught:
        submit.Job(command).value_options()
    assert "secretKeyRef" in caught.value.problem.hint
    assert token[:20] not in str(caught.value)


def name_of(*command: str, folder: str = "/x/My Project", digest: str = "sha256:1") -> str:
    """The name that is found for a command in a folder."""
    packed: Any = SimpleNamespace(snapshot=SimpleNamespace(folder=Path(folder), digest=digest))
    return submit._name_of({"command": list(command)}, {"command": list(command)}, packed)


@pytest.mark.parametrize(
    ("command", "stem"),
    [
        (("python", "train.py"), "train"),
        (("python", "-u", "src/Fine_Tune.py", "--lr", "1"), "fine-tune"),
        (("python", "-m", "my.pkg.evaluate"), "evaluate"),
        (("python", "-m", "pkg.__main__"), "pkg"),
        (("./bin/bench", "x"), "bench"),
        (("bash", "-c", "echo"), "my-project"),
        (("sh", "-c", "cd src && python train.py --lr 1"), "train"),
        ((), "my-project"),
        (("python", "1.py"), "my-project"),
    ],
)
def test_a_name_says_what_runs(command: tuple[str, ...], stem: str) -> None:
    """The script, the module or the program; else the folder. Four digits tell runs apart."""
    name, _, digits = name_of(*command).rpartition("-")
    assert (stem, 4) == (name, len(digits))


def test_the_same_job_has_the_same_name() -> None:
    """Other code or another command has another one."""
    first = name_of("python", "train.py")
    assert first == name_of("python", "train.py")
    assert first != name_of("python", "train.py", "--lr", "1")
    assert first != name_of("python", "train.py", digest="sha256:2")


def test_a_name_that_is_taken_is_numbered() -> None:
    """From 2, and the first that is free."""
    assert "a" == submit._free("a", ["b"])
    assert "a-3" == submit._free("a", ["a", "a-2", "a-4"])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("python train.py --lr 1e-5", ("python", "train.py", "--lr", "1e-5")),
        ("python 'a b.py' \"c d\"", ("python", "a b.py", "c d")),
        ("echo '$HOME' a\\;b", ("echo", "$HOME", "a;b")),
        ("cd x && python t.py", ("sh", "-c", "cd x && python t.py")),
        ("A=1 python t.py", ("sh", "-c", "A=1 python t.py")),
        ('echo "$HOME"', ("sh", "-c", 'echo "$HOME"')),
    ],
)
def test_the_text_of_a_torchrun_command(text: str, words: tuple[str, ...]) -> None:
    """Words where there is nothing else; a shell where only a shell understands it."""
    assert words == kubectl_torchrun.words_of(text)


def test_a_quote_that_is_not_closed_is_said() -> None:
    """With the fix."""
    with pytest.raises(InputError, match="cannot be read"):
        kubectl_torchrun.words_of("echo 'x")


@pytest.mark.parametrize("name", ["submit", "get", "logs", "delete"])
def test_commands_of_kubectl_torchrun_have_examples(name: str) -> None:
    """As all commands have."""
    context = click.Context(kubectl_torchrun.torchrun)
    command = kubectl_torchrun.torchrun.get_command(context, name)
    assert command is not None
    assert "Example:" in (command.help or "")
    assert name in kubectl_torchrun.torchrun.list_commands(context)


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        ("submit python train.py --epochs 10", "option --epochs", "within its quotes"),
        ("submit --setup-command x y", "option --setup-command", "--set-string setup="),
        ("submit --backend nccl y", "option --backend", "init_process_group"),
        ("submit --on local", "command is missing", 'submit --gpus 8 "python train.py"'),
        ("describe torchrunjob x", "command 'describe'", "kubectl torchrun get NAME"),
        ("sync x", "command 'sync'", "allranks sync"),
        ("nonsense", "command 'nonsense'", "--help"),
        ("get -w", "option -w", "allranks top"),
        ("get torchrunqueues", "names queues", "allranks queue list"),
        ("logs -l torchrun-job-name=x", "option -l", "kubectl torchrun logs NAME"),
        ("submit --numnodes 2 x", "--numnodes", "--help"),
        ('submit --on local ""', "command is empty", 'kubectl torchrun submit --gpus 8 "python'),
        ("logs nothere --on local", "no local run", "`kubectl torchrun get --on local`"),
        (
            "logs tj/nothere --on local -n lab",
            "no local run",
            "`kubectl torchrun get --on local -n lab`",
        ),
        ('submit --on local -q "" y', "--queue: is empty", "leave the flag out"),
    ],
)
def test_words_of_other_tools_are_refused_with_what_to_write(
    capsys: pytest.CaptureFixture[str], words: str, message: str, hint: str
) -> None:
    """Fields of a TorchrunJob, kubectl's options, and a command without its quotes."""
    assert 2 == kubectl_torchrun.main(shlex.split(words))
    error, _, fix = capsys.readouterr().err.partition("fix:")
    assert message in error
    assert hint in " ".join(fix.split())


def test_commands_of_allranks_carry_the_place_of_kubectl_torchrun() -> None:
    """They are of another program than the words that were typed."""
    typed = ("logs", "x", "-n", "research")
    fix = "`allranks status x` shows it"
    expected = "`allranks status x -n research` shows it"
    assert expected == main_module.pasteable(
        kubectl_torchrun.torchrun, typed, fix, commands=main_module.cli
    )


def test_kubectl_torchrun_names_its_own_commands(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """In fixes and in the lines behind what it has started; what it has not stays of allranks."""
    monkeypatch.setenv("HOME", str(tmp_path))
    assert 2 == kubectl_torchrun.main(["logs", "nope", "--on", "local"])
    assert "fix: `kubectl torchrun get --on local` shows" in capsys.readouterr().err
    root, console = kubectl_torchrun.torchrun, Console()
    context = click.Context(root, obj=console)
    root.resolve_command(context, ["submit", "-n", "lab"])
    for command in ("attach demo", "delete demo", "show demo"):
        console.command(f"allranks {command}")
    assert [
        "kubectl torchrun logs --follow demo -n lab",
        "kubectl torchrun delete demo -n lab",
        "allranks show demo -n lab",
    ] == [line.strip() for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize("words", ["x", "torchrunjob x", "tj/x", "TorchrunJobs.torchrun.ai/x"])
@pytest.mark.parametrize("command", ["get", "logs", "delete"])
def test_a_run_may_be_named_after_its_kind(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    command: str,
    words: str,
) -> None:
    """As kubectl has it: `get torchrunjobs NAME`, `delete tj/NAME`."""
    monkeypatch.setenv("ALLRANKS_STATE", str(tmp_path))
    assert 2 == kubectl_torchrun.main([command, *words.split(), "--on", "local"])
    assert "there is no local run 'x'" in capsys.readouterr().err


def test_all_runs_may_be_named_by_their_kind(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`get torchrunjobs` is `get`."""
    monkeypatch.setenv("ALLRANKS_STATE", str(tmp_path))
    assert 0 == kubectl_torchrun.main(["get", "torchrunjobs", "--on", "local"])
    assert "there are no runs" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    ["--num-nodes 2 --name demo", "--nodes 2 --job-name demo"],
)
def test_the_size_and_the_name_have_both_words(words: str) -> None:
    """Those of a TorchrunJob's fields, and those of `allranks submit`."""
    command = kubectl_torchrun.torchrun.get_command(
        click.Context(kubectl_torchrun.torchrun), "submit"
    )
    assert command is not None
    params = command.make_context("submit", [*words.split(), "python train.py"]).params
    assert (2, "demo") == (params["nodes"], params["name"])


def test_the_words_of_the_command_are_no_name_of_a_run() -> None:
    """A message that is completed with the run's name does not take a word of the command."""
    root = click.Group(commands={"submit": submit.submit_command})
    parts = pasteable.read_command_line(root, ["submit", "-n", "lab", "--", "python", "-n", "x"])
    assert ("", ("lab",)) == (parts.name, parts.options["namespace"])


@pytest.mark.parametrize("where", ["here", "cluster"])
@pytest.mark.parametrize("name", ["", "mine"])
def test_a_name_that_somebody_takes_meanwhile_is_numbered(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, where: str, name: str
) -> None:
    """Here as on a cluster; a name that the person chose stays, and is refused."""
    tried: list[str] = []

    def start(_console: Any, _ready: Any, release: str, *_: Any, **__: Any) -> int:
        tried.append(release)
        if len(tried) == 1:
            raise NameTakenError(f"{release} goes on")
        return 0

    (tmp_path / "train.py").touch()
    monkeypatch.setattr(run, "run_here", start)
    monkeypatch.setattr(run, "run_on_cluster", start)
    monkeypatch.setattr(submit, "_run_names", lambda *_: ())
    on_cluster = SimpleNamespace(namespace="lab")
    there = on_cluster if where == "cluster" else None
    target: Any = SimpleNamespace(on="", local_namespace="lab", cluster_target=lambda _: there)
    job = submit.Job(("python", "train.py"), nodes=1, image="a")
    words: Any = (Console(), job, Sources(), WorkspaceFlags(str(tmp_path)), target)
    if name:
        with pytest.raises(NameTakenError):
            submit.submit(*words, run_options=run.RunOptions(), name=name)
        assert ["mine"] == tried
        return
    assert 0 == submit.submit(*words, run_options=run.RunOptions(), name=name)
    assert f"{tried[0]}-2" == tried[1]


QUEUE = Path(__file__).parents[3] / "examples/queue-team/queue.yaml"


def dry_run(tmp_path: Path, *words: object) -> int:
    """The exit code of a dry run of a folder, without any kubeconfig."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code/train.py").touch()
    options = ("--workspace", tmp_path / "code", "--dry-run", *words)
    return main(["submit", *map(str, options), "--", "python", "train.py"])


@pytest.fixture
def _no_kubeconfig(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.mark.usefixtures("_no_kubeconfig")
@pytest.mark.parametrize(
    ("where", "code", "words"),
    [
        ((), 2, "rules.maxGpusPerJob"),
        (("--on", "local"), 0, "are about a cluster: a run of this machine is held to none"),
    ],
)
def test_a_dry_run_with_a_queue_is_held_to_its_rules(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    where: tuple[str, ...],
    code: int,
    words: str,
) -> None:
    """With and without a cluster; where this machine is named, what is left out is said."""
    assert code == dry_run(tmp_path, "-q", "h100", "--queue-file", QUEUE, "--gpus", 64, *where)
    assert words in " ".join(capsys.readouterr().err.split())


@pytest.mark.usefixtures("_no_kubeconfig")
def test_a_dry_run_shows_the_way_that_the_values_ask_for(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Also where no kubeconfig names the cluster yet."""
    sets = ("--set", "workspace.via=image", "--set", "workspace.registry=registry.example/code")
    assert 0 == dry_run(tmp_path, *sets, "--image", "a", "--nodes", 1)
    out, err = capsys.readouterr()
    assert "by        image: " in out
    assert "registry.example/code: it would be pushed there" in out
    assert "workspace.via is of one" in err


@pytest.mark.usefixtures("_no_kubeconfig")
@pytest.mark.parametrize(
    ("words", "error"),
    [
        ("submit {} --gpus 12 --set gpusPerNode=8 -- python train.py", "12 GPUs are no multiple"),
        ("sweep run s torchrun {} --set-range gpus=1,2 --set nodes=-1", "nodes: -1 is"),
    ],
    ids=["submit", "sweep"],
)
def test_values_are_checked_before_a_folder_is_packed(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: str,
    error: str,
) -> None:
    """Packing may take long, and a wrong value is known at once."""
    monkeypatch.setattr(workspace, "pack", lambda *_, **__: pytest.fail("it was packed"))
    assert 2 == main(shlex.split(words.format(f"--on local --workspace {tmp_path}")))
    assert error in capsys.readouterr().err


@pytest.mark.usefixtures("_no_kubeconfig")
def test_a_queue_says_how_the_code_of_its_jobs_goes(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Where to, and where pods have it; a job's own word still counts, as for every default."""
    queue = tmp_path / "h100.yaml"
    workspace = "{via: image, registry: registry.example/team, claim: code, mountPath: /code}"
    queue.write_text(f"defaults: {{workspace: {workspace}}}\n")
    words = ("--queue-file", queue, "--image", "a", "--nodes", 1)
    assert 0 == dry_run(tmp_path, *words)
    assert "registry.example/team: it would be pushed there" in capsys.readouterr().out
    (tmp_path / "code").rename(tmp_path / "before")
    assert 0 == dry_run(tmp_path, *words, "--set", "workspace.via=pvc")
    assert "code: it would be written there" in capsys.readouterr().out


@pytest.mark.usefixtures("_no_kubeconfig")
@pytest.mark.parametrize(
    ("words", "fix"),
    [
        ("status x --on nowhere", "write --on local or --on cluster"),
        ("submit --gpus abc", "write a whole number, as in --gpus 8"),
        ("submit --nodes 0", "write 1 or more; `allranks submit --help` shows"),
        ("submit --gpus -- true", "write what it is to be behind --gpus"),
        ("submit --env =3 -- true", "write --env NAME=value"),
        (
            "submit --image a --nodes 1 --set workspace.mountPath=// --dry-run -- true",
            "use /app",
        ),
        ("submit --image 'x y' --nodes 1 --dry-run -- true", "such as ghcr.io/my/trainer"),
        (
            "submit --set workspace.registry=http://x/y:1 --image a --nodes 1 --dry-run -- true",
            "workspace.registry=x/y",
        ),
    ],
)
def test_the_fix_of_a_wrong_option_is_one(
    capsys: pytest.CaptureFixture[str], words: str, fix: str
) -> None:
    """It says what to write, and nothing that would be wrong as well."""
    assert 2 == main(shlex.split(words))
    hint = " ".join(capsys.readouterr().err.partition("fix:")[2].split())
    assert fix in hint
    assert "x_y" not in hint
