"""A shell script as statements: which commands run, and which of them exclude each other."""

from __future__ import annotations

import subprocess

import pytest

from allranks.convert.programs import scanner


def _commands(text: str) -> dict[str, scanner.Command]:
    return {
        command.name: command for statement in scanner.parse(text) for command in statement.commands
    }


def test_commands_of_different_branches_exclude_each_other() -> None:
    """Those before and behind an inner `if` run with it, and a condition with its branch."""
    commands = _commands(
        "if cond; then\n  if inner; then\n    one\n  else\n    two\n  fi\n  three\n"
        "elif more; then\n  four\nelse\n  five\nfi\nsix\n"
    )
    pairs = {
        frozenset({name, other})
        for name, command in commands.items()
        for other, that in commands.items()
        if command.excludes(that)
    }
    assert frozenset({"one", "two"}) in pairs
    assert {frozenset({name, "five"}) for name in ("one", "two", "three", "four")} <= pairs
    assert not {frozenset({"cond", "three"}), frozenset({"one", "three"})} & pairs
    assert not any("six" in pair for pair in pairs)


def test_the_branches_of_a_case_exclude_each_other() -> None:
    """Also where the last has no `;;`."""
    commands = _commands("case $A in\n  a) one; two ;;\n  b | c) three\nesac\nfour\n")
    assert commands["one"].excludes(commands["three"])
    assert not commands["one"].excludes(commands["two"])
    assert not commands["four"].branches


def test_a_function_of_a_test_alone_ends_with_its_brace() -> None:
    """It has no command, and what follows is a statement of its own."""
    statements = scanner.parse("function a() {\n  [[ -n $A ]]\n}\nb() { ((A)); }\nc\n")
    assert [statement.function for statement in statements] == ["a", "b", ""]


# What bash refuses, with the line that it names.
_BROKEN = (
    ("if true; then\nfi\n", 2),
    ("if true; then\n  # nothing\nelse\n  a\nfi\n", 3),
    ("if true\n  a\nfi\n", 3),
    ("while true; do\ndone\n", 2),
    ("while true\n  a\ndone\n", 3),
    ("for a in b; do done\n", 1),
    ("then a; fi\n", 1),
    ("for a in b; do c; do d; done\n", 1),
    ("a &&\n", 1),
    ("a |\n\n# b\n", 1),
    ("a\n&& b\n", 2),
    ("a\n| b\n", 2),
    ("a ;; b\n", 1),
    ("a && && b\n", 1),
    ("a; ; b\n", 1),
    ("a & ; b\n", 1),
    ("f() { }\n", 1),
    ("( )\n", 1),
    ("a >\nb\n", 1),
    ("a > | b\n", 1),
    ("echo a (b)\n", 1),
    ("echo a(b)\n", 1),
    ("A=1 (b)\n", 1),
    ("case a in\n  b) c ;;\n  d e) f ;;\nesac\n", 3),
    ("if a; then b; fi fi\n", 1),
    ("{ a; }; }\n", 1),
    ("if a; then b; else c; else d; fi\n", 1),
    ("if a; then b; else c; elif d; then e; fi\n", 1),
)
_SOUND = (
    "if a; then b; elif c; then d; else e; fi\nif a; then if b; then c; fi fi\n",
    "a &&\n\n  # more\n  b\na |\n b\n! a\ntime a\ntime\n",
    "case a in\n  b) ;;\n  (c | d) e ;;\n  *) f\nesac\ncase a in esac\n",
    "for a; do b; done\nfor ((i = 0; i < 2; i++)); do a; done\nfor a in b c\ndo\n  d\ndone\n",
    "f() { a; }\nfunction g { a; }\nfunction h()\n{\n  a\n}\ni() ( a )\n",
    "while read a; do b; done < <(c)\nuntil a; do b; done &\n{ a; } > b 2>&1\n(a; b) | c\n",
    "A=(1 2)\ndeclare -a B=(a b)\nC+=(c)\n[[ $a =~ (b|c) ]] && d\n((a < b)) || c\n",
    "a <<E\nif then fi\nE\na <<< b\na >&2\na &> b\na 2>&-\nselect a in b; do c; done\n",
    "echo if then fi done; echo a#b\nif (a); then b; fi\nif [ a ]; then b; fi; coproc a\n",
)


def _bash_reads(text: str) -> bool:
    return subprocess.run(["bash", "-n"], input=text.encode(), check=False).returncode == 0


@pytest.mark.parametrize(("text", "line"), _BROKEN)
def test_what_bash_cannot_read_is_refused_by_line(text: str, line: int) -> None:
    """The machine that converts may have no bash."""
    assert not _bash_reads(text)
    with pytest.raises(scanner.ScriptError) as excinfo:
        scanner.parse(text)
    assert line == excinfo.value.line


@pytest.mark.parametrize("text", _SOUND)
def test_what_bash_reads_is_read(text: str) -> None:
    """Each form of a list, a condition, a loop, a function and a redirection."""
    assert _bash_reads(text)
    assert scanner.parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "a=$(cat <<END\nit's (so\nEND\n)\n",
        "a=\"$(cat <<-'END' | tr a b\n\tit's \\\"so\n\tEND\n)\"\n",
        "one <(cat <<\\END\n`so\nEND\n)\n",
        "a=$(cat <<A; cat <<B\n'\nB\nA\n\"\nB\n)\n",
        "a=$(cat <<<'<<END' <<< b)\n",
        "a=$((1<<END))\nEND=1\n",
        "a=$(cat <<END\nso\nEND)\n",
    ],
)
def test_a_document_in_a_substitution_is_no_part_of_the_script(text: str) -> None:
    """A quote or a bracket in it closes nothing, and the command behind it is the next."""
    assert _bash_reads(text)
    assert [*_commands(f"{text}two\n")][-1] == "two"
    assert scanner.parse(f"{text}two\n")[-1].line == text.count("\n") + 1
