"""Endless answers of the API server: the changes of a list, the lines of a log."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from allranks.errors import ExpiredError, ToolError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allranks.k8s.manifest import Manifest

_CHUNK = 65_536
_GONE = 410
# A program that never ends its line must not fill our memory.
_LONGEST_LINE = 1 << 20
# What a kubelet answers, with 200, in place of the log of a container that was removed, as that of
# an evicted pod (kuberuntime's GetContainerLogs). A program's own line of these words has an end.
_LOG_IS_GONE = b"unable to retrieve container logs for "


class Lines:
    """The lines of a stream, without their ends; another thread may close it."""

    def __init__(self, response: Any) -> None:
        """Wrap a response of `Connection.stream`."""
        self._response = response

    def __iter__(self) -> Iterator[str]:
        """Each line as it arrives, until the stream or the connection ends."""
        from urllib3.exceptions import HTTPError

        rest = b""
        try:
            for chunk in self._response.stream(_CHUNK, decode_content=True):
                *whole, rest = (rest + chunk).split(b"\n")
                for line in whole:
                    yield line.decode("utf-8", "replace")
                if len(rest) > _LONGEST_LINE:
                    yield rest.decode("utf-8", "replace")
                    rest = b""
        except (HTTPError, OSError, ValueError):
            # The connection ended, or was closed here (urllib3 then reads from no file).
            pass
        finally:
            self._response.close()
        if rest and not rest.startswith(_LOG_IS_GONE):
            yield rest.decode("utf-8", "replace")

    def close(self) -> None:
        """Close the stream; the thread that reads it sees its end."""
        try:
            self._response.shutdown()
        except (OSError, ValueError):
            self._response.close()


class Watch:
    """The changes of a list, as ``(kind, object)``: ADDED, MODIFIED, DELETED, BOOKMARK."""

    def __init__(self, response: Any) -> None:
        """Wrap a response of `Connection.stream`."""
        self._lines = Lines(response)

    def __iter__(self) -> Iterator[tuple[str, Manifest]]:
        """Each change as it arrives, until the server ends the watch.

        Raises:
            ExpiredError: the server has forgotten where the watch was.
            ToolError: the server ends it with another error.
        """
        for line in self._lines:
            event = _event(line)
            if event is None:
                return  # half a line: the connection ended in it
            kind, item = event
            if kind == "ERROR":
                if item.get("code") == _GONE:
                    raise ExpiredError("the cluster has forgotten where a watch was")
                raise ToolError(f"the cluster ended a watch: {item.get('message')}")
            yield kind, item

    def close(self) -> None:
        """Close the watch; the thread that reads it sees its end."""
        self._lines.close()


def _event(line: str) -> tuple[str, Manifest] | None:
    try:
        data = json.loads(line)
    except (ValueError, RecursionError):  # no event, or one of an object that nobody can read
        return None
    return str(data.get("type") or ""), data.get("object") or {}
