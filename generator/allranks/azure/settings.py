"""azure.yaml: read, laid over its defaults, and checked before anything is asked or made.

The defaults are the file that `allranks azure init` prints, and stand nowhere else.
"""

from __future__ import annotations

import functools
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from allranks.azure import naming
from allranks.errors import InputError, InvalidValues, Problem
from allranks.schema import paths
from allranks.schema.validate import find_with, in_file_order
from allranks.schema.validator import engine_of_file
from allranks.values import files
from allranks.values.merge import overlay
from allranks.yamlio.dump import dump
from allranks.yamlio.load import load as load_yaml

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from allranks.schema.paths import ValuesPath

FILE = "azure.yaml"
SCHEMA = "azure.schema.yaml"
ENV_SUBSCRIPTION = "AZURE_SUBSCRIPTION_ID"
_PREMIUM_MIN = 100  # GiB of a share
_ID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_STARTER = Path(__file__).with_name(FILE)


@dataclass(frozen=True, slots=True)
class SystemPool:
    """The node pool of Kubernetes' own pods.

    Attributes:
        name: its name.
        vm_size: the size of its machines.
        nodes: how many there are, always.
    """

    name: str
    vm_size: str
    nodes: int


@dataclass(frozen=True, slots=True)
class Pool:
    """A node pool for training.

    Attributes:
        name: its name.
        vm_size: the size of its machines.
        min_nodes: how many there are at least.
        max_nodes: how many at most.
        spot: whether they may be taken away.
        gpu_driver: whether AKS installs the driver of GPUs; where there are none, nothing.
        labels: of its nodes.
        taints: of its nodes, ``key=value:Effect``.
    """

    name: str
    vm_size: str
    min_nodes: int = 0
    max_nodes: int = 1
    spot: bool = False
    gpu_driver: bool = True
    labels: tuple[tuple[str, str], ...] = ()
    taints: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FileShare:
    """A file share.

    Attributes:
        name: its name.
        quota: GiB.
    """

    name: str
    quota: int


@dataclass(frozen=True, slots=True)
class Subscription:
    """Whose Azure is asked, and by whom.

    Attributes:
        id: of the subscription.
        cloud: which Azure: public, usGovernment or china.
        login: how to log in.
    """

    id: str
    cloud: str = "public"
    login: str = "auto"


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of an azure.yaml, with every name filled in.

    Attributes:
        name: what the whole is called.
        subscription: its id.
        region: where.
        cloud: which Azure: public, usGovernment or china.
        login: how to log in.
        max_hours: how long it may live; 0 for ever.
        group: the resource group.
        tags: a person's own.
        cluster: the AKS cluster's name.
        dns_prefix: of its API server.
        kubernetes: the version; "" for AKS's own choice.
        tier: what is paid for the control plane.
        system: the pool of Kubernetes' own pods.
        pools: the pools that train.
        account: the storage account.
        sku: its kind.
        soft_delete_days: for how long what was removed can be had back.
        shares: its file shares.
        containers: its blob containers.
        source: the file's name, for messages.
    """

    name: str
    subscription: str
    region: str
    cloud: str
    login: str
    max_hours: int
    group: str
    tags: tuple[tuple[str, str], ...]
    cluster: str
    dns_prefix: str
    kubernetes: str
    tier: str
    system: SystemPool
    pools: tuple[Pool, ...]
    account: str
    sku: str
    soft_delete_days: int
    shares: tuple[FileShare, ...]
    containers: tuple[str, ...]
    source: str = FILE

    @property
    def where(self) -> Subscription:
        """Whose Azure is asked."""
        return Subscription(self.subscription, self.cloud, self.login)


def subscription(explicit: str, cloud: str, login: str) -> Subscription:
    """Whose Azure is asked, where no azure.yaml is.

    Args:
        explicit: the id that the person has named; "" takes that of the environment.
        cloud: which Azure.
        login: how to log in.

    Raises:
        InputError: none is named, or it is no id.
    """
    text = (explicit or os.environ.get(ENV_SUBSCRIPTION, "")).strip().lower()
    if not text:
        raise InputError(
            "no subscription is named",
            hint=f"name it with --subscription, set {ENV_SUBSCRIPTION}, or name a file with -f",
        )
    if not _ID.fullmatch(text):
        raise InvalidValues([_no_id(text)])
    return Subscription(text, cloud, login)


def starter(name: str = "", subscription: str = "", region: str = "") -> str:
    """The commented azure.yaml to start from.

    Args:
        name: what the whole is called; "" leaves it to the person.
        subscription: the id; "" likewise.
        region: where; "" is the default.
    """
    text = _STARTER.read_text("utf-8")
    for key, value in (("name", name), ("subscription", subscription), ("region", region)):
        if value:
            line = dump({key: value}).rstrip()  # in quotes where it would be no string
            text = re.sub(rf"(?m)^{key}: .*$", line.replace("\\", "\\\\"), text, count=1)
    return text


def check_starter(name: str, subscription: str, region: str) -> None:
    """Refuse what cannot stand in an azure.yaml, before one is printed.

    Args:
        name: as of `starter`; so are the others.
        subscription: see there.
        region: see there.

    Raises:
        InvalidValues: Azure forbids the name, the id is none, or the region cannot be one.
    """
    problems = [*naming.CLUSTER.check(name, "--name")] if name else []
    if subscription and not _ID.fullmatch(subscription.lower()):
        problems.append(_no_id(subscription))
    if region and not re.fullmatch("[a-z0-9]+", normal_region(region)):
        message = f"{region!r} is no region, which has letters and digits"
        problems.append(Problem("--region", message, "write westeurope, eastus, …"))
    if problems:
        raise InvalidValues(problems)


def _no_id(text: str) -> Problem:
    return Problem(
        "--subscription",
        f"{text!r} is not the id of a subscription",
        "`az account list` shows the ids: 00000000-0000-0000-0000-000000000000",
    )


def load(name: str) -> Settings:
    """Read an azure.yaml.

    Args:
        name: the file; ``-`` is standard input.

    Raises:
        InvalidValues: it is wrong; every problem is in it.
        InputError: it cannot be read.
    """
    try:
        data = files.read(name)
    except InputError as error:
        if name == FILE and not Path(FILE).exists():
            raise InputError(
                f"there is no {FILE} in this folder",
                hint=f"allranks azure init > {FILE}, or name a file with -f",
            ) from error
        raise
    source = "stdin" if name.strip() == files.STDIN else name
    if not data.strip():
        hint = f"allranks azure init > {FILE} prints one to start from"
        raise InputError("the file is empty", hint=hint, source=source)
    document = load_yaml(data, source)
    values = overlay(_defaults(), document.data)

    def token(path: ValuesPath, _: Any) -> str:
        return document.token(path) or ""

    problems = find_with(engine_of_file(SCHEMA), values, document.where, token)
    if not problems:
        problems = [
            (path, Problem(problem.path, problem.message, problem.hint, document.where(path)))
            for path, problem in _rules(_filled(values, os.environ))
        ]
    if problems:
        raise InvalidValues([problem for _, problem in in_file_order(values, problems)])
    return _settings(_filled(values, os.environ), document.source)


@functools.cache
def _defaults() -> dict[str, Any]:
    return load_yaml(_STARTER.read_bytes(), FILE).data


def _filled(values: Mapping[str, Any], env: Mapping[str, str]) -> dict[str, Any]:
    """The values with the names that follow from others."""
    filled: dict[str, Any] = overlay(values, {})
    name = filled["name"]
    filled["subscription"] = filled["subscription"] or env.get(ENV_SUBSCRIPTION, "").strip()
    filled["resourceGroup"] = filled["resourceGroup"] or (f"allranks-{name}" if name else "")
    cluster, storage = filled["cluster"], filled["storage"]
    cluster["name"] = cluster["name"] or name
    cluster["dnsPrefix"] = cluster["dnsPrefix"] or re.sub(r"[^A-Za-z0-9-]", "-", cluster["name"])[
        : naming.DNS_PREFIX.most
    ].strip("-")
    storage["account"] = storage["account"] or (
        naming.account_name(name, filled["subscription"], filled["resourceGroup"]) if name else ""
    )
    return filled


def _rules(values: Mapping[str, Any]) -> Iterator[tuple[ValuesPath, Problem]]:
    """The problems with settings: what Azure forbids, and what contradicts itself."""
    cluster, storage = values["cluster"], values["storage"]
    of_name = [*naming.CLUSTER.check(values["name"], "name")]
    if of_name:  # most other names follow from it
        for problem in of_name:
            yield ("name",), problem
        return
    if not values["subscription"]:
        hint = f"write its id (`az account list` shows them), or set {ENV_SUBSCRIPTION}"
        yield ("subscription",), Problem("subscription", "names no subscription", hint)
    elif not _ID.fullmatch(values["subscription"].lower()):
        message = (
            f"{values['subscription']!r} of {ENV_SUBSCRIPTION} is not the id of a subscription"
        )
        hint = f"mend {ENV_SUBSCRIPTION}, or write the id here"
        yield ("subscription",), Problem("subscription", message, hint)
    group = values["resourceGroup"]
    for path, problems in (
        (("resourceGroup",), naming.GROUP.check(group, "resourceGroup")),
        (("tags",), naming.check_tags(values["tags"], "tags")),
        (("cluster", "name"), naming.CLUSTER.check(cluster["name"], "cluster.name")),
        (
            ("cluster", "dnsPrefix"),
            naming.DNS_PREFIX.check(cluster["dnsPrefix"], "cluster.dnsPrefix"),
        ),
        (
            ("resourceGroup",),
            naming.check_node_group(group, cluster["name"], values["region"], "resourceGroup"),
        ),
        (("storage", "account"), naming.ACCOUNT.check(storage["account"], "storage.account")),
    ):
        for problem in problems:
            yield path, problem
    yield from _rules_of_pools(values)
    yield from _rules_of_storage(storage)


def _rules_of_pools(values: Mapping[str, Any]) -> Iterator[tuple[ValuesPath, Problem]]:
    system = values["cluster"]["systemPool"]
    path: ValuesPath = ("cluster", "systemPool", "name")
    for problem in naming.POOL.check(system["name"], paths.show(path)):
        yield path, problem
    before = {system["name"]: "cluster.systemPool"}
    for index, pool in enumerate(values["pools"]):
        path = ("pools", index)
        where = paths.show(path)
        for problem in naming.POOL.check(pool["name"], f"{where}.name"):
            yield (*path, "name"), problem
        if pool["name"] in before:
            yield (
                (*path, "name"),
                Problem(
                    f"{where}.name",
                    f"{pool['name']!r} is the name of {before[pool['name']]} already",
                    "give each pool a name of its own",
                ),
            )
        before[pool["name"]] = where
        if pool.get("os") == "Windows":
            yield (
                (*path, "os"),
                Problem(
                    f"{where}.os",
                    "is Windows, on which no training runs",
                    "write Linux, or remove the key",
                ),
            )
        if pool.get("minNodes", 0) > pool["maxNodes"]:
            yield (
                (*path, "minNodes"),
                Problem(
                    f"{where}.minNodes",
                    f"is {pool['minNodes']}, more than maxNodes, which is {pool['maxNodes']}",
                    f"write {pool['maxNodes']} at most; 0 costs nothing while nothing runs",
                ),
            )
        for problem in naming.check_labels(pool.get("labels", {}), f"{where}.labels"):
            yield (*path, "labels"), problem
        for at, taint in enumerate(pool.get("taints", ())):
            for problem in naming.check_taint(taint, f"{where}.taints[{at}]"):
                yield (*path, "taints", at), problem


def _rules_of_storage(storage: Mapping[str, Any]) -> Iterator[tuple[ValuesPath, Problem]]:
    rooms = (
        ("shares", [share["name"] for share in storage["shares"]], naming.SHARE),
        ("containers", storage["containers"], naming.CONTAINER),
    )
    for key, items, rule in rooms:
        for index, name in enumerate(items):
            path: ValuesPath = ("storage", key, index)
            for problem in rule.check(name, paths.show(path)):
                yield path, problem
            if name in items[:index]:
                yield path, Problem(paths.show(path), f"{name!r} stands here twice", "remove one")
    if storage["sku"].startswith("Premium") and storage["containers"]:
        yield (
            ("storage", "containers"),
            Problem(
                "storage.containers",
                f"an account of {storage['sku']} has file shares alone",
                "write containers: [], or sku: Standard_LRS",
            ),
        )
    for index, share in enumerate(storage["shares"]):
        if storage["sku"].startswith("Premium") and share["quotaGiB"] < _PREMIUM_MIN:
            path = ("storage", "shares", index, "quotaGiB")
            yield (
                path,
                Problem(
                    paths.show(path),
                    f"is {share['quotaGiB']}, and a premium share has at least {_PREMIUM_MIN} GiB",
                    f"write {_PREMIUM_MIN}",
                ),
            )


def _settings(values: Mapping[str, Any], source: str) -> Settings:
    cluster, storage = values["cluster"], values["storage"]
    system = cluster["systemPool"]
    return Settings(
        name=values["name"],
        subscription=values["subscription"].lower(),
        region=normal_region(values["region"]),
        cloud=values["cloud"],
        login=values["login"],
        max_hours=values["maxHours"],
        group=values["resourceGroup"],
        tags=tuple(sorted(values["tags"].items())),
        cluster=cluster["name"],
        dns_prefix=cluster["dnsPrefix"],
        kubernetes=cluster["kubernetesVersion"],
        tier=cluster["tier"],
        system=SystemPool(system["name"], system["vmSize"], system["nodes"]),
        pools=tuple(
            Pool(
                name=pool["name"],
                vm_size=pool["vmSize"],
                min_nodes=pool.get("minNodes", 0),
                max_nodes=pool["maxNodes"],
                spot=pool.get("spot", False),
                gpu_driver=pool.get("gpuDriver", "install") == "install",
                labels=tuple(sorted(pool.get("labels", {}).items())),
                taints=tuple(pool.get("taints", ())),
            )
            for pool in values["pools"]
        ),
        account=storage["account"],
        sku=storage["sku"],
        soft_delete_days=storage["softDeleteDays"],
        shares=tuple(FileShare(share["name"], share["quotaGiB"]) for share in storage["shares"]),
        containers=tuple(storage["containers"]),
        source=source,
    )


def normal_region(name: str) -> str:
    """A region as its requests have it: ``West Europe`` is ``westeurope``."""
    return re.sub(r"\s", "", name).lower()
