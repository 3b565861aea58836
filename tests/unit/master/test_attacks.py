"""What anyone who reaches a master's port can do to its job: nothing."""

from __future__ import annotations

import json
import socket
import threading
from http.client import HTTPConnection
from typing import TYPE_CHECKING, Any

import pytest

from allranks import names
from allranks_operator import bounded_http
from allranks_operator.master.rendezvous import Generation, PeerNode, Rendezvous, Timing
from allranks_operator.master.server import MasterServer
from tests.unit.master.test_master import Job

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TOKEN = "a" * 64
PATHS = ("/v1/join", "/v1/report", "/v1/done")


class Guarded(Job):
    """A job whose pods have a token."""

    def restart(self) -> None:
        """As ever, with a token."""
        super().restart()
        self.server.stop()
        self.server = MasterServer(self.master, "127.0.0.1", 0, self.clock, TOKEN)
        self.server.start()

    def run(self, *numbers: int, **fields: Any) -> None:
        """Pods that were given the token, and have addresses."""
        super().run(*numbers, **fields)
        for number in numbers:
            pod = self.pods[f"demo-edljob-worker-{number}"]
            pod["spec"] = {"containers": [{"env": [{"name": names.ENV_MASTER_TOKEN}]}]}
            pod["status"]["podIP"] = f"10.0.0.{number}"
        self.write()

    def call(self, method: str, path: str, body: Any = None, token: str = TOKEN) -> tuple[int, Any]:
        """One call with a token."""
        connection = HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        try:
            text = None if body is None else json.dumps(body)
            connection.request(method, path, text, headers)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    """A job of two workers."""
    with Job(tmp_path) as master_job:
        yield master_job


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Guarded]:
    """A job of two workers, whose pods have a token."""
    with Guarded(tmp_path) as master_job:
        yield master_job


def raw_answer(port: int, data: bytes) -> bytes:
    """What is answered to bytes, to the end of the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(data)
        answer = b""
        try:
            while chunk := connection.recv(4096):
                answer += chunk
        except ConnectionResetError:
            pass  # what nobody read was thrown away
    return answer


def raw_request(body: bytes, length: str | None = None, path: str = "/v1/join") -> bytes:
    """A POST."""
    head = f"POST {path} HTTP/1.1\r\nHost: m\r\nConnection: close\r\n"
    return head.encode() + f"Content-Length: {length or len(body)}\r\n\r\n".encode() + body


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "body",
    [
        b"[" * 2500 + b"]" * 2500,
        b'{"a":' * 1000 + b"1" + b"}" * 1000,
        b"[" * 60_000,
        b'{"pod":"' + b"9" * 5000 + b'","x":' + b"9" * 5000 + b"}",
        b'"' + b"\\" * 4999,
    ],
)
def test_a_deep_body_is_refused(job: Job, path: str, body: bytes) -> None:
    """Before a parser sees it, whose stack it would use up; the master answers on."""
    assert b" 400 " in raw_answer(job.server.port, raw_request(body, path=path))[:16]
    assert 200 == job.call("GET", "/healthz")[0]


@pytest.mark.parametrize(
    "length", ["²", "-1", "1e3", "+5", "9" * 5000, "0x10", "70000000", "1_0", "1, 1"]
)
def test_an_odd_length_is_refused(
    job: Job, length: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """With an answer, and not with a traceback."""
    answer = raw_answer(job.server.port, raw_request(b"{}", length))
    assert b" 400 " in answer[:16]
    assert "" == capsys.readouterr().err


@pytest.mark.parametrize("path", ["//[", "/v1/world?" + "a&" * 100, "/v1/world?pod=a&after=²", "*"])
def test_an_odd_path_is_refused(job: Job, path: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Likewise."""
    answer = raw_answer(job.server.port, f"GET {path} HTTP/1.0\r\n\r\n".encode())
    assert answer[9:12] in (b"400", b"404")
    assert "" == capsys.readouterr().err


def test_what_is_sent_slowly_is_not_waited_for(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """A head that comes byte by byte has its time, however it goes on; others are answered."""
    monkeypatch.setattr(bounded_http, "ASK_SECONDS", 0.3)
    over = threading.Event()
    with socket.create_connection(("127.0.0.1", job.server.port), timeout=60) as connection:
        connection.sendall(b"POST /v1/join HTTP/1.1\r\n")

        def drip() -> None:
            try:
                while not over.wait(0.02):
                    connection.sendall(b"a")
            except OSError:
                return

        thread = threading.Thread(target=drip)
        thread.start()
        try:
            while connection.recv(100):
                continue
        except ConnectionResetError:
            pass
        finally:
            over.set()
            thread.join()
    monkeypatch.setattr(bounded_http, "ASK_SECONDS", 60.0)  # who asks at once may be held up
    assert 200 == job.call("GET", "/healthz")[0]


def connections(job: Job, count: int, question: bytes = b"") -> list[socket.socket]:
    """Connections that stay, each after the answer to a question."""
    sockets = []
    for _ in range(count):
        sockets.append(socket.create_connection(("127.0.0.1", job.server.port), timeout=60))
        if question:
            sockets[-1].sendall(question)
            assert sockets[-1].recv(12).endswith(b"200")
    return sockets


def test_there_are_so_many_connections_and_no_more(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One too many is closed, where all are of the job's; a place that is free is had again."""
    monkeypatch.setattr(type(guarded.server._server), "connections_max", 5)
    question = f"GET /v1/status HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode()
    sockets = connections(guarded, 5, question)
    assert b"" == raw_answer(guarded.server.port, b"")
    for connection in sockets:
        connection.close()
    for _ in range(1000):
        if raw_answer(guarded.server.port, b"GET /healthz HTTP/1.0\r\n\r\n"):
            break
    else:
        pytest.fail("no place was free again")


def test_strangers_who_stay_keep_no_worker_out(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The oldest of them makes room for the next, and whoever has shown the token stays."""
    monkeypatch.setattr(type(guarded.server._server), "connections_max", 5)
    question = f"GET /v1/status HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode()
    (worker,) = connections(guarded, 1, question)
    for _ in range(3):
        strangers = connections(guarded, 7)
        assert b"" == strangers[0].recv(1)
        assert 200 == guarded.call("GET", "/v1/status")[0]
    while b"workers" not in worker.recv(65536):  # the rest of the first answer
        pass
    worker.sendall(question)
    assert worker.recv(12).endswith(b"200")


def test_who_asks_for_health_alone_does_not_stay(guarded: Guarded) -> None:
    """The connection ends with the answer, whatever the caller would like."""
    answer = raw_answer(
        guarded.server.port, b"GET /healthz HTTP/1.1\r\nConnection: keep-alive\r\n\r\n"
    )
    assert b" 200 " in answer[:16]
    assert b"Connection: close" in answer


@pytest.mark.parametrize("token", ["", "b" * 64, TOKEN[:-1], "ä"])
def test_who_shows_no_token_is_not_heard(guarded: Guarded, token: str) -> None:
    """Whatever is called, and before a byte of it is read; probes alone need none."""
    guarded.train(0, 1)
    token = token.encode().decode("latin-1")
    for path in PATHS:
        assert 401 == guarded.call("POST", path, {"pod": "demo-edljob-worker-0"}, token)[0]
        # Nothing of the body has come, and nobody waits for it.
        assert b" 401 " in raw_answer(guarded.server.port, raw_request(b"", "60000", path))[:16]
    for path in ("/v1/world?pod=demo-edljob-worker-0", "/v1/status"):
        assert 401 == guarded.call("GET", path, None, token)[0]
    assert 200 == guarded.call("GET", "/healthz", None, "")[0]
    assert 1 == guarded.master.status()["generation"]


def test_a_pod_from_before_there_were_tokens_is_heard(guarded: Guarded) -> None:
    """As long as there is one: the operator was upgraded while its job trained."""
    guarded.run(0, 1)
    guarded.pods["demo-edljob-worker-1"].pop("spec")
    guarded.write()
    guarded.master.tick()
    body = {"pod": "demo-edljob-worker-1", "address": "10.0.0.1"}
    assert 200 == guarded.call("POST", "/v1/join", body, "")[0]
    guarded.run(1)
    guarded.master.tick()
    assert 401 == guarded.call("POST", "/v1/join", body, "")[0]


def test_an_address_is_the_pods_own(guarded: Guarded) -> None:
    """The others would be sent to a stranger."""
    guarded.run(0, 1)
    guarded.master.tick()
    status, answer = guarded.join(0, address="10.6.6.6")
    assert (400, True) == (status, "10.6.6.6 is no address of pod" in answer["error"])
    assert 200 == guarded.join(0)[0]
    assert 200 == guarded.join(1, address="demo-edljob-worker-1.lab.svc")[0]


def test_a_world_with_a_stranger_in_it_is_not_taken(guarded: Guarded) -> None:
    """A new master is told who trains where; what it knows of the pods goes before that."""
    guarded.run(0, 1)
    guarded.have("worker")
    guarded.master.tick()
    nodes = [
        {"pod": f"demo-edljob-worker-{number}", "address": address, "port": 1, "procs": 1}
        for number, address in ((0, "10.0.0.0"), (1, "10.6.6.6"))
    ]
    status, answer = guarded.join(0, world={"generation": 5, "nodes": nodes})
    assert (200, "stop") == (status, answer["state"])
    assert 0 == guarded.master.status()["generation"]


def test_a_generation_that_trains_is_not_replaced() -> None:
    """By what one worker tells of another, later one; the next number is beyond it."""
    rendezvous = Rendezvous(Timing(gather=0.0, recover=0.0), 1, 0.0)
    node, other = PeerNode("a-0", "10.0.0.1"), PeerNode("b-0", "10.0.0.2")
    rendezvous.join(node, Generation(), 1.0, training=False)
    first = rendezvous.tick(["a-0"], 2.0)
    assert first is not None
    assert not rendezvous.join(other, Generation(7, (other,)), 3.0, training=True)
    rendezvous.join(other, Generation(2**52), 3.0, training=False)
    assert first == rendezvous.world
    rendezvous.join(node, Generation(1), 4.0, training=False)
    second = rendezvous.tick(["a-0", "b-0"], 5.0)
    assert second is not None
    assert (8, {"a-0", "b-0"}) == (second.generation, set(second.pods))
