"""The stamp: our version, written beside the digest without reading any YAML."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allranks import __version__
from allranks.postrender import process
from allranks.postrender.edit import same
from allranks.postrender.pipeline import stamp
from allranks.yamlio.dump import dump
from allranks.yamlio.load import load_all

DIGEST = "allranks.dev/values-digest"
VERSION = "allranks.dev/generator-version"
JOB = f"""
# Source: torchrun/templates/job.yaml
apiVersion: batch/v1
kind: Job
metadata:
  labels:
    app.kubernetes.io/name: torchrun
    helm.sh/chart: "torchrun-0.1.0"
  annotations:
    {DIGEST}: sha256:00ff
    other: 'quoted: text'
  name: train
spec:
  # A comment that stays.
  template: {{spec: {{containers: [{{name: c}}]}}}}
"""


def test_one_line_is_added_and_all_else_stays() -> None:
    """Comments and flow style of the chart's author among it."""
    expected = JOB.replace("sha256:00ff\n", f'sha256:00ff\n    {VERSION}: "{__version__}"\n')

    assert expected == stamp(JOB)
    assert f"---{expected}" == process(f"---{JOB}")


def test_a_stamped_document_is_done() -> None:
    """A second run changes nothing."""
    once = process(f"---{JOB}")

    assert once == process(once)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (f"    {DIGEST}: sha256:00ff\n", f"    note: |\n      {DIGEST}: sha256:00ff\n"),
        (f"    {DIGEST}: sha256:00ff\n", f"    {DIGEST}: sha256:00ff\n      more\n"),
        (f"    {DIGEST}: sha256:00ff\n", f"    {DIGEST}: sha256:00ff # why\n"),
        (f"    {DIGEST}: sha256:00ff\n", f"    {DIGEST}:\n      sha256:00ff\n"),
        (f"    {DIGEST}: sha256:00ff\n", f"    deep:\n      {DIGEST}: sha256:00ff\n"),
        ("  labels:\n", "  labels: &l\n"),
        ("  labels:\n", "  note: |\n    annotations:\n  labels:\n"),
        ("  labels:\n", '  note: "a\n\nb"\n  labels:\n'),
        ("kind: Job\n", "kind: List\n"),
        ("metadata:\n", "metadata: {}\nmetadata:\n"),
        ("spec:\n", "metadata:\n  annotations: {}\nspec:\n"),
        ("apiVersion: batch/v1\n", "  apiVersion: batch/v1\n"),
        ("apiVersion: batch/v1\n", "{}\n"),
        ("    other:", "    helm.sh/hook: test\n    other:"),
        ("    other:", f"    {VERSION}: 0.0.1\n    other:"),
        ("\n", "\r\n"),
        ("  annotations:\n", "  annotations:\t\n"),
        ("metadata:\n", "other:\n"),
    ],
)
def test_anything_unusual_is_left_to_the_parser(old: str, new: str) -> None:
    """Only lines that can mean one thing are read without it."""
    assert stamp(JOB.replace(old, new)) is None


TEXT = st.sampled_from(["a", "1e-5", "x y", "a: b", "#", "line\nline\n", 'q"q', "'", "é", ""])
TREES = st.recursive(
    TEXT | st.integers() | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)


@given(
    st.permutations(["apiVersion", "kind", "metadata", "spec"]),
    st.permutations(["labels", "annotations", "name", "x"]),
    st.dictionaries(st.sampled_from(["a.io/b", "b", "c"]), TEXT),
    TREES,
    TREES,
)
def test_the_stamp_writes_what_the_pass_would(
    keys: list[str], inner: list[str], annotations: dict[str, str], extra: Any, spec: Any
) -> None:
    """For any manifest in which the stamp finds the digest, and it changes nothing else."""
    metadata = {
        "labels": {"a": "b"},
        "annotations": {**annotations, DIGEST: "sha256:00"},
        "name": "n",
        "x": extra,
    }
    parts = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {key: metadata[key] for key in inner},
        "spec": spec,
    }
    body = f"\n{dump({key: parts[key] for key in keys})}"
    stamped = stamp(body)
    if stamped is None:
        return
    (value,) = load_all(stamped)

    assert __version__ == value["metadata"]["annotations"].pop(VERSION)
    assert same(load_all(body)[0], value)
