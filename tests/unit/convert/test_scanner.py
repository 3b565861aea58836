"""A shell script as statements: which commands run, and which of them exclude each other."""

from __future__ import annotations

from allranks.convert import scanner


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
