"""torchrun's agent of one generation of an elastic job: a process of its own, with torch.

`elastic_worker.py` starts it, with torchrun's options as ``PET_*`` variables. torchrun always
ends with 1; this ends with the exit code of the rank that failed first, as a shell gives it, and
leaves a sentence on it in the pipe whose number is the first argument; that they all ended well is
said there as soon as they have. The other arguments are the user's program. It runs on Python 3.8
or newer with torch 1.13 or newer.
"""

import json
import os
import sys

EXIT_NO_TORCH = EXIT_NOT_FOUND = 127
EXIT_NOT_STARTED = 126
MESSAGE_MAX = 1000  # characters: at most 4,000 bytes; Kubernetes keeps 4,096


def as_typed(argv, env):
    """The words for torchrun so that the ranks get them as they are in `argv`.

    torchrun fills in ${local_rank} and halves "$$" in what it passes on, but not in the name of a
    program that it starts without Python.
    """
    verbatim = 1 if env.get("PET_NO_PYTHON") == "1" and env.get("PET_RUN_PATH") != "1" else 0
    return argv[:verbatim] + [word.replace("$", "$$") for word in argv[verbatim:]]


def describe(failures):
    """The exit code of the rank that failed first, as a shell gives it, and a sentence on it."""
    ranks = sorted(failures, key=lambda rank: (failures[rank].timestamp, rank))
    first = ranks[0]
    code = failures[first].exitcode
    code = code if code > 0 else 128 - code
    text = "rank %d ended with exit code %d" % (first, code)
    if len(ranks) > 1:
        others = ", ".join(str(rank) for rank in sorted(ranks[1:]))
        text += " (and %d more on this node: %s)" % (len(ranks) - 1, others)
    message = failures[first].message
    if isinstance(message, dict):  # scripts decorated with torch's @record
        stack = message.get("extraInfo", {}).get("py_callstack") or message.get("message", "")
        text += "\n" + str(stack).rstrip()
    return code, text


def unstartable(error):
    """The exit code of a program that cannot be started, as a shell gives it, and a sentence."""
    code = EXIT_NOT_FOUND if isinstance(error, FileNotFoundError) else EXIT_NOT_STARTED
    return code, "cannot start %r: %s" % (error.filename, error.strerror)


def agent(result, words):
    """Run torchrun's agent to its end; leave the reason of a failure in a pipe."""
    try:
        from torch.distributed import run
        from torch.distributed.elastic.agent.server.api import SimpleElasticAgent
        from torch.distributed.elastic.multiprocessing.api import SignalException
        from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    except ImportError as error:
        text = "this image's Python (%s) cannot load torch: %s" % (sys.executable, error)
        return leave_word(result, EXIT_NO_TORCH, text)
    say_when_done(SimpleElasticAgent, result)
    give_time_to_end(float(os.environ.get("ALLRANKS_GRACE_SECONDS") or 20))
    args = run.parse_args(["--", *as_typed(words, os.environ)])
    try:
        run.run(args)
    except ChildFailedError as error:
        return leave_word(result, *describe(error.failures))
    except SignalException as error:
        return 128 + int(error.sigval)
    except (RuntimeError, OSError) as error:
        if words and getattr(error, "filename", None) == words[0]:
            return leave_word(result, *unstartable(error))
        # What torch raises when its store or a peer is lost.
        text = "torchrun failed: %s: %s" % (type(error).__name__, str(error).split("\n")[0])
        return leave_word(result, 1, text)
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
        PContext.close = lambda context, death_sig=None, *_, **__: close(
            context, death_sig, seconds
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
