"""Here-documents: what a script writes into one is no line of its own, and may be a program."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from allranks.convert.slurm import job
from allranks.errors import InvalidValues

if TYPE_CHECKING:
    from allranks.convert.verdicts import Conversion


def _convert(*rows: str) -> Conversion:
    return job.convert("\n".join(("#!/bin/bash", *rows, "")).encode(), "job.sbatch")


@pytest.mark.parametrize("program", ["Rscript - $I", "python -", "srun python3 -u -"])
def test_a_program_in_a_document_that_reads_above_the_folder_is_named(program: str) -> None:
    """The folder that is sent has nothing above it, whoever opens it."""
    rows = ("#SBATCH -n 1", f"{program} <<EOF", "x = open('a')", 'y = open("../data/b")', "EOF")
    lost = [(verdict.path, verdict.line) for verdict in _convert(*rows).lost]
    assert ("../data/b", 5) in lost


def test_a_text_in_a_document_that_is_written_is_not_looked_at() -> None:
    """Where the file is read, and from which folder, is not known."""
    rows = ("#SBATCH -n 1", "cat > a.in <<EOF", "dir = '../data'", "EOF", "python a.py")
    assert not [verdict for verdict in _convert(*rows).lost if ".." in verdict.path]


def test_directives_in_a_document_are_of_another_job() -> None:
    """Sbatch reads none behind the first command; of these nobody thinks that it does."""
    rows = ("python a.py", "cat > b.sbatch <<EOF", "#SBATCH -N 4", "EOF", "#SBATCH -N 8")
    late = [verdict.line for verdict in _convert(*rows).verdicts if verdict.path == "#SBATCH"]
    assert late == [6]


def test_a_word_of_sbatch_in_a_text_that_is_printed_submits_nothing() -> None:
    """A backtick behind a backslash is a sign of the text."""
    text = 'echo "run the suggested \\`sbatch\\` commands\nthen \\`sbatch b\\`"'
    assert not [verdict for verdict in _convert(text, "python a.py").lost if verdict.line < 4]


@pytest.mark.parametrize(
    "step",
    [
        "srun -N1 -n1 -r $i python a.py --node $i &",
        "srun -N1 -n1 -w ${hosts[$i]} python a.py &",
        'srun -N1 -n1 bash -c "python a.py --node_rank $i --world_size 8" &',
    ],
)
def test_steps_that_are_ranks_of_one_training_are_told_to_be_one_step(step: str) -> None:
    """As tasks of an array they would not find each other."""
    with pytest.raises(InvalidValues, match="one srun for all nodes"):
        _convert("#SBATCH -N 2", "for i in 0 1; do", step, "done", "wait")


@pytest.mark.parametrize(
    ("rows", "step"),
    [
        (("cat > l.sh <<EOF", "torchrun --rdzv_endpoint=$H:1 a.py", "EOF"), "srun bash l.sh"),
        (("cat > c.yaml <<EOF", "head: $H", "EOF"), "srun python a.py --config c.yaml"),
        (('echo "torchrun --master_addr $H a.py" > l.sh',), "srun bash l.sh"),
    ],
)
def test_a_file_of_the_steps_with_where_the_ranks_meet_is_missing(
    rows: tuple[str, ...], step: str
) -> None:
    """It is no list of hosts, which the launcher has, and the step would not find it."""
    nodes = ("#SBATCH -N 2 --gpus-per-node=4", "H=$(scontrol show hostnames | head -1)")
    lost = {verdict.line: verdict.why for verdict in _convert(*nodes, *rows, step).lost}
    assert "MASTER_ADDR" in lost[4]
    assert 4 not in {verdict.line for verdict in _convert(*nodes, *rows, "srun python b.py").lost}


@pytest.mark.parametrize(
    "writing", ["cat <<EOF >job.sh", "cat > \"$D/job.sh\" <<'EOF'", "tee job.sh <<EOF"]
)
def test_a_batch_script_that_is_written_is_of_another_job(writing: str) -> None:
    """No line of it runs here, so that none is to be mended; it is written as it was."""
    rows = (
        writing,
        "#SBATCH -n 64",
        "time srun -n 64 ./a",
        "EOF",
        "chmod +x job.sh",
        "python a.py",
    )
    verdicts = _convert(*rows).verdicts
    assert not [own for own in verdicts if own.path == "srun"]
    assert [own.line for own in verdicts if "no pod submits it" in own.why] == [2]


@pytest.mark.parametrize(
    "rows",
    [
        ("cat <<EOF >a.sh", "srun ./a", "EOF", "bash a.sh"),
        ("cat <<EOF >a.sh", "b=$(srun ./a)", "EOF"),
        ("cat <<EOF >$D/a.sh", "srun ./a", "EOF", "${D}/a.sh"),
        ("cat <<EOF | bash", "srun ./a", "EOF"),
    ],
)
def test_a_step_in_a_document_that_a_shell_reads_is_said(rows: tuple[str, ...]) -> None:
    """It runs in the pod, which has no srun."""
    lost = _convert(*rows, "python a.py").lost
    assert [own.line for own in lost if own.path == "srun"] == [3]


def test_the_text_of_another_job_is_none_of_the_script() -> None:
    """`sbatch <<EOF`: what stands in it runs in no pod, and the line that submits it is named."""
    rows = ("#!/bin/bash", "#SBATCH -n 1", "python a.py", "sbatch <<EOF", "#!/bin/bash")
    text = "\n".join((*rows, "srun python b.py", "EOF", ""))
    assert [4] == [own.line for own in job.convert(text.encode(), "job").lost]


def test_each_batch_script_that_a_line_only_writes_is_named_with_its_own_line() -> None:
    """Two here-documents may begin with the same text."""
    row = "cat > $file << EOF"
    batch = ("#!/bin/bash", "#SBATCH -n 1", "python b.py", "EOF")
    rows = ("#!/bin/bash", "#SBATCH -n 1", row, "a", "EOF", row, *batch, row, *batch, "python a.py")
    verdicts = job.convert("\n".join((*rows, "")).encode(), "job").verdicts
    lines = [own.line for own in verdicts if "batch script for Slurm" in own.why]
    assert lines == [6, 11]


def test_a_text_keeps_its_empty_lines() -> None:
    """Those between statements are made one; a program may count those of its input."""
    document = ("cat > in.txt <<'EOF'", "a", "", "", "", "b", "EOF")
    rows = (
        "#!/bin/bash",
        "#SBATCH -n 1",
        "A=1",
        "",
        "",
        "",
        *document,
        "python a.py 'x",
        "",
        "",
        "",
    )
    text = "\n".join((*rows, "y'", ""))
    script = job.convert(text.encode(), "job").values["script"]
    assert "a\n\n\n\nb\n" in script
    assert "'x\n\n\n\ny'" in script
    assert "A=1\n\ncat" in script


def test_a_script_that_a_function_writes_stays_as_it_is() -> None:
    """The names of the nodes in it are those of another job."""
    line = 'H="$(scontrol show hostnames | head -n 1)"'
    rows = ("write() {", "cat > b.sh <<'EOF'", "#SBATCH -n 1", line, "EOF", "}", "write")
    text = "\n".join(("#!/bin/bash", "#SBATCH -N 1", *rows, "python a.py", ""))
    assert line in job.convert(text.encode(), "job").values["script"]


def test_a_line_of_a_document_that_becomes_setup_is_named_as_typed() -> None:
    """With its own line; the report had that of the step, and `.` in place of `source`."""
    rows = ("#!/bin/bash", "#SBATCH -N 2 --gpus-per-node=2", "srun bash <<'EOT'")
    rows += ("source venv/bin/activate", "torchrun --nnodes 2 a.py", "EOT", "")
    verdicts = job.convert("\n".join(rows).encode(), "job.sbatch").verdicts
    assert 4 in [own.line for own in verdicts if own.path == "source venv/bin/activate"]
    assert not [own for own in verdicts if own.path.startswith(". ")]
