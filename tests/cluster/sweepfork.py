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
from allranks.cluster.kube import KubeCluster
from allranks.helm.locate import HelmBinary, inspect
from allranks.helm.releases import Home
from allranks.sweep import runner
from allranks.sweep.trials import clustertrials
from allranks.sweep.values import prepare
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
    told = {key: str(path) for key, path in places.items()}
    return Sweep(name, str(values), inspect(helm), namespace, **told)


def _run(sweep: Sweep) -> None:
    os.environ[names.ENV_STATE] = sweep.state
    with Path(sweep.log).open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    kept = runner.locate(sweep.name)
    if kept.exists():
        prepared, journal = runner.open_sweep(kept)
    else:
        prepared = prepare.prepare(prepare.Request(sweep.name, Sources(files=(sweep.values,))))
        journal = runner.begin(prepared, kept, {"on": "cluster"})
    home = Home(sweep.helm, sweep.name, sweep.namespace, sweep.kubeconfig)
    trials = clustertrials.ClusterTrials(prepared, KubeCluster(sweep.kubeconfig), home)
    with journal:
        state = runner.run(prepared, trials, journal)
    sys.stdout.write(f"{state.outcome} {state.reason}\n")
