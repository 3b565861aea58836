"""The rules between values: each refuses what its sentence says, and only that.

It is long because it is one table: a row or more for each rule.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allranks import names
from allranks.values import check
from allranks.values.merge import merge, overlay
from allranks.values.rules import mpi as check_mpi
from allranks.values.rules import names as check_names
from allranks.values.rules.base import View
from allranks.values.sources import defaults
from allranks.yamlio.load import load

BASE = {"image": {"repository": "my/trainer"}, "command": ["python", "train.py"]}
RULES = {rule.id: rule for rule in check.rules()}

# For each rule: values it refuses, with the path it names; then the nearest that it accepts.
REFUSED = [
    ("own-labels", "labels: {allranks.dev/x: y}", 'labels["allranks.dev/x"]'),
    ("own-labels", "annotations: {allranks.dev/x: y}", 'annotations["allranks.dev/x"]'),
    (
        "own-labels",
        "podTemplate: {metadata: {labels: {job-name: x}}}",
        "podTemplate.metadata.labels.job-name",
    ),
    ("no-hooks", "annotations: {helm.sh/hook: test}", 'annotations["helm.sh/hook"]'),
    ("queue-revision", "queueRef: {revision: 9f86d081884c}", "queueRef.name"),
    ("network-policy", "networkPolicy: {from: [{podSelector: {}}]}", "networkPolicy.from"),
    (
        "network-policy",
        "networkPolicy: {enabled: true}\nnetwork: {hostNetwork: true}",
        "networkPolicy.enabled",
    ),
    ("service-account", 'serviceAccount: {annotations: {a: "b"}}', "serviceAccount.annotations"),
    (
        "azure-volume",
        "storage: {datasets: {azureBlob: {protocol: nfs}}}",
        "storage.datasets.azureBlob",
    ),
    (
        "azure-account",
        "storage: {datasets: {azureFile: {shareName: mnist}}}",
        "storage.datasets.azureFile.storageAccount",
    ),
    (
        "azure-credentials",
        "storage: {datasets: {size: 1Gi, azureFile: {protocol: nfs, secretName: azure}}}",
        "storage.datasets.azureFile.secretName",
    ),
    ("command-or-script", "script: x", "script"),
    ("command-or-script", "command: []", "command"),
    ("first-word", 'command: [" ", x]', "command[0]"),
    ("script-size", f"setup: {'x' * 1015809}", "setup"),
    ("compat", "{command: [/x.py], compat: slurm, torchrun: {runPath: true}}", "compat"),
    ("stall", "runPolicy: {onStall: end}", "runPolicy.onStall"),
    (
        "avoid-nodes",
        "scheduling: {avoidNodes: [b1, b2], nodeSelector: {kubernetes.io/hostname: b2}}",
        'scheduling.nodeSelector["kubernetes.io/hostname"]',
    ),
    ("module", "torchrun: {module: true}", "torchrun.module"),
    ("module", "torchrun: {module: true, runPath: true}", "torchrun.runPath"),
    ("module", "{command: [], script: x, torchrun: {runPath: true}}", "torchrun.runPath"),
    ("module", "{command: [x.py], torchrun: {runPath: true}}", "command[0]"),
    ("image", 'image: {repository: ""}', "image.repository"),
    *(("reserved-env", f'env: {{{name}: "1"}}', f"env.{name}") for name in names.RESERVED_ENV),
    ("reserved-env", 'env: {PET_X: "1"}', "env.PET_X"),
    ("reserved-env", 'env: {ALLRANKS_X: "1"}', "env.ALLRANKS_X"),
    ("clean-text", 'setup: "a\\0b"', "setup"),
    ("clean-text", 'scheduling: {affinity: {"a\\0b": 1}}', 'scheduling.affinity["a\\u0000b"]'),
    ("gpus-divide", "{gpus: 12, gpusPerNode: 8}", "gpus"),
    ("gpus-divide", "{gpus: 12, nodes: 5}", "gpus"),
    ("gpus-divide", "{gpus: 7, torchrun: {elastic: {minNodes: 1, maxNodes: 2}}}", "gpus"),
    ("gpus-agree", "{gpus: 16, nodes: 3, gpusPerNode: 8}", "gpus"),
    ("node-shape-gpus", "{gpusPerNode: 9, nodeShape: {gpus: 8}}", "gpusPerNode"),
    ("node-shape-gpus", "{gpus: 32, nodes: 2, nodeShape: {gpus: 8}}", "nodes"),
    ("procs-per-node", "{gpus: 8, procsPerNode: 9}", "procsPerNode"),
    (
        "per-pod-or-per-gpu",
        "{gpus: 1, resources: {perGpu: {cpu: 1}, perPod: {requests: {cpu: 1}}}}",
        "resources.perGpu",
    ),
    ("shares-need-gpus", "shm: {sizePerGpu: 1Gi}", "shm.sizePerGpu"),
    ("shares-need-gpus", "resources: {perGpu: {cpu: 1}}", "resources.perGpu"),
    (
        "shares-need-gpus",
        "storage: {workspace: {sizePerGpu: 1Gi}}",
        "storage.workspace.sizePerGpu",
    ),
    ("shm", "{gpus: 1, shm: {size: 1Gi, sizePerGpu: 1Gi}}", "shm.sizePerGpu"),
    (
        "gpus-by-size",
        "{gpus: 1, resources: {perGpu: {nvidia.com/gpu: 1}}}",
        'resources.perGpu["nvidia.com/gpu"]',
    ),
    (
        "limits",
        "resources: {perPod: {requests: {cpu: 2}, limits: {cpu: 1999m}}}",
        "resources.perPod.limits.cpu",
    ),
    (
        "limits",
        "resources: {perPod: {requests: {a.b/c: 1}, limits: {a.b/c: 2}}}",
        'resources.perPod.limits["a.b/c"]',
    ),
    ("limits", "resources: {perPod: {requests: {a.b/c: 1}}}", 'resources.perPod.requests["a.b/c"]'),
    ("units", "resources: {perPod: {limits: {memory: 500m}}}", "resources.perPod.limits.memory"),
    ("units", 'shm: {size: "64"}', "shm.size"),
    ("units", "storage: {workspace: {size: 10k}}", "storage.workspace.size"),
    (
        "node-shape",
        "{gpus: 8, nodeShape: {gpus: 8, cpu: 95}, resources: {perGpu: {cpu: 12}}}",
        "resources.perGpu.cpu",
    ),
    (
        "node-shape",
        "{nodeShape: {memory: 1Gi}, resources: {perPod: {limits: {memory: 2Gi}}}}",
        "resources.perPod",
    ),
    ("rdma", "network: {rdma: {resources: {rdma/hca: 1}}}", "network.rdma.resources"),
    (
        "one-claim",
        "storage: {workspace: {existingClaim: x, size: 1Gi}}",
        "storage.workspace.size",
    ),
    (
        "one-claim",
        "{gpus: 1, storage: {workspace: {size: 1Gi, sizePerGpu: 1Gi}}}",
        "storage.workspace.sizePerGpu",
    ),
    (
        "storage-used",
        "storage: {datasets: {storageClassName: x}}",
        "storage.datasets.storageClassName",
    ),
    ("storage-used", "storage: {datasets: {subPath: x}}", "storage.datasets.subPath"),
    (
        "shared-storage",
        "{nodes: 2, storage: {datasets: {size: 1Gi, accessModes: [ReadWriteOnce]}}}",
        "storage.datasets.accessModes",
    ),
    ("workspace-transport", "workspace: {via: image}", "workspace.registry"),
    ("workspace-transport", "workspace: {via: pvc}", "workspace.claim"),
    ("workspace-snapshot", "workspace: {snapshot: {via: pvc}}", "workspace.snapshot.claim"),
    (
        "workspace-snapshot",
        "workspace: {snapshot: {via: image, path: x}}",
        "workspace.snapshot.path",
    ),
    *(
        (
            "workspace-path",
            (
                f"{{workspace: {{mountPath: {path}, snapshot: {{via: image}}}}, "
                "storage: {datasets: {existingClaim: x, mountPath: /data}}}"
            ),
            where,
        )
        for where in ["workspace.mountPath"]
        for path in ("/", "/etc", "/etc/allranks/x", "/var/run", "/proc/x", "/data", "//data/")
    ),
    (
        "workspace-shared",
        (
            "{nodes: 2, workspace: {via: pvc, claim: x}, "
            "storage: {datasets: {existingClaim: x, accessModes: [ReadWriteOnce]}}}"
        ),
        "workspace.claim",
    ),
    (
        "workspace-shared",
        (
            "{nodes: 2, workspace: {snapshot: {via: pvc, claim: x}}, "
            "storage: {datasets: {existingClaim: x, accessModes: [ReadWriteOncePod]}}}"
        ),
        "workspace.snapshot.claim",
    ),
    *(
        ("mount-paths", f"storage: {{datasets: {{size: 1Gi, mountPath: {path}}}}}", where)
        for where in ["storage.datasets.mountPath"]
        for path in (
            "/etc/allranks/x",
            "/etc",
            "//etc",
            "/dev/shm",
            "/var/run",
            "/proc/x",
            "/a/..",
        )
    ),
    ("queue", "queue: x", "queue"),
    ("dialect", "scheduling: {dialect: kueue}", "queue"),
    (
        "dialect",
        "scheduling: {dialect: kai, topology: {mode: required}}",
        "scheduling.topology.mode",
    ),
    (
        "dialect",
        "scheduling: {dialect: volcano, topology: {mode: required, level: host}}",
        "scheduling.topology.level",
    ),
    ("queue", "{queue: x, scheduling: {dialect: coscheduling}}", "queue"),
    (
        "scheduler",
        "scheduling: {dialect: volcano, schedulerName: default-scheduler}",
        "scheduling.schedulerName",
    ),
    (
        "scheduler",
        "scheduling: {dialect: coscheduling, schedulerName: volcano}",
        "scheduling.schedulerName",
    ),
    ("gang-timeout", "scheduling: {gangTimeoutSeconds: 1}", "scheduling.gangTimeoutSeconds"),
    (
        "topology-level",
        "scheduling: {topology: {mode: required, level: zone}}",
        "scheduling.topology.level",
    ),
    (
        "gpu-type",
        "{gpuType: {value: a}, scheduling: {nodeSelector: {nvidia.com/gpu.product: b}}}",
        'scheduling.nodeSelector["nvidia.com/gpu.product"]',
    ),
    (
        "tolerations",
        "scheduling: {tolerations: [{operator: Equal}]}",
        "scheduling.tolerations[0]",
    ),
    (
        "tolerations",
        "scheduling: {tolerations: [{key: a, tolerationSeconds: 1}]}",
        "scheduling.tolerations[0].tolerationSeconds",
    ),
    ("dns", "network: {hostNetwork: true, dnsPolicy: Default}", "network.dnsPolicy"),
    ("dns", "{nodes: 2, network: {dnsPolicy: Default}}", "network.dnsPolicy"),
    ("dns", "network: {dnsPolicy: None}", "network.dnsPolicy"),
    ("host-port", "{network: {hostNetwork: true}, torchrun: {port: 1023}}", "torchrun.port"),
    *(
        ("restricted", f"security: {{containerSecurityContext: {{{text}}}}}", where)
        for text, below in [
            ("runAsUser: 0", "runAsUser"),
            ("runAsNonRoot: false", "runAsNonRoot"),
            ("privileged: true", "privileged"),
            ("allowPrivilegeEscalation: true", "allowPrivilegeEscalation"),
            ("seccompProfile: {type: Unconfined}", "seccompProfile.type"),
            ("capabilities: {add: [SYS_ADMIN]}", "capabilities.add"),
        ]
        for where in [f"security.containerSecurityContext.{below}"]
    ),
    *(
        ("pod-template", f"podTemplate: {{spec: {{{field}: x}}}}", f"podTemplate.spec.{field}")
        for field in ("restartPolicy", "hostname", "subdomain", "hostNetwork", "dnsPolicy")
    ),
    (
        "pod-template",
        "podTemplate: {spec: {containers: [{name: trainer, args: [x]}]}}",
        "podTemplate.spec.containers[0].args",
    ),
    (
        "pod-template",
        "podTemplate: {spec: {containers: [{name: trainer, env: [{name: RANK, value: x}]}]}}",
        "podTemplate.spec.containers[0].env[0]",
    ),
    (
        "pod-template",
        "podTemplate: {spec: {containers: [{$patch: replace}]}}",
        'podTemplate.spec.containers[0]["$patch"]',
    ),
    ("elastic-range", "torchrun: {elastic: {minNodes: 3}}", "torchrun.elastic.maxNodes"),
    ("elastic-range", "torchrun: {elastic: {maxNodes: 3}}", "torchrun.elastic.minNodes"),
    (
        "elastic-range",
        "torchrun: {elastic: {minNodes: 3, maxNodes: 2}}",
        "torchrun.elastic.minNodes",
    ),
    ("elastic-nodes", "{nodes: 1, torchrun: {elastic: {minNodes: 2, maxNodes: 3}}}", "nodes"),
    (
        "elastic-nodes",
        "{gpus: 32, gpusPerNode: 8, torchrun: {elastic: {minNodes: 2, maxNodes: 3}}}",
        "gpus",
    ),
    (
        "elastic-backend",
        "torchrun: {rdzvBackend: static, elastic: {minNodes: 2, maxNodes: 3}}",
        "torchrun.rdzvBackend",
    ),
    (
        "elastic-controller",
        "torchrun: {controller: StatefulSet, elastic: {minNodes: 2, maxNodes: 3}}",
        "torchrun.controller",
    ),
    ("rdzv-endpoint", "torchrun: {rdzvBackend: etcd-v2}", "torchrun.rdzvEndpoint"),
    (
        "rdzv-endpoint",
        'torchrun: {rdzvBackend: static, rdzvEndpoint: "a:1"}',
        "torchrun.rdzvEndpoint",
    ),
    *(
        ("spares", f"nodes: {nodes}\n{more}torchrun: {{spares: 1{own}}}", where)
        for nodes, more, own, where in [
            (1, "", "", "torchrun.spares"),
            (0, "", ", elastic: {minNodes: 2, maxNodes: 3}", "torchrun.spares"),
            (2, "", ", rdzvBackend: static", "torchrun.spares"),
            (2, "", ", controller: StatefulSet", "torchrun.spares"),
            (2, "compat: slurm\n", "", "torchrun.spares"),
            (2, "", ", localAddr: 10.0.0.1", "torchrun.localAddr"),
        ]
    ),
    (
        "restarts-in-place",
        "torchrun: {restartsInPlace: 1, controller: StatefulSet}",
        "torchrun.restartsInPlace",
    ),
    (
        "restarts-in-place",
        "torchrun: {restartsInPlace: 1}\nrunPolicy: {fatalExitCodes: [220]}",
        "runPolicy.fatalExitCodes",
    ),
    *(
        ("torchft", f"nodes: 2\n{more}torchrun: {{torchft: {{lighthouse: 'l:1'}}{own}}}", where)
        for more, own, where in [
            ("", ", controller: StatefulSet", "torchrun.torchft.lighthouse"),
            ("", ", rdzvBackend: static", "torchrun.torchft.lighthouse"),
            ("", ", spares: 1", "torchrun.torchft.lighthouse"),
            ("", ", localAddr: 10.0.0.1", "torchrun.torchft.lighthouse"),
            ("compat: slurm\n", "", "torchrun.torchft.lighthouse"),
            ('env: {REPLICA_GROUP_ID: "1"}\n', "", "env.REPLICA_GROUP_ID"),
        ]
    ),
    ("rdzv-conf", 'torchrun: {rdzvConf: {rank: "0"}}', "torchrun.rdzvConf.rank"),
    *(
        (
            "stateful",
            f"{{torchrun: {{controller: StatefulSet}}, runPolicy: {{{key}: {value}}}}}",
            f"runPolicy.{key}",
        )
        for key, value in [
            ("fatalExitCodes", "[1]"),
            ("activeDeadlineSeconds", 1),
            ("ttlSecondsAfterFinished", 1),
        ]
    ),
    *(
        (rule, f"{{workload: mpi, {text}}}", where)
        for rule, text, where in [
            ("reserved-env", 'env: {OMPI_COMM_WORLD_RANK: "1"}', "env.OMPI_COMM_WORLD_RANK"),
            (
                "reserved-env",
                'mpi: {launcher: {env: {K_MPI_JOB_ROLE: "1"}}}',
                "mpi.launcher.env.K_MPI_JOB_ROLE",
            ),
            (
                "pod-template",
                "mpi: {worker: {podTemplate: {spec: {hostname: x}}}}",
                "mpi.worker.podTemplate.spec.hostname",
            ),
            *(
                ("mount-paths", f"storage: {{datasets: {{size: 1Gi, mountPath: {path}}}}}", place)
                for place in ["storage.datasets.mountPath"]
                for path in ("/etc/mpi", "/etc/allranks-ssh/x")
            ),
            ("gpus-divide", "gpus: 4, gpusPerNode: 8", "gpus"),
            (
                "gpus-divide",
                "gpus: 3, gpusPerNode: 2, mpi: {elastic: {minNodes: 1, maxNodes: 9}}",
                "gpus",
            ),
            ("gpus-agree", "gpus: 12, gpusPerNode: 8, nodes: 3", "gpus"),
            ("gpus-agree", "gpus: 12, gpusPerNode: 8, mpi: {numWorkers: 1}", "gpus"),
            ("elastic-range", "mpi: {elastic: {minNodes: 2}}", "mpi.elastic.maxNodes"),
            ("mpi-workers", "nodes: 2, mpi: {numWorkers: 3}", "mpi.numWorkers"),
            (
                "mpi-workers",
                "nodes: 2, mpi: {numWorkers: 2, runLauncherAsWorker: true}",
                "mpi.numWorkers",
            ),
            ("mpi-slots", "procsPerNode: 2, mpi: {slotsPerWorker: 4}", "mpi.slotsPerWorker"),
            ("mpi-slots", "gpusPerNode: 8, mpi: {slotsPerWorker: 4}", "mpi.slotsPerWorker"),
            ("mpi-np", "nodes: 2, procsPerNode: 2, mpi: {np: 5}", "mpi.np"),
            ("mpi-np", "gpus: 12, gpusPerNode: 8, mpi: {np: 13}", "mpi.np"),
            (
                "mpi-launcher-gpus",
                "mpi: {launcher: {resources: {limits: {nvidia.com/gpu: 1}}}}",
                'mpi.launcher.resources.limits["nvidia.com/gpu"]',
            ),
            (
                "own-units",
                "mpi: {launcher: {resources: {limits: {memory: 500k}}}}",
                "mpi.launcher.resources.limits.memory",
            ),
            (
                "mpi-program",
                "command: [/usr/bin/mpirun, ./a.out], mpi: {mpirunArgs: [-x, A]}",
                "mpi.mpirunArgs",
            ),
            ("mpi-program", "mpi: {elastic: {minNodes: 1, maxNodes: 2}}", "mpi.elastic"),
            (
                "mpi-program",
                "command: [bash, -c, mpirun x], mpi: {mpirunArgs: [-x, A], ownMpirun: true}",
                "mpi.mpirunArgs",
            ),
            ("mpi-fatal", "runPolicy: {fatalExitCodes: [3, 214]}", "runPolicy.fatalExitCodes[1]"),
            ("mpi-transport", "mpi: {transport: exec, controller: Job}", "mpi.controller"),
            (
                "mpi-transport",
                "mpi: {transport: exec, ssh: {existingSecret: x}}",
                "mpi.ssh.existingSecret",
            ),
            ("mpi-transport", "mpi: {ssh: {port: 22}}", "mpi.ssh.port"),
            ("mpi-hostfile", "nodes: 60000", "nodes"),
            ("mpi-hostfile", "mpi: {numWorkers: 60000}", "mpi.numWorkers"),
            ("mpi-hostfile", f"nodes: 30000, setup: {'x' * 200000}", "nodes"),
        ]
    ),
]

ACCEPTED = [
    "storage: {datasets: {size: 1Gi, azureFile: {protocol: nfs, skuName: Premium_LRS}}}",
    "storage: {datasets: {azureFile: {shareName: mnist, secretName: azure}}}",
    "workspace: {via: image, registry: registry.example.com/team/code}",
    (
        "workspace: {via: image, snapshot: {digest: x, archiveDigest: x, compression: xz, "
        "via: image, image: x}}"
    ),
    (
        "{workspace: {snapshot: {digest: x, archiveDigest: x, compression: xz, via: pvc, claim: x, "
        "path: y}}, storage: {datasets: {existingClaim: x, mountPath: /app/data}}}"
    ),
    "{workspace: {mountPath: /data}, storage: {datasets: {existingClaim: x, mountPath: /data}}}",
    (
        "{workspace: {via: pvc, claim: x}, storage: {datasets: {existingClaim: x, "
        "accessModes: [ReadWriteOnce]}}}"
    ),
    'annotations: {helm.sh/resource-policy: keep, helm.shop/x: "y"}',
    "{command: [], script: x}",
    f"setup: {'x' * 786432}",
    "{command: [train], torchrun: {module: true}}",
    'env: {RANKS: "1", PETS: "2", allranks_x: "3"}',
    "gpusPerNode: 8",
    "{gpus: 16, gpusPerNode: 8, nodes: 2, nodeShape: {gpus: 8}, procsPerNode: 8}",
    "{gpus: 16, gpusPerNode: 8, torchrun: {elastic: {minNodes: 2, maxNodes: 4}}}",
    "{gpus: 8, nodeShape: {gpus: 8, cpu: 96}, resources: {perGpu: {cpu: 12}}}",
    "{nodes: 1, storage: {datasets: {size: 1Gi, accessModes: [ReadWriteOnce]}}}",
    "{nodes: 2, storage: {datasets: {existingClaim: x, accessModes: [ReadWriteOnce]}}}",
    "storage: {datasets: {size: 1Gi, mountPath: /device}, workspace: {size: 1Gi, mountPath: /d}}",
    "{queue: x, scheduling: {dialect: kueue, schedulerName: default-scheduler}}",
    "scheduling: {dialect: coscheduling, schedulerName: my-scheduler, gangTimeoutSeconds: 5}",
    "scheduling: {avoidNodes: [b1], nodeSelector: {kubernetes.io/hostname: b2}}",
    "scheduling: {avoidNodes: [b1], nodeSelector: {pool: b1}}",
    "network: {dnsPolicy: Default}",
    "{network: {hostNetwork: true}, torchrun: {port: 80}, security: {restricted: false}}",
    "security: {restricted: false, podSecurityContext: {runAsUser: 0}}",
    "podTemplate: {spec: {containers: [{name: other, command: [x], env: [{name: RANK}]}]}}",
    "torchrun: {elastic: {minNodes: 2, maxNodes: 2}}",
    *(
        f"{{workload: mpi, {text}}}"
        for text in [
            "gpus: 12, gpusPerNode: 8, mpi: {np: 12, numWorkers: 2}",
            "gpus: 16, gpusPerNode: 8, mpi: {numWorkers: 1, runLauncherAsWorker: true}",
            "gpus: 8, gpusPerNode: 8, procsPerNode: 4, mpi: {slotsPerWorker: 4, np: 4}",
            "nodes: 3, mpi: {slotsPerWorker: 4, np: 12}",
            "command: [horovodrun, x], mpi: {elastic: {minNodes: 1, maxNodes: 4}, np: 4}",
            'env: {MASTER_PORT: "29500", OMPI_MCA_btl: tcp, I_MPI_DEBUG: "5", RANK: "0"}',
            "mpi: {transport: exec, controller: StatefulSet, ssh: {port: 22}}",
            "security: {restricted: false}, mpi: {ssh: {port: 22}}",
            "script: x, command: [], mpi: {mpirunArgs: [-x, A]}",
            "command: [bash, -c, mpirun x], mpi: {ownMpirun: true}",
            "command: [sh, x], mpi: {ownMpirun: true, elastic: {minNodes: 1, maxNodes: 2}}",
            "nodes: 25000",
        ]
    ),
]


def values(text: str) -> dict[str, Any]:
    """A complete set of values with a piece of YAML over it; torchrun's where it names no other."""
    data = load(text, "v.yaml").data
    return merge(defaults(data.get("workload", "torchrun")), overlay(BASE, data))


@pytest.mark.parametrize(("rule", "text", "path"), REFUSED)
def test_a_rule_refuses_what_breaks_it(rule: str, text: str, path: str) -> None:
    """The rule itself says so, at the path that a person would change, with a fix."""
    check_rule = RULES[rule]
    findings = list(check_rule.find(View(values(text), check_rule.reads)))
    assert path in [check.paths.show(finding.path) for finding in findings]
    assert all(finding.message and finding.hint for finding in findings)


@pytest.mark.parametrize("text", ACCEPTED)
def test_what_is_near_a_rule_s_edge_is_accepted(text: str) -> None:
    """No rule refuses more than its sentence says."""
    assert [] == check.check(values(text), lambda _: "")


def test_every_rule_has_a_case() -> None:
    """A new rule comes with values that it refuses."""
    elsewhere = {"release-name", "release-length", "namespace"}
    # Those of elastic jobs alone have their cases in test_check_elastic.py.
    elsewhere |= {rule.id for rule in RULES.values() if rule.workload == "elastic"}
    warned = {rule.id for rule in RULES.values() if rule.warning}
    assert set(RULES) == {rule for rule, _, _ in REFUSED} | elsewhere | warned


def test_the_defaults_lack_a_program_and_an_image_only() -> None:
    """What the chart ships with asks nothing else of a user."""
    problems = check.check(defaults("torchrun"), lambda _: "")
    assert ["image.repository", "command"] == [problem.path for problem in problems]
    local = check.find_problems(defaults("torchrun"), lambda _: "", is_local=True)
    assert [("command",)] == [place for place, _ in local]


@pytest.mark.parametrize(
    ("release", "controller", "words", "hint"),
    [
        ("Digits", "Job", "no name for a Service", "name it digits"),
        ("3d-train", "Job", "a letter first", "name it job-3d-train"),
        ("my_run.v2", "Job", "no name for a Service", "name it my-run-v2"),
        ("run-", "Job", "no name for a Service", "name it run"),
        ("é", "Job", "no name for a Service", "name it job"),
        ("a" * 54, "Job", "54 characters long; at most 53", f"name it {'a' * 53}"),
        ("a" * 53, "StatefulSet", "at most 52 are allowed with a StatefulSet", "name it aaa"),
    ],
)
def test_a_release_name_is_refused_with_the_nearest(
    release: str, controller: str, words: str, hint: str
) -> None:
    """A name that no Service could have is refused, and the nearest that could is given."""
    given_values = values(f"torchrun: {{controller: {controller}}}")
    (problem,) = check.check(given_values, lambda _: "", release)
    assert words in problem.message
    assert problem.hint.startswith(hint)


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("{}", 52),
        ("{nodes: 100}", 52),
        ("{nodes: 1000}", 52),
        ("{nodes: 1001}", 51),
        ("{gpus: 12, gpusPerNode: 8}", 49),
        ("{mpi: {transport: exec}}", 45),
        ("{gpus: 12, gpusPerNode: 8, mpi: {controller: StatefulSet}}", 40),
    ],
)
def test_mpi_names_leave_room_for_the_hosts(text: str, limit: int) -> None:
    """The longest host name of the job, and a StatefulSet's label, have at most 63 characters."""
    given_values = values(f"{{workload: mpi, {text[1:]}")
    assert [] == check.check(given_values, lambda _: "", "a" * limit)
    (problem,) = check.check(given_values, lambda _: "", "a" * (limit + 1))
    assert f"at most {limit} are allowed" in problem.message


def test_a_namespace_is_checked() -> None:
    """A namespace that cannot exist is refused before anything is sent."""
    (problem,) = check.check(values("{}"), lambda _: "", "run", "My_Team")
    assert "name it my-team" == problem.hint
    assert [] == check.check(values("{}"), lambda _: "", "run", "0-team")


@given(st.text(max_size=80))
def test_the_nearest_name_is_a_name(text: str) -> None:
    """Whatever was typed, the suggestion itself is accepted."""
    name = check_names.nearest_name(text, 52)
    assert [] == check.check(values("torchrun: {controller: StatefulSet}"), lambda _: "", name)


def test_a_refused_value_silences_only_the_rules_that_read_it() -> None:
    """What the schema refused trips no rule, and every other rule still speaks."""
    broken = values("{queue: x, shm: {sizePerGpu: 1Gi}}") | {"gpus": "many"}
    problems = check.check(broken, lambda _: "", unreadable=[("gpus",)])
    assert ["queue"] == [problem.path for problem in problems]


def test_a_missing_map_silences_the_rules_inside_it() -> None:
    """A path above what a rule reads counts as refused too."""
    given_values = values("queue: x")
    del given_values["torchrun"]
    problems = check.check(given_values, lambda _: "", unreadable=[("torchrun",)])
    assert ["queue"] == [problem.path for problem in problems]


def test_a_rule_cannot_read_what_it_does_not_declare() -> None:
    """`reads` is the truth, not a comment."""
    with pytest.raises(KeyError, match="without declaring it"):
        View(values("{}"), ("torchrun.port",))["torchrun"]


@pytest.mark.parametrize(
    ("volume", "settings", "warned"),
    [
        ("workspace", "azureFile: {protocol: smb}", True),
        ("workspace", "azureBlob: {protocol: fuse2}", True),
        ("workspace", "azureFile: {protocol: nfs}", False),
        ("datasets", "azureFile: {protocol: smb}", False),
        ("checkpoints", "azureBlob: {protocol: fuse2}", False),
    ],
)
def test_code_where_links_and_permissions_are_lost(
    volume: str, settings: str, *, warned: bool
) -> None:
    """Is warned of: data sets and checkpoints are fine on SMB and blobfuse."""
    volumes = values(f"storage: {{{volume}: {{size: 1Gi, {settings}}}}}")
    paths = [problem.path for problem in check.warnings(volumes, lambda _: "")]
    key = settings.partition(":")[0]
    assert paths == [f"storage.{volume}.{key}.protocol"] * warned


def test_a_warning_stops_nothing() -> None:
    """etcd-v2 and one address for all nodes are worth a word, and no problem."""
    old = values('torchrun: {rdzvBackend: etcd-v2, rdzvEndpoint: "etcd:2379"}')
    assert [] == check.check(old, lambda _: "")
    assert ["torchrun.rdzvBackend"] == [p.path for p in check.warnings(old, lambda _: "")]
    same = values("{nodes: 2, torchrun: {localAddr: 10.0.0.1}}")
    assert ["torchrun.localAddr"] == [p.path for p in check.warnings(same, lambda _: "")]
    assert [] == check.warnings(values("{torchrun: {localAddr: 10.0.0.1}}"), lambda _: "")
    assert [] == check.warnings(values("{}"), lambda _: "")


@pytest.mark.parametrize(
    ("policy", "path"),
    [
        ("{stallSeconds: 600, activeDeadlineSeconds: 600}", "runPolicy.stallSeconds"),
        ("{stallSeconds: 900, activeDeadlineSeconds: 600}", "runPolicy.stallSeconds"),
        ("{stallSeconds: 599, activeDeadlineSeconds: 600}", None),
        ("{stallSeconds: 900}", None),
        ("{activeDeadlineSeconds: 600}", None),
        ("{stallSeconds: 900, onStall: end, diagnose: false}", "runPolicy.onStall"),
        ("{stallSeconds: 900, onStall: end}", None),
        ("{stallSeconds: 900, diagnose: false}", None),
        ("{diagnose: false}", None),
    ],
)
@pytest.mark.parametrize("workload", ["torchrun", "mpi"])
def test_a_stall_that_nobody_will_see_is_worth_a_word(
    workload: str, policy: str, path: str | None
) -> None:
    """One that comes after the job's own deadline, and an end of ranks that nobody can ask."""
    given_values = values(f"{{workload: {workload}, runPolicy: {policy}}}")
    assert [] == check.check(given_values, lambda _: "")
    warnings = check.warnings(given_values, lambda _: "")
    assert [path] * (path is not None) == [problem.path for problem in warnings]


@pytest.mark.parametrize(
    ("variable", "warned"),
    [
        ("PASSWORD: hunter2", True),
        ("DB_PASSWD: hunter2", True),
        ("WANDB_API_KEY: x1", True),
        ("apiKey: x1", True),
        ("HF_TOKEN: x1", True),
        ("CLIENT_SECRET: x1", True),
        ("PASSWORD: {valueFrom: {secretKeyRef: {name: a, key: b}}}", False),
        ("HF_TOKEN: ''", False),
        ("HF_TOKEN_PATH: x", False),
        ("TOKEN: /run/token", False),
        ("EOS_TOKEN: </s>", False),
        ("TOKENIZERS_PARALLELISM: 'true'", False),
        ("MAX_TOKENS: '8'", False),
        ("MONKEY: x", False),
        ("USE_TOKEN: 'true'", False),
    ],
)
def test_a_secret_in_the_environment_is_worth_a_word(variable: str, *, warned: bool) -> None:
    """By its name, and not on this machine, where nobody else reads it; it stops nothing."""
    given_values = values(f"env: {{{variable}}}")
    name = variable.partition(":")[0]
    assert [] == check.check(given_values, lambda _: "")
    paths = [problem.path for problem in check.warnings(given_values, lambda _: "")]
    assert [f"env.{name}"] * warned == paths
    assert [] == check.warnings(given_values, lambda _: "", is_local=True)


DISCOVERED = (
    "command: [horovodrun], args: [--host-discovery-script=x], "
    "mpi: {elastic: {minNodes: 1, maxNodes: 2}}"
)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (
            "network: {hostNetwork: true}, security: {restricted: false}, mpi: {ssh: {port: 22}}",
            "mpi.ssh.port",
        ),
        ("security: {restricted: false}, mpi: {ssh: {port: 22}}", None),
        ("network: {hostNetwork: true}", None),
        (
            "runPolicy: {fatalExitCodes: [3]}, mpi: {implementation: Intel}",
            "runPolicy.fatalExitCodes",
        ),
        ("runPolicy: {fatalExitCodes: [255]}, mpi: {implementation: Intel}", None),
        ("runPolicy: {fatalExitCodes: [3]}", None),
        ("command: [horovodrun, x], mpi: {elastic: {minNodes: 1, maxNodes: 2}}", "command"),
        (DISCOVERED, None),
        ("command: [horovodrun, x]", None),
    ],
)
def test_mpi_has_words_of_advice(text: str, path: str | None) -> None:
    """What works on most machines, or not as it was meant, is a note and stops nothing."""
    given_values = values(f"{{workload: mpi, {text}}}")
    assert [] == check.check(given_values, lambda _: "")
    warnings = check.warnings(given_values, lambda _: "")
    assert [path] * (path is not None) == [problem.path for problem in warnings]


@given(
    st.integers(1, 3000),
    st.sampled_from(["OpenMPI", "MPICH"]),
    st.integers(1, 300),
)
def test_the_host_file_s_size_is_counted_right(count: int, implementation: str, slots: int) -> None:
    """As long as the file that the chart writes."""
    mark = " slots=" if implementation == "OpenMPI" else ":"
    lines = [f"run-worker-{index}.run.ml.svc{mark}{slots}\n" for index in range(count)]
    values = {"workload": "mpi", "mpi": {"implementation": implementation}}
    view = View(values, ("mpi",), release="run", namespace="ml")
    assert len("".join(lines)) == check_mpi.host_bytes(view, count, slots)


TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=30)


@settings(max_examples=50)
@given(TEXT, st.lists(TEXT, max_size=3), st.dictionaries(st.from_regex(r"\AX[A-Z]{0,5}\Z"), TEXT))
def test_any_text_is_data(setup: str, args: list[str], env: dict[str, str]) -> None:
    """Shell metacharacters, quotes, braces, newlines: no rule looks inside a user's text."""
    given_values = merge(defaults("torchrun"), {**BASE, "setup": setup, "args": args, "env": env})
    assert [] == check.check(given_values, lambda _: "")
