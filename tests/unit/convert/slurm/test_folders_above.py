"""Paths above the folder that is sent, which no pod has."""

from __future__ import annotations

import pytest

from allranks.convert.slurm import job


def _above(*rows: str) -> list[tuple[str, int]]:
    """What a script names above the folder that is sent, each with its line."""
    conversion = job.convert("\n".join(("#!/bin/bash", *rows, "")).encode(), "job.sbatch")
    why = "above the folder that is sent"
    return [(v.path, v.line) for v in conversion.lost if why in v.why]


@pytest.mark.parametrize(
    ("folder", "above", "path"),
    [
        ("HERE=$SLURM_SUBMIT_DIR", 'TOP="$(dirname "${HERE}")"', 'dirname "${HERE}"'),
        ('HERE="${SLURM_SUBMIT_DIR:-$(pwd)}"', "TOP=$(dirname $HERE)", "dirname $HERE"),
        ("HERE=$(pwd)", "TOP=$HERE/..", "$HERE/.."),
        ("HERE=$SLURM_SUBMIT_DIR", 'mkdir -p "${TOP:-$HERE/../out}"', "$HERE/../out"),
        ("HERE=a", "TOP=${OWN:-../out}", "../out"),
        ("HERE=a", 'TOP="${OWN:-$PWD/../out}"', "$PWD/../out"),
        ("HERE=a", "python ${OWN:-..}/main.py", ".."),
        ("HERE=a", "export TOP=${TOP:=../src/a.py}", "../src/a.py"),
        ('HERE="$(cd "$SLURM_SUBMIT_DIR" && pwd)"', 'TOP="$HERE/../data"', "$HERE/../data"),
        ("HERE=$SLURM_SUBMIT_DIR", ': "${TOP:="$HERE/../data"}"', "$HERE/../data"),
        ("A=$SLURM_SUBMIT_DIR; HERE=$A", "TOP=${HERE%/*}", "${SLURM_SUBMIT_DIR%/*}"),
    ],
)
def test_a_variable_may_be_the_folder_that_is_sent(folder: str, above: str, path: str) -> None:
    """A folder above it is named, however the script comes to it."""
    assert _above(folder, above, "python $TOP/train.py") == [(path, 3)]


@pytest.mark.parametrize(
    "rows",
    [
        ("cd /code", "HERE=$(pwd)", "TOP=$(dirname $HERE)"),
        ("HERE=$(pwd)", "HERE=/code", "TOP=$(dirname $HERE)"),
        ('HERE="${HERE:?set it, such as ../here}"',),
        ("HERE=$(pwd)", 'NAME="$(basename "$(dirname $HERE)")"'),
    ],
)
def test_another_folder_has_others_above_it(rows: tuple[str, ...]) -> None:
    """A variable that is a folder of the image, or a name alone, loses nothing."""
    assert _above(*rows, "python train.py $TOP") == []


def test_the_way_leads_to_the_highest_folder_of_a_command() -> None:
    """The first path is named, and the folder that all of them are below is to be sent."""
    row = "python ../a/train.py --config ../../src/c.yaml"
    text = f"#!/bin/bash\n#SBATCH -n 1\n{row}\n"
    (verdict,) = job.convert(text.encode(), "job").lost
    assert verdict.path.startswith("../a")
    assert "--workspace ../.." in verdict.why


def test_a_script_that_reads_its_folder_is_to_say_it_where_another_is_sent() -> None:
    """The variable is the folder that is sent, from which a `cd` goes on."""
    for row, is_named in (("cd $SLURM_SUBMIT_DIR", True), ("true", False)):
        text = f"#!/bin/bash\n#SBATCH -n 1\n{row}\npython ../a.py\n"
        (verdict,) = job.convert(text.encode(), "job").lost
        assert is_named is ("export SLURM_SUBMIT_DIR=$PWD" in verdict.why)


def test_what_runs_no_more_needs_no_folder() -> None:
    """The run is over when its ranks are, and so is the way to a folder behind them."""
    head = ("#SBATCH -N 1 --gpus=2",)
    assert not _above(*head, "torchrun --nproc_per_node 2 a.py", "cd ../other", "echo done")
    assert _above(*head, "cd ../other", "torchrun --nproc_per_node 2 a.py") == [("../other", 3)]


@pytest.mark.parametrize("folder", ["./", ".", "$PWD"])
def test_a_working_folder_may_be_the_one_that_is_sent(folder: str) -> None:
    """`--chdir ./` leads nowhere else."""
    assert _above(f"#SBATCH -D {folder}", "cd ../", "python a.py") == [("../", 3)]
    assert not _above("#SBATCH -D /data/x", "cd ../", "python a.py")


def test_a_folder_above_a_folder_above_needs_the_way_to_it() -> None:
    """`cd ../`, and `../data` behind it, are two levels."""
    text = "#!/bin/bash\ncd ../\npython a.py -f ../data/x\n"
    [verdict] = [own for own in job.convert(text.encode(), "a").lost if "above the" in own.why]
    assert (verdict.line, "`--workspace ../..`" in verdict.why) == (2, True)


@pytest.mark.parametrize("row", ["P=../../env/bin/python3; $P a.py", "source ../env/bin/activate"])
def test_an_environment_above_the_folder_is_to_be_in_the_image(row: str) -> None:
    """Who sends the folder above does not send it either: other words say so."""
    assert _above(row, "python a.py") == []
    assert _above("P=../../env/python/a.py; python $P") == [("../../env/python/a.py", 2)]


@pytest.mark.parametrize(
    ("folder", "top"),
    [("~/a/b", "~/a/c/x.py"), ("/home/me/a", "/home/me/c/x.py"), ("$HOME/a/", "$HOME/c/x.py")],
)
def test_a_folder_beside_that_of_a_cd_is_named(folder: str, top: str) -> None:
    """It is no part of the folder that is sent, nor of what the `cd` names."""
    text = f"#!/bin/bash\n#SBATCH -n 1\ncd {folder}\npython ../c/x.py\npython ../c/x.py\n"
    verdicts = job.convert(text.encode(), "a").verdicts
    [verdict] = [own for own in verdicts if own.path == "../c/x.py"]
    assert (verdict.line, f"it is {top} there" in verdict.why) == (4, True)


@pytest.mark.parametrize("row", ["cd $D", "cd sub", "if true; then cd ~/a; fi", "cd /tmp/a"])
def test_a_folder_beside_one_that_is_not_known_is_not_named(row: str) -> None:
    """What a variable is, and what the image or the script makes, no line says."""
    text = f"#!/bin/bash\n#SBATCH -n 1\n{row}\npython ../c/x.py\n"
    verdicts = job.convert(text.encode(), "a").verdicts
    assert not [own for own in verdicts if " there, which a pod has " in own.why]
