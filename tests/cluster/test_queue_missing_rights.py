"""A team without each right of its queue's Role in turn: the command says which, and does no half.

One namespace and one Role, which is patched for each right; commands are forked from one process.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.charts.cli.forking import Zygote
from tests.waiting import until

from .program import Program, job, program
from .test_cli_refusals import ROLES, grant
from .test_queue_cli import queue
from .test_queue_rights import team_role
from .test_submit import parts

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kube.cluster import Cluster

    from .conftest import MakeNodes

pytestmark = [pytest.mark.attack, pytest.mark.timeout(900)]

_SECONDS = 90
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

    def edit(self) -> None:
        """Change the code."""
        (self.code / "train.py").write_text("print('edited')\n", encoding="utf-8")

    def command(self, name: str) -> tuple[int, str]:
        """Run a command on the run `kept`; a submit is of another."""
        if name == "submit":
            return self.submit("other")
        words: dict[str, tuple[str | Path, ...]] = {
            "show": ("show", "kept", "--code", self.program.home / "ran"),
            "sync": ("sync", "kept", "--workspace", self.code),
            "queue": ("queue", "show", "h100"),
        }
        return self.call(*words.get(name, (name, "kept")))

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


# The command that asks for a right, by resource and verb. What is not here needs a workload of
# another kind, another helm or a real node (test_queue_rights.py has them all), or is in OPTIONAL.
NEEDED = {
    "submit": {
        "secrets": ("list", "get", "create", "update"),
        "configmaps": ("get", "create", "patch"),
        "services": ("get", "create", "patch"),
        "jobs": ("get", "create", "patch"),
    },
    "status": {"jobs": ("list",), "statefulsets": ("list",), "pods": ("list",)},
    "events": {"events": ("list",)},
    "show": {"configmaps": ("list",)},
    "logs": {"pods/log": ("get",)},
    "sync": {"pods/exec": ("get",)},
    "delete": {
        "secrets": ("delete",),
        "configmaps": ("delete",),
        "services": ("delete",),
        "jobs": ("delete",),
    },
}
# Without these a command goes on; what it then cannot see, it says.
OPTIONAL = {
    ("list", "events"): "",
    ("list", "resourcequotas"): "its ResourceQuota may not be read: what is left may be less",
}


def test_a_right_that_is_missing_is_named_and_nothing_is_half_done(member: Member) -> None:
    """Exit code 1 with verb, resource, namespace and whom to ask; all stays as it was."""
    member.hold()
    assert 0 == member.submit("kept")[0]
    member.edit()  # what is submitted and synced from now on is sent anew
    space = member.program.namespace
    objects = sorted(member.program.objects_of("kept"))
    for command, resources in NEEDED.items():
        for resource, verbs in resources.items():
            for verb in verbs:
                (right,) = (
                    held
                    for held in member.rights()
                    if (resource, verb) == (held.resource, held.verb)
                )
                member.hold(right)
                code, output = member.command(command)
                about = f"{command} without {right.words}: {output}"
                assert code == 1, about
                refusal = f'cannot {right.verb} resource "{right.resource}"'
                assert right.words in output or refusal in output, about
                assert space in output, about
                assert "ask for a Role" in output, about
                assert [] == member.program.objects_of("other"), about
                assert objects == sorted(member.program.objects_of("kept")), about
                assert [{"kept"}] == list(parts(member.program).values()), about
    for (verb, resource), words in OPTIONAL.items():
        (right,) = (
            held for held in member.rights() if (resource, verb) == (held.resource, held.verb)
        )
        member.hold(right)
        code, output = member.command("queue")
        assert (0, True) == (code, words in output), output
    member.hold()
    assert 0 == member.command("delete")[0]
    assert [] == member.program.objects_of("kept")
    assert {} == parts(member.program)


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    """What the commands are forked from."""
    zygote = Zygote()
    yield zygote
    zygote.close()


@pytest.fixture
def member(
    allranks: Program, zygote: Zygote, helm4: Any, repo: Path, make_nodes: MakeNodes
) -> Member:
    """Somebody of a team that has a queue, with its Role, and two fake nodes."""
    make_nodes(2)
    code = allranks.home.parent / "code"
    code.mkdir()
    (code / "train.py").write_text("print('training')\n", encoding="utf-8")
    allranks("queue", "install", "h100", values=queue())
    role = team_role(helm4, repo)
    grant(allranks, role)
    return Member(allranks.as_guest(), zygote, role, code)


@pytest.fixture
def allranks(cluster: Cluster, namespace: str, helm4: Any, tmp_path: Path) -> Program:
    """The program, with helm 4, as an administrator."""
    return program(cluster, namespace, helm4, tmp_path)
