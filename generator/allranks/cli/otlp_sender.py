"""Send spans to an OpenTelemetry collector over HTTP, as JSON."""

from __future__ import annotations

import http.client
import json
import os
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit, urlunsplit

from allranks.errors import InputError, RunError

if TYPE_CHECKING:
    from collections.abc import Iterable

_SECONDS = 10.0
_PATH = "/v1/traces"
# OpenTelemetry's own: key=value with commas, each value percent-encoded.
ENV_HEADERS = "OTEL_EXPORTER_OTLP_HEADERS"


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: headers may hold a key, and a POST would become a GET."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Refuse; the answer is an error then."""


def endpoint(url: str) -> str:
    """Return the address to send to; OTLP's own path where none is given.

    Raises:
        InputError: it is no http or https address.
    """
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise InputError(
            f"{url!r} is no http or https address",
            path="--otlp",
            hint="as in --otlp http://collector:4318",
        )
    path = _PATH if parts.path in {"", "/"} else parts.path
    return urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))


def send(url: str, bodies: Iterable[dict[str, Any]]) -> int:
    """Send spans; return how many.

    Args:
        url: see `endpoint`.
        bodies: bodies of requests.

    Raises:
        RunError: the collector does not answer, or does not take them.
    """
    opener = urllib.request.build_opener(_NoRedirect)
    headers = {"Content-Type": "application/json", **_headers(os.environ.get(ENV_HEADERS, ""))}
    count = 0
    for body in bodies:
        data = json.dumps(body).encode()
        request = urllib.request.Request(url, data, headers, method="POST")  # noqa: S310 - see endpoint
        try:
            with opener.open(request, timeout=_SECONDS) as answer:
                answer.read()
        except urllib.error.HTTPError as error:
            error.close()  # it holds the connection
            raise RunError(
                f"the collector at {url} answers {error.code} {error.reason}",
                hint="it has to take OTLP over HTTP as JSON, usually on port 4318; a key goes into "
                f"{ENV_HEADERS}",
            ) from error
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            raise RunError(
                f"the collector at {url} does not answer: {reason}",
                hint="usually it listens for HTTP on port 4318",
            ) from error
        spans = body["resourceSpans"][0]["scopeSpans"][0]["spans"]
        count += len(spans)
    return count


def _headers(text: str) -> dict[str, str]:
    pairs = (pair.partition("=") for pair in text.split(",") if "=" in pair)
    return {key.strip(): unquote(value.strip()) for key, _, value in pairs if key.strip()}
