"""Every rule of a pod's life, with real processes; it is long because the rules are many."""

from __future__ import annotations

import signal
import sys
import textwrap
from typing import TYPE_CHECKING, Any

import pytest

from allranks.errors import InputError, MissingToolError
from allranks.model.status import Phase, PodPhase

from .conftest import claim_volume, container, job, until

if TYPE_CHECKING:
    from .conftest import Machine

pytestmark = [pytest.mark.local, pytest.mark.timeout(600)]

# Ends well at its second try, counted in a claim.
_SECOND_TRY = "echo try >> /notes/tries; test $(wc -l < /notes/tries) -ge 2"


def test_all_completions_run(machine: Machine) -> None:
    """Each index runs once, knows its index, and the run succeeds with exit code 0."""
    outcome = machine.run(job("run", container("echo index $JOB_COMPLETION_INDEX"), nodes=3))
    assert ["index 0", "index 1", "index 2"] == sorted(outcome.texts)
    assert {0, 1, 2} == {line.rank for line in outcome.lines}
    assert (Phase.SUCCEEDED, 0) == (outcome.status.phase, outcome.status.exit_code)
    (role,) = outcome.status.roles
    assert (3, 3) == (role.expected, role.succeeded)


def test_parallelism_bounds_what_runs_at_once(machine: Machine) -> None:
    """With a parallelism of one, an index starts when the one before it has ended."""
    volume, mount = claim_volume()
    script = "mkdir /notes/lock && echo got $JOB_COMPLETION_INDEX && rmdir /notes/lock"
    outcome = machine.run(
        job(
            "run",
            container(script, volumeMounts=[mount]),
            nodes=3,
            parallelism=1,
            pod={"volumes": [volume]},
        )
    )
    assert ["got 0", "got 1", "got 2"] == outcome.texts


def test_a_failed_pod_is_tried_again(machine: Machine) -> None:
    """A failed pod is replaced after its back-off, and the run succeeds."""
    volume, mount = claim_volume()
    trainer = container(_SECOND_TRY, volumeMounts=[mount])
    outcome = machine.run(
        job("run", trainer, backoffLimit=1, pod={"volumes": [volume]}), backoff_scale=0.02
    )
    assert (Phase.SUCCEEDED, 0, 1) == (
        outcome.status.phase,
        outcome.status.exit_code,
        outcome.status.restarts,
    )
    assert outcome.status.started_at is not None
    assert outcome.status.finished_at is not None
    assert outcome.status.finished_at - outcome.status.started_at >= 0.2


def test_a_run_in_back_off_says_so(machine: Machine) -> None:
    """While a pod waits for its next try, the run is Restarting and says what it waits for."""
    handle = machine.start(job("run", container("exit 1"), backoffLimit=1), backoff_scale=10)
    status = until(
        lambda: (now := handle.status()).phase is Phase.RESTARTING and now, "the back-off"
    )
    assert status.waiting_for == "back-off before a new pod"
    assert status.failure is not None
    assert (0, 1) == (status.failure.rank, status.failure.exit_code)
    handle.stop()
    assert Phase.FAILED is handle.wait().phase


def test_used_up_retries_fail_the_run(machine: Machine) -> None:
    """The run fails with the exit code and the last words of what failed first."""
    script = "echo about to fail; echo details; exit 42"
    outcome = machine.run(job("run", container(script), backoffLimit=1))
    assert ["about to fail", "details"] * 2 == outcome.texts
    assert (Phase.FAILED, 42) == (outcome.status.phase, outcome.status.exit_code)
    assert outcome.status.reason == "BackoffLimitExceeded"
    failure = outcome.status.failure
    assert failure is not None
    assert ("run-0", 0, "trainer", 42) == (
        failure.pod,
        failure.rank,
        failure.container,
        failure.exit_code,
    )
    assert ("about to fail", "details") == failure.log


def test_each_pod_has_its_retries(machine: Machine) -> None:
    """Two pods that fail with each other are tried as often as one would be."""
    spec = {"backoffLimit": None, "backoffLimitPerIndex": 2, "maxFailedIndexes": 0}
    outcome = machine.run(job("run", container("echo try; exit 42"), nodes=2, **spec))
    assert (Phase.FAILED, 42) == (outcome.status.phase, outcome.status.exit_code)
    assert "MaxFailedIndexesExceeded" == outcome.status.reason
    assert outcome.status.message.startswith("no retry is left (backoffLimit 2)")
    tries = [[line.rank for line in outcome.lines].count(rank) for rank in range(2)]
    assert 3 == max(tries)
    assert min(tries) >= 2


def test_the_first_failure_is_the_one_reported(machine: Machine) -> None:
    """Ranks that die because another one died do not hide it."""
    volume, mount = claim_volume()
    script = """
        if [ $JOB_COMPLETION_INDEX = 1 ]; then exit 7; fi
        trap 'exit 9' TERM; while :; do sleep 0.01; done
    """
    outcome = machine.run(
        job("run", container(script, volumeMounts=[mount]), nodes=2, pod={"volumes": [volume]})
    )
    assert outcome.status.failure is not None
    assert (1, 7, 7) == (
        outcome.status.failure.rank,
        outcome.status.failure.exit_code,
        outcome.status.exit_code,
    )


def test_a_fatal_exit_code_fails_at_once(machine: Machine) -> None:
    """PodFailurePolicy's FailJob does not use the retries that are left."""
    rules = [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [13]}}]
    outcome = machine.run(
        job("run", container("exit 13"), backoffLimit=6, podFailurePolicy={"rules": rules})
    )
    assert ("PodFailurePolicy", 13, 0) == (
        outcome.status.reason,
        outcome.status.exit_code,
        outcome.status.restarts,
    )


def test_an_ignored_exit_code_costs_no_retry(machine: Machine) -> None:
    """PodFailurePolicy's Ignore replaces the pod even where no retry is left."""
    volume, mount = claim_volume()
    rules = [{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [1]}}]
    outcome = machine.run(
        job(
            "run",
            container(_SECOND_TRY, volumeMounts=[mount]),
            podFailurePolicy={"rules": rules},
            pod={"volumes": [volume]},
        )
    )
    assert Phase.SUCCEEDED is outcome.status.phase


def test_signals_are_exit_codes(machine: Machine) -> None:
    """A process that a signal kills has 128 and the signal's number as its exit code."""
    outcome = machine.run(job("run", container("kill -SEGV $$$$")))
    assert 128 + signal.SIGSEGV == outcome.status.exit_code


def test_a_jobs_deadline(machine: Machine) -> None:
    """A Job that runs longer than activeDeadlineSeconds is stopped and failed."""
    outcome = machine.run(
        job("run", container("echo on; while :; do sleep 0.01; done"), activeDeadlineSeconds=1)
    )
    assert (Phase.FAILED, "DeadlineExceeded", 1) == (
        outcome.status.phase,
        outcome.status.reason,
        outcome.status.exit_code,
    )


def test_a_pods_deadline(machine: Machine) -> None:
    """A pod's own deadline fails that pod, with that reason."""
    trainer = container("while :; do sleep 0.01; done")
    outcome = machine.run(job("run", trainer, pod={"activeDeadlineSeconds": 1}))
    (pod,) = outcome.status.pods
    assert (PodPhase.FAILED, "DeadlineExceeded") == (pod.phase, pod.reason)


def test_a_suspended_job_does_not_start(machine: Machine) -> None:
    """No process runs, and the run says that it is suspended."""
    outcome = machine.run(job("run", container("echo no"), suspend=True))
    assert (Phase.SUSPENDED, [], None) == (
        outcome.status.phase,
        outcome.lines,
        outcome.status.exit_code,
    )
    assert not outcome.status.finished


def test_a_met_success_policy_ends_the_others(machine: Machine) -> None:
    """When rank 0 is done the run is, and the ranks that go on are stopped."""
    script = """
        if [ $JOB_COMPLETION_INDEX = 0 ]; then exit 0; fi
        while :; do sleep 0.01; done
    """
    policy = {"rules": [{"succeededIndexes": "0"}]}
    outcome = machine.run(job("run", container(script), nodes=2, successPolicy=policy))
    assert (Phase.SUCCEEDED, 0) == (outcome.status.phase, outcome.status.exit_code)
    assert outcome.status.reason == "SuccessPolicy"
    assert outcome.status.failure is None
    assert [("Succeeded", ""), ("Succeeded", "Stopped")] == [
        (pod.phase, pod.reason) for pod in outcome.status.pods
    ]


def test_a_pod_that_ends_well_when_a_success_policy_is_met_has_succeeded(machine: Machine) -> None:
    """Told to end while it was about to, it was not stopped: its exit code is 0."""
    script = """
        trap 'exit 0' TERM
        [ $JOB_COMPLETION_INDEX = 0 ] || touch $WORK/there
        until [ -e $WORK/there ]; do sleep 0.01; done
        if [ $JOB_COMPLETION_INDEX = 0 ]; then exit 0; fi
        while :; do sleep 0.01; done
    """.replace("$WORK", str(machine.workdir))
    policy = {"rules": [{"succeededIndexes": "0"}]}
    outcome = machine.run(job("run", container(script), nodes=2, successPolicy=policy))
    assert (Phase.SUCCEEDED, "SuccessPolicy") == (outcome.status.phase, outcome.status.reason)
    assert [("Succeeded", "", 0)] * 2 == [
        (pod.phase, pod.reason, pod.containers[-1].exit_code) for pod in outcome.status.pods
    ]


def test_limits_per_index(machine: Machine) -> None:
    """An index that is given up does not stop the others, and the run fails in the end."""
    script = "echo $JOB_COMPLETION_INDEX; exit $JOB_COMPLETION_INDEX"
    outcome = machine.run(job("run", container(script), nodes=2, backoffLimitPerIndex=1))
    assert ["0", "1", "1"] == sorted(outcome.texts)
    assert (Phase.FAILED, "FailedIndexes", 1) == (
        outcome.status.phase,
        outcome.status.reason,
        outcome.status.exit_code,
    )


def test_init_containers_run_in_order(machine: Machine) -> None:
    """Each init container ends before the next one starts, and all before the main one."""
    volumes = [{"name": "shared", "emptyDir": {}}]
    mounts = [{"name": "shared", "mountPath": "/shared"}]
    pod = {
        "volumes": volumes,
        "initContainers": [
            container("echo one > /shared/log", "one", volumeMounts=mounts),
            container("echo two >> /shared/log", "two", volumeMounts=mounts),
        ],
    }
    outcome = machine.run(job("run", container("cat /shared/log", volumeMounts=mounts), pod=pod))
    assert ["one", "two"] == outcome.texts


def test_a_failed_init_container_fails_the_pod(machine: Machine) -> None:
    """Where the pod never restarts, the main container does not start."""
    pod = {"initContainers": [container("echo broken; exit 4", "prepare")]}
    outcome = machine.run(job("run", container("echo never"), pod=pod))
    assert ["broken"] == outcome.texts
    assert outcome.status.failure is not None
    assert ("prepare", 4) == (outcome.status.failure.container, outcome.status.exit_code)


def test_sidecars_surround_the_main_container(machine: Machine) -> None:
    """A sidecar starts before the main container and is stopped after it."""
    sidecar = container(
        "trap 'echo sidecar stops; exit 0' TERM; echo sidecar; while :; do sleep 0.01; done",
        "proxy",
        restartPolicy="Always",
    )
    volumes = [{"name": "shared", "emptyDir": {}}]
    mounts = [{"name": "shared", "mountPath": "/shared"}]
    outcome = machine.run(
        job(
            "run",
            container("echo main", volumeMounts=mounts),
            pod={"initContainers": [sidecar], "volumes": volumes},
        )
    )
    assert Phase.SUCCEEDED is outcome.status.phase
    assert {"sidecar", "main", "sidecar stops"} >= set(outcome.texts)
    assert "main" in outcome.texts


def test_several_containers_share_the_pods_volumes(machine: Machine) -> None:
    """Containers of a pod run side by side on the same emptyDir; the pod ends with the last."""
    mounts = [{"name": "shared", "mountPath": "/shared"}]
    outcome = machine.run(
        job(
            "run",
            container("echo ping > /shared/fifo", "writer", volumeMounts=mounts),
            container("cat /shared/fifo", "reader", volumeMounts=mounts),
            pod={
                "volumes": [{"name": "shared", "emptyDir": {}}],
                "initContainers": [container("mkfifo /shared/fifo", "make", volumeMounts=mounts)],
            },
        )
    )
    assert [("reader", "ping")] == [(line.container, line.text) for line in outcome.lines]


def test_on_failure_restarts_inside_the_pod(machine: Machine) -> None:
    """The container starts again in the same pod: its emptyDir is still there."""
    trainer = container(
        "echo try >> /scratch/tries; test $(wc -l < /scratch/tries) -ge 3",
        volumeMounts=[{"name": "scratch", "mountPath": "/scratch"}],
    )
    pod = {"restartPolicy": "OnFailure", "volumes": [{"name": "scratch", "emptyDir": {}}]}
    outcome = machine.run(job("run", trainer, backoffLimit=5, pod=pod))
    assert (Phase.SUCCEEDED, 2) == (outcome.status.phase, outcome.status.restarts)
    assert 2 == outcome.status.pods[0].containers[0].restarts


def test_a_stateful_set_ends_when_all_ranks_are_done(machine: Machine) -> None:
    """Ranks that have ended idle after their restart; when all have, the run succeeds."""
    script = """
        if [ -e /life/finished ]; then echo idle; while :; do sleep 0.01; done; fi
        echo train; touch /life/finished
    """
    template = {
        "spec": {
            "terminationGracePeriodSeconds": 5,
            "volumes": [{"name": "life", "emptyDir": {}}],
            "containers": [
                container(script, volumeMounts=[{"name": "life", "mountPath": "/life"}])
            ],
        }
    }
    stateful = {
        "kind": "StatefulSet",
        "metadata": {"name": "run"},
        "spec": {"replicas": 2, "podManagementPolicy": "Parallel", "template": template},
    }
    outcome = machine.run(stateful)
    assert (Phase.SUCCEEDED, 0, "RanksDone") == (
        outcome.status.phase,
        outcome.status.exit_code,
        outcome.status.reason,
    )
    assert ["train", "train"] == [text for text in outcome.texts if text == "train"]


def test_a_stateful_set_restarts_what_fails(machine: Machine) -> None:
    """A rank that fails is started again in its pod until it ends well."""
    volume, mount = claim_volume()
    stateful = {
        "kind": "StatefulSet",
        "metadata": {"name": "run"},
        "spec": {
            "template": {
                "spec": {
                    "volumes": [volume],
                    "containers": [container(_SECOND_TRY, volumeMounts=[mount])],
                }
            }
        },
    }
    outcome = machine.run(stateful)
    assert (Phase.SUCCEEDED, 0) == (outcome.status.phase, outcome.status.exit_code)
    assert outcome.status.restarts >= 1


def test_a_bare_pod(machine: Machine) -> None:
    """A Pod runs once and ends as it ends."""
    spec = {"restartPolicy": "Never", "containers": [container("echo alone; exit 5")]}
    outcome = machine.run({"kind": "Pod", "metadata": {"name": "one"}, "spec": spec})
    assert (["alone"], Phase.FAILED, 5) == (
        outcome.texts,
        outcome.status.phase,
        outcome.status.exit_code,
    )


def test_configmaps_secrets_and_fields_reach_the_container(machine: Machine) -> None:
    """A script from a ConfigMap runs by its mount path, with a Secret, and knows its pod."""
    script = "#!/bin/sh\necho $TOKEN $(cat /etc/keys/key) $POD $(cat /etc/run/script | wc -l)\n"
    documents: list[dict[str, Any]] = [
        {"kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"script": script}},
        {"kind": "Secret", "metadata": {"name": "s"}, "stringData": {"key": "sealed"}},
    ]
    trainer = {
        "name": "trainer",
        "command": ["/etc/run/script"],
        "env": [
            {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "s", "key": "key"}}},
            {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        ],
        "volumeMounts": [
            {"name": "run", "mountPath": "/etc/run"},
            {"name": "keys", "mountPath": "/etc/keys"},
        ],
    }
    volumes = [
        {"name": "run", "configMap": {"name": "c", "defaultMode": 0o555}},
        {"name": "keys", "secret": {"secretName": "s", "defaultMode": 0o400}},
    ]
    outcome = machine.run(*documents, job("run", trainer, pod={"volumes": volumes}))
    assert ["sealed sealed run-0 2"] == outcome.texts


def test_args_arrive_as_typed(machine: Machine) -> None:
    """Quotes, dollars, backslashes and newlines are what the program gets."""
    words = ["a b", "c\nd", "$HOME", "'\"`\\", "*", "1e-5", "", "ünï"]
    program = "import sys; print(ascii(sys.argv[1:]))"
    trainer = {"name": "t", "command": ["python", "-c", program], "args": words}
    assert [ascii(words)] == machine.run(job("run", trainer)).texts


def test_pods_reach_each_other_by_name(machine: Machine) -> None:
    """A name in a ConfigMap and in an argument is the address that the other pod listens on."""
    server = (
        "import os, socket; s = socket.create_server((os.environ['ME'], 29999)); "
        "c, _ = s.accept(); c.sendall(b'hello from rank 0'); c.close()"
    )
    client = """
        import socket, sys, time
        while True:
            try:
                with socket.create_connection((sys.argv[1], 29999)) as c:
                    print(c.recv(99).decode())
                    break
            except ConnectionRefusedError:
                time.sleep(0.01)
    """
    script = f"""
        if [ $JOB_COMPLETION_INDEX = 0 ]; then exec python -c "{server}"; fi
        exec python -c "$CLIENT" run-0.run
    """
    env = [
        {"name": "ME", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "CLIENT", "value": textwrap.dedent(client)},
    ]
    outcome = machine.run(job("run", container(script, env=env), nodes=2))
    assert ["hello from rank 0"] == outcome.texts


def test_the_working_folder(machine: Machine) -> None:
    """A container starts in its own folder where there is one, else in the values file's."""
    (machine.workdir / "train.py").write_text("print('found me')\n")
    own = {"name": "t", "command": ["python", "train.py"], "workingDir": "/not/on/this/machine"}
    assert ["found me"] == machine.run(job("run", own)).texts
    volume, mount = claim_volume()
    there = container("pwd", volumeMounts=[mount], workingDir="/notes")
    outcome = machine.run(job("run", there, pod={"volumes": [volume]}))
    assert [str(machine.folder().claims / "notes")] == outcome.texts


def test_the_termination_message_is_in_the_status(machine: Machine) -> None:
    """What a container leaves in /dev/termination-log explains its end."""
    outcome = machine.run(
        job("run", container("echo -n 'out of data' > /dev/termination-log; exit 3"))
    )
    assert outcome.status.failure is not None
    assert outcome.status.failure.message == "out of data"
    assert outcome.status.pods[0].containers[0].message == "out of data"


def test_the_log_may_stand_in_for_the_message(machine: Machine) -> None:
    """FallbackToLogsOnError takes the end of the log where no message was left."""
    trainer = container("echo boom; exit 1", terminationMessagePolicy="FallbackToLogsOnError")
    outcome = machine.run(job("run", trainer))
    assert outcome.status.failure is not None
    assert outcome.status.failure.message == "boom"


def test_nothing_outlives_a_containers_first_process(machine: Machine) -> None:
    """A process that was left in a session of its own dies with the container."""
    script = "setsid sh -c 'echo $$ > /notes/pid; while :; do sleep 0.01; done' & "
    script += "while ! [ -s /notes/pid ]; do sleep 0.01; done"
    volume, mount = claim_volume()
    outcome = machine.run(
        job("run", container(script, volumeMounts=[mount]), pod={"volumes": [volume]})
    )
    assert Phase.SUCCEEDED is outcome.status.phase
    assert machine.leftovers() == []


def test_a_container_that_ignores_sigterm_is_killed(machine: Machine) -> None:
    """After its grace period, and not before its chance to end by itself."""
    trainer = container("trap '' TERM; echo deaf; while :; do sleep 0.01; done")
    handle = machine.start(job("run", trainer, pod={"terminationGracePeriodSeconds": 1}))
    machine.line("deaf")
    handle.stop()
    status = handle.wait()
    assert (Phase.FAILED, 130) == (status.phase, status.exit_code)


def test_a_container_may_save_before_it_ends(machine: Machine) -> None:
    """SIGTERM reaches a program behind a shell too, and it has its grace period."""
    program = (
        "import signal, sys, time\n"
        "def save(*_):\n"
        "    print('saved'); sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, save); print('ready')\n"
        "while True: time.sleep(0.01)\n"
    )
    trainer = container('python -c "$PROGRAM"; true', env=[{"name": "PROGRAM", "value": program}])
    handle = machine.start(job("run", trainer))
    machine.line("ready")
    handle.stop()
    handle.wait()
    machine.line("saved")


def test_a_program_that_is_not_there_is_refused(machine: Machine) -> None:
    """A missing program is named before anything starts."""
    with pytest.raises(MissingToolError, match="no program 'no-such-program'"):
        machine.start(job("run", {"name": "t", "command": ["no-such-program"]}))
    assert not machine.folder().exists()


def test_a_relative_program_that_is_not_there_fails_its_pod(machine: Machine) -> None:
    """Where only the pod can know, the pod fails with the reason in its log."""
    outcome = machine.run(job("run", {"name": "t", "command": ["./train"]}))
    assert (Phase.FAILED, 128) == (outcome.status.phase, outcome.status.exit_code)
    assert ["there is no program './train' on this machine"] == outcome.texts
    assert outcome.status.pods[0].containers[0].reason == "StartError"


def test_a_secret_that_is_not_there_is_refused(machine: Machine) -> None:
    """Before the start, with the way out."""
    env = [{"name": "HUB", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "k"}}}]
    with pytest.raises(InputError, match="export HUB in your shell"):
        machine.start(job("run", container("true", env=env)))


def test_python_is_the_one_that_runs_this(machine: Machine) -> None:
    """`python` in a pod is the interpreter of the command line, virtual environment and all."""
    program = "import sys; print(sys.prefix)"
    trainer = {"name": "t", "command": ["python", "-c", program]}
    assert [sys.prefix] == machine.run(job("run", trainer)).texts


def test_sixty_four_pods(machine: Machine) -> None:
    """A wide job is no trouble."""
    outcome = machine.run(job("run", {"name": "t", "command": ["true"]}, nodes=64))
    assert Phase.SUCCEEDED is outcome.status.phase
    assert 64 == len({pod.address for pod in outcome.status.pods})
    assert 64 == outcome.status.roles[0].succeeded


def test_one_failed_controller_ends_the_run(machine: Machine) -> None:
    """What would wait for a failed Job for ever is stopped with it."""
    waits = container("while :; do sleep 0.01; done")
    outcome = machine.run(job("waits", waits), job("fails", container("exit 6")))
    assert (Phase.FAILED, 6) == (outcome.status.phase, outcome.status.exit_code)


# Index 0 fails when index 1 is ready to ignore that it is told to end.
_ONE_FAILS = """
    if [ $JOB_COMPLETION_INDEX = 1 ]; then
        trap '' TERM; touch /notes/ready; while :; do sleep 0.01; done
    fi
    while ! [ -e /notes/ready ]; do sleep 0.01; done; exit 7
"""


def test_a_run_without_a_retry_left_does_not_say_that_it_comes_back(machine: Machine) -> None:
    """While its last pods end it says that it fails and why, and counts none of them as running."""
    volume, mount = claim_volume()
    trainer = container(_ONE_FAILS, volumeMounts=[mount])
    pod = {"volumes": [volume], "terminationGracePeriodSeconds": 600}
    handle = machine.start(job("run", trainer, nodes=2, backoffLimit=0, pod=pod))
    status = until(lambda: (now := handle.status()).ending and now, "the end to be certain")
    assert (Phase.RUNNING, "BackoffLimitExceeded") == (status.phase, status.reason)
    assert "no retry is left (backoffLimit 0)" in status.message
    assert status.message.endswith("; its last pods are being ended")
    assert [("", PodPhase.FAILED), ("Terminating", PodPhase.RUNNING)] == [
        (pod.reason, pod.phase) for pod in status.pods
    ]
    handle.stop(at_once=True)
    assert not handle.wait().ending


def test_a_run_that_is_stopped_does_not_restart(machine: Machine) -> None:
    """Who stops it after a retry hears that it ends, not that it comes back."""
    volume, mount = claim_volume()
    script = "test -e /notes/first || { touch /notes/first; exit 7; }; trap '' TERM; echo up; "
    trainer = container(script + "while :; do sleep 0.01; done", volumeMounts=[mount])
    pod = {"volumes": [volume], "terminationGracePeriodSeconds": 600}
    handle = machine.start(job("run", trainer, backoffLimit=1, pod=pod), backoff_scale=0.01)
    machine.line("up")
    handle.stop()
    status = until(lambda: (now := handle.status()).ending and now, "the end to be certain")
    assert (Phase.RUNNING, "Stopped", "Terminating") == (
        status.phase,
        status.reason,
        status.pods[0].reason,
    )
    handle.stop(at_once=True)
    assert Phase.FAILED is handle.wait().phase


def test_an_index_that_failed_for_good_does_not_come_back(machine: Machine) -> None:
    """Where the others go on without it the run runs, and says that one pod failed for good."""
    volume, mount = claim_volume()
    trainer = container(_ONE_FAILS, volumeMounts=[mount])
    spec = {"backoffLimit": None, "backoffLimitPerIndex": 0, "pod": {"volumes": [volume]}}
    handle = machine.start(job("run", trainer, nodes=2, **spec))
    status = until(
        lambda: (now := handle.status()).pods[0].phase is PodPhase.FAILED and now, "the failure"
    )
    assert (Phase.RUNNING, "1 of 2 pods running; 1 failed for good", "") == (
        status.phase,
        status.message,
        status.waiting_for,
    )
    handle.stop(at_once=True)
    handle.wait()
