"""Run torchrun in a pod so that a job survives what pods do.

`entry.sh` starts this with the trainer's image's own Python; it needs the standard library and
torch (1.13 or newer), on Python 3.8 or newer. torchrun is configured by its ``PET_*`` environment
alone; what this adds around it:

* It waits, bounded and with words, until rank 0 can be reached: torchrun's own connect gives up
  after a minute, and a large image can take longer to pull on one node than on another.
* With the c10d backend it gives each node a name that sorts by its index, so that the node rank is
  the pod's index, and that differs at each start, so that a replaced pod is never taken for the
  dead one (torch sorts and compares nodes by (name, pid), and every pod's pid is 1).
* When rank 0's pod is lost, its store goes with it and every other node's torchrun fails too. Such
  a node waits for rank 0 to come back and joins again, so that one lost pod costs one retry.
* It ends with the exit code of the rank of the job that failed first (torchrun itself always ends
  with 1), in whatever pod that was, so that the Job's podFailurePolicy can see it, and leaves that
  rank, its pod and its last lines in the termination message (see failures.py). A fatal exit code
  is not retried inside the pod.
* A rank has all of the pod's grace period for a last checkpoint, less a little: torchrun alone
  kills what has not ended 30 s after SIGTERM.
* The ranks' lines are passed on whole, with the rank before each where a pod has several, and the
  last ones are kept (rank_output.py).

It is long because it is one story, from the pod's start to its exit code; what can be told apart
lies in the modules beside it.

Environment, set by the chart:
    ALLRANKS_NODE_RANK       index of this pod, from 0
    ALLRANKS_RANK0_HOST      name of rank 0's pod; empty on a single node or with etcd
    ALLRANKS_RANK0_PORT      port of the rendezvous there
    ALLRANKS_WAIT_SECONDS    how long to wait for rank 0
    ALLRANKS_FATAL_EXIT_CODES  comma separated
    ALLRANKS_PROGRESS        a folder for what the ranks say of their progress (progress.py)
    ALLRANKS_CHECKPOINT_SIGNAL  what ranks get in place of SIGTERM as their pod ends
    ALLRANKS_TERMINATION_LOG where the reason of a failure goes
    ALLRANKS_GRACE_SECONDS   the pod's terminationGracePeriodSeconds
    ALLRANKS_RANK_PREFIX     1 where each line gets the rank that wrote it
    ALLRANKS_COMPAT          slurm where each rank is told what Slurm tells a task (slurm.sh)
    ALLRANKS_LOGS_SPECS, ALLRANKS_NUMA_BINDING  torchrun options without a variable of their own
    ALLRANKS_WORKSPACE_SYNC  where newer code appears (sync.py); empty where none is taken
    ALLRANKS_WORKSPACE_GENERATION  of the newer code in place; empty where it is the job's own
    ALLRANKS_PREFLIGHT       what is looked at before the training, as JSON (preflight.py)
    ALLRANKS_NODE_NAME       name of the Kubernetes node, for that
    ALLRANKS_RESTARTS_IN_PLACE  how often this pod's containers may start again (in_place.py); not
                             set is never
    ALLRANKS_STARTS_FILE     where their starts are counted
    ALLRANKS_SPARES          how many pods stand by (spare.py); not set is none
    ALLRANKS_FINISHED_MARKER StatefulSet only: a file that says this pod's training has ended
    ALLRANKS_DIAGNOSE        0 where the ranks are not armed for `allranks why` (sitecustomize.py)
    ALLRANKS_STALL_SECONDS   after how long without progress a run stands still; empty is never
    ALLRANKS_STALL_ENDS      1 where that ends the attempt
    POD_NAME                 name of this pod; not set is its host name (HOSTNAME, by Kubernetes)
"""

from __future__ import annotations

import gc
import importlib.util
import os
import shutil
import signal
import socket
import sys
import threading
import time
from pathlib import Path

EXIT_NO_TORCH = 127
EXIT_TERMINATED = 128 + signal.SIGTERM
# How long rank 0 may take to go after this node failed, before the failure is this node's own.
GRACE_SECONDS = 5.0
# How soon a node that waits for its peers looks again, and how often all of them together do.
LOOK_SECONDS, LOOKS_PER_SECOND = 0.1, 500.0
QUIET_CHECKS = 4  # half seconds without a rank, after which a stopped node may end
# Of the pod's grace period, for torchrun and this launcher to end in once the last rank has.
MARGIN_SHARE, MARGIN_MOST = 0.1, 5.0
MESSAGE_MAX = 1000  # characters: at most 4,000 bytes; Kubernetes keeps 4,096


class LauncherSettings:
    """What the chart asks of this launcher, read from the environment once."""

    def __init__(self, env):
        """Read `env`; a value that is not there means the single-node default."""
        self.node_rank = int(env.get("ALLRANKS_NODE_RANK") or 0)
        self.host = env.get("ALLRANKS_RANK0_HOST", "")
        self.port = int(env.get("ALLRANKS_RANK0_PORT") or 29500)
        self.wait_seconds = float(env.get("ALLRANKS_WAIT_SECONDS") or 300)
        codes = env.get("ALLRANKS_FATAL_EXIT_CODES", "")
        self.fatal = frozenset(int(code) for code in codes.split(",") if code)
        self.backend = env.get("PET_RDZV_BACKEND", "static")
        self.termination_log = env.get("ALLRANKS_TERMINATION_LOG", "")
        self.marker = env.get("ALLRANKS_FINISHED_MARKER", "")
        self.pod = env.get("POD_NAME") or env.get("HOSTNAME") or socket.gethostname()
        self.grace = float(env.get("ALLRANKS_GRACE_SECONDS") or 30)
        self.shutdown = float(env.get("PET_SHUTDOWN_TIMEOUT") or time_to_end(self.grace))
        self.stall_seconds = float(env.get("ALLRANKS_STALL_SECONDS") or 0)
        self.prefixed = env.get("ALLRANKS_RANK_PREFIX") == "1"
        self.code_on_sigterm = EXIT_TERMINATED  # until it is known how the job ends
        self.argv, self.output, self.follower, self.rank0 = [], None, None, None
        self.spares = None
        if env.get("ALLRANKS_SPARES"):
            nodes = int(env["PET_NNODES"])
            self.spares = beside("spare").Spares(self.node_rank, nodes, self.host, say)
        self.progress = None
        self.restarts = None
        if env.get("ALLRANKS_RESTARTS_IN_PLACE"):
            self.restarts = beside("in_place").Restarts(env, self.fatal, say)
        if env.get("ALLRANKS_WORKSPACE_SYNC"):
            signals = env.get("PET_SIGNALS_TO_HANDLE") or "SIGTERM,SIGINT,SIGHUP,SIGQUIT"
            self.follower = beside("sync").Follower(env, say, signals)

    def finish(self):
        """Pass on what the ranks have said last; they have ended."""
        if self.output:
            self.output.finish()
        if self.progress:
            self.progress.finish()


def rendezvous_id(env):
    """The id under which the nodes meet; those with different code never train together.

    It is of the code in place now: newer code changes the variables while the launcher runs.
    """
    name = env.get("PET_RDZV_ID", "")
    if name and env.get("ALLRANKS_WORKSPACE_GENERATION"):
        name += "-" + env["ALLRANKS_WORKSPACE_DIGEST"][len("sha256:") :][:12]
    return name


def time_to_end(grace):
    """How many seconds of a pod's grace period its ranks have between SIGTERM and SIGKILL."""
    return grace - min(MARGIN_MOST, MARGIN_SHARE * grace)


def say(text):
    """One line to the pod's log, at once and in one piece."""
    sys.stderr.write("allranks: " + text + "\n")
    sys.stderr.flush()


def beside(name):
    """A module of ours that lies beside this file, wherever Python looks for modules."""
    path = Path(__file__).with_name(name + ".py")
    spec = importlib.util.spec_from_file_location("allranks_" + name, str(path))
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        spec.loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = writes
    return module


failures = beside("failures")
process_groups = beside("process_groups")


def resolves(host):
    """Whether the name has an address."""
    try:
        socket.getaddrinfo(host, None)
    except OSError:
        return False
    return True


def listens(host, port):
    """Whether something accepts connections there."""
    try:
        socket.create_connection((host, port), timeout=3).close()
    except OSError:
        return False
    return True


class Rank0:
    """A connection to what listens at rank 0: whether it has gone, however soon it is back.

    A launcher that starts over with newer code listens again at once, with another, empty store.
    """

    def __init__(self, host, port):
        """Connect, if anything listens there."""
        try:
            self._connection = socket.create_connection((host, port), timeout=3)
            self._connection.setblocking(False)
        except OSError:
            self._connection = None

    def is_connected(self):
        """Whether the other side still holds the connection."""
        if self._connection is None:
            return False
        try:
            return bool(self._connection.recv(1, socket.MSG_PEEK))
        except BlockingIOError:
            return True
        except OSError:
            return False


def wait_until(check, condition, seconds):
    """Poll `check` with a growing pause; say what is waited for; False when the time is over."""
    started = time.monotonic()
    next_word = 5.0
    while not check():
        waited = time.monotonic() - started
        if waited >= seconds:
            return False
        if waited >= next_word:
            say("waiting for %s (%.0f s of %.0f s)" % (condition, waited, seconds))
            next_word = waited * 2
        pause = min(max(0.05, waited / 10), 2.0)  # so that at most a tenth is lost
        time.sleep(min(pause, max(0.0, seconds - waited)))
    return True


def wait_for_rank0(settings):
    """Wait for rank 0's name, and on the other nodes for its rendezvous to listen.

    Returns:
        "" when it is there, else the reason in one sentence.
    """
    if not settings.host:
        return ""
    where = "%s:%d" % (settings.host, settings.port)
    condition = "rank 0's name %s to resolve" % settings.host
    if not wait_until(lambda: resolves(settings.host), condition, settings.wait_seconds):
        return (
            "the name of rank 0, %s, did not resolve within %.0f s: its pod has no address yet "
            "(pending? pulling its image?), or the cluster's DNS does not answer"
            % (settings.host, settings.wait_seconds)
        )
    if settings.node_rank == 0:
        return ""
    condition = "rank 0 at %s to listen" % where
    if not wait_until(
        lambda: listens(settings.host, settings.port), condition, settings.wait_seconds
    ):
        return (
            "rank 0 at %s did not listen within %.0f s: look at its log; a network policy must "
            "let the job's pods reach each other" % (where, settings.wait_seconds)
        )
    return ""


def begin_preflight(settings):
    """Start to look at the nodes of the job (preflight.py); None where that is not asked."""
    if not os.environ.get("ALLRANKS_PREFLIGHT"):
        return None
    return beside("preflight").begin(
        os.environ, settings, say, beside, listens=listens, rendezvous_id=rendezvous_id(os.environ)
    )


def preflight_code(settings, preflight):
    """The exit code of what is wrong with the nodes; 0 where the training may start.

    The other nodes then wait until rank 0's processes have gone, whose store is not torchrun's.
    """
    if preflight is None:
        return 0
    follows = settings.host and settings.node_rank > 0
    lead = Rank0(settings.host, settings.port) if follows else None
    code, reason = preflight.finish()
    if preflight.lost and lead is not None and not lead.is_connected():
        rejoin(settings, settings.argv)
    if code:
        say("error: " + reason.replace("\n", "; "))
        record(settings, reason)
        return code
    if lead is None or preflight.skipped:
        return 0
    if wait_until(lambda: not lead.is_connected(), "rank 0 to begin", settings.wait_seconds):
        reason = wait_for_rank0(settings)
    else:
        reason = "rank 0 has not begun to train within %.0f s" % settings.wait_seconds
    if reason:
        say("error: " + reason)
        record(settings, reason)
    return 1 if reason else 0


def load_torch(settings):
    """Import torch, while rank 0's pod may still be on its way.

    Returns:
        "" where it is there, else the reason in one sentence.
    """
    forks = settings.follower is not None or os.environ.get("ALLRANKS_PREFLIGHT")
    alone = forks and "OPENBLAS_NUM_THREADS" not in os.environ
    if alone:  # numpy starts threads as it is imported, and a process with threads cannot fork
        os.environ["OPENBLAS_NUM_THREADS"] = "1"
    gc.disable()  # to look for garbage in what is loaded, where there is none, takes a fifth of it
    try:
        import torch.distributed.run  # noqa: F401
    except ImportError as error:
        return "this image's Python (%s) cannot load torch: %s" % (sys.executable, error)
    finally:
        gc.freeze()  # nor is it looked through later, or as Python ends
        gc.enable()
        if alone:
            del os.environ["OPENBLAS_NUM_THREADS"]
    return ""


def node_options(settings, env):
    """The torchrun options that no ``PET_*`` variable of the chart's can hold.

    Some have no variable, and some only a running pod knows: whether it keeps the store, a name
    that sorts.
    """
    options = []
    for name in ("logs-specs", "numa-binding"):
        value = env.get("ALLRANKS_" + name.upper().replace("-", "_"))
        if value:
            options += ["--" + name, value]
    name = rendezvous_id(env)
    if name != env.get("PET_RDZV_ID", ""):
        options += ["--rdzv-id", name]
    if settings.backend != "c10d" or not settings.host:
        return options
    conf = [env["PET_RDZV_CONF"]] if env.get("PET_RDZV_CONF") else []
    conf.append("is_host=%d" % (settings.node_rank == 0))
    options += ["--rdzv-conf", ",".join(conf)]
    if not env.get("PET_LOCAL_ADDR"):
        name = settings.host
        if settings.node_rank > 0:
            # Longer than rank 0's name, so after it; then by index; never the same twice.
            name += "-%05d-%d" % (settings.node_rank, time.time_ns() // 1000)
        options += ["--local-addr", name]
    return options


def set_defaults(env):
    """Environment for the ranks, unless the user set it."""
    if (env.get("PET_NPROC_PER_NODE") or "1") != "1":
        env.setdefault("OMP_NUM_THREADS", "1")  # torchrun's own default, without its warning
    # A node that joins later asks the store for an address that torch wrote for the first round
    # only, and hangs; without sharing, each round writes its own (pytorch/pytorch#135712).
    env.setdefault("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1")
    arm_ranks(env)


def arm_ranks(env):
    """Let `allranks why` ask the ranks: their Python imports sitecustomize.py of this folder."""
    here = str(Path(__file__).absolute().parent)
    path = env.get("PYTHONPATH")
    if env.get("ALLRANKS_DIAGNOSE") != "0" and here not in (path or "").split(os.pathsep):
        env["PYTHONPATH"] = here if path is None else here + os.pathsep + path


def as_task(argv, env):
    """The words with a shell before them that tells each rank what Slurm tells a task (slurm.sh).

    It knows no variable of torch but those of the ranks, and so needs nothing of torch's insides. A
    script of ours that torchrun would start with Python is started with it by the shell.
    """
    if env.get("ALLRANKS_COMPAT") != "slurm":
        return argv
    if env.get("PET_NO_PYTHON") != "1":
        python = [env.get("PYTHON_EXEC") or sys.executable, "-u"]
        argv = python + (["-m"] if env.pop("PET_MODULE", "") == "1" else []) + argv
        env["PET_NO_PYTHON"] = "1"
    there = str(Path(__file__).with_name("slurm.sh"))
    # As setup (entry.sh): functions that bash exports do not come through another shell.
    shell = shutil.which("bash") or "/bin/sh"
    return [shell, "-c", '. "$0" && allranks_slurm_rank && exec "$@"', there, *argv]


def as_typed(argv, env):
    """The words for torchrun so that the ranks get them as they are in `argv`.

    torchrun fills in ${local_rank} and halves "$$" in what it passes on, but not in the name of a
    program that it starts without Python.
    """
    verbatim = 1 if env.get("PET_NO_PYTHON") == "1" and env.get("PET_RUN_PATH") != "1" else 0
    return argv[:verbatim] + [word.replace("$", "$$") for word in argv[verbatim:]]


def give_time_to_end(seconds, follower, last_save=None):
    """Let torch wait so long between SIGTERM and SIGKILL to a rank, whatever makes it end them.

    From 2.10 on an option of torchrun's holds where the pod is told to stop; before, and where the
    ranks are started again, it is 30 s. All ways go through this one method, internal to torch and
    the same since 1.9; where it is missing, torch's own time holds. Ranks that end for newer code
    get the signal of a pod's end, whichever told this launcher; where a checkpoint is asked for by
    `last_save`, they get that instead. The programs of ranks that are shells have the same time.
    """
    from torch.distributed.elastic.multiprocessing.api import PContext, SignalException

    close = getattr(PContext, "close", None)
    if close is None:
        return

    def close_in_time(context, death_sig=None, *_, **__):
        if follower is not None and follower.pending and death_sig == follower.signal:
            death_sig = signal.SIGTERM
        # Not where ranks are ended because one of them has failed: there is nothing good to save.
        is_signalled = isinstance(sys.exc_info()[1], SignalException)
        if is_signalled and death_sig == signal.SIGTERM and last_save is not None:
            death_sig = last_save
        process_groups.close_whole(close, context, death_sig, seconds)

    PContext.close = close_in_time


def look_sooner(env):
    """Let a node that waits for its peers look for them sooner than once a second, at first.

    So often that all nodes together do not keep rank 0's store busy. The pause, and for how long
    what was read last is taken for good, are internal to torch and the same since 1.9; where they
    are missing, torch's own hold.
    """
    from torch.distributed.elastic.rendezvous import dynamic_rendezvous

    delay = getattr(dynamic_rendezvous, "_delay", None)
    holder_class = getattr(dynamic_rendezvous, "_BackendRendezvousStateHolder", None)
    sync = getattr(holder_class, "sync", None)
    if delay is None or sync is None:
        return
    nodes = int((env.get("PET_NNODES") or "1").rpartition(":")[2])
    began = time.monotonic()

    def pause():
        return max(LOOK_SECONDS, nodes / LOOKS_PER_SECOND, (time.monotonic() - began) / 10)

    def delay_less(seconds):
        if isinstance(seconds, (int, float)):
            seconds = min(seconds, pause())
        delay(seconds)

    def sync_sooner(holder):
        if not holder.state.complete and time.monotonic() - holder._last_sync_time > pause() / 2:
            holder._last_sync_time = -1  # as before it has read anything
        return sync(holder)

    dynamic_rendezvous._delay = delay_less
    holder_class.sync = sync_sooner


def own_output(settings):
    """Stand between the ranks and the pod's log; None where this torch does not allow it."""
    output = beside("rank_output").RankOutput(settings.prefixed)
    return output if output.install() else None


def first_failure(torch_failures, fatal):
    """The (global rank, exit code as a shell gives it) to blame among torchrun's failures.

    What is known of a torch that `failures` cannot watch: seconds, and torchrun's own order.
    """
    ranks = sorted(torch_failures, key=lambda rank: (torch_failures[rank].timestamp, rank))
    for rank in ranks:
        if torch_failures[rank].exitcode in fatal:
            return rank, torch_failures[rank].exitcode
    code = torch_failures[ranks[0]].exitcode
    return ranks[0], code if code > 0 else 128 - code


def record(settings, message):
    """Leave the reason of a failure where Kubernetes shows it; "" clears an earlier one."""
    if settings.termination_log:
        try:
            Path(settings.termination_log).write_text(message[:MESSAGE_MAX], encoding="utf-8")
        except OSError as error:
            say("cannot write %s: %s" % (settings.termination_log, error))


def conclude(settings, watch, torch_failures):
    """Say which rank of the job failed first, and end with its code.

    Args:
        settings: of this launcher.
        watch: what was seen of the ranks.
        torch_failures: torchrun's own, by global rank; none where another node gave up.

    Returns:
        (exit code, may_rejoin), as `train`.
    """
    attempt = watch.attempt
    take_newer_code(settings)  # a peer may have taken it a little earlier
    # What the end is comes before being told to stop; `end_on_sigterm` sees to it that it comes.
    signal.signal(signal.SIGTERM, lambda *_: None)
    verdict = attempt.judge() if attempt is not None else None
    own = attempt.failures() if attempt is not None else []
    others = [failure.rank for failure in own] or list(torch_failures)
    rejoins = False
    if verdict is not None and not verdict.follows:
        code = verdict.code
        if verdict.node == attempt.node:
            lines = failures.traceback_of(torch_failures.get(verdict.rank)) or verdict.lines
            reason = failures.describe(verdict.rank, code, others, lines)
        else:
            reason = verdict.message()
    elif own:
        first = own[0]
        code = first.code
        reason = failures.describe(first.rank, code, others, first.lines)
        rejoins = attempt.lead_is_lost() and (first.follows or not first.entered)
        if first.follows or verdict is not None:
            reason = (failures.PEER_LOST + reason)[:MESSAGE_MAX]
    elif verdict is not None:
        code, reason = verdict.code, verdict.message()
    elif torch_failures:
        rank, code = first_failure(torch_failures, settings.fatal)
        lines = failures.traceback_of(torch_failures[rank])
        reason = failures.describe(rank, code, others, lines)
        rejoins = attempt is None or attempt.lead_is_lost()
    else:
        code, reason = 1, failures.PEER_LOST + "another node has given up, and said no more"
        rejoins = True
    say(reason.split("\n", 1)[0])  # the last lines stand in the log of their own pod
    record(settings, reason)
    # From here on the end is known, however this pod is stopped.
    settings.code_on_sigterm = code
    signal.signal(signal.SIGTERM, lambda *_: os._exit(code))
    if attempt is not None and not rejoins:
        attempt.part()
    return code, rejoins and code not in settings.fatal


def lead_is_gone(settings):
    """Whether the store that this node has met its peers in is gone, within a moment.

    Where newer code is taken, what listens there by now may be the next launcher's. That counts
    only where the connection stood as torchrun began: a proxy may listen for a rank 0 that is not
    there, and close at once.
    """

    def is_gone():
        if settings.rank0 is not None and not settings.rank0.is_connected():
            return True
        return not listens(settings.host, settings.port)

    return wait_until(is_gone, "rank 0 to go", GRACE_SECONDS)


def take_newer_code(settings):
    """Start over where there is newer code, or all pods are about to take some; else return."""
    if settings.follower and settings.follower.wait():
        start_over(settings)


def start_over(settings):
    """Start this launcher over with the newer code; does not return."""
    settings.follower.hold()
    settings.finish()
    settings.follower.restart(settings.argv)


def lose_peer(settings, error):
    """End with what torch raises when its store or a peer is lost; as `train`."""
    take_newer_code(settings)
    reason = "torchrun failed: %s: %s" % (type(error).__name__, str(error).split("\n")[0])
    say(reason)
    record(settings, failures.PEER_LOST + reason)
    return 1, True


def watch_for_stall(settings, watch, output):
    """Look whether the ranks go on, where that is asked (stall.py)."""
    if settings.stall_seconds:
        stall = beside("stall")
        observer = stall.RankObserver(beside("why"))
        watcher = stall.StallWatcher(
            settings.stall_seconds,
            ends=os.environ.get("ALLRANKS_STALL_ENDS") == "1",
            observer=observer,
            output=output,
            say=say,
            record=lambda text: record(settings, text),
            reports=stall.StallReports(os.environ, settings.pod, say),
        )
        watcher.follow(watch)


def train(settings, output, argv):
    """Run torchrun's agent to its end.

    Returns:
        (exit code, may_rejoin): the second is False when trying again from here cannot help.
    """
    from torch.distributed import run
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.elastic.rendezvous.api import RendezvousError

    lines = output and output.last_lines
    armed = os.environ.get("ALLRANKS_DIAGNOSE") != "0"
    killer = beside("stuck").StalledRankKiller(beside("why"), say) if armed else None
    watch = failures.AttemptWatch(
        settings.pod, settings.fatal, lines=lines, stalled_ranks=killer, say=say
    )
    watch.hook()
    watch_for_stall(settings, watch, output)
    if settings.progress:
        settings.progress.share(lambda: watch.attempt, settings.pod)
    args = run.parse_args(argv)
    try:
        run.run(args)
    except ChildFailedError as error:
        return conclude(settings, watch, error.failures)
    except failures.JobEnded:
        return conclude(settings, watch, {})
    except SignalException as error:
        if settings.follower and settings.follower.owns_signal(int(error.sigval)):
            start_over(settings)
        # A Job that has failed stops its other pods before each of them has seen why.
        code = 128 + int(error.sigval)
        if watch.gave_up():
            code, _ = conclude(settings, watch, {})
        return code, False
    except (FileNotFoundError, PermissionError) as error:
        # The codes of a shell, which runPolicy.fatalExitCodes may name.
        code = 127 if isinstance(error, FileNotFoundError) else 126
        reason = "cannot start %r: %s" % (error.filename, error.strerror)
        say(reason)
        record(settings, reason)
        return code, False
    except (RendezvousError, RuntimeError, OSError) as error:
        return conclude(settings, watch, {}) if watch.gave_up() else lose_peer(settings, error)
    return 0, False


def train_in_turn(settings, output, argv):
    """Train, or stand by for as long as others do; as `train`."""
    if settings.spares is None:
        return train(settings, output, argv)
    return settings.spares.attend(
        lambda: train(settings, output, argv), lambda: lead_is_gone(settings)
    )


def rejoin(settings, argv):
    """Start over when this node failed only because rank 0 was lost; else return."""
    if settings.backend != "c10d" or not settings.host or settings.node_rank == 0:
        return
    where = "%s:%d" % (settings.host, settings.port)
    is_gone = lead_is_gone(settings)
    take_newer_code(settings)
    if not is_gone and not (settings.spares and settings.spares.stands_by):
        return
    say("rank 0 at %s is gone; waiting for it to come back and joining again" % where)
    settings.finish()
    if settings.follower:
        settings.follower.fork_again()
    # A new process image: torch keeps threads and signal handlers of the failed attempt.
    os.execv(sys.executable, [sys.executable, "-u", __file__, *argv])


def train_to_the_end(settings, output, argv):
    """Train, and take newer code or join again where that is to be done; else the exit code.

    torch's signal handlers raise wherever Python is, and stay when torchrun has ended. So a signal
    that comes late is as good as one that has ended the ranks.
    """
    from torch.distributed.elastic.multiprocessing.api import SignalException

    try:
        code, may_rejoin = train_in_turn(settings, output, argv)
        ignore_signal_of_newer_code(settings)
        take_newer_code(settings)  # the ranks may have ended with a node's that was told first
        if may_rejoin:
            rejoin(settings, settings.argv)
    except SignalException as error:
        number = int(error.sigval)
        if settings.follower and settings.follower.owns_signal(number):
            start_over(settings)
        code = 128 + number
    settings.finish()
    if code == 0 and settings.marker:
        Path(settings.marker).touch()
    return code


def ignore_signal_of_newer_code(settings):
    """Let newer code be taken where this launcher looks for it, and not by torch's handler."""
    if settings.follower and settings.follower.signal != signal.SIGTERM:
        signal.signal(settings.follower.signal, lambda *_: None)


def has_children():
    """Whether this process has any that run, or waits for such; True where /proc cannot tell."""
    if process_groups.awaited:
        return True
    try:
        tasks = list(Path("/proc/self/task").iterdir())
        pids = [pid for task in tasks for pid in (task / "children").read_text().split()]
    except OSError:
        return True
    return any(map(process_groups.group_of, pids))


def end_on_sigterm(settings):
    """Let a SIGTERM end this process even where Python cannot handle it.

    When its own ranks are done, torchrun waits for the other nodes inside C++ for up to five
    minutes, and no handler of Python's runs there: the pod would be killed at the end of its grace
    period. Once no rank of this node is left to save anything, nothing is lost by ending.
    """
    signals, wakeup = os.pipe()
    os.set_blocking(wakeup, False)
    signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)  # written by C, at once
    follower = settings.follower

    def watch():
        received = b""
        while signal.SIGTERM not in received:
            received = os.read(signals, 64)
            if follower and any(map(follower.owns_signal, received)):
                break
        if settings.progress:
            settings.progress.ask_to_save(os.environ, say)
        quiet = 0
        while quiet < QUIET_CHECKS:
            time.sleep(0.5)
            quiet = 0 if has_children() else quiet + 1
        if follower and follower.pending and signal.SIGTERM not in received:
            start_over(settings)
        settings.finish()
        os._exit(settings.code_on_sigterm)

    threading.Thread(target=watch, daemon=True).start()


def idle():
    """Wait to be told to stop, and end with 0, however early a SIGTERM comes from here on.

    It is held back and asked for: a handler would run between two lines of Python alone, so that
    one that comes just before the wait begins would be heard with the next signal, if ever.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    say("this rank has finished its training; waiting to be deleted")
    signal.sigwait({signal.SIGTERM})
    sys.exit(0)


def main(argv):
    """Train, and end with the code that tells the truth, or has Kubernetes start this again."""
    # At once, and not by an exception: one that is raised while torch is imported may be swallowed.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(EXIT_TERMINATED))
    settings = LauncherSettings(os.environ)
    settings.argv = argv
    if settings.restarts is None:
        return meet_and_train(settings, argv)
    reason = settings.restarts.begin()
    if reason:
        say("error: " + reason)
        record(settings, reason)
        return settings.restarts.EXIT_NONE_LEFT
    return settings.restarts.code(meet_and_train(settings, argv))


def meet_and_train(settings, argv):
    """Wait for rank 0, train, and return the exit code of this launcher."""
    if settings.marker and Path(settings.marker).exists():
        if settings.follower:
            settings.follower.finish()
        idle()
    record(settings, "")  # a start after a failure has nothing to report yet
    set_defaults(os.environ)
    reason = load_torch(settings)
    if reason:
        say("error: " + reason)
        record(settings, reason)
        return EXIT_NO_TORCH
    if settings.follower:
        follower = settings.follower
        follower.fork(argv)
    preflight = begin_preflight(settings)
    if settings.follower:
        signal.signal(follower.signal, lambda *_: follower.end_or_restart(argv, EXIT_TERMINATED))
        follower.start()
    if os.environ.get("ALLRANKS_PROGRESS"):
        settings.progress = beside("progress").start(os.environ, say)
    reason = wait_for_rank0(settings)
    if reason:
        say("error: " + reason)
        record(settings, reason)
        return 1
    code = preflight_code(settings, preflight)
    if code:
        return code
    if settings.follower and settings.backend == "c10d" and settings.node_rank > 0:
        settings.rank0 = Rank0(settings.host, settings.port)
    options = node_options(settings, os.environ)
    output = settings.output = own_output(settings)
    last_save = getattr(signal, os.environ.get("ALLRANKS_CHECKPOINT_SIGNAL", ""), None)
    give_time_to_end(settings.shutdown, settings.follower, last_save)
    look_sooner(os.environ)
    if settings.spares:
        settings.spares.hook()
    end_on_sigterm(settings)
    words = as_typed(as_task(argv, os.environ), os.environ)
    if settings.rank0 is not None and not settings.rank0.is_connected():
        settings.rank0 = None
    return train_to_the_end(settings, output, [*options, "--", *words])


if __name__ == "__main__":
    exit_code = main(sys.argv[1:])
    # Python gives its handlers back before it has ended, and torch takes a second to go.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.exit(exit_code)
