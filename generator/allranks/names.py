"""Every label, annotation, reason and well-known name, in one place.

Charts, post-renderer, local runtime and operator meet in these strings; a string that two of them
share stands here and nowhere else in Python. The charts' copies are held equal by a test.
"""

from __future__ import annotations

DOMAIN = "allranks.dev"
FIELD_MANAGER = "allranks"

# Labels of ours, on objects and pods.
WORKLOAD = f"{DOMAIN}/workload"  # torchrun | mpi | elastic | sweep
ROLE = f"{DOMAIN}/role"  # node | launcher | worker | ps | chief | evaluator | scheduler | ...
GROUP = f"{DOMAIN}/group"  # launcher | worker | worker-last: the controllers that share a role
QUEUE = f"{DOMAIN}/queue"  # the release of charts/queue that a job is held to
RANK = f"{DOMAIN}/rank"  # pods only: the pod's index in its role, which torch calls the node rank

# Annotations: what a chart asks of the post-renderer, as one JSON object each.
SCHEDULING = f"{DOMAIN}/scheduling"
PLACEMENT = f"{DOMAIN}/placement"
FABRIC = f"{DOMAIN}/fabric"
# Annotations: which of a queue's revisions a job was made with; on the queue itself, its own.
QUEUE_REVISION = f"{DOMAIN}/queue-revision"
# Annotations: what the post-renderer and the generator record.
GENERATOR_VERSION = f"{DOMAIN}/generator-version"
VALUES_DIGEST = f"{DOMAIN}/values-digest"
LAYOUT_HASH = f"{DOMAIN}/layout-hash"
WORKSPACE_DIGEST = f"{DOMAIN}/workspace-digest"  # on what runs the code and what holds it
ENTRY_DIGEST = f"{DOMAIN}/entry-digest"  # on pods: changes with what is mounted beside the command

# On a StatefulSet without pods: how many it had when it was suspended.
SUSPENDED_REPLICAS = f"{DOMAIN}/suspended-replicas"

# A document of this kind stops a plain `helm install`: what was asked needs the post-renderer,
# which removes the document. No cluster serves the kind, so nothing is applied without it.
SENTINEL_API_VERSION = f"{DOMAIN}/v1alpha1"
SENTINEL_KIND = "PostRendererRequired"

# Kubernetes' recommended labels.
APP_NAME = "app.kubernetes.io/name"
APP_INSTANCE = "app.kubernetes.io/instance"
APP_COMPONENT = "app.kubernetes.io/component"
APP_MANAGED_BY = "app.kubernetes.io/managed-by"
APP_PART_OF = "app.kubernetes.io/part-of"
APP_VERSION = "app.kubernetes.io/version"
# The annotations by which Helm knows its objects.
HELM_RELEASE = "meta.helm.sh/release-name"
HELM_RELEASE_NAMESPACE = "meta.helm.sh/release-namespace"
HELM_NAMESPACE = "meta.helm.sh/release-namespace"
PART_OF = "allranks"

# Helm.
HELM_CHART = "helm.sh/chart"
HELM_HOOK = "helm.sh/hook"
HELM_RESOURCE_POLICY = "helm.sh/resource-policy"
HELM_POSTRENDER_FILENAME = "postrenderer.helm.sh/postrender-filename"
HELM_RELEASE_NAME_MAX = 53
DNS_LABEL_MAX = 63

# What the post-renderer needs of a scheduler's dialect, and the rules between values ask for.
KAI_TOPOLOGY = "kai.scheduler/topology"
# Volcano counts tiers of HyperNodes from the nodes up; nodes of one rack share the first.
VOLCANO_TIERS = {"rack": 1, "block": 2}

# Kubernetes' own labels on Job and StatefulSet pods.
JOB_COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
JOB_NAME = "batch.kubernetes.io/job-name"
POD_INDEX = "apps.kubernetes.io/pod-index"
STATEFULSET_POD_NAME = "statefulset.kubernetes.io/pod-name"
HOSTNAME = "kubernetes.io/hostname"

# Workloads and the chart of each.
ELASTIC = "elastic"
WORKLOADS = ("torchrun", "mpi", ELASTIC, "sweep")
# Charts that are no workload: the operator, what stays with a sweep inside a cluster, and a team's
# queue.
OPERATOR = "operator"
SWEEP_RUNNER = "sweep-runner"
QUEUE_CHART = "queue"
OTHER_CHARTS = (OPERATOR, SWEEP_RUNNER, QUEUE_CHART)

# The role of pods that say none.
ROLE_NODE = "node"
# The role whose end is the end of the run, whatever the pods of other roles do.
ROLE_LAUNCHER = "launcher"

# Programs.
CLI = "allranks"
POSTRENDER = "allranks-postrender"
# The plugin of `helm sweep`; helm knows it by this name.
SWEEP_PLUGIN = "sweep"

# Environment the command line reads.
ENV_HELM = "ALLRANKS_HELM"
ENV_STATE = "ALLRANKS_STATE"
ENV_COMPLETION_SECONDS = "ALLRANKS_COMPLETION_SECONDS"
ENV_REPORT = "ALLRANKS_REPORT"
ENV_CHARTS = "ALLRANKS_CHARTS"
ENV_IDENTITY = "ALLRANKS_IDENTITY"  # who writes a journal, for a person; the pod inside a cluster

# Environment that a workload's entry sets and a user's `env` therefore may not.
RESERVED_ENV_PREFIXES = ("PET_", "ALLRANKS_")
RESERVED_ENV = (
    "JOB_COMPLETION_INDEX",
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "GROUP_RANK",
    "GROUP_WORLD_SIZE",
    "ROLE_RANK",
    "ROLE_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "TORCHELASTIC_RUN_ID",
    "TORCHELASTIC_RESTART_COUNT",
    "TORCHELASTIC_MAX_RESTARTS",
)

# The same for mpirun: what the launcher sets, and what an MPI gives each of its ranks.
RESERVED_ENV_PREFIXES_MPI = ("ALLRANKS_", "OMPI_COMM_WORLD_", "PMI_", "PMIX_RANK")
RESERVED_ENV_MPI = ("JOB_COMPLETION_INDEX", "K_MPI_JOB_ROLE")

# The same for an elastic job, besides what its framework reads; in mode auto the operator's.
RESERVED_ENV_PREFIXES_ELASTIC = ("ALLRANKS_",)
RESERVED_ENV_ELASTIC_JOB = (
    *("TF_CONFIG", "RANK", "WORLD_SIZE", "POD_NAME", "POD_IP", "NODE_IP"),
    *("NODE_TYPE", "NODE_ID", "NODE_NUM", "NODE_RANK", "PET_NPROC_PER_NODE", "PET_NO_PYTHON"),
)

# The local runtime. Each process of a local pod carries these, so that it is found again whatever
# session or parent it has moved to.
ENV_RUN = "ALLRANKS_RUN"  # the folder of the run
ENV_POD_UID = "ALLRANKS_POD_UID"  # the pod, one attempt of it
ENV_CONTAINER_ID = "ALLRANKS_CONTAINER_ID"  # the container, one start of it
ENV_SUPERVISOR = "ALLRANKS_SUPERVISOR"  # on the supervisor itself: the folder of its run
# What an MPI job's pods are told, and this machine may tell them otherwise.
ENV_MPI_TRANSPORT = "ALLRANKS_MPI_TRANSPORT"  # ssh | exec | local
ENV_MPI_LOCAL_MAP = "ALLRANKS_MPI_LOCAL_MAP"  # for local: the file that says where each pod is
ENV_MPI_ADDRESS = "ALLRANKS_MPI_ADDRESS"  # what sshd listens on, where not on all addresses
ENV_MPI_CLEAN = "ALLRANKS_MPI_CLEAN"  # cleanPodPolicy: None | Running | All
ENV_MPI_WRAP = "ALLRANKS_MPI_WRAP"  # 1 where the launcher puts mpirun before the command
ENV_PROGRESS = "ALLRANKS_PROGRESS"  # a folder that a launcher and its ranks share; log: without one
# Seconds of back-off per second of Kubernetes' own, for retries on this machine.
ENV_BACKOFF_SCALE = "ALLRANKS_BACKOFF_SCALE"

# Kubernetes' own labels on Job pods; the older ones are still set beside the prefixed ones.
JOB_NAME_LEGACY = "job-name"
JOB_CONTROLLER_UID = "batch.kubernetes.io/controller-uid"
JOB_CONTROLLER_UID_LEGACY = "controller-uid"
# Annotations of pods of an Indexed Job with a limit per index: how often that index has failed.
JOB_INDEX_FAILURE_COUNT = "batch.kubernetes.io/job-index-failure-count"
JOB_INDEX_IGNORED_FAILURE_COUNT = "batch.kubernetes.io/job-index-ignored-failure-count"
KUEUE_QUEUE = "kueue.x-k8s.io/queue-name"
# How many nodes a torchrun job has, on its pods: "4", or "2:4" where it is elastic.
ENV_NODES = "PET_NNODES"
# How many processes each of them has, and what else decides which ranks a pod gets.
ENV_PROCESSES = "PET_NPROC_PER_NODE"
ENV_SPARES = "ALLRANKS_SPARES"
ENV_NODE_RANK = "ALLRANKS_NODE_RANK"
# What torchft's own programs read, on pods that are replica groups: which lighthouse they meet at,
# which group a pod is, and of how many.
ENV_LIGHTHOUSE = "TORCHFT_LIGHTHOUSE"
ENV_REPLICA_GROUP = "REPLICA_GROUP_ID"
ENV_REPLICA_GROUPS = "NUM_REPLICA_GROUPS"
ENV_STATIC_RANK = "PET_NODE_RANK"
ENV_LOCAL_ADDRESS = "PET_LOCAL_ADDR"
# On containers whose lines bear the rank that wrote them, "[3] ", as `charts/torchrun` asks for it.
ENV_RANK_PREFIX = "ALLRANKS_RANK_PREFIX"
# How many hosts an MPI job begins with, on its launcher.
ENV_MPI_MIN_HOSTS = "ALLRANKS_MPI_MIN_HOSTS"
ENV_MPI_PROCESSES = "ALLRANKS_MPI_NP"

# Kueue marks the Workload of a Job with the Job's uid.
KUEUE_JOB_UID = "kueue.x-k8s.io/job-uid"

# The status object of a release, and the resources of elastic jobs. The group of the latter is the
# one that DLRover's masters speak, so an unmodified one works.
API_VERSION = f"{DOMAIN}/v1alpha1"
TRAINING_RUN, TRAINING_RUNS = "TrainingRun", "trainingruns"
ELASTIC_GROUP = "elastic.iml.github.io"
TORCHRUN_GROUP = "torchrun.ai"  # of TorchrunJob and TorchrunQueue, which are read as values
ELASTIC_API_VERSION = f"{ELASTIC_GROUP}/v1alpha1"
ELASTIC_JOB, ELASTIC_JOBS = "ElasticJob", "elasticjobs"
SCALE_PLAN, SCALE_PLANS = "ScalePlan", "scaleplans"

# The operator. What it signs with keeps the program's old name: field manager, managed-by, source
# of its Events, and its own Lease, which two versions must not hold at once.
OPERATOR_PROGRAM = "allranks-operator"
OPERATOR_MANAGER = "allranks-watcher"
LACKS = f"{DOMAIN}/lacks"  # on its Lease: the rights that it should have and has not
MASTER_PROGRAM = MASTER_ACCOUNT = "allranks-master"

# Annotations of ours on controllers, jobs and pods.
LEAD = f"{DOMAIN}/lead"  # on controllers: their end is the end of the run
STATUS = f"{DOMAIN}/status"  # "off": no TrainingRun is wanted
SWEEP = f"{DOMAIN}/sweep"  # on the Jobs of a grid: what is tried and judged, as JSON
# The type of the Secrets of a sweep inside the cluster, by which a list can leave them out.
SWEEP_SECRET = f"{DOMAIN}/sweep-journal"
# On them: whose it is; who may append; that the next one goes on.
SWEEP_JOURNAL = f"{DOMAIN}/journal"
SWEEP_WRITER = f"{DOMAIN}/writer"
SWEEP_SEALED = f"{DOMAIN}/sealed"
SWEEP_STOP = f"{DOMAIN}/stop"  # on its Lease: why the sweep is to end
SWEEP_HOLDER = f"{DOMAIN}/holder"  # on its Lease, too: which process of which machine has it
TRIAL = f"{DOMAIN}/trial"  # on helm's record of a trial: its number; a label, as SWEEP is there
# On helm's record of a trial, too: which of the sweeps of that name, and who began it.
SWEEP_ID = f"{DOMAIN}/sweep-id"
SWEEP_BY = f"{DOMAIN}/begun-by"
PROGRESS = f"{DOMAIN}/progress"  # on pods: how far the training is
LAUNCHER_LINE = "allranks: "  # in a pod's log: a sentence of its launcher follows
PROGRESS_LINE = "allranks: progress "  # in the log of rank 0's pod: JSON follows

# A workspace's snapshot: the label by which its objects are told from others, and which of them
# belong together; what a controller and its pods were started with; what else is on the objects.
WORKSPACE = f"{DOMAIN}/workspace"  # the first twelve digits of the digest
WORKSPACE_COMMIT = f"{DOMAIN}/workspace-commit"
WORKSPACE_BRANCH = f"{DOMAIN}/workspace-branch"
WORKSPACE_DIRTY = f"{DOMAIN}/workspace-dirty"  # "true" where the folder differed from the commit
WORKSPACE_ARCHIVE = f"{DOMAIN}/workspace-archive"  # the digest of the archive
WORKSPACE_COMPRESSION = f"{DOMAIN}/workspace-compression"  # gzip | xz
WORKSPACE_PART = f"{DOMAIN}/workspace-part"  # which piece it is, of how many: "0/3"
WORKSPACE_PREFIX = "ws-"  # of the names of these objects
WORKSPACE_ARCHIVE_KEY = "archive.{}"  # of a ConfigMap: the piece of the archive, by its number
WORKSPACE_DIFF_KEY = "diff.gz"  # of the first one: how the folder differed from the commit
MASTER = f"{DOMAIN}/master"  # on an ElasticJob: own | given | external
MASTER_EXIT_CODE = f"{DOMAIN}/master-exit-code"  # how an external master ended
EDIT = f"{DOMAIN}/edit"  # on a plan: the counts in its job's spec that it was made of, as JSON
WHY = f"{DOMAIN}/why"  # on a plan of our master: the reason, in one sentence
RELAUNCH = f"{DOMAIN}/relaunch"  # on an ElasticJob: watcher | master: who replaces failed pods

# Labels that DLRover's master reads; all five are asked of each pod.
EDL_APP = "dlrover"
EDL_NAME = "elasticjob.dlrover/name"
EDL_TYPE = "elasticjob.dlrover/replica-type"
EDL_INDEX = "elasticjob.dlrover/replica-index"
EDL_RANK = "elasticjob.dlrover/rank-index"
EDL_RELAUNCHES = "elasticjob.dlrover/relaunch-count"
EDL_NAME_OLD = "elasticjob-name"  # on plans of old samples
QUEUE_PREFIX = "allranks-queue-"  # of the ConfigMap that is a queue
# Its keys.
QUEUE_FILE, QUEUE_DEFAULTS = "queue.yaml", "defaults.yaml"
QUEUE_RULES, QUEUE_IMPOSED = "rules.yaml", "imposed.yaml"
HISTORY_SUFFIX = "-history"  # of the ConfigMap in which our master keeps how a job went
SCALE_TYPE = "scale-type"  # on plans: auto | manual

# The replica types of an elastic job; the master's is written so in a job's replicaSpecs.
EDL_MASTER = "dlrover-master"
ROLE_MASTER, ROLE_WORKER, ROLE_PS, ROLE_CHIEF = "master", "worker", "ps", "chief"
ROLE_EVALUATOR, ROLE_TRIAL = "evaluator", "trial"

# A pod of a static elastic job ends with it because another one has failed (files/follow.py).
EXIT_TRAINING_LOST = 216
# A pod ends with it whose workspace cannot be unpacked (files/workspace.sh); no restart mends that.
EXIT_WORKSPACE = 217
# A rank is blamed with it for a stall that `runPolicy.onStall` ends (files/stall.py).
EXIT_STALLED = 218
# How the launcher begins its line on a preflight, which is JSON (files/preflight.py).
PREFLIGHT_LINE = "allranks: preflight "
# A preflight has found something wrong with a node, or between nodes (files/preflight.py).
EXIT_PREFLIGHT = 219
# A launcher asks Kubernetes by it to start the pod's containers again where they are; by the other
# one it ends where none of these starts is left, and its own code would ask for one more
# (files/in_place.py).
EXIT_RESTART, EXIT_NO_RESTART_LEFT = 220, 221

# Our master's verdict begins with it, wherever it is left: in its own termination message, and in
# those of the workers that end because of it. So whoever replaces pods knows that all is over.
JOB_HAS_FAILED = "the job has failed: "

# So begin the termination messages of torchrun pods whose ranks fell with another one's: the first
# goes on with that rank, its pod, exit code and last lines; the second where it left no word.
FAILED_FIRST = "failed first: "
PEER_LOST = "lost a peer: "

ENV_PREFIX = "ALLRANKS_"  # of every variable that a job sets itself
# What the pods of an elastic job are told.
ENV_NAMESPACE = "ALLRANKS_NAMESPACE"
ENV_JOB = "ALLRANKS_JOB"  # the name of the elastic job
ENV_MASTER_ADDR = "ALLRANKS_MASTER_ADDR"  # host:port of the job's master
ENV_MASTER_PORT = "ALLRANKS_MASTER_PORT"  # on the master: what it listens on
ENV_MASTER_FOLDER = "ALLRANKS_MASTER_FOLDER"  # on the master: in place of an API server
ENV_MASTER_TOKEN = "ALLRANKS_MASTER_TOKEN"  # noqa: S105 - a name; what a job's pods show to its master
TOKEN_KEY = "token"  # noqa: S105 - a name; of the Secret that it stands in
ENV_MASTER_OPTIONS = "ALLRANKS_MASTER_OPTIONS"  # on the master: its options, as JSON
ENV_TERMINATION_LOG = "ALLRANKS_TERMINATION_LOG"  # where the reason of a failure goes
# What a trial of a sweep is told of itself.
ENV_SWEEP = "ALLRANKS_SWEEP"  # the sweep's name
ENV_TRIAL = "ALLRANKS_TRIAL"  # its number, from 0
ENV_TRIAL_NAME = "ALLRANKS_TRIAL_NAME"  # its own name, which ${sweep.trial} stands for
ENV_ROLE = "ALLRANKS_ROLE"
ENV_ROLE_RANK = "ALLRANKS_ROLE_RANK"
ENV_PS_HOSTS = "ALLRANKS_PS_HOSTS"  # host:port of each parameter server, with commas
