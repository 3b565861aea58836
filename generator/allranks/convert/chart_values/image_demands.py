"""What a chart needs of an image besides the program: Python and torch of a certain age.

The old controllers started the image's own program. The charts start theirs in each pod, which
tells the program of its peers, and an image of TensorFlow 1 has no Python that runs it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks.k8s import fields as k8s

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from allranks.convert.verdicts import Fields

# The versions of launch.py and follow.py, as their first lines say.
LAUNCHER = "torch 1.13 or newer, on Python 3.8 or newer"
_ROLES = (
    "the chart's own program starts that of each pod: the image must have Python 3.8 or newer "
    "(python3 or python on PATH)"
)
_OLD = "{} has {}, and what the chart starts in each pod needs {}: build the image on a newer one"


def _image(name: str, tag: str) -> re.Pattern[str]:
    """What matches an image, of any registry, by the patterns of its name and its tag."""
    return re.compile(rf"(?:.*/)?{name}:{tag}", re.DOTALL)


# Images whose tag says how old they are: their tags, and what they have.
# Source: the Dockerfiles of pytorch/pytorch and tensorflow/tensorflow, NVIDIA's release notes of
# the container for PyTorch, and the Dockerfiles of kubeflow/training-operator's examples.
_TORCH = (
    (
        _image(r"pytorch/pytorch", r"(?:v?0\.|v?1\.(?:\d|1[0-2])(?!\d)).*"),
        "a torch before 1.13",
    ),
    (
        _image(r"nvidia/pytorch", r"(?:1\d|2[01]|22\.0[1-5])(?:\.\d+)?-py\d.*"),
        "a torch before 1.13",
    ),
)
_PYTHON = (
    (
        _image(r"tensorflow/tensorflow", r"(?:0\.|1\.|2\.[0-6](?!\d)).*"),
        "a Python before 3.8",
    ),
    (_image(r"python", r"(?:2|3\.[0-7](?!\d)).*"), "a Python before 3.8"),
    (
        _image(r"kubeflow/tf-(?:dist-mnist-test|benchmarks-[cg]pu|distributed-worker)[^:]*", ".*"),
        "a Python before 3.8",
    ),
    (
        _image(r"kubeflow/tf-mnist-with-summaries[^:]*", ".*"),
        "a Python before 3.8 where it is older than 2024",
    ),
)
# Images that have no torch, unless they are somebody's own of the same name. Of JAX Toolbox's the
# tags of JAX alone: those of what is made on it may have one (torchax).
# Source: the Dockerfiles of tensorflow/tensorflow and NVIDIA/JAX-Toolbox, and NVIDIA's release
# notes of its containers for TensorFlow, MXNet and JAX.
_WITHOUT_TORCH = re.compile(
    r"(?:(?:index\.)?docker\.io/)?(?:library/)?(?:python|ubuntu|debian|alpine|busybox):.*"
    r"|(?:(?:index\.)?docker\.io/)?tensorflow/tensorflow:.*"
    r"|(?:.*/)?nvidia/(?:cuda|tensorflow|mxnet):.*"
    r"|(?:.*/)?nvidia/jax:(?:(?:base|jax)(?:-\d{4}-\d\d-\d\d)?|\d\d\.\d\d-py3)"
)
_NO_TORCH = (
    "{} has no torch, and what the chart starts in each pod needs {}, before the job's own words "
    "run: build an image with it, or have setup install it"
)
_INSTALLED_LATE = (
    "the job's own words install torch, and what the chart starts in each pod needs it before: "
    f"build an image with {LAUNCHER}, or move that installation to setup"
)
_INSTALLER = re.compile(
    r"\b(?:pip3?|uv|conda|mamba|micromamba)\b[^\n;&|]*\binstall\b(?P<packages>[^\n;&|]*)"
)


def note(fields: Fields) -> None:
    """Note what the chart of an object needs of its images, and which are known to be too old.

    Args:
        fields: the object, converted.
    """
    for text in notes(fields.values):
        fields.note(text)


def notes(values: Mapping[str, Any]) -> Iterator[str]:
    """What is said of the images of a job's values.

    Args:
        values: the values.
    """
    workload = values.get("workload")
    if workload == "elastic":
        yield _ROLES
    if workload not in ("elastic", "torchrun"):
        return
    ages = (*_TORCH, *_PYTHON) if workload == "torchrun" else _PYTHON
    need = LAUNCHER if workload == "torchrun" else "3.8 or newer"
    is_installing = installs_more(values)
    for image in sorted({*_images(values)}):
        for pattern, age in ages:
            if pattern.fullmatch(image):
                yield _OLD.format(image, age, need)
        if workload == "torchrun" and lacks_torch(image) and not is_installing:
            yield _NO_TORCH.format(image, LAUNCHER)
    own_words = "\n".join(map(str, values.get("command", ())))
    if workload == "torchrun" and any(
        re.search(r"\btorch\b", match["packages"]) for match in _INSTALLER.finditer(own_words)
    ):
        yield _INSTALLED_LATE


def lacks_torch(image: str) -> bool:
    """Whether an image is known to have no torch.

    Args:
        image: its name and tag.
    """
    return _WITHOUT_TORCH.fullmatch(image) is not None


def installs_more(values: Mapping[str, Any]) -> bool:
    """Whether setup installs packages of Python's, among which torch may be.

    Args:
        values: the values.
    """
    return _INSTALLER.search(k8s.text(values, "setup")) is not None


def _images(node: Any) -> Iterator[str]:
    """The images of the pods among values, of those of roles as well."""
    for key, value in node.items() if isinstance(node, dict) else ():
        if key == "image":
            repository, tag = k8s.text(value, "repository"), k8s.text(value, "tag")
            yield f"{k8s.text(value, 'registry')}/{repository}:{tag}".removeprefix("/")
        elif key != "podTemplate":
            yield from _images(value)
