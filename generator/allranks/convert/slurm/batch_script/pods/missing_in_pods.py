"""What runs, and needs something that no pod has.

That is srun and a Slurm to submit to, containers and their files, the launcher of a site, other
hosts, the folders above the one that is sent, GPUs by other numbers, interfaces of other nodes,
and the file of the output.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from allranks.convert.pods.image_names import ENDING_OF_FILE
from allranks.convert.programs import scanner
from allranks.convert.slurm.batch_script.containers.images import OF_FILE
from allranks.convert.slurm.batch_script.pods import (
    chosen_gpus,
    counted_cpus,
    folders_above,
    foreign_calls,
    home_folder,
    ignored_data,
    job_numbers,
    networks,
    node_settings,
    output_files,
    pod_rights,
    python_path,
    rank_zero_name,
    run_environments,
    sent_environments,
    servers,
    unsent_folders,
    variable_files,
)
from allranks.convert.slurm.batch_script.text import (
    here_documents,
    node_loops,
    own_paths,
    set_options,
    shell_text,
    started_words,
    unreached_lines,
    words,
    xargs,
)
from allranks.convert.verdicts import Outcome, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from allranks.convert.programs.scanner import Command
    from allranks.convert.slurm.batch_script.text.script import Script
    from allranks.convert.slurm.batch_script.text.script_reading import Body, ScriptReading
    from allranks.convert.slurm.batch_script.text.shell_variables import ShellVariables

# Programs that run the steps of a workflow, and words of theirs that have Slurm run them.
_WORKFLOWS = frozenset({"nextflow", "snakemake", "toil-cwl-runner", "toil-wdl-runner", "cromwell"})
_TO_SLURM = re.compile(r"(?:.*[,/=])?slurm(?:,.*)?|--slurm.*|.*\bsbatch\b.*", re.DOTALL)
_IN_CONTAINERS = re.compile(
    r"(?:.*,)?(?:singularity|apptainer|docker|podman|shifter|charliecloud)(?:,.*)?"
    r"|--(?:use|with)-(?:singularity|apptainer|docker|podman)(?:=.*)?|-with-(?:singularity|docker)",
    re.DOTALL,
)
_STARTS_CONTAINERS = (
    "it runs its steps in containers, and a pod starts none: let it run them as they are"
)
_LAUNCHER_OF_HYDRA = re.compile(r"(?!--)\S*launcher=\S*slurm\S*")
# Their options that name the settings of a site, or who runs the steps; and settings of no site.
_OF_SETTINGS = frozenset({"-profile", "--profile", "-c", "-C", "--cluster", "--drmaa"})
_OF_FILES = ("-c", "-C")
_GENERAL = frozenset(
    {*("test", "test_full", "docker", "singularity", "apptainer", "podman", "shifter", "conda")}
    | {*("charliecloud", "mamba", "standard", "local", "localhost", "debug", "arm", "wave")}
)
_MAY_SUBMIT = (
    "it may submit jobs to Slurm, as a site's settings say, and a pod has none: let it run them "
    "where it is"
)
_SUBMITS = "it submits jobs to Slurm, and a pod has none: let it run them where it is"
# Launchers of MPI's that are not those of an MPI: bede-mpirun, mympirun, mpiexec_mpt.
_OF_SITE = re.compile(
    r"(?:[\w.]+[-_])*(?:my)?mpi(?:run|exec)(?:[-_.](?!(?:sh|py|pl|log|txt|out|exe)\b)[\w-]+)*"
)
_NO_LAUNCHER = (
    "it is no launcher that the mpi chart knows, and may ask Slurm for its nodes: write mpirun in "
    "its place"
)
NO_CONTAINERS = (
    "a pod starts no containers: name its image in image, and write what it runs in place of this "
    "line"
)
_NO_IMAGE_FILES = (
    "a pod makes no image file: take the line out, and name in image what the file was made of"
)
_MAKES_FILE = re.compile(
    r"\b(?:enroot[ \t]+(?:import|create)|(?:singularity|apptainer)[ \t]+(?:pull|build))\b"
)
_MAKES_OVERLAY = re.compile(r"\boverlay[ \t]+create\b")
_NO_OVERLAY = (
    "a pod makes no image file: take the line out, and write to the pod's own disk, or to a volume"
)
_ON_FILES_OF_CONTAINERS = "a pod starts no containers, and has no program for them: take it out"
OTHER_HOSTS = "a pod has no keys of who submits, and none of the old cluster's hosts: take it out"
SH_OF_IMAGE = (
    "sh is bash on most clusters, and in many images one that lacks much of it: write bash"
)
_MPIRUNS = words.MPIRUN | {"ibrun"}
_LOCAL_COPY = "it copies on the node itself, and an image may have no scp: write cp"
_COPIES = "it copies files between nodes: put them into the image or a volume"
# What becomes of a line that calls one of Slurm's programs; the others only ask.
TOOLS = {
    "sbatch": (Outcome.NOT_CARRIED, "it submits another job: start that when this run has ended"),
    "sbcast": (Outcome.NOT_CARRIED, _COPIES),
    "sgather": (Outcome.NOT_CARRIED, _COPIES),
}
NO_SLURM = "a pod has no programs of Slurm's"
STARTS_AGAIN = (
    f"{NO_SLURM}: a pod that is evicted is made again without it, and no run that its time has "
    "ended: give runPolicy.activeDeadlineSeconds the time of all starts together"
)
# An srun that is left where a command may stand: in $(…), behind xargs or parallel, in a text
# for a shell, or in a variable.
_SRUN = re.compile(r"(?:^|[\s;&|(`]|=[\"']?|-\w*c[ \t]+[\"'])srun(?:\s|[\"'])")
# A question whether there is one.
_LOOK_FOR_SRUN = re.compile(r"\b(?:command\s+-[vV]|which|type(?:\s+-\w+)?|hash)\s+srun\b")
# The text of a batch script.
_OF_JOB = re.compile(r"^[ \t]*(?:#SBATCH|(?:time[ \t]+)?srun)\b", re.MULTILINE)
_TEXT = re.compile(
    r"^[ \t]*(?:export[ \t]+)?([A-Za-z_]\w*)=(?:\"[^\"]*\"|'[^']*')[ \t]*$", re.MULTILINE
)
_NO_SRUN = "a pod has none, so that the other branch runs there: keep that which you want"
_IMAGE_FILE = re.compile(rf"^[^=]+{ENDING_OF_FILE}[\"']?$")
# What makes or moves such a file, and starts nothing with it.
_ON_IMAGE_FILES = (
    words.IN_EACH_RANK
    | words.CONTAINERS
    | words.UNREAD_CONTAINERS
    | {"cp", "mv", "rm", "ln", "rsync", "wget", "curl", "tar", "chmod", "sbcast", "stat"}
)
_NO_SCRIPT = "the script is no file in a pod: write its path out, or take the line out"
_SCRIPT_BESIDE = (
    "setup is a file of its own: the script is /etc/allranks/script there, without its directives "
    "and the lines of setup: write that path, or take the line out"
)
# The path of the script, as typed.
_OWN_PATH = re.compile(r"\$(?:0\b|\{0[^0-9}]*\}|BASH_SOURCE\b|\{BASH_SOURCE\b[^{}]*\})")
# The folder of the script, which Slurm runs as a copy; and a variable whose default it is.
_FOLDER_OF_SCRIPT = re.compile(
    r"(?:\$\{(?P<name>[A-Za-z_]\w*):?-[\"']?\$\([^)]*?)?"
    rf"\bdirname\s+(?:--\s+)?[\"']?{unreached_lines.OWN_PATH.pattern}"
)
_NO_FOLDER = (
    "the script is /etc/allranks/script in a pod, and in Slurm a copy in a folder of slurmd's: "
    "write the folder out, as $SLURM_SUBMIT_DIR, or the variable into env"
)
_FOLDER_BESIDE = (
    "setup is a file of its own, and the script a copy in a folder of slurmd's in Slurm: write the "
    "folder out, as $SLURM_SUBMIT_DIR"
)
_COPIES_SCRIPT = re.compile(
    r"(?:^|[;&|(])[ \t]*(?:cp|cat|rsync|install|tee|tar)\b[^;&|\n(]*?\s\"?"
    + unreached_lines.OWN_PATH.pattern,
    re.MULTILINE,
)
_COPY_OF_SCRIPT = "the copy has the script's lines without its directives and what became setup"
# What else singularity does, and starts no container for.
_OF_FILES_OF_CONTAINERS = "overlay|cache|inspect|push|verify"
# A container that is left where a command may stand, as an srun may be.
_CONTAINER = re.compile(
    r"(?:^|[\s;&|(`/]|=[\"']?)(?:[A-Za-z0-9]+[-_])?(?:singularity|apptainer|shifter)(?:_wrapper)?"
    r"[ \t]+(?:-\S+[ \t]+)*"
    rf"(?:exec|run|build|pull|shell|instance|{_OF_FILES_OF_CONTAINERS})\s"
)
_FOR_FILES = re.compile(rf"\s(?:{_OF_FILES_OF_CONTAINERS})\s")
_FOR_PROGRAMS = re.compile(r"\s(?:exec|run|shell|instance)\s")
# A question to Slurm, whose answer the script reads.
_OF_SLURM = re.compile(
    r"(?:[$<]\(|`)\s*((?:scontrol\s+show\s+(?:nodes?|job|hostnames?)|squeue|sacct|sinfo)\b[^)`|]*)"
)
# The same in Perl, which makes the file of hosts of a launcher.
_OF_SLURM_IN_PERL = re.compile(r"\bqx[\[{(/|]\s*(scontrol\s+show\s+hostnames?\b)")
# The same to another host.
_ON_OTHER_HOSTS = re.compile(r"(?:\$\(|`)\s*(ssh\s[^)`|]*)")
# Folders that some sites lend for a time, and the programs that give their paths.
_OF_WORKSPACES = re.compile(
    r"(?:^|[;&|({`])[ \t]*(ws_(?:find|allocate|list|extend|release|restore)\b[^)`|;&\n]*)",
    re.MULTILINE,
)
_NO_WORKSPACES = (
    "a workspace is a folder of the old cluster, and a pod has no program that finds it: write a "
    "path in the image, or in a volume, in its place"
)
# Who runs a script, where it asks for the name: a part of a path of theirs.
_WHO = re.compile(r"(?:\$\(|`)[ \t]*((?:whoami|logname|id[ \t]+-(?:un|nu|u[ \t]+-n))\b)[ \t]*[)`]")
_USER_OF_IMAGE = "a pod's user is the image's, and not who submits: write the name out"
# Another job that is submitted where the script reads its number.
SUBMITTING = re.compile(r"(?:\$\(|(?<!\\)`)(?:[^)`\n]*\|)?\s*sbatch\b|\beval\s+[\"']?sbatch\b")
_OTHER_JOB = (
    "what it writes is a batch script for Slurm, and no pod submits it: the file is as it was"
)
_NO_STEP = "a pod has no srun: take it off, or write the step as a command of its own"
_CALLS = TOOLS | {"srun": (Outcome.NOT_CARRIED, _NO_STEP), "": (Outcome.NOT_CARRIED, NO_SLURM)}


def say(reading: ScriptReading, code: str) -> None:
    """Say of what runs what no pod has, each with its line.

    Args:
        reading: the script, and what comes of it.
        code: what runs, without its comments and the lines that only print.
    """
    script, body = reading.script, reading.body
    looks = [match[0] for match in _LOOK_FOR_SRUN.finditer(code)]
    if looks:
        line = script.line_with(_LOOK_FOR_SRUN.search)
        body.say(line, looks[0], Outcome.NOT_CARRIED, "", _NO_SRUN)
    _say_other_jobs(script, body, code)
    code = here_documents.without_written(code)
    read_code = _without_unread(code)
    if _calls_srun(read_code):
        for line in _lines(script, read_code, _calls_srun):
            body.say(line, "srun", Outcome.NOT_CARRIED, "", _NO_STEP)
    for command in script.commands if body.script else []:
        texts = [token.text for token in command.words]
        listed = reading.variables.listed_by(texts[1:] if texts[:1] == ["eval"] else texts)
        if any(text.split()[:1] == ["srun"] for text in listed):
            path = script.text[command.start : command.end]
            body.say(command.line, path, Outcome.NOT_CARRIED, "", _NO_STEP)
    _say_containers(reading, code)
    _say_image_file(script, body)
    body.verdicts += [
        *_slurm_in_texts(script, body),
        *_of_commands(script, reading.variables),
        *foreign_calls.say(script, body.verdicts, _CALLS),
    ]
    body.verdicts += [
        *folders_above.say(script, reading.variables, reading.main_step.statement),
        *xargs.ranks(script),
    ]
    body.verdicts += [
        *_sruns_of_env(script, body),
        *pod_rights.say(script, reading.variables, code),
    ]
    body.verdicts += [*output_files.say(script), *job_numbers.say(script)]
    chosen_gpus.say(reading)
    body.verdicts += home_folder.say(script, reading.variables, code)
    body.verdicts += [
        *sent_environments.say(script, reading.variables),
        *run_environments.say(script, reading.variables),
        *unsent_folders.say(script, reading.variables, code),
        *ignored_data.say(script, reading.variables, code),
        *python_path.say(script, body),
    ]
    body.verdicts += [*servers.say(script), *node_settings.say(script), *variable_files.say(script)]
    body.verdicts += counted_cpus.say(script, body, code)
    body.notes += rank_zero_name.say(body)
    runs = "\n".join([code, *body.env.values()])
    body.verdicts += networks.say(script, reading.variables, runs)
    _say_own_path(script, body)
    asked_elsewhere = (
        (_ON_OTHER_HOSTS, Outcome.NOT_CARRIED, OTHER_HOSTS),
        (_OF_SLURM, Outcome.NOT_CARRIED, NO_SLURM),
        (_OF_SLURM_IN_PERL, Outcome.CHANGED, NO_SLURM),
        (_OF_WORKSPACES, Outcome.NOT_CARRIED, _NO_WORKSPACES),
    )
    for pattern, outcome, why in asked_elsewhere:
        _say_question(script, body, code, pattern, (outcome, why))
    who = _WHO.search(code)
    if who is not None:
        line, *_ = _lines(script, code, _WHO.search)
        body.say(line, who[1], Outcome.CHANGED, "", _USER_OF_IMAGE)
    if SUBMITTING.search(code):
        outcome, why = TOOLS["sbatch"]
        body.say(script.line_with(SUBMITTING.search), "sbatch", outcome, "", why)


def _say_question(
    script: Script, body: Body, code: str, pattern: re.Pattern[str], reason: tuple[Outcome, str]
) -> None:
    """Say in which lines a script asks something that no pod answers."""
    match = pattern.search(code)
    outcome, why = reason
    for line in _lines(script, code, pattern.search) if match is not None else []:
        is_lost = any(
            own.line == line and own.outcome is Outcome.NOT_CARRIED for own in body.verdicts
        )
        if match is None or (line and is_lost):
            continue
        is_shown = _only_shows(script, line)
        question = ((pattern.search(script.lines[line - 1]) if line else None) or match)[1].strip()
        commands = [command for command in script.commands if command.line == line]
        ends = any(set_options.ends_at(script.text, own, question) for own in commands)
        body.say(
            line,
            question,
            Outcome.CHANGED if is_shown else outcome,
            "",
            why + set_options.ENDS_THERE * ends,
        )


def _say_containers(reading: ScriptReading, code: str) -> None:
    """Say of containers that are left in what runs that a pod starts none."""
    script, body = reading.script, reading.body
    in_variable = _container_in_variable(reading.variables, code)
    if in_variable or _CONTAINER.search(code):
        for line in _lines(script, code, in_variable or _CONTAINER.search):
            why = why_no_container(script.lines[line - 1] if line else "")
            body.say(line, "singularity", Outcome.NOT_CARRIED, "image", why)
    elif _CONTAINER.search(" ".join(body.command)):  # behind a wrapper of the script's own
        line = script.line_with(_CONTAINER.search)
        body.say(line, "singularity", Outcome.NOT_CARRIED, "image", NO_CONTAINERS)


def why_no_container(text: str) -> str:
    """Why a pod does not run a line that starts a container, or makes an image for one.

    Args:
        text: the line.
    """
    if _MAKES_FILE.search(text):
        return _NO_IMAGE_FILES
    if _MAKES_OVERLAY.search(text):
        return _NO_OVERLAY
    of_files = _FOR_FILES.search(text) and not _FOR_PROGRAMS.search(text)
    return _ON_FILES_OF_CONTAINERS if of_files else NO_CONTAINERS


def _slurm_in_texts(script: Script, body: Body) -> list[Verdict]:
    """The programs of Slurm's that a shell is told of in a text: ``sh -c "sbatch again.sh"``."""
    verdicts = []
    lines = {own.line for own in body.verdicts if own.outcome is Outcome.NOT_CARRIED}
    for command in script.commands if body.script else []:
        own, *inner = started_words.programs(command)
        inner += [xargs.program(own), xargs.program_of_parallel(own)]
        programs = [words.base(own[0]) for own in inner if own]
        tools = [own for own in programs if own in {*words.SLURM_TOOLS, "srun"}]
        if tools and command.line not in lines:
            otherwise = (Outcome.NOT_CARRIED, _NO_STEP if tools[0] == "srun" else NO_SLURM)
            outcome, why = TOOLS.get(tools[0], otherwise)
            verdicts.append(Verdict(tools[0], outcome, "", why, command.line))
    return verdicts


def _sruns_of_env(script: Script, body: Body) -> list[Verdict]:
    """The variables of the pods' environment that a line runs as srun: ``export S="srun -n1"``."""
    lines = {own.line for own in body.verdicts if own.outcome is Outcome.NOT_CARRIED}
    verdicts = []
    for name, value in body.env.items():
        if words.base("".join(shell_text.split(value)[:1])) != "srun":
            continue
        line = script.line_with(re.compile(rf"\$\{{?{name}\b").search)
        if line and line not in lines:
            verdicts.append(Verdict("srun", Outcome.NOT_CARRIED, "", _NO_STEP, line))
    return verdicts


def _say_other_jobs(script: Script, body: Body, code: str) -> None:
    """Say which lines only write a batch script."""
    last_lines: dict[str, int] = {}  # of each first line of a document, of which some are alike
    for start, end, head in here_documents.only_written(code):
        rows = enumerate(map(str.strip, script.lines), 1)
        before = last_lines.get(head, 0)
        line = next((number for number, row in rows if row == head and number > before), before)
        last_lines[head] = line
        if _OF_JOB.search(code[start:end]):
            body.say(line, shell_text.short(head), Outcome.CHANGED, "", _OTHER_JOB)


def _only_shows(script: Script, line: int) -> bool:
    """Whether a line prints what it asks for, and nothing else reads it."""
    if node_loops.begins_at(script, line):
        return True
    commands = [command for command in script.commands if command.line == line]
    return bool(commands) and all(
        command.name in ("echo", "printf")
        and not shell_text.writes(command)
        and command.after not in scanner.PIPES
        and not shell_text.printed_into(command)
        for command in commands
    )


def _lines(script: Script, code: str, matches: Callable[[str], object]) -> list[int]:
    """The lines of a script of which something is true, and that run; one at least."""
    rows = {row.strip() for row in code.split("\n") if matches(row)}
    own = enumerate(words.without_comments(script.text).split("\n"), 1)
    return [line for line, row in own if row.strip() in rows] or [script.line_with(matches)]


def _without_unread(code: str) -> str:
    """The code without the texts in variables that nothing reads, once their printing is left out.

    `CMD="srun a"; echo $CMD; $CMD` is a step that became the command, and a text that is shown.
    """
    for match in _TEXT.finditer(code):
        rest = code.replace(match[0], "")
        if not re.search(rf"\$\{{?{match[1]}\b", rest):
            code = rest
    return code


def _of_commands(script: Script, variables: ShellVariables) -> list[Verdict]:
    """What commands need: a Slurm to submit to, the launcher of a site, or one that runs steps."""
    functions = {statement.function for statement in script.statements}
    options = {setting.name for setting in script.settings}
    verdicts: list[Verdict] = []
    for command in script.commands:
        texts = started_words.behind_srun([scanner.unquote(token.text) for token in command.words])
        program = shell_text.short(next(iter(words.unwrapped(texts)), ""))
        if words.any_of(texts, words.SLURM_TOOLS):
            continue
        if _submits(texts):
            verdicts.append(Verdict(program, Outcome.NOT_CARRIED, "", _SUBMITS, command.line))
        elif words.any_of(texts, _WORKFLOWS) and _has_site_settings(texts):
            verdicts.append(Verdict(program, Outcome.NOT_CARRIED, "", _MAY_SUBMIT, command.line))
        elif words.any_of(texts, _WORKFLOWS) and any(map(_IN_CONTAINERS.fullmatch, texts[1:])):
            verdicts.append(
                Verdict(program, Outcome.NOT_CARRIED, "", _STARTS_CONTAINERS, command.line)
            )
        if _is_of_site(texts) and texts[0] not in functions:
            verdicts.append(
                Verdict(program, Outcome.NOT_CARRIED, "command", _NO_LAUNCHER, command.line)
            )
        is_of_node = not any("container-image" in word.text for word in command.words)
        inner = [texts, *started_words.in_variables(variables, [texts])]
        if {words.base(own) for own in words.unwrapped(texts)[:1]} & _MPIRUNS and "sh" in texts:
            inner.append(texts[texts.index("sh") :])
        texts = next((own for own in inner if own[:1] == ["sh"]), texts)
        is_file = texts[:1] == ["sh"] and len(texts) > 1 and not texts[1].startswith("-")
        if is_file and is_of_node and "container-image" not in options:
            verdicts.append(
                Verdict(" ".join(texts[:2]), Outcome.CHANGED, "", SH_OF_IMAGE, command.line)
            )
        if texts[:1] == ["scp"] and not words.reaches_other_host(texts):
            verdicts.append(Verdict("scp", Outcome.CHANGED, "", _LOCAL_COPY, command.line))
        verdicts += _other_hosts_in_text(command)
    return verdicts


def _other_hosts_in_text(command: Command) -> Iterator[Verdict]:
    """Say of commands in a text for another shell that reach other hosts that no pod does."""
    texts = words.unwrapped(started_words.behind_srun([token.text for token in command.words]))
    text = shell_text.shell_text(texts) or ""
    for inner in shell_text.commands_of(text):
        if words.reaches_other_host(token.text for token in inner.words):
            path = shell_text.short(text[inner.start : inner.end])
            yield Verdict(path, Outcome.NOT_CARRIED, "command", OTHER_HOSTS, command.line)


def _submits(texts: Sequence[str]) -> bool:
    """Whether a command has Slurm run what it starts."""
    is_workflow = words.any_of(texts, _WORKFLOWS)
    sign = _TO_SLURM if is_workflow else _LAUNCHER_OF_HYDRA
    return any(map(sign.fullmatch, texts[1:]))


def _has_site_settings(texts: Sequence[str]) -> bool:
    """Whether a workflow has the settings of a site, by which Slurm may run its steps."""
    options = [(*text.partition("=")[::2], after) for text, after in pairwise([*texts, ""])]
    settings = [(name, value or after) for name, value, after in options if name in _OF_SETTINGS]
    # A profile says who runs the steps; without any, a file may. `snakemake -c 4` counts cores.
    has_profile = any(name not in _OF_FILES for name, _ in settings)
    for name, value in settings:
        is_file = name in _OF_FILES
        is_count = value.isdecimal() or value.strip("\"'").startswith("$")
        if "slurm" in value or (is_file and not has_profile and not is_count):
            return True
        if not is_file and not {*value.split(",")} <= _GENERAL:
            return True
    return False


def _is_of_site(texts: Sequence[str]) -> bool:
    """Whether a command starts the launcher of a site."""
    rest = words.by_name(words.unwrapped(texts))
    name = words.base(rest[0]) if rest else ""
    is_own = bool(rest) and rest[0].startswith("./")
    return not is_own and name not in words.MPIRUN and _OF_SITE.fullmatch(name) is not None


def _say_image_file(script: Script, body: Body) -> None:
    """Say that a program gets the file of an image, where the report has no word of it yet."""
    for statement in [] if _has_image(script, body) else script.statements:
        for command in statement.commands:
            texts = [token.text for token in command.words]
            if words.any_of(texts, _ON_IMAGE_FILES):
                continue
            for text in map(scanner.unquote, texts[1:]):
                if _IMAGE_FILE.search(text):
                    body.say(command.line, text, Outcome.NOT_CARRIED, "image", OF_FILE)
                    return


def _has_image(script: Script, body: Body) -> bool:
    """Whether the report has a word of an image, or of a container that nobody starts."""
    names = {setting.name for setting in script.settings + body.settings}
    return "container-image" in names or any(verdict.to == "image" for verdict in body.verdicts)


def _container_in_variable(variables: ShellVariables, code: str) -> Callable[[str], object] | None:
    """What finds `$SINGULARITY exec`, where that variable is such a program; None for none."""
    names_of = [
        name
        for name, texts in variables.contents.items()
        if any(
            words.base(text.split()[0] if "/" in text else text) in words.CONTAINERS
            for text in texts
            if text
        )
    ]
    for name in names_of:
        pattern = re.compile(rf"\$(?:{name}|\{{{name}\}})\"?\s+(?:-\S+\s+)*(?:exec|run|overlay)\s")
        if pattern.search(code):
            return pattern.search
    return None


def _say_own_path(script: Script, body: Body) -> None:
    """Say that setup, and a command, have another path than the script."""
    command = [] if _has_text_of_shell(script, body.command) else body.command
    own = own_paths.without_unread(script, "\n".join([body.setup, *command]))
    own = unreached_lines.without_others(script, own)
    in_script = unreached_lines.without_defaults(own_paths.without_unread(script, body.script))
    in_script = words.expanded_part(in_script)
    own = shell_text.without_shown(shell_text.without_printing(own))
    text = own_paths.without_unread(script, script.text)
    if unreached_lines.OWN_PATH.search(words.expanded_part(own)):
        line = words.line_with(text, unreached_lines.OWN_PATH.search)
        if line:
            why = _SCRIPT_BESIDE if body.script else _NO_SCRIPT
            why = _FOLDER_BESIDE if _FOLDER_OF_SCRIPT.search(own) else why
            body.say(line, _own_path(text, line), Outcome.NOT_CARRIED, "", why)
    elif (match := _FOLDER_OF_SCRIPT.search(in_script)) is not None:
        line = words.line_with(text, _FOLDER_OF_SCRIPT.search)
        name = match["name"]
        outcome = Outcome.NOT_CARRIED if name else Outcome.CHANGED
        path = f"${name}" if name else _own_path(text, line)
        body.say(line, path, outcome, f"env.{name}" if name else "", _NO_FOLDER)
    elif _COPIES_SCRIPT.search(words.expanded_part(body.script)):
        line = script.line_with(_COPIES_SCRIPT.search)
        body.say(line, _own_path(script.text, line), Outcome.CHANGED, "", _COPY_OF_SCRIPT)


def _own_path(text: str, line: int) -> str:
    """What a line of a script calls the script: ``$0``, ``${BASH_SOURCE[0]}``."""
    match = _OWN_PATH.search(text.split("\n")[line - 1])
    return match[0] if match is not None else "$0"


def _has_text_of_shell(script: Script, command: Sequence[str]) -> bool:
    """Whether a command is a shell with a text of the script's, which reads words of its own."""
    if len(command) < 3 or words.base(command[0]) not in shell_text.SHELLS:  # noqa: PLR2004
        return False
    return any(
        scanner.unquote(token.text) == command[2] and not unreached_lines.OWN_PATH.search(own)
        for other in script.commands
        for token in other.words
        for own in [words.expanded_part(token.text)]
    )


def _calls_srun(text: str) -> bool:
    """Whether a text has an srun where a command may stand."""
    return _SRUN.search(_LOOK_FOR_SRUN.sub("", text)) is not None
