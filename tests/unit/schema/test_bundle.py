"""The bundled schema: complete in itself, current, and in the dialect both validators know."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from allranks import names
from allranks.schema import bundle
from allranks.schema.validator import regex

if TYPE_CHECKING:
    from collections.abc import Iterator

REPO = Path(__file__).parents[3]
# What RE2 has not, or means otherwise: look-around, back-references, possessive and atomic
# groups, Unicode classes by letter, \Z, word boundaries (ASCII in RE2), and inline flags.
NOT_RE2 = re.compile(r"\(\?(?!:)|\\[1-9]|[*+?}]\+|\\[dDwWsSbBzZAuUN]")


@pytest.fixture(params=names.WORKLOADS)
def workload(request: pytest.FixtureRequest) -> str:
    """Each workload in turn."""
    return str(request.param)


@pytest.fixture
def schema(workload: str) -> dict[str, Any]:
    """The bundle as it would be written now."""
    return bundle.bundle(workload)


def nodes(node: Any) -> Iterator[dict[str, Any]]:
    """Every schema node of a bundle."""
    if isinstance(node, list):
        for item in node:
            yield from nodes(item)
    elif isinstance(node, dict):
        yield node
        for key, value in node.items():
            is_map = key in ("properties", "patternProperties", "$defs")
            yield from (n for sub in value.values() for n in nodes(sub)) if is_map else nodes(value)


def test_the_committed_bundle_is_current(workload: str, schema: dict[str, Any]) -> None:
    """values.schema.json is what the schemas and the defaults give now."""
    committed = REPO / "charts" / workload / "values.schema.json"
    assert bundle.render(schema) == committed.read_text(encoding="utf-8")


def test_a_bundle_refers_to_itself_alone(schema: dict[str, Any]) -> None:
    """Helm resolves no other file, so each reference is one of the bundle's own definitions."""
    refs = {node["$ref"] for node in nodes(schema) if "$ref" in node}
    assert refs == {f"#/$defs/{name}" for name in schema["$defs"]}


def test_a_bundle_has_no_descriptions_and_no_defaults(schema: dict[str, Any]) -> None:
    """Descriptions feed the documentation only, and values.yaml is the only place of defaults."""
    for node in nodes(schema):
        assert not {"description", "default", "format", "$id", "$comment"} & set(node)


def test_a_bundle_is_sorted(schema: dict[str, Any]) -> None:
    """Equal schemas give equal bytes."""
    assert json.dumps(schema, sort_keys=True) == json.dumps(schema)


def test_every_pattern_means_the_same_to_re2_and_to_python(schema: dict[str, Any]) -> None:
    """Patterns keep to what both know, or Helm would refuse the whole schema."""
    patterns = {node["pattern"] for node in nodes(schema) if "pattern" in node}
    patterns |= {key for node in nodes(schema) for key in node.get("patternProperties", ())}
    assert patterns
    for pattern in patterns:
        assert NOT_RE2.search(pattern) is None, pattern
        assert regex(pattern)


def test_helm_s_own_keys_are_allowed(schema: dict[str, Any]) -> None:
    """Helm adds `global` and the library's name to the values, and the root is closed."""
    assert schema["additionalProperties"] is False
    assert {"type": "object"} == schema["properties"]["global"]
    assert {"type": "object"} == schema["properties"]["allranks-library"]


def test_only_raw_kubernetes_pieces_are_open(schema: dict[str, Any]) -> None:
    """Each map either names its keys or says what their values are, but for Kubernetes' own."""
    kubernetes = re.compile(r"Kubernetes|^a map( |$)|term such as|condition such as|with a name$")
    untitled = {"type": "object"}  # `global` and the library's key are not ours to know
    for node in nodes(schema):
        if "object" in node.get("type", "") and "additionalProperties" not in node:
            assert node == untitled or kubernetes.search(node.get("title", "")), node


def test_every_default_is_required(workload: str, schema: dict[str, Any]) -> None:
    """A null that removes a default is refused by name instead of breaking a template."""
    assert {"runPolicy", "network", workload, "image"} <= set(schema["required"])
    below = schema["$defs"][f"{workload}-{workload}"]["properties"]
    if workload == "elastic":
        assert {"minWorkers", "limits", "policy"} <= set(
            schema["$defs"]["elastic-auto"]["required"]
        )
    elif workload == "sweep":
        required = set(schema["$defs"]["sweep-sweep"]["required"])
        assert {"parameters", "objective", "tensorboard"} <= required
        assert "required" not in schema["$defs"]["torchrun-overlay"]
    else:
        assert ["maxNodes", "minNodes"] == below["elastic"]["required"]


@pytest.mark.parametrize(
    "ref", ["../defs/nowhere.schema.yaml#/$defs/x", "#/x", "http://x.y/#/$defs/a"]
)
def test_a_reference_to_nothing_is_refused(ref: str) -> None:
    """A slip in a schema file stops the bundler; it never gives a schema that accepts all."""
    with pytest.raises(bundle.SchemaError):
        bundle.target(ref, f"{bundle.BASE}workloads/torchrun.schema.yaml")
