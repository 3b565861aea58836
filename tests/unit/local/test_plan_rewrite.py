"""Where names and mount paths are replaced, and where the same letters stay."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allranks.local.host.addresses import Block
from allranks.local.plan.addresses import by_pod
from allranks.local.plan.expand import expand
from allranks.local.plan.rewrite import Names, Rewriter, release_names

if TYPE_CHECKING:
    from conftest import Manifests

_RANK0, _RANK1, _MASTER = "127.64.0.1", "127.64.0.2", "127.64.0.9"
_NAMES = Names(
    {"train-0": _RANK0, "train-0.train": _RANK0, "train-1": _RANK1, "train-master": _MASTER},
    {"train": _RANK0},
)
_PATHS = {
    "/data": "/s/data",
    "/data/raw": "/s/raw",
    "/etc/allranks": "/s/etc",
    "/dev/termination-log": "/s/term",
    "/dev/shm": "/s/shm",
}
_REWRITER = Rewriter(_NAMES, _PATHS)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("train-0", _RANK0),
        ("train-0:29500", f"{_RANK0}:29500"),
        ("train-0.train:29500", f"{_RANK0}:29500"),
        ("--master=train-0", f"--master={_RANK0}"),
        ("http://train-0/status", f"http://{_RANK0}/status"),
        ("tcp://train-0.train:29500/x", f"tcp://{_RANK0}:29500/x"),
        ("user@train-1", f"user@{_RANK1}"),
        ("train-0,train-1", f"{_RANK0},{_RANK1}"),
        ("train-0 slots=2\ntrain-1 slots=2\n", f"{_RANK0} slots=2\n{_RANK1} slots=2\n"),
        ('"train-0"', f'"{_RANK0}"'),
        ("wait for train-0.", f"wait for {_RANK0}."),
        ("train-master:80", f"{_MASTER}:80"),
        # The same letters, something else.
        ("train-0.other", "train-0.other"),
        ("train-00", "train-00"),
        ("train-01", "train-01"),
        ("my-train-0", "my-train-0"),
        ("train-0-log", "train-0-log"),
        ("train_train-0", "train_train-0"),
        ("train-0_x", "train-0_x"),
        ("train-0.pt", "train-0.pt"),
        ("runs/train-0", "runs/train-0"),
        ("train-0/log", "train-0/log"),
        ("/x/train-0", "/x/train-0"),
        ("$train-0", "$train-0"),
        ("${train-0}", "${train-0}"),
        ("~train-0", "~train-0"),
        ("Train-0", "Train-0"),
    ],
)
def test_pod_names(text: str, expected: str) -> None:
    """A pod's name is replaced where it is a whole host name."""
    assert expected == _REWRITER.text(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("train:29500", f"{_RANK0}:29500"),
        ("http://train/", f"http://{_RANK0}/"),
        ("root@train", f"root@{_RANK0}"),
        ("--run train", "--run train"),
        ("train", "train"),
        ("train: 5", "train: 5"),
        ("train:latest", "train:latest"),
        ("python train.py", "python train.py"),
        ("registry/train:1", "registry/train:1"),
    ],
)
def test_a_headless_services_name_is_a_word_too(text: str, expected: str) -> None:
    """The release's own name is an address only where an address must stand."""
    assert expected == _REWRITER.text(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/data", "/s/data"),
        ("/data/", "/s/data/"),
        ("/data/x.csv", "/s/data/x.csv"),
        ("--in=/data/x", "--in=/s/data/x"),
        ("/data/raw/a", "/s/raw/a"),
        ("/data/rawer", "/s/data/rawer"),
        ("/usr/lib:/data:/x", "/usr/lib:/s/data:/x"),
        ("'/data'", "'/s/data'"),
        ("cd /data && ls", "cd /s/data && ls"),
        ("(/data)", "(/s/data)"),
        ("> /dev/termination-log", "> /s/term"),
        ("file:///data/x", "file:///s/data/x"),
        ("${IN:-/data}/x", "${IN:-/s/data}/x"),
        (": ${IN:=/data/x}", ": ${IN:=/s/data/x}"),
        ("saved to /data.", "saved to /s/data."),
        ("/data/../x", "/s/data/../x"),
        # The same letters, something else.
        ("/mnt/data", "/mnt/data"),
        ("/database", "/database"),
        ("/data-old", "/data-old"),
        ("/data_2", "/data_2"),
        ("/data.bak", "/data.bak"),
        ("$HOME/data", "$HOME/data"),
        ("${HOME}/data", "${HOME}/data"),
        ("$(pwd)/data", "$(pwd)/data"),
        ("./data", "./data"),
        ("~/data", "~/data"),
        ("http://host/data", "http://host/data"),
        ("s3://bucket/data", "s3://bucket/data"),
        ("/data*", "/data*"),
        ("/data$SUFFIX", "/data$SUFFIX"),
        ("/dev/shm", "/dev/shm"),
    ],
)
def test_mount_paths(text: str, expected: str) -> None:
    """A mount path is replaced where it is a whole path or its beginning; /dev/shm never is."""
    assert expected == _REWRITER.text(text)


def test_content_that_is_not_text_stays() -> None:
    """A file that is not UTF-8 passes through byte for byte."""
    content = b"\xff\xfe train-0 /data"
    assert content == _REWRITER.content(content)


@given(st.text(alphabet="abtrin-0.:/@ \n$~_"))
def test_text_without_a_name_or_path_is_untouched(text: str) -> None:
    """Nothing is replaced unless a name or a path of the release stands there."""
    stranger = Rewriter(Names({"other-7": "x"}, {"other": "x"}), {"/elsewhere": "/y"})
    assert text == stranger.text(text)


def test_every_form_of_a_release(manifests: Manifests) -> None:
    """Pods and Services answer in each of the forms that a cluster's DNS has for them."""
    release = expand([manifests.job("t", 2), manifests.service("t")], name="t", namespace="lab")
    addresses = by_pod(release, Block(0, 1))
    names = release_names(release, addresses)
    for suffix in ("", ".t", ".t.lab", ".t.lab.svc", ".t.lab.svc.cluster.local"):
        assert f"{addresses['t-1']}:1" == names.text(f"t-1{suffix}:1")
    for suffix in ("", ".lab", ".lab.svc", ".lab.svc.cluster.local"):
        assert f"{addresses['t-0']}:1" == names.text(f"t{suffix}:1")
    assert names.text("--config t.lab") == "--config t.lab"


def test_a_service_leads_to_the_first_pod_it_selects(manifests: Manifests) -> None:
    """A Service with a cluster IP is its name everywhere, and leads to the pod it selects."""
    selector = {"batch.kubernetes.io/job-completion-index": "1"}
    service = manifests.service("t-master", clusterIP="", selector=selector)
    release = expand([manifests.job("t", 2), service], name="t", namespace="lab")
    addresses = by_pod(release, Block(0, 1))
    assert addresses["t-1"] == release_names(release, addresses).text("t-master")


def test_a_port_goes_with_the_name_before_it() -> None:
    """Where a pod has a port of its own here, that stands behind its name, and nowhere else."""
    names = Names({"j-ps-0": "127.9.9.9"}, {"j": "127.9.9.8"}, {("j-ps-0", 22): 40, ("j", 22): 41})
    assert names.text('["j-ps-0:22","j:22"]') == '["127.9.9.9:40","127.9.9.8:41"]'
    for text in ("22", ":22", "j-ps-1:22", "x/j-ps-0:22"):
        assert text == names.text(text)
    assert names.text("j-ps-0 j-ps-0:2 j-ps-0:22x") == "127.9.9.9 127.9.9.9:2 127.9.9.9:22x"


def test_pods_with_ports_of_their_own(manifests: Manifests) -> None:
    """A pod's port of its own stands behind each of its names, and its Service's."""
    selector = {"batch.kubernetes.io/job-completion-index": "1"}
    release = expand(
        [manifests.job("t", 2), manifests.service("t-1-service", selector=selector)],
        name="t",
        namespace="lab",
    )
    names = release_names(release, by_pod(release, Block(0, 1)), {("t-1", 29500): 3})
    assert names.text("t-1:29500 t-1.t.lab.svc:29500 t-1-service.lab.svc:29500") == " ".join(
        ["127.64.0.2:3"] * 3
    )
    assert names.text("t-0:29500") == "127.64.0.1:29500"


def test_a_service_that_selects_nothing_is_left_alone(manifests: Manifests) -> None:
    """A Service of something outside the release keeps its name."""
    service = manifests.service("db", selector={"app": "postgres"})
    release = expand([manifests.job("t", 1), service], name="t", namespace="lab")
    assert release_names(release, by_pod(release, Block(0, 1))).text("db:5432") == "db:5432"
