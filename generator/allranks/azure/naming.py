"""The rules of Azure for names, each with words of its own.

Sources: Azure's "Naming rules and restrictions for Azure resources", "Naming and referencing
shares" and "containers", and "Use tags to organize your Azure resources".
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from allranks.errors import Problem
from allranks.humanize import plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

NODE_GROUP_MAX = 80
_DIGEST = 10  # letters of it in the name of an account
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


@dataclass(frozen=True, slots=True)
class NamingRule:
    """The rules for one kind of name.

    Attributes:
        kind: what is named, with its article.
        least: how many characters it has at least.
        most: how many at most.
        allowed: a class of characters.
        words: the same for people.
        first: the class of the first character.
        last: the class of the last one.
        joint: what takes the place of a character that is not allowed.
        is_spaced: whether no two - may stand in a row.
    """

    kind: str
    least: int
    most: int
    allowed: str
    words: str
    first: str = "[A-Za-z0-9]"
    last: str = "[A-Za-z0-9]"
    joint: str = "-"
    is_spaced: bool = False

    def check(self, name: str, path: str) -> Iterator[Problem]:
        """The problems with a name, one for each rule that it breaks."""
        if not name:
            yield Problem(path, f"the name of {self.kind} is empty", "write demo")
            return
        hint = f"write {self.nearest_name(name)}"
        if len(name) < self.least:
            words = f"at least {self.least}"
        elif len(name) > self.most:
            words = f"at most {self.most}"
        else:
            words = ""
        if words:
            count = plural(len(name), "character")
            message = f"{name!r} has {count}, and the name of {self.kind} has {words}"
            yield Problem(path, message, hint)
        bad = sorted({char for char in name if not re.fullmatch(self.allowed, char)})
        if bad:
            characters = " ".join(
                char if char.isprintable() and char != " " else repr(char) for char in bad
            )
            message = f"{name!r} has {characters}; the name of {self.kind} has {self.words}"
            yield Problem(path, message, hint)
        for char, allowed, verb in ((name[0], self.first, "begin"), (name[-1], self.last, "end")):
            if char not in bad and not re.fullmatch(allowed, char):
                message = f"{name!r} {verb}s with {char}, and the name of {self.kind} may not"
                yield Problem(path, message, hint)
        if self.is_spaced and "--" in name:
            message = f"{name!r} has two - in a row, which the name of {self.kind} may not have"
            yield Problem(path, message, hint)

    def nearest_name(self, name: str) -> str:
        """A name that is allowed, and as like the given one as can be."""
        lower = name if re.fullmatch(self.allowed, "A") else name.lower()
        text = "".join(char if _fits(self.allowed, char) else self.joint for char in lower)
        if self.is_spaced:
            text = re.sub("-+", "-", text)
        while text and not _fits(self.first, text[0]):
            text = text[1:]
        text = text[: self.most]
        while text and not _fits(self.last, text[-1]):
            text = text[:-1]
        return text if len(text) >= self.least else f"{text}demo"[: self.most]


def _fits(allowed: str, char: str) -> bool:
    return re.fullmatch(allowed, char, re.ASCII) is not None


GROUP = NamingRule(
    "a resource group",
    1,
    90,
    r"[\w.()-]",
    "letters, digits and . _ - ( )",
    first=r"[\w.()-]",
    last=r"[\w()-]",
)
CLUSTER = NamingRule("an AKS cluster", 1, 63, "[A-Za-z0-9_-]", "letters, digits, - and _")
DNS_PREFIX = NamingRule("a DNS prefix", 1, 54, "[A-Za-z0-9-]", "letters, digits and -")
POOL = NamingRule(
    "a node pool of Linux",
    1,
    12,
    "[a-z0-9]",
    "lower-case letters and digits only",
    first="[a-z]",
    joint="",
)
ACCOUNT = NamingRule(
    "a storage account", 3, 24, "[a-z0-9]", "lower-case letters and digits only", joint=""
)
SHARE = NamingRule(
    "a file share", 3, 63, "[a-z0-9-]", "lower-case letters, digits and -", is_spaced=True
)
CONTAINER = replace(SHARE, kind="a blob container")


def account_name(name: str, subscription: str, group: str) -> str:
    """A name for a storage account: the same for the same group, and most likely nobody else's.

    All accounts of Azure share one room of names, so a part of a digest stands at the end.

    Args:
        name: of the whole, as in azure.yaml.
        subscription: its id.
        group: the resource group.
    """
    digest = hashlib.sha256(f"{subscription}/{group}".lower().encode()).hexdigest()
    stem = re.sub(r"[^a-z0-9]", "", name.lower())[: ACCOUNT.most - _DIGEST]
    return f"{stem}{digest[:_DIGEST]}"


def node_group(group: str, cluster: str, region: str) -> str:
    """The second resource group, which AKS makes for the machines of a cluster."""
    return f"MC_{group}_{cluster}_{region}"


def check_node_group(group: str, cluster: str, region: str, path: str) -> Iterator[Problem]:
    """The problems with the name of the group that AKS makes for the machines."""
    name = node_group(group, cluster, region)
    if len(name) > NODE_GROUP_MAX:
        yield Problem(
            path,
            f"AKS would call the group of the machines {name}, which has {len(name)} characters; "
            f"it may have {NODE_GROUP_MAX}",
            "shorten resourceGroup or cluster.name",
        )


def check_tags(tags: Mapping[str, str], path: str) -> Iterator[Problem]:
    """The problems with tags of a person's own."""
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
                f"names that begin with {OWN_PREFIX} are reserved: they say what allranks "
                "may remove",
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
    """The problems with the labels of a pool's nodes."""
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
    """The problems with a taint, ``key=value:Effect``."""
    key, _, effect = text.rpartition(":")
    name, _, value = key.partition("=")
    if not _LABEL.fullmatch(name) or not _LABEL_VALUE.fullmatch(value):
        yield Problem(path, f"{text!r} is no taint", f"write it as key=value:{_EFFECTS[0]}")
    elif effect not in _EFFECTS:
        yield Problem(
            path,
            f"{effect!r} is no effect of a taint; there are {', '.join(_EFFECTS)}",
            f"write {key}:{_EFFECTS[0]}",
        )
