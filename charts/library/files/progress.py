"""Hear from the ranks of a pod how far they are, and say it in the pod's log.

A launcher calls `start` before its ranks begin. From then on a thread listens on loopback, at a
port that the kernel chooses, for two kinds of words:

* Kubeflow Trainer's progress (its proposal 2779), which transformers sends of itself once
  KUBEFLOW_TRAINER_SERVER_URL is set: a training with its Trainer needs no change.
* Those of allranks_progress.py, which is put on PYTHONPATH in a folder of its own.

What comes in is written as one line to the pod's log, at most every ten seconds, where whoever may
read logs finds it (``allranks: progress {...}``): it needs no right, no sidecar and no port of the
pod's. Nothing that a rank sends can do harm: a body has a bound, what is no report is refused with
the reason, and the thread ends with its process. A refusal does no harm either: Kubeflow's clients
log it and train on.

Standard library; Python 3.8 or newer.
"""

from __future__ import annotations

import hmac
import json
import math
import os
import secrets
import shutil
import socketserver
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler
from pathlib import Path

LINE = "progress "  # what stands before the JSON, after "allranks: " (names.py has the whole)
EVERY_SECONDS = 10.0
SOON_SECONDS = 1.0  # between two lines where a checkpoint was saved
BODY_MAX = 64 << 10  # bytes
DIGITS_MAX = 15  # of a length
DRAIN_MAX = 1 << 20  # bytes of a body that is too long, read so that its sender hears the answer
REQUEST_SECONDS = 5.0
SHARE_SECONDS = 30.0  # between two looks at how long steps take elsewhere
RECENT_SECONDS = 120.0
SLOW_FACTOR, SLOW_MAX, SLOW_OF = 1.2, 3, 2  # of the median; told at most; among so many at least
CONNECTIONS_MAX = 64
METRICS_MAX, NAME_MAX = 16, 64  # of metrics that are told, and of a name's characters
# What is taken. Kubeflow's API has 64 characters for a name or value; transformers heeds no bound.
ENTRIES_MAX, TEXT_MAX, RANKS_MAX = 256, 256, 1 << 20
SHOWN_MAX = 40  # characters of a value that is refused
URL, TOKEN = "KUBEFLOW_TRAINER_SERVER_URL", "KUBEFLOW_TRAINER_SERVER_TOKEN"
TRAINER, RANKS = "/v1/trainer", "/v1/ranks"
# What transformers counts, under the names that it has here.
COUNTS = {"current_step": "step", "total_steps": "total", "current_epoch": "epoch"}


def number(value):
    """A number of a report, also of one in quotes; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    if isinstance(value, str) and len(value) > NAME_MAX:
        return None
    try:
        result = float(value)
    except (ValueError, OverflowError):
        return None
    if not math.isfinite(result) or abs(result) >= 2**53:
        return None
    return int(result) if result.is_integer() else result


def shown(value):
    """A value of somebody else's, as an answer has it: one short line."""
    text = ascii(value)
    return text if len(text) <= SHOWN_MAX else text[:SHOWN_MAX] + "..."


def within(name, value, most=math.inf):
    """A number of a report, from 0 to `most`; None where it is not said.

    Raises:
        ValueError: it is something else.
    """
    if value is None:
        return None
    result = number(value)
    if result is None:
        raise ValueError("%s is no number: %s" % (name, shown(value)))
    if not 0 <= round(result, 6) <= most:  # of a percent that was computed
        limit = "less than 0" if result < 0 else "more than %d" % most
        raise ValueError("%s is %s: %s" % (name, limit, shown(value)))
    return max(0, min(result, most))


def numbers(pairs):
    """The numbers among named values, as many as are told; a loss may be NaN, which is left out.

    Raises:
        ValueError: a name is none, or a value is neither a number nor a short text.
    """
    metrics = {}
    for name, value in pairs:
        if not isinstance(name, str) or not 0 < len(name) <= TEXT_MAX:
            raise ValueError(
                "the name of a metric is no text of 1 to %d characters: %s"
                % (TEXT_MAX, shown(name))
            )
        if not isinstance(value, (int, float, str)) or len(str(value)) > TEXT_MAX:
            raise ValueError(
                "metric %s is no number and no text of up to %d characters: %s"
                % (shown(name), TEXT_MAX, shown(value))
            )
        measured = number(value)
        if measured is not None and len(metrics) < METRICS_MAX:
            metrics[name[:NAME_MAX]] = measured
    return metrics


def of_trainer(body):
    """The report in a body of Kubeflow Trainer's protocol.

    Raises:
        ValueError: it is none.
    """
    status = body.get("trainerStatus") if isinstance(body, dict) else None
    if not isinstance(status, dict):
        raise ValueError("trainerStatus is missing")  # noqa: TRY004 - what the sender reads
    entries = status.get("metrics")
    if entries is None:
        entries = []
    if not isinstance(entries, list) or len(entries) > ENTRIES_MAX:
        raise ValueError("metrics is no list of at most %d" % ENTRIES_MAX)
    for entry in entries:
        if not isinstance(entry, dict):
            raise ValueError("metrics has what is no object: %s" % shown(entry))  # noqa: TRY004
    pairs = [(metric.get("name"), metric.get("value")) for metric in entries]
    counts = numbers([pair for pair in pairs if pair[0] in tuple(COUNTS)])
    report = {COUNTS[name]: value for name, value in counts.items() if value >= 0}
    report["metrics"] = numbers([pair for pair in pairs if pair[0] not in tuple(COUNTS)])
    percent, eta = status.get("progressPercentage"), status.get("estimatedRemainingSeconds")
    report["percent"] = within("progressPercentage", percent, 100)
    report["eta"] = within("estimatedRemainingSeconds", eta)
    return {key: value for key, value in report.items() if value not in (None, {})}


def of_rank(body):
    """The rank and the report in a body of allranks_progress.py.

    Raises:
        ValueError: it is none.
    """
    rank = body.get("rank") if isinstance(body, dict) else None
    if isinstance(rank, bool) or not isinstance(rank, int) or not 0 <= rank < RANKS_MAX:
        raise ValueError("rank is missing, or is no rank: %s" % shown(rank))
    keys = ("step", "total", "epoch", "epochs", "eta", "saved", "seconds", "work")
    report = {key: within(key, body.get(key)) for key in keys}
    report["percent"] = within("percent", body.get("percent"), 100)
    metrics = body.get("metrics")
    if metrics is not None and not isinstance(metrics, dict):
        raise ValueError("metrics is no object: %s" % shown(metrics))
    report["metrics"] = numbers((metrics or {}).items())
    return rank, {key: value for key, value in report.items() if value not in (None, {})}


class ProgressHandler(BaseHTTPRequestHandler):
    """One connection of a rank's."""

    protocol_version = "HTTP/1.0"  # one request for each connection: none is held open
    timeout = REQUEST_SECONDS

    def log_message(self, *_):
        """Say nothing: the log is the training's."""

    def do_POST(self):
        """Take a report."""
        length = self.headers.get("Content-Length", "")
        size = (
            int(length)
            if length.isascii() and length.isdigit() and len(length) <= DIGITS_MAX
            else -1
        )
        if not 0 <= size <= BODY_MAX:
            self._drain(size)
            if size < 0:
                self._answer(411, "Content-Length is no number of bytes")
            else:
                self._answer(413, "a report has at most %d bytes" % BODY_MAX)
            return
        token = self.headers.get("Authorization", "")
        if not hmac.compare_digest(token.encode(), b"Bearer " + self.server.token.encode()):
            self._answer(401, "the token is another: it is in the file that $%s names" % TOKEN)
            return
        try:
            content = self.rfile.read(size)
            if self.path not in (TRAINER, RANKS):
                self._answer(404, "reports go to %s" % TRAINER)
                return
            self._take(content)
        except (ValueError, RecursionError) as error:
            self._answer(400, str(error))
            return
        self._answer(200)

    def _take(self, content):
        try:
            body = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise ValueError("the body is no JSON") from error
        if self.path == RANKS:
            self.server.take_of_rank(*of_rank(body))
            return
        report = of_trainer(body)
        if report:
            self.server.take(report)

    def _drain(self, size):
        bytes_left = min(size, DRAIN_MAX)
        while bytes_left > 0:
            data = self.rfile.read(min(bytes_left, BODY_MAX))
            bytes_left -= len(data) or bytes_left

    def _answer(self, code, error=""):
        content = json.dumps({"error": error} if error else {}).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


class ProgressServer(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """Listens on loopback; knows what was reported last."""

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = False
    request_queue_size = CONNECTIONS_MAX

    def __init__(self, token, say, every=EVERY_SECONDS):
        """Listen, at a port that nobody has."""
        super().__init__(("127.0.0.1", 0), ProgressHandler)
        self.token = token
        self._say, self._every = say, every
        self._changed = threading.Condition()
        self._telling = threading.Lock()
        self._report, self._ranks, self._saves = {}, {}, {}
        self._is_new, self._at_once, self._written_at = False, False, -math.inf
        self._places = threading.BoundedSemaphore(CONNECTIONS_MAX)

    def process_request(self, request, client_address):
        """Serve a connection in a thread of its own; one too many is closed."""
        if not self._places.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request, client_address):
        """Serve a connection, and give its place back."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, *_):
        """A rank that goes in the middle of a request is no error of this pod's."""

    def take(self, report):
        """Take what rank 0 says of the training."""
        with self._changed:
            saved = report.get("saved")
            self._at_once |= saved is not None and saved != self._report.get("saved")
            self._report = {**self._report, **report}
            self._is_new = True
            self._changed.notify()

    def take_of_rank(self, rank, report):
        """Take what a rank says; the training's is rank 0's, and any rank's save is the training's.

        A rank that began anew counts from an earlier step: what it says now holds. It repeats its
        last save in all that it says later, which is no news, and may be older than another's.
        """
        seconds, work = report.pop("seconds", None), report.pop("work", None)
        with self._changed:
            if "saved" in report and report["saved"] == self._saves.get(rank):
                del report["saved"]
            elif "saved" in report:
                self._saves[rank] = report["saved"]
            if seconds is not None:
                self._ranks[rank] = (seconds, work, time.monotonic())
        if rank == 0:
            steps_left = report.get("total", 0) - report.get("step", 0)
            if seconds and "eta" not in report and steps_left >= 0 and "total" in report:
                report["eta"] = round(steps_left * seconds)
            self.take(report)
        elif "saved" in report:
            self.take({"saved": report["saved"]})

    def rank_times(self, newer_than=60.0):
        """Seconds per step of this pod's ranks: {rank: (seconds, own seconds or None)}."""
        now = time.monotonic()
        with self._changed:
            items = list(self._ranks.items())
        return {rank: times[:2] for rank, times in items if now - times[2] < newer_than}

    def tell_always(self):
        """Write a line for what is new, not too often; never returns."""
        while True:
            with self._changed:
                while not self._is_new:
                    self._changed.wait()
                every = min(self._every, SOON_SECONDS) if self._at_once else self._every
                pause = self._written_at + every - time.monotonic()
                if pause > 0:
                    self._changed.wait(pause)
                    continue
            self.tell()

    def tell(self, **more):
        """Write a line now, if anything is new or `more` is to be said."""
        with self._telling:  # so that the last line has the last word
            with self._changed:
                if not (self._is_new or (more and self._report)):
                    return
                self._report.update(more)
                self._is_new = self._at_once = False
                self._written_at = time.monotonic()
                report = dict(self._report, at=int(time.time()))
            self._say(LINE + json.dumps(report))


def own_seconds(times):
    """Seconds of each rank's own part of a step, of (step, own part or None) by rank.

    Where no rank says its own part, it is the whole step: the same for all in synchronous training.
    """
    own = {rank: pair[1] for rank, pair in times.items() if pair[1] is not None}
    return own or {rank: pair[0] for rank, pair in times.items()}


def slowest(nodes):
    """The slowest ranks of a job, with how many times as long as the median each takes.

    Args:
        nodes: of each node its pod, and the seconds by rank.

    Returns:
        The slowest few that are slower than most, the slowest first.
    """
    ranks = [(own, int(rank), pod) for pod, seconds in nodes for rank, own in seconds.items()]
    if len(ranks) < SLOW_OF:
        return []
    ranks.sort(key=lambda entry: (-entry[0], entry[1]))
    # Of an even number the slower one, so that no half of the ranks is slow; of two the faster one.
    median = ranks[1 if len(ranks) == SLOW_OF else (len(ranks) - 1) // 2][0]
    if median <= 0:
        return []
    return [
        {"rank": rank, "pod": pod, "factor": round(own / median, 2), "seconds": round(own, 4)}
        for own, rank, pod in ranks[:SLOW_MAX]
        if own >= SLOW_FACTOR * median
    ]


class Sharing:
    """How long the steps of each node's ranks take, in the store of the rendezvous."""

    def __init__(self, server, attempt, pod):
        """Of this pod; `attempt` gives the present attempt of failures.py, or None."""
        self._server, self._attempt, self._pod = server, attempt, pod
        self._has_slow_ranks = False

    def run(self, seconds=SHARE_SECONDS):
        """Share for ever; a store that is gone is tried again."""
        while True:
            time.sleep(seconds)
            try:
                self.share()
            except Exception:  # noqa: BLE001 S112 - a training never fails for want of this
                continue

    def share(self):
        """Write this node's; on node 0, read all and say who is slow."""
        attempt = self._attempt()
        if attempt is None:
            return
        seconds = own_seconds(self._server.rank_times(RECENT_SECONDS))
        if seconds:
            attempt.board.tell_steps(attempt.node, json.dumps([self._pod, seconds]))
        if attempt.node != 0 or not seconds:
            return
        slow = slowest([json.loads(text) for text in attempt.board.steps(attempt.nodes)])
        if slow or self._has_slow_ranks:
            self._has_slow_ranks = bool(slow)
            self._server.take({"slow": slow})


class Progress:
    """The progress of this pod's ranks, from here to the end of the launcher."""

    def __init__(self, server, folder):
        """With a server that listens already, and the folder of what the ranks are given."""
        self.server, self.folder = server, folder

    def ask_to_save(self, env, say):
        """Have the ranks save by the file that they look at: this pod is about to end.

        In a thread of its own, as a handler of a signal may have stopped who writes a line.
        """
        threading.Thread(target=self._ask_to_save, args=(env, say), daemon=True).start()

    def _ask_to_save(self, env, say):
        self.server.tell(stopping=True)
        file = Path(env["ALLRANKS_SAVE_FILE"])
        new = file.with_name("save.launcher")
        try:
            new.write_text("%d stop\n" % time.time_ns(), encoding="utf-8")
            new.replace(file)
        except OSError as error:
            say("the ranks are not told to save by their file: %s" % error)

    def share(self, attempt, pod):
        """Tell the other nodes how long steps take here, from now on; see `Sharing`."""
        sharing = Sharing(self.server, attempt, pod)
        threading.Thread(target=sharing.run, daemon=True).start()

    def finish(self):
        """Say what is left; the ranks have ended."""
        self.server.tell()

    def remove(self):
        """Take the folder away."""
        shutil.rmtree(str(self.folder), ignore_errors=True)


def first_folder(candidates):
    """The first of some folders that this user can write to, made; None where there is none."""
    for path in candidates:
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=str(path)):
                return path
        except OSError:
            continue
    return None


def start(env, say, every=EVERY_SECONDS):
    """Listen, and tell the ranks where, by `env`; what the user has set there stays.

    Args:
        env: what the ranks inherit. Without ALLRANKS_PROGRESS, which the chart sets, nothing is
            done, nor where the user has set it to `off`.
        say: writes one line to the pod's log.
        every: seconds between two lines.

    Returns:
        The progress; None where there is none. A training never fails for want of it.
    """
    setting = env.get("ALLRANKS_PROGRESS", "")
    if setting in ("", "off"):
        return None
    other = Path(tempfile.gettempdir()) / "allranks"
    folder = first_folder([Path(setting), other])
    if folder is None:
        say("progress is not shown: neither %s nor %s can be written" % (setting, other))
        return None
    try:
        server = ProgressServer(secrets.token_hex(16), say, every)
        port = server.server_address[1]
        token = folder / ("token-%d" % port)
        with open(str(token), "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.write(server.token)
        if (folder / "save").exists():
            (folder / "save").unlink()  # asked of ranks that have ended
        modules = folder / "python"
        modules.mkdir(exist_ok=True)
        helper = modules / "allranks_progress.py"
        if not helper.exists():
            shutil.copyfile(str(Path(__file__).with_name("allranks_progress.py")), str(helper))
    except OSError as error:
        say("progress is not shown: %s" % error)
        return None
    threading.Thread(target=server.serve_forever, args=(60.0,), daemon=True).start()
    threading.Thread(target=server.tell_always, daemon=True).start()
    base = "http://127.0.0.1:%d" % port
    path = env.get("PYTHONPATH", "")
    if str(modules) not in path.split(os.pathsep):
        # An empty part of a path is the folder that a program starts in, and stays.
        env["PYTHONPATH"] = path + os.pathsep + str(modules) if path else str(modules)
    # A launcher that starts over finds what it has set itself, and no word of the user's.
    own = env.get("ALLRANKS_PROGRESS_URL", "")
    is_own = bool(own) and env.get(URL) == own[: -len(RANKS)] + TRAINER
    is_off = env.get("DISABLE_KUBEFLOW_INTEGRATION", "").upper() == "TRUE"
    if not is_off and (URL not in env or is_own):
        env[URL], env[TOKEN] = base + TRAINER, str(token)
    env["ALLRANKS_SAVE_FILE"] = str(folder / "save")
    env["ALLRANKS_PROGRESS_URL"], env["ALLRANKS_PROGRESS_TOKEN"] = base + RANKS, str(token)
    return Progress(server, folder)
