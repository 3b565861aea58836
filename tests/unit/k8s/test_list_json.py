"""The JSON of lists, cut down before it is parsed."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from allranks.k8s.list_json import PodSpecs, without_writers

PODS: st.SearchStrategy[dict[str, Any]] = st.dictionaries(
    st.text(max_size=3), st.text(max_size=3) | st.integers(), max_size=3
)

# What the server writes of who wrote which field: objects, and the keys of fields, which may hold
# any character.
WRITERS: st.SearchStrategy[Any] = st.recursive(
    st.just({}),
    lambda inner: st.dictionaries(st.text('a:}]["\\{', max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(st.lists(st.tuples(st.lists(WRITERS, max_size=2), PODS), max_size=3))
def test_who_wrote_which_field_is_left_out_before_it_is_parsed(
    pods: list[tuple[list[Any], dict[str, Any]]],
) -> None:
    """All else is as it was; where a name makes the end of it hard to see, it stays as a whole."""
    items: list[dict[str, Any]] = [
        {"a": ']"managedFields":[', "metadata": {"managedFields": writers, "z": pod}}
        for writers, pod in pods
    ]
    text = json.dumps({"items": items}, separators=(",", ":"))
    results = json.loads(without_writers(text.encode()))["items"]
    for result, item in zip(results, items, strict=True):
        fields = result["metadata"].pop("managedFields")
        assert fields in ([], item["metadata"].pop("managedFields"))
        assert item == result
    plain = b'{"managedFields":[{"f:env":{"k:{\\"name\\":\\"A\\"}":{}}}],"x":[{}]}'
    assert b'{"managedFields":[],"x":[{}]}' == without_writers(plain)
    hard = b'{"managedFields":[{"f:a]":{}}]},"spec":{}}'
    plain = b'{"managedFields":[{"f:b":{}}]},"spec":{}}'
    assert hard + b'{"managedFields":[]},"spec":{}}' == without_writers(hard + plain)


TEXTS = st.text('a"\\{}[]:,', max_size=3)
SPECS = st.fixed_dictionaries(
    {
        "containers": st.lists(
            st.sampled_from([{"name": "a"}, {"name": '"nodeName":"'}]), max_size=2
        )
    },
    optional={
        "nodeName": TEXTS,
        "hostname": TEXTS,
        "nodeSelector": st.dictionaries(st.sampled_from(["hostname", "nodeName", "a"]), TEXTS),
        "volumes": st.just([{"ephemeral": {"volumeClaimTemplate": {"spec": {"nodeName": "x"}}}}]),
    },
)


@given(st.lists(st.lists(SPECS, max_size=6), max_size=3))
def test_a_spec_that_was_cut_down_is_whole_again(pages: list[list[dict[str, Any]]]) -> None:
    """Whatever stands in it, and wherever a field of the same name does."""
    specs = PodSpecs(json.loads)
    for page in pages:
        pods = [{"metadata": {"a": 'x"spec":{'}, "spec": spec, "status": {}} for spec in page]
        text = json.dumps({"items": pods}, separators=(",", ":")).encode()
        results = json.loads(specs.cut(text))["items"]
        assert pods == [specs.whole(pod) for pod in results]


def _page(specs: list[dict[str, Any]]) -> bytes:
    pods = [{"spec": spec, "status": {"phase": "Running"}} for spec in specs]
    return json.dumps({"items": pods}, separators=(",", ":")).encode()


def test_specs_of_a_run_are_parsed_once() -> None:
    """The pods share all that is the same, and each has its node; a run of two roles has two."""
    same = {"containers": [{"name": "trainer", "image": "x" * 500}], "nodeSelector": {"a": "b"}}
    other = {"containers": [{"name": "worker"}]}
    pods = [
        {**same, "nodeName": f"node-{index}", "hostname": f"run-{index}"} for index in range(50)
    ]
    pods += [{"nodeName": f"node-{index}", **other} for index in range(50)]
    specs = PodSpecs(json.loads)
    text = specs.cut(_page(pods))
    assert len(text) < 100 * 90
    results = [specs.whole(pod)["spec"] for pod in json.loads(text)["items"]]
    assert pods == results
    assert results[0]["containers"] is results[49]["containers"]
    assert results[50]["containers"] is results[99]["containers"]


def test_specs_that_all_differ_are_left_as_they_are() -> None:
    """Pods of no run cost no comparison each."""
    parses: list[bytes] = []

    def loads(text: bytes) -> Any:
        parses.append(text)
        return json.loads(text)

    text = _page([{"serviceAccountName": f"account-{index}"} for index in range(100)])
    specs = PodSpecs(loads)
    results = json.loads(specs.cut(text))["items"]
    assert json.loads(text)["items"] == [specs.whole(pod) for pod in results]
    assert len(parses) < 20


def test_what_is_no_list_of_pods_is_left_as_it_is() -> None:
    """A text that ends within a spec, or holds no JSON there, is the parser's to refuse."""
    for text in (b'{"spec":{"a":', b'{"spec":{},"status":{', b'{"spec":{]},"status":{}}', b""):
        assert text == PodSpecs(json.loads).cut(text).replace(b'{"":0}', b"{}")
