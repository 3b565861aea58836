"""Files that a step writes what it asked the nodes into, and a later line or a program reads."""

from __future__ import annotations

import pytest

from allranks.convert.slurm import job
from allranks.convert.verdicts import Conversion, Outcome

_JOB = "#SBATCH -N 2 --ntasks-per-node=8 --gpus-per-node=8"


def _convert(*rows: str) -> Conversion:
    return job.convert("\n".join(("#!/bin/bash", _JOB, *rows, "")).encode(), "train.sbatch")


@pytest.mark.parametrize(
    ("question", "reader", "step"),
    [
        ("srun hostname > hosts.txt", "NP=$(wc -l < hosts.txt)", "mpirun -np $NP python a.py"),
        ("srun hostname > hosts.txt", "", "srun python a.py --hostfile hosts.txt"),
        ("srun nvidia-smi -L >> gpus.txt", "NG=$(grep -c GPU gpus.txt)", "srun python a.py $NG"),
        ("srun env > all.env", "", "srun bash -c 'source all.env; python a.py'"),
    ],
)
def test_a_question_whose_answer_is_read_is_named(question: str, reader: str, step: str) -> None:
    """Without the file the later line finds nothing, or the program fails."""
    conversion = _convert(question, reader, step)
    (verdict,) = (own for own in conversion.lost if own.path == question)
    assert question.rpartition(" ")[2] in verdict.why


@pytest.mark.parametrize(
    ("question", "rows"),
    [
        ("srun hostname > hosts", ("mpirun --hostfile hosts python a.py",)),
        ("srun hostname > hosts", ("cat hosts", "srun python a.py")),
        ("srun nvidia-smi > gpus.log", ("srun python a.py",)),
        ("srun hostname > /dev/null", ("srun python a.py",)),
    ],
)
def test_a_question_for_the_log_or_the_launcher_is_not_missed(
    question: str, rows: tuple[str, ...]
) -> None:
    """The launcher has the chart's list of hosts, and nothing reads the others."""
    conversion = _convert(question, *rows)
    assert not conversion.lost
    (verdict,) = (own for own in conversion.verdicts if own.path == question)
    assert verdict.outcome == Outcome.CHANGED


@pytest.mark.parametrize(
    "rows",
    [
        ("srun hostname -s | sort | uniq > hosts",),
        ("srun hostname > names", "sort -u names | awk '{print $1\" slots=8\"}' > hosts"),
        ("scontrol show hostnames > hosts", "sed -i 's/$/ slots=8/' hosts"),
    ],
)
def test_lines_that_make_the_list_of_hosts_in_turn_are_left_out(rows: tuple[str, ...]) -> None:
    """A file that only such a line reads is a part of the list, which the launcher has."""
    conversion = _convert(*rows, "mpirun --hostfile hosts python a.py")
    assert not conversion.lost
    assert "hosts" not in conversion.values.get("setup", "")
    outcomes = {own.path: own.outcome for own in conversion.verdicts}
    assert {outcomes[row] for row in rows} == {Outcome.CHANGED}


def test_a_list_of_hosts_that_a_program_reads_is_named() -> None:
    """The same lines, and a program that is told of the file."""
    rows = ("srun hostname > names", "sort -u names > hosts", "python plan.py hosts")
    conversion = _convert(*rows, "mpirun --hostfile hosts python a.py")
    assert [own.path for own in conversion.lost] == [rows[0]]


_FILE = ("cat << EOT > $CONF", "main_process_ip: $MASTER_ADDR", "EOT")
_LAUNCH = 'LAUNCHER="accelerate launch --config_file {} --main_process_ip $MASTER_ADDR"'


@pytest.mark.parametrize(
    "rows",
    [
        (_LAUNCH.format("$CONF"), 'srun bash -c "$LAUNCHER a.py"'),
        (_LAUNCH.format("${CONF}"), 'CMD="$LAUNCHER a.py"', 'srun bash -c "$CMD"'),
        (_LAUNCH.format("/tmp/c.yaml"), 'export CMD="$LAUNCHER a.py"', 'srun bash -c "$CMD"'),
        ('srun python a.py --config "${CONF}"',),
        ("OPTS=(--config $CONF)", 'srun python a.py "${OPTS[@]}"'),
    ],
)
def test_a_file_of_where_the_ranks_meet_is_missed_by_a_step_in_variables(
    rows: tuple[str, ...],
) -> None:
    """The program failed as the file was not there, and the line was left out as not needed."""
    name = "/tmp/c.yaml" if "/tmp/c.yaml" in rows[0] else "$CONF"
    file = tuple(row.replace("$CONF", name) for row in _FILE)
    master = "MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)"
    lost = _convert("CONF=/tmp/c.yaml", master, *file, *rows).lost
    assert f"it writes {name} with where the ranks meet" in next(
        own.why for own in lost if own.line == 5
    )


@pytest.mark.parametrize(
    "rows",
    [
        ("srun python a.py | tee -a $CONF",),
        ("srun --output=$CONF python a.py",),
        ('A="$B" B="$A"', "srun python a.py $A"),
    ],
)
def test_a_file_of_nodes_that_no_program_reads_is_not_missed(rows: tuple[str, ...]) -> None:
    """The step only writes into it, or does not name it."""
    conversion = _convert("CONF=/tmp/c.yaml", "echo $SLURM_JOB_NODELIST > $CONF", *rows)
    assert not [own for own in conversion.lost if own.line == 4]


@pytest.mark.parametrize(
    ("question", "step"),
    [
        ("srun hostname > hosts.txt", "deepspeed --num_gpus 4 a.py --hosts=hosts.txt"),
        ("srun hostname > hosts", "mpirun --hostfile hosts -np 8 python a.py --list hosts"),
        ("srun hostname > hosts", "ARGS='--nodes hosts'\nmpirun python a.py $ARGS"),
        ("scontrol show hostnames > nodes", "srun python a.py --nodes nodes"),
        ("scontrol show hostnames > nodes", "srun torchrun a.py --nodes $(wc -l < nodes)"),
    ],
)
def test_a_list_that_the_program_reads_is_not_the_launchers(question: str, step: str) -> None:
    """Its launcher has a list of its own, and the program has none."""
    conversion = _convert(question, step)
    file = question.rsplit(maxsplit=1)[-1]
    assert [file] == [file for own in conversion.lost if f" {file} " in f" {own.why} "]


@pytest.mark.parametrize(
    ("question", "reasons"),
    [
        ("srun -l hostname | awk '{print $2}' > hosts", ("8 times", "--label")),
        ("srun hostname > hosts", ("8 times",)),
        ("srun -n1 hostname > hosts", ()),
        ("srun -n1 -l hostname | tee hosts", ("--label",)),
    ],
)
def test_what_several_tasks_answered_one_pod_answers_once(
    question: str, reasons: tuple[str, ...]
) -> None:
    """With no number of a task in front: a program that reads the file finds another one."""
    rows = ("#!/bin/bash", "#SBATCH -N 1 --ntasks-per-node=8 --gpus=2", question)
    conversion = job.convert("\n".join((*rows, "python a.py --hosts hosts", "")).encode(), "a.sh")
    whys = [own.why for own in conversion.lost if own.path.startswith("srun")]
    assert bool(reasons) == bool(whys)
    assert all(reason in whys[0] for reason in reasons)


def test_an_srun_that_prints_leaves_the_numbers_of_the_script_as_they_were() -> None:
    """The program is started by none, and finds no number that Slurm does not set."""
    head = ("#!/bin/bash", "#SBATCH -N 1 --ntasks-per-node=8 --gpus=2")
    scripts = ["\n".join((*head, *rows, "python a.py", "")) for rows in ((), ("srun hostname",))]
    plain, printing = (job.convert(text.encode(), "a.sh") for text in scripts)
    unset = [
        next(line for line in own.values["script"].splitlines() if line.startswith("unset"))
        for own in (plain, printing)
    ]
    assert unset[0] == unset[1]
    why = next(own.why for own in printing.verdicts if own.path == "--ntasks-per-node")
    assert "what an srun prints (line 3) is printed once" in why
    assert "finds 1" in why


def test_words_of_a_program_are_no_options_of_srun() -> None:
    """A program may have options of the same names; what stands before it is srun's."""
    rows = ('A="--wait=60"', "B='--nodes hosts'", "srun $A python a.py $B")
    whys = {own.line: own.why for own in _convert(*rows).verdicts if own.line in (3, 4)}
    assert ["options of srun's" in whys[line] for line in (3, 4)] == [True, False]
