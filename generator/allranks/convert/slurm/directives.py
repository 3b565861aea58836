"""The directives that are carried where they belong, and the function of each: `CARRIED`."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from allranks import names
from allranks.convert.slurm import amounts, blanks, placement
from allranks.convert.slurm.batch_script.containers import images, singularity_environment
from allranks.convert.slurm.batch_script.text import sent_folder, shell_text, words
from allranks.convert.slurm.draft import OF_STEP, key_of
from allranks.convert.verdicts import Named, Outcome
from allranks.humanize import list_some

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from allranks.convert.slurm.draft import Draft
    from allranks.convert.slurm.options import Setting

_TRAINER = "trainer"
_OF_ROOT = (
    "; as a rule root alone may look into /root, and the pods' user has another home: mount it "
    "elsewhere, and tell the program where (HF_HOME, TORCH_HOME)"
)


# --- how long, and what then ----------------------------------------------------------------------
_OF_NODE = (
    "a folder of the node is a volume of kind hostPath: give it a claim where nodes do not share "
    "it, and the pods its owner where they write (podSecurityContext.runAsUser)"
)
_IN_IMAGE = (
    "Pyxis starts in the image's own folder (WORKDIR), and a run in the folder that is sent: say "
    "workingDir where the program counts on the first"
)
_LOG_OF_TASK = (
    f"a task's log is that of its trial, a release of its own, which `{names.CLI} sweep run` "
    "removes with it when it ends: sweep.keep says which stay (failed, all)"
)


def _time(job: Draft, setting: Setting) -> None:
    seconds = amounts.seconds(setting.value)
    if seconds is None:
        job.say("time", Outcome.NOT_CARRIED, "", amounts.no_time(setting.value))
    elif seconds:
        to = ("runPolicy", "activeDeadlineSeconds")
        job.put("time", to, seconds)
        job.say("time", Outcome.CHANGED, ".".join(to), _when_it_counts(job))
    else:
        job.say("time", Outcome.CARRIED, "", "a run has no limit unless it is given one")


def _when_it_counts(job: Draft) -> str:
    """Of what time a run's deadline is."""
    why = (
        "it counts from when the pods are made, and so while they wait for a node and an image, "
        "but not in a queue"
    )
    if "array" in job.settings:
        why += (
            f"; each task had that time, and so has each trial of `{names.CLI} sweep run`: a grid "
            "of plain Helm has it for all of them together"
        )
    return why


def _log(job: Draft, setting: Setting) -> None:
    if "array" in job.settings:
        job.say(setting.name, Outcome.CHANGED, "", _LOG_OF_TASK)


def _hold(job: Draft, setting: Setting) -> None:
    job.put(setting.name, ("runPolicy", "suspend"), True)


# What a rank may be asked for a checkpoint by.
_ASKING = ("USR1", "USR2", "WINCH", "URG", "CONT", "IO")


def _signal(job: Draft, setting: Setting) -> None:
    signal = amounts.signal(setting.value)
    if signal is None:
        job.say("signal", Outcome.NOT_CARRIED, "", amounts.no_signal(setting.value))
        return
    to = "runPolicy.terminationGracePeriodSeconds"
    job.put("signal", ("runPolicy", "terminationGracePeriodSeconds"), max(signal.seconds, 1))
    if signal.name in _ASKING and not signal.to_script:
        job.put("signal", ("runPolicy", "checkpointSignal"), f"SIG{signal.name}")
        why = "ranks with a handler get it as their pod ends, so long before it is killed"
        job.say("signal", Outcome.CHANGED, f"runPolicy.checkpointSignal, {to}", why)
    elif signal.name == "TERM":
        why = "a pod is told to end so long before it is killed"
        if signal.to_script:
            why += "; `B:` had the script alone told, and here its programs are, too"
        job.say("signal", Outcome.CHANGED, to, why)
    else:
        job.say(
            "signal",
            Outcome.NOT_CARRIED,
            to,
            f"the time is carried, and the signal is SIGTERM, not SIG{signal.name}: let the "
            "program handle "
            "SIGTERM as well",
        )


def put_end(job: Draft) -> None:
    """Let the grace period that --signal asks for end when the time of --time is over.

    Slurm sends the signal so long before the end; Kubernetes begins to end the pods at the run's
    deadline, and kills them a grace period later.
    """
    time, signal = job.settings.get("time"), job.settings.get("signal")
    policy = job.fields.values.get("runPolicy", {})
    deadline = policy.get("activeDeadlineSeconds")
    grace = policy.get("terminationGracePeriodSeconds")
    of_step = job.body.settings  # its signal is for the end of its own time
    if not deadline or not grace or (time in of_step) != (signal in of_step):
        return
    to = ("runPolicy", "activeDeadlineSeconds")
    if grace >= deadline:
        job.put("signal", ("runPolicy", "terminationGracePeriodSeconds"), deadline)
        why = f"the time before the end is that of --time, {deadline:,} s, and no more"
        job.say("signal", Outcome.NOT_CARRIED, "runPolicy.terminationGracePeriodSeconds", why)
        return
    job.put("time", to, deadline - grace)
    notice = f"the pods are told to end {grace:,} s before the time is over, as --signal says"
    job.say("time", Outcome.CHANGED, ".".join(to), f"{notice}; {_when_it_counts(job)}")


def put_limit(job: Draft) -> None:
    """Carry the time after which the script ends its step as that of the run, if it is shorter."""
    limit, to = job.body.limit, ("runPolicy", "activeDeadlineSeconds")
    if limit is None:
        if "time" not in job.settings:
            job.fields.note(
                "the script asks for no time: Slurm ended it with its partition's, and a run has "
                "no limit unless runPolicy.activeDeadlineSeconds is one",
                is_general=True,
            )
        return
    own = job.fields.values.get(to[0], {}).get(to[1])
    key = job.key(limit.text, limit.line)
    if own and own <= limit.seconds:
        job.fields.say((key,), Outcome.CHANGED, "", "the run has a shorter limit, that of --time")
        return
    job.fields.put(to, limit.seconds, (key,))
    why = "it counts from the start of the pods, and so with setup; what follows it is not run"
    job.fields.say((key,), Outcome.CHANGED, ".".join(to), why)


# A script that has its job start again itself.
_REQUEUES = re.compile(r"\bscontrol[ \t]+requeue\b")


def put_policy(job: Draft) -> None:
    """Say whether a run that fails starts again."""
    if "requeue" not in job.settings:
        job.fields.put(("runPolicy", "backoffLimit"), 0)
        starts_again = _REQUEUES.search(words.without_comments(job.text)) is not None
        as_there = "" if starts_again else ", as in Slurm"
        job.fields.note(
            f"a run that fails does not start again{as_there} (runPolicy.backoffLimit is 0); a pod "
            "that its node has lost does",
            is_general=not starts_again,
        )
    else:
        why = "a run that fails starts again, as often as runPolicy.backoffLimit says"
        if "time" in job.settings:
            why += ", and the time of --time is that of all starts together"
        job.say("requeue", Outcome.CHANGED, "runPolicy.backoffLimit", why)


# --- words about it -------------------------------------------------------------------------------


def _label(job: Draft, setting: Setting) -> None:
    if re.match(r"[<\[]\w", setting.value):  # for a person: `-A <project_name>`
        why = f"fill in what stands for {setting.value}"
        job.say(setting.name, Outcome.NOT_CARRIED, f"labels.{setting.name}", why)
        return
    if re.search(r"\$[A-Za-z_{(]", setting.value):
        why = f"sbatch fills in no variables: write the name that stands for {setting.value}"
        job.say(setting.name, Outcome.NOT_CARRIED, f"labels.{setting.name}", why)
        return
    value = re.sub(r"[^A-Za-z0-9_.-]+", "-", setting.value)[:63].strip("-_.")
    if value:
        job.put(setting.name, ("labels", setting.name), value)
        why = setting.option.why if setting.option else ""
        job.say(setting.name, Outcome.CHANGED, f"labels.{setting.name}", why)
    else:
        why = "it is a blank for a person" if setting.value.strip() else "it is empty"
        job.say(setting.name, Outcome.CHANGED, "", why)


def _annotation(job: Draft, setting: Setting) -> None:
    job.put(setting.name, ("annotations", setting.name), setting.value)
    job.say(
        setting.name,
        Outcome.CHANGED,
        f"annotations.{setting.name}",
        setting.option.why if setting.option else "",
    )


def chdir(job: Draft, setting: Setting) -> None:
    """Carry the folder that the job, or its step, starts in."""
    is_of_step = setting.line in {other.line for other in job.body.settings}
    # A directive has no shell.
    if sent_folder.is_sent(setting.value, ()) if is_of_step else setting.value in (".", "./"):
        job.say(setting.name, Outcome.CHANGED, "", "it starts there anyway")
    elif not setting.value.startswith("/") or "%" in setting.value:
        is_unknown = "$" in setting.value
        why = "it is known on the old cluster alone" if is_unknown else "it is no absolute path"
        job.say(setting.name, Outcome.NOT_CARRIED, "workingDir", why)
    elif job.body.goes_back and setting.name in ("chdir", "workdir"):
        why = f"the script goes back to the folder that `{names.CLI} sbatch` and `submit` send"
        job.say(setting.name, Outcome.CHANGED, "", why)
    elif "workingDir" in job.fields.values and not setting.name.startswith(OF_STEP):
        job.say(setting.name, Outcome.CHANGED, "workingDir", "the script goes to another folder")
    elif job.body.reads_folder and job.body.script and is_of_step:
        job.put(setting.name, ("workingDir",), setting.value)
        why = "all of the script starts there, and not the step alone"
        job.say(setting.name, Outcome.CHANGED, "workingDir", why)
    elif job.body.reads_folder and is_of_step:
        # The step starts there, and the lines before it where the script does.
        setup = f"{job.body.setup}cd {shlex.quote(setting.value)}\n"
        job.put(setting.name, ("setup",), setup)
        job.say(setting.name, Outcome.CARRIED, "setup")
    else:
        job.put(setting.name, ("workingDir",), setting.value)


def _exported(job: Draft) -> set[str]:
    """The variables that the script exports."""
    return {
        word.text.partition("=")[0]
        for command in shell_text.commands_of(job.text)
        if command.name == "export"
        or (command.name in ("declare", "typeset") and shell_text.exports(command))
        for word in command.words[1:]
        if not word.text.startswith("-")
    }


def _assigned(job: Draft) -> set[str]:
    """The variables that the script sets, exported or not."""
    commands_of = shell_text.commands_of(job.text)
    return {name for command in commands_of for name, _ in shell_text.assigned_by(command)}


def _stands_before_its_program(job: Draft, setting: Setting, name: str) -> bool:
    """Whether a script that is run as it is has a step's variable before its program."""
    pattern = rf"(?<![\w$.-]){re.escape(name)}="
    return setting.name.startswith(OF_STEP) and re.search(pattern, job.body.script) is not None


def _has_defaults(value: str) -> bool:
    """Whether a text has one whatever its variables are: ``${A:-1}``, and no text of a program."""
    variables = words.variables(value)
    is_plain = not re.search(r"\$\(|`|\"", value)
    return is_plain and bool(variables) and all(has_default for _, has_default in variables)


def _put_variable(job: Draft, setting: Setting, name: str, value: str) -> None:
    """Give the run a variable; a step's behind setup, where that may set it, too."""
    setup = str(job.fields.values.get("setup", ""))
    is_set_before = re.search(rf"\b{name}\b|^\s*(?:source|\.)\s", setup, re.MULTILINE)
    if setting.name.startswith(OF_STEP) and not job.body.script and is_set_before:
        line = f"export {name}={shlex.quote(value)}\n"
        job.put(setting.name, ("setup",), f"{setup}{line}")
    else:
        job.put(setting.name, ("env", name), value)


def _why_lost(lost: Sequence[str], own: Collection[str]) -> list[str]:
    """What to do about variables that no rank has.

    Args:
        lost: their names.
        own: those that the script sets.
    """
    reasons = []
    if unexported := [name for name in lost if name in own]:
        names_of_script = " ".join(unexported)
        reasons.append(f"the ranks have what the script exports: `export {names_of_script}` there")
    if others := [name for name in lost if name not in own]:
        names_lost = ", ".join(others)
        reasons.append(f"a pod has not the environment of who submits: write {names_lost} into env")
    return reasons


def _is_of_steps(job: Draft) -> bool:
    """Whether srun takes the job's --export for its own, which sbatch tells it.

    Source: sbatch(1), ``--export=NONE`` and SLURM_EXPORT_ENV.
    """
    commands_of = shell_text.commands_of(job.text)
    steps = [own for own in commands_of if words.any_of([w.text for w in own.words], ("srun",))]
    has_own = any(setting.name in ("export", "srun export") for setting in job.body.settings)
    return bool(steps) and not has_own and "SLURM_EXPORT_ENV" not in job.text


def _set_by_modules(job: Draft) -> list[str]:
    """What the script has modules set in its environment, in words; [] for nothing."""
    texts = [[word.text for word in own.words[:2]] for own in shell_text.commands_of(job.text)]
    loads = (["module", "load"], ["module", "add"])
    loads_any = any(own[:1] == ["ml"] or own in loads for own in texts)
    return ["what `module load` sets"] if loads_any else []


def _others_of_ranks(job: Draft, setting: Setting, parts: Sequence[str]) -> list[str]:
    """What ranks have of the script that a step had not, by an --export.

    Args:
        job: the job.
        setting: the option, of a step or of the job.
        parts: what it names.
    """
    is_all = "ALL" in map(str.upper, parts)
    if setting.name.startswith(OF_STEP):
        return [] if is_all else sorted(_exported(job) - {own.partition("=")[0] for own in parts})
    is_none = [part.upper() for part in parts] in (["NONE"], ["NIL"])
    is_of_steps = is_none and _is_of_steps(job)
    return [*sorted(_exported(job)), *_set_by_modules(job)] if is_of_steps else []


def export(job: Draft, setting: Setting) -> None:
    """Carry the variables that an option gives a text."""
    parts = [part.strip() for part in setting.value.split(",") if part.strip()]
    names_of = {part.partition("=")[0] for part in parts}
    exported, assigned = _exported(job), _assigned(job)
    is_of_step = setting.name.startswith(OF_STEP)
    lost = []
    in_container = singularity_environment.is_started(job.text)
    dead = {
        name: singularity_environment.why_dead(name)
        for name in sorted(names_of)
        if in_container and singularity_environment.is_of_program(name)
    }
    for part in parts:
        name, equals, value = part.partition("=")
        if in_container:
            name = singularity_environment.inside(name)
        if name in dead or _stands_before_its_program(job, setting, name):
            continue
        if is_of_step and name in names.RESERVED_ENV and name in assigned:
            continue  # the script's own, which the chart sets for each rank
        if equals and re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) and "$" not in value:
            _put_variable(job, setting, name, value)
        elif equals and is_of_step and _has_defaults(value) and not job.body.script:
            setup = job.fields.values.get("setup", "")
            job.put(setting.name, ("setup",), f'{setup}export {name}="{value}"\n')
        elif name in exported and (not equals or value.strip('"{}$') == name):
            continue  # the step has it from the script
        elif is_of_step and not equals and name in assigned:
            continue  # srun had it not either: the script exports it to nobody
        elif equals or part.upper() not in ("ALL", "NONE", "NIL"):
            lost.append(name)
    is_none = [part.upper() for part in parts] in (["NONE"], ["NIL"])
    others = _others_of_ranks(job, setting, parts)
    besides = (
        "; the step had not what the script exports besides, and a rank has: " if others else ""
    )
    besides += list_some(others, 4)
    if lost or dead:
        reasons = [f"{name}: {why}" for name, why in dead.items()]
        reasons += _why_lost(lost, assigned if is_of_step else set())
        job.say(setting.name, Outcome.NOT_CARRIED, "env", "; ".join(reasons) + besides)
    elif is_none:
        outcome = Outcome.CHANGED if others else Outcome.CARRIED
        why = f"a pod has not the environment of who submits{besides}"
        job.say(setting.name, outcome, "env" if others and is_of_step else "", why)
    elif any("=" in part for part in parts) or others:
        why = f"a pod has these, and no other of who submits{besides}"
        to = "script" if is_of_step and job.body.script else "env"
        job.say(setting.name, Outcome.CHANGED, to, why)


def _begin(job: Draft, setting: Setting) -> None:
    if setting.value.strip() == "now":
        job.say("begin", Outcome.CARRIED, "", "it starts when there is room")


def waits_for_its_name(value: str) -> bool:
    """Whether a dependency names no job: it waits for those of the same name, or for nothing.

    Args:
        value: the value of --dependency.
    """
    return value.strip() in ("", "singleton")


_NAMESAKE = (
    "Slurm queues the second job of a name until the first has ended, and no run waits for "
    "another: do `allranks wait FIRST` before you start the second"
)


def _dependency(job: Draft, setting: Setting) -> None:
    if setting.value.strip() == "singleton":
        job.say("dependency", Outcome.CHANGED, "", _NAMESAKE)
    elif waits_for_its_name(setting.value):
        job.say("dependency", Outcome.CARRIED)


# --- Shifter and Pyxis ----------------------------------------------------------------------------


def _container_image(job: Draft, setting: Setting) -> None:
    parts = images.image(setting.value)
    has_folder = "container-workdir" in job.settings or job.fields.values.get("workingDir")
    # Shifter, whose option is --image, starts in the folder that it is called from, as a run does.
    folder_reasons = [] if has_folder or setting.name == "image" else [_IN_IMAGE]
    if parts is None:
        why = "; ".join((images.lack_of(setting.value), *folder_reasons))
        job.say(setting.name, Outcome.NOT_CARRIED, "image", why)
        return
    for key, value in parts.items():
        job.put(setting.name, ("image", key), value)
    reasons = ["the # behind the registry is Pyxis'"] if "#" in setting.value else []
    reasons += folder_reasons
    outcome = Outcome.CHANGED if reasons else Outcome.CARRIED
    job.say(setting.name, outcome, "image", "; ".join(reasons))


def _container_mounts(job: Draft, setting: Setting) -> None:
    text = setting.value if "$(" in setting.value else setting.value.replace(";", ",")
    mount(job, key_of(setting.name), text)


_OWN_TMP = "the pod's own /tmp, which begins empty and goes with it, is there, and not the node's"


def _why_not_mounted(mounts: images.Mounts) -> list[str]:
    """What of the folders of a container a pod does not have as they are, and why."""
    reasons = []
    if mounts.over_image:
        hidden = ", ".join(mounts.over_image)
        reasons.append(f"{hidden} would hide what image and pod have there: mount it elsewhere")
    if mounts.images:
        files = ", ".join(mounts.images)
        reasons.append(f"{files}: a pod mounts no file of an image: unpack it into a volume")
    if mounts.of_tmp:
        folders = ", ".join(mounts.of_tmp)
        reasons.append(f"{folders}: it is in the pod's own /tmp: let the program use it there")
    if mounts.wrong:
        wrong = ", ".join(mounts.wrong)
        reasons.append(f"{wrong} is known on the old cluster alone: give a claim in storage")
    for part, flag in mounts.unknown:
        reasons.append(f"{part}: {flag} is no flag of a mount, and is left out")
    return reasons


def mount(job: Draft, key: str, text: str) -> None:
    """Carry folders of the nodes as volumes, and say it of a field of the report."""
    mounts = images.mounts(text, _assigned(job))
    job.has_own_folder |= mounts.has_here or bool(mounts.workspace)
    base = ("podTemplate", "spec")
    if mounts.mounts:
        job.fields.put((*base, "volumes"), mounts.volumes, (key,))
        job.fields.put(
            (*base, "containers", Named(_TRAINER)), {"volumeMounts": mounts.mounts}, (key,)
        )
    if mounts.workspace:
        job.fields.put(("workspace", "mountPath"), mounts.workspace, (key,))
    has_home_of_root = any(f"{own['mountPath']}/".startswith("/root/") for own in mounts.mounts)
    no_slurm = f"a pod has no Slurm, nor {list_some(mounts.of_slurm, 4)}"
    besides = f"; {no_slurm}" if mounts.of_slurm else ""
    besides += f"; {_OWN_TMP}" if mounts.has_whole_tmp else ""
    folders = [volume["hostPath"]["path"] for volume in mounts.volumes]
    if to_fill_in := list(filter(blanks.FOLDER.fullmatch, folders)):
        besides += f"; {list_some(to_fill_in)}: where it is a blank for a person, fill it in"
    reasons = _why_not_mounted(mounts)
    if reasons:
        why = "; ".join(reasons) + besides
        has_others = len(mounts.mounts) > len({part for part, _ in mounts.unknown})
        why += f"; the others: {_OF_NODE}" if has_others else ""
        job.fields.say((key,), Outcome.NOT_CARRIED, "podTemplate.spec.volumes", why)
    elif mounts.of_slurm and not (mounts.mounts or mounts.workspace or mounts.has_here):
        job.fields.say((key,), Outcome.CHANGED, "", no_slurm)
    elif mounts.has_tmp and not (mounts.mounts or mounts.workspace or mounts.has_here):
        outcome = Outcome.CHANGED if mounts.has_whole_tmp else Outcome.CARRIED
        why = _OWN_TMP if mounts.has_whole_tmp else "the pod's own /tmp"
        job.fields.say((key,), outcome, "", why)
    elif (mounts.workspace or mounts.has_here) and not mounts.mounts:
        why = f"the folder that `{names.CLI} sbatch` and `submit` send is there{besides}"
        to = "workspace.mountPath" if mounts.workspace else ""
        job.fields.say((key,), Outcome.CHANGED, to, why)
    else:
        why = _OF_NODE + _OF_ROOT * has_home_of_root
        if mounts.workspace or mounts.has_here:
            why += (
                f"; the folder that the job is submitted from is the one that `{names.CLI} sbatch` "
                "and `submit` send, and what is written there goes with the pod"
            )
        job.fields.say((key,), Outcome.CHANGED, "podTemplate.spec.volumes", why + besides)


def _container_env(job: Draft, setting: Setting) -> None:
    """Name the variables that a container was to have of who submits."""
    own = _assigned(job)
    own |= {
        token.text.partition("=")[0]
        for command in shell_text.commands_of(job.text)
        for token in command.assignments
    }
    own |= {*words.ALWAYS, *names.RESERVED_ENV, *job.fields.values.get("env", {})}
    parts = [part.strip().partition("=")[0] for part in setting.value.split(",")]
    lost = [part for part in parts if part and part not in own and not part.startswith("SLURM_")]
    if lost:
        why = f"a pod has not the environment of who submits: write {list_some(lost, 4)} into env"
        job.say(setting.name, Outcome.NOT_CARRIED, "env", why)


def _container_workdir(job: Draft, setting: Setting) -> None:
    chdir(job, setting)


def _container_readonly(job: Draft, setting: Setting) -> None:
    job.put(setting.name, ("security", "containerSecurityContext", "readOnlyRootFilesystem"), True)


CARRIED: dict[str, Callable[[Draft, Setting], None]] = {
    "time": _time,
    **dict.fromkeys(("output", "error"), _log),
    "hold": _hold,
    "signal": _signal,
    "account": _label,
    "qos": _label,
    "wckey": _label,
    "comment": _annotation,
    "extra": _annotation,
    "nodelist": placement.nodelist,
    "exclude": placement.nodelist,
    "constraint": placement.constraint,
    "prefer": placement.constraint,
    "contiguous": placement.topology,
    "switches": placement.topology,
    "segment": placement.topology,
    "consolidate-segments": placement.topology,
    "chdir": chdir,
    "workdir": chdir,
    "export": export,
    "begin": _begin,
    "dependency": _dependency,
    **dict.fromkeys(("container-image", "image"), _container_image),
    **dict.fromkeys(("container-mounts", "volume"), _container_mounts),
    "container-env": _container_env,
    "container-workdir": _container_workdir,
    "container-readonly": _container_readonly,
}
