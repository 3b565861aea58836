"""Lines of real scripts that do something on a cluster of Slurm's, and another thing in a pod.

It is longer than most: each test is one such line, with what becomes of it.
"""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from allranks.convert.slurm import job
from allranks.convert.verdicts import Outcome
from allranks.errors import InvalidValues

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allranks.convert.verdicts import Conversion, Verdict

_NODES = "#SBATCH -N 2 --ntasks-per-node=1 --gpus-per-node=8"
_TASKS = "#SBATCH -N 2 --ntasks-per-node=8 --gpus-per-node=8"


def _convert(*rows: str, words: Sequence[str] = ()) -> Conversion:
    script = "\n".join(("#!/bin/bash", *rows, "")).encode()
    return job.convert(script, "job.sbatch", words=words)


def _verdict(conversion: Conversion, path: str) -> Verdict:
    return next(verdict for verdict in conversion.verdicts if verdict.path.startswith(path))


def test_a_text_to_wrap_is_read_from_the_command_line_alone() -> None:
    """Sbatch has read the script before it reads --wrap in its directives."""
    conversion = _convert('#SBATCH -n1 --wrap "sleep infinity"', "python a.py")
    assert "python a.py" in conversion.values["script"]
    assert "command line" in _verdict(conversion, "--wrap").why
    assert "sleep 9" in _convert("python a.py", words=("--wrap=sleep 9",)).values["script"]


@pytest.mark.parametrize(
    ("row", "path"),
    [("#SBATCH -p long# cluster", ""), ("#SBATCH--time=5", "--time"), ("#SBATCHES", "")],
)
def test_directives_are_split_as_sbatch_splits_them(row: str, path: str) -> None:
    """An unquoted # ends a line, also inside a word; no space is needed behind #SBATCH."""
    conversion = _convert(row, "#SBATCH -n1", "python a.py")
    assert not conversion.lost
    assert conversion.queue in ("", "long")
    assert path in {verdict.path for verdict in conversion.verdicts} | {""}


def test_a_container_image_of_pyxis_keeps_its_hash() -> None:
    """Sbatch would end the line there; what was meant is known."""
    conversion = _convert("#SBATCH --container-image=nvcr.io#a/b:1 -N1", "python a.py")
    assert conversion.values["image"] == {"repository": "nvcr.io/a/b", "tag": "1"}


@pytest.mark.parametrize(
    ("text", "row"),
    [
        ("python a.py", "eval $CMD"),
        ("$PROGRAM --lr 1", 'eval "${CMD}"'),
        ("A=1 ./train", "eval $CMD"),
        ("", 'eval "python a.py"'),
        ("", 'eval "$@"'),
    ],
)
def test_an_eval_that_runs_the_program_is_the_script(text: str, row: str) -> None:
    """In setup its end would be nobody's: the run would succeed where the program fails."""
    conversion = _convert("#SBATCH -n1", f'PROGRAM=./a\nCMD="{text}"', "module load x", row)
    assert row in conversion.values["script"]
    assert row not in conversion.values["setup"]
    assert _verdict(conversion, "eval").outcome is Outcome.CARRIED


@pytest.mark.parametrize(
    "row",
    [
        'eval "$(conda shell.bash hook)"',
        "eval `scram runtime -sh`",
        'eval "$HOOK"',
        "eval export A=1",
    ],
)
def test_an_eval_that_sets_up_the_shell_is_setup(row: str) -> None:
    """What it evaluates is the output of another program, or text for the shell."""
    conversion = _convert("#SBATCH -n1", "HOOK=$(conda shell.bash hook)", row, "python a.py")
    assert row in conversion.values["setup"]


@pytest.mark.parametrize("row", ['eval set -- "$OPTS"', "eval 'set -- a b'"])
def test_an_eval_that_sets_the_arguments_needs_nothing_of_the_image(row: str) -> None:
    """It activates nothing; the loop over the options, which is the script's, reads them there."""
    rows = ("OPTS=$(getopt -o n: -- $*)", row, "while [ $# -gt 0 ]; do shift; done")
    conversion = _convert("#SBATCH -n1", *rows, "python a.py")
    assert row in conversion.values["script"]
    assert "activates" not in str(conversion.verdicts)


@pytest.mark.parametrize(
    "row", ["source /etc/profile", ". /etc/profile", "[ -z $A ] || . /etc/profile"]
)
@pytest.mark.parametrize("program", ["python a.py", "srun -n2 python a.py"])
def test_a_profile_leaves_the_path_of_the_image(row: str, program: str) -> None:
    """Debian's sets another, without the folder that an image has its Python in."""
    setup = _convert(row, program).values["setup"]
    assert f"image_path=$PATH\n{row}\nPATH=$image_path:$PATH" in setup


def test_a_path_above_the_folder_is_lost() -> None:
    """The folder is sent alone; behind a `cd` nobody knows what is above."""
    conversion = _convert("#SBATCH -n1", "A=1", "python ../main.py --out ../b")
    assert _verdict(conversion, "../main.py").line == 4
    assert "--workspace .." in _verdict(conversion, "../main.py").why
    (higher,) = _convert("#SBATCH -n1", "python ../a.py", "../../a.out ../b/../c").lost
    assert (higher.path, "--workspace ../..`" in higher.why) == ("../a.py", True)
    ranks = _convert("#SBATCH -n2", "srun python a.py --data=../d")
    assert [verdict.path for verdict in ranks.lost] == ["../d"]
    for rows in (("cd /a", "python ../main.py"), ("# ../a", "echo ../b", "python a.py x/../y")):
        assert not _convert("#SBATCH -n1", *rows).lost


@pytest.mark.parametrize(
    ("rows", "path"),
    [
        (("python $SLURM_SUBMIT_DIR/../a.py",), "$SLURM_SUBMIT_DIR/../a.py"),
        (("cd /tmp", 'cp "${SLURM_SUBMIT_DIR}"/../d .', "python a.py"), None),
        (("python a.py --data=$PWD/../d",), "$PWD/../d"),
        (("A=`dirname ${SLURM_SUBMIT_DIR}`", "python $A/a.py"), "dirname ${SLURM_SUBMIT_DIR}"),
        (("cd /tmp", "python $PWD/../d"), ""),
        (("A=`pwd`/..", "python $A/a.py"), "`pwd`/.."),
        (("A=$(pwd)/../d", "python a.py $A"), "$(pwd)/../d"),
        (('A=$(dirname "$(pwd)")', "python $A/a.py"), 'dirname "$(pwd)"'),
        (("A=${PWD%/*}", "python $A/a.py"), "${PWD%/*}"),
        (("A=$(realpath ..)", "python $A/a.py"), "realpath .."),
        (('A="$(cd .. && pwd)"', "python $A/a.py"), "cd .."),
        (("A=$(realpath ../d)", "python a.py $A"), "realpath ../d"),
        (("A=$(basename $(realpath ..))", "python a.py $A"), ""),
        (("A=$(cd ..; basename $PWD)", "python a.py $A"), ""),
        (("cd /tmp", "A=$(realpath ..)", "python a.py $A"), ""),
        (("A=$(basename $(dirname $SLURM_SUBMIT_DIR))", "python a.py $A"), ""),
        (("python $SLURM_SUBMIT_DIR/a.py",), ""),
        (("A=(", "  ../in/a", "  ../in/b", ")", "python a.py ${A[@]}"), "../in/a"),
        (('A=$(sed -n "${SLURM_JOB_ID}p" ../list.txt)', "python a.py $A"), "../list.txt"),
        (("A=`cat ../list.txt`", "python a.py $A"), "../list.txt"),
        (('A="--epochs 3 --data ../d"', "python a.py $A"), "../d"),
        (("bash -c 'cd a && python ../b.py'",), "../b.py"),
        (("A=$(cd x/../y; grep '^..$' a)", "python -c 'from .. import b'"), ""),
        (('DIR="$(cd "$(dirname "$0")/.." && pwd)"', "python a.py $DIR"), ""),
    ],
)
def test_a_path_above_the_folder_of_the_job_is_named(
    rows: tuple[str, ...], path: str | None
) -> None:
    """By whatever name the script has for the folder that is sent."""
    lost = [own.path for own in _convert("#SBATCH -n1", *rows).lost if "above" in own.why]
    assert len(lost) == (path != "")
    assert path is None or lost == [path] * (path != "")


def test_containers_that_are_no_single_pod_are_said() -> None:
    """A pod has one image, and at each place one folder; what does not collide is united."""
    inside = "docker://a/b:1 ./a"
    rows = (f"singularity exec -B /x:/data {inside}", f"singularity exec -B /y:/data {inside}")
    conversion = _convert("#SBATCH -n1", *rows)
    assert "/x is there" in next(verdict.why for verdict in conversion.lost if verdict.line == 4)
    both = _convert("#SBATCH -n1", rows[0], f"singularity exec -B /x:/data,/z {inside}")
    assert not both.lost
    assert [v["hostPath"]["path"] for v in both.values["podTemplate"]["spec"]["volumes"]] == [
        "/x",
        "/z",
    ]
    images = _convert("#SBATCH -n1", rows[0], "singularity exec docker://c/d:2 ./b")
    assert images.values["image"]["repository"] == "a/b"
    assert "one image" in _verdict(images, "docker://c/d:2").why
    assert images.lost


@pytest.mark.parametrize(
    "row",
    [
        "nextflow run a.nf -profile singularity,slurm",
        'snakemake -j 9 --cluster "sbatch -c 4"',
        'srun -n 1 snakemake -j 9 --cluster "sbatch -c 4"',
        "snakemake --profile ./slurm",
        "snakemake --executor slurm",
        "python a.py -m hydra/launcher=submitit_slurm",
    ],
)
def test_a_program_that_submits_to_slurm_is_said(row: str) -> None:
    """A pod has no Slurm to submit to."""
    conversion = _convert("#SBATCH -n1", row)
    assert "submits" in conversion.lost[0].why
    assert not _convert("#SBATCH -n1", "nextflow run /data/slurm-a.nf", "python a.py slurm").lost


@pytest.mark.parametrize("option", ["--launcher=slurm", '--launcher="slurm"'])
def test_a_program_whose_ranks_meet_by_slurms_variables_submits_nothing(option: str) -> None:
    """OpenMMLab's option was taken for that of Hydra, whose launcher submits jobs."""
    assert not _convert("#SBATCH -n2", f"srun python a.py {option}").lost


@pytest.mark.parametrize("name", ["bede-mpirun", "mympirun", "mpiexec_mpt", "/opt/a/mpirun_b"])
def test_a_launcher_of_a_site_is_said(name: str) -> None:
    """It asks Slurm for the nodes; one that the script has itself, or of Julia's, does not."""
    conversion = _convert("#SBATCH -n1", f"{name} ./a")
    assert "mpirun in its place" in conversion.lost[0].why
    for row in ("mpiexecjl -n 2 julia a.jl", "./my-mpirun.sh a", "my_mpirun() { ./a; }\nmy_mpirun"):
        assert not _convert("#SBATCH -n1", row).lost


def test_a_job_that_begins_now_loses_nothing() -> None:
    """It starts when there is room, as any."""
    conversion = _convert("#SBATCH -n1 --begin=now", "python a.py")
    assert _verdict(conversion, "--begin").outcome is Outcome.CARRIED
    assert _convert("#SBATCH -n1 --begin=16:00", "python a.py").lost


def test_the_cpus_of_a_job_with_one_gpu_are_its_pods() -> None:
    """It needs no word about pods with fewer GPUs."""
    conversion = _convert("#SBATCH --gpus=1 -c 4", "python a.py")
    assert "fewer" not in _verdict(conversion, "--cpus-per-task").why


@pytest.mark.parametrize(
    "wrapper",
    ["timeout 4h", "timeout -k 5 -s KILL --preserve-status 4h", "nice -n 10", "numactl -N 0"],
)
def test_a_launcher_behind_a_wrapper_is_the_step(wrapper: str) -> None:
    """Its words are known, also those that are no option of their own."""
    for launcher, workload in (("mpirun", "mpi"), ("srun python", "torchrun")):
        conversion = _convert("#SBATCH -N2 --ntasks-per-node=4", f"{wrapper} {launcher} a.py")
        assert (conversion.values["workload"], conversion.values["nodes"]) == (workload, 2)
        is_limit = wrapper.startswith("timeout -k")
        assert [verdict.path for verdict in conversion.lost] == ([wrapper] if is_limit else [])
    conversion = _convert("#SBATCH -n1", f"{wrapper} srun python a.py")
    assert f"{wrapper} python a.py" in conversion.values["script"]
    assert not conversion.lost


@pytest.mark.parametrize("shebang", ["#!/usr/bin/env python3", "#!/usr/bin/python -u"])
def test_a_script_of_pythons_is_no_rank(shebang: str) -> None:
    """Its torch would find the ranks of the launcher that starts it, and wait for them."""
    code = "'''A text.'''\nfrom __future__ import a\nprint(os.environ.get('LOCAL_RANK'))\n"
    script = f"{shebang}\n#SBATCH -n1 --gres=gpu:4\n{code}"
    values = job.convert(script.encode(), "job.py").values
    rows = values["script"].split("\n")
    assert rows[0] == shebang
    assert "PET_NNODES" in values["script"]
    assert " LOCAL_RANK " in rows[3]
    compile(values["script"].replace("import a", "import annotations"), "a.py", "exec")


def test_where_a_script_of_one_process_lets_its_ranks_meet_is_its_own() -> None:
    """It may start them itself; the launcher's RANK is none that it had on a cluster of Slurm's."""
    rows = ("export MASTER_ADDR=127.0.0.1", "export MASTER_PORT=$((RANDOM + 9000))")
    script = _convert("#SBATCH -n1 --gres=gpu:4", *rows, "python a.py").values["script"]
    assert all(row in script for row in rows)
    unset = script.split("\n")[1].split()
    assert "LOCAL_RANK" in unset
    assert "MASTER_ADDR" in unset


def test_ranks_of_the_launcher_are_no_ranks_of_a_script_that_asks_slurm_for_its_node() -> None:
    """There is one node, and all that the launcher has told of ranks goes."""
    row = "export MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n1)"
    conversion = _convert("#SBATCH -n1 --gres=gpu:4", row, "python a.py")
    unset = conversion.values["script"].split("\n")[1].split()
    assert {"RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR"} <= {*unset}
    assert "export MASTER_ADDR=localhost\n" in conversion.values["script"]
    own = _convert("#SBATCH -n1 --gres=gpu:4", row, "export RANK=$SLURM_PROCID", "python a.py")
    assert "export RANK=$SLURM_PROCID" in own.values["script"]


@pytest.mark.parametrize(
    "row", ["nextflow run a.nf -profile test,singularity", "snakemake -j 2 --use-singularity"]
)
def test_a_workflow_whose_steps_are_containers_is_said(row: str) -> None:
    """A pod starts none."""
    assert "containers" in _convert("#SBATCH -n1", row).lost[0].why


def test_what_a_script_tells_its_ranks_before_it_activates_holds_in_the_script() -> None:
    """The launcher between setup and the script has variables of the same names."""
    rows = ("export MASTER_PORT=123", "export WORLD_SIZE=2", "conda activate x", "A=1")
    programs = ("torchrun --master_port $MASTER_PORT a.py", "torchrun b.py")
    script = _convert("#SBATCH -n1 --gres=gpu:2", *rows, *programs).values["script"]
    assert "\nexport MASTER_PORT=123\nexport WORLD_SIZE=2\nA=1\n" in script


def test_a_folder_that_each_task_makes_before_the_training_is_made_once_in_a_pod() -> None:
    """To make it twice is no other thing; what else runs in each task is a step."""
    nodes = "#SBATCH -N 2 --ntasks-per-node=2 --gpus-per-node=2"
    rows = ("srun mkdir -p /a/b", "srun truncate -s 0 /a/c", "srun python a.py")
    conversion = _convert(nodes, *rows)
    assert conversion.values["command"] == ["python", "a.py"]
    assert "mkdir -p /a/b\ntruncate -s 0 /a/c\n" in conversion.values["setup"]
    with pytest.raises(InvalidValues, match="2 steps"):
        _convert(nodes, "srun ./setup.sh", "srun python a.py")


@pytest.mark.parametrize(
    ("shebang", "first_line"),
    [
        ("#!/bin/bash -l", "#!/bin/bash"),
        ("#!/bin/bash --login", "#!/bin/bash"),
        ("#!/bin/bash -login", "#!/bin/bash"),
        ("#!/bin/bash -noprofile", "#!/bin/bash -noprofile"),
        ("#!/bin/bash -el", "#!/bin/bash -e"),
        ("#!/bin/bash -e", "#!/bin/bash -e"),
    ],
)
def test_a_shell_of_a_login_is_that_of_none(shebang: str, first_line: str) -> None:
    """The profile of a Debian sets PATH anew, and with it the image's Python is gone."""
    conversion = job.convert(f"{shebang}\n#SBATCH -n1\npython a.py\n".encode(), "job.sbatch")
    assert conversion.values["script"].startswith(f"{first_line}\nunset ")
    assert (shebang != first_line) == any("login" in verdict.why for verdict in conversion.verdicts)
    ranks = job.convert(f"{shebang}\n#SBATCH -n4\nsrun ./a\n".encode(), "job.sbatch")
    assert (shebang != first_line) == any("login" in verdict.why for verdict in ranks.verdicts)


@pytest.mark.parametrize(
    "row",
    [
        "source commands/${SLURM_ARRAY_TASK_ID}.sh",
        ". ./train.sh --lr 1",
        "for seed in 1 2; do source train.sh $seed; done",
    ],
)
def test_a_file_that_is_read_last_is_the_program(row: str) -> None:
    """In setup its end would be nobody's: the run would succeed where the program fails."""
    conversion = _convert("#SBATCH -n1 --array=1-2", "source activate x", row, "echo done")
    assert row in conversion.values["script"]
    assert conversion.values["setup"].endswith("source activate x\n")
    assert not [verdict for verdict in conversion.verdicts if "activates" in verdict.why][1:]
    settings = _convert("#SBATCH -n1", "source settings.sh", "./train")
    assert "source settings.sh" in settings.values["setup"]


def test_a_variable_that_printf_sets_is_one_of_the_script() -> None:
    """`printf -v` prints nothing."""
    rows = ('printf -v subject "%03d" $SLURM_ARRAY_TASK_ID', "source activate x", "./a $subject")
    conversion = _convert("#SBATCH -n1 --array=1-3", *rows)
    assert not conversion.lost
    assert "set -a" in conversion.values["setup"]


def test_what_a_comment_says_is_nothing_that_runs() -> None:
    """Also behind a command: a comment may tell of srun, or of a container."""
    rows = ("srun -n 1 ./a  # use srun, not mpirun", "./b # singularity exec x", 'c="a#b"')
    assert not _convert("#SBATCH -n1", *rows).lost
    command = _convert("#SBATCH -n1", "# srun", 'x="#"; parallel srun ./a  # y')
    assert _verdict(command, "srun").line == 4


def test_a_trap_for_the_end_of_the_script_is_no_signal() -> None:
    """A pod's shell of setup ends before its ranks."""
    conversion = _convert("#SBATCH -N 2 -n 4", "trap 'rm -r x' EXIT", "srun python a.py")
    assert "of its own" in _verdict(conversion, "trap").why


def test_a_part_of_a_part_that_another_line_reads_stays_in_setup() -> None:
    """The command has its words, and so has the line that prepares the data."""
    rows = ('DATA="--data /d"', 'ARGS="$DATA --lr 1"', 'python check.py "$ARGS"')
    conversion = _convert("#SBATCH -N 2 --gpus-per-node=4", *rows, "srun torchrun a.py $ARGS")
    for row in rows:
        assert row in conversion.values["setup"]
    unread = _convert("#SBATCH -N 2 --gpus-per-node=4", *rows[:2], "srun torchrun a.py $ARGS")
    assert "DATA" not in unread.values.get("setup", "")


@pytest.mark.parametrize("name", ["nodes", "hosts", "ip"])
def test_a_number_is_no_list_of_nodes(name: str) -> None:
    """Whatever the variable is called: a line that reads it is no line about where ranks meet."""
    rows = (f"{name}=2", f"python prepare.py --parts ${name}", f"srun python a.py ${name}")
    conversion = _convert("#SBATCH -N 2 -n 4", *rows)
    assert rows[1] in conversion.values["setup"]
    assert _verdict(conversion, rows[0]).outcome is Outcome.CARRIED
    port = _convert("#SBATCH -N 2 -n 4", "master_port=2", "srun python a.py")
    assert "ranks meet" in _verdict(port, "master_port").why


def test_what_the_script_ran_once_is_said_where_there_are_pods() -> None:
    """The launcher of an MPI job runs setup as well; in a pod alone there is nothing to say."""
    once = ("./mesh > m.txt", "rm -r old", "python a.py")
    rows = (*once, "cat x", "ulimit -s 1", "export A=$B")
    for step in ("mpirun ./a", "srun --mpi=pmix ./a"):
        conversion = _convert("#SBATCH -N 1 -n 4 --gpus-per-node=4", *rows, step)
        reasons = {verdict.path: verdict.why for verdict in conversion.verdicts}
        assert [row for row in rows if "each pod" in reasons[row]] == [*once]
    alone = _convert("#SBATCH -N 1 --gpus-per-node=4", *rows, "torchrun --nproc_per_node 4 a.py")
    assert not [verdict for verdict in alone.verdicts if "each pod" in verdict.why]


def test_steps_in_containers_of_their_own_are_no_single_pod() -> None:
    """The first image is that of the run; of the others each line is said."""
    rows = (
        "srun ./look",
        "srun --container-image=a/b:1 --container-mounts=/a:/d --container-workdir=/x ./a",
        "srun --container-image=a/c:1 --container-mounts=/b:/d --container-workdir=/y ./b",
        "srun --container-image=a/b:1 ./c",
        "srun mkdir -p out",
    )
    conversion = _convert("#SBATCH -n1", *rows)
    assert conversion.values["image"] == {"repository": "a/b", "tag": "1"}
    assert {(verdict.path, verdict.line) for verdict in conversion.lost} == {
        ("srun --container-image", 5),
        ("srun --container-mounts", 5),
        ("srun --container-workdir", 4),
        ("srun --container-workdir (2)", 5),
    }
    outside = [verdict for verdict in conversion.verdicts if "image of line 4" in verdict.why]
    assert [verdict.line for verdict in outside] == [3]
    prepared = _convert(
        "#SBATCH -N 2 -n 4 --gpus-per-node=2",
        "srun --ntasks-per-node=1 --container-image=a/c:1 make",
        "srun --container-image=a/b:1 python a.py",
    )
    assert [(verdict.path, verdict.line) for verdict in prepared.lost] == [
        ("srun --container-image", 3)
    ]


@pytest.mark.parametrize(
    "row",
    [
        "nextflow run a.nf -profile jax,singularity",
        "nextflow run a.nf -c conf/singularity_slurm.config",
        "nextflow -C site_slurm.cfg run a.nf",
        "nextflow run a.nf -c ./configs/crick.config",
        "snakemake -j 100 --profile config/slurm_a",
        "snakemake -j 100 --cluster $SUBMIT",
        "snakemake --profile=cubi-v1",
    ],
)
def test_a_workflow_with_the_settings_of_a_site_is_said(row: str) -> None:
    """These say who runs its steps: on a cluster of Slurm's, as a rule Slurm does."""
    assert "may submit" in _convert("#SBATCH -n1", row).lost[0].why
    for other in ("nextflow run a.nf -profile conda -c a.config", "snakemake -c 4"):
        assert not _convert("#SBATCH -n1", other).lost


def test_an_image_that_several_lines_start_is_said_once() -> None:
    """Each of its lines would say the same."""
    programs = ("a.sif ./a", "a.sif ./b", "b.sif ./c")
    rows = [f"singularity exec {program}" for program in programs]
    lost = [verdict.path for verdict in _convert("#SBATCH -n1", *rows).lost]
    assert lost == ["a.sif", "b.sif"]


@pytest.mark.parametrize(
    ("output", "row"),
    [
        ("", "mv slurm-$SLURM_JOB_ID.out logs/"),
        ("#SBATCH -o o/%x-%j.log", "grep loss o/${SLURM_JOB_NAME}-${SLURM_JOB_ID}.log > l.txt"),
        ("#SBATCH -e e-%A_%a.err", "cp e-${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID.err /tmp"),
    ],
)
def test_a_line_that_reads_the_jobs_output_is_said(output: str, row: str) -> None:
    """There is no such file in a pod, and the script would end with the failure of that line."""
    conversion = _convert("#SBATCH -n1 -a 1-2", output, "python a.py", row)
    assert [verdict.why for verdict in conversion.lost if "log, and no file" in verdict.why]
    moves = "mv all.log model-$SLURM_JOB_ID.pt x"
    other = _convert("#SBATCH -n1 -o all.log", "cd runs", "python a.py", moves)
    assert not other.lost


@pytest.mark.parametrize(
    "row",
    [
        "export CUDA_VISIBLE_DEVICES=6,7",
        "CARD=2; CUDA_VISIBLE_DEVICES=$CARD python b.py",
        'ROCR_VISIBLE_DEVICES="0,2" python b.py',
    ],
)
def test_numbers_of_gpus_that_no_pod_has_are_said(row: str) -> None:
    """On a machine without limits a script takes the cards that are free; a pod has its own."""
    lost = _convert("#SBATCH --gres=gpu:2 -n 1", row, "python a.py").lost
    assert ["begin at 0" in verdict.why for verdict in lost] == [True]
    for value in ("0,1", "0,1,2,3", "-1", ""):
        other = f"CUDA_VISIBLE_DEVICES={value}"
        assert not _convert("#SBATCH --gres=gpu:2 -n 1", f"{other} python a.py").lost
    assert not _convert("#SBATCH -n 1", row, "python a.py").lost


@pytest.mark.parametrize(
    "row",
    [
        "conda run -n a python a.py",
        "micromamba run -n a ./train",
        "spack install openmpi",
        "time -p spack -v install openmpi",
    ],
)
def test_what_a_manager_of_packages_runs_is_the_script(row: str) -> None:
    """In setup its end would be nobody's; what it activates stays there."""
    conversion = _convert("#SBATCH -n1", "conda activate b", row, "echo done")
    assert row in conversion.values["script"]
    assert conversion.values["setup"].endswith("conda activate b\n")
    assert [verdict.path for verdict in conversion.verdicts if "activates" in verdict.why] == [
        "conda activate b"
    ]


@pytest.mark.parametrize(
    "name", ["$HOSTNAME", "${SLURMD_NODENAME}", "$(hostname -s)", "`/bin/hostname`", "$(uname -n)"]
)
def test_the_first_nodes_name_in_a_step_is_rank_zeros_address(name: str) -> None:
    """The script's shell puts in the node that it runs on; in a pod each rank has its own shell."""
    conversion = _convert(_TASKS, f'srun python train.py --url "tcp://{name}:1234"')
    assert (
        conversion.values["command"][-1] == 'exec python train.py --url "tcp://$MASTER_ADDR:1234"'
    )
    assert "first node" in _verdict(conversion, name).why


def test_a_nodes_own_name_stays_where_each_process_asks_for_it() -> None:
    """What stands in single quotes is put in by the shell of the task."""
    conversion = _convert(_TASKS, "srun bash -c 'python train.py --log $HOSTNAME'")
    assert conversion.values["command"][-1] == "exec python train.py --log $HOSTNAME"


def test_a_variable_with_the_first_nodes_name_is_rank_zeros_address() -> None:
    """`HEAD=$HOSTNAME` is read in each pod, whose name is another."""
    conversion = _convert(_TASKS, "HEAD=$HOSTNAME", "srun python train.py --url tcp://$HEAD:1234")
    assert conversion.values["command"][-1].startswith("HEAD=$MASTER_ADDR\n")


def test_an_exported_name_of_the_first_node_is_named() -> None:
    """A program that meets by a variable of its own finds another node's name in each pod."""
    conversion = _convert(_TASKS, "export COORDINATOR=$HOSTNAME:1234", "srun python train.py")
    assert "its own name" in _verdict(conversion, "export COORDINATOR").why


def test_one_node_keeps_its_name() -> None:
    """A pod that is alone is the first node."""
    conversion = _convert(
        "#SBATCH -N 1 -n 4 --gpus-per-node=4", "srun python t.py --host $HOSTNAME"
    )
    assert conversion.values["command"][-1] == "exec python t.py --host $HOSTNAME"


@pytest.mark.parametrize(
    "row",
    [
        "conda run --live-stream -n torch python train.py",
        "micromamba run -n torch torchrun --nproc_per_node 4 train.py",
        "conda run -n torch bash train.sh",
        "pyenv exec python train.py",
        "time uv run --with wandb python train.py",
    ],
)
def test_a_program_that_runs_in_an_environment_is_no_activation(row: str) -> None:
    """As a line of setup its failure would be lost, and nothing would be left to run."""
    conversion = _convert("#SBATCH -N 1 --gpus-per-node=4", "source venv/bin/activate", row)
    program = conversion.values.get("script") or " ".join(conversion.values["command"])
    assert row.removeprefix("time ") in program
    assert conversion.values["setup"].rstrip().endswith("source venv/bin/activate")


@pytest.mark.parametrize("row", ["conda activate x", "conda env create -f e.yml", "spack load x"])
def test_what_changes_an_environment_is_an_activation(row: str) -> None:
    """The program behind it is what the script is about."""
    conversion = _convert("#SBATCH -N 1", row, "python train.py")
    assert row in conversion.values["setup"]
    assert row not in conversion.values["script"]


@pytest.mark.parametrize("row", ["srun uv run torchrun --nnodes 2 t.py", "srun ddp torchrun t.py"])
def test_a_torchrun_behind_another_program_has_no_options_of_the_launcher(row: str) -> None:
    """It reads PET_NO_PYTHON from the torchrun around it, and would run `t.py` without python."""
    command = _convert("#SBATCH -N 2 --gpus-per-node=4", row).values["command"]
    assert command[-1].startswith("unset PET_NO_PYTHON ")


def test_a_launcher_that_runs_in_an_environment_keeps_it() -> None:
    """`uv run accelerate` is accelerate's, of that environment, once in each pod."""
    conversion = _convert("#SBATCH -N 1 --gpus-per-node=4", "uv run accelerate launch t.py")
    assert conversion.values["command"] == ["uv", "run", "accelerate", "launch", "t.py"]
    assert conversion.values["procsPerNode"] == 1


_NUMBERS = ("SLURM_NTASKS", "SLURM_NPROCS", "SLURM_NTASKS_PER_NODE")


@pytest.mark.parametrize(
    ("row", "step", "unset"),
    [
        ("#SBATCH -N 1 --gres=gpu:8", "python train.py", _NUMBERS),
        ("#SBATCH -n 1 --gres=gpu:8", "python train.py", _NUMBERS[2:]),
        ("#SBATCH -N 1 --ntasks-per-node=1", "python train.py", ()),
        ("#SBATCH --gres=gpu:8", "srun python train.py", _NUMBERS[2:]),
        ("#SBATCH --array=0-3", "python train.py", _NUMBERS),
    ],
)
def test_a_script_without_tasks_is_told_none(row: str, step: str, unset: Sequence[str]) -> None:
    """PyTorch Lightning takes SLURM_NTASKS for srun's, and would start no process for each GPU."""
    script = _convert(row, "source venv/bin/activate", step).values["script"]
    removed = " ".join(line for line in script.split("\n") if line.startswith("unset ")).split()
    assert tuple(name for name in _NUMBERS if name in removed) == unset


def test_a_number_of_tasks_that_the_script_reads_is_kept() -> None:
    """It is 1: the script has asked for that itself."""
    script = _convert("#SBATCH -N 1", "python train.py --workers $SLURM_NTASKS").values["script"]
    assert "SLURM_NPROCS" in script.split("\n")[1]
    assert "SLURM_NTASKS " not in script.split("\n")[1]


_COMMANDS = (
    (
        'CMD="pip install x; torchrun --nnodes 2 --nproc_per_node 8 t.py --a \\"b c\\""',
        "pip install x",
    ),
    ("CMD='export A=1\ntorchrun --nnodes 2 --nproc_per_node 8 t.py --a \"b c\"'", "export A=1"),
)


@pytest.mark.parametrize(("row", "setup"), _COMMANDS)
def test_commands_in_a_variable_are_those_of_the_shell_that_gets_it(row: str, setup: str) -> None:
    """`srun bash -c "$CMD"` is the text of CMD, which stands in the script."""
    conversion = _convert(_NODES, row, 'srun bash -c "$CMD"')
    assert conversion.values["command"] == ["python3", "-u", "t.py", "--a", "b c"]
    assert setup in conversion.values["setup"].split("\n")


def test_commands_in_a_variable_that_two_lines_set_are_not_known() -> None:
    """Which of the two runs is known in the pod alone."""
    rows = ('if [ "$A" ]; then', 'CMD="cd a; python a.py"', "else", 'CMD="cd b; python b.py"', "fi")
    with pytest.raises(InvalidValues, match="known in the pod alone"):
        _convert(_NODES, *rows, 'srun bash -c "$CMD"')


def test_the_first_nodes_name_in_a_variable_of_words_is_rank_zeros_address() -> None:
    """The variable's words stand in the command, where each process would name its own node."""
    conversion = _convert(_TASKS, 'ARGS="--url tcp://$HOSTNAME:1234"', "srun python train.py $ARGS")
    assert conversion.values["command"][-1] == "exec python train.py --url tcp://$MASTER_ADDR:1234"


def test_an_image_whose_name_has_a_blank_is_no_file() -> None:
    """Pyxis is given `ghcr.io/OWNER/…`, which the person is to fill in."""
    conversion = _convert("srun --container-image=ghcr.io/OWNER/tests:latest python a.py")
    assert "no registry has an image of this name" in _verdict(conversion, "--container-image").why


@pytest.mark.parametrize(
    "blank",
    [
        *("{{ nodes }}", "{nodes}", "{job.nodes}", "%(nodes)d", "__NODES__", "@nodes@", "@@N@@"),
        *("##nodes##", "%NODES%"),
    ],
)
def test_a_template_is_refused_with_its_blank(blank: str) -> None:
    """Sbatch would not read it, and its ranks are unknown."""
    with pytest.raises(InvalidValues) as error:
        _convert(f"#SBATCH --nodes={blank}", "srun python a.py")
    assert error.value.problems[0].hint == f"fill in what stands for {blank}"


@pytest.mark.parametrize(
    "blank",
    [
        "{{ path }}",
        "{{ lr | default(1) }}",
        "{% if x %}",
        "@PATH@",
        "@@A_1@@",
        "%PATH%",
        "$${path}",
        "__MY_PATH__",
        "<DATA_DIR>",
        "<DATA_DIR> --x 1",
        "<DATA_DIR>:/data",
        "<absolute path to your code>/a",
    ],
)
def test_a_template_of_lines_is_refused_with_its_blank(blank: str) -> None:
    """Each rank would get the blank; what a script writes, or has as a format, is its own."""
    with pytest.raises(InvalidValues) as error:
        _convert(_TASKS, f"srun python a.py --path {blank}")
    own = blank.partition(">")[0] + ">" if blank.startswith("<") else blank
    assert error.value.problems[0].hint == f"fill in what stands for {own}"
    rows = (f"cat > a.j2 <<EOF\n{blank}\nEOF", f"# {blank}", f"sed -i 's/{blank}/b/' a.yaml")
    assert _convert(_TASKS, *rows, "srun python a.py").values["command"]


@pytest.mark.parametrize(
    ("row", "blank"),
    [
        ("DIR=/scratch/<your-name>/data/", "<your-name>"),
        ("python b.py --a=<path> c", "<path>"),
        ("ENV={TODO: FILL-IN}", "{TODO: FILL-IN}"),
        ("cd /scratch/{TODO: your project}", "{TODO: your project}"),
        ("python b.py --save <PATH TO MODELS> c", "<PATH TO MODELS>"),
        ('OPTIONS="\\\n --save <PATH TO a.json> \\\n --lr 1"', "<PATH TO a.json>"),
    ],
)
def test_what_a_person_is_to_fill_in_within_a_path_is_named(row: str, blank: str) -> None:
    """A shell takes it for two files, one to read and one to write, and finds none."""
    with pytest.raises(InvalidValues) as error:
        _convert(_TASKS, row, "srun python a.py $DIR")
    assert error.value.problems[0].hint == f"fill in what stands for {blank}"


@pytest.mark.parametrize(
    "row",
    [
        *("eval b=\\$${a}", "d=$(date +%Y%m%d-%H%M%S)", "scp a A@B:c", "b=${a%ABC%}"),
        *('b="${A[@]}"', "__A__=1", "b=$__A__", "gcc -D__A__ a.c", "cat > a <<__A__\n__A__"),
        *("cat > a <<'__A__'\n__B__\n__A__", 'cat > a <<- "__A__"\n__A__'),
        *("julia -e 'cd(@__DIR__)'", "b=__pycache__", "sed -i \\\n -e 's|__A__|b|' \\\n a.yaml"),
        *(
            "b=$(<a.txt)",
            "diff <(sort a) <(sort b)",
            "cat dir/<a >b",
            "cat <IN >OUT",
            'echo "use: --a=<path>"',
        ),
    ],
)
def test_a_line_of_a_shell_is_no_template(row: str) -> None:
    """It has the signs of one, and a shell reads it."""
    assert _convert(_TASKS, row, "srun python a.py").values["command"]


@pytest.mark.parametrize(
    "row",
    [
        *('P=${P:-"{{ instruction }}"}', "P=${P:-'{{ x }}'}", "PROMPT='Say {{ x }}'"),
        *('A="Write of {{ x }} and\nof {{ y }}."', "CHAT_TEMPLATE='{% if x %}a{% endif %}'"),
        *("python b.py --prompt-template '{{ x }}' c", 'python b.py --prompt="say {{ x }}"'),
    ],
)
def test_a_text_for_a_program_is_no_template(row: str) -> None:
    """The program fills in its blanks; whoever filled them in here would change what it does."""
    assert _convert(_TASKS, row, "srun python a.py").values["command"]


@pytest.mark.parametrize(
    "row",
    [
        *('P="{{ path }}"', 'A="/data/{{ x }}"', 'PROMPT="{{ prompt }}"', "A='--lr {{ lr }} -b 1'"),
        *('PROMPT_FILE="/data/{{ x }}/a"', "A='python b.py {{ x }}'", "python b.py '{{ x }}' c"),
        "python b.py --prompt-file '{{ x }}'",
    ],
)
def test_a_word_in_quotes_may_be_a_blank_of_a_template(row: str) -> None:
    """No program gets a text there, but a word, a path or a part of a command."""
    with pytest.raises(InvalidValues, match="the script is a template"):
        _convert(_TASKS, row, "srun python a.py")


@pytest.mark.parametrize(
    ("row", "blank"),
    [
        ("p='<<<params_file>>>'", "<<<params_file>>>"),
        ('export p="<params_file>"', "<params_file>"),
        ('python b.py --p "<params file>" c', "<params file>"),
        ("python b.py --token-file='<<<file>>>' c", "<<<file>>>"),
    ],
)
def test_a_value_that_is_a_blank_in_quotes_is_named(row: str, blank: str) -> None:
    """Its program gets the brackets, and finds no such file."""
    with pytest.raises(InvalidValues) as error:
        _convert(_TASKS, row, "srun python a.py")
    assert error.value.problems[0].hint == f"fill in what stands for {blank}"


@pytest.mark.parametrize(
    "row",
    [
        *("TOKEN='<image>'", 'python b.py --pad "<pad>" c', "EOS='<eos>'", "A='<im_start>'"),
        *('echo "--p" "<path>"', "[ $1 = '<path>' ]", "A='</think>'", 'echo "p=<path>"'),
    ],
)
def test_a_word_in_quotes_and_brackets_may_be_a_token(row: str) -> None:
    """Tokenizers have such words, and what is printed is for who reads it."""
    assert _convert(_TASKS, row, "srun python a.py").values["command"]


def test_a_text_over_several_lines_may_say_how_to_use_the_script() -> None:
    """It has blanks that no shell reads, and so has a comment within such a text."""
    rows = ('usage() { echo "a.sh', "  --data <DATA_DIR> --x <NAME>", '  --y"; }')
    inner = ("bash -c '", "  # one line: <SIZE> and <DATA_DIR> more", "  python a.py'")
    assert _convert("#SBATCH -n1", *rows, *inner).values["script"]


@pytest.mark.parametrize("row", ["python a.py --d YOUR_DATA_DIR", "export KEY='YOUR_KEY'"])
def test_a_blank_in_capitals_is_named(row: str) -> None:
    """A program gets it as it is typed."""
    verdicts = _convert(row, "python b.py").verdicts
    [path] = [own.path for own in verdicts if "a blank for a person" in own.why]
    assert path.startswith("YOUR_")
    others = _convert("YOUR_DIR=1", "python b.py $YOUR_DIR your_model.py", "echo YOUR_DIR").verdicts
    assert not [own.path for own in others if "a blank for a person" in own.why]


def test_a_path_to_something_is_named() -> None:
    """One from the root was, and one below the folder of the script was not."""
    row = "python a.py --a path/to/the/64K/data --b=./path/to/b /path/to/c a/path/to/d path/to"
    verdicts = _convert(row).verdicts
    paths = [own.path for own in verdicts if "a blank for a person" in own.why]
    assert paths == ["path/to/the/64K/data", "./path/to/b", "/path/to/c"]


def test_a_blank_in_square_brackets_is_named() -> None:
    """No shell needs it filled in, and the program gets it."""
    rows = ("#SBATCH --account=[account]", "python a.py --d=[your_dir] [test-set-dir] [a b c]")
    verdicts = _convert(*rows).verdicts
    assert "fill in what stands for [account]" in [own.why for own in verdicts]
    blanks = ["[your_dir]", "[test-set-dir]"]
    assert [own.path for own in verdicts if "a blank for a person" in own.why] == blanks
    paths = ("cd [path-to-code]/src", "python a.py --d '[data-dir]/a.tar' --e '[no-path]'")
    verdicts = _convert(*paths).verdicts
    blanks = ["[path-to-code]", "[data-dir]"]
    assert [own.path for own in verdicts if "a blank for a person" in own.why] == blanks
    rows = ("ls [a-z]* [a-zA-Z_]", "[ ab -nt cd ] && b=([ab_cd]=1)", "tr '[ab-cd]' [A-Z] <b")
    lists = ("echo [your dir]", "python a.py --nodes=node[ab-cd] ab=[cd,ef] $c[ab_cd]")
    verdicts = _convert(*rows, *lists).verdicts
    assert not [own for own in verdicts if "a blank for a person" in own.why]


@pytest.mark.parametrize("option", ["-o %x_%A_TASK_%a.out", "-n 4 ##cores##", "-J a@b.c"])
def test_a_directive_with_patterns_and_comments_is_no_template(option: str) -> None:
    """Sbatch reads it."""
    assert _convert(f"#SBATCH {option}", "python a.py").values["script"]


@pytest.mark.parametrize(
    "row",
    [
        "spack config get compilers",
        "spack module lmod refresh -y",
        "conda env list",
        "conda config --set auto_activate_base false",
    ],
)
def test_a_manager_of_environments_that_does_something_else_activates_nothing(row: str) -> None:
    """It has no environment that an image would need."""
    verdicts = _convert(_TASKS, row, "srun python a.py").verdicts
    assert not [verdict for verdict in verdicts if "activates" in verdict.why]
    active = _convert(_TASKS, "spack env activate a", "srun python a.py").verdicts
    assert [verdict for verdict in active if "activates" in verdict.why]


def test_the_environment_of_deepspeed_says_that_other_nodes_have_ranks() -> None:
    """`.deepspeed_env` is for the ranks that deepspeed starts on other hosts."""
    rows = ('echo "PATH=$PATH" > .deepspeed_env', "python deepy.py train.py")
    verdict = _verdict(_convert("#SBATCH -N 4", *rows), "--nodes")
    assert verdict.outcome == Outcome.NOT_CARRIED
    assert ".deepspeed_env" in verdict.why


def test_an_exported_name_for_the_first_node_is_in_the_command() -> None:
    """The launcher sets MASTER_ADDR, and not a name of the script's own, which programs read."""
    ask = "$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n1)"
    conversion = _convert(_TASKS, f"export master_ip={ask}", "srun python a.py")
    text = "export master_ip=$MASTER_ADDR\nexec python a.py"
    assert ["bash", "-c", text] == conversion.values["command"]
    assert _verdict(conversion, "export").to == "command"
    hosts = "$(scontrol show hostnames $SLURM_JOB_NODELIST{})"
    row = f"export MY_NODES={hosts.format('')}"
    why = _verdict(_convert(_TASKS, row, "srun python a.py"), "export").why
    assert why.endswith("a program that reads MY_NODES has no list of the nodes here")
    row = f"export COUNT_NODE={hosts.format(' | wc -l')}"
    for options, step in ((_TASKS, "srun python a.py"), (_NODES, "srun -n $COUNT_NODE ./train.sh")):
        setup = _convert(options, row, step).values["setup"]
        assert "export COUNT_NODE=$SLURM_NNODES\n" in setup
    rows = (f"export head_node={ask}", "srun torchrun --rdzv_endpoint $head_node:1 --nnodes 2 a.py")
    assert "a program" not in _verdict(_convert(_NODES, *rows), "export").why


def test_an_import_of_enroot_by_srun_is_named() -> None:
    """It makes the file of an image, which a pod cannot."""
    conversion = _convert("srun enroot import docker://a.io#b:1", "srun python a.py")
    assert "makes no image file" in _verdict(conversion, "enroot").why


def test_where_ranks_meet_is_left_out_before_the_step_too() -> None:
    """`MASTER_ADDR=127.0.0.1 srun …` would let each node's ranks wait for themselves."""
    step = 'A=1 MASTER_ADDR="127.0.0.1" MASTER_PORT=5432 srun python train.py'
    conversion = _convert(_TASKS, step)
    assert conversion.values["command"] == ["python", "train.py"]
    assert conversion.values["env"]["A"] == "1"
    assert "lets the ranks meet" in _verdict(conversion, "MASTER_ADDR").why


def test_where_ranks_of_mpi_meet_before_the_step_is_their_first_host() -> None:
    """No launcher of MPI's tells it."""
    rows = ("#SBATCH -N 2 --ntasks-per-node=2", "MASTER_ADDR=$(hostname) srun --mpi=pmix ./solve")
    assert "export MASTER_ADDR=" in _convert(*rows).values["setup"]


def test_a_step_that_the_script_puts_together_is_refused() -> None:
    """Which words `eval $cmd` starts is known in the pod alone, and the pod has no srun."""
    rows = ('cmd="srun python a.py"', 'if [ "$A" ]; then cmd+=" --a"; fi', "eval $cmd")
    with pytest.raises(InvalidValues, match="put together"):
        _convert("#SBATCH -N 1 --ntasks-per-node=4 --gpus-per-node=4", *rows)


@pytest.mark.parametrize(
    "text",
    [
        "export CUDA_VISIBLE_DEVICES=$SLURM_LOCALID; cd /code; python train.py",
        "mkdir -p out/$SLURM_PROCID && python train.py --out out/$SLURM_PROCID",
    ],
)
def test_what_a_task_does_by_its_own_number_is_done_by_each_rank(text: str) -> None:
    """As a line of setup it would be done once in a pod, by the number of its first rank."""
    conversion = _convert(_TASKS, f"srun bash -c '{text}'")
    assert conversion.values["command"] == ["bash", "-c", text]
    assert "setup" not in conversion.values


def test_a_container_that_starts_in_the_folder_that_is_sent_loses_nothing() -> None:
    """The ranks start there anyway."""
    conversion = _convert("srun --container-workdir=`pwd` python a.py")
    assert "anyway" in _verdict(conversion, "--container-workdir").why


def test_a_loop_over_the_nodes_is_named() -> None:
    """Without scontrol it runs for none, and what it copies is not there."""
    loop = "for n in $(scontrol show hostnames $SLURM_JOB_NODELIST); do cp -r /a /scratch; done"
    verdict = _verdict(_convert(_TASKS, loop, "srun python a.py --data /scratch/a"), "scontrol")
    assert (verdict.line, verdict.outcome) == (3, Outcome.NOT_CARRIED)


def test_a_torchrun_on_one_node_after_the_other_in_containers_is_one_run() -> None:
    """The first node's and that of the others differ in what torchrun is told alone."""
    start = "srun -N1 -n1 -w $N singularity exec docker://a/b:1 torchrun --nproc_per_node 8"
    rows = (
        "for N in $(scontrol show hostnames); do",
        'if [ "$N" = "$HEAD" ]; then',
        f"{start} --nnodes 2 --node_rank 0 --master_addr $HEAD a.py &",
        "else",
        f"{start} --nnodes 2 --node_rank $I --master_addr $HEAD a.py &",
        "fi; done",
        "wait",
    )
    conversion = _convert(_NODES, *rows)
    assert conversion.values["nodes"] == 2
    assert conversion.values["command"] == ["python3", "-u", "a.py"]


def test_options_of_srun_with_the_jobs_own_number_are_known() -> None:
    """`--jobid $SLURM_JOB_ID` is the job itself."""
    row = 'ARGS="--kill-on-bad-exit=1 --jobid $SLURM_JOB_ID"'
    verdicts = _convert("#SBATCH -N 1", row, 'srun $ARGS bash -c "$1"').verdicts
    outcomes = {verdict.path: verdict.outcome for verdict in verdicts}
    assert outcomes["srun $ARGS"] == Outcome.CHANGED


def test_a_loop_of_one_word_is_no_loop() -> None:
    """Grids of one point are common: `for lr in 0.1; do` runs once."""
    rows = (
        "for lr in 0.1; do",
        "for seed in 3",
        "do",
        "mpirun ./a $lr $seed",
        "done",
        "done # all",
    )
    conversion = _convert("#SBATCH -N 2 --ntasks-per-node=2", *rows)
    assert conversion.values["command"][-1] == "exec mpirun ./a $lr $seed"
    assert "lr=0.1" in conversion.values["setup"]
    assert _verdict(conversion, "mpirun").line == 6
    with pytest.raises(InvalidValues, match="more than once"):
        _convert("#SBATCH -N 2 --ntasks-per-node=2", "for lr in 1 2; do", "mpirun ./a $lr", "done")


@pytest.mark.parametrize(
    "row",
    [
        "if true; then\n  module load cuda\nelse\n  ml gcc\nfi",
        "load() { module purge; module load cuda; }\nload",
        "module load cuda || exit 7",
        "module load cuda && module load gcc",
        "for name in cuda gcc; do module load $name; done",
        "if ! module load cuda 2>/dev/null; then exit 7; fi",
        "python c.py\nif true; then module load cuda; fi",
    ],
)
@pytest.mark.parametrize("step", ["python b.py", "srun -N2 python b.py"])
def test_modules_are_loaded_where_the_image_has_them(row: str, step: str) -> None:
    """A script that ends where a command fails goes on without them, wherever they stand in it."""
    values = _convert(_NODES, "set -e", row, step).values
    text = "\n".join((values.get("setup", ""), values.get("script", "")))
    run = subprocess.run(
        ["bash", "-c", f"python() {{ :; }}\n{text}\necho done"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (0, "done\n", "") == (run.returncode, run.stdout, run.stderr)


@pytest.mark.parametrize(
    ("option", "row", "procs"),
    [
        ("#SBATCH --gres=gpu:8", "torchrun --nproc_per_node=${SLURM_GPUS_PER_NODE:-4} a.py", 4),
        (
            "#SBATCH --gpus-per-node=8",
            "torchrun --nproc_per_node=${SLURM_GPUS_PER_NODE:-4} a.py",
            8,
        ),
        (
            "#SBATCH --gres=gpu:8",
            "N=${SLURM_NTASKS_PER_NODE:-${SLURM_GPUS-2}}\ntorchrun --nproc_per_node=$N a.py",
            2,
        ),
    ],
)
def test_a_variable_of_an_option_that_the_script_has_not_is_its_default(
    option: str, row: str, procs: int
) -> None:
    """Slurm sets it for that option alone; `compat: slurm` does for all jobs."""
    values = _convert("#SBATCH -N1", option, row).values
    assert procs == values.get("procsPerNode", values["gpusPerNode"])


@pytest.mark.parametrize(
    ("rows", "is_default"),
    [
        (("#SBATCH -n2", "srun python a.py --workers ${SLURM_CPUS_PER_TASK:-6}"), True),
        (("#SBATCH -n2 -c4", "srun python a.py --workers ${SLURM_CPUS_PER_TASK:-6}"), False),
        (("#SBATCH -n2", "srun -c 4 python a.py --workers ${SLURM_CPUS_PER_TASK:-6}"), False),
        (
            (
                "#SBATCH -n2",
                ": ${SLURM_CPUS_PER_TASK:=3}",
                "srun python a.py ${SLURM_CPUS_PER_TASK:-6}",
            ),
            False,
        ),
    ],
)
def test_a_default_stays_where_an_option_or_the_script_sets_its_variable(
    rows: Sequence[str], *, is_default: bool
) -> None:
    """What the ranks read is then that of the option."""
    command = " ".join(_convert(*rows).values["command"])
    assert is_default == ("SLURM_CPUS_PER_TASK" not in command)
    assert not is_default or command.endswith(" 6")


def test_a_number_of_gpus_that_slurm_would_not_have_set_is_said() -> None:
    """It does for --gpus alone; a script that tests it ends there under Slurm."""
    test = '[ -z "$SLURM_GPUS" ] && exit'
    assert "alone" in _verdict(_convert("#SBATCH --gres=gpu:2", test, "python a.py"), "$SL").why
    assert "follows" in _verdict(_convert("#SBATCH -N1 --gpus=2", test, "python a.py"), "$SL").why


@pytest.mark.parametrize(
    "step",
    [
        'srun --container-image="../images/torch.sqsh" python a.py',
        "srun --container-image ../images/torch.sqsh python a.py",
        "singularity exec ../images/torch.sif python a.py",
    ],
)
def test_the_file_of_an_image_is_not_to_be_sent(step: str) -> None:
    """A pod cannot use it, so that nothing is gained by a larger folder."""
    whys = [verdict.why for verdict in _convert("#SBATCH -N1", step).lost]
    assert whys
    assert not any("--workspace" in why for why in whys)
    above = _convert("#SBATCH -N1", f"{step} --data ../data")
    assert any("--workspace" in verdict.why for verdict in above.lost)


def test_a_mount_of_the_folder_that_is_sent_is_no_loss() -> None:
    """It is in the pods, and what names it by PWD has the folder that it is in there."""
    mounts = "--container-image=a/b:1 --container-mounts=$PWD:$PWD"
    conversion = _convert("#SBATCH -N1", f"srun {mounts} python a.py")
    assert not conversion.lost
    assert "podTemplate" not in conversion.values
    more = _convert("#SBATCH -N1", f"srun {mounts},/fsx:/fsx python a.py")
    assert not more.lost
    assert "/fsx" in str(more.values["podTemplate"])


@pytest.mark.parametrize(
    "row",
    ["xvfb-run -e logs/$SLURM_JOB_ID.out python a.py", "python a.py --log-file=$SLURM_JOB_ID.out"],
)
def test_a_file_that_a_program_writes_is_not_that_of_the_output(row: str) -> None:
    """It is there, though it has the name that Slurm gives the file of the job's output."""
    assert not _convert("#SBATCH -n1 -o logs/%j.out", row).lost


@pytest.mark.parametrize(
    ("options", "is_carried"),
    [
        ("-n 1 --gpus-per-task=2", True),
        ("-N 2 --ntasks-per-node=1 --gpus-per-task=2", True),
        ("-N 2 --ntasks-per-node=2 --gpus-per-task=2", False),
        ("-n 1 --gpus-per-node=4 --gpus-per-task=2", False),
        ("-n 1 --gpus-per-task=v100s:2", False),
        ("-n 1 --gpus-per-task=two", False),
    ],
)
def test_the_gpus_of_a_task_are_carried_where_a_node_has_one(
    options: str, *, is_carried: bool
) -> None:
    """The process of a pod sees its GPUs, as it did; of several, each sees those of all.

    A type of GPU, and an amount that is none, are said as of other options.
    """
    verdict = _verdict(_convert(f"#SBATCH {options}", "srun python a.py"), "--gpus-per-task")
    assert (verdict.outcome is Outcome.CARRIED) is is_carried


@pytest.mark.parametrize("option", ["--gpu-bind=single:1", "--gpus-per-task=1"])
def test_that_a_process_sees_all_gpus_is_said_in_words_that_hold_for_mpi(option: str) -> None:
    """Ranks of an mpirun have no LOCAL_RANK."""
    conversion = _convert(f"#SBATCH -N1 --ntasks-per-node=2 {option}", "mpirun ./a.out")
    why = _verdict(conversion, option.partition("=")[0]).why
    assert "sees all" in why
    assert "LOCAL_RANK" not in why


@pytest.mark.parametrize(
    ("rows", "options"),
    [
        (("singularity exec $FLAGS $IMG python a.py",), ["$FLAGS"]),
        (
            ("srun -n 4 apptainer exec ${BINDINGS} --nv $X docker://a/b:1 python a.py",),
            ["${BINDINGS}", "$X"],
        ),
        (("mpirun -n 4 singularity exec $X $SIF python a.py",), ["$X"]),
        (("singularity exec $CONT ./python a.py",), []),
        (("singularity exec $SIF python a.py",), []),
        (('X="--nv -B /fsx:/fsx"', "singularity exec $X $IMG python a.py"), []),
        (("X=--nv", "srun -n 4 singularity exec \\\n  ${X} a.sif python a.py"), []),
    ],
)
def test_options_of_a_container_in_a_variable_are_not_its_image(
    rows: Sequence[str], options: Sequence[str]
) -> None:
    """What runs begins behind the image, and not with it."""
    conversion = _convert("#SBATCH -N1", *rows)
    text = conversion.values.get("script") or " ".join(conversion.values["command"])
    last = text.strip().split("\n")[-1]
    assert last.removeprefix("mpirun -n 4 ").removeprefix("./") == "python a.py"
    paths = [verdict.path for verdict in conversion.verdicts if "options of the" in verdict.why]
    assert options == paths
    has_volume = "/fsx" in str(conversion.values.get("podTemplate"))
    assert has_volume == ("fsx" in rows[0])


def test_an_eval_that_prints_activates_nothing() -> None:
    """It needs nothing of the image, wherever it stands."""
    row = 'eval "echo took $(date -ud @9 +%M) minutes"'
    for rows in ((row, "python a.py"), ("python a.py", row)):
        assert "in the image" not in _verdict(_convert("#SBATCH -n1", *rows), "eval").why


def test_a_file_that_the_script_writes_is_no_node() -> None:
    """`NODELIST=nodes.txt`, with `srun hostname > $NODELIST`, is the name of a file."""
    rows = ("export NODELIST=nodes.txt", "srun hostname > $NODELIST", "sed s/a/b/ $NODELIST > h")
    conversion = _convert("#SBATCH -N 2 --ntasks-per-node=2", *rows, "mpirun -np 4 ./a")
    assert not any("first host" in verdict.why for verdict in conversion.verdicts)
    assert "mpi/hostfile" not in conversion.values.get("setup", "")


def test_a_number_that_follows_from_the_ranks_is_no_address() -> None:
    """What else the script exports of the number of ranks, setup does."""
    rows = ("export WORLD_SIZE=$((SLURM_NNODES * 8))", "export BATCH=$((64 / WORLD_SIZE))")
    conversion = _convert("#SBATCH -N 2 --gpus-per-node=8", *rows, "srun torchrun a.py")
    assert "export BATCH=$((64 / WORLD_SIZE))\n" in conversion.values["setup"]
    rows = ("export MASTER_ADDR=$(hostname)", "export HEAD_NAME=$MASTER_ADDR")
    conversion = _convert("#SBATCH -N 2 --gpus-per-node=8", *rows, "srun torchrun a.py")
    assert "export HEAD_NAME=$MASTER_ADDR\n" in conversion.values["command"][-1]
    rows = ("master_port=$(python port.py)", "export PORT=$master_port")
    conversion = _convert("#SBATCH -N 2 --gpus-per-node=8", *rows, "srun torchrun a.py")
    assert "export PORT=$master_port\n" in conversion.values["command"][-1]


def test_hosts_and_their_launchers_in_one_condition_are_lost() -> None:
    """What starts containers on the nodes is no word of where the ranks of torchrun meet."""
    condition = (
        "if [[ $A -eq 1 ]]; then",
        "  hosts=(`scontrol show hostname`)",
        "  RUN='ssh -q $h'",
        "fi",
    )
    conversion = _convert("#SBATCH -N 1 --gres=gpu:8", *condition, "$RUN ls", "python a.py")
    verdict = _verdict(conversion, "if [")
    assert (verdict.outcome, verdict.line) == (Outcome.NOT_CARRIED, 3)
    assert "asks Slurm for its nodes" in verdict.why


@pytest.mark.parametrize(
    "rows",
    [
        ("for h in $(scontrol show hostnames $N); do", "python a.py $h", "done"),
        ("if true; then", "h=`scontrol show hostname | sort`; fi", "python a.py $h"),
    ],
)
def test_a_list_of_nodes_in_a_script_that_stays_is_said(rows: tuple[str, ...]) -> None:
    """It is empty in a pod: a loop over it ran no program, and ended well."""
    lost = _convert("#SBATCH -N 1 --gres=gpu:8", "N=$SLURM_JOB_NODELIST", *rows).lost
    assert any(verdict.path.startswith("scontrol show hostname") for verdict in lost)


@pytest.mark.parametrize(
    ("row", "is_named"),
    [
        ("if [ -f done ]; then echo done; exit; fi", True),
        ("[ -f done ] && exit 0", True),
        ("[ -f data ] || exit 1", False),
        ("stop() { exit 0; }", False),
        ("stop() { exit 0; }; [ -f done ] && stop", True),
        ("stop() { exit; }; look() { [ -f done ] && stop; }; look", True),
        ("stop() { exit 1; }; [ -f done ] && stop", False),
        ('if [ -z "$SLURM_JOB_ID" ]; then sbatch "$0"; exit; fi', False),
    ],
)
def test_a_script_that_ends_before_its_step_is_said(row: str, is_named: bool) -> None:
    """A run whose setup ends it has failed, whatever its status."""
    conversion = _convert("#SBATCH -N 2 --gpus-per-node=8", row, "srun torchrun a.py")
    assert any("ended well" in verdict.why for verdict in conversion.verdicts) == is_named


@pytest.mark.parametrize(
    ("row", "local"),
    [
        ("host=($(scontrol show hostnames))", "host=(localhost)"),
        ("host=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)", "host=localhost"),
    ],
)
def test_the_names_of_the_nodes_are_this_ones_in_a_script_of_one_process(
    row: str, local: str
) -> None:
    """Whatever the variable is called: the line was left out, and the program's word was empty."""
    rows = ("#SBATCH -N 2 --gpus-per-node=4", row, 'python a.py --head="${host[0]}"')
    assert local in _convert(*rows).values["script"].splitlines()


@pytest.mark.parametrize(
    ("own", "shell"),
    [
        ("#!/usr/local_rwth/bin/zsh", "#!/bin/zsh"),
        ("#!/sw/bin/bash -e", "#!/bin/bash -e"),
        ("#!/usr/bin/zsh", "#!/usr/bin/zsh"),
        ("#!/usr/bin/env bash", "#!/usr/bin/env bash"),
    ],
)
def test_the_shell_of_a_site_is_that_of_the_image(own: str, shell: str) -> None:
    """A pod could not start the script: no image has a folder of the site's."""
    text = f"{own}\n#SBATCH -n 1\npython a.py\n"
    conversion = job.convert(text.encode(), "job.sbatch")
    assert shell == conversion.values["script"].splitlines()[0]
    assert (own != shell) is any(verdict.path == own for verdict in conversion.verdicts)


@pytest.mark.parametrize("options", ["-e", "-eo pipefail"])
def test_a_pipe_that_hides_a_failure_is_said(options: str) -> None:
    """A shell without pipefail takes the status of the last program of a pipe."""
    for step in (
        "srun python a.py 2>&1 | tee log",
        'eval "srun python a.py | tee log"',
        "{ cd a; srun python a.py; } | tee log",
    ):
        verdicts = _convert(_NODES, f"set {options}", step).verdicts
        has_word = any("which has no pipefail" in verdict.why for verdict in verdicts)
        assert has_word == ("pipefail" not in options)


@pytest.mark.parametrize("program", ["python prepare.py", "./log.sh", "bash log.sh a"])
def test_a_variable_is_set_behind_the_program_that_runs_without_it(program: str) -> None:
    """All of a pod has what is in env; what is exported first is there, and for looks as before."""
    for step in ("srun python a.py", "python a.py"):
        rows = ("export A=1", "python -c 'import torch'", "export B=2", program, "export C=3")
        values = _convert(_NODES if "srun" in step else "#SBATCH -n1", *rows, step).values
        assert {"A": "1", "B": "2"} == values["env"]
        text = values["setup"] if "srun" in step else values["script"]
        assert text.index(program) < text.index("export C=3")


def test_numbers_of_gpus_that_no_pod_has_are_left_out() -> None:
    """The chart's own numbers hold where the report says that the script's are not carried."""
    for rows in (
        ("CUDA_VISIBLE_DEVICES=0,2 torchrun --nproc_per_node=2 a.py",),
        ("export CUDA_VISIBLE_DEVICES=0,2", "torchrun --nproc_per_node=2 a.py"),
    ):
        conversion = _convert("#SBATCH -n 1 --gres=gpu:2", *rows)
        assert [verdict.path for verdict in conversion.lost] == ["CUDA_VISIBLE_DEVICES=0,2"]
        assert "env" not in conversion.values


def test_a_usage_text_needs_no_path_of_the_script() -> None:
    """It is printed in a branch of `getopts`, behind a pattern on its line."""
    rows = ("while getopts h o; do", "  case $o in", '    h|?) echo "Usage: $0 [-h]"; exit 1 ;;')
    rows += ("  esac", "done", "torchrun --nproc_per_node=2 a.py")
    assert not _convert("#SBATCH -n 1 --gres=gpu:2", *rows).lost
    read = ("B=$(basename $0)", "torchrun --nproc_per_node=2 a.py $B")
    assert [verdict.path for verdict in _convert("#SBATCH -n 1 --gres=gpu:2", *read).lost] == ["$0"]


def test_the_name_of_this_node_in_a_variable_of_the_scripts_stays() -> None:
    """It lets no ranks meet: ``TAG=${SLURMD_NODENAME:-$(hostname -s)}`` is a part of a path."""
    row = 'TAG="${SLURMD_NODENAME:-$(hostname -s)}"'
    conversion = _convert("#SBATCH -n 1", row, "python a.py --out /tmp/${TAG}")
    assert row in conversion.values["script"]


def test_the_folder_of_the_script_is_to_be_written_out() -> None:
    """The path of the script in a pod would be that of another folder, and so in Slurm."""
    rows = ('D=$(dirname "$0")', "conda activate a", "python a.py $D")
    text = "\n".join(("#!/bin/bash", "#SBATCH -n 1", *rows, ""))
    (why,) = (own.why for own in job.convert(text.encode(), "job").lost if own.path == "$0")
    assert why.endswith("as $SLURM_SUBMIT_DIR")


def test_output_that_goes_nowhere_is_no_file_that_a_line_needs() -> None:
    """`--output=/dev/null`: a line that names the device reads no log."""
    rows = ("#SBATCH -n 1 --output=/dev/null", 'trap "kill 1 2>/dev/null" EXIT', "python a.py")
    assert not job.convert("\n".join(("#!/bin/bash", *rows, "")).encode(), "job").lost


@pytest.mark.parametrize(
    ("row", "path"),
    [
        ("python a.py --out out/$SLURM_JOB_ID", "out/$SLURM_JOB_ID"),
        ("python a.py --name=run_${SLURM_JOB_ID:-local}", "run_${SLURM_JOB_ID:-local}"),
        ('O="$DATA/${SLURM_JOBID}_x"; python a.py $O', "$DATA/${SLURM_JOBID}_x"),
        ("python a.py > log_$SLURM_ARRAY_JOB_ID.txt", "log_$SLURM_ARRAY_JOB_ID.txt"),
        ("python a.py --out /tmp/$SLURM_JOB_ID", ""),
        ("P=$((10000 + SLURM_JOB_ID % 5000)); python a.py $P", ""),
        ("P=$(expr 10000 + $(echo -n $SLURM_JOBID | tail -c 4)); python a.py $P", ""),
        ("echo job_$SLURM_JOB_ID; python a.py", ""),
        ("python a.py --id $SLURM_JOB_ID", ""),
    ],
)
def test_a_name_with_the_number_of_the_job_is_not_new(row: str, path: str) -> None:
    """A second run of the same name writes into the folder of the first."""
    text = f"#!/bin/bash\n#SBATCH -n 1\n{row}\n"
    verdicts = job.convert(text.encode(), "job").verdicts
    whys = [v.why for v in verdicts if "has it again" in v.why]
    assert [True] * bool(path) == [path in why for why in whys]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ('-c "$SLURM_CPUS_ON_NODE" --use-singularity', "runs its steps in containers"),
        ("-c 8 --use-singularity", "runs its steps in containers"),
        ("-c site.json --use-singularity", "may submit jobs"),
    ],
)
def test_a_workflow_counts_cores_by_a_variable_as_well(words: str, why: str) -> None:
    """What stands behind `-c` was taken for a file of settings, and the containers had no word."""
    text = f"#!/bin/bash\n#SBATCH -n 1\nsnakemake all {words}\n"
    lost = [own for own in job.convert(text.encode(), "job").lost if own.path == "snakemake"]
    assert [True] == [why in own.why for own in lost]


@pytest.mark.parametrize(("nodes", "is_noted"), [(2, True), (1, False)])
def test_what_pods_write_into_the_folder_that_is_sent_is_seen_by_none(
    nodes: int, *, is_noted: bool
) -> None:
    """Nodes shared the folder of the project, and each pod has a copy."""
    text = (
        f"#!/bin/bash\n#SBATCH -N {nodes} --ntasks-per-node=4 --gpus-per-node=4\nsrun python a.py\n"
    )
    notes = job.convert(text.encode(), "job").notes
    assert any("has a copy of the folder" in note for note in notes) is is_noted


@pytest.mark.parametrize(
    ("rows", "is_named"),
    [
        (('export PYTHONPATH="$PYTHONPATH:/code"', "python src/a.py"), True),
        (("export PYTHONPATH=lib:$PYTHONPATH", "srun -n 1 python src/a.py"), True),
        (("export PYTHONPATH=$PYTHONPATH:$(pwd)", "python src/a.py"), False),
        (("export PYTHONPATH=$PYTHONPATH:/code", "python a.py"), False),
        (("export PYTHONPATH=/code", "python src/a.py"), False),
    ],
)
def test_the_empty_part_of_a_path_is_not_there(rows: tuple[str, ...], *, is_named: bool) -> None:
    """It is the folder that Python starts in, and the launcher has set the variable before."""
    text = "\n".join(("#!/bin/bash", "#SBATCH -n 1", *rows, ""))
    whys = [own.why for own in job.convert(text.encode(), "job").verdicts]
    assert any("it has an empty part" in why for why in whys) is is_named


def test_a_limit_counts_while_pods_wait() -> None:
    """Slurm's begins with the job, and that of a Job of Kubernetes' when its pods are made."""
    text = "#!/bin/bash\n#SBATCH -n 1 -t 1:00:00\npython a.py\n"
    [own] = [own for own in job.convert(text.encode(), "job").verdicts if own.path == "--time"]
    assert "while they wait for a node" in own.why


@pytest.mark.parametrize(
    ("options", "is_named"),
    [("--ip=$(hostname -i)", True), ("--ip 0.0.0.0", False), ("--no-browser", False)],
)
def test_a_server_on_an_address_of_its_node_is_not_reached(options: str, *, is_named: bool) -> None:
    """`kubectl port-forward` comes to localhost in the pod."""
    text = f"#!/bin/bash\n#SBATCH -n 1\njupyter-lab {options}\n"
    [own] = [own for own in job.convert(text.encode(), "job").verdicts if own.path == "jupyter-lab"]
    assert ("listen on 127.0.0.1" in own.why) is is_named


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ("-N 2 --gpus-per-node=4 -c 32", "names no number of tasks"),
        ("-N 2 --gpus-per-node=4 --ntasks-per-node=1 -c 32", "each rank has 4 GPUs"),
        ("-N 2 --gpus-per-node=4 --ntasks-per-node=4 -c 8", ""),
    ],
)
def test_a_rank_with_several_gpus_is_told_of(options: str, why: str) -> None:
    """It finds that it is alone on its node, and starts no process for the others."""
    text = f"#!/bin/bash\n#SBATCH {options}\nsrun python a.py\n"
    verdicts = job.convert(text.encode(), "job").verdicts
    whys = [own.why for own in verdicts if own.to == "procsPerNode: 1"]
    assert [True] * bool(why) == [why in own for own in whys]


def test_the_log_of_a_task_goes_with_its_trial() -> None:
    """`allranks logs NAME` has none of a sweep, whose tasks are releases of their own."""
    for option, is_of_task in (("--array=0-9", True), ("-n 1", False)):
        text = f"#!/bin/bash\n#SBATCH {option}\n#SBATCH -o a_%A.out\npython a.py\n"
        [own] = [v for v in job.convert(text.encode(), "job").verdicts if v.path == "--output"]
        assert ("sweep.keep" in own.why) is is_of_task


@pytest.mark.parametrize("row", ["cp -r $SLURM_TMPDIR/out /scratch", "tar czf /data/a.tgz out"])
def test_files_that_are_brought_away_behind_the_ranks_are_gone(row: str) -> None:
    """A run of its own has other pods, and finds none of what these have written."""
    rows = ("#!/bin/bash", "#SBATCH -N 2 --ntasks-per-node=4", "srun python a.py", row, "")
    text = "\n".join(rows)
    whys = [own.why for own in job.convert(text.encode(), "job").lost]
    assert any("let the program write into a volume" in why for why in whys)
    assert not any("make it a run of its own" in why for why in whys)


@pytest.mark.parametrize(
    ("row", "is_server"),
    [
        ("jupyter nbconvert --to notebook --execute a.ipynb", False),
        ("jupyter notebook --port 1", True),
        ("jupyter --debug lab", True),
    ],
)
def test_a_server_is_what_its_first_word_says(row: str, *, is_server: bool) -> None:
    """`--to notebook` is no server."""
    text = f"#!/bin/bash\n#SBATCH -n 1\n{row}\n"
    whys = [own.why for own in job.convert(text.encode(), "job").verdicts]
    assert any("port-forward" in why for why in whys) is is_server


@pytest.mark.parametrize(("workdir", "is_named"), [("", True), (" --container-workdir=/w", False)])
def test_a_container_of_pyxis_starts_in_its_image(workdir: str, *, is_named: bool) -> None:
    """And a run in the folder that is sent."""
    text = f"#!/bin/bash\n#SBATCH -n 1\nsrun --container-image=a/b:1{workdir} python a.py\n"
    verdicts = job.convert(text.encode(), "job").verdicts
    [own] = [verdict for verdict in verdicts if verdict.path == "--container-image"]
    assert ("WORKDIR" in own.why) is is_named


def test_a_container_of_shifter_starts_where_the_script_does() -> None:
    """Its image was told of Pyxis, which starts in the folder of the image."""
    text = "#!/bin/bash\n#SBATCH -n 1\n#SBATCH --image=a/b:1\nsrun shifter python a.py\n"
    [own] = [own for own in job.convert(text.encode(), "job").verdicts if own.path == "--image"]
    assert (Outcome.CARRIED, "image", "") == (own.outcome, own.to, own.why)


def test_mounts_are_of_the_node_whatever_others_are() -> None:
    """The advice on claims and owners was gone where one mount of several is not carried."""
    mounts = "--container-mounts=/fsx:/fsx,$HOME:$HOME"
    text = f"#!/bin/bash\n#SBATCH -n 1\nsrun --container-image=a/b:1 {mounts} python a.py\n"
    [own] = [v for v in job.convert(text.encode(), "job").lost if v.path == "--container-mounts"]
    assert "podSecurityContext.runAsUser" in own.why
