"""Folders of the old cluster, which a pod has only where its image or a volume has them.

Nearly each script reads and writes under /scratch, /home or what else its site mounts on all nodes.
A path is carried as it is typed, so that nothing else would tell that the folder behind it is not.
"""

from __future__ import annotations

import re
from collections import defaultdict
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from allranks.convert.slurm.batch_script import words
from allranks.convert.verdicts import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from allranks.convert.slurm.draft import Draft

# A path that stands where a word, a value or a part of a list begins; `//host` is an address.
_PATH = re.compile(
    r"(?:^|(?<=[\s\"'=:,(\[>;|&]))(?P<top>/[A-Za-z][\w.+@-]*|~|\$HOME\b|\$\{HOME\})"
    r"(?P<rest>(?:/[\w.+@%${}-]*)*)(?=[\s\"':,;)\]|&<>]|$)"
)
# Folders that images have; under some of them a site has software of its own, as an image may.
_OF_IMAGES = frozenset(
    {
        *("/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/media", "/opt", "/proc"),
        *("/root", "/run", "/sbin", "/sys", "/usr", "/var", "/workspace"),
        "/tmp",  # noqa: S108 - a name, and no file of ours
    }
)
# What programs make anew in a home folder, or what a shell reads where it is there.
_MADE_ANEW = ("/.cache", "/.triton", "/.nv", "/.bash", "/.profile", "/.config")
# Words that are patterns, or of modules and hosts, which are spoken of by what carries them.
_NO_PATHS = re.compile(
    r"\b(?:sed|awk|gawk|grep|egrep|perl|tr|cut|module|ml|scp|ssh|rsync|curl|wget)\b[^|;&\n]*"
)
_SPOKEN = re.compile(r"volume|image|\bsent\b")
_WHY = (
    "a pod has it where its image or a volume does: mount one there (storage.datasets.mountPath), "
    "or put it into the image; without a volume, what is written there goes with the pod"
)
_WHY_HOME = (
    "a pod has not the home folder of who submits: write a path in the image, or in a volume, in "
    "its place"
)
_WHY_WORKING_DIR = (
    "the run starts there, and a pod has it where its image or a volume does: take the line out "
    "where it is the folder of your code, which is sent"
)
_NO_VOLUME = (
    "what the run writes goes with its pods, unless it is in a volume: storage.checkpoints makes "
    "one, at /checkpoints"
)


def say(job: Draft) -> None:
    """Name the folders of the old cluster that the values read or write, each once.

    Args:
        job: the job, whose values are all there, but for an image that the script does not name.
    """
    values = job.fields.values
    mounts = _mounts(values)
    lines = [
        verdict.path.removesuffix(" …")
        for verdict in job.fields.verdicts()
        if verdict.outcome is not Outcome.CARRIED and _SPOKEN.search(verdict.why)
    ]
    folders: dict[str, set[str]] = defaultdict(set)
    for text in _texts(values):
        for match in _PATH.finditer(_NO_PATHS.sub("", text)):
            path, top = match[0].rstrip("/"), match["top"]
            is_made_anew = top[0] != "/" and match["rest"].startswith(_MADE_ANEW)
            is_spoken_of = any(_names(line, path) for line in lines)
            if not (top in _OF_IMAGES or is_made_anew or is_spoken_of or _is_in(path, mounts)):
                folders[top if top[0] == "/" else "~"].add(path)
    for top, paths in folders.items():
        line = _line_of(job.text, paths)
        why = _WHY_HOME if top == "~" else _WHY
        to = ""
        if values.get("workingDir") in paths:
            to, why = "workingDir", _WHY_WORKING_DIR
        key = job.key(_shared_folder(paths), line)
        job.fields.say((key,), Outcome.CHANGED, to, why)
    if not mounts:
        job.fields.note(_NO_VOLUME)


def _texts(values: Mapping[str, Any]) -> list[str]:
    """What runs, without comments; of a run with an image of its own, what the nodes ran."""
    of_nodes = [values.get("setup", ""), values.get("workingDir", "")]
    of_ranks = [
        values.get("script", ""),
        *values.get("command", ()),
        *values.get("args", ()),
        *values.get("env", {}).values(),
    ]
    texts = of_nodes if "image" in values else [*of_nodes, *of_ranks]
    return [words.without_comments(text) for text in texts if isinstance(text, str)]


def _mounts(values: Mapping[str, Any]) -> list[str]:
    """The folders at which the pods have volumes."""
    pod = values.get("podTemplate", {}).get("spec", {})
    containers = pod.get("containers", ())
    mounts = [
        mount.get("mountPath", "")
        for container in containers
        for mount in container.get("volumeMounts", ())
    ]
    workspace = values.get("workspace", {}).get("mountPath", "")
    return [path.rstrip("/") for path in (*mounts, workspace) if path]


def _is_in(path: str, folders: Iterable[str]) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


def _names(text: str, path: str) -> bool:
    """Whether a line of the report, which may be cut off, has a path in it."""
    last = text.rsplit(" ", maxsplit=1)[-1]
    return path in text or (last.startswith(("/", "~")) and path.startswith(last))


def _shared_folder(paths: Iterable[str]) -> str:
    """The folder that some paths have in common, as typed."""
    parts = [path.split("/") for path in sorted(paths)]
    levels = takewhile(lambda names: len({*names}) == 1, zip(*parts, strict=False))
    return "/".join(names[0] for names in levels)


def _line_of(text: str, paths: Iterable[str]) -> int:
    """The first line that has one of some paths, before any comment or directive; 0 for none."""
    for rows in (words.without_comments(text).split("\n"), text.split("\n")):
        line = next((n for n, row in enumerate(rows, 1) if any(path in row for path in paths)), 0)
        if line:
            return line
    return 0
