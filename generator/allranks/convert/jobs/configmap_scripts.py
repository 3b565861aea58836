"""Scripts that a container runs: what those of a ConfigMap of the input start is known, too."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from allranks.convert.chart_values import image_demands
from allranks.convert.inputs import configmap_files
from allranks.convert.pods import podsets
from allranks.convert.programs import commands, shell_arguments
from allranks.convert.programs.commands import Runner
from allranks.convert.verdicts import dotted
from allranks.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from allranks.convert.documents.context import Context
    from allranks.convert.pods.podsets import PodSet, Shape
    from allranks.convert.programs.commands import Program
    from allranks.convert.verdicts import FieldPath, Fields

# Launchers that a pod runs once, each of which starts its processes itself.
_LAUNCHERS = commands.NESTED | {Runner.TORCHRUN}
_OF_MPI = {Runner.MPIRUN, Runner.HOROVODRUN}


def with_launcher(fields: Fields, container: FieldPath, runs: Program, context: Context) -> Program:
    """A program, as one that starts its own processes where the script that it runs does.

    Args:
        fields: the object.
        container: the container that runs it, below its template.
        runs: what the container's words run.
        context: what else is known; the input may have the script's ConfigMap.
    """
    if runs.runner is not Runner.PLAIN:
        return runs
    files = {*_first_words(runs), *commands.shell_scripts(runs.command)}
    for name, path, text in _texts(fields, container, context):
        if path in files and commands.starters(("sh", "-c", text)) & _LAUNCHERS:
            note = (
                f"{path} of ConfigMap {name} starts torchrun itself: each pod runs it once, as "
                "before"
            )
            notes = (*runs.notes, note)
            return replace(runs, runner=Runner.NESTED, notes=notes, scripts=(text,))
    return runs


def shape_of_script(fields: Fields, podset: PodSet, own: Shape, context: Context) -> Shape:
    """What job the pods of one set are, where the script that they run says that they are ranks.

    Its torchrun says so with as many nodes as there are pods, and a number of the node that is
    another in each of them.

    Args:
        fields: the object.
        podset: the pods.
        own: what they are by their own words.
        context: what else is known; the input may have the script's ConfigMap.
    """
    if own.key is not None:
        return own
    container: FieldPath = (*podset.path, "spec", "containers", podset.index)
    program = with_launcher(fields, container, podset.program(context.entrypoint), context)
    for text in program.scripts:
        options = commands.read(("sh", "-c", text), (), podset.env).options
        rank = options.get("node-rank", "")
        if options.get("nnodes") == str(podset.replicas) and "$" in rank:
            return podsets.Shape(podsets.PYTORCH, podsets.ranks([podset], fields.text("kind")))
    return own


def with_unseen(fields: Fields, container: FieldPath, runs: Program, context: Context) -> Program:
    """A program, as one that starts its own processes where it runs shell that the input has not.

    A torchrun in such a script is told of the pods as the old controller told it, and a script that
    has none is the same rank.

    Args:
        fields: the object.
        container: the container that runs it, below its template.
        runs: what the container's words run.
        context: what else is known.
    """
    if runs.runner is not Runner.PLAIN:
        return runs
    paths = {path for _, path, _ in _texts(fields, container, context)}
    missing_files = [path for path in commands.shell_scripts(runs.command) if path not in paths]
    if piped := commands.shell_in_pipe(runs.command):
        missing_files.append(f"the {piped} behind the |")
    if not missing_files:
        return runs
    note = (
        f"what {missing_files[-1]} runs is not in the input: each pod runs it once, and where it "
        f"starts torchrun itself, that is told of the job's pods, by PET_NNODES and others. "
        f"The image must have {image_demands.LAUNCHER}"
    )
    return replace(runs, runner=Runner.NESTED, notes=(*runs.notes, note), is_unseen=True)


def of_mpirun(
    fields: Fields, container: FieldPath, runs: Program, context: Context
) -> tuple[str, str]:
    """The path and the text of the ConfigMap's script that a program is, where it calls mpirun.

    Args:
        fields: the object.
        container: the container that runs it, below its template.
        runs: what the container's words run.
        context: what else is known.

    Returns:
        Two empty texts where it is none.
    """
    files = {*_first_words(runs), *commands.shell_scripts(runs.command)}
    for _, path, text in _texts(fields, container, context):
        if path in files and commands.starters(("sh", "-c", text)) & _OF_MPI:
            return path, text
    return "", ""


def shape(fields: Fields, sets: Sequence[PodSet], kind: str, context: Context) -> Shape:
    """What job some sets of pods are by their words; a script that starts ranks is told of.

    Args:
        fields: the object.
        sets: the sets that run from start to end.
        kind: the kind of their object, for messages.
        context: what else is known; the input may have the script's ConfigMap.

    Raises:
        InputError: they are no job that has a form here.
    """
    try:
        return podsets.shape(sets, kind, context.entrypoint)
    except podsets.NoRanksError:
        refuse_with_ranks(fields, sets, kind, context)
        raise


def refuse_with_ranks(fields: Fields, sets: Sequence[PodSet], kind: str, context: Context) -> None:
    """Refuse pods whose words start no ranks for what they are, where a script may start them.

    Args:
        fields: the object.
        sets: its pods, of which none has words that start ranks.
        kind: the kind of their object, for messages.
        context: what else is known; the input may have the script's ConfigMap.

    Raises:
        InputError: one of them runs a script of a ConfigMap that does, or one that is not there.
    """
    for podset in sets:
        container: FieldPath = (*podset.path, "spec", "containers", podset.index)
        runs = podset.program()
        scripts = commands.shell_scripts(runs.command)
        files = {*_first_words(runs), *scripts}
        texts = list(_texts(fields, container, context))
        for name, path, text in texts:
            started = commands.starters(("sh", "-c", text)) & (_LAUNCHERS | _OF_MPI)
            if path in files and started:
                raise InputError(
                    f"{path} of ConfigMap {name} starts the ranks, with {min(started)}: what these "
                    "pods are together is read in their command alone",
                    path=dotted((*container, "command")),
                    hint=f"write what {path} runs as their command, or keep the {kind} for it",
                )
        paths = {path for _, path, _ in texts}
        unseen = next((path for path in scripts if path not in paths), "")
        if unseen:
            raise InputError(
                f"nothing says that its pods start ranks: what {unseen} runs is not in the input",
                path=dotted((*container, "command" if podset.main.get("command") else "args")),
                hint=f"write what {unseen} runs as their command, or keep the {kind} for it",
            )


def _first_words(runs: Program) -> tuple[str, ...]:
    """The word that is run; behind a shell, the first that is no flag of it."""
    words = runs.command
    if words and shell_arguments.program_name(words[0]) in shell_arguments.SHELLS:
        words = tuple(word for word in words[1:] if not word.startswith("-"))
    return words[:1]


def _texts(
    fields: Fields, container: FieldPath, context: Context
) -> Iterator[tuple[str, str, str]]:
    """The texts of ConfigMaps that are files in a container: the map, the file's path, the text."""
    pod = fields.mapping(*container[:-2])
    for _, name, path, text in configmap_files.of(
        pod, fields.mapping(*container), context.texts_of
    ):
        yield name, path, text
