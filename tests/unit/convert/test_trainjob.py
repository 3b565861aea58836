from __future__ import annotations

import pytest

from allranks.convert import registry
from allranks.convert.documents.context import Context
from allranks.convert.original import trainjob
from allranks.convert.reports import conversion_report
from allranks.errors import InputError
from tests.converted import documents, lost, refusal, sample, text_as_jobs


def test_a_trainjob_is_laid_over_its_runtime() -> None:
    """Image, size, arguments and variables are the TrainJob's, and all else is its runtime's."""
    conversion = sample("trainjob.yaml", "tune")
    values = conversion.values
    assert ("example.org/team/torch", "2") == (
        values["image"]["repository"],
        values["image"]["tag"],
    )
    assert ("torchrun", 4, 2) == (values["workload"], values["nodes"], values["gpusPerNode"])
    assert ["python3", "-u", "train.py", "--lr", "1e-5"] == values["command"]
    secret = {"valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}}
    assert {"FROM": "job", "KEPT": "1", "TOKEN": secret} == values["env"]
    assert set() == lost(conversion)


def test_patches_are_laid_over_the_pods() -> None:
    """What a patch says of the pods is the values', and named things are merged by their names."""
    values = sample("trainjob.yaml", "tune").values
    spec = values["podTemplate"]["spec"]
    assert ["data", "more"] == [volume["name"] for volume in spec["volumes"]]
    assert ["/data", "/more"] == [
        mount["mountPath"] for mount in spec["containers"][0]["volumeMounts"]
    ]
    assert ({"pool": "gpu"}, "trainer") == (
        values["scheduling"]["nodeSelector"],
        values["serviceAccount"]["name"],
    )
    assert ({"cost": "research"}, {"note": "patched"}) == (values["labels"], values["annotations"])


def test_the_gang_is_the_runtime_s() -> None:
    """A runtime's policy of its pod group is the scheduling dialect."""
    scheduling = sample("trainjob.yaml", "tune").values["scheduling"]
    assert 120 == scheduling["gangTimeoutSeconds"]


def test_the_policy_mpi_has_a_launcher_that_is_a_node() -> None:
    """With runLauncherAsNode the launcher is a host, and numNodes counts it."""
    values = sample("trainjob.yaml", "sharded").values
    mpi = values["mpi"]
    assert ("mpi", 1, True, 2) == (
        values["workload"],
        mpi["numWorkers"],
        mpi["runLauncherAsWorker"],
        mpi["slotsPerWorker"],
    )


def test_jax_is_told_of_its_coordinator() -> None:
    """The variables that Trainer tells JAX are made of those of the ranks."""
    conversion = sample("trainjob.yaml", "spmd")
    assert 'JAX_COORDINATOR_ADDRESS="$MASTER_ADDR:$MASTER_PORT"' in " ".join(
        conversion.values["command"]
    )
    assert {"spec.initializer.dataset.storageUri"} == lost(conversion)


def test_a_runtime_that_is_not_there_is_asked_for() -> None:
    """A TrainJob whose runtime nobody has is refused with the command that shows it."""
    problem = refusal(
        "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nmetadata: {name: a}\n"
        "spec: {runtimeRef: {name: ours}}\n"
    )
    assert "the runtime ours is not in the input" == problem.message
    assert "kubectl get clustertrainingruntime ours -o yaml" in problem.hint


def test_runtimes_of_other_names_are_named_where_one_is_missing() -> None:
    """A person sees that the file of --runtime has been read, and what it has."""
    runtime = (
        "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: ClusterTrainingRuntime\n"
        "metadata: {name: other}\nspec: {}\n"
    )
    job = (
        "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nmetadata: {name: a}\n"
        "spec: {runtimeRef: {name: ours}}\n"
    )
    context = Context(runtimes=tuple(documents(runtime)))
    with pytest.raises(InputError) as caught:
        registry.convert_all(documents(job), context)
    assert "--runtime has ClusterTrainingRuntime other" in caught.value.problem.message


ON_CPUS = """
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: a}
spec:
  runtimeRef: {name: torch-distributed}
  trainer:
    numNodes: 2
    image: x
    command: [torchrun, a.py]
    resourcesPerNode: {requests: {cpu: 2500m}, limits: {cpu: 8}}
"""


def test_auto_is_a_process_for_each_cpu() -> None:
    """Without GPUs Trainer counts the CPUs that are asked for; the comparison knows it, too."""
    values = text_as_jobs(ON_CPUS).conversions[0].values
    pods = trainjob.pods(dict(documents(ON_CPUS)[0].data))
    assert pods is not None
    assert (3, 3, 6) == (values["procsPerNode"], pods[0].ranks, pods[0].world)


PROCESSES = """
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainingRuntime
metadata: {name: r}
spec: {mlPolicy: {numNodes: 2, torch: {numProcPerNode: COUNT}}, template: {spec: {replicatedJobs: [
  {name: node, template: {metadata: {labels:
    {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}, spec: {template: {spec:
      {containers: CONTAINERS}}}}}]}}}
---
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: j}
spec: {runtimeRef: {name: r, kind: TrainingRuntime}, trainer: {command: [torchrun, a.py]OWN}}
"""
ON_GPUS = "[{name: node, image: i, resources: {limits: {nvidia.com/gpu: 4}}}]"
ON_NONE = "[{name: node, image: i, resources: {requests: {cpu: 3}}}]"


@pytest.mark.parametrize(
    ("count", "containers", "own", "processes"),
    [
        ("2", ON_GPUS, "", 2),
        ("2", ON_GPUS, ", numProcPerNode: 1", 1),
        ("gpu", ON_GPUS, "", 4),
        ("auto", ON_GPUS, "", 4),
        ("2", ON_NONE, "", 2),
        ("cpu", ON_NONE, "", 3),
        ("auto", ON_NONE, "", 3),
    ],
)
def test_a_runtime_says_how_many_processes_a_node_has(
    count: str, containers: str, own: str, processes: int
) -> None:
    """A TrainJob's own number is before it; the comparison counts as many."""
    text = PROCESSES.replace("COUNT", count).replace("CONTAINERS", containers).replace("OWN", own)
    values = text_as_jobs(text).conversions[0].values
    runtime, job = (dict(document.data) for document in documents(text))
    pods = trainjob.pods(job, [runtime])
    assert pods is not None
    assert processes == (values.get("procsPerNode") or values["gpusPerNode"])
    assert pods[0].ranks in (processes, 0)


@pytest.mark.parametrize(
    ("names", "main", "is_noted"),
    [
        (("side", "node"), "node", False),
        (("side", "trainer"), "trainer", True),
        (("first", "second"), "first", True),
    ],
)
def test_the_container_over_which_a_trainjob_is_laid(
    names: tuple[str, ...], main: str, *, is_noted: bool
) -> None:
    """It is called node, and was called trainer; where there is no node, a note says it."""
    containers = ", ".join(f"{{name: {name}, image: {name}-image}}" for name in names)
    text = PROCESSES.replace("COUNT", "1").replace("CONTAINERS", f"[{containers}]")
    text = text.replace("OWN", "")
    conversion = text_as_jobs(text).conversions[0]
    runtime, job = (dict(document.data) for document in documents(text))
    pods = trainjob.pods(job, [runtime])
    assert pods is not None
    assert (main, f"{main}-image") == (pods[0].container, conversion.values["image"]["repository"])
    note = f"and TrainingRuntime r has none; here it is laid over {main}"
    assert is_noted == any(note in own for own in conversion.notes)


def test_a_runtime_that_tells_nothing_is_said() -> None:
    """A plain policy starts no torchrun, which the chart does, and joins no pods."""
    text = (
        "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainingRuntime\nmetadata: {name: r}\n"
        "spec: {mlPolicy: {numNodes: 2}, template: {spec: {replicatedJobs: [\n"
        "  {name: node, template: {metadata: {labels:\n"
        "    {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}, spec: {template: {spec:\n"
        "      {containers: [{name: node, image: i}]}}}}}]}}}\n"
        "---\napiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nmetadata: {name: j}\n"
        "spec: {runtimeRef: {name: r, kind: TrainingRuntime}, trainer: {command: [python, a.py]}}\n"
    )
    notes = " ".join(text_as_jobs(text).conversions[0].notes)
    assert "the image must have torch" in notes
    assert "tells its pods nothing of each other" in notes
    alone = text.replace("python, a.py", "torchrun, --nnodes=2, a.py")
    assert "must have torch" not in " ".join(text_as_jobs(alone).conversions[0].notes)


NO_STEP = """
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainingRuntime
metadata: {name: r}
spec: {mlPolicy: {numNodes: 2, torch: {}}, template: {spec: {replicatedJobs: [
  {name: NAME, template: {spec: {template: {spec: {containers: [
    {name: node, image: i, command: [torchrun, own.py]}]}}}}}]}}}
---
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: j}
spec: {runtimeRef: {name: r, kind: TrainingRuntime}, trainer: {command: [torchrun, a.py]}}
"""


@pytest.mark.parametrize("name", ["workers", "node"])
def test_a_runtime_none_of_whose_jobs_is_said_to_train(name: str) -> None:
    """Trainer lays nothing over a job without the label, whatever it is called: it is refused."""
    text = NO_STEP.replace("NAME", name)
    problem = refusal(text)
    assert "so Trainer lays nothing of spec.trainer over its pods" in problem.message
    assert "trainjob-ancestor-step: trainer" in problem.hint
    labelled = text.replace(
        "template: {spec: {template",
        "template: {metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}, "
        "spec: {template",
        1,
    )
    values = text_as_jobs(labelled).conversions[0].values
    assert (2, ["python3", "-u", "a.py"]) == (values["nodes"], values["command"])
    runtime, job = (document.data for document in documents(labelled))
    original_pods = trainjob.pods(job, [runtime]) or []
    assert [f"j-{name}-0-0", f"j-{name}-0-1"] == [pod.name for pod in original_pods]
    assert ["torchrun", "a.py"] == original_pods[0].spec["containers"][0]["command"]


def test_a_runtime_of_mpi_has_a_launcher_and_nodes() -> None:
    """Trainer knows the pods of MPI by those names; the refusal names the one that is not there."""
    pod = "template: {spec: {template: {spec: {containers: [{name: c, image: i}]}}}}"
    problem = refusal(
        "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: ClusterTrainingRuntime\nmetadata: "
        "{name: osu}\nspec: {mlPolicy: {mpi: {}}, template: {spec: {replicatedJobs: "
        f"[{{name: launcher, {pod}}}, {{name: worker, {pod}}}]}}}}}}\n---\n"
        "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nmetadata: {name: a}\n"
        "spec: {runtimeRef: {name: osu}}\n"
    )
    assert "has no replicated job node" in problem.message


def test_what_a_runtime_says_besides_its_pods() -> None:
    """How often and how long its pods may run is the run's; what has no form here is named."""
    text = """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata: {name: own}
spec: {mlPolicy: {torch: {}}, template: {spec: {MORE, replicatedJobs: [{name: node, template: {
  metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}},
  spec: {backoffLimit: 1, activeDeadlineSeconds: 60, template: {spec: {containers: [
    {name: node, image: i, command: [torchrun, a.py]}]}}}}}]}}}
---
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: a}
spec: {runtimeRef: {name: own}}
"""
    policy_text = "failurePolicy: {maxRestarts: 2}, ttlSecondsAfterFinished: 9"
    conversion = text_as_jobs(text.replace("MORE", policy_text)).conversions[0]
    policy = {"backoffLimit": 5, "activeDeadlineSeconds": 60, "ttlSecondsAfterFinished": 9}
    assert (policy, set()) == (conversion.values["runPolicy"], lost(conversion))
    other = text_as_jobs(text.replace("MORE", "successPolicy: {operator: Any}")).conversions[0]
    assert {"spec.runtimeRef.name"} == lost(other)
    assert {"spec.template.spec.successPolicy.operator"} == lost(other.runtime)


MPI = """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata: {name: own}
spec:
  mlPolicy: {mpi: {runLauncherAsNode: AS_NODE}}
  template:
    spec:
      successPolicy: {operator: All, targetReplicatedJobs: [launcher]}
      replicatedJobs:
      - name: launcher
        template:
          metadata: {labels: {LABEL: trainer}}
          spec: {template: {spec: {containers: [{name: node, image: old, command: [mpirun, old]}]}}}
      - name: node
        template: {spec: {template: {spec: {containers: [{name: node, image: old, command: [
          /usr/sbin/sshd, -De], resources: {limits: {memory: 1Gi, nvidia.com/gpu: 1}}}]}}}}
---
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: a}
spec:
  runtimeRef: {name: own}
  trainer: {numNodes: 3, image: new, command: [mpirun, new], resourcesPerNode: {limits: {
    nvidia.com/gpu: 2}}}
"""


def test_what_a_trainjob_lays_over_the_pods_of_mpi() -> None:
    """All of it over the launcher that is labelled, and resources over nodes where it is one."""
    text = MPI.replace("LABEL", "trainer.kubeflow.org/trainjob-ancestor-step")
    conversion = text_as_jobs(text.replace("AS_NODE", "true")).conversions[0]
    values = conversion.values
    assert (["mpirun", "new"], 2, set()) == (
        values["command"],
        values["gpusPerNode"],
        lost(conversion),
    )
    assert "1Gi" == values["resources"]["perPod"]["limits"]["memory"]
    images = (values["image"]["repository"], str(values["mpi"]))
    assert ("old", True) == (images[0], "'new'" in images[1]) or (
        ("new", True) == (images[0], "'old'" in images[1])
    )


def test_a_launcher_without_a_label_keeps_its_program() -> None:
    """Trainer lays a TrainJob's program over none of its pods then, which is said."""
    text = MPI.replace("LABEL", "team").replace("AS_NODE", "false")
    conversion = text_as_jobs(text).conversions[0]
    assert ["mpirun", "old"] == conversion.values["command"]
    assert 1 == conversion.values["gpusPerNode"]
    assert {True} == {"so Trainer lays it over none" in verdict.why for verdict in conversion.lost}
    assert {
        "spec.trainer.image",
        "spec.trainer.command[0]",
        "spec.trainer.command[1]",
        "spec.trainer.resourcesPerNode.limits.nvidia.com/gpu",
    } == lost(conversion)


_WITH_GANG = """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata: {name: r}
spec: {mlPolicy: {torch: {}}, podGroupPolicy: POLICY, template: {spec: {replicatedJobs: [
  {name: node, template: {metadata: {labels:
  {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}, spec: {template: {spec:
  {containers: [{name: node, image: "p:1"}]}}}}}]}}}
---
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: a}
spec: {runtimeRef: {name: r}, trainer: {numNodes: 4, command: [torchrun, t.py]}}
"""


@pytest.mark.parametrize(
    ("policy", "loss"),
    [
        ("{volcano: {}}", ""),
        ("{coscheduling: {scheduleTimeoutSeconds: 9}}", ""),
        (
            "{volcano: {networkTopology: {mode: hard}}}",
            "podGroupPolicy.volcano.networkTopology.mode",
        ),
        ("{other: {}}", "podGroupPolicy.other"),
    ],
)
def test_what_a_runtime_asks_of_its_gang_is_not_lost_without_a_word(policy: str, loss: str) -> None:
    """Where its pods are to be, and a scheduler that is not known, are no part of the values."""
    conversion = text_as_jobs(_WITH_GANG.replace("POLICY", policy)).conversions[0]
    assert ({"spec.runtimeRef.name"} if loss else set()) == lost(conversion)
    assert ({f"spec.{loss}"} if loss else set()) == lost(conversion.runtime)


@pytest.mark.parametrize("image", ["", "image: team/a:1,"])
def test_a_runtime_that_is_not_there_is_taken_for_trainers_own(image: str) -> None:
    """Whatever the TrainJob says of its image: a cluster's may have variables and volumes."""
    text = f"""\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {{name: a}}
spec:
  runtimeRef: {{name: torch-distributed}}
  trainer: {{{image} numNodes: 2, command: [torchrun, a.py]}}
"""
    [conversion] = text_as_jobs(text).conversions
    [note] = [own for own in conversion.notes if "taken for that of Trainer's own manifests" in own]
    assert ("the tag of its image" in note) is (not image)
    whys = [own.why for own in conversion.verdicts if own.path == "spec.runtimeRef.name"]
    assert whys == ["what Trainer's own manifests have of it is part of the values"]


def test_the_older_overrides_are_laid_over_the_pods() -> None:
    """Trainer 2.0 had the fields of a PodSpec beside the target jobs, and mounted claims so."""
    text = """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: a}
spec:
  runtimeRef: {name: torch-distributed}
  trainer: {image: "a/b:1", command: [python, t.py], numNodes: 1}
  podSpecOverrides:
  - targetJobs: [{name: node}]
    nodeSelector: {pool: gpu}
    volumes: [{name: out, persistentVolumeClaim: {claimName: out}}]
    containers: [{name: node, volumeMounts: [{name: out, mountPath: /out}]}]
"""
    conversion = text_as_jobs(text).conversions[0]
    spec = conversion.values["podTemplate"]["spec"]
    assert ["out"] == [volume["name"] for volume in spec["volumes"]]
    assert ["/out"] == [mount["mountPath"] for mount in spec["containers"][0]["volumeMounts"]]
    assert {"pool": "gpu"} == conversion.values["scheduling"]["nodeSelector"]
    assert set() == lost(conversion)


@pytest.mark.parametrize(
    "override",
    [
        "podSpecOverrides: [{TARGET, nodeSelector: {a: b}}]",
        "podTemplateOverrides: [{TARGET, spec: {nodeSelector: {a: b}}}]",
    ],
)
@pytest.mark.parametrize(("job", "is_lost"), [("dataset-initializer", True), ("node", False)])
def test_an_override_of_a_job_that_is_not_run_is_said(
    override: str, job: str, *, is_lost: bool
) -> None:
    """It is laid over no pod of the run, whose pods are those of the trainer."""
    text = (
        "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nmetadata: {name: a}\nspec:\n"
        "  runtimeRef: {name: torch-distributed}\n"
        '  trainer: {image: "a/b:1", command: [python, t.py], numNodes: 1}\n'
        f"  {override.replace('TARGET', f'targetJobs: [{{name: {job}}}]')}\n"
    )
    conversion = text_as_jobs(text).conversions[0]
    whys = {own.why for own in conversion.lost}
    expected = f"it is for the pods of {job} alone, which are no part of the run"
    assert ({expected} if is_lost else set()) == whys
    assert is_lost == ("nodeSelector" not in conversion.values.get("scheduling", {}))


WHOLE_RUNTIME = """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata: {name: r}
spec:
  mlPolicy: {numNodes: 2, torch: {numProcPerNode: 2, elasticPolicy: {minNodes: 1, maxNodes: 4}}}
  podGroupPolicy: {coscheduling: {scheduleTimeoutSeconds: 9}}
  template:
    metadata: {labels: {kueue.x-k8s.io/queue-name: lq, team: a}, annotations: {cost: "1"}}
    spec:
      coordinator: {replicatedJob: node}
      replicatedJobs:
      - name: node
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer, jl: jl}}
          spec:
            template:
              spec:
                restartPolicy: OnFailure
                containers: [{name: node, image: "p:1", command: [torchrun, a.py]}]
---
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: t}
spec: {runtimeRef: {name: r}, trainer: {numNodes: 3, image: "q:2"}}
"""


def test_each_field_of_a_runtime_has_a_verdict() -> None:
    """Its pods' fields as well as those of its JobSet, and those that the TrainJob replaces."""
    [conversion] = text_as_jobs(WHOLE_RUNTIME).conversions
    runtime = conversion.runtime
    assert runtime is not None
    assert {"spec.runtimeRef.name"} == lost(conversion)
    # A queue of Kueue's lets the pods start together, and waits as long as it takes.
    timeout = "spec.podGroupPolicy.coscheduling.scheduleTimeoutSeconds"
    assert {timeout, "spec.template.spec.coordinator.replicatedJob"} == lost(runtime)
    whys = {verdict.path: verdict.why for verdict in runtime.verdicts}
    replaced = {path for path, why in whys.items() if "TrainJob's own" in why}
    container = "spec.template.spec.replicatedJobs[0].template.spec.template.spec.containers[0]"
    assert {"spec.mlPolicy.numNodes", f"{container}.image"} == replaced
    assert "no release of Trainer acts on it" in whys["spec.mlPolicy.torch.elasticPolicy.maxNodes"]
    assert {"team": "a"}.items() <= conversion.values["labels"].items()
    assert ("lq", {"cost": "1"}) == tuple(
        conversion.values[key] for key in ("queue", "annotations")
    )
    assert not [note for note in conversion.notes if "without a gang" in note]
    assert all(verdict.line for verdict in runtime.verdicts)


def test_a_report_has_the_fields_of_a_runtime() -> None:
    """As text, as Markdown and as JSON."""
    result = text_as_jobs(WHOLE_RUNTIME)
    lines = "\n".join(conversion_report.text(result, [""]))
    assert "ClusterTrainingRuntime r: 20 fields" in lines
    assert "spec.template.spec.coordinator.replicatedJob not carried" in lines
    assert "## ClusterTrainingRuntime r" in conversion_report.markdown(result)
    [job] = conversion_report.as_json(result, [""])["jobs"]
    assert 20 == len(job["runtime"]["fields"])


@pytest.mark.parametrize(("gpus", "count"), [(2, '"$((WORLD_SIZE * 2))"'), (1, '"$WORLD_SIZE"')])
def test_xgboost_counts_a_worker_for_each_gpu(gpus: int, count: str) -> None:
    """As Trainer's policy does; LightGBM's variables are not its own."""
    [conversion] = text_as_jobs(
        "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nmetadata: {name: x}\nspec:\n"
        "  runtimeRef: {name: xgboost-distributed}\n"
        "  trainer: {numNodes: 2, image: i, command: [python, x.py], "
        f"resourcesPerNode: {{limits: {{nvidia.com/gpu: {gpus}}}}}}}\n"
    ).conversions
    assert f"DMLC_NUM_WORKER={count}" in " ".join(conversion.values["command"])
    assert not any("LightGBM" in note for note in conversion.notes)


def test_a_runtime_like_one_that_is_known_is_asked_after() -> None:
    """Kubectl would not find the other name either."""
    problem = refusal(
        "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nmetadata: {name: x}\n"
        "spec: {runtimeRef: {name: torch-distribted}}\n"
    )
    start = "did you mean torch-distributed? If not, give it with --runtime FILE: kubectl get"
    assert problem.hint.startswith(start)


ALONE = """
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainingRuntime
metadata: {name: r}
spec: {mlPolicy: {numNodes: 2, torch: {}}, template: {spec: {replicatedJobs: [
  {name: node, template: {
    metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}},
    spec: {template: {spec: {containers: [
      {name: NAME, image: i, command: [torchrun, OPTION, a.py],
       resources: {limits: {nvidia.com/gpu: 8}}}]}}}}}]}}}
---
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: j}
spec: {runtimeRef: {name: r, kind: TrainingRuntime}TRAINER}
"""


@pytest.mark.parametrize(
    ("name", "option", "trainer", "start"),
    [
        ("node", "--log-dir=/l", "", "without spec.trainer Trainer sets none"),
        ("node", "--log-dir=/l", ", trainer: null", "without spec.trainer Trainer sets none"),
        ("main", "--log-dir=/l", ", trainer: {numNodes: 2}", "without the container node in"),
        ("node", "--log-dir=/l", ", trainer: {numNodes: 2}", ""),
        ("node", "--log-dir=/l", ", trainer: {}", ""),
        ("trainer", "--log-dir=/l", ", trainer: {numNodes: 2}", ""),
        ("node", "--nnodes=2", "", ""),
    ],
)
def test_pods_that_trainer_told_nothing_are_said_to_train_together(
    name: str, option: str, trainer: str, start: str
) -> None:
    """Without its variables each torchrun started one process, and knew of no other pod."""
    text = ALONE.replace("NAME", name).replace("OPTION", option).replace("TRAINER", trainer)
    conversion = text_as_jobs(text).conversions[0]
    notes = [note for note in conversion.notes if "Trainer sets none of its variables" in note]
    assert [note[: len(start)] for note in notes] == ([start] if start else [])
    runtime, job = (dict(document.data) for document in documents(text))
    pods = trainjob.pods(job, [runtime])
    assert pods is not None
    assert (pods[0].world == 1) == bool(start)


@pytest.mark.parametrize(
    ("resources", "says"),
    [
        ('cpu: "8", nvidia.com/gpualloc: 2', "how many nvidia.com/gpualloc gives a pod"),
        ('cpu: "8"', ""),
        ('cpu: "8", nvidia.com/gpu: 2', ""),
    ],
)
def test_a_resource_that_is_called_a_gpu_is_no_number_of_cpus(resources: str, says: str) -> None:
    """To Trainer a pod with one has GPUs, which torchrun counts, and no rank for each CPU."""
    text = ALONE.replace("NAME", "node").replace("OPTION", "--log-dir=/l")
    text = text.replace("nvidia.com/gpu: 8", resources).replace("TRAINER", ", trainer: {}")
    conversion = text_as_jobs(text).conversions[0]
    assert (8 if resources == 'cpu: "8"' else None) == conversion.values.get("procsPerNode")
    assert bool(says) == any(says in note for note in conversion.notes if says)


def test_a_job_of_the_runtime_that_is_no_part_of_the_run_is_one_line() -> None:
    """What is not carried as a whole is named as a whole; a field of the rest by itself."""
    first = (
        "{name: fetch, template: {spec: {template: {spec: {volumes: [{name: v}], containers: ["
        "{name: c, image: f, command: [a, b], env: [{name: A, value: x}]}]}}}}},\n  {name: node,"
    )
    text = ALONE.replace("{name: node,", first, 1).replace("NAME", "node").replace("OPTION", "-v")
    result = text_as_jobs(text.replace("TRAINER", ", trainer: {}"))
    lines = list(conversion_report.text(result, [""]))
    [line] = [line for line in lines if "its fetch is no part of the values" in line]
    assert ".replicatedJobs[0] not carried: " in line
    runtime = result.conversions[0].runtime
    assert runtime is not None
    assert len([own for own in runtime.lost if "fetch is no part" in own.why]) > 4
