"""What a pod may not do, and what it is not: root, who submits, the folder by its old name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks.convert.slurm.batch_script.text import (
    environments,
    shell_text,
    started_words,
    words,
)
from allranks.convert.verdicts import Outcome, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allranks.convert.slurm.batch_script.text.script import Script
    from allranks.convert.slurm.batch_script.text.shell_variables import ShellVariables

OF_ROOT = "a pod of a run is no root: put what it installs, or mounts, into the image or a volume"
# set_mempolicy and mbind need CAP_SYS_NICE under the default seccomp profile of containerd and
# Docker (https://docs.docker.com/engine/security/seccomp/).
_MEMORY_POLICY = (
    "numactl may not choose memory in a pod, whose container runtime keeps set_mempolicy to "
    "CAP_SYS_NICE as a rule, and ends before the program: take the option out, or give the "
    "container that capability (security.containerSecurityContext)"
)
# perf_event_open needs CAP_PERFMON under the same profile, and NVIDIA's driver keeps a GPU's
# counters to CAP_SYS_ADMIN (https://developer.nvidia.com/ERR_NVGPUCTRPERM).
_OF_COUNTERS = frozenset(
    {*("perf", "vtune", "amplxe-cl", "advixe-cl", "likwid-perfctr", "ncu", "nv-nsight-cu-cli")}
)
_NO_COUNTERS = (
    "the image needs it, and it reads counters of the node's CPUs or GPUs, which a pod may not as "
    "a rule: give the container CAP_PERFMON, or for a GPU CAP_SYS_ADMIN "
    "(security.containerSecurityContext), where the cluster lets you"
)
_OF_MEMORY = re.compile(
    r"--(?:membind|interleave|preferred|preferred-many|localalloc|weighted-interleave)\b.*"
    r"|-[mipPlw]\S*"
)
_WHO_COMMITS = (
    "it takes name and key from the home folder of who submits, and history and remote from .git: "
    "a pod has none of them unless the image, a Secret or the folder that is sent has"
)
_GIT_VERB = re.compile(r"git (?:(?:-[Cc] \S+|-\S+) )*([\w-]+)")
_COMMITTING = frozenset({"push", "pull", "fetch", "commit"})
_INSTALLS = re.compile(
    r"(?:\S*/)?(?:python[0-9.]* (?:-m )?)?(?:(?:pip[0-9.]*|uv pip|conda|mamba) install"
    r"|(?:conda|mamba|micromamba) (?:env )?update"
    r"|(?:\S*/)?setup\.py (?:build )?(?:install|develop))\b"
    r"(?!.* (?:--user|-t|--target|--prefix|--root|--home)\b)"
)
_OF_IMAGE = (
    "an image's Python is root's as a rule, and a pod no root, so that it may not write there, and "
    "what it installs goes with the pod: install it when the image is made"
)
_OF_HISTORY = re.compile(
    r"(?<![\w./-])git[ \t]+(?:-C[ \t]+\S+[ \t]+)?"
    r"(?:rev-parse|rev-list|log|describe|diff|status|show|branch|name-rev|symbolic-ref"
    r"|checkout|switch|restore|reset|stash|merge|rebase|submodule|ls-files|clean|tag|lfs)\b"
)
_CLONES = re.compile(r"(?<![\w./-])git[ \t]+(?:clone|init)\b")
_MOVES = re.compile(r"(?:^|[;&])[ \t]*(?:cd|pushd)\b", re.MULTILINE)
_NO_HISTORY = "the history of the folder (.git) is not sent, so that git fails there: write it out"
_CHANGES_CODE = re.compile(r"\b(?:checkout|switch|restore|reset|stash|merge|rebase|submodule|lfs)$")
_OTHER_CODE = (
    "the history of the folder (.git) is not sent, so that git fails there, and the code is that "
    "of the folder: check out what the run needs before it is sent"
)
# A folder that is not the one that is sent.
_LEAVES = re.compile(r"(?:^|[;&])[ \t]*(?:cd|pushd)[ \t]+[\"']?(?:/|~|\$\{?HOME\b)", re.MULTILINE)
# Another folder, which git is told of.
_OF_FOLDER = re.compile(r"[ \t]-C[ \t]+[\"']?(?!\.|\$\{?(?:PWD|SLURM_SUBMIT_DIR)\b)")
_IN_OWN_VOLUME = "; a volume with the folder behind -C may have it"
_IN_VOLUME = "; a volume at the path of the `cd` before it may have it"
# How a script asks for that folder's name, by the names of its variables.
_NAMES = "NAMES"
_FOLDER = rf"[\"']?(?:\$\{{?(?:{_NAMES})\}}?|\$\([ \t]*pwd[ \t]*\)|`[ \t]*pwd[ \t]*`)[\"']?"
_NAME_OF_FOLDER = rf"basename[ \t]+{_FOLDER}(?=[ \t)`\"';|&\n]|$)|\$\{{(?:{_NAMES})##\*/\}}"
_OTHER_NAME = (
    "the folder that is sent has another name in a pod, the same for each job: write the name out"
)


def say(script: Script, variables: ShellVariables, code: str) -> list[Verdict]:
    """The lines that need what a pod may not do, or is not.

    Args:
        script: the script.
        variables: what its variables hold.
        code: its text without comments.
    """
    verdicts: dict[str, Verdict] = {}
    makes_own = False
    for command in script.commands:
        makes_own |= environments.makes_any([command], variables.constants)
        own, *inner = started_words.of(command)
        in_variables = started_words.in_variables(variables, (own, *inner))
        for texts in (own, *inner, *in_variables):
            path, outcome, why = _of_words(texts, is_inner=texts is not own)
            if path and path not in verdicts:
                verdicts[path] = Verdict(path, outcome, "", why, command.line)
        if not makes_own and "install" not in verdicts:
            typed = (own, *inner, *in_variables)
            at, text = next(
                ((at, " ".join(texts)) for at, texts in enumerate(typed) if _installs(texts)),
                (0, ""),
            )
            pattern = re.compile(r"\s+".join(map(re.escape, text.split())))
            line = (script.line_with(pattern.search) if at else 0) or command.line
            if text:
                path = shell_text.short(text)
                verdicts["install"] = Verdict(path, Outcome.CHANGED, "", _OF_IMAGE, line)
    if not any(path.startswith("numactl") for path in verdicts):
        verdicts |= {own.path: own for own in _of_documents(script, code)}
    history = _of_history(code)
    if history is not None:
        line = script.line_with(lambda row: history[0] in row) or script.line_with(
            _OF_HISTORY.search
        )
        is_of_code = _CHANGES_CODE.search(history[0]) is not None
        outcome = Outcome.NOT_CARRIED if is_of_code else Outcome.CHANGED
        why = _OTHER_CODE if is_of_code else _NO_HISTORY
        is_elsewhere = _LEAVES.search(words.without_comments(code[: history.start()]))
        elsewhere = _OF_FOLDER.search(history[0])
        why += _IN_VOLUME if is_elsewhere else ""
        why += _IN_OWN_VOLUME if elsewhere and not is_elsewhere else ""
        verdicts["git"] = Verdict(history[0], outcome, "", why, line)
    names = "|".join(("PWD", "SLURM_SUBMIT_DIR", *sorted(variables.sent_folder)))
    name_of_folder = re.compile(_NAME_OF_FOLDER.replace(_NAMES, names))
    match = name_of_folder.search(code)
    if match is not None:
        line = script.line_with(name_of_folder.search)
        verdicts[""] = Verdict(match[0], Outcome.CHANGED, "", _OTHER_NAME, line)
    return [*verdicts.values()]


# The body of a here-document, which may be a script that the ranks run.
_DOCUMENT = re.compile(
    r"<<-?[ \t]*[\"'\\]?(?P<end>\w+)[\"']?[^\n]*\n(?P<body>.*?)\n[ \t]*(?P=end)[ \t]*(?=\n|$)",
    re.DOTALL,
)
_NUMACTL = re.compile(
    r"(?<![\w./-])numactl(?:[ \t]+-\S+(?:[ \t]+[\\$\w{},-]+)?)*?[ \t]+"
    r"(?P<option>--(?:membind|interleave|preferred|localalloc)\b|-[mipl]\b)"
)


def _of_documents(script: Script, code: str) -> list[Verdict]:
    """What is said of numactl in a text that the script writes, as for its ranks to run."""
    for document in _DOCUMENT.finditer(code):
        match = _NUMACTL.search(document["body"])
        if match is not None:
            line = script.line_with(re.compile(re.escape(match[0])).search) or 0
            path = f"numactl {match['option']}"
            return [Verdict(path, Outcome.NOT_CARRIED, "", _MEMORY_POLICY, line)]
    return []


def _of_history(code: str) -> re.Match[str] | None:
    """A question for the history of the folder that is sent, and not of one that is cloned."""
    for match in _OF_HISTORY.finditer(code):
        before = code[: match.start()]
        clone = _CLONES.search(before)
        is_of_clone = clone is not None and (
            " -C " in match[0] or _MOVES.search(before, clone.end()) is not None
        )
        if not is_of_clone:
            return match
    return None


def _installs(texts: Sequence[str]) -> bool:
    """Whether words install something into an environment of Python's."""
    return _INSTALLS.match(" ".join(words.unwrapped(texts))) is not None


def _of_words(texts: Sequence[str], *, is_inner: bool) -> tuple[str, Outcome, str]:
    """What is said of the words of a command, with its path; "" for the path where nothing is.

    Args:
        texts: the words.
        is_inner: whether they stand in the text of another shell, of which no line speaks.
    """
    bases = list(map(words.base, texts))
    if is_inner and {*bases[:2]} & words.OF_ROOT:
        return " ".join(texts[:3]), Outcome.NOT_CARRIED, OF_ROOT
    if {*bases[:2]} & _OF_COUNTERS:
        return next(own for own in bases if own in _OF_COUNTERS), Outcome.CHANGED, _NO_COUNTERS
    if "numactl" in bases:
        own = texts[bases.index("numactl") + 1 :]
        option = next((text for text in own if _OF_MEMORY.fullmatch(text)), "")
        is_own = option != "" and all(text[0] in "-0123456789" for text in own[: own.index(option)])
        return (f"numactl {option}" if is_own else ""), Outcome.NOT_CARRIED, _MEMORY_POLICY
    verb = _GIT_VERB.match(" ".join(texts))
    is_git = verb is not None and verb[1] in _COMMITTING
    is_by_ssh = words.reaches_other_host(texts)  # which has words of its own
    return (
        (f"git {verb[1]}" if verb is not None and is_git and not is_by_ssh else ""),
        Outcome.CHANGED,
        _WHO_COMMITS,
    )
