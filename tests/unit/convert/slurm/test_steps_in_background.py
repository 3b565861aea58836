"""A step that a branch or a function starts with ``&``: the command of a pod waits for it."""

from __future__ import annotations

import pytest

from allranks.convert.slurm import job
from allranks.errors import InvalidValues

_JOB = "#SBATCH -N 2 --ntasks-per-node=4 --gpus-per-node=4"


@pytest.mark.parametrize(
    ("rows", "command"),
    [
        (("go() {", "  srun python a.py &", "}", "go"), "go() {\n  python a.py\n}\ngo"),
        (("go() { srun python a.py & }", "go &"), "go() { python a.py; }\ngo"),
        (("go() { ( srun python a.py ) & }", "go"), "go() { ( python a.py ); }\ngo"),
        (
            ("if [ -f b ]; then", "  srun python a.py >log & # c", "fi"),
            "if [ -f b ]; then\n  python a.py # c\nfi",
        ),
        (
            ("go() { srun python a.py; }", "if [ -f b ]; then go | tee c & fi"),
            "go() { python a.py; }\nif [ -f b ]; then go | tee c; fi",
        ),
    ],
)
def test_the_command_waits_for_what_it_starts(rows: tuple[str, ...], command: str) -> None:
    """It ended at once, and the run as if it had done its work."""
    text = "\n".join(("#!/bin/bash", _JOB, *rows, "wait", ""))
    conversion = job.convert(text.encode(), "job.sbatch")
    assert command == conversion.values["command"][2]
    assert "&" in [own.path for own in conversion.verdicts]


@pytest.mark.parametrize(
    "rows",
    [
        ("go() {", "  srun python a.py &", "  wait $!", "}", "go"),
        ("if [ -f b ]; then", "  srun python a.py &", "  wait", "fi"),
    ],
)
def test_what_waits_in_the_same_place_stays(rows: tuple[str, ...]) -> None:
    """The command has both."""
    text = "\n".join(("#!/bin/bash", _JOB, *rows, ""))
    conversion = job.convert(text.encode(), "job.sbatch")
    assert "python a.py &\n  wait" in conversion.values["command"][2]


@pytest.mark.parametrize(
    ("options", "is_of_each"),
    [
        ("$ARGS", True),
        ('$ARGS --nodes=1 --ntasks=1 -w "$head"', False),
        ("$ARGS -N1 -n 1", False),
    ],
)
def test_a_server_of_some_nodes_is_none_of_each_pod(options: str, *, is_of_each: bool) -> None:
    """Setup would start the head of a cluster in each of them."""
    directives, step = "#SBATCH -N 2 --ntasks-per-node=1 --gpus-per-node=2", "srun python train.py"
    server = f"srun {options} bash -c serve &"
    text = f"#!/bin/bash\n{directives}\n{server}\n{step}\n"
    with pytest.raises(InvalidValues) as caught:
        job.convert(text.encode(), "job.sbatch")
    hints = [problem.hint for problem in caught.value.problems]
    assert any("setup starts it in each pod" in hint for hint in hints) is is_of_each
