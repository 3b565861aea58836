"""Names of other tools for keys of our values.

Keys are folded: lower case, letters and digits only, parts of a path joined by dots. A name
without a dot is taken at any depth. The tables of a workload are looked at before those of all.
"""

from __future__ import annotations

from allranks import names

# The same thing, under our name.
ELSEWHERE = {
    # options of launchers
    "nnodes": "nodes",
    "nprocpernode": "procsPerNode",
    "nproc": "procsPerNode",
    # job operators
    "replicas": "nodes",
    "numnodes": "nodes",
    "parallelism": "nodes",
    "completions": "nodes",
    "workers": "nodes",
    "numworkers": "nodes",
    "worldsize": "gpus",
    "numgpus": "gpus",
    "ngpus": "gpus",
    "gpucount": "gpus",
    "numprocpernode": "procsPerNode",
    "gputypes": "gpuType",
    "retries": "runPolicy.backoffLimit",
    "timeout": "runPolicy.activeDeadlineSeconds",
    "queuename": "queue",
    "schedulingpolicy.queue": "queue",
    "scheduletimeoutseconds": "scheduling.gangTimeoutSeconds",
    "priorityclass": "scheduling.priorityClassName",
    "priority": "scheduling.priorityClassName",
    "runtimeclass": "scheduling.runtimeClassName",
    "spot": "scheduling.tolerations",
    # plain Kubernetes
    "imagepullpolicy": "image.pullPolicy",
    "pullsecrets": "imagePullSecrets",
    "imagepullsecret": "imagePullSecrets",
    "image.name": "image.repository",
    "image.image": "image.repository",
    "image.registry": "image.repository, with the registry in front",
    "image.version": "image.tag",
    "serviceaccountname": "serviceAccount.name",
    "automountserviceaccounttoken": "serviceAccount.automountToken",
    "environment": "env",
    "envvars": "env",
    "entrypoint": "command",
    "cmd": "command",
    "arguments": "args",
    "workdir": "workingDir",
    "cwd": "workingDir",
    "prerun": "setup",
    "init": "setup",
    "resources.requests": "resources.perPod.requests",
    "resources.limits": "resources.perPod.limits",
    "requests": "resources.perPod.requests",
    "limits": "resources.perPod.limits",
    "resources.cpu": "resources.perGpu.cpu or resources.perPod.requests.cpu",
    "resources.memory": "resources.perGpu.memory or resources.perPod.requests.memory",
    "shmsize": "shm.size",
    "sharedmemory": "shm.size",
    "securitycontext": "security.podSecurityContext or security.containerSecurityContext",
    "podsecuritycontext": "security.podSecurityContext",
    "containersecuritycontext": "security.containerSecurityContext",
    "podannotations": "podTemplate.metadata.annotations",
    "podlabels": "podTemplate.metadata.labels",
    "storageclass": "storage.checkpoints.storageClassName",
    "pvc": "storage.workspace.existingClaim",
    "rdma.enabled": "network.rdma.enabled",
}

# What has no place in the values, and what to do instead.
REMARKS = {
    "name": "remove it; the release's name is the job's name",
    "jobname": "remove it; the release's name is the job's name",
    "nameoverride": "remove it; names come from the release, so that no two jobs collide",
    "fullnameoverride": "remove it; names come from the release, so that no two jobs collide",
    "namespace": "remove it; give the namespace on the command line, as -n NAMESPACE",
    "kind": "remove it; this is a values file, not a manifest",
    "apiversion": "remove it; this is a values file, not a manifest",
    "spec": "write its fields at the root; this is a values file, not a manifest",
    "metadata": "use labels and annotations at the root, or podTemplate.metadata",
    "schedulingpolicy": "use queue, scheduling.priorityClassName and scheduling.gangTimeoutSeconds",
    "minavailable": "remove it; a gang is all nodes of the job",
    "minresources": "remove it; the scheduler counts the pods",
    "managedby": "remove it; see scheduling.dialect",
    "noderank": "remove it; each pod gets its own rank",
    "rank": "remove it; each process gets its own rank",
    "enabled": "remove it; what is empty is off",
}

# The same two for one workload.
ELSEWHERE_OF = {
    # Of the charts whose values name no workload.
    names.OPERATOR: {
        "rules.maxgpu": "rules.maxGpusPerJob",
        "rules.maxgpus": "rules.maxGpusPerJob",
        "watch.namespace": "watch.namespaces",
        "master.namespace": "master.namespaces",
    },
    "torchrun": {
        "masterport": "torchrun.port",
        "rdzvport": "torchrun.port",
        "rendezvousbackend": "torchrun.rdzvBackend",
        "minsize": "torchrun.elastic.minNodes",
        "maxsize": "torchrun.elastic.maxNodes",
        "minreplicas": "torchrun.elastic.minNodes",
        "maxreplicas": "torchrun.elastic.maxNodes",
    },
    "mpi": {
        # MPIJob, of any version
        "mpiimplementation": "mpi.implementation",
        "numworkers": "mpi.numWorkers",
        "workers": "mpi.numWorkers",
        "replicas": "mpi.numWorkers",
        "worker.replicas": "mpi.numWorkers",
        "launchertemplate": "mpi.launcher.podTemplate",
        "workertemplate": "mpi.worker.podTemplate",
        "launcheronmaster": "mpi.launcher.podTemplate",
        "mpi.launcher.template": "mpi.launcher.podTemplate",
        "mpi.worker.template": "mpi.worker.podTemplate",
        "mpi.launcher.command": "command",
        "mpi.launcher.args": "args",
        "mpi.worker.resources": "gpusPerNode or resources",
        "mpi.launcher.image": "image or mpi.launcher.podTemplate",
        "mpi.worker.image": "image or mpi.worker.podTemplate",
        # mpirun's options
        "slots": "mpi.slotsPerWorker",
        "slotsperhost": "mpi.slotsPerWorker",
        "nproc": "mpi.np",
        "nprocs": "mpi.np",
        "numproc": "mpi.np",
        "numprocs": "mpi.np",
        "worldsize": "mpi.np",
        "mpiargs": "mpi.mpirunArgs",
        "extraargs": "mpi.mpirunArgs",
        "sshport": "mpi.ssh.port",
        "sshkey": "mpi.ssh.existingSecret",
        "sshsecret": "mpi.ssh.existingSecret",
        "minreplicas": "mpi.elastic.minNodes",
        "maxreplicas": "mpi.elastic.maxNodes",
        "minnp": "mpi.elastic.minNodes",
        "maxnp": "mpi.elastic.maxNodes",
    },
    "elastic": {
        # TFJob, MXJob and ElasticJob
        "distributionstrategy": "elastic.strategy",
        "workers": "elastic.roles.worker.replicas",
        "numworkers": "elastic.roles.worker.replicas",
        "replicas": "elastic.roles.worker.replicas",
        **{
            f"{role}.replicas": f"elastic.roles.{role}.replicas"
            for role in ("chief", "worker", "ps", "evaluator", "scheduler", "server")
        },
        "minreplicas": "elastic.auto.minWorkers",
        "maxreplicas": "elastic.auto.maxWorkers",
        "minnodes": "elastic.auto.minWorkers",
        "maxnodes": "elastic.auto.maxWorkers",
        "resourcelimits": "elastic.auto.limits",
        "masterimage": "elastic.auto.master.image",
        "masterport": "elastic.port",
    },
    "sweep": {
        # Katib's Experiment, the trainer's OptimizationJob, Determined, and a chart of lists
        "paralleltrialcount": "sweep.parallel",
        "paralleltrials": "sweep.parallel",
        "maxconcurrenttrials": "sweep.parallel",
        "parallelism": "sweep.parallel",
        "maxtrialcount": "sweep.trials",
        "numtrials": "sweep.trials",
        "maxtrials": "sweep.trials",
        "completions": "sweep.trials",
        "maxfailedtrialcount": "sweep.maxFailedTrials",
        "maxfailedindexes": "sweep.maxFailedTrials",
        "backofflimitperindex": "runPolicy.backoffLimit",
        "objectivemetricname": "sweep.objective.metric",
        "algorithm": "sweep.search",
        "algorithmname": "sweep.search",
        "searcher": "sweep.search",
        "trialspec": "sweep.trial.values",
        "hyperparameters": "sweep.parameters",
        "hyperparamvalues": "sweep.parameters",
        "searchspace": "sweep.parameters",
    },
}

# What is a job's own, in a part of values that a queue gives.
_OF_A_JOB = {
    **dict.fromkeys(
        ("queueref", "layout", "workspace.snapshot"),
        "remove it; the command line writes it for each job",
    ),
    "workload": "remove it; each job names its own, and rules.workloads says which are allowed",
    **dict.fromkeys(
        names.WORKLOADS, "remove it; a queue gives what all workloads share, and this is one's own"
    ),
}

_PREFLIGHT = "remove it; only a torchrun job looks at its nodes before the training"

REMARKS_OF = {
    # Of the charts whose values name no workload: here a queue's.
    names.OPERATOR: {
        f"{block}.{key}": remark
        for block in ("defaults", "imposed")
        for key, remark in _OF_A_JOB.items()
    },
    "torchrun": {
        "restartpolicy": (
            "remove it; a failed pod counts against runPolicy.backoffLimit, and "
            "torchrun.maxRestarts restarts the processes inside a pod"
        ),
        "masteraddr": "remove it; rank 0 has a stable name of its own",
        "cleanpodpolicy": (
            "remove it; pods end with their job; see runPolicy.ttlSecondsAfterFinished"
        ),
        "standalone": "remove it; a job of one node is standalone by itself",
        "nopython": "remove it; `command` names its own interpreter",
    },
    "mpi": {
        "preflight": _PREFLIGHT,
        "restartpolicy": (
            "remove it; a failed pod is replaced, and counts against runPolicy.backoffLimit"
        ),
        "mpireplicaspecs": (
            "use mpi.numWorkers, mpi.launcher and mpi.worker; docs/guides/mpi.md has every field"
        ),
        "mpi.worker.command": "remove it; the chart keeps the workers up, and mpirun starts ranks",
        "mpi.worker.args": "remove it; the chart keeps the workers up, and mpirun starts ranks",
        "sshauthmountpath": "remove it; the chart gives the pods their key, in no home folder",
        "launchercreationpolicy": "remove it; the launcher always waits for the workers",
        "maincontainer": "remove it; it is always called trainer",
        "hostfile": "remove it; the chart writes it to /etc/mpi/hostfile",
        "serviceallpods": "remove it; every pod has a name already",
        "masterport": "remove it; mpirun has no such port, and a program chooses its own",
        "masteraddr": "remove it; the first host of /etc/mpi/hostfile has rank 0",
    },
    "elastic": {
        "preflight": _PREFLIGHT,
        "tfreplicaspecs": (
            "use elastic.roles, with replicas, resources and podTemplate of each role"
        ),
        "mxreplicaspecs": (
            "use elastic.roles, with replicas, resources and podTemplate of each role"
        ),
        "replicaspecs": "use elastic.roles, with replicas, resources and podTemplate of each role",
        "restartpolicy": (
            "remove it; a failed pod is replaced, and counts against runPolicy.backoffLimit"
        ),
        "cleanpodpolicy": (
            "remove it; the pods end with their lead; see runPolicy.ttlSecondsAfterFinished"
        ),
        "enabledynamicworker": "remove it; set elastic.mode: auto where workers come and go",
        "optimizemode": "remove it; set elastic.mode: auto where a master decides the size",
        "serviceallpods": "remove it; every pod has a name already",
        "masteraddr": "remove it; each pod is told the others' names",
        "tfconfig": "remove it; each pod is given its own TF_CONFIG",
    },
    "sweep": {
        "preflight": _PREFLIGHT,
        "trialtemplate": "use sweep.trial, and ${sweep.NAME} for ${trialParameters.NAME}",
        "trialparameters": "remove it; ${sweep.NAME} names a parameter wherever it stands",
        "metricscollectorspec": "use sweep.metrics",
        "feasiblespace": "write the space itself: values, range, uniform, logUniform or intUniform",
        "parametertype": "remove it; intUniform and range say what the numbers are",
        "successpolicy": "use sweep.objective.missedExitCode",
        "resumepolicy": "remove it; allranks sweep resume goes on with a sweep",
    },
}

# Fields of a pod that have no key of their own here.
POD_FIELDS = frozenset(
    {
        "containers",
        "dnsConfig",
        "enableServiceLinks",
        "hostAliases",
        "hostIPC",
        "hostPID",
        "hostUsers",
        "hostname",
        "initContainers",
        "nodeName",
        "os",
        "overhead",
        "preemptionPolicy",
        "readinessGates",
        "resourceClaims",
        "schedulingGates",
        "setHostnameAsFQDN",
        "shareProcessNamespace",
        "subdomain",
        "volumes",
    }
)

# Fields of a container that have no key of their own here.
CONTAINER_FIELDS = frozenset(
    {
        "lifecycle",
        "livenessProbe",
        "ports",
        "readinessProbe",
        "resizePolicy",
        "startupProbe",
        "stdin",
        "terminationMessagePath",
        "terminationMessagePolicy",
        "tty",
        "volumeDevices",
        "volumeMounts",
    }
)
