"""The options of horovodrun that have a value: those of horovod/runner/launch.py."""

from __future__ import annotations

from allranks.convert.programs import option_words

# Names in full, and those that are short.
_WITH_VALUE = frozenset(
    {
        *("np", "num-proc", "start-timeout", "network-interfaces", "network-interface"),
        *("output-filename", "config-file", "p", "ssh-port", "i", "ssh-identity-file"),
        *("fusion-threshold-mb", "cycle-time-ms", "cache-capacity", "autotune-log-file"),
        *("autotune-warmup-samples", "autotune-steps-per-sample"),
        *("autotune-bayes-opt-max-samples", "autotune-gaussian-process-noise"),
        *("min-np", "min-num-proc", "max-np", "max-num-proc", "slots-per-host"),
        *("elastic-timeout", "reset-limit", "timeline-filename"),
        *("stall-check-warning-time-seconds", "stall-check-shutdown-time-seconds"),
        *("mpi-args", "binding-args", "num-nccl-streams", "thread-affinity"),
        *("gloo-timeout-seconds", "log-level", "H", "hosts", "hostfile", "host-discovery-script"),
    }
)
_WITH_TWO = frozenset({"blacklist-cooldown-range"})
_WITHOUT_VALUE = frozenset(
    {
        *("version", "check-build", "disable-cache", "verbose", "tcp", "gloo", "mpi", "jsrun"),
        *("hierarchical-allreduce", "no-hierarchical-allreduce", "hierarchical-allgather"),
        *("no-hierarchical-allgather", "autotune", "no-autotune", "timeline-mark-cycles"),
        *("no-timeline-mark-cycles", "stall-check", "no-stall-check", "mpi-threads-disable"),
        *("no-mpi-threads-disable", "log-with-timestamp", "log-without-timestamp"),
        *("log-hide-timestamp", "no-log-hide-timestamp", "prefix-output-with-timestamp"),
    }
)


def read(name: str) -> tuple[str, int]:
    """An option as horovodrun reads it.

    Args:
        name: what is written, without the dashes in front and without a value behind ``=``.

    Returns:
        Its whole name, and how many words behind it are its values.
    """
    whole = option_words.whole_name(name, _WITH_VALUE | _WITH_TWO | _WITHOUT_VALUE)
    return whole, 2 if whole in _WITH_TWO else int(whole in _WITH_VALUE)
