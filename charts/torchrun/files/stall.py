"""Notice that a run stands still, say why in the pods' logs, and end the attempt if asked.

A pod's ranks stand still when for `runPolicy.stallSeconds` no rank of it has written a line, none
has entered or ended a collective, and either one of them waits in a collective, or none of them
computes. Each launcher looks at its own ranks and enters what it sees in the store of the
rendezvous, and takes it back when they go on. Rank 0's launcher decides: the run stands still when
its own ranks do and a rank of any pod waits in a collective, or when all pods' ranks stand still.
So a rank that computes alone for long, or still loads torch, is no stall as long as it writes
a line now and then, or nobody waits for it in a collective: a limit that is shorter than the
longest evaluation without a line is one that alarms too early. A run that has gone on and stands
still once more is reported once more.

The pod's log has what it saw, and a file beside the run's checkpoints the stacks as well
(`StallReports`). Rank 0's log has the sentence as a line of progress, too: whoever reads that
(`status`, the operator, which writes an Event) knows that the run stands still, until the next such
line.

A look is taken 20 times within the limit, at most once in a second. It asks a rank how many
collectives it has entered, which costs nothing; only where that is the same as at the look before,
the rank writes its flight recorder (sitecustomize.py), which costs it some milliseconds. Standard
library; Python 3.8 or newer.
"""

import contextlib
import json
import os
import signal
import threading
import time
from pathlib import Path

EXIT_STALLED = 218  # see names.py
LOOKS = 20  # within the limit
LOOK_MOST = 30.0  # seconds between two looks
ANSWER_SECONDS = 2.0  # for a rank to give its recorder
GATHER_SECONDS = 10.0  # for the other pods to say what they see
IDLE_CORES = 0.02
NODES_MAX = 4096
KEEP_SECONDS = 10.0  # for storage to take a report
SENTENCE_MAX = 200  # characters of a line of progress
STOPPED = "stopped, by SIGSTOP or a debugger"  # in place of where a rank is
NOT_ENDED = "no rank says what it does: the attempt is ended once one does (runPolicy.onStall)"
STORE_ERRORS = (RuntimeError, ValueError, OSError, LookupError)


class RankView:
    """A rank at one moment.

    Attributes:
        rank: its number.
        pid: its process.
        groups: its process groups, as why.py gives them; None where it has not answered, or moves.
        cpu_seconds: seconds of processor time so far.
        waits_in: the (group, entry) of the first collective that it waits in (`why.waited_for`).
        moves: whether it has entered a collective since the look before.
    """

    def __init__(self, rank, pid, groups, cpu_seconds, *, waits_in=(None, None), moves=False):
        """Take what was seen."""
        self.rank, self.pid, self.groups, self.cpu_seconds = rank, pid, groups, cpu_seconds
        self.moves, self.waits_in = moves, waits_in

    @property
    def numbers(self):
        """What changes as it goes on."""
        groups = self.groups or {}
        return {name: (group["enqueued"], group["completed"]) for name, group in groups.items()}

    @property
    def pending(self):
        """The (group, number, name) of the first collective that it waits in; None for none."""
        name, entry = self.waits_in
        return entry and (name, entry["number"], entry["name"].rpartition(":")[2])

    @property
    def begun(self):
        """Whether its GPU has begun what is pending; None where nothing is, or nobody tells.

        NCCL tells it with TORCH_NCCL_ENABLE_TIMING=1: else all of them are `scheduled`.
        """
        _, entry = self.waits_in
        return {"started": True, "scheduled": False}.get((entry or {}).get("state"))


class RankObserver:
    """Looks at the ranks of this pod."""

    def __init__(self, why):
        """`why` is the module why.py."""
        self._why = why
        self.ranks_seen = []  # what `places` saw last
        self._ranks = {}  # their processes, as they were found last
        self._entered = {}  # by process: how many collectives of each group, at the last look

    def look(self, *, closely=False):
        """The ranks now; `closely` has those that move say which collectives they are in, too."""
        deadline = time.monotonic() + ANSWER_SECONDS
        moving = {} if closely else self._moving(deadline)
        if moving and len(moving) == len(self._ranks):
            return list(moving.values())
        living = self._why.processes()
        self._ranks = self._why.ranks(living)
        others = []
        for rank, process in self._ranks.items():
            if rank in moving:
                continue
            try:
                armed = self._why.ArmedProcess.of(process)
                has_recorder = armed is not None and armed.ask_flight()
                cpu_seconds = process.seconds() + self._cpu_seconds_below(living, process)
                others.append((rank, process.pid, armed if has_recorder else None, cpu_seconds))
            except (OSError, ValueError, IndexError):
                continue  # it has just ended
        views = list(moving.values())
        for rank, pid, armed, cpu_seconds in others:
            groups = ((armed and armed.flight(deadline)) or {}).get("groups")
            waits_in = self._why.waited_for(groups)
            views.append(RankView(rank, pid, groups, cpu_seconds, waits_in=waits_in))
        return views

    def _cpu_seconds_below(self, living, process):
        """The processor time of what a rank has started, such as its loaders of data."""
        cpu_seconds = 0.0
        for other in self._why.below(living, process):
            with contextlib.suppress(OSError, ValueError, IndexError):  # it has just ended
                cpu_seconds += other.seconds()
        return cpu_seconds

    def _moving(self, deadline):
        """The ranks that have entered a collective since the look before, of those known then."""
        before, self._entered, moving = self._entered, {}, {}
        for rank, process in self._ranks.items():
            try:
                armed, pid = self._why.ArmedProcess.of(process), process.pid
                cpu_seconds = process.seconds()
            except (OSError, ValueError, IndexError):
                continue  # it has just ended
            numbers = None if armed is None else armed.entered(deadline)
            if numbers is not None:
                self._entered[pid] = numbers
                if before.get(pid, numbers) != numbers:
                    moving[rank] = RankView(rank, pid, None, cpu_seconds, moves=True)
        return moving

    def places(self):
        """Where each rank is: the innermost call of its program, or `STOPPED`."""
        self.ranks_seen = self._why.look(ANSWER_SECONDS)["ranks"]
        return {
            rank["rank"]: STOPPED
            if rank.get("state") in ("T", "t")
            else self._why.place(rank.get("stacks", ""), rank.get("main", 0))
            for rank in self.ranks_seen
        }


class PodStall:
    """Since when the ranks of this pod stand still."""

    def __init__(self, now):
        """Begin: they move now."""
        self.since = now
        self.waits = self.idles = False
        self._numbers, self._cpu_seconds, self._looked_at = None, {}, now

    def update(self, views, wrote_at, now, *, has_ended=False):
        """Take another look.

        Args:
            views: the ranks.
            wrote_at: when the last line was written.
            now: the time.
            has_ended: whether ranks of this pod have ended well: those of others may wait for them.
        """
        numbers = {view.rank: (view.pid, view.numbers) for view in views if view.groups is not None}
        moving = {view.rank: None for view in views if view.moves}
        before = {} if self._numbers is None else self._numbers
        # A rank that has not answered this time has not moved; and of one that moved at the look
        # before, there are no numbers to compare these with.
        moved = any(before.get(rank, ()) not in (None, number) for rank, number in numbers.items())
        if moved or moving or not (views or has_ended):
            self.since = now
        self._numbers = {**before, **numbers, **moving}
        self.since = max(self.since, wrote_at)
        passed = max(now - self._looked_at, 0.001)
        cpu_deltas = [view.cpu_seconds - self._cpu_seconds.get(view.pid, 0.0) for view in views]
        self.waits = any(view.pending for view in views)
        self.idles = all(seconds / passed < IDLE_CORES for seconds in cpu_deltas)
        if views and not self.idles and not self.waits and not numbers:
            self.since = now  # without a recorder, what computes goes on
        self._cpu_seconds = {view.pid: view.cpu_seconds for view in views}
        self._looked_at = now

    def lasts(self, seconds, now):
        """Whether they have stood still for so long."""
        return now - self.since >= seconds

    @property
    def state(self):
        """What a pod is counted as that has stood still for the limit; "" where a rank computes."""
        if self.waits:
            return StallBoard.WAITING
        return StallBoard.IDLE if self.idles else ""


def is_run_stalled(pod_stall, board, nodes):
    """Whether the run does, where the ranks of rank 0's pod have stood still for the limit.

    A rank that waits in a collective waits for all of its group, wherever that is. One that only
    sleeps may wait for another pod whose ranks still compute, or load torch.
    """
    if pod_stall.waits or board.pods(StallBoard.WAITING):
        return True
    return pod_stall.idles and board.pods(StallBoard.IDLE) >= nodes - 1


def report(pod, node, views, places, stall_seconds, *, ended=()):
    """What this pod says in the store: the pending and entered collectives of its ranks.

    Args:
        pod: its name.
        node: its number.
        views: its ranks.
        places: where each rank is.
        stall_seconds: for how long they have stood still.
        ended: its ranks that have ended well.
    """
    ranks = [
        {
            "rank": view.rank,
            "at": places.get(view.rank, "")[:200],
            "pending": view.pending,
            "begun": view.begun,
            "numbers": view.numbers if view.groups is not None else None,
        }
        for view in views
    ]
    content = {"pod": pod, "node": node, "quiet": round(stall_seconds), "ranks": ranks}
    return dict(content, ended=list(ended))


def is_certain(reports):
    """Whether any rank has said what it does: of ranks that nobody can ask, none may be ended."""
    ranks = [rank for pod in reports for rank in pod["ranks"]]
    return any(rank["numbers"] is not None or rank["at"] for rank in ranks)


def verdict(reports, seconds):
    """Why it stands still, from what the pods say.

    Returns:
        (the rank to blame, its pod, its node, a sentence).
    """
    rank, pod, words = _cause(reports)
    return rank, pod["pod"], pod["node"], "no progress for %d s: %s" % (seconds, words)


def _cause(reports):
    """The rank to blame (-1 for none), what its pod says, and why, in words."""
    ranks = [(rank, pod) for pod in reports for rank in pod["ranks"]]
    if not ranks:
        return -1, reports[0], "no rank runs any more"
    ranks.sort(key=lambda pair: pair[0]["rank"])
    waiting = [(rank, pod) for rank, pod in ranks if rank["pending"]]
    # It cannot say what it has entered; and it is the cause, whatever the others do.
    stopped = [(rank, pod) for rank, pod in ranks if rank["at"] == STOPPED]
    if stopped:
        words = _named(stopped) + " is " + STOPPED + ("; " + _count(waiting) if waiting else "")
    elif waiting:
        return _cause_of_wait(reports, ranks, waiting)
    else:
        words = "no rank computes, and none waits in a collective; rank %d is at %s"
        words = words % (ranks[0][0]["rank"], ranks[0][0]["at"] or "a place that is not known")
    rank, pod = (stopped or ranks)[0]
    return rank["rank"], pod, words


def _cause_of_wait(reports, ranks, waiting):
    """As `_cause`, of what keeps the ranks that wait in a collective."""
    group, number, name = min((rank["pending"] for rank, _ in waiting), key=lambda entry: entry[1])
    collective = "%s #%d" % (name, number) + ("" if group == "0" else " of group %s" % group)
    absent = []
    for rank, pod in ranks:
        entered = (rank["numbers"] or {}).get(group)
        if rank["numbers"] is None or (entered and entered[0] < number):
            absent.append((rank, pod))
    there = [(rank, pod) for rank, pod in waiting if tuple(rank["pending"][:2]) == (group, number)]
    begun = [rank for rank, _ in there if rank.get("begun")]
    behind = [(rank, pod) for rank, pod in there if rank.get("begun") is False] if begun else []
    ended = [({"rank": rank}, pod) for pod in reports for rank in pod.get("ended", ())]
    if absent:
        blamed, words = absent, "%s has not entered %s" % (_named(absent), collective)
        words += _circumstances(absent[0][0], waiting)
    elif behind:
        words = "%s has given %s to its GPU, which is still busy with what came before it"
        blamed, words = behind, words % (_named(behind), collective)
        words += _circumstances(behind[0][0], begun)
    elif ended:
        words = "%s has ended with exit code 0 and has not entered %s; %s"
        blamed, words = ended, words % (_named(ended), collective, _count(waiting))
    else:
        words = "all ranks that answer have entered %s (%s)" % (collective, waiting[0][0]["at"])
        blamed = waiting
    rank, pod = blamed[0]
    return rank["rank"], pod, words


def _named(ranks):
    """The first of some ranks, with its pod, and how many more there are."""
    rank, pod = ranks[0]
    more = " (and %d more)" % (len(ranks) - 1) if len(ranks) > 1 else ""
    return "rank %d%s (pod %s)" % (rank["rank"], more, pod["pod"])


def _circumstances(rank, waiting):
    where = "it is at %s" % rank["at"] if rank["at"] else "it is not known where it is"
    return "; %s; %s" % (where, _count(waiting))


def _count(waiting):
    return "1 rank waits" if len(waiting) == 1 else str(len(waiting)) + " ranks wait"


def lines(content):
    """A line for each rank of what `report` gives: where it is, and the collective it waits in."""
    for rank in content["ranks"]:
        wait = "in %s #%d" % rank["pending"][:0:-1] if rank["pending"] else "in no collective"
        where = rank["at"] if rank["at"] == STOPPED else "at " + (rank["at"] or "?")
        yield "no progress: rank %d is %s, %s" % (rank["rank"], where, wait)


class StallReports:
    """Files beside the checkpoints, where the run has some: one for each pod and stall.

    They outlive the pods, whose logs go with them. Storage that is full, read-only or gone is told
    once, and holds up nothing.
    """

    FOLDER = "allranks-standstills"

    def __init__(self, env, pod, say):
        """By the environment; `say` writes a line to the pod's log."""
        self._folder, self._pod, self._say = env.get("ALLRANKS_STALL_REPORTS", ""), pod, say

    def keep(self, sentence, ranks):
        """Write what was seen of the ranks (`why.look`), with the verdict if it is known here."""
        if self._folder and self._say is not None:
            args = (page(self._pod, sentence, ranks),)
            thread = threading.Thread(target=self._write, args=args, daemon=True)
            thread.start()
            thread.join(KEEP_SECONDS)  # a network file system may never answer

    def _write(self, text):
        name = "%s-%s.txt" % (self._pod, time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()))
        file = Path(self._folder) / self.FOLDER / name
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        except OSError as error:
            self._say("this is not kept beside the checkpoints: %s" % error)
            self._say = None
            return
        self._say("this is kept in %s" % file)


def page(pod, sentence, ranks):
    """A report: the verdict, and of each rank what the kernel says and its stacks."""
    lines = ["pod %s, %s" % (pod, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))]
    lines += [sentence] if sentence else []
    for rank in ranks:
        words = "rank %d: %s, state %s, waits in %s, %d MiB, %.2f cores"
        waits, cores = rank.get("waits", "0"), rank.get("cpu", 0.0)
        waits = "nothing" if waits in ("", "0") else waits
        facts = (rank["rank"], rank["program"], rank["state"], waits, rank["memory"] >> 20, cores)
        lines += ["", words % facts, rank.get("stacks", "")]
    return "\n".join(lines) + "\n"


def progress_line(sentence):
    """What tells whoever reads the progress of the run that it stands still; "" that it goes on."""
    content = {"standstill": sentence[:SENTENCE_MAX], "at": int(time.time())}
    return "progress " + json.dumps(content)


class StallBoard:
    """What the pods say of a stall, in the store of an attempt.

    How many pods stand still, by `WAITING` and `IDLE`; how often rank 0's pod has asked what they
    see; and of each pod its last answer.
    """

    WAITING = "waiting"  # a rank of the pod waits in a collective
    IDLE = "idle"  # none of its ranks computes

    def __init__(self, store, node):
        """`store` is torch's, with the round in its prefix; `node` is this pod's number."""
        self._store, self._node = store, node
        self._question = 0  # that this pod has answered last
        self.state = ""  # in which this pod is counted

    def count_as(self, state):
        """Count this pod as one that stands still, `WAITING` or `IDLE`; "" that it goes on."""
        if state != self.state:
            for name, more in ((self.state, -1), (state, 1)):
                if name:
                    self._store.add("allranks/stall/" + name, more)
            self.state = state

    def pods(self, state):
        """How many pods are counted as `WAITING` or `IDLE`."""
        return self._store.add("allranks/stall/" + state, 0)

    def ask(self):
        """Have all pods say what they see, whether they stand still or not."""
        self._store.add("allranks/stall/questions", 1)

    def has_question(self):
        """Whether this pod has a question to answer."""
        return self._store.add("allranks/stall/questions", 0) > self._question

    def answer(self, content):
        """Say what this pod sees now."""
        self._question = self._store.add("allranks/stall/questions", 0)
        content = dict(content, question=self._question)
        self._store.set("allranks/stall/%d" % self._node, json.dumps(content))
        self._store.add("allranks/stall/answers-%d" % self._question, 1)

    def answers(self):
        """How many pods have answered the question that this one has answered last."""
        return self._store.add("allranks/stall/answers-%d" % self._question, 0)

    def reports(self, nodes):
        """Their answers to it."""
        keys = ["allranks/stall/%d" % node for node in range(min(nodes, NODES_MAX))]
        contents = [json.loads(self._store.get(key)) for key in keys if self._store.check([key])]
        return [content for content in contents if content["question"] == self._question]

    def end(self):
        """Have all pods end their ranks."""
        self._store.set("allranks/stall/ended", "1")

    def is_ended(self):
        """Whether they are to; nobody is without having been asked before."""
        return self._question > 0 and self._store.check(["allranks/stall/ended"])


class StallWatcher:
    """Looks at this pod's ranks for as long as they run."""

    def __init__(self, seconds, *, ends, observer, output, say, record, reports):
        """Begin, without a look.

        Args:
            seconds: the limit.
            ends: whether a stall ends the attempt.
            observer: looks at the ranks.
            output: has `wrote_at`, when the last line came; None where that is not known.
            say: writes a line to the pod's log.
            record: leaves the reason where Kubernetes shows it when the pod has ended.
            reports: keeps what was seen beside the checkpoints.
        """
        self.seconds, self.ends, self.observer, self.output = seconds, ends, observer, output
        self.say, self.record, self.reports = say, record, reports
        self._is_reported = False  # by rank 0: as a line of progress
        self._is_to_end = False  # once a rank says what it does; on a busy node that may be later

    def follow(self, watch):
        """Look at each attempt of a launcher, in a thread."""
        threading.Thread(target=self._safely, args=(watch,), daemon=True).start()

    def _safely(self, watch):
        try:
            self._follow(watch)
        except Exception as error:  # noqa: BLE001 - whatever it is, the training goes on
            self.say("nobody looks for a standstill any more: %r" % error)

    def _follow(self, watch):
        attempt, pod_stall, board = None, None, None
        pause = min(max(self.seconds / LOOKS, 1.0), LOOK_MOST)
        while True:
            time.sleep(pause)
            now = time.monotonic()
            if watch.attempt is not attempt:
                attempt, pod_stall = watch.attempt, PodStall(now)
                board = attempt and StallBoard(attempt.board.store, attempt.node)
            if attempt is None:
                continue
            views = self._look(attempt)
            wrote_at = self.output.wrote_at if self.output else 0.0
            pod_stall.update(views, wrote_at, now, has_ended=bool(attempt.ended()))
            if self._is_reported and not pod_stall.lasts(self.seconds, now):
                self._is_reported = self._is_to_end = False
                self.say(progress_line(""))
            with contextlib.suppress(*STORE_ERRORS):  # the store is gone: so is the attempt, soon
                self._judge(attempt, board, pod_stall, views, now)

    def _look(self, attempt, *, closely=False):
        """The ranks that run; what one that has ended leaves behind has its number, and is none."""
        ended = set(attempt.ended())
        return [view for view in self.observer.look(closely=closely) if view.rank not in ended]

    def _judge(self, attempt, board, pod_stall, views, now):
        """Say whether this pod stands still; on rank 0's, conclude whether the run does."""
        stands = pod_stall.lasts(self.seconds, now)
        if attempt.node == 0:
            is_open = not self._is_reported or self._is_to_end
            if stands and is_open and is_run_stalled(pod_stall, board, attempt.nodes):
                board.ask()
                is_logged = not self._is_reported
                content = self._report(attempt, pod_stall, views, now, is_logged=is_logged)
                board.answer(content)
                self._conclude(attempt, board, content)
            return
        if board.is_ended():
            self._kill()
            return
        before, state = board.state, pod_stall.state if stands else ""
        board.count_as(state)
        is_new, has_question = state and not before, board.has_question()
        if not (is_new or has_question):
            return
        content = self._report(attempt, pod_stall, views, now, is_logged=is_new or not state)
        if has_question:
            board.answer(content)
            if self.ends:
                self._end_with_rank0(board)

    def _report(self, attempt, pod_stall, views, now, *, is_logged=True):
        """What this pod sees, in its log as well."""
        if any(view.moves for view in views):  # another pod asked
            views = self._look(attempt, closely=True)
        places, silence = self.observer.places(), now - pod_stall.since
        ended = attempt.ended()
        content = report(attempt.pod, attempt.node, views, places, silence, ended=ended)
        if is_logged:
            for line in lines(content):
                self.say(line)
            if attempt.node != 0:  # rank 0's is kept with the verdict
                self.reports.keep("", self.observer.ranks_seen)
        return content

    def _patience(self):
        """Until when it is waited for the other pods."""
        return time.monotonic() + GATHER_SECONDS + min(self.seconds / LOOKS, LOOK_MOST)

    def _end_with_rank0(self, board):
        deadline = self._patience()
        while not board.is_ended() and time.monotonic() < deadline:
            time.sleep(0.2)
        if board.is_ended():
            self._kill()

    def _kill(self):
        """End the ranks of this pod: what stands still can save nothing, and may not hear."""
        for view in self.observer.look():
            with contextlib.suppress(OSError):
                os.kill(view.pid, signal.SIGKILL)

    def _conclude(self, attempt, board, own):
        deadline = self._patience()
        while board.answers() < attempt.nodes and time.monotonic() < deadline:
            time.sleep(0.2)
        reports = board.reports(attempt.nodes) or [own]
        if self._is_to_end and not is_certain(reports):
            return
        rank, pod, node, sentence = verdict(reports, self.seconds)
        self.say(sentence)
        self.say(progress_line(sentence))
        self._is_reported = True
        self.record(sentence)
        self.reports.keep(sentence, self.observer.ranks_seen)
        if not self.ends:
            return
        self._is_to_end = not is_certain(reports)
        if self._is_to_end:
            self.say(NOT_ENDED)
            return
        self.say("ending this attempt with exit code %d (runPolicy.onStall)" % EXIT_STALLED)
        entry = {"rank": rank, "code": EXIT_STALLED, "pod": pod, "node": node}
        attempt.board.enter(lambda: dict(entry, lines=sentence, follows=False))
        board.end()
        self._kill()
