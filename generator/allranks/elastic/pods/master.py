"""The pod of a job's master: ours, or one that the job brings.

Ours is under Pod Security "restricted" whatever the namespace enforces. A master that is given runs
as its template says; one that says no command gets DLRover's, told to write plans (`--platform
k8s`): by its own default it would create the pods itself.

Where a job says nothing of its master's pod, that may run where the job's other pods may: on a
cluster whose nodes are all tainted it would wait for ever otherwise.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.elastic.pods import env, labels, naming, templates
from allranks.status.fields import items, mapping, text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allranks.elastic.job import ElasticJob
    from allranks.model.manifest import Manifest

_OWN_SMALL = {"cpu": "50m", "memory": "96Mi"}
_TERMINATION_LOG = "/dev/termination-log"  # where a container has none of its own
_GIVEN_SMALL = {"cpu": "1", "memory": "2Gi"}
_WHERE = (
    "schedulerName",
    "priorityClassName",
    "nodeSelector",
    "tolerations",
    "imagePullSecrets",
)
# Annotations of a job that are options of DLRover's master.
_OPTIONS = (
    "pending_timeout",
    "pending_fail_strategy",
    "service_type",
    "pre_check_ops",
    "pre_check_bypass",
    "training_elastic_mode",
    "enable_dashboard",
    "dashboard_port",
)
_LOCKED: Mapping[str, Any] = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
}


def master(
    job: ElasticJob, attempt: int, image: str = "", account: str = names.MASTER_ACCOUNT
) -> Manifest:
    """The pod of a job's master.

    Args:
        job: the job.
        attempt: how many masters it has had.
        image: of our master, where the job's template names none.
        account: of our master, where the job's template names none.
    """
    spec = job.replicas.get(names.EDL_MASTER)
    template = mapping(spec.template if spec is not None else None)
    said = mapping(template, "spec") or _beside(job)
    made = _own if job.master == "own" else _given
    own = labels.of_pod(job, names.EDL_MASTER, number=attempt, rank=0, relaunches=attempt)
    name = naming.master_name(job.name, attempt)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": labels.metadata(job, name, own, mapping(template, "metadata")),
        "spec": made(job, said, image, account),
    }


def token(job: ElasticJob) -> Manifest:
    """The Secret with what the job's pods show to its master, without the token itself."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": labels.metadata(job, naming.token_name(job), labels.common(job)),
        "type": "Opaque",
        "immutable": True,
    }


def _beside(job: ElasticJob) -> Manifest:
    """Where a job's pods may run; what places them by each other is not for the first of them."""
    found = (templates.template_of(job, kind) for kind in job.trainers)
    trainer = next((mapping(one, "spec") for one in found if one is not None), {})
    where = {key: trainer[key] for key in _WHERE if trainer.get(key)}
    near = mapping(trainer, "affinity", "nodeAffinity")
    return {**where, "affinity": {"nodeAffinity": near}} if near else where


def _own(job: ElasticJob, said: Mapping[str, Any], image: str, account: str) -> Manifest:
    spec = templates.filled({"serviceAccountName": account, **said})
    spec.setdefault("automountServiceAccountToken", True)
    spec["securityContext"] = {"runAsNonRoot": True, **spec["securityContext"]}
    container = _main(said)
    container = {
        "image": image,
        "command": [names.MASTER_PROGRAM],
        "ports": [{"name": "master", "containerPort": naming.MASTER_PORT, "protocol": "TCP"}],
        "readinessProbe": {
            "httpGet": {"path": "/healthz", "port": naming.MASTER_PORT},
            "periodSeconds": 2,
        },
        "terminationMessagePolicy": "FallbackToLogsOnError",
        **container,
        "securityContext": {**_LOCKED, **mapping(container, "securityContext")},
    }
    told = (
        (names.ENV_NAMESPACE, job.namespace),
        (names.ENV_JOB, job.name),
        (names.ENV_MASTER_PORT, str(naming.MASTER_PORT)),
        (names.ENV_TERMINATION_LOG, text(container, "terminationMessagePath") or _TERMINATION_LOG),
    )
    return _with(job, spec, container, [*env.token(job), *env.plain(told)], _OWN_SMALL)


def _given(job: ElasticJob, said: Mapping[str, Any], *_: str) -> Manifest:
    # Its rights are those of the account that its template names.
    spec = templates.filled({"automountServiceAccountToken": True, **said})
    container = _main(said)
    if not (container.get("command") or container.get("args")):
        container["command"] = ["/bin/bash", "-c", _command(job)]
    return _with(job, spec, container, [], _GIVEN_SMALL)


def _command(job: ElasticJob) -> str:
    words = ["python", "-m", "dlrover.python.master.main", "--platform", "k8s"]
    words += ["--namespace", job.namespace, "--job_name", job.name]
    words += ["--port", str(naming.MASTER_PORT)]
    for option in _OPTIONS:
        value = job.annotations.get(option)
        if value:
            words += [f"--{option}", value]
    return env.literal(shlex.join(words))


def _main(said: Mapping[str, Any]) -> Manifest:
    """The master's own container, as its template says."""
    found = items(said, "containers")
    container = dict(found[templates.main_index(found)]) if found else {}
    if not text(container, "image"):
        container.pop("image", None)
    return {"name": "main", **container}


def _with(
    job: ElasticJob,
    spec: Manifest,
    container: Manifest,
    told: list[Manifest],
    small: Mapping[str, str],
) -> Manifest:
    """A PodSpec with the master's container in its place among the others."""
    found = items(spec, "containers") or [container]
    main = templates.main_index(found)
    found = [container if index == main else one for index, one in enumerate(found)]
    said = items(container, "env")
    told = env.merged([*env.addresses(), *told], env.given(job), said)
    return {**spec, "containers": templates.containers(found, told, None, small)}
