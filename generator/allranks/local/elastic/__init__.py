"""Elastic jobs on one machine.

What the operator is in a cluster, the supervisor is here: it holds the ElasticJob, its plans and
its pods as the plain Kubernetes JSON they would be there, asks `allranks.elastic.decide` what is to
be done, and does it with processes. The master is a process as any pod's; it reads and writes a
folder where it has the API server in a cluster.

    objects        what runs here, as Kubernetes objects (pure)
    network        addresses, names and ports of pods that come and go
    preflight      what is checked before such a job starts
    shared_folder  the folder that the master, the supervisor and the command line share
    run            the job itself: look, decide, act
    requests       what the command line asks of a run that goes on: scale, suspend, resume
"""
