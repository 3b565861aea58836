"""Variables that a script reads before a line sets them: who submits has given them their text."""

from __future__ import annotations

import pytest

from allranks.convert.slurm import job


def _words(*rows: str) -> dict[str, str]:
    """The variables that the report speaks of, each with the value that it ends in."""
    text = "\n".join(("#!/bin/bash", "#SBATCH -N 1 --gpus 1", *rows, ""))
    verdicts = job.convert(text.encode(), "job.sbatch").verdicts
    return {own.path: own.to for own in verdicts if own.path.startswith("$")}


@pytest.mark.parametrize(
    ("rows", "name"),
    [
        (('DATA="$DATA/x"', "python a.py $DATA"), "$DATA"),
        (('WORK="${MY_WORK:-$WORK/x}"', "python a.py $WORK"), "$WORK"),
        (("cp a $DATA", "DATA=/data", "python a.py $DATA"), "$DATA"),
        (('a=$(df "$TMPDIR")', "if [ -z $a ]; then export TMPDIR=b; fi", "python a.py"), "$TMPDIR"),
        (("set -u", 'echo "$DATA"', "[ -d b ] || DATA=b", "python a.py $DATA"), "$DATA"),
        (("set -u", "ARGS=$ARGS:b", "python a.py $ARGS"), "$ARGS"),
    ],
)
def test_a_variable_that_is_read_before_it_is_set_is_named(
    rows: tuple[str, ...], name: str
) -> None:
    """A later line gives it no text, nor does its own."""
    assert _words(*rows)[name] == f"env.{name[1:]}"


@pytest.mark.parametrize(
    "rows",
    [
        ("DATA=/data", 'DATA="$DATA/x"', "python a.py $DATA"),
        ('if [ -z "$DATA" ]; then DATA=/data; fi', "python a.py $DATA"),
        ('ARGS="$ARGS --a"', "python a.py $ARGS"),
        ('LIST="b:$LIST"', "python a.py $LIST"),
        ("N=$((N + 1))", "python a.py $N"),
        ('echo "$DATA"', "DATA=/data", "python a.py $DATA"),
        ('use() { python a.py "$DATA"; }', "DATA=/data", "use"),
        ('for DATA in b c; do python a.py "$DATA"; done', 'DATA="$DATA/x"'),
        ('while read -r DATA; do DATA="$DATA/x"; python a.py "$DATA"; done < list',),
        ('DATA="${DATA:-b}"', 'DATA="$DATA/x"', "python a.py $DATA"),
        ("if true; then DATA=b; python b.py $DATA; fi", "python a.py $DATA"),
    ],
)
def test_a_variable_with_a_text_of_the_script_is_not_named(rows: tuple[str, ...]) -> None:
    """An empty text is meant where a line tests for it, or puts more behind it."""
    assert not _words(*rows)


@pytest.mark.parametrize(
    ("rows", "name"),
    [
        (('source "$CONDA_PREFIX/etc/profile.d/conda.sh"', "conda activate a"), "CONDA_PREFIX"),
        (("module load gcc", "cp $VIRTUAL_ENV/lib/a.so b"), "VIRTUAL_ENV"),
        (("export PATH=$CUDA_HOME/bin:$PATH",), "CUDA_HOME"),
        (("conda activate a", "cp $CONDA_PREFIX/lib/a.so b"), ""),
        (("module load anaconda", "cp $CONDA_PREFIX/lib/a.so b"), ""),
        (("module load cuda", "export PATH=$CUDA_HOME/bin:$PATH"), ""),
        (("CUDA_HOME=/usr/local/cuda", "export PATH=$CUDA_HOME/bin:$PATH"), ""),
        (('[ -z "${CONDA_PREFIX:-}" ] || cp $CONDA_PREFIX/lib/a.so b',), ""),
    ],
)
def test_an_environment_of_who_submits_is_named(rows: tuple[str, ...], name: str) -> None:
    """Its variables are read before a line activates one, or loads a module."""
    assert [f"${name}"] * bool(name) == [own for own in _words(*rows, "python a.py") if "_" in own]
