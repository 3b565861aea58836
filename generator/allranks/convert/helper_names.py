"""Init containers and sidecars that wait for pods of Kubeflow's operators, by their names.

The program is told of the pods of a run; what stands beside it reads names that somebody typed, and
an init container that waits for a name which is not there waits for ever.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from allranks.convert import shell_comments
from allranks.convert.pod_template import TRAINER, templates_of
from allranks.convert.verdicts import Outcome, dotted
from allranks.k8s import fields as k8s

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from allranks.convert.verdicts import Conversion, FieldPath

_GROUPS = ("kubeflow.org", "trainer.kubeflow.org")
_ROLES = r"(?:master|worker|chief|ps|evaluator|launcher|scheduler|server|node-\d+)"
OTHER_NAMES = (
    "it names pods of the old controller, and they have other names here, which `allranks render` "
    "shows, each in the Service that is called after the release"
)


def checked(conversion: Conversion, source: Mapping[str, Any]) -> Conversion:
    """A conversion that says which of its helpers name pods that are not there.

    Args:
        conversion: the conversion.
        source: the object that was converted.
    """
    job = k8s.text(source, "metadata", "name")
    if not job or k8s.text(source, "apiVersion").partition("/")[0] not in _GROUPS:
        return conversion
    pod = rf"(?<![\w/.-]){re.escape(job)}-{_ROLES}-[\d$({{]"
    # The workers of an MPI job have these names in a release of its name.
    same = re.compile(rf"(?<![\w/.-]){re.escape(job)}-worker-\d+\.{re.escape(job)}(?![\w-])")
    is_mpi = source.get("kind") == "MPIJob"
    verdicts, notes = list(conversion.verdicts), list(conversion.notes)
    for path, text in _texts_of_helpers(source, _helpers(conversion.values), ()):
        if not re.search(pod, text):
            continue
        if is_mpi and not re.search(pod, same.sub("", text)):
            notes.append(f"{dotted(path)} names pods of the release {job}: give it this name")
            continue
        verdicts = [
            replace(verdict, outcome=Outcome.NOT_CARRIED, to="", why=OTHER_NAMES)
            if verdict.keys[: len(path)] == path or path[: len(verdict.keys)] == verdict.keys
            else verdict
            for verdict in verdicts
        ]
    return replace(conversion, verdicts=tuple(verdicts), notes=tuple(notes))


def _helpers(values: Mapping[str, Any]) -> set[str]:
    """The names of the containers beside those that train."""
    own = {
        k8s.text(container, "name")
        for template in templates_of(values)
        for key in ("initContainers", "containers")
        for container in k8s.items(template, "spec", key)
    }
    return own - {TRAINER}


def _texts_of_helpers(
    node: Any, helpers: set[str], path: FieldPath
) -> Iterator[tuple[FieldPath, str]]:
    """The words and variables of the containers of these names, and where they stand."""
    if isinstance(node, list):
        for index, item in enumerate(node):
            yield from _texts_of_helpers(item, helpers, (*path, index))
    elif isinstance(node, dict):
        for key, value in node.items():
            if key not in ("initContainers", "containers"):
                yield from _texts_of_helpers(value, helpers, (*path, key))
                continue
            for index, container in enumerate(value if isinstance(value, list) else ()):
                if k8s.text(container, "name") in helpers:
                    yield from _texts(container, (*path, key, index))


def _texts(container: Mapping[str, Any], here: FieldPath) -> Iterator[tuple[FieldPath, str]]:
    for key in ("command", "args"):
        for index, word in enumerate(k8s.texts(container.get(key))):
            yield (*here, key, index), shell_comments.without(word)
    for index, entry in k8s.numbered_items(container, "env"):
        yield (*here, "env", index, "value"), k8s.text(entry, "value")
