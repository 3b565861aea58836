"""The client of a cluster against a fake API server over HTTP.

It is long because each kind of request is tried with each kind of refusal.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import os
import re
import socket
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from allranks.cluster import kubeconfig, paths
from allranks.cluster.client import KubeCluster
from allranks.cluster.connection import Connection
from allranks.cluster.errors import ApiRequest
from allranks.errors import AllranksError, BusyError, InputError, ToolError
from allranks.model.inventory import Amount
from allranks_operator.kube.client import Api, connect
from tests.unit.cluster import fake_api

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from allranks.cluster.interface import KubeClient

GPU = "nvidia.com/gpu"


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loopback is asked directly, whatever proxy the machine has."""
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setenv("NO_PROXY", "*")


@pytest.fixture(name="api")
def _api() -> Iterator[Any]:
    with fake_api.FakeApiServer() as server:
        yield server


def cluster_at(folder: Path, url: str, timeout: float = 10) -> KubeCluster:
    """The client for a server at this address."""
    return KubeCluster(str(fake_api.write_kubeconfig(folder / "config", url)), timeout=timeout)


def node(name: str, gpus: int = 8) -> dict[str, Any]:
    """A Node object, as far as it matters."""
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": {},
        "status": {
            "allocatable": {"cpu": "96", "memory": "1Ti", "pods": "110", GPU: str(gpus)},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def pod(name: str, node_name: str, gpus: int) -> dict[str, Any]:
    """A running Pod object with GPUs."""
    resources = {"requests": {"cpu": "4"}, "limits": {GPU: str(gpus)}}
    return {
        "metadata": {"name": name},
        "spec": {"nodeName": node_name, "containers": [{"name": "c", "resources": resources}]},
        "status": {"phase": "Running"},
    }


def test_the_inventory_is_what_nodes_have_less_what_pods_ask(api: Any, tmp_path: Path) -> None:
    """Nodes and pods are listed page by page, and the pods' requests are subtracted."""
    api.routes["/api/v1/nodes"] = fake_api.paged([node(f"n{i}") for i in range(1201)], "Node")
    pods = [pod(f"p{i}", f"n{i % 3}", 1) for i in range(15)]
    api.routes["/api/v1/pods"] = fake_api.paged(pods, "Pod")
    inventory = cluster_at(tmp_path, api.url).inventory(GPU)
    assert len(inventory.nodes) == 1201
    assert [3, 3, 3, 8] == [node.gpus.free for node in inventory.nodes[:4]]
    assert Amount(96_000, 76_000) == inventory.nodes[0].cpu
    assert f"context lab at {api.url}" == inventory.source
    queries = [(request.path, request.query.get("continue", "")) for request in api.requests]
    pages = [("/api/v1/nodes", token) for token in ("", "500", "1000")]
    assert [*pages, ("/api/v1/pods", "")] == queries
    assert {"500"} == {request.query["limit"] for request in api.requests}
    assert api.requests[-1].query["fieldSelector"].startswith("status.phase!=")
    assert {"Bearer t"} == {request.headers["authorization"] for request in api.requests}


def test_version_and_permissions_are_asked_of_the_server(api: Any, tmp_path: Path) -> None:
    """What doctor needs: the version, and whether this user may create jobs in a namespace."""

    def review(request: Any) -> Any:
        attributes = request.body["spec"]["resourceAttributes"]
        allowed = attributes == {
            "verb": "create",
            "resource": "jobs",
            "group": "batch",
            "namespace": "research",
        }
        return fake_api.Answer(201, request.body | {"status": {"allowed": allowed}})

    api.routes["/version"] = lambda _: fake_api.Answer(data={"gitVersion": "v1.34.1"})
    api.routes["/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"] = review
    cluster: KubeClient = cluster_at(tmp_path, api.url)
    assert cluster.version() == "v1.34.1"
    assert cluster.may("create", "jobs", group="batch", namespace="research")
    assert not cluster.may("list", "nodes")


def test_an_expired_list_is_begun_again(api: Any, tmp_path: Path) -> None:
    """A continue token that the server forgot restarts the list, and loses no node."""
    whole = fake_api.paged([node(f"n{i}") for i in range(700)], "Node")
    expiry = fake_api.error_route(410, "Expired", "The provided continue parameter is too old")
    expired = iter([True])

    def route(request: Any) -> Any:
        late = "continue" in request.query and next(expired, False)
        return expiry(request) if late else whole(request)

    api.routes["/api/v1/nodes"] = route
    api.routes["/api/v1/pods"] = fake_api.paged([], "Pod")
    assert len(cluster_at(tmp_path, api.url).inventory(GPU).nodes) == 700


@pytest.mark.parametrize(
    ("status", "server_message", "expected", "hint"),
    [
        (403, 'User "x" cannot list', "forbids to list nodes: User", "ClusterRole"),
        (401, "Unauthorized", "does not accept the credentials", "log in"),
        (500, "etcd is gone", "status 500: etcd is gone", "try again"),
        (429, "slow down", "status 429: slow down", "try again"),
        (410, "too old", "expired twice", "busy"),
    ],
)
def test_refusals_name_the_verb_the_resource_and_the_reason(
    api: Any, tmp_path: Path, *, status: int, server_message: str, expected: str, hint: str
) -> None:
    """What the server said is passed on in one line, with the way out, and is not retried."""
    api.routes["/api/v1/nodes"] = fake_api.error_route(status, "Reason", server_message)
    with pytest.raises(ToolError) as excinfo:
        cluster_at(tmp_path, api.url).inventory(GPU)
    assert expected in excinfo.value.problem.message
    assert "context lab" in excinfo.value.problem.message
    assert hint in excinfo.value.problem.hint
    assert len(api.requests) <= 2


@pytest.mark.parametrize("patience", [20.0, 0.0], ids=["a person", "the operator"])
def test_what_the_server_puts_off_is_asked_again(
    api: Any, tmp_path: Path, *, patience: float
) -> None:
    """429 with a time to come back is no verdict, as while a restarted server fills its caches."""
    refusal = fake_api.error_route(429, "TooManyRequests", "storage is (re)initializing")

    def route(request: Any) -> Any:
        if len(api.requests) > 2:
            return fake_api.Answer(data={"kind": "ConfigMap", "metadata": {"name": "a"}})
        return dataclasses.replace(refusal(request), headers={"Retry-After": "1"})

    api.routes["/api/v1/namespaces/n/configmaps/a"] = route
    config = str(fake_api.write_kubeconfig(tmp_path / "config", api.url))
    connection = Connection(config, None, 10, patience=patience)
    request = ApiRequest("get", paths.CONFIG_MAPS, "n", "a")
    if patience:
        assert "a" == connection.request(request)["metadata"]["name"]
        assert 3 == len(api.requests)
        return
    with pytest.raises(BusyError, match="initializing") as excinfo:
        connection.request(request)
    assert (1, 1.0) == (len(api.requests), excinfo.value.retry_after)


def test_a_server_that_puts_off_for_long_is_told(api: Any, tmp_path: Path) -> None:
    """A time to come back that is out of reach is not waited for."""
    refusal = fake_api.error_route(429, "TooManyRequests", "slow down")
    api.routes["/api/v1/nodes"] = lambda request: dataclasses.replace(
        refusal(request), headers={"Retry-After": "3600"}
    )
    with pytest.raises(BusyError, match="slow down"):
        cluster_at(tmp_path, api.url).inventory(GPU)
    assert 1 == len(api.requests)


def test_only_pods_have_specs_that_were_cut_down(api: Any, tmp_path: Path) -> None:
    """Another kind may have any key in its spec, the one that stands for a pod's as well."""
    plans = [{"metadata": {"name": "odd"}, "spec": {"": 7, "a": 1}}]
    api.routes["/apis/x.io/v1/plans"] = fake_api.paged(plans, "Plan")
    (plan,) = cluster_at(tmp_path, api.url).list("apis/x.io/v1/plans")
    assert {"": 7, "a": 1} == plan["spec"]


def test_pods_that_may_not_be_listed_are_named(api: Any, tmp_path: Path) -> None:
    """A user who sees nodes but not all pods is told which of the two is missing."""
    api.routes["/api/v1/nodes"] = fake_api.paged([node("n")], "Node")
    api.routes["/api/v1/pods"] = fake_api.error_route(403, "Forbidden", "no")
    with pytest.raises(ToolError, match="forbids to list pods"):
        cluster_at(tmp_path, api.url).inventory(GPU)


@pytest.mark.parametrize("text", ["<html>log in</html>", "[1]"])
def test_a_login_page_is_not_taken_for_a_cluster(api: Any, tmp_path: Path, text: str) -> None:
    """A proxy that answers 200 with a page of its own is recognized."""
    api.routes["/version"] = lambda _: fake_api.Answer(text=text)
    with pytest.raises(ToolError, match="not Kubernetes"):
        cluster_at(tmp_path, api.url).version()


def test_an_object_that_is_nested_too_deep_is_told(api: Any, tmp_path: Path) -> None:
    """Who may write objects makes no command of ours crash for others."""
    deep = '{"items": [{"spec": ' + '{"a": ' * 5_000 + "1" + "}" * 5_000 + "}]}"
    api.routes["/api/v1/nodes"] = lambda _: fake_api.Answer(text=deep)
    with pytest.raises(ToolError, match=r"list nodes: .* nested too deep"):
        cluster_at(tmp_path, api.url).inventory(GPU)


def deep_among_others(request: fake_api.Request) -> fake_api.Answer:
    """Two pages of three nodes; the second node is too deep, wherever a parser comes by."""
    levels = '{"f:a":' * 5_000 + "1" + "}" * 5_000
    head = '"name": "deep", "namespace": "lab", "labels": {"a": "b"}'
    text = '{"metadata": {%s, "managedFields": [{"fieldsV1": %s}]}, "spec": {"x": %s}}'
    items = ['{"metadata": {"name": "first"}}', text % (head, levels, levels)]
    first = not request.query.get("continue")
    items_text = ", ".join(items) if first else '{"metadata": {"name": "last"}}'
    token = "more" if first else ""
    page = '{"kind": "NodeList", "apiVersion": "v1", "metadata": {"continue": "%s"}, "items": [%s]}'
    return fake_api.Answer(text=page % (token, items_text))


@pytest.mark.attack
def test_a_list_goes_on_without_an_object_that_is_nested_too_deep(api: Any, tmp_path: Path) -> None:
    """It is named to who wants to know; the others are read, on this page and on the next ones."""
    api.routes["/api/v1/nodes"] = deep_among_others
    unread: list[str] = []
    nodes = cluster_at(tmp_path, api.url).list("api/v1/nodes", unread=unread.append)
    assert [("first", "Node"), ("last", "Node")] == [
        (node["metadata"]["name"], node["kind"]) for node in nodes
    ]
    note = "nodes deep in namespace lab is nested too deep to be read; `kubectl -n lab delete nodes"
    assert [f"{note} deep` removes it"] == unread


@pytest.mark.attack
def test_who_wants_all_objects_hears_which_is_nested_too_deep(api: Any, tmp_path: Path) -> None:
    """Nobody decides by a list that lacks one, unless they said that they can."""
    api.routes["/api/v1/nodes"] = deep_among_others
    with pytest.raises(ToolError, match="cannot list nodes: nodes deep in namespace lab is nested"):
        cluster_at(tmp_path, api.url).list("api/v1/nodes")


@pytest.mark.attack
def test_the_metadata_of_an_object_that_is_nested_too_deep(api: Any, tmp_path: Path) -> None:
    """Is read but for what is as deep as the object; so none is missing among what is removed."""
    api.routes["/api/v1/nodes"] = deep_among_others
    nodes = cluster_at(tmp_path, api.url).list("api/v1/nodes", metadata_only=True)
    assert ["first", "deep", "last"] == [node["metadata"]["name"] for node in nodes]
    metadata = {"name": "deep", "namespace": "lab", "labels": {"a": "b"}}
    assert (metadata, "Node") == (nodes[1]["metadata"], nodes[1]["kind"])


def test_a_refusal_without_a_status_object_is_still_told(api: Any, tmp_path: Path) -> None:
    """A load balancer's plain 503 gives its reason, not its HTML."""
    api.routes["/version"] = lambda _: fake_api.Answer(503, text="<html>down</html>")
    with pytest.raises(ToolError, match="status 503: Service Unavailable"):
        cluster_at(tmp_path, api.url).version()


def test_a_closed_port_is_told_at_once(tmp_path: Path) -> None:
    """A refused connection names the address and the cause."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with pytest.raises(ToolError) as excinfo:
        cluster_at(tmp_path, f"http://127.0.0.1:{port}").version()
    assert f"127.0.0.1:{port} does not answer" in excinfo.value.problem.message
    assert "Connection refused" in excinfo.value.problem.message


def test_an_unknown_host_is_told(tmp_path: Path) -> None:
    """A name that does not resolve is no traceback."""
    with pytest.raises(ToolError, match="does not answer"):
        cluster_at(tmp_path, "http://no-such-host.invalid:6443").version()


def test_a_server_that_hangs_is_given_up(api: Any, tmp_path: Path) -> None:
    """A connection that is taken but never answered ends by the time limit."""
    api.routes["/version"] = api.hang
    with pytest.raises(ToolError, match="it timed out"):
        cluster_at(tmp_path, api.url, timeout=0.2).version()


def test_tls_to_a_plain_server_is_told(api: Any, tmp_path: Path) -> None:
    """An https address where none is served ends in an error of ours."""
    url = api.url.replace("http://", "https://")
    with pytest.raises(ToolError, match=r"not trusted|does not answer"):
        cluster_at(tmp_path, url).version()


def test_no_kubeconfig_at_all(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A laptop without a cluster is told where one was looked for."""
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(InputError, match="no kubeconfig") as excinfo:
        KubeCluster().version()
    assert f"{tmp_path}/.kube/config" in excinfo.value.problem.message
    assert "--inventory" in excinfo.value.problem.hint


def test_a_kubeconfig_that_was_named_must_be_there(tmp_path: Path) -> None:
    """A mistyped file does not fall back to another cluster."""
    with pytest.raises(InputError, match="none"):
        KubeCluster(str(tmp_path / "none")).version()


def test_an_unknown_context_names_the_nearest(api: Any, tmp_path: Path) -> None:
    """The known contexts stand in the hint."""
    path = fake_api.write_kubeconfig(tmp_path / "config", api.url)
    with pytest.raises(InputError, match="no context 'labb'") as excinfo:
        KubeCluster(str(path), "labb").version()
    assert excinfo.value.problem.hint == "did you mean lab? contexts: lab"
    assert api.requests == []


_EVE = {
    "as": "éve",
    "as-uid": "7",
    "as-groups": ["research", "staff"],
    "as-user-extra": {"example.com/scope": ["a", "b"]},
}


def _get(cluster: KubeCluster) -> object:
    return cluster.version()


def _watch(cluster: KubeCluster) -> object:
    return cluster.watch("api/v1/pods", namespace="default")


def _log(cluster: KubeCluster) -> object:
    return cluster.logs("p", namespace="default")


def _exec(cluster: KubeCluster) -> object:
    return cluster.exec("p", ["true"], namespace="default")


def _operator(cluster: KubeCluster) -> object:
    (path,) = cluster._connection.config.files
    return Api(connect(path, None, 10)).page("api/v1/pods", "", (), seconds=10)


@pytest.mark.parametrize("ask", [_get, _watch, _log, _exec, _operator])
def test_each_request_is_of_whom_the_kubeconfig_impersonates(
    api: Any, tmp_path: Path, ask: Callable[[KubeCluster], object]
) -> None:
    """`as`, `as-uid`, `as-groups` and `as-user-extra` go with it, as from kubectl and helm."""
    path = fake_api.write_kubeconfig(tmp_path / "config", api.url, login=_EVE)
    with suppress(AllranksError):  # no route: what was sent is looked at
        ask(KubeCluster(str(path)))
    (request,) = api.requests
    headers = {
        name: value.encode("latin-1").decode()
        for name, value in request.headers.items()
        if name.startswith("impersonate-")
    }
    assert request.headers["authorization"] == "Bearer t"
    assert headers == {
        "impersonate-user": "éve",
        "impersonate-uid": "7",
        "impersonate-group": "research, staff",
        "impersonate-extra-example.com%2fscope": "a, b",
    }


def test_helms_variables_say_whom_to_be(
    api: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HELM_KUBEASUSER and HELM_KUBEASGROUPS stand above the kubeconfig's, as in helm itself."""
    monkeypatch.setenv("HELM_KUBEASUSER", "mallory")
    monkeypatch.setenv("HELM_KUBEASGROUPS", "a,b")
    path = fake_api.write_kubeconfig(tmp_path / "config", api.url, login=_EVE)
    with pytest.raises(AllranksError):
        KubeCluster(str(path)).version()
    (request,) = api.requests
    kinds = ("user", "group", "uid")
    headers = [request.headers[f"impersonate-{kind}"] for kind in kinds]
    assert ["mallory", "a, b", "7"] == headers


@pytest.mark.parametrize("value", ["", "false"])
def test_a_variable_that_leads_helm_elsewhere_is_refused(
    api: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    """Helm would install on another server than the one whose runs are shown; unset is no fault."""
    path = fake_api.write_kubeconfig(tmp_path / "config", api.url)
    monkeypatch.setenv("HELM_KUBETOKEN", value)
    with suppress(AllranksError):
        KubeCluster(str(path)).version()
    assert 1 == len(api.requests)
    monkeypatch.setenv("HELM_KUBEAPISERVER", "https://elsewhere")
    with pytest.raises(InputError, match="HELM_KUBEAPISERVER is set") as excinfo:
        KubeCluster(str(path)).version()
    assert "unset it" in excinfo.value.problem.hint
    assert 1 == len(api.requests)


def test_who_impersonates_nobody_sends_no_such_header(api: Any, tmp_path: Path) -> None:
    """An empty `as` is none."""
    path = fake_api.write_kubeconfig(tmp_path / "config", api.url, login={"as": ""})
    with pytest.raises(AllranksError):
        KubeCluster(str(path)).version()
    (request,) = api.requests
    assert not [name for name in request.headers if name.startswith("impersonate")]


@pytest.mark.parametrize(
    ("login", "message"),
    [
        ({"as-groups": ["research"]}, "names nobody"),
        ({"as": ["eve"]}, "`as` of user u is not a text"),
        ({"as": "eve", "as-groups": "research"}, "`as-groups` of user u is not a list of texts"),
        ({"as": "eve\r\nImpersonate-Group: root"}, "`as` of user u is not a text"),
        ({"as": "eve", "as-user-extra": ["a"]}, "`as-user-extra` of user u is not a list"),
    ],
    ids=["nobody", "a-list", "one-group", "two-lines", "no-map"],
)
def test_an_impersonation_that_cannot_be_sent_is_refused(
    api: Any, tmp_path: Path, login: dict[str, Any], message: str
) -> None:
    """Nothing goes out with other rights than the file asks for."""
    path = fake_api.write_kubeconfig(tmp_path / "config", api.url, login=login)
    with pytest.raises(InputError, match=message) as excinfo:
        KubeCluster(str(path)).version()
    assert excinfo.value.problem.source == str(path)
    assert api.requests == []


def test_several_files_are_merged_as_kubectl_does(
    monkeypatch: pytest.MonkeyPatch, api: Any, tmp_path: Path
) -> None:
    """KUBECONFIG may list files; a context of any of them can be named."""
    api.routes["/version"] = lambda _: fake_api.Answer(data={"gitVersion": "v1.33.0"})
    first = fake_api.write_kubeconfig(tmp_path / "a", "http://127.0.0.1:9", context="first")
    second = tmp_path / "b"
    text = fake_api.write_kubeconfig(second, api.url, context="second").read_text()
    second.write_text(text.replace('"c"', '"c2"').replace('"u"', '"u2"'))
    missing = str(tmp_path / "missing")
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join([str(first), missing, str(second)]))
    assert KubeCluster(context="second").version() == "v1.33.0"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no kubeconfig"),
        ("a: [", "not valid YAML"),
        ("- a", "no kubeconfig"),
        ("contexts: 3", "no kubeconfig"),
        ("contexts: [{}]", "no kubeconfig"),
        ("contexts: [{name: a}]", "no current context"),
        ("{current-context: a, contexts: [{name: a}]}", "cannot be used"),
        ("{current-context: a, contexts: [{name: a, context: {cluster: c}}]}", "cannot be used"),
    ],
)
def test_a_broken_kubeconfig_is_the_users_to_mend(tmp_path: Path, text: str, message: str) -> None:
    """Whatever stands in the file, the error names it and is no traceback."""
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(InputError, match=message) as excinfo:
        KubeCluster(str(path)).version()
    assert str(path) in excinfo.value.problem.source


def test_nothing_is_imported_or_sent_before_the_first_question() -> None:
    """The library costs a fifth of a second, which no other command should pay."""
    code = (
        "import sys; from allranks.cluster.client import KubeCluster; KubeCluster('none', 'x');"
        "sys.exit('kubernetes' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# Asks for the version, then does what is added.
ASKING = """
import sys
from allranks.cluster.client import KubeCluster
print(KubeCluster(sys.argv[1]).version())
"""


def ask(config: Path, more: str) -> str:
    """What a program prints that asks a cluster, in a Python of its own."""
    command = [sys.executable, "-c", ASKING + more, str(config)]
    env = {**os.environ, "OAUTHLIB_INSECURE_TRANSPORT": "1"}
    return subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout


def test_a_request_imports_what_it_needs(tmp_path: Path, api: Any) -> None:
    """The library's classes of all kinds, and what it has for other ways to log in, stay away."""
    api.routes["/version"] = lambda _: fake_api.Answer(data={"gitVersion": "v1.36.3"})
    config = fake_api.write_kubeconfig(tmp_path / "config", api.url)
    heavy = {
        *("pydantic", "requests", "websocket", "jsonschema", "asyncio", "kubernetes.dynamic"),
        *("kubernetes.client.api_client", "oauthlib.oauth2.rfc6749"),
    }
    loaded = ask(config, f"print(sorted({heavy} & set(sys.modules)))")
    assert ["v1.36.3", "[]"] == loaded.split()


def test_the_library_is_whole_for_others_in_the_process(tmp_path: Path, api: Any) -> None:
    """Somebody else's program finds every part of it, and the classes themselves."""
    api.routes["/version"] = lambda _: fake_api.Answer(data={"gitVersion": "v1"})
    config = fake_api.write_kubeconfig(tmp_path / "config", api.url)
    more = (
        "import inspect, kubernetes, requests_oauthlib\n"
        "from kubernetes import dynamic, stream, watch\n"
        "from kubernetes.client import ApiClient\n"
        "assert callable(stream.stream) and inspect.isclass(watch.Watch)\n"
        "assert inspect.isclass(ApiClient) and kubernetes.client.ApiClient is ApiClient\n"
        "assert inspect.isclass(requests_oauthlib.OAuth2Session)\n"
        "client = kubernetes.config.new_client_from_config(sys.argv[1])\n"
        "assert type(client) is ApiClient\n"
        "answer = client.call_api('GET', client.configuration.host + '/version')\n"
        "print(kubernetes.client.VersionApi.__name__, answer.read().decode())\n"
    )
    assert 'VersionApi {"gitVersion": "v1"}' in ask(config, more)


def test_a_token_that_has_run_out_is_renewed(tmp_path: Path, api: Any) -> None:
    """The library renews it with what is imported only then, and the request bears the new one."""
    api.routes |= {
        "/.well-known/openid-configuration": lambda _: fake_api.Answer(
            data={"token_endpoint": f"{api.url}/token"}
        ),
        "/token": lambda _: fake_api.Answer(
            data={"access_token": "a", "id_token": "new", "refresh_token": "r2"}
        ),
        "/version": lambda request: fake_api.Answer(
            data={"gitVersion": request.headers["authorization"]}
        ),
    }
    old = ".".join(
        base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")
        for part in ({"alg": "none"}, {"exp": 1}, {})
    )
    login = {
        "auth-provider": {
            "name": "oidc",
            "config": {
                "client-id": "c",
                "client-secret": "s",
                "id-token": old,
                "idp-issuer-url": api.url,
                "refresh-token": "r1",
            },
        }
    }
    config = fake_api.write_kubeconfig(tmp_path / "config", api.url, login=login)
    assert ask(config, "") == "Bearer new\n"
    (renewal,) = (request for request in api.requests if request.path == "/token")
    assert "r1" == renewal.body["refresh_token"]


def test_a_login_program_that_is_missing_is_named(tmp_path: Path) -> None:
    """Without it the library would go on as nobody, and the server's refusal would mislead."""
    path = tmp_path / "config"
    path.write_text(
        "current-context: a\n"
        "contexts: [{name: a, context: {cluster: c, user: u}}]\n"
        "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:9'}}]\n"
        "users: [{name: u, user: {exec: {command: no-such-login, apiVersion: v1}}}]\n"
    )
    with pytest.raises(InputError, match="'no-such-login', which is not on PATH") as excinfo:
        KubeCluster(str(path)).version()
    assert str(path) == excinfo.value.problem.source


@pytest.mark.parametrize("explicit", [True, False], ids=["--kubeconfig", "$KUBECONFIG"])
def test_a_kubeconfig_that_is_a_folder(
    explicit: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is there, and no file."""
    origin = "--kubeconfig" if explicit else "$KUBECONFIG"
    monkeypatch.setenv("KUBECONFIG", str(tmp_path))
    message = f"{origin} names {tmp_path}, which is a folder"
    with pytest.raises(InputError, match=re.escape(message)):
        kubeconfig.find(str(tmp_path) if explicit else None, None)
    if not explicit:
        with pytest.raises(InputError, match=re.escape(message)):
            kubeconfig.has_context()


def test_no_cluster_is_a_usual_kubeconfig(monkeypatch: pytest.MonkeyPatch) -> None:
    """KUBECONFIG=/dev/null is an empty file, as it is to kubectl: no context, and no error."""
    monkeypatch.setenv("KUBECONFIG", "/dev/null")
    assert not kubeconfig.has_context()
    with pytest.raises(InputError) as excinfo:
        kubeconfig.find(None, None)
    assert "no such file" not in str(excinfo.value)


def test_a_variable_that_names_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Is quoted, and no other file is named in its place."""
    monkeypatch.setenv("KUBECONFIG", "::")
    for ask in (kubeconfig.has_context, lambda: kubeconfig.find(None, None)):
        with pytest.raises(InputError, match="'::', which names no file"):
            ask()
