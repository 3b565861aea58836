"""The rules of Azure for names: each has its own words, and its fix is a name that is allowed."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allranks.azure import naming

RULES = [
    naming.GROUP,
    naming.CLUSTER,
    naming.DNS_PREFIX,
    naming.POOL,
    naming.ACCOUNT,
    naming.SHARE,
    naming.CONTAINER,
]
# As Azure's own pages write them.
PATTERNS = {
    "a resource group": r"[-\w.()]{0,89}[-\w()]",
    "an AKS cluster": r"[a-zA-Z0-9]([a-zA-Z0-9_-]{0,61}[a-zA-Z0-9])?",
    "a DNS prefix": r"[a-zA-Z0-9]([a-zA-Z0-9-]{0,52}[a-zA-Z0-9])?",
    "a node pool of Linux": r"[a-z][a-z0-9]{0,11}",
    "a storage account": r"[a-z0-9]{3,24}",
    "a file share": r"(?!.*--)[a-z0-9][a-z0-9-]{1,61}[a-z0-9]",
    "a blob container": r"(?!.*--)[a-z0-9][a-z0-9-]{1,61}[a-z0-9]",
}
NAMES = st.text("abzAZ09-_.() é/", max_size=100)


@given(rule=st.sampled_from(RULES), name=NAMES)
def test_a_rule_refuses_what_azure_refuses(rule: naming.NamingRule, name: str) -> None:
    """A name has no problem exactly where Azure's own pattern takes it."""
    is_valid = re.fullmatch(PATTERNS[rule.kind], name) is not None

    assert is_valid == (not list(rule.check(name, "name")))


@given(rule=st.sampled_from(RULES), name=NAMES)
def test_a_fix_is_a_name_that_is_allowed(rule: naming.NamingRule, name: str) -> None:
    """What the fix of each problem writes has no problem."""
    for problem in rule.check(name, "name"):
        assert [] == list(rule.check(problem.hint.removeprefix("write "), "name"))


@pytest.mark.parametrize(
    ("rule", "name", "words"),
    [
        (naming.GROUP, "demo.", "ends with ."),
        (naming.GROUP, "a b", "letters, digits and . _ - ( )"),
        (naming.CLUSTER, "-demo", "begins with -"),
        (naming.POOL, "gpu-pool", "lower-case letters and digits only"),
        (naming.POOL, "thirteenchars", "has 13 characters, and the name of a node pool"),
        (naming.POOL, "1gpu", "begins with 1"),
        (
            naming.ACCOUNT,
            "ab",
            "has 2 characters, and the name of a storage account has at least 3",
        ),
        (naming.ACCOUNT, "Data", "has D;"),
        (naming.SHARE, "a--b", "two - in a row"),
        (naming.CONTAINER, "data-", "ends with -"),
        (naming.DNS_PREFIX, "a" * 55, "at most 54"),
    ],
)
def test_each_rule_has_its_words(rule: naming.NamingRule, name: str, words: str) -> None:
    """What is wrong is said in the words of the rule that is broken."""
    assert any(words in problem.message for problem in rule.check(name, "name"))


@pytest.mark.parametrize(
    ("tags", "words"),
    [
        ({"a/b": "x"}, "the name of a tag has /"),
        ({"": "x"}, "a tag has no name"),
        ({"azure-team": "x"}, "which Azure keeps to itself"),
        ({"allranks-name": "x"}, "are reserved"),
        ({"team": "x" * 257}, "the value has 257 characters"),
        ({"x" * 129: "y"}, "the name has 129 characters"),
        ({"Team": "a", "team": "b"}, "one tag to Azure"),
        ({f"t{number}": "" for number in range(47)}, "there are 47 tags"),
    ],
)
def test_tags(tags: dict[str, str], words: str) -> None:
    """Each rule of tags has its own words."""
    assert [words] == [
        words for problem in naming.check_tags(tags, "tags") if words in problem.message
    ][:1]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("sku", "is no taint"),
        ("sku=gpu:Never", "'Never' is no effect"),
        ("=x:NoSchedule", "is no taint"),
    ],
)
def test_taints(text: str, words: str) -> None:
    """A taint is key=value:Effect, and the effect is one of Kubernetes' three."""
    assert [words in problem.message for problem in naming.check_taint(text, "taints[0]")] == [True]
    assert [] == list(naming.check_taint("sku=gpu:NoSchedule", "taints[0]"))


def test_the_name_of_an_account_is_the_same_each_time() -> None:
    """A name that is made up is allowed, the same for the same group, and another elsewhere."""
    name = naming.account_name("My Demo!", "subscription", "group")

    assert name == naming.account_name("My Demo!", "SUBSCRIPTION", "Group")
    assert name != naming.account_name("My Demo!", "subscription", "group2")
    assert [] == list(naming.ACCOUNT.check(name, "account"))


def test_the_group_of_the_machines_has_its_own_bound() -> None:
    """AKS makes a second group, whose name is made of three others, of 80 characters at most."""
    problems = list(naming.check_node_group("g" * 65, "demo", "westeurope", "resourceGroup"))

    assert ["shorten resourceGroup or cluster.name"] == [problem.hint for problem in problems]
    assert [] == list(naming.check_node_group("g", "demo", "westeurope", "resourceGroup"))
