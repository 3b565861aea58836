"""The settings of a master: its environment, and its job's options as a JSON object."""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.elastic.policy import settings
from allranks.elastic.policy.settings import PolicySettings
from allranks.errors import InputError
from allranks_operator.master.rendezvous import Timing

if TYPE_CHECKING:
    from collections.abc import Mapping

_PORT_MAX = 65535
_SECONDS_MAX = 7 * 86400.0
_RESTARTS_MAX = 100_000
_CODE_MAX = 255
_RESTARTS = 3
_MASTER_NAMES = (
    "gatherSeconds",
    "lostSeconds",
    "stopSeconds",
    "stallSeconds",
    "maxRestarts",
    "fatalExitCodes",
    "history",
)
# A worker's question is held open for 20 seconds, in which nothing more is heard of it.
_MINIMUM_SECONDS = {"gather": 0, "lost": 30, "stop": 1, "stall": 0}
_TIMING = Timing()
_POLICY = PolicySettings()


@dataclass(frozen=True, slots=True)
class MasterOptions:
    """The options of a job.

    Attributes:
        policy: how the number of workers is decided.
        timing: how long workers are waited for.
        max_restarts: failures of the training in a row, without a step between them, that are tried
            again.
        fatal_codes: exit codes of the training that fail the job at once.
        history: whether the job's history is read and kept.
    """

    policy: PolicySettings = _POLICY
    timing: Timing = _TIMING
    max_restarts: int = _RESTARTS
    fatal_codes: frozenset[int] = frozenset()
    history: bool = True


@dataclass(frozen=True, slots=True)
class JobScope:
    """The namespace, the job and the backend of a master.

    Attributes:
        namespace: the job's namespace.
        job: its name.
        port: the port to listen on; 0 is any free one.
        address: the address to listen on; "" is every one.
        folder: in place of an API server; None asks the API server.
        termination_log: a file for the reason of the end; None for none.
        token: what the job's pods show; "" where they were given none.
    """

    namespace: str
    job: str
    port: int
    address: str = ""
    folder: Path | None = None
    termination_log: Path | None = None
    token: str = ""


def parser() -> argparse.ArgumentParser:
    """The parser of the command line, which has only help."""
    width = max(len(name) for name, _ in _VARIABLES)
    lines = "\n".join(f"  {name:<{width}}  {meaning}" for name, meaning in _VARIABLES)
    return argparse.ArgumentParser(
        prog=names.MASTER_PROGRAM,
        description="Leads one elastic job to its end: says how many pods it has, and who of them "
        "trains with whom.\nThe operator starts it, and tells it all in its environment:\n\n"
        f"{lines}",
        epilog="Exit codes: 0 the job has succeeded, 1 it has failed, 2 wrong input, "
        "143 told to stop.\nWhat it decides and how a script takes part: "
        "docs/guides/elastic-master.md",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


_VARIABLES = (
    (names.ENV_NAMESPACE, "the job's namespace; must be set"),
    (names.ENV_JOB, "the ElasticJob's name; must be set"),
    (names.ENV_MASTER_PORT, "the port that workers reach it at; 50001 where none is given"),
    (names.ENV_MASTER_OPTIONS, 'how it decides, as JSON: {"growThreshold": 0.7}'),
    (names.ENV_MASTER_TOKEN, "what the job's pods show in each call"),
    (names.ENV_MASTER_FOLDER, "a folder in place of an API server, on one machine"),
    (names.ENV_TERMINATION_LOG, "a file for the reason of a failure"),
)


def place(env: Mapping[str, str]) -> JobScope:
    """The scope of this master: its job, and where it runs.

    Raises:
        InputError: the job is not named, or the port is none.
    """
    missing = [name for name in (names.ENV_NAMESPACE, names.ENV_JOB) if not env.get(name)]
    if missing:
        raise InputError(
            f"{' and '.join(missing)} must be set: a master leads one job",
            hint="the operator sets them; by hand: "
            f"{names.ENV_NAMESPACE}=lab {names.ENV_JOB}=demo {names.MASTER_PROGRAM}",
        )
    port = env.get(names.ENV_MASTER_PORT) or "50001"
    if not (port.isascii() and port.isdigit() and int(port) <= _PORT_MAX):
        raise InputError(
            f"{port!r} is not a port", path=names.ENV_MASTER_PORT, hint="write one from 0 to 65535"
        )
    folder = env.get(names.ENV_MASTER_FOLDER)
    log = Path(env.get(names.ENV_TERMINATION_LOG) or "/dev/termination-log")
    return JobScope(
        namespace=env[names.ENV_NAMESPACE],
        job=env[names.ENV_JOB],
        port=int(port),
        # On a machine that runs several jobs each pod has an address of its own.
        address=env.get("POD_IP", "") if folder else "",
        folder=Path(folder) if folder else None,
        token=env.get(names.ENV_MASTER_TOKEN, ""),
        termination_log=log if log.exists() or names.ENV_TERMINATION_LOG in env else None,
    )


def read(text: str) -> MasterOptions:
    """The options of a JSON text; the defaults for "".

    Raises:
        InputError: it is no JSON object, a name is not known, or a value is out of its range.
    """
    try:
        data = json.loads(text or "{}")
    except ValueError as error:
        raise _not_json(str(error)) from error
    if not isinstance(data, dict):
        raise _not_json(f"it holds {type(data).__name__}, not an object")
    settings.check_names(data, (*settings.NAMES, *_MASTER_NAMES))
    seconds = {
        name: settings.number(data, f"{name}Seconds", minimum, _SECONDS_MAX, whole=False)
        for name, minimum in _MINIMUM_SECONDS.items()
        if f"{name}Seconds" in data
    }
    counted = {"maxRestarts": _RESTARTS, **data}
    return MasterOptions(
        policy=settings.read(data),
        timing=Timing(**seconds),
        max_restarts=int(settings.number(counted, "maxRestarts", 0, _RESTARTS_MAX, whole=True)),
        fatal_codes=_codes(data.get("fatalExitCodes")),
        history=_flag(data.get("history", True)),
    )


def _codes(value: Any) -> frozenset[int]:
    codes = [] if value is None else value
    if not isinstance(codes, list) or not all(
        isinstance(code, int) and not isinstance(code, bool) and 1 <= code <= _CODE_MAX
        for code in codes
    ):
        raise InputError(
            f"{value!r} is not a list of exit codes from 1 to {_CODE_MAX}",
            path="fatalExitCodes",
            hint="write [13, 77]",
            source=settings.SOURCE,
        )
    return frozenset(codes)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise InputError(
            f"{value!r} is neither true nor false",
            path="history",
            hint="write true or false",
            source=settings.SOURCE,
        )
    return value


def _not_json(problem: str) -> InputError:
    return InputError(
        f"the options are no JSON: {problem}",
        hint='write {"growThreshold": 0.7}, or leave it out',
        source=settings.SOURCE,
    )
