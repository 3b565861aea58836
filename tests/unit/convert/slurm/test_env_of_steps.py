"""Words of an `env`, and variables, in front of a step or of its program."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from allranks.convert.slurm import job

if TYPE_CHECKING:
    from allranks.convert.verdicts import Conversion

_NODES = "#SBATCH -N 2 --gpus-per-node=4 --ntasks-per-node=4"
_VARIABLES = 'SETTINGS="A=1 B=2"'


def _convert(*rows: str) -> Conversion:
    return job.convert("\n".join(("#!/bin/bash", _NODES, *rows, "")).encode(), "job.sbatch")


@pytest.mark.parametrize(
    ("step", "command"),
    [
        ("srun env $SETTINGS python a.py", "exec env $SETTINGS python a.py"),
        ("env $SETTINGS srun python a.py", "exec env $SETTINGS python a.py"),
        ("srun env -i PATH=$PATH python a.py", "exec env -i PATH=$PATH python a.py"),
        ("srun env -C /w python a.py", "exec env -C /w python a.py"),
        ("env -u A srun python a.py", "exec env -u A python a.py"),
    ],
)
def test_an_env_stays_before_its_program(step: str, command: str) -> None:
    """Bash had to run `$SETTINGS`, `-i` and `-C`; those in front of srun were lost."""
    assert ["bash", "-c", command] == _convert(_VARIABLES, step).values["command"]


def test_an_env_in_front_of_torchrun_keeps_what_the_launcher_says() -> None:
    """`-i` would take the number of each rank from its program."""
    step = "srun --ntasks-per-node=1 env -i A=$B torchrun --nnodes 2 --nproc_per_node 4 a.py"
    conversion = _convert(step)
    assert "exec env A=$B python3 -u a.py" == conversion.values["command"][2]
    assert any("`env -i` is left out" in own.why for own in conversion.verdicts)


@pytest.mark.parametrize(
    "step",
    [
        "A=$X srun bash -c 'cd /w; python a.py $A'",
        "srun env A=$X bash -c 'cd /w; python a.py $A'",
    ],
)
def test_variables_in_front_of_a_text_are_those_of_all_its_commands(step: str) -> None:
    """`A=$X cd /w` set it for the first of them alone."""
    assert "export A=$X\ncd /w\n" in _convert(step).values["setup"]


def test_words_of_an_env_that_may_be_none_are_so_in_front_of_a_text() -> None:
    """`export` alone would print all variables, keys among them."""
    words = '${A:+A="$A"} ${B:+-u C} D=1'
    setup = _convert(f"srun env {words} bash -c 'cd /w; python a.py'").values["setup"]
    assert '${A:+export A="$A"}\n${B:+unset C}\nexport D=1\ncd /w\n' in setup


@pytest.mark.parametrize(
    "words",
    [
        '${A:+A="$A"}',
        "${A:+-u B} C=1",
        '${A+A="${A}"} $SETTINGS',
        '${A[@]+"${A[@]}"}',
        "${SETTINGS:-}",
        "${SETTINGS:+$SETTINGS}",
    ],
)
def test_a_word_of_an_env_that_may_be_none_is_no_program(words: str) -> None:
    """What stands behind it starts the ranks, or asks the image for a program."""
    conversion = _convert(f"srun env {words} torchrun --nproc_per_node 4 --nnodes 2 a.py")
    assert f"exec env {words} python3 -u a.py" in conversion.values["command"][-1]
    notes = _convert(f"env {words} prepare a", "srun python a.py").notes
    assert any("must have the programs" in note and "prepare" in note for note in notes)


def test_a_text_reads_what_an_env_in_front_of_it_sets() -> None:
    """`env A=1 python a.py $A` has it read by the shell outside, where it is not."""
    values = _convert("srun env -u C A=1 bash -c 'python a.py $A'").values
    assert "unset C\nexport A=1\n" in values["setup"]
    assert "exec python a.py $A" == values["command"][2]


def test_a_variable_of_the_step_is_set_behind_what_setup_reads() -> None:
    """A file, or a line, may set it for the script; srun gives its step the text of its own."""
    step = "srun --export=ALL,A=1,B=2 python a.py"
    conversion = _convert("source site.env", step)
    assert conversion.values["setup"].endswith("source site.env\nexport A=1\nexport B=2\n")
    assert "env" not in conversion.values
    own = _convert("cp $A b", step).values
    assert own["setup"].endswith("cp $A b\nexport A=1\n")
    assert own["env"] == {"B": "2"}
    assert _convert(step).values["env"] == {"A": "1", "B": "2"}


def test_each_step_of_a_script_has_its_own_variables() -> None:
    """As words before its program, which end with it."""
    rows = ("#!/bin/bash", "#SBATCH -n 1", "source site.env")
    steps = ("srun --export=ALL,A=1,B=$PWD python a.py", "srun --export=ALL,A=2 python b.py", "")
    values = job.convert("\n".join((*rows, *steps)).encode(), "job.sbatch").values
    assert 'A=1 B="$PWD" python a.py\nA=2 python b.py\n' in values["script"]
    assert "env" not in values


def test_variables_of_the_scripts_own_are_none_of_who_submits() -> None:
    """The chart sets how ranks meet; what the script does not export is to be exported there."""
    rows = ("export MASTER_ADDR=$(hostname)", "MASTER_PORT=29501", "HEAD=$(hostname -i)")
    step = "srun --export=ALL,MASTER_ADDR=$MASTER_ADDR,MASTER_PORT=$MASTER_PORT{} python a.py"
    paths = [verdict.path for verdict in _convert(*rows, step.format("")).lost]
    assert "srun --export" not in paths
    lost = {v.path: v.why for v in _convert(*rows, step.format(",HEAD=$HEAD,OWN=$OWN")).lost}
    assert lost["srun --export"] == (
        "the ranks have what the script exports: `export HEAD` there; "
        "a pod has not the environment of who submits: write OWN into env"
    )


def test_variables_for_a_container_in_the_options_are_those_inside_of_it() -> None:
    """`SINGULARITYENV_A` is `A` there; what only Singularity reads is named."""
    directive = "#SBATCH --export=SINGULARITYENV_A=1,SINGULARITYENV_PREPEND_PATH=/b"
    conversion = _convert(directive, "srun singularity exec a.sif python a.py")
    assert conversion.values["env"] == {"A": "1"}
    (why,) = (verdict.why for verdict in conversion.lost if verdict.path == "--export")
    assert why.startswith("SINGULARITYENV_PREPEND_PATH: nothing in a pod reads it")
    plain = _convert(directive, "srun python a.py").values["env"]
    assert plain == {"SINGULARITYENV_A": "1", "SINGULARITYENV_PREPEND_PATH": "/b"}


@pytest.mark.parametrize(
    ("file", "is_repeated"), [("./export_DDP_vars.sh", True), ("./site.env", False)]
)
def test_a_file_that_tells_a_rank_is_read_behind_what_takes_the_launchers(
    file: str, *, is_repeated: bool
) -> None:
    """The script begins without the launcher's RANK, and has that of the file then."""
    text = f"#!/bin/bash\n#SBATCH -n 1 --gpus=1\nsource {file}\npython a.py\n"
    values = job.convert(text.encode(), "job.sbatch").values
    assert f"source {file}" in values["setup"]
    rows = values["script"].splitlines()
    assert rows[1].startswith("unset ")
    assert is_repeated is (rows[2] == f"source {file}")


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ("nvidia-smi", "nvidia-smi || :"),
        ("nvidia-smi -L > gpus", "nvidia-smi -L > gpus || :"),
        ("for a in 1 2; do rocm-smi; done", "do rocm-smi || :; done"),
        ("nvidia-smi || echo none", "nvidia-smi || echo none"),
        ("if nvidia-smi; then echo a; fi", "if nvidia-smi; then echo a; fi"),
        ("nvidia-smi | head", "nvidia-smi | head\n"),
    ],
)
def test_a_look_at_gpus_ends_no_launcher_of_mpi(row: str, text: str) -> None:
    """It runs setup, too, and has no GPU; without `set -e` nothing ends there."""
    step = "srun --mpi=pmix ./a.out"
    values = _convert("set -e", row, step).values
    assert values["workload"] == "mpi"
    assert text in values["setup"]
    assert f"{row}\n" in _convert(row, step).values["setup"]
    assert f"{row}\n" in _convert("set -e", row, "srun python a.py").values["setup"]


@pytest.mark.parametrize("value", ["${A:-0}", '"${A:-0}"'])
def test_a_default_of_a_steps_variable_is_one_where_a_file_may_set_it(value: str) -> None:
    """The text of the file counts; without a file there is nobody to set it."""
    step = f"srun --export=ALL,A={value} python a.py"
    assert 'export A="${A:-0}"' in _convert("source site.env", step).values["setup"]
    assert _convert(step).values["env"] == {"A": "0"}
    text = f"#!/bin/bash\n#SBATCH -n 1\nsource site.env\n{step}\necho 1 > b\n"
    assert 'A="${A:-0}" python a.py' in job.convert(text.encode(), "job").values["script"]


@pytest.mark.parametrize(
    ("rows", "is_named"),
    [
        ((': "${A:?set it}"', "A=1 python a.py"), True),
        ((': "${A:?set it}"', "srun --export=ALL,A=1 python a.py", "echo 1 > b"), True),
        (("cp $A b", "A=1 python a.py"), True),
        (("A=1 python a.py $A", "python b.py"), False),
        (("A=2", "cp $A b", "A=1 python a.py"), False),
        (("A=1 python a.py", "echo $A"), False),
    ],
)
def test_a_variable_of_one_program_is_set_for_no_other(
    rows: tuple[str, ...], *, is_named: bool
) -> None:
    """Nor for the lines before it."""
    text = "\n".join(("#!/bin/bash", "#SBATCH -n 1", *rows, ""))
    lost = [verdict.path for verdict in job.convert(text.encode(), "job").lost]
    assert is_named is ("$A" in lost)


def test_a_file_that_is_read_behind_another_is_exported_too() -> None:
    """The first may end with `set +a`."""
    values = _convert("source a.env", "source b.env", "srun python a.py").values
    assert "source a.env\nset -a  # whatever that file says of it\nsource b.env" in values["setup"]


@pytest.mark.parametrize(
    ("step", "is_named"),
    [
        ("srun bash -c 'python a.py --part $SLURM_PROCID'", True),
        ("srun -K bash -c 'python a.py --part $SLURM_PROCID'", False),
        ("srun bash -c 'RANK=$SLURM_PROCID python a.py'", False),
        ("srun python a.py", False),
    ],
)
def test_tasks_with_parts_of_their_own_end_together_here(step: str, *, is_named: bool) -> None:
    """Srun lets them go on where one fails; ranks that wait for each other could not."""
    whys = [verdict.why for verdict in _convert(step).verdicts if verdict.to == "command"]
    assert is_named is any("--kill-on-bad-exit" in why for why in whys)


@pytest.mark.parametrize("row", ["A=1", "A=$(hostname)", "declare -x A=1", "export A=1"])
def test_a_variable_of_the_scripts_own_that_a_step_names_is_not_of_who_submits(row: str) -> None:
    """The step has it where the script exports it, and has none of that name where it does not."""
    step = "srun --export=ALL,A,B python a.py"
    (verdict,) = (own for own in _convert(row, step).lost if "export" in own.path)
    assert "write B into env" in verdict.why
