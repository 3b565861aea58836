"""Variables that a script declares, or sets a part of: nobody else gives them a text."""

from __future__ import annotations

import re

import pytest

from allranks.convert.slurm import job

_NOT_SET = re.compile("does not set it|takes it from who submits")


def _unset(*rows: str) -> list[str]:
    """The variables of which the report says that nobody sets them."""
    text = "\n".join(("#!/bin/bash", "#SBATCH -N 1 --gpus 1", *rows, ""))
    lost = job.convert(text.encode(), "job.sbatch").lost
    return [verdict.path for verdict in lost if _NOT_SET.search(verdict.why)]


@pytest.mark.parametrize(
    "rows",
    [
        ("declare -A folders", 'for a in "${!folders[@]}"; do echo "${folders[$a]}" >b; done'),
        ("declare -a folders files", "python b.py ${files[@]}"),
        ("typeset -i number", "python b.py $number"),
        ("go() { local -a folders; local number; python b.py $number ${folders[@]}; }", "go"),
        ('folders["a"]="b"', 'python b.py "${folders[a]}"'),
        ("folders[0]+=b", 'python b.py "${folders[@]}"'),
        ("declare -A folders", "srun python b.py ${folders[a]}"),
        ("bash -c 'declare -a A; python b.py ${A[@]}'",),
    ],
)
def test_a_variable_that_the_script_declares_is_its_own(rows: tuple[str, ...]) -> None:
    """It is empty until the script sets it, and no environment gives it a text."""
    assert not _unset(*rows, "python a.py")


@pytest.mark.parametrize(
    "row",
    [
        'export "NAME=0.1 2"',
        "export 'NAME=0.1 2' OTHER=3",
        'export "NAME"=3',
        'export "NAME=0.1 "2',
        'declare -x "NAME=a=b"',
        'export "NAME+=x"',
    ],
)
def test_quotes_around_a_whole_assignment_are_none_of_its_name_s(row: str) -> None:
    """To the shell `export "NAME=a b"` is `export NAME="a b"`."""
    assert not _unset(row, 'srun python a.py "$NAME"')


def test_a_rendezvous_in_quotes_is_the_launcher_s() -> None:
    """Its report calls the variable by its name alone."""
    first = 'export "MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n1)"'
    text = f"#!/bin/bash\n#SBATCH -N 2 --gpus-per-node 1\n{first}\nsrun python a.py\n"
    verdicts = job.convert(text.encode(), "job.sbatch").verdicts
    [why] = [verdict.why for verdict in verdicts if verdict.path.startswith("export")]
    assert '"' not in why


@pytest.mark.parametrize(
    "row",
    [
        "declare -x NAME",
        "export NAME",
        "readonly NAME",
        "declare -p NAME",
        "declare +x NAME",
        "typeset -rx NAME",
        "declare -f NAME",
    ],
)
def test_a_declaration_that_passes_a_variable_on_sets_none(row: str) -> None:
    """It has the text of the environment, which a pod lacks."""
    assert _unset(row, "python a.py $NAME") == ["$NAME"]


def test_a_variable_that_the_script_asks_for_with_a_default_in_its_error_is_unset() -> None:
    """What the error reads is no text of the variable."""
    assert _unset('A="${A:?set A or ${B:-c}}"', "python a.py $A") == ["$A"]


@pytest.mark.parametrize(
    "rows",
    [
        ('[ -n "$A" ] || exit 1',),
        ('[[ "${A}" ]] || { echo "no A" >&2; exit 1; }',),
        ('[ -z "$A" ] && exit 2',),
        ('if [ -z "$A" ]; then', '  echo "no A"', "  exit 1", "fi"),
        ('if [ -n "$A" ]; then', "  source a.sh", "else", "  echo no", "  exit 1", "fi"),
        ('die() { echo "$1"; exit 1; }', '[[ -n "$A" ]] || die "no A"'),
    ],
)
@pytest.mark.parametrize(
    ("assignment", "name"),
    [
        ('A="${A:-}"', "$A"),
        ('A="${A:-${B:-}}"', "$A"),
        ("A=${B-}", "$B"),
        ('A="${A:-$B}"', "$A"),
        ('A="${A:-${VIRTUAL_ENV:-}}"', "$A"),
        ("A=${CONDA_PREFIX:-}", "$CONDA_PREFIX"),
        ("echo a", "$A"),
    ],
)
def test_a_variable_whose_emptiness_ends_the_script_is_needed(
    assignment: str, name: str, rows: tuple[str, ...]
) -> None:
    """The empty text in its place is none that the script runs with."""
    assert name in _unset(assignment, *rows, "python a.py $A")


@pytest.mark.parametrize(
    "rows",
    [
        ('if [ -z "$A" ]; then', "  if [ -f f ]; then", "    A=$(cat f)", "  fi", "fi"),
        ('if [ -z "${A:-}" ] && [ -f f ]; then', '  export A="$(cat f)"', "fi"),
        ('[ -n "$A" ] || A=$(head -n1 ~/.key)',),
        ('[ -n "$A" ] || [ ! -f ~/.key ] || A=$(<~/.key)',),
    ],
)
@pytest.mark.parametrize("end", ['[ -n "$A" ] || exit 1', 'if [ -z "$A" ]; then exit 1; fi'])
def test_a_variable_that_a_file_may_set_where_nobody_has_is_needed(
    rows: tuple[str, ...], end: str
) -> None:
    """Who submits sets it; the file is what the script tries where nobody has."""
    text = "\n".join(("#!/bin/bash", "#SBATCH -N 1 --gpus 1", *rows, end, "python a.py $A", ""))
    (verdict,) = job.convert(text.encode(), "job.sbatch").lost
    assert verdict.path == "$A"
    assert "looks for it where nobody has set it" in verdict.why


@pytest.mark.parametrize(
    "rows",
    [
        ('A="${A:-b}"', '[ -n "$A" ] || exit 1'),
        ('if [ -z "$A" ]; then', "  A=b", "fi", '[ -n "$A" ] || exit 1'),
        ('if [ -z "$A" ]; then', "  A=$SLURM_JOB_ID", "fi", '[ -n "$A" ] || exit 1'),
        ("A=$(cat f)", 'if [ -z "$A" ]; then', "  exit 1", "fi"),
        ('A="${A:-}"', '[ -n "$A" ] || A="$(command -v python3)"', '[ -n "$A" ] || exit 1'),
        ("if [ -f f ]; then", "  A=$(cat f)", "fi", '[ -n "$A" ] || exit 1'),
        ('A="${A:-$SLURM_SUBMIT_DIR}"', '[ -n "$A" ] || exit 1'),
        ("B=b", 'A="${A:-${B:-}}"', '[ -n "$A" ] || exit 1'),
        ('A="${A:-}"', '[ -z "$A" ] && A=b', '[ -n "$A" ] || exit 1'),
        ('A="${A:-}"', 'if [ -n "$A" ]; then', "  python b.py $A", "else", "  true", "fi"),
        ('A="${A:-}"', 'if [ -n "$A" ]; then', "  python b.py $A", "  exit 1", "fi"),
        ('A="${A:-}"', "if false; then", '  [ -n "$A" ] || exit 1', "fi"),
        ('A="${A:-}"', '[ -n "$A" ] || echo "exit"'),
        ('A="${A:-}"', "if [ -d a ]", "then", "{ exit 1; }", "fi", '[ -n "$A" ] || then_b'),
        ('A="${A:-}"', 'while getopts "a:" o; do A=$OPTARG; done', '[ -z "$A" ] && exit 1'),
        ("A=$1", '[ -z "$A" ] && exit 1'),
        ("source env/bin/activate", 'A="${VIRTUAL_ENV:-}"', '[ -n "$A" ] || exit 1'),
        ("conda activate env", '[ -n "$CONDA_PREFIX" ] || exit 1'),
        ("read -r A B < a.txt", 'if [[ -z "${A}" ]]; then', "  exit 1", "fi"),
    ],
)
def test_a_variable_that_is_empty_without_an_end_is_not_needed(rows: tuple[str, ...]) -> None:
    """Nor one that the script gives a text where nobody has set it."""
    assert not _unset(*rows, "python a.py ${A:-}")


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("TRANSFORMERS_CACHE", "but libraries may read it"),
        ("HF_HOME", "but libraries may read it"),
        ("TORCH_HOME", "but libraries may read it"),
        ("WANDB_DIR", "but libraries may read it"),
        ("SITE_NAME", "no line of it reads"),
        ("TORCH_VERSION", "no line of it reads"),
    ],
)
def test_a_variable_of_a_library_is_read_though_the_script_only_prints_it(
    name: str, sentence: str
) -> None:
    """What it has of who submits is not in a pod."""
    text = f'#!/bin/bash\n#SBATCH -n 1\necho "with ${name}"\npython a.py\n'
    verdicts = job.convert(text.encode(), "job.sbatch").verdicts
    [why] = [own.why for own in verdicts if own.path == f"${name}"]
    assert sentence in why


@pytest.mark.parametrize(
    "rows",
    [
        ("conda activate \\$NAME/a",),
        ("echo '$NAME'", "A='$NAME/b'", "echo $A > c"),
        ("cat <<'END' > a.txt", "$NAME", "END"),
        ('bash b.sh "\\${NAME}"',),
        ("if true; then", "  echo a  # $NAME", "fi"),
    ],
)
@pytest.mark.parametrize("read", ["python a.py $NAME", "bash -c 'ls $NAME > b'"])
def test_the_line_of_a_variable_is_that_which_reads_it(rows: tuple[str, ...], read: str) -> None:
    """And none that has its name in a text."""
    text = "\n".join(("#!/bin/bash", "#SBATCH -n 1", *rows, read, "python a.py", ""))
    verdicts = job.convert(text.encode(), "job.sbatch").verdicts
    assert [own.line for own in verdicts if own.path == "$NAME"] == [3 + len(rows)]


def test_a_variable_that_is_printed_to_standard_error_is_only_printed() -> None:
    """`echo "$PROGRAM: …" 1>&2` loses nothing."""
    for end in ("", " >&2", " 1>&2"):
        text = f'#!/bin/bash\nf() {{\n  echo "$PROGRAM: x"{end}\n}}\npython a.py || f\n'
        assert not job.convert(text.encode(), "job").lost


def test_words_of_a_loop_with_a_comment_are_optional_as_without() -> None:
    """`while [ $# -gt 0 ]; do … done` does nothing where there are none, also in Slurm."""
    rows = (
        "while [ $# -gt 0 ]; do",
        "  # options",
        '  case "$1" in -a) A=1 ;; esac',
        "  shift",
        "done",
    )
    for own in (rows, (rows[0], *rows[2:])):
        text = "\n".join(["#!/bin/bash", *own, "python a.py", ""])
        assert not job.convert(text.encode(), "job").lost


@pytest.mark.parametrize(
    ("module", "name", "is_of_module"),
    [
        ("hdf5/1.14", "HDF5_DIR", True),
        ("gcc/12", "ENV_DIR", False),
        ("gcc/12", "EBROOTGCC", True),
        ("python", "MKLROOT", True),
    ],
)
def test_a_module_may_set_variables_of_its_name(module: str, name: str, is_of_module: bool) -> None:
    """Any other is one of who submits."""
    text = f"#!/bin/bash\nmodule load {module}\npython a.py ${name}\n"
    verdicts = job.convert(text.encode(), "a.sbatch").verdicts
    [why] = [verdict.why for verdict in verdicts if verdict.path == f"${name}"]
    assert ("a module" in why) is is_of_module


@pytest.mark.parametrize(
    ("row", "is_shared"), [("cp -r $TMPDIR/* out", True), ("ls $TMPDIR", False)]
)
def test_the_pods_tmp_has_files_of_its_launcher(row: str, is_shared: bool) -> None:
    """Slurm's folder is the job's own: what takes all of it is told of."""
    text = f"#!/bin/bash\ncd $TMPDIR\npython a.py\n{row}\n"
    verdicts = job.convert(text.encode(), "a.sbatch").verdicts
    [why] = [verdict.why for verdict in verdicts if verdict.path == "$TMPDIR"]
    assert ("its launcher has files" in why) is is_shared


@pytest.mark.parametrize(("word", "is_lost"), [("${1:-small}", False), ("$1", True)])
def test_a_word_with_a_text_in_its_place_is_missed_by_nobody(word: str, is_lost: bool) -> None:
    """The words behind it, all of none, are none with Slurm too."""
    text = f'#!/bin/bash\nMODEL={word}\nshift\npython a.py $MODEL "$@"\n'
    conversion = job.convert(text.encode(), "a.sbatch")
    assert bool([own for own in conversion.lost if "no words" in own.why]) is is_lost


@pytest.mark.parametrize("row", ['export "$key=$val"', 'declare "$key=$val"', 'eval "$key=$val"'])
def test_a_script_may_set_what_its_words_name(row: str) -> None:
    """A loop over ``NAME=text`` sets any name, and those of the words that are given."""
    loop = f'for arg in "$@"; do\nkey=${{arg%%=*}}\nval=${{arg#*=}}\n{row}\ndone'
    text = f"#!/bin/bash\n{loop}\npython a.py $model\n"
    lost = job.convert(text.encode(), "a.sbatch").lost
    assert ["the script (line 5) may set it" in own.why for own in lost if own.path == "$model"]
    lost = job.convert(text.encode(), "a.sbatch", args=["model=x"]).lost
    assert not [own for own in lost if own.path == "$model"]


@pytest.mark.parametrize(
    "rows",
    [
        ('if [ -z "$A" ]; then', "  python a.py", "else", "  python a.py --a $A", "fi"),
        ('[ -z "$A" ] && B= || B="--a $A"', "python a.py $B"),
        ("[[ -z ${A} ]] || B=--a=$A", "python a.py $B"),
    ],
)
def test_a_script_that_asks_whether_a_variable_is_empty_goes_on_without_it(
    rows: tuple[str, ...],
) -> None:
    """It does something else then, as it does where it asks whether there is one."""
    assert not _unset(*rows)


@pytest.mark.parametrize("name", ["CONDA_ENV_PATH", "CONDA_ENV"])
def test_a_variable_that_begins_as_condas_own_do_is_named(name: str) -> None:
    """Conda sets a few, and a script whose setup ends without another never came to its program."""
    assert _unset(f"python a.py ${name}") == [f"${name}"]


@pytest.mark.parametrize(("first", "is_lost"), [("set -euo pipefail", True), ("set -e", False)])
def test_a_test_of_an_empty_variable_ends_a_script_that_wants_all(
    first: str, *, is_lost: bool
) -> None:
    """`set -u` ends it at ``[ -z "$HF_TOKEN" ]``, which asks for no text in its place."""
    rows = (first, 'if [ -z "$HF_TOKEN" ]; then echo none; fi', "python a.py")
    text = "\n".join(("#!/bin/bash", "#SBATCH -n 1", *rows, ""))
    lost = [verdict.path for verdict in job.convert(text.encode(), "job").lost]
    assert lost == ["$HF_TOKEN"] * is_lost


def test_a_function_that_reads_what_it_is_given_wants_no_words() -> None:
    """It is given all of none where the script has none, and its loop does nothing."""
    loop = "while [ $# -gt 0 ]; do\n case $1 in -b) B=1 ;; *) exit 1 ;; esac\n shift\ndone"
    rows = f'options() {{\n{loop}\n}}\noptions "$@"\npython a.py $B\n'
    lost = job.convert(f"#!/bin/bash\n#SBATCH -n 1\n{rows}".encode(), "job").lost
    assert not [verdict for verdict in lost if "no words" in verdict.why]


@pytest.mark.parametrize(
    ("row", "names"),
    [
        ("BATCH=${BATCH:-32}; export LR=${LR:-1}", "BATCH, LR"),
        ("V=${VICTIM:-b}", "VICTIM"),
        ("BATCH=${1:-32}; B=2; A=${B:-1}; D=${HOME:-x}", ""),
        ("A=${CONDA_PREFIX:-}; B=; python a.py ${B:-} ${WANDB_NAME:-}", ""),
    ],
)
def test_what_who_submits_may_set_is_noted(row: str, names: str) -> None:
    """`BATCH=64 sbatch …` gave the script another text, and no pod has the environment."""
    text = f"#!/bin/bash\n#SBATCH -n 1\n{row}\npython a.py $BATCH\n"
    notes = job.convert(text.encode(), "job").notes
    own = [note for note in notes if "a text of its own for" in note]
    assert [f"for {names}, where" in note for note in own] == [True] * bool(names)


@pytest.mark.parametrize(
    ("row", "names"),
    [
        ("python a.py ${EXTRA_ARGS:-}", "EXTRA_ARGS"),
        ("EXTRA_ARGS=${EXTRA_ARGS:-}; python a.py $EXTRA_ARGS", "EXTRA_ARGS"),
        ('C="${NEW:-${OLD:-}}"; python a.py $C', "NEW, OLD"),
        ('echo "${EXTRA_ARGS:-}"\npython a.py', ""),
    ],
)
def test_what_a_script_does_without_is_noted(row: str, names: str) -> None:
    """Nothing fails where nobody sets it, and the program does something else."""
    notes = job.convert(f"#!/bin/bash\n#SBATCH -n 1\n{row}\n".encode(), "job").notes
    own = [note for note in notes if "the script has a text of its own, or none," in note]
    assert [f"for {names}, where" in note for note in own] == [True] * bool(names)


@pytest.mark.parametrize(
    ("row", "is_noted"),
    [
        ("for n in $(compgen -v); do A+=($n); done", True),
        ("for n in $(compgen -A variable CFG_); do A+=($n); done", True),
        ("for n in ${!CFG_@}; do A+=($n); done", True),
        ("CFG_A=1; for n in ${!CFG_@}; do A+=($n); done", False),
        ("for n in $(compgen -c py); do A+=($n); done", False),
    ],
)
def test_a_loop_over_variables_is_noted(row: str, *, is_noted: bool) -> None:
    """It finds those of who submits by a part of their names, which no line has whole."""
    text = f"#!/bin/bash\n#SBATCH -n 1\n{row}\npython a.py ${{A[@]}}\n"
    notes = job.convert(text.encode(), "job").notes
    assert any("by their names" in note for note in notes) is is_noted


def test_a_variable_that_another_of_who_submits_may_set_is_taken_from_there() -> None:
    """The script sets it, to what it has, so that it is not true that it does not."""
    rows = 'V="${V:-${OWN:-}}"\n[ -n "$V" ] || exit 1\n$V/bin/python a.py\n'
    verdicts = job.convert(f"#!/bin/bash\n#SBATCH -n 1\n{rows}".encode(), "job").verdicts
    [why] = [own.why for own in verdicts if own.path == "$V"]
    assert why.startswith("the script takes it from who submits")


@pytest.mark.parametrize(
    ("step", "why"),
    [
        ("srun apptainer exec a.sif bash -c '$WITH; python a.py'", "the image does not set it"),
        ("srun --container-image=a/b bash -c 'python a.py $WITH'", "the image does not set it"),
        ('srun apptainer exec a.sif bash -c "$WITH; python a.py"', "of who submits"),
        ("srun bash -c '$WITH; python a.py'", "of who submits"),
    ],
)
def test_a_variable_that_a_containers_shell_alone_reads_may_be_the_images(
    step: str, why: str
) -> None:
    """It was said to be of who submits, as one that the script's shell reads."""
    text = f"#!/bin/bash\n#SBATCH -n 2\n{step}\n"
    verdicts = job.convert(text.encode(), "job.sbatch").verdicts
    (verdict,) = (own for own in verdicts if own.path == "$WITH")
    assert why in verdict.why


@pytest.mark.parametrize(
    ("lines", "is_size"),
    [
        (["srun torchrun --nproc_per_node ${NPROC:-4} t.py"], True),
        (["N=${NPROC:-4}", 'srun torchrun --nproc-per-node="$N" t.py'], True),
        (["mpirun -np ${NPROC:-4} ./a.out"], True),
        (["srun torchrun t.py --batch ${NPROC:-4}"], False),
    ],
)
def test_a_variable_that_is_a_number_of_ranks_is_said_to_be_one(
    lines: list[str], *, is_size: bool
) -> None:
    """In env it would change nothing of the run's size."""
    text = "\n".join(["#!/bin/bash", "#SBATCH -N2 --ntasks-per-node=4", *lines, ""])
    notes = job.convert(text.encode(), "job.sbatch").notes
    [own] = [note for note in notes if "the script has a text of its own for NPROC" in note]
    assert "nobody has set it" in own
    assert ("NPROC says how many ranks or nodes there are" in own) is is_size


@pytest.mark.parametrize(
    ("name", "option", "text", "first"),
    [
        ("SLURM_JOB_PARTITION", "partition", "a,b", "a"),
        ("SLURM_JOB_PARTITION", "partition", ",b,c", "b"),
        ("SLURM_JOB_QOS", "qos", "high,low", "high"),
    ],
)
def test_a_variable_of_a_choice_is_the_first_of_it(
    name: str, option: str, text: str, first: str
) -> None:
    """Slurm sets it to the one that the job runs with, which nobody knows before."""
    rows = ("#!/bin/bash", f"#SBATCH -n 1 --{option}={text}", f"srun python a.py ${name}", "")
    conversion = job.convert("\n".join(rows).encode(), "job.sbatch")
    assert conversion.values["env"][name] == first
    [why] = [own.why for own in conversion.verdicts if own.path == f"${name}"]
    assert f"of --{option}={text}, and here it is the first" in why
    assert f"write another into env.{name}" in why


@pytest.mark.parametrize(("name", "option"), [("PARTITION", "partition"), ("QOS", "qos")])
def test_a_variable_of_one_name_follows_from_the_option(name: str, option: str) -> None:
    """There is no other that the job could run with."""
    rows = ("#!/bin/bash", f"#SBATCH -n 1 --{option}=a", f"srun python a.py $SLURM_JOB_{name}", "")
    verdicts = job.convert("\n".join(rows).encode(), "job.sbatch").verdicts
    [why] = [own.why for own in verdicts if own.path == f"$SLURM_JOB_{name}"]
    assert why == "it follows from what the script asks for"


def test_a_text_that_a_line_before_replaces_is_of_nobody_who_submits() -> None:
    """The line sets it anew each time; in a branch it may leave what was there."""
    for start, is_noted in (("A=$(cat f)", False), ("if true; then\n  A=1\nfi", True)):
        rows = (start, "A=${A:-aip}", "python a.py $A")
        notes = job.convert("\n".join(("#!/bin/bash", *rows, "")).encode(), "a.sh").notes
        assert is_noted == any("a text of its own for A" in note for note in notes)


def test_a_part_of_the_command_that_another_part_is_made_of_is_no_loss() -> None:
    """Its text stands in the command, and the line that is left only prints it."""
    conversion = job.convert(
        b"#!/bin/bash\n#SBATCH -N 2 --gpus-per-node=4 --ntasks-per-node=1\n"
        b"HOST=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n1)\n"
        b'export L="accelerate launch --main_process_ip $HOST --machine_rank \\$SLURM_PROCID '
        b'--num_machines $SLURM_NNODES --num_processes 8"\n'
        b'export CMD="$L train.py"\necho "Running $CMD"\nsrun bash -c "$CMD"\n',
        "a.sh",
    )
    assert "$L" not in {verdict.path for verdict in conversion.verdicts}
    assert any("is a part of the command" in verdict.why for verdict in conversion.verdicts)


def test_the_jobs_own_output_by_a_glob_is_the_runs_log() -> None:
    """No file has it in a pod, so that no run before can have left it in a volume."""
    conversion = job.convert(
        b"#!/bin/bash\n#SBATCH -o ./logs/%j_%x.out\npython a.py\n"
        b'tail "$(ls -t ./logs/${SLURM_JOB_ID}_* | head -1)" | grep -q Timeout\n'
        b"cp ckpt/${SLURM_JOB_ID}_* last\n",
        "a.sh",
    )
    lost = {verdict.path: verdict.why for verdict in conversion.lost}
    assert "is the run's log" in lost["./logs/${SLURM_JOB_ID}_*"]
    whys = {verdict.path: verdict.why for verdict in conversion.verdicts}
    assert "as ckpt/${SLURM_JOB_ID}_*" in whys["$SLURM_JOB_ID"]


@pytest.mark.parametrize(
    ("row", "is_lost"),
    [('srun "$@"', True), ("srun -n1 $*", True), ('python a.py "$@"', False)],
)
def test_a_script_that_runs_its_words_needs_some(row: str, is_lost: bool) -> None:
    """Without one nothing runs, and the run has succeeded; srun without a program fails."""
    text = f"#!/bin/bash\n#SBATCH -N 1 --gpus 1\n{row}\n"
    conversion = job.convert(text.encode(), "job.sbatch")
    verdict = next(own for own in conversion.verdicts if own.path == "$@")
    assert is_lost == (verdict in conversion.lost)
