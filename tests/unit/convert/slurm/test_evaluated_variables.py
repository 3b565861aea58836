"""Variables in the text of a step's shell, which reads the quotes that they hold."""

from __future__ import annotations

import subprocess

import pytest

from allranks.convert.slurm import job

_HEAD = "#!/bin/bash\n#SBATCH -N 2 --ntasks-per-node=1 --gpus-per-node=4\n"
_TORCHRUN = "torchrun --nproc_per_node 4 --nnodes 2 --rdzv_backend c10d --rdzv_endpoint a:1"


@pytest.mark.parametrize("launcher", ["python", _TORCHRUN])
@pytest.mark.parametrize(
    ("rows", "step", "args"),
    [
        (
            ("CMD=\"train.py --name 'a b'\"", "[ -z $X ] || CMD=\"$CMD --x '$X'\""),
            '"{} $CMD"',
            ["--name", "a b", "--x", "1 2"],
        ),
        (
            ("CMD=\"train.py --name 'a b'\"", "[ -z $X ] || CMD=\"$CMD --x '$X'\""),
            '"{} ${{CMD}} --rank \\"\\$HOME/\\`echo c\\`\\""',
            ["--name", "a b", "--x", "1 2", "--rank", "/h/c"],
        ),
        (
            ("CMD='train.py a'", '[ -z $X ] || CMD="$CMD b"'),
            '"{} $CMD"',
            ["a", "b"],
        ),
        (
            ("CMD=(train.py 'a')", '[ -z $X ] || CMD+=("b c")'),
            '"{} ${{CMD[*]}}"',
            ["a", "b", "c"],
        ),
        (
            ("CMD=\"train.py --name 'a b'\"", "[ -z $X ] || CMD=\"$CMD --x '$X'\""),
            "'{} $CMD'",  # the step's shell itself has it from its environment
            ["--name", "'a", "b'", "--x", "'1", "2'"],
        ),
    ],
)
def test_the_words_are_those_that_the_shell_of_the_step_reads(
    rows: tuple[str, ...], step: str, args: list[str], launcher: str
) -> None:
    """Quotes hold words together where the variable stood in the text, and only there."""
    exported = ["export CMD"] if step.startswith("'") else []
    text = _HEAD + "\n".join([*rows, *exported, f"srun bash -c {step.format(launcher)}", ""])
    values = job.convert(text.encode(), "a.sbatch").values
    shell = values["command"]
    assert shell[:2] == ["bash", "-c"]
    setup = values.get("setup", "")
    printing = 'python() { printf \'%s\\n\' "$@"; }; python3() { shift; python "$@"; }\n'
    lines = shell[2].replace("exec ", "")
    result = subprocess.run(
        ["bash", "-c", f"{printing}{setup}\n{lines}"],
        env={"X": "1 2" if "'" in rows[1] else "1", "HOME": "/h", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout.splitlines() == ["train.py", *args]
