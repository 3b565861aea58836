from __future__ import annotations

import pytest

from allranks.convert.chart_values import finish
from allranks.convert.original import sets
from tests.converted import DATA, documents, lost, refusal, sample, text_as_jobs

ANNOTATION = "metadata.annotations.alpha.jobset.sigs.k8s.io/exclusive-topology"
POD = "spec.replicatedJobs[0].template.spec.template.spec"


def test_ranks_are_nodes_of_torchrun() -> None:
    """A replicated job whose pods run torchrun is a torchrun job of as many nodes."""
    values = sample("jobset.yaml", "pretrain").values
    assert ("torchrun", 4, 8) == (values["workload"], values["nodes"], values["gpusPerNode"])
    assert ["python3", "-u", "train.py", "--lr", "1e-5"] == values["command"][4:]


TWO_JOBS = """\
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: a}
spec: {replicatedJobs: [
  {name: lead, template: {spec: {template: {spec: {containers: [{name: c, image: i,
    command: [sh, -c, "R=0; torchrun --nnodes=3 --node_rank=$R t.py; echo"]}]}}}}},
  {name: w, template: {spec: {parallelism: 2, completions: 2, template: {spec: {containers: [{
    name: c, image: i, command: [sh, -c, "R=$((JOB_COMPLETION_INDEX+1)); torchrun --nnodes=3
    --node_rank=$R t.py; echo"]}]}}}}}]}
"""


def test_a_pod_s_number_in_one_of_several_jobs_is_another_here() -> None:
    """A script that counts from the lead's Job on would have rank 2 twice, and rank 1 never."""
    path = "spec.replicatedJobs[1].template.spec.template.spec.containers[0].command[2]"
    whys = {verdict.path: verdict.why for verdict in text_as_jobs(TWO_JOBS).conversions[0].lost}
    assert whys[path].endswith("here it is that among all of 3 pods")


@pytest.mark.parametrize("kind", ["labels", "annotations"])
@pytest.mark.parametrize(("sets", "is_lost"), [(2, True), (1, False)])
def test_a_variable_with_a_pod_s_number_in_one_of_several_jobs_is_said(
    kind: str, sets: int, *, is_lost: bool
) -> None:
    """Kubernetes writes on each pod which of its Job's it is, and here all are of one Job."""
    conversion = text_as_jobs(
        "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {name: a}\nspec: "
        f"{{replicatedJobs: [{{name: w, replicas: {sets}, template: {{spec: {{parallelism: 4, "
        "completions: 4, template: {spec: {containers: [{name: c, image: i, "
        "command: [torchrun, t.py], env: [{name: SHARD, valueFrom: {fieldRef: {fieldPath: "
        f"\"metadata.{kind}['batch.kubernetes.io/job-completion-index']\"}}}}}}]}}]}}}}}}}}}}]}}"
    ).conversions[0]
    assert is_lost == any(
        path.startswith(f"{POD}.containers[0].env[0]") for path in lost(conversion)
    )


def test_its_jobs_are_indexed_where_they_say_no_mode() -> None:
    """Its webhook has them be so: the pods that a conversion is compared with have an index."""
    container = {"name": "c", "image": "i", "command": ["torchrun", "t.py"]}
    spec = {"parallelism": 2, "template": {"spec": {"containers": [container]}}}
    job = {"name": "a", "template": {"spec": spec}}
    pods = sets.pods_of_jobset({"metadata": {"name": "j"}, "spec": {"replicatedJobs": [job]}})
    assert ["0", "1"] == [pod.env["JOB_COMPLETION_INDEX"] for pod in pods]


def test_the_policy_of_a_run() -> None:
    """Times, retries, fatal exit codes and the queue are those of the JobSet and its Job."""
    values = sample("jobset.yaml", "pretrain").values
    policy = {
        "suspend": True,
        "ttlSecondsAfterFinished": 600,
        "activeDeadlineSeconds": 3600,
        "backoffLimit": 2,
        "fatalExitCodes": [42],
    }
    assert (policy, "gpus") == (values["runPolicy"], values["queue"])


def test_a_claim_of_the_set_is_a_volume_of_the_run() -> None:
    """What a JobSet claims is claimed by the chart, at the place where it was mounted."""
    volume = {
        "mountPath": "/ckpt",
        "size": "100Gi",
        "keep": True,
        "accessModes": ["ReadWriteMany"],
        "storageClassName": "fast",
    }
    values = sample("jobset.yaml", "pretrain").values
    assert {"checkpoints": volume} == values["storage"]
    assert "spec" not in values["podTemplate"]


CLAIMS = """
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: train}
spec:
  volumeClaimPolicies:
  - templates:
    - metadata: {name: ckpt, labels: {team: a}}
      spec: {accessModes: [ReadWriteMany], resources: {requests: {storage: 10Gi}}}
    - metadata: {name: cache}
      spec: {accessModes: [ReadWriteMany], resources: {requests: {storage: 1Gi}}}
  replicatedJobs:
  - name: workers
    template:
      spec:
        template:
          spec:
            initContainers:
            - {name: fetch, image: x, volumeMounts: [{name: cache, mountPath: /cache}]}
            containers:
            - name: main
              image: x
              command: [torchrun, train.py]
              volumeMounts: [{name: ckpt, mountPath: /ckpt}, {name: cache, mountPath: /cache}]
"""


def test_what_a_claim_of_the_set_has_besides_its_size() -> None:
    """It goes with the JobSet; its labels have no place, and an init container no volume of it."""
    conversion = text_as_jobs(CLAIMS).conversions[0]
    assert {"checkpoints": False} == {
        name: volume["keep"] for name, volume in conversion.values["storage"].items()
    }
    reasons = {verdict.path: verdict.why for verdict in conversion.lost}
    templates = "spec.volumeClaimPolicies[0].templates"
    assert "labels" in reasons[f"{templates}[0].metadata.labels.team"]
    size = reasons[f"{templates}[1].spec.resources.requests.storage"]
    assert "a container besides the one that trains mounts it" in size


def test_the_claims_of_a_set_whose_pods_are_trials() -> None:
    """They are volumes of the run, which the container mounts once, and nothing else is said."""
    text = CLAIMS.replace("[torchrun, train.py]", "[work]").replace("ckpt", "checkpoints")
    conversion = text_as_jobs(text).conversions[0]
    assert {"checkpoints": "/checkpoints"} == {
        name: volume["mountPath"] for name, volume in conversion.values["storage"].items()
    }
    assert not any("which is not there" in note for note in conversion.notes)
    mounts = [path for path in lost(conversion) if "].containers[0].volumeMounts[0]" in path]
    assert [] == mounts


def test_a_variable_of_a_variable_that_is_not_there() -> None:
    """What takes up a variable that only the old controller could fill is not carried either."""
    variables = (
        'env: [{name: HOST, valueFrom: {fieldRef: {fieldPath: "metadata.labels['
        "'jobset.sigs.k8s.io/coordinator']\"}}}, {name: AT, value: $(HOST):80}]"
    )
    text = CLAIMS.replace("command: [torchrun", f"{variables}\n              command: [torchrun")
    reasons = {verdict.path: verdict.why for verdict in text_as_jobs(text).conversions[0].lost}
    path = "spec.replicatedJobs[0].template.spec.template.spec.containers[0].env[1].value"
    assert "it takes up HOST, which is not there" == reasons[path]


def test_the_claims_of_a_set_are_volumes_of_its_pods() -> None:
    """JobSet gives each pod that mounts a claim the volume of it, and the comparison knows."""
    pods = sets.pods_of_jobset(dict(documents(CLAIMS)[0].data))
    claims = [volume["persistentVolumeClaim"]["claimName"] for volume in pods[0].spec["volumes"]]
    assert ["ckpt-train", "cache-train"] == claims


def test_names_of_pods_are_the_address_of_rank_0() -> None:
    """A variable that names the first pod is given the address that this pod has here."""
    values = sample("jobset.yaml", "pretrain").values
    assert 'export FIRST="$MASTER_ADDR"; exec "$@"' == values["command"][2]
    assert "env" not in values


@pytest.mark.parametrize(
    ("value", "is_lost"), [("a-w-0-1", True), ("a-w-0", True), ("a-w-2026-11-27-01", False)]
)
def test_a_date_behind_the_name_of_a_job_is_no_pod(value: str, *, is_lost: bool) -> None:
    """A variable that tells runs apart by their time names no pod of the old controller."""
    conversion = text_as_jobs(
        "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {name: a}\nspec:\n"
        "  replicatedJobs: [{name: w, template: {spec: {parallelism: 2, completions: 2, template: "
        "{spec: {containers: [\n    {name: c, image: i, command: [torchrun, a.py], env: "
        f"[{{name: ID, value: {value}}}, {{name: X, value: y}}]}}]}}}}}}}}}}]\n"
    ).conversions[0]
    assert is_lost == any(".env[0]" in path for path in lost(conversion))


def test_what_a_jobset_alone_can_do_is_lost() -> None:
    """A domain for itself, and what JobSet writes on its pods, are not carried."""
    entry = f"{POD}.containers[0].env[2]"
    expected = {ANNOTATION, f"{entry}.name", f"{entry}.valueFrom.fieldRef.fieldPath"}
    assert expected == lost(sample("jobset.yaml", "pretrain"))


def test_a_domain_that_one_of_its_jobs_has_is_lost_too() -> None:
    """The annotation may stand on a replicated job; the pods of a single one are kept together."""
    key = "alpha.jobset.sigs.k8s.io/exclusive-topology"
    conversion = text_as_jobs(
        "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {name: a}\nspec:\n"
        f"  replicatedJobs: [{{name: w, template: {{metadata: {{annotations: {{{key}: pool}}}},\n"
        "    spec: {parallelism: 2, completions: 2, template: {spec: {containers: [\n"
        "    {name: c, image: i, command: [torchrun, --nnodes=2, a.py]}]}}}}}]\n"
    ).conversions[0]
    assert {f"spec.replicatedJobs[0].template.metadata.annotations.{key}"} == lost(conversion)
    assert {"block": "pool"} == conversion.values["scheduling"]["topology"]["labels"]


def test_a_launcher_and_its_workers_are_an_mpi_job() -> None:
    """The replicated job that runs mpirun is the launcher, the other one the workers."""
    conversion = sample("jobset.yaml", "ring")
    assert ("mpi", 2) == (conversion.values["workload"], conversion.values["mpi"]["numWorkers"])
    assert set() == lost(conversion)


def test_a_step_before_the_training_is_lost() -> None:
    """A replicated job that is over before the others is no part of a run, and that is said."""
    conversion = sample("jobset.yaml", "steps")
    assert 2 == conversion.values["nodes"]
    assert f"{POD}.containers[0].image" in lost(conversion)


def test_programs_of_their_own_are_refused() -> None:
    """Roles that no framework knows are refused, with what to do."""
    pods = "template: {spec: {containers: [{name: c, image: i, command: [sleep, '1']}]}}"
    problem = refusal(
        "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {name: a}\nspec:\n"
        f"  replicatedJobs:\n  - {{name: driver, template: {{spec: {{{pods}}}}}}}\n"
        f"  - {{name: workers, template: {{spec: {{{pods}}}}}}}\n"
    )
    assert "the pods of driver, workers run programs of their own" in problem.message
    assert "keep the JobSet for it" in problem.hint
    by_role = pods.replace("image: i", "image: i, env: [{name: ROLE, value: '%s'}]")
    problem = refusal(
        "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {name: a}\nspec:\n"
        f"  replicatedJobs:\n  - {{name: a, template: {{spec: {{{by_role % 'a'}}}}}}}\n"
        f"  - {{name: b, template: {{spec: {{{by_role % 'b'}}}}}}}\n"
    )
    assert "the pods of a, b run one program, with roles by its variables" in problem.message
    jax = pods.replace("image: i", "image: i, env: [{name: COORDINATOR_ADDRESS, value: a-0-0.a}]")
    problem = refusal(
        "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {name: a}\nspec:\n"
        f"  replicatedJobs: [{{name: a, template: {{spec: {{completions: 2, {jax}}}}}}}]\n"
    )
    assert problem.message.startswith("its program is JAX's, which finds its coordinator by")
    own = jax.replace("COORDINATOR", "JAX_COORDINATOR").replace(
        "env: [", "env: [{name: NODE_RANK, value: '0'}, "
    )
    problem = refusal(
        "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {name: a}\nspec:\n"
        f"  replicatedJobs: [{{name: a, template: {{spec: {{{own}}}}}}}]\n"
    )
    assert problem.message.startswith("its program is JAX's, which finds its coordinator by")


def test_a_torchrun_of_single_nodes_is_said() -> None:
    """Without --nnodes each pod trained by itself; that they train together here is said."""
    job = (
        "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {name: a}\nspec:\n"
        "  replicatedJobs:\n  - name: w\n    template:\n      spec:\n        parallelism: 2\n"
        "        completions: 2\n        template: {spec: {containers: [{name: c, image: i, "
        "command: [torchrun, a.py]}]}}\n"
    )
    conversion = text_as_jobs(job).conversions[0]
    assert {f"{POD}.containers[0].command[0]", f"{POD}.containers[0].command[1]"} == lost(
        conversion
    )


def test_many_pods_are_trials_that_validate_takes() -> None:
    """All pods of all jobs are trials; that plain Helm has fewer of them is said."""
    text = (
        "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {name: many}\nspec:\n"
        "  replicatedJobs:\n  - name: workers\n    replicas: %s\n    template: {spec: "
        "{parallelism: 3000, completions: 3000, template: {spec: {containers: "
        "[{name: main, image: x, command: [python3 train.py]}]}}}}\n"
    )
    conversion = text_as_jobs(text % 5).conversions[0]
    assert (15_000, []) == (
        conversion.values["sweep"]["trials"],
        finish.problems_of(conversion.values, "sweep", conversion.name),
    )
    assert any("plain Helm has at most 10,000 trials" in note for note in conversion.notes)
    assert "spec.replicatedJobs[0].replicas" == refusal(text % 50).path


MESH = """
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: mesh}
spec:
  replicatedJobs:
  - name: worker
    template:
      spec:
        template:
          spec:
            containers:
            - name: main
              image: x
              env:
              - name: JOB
                valueFrom: {fieldRef: {fieldPath: "metadata.labels['job-name']"}}
              command:
              - bash
              - -c
              - |
                for i in $(seq 0 1); do getent hosts ${JOB}-${i}.mesh; done
                torchrun train.py
"""


def test_hosts_that_a_script_names_by_its_job() -> None:
    """A script that makes its pods' names of its Job's finds none of them, and that is said."""
    conversion = text_as_jobs(MESH).conversions[0]
    assert f"{POD}.containers[0].command[2]" in lost(conversion)


def test_a_pod_whose_mpirun_is_alone() -> None:
    """It starts its ranks in its own pod; with a list of hosts it is half of a job, and refused."""
    local = MESH.replace("torchrun train.py", "mpirun -np 4 all_gather_perf")
    values = text_as_jobs(local).conversions[0].values
    trials = values["sweep"]["parameters"]["index"]["range"]
    assert ("sweep", {"min": 0, "max": 0}) == (values["workload"], trials)
    hosts = local.replace("-np 4", "-np 4 --hostfile /etc/hosts.mpi")
    assert "none of its pods are those" in refusal(hosts).message
    variable = local.replace("name: JOB", "name: OMPI_MCA_orte_default_hostfile")
    assert "none of its pods are those" in refusal(variable).message


NAMED = """
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: flux}
spec:
  network: {subdomain: m}
  replicatedJobs:
  - name: worker
    template:
      spec:
        parallelism: 4
        completions: 4
        template:
          spec:
            containers:
            - {name: main, image: x, command: [bash, -c, "start --brokers flux-worker-0-[0-3]"]}
"""


def test_pods_that_reach_each_other_are_no_trials() -> None:
    """Where nothing starts ranks, and the program names the other pods, trials would not meet."""
    assert "they are no trials" in refusal(NAMED).message
    by_default = NAMED.replace("  network: {subdomain: m}\n", "")
    assert "they are no trials" in refusal(by_default).message
    without_names = NAMED.replace("subdomain: m", "enableDNSHostnames: false")
    assert "sweep" == text_as_jobs(without_names).conversions[0].values["workload"]
    command = 'command: [bash, -c, "start --brokers flux-worker-0-[0-3]"]'
    variable = "env: [{name: FIRST, value: flux-worker-0-0.flux}], command: [start]"
    assert "they are no trials" in refusal(by_default.replace(command, variable)).message
    plain = NAMED.replace("flux-worker-0-[0-3]", "other")
    assert "sweep" == text_as_jobs(plain).conversions[0].values["workload"]


def test_pods_whose_script_makes_their_names_of_the_set_are_no_trials() -> None:
    """It reads the names of the JobSet and of its Job; a folder of such a name is no pod."""
    names = (
        "[{name: SET, valueFrom: {fieldRef: {fieldPath: "
        "\"metadata.annotations['jobset.sigs.k8s.io/jobset-name']\"}}}, {name: JOB, valueFrom: "
        "{fieldRef: {fieldPath: \"metadata.labels['jobset.sigs.k8s.io/replicatedjob-name']\"}}}]"
    )
    head = "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {name: a}\nspec:\n"

    def job(script: str) -> str:
        return (
            f"{head}  replicatedJobs: [{{name: w, template: {{spec: {{completions: 2, parallelism: "
            f"2, template: {{spec: {{containers: [{{name: c, image: i, env: {names}, command: "
            f"[sh, -c, '{script}']}}]}}}}}}}}}}]\n"
        )

    problem = refusal(job("run --first=${SET}-${JOB}-0-0.${SET}"))
    assert "its pods reach each other by their names" in problem.message
    assert "sweep" == text_as_jobs(job("run --out=/d/${SET}-out")).conversions[0].values["workload"]


@pytest.mark.parametrize(
    ("policy", "is_noted"),
    [("", True), ("successPolicy: {operator: Any, targetReplicatedJobs: [chief]}", False)],
)
def test_with_whose_end_a_jobset_of_roles_is_over_is_said(policy: str, *, is_noted: bool) -> None:
    """A JobSet is done when all of its Jobs are, where it does not say otherwise."""
    template = (
        '{spec: {template: {spec: {containers: [{name: t, image: "a/b:1", '
        "command: [python, t.py], env: [{name: TF_CONFIG, value: x}]}]}}}}"
    )
    jobs = "".join(
        f"  - {{name: {name}, template: {template}}}\n" for name in ("chief", "ps", "worker")
    )
    text = (
        "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {name: a}\n"
        f"spec:\n  {policy}\n  replicatedJobs:\n{jobs}"
    )
    notes = text_as_jobs(text).conversions[0].notes
    assert is_noted == any("the run is over with its chief" in note for note in notes)


def test_a_job_to_wait_for_that_is_not_there_is_lost() -> None:
    """The API refuses such a JobSet."""
    text = (DATA / "jobset.yaml").read_text(encoding="utf-8").split("---")[0]
    waits = "  - name: workers\n    dependsOn: [{name: fetch, status: Ready}]\n"
    [conversion] = text_as_jobs(text.replace("  - name: workers\n", waits, 1)).conversions
    own = [verdict for verdict in conversion.lost if ".dependsOn[0]" in verdict.path]
    assert own
    assert all("no replicated job fetch" in verdict.why for verdict in own)


def test_how_many_failures_a_set_may_have_is_counted_aloud() -> None:
    """Two restarts of Jobs with Kubernetes' own number of retries are 20 failures."""
    [conversion] = text_as_jobs(
        "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {name: a}\nspec:\n"
        "  failurePolicy: {maxRestarts: 2}\n  replicatedJobs:\n  - name: w\n    template:\n"
        "      spec: {parallelism: 2, completions: 2, template: {spec: {restartPolicy: Never, "
        "containers: [{name: c, image: i, command: [torchrun, t.py]}]}}}\n"
    ).conversions
    assert 20 == conversion.values["runPolicy"]["backoffLimit"]
    [why] = [v.why for v in conversion.verdicts if v.path == "spec.failurePolicy.maxRestarts"]
    assert "starts anew 2 times, each when a Job of it has had 6 retries" in why
    assert "20 in all" in why


@pytest.mark.parametrize(("slots", "processes"), [("8", None), ("2", 2), ("$N", 1)])
def test_slots_of_a_list_that_a_script_writes_are_the_hosts(
    slots: str, processes: int | None
) -> None:
    """Without -np they say how many ranks there are; each host had one."""
    script = f"for i in 0 1; do echo $J-$i.a slots={slots} >> /tmp/hosts; done; "
    script += "if [ $JOB_COMPLETION_INDEX -eq 0 ]; then mpirun --hostfile /tmp/hosts ./a; fi"
    text = (
        "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {name: a}\n"
        "spec: {replicatedJobs: [{name: w, template: {spec: {parallelism: 2, completions: 2, "
        "template: {spec: {containers: [{name: c, image: i, env: [{name: J, valueFrom: {fieldRef: "
        "{fieldPath: \"metadata.labels['job-name']\"}}}], command: [bash, -c, '"
        + script
        + "'], resources: {limits: {nvidia.com/gpu: 8}}}]}}}}}]}\n"
    )
    values = text_as_jobs(text).conversions[0].values
    assert ("mpi", 8, processes) == (
        values["workload"],
        values["gpusPerNode"],
        values.get("procsPerNode"),
    )
