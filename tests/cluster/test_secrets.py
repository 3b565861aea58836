"""A marked secret, searched for everywhere after a run of each workload.

Two are marked. One stands in a Secret of the namespace, and the values only name it. The other one
a careless person has typed into `env` of the values: it is in the pod's environment then, and in
helm's record, which is a Secret, as is the journal of a sweep inside the cluster. Neither may be
anywhere else.
"""

from __future__ import annotations

import contextlib
import json
import stat
import zlib
from base64 import b64decode, b64encode
from typing import TYPE_CHECKING, Any

import pytest

from allranks import names
from tests.kube import kwok

from .program import KINDS, Program, job, program
from .sweeping import Field
from .test_sweep_inside import Person

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kube.cluster import Cluster

    from .conftest import MakeNodes

pytestmark = [pytest.mark.attack, pytest.mark.timeout(900)]

_NAMED, _TYPED = "named-sicrit-4711", "typed-sicrit-4712"
# Of a helm that writes down how it is called, as `ps` would show it to all users.
_WRAPPER = """#!/bin/sh
tr '\\0' '\\n' </proc/$$/cmdline >>{log}
env >>{environment}
exec {helm} "$@"
"""
# gzip and zlib with their headers, and as a segment of a journal has it.
_COMPRESSED = (31, 15, -15)
_UNPACKED_MAX = 1 << 24
_ELASTIC = {"framework": "tensorflow", "roles": {"chief": {"replicas": 1}, "ps": {"replicas": 1}}}


@pytest.fixture
def allranks(
    cluster: Cluster, namespace: str, helm4: Any, tmp_path: Path, make_nodes: MakeNodes
) -> Program:
    """The program, whose helm writes down its arguments."""
    make_nodes(2)
    runner = program(cluster, namespace, helm4, tmp_path)
    wrapper = tmp_path / "helm"
    log, environment = tmp_path / "ps.log", tmp_path / "env.log"
    wrapper.write_text(_WRAPPER.format(log=log, environment=environment, helm=helm4.path))
    wrapper.chmod(0o755)
    return Program(cluster, namespace, wrapper, runner.home)


def _values(workload: str) -> dict[str, Any]:
    """Of a job with both secrets."""
    workload = {"submit": "torchrun", "inside": "sweep"}.get(workload, workload)
    secret = {"valueFrom": {"secretKeyRef": {"name": "mine", "key": "token"}}}
    values = job(workload=workload, ends="1s", env={"TYPED": _TYPED, "NAMED": secret})
    values["podTemplate"]["metadata"]["annotations"][kwok.SAYS] = '{"accuracy": 0.5}'
    if workload == "elastic":
        values |= {"nodes": 1, "elastic": _ELASTIC}
    if workload == "sweep":
        sweep = {"parameters": {"lr": {"values": [1, 2], "arg": "--lr"}}, "keep": "all"}
        values |= {"nodes": 1, "sweep": {**sweep, "objective": {"metric": "accuracy"}}}
    return values


def _commands(workload: str) -> list[tuple[str, ...]]:
    """All that show something of a run that has ended."""
    if workload in ("sweep", "inside"):
        return [
            ("sweep", "status", "s"),
            ("sweep", "status", "s", "-o", "json"),
            ("sweep", "results", "s"),
            ("sweep", "results", "s", "-o", "json"),
            ("sweep", "results", "s", "-o", "csv"),
            ("sweep", "results", "s", "--trial", "0"),
            ("sweep", "results", "s", "--report", "-"),
        ]
    words = ("status", "events")  # a fake node has no logs
    queries = [(word, "s", *form) for word in words for form in ((), ("-o", "json"))]
    more = [("show", "s"), ("show", "s", "-o", "json")] if workload == "submit" else []
    return [*queries, *more, ("list",), ("list", "-o", "json"), ("wait", "s")]


def _has(data: bytes, secret: str, depth: int = 4) -> bool:
    """Whether a secret stands in something: as it is, or as a Secret or helm's record has it."""
    plain = secret.encode()
    if plain in data or b64encode(plain) in data:
        return True
    return depth > 0 and any(_has(inner, secret, depth - 1) for inner in _unpacked(data))


def _unpacked(data: bytes) -> Iterator[bytes]:
    """What data is where it is base64 or compressed."""
    with contextlib.suppress(ValueError):
        yield b64decode(data, validate=True)
    for window in _COMPRESSED:
        with contextlib.suppress(zlib.error):
            yield zlib.decompressobj(window).decompress(data, _UNPACKED_MAX)


def _texts(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """All texts within an object, keys included, each with its path."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield (*path, key), key
            yield from _texts(item, (*path, key))
    elif isinstance(value, list):
        for item in value:
            # An item that has a name is known by it.
            name = str(item.get("name", "")) if isinstance(item, dict) else ""
            yield from _texts(item, (*path, f"[{name}]"))
    else:
        yield path, str(value)


def _may_have(kind: str, item: dict[str, Any], path: tuple[str, ...], secret: str) -> bool:
    """Whether a secret belongs where it was seen."""
    if kind == "v1/secrets":
        is_record = item["type"] in ("helm.sh/release.v1", names.SWEEP_SECRET)
        return is_record if secret == _TYPED else item["metadata"]["name"] == "mine"
    return secret == _TYPED and path[-3:] == ("env", "[TYPED]", "value")


def _places(allranks: Program) -> tuple[list[str], set[str]]:
    """Where in the namespace a secret is that does not belong there, and the Secrets with one."""
    kinds = (*KINDS, "v1/events", "events.k8s.io/v1/events", "coordination.k8s.io/v1/leases")
    leaks, secrets = [], set()
    for kind in kinds:
        for item in allranks.items(kind):
            name = item["metadata"]["name"]
            for path, text in _texts(item):
                for secret in (_NAMED, _TYPED):
                    if not _has(text.encode(), secret):
                        continue
                    if kind == "v1/secrets":
                        secrets.add(name)
                    if not _may_have(kind, item, path, secret):
                        leaks.append(f"{kind} {name} {'.'.join(path)}")
    return leaks, secrets


def _run_inside(allranks: Program, tmp_path: Path, file: Path) -> str:
    """What a sweep inside the cluster prints: its beginning, and its runner as a process."""
    output = allranks(
        "sweep", "run", "s", "-n", allranks.namespace, "--in-cluster", "--detach", "-f", file
    )
    field = Field(allranks.cluster, allranks.namespace, allranks.helm, tmp_path / "field")
    field.folder.mkdir()
    with Person(field, tmp_path / "laptop").pod("pod-1") as runner:
        out, err = runner.communicate(timeout=300)
    assert 0 == runner.returncode, out + err
    return output + out + err


@pytest.mark.parametrize("workload", ["torchrun", "mpi", "elastic", "sweep", "submit", "inside"])
def test_a_secret_is_nowhere_but_where_it_belongs(
    allranks: Program, tmp_path: Path, workload: str
) -> None:
    """No argument, ConfigMap, note, log, label, event, report or command line has it."""
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "mine"}}
    body |= {"stringData": {"token": _NAMED}}
    allranks.cluster.api("POST", allranks.root("v1/secrets"), body)
    values = _values(workload)
    file = tmp_path / "values.yaml"
    file.write_text(json.dumps(values))
    if workload == "sweep":
        where = ("-n", allranks.namespace, "--on", "cluster")
        output = allranks("sweep", "run", "s", *where, "-f", file)
    elif workload == "inside":
        output = _run_inside(allranks, tmp_path, file)
    elif workload == "submit":
        code = tmp_path / "code"
        code.mkdir()
        (code / "train.py").write_text("print('training')\n")
        words = ("--workspace", code, "s", "-f", file, "--", "python", "train.py")
        output = allranks("submit", *words)
    else:
        output = allranks("run", "s", "-f", file)
    for words in _commands(workload):
        output += allranks(*words)
    # A refusal says what is wrong, and not what else there is.
    wrong = ("--set", "nodes=many")
    is_sweep = workload in ("sweep", "inside")
    verb = ("sweep", "run", "t", "--on", "cluster") if is_sweep else ("run", "t")
    output += allranks(*verb, "-f", file, *wrong, code=2)
    assert not [secret for secret in (_NAMED, _TYPED) if secret in output], output
    leaks, secrets = _places(allranks)
    assert [] == leaks
    # Helm's record of a trial, or of the run, is among them: the search sees through its packing.
    assert {"mine"} < secrets
    assert (workload == "inside") == ("s-journal" in secrets)
    for log in ("ps.log", "env.log"):
        log_text = (tmp_path / log).read_text()
        assert "install" in log_text or log == "env.log"
        assert not [secret for secret in (_NAMED, _TYPED) if secret in log_text], log
    for path in allranks.home.rglob("*"):
        if path.is_file() and _TYPED in path.read_text("utf-8", "replace"):
            # A sweep's values are in its journal, so that it can be gone on with.
            assert "journal.jsonl" == path.name
            assert 0o600 == stat.S_IMODE(path.stat().st_mode)


def test_the_key_of_an_mpi_job_is_in_its_secret_alone(allranks: Program) -> None:
    """Whoever has it can start programs in the job's pods."""
    output = allranks("run", "s", values=_values("mpi"))
    key = allranks.get("v1/secrets", "s-ssh")["data"]["ssh-privatekey"]
    body = b64decode(key).decode().splitlines()[1]
    output += "".join(allranks(*words) for words in _commands("mpi"))
    assert body not in output
    places = {
        f"{kind} {item['metadata']['name']}"
        for kind in KINDS
        for item in allranks.items(kind)
        for _, text in _texts(item)
        if key in text or body in text
    }
    assert {"v1/secrets s-ssh"} == places
