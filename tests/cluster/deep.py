"""Objects that are nested deeper than a parser goes, as their author would send them."""

from __future__ import annotations

import http.client
import ssl
from http import HTTPStatus
from typing import TYPE_CHECKING

from allranks import names

if TYPE_CHECKING:
    from tests.kube.cluster import Cluster

_LEVELS = 1_030


def send(cluster: Cluster, method: str, path: str, body: str) -> None:
    """Send text as it is, and read nothing of the answer: no parser of ours takes it."""
    admin = cluster.admin
    context = ssl.create_default_context(cafile=str(admin.authority))
    connection = http.client.HTTPSConnection("127.0.0.1", admin.port, context=context, timeout=60)
    kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
    headers = {"Authorization": f"Bearer {admin.token}", "Content-Type": kind}
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    assert answer.status in (HTTPStatus.OK, HTTPStatus.CREATED), text[:500]


def nested() -> str:
    """A value."""
    return '{"a":' * _LEVELS + "1" + "}" * _LEVELS


def job(name: str) -> str:
    """An ElasticJob."""
    head = f'"apiVersion":"{names.ELASTIC_API_VERSION}","kind":"{names.ELASTIC_JOB}"'
    spec = f'{{"distributionStrategy":"AllreduceStrategy","x":{nested()}}}'
    return f'{{{head},"metadata":{{"name":"{name}"}},"spec":{spec}}}'
