"""Run a role's program in a pod, and end with the training.

`entry.sh` starts this with the image's own Python (3.8 or newer, standard library). Around the
program, which is the user's, it does what no framework does in a pod:

* It waits, bounded and with words, until the names that the framework needs have addresses.
* It gives the program the environment of its framework (see roles.py): what the pod's index says is
  known only here.
* A parameter server never ends by itself. The leads tell all others when the training is over (see
  meeting.py); these then end their programs, and end well.
* A pod that has failed for good says so, and the leads fail: the training could only hang. A pod
  that has seen no lead for too long ends too.

Exit codes, besides the program's own:
    0    the training is over, or this pod's part of it
    143  told to stop by the kubelet, however well the program took it: this pod is not done
    215  no lead has been seen for too long
    216  another pod, without which there is no training, has failed for good

Environment, set by the chart:
    ALLRANKS_ROLE, JOB_COMPLETION_INDEX  which pod this is (the second by Kubernetes itself)
    ALLRANKS_PLAN             the file with all pods, beside this one
    ALLRANKS_POD_IP           this pod's address
    ALLRANKS_WAIT_SECONDS     how long to wait for names
    ALLRANKS_FOLLOW_PORT      where the leads tell
    ALLRANKS_FOLLOW_TOKEN     what the pods show there; without it anyone may be a pod
    ALLRANKS_LOST_SECONDS     how long to go on without a lead
    ALLRANKS_FAILURES, ALLRANKS_BACKOFF_LIMIT  how often this pod has failed, and may
    ALLRANKS_FATAL_EXIT_CODES comma separated
    ALLRANKS_PROGRESS         a folder for what the program says of its progress (progress.py)
    ALLRANKS_TERMINATION_LOG  where the reason of a failure goes
"""

from __future__ import annotations

import ipaddress
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import meeting
import process_groups
import progress
import roles

EXIT_STOPPED = 128 + signal.SIGTERM
EXIT_KILLED = 128 + signal.SIGKILL
EXIT_LEAD_LOST = 215
EXIT_TRAINING_LOST = 216
PATIENCE_SECONDS = 30.0  # for a program that ends by itself when the training does
STOP_SECONDS = 20.0  # between SIGTERM and SIGKILL, where the chart says nothing
HEAR_SECONDS = 10.0  # for the others to understand that it is over
PLACE_SECONDS = 30.0  # for a pod that was never here to get an address
AFTERMATH_SECONDS = 2.0  # a program may fail because the others have just ended
MESSAGE_MAX = 1000  # characters: at most 4,000 bytes; Kubernetes keeps 4,096


class RoleSettings:
    """What the chart asks, read from the environment once."""

    def __init__(self, env):
        """Read `env`."""
        self.role = env["ALLRANKS_ROLE"]
        self.index = int(env["JOB_COMPLETION_INDEX"])
        self.ip = env.get("ALLRANKS_POD_IP", "")
        self.wait_seconds = float(env["ALLRANKS_WAIT_SECONDS"])
        self.port = int(env["ALLRANKS_FOLLOW_PORT"])
        self.token = env.get("ALLRANKS_FOLLOW_TOKEN", "")
        self.lost_seconds = float(env["ALLRANKS_LOST_SECONDS"])
        spent = int(env.get("ALLRANKS_FAILURES") or 0)
        self.last_try = spent >= int(env["ALLRANKS_BACKOFF_LIMIT"])
        codes = env.get("ALLRANKS_FATAL_EXIT_CODES", "")
        self.fatal = frozenset(int(code) for code in codes.split(",") if code)
        self.termination_log = env.get("ALLRANKS_TERMINATION_LOG", "")
        self.plan = env["ALLRANKS_PLAN"]
        self.grace = float(env.get("ALLRANKS_GRACE_SECONDS") or STOP_SECONDS)
        # What the program gets as its pod ends.
        self.last_signal = getattr(
            signal, env.get("ALLRANKS_CHECKPOINT_SIGNAL", ""), signal.SIGTERM
        )

    @property
    def last_if_killed(self):
        """Whether this pod is not replaced when the kernel kills it."""
        return self.final(EXIT_KILLED)

    def final(self, code):
        """Whether this pod will not be tried again after this exit code."""
        return self.last_try or code in self.fatal


def say(text):
    """One line to the pod's log, at once."""
    print("allranks: " + text, file=sys.stderr, flush=True)


def record(settings, message):
    """Leave the reason of a failure where Kubernetes shows it; "" clears an earlier one."""
    if message:
        say("error: " + message)
    if settings.termination_log:
        try:
            Path(settings.termination_log).write_text(message[:MESSAGE_MAX], encoding="utf-8")
        except OSError as error:
            say("cannot write %s: %s" % (settings.termination_log, error))


def more(words, items):
    """The words with how many items there are besides the first; "" where there are no others."""
    return words % (len(items) - 1) if items[1:] else ""


def address_of(host):
    """The address of a name, "" where it has none."""
    try:
        return socket.getaddrinfo(host, None, proto=socket.IPPROTO_TCP)[0][4][0]
    except OSError:
        return ""


def is_address(host):
    """Whether a host is an address, and no name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def arm(env):
    """Let `allranks why` ask a rank, where sitecustomize.py lies here (runPolicy.diagnose).

    Its Python imports it from the front of the path, and takes this folder off again.
    """
    hook = Path(__file__).absolute().with_name("sitecustomize.py")
    if hook.exists():
        env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(hook.parent), env.get("PYTHONPATH")]))


class UserProgram:
    """The user's program, in a process group of its own."""

    def __init__(self, argv, env, state, grace):
        """Start it; an OSError where it cannot be. `grace` is between SIGTERM and SIGKILL."""
        self._grace = grace
        self.code = None  # as a shell gives it, when it has ended
        self.ended_at = 0.0
        self._state = state
        self._is_signalled = False
        self._process = subprocess.Popen(argv, env=env, start_new_session=True)  # noqa: S603 - the user's
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self):
        code = self._process.wait()
        if code < 0 and self._is_signalled:
            process_groups.wait(self._process.pid)  # a shell has left its program, which may save
        with self._state.changed:
            self.ended_at = time.monotonic()
            self.code = code if code >= 0 else 128 - code
            self._state.changed.notify_all()

    def signal(self, number):
        """To the program and its children; nothing where they are gone."""
        self._is_signalled = True
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            return

    def wait(self, seconds):
        """Whether it ends within so long."""
        with self._state.changed:
            return self._state.changed.wait_for(lambda: self.code is not None, seconds)

    def end(self):
        """Stop it, gently first."""
        self.signal(signal.SIGTERM)
        if not self.wait(self._grace):
            say("the program did not stop within %.0f s of SIGTERM; killing it" % self._grace)
            self.signal(signal.SIGKILL)
            self.wait(None)


class RoleRun:
    """This pod's part in the job, from its start to its exit code."""

    def __init__(self, settings, pod):
        """Open or look for the meeting at once: others may be waiting."""
        self.settings = settings
        self.pod = pod
        self.state = meeting.State()
        self.program = None
        self.stopped = False
        self.heard = None  # of the program's progress
        self.meeting = self.attendance = None
        if pod.is_meeting:
            self.meeting = meeting.Meeting(
                pod,
                self.state,
                settings.ip,
                settings.port,
                last=settings.last_if_killed,
                token=settings.token,
            )
        else:
            self.attendance = meeting.Attendance(
                pod,
                self.state,
                settings.port,
                settings.lost_seconds,
                last=settings.last_if_killed and pod.is_vital,
                say=say,
                token=settings.token,
            )

    def stop(self, *_):
        """The kubelet wants this pod to end: so does its program."""
        self.stopped = True
        (self.meeting or self.attendance).will_be_replaced()
        if self.heard is not None:
            self.heard.ask_to_save(os.environ, say)
        if self.program is not None:
            self.program.signal(self.settings.last_signal)

    def run(self, argv):
        """Run the program to the end of the training; returns the exit code."""
        code = self._wait_for_names()
        if code is None:
            code = self._start(argv)
        if code is None:
            code = self._follow()
        return code

    def _wait_for_names(self):
        """None when all names have addresses, else the exit code."""
        missing = self.pod.names_to_wait_for()
        began, pause, next_word = time.monotonic(), 0.1, 2.0
        while True:
            missing = [host for host in missing if not address_of(host)]
            if self._interrupted():
                say(self.state.why or "told to stop before the program was started")
                return self._verdict()
            waited = time.monotonic() - began
            if not missing:
                return None
            if waited >= self.settings.wait_seconds:
                return self._fail(
                    1,
                    "the name %s had no address within %.0f s%s: its pod is not "
                    "running yet (pending? pulling?), or the cluster's DNS does not answer"
                    % (missing[0], waited, more(" (nor had %d more)", missing)),
                )
            if waited >= next_word:
                say(
                    "waiting for the name %s to have an address%s (%.0f s)"
                    % (missing[0], more(", and for %d more", missing), waited)
                )
                next_word = waited * 2
            time.sleep(min(pause, max(0.0, self.settings.wait_seconds - waited)))
            pause = min(pause * 1.5, 2.0)

    def _start(self, argv):
        """None when the program runs, else the exit code."""
        env = dict(os.environ)
        env.update(self.pod.environment(address_of))
        arm(env)
        try:
            self.program = UserProgram(argv, env, self.state, self.settings.grace)
        except OSError as error:
            code = 127 if isinstance(error, FileNotFoundError) else 126
            return self._fail(code, "cannot run %s: %s" % (argv[0], error.strerror))
        if self.stopped:
            self.program.signal(self.settings.last_signal)
        return None

    def _follow(self):
        """Wait for the program, or for what ends it; returns the exit code."""
        with self.state.changed:
            while self.program.code is None and not self._is_over_or_lost():
                self.state.changed.wait(1.0)
        if self.program.code is None:
            return self._end_program()
        if self.stopped:
            return self.program.code or EXIT_STOPPED
        if self._is_over_or_lost():
            return self._verdict()
        return self._end_well() if self.program.code == 0 else self._end_badly()

    def _end_program(self):
        """It still runs, and the training is over or lost."""
        if self.state.over:
            say("%s; ending" % self.state.why)
        patience = self.state.over == "done" and self.pod.ends_itself
        if not (patience and self.program.wait(PATIENCE_SECONDS)):
            self.program.end()
        return EXIT_STOPPED if self.stopped and not self.state.over else self._verdict()

    def _end_well(self):
        """The program is done: the others may have to know."""
        if self.meeting is None:
            patience = self.settings.lost_seconds if self.pod.is_lead else HEAR_SECONDS
            self.attendance.own_end(0, patience)
            return 0
        self.meeting.own_end()
        if set(self.pod.leads) - self.state.ended:
            say("done; waiting here for the other leads")
        with self.state.changed:
            while not self._interrupted():
                self.state.changed.wait(1.0)
        return self._verdict()

    def _end_badly(self):
        """The program failed: perhaps because the others have ended, perhaps for good."""
        code = self.program.code
        if self.attendance is not None and self.pod.is_vital and self.settings.final(code):
            self.attendance.failing()
        over = self._over_within(AFTERMATH_SECONDS)
        if not over and self.meeting and self.meeting.failed_before(self.program.ended_at):
            # That pod is about to say whether it is its own failure.
            over = self._over_within(HEAR_SECONDS)
        return self._verdict() if over else self._fail(code, "")

    def _over_within(self, seconds):
        with self.state.changed:
            return self.state.changed.wait_for(lambda: self.state.over, seconds)

    def _fail(self, code, reason):
        """End with a failure, and say so where it is for good."""
        record(self.settings, reason)
        if not self.settings.final(code):
            return code
        if self.meeting is not None:
            self.meeting.end("failed", "%s failed for good" % self.pod.name)
            self._wait_until_heard()
        else:
            # Nobody needs to wait for what has gone, and nobody misses it where it is not vital.
            self.attendance.own_end(code if self.pod.is_vital else 0, HEAR_SECONDS)
        return code

    def _wait_until_heard(self):
        """Keep the meeting until every pod that may still come has heard that it is over.

        A pod that starts after the last lead has ended could not tell that from a lead that is not
        there yet: it would wait, and be tried again. So whoever was here and is being replaced, and
        whoever has an address and is starting, is waited for as long as a pod waits for a lead. A
        pod that has no place is not: its time may never come, and a lead may hold what is scarce.
        """
        began, spoken = time.monotonic(), False
        while True:
            waited = time.monotonic() - began
            late = self._late(waited)
            if not late or (self.stopped and waited >= HEAR_SECONDS):
                return
            if waited >= HEAR_SECONDS and not spoken:
                spoken = True
                say(
                    "%s; staying until %s%s heard of it, for at most %.0f s in all "
                    "(elastic.leadLostSeconds)"
                    % (
                        self.state.why,
                        late[0],
                        more(" and %d more have", late) or " has",
                        self.settings.lost_seconds,
                    )
                )
            with self.state.changed:
                self.state.changed.wait(1.0)

    def _late(self, waited):
        """The pods to wait for, after so many seconds."""
        present, replaced, never = self.meeting.unheard()
        if waited < HEAR_SECONDS:
            return sorted(present | replaced | never)
        # Addresses in place of names: all pods are on this machine, and what starts them ends them.
        named = {name for name in replaced | never if not is_address(self.pod.host(name))}
        if waited >= self.settings.lost_seconds:
            return []
        replaced, never = replaced & named, never & named
        if waited >= PLACE_SECONDS:
            never = {name for name in never if address_of(self.pod.host(name))}
        return sorted(replaced | never)

    def _is_over_or_lost(self):
        """Whether the training is over, or no lead is there to say so."""
        return bool(self.state.over) or self._lost()

    def _lost(self):
        return self.attendance is not None and self.attendance.lost.is_set()

    def _interrupted(self):
        return self.stopped or self._is_over_or_lost()

    def _verdict(self):
        """The exit code of a pod that does not end by its own program's."""
        if self.meeting is not None and self.state.over:
            self._wait_until_heard()
        if self.state.over == "done":
            return 0
        if self.state.over == "failed":
            if self.pod.of_a_lead:
                record(self.settings, self.state.why)
                if self.attendance is not None:
                    # The pod at fault first: its exit code is what the job ends with.
                    self.attendance.parted.wait(HEAR_SECONDS)
                return EXIT_TRAINING_LOST
            return 0  # the verdict is the leads'
        if self._lost():
            record(self.settings, self._why_lost())
            return EXIT_LEAD_LOST
        return EXIT_STOPPED

    def _why_lost(self):
        if self.attendance.is_killed:
            why = "%s is gone without a word, and was on its last try (out of memory?)"
            return why % self.pod.leads[0]
        return "%s has not been seen for %.0f s (elastic.leadLostSeconds): this pod ends" % (
            self.pod.leads[0],
            self.settings.lost_seconds,
        )


def main(argv):
    """Run the program of this pod's role; the exit code says how it went."""
    settings = RoleSettings(os.environ)
    record(settings, "")  # a start after a failure has nothing to report yet
    plan = json.loads(Path(settings.plan).read_text(encoding="utf-8"))
    try:
        pod = roles.RolePod(plan, settings.role, settings.index, settings.ip)
        role_run = RoleRun(settings, pod)
    except ValueError as error:
        record(settings, str(error))
        return 1
    except OSError as error:
        record(
            settings,
            "cannot listen on %s:%d (elastic.followPort): %s"
            % (settings.ip, settings.port, error.strerror),
        )
        return 1
    role_run.heard = progress.start(os.environ, say)
    signal.signal(signal.SIGTERM, role_run.stop)
    code = role_run.run(argv)
    if role_run.heard is not None:
        role_run.heard.finish()
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
