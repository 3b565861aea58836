"""Rules about torchrun's own settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks import names
from allranks.values.rules.base import Finding, ValuesRule, View, path
from allranks.values.rules.size import SIZE, size

if TYPE_CHECKING:
    from collections.abc import Iterator

_ETCD = ("etcd", "etcd-v2")
_OWN_CONF = ("is_host", "rank")
# Settings that an Indexed Job has and a StatefulSet does not.
_OF_A_JOB = ("fatalExitCodes", "activeDeadlineSeconds", "ttlSecondsAfterFinished")


def _elastic_backend(view: View) -> Iterator[Finding]:
    if view["torchrun.elastic.maxNodes"] and view["torchrun.rdzvBackend"] == "static":
        yield Finding(
            path("torchrun.rdzvBackend"),
            "static fixes the number of nodes, and torchrun.elastic gives a range",
            "leave it out, which means c10d, or set elastic to 0 and 0",
        )


def _elastic_controller(view: View) -> Iterator[Finding]:
    if view["torchrun.elastic.maxNodes"] and view["torchrun.controller"] == "StatefulSet":
        yield Finding(
            path("torchrun.controller"),
            "a StatefulSet has a fixed number of pods, and torchrun.elastic gives a range",
            "use Job, or set elastic to 0 and 0",
        )


def _endpoint(view: View) -> Iterator[Finding]:
    backend, endpoint = view["torchrun.rdzvBackend"], view["torchrun.rdzvEndpoint"]
    if backend in _ETCD and not endpoint:
        yield Finding(
            path("torchrun.rdzvEndpoint"),
            f"the backend {backend} needs the address of an etcd",
            "write it as host:port, such as etcd.infra:2379",
        )
    elif endpoint and backend not in _ETCD:
        yield Finding(
            path("torchrun.rdzvEndpoint"),
            f"is for the etcd backends; with {backend or 'c10d'} the nodes meet at rank 0",
            "remove it, or set torchrun.rdzvBackend: etcd",
        )


def _conf(view: View) -> Iterator[Finding]:
    for key in view["torchrun.rdzvConf"]:
        if key in _OWN_CONF:
            yield Finding(
                path("torchrun.rdzvConf", key),
                "is reserved: the job sets it for each node",
                "remove it",
            )


def _stateful(view: View) -> Iterator[Finding]:
    if view["torchrun.controller"] != "StatefulSet":
        return
    for key in _OF_A_JOB:
        if view[f"runPolicy.{key}"]:
            yield Finding(
                path("runPolicy", key),
                "is about a Job; a StatefulSet restarts its pods for ever",
                "remove it, or set torchrun.controller: Job",
            )


def _etcd(view: View) -> Iterator[Finding]:
    # torch makes both backends with python-etcd, which knows this API alone.
    if (backend := view["torchrun.rdzvBackend"]) in _ETCD:
        yield Finding(
            path("torchrun.rdzvBackend"),
            f"{backend} needs python-etcd in the image, and the v2 API of an etcd older than 3.6 "
            "(--enable-v2)",
            "use c10d, which needs no etcd",
        )


def _spares(view: View) -> Iterator[Finding]:
    if not view["torchrun.spares"]:
        return
    where, requested = path("torchrun.spares"), size(view)
    if view["torchrun.elastic.maxNodes"]:
        yield Finding(
            where,
            "torchrun.elastic is set too, and goes on without a pod that is lost",
            "leave one of the two out",
        )
    elif requested is not None and requested.nodes == 1:
        yield Finding(
            where,
            "the job has one node, and rank 0's pod is the one that no spare replaces",
            "use nodes: 2 or more, or remove it",
        )
    if (backend := view["torchrun.rdzvBackend"]) not in {"", "c10d"}:
        yield Finding(
            where,
            f"with the rendezvous {backend} no pod can stand by",
            "set torchrun.rdzvBackend: c10d, or remove it",
        )
    if view["torchrun.controller"] == "StatefulSet":
        yield Finding(
            where,
            "each pod of a StatefulSet has a rank of its own",
            "set torchrun.controller: Job, or remove it",
        )
    if view["compat"]:
        yield Finding(
            where,
            "compat is set too, and which pods train is no list of hosts that Slurm's variables "
            "could name",
            "leave one of the two out",
        )
    if view["torchrun.localAddr"]:
        yield Finding(
            path("torchrun.localAddr"),
            "gives all pods one name, and of a job with torchrun.spares nothing could tell which "
            "of them train",
            "remove it",
        )


def _restarts_in_place(view: View) -> Iterator[Finding]:
    if not view["torchrun.restartsInPlace"]:
        return
    if view["torchrun.controller"] == "StatefulSet":
        yield Finding(
            path("torchrun.restartsInPlace"),
            "a StatefulSet starts containers again by itself, without an end",
            "set torchrun.controller: Job, or remove it",
        )
    if names.EXIT_RESTART in (view["runPolicy.fatalExitCodes"] or ()):
        yield Finding(
            path("runPolicy.fatalExitCodes"),
            f"with {names.EXIT_RESTART} the launcher asks for a restart in place "
            "(torchrun.restartsInPlace)",
            "leave it out",
        )


def _local_addr(view: View) -> Iterator[Finding]:
    requested = size(view)
    if view["torchrun.localAddr"] and requested is not None and requested.nodes > 1:
        yield Finding(
            path("torchrun.localAddr"),
            f"gives all {requested.nodes} nodes the same address, "
            "so that they cannot be told apart",
            "leave it out: each node finds its own",
        )


RULES = (
    ValuesRule(
        "elastic-backend",
        "An elastic job has no static rendezvous.",
        ("torchrun.elastic", "torchrun.rdzvBackend"),
        _elastic_backend,
        workload="torchrun",
    ),
    ValuesRule(
        "elastic-controller",
        "An elastic job is an Indexed Job.",
        ("torchrun.elastic", "torchrun.controller"),
        _elastic_controller,
        workload="torchrun",
    ),
    ValuesRule(
        "rdzv-endpoint",
        "`torchrun.rdzvEndpoint` is set with the etcd backends, and only with them.",
        ("torchrun.rdzvBackend", "torchrun.rdzvEndpoint"),
        _endpoint,
        workload="torchrun",
    ),
    ValuesRule(
        "rdzv-conf",
        "`torchrun.rdzvConf` sets neither `is_host` nor `rank`.",
        ("torchrun.rdzvConf",),
        _conf,
        workload="torchrun",
    ),
    ValuesRule(
        "stateful",
        "`fatalExitCodes`, `activeDeadlineSeconds` and `ttlSecondsAfterFinished` need "
        "`torchrun.controller: Job`.",
        ("torchrun.controller", "runPolicy"),
        _stateful,
        workload="torchrun",
    ),
    ValuesRule(
        "spares",
        "`torchrun.spares` is for an Indexed Job with a fixed number of nodes, two or more, that "
        "meet by c10d, without `compat` and `torchrun.localAddr`.",
        (*SIZE, "torchrun", "compat"),
        _spares,
        workload="torchrun",
    ),
    ValuesRule(
        "restarts-in-place",
        "`torchrun.restartsInPlace` is for an Indexed Job, and its exit code is none of "
        "`runPolicy.fatalExitCodes`.",
        ("torchrun.restartsInPlace", "torchrun.controller", "runPolicy.fatalExitCodes"),
        _restarts_in_place,
        workload="torchrun",
    ),
    ValuesRule(
        "local-addr",
        "`torchrun.localAddr` is one address for every node of a job.",
        (*SIZE, "torchrun.localAddr"),
        _local_addr,
        warning=True,
        workload="torchrun",
    ),
    ValuesRule(
        "etcd",
        "The backends `etcd` and `etcd-v2` need the v2 API, which etcd 3.6 dropped.",
        ("torchrun.rdzvBackend",),
        _etcd,
        warning=True,
        workload="torchrun",
    ),
)
