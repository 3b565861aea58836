"""The bench at a terminal: `python -m tests.kube up|down|status|build|image|host`."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from tests.kube import binaries, cluster, host, runs
from tests.kube.errors import BenchError
from tests.kube.runs import Options

if TYPE_CHECKING:
    from collections.abc import Callable


def _up(arguments: argparse.Namespace) -> None:
    options = Options(
        kwok=arguments.kwok, node=arguments.node, controller_qps=arguments.controller_qps
    )
    running = cluster.start_detached(arguments.name, options)
    print(f"the cluster {arguments.name} is there:\n  export KUBECONFIG={running.kubeconfig}")


def _down(arguments: argparse.Namespace) -> None:
    stopped = 0
    for record in list(runs.records()):
        if arguments.all or record.run.name == arguments.name:
            cluster.stop(record)
            print(f"the cluster {record.run.name} is gone")
            stopped += 1
    if not stopped:
        print("no cluster runs" if arguments.all else f"no cluster {arguments.name} runs")


def _status(_arguments: argparse.Namespace) -> None:
    runs.sweep()
    records = list(runs.records())
    for record in records:
        parts = ", ".join(record.processes or {}) or "nothing yet"
        print(f"{record.run.name}: {record.state}; {parts}")
        print(f"  KUBECONFIG={record.run.kubeconfig}")
        if record.message:
            print(f"  {record.message}")
    if not records:
        print("no cluster runs")


def _build(_arguments: argparse.Namespace) -> None:
    binaries.build_all()


def _image(_arguments: argparse.Namespace) -> None:
    from tests.kube import image

    image.ensure()


def _host(arguments: argparse.Namespace) -> int:
    if arguments.install:
        host.install_missing()
    return host.report(arguments.tier)


def main() -> int:
    """Run one command.

    Returns:
        0, or 1 where the bench cannot do it.
    """
    parser = argparse.ArgumentParser(prog="python -m tests.kube", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(
        name: str, run: Callable[[argparse.Namespace], int | None], text: str
    ) -> argparse.ArgumentParser:
        parser = commands.add_parser(name, help=text, description=text)
        parser.set_defaults(run=run)
        return parser

    up = command("up", _up, "start a cluster that stays until `down`")
    up.add_argument("--name", default="bench")
    up.add_argument("--kwok", action="store_true", help="with fake nodes (see tests/kube/kwok.py)")
    up.add_argument("--node", action="store_true", help="with one real node; needs root")
    up.add_argument("--controller-qps", type=int, default=0, metavar="N")
    down = command("down", _down, "end it")
    down.add_argument("--name", default="bench")
    down.add_argument("--all", action="store_true", help="end every cluster of this user")
    command("status", _status, "what runs")
    command("build", _build, "build the programs that are missing")
    command("image", _image, "make the images of pods where they are missing or old")
    needs = command("host", _host, "what this machine lacks, and what is then not tested")
    needs.add_argument("--install", action="store_true", help="install what apt-get can, as root")
    needs.add_argument("--tier", default="", help="look at this one alone, such as test-node")
    arguments = parser.parse_args()
    try:
        code: int | None = arguments.run(arguments)
    except BenchError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return code or 0


if __name__ == "__main__":
    sys.exit(main())
