"""Shells of a login within a script: their profile would take the image's PATH from a program."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from allranks.convert.slurm import job

if TYPE_CHECKING:
    from allranks.convert.verdicts import Conversion

_TASKS = "#SBATCH -N 2 --ntasks-per-node=4"
_WHY = "a pod has no login"


def _convert(*rows: str) -> Conversion:
    return job.convert("\n".join(("#!/bin/bash", *rows, "")).encode(), "job.sbatch")


def _named(conversion: Conversion) -> list[str]:
    return [verdict.path for verdict in conversion.verdicts if _WHY in verdict.why]


@pytest.mark.parametrize(
    ("row", "plain", "shell"),
    [
        ('bash -lc "python a.py"', 'bash -c "python a.py"', "bash -lc"),
        ('bash --login -c "python a.py"', 'bash -c "python a.py"', "bash --login"),
        ('bash -l -c "python a.py"', 'bash -c "python a.py"', "bash -l"),
        ('/bin/bash -elc "python a.py"', '/bin/bash -ec "python a.py"', "/bin/bash -elc"),
        ("env A=1 bash -l run.sh", "env A=1 bash run.sh", "bash -l"),
        (
            'bash -o pipefail -lc "python a.py"',
            'bash -o pipefail -c "python a.py"',
            "bash -lc",
        ),
        (
            'for a in 1 2; do bash -lc "python a.py"; done',
            'for a in 1 2; do bash -c "python a.py"; done',
            "bash -lc",
        ),
    ],
)
def test_a_shell_of_a_login_becomes_a_plain_one(row: str, plain: str, shell: str) -> None:
    """Debian's /etc/profile sets PATH anew, without the folder of the image's Python."""
    conversion = _convert("#SBATCH --gpus=1", row)
    assert plain in conversion.values["script"].split("\n")
    assert _named(conversion) == [shell]


@pytest.mark.parametrize("flags", ["-lc", "--login -c", "-l -c"])
def test_ranks_have_no_login(flags: str) -> None:
    """The program of each rank is started without a shell, and the report says what is gone."""
    conversion = _convert(_TASKS, f"srun bash {flags} 'python a.py'")
    assert conversion.values["command"] == ["python", "a.py"]
    assert _named(conversion) == [f"bash {flags.split(maxsplit=1)[0]}"]


def test_a_shell_of_a_login_in_a_group_is_named_once() -> None:
    """A group at the step is opened, and the script read again."""
    rows = ("time {", "srun bash -lc 'python a.py'", "} 2>&1 | tee log")
    assert _named(_convert(_TASKS, *rows)) == ["bash -lc"]


@pytest.mark.parametrize(
    "row",
    [
        'singularity exec docker://a/b:1 bash -lc "python a.py"',
        'echo bash -l "python a.py"; python a.py',
        'bash --noprofile -c "python a.py"',
        "bash -c 'python a.py' -l",
        "bash run.sh -l",
    ],
)
def test_other_shells_are_as_they_were(row: str) -> None:
    """In a container the profile was that of the image, and words behind a text are its own."""
    conversion = _convert("#SBATCH --gpus=1", row)
    assert row.removeprefix("singularity exec docker://a/b:1 ") in conversion.values["script"]
    assert not _named(conversion)


def test_a_shell_of_a_terminal_reads_no_file_behind_setup() -> None:
    """`#!/bin/bash -i` would read ~/.bashrc after what setup has activated."""
    for own, plain in (("#!/bin/bash -i", "#!/bin/bash"), ("#!/bin/bash -ei", "#!/bin/bash -e")):
        text = f"{own}\n#SBATCH -n 1\nconda activate a\npython a.py\n"
        conversion = job.convert(text.encode(), "job.sbatch")
        assert conversion.values["script"].split("\n")[0] == plain
        assert any("a pod has no terminal" in verdict.why for verdict in conversion.verdicts)
        ranks = text.replace("-n 1", "-N 2 --gpus-per-node=4").replace("python", "srun python")
        verdicts = job.convert(ranks.encode(), "job.sbatch").verdicts
        assert any("a pod has no terminal" in verdict.why for verdict in verdicts)
    login = job.convert(b"#!/bin/bash -login\n#SBATCH -n 1\npython a.py\n", "job.sbatch").verdicts
    assert not any("a pod has no terminal" in verdict.why for verdict in login)


@pytest.mark.parametrize(("flags", "is_noted"), [("-lc", True), ("-c", False)])
def test_the_profile_of_a_container_is_said_to_be_unread(flags: str, *, is_noted: bool) -> None:
    """The text of its shell becomes the command of the ranks, which have no shell of a login."""
    row = f"srun singularity exec docker://a/b:1 bash {flags} 'torchrun --nproc_per_node=4 a.py'"
    text = f"#!/bin/bash\n#SBATCH -N 1 --gpus=4\n{row}\n"
    notes = job.convert(text.encode(), "job").notes
    assert any("read the profile of its container" in note for note in notes) is is_noted
