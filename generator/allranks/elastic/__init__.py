"""Decisions about elastic jobs, without clock, cluster or files.

The operator and the local runtime call `decide` with a snapshot of a job and carry out the actions
that it returns, so that both treat a job alike.

    snapshot         the input: a job, its plans, pods and Services at one moment
    api              reading an ElasticJob (`job`) and a ScalePlan (`plan`), whatever wrote them
    target           the desired state: the only state, kept in the job's status
    members          the pods of a replica type, and their compact form
    decide           from the snapshot to the actions, by these steps:
      observed_pods    sorts the pods: the job's own and those of others
      pod_replacement  updates the desired state from the pods: who ended, who is replaced
      plans            admits ScalePlans, reports their progress, deletes the old ones, and
                       replaces running pods by pods of another size (`rolling_resize`)
      master_pod       keeps the master's pod, and ends the job with it
      reconcile        compares the desired state with pods and Services
    job_status       the status of the job, except for its desired state
    actions, events  the output: actions as data, and the reasons of Events
    withheld         refuses pods that would run as the operator
    scale_request    a new size that `allranks scale` asks for
    pods             the manifests of pods and Services
    policy           the size of a job, where our own master decides it
"""
