"""The operator: observes releases, decides, acts, and keeps the status of runs.

The package is a sibling of `allranks`, not a part of it: the command line never imports the
operator, and the operator imports only the lower layers of `allranks`.
"""
