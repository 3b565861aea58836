"""What commands of a script need that a pod has not.

That is a Slurm to submit to, the launcher of a site, and the folders above the one that is sent.
"""

from __future__ import annotations

import re
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING

from allranks import names
from allranks.convert import scanner
from allranks.convert.slurm import shell_text, words
from allranks.convert.verdicts import Outcome, Verdict
from allranks.humanize import plural

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from allranks.convert.scanner import Command, Statement
    from allranks.convert.slurm.options import Setting

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
_LAUNCHER_OF_HYDRA = re.compile(r"\S*launcher=\S*slurm\S*")
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
_OUTPUT_IS_LOG = (
    f"what is written is the run's log, and no file: take the line out, and see `{names.CLI} logs`"
)
_CHOOSES_GPUS = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
_SUBMITS = "it submits jobs to Slurm, and a pod has none: let it run them where it is"
# Launchers of MPI's that are not those of an MPI: bede-mpirun, mympirun, mpiexec_mpt.
_OF_SITE = re.compile(
    r"(?:[\w.]+[-_])*(?:my)?mpi(?:run|exec)(?:[-_.](?!(?:sh|py|pl|log|txt|out|exe)\b)[\w-]+)*"
)
_NO_LAUNCHER = (
    "it is no launcher that the mpi chart knows, and may ask Slurm for its nodes: write mpirun in "
    "its place"
)
_ABOVE = re.compile(r"(?:^|(?<=[=:,\"']))\.\.(?:/[^\s\"':,;]*)?(?=$|[\s\"':,;])")
_NOT_SENT = (
    "it is above the folder that is sent: send that above (`--workspace ..`), and let the script "
    "begin with a `cd` into this one"
)
_SUBMIT_DIR = re.compile(r'"?(?:\$\{?SLURM_SUBMIT_DIR\}?|\$\{?PWD\}?|\.)"?/?')


def of_script(statements: Sequence[Statement], *, starts_here: bool) -> list[Verdict]:
    """What no pod has, each with its line.

    Args:
        statements: those of the script.
        starts_here: whether it starts in the folder that is sent.
    """
    functions = {statement.function for statement in statements}
    verdicts: list[Verdict] = []
    is_here = starts_here
    for command in (command for statement in statements for command in statement.commands):
        texts = [scanner.unquote(token.text) for token in command.words]
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
        above = _above(command) if is_here else ""
        if above:
            verdicts.append(Verdict(above, Outcome.NOT_CARRIED, "", _NOT_SENT, command.line))
        goes = texts[:1] in (["cd"], ["pushd"]) and texts[1:2] != []
        # Where it goes is not known; and one word of folders above is enough.
        is_here = is_here and not above and not (goes and not _SUBMIT_DIR.fullmatch(texts[1]))
    return verdicts


def files_of_output(statements: Sequence[Statement], settings: Sequence[Setting]) -> list[Verdict]:
    """The lines that name the file of the job's output: in a pod it is the log of the run.

    Args:
        statements: those of the script.
        settings: its directives.
    """
    named = [setting.value for setting in settings if setting.name in ("output", "error")]
    patterns = [_pattern_of(text) for text in (*named, "slurm-%j.out", "slurm-%A_%a.out")]
    file = re.compile("|".join(filter(None, patterns)))
    verdicts = []
    for command in (command for statement in statements for command in statement.commands):
        texts = [token.text for token in command.words]
        match = file.search(" ".join(texts[1:]))
        if match is not None and not words.any_of(texts, words.IDLE | words.SLURM_TOOLS):
            # A link to no file is made all the same.
            is_link = words.any_of(texts, ("ln",))
            outcome = Outcome.CHANGED if is_link else Outcome.NOT_CARRIED
            verdicts.append(Verdict(match[0], outcome, "", _OUTPUT_IS_LOG, command.line))
    return verdicts


def numbers_of_gpus(
    statements: Sequence[Statement], constants: Mapping[str, str], gpus: int
) -> list[Verdict]:
    """The lines that choose GPUs by numbers which no pod has.

    Args:
        statements: those of the script.
        constants: its variables whose text is known.
        gpus: how many a pod has; 0 where nobody says it.
    """
    verdicts = []
    for command in (command for statement in statements for command in statement.commands):
        for token in (*command.assignments, *command.words):
            name, _, value = token.text.partition("=")
            numbers = words.resolve(value, constants) if name in _CHOOSES_GPUS else None
            is_list = numbers is not None and re.fullmatch(r"[0-9]{1,3}(?:,[0-9]{1,3})*", numbers)
            if gpus and numbers and is_list and _hides(numbers.split(","), gpus):
                why = (
                    f"a pod has {plural(gpus, 'GPU')}, whose numbers begin at 0: take the line out"
                )
                verdicts.append(Verdict(token.text, Outcome.NOT_CARRIED, "", why, command.line))
    return verdicts


def _hides(numbers: Sequence[str], gpus: int) -> bool:
    """Whether numbers of GPUs hide some of a pod's: CUDA takes those before the first wrong one."""
    visible = list(takewhile(lambda number: int(number) < gpus, numbers))
    return len(visible) < min(len(numbers), gpus)


def _pattern_of(file: str) -> str:
    """What finds a file of output in a script, where Slurm's variables stand for ``%j``.

    "" for a file whose name has no number of the job, which may be any other.
    """
    own = [part for part in re.split(r"(%[0-9]*[jJAaxNu])", file.rpartition("/")[2]) if part]
    if not {part[-1] for part in own if part[0] == "%"} & {*"jJAa"}:
        return ""
    return r"(?<![\w.-])" + "".join(
        r"\$\{?SLURM_\w+\}?" if part[0] == "%" else re.escape(part) for part in own
    )


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
        if "slurm" in value or (is_file and not has_profile and not value.isdecimal()):
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


def _above(command: Command) -> str:
    """A path above the folder that the command runs in; "" for none."""
    texts = [token.text for token in command.words]
    if words.any_of(texts, words.IDLE):
        return ""
    targets = [target for _, target in command.redirections]
    for text in (*(token.text for token in command.assignments), *texts, *targets):
        match = _ABOVE.search(text)
        if match is not None:
            return match[0]
    return ""
