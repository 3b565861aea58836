"""Options of torchrun's that a container has as variables: PET_MAX_RESTARTS, PET_LOG_DIR.

torchrun reads them where its words do not have them. The chart's own has options of the chart's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks.convert.programs import torchrun_words
from allranks.convert.programs.commands import Runner
from allranks.convert.verdicts import Outcome, dotted
from allranks.k8s import fields as k8s

if TYPE_CHECKING:
    from allranks.convert.pods.pod_values import PodTemplate
    from allranks.convert.programs.commands import Program
    from allranks.convert.verdicts import FieldPath, Fields

# What a command's own torchrun is told of the job, whatever its container has.
_OF_JOB = ("nnodes", "nproc-per-node", "node-rank", "master-addr", "master-port")
_OF_RENDEZVOUS = ("rdzv-backend", "rdzv-endpoint", "rdzv-id")


def put(fields: Fields, pod: PodTemplate, runs: Program) -> None:
    """Put the options that a template's variables are where the chart has them, or say that not.

    Args:
        fields: the object, whose values are those of a torchrun job.
        pod: its template.
        runs: what it runs.
    """
    for index, entry in fields.items(*pod.container, "env"):
        option = torchrun_words.option_of(k8s.text(entry, "name"))
        path: FieldPath = (*pod.container, "env", index)
        if not option or option in _OF_JOB:
            continue
        if runs.is_nested and option in _OF_RENDEZVOUS:
            fields.change(path, "the command's own torchrun meets the others at MASTER_ADDR here")
        elif runs.is_nested:
            fields.leave(path, f"the command's own torchrun does not have it: write --{option}")
        elif runs.runner is Runner.TORCHRUN and option in runs.options:
            fields.change(path, f"the command's --{option} wins")
        elif runs.runner is Runner.TORCHRUN and torchrun_words.TORCHRUN_OPTIONS.get(option):
            _put(fields, pod, path, option)


def _put(fields: Fields, pod: PodTemplate, path: FieldPath, option: str) -> None:
    """Put one option, of the variable at a path."""
    name = k8s.text(fields.get(*path), "name")
    to: FieldPath = ("torchrun", torchrun_words.TORCHRUN_OPTIONS[option])
    values, _ = torchrun_words.values_of({option: pod.variables.get(name, "")}, pod.variables)
    if name not in pod.variables or to[-1] not in values:
        fields.leave(path, f"its text is not known here: set {dotted(to)}")
        return
    fields.put(to, values[to[-1]], path)
    fields.say(path, Outcome.CHANGED, dotted(to), "the chart gives it to torchrun as an option")
