"""Names of the old controller's pods that stand in the comments of scripts alone."""

from __future__ import annotations

import pytest

from tests.converted import lost, refusal, text_as_jobs

SET = """\
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: w}
spec:
  replicas: 2
  serviceName: w
  template:
    spec:
      initContainers:
      - name: wait
        image: b
        command: [sh, -c, "IN_WAIT"]
      containers:
      - name: c
        image: i
        env: [{name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
        command:
        - bash
        - -c
        - |
          IN_SCRIPT
          NODE_RANK=${POD_NAME##*-}
          cd /src
          accelerate launch --num_machines 2 --machine_rank $NODE_RANK train.py
          echo done
"""
COMMENT = "# rank from the pod's name (w-0 -> 0)"


@pytest.mark.parametrize(
    ("script", "wait", "losses"),
    [
        (COMMENT, COMMENT, set()),
        ("ping w-0.w", "true", {"containers[0].command[2]"}),
        ("true", "ping w-0.x # soon", {"initContainers[0].command[2]"}),
        ("echo 'at # w-0'", "true", {"containers[0].command[2]"}),
    ],
)
def test_a_comment_names_no_pod(script: str, wait: str, losses: set[str]) -> None:
    """Nothing reads it; the same name in a command, or between quotes, is one."""
    text = SET.replace("IN_SCRIPT", script).replace("IN_WAIT", wait)
    conversion = text_as_jobs(text).conversions[0]
    assert {f"spec.template.spec.{path}" for path in losses} == lost(conversion)


OF_KUBEFLOW = """\
apiVersion: kubeflow.org/KIND_VERSION
kind: KIND
metadata: {name: j}
spec: {SPECS: {FIRST: {template: &t {spec: {
  initContainers: [{name: wait, image: b, command: [sh, -c, "WORD"]}],
  containers: [{name: CONTAINER, image: i, command: [bash, -c, "WORD\\nRUN"]}]}}},
  Worker: {template: *t}}}
"""


BLANKS = ("KIND_VERSION", "SPECS", "FIRST", "CONTAINER", "POD", "RUN")
OLD_PODS = {
    "PyTorchJob": ("v1", "pytorchReplicaSpecs", "Master", "pytorch", "j-master-0", "torchrun a"),
    "MPIJob": ("v2beta1", "mpiReplicaSpecs", "Launcher", "c", "j-worker-0.j", "mpirun ./a"),
}
ON_NAMES = ("of the old controller", "give the release this name", "give it this name")


@pytest.mark.parametrize("kind", OLD_PODS)
def test_a_comment_names_no_pod_of_kubeflow_s(kind: str) -> None:
    """Neither in what trains nor in a container beside it."""
    for word, is_named in ("ping POD", True), ("# at POD", False):
        text = OF_KUBEFLOW.replace("WORD", word)
        for blank, value in zip((*BLANKS, "KIND"), (*OLD_PODS[kind], kind), strict=True):
            text = text.replace(blank, value)
        conversion = text_as_jobs(text).conversions[0]
        sentences = [*conversion.notes, *(verdict.why for verdict in conversion.verdicts)]
        assert is_named == any(word in text for text in sentences for word in ON_NAMES)


ROLES = {
    "TFJob": ("tfReplicaSpecs", "PS", "tensorflow", "j-ps-0"),
    "XGBoostJob": ("xgbReplicaSpecs", "Master", "xgboost", "j-master-0"),
    "PaddleJob": ("paddleReplicaSpecs", "Worker", "paddle", "j-worker-0"),
    "JAXJob": ("jaxReplicaSpecs", "Worker", "jax", "j-worker-0"),
    "MXJob": ("mxReplicaSpecs", "Scheduler", "mxnet", "j-scheduler-0"),
}


@pytest.mark.parametrize("kind", ROLES)
def test_a_program_of_a_role_names_pods(kind: str) -> None:
    """It is lost, as their host name is said; a comment names none."""
    specs, first, container, pod = ROLES[kind]
    text = OF_KUBEFLOW.replace("WORD", "true").replace("KIND_VERSION", "v1").replace("KIND", kind)
    text = text.replace("SPECS", specs).replace("FIRST", first).replace("CONTAINER", container)
    if first == "Worker":
        text = text.replace("  Worker: {template: *t}", "")
    named = text_as_jobs(text.replace("RUN", f"python t.py {pod}:2222 $HOSTNAME")).conversions[0]
    assert any(path.endswith(".command[2]") for path in lost(named))
    assert any("its role and its index" in note for note in named.notes)
    other = text_as_jobs(text.replace("RUN", f"python t.py # {pod}")).conversions[0]
    assert set() == lost(other)


MOUNTED = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: scripts}
data:
  run.sh: |
    LINE
    torchrun --nnodes=2 train.py
---
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: j}
spec: {pytorchReplicaSpecs: {Worker: {replicas: 2, template: {spec: {
  volumes: [{name: s, VOLUME}],
  containers: [{name: pytorch, image: i, command: [bash, /s/run.sh],
    volumeMounts: [{name: s, mountPath: /s}]}]}}}}}
"""


@pytest.mark.parametrize(
    "volume", ["configMap: {name: scripts}", "projected: {sources: [{configMap: {name: scripts}}]}"]
)
def test_a_mounted_script_names_pods(volume: str) -> None:
    """What a ConfigMap of the input has is read, as a command is."""
    text = MOUNTED.replace("VOLUME", volume)
    named = text_as_jobs(text.replace("LINE", "ping j-master-0")).conversions[0]
    ((verdict,), place) = named.lost, "spec.containers[0].volumeMounts[0].mountPath"
    assert verdict.path.endswith(place)
    assert "/s/run.sh of ConfigMap scripts names j-master-0" in verdict.why
    for line in ("# j-master-0", "ping other-j-master-0", "ping j-master-0x"):
        assert set() == lost(text_as_jobs(text.replace("LINE", line)).conversions[0])


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("echo $PET_RDZV_ID", "reads PET_RDZV_ID, which the old controller set"),
        ("echo $(hostname)", "reads the pod's host name"),
        ("echo $PET_NNODES", ""),
    ],
)
def test_a_mounted_script_reads_what_is_other_here(line: str, sentence: str) -> None:
    """It is a note; what a launcher of the script's own is told is as it was."""
    text = MOUNTED.replace("VOLUME", "configMap: {name: scripts}").replace("LINE", line)
    notes = [note for note in text_as_jobs(text).conversions[0].notes if "/s/run.sh of" in note]
    others = [note for note in notes if "starts torchrun itself" not in note]
    assert (sentence in others[0]) if sentence else not others


def test_a_mounted_script_names_pods_of_a_release_of_the_name() -> None:
    """Pods of a StatefulSet have the names that a release of its name gives them."""
    mounts = "volumeMounts: [{name: s, mountPath: /s}]\n        env:"
    text = SET.replace("env:", mounts).replace("IN_WAIT", "true").replace("IN_SCRIPT", "bash /s/x")
    text = text.replace(
        "    spec:\n", "    spec:\n      volumes: [{name: s, configMap: {name: m}}]\n"
    )
    for host, losses in (("w-0.w", 0), ("w-0.other", 1)):
        data = f"{{x: ping {host}}}"
        config_map = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: m}}\ndata: {data}\n---\n"
        conversion = text_as_jobs(config_map + text).conversions[0]
        assert losses == len(conversion.lost)
        assert losses != any("of the release w" in note for note in conversion.notes)


def test_a_program_that_reads_mx_config_is_lost() -> None:
    """Kubeflow's operator sets it for programs of MXNet's, and the chart does not."""
    text = (
        OF_KUBEFLOW.replace("WORD", "true").replace("KIND_VERSION", "v1").replace("KIND", "MXJob")
    )
    text = text.replace("SPECS", "mxReplicaSpecs").replace("FIRST", "Scheduler")
    text = text.replace("CONTAINER", "mxnet")
    for words, is_lost in (("python t.py $MX_CONFIG", True), ("python t.py", False)):
        conversion = text_as_jobs(text.replace("RUN", words)).conversions[0]
        assert is_lost is any("MX_CONFIG" in verdict.why for verdict in conversion.lost)


def test_a_trial_that_names_pods_is_told_of_no_address() -> None:
    """No trial has MASTER_ADDR, nor a name for another."""
    text = """\
apiVersion: batch/v1
kind: Job
metadata: {name: w}
spec: {template: {spec: {containers: [{name: c, image: i, command: [./a, w-0.w]}]}}}
"""
    conversion = text_as_jobs(text).conversions[0]
    assert "sweep" == conversion.values["workload"]
    (verdict,) = conversion.lost
    assert "MASTER_ADDR" not in verdict.why
    assert "trials of a sweep" in verdict.why


_MADE_OF_HOST = """\
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: ag}
spec:
  replicatedJobs:
  - name: w
    template:
      spec:
        parallelism: 2
        completions: 2
        template:
          spec:
            containers:
            - name: nccl
              image: r/nccl:1
              command:
              - bash
              - -c
              - |
                LINES
                if [[ "$JOB_COMPLETION_INDEX" -eq "0" ]]; then
                  mpirun --hostfile /tmp/hostfile /bin/all_gather_perf
                else
                  sleep 600
                fi
"""


@pytest.mark.parametrize(
    ("lines", "is_lost"),
    [
        ("BASE=$(hostname | rev | cut -d - -f 2- | rev); ssh ${BASE}-1 hostname", True),
        ("ssh ${HOSTNAME%-*}-1 hostname", True),
        ('B="${HOSTNAME%-*}"; for i in 0 1; do ssh "$B"-$i ls; done', True),
        ("echo $(hostname)-$RANDOM.log; ls /tmp/${HOSTNAME}", False),
        ("# ssh ${HOSTNAME%-*}-1", False),
    ],
)
def test_names_that_a_script_makes_of_its_hosts_are_none_here(lines: str, *, is_lost: bool) -> None:
    """The pods of an MPI job are called launcher-0 and worker-0: such a loop waited for ever."""
    [conversion] = text_as_jobs(_MADE_OF_HOST.replace("LINES", lines)).conversions
    own = [verdict for verdict in conversion.lost if "its own host's" in verdict.why]
    assert bool(own) is is_lost


@pytest.mark.parametrize(
    ("name", "is_refused"),
    [("$1-0.$0", True), ("${JOB}-0.${SERVICE}", True), ("x-0.jax", True), ("v-0.9", False)],
)
def test_pods_that_meet_by_the_first_pods_name_are_no_trials(
    name: str, *, is_refused: bool
) -> None:
    """Two trials without a Service waited for a coordinator that had no such name."""
    text = f"""\
apiVersion: batch/v1
kind: Job
metadata: {{name: jax}}
spec:
  completions: 2
  parallelism: 2
  completionMode: Indexed
  template:
    spec:
      subdomain: jax
      restartPolicy: Never
      containers:
      - name: c
        image: r/jax:1
        command: [bash, -c, "export JAX_COORDINATOR_IP={name}; python train.py", jax, jax]
"""
    if is_refused:
        assert "its pods reach each other by their names" in refusal(text).message
    else:
        assert text_as_jobs(text).conversions


@pytest.mark.parametrize("has_service", [True, False])
@pytest.mark.parametrize("kind", ["Job", "JobSet"])
def test_a_service_that_the_command_names_is_said_once(kind: str, *, has_service: bool) -> None:
    """In a release of its name it is there; of a Service of the input that is said beside it."""
    pods = (
        "{parallelism: 2, completions: 2, completionMode: Indexed, template: {spec: {subdomain: s, "
        "restartPolicy: Never, containers: [{name: a, image: 'a/b:1', command: [bash, -c, 'getent "
        "hosts s.ml.svc; torchrun --nnodes=2 --master_addr=$H a.py']}]}}}"
    )
    service = (
        "---\napiVersion: v1\nkind: Service\nmetadata: {name: s, namespace: ml}\nspec: "
        "{clusterIP: None, selector: {job-name: a}}\n"
    )
    if kind == "Job":
        text = (
            f"apiVersion: batch/v1\nkind: Job\nmetadata: {{name: a, namespace: ml}}\nspec: {pods}\n"
        )
    else:
        text = (
            "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\n"
            "metadata: {name: s, namespace: ml}\nspec: "
            f"{{replicatedJobs: [{{name: node, template: {{spec: {pods}}}}}]}}\n"
        )
    result = text_as_jobs(text + (service if has_service and kind == "Job" else ""))
    words = [*result.conversions[0].notes, *map(str, result.beside)]
    assert 1 == len(
        [line for line in words if "the name s" in line or "call the release s" in line]
    ), words
