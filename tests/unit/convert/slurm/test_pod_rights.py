"""What a pod may not do, and what it is not: root, who submits, a folder by its old name."""

from __future__ import annotations

import pytest

from allranks.convert.slurm import job
from allranks.convert.verdicts import Outcome, Verdict

_RANKS = "#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=1 --gpus-per-node=2\n"


def _verdicts(text: str, word: str) -> list[Verdict]:
    return [item for item in job.convert(text.encode(), "a.sbatch").verdicts if word in item.why]


@pytest.mark.parametrize(
    ("step", "paths"),
    [
        ("srun numactl --cpunodebind=0 --membind=0 python a.py", ["numactl --membind=0"]),
        ("srun bash -c 'numactl -m 0 python a.py'", ["numactl -m"]),
        ("srun numactl --interleave=all python a.py", ["numactl --interleave=all"]),
        ("srun numactl --cpunodebind=0 python a.py -m 3", []),
        ("srun numactl -N 0 python -m a", []),
    ],
)
def test_a_pod_chooses_no_memory(step: str, paths: list[str]) -> None:
    """It ends there before the program; cores it may choose."""
    verdicts = _verdicts(f"{_RANKS}{step}\n", "set_mempolicy")
    assert paths == [item.path for item in verdicts]
    assert all((item.outcome, item.line) == (Outcome.NOT_CARRIED, 3) for item in verdicts)


def test_what_only_root_may_is_said_of_a_text_of_a_shell_too() -> None:
    """Its line is that of the step, which has words of its own."""
    step = "srun bash -c 'sudo bash check.sh >log; cat log'\npython a.py\n"
    [verdict] = _verdicts(f"{_RANKS}{step}", "no root")
    assert ("sudo bash check.sh", 3, Outcome.NOT_CARRIED) == (
        verdict.path,
        verdict.line,
        verdict.outcome,
    )


@pytest.mark.parametrize(
    ("line", "paths"),
    [
        ("git push origin main", ["git push"]),
        ("git -C out commit -m x && git push", ["git commit", "git push"]),
        ("git rev-parse HEAD", []),
        ("git clone https://example.org/a.git", []),
    ],
)
def test_a_pod_is_not_who_commits(line: str, paths: list[str]) -> None:
    """Name and key are in the home folder of who submits."""
    text = f"#!/bin/bash\n#SBATCH -n 1\npython a.py\n{line}\n"
    assert paths == [item.path for item in _verdicts(text, "name and key")]


@pytest.mark.parametrize(
    ("text", "is_named"),
    [
        ("NAME=`basename $(pwd)`", True),
        ('NAME=$(basename "$PWD")', True),
        ("NAME=${SLURM_SUBMIT_DIR##*/}", True),
        ("NAME=$(basename $DATA)", False),
        ("NAME=${FILE##*/}", False),
    ],
)
def test_the_folder_has_another_name(text: str, *, is_named: bool) -> None:
    """A pod has the folder that is sent at one place, whatever it was called."""
    own = f"#!/bin/bash\n#SBATCH -n 1\nDATA=/a FILE=b\n{text}\npython a.py $NAME\n"
    assert is_named == bool(_verdicts(own, "another name in a pod"))


def test_the_time_of_a_task_is_that_of_a_trial() -> None:
    """A grid of plain Helm is one Job, whose deadline is that of all tasks."""
    text = "#!/bin/bash\n#SBATCH --array=0-99%10 -t 1:00:00\npython a.py $SLURM_ARRAY_TASK_ID\n"
    [verdict] = _verdicts(text, "each task had that time")
    assert ("--time", Outcome.CHANGED) == (verdict.path, verdict.outcome)
    single = "#!/bin/bash\n#SBATCH -t 1:00:00\npython a.py\n"
    assert not _verdicts(single, "each task had that time")


@pytest.mark.parametrize(
    ("words", "outcome"),
    [
        ('"$@"', Outcome.CHANGED),
        ("$1", Outcome.NOT_CARRIED),
        ('"${@:2}"', Outcome.CHANGED),
        ('"${@:1:1}"', Outcome.NOT_CARRIED),
    ],
)
def test_all_words_of_none_are_none(words: str, outcome: Outcome) -> None:
    """A script that hands on what it is given runs without, as with Slurm."""
    text = f"#!/bin/bash\n#SBATCH -n 1\npython a.py {words}\n"
    [verdict] = _verdicts(text, "no words were given")
    assert outcome == verdict.outcome


def test_what_is_installed_before_an_environment_is_made_goes_into_the_images() -> None:
    """`pip install uv` before `uv sync`: the environment that follows has nothing of it."""
    for rows, is_named in (
        (("pip install uv", "uv sync", "uv run python a.py"), True),
        (("uv venv", "source .venv/bin/activate", "pip install x", "python a.py"), False),
    ):
        verdicts = job.convert("\n".join(["#!/bin/bash", *rows, ""]).encode(), "job").verdicts
        assert is_named is any("an image's Python is root's" in own.why for own in verdicts)


def test_the_history_of_a_folder_that_is_cloned_is_there() -> None:
    """That of the folder which is sent is not, whatever is cloned besides."""
    for rows, is_named in (
        (("git clone https://x/y", "cd y", "git rev-parse HEAD"), False),
        (("git clone https://x/y", "git -C y rev-parse HEAD"), False),
        (("git clone https://x/y", "git rev-parse HEAD"), True),
        (("git rev-parse HEAD", "git clone https://x/y", "cd y"), True),
    ):
        text = "\n".join(["#!/bin/bash", *rows, "python a.py", ""])
        verdicts = job.convert(text.encode(), "job").verdicts
        assert is_named is any("the history of the folder" in own.why for own in verdicts)


def test_other_code_of_the_history_is_a_loss() -> None:
    """`git checkout branch` fails, and the run goes on with the code that is there."""
    text = "#!/bin/bash\ngit checkout branch\npython a.py\n"
    assert [own.path for own in job.convert(text.encode(), "job").lost] == ["git checkout"]
    for folder, has_volume in (("/home/me/code", True), ("~/code", True), ("code", False)):
        text = f"#!/bin/bash\ncd {folder}\ngit checkout branch\npython a.py\n"
        (verdict,) = (own for own in job.convert(text.encode(), "job").lost if "git" in own.path)
        assert verdict.why.endswith("may have it") is has_volume
    text = "#!/bin/bash\ngit clone https://x/y\ncd y\ngit checkout branch\npython a.py\n"
    assert not job.convert(text.encode(), "job").lost


def test_git_in_another_folder_may_find_its_history_in_a_volume() -> None:
    """That of the folder that is sent stays behind."""
    for folder, is_elsewhere in (("/data/code", True), ("$ROOT", True), (".", False)):
        text = f"#!/bin/bash\n#SBATCH -n 1\ngit -C {folder} checkout main\npython a.py\n"
        verdicts = job.convert(text.encode(), "a").verdicts
        [verdict] = [own for own in verdicts if "the history of the folder" in own.why]
        assert ("a volume with the folder behind -C" in verdict.why) is is_elsewhere


def test_the_question_for_the_history_is_named_with_its_own_line() -> None:
    """Another one before it stands in a line that only prints."""
    rows = ('echo "$(git rev-parse HEAD)"', "git status --porcelain", "python a.py")
    text = "\n".join(("#!/bin/bash", "#SBATCH -n 1", *rows, ""))
    verdicts = job.convert(text.encode(), "a").verdicts
    [verdict] = [own for own in verdicts if "the history of the folder" in own.why]
    assert (verdict.path, verdict.line) == ("git status", 4)


def test_the_name_of_the_sent_folder_is_another_by_way_of_a_variable_too() -> None:
    """The pod's folder has none of the names that the script knows, and it ended at once."""
    text = (
        '#!/bin/bash\n#SBATCH -n 1\nS=$(readlink -f "$SLURM_SUBMIT_DIR")\n'
        '[ "$(basename "$S")" = project ] || exit 1\npython a.py\n'
    )
    assert _verdicts(text, "another name in a pod")


def test_numactl_in_a_variable_chooses_no_memory_either() -> None:
    """Its pod ended before the program, as where the words are written out."""
    text = '#!/bin/bash\n#SBATCH -n 1\nN="numactl --membind=0"\n$N ./a.out\n'
    assert _verdicts(text, "may not choose memory")


@pytest.mark.parametrize(("row", "is_named"), [("cp $SLURM_TMPDIR/* /d", True), ("ls", False)])
def test_all_of_the_jobs_folder_is_more_in_a_pod(row: str, *, is_named: bool) -> None:
    """The launcher has folders in /tmp, at which a `cp` without `-r` fails."""
    text = f"#!/bin/bash\n#SBATCH -n 1\npython a.py $SLURM_TMPDIR/x\n{row}\n"
    assert bool(_verdicts(text, "where its launcher has files")) is is_named


@pytest.mark.parametrize(
    ("step", "paths"),
    [
        ("vtune -collect hotspots ./a", ["vtune"]),
        ("srun ncu -o a python a.py", ["ncu"]),
        ("perf stat -e cycles python a.py", ["perf"]),
        ("nsys profile python a.py", []),
        ("python perf.py perf", []),
    ],
)
def test_a_pod_reads_no_counters_of_its_node(step: str, paths: list[str]) -> None:
    """The container runtime keeps them to a capability, which the charts drop."""
    text = f"#!/bin/bash\n#SBATCH -n 1\n{step}\n"
    assert [item.path for item in _verdicts(text, "reads counters of the node")] == paths


@pytest.mark.parametrize(
    ("line", "paths"),
    [
        (r"exec numactl -m \$SLURM_LOCALID -N 0 \$*", ["numactl -m"]),
        ("exec numactl --cpunodebind=0 --membind=0 $*", ["numactl --membind"]),
        ("exec numactl --cpunodebind=0 $*", []),
    ],
)
def test_a_program_that_the_script_writes_chooses_no_memory(line: str, paths: list[str]) -> None:
    """The ranks run it, and each ends there before its program."""
    text = f"{_RANKS}cat << EOF > ./sel\n#!/bin/bash\n{line}\nEOF\nsrun ./sel ./a\n"
    verdicts = _verdicts(text, "set_mempolicy")
    assert paths == [item.path for item in verdicts]
    assert [5] * len(paths) == [item.line for item in verdicts]
