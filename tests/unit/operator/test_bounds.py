"""What one object may cost: it is named and left out, and the others are read."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from allranks import names
from allranks.cluster import outline
from allranks.cluster.client import page_of
from allranks.cluster.errors import ApiRequest
from allranks_operator.cache.cache import ObjectCache
from allranks_operator.cache.owner_keys import JOB, UNREAD, Key
from allranks_operator.kube import bounds
from allranks_operator.kube import client as kube_api
from allranks_operator.kube.bounds import UnreadObject
from allranks_operator.kube.resources import ELASTIC_JOBS, PODS, WATCHED
from tests.unit.operator.fakes import FakeServer, pod, pod_list
from tests.unit.operator.test_informer import reflecting, watch

if TYPE_CHECKING:
    from allranks_operator.kube.client import Api

pytestmark = pytest.mark.attack

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=20,
)


def nested(levels: int) -> str:
    """JSON of so many levels."""
    return '{"a":[' * (levels // 2) + "]}" * (levels // 2)


def text(name: str, inner: str, **fields: Any) -> str:
    """An ElasticJob as the API server sends it."""
    metadata = {"name": name, "namespace": "lab", "uid": f"u-{name}", "resourceVersion": "7"}
    head = {"apiVersion": names.ELASTIC_API_VERSION, "kind": names.ELASTIC_JOB}
    return json.dumps({**head, "metadata": metadata | fields})[:-1] + f',"spec":{{"x":{inner}}}}}'


def test_a_list_with_an_object_nested_too_deep_is_read() -> None:
    """The bad one is named by its own metadata, whatever its strings pretend."""
    trap = '"name":"other","metadata":{"name":"other"}, [{'
    items = [text("a", "1"), text("b", nested(1030), annotations={"note": trap}), text("c", "[2]")]
    head = '"metadata":{"resourceVersion":"9","continue":"t"}'
    page = f'{{"apiVersion":"v1","items":[%s],"kind":"L",{head}}}'
    data = (page % ",".join(items)).encode()
    with pytest.raises(ValueError, match=r"depth|recursion"):
        orjson.loads(data)
    list_page = page_of(
        kube_api.connect(None, None, 1.0), ApiRequest("list", PODS.path), data, kube_api._stub
    )
    assert list_page is not None
    assert {"resourceVersion": "9", "continue": "t"} == list_page["metadata"]
    assert ["a", "b", "c"] == [item["metadata"]["name"] for item in list_page["items"]]
    assert [False, True, False] == [isinstance(item, UnreadObject) for item in list_page["items"]]
    assert json.loads(items[2]) == list_page["items"][2]


def test_a_change_of_such_an_object_is_its_name() -> None:
    """The line of a watch does not end the watch."""
    line = '{{"type":"MODIFIED","object":{}}}'.format(text("b", nested(1030)))
    event = outline.event(line.encode())
    assert event is not None
    assert ("MODIFIED", "u-b") == (event[0], event[1]["metadata"]["uid"])


@given(items=st.lists(_JSON, max_size=4), head=_JSON, indent=st.sampled_from([None, 1]))
def test_a_list_is_cut_as_it_is_written(items: list[Any], head: Any, indent: int | None) -> None:
    """Whatever its strings hold, and however it is spaced."""
    data = json.dumps({"a": head, "items": items, "metadata": {"b": head}}, indent=indent).encode()
    page = outline.items(data)
    assert page is not None
    assert (items, {"b": head}) == ([json.loads(item) for item in page[0]], page[1]["metadata"])


@given(st.binary(max_size=60) | st.text('[]{}":,a\\ ', max_size=60).map(str.encode))
def test_what_is_no_list_is_none(data: bytes) -> None:
    """And nothing is raised."""
    for reader in (outline.items, outline.event, outline.name, outline.head):
        reader(data)


def test_a_long_text_is_cut_in_its_length() -> None:
    """Ten times the text takes ten times as long, and not a hundred."""
    times = []
    for levels in (5_000, 50_000):
        data = f'{{"items":[{text("a", nested(levels))}],"metadata":{{}}}}'.encode()
        start = time.process_time()
        assert outline.items(data) is not None
        times.append(time.process_time() - start)
    assert times[1] < 40 * times[0] + 1


def test_a_page_too_long_is_asked_for_in_parts(
    server: FakeServer, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same place again, with fewer objects at once."""
    monkeypatch.setattr(kube_api, "PAGE_MAX", 4000)
    server.pages = [
        pod_list(*(pod(f"a{number}", note="x" * 100) for number in range(60))),
        pod_list(pod("a", version="7"), version="7", next_page="t"),
        pod_list(pod("b", version="7"), version="7"),
    ]
    with reflecting(api) as (_, notes):
        watch(server, 1)
    assert [["a", "b"]] == notes.lists
    limits = [query["limit"] for _, _, query, _ in server.requests if "limit" in query]
    assert ["500", "62", "62"] == limits


def elastic(name: str, **spec: Any) -> dict[str, Any]:
    """An ElasticJob."""
    metadata = {"name": name, "namespace": "lab", "uid": f"u-{name}", "resourceVersion": "7"}
    return {
        "apiVersion": names.ELASTIC_API_VERSION,
        "kind": names.ELASTIC_JOB,
        "metadata": metadata,
        "spec": spec,
    }


def deep(levels: int) -> Any:
    """A value of so many levels."""
    value: Any = 1
    for _ in range(levels):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"x": deep(200)}, "levels deep"),
        ({"x": "y" * (2 << 20)}, "MiB"),
        ({"x": [[]] * 200_000}, "MiB"),
        ({f"k{number}" * 20: 1 for number in range(20_000)}, "MiB"),
    ],
)
def test_an_object_beyond_the_bounds_is_kept_by_name(spec: dict[str, Any], reason: str) -> None:
    """It is nobody's but its own: the key is told, so that its author hears of it."""
    changed_keys: list[Key] = []
    world = ObjectCache(lambda key, _: changed_keys.append(key))
    world.change(ELASTIC_JOBS, "lab", "ADDED", elastic("b", **spec))
    key = Key(UNREAD, "lab", "ElasticJob/b")
    assert ([key], (key,)) == (changed_keys, world.keys())
    (unread,) = world.of(key)["ElasticJob"]
    assert isinstance(unread, UnreadObject)
    assert reason in unread.reason
    assert {} == world.of(Key(JOB, "lab", "b"))
    mended = elastic("b")
    mended["metadata"]["resourceVersion"] = "8"
    world.change(ELASTIC_JOBS, "lab", "MODIFIED", mended)
    assert "ElasticJob" in world.of(Key(JOB, "lab", "b"))
    assert {} == world.of(key)


def test_a_namespace_has_so_much_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one of them takes away is free again; another namespace has its own."""
    monkeypatch.setattr(bounds, "SPACE_MAX", 3000)
    world = ObjectCache(lambda *_: None)

    def cached_names() -> set[str]:
        return {f"{key.namespace}/{key.name}" for key in keys() if key.kind == JOB}

    keys = world.keys
    for name in "abcd":
        world.change(ELASTIC_JOBS, "", "ADDED", elastic(name, x="y" * 1000))
    other = elastic("d", x="y" * 1000)
    other["metadata"]["namespace"] = "beyond"
    world.change(ELASTIC_JOBS, "", "ADDED", other)
    assert {"lab/a", "lab/b", "beyond/d"} == cached_names()
    world.change(ELASTIC_JOBS, "", "DELETED", elastic("a"))
    again = elastic("c", x="z" * 1000)
    again["metadata"]["resourceVersion"] = "9"
    world.change(ELASTIC_JOBS, "", "MODIFIED", again)
    assert {"lab/b", "lab/c", "beyond/d"} == cached_names()


@given(
    kind=st.sampled_from([resource.kind for resource in WATCHED]),
    spec=_JSON,
    status=_JSON,
    metadata=st.dictionaries(
        st.sampled_from(
            ["labels", "annotations", "ownerReferences", "resourceVersion", "uid", "generation"]
        ),
        _JSON,
    ),
)
def test_no_object_ends_a_watch(
    kind: str, spec: Any, status: Any, metadata: dict[str, Any]
) -> None:
    """Whatever types its fields have: it is kept, or kept by name."""
    resource = next(watched for watched in WATCHED if watched.kind == kind)
    world = ObjectCache(lambda *_: None)
    full_metadata = metadata | {"name": "n", "namespace": "lab"}
    manifest = {"kind": kind, "metadata": full_metadata, "spec": spec, "status": status}
    world.change(resource, "lab", "ADDED", manifest)
    world.replace(resource, "lab", [world.trim(resource, manifest)], "1")
    assert world.get(kind, "lab", "n") is not None
