"""Run torchrun in a worker of an elastic job, with the workers that the job's master names.

`entry.sh` starts this in the trainer's own image; it needs the standard library on Python 3.8 or
newer, and torch 1.13 or newer beside it. torchrun's own rendezvous is not used to find the others:

* The worker joins the job at its master and waits for a generation: a fixed set of workers, each
  with its rank. Then it runs torchrun for it (``static`` rendezvous, a port of its own).
* When the master forms another generation (a worker came, went, or failed) it is told to stop:
  torchrun and its ranks get SIGTERM, after a grace period SIGKILL, and it joins again. What the
  training has saved by then is what the next generation goes on from.
* A master that is away stops nothing: training goes on, and a new master is told who trains.
* At the end it tells the master, which alone knows whether the job has ended with it.

Environment:
    ALLRANKS_MASTER_ADDR     host:port of the master
    ALLRANKS_MASTER_TOKEN    what this pod shows to the master, where the job has one
    POD_NAME, POD_IP         who and where this pod is
    PET_NPROC_PER_NODE       processes of this pod; further PET_* as torchrun reads them
    ALLRANKS_GRACE_SECONDS   between SIGTERM and SIGKILL (20)
    ALLRANKS_MASTER_LOST_SECONDS  without a master, before a pod that needs one gives up (600)
    ALLRANKS_PROGRESS        a folder for what the ranks say of their progress (progress.py)
    ALLRANKS_TERMINATION_LOG where the reason of a failure goes

The ranks get torchrun's environment, ALLRANKS_GENERATION, and this folder at the end of PYTHONPATH,
so that ``from allranks_report import Reporter`` works.
"""

import http.client
import json
import os
import queue
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from urllib.parse import quote

import progress
from elastic_training import POLL_SECONDS, Run, say

EXIT_TERMINATED = 128 + signal.SIGTERM
MESSAGE_MAX = 1000  # characters: at most 4,000 bytes; Kubernetes keeps 4,096
PAUSES = (0.2, 0.5, 1.0, 2.0)  # seconds between tries to reach the master
# The master answers a question about the generation after so many seconds at the latest.
LONG_POLL_SECONDS = 20.0


class Terminated(BaseException):
    """This pod was told to end."""


class MasterLost(Exception):  # noqa: N818 - named for what has happened
    """The master could not be reached for too long."""


class WorkerSettings:
    """What this worker is told, read from the environment once."""

    def __init__(self, env):
        """Read `env`."""
        host, _, port = env.get("ALLRANKS_MASTER_ADDR", "").rpartition(":")
        self.host, self.port = host.strip("[]"), int(port or 0)
        self.pod = env.get("POD_NAME") or socket.gethostname()
        self.address = env.get("POD_IP") or ""
        procs = env.get("PET_NPROC_PER_NODE") or "1"
        self.procs = int(procs) if procs.isdigit() else 1
        self.token = env.get("ALLRANKS_MASTER_TOKEN") or ""
        self.grace = float(env.get("ALLRANKS_GRACE_SECONDS") or 20)
        self.lost = float(env.get("ALLRANKS_MASTER_LOST_SECONDS") or 600)
        self.termination_log = env.get("ALLRANKS_TERMINATION_LOG", "")


def record(settings, message):
    """Leave the reason of a failure where Kubernetes shows it."""
    if settings.termination_log:
        try:
            Path(settings.termination_log).write_text(message[:MESSAGE_MAX], encoding="utf-8")
        except OSError as error:
            say("cannot write %s: %s" % (settings.termination_log, error))


class MasterClient:
    """The job's master, as a worker asks it."""

    def __init__(self, settings):
        """Nothing is asked yet."""
        self.settings = settings
        self.where = "%s:%d" % (settings.host, settings.port)

    def ask(self, method, path, body=None, seconds=LONG_POLL_SECONDS + 10):
        """One question; the answer's JSON object. {"state": "unknown"} asks to join first.

        Raises:
            OSError: it cannot be reached, or has no answer for now.
        """
        # No library that would read a proxy from the environment: the master is in the cluster.
        connection = http.client.HTTPConnection(
            self.settings.host, self.settings.port, timeout=seconds
        )
        try:
            content = None if body is None else json.dumps(body)
            headers = {} if body is None else {"Content-Type": "application/json"}
            if self.settings.token:
                headers["Authorization"] = "Bearer " + self.settings.token
            connection.request(method, path, content, headers)
            answer = connection.getresponse()
            status, data = answer.status, json.loads(answer.read() or b"{}")
        except (http.client.HTTPException, ValueError) as error:
            raise OSError("no answer of a master: %s" % error) from error
        finally:
            connection.close()
        if status == http.client.NOT_FOUND:
            return {"state": "unknown"}
        if status != http.client.OK:
            raise OSError(data.get("error") or "status %d" % status)
        return data

    def insist(self, question):
        """Ask until there is an answer.

        Raises:
            MasterLost: there was none for too long.
        """
        started = time.monotonic()
        tries = 0
        while True:
            try:
                return question()
            except OSError as error:
                why = str(error)
            waited = time.monotonic() - started
            if waited > self.settings.lost:
                raise MasterLost(why)
            if tries in (len(PAUSES), 10 * len(PAUSES)):
                say("waiting for the master at %s (%.0f s): %s" % (self.where, waited, why))
            time.sleep(pause(tries))
            tries += 1

    def world(self, after):
        """Ask for the generation after one; the answer may take LONG_POLL_SECONDS."""
        path = "/v1/world?pod=%s&after=%d" % (quote(self.settings.pod), after)
        return self.ask("GET", path)


def pause(tries):
    """Seconds to wait after so many tries."""
    return PAUSES[min(tries, len(PAUSES) - 1)]


def own_address(settings):
    """The address that this pod reaches the master from, where nothing says it."""
    kind, _, _, _, target = socket.getaddrinfo(
        settings.host, settings.port, type=socket.SOCK_DGRAM
    )[0]
    with socket.socket(kind, socket.SOCK_DGRAM) as probe:
        probe.connect(target)  # sends nothing
        return probe.getsockname()[0]


def free_port():
    """A port that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        return probe.getsockname()[1]


class Listener(threading.Thread):
    """Listens to the master while the training runs; says when it is to stop."""

    def __init__(self, worker, world):
        """Of a worker that trains in a generation."""
        super().__init__(daemon=True)
        self.worker, self.current = worker, world
        self.answers = queue.Queue()
        self.over = threading.Event()

    def run(self):
        """Ask, and ask again; a master that is away is no reason to stop."""
        tries = 0
        while not self.over.is_set():
            try:
                answer = self.worker.master.world(self.current["generation"])
                if answer.get("state") == "unknown":  # a new master, which knows nobody yet
                    answer = self.worker.join(self.current)
            except OSError as error:
                if tries == len(PAUSES):
                    say("the master is away (%s); training goes on" % error)
                self.over.wait(pause(tries))
                tries += 1
                continue
            tries = 0
            if answer.get("state") in ("stop", "end", "go"):
                self.answers.put(answer)
                return


class ElasticWorker:
    """This pod's part of the job."""

    def __init__(self, settings, words):
        """Read who this is; `words` are torchrun's."""
        self.settings, self.words = settings, words
        self.master = MasterClient(settings)
        self.generation = 0
        self.address = settings.address
        self.training = False
        self.terminated = False
        self.heard = None

    def terminate(self, *_):
        """SIGTERM: at once where nothing runs that has to be ended first."""
        self.terminated = True
        if self.heard is not None:
            self.heard.ask_to_save(os.environ, say)
        if not self.training:
            raise Terminated

    def join(self, world=None):
        """Tell the master that this worker is here, and whether it trains.

        Raises:
            OSError: the master cannot be reached.
        """
        if not self.address:
            self.address = own_address(self.settings)
        body = {
            "pod": self.settings.pod,
            "address": self.address,
            "procs": self.settings.procs,
            "port": free_port(),
            "generation": self.generation,
        }
        if world:
            body["world"] = world
        return self.master.ask("POST", "/v1/join", body)

    def run(self):
        """Train until the job has ended, or this pod has; return the exit code."""
        try:
            while True:
                answer = self.wait()
                if answer["state"] == "end":
                    return self.end(answer)
                code, message, answer = self.train(answer)
                if self.terminated:
                    return self.leave()
                if answer and answer["state"] == "end":
                    return self.end(answer)
                if answer and code:
                    continue
                # Ranks that had all ended well before the master's word need no other generation.
                code = self.done(code, message)
                if code is not None:
                    return code
        except Terminated:
            return self.leave()
        except MasterLost as lost:
            reason = "no master answered for %.0f s: %s" % (self.settings.lost, lost)
            say("error: " + reason)
            record(self.settings, reason)
            return 1

    def wait(self):
        """Join, and wait for a generation or for the job's end; return the master's word."""
        answer = {}
        joined = False
        while answer.get("state") not in ("go", "end"):
            if joined:
                answer = self.master.insist(lambda: self.master.world(self.generation))
            else:
                answer = self.master.insist(self.join)
            joined = answer.get("state") != "unknown"
        return answer

    def end(self, answer):
        """The job has ended: so does this worker."""
        code = int(answer.get("code") or 0)
        message = str(answer.get("message") or "")
        if code:
            record(self.settings, message)
        # The last lines of the rank stand in its pod's log already.
        say(
            message.split("\n", 1)[0]
            if code
            else "the job has ended: %s" % (message or "succeeded")
        )
        return code

    def done(self, code, message):
        """Tell how the training ended here; the exit code, or None to join again."""
        if code:
            say(message.split("\n", 1)[0])
            record(self.settings, message)
        body = {
            "pod": self.settings.pod,
            "code": code,
            "generation": self.generation,
            "message": message,
        }
        try:
            answer = self.master.insist(lambda: self.master.ask("POST", "/v1/done", body))
        except MasterLost:
            return code  # nobody else can say; its pod's end will
        if answer.get("then") == "join":
            return None
        if answer.get("message"):  # the job ends with it, and whoever replaces pods has to know
            record(self.settings, str(answer["message"]))
        return int(answer.get("code", code))

    def leave(self):
        """Tell that this pod goes, so that the others need not find out; the exit code."""
        body = {"pod": self.settings.pod, "code": EXIT_TERMINATED, "leaving": True}
        try:
            self.master.ask("POST", "/v1/done", body, seconds=2)
        except OSError as error:
            say("the master was not told that this pod ends: %s" % error)
        return EXIT_TERMINATED

    def train(self, world):
        """Run torchrun for a generation.

        Returns:
            (exit code, reason of a failure, what the master said meanwhile or None).
        """
        self.generation = world["generation"]
        self.training = True
        listener = Listener(self, world)
        run = Run(self.settings, world, self.words)
        listener.start()
        answer = None
        try:
            while run.agent.poll() is None and not self.terminated and answer is None:
                try:
                    answer = listener.answers.get(timeout=POLL_SECONDS)
                except queue.Empty:
                    continue
        finally:
            listener.over.set()
            run.stop()
            self.training = False
        return (*run.verdict(), answer)


def main(argv):
    """Lead this pod through its generations."""
    settings = WorkerSettings(os.environ)
    if not settings.host or not settings.port:
        say("error: ALLRANKS_MASTER_ADDR names no master (host:port)")
        return 2
    worker = ElasticWorker(settings, argv)
    worker.heard = progress.start(os.environ, say)
    signal.signal(signal.SIGTERM, worker.terminate)
    signal.signal(signal.SIGINT, worker.terminate)
    code = worker.run()
    if worker.heard is not None:
        worker.heard.finish()
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
