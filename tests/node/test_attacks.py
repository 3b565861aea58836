"""What a pod of one job can do to another job of its namespace, whose ports it reaches."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from . import watching
from .conftest import until

if TYPE_CHECKING:
    from .conftest import Lab

pytestmark = [pytest.mark.attack, pytest.mark.timeout(900)]

# Runs in a pod: calls a master with each token that there is here, and says how each call ends.
_ATTACK = """
import http.client, json, os, sys
host, _, port = sys.argv[1].rpartition(":")
pod, own = sys.argv[2], os.environ["ALLRANKS_MASTER_TOKEN"]
me = os.environ["POD_NAME"]
bodies = {
    "/v1/join": [{"pod": pod, "address": os.environ["POD_IP"], "procs": 1},
                 {"pod": me, "address": os.environ["POD_IP"], "procs": 1, "generation": 1000000}],
    "/v1/report": [{"pod": pod, "generation": 1, "step": 1, "seconds": 0.001}],
    "/v1/done": [{"pod": pod, "generation": 1, "ok": False}, {"pod": pod, "ok": True}],
}
calls = [("POST", path, json.dumps(body)) for path in bodies for body in bodies[path]]
calls += [("GET", "/v1/status", None), ("GET", "/v1/world?pod=" + pod, None)]
answers = []
for token in ("", own, "0" * len(own), own[:-1], "Bearer"):
    for method, path, body in calls:
        headers = {"Authorization": "Bearer " + token} if token else {}
        connection = http.client.HTTPConnection(host.strip("[]"), int(port), timeout=60)
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        answer.read()
        answers.append([path, answer.status])
        connection.close()
print(json.dumps(answers))
"""
_STATUS = """
import http.client, os
host, _, port = os.environ["ALLRANKS_MASTER_ADDR"].rpartition(":")
connection = http.client.HTTPConnection(host.strip("[]"), int(port), timeout=60)
headers = {"Authorization": "Bearer " + os.environ["ALLRANKS_MASTER_TOKEN"]}
connection.request("GET", "/v1/status", None, headers)
print(connection.getresponse().read().decode())
"""
_TRAINS = "import time\nprint('it trains', flush=True)\ntime.sleep(3600)"


def _job(lab: Lab, name: str) -> str:
    """An elastic job of one worker that trains on; the name of the worker's pod."""
    auto = {"minWorkers": 1, "maxWorkers": 1}
    values: dict[str, Any] = {
        "command": ["python", "-c", _TRAINS],
        "elastic": {"mode": "auto", "framework": "pytorch", "auto": auto},
    }
    lab.install(name, "elastic", **values)

    def trains() -> str:
        for pod in lab.pods(name, "worker"):
            pod_name = str(pod["metadata"]["name"])
            if "it trains" in lab.log(pod_name):
                return pod_name
        return ""

    return str(until(trains, lambda: f"{name} trains\n{lab.logs(name)}"))


def _standing(lab: Lab, pod: str) -> tuple[Any, list[Any]]:
    """What a pod's own master says of the generation and of its workers, but how long ago."""
    status = json.loads(lab.inside(pod, "python", "-c", _STATUS))
    workers = [
        {key: value for key, value in worker.items() if key != "silentSeconds"}
        for worker in status["workers"]
    ]
    return status.get("generation"), workers


def test_a_pod_of_another_job_moves_no_master(lab: Lab) -> None:
    """Without a token, with that of its own job, and with a guessed one it is told nothing."""
    watching.install(lab, replicas=1)
    mine, other = _job(lab, "mine"), _job(lab, "other")
    before = _standing(lab, mine)
    address = lab.inside(mine, "printenv", "ALLRANKS_MASTER_ADDR").strip()
    calls = json.loads(lab.inside(other, "python", "-c", _ATTACK, address, mine))
    assert 5 * 7 == len(calls)
    assert {401} == {status for _, status in calls}, calls
    assert before == _standing(lab, mine)
    # Nor has a worker anything to ask the API server with.
    listing = lab.inside(other, "sh", "-c", "ls /var/run/secrets/kubernetes.io 2>&1 || true")
    assert "serviceaccount" not in listing
