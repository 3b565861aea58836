"""What stands in the sandbox for every program: a recorder, or a launcher that starts recorders.

A recorder writes a line with all that it was given, as Python writes a dict, and ends: with 0, or
in a run whose ranks fail with `FAILURE` where it is a rank or one of the programs that fail. There
are hundreds of them in a run, so that it imports no more than it must.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tests.side_by_side.inside.ranks import Rank

HOME = "/side_by_side"
RECORDS, FAILS, JOB = f"{HOME}/log/records", f"{HOME}/fails", f"{HOME}/job.json"
FAILURE = 7
_MPI = ("mpirun", "mpiexec", "orterun", "ibrun")
LAUNCHERS = ("srun", *_MPI, "torchrun", "deepspeed", "singularity", "apptainer", "shifter")
CHART_LAUNCHER = "allranks-launcher"  # the stand-in of the charts' own
# Of which node a process is, and whether a launcher has started it.
NODE, IN_STEP = "SIDE_BY_SIDE_NODE", "SIDE_BY_SIDE_STEP"
# What has been read into the shells before it, and loaded or activated there, in its order.
READ = "SIDE_BY_SIDE_READ"
# Where a run writes nothing that is its own, or what is not a job's.
_NO_FILES = ("stub", "bin", "usr", "lib", "lib64", "real", "dev", "proc", "etc", "var", HOME[1:])
_MOST_FILES = 2000
_TORCH_MODULES = ("torch.distributed.run", "torch.distributed.launch")
_LIMITS = ("STACK", "CORE", "NOFILE")
_TASK = '. /etc/allranks/slurm.sh && allranks_slurm_rank && exec "$@"'


def main() -> None:
    """Be the program that this one is called as."""
    words = sys.argv[2:] if sys.argv[1:2] == ["--as"] else sys.argv
    name = os.path.basename(words[0])
    module = _module(words) if name.startswith("python") else []
    if module and module[0] in _TORCH_MODULES:
        name, words = "torchrun", module
    if name in ("hostname", "nproc", "scontrol"):
        _answer(name, words[1:])
    if name in LAUNCHERS or name == CHART_LAUNCHER:
        _launch(name, words[1:])
    _record(words)
    sys.exit(FAILURE if os.path.exists(FAILS) and _fails(name, words) else 0)


def _module(words: list[str]) -> list[str]:
    """The module that a Python runs, and its words; [] for none."""
    rest = [word for word in words[1:] if word != "-u"]
    return rest[1:] if rest[:1] == ["-m"] else []


def _record(words: list[str]) -> None:
    import resource

    umask = os.umask(0)
    os.umask(umask)
    limits = [resource.getrlimit(getattr(resource, f"RLIMIT_{name}"))[0] for name in _LIMITS]
    record = {
        "words": words,
        "folder": os.getcwd(),
        "stdin": _stream(0),
        "stdout": _stream(1),
        "limits": " ".join(map(str, (*limits, oct(umask)))),
        "environment": {
            name: text for name, text in os.environ.items() if not name.startswith("BASH_")
        },
        "files": _files(),
    }
    line = ascii(record).encode() + b"\n"
    records = os.open(RECORDS, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    os.write(records, line)


def _files() -> list[str]:
    """The files and folders that there are, but for those of the sandbox itself."""
    files: list[str] = []
    for top in sorted(os.listdir("/")):
        if top in _NO_FILES or not os.path.isdir(f"/{top}"):
            continue
        for folder, folders, names in os.walk(f"/{top}"):
            folders[:] = [name for name in folders if f"{folder}/{name}" != sys.base_prefix]
            files += [f"{folder}/{name}" for name in (*folders, *names)]
            if len(files) > _MOST_FILES:
                return files[:_MOST_FILES]
    return files


def _stream(number: int) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{number}")
    except OSError:
        return "closed"


def _fails(name: str, words: list[str]) -> bool:
    if IN_STEP in os.environ:
        return True
    is_question = words[1:2] and words[1] in ("-c", "-V", "--version", "-")
    is_tool = _module(words)[:1] in (["pip"], ["venv"])
    with open(FAILS) as file:
        names = file.read().split()
    return name in names and not is_question and not is_tool


def _answer(name: str, words: list[str]) -> None:
    """Be a program that says something of the node."""
    job = _job()
    host = job["hosts"][int(os.environ.get(NODE, "0"))].partition(".")[0]
    if name == "scontrol":
        if words[:2] in (["show", "hostnames"], ["show", "hostname"]):
            nodes = (words[2:] or [os.environ.get("SLURM_JOB_NODELIST", "")])[0]
            print("\n".join(job["hostlists"].get(nodes, nodes.split(","))))
    elif name == "nproc":
        print(job["cpus"])
    else:
        is_address = {"-i", "-I", "--ip-address", "--all-ip-addresses"} & {*words}
        print(f"IP.{host}" if is_address else host)
    sys.exit(0)


def _job() -> dict[str, Any]:
    import json

    with open(JOB) as file:
        return json.load(file)  # type: ignore[no-any-return]


def _launch(name: str, words: list[str]) -> None:
    """Start the ranks of a launcher, one after another, and end as the worst of them."""
    from tests.side_by_side.inside import ranks

    data = _job()
    job = ranks.Allocation(data["hosts"], data["slots"], data["gpus"], data["srun_options"])
    environment = dict(os.environ)
    try:
        if name == "srun":
            started = ranks.srun(words, environment, job)
        elif name in ("torchrun", CHART_LAUNCHER):
            started = ranks.torchrun(words, environment, job)
        elif name == "deepspeed":
            started = ranks.deepspeed(words, environment, job)
        elif name in ("singularity", "apptainer"):
            started = ranks.container(words, environment)
        elif name == "shifter":
            started = ranks.shifter(words, environment)
        else:
            started = ranks.mpirun(words, environment, job, _worker)
    except ranks.LauncherError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(2)
    if not started:
        return
    is_charts = name == CHART_LAUNCHER or (
        name in _MPI and os.environ.get("ALLRANKS_ROLE") == "launcher"
    )
    # srun gives its input to each of its tasks.
    text = sys.stdin.buffer.read() if name == "srun" and _is_shell(started[0].words) else None
    sys.exit(max(_start(_as_task(rank) if is_charts else rank, text) for rank in started))


def _is_shell(words: list[str]) -> bool:
    """Whether words start a shell that reads its text from its input: ``srun bash <<EOF``."""
    name = words[0].rpartition("/")[2]
    return name in ("bash", "sh") and ("-s" in words or all(w[:1] == "-" for w in words[1:]))


def _worker(node: int) -> dict[str, str]:
    """The environment of what mpirun starts on a node: in pods, that of the worker's setup."""
    try:
        with open(f"{HOME}/log/worker.{node}", errors="surrogateescape") as file:
            texts = file.read().split("\0")
    except OSError:
        # Slurm's daemons of MPI are tasks of their own, one a node.
        return {**os.environ, "SLURM_NODEID": str(node), "SLURM_PROCID": str(node)}
    return dict(text.split("=", 1) for text in texts if "=" in text)


def _as_task(rank: Rank) -> Rank:
    """A rank of a chart's launcher: it is told what Slurm tells a task, and a script is no rank."""
    words, environment = rank.words, dict(rank.environment)
    if words[0] == "/etc/allranks/script":
        del environment[IN_STEP]
    if environment.get("ALLRANKS_COMPAT") == "slurm":
        words = ["bash", "-c", _TASK, "rank", *words]
    return rank._replace(words=words, environment=environment)


def _start(rank: Rank, text: bytes | None = None) -> int:
    import subprocess

    for path in filter(None, (rank.output, rank.error)):
        # A site has the folder, or its job would not start.
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    output, error_output = (
        open(path, "ab") if path else None  # noqa: SIM115 - closed with this program
        for path in (rank.output, rank.error)
    )
    try:
        process = subprocess.run(
            rank.words,
            check=False,
            env=rank.environment,
            cwd=rank.folder or None,
            stdout=output,
            stderr=error_output,
            input=text,
        )
    except OSError as error:
        sys.stderr.write(f"launcher: {error.filename}: {error.strerror}\n")
        return 127
    return process.returncode
