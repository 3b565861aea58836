"""A step with ranks as a command, and how many nodes and ranks run it."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from allranks.convert.programs import commands, preparation, references, scanner, shell_arguments
from allranks.convert.programs.commands import Runner
from allranks.convert.slurm import amounts
from allranks.convert.slurm.batch_script.pods import missing_in_pods
from allranks.convert.slurm.batch_script.runs import (
    branch_settings,
    mpi_ranks,
    mpirun_hosts,
    other_branches,
    rank_command,
    rank_failures,
    rank_labels,
    rank_sizes,
    step_changes,
    step_conditions,
    step_environment,
    steps_in_background,
    world_size,
)
from allranks.convert.slurm.batch_script.setup import (
    bare_programs,
    behind_lines,
    computed_counts,
    exports,
    own_shells,
    setup_lines,
)
from allranks.convert.slurm.batch_script.steps import (
    behind_step,
    exported_functions,
    mpirun,
    programs_of_folder,
    several_steps,
    srun_environment,
    srun_variables,
    task_numbers,
    torchrun_environment,
    words_of_step,
)
from allranks.convert.slurm.batch_script.text import first_node, set_options, shell_text, words
from allranks.convert.slurm.batch_script.text.script_reading import Limit
from allranks.convert.verdicts import Outcome

if TYPE_CHECKING:
    from allranks.convert.programs.scanner import Command, Statement
    from allranks.convert.slurm.batch_script.text.script import Script
    from allranks.convert.slurm.batch_script.text.script_reading import (
        Body,
        MainStep,
        ScriptReading,
        Step,
        StepDetails,
    )
    from allranks.convert.slurm.batch_script.text.shell_variables import ShellVariables
    from allranks.convert.slurm.options import Setting

_STARTING = re.compile(
    r"run\b|launch|deepspeed|singularity|apptainer|shifter|docker|podman|enroot|exec\b|\$\(|`"
)
# What a program is called that may start ranks itself.
_MAY_START = re.compile(rf"{_STARTING.pattern}|python|\.(?:sh|bash|py)$")
# A file that a shell of each rank reads may say of each its rank.
_SOURCING = re.compile(r"^(?:\.|source)\s", re.MULTILINE)
_ENDS_AS_RANKS = "a run fails where its ranks do, and the script ended well then"
_LIMIT = "the launcher has the time of the run: write it there, in seconds"
_PROFILER = "it measured what starts the ranks, which the chart does: write it before the program"
_IN_EACH_RANK = (
    "the script ran it once, and each rank would run it, all at once: write it above the condition "
    "or the function, where it becomes setup"
)
_MAY_LAUNCH = "each rank runs {}: a torchrun in it would start further processes in each"
_NO_PROFILE = (
    "`{}` read the profile of its container first, and what each rank runs here does not: write "
    "what the image's /etc/profile sets into setup, where the program needs it"
)
_WRITTEN_BY_EACH = (
    "the script wrote it once, and each rank would write the file, over that of the others: take "
    f"it out, {behind_step.OF_LOG}"
)
_AS_ONE_PROCESS = (
    "the script ran it as one process where this branch is taken, and each rank would run it: make "
    "a run of each branch"
)
_BEFORE_CONTAINER = (
    "it stands before the container, which the pod is: write it before the program, where the "
    "image has it"
)
_AS_NEXT_RUN = "make it a script of its own, whose run you start when this one has ended"
_AS_SETUP = (
    "make it a script of its own, or a plain line (without srun) before the step, which becomes "
    "setup and runs once in each pod"
)
_ONCE = "every node starts the same, so that it is said once"


def read_ranks(reading: ScriptReading, main: Step, steps: list[Step]) -> None:
    """Make the step a command, and what stands before it setup."""
    script, variables, body = reading.script, reading.variables, reading.body
    details, main_step = reading.details, reading.main_step
    statement = script.statements[main.statement]
    place = _place_of(script, main)
    main_step.statement, main_step.in_loop = main.statement, main.command.in_loop
    steps = [step for step in steps if id(step.command) not in details.side]
    _check_others(script, details, main, steps)
    step_statements = {step.statement for step in steps if step.is_multi} - {main.statement}
    still_read = {name for word in main.words for name, _ in words.variables(word)}
    expansions = {name for step in steps if step.is_multi for name in step.expansions}
    variables.expanded_names = expansions - still_read
    program = _read_program(reading, main)
    _say_rank_zero(reading, main, program)
    _check_program(script, variables, main, program)
    main_step.has_launcher = rank_sizes.is_of_mpi(script, variables, main, program)
    main_step.is_torchrun, main_step.inner_setup = program.runner is Runner.TORCHRUN, program.setup
    for number in sorted(step_statements):
        other = script.statements[number]
        body.say(other.line, script.slice(other), Outcome.CHANGED, "command", _ONCE)
    setup = []
    for number, other in enumerate(script.statements[:place]):
        if number not in {*step_statements, main.statement}:
            text = setup_lines.text_of(reading, other, is_single=False)
            setup += [] if text is None else [setup_lines.with_comments(script, number, text)]
    program = _sized(reading, main, program)
    nested = None
    if statement.function or any(command.within for command in statement.commands):
        nested = _nested_text(reading, main, place, program, steps)
        (_say_loop if nested is None else _say_beside)(reading, main, steps)
        if script.statements[place].in_background:
            _say_sign(reading, main, script.statements[place].last_line)
    elif step_conditions.has(script, main, statement):
        nested = step_conditions.text_with(script, main, statement, program)
        _say_end(reading, main, statement)
    else:
        setup += filter(None, [_flat(reading, main, statement)])
    behind_step.say_evaluated(reading, main)
    setup_lines.say_login(script, body, "setup")
    setup += computed_counts.last_lines(reading)
    setup_lines.write_setup(script, body, setup)
    rank_command.write(reading, program, nested)
    branch_settings.say_drawn(reading, statement if nested else None, [main, *steps])
    if body.workload == "mpi":
        mpi_ranks.tell_mpi_hosts(reading, place)
    _say_step(reading, main, program)
    for number, other in enumerate(script.statements[place + 1 :], place + 1):
        if number not in step_statements:
            behind_lines.say(script, body, other)
    _say_images(details, body, main)
    srun_environment.say(reading, main)
    body.notes += program.notes
    body.settings = [
        *_image_of_another(details, main, steps),
        *(setting for setting in main.settings if setting.line),
    ]


def _sized(reading: ScriptReading, main: Step, program: commands.Program) -> commands.Program:
    """Put the size of the run; gives the program, whose words may count what was there."""
    rank_sizes.put_size(reading, main, program)
    return world_size.with_own(reading, main, program)


def _image_of_another(details: StepDetails, main: Step, steps: list[Step]) -> list[Setting]:
    """The image that an earlier step has, where Pyxis keeps its container for the main one."""
    if any(setting.name == "container-image" for setting in main.settings):
        return []
    if not any(setting.name == "container-name" for setting in main.settings):
        return []
    images = [
        setting
        for step in (*details.side.values(), *steps)
        for setting in step.settings
        if setting.name == "container-image" and step is not main
    ]
    return images[:1]


def _say_images(details: StepDetails, body: Body, main: Step) -> None:
    """Say of what prepares the nodes that it had another image than the ranks."""
    of_main = {setting.name: setting for setting in main.settings}
    for step in details.side.values():
        for setting in step.settings:
            own = of_main.get("container-image", setting)
            if setting.name == "container-image" and setting.value != own.value:
                why = f"a pod has one image (that of line {own.line}): make two runs"
                path = "srun --container-image"
                body.say(setting.line, path, Outcome.NOT_CARRIED, "image", why)


def _place_of(script: Script, main: Step) -> int:
    """The statement that runs the step: its own, or the call of its function."""
    function = script.statements[main.statement].function
    if not function:
        return main.statement
    for number, other in enumerate(script.statements):
        if other.function != function and any(c.name == function for c in other.commands):
            return number
    if exported_functions.is_for_step(script, function):
        raise script.refuse(
            main.command.line,
            f"the function {function} starts ranks, and the shell of a step alone calls it",
            f"call {function} without srun, or write what it runs behind srun",
        )
    raise script.refuse(
        main.command.line,
        f"the function {function} is never called",
        "call it, or write what it runs at the top",
    )


def _check_program(
    script: Script, variables: ShellVariables, main: Step, program: commands.Program
) -> None:
    """Refuse a step whose program is known in the pod alone."""
    is_torchruns = program.runner is Runner.TORCHRUN
    word = shell_text.first_word(program.command, is_torchruns=is_torchruns).strip('"')
    name = shell_text.variable_alone(word)
    is_options = name in variables.optional or not is_torchruns
    is_unknown = bool(name) and is_options and name not in variables.constants
    is_unknown = is_unknown and not (
        _is_profiler(script, name, program.command) or _is_path(variables, name)
    )
    if not program.command or is_unknown:
        raise script.refuse(
            main.command.line,
            "what the step runs stands in a variable whose text is known in the pod alone",
            "write the command out behind srun, and convert that",
        )


def _is_profiler(script: Script, name: str, command: tuple[str, ...]) -> bool:
    """Whether a variable in front of python is one that the script may set to a profiler."""
    is_before = re.search(rf"\$\{{?{name}\b\}}?\s+(?:\S*/)?python", command[-1]) is not None
    values = re.findall(rf"\b{name}=(.+)", script.text)
    return is_before and bool(values) and not any(map(_STARTING.search, values))


def _is_path(variables: ShellVariables, name: str) -> bool:
    """Whether a variable is the path of a program that starts no others: ``$HOME/bin/solve``."""
    texts = variables.contents.get(name, [])
    ends = [re.fullmatch(r"[^\s`()]*/([\w.+-]+)", text) for text in texts]
    return bool(ends) and all(end and not _MAY_START.search(end[1]) for end in ends)


def _say_step(reading: ScriptReading, main: Step, program: commands.Program) -> None:
    """Say what became of the step itself, and of what it asked for."""
    body = reading.body
    line = main.command.line
    text = reading.script.text[main.command.start : main.command.end]
    reasons = step_changes.reasons(main, program)
    if commands.is_timed(reading.script.text[: main.command.start]):
        reasons = [*dict.fromkeys([*reasons, commands.UNTIMED])]
    why = "; ".join(reasons) or "each rank runs it"
    body.say(line, text, Outcome.CHANGED, "command", why)
    torchrun_environment.say_folder(reading.script, body, main, program)
    limit = reading.details.limits.get(id(main.command), "")
    seconds = amounts.seconds_of_timeout(limit)
    if seconds:
        body.limit = Limit(line, limit, seconds)
    elif limit:
        body.say(line, limit, Outcome.NOT_CARRIED, "runPolicy.activeDeadlineSeconds", _LIMIT)
    profiler = reading.details.profilers.get(id(main.command))
    if profiler:
        body.say(line, profiler, Outcome.NOT_CARRIED, "command", _PROFILER)
    rank_labels.put(body, main, program)
    srun_variables.say(reading)
    once_expanded = words_of_step.expanded_by_script(reading, main)
    words_of_step.say_substitutions(body, once_expanded, line)
    if program.runner is Runner.TORCHRUN and not main.command.in_loop:
        words_of_step.say_number_of_node(reading, main, once_expanded)
    words_of_step.say_quotes(reading, main)
    own_shells.say(reading, main)
    for reason in program.lost:
        is_name = reason.startswith(("--role", "--log-dir"))
        outcome = Outcome.CHANGED if is_name else Outcome.NOT_CARRIED
        body.say(line, text, outcome, "", reason)


def _check_others(script: Script, details: StepDetails, main: Step, steps: list[Step]) -> None:
    """Refuse a step for one task beside that with the ranks."""
    for step in steps:
        if step.is_multi or step is main or not step.words:
            continue
        if words.any_of(step.words, words.IDLE):
            continue
        is_before = step.command.start < main.command.start and not several_steps.repeats(
            script, step
        )
        is_beside = several_steps.is_in_background(script, step)
        if (is_before and not is_beside) or not step.is_called:
            details.side[id(step.command)] = step
            continue
        if is_beside:
            raise script.refuse(
                step.command.line,
                f"the script starts a step with `&` beside that of line {main.command.line}, and a "
                "run has one",
                several_steps.how_beside(step),
            )
        is_behind = step.command.start > main.command.start
        raise script.refuse(
            step.command.line,
            f"the script has a step besides that of line {main.command.line}, and a run has one",
            _AS_NEXT_RUN if is_behind else _AS_SETUP,
        )


def _read_program(reading: ScriptReading, main: Step) -> commands.Program:
    script, variables, body = reading.script, reading.variables, reading.body
    texts = _words_at_rank_zero(variables, main)
    if main.is_srun:  # `uv run srun` gives the environment to all that srun starts
        typed = [token.text for token in main.command.words]
        texts = [*words.environment_of(typed), *texts]
    rest = words.unwrapped(texts)
    wrapper_words = texts[: len(texts) - len(rest)]
    limit = words.limit_of(texts) if words.starts_ranks(rest) else ""
    if limit:
        reading.details.limits[id(main.command)] = limit
        wrapper_words = wrapper_words[: len(wrapper_words) - len(limit.split(" "))]
    start = mpirun.container(rest)
    if start is not None:
        inside = bare_programs.read_container(reading, rest[start:], main.command.line)
        own = words.by_name(rest[len(rest) - inside :])
        rest = rest[:start] + own if inside else rest
        wrapper_words = wrapper_words if start else _of_env(body, main, wrapper_words)
    if main.is_srun and rest and start is None:
        own_program = programs_of_folder.with_folder(body, rest[0], main.command.line, "command")
        rest = [own_program, *rest[1:]]
    program_name = words.base(rest[0]) if rest else ""
    if program_name in words.UNREAD_CONTAINERS - words.CONTAINERS:
        why = missing_in_pods.NO_CONTAINERS
        body.say(main.command.line, program_name, Outcome.NOT_CARRIED, "image", why)
    rest = torchrun_environment.with_options(rest, variables.contents)
    if main.size.node_count == 1:
        rest = _without_hostfile(rest)
    inner = _inner_text(reading, rest, main.command.line)
    if inner is None:
        rest = mpirun_hosts.take_out(reading, rest, main.command.line)
        rest = mpi_ranks.without_cores(
            reading, mpi_ranks.without_count(script, rest), main.command.line
        )
    line = " ".join(rest) if inner is None else inner
    assignments = step_environment.assignments(reading, main)
    lead = ""
    wrappers = [
        *step_environment.options_of_env(main),
        *words.without_timing(wrapper_words),
    ]
    has_env = "env" in wrappers
    if inner is not None and (has_env or assignments) and _is_of_several(inner, has_env=has_env):
        lead, wrappers = step_environment.in_inner_shell(assignments, wrappers)
        assignments = []
    _note_launched(reading.main_step, body, rest, inner)
    program = _program_of(variables, lead + " ".join([*assignments, *wrappers, line]))
    if program.runner is Runner.MPIRUN and main.size.node_count != 1:
        assignments = exports.to_setup(reading, assignments)
        program = _program_of(variables, lead + " ".join([*assignments, *wrappers, line]))
    if inner is not None and _SOURCING.search(program.setup) and program.runner is Runner.PLAIN:
        setup = program.setup.removeprefix(preparation.GOES_ON).rstrip()
        is_more = bool(lead or assignments or wrappers)
        text = f"{setup}\n{shell_text.as_text(program.command)}" if is_more else inner.strip()
        return replace(program, setup="", command=("bash", "-c", text), changes=())
    return program if inner is None else task_numbers.of_nodes(reading, main, program, inner)


def _inner_text(reading: ScriptReading, texts: list[str], line: int) -> str | None:
    """The text of a shell that a step starts, without the container in there; None for no shell."""
    inner = reading.variables.inner_text(texts)
    if inner is None:
        return None
    inner = bare_programs.without_container(reading, inner, line)
    return f"set -e\n{inner}" if set_options.ends_at_failures(texts) else inner


def _of_env(body: Body, main: Step, wrapper_words: list[str]) -> list[str]:
    """What an env in front of a container sets there; what else stands there is said."""
    bases = list(map(words.base, wrapper_words))
    at = bases.index("env") if "env" in bases else len(bases)
    others = [text for text in words.without_timing(wrapper_words[:at]) if text != "nohup"]
    if main.is_srun and others:
        path = " ".join(others)
        body.say(main.command.line, path, Outcome.NOT_CARRIED, "command", _BEFORE_CONTAINER)
    return wrapper_words[at:]


def _program_of(variables: ShellVariables, text: str) -> commands.Program:
    """What a text of a shell's runs."""
    return commands.read(("bash", "-c", references.escaped(text)), (), variables.constants)


def _is_of_several(inner: str, *, has_env: bool) -> bool:
    """Whether a text has more than one command, or reads what an `env` in front of it sets."""
    return len(shell_text.commands_of(inner)) > 1 or (has_env and "$" in inner)


def _without_hostfile(texts: list[str]) -> list[str]:
    """A deepspeed without its file of hosts, as it runs where that has one node."""
    if not texts or words.base(texts[0]) != "deepspeed" or "--force_multi" in texts:
        return texts
    match = re.search(r"(?:^| )(?:-H|--hostfile)[ =]\S+", " ".join(texts))
    own = match[0].split() if match is not None else []
    places = [at for at in range(len(texts)) if own and texts[at : at + len(own)] == own]
    return [*texts[: places[0]], *texts[places[0] + len(own) :]] if places else texts


def _words_at_rank_zero(variables: ShellVariables, main: Step) -> list[str]:
    """The words of a step of several nodes, with rank 0's address for the first node's name."""
    if main.size.node_count == 1:
        return main.words
    return [first_node.with_rank_zero(word, variables.set_names)[0] for word in main.words]


def _say_rank_zero(reading: ScriptReading, main: Step, program: commands.Program) -> None:
    """Say where the words of a step have rank 0's address for the first node's name."""
    if main.size.node_count == 1:
        return
    is_torchrun = program.runner is Runner.TORCHRUN
    own = reading.variables.set_names
    name = first_node.first_named(main.words, own, is_torchrun=is_torchrun)
    if name:
        reading.body.say(
            main.command.line, name, Outcome.CHANGED, "command", branch_settings.OF_RANK_ZERO
        )


def _note_launched(main_step: MainStep, body: Body, rest: list[str], inner: str | None) -> None:
    """Say of a script of the user's own that a launcher in it would be one in each rank."""
    if inner is not None and shell_arguments.profile_flags(rest):
        body.notes.append(_NO_PROFILE.format(" ".join(rest[:2])))
    for texts in [rest] if inner is None else _command_words(inner):
        is_mpi = words.base(next(iter(texts), "")) in words.MPIRUN
        inside = mpirun.program(texts) if is_mpi else texts
        own = [scanner.unquote(text) for text in words.unwrapped(inside)[:2]]
        if len(own) > 1 and words.base(own[0]) in shell_text.SHELLS:
            own = own[1:]
        if own and own[0].endswith((".sh", ".bash")):
            main_step.may_launch |= not is_mpi
            if not is_mpi:
                body.notes.append(_MAY_LAUNCH.format(own[0]))


def _command_words(text: str) -> list[list[str]]:
    """The words of each command of a text; [] where it is none of a shell's."""
    return [[token.text for token in command.words] for command in shell_text.commands_of(text)]


def _flat(reading: ScriptReading, main: Step, statement: Statement) -> str:
    """What stands before and behind the step on its line; gives that which is setup."""
    script, body = reading.script, reading.body
    if step_conditions.TURNED.search(script.text[: main.command.start]):
        body.say(main.command.line, "!", Outcome.CHANGED, "", _ENDS_AS_RANKS)
    before = statement.commands[: statement.commands.index(main.command)]
    is_condition = bool(before) and before[-1].after == "&&"
    lead: list[Command] = []
    for number, command in enumerate(before):
        text = script.text[command.start : command.end]
        is_input = all(own.after in scanner.PIPES for own in before[number:])
        if words.any_of([token.text for token in command.words], words.OF_TERMINAL):
            body.say(command.line, text, Outcome.CHANGED, "", "a pod has no terminal")
        elif is_condition or command.after in ("&&", ";"):
            lead.append(command)
            why = setup_lines.why_of_image(reading, command)
            why += step_conditions.ENDS_SETUP if why and is_condition else ""
            body.say(command.line, text, Outcome.CHANGED if why else Outcome.CARRIED, "setup", why)
        elif is_input or not words.any_of([token.text for token in command.words], words.IDLE):
            why = "it feeds the step, which has no standard input"
            body.say(command.line, text, Outcome.NOT_CARRIED, "", why)
    _say_end(reading, main, statement)
    return step_conditions.in_setup(reading, statement, lead)


def _say_end(reading: ScriptReading, main: Step, statement: Statement) -> None:
    """Say of what stands behind the step on its line what becomes of it."""
    body, at = reading.body, statement.commands.index(main.command)
    behind = statement.commands[at + 1 :]
    behind_step.say(reading, reading.script.text, main.command, behind)
    behind_step.say_files(reading.main_step, body, main, main.command.redirections)
    if statement.in_background:
        _say_sign(reading, main, main.command.line)


def _say_sign(reading: ScriptReading, main: Step, line: int) -> None:
    """Say what becomes of the `&` behind a step."""
    why = behind_step.why_in_background(reading.script, main.command)
    reading.body.say(line, "&", Outcome.CHANGED, "", why)


def _nested_text(
    reading: ScriptReading, main: Step, place: int, program: commands.Program, steps: list[Step]
) -> str | None:
    """The statement around the step, with the program in place of what starts it.

    None where it only starts the same program on one node after the other.
    """
    script = reading.script
    statement = script.statements[main.statement]
    edits = []
    for step in steps:
        if step.is_multi and step.statement == main.statement:
            own = program if step is main else _read_program(reading, step)
            if step is not main:
                other_branches.say(reading, step, main, is_alike=own.runner is program.runner)
            program_text = shell_text.as_text(own.command)
            edits.append(rank_failures.edit(reading, statement, step.command, program_text))
    of_statement = [step for step in (main, *steps) if step.statement == main.statement]
    if any(step.command.in_loop for step in of_statement):
        return None  # a loop over the nodes: each pod is one
    edits += branch_settings.edits(reading, statement, of_statement, program)
    for step in of_statement[1:]:
        edits += (
            steps_in_background.edits(reading, statement, step.command) if step.is_multi else []
        )
    whole = shell_text.edited(script.text, edits, statement.start, statement.end)
    if place != main.statement:
        caller = script.statements[place]
        calls = [own for own in caller.commands if own.name == statement.function]
        signs = [edit for own in calls for edit in steps_in_background.edits(reading, caller, own)]
        whole += "\n" + shell_text.edited(script.text, signs, caller.start, caller.end)
    return whole


def _say_loop(reading: ScriptReading, main: Step, steps: list[Step]) -> None:
    """Say of a loop over the nodes what stands behind its steps, and where it writes to."""
    script, body = reading.script, reading.body
    statement = script.statements[main.statement]
    for step in steps:
        if step.is_multi and step.statement == main.statement:
            behind_step.say_in_loop(reading, step, statement)
    output = behind_step.OUTPUT.search(script.slice(statement))
    if output is not None and not statement.function:
        path = output["output"]
        body.say(statement.last_line, path, Outcome.CHANGED, "", behind_step.OF_LOG)


def _say_beside(reading: ScriptReading, main: Step, steps: list[Step]) -> None:
    """Say of what stands around the step in its branch, or function, that each rank runs it."""
    script, body = reading.script, reading.body
    step_commands = {id(step.command) for step in steps}
    is_alone = step_conditions.has_one_rank(reading)
    # What stands around an mpirun is run once, by the launcher.
    has_ranks = main.is_srun or not words.any_of(main.words, words.MPI_LAUNCHERS)
    functions = {other.function for other in script.statements if other.function}
    statement = script.statements[main.statement]
    setup_lines.say_activated(reading, statement, "command")
    if is_alone:
        step_conditions.say_without_launcher(reading, main, statement)
    for step in steps:
        if step.is_multi and step.statement == main.statement:
            behind_step.say_files(reading.main_step, body, step, step.command.redirections)
    output = behind_step.OUTPUT.search(script.slice(statement))
    if output is not None and has_ranks and not (is_alone or statement.function):
        path, why = output["output"], _WRITTEN_BY_EACH
        body.say(statement.last_line, path, Outcome.NOT_CARRIED, "command", why)
    for command in [] if is_alone else statement.commands:
        texts = [token.text for token in command.words]
        is_harmless = not texts or words.any_of(texts, words.IN_EACH_RANK | functions)
        is_step, is_excluded = id(command) in step_commands, command.excludes(main.command)
        is_other = is_step or is_excluded
        is_program = words.is_python(texts) or words.are_of_script(texts)
        if has_ranks and is_excluded and not is_step and is_program:
            text = script.text[command.start : command.end]
            body.say(command.line, text, Outcome.NOT_CARRIED, "command", _AS_ONE_PROCESS)
        outcome, why = Outcome.NOT_CARRIED, missing_in_pods.NO_SLURM
        if words.any_of(texts, words.SLURM_TOOLS) and not is_excluded:
            text = script.text[command.start : command.end]
            tool = words.base(words.unwrapped(texts)[0])
            outcome, why = missing_in_pods.TOOLS.get(tool, (outcome, why))
            body.say(command.line, text, outcome, "command", why)
        if has_ranks and not is_other and (not is_harmless or _writes_config(command)):
            text = script.text[command.start : command.end]
            body.say(command.line, text, Outcome.NOT_CARRIED, "command", _IN_EACH_RANK)


def _writes_config(command: Command) -> bool:
    """Whether a command writes a file that others may read at once: ``sed a > b``."""
    texts = [token.text for token in command.words]
    return shell_text.writes(command) and words.any_of(texts, ("cat", "sed", "awk"))
