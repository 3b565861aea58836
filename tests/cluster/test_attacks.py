"""What somebody who may write ElasticJobs in one namespace can do to everybody's watcher."""

from __future__ import annotations

import http.client
import ssl
from http import HTTPStatus
from typing import TYPE_CHECKING

import pytest

from allranks import names

from . import watching
from .waiting import until

if TYPE_CHECKING:
    from .watching import Lab

pytestmark = pytest.mark.timeout(600)

_LEVELS = 1_030


def _send(lab: Lab, method: str, path: str, body: str) -> None:
    """Send text as it is, and read nothing of the answer: no parser of ours takes it."""
    admin = lab.cluster.admin
    context = ssl.create_default_context(cafile=str(admin.authority))
    connection = http.client.HTTPSConnection("127.0.0.1", admin.port, context=context, timeout=60)
    kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
    headers = {"Authorization": f"Bearer {admin.token}", "Content-Type": kind}
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    said = answer.read()
    connection.close()
    assert answer.status in (HTTPStatus.OK, HTTPStatus.CREATED), said[:500]


def _nested(levels: int) -> str:
    return '{"a":' * levels + "1" + "}" * levels


def test_a_job_nested_too_deep_stops_nobody(lab: Lab) -> None:
    """In the list that a watcher begins with, and in its watch; it is named by an Event on it."""
    head = f'"apiVersion":"{names.ELASTIC_API_VERSION}","kind":"{names.ELASTIC_JOB}"'
    spec = f'{{"distributionStrategy":"AllreduceStrategy","x":{_nested(_LEVELS)}}}'
    body = f'{{{head},"metadata":{{"name":"bad"}},"spec":{spec}}}'
    _send(lab, "POST", lab.path(names.ELASTIC_JOBS), body)
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
    patch = f'{{"spec":{{"y":{_nested(_LEVELS)}}}}}'
    _send(lab, "PATCH", lab.path(names.ELASTIC_JOBS, "second"), patch)
    until(lambda: len(lab.events("NotRead")) > 1, "an Event that names the changed job")
    lab.plan("first", 2, worker=3)
    lab.running("first", 3)
    assert 1 == len(lab.pods("second"))
