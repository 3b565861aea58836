"""Say how far a training is, from any loop: two lines.

    from allranks_progress import report

    for step, batch in enumerate(loader, 1):
        ...
        report(step=step, total=len(loader), loss=loss)

`allranks status`, `top` and sweeps then show the percent, the time that is left and the metrics.
Every rank calls it; what rank 0 says is shown, and of the others how long their steps take. Nothing
here slows or stops a training: a call stores a few numbers, one background thread sends them every
two seconds, and nobody who is away is waited for. Outside of a job of allranks it does nothing.

In synchronous training all ranks finish a step together, however slow one of them is. To have the
slow one named, put what a rank does by itself (loading, the forward pass) under `work`:

    with work():
        output = model(batch)

To save when `allranks checkpoint` asks, and before the pod ends:

    if should_save():
        if rank == 0:
            torch.save(...)
        saved(step)

A training with transformers' Trainer reports without any of this; `callback()` adds the saves.

Standard library; Python 3.8 or newer.
"""

from __future__ import annotations

import collections
import contextlib
import http.client
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

INTERVAL_SECONDS = 2.0
LINE_SECONDS = 10.0
TIMEOUT_SECONDS = 5.0
ANSWER_MAX = 4096  # bytes of a refusal
CALLS_MAX = 1 << 14  # in an interval; of more the oldest are forgotten
_RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "JOB_COMPLETION_INDEX")
SAME_NANOSECONDS = 10 * 10**9  # requests so near are one: each pod of a job is told by itself
EXCHANGE_SECONDS = 0.5  # from one exchange of requests to save to the next, where steps are short
EXCHANGE_CALLS = 32  # and in calls, at most: the next steps may take longer than the last
LOOK_SECONDS = 0.1  # from one look at the file to the next, of a rank that is alone
_WINDOW_SECONDS = 60.0  # a pause that is longer is no step: an evaluation, a checkpoint


class ProgressReporter:
    """What one process says; `report` and the others speak through one of these."""

    def __init__(self, env=None):
        """Read who this is; the first word starts the thread."""
        env = os.environ if env is None else env
        texts = [env[name] for name in _RANKS if env.get(name, "").isdigit()]
        self.rank = int(texts[0]) if texts else 0
        self._url = urlsplit(env.get("ALLRANKS_PROGRESS_URL", ""))
        self._token = env.get("ALLRANKS_PROGRESS_TOKEN", "")
        # Where no launcher listens, rank 0 writes the line by itself.
        self._writes = env.get("ALLRANKS_PROGRESS") == "log" and self.rank == 0
        self.active = bool(self._url.port) or self._writes
        self._lock, self._sending = threading.Lock(), threading.Lock()
        # An entry for each call in the loop: the time, words and metrics, or seconds of work.
        self._calls = collections.deque(maxlen=CALLS_MAX)
        self._words, self._metrics = {}, {}
        self._last_step = self._last_at = None
        self._seconds, self._work, self._steps, self._worked = 0.0, 0.0, 0, False
        self._thread, self._is_new = None, False
        self._written_at, self._was_refused = 0.0, False

    def say(self, words, metrics):
        """Remember words and metrics; they are sent soon."""
        self._calls.append((time.monotonic(), words, metrics))
        if self._thread is None:
            self._start()

    def worked(self, seconds):
        """Count what this process did by itself."""
        self._calls.append(float(seconds))

    def _start(self):
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, daemon=True)
                self._thread.start()

    def _take(self):
        """Add up what was said since the last time; the caller has the lock."""
        while self._calls:
            call = self._calls.popleft()
            if isinstance(call, float):
                self._work += call
                self._worked = True
                continue
            at, words, metrics = call
            self._words.update((name, value) for name, value in words.items() if value is not None)
            self._metrics.update(metrics)
            step = words.get("step")
            if step is not None and step != self._last_step:
                if self._last_at is not None and at - self._last_at < _WINDOW_SECONDS:
                    self._seconds += at - self._last_at
                    self._steps += 1
                self._last_step, self._last_at = step, at
            self._is_new = True

    def flush(self):
        """Send what is new, now; True where it was answered."""
        with self._sending:  # and what another thread is sending has been sent, too
            return self._flush()

    def _flush(self):
        with self._lock:
            self._take()
            if not self._is_new:
                return True
            body = {"rank": self.rank, **self._words}
            metrics = {name: _plain(value) for name, value in self._metrics.items()}
            body["metrics"] = {name: value for name, value in metrics.items() if value is not None}
            if self._steps:
                body["seconds"] = self._seconds / self._steps
                if self._worked:
                    body["work"] = self._work / self._steps
            self._seconds, self._work, self._steps = 0.0, 0.0, 0
            self._is_new = False
        arrived = self._send(body) if self._url.port else self._write(body)
        if not arrived:
            with self._lock:
                self._is_new = True
        return arrived

    def close(self):
        """Send what is left, as the process ends."""
        self._written_at = 0.0
        with contextlib.suppress(Exception):
            self.flush()

    def _run(self):
        import atexit

        with contextlib.suppress(RuntimeError):  # the interpreter is already ending
            atexit.register(self.close)
        while True:
            with contextlib.suppress(Exception):  # a training never ends for a report
                self.flush()
            time.sleep(INTERVAL_SECONDS)

    def _send(self, body):
        try:
            token = Path(self._token).read_text(encoding="utf-8").strip()
            connection = http.client.HTTPConnection(
                self._url.hostname, self._url.port, timeout=TIMEOUT_SECONDS
            )
        except OSError:
            return False
        try:
            headers = {"Authorization": "Bearer " + token, "Content-Type": "application/json"}
            connection.request("POST", self._url.path, json.dumps(body), headers)
            return self._is_final(connection.getresponse())
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def _is_final(self, answer):
        """Whether an answer leaves nothing to send: what was refused is refused again."""
        if answer.status == http.client.BAD_REQUEST:
            self._refused(answer.read(ANSWER_MAX))
        return answer.status in (http.client.OK, http.client.BAD_REQUEST)

    def _refused(self, answer):
        """Say once what is wrong with what the training reports, and forget it, but for a save."""
        with self._lock:
            saved = self._words.get("saved")
            self._words = {"saved": saved} if isinstance(saved, int) and saved >= 0 else {}
            self._metrics = {}
        if self._was_refused:
            return
        self._was_refused = True
        try:
            reason = str(json.loads(answer)["error"])
        except (ValueError, KeyError, TypeError):
            return
        sys.stderr.write("allranks: a report of progress was refused: %s\n" % reason)
        sys.stderr.flush()

    def _write(self, body):
        now = time.monotonic()
        if not self._writes:
            return True
        if self._written_at and now - self._written_at < LINE_SECONDS:
            return False
        self._written_at = now
        own = ("rank", "seconds", "work")
        words = {key: value for key, value in body.items() if key not in own}
        line = json.dumps({**words, "at": int(time.time())})
        sys.stderr.write("allranks: progress " + line + "\n")
        sys.stderr.flush()
        return True


def _plain(value):
    """A metric as a number, also of a tensor's; None where it is none."""
    try:
        return float(value)
    except Exception:  # noqa: BLE001 - whatever a value of the user's raises
        return None


_reporter = None
_making = threading.Lock()


def reporter():
    """The reporter of this process; a forked one has its own."""
    global _reporter  # noqa: PLW0603 - one for each process
    if _reporter is None:
        with _making:
            if _reporter is None:
                _reporter = ProgressReporter()
    return _reporter


def _after_fork():
    """Forget the parent's reporter: it has no thread here, and its lock may be held."""
    global _reporter, _making
    _reporter, _making = None, threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


def report(step=None, total=None, *, percent=None, epoch=None, epochs=None, eta=None, **metrics):
    """Say how far the training is.

    Args:
        step: how many steps are done.
        total: of how many.
        percent: instead of them, from 0 to 100.
        epoch: how many epochs are done.
        epochs: of how many.
        eta: the seconds that are left; where it is not said, it is computed of the steps' times.
        metrics: numbers to show, such as loss=0.3. A tensor on a GPU is read by the background
            thread, not here.
    """
    speaker = _reporter or reporter()
    if not speaker.active:
        return
    words = {
        "step": step,
        "total": total,
        "percent": percent,
        "epoch": epoch,
        "epochs": epochs,
        "eta": eta,
    }
    for name, value in metrics.items():
        # What a loss was computed of must not be kept for it.
        if type(value) is not float and hasattr(value, "detach"):
            metrics[name] = value.detach()
    speaker.say(words, metrics)
    if (step is not None and step == total) or (epoch is not None and epoch == epochs):
        speaker.flush()  # a training may end at once, without a word


class work:  # noqa: N801 - it is used as a function is
    """Measure what this rank does by itself, without waiting for others."""

    def __enter__(self):
        """Begin."""
        self._began = time.monotonic()

    def __exit__(self, *_):
        """Count it, whether it failed or not."""
        worked(time.monotonic() - self._began)


def worked(seconds):
    """Count seconds that this rank has worked by itself, as `work` does."""
    speaker = reporter()
    if speaker.active:
        speaker.worked(seconds)


class Saves:
    """What this process is asked to save: by a file, or by the end of its pod."""

    def __init__(self, env=None):
        """Look at the file as it is; what was asked before this process began is no news."""
        env = os.environ if env is None else env
        self._path = env.get("ALLRANKS_SAVE_FILE", "")
        self._mark, self._newest_request, self.stopping = None, 0, False
        self._look()
        # By whether the pod ends: a last save is no repetition of one that was asked for before.
        self._done = {0: self._newest_request >> 1, 1: 0}
        self._group = self._pending = None
        self._is_shared = False
        self._stride, self._calls_left, self._exchanged_at = 1, 0, None
        self._looks_at = 0.0
        self._holds = False

    def should(self):
        """Whether to save now; in a group of ranks the same for all of them."""
        if not self._path:
            return False
        if not self._holds:
            self._holds = True
            self._hold()
        distributed = sys.modules.get("torch.distributed")
        # None before there is a group; a torch that is built without groups has not even the class.
        group = getattr(getattr(distributed, "group", None), "WORLD", None)
        if group is not self._group:
            self._enter(distributed, group)
        if self._calls_left:
            self._calls_left -= 1
            return False
        if not self._is_shared:
            now = time.monotonic()
            if now < self._looks_at:  # a look takes 50 us: the caches are full of the step
                return False
            self._looks_at = now + LOOK_SECONDS
        self._look()
        request = (
            self._agree(distributed, self._newest_request)
            if self._is_shared
            else self._newest_request
        )
        at, is_last = request >> 1, request & 1
        if at <= self._done[is_last] + SAME_NANOSECONDS:
            return False
        self._done[is_last] = at
        return True

    def _enter(self, distributed, group):
        """Begin anew with a group: its ranks have made no calls yet."""
        self._group, self._pending = group, None
        self._stride, self._calls_left, self._exchanged_at = 1, 0, None
        is_there = group is not None and distributed.is_initialized()
        self._is_shared = is_there and distributed.get_world_size() > 1

    def _look(self):
        try:
            status = os.stat(self._path)  # noqa: PTH116 - a microsecond, in the loop of the user
        except (OSError, ValueError):
            return
        mark = (status.st_mtime_ns, status.st_ino)
        if mark == self._mark:
            return
        try:
            number, _, stop = Path(self._path).read_text(encoding="utf-8")[:100].partition(" ")
            at = int(number)
        except (OSError, ValueError):
            return
        self._mark = mark
        self._ask(at, is_last=stop.strip() == "stop")

    def _ask(self, at, *, is_last):
        self.stopping = self.stopping or is_last
        # The time of the request, and whether it is the last one, as one number.
        self._newest_request = max(self._newest_request, at << 1 | is_last)

    def _hold(self):
        """Let SIGTERM, which would end this process at once, be a wish to save; once."""
        try:
            if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
                signal.signal(signal.SIGTERM, self._on_sigterm)
        except ValueError:
            return  # not the main thread: whoever has it decides

    def _on_sigterm(self, *_):
        self._ask(time.time_ns(), is_last=True)
        self._looks_at = 0.0

    def _agree(self, distributed, request):
        """The newest request that any rank knew of at the last call; all ranks get the same.

        The ranks' numbers are exchanged while the step goes on: nobody waits for an answer. Where
        steps are short not every call exchanges them, and all ranks leave out the same calls.
        """
        torch, pace, newest = sys.modules["torch"], self._pace(), 0
        if self._pending is not None:
            work, tensor = self._pending
            self._pending = None
            work.wait()
            newest, stride = tensor.tolist()
            self._stride = -stride
            self._calls_left = self._stride - 1
        device = "cuda" if distributed.get_backend() == "nccl" else "cpu"
        # The most of the negative: as many calls as the rank with the fewest would leave out.
        tensor = torch.tensor([request, -pace], dtype=torch.int64, device=device)
        work = distributed.all_reduce(tensor, op=distributed.ReduceOp.MAX, async_op=True)
        self._pending = work, tensor
        return newest

    def _pace(self):
        """After how many calls this rank would exchange again, by the time of the last ones."""
        now, before = time.monotonic(), self._exchanged_at
        self._exchanged_at = now
        if before is None:
            return 1
        pace = int(self._stride * EXCHANGE_SECONDS / max(now - before, 1e-6))
        return max(1, min(pace, 2 * self._stride, EXCHANGE_CALLS))


_saves = None


def saves():
    """What this process is asked to save."""
    global _saves  # noqa: PLW0603 - one for each process
    if _saves is None:
        _saves = Saves()
    return _saves


def should_save():
    """Whether to save a checkpoint now: somebody asks for one, or this pod is about to end.

    Every rank calls it at the same step. Where torch.distributed is in use, all of them get the
    same answer at the same step: numbers are exchanged in the background, twice a second where
    steps are shorter than that. Call it at each step.
    """
    return saves().should()


def stopping():
    """Whether this pod is about to end: there is no use in training on."""
    return saves().stopping


def saved(step):
    """Say that a checkpoint of a step is complete; `status` shows it.

    As the pod ends, that is the last word: the process ends with exit code 143.

    Args:
        step: the last step that the checkpoint holds.
    """
    speaker = reporter()
    if speaker.active:
        speaker.say({"saved": step}, {})
        speaker.flush()
    if stopping():
        sys.exit(128 + signal.SIGTERM)


def callback():
    """A callback for transformers' Trainer that saves where it is asked, and says what was saved.

    Trainer(..., callbacks=[allranks_progress.callback()])
    """
    from transformers import TrainerCallback

    class SaveCallback(TrainerCallback):
        """Saves on demand and as the pod ends; Trainer itself decides how."""

        def on_step_end(self, args, state, control, **_):  # noqa: ARG002 - Trainer's
            """Ask Trainer to save, and to stop where the pod does."""
            if should_save():
                control.should_save = True
                control.should_training_stop = control.should_training_stop or stopping()

        def on_save(self, args, state, control, **_):  # noqa: ARG002 - Trainer's
            """Say it, once for the job."""
            if state.is_world_process_zero:
                speaker = reporter()
                speaker.say({"saved": state.global_step}, {})
                speaker.flush()

    return SaveCallback()
