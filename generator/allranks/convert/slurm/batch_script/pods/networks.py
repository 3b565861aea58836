"""What a script names of the old cluster's network: interfaces, adapters, addresses, proxies.

And where pip finds packages. They are carried as they are typed, and a pod has none of them: NCCL
ends where it has no interface of the name, and each download fails that is to go by a proxy which
nobody can reach.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from allranks.convert.programs import scanner
from allranks.convert.slurm.batch_script.text import shell_text, words
from allranks.convert.verdicts import Outcome, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allranks.convert.programs.scanner import Command
    from allranks.convert.slurm.batch_script.text.script import Script
    from allranks.convert.slurm.batch_script.text.shell_variables import ShellVariables

_INTERFACES = re.compile(
    r"(?:NCCL|GLOO|TP|RCCL|ECCL|BYTEPS|NVSHMEM_BOOTSTRAP_UID)_(?:SOCKET|SOCK)_IFNAME"
    r"|(?:(?:SINGULARITY|APPTAINER)ENV_)?DMLC_INTERFACE|HOROVOD_GLOO_IFACE|I_MPI_HYDRA_IFACE|MPICH_(?:NETWORK_)?IFACE"
    r"|OMPI_MCA_(?:btl|oob)_tcp_if_include"
)
# The same as options of launchers.
_OPTIONS = frozenset(
    {"btl_tcp_if_include", "oob_tcp_if_include", "--network-interface", "--network-interfaces"}
)
# Adapters of RDMA, which another kind of node calls otherwise.
_ADAPTERS = re.compile(r"NCCL_IB_HCA|RCCL_IB_HCA|UCX_NET_DEVICES|OMPI_MCA_btl_openib_if_include")
# Where a library is told which kind of adapter to take, and the kinds that are no plain network.
_PROVIDER = re.compile(
    r"FI_PROVIDER|UPCXX_NETWORK|UCX_TLS|I_MPI_(?:FABRICS|OFI_PROVIDER)|OMPI_MCA_(?:btl|mtl|pml)"
)
_KIND_OF_ADAPTER = re.compile(
    r"(?i)\b(?:efa|cxi|gni|opx|psm[23x]?|verbs|mlx|ibv|aries|ofi-?efa|dapl|ofa|openib|rc(?:_\w+)?"
    r"|dc(?:_\w+)?|ud(?:_\w+)?)\b"
)
_PLAIN_NETWORK = re.compile(r"(?i)\btcp\b|^\^|^all$")
# A plugin of NCCL's own, of nodes that have it, and what tells it of their interfaces and sockets.
_PLUGIN = re.compile(
    r"NCCL_NET(?:_PLUGIN)?|NCCL_TUNER_PLUGIN|NCCL_(?:GPUDIRECTTCPX|FASTRAK|TCPX)_\w+"
)
_OF_NCCL_ITSELF = frozenset({"socket", "ib", "none"})
_ANY_ADAPTER = frozenset({"all", "mlx5", "=mlx5"})
# Options of programs, and what an interface of a node is called, but for a pod's own.
_INTERFACE_OPTION = re.compile(r"--(?:network-?)?(?:interfaces?|iface|ifname|nic)")
_INTERFACE_NAME = re.compile(r"(?:ib|hsn|em|eno|ens|enp|enx|bond|hfi|ipogif|eth[1-9])[\w.]*")
_QUESTION = re.compile(
    r"(?:\bifconfig|\bip[ \t]+(?:-\S+[ \t]+)*(?:a|addr|address|link|l)[ \t]+(?:show|s|ls|list)"
    r"(?:[ \t]+dev)?)[ \t]+(?P<name>[\w$\"{}.]+)"
)
_PROXY = re.compile(r"(?i)(?:https?|all|ftp)_proxy")
# Addresses of private networks, which mean other hosts elsewhere.
_ADDRESS = re.compile(
    r"(?<![\w.])(?:10(?:\.[0-9]{1,3}){3}|172\.(?:1[6-9]|2[0-9]|3[01])(?:\.[0-9]{1,3}){2}"
    r"|192\.168(?:\.[0-9]{1,3}){2})(?![\w.]|/[0-9])"
)
_PROXY_OF_GIT = re.compile(r"git (?:\S+ )*?config (?:--?\S+ )*https?(?:\.\S+)?\.proxy(?= \S)")
_SETTINGS = (_INTERFACES, _ADAPTERS, _PROVIDER, _PLUGIN, _PROXY)
_OTHER_NETWORK = (
    "it is an address in the old cluster's network: write one that pods reach, or take it out"
)
_NO_PACKAGES = (
    "without an index pip finds packages where the old cluster keeps them: take --no-index out, or "
    "put them into the image"
)
_LOGIN = re.compile(r"//[^/@]*@")
_OF_POD = "eth0"
_NO_INTERFACE = (
    "a pod has the interface eth0, and those of its node with network.hostNetwork alone: take it "
    "out, or name one that pods have"
)
_EXCLUDES_POD = "it leaves out eth0, the interface that a pod has: take it out"
_OTHER_ADAPTERS = (
    "it names adapters of the old nodes: take it out, or name those of the new ones, which pods "
    "have with network.rdma"
)
_NO_ADAPTER = (
    "it asks for a kind of adapter, which pods have only where the values ask for it "
    "(network.rdma): say it there, or take it out"
)
_NO_PLUGIN = (
    "it is for a plugin of NCCL's on the old nodes, with their interfaces and their daemon: a pod "
    "has it where its image and its node have it; take it out elsewhere, as NCCL ends without a "
    "network that it is told of"
)
_NO_PROXY = (
    "it is the proxy of the old cluster: take it out where pods reach other networks without it, "
    "or write the proxy of the new one"
)


def say(script: Script, variables: ShellVariables, runs: str) -> list[Verdict]:
    """What becomes of the names of a network that a script gives its programs.

    Args:
        script: the script.
        variables: what its variables hold.
        runs: what runs in a pod, and what it reads.

    Returns:
        The first line of each of them.
    """
    verdicts: dict[str, Verdict] = {}
    for command in script.commands:
        for own in (command, *_of_shell(command)):
            for path, name, text in _settings(own):
                values = _values(variables, text, _text_of_shell(command))
                why = next(filter(None, (_why(name, value) for value in values if value)), "")
                key = "plugin" if why == _NO_PLUGIN else name  # one word for all of its variables
                if why and key not in verdicts:
                    verdicts[key] = Verdict(path, Outcome.CHANGED, "", why, command.line)
        texts = [scanner.unquote(word.text) for word in command.words]
        of_git = _PROXY_OF_GIT.match(" ".join(texts)) if "http.proxy" not in verdicts else None
        if of_git is not None:
            verdicts["http.proxy"] = Verdict(
                of_git[0], Outcome.CHANGED, "", _NO_PROXY, command.line
            )
        question, name = _question(script, variables, command)
        if question and question in runs and "interface" not in verdicts:
            verdicts["interface"] = Verdict(name, Outcome.CHANGED, "", _NO_INTERFACE, command.line)
        address = _address_in(command)
        if address in runs and address and address not in verdicts:
            verdicts[address] = Verdict(address, Outcome.CHANGED, "", _OTHER_NETWORK, command.line)
        if _has_no_index(command) and "pip" not in verdicts:
            verdicts["pip"] = Verdict("--no-index", Outcome.CHANGED, "", _NO_PACKAGES, command.line)
    return [*verdicts.values()]


def _text_of_shell(command: Command) -> str:
    """The text of ``bash -c "…"``, also behind an srun or in a container; "" for none."""
    texts = [word.text for word in command.words]
    at = next((n for n, text in enumerate(texts) if words.base(text) in shell_text.SHELLS), None)
    return "" if at is None else shell_text.shell_text(texts[at:]) or ""


def _of_shell(command: Command) -> list[Command]:
    """The commands of such a text."""
    return shell_text.commands_of(_text_of_shell(command))


def _values(variables: ShellVariables, text: str, inner: str) -> list[str]:
    """What a setting may be, for all that its variable is set to: ``$NIC:1``.

    Args:
        variables: what the script's variables hold.
        text: the setting, as typed.
        inner: the text of another shell that it stands in; "" for none.
    """
    value = words.resolve(text, variables.constants)
    if value is not None:
        return [value]
    names = [name for name, _ in words.variables(text)]
    contents = [*variables.contents.get(names[0], ())] if len(names) == 1 else []
    contents += re.findall(rf"(?<!\w){names[0]}=([\w.:,-]+)", inner) if len(names) == 1 else []
    puts = [words.resolve(text, {names[0]: scanner.unquote(own)}) for own in contents]
    return [*filter(None, puts), scanner.unquote(text)]


def _question(script: Script, variables: ShellVariables, command: Command) -> tuple[str, str]:
    """A question for an interface that only nodes have: ``ifconfig ib0``, ``ip addr show ib0``.

    Args:
        script: the script.
        variables: what its variables hold.
        command: one of its commands, which may put the answer into a variable.

    Returns:
        The question as typed, and the name; "" twice for none.
    """
    text = script.text[command.start : command.end]
    for match in _QUESTION.finditer(text):
        name = words.resolve(match["name"], variables.constants) or match["name"]
        if _INTERFACE_NAME.fullmatch(name):
            return match[0], name
    return "", ""


def _why(name: str, value: str) -> str:
    """Why a value is another thing in a pod; "" where it may be the same."""
    if _PROXY.fullmatch(name):
        return _NO_PROXY
    if _ADAPTERS.fullmatch(name):
        is_any = value in _ANY_ADAPTER or "$" in value
        return "" if is_any or _has_pods_alone(value) else _OTHER_ADAPTERS
    if _PLUGIN.fullmatch(name):
        return "" if value.lower() in _OF_NCCL_ITSELF else _NO_PLUGIN
    if _PROVIDER.fullmatch(name):
        is_adapter = _KIND_OF_ADAPTER.search(value) and not _PLAIN_NETWORK.search(value)
        return _NO_ADAPTER if is_adapter else ""
    if value.startswith("^") and _names_pods(value[1:]):
        return _EXCLUDES_POD
    return "" if _is_of_pod(value) else _NO_INTERFACE


def _address_in(command: Command) -> str:
    """An address that a command gives a program; "" for none."""
    texts = [token.text for token in (*command.assignments, *command.words)]
    if words.any_of(texts, words.IDLE):
        return ""
    match = next(filter(None, map(_ADDRESS.search, texts)), None)
    return "" if match is None else match[0]


def _has_no_index(command: Command) -> bool:
    """Whether a pip takes packages from where its settings say, and from no folder of its own."""
    texts = [scanner.unquote(token.text) for token in command.words]
    has_folder = any(text.startswith(("-f", "--find-links", "/", "./")) for text in texts)
    return "--no-index" in texts and "install" in texts and not has_folder


def _settings(command: Command) -> Iterator[tuple[str, str, str]]:
    """The names of a network in a command: as typed, what they are for, and their text."""
    texts = [token.text for token in command.words]
    if not words.any_of(texts, words.IDLE):
        for text in [*(token.text for token in command.assignments), *texts[1:]]:
            name, sign, value = text.partition("=")
            if sign and any(names.fullmatch(name) for names in _SETTINGS):
                yield _LOGIN.sub("//", text), name, value
    for option, value in pairwise(texts):
        if option in _OPTIONS or _names_interface(option, value):
            yield f"{option} {value}", option, value
    for text in texts:
        option, _, value = text.partition("=")
        if _names_interface(option, value):
            yield text, option, value


def _names_interface(option: str, value: str) -> bool:
    """Whether an option of a program is given an interface that only nodes have."""
    is_option = _INTERFACE_OPTION.fullmatch(option) is not None
    return is_option and _INTERFACE_NAME.fullmatch(value) is not None


def _names_pods(value: str) -> bool:
    """Whether one of some interfaces is that of a pod, each the beginning of a name."""
    names = [name.strip() for name in value.removeprefix("=").split(",")]
    return any(name and _OF_POD.startswith(name) for name in names)


def _has_pods_alone(value: str) -> bool:
    """Whether all adapters of a list are networks of a pod: UCX has TCP there, NCCL no RDMA."""
    names = [name.partition(":")[0].strip() for name in value.removeprefix("=").split(",")]
    return {*names} <= {_OF_POD, "lo"}


def _is_of_pod(value: str) -> bool:
    """Whether a pod may have one of some interfaces, each the beginning of a name or a network."""
    is_of_pod = re.search(r"[$`/]", value) is not None  # the pod's own, or a network
    return (
        is_of_pod
        or value.startswith("^")
        or _names_pods(value)
        or "lo" in value.removeprefix("=").split(",")
    )
