"""The rules of Azure for names, each with words of its own.

Sources: Azure's "Naming rules and restrictions for Azure resources", "Naming and referencing
shares" and "containers", and "Use tags to organize your Azure resources".
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

from allranks.errors import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

GROUP_MAX = 90
CLUSTER_MAX = 63
DNS_PREFIX_MAX = 54
POOL_MAX = 12
NODE_GROUP_MAX = 80
ACCOUNT_LENGTH = (3, 24)
SHARE_LENGTH = (3, 63)
TAGS_MAX = 50
TAG_NAME_MAX = 128  # 512 elsewhere; a storage account takes no more
TAG_VALUE_MAX = 256
_TAG_FORBIDDEN = "<>%&\\?/"
_TAG_RESERVED = ("microsoft", "azure", "windows")
OWN_PREFIX = "allranks-"
# So many of our own tags stand beside those of a person.
_OWN_TAGS = 4
_LABEL = re.compile(
    r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
)
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_AZURE_LABELS = "kubernetes.azure.com/"
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def account_name(name: str, subscription: str, group: str) -> str:
    """A name for a storage account: the same for the same group, and most likely nobody else's.

    All accounts of Azure share one room of names, so a part of a digest stands at the end.

    Args:
        name: of the whole, as in azure.yaml.
        subscription: its id.
        group: the resource group.
    """
    digest = hashlib.sha256(f"{subscription}/{group}".lower().encode()).hexdigest()
    stem = re.sub(r"[^a-z0-9]", "", name.lower())[: ACCOUNT_LENGTH[1] - 10]
    return f"{stem}{digest[:10]}"


def node_group(group: str, cluster: str, region: str) -> str:
    """The second resource group, which AKS makes for the machines of a cluster."""
    return f"MC_{group}_{cluster}_{region}"


def check_group(name: str, path: str) -> Iterator[Problem]:
    """What is wrong with the name of a resource group."""
    yield from _length(name, path, "a resource group", (1, GROUP_MAX))
    yield from _letters(
        name, path, "a resource group", r"[\w.()-]", "letters, digits and . _ - ( )", "-"
    )
    if name.endswith("."):
        yield Problem(
            path,
            f"{name!r} ends with a full stop, which a resource group may not",
            f"write {name.rstrip('.') or 'demo'}",
        )


def check_cluster(name: str, path: str) -> Iterator[Problem]:
    """What is wrong with the name of an AKS cluster."""
    yield from _length(name, path, "an AKS cluster", (1, CLUSTER_MAX))
    yield from _letters(
        name, path, "an AKS cluster", "[A-Za-z0-9_-]", "letters, digits, - and _", "-"
    )
    yield from _ends(name, path, "an AKS cluster", str.isalnum, "a letter or digit")


def check_node_group(group: str, cluster: str, region: str, path: str) -> Iterator[Problem]:
    """What is wrong with the name of the group that AKS makes for the machines."""
    name = node_group(group, cluster, region)
    if len(name) > NODE_GROUP_MAX:
        yield Problem(
            path,
            f"AKS would call the group of the machines {name}, which has {len(name)} characters; "
            f"it may have {NODE_GROUP_MAX}",
            "shorten resourceGroup or cluster.name",
        )


def check_dns_prefix(name: str, path: str) -> Iterator[Problem]:
    """What is wrong with the DNS prefix of a cluster's API server."""
    yield from _length(name, path, "a DNS prefix", (1, DNS_PREFIX_MAX))
    yield from _letters(name, path, "a DNS prefix", "[A-Za-z0-9-]", "letters, digits and -", "-")
    yield from _ends(name, path, "a DNS prefix", str.isalnum, "a letter or digit")


def check_pool(name: str, path: str) -> Iterator[Problem]:
    """What is wrong with the name of a node pool of Linux machines."""
    yield from _length(name, path, "a node pool", (1, POOL_MAX))
    yield from _letters(
        name, path, "a node pool", "[a-z0-9]", "lower-case letters and digits only", ""
    )
    if name[:1].isdigit():
        yield Problem(
            path,
            f"{name!r} begins with a digit, and a node pool begins with a letter",
            f"write p{name}"[: POOL_MAX + len("write ")],
        )


def check_account(name: str, path: str) -> Iterator[Problem]:
    """What is wrong with the name of a storage account, but for whose it is."""
    yield from _length(name, path, "a storage account", ACCOUNT_LENGTH)
    yield from _letters(
        name, path, "a storage account", "[a-z0-9]", "lower-case letters and digits only", ""
    )


def check_share(name: str, path: str, kind: str = "a file share") -> Iterator[Problem]:
    """What is wrong with the name of a file share or, with another `kind`, of a blob container."""
    yield from _length(name, path, kind, SHARE_LENGTH)
    yield from _letters(name, path, kind, "[a-z0-9-]", "lower-case letters, digits and -", "-")
    yield from _ends(name, path, kind, str.isalnum, "a letter or digit")
    if "--" in name:
        yield Problem(
            path,
            f"{name!r} has two - in a row, which {kind} may not",
            f"write {re.sub('-+', '-', name)}",
        )


def check_container(name: str, path: str) -> Iterator[Problem]:
    """What is wrong with the name of a blob container."""
    yield from check_share(name, path, "a blob container")


def check_tags(tags: Mapping[str, str], path: str) -> Iterator[Problem]:
    """What is wrong with tags of a person's own."""
    if len(tags) > TAGS_MAX - _OWN_TAGS:
        yield Problem(
            path,
            f"there are {len(tags)} tags; a resource takes {TAGS_MAX}, and {_OWN_TAGS} are ours",
            f"leave {len(tags) - TAGS_MAX + _OWN_TAGS} of them out",
        )
    folded: dict[str, str] = {}
    for name, value in tags.items():
        here = f"{path}.{name}"
        bad = sorted({char for char in name if char in _TAG_FORBIDDEN})
        if not name:
            yield Problem(path, "a tag has no name", "give it one, such as team")
        elif bad:
            clean = "".join("-" if char in _TAG_FORBIDDEN else char for char in name)
            yield Problem(
                here,
                f"the name of a tag has {' '.join(bad)}; Azure forbids {' '.join(_TAG_FORBIDDEN)}",
                f"write {clean}",
            )
        if len(name) > TAG_NAME_MAX:
            yield Problem(
                here,
                f"the name has {len(name)} characters, and a storage account takes tags with "
                f"names of {TAG_NAME_MAX}",
                "shorten it",
            )
        if name.lower().startswith(_TAG_RESERVED):
            yield Problem(
                here,
                "the name begins with microsoft, azure or windows, which Azure keeps to itself",
                f"write my-{name}",
            )
        if name.lower().startswith(OWN_PREFIX):
            yield Problem(
                here,
                f"names that begin with {OWN_PREFIX} are ours: they say what may be removed",
                "choose another name",
            )
        if len(value) > TAG_VALUE_MAX:
            yield Problem(
                here, f"the value has {len(value)} characters, of {TAG_VALUE_MAX}", "shorten it"
            )
        if name.lower() in folded:
            yield Problem(
                here,
                f"{name} and {folded[name.lower()]} are one tag to Azure, which ignores their case",
                "leave one of them out",
            )
        folded[name.lower()] = name


def check_labels(labels: Mapping[str, str], path: str) -> Iterator[Problem]:
    """What is wrong with the labels of a pool's nodes."""
    for name, value in labels.items():
        here = f"{path}.{name}"
        if not _LABEL.fullmatch(name):
            yield Problem(
                here, f"{name!r} is no name of a label", "write it as in example.com/team"
            )
        elif name.startswith(_AZURE_LABELS):
            yield Problem(
                here,
                f"labels below {_AZURE_LABELS} are set by AKS alone",
                "choose another prefix",
            )
        if not _LABEL_VALUE.fullmatch(value):
            yield Problem(
                here,
                f"{value!r} is no value of a label: letters, digits, -, _ and ., 63 at most",
                "shorten it, or take the other characters out",
            )


def check_taint(text: str, path: str) -> Iterator[Problem]:
    """What is wrong with a taint, ``key=value:Effect``."""
    key, _, effect = text.rpartition(":")
    name, _, value = key.partition("=")
    if not _LABEL.fullmatch(name) or not _LABEL_VALUE.fullmatch(value):
        yield Problem(
            path, f"{text!r} is no taint", f"write it as key=value:{_EFFECTS[0]}"
        )
    elif effect not in _EFFECTS:
        yield Problem(
            path,
            f"{effect!r} is no effect of a taint; there are {', '.join(_EFFECTS)}",
            f"write {key}:{_EFFECTS[0]}",
        )


def _length(name: str, path: str, kind: str, bounds: tuple[int, int]) -> Iterator[Problem]:
    least, most = bounds
    if not name:
        yield Problem(path, f"the name of {kind} is empty", "give it one, or remove the key")
    elif len(name) < least:
        yield Problem(
            path,
            f"{name!r} has {len(name)} characters, and the name of {kind} has at least {least}",
            f"write {(name + 'data')[: max(least, len(name) + 4)]}",
        )
    elif len(name) > most:
        yield Problem(
            path,
            f"{name!r} has {len(name)} characters, and the name of {kind} has at most {most}",
            f"write {name[:most]}",
        )


def _letters(
    name: str, path: str, kind: str, allowed: str, words: str, instead: str
) -> Iterator[Problem]:
    bad = sorted({char for char in name if not re.fullmatch(allowed, char)})
    if not bad:
        return
    lower = name.lower() if "A-Z" not in allowed and "\\w" not in allowed else name
    clean = "".join(
        char if re.fullmatch(allowed, char, re.ASCII) else instead for char in lower
    ).strip("-")
    shown = " ".join(repr(char) if char.isspace() else char for char in bad)
    yield Problem(
        path,
        f"{name!r} has {shown}; the name of {kind} has {words}",
        f"write {clean}" if clean else "choose another name",
    )


def _ends(
    name: str, path: str, kind: str, is_allowed: Callable[[str], bool], words: str
) -> Iterator[Problem]:
    if name and not (is_allowed(name[0]) and is_allowed(name[-1])):
        yield Problem(
            path,
            f"{name!r} does not begin and end with {words}, as {kind} must",
            f"write {name.strip('-_') or 'demo'}",
        )
