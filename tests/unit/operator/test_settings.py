"""Flags and variables, and what is refused of them."""

from __future__ import annotations

import pytest

from allranks.errors import InputError
from allranks_operator import settings
from allranks_operator.settings import Settings


def test_nothing_given_is_the_own_namespace() -> None:
    """And the identity is the host's and the process's."""
    found = settings.read([], {})
    assert ((), False, ("", 8080)) == (found.namespaces, found.cluster, found.listen)
    assert (64, 15, "info") == (found.concurrency, found.lease_seconds, found.log_level)
    assert found.identity


def test_flags_win_over_variables() -> None:
    """Each variable that the chart sets is a flag's default."""
    environment = {
        "ALLRANKS_WATCH_NAMESPACES": "a, b,,a",
        "ALLRANKS_WATCH_CLUSTER": "false",
        "ALLRANKS_MASTER_IMAGE": "i:1",
        "ALLRANKS_LISTEN": ":9",
        "ALLRANKS_LOG_LEVEL": "debug",
        "ALLRANKS_CONCURRENCY": "8",
        "ALLRANKS_POD_LOGS": "true",
        "ALLRANKS_LEASE_NAMESPACE": "n",
        "ALLRANKS_LEASE_NAME": "l",
        "ALLRANKS_LEASE_SECONDS": "30",
        "ALLRANKS_IDENTITY": "pod",
    }
    expected = Settings(
        namespaces=("a", "b"),
        master_image="i:1",
        listen=("", 9),
        lease_namespace="n",
        lease_name="l",
        lease_seconds=30,
        identity="pod",
        concurrency=8,
        pod_logs=True,
        log_level="debug",
    )
    assert expected == settings.read([], environment)
    words = ["-n", "c,d", "--namespace", "e", "--listen", "[::1]:0", "--concurrency=4"]
    found = settings.read(words, environment)
    assert (("c", "d", "e"), ("::1", 0), 4) == (found.namespaces, found.listen, found.concurrency)


def test_all_namespaces_are_all() -> None:
    """Whatever namespaces the environment names."""
    found = settings.read(["--all-namespaces"], {"ALLRANKS_WATCH_NAMESPACES": "a"})
    assert ((), True) == (found.namespaces, found.cluster)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--listen", "8080x"], "--listen"),
        (["--listen", ":70000"], "from 0 to 65535"),
        (["--concurrency", "0"], "from 1 to 256"),
        (["--concurrency", "٣"], "whole number"),
        (["--lease-seconds", "1"], "from 3 to 3600"),
        (["-n", "a", "--all-namespaces"], "exclude each other"),
    ],
)
def test_what_makes_no_sense_is_refused(words: list[str], said: str) -> None:
    """With what is allowed."""
    with pytest.raises(InputError, match=said):
        settings.read(words, {})


def test_a_switch_of_the_environment_is_true_or_false() -> None:
    """Anything else is a mistake that would otherwise pass for false."""
    with pytest.raises(InputError, match="ALLRANKS_POD_LOGS"):
        settings.read([], {"ALLRANKS_POD_LOGS": "on please"})


def test_help_names_every_variable(capsys: pytest.CaptureFixture[str]) -> None:
    """So that who sets the environment finds it."""
    with pytest.raises(SystemExit):
        settings.read(["--help"], {})
    said = capsys.readouterr().out
    assert 12 == said.count("[ALLRANKS_")


def test_a_watcher_without_a_masters_image_says_so() -> None:
    """By the flag that is missing, and the key with which a job helps itself."""
    what, hint = settings.lacking(settings.read([], {}))
    assert "masters of elastic jobs" in what
    assert all(word in hint for word in ("--master-image", "elastic.auto.master.image"))
    assert ("", "") == settings.lacking(settings.read(["--master-image", "i:1"], {}))
