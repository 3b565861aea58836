"""The addresses and ports of this machine that the pods and Services of a release get."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks.local.host.addresses import bindable, free_port

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from allranks.local.host.addresses import Block
    from allranks.local.plan.model import ReleasePlan, ServicePlan

# The workload whose pods may all listen on one port; of others only one pod does, or each does on
# its own address.
_OWN_PORTS = "elastic"


def by_pod(release: ReleasePlan, block: Block) -> dict[str, str]:
    """The address of each pod.

    Where only 127.0.0.1 is up (as on macOS), all pods share it.
    """
    if not bindable(block.address(0)):
        return {pod.name: "127.0.0.1" for pod in release.pods}
    return {pod.name: block.address(position) for position, pod in enumerate(release.pods)}


def service_address(
    release: ReleasePlan, addresses: Mapping[str, str], service: ServicePlan
) -> str | None:
    """The address of a Service: that of the first pod it selects; None for no pod."""
    pod = service_pod(release, service)
    return None if pod is None else addresses[pod]


def service_pod(release: ReleasePlan, service: ServicePlan) -> str | None:
    """The first pod that a Service selects; None for no pod."""
    return next((pod.name for pod in release.pods if service.selects(pod)), None)


def served_ports(release: ReleasePlan) -> tuple[int, ...]:
    """The ports that the release's Services name, each once."""
    return tuple(dict.fromkeys(port for service in release.services for _, port in service.ports))


def own_ports(release: ReleasePlan, claimed_ports: Iterable[int]) -> dict[tuple[str, int], int]:
    """A separate port for each pod of a job whose pods all listen on the same one.

    TensorFlow's server takes its port on all addresses of the machine, so two pods cannot have one
    number, other than in a cluster. Where such a port stands behind a pod's name it is replaced
    with the name (see `allranks.local.plan.rewrite`).

    Args:
        release: the release.
        claimed_ports: ports that live runs will listen on.

    Returns:
        The port of this machine, by the pod's name and the port that its manifest has.

    Raises:
        RunError: there are not as many free ports.
    """
    port_numbers: dict[tuple[str, int], int] = {}
    if release.workload != _OWN_PORTS:
        return port_numbers
    for pod in release.pods:
        served = (service.ports for service in release.services if service.selects(pod))
        for port in dict.fromkeys(number for ports in served for _, number in ports):
            port_numbers[pod.name, port] = free_port(port, (*claimed_ports, *port_numbers.values()))
    return port_numbers
