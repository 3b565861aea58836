"""The operator's settings: flags, each with an environment variable as its default.

In a cluster the chart sets the variables; at a terminal one gives flags. A value that makes no
sense is refused before anything is asked of a cluster.
"""

from __future__ import annotations

import argparse
import os
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING

from allranks import names
from allranks.errors import InputError
from allranks_operator.log import LEVELS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_PORT_MAX = 65_535
_CONCURRENCY_MAX = 256
_LEASE_MAX = 3600
_SPACES = "ALLRANKS_WATCH_NAMESPACES"
_CLUSTER = "ALLRANKS_WATCH_CLUSTER"
_MASTER = "ALLRANKS_MASTER_IMAGE"
_ACCOUNTS = "ALLRANKS_MASTER_ACCOUNTS"
_LISTEN = "ALLRANKS_LISTEN"
_LEVEL = "ALLRANKS_LOG_LEVEL"
_WORKERS = "ALLRANKS_CONCURRENCY"
_LOGS = "ALLRANKS_POD_LOGS"
_LEASE_SPACE = "ALLRANKS_LEASE_NAMESPACE"
_LEASE = "ALLRANKS_LEASE_NAME"
_IDENTITY = "ALLRANKS_IDENTITY"
_ACCOUNT = "ALLRANKS_OPERATOR_ACCOUNT"
_ACCOUNT_SPACE = "ALLRANKS_OPERATOR_NAMESPACE"
_LEASE_SECONDS = "ALLRANKS_LEASE_SECONDS"
_TRUE, _FALSE = ("1", "true", "yes"), ("", "0", "false", "no")


@dataclass(frozen=True, slots=True)
class OperatorSettings:
    """The settings of an operator.

    Attributes:
        namespaces: which are watched; () is the one of the kubeconfig or of its own pod.
        cluster: all namespaces are watched.
        master_image: the image of our own masters; "" where there is none to be had.
        master_accounts: each of our masters gets an account of its job's own.
        listen: host and port of /healthz, /readyz and /metrics.
        lease_namespace: where the Lease lies; "" is the one of the kubeconfig or of its own pod.
        lease_name: its name.
        lease_seconds: how long it is held without being renewed.
        identity: who this operator is; unlike any other.
        account: the ServiceAccount that it runs as; "" where it is none.
        account_namespace: the account's namespace; "" is the one of the kubeconfig or of its own
            pod.
        concurrency: requests to the API server at once, at most.
        pod_logs: the last lines of a failed rank's log are read.
        log_level: the least that is logged.
        kubeconfig: a file; "" finds it as kubectl does.
        context: a context of it; "" is the current one.
    """

    namespaces: tuple[str, ...] = ()
    cluster: bool = False
    master_image: str = ""
    master_accounts: bool = False
    listen: tuple[str, int] = ("", 8080)
    lease_namespace: str = ""
    lease_name: str = names.OPERATOR_MANAGER
    lease_seconds: int = 15
    identity: str = ""
    account: str = ""
    account_namespace: str = ""
    concurrency: int = 64
    pod_logs: bool = False
    log_level: str = "info"
    kubeconfig: str = ""
    context: str = ""


def read(words: Sequence[str], environment: Mapping[str, str] = os.environ) -> OperatorSettings:
    """The settings of a command line and an environment.

    Args:
        words: the command line, without the program.
        environment: the variables.

    Raises:
        InputError: a value makes no sense.
        SystemExit: `--help`, or a flag that there is not.
    """
    options = parser(environment).parse_args(words)
    spaces = options.namespace or [environment.get(_SPACES, "")]
    namespaces = [space.strip() for text in spaces for space in text.split(",") if space.strip()]
    if options.namespace and options.all_namespaces:
        raise InputError(
            "--namespace and --all-namespaces exclude each other", hint="give one of them"
        )
    host, _, port = options.listen.rpartition(":")
    return OperatorSettings(
        namespaces=() if options.all_namespaces else tuple(dict.fromkeys(namespaces)),
        cluster=options.all_namespaces,
        master_image=options.master_image,
        master_accounts=options.master_accounts,
        listen=(host.strip("[]"), _number("--listen", port, 0, _PORT_MAX)),
        lease_namespace=options.lease_namespace,
        lease_name=options.lease_name,
        lease_seconds=_number("--lease-seconds", options.lease_seconds, 3, _LEASE_MAX),
        identity=options.identity or f"{socket.gethostname()}-{os.getpid()}",
        account=options.operator_account,
        account_namespace=options.operator_namespace,
        concurrency=_number("--concurrency", options.concurrency, 1, _CONCURRENCY_MAX),
        pod_logs=options.pod_logs,
        log_level=options.log_level,
        kubeconfig=options.kubeconfig,
        context=options.context,
    )


def lacking(settings: OperatorSettings) -> tuple[str, str]:
    """A missing setting and its fix; two "" where nothing is missing."""
    if settings.master_image:
        return "", ""
    fix = "give --master-image; until then only jobs that name one themselves get a master"
    return "no image is known for masters of elastic jobs", f"{fix} (elastic.auto.master.image)"


def parser(environment: Mapping[str, str]) -> argparse.ArgumentParser:
    """The parser of the command line; `allranks-operator --help` prints it.

    Raises:
        InputError: a switch of the environment is neither true nor false.
    """
    result = argparse.ArgumentParser(
        prog=names.OPERATOR_PROGRAM,
        description="Keeps the status of every release, and does what elastic jobs ask for.",
        epilog="A flag's default is the variable of the environment in [brackets], where it has "
        "one.",
    )
    result.add_argument(
        "-n",
        "--namespace",
        action="append",
        default=[],
        help=f"a namespace to watch; for several repeat it, or use commas [{_SPACES}]",
    )
    for flag, variable, description in _SWITCHES:
        result.add_argument(
            flag,
            action="store_true",
            default=_is_true(variable, environment.get(variable, "")),
            help=f"{description} [{variable}]",
        )
    for flag, variable, default, description in _TEXTS:
        result.add_argument(
            flag,
            default=(environment.get(variable) if variable else "") or default,
            help=f"{description} [{variable}]" if variable else description,
            choices=LEVELS if variable == _LEVEL else None,
        )
    return result


_SWITCHES = (
    ("--all-namespaces", _CLUSTER, "watch all namespaces"),
    (
        "--master-accounts",
        _ACCOUNTS,
        "make an account of its own for each job's master, with a right to its own history",
    ),
    ("--pod-logs", _LOGS, "read the last lines of a failed rank's log"),
)
_TEXTS = (
    (
        "--master-image",
        _MASTER,
        "",
        "the image of our masters; without it jobs must name one",
    ),
    ("--listen", _LISTEN, ":8080", "host:port of /healthz, /readyz and /metrics"),
    ("--lease-namespace", _LEASE_SPACE, "", "where the Lease lies; else the pod's own namespace"),
    ("--lease-name", _LEASE, names.OPERATOR_MANAGER, "the Lease's name"),
    ("--lease-seconds", _LEASE_SECONDS, "15", "how long it is held without being renewed"),
    ("--identity", _IDENTITY, "", "who this replica is; else its host and process"),
    (
        "--operator-account",
        _ACCOUNT,
        "",
        "the account that it runs as itself: no pod of an elastic job gets it",
    ),
    ("--operator-namespace", _ACCOUNT_SPACE, "", "that account's; else the pod's own namespace"),
    ("--concurrency", _WORKERS, "64", "requests to the API server at once, at most"),
    ("--log-level", _LEVEL, "info", "the least that is logged"),
    ("--kubeconfig", "", "", "a kubeconfig; else as kubectl finds it, or the pod's account"),
    ("--context", "", "", "a context of the kubeconfig; else the current one"),
)


def _is_true(variable: str, word: str) -> bool:
    if word.lower() not in (*_TRUE, *_FALSE):
        raise InputError(f"${variable} is {word!r}", hint="use true or false")
    return word.lower() in _TRUE


def _number(flag: str, text: str, least: int, most: int) -> int:
    if not (text.isascii() and text.isdigit() and least <= int(text) <= most):
        raise InputError(f"{flag} is {text!r}", hint=f"a whole number from {least} to {most}")
    return int(text)
