"""How a launcher of MPI reaches its workers: agents, keys and copies of files.

The operators mount an agent (``/etc/mpi/kubexec.sh`` up to v1) or the key of a job, of which
launchers' commands know the paths. The chart has an agent and a key of its own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from allranks.convert.programs import shell_comments
from allranks.k8s import fields as k8s

if TYPE_CHECKING:
    from allranks.convert.pods.pod_template import PodTemplate
    from allranks.convert.verdicts import FieldPath, Fields

# Where the chart mounts the key of a job, in the launcher and in the workers, and its agent.
_KEY = "/etc/allranks-ssh/ssh-privatekey"
_OUR_AGENT = "/etc/allranks/rsh.sh"
# The key in the folder where mpi-operator mounts it from v2beta1 on.
KEY_FILE = "/id_rsa"
# The agent of mpi-operator up to v1: kubexec.sh HOST COMMAND.... Source: kubeflow/mpi-operator,
# v1/pkg/controllers/v1/mpi_job_controller.go (newConfigMap).
_KUBEXEC = re.compile(r"/etc/mpi/kubexec\.sh(?![\w.-])")
AGENT = "the chart has its own way to the workers: an agent of another name is left out"
_AGENTS = ("plm_rsh_agent", "plm_ssh_agent", "pls_rsh_agent", "orte_rsh_agent")
_MCA = re.compile(r"--?g?mca|--?prtemca")
_AGENT_OPTION = re.compile(
    rf"(?:{_MCA.pattern})\s+(?:{'|'.join(_AGENTS)})\s+(?:\"[^\"]*\"|'[^']*'|\S+)[ \t]?"
)
# Programs that call the image's own ssh by its path, which knows neither port nor key of the job.
_OWN_SSH = re.compile(
    r"(?<![\w./-])(?:/usr/bin/)?(?:scp|sftp)(?=\s)|(?<![\w.-])(?:/usr)?/bin/ssh(?=\s)"
)


@dataclass(frozen=True, slots=True)
class Launched:
    """What a launcher runs, with the chart's ways to the workers.

    Attributes:
        words: its words.
        reasons: why they are others than before; none where they are not.
        problem: what of them reaches no worker here; "" for nothing.
    """

    words: tuple[str, ...]
    reasons: tuple[str, ...] = ()
    problem: str = ""


def put_right(words: tuple[str, ...], keys: str) -> Launched:
    """A launcher's words with the chart's agent and key in the place of the old operator's.

    Args:
        words: what it runs, of which one may be a script.
        keys: where mpi-operator mounts the job's key; "" for nowhere.
    """
    reasons: list[str] = []
    ours = without_agents(words)
    if ours != words:
        reasons.append(AGENT)
    with_key = tuple(with_our_key(word, keys) for word in ours)
    if with_key != ours:
        reasons.append(f"the key of mpi-operator is {_KEY} here")
    with_agent = tuple(_KUBEXEC.sub(_OUR_AGENT, word) for word in with_key)
    if with_agent != with_key:
        reasons.append(f"the agent /etc/mpi/kubexec.sh is {_OUR_AGENT} here")
    text = "\n".join(shell_comments.without(word) for word in with_agent)
    match = _OWN_SSH.search(text)
    problem = ""
    if match is not None:
        is_ssh = match[0].endswith("ssh")
        hint = "ssh without a folder" if is_ssh else "`ssh HOST 'cat >FILE' <FILE` in its place"
        problem = (
            f"{match[0]} calls the image's own ssh, which knows neither the port nor the key of "
            f"the job: write {hint}"
        )
    return Launched(with_agent, tuple(reasons), problem)


def without_agents(words: tuple[str, ...]) -> tuple[str, ...]:
    """Words, or a script among them, in which mpirun is told of no program that reaches hosts.

    Args:
        words: of a command.
    """
    remaining: list[str] = []
    for word in words:
        if len(remaining) > 1 and _MCA.fullmatch(remaining[-2]) and remaining[-1] in _AGENTS:
            del remaining[-2:]
        else:
            remaining.append(_AGENT_OPTION.sub("", word))
    return tuple(remaining)


def with_our_key(text: str, folder: str) -> str:
    """A text with the chart's key in the place of the one that mpi-operator mounts.

    Args:
        text: a word of what a pod runs, or a script.
        folder: where mpi-operator mounts it; "" for nowhere.
    """
    if not folder:
        return text
    places = [re.escape(folder.rstrip("/"))]
    if folder.rstrip("/").endswith("/.ssh"):  # that of the user's home
        places += [r"~/\.ssh", r"\$HOME/\.ssh", r"\$\{HOME\}/\.ssh"]
    return re.sub(rf"(?<![\w./-])(?:{'|'.join(places)}){KEY_FILE}(?![\w.-])", _KEY, text)


def say_keys(fields: Fields, pod: PodTemplate, folder: str) -> None:
    """Say of what a pod runs that it reads the folder of mpi-operator's keys, which is not there.

    Args:
        fields: the object.
        pod: one of its templates.
        folder: where mpi-operator mounts them; "" for nowhere.
    """
    spec = pod.container[:-2]
    reads = _reads(folder)
    for kind in ("initContainers", "containers") if folder and spec else ():
        for index, container in fields.items(*spec, kind):
            here: FieldPath = (*spec, kind, index)
            for key in ("command", "args"):
                words = [str(word) for word in k8s.texts(container.get(key))]
                if here == pod.container:  # whose key is the chart's
                    words = [with_our_key(word, folder) for word in words]
                if any(reads.search(shell_comments.without(word)) for word in words):
                    fields.leave((*here, key), _NO_KEYS.format(folder))


_NO_KEYS = (
    "it reads {}, where mpi-operator has the job's keys, and here there are none: ssh has a key of "
    "the chart's without that, so take it out"
)


def _reads(folder: str) -> re.Pattern[str]:
    """What finds that a script reads a folder of keys; that of a home it may as well make."""
    own = re.escape(folder.rstrip("/"))
    if not folder.rstrip("/").endswith("/.ssh"):
        return re.compile(rf"(?<![\w./-]){own}(?![\w.-])")
    keys = r"(?:/(?:\*|id_rsa\S*|authorized_keys\S*|\.)?)?"
    return re.compile(rf"\b(?:cp|mv|install|rsync|ln|cat)\b[^\n;&|]*?\s{own}{keys}\s+[^\s>&|;]")


def leave_out(fields: Fields, pod: PodTemplate) -> None:
    """Leave out the variables by which mpirun is told of a program that reaches hosts.

    Args:
        fields: the object.
        pod: one of its templates.
    """
    for index, entry in fields.items(*pod.container, "env") if pod.container else ():
        name = str(entry.get("name")).partition("_MCA_")[2]
        if name not in _AGENTS:
            continue
        fields.change((*pod.container, "env", index), AGENT)
        for holder in (fields.values, *fields.values.get("mpi", {}).values()):
            if isinstance(holder, dict):
                holder.get("env", {}).pop(entry["name"], None)
