"""Files with the names of the nodes: a launcher's list of hosts, or what a later line reads."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks.convert.programs import scanner
from allranks.convert.slurm import options
from allranks.convert.slurm.batch_script.text import shell_text, words
from allranks.convert.verdicts import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from allranks.convert.programs.scanner import Command, Statement
    from allranks.convert.slurm.batch_script.text.script import Script
    from allranks.convert.slurm.batch_script.text.script_reading import MainStep

_NO_FILE_OF_NODES = (
    "the names of the nodes are not those of the pods: write the file that later lines read "
    "yourself"
)
_NO_ANSWERS = (
    "it writes {} with what each node answers, and a pod knows its own answer alone: write the "
    "file that the script reads yourself, or the value in its place"
)
OF_NODES_FOR_STEP = (
    "it writes {} with where the ranks meet, which setup does not know: let what reads it take "
    "MASTER_ADDR and MASTER_PORT, and write it without the names of the nodes"
)
# Launchers that are told of their hosts.
_HAS_LIST = re.compile(
    r"\b(?:mpi(?:run|exec)\S*|horovodrun|deepspeed|orterun|prterun|charmrun|pdsh)\b"
)
_OF_HOSTS = re.compile(r"(?i)host|machine|node")
# Where the words of a program begin, behind those of its launcher.
_PROGRAM = re.compile(r"(?<![\w./-])(?:[\w./${}-]*/)?(?:python[\d.]*\s|[\w.-]+\.(?:py|sh|jl)\b)")
_OPTION_OF_HOSTS = re.compile(r"--?(?:[\w-]*host[\w-]*|machinefile|f|H)[= ]\s*\S+")
# A file that a command writes into.
_WRITTEN = re.compile(
    r"(?:>[>|]?\s*|\btee\s+(?:-\S+\s+)*|(?<!\S)--(?:output|error)[= ]\s*)[^\s;&|<>]+"
)
OF_HOSTS = "the launcher has its own list of hosts, and no line reads this"
# What makes such a list of the names.
_MAKING = words.IDLE | frozenset(
    {
        *("scontrol", "read", "[", "test", ":", "true"),
        *("sed", "awk", "sort", "cat", "head", "tr", "uniq"),
    }
)
# A question in a here-document: ``cat > hosts <<EOF``, and ``$(scontrol show hostnames)``.
_ASKS_IN_TEXT = re.compile(r"<<(?:.|\n)*(?:\$\(|`)\s*scontrol\s+show\s+hostnames?\b")
# The same in the words of a loop: ``for h in $(scontrol show hostnames)``.
_ASKS_IN_LOOP = re.compile(
    r"\bfor[ \t]+\w+[ \t]+in[ \t]+\"?(?:\$\(|`)\s*scontrol\s+show\s+hostnames?\b"
)
_IN_PLACE = re.compile(r"-i.*|--in-place.*")
_LOOKING = words.IDLE | {"cat", "rm", "wc", "head"}


def is_missed(script: Script, main_step: MainStep, statement: Statement, command: Command) -> bool:
    """Whether a file that a command writes is read by a later line, and not by the step alone.

    The list of hosts of a launcher is the chart's, and so are the lines that only make it.
    """
    return any(
        not _makes_list(script, main_step, other)
        for other in _readers(script, main_step, statement, files_of(command))
    )


def _readers(
    script: Script, main_step: MainStep, statement: Statement, files: Sequence[str]
) -> Iterator[Statement]:
    """The lines behind a statement that do more with some files than to show them."""
    names_of = [re.escape(shell_text.variable_alone(file) or file) for file in files]
    reads = re.compile(rf"(?<![\w-])(?:{'|'.join(names_of)})(?!\w)")
    for number, other in enumerate(script.statements if files else ()):
        is_behind = other.start > statement.start and number != main_step.statement
        if (
            is_behind
            and reads.search(_WRITTEN.sub(" ", script.slice(other)))
            and not (other.is_simple and shell_text.runs(other, _LOOKING))
        ):
            yield other


def written_for_step(script: Script, main_step: MainStep, statement: Statement) -> str:
    """The file that a statement writes and the step names, maybe by a variable; "" for none.

    Nor is it one that a launcher has as its list of hosts: the chart's has its own.
    """
    launcher, program = _texts_of_step(script, main_step)
    has_list = _HAS_LIST.search(script.slice(script.statements[main_step.statement])) is not None
    return next(
        (
            file
            for command in statement.commands
            for file in files_of(command)
            if _is_in(file, program)
            or (_is_in(file, launcher) and not (has_list and _OF_HOSTS.search(file)))
        ),
        "",
    )


def _texts_of_step(script: Script, main_step: MainStep) -> tuple[str, str]:
    """The words of the launcher and those of the program behind it, without the files they write.

    Each with what the variables in it are set to. Without a launcher of many hosts all are the
    first's, and such a launcher's are without the option that names its list.
    """
    text = script.slice(script.statements[main_step.statement])
    if _HAS_LIST.search(text) is None:
        return _with_values(script, text), ""
    start = _PROGRAM.search(text)
    end = start.start() if start else len(text)
    launcher = _with_values(script, _OPTION_OF_HOSTS.sub(" ", text[:end]))
    return _OPTION_OF_HOSTS.sub(" ", launcher), _with_values(script, text[end:])


def _with_values(script: Script, text: str) -> str:
    """A text without the files that it writes, and what the variables in it are set to."""
    texts = [text]
    known_names: set[str] = set()
    for part in texts:  # grows
        own = _WRITTEN.sub(" ", part)
        # In single quotes they are for the shell of the step's own text.
        names = {*_VARIABLE.findall(own), *(name for name, _ in words.variables(own))}
        texts += [
            value
            for name in sorted(names - known_names)
            for value in script.assigned_texts.get(name, ())
        ]
        known_names |= names
    return _WRITTEN.sub(" ", "\n".join(texts))


def _is_in(file: str, text: str) -> bool:
    """Whether a text has the name of a file, in whatever folder, or of the variable that has it."""
    name = shell_text.variable_alone(file)
    own = rf"\$(?:\{{{name}\}}|{name}(?!\w))" if name else re.escape(words.base(file))
    return re.search(rf"(?<![\w-]){own}(?![\w.])", text) is not None


_VARIABLE = re.compile(r"\$\{?([A-Za-z_]\w*)")
_NO_FILES = ("/dev/null", "/dev/tcp/")


def files_of(command: Command) -> list[str]:
    """The files that a command writes its output into, by an option of srun's, too.

    Args:
        command: a command of the script.
    """
    files = [
        target
        for operator, target in command.redirections
        if operator in (">", ">>", ">|", "&>", "&>>")
    ]
    if command.name == "srun":
        typed = [scanner.unquote(word.text) for word in command.words[1:]]
        settings = options.parse(typed, "srun", command.line)[0]
        files += [own.value for own in settings if own.name == "output"]
    elif command.name == "tee":
        files += [word.text for word in command.words[1:] if not word.text.startswith("-")]
    return [own for own in map(scanner.unquote, files) if not own.startswith(_NO_FILES)]


def is_read_behind(script: Script, statement: Statement, file: str) -> bool:
    """Whether what stands behind a statement names a file that it writes.

    Args:
        script: the script.
        statement: a statement of it.
        file: the file, as typed.
    """
    return _is_in(file, _WRITTEN.sub(" ", words.without_comments(script.text[statement.end :])))


def why_not_asked(
    script: Script, main_step: MainStep, statement: Statement, command: Command
) -> tuple[Outcome, str]:
    """What becomes of a step that only asks the nodes something, maybe for a file."""
    file = written_for_step(script, main_step, statement)
    if not file and is_missed(script, main_step, statement, command):
        file = files_of(command)[0]
    if file:
        return Outcome.NOT_CARRIED, _NO_ANSWERS.format(file)
    return Outcome.CHANGED, "it only prints"


def why_not_printed(
    script: Script, main_step: MainStep, statement: Statement, command: Command
) -> tuple[Outcome, str]:
    """What becomes of a text about the nodes, which may be a file that others read."""
    if not shell_text.writes(command):
        return Outcome.CHANGED, "it only prints, with numbers or names that setup does not know"
    if is_missed(script, main_step, statement, command):
        return Outcome.NOT_CARRIED, _NO_FILE_OF_NODES
    file = written_for_step(script, main_step, statement)
    if file:
        return Outcome.NOT_CARRIED, OF_NODES_FOR_STEP.format(file)
    return Outcome.CHANGED, OF_HOSTS


def prints(command: Command) -> bool:
    """Whether a command only prints; a cat does a here-document that it writes to no file.

    Args:
        command: a command of the script.
    """
    program = words.base(command.name)
    if program != "cat":
        return program in words.IDLE
    operators = [operator for operator, _ in command.redirections]
    is_alone = len(command.words) == 1 and command.after not in scanner.PIPES
    return is_alone and bool(operators) and all(own.startswith("<<") for own in operators)


def only_logs(command: Command) -> bool:
    """Whether a command only prints, and into no file.

    Args:
        command: a command of the script.
    """
    return prints(command) and not shell_text.writes(command)


def is_list_of_hosts(script: Script, main_step: MainStep, statement: Statement) -> bool:
    """Whether lines only make the step's list of hosts, which the chart's launcher has itself.

    ``scontrol show hostnames | while read host; do echo "$host slots=4" >> hosts; done``, or
    ``sort -u names > hosts`` behind ``srun hostname > names``.
    """
    if main_step.statement < 0 or not _makes_list(script, main_step, statement):
        return False
    is_question = not statement.is_simple and _asks_nodes(statement)
    text = script.slice(statement)
    is_question |= any(form.search(text) for form in (_ASKS_IN_TEXT, _ASKS_IN_LOOP))
    return is_question or _reads_answers(script, main_step, statement)


def _asks_nodes(statement: Statement) -> bool:
    """Whether a statement asks Slurm, or each node, for something."""
    return any(
        words.base(own.name) == "scontrol" or _asks_each_node(own) for own in statement.commands
    )


def _asks_each_node(command: Command) -> bool:
    """Whether a command is a step that only prints: ``srun hostname -s``."""
    typed = [scanner.unquote(word.text) for word in command.words]
    rest = options.parse(typed[1:], "srun", command.line)[1] if typed[:1] == ["srun"] else []
    return words.any_of(rest, words.IDLE)


def _reads_answers(script: Script, main_step: MainStep, statement: Statement) -> bool:
    """Whether a statement reads a file that comes of what Slurm, or each node, answered."""
    text = script.slice(statement)
    return any(
        _names(text, file) and (_asks_nodes(other) or _writes_list(script, main_step, other))
        for other in script.statements
        if other.start < statement.start
        for command in other.commands
        for file in files_of(command)
    )


def _makes_list(script: Script, main_step: MainStep, statement: Statement) -> bool:
    """Whether a statement only makes the launcher's list of hosts, and nothing else reads that."""
    return _writes_list(script, main_step, statement) and all(
        _writes_list(script, main_step, other)
        for command in statement.commands
        for other in _readers(script, main_step, statement, files_of(command))
    )


def _writes_list(script: Script, main_step: MainStep, statement: Statement) -> bool:
    """Whether a statement does no more than write a file that the launcher has as its hosts."""
    main = script.statements[main_step.statement]
    files = [file for own in statement.commands for file in (*files_of(own), *_edited(own))]
    is_before = bool(files) and not statement.function and statement.start < main.start
    return (
        is_before
        and any(_names(script.slice(main), words.base(file)) for file in files)
        and all(
            _asks_each_node(own) or words.any_of([word.text for word in own.words], _MAKING)
            for own in statement.commands
            if own.words
        )
        and not written_for_step(script, main_step, statement)
    )


def _edited(command: Command) -> list[str]:
    """The file that ``sed -i`` changes."""
    typed = [scanner.unquote(word.text) for word in command.words]
    is_edit = typed[:1] == ["sed"] and any(map(_IN_PLACE.fullmatch, typed))
    return typed[-1:] if is_edit else []


def _names(text: str, file: str) -> bool:
    """Whether a text has the name of a file, or of the variable that a file's name is in."""
    name = shell_text.variable_alone(file) or file
    return re.search(rf"(?<![\w-]){re.escape(name)}(?![\w.])", text) is not None


def is_file(script: Script, name: str) -> bool:
    """Whether a command writes into the file that a variable names."""
    return any(
        operator in (">", ">>", ">|") and shell_text.variable_alone(scanner.unquote(target)) == name
        for command in script.commands
        for operator, target in command.redirections
    )
