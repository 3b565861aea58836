"""A fake of Azure Resource Manager: the calls that allranks makes, over real HTTP on loopback.

It keeps what it is told in memory, and does things as slowly as it is asked to: an operation is
done after so many looks at it, counted and not timed. What can go wrong in the real one can be
ordered: conflicts, throttling, failures, quotas, answers that come late, tokens that expire, and
the death of whoever asks, before or after a request is carried out. It is long because it is one
server, whose resources know each other.
"""

from __future__ import annotations

import base64
import copy
import email.utils
import json
import os
import re
import signal
import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import parse_qsl, unquote, urlsplit

from azure.mgmt.compute import models as compute_models
from azure.mgmt.containerservice import models as aks_models
from azure.mgmt.resource.resources import models as group_models
from azure.mgmt.storage import models as storage_models

from tests.azure_fake.shapes import unknown_keys

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import TracebackType

SUBSCRIPTION = "11111111-2222-3333-4444-555555555555"
TOKEN = "a-token-of-a-test"
AKS = "Microsoft.ContainerService/managedClusters"
STORAGE = "Microsoft.Storage/storageAccounts"
START = datetime(2026, 11, 24, 12, tzinfo=UTC)
# What no answer of a read may have in it, and no log: the fake never gives one away unasked.
SECRET = "c2VjcmV0LWxvZ2luLW9mLWEtY2x1c3Rlcg=="

Body = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked."""

    method: str
    path: str
    query: dict[str, str]
    body: Any
    token: str


@dataclass(slots=True)
class Answer:
    """What is answered."""

    status: int = 200
    data: Any = None
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Fault:
    """Something that goes wrong.

    Attributes:
        method: of the requests that it befalls.
        path: a pattern of their path.
        answer: what they get.
        times: how many of them.
        is_done: whether the request is carried out all the same, and its answer lost.
    """

    method: str
    path: str
    answer: Answer
    times: int = 1
    is_done: bool = False


def error(status: int, code: str, message: str, **headers: str) -> Answer:
    """An error as ARM words it."""
    data = {"error": {"code": code, "message": message}}
    return Answer(status, data, {name.replace("_", "-"): text for name, text in headers.items()})


@dataclass(slots=True)
class Thing:
    """A resource.

    Attributes:
        body: as it is answered.
        looks_left: how many looks it takes until what goes on is done.
        hidden: how many looks answer 404 before it can be seen.
        then: what happens when it is done.
    """

    body: Body
    looks_left: int = 0
    hidden: int = 0
    then: Callable[[], None] | None = None

    @property
    def is_busy(self) -> bool:
        """Whether an operation goes on."""
        return self.looks_left > 0

    def state(self, word: str) -> None:
        """Set `provisioningState`."""
        self.body.setdefault("properties", {})["provisioningState"] = word

    def look(self) -> None:
        """Take note of a look: what goes on comes nearer to its end."""
        if self.looks_left:
            self.looks_left -= 1
            if not self.looks_left and self.then is not None:
                then, self.then = self.then, None
                then()


class FakeArm:
    """An ARM of one subscription.

    Args:
        looks: how many looks an operation takes.
        lag: how many looks answer 404 after something was made.
        flicker: which looks at a group answer 404 though it is there: every so many; 0 for none.
    """

    def __init__(self, looks: int = 2, lag: int = 0, flicker: int = 0) -> None:
        self.looks = looks
        self.lag = lag
        self.flicker = flicker
        self._looks_at_groups = 0
        self.now = START
        self.groups: dict[str, Thing] = {}
        self.things: dict[tuple[str, str, str], Thing] = {}  # by group, type and name
        self.shares: dict[str, dict[str, int]] = {}  # by account
        self.containers: dict[str, list[str]] = {}
        self.retention: dict[str, dict[str, Any]] = {}
        self.registered = {
            "Microsoft.ContainerService": True,
            "Microsoft.Storage": True,
            "Microsoft.Compute": True,
        }
        self.list_lags = False  # the list of what is in a group does not show it yet
        self.foreign_names: set[str] = set()  # names of accounts that others have
        self.keys: dict[str, str] = {}  # of accounts, by their names
        self.limits = {"cores": 100, "standardDSv5Family": 100, "StandardNCADSA100v4Family": 48}
        self.limits["lowPriorityCores"] = 100
        self.failures: dict[str, list[str]] = {}  # by name, why its next operations fail
        self.faults: list[Fault] = []
        self.expired_at: set[int] = set()  # the numbers of requests whose token has expired
        self.may_not: str = ""  # a pattern of what is forbidden
        self.requests: list[Request] = []
        self.misshapen: list[str] = []
        self.kill_at: int | None = None  # the number of the request whose sender dies
        self.kill_at_write: int | None = None  # the same, of those that change something
        self.kill_after = False  # after it was carried out
        self.kill_signal = signal.SIGKILL
        self.victim: int | None = None
        self.victim_known = threading.Event()
        self._lock = threading.RLock()
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # head and body in one packet; else each answer waits for a late ACK

            def _any(self) -> None:
                fake._serve(self)

            do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = do_HEAD = _any

            def date_time_string(self, timestamp: float | None = None) -> str:
                return email.utils.format_datetime(fake.now, usegmt=True)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self.close()

    def close(self) -> None:
        """Leave the port, also of one that was called and never served."""
        self._server.server_close()

    # --- what a test asks -------------------------------------------------------------------------

    def env(self, folder: Path) -> dict[str, str]:
        """The variables with which allranks asks this one, in a hurry.

        Args:
            folder: where the kubeconfig is.
        """
        return {
            "ALLRANKS_AZURE_ENDPOINT": self.url,
            "ALLRANKS_AZURE_TOKEN": TOKEN,
            "ALLRANKS_AZURE_PACE": "0.0002",
            "AZURE_SUBSCRIPTION_ID": SUBSCRIPTION,
            "KUBECONFIG": str(folder / "kubeconfig"),
        }

    def writes(self) -> list[str]:
        """The requests that changed something, as ``PUT name``."""
        return [
            f"{request.method} {request.path.rsplit('/', 1)[-1]}"
            for request in self.requests
            if request.method not in READS
        ]

    def there(self) -> dict[str, Any]:
        """All that is there, without what differs from one life to the next."""
        return {
            "groups": {name: thing.body.get("tags", {}) for name, thing in self.groups.items()},
            "things": {
                f"{kind.rsplit('/', 1)[-1]}/{name}": _settled(thing.body)
                for (_, kind, name), thing in sorted(self.things.items())
            },
            "shares": copy.deepcopy(self.shares),
            "containers": {name: sorted(items) for name, items in self.containers.items()},
            "retention": copy.deepcopy(self.retention),
        }

    def add_group(self, name: str, tags: dict[str, str], region: str = "westeurope") -> None:
        """A group that is there already."""
        self.groups[name] = Thing(self._group_body(name, region, tags, "Succeeded"))

    def add_foreign(self, group: str, name: str, tags: dict[str, str] | None = None) -> None:
        """Something in a group that allranks does not make."""
        kind = "Microsoft.Network/publicIPAddresses"
        self.things[group, kind, name] = Thing(
            {
                "id": self._id(group, kind, name),
                "name": name,
                "type": kind,
                "location": "westeurope",
                "tags": tags or {},
                "properties": {"provisioningState": "Succeeded"},
            }
        )

    # --- HTTP -------------------------------------------------------------------------------------

    def _serve(self, handler: BaseHTTPRequestHandler) -> None:
        url = urlsplit(handler.path)
        length = int(handler.headers.get("Content-Length") or 0)
        raw = handler.rfile.read(length) if length else b""
        request = Request(
            handler.command,
            unquote(url.path),
            dict(parse_qsl(url.query)),
            json.loads(raw) if raw else None,
            handler.headers.get("Authorization", "").removeprefix("Bearer "),
        )
        with self._lock:
            self.requests.append(request)
            number = len(self.requests)
            dies = self.kill_at == number or (
                request.method not in READS and self.kill_at_write == len(self.writes())
            )
            if dies and not self.kill_after:
                self._kill()
                handler.close_connection = True
                return
            answer = self._answer(request, number)
            if dies:
                self._kill()
                handler.close_connection = True
                return
        payload = b"" if answer.data is None else json.dumps(answer.data).encode()
        try:
            handler.send_response(answer.status)
            for name, text in answer.headers.items():
                handler.send_header(name, text)
            if payload:
                handler.send_header("Content-Type", "application/json")
            handler.send_header("Content-Length", str(len(payload)))
            handler.end_headers()
            handler.wfile.write(payload)
            handler.wfile.flush()
        except OSError:
            handler.close_connection = True  # whoever asked has gone

    def _kill(self) -> None:
        """Kill whoever asks, as soon as it is known who that is."""
        self.victim_known.wait(10)
        if self.victim is not None:
            os.kill(self.victim, self.kill_signal)

    def _answer(self, request: Request, number: int) -> Answer:
        if request.token != TOKEN or number in self.expired_at:
            return error(
                401,
                "ExpiredAuthenticationToken",
                "The access token expiry UTC time is earlier than current UTC time.",
                WWW_Authenticate='Bearer error="invalid_token"',
            )
        if self.may_not and re.search(self.may_not, f"{request.method} {request.path}"):
            return error(
                403,
                "AuthorizationFailed",
                f"The client 'someone' with object id '{SUBSCRIPTION}' does not have authorization "
                f"to perform action '{_action(request)}' over scope '{request.path}' or the scope "
                "is invalid.",
            )
        for fault in self.faults:
            fits = fault.method == request.method and re.search(fault.path, request.path)
            if fits and fault.times:
                fault.times -= 1
                if fault.is_done:
                    self._route(request)
                return fault.answer
        return self._route(request)

    def _route(self, request: Request) -> Answer:
        prefix = f"/subscriptions/{SUBSCRIPTION}"
        if not request.path.lower().startswith(prefix):
            return error(
                404,
                "SubscriptionNotFound",
                f"The subscription '{request.path.split('/')[2]}' could not be found.",
            )
        rest = request.path[len(prefix) :]
        for pattern, method in self._routes():
            match = re.fullmatch(pattern, rest, re.IGNORECASE)
            if match:
                answer = method(request, *match.groups())
                return self._shaped(request, rest, answer)
        return error(404, "InvalidResourceType", f"there is no {rest}")

    def _routes(self) -> list[tuple[str, Callable[..., Answer]]]:
        group = "/resourcegroups/([^/]+)"
        aks, storage = f"{group}/providers/{AKS}", f"{group}/providers/{STORAGE}"
        return [
            (r"/providers/([^/]+)(/register)?", self._provider),
            (r"/providers/Microsoft.Compute/skus", self._skus),
            (r"/providers/Microsoft.Compute/locations/([^/]+)/usages", self._usages),
            (
                r"/providers/Microsoft.ContainerService/locations/([^/]+)/kubernetesVersions",
                self._versions,
            ),
            (r"/providers/Microsoft.Storage/checkNameAvailability", self._availability),
            (r"/resourcegroups", self._group_list),
            (group, self._group),
            (f"{group}/resources", self._resources),
            (aks, self._cluster_list),
            (f"{aks}/([^/]+)", self._cluster),
            (f"{aks}/([^/]+)/start", self._start),
            (f"{aks}/([^/]+)/listClusterUserCredential", self._credential),
            (f"{aks}/([^/]+)/agentPools/([^/]+)", self._pool),
            (f"{storage}/([^/]+)", self._account),
            (f"{storage}/([^/]+)/listKeys", self._list_keys),
            (f"{storage}/([^/]+)/(fileServices|blobServices)/default", self._service),
            (f"{storage}/([^/]+)/fileServices/default/shares", self._share_list),
            (f"{storage}/([^/]+)/fileServices/default/shares/([^/]+)", self._share),
            (f"{storage}/([^/]+)/blobServices/default/containers", self._container_list),
            (f"{storage}/([^/]+)/blobServices/default/containers/([^/]+)", self._container),
            (r"/operations/(.+)", self._operation),
        ]

    def _shaped(self, request: Request, path: str, answer: Answer) -> Answer:
        """Hold a request and its answer to the SDK's models."""
        for pattern, sent, model in _SHAPES:
            if not re.fullmatch(pattern, path, re.IGNORECASE):
                continue
            if sent is not None and request.body is not None:
                self.misshapen += unknown_keys(sent, request.body)
            if model is not None and answer.data and answer.status < 300:
                data = answer.data
                items = data["value"] if set(data) == {"value"} else [data]
                for item in items:
                    self.misshapen += unknown_keys(model, item)
        return answer

    # --- the subscription -------------------------------------------------------------------------

    def _provider(self, request: Request, name: str, register: str | None) -> Answer:
        if register:
            self.registered[name] = True
        kinds = {
            "Microsoft.ContainerService": "managedClusters",
            "Microsoft.Storage": "storageAccounts",
        }
        return Answer(
            data={
                "id": f"/subscriptions/{SUBSCRIPTION}/providers/{name}",
                "namespace": name,
                "registrationState": "Registered" if self.registered[name] else "NotRegistered",
                "resourceTypes": [
                    {
                        "resourceType": kinds.get(name, "virtualMachines"),
                        "locations": ["West Europe", "North Europe", "East US"],
                        "apiVersions": ["2026-08-01"],
                    }
                ],
            }
        )

    def _skus(self, request: Request) -> Answer:
        sizes = [
            ("Standard_D4s_v5", "standardDSv5Family", 4, 0, ""),
            ("Standard_D8s_v5", "standardDSv5Family", 8, 0, ""),
            ("Standard_NC24ads_A100_v4", "StandardNCADSA100v4Family", 24, 1, ""),
            (
                "Standard_ND96isr_H100_v5",
                "standardNDSH100v5Family",
                96,
                8,
                "NotAvailableForSubscription",
            ),
        ]
        items = [
            {
                "resourceType": "virtualMachines",
                "name": name,
                "family": family,
                "locations": ["westeurope"],
                "capabilities": [
                    {"name": "vCPUs", "value": str(cores)},
                    *([{"name": "GPUs", "value": str(gpus)}] if gpus else []),
                ],
                "restrictions": [
                    {"type": "Location", "values": ["westeurope"], "reasonCode": reason}
                ]
                if reason
                else [],
            }
            for name, family, cores, gpus, reason in sizes
        ]
        return Answer(data={"value": [{"resourceType": "disks", "name": "Premium_LRS"}, *items]})

    def _usages(self, request: Request, region: str) -> Answer:
        return Answer(
            data={
                "value": [
                    {
                        "unit": "Count",
                        "currentValue": self._used_cores(name),
                        "limit": limit,
                        "name": {"value": name, "localizedValue": _TITLES.get(name, name)},
                    }
                    for name, limit in self.limits.items()
                ]
            }
        )

    def _used_cores(self, family: str) -> int:
        total = 0
        for (_, kind, _), thing in self.things.items():
            if kind == AKS:
                for pool in thing.body["properties"]["agentPoolProfiles"]:
                    size = pool["vmSize"]
                    if family in ("cores", _FAMILIES.get(size)):
                        total += pool["count"] * _CORES.get(size, 0)
        return total

    def _versions(self, request: Request, region: str) -> Answer:
        versions = [
            {"version": "1.34", "patchVersions": {"1.34.2": {"upgrades": []}}},
            {"version": "1.35", "patchVersions": {"1.35.0": {"upgrades": []}}},
        ]
        return Answer(data={"values": versions})

    def _availability(self, request: Request) -> Answer:
        name = request.body["name"]
        has_owner = name in self.foreign_names or any(
            kind == STORAGE and there == name for _, kind, there in self.things
        )
        message = f"The storage account named {name} is already taken."
        reason = {"reason": "AlreadyExists", "message": message} if has_owner else {}
        return Answer(data={"nameAvailable": not has_owner, **reason})

    # --- groups -----------------------------------------------------------------------------------

    def _id(self, group: str, kind: str = "", name: str = "") -> str:
        path = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{group}"
        return f"{path}/providers/{kind}/{name}" if kind else path

    def _group_body(self, name: str, region: str, tags: dict[str, str], state: str) -> Body:
        return {
            "id": self._id(name),
            "name": name,
            "type": "Microsoft.Resources/resourceGroups",
            "location": region,
            "tags": tags,
            "properties": {"provisioningState": state},
        }

    def _group_list(self, request: Request) -> Answer:
        return Answer(data={"value": [thing.body for thing in self.groups.values()]})

    def _group(self, request: Request, name: str) -> Answer:
        thing = self.groups.get(name)
        if request.method == "PUT":
            if thing is not None and thing.body["properties"]["provisioningState"] == "Deleting":
                return error(
                    409,
                    "ResourceGroupBeingDeleted",
                    f"The resource group '{name}' is in deprovisioning state.",
                )
            if thing is not None and thing.body["location"] != request.body["location"]:
                return error(409, "InvalidResourceGroupLocation", f"'{name}' is elsewhere.")
            body = self._group_body(
                name, request.body["location"], request.body.get("tags") or {}, "Succeeded"
            )
            if thing is None:
                self.groups[name] = Thing(body, hidden=self.lag)
                return Answer(201, body)
            thing.body = body
            return Answer(200, body)
        if thing is None or self._is_hidden(thing, request):
            return error(
                404, "ResourceGroupNotFound", f"Resource group '{name}' could not be found."
            )
        if request.method == "DELETE":
            if not thing.is_busy:
                thing.state("Deleting")
                thing.looks_left = self.looks
                thing.then = lambda: self._drop_group(name)
            return self._accepted(name)
        thing.look()
        if name not in self.groups:
            return error(
                404, "ResourceGroupNotFound", f"Resource group '{name}' could not be found."
            )
        return Answer(data=thing.body)

    def _is_hidden(self, thing: Thing, request: Request) -> bool:
        if request.method == "GET" and thing.hidden:
            thing.hidden -= 1
            return True
        if request.method == "GET" and thing in self.groups.values():
            self._looks_at_groups += 1
            return bool(self.flicker) and not self._looks_at_groups % self.flicker
        return False

    def _drop_group(self, name: str) -> None:
        del self.groups[name]
        for key in [key for key in self.things if key[0] == name]:
            self._drop(key)

    def _drop(self, key: tuple[str, str, str]) -> None:
        thing = self.things.pop(key)
        if key[1] == AKS:
            machines = thing.body["properties"]["nodeResourceGroup"]
            if machines in self.groups:  # it takes a little longer
                self.groups[machines].state("Deleting")
                self.groups[machines].looks_left = 1
                self.groups[machines].then = lambda: self._drop_group(machines)
        if key[1] == STORAGE:
            self.shares.pop(key[2], None)
            self.containers.pop(key[2], None)
            self.retention.pop(key[2], None)

    def _accepted(self, name: str) -> Answer:
        url = f"{self.url}/subscriptions/{SUBSCRIPTION}/operations/{name}?api-version=1"
        return Answer(202, None, {"Azure-AsyncOperation": url, "Location": url})

    def _operation(self, request: Request, name: str) -> Answer:
        things = [thing for (_, _, own), thing in self.things.items() if own == name]
        things += [self.groups[name]] if name in self.groups else []
        busy = any(thing.is_busy for thing in things)
        return Answer(data={"status": "InProgress" if busy else "Succeeded"})

    def _resources(self, request: Request, group: str) -> Answer:
        if group not in self.groups:
            return error(
                404, "ResourceGroupNotFound", f"Resource group '{group}' could not be found."
            )
        return Answer(
            data={
                "value": [
                    {
                        **{key: thing.body[key] for key in ("id", "name", "type", "location")},
                        "tags": thing.body.get("tags") or {},
                        "provisioningState": thing.body["properties"]["provisioningState"],
                    }
                    for (home, _, _), thing in self.things.items()
                    if home == group and not thing.hidden and not self.list_lags
                ]
            }
        )

    # --- clusters ---------------------------------------------------------------------------------

    def _find(self, request: Request, key: tuple[str, str, str]) -> Thing | Answer:
        thing = self.things.get(key)
        if thing is None or self._is_hidden(thing, request):
            return error(
                404, "ResourceNotFound", f"The Resource '{key[1]}/{key[2]}' was not found."
            )
        if request.method == "GET":
            thing.look()
            if key not in self.things:
                return error(
                    404, "ResourceNotFound", f"The Resource '{key[1]}/{key[2]}' was not found."
                )
        return thing

    def _no_group(self, group: str) -> Answer | None:
        thing = self.groups.get(group)
        if thing is None:
            return error(
                404, "ResourceGroupNotFound", f"Resource group '{group}' could not be found."
            )
        if thing.body["properties"]["provisioningState"] == "Deleting":
            return error(
                409,
                "ResourceGroupBeingDeleted",
                f"The resource group '{group}' is in deprovisioning state.",
            )
        return None

    def _begin(self, thing: Thing, word: str, name: str) -> None:
        """Begin an operation that ends after some looks, well or as ordered."""
        thing.state(word)
        thing.looks_left = self.looks

        def end() -> None:
            reasons = self.failures.get(name) or []
            reason = reasons.pop(0) if reasons else ""
            thing.state("Failed" if reason else "Succeeded")
            thing.body["properties"].pop("status", None)
            if reason:
                thing.body["properties"]["status"] = {
                    "provisioningError": {"code": "Failed", "message": reason}
                }

        thing.then = end

    def _cluster_list(self, request: Request, group: str) -> Answer:
        items = [
            _public(thing.body)
            for (home, kind, _), thing in self.things.items()
            if (home, kind) == (group, AKS)
        ]
        return Answer(data={"value": items})

    def _cluster(self, request: Request, group: str, name: str) -> Answer:
        key = (group, AKS, name)
        if request.method == "PUT":
            refusal = self._no_group(group)
            if refusal is not None:
                return refusal
            if not self.registered["Microsoft.ContainerService"]:
                return error(409, "MissingSubscriptionRegistration", "not registered")
            return self._put_cluster(request, key)
        thing = self._find(request, key)
        if isinstance(thing, Answer):
            return Answer(204) if request.method == "DELETE" else thing
        if request.method == "PATCH":
            if thing.is_busy:
                return _in_progress(name)
            thing.body["tags"] = request.body["tags"]
            self._begin(thing, "Updating", name)
            return Answer(200, _public(thing.body))
        if request.method == "DELETE":
            thing.state("Deleting")
            thing.looks_left = self.looks
            thing.then = lambda: self._drop(key)
            return self._accepted(name)
        for pool in thing.body["properties"]["agentPoolProfiles"]:
            self._look_pool(pool)
        return Answer(data=_public(thing.body))

    def _put_cluster(self, request: Request, key: tuple[str, str, str]) -> Answer:
        group, _, name = key
        thing = self.things.get(key)
        if thing is not None and thing.is_busy:
            return _in_progress(name)
        body = copy.deepcopy(request.body)
        profiles = body["properties"]["agentPoolProfiles"]
        refusal = self._over_quota(profiles if thing is None else [])
        if refusal is not None:
            return refusal
        machines = f"MC_{group}_{name}_{body['location']}"
        body |= {"id": self._id(group, AKS, name), "name": name, "type": AKS}
        properties = body["properties"]
        version = properties.get("kubernetesVersion") or "1.34"
        properties |= {
            "kubernetesVersion": version,
            "currentKubernetesVersion": "1.34.2" if version == "1.34" else version,
            "nodeResourceGroup": machines,
            "fqdn": f"{properties['dnsPrefix']}-abc.hcp.westeurope.azmk8s.io",
            "powerState": {"code": "Running"},
            "oidcIssuerProfile": {"enabled": True, "issuerURL": "https://oidc.example/"},
        }
        for pool in profiles:
            pool.setdefault("provisioningState", "Succeeded")
            pool.setdefault("powerState", {"code": "Running"})
        is_new = thing is None
        if thing is None:
            thing = self.things[key] = Thing(body, hidden=self.lag)
            self.groups[machines] = Thing(
                self._group_body(machines, body["location"], {}, "Succeeded")
            )
        else:
            thing.body = body
        self._begin(thing, "Creating" if is_new else "Updating", name)
        return Answer(201 if is_new else 200, _public(body))

    def _over_quota(self, profiles: list[Body]) -> Answer | None:
        for profile in profiles:
            size = profile["vmSize"]
            need = profile["count"] * _CORES.get(size, 0)
            for family in (_FAMILIES.get(size, ""), "cores"):
                if family in self.limits and self._used_cores(family) + need > self.limits[family]:
                    return error(
                        400,
                        "ErrCode_InsufficientVCPUQuota",
                        f"Insufficient regional vcpu quota left for {family}.",
                    )
        return None

    def _start(self, request: Request, group: str, name: str) -> Answer:
        thing = self.things[group, AKS, name]
        thing.body["properties"]["powerState"] = {"code": "Running"}
        self._begin(thing, "Starting", name)
        return self._accepted(name)

    def _credential(self, request: Request, group: str, name: str) -> Answer:
        if (group, AKS, name) not in self.things:
            return error(404, "ResourceNotFound", f"The Resource '{AKS}/{name}' was not found.")
        user = f"clusterUser_{group}_{name}"
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": name, "cluster": {"server": f"https://{name}.example:443"}}],
            "users": [{"name": user, "user": {"token": SECRET}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": user}}],
            "current-context": name,
        }
        value = base64.b64encode(json.dumps(config).encode()).decode()
        return Answer(data={"kubeconfigs": [{"name": "clusterUser", "value": value}]})

    def _look_pool(self, pool: Body) -> None:
        looks_left = pool.get("left", 0)
        if looks_left:
            pool["left"] = looks_left - 1
            if looks_left == 1:
                reasons = self.failures.get(pool["name"]) or []
                reason = reasons.pop(0) if reasons else ""
                pool["provisioningState"] = "Failed" if reason else "Succeeded"
                pool.pop("status", None)
                if reason:
                    pool["status"] = {"provisioningError": {"code": "Failed", "message": reason}}
                if pool.pop("goes", False):
                    pool["gone"] = True

    def _pool(self, request: Request, group: str, cluster: str, name: str) -> Answer:
        thing = self.things.get((group, AKS, cluster))
        if thing is None:
            return error(404, "ResourceNotFound", f"The Resource '{cluster}' was not found.")
        profiles = thing.body["properties"]["agentPoolProfiles"]
        profiles[:] = [pool for pool in profiles if not pool.get("gone")]
        there = next((pool for pool in profiles if pool["name"] == name), None)
        if request.method == "GET":
            if there is None:
                return error(404, "NotFound", f"pool {name} not found")
            own = {key: there[key] for key in there if key not in ("name", "left", "goes")}
            return Answer(data={"name": name, "properties": own})
        if thing.is_busy or any(pool.get("left") for pool in profiles):
            return _in_progress(cluster)
        if request.method == "DELETE":
            if there is not None:
                there |= {"provisioningState": "Deleting", "left": self.looks, "goes": True}
            return self._accepted(cluster)
        more = {**request.body["properties"]}
        more["count"] = max(0, more["count"] - (there["count"] if there is not None else 0))
        refusal = self._over_quota([more])
        if refusal is not None:
            return refusal
        body = {"name": name, **request.body["properties"], "left": self.looks}
        body |= {"powerState": {"code": "Running"}}
        body["provisioningState"] = "Creating" if there is None else "Updating"
        if there is None:
            profiles.append(body)
        else:
            there.clear()
            there.update(body)
        own = {key: body[key] for key in body if key not in ("name", "left")}
        return Answer(201, {"name": name, "properties": own})

    # --- storage ----------------------------------------------------------------------------------

    def _account(self, request: Request, group: str, name: str) -> Answer:
        key = (group, STORAGE, name)
        if request.method == "PUT":
            refusal = self._no_group(group)
            if refusal is not None:
                return refusal
            if name in self.foreign_names:
                return error(
                    409,
                    "StorageAccountAlreadyTaken",
                    f"The storage account named {name} is already taken.",
                )
            there = self.things.get(key)
            if there is not None and there.is_busy:
                return error(
                    409,
                    "StorageAccountOperationInProgress",
                    "An operation on this storage account requires exclusive access.",
                )
            body = copy.deepcopy(request.body)
            body["properties"].pop("supportsHttpsTrafficOnly", None)
            body |= {"id": self._id(group, STORAGE, name), "name": name, "type": STORAGE}
            is_new = there is None
            if there is None:
                there = self.things[key] = Thing(body, hidden=self.lag)
                self.shares[name], self.containers[name] = {}, []
                self.retention[name] = {}
            else:
                there.body = body
            self._begin(there, "Creating" if is_new else "ResolvingDNS", name)
            there.body["properties"].pop("status", None)
            return self._accepted(name) if is_new else Answer(200, body)
        thing = self._find(request, key)
        if isinstance(thing, Answer):
            return Answer(204) if request.method == "DELETE" else thing
        if request.method == "DELETE":
            self._drop(key)
            return Answer(200)
        return Answer(data=thing.body)

    def _no_account(self, group: str, name: str) -> Answer | None:
        if (group, STORAGE, name) not in self.things:
            return error(404, "ResourceNotFound", f"The Resource '{STORAGE}/{name}' was not found.")
        return None

    def _list_keys(self, _request: Request, _group: str, name: str) -> Answer:
        if name not in self.keys:
            return error(404, "ResourceNotFound", f"The Resource '{STORAGE}/{name}' was not found.")
        return Answer(data={"keys": [{"keyName": "key1", "value": self.keys[name]}]})

    def _service(self, request: Request, group: str, account: str, service: str) -> Answer:
        refusal = self._no_account(group, account)
        if refusal is not None:
            return refusal
        recoverable = self.retention[account]
        if request.method == "PUT":
            recoverable[service] = request.body["properties"]
        return Answer(data={"name": "default", "properties": recoverable.get(service, {})})

    def _share_list(self, request: Request, group: str, account: str) -> Answer:
        return self._no_account(group, account) or Answer(
            data={
                "value": [
                    {"name": name, "properties": {"shareQuota": quota}}
                    for name, quota in self.shares[account].items()
                ]
            }
        )

    def _share(self, request: Request, group: str, account: str, name: str) -> Answer:
        refusal = self._no_account(group, account)
        if refusal is not None:
            return refusal
        quota = request.body["properties"]["shareQuota"]
        is_new = name not in self.shares[account]
        if request.method == "PATCH" and is_new:
            return error(404, "ShareNotFound", "The specified share does not exist.")
        if request.method == "PATCH" or is_new:
            self.shares[account][name] = quota
        answer = {"name": name, "properties": {"shareQuota": self.shares[account][name]}}
        return Answer(201 if is_new else 200, answer)

    def _container_list(self, request: Request, group: str, account: str) -> Answer:
        return self._no_account(group, account) or Answer(
            data={"value": [{"name": name} for name in self.containers[account]]}
        )

    def _container(self, request: Request, group: str, account: str, name: str) -> Answer:
        refusal = self._no_account(group, account)
        if refusal is not None:
            return refusal
        is_new = name not in self.containers[account]
        if is_new:
            self.containers[account].append(name)
        return Answer(201 if is_new else 200, {"name": name})

    # --- time -------------------------------------------------------------------------------------

    def pass_time(self, hours: float) -> None:
        """Let Azure's clock go on."""
        self.now += timedelta(hours=hours)


READS = ("GET", "HEAD", "POST")
_CORES = {"Standard_D4s_v5": 4, "Standard_D8s_v5": 8, "Standard_NC24ads_A100_v4": 24}
_FAMILIES = {
    "Standard_D4s_v5": "standardDSv5Family",
    "Standard_D8s_v5": "standardDSv5Family",
    "Standard_NC24ads_A100_v4": "StandardNCADSA100v4Family",
}
_TITLES = {
    "cores": "Total Regional vCPUs",
    "standardDSv5Family": "Standard DSv5 Family vCPUs",
    "StandardNCADSA100v4Family": "Standard NCADS_A100_v4 Family vCPUs",
}
_RG = "/resourcegroups/[^/]+"
# Of each path: the model of what is sent, and that of what is answered.
_SHAPES: list[tuple[str, Any, Any]] = [
    (_RG, group_models.ResourceGroup, group_models.ResourceGroup),
    ("/resourcegroups", None, group_models.ResourceGroup),
    (f"{_RG}/resources", None, group_models.GenericResourceExpanded),
    ("/providers/[^/]+", None, group_models.Provider),
    ("/providers/Microsoft.Compute/skus", None, compute_models.ResourceSku),
    (".*/usages", None, compute_models.Usage),
    (".*/kubernetesVersions", None, aks_models.KubernetesVersionListResult),
    (
        ".*/checkNameAvailability",
        storage_models.StorageAccountCheckNameAvailabilityParameters,
        storage_models.CheckNameAvailabilityResult,
    ),
    (f"{_RG}/providers/{AKS}/[^/]+", aks_models.ManagedCluster, aks_models.ManagedCluster),
    (f"{_RG}/providers/{AKS}", None, aks_models.ManagedCluster),
    (f".*/{AKS}/[^/]+/agentPools/[^/]+", aks_models.AgentPool, aks_models.AgentPool),
    (".*/listClusterUserCredential", None, aks_models.CredentialResults),
    (
        f".*/{STORAGE}/[^/]+",
        storage_models.StorageAccountCreateParameters,
        storage_models.StorageAccount,
    ),
    (
        ".*/fileServices/default",
        storage_models.FileServiceProperties,
        storage_models.FileServiceProperties,
    ),
    (
        ".*/blobServices/default",
        storage_models.BlobServiceProperties,
        storage_models.BlobServiceProperties,
    ),
    (".*/shares/[^/]+", storage_models.FileShare, storage_models.FileShare),
    (".*/shares", None, storage_models.FileShareItem),
    (".*/containers/[^/]+", storage_models.BlobContainer, storage_models.BlobContainer),
    (".*/containers", None, storage_models.ListContainerItem),
]


def _action(request: Request) -> str:
    """The action of a request, as roles name it."""
    verb = {"GET": "read", "HEAD": "read", "DELETE": "delete", "POST": "action"}
    word = verb.get(request.method, "write")
    _, _, rest = request.path.rpartition("/providers/")
    parts = rest.split("/") if "/providers/" in request.path else []
    if len(parts) == 1:
        return f"Microsoft.Resources/subscriptions/providers/{word}"
    if not parts:
        return f"Microsoft.Resources/subscriptions/resourceGroups/{word}"
    return f"{parts[0]}/{'/'.join(parts[1::2])}/{word}"


def _in_progress(name: str) -> Answer:
    return error(
        409,
        "OperationNotAllowed",
        f"Operation is not allowed because there's an in progress operation on {name}.",
    )


def _public(body: Body) -> Body:
    """A cluster's body as it is answered: without the fake's own notes."""
    answer = copy.deepcopy(body)
    answer["properties"]["agentPoolProfiles"] = [
        {key: pool[key] for key in pool if key not in ("left", "goes", "gone")}
        for pool in answer["properties"]["agentPoolProfiles"]
        if not pool.get("gone")
    ]
    return answer


def _settled(body: Body) -> Body:
    answer = copy.deepcopy(body)
    if "agentPoolProfiles" in answer["properties"]:
        answer = _public(answer)
    return answer
