"""A job of several roles as values of the elastic chart, whatever kind has described it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from allranks.convert.inputs import misspelt_keys
from allranks.convert.jobs import job_program, run_policy
from allranks.convert.pods import pod_values
from allranks.convert.programs import commands, nested_launcher, references
from allranks.convert.verdicts import Outcome, dotted
from allranks.errors import InputError
from allranks.humanize import number_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from allranks.convert.documents.context import Context
    from allranks.convert.pods.pod_values import PodTemplate
    from allranks.convert.verdicts import FieldPath, Fields

WORKER = "worker"


@dataclass(frozen=True, slots=True)
class Role:
    """The pods of a role.

    Attributes:
        name: the role, as the elastic chart calls it.
        template: their template, in the object.
        replicas: where their number stands.
        count: their number.
        why: what is other about it here; "" for nothing.
    """

    name: str
    template: FieldPath
    replicas: FieldPath
    count: int
    why: str = ""


def of_specs(
    fields: Fields,
    path: FieldPath,
    names: Mapping[str, str],
    default: int = 1,
    *,
    keep_empty: bool = False,
) -> list[Role]:
    """The roles of Kubeflow's replica specs, those without pods left out.

    Args:
        fields: the object.
        path: the replica specs, by type.
        names: the chart's role of each type; types are looked up without regard to case.
        default: the number of pods where none is given.
        keep_empty: keep roles without pods, whose number is decided later.
    """
    roles = []
    lower = {key.lower(): value for key, value in names.items()}
    kind = fields.text("kind")
    misspelt_keys.refuse_other_roles(kind, fields.mapping(*path), path, [*names], any_case=True)
    for key in fields.mapping(*path):
        role = lower.get(str(key).lower())
        if role is None and fields.mapping(*path, key):
            fields.leave((*path, key), f"{key} is no role of a {kind}")
        if role is None or not fields.mapping(*path, key):
            continue
        count = fields.number(*path, key, "replicas")
        count = default if count is None else count
        here: FieldPath = (*path, key)
        if count > 0 or keep_empty:
            roles.append(Role(role, (*here, "template"), (*here, "replicas"), count))
        else:
            fields.change(here, "there are none of them")
    return roles


def put(
    fields: Fields,
    framework: str,
    roles: Sequence[Role],
    context: Context,
    main: Sequence[str] = (),
    *,
    serving: Collection[str] = ("ps",),
) -> dict[str, PodTemplate]:
    """Put roles where they are in the elastic chart.

    Args:
        fields: the object.
        framework: the framework, which says what the pods are told.
        roles: the roles; the workers are among them.
        context: what else is known.
        main: names of the container that trains.
        serving: the roles that keep parameters, and compute nothing that GPUs are for.

    Returns:
        The templates by role.

    Raises:
        InputError: a role has no container or no command.
    """
    fields.put(("workload",), "elastic")
    fields.put(("elastic", "framework"), framework)
    workers_first = sorted(roles, key=lambda role: role.name != WORKER)
    templates = {role.name: pod_values.read(fields, role.template, main) for role in workers_first}
    prefixes: dict[FieldPath, PodTemplate] = {
        ("elastic", "roles", name): pod for name, pod in templates.items()
    }
    pod_values.share(fields, prefixes, "elastic")
    _note_hidden_gpus(fields, templates, serving)
    words: tuple[str, ...] = ()
    for role in workers_first:
        words = _command(fields, role, templates[role.name], context, words)
        _size(fields, role, templates)
    return templates


def _note_hidden_gpus(
    fields: Fields, templates: Mapping[str, PodTemplate], serving: Collection[str]
) -> None:
    """Say of roles that ask for no GPUs that they see none of their node's, as workers may.

    The chart hides them; where the container runtime of nodes gives every pod all GPUs, as the
    variables of CUDA's images ask, such a role saw them before.
    """
    hidden = [
        name
        for name, pod in templates.items()
        if name != WORKER and not pod.gpus and "NVIDIA_VISIBLE_DEVICES" not in pod.variables
    ]
    if not any(pod.gpus for pod in templates.values()):
        hidden = [name for name in hidden if name not in serving] if WORKER in templates else []
    if hidden:
        fields.note(
            f"{' and '.join(hidden)} {number_of(len(hidden), 'asks', 'ask')} for no GPU, and "
            f"{number_of(len(hidden), 'sees', 'see')} none here, also where the nodes' runtime "
            "showed all of them"
        )


def _command(
    fields: Fields, role: Role, pod: PodTemplate, context: Context, shared: tuple[str, ...]
) -> tuple[str, ...]:
    """Put a role's command; return that which all share, the workers'."""
    own = job_program.command_of(fields, pod, context)
    words, is_changed = commands.arriving(own, pod.variables)
    job_program.note_host_name(fields, words)
    source: FieldPath = (*pod.container, "command" if pod.command else "args")
    to: FieldPath = ("command",)
    if role.name != WORKER and words != shared:
        to = ("elastic", "roles", role.name, "command")
    if role.name == WORKER or words != shared:
        fields.put(to, list(words), source)
    why = "Kubernetes put $(NAME) in; a shell does it here" if is_changed else ""
    outcome = Outcome.CHANGED if why else Outcome.CARRIED
    for key in ("command", "args"):
        fields.say((*pod.container, key), outcome, dotted(to), why)
    return words if role.name == WORKER else shared


def _size(fields: Fields, role: Role, templates: Mapping[str, PodTemplate]) -> None:
    pod = templates[role.name]
    is_worker = role.name == WORKER
    prefix: FieldPath = ("elastic", "roles", role.name)
    to: FieldPath = ("nodes",) if is_worker else (*prefix, "replicas")
    if role.count:
        fields.put(to, role.count, role.replicas)
    outcome = Outcome.CHANGED if role.why else Outcome.CARRIED
    fields.say(role.replicas, outcome, dotted(to), role.why)
    if not pod.gpus:
        return
    workers = templates.get(WORKER)
    resource = workers.gpu_resource if workers is not None else ""
    if is_worker or not resource or resource == pod.gpu_resource:
        to = ("gpusPerNode",) if is_worker else (*prefix, "gpusPerPod")
        fields.put(to, pod.gpus, pod.gpu_source)
    else:
        source: FieldPath = (*pod.container, "resources")
        for kind in ("requests", "limits"):
            for name in fields.mapping(*source, kind):
                if pod_values.is_gpu(name):
                    fields.leave((*source, kind, name), f"a job has GPUs of one kind, {resource}")


def leave_unset(
    fields: Fields, templates: Mapping[str, PodTemplate], variables: Sequence[str]
) -> None:
    """Say of roles whose words read variables that the old operator set, and nothing here does.

    Args:
        fields: the object.
        templates: the templates of its roles.
        variables: the variables.
    """
    for pod in templates.values():
        if names := references.mentions(pod.words, variables):
            key = "command" if pod.command else "args"
            fields.leave((*pod.container, key), f"it reads {names[0]}, which is not set here")


def refuse_without(fields: Fields, roles: Sequence[Role], path: str, kinds: str) -> None:
    """Refuse a job without any role.

    Args:
        fields: the object.
        roles: its roles.
        path: where they should stand.
        kinds: what they are called, for the message.

    Raises:
        InputError: there is none.
    """
    if not roles:
        run_policy.refuse_old(fields)
        is_elsewhere = isinstance(fields.get("spec", "replicaSpecs"), dict)
        specs = fields.get(*path.split("."))
        raise InputError(
            f"the {fields.text('kind')} has no {kinds} with pods",
            path=path,
            hint=f"its roles stand in {path}, and not in spec.replicaSpecs"
            if is_elsewhere
            else misspelt_keys.question(specs, *re.split(", | or ", kinds))
            or "write the whole object",
        )


def wrapped(words: Sequence[str], exports: str) -> list[str]:
    """A command with more variables, which a shell makes of those that the job sets.

    Args:
        words: the command.
        exports: the assignments, as a shell has them.
    """
    at = nested_launcher.length(words)
    return [*words[:at], "sh", "-c", f'export {exports}; exec "$@"', "sh", *words[at:]]


def wrap(fields: Fields, exports: str, of_roles: Mapping[str, str] | None = None) -> None:
    """Wrap the command of all roles so that more variables are set.

    Args:
        fields: the object, converted.
        exports: the assignments, as a shell has them.
        of_roles: more of them, by the role that alone has them.
    """
    values: dict[str, Any] = fields.values
    shared, own_exports = values["command"], of_roles or {}
    own = f"{exports} {own_exports.get(WORKER, '')}".strip()
    fields.put(("command",), wrapped(shared, own))
    for name, role in values.get("elastic", {}).get("roles", {}).items():
        if role.get("command") or name in own_exports:
            own = f"{exports} {own_exports.get(name, '')}".strip()
            command = wrapped(role.get("command") or shared, own)
            fields.put(("elastic", "roles", name, "command"), command)
