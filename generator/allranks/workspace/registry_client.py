"""The requests to a registry, by oras.

Its own retries wait for minutes and say nothing, so requests are made here: what a registry answers
becomes an error in words. Credentials go to the registry and to where it gives its tokens, never
over plain http but to this machine, and stand in no message.
"""

from __future__ import annotations

import functools
import logging
import tempfile
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import oras.container
import oras.provider
import requests

from allranks import retry
from allranks.errors import RunError
from allranks.workspace import image as images
from allranks.workspace import snapshot as snapshots

if TYPE_CHECKING:
    from allranks.workspace.image import Blob
    from allranks.workspace.repository import Credentials, Repository

_SECONDS = (10.0, 120.0)  # to connect, and between two bytes
_BUSY = frozenset({429, 500, 502, 503, 504})
_TRIES = 3
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 5.0
_OK, _REFUSALS, _MISSING, _TOO_LARGE = 400, (401, 403), 404, 413
_CHUNK = 1 << 20
_MANIFEST_BYTES_MAX = 4 << 20
_BLOB_BYTES_MAX = 2 * snapshots.BYTES_MAX
_WORDS_MAX = 200
_PATH = "workspace.registry"
# What a request is for, in an error.
_WORDS = {"HEAD": "look into", "GET": "pull from", "POST": "push to", "PUT": "push to"}
_ACCEPT = {"Accept": f"{images.INDEX}, {images.MANIFEST}"}


class RegistryClient:
    """A repository, as far as snapshots need one."""

    def __init__(self, place: Repository, credentials: Credentials | None) -> None:
        """Create it, and ask the registry how it wants to know who asks.

        Args:
            place: the repository.
            credentials: who asks; None for nobody.

        Raises:
            RunError: the registry does not answer.
        """
        self._place = place
        # A log of what goes over the wire would be another place for secrets.
        logger = logging.getLogger("oras.logger")
        logger.propagate = False
        logger.addHandler(logging.NullHandler())
        self._registry = _Requests(place, credentials)

    def has(self, digest: str) -> bool:
        """Whether a manifest is there."""
        response = self._ask(self._manifest(digest), "HEAD", headers=_ACCEPT)
        if response.status_code in {*_REFUSALS, _MISSING}:
            return False  # some hide what is not there; whether we may push shows when we do
        if response.status_code >= _OK:
            raise self._registry.refusal(response, _WORDS["HEAD"])
        return True

    def push_blob(self, blob: Blob) -> None:
        """Push bytes where they are not there."""
        with tempfile.NamedTemporaryFile(prefix="allranks-") as file:
            file.write(blob.data)
            file.flush()
            container = self._container()
            self._tell(
                lambda: self._registry.upload_blob(file.name, container, blob.descriptor()),
                _WORDS["PUT"],
            )

    def push_manifest(self, manifest: Blob, tag: str = "") -> None:
        """Push a manifest, by its digest or under a tag."""
        url = self._manifest(tag or manifest.digest)
        headers = {"Content-Type": manifest.media_type}
        self._ask(url, "PUT", data=manifest.data, headers=headers)

    def manifest(self, digest: str) -> bytes:
        """The bytes of a manifest."""
        return self._get(self._manifest(digest), _MANIFEST_BYTES_MAX)

    def blob(self, digest: str) -> bytes:
        """The bytes of a layer, or of a configuration."""
        return self._get(
            f"{self._registry.prefix}://{self._container().get_blob_url(digest)}", _BLOB_BYTES_MAX
        )

    def _get(self, url: str, most: int) -> bytes:
        response = self._ask(url, "GET", headers=_ACCEPT, stream=True)

        def read() -> bytes:
            data = bytearray()
            for chunk in response.iter_content(_CHUNK):
                data += chunk
                if len(data) > most:
                    raise RunError(f"{self._place} has more than a workspace there", path=_PATH)
            return bytes(data)

        content: bytes = self._tell(read, _WORDS["GET"])
        return content

    def _container(self) -> oras.container.Container:
        container = oras.container.Container("allranks")
        container.registry = self._place.api_host
        container.namespace, _, container.repository = self._place.path.rpartition("/")
        return container

    def _manifest(self, name: str) -> str:
        return f"{self._registry.prefix}://{self._container().manifest_url(name)}"

    def _ask(self, url: str, method: str, **request: Any) -> requests.Response:
        call = functools.partial(self._registry.do_request, url, method, **request)
        response: requests.Response = self._tell(call, _WORDS[method])
        return response

    def _tell(self, call: Any, action: str) -> Any:
        """Make a call; what goes wrong on the way becomes an error in words."""
        host = self._place.host
        try:
            return call()
        except (
            requests.exceptions.InvalidJSONError,
            ValueError,
            AttributeError,
            TypeError,
        ) as error:
            if isinstance(error, requests.exceptions.InvalidSchema):
                raise RunError(
                    f"{host} leads to an address without TLS",
                    path=_PATH,
                    hint="whoever runs the registry has to give it addresses with https",
                ) from error
            # An upload without its place, or a challenge that says nothing.
            raise RunError(
                f"{host} does not answer as a registry does",
                path=_PATH,
                hint="name a repository of an OCI registry",
            ) from error
        except requests.exceptions.SSLError as error:
            raise RunError(
                f"{host} has a certificate that this machine does not trust",
                path=_PATH,
                hint="name the certificate of your authority: REQUESTS_CA_BUNDLE=FILE",
            ) from error
        except requests.exceptions.Timeout as error:
            raise RunError(
                f"{host} did not answer in time",
                path=_PATH,
                hint="try again; is it the right host, and can this machine reach it?",
            ) from error
        except (requests.exceptions.RequestException, OSError) as error:
            raise RunError(
                f"cannot {action} {self._place}: {_reason(error)}",
                path=_PATH,
                hint="is it the right host, and can this machine reach it?",
            ) from error


class _Requests(oras.provider.Registry):  # type: ignore[misc]  # oras has no types
    """oras' registry, with our own way to make a request."""

    def __init__(self, place: Repository, credentials: Credentials | None) -> None:
        self._place = place
        self._has_login = credentials is not None
        super().__init__(hostname=place.api_host, insecure=place.is_plain)
        if not place.is_plain:
            del self.session.adapters["http://"]
        self.session.request = functools.partial(self.session.request, timeout=_SECONDS)
        self._credentials = credentials
        if credentials is not None:
            self.auth.set_basic_auth(credentials.user, credentials.password)

    def do_request(  # noqa: PLR0917 - as oras calls it
        self,
        url: str,
        method: str = "GET",
        data: Any = None,
        headers: dict[str, str] | None = None,
        json: dict[str, Any] | None = None,
        stream: bool = False,  # noqa: FBT001, FBT002 - see above
    ) -> requests.Response:
        """Make a request, again where the registry is busy; say who asks where it wants to know.

        Raises:
            RunError: the registry refuses.
        """
        request = {"data": data, "json": json, "stream": stream}
        failures = 0
        while True:
            response = self._once(method, url, dict(headers or {}), request)
            failures += 1
            if response.status_code not in _BUSY or failures == _TRIES:
                break
            time.sleep(retry.pause(failures, _FIRST_PAUSE, _LONGEST_PAUSE))
        if method != "HEAD" and response.status_code >= _OK:
            raise self.refusal(response, _WORDS[method])
        return response

    @property
    def token(self) -> str | None:
        """The token that the registry has given; None for none."""
        return getattr(self.auth, "token", None)

    def _once(
        self, method: str, url: str, headers: dict[str, str], request: dict[str, Any]
    ) -> requests.Response:
        # An upload may go to another host, which gets no credentials.
        is_theirs = urlsplit(url).netloc == self._place.api_host
        if is_theirs and self.token:
            headers.update(self.auth.get_auth_header())
        response: requests.Response = self.session.request(method, url, headers=headers, **request)
        if not is_theirs or response.status_code not in _REFUSALS:
            return response
        challenge, is_changed = response.headers.get("Www-Authenticate", ""), False
        if challenge.lower().startswith("basic") and self._credentials is not None:
            user, password = self._credentials.user, self._credentials.password
            request = {**request, "auth": (user, password)}
            is_changed = True
        elif challenge.lower().startswith("bearer"):
            headers, is_changed = self.auth.authenticate_request(
                response, headers, refresh=self.token is not None
            )
        if is_changed:
            response = self.session.request(method, url, headers=headers, **request)
        return response

    def refusal(self, response: requests.Response, action: str) -> RunError:
        """The error for an answer that is no success."""
        status, place = response.status_code, self._place
        own = _own_words(response)
        words = f"cannot {action} {place}: {status}{f' {own}' if own else ''}"
        if status in _REFUSALS and not self._has_login:
            hint = f"`docker login {place.host}`; you are not logged in there"
        elif status in _REFUSALS:
            hint = f"ask for the right to it, or log in again: `docker login {place.host}`"
        elif status == _MISSING:
            hint = "create the repository there, or name another one"
        elif status == _TOO_LARGE:
            hint = "leave files out with .allranksignore (`--dry-run` names the largest)"
        elif status in _BUSY:
            hint = "the registry fails; try again later"
        else:
            hint = "name a repository that you may push to"
        return RunError(words, path=_PATH, hint=hint)


def _own_words(response: requests.Response) -> str:
    """The registry's own words."""
    try:
        errors = response.json()["errors"]
        words = str(errors[0].get("message") or errors[0].get("code") or "")
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, OSError):
        words = response.reason or ""
    return "".join(char for char in words[:_WORDS_MAX] if char.isprintable())


def _reason(error: BaseException) -> str:
    """The innermost sentence of an error: urllib3 packs the system's own into two more."""
    causes: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in causes:
        causes.append(current)
        reason = getattr(current, "reason", None)
        inner = reason if isinstance(reason, BaseException) else None
        inner = inner or current.__cause__ or current.__context__
        if inner is None and current.args and isinstance(current.args[0], BaseException):
            inner = current.args[0]
        current = inner
    last = causes[-1]
    words = getattr(last, "strerror", None) or str(last)
    return words[:_WORDS_MAX] or type(last).__name__
