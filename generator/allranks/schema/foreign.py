"""Names that other tools use for what our values call otherwise.

Keys are folded: lower case, letters and digits only, parts of a path joined by dots. A name
without a dot is taken at any depth.
"""

from __future__ import annotations

# The same thing, under our name.
ELSEWHERE = {
    # torchrun's options and environment
    "nnodes": "nodes",
    "nprocpernode": "procsPerNode",
    "nproc": "procsPerNode",
    "masterport": "torchrun.port",
    "rdzvport": "torchrun.port",
    "rendezvousbackend": "torchrun.rdzvBackend",
    "minsize": "torchrun.elastic.minNodes",
    "maxsize": "torchrun.elastic.maxNodes",
    # job operators
    "replicas": "nodes",
    "numnodes": "nodes",
    "parallelism": "nodes",
    "completions": "nodes",
    "workers": "nodes",
    "numworkers": "nodes",
    "minreplicas": "torchrun.elastic.minNodes",
    "maxreplicas": "torchrun.elastic.maxNodes",
    "worldsize": "gpus",
    "numgpus": "gpus",
    "ngpus": "gpus",
    "gpucount": "gpus",
    "numprocpernode": "procsPerNode",
    "gputypes": "gpuType",
    "retries": "runPolicy.backoffLimit",
    "timeout": "runPolicy.activeDeadlineSeconds",
    "queuename": "queue",
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
    "restartpolicy": (
        "remove it; a failed pod counts against runPolicy.backoffLimit, and "
        "torchrun.maxRestarts restarts the processes inside a pod"
    ),
    "noderank": "remove it; each pod gets its own rank",
    "masteraddr": "remove it; rank 0 has a stable name of its own",
    "rank": "remove it; each process gets its own rank",
    "cleanpodpolicy": "remove it; pods end with their job; see runPolicy.ttlSecondsAfterFinished",
    "enabled": "remove it; what is empty is off",
    "standalone": "remove it; a job of one node is standalone by itself",
    "nopython": "remove it; `command` names its own interpreter",
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
