from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from allranks.errors import InputError
from allranks.yamlio.dump import dump
from allranks.yamlio.load import load_all

CHARACTERS = st.characters(exclude_categories=["Cs"])
WORDS = (
    "a y no on true null ~ 1 0 1e-5 0x1f .5 .inf - : , # { } [ ] & * ! | > % @ ` = << --- é 😀 "
    "_ x: 12:30 2026-01-02 $(A) 1_000 ? {{ ' \" \\"
)
SPACES = (" ", "\n", "\n\n", "\t", "\r", "\x00", "\x7f", "\x85", "\xa0", "\u2028", "\ufeff")
TRICKY = st.lists(st.sampled_from([*WORDS.split(), *SPACES]), max_size=6).map("".join)
TEXT = TRICKY | st.text(CHARACTERS, max_size=30)
DATA = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=25,
)


@given(DATA)
def test_what_is_dumped_is_loaded_unchanged(value: Any) -> None:
    """Any data comes back the same, with the same types."""
    assert [value] == load_all(dump(value))
    assert repr(value) == repr(load_all(dump(value))[0])


@given(DATA)
def test_other_yaml_libraries_read_the_same(value: Any) -> None:
    """PyYAML (YAML 1.1) and ruamel.yaml (YAML 1.2) agree with Helm on everything written."""
    assert value == yaml.load(dump(value), yaml.CSafeLoader)
    assert value == YAML(typ="safe", pure=True).load(dump(value))


@given(DATA)
def test_dumping_is_stable(value: Any) -> None:
    """Loading and dumping again changes nothing: a filter run twice gives the same bytes."""
    once = dump(value)
    assert once == dump(load_all(once)[0])


MANIFEST = {
    "kind": "Pod",
    "apiVersion": "v1",
    "metadata": {"name": "x-0", "labels": {}, "annotations": {"a/b": '{"k":"v"}', "n": "8"}},
    "spec": {
        "containers": [
            {
                "name": "trainer",
                "image": "my/trainer:1.4",
                "args": ["--lr", "1e-5", "y", "", "it's", 'say "it\'s"', "a\tb", "C:\\x"],
                "resources": {"limits": {"memory": "180Gi", "nvidia.com/gpu": 8}},
                "command": [],
            },
            "plain text with spaces",
        ],
        "script": "#!/bin/sh\nset -e\n\n\ttrain  --x\n",
        "cut": "a\nb",
        "odd": "a \nb",
        "flag": True,
        "none": None,
        "float": 1e-05,
        "nested": [[1, [2]], [], {}],
    },
}
TEXT_OF_MANIFEST = """\
kind: Pod
apiVersion: v1
metadata:
  name: x-0
  labels: {}
  annotations:
    a/b: '{"k":"v"}'
    "n": "8"
spec:
  containers:
  - name: trainer
    image: my/trainer:1.4
    args:
    - "--lr"
    - "1e-5"
    - "y"
    - ""
    - "it's"
    - 'say "it''s"'
    - "a\\tb"
    - 'C:\\x'
    resources:
      limits:
        memory: "180Gi"
        nvidia.com/gpu: 8
    command: []
  - "plain text with spaces"
  script: |
    #!/bin/sh
    set -e

    \ttrain  --x
  cut: |-
    a
    b
  odd: "a \\nb"
  flag: true
  none: null
  float: 1.0e-05
  nested:
  - - 1
    - - 2
  - []
  - {}
"""


def test_manifests_look_as_a_person_would_write_them() -> None:
    """Blocks, the order of keys kept, scripts as they are, quotes only where they are needed."""
    assert TEXT_OF_MANIFEST == dump(MANIFEST)


def test_shared_data_is_written_out() -> None:
    """The same list in two places is written twice: readers of manifests know no aliases."""
    shared = [1, {"a": "b"}]
    text = dump({"x": shared, "y": shared, "z": (1, 2)})
    assert "&" not in text
    assert load_all(text) == [{"x": shared, "y": shared, "z": [1, 2]}]


@pytest.mark.parametrize("length", [999, 1000, 1024, 5000])
@pytest.mark.parametrize("value", ["x", 1, "a\nb\n", {"b": [1]}, [1, {"c": 2}], [], {}, None])
def test_long_lines_and_keys_are_never_folded(length: int, value: Any) -> None:
    """Text of any length stays on its line, and a key beyond what readers expect is marked."""
    data = {"k" * length: value, "text": "word " * length, "list": [{"k" * length: value}]}
    text = dump(data)
    assert load_all(text) == [data]
    assert data == yaml.load(text, yaml.CSafeLoader)


def test_half_a_character_is_refused() -> None:
    """Bytes that were not UTF-8 cannot be written to a file."""
    for text in ("\udce9", "a\n\udce9\n"):
        with pytest.raises(InputError, match="UTF-8"):
            dump({"a": text})
        with pytest.raises(InputError, match="UTF-8"):
            dump({text: 1})


@pytest.mark.parametrize("value", [{1: 2}, {"a": b"x"}, [object()], {"a": {None: 1}}])
def test_what_is_not_plain_data_is_refused(value: Any) -> None:
    """A value that YAML has no form for is a mistake of the caller."""
    with pytest.raises(TypeError):
        dump(value)
