"""azure.yaml: its defaults are the file that init prints, and all that is wrong is told at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from allranks.azure import settings
from allranks.errors import InputError, InvalidValues

if TYPE_CHECKING:
    from pathlib import Path

ID = "11111111-2222-3333-4444-555555555555"


def _load(folder: Path, text: str) -> settings.Settings:
    path = folder / "azure.yaml"
    path.write_text(text)
    return settings.load(str(path))


def _problems(folder: Path, text: str) -> dict[str, str]:
    with pytest.raises(InvalidValues) as caught:
        _load(folder, text)
    return {problem.path: f"{problem.message} {problem.hint}" for problem in caught.value.problems}


def test_the_starter_is_the_defaults(tmp_path: Path) -> None:
    """What init prints means the same as a file with the name and the subscription alone."""
    starter = _load(tmp_path, settings.starter("demo", ID, "eastus"))
    short = _load(tmp_path, f"name: demo\nsubscription: {ID}\nregion: East US\n")

    assert starter == short
    assert ("allranks-demo", "demo", "eastus", 12) == (
        short.group,
        short.cluster,
        short.region,
        short.max_hours,
    )
    assert [0] == [pool.min_nodes for pool in short.pools]


@pytest.mark.parametrize("name", ["12", "on", "1e3"])
def test_a_starter_can_be_read(tmp_path: Path, name: str) -> None:
    """A name that YAML would read as no text is written as one."""
    assert name == _load(tmp_path, settings.starter(name, ID, "West Europe")).name


@pytest.mark.parametrize(
    ("words", "path"),
    [
        ({"name": "a: b"}, "--name"),
        ({"subscription": "5"}, "--subscription"),
        ({"region": "x\ny: z"}, "--region"),
    ],
)
def test_a_starter_that_nobody_can_use_is_refused(words: dict[str, str], path: str) -> None:
    """What Azure forbids is told before an azure.yaml with it is printed."""
    with pytest.raises(InvalidValues) as caught:
        settings.check_starter(**{"name": "", "subscription": "", "region": "", **words})

    assert {path} == {problem.path for problem in caught.value.problems}


def test_the_subscription_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without one in the file AZURE_SUBSCRIPTION_ID is taken, and has to be an id."""
    monkeypatch.delenv(settings.ENV_SUBSCRIPTION, raising=False)
    assert ["subscription"] == list(_problems(tmp_path, "name: demo\n"))
    monkeypatch.setenv(settings.ENV_SUBSCRIPTION, "my-subscription")
    assert "is not the id" in _problems(tmp_path, "name: demo\n")["subscription"]
    monkeypatch.setenv(settings.ENV_SUBSCRIPTION, ID)
    assert ID == _load(tmp_path, "name: demo\n").subscription


@pytest.mark.parametrize(
    ("text", "path", "words"),
    [
        ("clster: {}", "clster", "write cluster"),
        ("cloud: germany", "cloud", "is not one of public, usGovernment, china"),
        ("maxHours: 9000", "maxHours", "8760"),
        ("name: _x", "name", "begins with _"),
        ("pools: [{name: a, vmSize: S, maxNodes: 1, os: Windows}]", "pools[0].os", "no training"),
        (
            "pools: [{name: a, vmSize: S, maxNodes: 1, minNodes: 2}]",
            "pools[0].minNodes",
            "more than maxNodes",
        ),
        (
            "pools: [{name: system, vmSize: S, maxNodes: 1}]",
            "pools[0].name",
            "is the name of cluster.systemPool already",
        ),
        ("pools: [{name: a, vmSize: S}]", "pools[0].maxNodes", "is missing"),
        ("storage: {sku: Premium_LRS}", "storage.containers", "file shares alone"),
        (
            "storage: {sku: Premium_LRS, containers: [], shares: [{name: abc, quotaGiB: 5}]}",
            "storage.shares[0].quotaGiB",
            "at least 100 GiB",
        ),
        ("storage: {containers: [abc, abc]}", "storage.containers[1]", "stands here twice"),
        ("storage: {shares: [{name: A, quotaGiB: 5}]}", "storage.shares[0]", "lower-case"),
        ("cluster: {kubernetesVersion: 1.34}", "cluster.kubernetesVersion", '"1.34"'),
        ("tags: {team: 5}", "tags.team", "quote it"),
    ],
)
def test_what_is_wrong_is_told(tmp_path: Path, text: str, path: str, words: str) -> None:
    """Each mistake is told at its path, with what is allowed or the nearest that is."""
    head = "" if text.startswith("name") else "name: demo\n"
    problems = _problems(tmp_path, f"{head}subscription: {ID}\n{text}\n")

    assert [path] == list(problems)
    assert words in problems[path]


def test_an_empty_file_is_told_how_to_begin(tmp_path: Path) -> None:
    """As after `azure init > azure.yaml` was stopped."""
    with pytest.raises(InputError, match="is empty") as caught:
        _load(tmp_path, "\n")

    assert "allranks azure init" in caught.value.problem.hint


def test_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a file, the message says how to begin one."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as caught:
        settings.load("azure.yaml")

    assert "allranks azure init > azure.yaml" in caught.value.problem.hint
