"""What another user of this machine can do to an elastic job here, by its loopback ports."""

from __future__ import annotations

import http.client
import json
import sys
from http import HTTPStatus
from typing import TYPE_CHECKING

import pytest

from allranks import names
from allranks.local.state import store

from .conftest import until
from .test_elastic_runs import elastic

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import Machine

pytestmark = [pytest.mark.local, pytest.mark.timeout(600)]

_FOR_EVER = "trap 'exit 0' TERM; while :; do sleep 0.05; done"


def _call(address: str, path: str, token: str, body: str | None = None) -> int:
    """The status of a call."""
    connection = http.client.HTTPConnection(address, timeout=60)
    try:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        connection.request("POST" if body else "GET", path, body, headers)
        return connection.getresponse().status
    finally:
        connection.close()


def test_a_master_here_hears_its_own_pods_alone(machine: Machine, tmp_path: Path) -> None:
    """Its token is in their environment, which others cannot read, and in no file of the run."""
    file = tmp_path / "kept"
    keeps = f'echo "$ALLRANKS_MASTER_ADDR $ALLRANKS_MASTER_TOKEN" >{file}.new; mv {file}.new {file}'
    job = elastic(worker=f"{keeps}; {_FOR_EVER}", worker_spec={"replicas": 1})
    leader = job["spec"]["replicaSpecs"][names.EDL_MASTER]["template"]["spec"]["containers"][0]
    leader["command"] = [sys.executable, "-m", "allranks_operator.master"]
    machine.start(job)
    until(file.exists, "what the worker has")
    address, token = file.read_text().split()
    until(lambda: _call(address, "/v1/status", token) == HTTPStatus.OK, "the master")
    end = json.dumps({"pod": "run-edljob-worker-0", "generation": 0, "ok": False})
    for guess in ("", "0" * len(token), token[:-1]):
        for path, body in (("/v1/status", None), ("/v1/done", end), ("/v1/join", end)):
            assert HTTPStatus.UNAUTHORIZED == _call(address, path, guess, body)
    files = [path for path in store.root().rglob("*") if path.is_file()]
    assert files
    assert [] == [path for path in files if token.encode() in path.read_bytes()]
