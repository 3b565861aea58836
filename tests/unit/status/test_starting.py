"""Why the containers of a pod do not start, in plain words.

The messages are those that Kubernetes 1.36 writes.
"""

from __future__ import annotations

import pytest

from allranks.status.reduce import reduce
from tests.unit.status.samples import (
    event,
    job,
    observe,
    pod,
    ready,
    waiting,
)

POD = "demo-0-x7k2p"
PULL = 'failed to pull and unpack image "docker.io/my/trainer:1.4": failed to resolve reference: '


@pytest.mark.parametrize(
    ("reason", "message", "sentence"),
    [
        ("ContainerCreating", "", "the start of its pod"),
        ("PodInitializing", "", "the start of its pod"),
        (
            "ErrImagePull",
            f"rpc error: code = NotFound desc = {PULL}docker.io/my/trainer:1.4: not found",
            "image my/trainer:1.4 for its pod: the registry does not have it",
        ),
        (
            "ImagePullBackOff",
            (
                f'Back-off pulling image "my/trainer:1.4": ErrImagePull: {PULL}pull access denied, '
                "repository does not exist or may require authorization"
            ),
            "image my/trainer:1.4 for its pod: the registry refuses access, or has no such image",
        ),
        (
            "ErrImagePull",
            f"{PULL}unexpected status: 401 Unauthorized",
            "image my/trainer:1.4 for its pod: the registry refuses access; see imagePullSecrets",
        ),
        (
            "ErrImagePull",
            f"{PULL}dial tcp: lookup registry.local: no such host",
            "image my/trainer:1.4 for its pod: the registry's name does not resolve on the node",
        ),
        (
            "ErrImagePull",
            f"{PULL}dial tcp 10.0.0.1:443: connect: connection refused",
            "image my/trainer:1.4 for its pod: the registry does not answer",
        ),
        (
            "ErrImagePull",
            "write /var/lib/containerd/x: no space left on device",
            "image my/trainer:1.4 for its pod: the node's disk is full",
        ),
        (
            "ErrImagePull",
            "something: else altogether",
            "image my/trainer:1.4 for its pod: else altogether",
        ),
        (
            "ImagePullBackOff",
            'Back-off pulling image "my/trainer:1.4"',
            "image my/trainer:1.4 for its pod: it cannot be pulled",
        ),
        (
            "InvalidImageName",
            'Failed to apply default image tag "A:B:C": couldn\'t parse image name',
            "image my/trainer:1.4 for its pod: this is no image's name",
        ),
        (
            "ErrImageNeverPull",
            'Container image "my/trainer:1.4" is not present with pull policy of Never',
            (
                "image my/trainer:1.4 for its pod: the node does not have it, and image.pullPolicy "
                "is Never"
            ),
        ),
        (
            "CreateContainerConfigError",
            'secret "hub" not found',
            "Secret hub for its pod: it does not exist",
        ),
        (
            "CreateContainerConfigError",
            'configmap "settings" not found',
            "ConfigMap settings for its pod: it does not exist",
        ),
        (
            "CreateContainerConfigError",
            "couldn't find key token in Secret research/hub",
            "key token of Secret hub for its pod: there is no such key",
        ),
        (
            "CreateContainerConfigError",
            (
                'container has runAsNonRoot and image will run as root (pod: "demo-0", container: '
                "trainer)"
            ),
            (
                "a user other than root for its pod: the image runs as root, or as a user that has "
                "a name and no number; "
                "see security.podSecurityContext"
            ),
        ),
        (
            "CreateContainerError",
            "context deadline exceeded",
            "container trainer of its pod: CreateContainerError, context deadline exceeded",
        ),
        ("RunContainerError", "", "container trainer of its pod: RunContainerError"),
        (
            "CrashLoopBackOff",
            "back-off 5m0s restarting failed container",
            "back-off of container trainer in its pod",
        ),
    ],
)
def test_what_the_kubelet_says(reason: str, message: str, sentence: str) -> None:
    """Each reason why a container does not start, in plain words."""
    status = reduce(observe(job(pods=1), pods=[pod(0, "Pending", waiting(reason, message))]))
    assert sentence == status.waiting_for
    assert reason == status.pods[0].reason
    assert ("waiting", reason) == (
        status.pods[0].containers[0].state,
        status.pods[0].containers[0].reason,
    )


def test_a_pull_and_its_back_off_are_one_trouble() -> None:
    """Pods take turns between the two reasons; a person sees one."""
    pods = [
        pod(0, "Pending", waiting("ErrImagePull", "x: not found")),
        pod(1, "Pending", waiting("ImagePullBackOff", "Back-off: y: not found")),
    ]
    status = reduce(observe(job(), pods=pods))
    assert "image my/trainer:1.4 for 2 pods: the registry does not have it" == status.waiting_for


@pytest.mark.parametrize(
    ("reason", "message", "sentence"),
    [
        (
            "FailedMount",
            'MountVolume.SetUp failed for volume "key" : secret "demo-ssh" not found',
            "Secret demo-ssh for its pod: it does not exist",
        ),
        (
            "FailedMount",
            'MountVolume.SetUp failed for volume "conf" : configmap "demo" not found',
            "ConfigMap demo for its pod: it does not exist",
        ),
        (
            "FailedMount",
            (
                'MountVolume.SetUp failed for volume "code" : '
                'configmap "ws-0123456789ab-fedcba-0" not found'
            ),
            (
                "ConfigMap ws-0123456789ab-fedcba-0 for its pod: the code that was sent was "
                "deleted; submit the same folder again"
            ),
        ),
        (
            "FailedMount",
            'MountVolume.SetUp failed for volume "conf" : references non-existent config key: a.py',
            "volume conf for its pod: there is no key a.py",
        ),
        (
            "FailedMount",
            'MountVolume.SetUp failed for volume "nfs" : mount failed: exit status 32.',
            "volume nfs for its pod: mount failed: exit status 32",
        ),
        (
            "FailedAttachVolume",
            'Multi-Attach error for volume "pvc-1" Volume is already used by pod(s) other-0',
            "volume pvc-1 for its pod: Volume is already used by pod(s) other-0",
        ),
        (
            "FailedCreatePodSandBox",
            "Failed to create pod sandbox: no IP addresses available",
            (
                "the start of its pod: FailedCreatePodSandBox, Failed to create pod sandbox: no IP "
                "addresses available"
            ),
        ),
        ("Failed", "Error: something", "the start of its pod"),
        ("Pulling", "Pulling image", "the start of its pod"),
    ],
)
def test_what_only_an_event_says(reason: str, message: str, sentence: str) -> None:
    """While a pod's containers only say that they are being created, an event says why so long."""
    about = event(reason, message, kind="Pod", name=POD)
    manifest = pod(0, "Pending", waiting("ContainerCreating"))
    assert sentence == reduce(observe(job(pods=1), pods=[manifest], events=[about])).waiting_for


def test_an_event_explains_a_back_off() -> None:
    """Older kubelets say in an event alone why an image cannot be pulled."""
    message = f'Failed to pull image "my/trainer:1.4": {PULL}docker.io/my/trainer:1.4: not found'
    about = event("Failed", message, kind="Pod", name=POD)
    manifest = pod(
        0, "Pending", waiting("ImagePullBackOff", 'Back-off pulling image "my/trainer:1.4"')
    )
    assert "image my/trainer:1.4 for its pod: the registry does not have it" == (
        reduce(observe(job(pods=1), pods=[manifest], events=[about])).waiting_for
    )


def test_the_newest_event_is_told() -> None:
    """An event is a memory: of several the last one counts, and none once the pod runs."""
    old = event(
        "FailedMount", 'volume: secret "a" not found', kind="Pod", name="demo-0-x7k2p", at=3
    )
    new = event(
        "FailedMount", 'volume: secret "b" not found', kind="Pod", name="demo-0-x7k2p", at=4
    )
    manifest = pod(0, "Pending", waiting("ContainerCreating"))
    status = reduce(observe(job(pods=1), pods=[manifest], events=[new, old]))
    assert "Secret b for its pod: it does not exist" == status.waiting_for
    assert "" == reduce(observe(job(pods=1), pods=[ready(0)], events=[new, old])).waiting_for
