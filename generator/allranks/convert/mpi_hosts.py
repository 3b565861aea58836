"""A launcher's own list of its hosts, which the mpi chart makes itself.

Launchers that no operator tells of their hosts find them by themselves: in files of Volcano's, or
by names. The chart has a host file for mpirun, and starts sshd in the workers, so that both are
taken out of a launcher's script.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks.convert import pods, shell

if TYPE_CHECKING:
    from allranks.convert.podsets import Shape
    from allranks.convert.rewrite import Rewrite
    from allranks.convert.verdicts import FieldPath

_MPIRUNS = ("mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun", "horovodrun")
# What a launcher of MPI does in a script that the mpi chart does itself.
_HOSTS = re.compile(r"/etc/volcano/|\bVC_\w+_HOSTS\b|/etc/mpi/hostfile|\bgetent\b|\bnslookup\b")
_SSHD = ("sshd", "service", "mkdir", "sleep", "ssh-keygen")
_HOST_OPTIONS = r"(?:--?hosts?|-H|--?hostfile|--?machinefile|-f)"


def take_out(target: Rewrite, shape: Shape) -> list[FieldPath]:
    """Take out of a launcher's script what lists the hosts and starts sshd: the chart does both.

    Args:
        target: the object, as an MPIJob.
        shape: the sets of its pods.

    Returns:
        The words that are others now.
    """
    rewritten: list[FieldPath] = []
    launcher = shape.roles["Launcher"][0]
    fields = target.fields
    workers = sum(podset.replicas for podset in shape.roles.get("Worker", ()))
    to: FieldPath = (
        "spec",
        "mpiReplicaSpecs",
        "Launcher",
        "template",
        "spec",
        "containers",
        launcher.index,
    )
    for key in ("command", "args"):
        here: FieldPath = (*launcher.path, "spec", "containers", launcher.index, key)
        for index, word in enumerate(fields.words(*here)):
            text = without_hosts(word)
            if text != word:
                target.put((*to, key, index), text)
                rewritten.append((*here, index))
    texts = "\n".join(launcher.words)
    match = re.search(r"(?:^|\s)--?(?:np|n)[= ]+([0-9]+)(?=\s|$)", texts)
    if (
        match is not None
        and workers
        and not any(pods.is_gpu(name) for name in launcher.resources())
    ):
        target.put(("spec", "slotsPerWorker"), -(-int(match[1]) // workers))
    return rewritten


def without_hosts(text: str) -> str:
    """A launcher's script without the lists of hosts, and without sshd.

    Args:
        text: the script; anything else stays as it is.
    """
    parsed = shell.parse(text)
    if parsed is None or not any(command.program in _MPIRUNS for command in parsed):
        return text
    variables = ["MPI_HOST"]
    cuts: list[tuple[int, int]] = []
    starts = [command.start for command in parsed[1:]] + [len(text)]
    last = max(command.start for command in parsed if command.program in _MPIRUNS)
    for command, start in zip(parsed, starts, strict=True):
        if command.start > last:  # what is done after the run is the launcher's own
            break
        own = text[command.start : command.end]
        if command.depth == 0 and not command.words and _HOSTS.search(own):
            variables += [word.text.partition("=")[0] for word in command.assignments]
            cuts.append((command.start, start))
        elif command.depth == 0 and command.program in _SSHD and command.after not in ("|", "||"):
            cuts.append((command.start, start))
    for start, end in reversed(cuts):
        text = text[:start] + text[end:]
    names = "|".join(map(re.escape, variables))
    value = rf'(?:"?\$\{{?(?:{names})\}}?"?|/etc/volcano/\S+)'
    return re.sub(rf"\s{_HOST_OPTIONS}[= ]\s*{value}(?=\s|;|$)", "", text)
