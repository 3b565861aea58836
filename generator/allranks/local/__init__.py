"""The local runtime: runs rendered manifests as processes of this machine.

A release's manifests run here as they stand, without a cluster. Each pod gets a loopback address,
its volumes become folders, and its containers become processes with a pod's life: init containers
in order, restarts with back-off, deadlines, exit codes, retries of an Indexed Job.

From data to effects, bottom to top::

    host        addresses, host names, processes and system calls of this machine
    plan        what a release is made of, as data; or a refusal that names what cannot run here
    mpi         how the pods of an MPI job reach each other
    state       the folder of a run: its status, Events and logs
    pod         what a container sees, and the life of its processes
    controller  the decisions of a Job and of a StatefulSet (pure)
    elastic     jobs whose pods come and go, by the operator's own decisions
    supervisor  the process that runs a release
    preflight   what is checked before anything starts
    runs        what the command line does: start, follow, end, delete
    values      what values mean on this machine

What a laptop cannot hold is not imitated: images are ignored (programs come from PATH), resources
are not enforced, probes and lifecycle hooks do not run, mounts are not mounts but rewritten paths.
"""
