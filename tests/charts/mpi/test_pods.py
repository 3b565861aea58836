"""The pods of each role: what they run, mount, ask for and are told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from allranks import names
from tests.charts.shared.rendered import templates, variables

if TYPE_CHECKING:
    from pathlib import Path

    from tests.charts.shared.rendered import Render

LAUNCHER, WORKER = "Job/demo-launcher", "Job/demo-worker"
FAILURES = f"metadata.annotations['{names.JOB_INDEX_FAILURE_COUNT}']"


def spec(manifests: dict[str, Any], name: str) -> dict[str, Any]:
    """The pod spec of a controller."""
    pod_spec: dict[str, Any] = manifests[name]["spec"]["template"]["spec"]
    return pod_spec


def trainer(manifests: dict[str, Any], name: str) -> dict[str, Any]:
    """The container of a controller's pods."""
    (container,) = spec(manifests, name)["containers"]
    assert container["name"] == "trainer"
    return dict(container)


def env(manifests: dict[str, Any], name: str) -> dict[str, Any]:
    """The variables of a controller's pods."""
    return variables(manifests[name]["spec"]["template"])


@pytest.mark.parametrize(
    ("values", "args", "wraps"),
    [
        ({"command": ["python", "a.py"], "args": ["-x"]}, ["0", "python", "a.py", "-x"], True),
        (
            {"mpi": {"mpirunArgs": ["--bind-to", "none"]}},
            ["2", "--bind-to", "none", "python", "train.py"],
            True,
        ),
        ({"script": "print(1)"}, ["0", "python3", "/etc/allranks/script"], True),
        ({"script": "#!/bin/sh\nid", "args": ["a"]}, ["0", "/etc/allranks/script", "a"], True),
        ({"command": ["mpirun", "-np", "1", "x"]}, ["0", "mpirun", "-np", "1", "x"], False),
        ({"command": ["/opt/bin/mpiexec.hydra", "x"]}, ["0", "/opt/bin/mpiexec.hydra", "x"], False),
        ({"command": ["horovodrun", "x"]}, ["0", "horovodrun", "x"], False),
        ({"command": ["mpirunner"]}, ["0", "mpirunner"], True),
        (
            {"command": ["sh", "-c", "mpirun x"], "mpi": {"ownMpirun": True}},
            ["0", "sh", "-c", "mpirun x"],
            False,
        ),
    ],
)
def test_command(values: dict[str, Any], args: list[str], wraps: bool, render: Render) -> None:
    """The entry is told how many words are for mpirun, and whether to put one in front at all."""
    manifests = render(**values)
    assert args == trainer(manifests, LAUNCHER)["args"]
    assert ("1" if wraps else None) == env(manifests, LAUNCHER).get(names.ENV_MPI_WRAP)
    assert "args" not in trainer(manifests, WORKER)
    for name in (LAUNCHER, WORKER):
        assert ["/bin/sh", "/etc/allranks/entry.sh"] == trainer(manifests, name)["command"]


def test_what_both_roles_are_told(render: Render) -> None:
    """Each pod knows its role, the transport, the hosts, the launcher, and when to give up."""
    manifests = render(
        mpi={"launcherLostSeconds": 90, "ssh": {"port": 2200}}, network={"waitSeconds": 7}
    )
    for role, name in (("launcher", LAUNCHER), ("worker", WORKER)):
        assert {
            "ALLRANKS_ROLE": role,
            "K_MPI_JOB_ROLE": role,
            "ALLRANKS_STATE": "/var/run/allranks",
            "ALLRANKS_RELEASE": "demo",
            "ALLRANKS_NAMESPACE": {"fieldRef": {"fieldPath": "metadata.namespace"}},
            "ALLRANKS_TERMINATION_LOG": "/dev/termination-log",
            "ALLRANKS_WAIT_SECONDS": "7",
            "ALLRANKS_MPI_TRANSPORT": "ssh",
            "ALLRANKS_MPI_IMPLEMENTATION": "OpenMPI",
            "ALLRANKS_MPI_PORT": "2200",
            "ALLRANKS_MPI_HOSTFILE": "/etc/mpi/hostfile",
            "ALLRANKS_MPI_LAUNCHER": "demo-launcher-0.demo.default.svc",
            "ALLRANKS_MPI_LOST_SECONDS": "90",
            "ALLRANKS_MPI_CLEAN": "Running",
            "ALLRANKS_MPI_CONTROLLER": "Job",
            "ALLRANKS_MPI_WAIT_FOR_PODS": "bounded",
        }.items() <= env(manifests, name).items()


def test_what_the_launcher_is_told(render: Render) -> None:
    """Only it knows the number of ranks, of hosts to wait for, and of tries that are left."""
    manifests = render(
        nodes=2, procsPerNode=2, runPolicy={"backoffLimit": 5, "fatalExitCodes": [9, 3]}
    )
    variables = env(manifests, LAUNCHER)
    assert {
        "ALLRANKS_MPI_NP": "4",
        "ALLRANKS_MPI_MIN_HOSTS": "2",
        "ALLRANKS_MPI_BACKOFF_LIMIT": "5",
        "ALLRANKS_MPI_FAILURES": {"fieldRef": {"fieldPath": FAILURES}},
        "ALLRANKS_FATAL_EXIT_CODES": "3,9",
        "ALLRANKS_MPI_WRAP": "1",
    }.items() <= variables.items()
    assert {*variables} - {*env(manifests, WORKER)} == {
        "ALLRANKS_MPI_NP",
        "ALLRANKS_MPI_MIN_HOSTS",
        "ALLRANKS_MPI_BACKOFF_LIMIT",
        "ALLRANKS_MPI_FAILURES",
        "ALLRANKS_FATAL_EXIT_CODES",
        "ALLRANKS_MPI_WRAP",
        "NVIDIA_VISIBLE_DEVICES",
    }


def test_hosts_in_a_queue_are_waited_for(render: Render) -> None:
    """Under a scheduler with queues a host that has no address yet is no error."""
    manifests = render(scheduling={"dialect": "volcano"})
    assert env(manifests, LAUNCHER)["ALLRANKS_MPI_WAIT_FOR_PODS"] == "scheduler"


_FAMILIES = {
    "OpenMPI": {
        "OMPI_MCA_plm_rsh_agent": "/etc/allranks/rsh.sh",
        "PRTE_MCA_plm_ssh_agent": "/etc/allranks/rsh.sh",
        "OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile",
        "PRTE_MCA_prte_default_hostfile": "/etc/mpi/hostfile",
        "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
        "OMPI_MCA_orte_set_default_slots": "3",
        "PRTE_MCA_prte_set_default_slots": "3",
        "OMPI_MCA_plm_rsh_no_tree_spawn": "1",
        "OMPI_MCA_orte_leave_session_attached": "1",
        "PRTE_MCA_plm_ssh_no_tree_spawn": "1",
        "OMPI_MCA_plm_rsh_num_concurrent": "3",
        "PRTE_MCA_plm_ssh_num_concurrent": "3",
        "OMPI_MCA_hwloc_base_binding_policy": "none",
        "PRTE_MCA_hwloc_default_binding_policy": "none",
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    },
    "MPICH": {
        "HYDRA_LAUNCHER": "ssh",
        "HYDRA_LAUNCHER_EXEC": "/etc/allranks/rsh.sh",
        "HYDRA_HOST_FILE": "/etc/mpi/hostfile",
    },
    "Intel": {
        "I_MPI_HYDRA_BOOTSTRAP": "ssh",
        "I_MPI_HYDRA_BOOTSTRAP_EXEC": "/etc/allranks/rsh.sh",
        "I_MPI_HYDRA_HOST_FILE": "/etc/mpi/hostfile",
        "I_MPI_PERHOST": "3",
        "I_MPI_HYDRA_BRANCH_COUNT": "3",
        "I_MPI_PIN": "0",
    },
}


@pytest.mark.parametrize("implementation", _FAMILIES)
@pytest.mark.parametrize("transport", ["ssh", "exec"])
def test_each_mpi_has_its_own_variables(
    implementation: str, transport: str, render: Render
) -> None:
    """Agent, host file, and all daemons started at once, in the names that the MPI really reads."""
    manifests = render(
        nodes=2, procsPerNode=3, mpi={"implementation": implementation, "transport": transport}
    )
    for name in templates(manifests):
        family = {
            key: value
            for key, value in env(manifests, name).items()
            if key.startswith(("OMPI_", "PRTE_", "PMIX_", "HYDRA_", "I_MPI_"))
        }
        assert _FAMILIES[implementation] == family


def test_user_may_set_what_an_mpi_reads(render: Render) -> None:
    """A variable of the user's own stands instead of ours, once."""
    manifests = render(env={"OMPI_MCA_plm_rsh_agent": "/opt/agent", "NVIDIA_VISIBLE_DEVICES": "0"})
    for name in (LAUNCHER, WORKER):
        variables = [variable["name"] for variable in trainer(manifests, name)["env"]]
        assert len(set(variables)) == len(variables)
        assert env(manifests, name)["OMPI_MCA_plm_rsh_agent"] == "/opt/agent"
        assert env(manifests, name)["NVIDIA_VISIBLE_DEVICES"] == "0"


def test_variables_of_a_role(render: Render) -> None:
    """A role's own variable replaces the shared one, whatever kind of value either has."""
    field = {"valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}
    manifests = render(
        env={"A": "both", "B": "both", "C": field},
        mpi={"launcher": {"env": {"A": "launcher", "C": "$x"}}, "worker": {"env": {"B": field}}},
    )
    launcher, worker = env(manifests, LAUNCHER), env(manifests, WORKER)
    assert ("launcher", "both", "$$x") == (launcher["A"], launcher["B"], launcher["C"])
    assert ("both", field["valueFrom"]) == (worker["A"], worker["B"])


def test_launcher_without_ranks_has_no_gpus(render: Render) -> None:
    """It asks for what is its own, sees no GPU, and runs on any node."""
    resources = {"requests": {"cpu": "1"}, "limits": {"memory": "2Gi"}}
    manifests = render(
        gpus=8,
        gpuType={"value": "H100"},
        shm={"sizePerGpu": "1Gi"},
        resources={"perGpu": {"cpu": 2}},
        mpi={"launcher": {"resources": resources}},
    )
    assert resources == trainer(manifests, LAUNCHER)["resources"]
    assert env(manifests, LAUNCHER)["NVIDIA_VISIBLE_DEVICES"] == ""
    assert "nodeSelector" not in spec(manifests, LAUNCHER)
    assert "shm" not in {volume["name"] for volume in spec(manifests, LAUNCHER)["volumes"]}
    assert {"nvidia.com/gpu.product": "H100"} == spec(manifests, WORKER)["nodeSelector"]
    assert "NVIDIA_VISIBLE_DEVICES" not in env(manifests, WORKER)


def test_launcher_with_ranks_is_as_a_worker(render: Render) -> None:
    """It has the GPUs of a host; what is asked for it alone comes on top."""
    manifests = render(
        gpus=16,
        gpusPerNode=8,
        gpuType={"value": "H100"},
        shm={"sizePerGpu": "1Gi"},
        resources={"perGpu": {"cpu": 2}},
        mpi={"runLauncherAsWorker": True, "launcher": {"resources": {"requests": {"cpu": 20}}}},
    )
    resources = trainer(manifests, LAUNCHER)["resources"]
    assert {"cpu": "20", "nvidia.com/gpu": "8"} == resources["requests"]
    assert {"cpu": "16", "nvidia.com/gpu": "8"} == resources["limits"]
    assert spec(manifests, WORKER)["nodeSelector"] == spec(manifests, LAUNCHER)["nodeSelector"]
    assert "NVIDIA_VISIBLE_DEVICES" not in env(manifests, LAUNCHER)
    assert "shm" in {volume["name"] for volume in spec(manifests, LAUNCHER)["volumes"]}


def test_host_file_is_mounted_twice(render: Render) -> None:
    """Our files are in one folder; where MPI users look, host file and discovery script."""
    for template in templates(render(nodes=2)).values():
        mounts = {
            mount["name"]: mount["mountPath"]
            for mount in template["spec"]["containers"][0]["volumeMounts"]
        }
        assert {
            "entry": "/etc/allranks",
            "mpi": "/etc/mpi",
            "ssh": "/etc/allranks-ssh",
            "state": "/var/run/allranks",
        } == mounts
        volumes = {volume["name"]: volume for volume in template["spec"]["volumes"]}
        assert 0o555 == volumes["entry"]["configMap"]["defaultMode"]
        assert [("hostfile", 0o444), ("discover_hosts.sh", 0o555)] == [
            (item["path"], item["mode"]) for item in volumes["mpi"]["configMap"]["items"]
        ]
        assert {} == volumes["state"]["emptyDir"]


def test_sshd_is_where_it_is_needed(render: Render) -> None:
    """Workers listen, and are ready when they do; nobody logs in to the launcher."""
    manifests = render(nodes=2, mpi={"ssh": {"port": 2200}, "runLauncherAsWorker": True})
    assert [2200] == [port["containerPort"] for port in trainer(manifests, WORKER)["ports"]]
    assert {"port": 2200} == trainer(manifests, WORKER)["readinessProbe"]["tcpSocket"]
    assert not {"ports", "readinessProbe"} & set(trainer(manifests, LAUNCHER))
    without = render(mpi={"transport": "exec"})
    assert not {"ports", "readinessProbe"} & set(trainer(without, "StatefulSet/demo-worker"))


def test_pod_template_of_a_role_comes_last(render: Render) -> None:
    """A role's pod template is merged over the shared one, by Kubernetes' rules."""
    manifests = render(
        podTemplate={
            "spec": {
                "terminationGracePeriodSeconds": 60,
                "volumes": [{"name": "x", "emptyDir": {}}],
            }
        },
        mpi={
            "launcher": {"podTemplate": {"spec": {"terminationGracePeriodSeconds": 5}}},
            "worker": {
                "podTemplate": {"spec": {"volumes": [{"name": "x", "hostPath": {"path": "/x"}}]}}
            },
        },
    )
    assert 5 == spec(manifests, LAUNCHER)["terminationGracePeriodSeconds"]
    assert 60 == spec(manifests, WORKER)["terminationGracePeriodSeconds"]
    assert {"name": "x", "emptyDir": {}} in spec(manifests, LAUNCHER)["volumes"]
    assert {"name": "x", "hostPath": {"path": "/x"}} in spec(manifests, WORKER)["volumes"]


def test_ranks_have_the_grace_period_of_their_own_role(render: Render) -> None:
    """The scripts are told the time that their own pod has, whoever set it."""
    own = {"podTemplate": {"spec": {"terminationGracePeriodSeconds": 300}}}
    manifests = render(runPolicy={"terminationGracePeriodSeconds": 60}, mpi={"worker": own})
    assert ("300", "60") == tuple(
        env(manifests, name)["ALLRANKS_GRACE_SECONDS"] for name in (WORKER, LAUNCHER)
    )


def test_spread_is_by_role(render: Render) -> None:
    """A constraint without a selector is about the pods of the same role."""
    bare = {"maxSkew": 1, "topologyKey": "x", "whenUnsatisfiable": "DoNotSchedule"}
    manifests = render(gpus=12, gpusPerNode=8, scheduling={"topologySpreadConstraints": [bare]})
    for role, name in (
        ("launcher", LAUNCHER),
        ("worker", WORKER),
        ("worker", "Job/demo-worker-last"),
    ):
        (spread,) = spec(manifests, name)["topologySpreadConstraints"]
        assert {
            names.APP_NAME: "mpi",
            names.APP_INSTANCE: "demo",
            names.ROLE: role,
        } == spread["labelSelector"]["matchLabels"]


def test_render_is_deterministic_with_a_key_of_ones_own(mpi: Path, helm: Any) -> None:
    """Nothing is made by chance where the key exists: the same values render to the same bytes."""
    values = mpi / "ci/existing-secret-values.yaml"
    assert helm.render(mpi, "-f", values) == helm.render(mpi, "-f", values)
