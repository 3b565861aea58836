"""What the operator costs, and how fast it is, on a real control plane with fake nodes.

    make bench-operator    or    .venv/bin/python -m tests.bench.operator [--rounds N]

Three measurements, each held against the project's own bound; the exit code is 1 where one is
passed.

A ScalePlan from 0 to 1,000 workers, in turns with a bare parallel client that sends the very same
pods to another namespace: from the plan (or the client's start) to the last pod's creation, by the
API server's own log. Which of the two is first changes from round to round. A machine's pace drifts
by half within minutes, so each is held against its neighbour in time, and the median of the rounds'
ratios counts. Then 30 of 32 pods are deleted at once: until the thirtieth is made again.

200 runs of 50 pods each: memory, CPU while nothing happens, and, while pods report their progress,
how long it takes from a pod's change to the status that tells it, and how often a run is written.
"""

from __future__ import annotations

import argparse
import http.client
import itertools
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from allranks import names
from tests import waiting
from tests.kube import binaries, kwok
from tests.kube import cluster as kube

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tests.kube.cluster import Cluster

WORKERS, RATIO_BOUND = 1000, 1.3
LOST, OF, LOST_BOUND = 30, 32, 2.0
RUNS, PODS_EACH = 200, 50
MEMORY_BOUND, CPU_BOUND, REACTION_BOUND = 200.0, 1.0, 1.0
THREADS = 32
CHANGES, CHANGES_PER_SECOND = 600, 20
IDLE_SECONDS = 30.0
_FAST = 2000
_LABELS = {"bench.allranks.dev/nodes": "operator"}
ELASTIC, STATUS = f"/apis/{names.ELASTIC_API_VERSION}", f"/apis/{names.API_VERSION}"


until = partial(waiting.until, poll=0.05, failure=SystemExit)


@dataclass(frozen=True, slots=True)
class Bench:
    """A cluster with fake nodes, and a folder for logs.

    Attributes:
        cluster: the cluster; it knows the operator's kinds.
        folder: the folder.
    """

    cluster: Cluster
    folder: Path

    def namespace(self, name: str) -> str:
        """Make a namespace."""
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        self.cluster.api("POST", "/api/v1/namespaces", body)
        account = f"/api/v1/namespaces/{name}/serviceaccounts"
        until(lambda: self.cluster.items(account), "a service account")
        return name

    @contextmanager
    def operator(self, namespace: str) -> Iterator[int]:
        """The operator of a namespace, as a process; once it acts, its process id."""
        log = self.folder / f"{namespace}.log"
        with log.open("wb") as file:
            process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "allranks_operator", "--namespace", namespace),
                    *("--lease-namespace", namespace, "--listen", "127.0.0.1:0"),
                ],
                env={
                    "PATH": os.environ["PATH"],
                    "HOME": str(self.folder),
                    "KUBECONFIG": str(self.cluster.kubeconfig),
                },
                stdin=subprocess.DEVNULL,
                stderr=file,
            )
        try:
            until(lambda: '"acting"' in log.read_text(), "the operator's first action")
            yield process.pid
        finally:
            process.terminate()
            process.wait()

    def elastic_job(self, namespace: str) -> dict[str, Any]:
        """Make an elastic job that the bench makes the plans of."""
        annotations = {names.MASTER: "external", names.RELAUNCH: "watcher"}
        body = {
            "apiVersion": names.ELASTIC_API_VERSION,
            "kind": names.ELASTIC_JOB,
            "metadata": {"name": "big", "annotations": annotations},
            "spec": {
                "distributionStrategy": "AllreduceStrategy",
                "replicaSpecs": {"worker": {"restartCount": 3, "template": {"spec": pod_spec()}}},
            },
        }
        path = f"{ELASTIC}/namespaces/{namespace}/{names.ELASTIC_JOBS}"
        return self.cluster.api("POST", path, body)

    def plan(self, namespace: str, number: int, workers: int) -> float:
        """Make a plan; return when."""
        body = {
            "apiVersion": names.ELASTIC_API_VERSION,
            "kind": names.SCALE_PLAN,
            "metadata": {"name": f"big-plan-{number}"},
            "spec": {"ownerJob": "big", "replicaResourceSpecs": {"worker": {"replicas": workers}}},
        }
        start = time.time()
        self.cluster.api("POST", f"{ELASTIC}/namespaces/{namespace}/{names.SCALE_PLANS}", body)
        return start

    def created(self, namespace: str) -> list[float]:
        """When pods were created there, by the API server's own log."""
        return self.cluster.audit.times(verb="create", resource="pods", namespace=namespace)

    def running(self, namespace: str, count: int) -> list[dict[str, Any]]:
        """Wait until so many pods run there; return them."""

        def enough() -> list[dict[str, Any]]:
            pods = self.cluster.items(f"/api/v1/namespaces/{namespace}/pods")
            ready = sum((pod.get("status") or {}).get("phase") == "Running" for pod in pods)
            return pods if ready == count == len(pods) else []

        pods: list[dict[str, Any]] = until(enough, f"{count} running pods")
        return pods


def pod_spec() -> dict[str, Any]:
    """A small fake pod."""
    requests = {"cpu": "10m", "memory": "16Mi"}
    return {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "nodeSelector": _LABELS,
        "tolerations": [kwok.TOLERATION],
        "containers": [
            {"name": "main", "image": "my/trainer:1", "resources": {"requests": requests}}
        ],
    }


# ---------------------------------------------------------------- 0 to 1,000 workers


def bare(bench: Bench, namespace: str, pods: Sequence[Mapping[str, Any]]) -> float:
    """Create these pods with nothing but a socket per thread; return the seconds it takes."""
    owner = bench.elastic_job(namespace)
    bodies = [json.dumps(_again(pod, owner)).encode() for pod in pods]
    api = bench.cluster.admin
    own = threading.local()
    headers = {"Authorization": f"Bearer {api.token}", "Content-Type": "application/json"}

    def send(body: bytes) -> None:
        if not hasattr(own, "connection"):
            own.connection = http.client.HTTPSConnection("127.0.0.1", api.port, context=api._tls())
        own.connection.request("POST", f"/api/v1/namespaces/{namespace}/pods", body, headers)
        answer = own.connection.getresponse()
        answer.read()
        if answer.status != http.client.CREATED:
            sys.exit(f"the bare client got {answer.status}")

    start = time.time()
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(send, bodies))
    return max(bench.created(namespace)) - start


def _again(pod: Mapping[str, Any], owner: Mapping[str, Any]) -> dict[str, Any]:
    """A pod as it was sent, for another owner of the same name."""
    metadata = pod["metadata"]
    owners = [
        {**ownerReference, "uid": owner["metadata"]["uid"]}
        for ownerReference in metadata["ownerReferences"]
    ]
    metadata_of_pod = {
        key: metadata[key] for key in ("name", "labels", "annotations") if key in metadata
    }
    spec = {
        key: value
        for key, value in pod["spec"].items()
        if key not in {"nodeName", "serviceAccount", "serviceAccountName", "volumes"}
    }
    spec["tolerations"] = [kwok.TOLERATION]
    spec["containers"] = [
        {key: value for key, value in container.items() if key != "volumeMounts"}
        for container in spec["containers"]
    ]
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**metadata_of_pod, "ownerReferences": owners},
    }
    return {**body, "spec": spec}


def ours(bench: Bench, namespace: str) -> tuple[float, list[dict[str, Any]]]:
    """Let the operator create 1,000 workers; the seconds it takes, and the pods."""
    with bench.operator(namespace):
        bench.elastic_job(namespace)
        start = bench.plan(namespace, 0, WORKERS)
        times = until(lambda: _enough(bench.created(namespace), WORKERS), "all pods")
        return times[WORKERS - 1] - start, bench.running(namespace, WORKERS)


def scale_up(
    bench: Bench, number: int, pods: Sequence[Mapping[str, Any]]
) -> tuple[float, float, float]:
    """One round: seconds of the operator, of the bare client, and to replace lost pods."""
    seconds: dict[str, float] = {}
    order = ("ours", "bare") if number % 2 else ("bare", "ours")
    for who in order:
        space = bench.namespace(f"{who}-{number}")
        seconds[who] = ours(bench, space)[0] if who == "ours" else bare(bench, space, pods)
        _remove(bench, space)
    return seconds["ours"], seconds["bare"], loss(bench, number)


def _remove(bench: Bench, namespace: str) -> None:
    """Remove a namespace, and wait until its pods are gone: the next one is to be alone."""
    bench.cluster.api("DELETE", f"/api/v1/namespaces/{namespace}")
    path = f"/api/v1/namespaces/{namespace}/pods"
    until(lambda: not bench.cluster.items(path), "the pods' end")


def loss(bench: Bench, number: int) -> float:
    """Seconds from the deletion of 30 of 32 pods to the thirtieth new one."""
    space = bench.namespace(f"lost-{number}")
    with bench.operator(space):
        bench.elastic_job(space)
        bench.plan(space, 0, OF)
        pods = bench.running(space, OF)
        job = f"{ELASTIC}/namespaces/{space}/{names.ELASTIC_JOBS}/big"
        until(lambda: _active(bench.cluster.api("GET", job)) == OF, "the job's counts")
        start = time.time()
        with ThreadPoolExecutor(8) as pool:
            path = f"/api/v1/namespaces/{space}/pods"
            doomed = [f"{path}/{pod['metadata']['name']}" for pod in pods[:LOST]]
            list(pool.map(lambda path: bench.cluster.api("DELETE", path), doomed))
        times = until(lambda: _enough(bench.created(space), OF + LOST), "the new pods")
    return float(times[OF + LOST - 1] - start)


def _enough(times: list[float], count: int) -> list[float]:
    return times if len(times) >= count else []


def _active(job: Mapping[str, Any]) -> int:
    status = (job.get("status") or {}).get("status") or {}
    counts = (status.get("replicaStatuses") or {}).get("worker") or {}
    return int(counts.get("active") or 0)


# ---------------------------------------------------------------- 200 runs


@dataclass(slots=True)
class WatchedStatuses:
    """The statuses of runs as a watch of the bench's own tells them.

    Attributes:
        first_seen: by run and progress, when it was first told.
    """

    first_seen: dict[tuple[str, str], float] = field(default_factory=dict)


@contextmanager
def seeing(bench: Bench, namespace: str) -> Iterator[WatchedStatuses]:
    """Watch the runs while the block runs."""
    observed = WatchedStatuses()
    form = "{.metadata.name} {.status.progress.text}{'\\n'}"
    process = subprocess.Popen(
        [
            *(binaries.find("kubectl"), "--kubeconfig", bench.cluster.kubeconfig),
            *("--namespace", namespace, "get", names.TRAINING_RUNS, "--watch-only"),
            *("-o", f"jsonpath={form}"),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            name, _, progress = line.strip().partition(" ")
            observed.first_seen.setdefault((name, progress), time.monotonic())

    reader = threading.Thread(target=read)
    reader.start()
    time.sleep(2.0)  # kubectl's watch is open by then
    try:
        yield observed
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        process.wait()
        reader.join()


def make_runs(bench: Bench, namespace: str) -> None:
    """200 Jobs of 50 pods, each with its TrainingRun; return when all pods run."""

    def make(number: int) -> None:
        name = f"run-{number:03}"
        labels = {
            names.APP_INSTANCE: name,
            names.APP_PART_OF: names.PART_OF,
            names.WORKLOAD: "torchrun",
            names.ROLE: "node",
        }
        run = {
            "apiVersion": names.API_VERSION,
            "kind": names.TRAINING_RUN,
            "metadata": {"name": name, "labels": labels},
            "spec": {"release": name, "workload": "torchrun"},
        }
        job = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name, "labels": labels},
            "spec": {
                "completionMode": "Indexed",
                "completions": PODS_EACH,
                "parallelism": PODS_EACH,
                "template": {"metadata": {"labels": labels}, "spec": pod_spec()},
            },
        }
        bench.cluster.api("POST", f"{STATUS}/namespaces/{namespace}/{names.TRAINING_RUNS}", run)
        bench.cluster.api("POST", f"/apis/batch/v1/namespaces/{namespace}/jobs", job)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(make, range(RUNS)))
    path = f"{STATUS}/namespaces/{namespace}/{names.TRAINING_RUNS}"
    full = f"{PODS_EACH}/{PODS_EACH}"

    def ready() -> bool:
        runs_of_training = bench.cluster.items(path)
        return all((run.get("status") or {}).get("ready") == full for run in runs_of_training)

    until(ready, "every run's readiness")


def report_progress(bench: Bench, namespace: str, observed: WatchedStatuses) -> list[float]:
    """Let pods report their progress; return the seconds until each status told it."""
    first = {}
    for item in bench.cluster.items(
        f"/api/v1/namespaces/{namespace}/pods?labelSelector={names.JOB_COMPLETION_INDEX}%3D0"
    ):
        first[item["metadata"]["labels"][names.APP_INSTANCE]] = item["metadata"]["name"]
    dice = random.Random(11)  # noqa: S311 - the same pods in every run
    runs = sorted(first)
    sent_at: dict[tuple[str, str], float] = {}

    def report(number: int) -> None:
        run, word = dice.choice(runs), f"step {number}"
        body = {"metadata": {"annotations": {names.PROGRESS: word}}}
        bench.cluster.api("PATCH", f"/api/v1/namespaces/{namespace}/pods/{first[run]}", body)
        sent_at[run, word] = time.monotonic()

    start = time.monotonic()
    with ThreadPoolExecutor(8) as pool:
        for number in range(CHANGES):
            time.sleep(max(0.0, start + number / CHANGES_PER_SECOND - time.monotonic()))
            pool.submit(report, number)
    time.sleep(3.0)  # what is told later than that has missed its bound
    return list(_reactions(sent_at, observed.first_seen))


def _reactions(
    sent_at: Mapping[tuple[str, str], float], observed_at: Mapping[tuple[str, str], float]
) -> Iterator[float]:
    """Seconds until each report, or a later one of the same run, stood in the status."""
    by_run: dict[str, list[tuple[float, float]]] = {}
    for key, at in sent_at.items():
        by_run.setdefault(key[0], []).append((at, observed_at.get(key, float("inf"))))
    for reports in by_run.values():
        earliest = float("inf")
        for at, when in sorted(reports, reverse=True):
            earliest = min(earliest, when)
            yield earliest - at


def _writes(bench: Bench, namespace: str) -> dict[str, list[float]]:
    """By run, when the API server was asked to write its status."""
    writes: dict[str, list[float]] = {}
    for line in bench.cluster.run.audit_log.read_bytes().splitlines():
        event = json.loads(line)
        about = event.get("objectRef") or {}
        target = (about.get("resource"), about.get("subresource"), about.get("namespace"))
        if target == (names.TRAINING_RUNS, "status", namespace) and event["verb"] == "patch":
            at = datetime.fromisoformat(event["requestReceivedTimestamp"]).timestamp()
            writes.setdefault(about["name"], []).append(at)
    return {run: sorted(times) for run, times in writes.items()}


def cpu_seconds(pid: int) -> float:
    """What a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(pid: int, field: str) -> float:
    """MiB of a process: VmRSS now, or VmHWM at most."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) / 1024
    return 0.0


def many_runs(bench: Bench) -> list[tuple[str, str, str, bool]]:
    """The rows of the second table: what, measured, bound, held."""
    space = bench.namespace("runs")
    with bench.operator(space) as pid, seeing(bench, space) as observed:
        make_runs(bench, space)
        time.sleep(5.0)  # the last statuses
        start, before = time.monotonic(), cpu_seconds(pid)
        time.sleep(IDLE_SECONDS)
        idle = 100 * (cpu_seconds(pid) - before) / (time.monotonic() - start)
        before = cpu_seconds(pid)
        reactions = sorted(report_progress(bench, space, observed))
        busy = 100 * (cpu_seconds(pid) - before) / (CHANGES / CHANGES_PER_SECOND)
        resident, most = memory(pid, "VmRSS"), memory(pid, "VmHWM")
    gaps = [
        later - earlier
        for times in _writes(bench, space).values()
        for earlier, later in itertools.pairwise(times)
    ]
    early = sum(gap < 1 for gap in gaps)
    p99 = reactions[int(0.99 * len(reactions))]
    half = statistics.median(reactions)
    return [
        ("memory, at most", f"{most:.0f} MiB ({resident:.0f} now)", "200 MiB", most < MEMORY_BOUND),
        ("CPU while idle", f"{idle:.2f} %", f"{CPU_BOUND:g} %", idle < CPU_BOUND),
        (f"CPU at {CHANGES_PER_SECOND} reports a second", f"{busy:.1f} %", "", True),
        ("reaction, half of them", f"{1000 * half:.0f} ms", "", True),
        ("reaction, p99", f"{1000 * p99:.0f} ms", "1000 ms", p99 < REACTION_BOUND),
        ("status writes less than 1 s apart", f"{early} of {len(gaps)}", "0", not early),
    ]


# ---------------------------------------------------------------- tables


def main() -> None:
    """Measure, print, and say by the exit code whether all bounds hold."""
    words = argparse.ArgumentParser(description="Measure the operator.")
    words.add_argument("--rounds", type=int, default=5, help="of the 1,000 workers")
    rounds = words.parse_args().rounds
    with (
        tempfile.TemporaryDirectory() as folder,
        kube.start(name="bench-operator", kwok=True, controller_qps=_FAST) as cluster,
    ):
        crds = binaries.REPO / "charts/operator/crds"
        cluster.kubectl("apply", "--server-side", "-f", crds)
        cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
        shape = kwok.Shape(gpus=0, cpus=100_000, memory="1000Ti", pods=2_000)
        kwok.create(cluster.admin, 20, prefix="operator", shape=shape, labels=_LABELS)
        bench = Bench(cluster, Path(folder))
        # The first thousand are for nothing but a warm API server, and to be made again.
        space = bench.namespace("warm")
        _, pods = ours(bench, space)
        _remove(bench, space)
        in_bounds = _print_scale([scale_up(bench, number, pods) for number in range(rounds)])
        print(f"\n{RUNS} runs of {PODS_EACH} pods")
        for label, value, bound, fine in many_runs(bench):
            in_bounds = in_bounds and fine
            print(f"  {label:38} {value:>22}   {bound:>8} {'' if fine else 'MISSED'}")
    sys.exit(not in_bounds)


def _print_scale(scales: Sequence[tuple[float, float, float]]) -> bool:
    print(f"{'':8} {'0 -> 1,000':>12} {'bare client':>12} {'ratio':>7} {'30 of 32':>10}")
    for number, (ours, theirs, again) in enumerate(scales):
        print(f"round {number} {ours:10.2f} s {theirs:10.2f} s {ours / theirs:7.2f} {again:8.2f} s")
    ratio = statistics.median(ours / theirs for ours, theirs, _ in scales)
    again = statistics.median(scale[2] for scale in scales)
    print(f"median {'':25} {ratio:9.2f} {again:8.2f} s   bounds {RATIO_BOUND} and {LOST_BOUND:g} s")
    return ratio <= RATIO_BOUND and again < LOST_BOUND


if __name__ == "__main__":
    main()
