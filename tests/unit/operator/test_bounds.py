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
from allranks_operator.kube import api as kube_api
from allranks_operator.kube import bounds, outline
from allranks_operator.kube.bounds import Unread
from allranks_operator.kube.resources import ELASTIC_JOBS, WATCHED
from allranks_operator.world.keys import JOB, UNREAD, Key
from allranks_operator.world.world import World
from tests.unit.operator.fakes import FakeServer, listed, pod
from tests.unit.operator.test_reflector import reflecting, watch

if TYPE_CHECKING:
    from allranks_operator.kube.api import Api

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


def text(name: str, inner: str, **more: Any) -> str:
    """An ElasticJob as the API server sends it."""
    metadata = {"name": name, "namespace": "lab", "uid": f"u-{name}", "resourceVersion": "7"}
    head = {"apiVersion": names.ELASTIC_API_VERSION, "kind": names.ELASTIC_JOB}
    return json.dumps({**head, "metadata": metadata | more})[:-1] + f',"spec":{{"x":{inner}}}}}'


def test_a_list_with_an_object_nested_too_deep_is_read() -> None:
    """The bad one is named by its own metadata, whatever its strings pretend."""
    trap = '"name":"other","metadata":{"name":"other"}, [{'
    items = [text("a", "1"), text("b", nested(1030), annotations={"note": trap}), text("c", "[2]")]
    head = '"metadata":{"resourceVersion":"9","continue":"t"}'
    page = f'{{"apiVersion":"v1","items":[%s],"kind":"L",{head}}}'
    data = (page % ",".join(items)).encode()
    with pytest.raises(ValueError, match=r"depth|recursion"):
        orjson.loads(data)
    found = kube_api._cut(data)
    assert found is not None
    assert {"resourceVersion": "9", "continue": "t"} == found["metadata"]
    assert ["a", "b", "c"] == [one["metadata"]["name"] for one in found["items"]]
    assert [False, True, False] == [isinstance(one, Unread) for one in found["items"]]
    assert json.loads(items[2]) == found["items"][2]


def test_a_change_of_such_an_object_is_its_name() -> None:
    """The line of a watch does not end the watch."""
    line = '{{"type":"MODIFIED","object":{}}}'.format(text("b", nested(1030)))
    found = outline.event(line.encode())
    assert found is not None
    assert ("MODIFIED", "u-b") == (found[0], found[1]["metadata"]["uid"])


@given(items=st.lists(_JSON, max_size=4), head=_JSON, indent=st.sampled_from([None, 1]))
def test_a_list_is_cut_as_it_is_written(items: list[Any], head: Any, indent: int | None) -> None:
    """Whatever its strings hold, and however it is spaced."""
    data = json.dumps({"a": head, "items": items, "metadata": {"b": head}}, indent=indent).encode()
    found = outline.items(data)
    assert found is not None
    assert (items, {"b": head}) == ([json.loads(one) for one in found[0]], found[1])


@given(st.binary(max_size=60) | st.text('[]{}":,a\\ ', max_size=60).map(str.encode))
def test_what_is_no_list_is_none(data: bytes) -> None:
    """And nothing is raised."""
    for read in (outline.items, outline.event, outline.name):
        read(data)


def test_a_long_text_is_cut_in_its_length() -> None:
    """Ten times the text takes ten times as long, and not a hundred."""
    times = []
    for levels in (5_000, 50_000):
        data = f'{{"items":[{text("a", nested(levels))}],"metadata":{{}}}}'.encode()
        started = time.process_time()
        assert outline.items(data) is not None
        times.append(time.process_time() - started)
    assert times[1] < 40 * times[0] + 1


def test_a_page_too_long_is_asked_for_in_parts(
    server: FakeServer, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same place again, with fewer objects at once."""
    monkeypatch.setattr(kube_api, "PAGE_MAX", 4000)
    server.pages = [
        listed(*(pod(f"a{number}", note="x" * 100) for number in range(60))),
        listed(pod("a", version="7"), version="7", more="t"),
        listed(pod("b", version="7"), version="7"),
    ]
    with reflecting(api) as (_, notes):
        watch(server, 1)
    assert [["a", "b"]] == notes.lists
    limits = [query["limit"] for _, _, query, _ in server.requests if "limit" in query]
    assert ["500", "62", "62"] == limits


def elastic(name: str, **more: Any) -> dict[str, Any]:
    """An ElasticJob."""
    metadata = {"name": name, "namespace": "lab", "uid": f"u-{name}", "resourceVersion": "7"}
    return {
        "apiVersion": names.ELASTIC_API_VERSION,
        "kind": names.ELASTIC_JOB,
        "metadata": metadata,
        "spec": more,
    }


def deep(levels: int) -> Any:
    """A value of so many levels."""
    found: Any = 1
    for _ in range(levels):
        found = {"a": found}
    return found


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"x": deep(200)}, "levels deep"),
        ({"x": "y" * (2 << 20)}, "MiB"),
        ({"x": [[]] * 200_000}, "MiB"),
        ({f"k{number}" * 20: 1 for number in range(20_000)}, "MiB"),
    ],
)
def test_an_object_beyond_the_bounds_is_kept_by_name(more: dict[str, Any], why: str) -> None:
    """It is nobody's but its own: the key is told, so that its author hears of it."""
    told: list[Key] = []
    world = World(lambda key, _: told.append(key))
    world.change(ELASTIC_JOBS, "lab", "ADDED", elastic("b", **more))
    key = Key(UNREAD, "lab", "ElasticJob/b")
    assert ([key], (key,)) == (told, world.keys())
    (found,) = world.of(key)["ElasticJob"]
    assert isinstance(found, Unread)
    assert why in found.why
    assert {} == world.of(Key(JOB, "lab", "b"))
    mended = elastic("b")
    mended["metadata"]["resourceVersion"] = "8"
    world.change(ELASTIC_JOBS, "lab", "MODIFIED", mended)
    assert "ElasticJob" in world.of(Key(JOB, "lab", "b"))
    assert {} == world.of(key)


def test_a_namespace_has_so_much_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one of them takes away is free again; another namespace has its own."""
    monkeypatch.setattr(bounds, "SPACE_MAX", 3000)
    world = World(lambda *_: None)

    def known() -> set[str]:
        return {f"{key.namespace}/{key.name}" for key in keys() if key.kind == JOB}

    keys = world.keys
    for name in "abcd":
        world.change(ELASTIC_JOBS, "", "ADDED", elastic(name, x="y" * 1000))
    other = elastic("d", x="y" * 1000)
    other["metadata"]["namespace"] = "beyond"
    world.change(ELASTIC_JOBS, "", "ADDED", other)
    assert {"lab/a", "lab/b", "beyond/d"} == known()
    world.change(ELASTIC_JOBS, "", "DELETED", elastic("a"))
    again = elastic("c", x="z" * 1000)
    again["metadata"]["resourceVersion"] = "9"
    world.change(ELASTIC_JOBS, "", "MODIFIED", again)
    assert {"lab/b", "lab/c", "beyond/d"} == known()


@given(
    kind=st.sampled_from([one.kind for one in WATCHED]),
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
    resource = next(one for one in WATCHED if one.kind == kind)
    world = World(lambda *_: None)
    named = metadata | {"name": "n", "namespace": "lab"}
    found = {"kind": kind, "metadata": named, "spec": spec, "status": status}
    world.change(resource, "lab", "ADDED", found)
    world.replace(resource, "lab", [world.trim(resource, found)], "1")
    assert world.get(kind, "lab", "n") is not None
