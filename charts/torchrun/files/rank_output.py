"""Pass on what the ranks of a pod write, by whole lines, and keep the last of them.

Several ranks that write to one pipe cut each other's lines in two, and no line says whose it is.
Here each rank writes to a pipe of its own, and one thread of the launcher passes on whole lines,
each with ``[RANK] `` before it where the pod has several ranks. torchrun's own ``tee`` does it by
files that grow for as long as the job runs.

* What a rank writes to one stream keeps its order. Where both streams of the pod are one file, a
  rank's two streams are one pipe, and keep their order, too.
* A line longer than 64 KiB is cut; bytes that are no text pass as they are.
* A rank never waits for more than the pod's own log: what cannot be written is dropped.
* The end waits for no process that a rank has left behind with the pipe open.
* With one rank in the pod, bytes pass at once and unchanged.

A stream that the user redirects or tees by torchrun's own options is left alone, and so is a
terminal. It needs the standard library and Python 3.8.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import selectors
import sys
import threading
import time
from collections import deque

LINE_MAX = 1 << 16  # bytes of a line that are passed on as one
CHUNK = 1 << 16  # what a pipe holds by default
KEPT_LINES, KEPT_CHARACTERS = 20, 1000  # of each rank, for the reason of a failure
DRAIN_SECONDS = 5.0
CONTINUED = 0x80  # the first two bits of a byte of UTF-8 that begins no character
F_GETPIPE_SZ = getattr(fcntl, "F_GETPIPE_SZ", 1032)


class RankStream:
    """One stream of one rank: a pipe's reading end, and what was read of the line that is open."""

    def __init__(self, source, target, prefix, last_lines):
        """Begin.

        Args:
            source: the reading end.
            target: the descriptor that lines are passed on to.
            prefix: bytes before each line; empty passes bytes on as they come.
            last_lines: the rank's last lines, shared by its streams.
        """
        self.source, self.target, self.prefix, self.last_lines = source, target, prefix, last_lines
        self.open_line = bytearray()

    def feed(self, chunk):
        """What is to be written for a chunk that was read."""
        end = chunk.rfind(b"\n") + 1
        complete, rest = chunk[:end], chunk[end:]
        if complete:
            complete = bytes(self.open_line) + complete
            self.open_line = bytearray(rest)
            self._keep(complete)
        else:
            self.open_line += rest
        out = self._prefixed(complete) if self.prefix else chunk
        while len(self.open_line) >= LINE_MAX:
            piece = cut(self.open_line)
            del self.open_line[: len(piece)]
            out += self._prefixed(piece + b"\n") if self.prefix else b""
        return out

    def rest(self):
        """What is to be written of a line that has no end."""
        line, self.open_line = bytes(self.open_line), bytearray()
        if line:
            self._keep(line)
        return self._prefixed(line + b"\n") if line and self.prefix else b""

    def _prefixed(self, lines):
        if not lines:
            return b""
        head = b""
        while lines.find(b"\n", 0, LINE_MAX + 1) < 0:  # only the first can be so long
            piece = cut(lines)
            head += self.prefix + piece + b"\n"
            lines = lines[len(piece) :]
        body = lines[:-1].replace(b"\n", b"\n" + self.prefix)
        return head + self.prefix + body + b"\n"

    def _keep(self, lines):
        self.last_lines.extend(lines.rstrip(b"\n").rsplit(b"\n", KEPT_LINES)[-KEPT_LINES:])


def cut(data):
    """The first LINE_MAX bytes, or as many fewer as keep a character of UTF-8 whole."""
    end = LINE_MAX
    while end > LINE_MAX - 4 and data[end : end + 1] and data[end] & 0xC0 == CONTINUED:
        end -= 1
    return bytes(data[:end])


def readable(line):
    """A line as a terminal would leave it."""
    text = bytes(line[-4 * KEPT_CHARACTERS :]).decode("utf-8", "replace")
    return text.rstrip("\r").rsplit("\r", 1)[-1][:KEPT_CHARACTERS]


class RankOutput:
    """What the ranks of this pod write."""

    def __init__(self, prefixed):
        """Begin, without a pipe.

        Args:
            prefixed: whether each line gets its rank.
        """
        self._prefixed = prefixed
        self.wrote_at = 0.0  # when the last line came, by the monotonic clock
        self._last_lines = {}
        self._streams = []
        self._selector = selectors.DefaultSelector()
        self._lock = threading.RLock()
        self._wake, self._woken = os.pipe()
        os.set_blocking(self._woken, False)
        self._selector.register(self._wake, selectors.EVENT_READ)
        self._drains = []
        self._thread = threading.Thread(target=self._pass_on, name="rank-output", daemon=True)

    def install(self):
        """Give each rank that torchrun starts pipes of its own; False where this torch cannot.

        The class and its method `_popen` are internal to torch, the same since 1.9. Where they are
        missing, the ranks write to the pod's log themselves.
        """
        handler = handler_class()
        start = getattr(handler, "_popen", None)
        if start is None:
            return False
        output = self

        def popen(self, args, env, *others, **more):
            streams = [name for name in ("_stdout", "_stderr") if getattr(self, name, 0) is None]
            pipes = output.pipes(env.get("RANK", ""), streams)
            try:
                for name, pipe in pipes.items():
                    setattr(self, name, pipe)
                return start(self, args, env, *others, **more)
            finally:
                for name, pipe in pipes.items():
                    setattr(self, name, None)
                    pipe.close()

        handler._popen = popen
        self._thread.start()
        return True

    def pipes(self, rank, names):
        """Writing ends for streams of a rank: ``{"_stdout": file}``; none for a terminal."""
        targets = {name: 1 if name == "_stdout" else 2 for name in names}
        # What its last start wrote is not its own.
        self._last_lines[rank] = deque(maxlen=KEPT_LINES)
        try:
            targets = {name: fd for name, fd in targets.items() if not os.isatty(fd)}
            if len(targets) > 1 and os.path.sameopenfile(1, 2):
                writer = self._pipe(rank, 1)
                return {"_stdout": writer, "_stderr": writer}
            return {name: self._pipe(rank, fd) for name, fd in targets.items()}
        except OSError as error:  # no descriptor is left: the rank must start all the same
            sys.stderr.write(
                "allranks: the lines of rank %s are as they come: %s\n" % (rank, error)
            )
            return {}

    def _pipe(self, rank, target):
        source, end = os.pipe()
        os.set_blocking(source, False)
        prefix = b"[%s] " % rank.encode() if self._prefixed and rank else b""
        stream = RankStream(source, target, prefix, self._last_lines[rank])
        with self._lock:
            self._streams.append(stream)
            self._selector.register(source, selectors.EVENT_READ, stream)
        return os.fdopen(end, "wb", 0)

    def last_lines(self, rank):
        """The last lines that a rank has written, at most 20, as a terminal would show them.

        A rank that was started again begins where its last start ended. Safe from any thread.
        """
        self.drain()
        with self._lock:
            lines = list(self._last_lines.get(str(rank), ()))
            lines += [
                s.open_line
                for s in self._streams
                if s.last_lines is self._last_lines.get(str(rank))
            ]
            return [readable(line) for line in lines if line.strip()][-KEPT_LINES:]

    def drain(self):
        """Wait until all is passed on that the ranks have written so far."""
        self._ask(False)

    def finish(self):
        """Pass on the last of it, before this process ends or becomes another."""
        self._ask(True)

    def _ask(self, is_last):
        if not self._thread.is_alive() or threading.current_thread() is self._thread:
            return
        drained = threading.Event()
        self._drains.append((drained, is_last))
        with contextlib.suppress(BlockingIOError):  # it is woken already
            os.write(self._woken, b"x")
        drained.wait(DRAIN_SECONDS)  # not for ever: nobody may be reading the pod's log

    def _pass_on(self):
        try:
            while True:
                for key, _ in self._selector.select():
                    if key.data is None:
                        os.read(self._wake, CHUNK)
                    else:
                        self._read(key.data)
                self._answer()
        finally:  # a rank that nobody reads must fail to write, and not wait for ever
            for stream in self._streams:
                os.close(stream.source)

    def _answer(self):
        drains, self._drains = self._drains, []
        if drains:
            self._sweep(any(is_last for _, is_last in drains))
            for drained, _ in drains:
                drained.set()

    def _sweep(self, is_last):
        """Read what is there, but no more than the pipes held at this moment."""
        for stream in list(self._streams):
            bytes_left = capacity(stream.source)
            while bytes_left > 0 and (count := self._read(stream)):
                bytes_left -= count
        if is_last:
            for stream in self._streams:
                write(stream.target, stream.rest())

    def _read(self, stream):
        """Pass on a chunk; how many bytes there were. 0 where there is nothing now, or no more."""
        try:
            chunk = os.read(stream.source, CHUNK)
        except BlockingIOError:
            return 0
        with self._lock:
            if chunk:
                self.wrote_at = time.monotonic()
                out = stream.feed(chunk)
            else:
                out = stream.rest()
                self._streams.remove(stream)
                self._selector.unregister(stream.source)
                os.close(stream.source)
        write(stream.target, out)
        return len(chunk)


def handler_class():
    """The class by which torch starts a rank; None where this torch has none."""
    try:
        from torch.distributed.elastic.multiprocessing.subprocess_handler import SubprocessHandler
    except ImportError:
        from torch.distributed.elastic.multiprocessing import api

        return getattr(api, "SubprocessHandler", None)
    return SubprocessHandler


def capacity(pipe):
    """How many bytes a pipe holds at most."""
    try:
        return fcntl.fcntl(pipe, F_GETPIPE_SZ)
    except OSError:
        return CHUNK


def write(target, data):
    """Write all of it; drop what cannot be written, so that no rank waits for it."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(target, view) :]
        except BlockingIOError:
            select.select([], [target], [], 1.0)
        except OSError:
            return
