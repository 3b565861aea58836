"""Fields of pod templates that no pod has are in no values, and in the report."""

from __future__ import annotations

import pytest

from tests.converted import text_as_jobs

_MPIJOB = """\
apiVersion: kubeflow.org/v1alpha2
kind: MPIJob
metadata: {name: a}
spec:
  mpiReplicaSpecs:
    Launcher:
      template: {spec: {containers: [{name: c, image: i, command: [mpirun, ./a]}]}}
    Worker:
      replicas: 2
      template:
        spec:
          containers: [CONTAINER]
          volumes: [VOLUME]
          tolerations: [{key: a, operator: Exists, seconds: 3}]
"""
_CONTAINER = "{name: c, image: i}"
_VOLUME = "{name: data, hostPath: {path: /data}}"


@pytest.mark.parametrize(
    ("old", "new", "paths"),
    [
        ("VOLUME", "{name: data, hostPath: {path: /data, readOnly: true}}", ["readOnly"]),
        ("VOLUME", "{name: data, emptyDir: {path: /a}}", ["path"]),
        ("CONTAINER", "{name: c, image: i, resource: {limits: {cpu: 1}}}", ["cpu"]),
        ("CONTAINER", "{name: c, image: i, env: [{name: A, val: b}]}", ["val"]),
        ("CONTAINER", "{name: c, image: i, securityContext: {runAsUser: 1}}", []),
    ],
)
def test_a_field_that_no_pod_has_is_said(old: str, new: str, paths: list[str]) -> None:
    """The operator dropped it as it read the job, and the API server refuses a pod with it."""
    text = _MPIJOB.replace(old, new).replace("CONTAINER", _CONTAINER).replace("VOLUME", _VOLUME)
    [conversion] = text_as_jobs(text).conversions
    unknown = [own for own in conversion.lost if "a pod has no such field" in own.why]
    assert [own.path.rpartition(".")[2] for own in unknown] == [*paths, "seconds"]
    assert "seconds" not in repr(conversion.values)
    assert "readOnly" not in repr(conversion.values)


def test_a_field_of_a_map_is_nobodys_to_know() -> None:
    """Labels, selectors and resources have any key."""
    own = "{name: c, image: i, resources: {limits: {example.com/fpga: 1}}}"
    text = _MPIJOB.replace("CONTAINER", own).replace("VOLUME", _VOLUME)
    text = text.replace(
        "          volumes:", "          nodeSelector: {a/b: c}\n          volumes:"
    )
    [conversion] = text_as_jobs(text).conversions
    assert [own.path.rpartition(".")[2] for own in conversion.lost] == ["seconds"]
