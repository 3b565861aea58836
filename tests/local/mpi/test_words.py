"""What the launcher of an MPI job runs: where rank.sh stands among the words of an mpirun."""

from __future__ import annotations

import shlex
import subprocess

import pytest

from .pods import REPO

pytestmark = pytest.mark.local

_FILES = REPO / "charts" / "mpi" / "files"
_PROGRAM = """
allranks_say() { printf 'says: %s\\n' "$1" >&2; }
print() { for word; do printf '%s\\0' "$word"; done; printf 'tolerant=%s' "$allranks_is_tolerant"; }
ALLRANKS_FILES=/etc/allranks allranks_is_tolerant=
. "$1"
shift
allranks_with_words print "$@"
"""
_RANK = "/bin/sh /etc/allranks/rank.sh"
_SHELLS = (["dash"], ["bash", "--posix"], ["busybox", "sh"])
_in_each_shell = pytest.mark.parametrize("shell", _SHELLS, ids=" ".join)


def _words(shell: list[str], *args: str, **env: str) -> tuple[list[str], bool, str]:
    """The words that are run, whether ranks may be missing, and what is said about it."""
    process = subprocess.run(
        [*shell, "-c", _PROGRAM, "sh", _FILES / "mpirun.sh", *args],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", **env},
        timeout=60,
    )
    *words, tolerant = process.stdout.split("\0")
    return words, tolerant == "tolerant=yes", process.stderr


@_in_each_shell
def test_mpirun_before_a_command(shell: list[str]) -> None:
    """Its options, rank.sh, and then the command, word for word."""
    args = ("2", "--map-by", "node", "python", "a b", "", "*", "-np")
    words, _, _ = _words(shell, *args, ALLRANKS_MPI_WRAP="1", ALLRANKS_MPI_NP="4")
    before = ["mpirun", "-np", "4", "--map-by", "node", *_RANK.split()]
    assert [*before, "python", "a b", "", "*", "-np"] == words


@_in_each_shell
@pytest.mark.parametrize(
    "words",
    [
        "mpirun -np 4 --map-by node --mca btl ^openib -x A=b -x PATH / python -u train.py -np 2",
        "/opt/mpi/bin/mpirun --bind-to none --allow-run-as-root / ./train",
        "mpiexec.hydra -genv A b -genvall -ppn 2 -n 4 -prepend-rank / python train.py --mca a b",
        "mpiexec -n 2 -hosts=a,b / python : -n 2 -env A b / sh -c x : / last",
        "prterun -N 2 --output tag / train",
        "mpirun / train",
    ],
)
def test_an_mpirun_of_the_users_own(shell: list[str], words: str) -> None:
    """rank.sh stands before each program (at the slashes); every other word stays as it is."""
    own = shlex.split(words.replace("/ ", ""))
    expected = shlex.split(words.replace("/ ", f"{_RANK} "))
    assert (expected, False, "") == _words(shell, "0", *own)


@_in_each_shell
@pytest.mark.parametrize(
    "words",
    [
        f"mpirun -np 4 {_RANK} python train.py",
        "mpirun --version",
        "mpirun -np",
        "srun -n 4 python train.py",
        "horovodrun -np 4 python train.py",
    ],
)
def test_what_has_no_program_or_has_rank_sh_stays(shell: list[str], words: str) -> None:
    """Nothing is put in, and rank.sh not twice."""
    assert words.split() == _words(shell, "0", *words.split())[0]


@_in_each_shell
def test_an_option_that_is_not_known_leaves_all_as_it_is(shell: list[str]) -> None:
    """Its arguments cannot be told from a program, which is said."""
    own = ["mpirun", "-np", "4", "--new-option", "python", "train.py"]
    words, _, note = _words(shell, "0", *own)
    assert own == words
    assert note.startswith("says: what mpirun makes of --new-option is not known here")


@_in_each_shell
def test_an_option_that_lets_a_job_go_on(shell: list[str]) -> None:
    """Before the program of the user's own mpirun as in mpi.mpirunArgs."""
    own = ("mpiexec", "-disable-auto-cleanup", "-n", "2", "train")
    assert _words(shell, "0", *own)[1]
    args = ("1", "-disable-auto-cleanup", "train")
    assert _words(shell, *args, ALLRANKS_MPI_WRAP="1", ALLRANKS_MPI_NP="4")[1]
    args = ("0", "train", "-disable-auto-cleanup")
    assert not _words(shell, *args, ALLRANKS_MPI_WRAP="1", ALLRANKS_MPI_NP="4")[1]
