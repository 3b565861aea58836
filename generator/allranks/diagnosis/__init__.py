"""Why a run stands still: what its pods say of their ranks, and what follows from it.

What runs in the pods is in charts/torchrun/files (sitecustomize.py arms a rank, why.py asks it).
Here a pod's answer is read (`report`, `stacks`), compared with the others' (`collectives`,
`verdict`), and words are found for errors in logs (`log_lines`), all from data alone; `pods` asks.
"""
