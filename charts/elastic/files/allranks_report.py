"""Tell the master of an elastic job how fast the training is.

    from allranks_report import Reporter

    report = Reporter()
    for images, labels in loader:
        ...
        report.step(samples=len(images))

The master grows the job while each added worker brings speed, and without reports it cannot know.
Nothing here slows or stops a training: a step costs a few additions, one background thread sends
them every two seconds, and a master that is away is not waited for. Outside of an elastic job it
does nothing.

In synchronous training all workers finish a step together, however slow one of them is. To have a
slow one found, put what each rank does by itself (loading, the forward pass) under `work`:

    with report.work():
        loss = model(images)

It needs the standard library on Python 3.8 or newer. The call itself is plain HTTP, for any other
language: ``POST /v1/report`` with the JSON {"pod", "generation", "step", "samples", "seconds"} and
the header ``Authorization: Bearer`` with what ALLRANKS_MASTER_TOKEN holds.
"""

import contextlib
import http.client
import json
import os
import threading
import time

try:
    import allranks_progress as _progress  # what `allranks status` shows, of the same words
except ImportError:
    _progress = None

INTERVAL_SECONDS = 2.0
TIMEOUT_SECONDS = 5.0


class Reporter:
    """Counts steps and samples, and sends them. One for each process; thread-safe."""

    def __init__(self, interval=INTERVAL_SECONDS, env=None):
        """Read who this is; the first step starts the thread.

        Args:
            interval: seconds between two reports.
            env: the environment; None is the process's own.
        """
        env = os.environ if env is None else env
        host, _, port = env.get("ALLRANKS_MASTER_ADDR", "").rpartition(":")
        self._host, self._port = host.strip("[]"), int(port) if port.isdigit() else 0
        self._pod = env.get("POD_NAME", "")
        token = env.get("ALLRANKS_MASTER_TOKEN")
        self._headers = {"Authorization": "Bearer " + token} if token else {}
        self._generation = _number(env.get("ALLRANKS_GENERATION"))
        # One process speaks for its pod: its neighbours do the same steps.
        self._share = max(1, _number(env.get("LOCAL_WORLD_SIZE")))
        first = _number(env.get("LOCAL_RANK")) == 0
        self.active = bool(self._host and self._port and self._pod and first)
        self._interval = interval
        self._lock = threading.Lock()
        self._steps = self._step_number = 0
        self._samples = 0.0
        self._work = 0.0
        self._worked = False
        self._last = None
        self._elapsed = 0.0
        self._thread = None
        self._closed = threading.Event()

    def step(self, samples=1, step=None):
        """One training step is done.

        Args:
            samples: how many samples this process trained on in it.
            step: the number of the step, where the training counts on after a restart; None counts
                the calls.
        """
        self._step_number = self._step_number + 1 if step is None else int(step)
        if _progress is not None:
            _progress.report(step=self._step_number)
        if not self.active:
            return
        now = time.monotonic()
        with self._lock:
            self._steps = self._steps + 1 if step is None else int(step)
            self._samples += samples
            if self._last is not None:
                self._elapsed += now - self._last
            self._last = now
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="allranks-report", daemon=True
                )
                self._thread.start()

    @contextlib.contextmanager
    def work(self):
        """Measure what this process does by itself, without waiting for others."""
        started = time.monotonic()
        try:
            yield
        finally:
            seconds = time.monotonic() - started
            with self._lock:
                self._work += seconds
                self._worked = True
            if _progress is not None:
                _progress.worked(seconds)

    def close(self):
        """Send what is left, once, and stop; a training that just ends need not call it."""
        self._closed.set()
        thread = self._thread
        if thread is not None:
            thread.join(TIMEOUT_SECONDS)

    def _run(self):
        while True:
            closing = self._closed.wait(self._interval)
            self._flush()
            if closing:
                return

    def _flush(self):
        """Send what has come together since the last report that arrived."""
        with self._lock:
            samples, work, elapsed = self._samples, self._work, self._elapsed
            body = {
                "pod": self._pod,
                "generation": self._generation,
                "step": self._steps,
                "samples": samples * self._share,
                "seconds": work if self._worked else elapsed,
            }
        if not samples or not self._send(body):
            return
        with self._lock:
            self._samples -= samples
            self._work -= work
            self._elapsed -= elapsed

    def _send(self, body):
        connection = http.client.HTTPConnection(self._host, self._port, timeout=TIMEOUT_SECONDS)
        try:
            headers = dict(self._headers)
            headers["Content-Type"] = "application/json"
            connection.request("POST", "/v1/report", json.dumps(body), headers)
            answer = connection.getresponse()
            answer.read()
        except (OSError, http.client.HTTPException):
            return False  # told with the next one
        finally:
            connection.close()
        return answer.status == http.client.OK


def _number(text):
    return int(text) if text and text.isdigit() else 0
