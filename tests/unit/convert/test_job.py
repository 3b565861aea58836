from __future__ import annotations

import pytest

from allranks.convert.verdicts import Outcome
from tests.converted import DATA, lost, refusal, sample, text_as_jobs


def test_nodes_of_torchrun() -> None:
    """An Indexed Job that runs torchrun is a torchrun job, and nothing of it is lost."""
    conversion = sample("job.yaml", "nodes")
    values = conversion.values
    assert ("torchrun", 2, 2, 4) == (
        values["workload"],
        values["nodes"],
        values["gpusPerNode"],
        values["runPolicy"]["backoffLimit"],
    )
    assert (["python3", "-u", "train.py"], set()) == (values["command"], lost(conversion))


UNCOUNTED = """\
apiVersion: batch/v1
kind: Job
metadata: {name: a}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i, env: ENV,
  command: COMMAND, resources: {limits: {nvidia.com/gpu: 4}}}]}}}
"""


def test_a_torchrun_that_says_no_number_of_processes_starts_one() -> None:
    """Nobody but a PyTorchJob's operator tells it another: on four GPUs it had one, and has."""
    own = UNCOUNTED.replace("COMMAND", "[torchrun, t.py]")
    conversion = text_as_jobs(own.replace("ENV", "[]")).conversions[0]
    assert (4, 1) == tuple(conversion.values[key] for key in ("gpusPerNode", "procsPerNode"))
    assert any("one process in each pod" in note for note in conversion.notes)
    variable = own.replace("ENV", "[{name: PET_NPROC_PER_NODE, value: '2'}]")
    assert 2 == text_as_jobs(variable).conversions[0].values["procsPerNode"]
    variable = own.replace("ENV", "[{name: PET_NPROC_PER_NODE, value: gpu}]")
    assert "procsPerNode" not in text_as_jobs(variable).conversions[0].values


def test_more_processes_than_a_pod_has_gpus_are_said() -> None:
    """Each needs a GPU of its own here: what asks for more is not carried."""
    for env, words in (
        ("[]", "[torchrun, --nproc-per-node=8, t.py]"),
        (
            "[{name: PET_NPROC_PER_NODE, value: '8'}]",
            "[torchrun, t.py]",
        ),
    ):
        text = UNCOUNTED.replace("ENV", env).replace("COMMAND", words)
        reasons = {verdict.why for verdict in text_as_jobs(text).conversions[0].lost}
        assert any("8 processes would share 4 GPUs" in reason for reason in reasons)


def test_a_script_s_torchrun_that_says_no_number_of_processes_starts_one() -> None:
    """It is told so as well where each pod runs the script as it is."""
    script = UNCOUNTED.replace("COMMAND", "[bash, -c, for i in 1 2; do torchrun t.py; done]")
    values = text_as_jobs(script.replace("ENV", "[]")).conversions[0].values
    assert "PET_NPROC_PER_NODE=1" in values["command"][2]


ACCELERATE = """\
apiVersion: batch/v1
kind: Job
metadata: {name: ft}
spec: {completionMode: Indexed, completions: 2, parallelism: 2, template: {spec: {subdomain: svc,
  containers: [{name: c, image: i, command: [bash, -c, "accelerate launch --num_machines 2
    --machine_rank $JOB_COMPLETION_INDEX --main_process_ip ft-0.svc --main_process_port 29500
    a.py"]}]}}}
"""


def test_a_launcher_in_each_pod_meets_at_rank_0() -> None:
    """It is given rank 0's address, and the chart's own rendezvous another port than it has."""
    conversion = text_as_jobs(ACCELERATE).conversions[0]
    assert "--main_process_ip ${MASTER_ADDR} --main" in conversion.values["command"][-1]
    assert (29501, set()) == (conversion.values["torchrun"]["port"], lost(conversion))
    for other in ("'ft-0.svc'", "ft-1.svc", "ft-0.$SVC"):
        text = ACCELERATE.replace("ft-0.svc", other).replace("29500", "29600")
        conversion = text_as_jobs(text).conversions[0]
        assert "port" not in conversion.values["torchrun"]
        assert lost(conversion)


WAITING = """\
apiVersion: batch/v1
kind: Job
metadata: {name: a}
spec: {completionMode: Indexed, completions: 2, parallelism: 2, template: {spec: {subdomain: svc,
  initContainers: [{name: wait, image: b, command: [sh, -c, "until nslookup a-0.svc"]}],
  containers: [{name: c, image: i, command: [torchrun, --nnodes=2,
    --node_rank=$(JOB_COMPLETION_INDEX), --master_addr=a-0.svc, t.py]}]}}}
---
apiVersion: v1
kind: Service
metadata: {name: svc}
spec: {clusterIP: None, selector: {job-name: a}}
"""


def test_an_init_container_that_waits_for_rank_0_is_named() -> None:
    """It waits for a name that no release has, where the program is told of rank 0 as it is."""
    result = text_as_jobs(WAITING)
    path = "spec.template.spec.initContainers[0].command[2]"
    assert {path} == lost(result.conversions[0])
    assert ["the chart makes a headless Service for the job's own pods"] == [
        item.why for item in result.beside
    ]
    same = text_as_jobs(WAITING.replace("svc", "a")).conversions[0]
    assert set() == lost(same)
    assert f"{path} names pods of the release a: give the release this name" in same.notes


def test_pods_that_know_nothing_of_each_other_are_trials() -> None:
    """Each completion is a trial, with its index where the program reads it."""
    conversion = sample("job.yaml", "shards")
    sweep = {
        "parameters": {"index": {"range": {"min": 0, "max": 9}, "env": "COMPLETION_INDEX"}},
        "parallel": 3,
        "maxFailedTrials": 2,
    }
    values = conversion.values
    assert (sweep, 'export SHARD="$COMPLETION_INDEX"\n') == (values["sweep"], values["setup"])
    assert {"KIND": "text"} == values["env"]
    assert (1, set()) == (values["runPolicy"]["backoffLimit"], lost(conversion))


def test_a_pod_alone_is_a_sweep_of_one_trial() -> None:
    """A Job of one pod that starts no ranks runs its program as it is."""
    values = sample("job.yaml", "alone").values
    assert (["prepare"], 0) == (
        values["command"],
        values["sweep"]["parameters"]["index"]["range"]["max"],
    )


INDEXED = (
    "apiVersion: batch/v1\nkind: Job\nmetadata: {name: many}\nspec:\n  completions: %s\n"
    "  template: {spec: {containers: [{name: a, image: x, command: [python, a.py]}]}}\n"
)


def test_many_pods_are_as_many_trials() -> None:
    """A sweep of many trials says how many there are, and there are no more than it may have."""
    many = text_as_jobs(INDEXED % 50_000).conversions[0].values
    assert (50_000, 49_999) == (
        many["sweep"]["trials"],
        many["sweep"]["parameters"]["index"]["range"]["max"],
    )
    for count in (200_000, 2**63):
        assert "spec.completions" == refusal(INDEXED % count).path


INDEXED_BASH = """
apiVersion: batch/v1
kind: Job
metadata: {name: shards}
spec:
  completions: 3
  completionMode: Indexed
  template:
    spec:
      containers:
      - name: a
        image: x
        env:
        - name: SHARD
          valueFrom:
            fieldRef: {fieldPath: "metadata.labels['batch.kubernetes.io/job-completion-index']"}
        command:
        - bash
        - -c
        - |
          [[ -d /data ]] && mkdir -p /data/out
          python a.py
"""


def test_a_setup_of_bash_that_knows_its_index() -> None:
    """It stays bash's, and what is made of the index reaches the program that runs after it."""
    values = text_as_jobs(INDEXED_BASH).conversions[0].values
    assert ["#!/bin/bash", 'export SHARD="$COMPLETION_INDEX"'] == values["setup"].splitlines()[:2]
    exports = 'export SHARD="$COMPLETION_INDEX"; exec "$@"'
    assert ["sh", "-c", exports, "sh", "python", "a.py"] == values["command"]


def test_a_pod_alone_that_waits_in_a_queue() -> None:
    """A Job that Kueue starts is created suspended, and nothing of that is lost."""
    conversion = text_as_jobs(
        "apiVersion: batch/v1\nkind: Job\n"
        "metadata: {name: a, labels: {kueue.x-k8s.io/queue-name: lab}}\n"
        "spec: {suspend: true, template: {spec: {containers: "
        "[{name: c, image: i, command: [sh, -c, 'mkdir -p /a; work']}]}}}\n"
    ).conversions[0]
    values = conversion.values
    assert (True, "lab", set()) == (
        values["runPolicy"]["suspend"],
        values["queue"],
        lost(conversion),
    )
    assert values["setup"].startswith("set +e")


def test_the_service_of_the_pods_is_not_needed() -> None:
    """A headless Service that only names the job's pods is made by the chart."""
    result = text_as_jobs((DATA / "job.yaml").read_text())
    assert [("Service", "nodes", False)] == [(i.kind, i.name, i.is_needed) for i in result.beside]


def test_tpus_are_refused() -> None:
    """What asks for TPUs is refused in a sentence."""
    problem = refusal(
        "apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\nspec: {template: {spec: "
        "{containers: [{name: c, image: i, command: [python, a.py], "
        "resources: {limits: {google.com/tpu: 4}}}]}}}\n"
    )
    assert "it asks for TPUs, on which allranks starts nothing" == problem.message


def test_a_step_beside_a_job_is_named() -> None:
    """A Job that starts no ranks and cannot be converted keeps no other job from it."""
    result = text_as_jobs(
        "apiVersion: batch/v1\nkind: Job\nmetadata: {name: step}\nspec: {template: {spec: "
        "{containers: [{name: c, image: i}]}}}\n---\n"
        "apiVersion: batch/v1\nkind: Job\nmetadata: {name: b}\nspec: {template: {spec: "
        "{containers: [{name: c, image: i, command: [torchrun, b.py]}]}}}\n"
    )
    assert ["b"] == [conversion.name for conversion in result.conversions]
    assert [("Job", "step", True)] == [(i.kind, i.name, i.is_needed) for i in result.beside]


def test_a_job_beside_others_is_left_out_for_its_own_reason() -> None:
    """A training on TPUs beside a job is no Job that starts no ranks."""
    result = text_as_jobs(
        "apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\nspec: {template: {spec: "
        "{containers: [{name: c, image: i, command: [torchrun, a.py], "
        "resources: {limits: {google.com/tpu: 4}}}]}}}\n---\n"
        "apiVersion: batch/v1\nkind: Job\nmetadata: {name: b}\nspec: {template: {spec: "
        "{containers: [{name: c, image: i, command: [torchrun, b.py]}]}}}\n---\n"
        "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: c}\n"
    )
    why = "it is not converted: it asks for TPUs, on which allranks starts nothing"
    times = "it starts jobs at times, and allranks starts one: give the job in its template"
    expected = [("a", True, why), ("c", True, times)]
    assert expected == sorted((i.name, i.is_needed, i.why) for i in result.beside)


def test_a_trial_is_told_its_index_by_the_name_that_it_had() -> None:
    """The variable and the Service are said truly; a host's name is one of a trial."""
    conversion = text_as_jobs(
        """\
apiVersion: batch/v1
kind: Job
metadata: {name: prep}
spec: {completionMode: Indexed, completions: 2, template: {spec: {subdomain: svc, containers: [
  {name: c, image: i, command: [sh, -c, "./prep $(hostname) $JOB_COMPLETION_INDEX"], env: [
    {name: JOB_COMPLETION_INDEX, valueFrom: {fieldRef: {fieldPath:
      "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}}]}]}}}
"""
    ).conversions[0]
    why = {verdict.path: verdict.why for verdict in conversion.of(Outcome.CHANGED)}
    pod = "spec.template.spec"
    assert "it is the number of the trial" == why[f"{pod}.containers[0].env[0].name"]
    assert "the trials of a sweep have no Service, and know of no other" == why[f"{pod}.subdomain"]
    assert any("host name" in note for note in conversion.notes)
    assert set() == lost(conversion)


def test_a_job_s_pods_are_selected_by_its_name_as_before() -> None:
    """The release has the Job's name, and so has the label that Kubernetes gives its pods."""
    text = (
        "apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\nspec: {completionMode: Indexed, "
        "completions: 2, parallelism: 2, template: {spec: {restartPolicy: Never, initContainers: "
        "[{name: w, image: k, command: [kubectl, wait, pod, -l, 'KEY=a']}], containers: "
        "[{name: c, image: i, command: [torchrun, --nnodes=2, t.py]}]}}}\n"
    )
    for key in ("job-name", "batch.kubernetes.io/job-name"):
        assert set() == lost(text_as_jobs(text.replace("KEY", key)).conversions[0])
    other = text.replace("KEY", "jobset.sigs.k8s.io/jobset-name")
    assert lost(text_as_jobs(other).conversions[0])


NODES = """\
apiVersion: batch/v1
kind: Job
metadata: {name: a}
spec: {completions: 2, parallelism: 2, completionMode: Indexed, backoffLimitPerIndex: 1,
  template: {spec: {restartPolicy: Never, subdomain: a, containers: [{name: c, image: i,
  command: [sh, -c, "torchrun --nproc-per-node=1 --nnodes=NUMBER --node_rank=$JOB_COMPLETION_INDEX
  --master_addr=a-0.a t.py"], envFrom: SOURCES}]}}}
"""


def test_the_retries_of_a_rank_are_those_of_its_index() -> None:
    """The limit of an index counts for each pod, and so does runPolicy.backoffLimit."""
    text = NODES.replace("NUMBER", "2").replace("SOURCES", "[]")
    conversion = text_as_jobs(text).conversions[0]
    assert (1, set()) == (conversion.values["runPolicy"]["backoffLimit"], lost(conversion))


def test_a_number_of_nodes_by_default_counts_where_nothing_sets_another() -> None:
    """One that a source of `envFrom` may set is not known: nothing is said of it."""
    text = NODES.replace("NUMBER", "${NNODES:-1}")
    for sources, is_alone in ("[]", True), ("[{secretRef: {name: s}}]", False):
        conversion = text_as_jobs(text.replace("SOURCES", sources)).conversions[0]
        reasons = [verdict.why for verdict in conversion.lost]
        assert is_alone == any("trained by itself" in reason for reason in reasons)


def test_a_namespace_that_no_cluster_has_is_said() -> None:
    """One that is to be filled in is no name, and `-n` names another."""
    text = NODES.replace("NUMBER", "2").replace("SOURCES", "[]")
    for namespace, is_noted in ("NAME_SPACE", True), ("train", False):
        named = text.replace("{name: a}", f"{{name: a, namespace: {namespace}}}", 1)
        own = text_as_jobs(named).conversions[0].notes
        assert is_noted == any("is no name of a namespace" in note for note in own)


_SIDE = """
apiVersion: batch/v1
kind: Job
metadata: {name: a, namespace: team-a}
spec:
  template:
    spec:
      restartPolicy: OnFailure
      containers:
      - {name: bench, image: "i:1", command: [torchrun, --nproc-per-node=2, a.py]}
      - {name: logs, image: "i:2", command: [push]}
"""


def test_a_container_beside_the_program_is_told_of() -> None:
    """It may ask for the program's container by name, and is not started again where it fails."""
    [conversion] = text_as_jobs(_SIDE).conversions
    whys = {verdict.path: verdict.why for verdict in conversion.verdicts}
    assert "does not find it" in whys["spec.template.spec.containers[0].name"]
    assert "none beside the program" in whys["spec.template.spec.restartPolicy"]
    alone = _SIDE[: _SIDE.index("      - {name: logs")]
    [conversion] = text_as_jobs(alone).conversions
    whys = {verdict.path: verdict.why for verdict in conversion.verdicts}
    assert "it is called trainer here" == whys["spec.template.spec.containers[0].name"]
    assert "none beside the program" not in whys["spec.template.spec.restartPolicy"]


def test_the_namespace_of_an_object_is_said() -> None:
    """No value has it, and a run starts in another where nobody names it."""
    [conversion] = text_as_jobs(_SIDE).conversions
    assert any("`-n team-a`" in note for note in conversion.notes)
    [conversion] = text_as_jobs(_SIDE.replace(", namespace: team-a", "")).conversions
    assert not any("namespace" in note for note in conversion.notes)


@pytest.mark.parametrize(
    ("more", "is_noted"),
    [("", True), ('successPolicy: {rules: [{succeededIndexes: "0"}]}', False)],
)
def test_with_whose_end_a_job_of_ranks_is_over_is_said(more: str, *, is_noted: bool) -> None:
    """A Job is done when all of its pods are, and a run with its first."""
    text = (
        "apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\nspec:\n"
        f"  completions: 2\n  parallelism: 2\n  completionMode: Indexed\n  {more}\n"
        '  template: {spec: {containers: [{name: c, image: "a/b:1", '
        "command: [torchrun, --nnodes=2, t.py]}]}}\n"
    )
    notes = text_as_jobs(text).conversions[0].notes
    assert is_noted == any("the run is over when rank 0's pod is done" in note for note in notes)


_OF_SCRIPT = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: scripts}
data: {run.sh: "set -e\\nexport NODE=$JOB_COMPLETION_INDEX\\ntorchrun OPTIONS a.py"}
---
apiVersion: batch/v1
kind: Job
metadata: {name: a}
spec:
  completionMode: Indexed
  completions: 2
  parallelism: 2
  template:
    spec:
      restartPolicy: Never
      containers:
      - {name: c, image: i, command: [bash, /s/run.sh], volumeMounts: [{name: s, mountPath: /s}]}
      volumes: [{name: s, configMap: {name: scripts}}]
"""


@pytest.mark.parametrize(
    ("options", "is_ranks"),
    [
        ("--nnodes=2 --node_rank=$NODE --master_addr=a-0.a", True),
        ("--nnodes 2 --node-rank $JOB_COMPLETION_INDEX", True),
        ("--nnodes=3 --node_rank=$NODE", False),
        ("--nnodes=2 --node_rank=0", False),
        ("--nnodes=2", False),
    ],
)
def test_a_script_says_by_its_options_that_its_pods_are_ranks(
    options: str, *, is_ranks: bool
) -> None:
    """Its torchrun counts as many nodes as there are pods, and each pod has a number there."""
    text = _OF_SCRIPT.replace("OPTIONS", options)
    if not is_ranks:
        assert "nothing else says that its pods are ranks" in refusal(text).message
        return
    values = text_as_jobs(text).conversions[0].values
    assert ("torchrun", 2, ["bash", "/s/run.sh"]) == (
        values["workload"],
        values["nodes"],
        values["command"][-2:],
    )


@pytest.mark.parametrize(
    ("limit", "is_noted"),
    [("", True), ("backoffLimit: 6, ", False), ("backoffLimitPerIndex: 1, ", False)],
)
def test_a_number_of_retries_that_a_job_has_for_all_of_its_pods(
    limit: str, *, is_noted: bool
) -> None:
    """Kubernetes' own number is each trial's here, and nothing in the object says it."""
    [conversion] = text_as_jobs(
        f"apiVersion: batch/v1\nkind: Job\nmetadata: {{name: a}}\nspec: {{{limit}completions: 9, "
        "completionMode: Indexed, template: {spec: {restartPolicy: Never, containers: "
        "[{name: c, image: i, command: [python, t.py]}]}}}\n"
    ).conversions
    assert any("each trial may fail as often" in note for note in conversion.notes) is is_noted
