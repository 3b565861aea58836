"""Python of an environment in the folder that is sent, and what Hugging Face reads at home."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from allranks.convert.slurm import job

if TYPE_CHECKING:
    from allranks.convert.verdicts import Conversion


def _convert(*rows: str) -> Conversion:
    return job.convert("\n".join(["#!/bin/bash", *rows, ""]).encode(), "job")


def _whys(conversion: Conversion, path: str) -> list[str]:
    return [verdict.why for verdict in conversion.verdicts if verdict.path == path]


@pytest.mark.parametrize(
    ("rows", "program"),
    [
        ((".venv/bin/python train.py",), ".venv/bin/python"),
        (("./env/bin/accelerate launch train.py",), "./env/bin/accelerate"),
        (("exec $SLURM_SUBMIT_DIR/env/bin/python3 train.py",), "$SLURM_SUBMIT_DIR/env/bin/python3"),
        (("PY=.venv/bin/python", "$PY train.py"), "$PY"),
        (('PY="${OWN:-$SLURM_SUBMIT_DIR/v/bin/python}"', '"$PY" train.py'), "$PY"),
        (("srun .venv/bin/python train.py",), ".venv/bin/python"),
        (('env A=1 ${P:+P="$P"} .venv/bin/python -m a',), ".venv/bin/python"),
    ],
)
def test_an_environment_in_the_folder_is_named(rows: tuple[str, ...], program: str) -> None:
    """It is of the old cluster's Python, and stays out of what is sent, as what it is called."""
    [why] = _whys(_convert("#SBATCH -n 1", *rows), program)
    assert "old cluster's Python" in why
    assert ("`.venv` is not sent" in why) is any(".venv" in row for row in rows)


@pytest.mark.parametrize("directive", ["#SBATCH -n 1", "#SBATCH -N 2 --ntasks-per-node=1"])
@pytest.mark.parametrize(
    ("path", "words"),
    [
        (".venv/bin/activate", "`.venv` is not sent"),
        ("./env/bin/activate", "old cluster's Python, and is not sent"),
        ("$SLURM_SUBMIT_DIR/sub/.venv/bin/activate", "`.venv` is not sent"),
        ("$ROOT/env/bin/activate", "old cluster's Python, and is not sent"),
        ("/opt/env/bin/activate", "or in a volume at that path"),
        ("$HOME/.venv/bin/activate", "or in a volume at that path"),
    ],
)
def test_an_environment_in_the_folder_is_not_activated(
    path: str, words: str, directive: str
) -> None:
    """No volume has it at its path, as the folder comes without it."""
    for row in (f"source {path}", f"[ -f a ] && . {path}"):
        verdicts = _convert(directive, "ROOT=$PWD", row, "srun python a.py").verdicts
        [why] = [own.why for own in verdicts if own.line == 4 and "must be in the image" in own.why]
        assert words in why
    step = f'srun bash -c "source {path} && python a.py"'
    assert any(words in own.why for own in _convert(directive, "ROOT=$PWD", step).verdicts)


def test_an_environment_in_another_folder_is_none_of_that_which_is_sent() -> None:
    """The script goes there, or the text of a shell does; or conda finds it by its name."""
    for rows in (
        ("cd /data", "source .venv/bin/activate", "srun python a.py"),
        ("source activate env", "srun python a.py"),
        ("srun bash -c 'cd /data; source .venv/bin/activate; python a.py'",),
    ):
        verdicts = _convert("#SBATCH -n 1", *rows).verdicts
        assert any("or in a volume at that path" in own.why for own in verdicts)


@pytest.mark.parametrize(
    "rows",
    [
        ("python -m venv .venv", ".venv/bin/python train.py"),
        ("uv sync", ".venv/bin/python train.py"),
        ("bin/train train.py",),
        ("python train.py --python .venv/bin/python",),
    ],
)
def test_an_environment_that_the_script_makes_is_there(rows: tuple[str, ...]) -> None:
    """Nor is a program of the folder's own, or a word of another program, such an environment."""
    conversion = _convert("#SBATCH -n 1", *rows)
    assert not any("old cluster's Python" in verdict.why for verdict in conversion.verdicts)


def test_models_that_are_read_at_home_are_named() -> None:
    """Offline, Hugging Face's libraries read the cache of who submits, unless a folder is named."""
    rows = ("export HF_HUB_OFFLINE=1", "python a.py")
    assert "HF_HOME" in _whys(_convert("#SBATCH -n 1", *rows), "HF_HUB_OFFLINE=1")[0]
    for other in ("export HF_HOME=/opt/hf", "export TRANSFORMERS_CACHE=/opt/hf"):
        assert not _whys(_convert("#SBATCH -n 1", other, *rows), "HF_HUB_OFFLINE=1")
    for row in ("HF_HUB_OFFLINE=1 python a.py", "env HF_HUB_OFFLINE=1 python a.py"):
        assert _whys(_convert("#SBATCH -n 1", row), "HF_HUB_OFFLINE=1")
        assert not _whys(_convert("#SBATCH -n 1", f"HF_HOME=/d {row}"), "HF_HUB_OFFLINE=1")
    off = _convert("#SBATCH -n 1", "export HF_HUB_OFFLINE=0", "python a.py")
    assert not _whys(off, "HF_HUB_OFFLINE=0")


def test_modules_that_a_pod_has_no_use_for_ask_nothing_of_the_image() -> None:
    """Slurm's programs are left out, and what starts a container is the pod."""
    for modules, is_needed in (
        ("slurm/20.11", False),
        ("apptainer", False),
        ("singularity/3.8 cuda", True),
        ("cuda/12", True),
    ):
        why = _whys(
            _convert("#SBATCH -n 1", f"module load {modules}", "python a.py"),
            f"module load {modules}",
        )
        assert ("must be in the image" in why[0]) is is_needed, modules


def test_a_file_in_a_folder_that_is_not_sent_is_not_called_sent() -> None:
    """`source venv/activate.sh`: a folder of that name stays out, whatever lies in it."""
    for path, is_sent in (("venv/activate.sh", False), ("env.sh", True), ("lib/env.sh", True)):
        text = f"#!/bin/bash\n#SBATCH -n 1\nsource {path}\npython a.py\n"
        verdicts = job.convert(text.encode(), "job").verdicts
        (own,) = (verdict for verdict in verdicts if path in verdict.path)
        assert is_sent is ("the file is in the folder" in own.why)


@pytest.mark.parametrize(
    ("rows", "is_named"),
    [
        (("V=/var/tmp/me/venvs", '"$V/a/bin/python" train.py'), True),
        (("/tmp/env/bin/torchrun --standalone train.py",), True),
        (("python -m venv /tmp/env", "/tmp/env/bin/python train.py"), False),
        (("/tmp/train.sh",), False),
    ],
)
def test_a_program_in_a_folder_of_a_node_is_named(rows: tuple[str, ...], *, is_named: bool) -> None:
    """No pod has that node's disk."""
    verdicts = _convert("#SBATCH -n 1", *rows).verdicts
    assert is_named is any("one node" in verdict.why for verdict in verdicts)


def test_any_program_of_an_environment_that_is_called_so_is_named() -> None:
    """`.venv/bin/train` is a program of the project, which the environment has."""
    assert _whys(_convert("#SBATCH -n 1", "exec .venv/bin/train --lr 1"), ".venv/bin/train")
    assert not _whys(_convert("#SBATCH -n 1", "bin/train --lr 1"), "bin/train")


@pytest.mark.parametrize("folder", [".", "./", "$SLURM_SUBMIT_DIR"])
def test_a_job_that_starts_in_its_own_folder_has_the_environment_there(folder: str) -> None:
    """`-D ./` is where it starts without it."""
    rows = (f"#SBATCH -D {folder}", "source .venv/bin/activate", "source env.sh", "python a.py")
    conversion = _convert("#SBATCH -n 1", *rows)
    assert "`.venv` is not sent" in _whys(conversion, "source .venv/bin/activate")[0]
    twice = _convert("#SBATCH -n 1", "source .venv//bin/activate", "python a.py")
    assert "`.venv` is not sent" in _whys(twice, "source .venv//bin/activate")[0]
    assert "the file is in the folder" in _whys(conversion, "source env.sh")[0]


@pytest.mark.parametrize(
    ("rows", "path"),
    [
        (("python a.py --checkpoint checkpoints/best.pt",), "checkpoints/best.pt"),
        (("C=checkpoints/x.pth.tar", "python a.py --ckpt $C"), "checkpoints/x.pth.tar"),
        (("srun python a.py --resume=./wandb/run-1/model.pt",), "./wandb/run-1/model.pt"),
        (("python a.py --save-path checkpoints/L --load-path checkpoints/L",), "checkpoints/L"),
        (("python a.py --out checkpoints/best.pt",), ""),
        (("python a.py --save_path=checkpoints/best.pt",), ""),
        (("python a.py", "python b.py --ckpt checkpoints/best.pt"), ""),
        (("mkdir -p checkpoints", "python a.py --dir checkpoints"), ""),
        (("cd /data/me", "python a.py --ckpt checkpoints/best.pt"), ""),
        (("python a.py --ckpt models/best.pt",), ""),
        (("python a.py --ckpt $WORK/checkpoints/best.pt",), ""),
        (("python a.py --ckpt ../checkpoints/best.pt",), ""),
        (("python a.py --ckpt /data/checkpoints/best.pt",), ""),
        (("python a.py --ckpt exp/run_1/checkpoints/best.pt",), "exp/run_1/checkpoints/best.pt"),
    ],
)
def test_a_file_of_a_folder_that_is_not_sent_is_named(rows: tuple[str, ...], path: str) -> None:
    """A training that begins with a checkpoint finds none in a pod."""
    verdicts = _convert("#SBATCH -n 1", *rows).verdicts
    assert [v.path for v in verdicts if "is not sent with the folder" in v.why] == [path] * bool(
        path
    )


@pytest.mark.parametrize(
    ("rows", "is_named"),
    [
        (("python a.py > logs/a.log",), True),
        (("python a.py > Outs/a.log",), True),
        (("J=local_data/run", "mkdir local_data/run"), True),
        (("mkdir -p local_data/run",), False),
        (('F="logs/a_${1}.log"', 'python a.py &> "$F"'), True),
        (("mkdir -p logs", "python a.py > logs/a.log"), False),
        (('mkdir -p "./logs/x"', "python a.py > logs/x/a.log"), False),
        (("mkdir -p logs/x", "python a.py > logs/a.log"), False),
        (("mkdir -p logs/x", "python a.py > logs/y/a.log"), True),
        (("python a.py > a.log",), False),
        (("python a.py > src/a.log",), False),
        (("srun -N 1 -n 1 --gpus=4 torchrun --nproc_per_node=4 a.py > logs/a.log",), False),
        (("cd /data/me", "python a.py > logs/a.log"), False),
    ],
)
def test_a_folder_that_nothing_makes_for_a_redirection_is_named(
    rows: tuple[str, ...], *, is_named: bool
) -> None:
    """Git leaves it out as a rule, and a shell starts nothing whose output has no file."""
    verdicts = _convert("#SBATCH -n 1", *rows).verdicts
    assert any("let the script make it (`mkdir -p " in own.why for own in verdicts) is is_named


@pytest.mark.parametrize(
    ("row", "is_named"),
    [
        ("if [ -d ./.venv ]; then source .venv/bin/activate; else exit 1; fi", True),
        ("[ -f checkpoints/a.pt ] || exit 1", True),
        ("[ -d .venv ] && source .venv/bin/activate", False),
        ("[ -d data ] || exit 1", False),
    ],
)
def test_a_test_for_what_is_not_sent_ends_no_run_without_a_word(
    row: str, *, is_named: bool
) -> None:
    """An image that has the environment has no such folder, and the script ends."""
    verdicts = _convert("#SBATCH -n 1", row, "python a.py").verdicts
    assert any("take the test out" in own.why for own in verdicts) is is_named


@pytest.mark.parametrize(
    ("rows", "path"),
    [
        (("python a.py --data-dir data/frames/test",), "data/frames/test"),
        (("python a.py --data_root ./dataset/",), "dataset"),
        (("python a.py data.train_path=data/splits/a.csv",), "data/splits/a.csv"),
        (("D=my_data/a.json", 'python a.py "$D"'), "my_data/a.json"),
        (("python data/prepare.py",), ""),
        (("D=datasets/a", "python a.py --data_dir=$D"), "datasets/a"),
        (("python a.py -d data_full/sub",), "data_full/sub"),
        (("python a.py --source data_x/val.tar",), "data_x/val.tar"),
        (("python a.py --mapping data/map.txt",), "data/map.txt"),
        (("python a.py --pretrain-data sets.csv",), "sets.csv"),
        (("python a.py --split data",), ""),
        (("python a.py --dataset custom_dataset",), ""),
        (("python a.py --dataset data/x",), "data/x"),
        (("python a.py --json_path results/",), "results"),
        (("python a.py --cache_dir data_cache/a",), ""),
        (("bash -c 'python a.py --data data/x'",), "data/x"),
        (('D="${D:-data}"', 'python a.py --data-root "${D}"'), "data"),
        (("python a.py --model_name_or_path models/Llama-3",), "models/Llama-3"),
        (("python a.py --model_path org/name",), ""),
        (("python a.py --umls_path ./umls/processed/",), "umls/processed"),
        (("python a.py --ckpt pretrain/a.pth",), "pretrain/a.pth"),
        (("python train.py", "python b.py --ckpt out/a.pth"), ""),
        (("export DATADIR=data", "python a.py"), "data"),
        (("python a.py --data_path ./FOR-species20K",), "FOR-species20K"),
        (("W=$PWD", "cd $W/src", "python a.py --data_dir ../datasets/x"), "datasets/x"),
        (("cd src", "python a.py --data_dir ../../x"), ""),
        (("cd src", "cd $SLURM_SUBMIT_DIR", "python a.py --data_dir data/x"), "data/x"),
        (("cd src", "cd .", "python a.py --data_dir data/x"), "src/data/x"),
        (("cd", "python a.py --data_dir data/x"), ""),
        (("cd /", "python a.py --data_dir data/x"), ""),
        (("python a.py --dataset_name org/name",), ""),
        (("export OUT_DIR=data/out", "python a.py"), ""),
        (("python a.py --config data/a.yaml",), ""),
        (("python a.py --output_dir data/out",), ""),
        (("python a.py data",), ""),
        (("mkdir -p data", "python a.py --data-dir data/x"), ""),
        (("cd /scratch/me", "python a.py --data-dir data/x"), ""),
        (("python a.py --data-dir /data/x",), ""),
    ],
)
def test_data_that_git_leaves_out_as_a_rule_are_named(rows: tuple[str, ...], path: str) -> None:
    """They lie in the project, and what is sent of it is code."""
    verdicts = _convert("#SBATCH -n 1", *rows).verdicts
    assert [v.path for v in verdicts if "as it does with data and" in v.why] == [path] * bool(path)


def test_each_file_of_data_is_named() -> None:
    """Who sends the first alone finds the others missing."""
    rows = ("python a.py --train_data data/a.csv --valid_data data/b.csv",)
    verdicts = _convert("#SBATCH -n 1", *rows).verdicts
    paths = [v.path for v in verdicts if "as it does with data" in v.why]
    assert paths == ["data/a.csv", "data/b.csv"]


@pytest.mark.parametrize("row", ["true", "#SBATCH -D /data/me"])
def test_what_git_ignores_is_noted_once(row: str) -> None:
    """Whatever the options of a program are called that read it."""
    notes = _convert("#SBATCH -n 1", row, "python a.py --x y/z").notes
    assert any("what git ignores is not sent" in note for note in notes)
