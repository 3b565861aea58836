"""Objects beside a job: which of them have to be applied, which the chart has, and why."""

from __future__ import annotations

import pytest

from allranks.convert import registry
from allranks.convert.documents.context import Context
from allranks.convert.documents.document import Document, documents_of
from allranks.k8s import fields as k8s
from allranks.yamlio.load import load_objects
from tests import converted
from tests.converted import DATA, text_as_jobs

DOCUMENTS = converted.samples()


def test_objects_beside_a_job() -> None:
    """A headless Service of the job's pods is the chart's own; what it reads has to be applied."""
    names = ("mnist", "settings")
    documents = [DOCUMENTS[name] for name in names]
    service = next(
        item
        for item in documents_of(
            load_objects((DATA / "pytorchjob.yaml").read_bytes(), "pytorchjob.yaml")
        )
        if item.kind == "Service"
    )
    result = registry.convert_all([*documents, service], Context())
    why = "nothing that is carried of the job names it, nor what is beside it"
    assert [("ConfigMap", False, why), ("Service", False)] == [
        (item.kind, item.is_needed, item.why)
        if item.kind == "ConfigMap"
        else (item.kind, item.is_needed)
        for item in result.beside
    ]
    result = registry.convert_all([DOCUMENTS["resnet"], *documents, service], Context())
    assert ("ConfigMap", True, "the job reads it") in [
        (item.kind, item.is_needed, item.why) for item in result.beside
    ]
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a"}}
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "b"},
        "subjects": [{"kind": "ServiceAccount", "name": "a"}],
    }
    others = [Document(item, "beside.yaml") for item in (account, binding)]
    result = registry.convert_all([DOCUMENTS["mnist"], *others], Context())
    assert ["RoleBinding b names it", "the job's account may need it"] == [
        item.why for item in result.beside
    ]


NODES = """\
apiVersion: batch/v1
kind: Job
metadata: {name: ft}
spec: {completionMode: Indexed, completions: 2, parallelism: 2, template: {metadata: {labels:
  {app: ft, scheduling.x-k8s.io/pod-group: gang}}, spec: {containers: [{name: c, image: i,
  command: [bash, -c, "WORDS"]}]}}}
---
apiVersion: v1
kind: Service
metadata: {name: meet}
spec: {clusterIP: None, selector: {SELECTOR}}
---
apiVersion: scheduling.x-k8s.io/v1alpha1
kind: PodGroup
metadata: {name: gang}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: store}
spec: {template: {metadata: {labels: {app: store}}, spec: {containers: [{name: c, image: i,
  command: [serve]}]}}}
"""
_NAMED = "call the release meet, because the job's own words name this Service"
_GONE = "which no pod has here: have it select app.kubernetes.io/instance, the release"
_NAMED_UP = "call the release meet-up, because the job's own words name this Service"
SERVICES = [
    ("torchrun a.py", "app: ft", False, "for the job's own pods"),
    ("torchrun a.py $(getent hosts meet.default.svc)", "app: ft", False, _NAMED),
    ("torchrun a.py --hosts ft-1.meet", "job-name: ft", False, "for the job's own pods"),
    ("torchrun a.py --hosts ${POD}.meet", "job-name: ft", False, _NAMED),
    ("torchrun meet.py", "app: ft", False, "for the job's own pods"),
    ("until nslookup meet-up; do sleep 1; done; torchrun a.py", "app: ft", False, _NAMED_UP),
    ("torchrun a.py --out /data/meet-up", "app: ft", False, "for the job's own pods"),
    ("./each", "app: ft", True, "others may reach the job's pods by it"),
    ("./each", "job-name: ft", True, _GONE),
    ("torchrun a.py", "app: store", True, "the pods of StatefulSet store are reached by it"),
]


@pytest.mark.parametrize(("words", "selector", "is_needed", "why"), SERVICES)
def test_a_service_beside_a_job(words: str, selector: str, is_needed: bool, why: str) -> None:
    """It is left away where the chart has its own, and what names it can still find it."""
    name = "meet-up" if "meet-up" in words else "meet"
    objects = NODES.replace("{name: meet}", f"{{name: {name}}}").replace("SELECTOR", selector)
    service, group, _ = text_as_jobs(objects.replace("WORDS", words)).beside
    assert (is_needed, True) == (service.is_needed, service.why.endswith(why))
    # The pods keep the label by which they are in the gang.
    assert (True, "PodGroup") == (group.is_needed, group.kind)


CALLER = """\
---
apiVersion: batch/v1
kind: Job
metadata: {name: driver}
spec: {template: {metadata: {labels: {app: driver}}, spec: {containers: [{name: c, image: i,
  command: [python, drive.py], env: [{name: TRAINER, value: "HOST"}]}]}}}
"""
CALLERS = [
    ("meet", "app: ft", True, "Job driver reaches the job's pods by it"),
    ("http://meet:8000", "app: ft", True, "Job driver reaches the job's pods by it"),
    ("meet", "job-name: ft", True, _GONE),
    ("other", "app: ft", False, "for the job's own pods"),
]


@pytest.mark.parametrize("is_converted", [True, False])
@pytest.mark.parametrize(("host", "selector", "is_needed", "why"), CALLERS)
def test_a_service_by_which_another_job_calls(
    host: str, selector: str, is_needed: bool, why: str, *, is_converted: bool
) -> None:
    """It stays where a job of the input calls the pods by its name, which would wait for ever."""
    caller = CALLER.replace("HOST", host)
    if not is_converted:
        caller = caller.replace("[python, drive.py]", "[]")
    text = NODES.replace("WORDS", "torchrun a.py").replace("SELECTOR", selector) + caller
    service = next(item for item in text_as_jobs(text).beside if item.kind == "Service")
    assert (is_needed, True) == (service.is_needed, service.why.endswith(why))


IN_GROUP = [
    ("labels: {scheduling.x-k8s.io/pod-group: gang}", "", True),
    ("annotations: {scheduling.k8s.io/group-name: gang}", "", True),
    (
        "labels: {scheduling.x-k8s.io/pod-group: gang}",
        "---\napiVersion: scheduling.x-k8s.io/v1alpha1\nkind: PodGroup\nmetadata: {name: gang}\n",
        False,
    ),
    ("labels: {pod-group.scheduling.sigs.k8s.io: gang}", "", True),
    ("labels: {app: gang}", "", False),
]


@pytest.mark.parametrize(("metadata", "group", "is_noted"), IN_GROUP)
def test_a_pod_group_that_is_not_in_the_input(metadata: str, group: str, *, is_noted: bool) -> None:
    """An operator made the PodGroup that its pods name; without one they wait for ever."""
    conversion = text_as_jobs(
        "apiVersion: kubeflow.org/v1\nkind: TFJob\nmetadata: {name: gang}\nspec: "
        f"{{tfReplicaSpecs: {{Worker: {{template: {{metadata: {{{metadata}}}, spec: "
        "{schedulerName: kube-batch, containers: [{name: a, image: i, command: [./a]}]}}}}}\n"
        f"{group}"
    ).conversions[0]
    assert is_noted == any("the PodGroup gang" in note for note in conversion.notes)


@pytest.mark.parametrize(
    "label", ["scheduling.x-k8s.io/pod-group", "pod-group.scheduling.sigs.k8s.io"]
)
def test_a_pod_group_that_the_pods_are_in_stays(label: str) -> None:
    """The scheduler plugins have had two labels for it."""
    result = text_as_jobs(
        "apiVersion: kubeflow.org/v1\nkind: TFJob\nmetadata: {name: a}\nspec: {tfReplicaSpecs: "
        f"{{Worker: {{template: {{metadata: {{labels: {{{label}: gang}}}}, spec: {{containers: "
        "[{name: a, image: i, command: [./a]}]}}}}}\n---\n"
        "apiVersion: scheduling.sigs.k8s.io/v1alpha1\nkind: PodGroup\nmetadata: {name: gang}\n"
    )
    assert [("gang", True)] == [(item.name, item.is_needed) for item in result.beside]


IN_OWN_GROUP = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: a}
spec: {runPolicy: {schedulingPolicy: {minAvailable: 1}}, pytorchReplicaSpecs: {Worker: {replicas: 2,
  template: {metadata: {METADATA}, spec: {schedulerName: SCHEDULER, containers: [
  {name: c, image: i, command: [torchrun, t.py]}]}}}}}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: gang}
spec: {minMember: 1, queue: q}
"""


@pytest.mark.parametrize(
    ("metadata", "scheduler"),
    [
        ("annotations: {scheduling.k8s.io/group-name: gang}", "volcano"),
        ("annotations: {scheduling.volcano.sh/group-name: gang}", "volcano"),
        ("labels: {scheduling.x-k8s.io/pod-group: gang}", "scheduler-plugins-scheduler"),
    ],
)
def test_pods_in_a_pod_group_of_their_own_have_no_other(metadata: str, scheduler: str) -> None:
    """It says the gang and the queue: with a dialect besides, the run was refused as it began."""
    text = IN_OWN_GROUP.replace("METADATA", metadata).replace("SCHEDULER", scheduler)
    result = text_as_jobs(text)
    assert {"schedulerName": scheduler} == result.conversions[0].values["scheduling"]
    assert [("gang", True)] == [(item.name, item.is_needed) for item in result.beside]
    minimum = "spec.runPolicy.schedulingPolicy.minAvailable"
    whys = {verdict.path: verdict.why for verdict in result.conversions[0].verdicts}
    assert whys[minimum].startswith("the PodGroup gang, which the pods are in by")


def test_a_queue_of_kueue_beside_a_pod_group_of_volcano() -> None:
    """Volcano makes a gang of the PodGroup that the pods are in, and no note denies it."""
    label = "{name: a, labels: {kueue.x-k8s.io/queue-name: q}}"
    text = IN_OWN_GROUP.replace("{name: a}", label, 1).replace("SCHEDULER", "volcano")
    notes = {}
    for metadata in ("annotations: {scheduling.k8s.io/group-name: gang}", "labels: {a: b}"):
        conversion = text_as_jobs(text.replace("METADATA", metadata)).conversions[0]
        notes[metadata[:6]] = " ".join(conversion.notes)
        assert {"dialect": "kueue", "schedulerName": "volcano"} == conversion.values["scheduling"]
    assert "the PodGroup gang says its gang" in notes["annota"]
    assert "makes no gang" not in notes["annota"]
    assert "volcano makes no gang of it" in notes["labels"]


def test_a_configmap_with_the_job_s_name_asks_for_another_release() -> None:
    """The chart has a ConfigMap of the release's name: Helm refuses to install over another's."""
    volume = "volumes: [{name: v, configMap: {name: NAME}}]"
    text = (
        "apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\nspec: {template: {spec: "
        f"{{{volume}, containers: [{{name: c, image: i, command: [./a]}}]}}}}}}\n---\n"
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME}\n"
    )
    for name, clashes in ("a", True), ("b", False):
        (config,) = text_as_jobs(text.replace("NAME", name)).beside
        assert config.is_needed
        assert clashes == ("call the release otherwise than a" in config.why)


def test_a_cronjob_beside_a_job_is_named() -> None:
    """By itself it is refused; beside a job it is one more object."""
    timed = "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: nightly}\n"
    assert "it starts jobs at times" in converted.refusal(timed).message
    result = text_as_jobs(NODES.replace("WORDS", "torchrun a.py") + "---\n" + timed)
    assert ("CronJob", True) == (result.beside[-1].kind, result.beside[-1].is_needed)


def test_a_gang_that_labels_make_stays_with_its_scheduler() -> None:
    """Labels alone may make it: there is none of the chart's own beside it, and no object of it."""
    label = "pod-group.scheduling.sigs.k8s.io/name: gang"
    text = IN_OWN_GROUP.replace("METADATA", f"labels: {{{label}}}").replace(
        "SCHEDULER", "scheduler-plugins-scheduler"
    )
    job = text.partition("---")[0]
    for own, is_needed in (text, [True]), (job, []):
        result = text_as_jobs(own)
        conversion = result.conversions[0]
        assert {"schedulerName": "scheduler-plugins-scheduler"} == conversion.values["scheduling"]
        assert is_needed == [item.is_needed for item in result.beside]
        assert not any("for ever where there is none" in note for note in conversion.notes)


_OF_ONE_POD = """\
apiVersion: batch/v1
kind: Job
metadata: {name: fit}
spec: {completionMode: Indexed, completions: COUNT, parallelism: COUNT, template: {metadata:
  {labels: {app: fit}}, spec: {subdomain: fit-headless, restartPolicy: Never, containers:
  [{name: c, image: i, env: [{name: JOB, value: fit}, {name: SERVICE, value: fit-headless}],
  command: [bash, -c, "torchrun --nnodes=COUNT --master_addr=$JOB-0.$SERVICE a.py"]}]}}}
---
apiVersion: v1
kind: Service
metadata: {name: fit-headless}
spec: {clusterIP: None, selector: {app: fit}}
"""


@pytest.mark.parametrize(
    ("count", "advice"),
    [("1", "write localhost"), ("2", "write the release's name for both")],
)
def test_a_name_that_is_put_together_is_one_of_no_release(count: str, advice: str) -> None:
    """One pod has no Service here, and those of several are called as the Service is."""
    [service] = text_as_jobs(_OF_ONE_POD.replace("COUNT", count)).beside
    assert (service.is_needed, advice in service.why) == (False, True)


@pytest.mark.parametrize(("scheduler", "is_sure"), [("", False), ("schedulerName: volcano,", True)])
def test_a_group_is_waited_for_where_a_scheduler_knows_it(scheduler: str, *, is_sure: bool) -> None:
    """The cluster's own scheduler looks for no PodGroup, unless it is one that does."""
    [conversion] = text_as_jobs(f"""\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {{name: a}}
spec:
  pytorchReplicaSpecs:
    Worker:
      replicas: 2
      template:
        metadata: {{annotations: {{scheduling.k8s.io/group-name: gang}}}}
        spec: {{{scheduler} containers: [{{name: pytorch, image: i, command: [torchrun, a.py]}}]}}
""").conversions
    [note] = [own for own in conversion.notes if "the PodGroup gang" in own]
    assert ("if the cluster's own scheduler looks for it" in note) is not is_sure


QUEUED_WITH_PRIORITY = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: a, labels: {QUEUE}}
spec:
  pytorchReplicaSpecs:
    Worker:
      replicas: 2
      template:
        spec:
          priorityClassName: high
          containers: [{name: pytorch, image: "a/b:1", command: [torchrun, t.py]}]
"""


@pytest.mark.parametrize(
    ("queue", "where"),
    [
        ("kueue.x-k8s.io/queue-name: q", ("podTemplate", "spec")),
        ("kai.scheduler/queue: q", ("scheduling",)),
        ("app: q", ("scheduling",)),
    ],
)
def test_pods_of_a_queue_of_kueues_keep_their_priority_class(
    queue: str, where: tuple[str, ...]
) -> None:
    """A run's priority class is a WorkloadPriorityClass there, of which the input says nothing."""
    conversion = text_as_jobs(QUEUED_WITH_PRIORITY.replace("QUEUE", queue)).conversions[0]
    values = conversion.values
    assert "high" == k8s.at(values, *where, "priorityClassName")
    assert ("priorityClassName" in values.get("scheduling", {})) == (where == ("scheduling",))
    path = "spec.pytorchReplicaSpecs.Worker.template.spec.priorityClassName"
    places = {verdict.path: verdict.to for verdict in conversion.verdicts}
    assert ".".join((*where, "priorityClassName")) == places[path]
    assert 0 == len(conversion.lost)


OF_ONE_POD = """\
apiVersion: v1
kind: Service
metadata: {name: train-master}
spec: {clusterIP: None, selector: {job-name: train, KEY}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  completions: NODES
  parallelism: NODES
  completionMode: Indexed
  template:
    spec:
      containers:
      - name: c
        image: "a/b:1"
        command:
        - sh
        - -c
        - |
          date
          torchrun --nnodes=NODES --rdzv-endpoint=train-master:29500 t.py || exit 1
          date
"""


@pytest.mark.parametrize(
    ("key", "nodes", "is_needed"),
    [
        ('batch.kubernetes.io/job-completion-index: "0"', 2, True),
        ('batch.kubernetes.io/job-completion-index: "1"', 2, False),
        ("app: train", 2, False),
        ('batch.kubernetes.io/job-completion-index: "0"', 1, False),
    ],
)
def test_the_service_of_the_first_pod_stays(key: str, nodes: int, *, is_needed: bool) -> None:
    """By the release's own every pod would be its own rendezvous."""
    text = OF_ONE_POD.replace("KEY", key).replace("NODES", str(nodes))
    (service,) = text_as_jobs(text).beside
    assert is_needed == service.is_needed
    assert is_needed == ('job-completion-index "0"' in service.why)


@pytest.mark.parametrize(
    ("host", "is_noted"),
    [
        ("other", True),
        ("other.ml.svc.cluster.local", True),
        ("train-master", False),
        ("localhost", False),
        ("$HOST", False),
        ("10.0.0.1", False),
        ("lead.lab.example.org", False),
    ],
)
def test_a_meeting_at_a_service_that_the_input_has_not_is_noted(
    host: str, *, is_noted: bool
) -> None:
    """It was the old pods', and finds none of these."""
    text = OF_ONE_POD.replace("KEY", "app: train").replace("NODES", "2")
    text = text.replace("endpoint=train-master", f"endpoint={host}")
    notes = text_as_jobs(text).conversions[0].notes
    assert is_noted == any("which no Service of the input is" in note for note in notes)


def test_an_object_that_a_job_reads_in_its_own_namespace_is_missed() -> None:
    """That of another is not needed, and the job's own was missing without a word."""
    text = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: script, namespace: default}
data: {t.py: "pass"}
---
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: a, namespace: training}
spec:
  pytorchReplicaSpecs:
    Worker:
      template:
        spec:
          containers:
          - name: pytorch
            image: i
            command: [torchrun, /s/t.py]
            volumeMounts: [{name: s, mountPath: /s}]
          volumes: [{name: s, configMap: {name: script}}]
"""
    [own] = converted.text_as_jobs(text).beside
    assert not own.is_needed
    assert "the job a reads one of this name in training, which the input does not have" in own.why


@pytest.mark.parametrize(
    ("selector", "why"),
    [
        ("{app: etcd}", "Pod store is reached by it"),
        ("{app: other}", "it selects none of the job's pods, which may call others by it"),
    ],
)
def test_a_service_of_a_pod_beside_the_job_is_its(selector: str, why: str) -> None:
    """An etcd at which the ranks meet is no pod of theirs."""
    text = f"""\
apiVersion: v1
kind: Service
metadata: {{name: etcd}}
spec: {{ports: [{{port: 2379}}], selector: {selector}}}
---
apiVersion: v1
kind: Pod
metadata: {{name: store, labels: {{app: etcd, more: x}}}}
spec: {{containers: [{{name: etcd, image: e}}]}}
---
{NODES}"""
    [service] = [item for item in text_as_jobs(text).beside if item.name == "etcd"]
    assert (True, why) == (service.is_needed, service.why)


WORKERS = """\
apiVersion: v1
kind: Service
metadata: {name: metrics}
spec: {ports: [{port: 9400}], selector: {SELECTOR}}
---
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: pj}
spec: {pytorchReplicaSpecs: {Worker: {replicas: 2, template: {
  metadata: {labels: {app.kubernetes.io/name: trainer, team: a}},
  spec: {containers: [{name: pytorch, image: i, command: [python, t.py]}]}}}}}
"""


@pytest.mark.parametrize(
    ("selector", "key"),
    [
        ("app.kubernetes.io/name: trainer", "app.kubernetes.io/name"),
        ("app.kubernetes.io/name: trainer, team: a", "app.kubernetes.io/name"),
        ("training.kubeflow.org/replica-type: worker", "training.kubeflow.org/replica-type"),
        ("training.kubeflow.org/job-name: pj", "training.kubeflow.org/job-name"),
        ("team: a", ""),
        ("training.kubeflow.org/job-name: other", None),
        ("app.kubernetes.io/name: other", None),
        ("team: b", None),
    ],
)
def test_a_service_of_labels_that_no_pod_has_here_is_said(selector: str, key: str | None) -> None:
    """The chart sets some labels itself, and the old controller others: it would select no pod."""
    text = WORKERS.replace("SELECTOR", selector)
    [service] = [item for item in text_as_jobs(text).beside if item.kind == "Service"]
    assert service.is_needed
    assert (key is None) == service.why.startswith("it selects none of the job's pods")
    assert bool(key) == (f"it selects pods by {key}, which no pod has here" in service.why)
