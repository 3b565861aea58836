"""torchrun's own words: its options, what it runs, and the values that say the same."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from allranks.convert.programs import option_words
from allranks.convert.programs.references import number

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# torchrun's options that have a value, and the value of ours; "" where the chart decides it.
TORCHRUN_OPTIONS: dict[str, str] = {
    "nnodes": "",
    "nproc-per-node": "",
    "node-rank": "",
    "master-addr": "",
    "master-port": "",
    "rdzv-backend": "rdzvBackend",
    "rdzv-endpoint": "",
    "rdzv-id": "",
    "rdzv-conf": "rdzvConf",
    "max-restarts": "maxRestarts",
    "monitor-interval": "monitorInterval",
    "start-method": "startMethod",
    "event-log-handler": "eventLogHandler",
    "role": "role",
    "log-dir": "logDir",
    "redirects": "redirects",
    "tee": "tee",
    "local-ranks-filter": "localRanksFilter",
    "local-addr": "",
    "logs-specs": "logsSpecs",
    "log-line-prefix-template": "logLinePrefixTemplate",
    "duplicate-stdout-filters": "duplicateStdoutFilters",
    "duplicate-stderr-filters": "duplicateStderrFilters",
    "numa-binding": "numaBinding",
    "signals-to-handle": "signalsToHandle",
    "shutdown-timeout": "shutdownTimeout",
}
# What dlrover-run has besides: by name, whether a value follows.
DLROVER_OPTIONS: dict[str, bool] = {
    "network-check": False,
    "comm-perf-test": False,
    "auto-config": False,
    "auto-tunning": False,
    "exclude-straggler": False,
    "save-at-breakpoint": False,
    "node-unit": True,
    "accelerator": True,
    "training-port": True,
    "numa-affinity": False,
    "membind-policy": True,
    "ucp-device-type": True,
    "precheck": True,
}
# What hyperpodrun has besides, of hyperpod-elastic-agent and its documentation; likewise.
HYPERPOD_OPTIONS: dict[str, bool] = {
    "pre-train-script": True,
    "pre-train-args": True,
    "post-train-script": True,
    "post-train-args": True,
    "server-host": True,
    "server-port": True,
    "server-log-level": True,
    "server-shutdown-timeout": True,
    "inprocess-restart": False,
    "inprocess-timeout": True,
    "shutdown-signal": True,
    "start-process-timeout": True,
}
_FOREIGN_OPTIONS = DLROVER_OPTIONS | HYPERPOD_OPTIONS
TORCHRUN_FLAGS = ("standalone", "module", "no-python", "run-path", "use-env", "virtual-local-rank")
_SHORT = {"-r": "redirects", "-t": "tee", "-m": "module"}
_NUMBERS = ("max-restarts", "shutdown-timeout")
_DECIMALS = ("monitor-interval",)


@dataclass(frozen=True, slots=True)
class TorchrunLaunch:
    """A torchrun.

    Attributes:
        options: its options by name, dashes for underscores.
        command: what each process runs.
        rest: how many words at the end of the command are the program's own.
        of_dlrover: the options of dlrover-run among its own.
        of_hyperpod: those of hyperpodrun.
        changes: what is said of options of torchrun's that are left out, as reasons.
        unknown: what is to be said of the options that are none of these.
    """

    options: Mapping[str, str]
    command: tuple[str, ...]
    rest: int
    of_dlrover: tuple[str, ...]
    of_hyperpod: tuple[str, ...]
    changes: tuple[str, ...]
    unknown: tuple[str, ...]


def read(words: Sequence[str], before: Sequence[str]) -> TorchrunLaunch:
    """Torchrun's options taken off what it runs.

    Args:
        words: what follows torchrun.
        before: what torchrun puts before a script: ``python3 -u``.
    """
    options: dict[str, str] = {}
    of_dlrover: list[str] = []
    of_hyperpod: list[str] = []
    unknown: list[str] = []
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] not in ("-", "--"):
        name, value = _option(words[at])
        at += 1
        if name in TORCHRUN_FLAGS:
            options[name] = "true"
            continue
        has_value = name in TORCHRUN_OPTIONS or _FOREIGN_OPTIONS.get(name, False)
        if has_value and value is None:
            value = words[at] if at < len(words) else ""
            at += 1
        if name in TORCHRUN_OPTIONS:
            options[name] = value or ""
        elif name in DLROVER_OPTIONS:
            of_dlrover.append(name)
        elif name in HYPERPOD_OPTIONS:
            of_hyperpod.append(name)
        else:
            unknown.append(option_words.why_unknown("torchrun", words[at - 1], words[at:]))
    if words[at : at + 1] in (["--"], ("--",)):
        at += 1
    rest = tuple(words[at:])
    changes = _omissions(options, rest)
    command = _ranks_command(rest, options, before)
    foreign_words = tuple(of_dlrover), tuple(of_hyperpod)
    return TorchrunLaunch(options, command, len(rest), *foreign_words, changes, tuple(unknown))


def _omissions(options: dict[str, str], rest: tuple[str, ...]) -> tuple[str, ...]:
    """What is said of options that are left out; a --run-path that is no option here is removed.

    Args:
        options: by name, with dashes.
        rest: what torchrun runs.
    """
    reasons = []
    if "local-addr" in options:
        reasons.append("--local-addr is left out: ranks find each other by their pods' names")
    if re.search(r"(?:^|,)is_host=", options.get("rdzv-conf", "")):
        reasons.append("is_host of --rdzv-conf is left out: the rendezvous is at rank 0")
    if "run-path" in options and rest and not rest[0].startswith("/"):
        del options["run-path"]
        reasons.append(
            f"--run-path is left out: it wants an absolute path, so that Python runs {rest[0]} in "
            "a process of its own"
        )
    return tuple(reasons)


def _option(word: str) -> tuple[str, str | None]:
    """The name of an option, and its value where the word has it."""
    if word[:2] in ("-r", "-t") and word not in _SHORT:
        return _SHORT[word[:2]], word[2:].removeprefix("=")
    name, sign, value = word.partition("=")
    name = _SHORT.get(name, name.lstrip("-").replace("_", "-"))
    if word.startswith("--"):
        own = (*TORCHRUN_OPTIONS, *TORCHRUN_FLAGS)
        name = option_words.whole_name(name, own, _FOREIGN_OPTIONS)
    return name, value if sign else None


def _ranks_command(
    rest: tuple[str, ...], options: Mapping[str, str], before: Sequence[str]
) -> tuple[str, ...]:
    """What each process runs: torchrun puts Python before a script."""
    if not rest or "no-python" in options or "run-path" in options:
        return rest
    return (*before, "-m", *rest) if "module" in options else (*before, *rest)


# torchrun reads each option that its words do not have from a variable that is called so
# (pytorch/torch/distributed/argparse_util.py).
_OF_VARIABLES = "PET_"


def option_of(variable: str) -> str:
    """The option of torchrun's that a variable is, by name, with dashes; "" for another variable.

    Args:
        variable: its name: ``PET_MAX_RESTARTS``.
    """
    name = variable.removeprefix(_OF_VARIABLES)
    return "" if name == variable else name.lower().replace("_", "-")


def values_of(
    options: Mapping[str, str], env: Mapping[str, str]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """What torchrun's options are among the values of `torchrun`, and what is not carried.

    Args:
        options: by name, with dashes.
        env: the variables whose text is known.
    """
    values: dict[str, Any] = {}
    lost: list[str] = []
    for name, text in options.items():
        key = TORCHRUN_OPTIONS.get(name, "")
        if not key:
            continue
        value = _value(name, text, env)
        if name == "log-dir" and value is not None and not value.startswith("/"):
            lost.append(f"--log-dir is {text}, and is wanted as an absolute path")
        elif value is None:
            lost.append(f"--{name} is {text}, which is known in the pod alone, or no such value")
        else:
            values[key] = value
    if "log-dir" in options and "logDir" not in values and values.pop("redirects", None):
        # torchrun would write them into a folder of its own, which ends with the pod.
        lost = [
            f"{text}: --redirects goes with it, so that the output of the ranks is in the run's log"
            if text.startswith("--log-dir")
            else text
            for text in lost
        ]
    _rendezvous(values, options)
    for name, key in (("virtual-local-rank", "virtualLocalRank"), ("run-path", "runPath")):
        if name in options:
            values[key] = True
    values.setdefault("maxRestarts", 0)
    return values, tuple(lost)


def _value(name: str, text: str, env: Mapping[str, str]) -> Any:
    """The value of an option; None where it is known in the pod alone."""
    if name in _NUMBERS:
        return number(text, env)
    if name in _DECIMALS:
        try:
            return float(text)
        except ValueError:
            return None
    if name == "rdzv-conf":
        pairs = dict(pair.split("=", 1) for pair in text.split(",") if "=" in pair)
        pairs.pop("is_host", None)  # who keeps the rendezvous, which the chart says itself
        return pairs
    return None if "$" in text or "`" in text else text


def _rendezvous(values: dict[str, Any], options: Mapping[str, str]) -> None:
    """An etcd keeps its address; any other rendezvous is at rank 0, whose name the chart makes."""
    backend, endpoint = values.get("rdzvBackend"), options.get("rdzv-endpoint", "")
    if backend in ("etcd", "etcd-v2"):
        if endpoint and "$" not in endpoint:
            values["rdzvEndpoint"] = endpoint
    elif backend in ("static", "hyperpod") or "standalone" in options:
        values.pop("rdzvBackend", None)
