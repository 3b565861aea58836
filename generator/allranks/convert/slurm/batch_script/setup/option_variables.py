"""Variables that pods have and Slurm's nodes had not, where a script has a text of its own instead.

`compat: slurm` sets those of options in each pod, as most programs that read them ask for the
options. In a script without the option, ``${SLURM_GPUS_PER_NODE:-4}`` is 4: Slurm sets no such
variable for ``--gres=gpu:8``. Source: sbatch(1), output environment variables.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks.convert.slurm.batch_script.text import words
from allranks.convert.slurm.options import COUNTING_TASKS, OPTIONS_OF_VARIABLES
from allranks.convert.verdicts import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable

    from allranks.convert.slurm.batch_script.text.script_reading import ScriptReading, Step
    from allranks.convert.slurm.options import Setting

# By the variable, how a step asks for the same as its options.
_IN_STEP = {
    "SLURM_GPUS": r"--gpus\b(?!-)",
    "SLURM_GPUS_PER_NODE": r"--gpus-per-node\b",
    "SLURM_CPUS_PER_TASK": r"--(?:cpus|tres)-per-task\b|\bsrun\b[^\n]*(?<!sh)\s-c\s*\"?[\d$]",
    "SLURM_NTASKS_PER_NODE": r"--n?tasks-per-node\b",
}
# srun tells its own tasks how many they are.
_OF_TASKS = {"SLURM_NTASKS": COUNTING_TASKS, "SLURM_NPROCS": COUNTING_TASKS}
_EMPTY_THERE = (
    "sbatch sets it for an option alone (--{}), which the script does not have: it is empty there, "
    "and here it is the number that the run has"
)
_COMMENT = re.compile(r"^[ \t]*#.*", re.MULTILINE)


def put_defaults(text: str, settings: Iterable[Setting]) -> str:
    """The script with the text that it has in place of such a variable, line by line as before.

    Args:
        text: a script; comments stay as they are.
        settings: the options of the job.
    """
    options = {setting.name for setting in settings}
    code = _COMMENT.sub("", text)
    for name, own in OPTIONS_OF_VARIABLES.items():
        is_step = re.search(_IN_STEP[name], code) is not None
        if not (own & options or is_step or _has_text(code, name)):
            text = _with_default(text, name)
    return text


def option_without_number(reading: ScriptReading, text: str, main: Step) -> str:
    """The option without which a launcher is given no number in Slurm; "" where it has one.

    Who submits may give it to sbatch, and the script alone does not say the number.

    Args:
        reading: the script.
        text: the number, as the launcher is given it: ``$SLURM_NTASKS_PER_NODE``.
        main: the step with the launcher, whose own options the script's shell does not know.
    """
    script, variables = reading.script, reading.variables
    settings = [*script.settings]
    settings += main.settings if variables.inner_text(main.words) is not None else []
    options = {own.name.removeprefix("srun ") for own in settings}
    names_of = {name for name, _ in words.variables(text)}
    contents = [variables.contents.get(name, []) for name in names_of]
    names_of.update(
        name for own in contents if len(own) == 1 for name, _ in words.variables(own[0])
    )
    code = _COMMENT.sub("", script.text)
    for name, own in {**OPTIONS_OF_VARIABLES, **_OF_TASKS}.items():
        has_text = name in variables.set_names or _has_text(code, name)
        if name in names_of and not (own & options or has_text):
            return _option_of(name)
    return ""


def _has_text(code: str, name: str) -> bool:
    """Whether a script itself gives a variable a text: ``A=1``, ``${A:=1}``."""
    return re.search(rf"\b{name}\}}?:?=", code) is not None


def _option_of(name: str) -> str:
    """The option for which Slurm sets a variable."""
    option = name.removeprefix("SLURM_").lower().replace("_", "-")
    return "ntasks" if option == "nprocs" else option


def say_unasked(reading: ScriptReading, code: str) -> None:
    """Say of the variables of options which are not written that they are empty in Slurm.

    Args:
        reading: the script, and what comes of it.
        code: what runs, without what only prints.
    """
    script, body = reading.script, reading.body
    options = {setting.name for setting in script.settings}
    statements = [script.slice(statement) for statement in script.statements]
    read_by_script = {
        name for text in statements for name, _ in words.variables(words.expanded_part(text))
    }
    in_pods = {name for name, _ in words.variables(code)}
    size = script.size
    for name, own in {**OPTIONS_OF_VARIABLES, **_OF_TASKS}.items():
        of_step = _IN_STEP.get(name, "")
        is_option = own & options or (of_step and re.search(of_step, script.text))
        is_set = name in reading.variables.set_names or name in body.env
        if is_option or is_set or name not in in_pods:
            continue
        has_pods = name != "SLURM_GPUS" and (size.cpus_per_node or "CPUS" not in name)
        has_pods = has_pods and (size.gpus_per_node or size.gpus or "GPUS" not in name)
        if has_pods and (name in read_by_script or name not in _OF_TASKS):
            reads = re.compile(rf"\$\{{?{name}\b|\(\([^()]*\b{name}\b")
            line, why = script.line_with(reads.search), _EMPTY_THERE.format(_option_of(name))
            body.say(line, f"${name}", Outcome.CHANGED, "", why)


def _with_default(text: str, name: str) -> str:
    """A script with the defaults of a variable in its place."""
    comments = [(match.start(), match.end()) for match in _COMMENT.finditer(text)]
    # An escaped one is for the shell of a step's text, which finds none either.
    for match in reversed(list(re.finditer(rf"\\?\$\{{{name}:?-", text))):
        is_comment = any(start <= match.start() < end for start, end in comments)
        end = _end_of_braces(text, match.end())
        if not is_comment and end > 0:
            text = f"{text[: match.start()]}{text[match.end() : end]}{text[end + 1 :]}"
    return text


def _end_of_braces(text: str, start: int) -> int:
    """Where the brace closes that was open at a place of one line; -1 for nowhere."""
    depth = 1
    for at in range(start, len(text)):
        if text[at] == "\n":
            break
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if depth == 0:
            return at
    return -1
