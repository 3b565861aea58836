"""What the pods of an MPI job are given on one machine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from allranks import names
from allranks.local import mpi
from allranks.local.host import enter
from allranks.local.host.addresses import Block
from allranks.local.host.namespaces import IsolationMethod
from allranks.local.mpi import Arrangement, Machine, PodEntry
from allranks.local.plan.addresses import by_pod
from allranks.local.plan.expand import expand

if TYPE_CHECKING:
    from conftest import Manifests

    from allranks.local.plan.model import ReleasePlan

_ROOT = Machine(IsolationMethod.ROOT, sshd=True, addresses=True)
_USER = replace(_ROOT, way=IsolationMethod.USER)


def _release(manifests: Manifests, *objects: Any, **env: str) -> ReleasePlan:
    """A launcher and two workers; `env` is the launcher's."""
    variables = [{"name": f"ALLRANKS_MPI_{name}", "value": value} for name, value in env.items()]
    key = {"name": "key", "secret": {"secretName": "j-ssh"}}
    mount = {"name": "key", "mountPath": "/etc/allranks-ssh"}
    box = manifests.container(env=variables, volumeMounts=[mount])
    pod = {"subdomain": "j", "containers": [box], "volumes": [key]}
    roles = {"launcher": 1, "worker": 2}
    jobs = [
        manifests.job(f"j-{role}", nodes, pod=pod, labels={names.ROLE: role})
        for role, nodes in roles.items()
    ]
    return expand([*jobs, *objects], name="j", namespace="lab")


def _secret(manifests: Manifests) -> Any:
    return manifests.data("Secret", "j-ssh", stringData={"ssh-privatekey": "k"})


@pytest.mark.parametrize(
    ("transport", "machine", "expected", "note"),
    [
        ("ssh", _ROOT, (IsolationMethod.ROOT, False), ""),
        ("ssh", _USER, (IsolationMethod.USER, False), ""),
        ("ssh", replace(_ROOT, sshd=False), (IsolationMethod.ROOT, True), "no sshd"),
        # Into a user namespace of another pod no one but its parent may go.
        ("ssh", replace(_USER, sshd=False), (IsolationMethod.NONE, True), "no sshd"),
        ("exec", _ROOT, (IsolationMethod.ROOT, True), "mpi.transport exec needs the API"),
        ("exec", _USER, (IsolationMethod.NONE, True), "mpi.transport exec needs the API"),
        (
            "ssh",
            replace(_ROOT, way=IsolationMethod.NONE),
            (IsolationMethod.NONE, True),
            "no host name of its own",
        ),
        # As on macOS: all pods have 127.0.0.1.
        (
            "ssh",
            replace(_ROOT, addresses=False),
            (IsolationMethod.NONE, True),
            "no host name of its own",
        ),
    ],
)
def test_how_pods_see_each_other(
    manifests: Manifests,
    transport: str,
    machine: Machine,
    expected: tuple[IsolationMethod, bool],
    note: str,
) -> None:
    """Each pod has a host of its own and an sshd where it can be; the ranks start all the same."""
    arrangement = mpi.arrange(_release(manifests, _secret(manifests), TRANSPORT=transport), machine)
    assert expected == (arrangement.way, arrangement.direct)
    assert note in arrangement.note
    assert bool(note) == bool(arrangement.note)
    assert arrangement == Arrangement.from_dict(arrangement.as_dict())


def test_a_key_that_only_the_cluster_has(manifests: Manifests) -> None:
    """The ranks start without ssh, and an empty key stands where it would be mounted."""
    release = _release(manifests, TRANSPORT="ssh")
    arrangement = mpi.arrange(release, _ROOT)
    assert arrangement.direct
    assert "'j-ssh' is not on this machine" in arrangement.note
    assert {"j-ssh": {"ssh-privatekey": b""}} == mpi.complete(release, arrangement).secrets
    with_key = _release(manifests, _secret(manifests), TRANSPORT="exec")
    assert with_key.secrets == mpi.complete(with_key, arrangement).secrets


def test_another_workload_is_left_alone(manifests: Manifests) -> None:
    """A release without a launcher has this machine's host, and all its ports are looked at."""
    release = expand([manifests.job()], name="train", namespace="lab")
    assert Arrangement() == mpi.arrange(release, _ROOT)
    assert () == mpi.listening(release, {"train-0": "127.64.0.1"})
    assert not mpi.needs_mpirun(release)


def test_what_a_launcher_is_asked_about(manifests: Manifests) -> None:
    """Whether it puts mpirun before the command, and how long its workers may take to end."""
    release = _release(manifests, TRANSPORT="ssh", WRAP="1", CLEAN="Running")
    assert mpi.needs_mpirun(release)
    assert mpi.leave_seconds(release) > 0
    assert 0 == mpi.leave_seconds(_release(manifests, TRANSPORT="ssh", CLEAN="None"))
    addresses = by_pod(release, Block(0, 1))
    assert tuple(addresses.values()) == mpi.listening(release, addresses)


def test_pods_are_called_by_what_resolves(manifests: Manifests, tmp_path: Path) -> None:
    """With a host of its own a pod is called by its host name, which its /etc/hosts knows."""
    release = _release(manifests)
    addresses = by_pod(release, Block(0, 1))
    own = Arrangement(IsolationMethod.ROOT)
    assert addresses == mpi.names_in_text(release, addresses, Arrangement())
    assert {address: address for address in addresses} == mpi.names_in_text(release, addresses, own)
    assert Path("/etc/hosts") == mpi.write_hosts(tmp_path, release, addresses, Arrangement())
    text = mpi.write_hosts(tmp_path, release, addresses, own).read_text()
    assert text.startswith(Path("/etc/hosts").read_text().rstrip("\n"))
    line = f"{addresses['j-worker-1']} j-worker-1.j.lab.svc.cluster.local j-worker-1.j.lab.svc"
    assert f"{line} j-worker-1.j.lab j-worker-1.j j-worker-1\n" in text


def test_the_map_says_where_each_pod_is(tmp_path: Path) -> None:
    """One line per name: the name, the state folder, and what leads there before a command."""
    doors = [PodEntry(("a", "b"), "/s/0", 7, "u/trainer/0")]
    plain = mpi.Directory(tmp_path, Arrangement(direct=True))
    assert "" == (tmp_path / "map").read_text()
    plain.write(doors)
    assert "a\t/s/0\nb\t/s/0\n" == (tmp_path / "map").read_text()
    mpi.Directory(tmp_path, Arrangement(IsolationMethod.ROOT, direct=True)).write(doors)
    expected = f"a\t/s/0\t{tmp_path}/enter\t7\tu/trainer/0"
    assert expected == (tmp_path / "map").read_text().splitlines()[0]


def test_no_map_where_there_is_ssh(tmp_path: Path) -> None:
    """Nothing is written, and nothing is ordered."""
    mpi.Directory(tmp_path, Arrangement(IsolationMethod.ROOT)).write(
        [PodEntry(("a",), "/s", 7, "c")]
    )
    assert [] == list(tmp_path.iterdir())
    assert {} == mpi.orders(Arrangement(IsolationMethod.ROOT), tmp_path)
    ordered = mpi.orders(Arrangement(direct=True), tmp_path)
    assert {names.ENV_MPI_TRANSPORT: "local", names.ENV_MPI_LOCAL_MAP: f"{tmp_path}/map"} == ordered


def test_open_mpi_is_told_of_pods_that_share_a_host_name() -> None:
    """Only in a job of MPI: a local run of another workload keeps its environment."""
    shared = {"OMPI_MCA_btl", "OMPI_MCA_coll"}
    assert shared <= mpi.defaults(Arrangement(direct=True)).keys()
    for arrangement in (
        Arrangement(),
        Arrangement(IsolationMethod.USER),
        Arrangement(IsolationMethod.ROOT, direct=True),
    ):
        assert not shared & mpi.defaults(arrangement).keys()


def test_the_way_in_knows_the_mark() -> None:
    """The file that enters a pod stands alone, so its copy of the mark's name is held equal."""
    assert f"{names.ENV_CONTAINER_ID}=".encode() == enter._MARK
