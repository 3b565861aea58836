"""One training of an elastic worker: torchrun and its ranks, from their start to the last's end.

`elastic_worker.py` starts one for each generation, and decides when it is to stop.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

POLL_SECONDS = 0.1
# An agent of torchrun without ranks waits inside C++, where no signal's handler runs.
RANKLESS_SECONDS = 1.0
MARK = "ALLRANKS_TRAINING"
AGENT = str(Path(__file__).with_name("elastic_agent.py"))


def say(text):
    """One line to the pod's log, at once."""
    print("allranks: " + text, file=sys.stderr, flush=True)


class Run:
    """torchrun and its ranks, for one generation."""

    def __init__(self, settings, world, words):
        """Start them."""
        self.grace = settings.grace
        self.mark = "%s/%d/%d" % (settings.pod, world["generation"], os.getpid())
        nodes = world["nodes"]
        env = dict(os.environ)
        env.update(
            {
                "PET_NNODES": str(len(nodes)),
                "PET_NODE_RANK": str(world["rank"]),
                "PET_MASTER_ADDR": str(world["masterAddr"]),
                "PET_MASTER_PORT": str(world["masterPort"]),
                "PET_RDZV_BACKEND": "static",
                "PET_RDZV_ENDPOINT": "",
                "PET_RDZV_ID": "generation-%d" % world["generation"],
                "PET_MAX_RESTARTS": "0",  # the master says who starts again, and with whom
                "ALLRANKS_GENERATION": str(world["generation"]),
                MARK: self.mark,
            }
        )
        if (env.get("PET_NPROC_PER_NODE") or "1") != "1":
            env.setdefault("OMP_NUM_THREADS", "1")  # torchrun's own default, without its warning
        here = str(Path(__file__).resolve().parent)
        env["PYTHONPATH"] = os.pathsep.join(filter(None, [env.get("PYTHONPATH"), here]))
        say(
            "generation %d: rank %d of %d, rank 0 at %s:%s"
            % (
                world["generation"],
                world["rank"],
                len(nodes),
                world["masterAddr"],
                world["masterPort"],
            )
        )
        self.word, result = os.pipe()
        # A session of its own: a signal to it reaches the agent and not this process.
        self.agent = subprocess.Popen(  # noqa: S603 - the user's own program
            [python_with_torch(), "-u", AGENT, str(result), *words],
            env=env,
            pass_fds=[result],
            start_new_session=True,
        )
        os.close(result)

    def stop(self):
        """End the agent and every process of its, however deep; nothing where they have ended."""
        if self.agent.poll() is None:
            self.agent.terminate()
            deadline = time.monotonic() + self.grace
            rankless = None
            while self.agent.poll() is None and time.monotonic() < deadline:
                ranks = [pid for pid in marked(self.mark) if pid != self.agent.pid]
                rankless = None if ranks else rankless or time.monotonic()
                if rankless and time.monotonic() - rankless > RANKLESS_SECONDS:
                    break
                time.sleep(POLL_SECONDS)
            self.agent.kill()
        self.agent.wait()
        for pid in marked(self.mark):
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                continue  # it has ended by itself
        reap()

    def verdict(self):
        """The exit code, and the reason of a failure in one sentence."""
        code = self.agent.returncode
        with os.fdopen(self.word, encoding="utf-8", errors="replace") as word:
            content = word.read()
        if code == 0:
            return 0, ""
        try:
            end = json.loads(content)
            return int(end["code"]), str(end["message"])
        except (ValueError, KeyError):
            code = code if code > 0 else 128 - code
            return code, "torchrun ended with exit code %d" % code


def marked(mark):
    """The processes of a training, wherever they have moved to; none where there is no /proc."""
    entry = ("%s=%s" % (MARK, mark)).encode()
    pids = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if entry in (folder / "environ").read_bytes().split(b"\0"):
                pids.append(int(folder.name))
        except OSError:
            continue  # ended, or another user's
    return pids


def reap():
    """Take leave of orphans that have ended: a container's first process is their parent."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def python_with_torch():
    """The Python that torch is installed in: torchrun's own first, an image may have several."""
    pythons = [sys.executable]
    program = shutil.which("torchrun")
    if program:
        try:
            with Path(program).open("rb") as file:
                line = file.readline(1000).decode(errors="replace").strip()
        except OSError:
            line = ""
        if line.startswith("#!") and Path(line[2:]).is_file():
            pythons.insert(0, line[2:])
    pythons += [path for path in (shutil.which("python3"), shutil.which("python")) if path]
    check = "import importlib.util as u, sys; sys.exit(u.find_spec('torch') is None)"
    for path in dict.fromkeys(pythons):
        if subprocess.call([path, "-c", check], stderr=subprocess.DEVNULL) == 0:  # noqa: S603 - found on PATH
            return path
    return sys.executable  # whose word about the missing torch is the agent's
