"""What runs in users' images: the worker and the reporter, without torch."""

from __future__ import annotations

import ast
import json
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from allranks import names
from tests.modules import load

if TYPE_CHECKING:
    from collections.abc import Iterator

FILES = Path(__file__).parents[3] / "charts/elastic/files"
OURS = (
    "failures",
    "process_groups",
    "rank_output",
    "elastic_training",
    "progress",
    "elastic_worker",
    "elastic_agent",
    "allranks_report",
)


# The others find each by its name, as they do where the chart mounts them.
FAILURES, _, _, _, _, WORKER, AGENT, REPORT = (load(FILES / f"{name}.py", name) for name in OURS)


class Calls:
    """A master that writes down what it is told, and answers from a list."""

    def __init__(self) -> None:
        self.heard: list[dict[str, Any]] = []
        self.answers: list[tuple[int, Any]] = []
        calls = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.answer({})

            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                self.answer(json.loads(self.rfile.read(length)))

            def answer(self, body: dict[str, Any]) -> None:
                calls.heard.append({"path": self.path, **body})
                status, data = calls.answers.pop(0) if calls.answers else (200, {})
                content = json.dumps(data).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                """Keep the output clean."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()

    @property
    def env(self) -> dict[str, str]:
        """What a pod is told."""
        address = f"127.0.0.1:{self.server.server_port}"
        return {"ALLRANKS_MASTER_ADDR": address, "POD_NAME": "demo-0", "POD_IP": "10.0.0.1"}

    def close(self) -> None:
        """Stop."""
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def master() -> Iterator[Calls]:
    """A master that only listens."""
    fake = Calls()
    yield fake
    fake.close()


@pytest.mark.parametrize("name", OURS)
def test_the_files_are_python_3_8_and_standard_library(name: str) -> None:
    """Users' images are as old as they are; torch is loaded late, and by the agent alone."""
    tree = ast.parse((FILES / f"{name}.py").read_text(), feature_version=(3, 8))
    top = {
        alias.name.split(".")[0]
        for node in tree.body
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in (
            [ast.alias(node.module or "")] if isinstance(node, ast.ImportFrom) else node.names
        )
    }
    assert top <= {*sys.stdlib_module_names, *OURS}


def test_reports_say_samples_and_the_time_between_steps(master: Calls) -> None:
    """Summed up, and multiplied by the processes of the pod that one speaks for."""
    env = {**master.env, "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "4", "ALLRANKS_GENERATION": "3"}
    reporter = REPORT.Reporter(interval=60, env=env)
    for _ in range(5):
        reporter.step(samples=8)
    reporter.close()
    (call,) = master.heard
    assert ("/v1/report", "demo-0", 3, 5, 160) == (
        call["path"],
        call["pod"],
        call["generation"],
        call["step"],
        call["samples"],
    )
    assert 0 <= call["seconds"] < 5


def test_work_of_ones_own_is_what_counts_where_it_is_told(master: Calls) -> None:
    """Not the time that was waited for others."""
    reporter = REPORT.Reporter(interval=60, env=master.env)
    with reporter.work():
        pass
    reporter._work = 7.0  # as if it had been long
    reporter.step(samples=2, step=41)
    reporter.close()
    assert (7.0, 41) == (master.heard[0]["seconds"], master.heard[0]["step"])


def test_what_did_not_arrive_is_told_with_the_next_report(master: Calls) -> None:
    """A master that is away loses nothing."""
    master.answers += [(500, {}), (200, {})]
    reporter = REPORT.Reporter(interval=60, env=master.env)
    reporter.step(samples=3)
    reporter._flush()
    reporter.step(samples=4)
    reporter.close()
    assert [3, 7] == [call["samples"] for call in master.heard]


@pytest.mark.parametrize(
    "env",
    [
        {},
        {"ALLRANKS_MASTER_ADDR": "127.0.0.1:1", "POD_NAME": "p", "LOCAL_RANK": "1"},
        {"ALLRANKS_MASTER_ADDR": "nonsense", "POD_NAME": "p"},
    ],
)
def test_a_reporter_elsewhere_does_nothing(env: dict[str, str]) -> None:
    """Under plain torchrun, on the other ranks of a pod, or told nonsense."""
    reporter = REPORT.Reporter(env=env)
    reporter.step(samples=1)
    reporter.close()
    assert reporter._thread is None


def test_steps_are_cheap_while_the_master_hangs() -> None:
    """A training never waits for its report."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        env = {"ALLRANKS_MASTER_ADDR": f"127.0.0.1:{silent.getsockname()[1]}", "POD_NAME": "p"}
        reporter = REPORT.Reporter(interval=0.001, env=env)
        for _ in range(20_000):  # one that waited for each report would be here for days
            reporter.step(samples=1)


def worker(master: Calls, **env: str) -> Any:
    """A worker of that master."""
    return WORKER.ElasticWorker(WORKER.WorkerSettings({**master.env, **env}), ["train.py"])


def test_a_worker_joins_and_joins_again_where_it_is_not_known(master: Calls) -> None:
    """A master that was replaced while it waited."""
    go = {"state": "go", "generation": 1, "rank": 0}
    master.answers += [(200, {"state": "wait"}), (404, {}), (200, {"state": "wait"}), (200, go)]
    assert go == worker(master).wait()
    paths = [call["path"] for call in master.heard]
    poll = "/v1/world?pod=demo-0&after=0"
    assert ["/v1/join", poll, "/v1/join", poll] == paths
    first = master.heard[0]
    assert ("demo-0", "10.0.0.1", 1) == (first["pod"], first["address"], first["procs"])
    assert 0 < first["port"] < 65536


def test_a_worker_without_a_master_gives_up_in_words(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """After the time it was given; the reason is left for Kubernetes."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    env = {
        "ALLRANKS_MASTER_ADDR": f"127.0.0.1:{port}",
        "POD_NAME": "demo-0",
        "POD_IP": "10.0.0.1",
        "ALLRANKS_MASTER_LOST_SECONDS": "0.1",
        "ALLRANKS_TERMINATION_LOG": str(tmp_path / "reason"),
    }
    assert 1 == WORKER.ElasticWorker(WORKER.WorkerSettings(env), []).run()
    assert "no master answered for 0 s" in (tmp_path / "reason").read_text()
    assert "Traceback" not in capsys.readouterr().err


def test_a_worker_that_is_told_the_end_ends_so(master: Calls, tmp_path: Path) -> None:
    """With the job's own code and reason."""
    master.answers += [(200, {"state": "end", "code": 1, "message": "another one failed"})]
    trainer = worker(master, ALLRANKS_TERMINATION_LOG=str(tmp_path / "reason"))
    assert 1 == trainer.run()
    assert "another one failed" == (tmp_path / "reason").read_text()


def test_a_worker_does_as_the_master_says_of_a_failure(master: Calls) -> None:
    """Join again, or end with a code; without a master, with its own."""
    master.answers += [(200, {"then": "join"}), (200, {"then": "exit", "code": 137})]
    trainer = worker(master, ALLRANKS_MASTER_LOST_SECONDS="0")
    assert trainer.done(1, "why") is None
    assert 137 == trainer.done(137, "why")
    master.answers += [(500, {})]
    assert 5 == trainer.done(5, "why")


def test_a_program_named_without_a_master_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Outside of an elastic job."""
    monkeypatch.delenv("ALLRANKS_MASTER_ADDR", raising=False)
    assert 2 == WORKER.main(["train.py"])
    assert "names no master" in capsys.readouterr().err


def test_words_arrive_at_the_ranks_as_typed() -> None:
    """Dollars: torchrun halves them in all but a program that it starts itself."""
    assert ["train.py", "$$x"] == AGENT.as_typed(["train.py", "$x"], {})
    assert ["./a$b", "$$x"] == AGENT.as_typed(["./a$b", "$x"], {"PET_NO_PYTHON": "1"})


def test_the_marks_of_messages_are_the_ones_that_status_reads() -> None:
    """What a launcher writes first in a message, and what a reader looks for, are one."""
    ours = (names.FAILED_FIRST, names.PEER_LOST)
    assert ours == (FAILURES.FAILED_FIRST, FAILURES.PEER_LOST)
