"""What programs in pods ask of their cluster: tokens of the API server, and Services."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.converted import text_as_jobs

if TYPE_CHECKING:
    from allranks.convert.verdicts import Conversion

_CONFIG_MAP = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "s"},
    "data": {"run.sh": "TEXT"},
}


def _convert(
    words: str, script: str = "", container: dict[str, Any] | None = None, **pod: Any
) -> Conversion:
    """A job of one container that runs some shell, and has a script of a ConfigMap mounted."""
    own = {"name": "pytorch", "image": "i", "command": ["bash", "-c", words], **(container or {})}
    own["volumeMounts"] = [{"name": "s", "mountPath": "/s"}]
    spec = {"containers": [own], "volumes": [{"name": "s", "configMap": {"name": "s"}}], **pod}
    job = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "j"},
        "spec": {"pytorchReplicaSpecs": {"Worker": {"template": {"spec": spec}}}},
    }
    config_map = {**_CONFIG_MAP, "data": {"run.sh": script}}
    text = "\n---\n".join(map(json.dumps, (config_map, job)))
    return text_as_jobs(text).conversions[0]


@pytest.mark.parametrize(
    ("words", "has_token"),
    [
        ("kubectl get pods; torchrun a.py", True),
        ("curl https://kubernetes.default.svc/api; torchrun a.py", True),
        ("cat /var/run/secrets/kubernetes.io/serviceaccount/token; torchrun a.py", True),
        ("kubectl version --client; torchrun a.py", False),
        ("# kubectl get pods\ntorchrun a.py", False),
        ("torchrun a.py --tool kubectl-like", False),
    ],
)
def test_pods_that_ask_the_api_server_have_a_token(words: str, *, has_token: bool) -> None:
    """Also of the default account, which the charts give to no pod by themselves."""
    for extra in ({}, {"serviceAccountName": "default"}, {"automountServiceAccountToken": False}):
        conversion = _convert(words, **extra)
        account = conversion.values.get("serviceAccount", {})
        has_choice = "automountServiceAccountToken" in extra
        assert (has_token and not has_choice) is account.get("automountToken", False)
        assert not conversion.lost


def test_a_script_or_an_image_that_asks_the_api_server_is_named() -> None:
    """A ConfigMap's script asks as the words do, and so does an image of kubectl."""
    of_script = _convert("torchrun a.py", "kubectl get pods")
    wait = {"name": "wait", "image": "bitnami/kubectl:1.30", "args": ["wait", "pod/a"]}
    of_image = _convert("torchrun a.py", initContainers=[wait])
    for conversion, reader in (
        (of_script, "/s/run.sh of ConfigMap s"),
        (of_image, "a command of the pods"),
    ):
        assert {"automountToken": True} == conversion.values["serviceAccount"]
        [note] = [note for note in conversion.notes if "asks the API server" in note]
        assert note.startswith(reader)


@pytest.mark.parametrize(
    ("words", "variable"),
    [
        ("torchrun a.py --host $REDIS_SERVICE_HOST", "REDIS_SERVICE_HOST"),
        ("torchrun a.py --port ${REDIS_SERVICE_PORT}", "REDIS_SERVICE_PORT"),
        ("REDIS_SERVICE_HOST=a; torchrun a.py --host $REDIS_SERVICE_HOST", ""),
        ("torchrun a.py --host $OWN_SERVICE_HOST", ""),
        ("torchrun a.py # $REDIS_SERVICE_HOST", ""),
    ],
)
def test_pods_that_read_the_variables_of_a_service_have_them(words: str, variable: str) -> None:
    """The charts give them to no pod by themselves; one that its container sets is not theirs."""
    own = {"env": [{"name": "OWN_SERVICE_HOST", "value": "a"}]}
    conversion = _convert(words, container=own)
    links = conversion.values.get("podTemplate", {}).get("spec", {}).get("enableServiceLinks")
    assert (True if variable else None) == links
    notes = [note for note in conversion.notes if "the variables of Services" in note]
    assert [f"a command of the pods reads {variable}"] * bool(variable) == [
        note.partition(":")[0] for note in notes
    ]
    refused = _convert(words, container=own, enableServiceLinks=False)
    assert refused.values["podTemplate"]["spec"]["enableServiceLinks"] is False


def test_a_variable_of_a_service_may_stand_in_another_or_in_a_script() -> None:
    """Kubernetes puts it into a variable's text, and a ConfigMap's script reads it."""
    entry = {"name": "HOST", "value": "$(REDIS_SERVICE_HOST)"}
    for conversion in (
        _convert("torchrun a.py", container={"env": [entry]}),
        _convert("torchrun a.py", "echo $REDIS_SERVICE_HOST"),
    ):
        assert conversion.values["podTemplate"]["spec"]["enableServiceLinks"] is True
        assert not conversion.lost
