from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allranks.errors import InputError
from allranks.values import strvals

if TYPE_CHECKING:
    from pathlib import Path

START: dict[str, Any] = {"a": {"b": 1}, "l": [{"x": 1}, "y"], "s": "text"}

TABLE = [
    ("set", "n=1", {"n": 1}),
    ("set", "n=0,m=007,o=-5,p=+3", {"n": 0, "m": "007", "o": -5, "p": 3}),
    ("set", "n=1e-5,m=1.5", {"n": "1e-5", "m": "1.5"}),
    ("set", "n=true,m=FALSE,o=Null,p=yes", {"n": True, "m": False, "o": None, "p": "yes"}),
    ("set", "n=,m=x", {"n": "", "m": "x"}),
    ("set", "n=a b", {"n": "a b"}),
    ("set", r"n=a\,b\=c", {"n": "a,b=c"}),
    ("set", r"n\.m.o=1", {"n.m": {"o": 1}}),
    ("set", "n={1,true,x}", {"n": [1, True, "x"]}),
    ("set", "n={}", {"n": [""]}),
    ("set", "n[1]=x", {"n": [None, "x"]}),
    ("set", "n[0].m.o=1,n[0].p=2", {"n": [{"m": {"o": 1}, "p": 2}]}),
    ("set", "n[0][1]=x", {"n": [[None, "x"]]}),
    ("set", "l[0].x=2,l[1]=z,a.c=3", {"l": [{"x": 2}, "z"], "a": {"b": 1, "c": 3}}),
    ("set", "n[0]", {"n": []}),
    ("set", "", {}),
    ("set-string", "n=1,m=true,o={0,null}", {"n": "1", "m": "true", "o": ["0", "null"]}),
    ("set-literal", r"n=a\,b,c={x}", {"n": r"a\,b,c={x}"}),
    ("set-literal", "n[0].m=x=y", {"n": [{"m": "x=y"}]}),
    ("set-json", 'n={"x":[1,null]},m="y"', {"n": {"x": [1, None]}, "m": "y"}),
    ("set-json", "n=,m= 1.5 ", {"n": None, "m": 1.5}),
    ("set-json", ' {"a": {"c": 2}, "n": []}', {"a": {"b": 1, "c": 2}, "n": []}),
]


def applied(kind: str, text: str, values: dict[str, Any], **how: Any) -> dict[str, Any]:
    """A copy of some values with one flag applied."""
    result = copy.deepcopy(values)
    strvals.apply(kind, text, result, **how)
    return result


@pytest.mark.parametrize(("kind", "text", "changed"), TABLE)
def test_a_flag_sets_what_it_sets_in_helm(kind: str, text: str, changed: dict[str, Any]) -> None:
    """Types, lists, indices, escapes and JSON."""
    assert {**START, **changed} == applied(kind, text, START)


REFUSED = [
    ("set", "n", "the key 'n' has no value"),
    ("set", "n,m=1", "the key 'n' has no value"),
    ("set", "n.=1", "the key 'n' has no value"),
    ("set", "s.x=1", "'s' is not a mapping"),
    ("set", "s[0]=1", "'s' is not a list"),
    ("set", "l[1][0]=1", "item 1 is not a list"),
    ("set", "n[x]=1", "'x' is not an index"),
    ("set", "n[-1]=1", "the index -1 is negative"),
    ("set", "n[65537]=1", "beyond 65536"),
    ("set", "n[99999999999999999999]=1", "is not an index"),
    ("set", "n[0=1", "is never closed"),
    ("set", "n[0]x=1", "'x' follows an index"),
    ("set", "n={1,2", "a list must end with }"),
    ("set", ".".join("k" * 32) + "=1", "deeper than 30"),
    ("set", "n=9007199254740992", "loses digits"),
    ("set-json", "n={", "not JSON"),
    ("set-json", "n=NaN", "not JSON"),
    ("set-json", "n=1e999", "too large"),
    ("set-json", "n=1.=2", "not JSON"),
    ("set-json", "n=9007199254740992", "loses digits"),
    ("set-json", "n=" + "[" * 100_000, "not JSON"),
    ("set-json", '{"a": 1} x', "not JSON"),
]


@pytest.mark.parametrize(("kind", "text", "message"), REFUSED)
def test_a_mistake_is_named_with_its_flag(kind: str, text: str, message: str) -> None:
    """The message says what is wrong, names the flag as typed, and how to write it."""
    with pytest.raises(InputError) as excinfo:
        applied(kind, text, START)
    assert message in excinfo.value.problem.message
    assert excinfo.value.problem.source == strvals.shown(kind, text)
    assert excinfo.value.problem.hint


WRITTEN = [
    ("set", "a.b=2,n[1].x={1,2}", [("a", "b"), ("n", 1, "x")]),
    ("set", "n[0][2]=", [("n", 0, 2)]),
    ("set-literal", "n.m=a,b=c", [("n", "m")]),
    ("set-json", 'n={"x":1}', [("n",)]),
    ("set-json", '{"n":{"x":1,"y":{}},"m":[2]}', [("n", "x"), ("n", "y"), ("m",)]),
]


@pytest.mark.parametrize(("kind", "text", "expected"), WRITTEN)
def test_a_flag_tells_what_it_wrote(
    kind: str, text: str, expected: list[tuple[str | int, ...]]
) -> None:
    """Every value set is remembered with its path, for messages."""
    paths: list[tuple[str | int, ...]] = []
    strvals.apply(kind, text, copy.deepcopy(START), set_paths=paths)
    assert expected == paths


def test_set_file_takes_the_text_of_files(tmp_path: Path) -> None:
    """The file's text arrives to the character; a list in braces names several files."""
    script = tmp_path / "a.sh"
    script.write_text("#!/bin/sh\necho 'é', {x}\n", encoding="utf-8")
    values = applied("set-file", f"n.s={script},m={{{script},{script}}}", {})
    text = "#!/bin/sh\necho 'é', {x}\n"
    assert values == {"n": {"s": text}, "m": [text, text]}
    assert applied("set-file", "n=", {}) == {"n": ""}


def test_set_file_refuses_what_is_no_text(tmp_path: Path) -> None:
    """A missing file, a folder and a file that is not UTF-8 are refused by name."""
    binary = tmp_path / "model.bin"
    binary.write_bytes(b"ok\n\xff\xfe")
    with pytest.raises(InputError, match="not UTF-8") as excinfo:
        applied("set-file", f"n={binary}", {})
    assert excinfo.value.problem.source == f"{binary}:2"
    with pytest.raises(InputError, match="is a folder"):
        applied("set-file", f"n={tmp_path}", {})
    with pytest.raises(InputError, match="there is no file") as excinfo:
        applied("set-file", f"n={tmp_path}/model.bn", {})
    assert excinfo.value.problem.hint == f"did you mean {binary}?"


@given(
    st.sampled_from(strvals.KINDS),
    st.text('abl01[]{}=,.\\ "x-\u00e9\n', max_size=30) | st.text(max_size=30),
)
def test_any_text_is_applied_or_refused(kind: str, text: str) -> None:
    """No text of a flag raises anything but our error, and the values stay as they were."""
    before = copy.deepcopy(START)
    try:
        applied(kind, text, START, read=lambda name: name)
    except InputError as error:
        assert error.problem.hint  # noqa: PT017 - being applied is fine too
    assert before == START


@given(st.text(st.characters(exclude_categories=["Cs"])), st.sampled_from(["set-string", "set"]))
def test_any_value_can_be_given_with_escapes(value: str, kind: str) -> None:
    """Backslashes carry any text through --set-string, and whatever --set does not type."""
    escaped = "".join(f"\\{character}" for character in value)
    result = applied(kind, f"n={escaped}", {})["n"]
    assert result == (value if kind == "set-string" else strvals.guess_type(value))
