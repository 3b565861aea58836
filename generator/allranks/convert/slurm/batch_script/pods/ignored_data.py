"""Data of a project that do not come with it, as git ignores them: ``--data-dir data/train``."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from allranks.convert.slurm.batch_script.pods import sent_commands
from allranks.convert.slurm.batch_script.text import started_words, words
from allranks.convert.verdicts import Outcome, Verdict
from allranks.workspace import ignore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allranks.convert.scanner import Command
    from allranks.convert.slurm.batch_script.text.script import Script
    from allranks.convert.slurm.batch_script.text.shell_variables import ShellVariables

# Data below such a folder, and what is code or a setting there.
_DATA = re.compile(
    r"(?i)(?:\./|\$\{?(?:PWD|SLURM_SUBMIT_DIR)\}?/)?"
    r"(?P<folder>(?![\w-]*(?:cache|out))(?:[a-z0-9]+[-_])*(?:data|datasets?|corpus|corpora|weights|pretrained)"
    r"(?:[-_][a-z0-9]+)*)"
    r"(?:/[^\s/'\"]+)*/?|(?:\./)?models/[^\s'\"]+"
)
_CODE = re.compile(r"(?i)\.(?:py|sh|bash|ya?ml|toml|cfg|ini|ipynb|jl|r|md|m)$")
_SETTING = frozenset({"export", "declare", "typeset", "local", "readonly"})
# Names that say that their text is a folder or a file of data, and a relative path.
_NAME_OF_OPTION = re.compile(r"-{0,2}[\w.-]+")
_OF_FOLDER = re.compile(
    r"(?i)-{0,2}(?:[\w.-]*[_.-])?data(?:sets?)?[_-]?(?:dir|path|root|folder|directory|base)"
)
# Other folders and files that a program is told of by its options; not those of code.
_OF_INPUT = re.compile(
    r"(?i)--?(?!\w*(?:conf|cfg|script|code|src|module|lib|prompt|template|python|cache|work|tmp|temp"
    r"|ckpt|checkpoint|model_dir|task|test))[\w.-]*[_-](?:path|dir|root|folder)"
)
# What may be the name of a model on a hub, and no path.
_HUB = re.compile(r"[\w.-]+/[\w.-]+")
_OF_CODE = re.compile(
    r"(?i)(?:\./)?(?:src|scripts?|conf\w*|cfgs?|code|libs?|tests?|prompts?|templates?|examples?|tools?"
    r"|tasks?|runs?|experiments?)(?:/.*)?"
)
_RELATIVE = re.compile(r"(?:\.{1,2}/)*(?![$~\d.-])[\w.+-]+(?:/[\w.${}+-]+)*/?")
_OF_DATA = re.compile(
    r"(?i)-{0,2}[\w.-]*(?:data|path|dir|root|file|folder|input|corpus|train|val|test)"
)
_WRITES_DATA = re.compile(
    r"(?i)-{0,2}[\w.-]*(?:out|save|log|write|dump|result|dest|export|hydra)[\w.-]*"
)
# Files of weights and data, which projects keep out of git by their endings.
_WEIGHTS = re.compile(
    r"(?i)(?:\./|\$\{?(?:PWD|SLURM_SUBMIT_DIR)\}?/)?(?![$~/.-])[\w.${}=+-]+(?:/[\w.${}=+-]+)*"
    r"\.(?:pth?|ckpt|safetensors|h5|hdf5|npz|npy|pkl|onnx|parquet|lmdb|tfrecords?)"
)
_IGNORED = (
    "what is sent has it only where .gitignore does not keep it out, as it does with data and "
    "weights as a rule: mount a volume there (storage.datasets.mountPath), or name it by "
    "`--include`"
)
# A table or a list in a file, where an option says that it is data.
_TABLE = re.compile(
    r"(?:\./)?(?![$~/.-])[\w.${}=+-]+(?:/[\w.${}=+-]+)*\.(?:csv|tsv|jsonl?|txt|zip|tar|gz)"
)
_SHORT = len("-d")
_MOST = 3


def say(script: Script, variables: ShellVariables) -> list[Verdict]:
    """The data in the folder that is sent which lines read, or set variables to, a line for each.

    Of many three are enough.

    Args:
        script: the script.
        variables: what its variables hold.
    """
    verdicts: dict[str, Verdict] = {}
    for sent in sent_commands.walk(script, variables):
        command, texts = sent.command, sent.texts
        is_idle = words.any_of(texts, sent_commands.IDLE) and command.name not in _SETTING
        is_written = sent.has_trained
        paths = [] if is_idle else [*_data(command, texts, variables, has_trained=is_written)]
        for started in started_words.of(command)[1:]:
            paths += _data(None, started, variables, has_trained=is_written)
        for data in map(sent.below_sent, paths):
            if data and not sent.has(data):
                verdict = Verdict(data, Outcome.CHANGED, "", _IGNORED, command.line)
                verdicts.setdefault(data, verdict)
    return [*verdicts.values()][:_MOST]


def is_of_data(folder: str) -> bool:
    """Whether a folder of a name holds data, as far as its name says.

    Args:
        folder: the name.
    """
    return _DATA.fullmatch(folder) is not None


def _data(
    command: Command | None, texts: list[str], variables: ShellVariables, *, has_trained: bool
) -> Iterator[str]:
    """The paths of data in the project that a command reads, or sets.

    What a training has written before is there, and folders of checkpoints have words of their own.

    A folder without one below it is a path behind an option, or in a variable, whose name says so:
    ``--data-dir data``, ``export DATA_ROOT=./FOR-species20K``.
    """
    pairs = [(before, text) for before, text in pairwise(["", *texts])]
    sets = texts[:1] == [] or texts[0] in _SETTING
    assignments = command.assignments if command is not None and not texts else ()
    pairs += [("", token.text) for token in assignments]
    for before, typed in pairs:
        name, sign, value = typed.partition("=")
        if sets and not re.search(r"(?i)data", name):
            continue
        if not (sign and _NAME_OF_OPTION.fullmatch(name)):
            name, value = (before, typed) if before.startswith("-") else ("", typed)
        path = variables.resolved(value)
        if _WRITES_DATA.fullmatch(name) or _CODE.search(path):
            continue
        match = _DATA.fullmatch(path)
        is_of_name = _OF_FOLDER.fullmatch(name) is not None and _RELATIVE.fullmatch(path)
        is_path = match is not None and (
            "/" in path.strip("./") or (len(name) > _SHORT and _OF_DATA.match(name) is not None)
        )
        is_path |= re.search(r"(?i)data", name) is not None and bool(_TABLE.fullmatch(path))
        is_input = "/" in path.removeprefix("./") and _OF_INPUT.fullmatch(name) is not None
        is_input = is_input and not _HUB.fullmatch(path)
        is_input = is_input and bool(_RELATIVE.fullmatch(path)) and not _OF_CODE.fullmatch(path)
        has_weights = _WEIGHTS.fullmatch(path) is not None and bool(name or "/" in path)
        is_written = has_trained or any(map(ignore.is_of_tools, path.split("/")))
        if is_path or is_of_name or ((is_input or has_weights) and not is_written):
            yield path.removeprefix("./").rstrip("/")
