from __future__ import annotations

import copy
import difflib
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allranks.errors import InputError
from allranks.yamlio.edit import set_value
from allranks.yamlio.load import load

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TEXT = """\
# About the file.

workload: torchrun  # which chart
image:   # the image
  repository: my/trainer
  tag: "1.4"   # quoted

# About the arguments.
args:
  - --lr   # the rate
  - "1e-5"
env: {A: "1", B: "2"}
gpus: 8

# About the script.
script: |
  line 1
  # no comment

  line 2

last:
# At the end.
"""

SETS: list[tuple[tuple[str | int, ...], Any, list[str]]] = [
    (("gpus",), 16, ["-gpus: 8", "+gpus: 16"]),
    (("gpus",), "8", ["-gpus: 8", '+gpus: "8"']),
    (
        ("workload",),
        "mpi",
        ["-workload: torchrun  # which chart", "+workload: mpi  # which chart"],
    ),
    (("image", "tag"), "2", ['-  tag: "1.4"   # quoted', '+  tag: "2"  # quoted']),
    (("image", "digest"), "sha256:x", ["+  digest: sha256:x"]),
    (
        ("image",),
        "x",
        [
            "-image:   # the image",
            "-  repository: my/trainer",
            '-  tag: "1.4"   # quoted',
            "+image: x  # the image",
        ],
    ),
    (("args", 0), "--rate", ["-  - --lr   # the rate", '+  - "--rate"  # the rate']),
    (("args", 2), "y", ['+  - "y"']),
    (("args", 2), {"a": [1], "b": 2}, ["+  - a:", "+    - 1", "+    b: 2"]),
    (("env", "B"), "y", ['-env: {A: "1", B: "2"}', '+env: {A: "1", B: "y"}']),
    (("env", "C"), "a\nb", ['-env: {A: "1", B: "2"}', '+env: {A: "1", B: "2", C: "a\\nb"}']),
    (("env", "C"), {"x": [1]}, ['-env: {A: "1", B: "2"}', '+env: {A: "1", B: "2", C: {x: [1]}}']),
    (
        ("script",),
        "#!/bin/sh\nexit\n",
        ["-  line 1", "-  # no comment", "-", "-  line 2", "+  #!/bin/sh", "+  exit"],
    ),
    (("last",), [1, 2], ["+- 1", "+- 2"]),
    (("last", "deep", "er"), 1, ["+  deep:", "+    er: 1"]),
    (("new", "list", 0), "x", ["+new:", "+  list:", "+  - x"]),
    (("gpus",), 8, []),
]


def changes(before: str, after: str) -> list[str]:
    """The lines that differ, with - and +."""
    lines = difflib.unified_diff(before.split("\n"), after.split("\n"), n=0, lineterm="")
    return [line for line in lines if not line.startswith(("---", "+++", "@@"))]


@pytest.mark.parametrize(("path", "value", "expected"), SETS)
def test_only_the_lines_of_the_value_change(
    path: tuple[str | int, ...], value: Any, expected: list[str]
) -> None:
    """Comments, blank lines, quotes and all other values stay, to the character."""
    after = set_value(TEXT, path, value)
    assert expected == changes(TEXT, after)


def test_entries_after_a_dash_can_be_added() -> None:
    """A mapping that starts on its list's dash is edited like any other."""
    text = "l:\n  - a: 1  # x\n    b: 2\n  - c: 3\n"
    assert set_value(text, ("l", 1, "d"), 4) == text + "    d: 4\n"
    assert set_value(text, ("l", 0, "b"), [1]) == ("l:\n  - a: 1  # x\n    b:\n    - 1\n  - c: 3\n")


def test_a_file_without_values_gets_them_below_its_comments() -> None:
    """A new file, or one of comments only, is filled."""
    assert set_value("", ("a", "b"), "y") == 'a:\n  b: "y"\n'
    assert set_value("# c", ("a", 0), 1) == "# c\na:\n- 1\n"
    assert set_value("{}\n", ("a",), 1) == "a: 1\n"


def test_windows_line_ends_and_the_byte_order_mark_stay() -> None:
    """The file keeps its own line ends, also in what is new."""
    text = "\ufeff" + TEXT.replace("\n", "\r\n")
    after = set_value(text, ("image",), {"repository": "x", "tag": "2"})
    assert after.startswith("\ufeff# About")
    assert "\n" not in after.replace("\r\n", "")
    assert load(after, "v").data["image"] == {"repository": "x", "tag": "2"}


@pytest.mark.parametrize(
    ("text", "path", "message"),
    [
        ("a: 1\n", ("a", "b"), "text stands there"),
        ("a: [1]\n", ("a", "b"), "a list stands there"),
        ("a: {b: 1}\n", ("a", 0), "a mapping stands there"),
        ("a: [1]\n", ("a", 2), "a list stands there"),
        ("a: &x {b: 1}\nc: *x\n", ("c", "b"), "alias"),
        ("a: &x {b: 1}\nc: *x\n", ("a", "b"), "more than one"),
        ("a: 1\na: 2\n", ("a",), "twice"),
        ("a: [\n", ("a",), "not YAML"),
    ],
)
def test_what_cannot_be_edited_alone_is_refused(
    text: str, path: tuple[str | int, ...], message: str
) -> None:
    """Aliases, wrong kinds and broken files are left to the person."""
    with pytest.raises(InputError, match=message) as excinfo:
        set_value(text, path, 9)
    assert excinfo.value.problem.hint


def test_a_path_has_a_step() -> None:
    """The whole file is no value to set."""
    with pytest.raises(ValueError, match="step"):
        set_value("a: 1\n", (), 1)


def paths(data: Any, above: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Every path of some values."""
    entries = data.items() if isinstance(data, dict) else enumerate(data)
    for step, value in entries:
        yield (*above, step)
        if isinstance(value, dict | list):
            yield from paths(value, (*above, step))


def test_every_value_of_the_charts_own_file_can_be_set(repo: Path) -> None:
    """On the longest values file there is, each edit changes its value and no comment outside."""
    text = (repo / "charts/torchrun/values.yaml").read_text(encoding="utf-8")
    data = load(text, "values.yaml").data
    values = ("1e-5", None, {"a": [1, "y"]}, "#!/bin/sh\nx\n")
    for number, path in enumerate(paths(data)):
        value = values[number % len(values)]
        after = set_value(text, path, value)
        assert load(after, "v").data == _put(data, path, value)
        if not isinstance(_get(data, path), dict):
            assert _comments(text) == _comments(after)


def _comments(text: str) -> set[str]:
    return {line.strip() for line in text.split("\n") if line.strip().startswith("#")} - {
        "#!/bin/sh"
    }


def _get(data: Any, path: tuple[str | int, ...]) -> Any:
    for step in path:
        data = data[step]
    return data


def _put(data: Any, path: tuple[str | int, ...], value: Any) -> Any:
    data = copy.deepcopy(data)
    _get(data, path[:-1])[path[-1]] = value
    return data


KEYS = st.sampled_from(["a", "b", "c d", "1", "y"])
SCALARS = st.sampled_from(["x", "'it''s'", '"q # r"', "1", "", "~", "|\n{pad}  t\n{pad}  u", "a b"])
COMMENTS = st.sampled_from(["", "", "  # c", "   # d: e"])


@st.composite
def blocks(draw: st.DrawFn, pad: str = "", depth: int = 0) -> str:
    """A block mapping in any of the ways people write one."""
    out = ""
    for key in draw(st.lists(KEYS, min_size=1, max_size=3, unique=True)):
        name = f'"{key}"' if key in ("1", "y") else key
        comment = draw(COMMENTS)
        out += draw(st.sampled_from(["", "\n", f"{pad}# above\n"]))
        kind = draw(st.sampled_from(["scalar", "scalar", "map", "list", "flow"]))
        if kind == "map" and depth < 3:
            out += f"{pad}{name}:{comment}\n{draw(blocks(pad + '  ', depth + 1))}"
        elif kind == "list" and depth < 3:
            dash = pad + draw(st.sampled_from(["", "  "]))
            out += f"{pad}{name}:{comment}\n"
            for _ in range(draw(st.integers(1, 3))):
                if draw(st.booleans()):
                    inner = draw(blocks(dash + "  ", depth + 1))
                    out += dash + "- " + inner.lstrip("\n").removeprefix(dash + "  ") + "\n"
                else:
                    item = draw(SCALARS).replace("{pad}", dash)
                    out += f"{dash}- {item}{'' if '|' in item else draw(COMMENTS)}\n"
        elif kind == "flow":
            flow = draw(st.sampled_from(["{}", "[]", "{a: 1, b: [x, y]}", "[{a: z}, 'q,r']"]))
            out += f"{pad}{name}: {flow}{comment}\n"
        else:
            value = draw(SCALARS).replace("{pad}", pad)
            out += f"{pad}{name}: {value}{'' if '|' in value else comment}\n"
    return out


@given(blocks(), st.data())
def test_any_file_is_edited_to_exactly_the_values_asked_for(text: str, data: st.DataObject) -> None:
    """Files in every style: the value is set, or the edit is refused, never wrong."""
    try:
        values = load(text, "v").data
    except InputError:
        return
    path = data.draw(st.sampled_from(list(paths(values))))
    value = data.draw(
        st.sampled_from(["z", None, 3, {"n": {"m": "1"}}, ["p", ["q"]], "l\nm\n", {}])
    )
    after = set_value(text, path, value)
    assert _put(values, path, value) == load(after, "v").data
    new = (*path[:-1], "new") if isinstance(path[-1], str) else path
    assert _put(values, new, value) == load(set_value(text, new, value), "v").data
