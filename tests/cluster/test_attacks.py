"""What somebody who may write ElasticJobs in one namespace can do to everybody's operator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from allranks import names

from . import deep, watching
from .program import program
from .waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from .watching import Lab

pytestmark = pytest.mark.timeout(600)


def test_a_job_nested_too_deep_stops_nobody(lab: Lab) -> None:
    """In the list that an operator begins with, and in its watch; it is named by an Event on it."""
    deep.send(lab.cluster, "POST", lab.path(names.ELASTIC_JOBS), deep.job("bad"))
    lab.job("first", specs={"worker": watching.replicas(2)})
    lab.plan("first", 1, worker=2)
    lab.watch()
    lab.running("first", 2)
    events = until(lambda: lab.events("NotRead"), "an Event that names the bad job")
    assert {"bad"} == {event["involvedObject"]["name"] for event in events}
    # The same in a change that the watch tells of, after which it goes on.
    lab.job("second", specs={"worker": watching.replicas(1)})
    lab.plan("second", 1, worker=1)
    lab.running("second", 1)
    patch = f'{{"spec":{{"y":{deep.nested()}}}}}'
    deep.send(lab.cluster, "PATCH", lab.path(names.ELASTIC_JOBS, "second"), patch)
    until(lambda: len(lab.events("NotRead")) > 1, "an Event that names the changed job")
    lab.plan("first", 2, worker=3)
    lab.running("first", 3)
    assert 1 == len(lab.pods("second"))


def test_a_job_nested_too_deep_hides_no_other(lab: Lab, helm4: Any, tmp_path: Path) -> None:
    """`list` and `top` show the other runs of its namespace, and of all, and name it on stderr."""
    deep.send(lab.cluster, "POST", lab.path(names.ELASTIC_JOBS), deep.job("bad"))
    lab.job("first", specs={"worker": watching.replicas(2)})
    lab.plan("first", 1, worker=2)
    lab.watch()
    lab.running("first", 2)
    allranks = program(lab.cluster, lab.namespace, helm4, tmp_path)
    kind = "elasticjobs.elastic.iml.github.io"
    note = f"{kind} bad in namespace {lab.namespace} is nested too deep to be read; `kubectl -n"
    for words in (("list",), ("list", "-A"), ("top", "--once")):
        output = allranks(*words)
        assert (True, 1) == ("first" in output, output.count(note)), output
    # Data is data: the note is beside it.
    assert ["first"] == [run["name"] for run in allranks.json("list")]
    assert note in allranks("status", "bad", code=1)
    assert "first" in allranks("status", "first")
