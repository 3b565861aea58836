"""Lines of real scripts that meant something else than they seemed to.

It is longer than most: each test is one such line, with what becomes of it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from allranks.convert.slurm import job
from allranks.convert.verdicts import Outcome
from allranks.errors import InvalidValues

if TYPE_CHECKING:
    from allranks.convert.verdicts import Conversion, Verdict

_NODES = "#SBATCH -N 2 --ntasks-per-node=1 --gpus-per-node=8"
_TASKS = "#SBATCH -N 2 --ntasks-per-node=8 --gpus-per-node=8"
_OF_IMAGE = "what it activates must be in the image, or in a volume at that path"


def _convert(*rows: str) -> Conversion:
    return job.convert("\n".join(("#!/bin/bash", *rows, "")).encode(), "job.sbatch")


def _program(conversion: Conversion) -> str:
    """The script without the line that takes the launcher's variables from it."""
    rows = conversion.values["script"].split("\n")
    return "\n".join(row for row in rows if not row.startswith("unset PET_"))


def _verdict(conversion: Conversion, path: str) -> Verdict:
    return next(verdict for verdict in conversion.verdicts if verdict.path.startswith(path))


def test_lines_that_become_setup_leave_no_separators() -> None:
    """`date;hostname` before what is activated goes with its semicolons, which are no commands."""
    conversion = _convert(
        "date;hostname & pwd", "source a/bin/activate; module load x", "python a.py"
    )
    assert _program(conversion) == "#!/bin/bash\npython a.py\n"
    assert (
        _convert("date; scontrol show job 1; python a.py")
        .values["script"]
        .endswith("date; python a.py\n")
    )


def test_a_quote_in_a_comment_is_no_quote() -> None:
    """What is read behind it is said; an escaped dollar, and what awk reads, are not."""
    rows = ("# It isn't read", "cat <<EOF\nit's $FROM\nEOF", "echo a # don't")
    conversion = _convert(_TASKS, *rows, "awk '{print $2}' b", 'srun python a.py $1 "\\$2" $DATA')
    assert "no words were given" in _verdict(conversion, "$1 …").why
    assert _verdict(conversion, "$DATA").line == 9
    assert _verdict(conversion, "$FROM").line == 5
    plain = _convert(_TASKS, "awk '{print $2}' b", 'srun python a.py "\\$2"')
    assert "$1 …" not in {verdict.path for verdict in plain.verdicts}


def test_a_command_in_double_quotes_has_quotes_of_its_own() -> None:
    """What awk reads in single quotes there is no word of the script's; what else it reads is."""
    row = """A="$(awk '{print $2}' "$LIST") it's" """
    conversion = _convert("#SBATCH -n1", row, "python a.py $A")
    assert {verdict.path for verdict in conversion.lost} == {"$LIST"}


def test_a_text_in_double_quotes_goes_on_behind_a_backslash_at_the_end_of_a_line() -> None:
    """What it reads in its second line is said, and the quotes behind it are others."""
    conversion = _convert("#SBATCH -n1", 'python a.py "a \\\n it\'s $DATA"', "python b.py '$2'")
    assert {verdict.path for verdict in conversion.lost} == {"$DATA"}


def test_nodes_whose_names_go_into_a_file_are_not_said_to_be_idle() -> None:
    """A script behind it may start ranks there: deepspeed reads its hosts from such a file."""
    rows = ("for node in $(scontrol show hostnames); do", "echo $node >> hostfile", "done")
    conversion = _convert("#SBATCH -N2", *rows, "./train.sh")
    assert "hostfile" in _verdict(conversion, "--nodes").why
    assert {verdict.path for verdict in conversion.lost} == {"--nodes", "scontrol show hostnames"}
    assert _verdict(_convert("#SBATCH -N2", "./train"), "--nodes").outcome is Outcome.CHANGED
    unread = _convert("#SBATCH -N2", "FILE=train.sh", "cp $FILE logs", "cd logs", "./$FILE")
    assert "./train.sh, which is not read here" in _verdict(unread, "--nodes").why


def test_the_index_of_an_array_is_said_where_there_is_none() -> None:
    """`sbatch --array` may stand on a command line that the script does not have."""
    conversion = _convert("#SBATCH -n1", "python a.py $SLURM_ARRAY_TASK_ID")
    assert "no array" in _verdict(conversion, "$SLURM_ARRAY_TASK_ID").why
    array = _convert("#SBATCH -n1 --array=1-3", "python a.py $SLURM_ARRAY_TASK_ID")
    assert not array.lost


@pytest.mark.parametrize(
    ("row", "lost"),
    [
        ("singularity exec --pwd /run-$$ docker://a/b:1 python a.py", "--pwd /run-$$"),
        ("docker run -w /run-$JOB a/b:1 python a.py", "-w /run-$JOB"),
        ("singularity exec -W /scratch docker://a/b:1 python a.py", "-W /scratch"),
    ],
)
def test_a_folder_that_a_pod_cannot_have_is_said(row: str, lost: str) -> None:
    """One with a variable, and Singularity's --workdir, which is where a container has its /tmp."""
    conversion = _convert(_TASKS, f"srun {row}")
    assert "workingDir" not in conversion.values
    assert _verdict(conversion, lost).outcome is Outcome.NOT_CARRIED


def test_a_container_behind_mpirun_is_the_pod() -> None:
    """`mpirun singularity exec` is how programs of MPI's run in an image."""
    conversion = _convert(
        _TASKS, "mpirun -np 16 --bind-to core singularity exec -B /d docker://a/b:1 x"
    )
    assert conversion.values["command"] == ["mpirun", "-np", "16", "--bind-to", "core", "x"]
    assert conversion.values["image"] == {"repository": "a/b", "tag": "1"}
    pipeline = _convert(_TASKS, "ls | xargs singularity exec a.sif b", "srun python a.py")
    assert _verdict(pipeline, "singularity").outcome is Outcome.NOT_CARRIED


def test_what_needs_a_terminal_is_left_out() -> None:
    """`clear` fails in a pod, and would end setup where the script has `set -e`."""
    for row in ("clear; srun python a.py", "clear && srun python a.py"):
        conversion = _convert(_TASKS, "set -e", row)
        assert "clear" not in conversion.values.get("setup", "")
        assert "terminal" in _verdict(conversion, "clear").why


def test_the_path_of_the_script_is_said_where_it_is_none() -> None:
    """`cp $0 out` in setup copies another file; in a script that is run as it is, it does not."""
    conversion = _convert(_TASKS, 'cp "$0" /out', "srun python a.py")
    assert (3, Outcome.NOT_CARRIED) == (
        _verdict(conversion, "$0").line,
        _verdict(conversion, "$0").outcome,
    )
    assert not _convert("#SBATCH -n1", 'cp "$0" /out', "python a.py").lost


def test_a_copy_of_a_script_that_is_a_file_is_said_to_be_shorter() -> None:
    """The pod's file has no directives, and what became setup is in another."""
    verdict = _verdict(_convert("#SBATCH -n1", 'cp "$0" /out', "python a.py"), "$0")
    assert (verdict.line, verdict.outcome) == (3, Outcome.CHANGED)
    assert "without its directives" in verdict.why
    in_setup = _convert("#SBATCH -n1", 'cp "$0" /out', "conda activate a", "python a.py")
    assert "the script is /etc/allranks/script" in _verdict(in_setup, "$0").why
    shown = _convert("#SBATCH -n1", 'echo "$0"', "cp a b/", "python a.py")
    assert not [own for own in shown.verdicts if own.path == "$0"]


def test_accelerate_is_python() -> None:
    """A script that only launches with it has PyTorch in its image."""
    conversion = _convert("for i in 1; do accelerate launch a.py $i; done")
    assert not any("own Python" in note for note in conversion.notes)


def test_what_stands_behind_a_backslash_is_refused() -> None:
    """The shell ends the command there, and takes the options for another."""
    with pytest.raises(InvalidValues, match="behind the backslash"):
        _convert(_NODES, "srun torchrun \\", "  --nproc_per_node 8 \\  # GPUs", "  --nnodes 2 a.py")


def test_a_sourced_file_may_set_a_variable() -> None:
    """Nobody has read it, so that it is not said that nobody sets the variable."""
    rows = ("source env.sh", "module load fftw", "source v/bin/activate", "srun a.py $DATA $USER")
    conversion = _convert(_TASKS, *rows, "echo $FFTW_ROOT >> log")
    assert "env.sh (line 3) may set it" in _verdict(conversion, "$DATA").why
    both = _convert(_TASKS, ". a.env", "source $B", "srun python a.py $DATA")
    assert "a.env (line 3) or the file $B (line 4) may set" in _verdict(both, "$DATA").why
    assert "does not set it" in _verdict(conversion, "$USER").why
    easybuild = _convert(_TASKS, *rows[:3], "srun a.py $EBROOTFFTW $EBVERSIONFFTW")
    for name in ("$EBROOTFFTW", "$EBVERSIONFFTW"):
        assert "a module (line 4) may set it" in _verdict(easybuild, name).why
    late = _convert(_TASKS, "srun python a.py $DATA", "source env.sh")
    assert "the script does not set it" in _verdict(late, "$DATA").why


def test_lines_that_change_files_are_said_to_run_in_each_pod() -> None:
    """The script ran them once, and pods may share the files."""
    rows = ("make", "mkdir out", "mkdir -p more", "srun --mpi=pmix ./a.out")
    conversion = _convert(_TASKS, *rows)
    assert "each pod runs it" in _verdict(conversion, "make").why
    assert "each pod runs it" in _verdict(conversion, "mkdir out").why
    assert _verdict(conversion, "mkdir -p more").outcome is Outcome.CARRIED
    alone = _convert("#SBATCH -n2 --gpus=2", *rows[:-1], "srun python a.py")
    assert _verdict(alone, "make").outcome is Outcome.CARRIED


def test_what_a_module_sets_too_is_set_behind_it() -> None:
    """The later one counts, as in the script; other variables are those of the run."""
    rows = ("export MODULEPATH=/m", "export CC=gcc", "export NCCL_DEBUG=INFO")
    conversion = _convert(_TASKS, rows[0], "module load cuda", *rows[1:], "srun python a.py")
    assert conversion.values["env"] == {"MODULEPATH": "/m", "NCCL_DEBUG": "INFO"}
    assert conversion.values["setup"].endswith("module load cuda\nexport CC=gcc\n")


def test_a_variable_that_srun_passes_on_is_the_scripts() -> None:
    """`--export=ALL,A=$A` gives the step what the script exports."""
    rows = ("export A=$(nproc)", "srun --export=ALL,A=$A,B=$B python a.py")
    reasons = [verdict.why for verdict in _convert(_TASKS, *rows).lost]
    assert any(why.endswith("write B into env") for why in reasons)


def test_ranks_without_a_sign_of_mpi_are_said_to_have_none() -> None:
    """Srun gives a program MPI where it asks; torchrun does not."""
    conversion = _convert("#SBATCH -N2 --ntasks-per-node=2", "srun python a.py")
    assert any("mpi4py" in note for note in conversion.notes)
    gpus = _convert("#SBATCH -N2 --ntasks-per-node=2 --gpus-per-node=2", "srun python a.py")
    assert not any("mpi4py" in note for note in gpus.notes)


@pytest.mark.parametrize(
    "row", ["srun -n $((SLURM_NNODES * N)) x", "srun -N $N -n 2 x", "srun --ntasks-per-node=$N x"]
)
def test_a_step_whose_size_is_not_known_is_refused(row: str) -> None:
    """It ran as one process, whatever a command line of sbatch gave the job."""
    with pytest.raises(InvalidValues, match="known where the script runs"):
        _convert('N="$(wc -l < hosts)"', row)
    assert _convert(_TASKS, 'N="$(wc -l < hosts)"', row).values["nodes"] == 2


def test_the_nodes_of_tasks_are_slurms_to_choose() -> None:
    """`-n 64` alone may be on 64 of them, which a script may count."""
    with pytest.raises(InvalidValues, match="--nodes of the step"):
        _convert("#SBATCH -n 64", "N=$SLURM_NNODES", "srun -N $N -n $N x")
    assert _convert("#SBATCH -N 2", "N=$SLURM_NNODES", "srun -n $N x").values["nodes"] == 2


def test_mpi_of_a_step_of_one_process_is_none() -> None:
    """No mpirun is said where none starts."""
    why = _verdict(_convert("#SBATCH -n1", "srun --mpi=pmi2 x"), "srun --mpi").why
    assert "mpirun" not in why


def test_a_launcher_in_a_container_is_a_step() -> None:
    """Its ranks are those of all nodes, and the image is the pod's."""
    nodes = _convert("#SBATCH -N4", "singularity_wrapper exec deepspeed --hostfile h a.py")
    assert (4, "sh") == (nodes.values["nodes"], nodes.values["command"][0])
    conversion = _convert("#SBATCH -N1 --gpus=4", "apptainer exec docker://a/b:1 torchrun a.py")
    assert conversion.values["command"] == ["python3", "-u", "a.py"]
    assert conversion.values["image"]["repository"] == "a/b"


def test_tmpdir_is_the_pods() -> None:
    """Clusters set it, and an image does not: `unzip -d $TMPDIR/data` would write to /data."""
    conversion = _convert(_TASKS, "unzip a.zip -d $TMPDIR/data", "srun python a.py")
    assert conversion.values["env"] == {"TMPDIR": "/tmp"}
    assert "env" not in _convert("export TMPDIR=$(mktemp -d)", "ls $TMPDIR", "python a.py").values


def test_a_folder_of_the_step_is_not_that_of_the_lines_before_it() -> None:
    """They start where the script does."""
    conversion = _convert(_TASKS, "source ./a.sh", "srun bash -c 'cd /code; python a.py'")
    assert "workingDir" not in conversion.values
    assert conversion.values["setup"].index("./a.sh") < conversion.values["setup"].index(
        "cd /code\n"
    )


def test_the_mpi_of_oneapi_is_intels() -> None:
    """Its module is called oneapi/mpi."""
    conversion = _convert(_TASKS, "module load oneapi/mpi/2021.5.1", "mpirun -n 16 x")
    assert conversion.values["mpi"]["implementation"] == "Intel"


def test_python_in_a_text_is_python() -> None:
    """`sh -c "python a.py"` runs it."""
    conversion = _convert("#SBATCH -n1", "srun sh -c 'export A=1; python a.py'")
    assert not any("own Python" in note for note in conversion.notes)


def test_a_script_with_rocm_is_for_gpus_of_amds() -> None:
    """Where no type says so; a comment does not."""
    rows = ("#SBATCH -n1 --gres=gpu:2", "module load rocm/6.1", "python a.py")
    assert _convert(*rows).values["gpuResource"] == "amd.com/gpu"
    image = "singularity exec pytorch_rocm5.sif python a.py"
    assert _convert(rows[0], image).values["gpuResource"] == "amd.com/gpu"
    wheels = "pip install torch --index-url https://download.pytorch.org/whl/rocm6.4"
    assert _convert(rows[0], wheels, rows[2]).values["gpuResource"] == "amd.com/gpu"
    partition = "#SBATCH -p 1CN192C4G1H_MI300A_Ubuntu22"
    assert _convert(partition, *rows[::2]).values["gpuResource"] == "amd.com/gpu"
    assert "gpuResource" not in _convert("#SBATCH -p mi30", *rows[::2]).values
    profiler = "srun -n 1 rocprof-compute profile -- python a.py"
    assert _convert(rows[0], profiler).values["gpuResource"] == "amd.com/gpu"
    assert "gpuResource" not in _convert(rows[0], "# module load rocm", rows[2]).values
    assert "gpuResource" not in _convert("#SBATCH --gres=gpu:a100:2", *rows[1:]).values


def test_a_variable_with_options_that_nobody_sets_is_said() -> None:
    """`srun $SRUN_ARGS --jobid 1 python a.py` has a program all the same."""
    conversion = _convert(_TASKS, "srun $SRUN_ARGS --jobid $SLURM_JOB_ID python a.py")
    assert conversion.values["command"] == ["python", "a.py"]
    assert "srun $SRUN_ARGS" in {verdict.path for verdict in conversion.lost}


def test_a_group_at_the_top_is_its_lines() -> None:
    """What each rank would have run is setup; a group with a pipe, and a document, stay."""
    rows = ("{", "  N=8", "  mkdir -p out", "  srun python a.py $N", "}")
    conversion = _convert(_TASKS, *rows)
    assert conversion.values["command"] == ["bash", "-c", "exec python a.py $N"]
    assert "mkdir -p out" in conversion.values["setup"]
    document = ("cat <<E > a.json", "{", '  "a": 1', "}", "E")
    assert '{\n  "a": 1\n}' in _convert(_TASKS, *document, "srun python a.py").values["setup"]
    assert "{ ls; } && { pwd; }" in _convert("{ ls; } && { pwd; }", "python a.py").values["script"]


def test_a_script_that_works_and_submits_the_next_is_a_run() -> None:
    """Only one that does nothing else is refused; what it submits is said."""
    for rows in (
        ("./a.out", "sbatch b.sh"),
        ("spack install x", "sbatch -d afterok:$SLURM_JOB_ID b"),
    ):
        conversion = _convert("#SBATCH -n1", *rows)
        assert any("submits another job" in verdict.why for verdict in conversion.lost)
    with pytest.raises(InvalidValues, match="only submits"):
        _convert("for i in 1 2; do", "  sed s/X/$i/ a > b.sh", "  sbatch b.sh", "done")


def test_an_ibrun_of_several_programs_is_refused() -> None:
    """As an srun is; one without a program is none."""
    with pytest.raises(InvalidValues, match="several programs"):
        _convert("#SBATCH -n4", "ibrun --multi-prog a.conf")
    with pytest.raises(InvalidValues, match="several programs"):
        _convert("#SBATCH -n4", "ibrun --multi-prog")
    assert _convert("#SBATCH -n4", "ibrun", "python a.py").values["script"]


def test_an_image_of_singularity_without_a_scheme_is_a_file() -> None:
    """`singularity exec sandbox python` runs a folder, and no image of a registry."""
    conversion = _convert(_TASKS, "srun singularity exec sandbox python a.py")
    assert conversion.values["image"]["repository"] == "pytorch/pytorch"
    assert "cannot use an image file" in _verdict(conversion, "sandbox").why
    for name in ("instance://a", "library://a/b:1", "docker://A/B"):
        conversion = _convert(_TASKS, f"srun singularity exec {name} python a.py")
        assert _verdict(conversion, name).outcome is Outcome.NOT_CARRIED


def test_the_size_of_a_step_may_be_a_word_behind_the_script() -> None:
    """`allranks sbatch job.sbatch 4` gives it."""
    text = b"#!/bin/bash\nsrun -n $1 -N ${2} ./x\n"
    values = job.convert(text, "job.sbatch", args=("8", "2")).values
    assert (2, 4) == (values["nodes"], values["procsPerNode"])


def test_directives_of_a_document_stay() -> None:
    """They are those of a script that the job writes."""
    rows = ("cat > next.sh <<E", "#!/bin/bash", "#SBATCH -n 2", "./x", "E", "python a.py")
    assert "#SBATCH -n 2\n./x" in _convert("#SBATCH -n1", *rows).values["script"]


def test_an_mpirun_says_how_many_ranks_a_job_without_tasks_has() -> None:
    """`mpirun -np 4` wants four slots, and has them from the job else."""
    conversion = _convert("#SBATCH -N 2", "N=8", "mpirun --bind-to core -np $N ./x")
    assert (2, 4) == (conversion.values["nodes"], conversion.values["procsPerNode"])
    assert _convert("#SBATCH -n 4", "mpirun -np 2 ./x").values["procsPerNode"] == 4
    assert _convert("#SBATCH -N 2", "mpirun ./x -n 64").values.get("procsPerNode") is None


def test_lines_beside_a_step_in_the_background_are_run() -> None:
    """`(cd a; srun python b.py) &` starts in the folder."""
    conversion = _convert(_TASKS, "(cd a; srun python b.py) &", "wait")
    assert "cd a" in conversion.values["command"][2]


def test_a_text_for_bash_c_has_the_variables_that_the_script_puts_into_it() -> None:
    """Before that shell reads a quote: in single quotes, and with the quotes of their own texts."""
    outer = "bash -c \"accelerate launch a.py --dir='$NAME' --text=\\\"a '$NAME'\\\" '\\$NAME'\""
    conversion = _convert("#SBATCH -n1 --gpus=1", "NAME=x", f"singularity exec a.sif {outer}")
    assert conversion.values["command"][2].split("\n")[-1] == (
        "exec accelerate launch a.py --dir=''\"$NAME\"'' --text=\"a '$NAME'\" '$NAME'"
    )
    rows = ("ARGS=\" --split 'a|b'\"", 'CMD=" `pwd`/a.py $ARGS"', "X=\"--name 'c d'\"")
    launch = "torchrun --nnodes 2 --nproc_per_node 8"
    nested = _convert(_NODES, *rows, f'srun bash -c "{launch} $CMD"')
    assert nested.values["command"][2] == "exec python3 -u `pwd`/a.py --split 'a|b'"
    plain = _convert(_NODES, *rows, f"srun {launch} a.py $X")
    assert plain.values["command"][2] == "exec python3 -u a.py $X"


@pytest.mark.parametrize("lookup", ["$(which {})", "`which {}`", "$(command -v {})"])
def test_a_program_that_is_looked_up_is_that_program(lookup: str) -> None:
    """The script asks where it is, and the pod has its own."""
    singularity, torchrun = lookup.format("singularity"), lookup.format("torchrun")
    conversion = _convert(
        _NODES, f"srun {singularity} exec a.sif {torchrun} --nproc_per_node 8 a.py"
    )
    assert conversion.values["command"] == ["python3", "-u", "a.py"]
    assert conversion.values["gpusPerNode"] == 8
    assert _verdict(conversion, "a.sif").outcome is Outcome.NOT_CARRIED


def test_an_address_made_of_that_of_the_first_node_is_the_pods_own() -> None:
    """Where one node starts its ranks itself, a domain behind it would name another machine."""
    head = "head_node=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)"
    steps = ("accelerate launch a.py", "accelerate launch b.py")
    conversion = _convert("#SBATCH -N1", head, 'export MASTER_ADDR="$head_node.site.edu"', *steps)
    assert "export MASTER_ADDR=localhost\n" in conversion.values["script"]


def test_words_of_a_function_are_not_those_behind_the_script() -> None:
    """The others are said, whatever the text says of functions."""
    rows = ("f() {", '  echo "$1"', "}", "f a", "echo this function needs words")
    assert "$1 …" not in {verdict.path for verdict in _convert(*rows, "python a.py").verdicts}
    assert _verdict(_convert(*rows, "python a.py $1"), "$1 …").line == 7


def test_setup_ends_where_the_script_says_so() -> None:
    """`set -e` and `set +e` keep their places; what setup cannot have is said."""
    conversion = _convert(
        _TASKS, "cp a b", "set -euo pipefail", "X=1", "set +e", "srun python a.py $X"
    )
    assert conversion.values["setup"].split("\n") == [
        *("set +e  # the script goes on where a command fails",),
        *("set -a  # the command reads these variables, too", "cp a b", "set -e", "X=1", "set +e"),
        "",
    ]
    assert "not end at an unset variable" in _verdict(conversion, "set -euo").why
    whole = _convert("set -eu", "X=1", "source a", "python a.py")
    assert "set +e" not in whole.values["setup"]
    assert _program(whole) == "#!/bin/bash\nset -eu\npython a.py\n"


@pytest.mark.parametrize(
    ("rows", "path", "word"),
    [
        (("S=$(which singularity)", "mpirun -np 2 $S exec a.sif ./a"), "singularity", "containers"),
        (("S=/opt/bin/apptainer", '"$S" -q exec a.sif python a.py'), "singularity", "containers"),
        (("apptainer run a.sif a.py",), "apptainer run", "the image's own program"),
        (("mpirun_rsh -np 2 -hostfile a ./a",), "mpirun_rsh", "MVAPICH"),
        (("srun python a.py --seed $RANDOM",), "$RANDOM", "an answer of its own"),
        (("srun ./a", "echo 1 > done"), "echo 1", "behind the step"),
    ],
)
def test_what_a_pod_cannot_have_is_said_by_its_line(
    rows: tuple[str, ...], path: str, word: str
) -> None:
    """A container in a variable, an image's program, a foreign MPI, and what differs by rank."""
    lost = _convert("#SBATCH -N 2", *rows).lost
    assert [path] == [
        verdict.path.removesuffix(" > done")
        for verdict in lost
        if verdict.line > 2 and word in verdict.why
    ]


def test_cpus_of_a_step_that_the_script_counts_are_said() -> None:
    """The number is known where the script runs."""
    conversion = _convert("if [ -z $N ]; then N=4; fi", "srun -n 1 -c $N make")
    assert _verdict(conversion, "srun --cpus-per-task").outcome is Outcome.NOT_CARRIED
    assert "resources" not in conversion.values


def test_numbers_of_a_task_in_the_scripts_own_text_are_said() -> None:
    """The batch script has 0 there, and each rank its own; what ranks read is theirs."""
    conversion = _convert(_TASKS, "N=$SLURM_NODEID", "srun python a.py $SLURM_PROCID $N")
    assert "0 there, for all ranks" in _verdict(conversion, "$SLURM_PROCID").why
    assert "where the script has 0" in _verdict(conversion, "N=").why
    own = _convert("echo $SLURM_LOCALID", "srun python a.py")
    assert not [item for item in own.verdicts if "where the script has 0" in item.why]
    inner = _convert(_TASKS, "srun bash -c 'python a.py $SLURM_PROCID $RANDOM'")
    assert not {"$SLURM_PROCID", "$(…)"} & {verdict.path for verdict in inner.verdicts}


def test_a_variable_behind_a_file_keeps_its_place() -> None:
    """The file may set it, too, so that it is no variable of the run before it."""
    conversion = _convert(_TASKS, "export A=1", "source a.sh", "export B=2", "srun python a.py")
    assert conversion.values["env"] == {"A": "1"}
    assert conversion.values["setup"].endswith("source a.sh\nexport B=2\n")


def test_a_backslash_inside_a_text_that_continues_nothing_is_refused() -> None:
    """The options behind it would be a command."""
    with pytest.raises(InvalidValues, match="behind the backslash"):
        _convert(_TASKS, 'srun bash -c "python a.py \\ ', '  --lr 1"')


def test_python_behind_a_name_is_python() -> None:
    """An alias, a variable with words, and a program's file need no word that there is none."""
    for rows in (("alias p='python a.py'", "p"), ("C='python a'", "$C"), ("./a.py",)):
        assert not any("own Python" in note for note in _convert(*rows).notes)


def test_a_torchrun_that_names_no_nodes_trains_on_each_alone() -> None:
    """Behind srun every node trains by itself, which is said; without it the first node alone."""
    nodes = _convert(_NODES, "srun torchrun --nproc_per_node 8 a.py")
    assert "no training had several" in nodes.lost[0].why
    first = _convert(_NODES, "torchrun --nnodes=1 --master_addr=localhost --nproc_per_node 8 a.py")
    assert (1, ()) == (first.values["nodes"], first.lost)


def test_what_a_command_counts_again_starts_where_the_script_did() -> None:
    """An array is set by each rank, and setup has run the lines that set it, too."""
    rows = ("D=0", "V=()", "if a; then", "V+=(a)", "(( D += 5 ))", "fi")
    conversion = _convert(
        _NODES, *rows, "srun torchrun --nnodes 2 --nproc_per_node 8 a.py ${V[@]} $D"
    )
    assert conversion.values["command"][2].split("\n")[:-1] == [*rows]


@pytest.mark.parametrize("rows", [("./a < b", "./a < c"), ("./a", "./a"), ("python a", "python a")])
def test_a_program_that_is_started_twice_is_no_single_run(rows: tuple[str, str]) -> None:
    """With other input, or after itself: it is refused with the lines."""
    with pytest.raises(InvalidValues, match="2 steps with ranks"):
        _convert("#SBATCH -n 4", *(f"mpirun {row}" for row in rows))


def test_lines_of_setup_beside_others_stay_beside_them() -> None:
    """`&` is kept, and the `wait` for it: setup would end when a monitor does."""
    conversion = _convert(_TASKS, "top -b > log &", "cp a b & cp c d & wait", "srun python a.py")
    assert conversion.values["setup"].split("\n")[1:] == [
        *("top -b > log &", "cp a b &", "cp c d &", "wait", "")
    ]
    monitored = _convert("top -b > log &", "source a", "python a.py")
    assert "\ntop -b > log &\n" in monitored.values["setup"]


def test_gpus_of_the_job_and_of_a_node_say_how_many_nodes() -> None:
    """Four GPUs with one on each node are four nodes."""
    conversion = _convert(
        "#SBATCH --gpus=4 --gpus-per-node=1 -n4", "# ml mpich", "ml openmpi", "mpirun a"
    )
    assert (4, 1) == (conversion.values["nodes"], conversion.values["gpusPerNode"])
    assert "mpi" not in conversion.values


def test_a_node_that_only_the_step_names_is_asked_for() -> None:
    """As that of the job would be."""
    conversion = _convert("#SBATCH -N1 -G1", "srun -w dgx01 python a.py")
    assert "dgx01" in str(conversion.values["scheduling"])


def test_the_name_that_a_script_reads_is_that_of_its_job() -> None:
    """A release may have another, also where Kubernetes allows it; to print it needs none."""
    same = _convert("#SBATCH -J ab", "python a.py $SLURM_JOB_NAME")
    assert same.values["env"] == {"SLURM_JOB_NAME": "ab"}
    cut = _convert("#SBATCH -J a@b_c", "python a.py ${SLURM_JOB_NAME##*@}")
    assert cut.values["env"] == {"SLURM_JOB_NAME": "a@b_c"}
    assert "env" not in _convert("#SBATCH -J a_b", "echo $SLURM_JOB_NAME", "python a.py").values


def test_an_address_that_is_put_together_in_steps_is_said() -> None:
    """What is left of it without the node would be no address."""
    rows = ("m=${SLURM_NODELIST:0:9}", "u=tcp://", "u+=$m", "u+=:4000")
    conversion = _convert(_TASKS, *rows, "srun python a.py --url $u")
    assert "of the old cluster's nodes" in _verdict(conversion, "$u").why


@pytest.mark.parametrize(
    ("row", "word", "is_first"),
    [
        ("h=($(scontrol show hostnames $SLURM_JOB_NODELIST))", "tcp://${h[0]}:4000", True),
        ("mapfile -t h < <(scontrol show hostnames)", "${h[0]} $h ${h}", True),
        ("h=(`scontrol show hostnames`)", "${h[1]}", False),
        ("h=(`scontrol show hostnames`)", "${h[0]} ${h[@]}", False),
        ("h=$(scontrol show hostnames)", "$h", False),
    ],
)
def test_the_first_of_an_array_of_the_nodes_is_rank_0(row: str, word: str, is_first: bool) -> None:
    """The others, or the whole list, no pod knows."""
    conversion = _convert(_TASKS, row, f"srun python a.py --at {word}")
    shell = conversion.values["command"][-1]
    assert shell.startswith("h=$MASTER_ADDR\n") == is_first
    lost = [verdict for verdict in conversion.lost if verdict.path == "$h"]
    assert bool(lost) != is_first


@pytest.mark.parametrize("count", ["$SLURM_NNODES", '"${SLURM_JOB_NUM_NODES}"', "$((1 + 1))"])
def test_a_count_by_the_name_of_a_list_of_nodes_is_no_list(count: str) -> None:
    """A program that reads it has the number; the report sent it to MASTER_ADDR."""
    conversion = _convert(_TASKS, f"export NODES={count}", "srun ./train.sh")
    assert f"export NODES={count}\n" in conversion.values["setup"]
    assert not [verdict for verdict in conversion.verdicts if "MASTER_ADDR" in verdict.why]


def test_set_u_ends_a_script_that_only_prints() -> None:
    """So that a variable that nobody sets is a loss."""
    assert not _convert("echo $X", "python a.py").lost
    assert ["$X"] == [verdict.path for verdict in _convert("set -eu", "echo $X", "python a").lost]


def test_singularity_builds_nothing_in_a_pod() -> None:
    """Its other commands are said as those that start a container."""
    assert _convert("singularity build -f a.sif a.def").lost


def test_a_job_that_is_submitted_for_its_number_is_said() -> None:
    """A script that only does so is refused, also where it writes the other one itself."""
    with pytest.raises(InvalidValues, match="only submits"):
        _convert("s=$(cat <<EOF", "#SBATCH -n1", "python a", "EOF", ")", 'j=$(echo "$s" | sbatch)')
    assert "another job" in _convert("python a.py", "j=$(sbatch b.sh)").lost[0].why


def test_what_a_script_asks_slurm_of_itself_is_said() -> None:
    """Its own path, for one, which no pod has."""
    shown = 'echo "GPUs: $(scontrol show job $SLURM_JOB_ID | grep -o gpu)"'
    assert not _convert(shown, "python a.py").lost
    assert _convert(f"{shown} > gpus.txt", "python a.py").lost
    assert _convert(shown, "P=$(scontrol show job 1)", "python a.py $P").lost
    conversion = _convert("P=$(scontrol show job $SLURM_JOB_ID | grep Command)", "python $P/a.py")
    assert ["scontrol show job $SLURM_JOB_ID"] == [
        verdict.path.strip() for verdict in conversion.lost
    ]


def test_a_loop_that_waits_for_its_step_is_one_after_the_other() -> None:
    """`wait` behind `&`, in the loop; without it the steps are beside each other."""
    loop = ("for i in 1 2; do", "srun python a.py $i &", "wait", "done")
    assert "python a.py $i &\nwait" in _convert("#SBATCH -n1", *loop).values["script"]
    with pytest.raises(InvalidValues, match="beside each other"):
        _convert("#SBATCH -n1", *loop[:2], *loop[3:], "wait")


def test_a_horovodrun_without_hosts_is_on_the_first_node() -> None:
    """It starts its ranks where it runs."""
    alone = _convert("#SBATCH -N4", "horovodrun -np 2 python a.py").values
    assert (1, 2) == (alone["nodes"], alone["procsPerNode"])
    assert _convert("#SBATCH -N4", "horovodrun -np 4 -H $H python a.py").values["nodes"] == 4


def test_what_is_unloaded_at_the_end_makes_no_setup_of_the_program() -> None:
    """Only what a program needs is setup."""
    conversion = _convert(
        "#SBATCH -n1", "module load a", "./a", "module unload a", "conda deactivate"
    )
    assert "./a" in conversion.values["script"]
    assert "./a" not in conversion.values["setup"]


@pytest.mark.parametrize(
    "last", ["if [ -f a ]; then\n  module load b\n  ./b\nfi", "module load b\n./b", "ml b; ./b"]
)
def test_a_program_that_nobody_knows_is_no_setup_of_a_later_line(last: str) -> None:
    """As setup its failure would be nobody's, and the run would end well."""
    conversion = _convert("#SBATCH -n1", "module load a", "mkdir -p out", "matlab -r a", last)
    assert conversion.values["setup"].endswith("module load a\n")
    assert "matlab -r a\n" in conversion.values["script"]
    assert "./b" in conversion.values["script"]
    assert "|| m" in conversion.values["script"]  # a pod loads it where its image has modules
    prepared = _convert("#SBATCH -n1", "rsync -r a/ b", "chmod +x b/c", "source e.sh", "./b/c")
    assert "chmod +x b/c\n" in prepared.values["setup"]


def test_modules_of_a_site_are_setup_by_their_own_names() -> None:
    """What `vpkg_require` loads must be in the image, as with `module load`."""
    conversion = _convert("#SBATCH -n1", "vpkg_require matlab/default", "matlab -r a")
    assert "vpkg_require" in conversion.values["setup"]
    assert any("must be in the image" in v.why for v in conversion.verdicts if v.line == 3)


def test_what_dies_with_the_shell_of_setup_stands_in_the_script() -> None:
    """A trap is set where the program runs; what is exported is asked for once."""
    rows = ('trap "rm -r x" EXIT', 'declare -x NOW="$(date)"', "declare -A MAP=([a]=1)")
    conversion = _convert(*rows, "source a/bin/activate", "python a.py ${MAP[a]}")
    assert "trap" not in conversion.values["setup"]
    assert 'trap "rm -r x" EXIT\ndeclare -g -A MAP=([a]=1)' in conversion.values["script"]
    assert "date" not in conversion.values["script"]


def test_words_behind_the_script_are_given_to_setup_as_words() -> None:
    """A function has words of its own, and a quote around them stays closed."""
    rows = ('fail() { echo "FAIL: $@ !"; }', "SIZE=$1", "source a/bin/activate")
    for step in ("python a.py $SIZE", f"{_TASKS}\nsrun python a.py $SIZE"):
        text = "\n".join(("#!/bin/bash", *reversed(step.split("\n")[:-1]), *rows, step))
        setup = job.convert(text.encode(), "job.sbatch", args=["a b"]).values["setup"]
        assert "set -- 'a b'\n" in setup
        assert "FAIL: $@ !" in setup
        assert "SIZE=$1" in setup


@pytest.mark.parametrize("options", ["s:", "'s:'", '"s: "'])
def test_getopts_of_setup_has_the_words_behind_the_script(options: str) -> None:
    """It reads them without a dollar, where it is given no others."""
    row = f"while getopts {options} A; do SIZE=$OPTARG; done"
    text = f"#!/bin/bash\n{_TASKS}\n{row}\nsrun python a.py $SIZE"
    setup = job.convert(text.encode(), "job.sbatch", args=["-s", "3"]).values["setup"]
    assert "set -- -s 3\n" in setup
    for other in (row.replace("A;", "A -s 4;"), f"# {row}", f"read_words() {{ {row}; }}"):
        verdicts = _convert(_TASKS, other, "srun python a.py $SIZE").verdicts
        assert not [verdict for verdict in verdicts if "no words were given" in verdict.why]


def test_whatever_a_batch_script_starts_finds_the_variables_of_slurm() -> None:
    """A program may read them where the script has no word of them."""
    for step in ("python a.py", "srun python a.py", "mpirun ./a", f"{_TASKS}\nsrun ./a"):
        rows = [*step.split("\n")[:-1], "module load a", step.split("\n")[-1]]
        assert _convert(*rows).values["compat"] == "slurm"


def test_a_program_of_a_batch_script_has_the_number_of_tasks_of_its_job() -> None:
    """It makes as many processes; on GPUs it would wait for as many ranks of srun."""
    script = _convert("#SBATCH -n 12 -c 2", "python a.py").values["script"]
    for line in ("NTASKS=12", "NPROCS=12", "TASKS_PER_NODE=12", "CPUS_PER_TASK=2"):
        assert f"export SLURM_{line}\n" in script
    assert "export SLURM_NTASKS_PER_NODE" not in script
    per_node = _convert("#SBATCH -N1 --ntasks-per-node=12", "python a.py").values["script"]
    assert "export SLURM_NTASKS_PER_NODE=12\n" in per_node
    assert "export SLURM_CPUS_PER_TASK" not in per_node
    for rows in (
        ("#SBATCH -n 12 --gpus=1", "python a.py"),
        ("#SBATCH -n 12", "srun -n 1 python a.py"),
        ("#SBATCH -n 1", "python a.py"),
    ):
        assert "export" not in _convert(*rows).values["script"]


def test_a_program_has_the_cpus_of_a_task_only_where_the_job_asks_for_them() -> None:
    """`int(environ.get("SLURM_CPUS_PER_TASK", 8))` is 8 in a job without --cpus-per-task."""
    for option, is_unset in (("--cpus-per-gpu=4", True), ("-c 4", False), ("--mem=4G", True)):
        first = _convert(f"#SBATCH {option}", "python a.py").values["script"].split("\n")[1]
        assert ("SLURM_CPUS_PER_TASK" in first) is is_unset


def test_a_program_that_srun_does_not_start_is_in_no_step() -> None:
    """Open MPI asks Slurm for its rank in a step, and ends where there is no Slurm."""
    for row in ("python a.py", "srun python a.py"):
        first = _convert("#SBATCH -n1", row).values["script"].split("\n")[1]
        assert {"SLURM_STEP_ID", "SLURM_STEPID"} < {*first.split()}


def test_a_batch_script_has_the_numbers_of_tasks_that_it_asks_for() -> None:
    """Its pod has one process, which is told 1 where the script was told 12."""
    conversion = _convert(
        "#SBATCH -n 12 -c 2", "OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK ./a -n $SLURM_NTASKS"
    )
    assert conversion.values["env"] == {"SLURM_NTASKS": "12", "SLURM_CPUS_PER_TASK": "2"}
    assert "export SLURM_NTASKS=12\n" in conversion.values["script"]
    assert _verdict(conversion, "$SLURM_NTASKS").line == 3


@pytest.mark.parametrize(
    "test", ['[ "$A" = b ] &&', "[[ $A == b ]] &&", "(( A )) &&", '[ "$A" ] ||']
)
def test_what_a_test_decides_on_is_known_in_the_pod_alone(test: str) -> None:
    """A variable that is set where a test holds is no constant, and its line ends where it does."""
    conversion = _convert(_NODES, f"{test} export N=4", "srun torchrun --nproc_per_node $N a.py")
    assert f"{test} export N=4\n" in conversion.values["setup"]
    assert "procsPerNode" not in conversion.values
    assert _verdict(conversion, "--nproc-per-node $N").line == 4
    plain = _convert(_NODES, f"{test} N=4", "srun torchrun --nproc_per_node 4 a.py")
    assert plain.values["procsPerNode"] == 4
    assert f"{test} N=4\n" in plain.values["setup"]


def test_a_number_of_tasks_that_does_not_divide_is_said_of_a_step_too() -> None:
    """As of the directives; and one that the script itself sets is not Slurm's."""
    conversion = _convert("#SBATCH -N 12", "srun -n 289 ./a")
    assert "289 tasks" in _verdict(conversion, "srun --ntasks").why
    rows = ('[ "$SLURM_NTASKS_PER_NODE" ] ||', "SLURM_NTASKS_PER_NODE=128")
    with pytest.raises(InvalidValues, match="known where the script runs"):
        _convert("#SBATCH -N 2", *rows, "N=$((2 * SLURM_NTASKS_PER_NODE))", "srun -n $N ./a")


def test_a_line_before_a_folder_runs_where_the_script_starts() -> None:
    """What reads no folder leaves `cd`, and the step's own, to workingDir."""
    anywhere = ("X=/a", "mkdir -p $X/logs", "module load b", "conda activate c")
    for cd, step in (("cd /data", "srun ./a"), ("true", "srun --chdir=/data ./a")):
        assert _convert(_TASKS, *anywhere, cd, step).values["workingDir"] == "/data"
        conversion = _convert(_TASKS, "mkdir -p logs", cd, step).values
        assert "workingDir" not in conversion
        assert conversion["setup"].endswith("cd /data\n")
    alone = _convert("#SBATCH -n1", "cp a b", "srun --chdir=/data ./a")
    assert "all of the script" in next(v.why for v in alone.verdicts if v.path == "srun --chdir")


def test_a_file_that_slurm_was_asked_for_is_missed() -> None:
    """What reads it has nothing to read."""
    conversion = _convert(
        _TASKS, "scontrol show hostnames > hosts", "N=$(wc -l < hosts)", "srun ./a $N"
    )
    assert _verdict(conversion, "scontrol").outcome is Outcome.NOT_CARRIED
    assert not _convert(_TASKS, "scontrol show job 1", "srun ./a").lost


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (("CONF=$1", "shift"), "set -- a.yaml b c\nshift\n"),
        (("CONF=$1", "shift 1; shift"), "set -- a.yaml b c\nshift 1\nshift\n"),
        (("f() { shift; }",), "set -- a.yaml b c\nexec "),
    ],
)
def test_the_words_of_a_command_are_shifted(rows: tuple[str, ...], expected: str) -> None:
    """The shell of setup, which reads the first ones, is not that of the command."""
    text = "\n".join(("#!/bin/bash", _NODES, *rows, 'srun python a.py "$@"', ""))
    values = job.convert(text.encode(), "job.sbatch", args=("a.yaml", "b", "c")).values
    assert values["command"][-1].startswith(expected)


@pytest.mark.parametrize(
    "row",
    ["shift", "shift $((OPTIND-1))", "set -- b", "while [ $# -gt 1 ]; do C=$1; shift; done"],
)
def test_the_words_of_a_script_are_shifted(row: str) -> None:
    """What setup does to them in its own shell is done in that of the rest, too."""
    rows = ("#!/bin/bash", "#SBATCH --gpus=1", "A=$1", row, "conda activate x", 'python a.py "$@"')
    values = job.convert("\n".join((*rows, "")).encode(), "job.sbatch", args=("a", "b")).values
    assert row in values["setup"]
    assert values["script"].endswith(f'\n{row}\npython a.py "$@"\n')
    unread = _convert(*rows[1:3], "shift", rows[4], "python a.py $A")
    assert "\nshift\n" not in unread.values["script"]


def test_words_that_setup_sets_are_its_own() -> None:
    """`set -- a b` is no option of a shell, and later lines of setup read them."""
    rows = ("set -- a b", "export A=$2", "srun python a.py")
    conversion = _convert(_NODES, *rows)
    assert "set -- a b" in conversion.values["setup"]
    assert _verdict(conversion, "set -- a b").outcome is Outcome.CARRIED


def test_other_words_of_a_command_are_missed() -> None:
    """A loop that reads options, or a branch, leaves a command other words than the script has."""
    loop = "while [ $# -gt 1 ]; do shift; done"
    for row in (loop, "if [ -e a ]; then set -- x y; fi"):
        text = f'#!/bin/bash\n{_NODES}\n{row}\nsrun python a.py "$@"\n'
        conversion = job.convert(text.encode(), "job.sbatch", args=("a", "b"))
        assert any("words behind the script's name" in v.why for v in conversion.lost)


@pytest.mark.parametrize(
    "row", ['[ a == "$B" ] && C=1', "A+=b", "A=${B:0:2}", "cp {a,b} /c", "export -f f", "shift 2"]
)
def test_lines_of_bash_are_left_to_bash(row: str) -> None:
    """The shell of an image may be another one."""
    assert _convert("#SBATCH -n1", row, "conda activate a", "python a.py").values["compat"]


def test_the_cpus_of_a_task_are_slurms_where_ranks_are_others() -> None:
    """Torchrun starts a rank for each GPU of a node, where the job has one task."""
    rows = ("OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK", "srun torchrun --nproc_per_node=8 a.py")
    conversion = _convert(_NODES + " -c 64", *rows)
    assert conversion.values["env"] == {"SLURM_CPUS_PER_TASK": "64"}
    assert _verdict(conversion, "$SLURM_CPUS_PER_TASK").line == 3
    assert "env" not in _convert(_TASKS + " -c 8", *rows).values


def test_the_node_in_an_address_is_the_pod_where_there_is_one() -> None:
    """Also where another variable is made of it, and that alone is read."""
    rows = (
        "MASTER_NODE=$(scontrol show hostnames $SLURM_JOB_NODELIST)",
        "A=http://$MASTER_NODE:80",
    )
    conversion = _convert("#SBATCH -n1", *rows, "python a.py $A").values["script"]
    assert "MASTER_NODE=localhost\n" in conversion
    assert "localhost" not in _convert("#SBATCH -n1", rows[0], "python a.py").values["script"]


@pytest.mark.parametrize("row", [': "${A:=/b}"', "readonly A=b", "read A < b"])
def test_the_script_reads_what_setup_sets_in_any_way(row: str) -> None:
    """The shell of setup ends before the script begins, and exports what it has set."""
    conversion = _convert("#SBATCH -n1", row, "source $A/bin/activate", "python $A/a.py")
    assert "set -a  #" in conversion.values["setup"]


def test_a_job_that_eval_submits_is_said() -> None:
    """Its words are a command as any other."""
    assert "another job" in _convert("python a.py", 'eval "sbatch b.sh"').lost[0].why


@pytest.mark.parametrize(
    "row",
    [
        "wandb login 0123456789abcdef0123456789",
        "HF_TOKEN=hf_0a1b2c3d4e a --x",
        'TOKEN="hf_aBcDeFgHiJ"',
        "a --token hf_0a1b2c",
    ],
)
def test_a_secret_in_a_line_is_noted_with_its_line(row: str) -> None:
    """All of a script can be read in the run's objects; what only names one is none."""
    assert any(note.startswith("line 3 ") for note in _convert(_TASKS, row, "srun a").notes)
    harmless = ("a --token $TOKEN", "TOKENIZER_PATH=abc12345678", "MAX_TOKENS=2_000_000_000")
    assert not any("secret" in note for note in _convert(_TASKS, *harmless, "srun a").notes)


@pytest.mark.parametrize(
    ("row", "implementation"),
    [
        ("PATH=/opt/intel/impi/2021.3/bin:$PATH", "Intel"),
        ("PATH=$HOME/mpich-4.1/bin:$PATH", "MPICH"),
        ("PATH=/opt/openmpi/bin:$PATH", None),
    ],
)
def test_an_mpi_is_known_by_its_path(row: str, implementation: str | None) -> None:
    """A script may name its MPI in PATH alone."""
    conversion = _convert("#SBATCH -N 2", f"export {row}", "mpirun ./a").values.get("mpi", {})
    assert conversion.get("implementation") == implementation


@pytest.mark.parametrize("row", ["source env.sh", ". ./env.sh", "[ ! -f env.sh ] || source env.sh"])
def test_the_command_reads_what_a_file_sets(row: str) -> None:
    """The file sets it for its shell alone, which is not that of the command in a pod."""
    for program in ("srun python a.py $DATA", "python a.py $DATA", "prepare_all; python a.py"):
        conversion = _convert("#SBATCH -n1", row, program)
        assert "set -a  #" in conversion.values["setup"]


@pytest.mark.parametrize(
    "rows",
    [
        ("source v/bin/activate", "python a.py", "deactivate"),
        ("source c/etc/profile.d/conda.sh", "conda activate a", "python a.py", "conda activate b"),
        ('eval "$(conda shell.bash hook)"', "conda activate a", "python a.py", "conda deactivate"),
    ],
)
def test_a_script_calls_what_setup_defines(rows: tuple[str, ...]) -> None:
    """`deactivate` and `conda` are functions: without them a script's last line would fail."""
    for directive in ("#SBATCH -n1", "#SBATCH -n1 -a 0-2"):
        values = _convert(directive, *rows).values
        assert "set -a  #" in values["setup"]
        assert values["compat"] == "slurm"
        last = [own.why for own in _convert(directive, *rows).verdicts if own.path == rows[-1]]
        assert last == ([_OF_IMAGE] if rows[-1].endswith(" b") else [""])
    assert "set -a" not in _convert("#SBATCH -n1", *rows[:-1]).values["setup"]


def test_a_task_of_an_array_needs_no_launcher() -> None:
    """It is one process, which is started as it is: nobody is told to have PyTorch for it."""
    words = "own Python"
    assert any(words in note for note in _convert("#SBATCH -n1", "./a.out").notes)
    assert not any(words in note for note in _convert("#SBATCH -n1 -a 0-2", "./a.out").notes)


def test_an_address_in_a_script_of_one_process_stays_its_own() -> None:
    """No ranks meet there: what it sets and nobody reads is no word about a launcher."""
    conversion = _convert("#SBATCH -n1", "head_node_ip=10.0.0.1", "ray job submit -- bash run.sh")
    assert "head_node_ip=10.0.0.1\n" in conversion.values["script"]
    assert not [verdict for verdict in conversion.verdicts if "ranks meet" in verdict.why]


@pytest.mark.parametrize(
    ("first", "expected"),
    [
        ("#!/bin/sh", "#!/bin/bash"),
        ("#! /bin/sh -e", "#! /bin/bash -e"),
        ("#!/usr/bin/env sh", "#!/usr/bin/env bash"),
        ("#!/bin/dash", "#!/bin/dash"),
    ],
)
def test_a_script_of_sh_is_run_by_bash(first: str, expected: str) -> None:
    """The sh of most clusters is bash, that of most images knows no `[[` and no functions of it."""
    text = f"{first}\n#SBATCH -n1\n[[ -n $A ]] && python a.py\n"
    conversion = job.convert(text.encode(), "job.sbatch")
    assert conversion.values["script"].split("\n")[0] == expected
    lines = [v.line for v in conversion.verdicts if "sh of most clusters" in v.why]
    assert lines == ([1] if first != expected else [])


def test_what_a_loop_over_the_nodes_does_beside_the_step_is_named() -> None:
    """Each pod is a node of it, and the loop is gone with all that it did."""
    loop = ("for n in $(scontrol show hostnames); do", "  cp data.tar /scratch/$n", "  echo $n")
    step = "  srun -w $n -N1 -n1 torchrun --nnodes 2 --node_rank $i --nproc_per_node 8 a.py &"
    rows = ("#SBATCH -N 2 --gpus-per-node=8", *loop, step, "  i=$((i+1))", "done", "wait")
    conversion = _convert(*rows)
    (verdict,) = (own for own in conversion.verdicts if "nothing in the values" in own.why)
    assert (verdict.path, verdict.line) == ("cp data.tar /scratch/$n", 4)
    assert verdict.outcome is Outcome.NOT_CARRIED


def test_a_step_of_one_process_in_a_branch_is_in_the_values() -> None:
    """Its srun is taken off, and the program stays."""
    rows = ("if [ -f out ]; then", "  scancel $SLURM_JOB_ID", "else", "  srun python a.py b", "fi")
    conversion = _convert("#SBATCH --gres=gpu:4", *rows)
    assert not any("nothing in the values" in verdict.why for verdict in conversion.verdicts)


def test_a_loop_beside_the_step_in_its_branch_stays() -> None:
    """Only a loop that starts the step, on one node after the other, is none of the ranks'."""
    branch = ("if true; then", "  for f in a b; do ln -s $f c; done", "  sed s/a/b/ t > conf")
    rows = (*branch, "  srun ./a", "  sbatch next.sh", "fi")
    conversion = _convert("#SBATCH -N 2 --ntasks-per-node=4", *rows)
    assert "ln -s $f c" in conversion.values["command"][-1]
    lost = {verdict.path: verdict.why for verdict in conversion.lost}
    assert {"ln -s $f c", "sed s/a/b/ t > conf", "sbatch next.sh"} <= lost.keys()
    assert "it submits another job" in lost["sbatch next.sh"]


def test_what_a_step_has_before_it_on_its_line_is_setup_as_any_line() -> None:
    """Modules are loaded where the image has any, and an environment must be there."""
    conversion = _convert("#SBATCH -N 2 --gpus-per-node=8", "module load a && srun python a.py")
    assert "{ ! command -v module" in conversion.values["setup"]
    assert "where the image has modules" in _verdict(conversion, "module load a").why
    conversion = _convert("#SBATCH -N 2 --gpus-per-node=8", "conda activate b && srun python a.py")
    assert "must be in the image" in _verdict(conversion, "conda activate b").why


def test_a_step_whose_failure_the_script_leaves_aside_fails_its_run() -> None:
    """`srun … || true` ended well."""
    for end in ("true", "echo failed", ":"):
        conversion = _convert("#SBATCH -N 2 --gpus-per-node=8", f"srun python a.py || {end}")
        assert "the script went on" in _verdict(conversion, "||").why


def test_options_on_a_line_of_their_own_are_said_to_be_none_of_the_step() -> None:
    """The line before lacks its backslash, and Slurm's shell did not run them either."""
    rows = ("srun python a.py \\", "  --nodes 2", "  --out b \\", "  --top 1")
    (verdict,) = _convert(_TASKS, *rows).lost
    assert (verdict.line, "backslash" in verdict.why) == (5, True)


@pytest.mark.parametrize(
    ("rows", "is_sent"),
    [
        (("source env.sh",), True),
        ((". ./conf/env.sh a",), True),
        (('cd "$SLURM_SUBMIT_DIR"', 'source "$PWD/env.sh"'), True),
        (("if true; then", "  source ${SLURM_SUBMIT_DIR}/env.sh", "fi"), True),
        (('source "${SLURM_SUBMIT_DIR:-$(pwd)}/env.sh"',), True),
        (("cd scripts", "source ./env.sh"), True),
        (('R="${R:-${SLURM_SUBMIT_DIR:-$PWD}}"', 'source "${R}/ops/env.sh"'), True),
        (("R=$(pwd)", "source $R/env.sh"), True),
        (("R=/data", "source $R/env.sh"), False),
        (("source .env",), False),
        (("source venv/bin/activate",), False),
        (("source /opt/env.sh",), False),
        (("source ~/env.sh",), False),
        (("cd /data", "source env.sh"), False),
        (("#SBATCH --chdir=/data", "source env.sh"), False),
    ],
)
def test_a_file_that_is_read_comes_with_the_folder_that_is_sent(
    rows: tuple[str, ...], *, is_sent: bool
) -> None:
    """It was said to belong into the image, which has no files of who submits."""
    conversion = _convert("#SBATCH --gpus=1", *rows, "python a.py")
    reasons = [own.why for own in conversion.verdicts if re.match(r"(?:source|\.)\s", own.path)]
    assert [is_sent] == ["the folder that `allranks sbatch`" in why for why in reasons]
    assert (rows[0] == "source .env") is ("does not send such a file" in reasons[0])


def test_a_line_of_a_letter_that_is_not_seen_is_no_command() -> None:
    """It was reported as a line of setup that each pod runs, in words that nobody sees."""
    conversion = _convert(_TASKS, "\u200b", "srun python a.py", " \u200b\u200b")
    assert "setup" not in conversion.values
    assert not [own for own in conversion.verdicts if "\u200b" in own.path]
    assert [True] == [
        note.startswith("line 3 has nothing") for note in conversion.notes if "U+200B" in note
    ]


def test_a_command_in_a_text_keeps_its_quotes() -> None:
    """`date +"%Y %m"` became two words of date, which ends there."""
    for typed in ('$(date +"%Y %m")', '`date +"%Y %m"`', '$(basename "$PWD")'):
        conversion = _convert(_TASKS, f'CMD="python a.py --name {typed}"', "srun $CMD")
        assert f"exec python a.py --name {typed}" == conversion.values["command"][-1]


@pytest.mark.parametrize("folder", ["$(pwd)", '"$PWD"', "$SLURM_SUBMIT_DIR", "/data"])
def test_a_folder_above_that_of_a_variable_is_said_where_that_is_sent(folder: str) -> None:
    """`cd $DIR` counted as another folder, and a path above it was not said to be missing."""
    rows = ("#SBATCH -n 1", f"DIR={folder}", "cd ${DIR}", "python a.py ../data")
    lost = [own.path for own in _convert(*rows).lost]
    assert ([] if folder == "/data" else ["../data"]) == lost


def test_a_question_to_slurm_in_perl_is_said() -> None:
    """It makes the file of hosts, which no launcher reads in a pod."""
    perl = (
        """hosts() {\nperl -e 'print qx[scontrol show hostnames $ENV{"SLURM_JOB_NODELIST"}]'\n}"""
    )
    conversion = _convert(_TASKS, *perl.split("\n"), "hosts > h", "deepspeed --hostfile h a.py")
    assert _verdict(conversion, "scontrol show hostnames").line == 4
    assert not conversion.lost


@pytest.mark.parametrize("name", ["$(whoami)", "`whoami`", '"$(id -un)"', "$(id -u -n)"])
def test_who_submits_is_not_the_user_of_a_pod(name: str) -> None:
    """The path that is made of the name is another in a pod."""
    conversion = _convert("#SBATCH -n1", f"DATA=/scratch/{name}/data", "python a.py $DATA")
    of_user = [verdict for verdict in conversion.verdicts if "user is the image's" in verdict.why]
    assert [verdict.line for verdict in of_user] == [3]
    shown = _convert("#SBATCH -n1", "echo by $(whoami)", "python a.py")
    assert "user is the image's" not in str(shown.verdicts)


def test_set_x_shows_no_commands() -> None:
    """The word of a line says what becomes of it."""
    conversion = _convert(_TASKS, "set -x", "srun python a.py")
    assert "not shown" in _verdict(conversion, "set -x").why


def test_what_the_ranks_meet_by_is_left_out_of_a_text_of_a_shell_too() -> None:
    """All lines that make an address, whatever they ask for it, and none of them stays in setup."""
    rows = (
        'HEADi="$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)"',
        'HEADi="${HEADi}i"',
        'export HEADi="$(nslookup "$HEADi" | grep -oP \'(?<=Address: ).*\')"',
        'srun bash -c "torchrun --nnodes=2 --rdzv_endpoint=$HEADi:7010 a.py"',
    )
    text = "\n".join(["#!/bin/bash", "#SBATCH -N 2 --ntasks-per-node=1 --gpus-per-node=4", *rows])
    conversion = job.convert(text.replace("HEAD", "MASTER_ADDR").encode(), "a.sbatch")
    whys = {item.line: item.why for item in conversion.verdicts if item.line in (3, 4, 5)}
    assert ["the launcher lets the ranks meet" in why for why in whys.values()] == [True] * 3
    assert "nslookup" not in conversion.values.get("setup", "")


def test_a_file_that_all_lines_write_to_is_the_log() -> None:
    """`exec > >(tee log.txt)` has no file in a pod, whose log has the lines."""
    conversion = _convert(
        "#SBATCH -N 2 --gpus-per-node=2", "exec > >(tee log.txt) 2>&1", "srun ./a"
    )
    (own,) = (verdict for verdict in conversion.verdicts if verdict.path.startswith("exec"))
    assert own.why == "it is in the run's log"


def test_where_ranks_meet_stays_in_a_script_whose_later_lines_export_or_print_it() -> None:
    """A program that reads MASTER_ADDR ended without it, and so did a line with `set -u`."""
    rows = (
        "set -u",
        'MASTER_ADDR="$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)"',
        "MASTER_PORT=${MASTER_PORT:-29500}",
        "{}",
        "python a.py",
    )
    for row in ("export NAME MASTER_ADDR MASTER_PORT", 'echo "at $MASTER_ADDR:$MASTER_PORT"'):
        directive = "#SBATCH -N 1 --gpus-per-node=1 --ntasks-per-node=1"
        script = _convert(directive, *(row if line == "{}" else line for line in rows)).values[
            "script"
        ]
        assert "MASTER_ADDR=localhost\n" in script
        assert "MASTER_PORT=${MASTER_PORT:-29500}\n" in script


def test_an_exit_behind_a_failure_ends_no_script_well() -> None:
    """`cd x || exit` has the code of the cd."""
    for row, is_named in (("cd /x || exit", False), ("[ -f done ] && exit", True)):
        verdicts = _convert(_TASKS, row, "srun python a.py").verdicts
        assert is_named is any("ended well" in own.why for own in verdicts)


def test_an_eval_of_the_scripts_own_words_activates_nothing() -> None:
    """It runs what the script is given, as `"$@"` alone does."""
    row = 'if [[ "$@" == *agent* ]]; then eval "$@"; fi'
    conversion = _convert("#SBATCH -n 2 --gpus=2", row, "srun python a.py")
    assert not [verdict for verdict in conversion.verdicts if "activates" in verdict.why]


@pytest.mark.parametrize("program", ['eval "$@"', '"$@"', "python b.py"])
def test_a_branch_without_srun_is_said_to_have_run_once(program: str) -> None:
    """Each rank runs what stands there, the script's own words too."""
    row = f'if [[ "$1" == agent ]]; then {program}; else srun "$@"; fi'
    [verdict] = [own for own in _convert("#SBATCH -n 2", row).lost if "as one process" in own.why]
    assert (verdict.path, verdict.line) == (program, 3)


@pytest.mark.parametrize(
    ("step", "message", "hint"),
    [
        ("srun -n 2 ./a : -n 2 ./b", "several programs", "`mpirun -np 2 ./a : -np 2 ./b`"),
        ("srun --multi-prog a.conf", "several programs", "look at its rank"),
        ("srun --het-group=0,1 ./a", "parts of a heterogeneous job", "make one part of them"),
    ],
)
def test_what_to_do_with_several_programs_is_what_a_run_has(
    step: str, message: str, hint: str
) -> None:
    """An mpirun of several programs is one world of MPI; two values files are two."""
    with pytest.raises(InvalidValues) as caught:
        _convert("#SBATCH -N 2 -n4", step)
    [problem] = caught.value.problems
    assert message in problem.message
    assert hint in problem.hint


def test_an_mpirun_of_several_programs_is_a_run() -> None:
    """As the hint says."""
    conversion = _convert("#SBATCH -N 2 --ntasks-per-node=2", "mpirun -np 2 ./a : -np 2 ./b")
    assert "mpi" == conversion.values["workload"]


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/fsx/home-$(whoami)/hosts_$SLURM_JOBID", "/fsx/home-$(whoami)/hosts_$SLURM_JOBID"),
        ("/data/$SLURM_JOB_ID/log", "/data/$SLURM_JOB_ID/log"),
        ("/run/tcpx-$SLURM_JOB_ID", ""),
    ],
)
def test_a_path_with_the_number_of_the_job_is_named_as_it_is(path: str, name: str) -> None:
    """What is below /run is the pod's own, or its node's."""
    conversion = _convert("#SBATCH -n1", f"python a.py > {path}")
    whys = [own.why for own in conversion.verdicts if "has left in a volume" in own.why]
    assert [why.rpartition(", as ")[2] for why in whys] == [name] * bool(name)


@pytest.mark.parametrize(
    ("row", "is_noted"),
    [("cmd srun -n16 --gpus-per-task=1 python train.py", False), ("module load cuda", True)],
)
def test_a_script_that_asks_for_gpus_somewhere_is_not_said_to_ask_for_none(
    row: str, *, is_noted: bool
) -> None:
    """An srun behind a function is not read; that is said."""
    conversion = _convert("#SBATCH -N 2", 'cmd() { echo "$@"; time $@; }', row, "srun python b.py")
    assert any("asks for no GPUs" in note for note in conversion.notes) is is_noted


def test_threads_that_are_set_behind_the_step_are_none_of_its() -> None:
    """The ranks counted the CPUs of their nodes for them."""
    rows = ("#SBATCH -N 1 --ntasks-per-node=8 --gpus-per-node=8", "srun ./hmc")
    for more in ((), ("export OMP_NUM_THREADS=7",)):
        assert "1" == _convert(*rows, *more).values["env"]["OMP_NUM_THREADS"]
