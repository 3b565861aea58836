"""What differs between two runs of a job: pure, of the records of their programs.

Programs are paired by their words, in which hosts, numbers of jobs and ports have one name on both
sides: what both give to a program alike is no difference, whatever it is called.
"""

from __future__ import annotations

import operator
import posixpath
import re
from collections import defaultdict
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum
from functools import reduce
from typing import TYPE_CHECKING

from tests.side_by_side import pods, slurm_job
from tests.side_by_side.filesystem import SUBMIT_FOLDER
from tests.side_by_side.inside.program import HOME, IN_STEP, READ
from tests.side_by_side.inside.ranks import short

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from tests.side_by_side.sandbox import Record, Run

UNSET = "unset"
_NONE = "no word"
# What asks or prepares, and has no part in a training: a pod needs none of it.
_INQUIRIES = """\
    module ml conda mamba micromamba spack activate deactivate nvidia-smi rocm-smi gpustat nvcc
    squeue sacct scancel sinfo sstat seff free lscpu uptime lsb_release ps df du which w pip pip3 ip
    ifconfig clear scontrol"""
_OF_RANK = (
    *("RANK", "WORLD_SIZE", "LOCAL_RANK", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    *("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS", "SLURM_NNODES", "SLURM_NODEID"),
)
# Variables that programs and libraries read by themselves, exported or not as a script means it.
_READ_BY_LIBRARIES = re.compile(
    r"(?:OMP|MKL|CUDA|NCCL|TORCH|PYTHON[A-Z]|HF_|WANDB|TF_|XLA|JAX|LD_|OMPI|MPI|UCX|I_MPI|GLOO|NVIDIA"
    r"|ROCR|HIP|HSA|KMP|OPENBLAS|TOKENIZERS|DS|ACCELERATE|TMP|TEMP|HOME|USER)"
)
_OF_CHART = "PYTHONUNBUFFERED"  # which all pods have, so that a log has each line at once
_SETTLED = frozenset({"PATH", "SHLVL", "MASTER_ADDR", "MASTER_PORT", *_OF_RANK})
_ASSIGNED = re.compile(r"(?<![\w$.{-])([A-Za-z_]\w*)\+?=")
_OF_FILES = ("bc", "curl", "git", "jq", "wget", "yq")
# `$(dirname $0)/..`, as `cd` and `pwd` write it.
_ABOVE_SCRIPTS = "|".join(
    posixpath.dirname(posixpath.dirname(path)) for path in (slurm_job.SCRIPT, pods.SCRIPT)
)
_SAME = (
    (re.compile(rf"{slurm_job.SCRIPT}|{pods.SCRIPT}"), "SCRIPT"),
    (
        re.compile(rf"{posixpath.dirname(slurm_job.SCRIPT)}|{posixpath.dirname(pods.SCRIPT)}"),
        "FOLDER",
    ),
    (re.compile(rf"(?:{_ABOVE_SCRIPTS})(?=/|$)"), "ABOVE"),
    (re.compile(r"/tmp/tmp\.\w{10}"), "/tmp/tmp"),
    (re.compile(r"\b[0-9a-f]{12,}\b"), "HEX"),
    (re.compile(r"(port=)\d+"), r"\1PORT"),
)
_DIGITS = 6  # of the number of a job, which no other number has by chance
_COMPLAINT = re.compile(
    r"No such file|not found|unbound|syntax|unexpected|ambiguous|bad substitution|invalid|error"
)
_LINE = re.compile(r"^.*?line \d+: ")


class Kind(StrEnum):
    """In what two runs differ."""

    MISSING = "no pod runs it"
    ADDED = "only pods run it"
    WORDS = "its words"
    COUNT = "how often it runs"
    FOLDER = "its folder"
    VARIABLE = "a variable"
    RANK = "its rank"
    STDIN = "its standard input"
    STDOUT = "its standard output"
    LIMITS = "ulimit and umask"
    FILE = "a file that it finds"
    SHELL = "what its shell has read"
    EXIT_CODE = "the exit code"
    AFTER_FAILURE = "after a failure"
    ERROR = "an error of the shell"


@dataclass(frozen=True, slots=True)
class Difference:
    """Something that is not alike.

    Attributes:
        kind: in what.
        words: the program's words; () where it is of no program.
        slurm: as it is with Slurm.
        pods: as it is in pods.
        name: of the variable; "" for none.
    """

    kind: Kind
    words: tuple[str, ...]
    slurm: str
    pods: str
    name: str = ""

    def __str__(self) -> str:
        """The difference as a line."""
        name = f" {self.name}" if self.name else ""
        program = f" of {' '.join(self.words)}" if self.words else ""
        return f"{self.kind}{name}: {self.slurm} -> {self.pods}{program}"


@dataclass(frozen=True, slots=True)
class Runs:
    """The runs of a side: where all programs succeed, and where its ranks fail."""

    whole: Run
    failing: Run


def differences(text: str, slurm: Runs, in_pods: Runs, hosts: Iterable[str]) -> list[Difference]:
    """What differs between the runs of a batch script and those of its pods.

    Args:
        text: the script, whose variables are compared.
        slurm: as Slurm runs it.
        in_pods: as the pods do.
        hosts: the names of the nodes of both, that of rank 0 first.
    """
    same = _Canon(tuple(hosts))
    sides = [_by_words(runs.whole, same) for runs in (slurm, in_pods)]
    result: list[Difference] = []
    names = _variables(text, slurm)
    other_words = _other_words(*sides)
    for words in [*sides[0], *(key for key in sides[1] if key not in sides[0])]:
        first, second = (side.get(words, []) for side in sides)
        if words in other_words:
            result.append(_of_words(words, other_words[words]))
            continue
        if words in other_words.values():
            continue
        if not first or not second:
            kind = Kind.ADDED if second else Kind.MISSING
            result.append(Difference(kind, words, _times(first), _times(second)))
            continue
        result += _of_program(words, first, second, same)
        result += _of_variables(words, first, second, names, same)
        result += _of_ranks(words, first, second)
        result += _of_files(words, first, second, same)
        result += _of_shells(words, first, second)
    failing = [_by_words(runs.failing, same) for runs in (slurm, in_pods)]
    for words in filter(sides[1].__contains__, sides[0]):
        counts = [len(side.get(words, [])) for side in failing]
        if bool(counts[0]) != bool(counts[1]):
            result.append(Difference(Kind.AFTER_FAILURE, words, *map(str, counts)))
    for name, codes in {
        "": (slurm.whole.exit_code, in_pods.whole.exit_code),
        "of a failure": (slurm.failing.exit_code, in_pods.failing.exit_code),
    }.items():
        if codes[0] != codes[1]:
            result.append(Difference(Kind.EXIT_CODE, (), str(codes[0]), str(codes[1]), name))
    return [*result, *_of_errors(slurm.whole.errors, in_pods.whole.errors)]


@dataclass(frozen=True, slots=True)
class _Canon:
    """One name for what is called otherwise on each side."""

    hosts: tuple[str, ...]

    def text(self, text: str, record: Record) -> str:
        for name in ("SLURM_ARRAY_JOB_ID", "SLURM_JOB_ID"):
            number = record.environment.get(name, "")
            whole = rf"(?<!\d){re.escape(number)}(?!\d)"
            text = re.sub(whole, "JOB", text) if len(number) >= _DIGITS else text
        for host in sorted(self.hosts, key=len, reverse=True):
            text = text.replace(host, short(host))
        for pattern, name in _SAME:
            text = pattern.sub(name, text)
        first = "|".join(re.escape(short(host)) for host in self.hosts[:1]) or "localhost"
        return re.sub(rf"(?<![\w.-])(localhost|127\.0\.0\.1|{first})(?![\w-])", "RANK0", text)

    def words(self, record: Record) -> tuple[str, ...]:
        """The words of a program, on PATH or named by its path; python by any of its names."""
        name, *rest = (self.text(word, record) for word in record.words)
        name = re.sub(r"^(?:/stub|/bin|/usr/bin)/", "", name)
        if posixpath.dirname(name) == SUBMIT_FOLDER:
            name = f"./{posixpath.basename(name)}"
        name = re.sub(r"(^|/)python(?:3(?:\.\d+)?)?$", r"\1python", name)
        if name.endswith("python"):
            while rest[:1] == ["-u"]:
                del rest[0]
        return (name, *(word for word in rest if not re.match(r"--local[-_]rank=", word)))


def _by_words(run: Run, same: _Canon) -> dict[tuple[str, ...], list[Record]]:
    groups = defaultdict(list)
    for record in run.records:
        if posixpath.basename(record.words[0]) not in _INQUIRIES.split():
            groups[same.words(record)].append(record)
    return groups


def _other_words(
    slurm: Collection[tuple[str, ...]], in_pods: Collection[tuple[str, ...]]
) -> dict[tuple[str, ...], tuple[str, ...]]:
    """Words of Slurm's programs that no pod has, each with those of a pod's that differ in some.

    Such two are of one program, and of one script or first option behind it.
    """
    missing = [words for words in slurm if words not in in_pods]
    added = [words for words in in_pods if words not in slurm]
    pairs: dict[tuple[str, ...], tuple[str, ...]] = {}
    for words in missing:
        for others in added:
            if words[:2] == others[:2] and others not in pairs.values():
                pairs[words] = others
                break
    return pairs


def _of_words(words: tuple[str, ...], others: tuple[str, ...]) -> Difference:
    blocks = SequenceMatcher(None, words, others, autojunk=False).get_opcodes()
    changed = [block for block in blocks if block[0] != "equal"]
    return Difference(
        Kind.WORDS,
        words,
        " ".join(repr(word) for block in changed for word in words[block[1] : block[2]]) or _NONE,
        " ".join(repr(word) for block in changed for word in others[block[3] : block[4]]) or _NONE,
    )


def _times(records: Sequence[Record]) -> str:
    return f"{len(records)} times" if len(records) != 1 else "once"


def _of_program(
    words: tuple[str, ...], first: Sequence[Record], second: Sequence[Record], same: _Canon
) -> Iterator[Difference]:
    is_setup = all(IN_STEP not in record.environment for record in first)
    if len(first) != len(second) and not (is_setup and len(second) > len(first)):
        yield Difference(Kind.COUNT, words, _times(first), _times(second))  # setup runs in each pod
    aspects: dict[Kind, Callable[[Record], str]] = {
        Kind.FOLDER: lambda record: same.text(record.folder, record),
        Kind.STDIN: lambda record: _stream(record.stdin),
        Kind.STDOUT: lambda record: _stream(same.text(record.stdout, record)),
        Kind.LIMITS: lambda record: record.limits,
    }
    for kind, aspect in aspects.items():
        texts = [sorted({aspect(record) for record in side}) for side in (first, second)]
        if texts[0] != texts[1]:
            yield Difference(kind, words, *map(_some, texts))


def _stream(path: str) -> str:
    """A stream as it is compared: pipes and here-documents have numbers of their own."""
    if path.startswith(("pipe:", "/tmp/sh-thd")):
        return "a pipe"
    return "the log" if path == f"{HOME}/log/output" else path


def _some(texts: Sequence[str]) -> str:
    return ", ".join(texts[:4]) + (", …" if len(texts) > 4 else "")


def _variables(text: str, slurm: Runs) -> list[str]:
    """The variables that are compared: those that the script assigns, but what varies by itself."""
    whole, failing = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
    for values, run in ((whole, slurm.whole), (failing, slurm.failing)):
        for record in run.records:
            for name, value in record.environment.items():
                values[name].add(value)
    names = dict.fromkeys(_ASSIGNED.findall(text))
    return [
        name
        for name in names
        if name not in _SETTLED
        and not name.startswith(("SLURM_", "BASH", "_"))
        and failing[name] <= whole[name]
    ]


def _of_variables(
    words: tuple[str, ...],
    first: Sequence[Record],
    second: Sequence[Record],
    names: Sequence[str],
    same: _Canon,
) -> Iterator[Difference]:
    for name in names:
        texts = [
            sorted({same.text(record.environment.get(name, UNSET), record) for record in side})
            for side in (first, second)
        ]
        is_own = texts[0] == [UNSET] and (name == _OF_CHART or not _READ_BY_LIBRARIES.match(name))
        if texts[0] != texts[1] and not is_own:
            yield Difference(Kind.VARIABLE, words, _some(texts[0]), _some(texts[1]), name)


def _is_look(words: tuple[str, ...], records: Sequence[Record]) -> bool:
    """Whether a program that is no rank has no use for the variables of a training."""
    is_of_rank = any(IN_STEP in record.environment for record in records)
    is_question = words[1:2] == ("-c",) or words[1:3] in (("-m", "venv"), ("-m", "pip"))
    return not is_of_rank and (is_question or words[0] in _OF_FILES)


def _of_ranks(
    words: tuple[str, ...], first: Sequence[Record], second: Sequence[Record]
) -> Iterator[Difference]:
    if len(first) != len(second):
        return
    # Behind torchrun and mpirun a rank of Slurm's is that of a node, or of a daemon.
    is_of_launcher = {"RANK", "OMPI_COMM_WORLD_RANK"} & first[0].environment.keys()
    for name in _OF_RANK:
        texts = [
            sorted(record.environment.get(name, UNSET) for record in side)
            for side in (first, second)
        ]
        has_rank = set(texts[0]) != {UNSET} and not (name.startswith("SLURM_") and is_of_launcher)
        if has_rank and texts[0] != texts[1]:
            yield Difference(Kind.RANK, words, _some(texts[0]), _some(texts[1]), name)


def _of_files(
    words: tuple[str, ...], first: Sequence[Record], second: Sequence[Record], same: _Canon
) -> Iterator[Difference]:
    """The files that each process of a program finds with Slurm, and one in a pod does not."""
    sides: list[list[set[str]]] = [
        [{same.text(file, record) for file in record.files} for record in side]
        for side in (first, second)
    ]
    lost = reduce(operator.and_, sides[0]) - reduce(operator.and_, sides[1])
    lost = {file for file in lost if posixpath.dirname(file) not in lost}
    if lost:
        yield Difference(Kind.FILE, words, _some(sorted(lost)), _NONE)


def _of_shells(
    words: tuple[str, ...], first: Sequence[Record], second: Sequence[Record]
) -> Iterator[Difference]:
    """What has been read, loaded and activated before a program, in its order."""
    texts = [
        sorted({record.environment.get(READ, "").lstrip("; ") for record in side})
        for side in (first, second)
    ]
    if texts[0] != texts[1]:
        yield Difference(Kind.SHELL, words, _some(texts[0]) or _NONE, _some(texts[1]) or _NONE)


def _of_errors(slurm: str, in_pods: str) -> Iterator[Difference]:
    known_lines = {_LINE.sub("", line) for line in slurm.splitlines()}
    for line in dict.fromkeys(in_pods.splitlines()):
        if _COMPLAINT.search(line) and _LINE.sub("", line) not in known_lines:
            yield Difference(Kind.ERROR, (), "none", line)
