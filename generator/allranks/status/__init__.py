"""From native Kubernetes objects to the status of a run, and nothing else.

One pure function serves everything that asks how a run is doing: `allranks status` calls it on what
`allranks.cluster.observe` has just listed, the watcher on what it keeps. Same objects, same answer.

    observation   what was seen of a release, as plain Kubernetes JSON
    fields        reading that JSON, where any field may be missing
    raw           one pod's JSON, taken apart once; containers: its containers
    endings       how a pod ended: by its own doing, or as a disruption
    podcause      what one pod waits for; placing, starting: a node, a start, in plain words
    pods          all that is known of one pod
    facts         what is known of a controller, whatever its kind
    controllers   one Job or StatefulSet: how many pods, and how it ended; indexes: sets of them
    elasticjobs   an ElasticJob, taken for one controller per role
    standing      which pod stands for which rank, and what became of those before it
    blame         which bad end a run failed of, here and on a cluster
    failures      which container failed first, in words, and whose log says why
    events        which events still matter; creating: why pods are not created, in plain words
    queueing      what a queue or a gang scheduler says
    waiting       what a run waits for, in a sentence, out of one `cause` after the other
    phases        the phase of the whole
    removed       a release whose Job is gone
    reduce        all of it together
    conditions    what kubectl and Helm wait for; progress: how far pods say they are
    trainingrun   from the status of a run to that of its TrainingRun
"""
