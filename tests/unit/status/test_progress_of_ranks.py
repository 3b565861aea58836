"""What ranks say of a training, from their words to a run's status."""

from __future__ import annotations

import http.client
import json
import os
import socket
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import pytest

from allranks import names
from allranks.cli import status_view
from allranks.model.status import ContainerStatus, Phase, PodPhase, PodStatus, RunStatus
from allranks.status import progress
from allranks.sweep import metrics
from allranks.sweep.model import MetricsSpec
from tests.modules import load

FILES = Path(__file__).parents[3] / "charts/library/files"


LAUNCHER, RANK = load(FILES / "progress.py"), load(FILES / "allranks_progress.py")


class Pod:
    """A launcher with its log, and the environment of its ranks."""

    def __init__(self, folder: Path, **env: str) -> None:
        self.env = {"ALLRANKS_PROGRESS": str(folder / "progress"), **env}
        self.log: list[str] = []
        self.channel = LAUNCHER.start(self.env, self._say, every=0.0)

    def _say(self, text: str) -> None:
        self.log.append(f"allranks: {text}")

    def report(self) -> dict[str, Any] | None:
        """What a status reads of the log."""
        if self.channel is not None:
            self.channel.finish()
        return progress.last_progress(self.log)

    def post(self, body: bytes, path: str = "", **headers: str) -> int:
        """Send a body to the launcher; return the code of its answer."""
        return self.answer(body, path, **headers)[0]

    def answer(self, body: bytes, path: str = "", **headers: str) -> tuple[int, str]:
        """Send a body to the launcher; return the code of its answer, and why it refuses."""
        url = urlsplit(self.env["KUBEFLOW_TRAINER_SERVER_URL"])
        token = Path(self.env["KUBEFLOW_TRAINER_SERVER_TOKEN"]).read_text("utf-8")
        connection = http.client.HTTPConnection(url.hostname or "", url.port, timeout=30)
        fields = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        connection.request("POST", path or url.path, body, fields | headers)
        response = connection.getresponse()
        content = json.loads(response.read())
        connection.close()
        assert content.keys() <= {"error"}
        return response.status, content.get("error", "")


@pytest.fixture
def pod(tmp_path: Path) -> Pod:
    """A pod whose user has set nothing."""
    return Pod(tmp_path)


# As transformers 5.24 sends it, in the middle of a training.
OF_TRANSFORMERS = {
    "trainerStatus": {
        "lastUpdatedTime": "2026-11-25T13:21:05.117342+00:00",
        "progressPercentage": 60,
        "estimatedRemainingSeconds": 500,
        "metrics": [
            {"name": "loss", "value": "1.169"},
            {"name": "grad_norm", "value": "2.569"},
            {"name": "current_step", "value": "12"},
            {"name": "total_steps", "value": "20"},
            {"name": "current_epoch", "value": "0.94"},
        ],
    }
}


def test_a_training_with_transformers_says_how_far_it_is_by_itself(pod: Pod) -> None:
    """Its callback's request becomes percent, time left and metrics, in `status`, `top`, sweeps."""
    assert pod.post(json.dumps(OF_TRANSFORMERS).encode()) == 200
    report = pod.report()
    assert report is not None
    assert (report["percent"], report["step"], report["total"]) == (60.0, 12, 20)
    assert (report["text"], report["eta"]) == ("step 12 of 20 (60%)", 500)
    assert status_view.progress_words(report) == [
        "step 12 of 20 (60%), 8m20s left",
        "loss 1.169, grad_norm 2.569",
    ]
    run = RunStatus("demo", "research", Phase.RUNNING, progress=report)
    assert status_view.progress_cell(run) == "60% 8m20s"
    assert RunStatus.from_dict(json.loads(json.dumps(run.as_dict()))) == run
    measures = list(metrics.parse(pod.log, MetricsSpec()))
    assert [(measure.name, measure.value, measure.step) for measure in measures] == [
        ("loss", 1.169, 12),
        ("grad_norm", 2.569, 12),
    ]


def test_any_loop_says_it_in_two_lines(pod: Pod) -> None:
    """Rank 0's word is shown, that of others is not; a save is any rank's."""
    first = RANK.ProgressReporter({**pod.env, "RANK": "0"})
    other = RANK.ProgressReporter({**pod.env, "RANK": "3"})
    first.say({"step": 5, "total": 50}, {"loss": 0.25, "odd": object()})
    other.say({"step": 4, "total": 50}, {"loss": 9.0})
    assert first.flush()
    assert other.flush()
    report = pod.report()
    assert report is not None
    assert (report["text"], report["metrics"]) == ("step 5 of 50 (10%)", {"loss": 0.25})
    other.say({"saved": 4}, {})
    assert other.flush()
    assert status_view.progress_words(pod.report() or {})[-1] == "saved at step 4"
    killed = status_view.progress_words(pod.report() or {}, killed=True)
    assert killed[-2:] == ["saved at step 4", "killed before it had saved again"]


def test_a_save_is_said_once(pod: Pod) -> None:
    """A rank sends its last save with all that it says later; the log has a line for each save.

    Nor does it take the place of a newer one of another rank's.
    """
    assert pod.channel is not None
    path = urlsplit(pod.env["ALLRANKS_PROGRESS_URL"]).path
    reports = [(3, 4), (3, 4), (0, 8), (3, 4), (0, 8), (3, 9), (3, 9), (3, 4)]
    saves = []
    for rank, saved in reports:
        before = len(pod.log)
        assert pod.post(json.dumps({"rank": rank, "saved": saved}).encode(), path) == 200
        pod.channel.server.tell()
        lines = [line.removeprefix(names.PROGRESS_LINE) for line in pod.log[before:]]
        saves.append([json.loads(line)["saved"] for line in lines])
    assert saves == [[4], [], [8], [], [8], [9], [], [4]]


def test_a_stall_is_part_of_the_progress_until_the_next_line() -> None:
    """A launcher that sees no rank go on says so in a line of its own, and that they go on."""
    line = names.PROGRESS_LINE + '{"step": 7, "total": 9, "at": 1}'
    stalls = names.PROGRESS_LINE + '{"standstill": "rank 1 sleeps", "at": 2}'
    goes_on = names.PROGRESS_LINE + '{"standstill": "", "at": 3}'
    report = progress.last_progress([line, stalls])
    assert report is not None
    assert (7, "rank 1 sleeps") == (report["step"], report["standstill"])
    assert progress.last_progress([line, stalls, goes_on]) == progress.last_progress([line])
    assert "standstill" not in (progress.last_progress([stalls, line]) or {})
    assert {"standstill": "rank 1 sleeps"} == progress.last_progress([stalls])
    assert None is progress.last_progress([stalls, goes_on])


@pytest.mark.parametrize(
    ("report", "words"),
    [
        ({"step": 7}, ["killed before it had reported a save"]),
        ({"step": 7, "stopping": True}, ["told to stop, and killed before it had saved"]),
        ({"step": 7, "saved": 7}, ["saved at step 7, then killed"]),
        ({"step": 7, "saved": 7, "stopping": True}, ["saved at step 7 before it was told to stop"]),
        (
            {"step": 7, "saved": 5, "stopping": True},
            ["saved at step 5", "told to stop, and killed before it had saved again"],
        ),
    ],
)
def test_what_was_killed_is_said_to_be_saved_or_not(
    report: dict[str, Any], words: list[str]
) -> None:
    """SIGKILL at the end of a run, for memory or because its time was over, saves nothing."""
    assert words == status_view.progress_words(report, killed=True)
    ended = ContainerStatus("trainer", "terminated", exit_code=137)
    pod = PodStatus("demo-0", "node", 0, PodPhase.FAILED, containers=(ended,))
    assert status_view.was_killed(RunStatus("demo", "lab", Phase.FAILED, pods=(pod,)))
    assert not status_view.was_killed(RunStatus("demo", "lab", Phase.RUNNING, pods=(pod,)))


def test_what_has_ended_has_no_time_left_and_a_name_is_one_line() -> None:
    """Whatever a program calls its numbers, it writes no line of ours."""
    progress_line = {"step": 75, "total": 100, "eta": 5, "metrics": {"a\nallranks: error: b": 7}}
    report = progress.form(progress_line)
    assert report is not None
    assert status_view.progress_words(report)[0].endswith("(75%), 5s left")
    words = ["step 75 of 100 (75%)", r"a\nallranks: error: b 7"]
    assert words == status_view.progress_words(report, finished=True)


@pytest.mark.parametrize(
    ("body", "headers", "code"),
    [
        (b"rubbish", {}, 400),
        (b"[" * 60_000, {}, 400),
        (b"[]", {}, 400),
        (b'{"trainerStatus": []}', {}, 400),
        (b'{"trainerStatus": {"metrics": 7}}', {}, 400),
        (b"\xff\xfe", {}, 400),
        (b"x" * 100_000, {}, 413),
        (b"", {"Content-Length": str(1 << 30)}, 413),
        (b"", {"Content-Length": "many"}, 411),
        (b"", {"Content-Length": "9" * 5000}, 411),
        (b"{}", {"Authorization": "Bearer guess"}, 401),
        (b"{}", {"Authorization": "Bearer \xe9"}, 401),
    ],
)
def test_rubbish_and_gigabytes_are_refused_without_harm(
    pod: Pod, body: bytes, headers: dict[str, str], code: int
) -> None:
    """Each is answered, nothing of it is shown, and the next report is heard."""
    if headers.get("Content-Length") == str(1 << 30):
        # The sender goes in the middle of it, as one that hangs up.
        url = urlsplit(pod.env["KUBEFLOW_TRAINER_SERVER_URL"])
        with socket.create_connection((url.hostname, url.port)) as connection:
            head = f"POST {url.path} HTTP/1.1\r\nContent-Length: {1 << 30}\r\n\r\n"
            connection.sendall(head.encode() + b"x" * 70_000)
    else:
        answer, reason = pod.answer(body, **headers)
        assert answer == code
        assert 0 < len(reason) < 200
        assert reason.isprintable()
    assert pod.report() is None
    assert pod.post(json.dumps(OF_TRANSFORMERS).encode()) == 200
    assert pod.report() is not None


def test_numbers_that_no_status_takes_are_left_out(pod: Pod) -> None:
    """What transformers may send is taken, and told as far as the API server takes it.

    A loss that is NaN, a number in words, a long name, more metrics than are told.
    """
    status = OF_TRANSFORMERS["trainerStatus"]
    entries: list[Any] = [{"name": f"m{number}", "value": str(number)} for number in range(100)]
    entries[:0] = [{"name": "loss", "value": "nan"}, {"name": "x" * 99, "value": "True"}]
    entries += [{"name": "total_steps", "value": "-1"}]
    assert pod.post(json.dumps({"trainerStatus": {**status, "metrics": entries}}).encode()) == 200
    report = pod.report()
    assert report is not None
    json.dumps(report, allow_nan=False)
    assert len(report["metrics"]) == 16
    assert not {"loss", "total"} & {*report, *report["metrics"]}


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ('{"progressPercentage": "x"}', "progressPercentage is no number: 'x'"),
        ('{"progressPercentage": 500}', "progressPercentage is more than 100: 500"),
        ('{"progressPercentage": -1}', "progressPercentage is less than 0: -1"),
        ('{"progressPercentage": NaN}', "progressPercentage is no number: nan"),
        ('{"progressPercentage": 1e999}', "progressPercentage is no number: inf"),
        ('{"progressPercentage": true}', "progressPercentage is no number: True"),
        ('{"progressPercentage": [1]}', "progressPercentage is no number: [1]"),
        ('{"estimatedRemainingSeconds": -5}', "estimatedRemainingSeconds is less than 0: -5"),
        ('{"metrics": {"loss": 1}}', "metrics is no list of at most 256"),
        ('{"metrics": [7]}', "metrics has what is no object: 7"),
        ('{"metrics": [{"name": "loss"}]}', "metric 'loss' is no number and no text of"),
        ('{"metrics": [{"name": "loss", "value": {}}]}', "metric 'loss' is no number and no text"),
        ('{"metrics": [{"name": [], "value": "1"}]}', "the name of a metric is no text of 1 to"),
        (
            json.dumps({"metrics": [{"name": "\n" * 10_000, "value": "1"}]}),
            "the name of a metric is no text of 1 to 256 characters: '\\n\\n",
        ),
        (json.dumps({"metrics": [{"name": "m", "value": "1"}] * 257}), "metrics is no list of at"),
    ],
)
def test_what_is_no_progress_is_refused_with_the_reason(pod: Pod, status: str, reason: str) -> None:
    """In one line, with what was given; `status` shows the last report that was one."""
    assert pod.post(json.dumps(OF_TRANSFORMERS).encode()) == 200
    before = pod.report()
    code, answer = pod.answer(f'{{"trainerStatus": {status}}}'.encode())
    assert (code, answer[: len(reason)]) == (400, reason)
    assert len(answer) < 200
    assert answer.isprintable()
    assert pod.report() == before


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ([], "rank is missing, or is no rank: None"),
        ({"rank": True}, "rank is missing, or is no rank: True"),
        ({"rank": 1 << 60}, "rank is missing, or is no rank: 1152921504606846976"),
        ({"rank": 0, "step": "soon"}, "step is no number: 'soon'"),
        ({"rank": 0, "step": -3}, "step is less than 0: -3"),
        ({"rank": 0, "percent": 101}, "percent is more than 100: 101"),
        ({"rank": 0, "metrics": [1]}, "metrics is no object: [1]"),
    ],
)
def test_what_a_rank_says_wrongly_is_refused_with_the_reason(
    pod: Pod, body: object, reason: str
) -> None:
    """Of our own helper as of Kubeflow's clients; what it says next is heard."""
    path = urlsplit(pod.env["ALLRANKS_PROGRESS_URL"]).path
    assert pod.answer(json.dumps(body).encode(), path) == (400, reason)
    assert pod.report() is None
    posted = {"rank": 0, "step": 4, "percent": 100.0000001, "metrics": {"loss": float("nan")}}
    assert pod.answer(json.dumps(posted).encode(), path) == (200, "")
    assert (pod.report() or {})["text"] == "step 4 (100%)"


def test_a_refusal_is_said_once_and_harms_no_training(
    pod: Pod, capsys: pytest.CaptureFixture[str]
) -> None:
    """The helper forgets what was refused, keeps a save that was said with it, and goes on."""
    reporter = RANK.ProgressReporter({**pod.env, "RANK": "0"})
    for percent in (400, 500):
        reporter.say({"percent": percent, "saved": 7}, {})
        assert reporter.flush()
    reason = "a report of progress was refused: percent is more than 100: 400"
    assert f"allranks: {reason}\n" == capsys.readouterr().err
    reporter.say({"step": 8}, {})
    assert reporter.flush()
    report = pod.report()
    assert report is not None
    assert (8, 7) == (report["step"], report["saved"])


def test_what_the_user_has_set_stays(tmp_path: Path) -> None:
    """A Kubeflow of the user's own is told, and who switched the integration off is not asked."""
    own = Pod(tmp_path / "own", KUBEFLOW_TRAINER_SERVER_URL="https://trainer/status")
    assert own.env["KUBEFLOW_TRAINER_SERVER_URL"] == "https://trainer/status"
    off = Pod(tmp_path / "off", DISABLE_KUBEFLOW_INTEGRATION="true", PYTHONPATH="/mine")
    assert "KUBEFLOW_TRAINER_SERVER_URL" not in off.env
    python = tmp_path / "off/progress/python"
    assert off.env["PYTHONPATH"].split(os.pathsep) == ["/mine", str(python)]
    assert [path.name for path in python.iterdir()] == ["allranks_progress.py"]
    # A launcher that starts over in the same process listens at another port.
    again = Pod(tmp_path / "again")
    before = again.env["KUBEFLOW_TRAINER_SERVER_URL"]
    assert LAUNCHER.start(again.env, again._say) is not None
    assert again.env["KUBEFLOW_TRAINER_SERVER_URL"] != before
    assert again.env["PYTHONPATH"].count("python") == Pod(tmp_path / "x").env["PYTHONPATH"].count(
        "python"
    )


@pytest.mark.parametrize(("path", "parts"), [(":/mine", ["", "/mine"]), ("/a:", ["/a", ""])])
def test_an_empty_part_of_the_users_path_stays(tmp_path: Path, path: str, parts: list[str]) -> None:
    """It is the folder that a program starts in, from which `python src/a.py` imports."""
    pod = Pod(tmp_path / "pod", PYTHONPATH=path)
    python = tmp_path / "pod/progress/python"
    assert pod.env["PYTHONPATH"].split(os.pathsep) == [*parts, str(python)]


def test_a_pod_that_can_write_nowhere_trains_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read-only /dev/shm is told once, and the folder for temporary files is tried before."""
    (tmp_path / "file").write_text("")
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(LAUNCHER.tempfile, "gettempdir", lambda: str(tmp_path / "tmp"))
    pod = Pod(tmp_path / "file")
    assert pod.env["PYTHONPATH"] == str(tmp_path / "tmp/allranks/python")
    monkeypatch.setattr(LAUNCHER.tempfile, "gettempdir", lambda: str(tmp_path / "file"))
    pod = Pod(tmp_path / "file")
    assert len(pod.log) == 1
    assert "progress is not shown" in pod.log[0]
    assert "KUBEFLOW_TRAINER_SERVER_URL" not in pod.env


def test_lines_come_now_and_then_and_a_save_at_once() -> None:
    """However often a rank reports, the log gets the first word, and the last."""
    log: list[str] = []
    server = LAUNCHER.ProgressServer("token", log.append, every=3600.0)
    thread = threading.Thread(target=server.tell_always, daemon=True)
    for step in range(500):
        server.take({"step": step})
    thread.start()
    server.tell()
    server.take({"step": 500})
    server.tell()
    server.server_close()
    assert len(log) <= 2
    assert '"step": 500' in log[-1]


def test_outside_of_a_job_the_helper_does_nothing() -> None:
    """No thread, no line, no error: the same script runs on a laptop."""
    reporter = RANK.ProgressReporter({})
    assert not reporter.active
    before = threading.active_count()
    RANK.report(step=1, total=2, loss=0.5)
    RANK.saved(1)
    with RANK.work():
        pass
    assert threading.active_count() == before


def test_a_rank_saves_once_for_each_request_and_once_more_as_its_pod_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was asked before it began is no news; pods that are told one after the other are one."""
    monkeypatch.setattr(RANK, "LOOK_SECONDS", 0.0)
    file = tmp_path / "save"
    second = 10**9

    def ask(at: int, word: str = "") -> None:
        (tmp_path / "new").write_text(f"{at * second} {word}\n")
        (tmp_path / "new").replace(file)

    ask(100)
    saves = RANK.Saves({"ALLRANKS_SAVE_FILE": str(file)})
    assert [saves.should(), saves.should()] == [False, False]
    ask(200)
    assert [saves.should(), saves.should()] == [True, False]
    ask(205)
    assert not saves.should()
    file.write_text("rubbish")
    assert not saves.should()
    ask(206, "stop")
    assert [saves.should(), saves.should(), saves.stopping] == [True, False, True]
    assert not RANK.Saves({}).should()


def test_a_rank_that_is_alone_looks_for_a_request_ten_times_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its steps may be short; a signal is no file, and the next call answers to it."""
    now = 50.0
    monkeypatch.setattr(RANK.time, "monotonic", lambda: now)
    monkeypatch.setattr(RANK.signal, "signal", lambda *_: None)
    saves = RANK.Saves({"ALLRANKS_SAVE_FILE": str(tmp_path / "save")})
    assert not saves.should()
    (tmp_path / "save").write_text("1000000000000")
    now += 0.09
    assert not saves.should()
    now += 0.02
    assert saves.should()
    saves._on_sigterm()
    assert [saves.should(), saves.stopping] == [True, True]


class Board:
    """The store of a rendezvous, as far as steps are written there."""

    def __init__(self) -> None:
        self.texts: dict[int, str] = {}

    def tell_steps(self, node: int, text: str) -> None:
        """Write a node's."""
        self.texts[node] = text

    def steps(self, nodes: int) -> list[bytes]:
        """Read those of all nodes."""
        return [self.texts[node].encode() for node in range(nodes) if node in self.texts]


def test_a_slow_rank_is_named_with_its_node_and_factor(tmp_path: Path) -> None:
    """Each node's launcher shares the times of its ranks, and rank 0's says who is slow."""
    board = Board()
    pods = [Pod(tmp_path / str(node)) for node in range(4)]
    for node, pod in reversed(list(enumerate(pods))):
        for local in range(2):
            rank = 2 * node + local
            body = {"rank": rank, "step": 9, "seconds": 1.0, "work": 0.9 if rank == 5 else 0.5}
            path = urlsplit(pod.env["ALLRANKS_PROGRESS_URL"]).path
            assert pod.post(json.dumps(body).encode(), path) == 200
        attempt = SimpleNamespace(node=node, nodes=4, board=board)
        LAUNCHER.Sharing(pod.channel.server, lambda attempt=attempt: attempt, f"big-{node}").share()
    report = pods[0].report()
    assert report is not None
    for name in ("big-2", "big-2-x7k2p"):  # a pod of a Job knows its host's name, not its own
        nodes = {"big-1-abcde": "b1", name: "b2", "big-2-1-abcde": "b3"}
        assert progress.stragglers(report, nodes) == [
            f"rank 5 (pod {name}, node b2) takes 1.8 times as long as the others for a step: 0.9 s"
        ]
    assert progress.stragglers(report, {"big-2": "b2"}) == [
        "rank 5 (pod big-2, node b2) takes 1.8 times as long as the others for a step: 0.9 s"
    ]
    assert pods[1].report() is None


@pytest.mark.parametrize(
    ("seconds", "slow"),
    [
        ([], []),
        ([0.5], []),
        ([0.5, 0.5], []),
        ([0.5, 1.0], [1]),
        ([0.5, 0.55, 0.5, 0.5], []),
        ([0.0, 0.0, 1.0], []),
        ([0.5, 0.5, 2.0, 0.5, 1.0, 0.5, 0.5, 3.0], [7, 2, 4]),
        ([1.0, 1.0, 0.1, 0.1], []),
    ],
)
def test_ranks_are_slow_against_the_median(seconds: list[float], slow: list[int]) -> None:
    """Few slow ones are named, the slowest first; where half of all are, none is."""
    slowest = LAUNCHER.slowest([("pod", {str(rank): own for rank, own in enumerate(seconds)})])
    assert [entry["rank"] for entry in slowest] == slow


def test_what_is_said_of_slow_ranks_is_bounded() -> None:
    """A program may write any line to its log: what is no rank is left out."""
    progress_line = {
        "step": 1,
        "slow": [7, {"rank": "x"}, {"rank": 1, "pod": "p" * 900, "factor": 2, "seconds": 1}],
    }
    report = progress.form(progress_line)
    assert report is not None
    assert [len(entry["pod"]) for entry in report["slow"]] == [200]
    assert "slow" not in (progress.form({"step": 1, "slow": "all"}) or {})


def test_where_no_launcher_listens_rank_0_writes_the_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Ranks of mpirun: the line is the same, and whatever mpirun puts before it is read over."""
    for rank in ("0", "1"):
        reporter = RANK.ProgressReporter({"ALLRANKS_PROGRESS": "log", "OMPI_COMM_WORLD_RANK": rank})
        reporter.say({"step": 2, "total": 4}, {})
        reporter.close()
    lines = [f"[1,0]<stderr>: {line}" for line in capsys.readouterr().err.splitlines()]
    assert len(lines) == 1
    report = progress.last_progress(lines)
    assert report is not None
    assert report["percent"] == 50.0
