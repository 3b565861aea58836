"""How the pods of a job learn that it is over.

A parameter server does not know when the training ends, and no pod here may ask the API server.
So one pod, the first lead, keeps a meeting: all others hold a connection to it and hear every few
seconds that it is there, which pods have ended, and in the end that the training is over. A lead
that is done, and a pod that has failed for good, say so there. What was heard is told again to a
meeting that had to start anew.

A pod that the kernel kills says nothing: its memory ran out. But its connection is closed, and each
side has said before whether it would be replaced. One that would not, and does not come back, has
failed for good. A node that is lost closes nothing, and its pods are replaced.

One JSON object a line, both ways:
    to the meeting    {"pod": "ps-1", "known": ["worker-0"]}   at first; known: whose end was heard;
                      with "token" where the job has one
                      {"last": true}      when this pod is killed, nobody replaces it
                      {"failing": true}   its program has failed for good, maybe of another's end
                      {"ended": 0}        this pod's program has ended well, or failed for good
                      {"heard": true}     it has understood that the training is over
    from the meeting  {"ended": [...], "over": "" | "done" | "failed", "why": "...", "last": true}

Python 3.8 or newer, standard library.
"""

from __future__ import annotations

import asyncio
import collections
import hmac
import json
import socket
import threading
import time

BEAT_SECONDS = 3.0
SILENCE_SECONDS = 15.0  # without a word from the meeting: the connection is dead
BACK_SECONDS = 10.0  # after its connection was closed, a pod that lives has long come back
LINE_MAX, LINE_PER_POD = 4096, 64  # bytes of a line, and for each pod, which it may name
HELLO_SECONDS = 15.0  # for a connection to say which pod it is of
STRANGERS_MAX = 4096  # connections that have not; all pods may call at once
STRANGERS_PER_ADDRESS = 256  # of one address: all pods of one node, where they share its network
PLACES_MAX = 4  # connections of one pod: those that were lost are not seen to be at once


class State:
    """What is known of the end; one lock for all threads."""

    def __init__(self):
        """Nothing is known yet."""
        self.changed = threading.Condition()
        self.ended = set()  # pods whose program has ended well
        self.over = ""  # "" | done | failed
        self.why = ""

    def learn(self, ended=(), over="", why=""):
        """Add what was heard; the first word of the end stands."""
        with self.changed:
            self.ended |= set(ended)
            if over and not self.over:
                self.over, self.why = over, why
            self.changed.notify_all()

    def as_word(self):
        """What a meeting says of it, as a word of the protocol."""
        with self.changed:
            return {"ended": sorted(self.ended), "over": self.over, "why": self.why}


class Meeting:
    """Kept by the first lead, in a thread of its own."""

    def __init__(self, own_pod, state, address, port, *, last, token=""):
        """Open the port at once; an OSError where it is taken.

        `last` and `token`: as in `Attendance`; without a token anyone may be a pod of the job.
        """
        self._own_pod = own_pod
        self._token = token
        self._state = state
        self._last = last
        self._last_tries = set()
        self._missed = {}  # pods that nobody replaces -> when their connection was closed
        self._failing = {}  # pods whose program has failed for good -> when they said so
        self._loop = asyncio.new_event_loop()
        self._attending = {}  # writer of each connection -> the pod's name
        self._met = set()  # pods that have been here
        self._strangers = collections.Counter()  # connections by address
        self._heard = set()
        self._at_fault = ""  # who has failed for good: it ends before the others do
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind((address, port))
        self._socket.listen(1024)
        threading.Thread(target=self._run, daemon=True).start()

    def own_end(self):
        """This pod's own program has ended well."""
        self._state.learn(ended=[self._own_pod.name])
        self._loop.call_soon_threadsafe(self._judge)

    def end(self, over, why):
        """Say that it is over: "done" or "failed"."""
        self._state.learn(over=over, why=why)
        self._loop.call_soon_threadsafe(self._judge)

    def will_be_replaced(self):
        """This pod is told to stop: another one will take its place."""
        self._last = False
        self._loop.call_soon_threadsafe(self._tell_all)

    def failed_before(self, at):
        """Whether another pod's program had failed for good by then."""
        return any(when < at for when in list(self._failing.values()))

    def unheard(self):
        """The pods that have not understood that it is over.

        A pod that has ended waits, while it is here, to hear that this was noted. The last of the
        leads ends the training itself, so it would look for a meeting that had gone at once.

        Returns:
            Those that are here, those that were and are being replaced, and those that never came.
        """
        with self._state.changed:
            here = set(self._attending.values())
            missing = set(self._own_pod.everybody) - {self._own_pod.name} - self._heard
            present = missing & here | {self._at_fault} & here
            absent = missing - self._state.ended - here
            return present, absent & self._met, absent - self._met

    def _run(self):
        asyncio.set_event_loop(self._loop)
        limit = LINE_MAX + LINE_PER_POD * len(self._own_pod.everybody)
        start = asyncio.start_server(self._attend, sock=self._socket, limit=limit)
        self._loop.run_until_complete(start)
        self._loop.create_task(self._beat())
        self._loop.run_forever()

    async def _beat(self):
        while True:
            self._miss()
            self._tell_all()
            await asyncio.sleep(BEAT_SECONDS)

    async def _attend(self, reader, writer):
        """One connection: the pod's words, until it goes."""
        pods = set(self._own_pod.everybody)
        closed = True  # by the other side, or by its kernel
        address = (writer.get_extra_info("peername") or ("",))[0]
        try:
            # Anyone may reach this port: who is no pod of the job has little time, and little room.
            self._strangers[address] += 1
            if self._has_too_many(address):
                closed = False
                return
            line = await asyncio.wait_for(reader.readline(), HELLO_SECONDS)
            while line:
                word = json.loads(line)
                name = self._attending.get(writer) or self._introduced(word)
                if name not in pods:
                    closed = False
                    return
                if writer not in self._attending:
                    self._greet(writer, address, name)
                self._take(name, word)
                self._judge()
                line = await reader.readline()
        except ConnectionError:
            return
        except (
            asyncio.TimeoutError,
            OSError,
            ValueError,
            AttributeError,
            TypeError,
            RecursionError,
        ):
            closed = False
            return  # out of sight, or none of ours
        finally:
            if writer not in self._attending:
                self._leave(address)
            with self._state.changed:
                name = self._attending.pop(writer, None)
                self._state.changed.notify_all()
            if closed and name in self._last_tries - set(self._attending.values()):
                self._missed[name] = time.monotonic()
            writer.close()

    def _has_too_many(self, address):
        """Whether no more connections are taken that have not said whose they are."""
        everybody = sum(self._strangers.values())
        return everybody > STRANGERS_MAX or self._strangers[address] > STRANGERS_PER_ADDRESS

    def _introduced(self, word):
        """The pod that a first word is of; "" for one that does not show the job's token."""
        shown = str(word.get("token", "")).encode("utf-8", "replace")
        if self._token and not hmac.compare_digest(shown, self._token.encode()):
            return ""
        return word.get("pod")

    def _greet(self, writer, address, name):
        """Know a connection as a pod's; of one pod the oldest make room."""
        self._leave(address)
        with self._state.changed:
            self._attending[writer] = name
            self._met.add(name)
        own = [connection for connection, pod in self._attending.items() if pod == name]
        for connection in own[:-PLACES_MAX]:
            connection.close()

    def _leave(self, address):
        """One connection of an address less that has not said whose it is."""
        self._strangers[address] -= 1
        if not self._strangers[address]:
            del self._strangers[address]

    def _miss(self):
        """A pod that was killed, and that nobody replaces, has failed for good."""
        for name, since in list(self._missed.items()):
            if name in self._state.ended or time.monotonic() - since < BACK_SECONDS:
                continue
            with self._state.changed:
                self._heard.add(name)
            why = "%s is gone without a word, and was on its last try (out of memory?)" % name
            self._state.learn(over="failed", why=why)

    def _take(self, name, word):
        ended = set(word.get("known", []))
        self._state.learn(ended=ended & set(self._own_pod.everybody))
        self._missed.pop(name, None)
        if "last" in word:
            (self._last_tries.add if word["last"] else self._last_tries.discard)(name)
        if word.get("failing"):
            self._failing.setdefault(name, time.monotonic())
        if word.get("ended") == 0:
            self._state.learn(ended=[name])
        elif "ended" in word:
            self._at_fault = self._at_fault or name
            self._state.learn(over="failed", why="%s failed for good" % name)
        if word.get("heard"):
            with self._state.changed:
                self._heard.add(name)
                self._state.changed.notify_all()

    def _judge(self):
        """Over is what all leads have ended; then tell everybody, at once."""
        if set(self._own_pod.leads) <= self._state.ended:
            self._state.learn(over="done", why="the training is done")
        self._tell_all()

    def _tell_all(self):
        line = (json.dumps(dict(self._state.as_word(), last=self._last)) + "\n").encode()
        for writer in list(self._attending):
            writer.write(line)


class Attendance:
    """Kept by every other pod, in a thread of its own."""

    def __init__(self, own_pod, state, port, lost_seconds, *, last, say, token=""):
        """Begin at once to look for the meeting.

        Args:
            own_pod: this pod (roles.py).
            state: what is known of the end.
            port: of the meeting.
            lost_seconds: how long to look for it.
            last: whether nobody replaces this pod when it is killed.
            say: gets words for the log.
            token: what the pods of the job show to the meeting; "" where it has none.
        """
        self._token = token
        self._own_pod = own_pod
        self._state = state
        self._port = port
        self._lost_seconds = lost_seconds
        self._say = say
        self._last = last
        self._lead_is_last = False  # the meeting's pod is not replaced when it is killed
        self._ended = None  # this pod's own end: 0, or the code of a failure for good
        self._noted = threading.Event()
        self._socket = None
        self._heard_at = time.monotonic()
        self.is_killed = False  # the meeting's pod was killed, it seems, and is not replaced
        self.lost = threading.Event()
        self.parted = threading.Event()  # it is over, and the meeting is closed
        threading.Thread(target=self._run, daemon=True).start()

    def will_be_replaced(self):
        """This pod is told to stop: another one will take its place."""
        self._last = False
        self._send({"last": False})

    def failing(self):
        """Say that the program has failed for good; it may be because of another pod's end."""
        self._send({"failing": True})

    def own_end(self, code, seconds):
        """Bring this pod's end to the meeting, for at most so long; whether it was noted."""
        self._ended = code
        self._send({"ended": code})
        deadline = time.monotonic() + seconds
        with self._state.changed:
            while not self._was_noted():
                seconds_left = deadline - time.monotonic()
                if seconds_left <= 0 or self.lost.is_set():
                    return False
                self._state.changed.wait(min(seconds_left, 1.0))
        return True

    def _was_noted(self):
        return bool(self._state.over) or self._own_pod.name in self._state.ended

    def _run(self):
        self._look()
        self.parted.set()

    def _look(self):
        pause = 0.1
        while not self._state.over:
            before = self._heard_at
            try:
                self._attend()
                reason, closed = "it closed the connection", True
            except (OSError, ValueError) as error:
                reason, closed = str(error), isinstance(error, ConnectionResetError)
            self.is_killed = self.is_killed or (closed and self._lead_is_last)
            if self._state.over:
                return
            met = self._heard_at != before
            if met:
                self._say("%s is away (%s); looking for it" % (self._own_pod.leads[0], reason))
            if time.monotonic() - self._heard_at > self._patience():
                self.lost.set()
                with self._state.changed:
                    self._state.changed.notify_all()
                return
            pause = 0.1 if met else min(pause * 1.5, 2.0)
            time.sleep(pause)

    def _patience(self):
        return min(BACK_SECONDS, self._lost_seconds) if self.is_killed else self._lost_seconds

    def _attend(self):
        """One connection, until it breaks or the training is over."""
        where = (self._own_pod.meeting, self._port)
        with socket.create_connection(where, timeout=5) as self._socket:
            self._socket.settimeout(SILENCE_SECONDS)
            hello = {"pod": self._own_pod.name, "known": self._state.as_word()["ended"]}
            if self._token:
                hello["token"] = self._token
            self._send(dict(hello, last=self._last))
            if self._ended is not None:
                self._send({"ended": self._ended})
            lines = self._socket.makefile("rb")
            for line in lines:
                word = json.loads(line)
                self._heard_at = time.monotonic()
                self._lead_is_last, self.is_killed = word["last"], False
                if word["over"]:
                    self._send({"heard": True})  # first: this pod may end as soon as it knows
                self._state.learn(word["ended"], word["over"], word["why"])
                if word["over"]:
                    list(lines)  # until the meeting closes
                    return

    def _send(self, word):
        """To the meeting, where there is one; a broken connection is mended by `_run`."""
        connection = self._socket
        if connection is not None:
            try:
                connection.sendall((json.dumps(word) + "\n").encode())
            except OSError:
                return
