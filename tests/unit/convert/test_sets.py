from __future__ import annotations

import pytest

from tests.converted import lost, refusal, sample, text_as_jobs

CLAIM_PATH = "spec.volumeClaimTemplates[0]"


def test_a_statefulset_of_ranks_keeps_its_controller() -> None:
    """A StatefulSet that runs torchrun is a torchrun job with such a controller."""
    values = sample("sets.yaml", "ranks").values
    assert ("torchrun", 3, "StatefulSet") == (
        values["workload"],
        values["nodes"],
        values["torchrun"]["controller"],
    )


def test_a_claim_of_each_pod_is_a_volume_that_goes_with_it() -> None:
    """Each pod has a volume where it had a claim; that the claim stayed is lost."""
    conversion = sample("sets.yaml", "ranks")
    volume = conversion.values["podTemplate"]["spec"]["volumes"][0]
    assert ("scratch", True) == (volume["name"], "ephemeral" in volume)
    assert f"{CLAIM_PATH}.spec.resources.requests.storage" in lost(conversion)


def test_a_claim_of_each_pod_with_the_name_of_a_volume_of_the_chart_is_mounted() -> None:
    """It has another name, as its mount has: that was lost, and checkpoints with it."""
    conversion = text_as_jobs("""\
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: a}
spec:
  replicas: 2
  serviceName: a
  template: {spec: {containers: [{name: c, image: i, command: [torchrun, --nnodes=2, t.py],
    volumeMounts: [{name: checkpoints, mountPath: /c}]}]}}
  volumeClaimTemplates: [{metadata: {name: checkpoints}, spec: {
    accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]
""").conversions[0]
    spec = conversion.values["podTemplate"]["spec"]
    assert [{"name": "checkpoints-volume", "mountPath": "/c"}] == spec["containers"][0][
        "volumeMounts"
    ]
    assert ["checkpoints-volume"] == [volume["name"] for volume in spec["volumes"]]
    assert any("that of the claim is checkpoints-volume" in note for note in conversion.notes)


INDEXED = """\
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: a}
spec: {replicas: 2, serviceName: a, template: {spec: {containers: [{name: c, image: i, env: [
  {name: RANK, valueFrom: {fieldRef: {
    fieldPath: "metadata.labels['apps.kubernetes.io/pod-index']"}}},
  {name: I, valueFrom: {fieldRef: {fieldPath: "metadata.labels['apps.kubernetes.io/pod-index']"}}}],
  command: COMMAND}]}}}
"""


def test_a_statefulset_s_pod_reads_its_index_as_before() -> None:
    """Kubernetes itself writes that label, here as there; it was said to be an old controller's."""
    conversion = text_as_jobs(
        INDEXED.replace("COMMAND", "[torchrun, --nnodes=2, --node_rank=$(RANK), t.py, $(I)]")
    ).conversions[0]
    path = conversion.values["env"]["I"]["valueFrom"]["fieldRef"]["fieldPath"]
    assert ("metadata.labels['apps.kubernetes.io/pod-index']", set()) == (path, lost(conversion))


def test_a_group_that_trains_is_a_job() -> None:
    """The pods of a LeaderWorkerSet that run torchrun are the nodes of a job."""
    conversion = sample("sets.yaml", "group")
    assert (["python3", "-u", "train.py"], 2) == (
        conversion.values["command"],
        conversion.values["nodes"],
    )
    assert set() == lost(conversion)


HALF = """\
apiVersion: batch/v1
kind: Job
metadata: {name: master}
spec: {template: {spec: {restartPolicy: Never, containers: [
  {name: c, image: i, command: [python, a.py], env: [
    {name: WORLD_SIZE, value: "4"}, {name: RANK, value: "0"},
    {name: MASTER_ADDR, value: master-0.all}]}]}}}
"""


def test_ranks_of_which_some_are_in_another_object_are_refused() -> None:
    """A run of one of four ranks would meet at itself, and wait for the others for ever."""
    problem = refusal(HALF)
    assert "WORLD_SIZE is 4 and it has 1 pod" in problem.message
    assert "spec.template.spec.containers[0].env[0].value" == problem.path
    whole = HALF.replace("spec: {template", "spec: {completions: 4, parallelism: 4, template")
    assert 4 == text_as_jobs(whole).conversions[0].values["nodes"]


NODE = """\
apiVersion: batch/v1
kind: Job
metadata: {name: node}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i%s}]}}}
"""
NODES_OF_THEIR_OWN = {
    "rank and size": ", args: [python, a.py], env: [{name: WORLD_SIZE, value: '2'}, "
    "{name: RANK, value: '0'}]",
    "rank": ", command: [python, a.py], env: [{name: RANK, value: '1'}, "
    "{name: MASTER_ADDR, value: a}]",
    "torchrun": ", command: [torchrun, --nnodes=2, --node_rank=0, --master_addr=a, a.py]",
    "variables": ", command: [torchrun, --nnodes, $(SIZE), --node-rank, $(R), a.py], "
    "env: [{name: SIZE, value: '2'}, {name: R, value: '1'}]",
    "rendezvous": ", command: [torchrun, '--nnodes=2:4', --rdzv_endpoint=a, a.py]",
    "script": ", command: [bash, -c, 'accelerate launch --num_machines 2 --machine_rank 0 "
    "--main_process_ip a a.py']",
}


@pytest.mark.parametrize("name", NODES_OF_THEIR_OWN)
def test_a_job_for_each_node_is_refused(name: str) -> None:
    """A Job whose pod is told which of several it is would be a run that waits for the others."""
    problem = refusal(NODE % NODES_OF_THEIR_OWN[name])
    assert "not in this object, and would not meet th" in problem.message


def test_a_node_alone_is_no_part_of_others() -> None:
    """Rank 0 of one is all of the training, whatever says so."""
    for words in ("--nnodes=1 --node_rank=0", "--node_rank=0"):
        text = NODE % f", command: [bash, -c, 'torchrun {words} a.py']"
        assert 1 == text_as_jobs(text).conversions[0].values["nodes"]


def test_a_script_of_mpirun_with_hosts_is_refused() -> None:
    """A ConfigMap's script that calls mpirun on other pods is no trial, as its words would be."""
    text = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: s}
data: {run.sh: "mpirun --hostfile /tmp/hosts a"}
---
apiVersion: batch/v1
kind: Job
metadata: {name: a}
spec: {template: {spec: {volumes: [{name: s, configMap: {name: s}}], containers: [
  {name: c, image: i, command: [bash, /s/run.sh], volumeMounts: [{name: s, mountPath: /s}]}]}}}
"""
    sentence = "the mpirun of /s/run.sh has a list of hosts, and none of its pods are those"
    assert sentence == refusal(text).message
    alone = text_as_jobs(text.replace("--hostfile /tmp/hosts", "-np 4")).conversions[0]
    assert "sweep" == alone.values["workload"]
    assert "its mpirun starts its ranks in the pod itself" in "\n".join(alone.notes)


def test_more_pods_at_a_time_than_complete_are_refused() -> None:
    """Kubernetes starts no more pods than are to complete, so the ranks would never meet."""
    text = HALF.replace("spec: {template", "spec: {parallelism: 4, completions: 1, template")
    problem = refusal(text)
    assert ("spec.completions", "write completions: 4, and completionMode: Indexed") == (
        problem.path,
        problem.hint,
    )


GROUP = """\
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata:
  name: a
  annotations: {leaderworkerset.sigs.k8s.io/exclusive-topology: example.org/rack}
spec: {leaderWorkerTemplate: {size: 2, workerTemplate: {spec: {containers: [
  {name: c, image: i, command: [torchrun, --nnodes=2, a.py]}]}}}}
"""


def test_a_domain_of_its_own_is_a_topology() -> None:
    """The pods of a group are kept together; that no others are there is not carried."""
    conversion = text_as_jobs(GROUP).conversions[0]
    assert {"block": "example.org/rack"} == conversion.values["scheduling"]["topology"]["labels"]
    key = "leaderworkerset.sigs.k8s.io/exclusive-topology"
    assert {f"metadata.annotations.{key}"} == lost(conversion)
    apart = GROUP.replace("sigs.k8s.io/exc", "sigs.k8s.io/subgroup-exc")
    assert {f"metadata.annotations.{key.replace('/exc', '/subgroup-exc')}"} == lost(
        text_as_jobs(apart).conversions[0]
    )


def test_a_program_of_a_group_has_its_variables() -> None:
    """What reads them, or may do so unseen, is told of the group by the ranks' own."""
    for words in (
        "[./run.sh], env: [{name: WORLD_SIZE, value: '2'}]",
        "[torchrun, --nnodes=2, a.py, --at, $(LWS_LEADER_ADDRESS)]",
    ):
        text = GROUP.replace("[torchrun, --nnodes=2, a.py]", words).replace(
            "sigs.k8s.io/ex", "x/ex"
        )
        conversion = text_as_jobs(text).conversions[0]
        assert 'LWS_LEADER_ADDRESS="$MASTER_ADDR"' in " ".join(conversion.values["command"])
        assert set() == lost(conversion)


def test_what_serves_is_refused() -> None:
    """A StatefulSet that starts no ranks is no job."""
    problem = refusal(
        "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: a}\nspec: {template: {spec: "
        "{containers: [{name: c, image: i, command: [serve]}]}}}\n"
    )
    assert problem.message.startswith("its pods start no ranks that are known here")


SERVER = """\
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: a}
spec: {template: {spec: {containers: [{name: c, image: i}]}}}
"""


@pytest.mark.parametrize(
    "text", [SERVER, GROUP.replace(", command: [torchrun, --nnodes=2, a.py]", "")]
)
def test_what_an_image_runs_is_not_known(text: str) -> None:
    """Of pods without a command nobody knows whether they serve: what to do about it is said."""
    problem = refusal(text)
    sentence = "nothing says that its pods start ranks: they run the entry point of i"
    assert sentence == problem.message
    assert "--entrypoint 'torchrun train.py'" in problem.hint


@pytest.mark.parametrize("words", ["command: [bash, /w/run.sh, a]", "args: [/w/run.sh, a]"])
def test_what_a_script_runs_that_is_not_there_is_not_known(words: str) -> None:
    """A set is not said to serve for a script that nobody has read."""
    problem = refusal(SERVER.replace("image: i", f"image: i, {words}"))
    sentence = "nothing says that its pods start ranks: what /w/run.sh runs is not in the input"
    assert (sentence, True) == (problem.message, "write what /w/run.sh runs" in problem.hint)


def test_what_an_image_runs_with_args_is_not_known() -> None:
    """Args are no program: the image has it."""
    problem = refusal(SERVER.replace("image: i", "image: i, args: [--port, '80']"))
    assert "they run the entry point of i" in problem.message


@pytest.mark.parametrize("words", ["[vllm, serve, m]", "[./serve], readinessProbe: {exec: {}}"])
def test_a_group_that_serves_is_refused(words: str) -> None:
    """Whatever its pods are told of each other, a server never ends."""
    own = f"{words}, env: [{{name: MASTER_ADDR, value: $(LWS_LEADER_ADDRESS)}}]"
    problem = refusal(GROUP.replace("[torchrun, --nnodes=2, a.py]", own))
    assert "so it serves, and allranks runs jobs that end" in problem.message


def test_a_group_whose_container_is_a_server_is_refused() -> None:
    """An image of a server serves, whatever script it runs, but for one that torchrun starts."""
    own = "[./run.sh], env: [{name: MASTER_ADDR, value: $(LWS_LEADER_ADDRESS)}]"
    plain = GROUP.replace("[torchrun, --nnodes=2, a.py]", own)
    assert text_as_jobs(plain).conversions
    problem = refusal(plain.replace("image: i", "image: x/sdk2-vllm0.5:v8"))
    assert "it is called after vllm, so it serves" in problem.message
    assert text_as_jobs(GROUP.replace("image: i", "image: verl/vllm:1")).conversions


def test_the_job_in_a_wrapper_is_converted() -> None:
    """An AppWrapper's job is converted as it would be by itself, in the wrapper's queue."""
    conversion = sample("sets.yaml", "wrapped")
    values = conversion.values
    assert (2, "gpus", True) == (values["nodes"], values["queue"], values["runPolicy"]["suspend"])
    assert {"metadata.annotations.workload.codeflare.dev.appwrapper/retryLimit"} == lost(conversion)
    assert [("Service", "beside", True)] == [
        (i.kind, i.name, i.is_needed) for i in conversion.beside
    ]


OF_MCAD = """\
apiVersion: workload.codeflare.dev/v1beta1
kind: AppWrapper
metadata: {name: wrapper}
spec:
  schedulingSpec: {minAvailable: 1}
  resources:
    GenericItems:
    - replicas: 1
      generictemplate:
        apiVersion: kubeflow.org/v1
        kind: PyTorchJob
        metadata: {name: job}
        spec:
          pytorchReplicaSpecs:
            Master:
              template: {spec: {containers: [{name: a, image: i, command: [python, a.py]}]}}
"""


def test_the_job_in_a_wrapper_of_the_first_version_is_converted() -> None:
    """v1beta1 has what it wraps in spec.resources.GenericItems, and not in spec.components."""
    conversion = text_as_jobs(OF_MCAD).conversions[0]
    assert ("wrapper", ["python", "a.py"]) == (conversion.name, conversion.values["command"])
    assert () == conversion.lost


def test_a_wrapper_of_the_first_version_without_a_job_is_refused_where_it_is_empty() -> None:
    """The reason names the list that is there."""
    problem = refusal(OF_MCAD.replace("kind: PyTorchJob", "kind: Deployment"))
    assert "spec.resources.GenericItems" == problem.path


AGAIN = """\
apiVersion: workload.codeflare.dev/v1beta2
kind: AppWrapper
metadata: {name: w}
spec: {components: [{template: {apiVersion: kubeflow.org/v1, kind: PyTorchJob, metadata: {name: j},
  spec: {pytorchReplicaSpecs: {Worker: {restartPolicy: Never, replicas: 2, template: {spec: {
    containers: [{name: pytorch, image: i, command: [torchrun, a.py]}]}}}}}}}]}
"""
LIMIT = "workload.codeflare.dev.appwrapper/retryLimit"


@pytest.mark.parametrize(("limit", "times"), [("", 3), ("2", 2), ("0", 0)])
def test_a_wrapper_s_job_starts_anew_as_often_as_before(limit: str, times: int) -> None:
    """Where the job itself tries nothing again, its wrapper's controller does, thrice by itself."""
    named = f'{{name: w, annotations: {{{LIMIT}: "{limit}"}}}}' if limit else "{name: w}"
    conversion = text_as_jobs(AGAIN.replace("{name: w}", named)).conversions[0]
    assert {"backoffLimit": times} == conversion.values["runPolicy"]
    assert (not limit) == ("an AppWrapper without a retryLimit" in "\n".join(conversion.notes))
    assert set() == lost(conversion)


def test_a_wrapper_s_retries_are_said_beside_those_of_its_job() -> None:
    """A job that tries again by itself does so as often as it says, and no more."""
    text = AGAIN.replace("Never", "OnFailure")
    sentence = "the AppWrapper had the job start anew after its own retries"
    assert sentence in "\n".join(text_as_jobs(text).conversions[0].notes)
    limited = text.replace("{name: w}", f'{{name: w, annotations: {{{LIMIT}: "2"}}}}')
    assert {f"metadata.annotations.{LIMIT}"} == lost(text_as_jobs(limited).conversions[0])


CODES = "workload.codeflare.dev.appwrapper/"


@pytest.mark.parametrize(
    ("key", "codes", "fatal"),
    [
        ("terminalExitCodes", "3,10,abc, 42", [3, 10, 42]),
        ("retryableExitCodes", "10,20", [code for code in range(1, 256) if code not in (10, 20)]),
        ("terminalExitCodes", "abc", None),
    ],
)
def test_exit_codes_that_fail_a_wrapper_fail_the_run(
    key: str, codes: str, fatal: list[int] | None
) -> None:
    """Those it lists, or all but those after which it starts anew; a word that is none is said."""
    named = f'{{name: w, annotations: {{{CODES}{key}: "{codes}"}}}}'
    conversion = text_as_jobs(AGAIN.replace("{name: w}", named)).conversions[0]
    assert fatal == conversion.values["runPolicy"].get("fatalExitCodes")
    assert (fatal is None) == (f"metadata.annotations.{CODES}{key}" in lost(conversion))
    itself = AGAIN.replace("{name: w}", named).replace("Never", "OnFailure")
    assert f"metadata.annotations.{CODES}{key}" in lost(text_as_jobs(itself).conversions[0])


TTL = "workload.codeflare.dev.appwrapper/successTTLDuration"


@pytest.mark.parametrize(("duration", "seconds"), [("1h30m", 5400), ("250ms", 1), ("soon", None)])
def test_how_long_a_wrapper_stays_that_has_succeeded(duration: str, seconds: int | None) -> None:
    """It is the time after which the run's own objects go; a word that is no time is said."""
    metadata = f'metadata: {{name: wrapper, annotations: {{{TTL}: "{duration}"}}}}'
    text = OF_MCAD.replace("metadata: {name: wrapper}", metadata)
    conversion = text_as_jobs(text).conversions[0]
    policy = conversion.values.get("runPolicy", {})
    assert seconds == policy.get("ttlSecondsAfterFinished")
    assert (seconds is None) == bool(conversion.lost)


def test_a_launcher_in_many_pods_is_called_by_its_name() -> None:
    """What is refused because it is no pod's own says which program it is about."""
    text = (
        "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: a}\nspec: {replicas: 4, "
        "serviceName: a, template: {spec: {containers: [{name: c, image: i, command: [horovodrun], "
        'args: [-np, "4", python, t.py]}]}}}\n'
    )
    assert "horovodrun is in a template with 4 pods" in refusal(text).message
    plain = text.replace("horovodrun", "mpirun")
    assert "mpirun is in a template with 4 pods" in refusal(plain).message


OF_SCRIPT = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: s}
data: {run.sh: "torchrun --nnodes=2 t.py"}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: a}
spec: {replicas: 2, template: {spec: {volumes: [{name: s, configMap: {name: s}}], containers: [
  {name: c, image: i, command: [bash, /s/run.sh], volumeMounts: [{name: s, mountPath: /s}]}]}}}
"""


@pytest.mark.parametrize("launcher", ["torchrun", "mpirun", "horovodrun"])
def test_a_set_whose_ranks_a_script_starts_is_not_said_to_serve(launcher: str) -> None:
    """The reason names the ConfigMap's script, whose command the set may have as its own."""
    problem = refusal(OF_SCRIPT.replace("torchrun", launcher))
    assert f"/s/run.sh of ConfigMap s starts the ranks, with {launcher}" in problem.message
    assert "write what /s/run.sh runs as their command" in problem.hint
    serving = refusal(OF_SCRIPT.replace("torchrun", "serve"))
    assert "its pods start no ranks" in serving.message


_OF_TWO = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: s}
data: {run.sh: "mpiexec -np 4 -hostfile /etc/hosts ./a"}
---
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: a}
spec:
  tasks:
  - name: m
    replicas: 1
    template: {spec: {volumes: [{name: s, configMap: {name: s}}], containers: [
      {name: c, image: i, command: [/run.sh],
       volumeMounts: [{name: s, mountPath: /run.sh, subPath: run.sh}]}]}}
  - name: w
    replicas: 2
    template: {spec: {containers: [{name: c, image: i, command: [/usr/sbin/sshd, -D]}]}}
"""
_OF_JOBSET = """\
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: a}
spec:
  replicatedJobs:
  - name: m
    template: {spec: {template: {spec: {volumes: [{name: s, configMap: {name: s}}], containers: [
      {name: c, image: i, command: [/run.sh],
       volumeMounts: [{name: s, mountPath: /run.sh, subPath: run.sh}]}]}}}}
  - name: w
    template: {spec: {completions: 2, parallelism: 2, template: {spec: {containers: [
      {name: c, image: i, command: [/usr/sbin/sshd, -D]}]}}}}
"""


@pytest.mark.parametrize(
    ("text", "kind"),
    [(_OF_TWO, "Job of Volcano"), (_OF_TWO.partition("---")[0] + "---\n" + _OF_JOBSET, "JobSet")],
)
def test_sets_whose_launcher_is_in_a_script_are_not_said_to_have_none(text: str, kind: str) -> None:
    """The reason names the ConfigMap's script that calls mpirun, or one that is not there."""
    problem = refusal(text)
    assert "/run.sh of ConfigMap s starts the ranks, with mpirun" in problem.message
    assert f"write what /run.sh runs as their command, or keep the {kind} for it" == problem.hint
    unseen = refusal(text.replace("[/run.sh]", "[bash, /opt/run.sh]"))
    assert "what /opt/run.sh runs is not in the input" in unseen.message
    plain = refusal(text.replace("mpiexec", "echo"))
    assert "none of them is started by torchrun or mpirun" in plain.message


_TWO_OBJECTS = """\
apiVersion: v1
kind: Service
metadata: {name: first}
spec: {ports: [{port: 1234}], selector: {role: master}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: rest}
spec: {replicas: 2, serviceName: rest, template: {metadata: {labels: {role: worker}}, spec:
  {containers: [{name: c, image: i, command: [sh, -c, "export RANK=$((1 + ${HOSTNAME##*-})); python
    t.py"], env: [{name: MASTER_ADDR, value: first}]}]}}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: zero}
spec: {template: {metadata: {labels: {role: master}}, spec: {containers: [{name: c, image: i,
  command: [sh, -c, "export RANK=0; python t.py"], env: [{name: MASTER_ADDR, value: ADDRESS}]}]}}}
"""


@pytest.mark.parametrize("address", ["first", "first.default.svc"])
def test_ranks_in_two_objects_are_refused(address: str) -> None:
    """Each would be a run of its own, and wait for the ranks of the other for ever."""
    problem = refusal(_TWO_OBJECTS.replace("ADDRESS", address))
    assert "MASTER_ADDR is first, the Service of the pods of Job zero" in problem.message


def test_a_master_that_names_no_address_is_found_by_its_service() -> None:
    """The Job whose pods the workers' Service selects has rank 0, whatever its own variable is."""
    problem = refusal(_TWO_OBJECTS.replace("ADDRESS", "localhost"))
    assert "would not meet these" in problem.message


def test_two_jobs_with_services_of_their_own_are_two_runs() -> None:
    """What meets by a Service that selects its own pods is a whole job."""
    text = (
        _TWO_OBJECTS.replace("{role: master}", "{role: worker}", 1)
        .replace("ADDRESS", "localhost")
        .replace("export RANK=$((1 + ${HOSTNAME##*-})); python", "torchrun --nnodes=2")
    )
    assert ["rest", "zero"] == [item.name for item in text_as_jobs(text).conversions]


CLUSTER = """\
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: w}
spec: {replicas: 1, serviceName: w, template: {spec: {containers: [
  {name: c, image: i, command: [python, train.py], env: [{name: TF_CONFIG, value: '%s'}]}]}}}
"""
PART_OF_A_CLUSTER = {
    "role": '{"cluster": {"ps": ["p-0.p:2223"], "worker": ["w-0.w:2222"]}, '
    '"task": {"type": "worker", "index": 0}}',
    "other role alone": '{"cluster": {"ps": ["p-0.p:2223"]}, "task": {"type": "worker"}}',
    "hosts": '{"cluster": {"worker": ["w-0.w:2222", "v-0.v:2222"]}, "task": {"index": 0}}',
}


@pytest.mark.parametrize("config", PART_OF_A_CLUSTER.values(), ids=PART_OF_A_CLUSTER)
def test_a_statefulset_that_is_part_of_a_cluster_is_refused(config: str) -> None:
    """A run of it alone would be told of itself alone: a ps would train, a worker have none."""
    problem = refusal(CLUSTER % config)
    assert "it is part of a cluster, and would run by itself here" in problem.message
    assert "write all roles of the cluster as one TFJob, and convert that" == problem.hint
    assert "spec.template.spec.containers[0].env[0].value" == problem.path


def test_roles_that_are_not_in_the_object_are_named_before_a_command_is_asked_for() -> None:
    """Who adds a command to each half would still have two halves."""
    text = (CLUSTER % PART_OF_A_CLUSTER["role"]).replace("command: [python, train.py], ", "")
    assert "its TF_CONFIG has roles that are not in this object (ps)" in refusal(text).message


def test_options_of_a_program_say_the_cluster_as_well() -> None:
    """Programs of TensorFlow 1 are told of it by options."""
    options = "--job_name=ps, '--ps_hosts=w-0.w:2222', '--worker_hosts=v-0.v:2222,v-1.v:2222'"
    text = CLUSTER.replace("train.py]", f"train.py, {options}]") % ""
    assert "its command has roles that are not in this object (worker)" in refusal(text).message


@pytest.mark.parametrize(
    ("config", "replicas"),
    [
        ('{"cluster": {"worker": ["w-0.w:2222", "w-1.w:2222"]}, "task": {"type": "worker"}}', 2),
        (
            '{"cluster": {"chief": ["w-0.w:1"], "worker": ["w-1.w:1"]}, "task": {"type": "chief"}}',
            2,
        ),
        ('{"cluster": {"worker": ["localhost:1", "localhost:2"]}, "task": {"type": "worker"}}', 1),
    ],
)
def test_a_cluster_that_is_the_object_s_own_is_converted(config: str, replicas: int) -> None:
    """Its hosts are pods of the same StatefulSet, or processes of one pod."""
    text = (CLUSTER % config).replace("replicas: 1", f"replicas: {replicas}")
    assert replicas == text_as_jobs(text).conversions[0].values["nodes"]


def test_the_service_of_a_part_of_a_cluster_is_still_needed() -> None:
    """Its pods are not converted, and other tasks reach them by it."""
    other = CLUSTER.replace("template: {spec", "template: {metadata: {labels: {app: p}}, spec")
    text = f"""\
{HALF.replace('value: "4"', 'value: "1"')}---
{other % PART_OF_A_CLUSTER["role"]}---
apiVersion: v1
kind: Service
metadata: {{name: w}}
spec: {{clusterIP: None, selector: {{app: p}}}}
"""
    service = next(item for item in text_as_jobs(text).beside if item.kind == "Service")
    assert (True, "the pods of StatefulSet w are reached by it") == (
        service.is_needed,
        service.why,
    )


def test_the_pods_of_a_statefulset_start_anew_for_ever_as_before() -> None:
    """The note said that runPolicy.backoffLimit ends them, which such pods do not read."""
    text = (
        "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: a}\nspec: {replicas: 2, "
        "template: {spec: {containers: "
        "[{name: x, image: 'i:1', command: [torchrun, --nnodes=2, a.py]}]}}}\n"
    )
    [conversion] = text_as_jobs(text).conversions
    assert "StatefulSet" == conversion.values["torchrun"]["controller"]
    [note] = [note for note in conversion.notes if "for ever" in note]
    assert "set torchrun.controller to Job" in note
