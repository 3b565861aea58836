"""MPIJob, TFJob, MXJob, XGBoostJob, PaddleJob: what each has of its own.

It is long, as each test has the manifest that it is about.
"""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from allranks.convert import registry
from allranks.convert.documents.context import Context
from allranks.convert.documents.document import Document, documents_of
from allranks.convert.programs import preparation, references
from allranks.convert.verdicts import Outcome
from allranks.errors import InputError
from allranks.yamlio.load import load_objects
from tests import converted
from tests.converted import lost, refusal, text_as_jobs

if TYPE_CHECKING:
    from allranks.convert.verdicts import Conversion

DOCUMENTS = converted.samples()


def convert(name: str, *others: str) -> Conversion:
    """A sample, converted, with others beside it."""
    result = registry.convert_all([DOCUMENTS[item] for item in (name, *others)], Context())
    return result.conversions[0]


def test_a_launcher_and_workers() -> None:
    """What both have is the job's, what one has is its own; the launcher's command stays."""
    values = convert("pi").values
    assert (["mpirun", "-n", "4", "/opt/pi"], {"BOTH": "x"}, 2, 2) == (
        values["command"],
        values["env"],
        values["gpusPerNode"],
        values["mpi"]["numWorkers"],
    )
    assert {
        "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
        "env": {"ROLE": "launcher"},
    } == values["mpi"]["launcher"]


def test_slots_of_workers_that_share_gpus_are_kept() -> None:
    """LAMMPS is started with several ranks to a GPU, and its mpirun finds room for all of them."""
    manifest = """\
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {name: lammps}
spec:
  slotsPerWorker: 8
  mpiReplicaSpecs:
    Launcher:
      template:
        spec: {containers: [{name: l, image: i, command: [mpirun, -np, "16", lmp]}]}
    Worker:
      replicas: 2
      template:
        spec:
          containers: [{name: w, image: i, resources: {limits: {nvidia.com/gpu: 2}}}]
"""
    conversion = converted.text_as_jobs(manifest).conversions[0]
    assert [] == list(conversion.lost)
    assert (8, 2) == (conversion.values["procsPerNode"], conversion.values["gpusPerNode"])


def test_a_kind_of_another_project_is_asked_about() -> None:
    """An object of another group may be known under a wrong version, or have other fields."""
    manifest = "apiVersion: example.org/v1\nkind: MPIJob\nmetadata: {name: a}\n"
    problem = converted.refusal(manifest)
    assert "there is no job to convert, only: MPIJob of example.org/v1" == problem.message
    assert problem.source.endswith(":1")
    start = "an MPIJob of batch.test.bdap.com or kubeflow.org is known: correct the apiVersion if"
    assert problem.hint.startswith(start)


PLACED = """\
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {name: placed}
spec:
  slotsPerWorker: 8
  mpiReplicaSpecs:
    Launcher:
      template:
        spec: {containers: [{name: launcher, image: "x:1", command: [mpirun, /opt/pi]}]}
    Worker:
      replicas: 2
      template:
        spec:
          nodeSelector: {pool: h100}
          tolerations: [{operator: Exists}]
          serviceAccountName: reader
          hostNetwork: true
          containers:
          - name: worker
            image: "x:1"
            envFrom: [{secretRef: {name: key}}]
            securityContext: {privileged: true}
            resources: {limits: {nvidia.com/gpu: 8}}
"""


def test_what_one_role_alone_has() -> None:
    """No other role gets it, neither its place nor its rights; what all must share is said."""
    conversion = converted.text_as_jobs(PLACED).conversions[0]
    values = conversion.values
    spec = values["mpi"]["worker"]["podTemplate"]["spec"]
    assert ({"pool": "h100"}, [{"operator": "Exists"}], "reader") == (
        spec["nodeSelector"],
        spec["tolerations"],
        spec["serviceAccountName"],
    )
    assert {
        "name": "trainer",
        "envFrom": [{"secretRef": {"name": "key"}}],
        "securityContext": {"privileged": True},
    } == spec["containers"][0]
    sections = {"workload", "image", "command", "gpusPerNode", "network", "security", "mpi"}
    sections |= {"trackers"}
    assert sections == set(values) - {"runPolicy"}
    assert {"restricted": False} == values["security"]
    assert not conversion.lost
    assert "all pods of a job share network.hostNetwork, so those of launcher have it too" in (
        conversion.notes
    )


OF_V1ALPHA1 = """\
apiVersion: kubeflow.org/v1alpha1
kind: MPIJob
metadata: {name: a}
spec: {SIZE, activeDeadlineSeconds: 9, template: {spec: {tolerations: [{operator: Exists}],
  containers: [{name: c, image: i, command: [mpirun, python, t.py], resources: {RESOURCES}}]}}}
"""
V1ALPHA1_SIZES = [
    ("gpus: 16, gpusPerNode: 8", "", (2, 8)),
    ("processingUnits: 4, processingUnitsPerNode: 8", "", (1, 4)),
    ("replicas: 3", "limits: {nvidia.com/gpu: 2}", (3, 2)),
]


@pytest.mark.parametrize(("size", "resources", "counts"), V1ALPHA1_SIZES)
def test_a_job_of_the_first_mpi_operator(
    size: str, resources: str, counts: tuple[int, int]
) -> None:
    """Its one template is the launcher's, without amounts, and the workers', which sleep."""
    text = OF_V1ALPHA1.replace("SIZE", size).replace("RESOURCES", resources)
    conversion = text_as_jobs(text).conversions[0]
    values = conversion.values
    assert counts == (values["mpi"]["numWorkers"], values["gpusPerNode"])
    assert (["mpirun", "python", "t.py"], "exec") == (values["command"], values["mpi"]["transport"])
    assert {"backoffLimit": 6, "activeDeadlineSeconds": 9} == values["runPolicy"]
    assert [{"operator": "Exists"}] == values["scheduling"]["tolerations"]
    assert not lost(conversion)


@pytest.mark.parametrize(
    ("size", "limit", "why"),
    [
        ("gpus: 16, gpusPerNode: 8", '"8"', ""),
        ("gpus: 16, gpusPerNode: 8", "8", ""),
        ("gpus: 16, gpusPerNode: 8", "4", "the old operator wrote 8 in its place"),
        ("gpus: 2, gpusPerNode: 8", "8", "the old operator wrote 2 in its place"),
    ],
)
def test_a_limit_beside_the_units_of_a_job_of_the_first_mpi_operator(
    size: str, limit: str, why: str
) -> None:
    """The operator wrote the units over it: the same number is carried, another one is said."""
    text = OF_V1ALPHA1.replace("SIZE", size)
    text = text.replace("RESOURCES", f"limits: {{nvidia.com/gpu: {limit}}}")
    conversion = text_as_jobs(text).conversions[0]
    path = "spec.template.spec.containers[0].resources.limits.nvidia.com/gpu"
    verdict = next(item for item in conversion.verdicts if item.path == path)
    assert (Outcome.CHANGED if why else Outcome.CARRIED, why) == (verdict.outcome, verdict.why)


def test_a_job_of_the_first_mpi_operator_whose_workers_nobody_counts_is_refused() -> None:
    """A flag of its operator says how many GPUs a node has, where the job does not."""
    problem = converted.refusal(OF_V1ALPHA1.replace("SIZE", "gpus: 16").replace("RESOURCES", ""))
    assert ("spec.gpus", "say it in the job, as gpusPerNode: 8") == (problem.path, problem.hint)
    problem = converted.refusal(
        OF_V1ALPHA1.replace("SIZE", "gpus: 9, gpusPerNode: 8").replace("RESOURCES", "")
    )
    assert "makes no workers of it" in problem.message


def test_a_script_calls_mpirun_itself() -> None:
    """It is run as it is; the first version reached its workers through the Kubernetes API."""
    values = convert("horovod").values
    assert (True, "exec", "All") == (
        values["mpi"]["ownMpirun"],
        values["mpi"]["transport"],
        values["mpi"]["cleanPodPolicy"],
    )
    assert "bash" == values["command"][0]


@pytest.mark.parametrize(
    ("script", "is_noted"), [("mpirun a; sleep infinity", True), ("mpirun a", False)]
)
def test_a_launcher_that_only_keeps_its_pod_is_said(script: str, *, is_noted: bool) -> None:
    """The workers hold their GPUs until the launcher ends, and it sleeps after mpirun."""
    conversion = text_as_jobs(
        "apiVersion: kubeflow.org/v2beta1\nkind: MPIJob\nmetadata: {name: a}\nspec: "
        "{mpiReplicaSpecs: {Launcher: {template: {spec: {containers: [{name: c, image: i, "
        f"command: [sh, -c, '{script}']}}]}}}}}}, "
        "Worker: {template: {spec: {containers: [{name: c, image: i}]}}}}}"
    ).conversions[0]
    assert is_noted == any("gives back its GPUs" in note for note in conversion.notes)


def test_a_launcher_that_calls_deepspeed_is_refused() -> None:
    """It would look for a file of hosts that only the old image or controller made."""
    text = (converted.DATA / "mpijob.yaml").read_text(encoding="utf-8").partition("\n---\n")[0]
    problem = converted.refusal(text.replace("[mpirun, -n, ", "[deepspeed, --num_nodes, "))
    assert "its launcher calls deepspeed" in problem.message
    assert "PyTorchJob" in problem.hint


@pytest.mark.parametrize(
    ("words", "implementation", "why"),
    [
        ("--launcher, openmpi, --hostfile, /etc/mpi/hostfile", "OpenMPI", ""),
        ("--launcher=OpenMPI, --hostfile=/etc/mpi/hostfile", "", ""),
        ("--launcher, openmpi", "", "finds its hosts in /job/hostfile"),
        ("--launcher, openmpi, --hostfile, /etc/mpi/hostfile", "Intel", "HOST slots=N"),
        ("--launcher, impi, --hostfile, /etc/mpi/hostfile", "Intel", "HOST slots=N"),
        ("--launcher, slurm, --hostfile, /etc/mpi/hostfile", "", "no Slurm"),
        ("--hostfile, /etc/mpi/hostfile", "", "by pdsh and a file of hosts"),
    ],
)
def test_a_deepspeed_that_calls_mpirun_is_the_launcher_s_own(
    words: str, implementation: str, why: str
) -> None:
    """Of Open MPI it finds the chart's file of hosts; of all others the message says what not."""
    text = (
        "apiVersion: kubeflow.org/v2beta1\nkind: MPIJob\nmetadata: {name: a}\nspec: "
        f"{{mpiImplementation: '{implementation}', mpiReplicaSpecs: {{Launcher: {{template: "
        "{spec: {containers: [{name: c, image: i, "
        f"command: [deepspeed, {words}, t.py]}}]}}}}}}, "
        "Worker: {template: {spec: {containers: [{name: c, image: i}]}}}}}"
    ).replace("mpiImplementation: '', ", "")
    if why:
        assert why in converted.refusal(text).message
        return
    values = text_as_jobs(text).conversions[0].values
    assert ("deepspeed", "t.py", True) == (
        *values["command"][:: len(values["command"]) - 1],
        values["mpi"]["ownMpirun"],
    )


def test_the_oldest_gives_each_worker_a_slot() -> None:
    """What stands beside spec has never had an effect, and is said."""
    conversion = convert("old")
    assert 3 == conversion.values["mpi"]["numWorkers"]
    assert () == conversion.lost
    assert any("beside spec" in note for note in conversion.notes)


PREPARED = [
    ("sh", "git clone u && cd u && sleep 9", "", "git clone u && cd u"),
    ("bash", "source /e/activate; sshd -D", "", f"{preparation.GOES_ON}. /e/activate\ntrue"),
    ("bash", "source /e a\nsshd -D", "#!/bin/bash\n", f"{preparation.GOES_ON}source /e a\ntrue"),
    ("bash", "set -e\na\nsshd -D", "", "set -e\na"),
    ("sh", "set -e\n[ -f a ] && b\nsshd -D", "", "set -e\n[ -f a ] && b\ntrue"),
    (
        "sh",
        "service ssh start && \\\n git clone u && \\\n sleep 9",
        "",
        "service ssh start && \\\n git clone u",
    ),
    ("sh", "mkdir -p /data/x; sleep 9", "", f"{preparation.GOES_ON}mkdir -p /data/x\ntrue"),
    ("bash", "echo a > /etc/b && tail -f /dev/null", "", "echo a > /etc/b"),
    ("sh", "chmod 777 /data && sshd -D", "", "chmod 777 /data"),
    ("sh", "service nfs start && sshd -D", "", "service nfs start"),
]


@pytest.mark.parametrize(("program", "script", "shebang", "text"), PREPARED)
def test_workers_that_prepare_themselves(
    program: str, script: str, shebang: str, text: str
) -> None:
    """What they do before they wait is setup, of the workers alone, as their own shell read it."""
    source = DOCUMENTS["old"].data
    worker = {"name": "w", "image": "x", "command": [program, "-c", script]}
    manifest = {
        **source,
        "spec": {**source["spec"], "workerTemplate": {"spec": {"containers": [worker]}}},
    }
    conversion = registry.convert_document(Document(manifest), Context())
    setup = f'{shebang}if [ "$K_MPI_JOB_ROLE" = worker ]; then\n{text}\nfi\n'
    assert setup == conversion.values["setup"]


@pytest.mark.parametrize(
    "script",
    [
        "mkdir -p -m 0755 /run/sshd /var/run/sshd/; echo up 2>/dev/null >&2; exec sshd -D",
        'mkdir ~/.ssh "$HOME/.ssh" /root/.ssh && chmod 700 ~/.ssh; service ssh start; sleep 9',
        "ssh-keygen -A; chmod -R go-rwx /etc/ssh; echo wait; tail -f /dev/null",
    ],
)
def test_workers_that_make_sshd_ready_have_no_setup(script: str) -> None:
    """The chart makes sshd's folders, keys and service itself."""
    conversion = text_as_jobs(_WORKERS.replace("SCRIPT", json.dumps(script))).conversions[0]
    assert "setup" not in conversion.values
    assert () == conversion.lost


_WORKERS = (
    "apiVersion: kubeflow.org/v2beta1\nkind: MPIJob\nmetadata: {name: a}\nspec: {mpiReplicaSpecs: "
    "{Launcher: {template: {spec: {containers: [{name: c, image: i, command: [mpirun, a]}]}}}, "
    "Worker: {replicas: 2, template: {spec: {containers: [{name: c, image: i, "
    "command: [sh, -c, SCRIPT]}]}}}}}\n"
)


NAMES = [
    ("tcp://pi-worker-0.pi-worker:1", True, False),
    ("pi-worker-1", True, False),
    ("tcp://pi-worker-0.pi:1", False, True),
    ("pi-worker-$i.pi", False, True),
    ("pi-worker-{0..3}", True, False),
    ("/logs/pi-worker-0", False, False),
    ("pip-worker-0.pi", False, False),
]


@pytest.mark.parametrize(("word", "is_lost", "is_noted"), NAMES)
def test_names_of_an_mpi_job_s_pods(word: str, *, is_lost: bool, is_noted: bool) -> None:
    """A pod has its name by the job's own Service alone, in a release of that name."""
    containers = [{"name": "c", "image": "x", "command": ["mpirun", "a", f"--at={word}"]}]
    template = {"template": {"spec": {"containers": containers}}}
    manifest = {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": {"name": "pi"},
        "spec": {"mpiReplicaSpecs": {"Launcher": template}},
    }
    conversion = registry.convert_document(Document(manifest), Context())
    assert is_lost is any("is no name here" in verdict.why for verdict in conversion.lost)
    assert is_noted is any("give the release this name" in note for note in conversion.notes)


HELPERS = [
    ("PyTorchJob", "pytorch", "Worker", "j-master-0", True, False),
    ("TFJob", "tf", "Worker", "j-ps-0:2222", True, False),
    ("MPIJob", "mpi", "Launcher", "j-worker-0.j-worker", True, False),
    ("MPIJob", "mpi", "Launcher", "j-worker-1.j.ns", False, True),
    ("PyTorchJob", "pytorch", "Worker", "my/j-master-0", False, False),
]


@pytest.mark.parametrize(("kind", "framework", "role", "host", "is_lost", "is_noted"), HELPERS)
def test_an_init_container_that_waits_for_a_pod_is_named(
    kind: str, framework: str, role: str, host: str, *, is_lost: bool, is_noted: bool
) -> None:
    """A pod of the old controller's name is there for nobody, and would be waited for for ever."""
    name = {"pytorch": "pytorch", "tf": "tensorflow"}.get(framework, "m")
    helper = {"name": "wait", "image": "b", "command": ["sh", "-c", f"until nslookup {host}"]}
    main = {"name": name, "image": "i", "command": ["mpirun" if framework == "mpi" else "a"]}
    spec = {"initContainers": [helper], "containers": [main]}
    manifest = {
        "apiVersion": "kubeflow.org/v2beta1" if framework == "mpi" else "kubeflow.org/v1",
        "kind": kind,
        "metadata": {"name": "j"},
        "spec": {f"{framework}ReplicaSpecs": {role: {"template": {"spec": spec}}}},
    }
    conversion = registry.convert_document(Document(manifest), Context())
    path = f"spec.{framework}ReplicaSpecs.{role}.template.spec.initContainers[0].command[2]"
    reasons = {verdict.path: verdict.why for verdict in conversion.lost}
    assert is_lost is ("it names pods of the old controller" in reasons.get(path, ""))
    assert is_noted is any("names pods of the release j" in note for note in conversion.notes)


def test_roles_of_a_tfjob() -> None:
    """Workers are nodes, other roles have what is their own."""
    values = convert("ctr").values
    roles = values["elastic"]["roles"]
    assert ("allWorkers", 4, 1, {"chief": 1, "ps": 2, "evaluator": 1}) == (
        values["elastic"]["successPolicy"],
        values["nodes"],
        values["gpusPerNode"],
        {role: own["replicas"] for role, own in roles.items() if "replicas" in own},
    )
    assert ["sh", "-c", 'exec python main.py --steps="${STEPS}"'] == roles["ps"]["command"]


def test_a_chief_alone_is_a_worker() -> None:
    """The chart has a worker at least, and a note says what TF_CONFIG calls it."""
    conversion = convert("single")
    assert (1, None) == (
        conversion.values["nodes"],
        conversion.values["elastic"].get("roles"),
    )
    assert any("worker 0" in note for note in conversion.notes)


def test_a_tfjob_that_runs_torchrun() -> None:
    """The workload follows from what runs."""
    assert ("torchrun", 2) == (
        convert("torch").values["workload"],
        convert("torch").values["nodes"],
    )


def test_a_torchrun_of_a_tfjob_that_knew_of_no_other_pod_is_said() -> None:
    """The operator sets no PET_NNODES: without an option each pod trained by itself."""
    (conversion,) = text_as_jobs(
        "apiVersion: kubeflow.org/v1\nkind: TFJob\nmetadata: {name: a}\nspec: {tfReplicaSpecs: {"
        "Worker: {replicas: 2, template: {spec: {containers: [{name: tensorflow, image: 'i:1', "
        "command: [torchrun, main.py]}]}}}}}\n"
    ).conversions
    assert any("each of 2 pods trained by itself" in own.why for own in conversion.lost)
    assert not convert("torch").lost


MX = [
    ("cifar", {"scheduler": 1, "server": 1}, 2, {}),
    ("linear", {"scheduler": 1, "server": 1}, 2, {"port": 9000, "successPolicy": "lead"}),
    ("bare-mx", {"scheduler": 1, "server": 1}, 2, {}),
    ("bare-tf", {"ps": 1}, 2, {}),
]


@pytest.mark.parametrize(("name", "roles", "nodes", "own"), MX)
def test_three_dialects_of_roles(name: str, roles: Any, nodes: int, own: Any) -> None:
    """A map, a list, and a spec that is a list."""
    values = convert(name).values
    elastic = values["elastic"]
    assert (roles, nodes, own) == (
        {role: settings["replicas"] for role, settings in elastic["roles"].items()},
        values["nodes"],
        {key: elastic[key] for key in own},
    )


def test_a_master_with_the_workers_template_is_the_first_of_them() -> None:
    """Rank 0 is the master, as before."""
    values = convert("iris").values
    assert (3, "pytorch", None) == (
        values["nodes"],
        values["elastic"]["framework"],
        values["elastic"].get("roles"),
    )


@pytest.mark.parametrize(
    ("name", "variable"), [("paddle", "PADDLE_MASTER"), ("jax", "COORDINATOR_ADDRESS")]
)
def test_variables_by_other_names(name: str, variable: str) -> None:
    """They are made of what each pod is told."""
    assert f"{variable}=" in convert(name).values["command"][2]


@pytest.mark.parametrize("kind", ["JAXJob", "PaddleJob"])
def test_a_script_that_reads_torchrun_s_variables_is_the_programs(kind: str) -> None:
    """Other variables are set before the person's own shell, whatever its text reads."""
    name = kind.removesuffix("Job").lower()
    script = "echo $PET_NNODES; python t.py"
    pod = f"{{spec: {{containers: [{{name: {name}, image: i, command: [sh, -c, '{script}']}}]}}}}"
    conversion = converted.text_as_jobs(
        f"apiVersion: kubeflow.org/v1\nkind: {kind}\nmetadata: {{name: a}}\n"
        f"spec: {{{name}ReplicaSpecs: {{Worker: {{replicas: 2, template: {pod}}}}}}}\n"
    ).conversions[0]
    command = conversion.values["command"]
    assert (["sh", "-c"], ["sh", "sh", "-c", script]) == (command[:2], command[3:])
    assert "export " in command[2]


KINDS_WITHOUT_POLICY = [
    ("TFJob", "tfReplicaSpecs", "tensorflow", 0),
    ("XGBoostJob", "xgbReplicaSpecs", "xgboost", 0),
    ("JAXJob", "jaxReplicaSpecs", "jax", 0),
    ("PaddleJob", "paddleReplicaSpecs", "paddle", None),
]


@pytest.mark.parametrize(("kind", "specs", "container", "expected"), KINDS_WITHOUT_POLICY)
def test_a_policy_that_is_not_there(
    kind: str, specs: str, container: str, expected: int | None
) -> None:
    """Its operator took it for Never, but for Paddle's; so the job fails with its first pod."""
    pod = f"{{spec: {{containers: [{{name: {container}, image: i, command: [./a]}}]}}}}"
    conversion = converted.text_as_jobs(
        f"apiVersion: kubeflow.org/v1\nkind: {kind}\nmetadata: {{name: a}}\n"
        f"spec: {{{specs}: {{Worker: {{replicas: 2, template: {pod}}}}}}}\n"
    ).conversions[0]
    assert expected == conversion.values.get("runPolicy", {}).get("backoffLimit")
    assert (expected == 0) == any("without a restartPolicy" in note for note in conversion.notes)


@pytest.mark.parametrize("policy", ["", "restartPolicy: Never, "])
@pytest.mark.parametrize(("version", "expected"), [("v1", 0), ("v1alpha2", 6), ("v2beta1", 6)])
def test_a_launcher_that_is_not_restarted(version: str, policy: str, expected: int | None) -> None:
    """By v1 it is a pod, and not started anew; by the others a Job's, and so as often as any."""
    pod = "template: {spec: {containers: [{name: m, image: i, command: [mpirun, ./a]}]}}"
    conversion = converted.text_as_jobs(
        f"apiVersion: kubeflow.org/{version}\nkind: MPIJob\nmetadata: {{name: a}}\n"
        f"spec: {{mpiReplicaSpecs: {{Launcher: {{{policy}{pod}}}, "
        f"Worker: {{replicas: 2, {pod}}}}}}}\n"
    ).conversions[0]
    assert expected == conversion.values.get("runPolicy", {}).get("backoffLimit")


@pytest.mark.parametrize(("version", "has_own"), [("v1alpha2", True), ("v1", False)])
def test_the_limits_of_the_first_mpijob_with_roles(version: str, *, has_own: bool) -> None:
    """v1alpha2 has its retries and its deadline in its spec; later versions have a runPolicy."""
    pod = "template: {spec: {containers: [{name: m, image: i, command: [mpirun, ./a]}]}}"
    conversion = converted.text_as_jobs(
        f"apiVersion: kubeflow.org/{version}\nkind: MPIJob\nmetadata: {{name: a}}\n"
        "spec: {backoffLimit: 2, activeDeadlineSeconds: 60, mpiReplicaSpecs: "
        f"{{Launcher: {{{pod}}}, Worker: {{replicas: 2, {pod}}}}}}}\n"
    ).conversions[0]
    policy = conversion.values["runPolicy"]
    assert has_own == ((policy["backoffLimit"], policy.get("activeDeadlineSeconds")) == (2, 60))
    paths = {"spec.activeDeadlineSeconds", "spec.backoffLimit"}
    is_lost = paths & {verdict.path for verdict in conversion.lost}
    assert (set() if has_own else paths) == is_lost


KEYS = [
    ("", "cp /root/.ssh/id_rsa /tmp/k; mpirun ./a", "cp KEY /tmp/k; mpirun ./a"),
    ("", "ssh -i ~/.ssh/id_rsa a-worker-0.a true; mpirun ./a", "KEY"),
    ("", "ls /root/.ssh/id_rsa.pub; mpirun ./a", ""),
    ("", "cp /data/root/.ssh/id_rsa /k; mpirun ./a", ""),
    ("sshAuthMountPath: /keys, ", "cp /keys/id_rsa /k; mpirun ./a", "cp KEY /k; mpirun ./a"),
    ("sshAuthMountPath: /keys, ", "cp ~/.ssh/id_rsa /k; mpirun ./a", ""),
]


@pytest.mark.parametrize(("folder", "script", "expected"), KEYS)
def test_the_key_of_an_mpi_job_is_the_charts(folder: str, script: str, expected: str) -> None:
    """A pod that copies the key which mpi-operator mounts finds the one that it has here."""
    pod = "template: {spec: {containers: [{name: m, image: i, command: COMMAND}]}}"
    launcher = pod.replace("COMMAND", f'[bash, -c, "{script}"]')
    worker = pod.replace("COMMAND", f'[bash, -c, "{script.partition(";")[0]}; /usr/sbin/sshd -D"]')
    conversion = text_as_jobs(
        "apiVersion: kubeflow.org/v2beta1\nkind: MPIJob\nmetadata: {name: a}\nspec: {"
        f"{folder}mpiReplicaSpecs: {{Launcher: {{{launcher}}}, Worker: {{replicas: 2, "
        f"{worker}}}}}}}\n"
    ).conversions[0]
    command = conversion.values["command"][-1]
    key = "/etc/allranks-ssh/ssh-privatekey"
    assert bool(expected) == (key in conversion.values["setup"])
    if expected in ("", "KEY"):
        assert bool(expected) == (key in command)
    else:
        assert expected.replace("KEY", key) == command
    reasons = " ".join(verdict.why for verdict in conversion.verdicts)
    assert bool(expected) == ("the key of mpi-operator is" in reasons)


def test_mounts_of_the_old_operator_are_left_out() -> None:
    """An API server refuses a pod that mounts what it has not, in containers of each role."""
    mounts = "volumeMounts: [{name: mpi-job-config, mountPath: /etc/mpi}]"
    text = (
        "apiVersion: kubeflow.org/v2beta1\nkind: MPIJob\nmetadata: {name: a}\nspec: "
        "{mpiReplicaSpecs: {Launcher: {template: {spec: {initContainers: [{name: wait, image: i, "
        f"{mounts}}}], containers: [{{name: c, image: i, command: [mpirun, ./a]}}]}}}}}}, Worker: "
        "{replicas: 2, template: {spec: {containers: [{name: c, image: i}]}}}}}"
    )
    conversion = text_as_jobs(text).conversions[0]
    pod = conversion.values["mpi"]["launcher"]["podTemplate"]["spec"]
    assert [{"name": "wait", "image": "i"}] == pod["initContainers"]
    launcher = "spec.mpiReplicaSpecs.Launcher.template.spec"
    keys = ("name", "mountPath")
    assert {f"{launcher}.initContainers[0].volumeMounts[0].{key}" for key in keys} == lost(
        conversion
    )


OF_CONTROLLERS = [
    (
        "kubeflow.org/v2beta1\nkind: MPIJob",
        "{mpiReplicaSpecs: {Launcher: {template: {spec: TEMPLATE}}}}",
        ("secret: {secretName: a-ssh}", "configMap: {name: a-config}"),
    ),
    (
        "batch.volcano.sh/v1alpha1\nkind: Job",
        "{tasks: [{name: w, template: {spec: TEMPLATE}}]}",
        ("configMap: {name: a-svc}",),
    ),
]


@pytest.mark.parametrize(
    ("kind", "spec", "source"),
    [(kind, spec, source) for kind, spec, sources in OF_CONTROLLERS for source in sources],
)
def test_a_volume_of_what_the_old_controller_made_is_said(
    kind: str, spec: str, source: str
) -> None:
    """Its object is not there, and a pod that mounts it would wait for it for ever."""
    template = (
        "{containers: [{name: c, image: i, command: [mpirun, ./a], volumeMounts: "
        "[{name: v, mountPath: /v}, {name: w, mountPath: /w}]}], "
        f"volumes: [{{name: v, {source}}}, {{name: w, secret: {{secretName: b-ssh}}}}]}}"
    )
    text = f"apiVersion: {kind}\nmetadata: {{name: a}}\nspec: {spec.replace('TEMPLATE', template)}"
    conversion = text_as_jobs(text).conversions[0]
    own = source.split("{")[1].partition(":")[2].strip(" }")
    reasons = {verdict.why for verdict in conversion.lost if ".volumes[0]." in verdict.path}
    assert {f"{own} was the old controller's, and is not there"} == reasons
    assert any(".volumeMounts[0]." in verdict.path for verdict in conversion.lost)
    assert f"'name': '{own}'" not in str(conversion.values)
    assert "b-ssh" in str(conversion.values)


AGENTS = [
    (
        'mpirun, -np, "2", -mca, plm_rsh_agent, "ssh -p 22 -i /k", ./a',
        ["mpirun", "-np", "2", "./a"],
    ),
    (
        "bash, -c, 'mpirun --mca plm_rsh_agent \"ssh -p 22\" -x A ./a; echo done'",
        ["bash", "-c", "mpirun -x A ./a; echo done"],
    ),
]


@pytest.mark.parametrize(("words", "command"), AGENTS)
def test_the_way_to_the_workers_is_the_charts(words: str, command: list[str]) -> None:
    """A launcher's own ssh has neither the key nor the port of the chart's sshd."""
    text = (
        "apiVersion: kubeflow.org/v2beta1\nkind: MPIJob\nmetadata: {name: a}\nspec: "
        "{mpiReplicaSpecs: {Launcher: {template: {spec: {containers: [{name: c, image: i, "
        f"command: [{words}], env: [{{name: OMPI_MCA_plm_rsh_agent, value: ssh}}]}}]}}}}}}, "
        "Worker: {template: {spec: {containers: [{name: c, image: i}]}}}}}"
    )
    conversion = text_as_jobs(text).conversions[0]
    assert command == conversion.values["command"]
    assert "agent" not in str(conversion.values)
    above = "spec.mpiReplicaSpecs.Launcher.template.spec.containers[0]"
    reasons = {verdict.path.partition("[0].")[2][:3]: verdict for verdict in conversion.verdicts}
    for key in ("com", "env"):
        assert "its own way to the workers" in reasons[key].why, above


@pytest.mark.parametrize("version", ["v2beta1", "v2"])
def test_versions_of_v2_reach_their_workers_by_ssh(version: str) -> None:
    """As a template of a version to come has it; its other name of Intel's MPI is known."""
    pod = "{template: {spec: {containers: [{name: c, image: i, command: [mpirun, ./a]}]}}}"
    conversion = text_as_jobs(
        f"apiVersion: kubeflow.org/{version}\nkind: MPIJob\nmetadata: {{name: a}}\nspec: {{"
        f"mpiImplementation: IntelMPI, mpiReplicaSpecs: {{Launcher: {pod}, Worker: {pod}}}}}\n"
    ).conversions[0]
    assert "transport" not in conversion.values["mpi"]
    assert "Intel" == conversion.values["mpi"]["implementation"]
    reasons = {verdict.path: verdict.why for verdict in conversion.verdicts}
    assert reasons["spec.mpiImplementation"].startswith("the operator takes it as Intel alone")


WAYS = [
    ("mpirun -launcher-exec /etc/mpi/kubexec.sh ./a", "is /etc/allranks/rsh.sh here", ""),
    ("/etc/mpi/kubexec.sh $h nvidia-smi; mpirun ./a", "is /etc/allranks/rsh.sh here", ""),
    ("scp -q c.json $h:/tmp/; mpirun ./a", "", "scp calls the image's own ssh"),
    ("/usr/bin/ssh $h ls; mpirun ./a", "", "write ssh without a folder"),
    ("ssh $h ls; # scp a b\nmpirun ./a", "", ""),
]


@pytest.mark.parametrize(("script", "changed", "is_lost"), WAYS)
def test_programs_that_reach_the_workers_do_so_here(
    script: str, changed: str, is_lost: str
) -> None:
    """The agent of v1 has another name, ssh is the chart's, and scp's own ssh has no key."""
    pod = "{template: {spec: {containers: [{name: c, image: i, COMMAND}]}}}"
    launcher = pod.replace("COMMAND", f"command: [bash, -c, {json.dumps(script)}]")
    conversion = text_as_jobs(
        "apiVersion: kubeflow.org/v1\nkind: MPIJob\nmetadata: {name: a}\nspec: "
        f"{{mpiReplicaSpecs: {{Launcher: {launcher}, Worker: {pod.replace(', COMMAND', '')}}}}}"
    ).conversions[0]
    assert "kubexec" not in str(conversion.values)
    whys = " ".join(verdict.why for verdict in conversion.verdicts)
    assert changed in whys
    assert bool(is_lost) == any(is_lost and is_lost in own.why for own in conversion.lost)


PORTS_OF_SSHD: list[tuple[str, int | None]] = [
    ("readinessProbe: {tcpSocket: {port: 22}}", 22),
    ("readinessProbe: {tcpSocket: {port: 2222}}", None),
    ("readinessProbe: {tcpSocket: {port: ssh}}, ports: [{name: ssh, containerPort: 22}]", 22),
    ("lifecycle: {postStart: {exec: {command: [bash, -c, '</dev/tcp/localhost/22']}}}", 22),
    ("startupProbe: {exec: {command: [sh, -c, 'nc -z localhost 2022']}}", 2022),
    ("livenessProbe: {httpGet: {port: 80}}", None),
]


@pytest.mark.parametrize(("asks", "port"), PORTS_OF_SSHD)
def test_sshd_has_the_port_that_workers_are_asked_for(asks: str, port: int | None) -> None:
    """A hook that waits for port 22, where the chart has no sshd, would hold a worker for ever."""
    conversion = text_as_jobs(
        "apiVersion: kubeflow.org/v2beta1\nkind: MPIJob\nmetadata: {name: a}\nspec: "
        "{mpiReplicaSpecs: {Launcher: {template: {spec: {containers: [{name: c, image: i, "
        "command: [mpirun, a]}]}}}, Worker: {template: {spec: {containers: [{name: c, image: i, "
        f"command: [/usr/sbin/sshd, -De], {asks}}}]}}}}}}}}}}"
    ).conversions[0]
    assert port == conversion.values["mpi"].get("ssh", {}).get("port")
    assert bool(port) == any("looks for sshd" in note for note in conversion.notes)


NAMED_PORTS: list[tuple[str, str, dict[str, Any]]] = [
    ("ssh", "22", {"containerPort": 22}),
    ("ssh", "2022", {"containerPort": 2022}),
    ("metrics", "9000", {"containerPort": 9000, "name": "metrics"}),
]


@pytest.mark.parametrize(("name", "number", "expected"), NAMED_PORTS)
def test_no_port_of_mpi_workers_has_the_name_of_the_charts(
    name: str, number: str, expected: dict[str, Any]
) -> None:
    """The API server refuses a container with two ports of one name; the number is kept."""
    conversion = text_as_jobs(
        "apiVersion: kubeflow.org/v2beta1\nkind: MPIJob\nmetadata: {name: a}\nspec: "
        "{mpiReplicaSpecs: {Launcher: {template: {spec: {containers: [{name: c, image: i, "
        "command: [mpirun, a]}]}}}, Worker: {template: {spec: {containers: [{name: c, image: i, "
        f"command: [/usr/sbin/sshd, -De], ports: [{{name: {name}, containerPort: {number}}}]}}]"
        "}}}}}"
    ).conversions[0]
    container = conversion.values["mpi"]["worker"]["podTemplate"]["spec"]["containers"][0]
    assert [expected] == container["ports"]
    path = "spec.mpiReplicaSpecs.Worker.template.spec.containers[0].ports[0].name"
    reasons = {verdict.path: verdict.why for verdict in conversion.verdicts}
    assert (name == "ssh") == ("the chart's own port has this name" in reasons[path])


MOUNTS: list[tuple[str, str]] = [
    ("/etc/mpi", "/etc/mpi"),
    ("/etc", "/etc/allranks"),
    ("/etc/mpi/extra/", "/etc/mpi"),
    ("/dev/infiniband", ""),
    ("/data", ""),
]


@pytest.mark.parametrize(("path", "hidden"), MOUNTS)
def test_a_mount_over_a_folder_of_the_chart_is_named(path: str, hidden: str) -> None:
    """A launcher whose file of hosts is hidden by a volume of the manifest finds no worker."""
    conversion = text_as_jobs(
        "apiVersion: kubeflow.org/v2beta1\nkind: MPIJob\nmetadata: {name: a}\nspec: "
        "{mpiReplicaSpecs: {Launcher: {template: {spec: {volumes: [{name: v, configMap: {name: "
        "m}}], containers: [{name: c, image: i, command: [mpirun, a], volumeMounts: [{name: v, "
        f"mountPath: {path}}}]}}]}}}}}}, "
        "Worker: {template: {spec: {containers: [{name: c, image: i}]}}}}}"
    ).conversions[0]
    notes = [note for note in conversion.notes if "of the chart, which the pods need" in note]
    assert bool(hidden) == bool(notes)
    assert all(f"hides {hidden} of" in note for note in notes)


def test_a_probe_by_the_name_of_the_charts_port_asks_for_its_own_number() -> None:
    """Of a PyTorchJob a port called rendezvous loses its name, and its probe asks by number."""
    conversion = text_as_jobs(
        "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: a}\nspec: "
        "{pytorchReplicaSpecs: {Worker: {replicas: 2, template: {spec: {containers: [{name: "
        "pytorch, image: i, command: [torchrun, t.py], ports: [{name: rendezvous, containerPort: "
        "8080}], livenessProbe: {httpGet: {port: rendezvous, path: /}}}]}}}}}"
    ).conversions[0]
    container = conversion.values["podTemplate"]["spec"]["containers"][0]
    assert [{"containerPort": 8080}] == container["ports"]
    assert 8080 == container["livenessProbe"]["httpGet"]["port"]


def test_workers_that_are_reached_by_the_api_have_no_sshd() -> None:
    """What is said of their command is what the chart does."""
    text = (
        "apiVersion: kubeflow.org/v1\nkind: MPIJob\nmetadata: {name: a}\nspec: {mpiReplicaSpecs: "
        "{Launcher: {template: {spec: {containers: [{name: c, image: i, command: [mpirun, a]}]}}}, "
        "Worker: {template: {spec: {containers: [{name: c, image: i, command: [sleep, inf]}]}}}}}"
    )
    verdicts = text_as_jobs(text).conversions[0].verdicts
    reasons = {
        verdict.why for verdict in verdicts if "Worker" in verdict.path and "comm" in verdict.path
    }
    assert "the chart keeps the workers' containers itself" in reasons
    assert not any("sshd" in why for why in reasons)


PULLED = [
    ("image: a/l:1", "image: a/w", "IfNotPresent", "Always"),
    ("image: a/l", "image: a/w:1", "Always", None),
    ("image: a/l:1", "image: a/w:1, imagePullPolicy: Never", "IfNotPresent", "Never"),
    ("image: a/w:1", "image: a/w:1, imagePullPolicy: Never", "IfNotPresent", "Never"),
    ("image: a/l:1, imagePullPolicy: Always", "image: a/w:1", "Always", None),
    ("image: a/l", "image: a/w", None, "Always"),
]


@pytest.mark.parametrize(("launcher", "worker", "own", "of_all"), PULLED)
def test_each_roles_image_is_pulled_when_it_was(
    launcher: str, worker: str, own: str | None, of_all: str | None
) -> None:
    """Where a container leaves it to Kubernetes, the policy of another role's image is not its."""
    text = (
        "apiVersion: kubeflow.org/v2beta1\nkind: MPIJob\nmetadata: {name: a}\nspec: "
        "{mpiReplicaSpecs: {Launcher: {template: {spec: {containers: [{name: c, "
        f"{launcher}, command: [mpirun, a]}}]}}}}}}, "
        f"Worker: {{template: {{spec: {{containers: [{{name: c, {worker}}}]}}}}}}}}}}"
    )
    values = text_as_jobs(text).conversions[0].values
    template = values["mpi"].get("launcher", {}).get("podTemplate", {})
    containers = template.get("spec", {}).get("containers", [{}])
    assert own == containers[0].get("imagePullPolicy")
    assert of_all == values["image"].get("pullPolicy")


OLD = [
    ("TFJob", "replicaSpecs: [{replicas: 1, tfReplicaType: MASTER}]"),
    ("PyTorchJob", "replicaSpecs: [{replicas: 1, replicaType: MASTER}]"),
]


@pytest.mark.parametrize(("kind", "spec"), OLD)
def test_roles_in_a_list_are_of_a_version_that_is_gone(kind: str, spec: str) -> None:
    """The object is whole, so that the reason is its version, and not a role that is not there."""
    head = f"apiVersion: kubeflow.org/v1alpha1\nkind: {kind}\nmetadata: {{name: a}}\n"
    with pytest.raises(InputError, match="replicaSpecs is a list"):
        text_as_jobs(f"{head}spec: {{{spec}}}")


def test_roles_under_a_key_of_another_kind_are_to_stand_under_its_own() -> None:
    """The hint names the key that the object's kind has for its roles."""
    hint = converted.refusal(
        "apiVersion: kubeflow.org/v1\nkind: TFJob\nmetadata: {name: a}\n"
        "spec: {replicaSpecs: {Worker: {replicas: 2}}}\n"
    ).hint
    assert "its roles stand in spec.tfReplicaSpecs, and not in spec.replicaSpecs" == hint


@pytest.mark.parametrize(
    ("version", "specs", "hint"),
    [
        ("v1alpha1", "{gpus: 2}", "the template of one of v1alpha1"),
        ("v2beta1", "{mpiReplicaSpecs: {Worker: {replicas: 2}}}", "write the whole object"),
    ],
)
def test_an_mpi_job_without_a_launcher(version: str, specs: str, hint: str) -> None:
    """Another version is no advice where the object is of that version already."""
    head = f"apiVersion: kubeflow.org/{version}\nkind: MPIJob\nmetadata: {{name: a}}\n"
    assert hint in converted.refusal(f"{head}spec: {specs}\n").hint


@pytest.mark.parametrize(
    ("chief", "worker", "limit", "is_lost"),
    [
        ("Never", "Never", 0, False),
        ("Never", "OnFailure", None, True),
        ("", "OnFailure", None, False),
        ("", "", 0, False),
    ],
)
def test_roles_with_policies_of_their_own(
    chief: str, worker: str, limit: int | None, is_lost: bool
) -> None:
    """A run has one number of tries; where only some pods had any, that is said."""
    specs = {
        role: {
            **({"restartPolicy": policy} if policy else {}),
            "template": {
                "spec": {"containers": [{"name": "tensorflow", "image": "i", "command": ["a"]}]}
            },
        }
        for role, policy in (("Chief", chief), ("Worker", worker))
    }
    manifest = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": "a"},
        "spec": {"tfReplicaSpecs": specs},
    }
    conversion = registry.convert_document(Document(manifest), Context())
    assert limit == conversion.values.get("runPolicy", {}).get("backoffLimit")
    assert is_lost == ("spec.tfReplicaSpecs.Chief.restartPolicy" in lost(conversion))
    is_noted = any("Never to the old operator" in note for note in conversion.notes)
    assert is_noted == (not chief)


@pytest.mark.parametrize("kind", ["RayJob", "RayCluster", "RayService"])
def test_ray_is_refused(kind: str) -> None:
    """In a sentence, with what to use."""
    manifest = {"apiVersion": "ray.io/v1", "kind": kind, "metadata": {"name": "x"}}
    with pytest.raises(InputError) as caught:
        registry.convert_document(Document(manifest), Context())
    assert caught.value.problem.hint


def test_an_object_that_another_one_owns_is_no_job_of_its_own() -> None:
    """What a controller has made of a job comes with it from the cluster."""
    owner = {"kind": "PyTorchJob", "name": "mnist"}
    child = DOCUMENTS["plain"].data
    child = {**child, "metadata": {"name": "child", "ownerReferences": [owner]}}
    result = registry.convert_all([DOCUMENTS["mnist"], Document(child)], Context())
    assert ["mnist"] == [conversion.name for conversion in result.conversions]


def test_a_list_is_its_items() -> None:
    """Each has its own line."""
    text = "kind: List\nitems:\n- kind: A\n- kind: B\n  metadata: {name: b}\n"
    documents = list(documents_of(load_objects(text, "x.yaml")))
    assert [("A", "x.yaml:3"), ("B", "x.yaml:4")] == [(item.kind, item.where) for item in documents]
    assert 5 == documents[1].line_of(("metadata", "name"))


def test_the_entry_point_that_finds_intels_mpi_is_kept() -> None:
    """Without it mpirun is on no PATH of mpi-operator's image with Intel MPI."""
    pod = "template: {spec: {containers: [{name: c, image: 'mpioperator/mpi-pi:TAG', "
    text = (
        "apiVersion: kubeflow.org/v2beta1\nkind: MPIJob\nmetadata: {name: a}\nspec: "
        "{mpiImplementation: Intel, mpiReplicaSpecs: {Launcher: {"
        f"{pod}args: [mpirun, -n, '2', /pi]}}]}}}}}}, Worker: {{replicas: 2, {pod}args: "
        "[/usr/sbin/sshd, -De]}]}}}}}"
    )
    values = converted.text_as_jobs(text.replace("TAG", "intel")).conversions[0].values
    assert ["/entrypoint.sh", "mpirun", "-n", "2", "/pi"] == values["command"]
    assert values["mpi"]["ownMpirun"]
    values = converted.text_as_jobs(text.replace("TAG", "openmpi")).conversions[0].values
    assert ["mpirun", "-n", "2", "/pi"] == values["command"]


_BENCHMARKS = """\
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: a}
spec: {tfReplicaSpecs: {Worker: {replicas: 2, template: {spec: {containers: [{name: tensorflow,
  image: "IMAGE:1", args: [python, b.py]}]}}}}}
"""


def test_the_entry_point_that_hands_out_tf_config_is_kept() -> None:
    """Kubeflow's image of benchmarks names the hosts to its program, which reads no TF_CONFIG."""
    text = _BENCHMARKS.replace("IMAGE", "gcr.io/kubeflow/tf-benchmarks-cpu")
    values = text_as_jobs(text).conversions[0].values
    assert ["/opt/launcher.py", "python", "b.py"] == values["command"]


def test_an_entry_point_that_nobody_knows_is_left_out_with_a_word() -> None:
    """What an image does before it runs its args is not seen, and --entrypoint names it."""
    conversion = text_as_jobs(_BENCHMARKS.replace("IMAGE", "me/b")).conversions[0]
    assert ["python", "b.py"] == conversion.values["command"]
    assert (
        "the entry point of me/b:1 is taken to run the args, and is left out: name it with "
        "--entrypoint where it does more"
    ) in conversion.notes


def test_the_master_of_a_tf_job_is_the_chief_by_name() -> None:
    """TF_CONFIG called its task master: a program that looks for that is told of the change."""
    pod = "template: {spec: {containers: [{name: tensorflow, image: i, command: [python, t.py]}]}}"
    text = "apiVersion: kubeflow.org/v1\nkind: TFJob\nmetadata: {name: a}\nspec: {tfReplicaSpecs: "
    for role, is_noted in ("Master", True), ("Chief", False):
        specs = f"{{{role}: {{replicas: 1, {pod}}}, Worker: {{replicas: 1, {pod}}}}}"
        verdicts = text_as_jobs(f"{text}{specs}}}").conversions[0].verdicts
        assert is_noted == any("and not master" in verdict.why for verdict in verdicts)


MPI_IN_A_GANG = """\
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {name: a}
spec:
  runPolicy: {schedulingPolicy: {minAvailable: 3, queue: q}}
  runLauncherAsWorker: false
  mpiReplicaSpecs:
    Launcher: {template: {spec: {containers: [{name: l, image: i, command: [mpirun, ./a]}]}}}
    Worker: {replicas: 2, template: {spec: {containers: [{name: w, image: i}]}}}
"""


@pytest.mark.parametrize(
    ("as_worker", "gang"),
    [
        ("false", "a gang has the workers; the launcher is outside of it"),
        ("true", "a gang has all pods of the job"),
    ],
)
def test_a_launcher_without_ranks_is_outside_of_the_gang(as_worker: str, gang: str) -> None:
    """One that has ranks is a worker as the others are, and the gang has it."""
    text = MPI_IN_A_GANG.replace("Worker: false", f"Worker: {as_worker}")
    verdicts = text_as_jobs(text).conversions[0].verdicts
    path = "spec.runPolicy.schedulingPolicy.minAvailable"
    assert [gang] == [verdict.why for verdict in verdicts if verdict.path == path]


def test_the_gang_of_a_wrapped_launcher_has_its_workers() -> None:
    """The wrapper says of its gang what the chart has of it."""
    job = "".join(f"      {line}\n" for line in MPI_IN_A_GANG.splitlines())
    text = f"""\
apiVersion: workload.codeflare.dev/v1beta2
kind: AppWrapper
metadata: {{name: a}}
spec:
  schedulingSpec: {{minAvailable: 3}}
  components:
  - template:
{job}"""
    verdicts = text_as_jobs(text).conversions[0].verdicts
    reasons = {verdict.path: verdict.why for verdict in verdicts}
    assert (
        "set it for a gang, which has the workers; the launcher is outside of it"
        == (reasons["spec.schedulingSpec.minAvailable"])
    )


@pytest.mark.parametrize(
    ("label", "is_noted"),
    [("kueue.x-k8s.io/queue-name", True), ("kai.scheduler/queue", False), ("app", False)],
)
def test_a_launcher_and_workers_in_a_queue_of_kueue_s_are_said_to_be_two_workloads(
    label: str, *, is_noted: bool
) -> None:
    """Kueue admitted the MPIJob as a whole; here it admits two Jobs."""
    text = MPI_IN_A_GANG.replace("{name: a}", f"{{name: a, labels: {{{label}: q}}}}")
    text = text.replace("  runPolicy: {schedulingPolicy: {minAvailable: 3, queue: q}}\n", "")
    notes = text_as_jobs(text).conversions[0].notes
    assert is_noted == any("two Workloads, which Kueue admits by themselves" in x for x in notes)


def test_a_launcher_that_is_made_once_is_tried_once() -> None:
    """The operator of batch.test.bdap.com makes a pod of it, and never ends its workers."""
    pod = (
        "spec: {restartPolicy: Never, containers: [{name: x, image: 'i:1', command: [mpirun, a]}]}"
    )
    text = (
        "apiVersion: batch.test.bdap.com/v1\nkind: MPIJob\nmetadata: {name: a}\nspec:\n"
        f"  numWorkers: 2\n  launcherTemplate: {{{pod}}}\n  workerTemplate: {{{pod}}}\n"
    )
    [conversion] = text_as_jobs(text).conversions
    assert 0 == conversion.values["runPolicy"]["backoffLimit"]
    assert any("mpi.cleanPodPolicy: None" in note for note in conversion.notes)


_MPIJOB = """\
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {name: a}
spec:
  runPolicy: {cleanPodPolicy: POLICY}
  mpiReplicaSpecs:
    Launcher: {template: {spec: {containers: [{name: c, image: i, command: [mpirun, ./a]}]}}}
    Worker: {replicas: 2, template: {spec: {containers: [{name: c, image: i}]}}}
    Master: {replicas: 1, template: {spec: {containers: [{name: c, image: i, ports: [PORT]}]}}}
"""


@pytest.mark.parametrize("policy", ["None", "Running", "All"])
def test_what_becomes_of_workers_is_carried(policy: str) -> None:
    """The chart has the same policies, by which workers stay, or end with the run."""
    text = _MPIJOB.replace("POLICY", policy).replace("PORT", "{containerPort: 1}")
    [conversion] = text_as_jobs(text).conversions
    [verdict] = [own for own in conversion.verdicts if own.path.endswith("cleanPodPolicy")]
    assert (verdict.outcome, verdict.to) == (Outcome.CARRIED, "mpi.cleanPodPolicy")
    assert conversion.values["mpi"]["cleanPodPolicy"] == policy


def test_a_role_that_an_mpijob_does_not_have_is_said_to_be_none() -> None:
    """Its pods were never made, and no field of theirs is changed."""
    text = _MPIJOB.replace("POLICY", "None").replace("PORT", "{containerPort: 22}")
    [conversion] = text_as_jobs(text).conversions
    own = [verdict for verdict in conversion.verdicts if ".Master." in verdict.path]
    assert own
    assert all("no such role" in verdict.why for verdict in own)


@pytest.mark.parametrize("policy", ["None", ""])
def test_workers_that_an_operator_leaves_are_said_to_end(policy: str) -> None:
    """Without a policy the operator's is None, and the chart's Running."""
    text = _MPIJOB.replace("PORT", "{containerPort: 1}").replace("    Master", "    Worker2")
    text = text.replace("  runPolicy: {cleanPodPolicy: POLICY}\n", "") if not policy else text
    [conversion] = text_as_jobs(text.replace("POLICY", policy)).conversions
    is_noted = any("leaves its workers as they are" in note for note in conversion.notes)
    assert is_noted is (not policy)


@pytest.mark.parametrize(("replicas", "is_noted"), [(1, True), (2, False)])
def test_a_tfjob_of_one_pod_is_told_of_a_cluster(replicas: int, *, is_noted: bool) -> None:
    """Its operator sets no TF_CONFIG then."""
    text = f"""\
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {{name: a}}
spec:
  tfReplicaSpecs:
    Worker:
      replicas: {replicas}
      template: {{spec: {{containers: [{{name: tensorflow, image: i, command: [python, a.py]}}]}}}}
"""
    [conversion] = text_as_jobs(text).conversions
    assert any("has TF_CONFIG here" in note for note in conversion.notes) is is_noted


@pytest.mark.parametrize(
    ("roles", "policy", "end"),
    [
        ("Chief Worker PS", "", "its chief"),
        ("Worker PS", "", "its first worker"),
        ("Worker PS", "successPolicy: AllWorkers", "its workers"),
        ("Worker PS", "cleanPodPolicy: Running", ""),
        ("Chief", "", ""),
    ],
)
def test_with_whose_end_a_tfjob_is_over_is_said(roles: str, policy: str, end: str) -> None:
    """The operator lets the other pods go on where the object does not say that they end."""
    template = '{spec: {containers: [{name: t, image: "a/b:1", command: [python, t.py]}]}}'
    specs = "".join(
        f"    {role}: {{replicas: {1 + (role == 'Worker')}, template: {template}}}\n"
        for role in roles.split()
    )
    text = f"apiVersion: kubeflow.org/v1\nkind: TFJob\nmetadata: {{name: a}}\nspec:\n  {policy}\n"
    notes = text_as_jobs(f"{text}  tfReplicaSpecs:\n{specs}").conversions[0].notes
    ends = [note for note in notes if "the run is over w" in note]
    assert bool(end) == bool(ends)
    assert all(f"with {end}, and" in note for note in ends)


@pytest.mark.parametrize(
    ("kind", "specs", "roles", "variable", "is_carried"),
    [
        ("TFJob", "tfReplicaSpecs", "Worker PS", "POD_NAME", True),
        ("TFJob", "tfReplicaSpecs", "Worker PS", "WORLD_SIZE", True),
        ("TFJob", "tfReplicaSpecs", "Worker PS", "TF_CONFIG", False),
        ("MXJob", "mxReplicaSpecs", "Scheduler Server Worker", "DMLC_INTERFACE", True),
        ("MXJob", "mxReplicaSpecs", "Scheduler Server Worker", "DMLC_ROLE", False),
    ],
)
def test_a_variable_that_the_roles_are_not_told_is_carried(
    kind: str, specs: str, roles: str, variable: str, *, is_carried: bool
) -> None:
    """What a framework's pods are told is the chart's; all else was the object's own."""
    entry = f"{{name: {variable}, valueFrom: {{fieldRef: {{fieldPath: metadata.name}}}}}}"
    template = (
        '{spec: {containers: [{name: t, image: "a/b:1", command: [python, t.py], '
        f"env: [{entry}]}}]}}}}"
    )
    pods = "".join(f"    {role}: {{replicas: 1, template: {template}}}\n" for role in roles.split())
    text = f"apiVersion: kubeflow.org/v1\nkind: {kind}\nmetadata: {{name: a}}\nspec:\n"
    conversion = text_as_jobs(f"{text}  {specs}:\n{pods}").conversions[0]
    assert is_carried == (variable in str(conversion.values))
    whys = [verdict.why for verdict in conversion.verdicts]
    assert is_carried != (f"the job sets {variable} itself, for each process" in whys)


MPI_JOB = """\
apiVersion: kubeflow.org/VERSION
kind: MPIJob
metadata: {name: a, labels: {LABEL: q}}
spec:
  POLICY
  mpiReplicaSpecs:
    Launcher: {template: {spec: {containers: [
      {name: l, image: "a/b:1", command: [mpirun, -np, "2", ./a], ENV}]}}}
    Worker: {replicas: 2, template: {spec: {containers: [{name: w, image: "a/b:1"}]}}}
"""


def _mpi_job(version: str, *, policy: str = "", label: str = "app", env: str = "") -> Any:
    text = MPI_JOB.replace("VERSION", version).replace("LABEL", label)
    text = text.replace("POLICY", policy).replace(", ENV", f", {env}" if env else "")
    return text_as_jobs(text).conversions[0]


@pytest.mark.parametrize(
    ("version", "policy", "label", "seconds"),
    [
        ("v1", "", "app", 86400),
        ("v1alpha2", "", "app", 86400),
        ("v2beta1", "launcherCreationPolicy: WaitForWorkersReady", "app", 86400),
        ("v2beta1", "", "app", None),
        ("v1", "", "volcano.sh/queue-name", None),
    ],
)
def test_a_launcher_waits_for_its_workers_as_long_as_before(
    version: str, policy: str, label: str, seconds: int | None
) -> None:
    """It waited without an end; with a scheduler's dialect the chart's does so itself."""
    conversion = _mpi_job(version, policy=policy, label=label)
    assert seconds == conversion.values.get("network", {}).get("waitSeconds")
    is_noted = any("without an end" in note for note in conversion.notes)
    assert is_noted == (seconds is not None)


@pytest.mark.parametrize(
    ("value", "is_completed"),
    [
        ("/opt/mpi/bin:$PATH", True),
        ("/opt/mpi/bin", True),
        ("/opt/mpi/bin:/usr/bin/", False),
    ],
)
def test_a_path_without_the_systems_programs_is_completed(
    value: str, *, is_completed: bool
) -> None:
    """The launcher's first own program is mkdir, which was not there."""
    conversion = _mpi_job("v2beta1", env=f"env: [{{name: PATH, value: '{value}'}}]")
    path = conversion.values["mpi"]["launcher"]["env"]["PATH"]
    assert path.startswith(value)
    assert is_completed == path.endswith(":/bin")
    whys = [verdict.why for verdict in conversion.verdicts]
    assert is_completed == any("stands behind it" in why for why in whys)


@pytest.mark.parametrize(
    ("roles", "policy", "is_noted"),
    [
        ("Master Worker", "{}", True),
        ("Master Worker", "{cleanPodPolicy: Running}", False),
        ("Worker", "{}", True),
        ("Master", "{}", False),
    ],
)
def test_with_whose_end_a_pytorchjob_is_over_is_said(
    roles: str, policy: str, *, is_noted: bool
) -> None:
    """The operator is done with the master, and lets the workers go on without a policy."""
    template = '{spec: {containers: [{name: pytorch, image: "a/b:1", command: [python, t.py]}]}}'
    pods = "".join(
        f"    {role}: {{replicas: {1 + (role == 'Worker')}, template: {template}}}\n"
        for role in roles.split()
    )
    text = (
        "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: a}\n"
        f"spec:\n  runPolicy: {policy}\n  pytorchReplicaSpecs:\n{pods}"
    )
    notes = text_as_jobs(text).conversions[0].notes
    assert is_noted == any("the run is over when rank 0's pod is done" in note for note in notes)


def test_an_annotation_of_the_object_that_is_read_on_pods_is_said() -> None:
    """A mesh looks at pods, and those of the operator did not have the object's annotations."""
    conversion = text_as_jobs(
        MPI_JOB.replace("VERSION", "v2beta1")
        .replace("labels: {LABEL: q}", 'annotations: {sidecar.istio.io/inject: "false", a: b}')
        .replace("POLICY", "slotsPerWorker: 1")
        .replace(", ENV", "")
    ).conversions[0]
    whys = {verdict.path: verdict.why for verdict in conversion.verdicts}
    assert "the pods have it, too" == whys["metadata.annotations.sidecar.istio.io/inject"]
    assert "" == whys["metadata.annotations.a"]


@pytest.mark.parametrize(
    ("word", "env", "expected"),
    [
        ("on $(hostname)", {}, "on $(hostname)"),
        ("on $(hostname)", {"hostname": "n"}, "on n"),
        ("at $(MASTER)", {"MASTER": "m"}, "at m"),
        ("$$(x) $(a.b)", {}, "$(x) $(a.b)"),
        ("$(hostname) $$(x)", {"hostname": "it's $1"}, "it's $1 $(x)"),
    ],
)
def test_what_kubernetes_puts_in_is_that_of_variables_alone(
    word: str, env: dict[str, str], expected: str
) -> None:
    """$(NAME) of no variable stays for the shell behind a wrapper, which runs a command by it."""
    words, _ = references.expanded(("printf", "%s", word))
    output = subprocess.run(
        words, capture_output=True, text=True, check=True, env={"PATH": os.environ["PATH"], **env}
    )
    assert expected == output.stdout


def test_a_variable_in_small_letters_is_put_into_a_shells_text() -> None:
    """Its text is of a field, so that its name alone is known."""
    text = (
        "apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\nspec: {completions: 2, "
        "parallelism: 2, completionMode: Indexed, template: {spec: {containers: [{name: c, "
        "image: 'a/b:1', env: [{name: my_pod, valueFrom: {fieldRef: {fieldPath: metadata.name}}}], "
        "command: [bash, -c, 'torchrun --nnodes=2 t.py --by $(my_pod) --at $(hostname)']}]}}}\n"
    )
    (script,) = text_as_jobs(text).conversions[0].values["command"][2:]
    assert script.endswith("t.py --by ${my_pod} --at $(hostname)")


@pytest.mark.parametrize("shell", ["bash", "/usr/bin/env, bash"])
def test_a_script_behind_env_that_is_not_in_the_input_is_said(shell: str) -> None:
    """`env bash -c` is `bash -c`: a torchrun in what it runs has the old controller's variables."""
    text = (
        "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: a}\nspec: "
        "{pytorchReplicaSpecs: {Worker: {replicas: 2, template: {spec: {containers: [{name: "
        f"pytorch, image: 'a/b:1', command: [{shell}, -c], "
        "args: ['cd /w && bash /w/run.sh']}]}}}}}\n"
    )
    conversion = text_as_jobs(text).conversions[0]
    assert any("what /w/run.sh runs is not in the input" in note for note in conversion.notes)
    assert 29501 == conversion.values["torchrun"]["port"]


@pytest.mark.parametrize(
    ("line", "is_noted"),
    [
        ("print(f'for WORLD_SIZE: {n}')", False),
        ("import os; os.environ['WORLD_SIZE']", True),
    ],
)
def test_a_name_in_a_message_is_no_variable_that_is_read(line: str, *, is_noted: bool) -> None:
    """Only what asks for WORLD_SIZE gets another number."""
    role = (
        "{replicas: 1, template: {spec: {containers: [{name: pytorch, image: 'a/b:1', "
        f'command: [python, -c, "{line}"]}}]}}}}}}'
    )
    verdicts = (
        text_as_jobs(
            "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: a}\nspec:\n"
            f"  nprocPerNode: '2'\n  pytorchReplicaSpecs:\n    Master: {role}\n    Worker: {role}\n"
        )
        .conversions[0]
        .verdicts
    )
    (why,) = [verdict.why for verdict in verdicts if verdict.path == "spec.nprocPerNode"]
    assert is_noted == ("WORLD_SIZE, which the command reads, counted 2 processes" in why)


@pytest.mark.parametrize(
    ("words", "is_loss"), [("--machines $WORKER_ADDRS", True), ("-n 2", False)]
)
def test_a_variable_of_lightgbm_that_a_command_reads_is_a_loss(
    words: str, *, is_loss: bool
) -> None:
    """Nothing sets it here, so that the exit code says so, and not a note alone."""
    command = f'command: [sh, -c, "x {words}"]'
    template = f'{{spec: {{containers: [{{name: xgboost, image: "a/b:1", {command}}}]}}}}'
    pods = "".join(
        f"    {role}: {{replicas: 1, template: {template}}}\n" for role in ("Master", "Worker")
    )
    text = (
        "apiVersion: kubeflow.org/v1\nkind: XGBoostJob\nmetadata: {name: a}\nspec:\n"
        f"  xgbReplicaSpecs:\n{pods}"
    )
    whys = [verdict.why for verdict in text_as_jobs(text).conversions[0].lost]
    assert is_loss == any("WORKER_ADDRS, which is not set here" in why for why in whys)


NO_PODS = """\
apiVersion: VERSION
kind: KIND
metadata: {name: j}
spec: SPEC
"""
TEMPLATE = "template: {spec: {containers: [{name: pytorch, image: i, command: [torchrun, a]}]}}"


@pytest.mark.parametrize(
    ("version", "kind", "spec", "path"),
    [
        (
            "kubeflow.org/v1",
            "PyTorchJob",
            "{pytorchReplicaSpecs: {Worker: {replicas: 0, TEMPLATE}}}",
            "spec.pytorchReplicaSpecs.Worker.replicas",
        ),
        (
            "batch/v1",
            "Job",
            "{completions: 0, completionMode: Indexed, TEMPLATE}",
            "spec.completions",
        ),
        (
            "torchrun.ai/v1alpha1",
            "TorchrunJob",
            "{numNodes: 0, command: torchrun a}",
            "spec.numNodes",
        ),
    ],
)
def test_a_job_without_pods_is_refused(version: str, kind: str, spec: str, path: str) -> None:
    """It came out as one of one pod."""
    text = NO_PODS.replace("VERSION", version).replace("KIND", kind).replace("SPEC", spec)
    problem = refusal(text.replace("TEMPLATE", TEMPLATE))
    assert path == problem.path
    assert "it has no pods" in problem.message


@pytest.mark.parametrize(
    ("version", "kind", "specs", "first"),
    [
        ("kubeflow.org/v1", "PyTorchJob", "pytorchReplicaSpecs", "Master"),
        ("kubeflow.org/v2beta1", "MPIJob", "mpiReplicaSpecs", "Launcher"),
    ],
)
def test_workers_of_which_there_are_none_are_no_loss(
    version: str, kind: str, specs: str, first: str
) -> None:
    """The other pods are all that the job has."""
    spec = f"{{{specs}: {{{first}: {{TEMPLATE}}, Worker: {{replicas: 0, TEMPLATE}}}}}}"
    text = NO_PODS.replace("VERSION", version).replace("KIND", kind).replace("SPEC", spec)
    text = text.replace("TEMPLATE", TEMPLATE)
    text = text.replace("torchrun", "mpirun") if kind == "MPIJob" else text
    conversion = text_as_jobs(text).conversions[0]
    assert set() == lost(conversion)
    assert 1 == conversion.values["nodes"]


def test_a_number_that_the_chart_alone_has_is_named() -> None:
    """The report says how often a pod is replaced, and the object does not."""
    spec = "{pytorchReplicaSpecs: {Worker: {restartPolicy: OnFailure, TEMPLATE}}POLICY}"
    text = NO_PODS.replace("VERSION", "kubeflow.org/v1").replace("KIND", "PyTorchJob")
    text = text.replace("SPEC", spec).replace("TEMPLATE", TEMPLATE)
    note = "runPolicy.backoffLimit is 3 where nothing sets it"
    unset = text_as_jobs(text.replace("POLICY", "")).conversions[0]
    limited = text_as_jobs(text.replace("POLICY", ", runPolicy: {backoffLimit: 4}")).conversions[0]
    assert [True, False] == [note in job.notes for job in (unset, limited)]


@pytest.mark.parametrize(
    ("words", "is_noted"),
    [("mpirun -n 4 ./a", True), ("mpirun --bind-to core -n 4 ./a", False)],
)
def test_how_ranks_are_bound_is_said(words: str, *, is_noted: bool) -> None:
    """Open MPI binds them by itself, and the chart has it bind none."""
    template = TEMPLATE.replace("[torchrun, a]", str(words.split()))
    spec = f"{{mpiReplicaSpecs: {{Launcher: {{{template}}}, Worker: {{{template}}}}}}}"
    text = NO_PODS.replace("VERSION", "kubeflow.org/v2beta1").replace("KIND", "MPIJob")
    conversion = text_as_jobs(text.replace("SPEC", spec)).conversions[0]
    assert is_noted is any("bound to no core" in note for note in conversion.notes)


PADDLE = """\
apiVersion: kubeflow.org/v1
kind: PaddleJob
metadata: {name: p}
spec: {paddleReplicaSpecs: {MASTER Worker: {replicas: 2, TEMPLATE}}}
"""


@pytest.mark.parametrize(
    ("rank", "master"), [("0", "10.0.0.7:29500"), ("1", "p-worker-0.p.svc:29500")]
)
def test_paddle_s_first_pod_knows_its_own_address(rank: str, master: str) -> None:
    """Its launcher serves the rendezvous where the address is the pod's own, and no name is."""
    template = TEMPLATE.replace("pytorch", "paddle").replace("torchrun, a", "sh, -c, env")
    conversion = text_as_jobs(PADDLE.replace("MASTER", "").replace("TEMPLATE", template))
    env = {
        "PATH": os.environ["PATH"],
        "RANK": rank,
        "WORLD_SIZE": "2",
        "MASTER_ADDR": "p-worker-0.p.svc",
        "MASTER_PORT": "29500",
        "ALLRANKS_POD_IP": "10.0.0.7",
    }
    command = conversion.conversions[0].values["command"]
    run = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    variables = dict(line.partition("=")[::2] for line in run.stdout.splitlines())
    own = {name: text for name, text in variables.items() if name.startswith("PADDLE_")}
    assert {"PADDLE_MASTER": master, "PADDLE_NNODES": "2", "PADDLE_JOB_ID": "p"} == own


def test_a_master_of_paddle_s_is_a_server() -> None:
    """Also with the template of the workers; each pod is told what it has, as the operator does."""
    template = TEMPLATE.replace("pytorch", "paddle")
    text = PADDLE.replace("MASTER", "Master: {replicas: 1, TEMPLATE},").replace(
        "TEMPLATE", template
    )
    values = text_as_jobs(text).conversions[0].values
    server = values["elastic"]["roles"]["ps"]
    assert (2, 1) == (values["nodes"], server["replicas"])
    assert "PADDLE_SERVER_NUM=1" in server["command"][2]
    assert "PADDLE_TRAINER_NUM=1" in values["command"][2]


def test_with_whose_end_an_elastic_job_is_done() -> None:
    """With its first worker, as with one pod of a run; without an elasticPolicy with all."""
    text = NO_PODS.replace("VERSION", "kubeflow.org/v1").replace("KIND", "PyTorchJob")
    spec = "{pytorchReplicaSpecs: {Worker: {replicas: 2, TEMPLATE}}POLICY}"
    text = text.replace("SPEC", spec).replace("TEMPLATE", TEMPLATE)
    policy = ", elasticPolicy: {minReplicas: 2, maxReplicas: 2}"
    waits = "done when all of its workers are"
    jobs = [text_as_jobs(text.replace("POLICY", own)).conversions[0] for own in ("", policy)]
    assert [True, False] == [any(waits in note for note in job.notes) for job in jobs]


TRIALS = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: j}
spec:
  policies:
  - {event: PodFailed, action: RestartJob}
  - {event: TaskCompleted, action: CompleteJob}
  tasks:
  - {name: t, replicas: 4, template: {spec: {containers: [{name: c, image: i, command: [./a]}]}}}
"""


def test_policies_of_trials_are_said_of_trials() -> None:
    """Nothing leads them, and none starts anew with another."""
    conversion = text_as_jobs(TRIALS).conversions[0]
    assert "sweep" == conversion.values["workload"]
    reasons = {verdict.why for verdict in conversion.verdicts if "policies" in verdict.keys}
    assert any("other trials go on" in reason for reason in reasons)
    assert not any("rank" in reason for reason in reasons)


def test_a_number_that_the_object_has_is_not_said_to_be_the_charts() -> None:
    """A Job's own limit is among the values."""
    text = NO_PODS.replace("VERSION", "batch/v1").replace("KIND", "Job")
    spec = "{completions: 2, completionMode: Indexed, backoffLimit: 0, TEMPLATE}"
    conversion = text_as_jobs(text.replace("SPEC", spec).replace("TEMPLATE", TEMPLATE))
    assert not any("where nothing sets it" in note for note in conversion.conversions[0].notes)


@pytest.mark.parametrize("policy", ["restartPolicy: Never, ", ""])
def test_a_job_that_gives_up_with_its_first_pod_has_no_retries(policy: str) -> None:
    """Whatever its backoffLimit is: the operator makes no pod anew with Never."""
    template = TEMPLATE.replace("pytorch", "tensorflow").replace("torchrun, a", "./a")
    spec = (
        f"{{runPolicy: {{backoffLimit: 10}}, tfReplicaSpecs: {{Worker: {{{policy}{template}}}}}}}"
    )
    text = NO_PODS.replace("VERSION", "kubeflow.org/v1").replace("KIND", "TFJob")
    conversion = text_as_jobs(text.replace("SPEC", spec)).conversions[0]
    assert 0 == conversion.values["runPolicy"]["backoffLimit"]
    limits = [verdict for verdict in conversion.verdicts if verdict.keys[-1] == "backoffLimit"]
    assert [Outcome.CHANGED] == [verdict.outcome for verdict in limits]
    assert "restartPolicy Never" in limits[0].why


@pytest.mark.parametrize(
    ("policy", "is_noted"),
    [("", True), ("runPolicy: {schedulingPolicy: {minAvailable: 2}}, ", False)],
)
def test_pods_that_become_a_gang_are_said_to(policy: str, *, is_noted: bool) -> None:
    """The scheduler's name alone makes none, without the operator's own."""
    template = TEMPLATE.replace("spec: {c", "spec: {schedulerName: volcano, c")
    spec = f"{{{policy}pytorchReplicaSpecs: {{Worker: {{replicas: 2, {template}}}}}}}"
    text = NO_PODS.replace("VERSION", "kubeflow.org/v1").replace("KIND", "PyTorchJob")
    conversion = text_as_jobs(text.replace("SPEC", spec)).conversions[0]
    assert "volcano" == conversion.values["scheduling"]["dialect"]
    assert is_noted is any("makes a gang of the pods" in note for note in conversion.notes)


@pytest.mark.parametrize(
    ("words", "values"),
    [
        (["torchrun", "a"], {"maxRestarts": 9, "logDir": "/logs", "tee": "3"}),
        (["torchrun", "--max-restarts=1", "a"], {"maxRestarts": 1, "logDir": "/logs", "tee": "3"}),
        (["bash", "-c", "torchrun a && cp b c"], {}),
    ],
)
def test_options_of_torchrun_s_may_be_variables(words: list[str], values: dict[str, Any]) -> None:
    """They are the chart's options; a torchrun of the command's own does not have them."""
    env = "env: [{name: PET_MAX_RESTARTS, value: '9'}, {name: PET_LOG_DIR, value: /logs}, "
    env += "{name: PET_TEE, value: '3'}, {name: PET_RDZV_ID, value: x}]"
    template = TEMPLATE.replace("[torchrun, a]", f"{words}, {env}")
    text = NO_PODS.replace("VERSION", "kubeflow.org/v1").replace("KIND", "PyTorchJob")
    spec = f"{{pytorchReplicaSpecs: {{Worker: {{replicas: 2, {template}}}}}}}"
    conversion = text_as_jobs(text.replace("SPEC", spec)).conversions[0]
    torchrun = conversion.values["torchrun"]
    assert values == {key: torchrun[key] for key in values}
    assert (not values) is any("write --log-dir" in verdict.why for verdict in conversion.lost)


def test_pods_that_each_call_mpirun_are_said_to_become_one_job() -> None:
    """Each of them ran its own ranks."""
    template = TEMPLATE.replace("torchrun, a", "mpirun, -n, '2', ./a")
    text = NO_PODS.replace("VERSION", "kubeflow.org/v1").replace("KIND", "PyTorchJob")
    spec = f"{{pytorchReplicaSpecs: {{Worker: {{replicas: 3, {template}}}}}}}"
    conversion = text_as_jobs(text.replace("SPEC", spec)).conversions[0]
    assert "mpi" == conversion.values["workload"]
    assert any("each of 3 pods called it by itself" in verdict.why for verdict in conversion.lost)


def test_an_image_of_workers_that_is_to_be_filled_in_is_named() -> None:
    """At its own field, as that of a launcher is."""
    launcher = TEMPLATE.replace("torchrun, a", "mpirun, ./a")
    worker = launcher.replace("image: i", "image: '<YOUR-IMAGE>:v1'")
    spec = f"{{mpiReplicaSpecs: {{Launcher: {{{launcher}}}, Worker: {{{worker}}}}}}}"
    text = NO_PODS.replace("VERSION", "kubeflow.org/v2beta1").replace("KIND", "MPIJob")
    problem = refusal(text.replace("SPEC", spec))
    assert "spec.mpiReplicaSpecs.Worker.template.spec.containers[0].image" == problem.path
    assert "is no name of an image" in problem.message


def test_a_role_that_is_given_twice_is_said() -> None:
    """A chief and a master are one role here; the first of two has its template."""
    pod = "template: {spec: {containers: [{name: tensorflow, image: i, command: [./a]}]}}"
    items = ", ".join(
        f"{{replicas: 1, replicaType: {name}, {pod}}}"
        for name in ("CHIEF", "MASTER", "WORKER", "WORKER")
    )
    text = f"apiVersion: mpba.fbk.eu/v1alpha1\nkind: TFJob\nmetadata: {{name: a}}\nspec: [{items}]"
    whys = {item.path: item.why for item in text_as_jobs(text).conversions[0].lost}
    assert {"spec[1]", "spec[3]"} == {path[:7] for path in whys}
    assert "a second MASTER: the role chief is that of spec[0]" in whys["spec[1].replicas"]
    assert "a second WORKER: the role worker is that of spec[2]" in whys["spec[3].replicas"]


_QUEUED = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata:
  name: a
  labels: {LABELS}
  managedFields: [{manager: kubectl, fieldsV1: {f:spec: {}}}]
spec:
  runPolicy: {schedulingPolicy: {queue: q}}
  pytorchReplicaSpecs: {Worker: {replicas: 2, template: {spec: {containers: [{name: pytorch,
    image: i, command: [torchrun, a.py]}]}}}}
"""


@pytest.mark.parametrize(
    ("labels", "is_guess"), [("", True), ("kueue.x-k8s.io/queue-name: q", False)]
)
def test_that_a_queue_is_volcanos_is_a_guess(labels: str, *, is_guess: bool) -> None:
    """A schedulingPolicy names none: the operator had an option for it."""
    (conversion,) = text_as_jobs(_QUEUED.replace("LABELS", labels)).conversions
    assert is_guess == (conversion.values["scheduling"]["dialect"] == "volcano")
    assert is_guess == any("is a guess" in note for note in conversion.notes)


def test_what_the_cluster_wrote_is_its_own_also_where_it_is_empty() -> None:
    """An empty mapping of managedFields is carried nowhere."""
    (conversion,) = text_as_jobs(_QUEUED.replace("LABELS", "")).conversions
    outcomes = {
        item.path: (item.outcome, item.why)
        for item in conversion.verdicts
        if "managedFields" in item.path
    }
    assert {(Outcome.CHANGED, "the cluster writes it itself")} == set(outcomes.values())
    assert 2 == len(outcomes)


@pytest.mark.parametrize(
    ("version", "is_noted"), [("v1", True), ("v1alpha2", False), ("v1beta1", False)]
)
def test_the_operator_of_older_tfjobs_ended_their_pods(version: str, *, is_noted: bool) -> None:
    """Its cleanPodPolicy is Running where there is none; that of v1 is None."""
    pod = "template: {spec: {containers: [{name: tensorflow, image: i, command: [python, t.py]}]}}"
    [conversion] = text_as_jobs(
        f"apiVersion: kubeflow.org/{version}\nkind: TFJob\nmetadata: {{name: g}}\nspec:\n"
        f"  tfReplicaSpecs:\n    Chief: {{{pod}}}\n    Worker: {{replicas: 2, {pod}}}\n"
    ).conversions
    assert any("which they were not before" in note for note in conversion.notes) is is_noted


def test_pods_of_a_rendezvous_that_is_not_the_charts_are_all_waited_for() -> None:
    """No sentence says that the run is over with the pod of rank 0."""
    [conversion] = text_as_jobs(
        "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: m}\nspec:\n"
        "  elasticPolicy: {rdzvBackend: etcd, rdzvHost: etcd, rdzvPort: 2379}\n"
        "  pytorchReplicaSpecs: {Worker: {replicas: 2, template: {spec: {containers: [\n"
        '    {name: pytorch, image: "a/b:1", command: [torchrun, t.py]}]}}}}\n'
    ).conversions
    assert "etcd" in conversion.values["torchrun"]["rdzvBackend"]
    assert not any("the run is over when rank 0's pod is done" in note for note in conversion.notes)


@pytest.mark.parametrize(("as_worker", "pods"), [("false", "workers"), ("true", "pods")])
def test_which_pods_take_a_port_of_their_node(as_worker: str, pods: str) -> None:
    """A launcher without ranks has no sshd, and may share a worker's node."""
    pod = "{hostNetwork: true, containers: [{name: c, image: i, command: [mpirun, ./a]}]}"
    [conversion] = text_as_jobs(
        "apiVersion: kubeflow.org/v2beta1\nkind: MPIJob\nmetadata: {name: a}\nspec:\n"
        f"  runLauncherAsWorker: {as_worker}\n  mpiReplicaSpecs:\n"
        f"    Launcher: {{template: {{spec: {pod}}}}}\n"
        f"    Worker: {{replicas: 2, template: {{spec: {pod}}}}}\n"
    ).conversions
    assert any(f"no two of the {pods} can have one node" in note for note in conversion.notes)


@pytest.mark.parametrize(("end", "trained_again"), [("", True), (" && sleep infinity", False)])
def test_pods_of_a_statefulset_train_again_unless_their_script_keeps_them(
    end: str, *, trained_again: bool
) -> None:
    """A script that ends in `sleep infinity` never ended, and nor did its pods train twice."""
    [conversion] = text_as_jobs(
        "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: t}\nspec:\n  serviceName: t\n"
        "  replicas: 2\n  selector: {matchLabels: {app: t}}\n  template:\n"
        "    metadata: {labels: {app: t}}\n    spec:\n      restartPolicy: Always\n"
        "      containers:\n      - name: t\n        image: a/b:1\n        command: [bash, -c]\n"
        "        args: ['torchrun --nnodes=2 --node_rank=${HOSTNAME##*-} --master_addr=t-0.t t.py"
        f"{end}']\n"
    ).conversions
    [note] = [note for note in conversion.notes if "start anew for ever" in note]
    assert ("do not train again as they did" in note) is trained_again
    whys = {verdict.path: verdict.why for verdict in conversion.verdicts}
    assert "start anew where they fail" in whys["spec.template.spec.restartPolicy"]


def test_a_pytorchjob_with_a_master_counts_its_pods_in_world_size() -> None:
    """Its operator sets the variable then, to the number of pods."""
    pod = "template: {spec: {containers: [{name: pytorch, image: i, command: [bash, -c, "
    pod += "'torchrun --nproc-per-node=4 t.py --world $((WORLD_SIZE*4))']}]}}"
    [conversion] = text_as_jobs(
        "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: m}\nspec:\n"
        f"  pytorchReplicaSpecs:\n    Master: {{{pod}}}\n    Worker: {{{pod}}}\n"
    ).conversions
    assert any("WORLD_SIZE, which was another number there" in n for n in conversion.notes)


@pytest.mark.parametrize(
    ("command", "slots", "is_noted"),
    [
        ("mpirun -n 2 hostname && echo both", 2, False),
        ("mpirun --np 16 ./a", 16, False),
        ("mpirun ./a", None, True),
        ("mpirun -H localhost:4 ./a", None, True),
    ],
)
def test_a_launcher_alone_has_room_for_its_ranks(
    command: str, slots: int | None, *, is_noted: bool
) -> None:
    """The operator's list of hosts is empty then, and mpirun takes the node's cores."""
    [conversion] = text_as_jobs(
        "apiVersion: kubeflow.org/v2beta1\nkind: MPIJob\nmetadata: {name: m}\nspec:\n"
        "  mpiReplicaSpecs: {Launcher: {template: {spec: {containers: [{name: l, image: i, "
        f"command: [bash, -c, {json.dumps(command)}]}}]}}}}}}}}\n"
    ).conversions
    assert slots == conversion.values["mpi"].get("slotsPerWorker")
    assert any("the launcher is alone" in note for note in conversion.notes) is is_noted


@pytest.mark.parametrize(("kind", "how"), [("OpenMPI", "--bind-to"), ("Intel", "I_MPI_PIN")])
def test_how_ranks_are_bound_is_the_mpis_own(kind: str, how: str) -> None:
    """Intel's mpirun has a variable for it, which the chart sets to none."""
    pod = "{template: {spec: {containers: [{name: c, image: i, command: [mpirun, ./a]}]}}}"
    [conversion] = text_as_jobs(
        "apiVersion: kubeflow.org/v2beta1\nkind: MPIJob\nmetadata: {name: m}\nspec:\n"
        f"  mpiImplementation: {kind}\n  mpiReplicaSpecs: {{Launcher: {pod}, Worker: {pod}}}\n"
    ).conversions
    [note] = [note for note in conversion.notes if "bound to no core" in note]
    assert how in note


def test_an_init_container_that_is_called_as_the_trainer_has_another_name() -> None:
    """Names are unique in a pod, also between its two lists of containers."""
    [conversion] = text_as_jobs(
        "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: m}\nspec:\n"
        "  pytorchReplicaSpecs: {Worker: {template: {spec: {\n"
        "    initContainers: [{name: trainer, image: i, command: [ls]}],\n"
        "    containers: [{name: pytorch, image: i, command: [torchrun, t.py]}]}}}}\n"
    ).conversions
    [init] = conversion.values["podTemplate"]["spec"]["initContainers"]
    assert "trainer-side" == init["name"]


@pytest.mark.parametrize(
    ("limits", "env", "is_noted"),
    [
        ("resources: {limits: {nvidia.com/gpu: 1}}", "", True),
        ("", "", False),
        (
            "resources: {limits: {nvidia.com/gpu: 1}}",
            "env: [{name: NVIDIA_VISIBLE_DEVICES, value: all}]",
            False,
        ),
    ],
)
def test_roles_without_gpus_are_said_to_see_none(limits: str, env: str, *, is_noted: bool) -> None:
    """The chart hides those of the node, which a runtime may have shown to every pod."""
    pod = "template: {{spec: {{containers: [{{name: tensorflow, image: i, command: [t], {}}}]}}}}"
    [conversion] = text_as_jobs(
        "apiVersion: kubeflow.org/v1\nkind: TFJob\nmetadata: {name: t}\nspec:\n"
        f"  tfReplicaSpecs:\n    PS: {{{pod.format(env)}}}\n    Worker: {{{pod.format(limits)}}}\n"
    ).conversions
    assert any("ps asks for no GPU, and sees none here" in n for n in conversion.notes) is is_noted


def test_the_workers_of_v1alpha1_ended_with_their_launcher() -> None:
    """Its controller took them away, and no sentence says that they stayed."""
    [conversion] = text_as_jobs(
        "apiVersion: kubeflow.org/v1alpha1\nkind: MPIJob\nmetadata: {name: m}\nspec:\n  gpus: 8\n"
        "  gpusPerNode: 8\n  template: {spec: {containers: [{name: c, image: i, "
        "command: [mpirun, ./a]}]}}\n"
    ).conversions
    assert not any("cleanPodPolicy" in note for note in conversion.notes)


@pytest.mark.parametrize(("role", "is_noted"), [("Chief", True), ("PS", False)])
def test_a_role_without_gpus_beside_workers_without_sees_none(role: str, *, is_noted: bool) -> None:
    """The chart hides them from all roles but the workers; a PS computes nothing by them."""
    template = "{template: {spec: {containers: [{name: tensorflow, image: i, command: [a.py]}]}}}"
    text = (
        "apiVersion: kubeflow.org/v1\nkind: TFJob\nmetadata: {name: a}\n"
        f"spec: {{tfReplicaSpecs: {{{role}: {template}, Worker: {template}}}}}\n"
    )
    notes = converted.text_as_jobs(text).conversions[0].notes
    assert is_noted == any("for no GPU, and sees none here" in note for note in notes)
