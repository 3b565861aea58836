"""What must not be sent unless a person names it: keys, passwords, tokens.

A snapshot is kept in ConfigMaps, which all who may read the namespace can read. So what looks like
a secret is refused, by its name or by its contents. The rules ask for the whole shape of a key,
because code that deals with keys names them as well; an example whose digits only count up is no
key.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# What is larger is data, and is not looked into.
SCANNED_BYTES_MAX = 1 << 20
_TEXT_BYTES = 8192  # a file without a zero among its first bytes is text, as git has it
_SPAN = 4096  # how far behind its beginning the shape of a key is looked for


@dataclass(frozen=True, slots=True)
class Secret:
    """The secret for which a file is refused.

    Attributes:
        rule: what it looks like, as it follows "looks like": ``a token of GitHub``.
        line: where in the file, from 1; 0 where its name says it.
    """

    rule: str
    line: int = 0


# --- by name --------------------------------------------------------------------------------------

_ENV_EXAMPLES = ("example", "sample", "template", "dist", "defaults", "tmpl")
_NAMES = {
    **dict.fromkeys((".netrc", "_netrc"), "a file of logins (.netrc)"),
    **dict.fromkeys((".pgpass", ".pypirc", ".git-credentials", ".dockercfg"), "a file of logins"),
    **dict.fromkeys((".vault-token", ".htpasswd"), "a file of logins"),
    **dict.fromkeys(("credentials", "credentials.json", "credentials.csv"), "credentials"),
    **dict.fromkeys(("credentials.yaml", "credentials.yml", "credentials.ini"), "credentials"),
    **dict.fromkeys(("credentials.toml", "credentials.db", ".credentials"), "credentials"),
    "application_default_credentials.json": "credentials of Google Cloud",
    "kaggle.json": "credentials of Kaggle",
    **dict.fromkeys(("kubeconfig", "kubeconfig.yaml", "kubeconfig.yml"), "a kubeconfig"),
}
_PATHS = {
    ".docker/config.json": "logins of container registries",
    ".aws/config": "settings of AWS accounts",
    ".huggingface/token": "a token of Hugging Face",
    ".streamlit/secrets.toml": "secrets of Streamlit",
    ".kube/config": "a kubeconfig",
}
_SSH_KEY = re.compile(r"id_(rsa|dsa|ecdsa|ed25519|xmss)(_sk)?([._-].*)?")
_KEY_ENDS = (".pem", ".key")
_STORE_ENDS = (".p12", ".pfx", ".jks", ".keystore", ".ppk", ".kdbx")
_PUBLIC = re.compile(
    rb"-----BEGIN (?:[A-Z0-9 ]*CERTIFICATE|(?:[A-Z0-9]+ )?PUBLIC KEY|DH PARAMETERS|EC PARAMETERS"
    rb"|X509 CRL)"
)
_PRIVATE = re.compile(rb"-----BEGIN [A-Z0-9 ]*PRIVATE KEY")


def by_name(path: str, data: bytes | None) -> Secret | None:
    """The secret that a file is by its name; None where it is none.

    Args:
        path: below the workspace.
        data: its contents; None where it is too large to be looked into.
    """
    if data == b"":
        return None
    name = path.rpartition("/")[2].lower()
    rule = _NAMES.get(name, "")
    if not rule:
        rule = next(
            (description for end, description in _PATHS.items() if f"/{path}".endswith(f"/{end}")),
            "",
        )
    if not rule and is_environment(name):
        rule = "a file of environment variables (.env)"
    if not rule and _SSH_KEY.fullmatch(name) and not name.endswith((".pub", ".py", ".md")):
        rule = "a private key of SSH"
    if not rule and name.endswith(".kubeconfig"):
        rule = "a kubeconfig"
    if not rule and name.endswith(_STORE_ENDS):
        rule = f"a store of keys (*{_ending(name)})"
    if not rule and name.endswith(_KEY_ENDS) and not (data and _is_public(data)):
        rule = f"a private key (*{_ending(name)})"
    return Secret(rule) if rule else None


def _ending(name: str) -> str:
    return "." + name.rpartition(".")[2]


def is_environment(name: str) -> bool:
    """Whether a file sets variables by its name: ``.env``, ``prod.env``, ``.env.local``.

    Args:
        name: the name, without a folder.
    """
    name = name.lower()
    if name == ".envrc":
        return True
    begin, ending, rest = name.partition(".env")
    if begin:  # `prod.env`, and not the code of `gym.env.py`
        return bool(ending) and not rest and not begin.endswith(_ENV_EXAMPLES)
    is_name = bool(ending) and (not rest or rest[0] in "._-")
    return is_name and not rest.endswith(_ENV_EXAMPLES)


def _is_public(data: bytes) -> bool:
    """Whether a PEM file holds certificates and public keys alone."""
    return _PUBLIC.search(data) is not None and _PRIVATE.search(data) is None


# --- by contents ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Shape:
    """The shape of a secret.

    Attributes:
        begin: what it begins with, which is fast to search for.
        regex: the whole of it, from there; its group `key` is what has to be random.
        rule: as of `Secret`.
    """

    begin: bytes
    regex: re.Pattern[bytes]
    rule: str


def _shape(begin: str, rest: str, rule: str) -> _Shape:
    return _Shape(begin.encode(), re.compile(re.escape(begin.encode()) + rest.encode()), rule)


_END = r"(?![A-Za-z0-9_])"
_GITHUB = rf"(?P<key>[A-Za-z0-9]{{36}}){_END}"
_ASSIGNED = r"['\"]?\s{0,3}[=:]\s{0,3}['\"]?"
_AWS = rf"{_ASSIGNED}(?P<key>[A-Za-z0-9/+]{{40}})(?![A-Za-z0-9/+=])"
_SHAPES = (
    _shape("hf_", rf"(?P<key>[A-Za-z0-9]{{34}}){_END}", "a token of Hugging Face (hf_…)"),
    *(_shape(f"gh{kind}_", _GITHUB, f"a token of GitHub (gh{kind}_…)") for kind in "pousr"),
    _shape(
        "github_pat_",
        rf"(?P<key>[A-Za-z0-9_]{{82}}){_END}",
        "a token of GitHub (github_pat_…)",
    ),
    _shape("glpat-", r"(?P<key>[A-Za-z0-9_-]{20,})", "a token of GitLab (glpat-…)"),
    _shape("AKIA", rf"(?P<key>[A-Z0-9]{{16}}){_END}", "an access key of AWS (AKIA…)"),
    _shape("ASIA", rf"(?P<key>[A-Z0-9]{{16}}){_END}", "an access key of AWS (ASIA…)"),
    _shape(
        "sk-",
        rf"(?P<key>(?:[a-z]+[0-9]*-)*[A-Za-z0-9_]{{20}}[A-Za-z0-9_-]{{12,}}){_END}",
        "an API key (sk-…)",
    ),
    # Words alone are a placeholder; all that Slack draws has digits.
    _shape(
        "xox",
        r"[abeoprs](?:\.xox[bp])?-(?P<key>(?=[A-Za-z-]{0,64}[0-9])[A-Za-z0-9-]{18,})",
        "a token of Slack (xox…)",
    ),
    _shape("xapp-", r"(?P<key>[0-9]-[A-Z0-9]{8,}-[A-Za-z0-9-]{12,})", "a token of Slack (xapp-…)"),
    _shape("nvapi-", r"(?P<key>[A-Za-z0-9_-]{40,})", "an API key of NVIDIA (nvapi-…)"),
    *(
        _shape(f"do{kind}_v1_", rf"(?P<key>[0-9a-f]{{64}}){_END}", "a token of DigitalOcean")
        for kind in "opr"
    ),
    _shape("AIza", rf"(?P<key>[A-Za-z0-9_-]{{35}}){_END}", "an API key of Google (AIza…)"),
    _shape("npm_", _GITHUB, "a token of npm (npm_…)"),
    _shape("pypi-AgE", r"(?P<key>[A-Za-z0-9_-]{50,})", "a token of PyPI (pypi-…)"),
    _shape("aws_secret_access_key", _AWS, "a secret key of AWS"),
    _shape("AWS_SECRET_ACCESS_KEY", _AWS, "a secret key of AWS"),
    _shape(
        "WANDB_API_KEY",
        rf"{_ASSIGNED}(?P<key>[0-9a-f]{{40}}){_END}",
        "an API key of Weights & Biases",
    ),
    # The heading alone is in all code that reads keys; a key has lines of base64 below it, or
    # behind `\n`, as in the JSON of a service account.
    _shape(
        "-----BEGIN ",
        r"(?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----(?:[ \t\"'+,]|\\n|\r?\n|[A-Za-z-]+: [^\r\n]*)*"
        r"(?P<key>[A-Za-z0-9+/]{40})",
        "a private key",
    ),
)  # fmt: skip
_WORD = re.compile(rb"[A-Za-z0-9_]")
_KUBECONFIG = re.compile(rb"(?m)^(?:\s{0,2}\"kind\"|kind)\s*:\s*['\"]?Config['\"]?\s*,?\s*$")
_USERS = re.compile(rb"(?m)^(?:users:\s*\n\s*-\s|\s*\"users\"\s*:\s*\[\s*\{)")
_CONFIG_ENDS = (".yaml", ".yml", ".json", ".conf", ".config", ".kubeconfig")
# No word that a key is drawn with by chance; the short ones are, once in some ten thousand keys.
_LIKE_AN_EXAMPLE = (b"example", b"placeholder", b"redacted", b"changeme")
_SHORT_EXAMPLE = re.compile(rb"your|x{4,}|dummy", re.IGNORECASE)
_RUN = 6  # so many characters that count up, or are one and the same, are typed and not drawn
_DISTINCT_MIN = 6


def by_content(path: str, data: bytes) -> Iterator[Secret]:
    """Yield what looks like a secret in a file, the first of each kind.

    Args:
        path: below the workspace.
        data: its contents.
    """
    if len(data) > SCANNED_BYTES_MAX or b"\0" in data[:_TEXT_BYTES]:
        return
    for shape in _SHAPES:
        place = _search(shape, data)
        if place >= 0:
            yield Secret(shape.rule, _line(data, place))
    name = path.rpartition("/")[2].lower()
    if name.endswith(_CONFIG_ENDS) or "." not in name.lstrip("."):
        kind = _KUBECONFIG.search(data) if b"Config" in data else None
        if kind is not None and _USERS.search(data):
            yield Secret("a kubeconfig with users", _line(data, kind.start()))


def _search(shape: _Shape, data: bytes) -> int:
    place = data.find(shape.begin)
    while place >= 0:
        # A key begins a word, so that `risk-…` is none.
        if not (place and _WORD.match(data, place - 1) and _WORD.match(shape.begin)):
            match = shape.regex.match(data, place, place + _SPAN)
            if match is not None and _is_random(match["key"]):
                return place
        place = data.find(shape.begin, place + 1)
    return -1


def _is_random(key: bytes) -> bool:
    """Whether a key looks drawn, and not typed as an example.

    A part that counts up makes no example of a whole key: half of it has to be typed.
    """
    lower = key.lower()
    if len(set(key)) < _DISTINCT_MIN or any(word in lower for word in _LIKE_AN_EXAMPLE):
        return False
    is_typed = [False] * len(key)
    for match in _SHORT_EXAMPLE.finditer(key):
        is_typed[match.start() : match.end()] = [True] * len(match[0])
    begin, step = 0, None
    for end, (first, second) in enumerate(itertools.pairwise(key), 1):
        if second - first != step:
            begin, step = end - 1, second - first
        if step in (0, 1, -1) and end - begin + 1 >= _RUN:
            is_typed[begin : end + 1] = [True] * (end + 1 - begin)
    return 2 * sum(is_typed) < len(key)


def _line(data: bytes, place: int) -> int:
    return data.count(b"\n", 0, place) + 1
