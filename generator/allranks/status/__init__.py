"""From native Kubernetes objects to the status of a run.

One pure function serves every reader: `allranks status` calls it on the objects that
`allranks.cluster.observe` has just listed, the operator on those in its cache. Equal objects give
an equal status.

    observation      the input: the objects of a release, as plain Kubernetes JSON
    pod_json         a pod's JSON, parsed once: its containers, and how they ended
    pods             the facts about one pod
    pod_pending      the cause for which one pod waits; pod_reasons: in plain words
    controllers      a Job, StatefulSet or ElasticJob as one form: controller_facts
    replica_specs    the types of an ElasticJob, in any case
    retries          the retries of a Job's pods
    ranks            assigns pods to ranks, with those that were replaced
    failures         the container that failed first, and the log that explains it
    processes        the ranks in each pod
    events           the newest event about each object
    create_errors    the API server's reasons for refusing pods
    queues           the place in a queue, or with a gang scheduler
    pending          why a run waits, in one sentence, out of many a `cause`
    deletion         releases that are being deleted, or are gone
    node_faults      what is wrong with the nodes of a run
    remarks          services and evictions
    reduce           all of it together: the status
    progress         the progress that pods report
    training_run     from the status of a run to that of its TrainingRun
"""
