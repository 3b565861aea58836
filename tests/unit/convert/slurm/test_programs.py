"""What a script says of its programs: whether they are of MPI's, and on whose GPUs they run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from allranks.convert.slurm import job
from allranks.errors import InvalidValues

if TYPE_CHECKING:
    from allranks.convert.verdicts import Conversion

_GPUS = "#SBATCH -N 2 --ntasks-per-node=4 --gpus-per-node=4"


def _convert(*rows: str) -> Conversion:
    return job.convert("\n".join(("#!/bin/bash", *rows, "")).encode(), "job.sbatch")


@pytest.mark.parametrize(
    "rows",
    [
        ("srun python train_horovod.py",),
        ("MASTER_ADDR=$H", "I=tf-horovod.sif", "srun apptainer exec $I ./a_$SLURM_PROCID.sh"),
        ("#SBATCH --comment=pytorch", "module load horovod", "srun python a.py"),
        ("# not the one of pytorch", "module load openmpi", "srun python a.py"),
        ("export MASTER_ADDR=$(hostname)", "srun python -W ignore train_mpi_1gpu.py"),
        ("export NCCL_DEBUG=INFO", "srun python -m mpi.train"),
        ("srun python -m a --mode=mpi",),
        ("srun python a.py reader.parallel=mpi",),
        ("srun python a.py --use_mpi",),
        ("module load mpi4py", "if [[ $SLURM_PROCID -eq 0 ]]; then ./get; fi", "srun python a.py"),
        ("module load mpi4py", 'test "$SLURM_PROCID" = 0 && ./get', "srun python a.py"),
        ("module load mpi4py", "((SLURM_PROCID)) || ./get; echo $SLURM_PROCID", "srun python a.py"),
    ],
)
def test_a_program_that_names_mpi_or_horovod_is_of_mpi(rows: tuple[str, ...]) -> None:
    """Under torchrun each of its processes was a run of one rank, without a word."""
    assert _convert(_GPUS, *rows).values["workload"] == "mpi"


@pytest.mark.parametrize(
    "rows",
    [
        ("module load openmpi pytorch", "srun python a.py"),
        ("export MASTER_ADDR=$(hostname)", "srun python mpii_pose.py --data mpi-inf"),
        ("#SBATCH --job-name=torch-ddp", "module load openmpi", "srun python a.py"),
        ("export MASTER_ADDR=$(hostname)", "srun python a.py --env my_mpi"),
        ("srun python a.py --use_mpi=false --config=mpi.yaml",),
        ("export NCCL_DEBUG=INFO", "srun python a.py --benchmark=mpi"),
    ],
)
def test_a_program_of_torch_stays_of_torch(rows: tuple[str, ...]) -> None:
    """What only has the letters, or is no word of the program's own name, is no sign of MPI."""
    assert _convert(_GPUS, *rows).values["workload"] == "torchrun"


@pytest.mark.parametrize(
    ("rows", "is_either"),
    [
        (("module load mpi4py", "export NCCL_DEBUG=INFO", "srun python a.py"), True),
        (("pip install mpi4py", "srun python a.py --rank $SLURM_PROCID"), True),
        (("pip install mpi4py", "srun bash -c 'test $SLURM_PROCID = 0 && python a.py'"), True),
        (("module load horovod pytorch", "srun python a.py"), True),
        (("module load openmpi pytorch", "srun python a.py"), False),
        (("echo no mpi4py here", "export NCCL_DEBUG=INFO", "srun python a.py"), False),
        (("if [ $SLURM_PROCID = 0 ]; then ./get; fi", "srun python a.py"), False),
    ],
)
def test_a_program_that_may_be_of_mpi_or_of_torch_is_said_to_have_no_mpi(
    rows: tuple[str, ...], *, is_either: bool
) -> None:
    """Each of its processes would be a run of one rank; a rank's own number is a sign of torch."""
    conversion = _convert(_GPUS, *rows)
    assert conversion.values["workload"] == "torchrun"
    assert is_either == any("mpi4py or Horovod" in note for note in conversion.notes)


def test_a_program_of_tensorflow_is_said_to_have_no_mpi() -> None:
    """Horovod's ranks would be runs of one rank, where the script has no word of Horovod."""
    for rows in (
        ("srun singularity exec tensorflow_22.sif python a.py",),
        ("module load tensorflow/2.9", "export NCCL_DEBUG=INFO", "srun python a.py"),
    ):
        notes = _convert(_GPUS, *rows).notes
        assert [note for note in notes if "mpi4py or Horovod" in note]
    torch = _convert(_GPUS, "module load tensorflow pytorch", "srun python a.py")
    assert not [note for note in torch.notes if "Horovod" in note]


@pytest.mark.parametrize(
    "row",
    [
        "module load PrgEnv-gnu amd-mixed/5.1.0",
        "module load craype-accel-amd-gfx90a",
        "export MIOPEN_USER_DB_PATH=/tmp/my-miopen-cache",
        "export HSA_FORCE_FINE_GRAIN_PCIE=1",
        "export PATH=/opt/rocm-5.3.0/bin:$PATH",
        "IMAGE=docker.io/rocm/pytorch:latest",
        "srun rocm-smi",
    ],
)
def test_a_script_with_words_of_amds_is_for_gpus_of_amds(row: str) -> None:
    """Its pods asked for GPUs of NVIDIA's, and would have waited for ever."""
    conversion = _convert(_GPUS, row, "srun python a.py")
    assert conversion.values["gpuResource"] == "amd.com/gpu"
    whys = [verdict.why for verdict in conversion.verdicts if verdict.path == "the image"]
    assert not whys or "NVIDIA's" in whys[0]


@pytest.mark.parametrize(
    "rows",
    [
        ("#SBATCH --gpus-per-node=a100:4", "module load amd-mixed"),
        ("module load cuda/12.1", "export HSA_XNACK=1"),
        ("# module load amd-mixed", "module load aocc/amd"),
    ],
)
def test_a_script_for_other_gpus_is_not_for_amds(rows: tuple[str, ...]) -> None:
    """The type of the GPUs, or CUDA's own modules, say whose they are; so do CPUs of AMD's not."""
    assert "gpuResource" not in _convert(_GPUS, *rows, "srun python a.py").values


@pytest.mark.parametrize(
    ("rows", "implementation"),
    [
        (("export I_MPI_PIN_DOMAIN=omp", "mpirun -npernode 4 ./a"), None),
        (("export I_MPI_PIN_DOMAIN=omp", "mpirun --mca pml ucx -x A ./a"), None),
        (("export I_MPI_DEBUG=5", "module load openmpi/4.1", "mpirun -np 8 ./a"), None),
        (("export I_MPI_DEBUG=5", "mpirun -ppn 4 -np 8 ./a"), "Intel"),
        (("module load openmpi intel-mpi", "mpirun -ppn 4 ./a"), "Intel"),
    ],
)
def test_what_open_mpi_alone_has_says_that_it_is_that(
    rows: tuple[str, ...], implementation: str | None
) -> None:
    """Variables of Intel MPI's are left in scripts of it, and the launcher ended with an error."""
    values = _convert("#SBATCH -N 2 --ntasks-per-node=4", *rows).values
    assert values.get("mpi", {}).get("implementation") == implementation


def test_an_srun_in_a_text_that_is_printed_is_none() -> None:
    """Its text may have the signs of a shell; what a command in it gives is no text."""
    rows = ("#SBATCH -n 4", 'echo "srun ./a.out > out; date"', "srun ./a.out")
    conversion = _convert(*rows)
    assert not [verdict for verdict in conversion.verdicts if verdict.path == "srun"]


def test_charmrun_of_several_nodes_is_refused() -> None:
    """It starts processes on the others by itself; on one node they are those of the pod."""
    row = "$NAMD_BIN/charmrun ++p $SLURM_NTASKS $NAMD_BIN/namd3 a.namd"
    with pytest.raises(InvalidValues, match="charmrun starts processes"):
        _convert("#SBATCH -N 4 --ntasks-per-node=8", row)
    assert _convert("#SBATCH -N 1 --ntasks-per-node=8", row).values["nodes"] == 1


@pytest.mark.parametrize(
    ("row", "files"),
    [
        ("./run.sh a", "./run.sh does"),
        ("srun bash -x scripts/train.sh", "scripts/train.sh does"),
        ("bash a.sh && sh b.bash", "a.sh, b.bash do"),
        ("srun bash -c 'cd /code; ./run.sh $A'", "./run.sh does"),
        ("make -j2 train", "`make train` does"),
        ("cd a\nmake -j2", "`make` does"),
        ("srun -n 1 $1 a", "$1 does"),
        ("SCRIPT=${1}\nbash ${SCRIPT}", "$1 does"),
        ("python -u jobs/submit_all.py", "jobs/submit_all.py does"),
        ('CMD=$(sed -n 3p all.txt)\neval "$CMD"', '`eval "$CMD"` does'),
        ('eval "$(sed -n 3p all.txt)"', '`eval "$(sed -n 3p all.txt)"` does'),
        ('mapfile -t ALL < all.txt\nbash -c "${ALL[3]}"', '`bash -c "${ALL[3]}"` does'),
        ('while read -r line; do eval "$line"; done < all.txt', '`eval "$line"` does'),
        ("source env/site.sh\npython a.py", "env/site.sh does"),
        ("A=$(bash tools/pick.sh)\nsrun -n 1 python a.py $A", "tools/pick.sh does"),
        ("A=`./pick.sh`\npython a.py $A", "./pick.sh does"),
        ('for a in $(sh pick.sh); do python a.py "$a"; done', "pick.sh does"),
        ('python a.py "$(cd b && bash pick.sh)" > c', "pick.sh does"),
        ("A=$(make -s train)\npython a.py $A", "`make train` does"),
        ("RUN=$(head -n 2 all.txt | tail -n 1)\nsrun -n 1 $RUN", "`srun -n 1 $RUN` does"),
    ],
)
def test_a_script_that_is_run_and_was_not_read_is_named(row: str, files: str) -> None:
    """It may submit jobs, or load modules, and the report had no word of it."""
    notes = job.convert(f"#!/bin/bash\n#SBATCH -n 1\n{row}\n".encode(), "job.sbatch").notes
    assert [True] == [files in note for note in notes if "was not looked at" in note]


@pytest.mark.parametrize(
    "row",
    [
        "make -j8\npython a.py",
        "make install PREFIX=x\npython a.py",
        "CONFIG=$(sed -n 3p all.txt)\npython a.py $CONFIG",
        'PYTHON=$(which python)\n"$PYTHON" a.py',
        "read -r A B < all.txt\npython a.py $A",
        "python relaunch_count.py",
        "A=$(basename run.sh)\npython a.py $A",
        "A='$(bash pick.sh)'\npython a.py \"$A\"",
        "MASTER_ADDR=$(bash pick.sh $(scontrol show hostnames))\nsrun -n 2 torchrun a.py",
        "source ~/.bashrc\nsource /opt/conda/etc/profile.d/conda.sh\npython a.py",
        "V=$HOME/v/bin/activate\n. $V\n. ./.env\npython a.py",
    ],
)
def test_what_is_read_or_starts_nothing_is_not_said_to_be_unread(row: str) -> None:
    """A build, and the options of a program, hide no srun."""
    notes = job.convert(f"#!/bin/bash\n#SBATCH -n 1\n{row}\n".encode(), "job.sbatch").notes
    assert not [note for note in notes if "was not looked at" in note]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (("module load a", "source ~/v/bin/activate", "echo a"), "starts a program"),
        (("python a.py &",), "the script ends while what line 3 starts goes on"),
        (("python a.py &", "echo b"), "the script ends while what line 3 starts goes on"),
        (("python a.py &", "wait"), ""),
        (("python a.py &", "python b.py"), ""),
        (("./monitor.sh &", "srun -n 1 python b.py"), ""),
        (("source run.sh",), ""),
        (('eval "$1"',), ""),
        (("run() { python a.py; }", "run"), ""),
        (("wget https://a.example/b",), ""),
    ],
)
def test_a_script_that_does_no_work_is_named(rows: tuple[str, ...], words: str) -> None:
    """Slurm ends it well, as a pod does, and nobody looks for the line that is missing."""
    text = "\n".join(("#!/bin/bash", "#SBATCH -n 1", *rows, ""))
    notes = job.convert(text.encode(), "job.sbatch").notes
    own = [note for note in notes if "starts a program" in note or "the script ends while" in note]
    assert [words in note for note in own] == [True] * bool(words)


def test_a_program_is_named_with_the_line_that_calls_it() -> None:
    """A text above had its name, and that line was said."""
    text = "#!/bin/bash\n#SBATCH -n 1\nUSAGE='take foo'\necho $USAGE\nfoo a\n"
    notes = job.convert(text.encode(), "job.sbatch").notes
    assert [True] == ["foo (line 5)" in note for note in notes if "called by name" in note]


def test_uv_runs_a_python_of_its_own() -> None:
    """The launcher needs PyTorch in the image's."""
    text = "#!/bin/bash\n#SBATCH -n 1\nuv run train --lr 1\n"
    notes = job.convert(text.encode(), "job.sbatch").notes
    assert [note for note in notes if "own Python" in note]


@pytest.mark.parametrize(("file", "may_be"), [("env.sh", True), ("/opt/env/bin/activate", False)])
def test_a_function_of_a_file_that_is_read_may_be_a_program(file: str, *, may_be: bool) -> None:
    """It was said that the image must have it."""
    text = f"#!/bin/bash\n#SBATCH -n 1\nsource {file}\nlist_of a\n"
    notes = job.convert(text.encode(), "job.sbatch").notes
    own = [note for note in notes if "called by name" in note]
    assert [may_be] == [note.endswith("no file that the script reads defines it") for note in own]


@pytest.mark.parametrize("server", ["", "ollama serve &"])
def test_the_program_of_a_server_is_in_the_image(server: str) -> None:
    """What is said of its port says nothing of the program."""
    text = f"#!/bin/bash\n{server}\nollama create m -f Modelfile\npython a.py\n"
    notes = " ".join(job.convert(text.encode(), "a.sbatch").notes)
    assert "called by name: ollama" in notes


def test_a_launcher_in_another_branch_is_in_the_values() -> None:
    """Its own options are the chart's, and its program stands in the command."""
    rows = (
        "#!/bin/bash",
        "#SBATCH -N 1 --gpus-per-node=8",
        'if [ "$SLURM_NNODES" -gt 1 ]; then',
        "deepspeed --num_nodes=2 --num_gpus=8 a.py --x 1",
        "else",
        "deepspeed --num_gpus=8 a.py --x 2",
        "fi",
        "",
    )
    lost = job.convert("\n".join(rows).encode(), "a.sbatch").lost
    assert not [verdict.path for verdict in lost if "nothing in the values" in verdict.why]


def test_a_list_of_files_asks_slurm_nothing() -> None:
    """A path of a program of Slurm's is a word, and no call."""
    head = "#!/bin/bash\n#SBATCH -N 2 --gpus-per-node=4 --ntasks-per-node=1\n"
    step = "srun torchrun --nnodes 2 --nproc_per_node 4 train.py --x $TOOLS\n"
    text = f'{head}TOOLS="/usr/bin/scontrol,/usr/bin/srun"\n{step}'
    values = job.convert(text.encode(), "a.sbatch").values
    whole = f"{values.get('setup', '')} {values.get('env', '')} {values['command']}"
    assert "/usr/bin/scontrol,/usr/bin/srun" in whole
    assert "MASTER_ADDR" not in whole


@pytest.mark.parametrize(
    ("args", "word", "ranks"), [((), "${1:-8}", None), (("4",), "${1:-8}", 4), ((), "${1:-2}", 2)]
)
def test_ranks_may_be_a_word_of_the_script(
    args: tuple[str, ...], word: str, ranks: int | None
) -> None:
    """The words are known, and what stands for one that is not given."""
    head = "#!/bin/bash\n#SBATCH -N 1 --gpus-per-node=8\n"
    text = f"{head}N={word}\ntorchrun --nproc_per_node=$N a.py\n"
    conversion = job.convert(text.encode(), "a.sbatch", args=args)
    assert conversion.values.get("procsPerNode") == ranks
    assert not [own for own in conversion.verdicts if "in the pod alone" in own.why]
