from __future__ import annotations

from typing import Any

from allranks.convert import compare, original
from allranks.convert.original import mpi


def _release(container: dict[str, Any]) -> dict[str, Any]:
    """A Job of a release with one pod, whose container is named as ours are."""
    spec = {"containers": [{"name": "trainer", "image": "x:1", **container}]}
    labels = {"allranks.dev/role": "node"}
    template = {"metadata": {"labels": labels}, "spec": spec}
    return {"kind": "Job", "spec": {"completions": 1, "template": template}}


def _original(container: dict[str, Any]) -> original.Pod:
    spec = {"containers": [{"name": "main", "image": "x:1", **container}]}
    return original.Pod("job-0", "node", 0, spec, "main", world=1, ranks=1)


def test_what_a_job_sets_itself_is_no_difference() -> None:
    """A script that reads MASTER_ADDR is the same, whatever the old manifest had typed there."""
    script = ["sh", "-c", "exec python3 t.py --at=$MASTER_ADDR --data=$DATA"]
    env = [{"name": "MASTER_ADDR", "value": "job-0.svc"}, {"name": "DATA", "value": "/d"}]
    theirs = _original({"command": script, "env": env})
    ours = _release({"args": script, "env": env[1:]})
    assert [] == compare.differences([theirs], [ours])


def test_an_amount_of_nothing_is_none() -> None:
    """`cpu:` without a value is no limit, as to Kubernetes."""
    amounts = {"limits": {"cpu": None, "memory": "1Gi"}}
    theirs = _original({"command": ["a"], "resources": amounts})
    ours = _release({"args": ["a"], "resources": {"limits": {"memory": "1Gi"}}})
    assert [] == compare.differences([theirs], [ours])


def test_the_launcher_of_old_mpi_jobs_has_an_account() -> None:
    """Each version but v2beta1 reaches the workers through the API, with an account of its own."""
    accounts = {}
    for version in ("v1alpha2", "v1", "v2beta1"):
        pod = {"template": {"spec": {"containers": [{"name": "m", "image": "x:1"}]}}}
        specs = {"Launcher": pod, "Worker": pod}
        job = {"apiVersion": f"kubeflow.org/{version}", "kind": "MPIJob"}
        job |= {"metadata": {"name": "j"}, "spec": {"mpiReplicaSpecs": specs}}
        launcher = next(item for item in mpi.pods(job) if item.role == "launcher")
        accounts[version] = launcher.spec.get("serviceAccountName")
    assert {"v1alpha2": "j-launcher", "v1": "j-launcher", "v2beta1": None} == accounts
