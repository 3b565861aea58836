"""Environments that a script makes, and the programs that manage them."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from allranks.convert.slurm import job

if TYPE_CHECKING:
    from allranks.convert.verdicts import Conversion

_POD = "#SBATCH -N 1 --gpus-per-node=1"
_PODS = "#SBATCH -N 2 --ntasks-per-node=1 --gpus-per-node=1"


def _convert(*rows: str) -> Conversion:
    return job.convert("\n".join(("#!/bin/bash", *rows, "")).encode(), "job.sbatch")


def _why(conversion: Conversion, line: int) -> str:
    return "; ".join(own.why for own in conversion.verdicts if own.line == line)


def _programs(conversion: Conversion) -> str:
    """The note that lists the programs that the image must have; "" for none."""
    return "".join(note for note in conversion.notes if "must have the programs" in note)


@pytest.mark.parametrize(
    ("row", "program"),
    [
        ("mamba env create -f environment.yaml", "mamba"),
        ("micromamba create -y -n e python=3.12", "micromamba"),
        ("conda create -y -n e python=3.12", "conda"),
        ("conda env list | grep e || conda env create -n e -f a.yaml", "conda"),
        ("if ! [ -d e ]; then mamba create -p e; fi", "mamba"),
    ],
)
def test_a_line_that_makes_an_environment_activates_none(row: str, program: str) -> None:
    """Nothing of it is wanted of the image but the program that makes it."""
    conversion = _convert(_POD, row, "conda activate e", "srun python a.py")
    assert "each pod makes the environment" in _why(conversion, 3)
    assert "activates" not in _why(conversion, 3)
    assert f"{program} (line 3)" in _programs(conversion)


@pytest.mark.parametrize(
    "row",
    [
        "mamba env remove -n e",
        "conda env update -n e -f a.yaml",
        "conda env export",
        "micromamba install -y scipy",
        "spack install zlib",
        "spack env create e",
    ],
)
def test_a_line_that_changes_an_environment_activates_none(row: str) -> None:
    """The image must have the program."""
    conversion = _convert(_POD, row, "srun python a.py")
    assert "activates" not in _why(conversion, 3)
    assert f"{row.split(maxsplit=1)[0]} (line 3)" in _programs(conversion)


def test_the_line_of_a_manager_is_that_which_needs_it() -> None:
    """Where it only shows or activates something, nobody misses it."""
    rows = ("conda --version", "conda activate base", "conda install -y scipy")
    assert "conda (line 5)" in _programs(_convert(_POD, *rows, "srun python a.py"))


@pytest.mark.parametrize(
    "row",
    [
        "conda activate e",
        "spack env activate e",
        "source $(conda info --base)/bin/activate e",
        'eval "$(micromamba shell hook -s bash)"',
        "conda list",
        "mamba --version",
        "conda env list",
    ],
)
def test_who_activates_or_shows_an_environment_is_no_program_to_name(row: str) -> None:
    """What is activated has words of its own, and nothing is missed of what is shown."""
    assert not _programs(_convert(_POD, row, "srun python a.py"))


def test_pods_that_make_one_environment_may_share_its_folder() -> None:
    """As those that install into one."""
    for row in ("conda create -y -p /data/e", "conda install -y scipy", "mamba env update -n e"):
        assert "mind what is shared" in _why(_convert(_PODS, row, "srun python a.py"), 3)
    assert "mind what" not in _why(_convert(_PODS, "conda activate e", "srun python a.py"), 3)


@pytest.mark.parametrize(
    ("row", "name", "is_there"),
    [
        ("conda create -y -n e python=3.12", "e", True),
        ('mamba env create --name "$E" -f a.yaml', "$E", True),
        ("conda create -y --prefix=./e", "./e", True),
        ("micromamba create -y -p $TMPDIR/e", "$TMPDIR/e", True),
        ("conda create -y -n other", "e", False),
        ("conda env remove -n e", "e", False),
        ("conda install -y -n e scipy", "e", False),
    ],
)
def test_an_environment_that_conda_makes_is_not_wanted_of_the_image(
    row: str, name: str, *, is_there: bool
) -> None:
    """What the script makes by a name is there where it activates that."""
    conversion = _convert(_POD, row, f"conda activate {name}", "srun python a.py")
    assert is_there != ("must be in the image" in _why(conversion, 4))


def test_what_runs_in_an_environment_needs_its_manager() -> None:
    """`conda run -n torch` is no activation, and ends in an image without conda."""
    conversion = _convert("#SBATCH -n 1", "conda run -n torch python a.py")
    assert any("conda (line 3)" in note for note in conversion.notes)


@pytest.mark.parametrize("runner", ["uv run", "poetry run", "conda run -n lab", "time uv run"])
def test_an_environment_in_front_of_srun_is_that_of_what_it_starts(runner: str) -> None:
    """Srun hands its own environment to its tasks."""
    row = f"A=1 {runner} srun python a.py"
    conversion = _convert("#SBATCH -N 2 --gpus-per-node=2 --ntasks-per-node=2", row)
    own = runner.removeprefix("time ")
    assert " ".join(conversion.values["command"]).endswith(f"{own} python a.py")
    assert conversion.values["env"]["A"] == "1"


@pytest.mark.parametrize(
    ("rows", "path", "is_own"),
    [
        (("export UV_PROJECT_ENVIRONMENT=/x/e", "uv sync"), '"$UV_PROJECT_ENVIRONMENT/bin', True),
        (("export UV_PROJECT_ENVIRONMENT=/x/e", "uv sync"), '"/x/e/bin', True),
        (("export UV_PROJECT_ENVIRONMENT=/x/e", "uv sync"), '".venv/bin', False),
        (("UV_PROJECT_ENVIRONMENT=e uv sync --quiet",), '"$PWD/e/bin', True),
        (("uv sync",), '".venv/bin', True),
        (("uv venv --seed",), '"${SLURM_SUBMIT_DIR}/.venv/bin', True),
        (("uv venv e",), '".venv/bin', False),
        (("uv pip install a",), '".venv/bin', False),
        (("uv sync",), '"$UV_PROJECT_ENVIRONMENT/bin', False),
        (("python -m venv e",), '"e/bin', True),
    ],
)
def test_what_the_script_makes_before_it_activates_it_is_not_wanted_of_the_image(
    rows: tuple[str, ...], path: str, *, is_own: bool
) -> None:
    """Where uv has the environment of a project, a variable says; also in a branch or a text."""
    source = f'source {path}/activate"'
    inner = source.replace('"', "").replace("$", "\\$")
    for row in (source, f"if [ -d a ]; then {source}; fi", f'srun bash -c "{inner}; python b.py"'):
        verdicts = _convert(_POD, *rows, row, "srun python a.py").verdicts
        assert is_own is not any("must be in the image" in own.why for own in verdicts), row


@pytest.mark.parametrize("row", ["deactivate", "conda deactivate", "source deactivate"])
@pytest.mark.parametrize("is_active", [True, False])
def test_a_last_line_that_deactivates_does_not_fail_a_good_run(
    row: str, *, is_active: bool
) -> None:
    """An image that has the programs outside any environment has nothing that deactivates one."""
    script = _convert(_POD, "source venv/bin/activate", "true", row).values["script"]
    body = script.partition("SLURM_STEPID\n")[2]
    own = 'conda() { echo "$@"; }; deactivate() { echo deactivate; }\n' if is_active else ""
    shell = subprocess.run(
        ["bash", "-c", own + body],
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert row in script
    if row != "source deactivate":
        assert (shell.returncode, shell.stdout) == (0, "deactivate\n" if is_active else "")
    assert is_active or shell.returncode == 0


@pytest.mark.parametrize(
    ("rows", "path", "why"),
    [
        (("uv sync", "uv run a.py"), "uv sync", "each pod makes"),
        (("srun uv run --frozen a.py",), "uv run", "each pod makes"),
        (("srun pixi run a",), "pixi run", "each pod makes"),
        (("poetry run python a.py",), "poetry run", "that poetry runs it in"),
        (("poetry install", "poetry run python a.py"), "poetry install", "each pod makes"),
        (("srun python3 -m pipenv run python a.py",), "pipenv run", "that pipenv runs it in"),
        (('CMD="uv run a.py"', "eval $CMD"), "uv run", "each pod makes"),
        (('CMD="uv run a.py"', "$CMD"), "uv run", "each pod makes"),
        (("eval uv run a.py $X",), "uv run", "each pod makes"),
        (('eval "uv run a.py"',), "uv run", "each pod makes"),
        (("cd /data/me", "uv run a.py"), "uv run", "that uv runs it in"),
        (("conda run -n a python a.py",), "conda run", "that conda runs it in"),
        (("conda create -n a -y pip", "conda run -n a python a.py"), "", ""),
        (("micromamba run -p /e python a.py",), "micromamba run", "that micromamba runs it in"),
        (("uv pip install a", "python a.py"), "", ""),
        (("echo uv run a.py", "python a.py"), "", ""),
    ],
)
def test_the_environment_in_which_a_manager_runs_a_program_is_named(
    rows: tuple[str, ...], path: str, why: str
) -> None:
    """It is no folder of the image's, and what its manager makes is made in each pod."""
    conversion = _convert(_POD, *rows)
    parts = ("the environment anew, from", "runs it in is one of")
    own = [v for v in conversion.verdicts if any(part in v.why for part in parts)]
    assert [verdict.path.removesuffix(" (2)") for verdict in own] == ([path] if path else [])
    assert all(why in verdict.why for verdict in own)
    is_module = "-m" in " ".join(rows)
    assert not path or is_module or f"{path.split(maxsplit=1)[0]} (line" in _programs(conversion)


@pytest.mark.parametrize("row", ["conda env update -f a.yml", "mamba update -y a"])
def test_what_changes_the_images_environment_is_named(row: str) -> None:
    """A pod is no root, and may not write there."""
    assert "install it when the image is made" in _why(_convert(_POD, row, "python a.py"), 3)


@pytest.mark.parametrize("row", ["eval conda run -n a python a.py", "eval 'conda run -n a ./a'"])
def test_a_program_that_an_eval_runs_in_an_environment_is_no_activation(row: str) -> None:
    """As setup its failure would be a success."""
    assert row in _convert(_POD, row).values["script"]
    activation = _convert(_POD, "eval conda activate a", "python a.py")
    assert "eval conda activate a" in activation.values["setup"]


def test_an_environment_that_a_line_makes_in_a_folder_is_made_in_each_pod() -> None:
    """As one of conda's is."""
    why = _why(_convert(_POD, "python -m venv env", "source env/bin/activate", "python a.py"), 3)
    assert "each pod makes the environment anew" in why


@pytest.mark.parametrize(
    ("rows", "line"),
    [
        (("PYTHON=python", "TOOL=venv", "$PYTHON -m $TOOL env", "source env/bin/activate"), 5),
        (("ENV=env", "python -m venv env", 'source "$ENV/bin/activate"'), 4),
        (("ENV=env", 'python3 -m venv "$ENV"', "source env/bin/activate"), 4),
        (("if [ ! -d env ]; then", "  python -m venv env", "fi", ". env/bin/activate"), 4),
        (("if true; then", "  virtualenv env", "  . env/bin/activate", "fi"), 4),
        (("[ -d env ] || python -m venv env", "source env/bin/activate"), 3),
    ],
)
def test_an_environment_that_the_script_makes_need_not_be_in_the_image(
    rows: tuple[str, ...], line: int
) -> None:
    """By whatever variables it is called, and in a condition as well."""
    conversion = _convert("#SBATCH -n 1 --gpus 2", *rows, "torchrun --nproc_per_node=2 a.py")
    anew = [own.line for own in conversion.verdicts if "makes the environment anew" in own.why]
    assert anew == [line]
    assert not [own for own in conversion.verdicts if "must be in the image" in own.why]


@pytest.mark.parametrize(("first", "ends"), [("set -e", True), ("true", False)])
def test_a_file_that_is_not_there_ends_setup_where_the_script_wants_that(
    first: str, *, ends: bool
) -> None:
    """An image with all that the file activates has not the file."""
    text = f"#!/bin/bash\n#SBATCH -n 1\n{first}\nsource .venv/bin/activate\npython a.py\n"
    verdicts = job.convert(text.encode(), "job").verdicts
    [why] = [own.why for own in verdicts if own.path == "source .venv/bin/activate"]
    assert ("setup ends there" in why) is ends
    goes_on = text.replace("bin/activate", "bin/activate || true")
    whys = [own.why for own in job.convert(goes_on.encode(), "job").verdicts]
    assert not any("setup ends there" in why for why in whys)
    later = text.replace(f"{first}\n", "").replace("python", f"{first}\npython")
    whys = [own.why for own in job.convert(later.encode(), "job").verdicts]
    assert not any("setup ends there" in why for why in whys)
    guarded = text.replace("source", "if [ -f .venv/bin/activate ]; then source").replace(
        "activate\npython", "activate; fi\npython"
    )
    whys = [own.why for own in job.convert(guarded.encode(), "job").verdicts]
    assert not any("setup ends there" in why for why in whys)
