"""A launcher's own list of its hosts, which the mpi chart makes itself.

Launchers that no operator tells of their hosts find them by themselves: in files of Volcano's, or
by names. The chart has a host file for mpirun, and starts sshd in the workers, so that both are
taken out of a launcher's script.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks.convert.pods import pod_values
from allranks.convert.programs import mpi_workers, references, shell
from allranks.humanize import plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allranks.convert.jobs.rewrite import Rewrite
    from allranks.convert.pods.podsets import PodSet, Shape
    from allranks.convert.verdicts import FieldPath

_MPIRUNS = ("mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun", "horovodrun")
# What a launcher of MPI does in a script that the mpi chart does itself.
_HOSTS = re.compile(r"/etc/volcano/|\bVC_\w+_HOSTS\b|/etc/mpi/hostfile|\bgetent\b|\bnslookup\b")
_SSHD = ("sshd", "sleep", "ssh-keygen")
_HOST_OPTIONS = r"(?:--?hosts?|-H|--?hostfile|--?machinefile|-f)"
_VOLCANO_HOSTS = r"VC_\w+_HOSTS"
_OF_PLUGIN = re.compile(r"\$[{(]?MPI_HOST\b")  # what the plugin mpi tells its master
_OF_VOLCANO = re.compile(r"\bVC_\w+_(?:HOSTS|NUM)\b|/etc/volcano/")
# The chart's own list, which horovodrun has to be told of: it starts its ranks in its pod else.
HOSTFILE = "/etc/mpi/hostfile"
_LAUNCHER: FieldPath = (
    *("spec", "mpiReplicaSpecs", "Launcher", "template", "spec"),
    "containers",
)
# A word that is Volcano's variable, as Kubernetes puts it in, and as it is compared.
_VALUE = rf"\$(?:\({_VOLCANO_HOSTS}\)|\{{{_VOLCANO_HOSTS}\}})"


def take_out(target: Rewrite, shape: Shape) -> tuple[list[FieldPath], list[FieldPath]]:
    """Take out of a launcher's script what lists the hosts and starts sshd: the chart does both.

    Args:
        target: the object, as an MPIJob.
        shape: the sets of its pods.

    Returns:
        The words that are others now, and those that still read a list that is not here.
    """
    rewritten: list[FieldPath] = []
    stale: list[FieldPath] = []
    launcher = shape.roles["Launcher"][0]
    fields = target.fields
    workers = sum(podset.replicas for podset in shape.roles.get("Worker", ()))
    if launcher.part:
        return _take_out_of_part(target, launcher, workers + 1)
    to: FieldPath = (*_LAUNCHER, launcher.index)
    for key in ("command", "args"):
        here: FieldPath = (*launcher.path, "spec", "containers", launcher.index, key)
        words = fields.words(*here)
        texts_here = words_without_hosts(words) if calls_mpirun(launcher.words) else words
        for index, (word, text) in enumerate(zip(words, texts_here, strict=True)):
            if text != word:
                target.put((*to, key, index), text)
            if _reads_hosts(word, text):
                stale.append((*here, index))
            elif text != word:
                rewritten.append((*here, index))
    _put_slots(target, launcher, launcher.words, workers)
    return rewritten, stale


def _take_out_of_part(
    target: Rewrite, launcher: PodSet, hosts: int
) -> tuple[list[FieldPath], list[FieldPath]]:
    """Take a list of the pods' names out of what the first of them runs, as `take_out` does."""
    to: FieldPath = (*_LAUNCHER, launcher.index)
    words = [without_hosts(word) for word in launcher.part]
    listed = _list_of_pods(target.fields.text("metadata", "name"))
    matches = [match for word in words for match in listed.finditer(word)]
    target.put((*to, "command"), [listed.sub("", word) for word in words])
    slots = {int(slots) for match in matches for slots in re.findall(r":(\d+)", match[3])}
    if len(slots) == 1:
        target.put(("spec", "slotsPerWorker"), slots.pop())
    else:
        _put_slots(target, launcher, [*words, *launcher.words], hosts)
    return [], []


def _put_slots(target: Rewrite, launcher: PodSet, words: Sequence[str], hosts: int) -> None:
    """Put the slots of each host: those of a list that the words write, or that the ranks need."""
    listed = {int(slots) for word in words for slots in _LISTED.findall(word)}
    if len(listed) == 1:
        target.put(("spec", "slotsPerWorker"), listed.pop())
        return
    if not hosts or any(map(pod_values.is_gpu, launcher.resources())):
        return
    text = "\n".join(words)
    variables = {**launcher.env, **dict(_ASSIGNED.findall(text))}
    per_host, count = _PER_HOST.search(text), _COUNT.search(text)
    slots = references.number(per_host[1], variables) if per_host is not None else None
    total = references.number(count[1], variables) if count is not None else None
    if slots or total:
        slots = slots or -(-(total or 1) // hosts)
        target.put(("spec", "slotsPerWorker"), slots)
        if slots > 1:
            target.fields.note(
                f"mpi.slotsPerWorker is {slots}, so that the {plural(hosts, 'host')} have room for "
                "the ranks of mpirun: the list of hosts that it had says no slots"
            )
    elif count is not None and not _OF_VOLCANO.search(count[1]):  # a rank of each host
        target.fields.note(
            f"how many ranks {count[0].strip()} starts is not known here, and a host has a slot "
            "for one: mpi.slotsPerWorker says how many"
        )


# The slots of a host in a list that a script writes: `echo $HOST slots=8 >> hosts`.
_LISTED = re.compile(r"\bslots=([0-9]{1,3})\b")
# How many ranks mpirun starts, and how many of them on a host: a number, or a variable.
_NUMBER = r"([0-9]+|\"?\$[{(]?[A-Za-z_]\w*[)}]?\"?)(?=[\s;]|$)"
_COUNT = re.compile(rf"(?:^|\s)--?(?:np|n)[= ]+{_NUMBER}")
_PER_HOST = re.compile(rf"(?:^|\s)--?(?:npernode|ppn|perhost)[= ]+{_NUMBER}")
_ASSIGNED = re.compile(r"(?:^|[\s;])([A-Za-z_]\w*)=([0-9]+)(?=[\s;]|$)")


def without_pods(words: Sequence[str], stem: str) -> list[str]:
    """A launcher's words without a list of its job's pods.

    Args:
        words: its command and args, of which one may be a script.
        stem: what the names of the pods begin with.
    """
    return [_list_of_pods(stem).sub("", word) for word in words]


def _list_of_pods(stem: str) -> re.Pattern[str]:
    """A regular expression for mpirun's option with the pods of a job; its group 3 is the list."""
    host = rf"{re.escape(stem)}-(?:\d+|[\w-]+-\d+)(?:\.[\w.-]+)?(?::\d+)?"
    return re.compile(rf"(\s){_HOST_OPTIONS}[= ]\s*([\"']?)({host}(?:,{host})*)\2(?=\s|;|$)")


def calls_mpirun(words: Sequence[str]) -> bool:
    """Whether a launcher's words call mpirun, or have a script that does.

    Args:
        words: its command and args.
    """
    return any(word.rpartition("/")[2] in _MPIRUNS or without_hosts(word) != word for word in words)


def words_without_hosts(words: Sequence[str]) -> list[str]:
    """A launcher's words, as many as before, with the chart's list of hosts for Volcano's.

    Args:
        words: its command or its args.
    """
    texts = [without_hosts(word) for word in words]
    for index, text in enumerate(texts):
        if re.fullmatch(rf"{_HOST_OPTIONS}={_VALUE}", text):
            texts[index] = f"--hostfile={HOSTFILE}"
        elif index and re.fullmatch(_VALUE, text) and re.fullmatch(_HOST_OPTIONS, words[index - 1]):
            texts[index - 1 : index + 1] = ["--hostfile", HOSTFILE]
    return texts


def _reads_hosts(word: str, text: str) -> bool:
    """Whether a word still reads a list of hosts that is not here, or what was made of one."""
    if _OF_VOLCANO.search(text) or (_OF_PLUGIN.search(text) and "MPI_HOST=" not in text):
        return True
    parsed = (shell.parse(word) or ()) if text != word else ()
    variables = {
        assignment.text.partition("=")[0]
        for command in parsed
        if not command.words and _HOSTS.search(word[command.start : command.end])
        for assignment in command.assignments
    }
    return any(re.search(rf"\$\{{?{re.escape(name)}\b", text) for name in variables)


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
        line = text[command.start : command.end]
        if command.depth == 0 and not command.words and _HOSTS.search(line):
            variables += [word.text.partition("=")[0] for word in command.assignments]
            cuts.append((command.start, start))
        elif command.depth == 0 and command.after not in ("|", "||") and _is_of_sshd(command):
            cuts.append((command.start, start))
    for start, end in reversed(cuts):
        text = text[:start] + text[end:]
    names = "|".join((*map(re.escape, variables), _VOLCANO_HOSTS))
    of_horovod = any(command.program == "horovodrun" for command in parsed)
    own = f" --hostfile {HOSTFILE}" if of_horovod else ""
    value = rf'(?:"?\$\{{?(?:{names})\}}?"?|/etc/volcano/\S+)'
    return re.sub(rf"\s{_HOST_OPTIONS}[= ]\s*{value}(?=\s|;|$)", own, text)


def _is_of_sshd(command: shell.ShellCommand) -> bool:
    """Whether a command starts sshd, makes it ready, or waits for that of the workers."""
    return command.program in _SSHD or mpi_workers.is_for_sshd(command)
