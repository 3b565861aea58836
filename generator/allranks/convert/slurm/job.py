"""A batch script of Slurm as values.

The directives say how large the job is and where it runs, the script what it runs. `options` has a
verdict for each directive; this module puts those that are carried where they belong.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.convert.chart_values import finish, image_demands
from allranks.convert.slurm import (
    arrays,
    blanks,
    command_line,
    directive_comments,
    directives,
    image_programs,
    input_variables,
    launcher_image,
    options,
    placement,
    resources,
    site_folders,
    sizes,
    task_counts,
)
from allranks.convert.slurm.batch_script import reader
from allranks.convert.slurm.batch_script.containers import host_paths, singularity_environment
from allranks.convert.slurm.batch_script.setup import option_variables, unset_variables
from allranks.convert.slurm.batch_script.steps import srun_environment
from allranks.convert.slurm.batch_script.text import (
    here_documents,
    launcher_variables,
    printing_functions,
    shell_text,
    unreached_lines,
)
from allranks.convert.slurm.draft import Draft, key_of
from allranks.convert.verdicts import Conversion, Fields, Outcome, dotted
from allranks.errors import InputError
from allranks.humanize import plural
from allranks.sweep import naming
from allranks.values.rules.names import nearest_name
from allranks.values.sources import STDIN_NAME

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from allranks.convert.slurm.options import Setting
    from allranks.workspace.contents import Contents

KIND = "sbatch script"

_DIRECTIVE = re.compile(rb"^#SBATCH(?:[\s-]|$)", re.MULTILINE)
_SCRIPT = re.compile(rb"#!\s*\S*(?:sh|bash|python[0-9.]*|env\s)")
_NAME_MAX = 45  # leaves room for what pods and submits put behind a name
# Letters without a width, as people copy them from a page.
_UNSEEN = re.compile("[\u200b-\u200d\u2060\ufeff]+")
_COUNTED_IN_SCRIPT = (
    "the number is known where the script runs: the run has that of the job; write another into "
    "nodes and procsPerNode"
)
_NO_MPI = "the ranks meet at MASTER_ADDR: for a program of MPI's write `workload: mpi`"
# Why a step has not its own of these where another has it: a pod has one container.
_OF_ONE_POD = {
    "container-image": "a pod has one image (that of line {0.line}): make two runs",
    "container-mounts": "a pod has one list of mounts, that of line {0.line}: add these there",
    "container-workdir": "the run starts in {0.value}: write a `cd` before the program",
}
# What becomes of a step's option that has one text among others.
_BY_VALUE = {
    ("kill-on-bad-exit", "0"): (
        Outcome.CHANGED,
        "the others went on where a rank failed; here they end with it",
    ),
    ("wait", "0"): (
        Outcome.CHANGED,
        "the others went on where one had ended; here they end with one that fails",
    ),
    ("mpi", "none"): (Outcome.CARRIED, ""),
    ("no-kill", "off"): (Outcome.CARRIED, "a job ends with a lost node anyway"),
    ("input", "none"): (Outcome.CARRIED, ""),
    ("input", "/dev/null"): (Outcome.CARRIED, ""),  # a pod has no other input
    ("distribution", "arbitrary"): (Outcome.NOT_CARRIED, srun_environment.OF_HOSTFILE),
}
# Those of them whose option ends in a value with another text alone.
_WITHOUT_VALUE = frozenset({"mpi", "no-kill"})
# Other batch systems, by what their directives begin with.
_SYSTEMS = {
    "#PBS": "PBS",
    "#BSUB": "LSF",
    "#$": "Grid Engine",
    "#COBALT": "Cobalt",
    "#OAR": "OAR",
}
# Of a script that names none; values without an image are not valid.
_IMAGE = {"repository": "pytorch/pytorch", "tag": "2.8.0-cuda12.8-cudnn9-runtime"}
# Types of GPUs of Pascal and Maxwell, which PyTorch's builds with CUDA 12.8 do not know any more.
# Source: PyTorch's release notes of 2.8, "CUDA toolkit version and architecture support update".
_OF_OLD_GPUS = re.compile(
    r"(?i)(?:nvidia[-_]|tesla[-_]|geforce[-_])*(?:p100|p40|p4|p6000|m40|m60|gtx[-_]?(?:9\d\d|10[5-8]0)\w*"
    r"|10[678]0(?:ti)?|titan[-_]?x\w*)(?![a-z0-9])"
)
_OF_CUDA_126 = "2.8.0-cuda12.6-cudnn9-runtime"
# Any but root: as in Slurm, who submits is no user of the image's. That image's own is root.
_USER = 1000
_NO_ROOT = (
    "pods do not run as root, as the script's shell did not: where the image's user is root, say "
    "another in security.podSecurityContext.runAsUser"
)
_NO_IMAGE = (
    "the script names none: this one has PyTorch alone; give one that has what the script loads"
)
_FOR_LAUNCHER = f", and PyTorch, whose launcher starts the run ({image_demands.LAUNCHER})"
_GROUP_OF_AMD = (
    "a user other than root opens /dev/kfd and /dev/dri as one of the nodes' group for them "
    "(render, or video): name its number in security.podSecurityContext.supplementalGroups"
)
_OF_NVIDIA = ", for the GPUs of AMD's: this one's PyTorch is for NVIDIA's"
_OWN_NAME = "the script reads the name that Slurm gives it, and a release may have another"
_IN_PLACE = "this one has PyTorch alone: give one that has what the script's has"


def is_script(data: bytes) -> bool:
    """Whether a file is a batch script and no manifest: it has a directive, or begins as one."""
    return _SCRIPT.match(data) is not None or _DIRECTIVE.search(data) is not None


def convert(
    data: bytes,
    source: str,
    *,
    words: Sequence[str] = (),
    args: Sequence[str] = (),
    namespace: str = "",
    contents: Contents | None = None,
    lossy: bool = False,
    is_submitted: bool = False,
    environment: Mapping[str, str] | None = None,
) -> Conversion:
    """A batch script as values.

    Args:
        data: the script.
        source: its name.
        words: options of a command line, as sbatch takes them; they win over the script's.
        args: words behind the script's name.
        namespace: the namespace of the run; "" for none.
        contents: what is sent of the folder that it is submitted from; None where nobody knows.
        lossy: convert a script that waits for another job, too.
        is_submitted: the values are submitted at once, and their release has another name than the
            job.
        environment: the variables of who submits, where sbatch would read them; None for none.

    Raises:
        InvalidValues: it cannot be a run; the problems have their lines.
        InputError: it is no batch script.
    """
    own: dict[str, str] = {}
    job = Draft(source, own, Fields(own, {}))
    text = _text(data, source, job)
    lines = text.split("\n")
    parsed = options.directives(lines)
    typed_settings = command_line.read(words)
    _refuse_blanks(job, text, parsed)
    _refuse_parts(job, parsed)
    of_variables = input_variables.settings(environment or {}, typed_settings)
    for note in input_variables.notes(environment or {}, of_variables):
        job.fields.note(note)
    settings = [*parsed.settings, *of_variables, *typed_settings]
    if not lossy:
        _refuse_dependency(job, settings)
    pairs, settings = options.rivals(settings), options.standing(settings)
    _declare(job, settings)
    for setting, rival in pairs:
        why = f"--{rival.name} stands in its place, and of the two a job has the last"
        key = job.key(key_of(setting.name), setting.line)
        job.fields.say((key,), Outcome.CHANGED, "", why)
    text = option_variables.put_defaults(_wrapped(job, text), settings)
    text, of_end = unreached_lines.cut(text, _names(job))
    text, of_container = singularity_environment.carry(
        launcher_variables.inline(printing_functions.inline(here_documents.inline(text)))
    )
    text, of_host = host_paths.carry(text)
    job.text = text
    job.size = sizes.read(settings)
    job.body = reader.read(
        text, source=source, size=job.size, settings=settings, args=args, contents=contents
    )
    job.body.verdicts.extend([*of_end, *of_container, *of_host])
    _put_body(job, args)
    for setting in job.body.settings:
        if not _is_of_one_container(job, setting):
            _declare_step(job, setting)
    resources.put_size(job)
    task_counts.keep(job)
    for option, function in directives.CARRIED.items():
        if option in job.settings:
            function(job, job.settings[option])
    directives.put_end(job)
    directives.put_limit(job)
    directives.put_policy(job)
    placement.put_maker(job)
    arrays.put_array(job, is_submitted=is_submitted)
    _drop_counts(job)
    task_counts.put_unasked(job)
    _say_sizes(job)
    _say_rest(job, parsed)
    site_folders.say(job, contents)
    image_programs.say(job)
    conversion = _done(job, namespace, is_submitted=is_submitted)
    comments = directive_comments.of(lines, {setting.line for setting in parsed.settings})
    return replace(conversion, comments=comments)


def _names(job: Draft) -> set[str]:
    """The names of a job's options, and of those that say the same in another way."""
    own_names = {*job.settings}
    return own_names.union(*(own for own in resources.FAMILIES if own_names.intersection(own)))


def _wrapped(job: Draft, text: str) -> str:
    """The script that runs: that of ``--wrap``, where the command line has one."""
    wrap = job.settings.get("wrap")
    if wrap is None:
        return text
    if wrap.line:
        why = "sbatch reads it from its own command line alone: what runs is the script"
        job.say("wrap", Outcome.CHANGED, "", why)
        return text
    job.say("wrap", Outcome.CARRIED, "command")
    return f"#!/bin/bash\n{wrap.value}\n"  # sbatch has sh, as which bash runs it


def _say_sizes(job: Draft) -> None:
    """Say what became of the options that say how large the job is."""
    outcomes = job.size.outcomes
    job_nodes, nodes = job.size.nodes, job.body.nodes
    if job_nodes and nodes and nodes < job_nodes and "nodes" not in outcomes:
        why = f"the job's step runs on {nodes} of its {job_nodes} nodes"
        outcomes["nodes"] = (Outcome.CHANGED, "nodes", why)
    for name, (outcome, to, why) in outcomes.items():
        job.say(name, outcome, to, why)


def _drop_counts(job: Draft) -> None:
    """Take from a script the numbers of tasks that `compat: slurm` sets and sbatch did not."""
    values, names_of = job.fields.values, job.body.uncounted
    if values.get("compat") != "slurm" or not values.get("script") or not names_of:
        return
    rows = values["script"].split("\n")
    if rows[1].startswith("unset "):
        rows[1] += f" {' '.join(names_of)}"
    else:
        rows.insert(1, f"unset {' '.join(names_of)}")
    job.fields.values["script"] = "\n".join(rows)


def _text(data: bytes, source: str, job: Draft) -> str:
    if not data.strip():
        raise InputError(f"{source} is empty", hint="name a batch script")
    if data.startswith(codecs.BOM_UTF8):
        data = data.removeprefix(codecs.BOM_UTF8)
        job.fields.note(
            "the script has a mark of the byte order, which sbatch refuses; it was taken off"
        )
    text = data.decode(errors="replace").replace("\0", "\ufffd")
    _check_encoding(text, source)
    if "\r\n" in text:
        text = text.replace("\r\n", "\n")
        job.fields.note(
            "the script has the line ends of DOS, which sbatch refuses; they were taken off"
        )
    text = text.replace("\r", "\n") if "\n" not in text else text.replace("\r", "")
    unseen = [n for n, row in enumerate(text.split("\n"), 1) if _UNSEEN.fullmatch(row.strip())]
    if unseen:
        text = re.sub(rf"(?m)^[ \t]*{_UNSEEN.pattern}[ \t]*$", "", text)
        job.fields.note(
            f"line {unseen[0]} has nothing but a letter that is not seen (U+200B), which a shell "
            "takes for a command; such lines were emptied"
        )
    if not text.startswith("#!"):
        job.fields.note(
            "sbatch wants a first line such as #!/bin/bash; the script was read as bash's"
        )
    return text


def _check_encoding(text: str, source: str) -> None:
    """Refuse a letter that is no UTF-8, but in a comment: it would be lost in silence."""
    if "\ufffd" not in text:
        return
    for line, row in enumerate(re.split("\r\n|\n|\r", text), 1):
        is_comment = row.lstrip().startswith("#") and not row.startswith("#SBATCH")
        if "\ufffd" in row and not is_comment:
            raise InputError(
                "the script is not UTF-8", source=f"{source}:{line}", hint="save it as UTF-8"
            )


def _refuse_blanks(job: Draft, text: str, parsed: options.Directives) -> None:
    """Refuse a template: ``#SBATCH --nodes={{ nodes }}``."""
    for line, row in enumerate(text.split("\n")[: parsed.first_command - 1], 1):
        blank = blanks.OF_DIRECTIVES.search(row) if row.startswith("#SBATCH") else None
        if blank is not None:
            hint = f"fill in what stands for {blank[0]}"
            raise job.refuse(line, "the script is a template, which sbatch does not read", hint)


def _refuse_parts(job: Draft, parsed: options.Directives) -> None:
    parts = [setting for setting in parsed.settings if setting.name in ("hetjob", "packjob")]
    if parts:
        raise job.refuse(
            parts[0].line,
            f"the job has {plural(len(parts) + 1, 'part')} of different pods, and those of a run "
            "are alike",
            "make a script of each part and convert those",
        )


def _refuse_dependency(job: Draft, settings: Sequence[Setting]) -> None:
    """Refuse to start at once what was to wait for a job, whose results it may read."""
    setting = next((own for own in reversed(settings) if own.name == "dependency"), None)
    if setting is None or directives.waits_for_its_name(setting.value):
        return
    raise job.refuse(
        setting.line,
        f"--dependency={setting.value.strip()} waits for another job, and no run does",
        f"start it when that has ended, as in `{names.CLI} wait FIRST && {names.CLI} sbatch "
        "SCRIPT`, without this option; --lossy leaves the option out",
    )


def _declare(job: Draft, settings: Sequence[Setting]) -> None:
    """Make each option a field of the report."""
    for setting in settings:
        name = setting.name
        if setting.option is None:
            flag = f"-{name}" if len(name) == 1 else f"--{name}"
            key = job.key(flag, setting.line)
            near = options.nearest(name, "sbatch")
            why = "it is no option of sbatch's, or one of a plugin of your site's"
            job.fields.leave((key,), f"{why}: did you mean --{near}?" if near else why)
            continue
        key = key_of(name)
        if key in job.own:
            second_key = job.key(key, job.lines[key])
            is_list = name == "mail-type"
            why = "a later one adds to it" if is_list else "a later one stands in its place"
            why = f"{setting.variable} stands in its place" if setting.variable else why
            job.fields.say((second_key,), Outcome.CHANGED, "", why)
        job.own[key] = setting.value or name
        job.lines[key] = setting.line
        job.settings[name] = setting


def _is_of_one_container(job: Draft, setting: Setting) -> bool:
    """Whether an earlier step has the same for its container: what is said of that holds here."""
    earlier = job.settings.get(setting.name)
    is_of_container = setting.name.startswith("container-")
    return is_of_container and earlier is not None and earlier.value == setting.value


def _outcome_of_whole_job(setting: Setting, to: str) -> tuple[Outcome, str, str]:
    """What becomes of a step's option where the run has that of the job.

    Args:
        setting: the option.
        to: the value that the job's own becomes; no step's does.
    """
    why = "the step has the whole job"
    if setting.name == "gpus-per-task" and setting.option is not None:
        why += f"; {setting.option.why}"
    if setting.name == "exclude" and "$" in setting.value:
        why = "the script knows them where it runs: write them into scheduling.avoidNodes"
    return Outcome.CHANGED, "" if setting.name in resources.OF_JOB else to, why


def _declare_step(job: Draft, setting: Setting) -> None:
    """The options of the srun that starts the ranks; those of the size were read with the step."""
    name = setting.name
    if setting.option is None:
        flag = f"srun -{name}" if len(name) == 1 else f"srun --{name}"
        why = "it is no option of srun's, or one of a plugin of your site's"
        if not setting.value:
            why += f"; it is taken for one without a value: write {flag[5:]}=VALUE where it has one"
        job.fields.leave((job.key(flag, setting.line),), why)
        return
    family = next((family for family in resources.FAMILIES if name in family), (name,))
    is_new = not any(other in job.settings for other in family)
    if is_new and len(family) > 1 and "$" in setting.value:
        why = f"{setting.value} is known where the script runs: write the number into the values"
        job.fields.leave((job.key(f"srun --{name}", setting.line),), why)
        return
    is_place = name in ("nodelist", "exclude", "time", "signal") and "$" not in setting.value
    if is_new and (name.startswith("container-") or len(family) > 1 or is_place):
        _declare(job, [setting])
        return
    key = job.key(f"srun --{name}", setting.line)
    default_outcome = (setting.option.outcome, setting.option.to, setting.option.why)
    outcome, to, why = job.body.step_outcomes.get(name, default_outcome)
    is_count = name in ("nodes", "ntasks", "ntasks-per-node") and "$" in setting.value
    if is_count and not shell_text.variable_alone(setting.value).startswith("SLURM_"):
        outcome, why = Outcome.CHANGED, _COUNTED_IN_SCRIPT
    elif name == "time" and not is_new:
        outcome, why = Outcome.CHANGED, "the run has the limit of the job, and its ranks no other"
    elif name in resources.OF_JOB or len(family) > 1:
        outcome, to, why = _outcome_of_whole_job(setting, to)
    elif name == "mpi" and setting.value != "none" and job.body.workload != "mpi":
        outcome, to = Outcome.CHANGED, ""
        why = "one process meets no others" if job.body.script else _NO_MPI
    elif name == "export":
        job.say(key, outcome, to, why)
        directives.export(job, replace(setting, name=key))
        return
    elif name == "chdir":
        job.say(key, Outcome.CARRIED, "workingDir")
        directives.chdir(job, replace(setting, name=key))
        return
    elif (name, setting.value) in _BY_VALUE:
        outcome, why = _BY_VALUE[name, setting.value]
        to = "" if name in _WITHOUT_VALUE else to
    elif name in _OF_ONE_POD:
        outcome, why = Outcome.NOT_CARRIED, _OF_ONE_POD[name].format(job.settings[name])
    job.fields.say((key,), outcome, to, why)


def _own_name(job: Draft) -> str:
    """The name of the job in Slurm. Source: the manual of sbatch, --job-name."""
    wrap = job.settings.get("wrap")
    if "job-name" in job.settings:
        return job.settings["job-name"].value
    if wrap is not None and not wrap.line:
        return "wrap"
    return "sbatch" if job.source == STDIN_NAME else PurePath(job.source).name


def _put_own_name(job: Draft, *, is_submitted: bool) -> None:
    """Set the name that the job has in Slurm, where the release's would be read in its place."""
    fields, line, path = job.fields, job.body.reads_name, ("env", "SLURM_JOB_NAME")
    if "SLURM_JOB_NAME" in fields.values.get("env", {}) or not (line or is_submitted):
        return
    if line:
        key = job.key("$SLURM_JOB_NAME", line)
        fields.put(path, _own_name(job), (key,))
        fields.say((key,), Outcome.CHANGED, dotted(path), _OWN_NAME)
    else:
        fields.put(path, _own_name(job))


def _done(job: Draft, namespace: str, *, is_submitted: bool) -> Conversion:
    fields = job.fields
    setting = job.settings.get("job-name")
    job_name = setting.value if setting is not None else PurePath(_own_name(job)).stem
    chart = str(fields.values["workload"])
    longest = min(_NAME_MAX, naming.NAME_MAX) if chart == "sweep" else _NAME_MAX
    name = nearest_name(job_name or "job", longest)
    if setting is not None and name != setting.value:
        job.say("job-name", Outcome.CHANGED, name, "a release's name is a Service's")
    _put_own_name(job, is_submitted=is_submitted)
    if not (fields.values.get("image") or {}).get("repository"):
        key = job.key("the image", 0)
        is_old = any(map(_OF_OLD_GPUS.match, job.size.gpu_types))
        fields.put(("image",), {**_IMAGE, "tag": _OF_CUDA_126} if is_old else {**_IMAGE}, (key,))
        is_of_amd = str(fields.values.get("gpuResource")).startswith("amd.com/")
        why = _IN_PLACE if fields.lacks("image") else _NO_IMAGE
        why += _FOR_LAUNCHER if chart == "torchrun" else ""
        why += _OF_NVIDIA if is_of_amd else ""
        fields.say((key,), Outcome.CHANGED, "image", why)
        if chart != "mpi":  # whose ssh knows users of the image alone
            fields.put(("security", "podSecurityContext", "runAsUser"), _USER)
            if is_of_amd:
                fields.note(_GROUP_OF_AMD)
    elif chart == "torchrun":
        launcher_image.note(job)
    if "podSecurityContext" not in fields.values.get("security", {}):
        fields.note(_NO_ROOT, is_general=True)
    image_demands.note(fields)
    problems = finish.problems_of(fields.values, chart, name)
    for path, _ in problems:
        # What is taken out is said, whether a directive or a line of the script has led to it.
        if not any(path[: len(to)] == to or to[: len(path)] == path for to in fields.origins):
            fields.origins[path] = (job.key(dotted(path), 0),)
    if problems:
        finish.settle(fields, chart, name)
    variables = {key_of(name): setting.variable for name, setting in job.settings.items()}
    verdicts = tuple(
        replace(
            verdict,
            path=variables.get(verdict.path) or verdict.path,
            line=job.lines.get(str(verdict.keys[0]), 0),
        )
        for verdict in fields.verdicts()
    )
    partition = job.settings.get("partition")
    return Conversion(
        kind=KIND,
        name=name,
        namespace=namespace,
        values=finish.written(fields.values),
        verdicts=verdicts,
        queue=partition.value if partition is not None else "",
        source=job.source,
        line=1,
        notes=fields.ordered_notes(),
        origins=fields.origins,
        lines={verdict.keys: verdict.line for verdict in verdicts if verdict.line},
    )


def _put_body(job: Draft, args: Sequence[str]) -> None:
    body, fields = job.body, job.fields
    inside = body.values.pop("", {})
    program: dict[str, Any] = {
        "workload": body.workload,
        "script": body.script,
        "args": list(args) if body.script else [],
        "command": [] if body.script else list(body.command),
        "setup": body.setup if body.setup.strip() else "",
        "workingDir": inside.get("working_dir") or body.working_dir,
        "image": inside.get("image"),
        **body.values,
    }
    for key, value in program.items():
        if value:
            fields.put((key,), value)
    if "mounts" in inside:
        directives.mount(job, job.key("the container's mounts", inside["line"]), inside["mounts"])
    if env := {**inside.get("env", {}), **body.env}:
        fields.put(("env",), env)
    for verdict in body.verdicts:
        key = job.key(verdict.path, verdict.line)
        fields.say((key,), verdict.outcome, verdict.to, verdict.why)
    for note in body.notes:
        fields.note(note)
    # A program may read what no line of the script has a word of; and setup is bash's, as sbatch's.
    fields.put(("compat",), "slurm")
    for name, option in unset_variables.OF_EACH_JOB.items():
        setting = job.settings.get(option)
        is_name = setting is not None and re.fullmatch(r"[A-Za-z0-9][\w.@+:/-]*", setting.value)
        if setting is not None and is_name and name not in fields.values.get("env", {}):
            fields.put(("env", name), setting.value, (key_of(option),))


def _say_rest(job: Draft, parsed: options.Directives) -> None:
    """Say what the rules say of all that nobody has spoken of."""
    paths = {verdict.path for verdict in job.fields.verdicts() if verdict.why != job.fields.unknown}
    for name, setting in job.settings.items():
        option = setting.option
        if option is None or key_of(name) in paths:
            continue
        if name in directives.CARRIED and key_of(name) in {
            str(source[0]) for source in job.fields.origins.values()
        }:
            to = next(
                ".".join(map(str, to))
                for to, source in job.fields.origins.items()
                if source == (key_of(name),)
            )
            job.say(name, Outcome.CARRIED, to)
            continue
        outcome, why = _BY_VALUE.get((name, setting.value), (option.outcome, option.why))
        is_unset = name in _WITHOUT_VALUE and (name, setting.value) in _BY_VALUE
        job.say(name, outcome, "" if is_unset else option.to, why)
    of_text = here_documents.lines(job.text) | here_documents.lines_in_quotes(job.text)
    for line in sorted({*parsed.late} - of_text):
        key = job.key("#SBATCH", line)
        job.fields.say(
            (key,),
            Outcome.CHANGED,
            "",
            f"sbatch does not read it: the first command is in line {parsed.first_command}",
        )
    for sign, line in parsed.foreign:
        key = job.key(sign, line)
        job.fields.say(
            (key,),
            Outcome.NOT_CARRIED,
            "",
            f"it is a directive of {_SYSTEMS[sign]}: write it as #SBATCH",
        )
    for word, line in parsed.stray:
        key = job.key(word, line)
        flag, sign, value = word.partition("= ")
        reason = f"write {flag}={value}, without a blank" if sign else "it is no option"
        job.fields.say(
            (key,),
            Outcome.NOT_CARRIED,
            "",
            f"{reason}: sbatch refuses a script with it (`Invalid directive`)",
        )
