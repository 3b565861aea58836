"""Scripts of all pods of a template, of which the first pod's alone calls mpirun."""

from __future__ import annotations

from typing import Any

import pytest

from allranks.convert import original
from allranks.convert.pods import first_pods
from allranks.convert.reports import compare
from tests.converted import documents, lost, refusal, text_as_jobs

JOB = """\
apiVersion: batch/v1
kind: Job
metadata: {name: m}
spec:
  completions: 3
  parallelism: 3
  completionMode: Indexed
  template:
    spec:
      subdomain: m
      restartPolicy: Never
      containers:
      - name: c
        image: mpi
        resources: {limits: {RESOURCE: 4}}
        command:
        - bash
        - -c
        - |
          LINES
"""
RUN = "mpirun -np 12 -H m-0.m:4,m-1.m:4,m-2.m:4 python t.py"
CHOICES = {
    "if": 'if [ "$JOB_COMPLETION_INDEX" = 0 ]; then\n  RUN\nelse\n  /usr/sbin/sshd -D\nfi',
    "not first": "if [[ ${JOB_COMPLETION_INDEX} -ne 0 ]]; then\n  exec sshd -De\nfi\nRUN",
    "assigned": "I=${HOSTNAME##*-}\nif (( I == 0 )); then\nRUN\nelse\nsleep infinity\nfi",
    "host": 'if [ "$(hostname)" == "m-0" ]; then\nRUN\nexit 0\nfi\n/usr/sbin/sshd -D',
    "pattern": "if [[ $HOSTNAME == *-0 ]]; then\nRUN\nelse\ntail -f /dev/null\nfi",
}


def job(lines: str, resource: str = "nvidia.com/gpu") -> str:
    """An Indexed Job of three pods."""
    return JOB.replace("RESOURCE", resource).replace("LINES", lines.replace("\n", "\n          "))


@pytest.mark.parametrize("choice", CHOICES)
def test_the_first_pod_is_the_launcher_and_the_others_are_its_workers(choice: str) -> None:
    """However the script asks for it; the list of its pods is the chart's own host file."""
    conversion = text_as_jobs(job(CHOICES[choice].replace("RUN", RUN))).conversions[0]
    values = conversion.values
    assert set() == lost(conversion)
    assert ("mpi", 4) == (values["workload"], values["gpusPerNode"])
    assert (True, 2) == (values["mpi"]["runLauncherAsWorker"], values["mpi"]["numWorkers"])
    assert "mpirun -np 12 python t.py" in values["command"][-1]
    assert "-H" not in values["command"][-1]


def test_what_all_pods_do_before_is_done_by_all() -> None:
    """The launcher in its command, the workers in their setup."""
    text = job(
        "pip install mpi4py\n" + CHOICES["not first"].replace("RUN", "mpirun -np 6 ./pi"), "cpu"
    )
    values = text_as_jobs(text).conversions[0].values
    assert "pip install mpi4py" in values["command"][-1]
    assert "pip install mpi4py" in values["setup"]
    assert 2 == values["mpi"]["slotsPerWorker"]


def test_the_pods_are_compared_by_their_parts() -> None:
    """A release with a launcher and two workers runs what the three pods ran."""
    (document,) = documents(job(CHOICES["if"].replace("RUN", RUN)))
    pods = original.pods(document.data) or []
    assert ["launcher", "worker", "worker"] == [pod.role for pod in pods]
    assert [True, False, False] == ["mpirun" in str(pod.spec) for pod in pods]

    def release(role: str, count: int, args: list[str]) -> dict[str, Any]:
        limits = {"nvidia.com/gpu": 4}
        container = {
            "name": "trainer",
            "image": "mpi",
            "args": args,
            "resources": {"limits": limits},
        }
        template = {
            "metadata": {"labels": {"allranks.dev/role": role}},
            "spec": {"containers": [container]},
        }
        return {"kind": "Job", "spec": {"completions": count, "template": template}}

    launcher = release("launcher", 1, ["bash", "-c", "mpirun -np 12 python t.py"])
    assert [] == compare.differences(pods, [launcher, release("worker", 2, [])])


@pytest.mark.parametrize(
    "lines",
    [
        "RUN",  # all pods call it
        'if [ "$ANSWER" = 0 ]; then\nRUN\nelse\nsshd -D\nfi',  # nothing says what that is
        'if [ "$JOB_COMPLETION_INDEX" = 1 ]; then\nRUN\nelse\nsshd -D\nfi',  # another pod
        'if [ "$JOB_COMPLETION_INDEX" = 0 ]; then\nRUN\nelif true; then\nsshd -D\nfi',
        'if [ "$JOB_COMPLETION_INDEX" = 0 ]; then\nRUN\nelse\nmpirun ./b\nfi',
    ],
)
def test_pods_of_which_none_is_the_launcher_are_refused(lines: str) -> None:
    """With what to write in their place."""
    problem = refusal(job(lines.replace("RUN", RUN)))
    assert "not said which of them is the launcher" in problem.message
    assert "one MPIJob" in problem.hint


def test_a_variable_may_have_the_number_of_the_pod() -> None:
    """As Kubernetes labels each pod with it."""
    words = ["sh", "-c", 'if [ "$N" = 0 ]; then mpirun ./a; else sshd -D; fi']
    assert first_pods.split(words) is None
    path = "metadata.labels['apps.kubernetes.io/pod-index']"
    container = {"env": [{"name": "N", "valueFrom": {"fieldRef": {"fieldPath": path}}}]}
    parts = first_pods.split(words, first_pods.index_variables(container))
    assert (("sh", "-c", "mpirun ./a;"), ("sh", "-c", "sshd -D")) == parts


def test_a_container_that_is_no_mapping_is_refused() -> None:
    """Also in front of the one whose script has the first pod's part."""
    text = job(CHOICES["if"].replace("RUN", RUN))
    assert refusal(text.replace("      containers:\n", "      containers:\n      - true\n")).message
