"""What a script sets or chooses of its node: limits, CPUs by number, modes of GPUs, the driver.

A job of Slurm's that has a node for itself may do so; a pod shares it, and is not root.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks.convert.programs import scanner
from allranks.convert.slurm.batch_script.text import shell_text, started_words, words
from allranks.convert.verdicts import Outcome, Verdict

if TYPE_CHECKING:
    from allranks.convert.slurm.batch_script.text.script import Script

# By what the words of a command begin with, without those that run the rest as it is.
_OF_COMMANDS = {
    re.compile(r"ulimit (?:-\w+ )*-\w*l\w* (?:unlimited|\d)"): (
        "a container's limit on locked memory is that of its runtime, and a pod may not raise it: "
        "take it out, or have the nodes' container runtime allow it (RDMA needs it)"
    ),
    re.compile(
        r"nvidia-smi (?:\S+ )*?(?:-pm|--persistence-mode|-c|--compute-mode|-pl|--power-limit"
        r"|-ac|-lgc|--lock-gpu-clocks|-mig|-r|--gpu-reset|-e)\b"
    ): "it sets the GPU of the node, which no pod may: who runs the cluster sets it",
}
_CPUS = re.compile(r"taskset (?:-\w+ )*(?:-\w*c\w*|--cpu-list)[ =]\d")
_CPUS_OF_NUMACTL = re.compile(r"numactl (?:\S+ )*?(?:-C|--physcpubind)[ =]?\+?\d")
_BY_NUMBER = (
    "the CPUs of a node by number are shared with other pods there, and a pod may have others: "
    "take it out"
)
_OF_KERNEL = re.compile(r"/(?:proc/sys|sys)/")
_NO_KERNEL = "it sets the kernel of the node, which no pod may: take it out"
# Programs that draw, by OpenGL without a screen.
_DRAWS = re.compile(r"(?:MUJOCO_GL|PYOPENGL_PLATFORM)")
_DRIVER = (
    "an image for training has the driver's part for computing alone, as a rule: set "
    "NVIDIA_DRIVER_CAPABILITIES: all in env to draw on the GPU"
)


def say(script: Script) -> list[Verdict]:
    """The first line of each such thing.

    Args:
        script: the script.
    """
    verdicts: dict[str, Verdict] = {}
    has_driver = "NVIDIA_DRIVER_CAPABILITIES" in script.text
    for command in script.commands:
        for typed in started_words.of(command):
            path, why = _of_words(typed)
            if why:
                verdicts.setdefault(why, Verdict(path, Outcome.CHANGED, "", why, command.line))
        targets = [target for operator, target in command.redirections if operator[:1] == ">"]
        target = next(filter(_OF_KERNEL.match, targets), "")
        if target:
            verdict = Verdict(target, Outcome.CHANGED, "", _NO_KERNEL, command.line)
            verdicts.setdefault(_NO_KERNEL, verdict)
        for name, value in [] if has_driver else shell_text.assignments_of(command):
            if _DRAWS.fullmatch(name) and scanner.unquote(value) == "egl":
                verdict = Verdict(name, Outcome.CHANGED, "", _DRIVER, command.line)
                verdicts.setdefault(_DRIVER, verdict)
    return [*verdicts.values()]


def _of_words(typed: list[str]) -> tuple[str, str]:
    """What is said of the words of a command, with its path; "" where nothing is."""
    line = " ".join([words.base(typed[0]), *typed[1:]]) if typed else ""
    for pattern in (_CPUS, _CPUS_OF_NUMACTL):
        match = pattern.search(line)
        if match is not None:
            return shell_text.short(match[0]), _BY_NUMBER
    own = " ".join(words.unwrapped(typed))
    for pattern, why in _OF_COMMANDS.items():
        match = pattern.match(own)
        if match is not None:
            return shell_text.short(match[0]), why
    return "", ""
