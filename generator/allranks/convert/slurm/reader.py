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
from itertools import pairwise
from typing import TYPE_CHECKING

from allranks.convert import scanner
from allranks.convert.slurm import missing_in_pods, shell_text, sizes, words
from allranks.convert.slurm.images import OF_FILE
from allranks.convert.slurm.setup import NO_CONTAINERS, OTHER_HOSTS, TOOLS
from allranks.convert.slurm.unset_variables import PRINTING, UnsetVariables
from allranks.convert.verdicts import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from allranks.convert.scanner import Command, Statement
    from allranks.convert.slurm.options import Setting
    from allranks.convert.slurm.script import Body, Step
    from allranks.convert.slurm.sizes import Size

# What a person is to fill in; a shell takes its brackets for files.
_BLANK = re.compile(r"<[A-Za-z][\w .,-]*>")
# A loop that runs once. Its first line is longer than an assignment of the word.
_ONE_PASS = re.compile(
    r"for[ \t]+(?P<name>[A-Za-z_]\w*)[ \t]+in[ \t]+(?P<word>[\w.,:/@%+-]+)[ \t]*(?:;|\n)\s*do(?=\s)"
)
_NOT_CONTINUED = re.compile(r"\\[ \t]+(?:#.*)?$")
# A job that waits for this one: both have work to do.
_AFTER_THIS = re.compile(r"(?:--dependency|-d)\b\S*[\s=]*\S*SLURM_JOB_?ID")
# Programs that a script needs to write another, and to submit it.
_OF_SUBMITTING = (
    words.IDLE
    | words.ENDING
    | words.SLURM_TOOLS
    | {
        *("cat", "cd", "mkdir", "rm", "cp", "mv", "ln", "touch", "chmod", "sed", "awk", "grep"),
        *("export", "declare", "local", "readonly", "read", "shift", "eval", "let", "source", "."),
        *("module", "ml", "conda", "seq", "dirname", "basename", "tee", "head", "tail", "cut"),
        *("getopts", "break", "continue", "mapfile", "readarray", "expr", "wc", "tr", "sort"),
        *("find", "xargs", "pushd", "popd", "bc", "usage", "getopt", "shopt", "trap", "realpath"),
    }
)
# What torchrun tells each rank.
_OF_RANK = (
    *("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE"),
    *("ROLE_RANK", "ROLE_NAME", "ROLE_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"),
    *("TORCHELASTIC_RUN_ID", "TORCHELASTIC_USE_AGENT_STORE", "TORCHELASTIC_RESTART_COUNT"),
    *("TORCHELASTIC_MAX_RESTARTS", "TORCHELASTIC_ERROR_FILE"),
)
# Those of them that say where ranks meet.
_OF_MEETING = ("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_USE_AGENT_STORE")
_OF_SH = "bash runs it: that is the sh of most clusters, and seldom that of an image"
_NO_LOGIN = "a pod has no login: its profile would set another PATH than the image's"
_SEPARATOR = re.compile(r"[ \t]*[;&](?![;&])[ \t]*")
# Files for what starts ranks on hosts, by what they are called.
_HOSTS = re.compile(
    r"(?i)\.deepspeed_env$|(?:host|machine|node)_?(?:s?_?file|s?_?list)|(?:^|/)(?:hosts|machines)\b"
)
# Variables by which a launcher is told of such a file: DLTS_HOSTFILE.
_HOST_FILE = re.compile(r"(?:HOST|MACHINE)S?_?FILE$")
# Programs that are Python, or written in it; and lines that run none.
_RUNS_PYTHON = re.compile(
    r"\b(?:(?:python|pypy)[0-9.]*|torchrun|accelerate|deepspeed|horovodrun|tune|wandb)\b|\.py\b"
)
_NO_CODE = re.compile(
    r"^\s*(?:#|module\b|ml\b|conda\b(?!.*\srun\s)|source\b|\.\s|echo\b).*", re.MULTILINE
)
# An srun that is left where a command may stand: in $(…), behind xargs or parallel, or in
# a variable.
_SRUN = re.compile(r"(?:^|[\s;&|(`]|=[\"']?)srun(?:\s|[\"'])")
# A question whether there is one.
_LOOK_FOR_SRUN = re.compile(r"\b(?:command\s+-[vV]|which|type(?:\s+-\w+)?|hash)\s+srun\b")
_NO_SRUN = "a pod has none, so that the other branch runs there: keep that which you want"
_IMAGE_FILE = re.compile(r"^[^=]+\.(?:sif|simg|sqsh|squashfs)$")
# What makes or moves such a file, and starts nothing with it.
_ON_IMAGE_FILES = (
    words.IN_EACH_RANK
    | words.CONTAINERS
    | words.UNREAD_CONTAINERS
    | {"cp", "mv", "rm", "ln", "rsync", "wget", "curl", "tar", "chmod", "sbcast", "stat"}
)
# The path of the script itself.
_OWN_PATH = re.compile(r"\$(?:0\b|\{0[^0-9}]*\}|\{?BASH_SOURCE\b)")
# A container that is left where a command may stand, as an srun may be.
_CONTAINER = re.compile(
    r"(?:^|[\s;&|(`/]|=[\"']?)(?:singularity|apptainer)(?:_wrapper)?[ \t]+(?:-\S+[ \t]+)*"
    r"(?:exec|run|build|pull|shell|instance)\s"
)
# A question to Slurm, whose answer the script reads.
_OF_SLURM = re.compile(
    r"(?:\$\(|`)\s*((?:scontrol\s+show\s+(?:nodes?|job)|squeue|sacct|sinfo)\b[^)`|]*)"
)
# The same to another host.
_ON_OTHER_HOSTS = re.compile(r"(?:\$\(|`)\s*(ssh\s[^)`|]*)")
# Another job that is submitted where the script reads its number.
_SUBMITTING = re.compile(r"(?:\$\(|`)(?:[^)`\n]*\|)?\s*sbatch\b|\beval\s+[\"']?sbatch\b")
# The options that say how many tasks there are.
_PER_NODE = frozenset({"ntasks-per-node", "tasks-per-node"})
_TASK_OPTIONS = _PER_NODE | {"ntasks", "ntasks-per-gpu"}


def read(
    text: str, *, source: str, size: Size, settings: Sequence[Setting], args: Sequence[str] = ()
) -> Body:
    """What a script runs.

    Args:
        text: the script.
        source: its name, for problems.
        size: the size that its directives ask for.
        settings: the directives.
        args: words behind the script's name.

    Raises:
        InvalidValues: it cannot be a job; the problems have their lines.
    """
    return Reader(text, source, size, settings, args).read()


class Reader(UnsetVariables):
    """A script that is read as a whole."""

    def read(self) -> Body:
        """What the script runs.

        Raises:
            InvalidValues: it cannot be a run; the problems have their lines.
        """
        shebang = self.lines[0] if self.lines[0].startswith("#!") else ""
        program = shebang.removeprefix("#!").split() or ["/bin/bash"]
        if words.base(program[0]) == "env":
            program = [
                word for word in program[1:] if not word.startswith("-") and "=" not in word
            ] or program
        interpreter = words.base(program[0])
        if interpreter not in shell_text.SHELLS:
            return self._foreign(interpreter)
        try:
            self.statements = scanner.parse(self.text)
        except scanner.ScriptError as error:
            row = self.lines[error.line - 1] if error.line <= len(self.lines) else ""
            blank = _BLANK.search(row)
            hint = f"fill in what stands for {blank[0]}" if blank else "mend the script"
            message = f"the script cannot be read: {error.reason}"
            raise self.refuse(error.line, message, hint) from error
        if any(map(self._open_group, self.statements)):
            self.statements = scanner.parse(self.text)
        while any(map(self._open_pass, self.statements)):
            self.statements = scanner.parse(self.text)
        if not self.statements:
            raise self.refuse(1, "the script runs nothing", "write the command that is to run")
        self._check_continued()
        self._collect_constants()
        self._collect_parts()
        self.body.goes_back = any(map(self._goes_back, self.statements))
        steps = self._steps()
        self._check_programs(steps)
        multi = self._without_side([step for step in steps if step.is_multi])
        main = self._main(multi)
        if main is None:
            self._as_one_process(steps, nested=bool(multi))
        else:
            self._as_ranks(main, steps)
        if interpreter in ("zsh", "ksh"):
            reason = "the image needs it" if main is None else "bash runs its setup and its command"
            self.body.notes.append(f"the script is {interpreter}'s: {reason}")
        self._finish()
        return self.body

    def _open_group(self, statement: Statement) -> bool:
        """Take the braces off a group at the top, ``{ … }``, which is its lines; whether it is one.

        The script keeps its length and its lines.
        """
        text = self.slice(statement)
        if statement.function or statement.in_background or not re.match(r"\{\s", text):
            return False
        inner = text[1:-1]
        if not re.search(r"[\s;]\}$", text) or not _is_script(inner):
            return False
        self.text = f"{self.text[: statement.start]} {inner} {self.text[statement.end :]}"
        self.lines = self.text.split("\n")
        return True

    def _open_pass(self, statement: Statement) -> bool:
        """Take a loop of one word off its lines, ``for lr in 0.1; do``; whether it is one.

        The script keeps its length and its lines.
        """
        text = self.slice(statement)
        head = _ONE_PASS.match(text)
        is_alone = re.match(r"[ \t]*(?:#.*)?(?:\n|$)", self.text[statement.end :]) is not None
        stays_loop = statement.function or not is_alone or not text.endswith("done")
        if head is None or stays_loop or re.search(r"\b(?:break|continue)\b", text):
            return False
        inner = text[head.end() : -4]
        if not _is_script(inner):
            return False
        blanks = re.sub(r"\S", " ", head[0])
        own = f"{head['name']}={head['word']};"
        opened = f"{own}{blanks[len(own) :]}{inner}    "
        self.text = f"{self.text[: statement.start]}{opened}{self.text[statement.end :]}"
        self.lines = self.text.split("\n")
        return True

    def _check_continued(self) -> None:
        """Refuse a command whose options are none: something stands behind the backslash."""
        for statement in self.statements:
            above = self.lines[statement.line - 2] if statement.line > 1 else ""
            is_option = re.match(r"--?[A-Za-z]", self.slice(statement)) is not None
            if is_option and _NOT_CONTINUED.search(above):
                raise self.refuse(
                    statement.line - 1,
                    "something stands behind the backslash, so that the command ends there",
                    "let the backslash be the last character of the line",
                )
        for statement in self.statements:
            for command in statement.commands:
                self._check_continued_inside(command)

    def _check_continued_inside(self, command: Command) -> None:
        """Refuse the same in the text of ``bash -c "…"``."""
        for before, token in pairwise(command.words):
            if not re.fullmatch(r"-[a-z]*c", before.text):
                continue
            for number, (above, row) in enumerate(pairwise(token.text.split("\n"))):
                if _NOT_CONTINUED.search(above) and re.match(r"\s*--?[A-Za-z]", row):
                    raise self.refuse(
                        token.line + number,
                        "something stands behind the backslash, so that the command ends there",
                        "let the backslash be the last character of the line",
                    )

    def _foreign(self, interpreter: str) -> Body:
        """A script of another language: it is run as it is, as one process."""
        is_python = words.is_python([interpreter])
        if not is_python and re.search(
            r"^\s*(srun|mpirun|mpiexec|torchrun)\b", self.text, re.MULTILINE
        ):
            raise self.refuse(
                1,
                f"the script is {interpreter}'s, and only those of sh and bash are read",
                "write it for bash, or write the command into a values file",
            )
        body = self.body
        text = shell_text.without_directives(self.text)
        body.script = self._without_launcher_in_python(text) if is_python else text
        body.nodes, body.procs_per_node = 1, 1
        body.values["torchrun"] = {"maxRestarts": 0}  # Slurm runs it once
        self.say(1, self.lines[0], Outcome.CARRIED, "script")
        self._finish()
        return body

    def _as_one_process(self, steps: list[Step], *, nested: bool) -> None:
        """Run the script as it is; what it activates comes before, as setup."""
        body = self.body
        body.nodes, body.procs_per_node = 1, 1
        body.values["torchrun"] = {"maxRestarts": 0}  # Slurm runs it once
        self._check_submits()
        self._check_assembled()
        self._check_beside(steps)
        if self.size.node_count > 1:
            self._check_remote()
            self.size.outcomes["nodes"] = self._other_nodes()
        if self.size.task_count > self.size.node_count:
            why = "the script starts one process"
            for name in ("ntasks", "ntasks-per-node", "tasks-per-node", "gpus-per-task"):
                self.size.outcomes[name] = (Outcome.CHANGED, "procsPerNode", why)
        if nested:
            body.notes.append(
                "the script starts the ranks of its node itself, so that the pod runs it as "
                "one process"
            )
        self._note_launcher()
        last = self._last_activation()
        edits: list[tuple[int, int, str]] = []
        setup: list[str] = []
        repeats: list[str] = []
        for number, statement in enumerate(self.statements):
            is_trap = any(command.name == "trap" for command in statement.commands)
            text = self._text_of(statement, is_single=True, is_setup=number <= last and not is_trap)
            if number <= last:
                edits.append((self._comment_start(number), self._end_of(statement), ""))
                # The shell of setup ends before the script begins, and a trap with it.
                setup_text = "" if text is None or is_trap else self._with_comments(number, text)
                setup += [setup_text] if setup_text else []
                is_again = self._lives_in_shell(statement) or shell_text.set_by(statement) & {
                    *_OF_RANK
                }
                repeats += [text] if text is not None and is_again else []
            elif text is None:
                edits.append((statement.start, self._end_of(statement), ""))
            elif text != self.slice(statement):
                edits.append((statement.start, statement.end, text))
            else:
                edits += self._inner_edits(statement)
        self._write_setup(setup, self.statements[last + 1 :])
        rest = shell_text.without_directives(shell_text.edited(self.text, edits))
        rest = re.sub(r"\A#![^\n]*\n?", "", rest)
        rest = re.sub(r"\n{3,}", "\n\n", rest).strip("\n")
        counts = self._put_counts("\n".join([*setup, *repeats, rest]))
        head = [self._shebang(), self._without_launcher(), *counts]
        body.uncounted = self._uncounted(steps)
        body.script = "\n".join([*filter(None, head), *repeats, rest]) + "\n"
        sruns = [step for step in steps if step.is_srun and step.words]
        sruns.sort(key=lambda step: -step.size.gpu_count)
        for step in sruns:  # the first that sets something is the one whose line is shown
            body.settings += step.settings
        self._say_outside(sruns)
        if sruns:
            sizes.fill(self.size, sizes.largest([step.size for step in sruns]))
        self._say_conditional()

    def _note_launcher(self) -> None:
        """Note what a launcher needs where no line starts Python; a task of an array has none."""
        is_trial = any(setting.name == "array" for setting in self.job_settings)
        if not is_trial and not _RUNS_PYTHON.search(_NO_CODE.sub("", self.text)):
            self.body.notes.append(
                "no line of the script starts Python: the image needs PyTorch all the same, whose "
                "launcher starts the script"
            )

    def _say_outside(self, steps: list[Step]) -> None:
        """Say of steps that had no container where others have one that they are in it as well."""
        images = [
            setting
            for step in steps
            for setting in step.settings
            if setting.name == "container-image"
        ]
        for step in steps if images else []:
            is_outside = not {"container-image", "container-name"} & {s.name for s in step.settings}
            if is_outside and not words.any_of(step.words, words.IN_EACH_RANK):
                why = f"it ran on the node itself: here it has the image of line {images[0].line}"
                path = f"srun {' '.join(step.words)}"
                self.say(step.command.line, path, Outcome.CHANGED, "image", why)

    def _shebang(self) -> str:
        """The first line, whose shell is that of no login."""
        own = self.lines[0].strip() if self.lines[0].startswith("#!") else "#!/bin/bash"
        shebang = shell_text.without_login(own)
        if own != shebang:
            self.say(1, own, Outcome.CHANGED, "script", _NO_LOGIN)
        bash = shell_text.of_bash(shebang)
        if bash != shebang:
            self.say(1, own, Outcome.CHANGED, "script", _OF_SH)
        return bash

    def _without_launcher(self) -> str:
        """A line that takes from a script what torchrun, which starts it, tells its ranks.

        What the script starts would take it for its own: torchrun reads options from PET_, and who
        finds a LOCAL_RANK uses one GPU. Where the script itself says where ranks meet, they do.
        """
        if any(setting.name == "array" for setting in self.job_settings):
            return ""  # a trial of one process has no launcher
        met = {*self.meeting, *(_OF_MEETING if self.meeting else ())}
        names_of = [name for name in (*words.OF_LAUNCHER, *_OF_RANK) if name not in met]
        variables = {name for name, _ in words.variables(self.text)}
        return f"unset {' '.join(name for name in names_of if name not in variables)}"

    def _uncounted(self, steps: list[Step]) -> list[str]:
        """The numbers of tasks that sbatch tells no script whose options have none.

        `compat: slurm` sets them, and who finds them takes its processes for those of an srun:
        PyTorch Lightning then starts none for the other GPUs.
        """
        options = {setting.name for setting in self.job_settings}
        if any(step.is_srun and step.words for step in steps):
            return []  # srun tells its tasks how many they are
        is_counted = bool(options & {*_TASK_OPTIONS, "gpus-per-task"})
        names_of = [] if is_counted else ["SLURM_NTASKS", "SLURM_NPROCS"]
        names_of += [] if options & _PER_NODE else ["SLURM_NTASKS_PER_NODE"]
        variables = {name for name, _ in words.variables(self.text)}
        return [name for name in names_of if name not in variables]

    def _without_launcher_in_python(self, text: str) -> str:
        """A script of Python's with a line that takes the same from it; others as they are."""
        is_trial = any(setting.name == "array" for setting in self.job_settings)
        at = shell_text.first_line_of_python(text)
        if is_trial or not at:
            return text
        names_of = (*words.OF_LAUNCHER, *_OF_RANK)
        rows = text.split("\n")
        own = f'[__import__("os").environ.pop(_, None) for _ in "{" ".join(names_of)}".split()]'
        return "\n".join([*rows[:at], own, *rows[at:]])

    def _put_counts(self, text: str) -> list[str]:
        """Give a batch script the numbers of tasks that it has in Slurm, where its pod has one.

        Args:
            text: setup and the script, which alone are told: what they start may be ranks.

        Returns:
            Lines for the script, as a rank is told its own numbers.
        """
        size, options = self.size, {setting.name for setting in self.job_settings}
        if size.task_count == size.node_count or not options & _TASK_OPTIONS:
            return []
        counts = {
            "SLURM_NTASKS": size.task_count,
            "SLURM_NPROCS": size.task_count,
            "SLURM_NTASKS_PER_NODE": size.per_node,
            "SLURM_TASKS_PER_NODE": size.per_node,
            "SLURM_CPUS_PER_TASK": size.cpus_per_task or 1,
        }
        variables = {name for name, _ in words.variables(PRINTING.sub("", text))}
        for name, count in counts.items():
            if name in variables:
                self.body.env[name] = str(count)
                why = "it follows from what the script asks for"
                line = self._line_with(re.compile(rf"\$\{{?{name}\b").search)
                self.say(line, f"${name}", Outcome.CHANGED, f"env.{name}", why)
        return [
            f"export {name}={counts[name]}"
            for name in ("SLURM_NTASKS", "SLURM_NPROCS")
            if name in variables
        ]

    def _end_of(self, statement: Statement) -> int:
        """Where a statement ends with what parts it from the next on its line: ``;`` or ``&``."""
        match = _SEPARATOR.match(self.text, statement.end)
        return statement.end if match is None else match.end()

    def _last_activation(self) -> int:
        """The last statement before the program that activates something; -1 for none."""
        last = -1
        programs = [n for n, other in enumerate(self.statements) if self._runs_program(other)]
        programs += [] if programs else self._sourced_program()
        for number, statement in enumerate(self.statements):
            if number in programs[-1:]:
                break  # it is the program, whatever it activates before
            if self._is_activation(statement):
                last = number
            elif number in programs:
                break
        return last

    def _sourced_program(self) -> list[int]:
        """The number of the last line that does something, where it is a file that is read.

        No other line runs a program: ``. commands/$SLURM_ARRAY_TASK_ID.sh`` does.
        """
        harmless = words.IDLE | words.ENDING | {"export", "cd", *words.SLURM_TOOLS}
        numbers = [
            number
            for number, statement in enumerate(self.statements)
            if not statement.function
            and not self._is_harmless(statement, harmless)
            and any(command.words for command in statement.commands)
        ]
        return numbers[-1:] if numbers and self._sources(self.statements[numbers[-1]]) else []

    def _check_submits(self) -> None:
        """Refuse a script that only submits others."""
        if any(map(self._does_more, self.statements)):
            return
        lines = [
            command.line
            for statement in self.statements
            for command in statement.commands
            if words.any_of([token.text for token in command.words], ("sbatch",))
        ]
        line = lines[0] if lines else self._line_with(_SUBMITTING.search)
        if line:
            raise self.refuse(
                line,
                "the script only submits another",
                "convert that one; a script in a here-document becomes a file of its own first",
            )

    def _does_more(self, statement: Statement) -> bool:
        """Whether a statement does more than to write the script of another job, and submit it."""
        if self._runs_program(statement):
            return True
        for command in statement.commands:
            texts = [token.text for token in command.words]
            is_next = words.any_of(texts, ("sbatch",)) and _AFTER_THIS.search(" ".join(texts))
            if is_next or (texts and not words.any_of(texts, _OF_SUBMITTING)):
                return not statement.function
        return False

    def _check_assembled(self) -> None:
        """Refuse an `eval` of a step with ranks whose words the script puts together."""
        steps = {
            name
            for name, texts in self.contents.items()
            if any(words.base(text.split(" ")[0]) == "srun" for text in texts)
        }
        for statement in self.statements if self.size.task_count > 1 else []:
            for command in statement.commands:
                read = {name for word in command.words for name, _ in words.variables(word.text)}
                if words.base(command.name) == "eval" and read & steps:
                    raise self.refuse(
                        command.line,
                        "the words of the step are put together as the script runs",
                        "write srun and what it runs out, with an array for what is not always "
                        "there, and convert that",
                    )

    def _check_remote(self) -> None:
        for statement in self.statements:
            for command in statement.commands:
                texts = [token.text for token in command.words]
                if words.any_of(texts, words.STARTING_ELSEWHERE):
                    raise self.refuse(
                        command.line,
                        "the script starts processes on the other nodes by ssh, which pods "
                        "do not have",
                        "start them with srun, torchrun or mpirun, and convert that",
                    )

    def _finish(self) -> None:
        body = self.body
        whole = "\n".join([body.setup, body.script, *body.command])
        if "SLURM_TMPDIR" in whole and "SLURM_TMPDIR" not in self.set_names:
            body.env.setdefault("SLURM_TMPDIR", "/tmp")  # noqa: S108 - the pod's own
            self.say(0, "$SLURM_TMPDIR", Outcome.CHANGED, "env.SLURM_TMPDIR", "the pod's own /tmp")
        self._note_secrets(whole)
        code = PRINTING.sub("", words.without_comments(whole))
        looks = [match[0] for match in _LOOK_FOR_SRUN.finditer(code)]
        if looks:
            line = self._line_with(_LOOK_FOR_SRUN.search)
            self.say(line, looks[0], Outcome.NOT_CARRIED, "", _NO_SRUN)
        if _calls_srun(code):
            why = "a pod has no srun: take it off, or write the step as a command of its own"
            line = self._line_with(_calls_srun)
            self.say(line, "srun", Outcome.NOT_CARRIED, "", why)
        in_variable = self._container_in_variable(code)
        if in_variable or _CONTAINER.search(code):
            line = self._line_with(in_variable or _CONTAINER.search)
            self.say(line, "singularity", Outcome.NOT_CARRIED, "image", NO_CONTAINERS)
        self._say_image_file()
        starts_here = not {"chdir", "workdir"} & {setting.name for setting in self.job_settings}
        body.verdicts += missing_in_pods.of_script(self.statements, starts_here=starts_here)
        body.verdicts += missing_in_pods.files_of_output(self.statements, self.job_settings)
        gpus = self.size.gpus_per_node or self.size.gpus or 0
        body.verdicts += missing_in_pods.numbers_of_gpus(self.statements, self.constants, gpus)
        self._say_own_path()
        if "SLURM_JOB_NAME" in {name for name, _ in words.variables(code)}:
            body.reads_name = self._line_with(re.compile("SLURM_JOB_NAME").search) or 1
        host_program = _ON_OTHER_HOSTS.search(code)
        if host_program is not None:
            line = self._line_with(_ON_OTHER_HOSTS.search)
            self.say(line, host_program[1].strip(), Outcome.NOT_CARRIED, "", OTHER_HOSTS)
        slurm_program = _OF_SLURM.search(code)
        if slurm_program is not None:
            why = "a pod has no programs of Slurm's"
            line = self._line_with(_OF_SLURM.search)
            self.say(line, slurm_program[1].strip(), Outcome.NOT_CARRIED, "", why)
        if _SUBMITTING.search(code):
            outcome, why = TOOLS["sbatch"]
            self.say(self._line_with(_SUBMITTING.search), "sbatch", outcome, "", why)
        body.uses_slurm = body.uses_slurm or bool(re.search(r"\bSLURM_", whole))
        self._say_unset(re.sub(r"^\s*#.*$", "", whole, flags=re.MULTILINE))

    def _say_image_file(self) -> None:
        """Say that a program gets the file of an image, where the report has no word of it yet."""
        for statement in [] if self._has_image() else self.statements:
            for command in statement.commands:
                texts = [token.text for token in command.words]
                if words.any_of(texts, _ON_IMAGE_FILES):
                    continue
                for text in map(scanner.unquote, texts[1:]):
                    if _IMAGE_FILE.search(text):
                        self.say(command.line, text, Outcome.NOT_CARRIED, "image", OF_FILE)
                        return

    def _has_image(self) -> bool:
        """Whether the report has a word of an image, or of a container that nobody starts."""
        names = {setting.name for setting in self.job_settings + self.body.settings}
        return "container-image" in names or any(
            verdict.to == "image" for verdict in self.body.verdicts
        )

    def _container_in_variable(self, code: str) -> Callable[[str], object] | None:
        """What finds `$SINGULARITY exec`, where that variable is such a program; None for none."""
        names_of = [
            name
            for name, texts in self.contents.items()
            if any(
                words.base(text.split()[0] if "/" in text else text) in words.CONTAINERS
                for text in texts
                if text
            )
        ]
        for name in names_of:
            pattern = re.compile(rf"\$(?:{name}|\{{{name}\}})\"?\s+(?:-\S+\s+)*(?:exec|run)\s")
            if pattern.search(code):
                return pattern.search
        return None

    def _say_own_path(self) -> None:
        """Say that setup, and a command, have another path than the script."""
        own = "\n".join([self.body.setup, *self.body.command])
        if _OWN_PATH.search(words.expanded_part(PRINTING.sub("", own))):
            line = self._line_with(_OWN_PATH.search)
            if line:
                why = "the script is no file in a pod: write its path out, or take the line out"
                self.say(line, "$0", Outcome.NOT_CARRIED, "", why)

    def _other_nodes(self) -> tuple[Outcome, str, str]:
        """What becomes of the nodes of a script that starts one process."""
        hosts = self._file_of_hosts()
        who = f"a program that reads {hosts}" if hosts else self._launcher_of_julia()
        if not who:
            why = "no command that is known here starts anything on the other nodes"
            return Outcome.CHANGED, "nodes: 1", why
        why = (
            f"{who} may start ranks on the other nodes: start them with srun, torchrun or mpirun, "
            "and convert that"
        )
        return Outcome.NOT_CARRIED, "nodes: 1", why

    def _launcher_of_julia(self) -> str:
        """Julia's own mpiexec, which runs in a pod as it is, and may ask Slurm for more nodes."""
        is_called = any(self._runs(statement, ("mpiexecjl",)) for statement in self.statements)
        return "mpiexecjl" if is_called else ""

    def _file_of_hosts(self) -> str:
        """The file that the script writes for a launcher of many hosts; "" for none."""
        commands = [command for statement in self.statements for command in statement.commands]
        files = [
            target
            for command in commands
            for operator, target in command.redirections
            if operator in (">", ">>", ">|") and _HOSTS.search(target)
        ]
        files += [
            f"${name}"
            for command in commands
            if command.name == "export"
            for name, _ in shell_text.assigned_by(command)
            if _HOST_FILE.search(name)
        ]
        return next(iter(files), "")


def _calls_srun(text: str) -> bool:
    """Whether a text has an srun where a command may stand."""
    return _SRUN.search(_LOOK_FOR_SRUN.sub("", text)) is not None


def _is_script(text: str) -> bool:
    """Whether a text is a script of its own."""
    try:
        statements = scanner.parse(text)
    except scanner.ScriptError:
        return False
    texts = [token.text for st in statements for command in st.commands for token in command.words]
    return not {"{", "}"} & {*texts}
