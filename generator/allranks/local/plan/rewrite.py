"""Replace names and mount paths in text by this machine's addresses and folders.

A pod has no DNS and no mounts here, so what they would answer is written into the text that names
them: command, args, env, and the files of ConfigMaps. Both replacements respect boundaries, because
the same letters often mean something else:

- A name is a whole host name: ``train-0`` in ``train-0:29500`` and ``http://train-0/`` is one; in
  ``run-train-0``, ``ckpt/train-0``, ``train-0/log`` and ``train-0.pt`` it is not.
- A headless Service is called like its release, a word that people use for much else (``--run
  train``, ``train.default``). Without ``.svc`` it is replaced only where an address must stand:
  before a port, after ``://`` or after ``@``.
- A mount path is a whole path or its beginning: ``/data`` in ``/data/x``, ``--in=/data`` and
  ``${IN:-/data}``; not in ``/mnt/data``, ``/database``, ``$HOME/data`` or ``/data.bak``.

A path that a program builds from parts is out of reach: pass it as an argument or a variable.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks.local.host import namespaces
from allranks.local.plan.addresses import service_address, service_pod

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from allranks.local.plan.model import PodPlan, ReleasePlan

_DOMAIN = "cluster.local"
# A maximal run of host name characters; `_stands_as_host` judges what it stands beside.
_TOKEN = re.compile(
    r"(?<![A-Za-z0-9_.\-~$])(?<!\$\{)"
    r"(?P<host>[a-z0-9](?:[A-Za-z0-9.\-]*[A-Za-z0-9])?)"
    r"(?![A-Za-z0-9_\-])"
    r"(?::(?P<port>[0-9]+)(?![A-Za-z0-9]))?"
)
_BEFORE_PATH = r"(?:(?<![A-Za-z0-9_.~/$)}\]%*?+\-])|(?<=file://)|(?<=:-))"
_AFTER_PATH = r"(?![A-Za-z0-9_~%+*?\[{$\-]|\.[A-Za-z0-9_])"
# Folders that this machine has itself, under the same path and with the same meaning.
SHARED_PATHS = frozenset({namespaces.SHARED_MEMORY})


class Names:
    """The host names of a release, and those among them that are also plain words.

    Args:
        plain: address by name.
        words: the same of names that are words.
        ports: the port that stands for one of a name, by both.
    """

    def __init__(
        self,
        plain: Mapping[str, str],
        words: Mapping[str, str],
        ports: Mapping[tuple[str, int], int] | None = None,
    ) -> None:
        self._plain = dict(plain)
        self._words = dict(words)
        self._ports = dict(ports or {})

    def with_more(self, plain: Mapping[str, str], ports: Mapping[tuple[str, int], int]) -> Names:
        """These names with others, which take precedence."""
        return Names({**self._plain, **plain}, self._words, {**self._ports, **ports})

    def text(self, text: str) -> str:
        """`text` with each host name replaced by its address."""
        return _TOKEN.sub(self._replacement, text)

    def _replacement(self, match: re.Match[str]) -> str:
        token, port = match["host"], match["port"]
        text, start, end = match.string, match.start(), match.end("host")
        if token in self._plain and _stands_as_host(text, start, end):
            return self._plain[token] + self._port(token, port)
        if token in self._words and _must_be_address(text, start, end):
            return self._words[token] + self._port(token, port)
        return match[0]

    def _port(self, token: str, port: str | None) -> str:
        return "" if port is None else f":{self._ports.get((token, int(port)), port)}"


def _stands_as_host(text: str, start: int, end: int) -> bool:
    """Whether a name is a host there: no part of a file's path, unless in a URL."""
    in_url = text.endswith("://", 0, start)
    if text.endswith("/", 0, start) and not in_url:
        return False
    return in_url or not text.startswith("/", end)


def _must_be_address(text: str, start: int, end: int) -> bool:
    if text.endswith(("://", "@"), 0, start):
        return True
    has_port = re.match(r":[0-9]", text[end : end + 2]) is not None
    return has_port and not text.endswith("/", 0, start)


def release_names(
    release: ReleasePlan,
    addresses: Mapping[str, str],
    ports: Mapping[tuple[str, int], int] | None = None,
) -> Names:
    """The names of all pods and Services of a release.

    A pod answers to its name, its hostname, and both under the Service that its names belong to;
    a Service to its name. Each may go on with the namespace, ``svc`` and the cluster's domain.

    Args:
        release: the release.
        addresses: what stands for each pod, by its name.
        ports: the port that stands for one of a pod, by the pod's name and its own.
    """
    plain: dict[str, str] = {}
    words: dict[str, str] = {}
    calls: dict[str, list[str]] = {pod.name: [] for pod in release.pods}
    for service in release.services:
        behind = service_pod(release, service)
        if behind is None:
            continue
        short, with_namespace, *long = service_names(service.name, release.namespace)
        plain.update(dict.fromkeys(long, addresses[behind]))
        ambiguous = words if service.headless else plain
        ambiguous.update(dict.fromkeys((short, with_namespace), addresses[behind]))
        calls[behind] += [short, with_namespace, *long]
    for pod in release.pods:
        own_names = list(pod_names(pod, release.namespace))
        plain.update(dict.fromkeys(own_names, addresses[pod.name]))
        calls[pod.name] += own_names
    by_port = {
        (name, port): address
        for (pod, port), address in (ports or {}).items()
        for name in calls[pod]
    }
    return Names(plain, words, by_port)


def hosts_lines(release: ReleasePlan, addresses: Mapping[str, str]) -> Iterator[str]:
    """The same names as lines of ``/etc/hosts``: a pod's full name first, as in a pod's own.

    Args:
        release: the release.
        addresses: the address of each pod, by its name.
    """
    for pod in release.pods:
        own_names = dict.fromkeys(pod_names(pod, release.namespace))
        yield " ".join((addresses[pod.name], *sorted(own_names, key=len, reverse=True)))
    for service in release.services:
        address = service_address(release, addresses, service)
        if address is not None:
            yield " ".join((address, *reversed(service_names(service.name, release.namespace))))


def pod_names(pod: PodPlan, namespace: str) -> Iterator[str]:
    """The names of a pod for other pods, its own host name first."""
    for host in dict.fromkeys((pod.name, pod.hostname)):
        yield host
        if pod.subdomain:
            yield from service_names(f"{host}.{pod.subdomain}", namespace)


def service_names(name: str, namespace: str) -> tuple[str, ...]:
    """The names of a Service for pods, its own name first."""
    return (
        name,
        f"{name}.{namespace}",
        f"{name}.{namespace}.svc",
        f"{name}.{namespace}.svc.{_DOMAIN}",
    )


class Rewriter:
    """Replaces names and paths for one container.

    Args:
        names: the names of the release.
        paths: mount path to folder (or file), as this container mounts them.
    """

    def __init__(self, names: Names, paths: Mapping[str, str]) -> None:
        self._names = names
        self._paths = {path: paths[path] for path in paths if path not in SHARED_PATHS}
        self._replace_paths = _path_replacer(self._paths)

    def text(self, text: str) -> str:
        """`text` with this machine's addresses and folders."""
        return self._replace_paths(self._names.text(text))

    def content(self, content: bytes) -> bytes:
        """The content of a file with this machine's addresses; binary content is unchanged."""
        try:
            text = content.decode()
        except UnicodeDecodeError:
            return content
        return self.text(text).encode()


def _path_replacer(paths: Mapping[str, str]) -> Callable[[str], str]:
    if not paths:
        return lambda text: text
    pattern = re.compile(_BEFORE_PATH + f"({_alternatives(paths)})" + _AFTER_PATH)
    return lambda text: pattern.sub(lambda match: paths[match[1]], text)


def _alternatives(paths: Iterable[str]) -> str:
    """A pattern of alternatives, the longest first, so that nested mounts win."""
    return "|".join(re.escape(path) for path in sorted(paths, key=len, reverse=True))
