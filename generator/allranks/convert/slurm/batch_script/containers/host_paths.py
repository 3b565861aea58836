"""The search paths and environments of a node's shell, where its programs run in containers.

They end at the container's border: Apptainer sets PATH and LD_LIBRARY_PATH itself, and with Pyxis
an image's own variables win. A pod is the container, and what the script sets there would take the
image's programs and libraries away. Sources: apptainer.org/docs/user/latest/
environment_and_metadata.html; `srun --help` of Pyxis on --container-env.
"""

from __future__ import annotations

import re

from allranks.convert.slurm.batch_script.containers import singularity_environment
from allranks.convert.slurm.batch_script.text import shell_text, words
from allranks.convert.verdicts import Outcome, Verdict

_TEXT = r"(?:\"[^\"\n`]*\"|'[^'\n]*'|[^\s;&|()`\"'#]*)"
_SET = re.compile(
    rf"^(?:(?:export[ \t]+)?(?P<name>PATH|LD_LIBRARY_PATH)={_TEXT}"
    r"|unset[ \t]+(?P<removed>PATH|LD_LIBRARY_PATH))[ \t]*;?[ \t]*(?:#.*)?$",
    re.MULTILINE,
)
_ACTIVATED = re.compile(
    r"^(?P<line>(?:conda|mamba|micromamba)[ \t]+activate\b[^\n;&|]*"
    r"|(?:source|\.)[ \t]+\S*(?:/bin/activate|/etc/profile\.d/conda\.sh)\b[^\n;&|]*"
    r"|eval[ \t]+\"\$\((?:\S*/)?(?:conda|mamba|micromamba)[ \t]+shell[^)\n]*\)\")"
    r"[ \t]*;?[ \t]*(?:#.*)?$",
    re.MULTILINE,
)
# What runs here, and what starts a container or something else.
_PROGRAMS = frozenset({"python", "python3", "torchrun", "accelerate", "deepspeed"})
_STARTERS = frozenset({"srun", "mpirun", "mpiexec"})
_OF_PYXIS = re.compile(r"--container-image\b")
_OF_ALL_STEPS = re.compile(r"^#SBATCH\b.*--container-image\b", re.MULTILINE)
_WHY = (
    "it ended at the container's border, where the image's own counts: a pod is the container, "
    "and has the image's"
)


def carry(text: str) -> tuple[str, list[Verdict]]:
    """The script without lines that change such a path for no program, and what became of each.

    Args:
        text: a script; one that runs a program outside of containers stays as it is.
    """
    if not _all_run_in_containers(text):
        return text, []
    options = re.findall(r"--container-env[= ](\S+)", text)
    passed_on = {name for names in options for name in names.strip("\"'").split(",")}
    verdicts: dict[str, Verdict] = {}

    def without(match: re.Match[str]) -> str:
        name = match["name"] or match["removed"]
        if name in passed_on:
            return match[0]
        line = text.count("\n", 0, match.start()) + 1
        verdicts.setdefault(name, Verdict(name, Outcome.CHANGED, "", _WHY, line=line))
        return ""

    def without_environment(match: re.Match[str]) -> str:
        line = text.count("\n", 0, match.start()) + 1
        path = shell_text.short(match["line"])
        verdicts[path] = Verdict(path, Outcome.CHANGED, "", _WHY, line=line)
        return ""

    if not _OF_ALL_STEPS.search(text):  # else the script itself runs in the container
        text = _ACTIVATED.sub(without_environment, text)
    return _SET.sub(without, text), list(verdicts.values())


def _all_run_in_containers(text: str) -> bool:
    """Whether each program that a script starts runs in a container, as far as its lines say."""
    if _OF_ALL_STEPS.search(text):
        return True
    if not (singularity_environment.is_started(text) or _OF_PYXIS.search(text)):
        return False
    for command in shell_text.commands_of(text):
        texts = words.unwrapped([word.text for word in command.words])
        name = words.base(texts[0]) if texts else ""
        line = " ".join(texts)
        is_inside = (
            singularity_environment.is_started(line) or _OF_PYXIS.search(line) or "$" in line
        )
        if name in _PROGRAMS or (name in _STARTERS and not is_inside):
            return False
    return True
