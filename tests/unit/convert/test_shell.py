from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from allranks.convert.programs import shell, shell_arguments

COMMANDS = [
    ("a b c", [("a b c", "", 0)]),
    ("a; b && c || d", [("a", ";", 0), ("b", "&&", 0), ("c", "||", 0), ("d", "", 0)]),
    ("a | b\nc &", [("a", "|", 0), ("b", "\n", 0), ("c", "&", 0)]),
    ("X=1 Y='a b' run -z", [("run -z", "", 0)]),
    ("run > log 2>&1 < in", [("run", "", 0)]),
    ("a \\\n  b # c d\ne", [("a b", "\n", 0), ("e", "", 0)]),
    ("if a; then b; fi; c", [("a", ";", 1), ("b", ";", 1), ("c", "", 0)]),
    ("(cd x && a); b", [("cd x", "&&", 1), ("a", "", 1), ("b", "", 0)]),
    ('echo "a; b" \'c | d\' "$(x; y)"', [('echo "a; b" \'c | d\' "$(x; y)"', "", 0)]),
    ("cat <<E\nx; y\nE\nb", [("cat", "\n", 0), ("b", "", 0)]),
]


@pytest.mark.parametrize(("text", "expected"), COMMANDS)
def test_commands(text: str, expected: list[tuple[str, str, int]]) -> None:
    """Each simple command is told with the operator behind it and how deep it stands."""
    commands = shell.parse(text)
    assert commands is not None
    assert expected == [
        (" ".join(word.text for word in command.words), command.after, command.depth)
        for command in commands
    ]


@pytest.mark.parametrize("text", ["'a", '"a', "a $(b", "if a; then b", "fi", "a )", "${x", "`a"])
def test_what_is_not_understood(text: str) -> None:
    """A quote or a compound command that is not closed is no shell text."""
    assert shell.parse(text) is None


WORDS = [
    ("a 'b c' \"d\"", ["a", "b c", "d"]),
    ("a\\ b", ["a b"]),
    ("a $B", None),
    ("a *.py", None),
    ("a {1,2}", None),
    ("a {x}", ["a", "{x}"]),
    ("a > b", None),
    ("X=1 a", None),
    ("a; b", None),
]


@pytest.mark.parametrize(("text", "expected"), WORDS)
def test_a_command_without_shell_is_its_words(text: str, expected: list[str] | None) -> None:
    """Words are told only where a shell would run the same."""
    assert expected == shell.split(text)


@example(["else", "a=1"])
@given(
    st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), min_size=1)
)
def test_quoted_words_are_read_back(words: list[str]) -> None:
    """What is quoted for a shell is the same words again."""
    assert words == shell.split(" ".join(map(shell.quote, words)))


@example("<a <")
@given(st.text("ab \n;&|()'\"$`\\<>#{}!=-[]", max_size=40))
def test_any_text_is_read_or_not(text: str) -> None:
    """No text raises, and what is read stands in the text."""
    commands = shell.parse(text) or []
    assert [] == [command for command in commands if not 0 <= command.start <= command.end]


@pytest.mark.parametrize(
    "flags",
    ["-c", "-cxue", "-Eeuc", "-euo pipefail -c", "-ceuo pipefail", "-c --", "--norc -c", "+o x -c"],
)
def test_flags_of_a_shell_before_its_text(flags: str) -> None:
    """The text stands behind all of them; `o` takes the next word, also among other letters."""
    words = ["/bin/bash", *flags.split(), "torchrun t.py", "a"]
    assert ("/bin/bash", "torchrun t.py", ("a",)) == shell_arguments.script_of(words)


def test_what_is_no_text_of_a_shell() -> None:
    """A file with arguments of its own, flags alone, and words like `-c` behind a file."""
    for line in "bash run.sh -c x", "bash -euo pipefail run.sh", "bash -c", "python -c x":
        assert shell_arguments.script_of(line.split()) is None
    assert "-lc" == shell_arguments.profile_flags(["bash", "-o", "pipefail", "-lc", "x"])
