"""What `sbatch`, `srun` and Pyxis can be asked, and what becomes of it: rules as data.

The names are those of the manuals of Slurm 26.11 (sbatch, srun; and older names that scripts still
have) and of Pyxis 0.21. An option that `sizes` or `directives` reads has the value that it ends in;
what only has a reason is not read by anything. The table is the most of this module: a row for each
option, which is why it is long.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from allranks import names
from allranks.convert.near_words import nearest_word
from allranks.convert.verdicts import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


# What the options are called that say how many CPUs a task has, how many tasks a node has, and how
# many there are at all.
CPUS_PER_TASK = frozenset({"cpus-per-task", "tres-per-task"})
# With one of these even one CPU is what the job asks for, and not what a site gives it.
CPUS_ASKED_FOR = CPUS_PER_TASK | {"cpus-per-gpu"}
TASKS_PER_NODE = frozenset({"ntasks-per-node", "tasks-per-node"})
COUNTING_TASKS = TASKS_PER_NODE | {"ntasks", "ntasks-per-gpu", "gpus-per-task"}
# Variables that Slurm sets for an option alone, with its names. Source: sbatch(1) and srun(1),
# output environment variables.
OPTIONS_OF_VARIABLES = {
    "SLURM_GPUS": frozenset({"gpus"}),
    "SLURM_GPUS_PER_NODE": frozenset({"gpus-per-node"}),
    "SLURM_CPUS_PER_TASK": CPUS_PER_TASK,
    "SLURM_NTASKS_PER_NODE": TASKS_PER_NODE,
}
# The options that say how many CPUs a job has.
CPUS_OF_JOB = (
    *("cpus-per-task", "tres-per-task", "cpus-per-gpu", "mincpus", "ntasks-per-node", "ntasks"),
)
# Options of which a job has one alone: the last, as with two of the same name.
_RIVALS = (
    frozenset({"mem", "mem-per-cpu", "mem-per-gpu"}),
    frozenset({"cpus-per-task", "cpus-per-gpu"}),
    frozenset({"requeue", "no-requeue"}),
    frozenset({"chdir", "workdir"}),
    TASKS_PER_NODE,
)


class Takes(StrEnum):
    """Whether an option has a value."""

    VALUE = "value"
    OPTIONAL = "optional"  # only as --name=value
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Option:
    """An option.

    Attributes:
        name: its long name, without dashes.
        short: its letter; "" for none.
        takes: whether it has a value.
        outcome: what becomes of it, where nothing else says it.
        to: the value that has it; "" for none.
        why: the reason, where it is not carried as it is.
        of: the programs that know it.
    """

    name: str
    short: str
    takes: Takes
    outcome: Outcome
    to: str = ""
    why: str = ""
    of: tuple[str, ...] = ("sbatch", "srun")

    @property
    def title(self) -> str:
        """How a manual names it: ``-N, --nodes``."""
        return f"-{self.short}, --{self.name}" if self.short else f"--{self.name}"


@dataclass(frozen=True, slots=True)
class Setting:
    """An option as it was written.

    Attributes:
        name: the long name, as written or as its letter stands for; without dashes.
        value: the value; "" for none.
        line: where it stands in the script, from 1; 0 for the command line.
        option: the option; None where no manual has it.
        variable: the variable of who submits that it stands in; "" for none.
    """

    name: str
    value: str
    line: int
    option: Option | None
    variable: str = ""


_C, _X, _N = Outcome.CARRIED, Outcome.CHANGED, Outcome.NOT_CARRIED
_V, _O, _0 = Takes.VALUE, Takes.OPTIONAL, Takes.NOTHING
_BOTH, _SBATCH, _SRUN = ("sbatch", "srun"), ("sbatch",), ("srun",)
_PYXIS = ("sbatch", "srun", "pyxis")
_SBATCH = ("sbatch",)

_ACCOUNTING = "it is Slurm's own accounting, and changes nothing that runs"
_PINNING = (
    "which cores a process gets is the kubelet's to decide (its CPU manager and topology manager)"
)
_MAIL = (
    f"no mail is sent: `{names.CLI} events NAME --follow` and `{names.CLI} attach` show the same"
)
_HOST_FOLDER = (
    "a folder of the node is a volume of kind hostPath: give it a claim where the nodes do not "
    "share it"
)
_TERMINAL = "it is about the terminal of who submits"
_CORES = "a pod asks for CPUs, and not for sockets, cores and threads"
_LOG = f"what is written is the run's log: `{names.CLI} logs NAME`"
_SITE = "it is about Slurm's own installation"
_SAME = "it is how pods start anyway"
_ROOT = "say it in security.podSecurityContext, which the cluster may hold you to"

OPTIONS: tuple[Option, ...] = (
    # --- what a job is called, and who pays ---
    Option("job-name", "J", _V, _C, "NAME, the release"),
    Option(
        "account",
        "A",
        _V,
        _X,
        "labels.account",
        "an account is a label here; a queue has the quota",
    ),
    Option(
        "qos",
        "q",
        _V,
        _X,
        "labels.qos",
        "a quality of service is a label here; scheduling.priorityClassName has the priority",
    ),
    Option("comment", "", _V, _X, "annotations.comment", "a comment is an annotation"),
    Option("wckey", "", _V, _X, "labels.wckey", "a key of the accounting is a label here"),
    Option(
        "partition",
        "p",
        _V,
        _X,
        "--queue NAME",
        f"a partition is a queue of your team's, if it has one of the name: `{names.CLI} run`, "
        "`submit` and `sbatch` take it by --queue",
    ),
    Option(
        "reservation",
        "",
        _V,
        _N,
        "",
        "a cluster keeps no nodes for a job: name them by "
        "scheduling.nodeSelector, or wait in a queue",
    ),
    Option("priority", "", _V, _N, "", "write a class in scheduling.priorityClassName"),
    Option("nice", "", _O, _X, "", "a class in scheduling.priorityClassName says who goes first"),
    Option("licenses", "L", _V, _N, "", "a cluster counts no licenses"),
    Option("mcs-label", "", _V, _X, "", _ACCOUNTING),
    Option("uid", "", _V, _N, "", _ROOT),
    Option("gid", "", _V, _N, "", _ROOT),
    Option("acctg-freq", "", _V, _X, "", _ACCOUNTING),
    Option("profile", "", _V, _X, "", _ACCOUNTING),
    Option("extra", "", _V, _X, "annotations.extra", "a text about the job is an annotation"),
    # --- size ---
    Option("nodes", "N", _V, _C, "nodes"),
    Option("ntasks", "n", _V, _C, "nodes, procsPerNode"),
    Option("ntasks-per-node", "", _V, _C, "procsPerNode"),
    Option("tasks-per-node", "", _V, _C, "procsPerNode"),
    Option(
        "ntasks-per-gpu",
        "",
        _V,
        _X,
        "procsPerNode",
        "processes are counted for a node: each sees all GPUs of its pod, and is to take that of "
        "its local rank",
    ),
    Option("ntasks-per-core", "", _V, _X, "", _CORES),
    Option("ntasks-per-socket", "", _V, _X, "", _CORES),
    Option("cpus-per-task", "c", _V, _X, "resources.perPod", "CPUs are asked for a whole pod"),
    Option("cpus-per-gpu", "", _V, _X, "resources.perPod", "CPUs are asked for a whole pod"),
    Option("mincpus", "", _V, _X, "resources.perPod", "CPUs are asked for a whole pod"),
    Option("mem", "", _V, _C, "resources.perPod"),
    Option("mem-per-cpu", "", _V, _X, "resources.perPod", "memory is asked for a whole pod"),
    Option("mem-per-gpu", "", _V, _X, "resources.perPod", "memory is asked for a whole pod"),
    Option("tmp", "", _V, _X, "resources.perPod", "disk is asked as ephemeral-storage"),
    Option("gpus", "G", _V, _C, "gpus"),
    Option("gpus-per-node", "", _V, _C, "gpusPerNode"),
    Option(
        "gpus-per-task",
        "",
        _V,
        _X,
        "gpusPerNode",
        "GPUs are counted for a node: a process sees all of its pod's, and is to take that of its "
        "local rank",
    ),
    Option("gpus-per-socket", "", _V, _X, "gpusPerNode", "GPUs are counted for a node"),
    Option("gres", "", _V, _C, "gpusPerNode, gpuType"),
    Option("tres-per-task", "", _V, _X, "gpusPerNode", "GPUs are counted for a node"),
    Option("tres-per-job", "", _V, _X, "gpus", "GPUs are what a job asks for"),
    Option(
        "exclusive",
        "",
        _O,
        _X,
        "",
        "a pod has what it asks for, and others may be on its node: ask for all "
        "of its GPUs, CPUs and memory (a preset does), and for as much of /dev/shm (shm.size)",
    ),
    Option(
        "oversubscribe",
        "s",
        _0,
        _X,
        "",
        "a pod may use what its node has free unless it has limits",
    ),
    Option("share", "", _0, _X, "", "a pod may use what its node has free unless it has limits"),
    Option("overcommit", "O", _0, _X, "", "processes share the CPUs of their pod"),
    Option("use-min-nodes", "", _0, _C, "", "the fewest nodes are taken anyway"),
    Option("wait-all-nodes", "", _V, _C, "", "the launcher waits for all nodes anyway"),
    Option(
        "no-kill",
        "k",
        _O,
        _X,
        "torchrun.elastic",
        "a job goes on without a lost node only where torchrun.elastic allows it",
    ),
    Option("mem-update", "", _V, _X, "", "the memory of a pod stays as it is"),
    Option("resources", "", _V, _N, "", "write what your cluster calls it into resources.perPod"),
    # --- which nodes ---
    Option(
        "constraint", "C", _V, _X, "scheduling.affinity", "a feature of a node is a label of it"
    ),
    Option("prefer", "", _V, _X, "scheduling.affinity", "a feature of a node is a label of it"),
    Option("batch", "", _V, _N, "", "the script has no node of its own"),
    Option("cluster-constraint", "", _V, _N, "", "there is one cluster, that of your kubeconfig"),
    Option(
        "clusters",
        "M",
        _V,
        _N,
        "",
        "there is one cluster, that of your kubeconfig: choose it with --context",
    ),
    Option("nodelist", "w", _V, _X, "scheduling.affinity", "by the label kubernetes.io/hostname"),
    Option("nodefile", "F", _V, _N, "", "write the nodes of the file into scheduling.affinity"),
    Option("exclude", "x", _V, _X, "scheduling.avoidNodes", "by the label kubernetes.io/hostname"),
    Option("contiguous", "", _0, _X, "scheduling.topology", "nodes that are near each other"),
    Option("switches", "", _V, _X, "scheduling.topology", "nodes that are near each other"),
    Option("segment", "", _V, _X, "scheduling.topology", "nodes that are near each other"),
    Option(
        "consolidate-segments", "", _0, _X, "scheduling.topology", "nodes that are near each other"
    ),
    Option("spread-segments", "", _0, _X, "", "nodes that are near each other need no segments"),
    Option(
        "spread-job", "", _0, _X, "scheduling.topologySpreadConstraints", "say how pods are spread"
    ),
    Option("gres-flags", "", _V, _X, "", _PINNING),
    Option("network", "", _V, _N, "", "say what of the network a pod needs in network.rdma"),
    Option("power", "", _V, _X, "", _SITE),
    Option("reboot", "", _0, _X, "", "a node is not started again for a job"),
    Option("delay-boot", "", _V, _X, "", "a cluster's autoscaler decides when nodes come"),
    Option("stepmgr", "", _0, _X, "", _SITE),
    Option("thread-spec", "", _V, _X, "", _PINNING),
    Option("core-spec", "S", _V, _X, "", _PINNING),
    # --- cores and memory of a process ---
    Option("distribution", "m", _V, _X, "", "ranks are numbered node by node"),
    Option("extra-node-info", "B", _V, _X, "", _CORES),
    Option("sockets-per-node", "", _V, _X, "", _CORES),
    Option("cores-per-socket", "", _V, _X, "", _CORES),
    Option("threads-per-core", "", _V, _X, "", _CORES),
    Option("hint", "", _V, _X, "", _PINNING),
    Option("mem-bind", "", _V, _X, "", _PINNING),
    Option("cpu-freq", "", _V, _X, "", "a pod cannot set the clocks of a CPU"),
    Option(
        "gpu-bind",
        "",
        _V,
        _X,
        "",
        "a process sees all GPUs of its pod, and is to take that of its local rank",
    ),
    Option("gpu-freq", "", _V, _X, "", "a pod cannot set the clocks of a GPU"),
    Option("tres-bind", "", _V, _X, "", _PINNING),
    # --- time ---
    Option("time", "t", _V, _C, "runPolicy.activeDeadlineSeconds"),
    Option("time-min", "", _V, _X, "", "a job has one limit, that of --time"),
    Option(
        "begin",
        "b",
        _V,
        _N,
        "",
        "a job starts when there is room: submit it then, or let a CronJob do it",
    ),
    Option(
        "deadline",
        "",
        _V,
        _N,
        "",
        "a job has a limit from its start: runPolicy.activeDeadlineSeconds",
    ),
    Option(
        "dependency",
        "d",
        _V,
        _N,
        "",
        "no run waits for another: start it when that has ended, "
        f"`{names.CLI} wait FIRST && {names.CLI} run SECOND`",
    ),
    Option("kill-on-invalid-dep", "", _V, _X, "", "no run waits for another"),
    Option("hold", "H", _0, _C, "runPolicy.suspend"),
    Option("immediate", "I", _O, _X, "", "a job waits for its place"),
    Option(
        "signal",
        "",
        _V,
        _X,
        "runPolicy.checkpointSignal, runPolicy.terminationGracePeriodSeconds",
        "ranks get it as their pod ends, so long before it is killed",
    ),
    Option(
        "requeue", "", _0, _X, "runPolicy.backoffLimit", "a run that fails starts again, that often"
    ),
    Option(
        "no-requeue",
        "",
        _0,
        _X,
        "runPolicy.backoffLimit",
        "a failed run does not start again; a pod that its node has lost does",
    ),
    # --- arrays, and jobs of several parts ---
    Option(
        "array", "a", _V, _X, "sweep.parameters", "a job array is a sweep, a task of it a trial"
    ),
    Option("runtime", "", _V, _X, "scheduling.runtimeClassName", "a pod has the cluster's runtime"),
    # --- files ---
    Option("chdir", "D", _V, _C, "workingDir"),
    Option("workdir", "", _V, _C, "workingDir"),
    Option("output", "o", _V, _X, "", _LOG),
    Option("error", "e", _V, _X, "", _LOG),
    Option("input", "i", _V, _N, "", "a pod has no standard input: let the program read the file"),
    Option("open-mode", "", _V, _X, "", _LOG),
    Option("bb", "", _V, _N, "", "a burst buffer is a volume here: storage"),
    Option("bbf", "", _V, _N, "", "a burst buffer is a volume here: storage"),
    # --- environment ---
    Option("export", "", _V, _X, "env", "a pod has no environment of who submits"),
    Option("export-file", "", _V, _N, "", "write the variables of the file into env"),
    Option(
        "get-user-env", "", _O, _X, "", "a pod has no environment of who submits: write it into env"
    ),
    Option("propagate", "", _O, _X, "", "a pod has the limits that its container runtime sets"),
    # --- words about the job ---
    Option("mail-type", "", _V, _X, "", _MAIL),
    Option("mail-user", "", _V, _X, "", _MAIL),
    Option("wrap", "", _V, _C, "command", of=_SBATCH),
    Option(
        "wait",
        "W",
        _0,
        _X,
        "",
        f"`{names.CLI} run` waits, and gives the job's exit code",
        of=_SBATCH,
    ),
    Option("parsable", "", _0, _X, "", _TERMINAL),
    Option(
        "test-only",
        "",
        _0,
        _X,
        "",
        f"with it `{names.CLI} sbatch` starts nothing, as with --dry-run",
        of=_SBATCH,
    ),
    Option("test-only", "", _0, _N, "", "the step starts nothing, and the run does", of=_SRUN),
    Option("quiet", "Q", _0, _X, "", _TERMINAL),
    Option("verbose", "v", _0, _X, "", _TERMINAL),
    Option("help", "h", _0, _X, "", _TERMINAL),
    Option("usage", "", _0, _X, "", _TERMINAL),
    Option("version", "V", _0, _X, "", _TERMINAL),
    Option("ignore-pbs", "", _0, _X, "", "lines of PBS are not read", of=_SBATCH),
    Option(
        "oom-kill-step", "", _O, _X, "", "a container that is out of memory is killed as a whole"
    ),
    Option("x11", "", _O, _N, "", "a pod has no display"),
    Option(
        "container", "", _V, _N, "", "a pod cannot use a folder with an OCI bundle: write the image"
    ),
    Option("container-id", "", _V, _X, "", "a pod has a name of its own"),
    # --- Shifter ---
    Option("image", "", _V, _C, "image", of=_SBATCH),
    Option("volume", "", _V, _X, "podTemplate.spec.volumes", _HOST_FOLDER, of=_SBATCH),
    Option(
        "module", "", _V, _X, "", "what it adds to a container must be in the image", of=_SBATCH
    ),
    # --- the container engine of CSCS ---
    Option(
        "environment",
        "",
        _V,
        _N,
        "image",
        "its file names an image and mounts of the old cluster: give them as image and storage",
    ),
    # --- Pyxis ---
    Option("container-image", "", _V, _C, "image", of=_PYXIS),
    Option(
        "container-mounts",
        "",
        _V,
        _X,
        "podTemplate.spec.volumes",
        _HOST_FOLDER,
        of=_PYXIS,
    ),
    Option("container-workdir", "", _V, _C, "workingDir", of=_PYXIS),
    Option(
        "container-env",
        "",
        _V,
        _X,
        "",
        "the values win over the image's variables anyway",
        of=_PYXIS,
    ),
    Option("container-name", "", _V, _X, "", "a container lives as long as its pod", of=_PYXIS),
    Option("container-save", "", _V, _N, "", "a container is not saved: build an image", of=_PYXIS),
    Option(
        "container-mount-home",
        "",
        _0,
        _N,
        "",
        "a pod has no home of yours: give it a claim in storage.workspace",
        of=_PYXIS,
    ),
    Option("no-container-mount-home", "", _0, _C, "", "a pod has no home of yours", of=_PYXIS),
    Option(
        "container-remap-root",
        "",
        _0,
        _X,
        "security",
        "a pod runs as the image's user, unless it is root: "
        "say another in security.podSecurityContext",
        of=_PYXIS,
    ),
    Option("no-container-remap-root", "", _0, _C, "", "a pod runs as the image's user", of=_PYXIS),
    Option(
        "container-entrypoint",
        "",
        _0,
        _N,
        "",
        "the launcher stands in place of the image's entrypoint: call it in setup",
        of=_PYXIS,
    ),
    Option(
        "no-container-entrypoint", "", _0, _C, "", "the image's entrypoint is not run", of=_PYXIS
    ),
    Option("container-entrypoint-log", "", _0, _X, "", _LOG, of=_PYXIS),
    Option(
        "container-writable", "", _0, _C, "", "a container may write into its own files", of=_PYXIS
    ),
    Option(
        "container-readonly",
        "",
        _0,
        _X,
        "security.containerSecurityContext",
        "readOnlyRootFilesystem",
        of=_PYXIS,
    ),
    Option("container-unshare", "", _V, _X, "", "a pod has namespaces of its own", of=_PYXIS),
    # --- srun alone ---
    Option("mpi", "", _V, _X, "workload: mpi", "mpirun starts the ranks", of=_SRUN),
    Option("label", "l", _0, _C, "torchrun.rankPrefix", of=_SRUN),  # of mpirun: rank_labels
    Option(
        "unbuffered",
        "u",
        _0,
        _C,
        "",
        "lines come as they are written: PYTHONUNBUFFERED is set",
        of=_SRUN,
    ),
    Option("kill-on-bad-exit", "K", _O, _C, "", "the ranks end together", of=_SRUN),
    Option("wait", "W", _V, _C, "", "the ranks end together", of=_SRUN),
    Option("cpu-bind", "", _V, _X, "", _PINNING, of=_SRUN),
    Option("cpu_bind", "", _V, _X, "", _PINNING, of=_SRUN),
    Option("mem_bind", "", _V, _X, "", _PINNING, of=_SRUN),
    Option(  # of HyperPod's plugin
        "auto-resume",
        "",
        _V,
        _X,
        "",
        "a pod that its node has lost starts again on another one",
        of=_SRUN,
    ),
    Option("accel-bind", "", _V, _X, "", _PINNING, of=_SRUN),
    Option("exact", "", _0, _X, "", "a run has the whole job", of=_SRUN),
    Option("overlap", "", _0, _X, "", "a run has the whole job", of=_SRUN),
    Option("het-group", "", _V, _N, "", "a run has one kind of pods", of=_SRUN),
    Option("pack-group", "", _V, _N, "", "a run has one kind of pods", of=_SRUN),
    Option(
        "multi-prog", "", _0, _N, "", "all ranks run one program: let it look at RANK", of=_SRUN
    ),
    Option("relative", "r", _V, _N, "", "a run has the whole job", of=_SRUN),
    Option("bcast", "", _O, _X, "", f"code is sent with `{names.CLI} submit`", of=_SRUN),
    Option("bcast-exclude", "", _O, _X, "", f"code is sent with `{names.CLI} submit`", of=_SRUN),
    Option("compress", "", _O, _X, "", f"code is sent with `{names.CLI} submit`", of=_SRUN),
    Option("send-libs", "", _O, _X, "", f"code is sent with `{names.CLI} submit`", of=_SRUN),
    Option(
        "pty", "", _O, _X, "", f"`{names.CLI} exec NAME -it -- bash` gives a terminal", of=_SRUN
    ),
    Option("preserve-env", "E", _0, _X, "", "each rank is told its own size", of=_SRUN),
    Option("prolog", "", _V, _N, "", "write it into setup", of=_SRUN),
    Option("task-prolog", "", _V, _N, "", "write it into setup", of=_SRUN),
    Option("epilog", "", _V, _N, "", "let the program do at its end what has to be done", of=_SRUN),
    Option(
        "task-epilog", "", _V, _N, "", "let the program do at its end what has to be done", of=_SRUN
    ),
    Option("jobid", "", _V, _X, "", "a run is its own job", of=_SRUN),
    Option("disable-status", "X", _0, _X, "", _TERMINAL, of=_SRUN),
    Option("quit-on-interrupt", "", _0, _X, "", _TERMINAL, of=_SRUN),
    Option("interactive", "", _0, _X, "", _TERMINAL, of=_SRUN),
    Option("join", "j", _0, _X, "", _TERMINAL, of=_SRUN),
    Option("no-allocate", "Z", _0, _X, "", _SITE, of=_SRUN),
    Option("msg-timeout", "", _V, _X, "", _SITE, of=_SRUN),
    Option("slurmd-debug", "", _V, _X, "", _SITE, of=_SRUN),
    Option("threads", "T", _V, _X, "", _SITE, of=_SRUN),
    Option("treewidth", "", _V, _X, "", _SITE, of=_SRUN),
    Option("resv-ports", "", _O, _X, "", "the launcher gives the ranks their ports"),
    Option("external", "", _0, _X, "", _SITE, of=_SRUN),
    Option("whole", "", _0, _X, "", "a run has the whole job", of=_SRUN),
    Option("async", "", _0, _N, "", "the run is over when its ranks are", of=_SRUN),
    Option("external-launcher", "", _0, _X, "", "the launcher starts the ranks", of=_SRUN),
    Option("ignore-signals", "", _V, _X, "", _TERMINAL, of=_SRUN),
    Option(
        "wait-for-children",
        "",
        _0,
        _X,
        "",
        "a pod ends with its rank, and all that it started",
        of=_SRUN,
    ),
    # --- heterogeneous jobs: a directive of its own ---
    Option(
        "hetjob",
        "",
        _0,
        _N,
        "",
        "the pods of a run are alike: make a values file of each part",
        of=_SBATCH,
    ),
    Option(
        "packjob",
        "",
        _0,
        _N,
        "",
        "the pods of a run are alike: make a values file of each part",
        of=_SBATCH,
    ),
)


# Beginnings of names that begin others, too, and that sites write for one of them.
_IN_USE = {"cluster": "clusters"}


def of(program: str) -> tuple[Option, ...]:
    """The options that a program knows."""
    return tuple(option for option in OPTIONS if program in option.of)


def parse(words: Sequence[str], program: str, line: int) -> tuple[list[Setting], list[str]]:
    """The options at the head of a command line, and the words after them, as getopt reads them.

    Args:
        words: without the program's own name, unquoted.
        program: sbatch or srun.
        line: where they stand.
    """
    options = of(program)
    long = {option.name: option for option in options}
    short = {option.short: option for option in options if option.short}
    settings: list[Setting] = []
    rest = list(words)
    while rest:
        word = rest[0]
        if word == "--":
            return settings, rest[1:]
        if word.startswith("--"):
            _parse_long(rest, long, settings, line)
        elif word.startswith("-") and word != "-":
            _parse_short(rest, short, settings, line)
        else:
            break
    return settings, rest


def nearest(name: str, program: str) -> str:
    """The option that an unknown one is meant to be; "" for none.

    Args:
        name: the unknown one, without dashes.
        program: sbatch or srun.
    """
    return nearest_word(name, [option.name for option in of(program)]) if len(name) > 1 else ""


def _parse_long(
    rest: list[str], long: dict[str, Option], settings: list[Setting], line: int
) -> None:
    name, equals, value = rest.pop(0)[2:].partition("=")
    option = long.get(_IN_USE.get(name, name))
    if option is None:
        likely = [option_name for option_name in long if name and option_name.startswith(name)]
        option = long[likely[0]] if len(likely) == 1 else None
    if option is None:
        settings.append(Setting(name, value, line, None))
        return
    if option.takes == Takes.VALUE and not equals and rest:
        value = rest.pop(0)
    settings.append(Setting(option.name, value, line, option))


def _parse_short(
    rest: list[str], short: dict[str, Option], settings: list[Setting], line: int
) -> None:
    letters = rest.pop(0)[1:]
    while letters:
        letter, letters = letters[0], letters[1:]
        option = short.get(letter)
        value = ""
        if option is None:
            settings.append(Setting(letter, letters, line, None))
            return
        if option.takes != Takes.NOTHING:
            value, letters = letters, ""
            if not value and option.takes == Takes.VALUE and rest:
                value = rest.pop(0)
            # Slurm's getopt keeps the sign of -N=2, and people write it.
            value = value.removeprefix("=")
        settings.append(Setting(option.name, value, line, option))


def rivals(settings: Sequence[Setting]) -> list[tuple[Setting, Setting]]:
    """Each setting that a later one of another name stands in the place of, with that one.

    Args:
        settings: in their order, the command line's behind the script's.
    """
    pairs = []
    for group in _RIVALS:
        own = [setting for setting in settings if setting.name in group and setting.option]
        pairs += [(setting, own[-1]) for setting in own if setting.name != own[-1].name]
    return pairs


def standing(settings: Sequence[Setting]) -> list[Setting]:
    """The settings without those that a later one of another name stands in the place of.

    Args:
        settings: in their order, the command line's behind the script's.
    """
    replaced = [setting for setting, _ in rivals(settings)]
    return [setting for setting in settings if setting not in replaced]


def words_of_directive(text: str) -> list[str]:
    """The words of a line behind ``#SBATCH``, as sbatch splits it: quotes, and # for a comment."""
    return split_directive(text)[0]


def split_directive(text: str) -> tuple[list[str], str]:
    """The words of a line behind ``#SBATCH``, and the comment behind them; "" for none.

    It begins inside of a word, too; in the name of an image a # is Pyxis' sign.

    Args:
        text: the line, behind ``#SBATCH``.
    """
    words: list[str] = []
    word, is_open, quote = "", False, ""
    at = 0
    while at < len(text):
        char = text[at]
        if quote:
            if char == quote:
                quote = ""
            elif char == "\\" and quote == '"' and at + 1 < len(text):
                at += 1
                word += text[at]
            else:
                word += char
        elif char in "'\"":
            quote, is_open = char, True
        elif char == "\\" and at + 1 < len(text):
            at += 1
            word, is_open = word + text[at], True
        elif char.isspace():
            if is_open:
                words.append(word)
            word, is_open = "", False
        elif char == "#" and not word.startswith("--container-image"):
            break
        else:
            word, is_open = word + char, True
        at += 1
    if is_open:
        words.append(word)
    return words, text[at:].strip().lstrip("#").strip()


# What the directives of other batch systems begin with.
_FOREIGN_SIGNS = ("#PBS ", "#BSUB ", "#$ -", "#COBALT ", "#OAR ")


@dataclass(frozen=True, slots=True)
class Directives:
    """What the directives of a script say.

    Attributes:
        settings: in their order.
        late: lines that sbatch does not read, because a command stands above them.
        stray: words on a directive's line that are no option, with their lines; behind an option
            that has its value after a blank, with it: ``--time= 5``.
        foreign: the signs of other batch systems, with their lines.
        first_command: the line of the first command, from 1; past the end for none.
    """

    settings: tuple[Setting, ...]
    late: tuple[int, ...]
    stray: tuple[tuple[str, int], ...]
    foreign: tuple[tuple[str, int], ...]
    first_command: int


def _is_without_value(setting: Setting) -> bool:
    """Whether an option has no value and needs one: ``--time=`` with a blank behind it."""
    option = setting.option
    return option is not None and option.takes == Takes.VALUE and not setting.value


def _wants_value(setting: Setting, last: str) -> bool:
    """Whether an option at the end of a line has no value there, and needs one: ``-p``.

    Args:
        setting: what was read of it.
        last: the last word of the line.
    """
    return _is_without_value(setting) and last.startswith("-") and "=" not in last


def directives(lines: Iterable[str]) -> Directives:
    """Read the directives of a script.

    Args:
        lines: its lines.
    """
    settings: list[Setting] = []
    late_lines: list[int] = []
    stray: list[tuple[str, int]] = []
    foreign: list[tuple[str, int]] = []
    unfinished = ""  # an option whose value the next line may have
    first = 0
    number = 0
    for number, text in enumerate(lines, 1):
        if text.startswith("#SBATCH") and (text[7:8].isspace() or text[7:8] in ("", "-")):
            if first:
                late_lines.append(number)
                continue
            words = words_of_directive(text[7:])
            if unfinished and words and not words[0].startswith("-"):
                # sbatch reads the words of all lines as those of one.
                line_before = settings.pop().line
                settings += parse([unfinished, words.pop(0)], "sbatch", line_before)[0]
            unfinished = ""
            while words:
                if words[0] in ("hetjob", "packjob"):
                    option = next(option for option in OPTIONS if option.name == words[0])
                    settings.append(Setting(words.pop(0), "", number, option))
                    continue
                last = words[-1]
                parsed, words = parse(words, "sbatch", number)
                settings += parsed
                is_open = not words and bool(parsed) and _wants_value(parsed[-1], last)
                unfinished = last if is_open else ""
                if words:
                    word = words.pop(0)
                    if parsed and _is_without_value(parsed[-1]):
                        word = f"--{settings.pop().name}= {word}"
                    stray.append((word, number))
        elif not first and (sign := next(filter(text.startswith, _FOREIGN_SIGNS), "")):
            foreign.append((sign.split()[0], number))
        elif not first and text.strip() and not text.lstrip().startswith("#"):
            first = number
    return Directives(
        tuple(settings), tuple(late_lines), tuple(stray), tuple(foreign), first or number + 1
    )
