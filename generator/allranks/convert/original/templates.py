"""What the modules of this package share: reading replica specs and templates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from allranks.errors import InputError
from allranks.humanize import plural
from allranks.k8s.fields import REPLICAS_MAX, count, digits, items, mapping, text
from allranks.values.merge import copy

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from allranks.convert.documents.document import Manifest


def name_of(manifest: Manifest) -> str:
    """The name of an object."""
    return str(mapping(manifest.get("metadata")).get("name") or "")


def namespace_of(manifest: Manifest) -> str:
    """The namespace of an object, or the default one."""
    return str(mapping(manifest.get("metadata")).get("namespace") or "default")


def replica_specs(manifest: Manifest, key: str) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Each replica type of Kubeflow's objects with the number of its pods and their template.

    Args:
        manifest: the object.
        key: the field of its spec.
    """
    for role, spec in mapping(mapping(manifest.get("spec")).get(key)).items():
        replicas = mapping(spec).get("replicas")
        yield str(role), 1 if replicas is None else pod_count(replicas), pod_template(spec)


def replica_count(value: Any) -> int:
    """A number of pods, also where it is text, as converters read it; 0 where it is none."""
    number = _whole(value)
    return number if number <= REPLICAS_MAX else 0


def _whole(value: Any) -> int:
    """A whole number that may be text; 0 where it is none."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return count(value) or digits(value) or 0


# As many pods as the values of a run may have.
PODS_MAX = 100_000


def pod_count(value: Any) -> int:
    """A number of pods that are all made here.

    Args:
        value: the number, as `replica_count` reads it.

    Raises:
        InputError: they are more than values may have.
    """
    number = _whole(value)
    check_count(number)
    return number


def check_count(number: int) -> None:
    """Refuse pods of which no values can have as many.

    Args:
        number: how many there are.

    Raises:
        InputError: they are too many.
    """
    if number > PODS_MAX:
        raise InputError(
            f"{plural(number, 'pod')} are more than values may have, {PODS_MAX:,}: nothing is "
            "there to compare them with",
            hint="correct the number",
        )


def pod_template(owner: Any, key: str = "template") -> dict[str, Any]:
    """A copy of a template: its labels and annotations, and its PodSpec."""
    metadata = mapping(owner, key, "metadata")
    own: dict[str, Any] = {name: copy(mapping(metadata, name)) for name in _METADATA}
    return {"metadata": own, "spec": pod_spec(owner, key)}


_METADATA = ("labels", "annotations")


def pod_spec(owner: Any, key: str = "template") -> dict[str, Any]:
    """A copy of the PodSpec of a template."""
    spec: dict[str, Any] = copy(mapping(mapping(mapping(owner).get(key)).get("spec")))
    return spec


def main(template: Mapping[str, Any], *names: str) -> str:
    """The name of the container that trains: the first of these names, or the first container's."""
    own = [text(container, "name") for container in items(template, "spec", "containers")]
    return next((name for name in names if name in own), own[0] if own else "")
