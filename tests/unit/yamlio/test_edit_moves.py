"""Values that are replaced where they stand, and keys that are moved with their lines."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allranks.errors import InputError
from allranks.yamlio.dump import dump
from allranks.yamlio.edit import move_value, replace_value
from allranks.yamlio.load import load

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Path = tuple[str | int, ...]

TEXT = """\
# About the file.
a: 1   # one
b:  # two
  c: "x"   # three
  # before d
  d: [1, {e: yes}]  # four
list:
- 5 # five
- k: v   # six
text: |
  line
  # no comment
last: 'z'"""


@pytest.mark.parametrize(
    ("path", "value", "old", "new"),
    [
        (("a",), "1", "a: 1   # one", 'a: "1"   # one'),
        (("b", "c"), True, 'c: "x"   # three', "c: true   # three"),
        (("b", "d", 0), "1", "[1, {e: yes}]", '["1", {e: yes}]'),
        (("b", "d", 1, "e"), "yes", "{e: yes}", '{e: "yes"}'),
        (("b", "d"), [], "d: [1, {e: yes}]  # four", "d: []  # four"),
        (("list", 0), ["5"], "- 5 # five", '- ["5"] # five'),
        (("list", 1, "k"), {"x": 1}, "k: v   # six", "k: {x: 1}   # six"),
        (("last",), 3, "last: 'z'", "last: 3"),
    ],
)
@pytest.mark.parametrize("form", ["unix", "windows", "marked"])
def test_a_value_is_replaced_and_nothing_around_it(
    path: Path, value: Any, old: str, new: str, form: str
) -> None:
    """Not the blanks before its comment, not the ends of lines, not the mark in front."""
    ends = "\r\n" if form == "windows" else "\n"
    mark = "\ufeff" if form == "marked" else ""
    text = mark + TEXT.replace("\n", ends)
    assert text.replace(old, new) == replace_value(text, path, value)


@pytest.mark.parametrize(
    ("path", "target", "new"),
    [
        (("a",), ("z",), TEXT.replace("a: 1", "z: 1")),
        (("b", "d"), ("b", "on"), TEXT.replace("d: [", '"on": [')),
        (("list", 1, "k"), ("list", 1, "l"), TEXT.replace("- k: v", "- l: v")),
        (
            ("a",),
            ("b", "new", "a"),
            TEXT.replace("a: 1   # one\n", "").replace(
                "# four\n", "# four\n  new:\n    a: 1   # one\n"
            ),
        ),
        (
            ("b", "c"),
            ("c",),
            TEXT.replace('  c: "x"   # three\n', "") + '\nc: "x"   # three',
        ),
        (
            ("text",),
            ("b", "text"),
            TEXT.replace("text: |\n  line\n  # no comment\n", "").replace(
                "# four\n", "# four\n  text: |\n    line\n    # no comment\n"
            ),
        ),
        (
            ("last",),
            ("b", "x"),
            TEXT.replace("# four\n", "# four\n  x: 'z'\n").removesuffix("last: 'z'"),
        ),
    ],
)
def test_a_key_is_moved_with_its_lines(path: Path, target: Path, new: str) -> None:
    """Its comment goes with it; a key that only gets another name stays where it is."""
    assert new == move_value(TEXT, path, target)
    assert new.replace("\n", "\r\n") == move_value(TEXT.replace("\n", "\r\n"), path, target)


COMMENTS = """\
# About the file.
first: 1
# About nothing below.

# Why it is
#   tried again.
retries: # so often
  # at most
  3 # times
  # and no more
# About the end.
policy:
  # On the way.
  old: 1
  # Deeper down.
    # Still deeper.
  text: "a
  # no comment"
  lone:
    # Of its own.
    x: 1
"""


@pytest.mark.parametrize(
    ("path", "target", "cut", "added"),
    [
        (
            ("retries",),
            ("policy", "limit"),
            """\
# Why it is
#   tried again.
retries: # so often
  # at most
  3 # times
  # and no more
""",
            """\
  # Why it is
  #   tried again.
  limit: # so often
    # at most
    3 # times
    # and no more
""",
        ),
        (
            ("policy", "old"),
            ("new", "old"),
            "  # On the way.\n  old: 1\n",
            "new:\n  # On the way.\n  old: 1\n",
        ),
        (("first",), ("policy", "first"), "first: 1\n", "  first: 1\n"),
    ],
)
def test_the_comment_above_a_key_goes_with_it(
    path: Path, target: Path, cut: str, added: str
) -> None:
    """Right above it, in the same column; and below its value, further in. The file's own stays."""
    assert 1 == COMMENTS.count(cut)
    assert COMMENTS.replace(cut, "") + added == move_value(COMMENTS, path, target)


def test_what_only_looks_like_a_comment_stays() -> None:
    """A line of the text above, and a comment that the last key of a map leaves with it."""
    new = move_value(COMMENTS, ("policy", "lone"), ("lone",))
    assert '  text: "a\n  # no comment"\nlone:\n  # Of its own.\n  x: 1\n' in new
    new = move_value(COMMENTS, ("policy", "lone", "x"), ("x",))
    assert "  lone: {}\n# Of its own.\nx: 1\n" in new


JSON = """\
{
    "image": {"repository": "a/b", "tag": "1"},
    "retries": 3,
    "lr": "1e-5",
    "runPolicy": {
        "old_key": [
            1
        ]
    },
    "list": [{"k": "v"}, 1]
}
"""


@pytest.mark.parametrize(
    ("edit", "old", "new"),
    [
        (lambda t: replace_value(t, ("lr",), 1e-5), '"1e-5"', "1e-5"),
        (lambda t: replace_value(t, ("retries",), "3"), '"retries": 3', '"retries": "3"'),
        (lambda t: replace_value(t, ("list", 1), ["x", True]), "1]\n", '["x", true]]\n'),
        (
            lambda t: replace_value(t, ("image",), {"tag": "é"}),
            '{"repository": "a/b", "tag": "1"}',
            '{"tag": "é"}',
        ),
        (lambda t: move_value(t, ("retries",), ("tries",)), '"retries"', '"tries"'),
        (
            lambda t: move_value(t, ("retries",), ("runPolicy", "backoffLimit")),
            "        ]\n",
            '        ],\n        "backoffLimit": 3\n',
        ),
        (
            lambda t: move_value(t, ("retries",), ("a", "b", "c")),
            '"v"}, 1]\n',
            '"v"}, 1],\n    "a": {\n        "b": {\n            "c": 3\n        }\n    }\n',
        ),
        (
            lambda t: move_value(t, ("retries",), ("image", "limit")),
            '"tag": "1"}',
            '"tag": "1", "limit": 3}',
        ),
    ],
)
def test_json_stays_json(edit: Callable[[str], str], old: str, new: str) -> None:
    """In its own quotes, with its own indentation."""
    expected = JSON.replace(old, new)
    assert edit(JSON) in (expected, expected.replace('    "retries": 3,\n', ""))
    json.loads(edit(JSON))
    tabs = JSON.replace("    ", "\t")
    json.loads(edit(tabs))


def test_a_value_of_several_lines_is_moved_in_json() -> None:
    """Its lines keep their places to each other; a file on one line stays on one."""
    text = JSON.replace('        "old_key"', '        "z": 1,\n        "old_key"')
    moved = move_value(text, ("runPolicy", "old_key"), ("key",))
    assert moved.endswith('"list": [{"k": "v"}, 1],\n    "key": [\n        1\n    ]\n}\n')
    line = '{"retries":3,"runPolicy":{"x":1}}'
    assert '{"runPolicy":{"x":1, "limit": 3}}' == move_value(
        line, ("retries",), ("runPolicy", "limit")
    )
    assert '{"runPolicy":{"x":1}, "a": {"b": 3}}' == move_value(line, ("retries",), ("a", "b"))


@pytest.mark.parametrize(
    ("text", "value", "new"),
    [
        ("a: '1e-5' # x\n", 1e-5, "a: 1e-5 # x\n"),
        ('a: "3.0e-05"\n', 3e-5, "a: 3.0e-05\n"),
        ("a: '0x10'\n", 16, "a: 16\n"),
        ("a: 'x1' # y\n", "x2", "a: 'x2' # y\n"),
        ('a: "KAI"\n', "kai", 'a: "kai"\n'),
    ],
)
def test_a_value_keeps_its_digits_and_its_quotes(text: str, value: Any, new: str) -> None:
    """Nothing is respelled that need not be."""
    assert new == replace_value(text, ("a",), value)


def test_a_key_keeps_its_quotes() -> None:
    """Of either kind, also where it moves."""
    text = "\"a_b\": 1\n'c_d': 2\ne:\n  f: 1\n"
    new = move_value(move_value(text, ("a_b",), ("aB",)), ("c_d",), ("e", "cD"))
    assert "\"aB\": 1\ne:\n  f: 1\n  'cD': 2\n" == new


ALIASES = """\
base: &base
  k: 1
own:
  <<: *base
copy: *base
num: &num "2"
more: *num
block: >-
  folded
  text
flow: {x: 1}
only:
  # about the one
  one: 1
more2:
  # about no key

  two: 1
tab: 1
"""


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("copy",), 1, "the value comes from an alias"),
        (("copy", "k"), 2, "the value comes from an alias"),
        (("own", "k"), 2, "the value comes from a merge (<<)"),
        (("base", "k"), 2, "the change would alter more than one value"),
        (("num",), 2, "it has an anchor, &num, by which others repeat it"),
        (("more",), 2, "the value comes from an alias"),
        (("block",), "x", "the value is written over several lines"),
    ],
)
def test_a_value_that_is_not_the_files_own_is_not_replaced(
    path: Path, value: Any, message: str
) -> None:
    """An alias, a merge, an anchor: elsewhere something else would change, or nothing here."""
    with pytest.raises(InputError) as excinfo:
        replace_value(ALIASES, path, value)
    assert message == excinfo.value.problem.message


@pytest.mark.parametrize(
    ("path", "target", "message"),
    [
        (("own", "k"), ("own", "l"), "the value comes from a merge (<<)"),
        (("base", "k"), ("base", "l"), "the change would alter more than one value"),
        (("flow", "x"), ("x",), "the key does not begin a line"),
        (("tab",), ("flow", "tab"), "flow has no lines of its own to add one to"),
        (("tab",), ("copy", "tab"), "the value comes from an alias"),
        (("more2", "two"), ("two",), "a comment would be lost"),
    ],
)
def test_a_key_that_cannot_be_moved_alone_stays(path: Path, target: Path, message: str) -> None:
    """The text is refused as a whole, and the reason is given."""
    with pytest.raises(InputError) as excinfo:
        move_value(ALIASES, path, target)
    assert message == excinfo.value.problem.message


def test_a_file_of_two_kinds_of_lines_is_not_edited() -> None:
    """Its other lines would change as well."""
    with pytest.raises(InputError, match="as on Windows"):
        replace_value("a: 1\r\nb: 2\n", ("a",), 3)


_KEYS = st.sampled_from(["alpha", "beta", "gamma", "on", "1e5", "a.b", "ключ"])
_SCALARS = st.one_of(
    st.integers(-9, 99), st.booleans(), st.sampled_from(["x", "1", "yes", "", "a # b", "a: b"])
)
_DATA = st.dictionaries(
    _KEYS,
    st.recursive(
        _SCALARS,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3),
        max_leaves=8,
    ),
    min_size=1,
    max_size=5,
)


def yaml_lines(data: Any, pad: str, number: list[int]) -> list[str]:
    """The lines of a mapping, each with a comment of its own before or behind it."""
    lines: list[str] = []
    for key, value in data.items():
        number[0] += 1
        name = dump({key: 0}).removesuffix(": 0\n")
        if number[0] % 3 == 0:
            lines.append(f"{pad}# c{number[0]} before")
        if isinstance(value, dict) and value:
            lines.append(f"{pad}{name}:   # c{number[0]}")
            lines += yaml_lines(value, pad + "  ", number)
        elif (
            isinstance(value, list) and value and not any(isinstance(v, dict | list) for v in value)
        ):
            lines.append(f"{pad}{name}:")
            lines += [
                f"{pad}- {dump(item).strip()}  # c{number[0]}.{at}" for at, item in enumerate(value)
            ]
        else:
            lines.append(f"{pad}{name}: {json.dumps(value, ensure_ascii=False)}  # c{number[0]}")
    return lines


def leaves(data: Any, path: Path = ()) -> list[Path]:
    """The paths of all values but the root."""
    items = (
        data.items()
        if isinstance(data, dict)
        else enumerate(data)
        if isinstance(data, list)
        else ()
    )
    paths: list[Path] = [path] if path else []
    for key, item in items:
        paths += leaves(item, (*path, key))
    return paths


def put(data: Any, path: Path, value: Any) -> Any:
    """The data with another value at a path."""
    if not path:
        return value
    if isinstance(data, dict):
        return {k: put(v, path[1:], value) if k == path[0] else v for k, v in data.items()}
    return [put(v, path[1:], value) if at == path[0] else v for at, v in enumerate(data)]


def comments(text: str) -> list[str]:
    """All comments of a text that `written` made, in any order."""
    return sorted(re.findall(r"# c[0-9.]+(?: before)?", text))


def edited(edit: Callable[[], str], pattern: str) -> str | None:
    """The new text; None where it was refused for a reason that is expected."""
    try:
        return edit()
    except InputError as error:
        if not re.search(pattern, error.problem.message):
            raise
        return None


@given(data=_DATA, value=_SCALARS | st.lists(_SCALARS, max_size=2), index=st.integers(0, 10**6))
def test_any_value_can_be_replaced_and_the_rest_stays(
    data: Mapping[str, Any], value: Any, index: int
) -> None:
    """The same data but there, every comment still there; or it is refused for its many lines."""
    text = "\n".join(yaml_lines(data, "", [0])) + "\n"
    assert data == load(text, "x").data
    places = leaves(data)
    path = places[index % len(places)]
    new = edited(lambda: replace_value(text, path, value), "over several lines")
    if new is None:
        return
    assert put(data, path, value) == load(new, "x").data
    assert comments(text) == comments(new)
    assert text.count("\n") == new.count("\n")


@given(data=_DATA, index=st.integers(0, 10**6), deep=st.integers(0, 2))
def test_any_key_can_be_moved_and_the_rest_stays(
    data: dict[str, Any], index: int, deep: int
) -> None:
    """To the root or below a new parent: the same data there, every comment still there."""
    text = "\n".join(yaml_lines(data, "", [0])) + "\n"
    places = [path for path in leaves(data) if isinstance(path[-1], str)]
    path = places[index % len(places)]
    target: Path = (*("new", "below")[:deep], "moved")
    new = edited(lambda: move_value(text, path, target), "not begin a line|comment would be lost")
    if new is None:
        return
    value: Any = data
    for step in path:
        value = value[step]
    moved = load(new, "x").data
    there: Any = moved
    for step in target:
        there = there[step]
    assert value == there
    moved.pop(target[0])
    parent: Any = data
    for step in path[:-1]:
        parent = parent[step]
    del parent[path[-1]]
    assert data == moved
    assert comments(text) == comments(new)


@pytest.mark.parametrize("character", ["\x85", "\u2028"])
def test_a_line_that_ends_for_helm_alone_is_not_edited(character: str) -> None:
    """Where that is, and what to do about it, in place of a parser's own words."""
    with pytest.raises(InputError) as excinfo:
        replace_value(f"x: 1\na: b{character}c: d\n", ("x",), 3, "v.yaml")
    problem = excinfo.value.problem
    code = f"{ord(character):04x}"
    assert problem.message == (
        f"the character U+{code.upper()}, in column 5, ends a line for YAML, and for no editor"
    )
    assert ("v.yaml:2", True) == (problem.source, f"\\u{code}" in problem.hint)
