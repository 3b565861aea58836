"""Take newer code into a pod whose ranks are running: the pod's half of `allranks sync`.

An offer is a workspace that was sent after the job had started: its generation, which counts up
from 1, its digest and its archive. It reaches a pod in two ways:

* `allranks sync` sends it through the API server (``receive``), has it checked and unpacked beside
  the code in every pod, and only when all of them have it tells them to take it (``activate``).
* The same stands in a ConfigMap that every pod mounts, where it is there. A pod that is made later
  finds it, and one that was missed sees it when the kubelet looks again.

The newest generation wins in both. A launcher that sees one ends its ranks as a pod's end would,
with the same grace, and starts over with the new code (``settle``, which entry.sh calls before
setup). The digest is part of the rendezvous' id: nodes with different code never train together.

Most of a start is the import of torch, which newer code does not change. So a launcher that has
imported it forks a process for each generation (``Forks``), where nothing of the code is in the
launcher and no setup has to run again; else all starts over from entry.sh.

Standard library; Python 3.8 or newer.

State, in the folder ALLRANKS_WORKSPACE_STATE beside what workspace.py keeps there:
    sync/wanted         the offer that was activated, as JSON
    sync/active         the generation whose code is in place
    sync/finished       there where this pod's training has ended, and only its container goes on
    sync/GENERATION/    an offer: offer.json, archive.0, and tree/, unpacked
"""

import gc
import importlib.util
import json
import os
import re
import shutil
import signal
import sys
import threading
import time
from pathlib import Path

HERE = Path(__file__).absolute().parent
POLL_SECONDS = 0.05
MOUNT_SECONDS = 2.0  # between two looks at the ConfigMap; the kubelet renews it once a minute
NEAR_SECONDS = 60.0  # an offer that waits longer to be activated was given up
SETTLE_SECONDS = 15.0  # for the activation of an offer that every pod has
HEADER_MAX = 512  # bytes of an offer; nothing in so few is nested too deep to be read
ARCHIVE_MAX = 1 << 20  # bytes, what a ConfigMap holds
DONE = "allranks-sync-done"  # the last line of an answer: a stream's own end is not to be relied on

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


def beside(name):
    """A module of ours that lies beside this file, wherever Python looks for modules."""
    spec = importlib.util.spec_from_file_location("allranks_" + name, str(HERE / (name + ".py")))
    module = importlib.util.module_from_spec(spec)
    writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        spec.loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = writes
    return module


unpacking = beside("workspace")


class Offer:
    """A workspace that was sent after the job had started.

    Attributes:
        generation: its number, from 1; what the job started with is 0.
        digest, archive_digest: `sha256:` and 64 hex digits.
        compression: gzip | xz.
    """

    def __init__(self, fields):
        """Read one; a ValueError, KeyError or TypeError where it is none."""
        self.generation = int(fields["generation"])
        self.digest, self.archive_digest = fields["digest"], fields["archiveDigest"]
        self.compression = fields["compression"]
        if not 0 < self.generation < 1 << 31 or self.compression not in ("gzip", "xz"):
            raise ValueError("no offer")
        if not all(map(_DIGEST.fullmatch, (self.digest, self.archive_digest))):
            raise ValueError("no digest")

    def text(self):
        """The offer as JSON."""
        return json.dumps(
            {
                "generation": self.generation,
                "digest": self.digest,
                "archiveDigest": self.archive_digest,
                "compression": self.compression,
            }
        )


def read_offer(path):
    """The offer in a file; None where there is none that can be read."""
    try:
        with path.open(encoding="utf-8") as stream:
            return Offer(json.loads(stream.read(HEADER_MAX)))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write(path, text):
    """Write a file as a whole."""
    new = path.with_name(path.name + ".new")
    new.write_text(text, encoding="utf-8")
    new.replace(path)


class Workspace:
    """The code of this pod, and the offers of newer code."""

    def __init__(self, env):
        """Take the ALLRANKS_WORKSPACE_* variables."""
        self.state = Path(env["ALLRANKS_WORKSPACE_STATE"])
        self.folder = Path(env["ALLRANKS_WORKSPACE_FOLDER"])
        self.mount = Path(env["ALLRANKS_WORKSPACE_SYNC"])
        self.sync = self.state / "sync"
        self.marker = self.state / "digest"
        self.wanted_path = self.sync / "wanted"
        self.finished_path = self.sync / "finished"
        self.sync.mkdir(parents=True, exist_ok=True)

    def of(self, generation):
        """The folder of an offer."""
        return self.sync / str(generation)

    def active(self):
        """The generation whose code is in place; 0 is what the job was started with."""
        try:
            return int((self.sync / "active").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return 0

    def mounted(self):
        """The offer in the ConfigMap; None where there is none."""
        return read_offer(self.mount / "offer.json")

    def newest(self):
        """The newest offer that is to be taken; None where the job's own code is."""
        offers = [offer for offer in (read_offer(self.wanted_path), self.mounted()) if offer]
        return max(offers, key=lambda offer: offer.generation, default=None)

    def is_staged(self, offer):
        """Whether an offer is unpacked beside the code."""
        stored = read_offer(self.of(offer.generation) / "offer.json")
        return stored is not None and stored.text() == offer.text()

    def near(self, now):
        """Whether an offer waits to be activated, and has not done so for long."""
        active = self.active()
        for folder in self.sync.iterdir():
            if folder.name.isdigit() and int(folder.name) > active:
                try:
                    age = now - (folder / "offer.json").stat().st_mtime
                except OSError:
                    continue
                if age < NEAR_SECONDS:
                    return True
        return False

    def stage(self, offer, archive):
        """Check the archive of an offer and unpack it beside the code.

        Args:
            offer: what it should be.
            archive: the folder that has it as archive.0.

        Raises:
            unpacking.BrokenError: it is not what was sent, or cannot be unpacked anywhere.
            OSError: it cannot be written here.
        """
        unpacking.check_digest(archive, offer.archive_digest)
        tree = self.of(offer.generation) / "tree"
        self.drop(offer.generation)
        umask = os.umask(0o022)
        try:
            tree.mkdir(parents=True)
            unpacking.extract_all(archive, offer.compression, tree, older=self.state / "code")
        except BaseException:
            self.drop(offer.generation)
            raise
        finally:
            os.umask(umask)  # the ranks have the one of the pod
        write(self.of(offer.generation) / "offer.json", offer.text())

    def refusal(self, offer):
        """Why an offer is not taken; "" where it is."""
        if self.finished_path.exists():
            return "its training has ended"
        active = self.active()
        return "generation %d is here already" % active if offer.generation <= active else ""

    def drop(self, generation):
        """Forget an offer."""
        shutil.rmtree(str(self.of(generation)), ignore_errors=True)

    def install(self, offer):
        """Put the code of a staged offer in place of what is there.

        What the program has written beside it stays, and so does a file that is the same. The
        marker of the digest is taken away first: whoever starts after a fall in between unpacks
        all anew.
        """
        if self.marker.exists():
            self.marker.unlink()
        code, tree = self.state / "code", self.of(offer.generation) / "tree"
        paths = unpacking.paths_of(tree)
        unpacking.remove_entries(self.state, code, paths)
        unpacking.move(tree, code, self.folder)
        unpacking.write_entries(self.state, paths)
        write(self.sync / "active", str(offer.generation))
        write(self.marker, offer.digest + "\n")
        self.drop(offer.generation)


def settle(workspace):
    """Have the newest code in place before the launcher starts.

    Returns:
        Its digest and generation; ("", 0) where the job's own code is to be unpacked as always.
    """
    offer = workspace.newest()
    if offer is None:
        return "", 0
    if workspace.active() == offer.generation and workspace.marker.exists():
        return offer.digest, offer.generation
    if not workspace.is_staged(offer):
        workspace.stage(offer, workspace.mount)
    workspace.install(offer)
    return offer.digest, offer.generation


def receive(workspace, stream):
    """Take an offer from a stream: a line of JSON with its `size`, then so many bytes.

    Returns:
        An empty text, or why it is not taken; the code stays as it is then.
    """
    header = stream.readline(HEADER_MAX)
    try:
        fields = json.loads(header)
        offer, size = Offer(fields), int(fields["size"])
    except (ValueError, KeyError, TypeError):
        return "what was sent is no offer of a workspace"
    if not 0 < size <= ARCHIVE_MAX:
        return "a workspace of %d bytes cannot be synced; %d are the most" % (size, ARCHIVE_MAX)
    reason = workspace.refusal(offer)
    if reason:
        return reason
    incoming = workspace.sync / ("incoming-%d" % os.getpid())
    incoming.mkdir()
    try:
        bytes_left = size
        with (incoming / "archive.0").open("wb") as archive:
            while bytes_left:
                data = stream.read(min(bytes_left, 1 << 16))
                if not data:
                    return "the stream ended %d bytes too early" % bytes_left
                archive.write(data)
                bytes_left -= len(data)
        workspace.stage(offer, incoming)
    except (OSError, unpacking.BrokenError) as error:
        return str(error)
    finally:
        shutil.rmtree(str(incoming), ignore_errors=True)
    return ""


def staged(workspace, generation, digest):
    """The offer that was received under a generation; None where it is not there, or another's."""
    offer = read_offer(workspace.of(generation) / "offer.json")
    return offer if offer is not None and offer.digest == digest else None


def activate(workspace, generation, digest, seconds):
    """Have the launcher take a staged offer, and wait until its code is in place.

    Returns:
        An empty text, or why it is not.
    """
    offer = staged(workspace, generation, digest)
    if offer is not None:
        write(workspace.wanted_path, offer.text())
    elif workspace.active() < generation:
        return "generation %d was not received here" % generation
    deadline = time.monotonic() + seconds
    while workspace.active() < generation:
        if time.monotonic() > deadline:
            return "the ranks have not ended after %.0f s" % seconds
        time.sleep(0.05)
    return ""


class Forks:
    """A launcher's parent: it has imported torch, and forks a launcher for each generation.

    What a container's first process gets reaches the launcher, its signals for example, and what
    the launcher gives is given on, its exit code for example.
    """

    def __init__(self, workspace, signals):
        """Of a workspace; `signals` are passed on to the launcher."""
        self._workspace = workspace
        self._signals = {signal.SIGTERM, *signals}
        self._child = 0
        self._is_terminated = False

    def start(self, argv):
        """Fork launchers, for as long as they ask for another one; only they return.

        Args:
            argv: what entry.sh gets where a fork would not do.

        Returns:
            The descriptor that a launcher asks by.
        """
        gc.collect()
        gc.freeze()  # so that the pages of what is imported stay shared
        handlers = {number: signal.getsignal(number) for number in self._signals}
        for number in self._signals:
            signal.signal(number, self._pass_on)
        while True:
            requests, request_pipe = os.pipe()
            os.set_blocking(requests, False)
            # A signal that comes before the child is there waits until it is.
            signal.pthread_sigmask(signal.SIG_BLOCK, self._signals)
            self._child = os.fork()
            if not self._child:
                os.close(requests)
                for number, handler in handlers.items():
                    signal.signal(number, signal.SIG_DFL if handler is None else handler)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, self._signals)
            if not self._child:
                return request_pipe
            os.close(request_pipe)
            code = self._wait()
            if not has_data(requests):
                os._exit(code)
            if self._is_terminated:
                os._exit(128 + signal.SIGTERM)
            os.close(requests)
            if not self._renew():
                start_entry(argv)

    def _pass_on(self, number, _):
        self._is_terminated = self._is_terminated or number == signal.SIGTERM
        if not self._child:
            os._exit(128 + number)
        try:
            os.kill(self._child, number)
        except ProcessLookupError:
            return  # it has just ended

    def _wait(self):
        """Wait for the launcher's end; its exit code, as a shell gives it."""
        while True:
            pid, status = os.waitpid(-1, 0)  # a container's first process gets its orphans, too
            if pid == self._child:
                self._child = 0
                return os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)

    def _renew(self):
        """Be as entry.sh would be with the newest code; False where only that can tell."""
        try:
            digest, generation = settle(self._workspace)
            if os.environ.get("ALLRANKS_WORKSPACE_START"):
                os.chdir(os.environ["ALLRANKS_WORKSPACE_START"])
        except (OSError, unpacking.BrokenError):
            return False
        if generation:
            os.environ["ALLRANKS_WORKSPACE_DIGEST"] = digest
            os.environ["ALLRANKS_WORKSPACE_GENERATION"] = str(generation)
        return True


def may_fork(code):
    """Whether a process that is forked from this one is as good as one that entry.sh starts.

    It is not where a setup has to run with newer code, where this process runs other threads, and
    where it has imported something of the code, by PYTHONPATH for example.

    Args:
        code: the folder of the code.
    """
    try:
        if (HERE / "setup.sh").exists() or len(list(Path("/proc/self/task").iterdir())) > 1:
            return False
    except OSError:
        return False
    files = [getattr(module, "__file__", None) or "" for module in list(sys.modules.values())]
    inside = os.path.realpath(str(code)) + "/"
    # A path that is not absolute is none: torch.ops, which is no module, says "_ops.py".
    paths = [os.path.realpath(file) for file in files if file.startswith("/")]
    return not any(path.startswith(inside) for path in paths)


def has_data(descriptor):
    """Whether a pipe that does not block has data."""
    try:
        return bool(os.read(descriptor, 1))
    except BlockingIOError:
        return False


def start_entry(argv):
    """Become entry.sh; does not return."""
    os.execv("/bin/sh", ["/bin/sh", str(HERE / "entry.sh"), *argv])


class Follower:
    """Tells a launcher that newer code is to be taken.

    Attributes:
        pending: the offer that this launcher is to start over with; None while there is none.
    """

    def __init__(self, env, say, signals="SIGTERM,SIGINT,SIGHUP,SIGQUIT"):
        """Follow the workspace that `env` describes; `signals` are those that torchrun handles."""
        self._workspace = Workspace(env)
        self._say = say
        # Not SIGTERM, which is the pod's own end; but what ends the ranks must reach torchrun.
        self.signal = signal.SIGHUP if "SIGHUP" in signals.split(",") else signal.SIGTERM
        self.pending = None
        self._request_pipe = None
        self._restarts = threading.RLock()
        names = [name.strip() for name in signals.split(",")]
        self._signals = [getattr(signal, name) for name in names if hasattr(signal, name)]

    def fork(self, argv):
        """Go on in a process for each generation of the code, where this one may be forked."""
        if may_fork(self._workspace.folder):
            self._request_pipe = Forks(self._workspace, self._signals).start(argv)

    def fork_again(self):
        """End for another fork, which starts anew with the newest code; return without a fork."""
        if self._request_pipe is not None:
            os.write(self._request_pipe, b"1")
            os._exit(0)

    def finish(self):
        """Refuse newer code from now on: nothing trains here again."""
        self._workspace.finished_path.touch()

    def start(self):
        """Begin to look."""
        threading.Thread(target=self._follow, daemon=True).start()

    def _follow(self):
        looked_at = 0.0
        while self.pending is None:
            offer = read_offer(self._workspace.wanted_path)
            if time.monotonic() - looked_at > MOUNT_SECONDS:
                looked_at = time.monotonic()
                offer = self._workspace.newest()
            if offer is not None and self._is_new(offer) and self._stage(offer):
                self.pending = offer
                self._say("taking workspace %s, generation %d" % (offer.digest, offer.generation))
                os.kill(os.getpid(), self.signal)
            time.sleep(POLL_SECONDS)

    def _is_new(self, offer):
        return offer.generation > self._workspace.active()

    def _stage(self, offer):
        if self._workspace.is_staged(offer):
            return True
        try:
            self._workspace.stage(offer, self._workspace.mount)
        except (OSError, unpacking.BrokenError, ValueError) as error:
            # The ConfigMap's files are renewed one look later than its offer, at worst.
            self._say("cannot take generation %d of the code: %s" % (offer.generation, error))
            return False
        return True

    def wait(self):
        """Wait for newer code where every pod is about to take some; whether there is any."""
        deadline = time.monotonic() + SETTLE_SECONDS
        while self.pending is None and time.monotonic() < deadline:
            if not self._workspace.near(time.time()):
                return False
            time.sleep(0.05)
        return self.pending is not None

    def owns_signal(self, number):
        """Whether a signal that has come is this follower's."""
        return self.pending is not None and number == self.signal

    def end_or_restart(self, argv, code):
        """Handle the signal while no rank runs: start over, or end with a code."""
        if self.pending is not None:
            self.restart(argv)
        os._exit(code)

    def hold(self):
        """Be the only one to start over, from here on: no signal, no other thread comes between.

        The signal of this very offer may still be on its way. Its handler may be torch's, which
        raises wherever Python is; code that is half in place must not be put in place again.
        """
        if threading.current_thread() is threading.main_thread():
            signal.signal(self.signal, lambda *_: None)
        self._restarts.acquire()  # never released: this process ends

    def restart(self, argv):
        """Start over with the newer code, in this very process or another fork; does not return.

        Where it cannot be put in place, entry.sh tries again, and ends the pod with the reason.
        """
        self.hold()
        offer = self.pending
        try:
            self._workspace.install(offer)
        except (OSError, unpacking.BrokenError) as error:
            self._say("cannot put generation %d in place: %s" % (offer.generation, error))
        self.fork_again()
        start_entry(argv)


def main(argv):
    """One of the pod's commands; the exit code."""
    workspace = Workspace(os.environ)
    command = argv[0]
    if command == "settle":
        try:
            print("%s %d" % settle(workspace))
        except (OSError, unpacking.BrokenError) as error:
            print(error)
            return unpacking.EXIT_BROKEN if isinstance(error, unpacking.BrokenError) else 1
        return 0
    if command == "receive":
        problem = receive(workspace, sys.stdin.buffer)
    elif command == "activate":
        problem = activate(workspace, int(argv[1]), argv[2], float(argv[3]))
    elif command == "drop":
        problem = ""
        if staged(workspace, int(argv[1]), argv[2]):
            workspace.drop(int(argv[1]))
    else:
        problem = "there is no command %r" % command
    print(json.dumps({"problem": problem, "active": workspace.active()}))
    print(DONE, flush=True)
    return 1 if problem else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
