"""What a batch script runs: its one step with the ranks, what stands before it, and what behind.

Slurm runs the script once, on the first node, and `srun` starts the ranks on all of them. Here a
pod runs `setup` and then its ranks. So a script with one step for several ranks becomes setup and a
command. A script that starts no ranks of several (one task, or launchers of one node alone) is run
as it is, as one process. Two steps for several ranks are two jobs, and are refused with their
lines.

It is long, because what is refused, and why, depends on the script as a whole.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks.convert.slurm.batch_script.pods import missing_in_pods, node_libraries
from allranks.convert.slurm.batch_script.runs import (
    foreign_scripts,
    one_process,
    other_shells,
    ranks,
    unread_programs,
)
from allranks.convert.slurm.batch_script.setup import (
    exports,
    gpu_questions,
    option_variables,
    overridden_variables,
    remaining_commands,
    repeated_lines,
    setup_end,
    setup_exports,
    unexported_variables,
    unset_variables,
    working_folder,
)
from allranks.convert.slurm.batch_script.steps import (
    behind_step,
    several_steps,
    side_steps,
    step_search,
)
from allranks.convert.slurm.batch_script.text import (
    blank_words,
    login_shells,
    parsing,
    shell_text,
    shell_variables,
    words,
)
from allranks.convert.slurm.batch_script.text.script import Script
from allranks.convert.slurm.batch_script.text.script_reading import ScriptReading
from allranks.convert.slurm.batch_script.text.shell_variables import ShellVariables
from allranks.convert.verdicts import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allranks.convert.slurm.batch_script.text.script_reading import Body
    from allranks.convert.slurm.options import Setting
    from allranks.convert.slurm.sizes import Size
    from allranks.workspace.contents import Contents


def read(
    text: str,
    *,
    source: str,
    size: Size,
    settings: Sequence[Setting],
    args: Sequence[str] = (),
    contents: Contents | None = None,
) -> Body:
    """What a script runs.

    Args:
        text: the script.
        source: its name, for problems.
        size: the size that its directives ask for.
        settings: the directives.
        args: words behind the script's name.
        contents: what is sent of the folder that it is submitted from; None where nobody knows.

    Raises:
        InvalidValues: it cannot be a job; the problems have their lines.
    """
    script = Script(text, source, size, list(settings), list(args), contents=contents)
    interpreter = parsing.interpreter(script.lines[0])
    if interpreter not in shell_text.SHELLS:
        reading = ScriptReading(script, ShellVariables())
        foreign_scripts.read(reading, interpreter)
        _finish(reading)
        return reading.body
    script = parsing.parsed(script)
    if not script.statements:
        raise script.refuse(1, "the script runs nothing", "write the command that is to run")
    parsing.check_continued(script)
    typed, script = script, login_shells.without(script)
    reading = ScriptReading(script, shell_variables.collect(script))
    body = reading.body
    body.goes_back = any(map(working_folder.goes_back, script.statements))
    steps = step_search.find(reading)
    several_steps.check_programs(script, steps)
    several_steps.check_launchers(script, reading.variables)
    own_steps = side_steps.without_cleanups(script, steps)
    multi = side_steps.without_side(reading, [step for step in own_steps if step.is_multi])
    main = several_steps.choose_main(script, reading.variables, multi)
    if main is not None:
        statement = script.statements[main.statement]
        opened, behind = parsing.opened_around(script, statement)
        if opened:
            body = read(opened, source=source, size=size, settings=settings, args=args)
            body.verdicts += login_shells.verdicts(typed, "command")
            if behind:
                why = behind_step.of_pipe(text) if "|" in behind else behind_step.OF_LOG
                body.say(statement.last_line, behind, Outcome.CHANGED, "", why)
            return body
    if main is None:
        one_process.read_script(reading, steps, nested=bool(multi))
    else:
        ranks.read_ranks(reading, main, own_steps)
        if body.workload == "torchrun":
            one_process.note_launcher(script, body)
    body.verdicts += login_shells.verdicts(typed, "script" if main is None else "command")
    unread_programs.note(reading)
    other_shells.say(reading, interpreter, is_step=main is not None)
    _finish(reading)
    return body


def _finish(reading: ScriptReading) -> None:
    """Say of what runs what no pod has, and which variables nobody sets."""
    body = reading.body
    body.setup = setup_exports.by_name(body.setup, "\n".join([body.script, *body.command]))
    unexported_variables.keep(reading)
    body.setup = setup_end.without_condition(body.setup)
    if body.environment_names:
        body.setup = repeated_lines.with_environment(
            body.setup, list(dict.fromkeys(body.environment_names))
        )
    if body.workload == "mpi":
        body.setup = gpu_questions.go_on(body.setup)
    whole = "\n".join([body.setup, body.script, *body.command])
    if "SLURM_TMPDIR" in whole and "SLURM_TMPDIR" not in reading.variables.set_names:
        body.env.setdefault("SLURM_TMPDIR", "/tmp")  # noqa: S108 - the pod's own
        why = unset_variables.of_tmp(whole)
        body.say(0, "$SLURM_TMPDIR", Outcome.CHANGED, "env.SLURM_TMPDIR", why)
    exports.note_secrets(reading.script, body, whole)
    code = shell_text.without_printing(words.without_comments(whole))
    missing_in_pods.say(reading, code)
    node_libraries.say(reading, code)
    body.verdicts += blank_words.say(reading.script)
    remaining_commands.say(reading)
    if "SLURM_JOB_NAME" in {name for name, _ in words.variables(code)}:
        matches = re.compile("SLURM_JOB_NAME").search
        body.reads_name = reading.script.line_with(matches) or 1
    option_variables.say_unasked(reading, code)
    whole = re.sub(r"^\s*#.*$|^set -a  # .*$", "", whole, flags=re.MULTILINE)
    unset_variables.say_unset(reading, whole)
    exports.say_secrets_of_environment(reading.script, body)
    overridden_variables.note(reading)
