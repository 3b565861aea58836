"""Whatever stands in a batch script, it becomes valid values or is refused with its line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from allranks.convert.chart_values import finish
from allranks.convert.programs import scanner
from allranks.convert.slurm import job, options
from allranks.convert.slurm.batch_script.text import here_documents
from allranks.errors import InputError

if TYPE_CHECKING:
    from allranks.convert.verdicts import Conversion

SAMPLES = Path(__file__).parents[3] / "data/convert/slurm"
TEXTS = [path.read_text() for path in sorted(SAMPLES.glob("*.sbatch"))]
VALUES = (
    *("", "0", "1", "3", "64", "99999999", "4G", "gpu:a100:4", "0-9%2", "a,b", "x y", "1-2"),
    *("$X", "%j", "é"),
)
PIECES = (
    *("'", '"', "`", "$(", "${", "((", "[[", "{", "}", ")", ";", "&", "&&", "|", "#", "<<E\n"),
    *("srun ", "torchrun ", "mpirun ", "for i in 1; do ", "done", "if true; then ", "fi"),
    *("case x in ", "esac", "$(hostname)", "${A[@]}", "$SLURM_PROCID", "$1", "\0", "\r\n", "\t"),
    *("é", "function f", "() ", "\\\n", "\n"),
)


@st.composite
def scripts(draw: st.DrawFn) -> str:
    """A sample with options and pieces of shell put in, taken out, or twice."""
    rows = draw(st.sampled_from(TEXTS)).split("\n")
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(rows) - 1))
        kind = draw(st.sampled_from(("option", "drop", "twice", "piece", "cut")))
        if kind == "option":
            option = draw(st.sampled_from(options.OPTIONS))
            rows.insert(at, f"#SBATCH --{option.name}={draw(st.sampled_from(VALUES))}")
        elif kind == "drop" and len(rows) > 1:
            del rows[at]
        elif kind == "twice":
            rows.insert(at, rows[at])
        elif kind == "piece":
            place = draw(st.integers(0, len(rows[at])))
            rows[at] = rows[at][:place] + draw(st.sampled_from(PIECES)) + rows[at][place:]
        else:
            rows[at] = rows[at][: draw(st.integers(0, len(rows[at])))]
    return "\n".join(rows)


def _converted(data: bytes) -> Conversion | None:
    """A script as values; None where it is refused, which names what to do."""
    refusals: list[InputError] = []
    try:
        return job.convert(data, "job.sbatch")
    except InputError as error:
        refusals.append(error)
    assert refusals[0].problem.hint
    return None


def _check(conversion: Conversion) -> None:
    chart = conversion.values["workload"]
    assert not finish.problems_of(conversion.values, chart, conversion.name)
    assert all(verdict.why != "no dialect has such a field" for verdict in conversion.verdicts)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(text=scripts())
def test_a_changed_script_is_valid_values_or_refused(text: str) -> None:
    """No error but one that names a line, and no values that the chart refuses."""
    conversion = _converted(text.encode())
    if conversion is not None:
        _check(conversion)
        _check_lines(text, conversion)


def _check_lines(text: str, conversion: Conversion) -> None:
    """Every directive and every statement has a verdict with its line, none of here-documents."""
    rows = text.replace("\r\n", "\n").split("\n")
    lines_with_verdict = {verdict.line for verdict in conversion.verdicts}
    directives = options.directives(rows)
    assert {setting.line for setting in directives.settings} <= lines_with_verdict
    whole = "\n".join(rows)
    of_other_jobs = here_documents.lines(whole) | here_documents.lines_in_quotes(whole)
    assert {*directives.late} - of_other_jobs <= lines_with_verdict
    if "--wrap" in {verdict.path for verdict in conversion.verdicts} or rows[0] != "#!/bin/bash":
        return
    for statement in scanner.parse("\n".join(rows).replace("\r", "").replace("\0", "\ufffd")):
        lines = set(range(statement.line, statement.last_line + 1))
        assert lines & lines_with_verdict, f"nothing is said of line {statement.line}"


@settings(max_examples=40, deadline=None)
@given(data=st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_no_bytes_break_the_converter(data: bytes) -> None:
    """What is no script is refused, or run as what it is."""
    conversion = _converted(b"#!/bin/bash\n" + data)
    if conversion is not None:
        _check(conversion)


@settings(max_examples=100, deadline=None)
@given(text=scripts())
def test_statements_are_a_script_in_order(text: str) -> None:
    """Statements do not overlap, each is in the text, and what is between them is no command."""
    text = re.sub(r"\r", "", text)
    lines: list[int] = []
    parsed: list[scanner.Statement] = []
    try:
        parsed = scanner.parse(text)
    except scanner.ScriptError as error:
        lines.append(error.line)
    assert all(1 <= line <= text.count("\n") + 1 for line in lines)
    end = 0
    for statement in parsed:
        assert end <= statement.start < statement.end <= len(text)
        assert statement.line == text.count("\n", 0, statement.start) + 1
        end = statement.end
