"""Containers that reach pods of Kubeflow's operators by their names.

The program is told of the pods of a run; what stands beside it reads names that somebody typed, and
an init container that waits for a name which is not there waits for ever. The programs of a job
with roles may have such names, too; those whose pods are all alike are read by their converters.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from allranks.convert.pods import containers
from allranks.convert.pods.pod_template import TRAINER, templates_of
from allranks.convert.programs import shell_comments
from allranks.convert.verdicts import Outcome, dotted
from allranks.k8s import fields as k8s

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from allranks.convert.verdicts import Conversion, FieldPath, Verdict

_GROUPS = ("kubeflow.org", "trainer.kubeflow.org")
# What operators call the pods of a role, before their number.
ROLES = r"(?:master|worker|chief|ps|evaluator|launcher|scheduler|server|node-\d+)"
OTHER_NAMES = (
    "it names pods of the old controller, and they have other names here, which `allranks render` "
    "shows, each in the Service that is called after the release"
)


def checked(conversion: Conversion, source: Mapping[str, Any]) -> Conversion:
    """A conversion that says which of its containers name pods that are not there.

    Args:
        conversion: the conversion.
        source: the object that was converted.
    """
    job = k8s.text(source, "metadata", "name")
    if not job or k8s.text(source, "apiVersion").partition("/")[0] not in _GROUPS:
        return conversion
    if not any(f"{job}-" in text for _, _, text in _all_texts(source)):
        return conversion
    pod = rf"(?<![\w/.-]){re.escape(job)}-{ROLES}-[\d$({{]"
    # The workers of an MPI job have these names in a release of its name.
    same = re.compile(rf"(?<![\w/.-]){re.escape(job)}-worker-\d+\.{re.escape(job)}(?![\w-])")
    is_mpi = source.get("kind") == "MPIJob"
    verdicts, notes = list(conversion.verdicts), list(conversion.notes)
    helpers = _helpers(conversion.values)
    has_roles = conversion.values.get("workload") == "elastic"
    for name, path, text in _all_texts(source):
        is_helper = name in helpers
        if not re.search(pod, text) or not (is_helper or has_roles):
            continue
        if is_mpi and not re.search(pod, same.sub("", text)):
            notes.append(f"{dotted(path)} names pods of the release {job}: give it this name")
            continue
        verdicts = [
            replace(verdict, outcome=Outcome.NOT_CARRIED, to="", why=OTHER_NAMES)
            if _is_of(verdict, path) and (is_helper or _is_in_values(verdict))
            else verdict
            for verdict in verdicts
        ]
    return replace(conversion, verdicts=tuple(verdicts), notes=tuple(notes))


def _all_texts(source: Mapping[str, Any]) -> Iterator[tuple[str, FieldPath, str]]:
    """What each container of an object runs and is told, with its name and the field."""
    for here, _, container in containers.of(source):
        for path, text in _texts(container, here):
            yield k8s.text(container, "name"), path, text


def _helpers(values: Mapping[str, Any]) -> set[str]:
    """The names of the containers beside those that train."""
    own = {
        k8s.text(container, "name")
        for template in templates_of(values)
        for key in containers.KINDS
        for container in k8s.items(template, "spec", key)
    }
    return own - {TRAINER}


def _is_of(verdict: Verdict, path: FieldPath) -> bool:
    """Whether a verdict is about a field, or one above or below it."""
    return verdict.keys[: len(path)] == path or path[: len(verdict.keys)] == verdict.keys


def _is_in_values(verdict: Verdict) -> bool:
    """Whether a field is in the values, and nothing else in its place."""
    has_command = verdict.to.rpartition(".")[2] == "command"
    return verdict.outcome is Outcome.CARRIED or (
        verdict.outcome is Outcome.CHANGED and has_command
    )


def _texts(container: Mapping[str, Any], here: FieldPath) -> Iterator[tuple[FieldPath, str]]:
    for key in ("command", "args"):
        for index, word in enumerate(k8s.texts(container.get(key))):
            yield (*here, key, index), shell_comments.without(word)
    for index, entry in k8s.numbered_items(container, "env"):
        yield (*here, "env", index, "value"), k8s.text(entry, "value")
