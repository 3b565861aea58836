"""Keys and settings of who submits, in the home folder: no pod has them, which is said."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from allranks.convert.slurm import job
from allranks.convert.verdicts import Outcome

if TYPE_CHECKING:
    from allranks.convert.verdicts import Conversion, Verdict


def _convert(*rows: str) -> Conversion:
    text = "\n".join(("#!/bin/bash", "#SBATCH -n 1", *rows, ""))
    return job.convert(text.encode(), "job.sbatch")


def _of_keys(*rows: str) -> list[Verdict]:
    whys = ("keys of who submits", "its key in the home folder")
    return [verdict for verdict in _convert(*rows).verdicts if any(w in verdict.why for w in whys)]


@pytest.mark.parametrize(
    "row",
    [
        "rsync -az hpc3:/mnt/data $TMPDIR/",
        "rsync -a out me@host:out/",
        "git clone git@github.com:a/b.git",
        "git push ssh://git@host/a/b main",
        "nohup scp a host: ",
        "scp -r $DATA .",
    ],
)
@pytest.mark.parametrize("before", ["", "if true; then "])
def test_what_reaches_another_host_by_ssh_is_named(row: str, before: str) -> None:
    """A pod has no keys of who submits, so that the files are not there."""
    whole = f"{before}{row}; fi" if before else row
    [verdict] = _of_keys(whole, "python a.py")
    assert (verdict.outcome, verdict.line) == (Outcome.NOT_CARRIED, 3)


@pytest.mark.parametrize(
    "row",
    [
        "rsync -a $DATA/ /tmp/data",
        "rsync rsync://host/a b",
        "scp -r ~/data .",
        "git clone https://github.com/a/b",
        "git commit -m 'git@host:a'",
        "WANDB_MODE=offline wandb agent a/b/c",
        "export WANDB_API_KEY=$KEY; wandb login",
        "huggingface-cli login --token $T",
        "huggingface-cli download a/b",
        "wandb login $KEY",
    ],
)
def test_what_needs_no_key_at_home_is_not_named(row: str) -> None:
    """A copy on the node, an address that all may read, or a key that the script gives."""
    assert not _of_keys(row, "python a.py")


@pytest.mark.parametrize(
    ("row", "variable"),
    [
        ("wandb login", "WANDB_API_KEY"),
        ("wandb agent --count 1 $SWEEP", "WANDB_API_KEY"),
        ("huggingface-cli login", "HF_TOKEN"),
        ("kaggle datasets download a/b", "KAGGLE_KEY"),
        ("srun rclone copy remote:data data", "RCLONE_CONFIG"),
    ],
)
def test_a_program_that_looks_for_its_key_at_home_is_named(row: str, variable: str) -> None:
    """With the variable that has the key in its place, which a Secret may set."""
    [verdict] = _of_keys(row, "python a.py")
    assert verdict.outcome is Outcome.CHANGED
    assert variable in verdict.why


@pytest.mark.parametrize(
    "rows",
    [
        ("accelerate launch a.py",),
        ("srun accelerate launch --num_processes 4 a.py",),
        ("if true; then", "  python -m accelerate.commands.launch a.py", "fi"),
    ],
)
def test_settings_that_accelerate_reads_at_home_are_named(rows: tuple[str, ...]) -> None:
    """`accelerate config` wrote there how many processes there are, and their precision."""
    conversion = _convert("#SBATCH --gpus-per-node=4", *rows)
    [verdict] = [own for own in conversion.verdicts if "default_config.yaml" in own.why]
    assert (verdict.outcome, verdict.line) == (Outcome.CHANGED, 4 + (len(rows) > 1))


@pytest.mark.parametrize(
    "row",
    [
        "accelerate launch --config_file a.yaml a.py",
        "accelerate launch --multi_gpu --num_processes 4 --mixed_precision bf16 a.py",
        "accelerate launch --use_deepspeed --num-processes 4 --mixed-precision=bf16 a.py",
        "echo accelerate launch a.py\npython a.py",
    ],
)
def test_an_accelerate_that_is_told_its_settings_is_not_named(row: str) -> None:
    """By a file or by its options."""
    assert not any("default_config.yaml" in verdict.why for verdict in _convert(row).verdicts)


def test_what_is_installed_is_roots_in_an_image() -> None:
    """A pod is no root, so that pip may not write into the image's Python."""

    def whys(*rows: str) -> list[str]:
        conversion = job.convert("\n".join(["#!/bin/bash", *rows, ""]).encode(), "job")
        return [own.why for own in conversion.verdicts if "is made" in own.why]

    for row in ("pip install -r requirements.txt", "python -m pip install x", "uv pip install x"):
        assert whys(row, "python a.py"), row
    assert whys("srun pip install x", "python a.py")
    assert not whys("python -m venv /tmp/v", "source /tmp/v/bin/activate", "pip install x")
    assert not whys("pip install --target /tmp/x x", "python a.py")


@pytest.mark.parametrize(
    "rows",
    [
        ("CMD='pip install x; accelerate launch a.py'", 'srun bash -c "$CMD"'),
        ('export CMD="', "cd code", 'pip install x; python a.py"', 'srun bash -c "$CMD"'),
        ('CMD="python -m pip install x"', "$CMD", "python a.py"),
        ('CMD="pip install x"', 'eval "$CMD"', "python a.py"),
    ],
)
def test_what_the_text_of_a_variable_installs_is_roots_too(rows: tuple[str, ...]) -> None:
    """It is named with the line that has it, as one that stands in the text of a shell."""
    conversion = _convert(*rows)
    [line] = [own.line for own in conversion.verdicts if "is made" in own.why]
    assert line == next(number for number, row in enumerate(rows, 3) if "pip" in row)


def test_a_text_that_installs_and_that_nothing_runs_is_not_named() -> None:
    """It is printed, or an option of a program's."""
    conversion = _convert('CMD="pip install x"', 'echo "$CMD"', 'python a.py "$CMD"')
    assert not [own for own in conversion.verdicts if "is made" in own.why]


@pytest.mark.parametrize(
    ("rows", "is_named"),
    [
        (("python a.py --wandb --lr 1",), True),
        (("python a.py --wandb_project x",), True),
        (("python a.py --run_wandb",), True),
        (("python a.py --enable-wandb --lr 1",), True),
        (("python a.py --log-to-wandb true",), True),
        (("python a.py --use-wandb=True",), True),
        (("python a.py --report-to tensorboard,wandb",), True),
        (("python a.py --trackers wandb",), True),
        (("python a.py --report_to wandb",), True),
        (("python a.py wandb.project=x logger=wandb",), True),
        (("export WANDB_PROJECT=x", "python a.py"), True),
        (("export WANDB_PROJECT=x WANDB_MODE=offline", "python a.py"), False),
        (("export WANDB_HTTP_TIMEOUT=90", "python a.py"), True),
        (("export WANDB_RUN_ID=$(cat id.txt)", "python a.py"), True),
        (('WANDB_DIR="out/logs"', "python a.py"), True),
        (("export WANDB__SERVICE_WAIT=300", "python a.py"), True),
        ((": ${WANDB_GROUP:=a}", "python a.py"), True),
        (("export WANDB_MODE=online", "python a.py"), True),
        (("export WANDB_DIR=a WANDB_MODE=${WANDB_MODE:-disabled}", "python a.py"), False),
        (("export WANDB_DIR=a WANDB_ANONYMOUS=must", "python a.py"), False),
        (("export WANDB_MODE=dryrun", "python a.py"), False),
        (("WANDB_ON=${WANDB_ON:-0}", "python a.py"), False),
        (('WANDB_ARGS=""', "python a.py $WANDB_ARGS"), False),
        (("export WANDB_DISABLED=yes", "python a.py"), False),
        (("echo WANDB_DIR=$WANDB_DIR", "python a.py"), False),
        (("export WANDB_API_KEY=$(cat key)", "python a.py --wandb"), False),
        (("wandb login $KEY", "python a.py --wandb"), False),
        (("python a.py --no_wandb",), False),
        (("python a.py --disable_wandb",), False),
        (("python a.py --run-without-wandb",), False),
        (("python a.py --wandb-offline",), False),
        (("python a.py --use_wandb False",), False),
        (("python a.py --run_wandb=0",), False),
        (("python a.py --out a-wandb",), False),
        (("uv run --with wandb a.py",), False),
        (("python a.py --use_wandb=false",), False),
        (("python a.py wandb=False",), False),
        (("python a.py --report_to none",), False),
        (("cp -r wandb_old out", "python a.py"), False),
    ],
)
def test_a_program_that_reports_needs_its_key(rows: tuple[str, ...], *, is_named: bool) -> None:
    """Weights & Biases keeps it in ~/.netrc, where `wandb login` has written it once."""
    conversion = job.convert("\n".join(["#!/bin/bash", *rows, ""]).encode(), "job")
    whys = [own.why for own in conversion.verdicts if own.path == "wandb"]
    assert bool([why for why in whys if "netrc" in why]) is is_named


def test_the_history_of_the_folder_is_not_sent() -> None:
    """`git rev-parse --show-toplevel` fails in a pod."""

    def paths(*rows: str) -> list[str]:
        conversion = job.convert("\n".join(["#!/bin/bash", *rows, ""]).encode(), "job")
        return [own.path for own in conversion.verdicts if "not sent" in own.why]

    assert paths("ROOT=$(git rev-parse --show-toplevel)", "python $ROOT/a.py") == ["git rev-parse"]
    assert paths("git log -1 > version.txt", "python a.py") == ["git log"]
    assert not paths('echo "$(git rev-parse HEAD)"', "python a.py")
    assert not paths("git clone https://x/y", "cd y", "git log -1 > v", "python a.py")


def test_packages_of_who_submits_are_found_in_their_home_folder_alone() -> None:
    """`--prefix=/home/me/.local` is the folder of who submits, and a pod has another."""

    def whys(*rows: str) -> list[str]:
        conversion = job.convert("\n".join(["#!/bin/bash", *rows, ""]).encode(), "job")
        return [own.why for own in conversion.verdicts if own.path.endswith("/.local")]

    row = "python setup.py build develop --prefix=/cluster/home/me/.local"
    assert "PYTHONUSERBASE" in whys(row, "python a.py")[0]
    assert not any("PYTHONUSERBASE" in why for why in whys("export PYTHONUSERBASE=/x", row))


def test_an_empty_key_is_none() -> None:
    """`export WANDB_API_KEY=""`: the key is that of ~/.netrc, and nobody can read a secret."""
    text = '#!/bin/bash\nexport WANDB_API_KEY=""\nexport WANDB_PROJECT=a\nsrun -n2 python a.py\n'
    conversion = job.convert(text.encode(), "job")
    assert any(own.path == "wandb" for own in conversion.verdicts)
    assert not any("looks like a secret" in note for note in conversion.notes)


@pytest.mark.parametrize("directive", ["#SBATCH -n 1", "#SBATCH -N 2 --ntasks-per-node=1"])
@pytest.mark.parametrize(
    ("row", "file"),
    [
        ("export $(cat .env | grep KEY | xargs)", ".env"),
        ("if [ -f .env ]; then export $(grep -v '^#' .env | xargs); fi", ".env"),
        ("export $(xargs <conf/.env.local)", "conf/.env.local"),
        ("export `cat .env`", ".env"),
        ('eval "$(sed s/^/export/ .env)"', ".env"),
        ("source <(grep KEY .env)", ".env"),
        ("export $(cat conf/prod.env)", "conf/prod.env"),
    ],
)
def test_a_file_of_variables_whose_lines_are_exported_is_not_sent(
    row: str, file: str, directive: str
) -> None:
    """As one that is sourced, it may set what a later line reads."""
    text = f"#!/bin/bash\n{directive}\n{row}\nsrun python a.py $API_KEY\n"
    conversion = job.convert(text.encode(), "job.sbatch")
    [verdict] = [own for own in conversion.verdicts if "does not send such a file" in own.why]
    assert (file, 3, Outcome.CHANGED) == (verdict.path, verdict.line, verdict.outcome)
    [verdict] = [own for own in conversion.lost if own.path == "$API_KEY"]
    assert verdict.why.startswith(f"the file {file} (line 3) may set it")


@pytest.mark.parametrize(
    "row", ["export KEY=$(cat .env)", "export $(hostname)", "cat .env", 'export "$(printf A=b)"']
)
def test_a_line_that_exports_no_lines_of_a_file_sets_no_other_variable(row: str) -> None:
    """It sets one, shows the file, or exports what a program prints."""
    conversion = _convert(row, "python a.py $API_KEY")
    assert not any("such a file" in own.why for own in conversion.verdicts)
    [verdict] = [own for own in conversion.lost if own.path == "$API_KEY"]
    assert verdict.why.startswith("the script does not set it")


def test_variables_of_a_file_of_the_folder_may_be_set() -> None:
    """It is sent, so that its lines are there in a pod."""
    conversion = _convert("export $(xargs <conf/a.txt)", "python a.py $API_KEY")
    assert not any("such a file" in own.why for own in conversion.verdicts)
    [verdict] = [own for own in conversion.lost if own.path == "$API_KEY"]
    assert verdict.why.startswith("the file conf/a.txt (line 3) may set it")


@pytest.mark.parametrize(
    ("rows", "is_named"),
    [
        (("python a.py --push_to_hub",), True),
        (("python a.py \\", "  --push_to_hub True \\", "  --x 1"), True),
        (("python a.py --push-to-hub=true",), True),
        (("python a.py --push_to_hub False",), False),
        (("python a.py --push_to_hub=no",), False),
        (("python a.py --no-push-to-hub",), False),
        (("export HF_TOKEN=$(cat /secret)", "python a.py --push_to_hub"), False),
        (("huggingface-cli login --token $T", "python a.py --push_to_hub"), False),
        (("# python a.py --push_to_hub", "python a.py"), False),
    ],
)
def test_a_program_that_publishes_its_model_needs_the_hubs_key(
    rows: tuple[str, ...], *, is_named: bool
) -> None:
    """It is in the cache folder of who submits otherwise."""
    text = "\n".join(("#!/bin/bash", "#SBATCH -n 1", *rows, ""))
    verdicts = job.convert(text.encode(), "job").verdicts
    assert is_named is any(verdict.path == "--push_to_hub" for verdict in verdicts)


@pytest.mark.parametrize(
    ("file", "is_sent"),
    [
        ("configs/site.env", False),
        ("$ROOT/Prod.ENV", False),
        (".env-a100", False),
        (".envrc", False),
        (".env.example", True),
        ("prod.env.sh", True),
    ],
)
def test_a_file_of_variables_is_that_which_is_not_sent(file: str, *, is_sent: bool) -> None:
    """By the rule for what is sent: another was told to be in the image."""
    for row in (f"source {file}", f"if [ -f {file} ]; then . {file}; fi"):
        text = f"#!/bin/bash\n#SBATCH -n 1\nROOT=$PWD\n{row}\npython a.py $API_KEY\n"
        verdicts = job.convert(text.encode(), "job.sbatch").verdicts
        whys = [own.why for own in verdicts if own.line == 4 and own.why]
        assert [is_sent] == ["does not send such a file" not in why for why in whys]


@pytest.mark.parametrize(
    ("rows", "line"),
    [
        (("ollama serve &", "python a.py"), 2),
        (("ollama serve &", "ollama pull m", "python a.py"), 0),
        (("export OLLAMA_MODELS=/data/m", "ollama serve &", "python a.py"), 0),
        (("ollama create m -f f", "ollama run m"), 0),
    ],
)
def test_models_of_ollama_are_at_home(rows: tuple[str, ...], line: int) -> None:
    """A pod has none, but for those that the script gets or names a folder of."""
    text = "\n".join(("#!/bin/bash", *rows, ""))
    verdicts = job.convert(text.encode(), "a.sbatch").verdicts
    assert [v.line for v in verdicts if "~/.ollama" in v.why] == [line] * bool(line)


@pytest.mark.parametrize("host", ["ghp_a1B2c3@github.com", "github_pat_1a@github.com"])
def test_a_token_in_an_address_is_a_secret(host: str) -> None:
    """All who may read the run's objects can read it."""
    text = f"#!/bin/bash\ngit clone https://{host}/a/b\npython a.py\n"
    assert any("a secret" in note for note in job.convert(text.encode(), "a.sbatch").notes)


def test_an_accelerate_that_is_not_told_how_ranks_are_joined_is_named() -> None:
    """Its settings may have DeepSpeed or FSDP, also where a line says how many ranks there are."""
    row = "accelerate launch --num_processes 4 --num_machines 1 --mixed_precision bf16 a.py"
    assert any("default_config.yaml" in verdict.why for verdict in _convert(row).verdicts)


@pytest.mark.parametrize(
    "row",
    ["singularity run --nv a.sif wandb agent me/a", "apptainer exec a.sif huggingface-cli login"],
)
def test_a_key_that_a_program_in_a_container_looks_for_is_named(row: str) -> None:
    """Singularity mounts the home folder by itself."""
    assert any("looks for its key in the home folder" in own.why for own in _convert(row).verdicts)


@pytest.mark.parametrize(
    "value", ["$(cat ./wandb_key.txt)", '"$(<wandb_key.txt)"', "`cat keys/wandb.txt`"]
)
@pytest.mark.parametrize("before", ["export ", ""])
def test_a_key_that_is_read_from_a_file_is_named(value: str, before: str) -> None:
    """Git ignores such a file as a rule, so that it is not sent."""
    conversion = _convert(f"{before}WANDB_API_KEY={value}", "python a.py")
    [verdict] = [own for own in conversion.verdicts if "one of a key" in own.why]
    assert (verdict.outcome, verdict.line) == (Outcome.NOT_CARRIED, 3)


@pytest.mark.parametrize("row", ["SEED=$(cat seed.txt)", "MONKEY=$(cat a.txt)", "KEY=$(./get k)"])
def test_a_file_that_is_no_key_is_not_named(row: str) -> None:
    """What a program prints, and what has another name, is none."""
    assert not [own for own in _convert(row, "python a.py").verdicts if "of a key" in own.why]


@pytest.mark.parametrize(
    ("row", "names"),
    [
        ("export HF_TOKEN=${HF_TOKEN:-}", ["$HF_TOKEN"]),
        ('export OPENAI_API_KEY="${OPENAI_API_KEY:-""}"', ["$OPENAI_API_KEY"]),
        ("export A=${A:-}", []),
        ("export HF_TOKEN=${HF_TOKEN:-$(cat key)}", []),
        ("export TOKENIZERS_PARALLELISM=${TOKENIZERS_PARALLELISM:-}", []),
    ],
)
def test_a_key_that_who_submits_may_have_is_named(row: str, names: list[str]) -> None:
    """The script goes on without, and the program ends where it needs it."""
    verdicts = _convert(row, "python a.py").verdicts
    assert names == [v.path for v in verdicts if "may have it in the environment" in v.why]


@pytest.mark.parametrize("value", ["${WANDB_API_KEY:-}", '"${WANDB_API_KEY:-}"', ""])
def test_no_key_for_reports_is_no_key(value: str) -> None:
    """An empty text in its place leaves wandb with the ~/.netrc of who submits."""
    rows = (f"export WANDB_API_KEY={value}", "python a.py --use-wandb")
    assert "wandb" in [verdict.path for verdict in _convert(*rows).verdicts]


def test_a_profile_of_a_cloud_is_named() -> None:
    """Botocore fails where its name is in no file, whatever keys there are."""
    for row, is_lost in (("export AWS_PROFILE=team", True), ("export AWS_REGION=eu", False)):
        text = f"#!/bin/bash\n#SBATCH -N 2\n{row}\nsrun python a.py\n"
        lost = {verdict.path for verdict in job.convert(text.encode(), "a.sh").lost}
        assert is_lost == ("AWS_PROFILE=team" in lost)
