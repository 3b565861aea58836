"""What programs look for in the home folder of who submits: keys, settings, and what they loaded.

A pod has none of it. What it says otherwise (a variable, an option, a folder) is named elsewhere.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks.convert.programs import scanner
from allranks.convert.slurm.batch_script.text import (
    library_variables,
    shell_text,
    started_words,
    words,
)
from allranks.convert.verdicts import Outcome, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allranks.convert.slurm.batch_script.text.script import Script
    from allranks.convert.slurm.batch_script.text.shell_variables import ShellVariables

# Programs that look for a key there, those of their words that need it, and the variable that may
# have it.
_KEYS = {
    "wandb": (
        frozenset({"login", "agent", "sync", "sweep", "launch", "online", "init"}),
        "WANDB_API_KEY",
    ),
    "huggingface-cli": (frozenset({"login", "upload"}), "HF_TOKEN"),
    "hf": (frozenset({"login", "auth", "upload"}), "HF_TOKEN"),
    "kaggle": (frozenset({"competitions", "datasets", "kernels", "models"}), "KAGGLE_KEY"),
    "aws": (frozenset({"s3", "s3api", "ecr", "sagemaker"}), "AWS_ACCESS_KEY_ID"),
    "s5cmd": (frozenset({"cp", "sync", "ls", "mv"}), "AWS_ACCESS_KEY_ID"),
    "s3cmd": (frozenset({"get", "put", "sync", "ls"}), "AWS_ACCESS_KEY_ID"),
    "gsutil": (frozenset({"cp", "rsync", "ls", "mv", "-m"}), "GOOGLE_APPLICATION_CREDENTIALS"),
    "gcloud": (frozenset({"storage", "compute", "ai"}), "GOOGLE_APPLICATION_CREDENTIALS"),
    "az": (frozenset({"storage", "ml", "acr"}), "AZURE_STORAGE_CONNECTION_STRING"),
    "rclone": (frozenset({"copy", "sync", "move", "copyto", "mount", "lsf"}), "RCLONE_CONFIG"),
}
# Texts of an option that turn it off.
_OFF = r"\"?(?i:false|none|null|no|off|0|disabled|offline)\b"
# Words by which a program is told to report to Weights & Biases, but for those that tell it not to.
_REPORTS = re.compile(
    r"(?<!no[-_])(?<!\w)(?:"
    r"-{1,2}(?![\w-]*(?<![A-Za-z])(?:no|not|disabled?|without|skip|off(?:line)?)(?![A-Za-z]))"
    rf"(?:[A-Za-z0-9]+[-_])*(?:use)?wandb(?:[-_]\w+)*(?!\S)(?![ \t]+{_OFF})"
    r"|-{1,2}(?:report[-_]to|loggers?|log[-_](?:with|to)|trackers?)[= ][\"']?(?:\w+[, ])?wandb"
    rf"|(?:-{{1,2}}|\b)(?:(?:use|run|enable|with|log)[-_])?wandb(?:[-_.]\w+)*=(?!{_OFF})"
    r"|\blogger[\w.]*=\S*wandb"
    r"|\bWANDB_(?!DISABLED)[A-Z_]+:?=(?!(?:\"\"|'')?(?:\s|\Z))"
    r"(?!\"?(?:\\?\$\{\w+:?[-=]\"?)?(?i:false|none|null|no|off|0|disabled|offline|dryrun)\b))"
)
_NO_REPORTS = re.compile(
    r"(?<!\{)\bWANDB_(?:MODE:?=\"?(?:\$\{\w+:?[-=]\"?)?(?:offline|disabled|dryrun)"
    r"|DISABLED=\"?(?i:true|1)|ANONYMOUS=\"?(?:must|allow)|API_KEY\b"
    r"(?!=(?:\"\"|'')?\s|=\"?\\?\$\{WANDB_API_KEY:?-(?:\"\"|'')?\}))"
    r"|\bwandb[ \t]+(?:login|offline|disabled)\b|wandb[-._]mode[= ]\"?(?:offline|disabled)"
    r"|-{1,2}(?:(?:no|disable|without)[-_]wandb|report[-_]to[= ]\"?none)\b"
)
_KEY_OF_REPORTS = (
    "where the program reports to Weights & Biases, it looks for its key in ~/.netrc of who "
    "submits, which a pod has not: let a Secret set WANDB_API_KEY in env"
)
# By which a program is told to publish a model on Hugging Face's hub, and what has its key.
_PUBLISHES = re.compile(
    rf"(?<![\w-])-{{1,2}}push[-_]to[-_]hub(?:=(?!{_OFF})|(?![=\w-])(?![ \t]+{_OFF}))"
)
_OF_HUB = frozenset({"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HUGGINGFACE_HUB_TOKEN"})
_KEY_OF_HUB = (
    "it is published with the key in ~/.cache/huggingface of who submits, which a pod has not: let "
    "a Secret set HF_TOKEN in env"
)
# Options by which they need none, or have it.
_OPEN = frozenset({"--token", "--no-sign-request"})
# Where Python looks for packages of who runs it; another folder it is told of.
_OF_USER = re.compile(r"--prefix[= ]\"?(?P<path>/\S*/\.local)\b")
_OTHER_HOME = (
    "Python looks for packages in .local of the home folder, which is another one in a pod: set "
    "PYTHONUSERBASE to this folder in env"
)
# Where accelerate's own settings are, as `accelerate config` writes them.
_ACCELERATE = re.compile(r"\baccelerate[\"']?\s+launch\b|\baccelerate\.commands\.launch\b")
# Options in place of these: how many processes, which precision, and how they are joined.
_WRITTEN_OUT = (
    re.compile(r"--num[-_]processes\b"),
    re.compile(r"--mixed[-_]precision\b"),
    re.compile(
        r"--(?:multi[-_]gpu|use[-_](?:deepspeed|fsdp|megatron[-_]lm|parallelism[-_]config))\b"
    ),
)
_SETTINGS = (
    "what its options do not say (how many processes, which precision, DeepSpeed) it reads from "
    "accelerate/default_config.yaml, where there is one, in {}: send that file with the code, and "
    "name it by --config_file"
)
_OF_WHO_SUBMITS = "the cache folder of who submits (HF_HOME), and a pod has none"
# By which Hugging Face's libraries ask no hub. Source: huggingface_hub, environment variables.
_OFFLINE = re.compile(r"(?:HF_HUB|TRANSFORMERS|HF_DATASETS|HF_EVALUATE|DIFFUSERS)_OFFLINE")
_CACHE_AT_HOME = (
    "models and data are read from ~/.cache/huggingface of who submits, which a pod has not, and "
    "the hub is not asked: name a folder of the image or a volume in HF_HOME, or take the line out"
)


# Words by which ollama reads its models, and those by which it gets them.
_READS_MODELS = frozenset({"serve", "run", "list", "show"})
_GETS_MODELS = frozenset({"pull", "create", "cp"})
_OLLAMA_AT_HOME = (
    "its models are in ~/.ollama of who submits, which a pod has not: have the script pull them, "
    "or name a folder of the image or a volume in OLLAMA_MODELS"
)


def say(script: Script, variables: ShellVariables, code: str) -> list[Verdict]:
    """The first line of each program that reads something there.

    Args:
        script: the script.
        variables: what its variables hold.
        code: what runs, without its comments and the lines that only print.
    """
    keys = _keys(script, variables)
    return [
        *keys,
        *([] if any(verdict.path == "wandb" for verdict in keys) else _reports(script)),
        *([] if _has_key_of_hub(keys, variables) else _publishes(script)),
        *_profiles(script),
        *_packages(script, variables, code),
        *_settings(script, variables, code),
        *_caches(script, variables),
        *_models_of_ollama(script, variables),
    ]


# Names of settings for a cloud, which stand in the home folder; who does not find one fails.
_PROFILE = re.compile(
    r"(?<![\w$])(?:AWS_(?:DEFAULT_)?PROFILE|CLOUDSDK_ACTIVE_CONFIG_NAME)="
    r"(?!(?:\"\"|'')?(?:\s|\Z))[^\s;&|]+"
)
_NO_PROFILE = (
    "it names settings in the home folder of who submits, which a pod has not, and programs that "
    "do not find them fail: take it out, and let a Secret give the keys"
)


def _profiles(script: Script) -> list[Verdict]:
    """The first line that names a profile of a cloud."""
    match = _PROFILE.search(words.without_comments(script.text))
    if match is None:
        return []
    line = script.line_with(_PROFILE.search)
    return [Verdict(match[0], Outcome.NOT_CARRIED, "", _NO_PROFILE, line)]


def _reports(script: Script) -> list[Verdict]:
    """The first line that has a program report to Weights & Biases."""
    code = shell_text.without_printing(words.without_comments(script.text))
    match = _REPORTS.search(code)
    if match is None or _NO_REPORTS.search(code):
        return []
    line = script.line_with(_REPORTS.search)
    return [Verdict("wandb", Outcome.CHANGED, "", _KEY_OF_REPORTS, line)]


def _has_key_of_hub(keys: Sequence[Verdict], variables: ShellVariables) -> bool:
    """Whether the script has the hub's key, or another line asks for it."""
    has_line = any(verdict.path in ("huggingface-cli", "hf") for verdict in keys)
    return has_line or bool(variables.set_names & _OF_HUB)


def _publishes(script: Script) -> list[Verdict]:
    """The first line that has a program publish its model."""
    code = shell_text.without_printing(words.without_comments(script.text))
    match = _PUBLISHES.search(code)
    if match is None or "huggingface-cli login" in code:
        return []
    line = script.line_with(_PUBLISHES.search)
    return [Verdict("--push_to_hub", Outcome.CHANGED, "", _KEY_OF_HUB, line)]


def _keys(script: Script, variables: ShellVariables) -> list[Verdict]:
    """The first line of each program that looks for its key there."""
    verdicts: dict[str, Verdict] = {}
    for command in script.commands:
        texts = words.unwrapped([scanner.unquote(token.text) for token in command.words])
        if words.base(next(iter(texts), "")) in {"srun", *words.CONTAINERS}:
            texts = texts[next((n for n, text in enumerate(texts) if text in _KEYS), 0) :]
        program = words.base(next(iter(texts), ""))
        needs, name = _KEYS.get(program, (frozenset(), ""))
        own = {word.text.partition("=")[0] for word in command.assignments} | variables.set_names
        has_key = own & {name, "WANDB_MODE"} or _OPEN & {*texts} or _is_login_with(texts)
        if name and not has_key and needs & {*texts[1:3]} and program not in verdicts:
            why = (
                "it looks for its key in the home folder of who submits, which a pod has not: "
                f"let a Secret set {name} in env, where the image has no key"
            )
            verdicts[program] = Verdict(program, Outcome.CHANGED, "", why, command.line)
    return [*verdicts.values()]


def _is_login_with(texts: Sequence[str]) -> bool:
    """Whether words log in with a key that stands among them: ``wandb login $KEY``."""
    return texts[1:2] == ["login"] and any(not text.startswith("-") for text in texts[2:])


def _packages(script: Script, variables: ShellVariables, code: str) -> list[Verdict]:
    """The first line that installs something where Python finds it in that home folder alone."""
    match = _OF_USER.search(code)
    if match is None or variables.set_names & {"PYTHONUSERBASE", "HOME"}:
        return []
    line = script.line_with(_OF_USER.search)
    return [Verdict(match["path"], Outcome.CHANGED, "env.PYTHONUSERBASE", _OTHER_HOME, line)]


def _settings(script: Script, variables: ShellVariables, code: str) -> list[Verdict]:
    """The first line of an accelerate whose settings may be there."""
    is_named = "--config_file" in code or "--config-file" in code
    is_written_out = all(pattern.search(code) for pattern in _WRITTEN_OUT)
    if is_named or is_written_out or not _ACCELERATE.search(code):
        return []
    folders = [name for name in ("HF_HOME", "XDG_CACHE_HOME") if name in variables.set_names]
    folder = f"the folder that {folders[0]} names" if folders else _OF_WHO_SUBMITS
    line = script.line_with(_ACCELERATE.search)
    return [Verdict("accelerate launch", Outcome.CHANGED, "", _SETTINGS.format(folder), line)]


def _caches(script: Script, variables: ShellVariables) -> list[Verdict]:
    """The first line by which models and data are read there alone."""
    if variables.set_names & library_variables.CACHES:
        return []
    for command in script.commands:
        assignments = shell_text.assignments_of(command)
        if library_variables.CACHES & {name for name, _ in assignments}:
            continue
        for name, value in assignments:
            is_on = scanner.unquote(value).lower() in ("1", "true", "yes", "on")
            if is_on and _OFFLINE.fullmatch(name):
                path = f"{name}={value}"
                return [Verdict(path, Outcome.CHANGED, "", _CACHE_AT_HOME, command.line)]
    return []


def _models_of_ollama(script: Script, variables: ShellVariables) -> list[Verdict]:
    """The first line by which ollama reads models that the script does not get."""
    if "OLLAMA_MODELS" in variables.set_names:
        return []
    verbs: dict[str, int] = {}
    for command in script.commands:
        for program in started_words.programs(command):
            if program and words.base(program[0]) == "ollama":
                verbs.setdefault(next(iter(program[1:]), ""), command.line)
    lines = [line for verb, line in verbs.items() if verb in _READS_MODELS]
    if not lines or not _GETS_MODELS.isdisjoint(verbs):
        return []
    return [Verdict("ollama", Outcome.CHANGED, "", _OLLAMA_AT_HOME, min(lines))]
