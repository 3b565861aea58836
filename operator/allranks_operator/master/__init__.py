"""`allranks-master`: the process that manages one elastic job.

It makes the first plan, says who trains with whom (membership), reads the speed that workers
report, decides how many there are to be (`allranks.elastic.policy`), and ends as the job does: 0
succeeded, 1 failed. The operator does the rest: it makes plans come true and starts this process
again.

It has no state of its own that must not be lost: what the job is stands in the ElasticJob, who
trains is told again by the workers, and what was measured is kept in the job's history.
"""
