"""Say what the ranks of this pod are doing: the pod's half of `allranks why`.

It looks twice, a moment apart, so that what moves can be told from what stands: at each rank's
processor time, at what the kernel has it wait for, and at its flight recorder. In between it has
every rank write its stacks (see sitecustomize.py). It changes nothing, and waits for nobody longer
than it was told: a rank whose Python is stuck in a call answers nothing, and that is said.

    why.py SECONDS    prints one JSON object and the line `allranks-why-done`

It runs in the container as whoever `exec` is, with the image's own Python: standard library, Python
3.8 or newer. It is longer than most, because it is the one file that is run there.
"""

import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

DONE = "allranks-why-done"  # the last line of an answer: a stream's own end is not to be relied on
INTERVAL = 0.3  # seconds between the two looks
POLL = 0.01
TURN_SECONDS = 2.0  # for another who asks at the same time
STACKS_MAX = 48 << 10  # characters of one process
FLIGHT_MAX = 64 << 20  # bytes of a recorder that are read
TAIL, TIMES = 6, 32  # collectives of a group that are passed on: as they are, and when they began
CHILDREN_MAX = 8
NAME = "allranks-why-state"
RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK")
WORLDS = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
TGKILL = {"x86_64": 234, "aarch64": 131}
TICKS = os.sysconf("SC_CLK_TCK")
SMI = (
    "index",
    "utilization.gpu",
    "memory.used",
    "memory.total",
    "ecc.errors.uncorrected.volatile.total",
)

_FRAME = re.compile(r'  File "(?P<file>.*)", line (?P<line>\d+) in (?P<function>.*)')
_FOREIGN = re.compile(r"<frozen |/site-packages/|/dist-packages/|/lib(?:64)?/python3?[.\d]*/")


class LinuxProcess:
    """A process, as /proc has it."""

    def __init__(self, pid):
        """Read what does not change; an OSError where it is gone."""
        self.pid = pid
        self.path = Path("/proc/%d" % pid)
        self.parent = int(self.stat()[1])
        self.env = self._env()
        self.state, self.state_path = self._state()
        self.env.update(self.state)
        self.words = self._words()

    def stat(self):
        """The fields of its stat file, from the letter of its state and its parent on."""
        return (self.path / "stat").read_text(errors="replace").rpartition(")")[2].split()

    def _env(self):
        try:
            data = (self.path / "environ").read_bytes()
        except OSError:
            return {}
        pairs = (line.partition(b"=") for line in data.split(b"\0"))
        return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}

    def _state(self):
        """What it says of itself where it is armed, and the file; ({}, None) for others.

        Between fork and exec a process has the files of its parent, and no handler.
        """
        try:
            paths = list((self.path / "fd").iterdir())
        except OSError:
            return {}, None
        for path in paths:
            if NAME in self.link(path.name):
                lines = read(path, 1 << 14).splitlines()
                state = dict(line.partition("=")[::2] for line in lines)
                if state.get("pid") == str(self.pid):
                    return state, path
        return {}, None

    def _words(self):
        data = (self.path / "cmdline").read_bytes()
        return [os.fsdecode(word) for word in data.split(b"\0")[:-1]]

    @property
    def rank(self):
        """The rank whose environment it has; None for none."""
        for name in RANKS:
            if self.env.get(name, "").isdigit():
                return int(self.env[name])
        return None

    @property
    def program(self):
        """Its program and script; what follows may hold secrets."""
        words = [word for word in self.words if not word.startswith("-")][:2]
        return " ".join(word.rpartition("/")[2][:60] for word in words)

    def seconds(self):
        """The processor time that it has used, in seconds."""
        fields = self.stat()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def letter_of(self, task):
        """The letter of a thread's state, such as S or D; an OSError where it has ended."""
        stat = (self.path / "task" / str(task) / "stat").read_text(errors="replace")
        return stat.rpartition(")")[2].split()[0]

    def facts(self):
        """What the kernel knows of it now."""
        fields = self.stat()
        tasks = [path.name for path in (self.path / "task").iterdir()]
        letters = {}
        for task in tasks:
            try:
                letters[task] = self.letter_of(task)
            except OSError:
                continue  # this thread has just ended
        return {
            "state": fields[0],
            "blocked": sorted(letters.values()).count("D"),
            "threads": len(tasks),
            "memory": int(fields[21]) * os.sysconf("SC_PAGE_SIZE"),
            "files": self._count_files(),
            "waits": self._text("wchan"),
            "call": self._text("syscall").split(" ")[0],
        }

    def _count_files(self):
        try:
            return len(list((self.path / "fd").iterdir()))
        except OSError:
            return -1

    def _text(self, name):
        try:
            return (self.path / name).read_text(errors="replace").strip()
        except OSError:
            return ""

    def link(self, descriptor):
        """What a descriptor of it leads to; "" where there is none."""
        try:
            return os.readlink(str(self.path / "fd" / str(descriptor)))  # noqa: PTH115 - from 3.9 on
        except OSError:
            return ""


class ArmedProcess:
    """A process that has the files of sitecustomize.py."""

    def __init__(self, process, lock):
        """See `of`."""
        self.process, self.state, self._lock = process, process.state, lock
        self.is_stopped = process.stat()[0] in "tTZX"

    @classmethod
    def of(cls, process):
        """Take the turn to ask it; None where it is not armed, or it is another's turn for long."""
        if process.state_path is None:
            return None
        deadline = time.monotonic() + TURN_SECONDS
        try:
            lock = process.state_path.open("rb")  # held for as long as this object lives
            while True:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    return cls(process, lock)
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        return None
                    time.sleep(POLL)
        except (OSError, ValueError, IndexError):
            return None  # it has just ended

    def _number(self, name):
        value = self.state.get(name, "")
        return int(value) if value.lstrip("-").isdigit() else -1

    def _path(self, name):
        """Where a file of it is opened; None where it has closed it."""
        descriptor = self._number(name)
        link = self.process.link(descriptor)
        expected_link = "pipe:" if name == "wake" else "allranks-why-" + name
        if descriptor < 0 or expected_link not in link:
            return None
        return self.process.path / "fd" / str(descriptor)

    @property
    def answers(self):
        """Whether a thread of it waits for questions about the flight recorder."""
        return not self.is_stopped and self._number("thread") > 0

    def ask_stacks(self):
        """Have it write its stacks; whether it can."""
        path, number = self._path("stacks"), self._number("signal")
        caught = int(self._status("SigCgt") or "0", 16)
        if path is None or self.is_stopped or not caught >> (number - 1) & 1:
            return False
        os.truncate(str(path), 0)
        thread = self._number("thread")
        send(self.process.pid, thread if thread > 0 else self.process.pid, number)
        return True

    def _status(self, name):
        for line in (self.process.path / "status").read_text().splitlines():
            if line.startswith(name + ":"):
                return line.partition(":")[2].strip()
        return ""

    def stacks(self, deadline):
        """What it has written, once that grows no more."""
        path, size = self._path("stacks"), 0
        while path is not None and time.monotonic() < deadline:
            now = file_size(path)
            if now and now == size:
                break
            size = now
            time.sleep(POLL)
        return read(path, STACKS_MAX)

    def ask_flight(self):
        """Have it write its flight recorder; whether it is there to do that."""
        return self._ask(b"f")

    def entered(self, deadline):
        """How many collectives each of its process groups has entered; None if that is unknown."""
        try:
            text = self._answer(deadline) if self._ask(b"n") else "null"
            return json.loads(text or "null") or None
        except (OSError, ValueError):
            return None

    def _ask(self, question):
        path, wake = self._path("flight"), self._path("wake")
        if not self.answers or path is None or wake is None:
            return False
        os.truncate(str(path), 0)
        try:
            pipe = os.open(str(wake), os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            return False
        try:
            os.write(pipe, question)
        except BlockingIOError:  # it has not answered for long, and will be no sooner asked
            pass
        finally:
            os.close(pipe)
        return True

    def flight(self, deadline):
        """The flight recorder, shortened; None where it does not answer."""
        text = self._answer(deadline)
        return None if text is None else shortened(text)

    def _answer(self, deadline):
        """What it has written; None where it does not answer."""
        path = self._path("flight")
        while path is not None:
            text = read(path, FLIGHT_MAX)
            if text.endswith("\n"):
                return text
            if time.monotonic() > deadline:
                return None
            time.sleep(POLL)
        return None


def file_size(path):
    """How much has been written; 0 where the process has ended."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def read(path, most):
    """The text of a file; "" where there is none."""
    try:
        with path.open("rb") as stream:
            return stream.read(most).decode("utf-8", "replace").replace("\0", "")
    except (OSError, AttributeError):
        return ""


def send(pid, thread, number):
    """Send a signal to one thread, where the system lets us name it; else to the process."""
    call = TGKILL.get(os.uname().machine)
    if call and thread != pid:
        try:
            import ctypes

            if ctypes.CDLL(None).syscall(call, pid, thread, number) == 0:
                return
        except (ImportError, OSError):
            pass
    os.kill(pid, number)


def shortened(text):
    """What matters of a flight recorder.

    Returns:
        ``{"problem": words}`` or ``{"groups": {name: group}}``, a group with `ranks` (as
        ``0-3,7``), `enqueued` and `completed` (numbers of its collectives), `last` (the newest) and
        `times` (when the newest began, in seconds by this node's clock).
    """
    try:
        flight = json.loads(text)
        if flight.get("problem"):
            return {"problem": str(flight["problem"])}
        groups = {}
        for name, ranks in flight["groups"].items():
            groups[name] = {
                "ranks": ranges(ranks),
                "enqueued": 0,
                "completed": 0,
                "last": [],
                "times": [],
            }
        for trace in flight["traces"]:
            counted = {name for name, group in groups.items() if group["last"]}
            for entry in trace.get("entries") or ():
                add(groups, entry, counted)
        for group in groups.values():
            group["last"], group["times"] = group["last"][-TAIL:], group["times"][-TIMES:]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        return {"problem": "its flight recorder cannot be read: %s" % error}
    return {"groups": groups}


def ranges(numbers):
    """Numbers in order, written as ``0-3,7``: a group may have ten thousand."""
    parts = []
    for number in numbers:
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join("%d" % a if a == b else "%d-%d" % (a, b) for a, b in parts)


def add(groups, entry, counted):
    """Add an entry of a recorder to its group.

    Args:
        groups: by their names.
        entry: of the recorder.
        counted: the groups that another recorder has entries of. A group of two backends numbers
            the collectives of each from 1, and so becomes two: ``0`` and ``0 (gloo)``.
    """
    name, words = str(entry["process_group"][0]), str(entry["process_group"][1])
    ranks = groups[name]["ranks"] if name in groups else ""
    if name in counted:
        name = "%s (%s)" % (name, str(entry.get("profiling_name", "")).partition(":")[0])
    fresh = {"ranks": ranks, "enqueued": 0, "completed": 0, "last": [], "times": []}
    group = groups.setdefault(name, fresh)
    group["words"] = words
    is_done = bool(entry.get("retired")) or entry.get("state") == "completed"
    began = entry.get("time_created_ns", 0) / 1e9
    number = int(entry["collective_seq_id"])
    is_between_two = bool(entry.get("is_p2p"))
    if not is_between_two:
        group["enqueued"] = max(group["enqueued"], number)
        group["completed"] = max(group["completed"], number if is_done else 0)
        group["times"].append([number, round(began, 4)])
    group["last"].append(
        {
            "number": number,
            "between": is_between_two,
            "name": str(entry.get("profiling_name", "")),
            "in": entry.get("input_sizes"),
            "out": entry.get("output_sizes"),
            "types": entry.get("input_dtypes"),
            "state": str(entry.get("state", "")),
            "done": is_done,
            "began": round(began, 4),
        }
    )


def waited_for(groups):
    """The (group, entry) of the first collective that a rank waits in; (None, None) for none.

    Args:
        groups: as `shortened` gives them; None where they are not known.
    """
    for name, group in (groups or {}).items():
        for entry in group["last"]:
            if not entry["done"] and not entry["between"]:
                return name, entry
    return None, None


def frames_of(stacks, main):
    """The lines of the main thread among the stacks of all, the innermost first."""
    frames, inside = [], False
    for line in stacks.splitlines():
        if "(most recent call first)" in line:
            inside = "0x%016x" % main in line
        elif inside:
            frames.append(line)
    return frames


def place(stacks, main):
    """The innermost call of a program's own in the main thread; "" where that is not known."""
    frames = list(filter(None, map(_FRAME.match, frames_of(stacks, main))))
    own = [frame for frame in frames if not _FOREIGN.search(frame["file"])] or frames
    if not own:
        return ""
    return "%s:%s in %s" % (own[0]["file"].rpartition("/")[2], own[0]["line"], own[0]["function"])


def keep_numbers(flight):
    """Keep of the first look what tells that a rank has moved since."""
    for group in flight.get("groups", {}).values():
        group["last"], group["times"] = [], []


def processes():
    """The processes of this pod, by their ids."""
    pod = os.environ.get("ALLRANKS_POD_UID")
    living = {}
    for path in Path("/proc").iterdir():
        if not path.name.isdigit() or int(path.name) == os.getpid():
            continue
        try:
            process = LinuxProcess(int(path.name))
        except (OSError, ValueError, IndexError):
            continue  # it has just ended
        if not pod or process.env.get("ALLRANKS_POD_UID") == pod:
            living[process.pid] = process
    return living


def ranks(living):
    """The process of each rank: the first below whatever started it that can be asked.

    Of an elastic job the pod has the rank's number already, and so have the processes that start
    it: only torchrun's ranks have LOCAL_RANK, and of others only the program is armed.
    """
    firsts = {}
    for process in living.values():
        if process.rank is None or not process.words:  # a zombie has no words
            continue
        depth, parent = 0, living.get(process.parent)
        while parent is not None and parent.rank == process.rank:
            depth, parent = depth + 1, living.get(parent.parent)
        is_python = "python" in Path((process.words or [""])[0]).name
        lacks = ("LOCAL_RANK" not in process.env, not process.state, not is_python)
        firsts.setdefault(process.rank, []).append((*lacks, depth, process.pid))
    return {rank: living[min(options)[-1]] for rank, options in sorted(firsts.items())}


def below(living, process):
    """The processes that a rank has started."""
    processes_below = []
    for other in living.values():
        parent = living.get(other.parent)
        while parent is not None and parent is not process:
            parent = living.get(parent.parent)
        if parent is process and other is not process:
            processes_below.append(other)
    return sorted(processes_below, key=lambda other: other.pid)[:CHILDREN_MAX]


class Look:
    """Both looks at one process."""

    def __init__(self, rank, process, living):
        """Take the first; an OSError where it has just ended."""
        self.rank, self.process = rank, process
        children = below(living, process) if living else []
        self.children = list(filter(None, (first_look(None, child, None) for child in children)))
        self.armed = ArmedProcess.of(process)
        self.writes_stacks = False
        self.facts = process.facts()  # before it is disturbed
        self.began, self.cpu_at_start = time.monotonic(), process.seconds()

    def all(self):
        """This one and those of its children."""
        return [self, *self.children]

    def ask(self):
        """Have it write its stacks, where it can."""
        try:
            self.writes_stacks = self.armed is not None and self.armed.ask_stacks()
        except (OSError, ValueError):
            self.writes_stacks = False  # it has just ended

    def report(self, deadline):
        """What it is doing, as JSON takes it."""
        fields = {"pid": self.process.pid, "program": self.process.program}
        try:
            cores = (self.process.seconds() - self.cpu_at_start) / (time.monotonic() - self.began)
            fields.update(self.facts, cpu=round(cores, 2), state=self.process.stat()[0])
        except (OSError, ValueError, IndexError):
            fields.update(self.facts, state="X")  # it has ended meanwhile
        fields["armed"] = self.armed is not None
        fields["stacks"] = self.armed.stacks(deadline) if self.writes_stacks else ""
        if not fields["stacks"]:
            fields["spy"] = spy(self.process.pid, deadline)
        if self.armed is not None:
            fields["main"] = int(self.armed.state.get("main", 0))
            fields["python"] = self.armed.state.get("python", "")
        if self.rank is not None:
            env = self.process.env
            fields["rank"] = self.rank
            fields["world"] = next(
                (int(env[key]) for key in WORLDS if env.get(key, "").isdigit()), 0
            )
            fields["children"] = [child.report(deadline) for child in self.children]
        return fields


def first_look(rank, process, living):
    """Look at a process, and at those that it has started; None where it has just ended."""
    try:
        return Look(rank, process, living)
    except (OSError, ValueError, IndexError):
        return None


def spy(pid, deadline):
    """The stacks by py-spy, where the image has it and the pod may; "" else."""
    program = shutil.which("py-spy")
    seconds_left = deadline - time.monotonic()
    if program is None or seconds_left <= 0:
        return ""
    try:
        words = [program, "dump", "--pid", str(pid)]
        result = subprocess.run(  # noqa: S603 - a fixed program, and a number
            words, capture_output=True, check=False, timeout=seconds_left
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return result.stdout.decode("utf-8", "replace")[:STACKS_MAX] if not result.returncode else ""


def cgroup():
    """What the container's cgroup tells of its memory."""
    facts = {}
    for name in ("memory.current", "memory.max", "memory.events"):
        try:
            text = Path("/sys/fs/cgroup", name).read_text().strip()
        except OSError:
            continue
        if name == "memory.events":
            events = dict(line.split(" ") for line in text.splitlines())
            facts["killed"] = int(events.get("oom_kill", 0))
        elif text.isdigit():
            facts[name.partition(".")[2]] = int(text)
    return facts


def gpus(deadline):
    """The pod's GPUs, as nvidia-smi has them; none where there is no such program."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    words = [program, "--query-gpu=" + ",".join(SMI), "--format=csv,noheader,nounits"]
    try:
        seconds_left = max(0.1, deadline - time.monotonic())
        result = subprocess.run(  # noqa: S603 - a fixed program, and a number
            words, capture_output=True, check=False, timeout=seconds_left
        )
    except (OSError, subprocess.SubprocessError):
        return []
    rows = [line.split(", ") for line in result.stdout.decode(errors="replace").splitlines()]
    names = ("index", "busy", "used", "total", "errors")
    return [dict(zip(names, row)) for row in rows]  # noqa: B905 - from 3.10 on


def look(seconds):
    """Look at all ranks of this pod, twice."""
    deadline = time.monotonic() + seconds
    living = processes()
    looks = list(filter(None, (first_look(*pair, living) for pair in ranks(living).items())))
    recorders = [rank for rank in looks if rank.armed is not None and rank.armed.ask_flight()]
    half = time.monotonic() + max(0.1, (seconds - INTERVAL) / 3)
    first = {rank.rank: rank.armed.flight(half) for rank in recorders}
    cards = gpus(deadline)
    time.sleep(INTERVAL)
    recorders = [
        rank for rank in recorders if first[rank.rank] is not None and rank.armed.ask_flight()
    ]
    for rank in looks:
        for process in rank.all():
            process.ask()
    reports = []
    for rank in looks:
        report = rank.report(deadline)
        report["before"] = first.get(rank.rank)
        report["flight"] = rank.armed.flight(deadline) if rank in recorders else None
        if report["flight"] is not None and report["before"] is not None:
            keep_numbers(report["before"])
        report["answers"] = rank.armed is not None and rank.armed.answers
        reports.append(report)
    return {
        "pod": os.environ.get("POD_NAME") or os.environ.get("HOSTNAME", ""),
        "time": round(time.time(), 3),
        "memory": cgroup(),
        "gpus": cards,
        "ranks": reports,
    }


def main(argv):
    """Print what the ranks are doing; the exit code."""
    signal.alarm(int(float(argv[0])) + 20)  # whoever asked has left by then
    print(json.dumps(look(float(argv[0]))))
    print(DONE, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
