"""The size of an elastic job: pure decisions of our own master.

`initial_plan.plan` returns the first plan. `step.step` is called again and again with an
observation of the running job; it returns what to change, and a sentence with the reason. Nothing
here reads a clock, a file or a cluster, so a job of hours is simulated in milliseconds.
"""
