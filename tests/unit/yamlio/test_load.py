from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allranks.errors import InputError, InvalidValues
from allranks.yamlio.dump import dump
from allranks.yamlio.load import MAX_DEPTH, load, load_all

VALUES = """\
# A comment first.
workload: torchrun

image:
  repository: my/trainer   # the image
  tag: "1.4"
args:
  - --lr
  - 1e-5
  -
    x
env: {A: "1",
  B: "2"}
base: &base
  cpu: 1
  memory: 2Gi
big:
  <<: *base
  cpu: 3
again: *base
list:
- - a
  - b
- {k: [v,
    w]}
script: |
  line
last: 1
"""

LINES = [
    ((), 1),
    (("workload",), 2),
    (("image",), 4),
    (("image", "repository"), 5),
    (("image", "tag"), 6),
    (("args",), 7),
    (("args", 0), 8),
    (("args", 1), 9),
    (("args", 2), 11),
    (("env", "A"), 12),
    (("env", "B"), 13),
    (("big", "memory"), 16),
    (("big", "cpu"), 19),
    (("again",), 20),
    (("again", "memory"), 16),
    (("list", 0, 1), 23),
    (("list", 1, "k"), 24),
    (("list", 1, "k", 1), 25),
    (("script",), 26),
    (("last",), 28),
]


@pytest.mark.parametrize(("path", "line"), LINES)
def test_every_path_knows_its_line(path: tuple[str | int, ...], line: int) -> None:
    """Keys, list items, flow collections, merged and aliased values have the line they stand on."""
    assert line == load(VALUES, "values.yaml").line(path)


@pytest.mark.parametrize(
    "path",
    [("no",), ("image", "no"), ("args", 3), ("args", -1), ("args", "0"), ("last", "x"), (0,)],
)
def test_a_path_that_is_not_there_has_no_line(path: tuple[str | int, ...]) -> None:
    """None tells that the file does not have the path."""
    assert load(VALUES, "values.yaml").line(path) is None


def test_the_nearest_thing_above_a_path_is_named() -> None:
    """A message about a missing value points at what the file has of its path."""
    document = load(VALUES, "values.yaml")
    assert document.where(("image", "tag")) == "values.yaml:6"
    assert document.where(("image", "digest", "x")) == "values.yaml:4"
    assert document.where(("gpus",)) == "values.yaml:1"


def test_line_ends_and_a_byte_order_mark_do_not_matter() -> None:
    """A file saved by a Windows editor has the same values on the same lines."""
    document = load("\ufeff".encode() + VALUES.replace("\n", "\r\n").encode(), "values.yaml")
    assert load(VALUES, "values.yaml").data == document.data
    assert document.line(("last",)) == 28


REFUSED = [
    (b"", "no values", "v.yaml"),
    (b"# only a comment\n", "no values", "v.yaml"),
    (b"---\n", "no values", "v.yaml"),
    (b"a: 1\nb: 2\na: 3\n", "'a' is given twice, first on line 1", "v.yaml:3"),
    (b"a:\n  b: 1\n  b: 2\n", "'b' is given twice, first on line 2", "v.yaml:3"),
    (b"a: {b: 1, b: 2}\n", "'b' is given twice", "v.yaml:1"),
    (b"\xff\xfea\x00", "UTF-16", "v.yaml:1"),
    (b"a: 1\nb: \xe9\n", "0xe9 is not UTF-8", "v.yaml:2"),
    (b"a:\n\tb: 1\n", "a tab where YAML wants spaces, in column 1", "v.yaml:2"),
    (b"a: 1\n  \tb: 1\n", "a tab where YAML wants spaces, in column 3", "v.yaml:2"),
    (b"a: b\r\n\tc: 1\r\n", "a tab where YAML wants spaces, in column 1", "v.yaml:2"),
    (b"a: |\n  x\n\ty\n", "a tab where YAML wants spaces, in column 1", "v.yaml:3"),
    ("a: é\u2028b\n".encode(), "U+2028, in column 5, ends a line for YAML", "v.yaml:1"),
    ("a: 1\x85b: [\n".encode(), "U+0085, in column 5, ends a line for YAML", "v.yaml:1"),
    ("# \x85\na: 1\nb: 2\n  c: 1\n".encode(), "a second `: `", "v.yaml:4"),
    ("é: 1\nü: é\x07\n".encode(), "U+0007 is not allowed in YAML, in column 5", "v.yaml:2"),
    (b"%x\n", "a line that starts with %", "v.yaml:1"),
    (b"a: !<x\n", "a tag without its end", "v.yaml:1"),
    (b"a: |0\n", "a text indented by 0", "v.yaml:1"),
    (b"a: 1\n---\nb: 2\n", "several YAML documents", "v.yaml:3"),
    (b"- 1\n", "a list", "v.yaml:1"),
    (b"\nhello\n", "text", "v.yaml:2"),
    (b"12\n", "a number", "v.yaml:1"),
    (b"true\n", "true or false", "v.yaml:1"),
    (b"a: .inf\n", ".inf is a number Helm cannot hold", "v.yaml:1"),
    (b"a:\n- 1\n- .nan\n", ".nan", "v.yaml:3"),
    (b"a: 9007199254740992\n", "would lose digits", "v.yaml:1"),
    (b"a: -0x20000000000001\n", "would lose digits", "v.yaml:1"),
    (b"a: &x [*x]\n", "contains itself", "v.yaml:1"),
    (b"a: *x\n", "*x refers to an anchor", "v.yaml:1"),
    (b"a: {{ x }}\n", "a key must be text", "v.yaml:1"),
    (b"? [a]\n: b\n", "a key must be text", "v.yaml:1"),
    (b"env:\n  Y: 1\n", "Helm reads the key Y as 'true'", "v.yaml:2"),
    (b"0777: 1\n", "Helm reads the key 0777 as '511'", "v.yaml:1"),
    (b"1.50: 1\n", "Helm reads the key 1.50 as '1.5'", "v.yaml:1"),
    (b"~: 1\n", "a key must be text", "v.yaml:1"),
    (b"a: b: c\n", "a second `: `", "v.yaml:1"),
    (b"x: 1\na: 'b\nc: d\n", "never closed", "v.yaml:2"),
    (b'a: "\\q"\n', "unknown escape", "v.yaml:1"),
    (b'a: "\\xZZ"\n', "escape without its digits", "v.yaml:1"),
    (b"a: @x\n", "may not start with @", "v.yaml:1"),
    (b"a: [1, 2\nb: 1\n", "does not belong", "v.yaml:2"),
    (b"a: - b\n", "list item on the line", "v.yaml:1"),
    (b"a: 1\nb c\nd: 1\n", "colon", "v.yaml:3"),
    (b"a: 1\nb: \x01\n", "U+0001 is not allowed", "v.yaml:2"),
    (b"%YAML 1.2\n---\na: 1\n", "YAML 1.1 only", "v.yaml:1"),
    (b"a: !!int x\n", "its tag !!int", "v.yaml:1"),
    (b"<<: 3\n", "<< must be given a mapping", "v.yaml:1"),
    (b"a: &b [1]\nc: {<<: *b}\n", "<< must be given a mapping", "v.yaml:2"),
    (b"a: " + b"[" * 300 + b"]" * 300, f"deeper than {MAX_DEPTH}", "v.yaml:1"),
    (b"[" * 200_000, f"deeper than {MAX_DEPTH}", "v.yaml:1"),
    (b"- " * 50_000, f"deeper than {MAX_DEPTH}", "v.yaml:1"),
]


@pytest.mark.parametrize(("content", "message", "source"), REFUSED)
def test_a_mistake_is_named_with_its_line_and_a_fix(
    content: bytes, message: str, source: str
) -> None:
    """Whatever Helm would refuse or misread is refused in plain words, at its line."""
    with pytest.raises(InputError) as excinfo:
        load(content, "v.yaml")
    assert message in excinfo.value.problem.message
    assert source == excinfo.value.problem.source
    assert excinfo.value.problem.hint
    assert excinfo.value.exit_code == 2


def test_a_thousand_million_laughs_are_bounded() -> None:
    """Aliases of aliases may not blow up the memory."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 10)]
    for reader in (lambda text: load(text, "v.yaml"), load_all):
        with pytest.raises(InputError, match="aliases repeat"):
            reader("\n".join(lines))


def test_every_number_that_helm_cannot_hold_is_named() -> None:
    """Not one per attempt, each with its line and both ways out."""
    with pytest.raises(InvalidValues) as excinfo:
        load("a: [.nan, 1,\n  .inf]\nb: 90071992547409931\n", "v.yaml")
    assert ["v.yaml:1", "v.yaml:2", "v.yaml:3"] == [
        problem.source for problem in excinfo.value.problems
    ]
    assert (
        'give a finite number, or ".nan" in quotes where text is meant'
        == excinfo.value.problem.hint
    )


def test_aliases_are_copies() -> None:
    """Changing one place of an aliased value does not change the other."""
    data = load("a: &x {l: [1]}\nb: *x\nc: {<<: *x}\n", "v.yaml").data
    data["a"]["l"].append(2)
    assert data == {"a": {"l": [1, 2]}, "b": {"l": [1]}, "c": {"l": [1]}}


def test_keys_that_are_plain_whole_numbers_are_text() -> None:
    """A key such as 1 cannot be misread: it is the text 1, as in Helm."""
    assert load("1: a\n-5: b\n", "v.yaml").data == {"1": "a", "-5": "b"}


def test_an_empty_document_after_the_values_is_no_second_one() -> None:
    """A closing --- does no harm: both majors of Helm read the same."""
    assert load("---\na: 1\n---\n", "v.yaml").data == {"a": 1}


def test_text_from_broken_arguments_is_refused() -> None:
    """Half characters, which Python makes of bytes that are not UTF-8, are refused."""
    with pytest.raises(InputError, match="UTF-8"):
        load("a: \udce9", "v.yaml")


def test_a_stream_keeps_every_document_in_order() -> None:
    """Manifests come back in order, empty documents as None, keys as text, the last of two."""
    stream = (
        "# c\n---\na: 1\n---\n# nothing\n---\n- 1\n...\n---\ntext\n---\n1: x\nyes: z\na: 1\na: 2\n"
    )
    expected = [{"a": 1}, None, [1], "text", {"1": "x", "true": "z", "a": 2}]
    assert expected == load_all(stream)
    assert load_all("") == []
    assert load_all(b"a: \xc3\xa9") == [{"a": "é"}]


def test_a_stream_keeps_numbers_that_values_may_not_hold() -> None:
    """What a foreign manifest says stays: nothing is refused, nothing loses a digit."""
    stream = "a: 9007199254740993\nb: .inf\nc: 18446744073709551615\nd: -.5\n"
    assert load_all(stream) == [
        {"a": 9007199254740993, "b": float("inf"), "c": 18446744073709551615, "d": -0.5}
    ]
    assert load_all(dump(load_all(stream)[0])) == load_all(stream)


def test_a_broken_stream_names_its_line() -> None:
    """An error in a stream says what the stream is called, and the line."""
    with pytest.raises(InputError) as excinfo:
        load_all("a: 1\n---\nb: [\n", "the chart's output")
    assert excinfo.value.problem.source.startswith("the chart's output:")


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    """No text raises anything but our error."""
    for reader in (lambda: load(text, "v.yaml"), lambda: load_all(text)):
        try:
            reader()
        except InputError as error:
            assert error.problem.source  # noqa: PT017 - not being refused is fine too


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    """No bytes raise anything but our error."""
    try:
        load(data, "v.yaml")
    except InputError as error:
        assert error.problem.hint  # noqa: PT017 - not being refused is fine too


MARKS = "a b: |- - 1 { } [ ] , : & * &x *x << <<: ' \" | > # ! !!str !t ? % @ ~ y"
BREAKS = ("\n", "\n  ", "\n    ", " ", "---\n", "\t", "\r\n", "\u2028")
SYNTAX = st.lists(
    st.sampled_from([*MARKS.split(), *BREAKS]),
    max_size=30,
).map("".join)


@given(SYNTAX)
def test_any_syntax_is_read_or_refused(text: str) -> None:
    """Heaps of YAML's own characters are read or refused; what is read has lines."""
    try:
        document = load(text, "v.yaml")
    except InputError:
        return
    for key, value in document.data.items():
        assert document.line((key,)) is not None
        for index in range(len(value) if isinstance(value, list) else 0):
            assert document.line((key, index)) is not None
