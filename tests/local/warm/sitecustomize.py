"""Python imports a module of this name as it starts, where its folder is in PYTHONPATH.

A process that will be one of our launchers gets its ranks here (see `forked_ranks`); each other
Python of a run goes on at once.
"""

import sys

if {word.rpartition("/")[2] for word in sys.orig_argv[1:4]} & {"launch.py", "elastic_agent.py"}:
    import forked_ranks

    forked_ranks.serve()
