"""Parse the JSON of workers' calls; pure.

A worker is the job's own program, so a slip in a call is answered with what is wrong and what is
meant, as any other input is.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from allranks.errors import InputError
from allranks.k8s.object_names import is_dns_1123_subdomain
from allranks_operator.master.rendezvous import Generation, PeerNode

_DEPTH_MAX = 16
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_BESIDE = bytes(set(range(256)) - set(b"{}[]"))
_TEXT_MAX = 1000
_NODES_MAX = 100_000
_PORT_MAX = 65535
_MOST = 2.0**53


@dataclass(frozen=True, slots=True)
class Join:
    """A worker's request to join.

    Attributes:
        node: the worker.
        world: the generation it trains in, or trained in last.
        training: whether it trains at this moment.
    """

    node: PeerNode
    world: Generation
    training: bool


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """A worker's work since its last report.

    Attributes:
        pod: its pod.
        generation: the generation it trains in; 0 where it says none.
        step: the number of its last step.
        samples: samples since the last report.
        seconds: seconds that it needed for them by itself.
    """

    pod: str
    generation: int
    step: int
    samples: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Done:
    """The end of a worker's training, or of the worker.

    Attributes:
        pod: its pod.
        code: the exit code.
        generation: the generation it trained in.
        message: the reason of a failure, in a sentence.
        leaving: whether its pod is being taken away.
    """

    pod: str
    code: int
    generation: int
    message: str
    leaving: bool


def body(data: bytes) -> Any:
    """The JSON object of a call.

    Raises:
        InputError: it is none, or is nested deeper than any call.
    """
    # Before a parser sees it: its stack is a thread's, which is small.
    brackets = _STRING.sub(b"", data).translate(None, _BESIDE)
    for _ in range(_DEPTH_MAX):
        if not brackets:
            break
        brackets = brackets.replace(b"{}", b"").replace(b"[]", b"")
    if brackets:
        raise InputError(
            f"the body is no JSON, or is nested more than {_DEPTH_MAX} levels deep",
            hint="send a JSON object; see docs/guides/elastic-master.md",
        )
    try:
        return json.loads(data or b"{}")
    except ValueError as error:
        raise InputError(f"the body is no JSON: {error}", hint="send a JSON object") from error


def join(body: Any) -> Join:
    """Read ``POST /v1/join``.

    Raises:
        InputError: a field is missing, or is not what it has to be.
    """
    data = _object(body)
    node = _node(data)
    world = data.get("world")
    if world is None:
        return Join(node, Generation(_count(data, "generation", 0)), training=False)
    inner = _object(world, "world")
    nodes = inner.get("nodes")
    if not isinstance(nodes, list) or len(nodes) > _NODES_MAX:
        raise _wrong("world.nodes", nodes, "a list of nodes")
    ranks = tuple(_node(_object(node, "world.nodes")) for node in nodes)
    return Join(node, Generation(_count(inner, "generation", 0), ranks), training=True)


def report(body: Any) -> WorkerReport:
    """Read ``POST /v1/report``.

    Raises:
        InputError: a field is missing, or is not what it has to be.
    """
    data = _object(body)
    return WorkerReport(
        pod=pod(data.get("pod")),
        generation=_count(data, "generation", 0),
        step=_count(data, "step"),
        samples=_amount(data, "samples"),
        seconds=_amount(data, "seconds"),
    )


def done(body: Any) -> Done:
    """Read ``POST /v1/done``.

    Raises:
        InputError: a field is missing, or is not what it has to be.
    """
    data = _object(body)
    message = data.get("message", "")
    return Done(
        pod=pod(data.get("pod")),
        code=_count(data, "code"),
        generation=_count(data, "generation", 0),
        message=message[:_TEXT_MAX] if isinstance(message, str) else "",
        leaving=data.get("leaving") is True,
    )


def pod(value: Any) -> str:
    """A pod's name.

    Raises:
        InputError: it is none.
    """
    if not isinstance(value, str) or not is_dns_1123_subdomain(value):
        raise _wrong("pod", value, "the name of a pod")
    return value


def number(text: str | None) -> int:
    """A number in a query; 0 where there is none.

    Raises:
        InputError: it is none.
    """
    if not text:
        return 0
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(_NODES_MAX)) * 2):
        raise _wrong("after", text, "the number of a generation")
    return int(text)


def _node(data: dict[str, Any]) -> PeerNode:
    address = data.get("address")
    if not isinstance(address, str) or not 0 < len(address) <= len("x" * 253):
        raise _wrong("address", address, "where the other workers reach this one")
    port = _count(data, "port", 0)
    if port > _PORT_MAX:
        raise _wrong("port", port, "a port")
    return PeerNode(pod(data.get("pod")), address, port, _count(data, "procs", 1))


def _object(value: Any, path: str = "the body") -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _wrong(path, value, "a JSON object")
    return value


def _count(data: dict[str, Any], name: str, otherwise: int | None = None) -> int:
    value = data.get(name, otherwise)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MOST:
        raise _wrong(name, value, "a whole number, 0 or more")
    return value


def _amount(data: dict[str, Any], name: str) -> float:
    value = data.get(name, 0)
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value <= _MOST:
        raise _wrong(name, value, "a number, 0 or more")
    return float(value)


def _wrong(name: str, value: Any, allowed: str) -> InputError:
    text = repr(value)[:80]
    return InputError(
        f"{text} is not {allowed}", path=name, hint="see docs/guides/elastic-master.md"
    )
