"""The fake of Resource Manager without HTTP: the SDKs' own pipelines, which end in a call.

What a command sends and reads goes through the SDKs as ever, but for the network. So a command is
over in a tenth of the time, and can be killed at any request many times.
"""

from __future__ import annotations

import email.utils
import io
import json
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlsplit

import requests
import urllib3
from azure.core.pipeline.transport import RequestsTransport
from requests.adapters import HTTPAdapter

from tests.azure_fake.arm import READS, Request

if TYPE_CHECKING:
    from tests.azure_fake.arm import FakeArm


class Killed(BaseException):
    """Whoever asks dies here, as of SIGKILL."""


class _Session(requests.Session):
    """Hands each request to a fake; dies at the one that was ordered."""

    def __init__(self, fake: FakeArm) -> None:
        super().__init__()
        self._fake = fake
        self._adapter = HTTPAdapter()

    def request(self, method: str, url: str, **options: Any) -> requests.Response:  # type: ignore[override]
        """Answer as the fake does."""
        fake, parts = self._fake, urlsplit(url)
        arm_request = Request(
            method,
            unquote(parts.path),
            dict(parse_qsl(parts.query)),
            json.loads(options["data"]) if options.get("data") else None,
            str(options["headers"].get("Authorization", "")).removeprefix("Bearer "),
        )
        fake.requests.append(arm_request)
        dies = fake.kill_at == len(fake.requests) or (
            method not in READS and fake.kill_at_write == len(fake.writes())
        )
        if dies and not fake.kill_after:
            raise Killed
        answer = fake._answer(arm_request, len(fake.requests))
        if dies:
            raise Killed
        payload = b"" if answer.data is None else json.dumps(answer.data).encode()
        headers = {
            **answer.headers,
            "Content-Type": "application/json",
            "Date": email.utils.format_datetime(fake.now, usegmt=True),
        }
        body = io.BytesIO(payload)
        raw = urllib3.HTTPResponse(body, headers, answer.status, preload_content=False)
        prepared = requests.PreparedRequest()
        prepared.url = url
        response = self._adapter.build_response(prepared, raw)
        assert response.content is not None  # read here, as a session does
        return response


def transport(fake: FakeArm) -> RequestsTransport:
    """What takes the place of the network in a client of an SDK.

    Args:
        fake: who answers.
    """
    return RequestsTransport(session=_Session(fake), session_owner=False)
