from __future__ import annotations

import pytest

from allranks.convert import original
from tests.converted import documents, lost, refusal, sample, text_as_jobs


def test_the_plugin_pytorch_makes_ranks() -> None:
    """The tasks that the plugin names are the nodes of a torchrun job, with the gang's queue."""
    conversion = sample("volcano.yaml", "gang")
    values = conversion.values
    assert ("torchrun", 3, 1) == (values["workload"], values["nodes"], values["gpusPerNode"])
    assert {"dialect": "volcano", "priorityClassName": "high"} == values["scheduling"]
    assert ("research", set()) == (values["queue"], lost(conversion))
    assert ["spec.priorityClassName"] == [
        verdict.path for verdict in conversion.verdicts if "not their PodGroup alone" in verdict.why
    ]


def test_policies_say_what_is_fatal() -> None:
    """An exit code that aborts the job is fatal, and maxRetry is how often a pod may fail."""
    policy = {"ttlSecondsAfterFinished": 60, "backoffLimit": 5, "fatalExitCodes": [3]}
    assert policy == sample("volcano.yaml", "gang").values["runPolicy"]


NEVER = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: a}
spec: {maxRetry: 2, policies: [{event: PodEvicted, action: RestartJob}], tasks: [
  {name: w, replicas: 2, template: {spec: {restartPolicy: Never, containers: [
    {name: w, image: i, command: [torchrun, t.py]}]}}}]}
"""


def test_what_no_policy_starts_anew_is_not_tried_again() -> None:
    """A pod that failed stays so with Volcano unless a policy says otherwise, maxRetry or not."""
    conversion = text_as_jobs(NEVER).conversions[0]
    assert {"backoffLimit": 0} == conversion.values["runPolicy"]
    reasons = {verdict.path: verdict.why for verdict in conversion.verdicts}
    assert "nothing is tried again that it would count" == reasons["spec.maxRetry"]
    assert "no policy of it starts anything anew when a pod fails" in "\n".join(conversion.notes)


@pytest.mark.parametrize(
    ("policy", "why"),
    [
        ("event: PodEvicted", "an evicted pod is replaced, and counts for nothing"),
        ("events: [PodEvicted]", "an evicted pod is replaced, and counts for nothing"),
        ("event: TaskCompleted", "no pod has failed then, and nothing starts anew here"),
        ("events: [PodEvicted, PodFailed]", "a pod that fails is replaced as often as"),
    ],
)
def test_a_policy_for_pods_that_did_not_fail_is_said_by_itself(policy: str, why: str) -> None:
    """The job was restarted whole; what counts failures says nothing of an eviction."""
    conversion = text_as_jobs(NEVER.replace("event: PodEvicted", policy)).conversions[0]
    reasons = {verdict.path: verdict.why for verdict in conversion.verdicts}
    assert reasons["spec.policies[0].action"].startswith(why)


@pytest.mark.parametrize(
    ("place", "other"),
    [
        ("event: PodEvicted", "event: PodFailed"),
        ("event: PodEvicted", "events: [PodEvicted, PodFailed]"),
        ("event: PodEvicted", "event: '*'"),
        ("event: PodEvicted", "exitCode: 3"),
        ("name: w, replicas", "policies: [{event: PodFailed, action: RestartTask}], replicas"),
        ("restartPolicy: Never", "restartPolicy: OnFailure"),
    ],
)
def test_what_is_tried_again_is_tried_as_often_as_before(place: str, other: str) -> None:
    """A policy that starts pods anew, or a kubelet that does, leaves maxRetry as it is."""
    values = text_as_jobs(NEVER.replace(place, other)).conversions[0].values
    assert {"backoffLimit": 2} == values["runPolicy"]


@pytest.mark.parametrize(
    ("policy", "is_noted"), [("", True), ("Always", True), ("OnFailure", False), ("Never", False)]
)
def test_pods_that_started_anew_for_ever_are_said(policy: str, *, is_noted: bool) -> None:
    """Kubernetes takes a policy that is not there for Always, with which no pod ever succeeds."""
    own = f"restartPolicy: {policy}, " if policy else ""
    conversion = text_as_jobs(NEVER.replace("restartPolicy: Never, ", own)).conversions[0]
    assert is_noted == any("those that had succeeded too" in note for note in conversion.notes)


def test_a_launcher_s_policy_decides_for_an_mpi_job() -> None:
    """Workers that the kubelet restarts do not have a launcher tried again that never is."""
    text = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: a}
spec: {plugins: {ssh: [], svc: []}, tasks: [
  {name: m, replicas: 1, template: {spec: {restartPolicy: Never, containers: [
    {name: m, image: i, command: [mpirun, -np, "2", ./a]}]}}},
  {name: w, replicas: 2, template: {spec: {restartPolicy: OnFailure, containers: [
    {name: w, image: i, command: [/usr/sbin/sshd, -D]}]}}}]}
"""
    assert 0 == text_as_jobs(text).conversions[0].values["runPolicy"]["backoffLimit"]


WITH_LAUNCHER = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: a}
spec: {minAvailable: 3, plugins: {ssh: [], svc: []}, tasks: [
  {name: m, replicas: 1, minAvailable: 1, template: {spec: {restartPolicy: Never, containers: [
    {name: m, image: i, command: [mpirun, -np, "2", ./a]}]}}},
  {name: w, replicas: 2, template: {spec: {restartPolicy: OnFailure, containers: [
    {name: w, image: i, command: [/usr/sbin/sshd, -D]}]}}}]}
"""
OUTSIDE = "a gang has the workers; the launcher is outside of it"


def test_a_launcher_is_outside_of_the_gang() -> None:
    """Its pod was one of those that start together, and is none of them here."""
    verdicts = text_as_jobs(WITH_LAUNCHER).conversions[0].verdicts
    reasons = {verdict.path: verdict.why for verdict in verdicts}
    assert [OUTSIDE, OUTSIDE] == [
        reasons["spec.minAvailable"],
        reasons["spec.tasks[0].minAvailable"],
    ]


def test_volumes_of_the_job_are_volumes_of_the_run() -> None:
    """A claim that exists is mounted, and a new one is made, each where it was."""
    storage = {
        "datasets": {"mountPath": "/data", "existingClaim": "corpus"},
        "checkpoints": {
            "mountPath": "/ckpt",
            "size": "10Gi",
            "keep": False,
            "accessModes": ["ReadWriteMany"],
        },
    }
    assert storage == sample("volcano.yaml", "gang").values["storage"]


def test_a_launcher_s_own_list_of_hosts_is_the_chart_s() -> None:
    """What the launcher's script does to find hosts and to start sshd is left to the chart."""
    conversion = sample("volcano.yaml", "hosts")
    values = conversion.values
    assert ["/bin/sh", "-c", "mpiexec -np 4 python train.py\n"] == values["command"]
    assert {"ownMpirun": True, "numWorkers": 2, "slotsPerWorker": 2} == values["mpi"]
    assert set() == lost(conversion)


@pytest.mark.parametrize(
    ("script", "slots"),
    [
        ("SLOTS=16; NP=32; mpiexec -np $NP -npernode $SLOTS", 16),
        ("NP=7; mpiexec -np ${NP}", 4),
        ("mpiexec -np $NP", None),
    ],
)
def test_a_host_has_the_slots_that_variables_count(script: str, slots: int | None) -> None:
    """A list of bare hosts says none; what nobody knows is said."""
    command = f"/usr/sbin/sshd; {script} -hostfile /etc/volcano/w.host ./a"
    text = WITH_LAUNCHER.replace('[mpirun, -np, "2", ./a]', f'[sh, -c, "{command}"]')
    conversion = text_as_jobs(text).conversions[0]
    assert slots == conversion.values["mpi"].get("slotsPerWorker")
    is_noted = any("how many ranks -np $NP starts is not known" in n for n in conversion.notes)
    assert is_noted == (slots is None)


def test_a_list_of_hosts_that_a_program_reads_is_said() -> None:
    """The plugin mpi told its master MPI_HOST, which mpirun alone needs no more."""
    text = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: a}
spec: {plugins: {mpi: [], svc: []}, tasks: [
  {name: master, template: {spec: {containers: [{name: m, image: i,
    command: [sh, -c, "mpirun --host ${MPI_HOST} -np 2 ./a WORDS"]}]}}},
  {name: worker, replicas: 2, template: {spec: {containers: [
    {name: w, image: i, command: [/usr/sbin/sshd, -D]}]}}}]}
"""
    path = "spec.tasks[0].template.spec.containers[0].command[2]"
    for words, is_lost in ("--at $MPI_HOST", True), ("", False):
        conversion = text_as_jobs(text.replace("WORDS", words)).conversions[0]
        assert is_lost == (path in lost(conversion))


def test_the_plugin_tensorflow_makes_roles() -> None:
    """Tasks have the roles that the plugin's flags give them."""
    values = sample("volcano.yaml", "roles").values
    assert ("elastic", 2, 1) == (
        values["workload"],
        values["nodes"],
        values["elastic"]["roles"]["ps"]["replicas"],
    )


def test_where_torchrun_met_is_taken_off_with_its_flags() -> None:
    """What only torchrun's flags read of the plugin svc is no loss, nor is a name in its log."""
    text = (
        "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: a}\nspec:\n"
        "  plugins: {svc: [], env: []}\n  tasks:\n  - {name: worker, replicas: 2, template: "
        "{spec: {containers: [{name: c, image: i, command: [bash, -c, 'torchrun --nnodes=2 "
        "--rdzv-endpoint=$VC_WORKER_HOSTS --role `hostname`: a.py']}]}}}\n"
    )
    assert set() == lost(text_as_jobs(text).conversions[0])
    text = text.replace("a.py", "a.py --hosts $VC_WORKER_HOSTS")
    assert lost(text_as_jobs(text).conversions[0])


def test_ray_is_refused() -> None:
    """The plugin ray is refused in a sentence."""
    problem = refusal(
        "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: a}\nspec:\n"
        "  plugins: {ray: []}\n  tasks:\n  - {name: head, replicas: 1, template: {spec: "
        "{containers: [{name: c, image: i}]}}}\n"
    )
    assert "its plugin is ray: allranks starts ranks, and no Ray cluster" == problem.message


def test_trials_are_no_gang() -> None:
    """Pods that start no ranks start one by one, and know nothing of each other, which is said."""
    text = (
        "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: a}\nspec:\n"
        "  minAvailable: 2\n  plugins: {svc: []}\n  tasks:\n  - {name: worker, replicas: 2, "
        "template: {spec: {containers: [{name: c, image: i, command: [sleep, '9']}]}}}\n"
    )
    assert {"spec.minAvailable", "spec.plugins.svc"} == lost(text_as_jobs(text).conversions[0])
    ranks = text.replace("[sleep, '9']", "[torchrun, --nnodes=2, a.py]")
    assert set() == lost(text_as_jobs(ranks).conversions[0])


def test_what_a_launcher_does_after_its_run_stays() -> None:
    """How long its pod waits, and its exit code, are the script's own."""
    text = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: a}
spec: {plugins: {ssh: [], svc: []}, tasks: [
  {name: master, replicas: 1, template: {spec: {containers: [{name: c, image: i, command: [sh, -c,
    "sleep 10; mpiexec --host `cat /etc/volcano/worker.host` ./a; sleep 60"]}]}}},
  {name: worker, replicas: 2, template: {spec: {containers: [{name: c, image: i,
    command: [sh, -c, "/usr/sbin/sshd -D"]}]}}}]}
"""
    command = text_as_jobs(text).conversions[0].values["command"]
    assert command[-1].endswith("./a; sleep 60")
    assert not command[-1].startswith("sleep")


def test_a_queue_of_kueues_is_the_queue_of_a_job_that_volcano_places() -> None:
    """Volcano's own queue is said to be lost, and its scheduler stays."""
    conversion = text_as_jobs(
        "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\n"
        "metadata: {name: a, labels: {kueue.x-k8s.io/queue-name: q}}\n"
        "spec: {queue: other, tasks: [{name: w, replicas: 2, template: {spec: {containers: "
        "[{name: w, image: i, command: [torchrun, t.py]}]}}}]}"
    ).conversions[0]
    scheduling = {"dialect": "kueue", "schedulerName": "volcano"}
    assert ("q", scheduling) == (conversion.values["queue"], conversion.values["scheduling"])
    assert "spec.queue" in [verdict.path for verdict in conversion.lost]


WAITING = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: a}
spec: {plugins: {ssh: [], svc: []}, tasks: [
  {name: m, replicas: 1, template: {spec: {initContainers: [{name: wait, image: kubectl, command: [
      kubectl, wait, pod, -l, "volcano.sh/job-name=a,volcano.sh/task-spec=w", --for=jsonpath]}],
    containers: [{name: m, image: i, command: [mpirun, -np, "2", ./a, --job-name=b]}]}}},
  {name: w, replicas: 2, template: {spec: {containers: [
    {name: w, image: i, command: [/usr/sbin/sshd, -D]}]}}}]}
"""


@pytest.mark.parametrize(
    ("selector", "key"),
    [
        ("volcano.sh/job-name=a,volcano.sh/task-spec=w", "volcano.sh/job-name, volcano.sh/task"),
        ("training.kubeflow.org/job-name in (a)", "training.kubeflow.org/job-name"),
        ("batch.kubernetes.io/job-name==a", "batch.kubernetes.io/job-name"),
    ],
)
def test_what_selects_pods_by_labels_that_are_gone_is_said(selector: str, key: str) -> None:
    """An init container that waits for pods of the old controller's labels waits for ever."""
    conversion = text_as_jobs(
        WAITING.replace("volcano.sh/job-name=a,volcano.sh/task-spec=w", selector)
    ).conversions[0]
    (verdict,) = conversion.lost
    assert "spec.tasks[0].template.spec.initContainers[0].command[4]" == verdict.path
    assert f"it selects pods by {key}" in verdict.why
    assert "select app.kubernetes.io/instance, the release" in verdict.why


@pytest.mark.parametrize(
    ("line", "is_selector"),
    [
        ("kubectl get pods -l job-name=a", True),
        ("kubectl get pods --selector=app=b,job-name=a", True),
        ("python wait.py --job-name=a", False),
        ("kubectl get pods -l app=b", False),
    ],
)
def test_a_key_without_a_domain_may_be_a_program_s_own(line: str, is_selector: bool) -> None:
    """`job-name` selects pods behind a flag of a selector alone."""
    text = WAITING.replace(
        'kubectl, wait, pod, -l, "volcano.sh/job-name=a,volcano.sh/task-spec=w", --for=jsonpath',
        f'sh, -c, "{line}"',
    )
    assert is_selector == bool(text_as_jobs(text).conversions[0].lost)


RANK_TABLE = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata:
  name: npus
  labels: {ring-controller.atlas: ascend-910, app: a, volcano.sh/job-type: training}
  annotations: {example.org/rank-table: "on"}
spec: {tasks: [{name: t, replicas: 1, template: {spec: {containers: [
  {name: c, image: i, command: [bash, train.sh]}]}}}]}
"""


def test_what_a_controller_did_by_a_label_is_asked_for() -> None:
    """A controller that looks for a label on Volcano's Jobs does nothing for a run."""
    notes = "\n".join(text_as_jobs(RANK_TABLE).conversions[0].notes)
    looked_for = "looks for ring-controller.atlas, example.org/rank-table on Jobs of batch.volc"
    assert looked_for in notes
    of_kubernetes = RANK_TABLE.replace("ring-controller.atlas", "example.k8s.io/a").replace(
        "example.org/rank-table", "kai.scheduler/queue"
    )
    assert "looks for" not in "\n".join(text_as_jobs(of_kubernetes).conversions[0].notes)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (
            "[horovodrun, -np, '2', -H, $(VC_WORKER_HOSTS), python, t.py]",
            ["horovodrun", "-np", "2", "--hostfile", "/etc/mpi/hostfile", "python", "t.py"],
        ),
        (
            "[mpirun, --host=$(VC_WORKER_HOSTS), ./a]",
            ["mpirun", "--hostfile=/etc/mpi/hostfile", "./a"],
        ),
        (
            "[sh, -c, 'horovodrun -np 2 -H ${VC_WORKER_HOSTS} python t.py']",
            ["sh", "-c", "horovodrun -np 2 --hostfile /etc/mpi/hostfile python t.py"],
        ),
        (
            "[sh, -c, 'mpirun --host $VC_WORKER_HOSTS -np 2 ./a']",
            ["sh", "-c", "mpirun -np 2 ./a"],
        ),
    ],
)
def test_a_launcher_reads_the_charts_list_of_hosts(command: str, expected: list[str]) -> None:
    """Volcano's variable of the workers is empty here, and the chart has a file of them."""
    conversion = text_as_jobs(_HOROVOD.replace("COMMAND", command)).conversions[0]
    assert expected == conversion.values["command"]
    assert set() == lost(conversion)


def test_a_list_of_hosts_that_is_read_otherwise_is_not_carried() -> None:
    """A launcher that counts its workers by Volcano's variable would count none."""
    script = "N=$(echo $VC_WORKER_HOSTS | tr , ' ' | wc -w); mpirun -np $N ./a"
    text = _HOROVOD.replace("COMMAND", f'[sh, -c, "{script}"]')
    assert "spec.tasks[0].template.spec.containers[0].command[2]" in lost(
        text_as_jobs(text).conversions[0]
    )


def test_a_launcher_makes_its_own_folders_and_not_those_of_sshd() -> None:
    """What mpirun's program writes into is still there, and sshd is the chart's."""
    script = "mkdir -p /run/sshd; mkdir -p /out; service nfs start; /usr/sbin/sshd; mpirun ./a"
    text = _HOROVOD.replace("COMMAND", f'[sh, -c, "{script}"]')
    command = text_as_jobs(text).conversions[0].values["command"]
    assert "mkdir -p /out; service nfs start; mpirun ./a" == command[-1]


_HOROVOD = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: a}
spec:
  plugins: {ssh: [], svc: []}
  tasks:
  - {name: master, replicas: 1, policies: [{event: TaskCompleted, action: CompleteJob}], template:
      {spec: {containers: [{name: c, image: "i:1", command: COMMAND}]}}}
  - {name: worker, replicas: 2, template: {spec: {containers: [{name: c, image: "i:1"}]}}}
"""


@pytest.mark.parametrize(
    ("events", "is_noted"), [("[PodFailed, PodEvicted]", True), ("[PodFailed]", False)]
)
def test_an_evicted_pod_ends_no_run(events: str, *, is_noted: bool) -> None:
    """Volcano ended the job, and here the pod is replaced and counts for nothing."""
    policy = f"{{events: {events}, action: TerminateJob}}"
    text = NEVER.replace("{event: PodEvicted, action: RestartJob}", policy)
    [conversion] = text_as_jobs(text).conversions
    whys = [own.why for own in conversion.verdicts if own.path.startswith("spec.policies")]
    assert any("an evicted pod is replaced" in why for why in whys) is is_noted
    assert conversion.values["runPolicy"]["backoffLimit"] == 0


@pytest.mark.parametrize("restart_policy", ["", "Always", "OnFailure"])
@pytest.mark.parametrize("event", ["event: PodFailed", "events: [PodFailed, PodEvicted]"])
def test_a_job_that_a_failed_pod_ended_goes_on_where_its_kubelet_started_programs_anew(
    restart_policy: str, event: str
) -> None:
    """A program that failed was no failed pod, and is tried again here as well."""
    own = f"restartPolicy: {restart_policy}, " if restart_policy else ""
    text = NEVER.replace("restartPolicy: Never, ", own)
    text = text.replace("{event: PodEvicted, action: RestartJob}", f"{{{event}, action: AbortJob}}")
    [conversion] = text_as_jobs(text).conversions
    reasons = {verdict.path: verdict.why for verdict in conversion.verdicts}
    assert 2 == conversion.values["runPolicy"]["backoffLimit"]
    assert "started anew in its pod" in reasons["spec.policies[0].action"]
    assert ("Evicted" in event) == ("evicted" in reasons["spec.policies[0].action"])


def test_retries_that_a_policy_rules_out_count_nothing() -> None:
    """With a policy that gives up at the first failed pod, maxRetry is read by nobody."""
    policy = "{event: PodFailed, action: AbortJob}"
    text = NEVER.replace("{event: PodEvicted, action: RestartJob}", policy)
    reasons = {own.path: own.why for own in text_as_jobs(text).conversions[0].verdicts}
    assert "nothing is tried again that it would count" == reasons["spec.maxRetry"]


def test_variables_of_two_plugins_are_said_of_each() -> None:
    """VC_TASK_INDEX is of the plugin env, and the lists of hosts are of svc."""
    command = "[sh, -c, 'torchrun t.py $VC_TASK_INDEX $VC_W_HOSTS']"
    text = NEVER.replace("[torchrun, t.py]", command)
    whys = {own.why for own in text_as_jobs(text).conversions[0].lost}
    [why] = [why for why in whys if "plugin svc" in why]
    assert "index of the plugin env" in why


@pytest.mark.parametrize(
    ("policies", "is_noted"),
    [("", True), ("policies: [{event: TaskCompleted, action: CompleteJob}]", False)],
)
def test_with_whose_end_a_job_of_roles_is_over_is_said(policies: str, *, is_noted: bool) -> None:
    """Volcano's Job without such a policy is done when all of its pods are."""
    text = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: a}
spec:
  plugins: {tensorflow: ["--ps=ps", "--worker=worker"]}
  tasks:
  - {name: ps, replicas: 1, template: TEMPLATE}
  - name: worker
    replicas: 2
    POLICIES
    template: TEMPLATE
"""
    template = '{spec: {containers: [{name: t, image: "a/b:1", command: [python, t.py]}]}}'
    text = text.replace("TEMPLATE", template).replace("POLICIES", policies or "minAvailable: 2")
    notes = text_as_jobs(text).conversions[0].notes
    assert is_noted == any("the run is over with its first worker" in note for note in notes)


def test_a_plugin_without_options_is_said() -> None:
    """An empty list switches a plugin on: what it did is the chart's, and is not merely empty."""
    text = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: a}
spec:
  plugins: {env: [], svc: [], pytorch: [--master=master, --worker=worker]}
  tasks:
  - {name: master, replicas: 1, template: TEMPLATE}
  - {name: worker, replicas: 1, template: TEMPLATE}
"""
    template = '{spec: {containers: [{name: t, image: "a/b:1", command: [python, t.py]}]}}'
    conversion = text_as_jobs(text.replace("TEMPLATE", template)).conversions[0]
    verdicts = {verdict.path: verdict for verdict in conversion.verdicts}
    for plugin in ("env", "svc"):
        assert "changed" == verdicts[f"spec.plugins.{plugin}"].outcome


def test_with_another_rendezvous_a_job_of_ranks_waits_for_all_of_its_pods() -> None:
    """Only by c10d a run of a fixed number of nodes is over with the pod of rank 0."""
    text = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: a}
spec:
  tasks:
  - {name: w, replicas: 2, template: {spec: {containers: [{name: t, image: "a/b:1", command: [
      torchrun, --nnodes=2, --rdzv-backend=BACKEND, "--rdzv-endpoint=lab:2379", t.py]}]}}}
"""
    for backend, is_noted in (("c10d", True), ("etcd-v2", False)):
        notes = text_as_jobs(text.replace("BACKEND", backend)).conversions[0].notes
        assert is_noted == any("the run is over when rank 0" in note for note in notes)


def test_a_claim_that_volcano_makes_is_mounted_there_too() -> None:
    """A comparison takes the claim of the job for that of the run."""
    claim = "{accessModes: [ReadWriteMany], resources: {requests: {storage: 1Gi}}}"
    text = NEVER.replace(
        "spec: {", f"spec: {{volumes: [{{mountPath: /s, volumeClaim: {claim}}}], ", 1
    )
    pods = original.pods(dict(documents(text)[0].data)) or []
    assert [("a-volume-0",)] * 2 == [pod.claims for pod in pods]
    assert ["/s"] == [mount["mountPath"] for mount in pods[0].main["volumeMounts"]]


def test_ranks_of_torchrun_have_no_keys_of_ssh() -> None:
    """The plugin's keys are the mpi chart's in an MPI job alone."""
    text = NEVER.replace("spec: {", "spec: {plugins: {ssh: []}, ", 1)
    whys = {own.path: own.why for own in text_as_jobs(text).conversions[0].verdicts}
    assert "finds no key" in whys["spec.plugins.ssh"]


_TASKS = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: a}
spec:
  plugins: {pytorch: ["--master=master", "--worker=worker"]}
  tasks:
  - {name: master, replicas: 1, POLICIES, template: {spec: {restartPolicy: Never, containers: [
      {name: t, image: "a/b:1", command: [python, t.py]}]}}}
  - {name: worker, replicas: 3, template: {spec: {restartPolicy: Never, containers: [
      {name: t, image: "a/b:1", command: [python, t.py]}]}}}
"""


def test_pods_that_a_failed_one_takes_along_are_said_to_end() -> None:
    """Volcano waits for all pods where no policy says what becomes of one that fails."""
    notes = text_as_jobs(_TASKS.replace("POLICIES, ", "")).conversions[0].notes
    assert any("ends the pods that still work, where Volcano let them go on" in n for n in notes)


def test_containers_that_were_started_anew_without_a_limit_have_one() -> None:
    """With OnFailure the kubelet does so, and Volcano sees no pod that failed."""
    text = _TASKS.replace("POLICIES, ", "").replace(
        "restartPolicy: Never", "restartPolicy: OnFailure"
    )
    notes = text_as_jobs(text).conversions[0].notes
    assert any("was started anew in its pod, without a limit" in note for note in notes)


def test_two_tasks_of_one_name_are_refused() -> None:
    """The second was lost, field by field, for no reason that a person could see."""
    problem = refusal(_TASKS.replace("POLICIES, ", "").replace("name: worker", "name: master"))
    assert "spec.tasks[1].name" == problem.path
    assert "a second task has this name" in problem.message


@pytest.mark.parametrize(
    ("policy", "key", "near"),
    [
        ("event: TaskComplete, action: CompleteJob", "event", "TaskCompleted"),
        ("event: TaskCompleted, action: CompletJob", "action", "CompleteJob"),
        ('events: ["*", PodFaild], action: AbortJob', "events[1]", "PodFailed"),
    ],
)
def test_a_policy_that_volcano_does_not_know_is_refused(policy: str, key: str, near: str) -> None:
    """It was said to replace pods that fail."""
    problem = refusal(_TASKS.replace("POLICIES", f"policies: [{{{policy}}}]"))
    assert f"spec.tasks[0].policies[0].{key}" == problem.path
    assert f"did you mean {near}?" == problem.hint


@pytest.mark.parametrize(
    ("plugins", "name"),
    [("{env: []}", "COMPLETION_INDEX"), ("{env: [], tensorflow: []}", "ALLRANKS_ROLE_RANK")],
)
def test_what_stands_for_the_index_of_a_task(plugins: str, name: str) -> None:
    """The rank of all is not that of a role, and trials have none."""
    [conversion] = text_as_jobs(
        "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: a}\nspec:\n"
        f"  plugins: {plugins}\n  tasks:\n  - name: worker\n    replicas: 4\n    template: {{spec: "
        "{restartPolicy: Never, containers: [{name: c, image: i, "
        "command: [sh, -c, 'python t.py --i $VC_TASK_INDEX']}]}}\n"
    ).conversions
    assert any(f"not there: read {name}" in verdict.why for verdict in conversion.lost)
