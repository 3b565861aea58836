"""From the size of a job to nodes, processes and placement: computed once, purely."""
