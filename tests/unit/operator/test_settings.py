"""Flags and variables, and what is refused of them."""

from __future__ import annotations

import pytest

from allranks.errors import InputError
from allranks_operator import settings
from allranks_operator.settings import OperatorSettings


def test_nothing_given_is_the_own_namespace() -> None:
    """And the identity is the host's and the process's."""
    operator_settings = settings.read([], {})
    assert ((), False, ("", 8080)) == (
        operator_settings.namespaces,
        operator_settings.cluster,
        operator_settings.listen,
    )
    assert (64, 15, "info") == (
        operator_settings.concurrency,
        operator_settings.lease_seconds,
        operator_settings.log_level,
    )
    assert operator_settings.identity


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
        "ALLRANKS_OPERATOR_ACCOUNT": "account",
        "ALLRANKS_OPERATOR_NAMESPACE": "home",
    }
    expected = OperatorSettings(
        namespaces=("a", "b"),
        master_image="i:1",
        listen=("", 9),
        lease_namespace="n",
        lease_name="l",
        lease_seconds=30,
        identity="pod",
        account="account",
        account_namespace="home",
        concurrency=8,
        pod_logs=True,
        log_level="debug",
    )
    assert expected == settings.read([], environment)
    words = ["-n", "c,d", "--namespace", "e", "--listen", "[::1]:0", "--concurrency=4"]
    operator_settings = settings.read(words, environment)
    assert (("c", "d", "e"), ("::1", 0), 4) == (
        operator_settings.namespaces,
        operator_settings.listen,
        operator_settings.concurrency,
    )


def test_all_namespaces_are_all() -> None:
    """Whatever namespaces the environment names."""
    operator_settings = settings.read(["--all-namespaces"], {"ALLRANKS_WATCH_NAMESPACES": "a"})
    assert ((), True) == (operator_settings.namespaces, operator_settings.cluster)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--listen", "8080x"], "--listen"),
        (["--listen", ":70000"], "from 0 to 65535"),
        (["--concurrency", "0"], "from 1 to 256"),
        (["--concurrency", "٣"], "whole number"),
        (["--lease-seconds", "1"], "from 3 to 3600"),
        (["-n", "a", "--all-namespaces"], "exclude each other"),
    ],
)
def test_what_makes_no_sense_is_refused(words: list[str], message: str) -> None:
    """With what is allowed."""
    with pytest.raises(InputError, match=message):
        settings.read(words, {})


def test_a_switch_of_the_environment_is_true_or_false() -> None:
    """Anything else is a mistake that would otherwise pass for false."""
    with pytest.raises(InputError, match="ALLRANKS_POD_LOGS"):
        settings.read([], {"ALLRANKS_POD_LOGS": "on please"})


def test_help_names_every_variable(capsys: pytest.CaptureFixture[str]) -> None:
    """So that who sets the environment finds it."""
    with pytest.raises(SystemExit):
        settings.read(["--help"], {})
    help_text = capsys.readouterr().out
    assert 14 == help_text.count("[ALLRANKS_")


def test_an_operator_without_a_masters_image_says_so() -> None:
    """By the flag that is missing, and the key with which a job helps itself."""
    message, hint = settings.lacking(settings.read([], {}))
    assert "masters of elastic jobs" in message
    assert all(word in hint for word in ("--master-image", "elastic.auto.master.image"))
    assert ("", "") == settings.lacking(settings.read(["--master-image", "i:1"], {}))
