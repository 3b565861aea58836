"""Weights & Biases: several trainings of a script begin a run each, as they did."""

from __future__ import annotations

import pytest

from allranks.convert.slurm import job


@pytest.mark.parametrize(
    ("rows", "mode"),
    [
        (("python a.py",), ""),
        (("python -m pip install x", "python -c 1", "srun python a.py"), ""),
        (("if [ $A = 1 ]; then python a.py; else python b.py; fi",), ""),
        (("for seed in 1 2 3; do python a.py --seed $seed; done",), "names"),
        (("srun python a.py", "srun python b.py"), "names"),
        (("torchrun a.py", "python -m evaluate"), ""),  # what stands behind the ranks is not run
        (("out=$(python a.py)", "python b.py"), "names"),
        (("out=`python a.py; python b.py`", "echo $out"), "names"),
        (("out=$(for a in 1 2; do python a.py $a; done)",), "names"),
        (("out=$(if [ $A = 1 ]; then python a.py; else python b.py; fi)",), ""),
        (("out=$(python -c 1)", "python a.py --seed $(python seed.py)"), ""),
        (("lr=$(python rates.py $1)", "python a.py --lr $lr"), ""),
        (("P=/opt/x/bin/python", '"$P" a.py', '"$P" b.py'), "names"),
        (("P=${P:-python3}", "$P a.py", 'out=$("$P" b.py)'), "names"),
        (("P=$(which python)", "$P a.py", "$P b.py"), "names"),
        (('P="srun python -u"', "$P a.py", "$P -m evaluate"), "names"),
        (("${P:-python3} a.py", "${P:-python3} b.py"), "names"),
        (("P=python", "$P -m pip install x", "$P a.py"), ""),
        (("train() { python a.py $1; }", "train 1", "train 2"), "names"),
        (("python a.py &", "python b.py &", "wait"), "names"),
        (("c=(python a.py)", 't() { eval "X=1 ${c[*]}" & }', "t 1", "t 2", "wait"), "names"),
        (("c='python a.py'", "eval $c --a", "eval $c --b"), "names"),
        (("c='python a.py'", "eval $c"), ""),
        (('eval "$(conda shell.bash hook)"', "python a.py"), ""),
        (("parallel -j 4 python a.py ::: 1 2 3",), "names"),
        (("seq 3 | xargs -n 1 python a.py",), "names"),
        (("seq 3 | xargs -I{} bash -c 'python a.py {}'",), "names"),
        (("find . -name '*.yaml' -exec python a.py {} \\;",), "names"),
        (("bash -c 'python a.py; python b.py'",), "names"),
        (("bash -c 'cd x; python a.py'",), ""),
        (("bash run.sh",), "names"),
        (("run=jobs/run.sh", "$run --eval"), "names"),
        (("t() { c=$(sed -n ${1}p list.txt); eval $c; }", "t 1 & t 2 &", "wait"), "names"),
        (("c=$(sed -n 2p list.txt)", 'eval "$c"'), ""),
        (("while read -r c; do", 'eval "$c"', "done < list.txt"), "names"),
        (("./scripts/run.sh",), "names"),
        (("source run.sh",), "names"),
        (("for i in 1 2; do uv run train.py --x $i; done",), "names"),
        (("uv run train.py",), ""),
        (("source env.sh", "python a.py"), ""),
        (("for i in 1 2; do", "c=$(sed -n ${i}p l)", 'eval "${c//python /$PY }"', "done"), "names"),
        (("bash prepare.sh", "python a.py"), ""),
        (("while read line; do $line & done < jobs.txt", "wait"), "names"),
    ],
)
def test_each_training_has_a_run_of_its_own(rows: tuple[str, ...], mode: str) -> None:
    """The charts' run is for one training; that of more than one would have the steps of all."""
    text = "\n".join(["#!/bin/bash", "#SBATCH -N 1 --gpus=1", *rows])
    values = job.convert(f"{text}\n".encode(), "a.sbatch").values
    assert mode == values.get("trackers", {}).get("mode", "")


def test_each_training_of_a_trial_has_a_run_of_its_own() -> None:
    """An array is a sweep, whose trials may train more than once."""
    text = "#!/bin/bash\n#SBATCH --array=1-3\nfor a in 1 2; do python a.py $a; done\n"
    values = job.convert(text.encode(), "a.sbatch").values
    assert ("sweep", {"mode": "names"}) == (values["workload"], values["trackers"])


@pytest.mark.parametrize(
    "container", ["singularity exec --nv", "apptainer exec", "srun apptainer run"]
)
def test_trainings_in_containers_begin_runs_of_their_own(container: str) -> None:
    """A pod is their container, and all of them would write into one run."""
    rows = [f"{container} a.sif python {name}.py" for name in "ab"]
    files = [f"{container} a.sif ./train.sh"]
    for lines, is_several in ((rows, True), (rows[:1], False), (files, True)):
        text = "\n".join(("#!/bin/bash", "#SBATCH -n 1", *lines, ""))
        values = job.convert(text.encode(), "job.sbatch").values
        assert (values.get("trackers") == {"mode": "names"}) is is_several


@pytest.mark.parametrize(
    ("program", "is_several"),
    [
        ("scripts/run_mini_sweep.py", True),
        ("optuna_nn.py", True),
        ("tune.py", True),
        ("fine_tune.py", False),
        ("finetuning.py", False),
        ("train.py --grid_search a", False),
    ],
)
def test_a_program_of_trials_begins_a_run_for_each(program: str, *, is_several: bool) -> None:
    """All of them would be one, whose curves lie over one another."""
    text = f"#!/bin/bash\n#SBATCH -n 1\npython {program}\n"
    values = job.convert(text.encode(), "job").values
    assert ({"mode": "names"} == values.get("trackers")) is is_several
