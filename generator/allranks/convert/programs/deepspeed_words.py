"""deepspeed's own words: its options, and what each of its processes runs.

The launcher starts a process for each GPU, tells it RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR and
MASTER_PORT as torchrun does, and gives its script ``--local_rank=N`` besides. So a job that it
starts is torchrun's. Its options are those of deepspeed/launcher/runner.py in
https://github.com/deepspeedai/DeepSpeed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from allranks.convert.programs import local_ranks, option_words

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

# Its options with a value.
_OPTIONS = (
    *("hostfile", "include", "exclude", "num-nodes", "num-gpus", "num-accelerators"),
    *("master-port", "master-addr", "node-rank", "launcher", "launcher-args", "ssh-port"),
    *("comment", "account", "enable-each-rank-log", "bind-core-list", "venv-script"),
    *("min-elastic-nodes", "max-elastic-nodes", "autotuning"),
)
_FLAGS = ("module", "no-python", "no-local-rank", "no-ssh", "no-ssh-check", "force-multi")
_MORE_FLAGS = ("save-pid", "elastic-training", "bind-cores-to-rank")
_SHORT = {"-H": "hostfile", "-i": "include", "-e": "exclude"}
# With these it does more than to start ranks, or starts others than all of a pod's GPUs have.
_OTHERWISE = ("autotuning", "elastic-training", "exclude", "venv-script")
# Launchers that start the script themselves, and give it no --local_rank.
_OTHER_LAUNCHERS = ("openmpi", "mpich", "impi", "slurm", "mvapich")
_BINDING = ("bind-cores-to-rank", "bind-core-list")
_NODE = re.compile(r"[A-Za-z0-9_.-]+(?::[0-9]+(?:,[0-9]+)*)?")


@dataclass(frozen=True, slots=True)
class DeepspeedLaunch:
    """A deepspeed.

    Attributes:
        options: torchrun's options that say the same, by name, with dashes.
        command: what each process runs.
        rest: how many words at the end of the command are the program's own.
        is_alone: whether it starts ranks on its own machine alone.
        gives_local_rank: whether the command gives its script --local_rank.
        hosts_file: the file of hosts without which it starts ranks on its own machine alone; ""
            where its own words say otherwise which machines there are.
        changes: what is other than its options say, as reasons.
        unknown: what is to be said of its options that are not known here.
    """

    options: Mapping[str, str]
    command: tuple[str, ...]
    rest: int
    is_alone: bool
    gives_local_rank: bool
    hosts_file: str
    changes: tuple[str, ...]
    unknown: tuple[str, ...]


def read(words: Sequence[str]) -> DeepspeedLaunch | None:
    """What a deepspeed starts; None where that is more than ranks.

    Args:
        words: what follows deepspeed.
    """
    deepspeed_options, unknown, at = _parse(words)
    rest = tuple(words[at:])
    options = _options(deepspeed_options)
    if not rest or options is None:
        return None
    return DeepspeedLaunch(
        options=options,
        command=(*_before(deepspeed_options), *rest),
        rest=len(rest),
        is_alone="master-addr" not in options,
        gives_local_rank=_gives_local_rank(deepspeed_options),
        hosts_file=_hosts_file(deepspeed_options),
        changes=tuple(_changes(deepspeed_options)),
        unknown=tuple(unknown),
    )


def own_launcher(words: Sequence[str]) -> tuple[str, str]:
    """Which launcher a deepspeed calls, in small letters, and in which file it finds its hosts.

    Args:
        words: what follows deepspeed.
    """
    options, _, _ = _parse(words)
    return options.get("launcher", "pdsh").lower(), options.get("hostfile", "/job/hostfile")


def _parse(words: Sequence[str]) -> tuple[dict[str, str], list[str], int]:
    """Options by name, what is to be said of those that are not known, and how many words."""
    deepspeed_options: dict[str, str] = {}
    unknown: list[str] = []
    at = 0
    while at < len(words) and words[at].startswith("-"):
        word, sign, value = words[at].partition("=")
        name = _SHORT.get(word, word.lstrip("-").replace("_", "-"))
        if word.startswith("--"):
            name = option_words.whole_name(name, (*_OPTIONS, *_FLAGS, *_MORE_FLAGS))
        at += 1
        if name in _OPTIONS:
            deepspeed_options[name] = value if sign else words[at] if at < len(words) else ""
            at += not sign
        elif name in (*_FLAGS, *_MORE_FLAGS):
            deepspeed_options[name] = "true"
        else:
            unknown.append(option_words.why_unknown("deepspeed", words[at - 1], words[at:]))
    return deepspeed_options, unknown, at


def _options(deepspeed_options: Mapping[str, str]) -> dict[str, str] | None:
    """The options of torchrun in place of deepspeed's; None where torchrun has none like them."""
    if any(name in deepspeed_options for name in _OTHERWISE):
        return None
    count = deepspeed_options.get("num-gpus", deepspeed_options.get("num-accelerators", "-1"))
    options = {"nproc-per-node": "gpu" if count == "-1" else count}
    nodes = deepspeed_options.get("num-nodes", "")
    if "include" in deepspeed_options:
        hosts = deepspeed_options["include"].split("@")
        slots = {len(host.partition(":")[2].split(",")) * (":" in host) for host in hosts}
        if len(slots) > 1 or not all(map(_NODE.fullmatch, hosts)):
            return None
        nodes = nodes or str(len(hosts))
        if 0 not in slots:
            options["nproc-per-node"] = str(slots.pop())
    if nodes not in ("", "-1"):
        options["nnodes"] = nodes
    # Rank 0 is on the first host, wherever that is said; an empty file of hosts is this one alone.
    has_hosts = deepspeed_options.get("hostfile", "/dev/null") != "/dev/null" and nodes != "1"
    if has_hosts or "no-ssh" in deepspeed_options or nodes not in ("", "-1", "1"):
        options["master-addr"] = deepspeed_options.get("master-addr", "")
    log = deepspeed_options.get("enable-each-rank-log", "None")
    return options if log == "None" else {**options, "log-dir": log, "redirects": "3"}


def _hosts_file(options: Mapping[str, str]) -> str:
    """The file that alone says which machines there are; "" for none."""
    of_nodes = ("no-ssh", "node-rank", "include", "num-nodes")
    has_others = any(options.get(name, "-1") not in ("-1", "1") for name in of_nodes)
    file = options.get("hostfile", "/dev/null")
    return "" if has_others or file == "/dev/null" else file


def _changes(options: Mapping[str, str]) -> Iterator[str]:
    """What is other than the options say."""
    if any(name in options for name in _BINDING):
        yield "ranks are not bound to cores"
    if ":" in options.get("include", ""):
        yield f"--include {options['include']}: the ranks have the first GPUs of their pods"
    if "save-pid" in options:
        yield "--save_pid: no file says the number of a launcher's process"


def _gives_local_rank(options: Mapping[str, str]) -> bool:
    """Whether the script is given --local_rank; on one machine it is, whatever the launcher."""
    is_of_others = options.get("launcher", "pdsh").lower() in _OTHER_LAUNCHERS
    spans = bool({"hostfile", "force-multi"} & options.keys())
    spans |= options.get("num-nodes", "1") != "1"
    return "no-local-rank" not in options and not (is_of_others and spans)


def _before(options: Mapping[str, str]) -> tuple[str, ...]:
    """The words in front of a script and its arguments."""
    python = () if "no-python" in options else ("python3", "-u")
    if "module" in options:
        python = (*python, "-m")
    if not _gives_local_rank(options):
        return python
    return local_ranks.with_option(python, "--local_rank")
