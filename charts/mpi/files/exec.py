"""Run a command in another pod through the Kubernetes API, as ``kubectl exec -i`` does.

`rsh.sh` uses this where the pods have no sshd (``mpi.transport: exec``), so that the launcher's
image needs a Python and no kubectl: the standard library alone, Python 3.6 or newer. Who may do
this is a Role that names the job's own pods.

    exec.py HOST COMMAND            HOST is a pod's name, or begins with it: pod.job.namespace.svc
    exec.py --scale-to-zero NAME... end the workers of a StatefulSet

The exit code is the command's. It is 255, with one sentence, where the command could not be started
or its connection was lost, as ssh has it.

Environment:
    ALLRANKS_NAMESPACE   namespace of the pods
    ALLRANKS_CONTAINER   their container; "trainer" by default
    ALLRANKS_FILES       where remote.sh is in them; "/etc/allranks" by default
    ALLRANKS_MPI_CONNECT_SECONDS   how long connecting may take
    KUBERNETES_SERVICE_HOST, KUBERNETES_SERVICE_PORT   the API server, as in every pod
    ALLRANKS_SERVICE_ACCOUNT   folder of the mounted token, where it is not Kubernetes' own

The protocol is WebSocket (RFC 6455), subprotocol v5.channel.k8s.io or, on older servers, v4: the
first byte of a message is its channel. 0, 1 and 2 are stdin, stdout and stderr, 3 says how it
ended, and 255 (v5 only) closes the channel that follows.
"""

import base64
import hashlib
import json
import os
import select
import signal
import socket
import ssl
import stat
import struct
import sys
import time
from http import HTTPStatus
from pathlib import Path
from urllib.parse import urlencode

EXIT_USAGE = 2
EXIT_FAILED = 255
SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
STDIN, STDOUT, STDERR, ERROR, CLOSE = 0, 1, 2, 3, 255
CONTINUATION, BINARY, CLOSING, PING, PONG = 0, 2, 8, 9, 10
PROTOCOLS = "v5.channel.k8s.io", "v4.channel.k8s.io"
GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # of RFC 6455
# A frame's length byte: itself below these two, else the length follows in 2 or in 8 bytes.
LENGTH_16, LENGTH_64 = 126, 127
PING_SECONDS = 5.0  # how long a connection may be quiet until it is asked whether it lives
LOST_SECONDS = 20.0  # and until it is taken for dead
CHUNK = 32768  # bytes that are read at a time
OUTBOX_MAX = 8 * CHUNK  # bytes that may wait to be sent until stdin is left alone


class ExecError(Exception):
    """The command was not run, or its end is not known; the text says why."""


class ApiServer:
    """The API server, and who we are to it: what Kubernetes mounts into a pod."""

    def __init__(self, env):
        """Read `env` and the service account's folder.

        Raises:
            ExecError: this is no pod, or it has no token.
        """
        folder = Path(env.get("ALLRANKS_SERVICE_ACCOUNT", SERVICE_ACCOUNT))
        self.host = env.get("KUBERNETES_SERVICE_HOST", "")
        self.port = int(env.get("KUBERNETES_SERVICE_PORT") or 443)
        self.connect_seconds = float(env.get("ALLRANKS_MPI_CONNECT_SECONDS") or 10)
        self.namespace = env.get("ALLRANKS_NAMESPACE") or "default"
        if not self.host:
            raise ExecError("KUBERNETES_SERVICE_HOST is not set: this does not run in a pod")
        try:
            self.token = (folder / "token").read_text(encoding="ascii").strip()
            self.tls = ssl.create_default_context(cafile=str(folder / "ca.crt"))
        except OSError as error:
            reason = "no service account is mounted at %s: %s" % (folder, error.strerror)
            raise ExecError(reason) from None

    def ask(self, method, path, headers, body=b""):
        """Send a request with our token on a connection of its own.

        Returns:
            The connected socket, whose answer was not read.
        """
        try:
            plain = socket.create_connection((self.host, self.port), self.connect_seconds)
            sock = self.tls.wrap_socket(plain, server_hostname=self.host)
        except OSError as error:
            reason = "the API server at %s:%d is not reached: %s" % (self.host, self.port, error)
            raise ExecError(reason) from None
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        name = "[%s]" % self.host if ":" in self.host else self.host
        lines = [
            "%s %s HTTP/1.1" % (method, path),
            "Host: %s:%d" % (name, self.port),
            "Authorization: Bearer %s" % self.token,
            "User-Agent: allranks",
            "Content-Length: %d" % len(body),
            *headers,
        ]
        sock.sendall("\r\n".join([*lines, "", ""]).encode("ascii") + body)
        return sock


def read_head(sock):
    """The status code and lower-case headers of an answer, and what was read behind them."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = sock.recv(CHUNK)
        if not more:
            raise ExecError("the API server closed the connection without an answer")
        data += more
    head, _, rest = data.partition(b"\r\n\r\n")
    status, *lines = head.decode("latin-1").split("\r\n")
    pairs = (line.partition(":") for line in lines)
    return int(status.split()[1]), {key.lower(): text.strip() for key, _, text in pairs}, rest


def read_body(sock, headers, data):
    """The text of a refusal: what comes until its length is reached or nothing more comes."""
    try:
        length = int(headers.get("content-length", CHUNK))
        while len(data) < length and not data.endswith(b"\r\n0\r\n\r\n"):
            more = sock.recv(CHUNK)
            if not more:
                break
            data += more
    except OSError:
        pass  # what came has to do
    return data.decode("utf-8", "replace")


def refusal(status, text):
    """One sentence on an HTTP error, with the words that `common.sh` looks for."""
    try:
        message = json.loads(text[text.index("{") : text.rindex("}") + 1]).get("message", "")
    except (ValueError, AttributeError):
        message = text
    message = " ".join(message.split()) or "HTTP status %d" % status
    if status == HTTPStatus.NOT_FOUND and message.startswith("pods "):
        return "no such pod: " + message
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return "forbidden: %s (the launcher's Role must allow it)" % message
    if status < HTTPStatus.INTERNAL_SERVER_ERROR or "container" in message:
        return "the pod is not ready: " + message
    return "the API server said: " + message


class WebSocket:
    """A WebSocket: messages in and out, without ever blocking."""

    def __init__(self, server, path):
        """Ask the API server for one.

        Raises:
            ExecError: it said no, with its words.
        """
        key = base64.b64encode(os.urandom(16))
        headers = [
            "Connection: Upgrade",
            "Upgrade: websocket",
            "Sec-WebSocket-Version: 13",
            "Sec-WebSocket-Key: " + key.decode("ascii"),
            "Sec-WebSocket-Protocol: " + ", ".join(PROTOCOLS),
        ]
        self.sock = server.ask("GET", path, headers)
        status, answer, rest = read_head(self.sock)
        if status != HTTPStatus.SWITCHING_PROTOCOLS:
            raise ExecError(refusal(status, read_body(self.sock, answer, rest)))
        expected = base64.b64encode(hashlib.sha1(key + GUID).digest())  # noqa: S324 - RFC 6455's
        if answer.get("sec-websocket-accept") != expected.decode("ascii"):
            raise ExecError("the API server's answer is no WebSocket's (is a proxy in between?)")
        self.protocol = answer.get("sec-websocket-protocol", "")
        if self.protocol not in PROTOCOLS:
            raise ExecError("the API server speaks none of %s" % ", ".join(PROTOCOLS))
        self.sock.setblocking(False)
        self.inbox, self.outbox = bytearray(rest), bytearray()
        self.open, self.message = True, b""

    def send(self, kind, payload):
        """Put a message into the outbox, masked as a client's must be.

        The mask is zeros, which change nothing: it protects old proxies on plain HTTP.
        """
        size = len(payload)
        if size < LENGTH_16:
            head = struct.pack("!BB", 0x80 | kind, 0x80 | size)
        elif size < 1 << 16:
            head = struct.pack("!BBH", 0x80 | kind, 0x80 | LENGTH_16, size)
        else:
            head = struct.pack("!BBQ", 0x80 | kind, 0x80 | LENGTH_64, size)
        self.outbox += head + b"\0\0\0\0" + payload

    def flush(self):
        """Send what can be sent now."""
        try:
            while self.outbox:
                del self.outbox[: self.sock.send(self.outbox)]
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError):
            pass

    def fill(self):
        """Read what is there now."""
        try:
            while self.open:
                data = self.sock.recv(CHUNK)
                self.inbox += data
                self.open = bool(data)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError):
            pass

    def messages(self):
        """The payloads of the messages that have come in whole; answers pings on the way."""
        while True:
            frame = self.frame()
            if frame is None:
                return
            kind, last, payload = frame
            if kind == PING:
                self.send(PONG, payload)
            elif kind == CLOSING:
                self.open = False
            elif kind != PONG:
                self.message += payload
                if last:
                    message, self.message = self.message, b""
                    yield message

    def frame(self):
        """The next frame of the inbox as (kind, whether it ends a message, payload), or None."""
        if len(self.inbox) < 2:  # noqa: PLR2004 - kind and length
            return None
        kind, size, start = self.inbox[0], self.inbox[1] & 0x7F, 2
        if size >= LENGTH_16:
            start += 2 if size == LENGTH_16 else 8
            if len(self.inbox) < start:
                return None
            size = int.from_bytes(self.inbox[2:start], "big")
        if len(self.inbox) < start + size:
            return None
        payload = bytes(self.inbox[start : start + size])
        del self.inbox[: start + size]
        return kind & 0x0F, bool(kind & 0x80), payload


def has_stdin():
    """Whether there is anything to read: /dev/null needs no channel."""
    try:
        mine = os.fstat(0)
    except OSError:
        return False
    null = Path(os.devnull).stat()
    return not (stat.S_ISCHR(mine.st_mode) and mine.st_rdev == null.st_rdev)


def write(descriptor, data):
    """Write all of `data`."""
    while data:
        data = data[os.write(descriptor, data) :]


def exit_code(text):
    """The command's exit code, from what came on the error channel.

    Raises:
        ExecError: it was not run.
    """
    try:
        status = json.loads(text)
    except ValueError:
        reason = text.strip() or "the API server did not say how the command ended"
        raise ExecError(reason) from None
    if status.get("status") == "Success":
        return 0
    if status.get("reason") == "NonZeroExitCode":
        for cause in status["details"]["causes"]:
            if cause.get("reason") == "ExitCode":
                return int(cause["message"])
    raise ExecError(" ".join(status.get("message", text).split()))


def receive(stream):
    """Pass on what has come in.

    Returns:
        The command's exit code, None while it runs.
    """
    for message in stream.messages():
        channel, data = message[:1], message[1:]
        if channel == bytes([ERROR]):
            return exit_code(data.decode("utf-8", "replace"))
        if channel in (bytes([STDOUT]), bytes([STDERR])):
            write(channel[0], data)
    if not stream.open:
        raise ExecError("the connection was closed before the command ended")
    return None


def send_stdin(stream):
    """Pass on a piece of our stdin; False at its end, which only v5 can tell the other side."""
    data = os.read(0, CHUNK)
    if data:
        stream.send(BINARY, bytes([STDIN]) + data)
    elif stream.protocol == PROTOCOLS[0]:
        stream.send(BINARY, bytes([CLOSE, STDIN]))
    return bool(data)


def run(server, pod, command, env):
    """Run one command in a pod, with our stdin, stdout and stderr.

    Returns:
        The command's exit code.
    """
    stdin = has_stdin()
    remote = env.get("ALLRANKS_FILES", "/etc/allranks") + "/remote.sh"
    query = [("command", word) for word in ("/bin/sh", remote, command)]
    query += [("container", env.get("ALLRANKS_CONTAINER") or "trainer")]
    query += [("stdin", str(stdin).lower()), ("stdout", "true"), ("stderr", "true")]
    path = "/api/v1/namespaces/%s/pods/%s/exec?" % (server.namespace, pod)
    stream = WebSocket(server, path + urlencode(query))
    heard_at = pinged_at = time.monotonic()
    while True:
        code = receive(stream)
        if code is not None:
            return code
        stream.flush()
        readers = [stream.sock, 0] if stdin and len(stream.outbox) < OUTBOX_MAX else [stream.sock]
        writers = [stream.sock] if stream.outbox else []
        ready, _, _ = select.select(readers, writers, [], 1.0)
        now = time.monotonic()
        if stream.sock in ready:
            heard_at = now
            stream.fill()
        if 0 in ready:
            stdin = send_stdin(stream)
        if now - heard_at >= LOST_SECONDS:
            raise ExecError("timed out: nothing was heard of the pod for %.0f s" % LOST_SECONDS)
        if now - max(heard_at, pinged_at) >= PING_SECONDS:
            pinged_at = now
            stream.send(PING, b"")


def scale_to_zero(server, name):
    """Ask a StatefulSet to end its pods."""
    path = "/apis/apps/v1/namespaces/%s/statefulsets/%s/scale" % (server.namespace, name)
    headers = ["Content-Type: application/merge-patch+json", "Connection: close"]
    sock = server.ask("PATCH", path, headers, b'{"spec":{"replicas":0}}')
    status, answer, rest = read_head(sock)
    if status != HTTPStatus.OK:
        raise ExecError(refusal(status, read_body(sock, answer, rest)))


def main(argv, env):
    """Do what `argv` says; end with the command's own exit code."""
    if len(argv) <= 1:
        sys.stderr.write("usage: exec.py HOST COMMAND | --scale-to-zero NAME...\n")
        return EXIT_USAGE
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: os._exit(128 + number))
    try:
        server = ApiServer(env)
        if argv[0] == "--scale-to-zero":
            for name in argv[1:]:
                scale_to_zero(server, name)
            return 0
        return run(server, argv[0].split(".")[0], " ".join(argv[1:]), env)
    except ExecError as error:
        sys.stderr.write("allranks: %s: %s\n" % (argv[0], error))
    except OSError as error:
        sys.stderr.write("allranks: %s: the connection failed: %s\n" % (argv[0], error))
    return EXIT_FAILED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
