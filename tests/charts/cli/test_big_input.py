"""Much input: a short answer, the number of what is left out, and work that does not explode."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from allranks.cli.main import main
from allranks.schema import messages
from allranks.yamlio.load import MAX_BYTES, MAX_VALUES

if TYPE_CHECKING:
    from pathlib import Path

BASE = "workload: torchrun\nimage: {repository: a/b}\ncommand: [x]\n"


@pytest.fixture
def validate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> Any:
    """Judges a text; gives the exit code, standard output and standard error."""
    monkeypatch.chdir(tmp_path)

    def call(text: str, *flags: str) -> tuple[int, str, str]:
        (tmp_path / "v.yaml").write_text(BASE + text, encoding="utf-8")
        code = main(["validate", "-f", "v.yaml", *flags])
        output = capsys.readouterr()
        return code, output.out, output.err

    return call


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("args: [" + "1," * 8000 + "]", "8,000 problems: these, and 7,900 more"),
        ("env:\n" + "".join(f"  K{i}: 1\n" for i in range(5000)), "5,000 problems: these, and"),
        ("".join(f"k{i}: 1\n" for i in range(5000)), "5,000 problems: these, and 4,900 more"),
        ("args:\n" + "- 99999999999999999999\n" * 500, "500 problems: these, and 400 more"),
        ("envFrom: [" + "{}," * 5000 + "]", "at least 800 problems: these, and 700 more"),
        ("args: [1, 2]", "2 problems"),
    ],
)
def test_a_hundred_problems_and_how_many_more(validate: Any, text: str, count: str) -> None:
    """Nobody reads eight thousand; their number is said, and each of the first has its fix."""
    code, _, message = validate(text)
    assert 2 == code
    assert message.splitlines()[-1].startswith(count)
    assert (
        message.count("error: ") == message.count("\n  fix: ") == min(100, message.count("error: "))
    )


def test_a_sweep_counts_its_problems_too(validate: Any) -> None:
    """Choices that are given twice are counted like all else."""
    choices = "1," * 3000
    text = f"sweep: {{parameters: {{a: {{arg: -a, values: [{choices}]}}}}}}"
    code, _, message = validate(text, "--set", "workload=sweep")
    assert (2, "2,999 problems: these, and 2,899 more") == (code, message.splitlines()[-1])


def test_json_has_the_number_too(validate: Any) -> None:
    """`moreProblems` is there where problems are left out, and only there."""
    _, out, _ = validate("args: [" + "1," * 300 + "]", "-o", "json")
    report = json.loads(out)
    assert (100, 200) == (len(report["problems"]), report["moreProblems"])
    assert "moreProblems" not in json.loads(validate("args: [1]", "-o", "json")[1])


def test_work_grows_with_what_is_told(validate: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten times as many problems are worded no more often: words are what costs."""
    calls = []
    plain = messages.explain

    def counted(*args: Any) -> Any:
        calls.append(1)
        return plain(*args)

    monkeypatch.setattr(messages, "explain", counted)
    validate("args: [" + "1," * 1000 + "]")
    few = len(calls)
    calls.clear()
    validate("args: [" + "1," * 10000 + "]")
    assert few == len(calls) == 400


@pytest.mark.parametrize(
    ("text", "flags", "says"),
    [
        ("args: " + "[" * 5000 + "]" * 5000, [], "nested deeper than 200 levels"),
        ("podTemplate: " + "{a: " * 5000 + "1" + "}" * 5000, [], "nested deeper than 200"),
        ("", ["--set", "args" + "[0]" * 2000 + "=1"], "nested deeper than 200 levels"),
        ("", ["--set", "a" + "[0].b" * 2000 + "=1"], "nested deeper than 200 levels"),
        ("", ["--set", "a" + ".a" * 2000 + "=1"], "nested deeper than 30 levels"),
        ("", ["--set-json", "args=" + "[" * 500 + "]" * 500], "nested deeper than 200 levels"),
        ("", ["--set-json", '{"a": ' * 500 + "1" + "}" * 500], "nested deeper than 200 levels"),
        ("", ["--set-json", "args=" + "[" * 9000 + "]" * 9000], "not JSON: "),
        ("args: [" + "a," * MAX_VALUES + "]", [], f"more than {MAX_VALUES:,} values"),
        ("script: " + "a" * MAX_BYTES, [], "values of at most 4 MiB are read"),
        ("a: 1\n---\n" * 5000, [], "several YAML documents"),
        (
            "x0: &x0 [a,a,a,a,a,a,a,a,a]\n"
            + "".join(f"x{i}: &x{i} [{f'*x{i - 1},' * 9}]\n" for i in range(1, 12)),
            [],
            "aliases repeat more than",
        ),
    ],
)
def test_what_is_too_much_is_refused(validate: Any, text: str, flags: list[str], says: str) -> None:
    """Depth, size and repetition have an end, with an error of ours and never a crash."""
    code, _, message = validate(text, *flags)
    assert (2, True) == (code, says in message), message[-300:]
    assert len(message) < 2000
