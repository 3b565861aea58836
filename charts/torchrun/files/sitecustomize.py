"""Let `allranks why` see what a rank does, without a word in its program.

What starts the ranks puts this folder first on their PYTHONPATH, so that Python imports this module
as it starts. It takes the folder off the path again, arms the process, and goes on with the
`sitecustomize` that would have been imported without it.

An armed process has three files without a name, which whoever may look into /proc/PID/fd can open
(files in memory where the system has them), and a pipe:

    state    lines of NAME=VALUE: the process's ids and rank, the signal, the others' descriptors
    stacks   where faulthandler writes the stacks of all threads when the signal comes. It is C, and
             works where Python does not: in a call that never returns, and never gives the GIL back
    flight   torch's flight recorder, as JSON, or how many collectives have been entered: written by
             a thread that waits for a byte from the pipe, which says what is asked. It starts with
             the import of torch.distributed; what has no torch gets no thread

The signal is one of the real-time ones: neither Python nor torch nor a user's checkpoint takes
those. It is sent to the thread that waits, so that it interrupts no call of the program's.

Nothing here may hurt a healthy rank: whatever fails leaves the process as it is. Standard library;
Python 3.8 or newer.
"""

import _signal as signal  # signal itself takes longer to import than all of this
import _thread
import os
import sys

RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK")
IDENTITY = (*RANKS, "WORLD_SIZE", "LOCAL_RANK", "GROUP_RANK", "ALLRANKS_POD_UID")
DESCRIPTORS_FROM = 200  # above those that programs close or expect by their numbers


def take_off_path():
    """Remove this folder from the path: what else lies in it is no module of the program's."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if os.path.abspath(path or ".") != here]


def put_at_end():
    """Put this folder last on the path where PYTHONPATH has it twice: once is for this module."""
    here = os.path.dirname(os.path.abspath(__file__))
    if os.environ.get("PYTHONPATH", "").split(os.pathsep).count(here) > 1:
        sys.path.append(here)


def unnamed_file(name):
    """A descriptor of a file that only /proc/PID/fd leads to."""
    name = "allranks-why-" + name
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create(name)
    else:
        descriptor = file_without_name(name)
    return moved_up(descriptor)


def file_without_name(name):
    """The same where the system, or the Python, has no files in memory."""
    for folder in ("/dev/shm", os.environ.get("TMPDIR") or "/tmp", "/var/tmp"):  # noqa: S108
        path = "%s/%s-%d" % (folder, name, os.getpid())
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except OSError:
            continue
        os.unlink(path)
        return descriptor
    raise OSError("no folder is writable")


def moved_up(descriptor):
    """The descriptor under a higher number."""
    import fcntl

    try:
        higher = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, DESCRIPTORS_FROM)
    except (OSError, ValueError):
        return descriptor
    os.close(descriptor)
    return higher


class AnsweringProcess:
    """This process, and what it can be asked."""

    def __init__(self, number):
        """Open the files, and let the signal write the stacks."""
        import fcntl

        self.signal, self.main = number, _thread.get_ident()
        self.state, self.stacks = unnamed_file("state"), unnamed_file("stacks")
        self.flight = self.wake = self.thread = -1
        fcntl.fcntl(self.stacks, fcntl.F_SETFL, os.O_APPEND)
        self.register()
        self.tell()

    def register(self):
        """Let the signal write the stacks."""
        import faulthandler

        faulthandler.register(self.signal, file=self.stacks, all_threads=True, chain=False)

    def tell(self, forked=0):
        """Write down what the process is, and how it is asked."""
        fields = {
            "pid": os.getpid(),
            "signal": self.signal,
            "stacks": self.stacks,
            "flight": self.flight,
            "wake": self.wake,
            "thread": self.thread,
            "main": self.main,
            "python": "%d.%d" % sys.version_info[:2],
            "forked": forked,
        }
        fields.update((name, os.environ[name]) for name in IDENTITY if name in os.environ)
        lines = ["%s=%s" % (name, str(value).split("\n")[0]) for name, value in fields.items()]
        os.ftruncate(self.state, 0)
        os.pwrite(self.state, os.fsencode("\n".join(lines) + "\n"), 0)

    def after_fork(self):
        """Give a forked process files of its own; it has no thread that waits."""
        try:
            self.main = _thread.get_ident()
            self.state, self.stacks = unnamed_file("state"), unnamed_file("stacks")
            self.flight = self.wake = self.thread = -1
            self.register()
            self.tell(forked=1)
        except Exception:  # noqa: BLE001, S110 - whatever it is, the program goes on
            pass

    def start_thread(self):
        """Wait in a thread to be asked what collectives there were."""
        self.flight = unnamed_file("flight")
        wait, wake = map(moved_up, os.pipe())
        self.wake = wake
        _thread.start_new_thread(self.answer, (wait,))

    def answer(self, wait):
        """Answer what comes: `n` is for the numbers, and any other byte for the flight recorder."""
        try:
            self.thread = _thread.get_native_id()
            self.tell()
            while True:
                question = os.read(wait, 64)
                if not question:
                    return
                text = (entered() if question == b"n" else flight()).encode() + b"\n"
                os.ftruncate(self.flight, 0)
                os.pwrite(self.flight, text, 0)
        except Exception:  # noqa: BLE001, S110 - whatever it is, the program goes on
            pass


def flight():
    """The flight recorders of torch and the members of the process groups, as JSON."""
    import json

    c10d = sys.modules.get("torch._C._distributed_c10d")
    if c10d is None:
        return '{"problem": "torch.distributed is not imported"}'
    traces, problem = [], "this torch has no flight recorder that can be asked"
    for dump in recorders(c10d):
        try:
            trace = dump()
        except Exception as error:  # noqa: BLE001 - of one recorder; the others may answer
            problem = "its flight recorder cannot be asked: %s" % str(error).split("\n")[0]
            continue
        traces.append(trace.decode("utf-8", "replace") if isinstance(trace, bytes) else trace)
    if not traces:
        return json.dumps({"problem": problem})
    return '{"traces": [%s], "groups": %s}' % (", ".join(traces), json.dumps(groups()))


def recorders(c10d):
    """What dumps each of torch's recorders: NCCL has one of its own, and gloo another.

    ProcessGroupNCCL.hpp has FlightRecorder<at::cuda::CUDAEvent>, gloo FlightRecorder<c10::Event>.
    From 2.15 on each other backend has one, too, by its name; before, no other name is taken.
    """
    import functools

    nccl = getattr(c10d, "_dump_nccl_trace_json", None)  # of a build with CUDA, from 2.5 on
    other = getattr(c10d, "_dump_fr_trace_json", None)  # from 2.8 on
    dumps = [dump for dump in (nccl, other) if dump is not None]
    if other is not None:
        names = sorted(backends() - {"gloo", "nccl"})
        dumps += [functools.partial(other, backend=name) for name in names]
    return dumps


def backends():
    """The backends of all process groups: a group has one, or one for each kind of device."""
    module = sys.modules.get("torch.distributed.distributed_c10d")
    try:
        texts = [str(backend) for backend, _ in dict(module._world.pg_map).values()]
    except Exception:  # noqa: BLE001 - internal to torch: without it, only the usual ones are known
        return set()
    words = [word for text in texts for word in text.split(",")]
    return {word.rpartition(":")[2] for word in words}


def groups():
    """The global ranks of each process group, by its name."""
    module = sys.modules.get("torch.distributed.distributed_c10d")
    world = getattr(module, "_world", None)
    members = {}
    try:
        for group, ranks in dict(world.pg_group_ranks).items():
            members[world.pg_names[group]] = sorted(ranks)
    except Exception:  # noqa: BLE001 - internal to torch: without it, no members are known
        return {}
    return members


def entered():
    """How many collectives each process group has entered, by its name, as JSON; null if unknown.

    It takes some microseconds; to write down the flight recorder takes some milliseconds.
    """
    import json

    module = sys.modules.get("torch.distributed.distributed_c10d")
    try:
        names = dict(module._world.pg_names)
        numbers = {name: group._get_sequence_number_for_group() for group, name in names.items()}
        return json.dumps(numbers)
    except Exception:  # noqa: BLE001 - internal to torch, and some backends do not count
        return "null"


class StartWithTorch:
    """Starts the thread when torch.distributed is about to be imported; finds no module itself."""

    def __init__(self, armed):
        """Of an armed process."""
        self.armed = armed

    def find_spec(self, name, _path=None, _target=None):
        """Look at a name that is imported."""
        if name == "torch.distributed":
            try:
                sys.meta_path.remove(self)
                self.armed.start_thread()
            except Exception:  # noqa: BLE001, S110 - whatever it is, the import goes on
                pass


def arm():
    """Arm this process where it is a rank, or belongs to one."""
    if not any(name in os.environ for name in RANKS):
        return
    for number in range(signal.SIGRTMAX - 7, signal.SIGRTMIN, -1):
        if signal.getsignal(number) == signal.SIG_DFL:
            break
    else:
        return
    armed = AnsweringProcess(number)
    os.register_at_fork(after_in_child=armed.after_fork)
    sys.meta_path.insert(0, StartWithTorch(armed))


def go_on():
    """Import the `sitecustomize` that would have been imported without this one."""
    own = sys.modules.pop(__name__, None)
    try:
        __import__(__name__)
    except ImportError as error:
        if error.name != __name__:
            raise
    finally:
        sys.modules.setdefault(__name__, own)


if __name__ == "sitecustomize":
    take_off_path()
    try:
        arm()
    except Exception:  # noqa: BLE001, S110 - whatever it is, the program goes on
        pass
    try:
        go_on()
    finally:
        put_at_end()
