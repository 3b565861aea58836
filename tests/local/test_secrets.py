"""A marked secret of the shell, searched for everywhere after a local run of each workload.

The values name it as a `secretKeyRef`; here the shell's variable of the name stands for it. Only
the programs are to have it, in their environment.
"""

from __future__ import annotations

import json
import sys
from base64 import b64encode
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from allranks.local.host import addresses

from .conftest import CommandLine, one_by_one, port_base

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.attack, pytest.mark.local, pytest.mark.timeout(600), one_by_one]

_SECRET = "marked-sicrit-4713"  # noqa: S105 - of the test
# Says whether the program has the secret, and how many command lines of the machine have it.
_SPY = """
import os
from pathlib import Path
secret = os.environ.get("TOKEN", "")
lines = 0
for path in Path("/proc").glob("[0-9]*/cmdline"):
    try:
        lines += bool(secret) and secret.encode() in path.read_bytes()
    except OSError:
        pass
print(f"has={secret.startswith('marked-')} ps={lines} accuracy=0.5", flush=True)
"""


@pytest.fixture
def secret(monkeypatch: pytest.MonkeyPatch) -> str:
    """A variable that the person has exported."""
    monkeypatch.setenv("TOKEN", _SECRET)
    return _SECRET


@pytest.fixture
def allranks(secret: str, command_line: CommandLine) -> CommandLine:
    """The command line, in a shell with the secret."""
    assert secret
    return command_line


def _values(workload: str, spy: Path) -> dict[str, Any]:
    values: dict[str, Any] = {
        "workload": workload,
        "image": {"repository": "any"},
        "command": [sys.executable, str(spy)],
        "env": {"TOKEN": {"valueFrom": {"secretKeyRef": {"name": "mine", "key": "token"}}}},
        "nodes": 1,
    }
    port = addresses.free_port(port_base() + 850)
    if workload == "torchrun":
        values["torchrun"] = {"port": port}
    if workload == "elastic":
        values["elastic"] = {"framework": "tensorflow", "roles": {"chief": {"replicas": 1}}}
    if workload == "sweep":
        parameters = {"lr": {"values": [1, 2], "arg": "--lr"}}
        values["sweep"] = {"parameters": parameters, "objective": {"metric": "accuracy"}}
    return values


def _commands(workload: str) -> list[tuple[str, ...]]:
    """All that show something of a run that has ended."""
    if workload == "sweep":
        forms: tuple[tuple[str, ...], ...] = ((), ("-o", "json"), ("-o", "csv"), ("--report", "-"))
        results = [("sweep", "results", "s", *form) for form in forms]
        return [("sweep", "status", "s", "-o", "json"), *results]
    here = ("s", "--on", "local")
    words = ("status", "events", "logs")
    queries = [(word, *here, *form) for word in words for form in ((), ("-o", "json"))]
    return [*queries, ("list", "--on", "local", "-o", "json")]


@pytest.mark.parametrize("workload", ["torchrun", "mpi", "elastic", "sweep"])
def test_a_secret_of_the_shell_is_with_the_programs_alone(
    allranks: CommandLine, secret: str, tmp_path: Path, workload: str
) -> None:
    """No file, output, journal or list of processes has it, and each program does."""
    spy = tmp_path / "spy.py"
    spy.write_text(_SPY)
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(_values(workload, spy)))
    verb = ("sweep", "run") if workload == "sweep" else ("run",)
    process = allranks(*verb, "s", "-f", file, "--on", "local")
    output = process.stdout + process.stderr
    if workload != "sweep":
        assert "has=True ps=0" in output
    for words in _commands(workload):
        query = allranks(*words)
        output += query.stdout + query.stderr
    assert "ps=1" not in output
    assert secret not in output
    forms = (secret.encode(), b64encode(secret.encode()), json.dumps(secret).encode())
    for path in tmp_path.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            assert not [form for form in forms if form in data], path
