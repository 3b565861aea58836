"""What differs between two runs of a job, and what only seems to."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from allranks.convert.slurm import job
from tests.side_by_side import report
from tests.side_by_side.comparison import Comparison, arguments
from tests.side_by_side.differences import Difference, Kind, Runs, differences
from tests.side_by_side.explanations import explains
from tests.side_by_side.inside.program import IN_STEP, READ
from tests.side_by_side.sandbox import Record, Run

HOSTS = ("a-0.a", "a-1.a")
RANK = Record(
    words=("/stub/python", "train.py"),
    folder="/home/user/submit",
    stdin="/dev/null",
    stdout="/side_by_side/log/output",
    limits="8388608 0 256 0o22",
    environment={IN_STEP: "srun", "SLURM_PROCID": "0", "OMP_NUM_THREADS": "8", READ: "; source a"},
    files=frozenset({"/home/user/submit", "/home/user/submit/a", "/home/user/submit/a/b"}),
)
SCRIPT = "export OMP_NUM_THREADS=8\nsrun python train.py\n"


def _run(*records: Record, exit_code: int = 0, errors: str = "") -> Run:
    return Run(records, (exit_code,), errors)


def _differences(slurm: Run, pods: Run) -> list[Difference]:
    return differences(SCRIPT, Runs(slurm, _run()), Runs(pods, _run()), HOSTS)


def _rank(**fields: Any) -> Record:
    return replace(RANK, **fields)


@pytest.mark.parametrize(
    ("pods", "kind"),
    [
        (_run(), Kind.MISSING),
        (_run(RANK, _rank(words=("./extra",))), Kind.ADDED),
        (_run(RANK, RANK), Kind.COUNT),
        (_run(_rank(folder="/code")), Kind.FOLDER),
        (_run(_rank(stdin="/code/input")), Kind.STDIN),
        (_run(_rank(stdout="/code/run.log")), Kind.STDOUT),
        (_run(_rank(limits="8388608 0 256 0o77")), Kind.LIMITS),
        (_run(_rank(environment={**RANK.environment, "OMP_NUM_THREADS": "1"})), Kind.VARIABLE),
        (_run(_rank(environment={**RANK.environment, "SLURM_PROCID": "1"})), Kind.RANK),
        (_run(_rank(environment={**RANK.environment, READ: ""})), Kind.SHELL),
        (_run(_rank(files=frozenset({"/home/user/submit"}))), Kind.FILE),
        (_run(RANK, exit_code=1), Kind.EXIT_CODE),
        (_run(RANK, errors="script: line 4: x: unbound variable"), Kind.ERROR),
    ],
)
def test_a_difference_is_of_its_kind(pods: Run, kind: Kind) -> None:
    """Each thing that a record has is compared, and nothing else is called different."""
    assert [kind] == [difference.kind for difference in _differences(_run(RANK), pods)]


@pytest.mark.parametrize(
    ("words", "others"),
    [
        (("/stub/python", "a.py"), ("/usr/bin/python3.11", "-u", "a.py")),
        (("./a", "--host", "a-0"), ("./a", "--host", "localhost")),
        (("./a", "tcp://a-0:1"), ("./a", "tcp://a-0.a:1")),
        (("./a", "--port=12345"), ("./a", "--port=29500")),
        (("/var/spool/slurmd/job/slurm_script",), ("/etc/allranks/script",)),
        (("cp", "/tmp/tmp.abcdefghij"), ("cp", "/tmp/tmp.0123456789")),
        (("a.py", "--x"), ("a.py", "--local_rank=3", "--x")),
    ],
)
def test_what_is_called_otherwise_is_the_same(
    words: tuple[str, ...], others: tuple[str, ...]
) -> None:
    """Hosts, ports, Python, the script's own file and temporary files."""
    assert [] == _differences(_run(_rank(words=words)), _run(_rank(words=others)))


def test_the_number_of_a_job_is_the_same() -> None:
    """Each task of an array has another, in pods and with Slurm."""
    first, second = (
        _rank(words=("./a", f"run-{number}"), environment={"SLURM_JOB_ID": number})
        for number in ("1000000", "2345678")
    )
    assert [] == _differences(_run(first), _run(second))


def test_a_failure_is_compared_too() -> None:
    """What runs behind a rank that fails, and the exit code of the job."""
    after = _rank(words=("./after",), environment={})
    whole = _run(RANK, after)
    slurm = Runs(whole, _run(RANK, after, exit_code=0))
    pods = Runs(whole, _run(RANK, exit_code=7))
    first, second = differences(SCRIPT, slurm, pods, HOSTS)
    assert (Kind.AFTER_FAILURE, ("./after",)) == (first.kind, first.words)
    assert (Kind.EXIT_CODE, "0", "7") == (second.kind, second.slurm, second.pods)


def test_words_that_differ_are_those_of_one_program() -> None:
    """The same script with another option is no program that is missing, and one that is new."""
    slurm, pods = (
        _run(_rank(words=("python", "a.py", "--n", number, "--x"))) for number in ("3", "4")
    )
    [difference] = _differences(slurm, pods)
    assert (Kind.WORDS, "'3'", "'4'") == (difference.kind, difference.slurm, difference.pods)
    slurm, pods = (_run(_rank(words=("python", script))) for script in ("a.py", "b.py"))
    kinds = [difference.kind for difference in _differences(slurm, pods)]
    assert [Kind.MISSING, Kind.ADDED] == kinds


def test_the_report_explains_words_by_those_that_differ() -> None:
    """What the step's line has besides is no reason."""
    text = "#!/bin/bash\n#SBATCH -N2\nsrun python a.py --data $DATA --every 3\n"
    conversion = job.convert(text.encode(), "job.sbatch")
    spoken, silent = (
        Difference(Kind.WORDS, ("python", "a.py", "--every", "3"), *sides)
        for sides in (("'/data'", "'DATA'"), ("'--every'", ""))
    )
    assert explains(conversion, text, spoken)
    assert not explains(conversion, text, silent)


def test_what_varies_by_itself_is_not_compared() -> None:
    """A variable that is another in a second run of the script."""
    slurm, other, pods = (
        _run(_rank(environment={**RANK.environment, "OMP_NUM_THREADS": text})) for text in "123"
    )
    assert [] == differences(SCRIPT, Runs(slurm, other), Runs(pods, other), HOSTS)


def test_setup_may_run_in_each_pod() -> None:
    """What is no rank of a launcher's runs on the first node, and in pods in each."""
    prepare = _rank(words=("./prepare",), environment={})
    assert [] == _differences(_run(prepare), _run(prepare, prepare))


def test_the_report_explains_what_it_speaks_of() -> None:
    """By the line of a verdict, or its words; another program is not explained by it."""
    text = "#!/bin/bash\n#SBATCH -N2\nmodule load cuda\nsrun python a.py\n./after \\\n --every\n"
    conversion = job.convert(text.encode(), "job.sbatch")
    spoken, silent = (
        Difference(Kind.MISSING, words, "once", "never")
        for words in (("./x", "--every"), ("./before", "--no-words"))
    )
    assert explains(conversion, text, spoken)
    assert not explains(conversion, text, silent)
    assert not explains(conversion, text, Difference(Kind.EXIT_CODE, (), "0", "1"))


def test_a_script_is_given_the_words_that_it_reads() -> None:
    """As many as its highest number, which awk's fields are not."""
    assert ["word1", "word2"] == arguments("# $9\na $1 ${2:-x}\nawk '{print $7}' b\n")
    assert ["word1"] == arguments('python a.py "$@"\n')
    assert [] == arguments("python a.py\n")


def test_the_table_fits_a_terminal() -> None:
    """Whatever a script is called, and however long a difference is."""
    difference = Difference(Kind.VARIABLE, ("python", "x " * 200), "1", "2", "A")
    comparisons = [
        Comparison("a" * 300, "", (difference,), 2, (3, 4)),
        Comparison("b.sbatch", "refused: " + "y " * 200),
    ]
    lines = list(report.table(comparisons))
    assert max(map(len, lines)) <= report.WIDTH
    assert "…" in lines[1]
    assert [1, 0] == [len(item["silent"]) for item in report.as_data(comparisons)]


def test_a_file_that_only_pods_have_is_no_difference() -> None:
    """Nor one that some processes alone had with Slurm; a lost folder stands for its files."""
    more = _rank(files=RANK.files | {"/home/user/submit/more"})
    assert not _differences(_run(RANK), _run(more))
    assert not _differences(_run(RANK, more), _run(RANK, RANK))
    (lost,) = _differences(_run(RANK), _run(_rank(files=frozenset({"/home/user/submit"}))))
    assert lost.slurm == "/home/user/submit/a"
