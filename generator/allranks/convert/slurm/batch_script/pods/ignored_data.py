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

    from allranks.convert.programs.scanner import Command
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
_IGNORED_BY = (
    "{} keeps it out of what is sent: where the program reads it, mount a volume there "
    "(storage.datasets.mountPath), or name it by `--include`"
)
# A table or a list in a file, where an option says that it is data.
_TABLE = re.compile(
    r"(?:\./)?(?![$~/.-])[\w.${}=+-]+(?:/[\w.${}=+-]+)*\.(?:csv|tsv|jsonl?|txt|zip|tar|gz)"
)
# An option whose single word is a name that the program knows: `--dataset custom_dataset`.
_KEY = re.compile(r"(?i)-{1,2}[\w.-]*datasets?(?:[_-]?name)?")
_AS_OPTION = "--data"  # what is copied before a program is judged as what that is told of
_SHORT = len("-d")
_MOST = 3


def say(script: Script, variables: ShellVariables, code: str) -> list[Verdict]:
    """The data in the folder that is sent which lines read, or set variables to, a line for each.

    Of many three are enough. Where it is known what is sent, the rule that keeps each out is said,
    and nothing of what is sent; where it is not, and of what is not there, names have to do.

    Args:
        script: the script.
        variables: what its variables hold.
        code: what runs in a pod; a copy that is not in it is said by others.
    """
    verdicts: dict[str, Verdict] = {}
    for sent in sent_commands.walk(script, variables):
        command, texts = sent.command, sent.texts
        is_idle = words.any_of(texts, sent_commands.IDLE) and command.name not in _SETTING
        named = [] if is_idle else [*_named_paths(command, texts, variables)]
        for started in [] if sent.has_trained else started_words.programs(command):
            named += _copied_paths(started, variables, code)
        for started in started_words.of(command)[1:]:
            named += _named_paths(None, started, variables)
        for name, path in named:
            data = sent.below_sent(path)
            if not data or sent.has(data) or script.sends(data):
                continue
            rule = script.contents.rule(data) if script.contents is not None else ""
            if rule and not sent.has_trained:
                why = _IGNORED_BY.format(rule)
            elif _is_data(name, path, has_trained=sent.has_trained):
                why = _IGNORED
            else:
                continue
            verdicts.setdefault(data, Verdict(data, Outcome.CHANGED, "", why, command.line))
    return [*verdicts.values()][:_MOST]


def is_of_data(folder: str) -> bool:
    """Whether a folder of a name holds data, as far as its name says.

    Args:
        folder: the name.
    """
    return _DATA.fullmatch(folder) is not None


def _copied_paths(texts: list[str], variables: ShellVariables, code: str) -> list[tuple[str, str]]:
    """The paths that words copy to where programs read them: ``cp -r data $TMPDIR``."""
    if not texts or words.base(texts[0]) not in ("cp", "rsync"):
        return []
    paths = [text for text in texts[1:] if not text.startswith("-")]
    is_in_pod = bool(paths) and paths[-1] in re.sub(r"[\"']", "", code)
    return [(_AS_OPTION, variables.resolved(path)) for path in paths[:-1] if is_in_pod]


def _named_paths(
    command: Command | None, texts: list[str], variables: ShellVariables
) -> Iterator[tuple[str, str]]:
    """The paths that a command may read, or sets, each behind its option or variable; "" for none.

    Args:
        command: the command; None for one in the text of another.
        texts: its words, without their quotes.
        variables: what the script's variables hold.
    """
    pairs = [*pairwise(["", *texts])]
    assignments = command.assignments if command is not None and not texts else ()
    pairs += [("", token.text) for token in assignments]
    for before, typed in pairs:
        name, sign, value = typed.partition("=")
        if not (sign and _NAME_OF_OPTION.fullmatch(name)):
            name, value = (before, typed) if before.startswith("-") else ("", typed)
        path = variables.resolved(value)
        if not _WRITES_DATA.fullmatch(name):
            yield name, path


def _is_data(name: str, path: str, *, has_trained: bool) -> bool:
    """Whether a path is one of data or weights, as far as names say.

    What a training has written before is there, and folders of checkpoints have words of their own.
    A folder without one below it is a path behind an option, or in a variable, whose name says so:
    ``--data-dir data``, ``export DATA_ROOT=./FOR-species20K``.

    Args:
        name: the option or variable before it; "" for none.
        path: the path.
        has_trained: whether a program before it may have trained.
    """
    is_named = re.search(r"(?i)data", name) is not None
    if _CODE.search(path) or (name.isidentifier() and not is_named):
        return False
    match = _DATA.fullmatch(path) if "/" in path or not _KEY.fullmatch(name) else None
    is_path = match is not None and (
        "/" in path.strip("./") or (len(name) > _SHORT and _OF_DATA.match(name) is not None)
    )
    is_path |= is_named and _TABLE.fullmatch(path) is not None
    is_relative = _RELATIVE.fullmatch(path) is not None
    is_of_name = is_relative and _OF_FOLDER.fullmatch(name) is not None
    is_input = (
        is_relative and "/" in path.removeprefix("./") and _OF_INPUT.fullmatch(name) is not None
    )
    is_input = is_input and not (_HUB.fullmatch(path) or _OF_CODE.fullmatch(path))
    has_weights = _WEIGHTS.fullmatch(path) is not None and bool(name or "/" in path)
    is_written = has_trained or any(map(ignore.is_of_tools, path.split("/")))
    return is_path or is_of_name or ((is_input or has_weights) and not is_written)
