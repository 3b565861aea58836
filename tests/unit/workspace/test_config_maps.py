"""Who sends which part of a snapshot, who owns it, and when it goes, on a cluster that pretends."""

from __future__ import annotations

import copy
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from allranks import names
from allranks.cluster import paths
from allranks.errors import (
    BusyError,
    ConflictError,
    ExistsError,
    ForbiddenError,
    InputError,
    NotFoundError,
    QuotaError,
    RejectedError,
    RunError,
)
from allranks.sweep.storage.secrets import Address, SecretsBackend
from allranks.workspace import config_maps

if TYPE_CHECKING:
    from collections.abc import Callable

    from allranks.k8s.manifest import Manifest

DIGEST = f"sha256:{'a1' * 32}"
OTHER = f"sha256:{'b2' * 32}"
NOW = 1_800_000_000.0
_OLD, _NEW = "2026-01-01T00:00:00Z", "2027-01-15T07:59:00Z"  # a year and a minute before NOW


class FakeNamespace:
    """The objects of a namespace, with versions and owners, behind the port of a real cluster.

    Attributes:
        objects: by path and name.
        requests: verb, path and name of each request.
        before: called before a request; what it raises is the answer.
    """

    where = "context fake at nowhere"

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], Manifest] = {}
        self.requests: list[tuple[str, str, str]] = []
        self.before: Callable[[str, str, str], None] = lambda *_: None
        self._version = 0

    def _ask(self, verb: str, path: str, name: str = "") -> None:
        self.requests.append((verb, paths.plural(path), name))
        self.before(verb, path, name)

    def _store(self, path: str, manifest: Manifest) -> Manifest:
        self._version += 1
        manifest["metadata"]["resourceVersion"] = str(self._version)
        self.objects[path, manifest["metadata"]["name"]] = manifest
        return copy.deepcopy(manifest)

    def list(self, resource_path: str, **how: Any) -> list[Manifest]:
        """All of a kind that have a label, or have it with a value."""
        self._ask("list", resource_path)
        key, _, value = how.get("label_selector", "").partition("=")
        return [
            copy.deepcopy(manifest)
            for (path, _), manifest in self.objects.items()
            if path == resource_path
            and (not key or (value or True) in _label(manifest, key, selector_value=value))
        ]

    def get(self, resource_path: str, name: str, **_: Any) -> Manifest:
        """One object."""
        self._ask("get", resource_path, name)
        if (resource_path, name) not in self.objects:
            raise NotFoundError(f"there is no {name}")
        return copy.deepcopy(self.objects[resource_path, name])

    def create(self, resource_path: str, body: Manifest, **_: Any) -> Manifest:
        """A new object; one of its name is a conflict."""
        name = body["metadata"]["name"]
        self._ask("create", resource_path, name)
        if (resource_path, name) in self.objects:
            raise ExistsError(f"{name} exists")
        manifest = copy.deepcopy(body)
        manifest["metadata"].setdefault("creationTimestamp", _NEW)
        return self._store(resource_path, manifest)

    def patch(self, resource_path: str, name: str, body: Any, **how: Any) -> Manifest:
        """Add to the owners by their uid, as a strategic merge does."""
        self._ask("patch", resource_path, name)
        assert how["kind"] == "strategic"
        if (resource_path, name) not in self.objects:
            raise NotFoundError(f"there is no {name}")
        manifest = self.objects[resource_path, name]
        owners = {owner["uid"]: owner for owner in manifest["metadata"].get("ownerReferences", ())}
        owners |= {owner["uid"]: owner for owner in body["metadata"]["ownerReferences"]}
        manifest["metadata"]["ownerReferences"] = list(owners.values())
        return self._store(resource_path, manifest)

    def delete(self, resource_path: str, name: str, *, version: str = "", **_: Any) -> bool:
        """Take an object away if it still has that version."""
        self._ask("delete", resource_path, name)
        manifest = self.objects.get((resource_path, name))
        if manifest is None:
            return False
        if version and manifest["metadata"]["resourceVersion"] != version:
            raise ConflictError(f"{name} has changed")
        del self.objects[resource_path, name]
        return True

    def owners(self, name: str) -> list[str]:
        """The uids of the owners of a ConfigMap."""
        metadata = self.objects[paths.CONFIG_MAPS, name]["metadata"]
        return [owner["uid"] for owner in metadata.get("ownerReferences", ())]

    def parts(self) -> list[str]:
        """The names of the ConfigMaps that are there."""
        return [name for path, name in self.objects if path == paths.CONFIG_MAPS]

    def count(self, verb: str) -> int:
        """How many requests of a verb there were."""
        return sum(request[0] == verb for request in self.requests)

    def add(self, manifest: Manifest, created: str = _NEW) -> Manifest:
        """Put an object there, as somebody else would."""
        manifest = copy.deepcopy(manifest)
        manifest["metadata"]["creationTimestamp"] = created
        return self._store(paths.manifest_path(manifest), manifest)


def _label(manifest: Manifest, key: str, *, selector_value: str) -> list[Any]:
    value = (manifest["metadata"].get("labels") or {}).get(key)
    return [] if value is None else [value if selector_value else True]


def part(number: int = 0, digest: str = DIGEST) -> Manifest:
    """A part of a snapshot."""
    label = config_maps.label(digest)
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": f"ws-{label}-{number}",
            "labels": {names.WORKSPACE: label},
            "annotations": {names.WORKSPACE_DIGEST: digest},
        },
        "immutable": True,
        "binaryData": {"archive": "AAAA"},
    }


def job(name: str, digest: str = DIGEST) -> Manifest:
    """A controller that runs a snapshot."""
    annotations = {names.WORKSPACE_DIGEST: digest} if digest else {}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "uid": f"uid-{name}", "annotations": annotations},
    }


@pytest.fixture
def there(monkeypatch: pytest.MonkeyPatch) -> FakeNamespace:
    """An empty namespace; nobody waits between two tries."""
    monkeypatch.setattr(config_maps.time, "sleep", lambda _: None)
    return FakeNamespace()


NAMES = [part(0)["metadata"]["name"], part(1)["metadata"]["name"]]


def test_what_is_there_is_not_sent_again(there: FakeNamespace) -> None:
    """The first time each part is made; the second time each is asked for, and nothing is sent."""
    parts = config_maps.send(there, [part(0), part(1)], "lab")
    assert (tuple(NAMES), tuple(NAMES)) == (parts.names, parts.created)
    there.requests.clear()
    assert () == config_maps.send(there, [part(0), part(1)], "lab").created
    assert [("get", "configmaps", name) for name in NAMES] == there.requests


@pytest.mark.parametrize(
    ("foreign", "words"),
    [
        ({"labels": {}, "annotations": {}}, "was not made by allranks"),
        ({"annotations": {names.WORKSPACE_DIGEST: OTHER}}, "holds another snapshot"),
    ],
)
def test_an_object_of_that_name_that_is_not_ours_is_refused(
    there: FakeNamespace, foreign: dict[str, Any], words: str
) -> None:
    """It is named, with how to remove it, and stays as it is."""
    manifest = part(0)
    manifest["metadata"] |= foreign
    there.add(manifest)
    with pytest.raises(InputError, match=words) as caught:
        config_maps.send(there, [part(0)], "lab")
    assert f"kubectl delete configmap {NAMES[0]} -n lab" in caught.value.problem.hint
    assert 0 == there.count("delete")


def test_a_server_that_was_restarted_is_asked_again(there: FakeNamespace) -> None:
    """Also where it had stored the part and only its answer was lost."""
    lost = iter([True, True])

    def before(verb: str, path: str, name: str) -> None:
        if verb == "create" and next(lost, False):
            there.objects.setdefault((path, name), {**part(0)})
            raise BusyError("connection reset")

    there.before = before
    assert () == config_maps.send(there, [part(0)], "lab").created
    assert NAMES[:1] == there.parts()


def test_a_server_that_stays_away_is_given_up(there: FakeNamespace) -> None:
    """At the deadline, with its own words."""

    def before(*_: str) -> None:
        raise BusyError("does not answer")

    there.before = before
    with pytest.raises(BusyError, match="does not answer"):
        config_maps.send(there, [part(0)], "lab", seconds=0.1)


def test_what_was_sent_of_a_snapshot_that_fails_goes_again(there: FakeNamespace) -> None:
    """No half of one stays behind."""

    def before(verb: str, _: str, name: str) -> None:
        if (verb, name) == ("create", NAMES[1]):
            raise ForbiddenError("no")

    there.before = before
    with pytest.raises(ForbiddenError):
        config_maps.send(there, [part(0), part(1)], "lab")
    assert [] == there.parts()


@pytest.mark.parametrize(
    ("error", "words", "hint"),
    [
        (
            ForbiddenError("forbids to create configmaps"),
            "the snapshot cannot be sent: forbids to create configmaps",
            "create, patch and delete on configmaps in namespace lab",
        ),
        (
            QuotaError("x", detail="exceeded quota: few, used: count/configmaps=2"),
            r"quota of namespace lab: exceeded quota: few.*snapshots there: ws-b2.* \(old\)",
            "allranks list` shows them",
        ),
        (
            RejectedError("x", status=422, detail="Too long: must have at most 1048576 bytes"),
            "it is too large for this cluster",
            ".allranksignore",
        ),
        (
            RejectedError("x", status=413, detail="request entity too large"),
            "it is too large for this cluster",
            ".allranksignore",
        ),
        (
            BusyError("x", detail="etcdserver: mvcc: database space exceeded"),
            "the etcd of context fake at nowhere is full",
            "make room in etcd",
        ),
        (NotFoundError('namespaces "lab" not found'), "there is no namespace 'lab'", "kubectl"),
    ],
)
def test_why_it_cannot_be_sent_is_said(
    there: FakeNamespace, error: Exception, words: str, hint: str
) -> None:
    """Rights, a quota and who holds it, size, a full etcd, a missing namespace: each with a fix."""
    config_maps.own(there, [part(0, OTHER)], "lab", [job("old", OTHER)])

    def before(verb: str, *_: str) -> None:
        if verb == "create":
            raise error

    there.before = before
    with pytest.raises((RunError, InputError, ForbiddenError), match=words) as caught:
        config_maps.send(there, [part(0)], "lab", seconds=0.1)
    assert hint in caught.value.problem.hint


def test_a_full_etcd_is_not_asked_again(there: FakeNamespace) -> None:
    """Room comes from a person: nobody is made to wait for the end of the patience."""
    tries = []

    def before(verb: str, *_: str) -> None:
        if verb == "create":
            tries.append(verb)
            raise BusyError("x", detail="etcdserver: mvcc: database space exceeded")

    there.before = before
    with pytest.raises(RunError, match="is full"):
        config_maps.send(there, [part(0)], "lab", seconds=30)
    assert ["create"] == tries


def test_two_runs_own_what_they_share(there: FakeNamespace) -> None:
    """Each adds itself, once, and none takes the other's place."""
    config_maps.send(there, [part(0), part(1)], "lab")
    for name in ("one", "two", "one"):
        assert () == config_maps.own(there, [part(0), part(1)], "lab", [job(name)])
    assert [["uid-one", "uid-two"]] * 2 == [there.owners(name) for name in NAMES]
    (owner, _) = there.objects[paths.CONFIG_MAPS, NAMES[0]]["metadata"]["ownerReferences"]
    assert ("batch/v1", "Job", "one", False) == (
        owner["apiVersion"],
        owner["kind"],
        owner["name"],
        owner["blockOwnerDeletion"],
    )


def test_a_part_that_was_collected_meanwhile_is_made_again(there: FakeNamespace) -> None:
    """With its owner from the start, so that nobody takes it again."""
    config_maps.send(there, [part(0), part(1)], "lab")
    there.delete(paths.CONFIG_MAPS, NAMES[1])
    assert (NAMES[1],) == config_maps.own(there, [part(0), part(1)], "lab", [job("one")])
    assert [["uid-one"]] * 2 == [there.owners(name) for name in NAMES]


def test_a_conflict_is_tried_again(there: FakeNamespace) -> None:
    """The garbage collector may have changed the part at the same moment."""
    config_maps.send(there, [part(0)], "lab")
    conflicts = iter([True])

    def before(verb: str, *_: str) -> None:
        if verb == "patch" and next(conflicts, False):
            raise ConflictError("has changed")

    there.before = before
    config_maps.own(there, [part(0)], "lab", [job("one")])
    assert ["uid-one"] == there.owners(NAMES[0])


def test_what_was_sent_in_vain_goes_but_not_what_another_run_has(there: FakeNamespace) -> None:
    """A release that does not come takes its own parts with it only."""
    config_maps.send(there, [part(0)], "lab")
    parts = config_maps.send(there, [part(0), part(1)], "lab")
    config_maps.withdraw(there, parts, "lab")
    assert NAMES[:1] == there.parts()
    owned = config_maps.send(there, [part(1)], "lab")
    config_maps.own(there, [part(1)], "lab", [job("one")])
    config_maps.withdraw(there, owned, "lab")
    assert NAMES == there.parts()


@pytest.mark.parametrize(
    ("created", "stays"), [(_OLD, False), (_NEW, True)], ids=["old", "a-minute-old"]
)
def test_a_part_without_owner_has_an_hour(
    there: FakeNamespace, created: str, *, stays: bool
) -> None:
    """Within it somebody may be about to install; after it the sender was killed."""
    there.add(part(0), created)
    removed = config_maps.collect(there, "lab", now=NOW)
    assert (() if stays else (NAMES[0],), stays) == (removed, NAMES[0] in there.parts())


def test_a_run_whose_sender_was_killed_becomes_the_owner(there: FakeNamespace) -> None:
    """What it uses is never taken away, however old it is."""
    there.add(part(0), _OLD)
    there.add(job("one"))
    assert () == config_maps.collect(there, "lab", now=NOW)
    assert ["uid-one"] == there.owners(NAMES[0])


def test_all_who_use_a_snapshot_become_its_owners(there: FakeNamespace) -> None:
    """A run whose parts were deleted, or whose sender was killed, keeps them beside another."""
    for name in ("waits", "killed"):
        there.add(job(name))
    there.add(job("stranger", OTHER))
    config_maps.send(there, [part(0), part(1)], "lab")
    there.add(job("next"))
    there.requests.clear()
    config_maps.own(there, [part(0), part(1)], "lab", [job("next")])
    assert [{"uid-waits", "uid-killed", "uid-next"}] * 2 == [
        set(there.owners(name)) for name in NAMES
    ]
    assert (3, 2) == (there.count("list"), len(there.requests) - 3)


@pytest.mark.parametrize("created", [_OLD, _NEW], ids=["old", "a-minute-old"])
@pytest.mark.parametrize("owners", [[], ["other"]], ids=["without-owner", "with-another"])
def test_a_run_without_its_mark_becomes_the_owner_at_the_next_submit(
    there: FakeNamespace, created: str, owners: list[str]
) -> None:
    """Also of a part that another run owns, or that is new; the submit may be of another folder."""
    there.add(part(0), created)
    config_maps.own(there, [part(0)], "lab", [job(name) for name in owners])
    there.add(job("late"))
    assert () == config_maps.collect(there, "lab", owned=["ws-of-the-next"], now=NOW)
    assert [f"uid-{name}" for name in (*owners, "late")] == there.owners(NAMES[0])


def test_what_is_withdrawn_stays_with_a_run_that_waits_for_it(there: FakeNamespace) -> None:
    """A release that does not come has put the part there again for another run."""
    there.add(job("waits"))
    parts = config_maps.send(there, [part(0)], "lab")
    config_maps.withdraw(there, parts, "lab")
    assert ["uid-waits"] == there.owners(NAMES[0])


def test_with_a_deleted_run_goes_what_no_other_uses(there: FakeNamespace) -> None:
    """At once, whatever its age; what another run uses stays, and so do strangers' owners."""
    there.add(part(0))
    config_maps.own(there, [part(0)], "lab", [job("one"), job("two")])
    there.add(job("two"))
    assert () == config_maps.collect(there, "lab", digest=DIGEST, now=NOW)
    there.delete(paths.JOBS, "two")
    assert (NAMES[0],) == config_maps.collect(there, "lab", digest=DIGEST, now=NOW)
    foreign = part(0)
    foreign["metadata"]["ownerReferences"] = [{"kind": "Workflow", "name": "w", "uid": "w"}]
    there.add(foreign, _OLD)
    assert () == config_maps.collect(there, "lab", digest=DIGEST, now=NOW)


def test_the_journal_of_a_sweep_keeps_its_code(there: FakeNamespace) -> None:
    """Inside the cluster nothing else stays as long as the sweep: trials and Jobs come and go."""
    head = {"name": "s-journal", "uid": "uid-journal"}
    there.add({"apiVersion": "v1", "kind": "Secret", "metadata": head, "data": {"head": "x"}})
    there.add(part(0), _OLD)
    store = SecretsBackend(Address("s", "lab"), "s")
    store.__dict__["cluster"] = there
    config_maps.own(there, [part(0)], "lab", [store.head()])
    (owner,) = there.objects[paths.CONFIG_MAPS, NAMES[0]]["metadata"]["ownerReferences"]
    assert ("v1", "Secret", "s-journal", "uid-journal") == tuple(
        owner[key] for key in ("apiVersion", "kind", "name", "uid")
    )
    for digest in ("", DIGEST):  # a submit of anybody, and the end of a run of the same code
        assert () == config_maps.collect(there, "lab", digest=digest, now=NOW)


def test_a_part_that_changes_while_it_is_judged_stays(there: FakeNamespace) -> None:
    """Its new owner came between the look and the deletion."""
    there.add(part(0), _OLD)

    def before(verb: str, path: str, _: str) -> None:
        if (verb, path) == ("list", paths.STATEFUL_SETS):
            there.before = lambda *_: None
            config_maps.own(there, [part(0)], "lab", [job("late")])

    there.before = before
    assert () == config_maps.collect(there, "lab", now=NOW)
    assert ["uid-late"] == there.owners(NAMES[0])


def test_who_may_not_look_removes_nothing(there: FakeNamespace) -> None:
    """The garbage collector does its work all the same."""
    there.add(part(0), _OLD)

    def before(verb: str, path: str, _: str) -> None:
        if (verb, path) == ("list", paths.JOBS):
            raise ForbiddenError("no")

    there.before = before
    assert () == config_maps.collect(there, "lab", now=NOW)
    assert NAMES[:1] == there.parts()


def test_usual_submits_look_once(there: FakeNamespace) -> None:
    """One list is all that cleaning costs after `own`; other snapshots take one of each kind."""
    there.add(part(0))
    there.add(job("one"))
    config_maps.own(there, [part(0)], "lab", [job("one")])
    there.requests.clear()
    config_maps.collect(there, "lab", owned=NAMES[:1], now=NOW)
    assert [("list", "configmaps", "")] == there.requests
    there.add(part(0, OTHER))
    there.requests.clear()
    config_maps.collect(there, "lab", owned=NAMES[:1], now=NOW)
    assert (4, 4) == (there.count("list"), len(there.requests))


def test_a_snapshot_is_found_by_its_digest(there: FakeNamespace) -> None:
    """In the order of its parts; one that is gone is said with why."""
    for number in (1, 0):
        there.add(part(number))
    assert NAMES == [item["metadata"]["name"] for item in config_maps.find(there, "lab", DIGEST)]
    with pytest.raises(NotFoundError, match="is no longer in namespace lab") as caught:
        config_maps.find(there, "lab", OTHER)
    assert "went with the last run" in caught.value.problem.hint


def test_controllers_that_are_gone_already_own_nothing(there: FakeNamespace) -> None:
    """A job that has ended and was removed within moments is no error."""
    there.add(job("one"))
    rendered = [job("one"), job("gone"), {"kind": "Service", "metadata": {"name": "one"}}]
    (controller,) = config_maps.controllers(there, rendered, "lab")
    assert ("one", "Job", "batch/v1") == (
        controller["metadata"]["name"],
        controller["kind"],
        controller["apiVersion"],
    )
    assert () == config_maps.own(there, [part(0)], "lab", [])


class _KilledError(BaseException):
    """The end of a sender that is killed."""


def _submit(there: FakeNamespace, name: str) -> None:
    """Do what a submit does, in its order."""
    parts = [part(0), part(1)]
    config_maps.send(there, parts, "lab")
    there.create(paths.JOBS, job(name))
    config_maps.own(there, parts, "lab", config_maps.controllers(there, [job(name)], "lab"))
    config_maps.collect(there, "lab", now=NOW)


@pytest.mark.parametrize("requests", range(12))
def test_a_sender_may_be_killed_before_any_request(there: FakeNamespace, requests: int) -> None:
    """The next submit works; each run keeps its code, and the last of them takes it along."""

    def before(*_: str) -> None:
        if len(there.requests) > requests:
            raise _KilledError

    there.before = before
    with suppress(_KilledError):
        _submit(there, "first")
    there.before = lambda *_: None
    for manifest in there.objects.values():
        manifest["metadata"]["creationTimestamp"] = _OLD
    config_maps.collect(there, "lab", now=NOW)
    jobs = [name for path, name in there.objects if path == paths.JOBS]
    assert not jobs or NAMES == there.parts()
    _submit(there, "second")
    config_maps.collect(there, "lab", now=NOW)
    for name in NAMES:
        assert {f"uid-{run}" for run in (*jobs, "second")} == set(there.owners(name))
    for name in (*jobs, "second"):
        there.delete(paths.JOBS, name)
        config_maps.collect(there, "lab", digest=DIGEST, now=NOW)
    assert [] == there.parts()
