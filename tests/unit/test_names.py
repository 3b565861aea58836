"""A name is a noun of the domain; a verb in the past tense is none, nor is `one` or `what`.

Whoever reads `used` has to look up of what it is used, and whether it is an amount, a set or a yes;
`used_bytes` says it. The words are those that the house has read most and understood least.

Noun phrases that have such a word beside a noun are fine: `used_bytes`, `seconds_left`,
`one_line`. Not fine are those of which it is the head: `is_told`, `made_at`, `left_out`.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

REPO = Path(__file__).parents[2]
ROOTS = ("generator", "operator", "charts", "plugins", "tools", "examples", "tests")
WORDS = (
    "one each what given asked wanted found got had kept known left made said seen taken told used"
)
_VAGUE = re.compile(
    rf"_*((is|are|was|has)_)?({'|'.join(WORDS.split())})(_(apart|at|by|for|of|off|out|over|to|up))?_*",
    re.IGNORECASE,
)
_NAMED = (
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef),
    *(ast.ExceptHandler, ast.MatchAs, ast.MatchStar),
)
# A variable that a Go template makes: `$name :=`, `range $key, $value := ...`.
_DECLARED = re.compile(r"\$\w+(?:\s*,\s*\$\w+)?(?=\s*:=)")
# What a shell program names: functions, variables that are assigned, looped over, read or local.
# Ours have a prefix where a user's setup runs in the same shell.
_OF_SHELL = re.compile(
    r"""
    ^\s*(?P<function>\w+)\(\)
    | (?:^|[\s;(&|{"'])(?P<variable>[A-Za-z_]\w*)\+?=
    | \$\{(?P<default>\w+):?=
    | \bfor\s+(?P<loop>\w+)(?=\s+in\b|\s*;|\s+do\b|\s*$)
    | \b(?:read|local|export|readonly)\s+(?:-\w+\s+)*(?P<list>[A-Za-z_]\w*(?:[ \t]+[A-Za-z_]\w*)*)
    """,
    re.VERBOSE,
)
_SHELL_COMMENT = re.compile(r"(^|\s)#(\s|!|$).*")
_SHELL_PREFIX = "allranks_"
# By file and name, why it is right there.
EXCEPTIONS = {
    ("generator/allranks/schema/messages.py", "_one_of"): "of JSON Schema's own keyword, oneOf",
    ("generator/allranks/sweep/reporting/svg.py", "left"): "a side, beside right, top and bottom",
    ("generator/allranks/sweep/reporting/svg.py", "_LEFT"): "a side, beside right, top and bottom",
}


def _names(code: str) -> Iterator[tuple[int, str]]:
    """What a module names, with the line: variables, attributes, parameters, functions, classes."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr
        elif isinstance(node, _NAMED) and node.name:
            yield node.lineno, node.name
        elif isinstance(node, ast.alias) and node.asname:
            yield 0, node.asname


def _vague_names(code: str) -> list[tuple[int, str]]:
    return [(line, name) for line, name in _names(code) if _VAGUE.fullmatch(name)]


def _template_names(text: str) -> Iterator[tuple[int, str]]:
    """The variables that a Go template makes, with the line."""
    for number, line in enumerate(text.splitlines(), 1):
        for names in _DECLARED.findall(line):
            for name in re.findall(r"\w+", names):
                yield number, name


def _shell_names(text: str) -> Iterator[tuple[int, str]]:
    """What a shell program names, with the line, and without our prefix."""
    for number, line in enumerate(text.splitlines(), 1):
        for match in _OF_SHELL.finditer(_SHELL_COMMENT.sub("", line)):
            for names in match.groupdict().values():
                for name in (names or "").split():
                    yield number, name.removeprefix(_SHELL_PREFIX)


def _shell_programs() -> Iterator[Path]:
    """The scripts of the repository, each once, and what CI runs."""
    for root in ROOTS:
        for path in sorted((REPO / root).rglob("*.sh")):
            if not path.is_symlink() and path.is_file():
                yield path
    yield REPO / ".ci" / "run"


def _files() -> Iterator[str]:
    for root in ROOTS:
        for path in sorted((REPO / root).rglob("*.py")):
            file = path.relative_to(REPO).as_posix()
            if not path.is_symlink():
                yield file


def test_no_name_is_a_verb_in_the_past_tense() -> None:
    """In all that is ours: the package, the operator, what runs in pods, tools, examples, tests."""
    places = {
        (file, name): line
        for file in _files()
        for line, name in _vague_names((REPO / file).read_text(encoding="utf-8"))
    }
    assert [] == [
        f"{file}:{places[file, name]}: {name}" for file, name in places.keys() - EXCEPTIONS
    ]
    assert EXCEPTIONS.keys() <= places.keys(), "an exception that nothing needs any more"


def test_no_variable_of_a_template_is_a_verb_in_the_past_tense() -> None:
    """The charts' templates are read as often as the code."""
    templates = [
        path
        for path in sorted((REPO / "charts").glob("*/templates/**/*"))
        if path.suffix in {".tpl", ".yaml", ".txt"}
    ]
    assert templates
    assert [] == [
        f"{path.relative_to(REPO).as_posix()}:{line}: ${name}"
        for path in templates
        for line, name in _template_names(path.read_text(encoding="utf-8"))
        if _VAGUE.fullmatch(name)
    ]


def test_no_name_in_a_shell_program_is_a_verb_in_the_past_tense() -> None:
    """What runs in pods, the plugins, the tools and CI are held to the same rule."""
    programs = list(_shell_programs())
    assert len(programs) > len(ROOTS)
    assert [] == [
        f"{path.relative_to(REPO).as_posix()}:{line}: {name}"
        for path in programs
        for line, name in _shell_names(path.read_text(encoding="utf-8"))
        if _VAGUE.fullmatch(name)
    ]


def test_every_name_of_a_shell_program_is_read() -> None:
    """Functions, variables however they are set, and none of a comment."""
    words = {"found", "one", "each", "asked", "kept", "said", "left", "what", "given"}
    text = """
found() { local one=1 # two=2
  for each in a; do read -r asked _ <"$3"; done
  : "${kept:=4}"; allranks_said=5 allranks_left="$6"; IFS= read -ra what
  for given; do :; done
}
# told=7
"""
    names = {name for _, name in _shell_names(text)}
    assert words | {"_", "IFS"} == names


def test_every_variable_of_a_template_is_read() -> None:
    """A plain one, and both of a `range` or of an `if` within a line."""
    text = "{{- $one := dict }}\n{{ range $key, $each := . }}{{ if $used := 1 }}{{ $one.name }}"
    assert [(1, "one"), (2, "key"), (2, "each"), (2, "used")] == list(_template_names(text))


@pytest.mark.parametrize(
    "code",
    [
        "used = 1",
        "self._told = 1",
        "ONE: int = 1",
        "[each for each in ()]",
        "def found(): ...",
        "lambda what: 1",
        "import json as known",
        "is_told = True",
        "def was_made_by(): ...",
        "left_out = ()",
    ],
)
def test_a_vague_name_is_noticed(code: str) -> None:
    """However it comes about."""
    assert 1 == len(_vague_names(code))


@pytest.mark.parametrize(
    "code", ["used_bytes = 1", "seconds_left = 1", "one_line = 1", "print(used)"]
)
def test_a_noun_beside_such_a_word_is_fine(code: str) -> None:
    """Nor does it matter what others call theirs."""
    assert [] == _vague_names(code)
