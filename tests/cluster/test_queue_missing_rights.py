"""A team without each right of its queue's Role in turn: the command says which, and does no half.

One namespace and one Role, which is patched for each right; the commands are forked from one process.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from allranks import names
from tests.charts.cli.forking import Zygote

from .program import Program, job, program
from .test_cli_refusals import ROLES, grant
from .test_queue_cli import queue
from .test_queue_rights import _role
from .waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kube.cluster import Cluster

    from .conftest import MakeNodes

pytestmark = [pytest.mark.attack, pytest.mark.timeout(900)]

_SECONDS = 90
_FORBIDDEN = 403
_REVIEW = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


class Right(NamedTuple):
    """A verb on a resource of a group."""

    group: str
    resource: str
    verb: str

    @property
    def words(self) -> str:
        """As a message has it."""
        return f"{self.verb} {self.resource}{'.' * bool(self.group)}{self.group}"


@dataclass(slots=True)
class Member:
    """Somebody of the team, whose commands are forked.

    Attributes:
        program: the command line as the guest, and where it is called.
        zygote: what forks.
        role: the whole Role.
        code: a folder to submit.
    """

    program: Program
    zygote: Zygote
    role: dict[str, Any]
    code: Path

    def call(self, *words: str | Path, values: dict[str, Any] | None = None) -> tuple[int, str]:
        """The exit code of a command, and all that it prints."""
        line = self.program.line(*words, values=values)
        process = self.zygote.run(
            line, self.program.home, self.program.environment(), b"", _SECONDS
        )
        output = (process.stdout + process.stderr).decode()
        assert "Traceback" not in output
        return process.returncode, " ".join(output.split())

    def submit(self, name: str) -> tuple[int, str]:
        """Submit the folder."""
        words = ("--workspace", self.code, "-q", "h100", "--detach", "--", "python", "train.py")
        return self.call("submit", name, *words, values=job())

    def rights(self) -> list[Right]:
        """All of the Role."""
        return [
            Right(group, resource, verb)
            for rule in self.role["rules"]
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
        ]

    def hold(self, without: Right | None = None) -> None:
        """Have the whole Role but for a right, and wait until the server knows it."""
        rules = [
            {"apiGroups": [right.group], "resources": [right.resource], "verbs": [right.verb]}
            for right in self.rights()
            if right != without
        ]
        cluster, space = self.program.cluster, self.program.namespace
        path = f"{self.program.root(ROLES)}/team"
        cluster.api("PATCH", path, {"rules": rules})
        if without is None:
            return
        resource, _, part = without.resource.partition("/")
        attributes = {"namespace": space, "verb": without.verb, "group": without.group}
        attributes |= {"resource": resource, "subresource": part}
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": "guest", "resourceAttributes": attributes},
        }
        until(
            lambda: not cluster.api("POST", _REVIEW, body)["status"]["allowed"],
            f"the end of {without.words}",
        )


def test_explore(member: Member) -> None:
    """Look."""
    import time
    audit = member.program.cluster.audit
    used = {}
    commands = {
        "submit": lambda: member.submit("kept"),
        "status": lambda: member.call("status", "kept"),
        "list": lambda: member.call("list"),
        "show": lambda: member.call("show", "kept", "--code", member.program.home / f"out{time.time()}"),
        "logs": lambda: member.call("logs", "kept"),
        "events": lambda: member.call("events", "kept"),
        "queue": lambda: member.call("queue", "show", "h100"),
        "sync": lambda: member.call("sync", "kept", "--workspace", member.code),
        "delete": lambda: member.call("delete", "kept"),
    }
    member.hold()
    for name, command in commands.items():
        before = audit.read()
        t = time.time()
        print(name, command(), round(time.time() - t, 2))
        used[name] = {(r.resource, r.verb, r.code) for r in audit.read() - before if r.user == "guest"}
        print("   ", sorted(used[name]))
        if name == "logs":
            (member.code / "train.py").write_text("print('more')\n")
    member.hold()
    member.submit("kept")
    for right in member.rights():
        for name, uses in used.items():
            if any((right.resource, right.verb) == (u[0], u[1]) and u[2] != 403 for u in uses):
                member.hold(right)
                if name == "submit":
                    (member.code / "train.py").write_text("print('other')\n")
                    print(right.words, name, member.submit("other"), member.program.left("other"))
                    if member.program.left("other"):
                        member.hold()
                        print("   cleanup", member.call("delete", "other"))
                elif name != "delete":
                    print(right.words, name, commands[name]())
                else:
                    print(right.words, name, member.call("delete", "kept"), member.program.left("kept"))
                    member.hold()
                    print("  again", member.call("delete", "kept"), member.program.left("kept"))
                    print("  submit", member.submit("kept")[0])
                    continue
                break
        else:
            print(right.words, "not used")


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    """What the commands are forked from."""
    made = Zygote()
    yield made
    made.close()


@pytest.fixture
def member(
    cluster: Cluster, namespace: str, helm4: Any, tmp_path: Path, zygote: Zygote, repo: Path,
    make_nodes: MakeNodes,
) -> Member:
    """Somebody of a team that has a queue, with its Role, and two fake nodes."""
    make_nodes(2)
    admin = program(cluster, namespace, helm4, tmp_path)
    code = tmp_path / "code"
    code.mkdir()
    (code / "train.py").write_text("print('training')\n", encoding="utf-8")
    admin("queue", "install", "h100", values=queue())
    role = _role(helm4, repo)
    grant(admin, role)
    guest = Program(cluster, namespace, helm4.path, admin.home, cluster.guest_kubeconfig)
    return Member(guest, zygote, role, code)
