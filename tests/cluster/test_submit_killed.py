"""A submit that is killed before any of its requests: nothing half starts, and the next one works."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from . import cli_fork, front
from .program import Program, job, program
from .test_submit import COMMAND, code, parts
from .waiting import until

if TYPE_CHECKING:
    from tests.kube.cluster import Cluster

    from .conftest import MakeNodes

pytestmark = pytest.mark.timeout(900)


def test_explore(cluster: Cluster, namespace: str, helm4: Any, tmp_path: Path, make_nodes: MakeNodes, code: Path) -> None:
    make_nodes(2)
    admin = program(cluster, namespace, helm4, tmp_path)
    import time
    with front.stand(cluster, tmp_path) as proxy:
        mine = Program(cluster, namespace, helm4.path, admin.home, proxy.kubeconfig)
        line = mine.line("submit", "demo", "--detach", "--workspace", code, *COMMAND, values=job())
        def go(stop):
            proxy.requests.clear()
            log = tmp_path / "log"
            log.unlink(missing_ok=True)
            proxy.before = lambda _: True
            t=time.time()
            process = cli_fork.call(line, mine.environment(), tmp_path, log)
            def before(number):
                if number == stop:
                    with suppress(ProcessLookupError): os.killpg(process.pid, signal.SIGKILL)
                return number < stop or not stop
            proxy.before = before if stop else (lambda _: True)
            process.join(120)
            print("code", process.exitcode, round(time.time()-t,2), log.read_text().strip()[-900:])
        go(0)
        reqs = list(proxy.requests)
        for i, r in enumerate(reqs, 1): print(i, r[0], r[1][:110])
        admin("delete", "demo")
        points = [1] + [i+1 for i,(m,p) in enumerate(reqs,1) if m not in ("GET",)]
        print(points)
        for stop in points:
            print("=== stop", stop)
            go(stop)
            print("left", admin.left("demo"), parts(admin))
            go(0)
            print("then", admin.left("demo"), parts(admin))
            print(admin("delete", "demo"), admin.left("demo"), parts(admin))
