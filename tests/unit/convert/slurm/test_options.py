"""The options of sbatch, srun and Pyxis, and the lines that they stand on."""

from __future__ import annotations

from pathlib import Path

import pytest

from allranks.convert.slurm import job, options
from allranks.convert.verdicts import Outcome
from allranks.errors import InvalidValues

MANUAL = Path(__file__).parents[3] / "data/convert/slurm/options.txt"
ROWS = [row.split() for row in MANUAL.read_text().splitlines() if not row.startswith("#")]


@pytest.mark.parametrize("program", ["sbatch", "srun", "pyxis"])
def test_every_option_of_the_manual_has_a_verdict(program: str) -> None:
    """What is said of each is carried, changed or not carried, the latter two with a reason."""
    names = {name for other, name in ROWS if other == program}
    assert not names - {option.name for option in options.of(program)}
    assert not [
        option.name
        for option in options.OPTIONS
        if option.outcome != Outcome.CARRIED and not option.why and not option.to
    ]


def test_no_two_options_of_a_program_have_one_name() -> None:
    """Neither a long name nor a letter stands for two."""
    for program in ("sbatch", "srun"):
        names = [option.name for option in options.of(program)]
        letters = [option.short for option in options.of(program) if option.short]
        assert len(names) == len(set(names))
        assert len(letters) == len(set(letters))


@pytest.mark.parametrize(
    ("line", "settings"),
    [
        ("#SBATCH --nodes=2", [("nodes", "2")]),
        ("#SBATCH --nodes 2", [("nodes", "2")]),
        ("#SBATCH -N2 -n 8 -t=1:00", [("nodes", "2"), ("ntasks", "8"), ("time", "1:00")]),
        ("#SBATCH\t-J 'two words' # why", [("job-name", "two words")]),
        ('#SBATCH --comment="a # b"', [("comment", "a # b")]),
        ("#SBATCH --exclusive --mem=0", [("exclusive", ""), ("mem", "0")]),
        ("#SBATCH --exclusive=user", [("exclusive", "user")]),
        ("#SBATCH -HQ", [("hold", ""), ("quiet", "")]),
        ("#SBATCH --ntasks-per-n 4", [("ntasks-per-node", "4")]),
        ("#SBATCH --cluster=gpu", [("clusters", "gpu")]),
        ("#SBATCH --our-plugin=1", [("our-plugin", "1")]),
        ("##SBATCH --nodes=2", []),
        ("# SBATCH --nodes=2", []),
        ("#SBATCHX --nodes=2", []),
    ],
)
def test_a_directive_is_read_as_sbatch_reads_it(line: str, settings: list[tuple[str, str]]) -> None:
    """Long and short forms, = and blanks, quotes, comments, abbreviations, several on one line."""
    directives = options.directives(["#!/bin/bash", line, "true"])
    assert settings == [(setting.name, setting.value) for setting in directives.settings]


def test_directives_end_at_the_first_command() -> None:
    """A later one is not read, and said; comments and empty lines do not end them."""
    directives = options.directives(
        ["#!/bin/bash", "#SBATCH -N 2", "", "# words", "  # more", "set -e", "#SBATCH -n 4"]
    )
    assert ["nodes"] == [setting.name for setting in directives.settings]
    assert ((7,), 6) == (directives.late, directives.first_command)


def test_words_that_are_no_option_are_said() -> None:
    """A word that stands alone ends what sbatch reads on its line."""
    directives = options.directives(["#!/bin/sh", "#SBATCH --nodes=1 gpu"])
    assert (("gpu", 2),) == directives.stray


@pytest.mark.parametrize(
    ("option", "near"), [("nods", "nodes"), ("ntask-per-node", "ntasks-per-node"), ("zzz", "")]
)
def test_an_unknown_option_is_asked_after(option: str, near: str) -> None:
    """It may as well be one of a plugin, and is lost."""
    text = f"#!/bin/bash\n#SBATCH --{option}=2\npython a.py\n"
    [verdict] = [own for own in job.convert(text.encode(), "a.sh").lost if option in own.path]
    assert (f"did you mean --{near}?" in verdict.why) is bool(near)
    assert near == options.nearest(option, "sbatch")


@pytest.mark.parametrize("tasks", ["5-0", "0-9:0", "0-99999999"])
def test_an_array_of_no_tasks_is_refused(tasks: str) -> None:
    """With --lossy it was a run whose script had no number of a task."""
    text = f"#!/bin/bash\n#SBATCH --array={tasks}\npython a.py $SLURM_ARRAY_TASK_ID\n"
    with pytest.raises(InvalidValues) as caught:
        job.convert(text.encode(), "a.sh", lossy=True)
    [problem] = caught.value.problems
    assert "is no list of up to" in problem.message
    assert "the least first" in problem.hint


@pytest.mark.parametrize("option", ["-A <project_name>", "--qos=<your qos>", '--wckey="<key>"'])
def test_a_blank_for_a_person_is_named_and_no_label(option: str) -> None:
    """The label had the words of the blank."""
    text = f"#!/bin/bash\n#SBATCH -n 1\n#SBATCH {option}\npython a.py\n"
    conversion = job.convert(text.encode(), "job.sbatch")
    assert any(own.why.startswith("fill in what stands for <") for own in conversion.lost)
    assert "labels" not in conversion.values


def test_an_option_has_its_value_in_the_line_behind() -> None:
    """Sbatch reads the words of all lines as those of one: ``#SBATCH -p``, ``#SBATCH gpu``."""
    for option in ("-p", "--partition"):
        parsed = options.directives(["#!/bin/sh", f"#SBATCH -N 2 {option}", "", "#SBATCH gpu -n 4"])
        pairs = [(own.name, own.value, own.line) for own in parsed.settings]
        assert pairs == [("nodes", "2", 2), ("partition", "gpu", 2), ("ntasks", "4", 4)]
        assert not parsed.stray
    parsed = options.directives(
        ["#SBATCH --partition=", "#SBATCH gpu", "#SBATCH -p", "#SBATCH -n 4"]
    )
    assert parsed.stray == (("gpu", 2),)
    assert [own.value for own in parsed.settings] == ["", "", "4"]


def test_a_directive_of_another_system_is_named_as_its_own() -> None:
    """Grid Engine's and LSF's were called PBS'."""
    rows = ("#SBATCH -n 1", "#PBS -l x", "#$ -N a", "#BSUB -n 4", "python a.py")
    conversion = job.convert("\n".join(("#!/bin/bash", *rows, "")).encode(), "job.sbatch")
    named = {verdict.path: verdict.why.split(":")[0] for verdict in conversion.lost}
    assert named == {
        sign: f"it is a directive of {system}"
        for sign, system in (("#PBS", "PBS"), ("#$", "Grid Engine"), ("#BSUB", "LSF"))
    }


@pytest.mark.parametrize("step", ["python a.py", "srun --input=/dev/null python a.py"])
def test_no_input_is_what_a_pod_has(step: str) -> None:
    """It changes nothing, and was called a loss."""
    text = f"#!/bin/bash\n#SBATCH -n 2 --input=/dev/null\n{step}\n"
    assert not job.convert(text.encode(), "job.sbatch").lost
    read = job.convert(text.replace("/dev/null", "a.txt").encode(), "job.sbatch")
    assert "standard input" in read.lost[0].why


def test_a_script_of_a_shell_that_is_not_read_needs_it_in_the_image() -> None:
    """Its own commands are no programs that an image could lack."""
    text = "#!/bin/tcsh -f\n#SBATCH -n 1\nsetenv A 1\npython a.py\n"
    notes = job.convert(text.encode(), "job.sbatch").notes
    assert "the script is tcsh's: the image needs it" in notes
    assert not [note for note in notes if "setenv" in note]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--image", "BAD IMG"], "--image: 'BAD IMG' is no name of an image, such as ghcr.io"),
        (["-N", "foo"], "--nodes: 'foo' is not a number of nodes up to 100,000"),
        (["-t", "xx"], "--time: 'xx' is no time such as 90, 12:00:00 or 2-12"),
        (["--signal=B:TERM@99999"], "--signal: 'B:TERM@99999' is more than the 65535 seconds"),
    ],
)
def test_an_option_that_is_typed_and_none_of_its_form_is_refused(
    words: list[str], problem: str
) -> None:
    """Who types it sees at once that it is none; of a script it is a verdict with its line."""
    script = b"#!/bin/bash\n#SBATCH --nodes=2\nsrun python t.py\n"
    with pytest.raises(InvalidValues) as refused:
        job.convert(script, "a.sh", words=words)
    assert str(refused.value.problems[0]).startswith(problem)
    option, _, text = words[0].partition("=")
    row = f"#SBATCH {option} {text or words[1]!r}\n".replace("'", '"')
    converted = job.convert(script.replace(b"#SBATCH --nodes=2\n", row.encode()), "a.sh")
    assert [2] == [verdict.line for verdict in converted.lost]


def test_a_signal_for_the_script_alone_is_noted_to_reach_its_programs() -> None:
    """A pod that is told to end tells them all."""
    for text, is_noted in (("B:TERM@120", True), ("TERM@120", False)):
        script = f"#!/bin/bash\n#SBATCH -N 1 --time=60 --signal={text}\npython a.py\n"
        whys = [own.why for own in job.convert(script.encode(), "a.sh").verdicts]
        assert is_noted == any("`B:` had the script alone told" in why for why in whys)
