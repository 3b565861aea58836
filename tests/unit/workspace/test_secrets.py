"""What must not be sent unless it is named: keys and tokens, and not code that deals with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from allranks.errors import InvalidValues
from allranks.workspace import snapshot as snapshots

if TYPE_CHECKING:
    from pathlib import Path

# Made here and not written down, so that nobody who looks for tokens finds these.
_DRAWN = "q7Zt2LwX9cVb4NmK8sRd3FgH6jPy1TeU5aQo0WiS7xCzB2vM4kLnE9rYuDpGhJf"
_KEY_HEAD = "-----BEGIN {} PRIVATE KEY-----"
_BASE64 = "MIIEpAIBAAKCAQEA7bq98TqLr0ck4Z1yXn5GmVfEw2sUoJdKtPhR3iCgYxQvW6aB"
_HEX = "9f2c4b7e1d8a3f605b9c2e7d4a1f8b3c6e0d5a92"


def _refused(folder: Path) -> dict[str, str]:
    with pytest.raises(InvalidValues) as error:
        snapshots.take(folder)
    problems = error.value.problems
    assert all("--include" in problem.hint for problem in problems)
    return {problem.path: problem.message for problem in problems}


@pytest.mark.parametrize(
    ("path", "text", "rule"),
    [
        (".env", "A=1", "environment variables (.env)"),
        (".env.production", "A=1", "environment variables (.env)"),
        ("deploy/id_ed25519", "x", "a private key of SSH"),
        ("server.pem", _KEY_HEAD.format("RSA") + "\n" + _BASE64, "a private key"),
        ("tls.key", "x", "a private key"),
        (".netrc", "machine a", "a file of logins"),
        (".aws/credentials", "[default]", "credentials"),
        ("kaggle.json", "{}", "credentials of Kaggle"),
        (".docker/config.json", "{}", "logins of container registries"),
        ("prod.env", "A=1", "environment variables (.env)"),
        ("kubeconfig", "x", "a kubeconfig"),
        ("deploy/Staging.kubeconfig", "x", "a kubeconfig"),
        ("home/.kube/config", "x", "a kubeconfig"),
    ],
)
def test_files_that_are_secrets_by_name(tmp_path: Path, path: str, text: str, rule: str) -> None:
    """The message names the file and the rule."""
    (tmp_path / "train.py").write_text("")
    (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / path).write_text(text)
    (message,) = _refused(tmp_path).values()
    assert rule in message


@pytest.mark.parametrize(
    ("begin", "length", "rule"),
    [
        ("hf_", 34, "Hugging Face"),
        *((f"gh{kind}_", 36, "GitHub") for kind in "pousr"),
        ("github_pat_", 82, "GitHub"),
        ("glpat-", 20, "GitLab"),
        ("AKIA", 16, "an access key of AWS"),
        ("ASIA", 16, "an access key of AWS"),
        *((f"xox{kind}-{'4071' * 3}-", 24, "Slack") for kind in "abp"),
        ("pypi-AgE", 60, "PyPI"),
        ("sk-", 48, "an API key"),
        ("AIza", 35, "Google"),
        ("npm_", 36, "npm"),
        ("xoxa-2-", 24, "Slack"),
        ("xoxb-" + "1234567890-1234567890123-", 24, "Slack"),
        ("xoxe.xoxp-1-", 40, "Slack"),
        ("xapp-" + "1-A0B1C2D3E4F-1234567890123-", 64, "Slack"),
        ("nvapi-", 64, "NVIDIA"),
    ],
)
def test_tokens_by_their_shape(tmp_path: Path, begin: str, length: int, rule: str) -> None:
    """The message names the file, the line and the rule, and never the token."""
    drawn = (_DRAWN + _DRAWN[::-1])[:length]
    token = begin + (drawn.upper() if begin.isupper() else drawn)
    (tmp_path / "train.py").write_text(f"import os\nTOKEN = '{token}'\n")
    refused = _refused(tmp_path)
    assert ["train.py:2"] == list(refused)
    assert rule in refused["train.py:2"]
    assert token not in str(refused)
    # A shorter word is something else.
    (tmp_path / "train.py").write_text(f"TOKEN = '{token[:-1]}'\n")
    is_of_any_length = begin.startswith(("glpat", "xo", "xapp", "pypi", "sk-", "nv"))
    assert is_of_any_length or snapshots.take(tmp_path)


@pytest.mark.parametrize(
    "token",
    [
        "hf_abcdef" + _DRAWN[:28],
        "ghp_your" + _DRAWN[:32],
        "ghp_" + "lowercaselettersonlyanddrawnasitseem",
        "AKIA" + "QWERTYUIPASDFGHK",
        "dop_v1_" + (_HEX + _HEX[::-1])[:64],
    ],
)
def test_a_part_that_looks_typed_makes_no_example_of_a_token(tmp_path: Path, token: str) -> None:
    """The length is right, and most of it is drawn; letters alone may be drawn, too."""
    (tmp_path / "train.py").write_text(f"TOKEN = '{token[:71]}'\n")
    assert ["train.py:1"] == list(_refused(tmp_path))


@pytest.mark.parametrize(
    ("name", "key", "rule"),
    [
        ("aws_secret_access_key", "AWS", "a secret key of AWS"),
        ("AWS_SECRET_ACCESS_KEY", "AWS", "a secret key of AWS"),
        ("WANDB_API_KEY", "HEX", "an API key of Weights & Biases"),
    ],
)
@pytest.mark.parametrize("form", ["{}={}", "export {}='{}'", '"{}": "{}",', "{}: {}", "{} = {}"])
def test_keys_by_what_they_are_assigned_to(
    tmp_path: Path, name: str, key: str, rule: str, form: str
) -> None:
    """In a script, an ini file, JSON and YAML; a name without its key is no key."""
    value = {"AWS": _DRAWN[:40], "HEX": _HEX}[key]
    (tmp_path / "run.sh").write_text("set -e\n" + form.format(name, value) + "\n")
    assert {"run.sh:2"} == set(_refused(tmp_path))
    assert rule in _refused(tmp_path)["run.sh:2"]
    for other in ("", "$KEY", "os.environ['KEY']", value[:-1]):
        (tmp_path / "run.sh").write_text(form.format(name, other) + "\n")
        assert snapshots.take(tmp_path)


def test_a_kubeconfig_with_users_is_one(tmp_path: Path) -> None:
    """Whatever it is called: it says what it is."""
    (tmp_path / "cluster.yaml").write_text(
        "apiVersion: v1\nkind: Config\nclusters: []\nusers:\n- name: me\n  user:\n"
        f"    token: {_DRAWN[:40]}\n"
    )
    assert "kubeconfig" in "".join(_refused(tmp_path).values())


def test_a_key_of_a_service_account_is_one(tmp_path: Path) -> None:
    """A JSON with a private key in it."""
    key = _KEY_HEAD.format("").replace("  ", " ") + "\\n" + _BASE64 + "\\n"
    (tmp_path / "robot.json").write_text(
        '{"type": "service_account", "private_key": "' + key + '"}'
    )
    assert _refused(tmp_path)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("README.md", "Set HF_TOKEN=hf_xxx, or ghp_your_token_here."),
        ("key.py", "KEY = 'id_rsa'"),
        ("id_rsa.pub", "ssh-rsa AAAA me@here"),
        (".env.example", "HF_TOKEN="),
        ("config.yaml", "kind: Config\nmodel: small\n"),
        ("tests/fixture.json", '{"type": "account", "key": "value"}'),
        ("load.py", "if '-----BEGIN RSA PRIVATE KEY-----' in text: raise ValueError"),
        ("ca.pem", "-----BEGIN CERTIFICATE-----\n" + _BASE64),
        ("hash.txt", _HEX),
        ("example.py", "TOKEN = 'hf_" + "0123456789" * 3 + "0123'"),
        ("sk.py", "sk-learn and sk-image are packages"),
        ("empty.key", ""),
        ("gym.env.py", "A = 1"),
        ("example.env", "A=1"),
        ("slack.md", "export SLACK=xoxb-the-token-of-the-workspace-goes-here"),
        ("aws.md", "AKIAIOSFODNN7EXAMPLE"),
        ("all.py", "TOKEN = 'ghp_" + "abcdefghij" * 3 + "abcdef'"),
    ],
)
def test_ordinary_files_go(tmp_path: Path, path: str, text: str) -> None:
    """Code, documents and examples that only speak of keys are no secrets."""
    (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / path).write_text(text)
    (tmp_path / "train.py").write_text("")
    assert path in {entry.path for entry in snapshots.take(tmp_path).entries}


def test_a_named_secret_goes_alone(tmp_path: Path) -> None:
    """`--include` sends the file that it names, and refuses the one beside it."""
    (tmp_path / ".env").write_text("A=1")
    (tmp_path / "other.key").write_text("x")
    with pytest.raises(InvalidValues) as error:
        snapshots.take(tmp_path, include=[".env"])
    assert ["other.key"] == [problem.path for problem in error.value.problems]
