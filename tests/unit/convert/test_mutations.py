"""Whatever comes in: an error for a person, or valid values with a verdict for every field."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allranks.convert import registry
from allranks.convert.documents.context import Context
from allranks.convert.documents.document import Document
from allranks.convert.verdicts import Outcome
from allranks.errors import AllranksError
from tests.fuzz import manifests

SEED, COUNT = 16, 2000
CHUNKS = 20
# Said to be carried, and not a value: the object's own kind, and a name that its pods have not.
SPARED = ("apiVersion", "kind", "spec.podTemplate.spec.containers[0].name")


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_mutated_manifests(chunk: int) -> None:
    """A mutated sample is refused in words, or becomes values that are valid and read back."""
    size = COUNT // CHUNKS
    numbers = range(chunk * size, (chunk + 1) * size)
    verdicts = {number: manifests.judge(manifests.mutated(SEED, number)) for number in numbers}
    assert {} == {number: wrong for number, (_, wrong) in verdicts.items() if wrong}


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(manifests.KEYS) | st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(st.sampled_from(sorted(registry.KINDS)), ANYTHING)
def test_any_spec(kind: tuple[str, str], spec: Any) -> None:
    """An object of a kind with anything at all as its spec is converted or refused in words."""
    manifest = {
        "apiVersion": f"{kind[0]}/v1",
        "kind": kind[1],
        "metadata": {"name": "x"},
        "spec": spec,
    }
    assert "" == manifests.judge(manifest)[1]


def _changed(value: Any) -> Any:
    """Another value of the same type; None for a value that is left alone."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if not isinstance(value, str):
        return None
    if value.isdigit():
        return str(int(value) + 1)
    return f"{int(value[:-2]) + 1}Gi" if value[:-2].isdigit() else f"{value}x"


def _conversion(manifest: dict[str, Any]) -> Any:
    context = Context(runtimes=manifests.runtimes())
    return registry.convert_all([Document(manifest, "job.yaml", 1)], context).conversions[0]


@pytest.mark.parametrize("number", range(len(manifests.bases())))
def test_what_is_said_to_be_carried_is(number: int) -> None:
    """Another value in a field that is carried gives other values, or another verdict."""
    base = manifests.bases()[number]
    before = _conversion(base)
    silent = []
    for verdict in before.of(Outcome.CARRIED):
        manifest = copy.deepcopy(base)
        node: Any = manifest
        for step in verdict.keys[:-1]:
            node = node[step]
        value = _changed(node[verdict.keys[-1]])
        if value is None or verdict.path in SPARED:
            continue
        node[verdict.keys[-1]] = value
        try:
            after = _conversion(manifest)
        except AllranksError:
            continue
        outcome = (after.values, after.verdicts, after.name, after.namespace, after.queue)
        if outcome == (before.values, before.verdicts, before.name, before.namespace, before.queue):
            silent.append(f"{verdict.path}: {value!r}")
    assert [] == silent
