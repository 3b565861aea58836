"""What the tests of every chart ask of a render: its manifests by name, and its text."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from allranks import names

if TYPE_CHECKING:
    from pathlib import Path

Render = Callable[..., dict[str, Any]]
Refusal = Callable[..., str]

# The least a job needs; each test says what it adds.
MINIMAL: dict[str, Any] = {
    "image": {"repository": "my/trainer", "tag": "1.4"},
    "command": ["python", "train.py"],
}
# What a sweep needs besides: here with trials of any size.
SWEEP: dict[str, Any] = {
    "parameters": {"lr": {"values": ["0.1"], "arg": "--lr"}},
    "trial": {"workload": "torchrun"},
}


def minimal(chart: str) -> dict[str, Any]:
    """The least that a chart needs."""
    return MINIMAL | ({"sweep": SWEEP} if chart == "sweep" else {})


def renderer(template: Any, chart: Path) -> Render:
    """Renders `MINIMAL` with more values over it; manifests by ``Kind/name``."""

    def evaluate(name: str = "demo", **values: Any) -> dict[str, Any]:
        user_values = minimal(chart.name) | values
        if "script" in values:
            user_values.pop("command")
        return by_name(template(chart, values=user_values, name=name))

    return evaluate


def refuser(helm: Any, chart: Path) -> Refusal:
    """What the templates say when they refuse `MINIMAL` with more values over it."""

    def evaluate(name: str = "demo", **values: Any) -> str:
        # The schema refuses much of this before a template runs; both are to be right alone.
        message: str = helm.refusal(
            chart, "--skip-schema-validation", values=minimal(chart.name) | values, name=name
        )
        return message

    return evaluate


def by_name(manifests: list[Any]) -> dict[str, Any]:
    """Manifests by ``Kind/name``."""
    return {
        f"{manifest['kind']}/{manifest['metadata']['name']}": manifest
        for manifest in manifests
        if manifest
    }


def templates(manifests: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The pod templates, by the ``Kind/name`` of their Job, StatefulSet or Deployment.

    Of an ElasticJob, whose pods the operator makes, by ``Kind/name/role``; without its master's.
    """
    result = {
        name: manifest["spec"]["template"]
        for name, manifest in manifests.items()
        if manifest["kind"] in ("Job", "StatefulSet", "Deployment")
    }
    for name, manifest in manifests.items():
        if manifest["kind"] == names.ELASTIC_JOB:
            specs = manifest["spec"]["replicaSpecs"]
            result |= {
                f"{name}/{role}": spec["template"]
                for role, spec in specs.items()
                if role != names.EDL_MASTER
            }
    return result


def variables(template: dict[str, Any]) -> dict[str, Any]:
    """The variables of a pod template's trainer: a text, or what `valueFrom` says.

    One with neither is empty, as for Kubernetes.
    """
    trainer = template["spec"]["containers"][0]
    return {
        variable["name"]: variable.get("value", variable.get("valueFrom", ""))
        for variable in trainer["env"]
    }


class Manifests(SingleFileSnapshotExtension):
    """A snapshot of one YAML file per ci file."""

    file_extension = "yaml"
    _write_mode = WriteMode.TEXT


# The files of a ConfigMap that are copied from files/, which has tests of its own.
_COPIED = re.compile(r"  [a-z_]+\.(sh|py): \|")
_DIGEST = "entry-digest: "
_KEY = "ssh-privatekey: "


def reviewable(text: str) -> str:
    """The rendered text without what is copied from files/, and without a key made by chance."""
    lines: list[str] = []
    skipping = False
    for line in text.splitlines():
        if skipping and (not line or line.startswith("    ")):
            continue
        skipping = bool(_COPIED.match(line)) and not line.startswith(("  setup.sh", "  sweep.sh"))
        lines.append("    ..." if _DIGEST in line or _KEY in line else line)
    return "\n".join(lines) + "\n"


def joined(text: str) -> str:
    """The text as both majors of helm print it: they leave other blank lines between documents."""
    without_key = re.sub(rf"({_KEY}).*", r"\1...", text)
    return re.sub(r"\n+---\n", "\n---\n", without_key).rstrip()
