"""Run a program in a container, on this process's own terminal, as `kubectl exec` does.

The API server speaks channels over a WebSocket: input, output, errors, the end, the terminal's
size. Version 5 of the protocol can say that the input has ended; an older server (before 1.30)
speaks version 4, where a program that reads to the end of its input waits until it is stopped.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import sys
import termios
import threading
import time
import tty
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

from allranks.cluster import errors, paths
from allranks.cluster.errors import ApiRequest
from allranks.errors import EXIT_FAILED, RunError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from allranks.cluster.connection import Connection

_STDIN, _STDOUT, _STDERR, _ERROR, _RESIZE = 0, 1, 2, 3, 4
_READ = 32_768
_LOOK_SECONDS = 0.2
_HANDSHAKE_SECONDS = 10.0
_PROTOCOLS = "v5.channel.k8s.io,v4.channel.k8s.io"


@dataclass(frozen=True, slots=True)
class ExecTarget:
    """The container that a program runs in."""

    namespace: str
    pod: str
    container: str = ""


def run(
    connection: Connection,
    place: ExecTarget,
    command: Sequence[str],
    *,
    stdin: bool = False,
    terminal: bool = False,
) -> int:
    """Run a program; return its exit code.

    Args:
        connection: the cluster.
        place: the container.
        command: the program and its arguments.
        stdin: pass this process's input on.
        terminal: give it a terminal, which is ours.

    Raises:
        NotFoundError: there is no such pod.
        ToolError: the cluster does not answer, or forbids it (ForbiddenError).
        RunError: the program cannot be started.
    """
    query = [("command", word) for word in command]
    query += [("stdout", "true")]
    if place.container:
        query.append(("container", place.container))
    # A terminal has one output only.
    query.append(("tty", "true") if terminal else ("stderr", "true"))
    if stdin:
        query.append(("stdin", "true"))
    session = _open(connection, place, query)
    try:
        with _raw() if terminal else _as_it_is():
            if terminal:
                _keep_size(session)
            if stdin:
                threading.Thread(target=_send, args=(session,), daemon=True).start()
            _receive(session)
    finally:
        session.close()
    return _exit_code(session)


def ask(
    connection: Connection,
    place: ExecTarget,
    command: Sequence[str],
    data: bytes,
    *,
    end: bytes,
    seconds: float,
) -> bytes:
    """Run a program that is given data; return what it prints before the line that ends its answer.

    Neither side relies on the end of a stream, which some servers never pass on: the program knows
    how much data it is given, and its answer ends with a line.

    Args:
        connection: the cluster.
        place: the container.
        command: the program and its arguments.
        data: what it reads from its input.
        end: the line that ends its answer, without its break.
        seconds: how long it may take in all.

    Raises:
        NotFoundError: there is no such pod.
        ToolError: the cluster does not answer, or forbids it (ForbiddenError).
        RunError: the program cannot be started, or gives no whole answer in time.
    """
    query = [("command", word) for word in command]
    query += [("stdin", "true"), ("stdout", "true"), ("stderr", "true")]
    if place.container:
        query.append(("container", place.container))
    deadline = time.monotonic() + seconds
    session = _open(connection, place, query)
    answer, complaint = b"", b""
    try:
        for start in range(0, len(data), _READ):
            session.write_channel(_STDIN, data[start : start + _READ])
        while session.is_open():
            session.update(timeout=min(_LOOK_SECONDS, max(0.0, deadline - time.monotonic())))
            answer += session.read_channel(_STDOUT) if session.is_open() else b""
            complaint += session.read_channel(_STDERR) if session.is_open() else b""
            if end in answer.splitlines():
                return answer[: answer.index(end)]
            if time.monotonic() > deadline:
                raise RunError(
                    f"pod {place.pod} has not answered within {seconds:.0f} s",
                    hint="try again; its node may be gone or too busy",
                )
        answer += _rest(session, _STDOUT)
        complaint += _rest(session, _STDERR)
    except OSError as error:
        raise RunError(f"the connection to pod {place.pod} was lost: {error}") from error
    finally:
        session.close()
    if end in answer.splitlines():
        return answer[: answer.index(end)]
    code = _exit_code(session)
    last = complaint.decode(errors="replace").strip().splitlines()[-1:] or ["it printed nothing"]
    raise RunError(f"in pod {place.pod} {command[0]} ended with exit code {code}: {last[0]}")


def _open(connection: Connection, place: ExecTarget, query: list[tuple[str, str]]) -> Any:
    """Open the library's session."""
    settings = connection.settings
    import websocket
    from kubernetes.stream.ws_client import WSClient, get_websocket_url

    request = ApiRequest("create", f"{paths.PODS}/exec", place.namespace, place.pod)
    lower = {name.lower(): value for name, value in connection.credentials().items()}
    own_headers = {name: lower[name] for name in ("authorization",) if name in lower}
    if connection.config.impersonation:
        # The library passes on these two alone, as lines: further ones go below the second.
        lines = [f"{name}: {value}" for name, value in connection.config.impersonation]
        own_headers["sec-websocket-protocol"] = "\r\n".join([_PROTOCOLS, *lines])
    websocket.setdefaulttimeout(_HANDSHAKE_SECONDS)
    try:
        session = WSClient(  # type: ignore[no-untyped-call]
            settings,
            get_websocket_url(f"{settings.host}{request.url}", query),  # type: ignore[no-untyped-call]
            own_headers,
            capture_all=False,
            binary=True,
        )
    except websocket.WebSocketBadStatusException as error:
        raise errors.refusal(
            connection.where,
            request,
            error.status_code,
            error.resp_body or b"",
            reason=str(error),
        ) from error
    except (websocket.WebSocketException, OSError) as error:
        raise errors.unreachable(connection.where, error) from error
    finally:
        websocket.setdefaulttimeout(None)
    session.sock.settimeout(None)
    return session


def _receive(session: Any) -> None:
    """Forward the program's output until it ends."""
    while session.is_open():
        session.update(timeout=_LOOK_SECONDS)
        _pass_on(session)
    _pass_on(session)


def _pass_on(session: Any) -> None:
    for channel, stream in ((_STDOUT, sys.stdout.buffer), (_STDERR, sys.stderr.buffer)):
        data = session.read_channel(channel) if session.is_open() else _rest(session, channel)
        if data:
            _write(stream, data)


def _rest(session: Any, channel: int) -> bytes:
    """The output that arrived before the connection ended."""
    data = session._channels.pop(channel, b"")  # noqa: SLF001 - no public way once it is closed
    return bytes(data)


def _write(stream: BinaryIO, data: bytes) -> None:
    stream.write(data)
    stream.flush()


def _send(session: Any) -> None:
    """Forward our input until it ends, or the session does."""
    from websocket import WebSocketException

    descriptor = sys.stdin.fileno()
    with selectors.DefaultSelector() as selector:
        try:
            selector.register(descriptor, selectors.EVENT_READ)
            pollable = True
        except PermissionError:  # a plain file is always ready
            pollable = False
        while session.is_open():
            if pollable and not selector.select(_LOOK_SECONDS):
                continue
            data = os.read(descriptor, _READ)
            try:
                if not data:
                    session.close_channel(_STDIN)
                    return
                session.write_channel(_STDIN, data)
            except (OSError, ValueError, WebSocketException):
                return  # the program has ended


def _keep_size(session: Any) -> None:
    """Send the size of our terminal, now and when it changes."""

    def tell(*_: object) -> None:
        size = os.get_terminal_size(sys.stdout.fileno())
        text = json.dumps({"Width": size.columns, "Height": size.lines})
        session.write_channel(_RESIZE, text.encode())

    tell()
    signal.signal(signal.SIGWINCH, tell)


@contextmanager
def _raw() -> Iterator[None]:
    """Put our terminal in raw mode: every key goes to the program, Ctrl-C too."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    handler = signal.getsignal(signal.SIGWINCH)
    tty.setraw(descriptor)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
        signal.signal(signal.SIGWINCH, handler)


@contextmanager
def _as_it_is() -> Iterator[None]:
    yield


def _exit_code(session: Any) -> int:
    """The exit code, read from the last channel.

    Raises:
        RunError: the program did not start, or the connection was lost.
    """
    answer = _rest(session, _ERROR)
    try:
        status = json.loads(answer)
    except ValueError as error:
        raise RunError(
            "the connection to the program was lost",
            hint="try again; the pod may have ended or its node may be gone",
        ) from error
    if status.get("status") == "Success":
        return 0
    causes = (status.get("details") or {}).get("causes") or ()
    for cause in causes:
        if cause.get("reason") == "ExitCode":
            return int(cause.get("message") or EXIT_FAILED)
    raise RunError(
        f"the program cannot be started: {status.get('message')}",
        hint="is it in the image, and is the pod running?",
    )
