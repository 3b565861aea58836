"""What the filesystem of a sandbox has: a side's files, and a stub for each program."""

from __future__ import annotations

import json
import os
import shutil
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from allranks.convert.slurm import options
from tests.side_by_side.inside.program import CHART_LAUNCHER, FAILS, HOME, JOB, LAUNCHERS, READ

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

SUBMIT_FOLDER = "/home/user/submit"
# What a site's shells have of modules and environments: functions, which tell what is loaded.
_ACTIVATES = f"""() {{ case "${{1-}}" in
 activate|deactivate|load|unload|add|purge|use|swap) export {READ}="${{{READ}-}}; NAME $*" ;;
 esac; command NAME "$@"; }}"""
_FUNCTIONS = {
    f"BASH_FUNC_{name}%%": _ACTIVATES.replace("NAME", name)
    for name in ("conda", "mamba", "micromamba", "module")
}
# What a shell starts with, on a node of Slurm's and in a pod.
ENVIRONMENT = {
    "PATH": "/stub:/bin:/usr/bin",
    "HOME": "/home/user",
    "USER": "user",
    "LOGNAME": "user",
    "LANG": "C.UTF-8",
    "SHELL": "/bin/bash",
    "TMPDIR": "/tmp",
    "BASH_ENV": "/side_by_side/bash",
    **_FUNCTIONS,
}
# The options of srun that have a value, and letters of options, as `ranks.read_options` takes them.
_SRUN = options.of("srun")
SRUN_OPTIONS = (
    " ".join(option.name for option in _SRUN if option.takes is options.Takes.VALUE),
    " ".join(f"{option.short}={option.name}" for option in _SRUN if option.short),
)
# What works with text and files does what it does; all else is a stub.
_REAL = """\
    bash cat grep egrep fgrep sed awk cut head tail sort uniq tr wc mkdir rm cp mv ls seq printf
    test [ dirname basename realpath readlink mktemp tee touch expr true false rmdir paste cksum id
    xargs tac rev fold od stdbuf timeout nohup nice chmod ln comm join split shuf whoami md5sum
    sha1sum sha256sum base64 find stat echo pwd env uname"""
_ANSWERS = ("hostname", "nproc", "scontrol")
# Bash takes the same numbers for random ones, and date the same moment, in each run.
_BASH = "RANDOM=7\n"
_DATE = '#!/bin/sh\nexec /real/bin/date -u -d @1700000000 "$@"\n'
# A stub is Python's and bash's: it is run by its name or by a shell, or read into a shell, where it
# does nothing, as what activates an environment.
_PROGRAM = """\
#!{python} -BSEs
''':'
(return 0 2>/dev/null) || exec {home}/{name} --as "$0" "$@"
export {read}="${{{read}-}}; source ${{BASH_SOURCE[0]##*/}}"
return 0
'''
import sys
sys.path.insert(0, "{home}")
from tests.side_by_side.inside.{name} import main
main()
"""


@dataclass(frozen=True, slots=True)
class Command:
    """What is started: its words, its environment and its folder."""

    words: tuple[str, ...]
    environment: Mapping[str, str]
    folder: str


@dataclass(frozen=True, slots=True)
class Side:
    """A batch script as Slurm starts it, or the pods that are made of it.

    Attributes:
        commands: what is started, one after another.
        files: what they have, by its path.
        hosts: the names of the nodes.
        hostlists: the names of a list of hosts, by Slurm's short form of it.
        slots: how many ranks of MPI a node takes.
        gpus: how many GPUs a node has.
        cpus: how many CPUs it has.
    """

    commands: tuple[Command, ...]
    files: Mapping[str, str]
    hosts: tuple[str, ...]
    hostlists: Mapping[str, list[str]]
    slots: int
    gpus: int
    cpus: str


@dataclass(slots=True)
class Site:
    """What both sides find in their filesystem.

    Attributes:
        programs: names of programs on PATH.
        folders: folders.
        scripts: files that may be run, and read into a shell.
    """

    programs: set[str]
    folders: set[str] = field(default_factory=set)
    scripts: set[str] = field(default_factory=lambda: {"/home/user/.bashrc"})


def fill(
    root: Path, side: Side, site: Site, *, user: str, seconds: int, failing: Collection[str]
) -> None:
    """Write it into a folder.

    Args:
        root: the folder.
        side: what is started.
        site: what is there.
        user: the number of who runs it.
        seconds: how long it may take.
        failing: the programs that fail, as ranks do then; none where all succeed.
    """
    python = Path(sys.executable).resolve()
    if python.is_relative_to("/usr"):
        python = Path("/real") / python.relative_to("/usr")
    for name in ("bin", "stub", "usr/bin", "tmp", "dev/shm", "var/run/allranks"):
        (root / name).mkdir(parents=True)
    home = root / HOME.strip("/")
    # With what is compiled of it.
    shutil.copytree(Path(__file__).parent / "inside", home / "tests" / "side_by_side" / "inside")
    program, driver = (
        _PROGRAM.format(python=python, home=HOME, name=name, read=READ)
        for name in ("program", "driver")
    )
    (home / "log").mkdir()
    job = {key: value for key, value in asdict(side).items() if key != "files"}
    texts = {
        f"{HOME}/program": program,
        f"{HOME}/driver": driver,
        ENVIRONMENT["BASH_ENV"]: _BASH,
        JOB: json.dumps({**job, "seconds": seconds, "srun_options": SRUN_OPTIONS}),
        "/etc/passwd": f"user:x:{user}:{user}::/home/user:/bin/bash\n",
        "/bin/date": _DATE,
        **({FAILS: "\n".join(failing)} if failing else {}),
        **side.files,
    }
    for path, text in texts.items():
        _write(root / path.strip("/"), text)
    _link_programs(root, site)
    for folder in sorted({SUBMIT_FOLDER, *site.folders}):
        with suppress(OSError):  # where a file has the name, it is none
            (root / folder.strip("/")).mkdir(parents=True, exist_ok=True)
    for script in sorted(site.scripts):
        if not os.path.lexists(root / script.strip("/")):
            with suppress(OSError):
                # No link: the batch script may write to it.
                _write(root / script.strip("/"), program)


def _link_programs(root: Path, site: Site) -> None:
    for name in _REAL.split():
        if (path := shutil.which(name, path="/usr/bin")) is not None:
            target = Path("/real") / Path(path).resolve().relative_to("/usr")
            for folder in ("bin", "usr/bin"):
                (root / folder / name).symlink_to(target)
    # Where Slurm is, sh is bash, as a rule; and nothing is waited for.
    for name, target_name in (("bin/sh", "bash"), ("bin/sleep", "true"), ("usr/bin/sleep", "true")):
        (root / name).symlink_to(f"/bin/{target_name}")
    stubs = {*site.programs, *LAUNCHERS, CHART_LAUNCHER, *_ANSWERS}
    for name in sorted(stubs):
        if not os.path.lexists(root / "bin" / name):
            (root / "stub" / name).symlink_to(f"{HOME}/program")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", errors="surrogateescape")
    path.chmod(0o755)
