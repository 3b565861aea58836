"""Words that select pods by labels of the old controller, which no pod of a run has.

An init container that runs ``kubectl wait pod -l volcano.sh/job-name=a`` waits for ever here: the
pods have the labels of the chart.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from allranks.convert.chart_values import trials
from allranks.convert.pods.affinities import CONTROLLER_LABELS
from allranks.convert.pods.pod_template import WRITTEN_KEYS
from allranks.convert.verdicts import Outcome
from allranks.k8s import fields as k8s

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from allranks.convert.verdicts import Conversion, FieldPath

# A StatefulSet is the controller of some runs, too, and gives its labels there.
_DOMAINS = "|".join(
    re.escape(key)
    for key in CONTROLLER_LABELS
    if key.endswith("/") and not key.startswith(("statefulset.", "apps."))
)
_WITH_DOMAIN = re.compile(
    rf"(?<![\w./-])((?:{_DOMAINS})[\w.-]+|batch\.kubernetes\.io/job-name)"
    r"\s*(?:[!=]?=|(?:not)?in\s*\()"
)
# A key without a domain may be an option of a program, too: --job-name=a.
_OF_SELECTOR = re.compile(
    r"(?:(?<!\S)-l[ =]?|--selector[ =]|label_selector\s*=\s*f?)[\"']?(?:[^\s\"']*,)?"
    rf"({'|'.join(map(re.escape, WRITTEN_KEYS))})[!=]?="
)
# The pods of a Job have them here as well, with the release's name, which was the Job's.
_OF_JOBS = {"job-name", "batch.kubernetes.io/job-name"}
_NOWHERE = (
    "it selects pods by {}, which no pod has here: select app.kubernetes.io/instance, the release"
)
_WORDS = ("command", "args", "env")


def checked(conversion: Conversion, source: Mapping[str, Any]) -> Conversion:
    """A conversion that says which of its words still select pods so that they find none.

    Args:
        conversion: the conversion.
        source: the object that was converted.
    """
    selected = {key for text in trials.texts(conversion.values) for key in _keys(text)}
    if k8s.text(source, "apiVersion").startswith("batch/"):
        selected -= _OF_JOBS
    if not selected:
        return conversion
    reasons: dict[FieldPath, str] = {}
    for path, text in _texts(source.get("spec"), ("spec",)):
        keys = ", ".join(sorted(selected.intersection(_keys(text))))
        if keys:
            reasons[path] = _NOWHERE.format(keys)
    verdicts = tuple(
        replace(verdict, outcome=Outcome.NOT_CARRIED, to="", why=reasons[verdict.keys])
        if verdict.keys in reasons
        else verdict
        for verdict in conversion.verdicts
    )
    return replace(conversion, verdicts=verdicts)


def _keys(text: str) -> Iterator[str]:
    for pattern in (_WITH_DOMAIN, _OF_SELECTOR):
        for match in pattern.finditer(text):
            yield match[1]


def _texts(node: Any, path: FieldPath) -> Iterator[tuple[FieldPath, str]]:
    """The texts of containers' words and variables, and where they stand."""
    if isinstance(node, str) and any(key in _WORDS for key in path):
        yield path, node
    elif isinstance(node, dict):
        for key, value in node.items():
            yield from _texts(value, (*path, key))
    elif isinstance(node, list):
        for index, item in enumerate(node):
            yield from _texts(item, (*path, index))
