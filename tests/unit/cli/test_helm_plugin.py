"""`helm sweep`: what helm passes on, as the words after `allranks`."""

from __future__ import annotations

import pytest

from allranks.cli.commands import sweep
from allranks.cli.commands.sweep import helm_plugin

HELM = {"HELM_BIN": "/bin/helm", "HELM_NAMESPACE": "lab", "HELM_KUBECONTEXT": ""}
RUN = ["sweep", "run", "--helm", "/bin/helm", "--namespace", "lab"]


@pytest.mark.parametrize(
    ("words", "means"),
    [
        ([], ["sweep"]),
        (["--help"], ["sweep", "--help"]),
        (["help"], ["sweep", "--help"]),
        (["s", "charts/x", "-f", "v.yaml"], [*RUN, "s", "charts/x", "-f", "v.yaml"]),
        (["run", "s", "--on", "local"], [*RUN, "s", "--on", "local"]),
        (["run", "status", "charts/x"], [*RUN, "status", "charts/x"]),
        (["status", "s"], ["sweep", "status", "s"]),
        (["results", "s", "--best"], ["sweep", "results", "--helm", "/bin/helm", "s", "--best"]),
        (["delete", "s"], ["sweep", "delete", "--helm", "/bin/helm", "s"]),
    ],
)
def test_words(words: list[str], means: list[str]) -> None:
    """Without a command a sweep is run, by the helm that called, in helm's namespace."""
    assert means == helm_plugin.arguments(words, HELM)


def test_helms_context_is_ours() -> None:
    """But for this machine, which has none."""
    env = {**HELM, "HELM_KUBECONTEXT": "prod"}
    assert [*RUN, "--context", "prod", "s", "c"] == helm_plugin.arguments(["s", "c"], env)
    for local in (["--on", "local"], ["--on=local"]):
        assert [*RUN, "s", "c", *local] == helm_plugin.arguments(["s", "c", *local], env)


def test_it_knows_all_commands() -> None:
    """One that it did not know would be taken for a sweep's name; a pod's own is no person's."""
    every = sweep.sweep_command.commands
    commands = {name: command for name, command in every.items() if not command.hidden}
    assert set(helm_plugin.VERBS) == set(commands)
    takes_helm = {
        name
        for name, command in commands.items()
        if any("--helm" in param.opts for param in command.params)
    }
    assert takes_helm == {name for name, takes in helm_plugin.VERBS.items() if takes}


def test_its_help_says_helm(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As it was called."""
    monkeypatch.setattr("sys.argv", ["-c", "run", "--help"])
    for name in HELM:
        monkeypatch.delenv(name, raising=False)
    assert 0 == helm_plugin.main()
    assert capsys.readouterr().out.startswith("Usage: helm sweep run [OPTIONS] NAME [CHART]\n")


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        ([""], ["run", "status", "results", "export", "stop", "resume", "delete", ":4"]),
        (["res"], ["results", "resume", ":4"]),
        (["results", "--be"], ["--best", ":4"]),
        (["run", "s", "tor"], ["torchrun", ":4"]),
        (["s", "tor"], ["torchrun", ":4"]),
        (["s", "charts/x", "-f", "v"], [":0"]),
        (["s", "charts/x", "--keep", "f"], ["failed", ":4"]),
    ],
)
def test_completion(words: list[str], lines: list[str]) -> None:
    """As helm asks its plugins: the choices, and whether files are among them."""
    assert lines == helm_plugin.completions(words)
