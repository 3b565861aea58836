"""What the numbers of a preflight mean: measured values and thresholds in, faults of nodes out.

Nothing here measures, waits or looks at a clock. A threshold of 0 is none. Standard library;
Python 3.8 or newer.

A node is named for what it measures of itself. Of what two nodes measure together it is named only
where it is slow with two partners or more: each of them has others with whom it is well, or is
named itself, and then its partners are not.
"""

from __future__ import annotations

import statistics

# key of what is measured: its name in a sentence, its unit, whether the threshold is the least that
# is well (else the most), and the value of the chart that has the threshold.
CHECKS = {
    "gpus": ("GPUs that torch sees", "", True, "gpusPerNode"),
    "gpuErrors": ("uncorrected memory errors of a GPU", "", False, ""),
    "gpuRemapFailures": ("GPUs whose memory rows cannot be remapped", "", False, ""),
    "gpuFree": ("free GPU memory", "%", True, "torchrun.preflight.gpuFreePercent"),
    "matmul": ("matmul", "TFLOP/s", True, "nodeShape.gpuTflops"),
    "memory": ("GPU memory bandwidth", "GB/s", True, "nodeShape.gpuMemoryGBps"),
    "shm": ("free /dev/shm", "MiB", True, "torchrun.preflight.shmMiB"),
    "disk": ("free disk", "MiB", True, "torchrun.preflight.diskMiB"),
    "clock": ("clock off rank 0's by", "s", False, "torchrun.preflight.clockSeconds"),
}
PAIR = ("all-reduce with one other node", "GB/s", True, "torchrun.preflight.pairGBps")
ALL = ("all-reduce of all ranks", "GB/s", True, "torchrun.preflight.allReduceGBps")
# What is compared with the other GPUs of the run as well.
COMPARED = ("matmul", "memory")
COMPARED_LEAST = 3  # GPUs that a median is taken of
PARTNERS_LEAST = 2  # that a node has to be slow with, before it is named
WORDS_MAX = 700
WHOLE = 100  # from here on no fraction is written
SHOWN = 2  # faults of a node


class Fault:
    """What is wrong with a node.

    Attributes:
        node: its index; -1 where no node is at fault by itself.
        rank: the process of the preflight that measured it.
        words: what is wrong, with the number.
    """

    def __init__(self, node, rank, words):
        """Take what is known."""
        self.node, self.rank, self.words = node, rank, words


def number(value):
    """A number as a person writes it."""
    return "%d" % value if value >= WHOLE or value == int(value) else "%.3g" % value


def compare(value, threshold, check):
    """What is wrong with a value; "" where it is well, or nothing is known or asked of it."""
    name, unit, is_least, key = check
    if value is None or (is_least and not threshold):
        return ""
    if value >= threshold if is_least else value <= threshold:
        return ""
    percent = "%" if unit == "%" else ""
    unit = percent or (" " + unit if unit else "")
    source = " (%s)" % key if key else ""
    bound = "at least" if is_least else "at most"
    words = (name, number(value), unit, bound, number(threshold), percent, source)
    return "%s %s%s, %s %s%s%s" % words


def local_faults(reports, thresholds):
    """What each node measures of itself that is wrong.

    Args:
        reports: of the processes, each {"rank", "node", "local", "measured": {key: number}}.
        thresholds: by the same keys.
    """
    faults = []
    for report in reports:
        measured = report.get("measured", {})
        for key, check in CHECKS.items():
            # The most that is well may be none at all; where nothing was asked, it is not compared.
            if key in thresholds:
                words = compare(measured.get(key), thresholds[key], check)
                if words:
                    faults.append(
                        Fault(report["node"], report["rank"], _of_gpu(report, key, words))
                    )
        errors = report.get("errors", ())
        faults += [Fault(report["node"], report["rank"], words) for words in errors]
    return faults


def _of_gpu(report, key, words):
    if key in ("gpuFree", "matmul", "memory") and report.get("gpu") is not None:
        return "GPU %d: %s" % (report["gpu"], words)
    return words


def slow_gpus(reports, share):
    """GPUs that are far slower than those of the same run.

    Args:
        reports: as in `local_faults`; only those with a GPU are compared.
        share: of the median, in percent, that is well; 0 compares none.
    """
    faults = []
    for key in COMPARED if share else ():
        values = [
            (report, report["measured"][key])
            for report in reports
            if report.get("gpu") is not None and report.get("measured", {}).get(key) is not None
        ]
        if len(values) < COMPARED_LEAST:
            continue
        middle = statistics.median(value for _, value in values)
        name, unit, _, _ = CHECKS[key]
        for report, value in values:
            if value < middle * share / 100:
                words = (
                    "%s %s %s, and the median of the run is %s %s (torchrun.preflight.slowPercent)"
                )
                words = words % (name, number(value), unit, number(middle), unit)
                faults.append(Fault(report["node"], report["rank"], _of_gpu(report, key, words)))
    return faults


def pair_speeds(reports):
    """The speed of each pair of nodes that met: {(a, b): GB/s}, 0 where it broke.

    Each pair is as slow as the slowest of its processes.
    """
    speeds = {}
    for report in reports:
        for pair in report.get("pairs", ()):
            nodes = tuple(sorted((report["node"], pair["with"])))
            speeds[nodes] = min(speeds.get(nodes, float("inf")), pair["speed"])
    return speeds


def pair_faults(speeds, least, excused, ranks):
    """The nodes that are slow with others.

    Args:
        speeds: as `pair_speeds` gives them.
        least: what is well, in GB/s; 0 asks only that the pair comes through.
        excused: nodes that are at fault anyway; who is slow with them is not.
        ranks: a process of each node, by node.
    """
    slow = {
        nodes: speed
        for nodes, speed in speeds.items()
        if (speed <= 0 or speed < least) and not set(nodes) & set(excused)
    }
    faults = []
    while slow:
        partners = {}
        for first, second in slow:
            partners.setdefault(first, []).append(second)
            partners.setdefault(second, []).append(first)
        worst = max(partners, key=lambda node: (len(partners[node]), -node))
        if len(partners[worst]) < PARTNERS_LEAST:
            break
        speed = max(speed for nodes, speed in slow.items() if worst in nodes)
        words = "%s with %d of %d other nodes" % (
            _pair_words(speed, least),
            len(partners[worst]),
            sum(worst in nodes for nodes in speeds),
        )
        faults.append(Fault(worst, ranks.get(worst, 0), words))
        slow = {nodes: speed for nodes, speed in slow.items() if worst not in nodes}
    for (first, second), speed in sorted(slow.items()):
        words = "%s between {%d} and {%d}: which of them is at fault cannot be told"
        faults.append(Fault(-1, 0, words % (_pair_words(speed, least), first, second)))
    return faults


def _pair_words(speed, least):
    if speed <= 0:
        return "all-reduce did not come through"
    return compare(speed, least, PAIR)


def judge(reports, missing, thresholds):
    """What is wrong with the nodes of a run; those that are named come first.

    Args:
        reports: of the processes that gave one.
        missing: the (node, rank, words) of those that did not.
        thresholds: of all checks.
    """
    faults = [Fault(*silent) for silent in missing]
    faults += local_faults(reports, thresholds)
    named = {fault.node for fault in faults}
    faults += [
        fault
        for fault in slow_gpus(reports, thresholds.get("slowPercent", 0))
        if fault.node not in named
    ]
    named = {fault.node for fault in faults}
    ranks = {}
    for report in reports:
        ranks.setdefault(report["node"], report["rank"])
    pairs = pair_faults(pair_speeds(reports), thresholds.get("pair", 0), named, ranks)
    faults += [fault for fault in pairs if fault.node >= 0]
    if not faults:
        faults = pairs
    speeds = [report["all"] for report in reports if report.get("all") is not None]
    if not faults and speeds:
        least = thresholds.get("all", 0)
        broken = min(speeds) <= 0
        words = "all-reduce of all ranks did not come through" if broken else ""
        words = words or compare(min(speeds), least, ALL)
        if words:
            faults.append(Fault(-1, 0, words + "; no node is slow by itself"))
    return faults


def sentence(faults, places):
    """The faults in one sentence, with the nodes' names.

    Args:
        faults: as `judge` gives them.
        places: of each node that has said so: (name of the Kubernetes node, pod).
    """
    words = []
    for node in dict.fromkeys(fault.node for fault in faults):
        own = [fault.words for fault in faults if fault.node == node]
        more = " (and %d more)" % (len(own) - SHOWN) if len(own) > SHOWN else ""
        text = ", ".join(own[:SHOWN]) + more
        if node < 0:
            names = {str(index): place(index, places) for index in places}
            for index, name in names.items():
                text = text.replace("{%s}" % index, name)
            words.append(text)
        else:
            words.append("%s: %s" % (place(node, places), text))
    text = "preflight: " + "; ".join(words)
    return text if len(text) <= WORDS_MAX else text[: WORDS_MAX - 3] + "..."


def place(node, places):
    """A node in words: its name, and the pod's."""
    name, pod = places.get(node, ("", ""))
    pod = "pod %s" % pod if pod else "pod of index %d" % node
    return "node %s (%s)" % (name, pod) if name else pod


def rounds(nodes, most):
    """Who meets whom: rounds of pairs of nodes in which each node is once at most.

    A node meets another one in each round, as in a tournament where all play all. With an odd
    number of nodes one of them pauses in each round.

    Args:
        nodes: how many there are.
        most: rounds at most.
    """
    if nodes == 1:
        return []
    circle = list(range(nodes + nodes % 2))
    last = len(circle) - 1
    result = []
    # An odd number takes one round more to give each node as many partners.
    for _ in range(min(last, most + nodes % 2)):
        pairs = [(circle[i], circle[last - i]) for i in range(len(circle) // 2)]
        result.append([tuple(sorted(pair)) for pair in pairs if max(pair) < nodes])
        circle = circle[:1] + circle[-1:] + circle[1:-1]
    return result


def gpu_faults(errors, failures):
    """What `nvidia-smi` says of the GPUs' memory: {"gpuErrors", "gpuRemapFailures"}.

    Args:
        errors: a line of each GPU, with the number of its uncorrected errors.
        failures: a line of each GPU, that says whether rows cannot be remapped: 0 or 1, or No or
            Yes. A field that a GPU does not have is in brackets (``[N/A]``) in both.

    Returns:
        The most errors of one GPU, and of how many GPUs rows cannot be remapped; a key only where a
        GPU knows of it.
    """
    counts = [int(line) for line in map(str.strip, errors.splitlines()) if line.isdigit()]
    answers = [line.strip().lower() for line in failures.splitlines()]
    answers = [
        line not in ("0", "no") for line in answers if line.isdigit() or line in ("yes", "no")
    ]
    result = {}
    if counts:
        result["gpuErrors"] = max(counts)
    if answers:
        result["gpuRemapFailures"] = sum(answers)
    return result
