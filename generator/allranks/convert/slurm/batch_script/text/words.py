"""What words of a batch script mean: which programs are Slurm's, start ranks, or only print.

It is long because it holds the lists of programs that all other modules ask.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from allranks.convert.programs import commands, env_words, environment_runners, scanner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

MPIRUN = frozenset(
    {"mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun", "mpirun_rsh", "ibrun"}
)
MPI_LAUNCHERS = MPIRUN | {"horovodrun"}
TORCHRUN = frozenset({"torchrun", "torchrun-hpc", "torchrun_jsc"})
TORCH_MODULES = ("torch.distributed.run", "torch.distributed.launch")
# Programs that start the ranks of a node, or of all nodes.
STARTERS = frozenset({*MPI_LAUNCHERS, *TORCHRUN, "deepspeed", "accelerate-launch"})
FOREIGN_STARTERS = frozenset(
    {"aprun", "jsrun", "lrun", "pdsh", "clush", "parallel", "prun", "charmrun"}
)
# What only prints, or changes nothing about what is trained.
IDLE = frozenset(
    {
        *("echo", "printf", "date", "hostname", "pwd", "ls", "env", "printenv", "nvidia-smi"),
        *(
            "rocm-smi",
            "which",
            "lscpu",
            "free",
            "df",
            "uname",
            "whoami",
            "id",
            "true",
            ":",
            "lsb_release",
        ),
        *(
            "nvcc",
            "gcc",
            "du",
            "tree",
            "top",
            "uptime",
            "lspci",
            "numastat",
            "type",
            "[",
            "[[",
            "test",
        ),
    }
)
# What measures the program behind it.
PROFILERS = frozenset(
    {
        *("perf", "nsys", "ncu", "nvprof", "rocprof", "rocprofv2", "rocprofv3", "rocprof-sys-run"),
        *("vtune", "amplxe-cl", "advixe-cl", "likwid-perfctr", "strace", "ltrace", "valgrind"),
        *("heaptrack", "py-spy", "scalene", "psrecord", "ddt", "map", "perf-report"),
    }
)
# What does something on another machine, with the keys of who submits.
OF_OTHER_HOSTS = frozenset(
    {
        *("ssh", "scp", "sftp", "sshpass", "autossh", "mosh", "dask-ssh", "pssh", "parallel-ssh"),
        *("pdsh", "clush", "pdcp"),
    }
)
# A file of another host, which rsync reaches by ssh; an address that git does.
_REMOTE_FILE = re.compile(r"(?:[\w.${}-]+@)?[\w.${}-]+:(?!:|//).*")
_GIT_BY_SSH = re.compile(r"ssh://.*|[\w.-]+@[\w.-]+:.*")
_GIT_REMOTE = frozenset({"clone", "pull", "push", "fetch", "ls-remote", "submodule"})
# Those of them that start programs on several.
STARTING_ELSEWHERE = OF_OTHER_HOSTS - {"scp", "sftp", "pdcp", "mosh"}
# What only root may do, as a rule.
OF_ROOT = frozenset(
    {"sudo", "apt", "apt-get", "yum", "dnf", "mount", "sysctl"}
    | {"sshfs", "gcsfuse", "s3fs", "mount-s3", "goofys", "juicefs", "blobfuse2"}
)
# What only changes how a terminal looks: without one it fails.
OF_TERMINAL = frozenset({"clear", "reset", "tput"})
# What may stand behind the training, besides what only prints.
ENDING = frozenset({"wait", "exit", "deactivate", "sleep", "unset", "return", "set"})
# What changes the shell that runs it alone.
OF_SHELL = ENDING | {
    *("export", "declare", "local", "readonly", "typeset", "read", "shift", "let", "cd", "pushd"),
    *("popd", "trap", "shopt", "ulimit", "umask", "break", "continue", ":", "[", "[[", "test"),
    *("false", "getopts", "mapfile", "readarray", "builtin", "alias"),
}
SLURM_TOOLS = frozenset(
    {
        *("scontrol", "squeue", "sacct", "sinfo", "sstat", "seff", "scancel", "sprio", "sreport"),
        *(
            "sbcast",
            "sgather",
            "sbatch",
            "salloc",
            "sacctmgr",
            "sattach",
            "strigger",
            "sshare",
            "jobstats",
        ),
    }
)
# Programs whose `run` starts a container of an image; those of CONTAINERS are read behind srun.
DOCKER = frozenset({"docker", "nvidia-docker", "podman", "podman-hpc", "nerdctl", "sarus"})
CONTAINERS = DOCKER | {
    *("singularity", "apptainer", "shifter", "singularity_wrapper", "apptainer_wrapper"),
}
# What starts containers where no srun is before it, which a pod cannot.
UNREAD_CONTAINERS = DOCKER | {"enroot", "udocker", "ch-run"}
# What torchrun sets for each rank, and a batch script computes for it.
RENDEZVOUS = frozenset(
    {
        *(
            "MASTER_ADDR",
            "MASTER_PORT",
            "WORLD_SIZE",
            "RANK",
            "LOCAL_RANK",
            "NODE_RANK",
            "GROUP_RANK",
        ),
        *("LOCAL_WORLD_SIZE", "MASTER_IP", "MASTER_HOST"),
    }
)
# What a rank has of its own, also under a launcher that does not say it.
OF_ONE_RANK = frozenset({"RANK", "LOCAL_RANK", "NODE_RANK", "GROUP_RANK"})
# Programs that change the environment of the shell.
ACTIVATING = frozenset(
    {"module", "ml", "conda", "mamba", "micromamba", "source", ".", "eval", "spack", "pyenv"}
    | {"vpkg_require", "vpkg_devrequire", "setpkgs"}  # modules of some sites, by their own names
)
MANAGERS = frozenset({"conda", "mamba", "micromamba", "spack", "pyenv"})
_EVALUATED_PRINTING = re.compile(r"eval\s+[\"']?\s*(?:echo|printf)\b(?!.*[>|])")
_EVALUATED_ARGUMENTS = re.compile(r"eval\s+[\"']?\s*set\s+--")  # as getopt orders them
# What these do besides: they run a program, or install one.
_DOES_MORE = frozenset(
    {"run", "exec", "install", "create", "build", "update", "upgrade", "remove", "clean", "spec"}
    | {"concretize", "buildcache", "mirror", "test", "stage", "fetch", "list", "find", "info"}
    | {"config", "module", "compiler", "compilers", "arch", "repo", "external", "uninstall"}
    | {"env list", "env export", "env view", "env create", "env remove", "env update", "env rm"}
    | {"env config", "env add", "env status", "search", "export", "rename", "virtualenv"}
)
# The words that a script is given, of which it makes a command.
_OF_SCRIPT = frozenset(('"$@"', "$@", '"$*"', "$*"))
# What each rank may run for itself: it only reads, or makes what is there already.
IN_EACH_RANK = (
    IDLE
    | ENDING
    | ACTIVATING
    | SLURM_TOOLS
    | {
        *("export", "declare", "local", "readonly", "typeset", "read", "shift", "let", "cd"),
        *("mkdir", "touch", "cat", "grep", "sed", "awk", "seq", "dirname", "basename", "head"),
        *("tail", "cut", "tr", "wc", "sort", "tee", "expr", "bc", "realpath", "readlink", "trap"),
        *("break", "continue", "pushd", "popd", "ulimit", "shopt", "mapfile", "readarray"),
    }
)
_OF_EVERY_SYSTEM = IN_EACH_RANK - SLURM_TOOLS - ACTIVATING
# Files whose variables are known: they activate an environment, or define the command module.
ACTIVATES = re.compile(r"(?:activate|/(?:conda|mamba|micromamba|modules?|lmod)\.sh|/profile)$")
# What srun tells each task; the batch script itself has 0 there.
OF_TASK = frozenset({"SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID"})
# What `compat: slurm` sets, where the job has it; SLURM_ARRAY_* are those of an array.
OF_COMPAT = frozenset(
    {
        *("SLURM_JOB_ID", "SLURM_JOBID", "SLURM_JOB_NAME", "SLURM_NNODES", "SLURM_JOB_NUM_NODES"),
        *("SLURM_NTASKS", "SLURM_NPROCS", "SLURM_NTASKS_PER_NODE", "SLURM_TASKS_PER_NODE"),
        *("SLURM_JOB_NODELIST", "SLURM_NODELIST", "SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE"),
        *("SLURM_CPUS_ON_NODE", "SLURM_CPUS_PER_TASK", "SLURM_JOB_CPUS_PER_NODE"),
        *("SLURM_SUBMIT_DIR", "SLURMD_NODENAME", "SLURM_PROCID"),
        *("SLURM_LOCALID", "SLURM_NODEID", "SLURM_STEP_ID", "SLURM_STEPID", "SLURM_TASK_PID"),
        *("SLURM_STEP_NUM_TASKS", "SLURM_STEP_NUM_NODES", "SLURM_STEP_NODELIST"),
        *("SLURM_STEP_TASKS_PER_NODE", "SLURM_LAUNCH_NODE_IPADDR", "SLURM_SRUN_COMM_HOST"),
    }
)
# Variables that a container has, or a shell, or a rank.
ALWAYS = frozenset(
    {
        *(
            "HOME",
            "PATH",
            "PWD",
            "OLDPWD",
            "SHELL",
            "HOSTNAME",
            "TERM",
            "LANG",
            "LC_ALL",
            "UID",
        ),
        *(
            "LD_LIBRARY_PATH",
            "PYTHONPATH",
            "LIBRARY_PATH",
            "CPATH",
            "MANPATH",
            "LD_PRELOAD",
            "RANDOM",
        ),
        *(
            "IFS",
            "SECONDS",
            "EPOCHSECONDS",
            "BASH_SOURCE",
            "FUNCNAME",
            "LINENO",
            "PIPESTATUS",
            "PS1",
            "EUID",
        ),
        *(
            "BASH_VERSION",
            "BASHPID",
            "PPID",
            "REPLY",
            "OPTARG",
            "OPTIND",
            "BASH_REMATCH",
        ),
        *(
            "CONDA_PREFIX",
            "CONDA_DEFAULT_ENV",
            "CONDA_EXE",
            "VIRTUAL_ENV",
            "CUDA_HOME",
            "OMP_NUM_THREADS",
        ),
        "PKG_CONFIG_PATH",
        "C_INCLUDE_PATH",
        "CPLUS_INCLUDE_PATH",
    }
)

# Options by which a program tells of itself, and starts nothing.
_OF_ITSELF = frozenset({"--version", "-version", "-V", "--help", "-help", "-h"})
_WRAPPERS = frozenset(
    {"exec", "nohup", "time", "command", "stdbuf", "unbuffer", "env", "numactl", "nice", "sudo"}
    | {"timeout"}
)
# Their options whose value is a word of its own.
_WITH_VALUE = {
    "timeout": ("-k", "-s", "--kill-after", "--signal"),
    "nice": ("-n", "--adjustment"),
    "numactl": ("-N", "-m", "-C", "-i", "-p", "-l", "--cpunodebind", "--membind", "--physcpubind"),
    "env": ("-u", "--unset", "-C", "--chdir"),
    "stdbuf": ("-i", "-o", "-e"),
    "sudo": ("-u", "-g"),
    "time": ("-f", "-o", "--format", "--output"),
    "exec": ("-a",),
}
_NODELIST = re.compile(
    r"SLURM_(?:JOB_|STEP_)?NODELIST|\bscontrol\s+(?!show\s+(?:nodes?|job)\b)[a-z-]"
    r"|SLURM_LAUNCH_NODE_IPADDR"
)
_OF_DEBIAN = re.compile(r"(?:/usr/bin/)?(mpirun|mpiexec)\.(?:openmpi|mpich2?)")
_CONTAINER_OF_SITE = re.compile(r"[A-Za-z0-9]+[-_](singularity|apptainer)")
_LOOKED_UP = re.compile(r"(?:\$\(|`)\s*(?:which|command\s+-v|type\s+-[pP])\s+([\w.+-]+)\s*[)`]")
_PYTHON = re.compile(r"(?:.*/)?(?:python|pypy)[0-9.]*")
# A sum, and what in it is a variable with its dollar, or comes of a command.
_SUM = re.compile(r"\$\(\(((?:[^()'\";]|\((?:[^()'\";]|\([^()'\";]*\))*\))*)\)\)")
_NO_NAMES = re.compile(r"\$\([^()]*(?:\([^()]*\)[^()]*)*\)|`[^`]*`|\$\{[^}]*\}|\$\w+|\b\d\w*#?\w*")
_NAME_IN_SUM = re.compile(r"(?<!\w)[A-Za-z_]\w*")
_VARIABLE = re.compile(
    r"\$(?:\{[#!]?([A-Za-z_][A-Za-z0-9_]*)([^A-Za-z0-9_}][^}]*)?\}|([A-Za-z_][A-Za-z0-9_]*))"
)
# A default that is a variable itself: `${A:-${B:-1}}`, and how many of them may be in each other.
_DEFAULT_OF_DEFAULT = re.compile(r"(?<=-)\$\{[A-Za-z_]\w*(?::?-[^${}]*)?\}(?=\})")
_DEEPEST = 4
# ``${#name}`` is the length of another.
_POSITIONAL = re.compile(r"\$(?:[1-9@*#]|\{(?:[1-9@*][^}]*|#[@*]?)\})")
# It reads the words behind the script's name where it has none of its own.
_GETOPTS = re.compile(
    r"(?<![\w./$-])getopts[ \t]+(?:'[^']*'|\"[^\"]*\"|[^\s;&|'\"]+)[ \t]+\w+[ \t]*(?=$|[;&|)])",
    re.MULTILINE,
)
# A command in double quotes, which has quotes of its own: "$(awk '{print $2}' "$file")".
_SUBSTITUTED = r"""\$\((?!\()(?:[^()'"\\]|\\[\s\S]|'[^']*'|"(?:[^"\\]|\\[\s\S])*"|\([^()]*\))*\)"""
# What a shell does not expand: escaped characters, texts in single quotes, comments, and
# here-documents whose end is quoted. The groups are what it does.
_PIECES = re.compile(
    r"""\\[\s\S]|'[^']*'?"""
    rf"""|(?P<double>"(?:[^"\\$]|\\[\s\S]|{_SUBSTITUTED}|\$)*"?)"""
    r"""|(?:(?<=[\s;&|(])|\A)\#[^\n]*"""
    r"""|<<-?[ \t]*(?P<quote>['"\\]?)(?P<end>[A-Za-z_]\w*)['"]?(?P<rest>[^\n]*)\n"""
    r"""(?P<document>(?:(?![ \t]*(?P=end)[ \t]*$).*\n?)*)"""
    r"""|(?P<plain>[^'"\\\#<]+|.)""",
    re.MULTILINE | re.VERBOSE,
)
_IN_DOUBLE = re.compile(rf"\\[\s\S]|{_SUBSTITUTED}")
_DIGITS = re.compile(r"[0-9]{1,9}", re.ASCII)
_ARITHMETIC = re.compile(r"\$\(\((.*)\)\)", re.DOTALL)


@lru_cache(maxsize=4096)  # each part of the reading asks it of the same words
def base(word: str) -> str:
    """The program that a word names, without its folder and quotes: also ``$(which torchrun)``.

    A site's own name of Singularity, `bsc_singularity`, is that program.
    """
    text = scanner.unquote(word)
    looked_up = _LOOKED_UP.fullmatch(text)
    name = (looked_up[1] if looked_up is not None else text).rpartition("/")[2]
    of_site = _CONTAINER_OF_SITE.fullmatch(name)
    return name if of_site is None else of_site[1]


def by_name(words: Sequence[str]) -> list[str]:
    """Words whose program stands by its name, in place of a question for where it is.

    Debian calls the mpirun of each MPI by that MPI as well: ``mpirun.openmpi``.
    """
    rest = list(words)
    if rest and _LOOKED_UP.fullmatch(rest[0]):
        return [base(rest[0]), *rest[1:]]
    of_debian = _OF_DEBIAN.fullmatch(rest[0]) if rest else None
    return rest if of_debian is None else [of_debian[1], *rest[1:]]


def unwrapped(words: Sequence[str]) -> list[str]:
    """Words without those in front that run the rest as it is: ``time nohup python``."""
    rest = list(words)
    while len(rest) > 1:
        del rest[: environment_runners.program_start([base(rest[0]), *rest[1:]])]
        inner = behind_wrapper(rest)
        if not inner:
            break
        rest = inner
    return rest


def behind_wrapper(words: Sequence[str]) -> list[str]:
    """What the first of some words runs as it is: ``nohup python``; [] where it runs nothing."""
    rest = list(words)
    if len(rest) < 2 or base(rest[0]) not in _WRAPPERS:  # noqa: PLR2004 - it, and a program
        return []
    program = base(rest.pop(0))
    while len(rest) > 1 and (
        rest[0].startswith("-")
        or re.match(r"[A-Za-z_]\w*=", rest[0])
        or (program == "env" and env_words.is_own(rest, 0))
    ):
        has_value = rest.pop(0) in _WITH_VALUE.get(program, ())
        del rest[: int(has_value and len(rest) > 1)]
    if program == "timeout" and len(rest) > 1:
        rest.pop(0)  # how long
    return rest


def without_timing(wrappers: Sequence[str]) -> list[str]:
    """Words in front of a program without those that change nothing of it: ``time -v nohup``.

    Args:
        wrappers: the words, which `unwrapped` takes off.
    """
    rest = list(wrappers)
    others: list[str] = []
    while rest:
        program = base(rest[0])
        if program not in ("time", "nohup", "exec", "command"):
            others.append(rest.pop(0))
            continue
        rest.pop(0)
        while rest and rest[0].startswith("-"):
            del rest[: 1 + (rest[0] in _WITH_VALUE.get(program, ()))]
    return others


def environment_of(words: Sequence[str]) -> list[str]:
    """The words among those in front that run the rest in an environment: ``uv run``."""
    wrappers = list(words[: len(words) - len(unwrapped(words))])
    runs = (
        at
        for at, word in enumerate(wrappers)
        if environment_runners.program_start([base(word), *words[at + 1 :]])
    )
    start = next(runs, len(wrappers))
    return wrappers[start:]


def limit_of(words: Sequence[str]) -> str:
    """The wrapper among words that ends what it runs after a time: ``timeout 4h``; "" for none."""
    wrappers = list(words[: len(words) - len(unwrapped(words))])
    at = next((n for n, word in enumerate(wrappers) if base(word) == "timeout"), len(wrappers))
    return " ".join(wrappers[at:])


def behind_profiler(words: Sequence[str]) -> int:
    """Where a launcher begins that words measure: ``perf stat mpirun``; 0 where they do not."""
    if not words or base(words[0]) not in PROFILERS:
        return 0
    starts = (
        at for at in range(1, len(words)) if base(words[at]) == "srun" or starts_ranks(words[at:])
    )
    return next(starts, 0)


def starts_ranks(words: Sequence[str]) -> bool:
    """Whether words start processes that find each other: torchrun, mpirun and the like."""
    rest = unwrapped(words)
    if not rest:
        return False
    program = base(rest[0])
    if program in STARTERS:
        return not asks_of_itself(rest)
    texts = [scanner.unquote(word) for word in rest]
    if program == "accelerate":
        return "launch" in texts[1:2]
    if program == "tune":
        return commands.is_tune(texts)
    if commands.is_composer(texts) or commands.launches_torchrun(texts):
        return True
    module = module_of(texts)
    return module in TORCH_MODULES or module.startswith("accelerate.commands.launch")


def asks_of_itself(words: Sequence[str]) -> bool:
    """Whether words start a launcher that tells of itself alone: ``mpirun --version``."""
    rest = unwrapped(words)
    return len(rest) > 1 and base(rest[0]) in STARTERS and _OF_ITSELF.issuperset(rest[1:])


def are_of_script(texts: Sequence[str]) -> bool:
    """Whether words run those that the script is given: ``"$@"``, ``eval "$@"``."""
    own = texts[1:] if texts[:1] == ["eval"] else texts
    return bool(own) and {*own} <= _OF_SCRIPT


def activates(words: Sequence[str]) -> bool:
    """Whether words change the environment of the shell, and run no program in another one."""
    texts = [base(word) for word in words[:1]] + list(words[1:])
    evaluated = " ".join(texts[1:]).strip("\"'").split() if texts[:1] == ["eval"] else []
    if base(next(iter(evaluated), "")) in MANAGERS:
        return activates(evaluated)
    return (
        texts[:1] != []
        and texts[0] in ACTIVATING
        and not _EVALUATED_PRINTING.match(" ".join(texts))
        and not _EVALUATED_ARGUMENTS.match(" ".join(texts))
        and not _does_more(texts)
        and not environment_runners.program_start(texts)
    )


def is_python(words: Sequence[str]) -> bool:
    """Whether words run Python."""
    rest = unwrapped(words)
    return bool(rest) and _PYTHON.fullmatch(base(rest[0])) is not None


def module_of(texts: Sequence[str]) -> str:
    """The module that Python runs by words: ``python -m venv env``; "" for none."""
    if not texts or not _PYTHON.fullmatch(base(texts[0])):
        return ""
    for at, text in enumerate(texts[1:-1], 1):
        if text == "-m":
            return texts[at + 1]
        if not text.startswith("-"):
            return ""
    return ""


def names_nodes(text: str) -> bool:
    """Whether a text asks which nodes the job has."""
    return _NODELIST.search(text) is not None


def names_hosts(words: Sequence[str]) -> bool:
    """Whether horovodrun is told of hosts; it starts its ranks where it runs otherwise."""
    return any(re.match(r"-H|--?host", word) for word in words)


def variables(text: str) -> list[tuple[str, bool]]:
    """The variables that a text reads, each with whether it has a value where none is set.

    What stands in single quotes is none. A sum has them without a dollar: ``$((8 * NODES))``.
    """
    names: dict[str, bool] = {}
    own = expanded_part(text)
    for total in _SUM.finditer(own):
        names |= dict.fromkeys(_NAME_IN_SUM.findall(_NO_NAMES.sub(" ", total[1])), False)
    for match in _VARIABLE.finditer(own):
        name, rest = match[1] or match[3], match[2] or ""
        has_default = rest[:2] in (":-", ":+", ":=") or rest[:1] in ("-", "+", "=")
        names[name] = names.get(name, True) and has_default
        for inner, is_safe in variables(f"{rest}}}") if "$" in rest else ():
            names[inner] = names.get(inner, True) and is_safe
    return list(names.items())


def optional(text: str) -> set[str]:
    """The variables that a text somewhere reads with a text in their place: ``${NAME:-}``."""
    return {
        match[1]
        for match in _VARIABLE.finditer(expanded_part(text))
        if (match[2] or "").removeprefix(":")[:1] in ("-", "+", "=")
    }


def expanded_part(text: str) -> str:
    """The part of a text in which a shell puts variables: no comments, nothing in single quotes.

    In double quotes, and in a here-document, a single quote is a character like others; a command
    in double quotes has quotes of its own.
    """
    if not any(char in text for char in "'\\#"):
        return text
    return "".join(map(_expanded_piece, _PIECES.finditer(text)))


def line_with(text: str, matches: Callable[[str], object]) -> int:
    """The first line of a script that is no comment and of which something is true; 0 for none."""
    rows = enumerate(without_comments(text).split("\n"), 1)
    return next((number for number, row in rows if matches(row)), 0)


def without_comments(text: str) -> str:
    """A text of a shell with its lines as they are, and nothing behind a ``#`` that begins one."""
    if "#" not in text:
        return text
    pieces = _PIECES.finditer(text)
    return "".join("" if _is_comment(piece) else piece[0] for piece in pieces)


def documents(text: str) -> list[tuple[int, int]]:
    """Where the texts of a script's here-documents begin and end."""
    return [piece.span("document") for piece in _PIECES.finditer(text) if piece["end"] is not None]


def literals(text: str) -> list[tuple[int, int]]:
    """Where the words in single quotes of a text begin and end, in which a shell puts nothing."""
    return [piece.span() for piece in _PIECES.finditer(text) if piece[0].startswith("'")]


def _is_comment(piece: re.Match[str]) -> bool:
    is_group = any(piece[name] is not None for name in ("double", "end", "plain"))
    return not is_group and piece[0].startswith("#") and not piece[0].startswith("#!")


def _expanded_piece(piece: re.Match[str]) -> str:
    if piece["end"] is not None:
        document = "" if piece["quote"] else re.sub(r"\\.", "  ", piece["document"])
        sign = "<<-" if piece[0].startswith("<<-") else "<<"
        return f"{sign}{piece['end']}{piece['rest']}\n{document}"
    if piece["double"] is not None:
        return _IN_DOUBLE.sub(_expanded_in_double, piece["double"])
    return "  " if piece["plain"] is None else piece["plain"]


def _expanded_in_double(piece: re.Match[str]) -> str:
    return "  " if piece[0][0] == "\\" else f"$({expanded_part(piece[0][2:-1])})"


def positional(text: str) -> bool:
    """Whether a text reads the words behind the script's name: ``$1``, ``"$@"``, `getopts`."""
    return _POSITIONAL.search(expanded_part(text)) is not None or _reads_options(text)


def wants_words(text: str) -> bool:
    """Whether a text reads such a word and has no text in its place, as ``${1:-small}`` has."""
    matches = _POSITIONAL.finditer(expanded_part(text))
    return _reads_options(text) or any(
        not re.match(r"\$\{[1-9@*]:?[-+=]", match[0]) for match in matches
    )


def _reads_options(text: str) -> bool:
    """Whether a text has a `getopts` for the words behind the script's name."""
    return "getopts" in text and _GETOPTS.search(without_comments(text)) is not None


# A quoted part of a word, or one without quotes.
_QUOTED_PART = re.compile(r'"(?:[^"\\]|\\.)*"|[^"]+')


def resolve(word: str, constants: Mapping[str, str]) -> str | None:
    """The text of a word with what is known of its variables; None where not all of it is."""
    word = word.strip()
    if scanner.is_static(word):
        return scanner.unquote(word)
    match = _ARITHMETIC.fullmatch(word.strip('"'))
    if match is not None:
        return _calculate(match[1], constants)
    if "`" in word or "$(" in word or "'" in word:
        return _command_of(word)

    def put(match: re.Match[str]) -> str:
        name, rest = match[1] or match[3], match[2] or ""
        value = constants.get(name)
        if value is None and rest.startswith((":-", "-")):
            value = rest.removeprefix(":").removeprefix("-")
            value = scanner.unquote(value) if scanner.is_static(value) else value
        elif rest and not rest.startswith((":-", "-")):
            value = None
        return "\0" if value is None else value

    for _ in range(_DEEPEST):
        word = _DEFAULT_OF_DEFAULT.sub(lambda match: _VARIABLE.sub(put, match[0]), word)
    text = _VARIABLE.sub(put, word)
    parts = _QUOTED_PART.findall(word)
    if len(parts) > 1 and not word.startswith("${"):  # `"$A":"$B"`; `${A:-"b"}` is one part
        texts = [resolve(part, constants) for part in parts]
        return None if None in texts else "".join(filter(None, texts))
    if "\0" in text or "$" in text:
        return None
    is_quoted = word.startswith('"') and word.endswith('"') and len(word) > 1
    text = text[1:-1] if is_quoted else text
    return None if not is_quoted and re.search(r"[\s*?\[{\"'\\~<>(]", text) else text


def partly(text: str, constants: Mapping[str, str]) -> str:
    """A text with what is known of the variables in it; the others stay as they are typed."""

    def put(match: re.Match[str]) -> str:
        plain = match[3] or (match[1] if not match[2] else "")
        return constants.get(plain, match[0])

    return _VARIABLE.sub(put, text)


def _command_of(word: str) -> str | None:
    text = (
        re.sub(r"\s+", " ", scanner.unquote(word).strip("`"))
        .removeprefix("$(")
        .removesuffix(")")
        .strip()
    )
    if re.fullmatch(r"nvidia-smi (?:-L|--list-gpus|--query-gpu=\S+ --format=\S+) ?\| ?wc -l", text):
        return "gpu"
    return None


def _calculate(text: str, constants: Mapping[str, str]) -> str | None:
    """The value of an arithmetic expression of known whole numbers."""

    def put(match: re.Match[str]) -> str:
        value = constants.get(match[1] or match[2] or match[3], "")
        return value if _DIGITS.fullmatch(value) else "?"

    text = re.sub(r"\$\{([A-Za-z_]\w*)\}|\$([A-Za-z_]\w*)|([A-Za-z_]\w*)", put, text)
    if not re.fullmatch(r"[0-9\s+*/()-]{1,100}", text, re.ASCII):
        return None
    return _sum(re.findall(r"[0-9]+|[+*/()-]", text))


def _sum(parts: list[str]) -> str | None:
    """The value of a sum of products without brackets."""
    if not parts or "(" in parts or ")" in parts:
        parts = (
            [part for part in parts if part not in "()"]
            if parts.count("(") == 1 and parts[:1] == ["("] and parts[-1:] == [")"]
            else []
        )
    total, sign, product, operator = 0, 1, None, ""
    for part in parts:
        if part.isdigit():
            number = int(part[:10])
            if product is None:
                product = number
            elif operator == "*":
                product *= number
            elif operator == "/" and number:
                product //= number
            else:
                return None
        elif part in "+-" and product is not None:
            total, sign, product = total + sign * product, 1 if part == "+" else -1, None
        elif part in "*/" and product is not None:
            operator = part
        else:
            return None
    if product is None:
        return None
    return str(total + sign * product)


def text_of_counts(size: Mapping[str, int | None]) -> dict[str, str]:
    """Slurm's variables whose value follows from the job's size."""
    return {name: str(value) for name, value in size.items() if value}


def _does_more(words: Sequence[str]) -> bool:
    """Whether a program that activates does something else: ``conda run python a.py``."""
    texts = [text for text in words[1:] if not text.startswith("-")]
    tells_of_itself = len(words) > 1 and not texts  # conda --version
    is_more = tells_of_itself or not _DOES_MORE.isdisjoint(
        " ".join(texts[:count]) for count in (1, 2)
    )
    return is_more and base(next(iter(words), "")) in MANAGERS


def reaches_other_host(words: Iterable[str]) -> bool:
    """Whether some words do something on another machine, with the keys of who submits."""
    rest = [scanner.unquote(word) for word in unwrapped(list(words))]
    if not rest:
        return False
    program, *texts = (base(rest[0]), *rest[1:])
    if program == "rsync":
        return any(_REMOTE_FILE.fullmatch(text) for text in texts if not text.startswith("-"))
    if program == "scp" and not any(re.search(r"[:$`]", text) for text in texts):
        return False  # it copies on the node itself
    is_git = program == "git" and not _GIT_REMOTE.isdisjoint(texts[:3])
    return program in OF_OTHER_HOSTS or (is_git and any(map(_GIT_BY_SSH.fullmatch, texts)))


_QUOTED_NAME = re.compile(r"""\A(["'])([A-Za-z_]\w*)(\1?)(\+?=)""")


def with_bare_name(text: str) -> str:
    """An assignment with its name in no quotes: ``A="1 2"`` for the ``"A=1 2"`` of an export."""
    return _QUOTED_NAME.sub(lambda own: own[2] + own[4] + ("" if own[3] else own[1]), text)


def any_of(words: Iterable[str], names: Iterable[str]) -> bool:
    """Whether the program of some words is one of these.

    A program of somebody's own may be called as one that every system has: ``srun ./test``.
    """
    rest = unwrapped(list(words))
    return bool(rest) and base(rest[0]) in set(names) and not is_namesake(rest[0])


def is_namesake(word: str) -> bool:
    """Whether a word names a program by a folder in which none is that every system has.

    Args:
        word: the word, as typed: ``./test``, ``build/sort``; not ``/usr/bin/test``, ``test``.
    """
    text = scanner.unquote(word)
    folder = text.rpartition("/")[0]
    is_of_system = not folder or folder.rpartition("/")[2] in ("bin", "sbin")
    return not is_of_system and not _LOOKED_UP.fullmatch(text) and base(word) in _OF_EVERY_SYSTEM
