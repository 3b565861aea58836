"""The command line by argparse: help, errors, and whatever is not plain."""

from __future__ import annotations

import argparse
import sys

from allranks import __version__, names
from allranks.errors import InputError
from allranks.postrender.options import DIALECTS, TOPOLOGY_KEYS, TOPOLOGY_MODES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

_DESCRIPTION = """\
Post-render a Helm chart's manifests, stdin to stdout. Charts of allranks say themselves what they
need; the options are for charts that do not, and win over what a chart says.
"""
_EPILOG = """\
helm 3: helm install NAME CHART --post-renderer allranks-postrender
        [--post-renderer-args --dialect=kueue --post-renderer-args --queue=research]
helm 4: the same, once `allranks plugin install` has put the plugin in place
"""


class _OptionParser(argparse.ArgumentParser):
    """A parser that raises our errors, so that they reach the user through Helm."""

    def error(self, message: str) -> NoReturn:
        """Raise an error instead of exiting."""
        raise InputError(message, hint=f"{names.POSTRENDER} --help lists the options")


def parse(argv: list[str]) -> dict[str, Any]:
    """Read the command line.

    Args:
        argv: the arguments, without the program's name.

    Returns:
        The fields of `Options`, and the report file.

    Raises:
        InputError: an argument is wrong.
    """
    return vars(_parser().parse_args(argv))


def _parser() -> argparse.ArgumentParser:
    parser = _OptionParser(
        prog=names.POSTRENDER,
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    _add_scheduling(parser.add_argument_group("scheduling"))
    _add_pods(parser.add_argument_group("pods"))
    which = parser.add_argument_group("which objects, and what is recorded")
    which.add_argument(
        "--kind",
        dest="kinds",
        action="append",
        default=[],
        metavar="KIND",
        help="only objects of this kind (repeat)",
    )
    which.add_argument(
        "--name",
        dest="names",
        action="append",
        default=[],
        metavar="NAME",
        help="only objects of this name (repeat)",
    )
    which.add_argument(
        "--label",
        dest="labels",
        action="append",
        default=[],
        type=_pair,
        metavar="KEY=VALUE",
        help="a label for built-in objects and their pods, where absent (repeat)",
    )
    which.add_argument(
        "--values-digest",
        default="",
        metavar="DIGEST",
        help=f"record it as {names.VALUES_DIGEST} on built-in objects, with our version",
    )
    which.add_argument(
        "--report",
        default="",
        metavar="FILE",
        help=f"write the message of a failure to this file too (or set {names.ENV_REPORT})",
    )
    version = f"{names.POSTRENDER} {__version__} (Python {sys.version.split()[0]})"
    parser.add_argument("--version", action="version", version=version)
    return parser


def _add_scheduling(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--dialect",
        default="",
        metavar="NAME",
        help=f"the scheduler to write for: {', '.join(DIALECTS)}",
    )
    group.add_argument("--queue", default="", help="the queue to wait in")
    group.add_argument("--priority-class", default="", metavar="NAME", help="the priority class")
    group.add_argument(
        "--gang-min",
        default=0,
        type=_number,
        metavar="N",
        help="pods that must start together (default: all of a workload's)",
    )
    group.add_argument(
        "--gang-timeout",
        default=0,
        type=_number,
        metavar="SECONDS",
        help="coscheduling: how long a partly placed gang may wait",
    )
    group.add_argument(
        "--scheduler-name",
        default="",
        metavar="NAME",
        help="schedulerName of the pods, where absent (default: the dialect's own)",
    )
    group.add_argument(
        "--topology-mode",
        default="",
        metavar="MODE",
        help=f"keep a workload's pods in one domain: {', '.join(TOPOLOGY_MODES)}",
    )
    group.add_argument(
        "--topology-level",
        default="",
        metavar="LEVEL",
        help=f"the domain: {', '.join(TOPOLOGY_KEYS)} (default: rack)",
    )
    group.add_argument(
        "--topology-key", default="", metavar="LABEL", help="the node label of the level"
    )
    group.add_argument(
        "--topology-value",
        dest="topology_values",
        action="append",
        default=[],
        metavar="VALUE",
        help="stay on nodes with this value of the label (repeat; dialects without topology)",
    )
    group.add_argument(
        "--topology-name", default="", metavar="NAME", help="KAI: the cluster's Topology object"
    )
    group.add_argument(
        "--topology-tier",
        default=0,
        type=_number,
        metavar="N",
        help="Volcano: the highest HyperNode tier allowed (default: rack 1, block 2)",
    )


def _add_pods(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--shm-size", default="", metavar="SIZE", help="a memory-backed /dev/shm of this size"
    )
    group.add_argument(
        "--rdma", action="store_true", help="let the main containers lock memory (IPC_LOCK)"
    )
    group.add_argument(
        "--rdma-resource",
        dest="rdma_resources",
        action="append",
        default=[],
        type=_pair,
        metavar="NAME=N",
        help="an extended resource of each main container (repeat; means --rdma)",
    )
    group.add_argument(
        "--container",
        dest="containers",
        action="append",
        default=[],
        metavar="NAME",
        help="a main container (repeat; default: those with a GPU, else the first)",
    )
    group.add_argument(
        "--restricted",
        action="store_true",
        help='fill in what Pod Security "restricted" asks, where absent',
    )


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return key, value


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0")
    return int(text)
