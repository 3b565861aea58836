"""What a container's environment and argv are made of."""

from __future__ import annotations

import os
import socket
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from allranks.errors import InputError
from allranks.local.host.addresses import Block
from allranks.local.plan.addresses import by_pod
from allranks.local.plan.expand import expand
from allranks.local.plan.rewrite import Rewriter, release_names
from allranks.local.pod.env import (
    PlacedPod,
    Surroundings,
    Variable,
    argv,
    environment,
    field_value,
    resource_value,
    search_path,
    variables,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from conftest import Manifests


class Scene:
    """One container of rank 1 of a release, and what it sees."""

    def __init__(
        self,
        manifests: Manifests,
        *documents: dict[str, Any],
        inherited: Mapping[str, str] | None = None,
        pod: Mapping[str, Any] | None = None,
        **container: Any,
    ) -> None:
        """Build the release around the container."""
        spec = {**(pod or {}), "containers": [manifests.container(**container)]}
        job = manifests.job("train", 2, pod=spec, labels={"team": "blue"})
        self.release = expand([job, *documents], name="train", namespace="lab")
        self.addresses = by_pod(self.release, Block(0, 1))
        self.surroundings = Surroundings(self.release, self.addresses, inherited or {})
        plan = self.release.pods[1]
        self.pod = PlacedPod(plan, "uid-1", self.addresses["train-1"])
        self.container = plan.containers[0]
        self.rewriter = Rewriter(release_names(self.release, self.addresses), {"/data": "/s"})

    def variables(self) -> dict[str, Variable]:
        """The variables that the manifests give."""
        return variables(self.surroundings, self.pod, self.container)

    def environment(self) -> dict[str, str]:
        """The whole environment."""
        return environment(self.surroundings, self.pod, self.variables(), self.rewriter)

    def argv(self) -> tuple[str, ...]:
        """The argv."""
        return argv(self.container, self.variables(), self.rewriter)


def _env(*pairs: tuple[str, Any]) -> list[dict[str, Any]]:
    return [
        {"name": name, "value": value}
        if isinstance(value, str)
        else {"name": name, "valueFrom": value}
        for name, value in pairs
    ]


def test_values_refer_upwards_only(manifests: Manifests) -> None:
    """A value may refer to what stands above it; below it, the reference stays as typed."""
    env = _env(("A", "1"), ("B", "$(A)$(C)"), ("C", "3"), ("D", "$$(A)"))
    variables = Scene(manifests, env=env).variables()
    assert ["1", "1$(C)", "3", "$(A)"] == [variables[name].value for name in "ABCD"]


def test_the_last_of_one_name_wins(manifests: Manifests) -> None:
    """A name that is given twice has its last value, which may refer to the first."""
    variables = Scene(manifests, env=_env(("A", "1"), ("A", "$(A)2"))).variables()
    assert variables["A"].value == "12"


def test_env_from_comes_first_and_can_be_referred_to(manifests: Manifests) -> None:
    """`env` replaces what `envFrom` gave and may refer to it."""
    scene = Scene(
        manifests,
        manifests.data("ConfigMap", "c", data={"A": "map", "B": "map"}),
        manifests.data("Secret", "s", stringData={"B": "secret"}),
        envFrom=[
            {"configMapRef": {"name": "c"}},
            {"secretRef": {"name": "s"}},
            {"secretRef": {"name": "s"}, "prefix": "P_"},
            {"configMapRef": {"name": "none", "optional": True}},
        ],
        env=_env(("A", "own $(B)")),
    )
    variables = scene.variables()
    expected = {"A": "own secret", "B": "secret", "P_B": "secret"}
    assert expected == {name: variables[name].value for name in expected}


def test_value_from_every_source(manifests: Manifests) -> None:
    """Keys of ConfigMaps and Secrets, fields and resources give their values."""
    scene = Scene(
        manifests,
        manifests.data("ConfigMap", "c", data={"k": "map"}),
        manifests.data("Secret", "s", stringData={"k": "secret"}),
        resources={"limits": {"cpu": "1500m", "memory": "2Gi"}},
        env=_env(
            ("MAP", {"configMapKeyRef": {"name": "c", "key": "k"}}),
            ("SEALED", {"secretKeyRef": {"name": "s", "key": "k"}}),
            ("NAME", {"fieldRef": {"fieldPath": "metadata.name"}}),
            ("CPU", {"resourceFieldRef": {"resource": "limits.cpu"}}),
            ("MIB", {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}),
            ("GONE", {"secretKeyRef": {"name": "s", "key": "x", "optional": True}}),
        ),
    )
    values = {name: variable.value for name, variable in scene.variables().items()}
    expected = {"MAP": "map", "SEALED": "secret", "NAME": "train-1", "CPU": "2", "MIB": "2048"}
    assert expected == {name: values[name] for name in expected}
    assert "GONE" not in values


def test_a_missing_secret_may_come_from_the_shell(manifests: Manifests) -> None:
    """A Secret that only the cluster has is given by a variable of the same name."""
    env = _env(("HUB", {"secretKeyRef": {"name": "hub", "key": "token"}}))
    scene = Scene(manifests, env=env, inherited={"HUB": "from-shell"})
    assert scene.environment()["HUB"] == "from-shell"
    with pytest.raises(InputError, match="export HUB"):
        Scene(manifests, env=env).variables()


def test_what_is_withheld_is_for_who_names_it(manifests: Manifests) -> None:
    """A container whose manifest gives the variable, or asks the shell for it, has it all the same.

    So has its argv, as a Secret's key would be referred to.
    """
    key = {"secretKeyRef": {"name": "hub", "key": "token"}}
    shell = {"PGPASSWORD": "of the sweep", "PGHOST": "h"}
    for env, expected in (
        ([], None),
        (_env(("PGPASSWORD", "own")), "own"),
        (_env(("PGPASSWORD", key)), "of the sweep"),
        (
            _env(("PGPASSWORD", {"secretKeyRef": {**key["secretKeyRef"], "optional": True}})),
            "of the sweep",
        ),
    ):
        scene = Scene(manifests, env=env, inherited=shell, args=["$(PGPASSWORD)"])
        scene.surroundings = replace(scene.surroundings, withheld=frozenset({"PGPASSWORD"}))
        assert expected == scene.environment().get("PGPASSWORD")
        assert "h" == scene.environment()["PGHOST"]
        assert (expected or "$(PGPASSWORD)") == scene.argv()[-1]


def test_a_missing_env_from_is_refused(manifests: Manifests) -> None:
    """A whole Secret that is not there is named, with the way out."""
    with pytest.raises(InputError, match="mark it optional"):
        Scene(manifests, envFrom=[{"secretRef": {"name": "hub"}}]).variables()


def test_only_spelled_out_text_is_rewritten(manifests: Manifests) -> None:
    """Names and paths are replaced in literals and ConfigMaps, not in fields or Secrets."""
    scene = Scene(
        manifests,
        manifests.data("ConfigMap", "c", data={"k": "train-0:1"}),
        manifests.data("Secret", "s", stringData={"k": "train-0 /data"}),
        env=_env(
            ("ADDR", "train-0.train"),
            ("DIR", "/data/x"),
            ("MAP", {"configMapKeyRef": {"name": "c", "key": "k"}}),
            ("SEALED", {"secretKeyRef": {"name": "s", "key": "k"}}),
            ("ME", {"fieldRef": {"fieldPath": "metadata.name"}}),
            ("ME_ADDR", "$(ME).train:5"),
        ),
    )
    zero, second = scene.addresses["train-0"], scene.addresses["train-1"]
    env = scene.environment()
    assert (zero, "/s/x", f"{zero}:1") == (env["ADDR"], env["DIR"], env["MAP"])
    assert env["SEALED"] == "train-0 /data"
    assert ("train-1", f"{second}:5") == (env["ME"], env["ME_ADDR"])


def test_command_and_args_refer_to_all_variables(manifests: Manifests) -> None:
    """Args may refer to any variable, JOB_COMPLETION_INDEX included, and arrive as typed else."""
    scene = Scene(
        manifests,
        env=_env(("LR", "1e-5")),
        command=["run", "$(LR)"],
        args=["--rank=$(JOB_COMPLETION_INDEX)", "$$(LR)", "a b\nc;'\"", "--in=/data/x", "train-0"],
    )
    expected = (
        *("run", "1e-5", "--rank=1", "$(LR)", "a b\nc;'\""),
        *("--in=/s/x", scene.addresses["train-0"]),
    )
    assert expected == scene.argv()


def test_services_with_an_address_have_variables(manifests: Manifests) -> None:
    """A ClusterIP Service gives _SERVICE_HOST and _PORT, a headless one does not."""
    scene = Scene(
        manifests,
        manifests.service("train-master", clusterIP=""),
        manifests.service("train"),
        env=_env(("URL", "http://$(TRAIN_MASTER_SERVICE_HOST)")),
    )
    zero = scene.addresses["train-0"]
    env = scene.environment()
    assert (zero, "29500") == (
        env["TRAIN_MASTER_SERVICE_HOST"],
        env["TRAIN_MASTER_SERVICE_PORT"],
    )
    assert env["TRAIN_MASTER_SERVICE_PORT_RDZV"] == "29500"
    assert f"http://{zero}" == env["URL"]
    assert "TRAIN_SERVICE_HOST" not in env


def test_the_shell_is_inherited_without_another_jobs_ranks(manifests: Manifests) -> None:
    """The caller's variables are there, except those that describe a distributed job."""
    inherited = {
        "HOME": "/home/me",
        "RANK": "3",
        "PET_NNODES": "9",
        "MASTER_ADDR": "elsewhere",
        "ALLRANKS_STATE": "/x",
        "GLOO_SOCKET_IFNAME": "eth0",
    }
    env = Scene(manifests, inherited=inherited).environment()
    assert env["HOME"] == "/home/me"
    assert not {"RANK", "PET_NNODES", "MASTER_ADDR", "ALLRANKS_STATE"} & set(env)
    assert env["HOSTNAME"] == "train-1"


def test_gpus_are_the_pods_share(manifests: Manifests) -> None:
    """A pod's share replaces what the shell was limited to, and a manifest's own choice wins."""
    limited = {"CUDA_VISIBLE_DEVICES": "0,1,2,3"}
    own = Scene(manifests, inherited=limited, env=_env(("CUDA_VISIBLE_DEVICES", "7")))
    plain = Scene(manifests, inherited=limited)

    def visible_devices(scene: Scene, gpus: str | None) -> str:
        variables = scene.variables()
        env = environment(scene.surroundings, scene.pod, variables, scene.rewriter, gpus)
        return env["CUDA_VISIBLE_DEVICES"]

    assert ("2,3", "", "0,1,2,3") == (
        visible_devices(plain, "2,3"),
        visible_devices(plain, ""),
        visible_devices(plain, None),
    )
    assert visible_devices(own, "2,3") == "7"


def test_network_defaults_yield_to_the_user(manifests: Manifests) -> None:
    """Collectives use the loopback interface, and output is unbuffered, unless the user says so."""
    defaults = Scene(manifests).environment()
    names = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "TP_SOCKET_IFNAME", "PYTHONUNBUFFERED")
    assert ["lo", "lo", "lo", "1"] == [defaults[name] for name in names]
    own = Scene(manifests, env=_env(("GLOO_SOCKET_IFNAME", "eth1"), ("PYTHONUNBUFFERED", "")))
    assert own.environment()["GLOO_SOCKET_IFNAME"] == "eth1"
    assert own.environment()["PYTHONUNBUFFERED"] == ""


def test_the_running_pythons_programs_come_first() -> None:
    """`python` and `torchrun` are those beside the interpreter that runs this."""
    own = str(Path(sys.executable).parent)
    assert f"{own}{os.pathsep}/usr/bin" == search_path("/usr/bin")
    assert search_path("").startswith(own)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("metadata.name", "train-1"),
        ("metadata.namespace", "lab"),
        ("metadata.uid", "uid-1"),
        ("metadata.labels['team']", "blue"),
        ("metadata.labels['none']", ""),
        ("metadata.annotations['batch.kubernetes.io/job-completion-index']", "1"),
        ("spec.serviceAccountName", "default"),
        ("spec.nodeName", socket.gethostname()),
        ("status.podIP", "127.64.0.2"),
        ("status.podIPs", "127.64.0.2"),
        ("status.hostIP", "127.0.0.1"),
    ],
)
def test_fields(manifests: Manifests, path: str, expected: str) -> None:
    """Each field of the downward API gives what this machine has for it."""
    assert expected == field_value(Scene(manifests).pod, path)


def test_listed_labels_are_sorted_and_quoted(manifests: Manifests) -> None:
    """Labels as a file have one line each, quoted as the kubelet quotes them."""
    lines = field_value(Scene(manifests).pod, "metadata.labels").splitlines()
    assert sorted(lines) == lines
    assert 'team="blue"' in lines


def test_an_unknown_field_is_refused(manifests: Manifests) -> None:
    """The refusal lists the fields there are."""
    with pytest.raises(InputError, match=r"status\.podIP"):
        field_value(Scene(manifests).pod, "status.phase")


@pytest.mark.parametrize(
    ("resources", "resource", "expected"),
    [
        ({"requests": {"cpu": "250m"}}, "requests.cpu", "1"),
        ({"limits": {"cpu": "3"}}, "requests.cpu", "3"),
        ({}, "requests.cpu", "0"),
        ({}, "limits.cpu", str(os.cpu_count())),
        ({"limits": {"nvidia.com/gpu": 4}}, "limits.nvidia.com/gpu", "4"),
    ],
)
def test_resources(
    manifests: Manifests, resources: dict[str, Any], resource: str, expected: str
) -> None:
    """Amounts are rounded up; an unset request is the limit, an unset limit the machine's."""
    scene = Scene(manifests, resources=resources)
    assert expected == resource_value(scene.pod.plan, {"resource": resource}, "trainer")
