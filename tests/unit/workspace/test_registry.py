"""What is asked of a registry, who asks, and what each refusal says; the registry is a fake."""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import socket
import sys
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest

from allranks.errors import InputError, MissingToolError, RunError
from allranks.workspace import image, registry, registry_client, repository

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from allranks.workspace.image import Image
    from allranks.workspace.model import Archive, Snapshot

_WRONG = "wr0ng-passw0rd"
_PASSWORD = "tr0ub4dor"  # noqa: S105 - of a fake


@dataclass
class FakeRegistry:
    """A registry that pretends: it keeps what is pushed, and refuses as it is told.

    Attributes:
        port: on this machine.
        blobs_by_digest: the bytes by their digests; tags as well.
        requests: verb and path of each request.
        authorizations: what each request said of who asks.
        refusal: status and body of each answer to a change; 0 for none.
        wants: basic or bearer, where it wants to know who asks.
        location: where uploads go; "" is the fake itself.
        fails: so many requests are answered with 503 first.
    """

    port: int = 0
    blobs_by_digest: dict[str, bytes] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    authorizations: list[str] = field(default_factory=list)
    refusal: tuple[int, str] = (0, "")
    wants: str = ""
    location: str = ""
    fails: int = 0

    @property
    def host(self) -> str:
        """Its address."""
        return f"127.0.0.1:{self.port}"

    @property
    def name(self) -> str:
        """A repository in it."""
        return f"{self.host}/my.team/code"

    @property
    def changes(self) -> list[str]:
        """The requests that push something."""
        return [line for line in self.requests if line.split()[0] in {"POST", "PUT"}]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    fake: FakeRegistry

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _serve(self) -> None:
        fake, path = self.fake, urlsplit(self.path).path
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fake.requests.append(f"{self.command} {path}")
        authorization = self.headers.get("Authorization", "")
        fake.authorizations.append(authorization)
        if path == "/token":
            is_right = base64.b64encode(f"me:{_PASSWORD}".encode()).decode() in authorization
            self._answer(200 if is_right else 401, b'{"token": "t0ken"}' if is_right else b"{}")
        elif fake.fails:
            fake.fails -= 1
            self._answer(503)
        elif not self._is_let_in(authorization):
            challenge = {
                "basic": 'Basic realm="a fake"',
                "bearer": f'Bearer realm="http://{fake.host}/token",service="fake",scope="x"',
            }[fake.wants]
            self._answer(
                401, b'{"errors": [{"message": "who are you?"}]}', Www_Authenticate=challenge
            )
        elif fake.refusal[0] and self.command in {"POST", "PUT"}:
            if fake.refusal[0] == 1:  # the connection breaks
                self.connection.shutdown(socket.SHUT_RDWR)
                self.close_connection = True
                return
            self._answer(fake.refusal[0], fake.refusal[1].encode())
        else:
            self._do(path, body)

    def _is_let_in(self, authorization: str) -> bool:
        right = {
            "": authorization,
            "basic": f"Basic {base64.b64encode(f'me:{_PASSWORD}'.encode()).decode()}",
            "bearer": "Bearer t0ken",
        }
        return authorization == right[self.fake.wants]

    def _do(self, path: str, body: bytes) -> None:
        name = path.rpartition("/")[2]
        if self.command == "POST":
            self._answer(202, Location=self.fake.location or "/v2/my.team/code/blobs/uploads/1?s=1")
        elif self.command == "PUT":
            digest = parse_qs(urlsplit(self.path).query).get("digest", [name])[0]
            actual = f"sha256:{hashlib.sha256(body).hexdigest()}"
            self.fake.blobs_by_digest[digest] = self.fake.blobs_by_digest[actual] = body
            self._answer(201 if ":" not in digest or actual == digest else 400)
        elif name in self.fake.blobs_by_digest:
            self._answer(200, self.fake.blobs_by_digest[name])
        else:
            self._answer(404, b'{"errors": [{"code": "NAME_UNKNOWN"}]}')

    do_GET = do_HEAD = do_POST = do_PUT = _serve  # noqa: N815 - as the library calls them


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeRegistry]:
    """A fake registry, which nobody is logged in to."""
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    monkeypatch.setattr(registry_client, "_FIRST_PAUSE", 0.001)
    fake = FakeRegistry()
    handler = type("Handler", (_Handler,), {"fake": fake})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        fake.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield fake
        server.shutdown()


@pytest.fixture
def built(snapshot: Snapshot, archive: Archive) -> Image:
    """The image that is pushed."""
    return image.build(snapshot, archive)


def log_in(tmp_path: Path, config: dict[str, Any]) -> None:
    """Write docker's configuration."""
    folder = tmp_path / "docker"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")


def auth(user: str = "me", password: str = _PASSWORD) -> dict[str, str]:
    """An entry of docker's configuration."""
    return {"auth": base64.b64encode(f"{user}:{password}".encode()).decode()}


def test_an_image_is_pushed_once(fake: FakeRegistry, built: Image, archive: Archive) -> None:
    """Its parts first and the index last, under a tag; a second push only asks for it."""
    assert registry.push(fake.name, built)
    assert fake.changes[-1] == f"PUT /v2/my.team/code/manifests/{built.tag}"
    fake.requests.clear()
    assert not registry.push(fake.name, built)
    assert [f"HEAD /v2/my.team/code/manifests/{built.index.digest}"] == fake.requests
    assert archive == registry.pull(f"{fake.name}@{built.index.digest}")[0]


def test_a_layer_that_is_there_is_not_sent_again(fake: FakeRegistry, built: Image) -> None:
    """A push that was interrupted goes on where it was."""
    fake.blobs_by_digest[built.blobs[0].digest] = built.blobs[0].data
    assert registry.push(fake.name, built)
    uploads = [line for line in fake.changes if line.startswith("POST")]
    assert len(built.blobs) - 1 == len(uploads)


@pytest.mark.parametrize("wants", ["basic", "bearer"])
def test_credentials_come_from_dockers_configuration(
    fake: FakeRegistry, built: Image, tmp_path: Path, wants: str
) -> None:
    """Whether the registry takes them itself, or gives a token for them."""
    fake.wants = wants
    log_in(tmp_path, {"auths": {fake.host: auth()}})
    assert registry.push(fake.name, built)
    assert registry.pull(f"{fake.name}@{built.index.digest}")


@pytest.mark.parametrize("wants", ["basic", "bearer"])
def test_wrong_credentials_are_said_and_not_shown(
    fake: FakeRegistry, built: Image, tmp_path: Path, caplog: pytest.LogCaptureFixture, wants: str
) -> None:
    """The error names the registry and how to log in; no log and no error has the password."""
    caplog.set_level(logging.DEBUG)
    fake.wants = wants
    log_in(tmp_path, {"auths": {fake.host: auth(password=_WRONG)}})
    with pytest.raises(RunError, match=f"cannot push to {fake.name}: 401 who are you") as caught:
        registry.push(fake.name, built)
    assert f"docker login {fake.host}" in caught.value.problem.hint
    assert "wr0ng" not in f"{caught.value}{caplog.text}"
    assert auth(password=_WRONG)["auth"] not in caplog.text


def test_who_is_not_logged_in_is_told_so(fake: FakeRegistry, built: Image) -> None:
    """401 without credentials."""
    fake.wants = "bearer"
    with pytest.raises(RunError, match="401") as caught:
        registry.push(fake.name, built)
    assert "you are not logged in there" in caught.value.problem.hint


@pytest.mark.parametrize(
    ("status", "words", "hint"),
    [
        (401, "401 no such luck", "docker login"),
        (403, "403 no such luck", "docker login"),
        (404, "404 no such luck", "create the repository there"),
        (413, "413 no such luck", "leave files out"),
        (429, "429 no such luck", "try again later"),
        (500, "500 no such luck", "try again later"),
        (503, "503 no such luck", "try again later"),
        (400, "400 no such luck", "name a repository"),
        (1, "cannot push to", "can this machine reach it"),
    ],
)
def test_each_refusal_says_what_to_do(
    fake: FakeRegistry, built: Image, status: int, words: str, hint: str
) -> None:
    """With the registry's own words, where it has some; a broken connection as well."""
    fake.refusal = (status, '{"errors": [{"code": "DENIED", "message": "no such luck"}]}')
    with pytest.raises(RunError, match=words) as caught:
        registry.push(fake.name, built)
    assert hint in caught.value.problem.hint
    assert built.index.digest not in fake.blobs_by_digest


@pytest.mark.parametrize("body", ["", "<html>", "[]", '{"errors": []}', '{"errors": [7]}'])
def test_a_refusal_without_words_has_its_number(
    fake: FakeRegistry, built: Image, body: str
) -> None:
    """A proxy in between answers in its own way."""
    fake.refusal = (403, body)
    with pytest.raises(RunError, match="403 Forbidden"):
        registry.push(fake.name, built)


def test_a_registry_that_is_busy_is_asked_again(fake: FakeRegistry, built: Image) -> None:
    """Twice, and then it is given up."""
    fake.fails = 2
    assert registry.push(fake.name, built)


def test_an_upload_elsewhere_gets_no_credentials(
    fake: FakeRegistry, built: Image, tmp_path: Path
) -> None:
    """A registry may send the bytes to a store of another name, which must not see a token."""
    fake.wants = "bearer"
    fake.location = f"http://localhost:{fake.port}/store/1"
    log_in(tmp_path, {"auths": {fake.host: auth()}})
    with pytest.raises(RunError, match="401"):  # the fake wants to know who asks; a store does not
        registry.push(fake.name, built)
    to_store = [
        who
        for line, who in zip(fake.requests, fake.authorizations, strict=True)
        if "/store/" in line
    ]
    assert [""] == to_store


def test_an_answer_that_is_none_of_a_registry_is_said(fake: FakeRegistry, built: Image) -> None:
    """A web server that takes everything."""
    fake.refusal = (200, "<html>")
    with pytest.raises(RunError, match="does not answer as a registry does"):
        registry.push(fake.name, built)


def test_a_registry_that_is_not_there_is_said(built: Image) -> None:
    """Nobody listens there."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{free.getsockname()[1]}"
        with pytest.raises(RunError, match=f"cannot look into {host}/code: Connection refused"):
            registry.push(f"{host}/code", built)
    with pytest.raises(RunError, match=r"cannot look into registry\.invalid/code") as caught:
        registry.push("registry.invalid/code", built)
    assert "is it the right host" in caught.value.problem.hint


def test_another_machine_is_never_asked_without_tls(
    monkeypatch: pytest.MonkeyPatch, fake: FakeRegistry, built: Image
) -> None:
    """A registry that speaks plain http is for this machine alone."""
    monkeypatch.setattr(repository.Repository, "is_plain", False)
    with pytest.raises(RunError, match="a certificate that this machine does not trust"):
        registry.push(fake.name, built)
    assert [] == fake.requests


@pytest.mark.parametrize(
    ("name", "host", "path", "is_plain"),
    [
        ("registry.example.com/team/code", "registry.example.com", "team/code", False),
        ("registry.example.com:5000/code", "registry.example.com:5000", "code", False),
        ("localhost/code", "localhost", "code", True),
        ("localhost:5000/a/b", "localhost:5000", "a/b", True),
        ("127.0.0.1:5000/code", "127.0.0.1:5000", "code", True),
        ("[::1]:5000/code", "[::1]:5000", "code", True),
        ("10.0.0.1:5000/code", "10.0.0.1:5000", "code", False),
        ("team/code", "docker.io", "team/code", False),
        (f"a.b/c@sha256:{'0' * 64}", "a.b", "c", False),
    ],
)
def test_a_name_has_a_registry_and_a_repository(
    name: str, host: str, path: str, is_plain: bool
) -> None:
    """As containerd reads the name of an image; only this machine is asked without TLS."""
    place = repository.repository(name)
    assert (host, path, is_plain) == (place.host, place.path, place.is_plain)


def test_a_registry_alone_is_no_place() -> None:
    """Images are in repositories."""
    with pytest.raises(InputError, match="names no repository"):
        repository.repository("registry.example.com")


@pytest.mark.parametrize("version", ["v1.34.9", "v1.31.0-eks-1", "1.29"])
def test_an_older_kubernetes_is_refused(version: str) -> None:
    """Its pods would never start."""
    with pytest.raises(InputError, match=r"whose pods cannot mount an image; 1\.35 and newer can"):
        registry.check_version(_Versioned(version))  # type: ignore[arg-type]


@pytest.mark.parametrize("version", ["v1.35.0", "v1.36.3+k3s1", "v2.0.0", "unknown"])
def test_a_newer_kubernetes_is_taken(version: str) -> None:
    """And so is what cannot be told."""
    registry.check_version(_Versioned(version))  # type: ignore[arg-type]


@dataclass(frozen=True)
class _Versioned:
    """A cluster that has a version."""

    number: str
    where: str = "context fake at nowhere"

    def version(self) -> str:
        """The version."""
        return self.number


def test_a_missing_extra_is_said(monkeypatch: pytest.MonkeyPatch, built: Image) -> None:
    """With what to install."""
    monkeypatch.delitem(sys.modules, "allranks.workspace.registry_client", raising=False)
    monkeypatch.delattr("allranks.workspace.registry_client", raising=False)
    monkeypatch.setitem(sys.modules, "oras", None)
    monkeypatch.setitem(sys.modules, "oras.container", None)
    with pytest.raises(MissingToolError, match="needs oras, which is not installed") as caught:
        registry.push("localhost:1/code", built)
    assert "pip install 'allranks[registry]'" == caught.value.problem.hint


# --- docker's configuration -----------------------------------------------------------------------

HOST = "registry.example.com"


def credentials(tmp_path: Path, config: dict[str, Any], **env: str) -> tuple[str, str] | None:
    """Who asks, by a configuration."""
    log_in(tmp_path, config)
    who = repository.credentials(HOST, {"DOCKER_CONFIG": str(tmp_path / "docker"), **env})
    return None if who is None else (who.user, who.password)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, None),
        ({"auths": {"other.example.com": auth()}}, None),
        ({"auths": {HOST: {}}}, None),
        ({"auths": {HOST: auth()}}, ("me", _PASSWORD)),
        ({"auths": {f"https://{HOST}": auth()}}, ("me", _PASSWORD)),
        ({"auths": {HOST: auth("me", "a:b")}}, ("me", "a:b")),
        ({"auths": {HOST: {"username": "me", "password": "x"}}}, ("me", "x")),
        ({"auths": {HOST: {"auth": "no base64 ÿ"}}}, None),
        ({"auths": 7}, None),
    ],
)
def test_what_the_configuration_says(
    tmp_path: Path, config: dict[str, Any], expected: tuple[str, str] | None
) -> None:
    """Of one registry only."""
    assert expected == credentials(tmp_path, config)


def test_no_configuration_is_nobody(tmp_path: Path) -> None:
    """Public registries of a laboratory take what anybody pushes."""
    assert repository.credentials(HOST, {"HOME": str(tmp_path)}) is None


def test_a_broken_configuration_is_named(tmp_path: Path) -> None:
    """With its path."""
    (tmp_path / "config.json").write_text("{", encoding="utf-8")
    with pytest.raises(RunError, match="cannot be read: it is no JSON"):
        repository.credentials(HOST, {"DOCKER_CONFIG": str(tmp_path)})


@pytest.fixture
def helper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A credential helper, to be written."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path / "docker-credential-fake"


def write_helper(path: Path, script: str) -> None:
    """Write a helper."""
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)


@pytest.mark.parametrize("config", [{"credHelpers": {HOST: "fake"}}, {"credsStore": "fake"}])
def test_a_credential_helper_is_asked(tmp_path: Path, helper: Path, config: dict[str, Any]) -> None:
    """As docker asks it: the registry on its input."""
    answer = '{"Username": "me", "Secret": "s"}'
    write_helper(helper, f"""read host; [ "$1 $host" = "get {HOST}" ] && echo '{answer}'""")
    assert ("me", "s") == credentials(tmp_path, config)


def test_a_helper_that_knows_nobody_is_nobody(tmp_path: Path, helper: Path) -> None:
    """It ends with an error then."""
    write_helper(helper, "echo credentials not found; exit 1")
    assert credentials(tmp_path, {"credsStore": "fake"}) is None


def test_a_helper_that_is_not_there_is_named(tmp_path: Path) -> None:
    """It would be taken for who is not logged in."""
    with pytest.raises(RunError, match="docker-credential-nowhere, which docker's configuration"):
        credentials(tmp_path, {"credsStore": "nowhere"})


def test_an_identity_token_is_said_to_be_of_no_use(tmp_path: Path, helper: Path) -> None:
    """Docker alone can use it."""
    write_helper(helper, """echo '{"Username": "<token>", "Secret": "s"}'""")
    with pytest.raises(RunError, match="which only docker can use"):
        credentials(tmp_path, {"credsStore": "fake"})
