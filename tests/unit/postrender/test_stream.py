"""The splitter: documents are slices of the stream, cut where a YAML parser starts a new one."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from allranks.postrender.stream import split


def contents(text: str) -> list[str]:
    """The bodies that hold more than comments."""
    return [document.body for document in split(text) if document.has_content]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", [""]),
        ("a: 1\n", ["a: 1\n"]),
        ("---\na: 1\n---\nb: 2\n", ["\na: 1\n", "\nb: 2\n"]),
        ("--- # comment\na: 1\n", [" # comment\na: 1\n"]),
        ("---   \na: 1\n---\t\nb: 2\n", ["   \na: 1\n", "\t\nb: 2\n"]),
        ("--- {a: 1}\n--- [b]\n", [" {a: 1}\n", " [b]\n"]),
        ("---\r\na: 1\r\n---\r\nb: 2\r\n", ["\r\na: 1\r\n", "\r\nb: 2\r\n"]),
        ("---", [""]),
        ("---\n---\n", ["\n", "\n"]),
        ("\ufeff---\na: 1\n", ["\na: 1\n"]),
        ("\ufeffa: 1\n---\nb: 2\n", ["a: 1\n", "\nb: 2\n"]),
        ("a: |\n  x\n  ---\n  y\n---\nb: 2\n", ["a: |\n  x\n  ---\n  y\n", "\nb: 2\n"]),
        ("a: '---'\n----\n---x\n", ["a: '---'\n----\n---x\n"]),
        ("a: 1 ---\n", ["a: 1 ---\n"]),
        ("-----BEGIN KEY-----\n---\n", ["-----BEGIN KEY-----\n", "\n"]),
        ("# only a comment\n---\n# another\n", ["# only a comment\n", "\n# another\n"]),
        ("a: 1\n...\n---\nb: 2\n", ["a: 1\n", "\nb: 2\n"]),
        ("a: 1\n... # end\n# note\n---\nb: 2\n...\n", ["a: 1\n", "\nb: 2\n"]),
        ("%YAML 1.1\n---\na: 1\n", ["", "\na: 1\n"]),
        ("# note\n%TAG ! tag:x,2000:\n---\na: 1\n", ["# note\n", "\na: 1\n"]),
        ("---\n%YAML 1.1\n---\na: 1\n", ["\n", "\na: 1\n"]),
        ("a: 1\x85---\x85b: 2\n", ["a: 1\x85", "\x85b: 2\n"]),
    ],
)
def test_documents_are_cut_at_markers_only(text: str, expected: list[str]) -> None:
    """A marker stands at the start of a line, whatever the line break, and nowhere else."""
    assert expected == [document.body for document in split(text)]


def test_directives_reach_the_document_they_are_for() -> None:
    """A parser given one document's source sees the directives in force for it, and no others."""
    first, second, third = split("%TAG !e! tag:e,2000:\n---\na: 1\n...\n%YAML 1.1\n---\nb: 2\n")

    assert "" == first.body
    assert "%TAG !e! tag:e,2000:\n---\na: 1\n" == second.source
    assert "%YAML 1.1\n---\nb: 2\n" == third.source


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("---\n# Source: a/b.yaml\na: 1\n", "\n# Source: a/b.yaml\n"),
        ("--- # why\n\n  # more\na: 1\n", " # why\n\n  # more\n"),
        ("# first\na: 1 # not this\n# nor this\n", "# first\n"),
        ("--- {a: 1}\n", ""),
        ("---\r\n# Source: a\r\na: 1\r\n", "\r\n# Source: a\r\n"),
        ("a: 1\n", ""),
    ],
)
def test_comments_before_the_content_are_known(text: str, expected: str) -> None:
    """Helm's Source comment can be kept on a document that is printed anew."""
    assert expected == split(text)[0].comments


def test_lines_are_counted_for_messages() -> None:
    """Each document knows the line of its marker, with any mix of line breaks."""
    text = "a: 1\r\nb: 2\n---\nc: |\n  x\n\n---\r\nd: 1\n"

    assert [1, 3, 7] == [document.line for document in split(text)]


PIECES = st.sampled_from(
    [
        "---", "--- ", "---\t", "----", "...", "... ", "#", " # c", "a: 1", "b:", " - x", "  ---",
        "  ...", "a: |", "  text", "'---", '"', "{a: 1}", "%YAML 1.1", "%TAG ! x:", "\ufeff", "",
        "é", "---x", "- y", "a: >-",
    ]
)  # fmt: skip
BREAKS = st.sampled_from(["\n", "\n", "\n", "\r\n", "\r", "\x85", "\u2028"])
TEXTS = st.lists(st.tuples(PIECES, BREAKS), max_size=25).map(
    lambda lines: "".join(piece + end for piece, end in lines)
)


@given(TEXTS)
def test_nothing_is_lost(text: str) -> None:
    """The documents, joined, are the stream byte for byte, whatever it holds."""
    assert text == "".join(document.text for document in split(text))


@given(TEXTS)
@settings(max_examples=400)
def test_a_yaml_parser_sees_the_same_documents(text: str) -> None:
    """Wherever libyaml can read a stream, it finds the documents that the splitter finds."""
    try:
        whole = list(yaml.load_all(text, yaml.CSafeLoader))
    except yaml.YAMLError:
        return
    documents = split(text)
    if any(line.startswith("%") for document in documents for line in document.body.splitlines()):
        # libyaml takes a directive without `...` before it; YAML does not.
        return
    parts = [list(yaml.load_all(document.source, yaml.CSafeLoader)) for document in documents]

    assert [value for value in whole if value is not None] == [
        value for part in parts for value in part if value is not None
    ]
    assert all(len(part) <= 1 for part in parts)
