"""What the charts need of images that the old controllers did not, as the report says it."""

from __future__ import annotations

import pytest

from allranks.convert.chart_values import image_demands
from tests.converted import text_as_jobs


def _notes(kind: str, specs: str, role: str, image: str, **more: str) -> str:
    """The notes on a job with one role, or with two of which the other has one pod."""
    pods = (
        f"template: {{spec: {{containers: [{{name: x, image: '{image}', command: [python, a]}}]}}}}"
    )
    roles = "".join(f"    {name}: {{replicas: 1, {pods}}}\n" for name in (role, *more.values()))
    text = (
        f"apiVersion: kubeflow.org/v1\nkind: {kind}\nmetadata:\n  name: a\n"
        f"  labels: {{kueue.x-k8s.io/queue-name: q}}\nspec:\n  {specs}:\n{roles}"
    )
    return "\n".join(text_as_jobs(text).conversions[0].notes)


def test_a_job_of_roles_needs_a_python_that_starts_its_program() -> None:
    """The pods of a TFJob of an image with Python 2 end with code 127 before the program starts."""
    assert "must have Python 3.8" in _notes("TFJob", "tfReplicaSpecs", "Worker", "a/b:1")


def test_a_pytorchjob_without_torchrun_needs_a_torch_of_a_certain_age() -> None:
    """An image of torch 1.0 has torch, and not the launcher that the chart starts."""
    notes = _notes("PyTorchJob", "pytorchReplicaSpecs", "Worker", "a/b:1")
    assert f"the image must have {image_demands.LAUNCHER}" in notes


@pytest.mark.parametrize(
    ("workload", "repository", "tag", "is_old"),
    [
        ("torchrun", "pytorch/pytorch", "1.10.0-cuda11.3-cudnn8-runtime", True),
        ("torchrun", "pytorch/pytorch", "1.13.1-cuda11.6-cudnn8-runtime", False),
        ("torchrun", "pytorch/pytorch", "2.1.0", False),
        ("torchrun", "nvcr.io/nvidia/pytorch", "21.10-py3", True),
        ("torchrun", "nvcr.io/nvidia/pytorch", "24.01-py3", False),
        ("elastic", "tensorflow/tensorflow", "1.15.2-py3", True),
        ("elastic", "tensorflow/tensorflow", "2.6.1", True),
        ("elastic", "tensorflow/tensorflow", "2.13.0", False),
        ("elastic", "gcr.io/kubeflow/tf-benchmarks-cpu", "v20171202-bdab599", True),
        ("elastic", "python", "3.7-slim", True),
        ("elastic", "python", "3.11-slim", False),
        ("elastic", "my/python", "3.11", False),
        ("mpi", "tensorflow/tensorflow", "1.15.2-py3", False),
    ],
)
def test_an_image_that_is_too_old_by_its_tag_is_named(
    workload: str, repository: str, tag: str, *, is_old: bool
) -> None:
    """A run of such an image fails at once, whatever the program needs."""
    values = {"workload": workload, "image": {"repository": repository, "tag": tag}}
    notes = [note for note in image_demands.notes(values) if "newer one" in note]
    assert is_old == bool(notes)
    assert all(f"{repository}:{tag}" in note for note in notes)


def test_the_image_of_a_role_is_looked_at_as_well() -> None:
    """A parameter server may have another than the workers."""
    image = {"repository": "tensorflow/tensorflow", "tag": "1.4.0"}
    values = {"workload": "elastic", "elastic": {"roles": {"ps": {"image": image}}}}
    assert any("tensorflow:1.4.0" in note for note in image_demands.notes(values))


@pytest.mark.parametrize(("others", "is_named"), [({"ps": "PS"}, True), ({}, False)])
def test_roles_in_a_queue_are_admitted_by_themselves(
    others: dict[str, str], *, is_named: bool
) -> None:
    """Kueue admitted a TFJob as a whole, and a Job of each role by itself."""
    notes = _notes("TFJob", "tfReplicaSpecs", "Worker", "a/b:1", **others)
    assert ("each role are a Workload" in notes) is is_named


@pytest.mark.parametrize(
    ("image", "setup", "is_named"),
    [
        ("python:3.11-slim", "", True),
        ("docker.io/library/ubuntu:24.04", "apt-get update", True),
        ("nvcr.io/nvidia/cuda:12.4.1-devel-ubuntu22.04", "", True),
        ("tensorflow/tensorflow:2.15.0-gpu", "", True),
        ("docker.io/tensorflow/tensorflow:latest-gpu", "", True),
        ("nvcr.io/nvidia/tensorflow:24.03-tf2-py3", "", True),
        ("nvcr.io/nvidia/mxnet:24.06-py3", "", True),
        ("nvcr.io/nvidia/jax:24.04-py3", "", True),
        ("ghcr.io/nvidia/jax:jax-2024-03-08", "", True),
        ("ghcr.io/nvidia/jax:torchax", "", False),
        ("ghcr.io/nvidia/jax:maxtext-2024-04-15", "", False),
        ("lab.example/tensorflow/tensorflow:1", "", False),
        ("python:3.11-slim", "pip install torch", False),
        ("lab.example/python:3.11", "", False),
        ("pytorch/pytorch:2.9.1", "", False),
    ],
)
def test_an_image_without_torch_is_named(image: str, setup: str, *, is_named: bool) -> None:
    """The launcher of the chart ends with 127 there, before the job's own words install it."""
    repository, _, tag = image.rpartition(":")
    values = {
        "workload": "torchrun",
        "image": {"repository": repository, "tag": tag},
        "setup": setup,
    }
    notes = [note for note in image_demands.notes(values) if "has no torch" in note]
    assert is_named == bool(notes)


@pytest.mark.parametrize(
    ("words", "is_named"),
    [
        ("pip install torch -q; torchrun t.py", True),
        ("python -m pip install -U 'torch==2.9.1' && torchrun t.py", True),
        ("pip install datasets; torchrun t.py", False),
        ("pip install torchmetrics_x; python -m torch.distributed.run t.py", False),
    ],
)
def test_a_torch_that_the_job_s_own_words_install_is_late(words: str, *, is_named: bool) -> None:
    """Setup runs before the launcher, and the command after it."""
    values = {"workload": "torchrun", "command": ["sh", "-c", words]}
    assert is_named == any("install torch" in note for note in image_demands.notes(values))
