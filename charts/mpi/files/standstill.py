"""Notice that the ranks of an MPI job stand still, and say why (runPolicy.stallSeconds).

    standstill.py look           on a host: what its ranks have done so far, as a line of JSON
    standstill.py where          the same, with where each of them is
    standstill.py watch SECONDS  in the launcher: ends once they have stood still for so long

mpirun's ranks share no store, as torchrun's do; but the launcher can ask each host (rsh.sh,
remote.sh). It does so only while the command writes nothing, 20 times within the limit at most.
What counts as a stall, and whose fault it is, is decided by stall.py. So ranks that spin while
MPI waits are taken for ranks that compute. `watch` leaves the sentence in the file `stalled` of
$ALLRANKS_STATE. Standard library; Python 3.8 or newer.
"""

import contextlib
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).absolute().parent
sys.path.insert(0, str(HERE))
import stall  # noqa: E402
import why  # noqa: E402

HOSTS_AT_ONCE = 64
ANSWER_SECONDS = 30.0  # for a host
SILENT_SHARE = 0.1  # of the limit that the command is silent before hosts are asked


class HostRank(stall.RankView):
    """A rank as its host has seen it: what it has entered, and waits in, is already read."""

    numbers = pending = begun = None

    def __init__(self, content):
        """Of what a host said."""
        # No two hosts share a rank, as they may share the number of a process.
        super().__init__(content["rank"], content["rank"], content["numbers"], content["used"])
        self.numbers = content["numbers"] or {}
        self.pending = content["pending"] and tuple(content["pending"])
        self.begun = content["begun"]
        self.at = content["at"]


def own_ranks(with_places):
    """What the ranks of this host have done so far."""
    observer = stall.RankObserver(why)
    views, pod = observer.look(), os.environ.get("POD_NAME") or os.environ.get("HOSTNAME", "")
    places = {}
    if with_places:
        places = observer.places()
        stall.StallReports(os.environ, pod, say).keep("", observer.ranks_seen)
    ranks = [
        {
            "rank": view.rank,
            "numbers": None if view.groups is None else view.numbers,
            "pending": view.pending,
            "begun": view.begun,
            "used": view.cpu_seconds,
            "at": places.get(view.rank, ""),
        }
        for view in views
    ]
    return {"pod": pod, "ranks": ranks}


class Hosts:
    """The hosts of the job."""

    def __init__(self, names, env):
        """By their names in the hostfile; the environment is the launcher's."""
        self._names, self._launcher = names, env.get("ALLRANKS_MPI_LAUNCHER", "")
        self._answered = []

    def ask(self, word, *, again=False):
        """What they say, as (its pod, its ranks); those that do not answer are left out.

        With `again`, who has answered the question before is asked twice: on a busy machine the
        places of its ranks take a host longer than what they have done.
        """
        answers = self._answers(word, self._names)
        if again:
            late = [name for name in self._answered if name not in answers]
            answers.update(self._answers(word, late))
        self._answered = [name for name in self._names if name in answers]
        return [answers[name] for name in self._answered]

    def _answers(self, word, names):
        """By the names of hosts, what those say that answer."""
        with ThreadPoolExecutor(HOSTS_AT_ONCE) as threads:
            answers = dict(threads.map(lambda name: (name, self._ask(name, word)), names))
        return {name: answer for name, answer in answers.items() if answer is not None}

    def _ask(self, name, word):
        words = [str(HERE / "rsh.sh"), "-n", name]
        if name == self._launcher:
            words = ["/bin/sh", str(HERE / "remote.sh")]
        with contextlib.suppress(OSError, subprocess.SubprocessError, ValueError, LookupError):
            result = subprocess.run(  # noqa: S603 - our own agent, and a host of our list
                [*words, "allranks:" + word],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=ANSWER_SECONDS,
                check=True,
            )
            content = json.loads(result.stdout)
            pod = content["pod"] or name.partition(".")[0]
            return pod, [HostRank(rank) for rank in content["ranks"]]
        return None


def last_output(state, began):
    """When the command wrote last, by the pipes that it writes into; else `began`."""
    times = [began]
    for pipe in [*(state / "said").glob("*.in"), state / "left.in"]:
        with contextlib.suppress(OSError):
            times.append(pipe.stat().st_mtime)
    return max(times)


def watch(seconds, hosts, state, say):
    """Look until the ranks stand still; the sentence on it, and whether any of them says so."""
    pause = min(max(seconds / stall.LOOKS, 1.0), stall.LOOK_MOST)
    began, job_stall = time.time(), stall.PodStall(time.time())
    while True:
        time.sleep(pause)
        now, wrote_at = time.time(), last_output(state, began)
        if now - wrote_at < seconds * SILENT_SHARE:
            continue
        views = [view for _, views in hosts.ask("look") for view in views]
        job_stall.update(views, wrote_at, now)
        if not job_stall.lasts(seconds, now) or not (job_stall.waits or job_stall.idles):
            continue
        answers = hosts.ask("where", again=True)
        if any(views for _, views in answers):
            return sentence(answers, seconds, now - job_stall.since, say)


def sentence(answers, seconds, lasted, say):
    """Say where each rank is; who keeps the others, and whether any rank has answered."""
    reports = []
    for node, (pod, views) in enumerate(answers):
        places = {view.rank: view.at for view in views}
        reports.append(stall.report(pod, node, views, places, lasted))
        for line in stall.lines(reports[-1]):
            say(line)
    return stall.verdict(reports, seconds)[3], stall.is_certain(reports)


def say(text):
    """One line to the pod's log, at once."""
    print("allranks: " + text, file=sys.stderr, flush=True)


def follow(seconds, hosts, state):
    """Report one stall, in the file `stalled` too where any rank says what it does: whether it is.

    Args:
        seconds: the limit.
        hosts: of the job.
        state: the folder of the launcher's state.
    """
    words, is_certain = watch(seconds, hosts, state, say)
    say(words)
    say(stall.progress_line(words))
    pod = os.environ.get("POD_NAME") or os.environ.get("HOSTNAME", "")
    stall.StallReports(os.environ, pod, say).keep(words, [])
    if is_certain:
        (state / "stalled").write_text(words + "\n", encoding="utf-8")
    return is_certain


def main(argv):
    """Look, or watch; the exit code."""
    if argv[0] in ("look", "where"):
        print(json.dumps(own_ranks(argv[0] == "where")), flush=True)
        return 0
    state = Path(os.environ["ALLRANKS_STATE"])
    names = (state / "hostlist").read_text(encoding="utf-8").split()
    hosts, ends = Hosts(names, os.environ), os.environ.get("ALLRANKS_STALL_ENDS") == "1"
    try:
        # What a busy host could not say may be known after the limit once more.
        while not follow(int(argv[1]), hosts, state) and ends:
            say(stall.NOT_ENDED)
    except Exception as error:  # noqa: BLE001 - whatever it is, the training goes on
        say("nobody looks for a standstill any more: %r" % error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
