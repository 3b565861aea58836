"""Starts a sweep's runner in no time: a process that has loaded all of it, and forks.

To load Python and the libraries takes most of a second, and a test that kills its runner again and
again would wait for little else. What runs in the child is what `allranks sweep` runs.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

# Loaded for the children; helm's driver and the API's client come with the first trial otherwise.
import kubernetes.dynamic  # noqa: F401

from allranks import names
from allranks.cluster.client import KubeCluster
from allranks.helm.binary import HelmBinary, inspect
from allranks.helm.releases import ReleaseRef
from allranks.sweep import runner
from allranks.sweep.spec import prepare
from allranks.sweep.trials import cluster
from allranks.values.sources import Sources

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerProcess


@dataclass(frozen=True, slots=True)
class Sweep:
    """What a runner is told.

    Attributes:
        name: the sweep's.
        values: the file it begins with.
        helm: what installs.
        namespace: where.
        kubeconfig: of the cluster.
        state: the folder of its journal.
        log: where it writes.
    """

    name: str
    values: str
    helm: HelmBinary
    namespace: str
    kubeconfig: str
    state: str
    log: str


def start(sweep: Sweep) -> ForkServerProcess:
    """Begin a sweep, or go on with it, in a process of its own."""
    forks = multiprocessing.get_context("forkserver")
    forks.set_forkserver_preload([__name__])
    process = forks.Process(target=_run, args=(sweep,))
    process.start()
    return process


def of(name: str, values: Path, helm: Path, namespace: str, **places: Path) -> Sweep:
    """What to tell it.

    Args:
        name: the sweep's.
        values: the file it begins with.
        helm: what installs.
        namespace: where.
        places: `kubeconfig`, `state` and `log`.
    """
    texts = {key: str(path) for key, path in places.items()}
    return Sweep(name, str(values), inspect(helm), namespace, **texts)


def _run(sweep: Sweep) -> None:
    os.environ[names.ENV_STATE] = sweep.state
    with Path(sweep.log).open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    journal_place = runner.locate(sweep.name)
    if journal_place.exists():
        prepared, journal = runner.open_sweep(journal_place)
    else:
        prepared = prepare.prepare(prepare.SweepFlags(sweep.name, Sources(files=(sweep.values,))))
        journal = runner.begin(prepared, journal_place, {"on": "cluster"})
    home = ReleaseRef(sweep.helm, sweep.name, sweep.namespace, sweep.kubeconfig)
    trials = cluster.ClusterTrials(prepared, KubeCluster(sweep.kubeconfig), home)
    with journal:
        state = runner.run(prepared, trials, journal)
    sys.stdout.write(f"{state.outcome} {state.reason}\n")
