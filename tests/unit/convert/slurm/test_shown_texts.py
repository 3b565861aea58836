"""Texts that a script shows or writes, and names that nobody reads: they are no lines of it."""

from __future__ import annotations

import pytest

from allranks.convert.slurm import job
from allranks.convert.verdicts import Conversion, Outcome

_HEAD = "#!/bin/bash\n#SBATCH -N {} --ntasks-per-node=1 --gres=gpu:8 --mem=8G -t 60\n"
_RANKS = (
    "srun torchrun --nnodes=2 --nproc_per_node=8 --rdzv_backend=c10d "
    "--rdzv_endpoint=$(hostname):29500 train.py"
)


def _convert(*rows: str, nodes: int = 2) -> Conversion:
    return job.convert((_HEAD.format(nodes) + "\n".join(rows) + "\n").encode(), "a.sh")


def _paths(conversion: Conversion) -> set[str]:
    return {own.path for own in conversion.lost}


@pytest.mark.parametrize(
    ("rows", "is_set"),
    [
        (("cat <<EOF", "usage: CFG=a sbatch run.sh", "EOF"), False),
        (("cat <<'EOF' >&2", "CFG=a", "EOF"), False),
        (("cat > conf.env <<EOF", "CFG=a", "EOF"), False),
        (("cat > conf.env <<EOF", "CFG=a", "EOF", "source conf.env"), True),
        (("CFG=a",), True),
    ],
)
def test_a_variable_that_a_text_names_is_not_set_by_it(
    rows: tuple[str, ...], *, is_set: bool
) -> None:
    """Who submits has set it, unless the script reads the file that it writes."""
    conversion = _convert(*rows, "srun python train.py --config $CFG")
    assert is_set == ("$CFG" not in _paths(conversion))


def test_an_srun_in_a_text_that_is_shown_is_none() -> None:
    """It tells who reads it how to call the script."""
    usage = ("usage() {", "cat <<EOF", "  srun torchrun train.py", "EOF", "}")
    assert "srun" not in _paths(_convert(*usage, _RANKS))
    script = ("cat > run.sh <<EOF", "srun ./a", "EOF", "bash run.sh", _RANKS)
    assert "srun" in _paths(_convert(*script))


@pytest.mark.parametrize(
    "row",
    [
        ": ${WANDB_MODE:=offline}",
        '[ -z "$WANDB_MODE" ] && WANDB_MODE=offline',
        'if [ -z "$WANDB_MODE" ]; then\n  WANDB_MODE=offline\nfi',
        "WANDB_MODE=${WANDB_MODE:=offline}",
    ],
)
def test_a_default_that_no_program_had_is_named(row: str) -> None:
    """The shell alone had it; the programs had what who submits has exported."""
    conversion = _convert(row, _RANKS)
    whys = [own.why for own in conversion.verdicts if own.path == "WANDB_MODE"]
    assert any("does not export it" in why for why in whys)
    assert any("a text of its own for WANDB_MODE" in note for note in conversion.notes)
    exported = _convert("export WANDB_MODE", row, _RANKS)
    assert not any("does not export it" in own.why for own in exported.verdicts)


def test_where_accelerate_has_its_settings_is_said() -> None:
    """A file there decides how many processes there are, also in another folder."""
    whys = {
        rows: " ".join(
            own.why
            for own in _convert(*rows, "accelerate launch a.py", nodes=1).verdicts
            if own.path == "accelerate launch"
        )
        for rows in ((), ("export HF_HOME=/scratch/me/hf",))
    }
    assert "the cache folder of who submits" in whys[()]
    assert "the folder that HF_HOME names" in whys[("export HF_HOME=/scratch/me/hf",)]


def test_a_blank_among_mounts_is_named() -> None:
    """It would be a folder of the node that nobody has."""
    options = "--container-image=a/b:1 --container-mounts={}:/data"
    for folder, is_blank in (("/path/to/data", True), ("/lustre/data", False)):
        conversion = _convert(f"srun {options.format(folder)} python train.py")
        verdict = next(own for own in conversion.verdicts if own.path == "--container-mounts")
        assert is_blank == (f"{folder}: where it is a blank" in verdict.why)


@pytest.mark.parametrize("option", ["--container-name=", "--container-name job-"])
def test_the_number_in_a_containers_name_names_no_file(option: str) -> None:
    """Nothing is left under it; a folder of that name is another thing."""
    row = f"srun --container-image=a/b:1 {option}$SLURM_JOB_ID python train.py"
    for text, names_folder in ((row, False), (f"{row} --out o/$SLURM_JOB_ID", True)):
        paths = {own.path for own in _convert(text).verdicts}
        assert names_folder == ("$SLURM_JOB_ID" in paths)


def test_an_srun_behind_a_variable_may_start_ranks_elsewhere() -> None:
    """The line is known, so that its nodes are not said to be idle."""
    conversion = _convert("PREFIX=", "${PREFIX} srun -n ${SLURM_NTASKS:-1} ./app")
    verdict = next(own for own in conversion.verdicts if own.path == "--nodes")
    assert verdict.outcome is Outcome.NOT_CARRIED
    assert verdict.why.startswith("the srun of line 4 may start ranks")
