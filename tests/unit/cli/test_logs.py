"""Which pods of a run `allranks logs` means."""

from __future__ import annotations

import json
from typing import Any

import pytest

from allranks.cli.logs import checked, chosen_pods, in_a_row
from allranks.errors import InputError
from allranks.model.ranklines import Wanted
from tests.unit.cluster.fake_cluster import FakeCluster

_LABELS = {
    "app.kubernetes.io/instance": "g",
    "app.kubernetes.io/part-of": "allranks",
    "allranks.dev/role": "trial",
    "allranks.dev/workload": "sweep",
}


class _Site:
    """Where a grid of four trials is, two of which have begun."""

    namespace = "lab"

    def __init__(self) -> None:
        grid = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "g", "uid": "1", "labels": _LABELS},
            "spec": {"completions": 4, "parallelism": 2, "completionMode": "Indexed"},
        }
        self.cluster = FakeCluster(grid, *(_pod(index) for index in (0, 1)))


def _pod(index: int) -> dict[str, Any]:
    labels = {**_LABELS, "batch.kubernetes.io/job-completion-index": str(index)}
    owner = {"kind": "Job", "name": "g", "uid": "1", "controller": True}
    metadata = {"name": f"g-{index}-x", "labels": labels, "ownerReferences": [owner]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": []}}


@pytest.mark.parametrize("role", ["", "trial"])
def test_a_trial_that_has_not_begun(role: str) -> None:
    """Is not said to be none; one beyond the last is."""
    site: Any = _Site()
    (found,), _ = chosen_pods("g", site, Wanted(node=1, role=role))
    assert "g-1-x" == found["metadata"]["name"]
    with pytest.raises(InputError, match="trial 3 of run 'g' has no pod now: it has not begun"):
        chosen_pods("g", site, Wanted(node=3, role=role))
    with pytest.raises(InputError, match="has no trial 4") as caught:
        chosen_pods("g", site, Wanted(node=4, role=role))
    assert "its pods are trial-0, trial-1" == caught.value.problem.hint


def test_a_sweep_inside_the_cluster_is_no_run() -> None:
    """It is not said to be removed while its runner is there: the fix leads to `sweep status`."""
    own = {"app.kubernetes.io/name": "sweep-runner", "app.kubernetes.io/instance": "ic"}
    runner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "ic-runner", "namespace": "lab", "labels": own},
    }
    part = {"app.kubernetes.io/instance": "ic", "app.kubernetes.io/part-of": "allranks"}
    record = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "ic", "namespace": "lab", "labels": part},
    }
    with pytest.raises(InputError, match="is a sweep inside the cluster") as caught:
        chosen_pods("ic", _site(runner, record), Wanted())
    assert "`allranks sweep status ic`" in caught.value.problem.hint


def _job(name: str, pods: int, role: str, env: dict[str, str], args: list[str]) -> dict[str, Any]:
    labels = {**_LABELS, "app.kubernetes.io/instance": "d", "allranks.dev/role": role}
    variables = [{"name": key, "value": value} for key, value in env.items()]
    spec = {"containers": [{"name": "trainer", "env": variables, "args": args}]}
    template = {"metadata": {"labels": labels}, "spec": spec}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "uid": name, "labels": labels},
        "spec": {"completions": pods, "completionMode": "Indexed", "template": template},
    }


def _pod_of(job: dict[str, Any], index: int) -> dict[str, Any]:
    metadata = job["metadata"]
    labels = {**metadata["labels"], "batch.kubernetes.io/job-completion-index": str(index)}
    owner = {"kind": "Job", "name": metadata["name"], "uid": metadata["uid"], "controller": True}
    own = {"name": f"{metadata['name']}-{index}-x", "labels": labels, "ownerReferences": [owner]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": own, "spec": {"containers": []}}


def _site(*objects: dict[str, Any]) -> Any:
    site: Any = _Site()
    site.cluster = FakeCluster(*objects)
    return site


def _torchrun(nodes: str = "2", **more: str) -> Any:
    env = {"PET_NNODES": nodes, "PET_NPROC_PER_NODE": "4", "ALLRANKS_NODE_RANK": "", **more}
    job = _job("d", 2, "node", env, [])
    return _site(job, _pod_of(job, 0), _pod_of(job, 1))


@pytest.mark.parametrize(("rank", "pod"), [(0, "d-0-x"), (3, "d-0-x"), (4, "d-1-x"), (7, "d-1-x")])
def test_a_rank_is_a_process_and_leads_to_its_pod(rank: int, pod: str) -> None:
    """Two nodes with four processes each: rank 4 is the first of node 1."""
    (found,), _ = chosen_pods("d", _torchrun(), Wanted(rank=rank))
    assert pod == found["metadata"]["name"]


def test_a_rank_that_there_is_not() -> None:
    """Which ranks there are is said."""
    with pytest.raises(InputError, match="run 'd' has no rank 8") as caught:
        chosen_pods("d", _torchrun(), Wanted(rank=8))
    assert "its ranks are 0 to 7" == caught.value.problem.hint


@pytest.mark.parametrize(
    "site", [_torchrun("1:2"), _torchrun(PET_LOCAL_ADDR=""), _site(_job("d", 2, "worker", {}, []))]
)
def test_a_rank_whose_pod_is_not_fixed_is_refused(site: Any) -> None:
    """Nodes that join and leave, a store of the user's own, roles without ranks."""
    with pytest.raises(InputError, match="which pod of run 'd' has rank 5 is not known") as caught:
        chosen_pods("d", site, Wanted(rank=5))
    assert "--node N" in (caught.value.problem.hint or "")


def test_rank_0_of_nodes_that_join_and_leave_is_on_node_0() -> None:
    """It keeps the store, whoever else is there."""
    (found,), _ = chosen_pods("d", _torchrun("1:2"), Wanted(rank=0))
    assert "d-0-x" == found["metadata"]["name"]


def test_a_rank_and_another_name_of_a_pod_contradict_each_other() -> None:
    """One of them is enough."""
    with pytest.raises(InputError, match="--rank names one process of the whole job, and --node"):
        checked(Wanted(rank=1, node=0))
    with pytest.raises(InputError, match="--rank names one process of the whole job, and --role"):
        checked(Wanted(rank=1, role="worker"))


def _mpi(**more: Any) -> Any:
    """A launcher, and two workers with two slots; mpirun starts three processes."""
    env = {"ALLRANKS_MPI_NP": "3", "ALLRANKS_MPI_WRAP": "1", "ALLRANKS_MPI_MIN_HOSTS": "2"}
    launcher = _job(
        "d-launcher", 1, "launcher", env | more.get("env", {}), [more.get("flags", "0")]
    )
    workers = _job("d-worker", 2, "worker", {}, [])
    hosts = "".join(f"d-worker-{index}.d.lab.svc slots=2\n" for index in (0, 1))
    labels = workers["metadata"]["labels"]
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "d", "labels": labels},
        "data": {"hostfile": hosts},
    }
    pods = [_pod_of(launcher, 0), _pod_of(workers, 0), _pod_of(workers, 1)]
    return _site(launcher, workers, config, *pods)


def test_a_rank_of_mpi_is_found_by_the_host_file() -> None:
    """The slots of one host are filled after those of the other, up to `np`."""
    found = [chosen_pods("d", _mpi(), Wanted(rank=rank))[0] for rank in range(3)]
    names = [[pod["metadata"]["name"] for pod in pods] for pods in found]
    assert [["d-worker-0-x"], ["d-worker-0-x"], ["d-worker-1-x"]] == names
    with pytest.raises(InputError, match="has no rank 3") as caught:
        chosen_pods("d", _mpi(), Wanted(rank=3))
    assert "its ranks are 0 to 2" == caught.value.problem.hint


@pytest.mark.parametrize(
    "site",
    [
        _mpi(flags="2"),
        _mpi(env={"ALLRANKS_MPI_WRAP": ""}),
        _mpi(env={"ALLRANKS_MPI_MIN_HOSTS": "1"}),
        _mpi(env={"OMPI_MCA_rmaps_base_mapping_policy": "node"}),
    ],
)
def test_where_an_mpirun_of_the_users_own_places_ranks_nothing_is_said(site: Any) -> None:
    """Options of mpirun, another mpirun, a number of hosts that changes."""
    with pytest.raises(InputError, match="is not known: its mpirun decides") as caught:
        chosen_pods("d", site, Wanted(rank=1))
    assert "--role worker --node N" in (caught.value.problem.hint or "")


def test_an_event_of_several_lines_is_told_in_one() -> None:
    """What stood in a line of its own does not run into the one before."""
    assert "a b | c" == in_a_row(" a  b\n\n c \n")


def test_a_rank_of_an_elastic_job_with_ranks_is_found_by_its_plan() -> None:
    """PyTorch's ranks begin with the servers; where the framework has none, nothing is said."""
    servers, workers = _job("d-ps", 1, "ps", {}, []), _job("d-worker", 2, "worker", {}, [])
    hosts = {"ps": ["d-ps-0.d.lab.svc:1"], "worker": ["d-worker-0.d:1", "d-worker-1.d:1"]}
    plan = {"hosts": hosts, "ranks": ["ps", "worker"], "env": {"RANK": "{{ rank }}"}}

    def site(text: str) -> Any:
        config = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "d", "labels": servers["metadata"]["labels"]},
            "data": {"plan.json": text},
        }
        pods = [_pod_of(servers, 0), _pod_of(workers, 0), _pod_of(workers, 1)]
        return _site(servers, workers, config, *pods)

    ranked = site(json.dumps(plan))
    found = [chosen_pods("d", ranked, Wanted(rank=rank))[0][0] for rank in range(3)]
    names = [pod["metadata"]["name"] for pod in found]
    assert ["d-ps-0-x", "d-worker-0-x", "d-worker-1-x"] == names
    with pytest.raises(InputError, match="has no rank 3"):
        chosen_pods("d", ranked, Wanted(rank=3))
    for text in (json.dumps({**plan, "env": {}}), "no JSON", ""):
        with pytest.raises(InputError, match="nothing says how many processes"):
            chosen_pods("d", site(text), Wanted(rank=0))
