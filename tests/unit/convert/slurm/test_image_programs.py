"""What a script calls by name, and few images have: the report lists it once."""

from __future__ import annotations

import re

import pytest

from allranks.convert.slurm import job


def _programs(
    *rows: str,
    begin: str = "the image must have the programs",
    directive: str = "#SBATCH -N 1 --gpus 1",
) -> list[str]:
    """The programs that a note lists: those that the image must have."""
    text = "\n".join(("#!/bin/bash", directive, *rows, ""))
    notes = job.convert(text.encode(), "job.sbatch").notes
    listed = [note for note in notes if note.startswith(begin)]
    return [program for note in listed for program in note.partition(": ")[2].split(", ")]


def _line_of(program: str, rows: tuple[str, ...]) -> int:
    """The number of the row that runs a program, and does not only look for it."""
    runs = re.compile(rf"(?<!-v )(?<!which )(?<!-P ){program}\b")
    return next(number for number, row in enumerate(rows, 1) if runs.search(row))


_LOOKED_UP = ["lookup (line 3)", "site_name (line 3)"]


@pytest.mark.parametrize(
    ("rows", "programs"),
    [
        (("srun $(site_find conda)/bin/python a.py",), ["site_find (line 3)"]),
        (("echo /usr/bin/time", "/usr/bin/time -v python a.py"), ["/usr/bin/time (line 4)"]),
        (("parallel -j 4 sciunit repeat ::: a b",), ["parallel (line 3)", "sciunit (line 3)"]),
        (("parallel --jobs 2 'snap {} | cut -f1' :::: l",), ["parallel (line 3)", "snap (line 3)"]),
        (("make data", "make all", "srun python a.py"), ["make (line 3)"]),
        (
            ("rsync -a in/ data", "git clone https://x/y", "python a.py"),
            ["rsync (line 3)", "git (line 4)"],
        ),
        (("# lmp is run below", "lmp -in a.in"), ["lmp (line 4)"]),
        (('jq "[$CUDA_VISIBLE_DEVICES]" >n', "python a.py"), ["jq (line 3)"]),
        (("prepare /scratch/data $HOME/a", "python a.py"), ["prepare (line 3)"]),
        (("lmp -in a.in", "if [ $? = 0 ]; then", "echo y", "fi"), ["lmp (line 3)"]),
        (("export PORT=$(91_free_port.sh)", "srun python a.py"), ["91_free_port.sh (line 3)"]),
        (("A=$(lookup a | grep -oP '(?<=b: ).*')", "python a.py $A"), ["lookup (line 3)"]),
        (('A="$(lookup "$(site_name)" | tail -1)"', "python a.py $A"), _LOOKED_UP),
        (("A=`lookup a | sed 's/(x)//'`", "python a.py $A"), ["lookup (line 3)"]),
        (("for a in 1 2; do", "  echo $a", "done", "lmp -in a.in"), ["lmp (line 6)"]),
    ],
)
def test_programs_of_the_site_are_listed(rows: tuple[str, ...], programs: list[str]) -> None:
    """Each once, with the line that calls it first; also what only a part of a word calls."""
    assert programs == _programs(*rows)


@pytest.mark.parametrize(
    ("row", "programs"),
    [
        ("exec uv run a.py", ["uv"]),
        ("exec lmp -in a.in", ["lmp"]),
        ("exec -a other lmp -in a.in", ["lmp"]),
        ("command lmp -in a.in", ["lmp"]),
        ("time -p nohup lmp -in a.in", ["lmp"]),
        ("env A=1 timeout 4h lmp -in a.in", ["lmp"]),
        ("numactl -N 0 lmp -in a.in", ["numactl", "lmp"]),
        ("A=$(exec lmp a)", ["lmp"]),
        ("exec python b.py", []),
        ("exec >out", []),
        ("command -v lmp", []),
        ("builtin history -c", []),
        ("coproc lmp -in a.in", ["lmp"]),
    ],
)
def test_a_program_behind_one_that_only_runs_it_is_listed(row: str, programs: list[str]) -> None:
    """The image needs both, where it has not the first as all images do."""
    listed = _programs("python a.py", row)
    assert [f"{program} (line 4)" for program in programs] == listed


@pytest.mark.parametrize(
    ("rows", "line"),
    [
        (('echo "Usage: $0 a [lmp args]"', 'srun bash -c "lmp \\', '  -in a.in"'), 4),
        (('printf "%s" \\', '  "then lmp runs"', "module load lmp", "srun bash -c 'lmp -i'"), 6),
        (("cat <<END", "lmp runs", "END", "A=$(lmp --version)", "python a.py $A"), 6),
        (("echo lmp && echo a | xargs -n 1 lmp", "srun python a.py"), 3),
        (("command -v lmp || exit 1", "srun lmp -in a.in"), 4),
        (("echo lmp", "time lmp", "lmp -i a", "srun python a.py"), 4),
        (("echo lmp", "srun bash -c '", "cd a", "lmp -in a.in'"), 6),
        (('echo "with lmp"', "RUN='srun lmp -i a'", "$RUN"), 5),
    ],
)
def test_the_line_of_a_program_is_that_which_runs_it(rows: tuple[str, ...], line: int) -> None:
    """And none that prints its name, looks for it, or has it as a word."""
    assert [f"lmp (line {line})"] == _programs(*rows, directive="#SBATCH -N 2 --ntasks-per-node=4")


@pytest.mark.parametrize(
    "row",
    [
        """echo "$(nvcc --version 2>/dev/null | grep -o 'V[0-9.]*' || echo none)\"""",
        "if declare -F nvcc >/dev/null; then nvcc; fi",
    ],
)
def test_a_program_that_a_script_does_without_is_not_wanted(row: str) -> None:
    """What only prints its version ends nothing, and a function that is asked for may not be."""
    assert [] == _programs(row, "python a.py", directive="#SBATCH -n 1")


def test_what_bash_does_itself_is_no_program_of_the_image() -> None:
    """Also where only a part of a word calls it: ``$(compgen -v)``."""
    names = "bg bind caller compgen complete compopt dirs disown enable fc fg hash help history"
    builtins = f"{names} jobs let logout mapfile readarray shopt suspend times type umask".split()
    rows = (f"for A in $({builtin} -v); do echo $A; done" for builtin in builtins)
    others = (f"false || {builtin} -p x" for builtin in builtins)
    assert [] == _programs(*rows, *others, "python a.py")


_LOOKS = "if command -v mail >/dev/null 2>&1; then"


@pytest.mark.parametrize(
    "rows",
    [
        (_LOOKS, "  echo a | mail -s a b", "fi"),
        (_LOOKS, "  A=$(mail -s a)", "fi"),
        ("say() {", _LOOKS, "mail -s a b", "else", "echo no", "fi", "}", "say"),
        ('if [ -n "$A" ] && which mail; then', "mail a", "mail b", "fi"),
        ("if test -x `which mail`; then mail; fi",),
        ('[[ -x "$(command -v mail)" ]] && { mail a; mail b; }',),
        ("type -P mail >a && echo a | mail -s a || echo no",),
    ],
)
def test_a_program_that_the_script_looks_for_may_be_missing(rows: tuple[str, ...]) -> None:
    """The script goes on without it, which is said with its line."""
    assert [] == _programs(*rows, "python a.py")
    assert [f"mail (line {2 + _line_of('mail', rows)})"] == _programs(
        *rows, "python a.py", begin="the script looks for these programs"
    )


@pytest.mark.parametrize(
    "rows",
    [
        ("if ! command -v mail; then exit 1; fi", "mail a"),
        ("command -v mail || exit 1", "mail a"),
        ("if [ -z `which mail` ]; then exit 1; fi", "mail a"),
        (_LOOKS, "mail a", "fi", "mail b"),
        ("if command -v mailx || command -v a; then", "mail a", "fi"),
        (_LOOKS, "echo a", "else", "mail a", "fi"),
    ],
)
def test_a_program_that_is_called_without_a_look_for_it_must_be_there(
    rows: tuple[str, ...],
) -> None:
    """Also where the script looks for it, and ends without it."""
    assert [own.partition(" ")[0] for own in _programs(*rows, "python a.py")] == ["mail"]


@pytest.mark.parametrize(
    "rows",
    [
        ("mkdir -p out", "cp a.py out", "srun python out/a.py"),
        ("prepare() { echo; }", "prepare", "srun python a.py"),
        ("function prepare { echo; }", "prepare", "srun python a.py"),
        ("echo mytool", "srun python a.py"),
        ("module load cuda", "source env/bin/activate", "python a.py", "deactivate"),
        ("./mytool", "srun python a.py"),
        ("A=$(head -1 a | awk '{print $(NF-1)}')", "python a.py $A"),
        ("srun --container-image=nvcr.io#nvidia/pytorch:25.01-py3 mytool",),
    ],
)
def test_what_each_image_has_is_not(rows: tuple[str, ...]) -> None:
    """Nor a function, a file of the folder, what is printed, or what is in an image of its own."""
    assert [] == _programs(*rows)


@pytest.mark.parametrize(
    ("row", "call"),
    [
        ("pip install uv==0.9.1", "uv pip install -r a.txt"),
        ("python -m pip install -q 'uv>=0.9'", "uv pip install -r a.txt"),
        ("pip3 install -U wheel dvc[s3]", "dvc pull"),
        ("command -v uv || pip install uv", "srun uv run a.py"),
        ("pip install --user uv", "uv run a.py"),
        ("uv() { echo; }; uv pip install ninja", "ninja -C out"),
        ("source base/bin/activate && conda install -y -c conda-forge jq=1.7", "jq . a"),
        ('source "$D/etc/profile.d/conda.sh"', "conda create -n a -y"),
        (". out/conda/etc/profile.d/conda.sh", "mamba create -n a -y"),
        ('eval "$("$D/bin/conda" shell.bash hook)"', "conda env create -f a.yml"),
    ],
)
def test_a_program_that_the_script_brings_is_not(row: str, call: str) -> None:
    """The image need not have what a line before installs, or defines in the shell."""
    program = call.removeprefix("srun ").partition(" ")[0]
    assert program not in "".join(_programs(row, call, "python a.py"))


@pytest.mark.parametrize(
    "row",
    [
        "pip install -r uv",
        "pip download uv",
        "pip install --target out uv",
        "echo pip install uv",
        "pip install uvicorn",
    ],
)
def test_a_program_that_no_line_before_brings_must_be_there(row: str) -> None:
    """Also where one behind it does, or installs it where no PATH has it."""
    assert ["uv (line 4)"] == _programs(row, "uv sync", "pip install uv", "python a.py")


def test_a_package_of_python_alone_is_no_program() -> None:
    """The wget of pip has no program, and that of conda is one; conda itself is wanted."""
    rows = ("wget https://a.org/b", "python a.py")
    assert ["wget (line 4)"] == _programs("pip install tqdm wget", *rows)
    own = "source b/bin/activate; conda install wget"
    assert ["conda (line 3)"] == _programs(own, *rows)


@pytest.mark.parametrize(
    ("row", "program"),
    [
        ("HF_HUB_OFFLINE=1 uv run a.py", "uv"),
        ("rsync -a /scratch/me/a b", "rsync"),
        ("site_run --data ~/x", "site_run"),
    ],
)
def test_a_program_is_listed_where_its_line_has_words_on_other_things(
    row: str, program: str
) -> None:
    """A folder or a variable of the line was named, and the program it calls was not."""
    assert [f"{program} (line 3)"] == _programs(row, "python a.py")


def test_programs_of_what_each_pod_runs_are_listed_too() -> None:
    """That a line runs once for each pod is said of it, and no word of what it calls."""
    text = (
        "#!/bin/bash\n#SBATCH -N 2 --ntasks-per-node=1 --gpus-per-node=1\n"
        "if ! site_check --all; then exit 1; fi\nsite_env > env.txt\nsrun python a.py\n"
    )
    notes = " ".join(job.convert(text.encode(), "job.sbatch").notes)
    assert "site_check (line 3), site_env (line 4)" in notes


def test_the_end_of_a_document_is_no_program() -> None:
    """Also where its document is a program's in a substitution."""
    rows = ("PORT=$(python - <<'PYEOF'", "print(1)", "PYEOF", ")", "srun python a.py --p $PORT")
    assert [] == _programs(*rows)


@pytest.mark.parametrize(
    "body",
    [
        ("B=$(", "  cat <<END", "Job it's: $A", "", "End (of it", "END", ")"),
        ("B=$(cat <<-'END'", "\tJob $(site_name)", "\tEND", ")"),
        ('B="$(cat <<END', "Job it", "END", ')"'),
        ('B="$(', 'cat <<"END" | tr a b', "Job it", "END", ')"'),
        ('B="$(cat <<END', "Job it's (a", "END", ')"'),
        ("B=`cat <<END", "Job it", "END", "`"),
    ],
)
def test_the_text_of_a_document_in_a_substitution_is_no_program(body: tuple[str, ...]) -> None:
    """It is what the substitution gives, in quotes or not."""
    assert [] == _programs(*body, 'python a.py "$B"')


def test_what_a_document_in_a_substitution_calls_is_a_program() -> None:
    """A shell puts in its output."""
    rows = ("B=$(cat <<END", "Job $(site_name)", "END", ")", 'python a.py "$B"')
    assert ["site_name (line 4)"] == _programs(*rows)


@pytest.mark.parametrize(
    ("line", "makes"),
    [
        ("enroot import -o a.sqsh docker://b/c:1", True),
        ("srun -N1 enroot import -o a.sqsh docker://b/c:1", True),
        ("enroot start a python b.py", False),
    ],
)
def test_a_line_that_makes_an_image_is_to_be_taken_out(line: str, *, makes: bool) -> None:
    """It runs nothing that could stand in its place."""
    text = f"#!/bin/bash\n#SBATCH -n 1\n{line}\npython a.py\n"
    whys = [item.why for item in job.convert(text.encode(), "a.sbatch").verdicts if item.line == 3]
    assert makes == any("take the line out" in why for why in whys)
    assert makes != any("starts no containers" in why for why in whys)


@pytest.mark.parametrize(
    ("step", "is_noted"), [("srun --mpi=pmix ./a", 1), ("srun python a.py", 0)]
)
def test_a_run_of_mpi_is_told_what_its_image_needs(step: str, is_noted: int) -> None:
    """A batch script that srun starts may have neither mpirun nor sshd in its image."""
    text = f"#!/bin/bash\n#SBATCH -N 2 --ntasks-per-node=2\n{step}\n"
    notes = job.convert(text.encode(), "job.sbatch").notes
    assert is_noted == sum("sshd" in note for note in notes)


def test_a_program_that_prints_its_version_is_wanted_where_a_failure_ends_the_script() -> None:
    """`nvcc -V` prints into the log, and the script goes on without it."""
    assert [] == _programs("nvcc -V", "python a.py")
    assert ["nvcc (line 4)"] == _programs("set -e", "nvcc -V", "python a.py")


def test_conda_is_wanted_for_an_init_too() -> None:
    """With `set -e` a script ends where there is none."""
    assert ["conda (line 3)"] == _programs("conda init bash", "python a.py")


def test_a_folder_on_path_may_have_a_program() -> None:
    """A volume at that path brings it."""
    text = "#!/bin/bash\n#SBATCH -n 1\nexport PATH=/mnt/env/bin:$PATH\nmy_train a\npython a.py\n"
    [note] = [
        own for own in job.convert(text.encode(), "a").notes if "must have the programs" in own
    ]
    assert note.endswith("my_train (line 4), where no folder that the script puts on PATH has it")
