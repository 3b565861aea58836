"""A fake Kubernetes API server: pods/exec over WebSocket, and a StatefulSet's scale, on real TLS.

It speaks the real protocol (v5 and v4.channel.k8s.io) and runs real commands: a pod is a list of
words that lead into it, put before a command. A program of its own, so that a test can run it in
any network:

    fake_api.py FOLDER ADDRESS

FOLDER holds tls.pem (a key and its certificate), token, and pods.json ({name: {"words": [...],
"env": {...}}}), which is read at each request. What came in is written to FOLDER/requests, one JSON
a line. A pod's "fault" makes the server misbehave: "forbidden", "starting", "drop", "silent",
"fragments".
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import socket
import socketserver
import ssl
import struct
import subprocess
import sys
import threading
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")


class Server(socketserver.ThreadingTCPServer):
    """Listens; each connection has a thread."""

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 256

    def __init__(self, folder: Path, address: str) -> None:
        """Listen on a free port of an address, which FOLDER/port then holds."""
        super().__init__((address, 0), Handler)
        self.folder = folder
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.tls.load_cert_chain(folder / "tls.pem")
        self.lock = threading.Lock()
        partial = folder / "port.new"
        partial.write_text(str(self.server_address[1]))
        partial.replace(folder / "port")

    def note(self, **fields: Any) -> None:
        """Write down what came in."""
        with self.lock, (self.folder / "requests").open("a") as file:
            file.write(json.dumps(fields) + "\n")


class Handler(socketserver.BaseRequestHandler):
    """One connection."""

    server: Server

    def handle(self) -> None:
        """Answer one request; then the connection is a WebSocket's, or closed."""
        try:
            with self.server.tls.wrap_socket(self.request, server_side=True) as sock:
                self.sock, self.sending = sock, threading.Lock()
                self.file = sock.makefile("rb")
                self._answer()
        except (OSError, ValueError):
            pass  # the other end has gone

    def _answer(self) -> None:
        method, target, _ = self.file.readline().decode().split(" ")
        headers = {}
        while line := self.file.readline().decode().strip():
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        body = self.file.read(int(headers.get("content-length", 0))).decode()
        url = urlsplit(target)
        query = parse_qs(url.query)
        self.server.note(method=method, path=url.path, query=query, body=body)
        token = (self.server.folder / "token").read_text()
        if headers.get("authorization") != f"Bearer {token}":
            self._refuse(HTTPStatus.UNAUTHORIZED, "Unauthorized")
        elif url.path.endswith("/scale"):
            self._respond(HTTPStatus.OK, {"kind": "Scale"})
        else:
            self._exec(url.path.split("/")[-2], query, headers)

    def _respond(self, status: HTTPStatus, body: dict[str, Any]) -> None:
        text = json.dumps(body).encode()
        head = f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Length: {len(text)}\r\n\r\n"
        self.sock.sendall(head.encode() + text)

    def _refuse(self, status: HTTPStatus, message: str) -> None:
        self._respond(status, {"kind": "Status", "status": "Failure", "message": message})

    # --- exec --------------------------------------------------------------------------------

    def _exec(self, name: str, query: dict[str, list[str]], headers: dict[str, str]) -> None:
        pod = json.loads((self.server.folder / "pods.json").read_text()).get(name)
        fault = pod.get("fault") if pod else None
        if pod is None:
            return self._refuse(HTTPStatus.NOT_FOUND, f'pods "{name}" not found')
        if fault == "forbidden":
            who = 'User "system:serviceaccount:lab:job" cannot get resource "pods/exec"'
            return self._refuse(HTTPStatus.FORBIDDEN, f'pods "{name}" is forbidden: {who}')
        if fault == "starting":
            text = 'unable to upgrade connection: container not found ("trainer")'
            return self._refuse(HTTPStatus.INTERNAL_SERVER_ERROR, text)
        protocols = [text.strip() for text in headers["sec-websocket-protocol"].split(",")]
        spoken = pod.get("protocols", _PROTOCOLS)
        protocol = next(name for name in protocols if name in spoken)
        key = headers["sec-websocket-key"].encode()
        accept = base64.b64encode(hashlib.sha1(key + _GUID).digest()).decode()  # noqa: S324
        lines = ["HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade"]
        lines += [f"Sec-WebSocket-Accept: {accept}", f"Sec-WebSocket-Protocol: {protocol}"]
        self.sock.sendall("\r\n".join([*lines, "", ""]).encode())
        return self._run(pod, query, fault)

    def _run(self, pod: dict[str, Any], query: dict[str, list[str]], fault: str | None) -> None:
        wants_stdin = query["stdin"] == ["true"]
        process = subprocess.Popen(
            [*pod["words"], *query["command"]],
            stdin=subprocess.PIPE if wants_stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=pod["env"],
        )
        reader = threading.Thread(target=self._read, args=(process, fault), daemon=True)
        reader.start()
        pumps = [
            threading.Thread(target=self._pump, args=(pipe, channel, fault))
            for channel, pipe in ((1, process.stdout), (2, process.stderr))
        ]
        for pump in pumps:
            pump.start()
        for pump in pumps:
            pump.join()
        code = process.wait()
        status: dict[str, Any] = {"status": "Success"}
        if code:
            cause = {"reason": "ExitCode", "message": str(code if code > 0 else 128 - code)}
            details = {"causes": [cause]}
            status = {"status": "Failure", "reason": "NonZeroExitCode", "details": details}
        if fault != "silent":
            self._send(2, b"\3" + json.dumps(status).encode(), fault)
            self._send(8, struct.pack("!H", 1000), None)
        reader.join()

    def _pump(self, pipe: Any, channel: int, fault: str | None) -> None:
        while data := os.read(pipe.fileno(), 65536):
            if fault == "drop":
                self.sock.shutdown(socket.SHUT_RDWR)
                return
            self._send(2, bytes([channel]) + data, fault)

    def _send(self, kind: int, payload: bytes, fault: str | None) -> None:
        """Send a message; in pieces, with a ping between them, where that is the fault."""
        cut = len(payload) // 2 if fault == "fragments" else len(payload)
        first, rest = payload[:cut], payload[cut:]
        with self.sending:
            self.sock.sendall(_frame(kind | (0 if rest else 0x80), first))
            if rest:
                self.sock.sendall(_frame(0x89, b"are you there?") + _frame(0x80, rest))

    def _read(self, process: subprocess.Popen[bytes], fault: str | None) -> None:
        """Take what the client sends until it closes."""
        try:
            while True:
                kind, payload = self._frame()
                if kind == 9 and fault != "silent":
                    with self.sending:
                        self.sock.sendall(_frame(0x8A, payload))
                elif kind == 8:
                    return
                elif kind == 2 and payload[:1] == b"\0" and process.stdin:
                    process.stdin.write(payload[1:])
                    process.stdin.flush()
                elif kind == 2 and payload == b"\xff\0" and process.stdin:
                    process.stdin.close()
        except (OSError, ValueError, struct.error):
            return

    def _frame(self) -> tuple[int, bytes]:
        first, second = struct.unpack("!BB", self.file.read(2))
        size = second & 0x7F
        if size >= 126:
            size = int.from_bytes(self.file.read(2 if size == 126 else 8), "big")
        mask = self.file.read(4)
        data = bytes(byte ^ mask[index % 4] for index, byte in enumerate(self.file.read(size)))
        return first & 0x0F, data


def _frame(first: int, payload: bytes) -> bytes:
    size = len(payload)
    if size < 126:
        return struct.pack("!BB", first, size) + payload
    if size < 1 << 16:
        return struct.pack("!BBH", first, 126, size) + payload
    return struct.pack("!BBQ", first, 127, size) + payload


if __name__ == "__main__":
    Server(Path(sys.argv[1]), sys.argv[2]).serve_forever()
