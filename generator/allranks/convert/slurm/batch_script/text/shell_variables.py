"""What the variables of a batch script hold, as far as its text says it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from allranks.convert.programs import scanner
from allranks.convert.slurm.batch_script.text import (
    expansion,
    first_node,
    sent_folder,
    shell_text,
    substitutions,
    words,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from allranks.convert.programs.scanner import Command, Statement
    from allranks.convert.slurm.batch_script.text.script import Script

# Of variables within variables, and characters of what comes of them.
_DEEPEST, _LONGEST = 8, 100_000
_LONGEST_VALUE = 4096  # the text of a longer one counts as not known: `A="$A$A"` doubles it
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Programs that start others.
_STARTING = sorted(
    words.STARTERS
    | words.FOREIGN_STARTERS
    | words.OF_OTHER_HOSTS
    | words.CONTAINERS
    | {"accelerate", "srun", "bash"}
)
# What begins as such a program, or as options.
_COMMAND_LIKE = re.compile(
    r"\A\s*(?:[A-Z][A-Z0-9_]*=[^\s;&|]*\s+)*(?:-{1,2}[A-Za-z]"
    rf"|(?:[\w./~${{}}-]*/)?(?:{'|'.join(map(re.escape, _STARTING))}|python[0-9.]*)(?:\s|\Z)"
    r"|\$\{?[A-Za-z_]\w*\}?\s)"
)


# A sign that a shell gives to a program as it is: `\$A` in double quotes, `$A` in single ones.
_ESCAPED = re.compile(r"\A\"(?:[^\"\\]|\\[^$`])*\\[$`]|\A'[^']*[$`]")
# Signs that mean something in a command, and nothing in a variable that a command reads.
_SIGNS = re.compile(r"[;&|<>()\\]|\A#|\{[^{}]*(?:,|\.\.)[^{}]*\}")
_EXPANDED = r"\$\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)|`[^`]*`|\$\{(?:[^{}]|\{[^{}]*\})*\}|\$\w+"
_WORD = re.compile(rf"(?:{_EXPANDED}|\S)+")
_OF_LAUNCHER = re.compile(
    r"(?:^|\s)--?(?:n?proc|nnodes|node[-_]rank|rdzv|master|num[-_](?:processes|machines|gpus|nodes)"
    r"|machine[-_]rank|main[-_]process|standalone|ntasks|nodes)|(?:^|\s)-np?\s"
)


def _literal(match: re.Match[str]) -> str:
    """A word of a variable as a command is to have it: its signs are no shell's."""
    word = match[0]
    rest = re.sub(_EXPANDED, "", word)
    if "$" in rest or not _SIGNS.search(rest):
        return word
    return f"'{word}'" if rest == word else '"' + word.replace("\\", "\\\\") + '"'


def is_command_like(text: str) -> bool:
    """Whether a text begins with options, or with a program that starts processes."""
    return not text.startswith("$") and _COMMAND_LIKE.search(text) is not None


_READING = ("read", "mapfile", "readarray", "getopts", "for", "select")


@dataclass(slots=True)
class ShellVariables:
    """The variables of a script.

    Attributes:
        set_names: those that the script sets, in whatever way.
        constants: the text of those that have one, and of Slurm's own.
        contents: what each is set to, as shell text.
        parts: those that are parts of a command, as shell text.
        line_texts: the text of those that are set once, with its lines.
        quoted: others whose text has quotes, for who parses it again.
        quoted_options: options with quotes, or a `$` that is none, for who parses them again.
        scripts: those whose text is more than words to a shell.
        optional: those with options, or with nothing.
        expanded_names: those whose text has been put into the words that are read.
        listed: the texts that an array or a loop gives one after the other.
        array_parts: the texts that an array has in any case; where a condition adds more, the last
            is the array itself.
        as_words: of the parts that are no arrays, the words that a command reads of them.
        sent_folder: those that are the folder that is sent.
    """

    set_names: set[str] = field(default_factory=set)
    constants: dict[str, str] = field(default_factory=dict)
    contents: dict[str, list[str]] = field(default_factory=dict)
    parts: dict[str, str] = field(default_factory=dict)
    line_texts: dict[str, str] = field(default_factory=dict)
    quoted: dict[str, str] = field(default_factory=dict)
    quoted_options: set[str] = field(default_factory=set)
    scripts: dict[str, str] = field(default_factory=dict)
    optional: set[str] = field(default_factory=set)
    expanded_names: set[str] = field(default_factory=set)
    listed: dict[str, list[str]] = field(default_factory=dict)
    array_parts: dict[str, list[str]] = field(default_factory=dict)
    as_words: dict[str, str] = field(default_factory=dict)
    sent_folder: set[str] = field(default_factory=set)

    def expanded(self, text: str, parts: Mapping[str, str] | None = None) -> str:
        """A text with the variables in it that are parts of a command.

        Args:
            text: the text.
            parts: the variables to put in; None for `parts`.
        """
        parts = self.parts if parts is None else parts
        for _ in range(_DEEPEST):
            before = text
            text, names = expansion.expanded(text, parts)
            self.expanded_names |= names
            if text == before or len(text) > _LONGEST:
                break
        return text

    def looked_up(self, text: str) -> str:
        """The same for who only looks at the text: no variable counts as put into the command."""
        before = {*self.expanded_names}
        text = self.expanded(text)
        self.expanded_names = before
        return text

    def expanded_words(self, texts: list[str]) -> list[str]:
        """Words with the variables among them that are parts of a command."""
        parts = {name: text for name, text in self.parts.items() if name not in self.quoted_options}
        of_words = {**parts, **{n: text for n, text in self.as_words.items() if n in parts}}
        expanded = " ".join(
            self.expanded(text, parts if {*text} & {*"\"'"} else of_words) for text in texts
        )
        if expanded == " ".join(texts):
            return texts
        return shell_text.split(expanded) or texts

    def text_of(self, word: str) -> str:
        """What a word is that is a variable which the script sets once, or its default; or itself.

        Args:
            word: a word, such as ``$MOUNTS`` after ``MOUNTS=${MOUNTS:-"$PWD:/work"}``, or a list
                that is made of an array: ``$(IFS=,; echo "${MOUNTS[*]}")``.
        """
        text = word
        name = shell_text.variable_alone(word)
        if name in self.line_texts:
            text = self.contents[name][0]
            default = re.fullmatch(rf"\$\{{{name}:?-(.*)\}}", text, re.DOTALL)
            text = text if default is None else default[1].strip('"')
        joined = _JOINED.fullmatch(text)
        parts = self.array_parts.get(joined[1], []) if joined is not None else []
        return ",".join(parts) or text

    def with_sent_folder(self, text: str) -> str:
        """A text with `$SLURM_SUBMIT_DIR` in place of the variables that are the same folder."""
        return sent_folder.written_out(text, self.sent_folder)

    def with_own_folders(self, text: str) -> str:
        """A text with the folders below /tmp that the script makes for itself, written out."""
        for name, contents in self.contents.items():
            if len(contents) == 1 and contents[0].startswith("/tmp/"):  # noqa: S108 - the script's
                text = shell_text.put(rf"\$(?:\{{{name}\}}|{name}\b)", contents[0], text)
        return text

    def possible_programs(self, texts: Sequence[str]) -> set[str]:
        """What the program of some words is called, or may be where a variable names it."""
        name = program_variable(texts)
        contents = [*map(shell_text.split, self.contents.get(name, ()))] if name else [[*texts]]
        contents += [text.split() for text in self.listed_by(texts)]
        programs = [words.unwrapped(content) for content in contents if content]
        return {words.base(program[0]) for program in programs if program}

    def listed_by(self, texts: Sequence[str]) -> list[str]:
        """The texts of which some words run each: those of ``$step``, or of ``${steps[0]}``."""
        rest = words.unwrapped([scanner.unquote(text) for text in texts])
        match = _LISTED.fullmatch(rest[0]) if rest else None
        return [] if match is None else self.listed.get(match["part"] or match["name"], [])

    def resolved(self, text: str) -> str:
        """A word with the text of its variables, as far as it is known, or with their defaults.

        Args:
            text: the word, as typed.
        """
        contents = self.contents.get(shell_text.variable_alone(scanner.unquote(text)), [])
        text = contents[0] if len(contents) == 1 else text
        default = _DEFAULT.fullmatch(text)
        text = default["text"] if default is not None else text
        return scanner.unquote(words.partly(self.looked_up(text), self.constants))

    def inner_text(self, texts: Sequence[str]) -> str | None:
        """The text of ``bash -c "…"`` with the variables in it that are parts of a command."""
        text = shell_text.shell_text(texts)
        if text is None:
            return None
        name = shell_text.variable_alone(text)
        if self.line_texts.get(name) and name not in self.parts:
            text = self.line_texts[name]  # commands: `CMD="cd /code; torchrun …"`
            self.expanded_names.add(name)
        return self.expanded(text, {**self.quoted, **self.parts, **self.scripts})

    def inner_starts(self, texts: Sequence[str]) -> bool:
        """Whether the text of ``bash -c "…"`` starts ranks."""
        inner = self.inner_text(texts)
        return inner is not None and any(
            words.starts_ranks([word.text for word in command.words])
            for command in shell_text.commands_of(inner)
        )


# A variable with a text for where it is not set: `${DATA:-data/x}`, `"${OUT:-out/$ID}"`.
_DEFAULT = re.compile(r"\"?\$\{\w+:?-(?P<text>(?:[^{}]|\{[^{}]*\})*)\}\"?")
# The parts of an array as one text, with commas between them.
_JOINED = re.compile(
    r"\$\([ \t]*IFS=[\"']?,[\"']?[ \t]*(?:;|&&)[ \t]*echo[ \t]+\"\$\{(\w+)\[\*\]\}\"[ \t]*\)"
)
# A variable, which a loop may set, or a part of an array.
_LISTED = re.compile(r"\$(?P<name>[A-Za-z_]\w*)|\$\{(?P<part>[A-Za-z_]\w*)(?:\[[^@*\]]+\])?\}")
_LOOP = re.compile(r"\bfor[ \t]+(?P<name>[A-Za-z_]\w*)[ \t]+in[ \t]+(?P<words>[^;\n]+)")
_ALL_OF_ARRAY = re.compile(r"\"?\$\{?([A-Za-z_]\w*)(?:\[[@*]\])?\}?\"?")


def program_variable(texts: Sequence[str]) -> str:
    """The variable that the program of some words is; "" for none."""
    rest = words.unwrapped([scanner.unquote(text) for text in texts])
    return shell_text.variable_alone(rest[0]) if rest else ""


def collect(script: Script) -> ShellVariables:
    """Read what the variables of a script hold."""
    variables = ShellVariables()
    counts = script.assignment_counts
    variables.set_names = {*counts, *_names_set_otherwise(script)}
    variables.constants = _constants(script, counts)
    _collect_parts(script, variables)
    _collect_listed(script, variables)
    variables.array_parts = _array_parts(script)
    variables.sent_folder = sent_folder.names(script)
    return variables


def _collect_listed(script: Script, variables: ShellVariables) -> None:
    """Read the texts that arrays have, and loops go through: ``for step in "srun a" "srun b"``."""
    arrays: dict[str, list[str]] = {}
    for command in script.commands:
        own_arrays = shell_text.arrays_of(command)
        for name, value in shell_text.assigned_by(command) if own_arrays else ():
            if name in own_arrays:
                listed = _texts_in(value.removeprefix("(").removesuffix(")"))
                arrays.setdefault(name, []).extend(listed)
    variables.listed.update(arrays)
    for match in _LOOP.finditer(words.without_comments(script.text)):
        texts = variables.listed.setdefault(match["name"], [])
        for text in _texts_in(match["words"], is_raw=True):
            array = _ALL_OF_ARRAY.fullmatch(text)
            texts += [scanner.unquote(text)] if array is None else arrays.get(array[1], [])


def _array_parts(script: Script) -> dict[str, list[str]]:
    """The texts that arrays have in any case, and behind them the array where it may have more."""
    parts: dict[str, list[str]] = {}
    read = _names_set_otherwise(script)
    others: set[str] = set()
    for statement, command in _commands(script):
        for name, value in shell_text.assigned_by(command):
            is_added = any(
                word.text.startswith(f"{name}+=") for word in (*command.assignments, *command.words)
            )
            texts = _texts_in(value[1:-1]) if shell_text.is_array(command, name) else []
            if shell_text.is_conditional(statement, command) and is_added:
                others.add(name)
            elif not value.startswith("(") or shell_text.is_conditional(statement, command):
                parts[name] = []
            else:
                parts[name] = [*parts.get(name, []), *texts] if is_added else texts
    return {
        name: [*texts, *([f"${{{name}[*]}}"] if name in others else [])]
        for name, texts in parts.items()
        if texts and name not in read
    }


def _texts_in(text: str, *, is_raw: bool = False) -> list[str]:
    """The words of a text, without their quotes or as typed; [] where it is no shell text."""
    try:
        tokens = [token.text for token in scanner.tokens(text) if token.kind == "word"]
    except scanner.ScriptError:
        return []
    return tokens if is_raw else [*map(scanner.unquote, tokens)]


def _commands(script: Script) -> Iterator[tuple[Statement, Command]]:
    for statement in script.statements:
        for command in statement.commands:
            yield statement, command


def _names_set_otherwise(script: Script) -> set[str]:
    """The variables that are set, and not assigned: by `read`, `printf -v`, loops, sums."""
    names: set[str] = set()
    tokens = [t for command in script.commands for t in (*command.words, *command.assignments)]
    inner = [command for t in tokens for command in shell_text.substituted_commands(t.text)]
    for command in (*script.commands, *inner):
        names.update(shell_text.printed_into(command))
        if command.name in _READING:
            names.update(word.text for word in command.words[1:] if _NAME.fullmatch(word.text))
    # The variable of a loop stands in its head, which has no command.
    names.update(re.findall(r"\bfor\s+\(*\s*([A-Za-z_]\w*)", script.text))
    names.update(re.findall(r"\bselect\s+([A-Za-z_]\w*)", script.text))
    names.update(re.findall(r"\(\(\s*([A-Za-z_]\w*)\s*[-+*/]?=", script.text))
    return names


def _constants(script: Script, counts: Mapping[str, int]) -> dict[str, str]:
    """The text of the variables that have one.

    Args:
        script: the script.
        counts: how often it assigns each variable.
    """
    constants = _slurm_constants(script)
    texts: dict[str, set[str]] = {}
    for command in script.commands:
        for name, value in shell_text.assigned_by(command):
            texts.setdefault(name, set()).add(value)
    for name in counts:
        constants.pop(name, None)  # Slurm's own, which the script sets anew
    for statement, command in _commands(script):
        if shell_text.is_conditional(statement, command):
            continue
        for name, value in shell_text.assigned_by(command):
            if len(texts[name]) > 1 and name != "MASTER_PORT":
                continue
            constant = words.resolve(value, constants)
            if constant == "gpu":
                constant = constants.get("SLURM_GPUS_ON_NODE")
            if constant is not None and len(constant) <= _LONGEST_VALUE:
                constants[name] = constant
    return constants


def _slurm_constants(script: Script) -> dict[str, str]:
    """Slurm's own variables, as the job's options say them."""
    size = script.size
    nodes = size.node_count
    node_count = nodes if script.says_nodes() else None
    constants = {
        "SLURM_NNODES": node_count,
        "SLURM_JOB_NUM_NODES": node_count,
        "SLURM_NTASKS": size.task_count,
        "SLURM_NPROCS": size.task_count,
        "SLURM_NTASKS_PER_NODE": size.told_per_node,
        "SLURM_TASKS_PER_NODE": size.per_node,
        "SLURM_CPUS_PER_TASK": size.cpus_per_task,
        "SLURM_GPUS_ON_NODE": size.gpus_per_node or size.gpus,
        "SLURM_GPUS_PER_NODE": size.gpus_per_node or size.gpus,
        "SLURM_GPUS": (size.gpus_per_node or 0) * nodes or size.gpus,
    }
    per_task = [
        re.fullmatch(r"(?:[\w.-]+:)?([1-9][0-9]{0,3})", setting.value, re.ASCII)
        for setting in script.settings
        if setting.name == "gpus-per-task"
    ]
    constants["SLURM_GPUS_PER_TASK"] = int(per_task[-1][1]) if per_task and per_task[-1] else None
    return words.text_of_counts(constants)


def _collect_parts(script: Script, variables: ShellVariables) -> None:
    """Find the variables that have words of a command: ``LAUNCHER="torchrun --nnodes 2"``."""
    texts: dict[str, str] = {}
    unsure: set[str] = set()
    escaped: set[str] = set()
    for statement, command in _commands(script):
        for name, typed in shell_text.assigned_by(command):
            value = typed
            escaped |= {name} if _ESCAPED.search(typed) else set()
            if script.size.node_count > 1:
                value, _ = first_node.with_rank_zero(typed, variables.set_names)
                value = first_node.of_each_node(value)
            content = shell_text.content_of(value)
            variables.contents.setdefault(name, []).append(content.strip())
            variables.line_texts[name] = shell_text.lines_of(value)
            before = texts.get(name, "")
            if shell_text.is_conditional(statement, command) or len(before) > _LONGEST_VALUE:
                unsure.add(name)
                continue
            reads_itself = name in {other for other, _ in words.variables(typed)}
            texts[name] = _added(command, name, value, before, reads_itself=reads_itself)
            if shell_text.is_script(value):
                variables.scripts[name] = shell_text.script_of(value)
    variables.optional = {
        name
        for name, contents in variables.contents.items()
        if all(text[:1] in ("", "-") for text in contents)
    }
    unsure |= _of_other_words(script)
    _sort_parts(script, variables, {n: text for n, text in texts.items() if n not in unsure})
    variables.quoted_options |= {
        name
        for name in escaped & variables.parts.keys()
        if variables.parts[name].lstrip().startswith("-")
        and not _OF_LAUNCHER.search(variables.parts[name])
    }


def _of_other_words(script: Script) -> set[str]:
    """The variables with words that the script was given, and which a later line shifts."""
    ends = [
        command.start
        for statement, command in _commands(script)
        if not statement.function and command.name != "getopts"
        if shell_text.changes_words(command)
    ]
    return {
        name
        for _, command in _commands(script)
        for name, text in shell_text.assigned_by(command)
        if words.positional(text) and command.start < max(ends, default=0)
    }


def _added(command: Command, name: str, value: str, before: str, *, reads_itself: bool) -> str:
    """What a variable holds behind an assignment, as shell text.

    Args:
        command: the command that assigns it.
        name: its name.
        value: what is assigned.
        before: what it held.
        reads_itself: whether the text that is typed there is made of it.
    """
    content = shell_text.content_of(value)
    assigned = (*command.assignments, *command.words)
    if any(word.text.startswith(f"{name}+=") for word in assigned):
        return f"{before} {content}".strip() if value.startswith("(") else before + content
    if reads_itself:
        own = rf"\$(?:\{{{name}(?:\[[@*]\])?\}}|{name}(?!\w))"
        return shell_text.put(own, before, content)
    return content


def _sort_parts(script: Script, variables: ShellVariables, texts: Mapping[str, str]) -> None:
    """Keep the variables that are parts of a command, apart from those with quotes in them.

    Args:
        script: the script.
        variables: what is known of its variables; filled.
        texts: what each holds that has one text.
    """
    once = {name for name in texts if len(variables.contents[name]) == 1}
    variables.line_texts = {n: text for n, text in variables.line_texts.items() if n in once}
    variables.parts = {name: text for name, text in texts.items() if _COMMAND_LIKE.search(text)}
    arrays = script.arrays
    variables.as_words = {
        name: _WORD.sub(_literal, text)
        for name, text in variables.parts.items()
        if name not in arrays and not {*text} & {*"\"'"}
    }
    for name in texts.keys() - arrays - words.RENDEZVOUS:
        whole = substitutions.without(variables.expanded(texts[name], texts))
        has_quotes = bool({*whole} & {*"\"'"})
        has_signs = _SIGNS.search(re.sub(_EXPANDED, "", whole)) is not None
        if (has_quotes or has_signs) and not words.names_nodes(whole):
            variables.quoted[name] = texts[name]
            is_option = has_quotes and texts[name].lstrip().startswith("-")
            variables.quoted_options |= {name} if is_option else set()
    variables.scripts = {
        name: text
        for name, text in variables.scripts.items()
        if name in once and not words.names_nodes(text)
    }
    variables.expanded_names = set()
