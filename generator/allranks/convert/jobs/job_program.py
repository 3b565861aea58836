"""What converters of all kinds do with the program of a job."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from allranks.convert import template_blanks
from allranks.convert.chart_values import image_demands
from allranks.convert.jobs import configmap_scripts, option_variables, outside_variables
from allranks.convert.pods import pod_values
from allranks.convert.pods.image_names import image_parts, is_repository
from allranks.convert.programs import (
    commands,
    entrypoints,
    local_ranks,
    nested_launcher,
    references,
    shell,
    shell_arguments,
    shell_comments,
)
from allranks.convert.programs.commands import Program, Runner
from allranks.convert.verdicts import Outcome, dotted
from allranks.errors import InputError
from allranks.humanize import plural
from allranks.k8s import fields as k8s
from allranks.values.sources import defaults as chart_defaults

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from allranks.convert.documents.context import Context
    from allranks.convert.pods.pod_values import PodTemplate
    from allranks.convert.verdicts import FieldPath, Fields

NO_COMMAND = "there is no command"
NO_TORCHRUN = (
    "the command does not start torchrun, and the chart does: the image must have "
    f"{image_demands.LAUNCHER}. Each pod has one process, as before, which finds LOCAL_RANK too"
)


def command_of(fields: Fields, pod: PodTemplate, context: Context) -> tuple[str, ...]:
    """The words that the container that trains runs, its args behind them.

    Args:
        fields: the object.
        pod: its template.
        context: what else is known.

    Raises:
        InputError: the image decides, and nobody knows what it runs; or it is no image.
    """
    if not pod.container:
        raise InputError(
            "there is no container to run",
            path=dotted((*pod.path, "spec", "containers")),
            hint="write the whole object",
        )
    for key in ("command", "args"):
        _check_words(fields, (*pod.container, key))
    image = check_image(fields, pod)
    command = pod.command or context.entrypoint
    if command or not (entrypoint := entrypoints.of(image)):
        if not command and entrypoints.runs_its_arguments(pod.args):
            fields.note(
                f"the entry point of {image} is taken to run the args, and is left out: name it "
                "with --entrypoint where it does more"
            )
        elif not command:
            raise _unknown(image or "the image", (*pod.container, "command"))
        return _with_sources(fields, pod, (*command, *pod.args))
    fields.note(
        f"the entry point of {image} is taken to be {' '.join(entrypoint)}, as in a public "
        "Dockerfile of its name: give --entrypoint where the image has another"
    )
    return (*entrypoint, *pod.args)


def check_image(fields: Fields, pod: PodTemplate) -> str:
    """The image of the container that trains.

    Args:
        fields: the object.
        pod: its template.

    Raises:
        InputError: it is no image's name.
    """
    image = fields.text(*pod.container, "image")
    repository = image_parts(image).get("repository", "")
    if template_blanks.has_parameter(image):
        raise InputError(
            "a parameter of the search stands in the image, and all trials have the same",
            path=dotted((*pod.container, "image")),
            hint="name one image, and give the parameter to the command or to a variable",
        )
    if _NO_IMAGE.search(image) or not is_repository(repository):
        field = fields.get(*pod.container, "image")
        raise InputError(
            f"{'' if field is None else field!r} is no name of an image",
            path=dotted((*pod.container, "image")),
            hint=template_blanks.HINT
            if "$" in image or "{" in image
            else "fill in what stands in its place first: an image's name has no capital letters"
            if image.lower() != image
            else "name the image, as in image: ghcr.io/my/trainer:1",
        )
    return image


def _with_sources(fields: Fields, pod: PodTemplate, words: tuple[str, ...]) -> tuple[str, ...]:
    """Words whose shell has the variables that Kubernetes puts in of a field or a Secret.

    To a shell $(name) is a command, and capitals alone show that it is not.
    """
    script = shell_arguments.script_of(words)
    names = {
        str(entry.get("name")): ""
        for _, entry in fields.items(*pod.container, "env")
        if isinstance(entry.get("valueFrom"), dict)
        and entry.get("name") != str(entry.get("name")).upper()
    }
    if script is None or not any(f"$({name})" in script[1] for name in names):
        return words
    text = references.in_shell(script[1], {**pod.variables, **names})
    place = len(words) - len(script[2]) - 1
    return (*words[:place], text, *words[place + 1 :])


def _check_words(fields: Fields, path: FieldPath) -> None:
    """Refuse a command that is no list of texts: Kubernetes takes no other."""
    words = fields.get(*path)
    if isinstance(words, list):
        _check_items(words, path)
    if words is None or isinstance(words, list):
        return
    kind = "a text" if isinstance(words, str) else "a mapping" if isinstance(words, dict) else words
    parsed = shell.split(words) if isinstance(words, str) else None
    raise InputError(
        f"it is {kind}, and Kubernetes takes a list of words",
        path=dotted(path),
        hint=f"write {json.dumps(list(parsed or ('python', 'train.py')))}",
    )


def _check_items(words: Sequence[Any], path: FieldPath) -> None:
    """Refuse a word that is a list or a mapping: nobody knows the text that was meant."""
    for index, word in enumerate(words):
        if isinstance(word, list | dict):
            raise InputError(
                f"it is {'a list' if isinstance(word, list) else 'a mapping'}, and Kubernetes "
                "takes a text",
                path=dotted((*path, index)),
                hint=f"write it as one text, as in {json.dumps(json.dumps(word))}",
            )


# What stands for an image in a template that is not filled in.
_NO_IMAGE = re.compile(r"[${}<>\s]")


def _unknown(image: str, path: FieldPath) -> InputError:
    return InputError(
        f"{NO_COMMAND}: what runs is the entry point of {image}, which values must spell out",
        path=dotted(path),
        hint="add the command, or name it with --entrypoint 'python train.py'; "
        f"`docker inspect {image}` shows it",
    )


def program(fields: Fields, pod: PodTemplate, context: Context) -> Program:
    """What the container that trains runs.

    Args:
        fields: the object.
        pod: its template.
        context: what else is known.

    Raises:
        InputError: the image decides, and nobody knows what it runs; or it is no image.
    """
    runs = commands.read(command_of(fields, pod, context), (), pod.variables)
    image = fields.text(*pod.container, "image")
    runs = replace(runs, command=local_ranks.of_image(runs.command, image))
    runs = outside_variables.with_counts(fields, pod.container, runs, context)
    return configmap_scripts.with_launcher(fields, pod.container, runs, context)


def put(fields: Fields, pod: PodTemplate, runs: Program, processes: str = "auto") -> None:
    """Put a template and its program where they are for a job whose pods are all alike.

    Args:
        fields: the object, whose values have a `workload`.
        pod: its template.
        runs: what it runs.
        processes: what the old controller told a torchrun of the command's own about its processes.
    """
    fields.put(("workload",), runs.workload)
    pod_values.put(fields, pod, runs.workload)
    words(fields, pod, runs, processes)


def words(fields: Fields, pod: PodTemplate, runs: Program, processes: str = "auto") -> None:
    """Put the command, what runs before it, and what torchrun's flags say.

    Args:
        fields: the object.
        pod: its template.
        runs: what it runs.
        processes: what the old controller told a torchrun of the command's own about its processes.
    """
    command = runs.command
    if runs.is_nested:
        command = tuple(nested_launcher.with_variables(runs.command, processes))
        _meet_elsewhere(fields, pod, runs)
    source: FieldPath = (*pod.container, "command" if pod.command else "args")
    fields.put(("command",), list(command), source)
    if runs.runner is Runner.PLAIN and fields.values.get("workload") == "torchrun":
        _leave_port(fields, source, runs)
    if runs.setup:
        fields.put(("setup",), runs.setup, source)
    if runs.working_dir:
        fields.put(("workingDir",), runs.working_dir, source)
    for key, value in runs.values.items():
        fields.put(("torchrun", key), value, source)
    if fields.values.get("workload") == "torchrun":
        option_variables.put(fields, pod, runs)
    lost = [reason for reason in runs.lost if not reason.startswith(_ONLY_NAMES)]
    why = "; ".join((*runs.changes, *(reason for reason in runs.lost if reason not in lost)))
    if runs.is_nested:
        once = "each pod runs it once, with MASTER_ADDR, RANK and WORLD_SIZE as those of the pods"
        why = "; ".join((once, *runs.changes))
    outcome = Outcome.CHANGED if why else Outcome.CARRIED
    for key in ("command", "args"):
        path: FieldPath = (*pod.container, key)
        if lost:
            fields.leave(path, "; ".join((*lost, *runs.changes)))
        else:
            fields.say(path, outcome, "command", why)
    for note in runs.notes:
        fields.note(note)


def _meet_elsewhere(fields: Fields, pod: PodTemplate, runs: Program) -> None:
    """Keep the chart's rendezvous off the port at which a command's own launcher meets.

    Both listen in the pod of rank 0, as in `accelerate launch --main_process_port 29500`.
    """
    texts = [
        *runs.command,
        *runs.scripts,
        *(
            text
            for name, text in pod.variables.items()
            if not pod_values.is_set_by_job(name, "torchrun")
        ),
    ]
    ports = {int(port) for text in texts for port in _PORT.findall(text)}
    own = chart_defaults("torchrun")["torchrun"]["port"]
    if runs.is_unseen:
        ports.add(own)
    if own in ports and fields.values.get("workload") == "torchrun":
        free = next(port for port in range(own + 1, own + len(ports) + 1) if port not in ports)
        fields.put(("torchrun", "port"), free)
        verb = "may have" if runs.is_unseen else "has"
        fields.note(f"the command's own launcher {verb} port {own}, so torchrun.port is {free}")


def _leave_port(fields: Fields, source: FieldPath, runs: Program) -> None:
    """Keep the chart's rendezvous off the port that a program without a launcher writes out.

    Rank 0 opens a store of its own there, as under no launcher (launch.py shares none).
    """
    text = " ".join((*runs.command, runs.setup, *runs.scripts))
    ports = {int(next(filter(None, match))) for match in _MEETING.findall(text)}
    own = chart_defaults("torchrun")["torchrun"]["port"]
    if own in ports:
        free = next(port for port in range(own + 1, own + len(ports) + 1) if port not in ports)
        fields.put(("torchrun", "port"), free, source)
        fields.note(f"its ranks meet at port {own}, so torchrun.port is {free}")


# Where a program writes out the port at which its ranks meet.
_MEETING = re.compile(
    r"\bMASTER_PORT=[\"']?([0-9]+)\b"
    r"|--(?:dist|init)[-_](?:url|method)[= ][\"']?tcp://[^\s:/]+:([0-9]+)\b"
    r"|--(?:master|dist)[-_]port[= ]([0-9]+)\b",
    re.ASCII,
)
_PORT = re.compile(r"(?<![\w.])[0-9]{4,5}(?![\w.])", re.ASCII)
# Flags of torchrun's that name lines of its log, and change nothing about what runs.
_ONLY_NAMES = ("--role", "--log-dir")


def check_nodes(
    fields: Fields,
    container: FieldPath,
    options: Mapping[str, str],
    variables: Mapping[str, str],
    pods: tuple[int, str],
) -> None:
    """Say where a command's torchrun knows of another number of nodes than there are pods.

    Args:
        fields: the object.
        container: the container that trains.
        options: of its torchrun.
        variables: those of its variables whose text is known.
        pods: how many there are, and how many torchrun is told of where its options do not say;
            "" for as many.
    """
    total, default = pods
    nnodes = "1" if "standalone" in options else options.get("nnodes", default)
    why = other_nodes(nnodes, variables, total)
    for key in ("command", "args") if why else ():
        fields.leave((*container, key), f"its torchrun has {why}")


def other_nodes(nnodes: str, variables: Mapping[str, str], total: int) -> str:
    """What became of a launcher's --nnodes that another number of pods has; "" where it fits.

    Args:
        nnodes: the option's text.
        variables: those of its variables whose text is known.
        total: how many pods there are.
    """
    least, count = (references.number(end, variables) for end in references.ends(nnodes))
    if count is None or (least or count) <= total <= count:
        return ""
    pods = plural(total, "pod")
    if count == 1:
        training = f"each of {pods} trained by itself"
    elif count < total:
        training = f"{count} of {pods} trained together, and the rest had no part in it"
    else:
        training = f"each of {pods} waited for {plural((least or count) - 1, 'other')}"
    return f"--nnodes {nnodes}: {training}; here all of them train together"


# Numbers of processes that torchrun takes from the devices of a pod; "" is no flag at all.
_BY_DEVICES = ("", "auto", "gpu")
_COUNTS_DEVICES = re.compile(r"nvidia-smi|rocm-smi|amd-smi|device_count")


def processes(
    fields: Fields, pod: PodTemplate, runs: Program, count: int | None, source: FieldPath = ()
) -> None:
    """Put how many processes each pod has.

    Args:
        fields: the object, whose values have a `workload`.
        pod: its template.
        runs: what it runs.
        count: the processes of a pod that torchrun was to start; None where it decides itself.
        source: the field that says so; () where it is the command.
    """
    if runs.workload != "torchrun":
        return
    if runs.runner is not Runner.TORCHRUN:
        fields.put(("torchrun", "maxRestarts"), 0)
        count = 1
    option = runs.options.get("nproc-per-node", "")
    counts_devices = option in _BY_DEVICES or (pod.gpus and _COUNTS_DEVICES.search(option))
    if count is None and not counts_devices and (pod.gpus or option != "cpu"):
        fields.note(
            f"how many --nproc-per-node {option} is, is not known here: each pod has "
            + ("one process for each of its GPUs" if pod.gpus else "one process")
            + "; set procsPerNode for another number"
        )
    elif count is None and not pod.gpus and (resources := _like_gpus(fields, pod)):
        fields.note(
            f"torchrun's own `auto` counts the GPUs that it sees, and how many {resources} gives a "
            "pod is not known here: each has one process; set gpuResource and gpusPerNode, or "
            "procsPerNode, for more"
        )
    elif count is None and not pod.gpus:
        fields.note(
            "without GPUs, torchrun's own `auto` is a process for each CPU of the node; here it is "
            "one: set procsPerNode for more"
        )
    if count is not None and count != (pod.gpus or 1):
        fields.put(("procsPerNode",), count, source)


def _like_gpus(fields: Fields, pod: PodTemplate) -> str:
    """The resources of a pod that may be GPUs, of which nobody knows how many; "" for none.

    That are those that are not known and have ``gpu`` in their names, and claims.
    """
    of_container: FieldPath = (*pod.container, "resources")
    own = {
        **fields.mapping(*of_container, "requests"),
        **fields.mapping(*of_container, "limits"),
    }
    resources = [name for name in sorted(map(str, own)) if "gpu" in name.lower()]
    claimed = (str(item.get("name")) for _, item in fields.items(*of_container, "claims"))
    return ", ".join((*resources, *(f"the resourceClaim {name}" for name in claimed)))


def environment(
    fields: Fields, pod: PodTemplate, runs: Program, names: tuple[str, ...], pattern: str
) -> None:
    """Say where a command or a variable leans on what the old controller gave its pods.

    Args:
        fields: the object.
        pod: its template.
        runs: what it runs.
        names: variables that the old controller set and that are not set here, or mean something
            else; one that ends with ``*`` is the start of names.
        pattern: a regular expression for the names of the old controller's pods.
    """
    texts = (*runs.command, runs.setup)
    for name in references.mentions(texts, names):
        fields.note(
            f"the command reads {name}, which the old controller set: check that it is still right"
        )
    note_host_name(fields, (*runs.command, runs.setup))
    old = re.compile(pattern)
    for key in ("command", "args"):
        path: FieldPath = (*pod.container, key)
        words_here = fields.get(*path)
        for word in words_here if isinstance(words_here, list) else ():
            match = old.search(shell_comments.without(str(word)))
            if match is not None and _remains(runs, match[0]):
                fields.leave(path, _OLD_POD.format(match[0]))
    for index, entry in fields.items(*pod.container, "env"):
        match = old.search(str(entry.get("value") or ""))
        if match is not None and not pod_values.is_set_by_job(
            str(entry.get("name")), runs.workload
        ):
            fields.leave((*pod.container, "env", index, "value"), _OLD_POD.format(match[0]))


def note_host_name(fields: Fields, texts: tuple[str, ...]) -> None:
    """Say where a command reads its pod's host name, which is another one here.

    Args:
        fields: the object, whose values have a `workload`.
        texts: what it runs.
    """
    # Kubernetes has no variable of a container's host name, so that $(HOSTNAME) stays as typed.
    texts = tuple(text.replace("$(HOSTNAME)", "") for text in texts)
    if not references.mentions(texts, ("HOSTNAME", "hostname")):
        return
    has_roles = fields.values.get("workload") == "elastic"
    name = "release, its role and its index" if has_roles else "release and its rank"
    if k8s.mapping(fields.values, "network").get("hostNetwork"):
        fields.note(
            "the command reads the host name: with network.hostNetwork that is the node's, and "
            "RANK or GROUP_RANK says which pod it is"
        )
    else:
        fields.note(f"the command reads the pod's host name: a pod is called after the {name} here")


_OLD_POD = "{} is a pod of the old controller: MASTER_ADDR has the name of rank 0 here"


def _remains(runs: Program, text: str) -> bool:
    return any(text in word for word in (*runs.command, runs.setup))
