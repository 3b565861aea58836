"""`allranks queue delete`, with helm and an API server that only pretend."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from allranks import names
from allranks.cli.commands import queue as command
from allranks.cli.main import main
from allranks.cli.target import ClusterTarget
from allranks.helm import releases
from allranks.helm.releases import Release, ReleaseRef

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import ModuleType

    from allranks.k8s.manifest import Manifest

CALL = ("queue", "delete", "h100", "-n", "research")
CORE = "/api/v1/namespaces/research"
ROLES = "/apis/rbac.authorization.k8s.io/v1/namespaces/research/roles"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
POLICIES = f"{ADMISSION}/validatingadmissionpolicies"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


def release_object(
    kind: str, name: str, api_version: str = "v1", *, space: str = "research"
) -> Manifest:
    """An object of the queue's release; `space` is where its release is."""
    metadata: dict[str, Any] = {
        "name": name,
        "labels": {names.QUEUE: "h100", names.APP_NAME: names.QUEUE_CHART},
        "annotations": {
            names.HELM_RELEASE: "team-h100",
            names.HELM_RELEASE_NAMESPACE: space,
        },
    }
    if not kind.startswith("Validating"):
        metadata["namespace"] = space
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}


class Place:
    """A cluster with a queue, and a helm that removes what its user may.

    Attributes:
        objects: what there is, by the path of its list.
        release: helm's record; None where it is gone.
        forbidden: the resources that the user may not delete, or not list.
        calls: the releases that helm has uninstalled.
    """

    def __init__(self, api: Any, fake_api: ModuleType) -> None:
        self.objects: dict[str, list[Manifest]] = {
            f"{CORE}/configmaps": [release_object("ConfigMap", "allranks-queue-h100")],
            ROLES: [release_object("Role", "allranks-queue-h100", "rbac.authorization.k8s.io/v1")],
            POLICIES: [
                release_object(
                    "ValidatingAdmissionPolicy",
                    f"allranks-queue-{space}-h100-jobs",
                    "admissionregistration.k8s.io/v1",
                    space=space,
                )
                for space in ("research", "other")
            ],
        }
        mine = [item for items in self.objects.values() for item in items[:1]]
        self.release: Release | None = Release(1, "deployed", {}, tuple(mine))
        self.forbidden: set[str] = set()
        self.calls: list[str] = []
        self._answer = fake_api.Answer
        for path, items in self.objects.items():
            api.routes[path] = self._list(fake_api, path)
            for item in items:
                api.routes[f"{path}/{item['metadata']['name']}"] = self._item(path)
        api.routes[CORE] = lambda _: fake_api.Answer(data={"metadata": {"name": "research"}})
        api.routes[REVIEWS] = self._review

    def names(self, path: str) -> list[str]:
        """The names of what there is at a path."""
        return [item["metadata"]["name"] for item in self.objects[path]]

    def uninstall(self, home: ReleaseRef) -> bool:
        """Remove what a user of few rights may, and the record, as helm was seen to do."""
        self.calls.append(home.name)
        self.objects[f"{CORE}/configmaps"] = []
        self.release = None
        return True

    def _list(self, fake_api: ModuleType, path: str) -> Callable[[Any], Any]:
        def route(request: Any) -> Any:
            resource = path.rsplit("/", 1)[1]
            if f"list {resource}" in self.forbidden:
                return fake_api.error_route(403, "Forbidden", f"cannot list {resource}")(request)
            return fake_api.paged(self.objects[path], "X")(request)

        return route

    def _item(self, path: str) -> Callable[[Any], Any]:
        def route(request: Any) -> Any:
            name = request.path.rsplit("/", 1)[1]
            item = next(
                (item for item in self.objects[path] if item["metadata"]["name"] == name), None
            )
            if item is None:
                return self._answer(404, {"kind": "Status", "reason": "NotFound", "details": {}})
            if request.method == "DELETE":
                self.objects[path].remove(item)
            return self._answer(data=item)

        return route

    def _review(self, request: Any) -> Any:
        attributes = request.body["spec"]["resourceAttributes"]
        is_allowed = f"{attributes['verb']} {attributes['resource']}" not in self.forbidden
        return self._answer(201, request.body | {"status": {"allowed": is_allowed}})


@pytest.fixture
def place(api: Any, fake_api: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """The cluster, with the queue in it."""
    path = fake_api.write_kubeconfig(tmp_path / "config", api.url)
    monkeypatch.setenv("KUBECONFIG", str(path))
    where = Place(api, fake_api)

    def home(target: ClusterTarget, name: str) -> ReleaseRef:
        binary: Any = None  # no helm is called
        return ReleaseRef(binary, name, target.namespace)

    monkeypatch.setattr(ClusterTarget, "home", home)
    monkeypatch.setattr(releases, "find", lambda _: where.release)
    monkeypatch.setattr(releases, "uninstall", where.uninstall)
    monkeypatch.setattr(command, "_runs", lambda *_: [])
    return where


def test_a_right_that_is_missing_is_named_before_anything_is_deleted(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    """A member of the team can remove half of it at most: so nothing is."""
    place.forbidden = {
        "list roles",
        "list validatingadmissionpolicies",
        "delete roles",
        "delete validatingadmissionpolicies",
    }
    assert 1 == main([*CALL, "--force"])
    error = capsys.readouterr().err
    assert "delete roles.rbac.authorization.k8s.io in namespace research" in error
    assert "delete validatingadmissionpolicies.admissionregistration.k8s.io in the whole" in error
    assert "nothing was deleted" in error
    assert [] == place.calls
    assert ["allranks-queue-h100"] == place.names(f"{CORE}/configmaps")


def test_what_helm_leaves_goes_with_the_queue(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    """Helm forgets a release of which it has removed a part; other namespaces keep theirs."""
    assert 0 == main([*CALL, "-o", "json"])
    assert {"name": "h100", "kept": [], "runs": []} == json.loads(capsys.readouterr().out)
    assert ["team-h100"] == place.calls
    assert [] == place.names(f"{CORE}/configmaps") + place.names(ROLES)
    assert ["allranks-queue-other-h100-jobs"] == place.names(POLICIES)


@pytest.mark.parametrize("is_recorded", [True, False])
def test_a_half_deleted_queue_is_deleted_in_full(
    place: Place, capsys: pytest.CaptureFixture[str], is_recorded: bool
) -> None:
    """Its ConfigMap is gone, or its release as well: what is left is found by its labels."""
    place.objects[f"{CORE}/configmaps"] = []
    place.release = place.release if is_recorded else None
    if not is_recorded:
        place.forbidden = {"list roles"}
        assert 1 == main([*CALL])
        assert "list roles.rbac.authorization.k8s.io" in capsys.readouterr().err
        place.forbidden = set()
    assert 0 == main([*CALL])
    assert "deleted queue h100" in capsys.readouterr().out
    assert ["team-h100"] * is_recorded == place.calls
    assert [] == place.names(ROLES)
    assert ["allranks-queue-other-h100-jobs"] == place.names(POLICIES)
    assert 2 == main([*CALL])
    assert "there is no queue 'h100'" in capsys.readouterr().err
