"""Which pods of a run `allranks logs` means."""

from __future__ import annotations

import json
from typing import Any

import pytest

from allranks.cli.commands import logs as module
from allranks.cli.commands.events import in_a_row
from allranks.cli.main import main
from allranks.cli.pod_choice import check_selection, select_pods
from allranks.cli.target import Target
from allranks.errors import InputError
from allranks.model.rank_lines import LineSelection, LogWriters, of_mpi
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
    (pod,), _ = select_pods("g", site, LineSelection(node=1, role=role))
    assert "g-1-x" == pod["metadata"]["name"]
    with pytest.raises(InputError, match="trial 3 of run 'g' has no pod now: it has not begun"):
        select_pods("g", site, LineSelection(node=3, role=role))
    with pytest.raises(InputError, match="has no trial 4") as excinfo:
        select_pods("g", site, LineSelection(node=4, role=role))
    assert "its pods are trial-0, trial-1" == excinfo.value.problem.hint


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
    with pytest.raises(InputError, match="is a sweep inside the cluster") as excinfo:
        select_pods("ic", _site(runner, record), LineSelection())
    assert "`allranks sweep status ic`" in excinfo.value.problem.hint


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


def _torchrun(nodes: str = "2", **fields: str) -> Any:
    env = {"PET_NNODES": nodes, "PET_NPROC_PER_NODE": "4", "ALLRANKS_NODE_RANK": "", **fields}
    job = _job("d", 2, "node", env, [])
    return _site(job, _pod_of(job, 0), _pod_of(job, 1))


@pytest.mark.parametrize(("rank", "pod"), [(0, "d-0-x"), (3, "d-0-x"), (4, "d-1-x"), (7, "d-1-x")])
def test_a_rank_is_a_process_and_leads_to_its_pod(rank: int, pod: str) -> None:
    """Two nodes with four processes each: rank 4 is the first of node 1."""
    (selected_pod,), _ = select_pods("d", _torchrun(), LineSelection(rank=rank))
    assert pod == selected_pod["metadata"]["name"]


def test_a_rank_that_there_is_not() -> None:
    """Which ranks there are is said."""
    with pytest.raises(InputError, match="run 'd' has no rank 8") as excinfo:
        select_pods("d", _torchrun(), LineSelection(rank=8))
    assert "its ranks are 0 to 7" == excinfo.value.problem.hint


@pytest.mark.parametrize(
    "site", [_torchrun("1:2"), _torchrun(PET_LOCAL_ADDR=""), _site(_job("d", 2, "worker", {}, []))]
)
def test_a_rank_whose_pod_is_not_fixed_is_refused(site: Any) -> None:
    """Nodes that join and leave, a store of the user's own, roles without ranks."""
    with pytest.raises(InputError, match="which pod of run 'd' has rank 5 is not known") as excinfo:
        select_pods("d", site, LineSelection(rank=5))
    assert "--node N" in (excinfo.value.problem.hint or "")


def test_rank_0_of_nodes_that_join_and_leave_is_on_node_0() -> None:
    """It keeps the store, whoever else is there."""
    (pod,), _ = select_pods("d", _torchrun("1:2"), LineSelection(rank=0))
    assert "d-0-x" == pod["metadata"]["name"]


def test_a_rank_and_another_name_of_a_pod_contradict_each_other() -> None:
    """One of them is enough."""
    with pytest.raises(InputError, match="--rank names one process of the whole job, and --node"):
        check_selection(LineSelection(rank=1, node=0))
    with pytest.raises(InputError, match="--rank names one process of the whole job, and --role"):
        check_selection(LineSelection(rank=1, role="worker"))


def _mpi(**fields: Any) -> Any:
    """A launcher, and two workers with two slots; mpirun starts three processes."""
    env = {"ALLRANKS_MPI_NP": "3", "ALLRANKS_MPI_WRAP": "1", "ALLRANKS_MPI_MIN_HOSTS": "2"}
    launcher = _job(
        "d-launcher", 1, "launcher", env | fields.get("env", {}), [fields.get("flags", "0")]
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
    selections = [select_pods("d", _mpi(), LineSelection(rank=rank))[0] for rank in range(3)]
    names = [[pod["metadata"]["name"] for pod in pods] for pods in selections]
    assert [["d-worker-0-x"], ["d-worker-0-x"], ["d-worker-1-x"]] == names
    with pytest.raises(InputError, match="has no rank 3") as excinfo:
        select_pods("d", _mpi(), LineSelection(rank=3))
    assert "its ranks are 0 to 2" == excinfo.value.problem.hint


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
    with pytest.raises(InputError, match="is not known: its mpirun decides") as excinfo:
        select_pods("d", site, LineSelection(rank=1))
    assert "--role worker --node N" in (excinfo.value.problem.hint or "")


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
    pods = [select_pods("d", ranked, LineSelection(rank=rank))[0][0] for rank in range(3)]
    names = [pod["metadata"]["name"] for pod in pods]
    assert ["d-ps-0-x", "d-worker-0-x", "d-worker-1-x"] == names
    with pytest.raises(InputError, match="has no rank 3"):
        select_pods("d", ranked, LineSelection(rank=3))
    for text in (json.dumps({**plan, "env": {}}), "no JSON", ""):
        with pytest.raises(InputError, match="nothing says how many processes"):
            select_pods("d", site(text), LineSelection(rank=0))


@pytest.mark.parametrize(
    ("args", "text", "rank"),
    [
        ([], "plain", None),
        ([], "[1,3]<stdout>:a line", 3),
        ([], "[prterun-host-77@1,0]<stderr>: a line", 0),
        ([], "[3] a line", None),
        (["2", "-prepend-rank", "-v"], "[3] a line", 3),
    ],
)
def test_mpirun_may_put_the_rank_before_a_line(
    args: list[str], text: str, rank: int | None
) -> None:
    """Only in the forms of an MPI; what it puts there stays part of the line."""
    env = [{"name": "ALLRANKS_MPI_MIN_HOSTS", "value": "0"}]
    writers = LogWriters.of({"env": env, "args": args})
    assert (rank, text) == writers.split(text)
    selection = of_mpi(3)
    assert selection.has_pod("launcher", 0, writers)
    assert not selection.has_pod("worker", 1, LogWriters())
    assert selection.has_line("launcher", writers, rank) is (rank in {None, 3})


def _log_of(site: Any, rank: int) -> list[str]:
    pods, _ = select_pods("d", site, LineSelection(rank=rank), by_line=True)
    return [pod["metadata"]["name"] for pod in pods]


def test_the_log_of_a_rank_of_mpi_is_in_the_launchers_lines() -> None:
    """Its own pod writes nothing, whichever it is; a rank that there is not is still refused."""
    for rank in (0, 2):
        assert ["d-launcher-0-x"] == _log_of(_mpi(), rank)
    with pytest.raises(InputError, match="has no rank 3"):
        select_pods("d", _mpi(), LineSelection(rank=3), by_line=True)


@pytest.mark.parametrize("site", [_mpi(flags="2"), _mpi(env={"ALLRANKS_MPI_WRAP": ""})])
def test_the_log_of_a_rank_needs_no_place_of_it(site: Any) -> None:
    """Wherever an mpirun of the user's own puts a rank, the launcher has its lines."""
    assert ["d-launcher-0-x"] == _log_of(site, 1)


def test_the_launchers_lines_are_said_to_be_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Once, where a rank was asked for, and on stderr: what is read on is the lines alone."""
    lines = [
        {"who": "launcher-0", "role": "launcher", "text": text} for text in ("first", "second")
    ]
    monkeypatch.setattr(module, "_cluster_lines", lambda *_, **__: iter(lines))
    monkeypatch.setattr(Target, "cluster_target", lambda *_: object())
    assert 0 == main(["logs", "d", "--rank", "1"])
    output = capsys.readouterr()
    assert 1 == output.err.count("mpirun writes what its ranks do")
    assert "those of rank 1 among them" in output.err
    assert "mpirun" not in output.out
    assert 0 == main(["logs", "d"])
    assert "mpirun" not in capsys.readouterr().err
