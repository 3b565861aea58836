"""torchrun's agent of one generation of an elastic job: a process of its own, with torch.

`elastic_worker.py` starts it, with torchrun's options as ``PET_*`` variables. torchrun always
ends with 1; this ends with the exit code of its rank that failed first, as a shell gives it, and
leaves a sentence on the one of the whole job (see failures.py) in the pipe whose number is the
first argument; that they all ended well is said there as soon as they have. The other arguments are
the user's program. It runs on Python 3.8 or newer with torch 1.13 or newer.
"""

import gc
import json
import os
import socket
import sys
from pathlib import Path

sys.dont_write_bytecode = True  # the files beside this one are mounted, or a chart's source
import failures  # noqa: E402
import process_groups  # noqa: E402
import rank_output  # noqa: E402

EXIT_NO_TORCH = EXIT_NOT_FOUND = 127
EXIT_NOT_STARTED = 126
STORE_SECONDS = 2.0  # rank 0's store stays for the others to read which rank failed first
MESSAGE_MAX = 1000  # characters: at most 4,000 bytes; Kubernetes keeps 4,096


def as_typed(argv, env):
    """The words for torchrun so that the ranks get them as they are in `argv`.

    torchrun fills in ${local_rank} and halves "$$" in what it passes on, but not in the name of a
    program that it starts without Python.
    """
    verbatim = 1 if env.get("PET_NO_PYTHON") == "1" and env.get("PET_RUN_PATH") != "1" else 0
    return argv[:verbatim] + [word.replace("$", "$$") for word in argv[verbatim:]]


def describe(watch, torch_failures):
    """The exit code of this node's training, and a sentence on the rank that failed first.

    The code of a node that fell with another one is its own: the master asks what is to become of
    this pod. The sentence names the rank that failed first, wherever it was.

    Args:
        watch: what was seen of the ranks.
        torch_failures: torchrun's own, by global rank.
    """
    attempt = watch.attempt
    verdict = attempt.judge() if attempt is not None else None
    own = attempt.failures() if attempt is not None else []
    if own:
        rank, code, lines = own[0].rank, own[0].code, own[0].lines
        if verdict is not None and verdict.node == attempt.node:
            rank, code, lines = verdict.rank, verdict.code, verdict.lines
    else:
        rank = min(torch_failures, key=lambda rank: (torch_failures[rank].timestamp, rank))
        code, lines = torch_failures[rank].exitcode, ""
        code = code if code > 0 else 128 - code
    others = [failure.rank for failure in own] or list(torch_failures)
    lines = failures.traceback_of(torch_failures.get(rank)) or lines
    if verdict is None or verdict.node == attempt.node:
        return code, failures.describe(rank, code, others, lines)
    if verdict.follows:
        text = failures.PEER_LOST + failures.describe(rank, code, others, lines)
        return code, text[:MESSAGE_MAX]
    return code, verdict.message()


def arm_ranks(env):
    """Let `allranks why` ask the ranks, where sitecustomize.py lies here (runPolicy.diagnose).

    Their Python imports it from the front of the path, and takes this folder off there. It stands
    at the end as well, for `allranks_report`.
    """
    here = Path(__file__).absolute().parent
    if (here / "sitecustomize.py").exists():
        env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(here), env.get("PYTHONPATH")]))


def say(text):
    """One line to the pod's log."""
    print("allranks: " + text, file=sys.stderr, flush=True)


def stalled_rank_killer():
    """What ends ranks that wait for a peer that is gone (stuck.py); None where none are armed."""
    if not Path(__file__).with_name("sitecustomize.py").exists():
        return None
    import stuck
    import why

    return stuck.StalledRankKiller(why, say)


def watch_for_stall(env, watch, output):
    """Say in the pods' logs why no rank goes on, where that is asked (stall.py).

    What is done about it is the master's to say, who ends a training without steps.
    """
    seconds = int(env.get("ALLRANKS_STALL_SECONDS") or 0)
    if seconds:
        import stall
        import why

        watcher = stall.StallWatcher(
            seconds,
            ends=False,
            observer=stall.RankObserver(why),
            output=output,
            say=say,
            record=lambda _: None,
            reports=stall.StallReports(env, env.get("POD_NAME") or socket.gethostname(), say),
        )
        watcher.follow(watch)


def unstartable(error):
    """The exit code of a program that cannot be started, as a shell gives it, and a sentence."""
    code = EXIT_NOT_FOUND if isinstance(error, FileNotFoundError) else EXIT_NOT_STARTED
    return code, "cannot start %r: %s" % (error.filename, error.strerror)


def agent(result, words):
    """Run torchrun's agent to its end; leave the reason of a failure in a pipe."""
    gc.disable()  # to look for garbage in what is loaded, where there is none, takes a fifth of it
    try:
        from torch.distributed import run
        from torch.distributed.elastic.agent.server.api import SimpleElasticAgent
        from torch.distributed.elastic.multiprocessing.api import SignalException
        from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    except ImportError as error:
        text = "this image's Python (%s) cannot load torch: %s" % (sys.executable, error)
        return leave_word(result, EXIT_NO_TORCH, text)
    finally:
        gc.freeze()  # nor is it looked through later, or as Python ends
        gc.enable()
    output = rank_output.RankOutput(prefixed=False)
    is_heard = output.install()
    lines = output.last_lines if is_heard else None
    pod = os.environ.get("POD_NAME") or socket.gethostname()
    watch = failures.AttemptWatch(
        pod, lines=lines, ends_together=False, stalled_ranks=stalled_rank_killer()
    )
    watch.hook()
    watch_for_stall(os.environ, watch, output if is_heard else None)
    say_when_done(SimpleElasticAgent, result)
    give_time_to_end(float(os.environ.get("ALLRANKS_GRACE_SECONDS") or 20))
    arm_ranks(os.environ)
    args = run.parse_args(["--", *as_typed(words, os.environ)])
    try:
        run.run(args)
    except ChildFailedError as error:
        code = leave_word(result, *describe(watch, error.failures))
        if watch.attempt is not None:
            watch.attempt.part(STORE_SECONDS)
        return code
    except SignalException as error:
        return 128 + int(error.sigval)
    except (RuntimeError, OSError) as error:
        if words and getattr(error, "filename", None) == words[0]:
            return leave_word(result, *unstartable(error))
        # What torch raises when its store or a peer is lost.
        text = "torchrun failed: %s: %s" % (type(error).__name__, str(error).split("\n")[0])
        return leave_word(result, 1, text)
    finally:
        output.finish()
    return 0


def say_when_done(kind, result):
    """Have torchrun's agent leave word when its ranks have all ended well.

    It waits for the other agents then, up to five minutes (`_exit_barrier`, torch 1.9 and newer),
    and may be ended while it does: nothing of this node is left to train all the same.
    """
    wait = getattr(kind, "_exit_barrier", None)
    if wait is None:
        return

    def say_and_wait(self):
        leave_word(result, 0, "")
        return wait(self)

    kind._exit_barrier = say_and_wait


def give_time_to_end(seconds):
    """Let torch wait so long between SIGTERM and SIGKILL to a rank: it would be 30 s.

    All ways to end the ranks go through this one method, the same since torch 1.9.
    """
    from torch.distributed.elastic.multiprocessing.api import PContext

    close = getattr(PContext, "close", None)
    if close is not None:
        PContext.close = lambda context, death_sig=None, *_, **__: process_groups.close_whole(
            close, context, death_sig, seconds
        )


def leave_word(result, code, message):
    """Write how the training ended for the process that waits; return the code. The first stays."""
    content = json.dumps({"code": code, "message": message[:MESSAGE_MAX]})
    try:
        with os.fdopen(result, "w", encoding="utf-8") as file:
            file.write(content)
    except OSError:  # it is closed: how the ranks ended was said before
        pass
    return code


if __name__ == "__main__":
    sys.exit(agent(int(sys.argv[1]), sys.argv[2:]))
