"""What workers say, and the options, read with care."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allranks.elastic.policy.settings import PolicySettings
from allranks.elastic.resources import ResourceAmounts
from allranks.errors import InputError
from allranks_operator.master import options, protocol
from allranks_operator.master.rendezvous import Generation, PeerNode

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["pod", "address", "port", "procs", "world", "nodes", "generation", "code", "step"]
            ),
            inner,
            max_size=6,
        )
    ),
    max_leaves=12,
)


def test_a_worker_that_waits_joins() -> None:
    """The least that a worker says."""
    call = protocol.join({"pod": "j-0", "address": "10.0.0.1"})
    assert PeerNode("j-0", "10.0.0.1", 0, 1) == call.node
    assert (Generation(), False) == (call.world, call.training)


def test_a_worker_that_trains_tells_its_generation() -> None:
    """What it was told when the generation began."""
    nodes = [{"pod": "j-0", "address": "a", "port": 5, "procs": 2}]
    call = protocol.join(
        {"pod": "j-0", "address": "a", "world": {"generation": 3, "rank": 0, "nodes": nodes}}
    )
    assert (Generation(3, (PeerNode("j-0", "a", 5, 2),)), True) == (call.world, call.training)


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ([], "the body"),
        ({}, "address"),
        ({"pod": "Bad Name", "address": "a"}, "pod"),
        ({"pod": "j-0", "address": ""}, "address"),
        ({"pod": "j-0", "address": "a", "port": 70000}, "port"),
        ({"pod": "j-0", "address": "a", "port": True}, "port"),
        ({"pod": "j-0", "address": "a", "world": 3}, "world"),
        ({"pod": "j-0", "address": "a", "world": {"nodes": 1}}, "world.nodes"),
    ],
)
def test_a_slip_in_a_call_is_named(body: Any, path: str) -> None:
    """The field, what it holds, and what it has to be."""
    with pytest.raises(InputError) as excinfo:
        protocol.join(body)
    assert path == excinfo.value.problem.path


@settings(max_examples=200)
@given(body=JSON)
def test_any_json_is_read_or_refused(body: Any) -> None:
    """No body makes the server stumble."""
    for reader in (protocol.join, protocol.report, protocol.done):
        with suppress(InputError):
            reader(body)


def test_options_have_defaults_and_are_read_by_their_names() -> None:
    """The chart's own form."""
    assert PolicySettings() == options.read("").policy
    given_options = {
        "growThreshold": 0.5,
        "stragglerWindows": 0,
        "nodeShape": {"gpus": 8, "cpu": "96", "memory": "1Ti"},
        "gatherSeconds": 3,
        "maxRestarts": 0,
        "fatalExitCodes": [13],
        "history": False,
    }
    master_options = options.read(json.dumps(given_options))
    assert (0.5, 0) == (
        master_options.policy.grow_threshold,
        master_options.policy.straggler_windows,
    )
    assert ResourceAmounts(96_000, 1024**4, 8) == master_options.policy.node_shape
    assert (3.0, 0, frozenset({13})) == (
        master_options.timing.gather,
        master_options.max_restarts,
        master_options.fatal_codes,
    )
    assert not master_options.history


@pytest.mark.parametrize(
    ("text", "path", "hint"),
    [
        ("[]", "", 'write {"growThreshold": 0.7}, or leave it out'),
        ("{", "", 'write {"growThreshold": 0.7}, or leave it out'),
        ('{"growTreshold": 1}', "growTreshold", "write growThreshold"),
        ('{"growThreshold": 2}', "growThreshold", "write a number in this range, or leave it out"),
        ('{"measureSteps": 1.5}', "measureSteps", None),
        ('{"coolDownSeconds": "1"}', "coolDownSeconds", None),
        ('{"nodeShape": {"gpu": 8}}', "nodeShape.gpu", "write nodeShape.gpus"),
        ('{"nodeShape": {"memory": "8 GB"}}', "nodeShape.memory", None),
        ('{"fatalExitCodes": [0]}', "fatalExitCodes", None),
        ('{"history": 1}', "history", None),
    ],
)
def test_wrong_options_are_named_with_the_fix(text: str, path: str, hint: str | None) -> None:
    """A slip would else change nothing, silently."""
    with pytest.raises(InputError) as excinfo:
        options.read(text)
    assert path == excinfo.value.problem.path
    assert hint is None or hint == excinfo.value.problem.hint


def test_a_master_without_a_job_says_what_to_set() -> None:
    """Started by hand, without its environment."""
    with pytest.raises(InputError, match="ALLRANKS_NAMESPACE and ALLRANKS_JOB must be set"):
        options.place({})


def test_every_setting_stands_in_the_guide() -> None:
    """Names and defaults, as the program has them."""
    guide = (Path(__file__).parents[3] / "docs/guides/elastic-master.md").read_text()
    defaults = PolicySettings()
    for field in fields(PolicySettings):
        name = options.settings.camel(field.name)
        value = getattr(defaults, field.name)
        if field.name != "node_shape":
            assert f"| `{name}` | {value:g} |" in guide
    timing = options.Timing()
    for name in ("gather", "lost", "stop"):
        assert f"| `{name}Seconds` | {getattr(timing, name):g} |" in guide
